"""Dependence through a whole graph, and through the steps of loops in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph import Constant, Graph, Operator
from ..ops.op import Traced
from ..passes.expand import expand
from ..trace.tracer import ITEM
from ..transforms.bodies import Body
from ..transforms.choice import is_switch
from ..transforms.loop import is_loop, order
from ..transforms.repetition import is_while
from .dependence import (
    NONE,
    Dependence,
    combine,
    compact,
    everything,
    matrix,
    select,
    sources,
    union,
)
from .rules import Known, depends

# A loop of up to this many operations in all its steps is followed step by step.
_FOLLOWED = 10_000

Found = tuple[list[Any], list[Any]]  # of each value its dependence, and itself where it is known


def propagate(
    graph: Graph, given: Sequence[Dependence], known: Known, seen: dict[int, Any] | None = None
) -> Found:
    """The dependence of the outputs by that of the inputs; what is known of either."""
    seen = {} if seen is None else seen
    dependence: dict[int, Any] = {}
    values: dict[int, Any] = {}
    for variable, one, value in zip(graph.inputs, given, known, strict=True):
        dependence[variable.serial], values[variable.serial] = one, value
    for node in graph.nodes:
        if isinstance(node, Operator):
            inner = [dependence[source.serial] for source in node.inputs]
            constants = [values[source.serial] for source in node.inputs]
            dependence[node.serial], values[node.serial] = _through(node, inner, constants, seen)
        elif isinstance(node, Constant):
            dependence[node.serial] = NONE
            values[node.serial] = None if isinstance(node.output, Traced) else node.output
    serials = [node.serial for node in graph.outputs if node is not None]
    return [dependence[serial] for serial in serials], [values[serial] for serial in serials]


def _through(
    node: Operator, given: list[Any], known: list[Any], seen: dict[int, Any]
) -> tuple[Any, Any]:
    if node.op is ITEM:
        number = node.params["index"]
        return given[0][number], None if known[0] is None else known[0][number]
    if not any(given):
        nothing = [NONE] * len(node.type) if node.op.multiple else NONE
        return nothing, _evaluated(node, known)
    if is_loop(node):
        return _FollowedLoop(node).run(given, known), None
    if is_while(node):
        body = node.params["turn"].body
        return _Step(body).closed(given)[body.constants :], None
    if is_switch(node):
        return _branches(node, given, known), None
    if node.op.multiple:
        return [everything(given, one.size) for one in node.type], None
    return depends(node, given, known, seen), None


def _evaluated(node: Operator, known: list[Any]) -> Any:
    """The value of an operation on known values."""
    if any(value is None for value in known):
        return None
    with np.errstate(all="ignore"):
        return node.op.evaluate(*known, **node.params)


# ---------------------------------------------------------------- loops


def _expanded(body: Body) -> Graph:
    return expand(body.graph)


class _FollowedLoop:
    """A loop over rows, whose body is followed for each step, or once for all of them."""

    def __init__(self, node: Operator):
        self.body: Body = node.params["body"]
        self.length: int = node.params["length"]
        self.counted: int = node.params.get("counted", 0)
        self.steps = order(self.length, node.params["reverse"])
        self.graph: Graph = self.body.derived(_expanded)
        self.sizes = [source.type.size for source in self.graph.inputs]

    def run(self, given: Sequence[Dependence], known: Known) -> list[Dependence]:
        """The dependence of the last carry and of all rows."""
        if self.counted:  # there may be fewer steps, or more once it has room for them
            return self._at_once(given) if self.length else self._everything(given)
        if self.length * len(self.graph.operators) <= _FOLLOWED:
            return self._followed(given, known)
        return self._at_once(given)

    def _followed(self, given: Sequence[Dependence], known: Known) -> list[Dependence]:
        body = self.body
        fixed, carry, rows = body.split(given)
        fixed_values, carry_values, row_values = body.split(known)
        sizes = body.split(self.sizes)[2]
        seen: dict[int, Any] = {}
        stacked: list[list[Any]] = [[] for _ in body.types[body.carry :]]
        for step in self.steps:
            row = [
                select(one, step * size + np.arange(size))
                for one, size in zip(rows, sizes, strict=True)
            ]
            value = [None if x is None else np.asarray(x)[step] for x in row_values]
            found, values = propagate(
                self.graph, [*fixed, *carry, *row], [*fixed_values, *carry_values, *value], seen
            )
            carry, carry_values = list(map(compact, found[: body.carry])), values[: body.carry]
            for column, one in zip(stacked, found[body.carry :], strict=True):
                column.append((step, one))
        ends = [t.size for t in body.types[body.carry :]]
        return [*carry, *[self._stack(c, size) for c, size in zip(stacked, ends, strict=True)]]

    def _everything(self, given: Sequence[Dependence]) -> list[Dependence]:
        types, carry = self.body.types, self.body.carry
        sizes = [t.size * (1 if k < carry else self.length) for k, t in enumerate(types)]
        return [everything(given, size) for size in sizes]

    def _stack(self, column: Sequence[tuple[int, Dependence]], size: int) -> Dependence:
        """The rows of all steps, as one array."""
        count = self.length * size
        found = []
        for step, one in column:
            numbers = np.full(count, -1)
            numbers[step * size : (step + 1) * size] = np.arange(size)
            found.append(select(one, numbers))
        return compact(tuple(line for lines in found for line in lines))

    def _at_once(self, given: Sequence[Dependence]) -> list[Dependence]:
        """As if every step saw the carry of every other: more than there is, in no time."""
        body, length, step = self.body, self.length, _Step(self.body)
        fixed, carry, rows = body.split(given)
        sizes = body.split(self.sizes)[2]
        anywhere = [
            combine(one, np.tile(np.arange(size), length), np.arange(length * size), size)
            for one, size in zip(rows, sizes, strict=True)
        ]
        first = body.constants + body.carry
        seen = [*step.closed([*fixed, *carry, *anywhere])[:first], *[NONE] * len(rows)]
        found = seen[body.constants : first]
        for number in range(body.carry, len(body.types)):
            size = body.types[number].size
            every = select(step.applied(number, seen), np.tile(np.arange(size), length))
            own = [self._by_rows(step.block(number, first + k), one) for k, one in enumerate(rows)]
            found.append(union(every, *own))
        return found

    def _by_rows(self, local: Any, rows: Dependence) -> Dependence:
        """What each step's output needs of the row of that step."""
        places, elements = local.tocoo().coords
        step = np.arange(self.length)[:, None]
        count, size = local.shape
        return combine(
            rows,
            (step * count + places).ravel(),
            (step * size + elements).ravel(),
            self.length * count,
        )


class _Step:
    """What each output of a body needs of each input within a step, as matrices."""

    def __init__(self, body: Body):
        self.body = body
        graph: Graph = body.derived(_expanded)
        sizes = [source.type.size for source in graph.inputs]
        found, _ = propagate(graph, sources(sizes), [None] * len(sizes))
        self.starts = np.cumsum([0, *sizes])
        self.outputs = [
            matrix_of(one, t.size, sum(sizes)) for one, t in zip(found, body.types, strict=True)
        ]

    def block(self, number: int, of: int) -> Any:
        """The matrix of one output by one input."""
        return self.outputs[number][:, self.starts[of] : self.starts[of + 1]]

    def applied(self, number: int, inputs: Sequence[Dependence]) -> Dependence:
        """The dependence of an output by that of the inputs."""
        parts = []
        for of, one in enumerate(inputs):
            if one:
                places, elements = self.block(number, of).tocoo().coords
                parts.append(combine(one, places, elements, self.outputs[number].shape[0]))
        return compact(union(*parts))

    def closed(self, given: Sequence[Dependence]) -> list[Dependence]:
        """The inputs with a carry that any number of steps may have made, none among them."""
        state, first = list(given), self.body.constants
        carry = slice(first, first + self.body.carry)
        while True:
            before = state[carry]
            new = [self.applied(number, state) for number in range(self.body.carry)]
            state[carry] = [compact(union(*both)) for both in zip(before, new, strict=True)]
            if list(map(_weight, state[carry])) == list(map(_weight, before)):
                return state


def _branches(node: Operator, given: Sequence[Dependence], known: Known) -> list[Dependence]:
    """Each result as in all branches together: any of them may be the one that runs."""
    found = [
        propagate(body.derived(_expanded), given[1:], known[1:])[0]
        for body in node.params["branches"].bodies
    ]
    return [union(*column) for column in zip(*found, strict=True)]


def matrix_of(given: Dependence, count: int, width: int) -> Any:
    """`matrix` with as many columns as there are inputs, also where nothing depends on any."""
    found = matrix(given, count)
    found.resize((count, width))
    return found


def _weight(given: Dependence) -> int:
    return int(matrix(given, given[0].rows.size).nnz) if given else 0
