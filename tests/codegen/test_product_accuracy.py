"""Products lose no more than those of a BLAS do, however long their sums are."""

import itertools

import numpy as np
import pytest

import wengert as wg
from wengert.codegen.runs import Runs

# In units of the last place: what short runs lose, for any numbers and where all are the same, so
# that rounding goes the same way again and again.
FEW = {"positive": 8.0, "normal": 8.0, "constant": 32.0}


def _data(kind, shape, dtype, seed):
    if kind == "constant":
        return np.full(shape, 0.1, dtype)
    rng = np.random.default_rng(seed)
    values = rng.uniform(size=shape) if kind == "positive" else rng.normal(size=shape)
    return values.astype(dtype)


def _error(product, x, y):
    """The largest error, in units of the last place of the sum of absolute values."""
    wide = np.longdouble if x.dtype == np.float64 else np.float64
    rows, columns = np.atleast_2d(x), np.ascontiguousarray(np.atleast_2d(y.T))
    found, worst = np.reshape(product, (len(rows), len(columns))), 0.0
    for i, row in enumerate(rows[:6]):
        terms = row.astype(wide) * columns[:16].astype(wide)
        unit = np.spacing(np.sum(np.abs(terms), axis=1).astype(x.dtype))
        worst = max(worst, np.max(np.abs(found[i, :16] - np.sum(terms, axis=1)) / unit))
    return float(worst)


SHAPES = {
    "dot": lambda k: ((k,), (k,)),
    "matrix vector": lambda k: ((9, k), (k,)),
    "many rows and a vector": lambda k: ((70, k), (k,)),
    "vector matrix": lambda k: ((k,), (k, 40)),
    "small matrices": lambda k: ((3, k), (k, 3)),
    "matrices": lambda k: ((40, k), (k, 50)),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", FEW)
@pytest.mark.parametrize("case", SHAPES)
def test_a_product_is_as_good_as_numpys_at_every_length(case, kind, dtype):
    for length in (7, 100, 400, 1025, 20_000, 60_000):
        left, right = SHAPES[case](length)
        x, y = _data(kind, left, dtype, 0), _data(kind, right, dtype, 1)
        ours = _error(wg.jit(lambda x, y: x @ y)(x, y), x, y)
        assert ours <= max(_error(x @ y, x, y), FEW[kind]), length


@pytest.mark.parametrize("length", [1000, 10_000])
def test_products_that_are_packed(length):
    for dtype in (np.float32, np.float64):
        x = _data("positive", (300, length), dtype, 0)
        y = _data("positive", (length, 300), dtype, 1)
        ours = _error(wg.jit(lambda x, y: x @ y)(x, y), x, y)
        assert ours <= max(_error(x @ y, x, y), FEW["positive"])


@pytest.mark.parametrize(
    ("left", "right", "spec"),
    [
        ((20_000, 30), (20_000, 40), "km,kn->mn"),
        ((30, 200, 100), (200, 100, 40), "mij,ijn->mn"),
        ((30, 200, 100), (100, 200, 40), "mij,jin->mn"),
        ((5, 20_000), (5, 20_000), "bk,bk->b"),
        ((200, 7, 100), (200, 100, 3), "imj,ijn->mn"),
    ],
)
def test_sums_over_other_axes(left, right, spec):
    x, y = _data("positive", left, np.float32, 0), _data("positive", right, np.float32, 1)
    exact = np.einsum(spec, x.astype(float), y.astype(float))
    found = wg.jit(lambda x, y: np.einsum(spec, x, y))(x, y)
    assert np.max(np.abs(found - exact) / np.spacing(exact.astype(np.float32))) <= FEW["positive"]


@pytest.mark.parametrize("batch", [1000, 30_000])
@pytest.mark.parametrize("sizes", [(20, 30, 10), (100, 64, 10)])
def test_gradients_of_weights(sizes, batch):
    def loss(weights, inputs):
        for weight in weights:
            inputs = np.tanh(inputs @ weight)
        return np.mean(inputs**2)

    rng = np.random.default_rng(0)
    shapes = itertools.pairwise(sizes)
    weights = [(rng.uniform(size=s) / s[0]).astype(np.float32) for s in shapes]
    inputs = rng.uniform(size=(batch, sizes[0])).astype(np.float32)
    exact = wg.grad(loss)([w.astype(float) for w in weights], inputs.astype(float))
    for ours, theirs, true in zip(
        wg.jit(wg.grad(loss))(weights, inputs), wg.grad(loss)(weights, inputs), exact, strict=True
    ):
        unit = np.spacing(true.astype(np.float32))
        errors = [np.max(np.abs(found - true) / unit) for found in (ours, theirs)]
        assert errors[0] <= max(errors[1], FEW["positive"])


def test_infinities_and_nans_are_what_they_were():
    f = wg.jit(lambda x, y: x @ y)
    for left, right in [shapes(20_000) for shapes in SHAPES.values()]:
        x, y = np.ones(left, np.float32), np.ones(right, np.float32)
        for value in (np.inf, -np.inf, np.nan):
            x[..., 777] = value
            shape = left[:-1] + right[1:]  # to ask NumPy's product for it may be a warning
            np.testing.assert_equal(f(x, y), np.full(shape, value, np.float32))
        x[..., 777], x[..., 15_000] = np.inf, -np.inf
        assert np.all(np.isnan(f(x, y)))


def test_the_same_bits_for_any_number_of_threads():
    for left, right in [((40, 60_000), (60_000, 50)), ((300, 3000), (3000, 300))]:
        x, y = _data("normal", left, np.float32, 0), _data("normal", right, np.float32, 1)
        results = {wg.jit(lambda x, y: x @ y, threads=n)(x, y).tobytes() for n in (1, 2, 3)}
        assert len(results) == 1


@pytest.mark.parametrize("unroll", [1, 2, 3, 4])
def test_runs_end_where_turns_do(unroll):
    for extent in (400, 401, 784, 1021, 100_003):
        runs, one = Runs.across(extent, 1, unroll), Runs.across(extent, 1, 1)
        assert runs.turns * unroll == one.turns and runs.count == one.count
        assert (runs.count - 1) * one.turns < extent <= runs.count * one.turns
