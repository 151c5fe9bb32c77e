"""Nests that hardly count are compiled as they are written; all others are improved."""

import re

import numpy as np
import pytest

import wengert as wg
from wengert.codegen import writing


@pytest.fixture
def functions(monkeypatch):
    """Compiles a call; for each nest's function whether LLVM is to leave it as it is."""
    texts = []
    text_of = writing.text_of

    def kept(module):
        texts.append(text_of(module))
        return texts[-1]

    monkeypatch.setenv("WENGERT_CACHE", "off")
    monkeypatch.setattr(writing, "text_of", kept)

    def compiled(function, *args):
        np.testing.assert_allclose(wg.jit(function)(*args), function(*args))
        lines = re.findall(r'^define internal void @"kernel0\.\d+".*$', texts[-1], re.MULTILINE)
        return ["optnone" in line for line in lines]

    return compiled


def test_a_few_numbers_beside_a_large_array(functions):
    def both(x, few):
        return np.sum(np.exp(np.sin(x))) * np.cumsum(np.tanh(few))

    found = functions(both, np.ones(1_000_000), np.ones(5))
    assert any(found)
    assert not all(found)


def test_nothing_is_minor_where_all_is_small(functions):
    assert not any(functions(lambda x: np.cumsum(np.tanh(x)) / np.sum(x), np.ones(50)))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.bool_])
def test_bytes_are_never_left_as_they_are_written(functions, dtype):
    """LLVM 22.1 ends the process at lanes of bytes that it does not improve."""

    def both(x, few):
        last = np.max(few) + np.argmin(few * 2) + np.prod(few, dtype=dtype)
        return np.sum(np.exp(np.sin(x))) * last

    functions(both, np.ones(1_000_000), (np.arange(30) % 3 + 1).astype(dtype))


def test_places_of_extremes_beside_a_large_array(functions):
    def both(x, few):
        place = np.argmin(few, 0, keepdims=True)
        return np.sum(np.exp(np.sin(x))) * np.take_along_axis(few, place, 0)

    functions(both, np.ones(1_000_000), np.sin(np.arange(30)).astype(np.float32))
