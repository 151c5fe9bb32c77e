"""`match` on traced values."""

import numpy as np
import pytest

import wengert as wg
from wengert.errors import ControlFlowError

X = np.random.default_rng(0).normal(size=12)


def numbers(x):
    k = int(x[0] > 0) + int(x[1] > 0)
    match k:
        case 0:
            return x[1]
        case 1:
            return x[2] * 2
        case _:
            return x[3] * x[4]


def several_numbers(x):
    s = 0.0
    for i in range(12):
        match int(np.floor(x[i] * 2)):
            case 0 | 1:
                s = s + x[i] ** 2
            case -1:
                s = s * 0.5
            case n if n > 1:
                s = s + n * x[i]
    return s


def no_case(x):
    s = x[0]
    match int(x[0] > 100):
        case 1:
            s = x[1]
    return s


def sequences(x):
    match [x[0], (x[1], 2)]:
        case [a, b, c]:
            return a
        case [a, (b, 3)]:
            return b
        case [a, (b, 2)] if a > b:
            return a * 2
        case [a, (b, 2 | 4 as c)]:
            return b * 3 + c
        case _:
            return x[5]


def ways_out(x):
    s = 0.0
    for i in range(12):
        match int(x[i] > 0):
            case 0:
                continue
            case 1 if s > 1.5:
                break
        s = s + x[i]
    return s


def known(x):
    s = 0.0
    for kind in ("a", "b", None, {"k": 2.0}, [], "c"):
        match kind:
            case "a" | "b":
                s = s + x[0]
            case None:
                s = s * 2
            case {"k": v}:
                s = s * v
            case []:
                s = s + x[3]
            case str(text):
                s = s + len(text) * x[2]
    return s


@pytest.mark.parametrize("x", [X, -X, X[::-1].copy()], ids=["x", "negative", "turned"])
@pytest.mark.parametrize(
    "f", [numbers, several_numbers, no_case, sequences, ways_out, known], ids=lambda f: f.__name__
)
def test_values_and_gradients(f, x):
    value, gradient = wg.jit(wg.value_and_grad(f))(x)
    np.testing.assert_allclose(value, f(x), rtol=1e-12)
    np.testing.assert_allclose(gradient, wg.grad(f)(x), rtol=1e-12, atol=1e-14)


def test_classes_of_traced_numbers():
    def f(x):
        match int(x > 0):
            case int():
                return x
            case _:
                return 2 * x

    text = (
        "`match` asks for the class of a traced number, which is none of Python's. Write it as an"
    )
    with pytest.raises(ControlFlowError, match=text):
        wg.jit(f)(1.0)


def test_whether_it_is_true():
    """NumPy's Booleans are not those of Python."""

    def f(x):
        match x > 0:
            case True:
                return x
            case _:
                return 2 * x

    with pytest.raises(ControlFlowError, match="compares a traced condition with True or False"):
        wg.jit(f)(1.0)
