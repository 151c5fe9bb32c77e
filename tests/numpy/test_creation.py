"""Making arrays, inside and outside of traced functions."""

import re

import numpy as np
import pytest

import wengert.numpy as wnp
from wengert.errors import ConversionError, DTypeError, ShapeError
from wengert.trace import Tracer
from wengert.transforms.batching import vmap
from wengert.transforms.check import check_grads
from wengert.transforms.reverse import grad, vjp

X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])

CONSTANTS = {
    "zeros": lambda xp: xp.zeros((2, 3)),
    "zeros int": lambda xp: xp.zeros(2, dtype=np.int32),
    "ones": lambda xp: xp.ones(4, np.float32),
    "full": lambda xp: xp.full((2, 2), 3),
    "full dtype": lambda xp: xp.full(2, 3, np.float32),
    "arange": lambda xp: xp.arange(5),
    "arange step": lambda xp: xp.arange(1.0, 2.0, 0.3),
    "arange dtype": lambda xp: xp.arange(0, 5, 2, np.float32),
    "linspace": lambda xp: xp.linspace(0, 1, 5),
    "linspace axis": lambda xp: xp.linspace([0, 1], [2, 3], 4, axis=1),
    "linspace int": lambda xp: xp.linspace(0, 7, 5, dtype=int),
    "logspace": lambda xp: xp.logspace(0, 2, 3),
    "geomspace": lambda xp: xp.geomspace(1, 1000, 4),
    "eye": lambda xp: xp.eye(3, 4, k=1),
    "identity": lambda xp: xp.identity(3, np.float32),
    "tri": lambda xp: xp.tri(3, 4, -1),
    "array": lambda xp: xp.array([[1, 2], [3, 4]]),
    "array dtype": lambda xp: xp.array([1, 2], dtype=np.float32),
    "array ndmin": lambda xp: xp.array(3.0, ndmin=2),
    "asarray": lambda xp: xp.asarray([1.0, 2.0]),
    "copy": lambda xp: xp.copy(X),
    "vander": lambda xp: xp.vander([1, 2, 3]),
    "indices": lambda xp: xp.indices((2, 3)),
    "fromfunction": lambda xp: xp.fromfunction(lambda i, j: i * 10 + j, (2, 3)),
    "zeros_like": lambda xp: xp.zeros_like(X, dtype=int),
    "ones_like": lambda xp: xp.ones_like(X, shape=(4,)),
    "full_like": lambda xp: xp.full_like(X, 2),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_equal_numpy(name):
    make = CONSTANTS[name]
    expected, plain = make(np), make(wnp)
    assert type(plain) is np.ndarray
    np.testing.assert_array_equal(plain, expected)
    assert plain.dtype == expected.dtype
    inside, _ = vjp(lambda x: make(wnp), 1.0)
    np.testing.assert_array_equal(inside, expected)
    assert inside.dtype == expected.dtype


@pytest.mark.parametrize("name", [n for n in CONSTANTS if CONSTANTS[n](np).dtype == np.float64])
def test_constants_can_be_written_to_inside(name):
    def f(x):
        made = CONSTANTS[name](wnp)
        assert isinstance(made, Tracer) == isinstance(x, Tracer)
        made[0] = x * x
        made[-1] *= x
        return wnp.sum(made)

    check_grads(f, (1.5,))


def test_empty_and_like():
    def f(x):
        for like in (np.empty_like, wnp.empty_like, np.zeros_like, np.ones_like):
            y = like(x)
            assert y.shape == x.shape and y.dtype == x.dtype
            y[...] = x
        z = np.full_like(x, x[0, 0])
        z[0] += x[1]
        return wnp.sum(y * z)

    check_grads(f, (X,))
    assert wnp.empty((2, 3), np.float32).shape == (2, 3)


def test_made_arrays_inside_nested_and_batched_functions():
    def inner(x):
        y = wnp.zeros(3)
        y[1] = x**3
        return wnp.sum(y)

    assert grad(grad(inner))(2.0) == 12.0
    np.testing.assert_array_equal(vmap(grad(inner))(np.array([1.0, 2.0])), [3.0, 12.0])


DIFFERENTIABLE = {
    "array": [lambda xp, x, y: xp.array([x, y, 1.0]), 2.0, 3.0],
    "array nested": [lambda xp, x, y: xp.array([[x, 1], [y * y, x]]), 2.0, 3.0],
    "array of rows": [lambda xp, x: xp.array([x[0], x[1] * 2, np.ones(3)]), X],
    "array copy": [lambda xp, x: xp.array(x), X],
    "array dtype": [lambda xp, x: xp.array([x, 2], dtype=complex), 2.0],
    "asarray": [lambda xp, x: xp.asarray([x, x * x]), 2.0],
    "full": [lambda xp, x: xp.full((2, 3), x), 2.0],
    "full rows": [lambda xp, x: xp.full((2, 3), x[0]), X],
    "full_like": [lambda xp, x: xp.full_like(x, x[0, 1]), X],
    "linspace": [lambda xp, x, y: xp.linspace(x, y, 5), 1.0, 4.0],
    "linspace open": [lambda xp, x: xp.linspace(x, 3, 4, endpoint=False), 1.0],
    "linspace one": [lambda xp, x: xp.linspace(x, 3, 1), 1.0],
    "linspace none": [lambda xp, x: xp.linspace(x, 3, 0), 1.0],
    "linspace rows": [lambda xp, x: xp.linspace(x[0], x[1], 4, axis=-1), X],
    "logspace": [lambda xp, x, y: xp.logspace(x, 2.0, 4, base=y), 1.0, 3.0],
    "geomspace": [lambda xp, x, y: xp.geomspace(x, y, 4), 1.0, 4.0],
    "geomspace negative": [lambda xp, x: xp.geomspace(x, -9.0, 3), -1.0],
    "geomspace open": [lambda xp, x: xp.geomspace(x, 9.0, 3, endpoint=False), 1.0],
    "vander": [lambda xp, x: xp.vander(x, 4), X[0]],
    "vander increasing": [lambda xp, x: xp.vander(x, increasing=True), X[0]],
    "meshgrid": [lambda xp, x, y: xp.stack(xp.meshgrid(x, y)), X[0], X[1, :2]],
    "meshgrid ij": [lambda xp, x, y: xp.meshgrid(x, y, indexing="ij")[1], X[0], X[1, :2]],
    "meshgrid sparse": [lambda xp, x, y: xp.meshgrid(x, y, sparse=True)[1], X[0], X[1, :2]],
    "ascontiguousarray": [lambda xp, x: xp.ascontiguousarray(x.T), X],
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_traced_values_go_in(name):
    function, *args = DIFFERENTIABLE[name]
    expected = function(np, *args)
    value, _ = vjp(lambda *xs: function(wnp, *xs), *args)
    np.testing.assert_allclose(value, expected, rtol=1e-14)
    assert value.dtype == expected.dtype
    check_grads(lambda *xs: function(wnp, *xs), args)


def test_arange_of_traced_values():
    check_grads(lambda x: wnp.arange(x, 3.0, 0.5) ** 2, (1.1,))
    got, _ = vjp(lambda x: wnp.arange(x), 2.5)
    np.testing.assert_array_equal(got, np.arange(2.5))
    with pytest.raises(DTypeError, match="the number of elements depends on a value"):
        vmap(lambda x: wnp.arange(x, 3.0))(np.ones(2))


def test_float32_is_kept():
    x = np.float32(1.5)
    for f in (
        lambda x: wnp.linspace(x, wnp.float32(3), 4),
        lambda x: wnp.full(3, x),
        lambda x: wnp.array([x, x]),
    ):
        assert vjp(f, x)[0].dtype == np.float32


def test_copies_do_not_change_the_original():
    def f(x):
        y = x * 1.0
        z = wnp.array(y)
        same = wnp.asarray(y)
        z[0] = 0.0
        same[1] = x[0, 0] ** 2
        return wnp.sum(y * z)

    check_grads(f, (X,))

    def g(x):
        y = X * x
        first, _ = wnp.meshgrid(y[0], y[1])
        first[0] = 7.0
        return wnp.sum(y)

    assert grad(g)(1.0) == X.sum()


def test_places():
    def f(x):
        for name in ("tril_indices_from", "triu_indices_from"):
            np.testing.assert_array_equal(getattr(np, name)(x, 1), getattr(np, name)(X, 1))
            np.testing.assert_array_equal(getattr(wnp, name)(x), getattr(np, name)(X))
        square = x[:, :2]
        np.testing.assert_array_equal(wnp.diag_indices_from(square), np.diag_indices(2))
        return wnp.sum(x[wnp.tril_indices(2)]) + wnp.sum(x[wnp.triu_indices(2, 1, 3)])

    np.testing.assert_array_equal(grad(f)(X), [[1, 1, 1], [1, 1, 1]])
    np.testing.assert_array_equal(wnp.diag_indices(3), np.diag_indices(3))


def test_numpy_array_of_traced_values():
    assert grad(lambda x: np.array([x, x * 2]).sum())(2.0) == 3.0
    np.testing.assert_array_equal(grad(lambda x: np.array(x).sum())(X), np.ones_like(X))


def test_what_numpy_takes_in_by_other_ways_is_refused():
    text = (
        r"the traced value f64\*? would lose its derivative. Write to arrays that are made in the "
        r"function"
    )
    hidden = {"array": np.array}
    with pytest.raises((ConversionError, ValueError)) as caught:
        grad(lambda x: hidden["array"]([x, x * 2]).sum())(2.0)
    error = caught.value
    shown = str(error) if isinstance(error, ConversionError) else str(error.__cause__)
    assert re.search(text, shown)
    with pytest.raises(ConversionError, match=r"conversion to a NumPy array .*would lose its der"):
        grad(lambda x: hidden["array"](x).sum())(X)


def test_uneven_lists_are_refused():
    with pytest.raises(ShapeError, match=r"got a list of parts with shapes \(3,\) and \(\)"):
        vjp(lambda x: wnp.array([x[0], x[0, 0]]), X)
    with pytest.raises(ShapeError, match="expected one axis"):
        vjp(lambda x: wnp.vander(x), X)
    with pytest.raises(ValueError, match="indexing is 'xy' or 'ij', got 'yx'"):
        vjp(lambda x: wnp.meshgrid(x[0], x[1], indexing="yx"), X)


def test_dtypes():
    def f(x):
        assert np.result_type(x, np.complex64) == np.complex128
        assert wnp.result_type(x, np.float32(1)) == np.float64
        assert not np.can_cast(x, np.float32) and wnp.can_cast(x, np.float32, "same_kind")
        assert wnp.asanyarray(x) is x
        return wnp.sum(x)

    def g(x):
        assert wnp.result_type(x, np.float32(1)) == np.float32  # a Python number does not promote
        return x

    grad(f)(X)
    grad(g)(1.0)
