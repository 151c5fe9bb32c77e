"""Places that values decide, where those of neighbouring elements lie at equal distances.

``x[s : s + 3]`` is read at s + [0, 1, 2][i]. With this as s + i, elements are read and written with
vectors, and the turns of a loop over `i` store to different places, so that their order is free.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from .buffers import MemoryKind
from .expressions import INDEX, Apply, Choose, Expr, IndexValue, Literal, Load, LoadAt, walk
from .indices import Affine, Var
from .kernels import Store


class EvenPlaces(NamedTuple):
    """Places of a row: where it starts, and how far they are from there: of all, between two
    bounds that there are."""

    start: Expr
    ahead: Affine
    bounds: tuple[int, int]


def row_at(place: Expr) -> EvenPlaces | None:
    """s + table[i], of a table like [5, 7, 9] and an `s` that is the same for all of it -> s, and
    5 + 2*i."""
    if not isinstance(place, Apply) or place.name != "add":
        return None
    for start, table in (place.args, place.args[::-1]):
        steps = _steps(table)
        if steps is not None and variables_in([start]).isdisjoint(variables_in([table])):
            assert isinstance(table, Load)
            ends = steps[0], steps[-1]
            return EvenPlaces(start, table.at * steps.step + steps.start, (min(ends), max(ends)))
    return None


def _steps(table: Expr) -> range | None:
    """All of a constant, where its elements are at equal distances."""
    if not isinstance(table, Load) or table.dtype != INDEX:
        return None
    buffer = table.buffer
    if buffer.kind is not MemoryKind.CONSTANT or buffer.base is not None or buffer.size < 2:
        return None
    first, second = map(int, buffer.value.flat[:2])
    step = second - first
    line = range(first, first + step * buffer.size, step) if step else ()
    return line if line and np.array_equal(buffer.value.ravel(), line) else None


def variables_in(roots: Iterable[Expr]) -> set[Var]:
    """The loop variables that expressions depend on."""
    found: set[Var] = set()
    for expr in walk(roots):
        if isinstance(expr, (Load, LoadAt, IndexValue)):
            found |= {var for var, _ in expr.at.terms}
        elif isinstance(expr, Choose):
            found |= {var for var, _ in expr.test.at.terms}
    return found


def are_apart(store: Store, variables: Iterable[Var]) -> bool:
    """Whether surely all turns of these loops store to different places."""
    loops = {var for var in variables if var.extent != 1}
    at = Affine(0, tuple(term for term in store.at.terms if term[0] in loops))
    moved = variables_in(pick for pick, _ in store.picks)
    return len(at.terms) == len(loops) and at.is_one_to_one() and moved.isdisjoint(loops)


def same_place(one: Load | LoadAt | Store, other: Load | LoadAt | Store) -> bool:
    """Whether two accesses are surely to one element in every turn."""
    if one.buffer is not other.buffer or one.at != other.at or len(one.picks) != len(other.picks):
        return False
    pairs = zip(one.picks, other.picks, strict=True)
    return all(a[1] == b[1] and _alike(a[0], b[0], {}) for a, b in pairs)


def _alike(one: Expr, other: Expr, known: dict[tuple[Expr, Expr], bool]) -> bool:
    """Whether two expressions are the same, part by part."""
    if one is other:
        return True
    if (one, other) not in known:
        known[one, other] = _parts_are_alike(one, other, known)
    return known[one, other]


def _parts_are_alike(one: Expr, other: Expr, known: dict[tuple[Expr, Expr], bool]) -> bool:
    if type(one) is not type(other) or one.dtype != other.dtype:
        return False
    if isinstance(one, Apply) and isinstance(other, Apply):
        alike = one.name == other.name and len(one.args) == len(other.args)
        return alike and all(_alike(a, b, known) for a, b in zip(one.args, other.args, strict=True))
    if isinstance(one, Literal) and isinstance(other, Literal):
        return bool(one.value == other.value)
    if isinstance(one, IndexValue) and isinstance(other, IndexValue):
        return one.at == other.at
    return isinstance(one, Load) and isinstance(other, Load) and same_place(one, other)
