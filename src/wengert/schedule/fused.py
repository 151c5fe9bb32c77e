"""A nest under construction: the expressions of several stores over the same loops."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ..graph import Constant, Node, Operator, Variable
from ..loops import (
    Affine,
    Buffer,
    Expr,
    Index,
    InRange,
    Literal,
    Load,
    Nest,
    Operand,
    Store,
    cast,
)
from ..machine import policy
from .lowering import loop_variables
from .node_lowerings import NodeLowerings


class Found(Protocol):
    """Where values are found: in memory, or nowhere yet."""

    lowerings: NodeLowerings
    stored: set[int]
    buffers: dict[int, Buffer]

    def buffer_of(self, node: Node) -> Buffer:
        """The memory of a node."""


class FusedNest:
    """A nest under construction: expressions are shared among its stores."""

    def __init__(self, scheduler: Found, shape: tuple[int, ...]):
        self.vars = loop_variables(shape)
        self.stores: list[Store] = []
        self.nodes: list[Node] = []
        self.scheduler = scheduler
        self.shape = shape
        self.index: Index = tuple(Affine.of(v) for v in self.vars)
        self.members: set[int] = set()
        self.memo: dict[tuple[int, Index], Expr] = {}

    def finished(self) -> Nest:
        """The nest, to which nothing is added any more."""
        return Nest(self.vars, self.stores, nodes=self.nodes)

    def accepts(self, shape: tuple[int, ...]) -> bool:
        """Whether a store over these loops may join: the same loops, or nearly the same."""
        limits = policy().fusion
        if len(self.stores) >= limits.most_stores or len(self.memo) >= limits.most_values:
            return False
        if self.shape == shape:
            return True
        if not self.scheduler.lowerings.task.has("pieces"):  # what is guarded is cut at its guards
            return False
        from .near import is_near

        return is_near(self.shape, shape)

    def cover(self, shape: tuple[int, ...]) -> tuple[InRange, ...]:
        """Widen the loops to hold `shape`; the guards for a store over that shape alone."""
        if self.shape == shape:
            return ()
        from .near import widen

        return widen(self, shape)

    def element(self, node: Node, index: Index) -> Expr:
        """The expression of a node's element; what is missing is built iteratively."""
        pending = [(node, index)]
        while pending:
            current, at = pending[-1]
            key = (current.serial, at)
            if key in self.memo:
                pending.pop()
                continue
            try:
                self.memo[key] = self._build(current, at)
                pending.pop()
            except _Missing as missing:
                pending.append(missing.wanted)
        return self.memo[node.serial, index]

    def _build(self, node: Node, index: Index) -> Expr:
        scheduler = self.scheduler
        if isinstance(node, Variable):
            buffer = scheduler.buffers[node.serial]
            return Load(buffer, buffer.flat(index))
        if isinstance(node, Constant):
            return self._constant(node, index)
        assert isinstance(node, Operator)
        is_member = node.serial in self.members and index == self.index
        if node.serial in scheduler.stored and not (
            is_member and scheduler.lowerings.is_pointwise(node)
        ):
            buffer = scheduler.buffer_of(node)
            return Load(buffer, buffer.flat(index))
        value = self.scheduler.lowerings.lowering(node).rule(
            index, *self.operands(node), **node.params
        )
        return cast(value, node.type.dtype)

    def operands(self, node: Operator) -> list[Operand]:
        """The arguments of a node, as its lowering rule sees them."""
        return [
            Operand(
                source.type,
                functools.partial(self._operand, source),
                functools.partial(self.scheduler.buffer_of, source),
                source.output if isinstance(source, Constant) else None,
            )
            for source in node.inputs
        ]

    def complete(self, build: Callable[[], Any]) -> Any:
        """Run a rule, supplying the elements it asks for."""
        while True:
            try:
                return build()
            except _Missing as missing:
                self.element(*missing.wanted)

    def _operand(self, node: Node, index: Index) -> Expr:
        found = self.memo.get((node.serial, index))
        if found is None:
            raise _Missing((node, index))
        return found

    def _constant(self, node: Constant, index: Index) -> Expr:
        value = np.asarray(node.output)
        if value.size == 1 or (value.size and not any(value.strides)):
            return Literal(value.flat[0], node.type.dtype)
        buffer = self.scheduler.buffer_of(node)
        return Load(buffer, buffer.flat(index))


class _Missing(Exception):  # noqa: N818 - control flow, not an error
    def __init__(self, wanted: tuple[Node, Index]):
        self.wanted = wanted
