"""Inputs of any layout: each family of operations, each way memory can lie, bitwise repeatable."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as xp
from wengert.jit import jit
from wengert.runtime.threads import set_threads
from wengert.types import type_of

SHAPE = (7, 5, 9)


def strided(x):
    wide = np.zeros(tuple(2 * n + 1 for n in x.shape), x.dtype)
    view = wide[tuple(slice(1, 2 * n, 2) for n in x.shape)]
    view[...] = x
    return view


def reversed_(x):
    return np.ascontiguousarray(x[::-1, :, ::-1])[::-1, :, ::-1]


def broadcast(x):
    return np.broadcast_to(x[:1, :, :1], x.shape)


def fortran(x):
    return np.asfortranarray(x)


def permuted(x):
    return np.ascontiguousarray(x.transpose(1, 2, 0)).transpose(2, 0, 1)


def misaligned(x):
    raw = np.zeros(x.nbytes + 1, np.uint8)
    view = raw[1:].view(x.dtype).reshape(x.shape)
    view[...] = x
    return view


def misaligned_strided(x):
    raw = np.zeros(2 * x.nbytes + 1, np.uint8)
    view = raw[1:].view(x.dtype).reshape(*x.shape[:-1], 2 * x.shape[-1])[..., ::2]
    view[...] = x
    return view


LAYOUTS = [strided, reversed_, broadcast, fortran, permuted, misaligned, misaligned_strided]


def write(x, y):
    z = xp.copy(x)
    z[1:3, ::-2] += y[1:3, ::-2]
    z[0] = 0
    return z


# One or two programs for each way an operation lowers.
FAMILIES = {
    "pointwise": lambda x, y: x * y + x,
    "elementary": lambda x, y: xp.sin(x) * xp.exp(-xp.abs(y)),
    "comparison": lambda x, y: xp.where(x > y, x, y),
    "convert": lambda x, y: xp.astype(x, "float32") + xp.astype(y, "int32"),
    "sum": lambda x, y: xp.sum(x * y, axis=(0, 2)),
    "sum all": lambda x, y: xp.sum(x - y),
    "reductions": lambda x, y: (xp.max(x, axis=1), xp.min(y, axis=0), xp.prod(xp.cos(x), axis=2)),
    "logic": lambda x, y: (xp.all(x > 0, axis=1), xp.any(y < 0, axis=(0, 1))),
    "contract": lambda x, y: xp.einsum("ijk,ljk->il", x, y),
    "matmul": lambda x, y: x @ xp.swapaxes(y, 1, 2),
    "reshape": lambda x, y: xp.reshape(x, (35, 9)) + xp.reshape(y, (35, 9)),
    "permute": lambda x, y: xp.transpose(x, (2, 0, 1)) * xp.transpose(y, (2, 0, 1)),
    "slice": lambda x, y: x[::-1, 1:4, ::2] - y[::-1, 1:4, ::2],
    "broadcast": lambda x, y: x[:, :1] + y[:1],
    "concatenate": lambda x, y: xp.concatenate([x, y, x[:, ::-1]], axis=1),
    "stack": lambda x, y: xp.stack([x, y], axis=-1),
    "pad": lambda x, y: xp.pad(x, [(1, 2), (0, 1), (2, 0)]) + 1.0,
    "index_set": write,
    "windows": lambda x, y: xp.sum(xp.sliding_window_view(x, (2, 2), axis=(0, 1)) * 2.0, (-1, -2)),
    "gather": lambda x, y: x[np.array([3, 0, 6])] + y[np.array([1, 1, 2])],
    "scatter": lambda x, y: xp.scatter_add(x, np.array([2, 2, 0]), y[:3]),
    "cumulative": lambda x, y: xp.cumsum(x, axis=1) + xp.cumprod(xp.cos(y), axis=2),
    "sorting": lambda x, y: (xp.sort(x, axis=1), xp.argmax(y, axis=2)),
    "identity": lambda x, y: (x, y, x),
    "gradient": wg.grad(lambda x, y: xp.sum(xp.tanh(x) * y)),
}


def arrays(dtype="float64"):
    rng = np.random.default_rng(5)
    return [np.round(rng.uniform(-2, 2, SHAPE) * 8).astype(dtype) / 8 for _ in range(2)]


def leaves(result):
    return [np.asarray(part) for part in wg.tree.leaves(result)]


def assert_same(got, want):
    for one, other in zip(leaves(got), leaves(want), strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        if other.dtype.kind == "f":
            tolerance = 1e-5 if other.dtype.itemsize == 4 else 1e-12
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_layout(family):
    compiled = jit(FAMILIES[family])
    x, y = arrays()
    for layout in LAYOUTS:
        one, other = layout(x), layout(y)
        before = one.copy()
        want = FAMILIES[family](one, other)
        assert_same(compiled(one, other), want)
        np.testing.assert_array_equal(one, before)


@pytest.mark.parametrize("family", FAMILIES)
def test_different_layouts_meet(family):
    x, y = arrays()
    one, other = strided(x), fortran(y)
    assert_same(jit(FAMILIES[family])(one, other), FAMILIES[family](one, other))


@pytest.mark.parametrize("dtype", ["float32", "int32", "int16", "uint8", "bool"])
@pytest.mark.parametrize("family", ["pointwise", "sum", "slice", "concatenate", "identity"])
def test_every_layout_of_other_dtypes(family, dtype):
    compiled = jit(FAMILIES[family])
    x, y = (np.abs(a).astype(dtype) for a in arrays())
    if dtype == "bool" and family == "slice":
        pytest.skip("NumPy does not subtract booleans")
    for layout in LAYOUTS:
        one, other = layout(x), layout(y)
        assert_same(compiled(one, other), FAMILIES[family](one, other))


@pytest.mark.parametrize("family", FAMILIES)
def test_results_repeat_bit_for_bit(family):
    compiled = jit(FAMILIES[family])
    x, y = arrays()
    first = [part.tobytes() for part in leaves(compiled(x, y))]
    for _ in range(3):
        assert [part.tobytes() for part in leaves(compiled(x, y))] == first
    # a fresh compilation too
    again = jit(lambda *args: FAMILIES[family](*args))
    assert [part.tobytes() for part in leaves(again(x, y))] == first


LARGE = {
    "elementwise": lambda x: xp.exp(-x * x) + xp.sin(x),
    "sum": lambda x: xp.sum(xp.tanh(x)),
    "rows": lambda x: xp.sum(x * x, axis=1),
    "columns": lambda x: xp.sum(x * x, axis=0),
    "maximum": lambda x: xp.max(x),
    "product": lambda x: x.T @ x,
    "gradient": wg.value_and_grad(lambda x: xp.sum(xp.sin(x) * xp.exp(-x * x))),
}


@pytest.fixture
def any_threads():
    yield
    set_threads(None)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", LARGE)
def test_any_number_of_threads_gives_the_same_bits(name, dtype, any_threads):
    x = np.random.default_rng(3).standard_normal((1999, 101)).astype(dtype)
    compiled = jit(LARGE[name])
    set_threads(1)
    first = leaves(compiled(x))
    want = leaves(LARGE[name](x))
    for one, other in zip(first, want, strict=True):
        assert type_of(one).dtype == type_of(other).dtype
        scale = np.max(np.abs(other))
        tolerance = 3e-5 if dtype == "float32" else 1e-12
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * scale)
    for threads in range(2, 9):
        set_threads(threads)
        again = leaves(compiled(x))
        assert [a.tobytes() for a in again] == [a.tobytes() for a in first]


def test_results_share_no_memory_with_arguments():
    x, y = arrays()
    for part in leaves(jit(FAMILIES["identity"])(x, y)):
        assert not np.shares_memory(part, x)
        assert not np.shares_memory(part, y)


def test_copies_for_another_shape_come_before_what_reads_them():
    def function(x):
        kept = xp.maximum(x, 0.0)  # a loop of the same shape, which the sort must not join
        return xp.sin(x @ x.T).T @ kept, xp.sort(x, axis=1)

    x = np.asfortranarray(np.random.default_rng(0).normal(size=(9, 3)))
    for got, want in zip(wg.jit(function)(x), function(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-13)
