"""Factorisations in compiled programs: LAPACK called without Python, as NumPy calls it."""

import contextlib
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import wengert as wg
from wengert import machine
from wengert.bench import measure
from wengert.bench.run import _same
from wengert.runtime import lapack

needs_lapack = pytest.mark.skipif(not lapack.library(), reason="no LAPACK with plain symbols")
SIZES = [*range(1, 18), 25, 33, 40, 200]


def _regular(n, *batch):
    rng = np.random.default_rng(n)
    return rng.normal(size=(*batch, n, n)) + np.diag(np.arange(1.0, n + 1))


def _definite(n, *batch):
    a = _regular(n, *batch) / n
    return a @ a.swapaxes(-1, -2) + np.eye(n)


def _right(n, *batch):
    return np.random.default_rng(n).normal(size=(*batch, n, 2))


def _lower(a, b):
    return wg.numpy.linalg.solve_triangular(a, b, lower=True)


FUNCTIONS = {
    "solve": (np.linalg.solve, lambda n, *batch: (_regular(n, *batch), _right(n, *batch))),
    "one side": (np.linalg.solve, lambda n, *batch: (_regular(n, *batch), _right(n)[:, :1])),
    "triangular": (_lower, lambda n, *batch: (_regular(n, *batch), _right(n, *batch))),
    "turned": (
        lambda a, b: wg.numpy.linalg.solve_triangular(
            np.swapaxes(a, -1, -2), b, unit_diagonal=True
        ),
        lambda n, *batch: (_regular(n, *batch) / n**2, _right(n, *batch)),
    ),
    "inv": (np.linalg.inv, lambda n, *batch: (_regular(n, *batch),)),
    "det": (lambda a: np.linalg.det(a / a.shape[-1]), lambda n, *b: (_regular(n, *b),)),
    "slogdet": (lambda a: tuple(np.linalg.slogdet(a)), lambda n, *batch: (_regular(n, *batch),)),
    "cholesky": (np.linalg.cholesky, lambda n, *batch: (_definite(n, *batch),)),
    "qr": (lambda a: tuple(np.linalg.qr(a)), lambda n, *b: (_regular(n, *b)[..., : n // 2 + 1],)),
    "complete": (
        lambda a: tuple(np.linalg.qr(a, "complete")),
        lambda n, *batch: (_regular(n, *batch)[..., : n // 2 + 1],),
    ),
    "eigh": (lambda a: tuple(np.linalg.eigh(a)), lambda n, *batch: (_definite(n, *batch),)),
    "eigvalsh": (np.linalg.eigvalsh, lambda n, *batch: (_definite(n, *batch),)),
    "svd": (
        lambda a: tuple(np.linalg.svd(a, full_matrices=False)),
        lambda n, *batch: (_regular(n, *batch)[..., : n // 2 + 1, :],),
    ),
    "full": (
        lambda a: tuple(np.linalg.svd(a)),
        lambda n, *batch: (_regular(n, *batch)[..., : n // 2 + 1],),
    ),
    "svdvals": (lambda a: np.linalg.svd(a, compute_uv=False), lambda n, *b: (_regular(n, *b),)),
    "pinv": (np.linalg.pinv, lambda n, *batch: (_regular(n, *batch)[..., : n // 2 + 1],)),
}


@needs_lapack
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_numpy_does(name):
    function, arguments = FUNCTIONS[name]
    for n, dtype, close in ((1, "f8", 1e-9), (3, "f8", 1e-9), (17, "f8", 1e-9), (5, "f4", 2e-4)):
        args = [x.astype(dtype) for x in arguments(n)]
        f = wg.jit(function)
        assert _same(f(*args), function(*args), close)
        assert not f.explain(*args).hosts


@needs_lapack
@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_numpy_does_for_all_sizes(name):
    function, arguments = FUNCTIONS[name]
    for n in SIZES:
        for batch in ((), (3,)):
            args = arguments(n, *batch)
            assert _same(wg.jit(function)(*args), function(*args), 1e-8)


@needs_lapack
@pytest.mark.parametrize("name", FUNCTIONS)
def test_stacks(name):
    function, arguments = FUNCTIONS[name]
    for batch in ((2, 3), (1, 2)):
        args = arguments(5, *batch)
        f = wg.jit(function)
        assert _same(f(*args), function(*args), 1e-9)
        assert not f.explain(*args).hosts


@needs_lapack
def test_axes_before_the_matrices_broadcast():
    a, b = _regular(4, 3, 1), np.random.default_rng(0).normal(size=(5, 4, 2))
    assert _same(wg.jit(np.linalg.solve)(a, b), np.linalg.solve(a, b), 1e-10)
    assert _same(wg.jit(_lower)(a, b), _lower(a, b), 1e-10)


@needs_lapack
def test_least_squares_of_any_rank():
    rng = np.random.default_rng(0)
    f = lambda a, b: np.linalg.lstsq(a, b)[0]
    low = rng.normal(size=(9, 3)) @ rng.normal(size=(3, 6))
    for a in (rng.normal(size=(40, 7)), rng.normal(size=(7, 40)), low, rng.normal(size=(60, 50))):
        b = rng.normal(size=(len(a), 2))
        g = wg.jit(f)
        assert _same(g(a, b), f(a, b), 1e-9)
        assert not g.explain(a, b).hosts
    stacks = rng.normal(size=(3, 6, 4)), rng.normal(size=(3, 6, 2))
    assert _same(wg.jit(wg.vmap(f))(*stacks), wg.vmap(f)(*stacks), 1e-9)


@pytest.mark.slow
@needs_lapack
@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in ("full", "complete")])
def test_gradients_mapped_and_in_loops(name):
    function, arguments = FUNCTIONS[name]

    def loss(*args):
        found = function(*args)
        return sum(np.sum(x**2) for x in (found if isinstance(found, tuple) else (found,)))

    args = arguments(4)
    gradient = wg.value_and_grad(loss)
    f = wg.jit(gradient)
    assert _same(f(*args), gradient(*args), 1e-8)
    assert not f.explain(*args).hosts
    stacks = [np.stack([x, x * 1.1]) for x in args]
    assert _same(wg.jit(wg.vmap(gradient))(*stacks), wg.vmap(gradient)(*stacks), 1e-8)

    def steps(first, *rest):
        return wg.scan(
            lambda x, _: (x + 0.01 * gradient(x, *rest)[1], loss(x, *rest)), first, None, 3
        )

    compiled = wg.jit(steps)
    assert _same(compiled(*args), steps(*args), 1e-8)
    assert not compiled.explain(*args).hosts


BAD = {
    "singular": (np.linalg.solve, (np.ones((3, 3)), np.ones((3, 1)))),
    "singular inverse": (np.linalg.inv, (np.zeros((4, 4)),)),
    "one of many": (np.linalg.inv, (np.stack([np.eye(3), np.zeros((3, 3))]),)),
    "zero on the diagonal": (_lower, (np.diag([1.0, 0.0, 2.0]), np.ones((3, 1)))),
    "not definite": (np.linalg.cholesky, (-np.eye(3),)),
}


@needs_lapack
@pytest.mark.parametrize("name", BAD)
def test_what_has_no_result_raises_as_evaluated(name):
    function, args = BAD[name]
    f = wg.jit(lambda *args: function(*args) * 2.0)
    good = [np.zeros_like(args[0]) + np.eye(args[0].shape[-1]), *args[1:]]
    f(*good)
    for _ in range(2):
        with pytest.raises(np.linalg.LinAlgError) as compiled:
            f(*args)
        with pytest.raises(np.linalg.LinAlgError) as evaluated:
            wg.trace(function, *good)(*args)
        said = [str(error.value).split("): ")[1] for error in (compiled, evaluated)]
        assert said[0] == said[1]
    assert _same(f(*good), function(*good) * 2.0, 1e-12)


@needs_lapack
def test_singular_to_the_rounding_of_compiled_code_alone():
    f = wg.jit(lambda a, b: np.linalg.inv(a * b))
    f(np.eye(2), np.ones(2))
    program = next(iter(f._programs.values()))[0]
    from wengert.loops import NO_RESULT

    with pytest.raises(np.linalg.LinAlgError, match="a matrix is singular, not positive definite"):
        f._failed(program, NO_RESULT, np.eye(2), np.ones(2))


@needs_lapack
@pytest.mark.parametrize("name", ["solve", "inv", "det", "slogdet", "svdvals", "cholesky"])
def test_nan_and_infinities_as_numpy_has_them(name):
    function, arguments = FUNCTIONS[name]
    for value in (np.nan, np.inf):
        args = [x.copy() for x in arguments(6)]
        args[0][2, 3] = args[0][3, 2] = value
        with np.errstate(all="ignore"):
            try:
                want = function(*args)
            except np.linalg.LinAlgError:
                # NumPy from 2.5.5 on raises it for infinities too, of which LAPACK itself makes NaN
                with contextlib.suppress(np.linalg.LinAlgError):
                    assert np.isnan(wg.jit(function)(*args)).all()
                continue
        got = wg.jit(function)(*args)
        for one, other in zip(np.atleast_1d(got), np.atleast_1d(want), strict=True):
            np.testing.assert_array_equal(np.isfinite(one), np.isfinite(other))


@needs_lapack
@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in ("pinv",)])
def test_without_elements(name):
    function, arguments = FUNCTIONS[name]
    for shape in ((0,), (2, 0), (0, 3)):
        n = shape[-1]
        args = [np.zeros((*shape[:-1], *x.shape[-2:])) for x in arguments(max(n, 1))]
        args = [x[..., :n, :n] if k == 0 else x[..., :n, :] for k, x in enumerate(args)]
        try:
            want = function(*args)
        except (ValueError, np.linalg.LinAlgError):
            continue
        assert _same(wg.jit(function)(*args), want, 1e-12)


@needs_lapack
def test_singular_determinants_are_zero():
    a = np.stack([np.ones((5, 5)), np.diag([1.0, 2.0, 0.0, 3.0, -1.0]), -np.eye(5)])
    for f in (np.linalg.det, lambda a: np.linalg.slogdet(a)[0], lambda a: np.linalg.slogdet(a)[1]):
        np.testing.assert_allclose(wg.jit(f)(a), f(a), rtol=1e-12)


@needs_lapack
def test_determinants_of_stacks_need_no_memory_for_factors():
    for f in (np.linalg.det, lambda a: tuple(np.linalg.slogdet(a))):
        a = _regular(20, 30) / 8
        compiled = wg.jit(f)
        assert _same(compiled(a), f(a), 1e-9)
        text = compiled.explain(a).loops
        # elimination and what is done with its diagonal are in one loop; nothing else has all rows
        assert text.count("dgetrf") == 1 and "400*matrix" not in text.split("dgetrf")[1]


@needs_lapack
def test_one_elimination_for_a_gradient():
    def f(a, b):
        return (
            np.sum(np.linalg.solve(a, b) ** 2) + np.linalg.slogdet(a)[1] + np.sum(np.linalg.inv(a))
        )

    text = wg.jit(wg.value_and_grad(f)).explain(_regular(20), _right(20)).loops
    assert text.count("dgetrf") == 1


@needs_lapack
def test_a_gradient_of_cholesky_knows_its_triangle():
    def f(a):
        return np.sum(np.linalg.cholesky(a) ** 3)

    for a in (_definite(40), _definite(33, 2)):
        both = wg.value_and_grad(f)
        compiled = wg.jit(both)
        assert _same(compiled(a), both(a), 1e-9)
        story = compiled.explain(a)
        assert not story.hosts and "dtrmm" in story.loops
    tangent = np.eye(40) + 0.1
    push = lambda a: wg.jvp(np.linalg.cholesky, (a,), (tangent,))
    assert _same(wg.jit(push)(_definite(40)), push(_definite(40)), 1e-9)


@needs_lapack
def test_threads_at_the_same_time_and_any_number_of_them():
    def f(a, b):
        low = np.linalg.cholesky(a @ np.swapaxes(a, -1, -2))
        return np.linalg.solve(a, b), low, np.linalg.eigvalsh(a)

    compiled = wg.jit(f)
    arguments = [(_regular(30, 4) + n, _right(30, 4)) for n in range(3)]
    expected = [compiled(*args) for args in arguments]
    wrong = []

    def work(args, want):
        for _ in range(20):
            got = compiled(*args)
            wrong.extend(1 for x, y in zip(got, want, strict=True) if not np.array_equal(x, y))

    workers = [
        threading.Thread(target=work, args=pair) for pair in zip(arguments, expected, strict=True)
    ]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    assert not wrong
    try:
        for count in (1, 2, 3):
            wg.set_threads(count)
            for args, want in zip(arguments, expected, strict=True):
                for x, y in zip(wg.jit(f)(*args), want, strict=True):
                    np.testing.assert_array_equal(x, y)
    finally:
        wg.set_threads(None)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_small_systems_are_as_accurate_as_lapack(n):
    """Of all sizes of pivots: rows and columns are scaled by powers of ten, and many are zero."""
    rng = np.random.default_rng(n)
    a = rng.normal(size=(3000, n, n)) * 10.0 ** rng.integers(-6, 7, size=(3000, n, 1))
    a *= rng.random(size=a.shape) < 0.8
    a = a[np.abs(np.linalg.det(a)) > 1e-12]
    b = rng.normal(size=(len(a), n, 2))
    x, same = wg.jit(np.linalg.solve)(a, b), np.linalg.solve(a, b)

    def error(x):
        size = np.abs(a).sum(-1).max(-1)[:, None, None] * np.abs(x).max(-2, keepdims=True)
        return (np.abs(a @ x - b) / size).max()

    assert error(x) <= max(2 * error(same), 4e-16)
    assert not wg.jit(np.linalg.solve).explain(a, b).hosts


@pytest.mark.parametrize("rows", [3, 5])
@pytest.mark.parametrize("name", ["solve", "inv", "cholesky", "triangular", "det", "slogdet"])
def test_small_matrices_need_no_lapack(name, rows):
    function, arguments = FUNCTIONS[name]
    args = arguments(rows, 5)
    with machine.use(lapack=""):
        f = wg.jit(lambda *args: function(*args))
        assert _same(f(*args), function(*args), 1e-12)
        story = f.explain(*args)
        assert not story.hosts and "by d" not in story.loops


def test_one_singular_matrix_among_many():
    a = np.random.default_rng(0).normal(size=(1000, 3, 3))
    a[617] = np.ones((3, 3))
    b = np.ones((1000, 3, 1))
    f = wg.jit(np.linalg.solve)
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        f(a, b)
    a[617] = np.eye(3)
    np.testing.assert_allclose(f(a, b), np.linalg.solve(a, b), rtol=1e-8)


@pytest.mark.timing
def test_many_small_systems_take_a_tenth_of_numpys_time():
    a = np.random.default_rng(0).normal(size=(100_000, 3, 3)) + 3 * np.eye(3)
    b = np.ones((100_000, 3, 1))
    f = wg.jit(np.linalg.solve)
    calls = {"compiled": lambda: f(a, b), "numpy": lambda: np.linalg.solve(a, b)}
    times = measure.alternate(calls, measure.Effort(5, 0.01))
    assert 10 * times["compiled"] <= times["numpy"]


_AGAIN = """
import sys
import numpy as np
import wengert as wg

f = wg.jit(lambda a: np.linalg.solve(a, np.linalg.cholesky(a @ a.T)))
a = np.eye(20) * 3 + np.arange(400.0).reshape(20, 20) / 400
np.testing.assert_allclose(f(a), np.linalg.solve(a, np.linalg.cholesky(a @ a.T)), atol=1e-9)
program = next(iter(f._programs.values()))[0]
print(program.from_record, "wengert.schedule.factorisations" in sys.modules)
"""


@needs_lapack
def test_from_disk_in_another_process(tmp_path):
    environment = {**os.environ, "WENGERT_CACHE": str(tmp_path)}
    found = [
        subprocess.run(
            [sys.executable, "-c", _AGAIN], capture_output=True, text=True, check=True,
            env=environment,
        ).stdout.split()
        for _ in range(2)
    ]  # fmt: skip
    assert found == [["False", "True"], ["True", "False"]]


def test_without_a_lapack_numpy_is_called():
    a = _definite(6)
    with machine.use(lapack=""):
        f = wg.jit(lambda a: np.linalg.cholesky(a) + np.linalg.inv(a))
        assert _same(f(a), np.linalg.cholesky(a) + np.linalg.inv(a), 1e-10)
        assert len(f.explain(a).hosts) == 2


def test_the_lapack_of_scipy_has_integers_of_32_bits(monkeypatch):
    pytest.importorskip("scipy")
    monkeypatch.setattr(lapack, "_of_numpy", lambda: None)
    function, arguments = FUNCTIONS["solve"]
    with machine.use(lapack="scipy32"):
        for name in ("solve", "eigh", "svd", "qr"):
            function, arguments = FUNCTIONS[name]
            args = arguments(7)
            found = wg.jit(lambda *args, function=function: function(*args))(*args)
            found = found if isinstance(found, tuple) else (found,)
            want = function(*args)
            for x, y in zip(found, want if isinstance(want, tuple) else (want,), strict=True):
                np.testing.assert_allclose(np.abs(x), np.abs(y), atol=1e-10)
