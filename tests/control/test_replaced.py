"""Python's own functions of numbers that are not known yet: what they give in compiled code."""

import bisect
import math

import numpy as np
import pytest

import wengert as wg
from wengert.errors import AbstractValueError

STEPS = [0.0, 0.5, 2.5, 3.0]
X = np.array([0.7, 2.5, -1.25, 0.3, 2.5, -0.9])


def _of_math(x):
    a, b = abs(x[0]), abs(x[1])
    return [
        math.sin(a), math.cos(a), math.tan(a), math.asin(a), math.acos(a), math.atan(a),
        math.atan2(a, b), math.sinh(a), math.cosh(a), math.tanh(a), math.asinh(a), math.acosh(b),
        math.atanh(a), math.exp(a), math.expm1(a), math.log(a), math.log(a, 2), math.log(a, b),
        math.log1p(a), math.log2(a), math.log10(a), math.sqrt(a), math.pow(a, b), math.fabs(-a),
        math.fmod(b, a), math.hypot(a, b), math.hypot(a, b, x[2]), math.erf(a), math.erfc(a),
        math.gamma(b), math.lgamma(b), math.copysign(a, -b), math.degrees(a), math.radians(a),
        math.fsum(x), math.prod(x), math.dist(x[:2], x[2:4]),
    ]  # fmt: skip


def _integers(x):
    return [
        math.floor(x[1]), math.ceil(x[2]), math.trunc(x[2]), int(x[1]), round(x[1]), round(x[2]),
        round(x[1] * 3),
    ]  # fmt: skip


PROGRAMS = {
    "math": _of_math,
    "integers": _integers,
    "flags": lambda x: [math.isnan(x[0]), math.isinf(x[0]), math.isfinite(x[0]), bool(x[0])],
    "float": lambda x: float(x[0]) * x + float(x[1:2].sum()),
    "item": lambda x: [x[0].item(), x.item(1), x.reshape(2, 3).item(1, 1), x.reshape(2, 3).item(4)],
    "list": lambda x: x.reshape(2, 3).tolist(),
    "kinds": lambda x: np.float64(x[0]) + np.float32(x[1]) * np.float64(x).sum(),
    "digits": lambda x: round(x[0] * 3.3, 1),
    "largest": lambda x: [max(x), min(x), max(list(x)), min(v * v for v in x), max(x[0], 1.0)],
    "largest of many": lambda x: [max(np.concatenate([x, x * 2])), min(list(x) + list(x * 3))],
    "largest by key": lambda x: [max(x, key=abs), min(x, key=lambda v: (v - 1) ** 2)],
    "largest pair": lambda x: max([(v, v * 2) for v in x], key=lambda pair: -pair[0]),
    "sorted": lambda x: sorted(x),
    "sorted down": lambda x: sorted([*x], reverse=True),
    "sorted by key": lambda x: sorted(x, key=abs) + sorted(x, key=lambda v: v * v, reverse=True),
    "any": lambda x: [any(v > 2 for v in x), any(x > 9), all(x > -2), all([x[0], True, x[2] > 0])],
    "bisected": lambda x: [
        bisect.bisect_left(STEPS, x[1]),
        bisect.bisect(STEPS, x[1]),
        bisect.bisect(STEPS, 2),
        bisect.bisect_right([x[2], x[0], x[1]], 0.5),
        bisect.bisect_left(np.array(STEPS), x[0]),
    ],
    "enumerated": lambda x: [
        v * (i + 2 * j) for (i, j), v in np.ndenumerate(x.reshape(2, 3)) if i < j
    ],
    "known": lambda x: [any([x[0] > 9, True]), all([x[0] > 9, False])],
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_values(program):
    expected, found = program(X), wg.jit(program)(X)
    assert len(wg.tree.flatten(expected)[0]) == len(wg.tree.flatten(found)[0])
    for one, other in zip(wg.tree.flatten(expected)[0], wg.tree.flatten(found)[0], strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-14)
        assert np.asarray(other).dtype == np.asarray(one).dtype


def test_python_numbers_promote_no_arrays():
    x = X.astype(np.float32)
    for program in (
        lambda x: float(x[0]) * x, lambda x: int(x[1]) * x, lambda x: math.sin(x[0]) * x,
        lambda x: round(x[1]) * x, lambda x: x[0].item() * x, lambda x: x.tolist()[1] + x,
        lambda x: int(x[1]) * np.arange(3, dtype=np.int8), lambda x: math.floor(x[1]) + x,
    ):  # fmt: skip
        expected, found = program(x), wg.jit(program)(x)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_derivatives():
    def f(x):
        return math.sin(x[0]) * float(x[1]) + max(x) * min(x[:3]) + sorted(x)[2] * x[3].item()

    def g(x):  # the same, as NumPy has it
        return np.sin(x[0]) * x[1] + x[1] * x[2] + x[3] * x[3]

    np.testing.assert_allclose(wg.jit(wg.grad(f))(X), wg.grad(g)(X), rtol=1e-14)


@pytest.mark.parametrize("x", [[np.nan, 1.0, 2.0], [1.0, np.nan, 2.0], [3.0, 1.0, np.nan]])
def test_largest_beside_nan(x):
    x = np.repeat(np.array(x), 4)
    for plain in (max, min):
        assert np.array_equal(wg.jit(lambda x: plain(x))(x), plain(x), equal_nan=True)  # noqa: B023


def test_loops_stay_loops():
    def f(x):
        s = 0.0
        for i in range(400):
            s += math.exp(-float(x[i])) * max(x[i], 0.5)
        return s

    x = np.linspace(0, 1, 400)
    compiled = wg.jit(f)
    np.testing.assert_allclose(compiled(x), f(x))
    assert len(str(compiled.explain(x))) < 20_000


def test_what_is_no_number():
    with pytest.raises(AbstractValueError):
        wg.jit(lambda x: float(x))(X)
    with pytest.raises(ValueError, match="size 1"):
        wg.jit(lambda x: x.item())(X)
