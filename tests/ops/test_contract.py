"""`contract` against einsum: every way two arrays of up to three axes can meet."""

import itertools
import string

import numpy as np
import pytest

from wengert.errors import ShapeError
from wengert.ops.contract import (
    INNER,
    MATRIX_MATRIX,
    MATRIX_VECTOR,
    OUTER,
    contract,
    normal_spec,
)
from wengert.transforms.batching import vmap
from wengert.transforms.check import check_grads
from wengert.transforms.reverse import vjp

LENGTHS = (2, 3, 4, 5, 2, 3)


def subscripts(spec):
    x, y, out = ("".join(string.ascii_letters[n] for n in labels) for labels in spec)
    return f"{x},{y}->{out}"


def arrays(spec, rng):
    return tuple(rng.normal(size=[LENGTHS[n] for n in labels]) for labels in spec[:2])


def all_specs(rank_x, rank_y):
    """Every spec of two arrays with these ranks, with every order of the result's axes."""
    x = tuple(range(rank_x))
    found = set()
    for y in itertools.permutations(range(rank_x + rank_y), rank_y):
        alone = [n for n in x if n not in y] + [n for n in y if n not in x]
        shared = [n for n in x if n in y]
        for count in range(len(shared) + 1):
            for kept in itertools.combinations(shared, count):
                for out in itertools.permutations([*alone, *kept]):
                    found.add(normal_spec(x, y, out))
    return sorted(found)


@pytest.mark.parametrize("ranks", [(0, 0), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2), (3, 2)])
def test_every_spec_is_einsum(ranks):
    rng = np.random.default_rng(0)
    specs = all_specs(*ranks)
    assert specs
    for spec in specs:
        x, y = arrays(spec, rng)
        result = contract(x, y, spec=spec)
        expected = np.einsum(subscripts(spec), x, y)
        assert np.shape(result) == expected.shape
        np.testing.assert_allclose(result, expected, rtol=1e-13, atol=1e-13, err_msg=str(spec))


def test_many_axes_in_any_order():
    rng = np.random.default_rng(1)
    for _ in range(60):
        labels = rng.permutation(6)
        x = tuple(labels[:4].tolist())
        y = tuple(rng.permutation(labels[2:]).tolist())
        kept = rng.permutation([*labels[:2], *labels[4:], *labels[2 : 2 + rng.integers(3)]])
        spec = normal_spec(x, y, tuple(kept.tolist()))
        a, b = arrays(spec, rng)
        a = np.asfortranarray(a) if rng.integers(2) else a
        np.testing.assert_allclose(
            contract(a, b, spec=spec), np.einsum(subscripts(spec), a, b), rtol=1e-12, atol=1e-12
        )


def test_samples_around_wide_trailing_axes():
    # the form of a convolution: samples, then the other array's axes, then positions
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(3, 4, 20)), rng.normal(size=(5, 4))
    expected = np.einsum("ncp,oc->nop", x, y)
    spec = normal_spec((0, 1, 2), (3, 1), (0, 3, 2))
    np.testing.assert_allclose(contract(x, y, spec=spec), expected, rtol=1e-13)
    swapped = normal_spec((3, 1), (0, 1, 2), (0, 3, 2))
    np.testing.assert_allclose(contract(y, x, spec=swapped), expected, rtol=1e-13)


@pytest.mark.parametrize(
    "spec",
    [
        INNER,
        OUTER,
        MATRIX_MATRIX,
        ((0, 1, 2), (0, 2, 3), (0, 1, 3)),
        ((0, 1), (0, 1), (1,)),
        ((0, 1, 2), (3, 1), (0, 3, 2)),
        ((), (0,), (0,)),
    ],
)
def test_gradients_and_batching(spec):
    rng = np.random.default_rng(3)
    x, y = arrays(spec, rng)
    check_grads(lambda a, b: contract(a, b, spec=spec), (x, y))
    xs, ys = (np.stack([a, 2 * a + 1, -a]) for a in (x, y))
    both = vmap(lambda a, b: contract(a, b, spec=spec))(xs, ys)
    left = vmap(lambda a: contract(a, y, spec=spec))(xs)
    right = vmap(lambda b: contract(x, b, spec=spec))(ys)
    for n in range(3):
        np.testing.assert_allclose(both[n], contract(xs[n], ys[n], spec=spec), rtol=1e-12)
        np.testing.assert_allclose(left[n], contract(xs[n], y, spec=spec), rtol=1e-12)
        np.testing.assert_allclose(right[n], contract(x, ys[n], spec=spec), rtol=1e-12)


@pytest.mark.parametrize("first", ["bool", "int8", "int64", "float32", "float64", "complex64"])
@pytest.mark.parametrize("second", ["bool", "uint8", "float32", "float64", "complex128"])
@pytest.mark.parametrize("spec", [INNER, OUTER, MATRIX_MATRIX, ((0, 1), (0, 1), (0,))])
def test_dtypes_are_promoted(first, second, spec):
    rng = np.random.default_rng(4)
    x, y = (
        rng.integers(0, 2, size=a.shape).astype(dtype)
        for a, dtype in zip(arrays(spec, rng), (first, second), strict=True)
    )
    result, expected = contract(x, y, spec=spec), np.einsum(subscripts(spec), x, y)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected)


def test_cotangents_keep_their_dtype_and_the_real_part():
    x, y = np.ones((2, 3), np.float32), np.full((3, 2), 1 + 2j)
    _, pullback = vjp(lambda a, b: contract(a, b, spec=MATRIX_MATRIX), x, y)
    gx, gy = pullback(np.full((2, 2), 1j))
    assert gx.dtype == np.float32 and gy.dtype == np.complex128
    np.testing.assert_array_equal(gx, np.full((2, 3), -4))
    np.testing.assert_array_equal(gy, np.full((3, 2), 2j))


def test_empty_axes():
    assert (
        contract(np.zeros((2, 0)), np.zeros((0, 3)), spec=MATRIX_MATRIX).tolist() == [[0] * 3] * 2
    )
    assert contract(np.zeros(0), np.zeros(0), spec=INNER) == 0
    spec = ((0, 1, 2), (0, 2, 3), (0, 1, 3))
    assert contract(np.zeros((0, 2, 3)), np.zeros((0, 3, 4)), spec=spec).shape == (0, 2, 4)


def test_overlapping_windows_are_not_written_out():
    signal = np.arange(10.0)
    view = np.lib.stride_tricks.sliding_window_view(signal, 3)
    kernel = np.array([1.0, 2.0, 3.0])
    result = contract(view, kernel, spec=MATRIX_VECTOR)
    np.testing.assert_array_equal(result, np.correlate(signal, kernel))


def test_wrong_lengths():
    with pytest.raises(ShapeError, match=r"contract.*shapes \(2, 3\) and \(4, 5\)"):
        contract(np.zeros((2, 3)), np.zeros((4, 5)), spec=MATRIX_MATRIX)
