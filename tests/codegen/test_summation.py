"""Long sums lose no more than NumPy's pairwise ones do: any length, any axes, fused or not."""

import math

import numpy as np
import pytest

import wengert as wg

LENGTHS = (7, 100, 1025, 10_000, 300_000)


def _data(kind, shape, dtype):
    rng = np.random.default_rng(0)
    if kind == "constant":
        return np.full(shape, 0.1, dtype)
    values = rng.uniform(size=shape) if kind == "positive" else 0.01 * rng.normal(size=shape)
    return values.astype(dtype)


def _error(value, exact, scale, dtype):
    """In units of the last place of the sum of absolute values."""
    return abs(float(value) - exact) / float(np.spacing(dtype(scale)))


def _exact(x):
    values = x.astype(float).ravel().tolist()
    return math.fsum(values), math.fsum(map(abs, values))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["constant", "positive", "normal"])
def test_a_sum_is_as_good_as_numpys_at_every_length(dtype, kind):
    for length in LENGTHS:
        x = _data(kind, length, dtype)
        exact, scale = _exact(x)
        ours = _error(wg.jit(lambda x: np.sum(x))(x), exact, scale, dtype)
        theirs = _error(np.sum(x), exact, scale, dtype)
        assert ours <= max(theirs, 3.0), (length, ours, theirs)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(x, axis=0),
        lambda x: np.sum(x, axis=1),
        lambda x: np.sum(x.T * 2),
        lambda x: np.sum(x[:, ::2]),
        lambda x: np.sum(x[::3]),
        lambda x: np.mean(x),
        lambda x: np.mean(x, axis=1),
        lambda x: np.linalg.norm(x),
        lambda x: np.sum(np.sum(x, axis=1) * 2),
        lambda x: np.sum(x * x[:, :1]),
    ],
)
@pytest.mark.parametrize("shape", [(3, 20_000), (20_000, 3)])
def test_sums_over_other_axes_and_of_what_is_computed(f, shape):
    x = np.full(shape, 0.1, np.float32)
    exact = f(x.astype(float))
    unit = np.spacing(np.abs(exact).astype(np.float32))
    ours, theirs = (np.max(np.abs(g(x) - exact) / unit) for g in (wg.jit(f), f))
    assert ours <= max(theirs, 4.0)


@pytest.mark.parametrize(("dtype", "bound"), [(np.float32, 5e-16), (np.float64, 5e-33)])
def test_the_variance_of_a_constant(dtype, bound):
    for length in (1000, 10_000, 300_000):
        assert wg.jit(lambda x: np.var(x))(np.full(length, 0.1, dtype)) <= bound


def test_sums_over_samples_in_a_batch_loop():
    def loss(weights, inputs):
        hidden = np.tanh(inputs @ weights)
        return np.mean(np.sum(np.tanh(hidden @ weights.T) ** 2, axis=1))

    inputs, weights = np.full((60_000, 4), 0.1, np.float32), np.full((4, 8), 0.1, np.float32)
    compiled = wg.jit(wg.value_and_grad(loss))
    assert "blocks of 16" in str(compiled.explain(weights, inputs).loops)
    value, slope = compiled(weights, inputs)
    exact_value, exact = wg.value_and_grad(loss)(weights.astype(float), inputs.astype(float))
    assert abs(value - exact_value) <= 4 * np.spacing(np.float32(exact_value))
    assert np.max(np.abs(slope - exact)) <= 32 * np.spacing(np.float32(exact.max()))


@pytest.mark.parametrize("shape", [(100_000,), (300, 400), (50_000, 3)])
def test_infinities_and_nans_are_what_they_were(shape):
    f = wg.jit(lambda x: np.sum(x))
    x = np.ones(shape)
    for value in (np.inf, -np.inf, np.nan):
        x.flat[12_345] = value
        np.testing.assert_equal(f(x), value)
    x.flat[[5, 12_345]] = np.inf, -np.inf
    assert np.isnan(f(x))
    assert f(np.full(shape, np.finfo(float).max)) == np.inf


def test_infinities_in_a_batch_loop():
    def loss(weights, inputs):
        return np.sum(np.tanh(inputs @ weights)[:, 0] * inputs[:, 0])

    inputs, weights = np.ones((60_000, 4), np.float32), np.full((4, 8), 0.1, np.float32)
    inputs[777, 0] = np.inf
    assert wg.jit(loss)(weights, inputs) == np.inf


def test_the_same_bits_for_any_number_of_threads():
    x = _data("normal", 3_000_000, np.float32)
    results = {wg.jit(lambda x: np.sum(x * x), threads=n)(x).tobytes() for n in (1, 2, 3)}
    assert len(results) == 1
