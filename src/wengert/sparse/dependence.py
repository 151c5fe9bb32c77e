"""Which elements of a value depend on which columns, as boolean matrices that stay small.

The dependence of a value is a tuple of `Lines`; an element depends on what any of them says. One
`Lines` is a sparse boolean matrix and, for each element, the number of its row in it, or -1 for
none. So whatever only moves elements moves numbers, and a sum over everything that is broadcast to
a million elements is one row, read a million times. Matrices are multiplied where elements are
combined.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..errors import MissingPackageError, OptionError, explain

# More matrices than this are made one, if that is not much larger.
_MANY = 48
# A pattern with more entries than this is not worth being called sparse.
_MOST_ENTRIES = 1 << 29


def scipy_sparse(name: str = "sparse_jacobian") -> Any:
    """SciPy's sparse matrices, or a clear error without SciPy."""
    try:
        import scipy.sparse
    except ImportError:
        raise MissingPackageError(
            explain(
                name,
                "SciPy is not installed",
                "Install it: pip install scipy, or pip install 'wengert[sparse]'.",
            )
        ) from None
    return scipy.sparse


class Lines:
    """For each element a row of a boolean matrix."""

    def __init__(self, base: Any, rows: np.ndarray):
        self.base = base
        self.rows = rows

    @functools.cached_property
    def key(self) -> tuple[int, int, int]:
        """Equal for equal lines, and hardly ever for others."""
        return id(self.base), self.rows.size, hash(self.rows.tobytes())

    def is_like(self, other: Lines) -> bool:
        """Whether both say the same in the same way."""
        return self.base is other.base and np.array_equal(self.rows, other.rows)

    @property
    def entries(self) -> int:
        """How many entries the matrix with a row for each element has."""
        lengths = np.append(np.diff(self.base.indptr), 0)  # the last is for row -1: none
        return int(lengths[self.rows].sum())


Dependence = tuple[Lines, ...]
NONE: Dependence = ()


def sources(sizes: Sequence[int]) -> list[Dependence]:
    """The dependence of inputs of these sizes: each element on a column of its own."""
    total, start, found = sum(sizes), 0, []
    for size in sizes:
        base = scipy_sparse().eye_array(size, total, k=start, dtype=bool, format="csr")
        found.append((Lines(base, np.arange(size)),) if size else NONE)
        start += size
    return found


def select(given: Dependence, numbers: np.ndarray) -> Dependence:
    """Elements that are moved: to each the number of the one it was, or -1."""
    numbers = numbers.ravel()
    absent = numbers < 0
    partly = absent.any()
    found = []
    for one in given:
        rows = one.rows[numbers]
        if partly:
            rows[absent] = -1
        if rows.size and rows.max() >= 0:
            found.append(Lines(one.base, rows))
    return tuple(found)


def combine(given: Dependence, places: np.ndarray, elements: np.ndarray, count: int) -> Dependence:
    """`count` elements, where element ``elements[k]`` has a part in the one at ``places[k]``."""
    sparse = scipy_sparse()
    found = []
    for one in given:
        rows = one.rows[elements]
        kept = rows >= 0
        pairs = (places[kept], rows[kept])
        marks = np.ones(len(pairs[0]), bool)
        weights = sparse.csr_array((marks, pairs), shape=(count, one.base.shape[0]))
        weights.sum_duplicates()
        lengths = np.diff(weights.indptr)
        if not weights.nnz:
            continue
        if lengths.max() == 1:  # each has one row still
            chosen = np.full(count, -1)
            chosen[lengths > 0] = weights.indices
            found.append(Lines(one.base, chosen))
        else:
            found.append(Lines(weights @ one.base, np.arange(count)))
    return tuple(found)


def union(*given: Dependence) -> Dependence:
    """The dependence on all of these together."""
    found: dict[Any, Lines] = {}
    for one in (line for lines in given for line in lines):
        like = found.setdefault(one.key, one)
        if not like.is_like(one):
            found[one.key, id(one)] = one
    lines = tuple(found.values())
    return _merged(lines) if len(lines) > _MANY else lines


def _merged(lines: Dependence) -> Dependence:
    """The same in one matrix, unless rows that many elements share would be written out."""
    count = lines[0].rows.size
    written, now = sum(one.entries for one in lines), sum(one.base.nnz for one in lines)
    if written > 8 * (now + count * len(lines)):
        return lines
    return compact(lines)


def everything(given: Iterable[Dependence], count: int) -> Dependence:
    """`count` elements, each of which depends on all that there is."""
    found = [
        combine((one,), np.zeros(one.rows.size, int), np.arange(one.rows.size), 1)
        for lines in given
        for one in lines
    ]
    return select(union(*found), np.zeros(count, int)) if count else NONE


def matrix(given: Dependence, count: int) -> Any:
    """The dependence of `count` elements as one boolean matrix with a row for each."""
    sparse = scipy_sparse()
    entries = sum(one.entries for one in given)
    if entries > _MOST_ENTRIES:
        raise OptionError(
            explain(
                "sparsity",
                f"the pattern has {entries:,} entries, which is hardly sparse",
                "Take wg.jacobian or wg.hvp, or give a pattern that you know: sparsity=...",
            )
        )
    if len(given) == 1 and np.array_equal(given[0].rows, np.arange(given[0].base.shape[0])):
        return given[0].base
    rows, columns = [np.zeros(0, int)], [np.zeros(0, int)]
    for base, numbers in _by_base(given):
        shape = (count, base.shape[0])
        chosen = sparse.csr_array((np.ones(len(numbers[0]), bool), numbers), shape=shape)
        found = (chosen @ base).tocoo()
        rows.append(found.coords[0])
        columns.append(found.coords[1])
    pairs = (np.concatenate(rows), np.concatenate(columns))
    width = given[0].base.shape[1] if given else 0
    made = sparse.csr_array((np.ones(len(pairs[0]), bool), pairs), shape=(count, width))
    made.sum_duplicates()
    return made


def _by_base(given: Dependence) -> list[tuple[Any, tuple[np.ndarray, np.ndarray]]]:
    """Each matrix with the elements that have a row in it, and the numbers of these rows."""
    groups: dict[int, list[Lines]] = {}
    for one in given:
        groups.setdefault(id(one.base), []).append(one)
    found = []
    for lines in groups.values():
        elements = [np.flatnonzero(one.rows >= 0) for one in lines]
        rows = [one.rows[own] for one, own in zip(lines, elements, strict=True)]
        found.append((lines[0].base, (np.concatenate(elements), np.concatenate(rows))))
    return found


def compact(given: Dependence) -> Dependence:
    """The same with at most one matrix."""
    if len(given) < 2:
        return given
    count = given[0].rows.size
    return (Lines(matrix(given, count), np.arange(count)),)
