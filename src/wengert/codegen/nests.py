"""Nests -> LLVM: counted loops, the innermost one over vectors.

The innermost loop runs over whole vectors, several at a time, and ends with masked vectors, so that
any length works and nothing outside the arrays is touched. Values combined over the inner loops are
kept in registers; each unrolled copy has an accumulator of its own, joined at the end in a fixed
order. `nest_plan` decides, `nest_values` has expressions and memory, `accumulators` the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from ..loops import Buffer, Choose, Nest, Store, Var, roots_of, walk
from ..machine import policy
from ..schedule.steps import is_on
from .accumulators import LOST, SUM, Accumulators, Combining, combined, identity
from .counted import Values, accumulating_loop, counted_loop
from .interrupts import leave_if_stopped
from .llvm_types import i64
from .nest_plan import NestPlan
from .nest_values import NestValues
from .ordering import align_spills, interleave
from .target import Target
from .vectors import First, first_lanes


class NestEmitter:
    """Emits one nest into the current position of a builder."""

    values_of: Callable[..., NestValues] = NestValues

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
        self.plan = NestPlan(_with_a_loop(nest), self.target)
        nest = self.plan.nest
        self.vars, self.stores, self.last = nest.vars, nest.stores, self.plan.last
        self.values = self.values_of(self.builder, self.plan, self.pointers, self.given)
        if any(var.extent == 0 for var in nest.vars):
            self._emit_empty()
            return
        self.vector = self.values.vector
        self.sums = Combining(self.plan, self.vector)
        watched = self.plan.watch() if self.watch is not None else (-1, 0)
        self.watched_level, self.watched_every = watched
        if self.plan.interleaved:
            align_spills(self.builder.function, self.target.vector_bytes)
        self._initialise()
        self.values.compute_at(-1)
        self._level(0, {})

    # ------------------------------------------------------------ what results begin with

    def _emit_empty(self) -> None:
        """Loops that never run leave their sums at the identity."""
        for store in self.stores:
            kept = self._used(store, self.vars)
            if store.combine and not store.continues and all(var.extent for var in kept):
                self._fill(store, kept)

    def _initialise(self) -> None:
        """Fill the results that are combined in memory with the identity."""
        for store in self.stores:
            if store.combine is None or store.continues:
                continue
            level = self.plan.starts[store]
            if self.plan.ends_once(store) and level < len(self.vars):
                continue  # each element is finished in one go and stored once
            self._fill(store, self._used(store, self.vars[:level]))

    def _used(self, store: Store, variables: Sequence[Var]) -> list[Var]:
        used = {var for var, _ in store.at.terms}
        return [var for var in variables if var in used]

    def _fill(self, store: Store, variables: Sequence[Var]) -> None:
        counters = self.values.counters

        def fill(level: int) -> None:
            if level == len(variables):
                self.values.fill(store)
                return

            def turn(index: ir.Value) -> None:
                counters[variables[level]] = index
                fill(level + 1)

            counted_loop(self.builder, 0, variables[level].extent, 1, turn)

        fill(0)
        for var in variables:
            counters.pop(var, None)

    # ------------------------------------------------------------ loops

    def _level(self, level: int, held: Accumulators) -> Accumulators:
        """Emit the loops from `level` inwards; accumulators go in and come out as vectors, whose
        lanes are joined when the last of the loops they run through has ended."""
        own = [s for s in self.stores if s.combine and self.plan.starts[s] == level]
        if level == len(self.vars):
            self._without_loops()
            return held
        held |= self.sums.fresh(own)
        if level == self.last:
            results = self._vector_level(held)
        elif level == self.plan.folded_level:
            results = self._folded_loop(level, held)
        else:
            first = self._squares() if level == self.last - 1 else 0
            if first == self.vars[level].extent:
                return {}
            results = self._loop(level, first, self.vars[level].extent, held)
        for store in own:
            self._finish(store, self.sums.number(store, results))
        ended = set(own)
        return {key: value for key, value in results.items() if key[0] not in ended}

    def _squares(self) -> int:
        """Emit what is transposed in squares; how much of the loop they are."""
        if not is_on("kernels"):
            return 0
        from .transposed_nests import emit_squares, has_squares

        return emit_squares(self) if has_squares(self) else 0

    def _loop(
        self, level: int, start: int | ir.Value, stop: int | ir.Value | None, held: Accumulators
    ) -> Accumulators:
        """One loop outside the innermost, with all that is inside; without a stop, one turn."""
        values, var = self.values, self.vars[level]

        def turn(index: ir.Value, carried: Values) -> Values:
            values.counters[var] = index
            if level == self.watched_level:
                leave_if_stopped(self.builder, self.watch, (index, self.watched_every))
            known = dict(values.known)
            values.compute_at(level)
            inner = self._level(level + 1, dict(zip(held, carried, strict=True)))
            values.known = known
            return [inner[key] for key in held]

        results = accumulating_loop(self.builder, start, stop, 1, list(held.values()), turn)
        del values.counters[var]
        return dict(zip(held, results, strict=True))

    def _folded_loop(self, level: int, held: Accumulators) -> Accumulators:
        """A loop in stretches, after each of which accumulators are folded into totals."""
        extent, every = self.vars[level].extent, self.plan.folded_every

        def stretch(first: ir.Value, carried: Values) -> Values:
            totals = dict(zip(held, carried, strict=True))
            stop = None if every == 1 else self._end_of(first, every, extent)
            inner = self._loop(level, first, stop, self.sums.emptied(totals))
            return list(self.sums.folded(totals, inner).values())

        results = accumulating_loop(self.builder, 0, extent, every, list(held.values()), stretch)
        return dict(zip(held, results, strict=True))

    def _end_of(self, first: ir.Value, length: int, stop: int) -> ir.Value:
        end = self.builder.add(first, i64(length))
        more = self.builder.icmp_signed("<", end, i64(stop))
        return self.builder.select(more, end, i64(stop))

    def _finish(self, store: Store, value: ir.Value) -> None:
        """Store a finished accumulator, or add it to what earlier outer iterations left."""
        self.values.store(store, value, store.continues or not self.plan.ends_once(store))

    def _without_loops(self) -> None:
        for store in self.stores:
            value = self.values.value(store.value)
            if store.combine and not store.picks:
                self._finish(store, value)
            else:
                self.values.store(store, value, bool(store.combine))

    # ------------------------------------------------------------ the innermost loop

    def _vector_level(self, held: Accumulators) -> Accumulators:
        extent, lanes = self.vars[-1].extent, self.plan.lanes
        stores = [s for s in self.stores if (s, SUM) in held]
        self.values.begin_row()
        if self.plan.overlapping:
            self._overlapping_row(extent)
            return held
        step = lanes * self.plan.unroll
        main = extent // step * step
        if main:
            held = self._run(main, held, stores)
        if main < extent:
            begun = self.sums.emptied(held) if self.plan.folded_level == self.last else held
            flat = [begun[s, SUM] for s in stores]
            limit = extent if lanes > 1 else None
            flat = self._vectors((main, extent), lanes, flat, stores, limit)
            rest = {(s, SUM): value for s, value in zip(stores, flat, strict=True)}
            held = self.sums.folded(held, rest)
        return held

    def _overlapping_row(self, extent: int) -> None:
        """A row whose last vector overlaps the one before: both are read before one is written."""
        values, lanes, unroll = self.values, self.plan.lanes, self.plan.unroll
        main, whole = 0, extent // lanes
        if whole > policy().nests.most_written_out:
            main = (whole - 1) // unroll * unroll * lanes
            self._run(main, {}, [])
        starts = [*range(main, whole * lanes, lanes), extent - lanes]
        waiting: list[tuple[Store, ir.Value, ir.Value]] = []
        for number, start in enumerate(starts):
            values.begin_vector(i64(start), lanes)
            waiting += [(s, values.at, values.vector_value(s.value)) for s in self.stores]
            if number != len(starts) - 2:
                for store, values.at, value in waiting:
                    values.store_vector(store, value)
                waiting.clear()

    def _run(self, stop: int, held: Accumulators, stores: Sequence[Store]) -> Accumulators:
        """The loop over whole vectors up to `stop`, several of them at a time."""
        unroll, sums = self.plan.unroll, self.sums
        step = self.plan.lanes * unroll
        empty = [identity(self.vector, s) for s in stores]
        totals = {key: held[key] for key in held if (key[0], LOST) in held}
        begin = [*sums.emptied(held).values(), *empty * (unroll - 1), *totals.values()]
        count = len(begin) - len(totals)
        restarted = [(s, LOST) in totals for s in stores] * unroll
        # a loop of its own around it, so that the inner one is as fast as ever
        stretch = self._stretch(stop, step)

        def around(first: ir.Value, carried: Values) -> Values:
            end: int | ir.Value = stop
            if stretch < stop:
                end = self._end_of(first, stretch, stop)
                if self.watched_level == self.last:
                    leave_if_stopped(self.builder, self.watch, (first, self.watched_every))
            copies = self._vectors((first, end), step, carried[:count], stores, None)
            if not totals:
                return copies
            now = dict(zip(totals, carried[count:], strict=True))
            now = sums.folded(now, sums.joined(copies, stores))
            begun = zip(copies, empty * unroll, restarted, strict=True)
            return [*(e if again else c for c, e, again in begun), *now.values()]

        results = accumulating_loop(self.builder, 0, stop, stretch, begin, around)
        ended = dict(zip(totals, results[count:], strict=True))
        return sums.joined(results[:count], stores) | ended

    def _stretch(self, stop: int, step: int) -> int:
        """How far the innermost loop runs at a time, of `stop` elements."""
        if self.plan.folded_level == self.last:
            return self.plan.folded_every * step
        watched = -(-self.watched_every // step) * step
        return watched if self.watched_level == self.last and stop > 2 * watched else stop

    def _vectors(
        self,
        span: tuple[int | ir.Value, int | ir.Value],
        step: int,
        flat: Values,
        stores: Sequence[Store],
        limit: int | None,
    ) -> Values:
        """The loop itself; `limit` is where vectors end that are not whole."""

        def turn(index: ir.Value, carried: Values) -> Values:
            held = iter(carried)
            after: Values = []
            block, starts = self.builder.block, []
            for offset in range(0, step, self.plan.lanes):
                starts.append(len(block.instructions))
                own = [next(held) for _ in stores]
                at = self.builder.add(index, i64(offset)) if offset else index
                self.values.begin_vector(at, self._real(at, limit))
                after += self._vector(own, stores)
            if self.plan.interleaved and limit is None and self.builder.block is block:
                interleave(block, starts)
            return after

        return accumulating_loop(self.builder, *span, step, flat, turn)

    def _real(self, at: ir.Value, limit: int | None) -> int | First:
        """The lanes of a vector at this place that are below the limit: how many, or which."""
        lanes = self.plan.lanes
        if limit is None:
            return lanes
        if isinstance(at, ir.Constant):
            return min(limit - at.constant, lanes)
        return first_lanes(self.builder, lanes, self.builder.sub(i64(limit), at))

    def _vector(self, held: Values, stores: Sequence[Store]) -> Values:
        """All stores of one vector; those of `stores` are combined with what is held of them."""
        values, results = self.values, list(held)
        if self.plan.interleaved:
            # all that is read is read before anything is written
            for store in self.stores:
                values.vector_value(store.value)
        for store in self.stores:
            value = values.vector_value(store.value)
            if store in stores:
                place = stores.index(store)
                value = values.only_real(store, value)
                results[place] = combined(self.vector, store, held[place], value)
            else:
                values.store_vector(store, value)
        return results


def _with_a_loop(nest: Nest) -> Nest:
    """Branches, which ask for an index that is counted elsewhere, are made in an innermost loop."""
    if nest.vars or not any(isinstance(expr, Choose) for expr in walk(roots_of(nest.stores))):
        return nest
    return Nest([Var("once", 1)], nest.stores, nest.label, nest.nodes)
