"""Complex arrays -> pairs of real ones: the loop language has no complex numbers.

    z * w, both c128[n]   ->   complex_of(a * c - b * d, a * d + b * c), with a = real(z) and so on

In memory a complex number is two real ones, one after the other: `real` and `imag` of an array that
lies there are read in place, and `complex_of` stores both. Between these all is real arithmetic,
which fuses as any other. What has no rule in `complex_rules` is given whole arrays, by complex_of,
as are the functions of libraries; loops and branches hand on the parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..graph import Constant, Graph, Node, Operator, Variable
from ..graph.rewrite import copied, with_nodes
from ..ops.elementwise import complex_of, imag, real
from ..ops.layout import broadcast_to, convert
from ..ops.linalg import real_dtype
from ..trace.tracer import ITEM
from ..transforms.bodies import Body
from ..transforms.choice import Branches, is_switch
from ..transforms.loop import is_loop
from ..transforms.repetition import Turn, is_while
from ..types import ArrayType
from .complex_rules import RULES, Number, done
from .constants import constant_value
from .expand import expand
from .rewriting import apply


def split_complex(graph: Graph) -> Graph:
    """z * w -> complex_of(a * c - b * d, a * d + b * c), and all else that computes with parts."""
    if not any(map(_is_complex, _types_in(graph.nodes))):
        return graph
    return expand(_Split(graph).run())


def _types_in(nodes: Iterable[Node]) -> Iterable[Any]:
    for node in nodes:
        found = node.type
        if isinstance(found, ArrayType):
            yield found
        elif isinstance(found, tuple):
            yield from found


def _is_complex(array_type: Any) -> bool:
    return getattr(array_type, "dtype", None) is not None and array_type.dtype.char in "FD"


def part_type(array_type: ArrayType) -> ArrayType:
    """The type of one part of a complex array."""
    return ArrayType(real_dtype(array_type.dtype), *array_type[1:])


class _Split:
    """One graph with its complex values in parts."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.new: dict[int, Node] = {}  # what stands for a value as a whole
        self.parts: dict[int, Number] = {}  # of the complex values that are known in parts
        self.items: dict[int, list[Number | Node]] = {}  # the results of loops and branches

    def run(self, given: Sequence[Number | Node] | None = None) -> Graph:
        """The new graph; `given` stands for its inputs, else these stay whole."""
        for variable, one in zip(self.graph.inputs, given or (), strict=False):
            self._note(variable, one)
        for node in self.graph.nodes:
            if node.serial not in self.new and node.serial not in self.parts:
                self._take(node)
        for output in self.graph.outputs:
            if output is not None and given is None:
                self.new[output.serial] = self.whole(output)
        return with_nodes(self.graph, self.new) if given is None else self.graph

    def _note(self, node: Node, found: Number | Node) -> None:
        if isinstance(found, Number):
            self.parts[node.serial] = found
        else:
            self.new[node.serial] = found

    # ------------------------------------------------------------ values

    def whole(self, node: Node) -> Node:
        """A value as one array."""
        found = self.new.get(node.serial)
        if found is None:
            found = apply(complex_of, *self.parts[node.serial].both(), params={}, like=node)
            self.new[node.serial] = found
        return found

    def number(self, node: Node) -> Number:
        """The parts of a value; what is real has no imaginary part."""
        found = self.parts.get(node.serial)
        if found is None:
            there = self.new[node.serial]
            if not _is_complex(node.type):
                return Number(there, None)
            found = self.parts[node.serial] = _parts_of(there)
        return found

    def pieces(self, nodes: Iterable[Node]) -> list[list[Node]]:
        """Each value as real ones: its parts, or itself."""
        return [
            [_fitted(part, part_type(node.type), node) for part in self.number(node).both()]
            if _is_complex(node.type)
            else [self.whole(node)]
            for node in nodes
        ]

    # ------------------------------------------------------------ nodes

    def _take(self, node: Node) -> None:
        if not isinstance(node, Operator):
            self._note(node, _split_constant(node) if isinstance(node, Constant) else node)
        elif node.op is ITEM and node.inputs[0].serial in self.items:
            self._note(node, self.items[node.inputs[0].serial][node.params["index"]])
        elif any(map(_is_complex, _types_in((node, *node.inputs)))):
            self._take_complex(node)
        else:
            inputs = [self.whole(source) for source in node.inputs]
            same = all(one is two for one, two in zip(inputs, node.inputs, strict=True))
            self.new[node.serial] = node if same else copied(node, inputs)

    def _take_complex(self, node: Operator) -> None:
        if node.op is not ITEM and (is_loop(node) or is_while(node) or is_switch(node)):
            self._take_programs(node)
            return
        rule = RULES.get(node.op)
        found = None
        if rule is not None:
            found = rule(node, *[self.number(source) for source in node.inputs])
        if found is None:
            self.new[node.serial] = copied(node, [self.whole(source) for source in node.inputs])
            return
        if isinstance(found, list):
            self.new[node.serial] = node  # which nobody reads
            pairs = zip(found, node.type, strict=True)
            self.items[node.serial] = [_in_type(one, wanted, node) for one, wanted in pairs]
        else:
            self._note(node, _in_type(found, node.type, node))

    # ------------------------------------------------------------ programs inside

    def _take_programs(self, node: Operator) -> None:
        """A loop or a branch hands on the parts."""
        inputs = self.pieces(node.inputs)
        params = dict(node.params)
        if is_switch(node):
            bodies = params["branches"].bodies
            params["branches"] = Branches([_split_body(body) for body in bodies])
        elif is_while(node):
            turn: Turn = params["turn"]
            params["turn"] = turn.like(_split_body(turn.test), _split_body(turn.body))
        else:
            params["body"] = _split_body(params["body"])
        flat = [part for one in inputs for part in one]
        made = apply(node.op, *flat, params=params)
        made.source = node.source
        results = iter(
            Operator(ITEM, (made,), {"index": number}, None, array_type)
            for number, array_type in enumerate(made.type)
        )
        self.items[node.serial] = [
            Number(next(results), next(results)) if _is_complex(one) else next(results)
            for one in node.type
        ]
        self.new[node.serial] = node  # which nobody reads


def _split_body(body: Body) -> Body:
    """A body from parts to parts."""
    given: list[Number | Node] = []
    for node in body.graph.inputs:
        if _is_complex(node.type):
            given.append(Number(*[_variable(part_type(node.type)) for _ in range(2)]))
        else:
            given.append(node)
    work = _Split(body.graph)
    work.run(given)
    outputs = work.pieces(node for node in body.graph.outputs if node is not None)
    inputs = [[*one] if isinstance(one, Number) else [one] for one in given]
    fixed, carry, _ = body.split(inputs)
    graph = Graph([v for one in inputs for v in one], [v for one in outputs for v in one])  # type: ignore[misc]
    return Body(graph, sum(map(len, fixed)), sum(map(len, carry)))


def _variable(array_type: ArrayType) -> Variable:
    return Variable("", None, array_type, active=False)


# ---------------------------------------------------------------- single values


def _parts_of(node: Node) -> Number:
    """The parts of an array that lies in memory."""
    if isinstance(node, Operator) and node.op is complex_of:
        wanted = part_type(node.type)
        return Number(*[_fitted(part, wanted, node) for part in node.inputs])
    return Number(apply(real, node, params={}), apply(imag, node, params={}))


def _split_constant(node: Constant) -> Number | Node:
    value: Any = constant_value(node)
    if value is None or not _is_complex(node.type):
        return node
    parts = np.real(value), np.imag(value)
    if isinstance(value, np.ndarray) and any(value.strides):
        parts = np.ascontiguousarray(parts[0]), np.ascontiguousarray(parts[1])
    return Number(*[Constant(part, part_type(node.type)) for part in parts])


def _in_type(found: Number | Node, wanted: ArrayType, place: Node) -> Number | Node:
    """What a rule has found, in its dtype and shape."""
    if not isinstance(found, Number):
        return _fitted(found, wanted, place)
    part = part_type(wanted)
    im = None if found.im is None else _fitted(found.im, part, place)
    return Number(_fitted(found.re, part, place), im)


def _fitted(node: Node, wanted: ArrayType, place: Node) -> Node:
    """The value in its dtype and shape."""
    if node.type.dtype != wanted.dtype or node.type.weak != wanted.weak:
        node = done(convert, node, dtype=wanted.dtype)
    if node.type.shape != wanted.shape:
        node = done(broadcast_to, node, shape=wanted.shape)
    if node.source is None:
        node.source = place.source
    return node
