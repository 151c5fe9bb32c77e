"""``x[mask]`` where the mask is not known yet: the elements it selects, without their number.

Under `jit` and `vmap` a mask has no values, so how many elements it selects is unknown. What is
done to each element can still be written down for all, and an assignment through the same mask
takes those that it selects: ``x[x > 1] *= 2`` and ``x[m] = np.log(x[m])`` need no number. Nor do
sums, means and extremes: the others count as zeros, as infinities, or not at all.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from ..errors import AbstractValueError, DTypeError, explain
from ..graph import Node, Operator
from ..ops.elementwise import select
from ..ops.layout import convert, reshape
from ..ops.positions import provided
from ..types import Function, type_of
from .array import FUNCTIONS


def unknown_count() -> AbstractValueError:
    """The error for what needs the number of selected elements."""
    return AbstractValueError(
        explain(
            "index",
            "the number of elements a boolean mask selects is not known while tracing",
            "Use where(mask, x, 0), which keeps the shape; x[mask] can be changed element by "
            "element, summed up, and assigned through the same mask.",
        )
    )


class Selected:
    """The elements of an array that an abstract mask selects; `whole` has a value for each."""

    __slots__ = ("mask", "whole")
    __array_priority__ = 2000.0
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, mask: Any, whole: Any):
        self.mask = mask
        self.whole = whole

    @classmethod
    def of(cls, x: Any, mask: Any) -> Selected:
        """``x[mask]``; elsewhere stands 1, where almost every function has a value."""
        one = np.ones((), type_of(x).dtype)[()]
        return cls(mask, select(spread(mask, x), x, one))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs or ufunc.nout != 1 or ufunc.signature is not None:
            raise unknown_count()
        return self._each(ufunc, *inputs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        name = _SAME.get(func.__name__, func.__name__)
        if (
            name in _OF_ALL
            and args
            and args[0] is self
            and getattr(np, func.__name__, None) is func
        ):
            return getattr(self, name)(*args[1:], **kwargs)
        if func in (np.dot, np.inner, np.vdot) and not kwargs:
            return _product(*args)
        raise unknown_count()

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise unknown_count()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise unknown_count()

    def _each(self, function: Function, *args: Any) -> Selected:
        """The function of each element; other arguments are numbers, or of the same mask."""
        whole = [self._matching(arg) for arg in args]
        return Selected(self.mask, function(*whole))

    def astype(self, dtype: Any) -> Selected:
        """The elements in another dtype."""
        own = type_of(self.whole).dtype == np.dtype(dtype)
        return self if own else Selected(self.mask, convert(self.whole, dtype=np.dtype(dtype)))

    def _matching(self, arg: Any) -> Any:
        if isinstance(arg, Selected):
            if same(arg.mask, self.mask) and type_of(arg.whole).shape == type_of(self.whole).shape:
                return arg.whole
        elif self._fits_rows(type_of(arg).shape):
            return arg
        raise unknown_count()

    def _fits_rows(self, shape: tuple[int, ...]) -> bool:
        """Whether something of this shape has the same value for each selected row."""
        rest = type_of(self.whole).shape[len(type_of(self.mask).shape) :]
        ends = zip(shape[::-1], rest[::-1], strict=False)
        return len(shape) <= len(rest) and all(length in (1, own) for length, own in ends)

    # ------------------------------------------------------------ over all that are selected

    def _over(self, name: str, axis: Any, blank: Any) -> Any:
        """A reduction in which what is not selected counts as `blank`."""
        reduction, depth = FUNCTIONS[name], len(type_of(self.mask).shape)
        rank = len(type_of(self.whole).shape) - depth + 1
        if axis is not None and type(axis) is not int:
            raise unknown_count()
        axis = None if axis is None else normalize_axis_index(axis, rank)
        if axis:  # along a row
            return Selected(self.mask, reduction(self.whole, axis=axis + depth - 1))
        blank = np.asarray(blank, type_of(self.whole).dtype)[()]
        filled = select(spread(self.mask, self.whole), self.whole, blank)
        return reduction(filled, axis=None if axis is None else tuple(range(depth)))

    def _count(self, axis: Any) -> Any:
        """How many elements a reduction is over."""
        depth, shape = len(type_of(self.mask).shape), type_of(self.whole).shape
        rows = FUNCTIONS["sum"](self.mask)
        return rows * int(np.prod(shape[depth:])) if axis is None else rows

    @property
    def size(self) -> Any:
        """How many elements are selected."""
        return self._count(None)

    def sum(self, axis: Any = None) -> Any:
        """The sum."""
        return self._over("sum", axis, 0)

    def prod(self, axis: Any = None) -> Any:
        """The product."""
        return self._over("prod", axis, 1)

    def any(self, axis: Any = None) -> Any:
        """Whether any is true."""
        return self._over("any", axis, 0)

    def all(self, axis: Any = None) -> Any:
        """Whether all are true."""
        return self._over("all", axis, 1)

    def mean(self, axis: Any = None) -> Any:
        """The mean: of none there is none, as in NumPy."""
        total = self.sum(axis)
        if isinstance(total, Selected):
            return self._over("mean", axis, 0)
        dtype = type_of(total).dtype
        wanted = dtype if dtype.kind in "fc" else np.dtype(np.float64)
        return convert(total, dtype=wanted) / convert(self._count(axis), dtype=wanted)

    def var(self, axis: Any = None) -> Any:
        """The variance."""
        middle = self.mean(axis)
        if isinstance(middle, Selected) or type_of(self.whole).dtype.kind == "c":
            raise unknown_count()
        return ((self - middle) ** 2).mean(axis)

    def std(self, axis: Any = None) -> Any:
        """The standard deviation."""
        return np.sqrt(self.var(axis))

    def max(self, axis: Any = None) -> Any:
        """The largest."""
        return self._extreme("max", axis)

    def min(self, axis: Any = None) -> Any:
        """The smallest."""
        return self._extreme("min", axis)

    def _extreme(self, name: str, axis: Any) -> Any:
        dtype = type_of(self.whole).dtype
        if dtype.kind == "f":
            blank: Any = np.inf if name == "min" else -np.inf
        elif dtype.kind in "iu":
            blank = np.iinfo(dtype).max if name == "min" else np.iinfo(dtype).min
        else:
            raise unknown_count()
        found = self._over(name, axis, blank)
        if isinstance(found, Selected):
            return found
        return provided(
            found,
            FUNCTIONS["any"](self.mask),
            error="ShapeError",
            name=name,
            problem="the mask selects no elements, of which there is none",
            remedy="Ask np.any(mask) first.",
        )

    def __matmul__(self, other: Any) -> Any:
        """``x[mask] @ y[mask]``."""
        return _product(self, other)


_OF_ALL = frozenset("sum prod any all mean var std max min".split())
_SAME = {"amax": "max", "amin": "min"}


def _product(one: Any, other: Any) -> Any:
    """The sum of the products of numbers that the same mask selects."""
    ranks = [isinstance(x, Selected) and len(type_of(x.whole).shape) for x in (one, other)]
    if ranks != [1, 1]:
        raise unknown_count()
    return (one * other).sum()


def _unary(function: Function) -> Any:
    return lambda self: self._each(function, self)


def _binary(function: Function) -> Any:
    return lambda self, other: self._each(function, self, other)


def _swapped(function: Function) -> Any:
    return lambda self, other: self._each(function, other, self)


def _in_place(function: Function) -> Any:
    def method(self: Selected, other: Any) -> Selected:
        own, result = type_of(self.whole), self._each(function, self, other)
        found = type_of(result.whole)
        if not np.can_cast(found.dtype, own.dtype, "same_kind"):
            raise DTypeError(
                explain(
                    f"in-place {function.__name__}",
                    f"the result is {found}, the array it must fit into {own}",
                    "Convert the array with astype first.",
                )
            )
        return result.astype(own.dtype)

    return method


for _name in "add sub mul truediv floordiv mod pow and or xor lshift rshift".split():
    _function = getattr(operator, f"__{_name}__")
    setattr(Selected, f"__i{_name}__", _in_place(_function))
    setattr(Selected, f"__{_name}__", _binary(_function))
    setattr(Selected, f"__r{_name}__", _swapped(_function))
for _name in "lt le gt ge eq ne".split():
    setattr(Selected, f"__{_name}__", _binary(getattr(operator, f"__{_name}__")))
for _name in "neg pos abs invert".split():
    setattr(Selected, f"__{_name}__", _unary(getattr(operator, f"__{_name}__")))


def assigned(x: Any, mask: Any, value: Any) -> Any:
    """A copy of `x` with ``x[mask] = value`` done to it."""
    if isinstance(value, Selected):
        if not same(value.mask, mask) or type_of(value.whole).shape != type_of(x).shape:
            raise unknown_count()
        value = value.whole
    elif len(type_of(value).shape) > len(type_of(x).shape) - len(type_of(mask).shape):
        raise unknown_count()
    return select(spread(mask, x), value, x)


def spread(mask: Any, x: Any) -> Any:
    """The mask with an axis for each axis of `x`."""
    own = type_of(mask).shape
    missing = len(type_of(x).shape) - len(own)
    return reshape(mask, shape=own + (1,) * missing) if missing else mask


def same(one: Any, other: Any) -> bool:
    """Whether two masks were computed alike, from the same values."""
    pending = [(one.node, other.node)]
    seen = set()
    while pending:
        a, b = pending.pop()
        if a is b or (a.serial, b.serial) in seen or _same_number(a, b):
            continue
        seen.add((a.serial, b.serial))
        alike = isinstance(a, Operator) and isinstance(b, Operator) and a.op is b.op
        if not alike or a.params != b.params or len(a.inputs) != len(b.inputs):
            return False
        pending += zip(a.inputs, b.inputs, strict=True)
    return True


def _same_number(a: Node, b: Node) -> bool:
    plain = (bool, int, float, np.generic)
    return (
        isinstance(a.output, plain)
        and type(a.output) is type(b.output)
        and bool(a.output == b.output)
    )
