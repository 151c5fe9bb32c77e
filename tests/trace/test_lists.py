"""Functions of NumPy's are given lists and tuples of traced values, as NumPy takes lists."""

import numpy as np
import pytest

import wengert as wg

POINT = np.array([0.3, 0.7])


def _grown(x):
    found = []
    for k in range(3):
        found.append(x[0] * k + x[1])
    return np.mean(found)


def _distance(p, q):
    return np.linalg.norm([p[0] - q[0], p[1] - q[1]])


FUNCTIONS = {
    "sum": lambda x: np.sum([x[0], x[1] ** 2]),
    "mean of squares": lambda x: np.mean([a * a for a in x]),
    "max": lambda x: np.max([x[0], x[1], 0.1]),
    "dot": lambda x: np.dot([x[0], x[1]], [1.0, 2.0]),
    "ufunc": lambda x: np.sin([x[0], 1.0]).sum(),
    "nested": lambda x: np.linalg.det([[x[0], 1.0], [0.5, x[1]]]),
    "solve": lambda x: np.linalg.solve([[x[0], 1.0], [0.0, 1.0]], [1.0, x[1]]).sum(),
    "cross": lambda x: np.cross([x[0], 1.0, 0.0], [0.0, x[1], 1.0]).sum(),
    "where": lambda x: np.where([True, False], [x[0], 1.0], [x[1], 2.0]).sum(),
    "parts": lambda x: np.concatenate([[x[0]], [1.0, x[1]]]).sum(),
    "stacked": lambda x: np.hstack([[x[0]], x]).sum(),
    "cumsum": lambda x: np.cumsum([x[0], 1.0, x[1]])[2],
    "interp": lambda x: np.interp(0.5, [0.0, 1.0], [x[0], x[1] ** 2]),
    "sorted": lambda x: np.sort([x[1], x[0]])[0],
    "fft": lambda x: np.abs(np.fft.fft([x[0], x[1], 1.0]))[1],
    "grown": _grown,
    "helper": lambda x: _distance(x, [x[1], 0.2]),
}


def _slope(f, x):
    steps = 1e-6 * np.eye(2)
    return np.array([(f(x + h) - f(x - h)) / 2e-6 for h in steps])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_lists_of_traced_values(name):
    f = FUNCTIONS[name]
    wanted = _slope(f, POINT)
    value, gradient = wg.value_and_grad(f)(POINT)
    np.testing.assert_allclose(value, f(POINT), rtol=1e-12)
    np.testing.assert_allclose(gradient, wanted, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(wg.jvp(f, (POINT,), (np.ones(2),))[1], wanted.sum(), rtol=1e-6)
    np.testing.assert_allclose(wg.jit(wg.grad(f))(POINT), gradient, rtol=1e-10, atol=1e-12)
    points = np.stack([POINT, POINT[::-1]])
    np.testing.assert_allclose(wg.vmap(f)(points), [f(p) for p in points], rtol=1e-12)


def test_lists_that_are_arguments():
    np.testing.assert_allclose(wg.grad(lambda p: np.sum(p))([1.0, 2.0]), [1.0, 1.0])
    np.testing.assert_allclose(wg.grad(lambda p: np.dot(p, p))((1.0, 2.0)), (2.0, 4.0))
    # and the same function of an array
    f = lambda p: np.prod(p)
    np.testing.assert_allclose(wg.grad(f)(np.array([2.0, 3.0])), [3.0, 2.0])
    np.testing.assert_allclose(wg.grad(f)([2.0, 3.0]), [3.0, 2.0])


def _layer(x, activation):
    return activation(x) * (2.0 if activation is np.tanh else 1.0)


def test_functions_stay_what_they_are():
    """What is compared, kept or given on is NumPy's own function."""
    kinds = {np.sin: 1.0, np.tanh: 3.0}

    def f(x, act=np.tanh):
        kept = [np.tanh, np.mean]
        assert act is np.tanh and kept[0] is act and kept[1] is MEAN
        assert isinstance(np.sin, np.ufunc) and kinds[np.sin] == 1.0
        assert np.linalg.LinAlgError is LINALG.LinAlgError
        return np.sum([_layer(x, np.tanh), _layer(x, np.sin)]) + act(x) * kinds[act]

    wanted = 5 * (1 - np.tanh(0.4) ** 2) + np.cos(0.4)
    np.testing.assert_allclose(wg.grad(f)(0.4), wanted, rtol=1e-12)
    np.testing.assert_allclose(wg.jit(wg.grad(f))(0.4), wanted, rtol=1e-12)


MEAN, LINALG = np.mean, np.linalg


def test_numpy_is_itself_behind_a_trace():
    wg.grad(FUNCTIONS["nested"])(POINT)
    assert FUNCTIONS["nested"].__globals__["np"].sum is np.sum
    assert LINALG is np.linalg and type(LINALG) is type(np)


def test_lists_of_other_shapes_are_an_error():
    with pytest.raises(wg.errors.ShapeError, match="shapes"):
        wg.grad(lambda x: np.sum([x, x[0]]))(POINT)
