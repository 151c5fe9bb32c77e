"""HIPS autograd's own tests and examples, run on wengert.

    python benchmarks/autograd_suite.py CHECKOUT                             its tests
    python benchmarks/autograd_suite.py CHECKOUT --examples [--mnist FOLDER] its examples

CHECKOUT is a checkout of https://github.com/HIPS/autograd, of which nothing is kept here. What it
imports as `autograd` is `benchmarks/autograd_layer`: its names, as thin as they can be, over
wengert. Printed are how many pass, and why others do not; thirteen are skipped without xarray. An
example works if it ends well, or is still at it after a minute. Those that fetch MNIST from the
network find the four files of FOLDER already there, and are left out without it; those that fail
on autograd itself are told apart.
"""

import argparse
import collections
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Not examples themselves, and those that fetch data unless it is in the folder `data`.
HELPERS = {"__init__.py", "data.py", "data_mnist.py"}
WITH_DATA = {
    "convnet.py", "generative_adversarial_net.py", "neural_net.py", "variational_autoencoder.py",
}  # fmt: skip


def environment(original=None):
    """The environment in which `autograd` is the layer over this wengert, or the `original`."""
    own = [HERE / "autograd_layer", HERE.parent / "src"] if original is None else [original]
    places = [*own, os.environ.get("PYTHONPATH")]
    path = os.pathsep.join(str(place) for place in places if place)
    return {**os.environ, "PYTHONPATH": path, "MPLBACKEND": "Agg"}


def run_tests(checkout, options):
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", checkout]
        command += ["-p", "no:cacheprovider", "-W", "ignore", "--tb=no", "--no-header"]
        command += [f"--junitxml={report}", str(Path(checkout) / "tests"), *options]
        subprocess.run(command, env=environment(), stdout=subprocess.DEVNULL, check=False)
        cases = ElementTree.parse(report).getroot().iter("testcase")
        outcomes = [outcome(case) for case in cases]
    counts = collections.Counter(state for state, _, _ in outcomes)
    print(f"{counts['passed']} of {len(outcomes)} passed, ", end="")
    print(f"{counts['failed']} failed, {counts['skipped']} skipped\n")
    for state, name, reason in outcomes:
        if state != "passed":
            print(f"{state:8} {name:60} {reason}")
    return counts["failed"]


def outcome(case):
    """What became of a test, its name, and why."""
    name = f"{case.get('classname').split('.')[-1]}::{case.get('name')}"
    for child in case:
        state = {"failure": "failed", "error": "failed", "skipped": "skipped"}.get(child.tag)
        if state:
            return state, name, (child.get("message") or "").splitlines()[0][:150]
    return "passed", name, ""


def run_examples(checkout, seconds, mnist):
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "examples"
        shutil.copytree(Path(checkout) / "examples", place)
        scripts = sorted(path for path in place.rglob("*.py") if path.name not in HELPERS)
        for script in scripts:
            name = str(script.relative_to(place))
            if script.name in WITH_DATA and mnist:
                shutil.copytree(mnist, script.parent / "data", dirs_exist_ok=True)
            elif script.name in WITH_DATA:
                print(f"left out {name:45} needs MNIST from the network", flush=True)
                continue
            works, reason = run_example(script, seconds, environment())
            if not works and not run_example(script, seconds, environment(checkout))[0]:
                print(f"likewise {name:45} fails on autograd itself: {reason}", flush=True)
                continue
            failed += not works
            print(f"{'works' if works else 'failed':8} {name:45} {reason}", flush=True)
        print(f"\n{failed} examples failed")
    return failed


def run_example(script, seconds, variables):
    command = [sys.executable, "-W", "ignore", str(script)]
    try:
        done = subprocess.run(
            command, env=variables, cwd=script.parent, capture_output=True, text=True,
            timeout=seconds, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return True, f"still at it after {seconds} s"
    last = (done.stderr.strip().splitlines() or [""])[-1]
    return done.returncode == 0, last[:150] if done.returncode else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", help="a checkout of HIPS/autograd")
    parser.add_argument("--examples", action="store_true", help="run its examples, not its tests")
    parser.add_argument("--mnist", help="a folder with the files of MNIST, for the examples")
    parser.add_argument("--seconds", type=int, default=60, help="for each example")
    arguments, options = parser.parse_known_args()
    if arguments.examples:
        return run_examples(arguments.checkout, arguments.seconds, arguments.mnist)
    return run_tests(arguments.checkout, options)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
