"""What is called in place of Python's own functions, where a value is traced and has no number yet.

``float(x)``, ``math.sin(x)`` and ``round(x)`` ask for a number that there is not; in a converted
function they are operations, whose results are Python numbers: they do not promote arrays.
``max``, ``min``, ``sorted``, ``any``, ``all`` and ``sum`` of traced items compare and add up
arrays of them. Where all numbers are known, Python's own function is called.

Outside of a function's domain there is a NaN or an infinity, as in NumPy, and no `ValueError`.
"""

from __future__ import annotations

import bisect
import builtins
import heapq
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..ops import elementwise as ew
from ..ops import logic
from ..ops.layout import convert, reshape
from ..trace.array import Array
from ..types import type_of, weaken
from .alike import written
from .branches import truth
from .conversion import local
from .growing import Growing
from .lists import one_of, total
from .values import is_abstract, is_number

_FLOAT, _INTEGER = np.dtype(np.float64), np.dtype(np.int64)
_PYTHON = {"i": _INTEGER, "u": _INTEGER, "f": _FLOAT, "c": np.dtype(np.complex128)}
# Items that are compared one by one; of more an array is made first.
_FEW = 8


def python_number(x: Any, dtype: np.dtype) -> Any:
    """A traced number as Python's own number, which promotes no array."""
    return weaken(convert(reshape(x, shape=()), dtype=dtype))


def _is_one(x: Any, kinds: str) -> bool:
    own = type_of(x)
    return own.size == 1 and own.dtype.kind in kinds and own.dtype != np.uint64  # too wide


def _conversion(plain: Any, kinds: str, dtype: np.dtype, of: Callable[[Any], Any]) -> Any:
    """``int(x)`` and its like, also of a number that is not known yet."""

    def function(*args: Any, **kwargs: Any) -> Any:
        if len(args) != 1 or kwargs or not is_abstract(args[0]) or not _is_one(args[0], kinds):
            return plain(*args, **kwargs)  # or the error for it
        return python_number(of(args[0]), dtype)

    return function


def _truth(*args: Any) -> Any:
    """``bool(x)``."""
    return truth(args[0], "bool()") if len(args) == 1 and is_abstract(args[0]) else bool(*args)


def _rounded(number: Any, ndigits: Any = None) -> Any:
    """``round(x)``: an integer; with digits, a number of the same kind."""
    if not is_abstract(number) or not _is_one(number, "iuf"):
        return builtins.round(number, ndigits)
    if ndigits is None:
        return python_number(logic.rint(number), _INTEGER)
    from ..numpy import round as rounded

    return rounded(number, ndigits)


def _scalar(kind: type[np.generic]) -> Any:
    """``np.float64(x)`` and its like."""

    def function(*args: Any, **kwargs: Any) -> Any:
        if len(args) != 1 or kwargs or not is_abstract(args[0]):
            return kind(*args, **kwargs)
        from ..numpy import astype

        return astype(args[0], np.dtype(kind))

    return function


def _item(x: Any, *index: Any) -> Any:
    """``x.item()``."""
    if not is_abstract(x):
        return Array.item(x, *index)
    own = type_of(x)
    if not index and own.size != 1:
        raise ValueError("can only convert an array of size 1 to a Python scalar")
    if len(index) == 1:
        x, index = (x, index[0]) if isinstance(index[0], tuple) else (x.ravel(), index)
    return _of_its_kind(x[index] if index else x)


def _to_list(x: Any) -> Any:
    """``x.tolist()``."""
    if not is_abstract(x):
        return Array.tolist(x)
    own = type_of(x)
    if own.dtype.kind != "b":  # an array of its own, whose elements nobody else has
        x = ew.positive(convert(x, dtype=_PYTHON[own.dtype.kind]))
    flat = reshape(x, shape=(own.size,))
    numbers = map(weaken, (flat[k] for k in range(own.size)))

    def nested(shape: tuple[int, ...]) -> Any:
        return [nested(shape[1:]) for _ in range(shape[0])] if shape else next(numbers)

    return nested(own.shape)


def _of_its_kind(x: Any) -> Any:
    """A traced number as the Python number of its kind."""
    kind = type_of(x).dtype.kind
    return reshape(x, shape=()) if kind == "b" else python_number(x, _PYTHON[kind])


# ---------------------------------------------------------------- the module `math`


def _of_numbers(name: str, plain: Any, kind: np.dtype) -> Any:
    """A function of Python's `math` by NumPy's name for it, in double precision."""

    def function(*args: Any, **kwargs: Any) -> Any:
        if kwargs or not any(map(is_abstract, args)) or not all(_is_one(a, "biuf") for a in args):
            return plain(*args, **kwargs)
        from .. import numpy as wnp

        found = getattr(wnp, name)(*[_double(arg) for arg in args])
        return found if type_of(found).dtype.kind == "b" else python_number(found, kind)

    return function


def _double(x: Any) -> Any:
    return python_number(x, _FLOAT) if is_abstract(x) else x


def _logarithm(*args: Any) -> Any:
    """``math.log(x)`` and ``math.log(x, base)``."""
    if len(args) == 2 and any(map(is_abstract, args)):
        return _logarithm(args[0]) / _logarithm(args[1])
    return _MATH_LOG(*args)


def _hypotenuse(*args: Any) -> Any:
    """``math.hypot`` of any number of coordinates."""
    if not any(map(is_abstract, args)):
        return math.hypot(*args)
    found = ew.absolute(_double(args[0]))
    for arg in args[1:]:
        found = ew.hypot(found, _double(arg))
    return python_number(found, _FLOAT)


def _distance(p: Any, q: Any, /) -> Any:
    """``math.dist``."""
    first, second = list(p), list(q)
    if len(first) != len(second) or not any(map(is_abstract, [*first, *second])):
        return math.dist(first, second)
    return _hypotenuse(*[_double(a) - _double(b) for a, b in zip(first, second, strict=True)])


def _added(items: Iterable[Any], /) -> Any:
    """``math.fsum``."""
    found = list(items)
    if not any(map(is_abstract, found)):
        return math.fsum(found)
    return total([_double(item) for item in found], 0.0)


def _multiplied(items: Iterable[Any], /, *, start: Any = 1) -> Any:
    """``math.prod``."""
    found = start
    for item in items:
        found = found * item
    return found


_MATH_LOG = _of_numbers("log", math.log, _FLOAT)
_NAMES = (
    "acos acosh asin asinh atan atan2 atanh cbrt copysign cos cosh degrees erf erfc exp exp2 expm1 "
    "fabs fmod gamma isfinite isinf isnan lgamma log10 log1p log2 pow radians sin sinh sqrt tan "
    "tanh"
)
_OTHER_NAME = {"pow": "power", "fabs": "absolute", "lgamma": "gammaln"}
_TO_INTEGER = ("ceil", "floor", "trunc")


def _math() -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for name in _NAMES.split():
        plain = getattr(math, name)
        found[plain] = _of_numbers(_OTHER_NAME.get(name, name), plain, _FLOAT)
    for name in _TO_INTEGER:
        found[getattr(math, name)] = _of_numbers(name, getattr(math, name), _INTEGER)
    found |= {math.log: _logarithm, math.hypot: _hypotenuse, math.dist: _distance}
    return found | {math.fsum: _added, math.prod: _multiplied}


# ---------------------------------------------------------------- many items


def _once(items: Any) -> Any:
    """What can be gone over again: a list of what an iterator gives but once."""
    return list(items) if isinstance(items, (Iterator, range)) else items


def _unknown(items: Any) -> bool:
    """Whether items, or some of them, have no number yet."""
    if isinstance(items, (list, tuple)):
        return any(map(is_abstract, items))
    return is_abstract(items) and len(type_of(items).shape) == 1


def _array(items: Any) -> Any:
    """Numbers as an array; None where they are something else."""
    if not isinstance(items, (list, tuple)):
        return items if is_abstract(items) else None
    if not all(is_number(item) and type_of(item).shape == () for item in items):
        return None
    from ..numpy import stack

    return stack(items)


def _at(items: Any, places: Any) -> Any:
    """The items at some places, which are traced; None where they are not alike."""
    if is_abstract(items):
        return [*items[places]]
    taken = [tree.flatten(item) for item in items]
    structure = taken[0][1]
    columns = [*zip(*[leaves for leaves, _ in taken], strict=False)]
    if any(own != structure for _, own in taken) or not all(map(_alike, columns)):
        return None
    from ..numpy import stack, take

    arrays = [take(stack(column), places, axis=0) for column in columns]
    rows = zip(*arrays, strict=True)
    return [one_of(items, tree.unflatten(structure, row)) for row in rows]


def _alike(items: Any) -> bool:
    return all(map(is_number, items)) and len({type_of(item).shape for item in items}) == 1


def _keyed(items: Any, key: Any) -> tuple[Any, Any]:
    """What items are compared by: an array, or columns of which the first counts most. None where
    all of that is known, or cannot be compared."""
    keys = items if key is None else [*map(key, items)]
    if _unknown(keys):
        return _array(keys), None
    return None, _columns(keys)


def _columns(keys: Any) -> list[Any] | None:
    """Tuples of numbers, some of which are traced, by columns; None for all else."""
    if not isinstance(keys, (list, tuple)) or not all(type(one) is tuple for one in keys):
        return None
    columns = list(zip(*keys, strict=False))
    if len({len(one) for one in keys}) > 1 or not any(map(_unknown, columns)):
        return None
    found = [_array(column) for column in columns]
    return None if any(one is None for one in found) else found


def _order(columns: Sequence[Any], reverse: Any) -> Any:
    """The places of items in order, by some columns; equals stay as they are, from either end."""
    from ..numpy import argsort, take

    places: Any = None
    for own in reversed(columns):
        column = own[::-1] if reverse else own
        following = argsort(column if places is None else take(column, places), stable=True)
        places = following if places is None else take(places, following)
    return (len(columns[0]) - 1 - places)[::-1] if reverse else places


def _extreme(plain: Any) -> Any:
    """``max`` or ``min``: the first of the best. A NaN is never better, nor is anything better
    than a NaN that comes first."""
    better = operator.gt if plain is builtins.max else operator.lt
    place_of = "argmax" if plain is builtins.max else "argmin"

    def function(*args: Any, key: Any = None, **kwargs: Any) -> Any:
        items = args if len(args) > 1 else _once(args[0]) if args else ()
        keys, columns = _keyed(items, key)
        if columns is not None:
            found = _at(items, _order(columns, plain is builtins.max)[:1])
            return plain(items, key=key, **kwargs) if found is None else found[0]
        if keys is None or not len(keys):
            return plain(items, key=key, **kwargs) if args else plain()
        if key is None and isinstance(items, (list, tuple)) and len(items) <= _FEW:
            best = items[0]
            for item in items[1:]:
                best = ew.select(truth(better(item, best), plain.__name__), item, best)
            return best
        if type_of(keys).dtype.kind == "f":
            keys = ew.select(logic.isnan(keys), keys[0], keys)
        from .. import numpy as wnp

        found = _at(items, reshape(getattr(wnp, place_of)(keys), shape=(1,)))
        return plain(items, key=key, **kwargs) if found is None else found[0]

    return function


def _sorted(iterable: Any, /, *, key: Any = None, reverse: Any = False) -> Any:
    """``sorted``, which leaves equals in their order, from either end."""
    items = _once(iterable)
    keys, columns = _keyed(items, key)
    columns = columns if keys is None else [keys]
    if columns is None or is_abstract(reverse):
        return builtins.sorted(items, key=key, reverse=reverse)
    found = _at(items, _order(columns, reverse))
    return builtins.sorted(items, key=key, reverse=reverse) if found is None else found


def sorter(items: list[Any]) -> Callable[..., None]:
    """``items.sort``."""

    def sort(*, key: Any = None, reverse: Any = False) -> None:
        items[:] = _sorted(items, key=key, reverse=reverse)

    return sort


# ---------------------------------------------------------------- heaps


def _heap(plain: Any) -> Any:
    """A function of `heapq` that changes a heap: with traced items it is a list in order, which is
    a heap too."""

    def function(heap: Any, /, *item: Any) -> Any:
        if local.inside is not None:
            local.inside.changes(heap, f"{plain.__name__}()")
        written(heap)
        if type(heap) is not list or not any(map(is_abstract, tree.leaves((heap, item)))):
            return plain(heap, *item)
        return _HEAPS[plain](heap, *item)

    return function


def _pushed(heap: list[Any], item: Any) -> None:
    heap[:] = _sorted([*heap, item])


def _heapified(heap: list[Any]) -> None:
    heap[:] = _sorted(heap)


def _popped(heap: list[Any]) -> Any:
    heap[:] = _sorted(heap)
    return heap.pop(0)


def _pushed_and_popped(heap: list[Any], item: Any) -> Any:
    _pushed(heap, item)
    return heap.pop(0)


def _replaced(heap: list[Any], item: Any) -> Any:
    found = _popped(heap)
    _pushed(heap, item)
    return found


_HEAPS: dict[Any, Any] = {
    heapq.heappush: _pushed,
    heapq.heappop: _popped,
    heapq.heapify: _heapified,
    heapq.heappushpop: _pushed_and_popped,
    heapq.heapreplace: _replaced,
}


def _smallest(n: Any, iterable: Any, key: Any = None) -> list[Any]:
    """``heapq.nsmallest``."""
    return list(_sorted(iterable, key=key)[: max(n, 0)])


def _largest(n: Any, iterable: Any, key: Any = None) -> list[Any]:
    """``heapq.nlargest``."""
    return list(_sorted(iterable, key=key, reverse=True)[: max(n, 0)])


def _merged(*iterables: Any, key: Any = None, reverse: Any = False) -> Iterator[Any]:
    """``heapq.merge``."""
    lists = [list(one) for one in iterables]
    if not any(map(is_abstract, tree.leaves(lists))):
        return heapq.merge(*lists, key=key, reverse=reverse)
    return iter(_sorted([item for one in lists for item in one], key=key, reverse=reverse))


def _junction(plain: Any) -> Any:
    """``any`` or ``all``."""
    decides = plain is builtins.any  # the truth after which no other item matters

    def function(iterable: Any, /) -> Any:
        items = _once(iterable)
        if not _unknown(items):
            return plain(items)
        known = [bool(item) for item in items if not is_abstract(item)]
        if decides in known:
            return decides
        from .. import numpy as wnp

        flags = [truth(item, f"{plain.__name__}()") for item in items if is_abstract(item)]
        return getattr(wnp, plain.__name__)(wnp.stack(flags))

    return function


def _bisected(plain: Any, side: str) -> Any:
    """``bisect.bisect_left`` or ``bisect.bisect``: a place in sorted items."""

    def function(a: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        known = not (is_abstract(x) or _unknown(a))
        table = None if known or args or kwargs else a if isinstance(a, np.ndarray) else _array(a)
        if table is None:
            return plain(a, x, *args, **kwargs)
        from ..numpy import searchsorted

        return python_number(searchsorted(table, x, side=side), _INTEGER)

    return function


def _enumerated(array: Any) -> Any:
    """``np.ndenumerate``."""
    if not is_abstract(array):
        return np.ndenumerate(array)
    return ((place, array[place]) for place in np.ndindex(type_of(array).shape))


_SCALARS = [getattr(np, name) for name in "float16 float32 float64 int8 int16 int32 int64".split()]


# Python's own functions, and those that take their place.
def _length(*args: Any, **kwargs: Any) -> Any:
    """``len(items)``, also of a list that the turns of a loop append to."""
    grows = len(args) == 1 and not kwargs and isinstance(args[0], Growing)
    return args[0]._so_far() if grows else len(*args, **kwargs)


REPLACED: dict[Any, Any] = {
    builtins.float: _conversion(float, "biuf", _FLOAT, lambda x: x),
    builtins.int: _conversion(int, "biuf", _INTEGER, logic.trunc),
    builtins.bool: _truth,
    builtins.round: _rounded,
    builtins.len: _length,
    builtins.max: _extreme(builtins.max),
    builtins.min: _extreme(builtins.min),
    builtins.sorted: _sorted,
    builtins.any: _junction(builtins.any),
    builtins.all: _junction(builtins.all),
    builtins.sum: total,
    **{plain: _heap(plain) for plain in _HEAPS},
    heapq.nsmallest: _smallest,
    heapq.nlargest: _largest,
    heapq.merge: _merged,
    bisect.bisect_left: _bisected(bisect.bisect_left, "left"),
    bisect.bisect_right: _bisected(bisect.bisect_right, "right"),
    np.ndenumerate: _enumerated,
    **{kind: _scalar(kind) for kind in _SCALARS},
    **_math(),
}

# Methods of arrays likewise.
METHODS: dict[Any, Any] = {Array.item: _item, Array.tolist: _to_list}
