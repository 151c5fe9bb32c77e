"""The array API's own tests, run on `wengert.numpy` and on NumPy.

    python benchmarks/array_api_suite.py CHECKOUT [--examples 20] [options of pytest]

CHECKOUT is a checkout of https://github.com/data-apis/array-api-tests with its submodule, of which
nothing is kept here. Printed is what fails on `wengert.numpy` and not on NumPy: nothing should.
Some tests draw a single number without a seed: what failed on `wengert.numpy` alone is run again on
NumPy, and told only if NumPy passes each time. A plain NumPy array does not know wengert, so the
tests see functions on plain arrays; that traced values give the same is what wengert's own tests
are for.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
AGAIN = 10  # times
# Python evaluates this in the tests: the namespace must be found under a name.
NAMESPACES = {"numpy": "numpy", "wengert.numpy": "exec('import wengert.numpy as xp')"}


def run(checkout, namespace, examples, options):
    """The tests that passed, those that failed with their reasons, and those that were skipped.

    The options name the tests, as pytest has it, if not all are to be run.
    """
    path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
    environment = {
        **os.environ, "PYTHONPATH": path, "ARRAY_API_TESTS_MODULE": NAMESPACES[namespace],
        "ARRAY_API_TESTS_VERSION": "2024.12",
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no"]
        # of one seed: what fails on one alone was not drawn for it alone
        command += ["-W", "ignore", "--disable-deadline", f"--max-examples={examples}"]
        command += ["--hypothesis-seed=0"]
        if not any(option.startswith("array_api_tests") for option in options):
            options = ["array_api_tests", *options]
        command += [f"--junitxml={report}", *options]
        done = subprocess.run(command, cwd=checkout, env=environment, stdout=subprocess.DEVNULL)
        if not report.exists():
            sys.exit(f"pytest ended with {done.returncode} and no report: is the submodule there?")
        return outcomes(ElementTree.parse(report).getroot().iter("testcase"))


def outcomes(cases):
    found = {"passed": {}, "failed": {}, "skipped": {}}
    for case in cases:
        name = f"{case.get('classname').replace('.', '/')}.py::{case.get('name')}"
        state, reason = "passed", ""
        for child in case:
            state = "skipped" if child.tag == "skipped" else "failed"
            reason = " ".join((child.get("message") or "").split())[:200]
        found[state][name] = reason
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", help="a checkout of data-apis/array-api-tests")
    parser.add_argument("--examples", type=int, default=20, help="drawn for each test")
    arguments, options = parser.parse_known_args()
    found = {}
    for namespace in NAMESPACES:
        found[namespace] = run(arguments.checkout, namespace, arguments.examples, options)
        counts = ", ".join(f"{len(tests)} {state}" for state, tests in found[namespace].items())
        print(f"{namespace}: {counts}", flush=True)
    known = found["numpy"]["failed"]
    new = {n: why for n, why in found["wengert.numpy"]["failed"].items() if n not in known}
    for _ in range(AGAIN):
        if new:
            again = run(arguments.checkout, "numpy", arguments.examples, [*options, *new])
            new = {n: why for n, why in new.items() if n not in again["failed"]}
    print(f"\n{len(new)} fail on wengert.numpy alone")
    for name, reason in new.items():
        print(f"{name}\n    {reason}")
    return len(new)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
