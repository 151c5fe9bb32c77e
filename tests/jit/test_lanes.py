"""Factorisations of many small matrices: generated code, one lane a matrix."""

import numpy as np
import pytest

import wengert as wg
from wengert import machine
from wengert.bench.run import _same
from wengert.ops.linalg import lu, pivots, triangular_solve
from wengert.runtime import lapack

needs_lapack = pytest.mark.skipif(not lapack.library(), reason="no LAPACK with plain symbols")
SIZES = [2, 5, 6, 7, 8, 11, 12, 13, 15, 16]
# around multiples of the lanes of any machine
LENGTHS = [16, 17, 23, 24, 25, 31, 40, 101]


def _regular(n, *batch):
    """Matrices that need rows swapped."""
    return np.random.default_rng(n).normal(size=(*batch, n, n))


def _definite(n, *batch):
    a = _regular(n, *batch)
    return a @ a.swapaxes(-1, -2) + np.eye(n)


def _symmetric(n, *batch):
    a = _regular(n, *batch)
    return a + a.swapaxes(-1, -2)


def _right(n, *batch, m=3):
    return np.random.default_rng(n + 1).normal(size=(*batch, n, m))


def _triangular(**params):
    return lambda a, b: triangular_solve(a, b, **params)


def _triangle(n, *batch):
    return _regular(n, *batch) / n + 2 * np.eye(n), _right(n, *batch)


def _svd(a):
    return tuple(np.linalg.svd(a, full_matrices=False))


def _least_squares(a, b):
    f = lambda a, b: np.linalg.lstsq(a, b)[0]
    for _ in a.shape[:-2]:
        f = wg.vmap(f)
    return f(a, b)


FUNCTIONS = {
    "solve": (np.linalg.solve, lambda n, *b: (_regular(n, *b), _right(n, *b))),
    "one side": (np.linalg.solve, lambda n, *b: (_regular(n, *b), _right(n, *b, m=1))),
    "turned": (
        lambda a, b: np.linalg.solve(np.swapaxes(a, -1, -2), b),
        lambda n, *b: (_regular(n, *b), _right(n, *b)),
    ),
    "the same side": (np.linalg.solve, lambda n, *b: (_regular(n, *b), _right(n, m=1))),
    "the same matrix": (np.linalg.solve, lambda n, *b: (_regular(n), _right(n, *b))),
    "inv": (np.linalg.inv, lambda n, *b: (_regular(n, *b),)),
    "det": (np.linalg.det, lambda n, *b: (_regular(n, *b) / np.sqrt(n),)),
    "slogdet": (lambda a: tuple(np.linalg.slogdet(a)), lambda n, *b: (_regular(n, *b),)),
    "lu": (lu, lambda n, *b: (_regular(n, *b),)),
    "pivots": (pivots, lambda n, *b: (_regular(n, *b),)),
    "cholesky": (np.linalg.cholesky, lambda n, *b: (_definite(n, *b),)),
    "lower": (_triangular(lower=True, unit_diagonal=False), _triangle),
    "upper": (_triangular(lower=False, unit_diagonal=False), _triangle),
    "unit lower": (_triangular(lower=True, unit_diagonal=True), _triangle),
    "unit upper": (_triangular(lower=False, unit_diagonal=True), _triangle),
    "eigh": (lambda a: tuple(np.linalg.eigh(a)), lambda n, *b: (_symmetric(n, *b),)),
    "eigvalsh": (np.linalg.eigvalsh, lambda n, *b: (_symmetric(n, *b),)),
    "svd": (_svd, lambda n, *b: (_regular(n, *b),)),
    "narrow svd": (_svd, lambda n, *b: (_regular(n, *b)[..., 1:],)),
    "tall svd": (_svd, lambda n, *b: (_regular(n, *b)[..., : max(n // 2, 1)],)),
    "low svd": (_svd, lambda n, *b: (_regular(n, *b)[..., 1:, :],)),
    "wide svd": (_svd, lambda n, *b: (_regular(n, *b)[..., : max(n // 2, 1), :],)),
    "svdvals": (
        lambda a: np.linalg.svd(a, compute_uv=False),
        lambda n, *b: (_regular(n, *b)[..., 1:, :],),
    ),
    "lstsq": (_least_squares, lambda n, *b: (_regular(n, *b)[..., : n // 2 + 1], _right(n, *b))),
    "wide lstsq": (
        _least_squares,
        lambda n, *b: (_regular(n, *b)[..., 1:, :], _right(n, *b)[..., 1:, :1]),
    ),
    "pinv": (np.linalg.pinv, lambda n, *b: (_regular(n, *b)[..., : n // 2 + 1],)),
    "qr": (lambda a: tuple(np.linalg.qr(a)), lambda n, *b: (_regular(n, *b),)),
    "tall qr": (lambda a: tuple(np.linalg.qr(a)), lambda n, *b: (_regular(n, *b)[..., n // 2 :],)),
    "wide qr": (lambda a: tuple(np.linalg.qr(a)), lambda n, *b: (_regular(n, *b)[..., 1:, :],)),
    "complete qr": (
        lambda a: tuple(np.linalg.qr(a, "complete")),
        lambda n, *b: (_regular(n, *b)[..., n // 2 :],),
    ),
}


def _each(found):
    return found if isinstance(found, tuple) else (found,)


def _in_lanes(f, *args):
    return "by lanes_" in f.explain(*args).loops


@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_numpy_does(name):
    function, arguments = FUNCTIONS[name]
    for n, length in ((6, 17), (8, 40), (13, 16), (16, 25)):
        args = arguments(n, length)
        f = wg.jit(lambda *args: function(*args))
        found, want = f(*args), function(*args)
        if name.endswith("svd"):
            found, turned = _with_signs(found, want)
            assert turned <= length // 10
        assert _same(found, want, 1e-8)
        assert _in_lanes(f, *args)


def _with_signs(found, want):
    """Singular vectors with the signs of others, pair by pair, and how many matrices had another:
    rounding decides the signs of a few, on each processor those of others."""
    (u, s, vh), like = found, want[0]
    signs = np.sign(np.sum(u * like, axis=-2))
    turned = np.count_nonzero(np.any(signs < 0, axis=-1))
    return (u * signs[..., None, :], s, vh * signs[..., :, None]), turned


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_sizes_and_lengths(name):
    function, arguments = FUNCTIONS[name]
    # the signs of a few vectors rounding decides
    sized = np.abs if "svd" in name or "eigh" in name else np.asarray
    for number, n in enumerate(SIZES):
        for length in (LENGTHS * 2)[number % 8 :][:3]:
            args = arguments(n, length)
            found = wg.jit(lambda *a: function(*a))(*args)
            pairs = zip(_each(found), _each(function(*args)), strict=True)
            for got, want in pairs:
                assert _same(sized(got), sized(want), 1e-7)


@pytest.mark.parametrize("batch", [(3, 20), (20, 3), (1, 17), (17, 1), (2, 16, 2)])
def test_several_axes_of_matrices(batch):
    for name in ("solve", "the same side", "the same matrix", "slogdet", "qr", "cholesky"):
        function, arguments = FUNCTIONS[name]
        args = arguments(7, *batch)
        f = wg.jit(lambda *args, function=function: function(*args))
        assert _same(f(*args), function(*args), 1e-9)
        assert _in_lanes(f, *args)


def test_axes_before_the_matrices_broadcast():
    a, b = _regular(6, 18, 1), _right(6, 3)
    f = wg.jit(np.linalg.solve)
    assert _same(f(a, b), np.linalg.solve(a, b), 1e-9)
    assert _in_lanes(f, a, b)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_other_dtypes_and_layouts(name):
    function, arguments = FUNCTIONS[name]
    args = arguments(6, 19)
    single = [x.astype("f4") for x in args]
    got, want = wg.jit(lambda *a: function(*a))(*single), function(*single)
    for x, y in zip(_each(got), _each(want), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4)
    turned = [np.asfortranarray(x) for x in args]
    assert _same(wg.jit(lambda *a: function(*a))(*turned), function(*args), 1e-9)
    wide = [np.repeat(x, 2, axis=0)[::2] for x in args]
    assert _same(wg.jit(lambda *a: function(*a))(*wide), function(*args), 1e-9)


def _scaled(n, many=800):
    """Of all sizes of pivots: rows are scaled by powers of ten, and many elements are zero."""
    rng = np.random.default_rng(n)
    a = rng.normal(size=(many, n, n)) * 10.0 ** rng.integers(-6, 7, size=(many, n, 1))
    a *= rng.random(size=a.shape) < 0.8
    return a[np.linalg.cond(a) < 1e14]


def _nearly_singular(n, many=100):
    a = _regular(n, many)
    a[:, -1] = a[:, 0] + 1e-10 * a[:, -1]
    return a


@pytest.mark.parametrize("n", [6, 9, 16])
@pytest.mark.parametrize("kind", [_scaled, _nearly_singular, lambda n: _regular(n, 200)])
def test_as_accurate_as_lapack(n, kind):
    a = kind(n)
    b = _right(n, len(a))

    def error(x):
        size = np.abs(a).sum(-1).max(-1)[:, None, None] * np.abs(x).max(-2, keepdims=True)
        return (np.abs(a @ x - b) / size).max()

    assert error(wg.jit(np.linalg.solve)(a, b)) <= max(2 * error(np.linalg.solve(a, b)), 4e-16)
    q, r = wg.jit(lambda a: tuple(np.linalg.qr(a)))(a)
    size = np.abs(a).max((-1, -2), keepdims=True)
    assert (np.abs(q @ r - a) / size).max() < 4e-16 * n
    assert np.abs(np.swapaxes(q, -1, -2) @ q - np.eye(n)).max() < 4e-16 * n
    definite = a @ a.swapaxes(-1, -2)
    definite = definite / np.abs(definite).max((-1, -2), keepdims=True) + 1e-9 * np.eye(n)
    low = wg.jit(np.linalg.cholesky)(definite)
    assert np.abs(low @ low.swapaxes(-1, -2) - definite).max() < 4e-16 * n


def test_infinite_matrices_have_no_values():
    a = _symmetric(6, 18)
    a[4, 3, 2] = a[4, 2, 3] = np.inf
    others = np.arange(18) != 4
    for f in (lambda a: tuple(np.linalg.eigh(a)), _svd):
        for x, y in zip(wg.jit(f)(a), f(a[others]), strict=True):
            assert np.isnan(x[4]).all()
            np.testing.assert_allclose(x[others], y, rtol=1e-9, atol=1e-12)


def _kinds_of_symmetric(n):
    rng = np.random.default_rng(n)
    q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    some = rng.normal(size=(n, 2))
    yield from (np.zeros((n, n)), np.eye(n), -np.eye(n), np.ones((n, n)))
    yield from (np.diag(rng.normal(size=n)), np.eye(n)[::-1], some @ some.T)
    for values in (
        [1.0] * (n - 2) + [2.0] * 2,
        10.0 ** np.linspace(-15, 15, n),
        -(10.0 ** np.linspace(15, -15, n)),
        1 + 1e-14 * np.arange(n),
        (-1.0) ** np.arange(n),
    ):
        yield (q * values) @ q.T
    graded = 10.0 ** -np.arange(n)
    yield rng.normal(size=(n, n)) * np.minimum.outer(graded, graded)
    yield rng.normal(size=(n, n)) * np.minimum.outer(graded, graded)[::-1, ::-1]
    off = rng.normal(size=n - 1) * (np.arange(n - 1) % 3 != 2)
    yield np.diag(rng.normal(size=n)) + np.diag(off, 1) + np.diag(off, -1)
    yield np.diag(np.arange(n) * 1.0) + 1e-9 * rng.normal(size=(n, n))
    yield np.diag([2.0] * n) + np.diag([-1.0] * (n - 1), 1) + np.diag([-1.0] * (n - 1), -1)


@pytest.mark.parametrize("n", [2, 3, 6, 7, 16])
@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e300])
def test_all_kinds_of_symmetric_matrices(n, scale):
    a = np.stack([(x + x.T) / 2 for x in _kinds_of_symmetric(n)] * 2)
    a = a / np.maximum(np.abs(a).max((-1, -2), keepdims=True), 1e-30) * scale
    f = wg.jit(lambda a: tuple(np.linalg.eigh(a)))
    w, z = f(a)
    assert _in_lanes(f, a)
    want = np.linalg.eigvalsh(a)
    np.testing.assert_allclose(w / scale, want / scale, rtol=0, atol=8e-16 * n)
    assert np.abs(a / scale @ z - z * (w / scale)[:, None]).max() < 8e-16 * n
    assert np.abs(np.swapaxes(z, -1, -2) @ z - np.eye(n)).max() < 4e-16 * n
    assert np.all(np.diff(w) >= 0)
    alone = wg.jit(np.linalg.eigvalsh)(a)
    np.testing.assert_allclose(alone / scale, want / scale, rtol=0, atol=8e-16 * n)


def _kinds_of_any(m, n):
    rng = np.random.default_rng(m * n)
    k = min(m, n)
    u, w = (np.linalg.qr(rng.normal(size=(size, k)))[0] for size in (m, n))
    yield from (np.zeros((m, n)), np.eye(m, n), -np.eye(m, n), np.ones((m, n)))
    yield from (np.eye(m, n)[::-1], np.eye(m, n)[:, ::-1] * np.arange(n))
    yield rng.normal(size=(m, 1)) @ rng.normal(size=(1, n))
    for values in (
        [1.0] * (k - 1) + [2.0],
        [1.0] * (k - 1) + [0.0],
        10.0 ** np.linspace(-15, 15, k),
        10.0 ** np.linspace(0, -300, k),
        1 + 1e-14 * np.arange(k),
        2.0 ** np.arange(k),
    ):
        yield (u * values) @ w.T
    graded = 10.0 ** -np.arange(max(m, n))
    yield rng.normal(size=(m, n)) * np.minimum.outer(graded[:m], graded[:n])
    yield rng.normal(size=(m, n)) * np.minimum.outer(graded[:m][::-1], graded[:n][::-1])
    yield np.tri(m, n)
    yield np.tri(m, n, 1).T[:m, :n] if m == n else np.tri(m, n, -1)
    yield np.diag(rng.normal(size=max(m, n)))[:m, :n] + np.eye(m, n, 1) * 1e-9


@pytest.mark.parametrize(
    "shape", [(2, 2), (3, 3), (6, 6), (16, 16), (7, 5), (5, 7), (16, 6), (3, 9)]
)
@pytest.mark.parametrize("scale", [1.0, 1e-290, 1e290])
def test_all_kinds_of_matrices(shape, scale):
    a = np.stack(list(_kinds_of_any(*shape)) * 2)
    a = a / np.maximum(np.abs(a).max((-1, -2), keepdims=True), 1e-30) * scale
    f = wg.jit(_svd)
    u, s, vt = f(a)
    assert _in_lanes(f, a)
    n, k = max(shape), min(shape)
    want = np.linalg.svd(a / scale, compute_uv=False)
    # LAPACK takes what is off the diagonal for 0 from 98 ulp on
    np.testing.assert_allclose(s / scale, want, rtol=0, atol=2e-14)
    assert np.abs((u * (s / scale)[:, None]) @ vt - a / scale).max() < 2e-14
    for q in (np.swapaxes(u, -1, -2), vt):
        assert np.abs(q @ np.swapaxes(q, -1, -2) - np.eye(k)).max() < 1e-15 * n
    assert np.all(np.diff(s) <= 0) and np.all(s >= 0)
    alone = wg.jit(lambda a: np.linalg.svd(a, compute_uv=False))(a)
    np.testing.assert_allclose(alone / scale, want, rtol=0, atol=2e-14)


@pytest.mark.parametrize("shape", [(6, 6), (9, 4), (7, 5), (5, 7), (4, 12)])
def test_least_squares_of_any_rank(shape):
    a = np.stack(list(_kinds_of_any(*shape)))
    a = a / np.maximum(np.abs(a).max((-1, -2), keepdims=True), 1e-30)
    a = a[np.linalg.svd(a, compute_uv=False)[:, -1] < 1e-20]  # far from where a rank is decided
    a = np.concatenate([a, _regular(16, 20)[:, : shape[0], : shape[1]]])
    b = _right(shape[0], len(a), m=2)
    f = wg.jit(_least_squares)
    assert _same(f(a, b), _least_squares(a, b), 1e-9)
    assert _in_lanes(f, a, b)


@pytest.mark.parametrize("shape", [(6, 6), (10, 8), (8, 10), (16, 6), (6, 16)])
def test_singular_vectors_have_the_signs_that_lapack_gives_them(shape):
    a = np.random.default_rng(0).normal(size=(500, *shape))
    u, _, vt = wg.jit(_svd)(a)
    want = _svd(a)
    assert np.mean(np.sum(u * want[0], axis=-2) > 0.99) > 0.999
    assert np.mean(np.sum(vt * want[2], axis=-1) > 0.99) > 0.999


@pytest.mark.parametrize("n", [2, 3, 8, 13, 16])
def test_vectors_have_the_signs_that_lapack_gives_them(n):
    a = _symmetric(n, 500)
    _, z = wg.jit(lambda a: tuple(np.linalg.eigh(a)))(a)
    along = np.sum(z * np.linalg.eigh(a)[1], axis=-2)
    # where rounding decides, one ulp changes the signs of LAPACK's own
    assert np.mean(along > 0.99) > 0.999


def test_sizes_at_the_ends_of_the_range():
    for scale in (1e-308, 1e-150, 1e150, 1e305):
        a, b = _regular(6, 16) * scale, _right(6, 16) * scale
        want = np.linalg.solve(a / scale, b / scale)
        np.testing.assert_allclose(wg.jit(np.linalg.solve)(a, b), want, rtol=1e-6)
        q, r = wg.jit(lambda a: tuple(np.linalg.qr(a)))(a)
        np.testing.assert_allclose(q, np.linalg.qr(a / scale)[0], rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(r / scale, np.linalg.qr(a / scale)[1], rtol=1e-6, atol=1e-9)


BAD = {
    "zero": ("solve", np.zeros((6, 6))),
    "two rows are equal": ("solve", np.ones((6, 6)) + np.diag([0.0, 0, 1, 2, 3, 4])),
    "inverse": ("inv", np.diag([1.0, 2, 3, 4, 0, 5])),
    "last": ("inv", np.diag([1.0, 2, 3, 4, 5, 0])),
    "triangle": ("lower", np.diag([1.0, 2, 3, 0, 4, 5])),
    "not definite": ("cholesky", np.diag([1.0, 2, 3, -1, 4, 5])),
    "nan": ("eigh", np.full((6, 6), np.nan)),
    "nan svd": ("svd", np.full((6, 6), np.nan)),
    "semidefinite": ("cholesky", np.diag([1.0, 2, 3, 0, 4, 5])),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("place", [0, 5, 16])
def test_one_bad_matrix_among_many_raises_as_evaluated(name, place):
    kind, matrix = BAD[name]
    function, arguments = FUNCTIONS[kind]
    good = arguments(6, 17)
    bad = [good[0].copy(), *good[1:]]
    bad[0][place] = matrix
    f = wg.jit(lambda *args: function(*args))
    want = f(*good)
    assert _in_lanes(f, *good)
    with pytest.raises(np.linalg.LinAlgError) as compiled:
        f(*bad)
    with pytest.raises(np.linalg.LinAlgError) as evaluated:
        wg.trace(function, *good)(*bad)
    said = [str(error.value).split("): ")[1] for error in (compiled, evaluated)]
    assert said[0] == said[1]
    assert _same(f(*good), want, 0.0)


def test_singular_matrices_have_determinants():
    a = np.stack([np.ones((6, 6)), np.diag([1.0, 2, 0, 3, -1, 2]), -np.eye(6)] * 7)
    for f in (np.linalg.det, lambda a: np.linalg.slogdet(a)[0], lambda a: np.linalg.slogdet(a)[1]):
        np.testing.assert_allclose(wg.jit(f)(a), f(a), rtol=1e-12)


NAMES = ["solve", "inv", "det", "slogdet", "cholesky", "lower", "qr", "eigvalsh", "svdvals"]


@needs_lapack
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_stays_in_its_own_matrix_as_lapack_has_it(name, value):
    function, arguments = FUNCTIONS[name]
    args = [x.copy() for x in arguments(6, 18)]
    args[0][4, 3, 2] = args[0][4, 2, 3] = value
    found = []
    for most_rows in (0, 16):
        with machine.use(lanes={"most_rows": most_rows}):
            f = wg.jit(lambda *args: function(*args))
            try:
                found.append(_each(f(*args)))
            except np.linalg.LinAlgError as error:
                found.append(str(error))
            assert _in_lanes(f, *args) == (most_rows == 16)
    if isinstance(found[0], str):
        assert found[0] == found[1]
        return
    others = np.arange(18) != 4
    for x, y in zip(*found, strict=True):
        np.testing.assert_array_equal(np.isnan(x), np.isnan(y))
        np.testing.assert_allclose(x[others], y[others], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in ("lu", "pivots", "complete qr")])
def test_gradients(name):
    function, arguments = FUNCTIONS[name]

    args = arguments(6, 17)
    args = (args[0] + 4 * np.eye(*args[0].shape[-2:]), *args[1:])
    sizes = [np.abs(x).max() for x in _each(function(*args))]

    def loss(*args):
        found = zip(_each(function(*args)), sizes, strict=True)
        return sum(np.sum(np.sin(x / size)) for x, size in found)

    f = wg.jit(wg.value_and_grad(loss))
    value, gradient = f(*args)
    assert _in_lanes(f, *args)
    assert _same(value, loss(*args), 1e-9)
    step = np.random.default_rng(0).normal(size=args[0].shape)
    if name in ("cholesky", "eigh", "eigvalsh"):  # which take their matrix to be symmetric
        step = step + step.swapaxes(-1, -2)
    near = [loss(args[0] + h * step, *args[1:]) for h in (1e-5, -1e-5)]
    np.testing.assert_allclose(np.sum(gradient * step), (near[0] - near[1]) / 2e-5, rtol=1e-5)
    assert _same(gradient, wg.grad(loss)(*args), 1e-8)


@pytest.mark.parametrize("name", ["solve", "cholesky", "qr", "slogdet", "eigvalsh"])
def test_mapped_and_in_loops(name):
    function, arguments = FUNCTIONS[name]
    args = arguments(6, 19)
    f = wg.jit(wg.vmap(lambda *args: function(*args)))
    assert _same(f(*args), function(*args), 1e-9)
    assert _in_lanes(f, *args)

    def steps(first, *rest):
        def step(x, _):
            found = function(x, *rest)
            found = found[-1] if isinstance(found, tuple) else found
            return x + 0.01 * np.mean(found) * np.eye(6), np.sum(found)

        return wg.scan(step, first, None, 3)

    compiled = wg.jit(steps)
    assert _same(compiled(*args), steps(*args), 1e-8)
    assert _in_lanes(compiled, *args)


@pytest.mark.parametrize("name", ["solve", "lu", "cholesky", "qr", "eigh", "svd", "lstsq"])
def test_any_number_of_threads_gives_the_same_bits(name):
    function, arguments = FUNCTIONS[name]
    args = arguments(12, 5003)
    found = []
    try:
        for count in (1, 2, 3):
            wg.set_threads(count)
            found.append(wg.jit(lambda *args: function(*args))(*args))
    finally:
        wg.set_threads(None)
    for one in found[1:]:
        assert _same(one, found[0], 0.0)
    assert "in parallel" in wg.jit(lambda *args: function(*args)).explain(*args).loops


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_vectors_of_any_width(vector_bytes):
    with machine.use(vector_bytes=vector_bytes):
        for name in ("solve", "lu", "cholesky", "qr", "eigh", "svd"):
            function, arguments = FUNCTIONS[name]
            args = arguments(7, 21)
            f = wg.jit(lambda *args, function=function: function(*args))
            assert _same(f(*args), function(*args), 1e-9)
            assert _in_lanes(f, *args) == (vector_bytes >= 32)


def test_no_lapack_is_needed():
    with machine.use(lapack=""):
        for name in ("solve", "cholesky", "qr", "lower"):
            function, arguments = FUNCTIONS[name]
            args = arguments(6, 21)
            f = wg.jit(lambda *args, function=function: function(*args))
            assert _same(f(*args), function(*args), 1e-9)
            assert not f.explain(*args).hosts


@needs_lapack
def test_few_or_large_or_complex_ones_are_lapacks():
    for a in (_regular(6, 3), _regular(17, 20), _regular(6, 20) + 1j):
        f = wg.jit(np.linalg.inv)
        assert _same(f(a), np.linalg.inv(a), 1e-9)
        assert not _in_lanes(f, a) and not f.explain(a).hosts
