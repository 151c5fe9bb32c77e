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
from ..transforms.loop import is_loop, order
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
        self.steps = order(self.length, node.params["reverse"])
        self.graph: Graph = self.body.derived(_expanded)
        self.sizes = [source.type.size for source in self.graph.inputs]

    def run(self, given: Sequence[Dependence], known: Known) -> list[Dependence]:
        """The dependence of the last carry and of all rows."""
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
        """As if every step saw the carry of every other: more than there is, in no time.

        What an output needs of an input within a step is a matrix; those from carry to carry are
        multiplied until nothing is added.
        """
        body, length = self.body, self.length
        local, _ = propagate(self.graph, sources(self.sizes), [None] * len(self.sizes))
        starts = np.cumsum([0, *self.sizes])
        outputs = [
            matrix_of(one, t.size, starts[-1]) for one, t in zip(local, body.types, strict=True)
        ]
        fixed, carry, rows = body.split(given)
        sizes = body.split(self.sizes)[2]
        anywhere = [
            combine(one, np.tile(np.arange(size), length), np.arange(length * size), size)
            for one, size in zip(rows, sizes, strict=True)
        ]
        state, ends = [*fixed, *carry, *anywhere], body.carry
        while True:
            new = [
                union(state[body.constants + k], _apply(outputs[k], starts, state))
                for k in range(ends)
            ]
            if [_weight(one) for one in new] == [
                _weight(state[body.constants + k]) for k in range(ends)
            ]:
                break
            state[body.constants : body.constants + ends] = new
        found = list(state[body.constants : body.constants + ends])
        shared = [*fixed, *found, *[NONE] * len(rows)]
        first = body.constants + body.carry
        for number in range(ends, len(outputs)):
            size = body.types[number].size
            every = select(
                _apply(outputs[number], starts, shared), np.tile(np.arange(size), length)
            )
            own = [
                self._by_rows(outputs[number][:, starts[first + k] : starts[first + k + 1]], one)
                for k, one in enumerate(rows)
            ]
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


def matrix_of(given: Dependence, count: int, width: int) -> Any:
    """`matrix` with as many columns as there are inputs, also where nothing depends on any."""
    found = matrix(given, count)
    found.resize((count, width))
    return found


def _apply(local: Any, starts: Any, inputs: Sequence[Dependence]) -> Dependence:
    parts = []
    for number, one in enumerate(inputs):
        if one:
            block = local[:, starts[number] : starts[number + 1]].tocoo()
            parts.append(combine(one, block.coords[0], block.coords[1], local.shape[0]))
    return compact(union(*parts))


def _weight(given: Dependence) -> int:
    return int(matrix(given, given[0].rows.size).nnz) if given else 0
