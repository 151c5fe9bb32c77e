"""Which axis of which value is one and the same independent axis.

What an operation does to an axis is read off its loops, not written down a second time: its rule
is run on symbolic indices, and where a loop variable of the result turns up, alone, as an index of
an argument, the two axes run together. An axis whose variable is used in any other way (shifted,
reversed, as a number) is *mixed*: one element of the result needs others along it.

>>> from wengert.trace import trace
>>> import numpy as np
>>> graph = trace(lambda x, w: np.tanh(x @ w), np.ones((5, 3)), np.ones((3, 2)))
>>> product, tanh = graph.operators
>>> relate(product, lowering_of(product)).pairs
[(0, 0, 0), (1, 1, 1)]
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..graph import Constant, Node, Operator
from ..loops import (
    Accumulate,
    Affine,
    Alias,
    Buffer,
    Choose,
    Expr,
    Index,
    IndexValue,
    Load,
    LoadAt,
    MemoryKind,
    Operand,
    Pointwise,
    Product,
    Reduction,
    Running,
    Scatter,
    Var,
    walk,
)
from .lowering import loop_variables, lowering_of

Place = tuple[int, int]  # an argument's number and one of its axes


@dataclass
class Relation:
    """How the axes of a result and of the arguments belong together."""

    pairs: list[tuple[int, int, int]] = field(default_factory=list)  # axis, argument, its axis
    mixed: set[int] = field(default_factory=set)  # axes of the result
    mixed_places: set[Place] = field(default_factory=set)
    sums: list[list[Place]] = field(default_factory=list)  # places that one sum runs over

    def separates(self, axis: int, places: dict[int, int]) -> bool:
        """Whether an axis of the result needs these axes of arguments at its own index alone."""
        return axis not in self.mixed and all(
            (axis, number, place) in self.pairs and (number, place) not in self.mixed_places
            for number, place in places.items()
        )

    def adds_up(self, places: dict[int, int]) -> bool:
        """Whether these axes of arguments are all that one sum runs over."""
        return sorted(places.items()) in [sorted(group) for group in self.sums]


def relate(node: Operator, loops: Any, merged: bool = False) -> Relation:
    """How the axes of a node and of its inputs belong together.

    With `merged` they also do where an axis is another one together with axes behind that.
    """
    if isinstance(loops, Pointwise):
        return _Recorder(node).pointwise(loops)
    if isinstance(loops, Accumulate):
        return _accumulated(node, loops)
    if isinstance(loops, Scatter):
        return _Recorder(node).scatter(loops)
    if isinstance(loops, Reduction):
        return _reduced(node)
    if isinstance(loops, Running):
        return _along_lines(node)
    if isinstance(loops, Product):
        return _multiplied(node)
    if isinstance(loops, Alias):
        return _reshaped(node, merged)
    return _all_mixed(node)


def _all_mixed(node: Operator) -> Relation:
    """NumPy evaluates it: nothing is known."""
    shape = getattr(node.type, "shape", ())
    places = {(k, a) for k, source in enumerate(node.inputs) for a in range(_rank(source))}
    return Relation(mixed=set(range(len(shape))), mixed_places=places)


def _rank(node: Node) -> int:
    return len(getattr(node.type, "shape", ()))


def _reduced(node: Operator) -> Relation:
    axes = node.params["axes"]
    kept = [axis for axis in range(_rank(node.inputs[0])) if axis not in axes]
    return Relation(
        pairs=[(place, 0, axis) for place, axis in enumerate(kept)],
        sums=[[(0, axis)] for axis in axes],
    )


def _along_lines(node: Operator) -> Relation:
    line, numbers = node.params["axis"], range(len(node.inputs))
    axes = [axis for axis in range(_rank(node)) if axis != line]
    return Relation(
        pairs=[(axis, number, axis) for number in numbers for axis in axes],
        mixed={line},
        mixed_places={(number, line) for number in numbers},
    )


def _multiplied(node: Operator) -> Relation:
    x, y, out = node.params["spec"]
    found = Relation()
    for number, labels in enumerate((x, y)):
        found.pairs += [(out.index(n), number, a) for a, n in enumerate(labels) if n in out]
    found.sums = [[(0, x.index(n)), (1, y.index(n))] for n in x if n not in out]
    return found


def _reshaped(node: Operator, merged: bool) -> Relation:
    """Axes with the same length and as many elements in front are the same."""
    found = Relation()
    old, new = node.inputs[0].type.shape, node.type.shape
    starts = {before: (axis, length) for axis, before, length in _with_front(old) if length > 1}
    for axis, before, length in _with_front(new):
        place, own = starts.get(before, (0, 0))
        if length > 1 and own and (own == length or (merged and _divides(own, length))):
            found.pairs.append((axis, 0, place))
    matched = {axis for axis, _, _ in found.pairs}
    found.mixed = {axis for axis in range(len(new)) if axis not in matched}
    found.mixed_places = {
        (0, axis) for axis in range(len(old)) if axis not in {pair[2] for pair in found.pairs}
    }
    return found


def _divides(a: int, b: int) -> bool:
    return max(a, b) % min(a, b) == 0


def _with_front(shape: Sequence[int]) -> list[tuple[int, int, int]]:
    before, found = 1, []
    for axis, length in enumerate(shape):
        found.append((axis, before, length))
        before *= length
    return found


def _accumulated(node: Operator, loops: Accumulate) -> Relation:
    own = loop_variables(node.inputs[0].type.shape)
    target = loops.place(tuple(Affine.of(var) for var in own), **node.params)
    found = Relation(mixed_places={(0, axis) for axis in range(len(own))})
    for axis, (at, length) in enumerate(zip(target, node.type.shape, strict=True)):
        place = _alone(at, own)
        if place is not None and own[place].extent == length:
            found.pairs.append((axis, 0, place))
            found.mixed_places.discard((0, place))
        else:
            found.mixed.add(axis)
    return found


def _alone(at: Affine, own: Sequence[Var]) -> int | None:
    """Which of the variables the index is, if it is one of them and nothing else."""
    if at.constant or len(at.terms) != 1 or at.terms[0][1] != 1:
        return None
    return next((k for k, var in enumerate(own) if var is at.terms[0][0]), None)


class _Recorder:
    """Runs a rule on symbolic indices and notes what it reads where."""

    def __init__(self, node: Operator):
        self.node = node
        self.found = Relation()
        self.reads: dict[Place, set[Affine]] = {}
        # strides that tell the axes apart
        self.buffers = [self._memory(source) for source in node.inputs]

    @staticmethod
    def _memory(node: Node) -> Buffer:
        shape = node.type.shape
        strides = tuple(1 << 32 * (axis + 1) for axis in range(len(shape)))
        return Buffer("", node.type.dtype, shape, strides, MemoryKind.ARENA)

    def _operands(self) -> list[Operand]:
        return [
            Operand(
                source.type,
                functools.partial(self._read, number),
                functools.partial(self.buffers.__getitem__, number),
                source.output if isinstance(source, Constant) else None,
            )
            for number, source in enumerate(self.node.inputs)
        ]

    def _read(self, number: int, index: Index) -> Expr:
        for axis, at in enumerate(index):
            self.reads.setdefault((number, axis), set()).add(at)
        return Load(self.buffers[number], Affine(0))

    def pointwise(self, loops: Pointwise) -> Relation:
        """The relation of an operation that computes element by element."""
        self.vars = loop_variables(self.node.type.shape)
        index = tuple(Affine.of(var) for var in self.vars)
        rules = [loops.rule, *([] if loops.check is None else [loops.check])]
        self._look_through([one(index, *self._operands(), **self.node.params) for one in rules])
        self._settle(self.vars)
        return self.found

    def scatter(self, loops: Scatter) -> Relation:
        """The relation of an operation that puts elements of one argument into another."""
        node = self.node
        shape = loops.shape(*[source.type for source in node.inputs], **node.params)
        self.vars = loop_variables(shape)
        index = tuple(Affine.of(var) for var in self.vars)
        operands = self._operands()
        out = self._memory(node)
        at, picks = loops.place(index, out, *operands, **node.params)
        value = operands[1].broadcast(index)
        self._look_through([value, *[place for place, _ in picks]])
        placed: dict[int, int] = {}  # axis of the result, by the number of its loop
        for var, step in at.terms:
            number = self.vars.index(var)
            axis = _axis_of_stride(out, step)
            if axis is not None and var.extent == out.shape[axis] and number not in placed:
                placed[number] = axis
        picked = {_axis_of_stride(out, step) for _, step in picks}
        placed = {number: axis for number, axis in placed.items() if axis not in picked}
        self._settle(self.vars)
        loops_mixed = self.found.mixed
        if loops.combine == "add":  # loops that the affine place does not know are summed over
            kept = {var for var, _ in at.terms}
            for number, var in enumerate(self.vars):
                places = [(k, b) for a, k, b in self.found.pairs if a == number]
                if var not in kept and number not in loops_mixed and places:
                    self.found.sums.append(places)
        pairs = [(placed[a], k, b) for a, k, b in self.found.pairs if a in placed]
        good = {placed[a] for a in placed if a not in loops_mixed}
        self.found.pairs = pairs + [(axis, 0, axis) for axis in good]
        self.found.mixed = {axis for axis in range(len(out.shape)) if axis not in good}
        self.found.mixed_places |= {(0, axis) for axis in self.found.mixed}
        self.found.mixed_places |= {
            (k, b)
            for (k, b) in self.reads
            if k and not any(pair[1:] == (k, b) for pair in self.found.pairs)
        }
        return self.found

    def _look_through(self, roots: Sequence[Expr]) -> None:
        for expr in walk(roots):
            if isinstance(expr, IndexValue):
                self._mix(expr.at)
            elif isinstance(expr, Choose) and expr.test.decided() is None:
                self._mix(expr.test.at)
            elif isinstance(expr, LoadAt):
                self._note_picks(expr)

    def _mix(self, at: Affine) -> None:
        self.found.mixed |= {self.vars.index(var) for var, _ in at.terms if var in self.vars}

    def _note_picks(self, expr: LoadAt) -> None:
        number = next(k for k, b in enumerate(self.buffers) if b is expr.buffer)
        for var, step in expr.at.terms:
            axis = _axis_of_stride(expr.buffer, step)
            if axis is None:
                self.found.mixed.add(self.vars.index(var))
            else:
                self.reads.setdefault((number, axis), set()).add(Affine.of(var))
        for _, step in expr.picks:
            axis = _axis_of_stride(expr.buffer, step)
            self.found.mixed_places |= {
                (number, a) for a in range(len(expr.buffer.shape)) if axis is None or a == axis
            }

    def _settle(self, own: Sequence[Var]) -> None:
        """Pairs where every read of an axis is by one variable alone; all else is mixed."""
        for (number, axis), reads in self.reads.items():
            lone = _alone(next(iter(reads)), own) if len(reads) == 1 else None
            if lone is not None and own[lone].extent == self.node.inputs[number].type.shape[axis]:
                self.found.pairs.append((lone, number, axis))
                continue
            self.found.mixed_places.add((number, axis))
            for at in reads:
                self.found.mixed |= {k for k, var in enumerate(own) if at.coefficient(var)}


def _axis_of_stride(buffer: Buffer, stride: int) -> int | None:
    return next((axis for axis, step in enumerate(buffer.strides) if step == stride), None)


class AxisClasses:
    """The axes of all values of a graph, joined where they are one and the same."""

    def __init__(self, operators: Sequence[Operator]):
        self.relations = {node.serial: self._relation(node) for node in operators}
        self.parents: dict[tuple[int, int], tuple[int, int]] = {}
        for node in operators:
            self._join_all(node)

    def _relation(self, node: Operator) -> Relation:
        return relate(node, lowering_of(node))

    def _join_all(self, node: Operator) -> None:
        relation = self.relations[node.serial]
        for axis, number, place in relation.pairs:
            if axis not in relation.mixed and (number, place) not in relation.mixed_places:
                self.join((node.serial, axis), (node.inputs[number].serial, place))
        for (k, a), *others in relation.sums:
            for number, place in others:
                self.join((node.inputs[k].serial, a), (node.inputs[number].serial, place))

    def find(self, place: tuple[int, int]) -> tuple[int, int]:
        """The representative of an axis's class."""
        root = place
        while (above := self.parents.get(root, root)) != root:
            root = above
        while (above := self.parents.get(place, place)) != root:
            self.parents[place] = root
            place = above
        return root

    def join(self, a: tuple[int, int], b: tuple[int, int]) -> None:
        """Make two axes one."""
        a, b = self.find(a), self.find(b)
        if a != b:
            self.parents[b] = a

    def axis_in(self, node: Node, kind: tuple[int, int]) -> int | None:
        """The axis of a node that belongs to a class; None if none or more than one does."""
        found = [a for a in range(_rank(node)) if self.find((node.serial, a)) == kind]
        return found[0] if len(found) == 1 else None
