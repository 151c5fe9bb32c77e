"""The values of a nest where its loops stand: scalars outside the innermost loop, vectors in it.

Every expression is computed at the outermost loop where it is known, once. Choices stay branches,
so that only what is chosen is read; nests with choices have no vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

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
    Store,
    Var,
    parts_of,
    roots_of,
    walk,
)
from .accumulators import combined, identity
from .expressions import Known, add_values, applied, splats, value_of, wanted
from .llvm_types import I64, as_i64, i64
from .memory import Memory, lane_offset
from .nest_plan import Access, NestPlan
from .scalars import Scalars
from .vectors import First, lane_mask, some_lanes, vector_of

# Yields steps of its own kind, is sent their values, and returns a value.
Steps = Generator[Any, ir.Value, ir.Value]
Picks = Sequence[tuple[ir.Value, int]]  # values that places depend on, with strides


class NestValues:
    """Emits expressions, loads and stores of one nest.

    `counters` are the loop variables so far, and those that are counted elsewhere.
    """

    def __init__(
        self,
        builder: ir.IRBuilder,
        plan: NestPlan,
        pointers: Callable[[Buffer], ir.Value],
        counters: dict[Var, ir.Value],
    ):
        self.builder, self.plan, self.pointers = builder, plan, pointers
        self.counters = dict(counters)
        self.scalar = Scalars(builder, 1, plan.target.has_fma)
        self.vector = Scalars(builder, plan.lanes, plan.target.has_fma)
        self.known: Known = {}  # scalars
        self.inner: Known = {}  # vectors of this iteration of the innermost loop,
        self.at: ir.Value = i64(0)  # which begins here,
        self.real: int | First = plan.lanes  # and so many of its lanes are real

    # ------------------------------------------------------------ scalars

    def compute_at(self, level: int) -> None:
        """Compute everything that is known from this loop on and not before."""
        if level >= self.plan.last >= 0:
            return
        for expr in self.plan.exprs:
            if self.plan.depths[expr] == level and not isinstance(expr, Choose):
                self.known[expr] = value_of(self.scalar, expr, self.known, self._leaf)

    def value(self, expr: Expr) -> ir.Value:
        """The scalar value of an expression."""
        add_values(self.scalar, [expr], self.known, self._leaf)
        return self.known[expr]

    def _leaf(self, expr: Expr) -> ir.Value:
        if isinstance(expr, IndexValue):
            return self._index(expr.at)
        assert isinstance(expr, (Load, LoadAt))
        return self._read(expr.buffer, self._place(expr.at, expr.picks))

    def _place(self, at: Affine, picks: Sequence[tuple[Expr, int]]) -> ir.Value:
        """A place that the counters so far, and what is known by now, decide."""
        return self._picked(self._index(at), [(self.value(pick), n) for pick, n in picks])

    def _index(self, at: Affine) -> ir.Value:
        """The value of an index that depends on the counters so far."""
        terms = [(self.counters[var], coefficient) for var, coefficient in at.terms]
        return self._picked(i64(at.constant), terms)

    def _picked(self, element: ir.Value, picks: Picks) -> ir.Value:
        """A place further on by values times strides."""
        b = self.builder
        for value, stride in picks:
            term = value if stride == 1 else b.mul(value, i64(stride))
            element = term if _is_zero(element) else b.add(element, term)
        return element

    def _address(self, buffer: Buffer, element: ir.Value) -> ir.Value:
        pointer = self.pointers(buffer)
        return self._memory(buffer).at(pointer, 0 if _is_zero(element) else element)

    def _memory(self, buffer: Buffer) -> Memory:
        return Memory(self.builder, buffer.dtype)

    def _read(self, buffer: Buffer, element: ir.Value) -> ir.Value:
        return self._memory(buffer).read(self._address(buffer, element), 0, 1, 1)

    def address_of(self, buffer: Buffer, at: Affine) -> ir.Value:
        """The address of an element, where the loops are."""
        return self._address(buffer, self._index(at))

    def fill(self, store: Store) -> None:
        """Store what changes nothing when it is combined."""
        self.store(store, identity(self.scalar, store), False)

    def store(self, store: Store, value: ir.Value, combines: bool) -> None:
        """Store a scalar, or combine it with what is there."""
        self._write(store, self._place(store.at, store.picks), value, combines)

    def _write(self, store: Store, element: ir.Value, value: ir.Value, combines: bool) -> None:
        address, memory = self._address(store.buffer, element), self._memory(store.buffer)
        if combines:
            value = combined(self.scalar, store, memory.read(address, 0, 1, 1), value)
        memory.write(value, address, 0, 1)

    # ------------------------------------------------------------ vectors

    def begin_row(self) -> None:
        """All that does not change in the innermost loop: addresses, and scalars on all lanes."""
        plan = self.plan
        self.bases: dict[Any, ir.Value] = {}
        loads = [e for e in plan.exprs if isinstance(e, (Load, LoadAt)) and self._moves(e)]
        for access in filter(plan.is_in_row, [*plan.stores, *loads]):
            key = access.buffer, self._split(access.at)[0], access.picks
            if key not in self.bases:
                self.bases[key] = self._address(access.buffer, self._place(*key[1:]))
        outside = {e: self.known[e] for e in plan.exprs if not self._moves(e)}
        self.splats = splats(self.vector, wanted(roots_of(plan.stores), outside))

    def _moves(self, expr: Expr) -> bool:
        return self.plan.depths[expr] == self.plan.last

    def begin_vector(self, at: ir.Value, real: int | First, known: Known | None = None) -> None:
        """The vector of the innermost loop that begins at `at`; some expressions may be known."""
        self.at, self.real = at, real
        self.inner = {} if known is None else dict(known)

    def vector_value(self, expr: Expr) -> ir.Value:
        """The value of an expression in this vector."""
        if self.plan.lanes == 1 and any(isinstance(part, Choose) for part in walk([expr])):
            return self._branching_value(expr, self.inner)
        for part in walk([expr], self.inner):
            if self._moves(part) or isinstance(part, Literal) or part in self.splats:
                self.inner[part] = self._vector_of(part)
        return self.inner[expr]

    def _vector_of(self, expr: Expr) -> ir.Value:
        if expr in self.splats:
            return self.splats[expr]
        return value_of(self.vector, expr, self.inner, self._vector_leaf)

    def _vector_leaf(self, expr: Expr) -> ir.Value:
        if isinstance(expr, IndexValue):
            return self._lanes_of(expr.at)
        assert isinstance(expr, (Load, LoadAt))
        if self.plan.is_in_row(expr):
            return self._load(expr)
        return self._gather(expr, [self.inner[place] for place, _ in expr.picks])

    def store_vector(self, store: Store, value: ir.Value) -> None:
        """Store a vector, combined with what is there."""
        if not self.plan.is_in_row(store):
            picks = [(self.vector_value(place), stride) for place, stride in store.picks]
            place = self._picked(self._inner_index(store.at), picks)
            self._write(store, place, value, bool(store.combine))
            return
        if store.combine:
            value = combined(self.vector, store, self._load(store), value)
        address, stride = self._inner_address(store)
        self._memory(store.buffer).write(value, address, stride, self.real)

    def only_real(self, store: Store, value: ir.Value) -> ir.Value:
        """A value to be combined, with lanes that are not real such that they change nothing."""
        if self.real == self.plan.lanes:
            return value
        real = self.real
        mask = real.mask if isinstance(real, First) else lane_mask(self.plan.lanes, real)
        return self.builder.select(mask, value, identity(self.vector, store))

    # ------------------------------------------------------------ places of vectors

    def _split(self, at: Affine) -> tuple[Affine, int]:
        """The part of an index outside the innermost loop, and the innermost coefficient."""
        var = self.plan.vars[-1]
        rest = Affine(at.constant, tuple((v, c) for v, c in at.terms if v is not var))
        return rest, at.coefficient(var)

    def _inner_index(self, at: Affine) -> ir.Value:
        rest, coefficient = self._split(at)
        inner = self.builder.mul(self.at, i64(coefficient))
        return self.builder.add(self._index(rest), inner)

    def _lanes_of(self, at: Affine) -> ir.Value:
        """An index as a value, on all lanes."""
        first, lanes = self._inner_index(at), self.plan.lanes
        if lanes == 1:
            return first
        steps = [lane * self._split(at)[1] for lane in range(lanes)]
        return self.builder.add(
            self.vector.splat(first), ir.Constant(ir.VectorType(I64, lanes), steps)
        )

    def _inner_address(self, access: Access) -> tuple[ir.Value, int]:
        rest, coefficient = self._split(access.at)
        base = self.bases[access.buffer, rest, access.picks]
        return self._memory(access.buffer).along(base, self.at, coefficient), coefficient

    def _load(self, access: Access) -> ir.Value:
        address, stride = self._inner_address(access)
        lanes = self.plan.lanes
        real = self.real if stride else lanes  # one scalar may stand in lanes that are not real
        return self._memory(access.buffer).read_every(address, stride, lanes, real)

    def _gather(self, expr: Load | LoadAt, places: Sequence[ir.Value]) -> ir.Value:
        """Elements from places that depend on values, lane by lane; places are always valid."""
        b, strides = self.builder, [stride for _, stride in expr.picks]
        base, coefficient = self._inner_index(expr.at), self._split(expr.at)[1]
        found = []
        for lane in range(self.plan.lanes):
            away = lane_offset(b, lane, coefficient, self.real)
            first = b.add(base, as_i64(away)) if lane else base
            picks = [some_lanes(b, place, lane, 1) for place in places]
            element = self._picked(first, list(zip(picks, strides, strict=True)))
            found.append(self._read(expr.buffer, element))
        return vector_of(b, found)

    # ------------------------------------------------------------ choices

    def _branching_value(self, expr: Expr, known: Known) -> ir.Value:
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

    def _branching_steps(self, expr: Expr, known: Known) -> Steps:
        """The value of an expression; yields what computes those of its parts and is sent them."""
        if expr in known:
            return known[expr]
        if isinstance(expr, Choose):
            result = yield self._branch(expr, known)
        elif expr not in self.splats and isinstance(expr, (Apply, LoadAt)):
            parts = []
            for part in parts_of(expr):
                value = yield self._branching_steps(part, known)
                parts.append(value)
            if isinstance(expr, Apply):
                result = applied(self.vector, expr, parts)
            else:
                result = self._gather(expr, parts)
        else:
            result = self._vector_of(expr)
        known[expr] = result
        return result

    def _branch(self, expr: Choose, known: Known) -> Steps:
        b, before = self.builder, len(known)
        place = self._inner_index(expr.test.at)
        above = b.icmp_signed(">=", place, i64(expr.test.low))
        below = b.icmp_signed("<", place, i64(expr.test.high))
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


def _is_zero(value: ir.Value) -> bool:
    return isinstance(value, ir.Constant) and value.constant == 0
