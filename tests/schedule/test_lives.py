"""Which buffers overlap in the arena, found in time that grows with their number."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wengert.errors import LoopError
from wengert.loops import Buffer, MemoryKind, c_strides
from wengert.schedule.verify import arena
from wengert.schedule.verify.arena import Lives

MOST = 64


def buffer(offset, size):
    made = Buffer("t", np.dtype(np.int8), (size,), c_strides((size,)), MemoryKind.ARENA)
    made.offset = offset
    return made


def lives_of(spans):
    lives = Lives(lambda _: True)
    for first, last, offset, size in spans:
        one = buffer(offset, size)
        lives.note(first, [one])
        lives.note(last, [one])
    return lives


def meet(one, other):
    """Whether two of (first kernel, last kernel, offset, size) need one byte at one time."""
    in_time = one[0] <= other[1] and other[0] <= one[1]
    return in_time and one[2] < other[2] + other[3] and other[2] < one[2] + one[3]


spans = st.tuples(
    st.integers(0, 8), st.integers(0, 8), st.integers(0, MOST - 8), st.integers(1, 8)
).map(lambda s: (min(s[:2]), max(s[:2]), *s[2:]))


@given(st.lists(spans, max_size=8))
def test_as_each_pair_says(chosen):
    if any(meet(*pair) for pair in itertools.combinations(chosen, 2)):
        with pytest.raises(LoopError, match="overlap"):
            lives_of(chosen).verify(MOST, "the arena")
    else:
        lives_of(chosen).verify(MOST, "the arena")


def test_a_buffer_that_ends_behind_the_arena():
    with pytest.raises(LoopError, match="lies at bytes 60 to 68, but there are 64"):
        lives_of([(0, 1, 60, 8)]).verify(MOST, "the arena")


def test_many_that_live_at_once_are_compared_with_their_neighbours_only(monkeypatch):
    compared = []
    monkeypatch.setattr(arena, "_overlap", lambda *pair: compared.append(pair))
    count = 2000
    lives_of([(n, count, 8 * n, 8) for n in range(count)]).verify(8 * count, "the arena")
    assert len(compared) <= 2 * count
