"""Where cross validation runs: processes, MPI, dask; the same results in the same order."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import ranks
from wengert import cli
from wengert.experiments import circles, executors
from wengert.experiments.workers import stream_on

JOBS = [
    (circles.SEARCH, {"model": "relu", "rates": [rate], "epochs": 1, "points": 50})
    for rate in (0.01, 0.1)
]


def found_by(executor, keep=None):
    return [
        (number, item["rate"], item["test"]) for number, item in stream_on(JOBS, executor, keep)
    ]


@pytest.fixture(scope="module")
def expected():
    """What a process alone finds."""
    return found_by(None)


def test_the_command_knows_all_of_them():
    assert set(cli.EXECUTORS) == set(executors.EXECUTORS)


@pytest.mark.slow
def test_processes_find_the_same_and_what_is_done_is_not_done_again(expected, tmp_path):
    with executors.executor_named("processes") as executor:
        assert found_by(executor, tmp_path) == expected
    assert found_by(None, tmp_path) == expected  # from files alone
    assert len(os.listdir(tmp_path)) == len(JOBS)


@pytest.mark.slow
def test_dask_finds_the_same(expected, monkeypatch):
    client = pytest.importorskip("dask.distributed").Client
    local = client(processes=False, dashboard_address=None, n_workers=1, threads_per_worker=1)
    with local as executor:
        assert found_by(executor) == expected


PROGRAM = """
import json, sys
from wengert.experiments import executors
sys.path.insert(0, sys.argv[1])
import test_executors
with executors.executor_named("mpi") as executor:
    if executor is not None:
        print(json.dumps(test_executors.found_by(executor)))
"""


@ranks.needs_mpi
@pytest.mark.slow
def test_ranks_find_the_same(expected):
    here = os.path.dirname(__file__)
    command = [ranks.MPIEXEC, "-n", "3", sys.executable, "-c", PROGRAM, here]
    environment = ranks.environment()
    environment["PYTHONPATH"] += os.pathsep + os.path.dirname(here)
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    assert [tuple(one) for one in json.loads(done.stdout)] == expected


def command(executor, out):
    python = [sys.executable, "-m", "wengert.cli", "reproduce", "circles", "--cv", "--epochs", "1"]
    launcher = [ranks.MPIEXEC, "-n", "3"] if executor == "mpi" else []
    return [*launcher, *python, "--executor", executor, "--out", str(out)]


def tables_of(out):
    """What was found, without times."""
    tables = json.loads((out / "results.json").read_text())["experiments"]["circles"]["tables"]
    timed = ("seconds", "step")
    return {
        name: [{k: v for k, v in row.items() if k not in timed} for row in rows]
        for name, rows in tables.items()
    }


def children_of(pid):
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes")
def test_the_command_is_killed_and_goes_on(tmp_path):
    """On processes, which end with it; ranks and dask then find the same."""
    out, kept = tmp_path / "processes", tmp_path / "processes" / "sweep"
    environment = ranks.environment() | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    options = {"env": environment, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    first = subprocess.Popen(command("processes", out), **options)
    until = time.monotonic() + 120
    while not (done := set(kept.glob("*.safetensors"))) and time.monotonic() < until:
        assert first.poll() is None
        time.sleep(0.05)
    children = children_of(first.pid)
    first.kill()
    first.wait()
    assert done
    subprocess.run(command("processes", out), check=True, timeout=300, **options)
    assert not [child for child in children if Path(f"/proc/{child}").exists()]
    times = {path: path.stat().st_mtime_ns for path in kept.iterdir()}
    assert max(times[path] for path in done) < min(times[path] for path in set(times) - done)
    found = tables_of(out)
    assert len(found["search"]) == len(found["models"]) == 6
    others = ["mpi"] if ranks.needs_mpi.args == (False,) else []
    others += ["dask"] if importlib.util.find_spec("dask") else []
    for other in others:
        subprocess.run(command(other, tmp_path / other), check=True, timeout=300, **options)
        assert tables_of(tmp_path / other) == found


def test_what_cannot_be_is_said(capsys):
    assert cli.main(["reproduce", "cnn", "--executor", "mpi"]) == 2
    assert "--executor is for circles alone" in capsys.readouterr().err
