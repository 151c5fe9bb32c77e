"""Random programs of branches and loops: evaluated, compiled, differentiated and mapped as Python's
own control flow is."""

import os

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from flow_programs import Python, assert_same

SEED = int(os.environ.get("WENGERT_RANDOM_SEED", "0"))
PROGRAMS = int(os.environ.get("WENGERT_RANDOM_FLOWS", "100"))
NAMES = ("a", "b", "c")


class Writer:
    """Writes a program: steps from the values of three variables to new ones."""

    def __init__(self, rng):
        self.rng = rng

    def one_of(self, choices):
        return choices[self.rng.integers(len(choices))]

    def block(self, depth):
        return [self.step(depth) for _ in range(self.rng.integers(1, 4))]

    def step(self, depth):
        kind = self.one_of("eeeeccswwf") if depth else "e"
        if kind == "e":
            return self.assignment()
        name, inner, other = self.one_of(NAMES), self.block(depth - 1), self.block(depth - 1)
        level, most = float(self.rng.normal()), int(self.rng.integers(4))
        above = lambda v: wnp.sum(v[name]) > level
        if kind == "c":
            return lambda lib, v: lib.cond(
                above(v), lambda v: run(lib, inner, v), lambda v: run(lib, other, v), v
            )
        if kind == "s":
            index = lambda v: wnp.floor(wnp.sum(v[name])).astype(int)
            branches = lambda lib: [
                lambda v: run(lib, inner, v),
                lambda v: v,
                lambda v: run(lib, other, v),
            ]
            return lambda lib, v: lib.switch(index(v), branches(lib), v)
        if kind == "w":
            going = lambda s: wnp.logical_and(s[1] < most, above(s[0]))
            return lambda lib, v: lib.while_loop(
                going, lambda s: (run(lib, inner, s[0]), s[1] + 1), (v, 0)
            )[0]
        count = lambda v: most + wnp.sum(v[name] > 0.3) if level > 0 else most
        return lambda lib, v: lib.fori_loop(
            0, count(v), lambda i, v: run(lib, inner, {**v, name: v[name] + 0.1 * i}), v
        )

    def assignment(self):
        to, a, b = (self.one_of(NAMES) for _ in range(3))
        c = float(np.round(self.rng.normal(), 2))
        value = self.one_of(
            [
                lambda v: v[a] + v[b],
                lambda v: v[a] * v[b],
                lambda v: np.tanh(v[a]) * c,
                lambda v: v[a] - c,
                lambda v: v[a] / (1 + v[b] * v[b]),
                lambda v: np.maximum(v[a], v[b]),
                lambda v: np.exp(-v[a] * v[a]),
            ]
        )
        return lambda lib, v: {**v, to: value(v)}


def run(lib, steps, values):
    for step in steps:
        values = step(lib, values)
    return values


def check(seed):
    rng = np.random.default_rng(seed)
    steps = Writer(rng).block(2)
    dtype, shape = [np.float64, np.float32][seed % 2], [(), (3,), (2, 2)][rng.integers(3)]
    args = [np.asarray(rng.normal(size=shape), dtype)[()] for _ in NAMES]
    tolerance = 1e-8 if dtype is np.float64 else 5e-3

    def f(lib, *args):
        return run(lib, steps, dict(zip(NAMES, args, strict=True)))

    def gradient(lib):
        total = lambda v: sum(wnp.sum(v[name] * v[name]) for name in NAMES)
        return wg.value_and_grad(lambda *a: total(f(lib, *a)), (0, 1, 2))

    def push(lib):
        return lambda *a: wg.jvp(lambda *a: f(lib, *a), a, a)

    with np.errstate(all="ignore"):
        want = gradient(Python)(*args)
        if not all(np.all(np.isfinite(leaf)) for leaf in wg.tree.leaves(want)):
            return
        for make in (lambda lib: lambda *a: f(lib, *a), gradient, push):
            assert_same(make(wg)(*args), make(Python)(*args), tolerance)
            assert_same(wg.jit(make(wg))(*args), make(Python)(*args), tolerance)
        batch = [np.stack([x, -x, x / 2]) for x in args]
        rows = [gradient(Python)(*row) for row in zip(*batch, strict=True)]
        want = wg.tree.map(lambda *leaves: np.stack(leaves), *rows)
        if all(np.all(np.isfinite(leaf)) for leaf in wg.tree.leaves(want)):
            for mapped in (wg.vmap(gradient(wg)), wg.jit(wg.vmap(gradient(wg)))):
                assert_same(mapped(*batch), want, tolerance)


@pytest.mark.parametrize("seed", range(4))
def test_some(seed):
    check(seed)


@pytest.mark.slow
def test_many():
    for seed in range(SEED + 4, SEED + 4 + PROGRAMS):
        check(seed)
