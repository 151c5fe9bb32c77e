"""The time to compile a long program grows as the program does, not as its square."""

import functools
import time

import pytest

import wengert as wg
from wengert.bench import hosted
from wengert.codegen import cache

RECURSIONS = {
    "sums": (hosted.sum_by_halves, 128),
    "wavelets": (hosted.merge_by_halves, 128),
    "Fourier transforms": (hosted.fourier_by_halves, 32),
}


def _seconds(case):
    f, x = case
    compiled = wg.jit(wg.value_and_grad(f))
    start = time.process_time()
    compiled(x)
    return time.process_time() - start


@pytest.mark.exhaustive
@pytest.mark.timing
@pytest.mark.parametrize("name", RECURSIONS)
def test_recursion_over_halves(name, monkeypatch):
    monkeypatch.setenv("WENGERT_CACHE", "off")
    monkeypatch.setattr(cache, "shared_cache", functools.cache(cache.ObjectCache))
    recursion, n = RECURSIONS[name]
    _seconds(recursion(8))  # what is imported and built once
    # a square would be sixteen times as long; the best of two, on a busy machine
    assert min(_seconds(recursion(4 * n)) / _seconds(recursion(n)) for _ in range(2)) < 8
