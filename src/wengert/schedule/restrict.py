"""A graph, an operator or a value for a part of the samples: what all ways to cut a graph share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..errors import WengertError
from ..graph import Constant, Graph, Node, Operator, Variable
from ..trace.tracer import ITEM
from ..transforms.bodies import Body
from ..transforms.loop import is_loop
from ..types import ArrayType


class Part(NamedTuple):
    """How much of an axis of samples is meant: so many out of the whole length.

    Axes that are longer have several places for each sample, one after the other.

    >>> Part(16, 100).of(100), Part(16, 100).of(700)
    (16, 112)
    """

    width: int
    length: int

    def fits(self, extent: int) -> bool:
        """Whether the part of an axis ends between two places."""
        return extent * self.width % max(self.length, 1) == 0

    def of(self, extent: int) -> int:
        """The part's length of an axis."""
        return extent * self.width // self.length if self.length else self.width


def resized(array_type: ArrayType, axis: int | None, part: Part) -> ArrayType:
    """The type of a part of the samples, which are along this axis."""
    if axis is None:
        return array_type
    shape = array_type.shape
    return ArrayType(array_type.dtype, (*shape[:axis], part.of(shape[axis]), *shape[axis + 1 :]))


def blocked(node: Operator, axes: dict[int, int], part: Part) -> dict[str, Any] | None:
    """The parameters of an operator on a part of the samples; None where it cannot be had."""
    axis = axes.get(node.serial)
    params = node.params
    if axis is not None and node.op.resize is not None:
        params = node.op.resize(axis, part.of(node.type.shape[axis]), **params)
    sources = [resized(source.type, axes.get(source.serial), part) for source in node.inputs]
    try:
        found = node.op.type_rule(*sources, **params)
    except WengertError:
        return None
    wanted = resized(node.type, axis, part)
    return params if (found.dtype, found.shape) == (wanted.dtype, wanted.shape) else None


@dataclass
class BodyCut:
    """How a body is cut along its samples."""

    axes: dict[int, int]  # of samples, by the serial of a value in the body
    inner: dict[int, BodyCut] = field(default_factory=dict)  # of the loops in it, by serial
    totals: set[int] = field(default_factory=set)  # the results that are sums over all samples


def restrict(
    graph: Graph, axes: dict[int, int], part: Part, inner: dict[int, BodyCut] | None = None
) -> Graph | None:
    """The graph for a part of the samples; None where a constant has other values for each."""
    new: dict[int, Any] = {}
    for node in graph.nodes:
        axis = axes.get(node.serial)
        made: Node | None
        if isinstance(node, Operator):
            sources = tuple(new[source.serial] for source in node.inputs)
            made = restrict_operator(node, sources, axes, part, (inner or {}).get(node.serial))
        elif isinstance(node, Variable):
            made = Variable(node.name, None, resized(node.type, axis, part), False)
        else:
            assert isinstance(node, Constant)
            made = restrict_constant(node, axis, part)
        if made is None:
            return None
        new[node.serial] = made
    inputs = [new[node.serial] for node in graph.inputs]
    return Graph(inputs, [new[node.serial] for node in graph.outputs if node is not None])


def restrict_operator(
    node: Operator,
    sources: tuple[Node, ...],
    axes: dict[int, int],
    part: Part,
    cut: BodyCut | None = None,
) -> Operator | None:
    """An operator on a part of the samples; of a loop, also its body is."""
    if cut is not None:
        body = _restrict_body(node.params["body"], cut, part)
        if body is None:
            return None
        params = {**node.params, "body": body}
        kind: Any = node.op.type_rule(*[source.type for source in sources], **params)
    elif node.op is ITEM or is_loop(node):
        params = node.params
        kind = sources[0].type[params["index"]] if node.op is ITEM else node.type
    else:
        params = blocked(node, axes, part) or node.params
        kind = resized(node.type, axes.get(node.serial), part)
    made = Operator(node.op, sources, params, None, kind)
    made.source = node.source
    return made


def _restrict_body(body: Body, cut: BodyCut, part: Part) -> Body | None:
    graph = restrict(body.graph, cut.axes, part, cut.inner)
    return None if graph is None else Body(graph, body.constants, body.carry)


def restrict_constant(node: Constant, axis: int | None, part: Part) -> Constant | None:
    """A constant for a part of the samples; None where it has other values for each."""
    if axis is None:
        return node
    value, kind = np.asarray(node.output), resized(node.type, axis, part)
    if any(value.strides) or not value.size:
        return None  # each part would need a table of its own
    return Constant(np.broadcast_to(value.flat[0], kind.shape), kind)
