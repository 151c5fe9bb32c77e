"""Arguments of which any element may be asked for are complete before the first one is read."""

import numpy as np
import pytest

import wengert as wg
from wengert.loops import Pointwise
from wengert.ops.op import REGISTRY
from wengert.schedule import schedule
from wengert.schedule.verify import verify_loops
from wengert.trace import trace

RNG = np.random.default_rng(0)
X, FALLING = RNG.normal(size=6), -np.sort(RNG.normal(size=6))
PLACES = RNG.integers(0, 6, 6)

# all of one length, so that the loops that make an argument are those that read it
PROGRAMS = {
    "searchsorted in a reversed array": lambda x, b: np.searchsorted(b[::-1], x),
    "searchsorted for itself": lambda x, b: np.searchsorted(np.exp(-b), np.exp(-b)),
    "searchsorted, and more of both": lambda x, b: (
        np.searchsorted(np.exp(-b), np.exp(x)) * np.exp(-b) + np.exp(x)
    ),
    "searchsorted in running sums": lambda x, b: np.searchsorted(np.cumsum(x**2), b),
    "digitize": lambda x, b: np.digitize(x, b[::-1]),
    "digitize, falling": lambda x, b: np.digitize(x, b * 2),
    "interp": lambda x, b: np.interp(x, b[::-1], np.sin(b)),
    "take": lambda x, b: np.take(np.exp(x), PLACES) + np.exp(x),
    "take where found": lambda x, b: np.exp(x)[np.searchsorted(b[::-1], x) % 6] * x,
    "windows": lambda x, b: np.lib.stride_tricks.sliding_window_view(np.exp(x), 6) * b,
    "sort": lambda x, b: np.sort(np.exp(x)) * np.exp(x),
    "several": lambda x, b: wg.vmap(lambda u, v: np.searchsorted(np.exp(-v), np.exp(u)))(
        np.outer(x, x), np.outer(x * x, b)
    ),
    "in a loop": lambda x, b: wg.scan(
        lambda c, t: (c + np.searchsorted(np.exp(-b) * t, np.exp(c)), c[0]), x, x**2
    )[0],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_of_it_is_there(name):
    program = PROGRAMS[name]
    np.testing.assert_allclose(wg.jit(program)(X, FALLING), program(X, FALLING), rtol=1e-14)


def _reads_all(op):
    for args, params in op.samples(np.random.default_rng(0)) if op.samples else ():
        loops = op.loops(**params) if callable(op.loops) else op.loops
        if isinstance(loops, Pointwise) and loops.whole:
            yield args, params, loops.whole


@pytest.mark.parametrize("name", [name for name, op in REGISTRY.items() if any(_reads_all(op))])
def test_every_operation_that_asks_for_any_element(name):
    op = REGISTRY[name]
    for args, params, whole in _reads_all(op):

        def program(*values, params=params, whole=whole):
            made = [v + v if n in whole else v for n, v in enumerate(values)]
            return op(*made, **params), [made[n] for n in whole]

        verify_loops(schedule(trace(program, *args)))
