"""Nests -> LLVM: counted loops, the innermost one over vectors.

Every expression is computed at the outermost loop where it is known, once. The innermost loop
runs over whole vectors, several at a time, and ends with masked vectors, so that any length
works and nothing outside the arrays is touched. Values combined over the inner loops are kept in
registers; each unrolled copy has an accumulator of its own, joined at the end in a fixed order.
Long sums of floating-point numbers go through totals that lose nothing (`summation.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from ..loops import (
    Affine,
    Apply,
    Buffer,
    Choose,
    Expr,
    IndexValue,
    Literal,
    Load,
    LoadAt,
    Nest,
    Store,
    Var,
    identity_of,
    parts_of,
    roots_of,
    walk,
)
from ..machine import policy
from ..schedule.cost import iterations, nest_cost
from ..schedule.steps import is_on
from .interrupts import leave_if_stopped
from .ordering import has_chains, interleave
from .scalars import Scalars, memory_type
from .strided import Memory, lane_mask
from .summation import Total, fold, loses, place_folds, settled
from .target import Target

I32, I64 = ir.IntType(32), ir.IntType(64)
# Vectors worked on at once in the innermost loop, by the number of instructions in its body.
UNROLL_SMALL, UNROLL_LARGE, SMALL_BODY = 4, 1, 24
# Sums of little more than what is loaded: as many as are on their way through two adders.
UNROLL_SUMS = 8
# Long chains of instructions are interleaved, those of two vectors where they are not too many.
UNROLL_CHAINS, MOST_CHAINED = 2, 1024
# What it takes to hold the values of several chains.
ENOUGH_REGISTERS = 32
# Rows of up to so many vectors, whose ends overlap, are written out.
MOST_WRITTEN_OUT = 8

# Vectors of every n-th element are picked out of whole vectors up to this n, else lane by lane.
LARGEST_SHUFFLED = 4

# Values that are combined over loops, by store: of one that is folded the two parts of its total.
SUM, LOST = range(2)
Accumulators = dict[tuple[int, int], ir.Value]

# Yields steps of its own kind, is sent their values, and returns a value.
Steps = Generator[Any, ir.Value, ir.Value]


class NestEmitter:
    """Emits one nest into the current position of a builder."""

    def __init__(
        self,
        builder: ir.IRBuilder,
        target: Target,
        pointers: Callable[[Buffer], ir.Value],
        counters: dict[Var, ir.Value] | None = None,
        watch: ir.Value | None = None,
    ):
        self.builder = builder
        self.watch = watch  # what long loops look at, to end early
        self.given = counters or {}  # variables counted elsewhere, such as the task number
        self.target = target
        self.pointers = pointers

    def emit(self, nest: Nest) -> None:
        """The loops of a nest."""
        self.nest = nest
        self.vars = nest.vars
        self.counters: dict[Var, ir.Value] = dict(self.given)
        self.scalar = Scalars(self.builder, 1, self.target.has_fma)
        if any(var.extent == 0 for var in nest.vars):
            self._emit_empty()
            return
        self.last = len(nest.vars) - 1
        self.exprs = walk(roots_of(nest.stores))
        self.depths = self._expression_depths()
        self.lanes = self._choose_lanes()
        self.overlapping = self._may_overlap()
        if self.overlapping:
            self.lanes = min(self.lanes, 1 << (nest.vars[-1].extent.bit_length() - 1))
        self.vector = Scalars(self.builder, self.lanes, self.target.has_fma)
        self.values: dict[int, ir.Value] = {}  # scalars known so far, by expression
        self.inner: dict[int, ir.Value] = {}  # vectors of this iteration
        self.starts = {id(s): self._register_level(s) for s in nest.stores if s.combine}
        self.interleaved = self._has_chains()
        self.watched_level, self.watched_every = self._choose_watch()
        self.folded_level, self.folded_every = self._choose_folds()
        self._initialise()
        self._compute_at(-1)
        self._level(0, {})

    def _emit_empty(self) -> None:
        """Loops that never run leave their sums at the identity."""
        for store in self.nest.stores:
            used = {var for var, _ in store.at.terms}
            kept = [var for var in self.vars if var in used]
            if store.combine and not store.continues and all(var.extent for var in kept):
                self._fill(store, kept)

    # ------------------------------------------------------------ planning

    def _expression_depths(self) -> dict[int, int]:
        """For every expression the deepest loop it depends on; -1: none."""
        depths: dict[int, int] = {}
        branches = any(isinstance(expr, Choose) for expr in self.exprs)
        for expr in self.exprs:
            depth = max((depths[id(part)] for part in parts_of(expr)), default=-1)
            if branches and isinstance(expr, (Load, LoadAt)):
                depth = self.last  # it may exist in one branch only: never read it beforehand
            elif isinstance(expr, (Load, LoadAt, IndexValue)):
                depth = max(depth, self._index_depth(expr.at))
            elif isinstance(expr, Choose):
                # stays a branch, made in the innermost loop
                depth = max(depth, self.last, self._index_depth(expr.test.at))
            depths[id(expr)] = depth
        return depths

    def _choose_watch(self) -> tuple[int, int]:
        """The loop that looks whether to end early, and after how many iterations; -1: none.

        The deepest one that takes long: those inside it end soon enough by themselves.
        """
        if self.watch is None:
            return -1, 0
        body, costs = nest_cost(self.nest) // iterations(self.nest), policy().costs
        for level in range(self.last, -1, -1):
            whole = body * self.vars[level].extent
            if whole >= costs.watched_loop:
                return level, max(1, 1 << (costs.watch_period // body).bit_length())
            body = whole
        return -1, 0

    def _choose_folds(self) -> tuple[int, int]:
        """The loop that folds accumulators into totals, and after how many turns; -1: none."""
        if not self.vars or not any(map(loses, self.nest.stores)):
            return -1, 0
        *outer, innermost = (var.extent for var in self.vars)
        whole, rest = divmod(innermost, self.lanes * self._choose_unroll(innermost))
        return place_folds(outer, whole + -(-rest // self.lanes))

    def _is_folded(self, store: Store) -> bool:
        """Whether a store is combined over the loop that folds."""
        return loses(store) and self.starts[id(store)] <= self.folded_level

    def _index_depth(self, at: Affine) -> int:
        used = {var for var, _ in at.terms}
        return max((k for k, var in enumerate(self.vars) if var in used), default=-1)

    def _choose_lanes(self) -> int:
        if not self.vars or any(isinstance(expr, Choose) for expr in self.exprs):
            return 1
        if self.vars[-1].ordered:
            return 1
        if any(store.picks for store in self.nest.stores):
            return 1  # two lanes might meet at one place
        dtypes = [store.buffer.dtype for store in self.nest.stores]
        # what is computed outside of the innermost loop, such as a learning rate, is a scalar
        dtypes += [expr.dtype for expr in self.exprs if self.depths[id(expr)] == self.last]
        widest = max((d.itemsize for d in dtypes if d.kind != "b"), default=1)
        return max(1, min(self.target.vector_bytes // widest, 64))

    def _may_overlap(self) -> bool:
        """Whether rows can end with a vector that overlaps the one before, and need no mask.

        A masked store makes all loads wait that might touch the lanes behind it, and in memory
        that is dense these are the loads of the next row.
        """
        extent = self.vars[-1].extent if len(self.vars) > 1 else 1
        if self.lanes == 1 or extent % self.lanes == 0 or extent < 2:
            return False
        plain = all(
            not s.combine and s.at.coefficient(self.vars[-1]) == 1 for s in self.nest.stores
        )
        return plain and self._body() <= SMALL_BODY * 8

    def _body(self) -> int:
        """About how many instructions one iteration takes."""
        return sum(8 if isinstance(e, Apply) else 1 for e in self.exprs)

    def _has_chains(self) -> bool:
        """Whether an iteration computes long functions, which are best computed side by side."""
        if self.lanes == 1 or self.target.vector_registers < ENOUGH_REGISTERS:
            return False
        inner = [expr for expr in self.exprs if self.depths[id(expr)] == self.last]
        return has_chains(self.nest.stores, inner)

    def _register_level(self, store: Store) -> int:
        """The outermost loop from which on all loops are combined over by this store."""
        if store.picks:
            return len(self.vars)
        used = {var for var, _ in store.at.terms}
        level = len(self.vars)
        while level > 0 and self.vars[level - 1] not in used:
            level -= 1
        return level

    def _initialise(self) -> None:
        """Fill the results that are combined in memory with the identity."""
        for store in self.nest.stores:
            if store.combine is None or store.continues:
                continue
            level = self.starts[id(store)]
            outer = self.vars[:level]
            used = {var for var, _ in store.at.terms}
            if all(var in used for var in outer) and level < len(self.vars):
                continue  # each element is finished in one go and stored once
            self._fill(store, [var for var in outer if var in used])

    def _fill(self, store: Store, variables: Sequence[Var]) -> None:
        value = self.scalar.literal(
            identity_of(store.combine or "", store.buffer.dtype), store.buffer.dtype
        )

        def body(level: int) -> None:
            if level == len(variables):
                self._store_scalar(store.buffer, store.at, value)
                return
            with_counter = self._plain_loop(variables[level].extent)
            self.counters[variables[level]] = with_counter.__enter__()
            body(level + 1)
            with_counter.__exit__()

        body(0)
        for var in variables:
            self.counters.pop(var, None)

    # ------------------------------------------------------------ loops

    def _plain_loop(self, extent: int) -> _Loop:
        return _Loop(self.builder, 0, extent, 1, [])

    def _level(self, level: int, accumulators: Accumulators) -> Accumulators:
        """Emit the loops from `level` inwards; accumulators go in and come out as vectors, whose
        lanes are joined when the last of the loops they run through has ended."""
        own = [s for s in self.nest.stores if s.combine and self.starts[id(s)] == level]
        if level == len(self.vars):
            self._innermost_scalar()
            return accumulators
        accumulators |= self._fresh(own)
        if level == self.last:
            results = self._vector_level(accumulators)
        elif level == self.folded_level:
            results = self._folded_loop(level, accumulators)
        else:
            first = self._squares() if level == self.last - 1 else 0
            if first == self.vars[level].extent:
                return {}
            results = self._loop(level, first, self.vars[level].extent, accumulators)
        for store in own:
            self._finish(store, self._across_lanes(store, self._whole(store, results)))
        ended = {id(store) for store in own}
        return {key: value for key, value in results.items() if key[0] not in ended}

    def _squares(self) -> int:
        """Emit what is transposed in squares; how much of the loop they are."""
        if not is_on("kernels"):
            return 0
        from .turning import emit_squares, has_squares

        return emit_squares(self) if has_squares(self) else 0

    def _fresh(self, stores: Sequence[Store]) -> Accumulators:
        """Accumulators that hold nothing yet, and of what is folded totals."""
        found: Accumulators = {}
        for store in stores:
            found[id(store), SUM] = self._identity(store, self.vector)
            if self._is_folded(store):
                found[id(store), LOST] = self._identity(store, self.vector)
        return found

    def _whole(self, store: Store, accumulators: Accumulators) -> ir.Value:
        """What an accumulator or a total holds."""
        value = accumulators[id(store), SUM]
        if not self._is_folded(store):
            return value
        return settled(self.vector, (value, accumulators[id(store), LOST]), store.buffer.dtype)

    def _loop(
        self, level: int, start: int | ir.Value, stop: int | ir.Value | None, held: Accumulators
    ) -> Accumulators:
        """One loop outside the innermost, with all that is inside; without a stop, one turn."""
        var = self.vars[level]
        loop = _Loop(self.builder, start, stop, 1, list(held.values()))
        self.counters[var] = loop.__enter__()
        if level == self.watched_level:
            leave_if_stopped(self.builder, self.watch, (self.counters[var], self.watched_every))
        known = dict(self.values)
        self._compute_at(level)
        inner = self._level(level + 1, dict(zip(held, loop.carried, strict=True)))
        self.values = known
        loop.next = [inner[key] for key in held]
        results = dict(zip(held, loop.__exit__(), strict=True))
        del self.counters[var]
        return results

    def _folded_loop(self, level: int, accumulators: Accumulators) -> Accumulators:
        """A loop in stretches, after each of which accumulators are folded into totals."""
        extent = self.vars[level].extent
        around = _Loop(self.builder, 0, extent, self.folded_every, list(accumulators.values()))
        first = around.__enter__()
        carried = dict(zip(accumulators, around.carried, strict=True))
        single = self.folded_every == 1
        stop = None if single else self._end_of(first, self.folded_every, extent)
        inner = self._loop(level, first, stop, self._emptied(carried))
        carried = self._fold(carried, inner)
        around.next = list(carried.values())
        return dict(zip(accumulators, around.__exit__(), strict=True))

    def _end_of(self, first: ir.Value, length: int, stop: int) -> ir.Value:
        end = self.builder.add(first, _i64(length))
        more = self.builder.icmp_signed("<", end, _i64(stop))
        return self.builder.select(more, end, _i64(stop))

    def _emptied(self, accumulators: Accumulators) -> Accumulators:
        """Accumulators for one stretch: those with totals start anew, the others go on."""
        found: Accumulators = {}
        for store in self.nest.stores:
            if (id(store), SUM) in accumulators:
                value = accumulators[id(store), SUM]
                folded = (id(store), LOST) in accumulators
                found[id(store), SUM] = self._identity(store, self.vector) if folded else value
        return found

    def _fold(self, totals: Accumulators, accumulators: Accumulators) -> Accumulators:
        """Totals with what accumulators have taken since."""
        found = dict(totals)
        for store in self.nest.stores:
            part, rest = (id(store), SUM), (id(store), LOST)
            if rest in totals:
                total: Total = (totals[part], totals[rest])
                dtype = store.buffer.dtype
                found[part], found[rest] = fold(self.vector, total, accumulators[part], dtype)
            elif part in totals:
                found[part] = accumulators[part]
        return found

    def _identity(self, store: Store, scalars: Scalars) -> ir.Value:
        dtype = store.buffer.dtype
        return scalars.literal(identity_of(store.combine or "", dtype), dtype)

    def _finish(self, store: Store, value: ir.Value) -> None:
        """Store a finished accumulator, or add it to what earlier outer iterations left."""
        used = {var for var, _ in store.at.terms}
        outer = self.vars[: self.starts[id(store)]]
        if store.continues or not all(var in used for var in outer):
            value = self._combine(
                self.scalar, store, self._load_scalar(store.buffer, store.at), value
            )
        self._store_scalar(store.buffer, store.at, value)

    def _combine(self, scalars: Scalars, store: Store, x: ir.Value, y: ir.Value) -> ir.Value:
        dtype = store.buffer.dtype
        return scalars.apply(store.combine or "", [x, y], [dtype, dtype], dtype)

    def _innermost_scalar(self) -> None:
        """A nest without loops."""
        for store in self.nest.stores:
            value = self._value(store.value)
            if store.picks:
                picks = [(self._value(place), stride) for place, stride in store.picks]
                place = self._picked(self._index(store.at), picks)
                self._write(store, self._address(store.buffer, place), value)
            elif store.combine:
                self._finish(store, value)
            else:
                self._store_scalar(store.buffer, store.at, value)

    def _vector_level(self, accumulators: Accumulators) -> Accumulators:
        var, lanes = self.vars[self.last], self.lanes
        stores = [s for s in self.nest.stores if (id(s), SUM) in accumulators]
        unroll = self._choose_unroll(var.extent)
        self.bases = self._hoisted_addresses(var)
        self.splats = self._hoisted_splats()
        if self.overlapping:
            self._overlapping_row(var)
            return accumulators
        main = var.extent // (lanes * unroll) * (lanes * unroll)
        if main:
            accumulators = self._run(var, main, unroll, accumulators, stores)
        if main < var.extent:
            held = self._emptied(accumulators) if self.folded_level == self.last else accumulators
            flat = [held[id(s), SUM] for s in stores]
            limit = var.extent if lanes > 1 else None
            flat = self._vectors(var, (main, var.extent), lanes, flat, stores, limit)
            rest = {(id(s), SUM): value for s, value in zip(stores, flat, strict=True)}
            accumulators = self._fold(accumulators, rest)
        return accumulators

    def _overlapping_row(self, var: Var) -> None:
        """A row whose last vector overlaps the one before: both are read before one is written."""
        lanes, whole = self.lanes, var.extent // self.lanes
        main = 0
        if whole > MOST_WRITTEN_OUT:
            unroll = self._choose_unroll(var.extent)
            main = (whole - 1) // unroll * unroll * lanes
            self._run(var, main, unroll, {}, [])
        starts = [*range(main, whole * lanes, lanes), var.extent - lanes]
        self.mask = None
        waiting: list[tuple[Store, ir.Value, ir.Value]] = []
        for number, start in enumerate(starts):
            self.at = _i64(start)
            self.inner.clear()
            waiting += [(s, self.at, self._vector_value(s.value)) for s in self.nest.stores]
            if number != len(starts) - 2:
                for store, self.at, value in waiting:
                    self._vector_store(store, value)
                waiting.clear()

    def _choose_unroll(self, extent: int) -> int:
        wanted = UNROLL_SMALL if self._body() <= SMALL_BODY * 8 else UNROLL_LARGE
        if self.interleaved and self._body() <= MOST_CHAINED:
            wanted = max(wanted, UNROLL_CHAINS)
        if self._only_sums() and extent >= 4 * UNROLL_SUMS * self.lanes:
            return UNROLL_SUMS
        while wanted > 1 and extent < wanted * self.lanes:
            wanted //= 2
        return wanted

    def _only_sums(self) -> bool:
        """Whether the innermost loop does little but add to one or two accumulators."""
        inner = all(self.starts.get(id(s), len(self.vars)) <= self.last for s in self.nest.stores)
        return inner and len(self.nest.stores) <= 2 and self._body() <= SMALL_BODY

    def _run(
        self, var: Var, stop: int, unroll: int, accumulators: Accumulators, stores: Sequence[Store]
    ) -> Accumulators:
        """The loop over whole vectors up to `stop`, `unroll` of them at a time."""
        step = self.lanes * unroll
        copies = list(self._emptied(accumulators).values())
        copies += [self._identity(s, self.vector) for s in stores] * (unroll - 1)
        totals = {key: accumulators[key] for key in accumulators if (key[0], LOST) in accumulators}
        # a loop of its own around it, so that the inner one is as fast as ever
        stretch = self._stretch(stop, step)
        around = _Loop(self.builder, 0, stop, stretch, [*copies, *totals.values()])
        first = around.__enter__()
        end: int | ir.Value = stop
        if not around.once:
            end = self._end_of(first, stretch, stop)
            if self.watched_level == self.last:
                leave_if_stopped(self.builder, self.watch, (first, self.watched_every))
        count = len(copies)
        copies = self._vectors(var, (first, end), step, around.carried[:count], stores, None)
        if totals:
            held = dict(zip(totals, around.carried[count:], strict=True))
            totals = self._fold(held, self._joined(copies, stores))
            restarted = [(id(s), LOST) in totals for s in stores] * unroll
            empty = [self._identity(s, self.vector) for s in stores] * unroll
            copies = [e if r else c for c, e, r in zip(copies, empty, restarted, strict=True)]
        around.next = [*copies, *totals.values()]
        results = around.__exit__()
        held = dict(zip(totals, results[count:], strict=True))
        return self._joined(results[:count], stores) | held

    def _stretch(self, stop: int, step: int) -> int:
        """How far the innermost loop runs at a time, of `stop` elements."""
        if self.folded_level == self.last:
            return self.folded_every * step
        watched = -(-self.watched_every // step) * step
        return watched if self.watched_level == self.last and stop > 2 * watched else stop

    def _joined(self, copies: Sequence[ir.Value], stores: Sequence[Store]) -> Accumulators:
        """The accumulators of all copies as one, by halves."""
        found: Accumulators = {}
        for place, store in enumerate(stores):
            parts = list(copies[place :: len(stores)])
            while len(parts) > 1:
                pairs = zip(parts[::2], parts[1::2], strict=True)
                parts = [self._combine(self.vector, store, x, y) for x, y in pairs]
            found[id(store), SUM] = parts[0]
        return found

    def _vectors(
        self,
        var: Var,
        span: tuple[int | ir.Value, int | ir.Value],
        step: int,
        flat: list[ir.Value],
        stores: Sequence[Store],
        limit: int | None,
    ) -> list[ir.Value]:
        """The loop itself; `limit` is where masked vectors end."""
        loop = _Loop(self.builder, *span, step, flat)
        counter = loop.__enter__()
        carried = iter(loop.carried)
        after: list[ir.Value] = []
        block, starts = self.builder.block, []
        for offset in range(0, step, self.lanes):
            starts.append(len(block.instructions))
            held = [next(carried) for _ in stores]
            at = self.builder.add(counter, _i64(offset)) if offset else counter
            mask = None if limit is None else self._mask(at, limit)
            after += self._vector_body(var, at, held, stores, mask)
        if self.interleaved and limit is None and self.builder.block is block:
            interleave(block, starts)
        loop.next = after
        return loop.__exit__()

    def _mask(self, at: ir.Value, stop: int) -> ir.Value:
        """The lanes that are left; `live` is how many, a constant where that is known."""
        if isinstance(at, ir.Constant):
            self.live = _i64(min(stop - at.constant, self.lanes))
            return lane_mask(self.lanes, self.live.constant)
        lanes = ir.Constant(ir.VectorType(I64, self.lanes), list(range(self.lanes)))
        self.live = self.builder.sub(_i64(stop), at)
        return self.builder.icmp_signed("<", lanes, self.vector.splat(self.live))

    def _vector_body(
        self,
        var: Var,
        at: ir.Value,
        held: list[ir.Value],
        stores: Sequence[Store],
        mask: ir.Value | None,
    ) -> list[ir.Value]:
        self.at, self.mask = at, mask
        self.inner.clear()
        results = list(held)
        if self.interleaved:
            # all that is read is read before anything is written
            for store in self.nest.stores:
                self._vector_value(store.value)
        for store in self.nest.stores:
            value = self._vector_value(store.value)
            if store in stores:
                place = stores.index(store)
                if mask is not None:
                    value = self.builder.select(mask, value, self._identity(store, self.vector))
                results[place] = self._combine(self.vector, store, held[place], value)
            elif store.picks:
                self._store_picked(store, value)
            elif store.combine:
                old = self._vector_load(store.buffer, store.at)
                self._vector_store(store, self._combine(self.vector, store, old, value))
            else:
                self._vector_store(store, value)
        return results

    def one_vector(self, start: int, known: dict[int, ir.Value]) -> list[ir.Value]:
        """The values of all stores for the vector of the last loop that begins at `start`, where
        the other loops are; some expressions are `known`."""
        kept = dict(self.values)
        self._compute_at(self.last - 1)
        self.bases = self._hoisted_addresses(self.vars[self.last])
        self.splats = self._hoisted_splats()
        self.values = kept
        self.at, self.mask = _i64(start), None
        self.inner = dict(known)
        return [self._vector_value(store.value) for store in self.nest.stores]

    def store_vector(self, store: Store, value: ir.Value) -> None:
        """Store a value of the last `one_vector`."""
        self._vector_store(store, value)

    def address_of(self, buffer: Buffer, at: Affine) -> ir.Value:
        """The address of an element, where the loops are."""
        return self._address(buffer, self._index(at))

    def _store_picked(self, store: Store, value: ir.Value) -> None:
        """Put one value where other values say."""
        picks = [(self._vector_value(place), stride) for place, stride in store.picks]
        place = self._picked(self._inner_index(store.at), picks)
        self._write(store, self._address(store.buffer, place), value)

    def _write(self, store: Store, address: ir.Value, value: ir.Value) -> None:
        dtype = store.buffer.dtype
        if store.combine:
            old = self.builder.load(address, typ=memory_type(dtype))
            value = self._combine(self.scalar, store, self._from_memory(old, dtype), value)
        if dtype.kind == "b":
            value = self.builder.zext(value, ir.IntType(8))
        self.builder.store(value, address)

    # ------------------------------------------------------------ values

    def _compute_at(self, level: int) -> None:
        """Compute everything that is known from this loop on and not before."""
        if level >= self.last >= 0:
            return
        for expr in self.exprs:
            if self.depths[id(expr)] == level and not isinstance(expr, (Literal, Choose)):
                self.values[id(expr)] = self._scalar_expr(expr)

    def _value(self, expr: Expr) -> ir.Value:
        """The scalar value of an expression; parts are computed first, iteratively."""
        for part in walk([expr], self.values):
            if not isinstance(part, Literal):
                self.values[id(part)] = self._scalar_expr(part)
        return self._known(expr)

    def _known(self, expr: Expr) -> ir.Value:
        if isinstance(expr, Literal):
            return self.scalar.literal(expr.value, expr.dtype)
        return self.values[id(expr)]

    def _scalar_expr(self, expr: Expr) -> ir.Value:
        if isinstance(expr, Load):
            return self._load_scalar(expr.buffer, expr.at)
        if isinstance(expr, IndexValue):
            return self._index(expr.at)
        if isinstance(expr, LoadAt):
            picks = [(self._known(place), stride) for place, stride in expr.picks]
            return self._load_picked(expr.buffer, self._index(expr.at), picks)
        assert isinstance(expr, Apply)
        args = [self._known(arg) for arg in expr.args]
        return self.scalar.apply(expr.name, args, [a.dtype for a in expr.args], expr.dtype)

    def _vector_value(self, expr: Expr) -> ir.Value:
        if self.lanes == 1 and any(isinstance(part, Choose) for part in walk([expr])):
            return self._branching_value(expr, self.inner)
        for part in walk([expr], self.inner):
            hidden = self.depths[id(part)] < self.last and id(part) not in self.splats
            if isinstance(part, Literal) or not hidden:
                self.inner[id(part)] = self._vector_expr(part)
        return self.inner[id(expr)]

    def _vector_expr(self, expr: Expr) -> ir.Value:
        if isinstance(expr, Literal):
            return self.vector.literal(expr.value, expr.dtype)
        if self.depths[id(expr)] < self.last:
            return self.splats[id(expr)]
        if isinstance(expr, Load):
            return self._vector_load(expr.buffer, expr.at)
        if isinstance(expr, IndexValue):
            return self._vector_index(expr.at)
        if isinstance(expr, LoadAt):
            return self._gather_picked(expr)
        assert isinstance(expr, Apply)
        args = [self.inner[id(arg)] for arg in expr.args]
        return self.vector.apply(expr.name, args, [a.dtype for a in expr.args], expr.dtype)

    def _branching_value(self, expr: Expr, known: dict[int, ir.Value]) -> ir.Value:
        """A value with choices in it, which become branches: only what is chosen is computed."""
        pending = [self._branching_steps(expr, known)]
        value = None
        while pending:  # not by recursion: expressions are as deep as programs are long
            try:
                part = pending[-1].send(value)
            except StopIteration as end:
                pending.pop()
                value = end.value
            else:
                pending.append(part)
                value = None
        return value

    def _branching_steps(self, expr: Expr, known: dict[int, ir.Value]) -> Steps:
        """The value of an expression; yields what computes those of its parts and is sent them."""
        if id(expr) in known:
            return known[id(expr)]
        if id(expr) in self.splats:
            return self.splats[id(expr)]
        if isinstance(expr, Choose):
            result = yield self._branch(expr, known)
        elif isinstance(expr, (Apply, LoadAt)):
            parts = []
            for part in parts_of(expr):
                value = yield self._branching_steps(part, known)
                parts.append(value)
            if isinstance(expr, Apply):
                dtypes = [arg.dtype for arg in expr.args]
                result = self.vector.apply(expr.name, parts, dtypes, expr.dtype)
            else:
                picks = [(part, n) for part, (_, n) in zip(parts, expr.picks, strict=True)]
                result = self._load_picked(expr.buffer, self._inner_index(expr.at), picks)
        else:
            result = self._vector_expr(expr)
        known[id(expr)] = result
        return result

    def _branch(self, expr: Choose, known: dict[int, ir.Value]) -> Steps:
        b, before = self.builder, len(known)
        place = self._inner_index(expr.test.at)
        above = b.icmp_signed(">=", place, _i64(expr.test.low))
        below = b.icmp_signed("<", place, _i64(expr.test.high))
        incoming = []
        with b.if_else(b.and_(above, below)) as (then, otherwise):
            for block, part in ((then, expr.yes), (otherwise, expr.no)):
                with block:
                    value = yield self._branching_steps(part, known)
                    incoming.append((value, b.block))
                    while len(known) > before:  # what a branch has computed is known there alone
                        known.popitem()
        phi = b.phi(self.vector.type(expr.dtype))
        for value, block in incoming:
            phi.add_incoming(value, block)
        return phi

    # ------------------------------------------------------------ indices and memory

    def _index(self, at: Affine) -> ir.Value:
        """The value of an index that depends on the counters so far."""
        total: ir.Value = _i64(at.constant)
        for var, coefficient in at.terms:
            term = self.counters[var]
            if coefficient != 1:
                term = self.builder.mul(term, _i64(coefficient))
            total = term if _is_zero(total) else self.builder.add(total, term)
        return total

    def _split_index(self, at: Affine) -> tuple[Affine, int]:
        """The part of an index outside the innermost loop, and the innermost coefficient."""
        var = self.vars[self.last]
        rest = Affine(at.constant, tuple((v, c) for v, c in at.terms if v is not var))
        return rest, at.coefficient(var)

    def _hoisted_addresses(self, var: Var) -> dict[tuple[int, Affine], ir.Value]:
        """Addresses as they are when the innermost counter is 0."""
        bases: dict[tuple[int, Affine], ir.Value] = {}
        accesses = [(s.buffer, s.at) for s in self.nest.stores]
        accesses += [
            (e.buffer, e.at)
            for e in self.exprs
            if isinstance(e, Load) and self.depths[id(e)] == self.last
        ]
        for buffer, at in accesses:
            rest, _ = self._split_index(at)
            key = (id(buffer), rest)
            if key not in bases:
                bases[key] = self._address(buffer, self._index(rest))
        return bases

    def _hoisted_splats(self) -> dict[int, ir.Value]:
        used = {
            id(part)
            for expr in self.exprs
            if self.depths[id(expr)] == self.last
            for part in parts_of(expr)
        } | {id(root) for root in roots_of(self.nest.stores)}
        return {
            id(expr): self.vector.splat(self.values[id(expr)])
            for expr in self.exprs
            if id(expr) in used
            and self.depths[id(expr)] < self.last
            and not isinstance(expr, Literal)
        }

    def _address(self, buffer: Buffer, element: ir.Value) -> ir.Value:
        pointer = self.pointers(buffer)
        if _is_zero(element):
            return pointer
        return self.builder.gep(pointer, [element], source_etype=memory_type(buffer.dtype))

    def _load_scalar(self, buffer: Buffer, at: Affine) -> ir.Value:
        address = self._address(buffer, self._index(at))
        value = self.builder.load(address, typ=memory_type(buffer.dtype))
        return self._from_memory(value, buffer.dtype)

    def _store_scalar(self, buffer: Buffer, at: Affine, value: ir.Value) -> None:
        address = self._address(buffer, self._index(at))
        if buffer.dtype.kind == "b":
            value = self.builder.zext(value, ir.IntType(8))
        self.builder.store(value, address)

    def _from_memory(self, value: ir.Value, dtype: np.dtype) -> ir.Value:
        if dtype.kind != "b":
            return value
        zero = ir.Constant(value.type, None if isinstance(value.type, ir.VectorType) else 0)
        return self.builder.icmp_unsigned("!=", value, zero)

    def _load_picked(
        self, buffer: Buffer, element: ir.Value, picks: Sequence[tuple[ir.Value, int]]
    ) -> ir.Value:
        place = self._picked(element, picks)
        value = self.builder.load(self._address(buffer, place), typ=memory_type(buffer.dtype))
        return self._from_memory(value, buffer.dtype)

    def _picked(self, element: ir.Value, picks: Sequence[tuple[ir.Value, int]]) -> ir.Value:
        for value, stride in picks:
            term = value if stride == 1 else self.builder.mul(value, _i64(stride))
            element = term if _is_zero(element) else self.builder.add(element, term)
        return element

    def _gather_picked(self, expr: LoadAt) -> ir.Value:
        """Elements from places that depend on values, lane by lane; places are always valid."""
        base = self._inner_index(expr.at)
        if self.lanes == 1:
            picks = [(self.inner[id(place)], stride) for place, stride in expr.picks]
            return self._load_picked(expr.buffer, base, picks)
        coefficient = self._split_index(expr.at)[1]
        kind = self.vector.type(expr.dtype)
        result = ir.Constant(kind, ir.Undefined)
        for lane in range(self.lanes):
            number = ir.Constant(I32, lane)
            picks = [
                (self.builder.extract_element(self.inner[id(place)], number), stride)
                for place, stride in expr.picks
            ]
            element = self.builder.add(base, self._lane_offset(lane, coefficient))
            value = self._load_picked(expr.buffer, element, picks)
            result = self.builder.insert_element(result, value, number)
        return result

    def _lane_offset(self, lane: int, coefficient: int) -> ir.Value:
        """How far a lane is from the first; masked lanes stay with the first, which exists."""
        step = _i64(lane * coefficient)
        if self.mask is None or not lane or not coefficient:
            return step
        live = self.builder.extract_element(self.mask, ir.Constant(I32, lane))
        return self.builder.select(live, step, _i64(0))

    def _inner_index(self, at: Affine) -> ir.Value:
        rest, coefficient = self._split_index(at)
        inner = self.builder.mul(self.at, _i64(coefficient))
        return self.builder.add(self._index(rest), inner)

    def _vector_index(self, at: Affine) -> ir.Value:
        first = self._inner_index(at)
        if self.lanes == 1:
            return first
        coefficient = self._split_index(at)[1]
        steps = [lane * coefficient for lane in range(self.lanes)]
        return self.builder.add(
            self.vector.splat(first), ir.Constant(ir.VectorType(I64, self.lanes), steps)
        )

    def _inner_address(self, buffer: Buffer, at: Affine) -> tuple[ir.Value, int]:
        rest, coefficient = self._split_index(at)
        base = self.bases[id(buffer), rest]
        if coefficient == 0:
            return base, 0
        offset = self.at if coefficient == 1 else self.builder.mul(self.at, _i64(coefficient))
        kind = memory_type(buffer.dtype)
        return self.builder.gep(base, [offset], source_etype=kind), coefficient

    def _vector_load(self, buffer: Buffer, at: Affine) -> ir.Value:
        address, stride = self._inner_address(buffer, at)
        element = memory_type(buffer.dtype)
        if self.lanes == 1 or stride == 0:
            value = self._from_memory(self.builder.load(address, typ=element), buffer.dtype)
            return self.vector.splat(value)
        kind = ir.VectorType(element, self.lanes)
        if stride == 1 and self.mask is None:
            value = self.builder.load(address, typ=kind, align=buffer.dtype.itemsize)
        elif stride == 1:
            value = Memory(self.builder, buffer.dtype).load_masked(address, kind, self.mask)
        elif 1 < stride <= LARGEST_SHUFFLED and self.lanes >= 2 * stride:
            value = self._every(address, stride, kind, buffer.dtype)
        else:
            value = self._gather(address, stride, kind, buffer)
        return self._from_memory(value, buffer.dtype)

    def _every(
        self, address: ir.Value, stride: int, kind: ir.VectorType, dtype: np.dtype
    ) -> ir.Value:
        """Every stride-th element, picked out of whole vectors; nothing behind the last is read."""
        b, lanes, memory = self.builder, self.lanes, Memory(self.builder, dtype)
        live: ir.Value = _i64(lanes) if self.mask is None else self.live
        end = self.vector.splat(b.add(b.mul(b.sub(live, _i64(1)), _i64(stride)), _i64(1)))
        value: ir.Value = ir.Constant(kind, ir.Undefined)
        for part in range(stride):
            first = part * lanes
            places = [first + lane for lane in range(lanes)]
            mask = b.icmp_signed("<", ir.Constant(ir.VectorType(I64, lanes), places), end)
            loaded = memory.load_masked(memory.at(address, first), kind, mask)
            picks = [
                lanes + lane * stride - first if first <= lane * stride < first + lanes else lane
                for lane in range(lanes)
            ]
            chosen = ir.Constant(ir.VectorType(I32, lanes), picks)
            value = b.shuffle_vector(value, loaded, chosen)
        return value

    def _gather(
        self, address: ir.Value, stride: int, kind: ir.VectorType, buffer: Buffer
    ) -> ir.Value:
        """A strided vector, lane by lane; lanes that are masked out read lane 0, which exists."""
        value = ir.Constant(kind, ir.Undefined)
        for lane in range(self.lanes):
            step: ir.Value = _i64(lane * stride)
            if self.mask is not None and lane:
                live = self.builder.extract_element(self.mask, ir.Constant(I32, lane))
                step = self.builder.select(live, step, _i64(0))
            place = self.builder.gep(address, [step], source_etype=kind.element)
            loaded = self.builder.load(place, typ=kind.element)
            value = self.builder.insert_element(value, loaded, ir.Constant(I32, lane))
        return value

    def _vector_store(self, store: Store, value: ir.Value) -> None:
        buffer = store.buffer
        address, stride = self._inner_address(buffer, store.at)
        element = memory_type(buffer.dtype)
        if buffer.dtype.kind == "b":
            kind = element if self.lanes == 1 else ir.VectorType(element, self.lanes)
            value = self.builder.zext(value, kind)
        if self.lanes == 1:
            self.builder.store(value, address)
        elif stride == 1 and self.mask is None:
            self.builder.store(value, address, align=buffer.dtype.itemsize)
        elif stride == 1 and isinstance(self.live, ir.Constant):
            Memory(self.builder, buffer.dtype).store(value, address, 1, self.live.constant)
        elif stride == 1:
            Memory(self.builder, buffer.dtype).store_masked(value, address, self.mask)
        else:
            self._scatter(address, stride, value, element)

    def _scatter(self, address: ir.Value, stride: int, value: ir.Value, element: ir.Type) -> None:
        for lane in range(self.lanes):
            part = self.builder.extract_element(value, ir.Constant(I32, lane))
            place = self.builder.gep(address, [_i64(lane * stride)], source_etype=element)
            if self.mask is None:
                self.builder.store(part, place)
                continue
            live = self.builder.extract_element(self.mask, ir.Constant(I32, lane))
            with self.builder.if_then(live):
                self.builder.store(part, place)

    def _across_lanes(self, store: Store, value: ir.Value) -> ir.Value:
        """Combine the lanes of a vector by halves."""
        lanes = self.lanes
        b, dtype = self.builder, store.buffer.dtype
        while lanes > 1:
            half = lanes // 2
            low = ir.Constant(ir.VectorType(I32, half), list(range(half)))
            high = ir.Constant(ir.VectorType(I32, half), list(range(half, lanes)))
            undefined = ir.Constant(value.type, ir.Undefined)
            parts = [b.shuffle_vector(value, undefined, side) for side in (low, high)]
            if half == 1:
                parts = [b.extract_element(part, ir.Constant(I32, 0)) for part in parts]
            narrow = Scalars(b, half, self.target.has_fma)
            value = narrow.apply(store.combine or "", parts, [dtype, dtype], dtype)
            lanes = half
        return value


class _Loop:
    """A counted loop with carried values: enter, set `next`, exit to get the final values."""

    def __init__(
        self,
        builder: ir.IRBuilder,
        start: int | ir.Value,
        stop: int | ir.Value | None,  # None: it takes one turn
        step: int,
        carried: list,
    ):
        self.builder = builder
        self.start, self.step = _value(start), step
        self.stop = None if stop is None else _value(stop)
        self.initial = carried
        self.carried: list[ir.Value] = []
        self.next: list[ir.Value] = []
        known = isinstance(start, int) and isinstance(stop, int)
        self.once = stop is None or (known and stop - start <= step)

    def __enter__(self) -> ir.Value:
        b = self.builder
        if self.once:
            self.carried = list(self.initial)
            return self.start
        before = b.block
        self.head = b.append_basic_block("loop")
        b.branch(self.head)
        b.position_at_end(self.head)
        self.counter = b.phi(I64)
        self.counter.add_incoming(self.start, before)
        for value in self.initial:
            phi = b.phi(value.type)
            phi.add_incoming(value, before)
            self.carried.append(phi)
        return self.counter

    def __exit__(self, *exc_info: object) -> list[ir.Value]:
        b = self.builder
        if self.once:
            return self.next
        following = b.add(self.counter, _i64(self.step))
        here = b.block
        self.counter.add_incoming(following, here)
        for phi, value in zip(self.carried, self.next, strict=True):
            phi.add_incoming(value, here)
        after = b.append_basic_block("done")
        b.cbranch(b.icmp_signed("<", following, self.stop), self.head, after)
        b.position_at_end(after)
        return self.next


def _value(number: int | ir.Value) -> ir.Value:
    return _i64(number) if isinstance(number, int) else number


def _i64(value: int) -> ir.Constant:
    return ir.Constant(I64, value)


def _is_zero(value: ir.Value) -> bool:
    return isinstance(value, ir.Constant) and value.constant == 0
