"""Loop variables, and indices that are affine in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


class Var:
    """A loop variable that counts from 0 to `extent` - 1.

    An `ordered` one must count up, one by one: each turn reads what the one before has stored.
    """

    __slots__ = ("extent", "name", "ordered")

    def __init__(self, name: str, extent: int, ordered: bool = False):
        self.name = name
        self.extent = extent
        self.ordered = ordered

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Affine:
    """constant + sum of coefficient * variable.

    >>> i = Var("i", 10)
    >>> print(Affine.of(i) * 2 + 3)
    2*i + 3
    """

    constant: int
    terms: tuple[tuple[Var, int], ...] = ()

    @staticmethod
    def of(value: Var | int | Affine) -> Affine:
        """An affine index from a variable or a number."""
        if isinstance(value, Affine):
            return value
        if isinstance(value, Var):
            return Affine(0, ((value, 1),)) if value.extent != 1 else Affine(0)
        return Affine(int(value))

    def __add__(self, other: Affine | int) -> Affine:
        other = Affine.of(other)
        merged = dict(self.terms)
        for var, coefficient in other.terms:
            merged[var] = merged.get(var, 0) + coefficient
        kept = tuple((var, c) for var, c in merged.items() if c)
        return Affine(self.constant + other.constant, kept)

    def __mul__(self, factor: int) -> Affine:
        if factor == 0:
            return Affine(0)
        return Affine(self.constant * factor, tuple((v, c * factor) for v, c in self.terms))

    def coefficient(self, var: Var) -> int:
        """The factor of a variable."""
        return next((c for v, c in self.terms if v is var), 0)

    def bounds(self) -> tuple[int, int]:
        """The least and the greatest value."""
        low = high = self.constant
        for var, coefficient in self.terms:
            reach = coefficient * (var.extent - 1)
            low, high = low + min(0, reach), high + max(0, reach)
        return low, high

    def is_one_to_one(self) -> bool:
        """Whether different values of the variables surely give different indices."""
        return all(self.tells_apart(var) for var, _ in self.terms)

    def tells_apart(self, var: Var) -> bool:
        """Whether different values of one variable surely give different indices.

        >>> i, j = Var("i", 10), Var("j", 3)
        >>> (Affine.of(i) * 3 + Affine.of(j)).tells_apart(i)
        True
        >>> (Affine.of(i) * 2 + Affine.of(j)).tells_apart(i)
        False
        """
        reach, passed = 0, False
        for other, coefficient in sorted(self.terms, key=lambda term: abs(term[1])):
            passed = passed or other is var
            if passed and abs(coefficient) <= reach:
                return False
            reach += abs(coefficient) * (other.extent - 1)
        return passed

    def substitute(self, values: Mapping[Var, Affine]) -> Affine:
        """The index with others in place of variables, one after the other."""
        found = self
        for var, value in values.items():
            if coefficient := found.coefficient(var):
                rest = tuple((v, c) for v, c in found.terms if v is not var)
                found = Affine(found.constant, rest) + value * coefficient
        return found

    def __str__(self) -> str:
        parts = [f"{c}*{v}" if c != 1 else f"{v}" for v, c in self.terms]
        if self.constant or not parts:
            parts.append(str(self.constant))
        return " + ".join(parts)


Index = tuple[Affine, ...]
