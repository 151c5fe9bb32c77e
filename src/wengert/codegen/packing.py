"""Copies of an operand in the order in which tiles read it.

A packed *panel* holds, for each position of the sums, the elements that one tile needs there, side
by side: a tile then walks through memory from one end to the other. A panel is filled in *strips*,
each one vector wide and as long as the sums. Where the source is contiguous along the innermost
sum instead, squares of elements are transposed in registers on the way; and a strip of a single
element's width that is contiguous on both sides is copied by vectors along its length.

A `Factor` that is an expression is computed on the way: every element once for each copy of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir

from ..loops import Contraction, Expr, Literal, Load, unchanging, walk
from ..schedule.plans import ONCE, Axis, Piece, Plan, VectorSegment, pieces_of
from .counted import counted_loop
from .expressions import Known, add_values, splats
from .lanes import transpose_square
from .llvm_types import I64, POINTER, as_i64, i32, i64, private_function
from .memory import Memory
from .scalars import Scalars
from .tiles import TileOperand
from .vectors import First, first_lanes

_ALIGNMENT = 64


def _is_like(one: Load, other: Load) -> bool:
    """Whether both read the same element."""
    same = one.buffer is other.buffer and one.at.constant == other.at.constant
    return same and dict(one.at.terms) == dict(other.at.terms)


class Factor:
    """What is packed: elements of an array, or an expression of elements of several.

    The first of them leads: its strides in the plan are the factor's own.
    """

    def __init__(self, kernel: Contraction, name: str, plan: Plan, has_fma: bool):
        self.name = name  # in the plan, "x" or "y"
        is_x = (name == "x") != plan.swapped
        self.value: Expr | None = kernel.x_value if is_x else kernel.y_value
        self.has_fma = has_fma
        self.dtypes: tuple[np.dtype, ...] = (plan.dtype,)
        self.numbers: tuple[int, ...] = ()  # of the accesses it reads
        self.reads: dict[tuple[Any, Any], int] = {}
        if self.value is None:
            return
        numbers = {place: number for number, place in enumerate(kernel.accesses())}
        lead = kernel.lead(is_x)
        loads = [expr for expr in walk([self.value]) if isinstance(expr, Load)]
        loads.sort(key=lambda load: not _is_like(load, lead))
        places = {(load.buffer, load.at): load for load in loads}
        self.numbers = tuple(numbers[place] for place in places)
        self.dtypes = tuple(load.dtype for load in places.values())
        self.reads = {place: read for read, place in enumerate(places)}

    def strides(self, axis: Axis) -> tuple[int, ...]:
        """Strides along an axis in each array that is read."""
        if self.value is None:
            return (axis.x if self.name == "x" else axis.y,)
        return tuple(axis.others[n] if axis.others else 0 for n in self.numbers)

    def sources(self, plain: ir.Value, others: Sequence[ir.Value]) -> list[ir.Value]:
        """Of all pointers those of the arrays that are read."""
        return [plain] if self.value is None else [others[number] for number in self.numbers]

    def compute(
        self,
        builder: ir.IRBuilder,
        width: int,
        read: Callable[[int], ir.Value],
        values: Sequence[Expr],
        known: Known,
    ) -> None:
        """Add values to what is known, from what is read of each array."""

        def leaf(expr: Expr) -> ir.Value:
            return read(self._number(expr))

        add_values(Scalars(builder, width, self.has_fma), values, known, leaf)

    def without(self, changing: Sequence[bool]) -> list[Expr]:
        """The parts of the expression that read none of the arrays that are said to change."""
        assert self.value is not None

        def changes(expr: Expr) -> bool:
            return isinstance(expr, Load) and changing[self._number(expr)]

        found = unchanging([self.value], changes)
        return [expr for expr in found if not isinstance(expr, Literal)]

    def _number(self, expr: Expr) -> int:
        assert isinstance(expr, Load)
        return self.reads[expr.buffer, expr.at]


@dataclass(frozen=True)
class Read:
    """How one array is read: strides from lane to lane, of the sums, and from strip to strip."""

    dtype: np.dtype
    stride: int
    strides: tuple[int, ...]
    next: int = 0


@dataclass(frozen=True)
class Strip:
    """A vector of elements for each position of the sums."""

    width: int  # lanes written
    count: int  # lanes read; the others are zero, or whatever is computed from zeros
    pitch: int  # from one position of the sums to the next in the panel
    extents: tuple[int, ...]  # of the sums
    lanes: int  # of a whole vector
    reads: tuple[Read, ...]
    factor: Factor | None = None  # where the elements have to be computed
    repeats: int = 1  # so many strips like this one after the other
    next: int = 0  # from strip to strip in the panel

    @property
    def stride(self) -> int:
        """From lane to lane in the array that leads."""
        return self.reads[0].stride

    @property
    def along(self) -> int:
        """From one position of the innermost sum to the next, in the array that leads."""
        return self.reads[0].strides[-1]

    @property
    def sums(self) -> tuple[int, ...]:
        """Strides of the sums in the panel."""
        return packed_strides(self.extents, self.pitch)


def packed_strides(extents: Sequence[int], pitch: int) -> tuple[int, ...]:
    """Strides of the sums in a panel that has `pitch` elements for each position.

    >>> packed_strides((5, 3, 3), 32)
    (288, 96, 32)
    """
    return tuple(pitch * prod(extents[level + 1 :]) for level in range(len(extents)))


class Placed(NamedTuple):
    """A strip and where it is: the first element in each array, and in the panel."""

    sources: list[int]
    place: int
    strip: Strip


# ---------------------------------------------------------------- where panels lie


class Layout:
    """Panels of packed operands and their places in the scratch memory, counted in elements."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.extents = tuple(axis.extent for axis in plan.sums)
        self.steps = prod((plan.block or self.extents[0], *self.extents[1:]))
        self.column_pitch = self.row_pitch = self.columns = self.rows = 0
        if plan.pack_y:
            widths = [self.across(vectors) for vectors in plan.vector_segments]
            most = plan.column_segments[0].size
            self.column_pitch = self._aligned(max(widths) * most * self.steps)
            tiles = sum(segment.tiles for segment in plan.column_segments)
            self.columns = tiles * plan.column_block * self.column_pitch
        if plan.pack_x:
            rows = plan.row_segments[0].size
            last = pieces_of(rows, plan.lanes, plan.masked)[-1]
            self.row_pitch = self._aligned((last.start + last.width) * self.row_length)
            tiles = max(segment.tiles for segment in plan.row_segments)
            self.rows = min(plan.row_block, tiles) * self.row_pitch
        self.totals = self.columns + self.rows  # where they begin
        end = self.totals + (self._aligned(plan.span) if plan.gathered else 0)
        self.bytes = end * plan.dtype.itemsize

    def _aligned(self, elements: int) -> int:
        unit = _ALIGNMENT // self.plan.dtype.itemsize
        return -(-elements // unit) * unit

    @property
    def row_length(self) -> int:
        """Elements of one packed row; a line more than needed, against conflicts in the cache."""
        return self._aligned(self.steps) + _ALIGNMENT // self.plan.dtype.itemsize

    @staticmethod
    def across(vectors: VectorSegment) -> int:
        """Elements of the vectors of a tile side by side."""
        return max(piece.start + piece.width for piece in vectors.pieces)

    def _strip(self, piece: Piece, lanes: Axis, pitch: int, factor: Factor) -> Strip:
        """The strip of one vector, whose lanes run along an axis."""
        sums = zip(*[factor.strides(axis) for axis in self.plan.sums], strict=True)
        kinds = zip(factor.dtypes, factor.strides(lanes), sums, strict=True)
        reads = tuple(Read(*kind) for kind in kinds)
        owner = None if factor.value is None else factor
        return Strip(piece.width, piece.count, pitch, self.extents, self.plan.lanes, reads, owner)

    def column_strips(
        self, columns: int, vectors: VectorSegment, factor: Factor
    ) -> Iterator[Placed]:
        """All strips of a panel of columns."""
        plan, across = self.plan, self.across(vectors)
        down, along = factor.strides(plan.column), factor.strides(plan.vector)
        for c in range(columns):
            for piece in vectors.pieces:
                strip = self._strip(piece, plan.vector, across * columns, factor)
                sources = [c * a + piece.start * b for a, b in zip(down, along, strict=True)]
                yield Placed(sources, c * across + piece.start, strip)

    def columns_of(self, columns: int, vectors: VectorSegment) -> TileOperand:
        """How a tile reads its packed columns."""
        across = self.across(vectors)
        strides = packed_strides(self.extents, across * columns)
        return TileOperand(across, 1, strides, padded=True)

    def row_strips(self, rows: int, factor: Factor) -> Iterator[Placed]:
        """All strips of a panel of rows.

        Rows that are contiguous along the sums stay rows, the others lie side by side.
        """
        plan, steps = self.plan, factor.strides(self.plan.row)
        if self.plan.whole_rows:
            one = self._strip(Piece(0, 1, 1), ONCE, 1, factor)
            reads = [replace(read, next=step) for read, step in zip(one.reads, steps, strict=True)]
            strip = replace(one, reads=tuple(reads), repeats=rows, next=self.row_length)
            yield Placed([0] * len(steps), 0, strip)
            return
        pieces = pieces_of(rows, plan.lanes, plan.masked)
        pitch = pieces[-1].start + pieces[-1].width
        for piece in pieces:
            strip = self._strip(piece, plan.row, pitch, factor)
            yield Placed([piece.start * step for step in steps], piece.start, strip)

    def rows_of(self, rows: int) -> TileOperand:
        """How a tile reads its packed rows."""
        if self.plan.whole_rows:
            return TileOperand(self.row_length, 0, packed_strides(self.extents, 1))
        last = pieces_of(rows, self.plan.lanes, self.plan.masked)[-1]
        return TileOperand(1, 0, packed_strides(self.extents, last.start + last.width))


# ---------------------------------------------------------------- code


def packing_of(module: ir.Module, dtype: np.dtype, strip: Strip) -> ir.Function:
    """``void pack(panel, steps, *sources)``: fill a strip for `steps` of the outermost sum.

    Made once in a module for all products that have such strips.
    """
    known: dict[Any, ir.Function] = module.__dict__.setdefault("packers", {})
    if (dtype, strip) not in known:
        name = f"product.pack{len(known)}"
        known[dtype, strip] = _StripEmitter(module, dtype, strip, name).emit()
    return known[dtype, strip]


Sources = Sequence[ir.Value]


class _StripEmitter:
    def __init__(self, module: ir.Module, dtype: np.dtype, strip: Strip, name: str):
        self.strip = strip
        kinds = [POINTER, I64, *[POINTER] * len(strip.reads)]
        self.function = private_function(module, name, kinds)
        self.function.args[0].add_attribute("noalias")  # what is the same for all is read once
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.memory = Memory(self.builder, dtype)
        self.memories = [Memory(self.builder, read.dtype) for read in strip.reads]
        self.same: Known = {}  # what is known before the innermost loop
        self.along = strip.along == 1 and strip.width == 1 and strip.pitch == 1
        self.transposed = strip.along == 1 and strip.stride != 1 and strip.width > 1

    def emit(self) -> ir.Function:
        panel, steps, *sources = self.function.args
        nexts = [read.next for read in self.strip.reads]

        def one(number: ir.Value) -> None:
            self._level(0, *self._further(number, panel, self.strip.next, sources, nexts), steps)

        counted_loop(self.builder, 0, self.strip.repeats, 1, one)
        self.builder.ret_void()
        return self.function

    def _level(self, level: int, panel: ir.Value, sources: Sources, steps: int | ir.Value) -> None:
        """The loops of the sums from `level` inwards."""
        strip, last = self.strip, level + 1 == len(self.strip.extents)

        def inside(position: ir.Value) -> None:
            to, at = self._moved(level, position, panel, sources)
            if last:
                self._copy(to, at, strip.width, strip.count)
            else:
                self._level(level + 1, to, at, strip.extents[level + 1])

        def several(position: ir.Value) -> None:
            to, at = self._moved(level, position, panel, sources)
            if self.along:
                self._copy(to, at, strip.lanes, strip.lanes)
            else:
                self._transpose(to, at)

        start: int | ir.Value = 0
        if last:
            self.same = self._same_along_the_sum(sources)
        if last and (self.along or self.transposed):
            together = strip.lanes if self.along else strip.width
            start = self._whole(steps, together)
            counted_loop(self.builder, 0, start, together, several)
            if self._has_partial_vector:
                here = self._moved(level, as_i64(start), panel, sources)
                self._partial_vector(start, steps, *here)
                return
        counted_loop(self.builder, start, steps, 1, inside)

    def _whole(self, steps: int | ir.Value, unit: int) -> int | ir.Value:
        """The largest multiple of a power of two that is not beyond `steps`."""
        if isinstance(steps, int):
            return steps - steps % unit
        return self.builder.and_(steps, i64(-unit))

    def _moved(
        self, level: int, position: ir.Value, panel: ir.Value, sources: Sources
    ) -> tuple[ir.Value, list[ir.Value]]:
        strides = [read.strides[level] for read in self.strip.reads]
        return self._further(position, panel, self.strip.sums[level], sources, strides)

    def _further(
        self,
        number: ir.Value,
        panel: ir.Value,
        stride: int,
        sources: Sources,
        strides: Sequence[int],
    ) -> tuple[ir.Value, list[ir.Value]]:
        """The places some strides further on in the panel and in the arrays."""
        moved = [
            memory.along(source, number, step)
            for memory, source, step in zip(self.memories, sources, strides, strict=True)
        ]
        return self.memory.along(panel, number, stride), moved

    # ------------------------------------------------------------ vectors

    def _copy(self, to: ir.Value, at: Sources, width: int, count: int) -> None:
        steps = [read.strides[-1] if self.along else read.stride for read in self.strip.reads]
        self.memory.store(self._vector(at, steps, width, count), to, 1, width)

    def _vector(
        self,
        at: Sources,
        steps: Sequence[int],
        width: int,
        count: int | First,
        lane: int | None = None,
    ) -> ir.Value:
        """`count` elements of the factor; `steps` lead from one to the next in each array.

        `lane`: these are of one line across the panel, along the sum.
        """
        factor, read = self.strip.factor, self._reader(at, steps, width, count)
        if factor is None:
            return read(0)
        assert factor.value is not None
        known = dict(self.same)
        if lane is not None:
            known = {key: self.builder.extract_element(v, i32(lane)) for key, v in known.items()}
        if self.along or lane is not None:
            known = splats(Scalars(self.builder, width, factor.has_fma), known)
        factor.compute(self.builder, width, read, [factor.value], known)
        return known[factor.value]

    def _reader(
        self, at: Sources, steps: Sequence[int], width: int, count: int | First
    ) -> Callable[[int], ir.Value]:
        """How a vector of each array is read; one scalar stands in all lanes."""

        def read(number: int) -> ir.Value:
            step = steps[number]
            return self.memories[number].read(at[number], step, width, count if step else width)

        return read

    def _same_along_the_sum(self, at: Sources) -> Known:
        """The parts of the factor that do not change along the innermost sum, computed before it.

        They are scalars if vectors run along that sum, else vectors across the panel.
        """
        factor, reads = self.strip.factor, self.strip.reads
        if factor is None:
            return {}
        width, count = (1, 1) if self.along else (self.strip.width, self.strip.count)
        values = factor.without([read.strides[-1] != 0 for read in reads])
        known: Known = {}
        read = self._reader(at, [read.stride for read in reads], width, count)
        factor.compute(self.builder, width, read, values, known)
        return {value: known[value] for value in values}

    @property
    def _has_partial_vector(self) -> bool:
        """Whether the last few of a row are computed together, where one by one would take long.

        A panel has room for a whole vector there, or the next row comes to lie upon what is not
        of this one.
        """
        steps = {read.strides[-1] for read in self.strip.reads}
        return self.along and self.strip.factor is not None and steps <= {0, 1}

    def _partial_vector(
        self, start: int | ir.Value, steps: int | ir.Value, to: ir.Value, at: Sources
    ) -> None:
        b, lanes = self.builder, self.strip.lanes
        if lanes == 1 or (isinstance(steps, int) and start == steps):
            return
        left = b.sub(as_i64(steps), as_i64(start))
        with b.if_then(b.icmp_signed(">", left, i64(0))):
            along = [read.strides[-1] for read in self.strip.reads]
            value = self._vector(at, along, lanes, first_lanes(b, lanes, left))
            self.memory.store(value, to, 1, lanes)

    def _transpose(self, to: ir.Value, at: Sources) -> None:
        """A square: vectors along the sum become vectors across the panel."""
        memory, strip = self.memory, self.strip
        side = strip.width
        nothing = ir.Constant(ir.VectorType(memory.element, side), None)
        steps = [read.strides[-1] for read in strip.reads]

        def row(lane: int) -> ir.Value:
            places = [
                near.at(place, lane * read.stride)
                for near, place, read in zip(self.memories, at, strip.reads, strict=True)
            ]
            return self._vector(places, steps, side, side, lane)

        rows = [row(lane) if lane < strip.count else nothing for lane in range(side)]
        for position, value in enumerate(transpose_square(self.builder, rows)):
            memory.store(value, memory.at(to, position * strip.pitch), 1, side)
