"""What the reductions and running operations promise beyond the registry's checks."""

import numpy as np
import pytest

from wengert.errors import ShapeError
from wengert.ops import cumulative, reductions
from wengert.ops.layout import reduce_sum
from wengert.transforms.batching import vmap
from wengert.transforms.check import check_grads
from wengert.transforms.forward import jvp
from wengert.transforms.reverse import grad, vjp

RNG = np.random.default_rng(3)


def first_maximum(x, axes):
    """A one where the first largest element of each group is, by a plain loop."""
    result = np.zeros(x.shape)
    others = [axis for axis in range(x.ndim) if axis not in axes]
    for place in np.ndindex(*[x.shape[axis] for axis in others]):
        key = [slice(None)] * x.ndim
        for axis, number in zip(others, place, strict=True):
            key[axis] = number
        group, marks = x[tuple(key)], result[tuple(key)]
        marks[np.unravel_index(np.argmax(group), group.shape)] = 1.0
    return result


@pytest.mark.parametrize("axes", [(0,), (2,), (0, 2), (1, 3), (0, 1, 2, 3), (3, 1)])
def test_first_of_equal_extremes(axes):
    x = RNG.integers(0, 3, size=(3, 2, 3, 2)).astype(float)
    f = lambda x, ties: reductions.reduce_max(x, axes=tuple(sorted(axes)), ties=ties)
    out, pullback = vjp(lambda x: f(x, "first"), x)
    np.testing.assert_array_equal(out, np.max(x, axis=axes))
    np.testing.assert_array_equal(pullback(np.ones(out.shape))[0], first_maximum(x, axes))
    t = RNG.normal(size=x.shape)
    _, pushed = jvp(lambda x: f(x, "first"), (x,), (t,))
    np.testing.assert_allclose(pushed, np.sum(t * first_maximum(x, axes), axis=axes))
    low = lambda x: reductions.reduce_min(-x, axes=tuple(sorted(axes)), ties="first")
    _, pullback = vjp(low, x)
    np.testing.assert_array_equal(pullback(np.ones(out.shape))[0], -first_maximum(x, axes))


def test_first_of_equal_extremes_in_batches():
    x = RNG.integers(0, 3, size=(4, 3, 3)).astype(float)
    f = grad(lambda x: reductions.reduce_max(x, axes=(0, 1), ties="first"))
    np.testing.assert_array_equal(vmap(f)(x), first_maximum(x, (1, 2)))


def test_dtypes_of_products_and_sums():
    for dtype in (bool, np.int8, np.uint8, np.int64, np.float32, np.complex64):
        x = np.ones((2, 3), dtype)
        assert reductions.reduce_prod(x, axes=(0,)).dtype == np.prod(x, axis=0).dtype
        assert cumulative.cumsum(x, axis=0, reverse=True).dtype == np.cumsum(x, axis=0).dtype
        assert cumulative.cumprod(x, axis=0, reverse=False).dtype == np.cumprod(x, axis=0).dtype


def test_nothing_to_choose_from():
    empty = np.zeros((2, 0))
    assert reductions.reduce_max(empty, axes=(0,), ties="equal").shape == (0,)
    with pytest.raises(ShapeError, match=r"min .*\(2, 0\) to reduce over the axes \(1,\)"):
        reductions.reduce_min(empty, axes=(1,), ties="equal")
    with pytest.raises(ShapeError, match=r"argmax .*: there is no element to choose"):
        reductions.argmax(empty, axes=(0, 1))


def test_complex_products():
    z = RNG.normal(size=5) + 1j * RNG.normal(size=5)
    z[2] = 0
    t = RNG.normal(size=5) + 1j * RNG.normal(size=5)
    expected = t[2] * np.prod(np.delete(z, 2))
    _, pushed = jvp(lambda z: reductions.reduce_prod(z, axes=(0,)), (z,), (t,))
    np.testing.assert_allclose(pushed, expected)
    _, pushed = jvp(lambda z: cumulative.cumprod(z, axis=0, reverse=False), (z,), (t,))
    np.testing.assert_allclose(pushed[-1], expected)


# ---------------------------------------------------------------- running


def plain_recurrence(a, b):
    h = np.zeros_like(b)
    h[0] = b[0]
    for k in range(1, len(b)):
        h[k] = a[k] * h[k - 1] + b[k]
    return h


@pytest.mark.parametrize("shape", [(1,), (5,), (300,), (300, 3), (40, 70), (31, 2)])
@pytest.mark.parametrize("reverse", [False, True])
def test_recurrence(shape, reverse):
    a, b = RNG.uniform(-1.2, 1.2, size=shape), RNG.normal(size=shape)
    got = cumulative.recurrence(a, b, axis=0, reverse=reverse)
    expected = plain_recurrence(a[::-1], b[::-1])[::-1] if reverse else plain_recurrence(a, b)
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


def test_recurrence_keeps_zero_times_infinity_out():
    a = np.full(100, 1e300)
    b = np.zeros(100)
    np.testing.assert_array_equal(cumulative.recurrence(a, b, axis=0, reverse=False), b)
    b[-1] = 2.0
    np.testing.assert_array_equal(cumulative.recurrence(a, b, axis=0, reverse=False), b)


def test_recurrence_asks_for_equal_shapes():
    with pytest.raises(ShapeError, match=r"got arrays of shapes \(2,\) and \(3,\), expected equal"):
        cumulative.recurrence.type_rule(
            *[cumulative.ArrayType(np.dtype(float), (n,)) for n in (2, 3)], axis=0, reverse=False
        )


def test_recurrence_differentiates_to_third_order():
    a, b = RNG.normal(size=(4, 2)), RNG.normal(size=(4, 2))
    f = lambda a, b: cumulative.recurrence(a, b, axis=0, reverse=False)
    check_grads(f, (a, b), order=3)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"])
def test_reverse_runs_from_the_end(name):
    op = getattr(cumulative, name)
    x = RNG.normal(size=(3, 5))
    forward = op(x[:, ::-1], axis=1, reverse=False)[:, ::-1]
    np.testing.assert_array_equal(op(x, axis=1, reverse=True), forward)
    slopes = grad(lambda x: reduce_sum(op(x, axis=1, reverse=True)[:, 1] ** 2, axes=(0,)))(x)
    mirrored = grad(lambda x: reduce_sum(op(x, axis=1, reverse=False)[:, 3] ** 2, axes=(0,)))
    np.testing.assert_allclose(slopes, mirrored(x[:, ::-1])[:, ::-1])


def test_records_follow_the_first_in_each_direction():
    x = np.array([2.0, 3.0, 1.0, 3.0, 0.0])
    last = lambda x: cumulative.cummax(x, axis=0, reverse=False)[4]
    np.testing.assert_array_equal(grad(last)(x), [0, 1, 0, 0, 0])
    first = lambda x: cumulative.cummax(x, axis=0, reverse=True)[0]
    np.testing.assert_array_equal(grad(first)(x), [0, 0, 0, 1, 0])
