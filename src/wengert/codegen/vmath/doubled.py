"""Sums and quotients that keep their rounding error: unevaluated pairs high + low."""

from __future__ import annotations

from .lanes import Emitter, Lanes

Pair = tuple[Lanes, Lanes]


def two_sum(a: Lanes, b: Lanes) -> Pair:
    """Return a + b rounded, and its rounding error, for any a and b."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def fast_two_sum(a: Lanes, b: Lanes) -> Pair:
    """Return a + b rounded, and its rounding error, where |a| >= |b| or a = 0."""
    total = a + b
    return total, b - (total - a)


def divide(k: Emitter, above: Pair, below: Pair) -> Pair:
    """Return a quotient of pairs, good to nearly twice the precision, with one division."""
    reciprocal = 1.0 / below[0]
    quotient = above[0] * reciprocal
    rest = k.exact_fma(-quotient, below[0], above[0]) + (above[1] - quotient * below[1])
    return quotient, rest * reciprocal


def multiply(k: Emitter, a: Pair, b: Pair) -> Pair:
    """Return the product of two pairs."""
    high, low = k.two_product(a[0], b[0])
    return high, k.mad(a[0], b[1], k.mad(a[1], b[0], low))


def square_root(k: Emitter, x: Pair) -> Pair:
    """Return the square root of a positive pair."""
    root = k.sqrt(x[0])
    rest = k.exact_fma(-root, root, x[0]) + x[1]
    return root, rest / (root + root)
