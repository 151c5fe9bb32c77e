"""Small products written out: a matrix times a vector, or two vectors, without loops or calls.

A network that sees one sample at a time consists of these, and what a product costs there is not
its arithmetic but everything around it: loops of two turns, tiles that leave their sums in memory,
an epilogue for each of them. So all sums stay in registers, and the epilogue runs over as many of
them at once as a vector has lanes. There are two ways, and the cheaper one is taken:

- *across* the results: one lane a result, `sum += x[k] * y[k, lanes]`, in a few independent chains;
- *along* the sum: one vector a result, `x[lanes] * y[r, lanes]`, whose lanes have to be added. That
  is done for as many results as there are lanes, by a tree of shuffles that halves their number
  again and again and ends with one vector of all sums, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf

import numpy as np
from llvmlite import ir

from ..loops import Contraction
from ..machine import policy
from ..schedule.plans import ONCE, Axis, Piece, axes_of, pieces_of
from .epilogue import Stores
from .lanes import Loads, multiply_add, widened
from .llvm_types import POINTER, private_function
from .memory import LARGEST_SHUFFLED
from .target import Target
from .vectors import lane_order, some_lanes

# Sums that are added up side by side, to wait for none of them.
_CHAINS, _MOST_CHAINS = 8, 4
# Bytes within which elements are moved most cheaply.
_SHORT_WAY = 16


@dataclass(frozen=True)
class Form:
    """How a product is written out."""

    kept: Axis
    summed: Axis
    lanes: int
    masked: bool
    along: bool
    steps: float


def unrolled_form(kernel: Contraction, target: Target) -> Form | None:
    """The cheaper way to write a product out; None if it is not of this kind, or not small."""
    dtypes = {kernel.out.dtype, kernel.x.dtype, kernel.y.dtype}
    if len(dtypes) > 1 or kernel.out.dtype not in (np.float32, np.float64):
        return None
    if kernel.accumulates or kernel.values or 0 in kernel.extents.values():
        return None
    axes = axes_of(kernel)
    kept = [axis for axis in axes if axis.kind != "sum"]
    summed = [axis for axis in axes if axis.kind == "sum"]
    if len(kept) > 1 or len(summed) > 1:
        return None
    own = kept[0] if kept else ONCE, summed[0] if summed else ONCE
    best = min(_across(*own, kernel, target), _along(*own, kernel, target), key=lambda f: f.steps)
    return best if best.steps <= policy().code.product_steps else None


def _across(kept: Axis, summed: Axis, kernel: Contraction, target: Target) -> Form:
    lanes, masked = target.lanes(kernel.out.dtype.itemsize), target.has_masks
    vectors = len(pieces_of(kept.extent, lanes, masked))
    loads = _load_steps(kept.x, lanes) + _load_steps(kept.y, lanes)
    return Form(kept, summed, lanes, masked, False, summed.extent * vectors * (1 + loads))


def _along(kept: Axis, summed: Axis, kernel: Contraction, target: Target) -> Form:
    most, masked = target.lanes(kernel.out.dtype.itemsize), target.has_masks
    lanes = min(most, 1 << (summed.extent - 1).bit_length())
    vectors = len(pieces_of(summed.extent, lanes, masked))
    steps: float = kept.extent * (2 * vectors + 3)
    if not {summed.x, summed.y} <= {0, 1} or lanes == 1:
        steps = inf
    return Form(kept, summed, lanes, masked, True, steps)


def _load_steps(stride: int, lanes: int) -> float:
    if stride in (0, 1):
        return 0.5 + 0.5 * stride
    return 2.0 * stride if 0 < stride <= LARGEST_SHUFFLED else 1.5 * lanes


def emit_unrolled(
    module: ir.Module, target: Target, kernel: Contraction, form: Form, name: str
) -> None:
    """Add ``void name(out, x, y, scratch, *others)``, which `emit_contraction` adds for others.

    It needs no scratch, and no memory for sums that have none of their own.
    """
    kinds = [POINTER] * (4 + len(kernel.accesses()))
    function = private_function(module, name, kinds)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    out, x, y, _, *others = function.args
    _Emitter(builder, kernel, form, target, (out, x, y), others).emit()
    builder.ret_void()


class _Emitter:
    """Emits one product into the current block of a builder."""

    def __init__(
        self,
        builder: ir.IRBuilder,
        kernel: Contraction,
        form: Form,
        target: Target,
        pointers: tuple[ir.Value, ir.Value, ir.Value],
        others: Sequence[ir.Value],
    ):
        self.builder, self.form, self.has_fma = builder, form, target.has_fma
        self.dtype = kernel.out.dtype
        self.memory = Loads(builder, self.dtype)
        self.out, self.x, self.y = pointers
        self.keeps_sums = kernel.keeps_sums
        self.stores = Stores(kernel, target.has_fma)
        self.others = others

    def emit(self) -> None:
        """All sums, and then all that is done with them."""
        sums = self._sums_along() if self.form.along else self._sums_across()
        kept = self.form.kept
        if self.keeps_sums:
            for piece, value in sums:
                place = self.memory.at(self.out, piece.start * kept.out)
                self.memory.store(value, place, kept.out, piece.count)
        if self.stores.stores:
            known = self.stores.same_for_all(self.builder, [kept], self.others)
            for piece, value in sums:
                self.stores.emit(self.builder, kept, piece, value, self.others, known)

    # ------------------------------------------------------------ across the results

    def _sums_across(self) -> list[tuple[Piece, ir.Value]]:
        form = self.form
        pieces = pieces_of(form.kept.extent, form.lanes, form.masked)
        chains = max(1, min(_MOST_CHAINS, _CHAINS // len(pieces)))
        totals: dict[Piece, list[ir.Value | None]] = {piece: [None] * chains for piece in pieces}
        for k in range(form.summed.extent):
            for piece, parts in totals.items():
                x = self._across(True, k, piece)
                y = self._across(False, k, piece)
                parts[k % chains] = self._multiply_add(x, y, parts[k % chains])
        return [(piece, self._total(parts)) for piece, parts in totals.items()]

    def _across(self, is_x: bool, k: int, piece: Piece) -> ir.Value:
        """Element k of the sum, for the results of a piece."""
        kept, summed = self.form.kept, self.form.summed
        pointer, stride, step = (self.x, kept.x, summed.x) if is_x else (self.y, kept.y, summed.y)
        if stride == 0:  # one scalar, in lanes that are not stored as well
            return self.memory.load_once(pointer, k * step, 0, piece.width, piece.width)
        place = self.memory.at(pointer, k * step + piece.start * stride)
        return self.memory.load_every(place, stride, piece.width, piece.count)

    # ------------------------------------------------------------ along the sum

    def _sums_along(self) -> list[tuple[Piece, ir.Value]]:
        form, count = self.form, self.form.kept.extent
        found: list[tuple[Piece, ir.Value]] = []
        for first in range(0, count, form.lanes):
            rows = min(form.lanes, count - first)
            value = self._tree(first, rows, form.lanes)
            if form.masked:
                found.append((Piece(first, form.lanes, rows), value))
                continue
            for piece in pieces_of(rows, form.lanes, False):
                moved = Piece(first + piece.start, piece.width, piece.count)
                part = some_lanes(self.builder, value, piece.start, piece.width)
                found.append((moved, part))
        return found

    def _tree(self, first: int, rows: int, leaves: int) -> ir.Value:
        """The rows from `first` on; of `leaves` lanes, each holds a part of the sum of one row."""
        if leaves == 1:
            return self._row(first)
        half = leaves // 2
        left = self._tree(first, min(rows, half), half)
        right = self._tree(first + half, rows - half, half) if rows > half else None
        return self._halved(left, right, half)

    def _halved(self, left: ir.Value, right: ir.Value | None, rows: int) -> ir.Value:
        """Two vectors with parts of the sums of `rows` rows each -> one with those of all."""
        b, lanes = self.builder, self.form.lanes
        other = ir.Constant(left.type, ir.Undefined) if right is None else right
        low, high = _halves(lanes, min(lanes, _SHORT_WAY // self.dtype.itemsize), rows)
        parts = [b.shuffle_vector(left, other, lane_order(order)) for order in (low, high)]
        return b.fadd(*parts)

    def _row(self, row: int) -> ir.Value:
        """The products of one result, on all lanes."""
        form, b = self.form, self.builder
        total: ir.Value | None = None
        for piece in pieces_of(form.summed.extent, form.lanes, form.masked):
            x, y = self._part(True, row, piece), self._part(False, row, piece)
            if piece.width == form.lanes:
                total = self._multiply_add(x, y, total)
            else:
                part = widened(b, b.fmul(x, y), form.lanes)
                total = part if total is None else b.fadd(total, part)
        assert total is not None
        return total

    def _part(self, is_x: bool, row: int, piece: Piece) -> ir.Value:
        """A vector of an operand along the sum; lanes beyond its end are zero."""
        kept, summed = self.form.kept, self.form.summed
        pointer, stride, step = (self.x, summed.x, kept.x) if is_x else (self.y, summed.y, kept.y)
        offset = row * step + piece.start * stride
        return self.memory.load_once(pointer, offset, stride, piece.width, piece.count)

    def _multiply_add(self, x: ir.Value, y: ir.Value, total: ir.Value | None) -> ir.Value:
        return multiply_add(self.builder, x, y, total, self.has_fma)

    def _total(self, parts: Sequence[ir.Value | None]) -> ir.Value:
        """The sum of the chains, by halves."""
        values = [part for part in parts if part is not None]
        while len(values) > 1:
            half = ceil(len(values) / 2)
            added = [self.builder.fadd(*pair) for pair in zip(values, values[half:], strict=False)]
            values = added + values[len(added) : half]
        return values[0]


def _halves(lanes: int, short: int, rows: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Which lanes of two vectors are added, so that both halves of each sum meet.

    Up to `short` lanes rows take turns lane by lane, and the two halves of what there is of a row
    lie within `short` lanes: such lanes are moved in one instruction. Beyond, all lanes of `short`
    rows lie together, and the two halves are in different runs.

    >>> _halves(4, 4, 1)
    ((0, 4, 1, 5), (2, 6, 3, 7))
    >>> _halves(4, 4, 2)
    ((0, 1, 4, 5), (2, 3, 6, 7))
    >>> _halves(8, 4, 4)
    ((0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15))
    """
    sides: list[list[int]] = [[], []]
    if rows < short:
        half = short // 2
        for start in range(0, lanes, short):
            for side in (0, 1):
                for unit in range(0, half, rows):
                    for vector in (0, lanes):
                        first = vector + start + side * half + unit
                        sides[side] += range(first, first + rows)
        return tuple(sides[0]), tuple(sides[1])
    # each of the chunks in a vector is a group of `short` rows, in so many lanes
    chunk = lanes * short // rows
    for vector in (0, lanes):
        for start in range(0, lanes, chunk):
            for side in (0, 1):
                first = vector + start + side * chunk // 2
                sides[side] += range(first, first + chunk // 2)
    return tuple(sides[0]), tuple(sides[1])
