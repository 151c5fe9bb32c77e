"""Programs with branches and loops, for `wg` and for Python's own control flow."""

import numpy as np

import wengert as wg
import wengert.numpy as wnp

rng = np.random.default_rng(5)
W = rng.normal(size=(3, 3)) / 2
X = rng.normal(size=3)


def assert_same(got, want, tolerance=1e-12):
    got, want = wg.tree.leaves(got), wg.tree.leaves(want)
    for one, other in zip(got, want, strict=True):
        assert np.result_type(one) == np.result_type(other)
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


class Python:
    """What the functions mean."""

    @staticmethod
    def cond(pred, true_f, false_f, *args):
        return true_f(*args) if pred else false_f(*args)

    @staticmethod
    def switch(index, branches, *args):
        return branches[min(max(int(index), 0), len(branches) - 1)](*args)

    @staticmethod
    def while_loop(cond_f, body_f, init):
        while cond_f(init):
            init = body_f(init)
        return init

    @staticmethod
    def fori_loop(lo, hi, body_f, init):
        for i in range(int(lo), int(hi)):
            init = body_f(i, init)
        return init


def branch(lib, w, x):
    """Branches that share little: one reads w, one nothing, one both and a captured value."""
    total = wnp.sum(x)
    parts = [
        lambda x: {"y": wnp.tanh(w @ x), "n": x[0] * 2},
        lambda x: {"y": wnp.zeros(3), "n": np.float64(1)},
        lambda x: {"y": x * total, "n": wnp.exp(w[0, 0]) * x[1]},
    ]
    found = lib.switch(wnp.sum(x > 0) - 1, parts, x)
    again = lib.cond(total > 0, lambda a, b: a * b, lambda a, b: a - wnp.sin(b), *x[:2])
    return wnp.sum(found["y"] ** 2) * found["n"] + again


def newton(lib, w, x):
    """A loop until it has converged, with what it takes from outside."""
    a = wnp.sum(w**2) + x[0] ** 2
    far = lambda state: wnp.abs(state[0] * state[0] - a) > 1e-13
    turn = lambda state: ((state[0] + a / state[0]) / 2, state[1] + 1)
    root, turns = lib.while_loop(far, turn, (1.0 + x[1] ** 2, 0))
    return root * wnp.sin(x[2]) + turns


def settling(lib, w, x):
    """A fixed point of an array."""
    turn = lambda s: {"h": wnp.tanh(w @ s["h"] + x), "before": s["h"]}
    far = lambda s: wnp.max(wnp.abs(s["h"] - s["before"])) > 1e-13
    return wnp.sum(lib.while_loop(far, turn, {"h": x, "before": x + 1})["h"] ** 2)


def counted(lib, w, x):
    """A number of turns that is not known before, and one that is."""
    n = wnp.sum(x > -9) + 1
    grown = lib.fori_loop(1, n, lambda i, c: wnp.tanh(w @ c) + i * x, x)
    return wnp.sum(lib.fori_loop(0, 5, lambda i, c: c * wnp.cos(c) + x[i % 3], grown))


def nested(lib, w, x):
    """Branches and loops in loops, and the other way round."""

    def inner(c):
        return lib.while_loop(lambda s: s[0] < 2.5, lambda s: (s[0] * 1.5 + 0.1, s[1] * s[0]), c)

    def turn(i, c):
        up = lambda c: inner((wnp.abs(c[0]) + 0.3, c[1]))
        down = lambda c: (c[0] - w[0, 0], wnp.sin(c[1] + x[1]))
        return lib.cond(c[0] > 1, down, up, c)

    found = lib.fori_loop(0, 4, turn, (x[0], x[2]))
    return lib.cond(found[1] > 0, lambda: found[0] * found[1], lambda: found[0] + found[1] ** 2)


PROGRAMS = [branch, newton, settling, counted, nested]
POINTS = [X, -X, np.array([0.5, 1.5, -0.7])]
