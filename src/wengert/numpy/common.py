"""What the functions of the namespace share: taking arguments in, naming axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from ..errors import AbstractValueError, AxisError, DTypeError, ShapeError, explain
from ..graph import Operator
from ..ops.indexing import index
from ..ops.layout import as_dtype, reshape
from ..ops.op import Traced
from ..trace.tracer import Tracer, concrete
from ..types import Function, check_class, type_of

Made = TypeVar("Made", bound=Function)

_PLAIN = (np.ndarray, np.generic, bool, int, float, complex)


def as_value(x: Any) -> Any:
    """An array, a number or a traced value; lists become arrays, also lists of traced values."""
    if type(x) is np.ndarray or isinstance(x, Traced):
        return x
    if isinstance(x, _PLAIN):
        if isinstance(x, np.ndarray):
            check_class(x, "asarray")
        return x
    if isinstance(x, (list, tuple)) and contains_traced(x):
        return _stack([as_value(item) for item in x])
    array = np.asarray(x)
    if array.dtype.kind not in "biufc":
        raise DTypeError(
            explain("asarray", f"got {x!r}, expected numbers", "Give arrays, lists or numbers.")
        )
    return array


def contains_traced(x: Any) -> bool:
    """Whether a (nested) list or tuple holds a traced value."""
    if isinstance(x, (list, tuple)):
        return any(contains_traced(item) for item in x)
    return isinstance(x, Traced)


def _stack(items: Sequence[Any]) -> Any:
    from ..ops.structure import concatenate

    # an array of numbers is one of 64 bits where a Python number is among them, as in NumPy
    dtype = np.result_type(*[type_of(item).dtype for item in items])
    shapes = {type_of(item).shape for item in items}
    if len(shapes) > 1:
        raise ShapeError(
            explain(
                "asarray",
                f"got a list of values of shapes {', '.join(map(str, sorted(shapes)))}",
                "The items of a list must have one shape.",
            )
        )
    return concatenate(*[as_dtype(rows, dtype) for rows in stretches(items)], axis=0)


def stretches(items: Sequence[Any]) -> list[Any]:
    """Arrays that joined along their first axis are these items stacked.

    Items that are rows of one array, one after the other, are a slice of it; if they are all of its
    rows, and it is a row itself as others are, these are joined in the same way.
    """
    found: list[Any] = []
    whole: list[Any] = []  # arrays of which all rows are items, and that are rows themselves
    for first, count, step in _runs(items):
        row = _row(first) if count > 1 else None
        if row is None:
            found += [*_unfolded(whole), reshape(first, shape=(1, *type_of(first).shape))]
            whole = []
            continue
        source = first._trace.wrap(row[0])
        if step == 1 and count == source.type.shape[0] and _row(source) is not None:
            whole.append(source)
            continue
        end = row[1] + step * (count - 1) + (1 if step > 0 else -1)
        key = ((row[1], end, step), *[(0, n, 1) for n in source.type.shape[1:]])
        found += [*_unfolded(whole), index(source, key=key)]
        whole = []
    return [*found, *_unfolded(whole)]


def _unfolded(rows: list[Any]) -> list[Any]:
    """Arrays that joined are some others joined."""
    if len(rows) < 2:
        return rows
    parts = stretches(rows)
    shapes = [part.type.shape for part in parts]
    return [
        reshape(part, shape=(first * second, *rest))
        for part, (first, second, *rest) in zip(parts, shapes, strict=True)
    ]


def _runs(items: Sequence[Any]) -> Iterator[tuple[Any, int, int]]:
    """The first of items that are rows of one array at equal distances, their number, and these."""
    start = 0
    while start < len(items):
        stop, step = start + 1, 0
        first = _row(items[start])
        while first is not None and stop < len(items):
            following = _row(items[stop])
            if following is None or following[0] is not first[0]:
                break
            distance = following[1] - first[1]
            step = step or distance
            if not step or distance != step * (stop - start):
                break
            stop += 1
        yield items[start], stop - start, step
        start = stop


def _row(item: Any) -> tuple[Any, int] | None:
    """The node of an array and a place, if a traced value is what is there along its first axis."""
    node = item.node if type(item) is Tracer else None
    if not isinstance(node, Operator) or node.op is not index:
        return None
    (source,), (place, *rest) = node.inputs, node.params["key"]
    whole = [(0, length, 1) for length in source.type.shape[1:]]
    return (source, place) if type(place) is int and rest == whole else None


def known_values(
    name: str, a: Any, instead: str = "or use where() with a mask, which keeps the shape"
) -> np.ndarray:
    """The plain array behind a value; an error that says why where there is none."""
    value = concrete(as_value(a))
    if value is None:
        raise AbstractValueError(
            explain(
                name,
                f"the shape of the result depends on values, and those of {type_of(a)} are not "
                "known while the function is traced by jit or vmap",
                f"Call it outside, {instead}.",
            )
        )
    return np.asarray(value)


def strong(x: Any) -> Any:
    """`x` in the dtype that ``np.asarray`` gives it: a Python number is one of 64 bits."""
    return cast(x, type_of(x).dtype)


def named_dtype(dtype: Any) -> np.dtype:
    """The dtype that the argument `dtype` names, which must be one of numbers.

    NumPy's classes of dtypes count: ``np.dtype(np.dtypes.Float64DType)`` alone is that of objects.
    """
    is_class = isinstance(dtype, type) and issubclass(dtype, np.dtype)
    found: np.dtype = np.dtype(dtype() if is_class else dtype)
    if found.kind not in "biufc":
        raise DTypeError(
            explain(
                "dtype",
                f"got {found}, in which a traced value would lose its derivative",
                "Give a dtype of numbers or bool.",
            )
        )
    return found


def cast(x: Any, dtype: Any) -> Any:
    """`x` in another dtype; unchanged when it has it or when dtype is None."""
    return x if dtype is None else as_dtype(x, named_dtype(dtype))


def as_factors(*factors: Any) -> list[Any]:
    """Factors of a product as values; of a Python number NumPy makes an array of 64 bits.

    So the product of a short array and 300 is right, and that of float32 and 0.5 is float64.
    """
    return [strong(as_value(x)) for x in factors]


def shape(x: Any) -> tuple[int, ...]:
    """The shape of an array, a number or a traced value."""
    own: tuple[int, ...] = type_of(x).shape
    return own


def ndim(x: Any) -> int:
    """The number of axes."""
    return x.ndim if type(x) is np.ndarray else len(type_of(x).shape)


def normal_axis(name: str, axis: Any, rank: int) -> int:
    """An axis counted from the front, or a clear error."""
    number: int = axis.__index__()
    if not -rank <= number < rank:
        raise AxisError(
            explain(
                name,
                f"got axis {number} for an array with {rank} axes",
                f"Valid axes are {-rank} to {rank - 1}." if rank else "A scalar has no axes.",
            )
        )
    return number % rank


def normal_axes(name: str, axis: Any, rank: int) -> tuple[int, ...]:
    """Axes as a sorted tuple: None means all."""
    if axis is None:
        return tuple(range(rank))
    given = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(normal_axis(name, item, rank) for item in given)
    if len(set(axes)) != len(axes):
        raise AxisError(explain(name, f"got the same axis twice in {given}"))
    return tuple(sorted(axes))


def named(function: Made, name: str, about: str) -> Made:
    """A function that was made for a row of a table, with the name and the docstring of its own."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = about
    return function
