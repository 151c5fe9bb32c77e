"""Where cross validation runs: processes, MPI, dask; the same results in the same order."""

import json
import os
import subprocess
import sys

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


def test_what_cannot_be_is_said(capsys):
    assert cli.main(["reproduce", "cnn", "--executor", "mpi"]) == 2
    assert "--executor is for circles alone" in capsys.readouterr().err
