"""Numbers at several lengths -> the simple function of the length that they are.

>>> import numpy as np
>>> str(fit([0.5, 0.25, 0.125], [2, 4, 8], np.dtype(float)))
'1.0 / n'
>>> str(fit([5, 7, 9], [2, 3, 4], np.dtype(int)))
'2 * n + 1'
>>> str(fit([2.0, 1.5, 1.2], [2, 3, 6], np.dtype(float)))
'1.0 / (n - 1) + 1.0'
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..graph import Constant, Node
from ..ops.elementwise import add, divide, multiply, sqrt
from ..ops.layout import convert
from ..ops.logic import stop_gradient
from ..types import ArrayType
from .rewriting import apply

FLOAT, INTEGER = np.dtype(np.float64), np.dtype(np.int64)
# What is tried, in order, first without an offset and then with one.
_POWERS = (1.0, -1.0, 0.5, -0.5, 2.0, -2.0)
_SHIFTS = (0, -1, 1, -2, 2)


@dataclass(frozen=True)
class Formula:
    """factor * (n + shift)**power + offset, or one over that."""

    factor: Any
    power: float
    shift: int = 0
    offset: Any = 0
    inverse: bool = False

    def at(self, n: int) -> Any:
        """The number at a length, by the same steps as compiled code."""
        if isinstance(self.factor, int):
            return self.factor * (n + self.shift) ** int(self.power) + self.offset
        base = np.float64(n + self.shift)
        base = np.sqrt(base) if abs(self.power) == 0.5 else base
        base = base * base if abs(self.power) == 2 else base
        value = self.factor * base if self.power > 0 else self.factor / base
        value = value + self.offset if self.offset else value
        return 1 / value if self.inverse else value

    def computed(self, length: Node, array_type: ArrayType) -> Node:
        """The number as a node, computed from the length."""
        whole = isinstance(self.factor, int)
        kind = INTEGER if whole else FLOAT
        base = _shifted(length, self.shift)
        base = base if whole else apply(convert, base, params={"dtype": FLOAT})
        if abs(self.power) == 0.5:
            base = apply(sqrt, base, params={})
        if abs(self.power) == 2:
            base = apply(multiply, base, base, params={})
        factor = Constant(kind.type(self.factor))
        operation = multiply if self.power > 0 else divide
        value = apply(operation, factor, base, params={})
        if self.offset:
            value = apply(add, value, Constant(kind.type(self.offset)), params={})
        if self.inverse:
            value = apply(divide, Constant(FLOAT.type(1)), value, params={})
        if not array_type.weak:
            return apply(convert, value, params={"dtype": array_type.dtype})
        # an operation that no pass removes, to carry the type of a Python number
        made = apply(stop_gradient, value, params={})
        made._type = array_type
        return made

    def __str__(self) -> str:
        base = "n" if not self.shift else f"(n {'+-'[self.shift < 0]} {abs(self.shift)})"
        exponent = "" if abs(self.power) == 1 else f"**{abs(self.power):g}"
        sign = "*" if self.power > 0 else "/"
        text = f"{self.factor} {sign} {base}{exponent}"
        text += f" + {self.offset}" if self.offset else ""
        return f"1 / ({text})" if self.inverse else text


def _shifted(length: Node, shift: int) -> Node:
    if not shift:
        return length
    return apply(add, length, Constant(np.int64(shift)), params={})


def fit(values: Sequence[Any], lengths: Sequence[int], dtype: np.dtype) -> Formula | None:
    """The formula that gives these values at these lengths; None where none of those tried does."""
    if dtype.kind in "iu":
        return _fit_whole([int(value) for value in values], lengths)
    numbers = [float(value) for value in values] if dtype.kind == "f" else [np.nan]
    if not np.all(np.isfinite(numbers)):
        return None
    candidates = itertools.chain(
        _without_offset(numbers, lengths),
        _with_offset(numbers, lengths),
        _inverse([1 / number if number else np.nan for number in numbers], lengths),
    )
    with np.errstate(all="ignore"):
        return next((f for f in candidates if _agree(f, values, lengths, dtype)), None)


def _forms(powers: Sequence[float]) -> Iterator[tuple[float, int]]:
    return itertools.product(powers, _SHIFTS)


def _rounded(number: float) -> list[float]:
    """The number and rounder ones near it: what was meant is round, if that fits."""
    return [float(f"{number:.{digits}g}") for digits in (6, 12, 17)]


def _without_offset(numbers: Sequence[float], lengths: Sequence[int]) -> Iterator[Formula]:
    for power, shift in _forms(_POWERS):
        factor = numbers[0] / Formula(1.0, power, shift).at(lengths[0])
        for number in _rounded(factor):
            yield Formula(number, power, shift)


def _with_offset(numbers: Sequence[float], lengths: Sequence[int]) -> Iterator[Formula]:
    for power, shift in _forms(_POWERS):
        first, second = (Formula(1.0, power, shift).at(n) for n in lengths[:2])
        for factor in _rounded((numbers[1] - numbers[0]) / (second - first)):
            for offset in _rounded(numbers[0] - factor * first):
                yield Formula(factor, power, shift, offset)


def _inverse(numbers: Sequence[float], lengths: Sequence[int]) -> Iterator[Formula]:
    """One over the others: k n / (k n - 1), say, is 1 / (1 - (1 / k) / n)."""
    return (replace(formula, inverse=True) for formula in _with_offset(numbers, lengths))


def _fit_whole(values: Sequence[int], lengths: Sequence[int]) -> Formula | None:
    for power, shift in _forms((1, 2)):
        first, second = (Formula(1, power, shift).at(n) for n in lengths[:2])
        factor, rest = divmod(values[1] - values[0], second - first)
        tried = Formula(factor, power, shift, values[0] - factor * first)
        if not rest and all(tried.at(n) == v for n, v in zip(lengths, values, strict=True)):
            return tried
    return None


def _agree(
    formula: Formula, values: Sequence[Any], lengths: Sequence[int], dtype: np.dtype
) -> bool:
    """Whether a formula gives all values but for a rounding."""
    found = np.array([formula.at(n) for n in lengths])
    wanted = np.array([float(value) for value in values])
    spacing = np.spacing(np.abs(np.array(values, dtype))).astype(float)
    return bool(np.all(np.abs(found - wanted) <= 1.5 * spacing))
