"""Compiled calls allocate their results and nothing else, and with `out=` nothing at all."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert import machine

# What CPython itself takes, and gives back, to pass a keyword on.
KEYWORDS = 100


@pytest.fixture(scope="module")
def counts():
    if not sys.platform.startswith("linux"):
        pytest.skip("counts allocations by the tables of ELF libraries")
    script = Path(__file__).with_name("counting_malloc.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_counter_counts(counts):
    found = counts["a bytearray"]
    assert found["calls"] == 1000 and found["bytes"] == 1000 * 1001
    assert 1001 <= found["traced"] < 1001 + 2 * KEYWORDS


@pytest.mark.parametrize("case", ["out", "out, a tree", "out, in parallel", "a training step"])
def test_calls_with_out_allocate_nothing(counts, case):
    assert counts[case]["calls"] == counts[case]["bytes"] == 0
    assert counts[case]["traced"] < KEYWORDS


def test_a_step_that_returns_its_loss_makes_one_number(counts):
    assert counts["a loss"]["calls"] == 0
    assert counts["a loss"]["traced"] < KEYWORDS + sys.getsizeof(np.float64())


def test_other_calls_allocate_their_results(counts):
    assert counts["a result"]["calls"] == 1000
    assert counts["a result"]["bytes"] == 1000 * 8000
    assert counts["two results"]["bytes"] == 1000 * 16000


def test_memory_says_what_a_call_allocates():
    one = wg.jit(lambda x: (wnp.sin(x), wnp.sum(x), [x * 2]))
    said = one.memory(np.ones(10))
    assert (said["allocations_per_call"], said["allocations_with_out"]) == (2, 0)
    evaluated = wg.jit(lambda x: wnp.real(wnp.fft.fft(x)))  # by NumPy
    with machine.use(numpy_loops=False):
        said = evaluated.memory(np.ones((3, 3)))
    assert said["allocations_with_out"] >= 1
