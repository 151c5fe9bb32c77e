"""`wengert.scipy.linalg` beside SciPy: values, derivatives, batches, compiled."""

import numpy as np
import pytest
import scipy.linalg

import wengert as wg
from wengert.loops import Host
from wengert.scipy import linalg

RNG = np.random.default_rng(7)
A = RNG.normal(size=(4, 4)) + 4 * np.eye(4)
TURNED = A[[2, 0, 3, 1]]
S = A @ A.T
B = RNG.normal(size=(4, 2))
V = RNG.normal(size=4)
TALL, WIDE = RNG.normal(size=(5, 3)), RNG.normal(size=(3, 5))
AB = RNG.normal(size=(4, 5)) + np.array([[0], [4], [0], [0]])
REAL = np.diag([1.0, 3, 5, 8]) + 0.1 * RNG.normal(size=(4, 4))
COMPLEX = A + 1j * RNG.normal(size=(4, 4))

# The name, its arguments, its options; what of them is differentiated follows from the dtype.
CASES = {
    "solve": ("solve", (A, B), {}),
    "solve pos": ("solve", (S, V), {"assume_a": "pos"}),
    "solve sym": ("solve", (A, V), {"assume_a": "sym", "lower": True}),
    "solve her": ("solve", (A, V), {"assume_a": "her"}),
    "solve_triangular": ("solve_triangular", (A, V), {"lower": True, "check_finite": False}),
    "solve_triangular turned": ("solve_triangular", (A, B), {"trans": "T"}),
    "solve_sylvester": ("solve_sylvester", (A, S, RNG.normal(size=(4, 4))), {}),
    "lstsq": ("lstsq", (TALL, RNG.normal(size=5)), {}),
    "pinv": ("pinv", (TALL,), {}),
    "pinv rank": ("pinv", (WIDE,), {"return_rank": True, "atol": 0.1, "rtol": 0.01}),
    "cholesky": ("cholesky", (S,), {}),
    "cholesky lower": ("cholesky", (S,), {"lower": True}),
    "cholesky of a triangle": ("cholesky", (np.tril(S),), {"lower": True}),
    "lu": ("lu", (TURNED,), {}),
    "lu tall": ("lu", (TALL,), {}),
    "lu wide": ("lu", (WIDE,), {}),
    "lu permute_l": ("lu", (TALL,), {"permute_l": True}),
    "lu p_indices": ("lu", (WIDE,), {"p_indices": True}),
    "lu_factor": ("lu_factor", (TURNED,), {}),
    "lu_factor tall": ("lu_factor", (TALL,), {}),
    "qr": ("qr", (A,), {}),
    "qr economic": ("qr", (TALL,), {"mode": "economic"}),
    "qr r": ("qr", (WIDE,), {"mode": "r"}),
    "svd": ("svd", (TALL,), {"full_matrices": False}),
    "svd values": ("svd", (TALL,), {"compute_uv": False}),
    "svdvals": ("svdvals", (WIDE,), {}),
    "eigh": ("eigh", (S,), {}),
    "eigh of a triangle": ("eigh", (A,), {"lower": False}),
    "eigh of two": ("eigh", (A + A.T, S), {}),
    "eigh of two upper": ("eigh", (A + A.T, S), {"lower": False, "eigvals_only": True}),
    "eigvalsh": ("eigvalsh", (S,), {}),
    "schur": ("schur", (REAL,), {}),
    "polar": ("polar", (A,), {}),
    "polar left": ("polar", (WIDE,), {"side": "left"}),
    "sqrtm": ("sqrtm", (A,), {}),
    "logm": ("logm", (A,), {}),
    "expm": ("expm", (0.3 * A,), {}),
    "inv": ("inv", (A,), {}),
    "det": ("det", (A,), {}),
    "norm": ("norm", (A,), {}),
    "norm nuclear": ("norm", (A, "nuc"), {}),
    "block_diag": ("block_diag", (A, V, 2.0, TALL), {}),
    "toeplitz": ("toeplitz", (V,), {}),
    "toeplitz row": ("toeplitz", (V, RNG.normal(size=3)), {}),
    "circulant": ("circulant", (V,), {}),
    "hankel": ("hankel", (V,), {}),
    "hankel row": ("hankel", (V, RNG.normal(size=2)), {}),
}


def leaves(result):
    return [np.asarray(leaf) for leaf in (result if isinstance(result, tuple) else (result,))]


def same_signs(vectors):
    """Eigenvectors whose first elements are positive: which sign they have is LAPACK's choice."""
    return vectors * np.sign(vectors[:1])


def called(name, options):
    return lambda *args: getattr(linalg, name)(*args, **options)


@pytest.mark.parametrize(("name", "args", "options"), CASES.values(), ids=list(CASES))
def test_values_are_scipys(name, args, options):
    expected = getattr(scipy.linalg, name)(*args, **options)
    found = getattr(linalg, name)(*args, **options)
    if isinstance(found, tuple) and name == "eigh":
        found, expected = ((w, same_signs(v)) for w, v in (found, expected))
    for one, other in zip(leaves(found), leaves(expected), strict=True):
        assert one.shape == other.shape
        if name != "lstsq" or other.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("name", "args", "options"), CASES.values(), ids=list(CASES))
def test_derivatives(name, args, options):
    places = [k for k, arg in enumerate(args) if not isinstance(arg, str)]

    def function(*active):
        full = list(args)
        for place, value in zip(places, active, strict=True):
            full[place] = value
        found = called(name, options)(*full)
        found = found if isinstance(found, tuple) else (found,)
        return [leaf for leaf in found if np.asarray(leaf).dtype.kind == "f"]

    wg.check_grads(function, [args[k] for k in places], order=2)


@pytest.mark.parametrize(("name", "args", "options"), CASES.values(), ids=list(CASES))
def test_compiled(name, args, options):
    arrays = [arg for arg in args if not isinstance(arg, str)]
    rest = args[len(arrays) :]
    found = wg.jit(lambda *xs: called(name, options)(*xs, *rest))(*arrays)
    for one, other in zip(leaves(found), leaves(called(name, options)(*args)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(("name", "args", "options"), CASES.values(), ids=list(CASES))
def test_batches(name, args, options):
    arrays = [np.asarray(arg) for arg in args if not isinstance(arg, str)]
    rest = args[len(arrays) :]
    function = called(name, options)
    stacked = [np.stack([array, 1.5 * array]) for array in arrays]
    found = wg.vmap(lambda *xs: function(*xs, *rest))(*stacked)
    for n in range(2):
        one_by_one = function(*[array[n] for array in stacked], *rest)
        for one, other in zip(leaves(found), leaves(one_by_one), strict=True):
            np.testing.assert_allclose(one[n], other, rtol=1e-10, atol=1e-10)


def test_of_equal_elements_the_first_is_taken_as_in_scipy():
    ties = np.array([[1.0, 2.0], [-1.0, 5.0], [1.0, -3.0]])
    for one, other in zip(linalg.lu(ties), scipy.linalg.lu(ties), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14)


@pytest.mark.parametrize("trans", [0, 1, 2])
@pytest.mark.parametrize("b", [B, V])
def test_factors_solve(trans, b):
    factors = scipy.linalg.lu_factor(TURNED)
    expected = scipy.linalg.lu_solve(factors, b, trans)
    np.testing.assert_allclose(linalg.lu_solve(factors, b, trans), expected, rtol=1e-12)

    def solved(a, b):
        return linalg.lu_solve(linalg.lu_factor(a), b, trans)

    np.testing.assert_allclose(wg.jit(solved)(TURNED, b), expected, rtol=1e-11)
    wg.check_grads(solved, (TURNED, b), order=2)
    stacked = np.stack([TURNED, A])
    both = wg.vmap(lambda a: solved(a, b))(stacked)
    np.testing.assert_allclose(both[1], scipy.linalg.lu_solve(scipy.linalg.lu_factor(A), b, trans))


@pytest.mark.parametrize("lower", [True, False])
def test_cholesky_solves(lower):
    factors = scipy.linalg.cho_factor(S, lower)
    expected = scipy.linalg.cho_solve(factors, B)
    np.testing.assert_allclose(linalg.cho_solve(factors, B), expected, rtol=1e-12)

    def solved(s, b):
        return linalg.cho_solve(linalg.cho_factor(s, lower), b)

    np.testing.assert_allclose(wg.jit(solved)(S, B), expected, rtol=1e-10)
    wg.check_grads(solved, (S, B), order=2)


@pytest.mark.parametrize("b", [RNG.normal(size=5), RNG.normal(size=(5, 2))])
def test_banded(b):
    expected = scipy.linalg.solve_banded((2, 1), AB, b)
    np.testing.assert_allclose(linalg.solve_banded((2, 1), AB, b), expected, rtol=1e-12)
    solved = lambda ab, b: linalg.solve_banded((2, 1), ab, b)
    np.testing.assert_allclose(wg.jit(solved)(AB, b), expected, rtol=1e-12)
    wg.check_grads(solved, (AB, b), order=2)
    stacked = np.stack([AB, 2 * AB])
    np.testing.assert_allclose(wg.vmap(solved, in_axes=(0, None))(stacked, b)[1], expected / 2)


def test_complex_matrices():
    triangle, unitary = linalg.schur(A, output="complex")
    np.testing.assert_allclose(unitary @ triangle @ unitary.conj().T, A, atol=1e-12)
    np.testing.assert_allclose(linalg.schur(COMPLEX)[0], scipy.linalg.schur(COMPLEX)[0])
    root = linalg.sqrtm(-S.astype(complex))
    np.testing.assert_allclose(root @ root, -S, atol=1e-11)
    wg.check_grads(linalg.sqrtm, (COMPLEX,), order=1)
    np.testing.assert_allclose(
        linalg.toeplitz(COMPLEX[0]), scipy.linalg.toeplitz(COMPLEX[0]), rtol=1e-14
    )
    np.testing.assert_allclose(linalg.eigvals(A).imag.sum(), 0, atol=1e-12)


def test_what_of_a_complex_schur_form_is_determined_has_derivatives():
    turn = np.array([[1.0, 2.0], [-3.0, 0.5]])

    def eigenvalues(a):
        triangle, unitary = linalg.schur(a, output="complex")
        whole = unitary @ triangle @ np.conj(unitary).T
        return np.real(np.diag(triangle)), np.imag(np.diag(triangle)), np.real(whole)

    wg.check_grads(eigenvalues, (turn,), order=1)


def test_errors():
    turn = np.array([[1.0, 2.0], [-3.0, 0.5]])
    assert np.any(linalg.schur(turn)[0][1])  # the value is there
    with pytest.raises(np.linalg.LinAlgError, match="has complex eigenvalues: its real form"):
        wg.jvp(linalg.schur, (turn,), (turn,))
    for size in (2, 8):
        once = r"^sqrtm \(.*\): the matrix has no square root of real numbers.*astype\(complex\)\.$"
        with pytest.raises(np.linalg.LinAlgError, match=once):
            wg.jit(linalg.sqrtm)(-np.eye(size))
    with pytest.raises(np.linalg.LinAlgError, match="no logarithm of real numbers"):
        wg.jit(linalg.logm)(-np.eye(2))
    with pytest.raises(ValueError, match=r"ab needs 3 rows and as many columns as b has rows"):
        linalg.solve_banded((1, 1), AB, V)
    with pytest.raises(ValueError, match=r"got mode='raw'. Use one of 'full', 'economic', 'r'"):
        linalg.qr(A, mode="raw")
    with pytest.raises(ValueError, match=r"got an array of shape \(4, 4\), expected a vector"):
        linalg.toeplitz(A)
    with pytest.raises(ValueError, match="q needs as many rows as a and as many columns as b"):
        linalg.solve_sylvester(A, A, B)
    with pytest.raises(TypeError, match="nothing"):
        linalg.lu(A, nothing=3)


def test_names_are_scipys():
    assert [name for name in linalg.__all__ if not hasattr(scipy.linalg, name)] == []


def test_roots_and_logarithms_of_real_matrices_that_are_complex():
    """Where values are known, also while a function is differentiated."""
    given = A - 4 * np.eye(4)
    assert np.any(np.linalg.eigvals(given).real < 0)
    root = linalg.sqrtm(given)
    np.testing.assert_allclose(root, scipy.linalg.sqrtm(given), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(linalg.expm(linalg.logm(given)), given, rtol=1e-9, atol=1e-10)
    slope = wg.grad(lambda a: np.sum(np.abs(linalg.sqrtm(a)) ** 2))(given)
    step = RNG.normal(size=(4, 4))
    size = lambda t: np.sum(np.abs(scipy.linalg.sqrtm(given + t * step)) ** 2)
    np.testing.assert_allclose(np.sum(slope * step), (size(1e-6) - size(-1e-6)) / 2e-6, rtol=1e-6)


@pytest.mark.parametrize("n", [1, 5, 7, 12, 13, 30])
@pytest.mark.parametrize("kind", ["real", "symmetric", "complex", "single"])
def test_compiled_roots_of_any_size(n, kind):
    """Blocks, padded or not, with eigenvalues in pairs or not."""
    rng = np.random.default_rng(n)
    a = rng.normal(size=(2, n, n)) * (0.9 / np.sqrt(n)) + 2 * np.eye(n)
    a = a @ np.swapaxes(a, 1, 2) if kind == "symmetric" else a
    a = a + 0.3j * rng.normal(size=a.shape) if kind == "complex" else a
    a = a.astype(np.float32) if kind == "single" else a
    got = wg.jit(linalg.sqrtm)(a)
    want = np.stack([scipy.linalg.sqrtm(one.astype(np.result_type(one, float))) for one in a])
    assert got.dtype == a.dtype
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-6 if kind == "single" else 2e-13)


def test_compiled_roots_of_singular_matrices_and_of_turns():
    turns = np.kron(np.eye(4), [[-1.0, -2.0], [3.0, -1.0]])
    some = np.diag([1.0, 0, 0, 0, 0, 0, 0, 2])
    for a in (np.zeros((8, 8)), some, np.zeros((9, 9), complex), turns):
        root = wg.jit(linalg.sqrtm)(a)
        np.testing.assert_allclose(root @ root, a, atol=1e-14)
    assert "numpy sqrtm" not in str(wg.jit(linalg.sqrtm).explain(np.eye(9)))


def test_square_roots_written_out():
    """Of small matrices: singular ones, stacks, and complex eigenvalues of real matrices."""
    turned = np.array([[1.0, 2, 0], [-3, 0.5, 1], [0.3, 0, 2]])
    root = wg.jit(linalg.sqrtm)
    np.testing.assert_allclose(root(turned), scipy.linalg.sqrtm(turned), rtol=1e-13, atol=1e-14)
    np.testing.assert_array_equal(root(np.diag([4.0, 0, 0])), np.diag([2.0, 0, 0]))
    stack = np.stack([A, A @ A])
    want = np.stack([scipy.linalg.sqrtm(one) for one in stack])
    np.testing.assert_allclose(wg.jit(wg.vmap(linalg.sqrtm))(stack), want, rtol=1e-12)


NATIVE = {
    "schur": lambda a, b, q: linalg.schur(a)[0],
    "solve_sylvester": lambda a, b, q: linalg.solve_sylvester(a, b, q),
    "solve_banded": lambda a, b, q: linalg.solve_banded((2, 1), a[..., :4, :], q),
}


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("name", NATIVE)
def test_lapack_is_called_by_compiled_code(name, is_complex):
    """Of stacks too; see the table in docs/scipy.md for what is not native."""
    a = RNG.normal(size=(3, 5, 5)) + 4 * np.eye(5)[::-1]
    b, q = RNG.normal(size=(2, 2)) + 9 * np.eye(2), RNG.normal(size=(3, 5, 2))
    if is_complex:
        a = a + 1j * RNG.normal(size=a.shape)
    compiled = wg.jit(NATIVE[name])
    np.testing.assert_allclose(compiled(a, b, q), NATIVE[name](a, b, q), rtol=1e-9, atol=1e-10)
    segments = compiled.program(a, b, q).segments
    assert not any(isinstance(one, Host) for one in segments)


@pytest.mark.parametrize("run", [lambda f: f, wg.jit], ids=["evaluated", "compiled"])
def test_sylvesters_equation_without_one_solution(run):
    with pytest.raises(np.linalg.LinAlgError, match=r"an eigenvalue of a is one of -b"):
        run(linalg.solve_sylvester)(np.eye(2), -np.eye(2), np.ones((2, 2)))
