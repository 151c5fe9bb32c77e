"""Loops around code without loops: what their turns hand on, and what they add to, is in registers.

    for step < 1000:                            x, v = start
      x is .., v is .., each in memory    ->    for step < 1000:
      x' = x + h * v                                x, v = x + h * v, v - h * x
      v' = v - h * x                            memory = x, v

All kernels of a turn are emitted in place, and an element of memory that they name by a fixed place
is a value. Where a place depends on values or on the turn, memory is what it was.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import NamedTuple

from llvmlite import ir

from ..functions import FUNCTIONS, Cost
from ..loops import (
    Affine,
    Apply,
    Branch,
    Buffer,
    Carry,
    Check,
    Expr,
    IndexValue,
    Kernel,
    Literal,
    Load,
    LoadAt,
    Loop,
    Nest,
    Var,
    inside,
    root,
    roots_of,
    walk,
    with_parts,
)
from ..loops.places import are_apart, same_place
from ..machine import policy

Place = tuple[Buffer, int]  # who owns the memory, and which element of it


class Touched(NamedTuple):
    """An element that a kernel reads or writes; None: which one is known at run time alone."""

    owner: Buffer
    element: int | None
    writes: bool


def place_of(buffer: Buffer, at: Affine) -> tuple[Buffer, int | None]:
    """The owner of an element and its number there, if that does not depend on any loop."""
    dtype = buffer.dtype
    while buffer.base is not None:
        at, buffer = at + buffer.start, buffer.base
    fixed = not at.terms and buffer.dtype == dtype
    return buffer, at.constant if fixed else None


class Registers:
    """The values of the elements that are not in memory while a loop runs."""

    def __init__(self, owners: frozenset[Buffer]):
        self.owners = owners  # of which every element that is used is here
        self.values: dict[Place, ir.Value] = {}

    def holds(self, buffer: Buffer) -> bool:
        """Whether an array is here and not in memory."""
        return root(buffer) in self.owners

    def find(self, buffer: Buffer, at: Affine) -> ir.Value | None:
        """The value of an element, if it has one yet."""
        owner, element = place_of(buffer, at)
        assert element is not None
        return self.values.get((owner, element))

    def get(self, buffer: Buffer, at: Affine) -> ir.Value:
        """The value of an element."""
        value = self.find(buffer, at)
        assert value is not None, buffer
        return value

    def put(self, buffer: Buffer, at: Affine, value: ir.Value) -> None:
        """The value that an element has from here on."""
        owner, element = place_of(buffer, at)
        assert element is not None
        self.values[owner, element] = value


# ---------------------------------------------------------------- which loops, and which memory


def is_straight(loop: Loop) -> bool:
    """Whether the turns of a loop are code without loops, or loops around such code, and not too
    much of it."""
    every = list(turns_of(loop))
    if not all(map(_can_be_inside, every)):
        return False
    nests = [written_out(one) for one in every if isinstance(one, Nest)]
    values = sum(len(walk(roots_of(nest.stores))) for nest in nests)
    return values <= policy().code.most_in_turn


def written_out(nest: Nest) -> Nest:
    """A copy of a few elements, or quick arithmetic on very few, element by element; any other nest
    as it is."""
    turns = prod(var.extent for var in nest.vars)
    moves = all(isinstance(s.value, Load) and not (s.combine or s.picks) for s in nest.stores)
    most = policy().rewriting.most_in_registers if moves else policy().code.most_quick
    if not nest.vars or turns > most or not (moves or _is_quick(nest)):
        return nest
    stores = []
    begun = set()  # the elements that hold something which more is combined with
    for values in itertools.product(*[range(var.extent) for var in nest.vars]):
        at = dict(zip(nest.vars, map(Affine, values), strict=True))
        parts: dict[Expr, Expr] = {}
        for expr in walk(roots_of(nest.stores)):
            parts[expr] = _at(with_parts(expr, parts), at)
        for number, store in enumerate(nest.stores):
            place = store.at.substitute(at)
            element = number, place.constant, tuple(place.terms)
            goes_on = store.continues or (store.combine is not None and element in begun)
            begun.add(element)
            stores.append(store.rebuilt(parts, at=place, continues=goes_on))
    return Nest([], stores, nest.label, nest.nodes)


def _is_quick(nest: Nest) -> bool:
    """Whether what a nest computes takes no longer as numbers than as vectors of very few."""
    if any(store.guards for store in nest.stores) or _goes_on(nest):
        return False
    return all(
        isinstance(expr, (Load, LoadAt, Literal, IndexValue))
        or (isinstance(expr, Apply) and FUNCTIONS[expr.name].cost <= Cost.SLOW)
        for expr in walk(roots_of(nest.stores))
    )


def _goes_on(nest: Nest) -> bool:
    """Whether an element may read what another one has written."""
    loads = [e for e in walk(roots_of(nest.stores)) if isinstance(e, (Load, LoadAt))]
    for owner in {root(store.buffer) for store in nest.stores}:
        stores = [store for store in nest.stores if root(store.buffer) is owner]
        reads = [load for load in loads if root(load.buffer) is owner]
        alone = len(stores) == 1 and are_apart(stores[0], nest.vars)
        if reads and not (alone and all(same_place(stores[0], load) for load in reads)):
            return True
    return False


def _at(expr: Expr, at: Mapping[Var, Affine]) -> Expr:
    """An expression, whose parts are at one element of a nest already, at this element."""
    if isinstance(expr, Load):
        return Load(expr.buffer, expr.at.substitute(at))
    if isinstance(expr, LoadAt):
        return LoadAt(expr.buffer, expr.at.substitute(at), expr.picks)
    if isinstance(expr, IndexValue):
        return IndexValue(expr.at.substitute(at), expr.dtype)
    return expr


def turns_of(loop: Loop) -> Iterator[Kernel]:
    """A loop and all that is in its turns, but not what comes before and after them."""
    yield loop
    for kernel in loop.body:
        yield from inside(kernel)


def _can_be_inside(kernel: Kernel) -> bool:
    if isinstance(kernel, Nest):
        return not written_out(kernel).vars and not any(store.guards for store in kernel.stores)
    if isinstance(kernel, Loop):
        special = kernel.parallel or kernel.blocks or kernel.share or kernel.count or kernel.fold
        return not special
    return isinstance(kernel, (Check, Branch))


def _accesses(loop: Loop) -> Iterator[Touched]:
    """All that the kernels without loops in a loop read and write."""
    for one in turns_of(loop):
        if isinstance(one, Nest):
            one = written_out(one)
            for store in one.stores:
                owner, element = place_of(store.buffer, store.at)
                yield Touched(owner, None if store.picks else element, True)
            for expr in walk(roots_of(one.stores)):
                if isinstance(expr, Load):
                    yield Touched(*place_of(expr.buffer, expr.at), False)
                elif isinstance(expr, LoadAt):
                    yield Touched(root(expr.buffer), None, False)
        elif isinstance(one, Check):
            yield Touched(*place_of(one.flag, Affine(0)), False)
        elif isinstance(one, Branch) and one.value is not None:
            yield Touched(*place_of(one.value, Affine(0)), False)
        elif isinstance(one, Loop) and one.limit is not None:
            yield Touched(root(one.limit), None, False)


class InRegisters:
    """What of the memory of a loop is in registers: what it hands on from turn to turn, what is
    private to a turn, and what turns add to. Nothing, where turns are not code in place."""

    def __init__(self, loop: Loop):
        self.loop = loop
        self.most = policy().code.most_registers
        self.places: dict[Buffer, set[int]] = {}
        self.elsewhere: set[Buffer] = set()
        self.written: set[Buffer] = set()
        self.is_straight = is_straight(loop)
        inner = [one for one in turns_of(loop) if isinstance(one, Loop)]
        if self.is_straight:
            self._note_all(inner)
        self.owners = frozenset(filter(self._is_held, self.places))
        self.private = {buffer for one in inner for buffer in one.private}

    def _note_all(self, inner: Sequence[Loop]) -> None:
        """Find out what a loop, and those in it, have in memory."""
        for access in _accesses(self.loop):
            self._note(access)
        before = -1
        while before != (before := len(self.elsewhere) + sum(map(len, self.places.values()))):
            for one in inner:
                for carry in one.carries:
                    self._note_carry(carry, one is self.loop)

    def _note(self, access: Touched) -> None:
        if access.element is None:
            self.elsewhere.add(access.owner)
        else:
            self.places.setdefault(access.owner, set()).add(access.element)
        if access.writes:
            self.written.add(access.owner)

    def _note_carry(self, carry: Carry, is_outermost: bool) -> None:
        """What is carried is held as a whole, before and after a turn, or not at all."""
        both = {carry.before, carry.after}
        places = self.places.get(carry.before, set()) | self.places.get(carry.after, set())
        if both & self.elsewhere or len(places) > self.most:
            self.elsewhere |= both | {root(one) for one in (carry.start, *carry.homes)}
            return
        self.places[carry.before] = self.places[carry.after] = places
        self.written |= both
        if len(carry.places) == 1:  # a row of a result, which is in memory
            self.elsewhere |= {root(home) for home in carry.homes}
        if is_outermost:
            return
        for element in places:
            self._note(Touched(*place_of(carry.start, Affine(element)), False))
            if carry.end is not None:
                self._note(Touched(*place_of(carry.end, Affine(element)), True))

    def _is_held(self, owner: Buffer) -> bool:
        fits = len(self.places[owner]) <= self.most
        return owner in self.written and owner not in self.elsewhere and fits

    def holds(self, carry: Carry) -> bool:
        """Whether what is carried is in registers."""
        return carry.before in self.owners and carry.after in self.owners

    def written_in(self, loop: Loop) -> set[Place]:
        """What the turns of the loop, or of one in it, write to registers; carries left out."""
        found: set[Place] = set()
        for one in turns_of(loop):
            if isinstance(one, Nest):
                pairs = [place_of(store.buffer, store.at) for store in written_out(one).stores]
            elif isinstance(one, Loop) and one is not loop:
                ends = [(carry, carry.end) for carry in one.carries if carry.end is not None]
                pairs = [
                    place_of(end, Affine(element))
                    for carry, end in ends
                    for element in self.places.get(carry.before, ())
                ]
            else:
                continue
            found |= {(o, e) for o, e in pairs if o in self.owners and e is not None}
        carried = self._carried()
        return {place for place in found if place[0] not in carried}

    def _carried(self) -> set[Buffer]:
        return {
            buffer
            for one in turns_of(self.loop)
            if isinstance(one, Loop)
            for carry in one.carries
            for buffer in (carry.before, carry.after)
        }

    def kept(self) -> list[Place]:
        """What is in memory before and after the loop."""
        carried = self._carried()
        return [
            (owner, element)
            for owner in self.places
            if owner in self.owners and owner not in carried and owner not in self.private
            for element in sorted(self.places[owner])
        ]
