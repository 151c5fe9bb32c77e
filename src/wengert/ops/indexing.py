"""Reading and writing parts of arrays.

Basic indexing (integers, slices, new axes) is static: `index` with a normal form of the key, its
transpose `embed`, and `index_set`. Indexing with integer arrays is `gather`: the indexed axes
come out first. Its transpose is `scatter_add`. Negative and out-of-range indices are resolved or
refused before or by NumPy; nothing is clamped.

The normal form of a key has one item for each axis of the array, plus the new axes:
an ``int``, a ``(start, stop, step)`` with the values Python's ``slice.indices`` gives (a `stop`
of -1 with a negative step means: through element 0), or None for a new axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ..errors import DTypeError, OutOfRangeError, explain
from ..functions import Cost
from ..loops import (
    BOOL,
    INDEX,
    Accumulate,
    Affine,
    Apply,
    Buffer,
    Choose,
    Expr,
    Index,
    InRange,
    Literal,
    LoadAt,
    Operand,
    Pointwise,
    Scatter,
    cast,
)
from ..types import ArrayType, Function, type_of
from .elementwise import over, scale, select
from .families import broadcast_shapes
from .layout import broadcast_to, convert, fit, permute, reshape, resize_shape
from .logic import equal
from .op import Op

Key = tuple[Any, ...]


def python_key(key: Key) -> tuple[Any, ...]:
    """The key as Python would write it."""
    return tuple([_python_item(item) for item in key])


def _python_item(item: Any) -> Any:
    if not isinstance(item, tuple):
        return item
    start, stop, step = item
    return slice(start, None if stop < 0 else stop, step)


def key_shape(shape: Sequence[int], key: Key) -> tuple[int, ...]:
    """The shape of ``x[key]``."""
    result = []
    for item in key:
        if item is None:
            result.append(1)
        elif isinstance(item, tuple):
            result.append(len(range(*item)))
    return tuple(result)


_ALL_OF: Callable[[int], tuple[int, int, int]] = lambda length: (0, length, 1)


def _source_index(at: Index, key: Key) -> list[Affine]:
    """Where the element `at` of x[key] comes from in x."""
    places = iter(at)
    source = []
    for item in key:
        if isinstance(item, tuple):
            source.append(next(places) * item[2] + item[0])
        elif item is None:
            next(places)
        else:
            source.append(Affine(item))
    return source


def is_whole(key: Key, shape: Sequence[int]) -> bool:
    """Whether the key names all of an array, so that a write leaves nothing of what it was."""
    return tuple(key) == tuple(map(_ALL_OF, shape))


def _dense(key: Key) -> bool:
    """Whether the key selects whole ranges, so that what lies outside is outside of bounds."""
    return all(not isinstance(item, tuple) or item[2] == 1 for item in key)


def _within(at: Index, key: Key, inside: Callable[[list[Affine]], Expr], outside: Expr) -> Expr:
    """`inside` at the place in x[key] that `at` of x has, where the key reaches; else `outside`."""
    tests, places = [], []
    axes = iter(at)
    for item in key:
        if item is None:
            places.append(Affine(0))
            continue
        place = next(axes)
        start, stop = (item[0], item[1]) if isinstance(item, tuple) else (item, item + 1)
        tests.append(InRange(place, start, stop))
        if isinstance(item, tuple):
            places.append(place + -start)
    if any(test.decided() is False for test in tests):
        return outside
    value = inside(places)
    for test in reversed(tests):
        value = Choose(test, value, outside, outside.dtype)
    return value


def _embed_loops(at: Index, x: Operand, key: Key, shape: tuple[int, ...]) -> Expr:
    return _within(at, key, x, Literal(x.type.dtype.type(0), x.type.dtype))


def _index_set_loops(at: Index, x: Operand, y: Operand, key: Key) -> Expr:
    dtype = x.type.dtype
    return _within(at, key, lambda places: cast(y.broadcast(tuple(places)), dtype), x(at))


# What a key with steps leaves out lies between: the elements are put where they go instead.
_strided_embed_loops = Accumulate(
    lambda at, key, shape: _source_index(at, key), lambda x, **params: range(x.ndim)
)


_strided_set_loops = Scatter(
    None,
    lambda at, out, x, y, key: (out.flat(tuple(_source_index(at, key))), ()),
    lambda x, y, key: key_shape(x.shape, key),
)


def _batched_key(size: int, key: Key) -> Key:
    return (_ALL_OF(size), *key)


def _whole_along(key: Key, place: int, length: int) -> Key:
    return (*key[:place], _ALL_OF(length), *key[place + 1 :])


def _resize_index(axis: int, length: int, key: Key) -> dict[str, Any]:
    kept = [place for place, item in enumerate(key) if item is None or isinstance(item, tuple)]
    return {"key": _whole_along(key, kept[axis], length)}


def _resize_target(axis: int, length: int, key: Key, **shape: Any) -> dict[str, Any]:
    """Of an operation whose result has the axes that the key indexes."""
    indexed = [place for place, item in enumerate(key) if item is not None]
    resized = resize_shape(axis, length, **shape) if shape else {}
    return {"key": _whole_along(key, indexed[axis], length), **resized}


index: Op = Op(
    "index",
    lambda x, key: np.asarray(x)[python_key(key)],
    lambda x, key: ArrayType(x.dtype, key_shape(x.shape, key)),
    linear=(0,),
    transpose=(lambda g, x, key: embed(g, key=key, shape=x.shape),),
    batch=lambda size, flags, x, key: index(x, key=_batched_key(size, key)),
    loops=Pointwise(lambda at, x, key: x(_source_index(at, key)), free=True),
    cost=Cost.QUICK,
    resize=_resize_index,
    write_back=lambda base, new, key: index_set(base, new, key=key),
    samples=lambda rng: [
        ((rng.normal(size=(4, 3)),), {"key": ((1, 3, 1), 2)}),
        ((rng.normal(size=(4, 3)),), {"key": ((3, -1, -2), None, (0, 3, 1))}),
        ((rng.normal(size=(4,)),), {"key": (2,)}),
        ((rng.normal(size=(4,)),), {"key": ((2, 2, 1),)}),
    ],
)


def _embed(x: Any, key: Key, shape: tuple[int, ...]) -> Any:
    result = np.zeros(shape, np.asarray(x).dtype)
    result[python_key(key)] = x
    return result


# Zeros with `x` at the place that the key names.
embed: Op = Op(
    "embed",
    _embed,
    lambda x, key, shape: ArrayType(x.dtype, shape),
    linear=(0,),
    transpose=(lambda g, x, key, shape: index(g, key=key),),
    batch=lambda size, flags, x, key, shape: embed(
        x, key=_batched_key(size, key), shape=(size, *shape)
    ),
    loops=lambda key, shape: (
        Pointwise(_embed_loops, free=True, chooses=True) if _dense(key) else _strided_embed_loops
    ),
    resize=_resize_target,
    samples=lambda rng: [
        ((rng.normal(size=(2,)),), {"key": ((1, 3, 1), 2), "shape": (4, 3)}),
        ((rng.normal(size=(2, 1, 3)),), {"key": ((3, -1, -2), None, (0, 3, 1)), "shape": (4, 3)}),
        ((rng.normal(size=()),), {"key": (2,), "shape": (4,)}),
    ],
)


def _zero_like(x: Any) -> Any:
    """A zero of the dtype of x, to broadcast."""
    return np.zeros((), type_of(x).dtype)[()]


def _index_set(x: Any, y: Any, key: Key) -> Any:
    result = np.array(x)
    result[python_key(key)] = y
    return result


def _index_set_type(x: ArrayType, y: ArrayType, key: Key) -> ArrayType:
    target = ArrayType(x.dtype, key_shape(x.shape, key))
    if broadcast_shapes("index_set", (target, y)) != target.shape:
        raise OutOfRangeError(
            explain("index_set", f"cannot put an array of shape {y.shape} into {target.shape}")
        )
    return x


def _index_set_jvp(tangents: Any, ans: Any, x: Any, y: Any, key: Key) -> Any:
    tx, ty = tangents
    if is_whole(key, type_of(x).shape):
        tx = None
    if tx is ty is None:
        return None
    if tx is None:
        tx = np.zeros(type_of(x).shape, type_of(x).dtype)
    return index_set(tx, _zero_like(x) if ty is None else fit_dtype(ty, x), key=key)


def fit_dtype(t: Any, x: Any) -> Any:
    """The tangent `t` in the dtype of `x`."""
    return fit(t, ArrayType(type_of(x).dtype, type_of(t).shape))


def _batch_index_set(size: int, flags: Sequence[bool], x: Any, y: Any, key: Key) -> Any:
    x = x if flags[0] else _repeat(x, size)
    if flags[1]:
        rank = len(key_shape(type_of(x).shape[1:], key))
        own = type_of(y).shape
        y = reshape(y, shape=(size, *(1,) * (rank + 1 - len(own)), *own[1:]))
    return index_set(x, y, key=_batched_key(size, key))


def _repeat(x: Any, size: int) -> Any:
    return broadcast_to(x, shape=(size, *type_of(x).shape))


# A copy of `x` with `y` at the place that the key names.
index_set: Op = Op(
    "index_set",
    _index_set,
    _index_set_type,
    jvp=_index_set_jvp,
    transpose=(
        lambda g, x, y, key: index_set(g, _zero_like(g), key=key),
        lambda g, x, y, key: index(g, key=key),
    ),
    batch=_batch_index_set,
    loops=lambda key: (
        Pointwise(_index_set_loops, free=True, chooses=True, write=_strided_set_loops)
        if _dense(key)
        else _strided_set_loops
    ),
    takes=lambda x, y, key: (None, x.dtype),
    resize=_resize_target,
    samples=lambda rng: [
        ((rng.normal(size=(4, 3)), rng.normal(size=(2,))), {"key": ((1, 3, 1), 2)}),
        ((rng.normal(size=(4, 3)), rng.normal(size=(3,))), {"key": ((3, -1, -2), (0, 3, 1))}),
        ((rng.normal(size=(4,)), rng.normal(size=())), {"key": (2,)}),
        ((rng.normal(size=(4, 3)), rng.normal(size=(3,))), {"key": ((0, 4, 1), (0, 3, 1))}),
    ],
)


# ---------------------------------------------------------------- integer arrays


def check_indices(name: str, indices: Sequence[Any], lengths: Sequence[int]) -> None:
    """Raise for an index outside its axis, naming the index and the length."""
    for values, length in zip(indices, lengths, strict=True):
        values = np.asarray(values)
        wrong = (values < -length) | (values >= length)
        if wrong.any():
            bad = int(values[wrong].flat[0]) if values.ndim else int(values)
            raise OutOfRangeError(
                explain(
                    name,
                    f"got the index {bad} for an axis of length {length}",
                    f"Valid indices are {-length} to {length - 1}.",
                )
            )


def _front(x: Any, axes: tuple[int, ...]) -> np.ndarray:
    return np.moveaxis(np.asarray(x), axes, range(len(axes)))


def _gather(x: Any, *indices: Any, axes: tuple[int, ...], **known: bool) -> Any:
    check_indices("gather", indices, [np.shape(x)[axis] for axis in axes])
    return _front(x, axes)[tuple(indices)]


def _rest(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(length for axis, length in enumerate(shape) if axis not in axes)


def _check_integer(name: str, indices: Sequence[ArrayType]) -> None:
    for position, given in enumerate(indices):
        if given.dtype.kind not in "iu":
            raise DTypeError(
                explain(
                    name,
                    f"index {position} is {given}, expected integers",
                    "Convert it with astype(int), or use a boolean mask.",
                )
            )


def _gather_type(
    x: ArrayType, *indices: ArrayType, axes: tuple[int, ...], **known: bool
) -> ArrayType:
    _check_integer("gather", indices)
    shape = broadcast_shapes("gather", indices)
    return ArrayType(x.dtype, shape + _rest(x.shape, axes))


def _batch_indices(
    size: int, flags: Sequence[bool], indices: Sequence[Any], with_iota: bool
) -> list[Any]:
    """Index arrays with the batch axis first; an iota selects the sample when x is batched too."""
    ranks = [len(type_of(i).shape) - flag for i, flag in zip(indices, flags, strict=True)]
    rank = max(ranks)
    aligned = []
    for values, flag, own in zip(indices, flags, ranks, strict=True):
        shape = type_of(values).shape
        if flag and own < rank:
            values = reshape(values, shape=(size, *(1,) * (rank - own), *shape[1:]))
        aligned.append(values)
    if with_iota:
        aligned.insert(0, np.arange(size).reshape((size,) + (1,) * rank))
    return aligned


def _batch_gather(
    size: int, flags: Sequence[bool], x: Any, *indices: Any, axes: tuple[int, ...], **known: bool
) -> Any:
    if not any(flags[1:]):
        result = gather(x, *indices, axes=tuple(axis + 1 for axis in axes), **known)
        position = len(np.broadcast_shapes(*[type_of(i).shape for i in indices]))
        rank = len(type_of(result).shape)
        order = (position, *[axis for axis in range(rank) if axis != position])
        return permute(result, axes=order)
    aligned = _batch_indices(size, flags[1:], indices, with_iota=flags[0])
    if flags[0]:
        axes = (0, *[axis + 1 for axis in axes])
    return gather(x, *aligned, axes=axes, **known)


def _any_place(value: Expr, length: int) -> tuple[Expr, Affine]:
    """A place as an expression, and how far ahead of it loops move it: a negative index counted
    from the front; an impossible one moved to a place that exists."""
    zero = Literal(INDEX.type(0), INDEX)
    shifted = Apply("add", (value, Literal(INDEX.type(length), INDEX)), INDEX)
    value = Apply("where", (Apply("less", (value, zero), BOOL), shifted, value), INDEX)
    return _held(value, 0, max(length - 1, 0)), Affine(0)


def _known_place(value: Expr, length: int) -> tuple[Expr, Affine]:
    """The same of a place that is known to exist. It is held to the range in which it then lies:
    no mistake elsewhere shall touch other memory."""
    from ..loops.places import row_at

    row = row_at(value)
    if row is None or row.bounds[1] - row.bounds[0] >= length:
        return _held(value, 0, max(length - 1, 0)), Affine(0)
    least, most = row.bounds
    return _held(row.start, -least, length - 1 - most), row.ahead


def _held(value: Expr, low: int, high: int) -> Expr:
    """The integer, or the nearest one from `low` to `high`."""
    least, most = Literal(INDEX.type(low), INDEX), Literal(INDEX.type(high), INDEX)
    return Apply("minimum", (Apply("maximum", (value, least), INDEX), most), INDEX)


def stretch_of(places: np.ndarray, length: int) -> tuple[int, int, int] | None:
    """Places that lie at equal distances, as the bounds of a slice."""
    if len(places) < 2 or places.min() < 0 or places.max() >= length:
        return None
    step = int(places[1] - places[0])
    if step == 0 or not np.array_equal(places, places[0] + step * np.arange(len(places))):
        return None
    return int(places[0]), int(places[-1]) + (1 if step > 0 else -1), step


def counting_axis(constant: Any, length: int) -> int | None:
    """The axis along which constant indices count 0, 1, 2, ...: each element its own place.

    >>> counting_axis(np.arange(3)[:, None], 3)
    0
    """
    if constant is None or not 1 < np.size(constant) <= length:
        return None
    shape = np.shape(constant)
    axis = next((axis for axis, n in enumerate(shape) if n == np.size(constant)), None)
    if axis is None or not np.array_equal(np.ravel(constant), np.arange(shape[axis])):
        return None
    return axis


def _picks(
    at: Index, x: Buffer, indices: Sequence[Operand], axes: Sequence[int], inside: bool = False
) -> tuple[Affine, tuple[tuple[Expr, int], ...]]:
    """Where the element `at` of gather(x, *indices) is in x."""
    rank = max(len(i.type.shape) for i in indices)
    picks = []
    place = Affine(0)
    for values, axis in zip(indices, axes, strict=True):
        value = cast(values.broadcast(at[:rank]), INDEX)
        counting = counting_axis(values.constant, x.shape[axis])
        if counting is not None:
            place = place + at[rank - len(values.type.shape) + counting] * x.strides[axis]
            continue
        pick, ahead = (_known_place if inside else _any_place)(value, x.shape[axis])
        place = place + ahead * x.strides[axis]
        picks.append((pick, x.strides[axis]))
    rest = [axis for axis in range(len(x.shape)) if axis not in axes]
    for position, axis in zip(at[rank:], rest, strict=True):
        place = place + position * x.strides[axis]
    return place, tuple(picks)


def _gather_loops(
    at: Index, x: Operand, *indices: Operand, axes: tuple[int, ...], inside: bool = False
) -> Expr:
    buffer = x.memory()
    place, picks = _picks(at, buffer, indices, axes, inside)
    return LoadAt(buffer, place, picks)


def _indices_in_range(
    at: Index, shape: Sequence[int], indices: Sequence[Operand], axes: Sequence[int]
) -> Expr:
    rank = max(len(i.type.shape) for i in indices)
    result: Expr = Literal(BOOL.type(True), BOOL)
    for values, axis in zip(indices, axes, strict=True):
        if counting_axis(values.constant, shape[axis]) is not None:
            continue
        value = cast(values.broadcast(at[:rank]), INDEX)
        # an unsigned index that 64 bits with a sign do not hold has become negative
        lowest = 0 if values.type.dtype.kind == "u" else -shape[axis]
        low = Literal(INDEX.type(lowest), INDEX)
        high = Literal(INDEX.type(shape[axis]), INDEX)
        above = Apply("greater_equal", (value, low), BOOL)
        below = Apply("less", (value, high), BOOL)
        inside = Apply("logical_and", (above, below), BOOL)
        result = Apply("logical_and", (result, inside), BOOL)
    return result


def scatter_loops(combine: str | None) -> Scatter:
    """The loops of a scatter: for each element of `y`, its place in `x`."""

    def shape(
        x: ArrayType, y: ArrayType, *indices: ArrayType, axes: tuple[int, ...], **known: bool
    ) -> Any:
        return np.broadcast_shapes(*[i.shape for i in indices]) + _rest(x.shape, axes)

    def place(
        at: Index,
        out: Buffer,
        x: Operand,
        y: Operand,
        *indices: Operand,
        axes: tuple[int, ...],
        **known: bool,
    ) -> Any:
        return _picks(at, out, indices, axes, known.get("inside", False))

    def check(
        at: Index, x: Operand, y: Operand, *indices: Operand, axes: tuple[int, ...], **known: bool
    ) -> Expr:
        return _indices_in_range(at, x.type.shape, indices, axes)

    return Scatter(combine, place, shape, check)


# The elements of `x` at the places that the indices name. With `inside=True` these are known to be
# places, counted from the front, and nobody looks.
gather: Op = Op(
    "gather",
    _gather,
    _gather_type,
    linear=(0,),
    transpose=lambda g, position, x, *indices, **params: scatter_add(
        np.zeros(x.shape, x.dtype), g, *indices, **params
    ),
    batch=_batch_gather,
    loops=Pointwise(
        _gather_loops,
        free=True,
        whole=(0,),
        check=lambda at, x, *indices, axes, **known: _indices_in_range(
            at, x.type.shape, indices, axes
        ),
    ),
    samples=lambda rng: [
        ((rng.normal(size=(4, 3)), np.array([0, 2, 2, -1])), {"axes": (0,)}),
        ((rng.normal(size=(4, 3)), np.array([[0], [2]]), np.array([1, 1])), {"axes": (0, 1)}),
        ((rng.normal(size=(4, 3, 2)), np.array([0, 1])), {"axes": (1,)}),
        ((rng.normal(size=(4,)), np.array([], dtype=int)), {"axes": (0,)}),
    ],
)


def _scatter(write: Function) -> Function:
    def evaluate(x: Any, y: Any, *indices: Any, axes: tuple[int, ...], **known: bool) -> Any:
        check_indices("scatter", indices, [np.shape(x)[axis] for axis in axes])
        result = np.array(x)
        write(_front(result, axes), tuple(indices), y)
        return result

    return evaluate


def _scatter_type(
    x: ArrayType, y: ArrayType, *indices: ArrayType, axes: tuple[int, ...], **known: bool
) -> ArrayType:
    _check_integer("scatter", indices)
    shape = broadcast_shapes("scatter", indices) + _rest(x.shape, axes)
    broadcast_shapes("scatter", (ArrayType(x.dtype, shape), y))
    return ArrayType(x.dtype, x.shape)


def _scatter_takes(x: ArrayType, y: ArrayType, *indices: ArrayType, **params: Any) -> Any:
    return None, x.dtype, *[None] * len(indices)


def batch_scatter(op_of: Callable[[], Op]) -> Function:
    """Batching of scatters: everything gets the batch axis, an iota selects the sample."""

    def rule(
        size: int,
        flags: Sequence[bool],
        x: Any,
        y: Any,
        *indices: Any,
        axes: tuple[int, ...],
        **known: bool,
    ) -> Any:
        x = x if flags[0] else _repeat(x, size)
        shapes = [type_of(i).shape[flag:] for i, flag in zip(indices, flags[2:], strict=True)]
        target = np.broadcast_shapes(*shapes) + _rest(type_of(x).shape[1:], axes)
        if flags[1]:
            own = type_of(y).shape
            y = reshape(y, shape=(size, *(1,) * (len(target) + 1 - len(own)), *own[1:]))
        y = broadcast_to(y, shape=(size, *target))
        aligned = _batch_indices(size, flags[2:], indices, with_iota=True)
        if op_of() is scatter_set and _is_one_place(indices, flags[2:]):
            known["apart"] = True  # each sample has a place of its own
        return op_of()(x, y, *aligned, axes=(0, *[axis + 1 for axis in axes]), **known)

    return rule


def _scatter_jvp(op_of: Callable[[], Op]) -> Function:
    def rule(tangents: Any, ans: Any, x: Any, y: Any, *indices: Any, **params: Any) -> Any:
        tx, ty = tangents[:2]
        if tx is None:
            tx = np.zeros(type_of(x).shape, type_of(x).dtype)
        ty = _zero_like(x) if ty is None else fit_dtype(ty, x)
        return op_of()(tx, ty, *indices, **params)

    return rule


def scatter_samples(rng: np.random.Generator) -> Any:
    """Arguments for the scatters: distinct places, repeated places, several axes."""
    x = rng.normal(size=(4, 3))
    yield (x, rng.normal(size=(2, 3)), np.array([0, 2])), {"axes": (0,)}
    yield (x, rng.normal(size=(3, 3)), np.array([1, -3, 0])), {"axes": (0,)}
    yield (x, rng.normal(size=(2,)), np.array([0, 2]), np.array([1, 1])), {"axes": (0, 1)}
    yield (x, rng.normal(size=(2, 4)), np.array([0, 2])), {"axes": (1,)}


def _scatter_add_transpose(
    g: Any, position: int, x: Any, y: Any, *indices: Any, **params: Any
) -> Any:
    return g if position == 0 else gather(g, *indices, **params)


scatter_add: Op = Op(
    "scatter_add",
    _scatter(lambda target, key, y: np.add.at(target, key, y)),
    _scatter_type,
    jvp=_scatter_jvp(lambda: scatter_add),
    transpose=_scatter_add_transpose,
    batch=batch_scatter(lambda: scatter_add),
    loops=scatter_loops("add"),
    takes=_scatter_takes,
    samples=scatter_samples,
)


def winners(x_shape: tuple[int, ...], y_shape: tuple[int, ...], indices: Any, axes: Any) -> Any:
    """Which elements of `y` remain visible after a scatter: the last writer of each place."""
    numbers = np.arange(int(np.prod(y_shape))).reshape(y_shape)
    written = scatter_set(np.zeros(x_shape, numbers.dtype), numbers, *indices, axes=axes)
    return equal(gather(written, *indices, axes=axes), numbers)


def _is_one_place(indices: Sequence[Any], flags: Sequence[bool]) -> bool:
    """Whether indices, of which some are batches, name one place in each sample."""
    shapes = [type_of(i).shape[flag:] for i, flag in zip(indices, flags, strict=True)]
    return prod(np.broadcast_shapes(*shapes)) == 1


def _scatter_set_transpose(
    g: Any, position: int, x: Any, y: Any, *indices: Any, axes: tuple[int, ...], **known: bool
) -> Any:
    if position == 0:
        known = {**known, "cleared": True}
        return scatter_set(g, _zero_like(g), *indices, axes=axes, **known)
    taken = gather(g, *indices, axes=axes)
    if known.get("apart") or _is_one_place(indices, [False] * len(indices)):
        return taken
    return select(winners(type_of(g).shape, type_of(taken).shape, indices, axes), taken, 0.0)


# A copy of `x` with the elements of `y` at the places that the indices name. Of those at one place
# the last one remains; with `apart=True` there is only one at each. With `cleared=True` this is a
# cotangent, of which a part was taken away, and zeros are in its place.
scatter_set: Op = Op(
    "scatter_set",
    _scatter(lambda target, key, y: target.__setitem__(key, y)),
    _scatter_type,
    jvp=_scatter_jvp(lambda: scatter_set),
    transpose=_scatter_set_transpose,
    batch=batch_scatter(lambda: scatter_set),
    loops=scatter_loops(None),
    takes=_scatter_takes,
    samples=lambda rng: [
        *scatter_samples(rng),
        ((rng.normal(size=(4, 3)), rng.normal(size=()), np.array(2)), {"axes": (1,)}),
        (
            (rng.normal(size=(4, 3)), rng.normal(size=(2,)), np.array([0, 2]), np.array([1, 1])),
            {"axes": (0, 1), "apart": True},
        ),
    ],
)


def _shares(ans: Any, x: Any, y: Any, indices: Sequence[Any], axes: tuple[int, ...]) -> Any:
    """How much of each extreme value follows `x` and how much each element of `y`.

    All that reach the extreme value of a place share it equally.
    """
    dtype = type_of(ans).dtype
    hit_x = convert(equal(x, ans), dtype=dtype)
    hit_y = convert(equal(y, gather(ans, *indices, axes=axes)), dtype=dtype)
    count = scatter_add(hit_x, hit_y, *indices, axes=axes)
    return over(hit_x, count), over(hit_y, gather(count, *indices, axes=axes))


def _scatter_extreme_jvp(
    tangents: Any, ans: Any, x: Any, y: Any, *indices: Any, axes: tuple[int, ...]
) -> Any:
    tx, ty = tangents[:2]
    share_x, share_y = _shares(ans, x, y, indices, axes)
    kept = np.zeros(type_of(x).shape, type_of(x).dtype) if tx is None else scale(tx, share_x)
    if ty is None:
        return kept
    return scatter_add(kept, scale(fit_dtype(ty, x), share_y), *indices, axes=axes)


def _extreme_samples(rng: np.random.Generator) -> Any:
    """The scatter samples with values far from ties, where differences would not be defined."""
    for (x, y, *indices), params in scatter_samples(rng):
        values = rng.permutation(x.size + y.size) * 0.25 - 2.0
        yield (
            (values[: x.size].reshape(x.shape), values[x.size :].reshape(y.shape), *indices),
            params,
        )


def _scatter_extreme(name: str, ufunc: np.ufunc) -> Op:
    op = Op(
        name,
        _scatter(ufunc.at),
        _scatter_type,
        jvp=_scatter_extreme_jvp,
        batch=batch_scatter(lambda: op),
        loops=scatter_loops(ufunc.__name__),
        takes=_scatter_takes,
        samples=_extreme_samples,
        absent={"transpose": "it is not linear in any argument"},
    )
    return op


# A copy of `x` in which each place holds the largest (smallest) of its old value and of the
# elements of `y` sent there.
scatter_max = _scatter_extreme("scatter_max", np.maximum)
scatter_min = _scatter_extreme("scatter_min", np.minimum)
