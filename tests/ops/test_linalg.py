"""The rules of the linear algebra operations: pieces, conventions, errors."""

import numpy as np
import pytest

from wengert import jit, trace
from wengert.errors import DerivativeError
from wengert.ops import REGISTRY, decompositions, linalg, matrix_functions
from wengert.transforms.batching import vmap
from wengert.transforms.check import check_grads
from wengert.transforms.forward import jvp
from wengert.transforms.reverse import vjp
from wengert.types import type_of

rng = np.random.default_rng(0)
TALL = rng.normal(size=(4, 2))
NAMES = (
    "solve", "solve_triangular", "inv", "pinv", "lstsq", "cholesky", "qr", "eigh", "eig", "svd",
    "det", "slogdet", "expm", "expm_tangent",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_types_derivatives_and_batches(name):
    op = REGISTRY[name]
    for args, params in op.samples(np.random.default_rng(0)):
        result = op(*args, **params)
        assert type_of(result) == op.type_rule(*map(type_of, args), **params)
        stacked = [np.stack([x, 1.1 * x]).astype(x.dtype) for x in args]
        batched = vmap(lambda *xs: op(*xs, **params))(*stacked)  # noqa: B023
        rows = [op(*[x[k] for x in stacked], **params) for k in range(2)]
        for got, *want in zip(*map(results, (batched, *rows)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
        if all(x.dtype.char in "dD" for x in args):
            check_grads(lambda *xs: op(*xs, **params), args, order=2)  # noqa: B023


def results(out):
    return out if isinstance(out, tuple) else (out,)


@pytest.mark.parametrize(
    "shapes",
    [((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((5, 1, 2, 3), (6, 3, 4)), ((1, 2, 3), (4, 3, 1))],
)
def test_matmul_broadcasts_like_numpys(shapes):
    x, y = (rng.normal(size=shape) for shape in shapes)
    np.testing.assert_allclose(linalg.matmul(x, y), x @ y, atol=1e-14)
    check_grads(linalg.matmul, (x, y))


@pytest.mark.parametrize("lower", [True, False])
def test_triangular_solve_reads_one_triangle(lower):
    n = 130  # three blocks
    a = rng.normal(size=(n, n)) / n + 2 * np.eye(n)
    triangle = np.tril(a) if lower else np.triu(a)
    a[triangle == 0] = np.nan
    b = rng.normal(size=(2, n, 3))
    x = linalg.triangular_solve(a, b, lower=lower, unit_diagonal=False)
    np.testing.assert_allclose(triangle @ x, b, atol=1e-12)
    _, pullback = vjp(
        lambda a: linalg.triangular_solve(a, b[0], lower=lower, unit_diagonal=False), a
    )
    gradient = pullback(np.ones((n, 3)))[0]
    assert not np.isnan(gradient).any() and (gradient[triangle == 0] == 0).all()


SOLVERS = [
    (linalg.solve, {"transposed": False}),
    (linalg.solve, {"transposed": True}),
    (linalg.triangular_solve, {"lower": True, "unit_diagonal": True}),
    (linalg.triangular_solve, {"lower": False, "unit_diagonal": False}),
]


@pytest.mark.parametrize(("op", "params"), SOLVERS)
@pytest.mark.parametrize("n", [3, 9])
def test_sides_of_one_matrix_are_its_columns(op, params, n):
    a = rng.normal(size=(n, n)) + 4 * np.eye(n)
    b = rng.normal(size=(5, n, 2)) + 1j * rng.normal(size=(5, n, 2))
    for sides, at, out in ((b, 0, 0), (b.real, 0, 2), (b.real.swapaxes(0, 1), 1, 1)):
        mapped = vmap(lambda a, b: op(a, b, **params), in_axes=(None, at), out_axes=out)
        wanted = [op(a, one, **params) for one in np.moveaxis(sides, at, 0)]
        np.testing.assert_allclose(mapped(a, sides), np.stack(wanted, out), rtol=1e-11)
    check_grads(lambda a, b: vmap(lambda b: op(a, b, **params))(b), (a, b.real), order=2)


def test_one_matrix_is_eliminated_once_for_all_samples():
    a, b = rng.normal(size=(9, 9)) + 4 * np.eye(9), rng.normal(size=(30, 9))
    mapped = vmap(lambda x: np.linalg.solve(a, x))
    (solve,) = [node for node in trace(mapped, b).operators if node.op is linalg.solve]
    assert solve.type.shape == (9, 30)
    np.testing.assert_allclose(jit(mapped)(b), np.linalg.solve(a, b.T).T, rtol=1e-11)


def test_solve_is_transposed_without_conjugation():
    a = rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3))
    b, g = rng.normal(size=(3, 1)) + 0j, rng.normal(size=(3, 1)) * 1j
    _, pullback = vjp(lambda b: linalg.solve(a, b, transposed=False), b)
    np.testing.assert_allclose(pullback(g)[0], np.linalg.solve(a.T, g), atol=1e-12)


def test_hermitian_operations_have_hermitian_gradients():
    a = rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3))
    a = a @ a.conj().T + np.eye(3)
    for op, seed in (
        (decompositions.cholesky, rng.normal(size=(3, 3)) + 0j),
        (lambda a: decompositions.eigh(a)[0], rng.normal(size=3)),
    ):
        gradient = vjp(op, a)[1](seed)[0]
        np.testing.assert_allclose(gradient, gradient.conj().T, atol=1e-13)


def test_the_derivative_of_a_factor_is_triangular():
    a, t = rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    _, (dq, dr) = jvp(lambda a: decompositions.qr(a, complete=False), (a,), (t,))
    assert (np.tril(dr, -1) == 0).all()
    q, r = np.linalg.qr(a)
    np.testing.assert_allclose(dq @ r + q @ dr, t, atol=1e-13)


def test_factors_rebuild_the_tangent():
    a = rng.normal(size=(3, 5)) + 1j * rng.normal(size=(3, 5))
    t = rng.normal(size=(3, 5)) + 1j * rng.normal(size=(3, 5))
    (u, s, vh), (du, ds, dvh) = jvp(
        lambda a: decompositions.svd(a, full_matrices=False), (a,), (t,)
    )
    np.testing.assert_allclose((du * s + u * ds) @ vh + (u * s) @ dvh, t, atol=1e-12)


def test_nearly_equal_eigenvalues_do_not_blow_up():
    a = np.eye(3) + 1e-16 * np.diag([0.0, 1.0, 3.0])
    _, (dw, dv) = jvp(decompositions.eigh, (a,), (rng.normal(size=(3, 3)),))
    assert np.abs(dv).max() == 0 and np.isfinite(dw).all()


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_cofactors_are_signed_minors(n):
    """Written out or lifted; of singular matrices too."""
    rng = np.random.default_rng(n)
    regular = rng.normal(size=(n, n))
    singular = regular.copy()
    singular[-1] = singular[0]
    for a in (regular, singular):
        minors = [
            [np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) for j in range(n)] for i in range(n)
        ]
        signs = (-1.0) ** np.add.outer(np.arange(n), np.arange(n))
        np.testing.assert_allclose(matrix_functions.cofactors(a), signs * minors, atol=1e-11)


def test_lifted_matrices_leave_the_cofactors_alone():
    a = rng.normal(size=(7, 7))
    np.testing.assert_allclose(
        matrix_functions.cofactors(a), np.linalg.det(a) * np.linalg.inv(a).T, rtol=1e-9, atol=1e-11
    )


def test_errors_name_the_operation_the_line_and_the_remedy():
    with pytest.raises(np.linalg.LinAlgError) as info:
        linalg.inv(np.zeros((2, 2)))
    text = str(info.value)
    assert text.startswith("inv (at test_linalg.py:")
    assert text.endswith("): Singular matrix. Use lstsq or pinv for matrices without an inverse.")
    with pytest.raises(DerivativeError, match=r"svd .*last 2 singular vectors"):
        jvp(lambda a: decompositions.svd(a, full_matrices=True), (TALL,), (TALL,))


def test_not_finite_matrices_are_errors():
    with pytest.raises(np.linalg.LinAlgError, match=r"eig .*Check the matrix for inf and nan"):
        decompositions.eig(np.full((2, 2), np.nan))
