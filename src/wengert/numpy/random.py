"""Random numbers from keys: the same key gives the same numbers, evaluated and compiled.

A key is an array of two words; there is no hidden state. `key` makes one from a seed, `split`
makes several new ones from it, `fold_in` one for each number, such as the step of a loop. Use
every key once. Numbers are differentiable in the parameters of their distribution.

`Generator` keeps a key and a counter for you and has NumPy's methods.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError, explain
from ..ops.cumulative import cumsum
from ..ops.elementwise import cos, log, log1p, maximum, multiply, remainder, select, sin, sqrt
from ..ops.families import broadcast_shapes
from ..ops.indexing import gather, index
from ..ops.layout import convert, permute, reshape
from ..ops.logic import bitwise_and, bitwise_xor, equal, greater, less, right_shift
from ..ops.random import random_bits
from ..ops.reductions import argmax
from ..ops.sorting import argsort, searchsorted
from ..ops.special import erf, erfinv
from ..ops.structure import concatenate
from ..types import type_of
from .common import as_value, cast, normal_axis, shape

__all__ = [
    "Generator", "bernoulli", "bits", "categorical", "choice", "exponential", "fold_in", "gumbel",
    "integers", "key", "normal", "permutation", "split", "truncated_normal", "uniform",
]  # fmt: skip

# What the streams of a key are for; numbers, new keys and folding never meet.
_NUMBERS, _SPLIT, _FOLD = 0, 1, 2
_WORD = 2**64


# ---------------------------------------------------------------- keys


def key(seed: Any) -> Any:
    """The key of a seed: an integer that is not negative, or a traced integer.

    >>> key(42)
    array([42,  0], dtype=uint32)
    """
    if not isinstance(seed, (int, np.integer)):
        return _words(seed)
    number = int(seed)
    if number < 0:
        raise DTypeError(explain("key", f"got the seed {number}", "Seeds are not negative."))
    result = _words(number % _WORD)
    while number >= _WORD:
        number //= _WORD
        result = fold_in(result, number % _WORD)
    return result


def _words(data: Any) -> Any:
    """A 64-bit integer as two 32-bit words, along a new last axis."""
    if isinstance(data, (int, np.integer)):
        number = int(data) % _WORD
        return np.array([number & 0xFFFFFFFF, number >> 32], np.uint32)
    data = as_value(data)
    if type_of(data).dtype.kind not in "iu":
        raise DTypeError(
            explain("key", f"got {type_of(data)}, expected an integer", "Use astype(int).")
        )
    data = convert(data, dtype=np.dtype(np.uint64))
    word, place = np.dtype(np.uint32), len(shape(data))
    low = convert(bitwise_and(data, np.uint64(0xFFFFFFFF)), dtype=word)
    high = convert(right_shift(data, np.uint64(32)), dtype=word)
    parts = [reshape(part, shape=(*shape(data), 1)) for part in (low, high)]
    return concatenate(*parts, axis=place)


def split(key: Any, n: int = 2) -> Any:
    """`n` new keys, one a row.

    >>> first, second = split(key(0))
    >>> first.shape
    (2,)
    """
    return random_bits(as_value(key), shape=(int(n), 2), width=32, stream=_SPLIT)


def fold_in(key: Any, data: Any) -> Any:
    """A new key from a key and an integer, such as the number of a step.

    >>> bool((fold_in(key(0), 1) == fold_in(key(0), 2)).all())
    False
    """
    scrambled = random_bits(as_value(key), shape=(2,), width=32, stream=_FOLD)
    return random_bits(bitwise_xor(scrambled, _words(data)), shape=(2,), width=32, stream=_FOLD)


def bits(key: Any, shape: Any = (), width: int = 32) -> Any:
    """Unsigned integers of 32 or 64 random bits.

    >>> bits(key(0), 2)
    array([1713891541, 3781805453], dtype=uint32)
    """
    if width not in (32, 64):
        raise DTypeError(explain("bits", f"got width={width!r}", "Use 32 or 64."))
    return random_bits(as_value(key), shape=_shape(shape), width=width, stream=_NUMBERS)


def _shape(given: Any) -> tuple[int, ...]:
    if isinstance(given, (int, np.integer)):
        return (int(given),)
    return tuple(int(length) for length in given)


def _common_shape(name: str, given: Any, *parameters: Any) -> tuple[int, ...]:
    """The shape asked for, or that of the parameters together, which must fit into it."""
    own = broadcast_shapes(name, [type_of(parameter) for parameter in parameters])
    if given is None:
        return own
    wanted = _shape(given)
    if not _broadcasts(own, wanted):
        raise ShapeError(
            explain(
                name,
                f"parameters of shape {own} do not broadcast to shape={wanted}",
                "Leave out the shape, or give one that the parameters fit into.",
            )
        )
    return wanted


def _broadcasts(own: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    extra = len(wanted) - len(own)
    return extra >= 0 and all(n in (1, m) for n, m in zip(own, wanted[extra:], strict=True))


# ---------------------------------------------------------------- distributions


def _unit(name: str, key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Multiples of 2**-53 (float32: 2**-24) in [0, 1)."""
    dtype = np.dtype(dtype)
    if dtype == np.float64:
        random = random_bits(as_value(key), shape=shape, width=64, stream=_NUMBERS)
        return convert(right_shift(random, np.uint64(11)), dtype=dtype) * 2.0**-53
    if dtype == np.float32:
        random = random_bits(as_value(key), shape=shape, width=32, stream=_NUMBERS)
        return convert(right_shift(random, np.uint32(8)), dtype=dtype) * 2.0**-24
    raise DTypeError(
        explain(name, f"got dtype={dtype}, expected float32 or float64", "Convert with astype.")
    )


def _is_number(value: Any, number: float) -> bool:
    return isinstance(value, (int, float)) and value == number


def _moved(x: Any, loc: Any, scale: Any) -> Any:
    """loc + scale * x, without the work where they are 0 and 1."""
    x = x if _is_number(scale, 1) else multiply(x, scale)
    return x if _is_number(loc, 0) else x + loc


def uniform(
    key: Any, shape: Any = None, dtype: Any = np.float64, low: Any = 0.0, high: Any = 1.0
) -> Any:
    """Uniform numbers in [low, high).

    >>> uniform(key(0), 2)
    array([0.8805202 , 0.60548185])
    """
    low, high = as_value(low), as_value(high)
    unit = _unit("uniform", key, _common_shape("uniform", shape, low, high), dtype)
    if _is_number(low, 0) and _is_number(high, 1):
        return unit
    moved = _moved(unit, low, high - low)
    # rounding may reach the upper end
    return select(equal(moved, high), low, moved)


def normal(
    key: Any, shape: Any = None, dtype: Any = np.float64, loc: Any = 0.0, scale: Any = 1.0
) -> Any:
    """Normal numbers with mean `loc` and standard deviation `scale`.

    >>> normal(key(0), 3).round(3).shape
    (3,)
    """
    loc, scale = as_value(loc), as_value(scale)
    wanted = _common_shape("normal", shape, loc, scale)
    return _moved(_standard_normal(key, wanted, dtype), loc, scale)


def _standard_normal(key: Any, wanted: tuple[int, ...], dtype: Any) -> Any:
    """Box and Muller's pairs: the cosines first, then the sines."""
    count = prod(wanted)
    half = (count + 1) // 2
    unit = _unit("normal", key, (2, half), dtype)
    leading = shape(unit)[:-2]
    front = [(0, length, 1) for length in leading]
    first, second = (index(unit, key=(*front, row, (0, half, 1))) for row in (0, 1))
    radius = sqrt(log1p(-first) * -2.0)
    angle = second * (2 * np.pi)
    pairs = concatenate(radius * cos(angle), radius * sin(angle), axis=len(leading))
    if 2 * half != count:
        pairs = index(pairs, key=(*front, (0, count, 1)))
    return reshape(pairs, shape=leading + wanted)


def truncated_normal(
    key: Any,
    lower: Any,
    upper: Any,
    shape: Any = None,
    dtype: Any = np.float64,
    loc: Any = 0.0,
    scale: Any = 1.0,
) -> Any:
    """Normal numbers between `lower` and `upper` (in standard deviations from `loc`).

    >>> bool(abs(truncated_normal(key(0), -2.0, 2.0, 1000)).max() <= 2)
    True
    """
    lower, upper = as_value(lower), as_value(upper)
    wanted = _common_shape("truncated_normal", shape, lower, upper, loc, scale)
    root = float(np.sqrt(0.5))
    start, stop = (cast(erf(bound * root), dtype) for bound in (lower, upper))
    place = _moved(_unit("truncated_normal", key, wanted, dtype), start, stop - start)
    inside = erfinv(place) * float(np.sqrt(2.0))
    inside = select(less(inside, lower), lower, inside)
    inside = select(greater(inside, upper), upper, inside)
    return _moved(inside, loc, scale)


def exponential(key: Any, shape: Any = None, dtype: Any = np.float64, scale: Any = 1.0) -> Any:
    """Exponential numbers with mean `scale`.

    >>> bool((exponential(key(0), 100) >= 0).all())
    True
    """
    scale = as_value(scale)
    unit = _unit("exponential", key, _common_shape("exponential", shape, scale), dtype)
    return _moved(-log1p(-unit), 0, scale)


def gumbel(
    key: Any, shape: Any = None, dtype: Any = np.float64, loc: Any = 0.0, scale: Any = 1.0
) -> Any:
    """Numbers of the standard Gumbel distribution, the law of the largest of many.

    >>> bool(np.isfinite(gumbel(key(0), 100)).all())
    True
    """
    loc, scale = as_value(loc), as_value(scale)
    unit = _unit("gumbel", key, _common_shape("gumbel", shape, loc, scale), dtype)
    tiny = float(np.finfo(dtype).tiny)
    return _moved(-log(maximum(-log1p(-unit), tiny)), loc, scale)


def bernoulli(key: Any, p: Any = 0.5, shape: Any = None) -> Any:
    """Booleans that are true with probability `p`.

    >>> bernoulli(key(0), 0.5, 4)
    array([False, False,  True,  True])
    """
    p = as_value(p)
    dtype = type_of(p).dtype if type_of(p).dtype == np.float32 else np.float64
    return less(_unit("bernoulli", key, _common_shape("bernoulli", shape, p), dtype), p)


def integers(key: Any, low: Any, high: Any = None, shape: Any = None, dtype: Any = np.int64) -> Any:
    """Integers from `low` up to, not including, `high`; from 0 up to `low` with one bound.

    >>> integers(key(0), 6, shape=4)
    array([3, 0, 4, 1])
    """
    low, high = (0, as_value(low)) if high is None else (as_value(low), as_value(high))
    known = isinstance(low, (int, np.integer)) and isinstance(high, (int, np.integer))
    if known and high <= low:
        raise ShapeError(
            explain("integers", f"got low={low} and high={high}", "The range must not be empty.")
        )
    wanted = _common_shape("integers", shape, low, high)
    random = random_bits(as_value(key), shape=wanted, width=64, stream=_NUMBERS)
    span = np.uint64(int(high) - int(low)) if known else _unsigned(high - low)
    # 64 bits for each: the remainder favours no value by more than span / 2**64
    offset = convert(remainder(random, span), dtype=np.dtype(np.int64))
    return convert(offset + low, dtype=np.dtype(dtype))


def _unsigned(x: Any) -> Any:
    return convert(x, dtype=np.dtype(np.uint64))


# ---------------------------------------------------------------- choices


def permutation(key: Any, x: Any, axis: int = 0) -> Any:
    """The numbers below `x` in random order, or the array `x` with its rows in random order.

    >>> sorted(permutation(key(0), 4).tolist())
    [0, 1, 2, 3]
    """
    if isinstance(x, (int, np.integer)):
        return _order(key, int(x))
    x = as_value(x)
    rank = len(shape(x))
    axis = normal_axis("permutation", axis, rank)
    taken = gather(x, _order(key, shape(x)[axis]), axes=(axis,))
    if axis == 0:
        return taken
    return permute(taken, axes=(*range(1, axis + 1), 0, *range(axis + 1, rank)))


def _order(key: Any, count: int) -> Any:
    random = random_bits(as_value(key), shape=(count,), width=64, stream=_NUMBERS)
    return argsort(random, axis=len(shape(random)) - 1, descending=False)


def categorical(key: Any, logits: Any, axis: int = -1, shape: Any = None) -> Any:
    """Numbers of categories, each with probability proportional to exp(logits) along the axis.

    `shape` is that of the result; the other axes of the logits must broadcast to it.

    >>> categorical(key(0), np.array([-np.inf, 0.0, -np.inf]), shape=3)
    array([1, 1, 1])
    """
    logits = as_value(logits)
    own = type_of(logits).shape
    axis = normal_axis("categorical", axis, len(own))
    others = [place for place in range(len(own)) if place != axis]
    logits = permute(logits, axes=(*others, axis))
    front = tuple(own[place] for place in others)
    wanted = front if shape is None else _shape(shape)
    if not _broadcasts(front, wanted):
        raise ShapeError(
            explain("categorical", f"logits of shape {own} do not broadcast to shape={wanted}")
        )
    dtype = type_of(logits).dtype
    noise = gumbel(key, (*wanted, own[axis]), dtype if dtype.kind == "f" else np.float64)
    return argmax(logits + noise, axes=(len(wanted),))


def choice(key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None) -> Any:
    """Elements of `a` (or numbers below it), with probabilities `p`, with or without repetition.

    >>> sorted(choice(key(0), 3, 3, replace=False).tolist())
    [0, 1, 2]
    """
    single = isinstance(a, (int, np.integer))
    a = int(a) if single else as_value(a)
    count = a if single else type_of(a).shape[0]
    wanted = _shape(shape)
    if not replace and prod(wanted) > count:
        raise ShapeError(
            explain("choice", f"cannot take {prod(wanted)} of {count} without repetition")
        )
    chosen = _chosen(key, count, wanted, replace, None if p is None else as_value(p))
    return chosen if single else gather(a, chosen, axes=(0,))


def _chosen(key: Any, count: int, wanted: tuple[int, ...], replace: bool, p: Any) -> Any:
    if p is None and replace:
        return integers(key, 0, count, wanted)
    if p is None:
        return reshape(index(_order(key, count), key=((0, prod(wanted), 1),)), shape=wanted)
    if type_of(p).shape != (count,):
        raise ShapeError(
            explain("choice", f"got p of shape {type_of(p).shape}, expected ({count},)")
        )
    if replace:
        ends = cumsum(p, axis=0, reverse=False)
        total = index(ends, key=(count - 1,))
        return searchsorted(ends, uniform(key, wanted) * total, side="right", leading=0)
    possible = greater(p, 0)
    logits = select(possible, log(select(possible, p, 1.0)), -np.inf)
    order = argsort(logits + gumbel(key, (count,)), axis=0, descending=True)
    return reshape(index(order, key=((0, prod(wanted), 1),)), shape=wanted)


class Generator:
    """A key that advances by itself, with NumPy's names and arguments.

    >>> rng = Generator(0)
    >>> rng.normal(size=(2, 3)).shape
    (2, 3)
    >>> Generator(0).random() == Generator(0).random()
    np.True_
    """

    def __init__(self, seed: Any = 0):
        self._key = key(seed)
        self._count = 0

    def key(self) -> Any:
        """A new key, different at each call."""
        self._count += 1
        return fold_in(self._key, self._count - 1)

    def random(self, size: Any = (), dtype: Any = np.float64) -> Any:
        """Uniform numbers in [0, 1)."""
        return uniform(self.key(), size, dtype)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """Uniform numbers in [low, high)."""
        return uniform(self.key(), size, low=low, high=high)

    def standard_normal(self, size: Any = (), dtype: Any = np.float64) -> Any:
        """Normal numbers with mean 0 and standard deviation 1."""
        return normal(self.key(), size, dtype)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Normal numbers with mean `loc` and standard deviation `scale`."""
        return normal(self.key(), size, loc=loc, scale=scale)

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        """Exponential numbers with mean `scale`."""
        return exponential(self.key(), size, scale=scale)

    def integers(self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64) -> Any:
        """Integers from `low` up to, not including, `high`."""
        return integers(self.key(), low, high, size, dtype)

    def bernoulli(self, p: Any = 0.5, size: Any = None) -> Any:
        """Booleans that are true with probability `p`."""
        return bernoulli(self.key(), p, size)

    def categorical(self, logits: Any, axis: int = -1, size: Any = None) -> Any:
        """Numbers of categories with probabilities proportional to exp(logits)."""
        return categorical(self.key(), logits, axis, size)

    def choice(self, a: Any, size: Any = (), replace: bool = True, p: Any = None) -> Any:
        """Elements of `a`, with or without repetition."""
        return choice(self.key(), a, size, replace, p)

    def permutation(self, x: Any, axis: int = 0) -> Any:
        """The numbers below `x`, or the rows of `x`, in random order."""
        return permutation(self.key(), x, axis)

    def shuffle(self, x: Any, axis: int = 0) -> None:
        """Put the rows of an array into random order, in place."""
        x[...] = permutation(self.key(), x, axis)
