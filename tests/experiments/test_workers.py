"""Work in other processes: what arrives, what fails, what is stopped; and memory."""

import subprocess
import sys
import time

import pytest

from wengert.experiments import memory, workers
from wengert.experiments.workers import WorkerError, stream, stream_all

HERE = "job_of_test_workers"
JOBS = """
import os, sys, time

def count(emit, upto):
    for n in range(upto):
        emit({"n": n})
    print("this is no result")

def fail(emit):
    emit({"n": 0})
    raise ValueError("broken on purpose")

def die(emit):
    os._exit(7)

def wait(emit):
    emit({"pid": os.getpid()})
    time.sleep(60)
"""


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    (tmp_path / f"{HERE}.py").write_text(JOBS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def is_alive(pid):
    return subprocess.run(["kill", "-0", str(pid)], capture_output=True).returncode == 0


def test_items_arrive_and_prints_do_not(jobs):
    assert list(stream(f"{HERE}:count", upto=3)) == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_what_came_before_a_failure_is_kept(jobs):
    seen = []
    with pytest.raises(WorkerError, match="broken on purpose") as error:
        for item in stream(f"{HERE}:fail"):
            seen.append(item)
    assert seen == [{"n": 0}]
    assert str(error.value).startswith(f"{HERE}:fail failed in its process:\nTraceback")


def test_a_process_that_dies_is_an_error(jobs):
    with pytest.raises(WorkerError, match=f"{HERE}:die: its process ended with status 7"):
        list(stream(f"{HERE}:die"))


def test_leaving_early_ends_the_process(jobs):
    items = stream(f"{HERE}:wait")
    pid = next(items)["pid"]
    items.close()
    assert not is_alive(pid)


def test_jobs_side_by_side(jobs):
    found = {0: [], 1: [], 2: []}
    for number, item in stream_all([(f"{HERE}:count", {"upto": n}) for n in (2, 3, 1)], 2):
        found[number].append(item["n"])
    assert found == {0: [0, 1], 1: [0, 1, 2], 2: [0]}


def test_a_failure_ends_all_jobs(jobs):
    pids = []
    started = time.monotonic()
    with pytest.raises(WorkerError, match="broken on purpose"):
        for _, item in stream_all([(f"{HERE}:wait", {}), (f"{HERE}:fail", {})], 2):
            pids += [item["pid"]] if "pid" in item else []
    assert time.monotonic() - started < 50
    assert not any(is_alive(pid) for pid in pids)


def test_a_worker_runs_this_very_package():
    (item,) = stream("wengert.experiments.workers:_tell_origin")
    assert item == {"file": workers.__file__}


# ---------------------------------------------------------------- memory


def test_python_allocations_count_what_was_freed_again():
    with memory.PythonAllocations() as found:
        del [bytes(3_000_000)][0:1]
        bytes(2_000_000)
    assert 3_000_000 <= found.bytes < 3_100_000


def test_native_allocations_see_numpy_and_stay_at_zero_without():
    import numpy as np

    if memory.native_bytes() is None:
        pytest.skip("this C library does not say")
    with memory.NativeAllocations() as found:
        kept = np.ones(1_000_000)
    assert found.bytes >= kept.nbytes


def test_the_peak_is_that_of_the_process_alone():
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux keeps the peak of a program apart from that of its parent")
    ballast = bytearray(b"x") * 300_000_000
    code = "from wengert.experiments.memory import peak_resident_bytes as p; print(p())"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < len(ballast)
