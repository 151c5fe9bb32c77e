"""Slices whose length changes from turn to turn, in a loop that is traced once: ``x[i:]``.

What is taken is the whole array with an *extent*: which of its rows count in each turn. Arithmetic
goes on with all rows, sums and extremes count those of the extent alone, and a write changes them
alone. The bounds must be known for every turn, so that it is known too that shapes fit; of a mask
that is not, such as ``x[x > 0]``, sums can be taken. Whatever else is done ends the attempt.

Rows that do not count may hold anything. Nothing of it gets into results, nor into derivatives: a
cotangent of zero stays zero whatever it is multiplied by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ops.op import Traced
from ..types import type_of
from .all_turns import Loops, in_all_turns, loops_and_pairs
from .known_slices import KnownSlice, RowSpan, slice_in_all_turns
from .pieces import Abandon, TracedPiece
from .values import is_abstract

# Flags of all turns that are looked at, to know that some are set in each.
_MOST_FLAGS = 10_000_000


class Unequal(Abandon):
    """Ends an attempt: something that changes its length meets an array that does not yet."""


# ---------------------------------------------------------------- what is known for all turns


class RowChoice:
    """Rows that a mask chooses, one that is traced."""

    def __init__(self, loop: Loops, mask: Any):
        self.mask, self.loop = mask, loop

    def is_same(self, other: Any) -> bool:
        """Whether another extent is of the same rows in every turn."""
        return isinstance(other, RowChoice) and self.mask.node is other.mask.node

    def never_empty(self) -> bool:
        """Whether there are rows in every turn, as far as that is known."""
        if len(self.loop.rows) * type_of(self.mask).size > _MOST_FLAGS:
            return False
        known = in_all_turns(self.mask, self.loop)
        return known is not None and bool(known.any(axis=1).all())

    def count(self) -> Any:
        """The number of rows in this turn."""
        return np.sum(self.mask)

    def flags(self, length: int) -> Any:
        """Which of the rows count."""
        return self.mask


# ---------------------------------------------------------------- taking and writing


def taken(array: Any, key: Any) -> Any:
    """A part of an array, of which a turn tells how long it is."""
    if isinstance(key, Ragged):
        if not key._places or type_of(array).shape[:1] != type_of(key._values).shape:
            raise Abandon
        return Ragged(array, key._extent)
    before, bounds, after = _apart(array, key)
    part = array[(*before, slice(None), *after)]
    length = type_of(part).shape[0]
    if not isinstance(bounds, slice):
        return Ragged(part, _choice(bounds, length))
    known = _known_slice(bounds, length)
    found = Ragged(known.rows_of(part), known.extent)
    found._home = array, key  # a view in NumPy; what masks choose is a copy
    return found


def put(array: Any, key: Any, value: Any) -> None:
    """Write to such a part."""
    home = value._home if isinstance(value, Ragged) else None
    if home is not None and home[0] is array and home[1] is key:
        return  # it was changed in place
    before, bounds, after = _apart(array, key)
    place = (*before, slice(None), *after)
    old = array[place]
    length = type_of(old).shape[0]
    if isinstance(bounds, slice):
        known = _known_slice(bounds, length)
        new = Ragged(known.rows_of(old), known.extent)._operand(value)
        array[place] = known.with_rows(old, new)
        return
    target = Ragged(old, _choice(bounds, length))
    new = target._operand(value)
    flags = target._flags()
    array[place] = new if flags is None else np.where(flags, new, old)


def _apart(array: Any, key: Any) -> tuple[tuple[Any, ...], Any, tuple[Any, ...]]:
    """A key as what stands before the bounds that are traced, these, and what stands after."""
    keys = key if type(key) is tuple else (key,)
    ragged = [number for number, one in enumerate(keys) if is_ragged(one)]
    if len(ragged) != 1 or not all(map(_is_plain, (*keys[: ragged[0]], *keys[ragged[0] + 1 :]))):
        raise Abandon
    before, after = keys[: ragged[0]], keys[ragged[0] + 1 :]
    if any(isinstance(one, slice) or one is None for one in before):
        raise Abandon  # rows are along the first axis that is left
    if any(isinstance(one, slice) and one != slice(None) for one in after) or None in after:
        raise Abandon
    bounds = keys[ragged[0]]
    return before, bounds, after


def is_ragged(key: Any) -> bool:
    """Whether a key is a slice with traced bounds, or a mask that is traced, or its places."""
    if isinstance(key, Ragged):
        return True
    if isinstance(key, slice):
        return any(map(is_abstract, (key.start, key.stop, key.step)))
    return is_abstract(key) and type_of(key).dtype.kind == "b" and len(type_of(key).shape) == 1


def _is_plain(key: Any) -> bool:
    if isinstance(key, Traced):
        return type_of(key).shape == () and type_of(key).dtype.kind in "iu"
    return isinstance(key, slice) or (isinstance(key, (int, np.integer)) and key is not True)


def _choice(mask: Any, length: int) -> RowChoice:
    loop = next(loops_and_pairs(), None)
    if loop is None or type_of(mask).shape != (length,):
        raise Abandon
    return RowChoice(loop, mask)


def _known_slice(bounds: slice, length: int) -> KnownSlice:
    for loop in loops_and_pairs():
        found = slice_in_all_turns(bounds, length, loop)
        if found is not None:
            return found
    raise Abandon


def places_of_mask(mask: Any) -> tuple[Ragged]:
    """``np.nonzero(mask)``."""
    (length,) = type_of(mask).shape
    return (Ragged(np.arange(length), _choice(mask, length), places=True),)


def arange(*args: Any) -> Any:
    """``np.arange`` of integers that are traced."""
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    for loop in loops_and_pairs():
        known = [in_all_turns(bound, loop) for bound in (start, stop, step)]
        if any(one is None or one.dtype.kind not in "iu" or one.ndim != 1 for one in known):
            continue
        first, last, by = known
        assert first is not None and last is not None and by is not None
        if not (by == by[0]).all() or not by[0]:
            break
        counts = np.maximum(-((first - last) // by), 0)
        values = start + int(by[0]) * np.arange(int(counts.max()))
        return Ragged(values, RowSpan(loop, np.zeros_like(counts), counts))
    raise Abandon


# ---------------------------------------------------------------- an array that loses rows


class Shrinking:
    """A variable that has fewer rows after each turn, by the same number: carried as it was."""

    def __init__(self, rows: int, lost: int):
        self.rows, self.lost = rows, lost

    def enter(self, values: Any, loop: TracedPiece) -> Ragged:
        """What stands for it in a turn."""
        return Ragged(values, self._extent(loop, 0))

    def left(self, values: Any, found: Any, loop: TracedPiece) -> Any:
        """What a turn leaves of it, with as many rows as before."""
        if not isinstance(found, Ragged):
            raise Abandon
        after = Ragged(values, self._extent(loop, 1))
        return after._operand(found)

    def last(self, values: Any, turns: int) -> Any:
        """What is left after all turns."""
        return values[: self.rows - self.lost * turns]

    def _extent(self, loop: TracedPiece, turn: int) -> RowSpan:
        counts = self.rows - self.lost * (np.arange(len(loop.rows)) + turn)
        return RowSpan(loop, np.zeros_like(counts), counts)


def shrinking(before: Any, after: Any, turns: int) -> Shrinking | None:
    """Whether something can be carried so, given what it is before a turn and after it."""
    if not (isinstance(before, Traced) and isinstance(after, Traced)):
        return None
    own, found = type_of(before), type_of(after)
    if not own.shape or not found.shape or own.shape[1:] != found.shape[1:]:
        return None
    lost = own.shape[0] - found.shape[0]
    if lost <= 0 or lost * turns > own.shape[0]:
        return None
    return Shrinking(own.shape[0], lost)


# ---------------------------------------------------------------- the values


class Ragged:
    """An array of which some rows count, others in each turn."""

    is_stand_in = True  # whose methods have no effects outside of the turn

    def __init__(self, values: Any, extent: Any, places: bool = False):
        self._values, self._extent = values, extent
        self._places = places  # whether it is the places of the rows themselves
        self._home: tuple[Any, Any] | None = None  # the array that it is a view of, and its key
        self._is_shared = False  # whether there are views of it, or it is one

    # Shapes

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(type_of(self._values).shape)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the elements."""
        found: np.dtype = type_of(self._values).dtype
        return found

    @property
    def size(self) -> Any:
        """The number of elements."""
        if self.ndim != 1:
            raise Abandon
        return self._extent.count()

    @property
    def T(self) -> Any:
        """The rows as columns."""
        from .columns import Columns

        if self.ndim == 1:
            return self
        if self.ndim > 2:
            raise Abandon
        self._is_shared = True
        return Columns(self)

    def copy(self) -> Ragged:
        """One that does not follow the array that this is a view of."""
        return Ragged(self._values.copy(), self._extent)

    def _flags(self) -> Any:
        """Which elements count, along all axes; None: all of them."""
        shape = type_of(self._values).shape
        found = self._extent.flags(shape[0])
        return found if found is None else found.reshape(shape[0], *[1] * (len(shape) - 1))

    def _filled(self, blank: Any) -> Any:
        """The values, with something else in the rows that do not count."""
        flags = self._flags()
        return self._values if flags is None else np.where(flags, self._values, blank)

    def _along(self, other: Ragged) -> Any:
        """The values of another one, each in the row of this one that it belongs to."""
        own, length = type_of(other._values), type_of(self._values).shape[0]
        here, there = self._extent, other._extent
        if here.is_same(there):
            values = other._values
        elif isinstance(here, RowSpan) and isinstance(there, RowSpan) and here.loop is there.loop:
            if not np.array_equal(here.highs - here.lows, there.highs - there.lows):
                raise Abandon
            away = there.lows - here.lows
            if (away == away[0]).all():
                values = _moved(other._values, int(away[0]), length)
            else:
                places = np.clip(np.arange(length) + here.number(away), 0, own.shape[0] - 1)
                return other._values[places]
        else:
            raise Abandon
        return _moved(values, 0, length)

    def _operand(self, other: Any) -> Any:
        """What is combined with the values, element by element."""
        if isinstance(other, Ragged):
            if other.ndim != self.ndim:
                raise Abandon
            return self._along(other)
        shape = type_of(other).shape
        if len(shape) > self.ndim:
            raise Abandon
        if len(shape) == self.ndim and shape[0] != 1:
            raise Unequal
        return other

    # Element by element

    def _elementwise(self, function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
        parts = [self._operand(one) for one in inputs]
        result = function(*parts)
        if (
            isinstance(result, tuple)
            or type_of(result).shape[:1] != type_of(self._values).shape[:1]
        ):
            raise Abandon
        made = Ragged(result, self._extent)
        for one in inputs:
            if isinstance(one, Ragged) and one._values is result:
                one._is_shared = made._is_shared = True
        return made

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs:
            raise Abandon
        if ufunc is np.matmul:
            return _product(*inputs)
        first = next(one for one in inputs if isinstance(one, Ragged))
        return first._elementwise(ufunc, inputs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        name = func.__name__
        if func in (np.dot, np.inner, np.vdot) and not kwargs:
            return _product(*args)
        if func in (np.where, np.clip, np.round, np.copy, np.real) and not kwargs:
            first = next((one for one in args if isinstance(one, Ragged)), None)
            if first is not None and (func is not np.where or len(args) == 3):
                return first._elementwise(func, args)
        if func is np.transpose and len(args) == 1 and not kwargs:
            return self.T
        if name in _REDUCTIONS and args and args[0] is self and getattr(np, name, None) is func:
            return getattr(self, {"amax": "max", "amin": "min"}.get(name, name))(
                *args[1:], **kwargs
            )
        if func is np.linalg.norm and len(args) == 1 and not kwargs and self.ndim == 1:
            return np.linalg.norm(self._filled(0))
        raise Abandon

    # Over rows

    def _reduced(self, function: Any, axis: Any, blank: Any, some: bool) -> Any:
        """A reduction; `some`: of no elements there is none."""
        if axis is None or axis == 0 or axis == -self.ndim:
            if some and not self._extent.never_empty():
                raise Abandon
            return function(self._filled(blank), axis=axis)
        if type(axis) is not int or not -self.ndim < axis < self.ndim:
            raise Abandon
        return Ragged(function(self._values, axis=axis), self._extent)

    def sum(self, axis: Any = None) -> Any:
        """The sum."""
        return self._reduced(np.sum, axis, 0, False)

    def prod(self, axis: Any = None) -> Any:
        """The product."""
        return self._reduced(np.prod, axis, 1, False)

    def max(self, axis: Any = None) -> Any:
        """The largest."""
        return self._reduced(np.max, axis, self._end(-np.inf), True)

    def min(self, axis: Any = None) -> Any:
        """The smallest."""
        return self._reduced(np.min, axis, self._end(np.inf), True)

    def any(self, axis: Any = None) -> Any:
        """Whether any is true."""
        return self._reduced(np.any, axis, False, False)

    def all(self, axis: Any = None) -> Any:
        """Whether all are true."""
        return self._reduced(np.all, axis, True, False)

    def mean(self, axis: Any = None) -> Any:
        """The mean."""
        if axis not in (None, 0) or (axis is None and self.ndim > 1) or self.dtype.kind != "f":
            raise Abandon
        return self._reduced(np.sum, axis, 0, True) / self._extent.count()

    def var(self, axis: Any = None, *, ddof: float = 0) -> Any:
        """The variance."""
        away = self - self.mean(axis)
        return (away * away)._reduced(np.sum, axis, 0, True) / (self._extent.count() - ddof)

    def std(self, axis: Any = None, *, ddof: float = 0) -> Any:
        """The standard deviation."""
        return np.sqrt(self.var(axis, ddof=ddof))

    def argmax(self, axis: Any = None) -> Any:
        """The place of the largest."""
        if self.ndim != 1 or not isinstance(self._extent, RowSpan) or axis not in (None, 0):
            raise Abandon
        found = self._reduced(np.argmax, 0, self._end(-np.inf), True)
        return found - self._extent.number(self._extent.lows)

    def _end(self, infinity: float) -> Any:
        if self.dtype.kind == "f":
            return infinity
        if self.dtype.kind not in "iu":
            raise Abandon
        limits = np.iinfo(self.dtype)
        return int(limits.min if infinity < 0 else limits.max)

    def sum_of_products(self, other: Ragged) -> Any:
        """The rows of this one times those of another, added up: ``self.T @ other``."""
        return self._filled(0).T @ Ragged(self._along(other), self._extent)._filled(0)

    # Parts

    def __getitem__(self, key: Any) -> Any:
        first, rest = (key[0], key[1:]) if type(key) is tuple else (key, ())
        if not all(one is None or one == slice(None) or type(one) is int for one in rest):
            raise Abandon
        found = self if first == slice(None) else self._rows(first)
        if found is self and not rest:
            return found
        # an element of a line is no view of it
        self._is_shared |= isinstance(found, Ragged) or self.ndim > 1
        if isinstance(found, Ragged):
            part = found._values[(slice(None), *rest)] if rest else found._values
            found = Ragged(part, found._extent)
            found._is_shared = True
            return found
        return found[rest] if rest else found

    def __setitem__(self, key: Any, value: Any) -> None:
        if type(key) is not int or self._is_shared:
            raise Abandon  # others would have to see this
        self._values = self._values.copy()
        self._values[self._row(key)] = value
        if self._home is not None:
            put(*self._home, Ragged(self._values, self._extent))

    def _row(self, key: int) -> Any:
        """Where a row stands that is there in every turn."""
        extent = self._extent
        if not isinstance(extent, RowSpan):
            raise Abandon
        lows, highs = extent.lows, extent.highs
        place = lows + key if key >= 0 else highs + key
        if not ((lows <= place) & (place < highs)).all():
            raise Abandon
        return extent.number(place)

    def _rows(self, key: Any) -> Any:
        if type(key) is int:
            return self._values[self._row(key)]
        extent = self._extent
        if not isinstance(extent, RowSpan):
            raise Abandon
        lows, highs = extent.lows, extent.highs
        if key == slice(None, None, -1):
            length = type_of(self._values).shape[0]
            return Ragged(self._values[::-1], RowSpan(extent.loop, length - highs, length - lows))
        if not isinstance(key, slice) or key.step not in (None, 1):
            raise Abandon
        start = _within(key.start, lows, extent)
        stop = _within(key.stop, highs, extent)
        return Ragged(self._values, RowSpan(extent.loop, start, np.maximum(start, stop)))

    def __getattr__(self, name: str) -> Any:
        raise Abandon

    def _refuse(self, *args: Any) -> Any:
        raise Abandon

    __len__ = __iter__ = __bool__ = __contains__ = __array__ = _refuse
    __float__ = __int__ = __index__ = _refuse
    __hash__ = object.__hash__


_REDUCTIONS = frozenset("sum prod max min amax amin any all mean var std argmax".split())


def _within(bound: Any, default: np.ndarray, extent: RowSpan) -> np.ndarray:
    if bound is None:
        return default
    known = in_all_turns(bound, extent.loop)
    if known is None or known.ndim != 1 or known.dtype.kind not in "iu":
        raise Abandon
    first = np.where(known >= 0, extent.lows, extent.highs)
    found: np.ndarray = np.clip(first + known, extent.lows, extent.highs)
    return found


def _moved(values: Any, away: int, length: int) -> Any:
    """So many rows, each the one that stood `away` places behind it; beyond the ends anything."""
    own = type_of(values)
    count = own.shape[0]
    first, last = max(away, 0), min(count, away + length)
    if (first, last) == (0, length) and count == length:
        return values
    blank = [np.zeros((rows, *own.shape[1:]), own.dtype) for rows in (first - away, length)]
    missing = length - (first - away) - (last - first)
    parts = [blank[0], values[first:last], blank[1][:missing]]
    return np.concatenate([part for part in parts if type_of(part).shape[0]])


def _product(x: Any, y: Any) -> Any:
    """``x @ y``."""
    if isinstance(x, Ragged) and isinstance(y, Ragged) and x.ndim == 1:
        return x.sum_of_products(y)
    if isinstance(x, Ragged) and not isinstance(y, Ragged) and x.ndim == 2:
        return Ragged(x._values @ y, x._extent)
    raise Abandon


def _operator(ufunc: np.ufunc, swapped: bool = False) -> Any:
    def method(self: Ragged, other: Any) -> Any:
        pair = (other, self) if swapped else (self, other)
        return self.__array_ufunc__(ufunc, "__call__", *pair)

    return method


def _sign(ufunc: np.ufunc) -> Any:
    return lambda self: self.__array_ufunc__(ufunc, "__call__", self)


def _in_place(ufunc: np.ufunc) -> Any:
    def method(self: Ragged, other: Any) -> Any:
        result = self.__array_ufunc__(ufunc, "__call__", self, other)
        if not isinstance(result, Ragged) or result.dtype != self.dtype:
            raise Abandon
        if self._home is not None:
            put(*self._home, result)
        elif self._is_shared:
            raise Abandon  # the others would have to see this
        else:
            self._values = result._values
        return self

    return method


_ARITHMETIC = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.true_divide,
    "pow": np.power,
    "matmul": np.matmul,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
}
_COMPARISONS = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
_SIGNS = {"neg": np.negative, "abs": np.absolute, "pos": np.positive}


def add_operators(kind: type, in_place: Callable[[np.ufunc], Any]) -> None:
    """Python's operators for a class that has NumPy's functions."""
    for name, ufunc in (_ARITHMETIC | _COMPARISONS).items():
        setattr(kind, f"__{name}__", _operator(ufunc))
    for name, ufunc in _ARITHMETIC.items():
        setattr(kind, f"__r{name}__", _operator(ufunc, swapped=True))
        setattr(kind, f"__i{name}__", in_place(ufunc))
    for name, ufunc in _SIGNS.items():
        setattr(kind, f"__{name}__", _sign(ufunc))


add_operators(Ragged, _in_place)
