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
from ..types import ArrayType
from .op import Op

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


# Bits of `width` 32 or 64 for each key; the last axis of the key holds its two words. Different
# streams of one key have nothing in common.
random_bits: Op = Op(
    "random_bits",
    _checked_bits,
    _random_bits_type,
    zero="random bits are integers",
    batch=lambda size, flags, key, **params: random_bits(key, **params),
    samples=_samples,
)
