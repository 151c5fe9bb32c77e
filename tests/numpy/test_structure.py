"""Shapes: every function gives what NumPy gives, plain and traced, with right derivatives."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.errors import AxisError, DTypeError, ShapeError
from wengert.transforms.batching import vmap
from wengert.transforms.check import check_grads
from wengert.transforms.reverse import grad, vjp

RNG = np.random.default_rng(7)
V = RNG.normal(size=5)
M = RNG.normal(size=(3, 4))
T = RNG.normal(size=(2, 3, 4))
S = np.float64(1.3)
ONE = RNG.normal(size=(1, 3, 1))

CASES = {
    "reshape": [lambda xp, x: xp.reshape(x, (4, -1)), M],
    "reshape F": [lambda xp, x: xp.reshape(x, (2, 6), order="F"), M],
    "reshape copy": [lambda xp, x: xp.reshape(x, -1, copy=True), M],
    "reshape scalar": [lambda xp, x: xp.reshape(x, (1, 1)), S],
    "ravel": [lambda xp, x: xp.ravel(x), T],
    "ravel F": [lambda xp, x: xp.ravel(x, order="F"), M],
    "ravel transposed": [lambda xp, x: xp.ravel(x.T, order="K"), M],
    "transpose": [lambda xp, x: xp.transpose(x), T],
    "transpose axes": [lambda xp, x: xp.transpose(x, (1, -1, 0)), T],
    "permute_dims": [lambda xp, x: xp.permute_dims(x, (2, 0, 1)), T],
    "matrix_transpose": [lambda xp, x: xp.matrix_transpose(x), T],
    "moveaxis": [lambda xp, x: xp.moveaxis(x, 0, -1), T],
    "moveaxis two": [lambda xp, x: xp.moveaxis(x, (0, 2), (2, 1)), T],
    "rollaxis": [lambda xp, x: xp.rollaxis(x, 2, 1), T],
    "rollaxis end": [lambda xp, x: xp.rollaxis(x, 0, 3), T],
    "swapaxes": [lambda xp, x: xp.swapaxes(x, 0, -1), T],
    "expand_dims": [lambda xp, x: xp.expand_dims(x, (0, -1)), M],
    "squeeze": [lambda xp, x: xp.squeeze(x), ONE],
    "squeeze axis": [lambda xp, x: xp.squeeze(x, axis=(-1,)), ONE],
    "atleast_1d": [lambda xp, x: xp.atleast_1d(x), S],
    "atleast_2d": [lambda xp, x, y: xp.atleast_2d(x, y)[1], S, V],
    "atleast_3d": [lambda xp, x, y: sum(map(xp.sum, xp.atleast_3d(x, y))), V, M],
    "broadcast_to": [lambda xp, x: xp.broadcast_to(x, (2, 3, 4)), M],
    "broadcast_arrays": [lambda xp, x, y: xp.broadcast_arrays(x, y)[0], M, T],
    "concatenate": [lambda xp, x, y: xp.concatenate((x, y), axis=-1), M, M[:, :2]],
    "concatenate flat": [lambda xp, x, y: xp.concatenate([x, y], axis=None), M, T],
    "concatenate dtype": [lambda xp, x: xp.concatenate([x, [1, 2]], dtype=np.float64), V],
    "concat": [lambda xp, x: xp.concat([x, np.arange(3)]), V],
    "stack": [lambda xp, x, y: xp.stack([x, y, x * y], axis=1), M, 2 * M],
    "stack numbers": [lambda xp, x: xp.stack([x, 2.0, x * x]), S],
    "vstack": [lambda xp, x, y: xp.vstack([x, y]), M, M[0]],
    "hstack": [lambda xp, x, y: xp.hstack([x, y]), V, S],
    "hstack 2d": [lambda xp, x: xp.hstack([x, x]), M],
    "dstack": [lambda xp, x: xp.dstack([x, x * x]), M],
    "column_stack": [lambda xp, x, y: xp.column_stack([x, y]), M, M[:, 0]],
    "block": [lambda xp, x, y: xp.block([[x, x[:, :1]], [y, 1.0]]), M, M[0]],
    "block flat": [lambda xp, x: xp.block([x, 2.0, x]), V],
    "split": [lambda xp, x: xp.split(x, 2, axis=1)[1], M],
    "split at": [lambda xp, x: xp.concatenate(xp.split(x, [1, 3, 9])[1:]), V],
    "array_split": [lambda xp, x: xp.array_split(x, 3)[1], V],
    "hsplit": [lambda xp, x: xp.hsplit(x, 2)[0], V[:4]],
    "vsplit": [lambda xp, x: xp.vsplit(x, 3)[2], M],
    "dsplit": [lambda xp, x: xp.dsplit(x, 2)[1], T],
    "unstack": [lambda xp, x: xp.unstack(x, axis=1)[2], M],
    "tile": [lambda xp, x: xp.tile(x, (2, 1, 3)), M],
    "tile number": [lambda xp, x: xp.tile(x, 2), M],
    "tile once": [lambda xp, x: xp.tile(x, 1), M],
    "repeat": [lambda xp, x: xp.repeat(x, 3), M],
    "repeat axis": [lambda xp, x: xp.repeat(x, 2, axis=1), M],
    "repeat counts": [lambda xp, x: xp.repeat(x, [0, 2, 1], axis=0), M],
    "resize": [lambda xp, x: xp.resize(x, (2, 4)), V],
    "roll": [lambda xp, x: xp.roll(x, 2), M],
    "roll axis": [lambda xp, x: xp.roll(x, -1, axis=0), M],
    "roll axes": [lambda xp, x: xp.roll(x, (1, -2), axis=(0, 1)), M],
    "roll twice": [lambda xp, x: xp.roll(x, 7, axis=(1, 0)), M],
    "flip": [lambda xp, x: xp.flip(x), T],
    "flip axis": [lambda xp, x: xp.flip(x, (0, -1)), T],
    "fliplr": [lambda xp, x: xp.fliplr(x), M],
    "flipud": [lambda xp, x: xp.flipud(x), M],
    "rot90": [lambda xp, x: xp.concatenate([xp.rot90(x, k).ravel() for k in range(4)]), M],
    "rot90 axes": [lambda xp, x: xp.rot90(x, -1, axes=(2, 0)), T],
    "diagonal": [lambda xp, x: xp.diagonal(x), M],
    "diagonal offset": [lambda xp, x: xp.diagonal(x, -1), M],
    "diagonal axes": [lambda xp, x: xp.diagonal(x, 2, 0, 2), T],
    "diagonal outside": [lambda xp, x: xp.diagonal(x, 9), M],
    "diag": [lambda xp, x: xp.diag(x, 1), M],
    "diag of vector": [lambda xp, x: xp.diag(x, -2), V],
    "diagflat": [lambda xp, x: xp.diagflat(x, 1), M[:2, :2]],
    "trace": [lambda xp, x: xp.trace(x, 1), M],
    "trace axes": [lambda xp, x: xp.trace(x, axis1=2, axis2=1), T],
    "tril": [lambda xp, x: xp.tril(x, 1), T],
    "triu": [lambda xp, x: xp.triu(x, -1), M],
    "tril vector": [lambda xp, x: xp.tril(x), V],
    "delete": [lambda xp, x: xp.delete(x, 1, axis=1), M],
    "delete several": [lambda xp, x: xp.delete(x, [0, -1, 5]), M],
    "delete slice": [lambda xp, x: xp.delete(x, slice(None, None, 2), axis=0), M],
    "insert": [lambda xp, x, y: xp.insert(x, 1, y, axis=1), M, M[:, 0]],
    "insert block": [lambda xp, x, y: xp.insert(x, [1], y, axis=1), M, M[:, 1:3]],
    "insert several": [lambda xp, x, y: xp.insert(x, [3, 0, 3], y), V, V[:3]],
    "insert number": [lambda xp, x, y: xp.insert(x, 2, y), V, S],
    "insert many": [lambda xp, x, y: xp.insert(x, 2, y), V, V[:3]],
    "append": [lambda xp, x, y: xp.append(x, y), M, V],
    "append axis": [lambda xp, x, y: xp.append(x, y, axis=0), M, M[:1]],
    "apply_along_axis": [
        lambda xp, x: xp.apply_along_axis(lambda v: xp.outer(v, v[:2]) * v[0], 1, x), T,
    ],
    "apply_over_axes": [lambda xp, x: xp.apply_over_axes(xp.sum, x * x, (0, -1)), T],
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_equals_numpy_with_derivatives(name):
    function, *args = CASES[name]
    expected = function(np, *args)
    plain = function(wnp, *args)
    traced, _ = vjp(lambda *xs: function(wnp, *xs), *args)
    through_numpy, _ = vjp(lambda *xs: function(np, *xs), *args)
    for got in (plain, traced, through_numpy):
        np.testing.assert_array_equal(got, expected)
        assert got.dtype == expected.dtype
    check_grads(lambda *xs: function(wnp, *xs), args, order=1)


@pytest.mark.parametrize("name", CASES)
def test_vmap_equals_loop(name):
    function, *args = CASES[name]
    batches = [np.stack([a, 2 * a]) for a in args]
    got = vmap(lambda *xs: function(wnp, *xs))(*batches)
    expected = [function(np, *[b[k] for b in batches]) for k in range(2)]
    np.testing.assert_allclose(got, np.stack(expected), rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.complex64])
@pytest.mark.parametrize("name", ["block", "insert", "tril", "roll", "diag", "tile", "hstack"])
def test_keeps_other_dtypes(name, dtype):
    function, *args = CASES[name]
    args = [np.asarray(a * 3).astype(dtype) for a in args]
    expected = function(np, *args)
    got = vjp(lambda z, *xs: function(wnp, *xs), 1.0, *args)[0]
    np.testing.assert_array_equal(got, expected)
    assert got.dtype == expected.dtype


# ---------------------------------------------------------------- pad

WIDTHS = [1, (2, 1), ((0, 3), (2, 0)), ((7, 9), (11, 6))]
MODES = [
    ("constant", {}),
    ("constant", {"constant_values": 1.5}),
    ("constant", {"constant_values": ((1, 2), (3, 4))}),
    ("edge", {}),
    ("reflect", {}),
    ("reflect", {"reflect_type": "odd"}),
    ("symmetric", {}),
    ("symmetric", {"reflect_type": "odd"}),
    ("wrap", {}),
    ("linear_ramp", {}),
    ("linear_ramp", {"end_values": ((1.0, -2.0), (0.5, 3.0))}),
    ("maximum", {}),
    ("maximum", {"stat_length": 2}),
    ("mean", {}),
    ("mean", {"stat_length": ((1, 2), (3, 1))}),
    ("median", {"stat_length": 3}),
    ("median", {}),
    ("minimum", {"stat_length": (1, 2)}),
]


@pytest.mark.parametrize("mode, options", MODES, ids=str)
@pytest.mark.parametrize("width", WIDTHS, ids=str)
def test_pad(mode, options, width):
    expected = np.pad(M, width, mode, **options)
    value, _ = vjp(lambda x: wnp.pad(x, width, mode, **options), M)
    np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-12)
    check_grads(lambda x: wnp.pad(x, width, mode, **options), (M,), order=1)
    np.testing.assert_array_equal(wnp.pad(M, width, mode, **options), expected)


@pytest.mark.parametrize("mode, options", MODES[:1] + MODES[3:], ids=str)
def test_pad_integers(mode, options):
    numbers = np.array([[3, 1, 8], [2, 9, 4]])
    if mode == "linear_ramp":
        options = {}
    expected = np.pad(numbers, 2, mode, **options)
    value, _ = vjp(lambda z: wnp.pad(wnp.array(numbers), 2, mode, **options), 1.0)
    np.testing.assert_array_equal(value, expected)
    assert value.dtype == expected.dtype


def test_pad_float32_vectors_and_traced_values():
    x = V.astype(np.float32)
    for mode, options in [("linear_ramp", {"end_values": 2}), ("mean", {}), ("constant", {})]:
        got = vjp(lambda x, mode=mode, options=options: wnp.pad(x, 3, mode, **options), x)[0]
        np.testing.assert_allclose(got, np.pad(x, 3, mode, **options), rtol=1e-6)
        assert got.dtype == np.float32
    check_grads(lambda x, c: wnp.pad(x, 2, constant_values=c * c), (V, S))
    check_grads(lambda x, c: wnp.pad(x, (2, 1), "linear_ramp", end_values=c), (V, V[:2]))
    np.testing.assert_array_equal(
        vjp(lambda x: wnp.pad(x, {1: (1, 2)}, "edge"), M)[0], np.pad(M, ((0, 0), (1, 2)), "edge")
    )
    one = np.array([2.0])
    for mode in ("reflect", "symmetric"):
        got = vjp(lambda x, mode=mode: wnp.pad(x, 3, mode, reflect_type="odd"), one)[0]
        np.testing.assert_array_equal(got, np.pad(one, 3, mode, reflect_type="odd"))


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap"])
def test_narrow_pads_are_put_together_of_slices(mode):
    x = np.arange(40.0).reshape(5, 8)
    found = {node.op.name for node in wg.trace(lambda x: np.pad(x, 3, mode), x).operators}
    assert "gather" not in found
    wide = wg.trace(lambda x: np.pad(x, 40, "reflect"), x)
    assert "gather" in {node.op.name for node in wide.operators}


def test_pad_errors():
    def error(kind, match, *args, **kwargs):
        with pytest.raises(kind, match=match):
            vjp(lambda x: wnp.pad(x, *args, **kwargs), V)

    error(DTypeError, "a function as mode writes into plain arrays", 1, lambda *a: None)
    error(ValueError, "mode 'other' is not one of constant, edge", 1, "other")
    error(ValueError, "mode 'edge' takes no constant_values", 1, "edge", constant_values=1)
    error(ShapeError, "must not be negative", -1)
    error(ShapeError, r"got widths of shape \(3, 2\) for an array with 1 axes", ((1, 1),) * 3)
    error(DTypeError, "expected integers", 1.5)


# ---------------------------------------------------------------- properties, errors


def test_shape_functions():
    def f(x):
        assert np.shape(x) == wnp.shape(x) == (2, 3, 4)
        assert np.ndim(x) == wnp.ndim(x) == 3
        assert np.size(x) == wnp.size(x) == 24
        assert np.size(x, 1) == wnp.size(x, -2) == 3
        return wnp.sum(x)

    grad(f)(T)
    assert wnp.shape([[1, 2]]) == (1, 2)
    assert wnp.broadcast_shapes((2, 1), (3,)) == (2, 3)


def test_zero_size():
    empty = np.zeros((0, 3))
    for f in (
        lambda xp, x: xp.tile(x, (2, 2)),
        lambda xp, x: xp.concatenate([x, np.ones((1, 3))]),
        lambda xp, x: xp.roll(x, 1, axis=0),
        lambda xp, x: xp.reshape(x, (3, 0)),
        lambda xp, x: xp.pad(x, ((1, 0), (0, 0))),
        lambda xp, x: xp.diagonal(x),
    ):
        np.testing.assert_array_equal(vjp(lambda x, f=f: f(wnp, x), empty)[0], f(np, empty))


@pytest.mark.parametrize(
    "error, match, function",
    [
        (ShapeError, r"got an array of shape \(3, 4\) \(12 elements\) for the shape \(5, 2\)",
         lambda x: wnp.reshape(x, (5, 2))),
        (ShapeError, "must be a multiple of 5", lambda x: wnp.reshape(x, (5, -1))),
        (ShapeError, "Only one length may be -1", lambda x: wnp.reshape(x, (-1, -1))),
        (ShapeError, "squeeze .*: got axis 1 of length 4", lambda x: wnp.squeeze(x, 1)),
        (AxisError, "got axis 2 for an array with 2 axes", lambda x: wnp.swapaxes(x, 0, 2)),
        (AxisError, "Name each axis once", lambda x: wnp.transpose(x, (0, 0))),
        (AxisError, "got the same axis twice", lambda x: wnp.moveaxis(x, (0, 0), (0, 1))),
        (ShapeError, r"got arrays of shapes \(3, 4\) and \(4, 3\) for axis 0",
         lambda x: wnp.concatenate([x, x.T])),
        (ShapeError, "got a 0-d array", lambda x: wnp.concatenate([x[0, 0], x[0, 1]])),
        (ShapeError, r"stack .*got arrays of shapes \(3, 4\) and \(4, 3\)",
         lambda x: wnp.stack([x, x.T])),
        (ShapeError, "has no 3 equal parts", lambda x: wnp.split(x, 3, axis=1)),
        (ShapeError, r"got counts of shape \(2,\) for axis 0 of length 3",
         lambda x: wnp.repeat(x, [1, 2], axis=0)),
        (ShapeError, "got lists of different depths", lambda x: wnp.block([[x], x])),
        (ShapeError, "for the shape", lambda x: wnp.broadcast_to(x, (3, 5))),
        (ShapeError, "expected 3 or more axes", lambda x: wnp.dsplit(x, 2)),
    ],
)  # fmt: skip
def test_errors(error, match, function):
    with pytest.raises(error, match=match):
        vjp(function, M)


# ---------------------------------------------------------------- aliasing

SAME = {
    "astype": (float,), "broadcast_to": ((3, 3),), "delete": ([], 0), "expand_dims": (0,),
    "moveaxis": (0, 0), "pad": (0,), "repeat": (1,), "reshape": ((3, 3),), "resize": ((3, 3),),
    "roll": (0,), "split": (1,), "array_split": (1,), "swapaxes": (0, 1), "take": ([0, 1, 2], 0),
    "tile": (1,), "append": (np.zeros((0, 3)), 0), "concatenate": "list", "stack": "list",
    "vstack": "list", "block": "list", "insert": ([], 0.0, 0),
    **dict.fromkeys(
        ["asarray", "atleast_1d", "atleast_2d", "atleast_3d", "copy", "diagonal", "flip", "fliplr",
         "flipud", "matrix_transpose", "permute_dims", "ravel", "rot90", "squeeze", "transpose",
         "tril", "triu", "unstack", "meshgrid", "broadcast_arrays"], (),
    ),
    "rollaxis": (0,),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_shares_memory_where_numpy_does(name):
    square = RNG.normal(size=(3, 3))
    arguments = SAME[name]

    def call(xp, a):
        function = getattr(xp, name)
        found = function([a]) if arguments == "list" else function(a, *arguments)
        return found[0] if isinstance(found, (tuple, list)) else found

    theirs = call(np, square)

    def f(x):
        y = x * 1
        mine = call(wnp, y)
        before = wnp.sum(y)
        if theirs.flags.writeable:
            mine[...] = 0.0
            assert bool(wnp.sum(y) != before) == np.shares_memory(theirs, square)
        else:
            y[...] = 0.0
            assert bool(wnp.sum(abs(mine)) == 0) == np.shares_memory(theirs, square)
            with pytest.raises(ValueError, match="read-only"):
                mine[...] = 0.0
        return wnp.sum(x)

    grad(f)(square)


@pytest.mark.parametrize("number", [1.5, 2, True])
def test_a_number_among_arrays_promotes_them_as_in_numpy(number):
    def function(number, x):
        return wnp.stack([number, x]), wnp.concatenate([wnp.ravel(number), wnp.ravel(x)])

    x = np.float32(2.0)
    traced = wg.trace(function, number, x)
    for node, plain in zip(traced.outputs, function(number, x), strict=True):
        assert node.type.dtype == plain.dtype == np.stack([number, x]).dtype
