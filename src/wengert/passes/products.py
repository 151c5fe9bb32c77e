"""Products whose result is needed with its axes in another order are computed in that order."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from ..graph import Graph, Node, Operator
from ..ops.contract import contract
from ..ops.layout import permute, reshape
from ..types import ArrayType
from .rewriting import rebuild, users_of


class _Turn(NamedTuple):
    """How a product is needed: each axis as several, and all of these in another order."""

    splits: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    gone: tuple[int, ...]  # what the product does itself then, by serial


def turn_products(graph: Graph) -> Graph:
    """permute(contract(x, y)) -> contract(x, y) with its axes in that order.

    permute(reshape(contract(x, y))) -> the same of factors with those axes.
    """
    turns = _turns(graph)
    gone = {serial for turn in turns.values() for serial in turn.gone}
    # the rule sees rebuilt nodes, in the order of those that the turns are found for
    before = iter(graph.operators)

    def rule(node: Operator) -> Node | None:
        old = next(before)
        if old.serial in turns:
            return _turned(node, turns[old.serial])
        return node.inputs[0] if old.serial in gone else None

    return rebuild(graph, rule)


def _turns(graph: Graph) -> dict[int, _Turn]:
    """The order that is wanted of products that are needed in one order alone, by serial."""
    users = users_of(graph)
    shown = {node.serial for node in graph.outputs if node is not None}

    def reader(node: Operator) -> Operator | None:
        found = users.get(node.serial, [])
        return found[0] if len(found) == 1 and node.serial not in shown else None

    found = {}
    for node in graph.operators:
        one = reader(node) if node.op is contract else None
        if one is None:
            continue
        if one.op is permute:
            whole = tuple((length,) for length in node.type.shape)
            found[node.serial] = _Turn(whole, one.params["axes"], (one.serial,))
        elif one.op is reshape:
            last, splits = reader(one), _splits(node.type.shape, one.type.shape)
            if last is not None and last.op is permute and splits and _is_free(node, splits):
                gone = (one.serial, last.serial)
                found[node.serial] = _Turn(splits, last.params["axes"], gone)
    return found


def _splits(shape: tuple[int, ...], new: tuple[int, ...]) -> tuple[tuple[int, ...], ...] | None:
    """Of each axis those that a reshape makes of it; None where axes are put together."""
    found, rest = [], list(new)
    for length in shape:
        own: list[int] = []
        while rest and (prod(own) < length or not own):
            own.append(rest.pop(0))
        if prod(own) != length or length == 0:
            return None
        found.append(own)
    if found:
        found[-1] += rest  # of length 1
    return tuple(map(tuple, found)) if prod(new) == prod(shape) and found else None


def _is_free(product: Operator, splits: tuple[tuple[int, ...], ...]) -> bool:
    """Whether the factors whose axes are split lie in memory as they are."""
    *labels, out = product.params["spec"]
    several = {label for label, own in zip(out, splits, strict=True) if len(own) > 1}
    for factor, own in zip(product.inputs, labels, strict=True):
        if several & set(own) and isinstance(factor, Operator) and factor.op is permute:
            return False
    return True


def _turned(product: Operator, turn: _Turn) -> Operator:
    *labels, out = product.params["spec"]
    fresh = max((label for own in labels for label in own), default=-1) + 1
    parts: dict[int, list[tuple[int, int]]] = {}  # of an axis, the labels and lengths it has now
    for label, lengths in zip(out, turn.splits, strict=True):
        parts[label] = [(label, lengths[0])]
        for length in lengths[1:]:
            parts[label].append((fresh, length))
            fresh += 1
    factors, spec = [], []
    for factor, own in zip(product.inputs, labels, strict=True):
        axes = [
            part
            for label, length in zip(own, factor.type.shape, strict=True)
            for part in parts.get(label, [(label, length)])
        ]
        factors.append(_reshaped(factor, tuple(length for _, length in axes)))
        spec.append(tuple(label for label, _ in axes))
    after = [part for label in out for part in parts[label]]
    spec.append(tuple(after[axis][0] for axis in turn.order))
    shape = tuple(after[axis][1] for axis in turn.order)
    kind = ArrayType(product.type.dtype, shape)
    made = Operator(contract, tuple(factors), {"spec": tuple(spec)}, None, kind)
    made.source = product.source
    return made


def _reshaped(node: Node, shape: tuple[int, ...]) -> Node:
    if node.type.shape == shape:
        return node
    made = Operator(reshape, (node,), {"shape": shape}, None, ArrayType(node.type.dtype, shape))
    made.source = node.source
    return made
