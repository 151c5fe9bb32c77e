"""`check_grads` must pass right rules and catch wrong ones."""

import re

import numpy as np
import pytest

import wengert as wg
from wengert.errors import CheckGradsError, StructureError
from wengert.ops.elementwise import cos, scale, sin
from wengert.ops.families import ufunc_type_rule
from wengert.ops.op import REGISTRY, Op

x3 = np.array([0.3, 0.8, 1.4])
BOTH_MODES = pytest.mark.parametrize("mode", ["forward", "reverse"])


def with_rule(factor):
    """sin with the derivative factor(x) in both modes."""

    def jvp(primals, tangents):
        return np.sin(primals[0]), tangents[0] * factor(primals[0])

    def vjp(x):
        return np.sin(x), lambda g: (g * factor(x),)

    return wg.custom_rule(jvp=jvp, vjp=vjp)(lambda x: np.sin(x))


def test_right_rules_pass():
    wg.check_grads(with_rule(np.cos), (x3,), order=3)
    wg.check_grads(lambda x, y: np.exp(x) * y, (x3, 2.0))
    wg.check_grads(lambda p: {"a": p["x"] ** 2, "b": [p["y"]]}, ({"x": x3, "y": 1.0},))
    wg.check_grads(lambda x: np.linalg.inv(x), (np.array([[2.0, 1.0], [0.5, 3.0]]),))


def test_integers_constants_and_booleans_pass():
    wg.check_grads(lambda x, n: (x**n, x > 0, n * 2), (x3, 3))
    wg.check_grads(lambda x: 3.0, (x3,))
    wg.check_grads(lambda x: np.floor(x), (x3,))


def test_float32_is_checked_in_float64():
    wg.check_grads(lambda x: np.sum(np.sin(x) * 2.0), (x3.astype(np.float32),))


def test_complex_passes():
    wg.check_grads(lambda z: z * z, (0.3 + 0.7j,))
    wg.check_grads(lambda z: np.real(z) * np.imag(z), (0.3 + 0.7j,))


WRONG = {
    "sign": lambda x: -np.cos(x),
    "factor": lambda x: 1.001 * np.cos(x),
    "missing term": lambda x: np.cos(x) - 0.01 * x,
    "zero": lambda x: 0.0 * x,
    "nan": lambda x: np.cos(x) * np.nan,
    "other function": lambda x: np.sin(x),
}


@pytest.mark.parametrize("factor", WRONG.values(), ids=WRONG.keys())
@BOTH_MODES
def test_wrong_rules_are_caught(factor, mode):
    with pytest.raises(CheckGradsError, match=f"{mode} mode, order 1"):
        wg.check_grads(with_rule(factor), (x3,), order=1, modes=(mode,))


@BOTH_MODES
def test_wrong_at_second_order_only(mode):
    f = with_rule(lambda x: np.cos(wg.stop_gradient(x)))
    wg.check_grads(f, (x3,), order=1, modes=(mode,))
    with pytest.raises(CheckGradsError, match=f"{mode} mode, order 2"):
        wg.check_grads(f, (x3,), order=2, modes=(mode,))


def test_wrong_for_one_element_only():
    factor = lambda x: np.cos(x) * np.array([1.0, 1.0, 1.1])
    with pytest.raises(CheckGradsError, match=r"x\[2\] = np.float64\(1.4\)"):
        wg.check_grads(with_rule(factor), (x3,), order=1)


def test_wrong_in_one_mode_only():
    right = lambda p, t: (np.sin(p[0]), t[0] * np.cos(p[0]))
    wrong = lambda x: (np.sin(x), lambda g: (g * 2.0 * np.cos(x),))
    f = wg.custom_rule(jvp=right, vjp=wrong)(lambda x: np.sin(x))
    wg.check_grads(f, (x3,), modes=("forward",))
    with pytest.raises(CheckGradsError, match="reverse mode"):
        wg.check_grads(f, (x3,))


def test_wrong_for_the_second_argument():
    vjp = lambda a, b: (a * b, lambda g: (g * b, g * a * 1.5))
    f = wg.custom_rule(vjp=vjp)(lambda a, b: a * b)
    with pytest.raises(CheckGradsError, match=r"gradient by b = np.float64\(2.0\) is") as caught:
        wg.check_grads(f, (3.0, 2.0), order=1, modes=("reverse",))
    got, expected = re.findall(r"(?:is|give) (-?[\d.e-]+?)[,.](?:\s|$)", str(caught.value))
    assert float(got) == pytest.approx(1.5 * float(expected))


def test_a_value_that_differs_from_the_rules_value_is_not_what_is_checked():
    # custom_rule's function decides the value; the derivative is compared with it
    f = wg.custom_rule(vjp=lambda x: (np.cos(x), lambda g: (-g * np.sin(x),)))(lambda x: np.sin(x))
    with pytest.raises(CheckGradsError):
        wg.check_grads(f, (x3,), order=1)


@pytest.fixture
def wrong_op():
    op = Op(
        "test_wrong_sin",
        np.sin,
        ufunc_type_rule("test_wrong_sin", np.sin),
        jvp=(lambda t, ans, x: scale(t, cos(x) * 1.01),),
    )
    yield op
    del REGISTRY["test_wrong_sin"]


@BOTH_MODES
def test_a_wrong_rule_of_an_operation(wrong_op, mode):
    with pytest.raises(CheckGradsError):
        wg.check_grads(lambda x: wrong_op(x), (x3,), order=1, modes=(mode,))
    wg.check_grads(lambda x: sin(x), (x3,), order=1, modes=(mode,))


def test_the_messages():
    f = with_rule(lambda x: 2 * np.cos(x))
    with pytest.raises(CheckGradsError) as caught:
        wg.check_grads(f, (0.5,), order=1, modes=("forward",))
    numbers = re.fullmatch(
        r"check_grads: <lambda>, forward mode, order 1: the derivative of result 0 is (\S+), "
        r"finite differences give (\S+); the offending input is x = np.float64\(0.5\)\.",
        str(caught.value),
    ).groups()
    got, expected = (float(number.removeprefix("np.float64(").rstrip(")")) for number in numbers)
    assert got == pytest.approx(2 * expected, rel=1e-9)
    with pytest.raises(CheckGradsError) as caught:
        wg.check_grads(f, (0.5,), order=1, modes=("reverse",))
    numbers = re.fullmatch(
        r"check_grads: <lambda>, reverse mode, order 1: the gradient by x = np.float64\(0.5\) is "
        r"(\S+), finite differences give (\S+)\.",
        str(caught.value),
    ).groups()
    assert float(numbers[0]) == pytest.approx(2 * float(numbers[1]), rel=1e-9)


def test_the_error_is_an_assertion():
    assert issubclass(CheckGradsError, AssertionError)


def test_unknown_mode():
    with pytest.raises(ValueError) as caught:
        wg.check_grads(np.sin, (x3,), modes=("backward",))
    assert str(caught.value) == (
        "check_grads: modes are 'forward' and 'reverse', got ['backward']."
    )


def test_arguments_that_are_no_tuple():
    with pytest.raises(StructureError) as caught:
        wg.check_grads(np.sin, x3)
    assert str(caught.value) == (
        "check_grads: args must be a tuple with one entry for each argument, got ndarray. "
        "Write check_grads(f, (x,))."
    )
