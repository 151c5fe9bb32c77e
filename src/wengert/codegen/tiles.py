"""The code of one register tile: its sums run in registers, from the first product to the last.

A tile is a function of its own, ``void tile(out, pitch, x, y, steps, flags)``: it adds `steps`
positions of the outermost sum into the accumulators and stores them, `pitch` elements from row to
row. All products of a program whose tiles are alike share them. Each result element is a chain of
multiply-adds in the order of the sums (or, along a summed vector axis, a fixed set of chains). Long
chains are cut into runs, whose sums are added up by themselves (see `summation`); and when the sums
are cut into blocks, that of a block is added to what the earlier ones stored. The cuts depend on
the sums alone, so how the result is cut into tiles does not change a bit of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, prod
from typing import Any

from llvmlite import ir

from ..machine import policy
from ..schedule.plans import Axis, Piece, Plan, tail_pieces
from .counted import carried_loop, counted_loop
from .lanes import multiply_add, stack_memory, widened
from .llvm_types import I64, POINTER, as_i64, i64, private_function
from .memory import Memory
from .runs import FEW_RUNS, Runs
from .scalars import Scalars
from .summation import fold, settled
from .vectors import across_lanes, vector_type

# The flags of a tile; and in the first and last block of those that go to a total together.
ADD_TO_RESULT, LAST_BLOCK, FIRST_TOTAL, END_OF_TOTAL = 1, 2, 4, 8
# Sums from this length on are added to what the result holds; shorter ones begin with it.
_ADDED_AFTER = 64


@dataclass(frozen=True)
class TilePlace:
    """Where a value of a tile goes: `address` of its first element, and how many are real."""

    address: ir.Value
    stride: int
    width: int
    count: int


# ---------------------------------------------------------------- the tile


@dataclass(frozen=True)
class TileOperand:
    """How a tile reads x or y: strides along the tile's own axes and along the sums."""

    across: int  # from row to row (x) or from column to column (y)
    vector: int  # from lane to lane
    sums: tuple[int, ...]
    padded: bool = False  # whether lanes beyond the real ones may be read


@dataclass(frozen=True)
class Shape:
    """One tile to generate: its rows and columns, its vectors, and how it reads."""

    rows: int
    columns: int
    pieces: tuple[Piece, ...]
    x: TileOperand
    y: TileOperand


Sums = list[ir.Value]
Step = Callable[[ir.Value, ir.Value, Sums], Sums]


@dataclass(frozen=True)
class _Turns:
    """The loop of one sum: `trips` turns of `unroll` positions along an axis, what is done at each
    of them, how the loop is cut into runs, and what is left to do behind the last turn."""

    axis: Axis
    unroll: int
    trips: int | ir.Value
    inner: Step
    runs: Runs | None = None
    end: Step | None = None


def tile_of(
    module: ir.Module, plan: Plan, has_fma: bool, shape: Shape, total: bool = False
) -> ir.Function:
    """The function of one tile shape, made once in a module for all plans that have it.

    That for a `total` adds the sums of the blocks so far to it, which is the argument `x`.
    """
    known: dict[Any, ir.Function] = module.__dict__.setdefault("tiles", {})
    along = (plan.vector.extent, plan.vector.x, plan.vector.y) if plan.along_sum else None
    column = plan.column.out if shape.columns > 1 else 0
    sums = tuple(axis.extent for axis in plan.sums)
    key = (shape, plan.dtype, plan.lanes, plan.masked, plan.vector.out, along, column, sums,
           plan.tile.chains, plan.block, plan.empty, plan.accumulates, total)  # fmt: skip
    if key not in known:
        emitter = TileEmitter(module, plan, has_fma, shape, f"product.tile{len(known)}")
        known[key] = emitter.emit_total() if total else emitter.emit()
    return known[key]


class TileEmitter:
    """Emits the function of one tile shape."""

    def __init__(self, module: ir.Module, plan: Plan, has_fma: bool, shape: Shape, name: str):
        self.plan, self.shape, self.has_fma = plan, shape, has_fma
        kinds = [POINTER, I64, POINTER, POINTER, I64, I64]
        self.function = private_function(module, name, kinds)
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.memory = Memory(self.builder, plan.dtype)
        self.pieces = shape.pieces or (Piece(0, plan.lanes, plan.lanes),)
        self.chains = plan.tile.chains
        self.aside = self._room_aside()
        axes = [
            Axis(axis.extent, 0, x, y)
            for axis, x, y in zip(plan.sums, shape.x.sums, shape.y.sums, strict=True)
        ]
        self.axes = _merge_in_order(axes)

    def emit(self) -> ir.Function:
        """The whole function."""
        out, self.pitch, x, y, steps, flags = self.function.args
        sums = self._start(out)
        if not self.plan.empty:
            sums = self._outer_sum(x, y, sums, steps, flags)
        self._finish(out, sums, flags)
        self.builder.ret_void()
        return self.function

    def emit_total(self) -> ir.Function:
        """Add the sums to the total; after the last block that is the result."""
        b = self.builder
        out, self.pitch, total, _, _, flags = self.function.args
        sums = self._load(out)
        begins = self._flag(flags, FIRST_TOTAL)
        sums = self._where(b.not_(begins), lambda: self._added(total, sums), sums)
        self._store(sums, b.select(self._flag(flags, LAST_BLOCK), out, total))
        b.ret_void()
        return self.function

    # ------------------------------------------------------------ the places of a tile

    def _places(self, out: ir.Value) -> list[TilePlace]:
        """Where the results go, in the order of the accumulators (without chains)."""
        plan, shape, memory = self.plan, self.shape, self.memory
        rows = [out]
        for _ in range(1, shape.rows):
            rows.append(memory.at(rows[-1], self.pitch))
        return [
            TilePlace(
                memory.at(row, c * plan.column.out + p.start * plan.vector.out),
                plan.vector.out,
                1 if plan.along_sum else p.width,
                1 if plan.along_sum else p.count,
            )
            for row in rows
            for c in range(shape.columns)
            for p in self.pieces
        ]

    @property
    def _adds_after(self) -> bool:
        """Whether what the result holds is added to the sums, rather than being their start."""
        long = self.plan.along_sum or prod(axis.extent for axis in self.axes) >= _ADDED_AFTER
        return bool(self.plan.block) or (self.plan.accumulates and long)

    def _start(self, out: ir.Value) -> Sums:
        if self.plan.accumulates and not self._adds_after:
            return self._load(out)
        return [
            self._zero(piece.width)
            for _ in range(self.chains * self.shape.rows * self.shape.columns)
            for piece in self.pieces
        ]

    def _either(self, pair: tuple[ir.Value, ir.Value], first: Any, second: Any) -> ir.Value:
        phi = self.builder.phi(pair[0].type)
        phi.add_incoming(pair[0], first)
        phi.add_incoming(pair[1], second)
        return phi

    def _flag(self, flags: ir.Value, bit: int) -> ir.Value:
        b = self.builder
        return b.icmp_unsigned("!=", b.and_(flags, i64(bit)), i64(0))

    def _zero(self, width: int) -> ir.Constant:
        return ir.Constant(vector_type(self.memory.element, width), None)

    def _finish(self, out: ir.Value, sums: Sums, flags: ir.Value) -> None:
        if self.plan.along_sum:
            sums = self._joined(sums)
        if self.plan.block:
            again = self._flag(flags, ADD_TO_RESULT)
            sums = self._where(again, lambda: self._added(out, sums), sums)
        elif self._adds_after:
            sums = self._added(out, sums)
        self._store(sums, out)

    def _added(self, place: ir.Value, sums: Sums) -> Sums:
        held = self._load(place)
        return [self.builder.fadd(*pair) for pair in zip(held, sums, strict=True)]

    def _where(self, condition: ir.Value, change: Callable[[], Sums], sums: Sums) -> Sums:
        """What `change` makes of the sums where the condition holds."""
        b, before = self.builder, self.builder.block
        then, ready = b.append_basic_block("then"), b.append_basic_block("ready")
        b.cbranch(condition, then, ready)
        b.position_at_end(then)
        changed = change()
        end = b.block
        b.branch(ready)
        b.position_at_end(ready)
        return [self._either(pair, before, end) for pair in zip(sums, changed, strict=True)]

    def _store(self, sums: Sums, out: ir.Value) -> None:
        for value, place in zip(sums, self._near_places(out), strict=True):
            self.memory.store(value, place.address, place.stride, place.count)
        if self.aside is not None:
            self._move_aside(out, back=True)

    def _load(self, out: ir.Value) -> Sums:
        if self.aside is not None:
            self._move_aside(out, back=False)
        return [
            self.memory.load(place.address, place.stride, place.width, place.count)
            for place in self._near_places(out)
        ]

    # ------------------------------------------------------------ results with strides

    def _room_aside(self) -> ir.Value | None:
        """Memory for the tile where its results are scattered: a loop moves them one by one, since
        writing all of that out would be long code."""
        if self.plan.vector.out in (0, 1):
            return None
        return stack_memory(self.memory, self.shape.rows * self.shape.columns * self._across())

    def _across(self) -> int:
        return max(piece.start + piece.width for piece in self.pieces)

    def _near_places(self, out: ir.Value) -> list[TilePlace]:
        """Where vectors are loaded and stored: in the result, or aside."""
        places = self._places(out)
        if self.aside is None:
            return places
        starts = [
            line * self._across() + piece.start
            for line in range(self.shape.rows * self.shape.columns)
            for piece in self.pieces
        ]
        return [
            TilePlace(self.memory.at(self.aside, start), 1, place.width, place.width)
            for start, place in zip(starts, places, strict=True)
        ]

    def _move_aside(self, out: ir.Value, back: bool) -> None:
        """Copy the tile from the result to the room aside, or back."""
        plan, shape, b, memory = self.plan, self.shape, self.builder, self.memory
        real = self.pieces[-1].start + self.pieces[-1].count

        def row(r: ir.Value) -> None:
            far_row = memory.at(out, b.mul(r, self.pitch))
            near_row = memory.along(self.aside, r, shape.columns * self._across())

            def column(c: ir.Value) -> None:
                far = memory.along(far_row, c, plan.column.out)
                near = memory.along(near_row, c, self._across())

                def element(k: ir.Value) -> None:
                    ends = memory.along(near, k, 1), memory.along(far, k, plan.vector.out)
                    source, destination = ends if back else ends[::-1]
                    memory.store(memory.load(source, 1, 1, 1), destination, 1, 1)

                counted_loop(b, 0, real, 1, element)

            counted_loop(b, 0, shape.columns, 1, column)

        counted_loop(b, 0, shape.rows, 1, row)

    # ------------------------------------------------------------ the loops of the sums

    def _outer_sum(
        self, x: ir.Value, y: ir.Value, sums: Sums, steps: ir.Value, flags: ir.Value
    ) -> Sums:
        """The outermost sum: in blocks its length is an argument, else it is known."""
        axis, rest = self.axes[0], self.axes[1:]
        if not self.plan.block:
            return self._sum(0, x, y, sums)
        b = self.builder
        positions = b.mul(steps, i64(self._positions_a_step()))
        extent = self.plan.block * self._positions_a_step()
        if rest:
            turns = _Turns(axis, 1, positions, self._inner(0), self._runs(0, extent, 1))
            return self._loop(turns, x, y, sums)[2:]
        unroll = self._unroll(axis)
        trips = b.udiv(positions, i64(unroll))
        left = axis.extent % unroll

        def end(x: ir.Value, y: ir.Value, sums: Sums) -> Sums:
            return self._where(
                self._flag(flags, LAST_BLOCK),
                lambda: self._unrolled(turns, left, x, y, sums),
                sums,
            )

        runs = self._runs(0, extent, unroll)
        turns = _Turns(axis, unroll, trips, self._step, runs, end if left else None)
        return self._loop(turns, x, y, sums)[2:]

    def _positions_a_step(self) -> int:
        """How many positions of the outermost merged sum one of the plan's outermost is."""
        return self.axes[0].extent // self.plan.sums[0].extent

    def _unroll(self, axis: Axis) -> int:
        """Steps written out in one turn: few enough for the code, dividing the whole if any do."""
        if self.plan.along_sum:
            return 1
        products = self.shape.rows * self.shape.columns * len(self.pieces)
        limits = policy().products
        most = max(1, min(limits.unrolled_steps, limits.unrolled_products // products))
        if not {self.shape.x.vector, self.shape.y.vector} <= {0, 1}:
            most = 1  # gathered vectors make long code already
        if not self.plan.block and axis.extent <= 2 * most:
            return axis.extent
        # a block must consist of whole turns, one at least; without blocks that is only better
        whole = self.plan.block * self._positions_a_step() or axis.extent
        most = min(most, axis.extent % whole or most)
        divisor = next((n for n in range(most, 1, -1) if whole % n == 0), 1)
        return divisor if self.plan.block or divisor > 1 else most

    def _sum(self, level: int, x: ir.Value, y: ir.Value, sums: Sums) -> Sums:
        if level == len(self.axes):
            return self._step(x, y, sums)
        axis = self.axes[level]
        unroll = self._unroll(axis) if level == len(self.axes) - 1 else 1
        trips, left = divmod(axis.extent, unroll)

        def end(x: ir.Value, y: ir.Value, sums: Sums) -> Sums:
            return self._unrolled(turns, left, x, y, sums)

        runs = self._runs(level, axis.extent, unroll)
        turns = _Turns(axis, unroll, trips, self._inner(level), runs, end if left else None)
        return self._loop(turns, x, y, sums)[2:]

    def _inner(self, level: int) -> Step:
        """What is done at each position of a sum: one step, or the sums inside."""
        return lambda x, y, sums: self._sum(level + 1, x, y, sums)

    def _runs(self, level: int, extent: int, unroll: int) -> Runs | None:
        """How the loop of a sum is cut; None: it need not be, or the loops inside are."""
        each = prod(axis.extent for axis in self.axes[level + 1 :])
        if self.plan.along_sum:
            each *= ceil(self.plan.vector.extent / (self.plan.lanes * self.chains))
            return Runs.along(extent, each)
        return Runs.across(extent, each, unroll)

    def _unrolled(self, turns: _Turns, count: int, x: ir.Value, y: ir.Value, sums: Sums) -> Sums:
        for k in range(count):
            here = self.memory.at(x, k * turns.axis.x), self.memory.at(y, k * turns.axis.y)
            sums = turns.inner(*here, sums)
        return sums

    def _loop(self, turns: _Turns, x: ir.Value, y: ir.Value, sums: Sums) -> Sums:
        """All turns; where x and y end, and the sums."""
        if turns.runs is not None:
            return self._loop_of_runs(turns, turns.runs, x, y, sums)
        x, y, *sums = self._one_run(turns, turns.trips, x, y, sums)
        return [x, y, *(sums if turns.end is None else turns.end(x, y, sums))]

    def _loop_of_runs(
        self, turns: _Turns, runs: Runs, x: ir.Value, y: ir.Value, sums: Sums
    ) -> Sums:
        """Runs that begin with zeros, whose sums are added to those so far."""
        b, count, whole = self.builder, len(sums), i64(runs.turns)
        zeros = [ir.Constant(value.type, None) for value in sums]
        exact = runs.count > FEW_RUNS

        def run(now: Sums) -> tuple[Sums, ir.Value]:
            left, x, y, *held = now
            trips = b.select(b.icmp_unsigned("<", left, whole), left, whole)
            x, y, *parts = self._one_run(turns, trips, x, y, zeros)
            left = b.sub(left, trips)
            last = b.icmp_unsigned("==", left, i64(0))
            if turns.end is not None:
                end, partial = turns.end, parts
                parts = self._where(last, lambda: end(x, y, partial), partial)
            if exact:
                pairs = zip(held, held[count:], parts, strict=False)
                totals = [self._folded(*each) for each in pairs]
                after = [total for total, _ in totals] + [lost for _, lost in totals]
            else:
                after = [b.fadd(*pair) for pair in zip(held, parts, strict=True)]
            return [left, x, y, *after], b.not_(last)

        first = [*sums, *zeros] if exact else sums
        _, x, y, *after = carried_loop(b, [as_i64(turns.trips), x, y, *first], run, "run")
        if exact:
            pairs = zip(after, after[count:], strict=False)
            after = [settled(self._scalars(pair[0]), pair, self.plan.dtype) for pair in pairs]
        return [x, y, *after]

    def _folded(self, total: ir.Value, lost: ir.Value, part: ir.Value) -> tuple[ir.Value, ir.Value]:
        return fold(self._scalars(part), (total, lost), part, self.plan.dtype)

    def _scalars(self, value: ir.Value) -> Scalars:
        return Scalars.like(self.builder, value, self.has_fma)

    def _one_run(
        self, turns: _Turns, trips: int | ir.Value, x: ir.Value, y: ir.Value, sums: Sums
    ) -> Sums:
        """So many of the turns; where x and y end, and the sums."""
        b, memory, unroll = self.builder, self.memory, turns.unroll

        def turn(x: ir.Value, y: ir.Value, sums: Sums) -> Sums:
            sums = self._unrolled(turns, unroll, x, y, sums)
            return [memory.at(x, unroll * turns.axis.x), memory.at(y, unroll * turns.axis.y), *sums]

        def counted(now: Sums) -> tuple[Sums, ir.Value]:
            left, x, y, *sums = now
            after = turn(x, y, sums)
            left = b.sub(left, i64(1))
            return [left, *after], b.icmp_unsigned("!=", left, i64(0))

        if isinstance(trips, int) and trips <= 1:
            return turn(x, y, sums) if trips else [x, y, *sums]
        return carried_loop(b, [as_i64(trips), x, y, *sums], counted, "sum")[1:]

    # ------------------------------------------------------------ one step

    def _step(self, x: ir.Value, y: ir.Value, sums: Sums) -> Sums:
        """All products at one position of the sums."""
        if not self.plan.along_sum:
            return self._products(x, y, sums, self.pieces)
        return self._vector_sum(x, y, sums)

    def _vector_sum(self, x: ir.Value, y: ir.Value, sums: Sums) -> Sums:
        """The summed vector axis: whole vectors, one for each chain in turn, then the rest."""
        plan, lanes, vector = self.plan, self.plan.lanes, self.plan.vector
        count = len(sums) // self.chains
        full = (Piece(0, lanes, lanes),)

        def chained(x: ir.Value, y: ir.Value, sums: Sums, chains: int) -> Sums:
            for chain in range(chains):
                place = slice(chain * count, (chain + 1) * count)
                start = chain * lanes
                at_x, at_y = (
                    self.memory.at(x, start * vector.x),
                    self.memory.at(y, start * vector.y),
                )
                sums = [*sums[: place.start], *self._products(at_x, at_y, sums[place], full),
                        *sums[place.stop :]]  # fmt: skip
            return sums

        turn = Axis(0, 0, self.chains * lanes * vector.x, self.chains * lanes * vector.y)
        whole, rest = divmod(vector.extent, lanes)
        trips, left = divmod(whole, self.chains)

        def inner(x: ir.Value, y: ir.Value, sums: Sums) -> Sums:
            return chained(x, y, sums, self.chains)

        turns = _Turns(turn, 1, trips, inner, Runs.along(trips, 1))
        x, y, *sums = self._loop(turns, x, y, sums)
        sums = chained(x, y, sums, left)
        x, y = (
            self.memory.at(x, left * lanes * vector.x),
            self.memory.at(y, left * lanes * vector.y),
        )
        for piece in tail_pieces(0, rest, lanes, plan.masked):
            partial = self._products(x, y, [None] * count, (piece,))
            for k, part in enumerate(partial):
                sums[k] = self.builder.fadd(sums[k], widened(self.builder, part, lanes))
        return sums

    def _products(
        self, x: ir.Value, y: ir.Value, sums: Sequence[Any], pieces: Sequence[Piece]
    ) -> Sums:
        """sums + x * y for every row, column and vector. The side with fewer vectors is held in
        registers, the other one is read as it is used."""
        shape, b = self.shape, self.builder
        rows, columns = range(shape.rows), range(shape.columns)
        result = list(sums)

        def place(r: int, c: int, p: int) -> int:
            return (r * shape.columns + c) * len(pieces) + p

        def multiply(r: int, c: int, p: int, left: ir.Value, right: ir.Value) -> None:
            number = place(r, c, p)
            result[number] = multiply_add(b, left, right, result[number], self.has_fma)

        numbers = range(len(pieces))
        if shape.rows >= shape.columns * len(pieces):
            held = {(c, p): self._y(y, c, pieces[p]) for c in columns for p in numbers}
            for r in rows:
                for source in self._distinct(pieces):
                    value = self._x(x, r, pieces[source])
                    for p in numbers:
                        if self._source(pieces, p) == source:
                            for c in columns:
                                multiply(r, c, p, value, held[c, p])
            return result
        held = {(r, p): self._x(x, r, pieces[p]) for r in rows for p in self._distinct(pieces)}
        for c in columns:
            for p in numbers:
                value = self._y(y, c, pieces[p])
                for r in rows:
                    multiply(r, c, p, held[r, self._source(pieces, p)], value)
        return result

    def _source(self, pieces: Sequence[Piece], p: int) -> int:
        """The piece whose x vector serves piece p: any of the same width where x is a scalar."""
        if self.shape.x.vector:
            return p
        return next(q for q in range(len(pieces)) if pieces[q].width == pieces[p].width)

    def _distinct(self, pieces: Sequence[Piece]) -> list[int]:
        return sorted({self._source(pieces, p) for p in range(len(pieces))})

    def _x(self, x: ir.Value, row: int, piece: Piece) -> ir.Value:
        return self._operand(x, self.shape.x, row, piece)

    def _y(self, y: ir.Value, column: int, piece: Piece) -> ir.Value:
        return self._operand(y, self.shape.y, column, piece)

    def _operand(self, base: ir.Value, operand: TileOperand, number: int, piece: Piece) -> ir.Value:
        offset = number * operand.across + piece.start * operand.vector
        place = self.memory.at(base, offset)
        # one scalar may stand in lanes that are not stored, but not in lanes that are summed
        free = operand.padded or (operand.vector == 0 and not self.plan.along_sum)
        count = piece.width if free else piece.count
        return self.memory.load(place, operand.vector, piece.width, count)

    # ------------------------------------------------------------ adding lanes

    def _joined(self, sums: Sums) -> Sums:
        """One number for each place: chains are added first, then lanes by halves."""
        count = len(sums) // self.chains
        totals = sums[:count]
        for chain in range(1, self.chains):
            part = sums[chain * count : (chain + 1) * count]
            totals = [self.builder.fadd(*pair) for pair in zip(totals, part, strict=True)]
        return [across_lanes(self.builder, total, self.builder.fadd) for total in totals]


def _merge_in_order(axes: Sequence[Axis]) -> list[Axis]:
    """Merge neighbours only: the order of the sums must not change."""
    found: list[Axis] = [axes[0]]
    for axis in axes[1:]:
        n, last = axis.extent, found[-1]
        if (last.x, last.y) == (axis.x * n, axis.y * n):
            found[-1] = Axis(last.extent * n, 0, axis.x, axis.y)
        else:
            found.append(axis)
    return found
