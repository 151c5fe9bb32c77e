"""Graphs of one function at several lengths -> one graph for any length.

Python code sees ordinary integers (`x.shape[0]`, `/ len(x)`), so a function is traced at a few
lengths, and what differs between the graphs is what depends on the length:

- A length in a type becomes *the* axis of that value; a value has one such axis at most.
- A number that is a simple function of the length (see `formulas`) becomes a computation from the
  variable `length`, which is filled in by every call.
- An array that counts along the axis becomes a computation from the variable `positions`.

    x / 331, x / 37, x / 1021   ->   x / length

Whatever else differs cannot be told for other lengths: `DependsOnLength` says what it is.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import DependsOnLength
from ..graph import Constant, Graph, Node, Operator, Variable
from ..loops import Scatter
from ..ops.elementwise import add, multiply
from ..ops.indexing import counting_axis, gather
from ..ops.layout import broadcast_to, convert, reshape
from ..ops.random import random_bits, random_bits_at
from ..types import ArrayType
from .formulas import fit
from .rewriting import apply, full, rebuild

# The lengths to trace at: primes, so that no product of other lengths is one of them; longer than
# anything that is written out; far apart, so that a special way for some lengths is found.
LENGTHS = (331, 37, 1021)

INDEX = np.dtype(np.int64)
_OTHER_STEPS = (
    "the steps that the function takes change with the length; write what a loop does along the "
    "axis as operations on whole arrays"
)


@dataclass
class AnyLength:
    """A graph for any length; in its types the first of `LENGTHS` stands for it."""

    graph: Graph
    axes: dict[int, int]  # the axis with that length of every value that has one, by serial
    length: Variable
    positions: Variable  # 0, 1, 2, ... along the axis

    @property
    def example(self) -> int:
        """The length in the types."""
        return int(self.positions.type.shape[0])


@dataclass
class Family:
    """One function's graphs at all lengths, with variables for what depends on the length."""

    graphs: list[Graph]
    lengths: Sequence[int] = LENGTHS
    length: list[Variable] = field(default_factory=list)
    positions: list[Variable] = field(default_factory=list)

    def __post_init__(self) -> None:
        scalar = ArrayType(INDEX, ())
        if not self.length:
            self.length = [Variable("length", None, scalar, False) for _ in self.lengths]
            self.positions = [
                Variable("positions", None, ArrayType(INDEX, (n,)), False) for n in self.lengths
            ]

    def changed(self, graphs: list[Graph]) -> Family:
        """The family with other graphs."""
        return Family(graphs, self.lengths, self.length, self.positions)


def by_position(family: Family) -> Family:
    """random_bits(key, shape=(n, 3)) -> random_bits_at(key, 3 * positions[:, None] + (0, 1, 2)).

    Random bits are numbered in one line through all of their axes; this numbers them by sample.
    """
    pairs = list(zip(family.graphs, family.positions, strict=True))
    counts = {
        sum(_numbered(positions, node) is not None for node in graph.operators)
        for graph, positions in pairs
    }
    if counts == {0} or len(counts) > 1:
        return family
    return family.changed(
        [rebuild(graph, functools.partial(_numbered, positions)) for graph, positions in pairs]
    )


def _is_line(node: Operator) -> bool:
    """Whether a node gives the random bits of one key."""
    return node.op is random_bits and node.inputs[0].type.ndim == 1


def _numbered(positions: Variable, node: Operator) -> Node | None:
    if not _is_line(node) or node.type.shape[:1] != positions.type.shape:
        return None
    shape, wide = node.type.shape, np.dtype(np.uint64)
    rest = shape[1:]
    count = int(np.prod(rest, dtype=np.int64))
    first = apply(convert, positions, params={"dtype": wide})
    first = apply(multiply, first, Constant(wide.type(count)), params={})
    first = apply(reshape, first, params={"shape": (shape[0], *(1,) * len(rest))})
    within = Constant(np.arange(count, dtype=wide).reshape(1, *rest))
    places = apply(add, first, within, params={})
    params = {name: node.params[name] for name in ("width", "stream")}
    return apply(random_bits_at, node.inputs[0], places, params=params, like=node)


def generalise(family: Family) -> Family:
    """The family with all numbers that depend on the length computed from it."""
    return family.changed(_Comparison(family).rebuilt())


def for_any_length(family: Family) -> AnyLength:
    """The one graph that stands for all of the family."""
    family = generalise(family)
    graph = _with_own_outputs(family.graphs[0])
    others = [_with_own_outputs(other) for other in family.graphs[1:]]
    axes = _Comparison(family.changed([graph, *others])).axes
    return AnyLength(graph, axes, family.length[0], family.positions[0])


def _with_own_outputs(graph: Graph) -> Graph:
    """Every output an operator of its own: none an input, and none the same as another."""
    seen: set[int] = set()
    outputs: list[Node | None] = []
    for node in graph.outputs:
        assert node is not None
        if not isinstance(node, Operator) or node.serial in seen:
            node = apply(broadcast_to, node, params={"shape": node.type.shape})
        seen.add(node.serial)
        outputs.append(node)
    return Graph(graph.inputs, outputs, graph.in_structure, graph.out_structure, graph.name)


Row = tuple[Node, ...]  # one node of each graph, that stand for each other


class _Comparison:
    """The graphs of a family, node beside node.

    Nodes are paired from the outputs on, input by input: in which order independent ones were made
    does not matter.
    """

    def __init__(self, family: Family):
        self.family, self.lengths = family, family.lengths
        inputs = zip(*[graph.inputs for graph in family.graphs], strict=True)
        self.variables = {*inputs, tuple(family.length), tuple(family.positions)}
        self.axes: dict[int, int] = {}  # of the values of the first graph
        self.rows = self._paired()
        for row in self.rows:
            self._find_axis(row)
            if isinstance(row[0], Operator):
                self._check_params(row)

    def _paired(self) -> list[Row]:
        """All rows, inputs first. Iterative."""
        graphs = self.family.graphs
        if len({len(graph.outputs) for graph in graphs}) > 1:
            raise DependsOnLength("the number of results changes with the length")
        roots: list[Any] = list(zip(*[graph.outputs for graph in graphs], strict=True))
        roots += list(zip(*[graph.inputs for graph in graphs], strict=True))
        found: dict[Row, None] = {}
        seen: set[Row] = set()
        pending: list[tuple[Row, bool]] = [(row, False) for row in reversed(roots)]
        while pending:
            row, expanded = pending.pop()
            if expanded:
                found.setdefault(row)
            elif row not in seen:
                seen.add(row)
                self._check_same(row)
                pending.append((row, True))
                sources = zip(*[node.inputs for node in row], strict=True)
                pending += [(source, False) for source in sources]
        return list(found)

    def _check_same(self, row: Row) -> None:
        kinds = {(type(node), getattr(node, "op", None), len(node.inputs)) for node in row}
        other_argument = isinstance(row[0], Variable) and row not in self.variables
        if len(kinds) > 1 or other_argument:
            node = next((node for node in row if isinstance(node, Operator)), row[0])
            raise DependsOnLength(_OTHER_STEPS, self._at(node))

    def _at(self, node: Node) -> Node:
        """The node, or of a constant the first operator that uses it: one that has a line."""
        if isinstance(node, Operator):
            return node
        users = (user for user in self.family.graphs[0].operators if node in user.inputs)
        return next(users, node)

    # ------------------------------------------------------------ what must be the same

    def _find_axis(self, row: Row) -> None:
        first = row[0]
        types = [node.type for node in row]
        if all(one == types[0] for one in types):
            return
        if any(isinstance(one, tuple) and not isinstance(one, ArrayType) for one in types):
            raise DependsOnLength(
                "gives several arrays that change with the length", self._at(first)
            )
        shapes = [one.shape for one in types]
        if len({(one.dtype, len(one.shape)) for one in types}) > 1:
            raise DependsOnLength(
                "its dtype or number of axes changes with the length", self._at(first)
            )
        found = [axis for axis, lengths in enumerate(zip(*shapes, strict=True)) if _vary(lengths)]
        for axis in found:
            if tuple(shape[axis] for shape in shapes) != tuple(self.lengths):
                raise DependsOnLength(
                    "makes an axis whose length is not the dynamic one but changes with it",
                    self._at(first),
                )
        if len(found) > 1:
            raise DependsOnLength(
                "makes a value with two axes of the dynamic length", self._at(first)
            )
        if found:
            self.axes[first.serial] = found[0]

    def _check_params(self, row: Row) -> None:
        first, *others = row
        assert isinstance(first, Operator)
        axis = self.axes.get(first.serial)
        for node, length in zip(others, self.lengths[1:], strict=True):
            params = node.params  # type: ignore[attr-defined]
            expected = first.params
            if axis is not None and first.op.resize is not None:
                expected = first.op.resize(axis, length, **expected)
            if not _equal(params, expected):
                raise DependsOnLength("what it is told changes with the length", first)

    # ------------------------------------------------------------ what is computed instead

    def rebuilt(self) -> list[Graph]:
        """The graphs with computations in place of numbers that depend on the length."""
        new: list[dict[int, Node]] = [{} for _ in self.lengths]
        for row in self.rows:
            made = self._constants(row) if isinstance(row[0], Constant) else None
            for k, node in enumerate(row):
                if node.serial in new[k]:
                    continue
                if isinstance(node, Operator):
                    new[k][node.serial] = _rebuilt(node, new[k])
                else:
                    new[k][node.serial] = node if made is None else made[k]
        return [
            Graph(
                graph.inputs,
                [None if node is None else known[node.serial] for node in graph.outputs],
                graph.in_structure,
                graph.out_structure,
                graph.name,
            )
            for graph, known in zip(self.family.graphs, new, strict=True)
        ]

    def _constants(self, row: Row) -> list[Node] | None:
        """What stands for a constant in each graph; None: the constant."""
        values = [np.asarray(node.output) for node in row]
        axis = self.axes.get(row[0].serial)
        if axis is None:
            if all(_same_elements(value, values[0]) for value in values):
                return None
            return self._numbers(row, values)
        lines = [_line(value, axis) for value in values]
        if any(line is None for line in lines):
            raise DependsOnLength(
                f"a constant array of shape {values[0].shape} lies along the dynamic axis, and "
                "what it holds at other lengths is not known",
                self._at(row[0]),
            )
        starts, steps = ([line[part] for line in lines] for part in (0, 1))  # type: ignore[index]
        return self._counted(row, axis, starts, steps)

    def _numbers(self, row: Row, values: Sequence[np.ndarray]) -> list[Node]:
        """Constants of one number each, all different."""
        if any(value.size != 1 and not _is_one_number(value) for value in values):
            raise DependsOnLength(
                "the numbers in a constant array change with the length", self._at(row[0])
            )
        numbers = self._scalars([value.flat[0] for value in values], row[0])
        return [
            number
            if node.type.shape == ()
            else apply(broadcast_to, number, params={"shape": node.type.shape})
            for number, node in zip(numbers, row, strict=True)
        ]

    def _scalars(self, numbers: Sequence[Any], node: Node) -> list[Node]:
        """One number for each graph, of a constant's type: fixed, or computed from the length."""
        like = node.type
        scalar = ArrayType(like.dtype, (), like.weak)
        if all(_same_elements(number, numbers[0]) for number in numbers):
            return [Constant(like.dtype.type(numbers[0]), scalar) for _ in numbers]
        formula = fit(numbers, self.lengths, like.dtype)
        if formula is None:
            raise DependsOnLength(
                f"the number {numbers[0]!s} at length {self.lengths[0]} and {numbers[1]!s} at "
                f"{self.lengths[1]} is not a simple function of the length",
                self._at(node),
            )
        return [formula.computed(length, scalar) for length in self.family.length]

    def _counted(
        self, row: Row, axis: int, starts: Sequence[Any], steps: Sequence[Any]
    ) -> list[Node]:
        """start + step * position along the axis."""
        like = ArrayType(row[0].type.dtype, ())
        firsts = self._scalars(starts, row[0])
        if not any(steps):
            shapes = [node.type.shape for node in row]
            if isinstance(firsts[0], Constant):
                return [full(starts[0], ArrayType(like.dtype, shape)) for shape in shapes]
            pairs = zip(firsts, shapes, strict=True)
            return [apply(broadcast_to, first, params={"shape": shape}) for first, shape in pairs]
        made: list[Node] = []
        factors = self._scalars(steps, row[0])
        for k, node in enumerate(row):
            line = tuple(n if a == axis else 1 for a, n in enumerate(node.type.shape))
            value = apply(convert, self.family.positions[k], params={"dtype": like.dtype})
            value = apply(multiply, value, factors[k], params={})
            value = apply(add, value, firsts[k], params={})
            value = apply(reshape, value, params={"shape": line})
            made.append(apply(broadcast_to, value, params={"shape": node.type.shape}))
        return made


def _rebuilt(node: Operator, known: dict[int, Node]) -> Operator:
    inputs = tuple(
        source if only_counts(node, number) else known[source.serial]
        for number, source in enumerate(node.inputs)
    )
    if all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
        return node
    return apply(node.op, *inputs, params=node.params, like=node)


def only_counts(user: Operator, number: int) -> bool:
    """Whether an argument holds indices 0, 1, 2, ... that pick each sample's own elements."""
    source = user.inputs[number]
    first = 2 if isinstance(user.op.loops, Scatter) else 1
    if not isinstance(source, Constant) or number < first or "axes" not in user.params:
        return False
    if user.op is not gather and first == 1:
        return False
    length = user.inputs[0].type.shape[user.params["axes"][number - first]]
    return counting_axis(source.output, length) is not None


def _vary(numbers: Sequence[int]) -> bool:
    return any(number != numbers[0] for number in numbers)


def _equal(a: Any, b: Any) -> bool:
    """Whether two parameters are the same, arrays in them included."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return _same_elements(a, b)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    if isinstance(a, (tuple, list)) and type(a) is type(b):
        return len(a) == len(b) and all(map(_equal, a, b))
    return bool(a is b or (type(a) is type(b) and a == b))


def _same_elements(a: Any, b: Any) -> bool:
    """Whether two arrays are the same, by their bits."""
    if a is b:
        return True
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.size:  # what both repeat along an axis is compared once
        once = tuple(
            slice(1 if s == t == 0 else None) for s, t in zip(a.strides, b.strides, strict=True)
        )
        a, b = a[once], b[once]
    return a.tobytes() == b.tobytes()


def _is_one_number(value: np.ndarray) -> bool:
    return bool(value.size and np.all(value == value.flat[0]))


def _line(value: np.ndarray, axis: int) -> tuple[Any, Any] | None:
    """Start and step of an array that counts along an axis and is constant along the others."""
    if value.shape[axis] == 0:  # of which nothing can be told
        return None
    lines = np.moveaxis(value, axis, 0).reshape(value.shape[axis], -1)
    if lines.shape[1] == 0:
        return value.dtype.type(0), value.dtype.type(0)
    line = lines[:, 0]
    if not np.array_equal(lines, np.broadcast_to(line[:, None], lines.shape), equal_nan=True):
        return None
    if np.array_equal(line, np.full_like(line, line[0]), equal_nan=True):
        return line[0], value.dtype.type(0)
    if value.dtype.kind not in "iuf":
        return None
    with np.errstate(all="ignore"):
        step = line[1] - line[0]
        counted = line[0] + step * np.arange(len(line)).astype(value.dtype)
        slack = 4 * np.spacing(np.abs(line).max()) if value.dtype.kind == "f" else 0
        return (line[0], step) if np.all(np.abs(counted - line) <= slack) else None
