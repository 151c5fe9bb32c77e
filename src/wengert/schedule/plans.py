"""What a product of two arrays consists of, and how its axes are covered by tiles.

Every loop of ``out = sum of x * y`` is an `Axis` with a stride in each of the three arrays, and
its strides alone say what it is:

- *sum*: not in the result; *row*: in x and the result; *column*: in y and the result;
- *batch*: in all three (or in the result alone).

One axis is the *vector axis*, and everything else follows from it. An array that has no stride
along it gives one scalar for all lanes, stride 1 is a vector load, any other stride is gathered,
and a vector axis that is summed over leaves the lanes to be added at the end. So matrix products,
matrix-vector products, dot products, outer products and convolutions need no cases of their own.

A *tile* is what stays in registers while the sums run: some rows by some columns by some vectors.
Tiles cover an axis evenly, in two sizes that differ by one, so that no thin tile is left over.
A `Plan` is all that is decided about one product; `tiling` decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, isqrt, prod

import numpy as np

from ..loops import Contraction
from ..machine import policy


@dataclass(frozen=True)
class Axis:
    """A loop and its element strides in the three arrays, and in all else that is accessed."""

    extent: int
    out: int = 0
    x: int = 0
    y: int = 0
    others: tuple[int, ...] = ()

    @property
    def kind(self) -> str:
        """What the strides make of it: "sum", "row", "column" or "batch"."""
        if self.out == 0:
            return "sum"
        if self.y == 0 and self.x != 0:
            return "row"
        return "column" if self.x == 0 and self.y != 0 else "batch"

    def swapped(self) -> Axis:
        """The axis with x and y exchanged."""
        return replace(self, x=self.y, y=self.x)

    def times(self, count: int) -> tuple[int, ...]:
        """How far apart `count` steps are, in all arrays."""
        return tuple(count * stride for stride in (self.out, self.x, self.y, *self.others))


ONCE = Axis(1)


@dataclass(frozen=True)
class Piece:
    """One vector of a tile: `width` lanes from element `start`, of which `count` are real."""

    start: int
    width: int
    count: int


@dataclass(frozen=True)
class Segment:
    """A run of equal tiles along an axis: the first position, how many, positions in each."""

    start: int
    tiles: int
    size: int


@dataclass(frozen=True)
class VectorSegment:
    """A run of equal tiles along the vector axis: the first element, how many, their vectors."""

    start: int
    tiles: int
    size: int  # elements from one tile to the next
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Tile:
    """Rows by columns by vectors; `chains` are independent partial sums along a summed vector."""

    rows: int
    columns: int
    vectors: int
    chains: int = 1


@dataclass(frozen=True)
class Plan:
    """All that is decided about one contraction."""

    dtype: np.dtype
    lanes: int
    masked: bool  # whether partial vectors are loaded and stored under a mask
    swapped: bool  # whether x and y change roles
    vector: Axis
    row: Axis
    column: Axis
    batch: tuple[Axis, ...]
    extra_columns: tuple[Axis, ...]
    extra_rows: tuple[Axis, ...]
    sums: tuple[Axis, ...]  # without the vector axis; the innermost last
    tile: Tile
    cycles: float
    pack_x: bool = False
    pack_y: bool = False
    block: int = 0  # positions of the outermost sum worked on at a time (0: all)
    row_block: int = 1  # row tiles packed at a time; more than one means more than L1 holds
    column_block: int = 1  # vector tiles packed at a time
    empty: bool = False  # nothing is summed: the result is zero
    accumulates: bool = False  # the sums are added to what the result holds

    @property
    def along_sum(self) -> bool:
        """Whether the vector axis is summed over."""
        return self.vector.out == 0 and self.vector is not ONCE

    @property
    def outer(self) -> tuple[Axis, ...]:
        """The loops around the tiles."""
        return (*self.batch, *self.extra_columns, *self.extra_rows)

    @property
    def shares_panels(self) -> bool:
        """Whether both factors can be packed before, each element once for the whole product."""
        return self.pack_x and self.pack_y and not self.outer

    @property
    def whole_rows(self) -> bool:
        """Whether a packed row lies in one piece."""
        return self.sums[-1].x == 1

    @property
    def row_segments(self) -> tuple[Segment, ...]:
        """The tiles along the rows."""
        return even_segments(self.row.extent, self.tile.rows)

    @property
    def column_segments(self) -> tuple[Segment, ...]:
        """The tiles along the columns."""
        return even_segments(self.column.extent, self.tile.columns)

    @property
    def vector_segments(self) -> tuple[VectorSegment, ...]:
        """The tiles along the vector axis; one without vectors where that axis is summed."""
        if self.along_sum:
            return (VectorSegment(0, 1, 0, ()),)
        return vector_segments(self.vector.extent, self.lanes, self.tile.vectors, self.masked)

    @property
    def blocks(self) -> int:
        """How many blocks the sums are cut into."""
        return ceil(self.sums[0].extent / self.block) if self.block else 1

    @property
    def gathered(self) -> int:
        """How many blocks are added up before they go to a total; 0: there are no totals."""
        limits = policy().products
        if self.blocks <= limits.few_blocks:
            return 0
        rows = prod(axis.extent for axis in (self.row, *self.extra_rows))
        columns = prod(axis.extent for axis in (self.vector, self.column, *self.extra_columns))
        factors = prod(axis.extent for axis in (*self.sums, *self.batch)) * (rows + columns)
        return isqrt(self.blocks) if limits.small_result * self.span <= factors else 0

    @property
    def span(self) -> int:
        """Elements from the first of the result to the last."""
        axes = (self.vector, self.row, self.column, *self.outer)
        return 1 + sum((axis.extent - 1) * abs(axis.out) for axis in axes)


# ---------------------------------------------------------------- axes


def axes_of(kernel: Contraction) -> list[Axis]:
    """The loops of a contraction, merged where several are one loop in all arrays."""
    places = [at for _, at in kernel.accesses()]
    variables = kernel.variables
    axes = [
        Axis(
            extent,
            kernel.out_strides.get(label, 0),
            kernel.x_strides.get(label, 0),
            kernel.y_strides.get(label, 0),
            tuple(at.coefficient(variables[label]) if label in variables else 0 for at in places),
        )
        for label, extent in kernel.extents.items()
        if extent != 1
    ]
    return merge_axes(axes)


def merge_axes(axes: Sequence[Axis]) -> list[Axis]:
    """for i for j: a[i*n + j] -> for k: a[k], wherever the strides allow it.

    >>> merge_axes([Axis(4, 60, 0, 12), Axis(3, 20, 0, 4)])
    [Axis(extent=12, out=20, x=0, y=4, others=())]
    """
    found = list(axes)
    while True:
        pair = next(_mergeable(found), None)
        if pair is None:
            return found
        outer, inner = pair
        found[found.index(inner)] = replace(inner, extent=inner.extent * outer.extent)
        found.remove(outer)


def _mergeable(axes: Sequence[Axis]) -> Iterator[tuple[Axis, Axis]]:
    for outer in axes:
        for inner in axes:
            if outer is not inner and outer.times(1) == inner.times(inner.extent):
                yield outer, inner


# ---------------------------------------------------------------- covering an axis


def even_segments(extent: int, largest: int) -> tuple[Segment, ...]:
    """Cover an axis with tiles as equal as can be, the larger ones first.

    >>> even_segments(100, 14)
    (Segment(start=0, tiles=4, size=13), Segment(start=52, tiles=4, size=12))
    """
    tiles = ceil(extent / largest)
    size, larger = divmod(extent, tiles)
    found = [Segment(0, larger, size + 1), Segment(larger * (size + 1), tiles - larger, size)]
    return tuple(segment for segment in found if segment.tiles)


def vector_segments(
    extent: int, lanes: int, largest: int, masked: bool
) -> tuple[VectorSegment, ...]:
    """Cover the vector axis; a partial vector is in the last tile, or a tile of its own."""
    whole, rest = divmod(extent, lanes)
    tail = tail_pieces(0, rest, lanes, masked)
    joined = bool(rest) and masked
    vectors = whole + joined
    found: list[VectorSegment] = []
    if vectors:
        for segment in even_segments(vectors, largest):
            tiles = segment.tiles
            pieces = tuple(Piece(k * lanes, lanes, lanes) for k in range(segment.size))
            start, size = segment.start * lanes, segment.size * lanes
            if joined and segment.start + segment.tiles * segment.size == vectors:
                tiles -= 1
            if tiles:
                found.append(VectorSegment(start, tiles, size, pieces))
            if tiles < segment.tiles:
                shift = (segment.size - 1) * lanes
                # beside whole vectors as wide as they are, to share scalars on all lanes
                width = lanes if pieces[:-1] else tail[0].width
                last = Piece(shift, width, rest)
                found.append(VectorSegment(start + tiles * size, 1, size, (*pieces[:-1], last)))
    if rest and not joined:
        found.append(VectorSegment(whole * lanes, 1, rest, tail))
    return tuple(found)


def pieces_of(count: int, lanes: int, masked: bool) -> tuple[Piece, ...]:
    """Vectors for `count` elements side by side."""
    whole, rest = divmod(count, lanes)
    pieces = [Piece(k * lanes, lanes, lanes) for k in range(whole)]
    return (*pieces, *tail_pieces(whole * lanes, rest, lanes, masked))


def tail_pieces(start: int, count: int, lanes: int, masked: bool) -> tuple[Piece, ...]:
    """The last `count` elements: one vector under a mask, or vectors of halving widths.

    >>> tail_pieces(0, 5, 8, masked=False)
    (Piece(start=0, width=4, count=4), Piece(start=4, width=1, count=1))
    """
    pieces = []
    while count:
        width = 1 << (count - 1).bit_length() if masked else 1 << (count.bit_length() - 1)
        pieces.append(Piece(start, width, min(width, count)))
        start, count = start + width, max(count - width, 0)
    return tuple(pieces)
