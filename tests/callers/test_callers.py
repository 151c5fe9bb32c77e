"""The plugin that makes NumPy's calls again: it finds what is wrong, and nothing else."""

from pathlib import Path

import numpy as np
import pytest

from callers.differences import DIFFERENCES, is_expected
from callers.hooks import Call, Callers, compare, is_refusal

DOCS = Path(__file__).parents[2] / "docs" / "numpy.md"


def tried(function, name, *args, **kwargs):
    callers = Callers(limit=5)
    hooked = callers.hook(name, function)
    np.testing.assert_array_equal(hooked(*args, **kwargs), function(*args, **kwargs))
    return callers


def test_a_call_that_agrees_leaves_no_finding():
    callers = tried(np.hypot, "hypot", np.array([1.0, 2.0]), np.array([3.0, 0.5]))
    assert callers.report() == {
        "functions": 1, "calls": 1, "comparisons": 5, "refused": 0, "on purpose": 0, "found": 0,
    }  # fmt: skip


def test_a_call_is_made_again_once():
    callers = Callers(limit=5)
    hooked = callers.hook("sin", np.sin)
    for _ in range(3):
        hooked(np.arange(3.0))
    assert callers.tried["sin"] == 1


class Wrong:
    """A function that forgets the derivative, or another number, where a value is traced."""

    def __init__(self, broken):
        self.broken = broken

    def __call__(self, x):
        return np.sin(x) if type(x) is np.ndarray else self.broken(x)


@pytest.mark.parametrize(
    "broken, ways",
    [
        (lambda x: np.cos(x), {"traced", "compiled", "batched", "differentiated"}),
        (lambda x: np.sin(x).astype(np.float32), {"traced", "compiled", "batched"}),
        (lambda x: x.no_such_name, {"traced", "compiled", "batched", "differentiated"}),
    ],
)
def test_a_wrong_answer_is_found(broken, ways):
    callers = tried(Wrong(broken), "sin", np.array([0.3, 0.7]))
    assert ways <= {way for _, way in callers.texts}


def test_a_wrong_derivative_is_found():
    import wengert as wg

    callers = tried(
        Wrong(lambda x: np.sin(wg.stop_gradient(x)) + 0.0 * x), "sin", np.array([0.3, 0.7])
    )
    assert {way for _, way in callers.texts} == {"differentiated"}


def test_shapes_and_dtypes_count():
    for got in (np.zeros(3, np.float32), np.zeros((3, 1)), np.full(3, 1e-3)):
        with pytest.raises(AssertionError):
            compare(got, np.zeros(3))


def test_refusals():
    assert is_refusal(TypeError("f() got an unexpected keyword argument 'weights'"))
    assert not is_refusal(TypeError("bad operand"))


def test_differences_are_in_the_documentation():
    text = DOCS.read_text()
    assert [words for words in DIFFERENCES if words not in text] == []


def test_a_difference_explains_its_own_case_alone():
    call = Call("linalg.eigvals", np.linalg.eigvals, [np.eye(2)], {}, np.ones(2))
    assert is_expected(call, "traced", AssertionError("dtype complex128, NumPy float64"))
    assert not is_expected(call, "traced", AssertionError("shape (2,), NumPy (3,)"))
