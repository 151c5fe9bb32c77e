"""Sums of products that are alike -> one product: what an unrolled loop adds up step by step.

    x0.T @ g0 + x1.T @ g1 + x2.T @ g2   ->   contract(xs, gs), xs = stack(x0, x1, x2), gs = ...

Each product would read and write the whole sum once more, and sums over the batch would each have
parts for every thread. Where the factors are the slices of one array, that array is the stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ..graph import Graph, Node, Operator
from ..graph.rewrite import New, rewrite, with_nodes
from ..machine import policy
from ..ops.contract import contract, normal_spec
from ..ops.elementwise import add
from ..ops.indexing import index
from ..ops.layout import permute, reduce_sum, reshape
from ..ops.structure import concatenate
from .rewriting import apply, same_type


def gather_products(graph: Graph) -> Graph:
    """a @ b + c @ d -> contract(stack(a, c), stack(b, d)); sum(a) + sum(b) -> sum(stack(a, b))."""
    uses: dict[int, int] = {}
    for one in graph.operators:
        for source in one.inputs:
            uses[source.serial] = uses.get(source.serial, 0) + 1
    for shown in graph.outputs:
        if shown is not None:
            uses[shown.serial] = uses.get(shown.serial, 0) + 2
    inner = {
        source.serial
        for one in graph.operators
        if one.op is add
        for source in one.inputs
        if _continues(source, one, uses)
    }

    def change(node: Node, new: New) -> Node | None:
        if isinstance(node, Operator) and node.op is add and node.serial not in inner:
            return _gathered(_terms(node, inner), uses, new)
        return None

    return with_nodes(graph, rewrite(graph.nodes, change))


def _continues(source: Node, total: Operator, uses: dict[int, int]) -> bool:
    """Whether a term is itself a sum of terms that nobody else reads."""
    alone = isinstance(source, Operator) and source.op is add and uses[source.serial] == 1
    return alone and all(same_type(one, total.type) for one in (*source.inputs, source))


def _terms(total: Operator, inner: set[int]) -> list[Node]:
    found, pending = [], list(total.inputs)
    while pending:
        one = pending.pop()
        if one.serial in inner and isinstance(one, Operator):
            pending.extend(one.inputs)
        else:
            found.append(one)
    return found


@dataclass
class _Term:
    """A sum of products, or of one factor, in the order of axes in which it is added."""

    factors: tuple[Node, ...]
    labels: tuple[tuple[int, ...], ...]  # of the factors, then of the result


def _gathered(terms: Sequence[Node], uses: dict[int, int], new: dict[int, Any]) -> Node | None:
    """The sum of the terms, with those that are alike as one; None where none are."""
    groups: dict[Any, list[_Term]] = {}
    rest: list[Node] = []
    for one in terms:
        term = _term_of(one, uses)
        if term is None or not same_type(one, terms[0].type):
            rest.append(one)
            continue
        kinds = tuple((factor.type.dtype, factor.type.shape) for factor in term.factors)
        groups.setdefault((term.labels, kinds), []).append(term)
    if not any(len(group) > 1 for group in groups.values()):
        return None
    sums: list[Node] = [new[one.serial] for one in rest]
    for group in groups.values():
        sums.append(_one_product(group, new))
    total = sums[0]
    for one in sums[1:]:
        total = apply(add, total, one, params={})
    return total


def _term_of(node: Node, uses: dict[int, int]) -> _Term | None:
    """A product or a sum, perhaps permuted, that is read here alone and worth stacking for."""
    axes = None
    if isinstance(node, Operator) and node.op is permute and uses[node.serial] == 1:
        axes, node = node.params["axes"], node.inputs[0]
    if not isinstance(node, Operator) or uses[node.serial] != 1 or node.type.dtype.kind != "f":
        return None
    if node.op is contract:
        labels: tuple[tuple[int, ...], ...] = node.params["spec"]
        extents = {
            label: length
            for part, source in zip(labels, node.inputs, strict=False)
            for label, length in zip(part, source.type.shape, strict=True)
        }
        read = sum(source.type.size for source in node.inputs)
        least = policy().rewriting.worth_stacking * read
        if 2 * prod(extents.values()) < least or set(extents) <= set(labels[2]):
            return None
    elif node.op is reduce_sum and node.inputs[0].type.size > node.type.size:
        every = tuple(range(len(node.inputs[0].type.shape)))
        labels = (every, tuple(axis for axis in every if axis not in node.params["axes"]))
    else:
        return None
    if any(_is_given(source) for source in node.inputs):
        return None
    if axes is not None:
        labels = (*labels[:-1], tuple(labels[-1][axis] for axis in axes))
    return _Term(tuple(node.inputs), labels)


def _is_given(node: Node) -> bool:
    """Whether a value comes from outside, as weights do: what is read so anyway is not copied."""
    while isinstance(node, Operator) and node.op in (permute, reshape):
        node = node.inputs[0]
    return not isinstance(node, Operator)


def _one_product(group: Sequence[_Term], new: dict[int, Any]) -> Node:
    """The terms of a group as one product or sum over a further axis."""
    *parts, out = group[0].labels
    step = 1 + max(label for part in parts for label in part)
    order = _order(group)
    factors, labels = [], []
    for number, part in enumerate(parts):
        stack, place = _stacked([group[k].factors[number] for k in order], new)
        factors.append(stack)
        labels.append((*part[:place], step, *part[place:]) if len(group) > 1 else part)
    if len(factors) == 2:
        spec = normal_spec(labels[0], labels[1], out)
        return apply(contract, *factors, params={"spec": spec})
    axes = tuple(axis for axis, label in enumerate(labels[0]) if label not in out)
    total = apply(reduce_sum, factors[0], params={"axes": axes})
    kept = [label for label in labels[0] if label in out]
    turned = tuple(kept.index(label) for label in out)
    if turned == tuple(range(len(out))):
        return total
    return apply(permute, total, params={"axes": turned})


def _order(group: Sequence[_Term]) -> list[int]:
    """The order of the terms in which their factors are slices one after the other, if any is."""
    for number in range(len(group[0].factors)):
        slices = [_slice_of(term.factors[number]) for term in group]
        if all(one is not None for one in slices):
            return sorted(range(len(group)), key=lambda k: slices[k][2])  # type: ignore[index]
    return list(range(len(group)))


def _stacked(factors: Sequence[Node], new: dict[int, Any]) -> tuple[Node, int]:
    """All factors in one array, and the axis along which they lie there."""
    if len(factors) == 1:
        return new[factors[0].serial], 0
    slices = [_slice_of(one) for one in factors]
    first = slices[0]
    if first is not None:
        base, place, start = first
        wanted = [(base.serial, place, start + k) for k in range(len(factors))]
        found = [None if one is None else (one[0].serial, *one[1:]) for one in slices]
        if found == wanted:
            return _range_of(new[base.serial], place, start, len(factors)), place
    lines = []
    for one in factors:
        shape = (1, *one.type.shape)
        lines.append(apply(reshape, new[one.serial], params={"shape": shape}))
    return apply(concatenate, *lines, params={"axis": 0}), 0


def _slice_of(node: Node) -> tuple[Node, int, int] | None:
    """The array, the axis and the place where a value is all that lies there."""
    if not isinstance(node, Operator) or node.op is not index:
        return None
    key, shape = node.params["key"], node.inputs[0].type.shape
    places = [place for place, item in enumerate(key) if isinstance(item, int)]
    if len(places) != 1 or len(key) != len(shape):
        return None
    whole = [(0, n, 1) for n in shape]
    place = places[0]
    if any(key[axis] != whole[axis] for axis in range(len(shape)) if axis != place):
        return None
    return node.inputs[0], place, int(key[place])


def _range_of(base: Node, place: int, start: int, count: int) -> Node:
    shape = base.type.shape
    if count == shape[place]:
        return base
    key = tuple(
        (start, start + count, 1) if axis == place else (0, n, 1) for axis, n in enumerate(shape)
    )
    return apply(index, base, params={"key": key})
