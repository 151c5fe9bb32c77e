"""Small arrays that a loop hands on from step to step, for many samples: one value each element.

    c = scan(f), c f64[n,3], where f reads c[:, 0], c[:, 1], c[:, 2] and puts the next together
    ->   c0, c1, c2 = scan(f), each f64[n]

A step that computes with numbers (see `small_arrays.py`) would take them out of the array and put
them together again, every third one. As arrays of their own, samples lie side by side.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..graph import Constant, Graph, Node, Operator, Variable
from ..machine import policy
from ..ops.indexing import index
from ..ops.layout import reshape
from ..ops.structure import concatenate
from ..transforms.bodies import Body, extract
from ..transforms.loop import is_loop
from ..transforms.repetition import Turn, is_while
from ..types import ArrayType
from .loops import edit_operations, loop_items
from .programs import program_items
from .rewriting import apply, full, rebuild, users_of
from .simplify import share_common, simplify


def carry_numbers(graph: Graph) -> Graph:
    """c = scan(f of c0, c1, c2) -> c0, c1, c2 = scan(f)."""
    better = edit_operations(graph, _edit, lambda node: is_loop(node) or is_while(node))
    return graph if better is graph else rebuild(better, _known_element)


def _known_element(node: Operator) -> Node | None:
    """put_together(a, b, c)[:, 1] -> b."""
    if node.op is not index or not _is_put_together(node.inputs[0]):
        return None
    shape, key = node.inputs[0].type.shape, tuple(node.params["key"])
    if key[0] != (0, shape[0], 1) or not all(type(place) is int for place in key[1:]):
        return None
    found = _element(node.inputs[0], int(np.ravel_multi_index(key[1:], shape[1:])))
    return found if found.type == node.type else None


def _edit(node: Operator, used: set[int]) -> list[Node] | list[Node | None] | None:
    turn: Turn | None = node.params.get("turn")
    body: Body = node.params["body"] if turn is None else turn.body
    parts = _Parts(body, turn)
    if not any(parts.keys[body.constants :][: body.carry]):
        return None
    inputs = [
        new
        for outer, keys in zip(node.inputs, parts.keys, strict=True)
        for new in _taken(outer, keys)
    ]
    if turn is None:
        items: list[Any] = loop_items(node, parts.body(), inputs)
    else:
        items = program_items(node, {"turn": turn.like(parts.test(), parts.body())}, inputs)
    return parts.results(items)


class _Parts:
    """Which inputs of a loop are taken apart: the keys of their elements, none where they stay."""

    def __init__(self, loop: Body, turn: Turn | None):
        self.loop, self.turn = loop, turn
        self.users = users_of(loop.graph)
        self.shown = {node.serial for node in loop.graph.outputs if node is not None}
        asked = {} if turn is None else users_of(turn.test.graph)
        tested = [] if turn is None else turn.test.graph.inputs
        self.keys: list[list[Any]] = []
        for number, node in enumerate(loop.graph.inputs):
            place = number - loop.constants
            after = loop.graph.outputs[place] if 0 <= place < loop.carry else None
            apart = self._is_read_in_numbers(node) and place < loop.carry
            apart = apart and (after is None or _is_put_together(after))
            apart = apart and not (tested and tested[number].serial in asked)
            self.keys.append(_keys(node.type) if apart else [])
        self.fresh = [
            _fresh(node, keys) for node, keys in zip(loop.graph.inputs, self.keys, strict=True)
        ]

    def _is_read_in_numbers(self, node: Node) -> bool:
        """Whether a step reads nothing but elements of an array, each for all samples."""
        found, shape = self.users.get(node.serial, []), node.type.shape
        limits = policy().rewriting
        if len(shape) < 2 or shape[0] < limits.fewest_samples or not found:
            return False
        if int(np.prod(shape[1:])) > limits.most_in_registers or node.serial in self.shown:
            return False
        known = {str(key) for key in _keys(node.type)}
        return all(user.op is index and str(tuple(user.params["key"])) in known for user in found)

    def body(self) -> Body:
        """The step of what is taken apart."""
        outputs: list[Any] = []
        for place, node in enumerate(self.loop.graph.outputs):
            keys = self.keys[self.loop.constants + place] if place < self.loop.carry else []
            outputs += _taken(node, keys)  # type: ignore[arg-type]
        replaced: dict[int, Any] = {}
        for node, keys, fresh in zip(self.loop.graph.inputs, self.keys, self.fresh, strict=True):
            if not keys:
                replaced[node.serial] = fresh[0]
            by_key = dict(zip(map(str, keys), fresh, strict=False))
            for user in self.users.get(node.serial, []) if keys else ():
                replaced[user.serial] = by_key[str(tuple(user.params["key"]))]
        inputs = [new for group in self.fresh for new in group]
        graph = Graph(inputs, extract(outputs, replaced))
        counts = [len(group) for group in self.fresh]
        first, last = self.loop.constants, self.loop.constants + self.loop.carry
        return Body(share_common(simplify(graph)), sum(counts[:first]), sum(counts[first:last]))

    def test(self) -> Body:
        """The condition of a `while`, which reads nothing of what is taken apart."""
        assert self.turn is not None
        graph = self.turn.test.graph
        fresh = [_fresh(node, keys) for node, keys in zip(graph.inputs, self.keys, strict=True)]
        pairs = zip(graph.inputs, fresh, self.keys, strict=True)
        replaced: dict[int, Any] = {node.serial: new[0] for node, new, keys in pairs if not keys}
        outputs = extract(graph.outputs, replaced)  # type: ignore[arg-type]
        return Body(Graph([new for group in fresh for new in group], outputs), 0, 0)

    def results(self, items: list[Any]) -> list[Any]:
        """The results of the loop as they were."""
        following = iter(items)
        found: list[Any] = []
        for place, node in enumerate(self.loop.graph.outputs):
            keys = self.keys[self.loop.constants + place] if place < self.loop.carry else []
            taken = [next(following) for _ in keys or [None]]
            found.append(_put_together(taken, node.type) if keys else taken[0])  # type: ignore[union-attr]
        return found


def _keys(own: ArrayType) -> list[Any]:
    """The keys of the elements of small arrays, each for all samples."""
    every = (0, own.shape[0], 1)
    return [(every, *map(int, place)) for place in np.ndindex(*own.shape[1:])]


def _fresh(node: Node, keys: list[Any]) -> list[Variable]:
    own = ArrayType(node.type.dtype, node.type.shape[:1]) if keys else node.type
    return [Variable("", None, own, active=False) for _ in keys or [None]]


def _taken(node: Node, keys: list[Any]) -> list[Node]:
    """An array as its elements, or as it is."""
    return [_element(node, number) for number in range(len(keys))] or [node]


def _element(node: Node, number: int) -> Node:
    """An element of small arrays, for all samples: of what they were put together of, if that is
    known."""
    shape = node.type.shape
    if len(shape) == 1:
        return node
    if isinstance(node, Operator) and node.op is reshape:
        (source,) = node.inputs
        if source.type.shape[:1] == shape[:1]:
            return _element(source, number)
    place = [int(k) for k in np.unravel_index(number, shape[1:])]
    if isinstance(node, Constant) and not np.asarray(node.output).strides[0]:
        return full(np.asarray(node.output)[(0, *place)], ArrayType(node.type.dtype, shape[:1]))
    if isinstance(node, Operator) and node.op is concatenate and node.params["axis"] > 0:
        axis = node.params["axis"]
        for piece in node.inputs:
            length = piece.type.shape[axis]
            if place[axis - 1] < length:
                return _element(piece, int(np.ravel_multi_index(place, piece.type.shape[1:])))
            place[axis - 1] -= length
    return apply(index, node, params={"key": ((0, shape[0], 1), *place)})


def _is_put_together(node: Node) -> bool:
    """Whether an array is made of others that lie side by side."""
    while isinstance(node, Operator) and node.op is reshape:
        node = node.inputs[0]
    return isinstance(node, Operator) and node.op is concatenate


def _put_together(elements: list[Node], own: ArrayType) -> Node:
    columns = [apply(reshape, one, params={"shape": (own.shape[0], 1)}) for one in elements]
    joined = apply(concatenate, *columns, params={"axis": 1})
    return apply(reshape, joined, params={"shape": own.shape})
