"""A program on disk is for the machine, the cores and the thresholds that it was compiled for."""

import os
import subprocess
import sys

import numpy as np
import pytest

import wengert as wg
from wengert import machine
from wengert.codegen import cache as cache_module

SHARED_PRODUCT = """
import os, sys
wanted = sorted(os.sched_getaffinity(0))[: int(sys.argv[1])]
os.sched_setaffinity(0, wanted)
import numpy as np
import wengert as wg
from wengert.runtime import threads

f = wg.jit(lambda x, y: x @ y)
x = np.ones((512, 512), np.float32)
f(x, x)
(programs,) = f._programs.values()
print(threads.running_workers(), programs[0].from_record)
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be chosen here")
@pytest.mark.skipif(
    hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) < 2, reason="one core"
)
def test_what_was_compiled_on_one_core_does_not_stay_on_one_thread(tmp_path):
    around = {name: value for name, value in os.environ.items() if name != "WENGERT_THREADS"}
    around["WENGERT_CACHE"] = str(tmp_path / "objects")

    def run(cores):
        program = [sys.executable, "-c", SHARED_PRODUCT, str(cores)]
        ran = subprocess.run(program, capture_output=True, text=True, check=True, env=around)
        return ran.stdout.split()

    assert run(1) == ["0", "False"]
    assert run(2) == ["1", "False"]
    assert run(2) == ["1", "True"]
    assert run(1) == ["0", "True"]


@pytest.fixture
def on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("WENGERT_CACHE", str(tmp_path / "objects"))
    cache_module.shared_cache.cache_clear()
    yield
    cache_module.shared_cache.cache_clear()


def network(x, w):
    return np.sum(np.tanh(x @ w), axis=0)


def is_found():
    """Whether the program was on disk."""
    jitted = wg.jit(network)
    jitted(np.ones((64, 32), np.float32), np.ones((32, 32), np.float32))
    ((program,),) = jitted._programs.values()
    return program.from_record


@pytest.mark.parametrize(
    "changes",
    [
        {"cores": 1},
        {"l2_bytes": 3 << 20},
        {"vector_bytes": 16},
        {"regions": {"least_work": 0}},
        {"threads": {"least_task": 1}},
        {"code": {"in_line": 0}},
    ],
    ids=str,
)
def test_what_is_chosen_is_part_of_the_key(on_disk, changes):
    with machine.use(cores=2):
        assert [is_found(), is_found()] == [False, True]
        with machine.use(**changes):
            assert [is_found(), is_found()] == [False, True]
        assert is_found()


def results(jitted, arguments):
    return [np.asarray(leaf).tobytes() for leaf in wg.tree.leaves(jitted(*arguments))]


def test_the_same_bits_for_any_number_of_cores(on_disk):
    rng = np.random.default_rng(0)
    arguments = [rng.normal(size=s).astype(np.float32) for s in ((600, 300), (300, 500))]
    found = []
    for cores in (1, 2, 3, 16):
        with machine.use(cores=cores):
            found.append(results(wg.jit(wg.value_and_grad(loss, argnums=(0, 1))), arguments))
    assert all(other == found[0] for other in found[1:])


def loss(x, w):
    return np.sum(np.tanh(x @ w) @ np.tanh(w.T @ x.T))
