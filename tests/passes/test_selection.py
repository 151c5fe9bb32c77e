"""Few elements of long lines are found by halving: the same ones that the order has there."""

import warnings

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.ops.sorting import ranked

rng = np.random.default_rng(3)


def line(dtype, shape):
    """Numbers of which many are equal, with the ends of the dtype and both zeros among them."""
    dtype = np.dtype(dtype)
    x = (20 * rng.normal(size=shape)).round()
    x = (np.abs(x) if dtype.kind == "u" else x).astype(dtype)
    if dtype.kind == "f":
        x.flat[:6] = -0.0, 0.0, np.inf, -np.inf, np.nan, np.nan
    else:
        x.flat[:2] = np.iinfo(dtype).min, np.iinfo(dtype).max
    return x


DTYPES = ["f8", "f4", "i8", "i4", "i1", "u8", "u4", "u1"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_places_are_those_of_a_stable_order(dtype):
    x = line(dtype, (2, 600))
    ranks = np.array([0, 1, 300, 301, 597, 598, 599, -1])
    found = wg.jit(lambda x: ranked(x, ranks, axis=1))(x)
    np.testing.assert_array_equal(found, np.argsort(x, axis=1, kind="stable")[:, ranks])
    np.testing.assert_array_equal(ranked(x, ranks, axis=1), found)


def middle(x):
    return np.sum(np.median(x, axis=0) ** 2) + np.sum(np.quantile(x, [0.1, 0.6], axis=0))


def test_quantiles_of_long_lines_are_numpys_and_sort_nothing():
    x = rng.normal(size=(602, 2))
    program = wg.jit(wg.value_and_grad(middle))
    value, slope = program(x)
    np.testing.assert_allclose(value, middle(x), rtol=1e-14)
    np.testing.assert_allclose(slope, wg.grad(middle)(x), rtol=1e-14)
    assert np.count_nonzero(slope) == 2 * (2 + 4)
    assert "sort" not in str(program.explain(x).loops)


def test_nan_and_ranks_that_do_not_exist():
    x = line("f8", 1000)
    median = wg.jit(np.median)
    assert np.isnan(median(x))
    x = np.where(np.isfinite(x), x, 0.5)
    np.testing.assert_array_equal(median(x), np.median(x))
    quantile = wg.jit(wnp.quantile)
    np.testing.assert_allclose(quantile(x, 0.25), np.quantile(x, 0.25), rtol=1e-14)
    for q in (-0.1, 1.1):
        with pytest.raises(IndexError):
            quantile(x, q)


def test_a_batch_of_ranks():
    x = rng.normal(size=(3, 520))
    q = np.array([0.1, 0.5, 0.9])
    found = wg.jit(wg.vmap(wnp.quantile))(x, q)
    wanted = [np.quantile(one, part) for one, part in zip(x, q, strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=1e-14)


@pytest.mark.parametrize("holes", ["some", "none", "all but one", "all"])
def test_quantiles_without_nan_sort_no_long_line(holes):
    x = np.random.default_rng(5).normal(size=1001).round(1)  # with ties
    x[{"some": slice(0, None, 7), "none": slice(0, 0)}.get(holes, slice(1, None))] = np.nan
    if holes == "all":
        x[0] = np.nan

    def functions(x):
        return np.nanmedian(x), np.nanquantile(x, [0.0, 0.3, 1.0]), np.nanpercentile(x, 40)

    compiled = wg.jit(functions)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns where all are NaN
        wanted = functions(x)
    for found, one in zip(compiled(x), wanted, strict=True):
        np.testing.assert_array_equal(found, one)
    assert "sort" not in compiled.explain(x).loops


def test_their_gradient_goes_by_place():
    x = np.array([np.nan, *np.random.default_rng(6).permutation(1000)])
    found = wg.jit(wg.grad(np.nanmedian))(x)
    wanted = np.zeros(1001)
    wanted[np.argsort(x)[[499, 500]]] = 0.5
    np.testing.assert_array_equal(found, wanted)
