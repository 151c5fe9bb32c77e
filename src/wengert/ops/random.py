"""Random bits from a counter: Philox4x32-10.

There is no hidden state. Element i of the bits of a key is a fixed function of the key and of i
(block i // 4, word i % 4 for 32 bits), so any element can be computed alone, in any order, by
evaluation and by compiled code alike.

Philox is from Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3"
(SC 2011): ten rounds of two 32 x 32 -> 64 bit products, a bijection of 128-bit counters for each
64-bit key.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..errors import DTypeError, explain
from ..loops import Affine, Apply, Expr, Index, IndexValue, Literal, Operand, Pointwise, cast
from ..types import ArrayType, type_of
from .indexing import index
from .layout import convert, reshape
from .logic import bitwise_or, left_shift
from .op import Op
from .structure import concatenate

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_PART = 4096
_BITS: dict[int, np.dtype] = {32: np.dtype(np.uint32), 64: np.dtype(np.uint64)}


def philox(counter: Any, key: Any) -> Any:
    """Four 32-bit words for each counter (four words, last axis) and key (two words).

    >>> philox(np.zeros(4, np.uint32), np.zeros(2, np.uint32))
    array([1713891541, 3781805453, 3159862348, 2600524760], dtype=uint32)
    """
    counter = np.asarray(counter, np.uint32)
    words = [counter[..., i].astype(np.uint64) for i in range(4)]
    keys = np.asarray(key, np.uint32)
    return np.stack(_rounds(words, [keys[..., 0], keys[..., 1]]), axis=-1)


def _rounds(words: list[Any], keys: list[Any]) -> list[Any]:
    """The words of the result, as uint32; words are uint64 below 2**32."""
    first, second = (np.uint64(m) for m in MULTIPLIERS)
    k0, k1 = (np.asarray(k).astype(np.uint64) for k in keys)
    c0, c1, c2, c3 = words
    for step in range(ROUNDS):
        if step:
            k0 = (k0 + np.uint64(WEYL[0])) & _LOW
            k1 = (k1 + np.uint64(WEYL[1])) & _LOW
        p0, p1 = c0 * first, c2 * second
        c0, c2 = p1 >> _HALF ^ (c1 ^ k0), p0 >> _HALF ^ (c3 ^ k1)
        c1, c3 = p1 & _LOW, p0 & _LOW
    return [np.asarray(word).astype(np.uint32) for word in (c0, c1, c2, c3)]


def _random_bits(key: np.ndarray, shape: tuple[int, ...], width: int, stream: int) -> np.ndarray:
    keys = key.reshape(-1, 2)
    count = prod(shape)
    blocks = (count * (width // 32) + 3) // 4
    bits = np.empty((len(keys), blocks, 4), np.uint32)
    zero = np.zeros((), np.uint64)
    # A part at a time: the words of a part stay in the cache for all rounds.
    step = max(_PART // max(len(keys), 1), 1)
    for start in range(0, blocks, step):
        part = np.arange(start, min(start + step, blocks), dtype=np.uint64)
        counter = [part & _LOW, part >> _HALF, zero, np.asarray(stream, np.uint64)]
        columns = _rounds(counter, [keys[:, 0, None], keys[:, 1, None]])
        for position, column in enumerate(columns):
            bits[:, start : start + step, position] = column
    flat = bits.reshape(len(keys), 4 * blocks)
    if width == 64:
        flat = flat[:, 0::2] | flat[:, 1::2].astype(np.uint64) << _HALF
    return flat[:, :count].reshape(key.shape[:-1] + shape)


def _random_bits_type(key: ArrayType, shape: tuple[int, ...], width: int, stream: int) -> ArrayType:
    if key.dtype != np.uint32 or key.shape[-1:] != (2,):
        raise DTypeError(
            explain(
                "random_bits",
                f"got {key} as the key, expected u32[2]",
                "Make keys with wnp.random.key(seed) and wnp.random.split(key).",
            )
        )
    return ArrayType(_BITS[width], key.shape[:-1] + shape)


def _checked_bits(key: Any, shape: tuple[int, ...], width: int, stream: int) -> np.ndarray:
    key = np.asarray(key)
    _random_bits_type(ArrayType(key.dtype, key.shape), shape, width, stream)
    return _random_bits(key, shape, width, stream)


def _samples(rng: np.random.Generator) -> Any:
    for shape, width in [((3,), 32), ((2, 3), 64), ((), 64), ((0, 2), 32)]:
        key = rng.integers(0, 2**32, size=2, dtype=np.uint32)
        yield (key,), {"shape": shape, "width": width, "stream": 0}
    keys = rng.integers(0, 2**32, size=(3, 2), dtype=np.uint32)
    yield (keys,), {"shape": (5,), "width": 32, "stream": 1}


# ---------------------------------------------------------------- as loops


def _random_word(key: Any, blocks: int, word: int, stream: int) -> np.ndarray:
    return _words_at(key, np.arange(blocks, dtype=np.uint64), word, stream)


def _word_from(key: Any, first: Any, blocks: int, word: int, stream: int) -> np.ndarray:
    number = np.asarray(first, np.uint64)[..., None] + np.arange(blocks, dtype=np.uint64)
    return _words_at(key, number, word, stream)


def _words_at(key: Any, number: np.ndarray, word: int, stream: int) -> np.ndarray:
    counter = [number & _LOW, number >> _HALF, np.zeros_like(number), np.uint64(stream)]
    keys = np.asarray(key)[..., None, :]
    words: np.ndarray = _rounds(counter, [keys[..., 0], keys[..., 1]])[word]
    return words


U64 = np.dtype(np.uint64)


def _number(value: int) -> Expr:
    return Literal(U64.type(value), U64)


def _apply(name: str, *args: Expr) -> Expr:
    return Apply(name, args, U64)


def _word_loops(at: Index, key: Operand, blocks: int, word: int, stream: int) -> Expr:
    keys = [cast(key((*at[:-1], Affine(part))), U64) for part in range(2)]
    block = cast(IndexValue(at[-1]), U64)
    words = _rounds_of(block, keys, stream, wide=blocks > 1 << 32)
    return cast(words[word], _BITS[32])


def _word_from_loops(
    at: Index, key: Operand, first: Operand, blocks: int, word: int, stream: int
) -> Expr:
    keys = [cast(key((Affine(part),)), U64) for part in range(2)]
    block = _apply("add", cast(IndexValue(at[-1]), U64), cast(first(at[:-1]), U64))
    return cast(_rounds_of(block, keys, stream, wide=True)[word], _BITS[32])


def _rounds_of(block: Expr, keys: list[Expr], stream: int, wide: bool) -> list[Expr]:
    """What `_rounds` computes, for one block; `wide`: whose number may need more than 32 bits."""
    apply, number = _apply, _number
    low, half = number(0xFFFFFFFF), number(32)
    c0, c1 = block, number(0)
    if wide:
        c0, c1 = apply("bitwise_and", block, low), apply("right_shift", block, half)
    c2, c3 = number(0), number(stream)
    for step in range(ROUNDS):
        if step:
            sums = [apply("add", k, number(w)) for k, w in zip(keys, WEYL, strict=True)]
            keys = [apply("bitwise_and", total, low) for total in sums]
        p0, p1 = (
            apply("multiply", c, number(m)) for c, m in zip((c0, c2), MULTIPLIERS, strict=True)
        )
        mixed = [apply("bitwise_xor", c, k) for c, k in zip((c1, c3), keys, strict=True)]
        c0, c2 = (
            apply("bitwise_xor", apply("right_shift", p, half), m)
            for p, m in zip((p1, p0), mixed, strict=True)
        )
        c1, c3 = apply("bitwise_and", p1, low), apply("bitwise_and", p0, low)
    return [c0, c1, c2, c3]


# One of the four words of each of the first `blocks` blocks: what compiled code makes bits of.
random_word: Op = Op(
    "random_word",
    _random_word,
    lambda key, blocks, word, stream: ArrayType(_BITS[32], (*key.shape[:-1], blocks)),
    zero="random bits are integers",
    batch=lambda size, flags, key, **params: random_word(key, **params),
    loops=Pointwise(_word_loops),
    samples=lambda rng: [
        (
            (rng.integers(0, 2**32, size=(*lead, 2), dtype=np.uint32),),
            {"blocks": 5, "word": word, "stream": word},
        )
        for lead, word in [((), 0), ((), 1), ((3,), 2), ((2, 1), 3)]
    ],
)


# The same from other blocks on, as many for each number of a first one, for one key: what programs
# use that make bits for a part of an array.
random_word_from: Op = Op(
    "random_word_from",
    _word_from,
    lambda key, first, blocks, word, stream: ArrayType(_BITS[32], (*first.shape, blocks)),
    zero="random bits are integers",
    loops=Pointwise(_word_from_loops),
    samples=lambda rng: [
        (
            (
                rng.integers(0, 2**32, size=2, dtype=np.uint32),
                rng.integers(0, 2**40, size=shape, dtype=np.uint64),
            ),
            {"blocks": 5, "word": word, "stream": 1},
        )
        for shape, word in [((), 0), ((3,), 1), ((2, 1), 3)]
    ],
    absent={"batch": "it is made by the compiler, after all transforms"},
)


def _composed_bits(key: Any, shape: tuple[int, ...], width: int, stream: int) -> Any:
    lead, count = type_of(key).shape[:-1], prod(shape)
    blocks = max((count * (width // 32) + 3) // 4, 1)
    words = [random_word(key, blocks=blocks, word=n, stream=stream) for n in range(4)]
    if width == 64:
        low, high = ([convert(w, dtype=_BITS[64]) for w in words[n::2]] for n in range(2))
        words = [bitwise_or(a, left_shift(b, _HALF)) for a, b in zip(low, high, strict=True)]
    columns = [reshape(word, shape=(*lead, blocks, 1)) for word in words]
    line = reshape(concatenate(*columns, axis=len(lead) + 1), shape=(*lead, blocks * len(words)))
    if count < type_of(line).shape[-1]:
        line = index(line, key=tuple((0, n, 1) for n in (*lead, count)))
    return reshape(line, shape=lead + shape)


def _bits_at(key: Any, places: Any, width: int, stream: int) -> np.ndarray:
    places = np.asarray(places, np.uint64)
    each = np.uint64(128 // width)  # elements of a block
    block, within = places // each, places % each
    counter = [block & _LOW, block >> _HALF, np.zeros_like(block), np.uint64(stream)]
    words = [word.astype(np.uint64) for word in _rounds(counter, list(np.asarray(key)))]
    if width == 64:
        words = [low | high << _HALF for low, high in zip(words[::2], words[1::2], strict=True)]
    chosen: np.ndarray = np.choose(within.astype(np.int64), words).astype(_BITS[width])
    return chosen


def _bits_at_loops(at: Index, key: Operand, places: Operand, width: int, stream: int) -> Expr:
    keys = [cast(key((Affine(part),)), U64) for part in range(2)]
    place, each = cast(places(at), U64), 128 // width
    block = _apply("right_shift", place, _number(each.bit_length() - 1))
    within = _apply("bitwise_and", place, _number(each - 1))
    words = _rounds_of(block, keys, stream, wide=True)
    if width == 64:
        words = [
            _apply("bitwise_or", low, _apply("left_shift", high, _number(32)))
            for low, high in zip(words[::2], words[1::2], strict=True)
        ]
    value = words[-1]
    for number, word in enumerate(words[:-1]):
        chosen = Apply("equal", (within, _number(number)), np.dtype(bool))
        value = Apply("where", (chosen, word, value), U64)
    return cast(value, _BITS[width])


# The elements of `random_bits` at these places of its flat order: what programs for any length use.
random_bits_at: Op = Op(
    "random_bits_at",
    _bits_at,
    lambda key, places, width, stream: ArrayType(_BITS[width], places.shape),
    zero="random bits are integers",
    loops=Pointwise(_bits_at_loops),
    samples=lambda rng: [
        (
            (
                rng.integers(0, 2**32, size=2, dtype=np.uint32),
                rng.integers(0, 2**40, size=shape, dtype=np.uint64),
            ),
            {"width": width, "stream": 1},
        )
        for shape, width in [((3, 5), 32), ((7,), 64), ((), 32), ((0,), 64)]
    ],
    absent={"batch": "it is made by the compiler, after all transforms"},
)


# Bits of `width` 32 or 64 for each key; the last axis of the key holds its two words. Different
# streams of one key have nothing in common.
random_bits: Op = Op(
    "random_bits",
    _checked_bits,
    _random_bits_type,
    zero="random bits are integers",
    batch=lambda size, flags, key, **params: random_bits(key, **params),
    compose=_composed_bits,
    samples=_samples,
)
