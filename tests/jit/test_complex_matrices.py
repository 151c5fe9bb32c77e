"""Complex factorisations, eigenvalues of any matrices, and the exponential: native too."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.bench.run import _same
from wengert.errors import WengertError
from wengert.runtime import lapack, numpy_loops

pytestmark = pytest.mark.skipif(
    not (lapack.library() and numpy_loops.are_there()), reason="no LAPACK with plain symbols"
)


def _any(n, *batch):
    rng = np.random.default_rng(n)
    parts = [rng.normal(size=(*batch, n, n)) for _ in range(2)]
    return parts[0] + 1j * parts[1] + 2 * np.diag(np.arange(1.0, n + 1))


def _real(n, *batch):
    return _any(n, *batch).real


def _definite(n, *batch):
    a = _any(n, *batch) / n
    return a @ np.conj(a.swapaxes(-1, -2)) + np.eye(n)


def _right(n, *batch):
    return _any(n, *batch)[..., :2] + 0.5


def _lower(a, b):
    return wnp.linalg.solve_triangular(a, b, lower=True)


def _wide(n, *batch):
    return _any(n, *batch)[..., : n // 2 + 1, :]


FUNCTIONS = {
    "solve": (np.linalg.solve, lambda *s: (_any(*s), _right(*s))),
    "real sides": (np.linalg.solve, lambda *s: (_any(*s), _right(*s).real)),
    "real matrix": (np.linalg.solve, lambda *s: (_real(*s), _right(*s))),
    "triangular": (_lower, lambda *s: (_any(*s), _right(*s))),
    "one side": (_lower, lambda *s: (_any(*s), _right(*s)[..., :1])),
    "turned": (
        lambda a, b: _lower(np.conj(np.swapaxes(a, -1, -2)), b), lambda *s: (_any(*s), _right(*s))
    ),
    "inv": (np.linalg.inv, lambda *s: (_any(*s),)),
    "det": (lambda a: np.linalg.det(a / a.shape[-1]), lambda *s: (_any(*s),)),
    "slogdet": (lambda a: tuple(np.linalg.slogdet(a)), lambda *s: (_any(*s),)),
    "cholesky": (np.linalg.cholesky, lambda *s: (_definite(*s),)),
    "qr": (lambda a: tuple(np.linalg.qr(np.swapaxes(a, -1, -2))), lambda *s: (_wide(*s),)),
    "eigh": (lambda a: tuple(np.linalg.eigh(a)), lambda *s: (_definite(*s),)),
    "eigvalsh": (np.linalg.eigvalsh, lambda *s: (_definite(*s),)),
    "svd": (lambda a: tuple(np.linalg.svd(a, full_matrices=False)), lambda *s: (_wide(*s),)),
    "svdvals": (lambda a: np.linalg.svd(a, compute_uv=False), lambda *s: (_wide(*s),)),
    "pinv": (np.linalg.pinv, lambda *s: (_wide(*s),)),
    "eig": (lambda a: tuple(np.linalg.eig(a)), lambda *s: (_any(*s),)),
    "eig of real": (lambda a: tuple(wnp.linalg.eig(a)), lambda *s: (_real(*s),)),
    "eigvals": (wnp.linalg.eigvals, lambda *s: (_real(*s),)),
    "expm": (wnp.linalg.expm, lambda *s: (_any(*s) / s[0],)),
    "expm of real": (wnp.linalg.expm, lambda *s: (_real(*s),)),
    "complete": (
        lambda a: tuple(np.linalg.qr(np.swapaxes(a, -1, -2), "complete")), lambda *s: (_wide(*s),)
    ),
    "full": (lambda a: tuple(np.linalg.svd(a)), lambda *s: (_wide(*s),)),
}  # fmt: skip


def _results(found):
    return found if isinstance(found, tuple) else (found,)


def native(function, *args, tolerance=1e-9):
    compiled = wg.jit(function)
    assert _same(compiled(*args), function(*args), tolerance)
    assert not compiled.explain(*args).hosts


@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_numpy_does(name):
    function, arguments = FUNCTIONS[name]
    for n in (1, 2, 3, 7, 20):
        native(function, *arguments(n))
    native(function, *arguments(4, 2, 3))


@pytest.mark.parametrize("name", ["solve", "cholesky", "qr", "eigh", "svd", "eig", "expm"])
def test_single_precision(name):
    function, arguments = FUNCTIONS[name]
    args = [x.astype(np.complex64) for x in arguments(5)]
    compiled, wanted = wg.jit(function)(*args), function(*args)
    for one, other in zip(
        *[x if isinstance(x, tuple) else (x,) for x in (compiled, wanted)], strict=True
    ):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in ("full", "complete")])
def test_gradients_mapped_and_in_loops(name):
    function, arguments = FUNCTIONS[name]

    def loss(*args):
        found = function(*args)
        return sum(
            np.sum(np.abs(x) ** 2) for x in (found if isinstance(found, tuple) else (found,))
        )

    args = arguments(4)
    gradient = wg.value_and_grad(loss)
    native(gradient, *args, tolerance=1e-8)
    stacks = [np.stack([x, x * 1.1]) for x in args]
    assert _same(wg.jit(wg.vmap(gradient))(*stacks), wg.vmap(gradient)(*stacks), 1e-8)
    steps = lambda first, *rest: wg.scan(
        lambda x, _: (x * 1.01, loss(x, *rest)), first, None, length=3
    )
    native(steps, *args, tolerance=1e-8)


def test_exponentials_of_all_sizes_in_one_stack():
    a = np.random.default_rng(0).normal(size=(6, 3, 3))
    a *= 10.0 ** np.arange(-3.0, 3.0).reshape(6, 1, 1)
    a[-1] -= 300 * np.eye(3)
    native(wnp.linalg.expm, a)
    native(wnp.linalg.expm, np.zeros((4, 4)))
    native(wnp.linalg.expm, np.arange(9).reshape(3, 3) / 2)
    nilpotent = 1e6 * np.eye(5, k=1)
    native(wnp.linalg.expm, nilpotent)
    assert np.isnan(wg.jit(wnp.linalg.expm)(np.full((2, 2), np.nan))).all()


@pytest.mark.parametrize(
    "function, args",
    [
        (np.linalg.solve, (np.ones((3, 3)) * 1j, np.ones((3, 1)))),
        (np.linalg.inv, (np.stack([np.eye(3), np.zeros((3, 3))]) * 1j,)),
        (_lower, (np.diag([1.0, 0.0, 2.0]) * 1j, np.ones((3, 1)))),
        (np.linalg.cholesky, (-np.eye(3) * (1 + 0j),)),
    ],
)
def test_what_has_no_result_raises(function, args):
    with pytest.raises(np.linalg.LinAlgError) as caught:
        wg.jit(function)(*args)
    assert isinstance(caught.value, WengertError)


def test_singular_matrices_have_a_determinant():
    a = np.ones((3, 3)) * 1j
    assert wg.jit(np.linalg.det)(a) == 0
    sign, size = wg.jit(lambda a: tuple(np.linalg.slogdet(a)))(np.zeros((2, 2), complex))
    assert (sign, size) == (0, -np.inf)
