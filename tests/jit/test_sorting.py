"""Sorting in compiled programs: NumPy's own sorts, called without Python."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert import machine
from wengert.loops import Host, inside
from wengert.passes import optimise
from wengert.schedule import schedule

RNG = np.random.default_rng(0)
SHAPES = [(1,), (17,), (1000,), (3, 65, 4)]


def hosts(f, *args, loops=True):
    with machine.use(numpy_loops=loops):
        kernels = schedule(optimise(wg.trace(f, *args))).kernels
    return [str(k) for kernel in kernels for k in inside(kernel) if isinstance(k, Host)]


def _numbers(shape, dtype, few):
    """Numbers of a dtype, all different or only a few, with what floats have beside numbers."""
    x = RNG.normal(size=shape) * (2 if few else 100)
    if dtype == "bool":
        return x > 0
    if few and np.dtype(dtype).kind == "f":
        x = np.round(x)
        x.flat[::5], x.flat[3::7], x.flat[2::11] = np.nan, -0.0, np.inf
    return x.astype("i8").astype(dtype) if np.dtype(dtype).kind in "iu" else x.astype(dtype)


DTYPES = ["f8", "f4", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "bool"]


@pytest.mark.parametrize("few", [False, True], ids=["many", "few"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_order_and_elements(dtype, few):
    given = [_numbers(shape, dtype, few) for shape in SHAPES]

    def f(*given):
        found = []
        for x in given:
            for axis in range(x.ndim):
                for down in (False, True):
                    found.append(wnp.sort(x, axis=axis, descending=down))
                    found.append(wnp.argsort(x, axis=axis, descending=down))
                    found.append(wnp.sort(x + x[:1], axis=axis, descending=down))
        return found

    for one, other in zip(wg.jit(f)(*given), f(*given), strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


def _smallest(x):
    values, _ = wnp.top_k(x, 5)
    return np.sum(np.sort(x)[:3] ** 2) + np.median(x) + np.quantile(x, 0.3) + np.sum(values[::2])


PROGRAMS = {
    "sort": np.sort,
    "argsort": np.argsort,
    "partition": lambda x: wnp.partition(x, 5),
    "median": np.median,
    "quantile": lambda x: np.quantile(x, [0.1, 0.5]),
    "top_k": lambda x: wnp.top_k(x, 4),
    "lexsort": lambda x: np.lexsort((x, np.round(x))),
    "searchsorted": lambda x: np.searchsorted(np.sort(x), x[::3]),
    "unique": lambda x: wnp.unique(np.round(x), size=4),
    "ranks": lambda x: np.argsort(np.argsort(x)),
    "in one": _smallest,
    "gradient": wg.grad(_smallest),
    "hessian": wg.hessian(_smallest),
    "loop": lambda x: wg.scan(lambda c, _: (np.sort(c)[::-1] * 0.9, c[0]), x, None, length=4),
    "while": lambda x: wg.while_loop(
        lambda s: s[1] < 3, lambda s: (np.sort(s[0] * s[0] - 1), s[1] + 1), (x, 0)
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("n", [9, 70])
def test_programs_are_native(name, n):
    f, x = PROGRAMS[name], RNG.normal(size=(4, n))
    assert hosts(f, x[0]) == hosts(wg.vmap(f), x) == []
    for g, given in ((f, x[0]), (wg.vmap(f), x)):
        got, wanted = wg.jit(g)(given), g(given)
        if not isinstance(got, tuple):
            got, wanted = (got,), (wanted,)
        for one, other in zip(got, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)


def test_without_numpys_sorts():
    x = RNG.normal(size=300)
    assert hosts(np.sort, x, loops=False) and hosts(np.argsort, x, loops=False)
    with machine.use(numpy_loops=False):
        np.testing.assert_array_equal(wg.jit(np.sort)(x), np.sort(x))


def test_a_long_line():
    x = RNG.normal(size=1 << 18)
    np.testing.assert_array_equal(wg.jit(np.sort)(x), np.sort(x))
    np.testing.assert_array_equal(wg.jit(np.argsort)(x), np.argsort(x, kind="stable"))
