"""Arrays that are more than numbers are refused; what a traced value is taken for."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.errors import DTypeError

X = np.array([[1.0, 2.0], [3.0, 4.0]])


class Units(np.ndarray):
    def __mul__(self, other):
        return "units"


class Named(np.ndarray):
    name = "only a name"


MATRIX = X.view(np.matrix)  # its own constructor warns
MASKED = np.ma.masked_array(X, X > 2)
UNITS = X.view(Units)
REFUSED = [
    (MATRIX, "a numpy.matrix, for which * and ** are products of matrices. Pass np.asarray(x)"),
    (MASKED, "a masked array, whose mask would be lost. Pass x.filled(0) and the mask"),
    (UNITS, "an array of the class Units, which says itself what operations mean. Pass np.asarray"),
]
WAYS = {
    "grad": lambda a: wg.grad(lambda x: np.sum(x))(a),
    "jit": lambda a: wg.jit(lambda x: np.sum(x))(a),
    "vmap": lambda a: wg.vmap(lambda x: np.sum(x))(a),
    "jvp": lambda a: wg.jvp(lambda x: x, (a,), (X,)),
    "tangent": lambda a: wg.jvp(lambda x: x, (X,), (a,)),
    "vjp": lambda a: wg.vjp(lambda x: x, a),
    "scan": lambda a: wg.scan(lambda c, row: (c, row), 0.0, a),
    "operator": lambda a: wg.grad(lambda x: np.sum(x * a))(X),
    "operator in jit": lambda a: wg.jit(lambda x: np.sum(x * a))(X),
    "numpy function": lambda a: wg.grad(lambda x: np.sum(np.multiply(a, x)))(X),
    "tensor operand": lambda a: wg.tensor(X) * a,
    "result": lambda a: wg.jit(lambda x: a)(X),
    "wnp": lambda a: wnp.sin(a),
    "wnp.multiply": lambda a: wnp.multiply(a, a),
    "wnp.sum": lambda a: wnp.sum(a),
    "wnp.linalg": lambda a: wnp.linalg.inv(a),
    "wnp.array": lambda a: wnp.array(a),
    "wnp.asarray": lambda a: wnp.asarray(a),
    "tensor": lambda a: wg.tensor(a),
    "Tensor": lambda a: wg.Tensor(a),
    "Parameter": lambda a: wg.nn.Parameter(a),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("array", "text"), REFUSED, ids=["matrix", "masked", "units"])
def test_arrays_with_meanings_of_their_own_are_refused(way, array, text):
    with pytest.raises(DTypeError) as caught:
        WAYS[way](array)
    assert text in str(caught.value)


@pytest.mark.parametrize("kind", [np.memmap, np.recarray, Named])
def test_arrays_of_other_classes_pass(kind, tmp_path):
    if kind is np.memmap:
        array = np.memmap(tmp_path / "a", float, "w+", shape=(2, 2))
        array[:] = X
    else:
        array = X.view(kind)
    np.testing.assert_array_equal(wg.grad(lambda x: np.sum(x * array))(array), X)
    np.testing.assert_array_equal(wg.jit(lambda x: x * array)(array), X * X)
    np.testing.assert_array_equal(wnp.sin(array), np.sin(X))
    np.testing.assert_array_equal(wg.tensor(array).numpy(), X)


class TestIsInstance:
    def test_traced_array_is_an_array(self):
        seen = []

        def f(x):
            seen.append((isinstance(x, np.ndarray), isinstance(x[:1], np.ndarray)))
            return np.sum(x)

        for transform in (wg.grad, wg.jit, lambda f: wg.vmap(lambda x: f(x)), wg.hessian):
            transform(f)(X)
        wg.jvp(f, (X,), (X,))
        assert seen and set(seen) == {(True, True)}

    def test_number_is_none(self):
        seen = []

        def f(x):
            seen.append(isinstance(x, np.ndarray) or isinstance(np.sum(x) * 2, np.ndarray))
            return x * 1.0

        wg.grad(f)(2.0)
        wg.jit(f)(2.0)
        wg.vmap(f)(np.ones(3))
        assert seen == [False] * 3

    def test_code_that_asks_for_arrays(self):
        def norm(x):
            x = x if isinstance(x, np.ndarray) else np.asarray(x, float)
            return np.sqrt(np.sum(x**2))

        np.testing.assert_allclose(wg.grad(norm)(X), X / norm(X))
        np.testing.assert_allclose(wg.jit(wg.grad(norm))(X), X / norm(X))

    def test_tensor_is_none(self):
        assert not isinstance(wg.tensor(X), np.ndarray)
        assert isinstance(wg.tensor(X), wg.Tensor)
        assert wg.tensor(X).__class__ is wg.Tensor

    def test_type_tells_the_truth(self):
        from wengert.trace import Tracer

        assert wg.grad(lambda x: float(type(x) is Tracer) * np.sum(x))(X)[0, 0] == 1.0
