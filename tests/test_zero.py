"""Zero is a place too: the documented subgradients, in every mode, finite to second order.

Each row: a function, a point, its first derivative and its second. Functions of arrays are
summed; the second derivative is the diagonal of the Hessian unless a matrix is given.
"""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp

INF = np.inf
# NumPy itself warns when the function is computed in its dead branch; the derivatives do not.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def v(*values):
    return np.array(values, dtype=float)


SCALAR = {
    # name: (f, x, f', f'')
    "abs": (np.abs, 0.0, 0.0, 0.0),
    "fabs": (np.fabs, 0.0, 0.0, 0.0),
    "builtin abs": (abs, 0.0, 0.0, 0.0),
    "sqrt": (np.sqrt, 0.0, 0.0, 0.0),
    "cbrt": (np.cbrt, 0.0, 0.0, 0.0),
    "sqrt of a square": (lambda x: np.sqrt(x**2), 0.0, 0.0, 0.0),
    "sqrt of a product": (lambda x: np.sqrt(x * x), 0.0, 0.0, 0.0),
    "square of a sqrt": (lambda x: np.sqrt(x) ** 2, 0.0, 0.0, 0.0),
    "hypot": (lambda x: np.hypot(x, 0.0), 0.0, 0.0, 0.0),
    "hypot, both": (lambda x: np.hypot(x, x), 0.0, 0.0, 0.0),
    "maximum at a tie": (lambda x: np.maximum(x, 0.0), 0.0, 0.5, 0.0),
    "minimum at a tie": (lambda x: np.minimum(0.0, x), 0.0, 0.5, 0.0),
    "maximum of x and x": (lambda x: np.maximum(x, x), 0.0, 1.0, 0.0),
    "maximum of x and -x": (lambda x: np.maximum(x, -x), 0.0, 0.0, 0.0),
    "sign": (np.sign, 0.0, 0.0, 0.0),
    "where sqrt": (lambda x: np.where(x > 0, np.sqrt(x), 0.0), 0.0, 0.0, 0.0),
    "where sqrt, negative": (lambda x: np.where(x > 0, np.sqrt(x), 0.0), -1.0, 0.0, 0.0),
    "where log": (lambda x: np.where(x > 0, np.log(x), x), 0.0, 1.0, 0.0),
    "where log, other": (lambda x: np.where(x > 0, np.log(x), 0.0), -2.0, 0.0, 0.0),
    "where division": (lambda x: np.where(x == 0, 1.0, np.sin(x) / x), 0.0, 0.0, 0.0),
    "where 1/x": (lambda x: np.where(x != 0, 1.0 / x, 3.0 * x), 0.0, 3.0, 0.0),
    "where x**-2": (lambda x: np.where(x != 0, x**-2, x), 0.0, 1.0, 0.0),
    "where exp overflows": (lambda x: np.where(x < 1, np.exp(x * 1e4), x), 2.0, 1.0, 0.0),
    "where arctanh": (lambda x: np.where(x < 1, np.arctanh(x), 2.0 * x), 1.0, 2.0, 0.0),
    "where arccos": (lambda x: np.where(np.abs(x) < 1, np.arccos(x), x), 2.0, 1.0, 0.0),
    "where log of abs": (lambda x: np.where(x == 0, 0.0, x * np.log(np.abs(x))), 0.0, 0.0, 0.0),
    "x**0": (lambda x: x**0, 0.0, 0.0, 0.0),
    "x**1": (lambda x: x**1, 0.0, 1.0, 0.0),
    "x**2": (lambda x: x**2, 0.0, 0.0, 2.0),
    "x**3": (lambda x: x**3, 0.0, 0.0, 0.0),
    "x**0.0": (lambda x: x**0.0, 0.0, 0.0, 0.0),
    "x**1.0": (lambda x: x**1.0, 0.0, 1.0, 0.0),
    "x**2.0": (lambda x: x**2.0, 0.0, 0.0, 2.0),
    "x**3.0": (lambda x: x**3.0, 0.0, 0.0, 0.0),
    "x**2.5": (lambda x: x**2.5, 0.0, 0.0, 0.0),
    "x**1.5": (lambda x: x**1.5, 0.0, 0.0, 0.0),
    "x**0.5": (lambda x: x**0.5, 0.0, 0.0, 0.0),
    "x**0.25": (lambda x: x**0.25, 0.0, 0.0, 0.0),
    "power ufunc": (lambda x: np.power(x, 2), 0.0, 0.0, 2.0),
    "0**y, y = 2": (lambda y: 0.0**y, 2.0, 0.0, 0.0),
    "0**y, y = 0": (lambda y: 0.0**y, 0.0, 0.0, 0.0),
    "negative base": (lambda x: x**3.0, -2.0, 12.0, -12.0),
    "x**y of x and x at 1": (lambda x: x**x, 1.0, 1.0, 2.0),
    "arctan2(x, 0)": (lambda x: np.arctan2(x, 0.0), 0.0, 0.0, 0.0),
    "arctan2(0, x)": (lambda x: np.arctan2(0.0, x), 0.0, 0.0, 0.0),
    "arctan2(x, x)": (lambda x: np.arctan2(x, x), 0.0, 0.0, 0.0),
    "sinc": (np.sinc, 0.0, 0.0, -(np.pi**2) / 3),
    "wnp.sinc": (wnp.sinc, 0.0, 0.0, -(np.pi**2) / 3),
    "logaddexp of -inf": (lambda x: np.logaddexp(x, -INF), 1.0, 1.0, 0.0),
    "logaddexp, both -inf": (lambda x: np.logaddexp(-INF, x - INF), 1.0, 0.0, 0.0),
    "xlogy(x, x)": (lambda x: wnp.xlogy(x, x), 1.0, 1.0, 1.0),
    "xlogy(0, y)": (lambda y: wnp.xlogy(0.0, y), 0.0, 0.0, 0.0),
    "entropy at 0": (lambda x: wnp.xlogy(x * 0, x), 0.0, 0.0, 0.0),
    "clip at the edge": (lambda x: np.clip(x, -1.0, 5.0), 0.0, 1.0, 0.0),
    "clip outside": (lambda x: np.clip(x, -1.0, 1.0), 3.0, 0.0, 0.0),
    "norm of one number": (lambda x: np.linalg.norm(wnp.array([x, x])), 0.0, 0.0, 0.0),
    "i0": (wnp.i0, 0.0, 0.0, 0.5),
    "std of equal numbers": (lambda x: np.std(wnp.array([x, x, x])), 2.0, 0.0, 0.0),
}


def passes(f, x):
    """The first derivative in every mode, the second in every mix of modes."""
    forward = lambda f: lambda x: wg.jvp(f, (x,), (1.0,))[1]
    first = [wg.grad(f)(x), forward(f)(x)]
    second = [
        wg.grad(wg.grad(f))(x), forward(forward(f))(x), forward(wg.grad(f))(x),
        wg.grad(forward(f))(x),
    ]  # fmt: skip
    return first, second


@pytest.mark.parametrize("name", SCALAR)
def test_scalar(name):
    f, x, first, second = SCALAR[name]
    got_first, got_second = passes(f, x)
    np.testing.assert_allclose(got_first, first, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(got_second, second, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", SCALAR)
def test_batched(name):
    """The same under vmap, beside a harmless point."""
    f, x, first, second = SCALAR[name]
    points = v(x, x)
    np.testing.assert_allclose(wg.vmap(wg.grad(f))(points), [first] * 2, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(
        wg.vmap(wg.grad(wg.grad(f)))(points), [second] * 2, rtol=1e-12, atol=1e-14
    )


ONE = np.eye(3)
ARRAYS = {
    # name: (f, x, gradient, Hessian)
    "norm": (np.linalg.norm, v(0, 0, 0), [0, 0, 0], np.zeros((3, 3))),
    "wnp.norm of a matrix": (
        lambda x: wnp.linalg.norm(wnp.outer(x, v(1, 1))), v(0, 0), [0, 0], np.zeros((2, 2)),
    ),
    "1-norm": (lambda x: np.linalg.norm(x, 1), v(0, 2, -3), [0, 1, -1], np.zeros((3, 3))),
    "inf-norm at a tie": (
        lambda x: np.linalg.norm(x, INF), v(2, -2), [0.5, -0.5], np.zeros((2, 2)),
    ),
    "norm per row": (
        lambda x: np.sum(np.linalg.norm(x.reshape(2, 2), axis=1)), v(0, 0, 3, 4), [0, 0, 0.6, 0.8],
        None,
    ),
    "max at a tie": (np.max, v(1, 3, 3), [0, 0.5, 0.5], np.zeros((3, 3))),
    "min at a tie": (np.min, v(1, 1, 3), [0.5, 0.5, 0], np.zeros((3, 3))),
    "max of equals": (np.max, v(0, 0, 0, 0), [0.25] * 4, np.zeros((4, 4))),
    "builtin max at a tie": (max, v(1, 3, 3), [0, 1, 0], np.zeros((3, 3))),
    "prod, one zero": (
        np.prod, v(0, 2, 5), [10, 0, 0], np.array([[0, 5, 2], [5, 0, 0], [2, 0, 0]]),
    ),
    "prod, two zeros": (
        np.prod, v(0, 0, 5), [0, 0, 0], np.array([[0, 5, 0], [5, 0, 0], [0, 0, 0]]),
    ),
    "prod, all zeros": (np.prod, v(0, 0, 0), [0, 0, 0], np.zeros((3, 3))),
    "cumprod with a zero": (lambda x: np.sum(np.cumprod(x)), v(2, 0, 5), [1, 12, 0], None),
    "logsumexp with -inf": (wnp.logsumexp, v(-INF, 0, 0), [0, 0.5, 0.5], None),
    "logsumexp, all -inf": (wnp.logsumexp, v(-INF, -INF), [0, 0], np.zeros((2, 2))),
    "log_softmax with -inf": (
        lambda x: wnp.log_softmax(x)[1], v(-INF, 0, 0), [0, 0.5, -0.5], None,
    ),
    "softmax with -inf": (lambda x: wnp.softmax(x)[1], v(-INF, 0, 0), [0, 0.25, -0.25], None),
    "var of equals": (np.var, v(2, 2), [0, 0], np.array([[0.5, -0.5], [-0.5, 0.5]])),
    "std of equals": (np.std, v(2, 2, 2), [0, 0, 0], np.zeros((3, 3))),
    "distance to itself": (
        lambda x: np.sum(np.sqrt(np.sum((x[:, None] - x[None, :]) ** 2, axis=-1) * 0.0)),
        v(1, 2), [0, 0], np.zeros((2, 2)),
    ),
    "pairwise distances": (
        lambda x: np.sum(np.linalg.norm(x.reshape(2, 1, 2) - x.reshape(1, 2, 2), axis=-1)),
        v(0, 0, 3, 4), [-1.2, -1.6, 1.2, 1.6], None,
    ),
    "masked mean": (
        lambda x: np.sum(np.where(x > 0, np.log(x), 0.0)), v(1, 0, -1), [1, 0, 0], None,
    ),
    "empty sum": (lambda x: np.sum(x[:0]), v(1, 2), [0, 0], np.zeros((2, 2))),
}  # fmt: skip


@pytest.mark.parametrize("name", ARRAYS)
def test_array(name):
    f, x, gradient, hessian = ARRAYS[name]
    np.testing.assert_allclose(wg.grad(f)(x), gradient, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(wg.jacfwd(f)(x), gradient, rtol=1e-12, atol=1e-14)
    for outer in (wg.jacfwd, wg.jacrev):
        for inner in (wg.grad, wg.jacfwd):
            second = outer(inner(f))(x)
            assert np.all(np.isfinite(second))
            np.testing.assert_allclose(second, second.T, rtol=1e-9, atol=1e-12)
            if hessian is not None:
                np.testing.assert_allclose(second, hessian, rtol=1e-12, atol=1e-14)


class TestSortTies:
    def test_each_value_goes_to_one_place(self):
        weights = v(1, 10, 100)
        for f in (np.sort, lambda x: -np.sort(-x)[::-1]):
            gradient = wg.grad(lambda x, f=f: np.sum(f(x) * weights))(v(2, 2, 1))
            assert sorted(gradient) == [1, 10, 100] and gradient[2] == 1
            assert not wg.hessian(lambda x, f=f: np.sum(f(x) * weights))(v(2, 2, 1)).any()

    def test_argmax_takes_the_first(self):
        x = v(3, 1, 3)
        np.testing.assert_array_equal(wg.grad(lambda x: x[np.argmax(x)])(x), [1, 0, 0])

    def test_median_and_quantile(self):
        for f in (np.median, lambda x: np.quantile(x, 0.5)):
            gradient = wg.grad(f)(v(1, 1, 1))
            np.testing.assert_allclose(np.sum(gradient), 1.0)
            assert np.all(np.isfinite(gradient))


class TestRepeatedEigenvalues:
    """Functions that are smooth where eigenvalues or singular values coincide."""

    sym = staticmethod(lambda a: (a + a.T) / 2)

    @pytest.mark.parametrize("matrix", [np.eye(3), np.diag(v(2, 2, 5)), np.zeros((3, 3))])
    def test_trace_of_eigenvalues(self, matrix):
        f = lambda a: np.sum(np.linalg.eigh(self.sym(a))[0])
        np.testing.assert_allclose(wg.grad(f)(matrix), np.eye(3), atol=1e-12)
        assert np.all(np.isfinite(wg.hessian(f)(matrix)))
        np.testing.assert_allclose(wg.hessian(f)(matrix), 0.0, atol=1e-12)

    @pytest.mark.parametrize("matrix", [np.eye(3), np.diag(v(2, 2, 5))])
    def test_sum_of_squares_of_eigenvalues(self, matrix):
        f = lambda a: np.sum(np.linalg.eigvalsh(self.sym(a)) ** 2)
        np.testing.assert_allclose(wg.grad(f)(matrix), 2 * matrix, atol=1e-12)

    @pytest.mark.parametrize("matrix", [np.eye(3), np.diag(v(2, 2, 5))])
    def test_reconstruction(self, matrix):
        def f(a):
            w, q = np.linalg.eigh(self.sym(a))
            return np.sum(((q * w) @ q.T) * np.arange(9.0).reshape(3, 3))

        weights = np.arange(9.0).reshape(3, 3)
        gradient = wg.grad(f)(matrix)
        assert np.all(np.isfinite(gradient))
        if matrix is not None:
            np.testing.assert_allclose(
                np.diag(gradient), np.diag((weights + weights.T) / 2), atol=1e-10
            )

    @pytest.mark.parametrize("matrix", [np.eye(3), np.diag(v(2, 2, 5))])
    def test_nuclear_norm(self, matrix):
        f = lambda a: np.sum(np.linalg.svd(a)[1])
        np.testing.assert_allclose(wg.grad(f)(matrix), np.eye(3), atol=1e-12)
        assert np.all(np.isfinite(wg.hessian(f)(matrix)))

    @pytest.mark.parametrize("matrix", [np.eye(3), np.diag(v(2, 2, 5)), np.zeros((3, 3))])
    def test_frobenius_norm_by_singular_values(self, matrix):
        f = lambda a: np.sum(np.linalg.svd(a, compute_uv=False) ** 2)
        np.testing.assert_allclose(wg.grad(f)(matrix), 2 * matrix, atol=1e-12)
        assert np.all(np.isfinite(wg.hessian(f)(matrix)))

    def test_determinant_of_a_singular_matrix(self):
        a = np.array([[1.0, 2.0], [2.0, 4.0]])
        np.testing.assert_allclose(wg.grad(np.linalg.det)(a), [[4, -2], [-2, 1]], atol=1e-12)
        np.testing.assert_allclose(wg.grad(np.linalg.det)(np.zeros((2, 2))), 0.0, atol=1e-12)
        hessian = wg.hessian(np.linalg.det)(a)
        assert np.all(np.isfinite(hessian))
        np.testing.assert_allclose(hessian[0, 0, 1, 1], 1.0, atol=1e-12)
        np.testing.assert_allclose(hessian[0, 1, 1, 0], -1.0, atol=1e-12)


@pytest.mark.filterwarnings("error")
class TestWithoutWarnings:
    """Where NumPy computes the function without a warning, so are its derivatives."""

    def test_derivatives_are_silent(self):
        f = lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0))
        np.testing.assert_array_equal(wg.grad(f)(v(0, 4)), [0, 0.25])
        np.testing.assert_array_equal(wg.jacfwd(f)(v(0, 4)), [0, 0.25])
        for name in ("sqrt", "x**0.5", "hypot, both", "arctan2(x, x)", "sinc", "x**2.5"):
            f, x, first, _ = SCALAR[name]
            assert wg.grad(f)(x) == first
            assert np.all(np.isfinite(wg.vmap(wg.grad(wg.grad(f)))(v(x, x))))


def test_float32_rows_are_finite_too():
    for name, (f, x, first, _) in SCALAR.items():
        got = wg.grad(f)(np.float32(x))
        np.testing.assert_allclose(got, first, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("function", [np.fmax, np.fmin])
def test_fmax_and_fmin_follow_the_number_beside_a_nan(function):
    assert wg.grad(function, (0, 1))(1.0, np.nan) == (1.0, 0.0)
    assert wg.grad(function, (0, 1))(np.nan, 1.0) == (0.0, 1.0)
    assert wg.grad(function, (0, 1))(1.0, 1.0) == (0.5, 0.5)
