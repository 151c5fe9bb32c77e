"""`r_` and `c_`, which join what stands in brackets, and `vectorize`."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import AbstractValueError, ConversionError, ShapeError, explain
from ..ops.layout import broadcast_to, permute, reshape
from ..trace.lying import in_order
from ..trace.orders import UNKNOWN
from ..trace.tracer import concrete, current_trace
from ..transforms.batching import vmap_unconverted
from ..types import Function, type_of
from .common import as_value, cast, contains_traced, ndim, shape
from .creation import arange, array, linspace
from .joining import concatenate, stack

__all__ = ["c_", "r_", "vectorize"]


class Joined:
    """Arrays, numbers and ranges in brackets, joined along an axis, as NumPy's own does it."""

    def __init__(self, name: str, axis: int, ndmin: int, place: int):
        self.name, self.axis, self.ndmin, self.place = name, axis, ndmin, place

    def __getitem__(self, key: Any) -> Any:
        items = key if isinstance(key, tuple) else (key,)
        if not contains_traced([_bounds(item) for item in items]):
            return getattr(np, self.name)[key]
        axis, ndmin, place = self.axis, self.ndmin, self.place
        if isinstance(items[0], str):
            axis, ndmin, place = self._directive(items[0])
            items = items[1:]
        dtype = np.result_type(*[_promoted(item) for item in items])
        parts = [_with_axes(_values(item), ndmin, place) for item in items]
        return concatenate([cast(part, dtype) for part in parts], axis)

    def _directive(self, text: str) -> tuple[int, int, int]:
        """The axis, the least number of axes, and where those of a part go among them."""
        numbers = text.split(",")
        if len(numbers) > 3 or not all(re.fullmatch(r" *-?\d+ *", number) for number in numbers):
            raise ShapeError(
                explain(
                    self.name, f"got {text!r}", "Give numbers, as in '0,2'; matrices are not made."
                )
            )
        own = (self.axis, self.ndmin, self.place)
        axis, ndmin, place = (*map(int, numbers), *own[len(numbers) :])
        return axis, ndmin, place

    def __len__(self) -> int:
        return 0


def _bounds(item: Any) -> Any:
    return [item.start, item.stop, item.step] if isinstance(item, slice) else item


def _promoted(item: Any) -> Any:
    """What promotion goes by: a Python number takes on the dtype of arrays beside it."""
    if isinstance(item, slice):
        return type_of(_values(item)).dtype
    own = type_of(as_value(item))
    return own.dtype.type(0).item() if own.weak else own.dtype


def _values(item: Any) -> Any:
    if not isinstance(item, slice):
        return as_value(item)
    start, step = (0 if item.start is None else item.start), (1 if item.step is None else item.step)
    if isinstance(step, complex):  # that many points
        return linspace(start, item.stop, int(abs(step)))
    return arange(start, item.stop, step)


def _with_axes(x: Any, ndmin: int, place: int) -> Any:
    rank = ndim(x)
    if rank >= ndmin:
        return x
    missing = ndmin - rank
    start = place if place >= 0 else place + missing + 1
    axes = tuple(range(missing, ndmin))
    order = (*range(start), *axes, *range(start, missing))
    return permute(reshape(x, shape=(1,) * missing + shape(x)), axes=order)


r_ = Joined("r_", 0, 1, -1)
r_.__doc__ = """``numpy.r_``: arrays, numbers and ranges joined along the first axis.

>>> import numpy as np, wengert as wg, wengert.numpy as wnp
>>> wnp.r_[0.0, np.array([1.0, 2.0]), 3:5]
array([0., 1., 2., 3., 4.])
"""
c_ = Joined("c_", -1, 2, 0)
c_.__doc__ = """``numpy.c_``: arrays joined along the last axis, lines as columns.

>>> import numpy as np, wengert.numpy as wnp
>>> wnp.c_[np.array([1.0, 2.0]), np.array([3.0, 4.0])]
array([[1., 3.],
       [2., 4.]])
"""


# ---------------------------------------------------------------- vectorize


class vectorize:  # noqa: N801 - NumPy's name
    """``numpy.vectorize``: a function of numbers, or by a `signature` of arrays, made one of all.

    The function is traced once and mapped; where it looks at values, which are known outside `jit`,
    it is called for each element.

    >>> import numpy as np, wengert as wg, wengert.numpy as wnp
    >>> @wnp.vectorize
    ... def clipped(x, low):
    ...     return x if x > low else low
    >>> wg.grad(lambda x: np.sum(clipped(x, 0.5) ** 2))(np.array([0.25, 1.0, 2.0]))
    array([0., 2., 4.])
    """

    def __init__(
        self,
        pyfunc: Function | None = None,
        otypes: Any = None,
        doc: str | None = None,
        excluded: Any = None,
        cache: bool = False,
        signature: str | None = None,
    ):
        self.pyfunc, self.signature, self.excluded = pyfunc, signature, frozenset(excluded or ())
        self.otypes = otypes
        self.cache = cache
        if pyfunc is not None:
            functools.update_wrapper(self, pyfunc)
        if doc is not None:
            self.__doc__ = doc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results for all elements; without a function yet, one decorated by this."""
        options: dict[str, Any] = {"excluded": self.excluded, "signature": self.signature}
        if self.pyfunc is None:
            return vectorize(args[0], self.otypes, self.__doc__, cache=self.cache, **options)
        places: list[Any] = [k for k in range(len(args)) if k not in self.excluded]
        names = [name for name in kwargs if name not in self.excluded]
        varied = [as_value(args[k]) for k in places] + [as_value(kwargs[name]) for name in names]
        if not contains_traced(varied):
            plain = np.vectorize(self.pyfunc, self.otypes, cache=self.cache, **options)
            try:
                return plain(*args, **kwargs)
            except (AbstractValueError, ConversionError):  # the function holds traced values
                if current_trace() is None:
                    raise

        def of_varied(*values: Any) -> Any:
            filled, words = list(args), dict(kwargs)
            for place, value in zip([*places, *names], values, strict=True):
                (words if isinstance(place, str) else filled)[place] = value
            return self.pyfunc(*filled, **words)  # type: ignore[misc]

        found = self._mapped(of_varied, varied)
        if isinstance(found, tuple):
            return tuple(in_order(one, UNKNOWN) for one in found)
        return in_order(found, UNKNOWN)

    def _mapped(self, f: Function, values: Sequence[Any]) -> Any:
        cores = _cores(self.signature, len(values))
        shapes = [shape(x)[: ndim(x) - core] for x, core in zip(values, cores, strict=True)]
        outer = np.broadcast_shapes(*shapes)
        size = int(np.prod(outer))
        if size == 0:
            return self._empty(outer)
        lines = []
        for x, core in zip(values, cores, strict=True):
            inner = shape(x)[ndim(x) - core :]
            wide = broadcast_to(_aligned(x, len(outer), core), shape=outer + inner)
            lines.append(reshape(wide, shape=(size, *inner)))
        found = _each(f, lines, size)
        many = isinstance(found, tuple)
        results = [reshape(y, shape=outer + shape(y)[1:]) for y in (found if many else (found,))]
        if self.otypes is not None:
            results = [cast(y, t) for y, t in zip(results, list(self.otypes), strict=True)]
        return tuple(results) if many else results[0]

    def _empty(self, outer: tuple[int, ...]) -> Any:
        """What comes of no elements, which only the types tell."""
        if self.otypes is None or self.signature is not None:
            raise ShapeError(
                explain("vectorize", "got no elements", "Give at least one, or otypes.")
            )
        results = [np.empty(outer, dtype) for dtype in list(self.otypes)]
        return tuple(results) if len(results) > 1 else results[0]


def _cores(signature: str | None, count: int) -> list[int]:
    """How many axes of each argument belong to one call."""
    if signature is None:
        return [0] * count
    groups = re.findall(r"\(([^()]*)\)", signature.partition("->")[0])
    if len(groups) != count:
        raise ShapeError(
            explain("vectorize", f"got {count} arrays for the signature {signature!r}")
        )
    return [len([name for name in group.split(",") if name.strip()]) for group in groups]


def _aligned(x: Any, outer: int, core: int) -> Any:
    own = shape(x)
    missing = outer + core - len(own)
    return x if missing <= 0 else reshape(x, shape=(1,) * missing + own)


def _each(f: Function, lines: Sequence[Any], size: int) -> Any:
    try:
        return vmap_unconverted(f)(*lines)
    except AbstractValueError:
        if any(concrete(line) is None for line in lines):
            raise
    found = [f(*[line[k] for line in lines]) for k in range(size)]
    if not isinstance(found[0], tuple):
        return stack([array(one) for one in found])
    return tuple(stack([array(one) for one in part]) for part in zip(*found, strict=True))
