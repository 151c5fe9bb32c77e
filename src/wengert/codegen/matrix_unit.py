"""Tiles of products on the matrix unit (AMX).

The unit has eight tile registers of 16 rows of 64 bytes, and multiplies two of them into a third:
16 x 32 by 32 x 16 numbers in 16 cycles. A tile of a product is two by two registers of sums, and so
two of rows, two of columns. How many rows a register has is set beforehand (`emit_configuration`):
it takes no less time for fewer, but nothing is read or written beyond them.

The operands are panels of three bfloat16 parts (see `bfloat`). Of the nine products of parts the
six largest are added, the smallest first; the order is such that one register pair changes at a
time. Sums are float32 from the first to the last, so a tile behaves like those of `tiles`, has the
same arguments, and can be continued block by block. Where numbers are out of range for parts, the
plain code of `emit_plain_tile` takes its place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from llvmlite import ir

from .bfloat import LANES, STEP_BYTES
from .plans import Plan, Segment, VectorSegment
from .scalars import declare
from .strided import I64, POINTER, Memory, counted_loop, private_function
from .tiles import ADD_TO_RESULT, Operand, Shape, tile_of
from .unit_tiling import HALVES, PARTS, SUMS, TILE_BYTES

I8 = ir.IntType(8)
_ROWS, _COLUMNS = (4, 5), (6, 7)  # the registers of operands; those below are sums
# Parts of rows and columns, the smallest products first.
_ORDER = ((0, 2), (0, 1), (1, 1), (1, 0), (2, 0), (0, 0))
_CONFIGURATION_BYTES = 64
_FLOAT = np.dtype(np.float32)
_PLAIN_ROWS = 4


def halves_of(rows: int) -> tuple[int, ...]:
    """How the rows of a tile are divided between registers.

    >>> halves_of(25), halves_of(4)
    ((16, 9), (4,))
    """
    return (rows,) if rows <= LANES else (LANES, rows - LANES)


def register_of_sums(half: int, vector: int) -> int:
    """The register that holds sums."""
    return half * HALVES + vector


def emit_configuration(builder: ir.IRBuilder, module: ir.Module, rows: int) -> None:
    """Set the shapes of the registers for tiles of so many rows."""
    known: dict[int, ir.GlobalVariable] = module.__dict__.setdefault("matrix unit", {})
    if rows not in known:
        lines = [LANES] * 8
        for half, count in enumerate(halves_of(rows)):
            for register in (*(register_of_sums(half, v) for v in range(HALVES)), _ROWS[half]):
                lines[register] = count
        widths = [byte for _ in range(8) for byte in (TILE_BYTES // LANES, 0)]
        content = [1, *[0] * 15, *widths, *[0] * 16, *lines, *[0] * 8]
        kind = ir.ArrayType(I8, _CONFIGURATION_BYTES)
        place = ir.GlobalVariable(module, kind, f"product.configuration{rows}")
        place.linkage, place.global_constant = "internal", True
        place.initializer = ir.Constant(kind, content)
        known[rows] = place
    _call(builder, "ldtilecfg", [known[rows]])


def emit_release(builder: ir.IRBuilder) -> None:
    """Give the registers back: what they hold is no longer saved with the thread."""
    _call(builder, "tilerelease", [])


def _call(builder: ir.IRBuilder, name: str, args: list[ir.Value]) -> None:
    kinds = [POINTER if isinstance(arg.type, ir.PointerType) else arg.type for arg in args]
    function = declare(builder.module, f"llvm.x86.{name}", ir.FunctionType(ir.VoidType(), kinds))
    builder.call(function, args)


def _register(number: int) -> ir.Constant:
    return ir.Constant(I8, number)


# ---------------------------------------------------------------- tiles


def unit_tile_of(module: ir.Module, plan: Plan, rows: int, vectors: VectorSegment) -> ir.Function:
    """``void tile(out, pitch, x, y, steps, flags)`` from panels x and y, once for each shape."""
    known: dict[Any, ir.Function] = module.__dict__.setdefault("unit tiles", {})
    continues = bool(plan.block), plan.accumulates
    key = rows, vectors.pieces, continues
    if key not in known:
        name = f"product.unit{len(known)}"
        known[key] = _UnitTile(module, name, rows, vectors, *continues).emit()
    return known[key]


class _UnitTile:
    """Emits the function of one tile shape."""

    def __init__(
        self,
        module: ir.Module,
        name: str,
        rows: int,
        vectors: VectorSegment,
        in_blocks: bool,
        accumulates: bool,
    ):
        self.rows, self.halves, self.pieces = rows, halves_of(rows), vectors.pieces
        self.in_blocks, self.accumulates = in_blocks, accumulates
        kinds = [POINTER, I64, POINTER, POINTER, I64, I64]
        self.function = private_function(module, name, kinds)
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.memory = Memory(self.builder, _FLOAT)

    def emit(self) -> ir.Function:
        """The whole function."""
        b = self.builder
        out, pitch, x, y, steps, flags = self.function.args
        self.far = out, pitch
        self.near, self.pitch = out, pitch
        if self.pieces[-1].count < LANES:
            self.near, self.pitch = self._room(), ir.Constant(I64, HALVES * LANES)
        self._begin(flags)
        blocks = b.lshr(b.add(steps, ir.Constant(I64, SUMS - 1)), ir.Constant(I64, 5))
        counted_loop(b, ir.Constant(I64, 0), blocks, 1, lambda number: self._step(number, x, y))
        self._each_register("tilestored64")
        if self.near is not out:
            self._copy(self.near, self.pitch, *self.far)
        b.ret_void()
        return self.function

    def _begin(self, flags: ir.Value) -> None:
        """Sums begin with zero, or with what is in the result."""
        if self.accumulates and not self.in_blocks:
            self._load()
        elif not self.in_blocks:
            self._zero()
        else:
            b = self.builder
            add = b.and_(flags, ir.Constant(I64, ADD_TO_RESULT))
            with b.if_else(b.icmp_unsigned("!=", add, ir.Constant(I64, 0))) as (then, otherwise):
                with then:
                    self._load()
                with otherwise:
                    self._zero()

    def _load(self) -> None:
        if self.near is not self.far[0]:
            self._copy(*self.far, self.near, self.pitch)
        self._each_register("tileloadd64")

    def _zero(self) -> None:
        for half in range(len(self.halves)):
            for vector in range(len(self.pieces)):
                _call(self.builder, "tilezero", [_register(register_of_sums(half, vector))])

    def _each_register(self, name: str) -> None:
        """Load or store all registers of sums."""
        b = self.builder
        stride = b.mul(self.pitch, ir.Constant(I64, _FLOAT.itemsize))
        for half in range(len(self.halves)):
            start = self.memory.at(self.near, b.mul(self.pitch, ir.Constant(I64, half * LANES)))
            for vector, piece in enumerate(self.pieces):
                place = self.memory.at(start, piece.start)
                _call(b, name, [_register(register_of_sums(half, vector)), place, stride])

    def _step(self, number: ir.Value, x: ir.Value, y: ir.Value) -> None:
        """32 sums: six products of parts."""
        b = self.builder
        offset = b.mul(number, ir.Constant(I64, STEP_BYTES))
        panels = [b.gep(panel, [offset], source_etype=I8) for panel in (x, y)]
        held: list[int | None] = [None, None]
        registers = _ROWS[: len(self.halves)], _COLUMNS[: len(self.pieces)]
        stride = ir.Constant(I64, TILE_BYTES // LANES)
        for parts in _ORDER:
            for side, part in enumerate(parts):
                if held[side] == part:
                    continue
                held[side] = part
                for half, register in enumerate(registers[side]):
                    place = ir.Constant(I64, (half * PARTS + part) * TILE_BYTES)
                    at = b.gep(panels[side], [place], source_etype=I8)
                    _call(b, "tileloadd64", [_register(register), at, stride])
            for half, row in enumerate(registers[0]):
                for vector, column in enumerate(registers[1]):
                    sums = register_of_sums(half, vector)
                    _call(b, "tdpbf16ps", [_register(k) for k in (sums, row, column)])

    # ------------------------------------------------------------ results that end within a vector

    def _room(self) -> ir.Value:
        count = self.rows * HALVES * LANES
        room = self.builder.alloca(ir.ArrayType(self.memory.element, count))
        room.align = 64
        room.type = POINTER
        return room

    def _copy(
        self, source: ir.Value, source_pitch: ir.Value, to: ir.Value, to_pitch: ir.Value
    ) -> None:
        """Copy the tile, without what is beyond its last column."""
        b, memory = self.builder, self.memory

        def line(number: ir.Value) -> None:
            here = memory.at(source, b.mul(number, source_pitch))
            there = memory.at(to, b.mul(number, to_pitch))
            for piece in self.pieces:
                value = memory.load(memory.at(here, piece.start), 1, LANES, piece.count)
                memory.store(value, memory.at(there, piece.start), 1, piece.count)

        counted_loop(b, 0, self.rows, 1, line)


# ---------------------------------------------------------------- numbers that are out of range


def emit_plain_tile(
    builder: ir.IRBuilder,
    module: ir.Module,
    plan: Plan,
    rows: Segment,
    vectors: VectorSegment,
    args: list[ir.Value],
) -> None:
    """The tile from x and y as they lie in memory, by ordinary multiply-adds.

    The arguments are those of a tile. This is the way for infinities and the like: small code that
    takes a few rows and one vector at a time.
    """
    b = builder
    out, pitch, x, y, steps, flags = args
    memory = Memory(b, plan.dtype)
    x_operand = Operand(plan.row.x, plan.vector.x, tuple(axis.x for axis in plan.sums))
    y_operand = Operand(plan.column.y, plan.vector.y, tuple(axis.y for axis in plan.sums))

    def some(count: int, first: ir.Value) -> None:
        here = memory.at(out, b.mul(first, pitch))
        x_here = memory.at(x, b.mul(first, ir.Constant(I64, plan.row.x)))
        for piece in vectors.pieces:
            one = replace(piece, start=0)
            tile = tile_of(module, plan, True, Shape(count, 1, (one,), x_operand, y_operand))
            y_here = memory.at(y, piece.start * plan.vector.y)
            b.call(tile, [memory.at(here, piece.start), pitch, x_here, y_here, steps, flags])

    whole = rows.size - rows.size % _PLAIN_ROWS
    counted_loop(b, 0, whole, _PLAIN_ROWS, lambda first: some(_PLAIN_ROWS, first))
    counted_loop(b, whole, rows.size, 1, lambda first: some(1, first))
