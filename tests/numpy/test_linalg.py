"""The functions of ``wengert.numpy.linalg`` against NumPy's values, finite differences and JAX."""

import numpy as np
import pytest

import wengert.numpy as wnp
from wengert.errors import DerivativeError, DTypeError, ShapeError
from wengert.transforms.batching import vmap
from wengert.transforms.check import check_grads
from wengert.transforms.jacobian import hessian
from wengert.transforms.reverse import grad

rng = np.random.default_rng(0)
SQUARE = rng.normal(size=(4, 4)) + 3 * np.eye(4)
STACK = rng.normal(size=(2, 3, 3)) + 3 * np.eye(3)
TALL = rng.normal(size=(5, 3))
WIDE = rng.normal(size=(2, 3, 4))
POSITIVE = TALL.T @ TALL + np.eye(3)
SYMMETRIC = SQUARE + SQUARE.T
VECTOR = rng.normal(size=4)
COMPLEX = SQUARE + 1j * rng.normal(size=(4, 4))

CASES = [
    ("solve", (SQUARE, VECTOR), {}),
    ("solve", (STACK, rng.normal(size=(3, 2))), {}),
    ("solve", (COMPLEX, rng.normal(size=(4, 2))), {}),
    ("inv", (STACK,), {}),
    ("inv", (COMPLEX,), {}),
    ("pinv", (TALL,), {}),
    ("pinv", (WIDE,), {"rcond": 1e-8}),
    ("pinv", (SYMMETRIC,), {"hermitian": True}),
    ("pinv", (TALL,), {"rtol": None}),
    ("det", (STACK,), {}),
    ("det", (SQUARE,), {}),
    ("det", (COMPLEX,), {}),
    ("slogdet", (STACK,), {}),
    ("slogdet", (COMPLEX,), {}),
    ("cholesky", (POSITIVE,), {}),
    ("cholesky", (POSITIVE,), {"upper": True}),
    ("qr", (TALL,), {}),
    ("qr", (WIDE,), {"mode": "complete"}),
    ("qr", (TALL,), {"mode": "r"}),
    ("eigh", (SYMMETRIC,), {}),
    ("eigh", (SQUARE,), {"UPLO": "L"}),
    ("eigh", (SQUARE,), {"UPLO": "U"}),
    ("eigvalsh", (SYMMETRIC,), {}),
    ("eigvalsh", (SQUARE,), {"UPLO": "U"}),
    ("svd", (TALL,), {"full_matrices": False}),
    ("svd", (SQUARE,), {}),
    ("svd", (WIDE,), {"compute_uv": False}),
    ("svdvals", (WIDE,), {}),
    ("eig", (COMPLEX,), {}),
    ("eigvals", (COMPLEX,), {}),
    ("lstsq", (TALL, rng.normal(size=(5, 2))), {}),
    ("lstsq", (TALL.T.copy(), rng.normal(size=3)), {}),
    ("matrix_power", (STACK,), {"n": 5}),
    ("matrix_power", (STACK,), {"n": -2}),
    ("matrix_power", (STACK,), {"n": 0}),
    ("matrix_rank", (TALL,), {}),
    ("matrix_rank", (np.ones((2, 3, 3)),), {}),
    ("matrix_rank", (SYMMETRIC,), {"hermitian": True}),
    ("matrix_rank", (VECTOR,), {}),
    ("cond", (SQUARE,), {}),
    ("cond", (STACK,), {"p": -2}),
    ("cond", (STACK,), {"p": 1}),
    ("multi_dot", ([TALL, TALL.T, TALL, np.ones(3)],), {}),
    ("tensorsolve", (rng.normal(size=(2, 3, 6)), rng.normal(size=(2, 3))), {}),
    ("tensorsolve", (rng.normal(size=(2, 6, 3)), rng.normal(size=(2, 3))), {"axes": (1,)}),
    ("tensorinv", (rng.normal(size=(2, 3, 6)),), {}),
    ("trace", (WIDE,), {"offset": 1}),
    ("diagonal", (WIDE,), {}),
    ("matrix_transpose", (WIDE,), {}),
    ("outer", (VECTOR, VECTOR), {}),
    ("cross", (TALL, TALL[::-1]), {}),
    ("matmul", (STACK, WIDE), {}),
    ("tensordot", (TALL, TALL), {"axes": 2}),
    ("vecdot", (TALL, TALL), {}),
    ("vector_norm", (WIDE,), {"axis": (0, 2), "keepdims": True, "ord": 3}),
    ("vector_norm", (WIDE,), {}),
    ("matrix_norm", (WIDE,), {"ord": "nuc", "keepdims": True}),
]
NORMS = [
    *[(VECTOR, {"ord": p}) for p in (None, 1, 2, 3, 0.5, 2.5, -1, np.inf, -np.inf)],
    *[(TALL, {"ord": p}) for p in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)],
    *[(WIDE, {"ord": p, "axis": (2, 0)}) for p in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)],
    *[(WIDE, {"ord": p, "axis": 1, "keepdims": True}) for p in (None, 1, 3, np.inf)],
    (WIDE, {}),
    (WIDE, {"keepdims": True}),
    (COMPLEX, {}),
    (COMPLEX, {"ord": 2}),
    (COMPLEX[0], {"ord": 1}),
]
CASES += [("norm", (x,), options) for x, options in NORMS]


def leaves(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


@pytest.mark.parametrize(("name", "args", "options"), CASES)
def test_values_and_dtypes_are_numpys(name, args, options):
    ours, theirs = getattr(wnp.linalg, name), getattr(np.linalg, name)
    single = [narrow(arg) for arg in args]
    for given, tolerance in ((list(args), 1e-10), (single, 2e-3)):
        results = [leaves(f(*given, **options)) for f in (ours, theirs)]
        if options.get("UPLO") == "U" and name == "eigh":
            # the same vectors, but LAPACK picks their signs by the triangle it reads
            results = [[w, abs(v)] for w, v in results]
        for got, want in zip(*results, strict=True):
            assert np.asarray(got).dtype == np.asarray(want).dtype
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def narrow(x):
    if isinstance(x, list):
        return [narrow(item) for item in x]
    return x.astype(np.complex64 if x.dtype.kind == "c" else np.float32)


DISCRETE = ("matrix_rank",)


@pytest.mark.parametrize(("name", "args", "options"), CASES)
def test_derivatives_by_finite_differences(name, args, options):
    # plain NumPy on traced values ends up in wengert; on plain ones it reads one triangle only
    hermitian = name in ("cholesky", "eigh", "eigvalsh") or options.get("hermitian")
    function = getattr(wnp.linalg if hermitian else np.linalg, name)
    expected = 0 if name in DISCRETE or options.get("n") == 0 else 2
    if not expected:
        return
    if isinstance(args[0], list):
        check_grads(lambda *xs: function(list(xs)), tuple(args[0]), order=2, step=3e-4)
        return
    if name in ("svd", "qr", "eigh", "eig", "lstsq"):
        # vectors of a factorisation may change their sign from one point to the next
        check_grads(lambda *xs: invariant(name, function(*xs, **options)), args, step=3e-4)
        return
    check_grads(lambda *xs: function(*xs, **options), args, order=2, step=3e-4)


def invariant(name, result):
    """Results that do not depend on the signs LAPACK picks."""
    if name == "lstsq":
        return result[0], result[1], result[3]
    if name in ("eigh", "eig"):
        return result[0], np.abs(result[1]) ** 2
    if name == "svd":
        if not isinstance(result, tuple):
            return result
        return result.S, np.abs(result.U) ** 2, np.abs(result.Vh) ** 2, result.U @ result.Vh
    if not isinstance(result, tuple):
        return result**2
    return result.Q**2, result.R**2, result.Q @ result.R


def test_zero_order_norm_counts():
    x = np.array([0.0, 2.0, -1.0], np.float32)
    assert wnp.linalg.norm(x, 0) == 2 and wnp.linalg.norm(x, 0).dtype == np.float32
    np.testing.assert_array_equal(grad(lambda x: np.linalg.norm(x, 0))(x), 0)


@pytest.mark.parametrize(("lower", "trans", "unit"), [(1, 0, 0), (0, 0, 1), (1, "T", 1), (0, 2, 0)])
@pytest.mark.parametrize("n", [3, 150])
def test_solve_triangular(n, lower, trans, unit):
    a = rng.normal(size=(n, n)) / n + 1j * rng.normal(size=(n, n)) / n + 2 * np.eye(n)
    b = rng.normal(size=(n, 2))
    triangle = np.tril(a) if lower else np.triu(a)
    if unit:
        np.fill_diagonal(triangle, 1)
    full = {0: triangle, "T": triangle.T, 2: triangle.conj().T}[trans]
    x = wnp.linalg.solve_triangular(a, b, trans, lower=lower, unit_diagonal=unit)
    np.testing.assert_allclose(full @ x, b, atol=1e-12)
    if n == 3:
        check_grads(lambda a, b: wnp.linalg.solve_triangular(a, b, trans, lower, unit), (a, b))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_expm(scale):
    scipy_linalg = pytest.importorskip("scipy.linalg")
    a = scale * rng.normal(size=(2, 4, 4)) / 4
    want = scipy_linalg.expm(a)
    np.testing.assert_allclose(wnp.linalg.expm(a), want, rtol=1e-10, atol=1e-12 * abs(want).max())
    check_grads(lambda a: wnp.linalg.expm(a) / abs(want).max(), (a,), order=3 if scale == 1 else 1)


def test_expm_of_a_rotation_and_of_integers():
    turn = np.array([[0, -1], [1, 0]])
    want = [[np.cos(1), -np.sin(1)], [np.sin(1), np.cos(1)]]
    np.testing.assert_allclose(wnp.linalg.expm(turn), want, atol=1e-15)
    assert wnp.linalg.expm(turn.astype(np.float32)).dtype == np.float32
    assert wnp.linalg.expm(np.zeros((0, 0))).shape == (0, 0)


def test_batches_by_vmap():
    a, b = STACK, rng.normal(size=(2, 3))
    want = [np.linalg.solve(*pair) for pair in zip(a, b, strict=True)]
    np.testing.assert_allclose(vmap(wnp.linalg.solve)(a, b), want)
    tall = rng.normal(size=(2, 5, 3))
    got = vmap(lambda a, b: wnp.linalg.lstsq(a, b)[0])(tall, rng.normal(size=(2, 5)))
    assert got.shape == (2, 3)
    np.testing.assert_allclose(
        vmap(grad(lambda a: wnp.linalg.slogdet(a).logabsdet))(a),
        np.linalg.inv(a).swapaxes(1, 2),
        atol=1e-12,
    )


def test_rank_deficient_least_squares():
    a = np.outer([1.0, 2.0, 3.0, 4.0], [1.0, -1.0, 2.0])
    left, right, b = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, -1.0, 2.0]), rng.normal(size=4)
    check_grads(lambda u, v: wnp.linalg.lstsq(np.outer(u, v), b)[0], (left, right), step=3e-4)
    check_grads(lambda u, v: wnp.linalg.pinv(np.outer(u, v)), (left, right), step=3e-4)
    _, residuals, rank, s = wnp.linalg.lstsq(a, b)
    assert residuals.shape == (0,) and rank == 1
    np.testing.assert_allclose(s, np.linalg.lstsq(a, b)[3], atol=1e-14)


# ---------------------------------------------------------------- against JAX


def reduced(outputs):
    """A scalar of the results that no choice of signs changes."""
    return sum((k + 1.0) * (abs(x) ** 2 * weights(x.shape)).sum() for k, x in enumerate(outputs))


def weights(shape):
    return np.arange(1.0, 1 + np.prod(shape)).reshape(shape)


PEERS = {
    "eigh": lambda m, a: m.linalg.eigh(a),
    "eigvalsh": lambda m, a: [m.linalg.eigvalsh(a)],
    "cholesky": lambda m, a: [m.linalg.cholesky(a @ a.T + m.eye(4))],
    "cholesky of a": lambda m, a: [m.linalg.cholesky(a + 20 * m.eye(4))],
    "svd": lambda m, a: m.linalg.svd(a[:, :3], full_matrices=False),
    "wide svd": lambda m, a: m.linalg.svd(a[:3], full_matrices=False),
    "qr": lambda m, a: m.linalg.qr(a[:, :3]),
    "square qr": lambda m, a: m.linalg.qr(a),
    "det": lambda m, a: [m.linalg.det(a)],
    "slogdet": lambda m, a: [m.linalg.slogdet(a)[1]],
    "solve": lambda m, a: [m.linalg.solve(a, a[:, :2])],
    "inv": lambda m, a: [m.linalg.inv(a)],
    "pinv": lambda m, a: [m.linalg.pinv(a[:, :2])],
    "eigvals": lambda m, a: [m.linalg.eigvals(a).real],
    "nuclear norm": lambda m, a: [m.linalg.norm(a, "nuc")],
    "spectral norm": lambda m, a: [m.linalg.norm(a, 2)],
    "matrix power": lambda m, a: [m.linalg.matrix_power(a, 3)],
    "fft": lambda m, a: [m.fft.fft(a), m.fft.rfft2(a)],
    "irfft": lambda m, a: [m.fft.irfft(m.fft.rfft(a) ** 2, 5)],
}


def peers(name):
    """The function written with wengert and with JAX, and where to compare them."""
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    x = SYMMETRIC if name in ("eigh", "eigvalsh", "cholesky of a", "eigvals") else SQUARE
    x = x + np.triu(SQUARE, 1) * 0.1 if name == "eigvals" else x
    return (
        lambda a: reduced(PEERS[name](wnp, a)),
        lambda a: reduced(PEERS[name](jax.numpy, a)),
        x,
        jax,
    )


@pytest.mark.parametrize("name", PEERS)
def test_same_gradient_as_jax(name):
    ours, theirs, x, jax = peers(name)
    value, want = jax.jit(jax.value_and_grad(theirs))(x)
    np.testing.assert_allclose(ours(x), value, rtol=1e-9)
    np.testing.assert_allclose(grad(ours)(x), want, rtol=1e-9, atol=1e-9 * abs(want).max())


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PEERS if name != "eigvals"])
def test_same_hessian_as_jax(name):
    ours, theirs, x, jax = peers(name)
    want = np.asarray(jax.jit(jax.hessian(theirs))(x))
    np.testing.assert_allclose(hessian(ours)(x), want, rtol=1e-8, atol=1e-9 * abs(want).max())


# ---------------------------------------------------------------- special points


@pytest.mark.parametrize("ord", [None, 1, 2, 3, 2.5, np.inf, "nuc", "fro"])
def test_derivatives_of_the_norm_at_zero_are_zero_to_second_order(ord):
    zero = np.zeros((2, 3) if isinstance(ord, str) else 3)
    np.testing.assert_array_equal(grad(lambda x: np.linalg.norm(x, ord))(zero), 0)
    np.testing.assert_array_equal(hessian(lambda x: np.linalg.norm(x, ord))(zero), 0)


def test_nuclear_norm_at_a_rank_deficient_matrix():
    x = np.outer([1.0, 2.0, 2.0], [3.0, 4.0])
    gradient = grad(lambda x: np.linalg.norm(x, "nuc"))(x)
    along = np.outer([1 / 3, 2 / 3, 2 / 3], [0.6, 0.8])
    np.testing.assert_allclose(np.sum(gradient * along), 1)


@pytest.mark.parametrize("rank", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 6])
def test_determinant_of_any_rank(n, rank):
    if rank > n:
        return
    a = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, n))
    check_grads(np.linalg.det, (a,), order=2)
    minors = [
        [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) for j in range(n)]
        for i in range(n)
    ]
    np.testing.assert_allclose(grad(np.linalg.det)(a), minors, atol=1e-11)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_determinant_at_the_identity_to_third_order(n):
    check_grads(np.linalg.det, (np.eye(n),), order=3)
    check_grads(lambda a: np.linalg.det(a) ** 2, (np.diag([*range(n)]) * 1.0,), order=3)


@pytest.mark.parametrize("rotate", [False, True])
def test_repeated_eigenvalues(rotate):
    x = np.diag([2.0, 2.0, 5.0])
    x = turned(x) if rotate else x
    total = lambda x: np.sum(np.linalg.eigvalsh(x))
    np.testing.assert_allclose(grad(total)(x), np.eye(3), atol=1e-12)
    np.testing.assert_allclose(hessian(total)(x), 0, atol=1e-12)
    np.testing.assert_allclose(
        grad(lambda x: np.sum(np.exp(np.linalg.eigvalsh(x))))(x), wnp.linalg.expm(x), atol=1e-9
    )
    np.testing.assert_allclose(grad(trace_of_cube)(x), 3 * x @ x, atol=1e-10)


def turned(a):
    q = np.linalg.qr(rng.normal(size=a.shape))[0]
    return symmetrised(q @ a @ q.T)


def symmetrised(a):
    return (a + a.T) / 2


def trace_of_cube(x):
    w, v = np.linalg.eigh(x)
    return np.trace(v @ np.diag(w**3) @ v.T)


def test_repeated_singular_values():
    q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    np.testing.assert_allclose(grad(lambda x: np.sum(wnp.linalg.svdvals(x)))(q), q, atol=1e-12)
    np.testing.assert_allclose(
        grad(lambda x: np.sum(wnp.linalg.svdvals(x) ** 2))(3 * np.eye(4)), 6 * np.eye(4), atol=1e-12
    )
    np.testing.assert_array_equal(grad(lambda x: np.linalg.norm(x, "nuc"))(np.zeros((2, 2))), 0)


# ---------------------------------------------------------------- errors


def test_singular_matrices_raise_numpys_error():
    singular = np.ones((2, 2))
    for name, args in (("solve", (singular, np.ones(2))), ("inv", (singular,))):
        with pytest.raises(
            np.linalg.LinAlgError, match=r"Singular matrix. Use lstsq or pinv"
        ) as info:
            getattr(wnp.linalg, name)(*args)
        assert isinstance(info.value, wnp.linalg.LinAlgError)
        assert str(info.value).startswith(name)
    with pytest.raises(np.linalg.LinAlgError, match=r"not positive definite. Add a small multiple"):
        wnp.linalg.cholesky(-np.eye(2))
    with pytest.raises(np.linalg.LinAlgError, match=r"Singular"):
        grad(lambda a: np.linalg.slogdet(a)[1])(singular)


def test_shapes_are_checked():
    with pytest.raises(ShapeError, match=r"inv .*shape \(2, 3\), expected \(\.\.\., n, n\)"):
        wnp.linalg.inv(np.ones((2, 3)))
    with pytest.raises(np.linalg.LinAlgError, match=r"det .*shape \(3,\)"):
        wnp.linalg.det(np.ones(3))
    with pytest.raises(
        ShapeError, match=r"matrices of shape \(2, 2\) and right-hand sides of shape \(3, 1\)"
    ):
        wnp.linalg.solve(np.eye(2), np.ones(3))
    with pytest.raises(ShapeError, match=r"Use vmap for a stack of problems"):
        wnp.linalg.lstsq(np.ones((2, 3, 2)), np.ones(3))
    with pytest.raises(DTypeError, match=r"inv .*is not defined for f16\[2,2\]"):
        wnp.linalg.inv(np.eye(2, dtype=np.float16))
    with pytest.raises(ValueError, match=r"got 3 axes with ord=1, expected one .a vector. or two"):
        wnp.linalg.norm(WIDE, 1)
    with pytest.raises(ValueError, match=r"got ord='fro' for vectors"):
        wnp.linalg.norm(VECTOR, "fro")
    with pytest.raises(ValueError, match=r"got ord=5 for matrices"):
        wnp.linalg.norm(TALL, 5)


def test_options_are_checked():
    with pytest.raises(ValueError, match=r"qr .*got mode='raw'. Use 'reduced', 'complete' or 'r'"):
        wnp.linalg.qr(TALL, "raw")
    with pytest.raises(ValueError, match=r"got UPLO='X'. Use 'L' or 'U'"):
        wnp.linalg.eigh(SYMMETRIC, "X")
    with pytest.raises(ValueError, match=r"got trans=3"):
        wnp.linalg.solve_triangular(SQUARE, VECTOR, 3)
    with pytest.raises(
        DTypeError, match=r"matrix_power .*got the exponent 1.5. Use a whole number"
    ):
        wnp.linalg.matrix_power(SQUARE, 1.5)


def test_undetermined_vectors_have_no_derivative():
    with pytest.raises(
        DerivativeError, match=r"last 2 columns of q are not determined.*mode='reduced'"
    ):
        grad(lambda x: np.sum(np.linalg.qr(x, "complete")[1]))(TALL)
    with pytest.raises(DerivativeError, match=r"last 2 singular vectors.*Use full_matrices=False"):
        grad(lambda x: np.sum(np.linalg.svd(x)[1]))(TALL)
