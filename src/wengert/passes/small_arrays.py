"""Small arrays -> numbers: one value for each element, along many samples or in a turn of a loop.

    dot(x, y), x and y f64[n,3]   ->   x0 * y0 + x1 * y1 + x2 * y2, each f64[n]

A mapped function computes with points, rotations, states: arrays of a few elements, of which there
are many. Loops over so few elements are all beginnings and ends, and a product of them is a kernel
of its own for each sample. As numbers they are expressions that fuse, one lane a sample.

The same holds for a loop whose turns compute with nothing else: without loops in it, what is handed
on from turn to turn stays in registers.
"""

from __future__ import annotations

import itertools
from collections import Counter
from math import prod
from typing import Any

import numpy as np

from ..functions import Cost
from ..graph import Constant, Graph, Node, Operator
from ..graph.rewrite import New, on_new_inputs, rewrite, with_nodes
from ..machine import policy
from ..ops import elementwise as ew
from ..ops.contract import contract
from ..ops.indexing import embed, index, index_set, python_key
from ..ops.layout import broadcast_to, convert, permute, reduce_sum, reshape
from ..ops.logic import logical_and, logical_or
from ..ops.reductions import reduce_all, reduce_any, reduce_max, reduce_min, reduce_prod
from ..ops.structure import concatenate
from ..trace.tracer import ITEM
from ..types import ArrayType
from .constants import constant_value
from .rewriting import apply

Numbers = list[Node]  # the elements of a small array in order, each along the samples or the same


def write_out_small(graph: Graph) -> Graph:
    """dot(x, y) -> x0 * y0 + x1 * y1 + x2 * y2 for the samples of a mapped function."""
    samples = _samples(graph)
    if samples is None:
        return graph
    work = _WrittenOut(graph, samples)
    return work.result() if work.is_worth_it() else graph


def write_out_turn(graph: Graph) -> Graph:
    """The same for one turn of a loop, if that is all there is to it."""
    work = _WrittenOut(graph, None)
    return work.result() if work.is_all() else graph


def _samples(graph: Graph) -> int | None:
    """How many samples there are: the length that most small arrays have first."""
    limits = policy().rewriting
    lengths = Counter(
        node.type.shape[0]
        for node in graph.operators
        if not node.op.multiple and len(node.type.shape) > 1
    )
    found = [n for n, _ in lengths.most_common(1) if n >= limits.fewest_samples]
    return found[0] if found else None


class _WrittenOut:
    """One graph with its small arrays written out, those of `samples` or by themselves."""

    def __init__(self, graph: Graph, samples: int | None):
        self.graph, self.samples = graph, samples
        self.front = () if samples is None else (samples,)
        self.rank = len(self.front)
        limits = policy().rewriting
        self.most = limits.most_numbers if self.rank else limits.most_in_registers
        # of the old nodes that are written out, and of others that these read
        self.numbers: dict[int, Numbers] = {}
        self.chosen = {node.serial for node in graph.operators if self._can_be_written_out(node)}

    def is_worth_it(self) -> bool:
        """Whether there are products of small arrays, or elements taken out of them, and nothing
        small comes from, or goes to, a product of other arrays, which wants them whole."""
        gains = products = values = 0
        for node in self.graph.operators:
            if node.op is contract and node.serial not in self.chosen:
                if any(self._is_small(one) for one in (node, *node.inputs)):
                    return False
                continue
            if node.serial not in self.chosen or not any(map(self._is_small, node.inputs)):
                continue
            values += self._size(node) * (self._size(node.inputs[0]) if node.op is contract else 1)
            products += node.op is contract
            gains += node.op in (index, concatenate) and self._size(node.inputs[0]) > 1
        return (products > 0 or gains > 2) and values <= policy().rewriting.most_written_out

    def is_all(self) -> bool:
        """Whether there are small arrays, and after that nothing but numbers, of which none is one
        of many that take long each: these are better done as vectors."""
        limits = policy().rewriting
        small = values = 0
        for node in self.graph.operators:
            if node.op.multiple or (node.op is ITEM and self._has_samples(node)):
                continue  # programs inside, which are written out by themselves
            is_number = _is_number(node)
            if node.serial not in self.chosen and not is_number:
                return False
            if node.op.cost is Cost.LONG and self._size(node) > limits.most_long:
                return False
            small += not is_number or any(map(self._is_small, node.inputs))
            terms = self._size(node.inputs[0]) if node.op is contract else 1
            values += self._size(node) * terms
        return small > 0 and values <= limits.most_in_turn

    # ------------------------------------------------------------ what is small

    def _is_small(self, node: Node) -> bool:
        return self._has_samples(node) and len(node.type.shape) > self.rank

    def _has_samples(self, node: Node) -> bool:
        shape: Any = getattr(node.type, "shape", None)
        if shape is None or shape[: self.rank] != self.front:
            return False
        return 0 < prod(shape[self.rank :]) <= self.most

    def _size(self, node: Node) -> int:
        return prod(node.type.shape[self.rank :])

    def _can_be_written_out(self, node: Operator) -> bool:
        if node.op.multiple or not self._has_samples(node):
            return False
        if _rule_of(node, self.rank) is None or _is_number(node, *node.inputs):
            return False
        return all(self._is_read(node, source) for source in node.inputs)

    def _is_read(self, node: Operator, source: Node) -> bool:
        """Whether the elements of an argument are numbers: along the samples, or a few."""
        rank = len(source.type.shape)
        if self.samples is None:
            return self._has_samples(source)
        if self._has_samples(source):
            return rank == len(node.type.shape) or not _is_elementwise(node)
        if source.type.size > self.most or self.samples in source.type.shape:
            return False
        if node.op is contract:
            return constant_value(source) is not None
        return _is_elementwise(node) and rank < len(node.type.shape)

    # ------------------------------------------------------------ the new graph

    def result(self) -> Graph:
        """The graph with numbers in place of small arrays."""
        new = rewrite(self.graph.nodes, self.change)
        for node in self.graph.outputs:
            if node is not None:
                new[node.serial] = self.whole(node, new)
        return with_nodes(self.graph, new)

    def change(self, node: Node, new: New) -> Node | None:
        """What stands for a node: for one that is written out, itself, which nobody reads."""
        if node.serial in self.chosen:
            assert isinstance(node, Operator)
            self.numbers[node.serial] = self._written_out(node, new)
            return node
        if isinstance(node, Operator):
            inputs = {source.serial: self.whole(source, new) for source in node.inputs}
            return on_new_inputs(node, inputs)
        return node

    def whole(self, node: Node, new: New) -> Node:
        """An array that was written out, put together again; all others are there."""
        if node.serial in self.chosen and new[node.serial] is node:
            new[node.serial] = self._joined(node, self.numbers[node.serial])
        return new[node.serial]

    def _joined(self, node: Node, numbers: Numbers) -> Node:
        shape = node.type.shape
        along = [self._along(number) for number in numbers]
        if len(along) == 1:
            return apply(reshape, along[0], params={"shape": shape}, like=node)
        column = {"shape": (*self.front, 1)}
        columns = [apply(reshape, number, params=column) for number in along]
        joined = apply(concatenate, *columns, params={"axis": self.rank})
        return apply(reshape, joined, params={"shape": shape}, like=node)

    def _along(self, number: Node) -> Node:
        """A number for each sample."""
        if number.type.shape == self.front:
            return number
        return apply(broadcast_to, number, params={"shape": self.front})

    def of(self, source: Node, new: New) -> Numbers:
        """The elements of an argument."""
        found = self.numbers.get(source.serial)
        if found is None:
            found = self.numbers[source.serial] = self._taken(source, new[source.serial])
        return found

    def _taken(self, source: Node, whole: Node) -> Numbers:
        shape = source.type.shape
        first: tuple[Any, ...] = ()
        if self.front and self._has_samples(source):
            first, shape = tuple((0, n, 1) for n in self.front), shape[self.rank :]
        elif constant_value(source) is not None:
            values = np.broadcast_to(constant_value(source), shape).reshape(-1)
            weak = source.type.weak
            return [Constant(v if not weak else source.output, _scalar(source)) for v in values]
        if not shape:
            return [whole]
        places = itertools.product(*map(range, shape))
        return [apply(index, whole, params={"key": (*first, *place)}) for place in places]

    def _inner(self, node: Node) -> tuple[int, ...]:
        """The shape of a sample."""
        return node.type.shape[self.rank :] if self._has_samples(node) else node.type.shape

    def _written_out(self, node: Operator, new: New) -> Numbers:
        arguments = [
            np.array([*self.of(source, new), None], object)[:-1].reshape(self._inner(source))
            for source in node.inputs
        ]
        rule = _rule_of(node, self.rank)
        assert rule is not None
        fronts = [self.rank if self._has_samples(source) else 0 for source in node.inputs]
        result = rule(node, self.rank, fronts, *arguments)
        return list(np.reshape(result, -1))


def _is_number(*nodes: Node) -> bool:
    return all(getattr(node.type, "shape", None) == () for node in nodes)


def _scalar(node: Node) -> ArrayType:
    return ArrayType(node.type.dtype, (), node.type.weak)


# ---------------------------------------------------------------- one operation, element by element


def _elementwise(node: Operator, front: int, fronts: list[int], *xs: np.ndarray) -> Any:
    shape = node.type.shape[front:]
    grids = [np.broadcast_to(x, shape).reshape(-1) for x in xs]
    return [_applied(node, args) for args in zip(*grids, strict=True)]


def _applied(node: Operator, args: tuple[Node, ...]) -> Node:
    """The operation on one element of each argument."""
    zeros = [isinstance(arg, _Zero) for arg in args]
    if any(zeros) and node.op in (ew.scale, ew.negative):
        return _Zero.of(node.type.dtype)
    if any(zeros) and node.op is ew.add:
        other = args[0] if zeros[1] else args[1]
        if other.type.dtype == node.type.dtype:
            return other
    return apply(node.op, *args, params=node.params)


class _Zero(Constant):
    """The zero of a place to which nothing was sent back: adding it changes nothing."""

    @classmethod
    def of(cls, dtype: np.dtype) -> Constant:
        return cls(dtype.type(0), ArrayType(dtype, ()))


def _index(node: Operator, front: int, fronts: list[int], x: np.ndarray) -> Any:
    return x[python_key(node.params["key"][front:])]


def _embed(node: Operator, front: int, fronts: list[int], x: np.ndarray) -> Any:
    result = np.full(node.type.shape[front:], _Zero.of(node.type.dtype), object)
    result[python_key(node.params["key"][front:])] = x if x.ndim else x[()]
    return result


def _reshape(node: Operator, front: int, fronts: list[int], x: np.ndarray) -> Any:
    return x


def _permute(node: Operator, front: int, fronts: list[int], x: np.ndarray) -> Any:
    return x.transpose([axis - front for axis in node.params["axes"][front:]])


def _broadcast(node: Operator, front: int, fronts: list[int], x: np.ndarray) -> Any:
    return np.broadcast_to(x, node.type.shape[front:])


def _concatenate(node: Operator, front: int, fronts: list[int], *xs: np.ndarray) -> Any:
    return np.concatenate(xs, node.params["axis"] - front)


def _reduction(node: Operator, front: int, fronts: list[int], x: np.ndarray) -> Any:
    axes = [axis - front for axis in node.params["axes"]]
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    lines = x.transpose([*kept, *axes]).reshape(prod(node.type.shape[front:]), -1)
    return [_total(line, _REDUCTIONS[node.op]) for line in lines]


def _index_set(
    node: Operator, front: int, fronts: list[int], x: np.ndarray, y: np.ndarray
) -> np.ndarray:
    result = x.copy()
    result[python_key(node.params["key"][front:])] = y if y.ndim else y[()]
    return result


def _contract(node: Operator, front: int, fronts: list[int], x: np.ndarray, y: np.ndarray) -> Any:
    x_labels, y_labels, out = node.params["spec"]
    own = [x_labels[fronts[0] :], y_labels[fronts[1] :]]
    lengths = dict(zip(own[0], x.shape, strict=True)) | dict(zip(own[1], y.shape, strict=True))
    summed = [label for label in lengths if label not in out]
    found = []
    for place in itertools.product(*[range(lengths[label]) for label in out[front:]]):
        at = dict(zip(out[front:], place, strict=True))
        terms = []
        for inner in itertools.product(*[range(lengths[label]) for label in summed]):
            at.update(zip(summed, inner, strict=True))
            factors = [
                part[tuple(at[label] for label in labels)]
                for part, labels in zip((x, y), own, strict=True)
            ]
            terms.append(apply(ew.multiply, *factors, params={}))
        found.append(_total(terms))
    return found


def _total(terms: Any, op: Any = ew.add) -> Node:
    total: Node = terms[0]
    for term in terms[1:]:
        total = apply(op, total, term, params={})
    return total


def _is_elementwise(node: Operator) -> bool:
    return node.op.elementary or node.op in (ew.integer_power, convert)


# What elements are reduced by.
_REDUCTIONS: dict[Any, Any] = {
    reduce_sum: ew.add,
    reduce_prod: ew.multiply,
    reduce_max: ew.maximum,
    reduce_min: ew.minimum,
    reduce_any: logical_or,
    reduce_all: logical_and,
}
_RULES: dict[Any, Any] = {
    index: _index,
    embed: _embed,
    index_set: _index_set,
    reshape: _reshape,
    permute: _permute,
    broadcast_to: _broadcast,
    concatenate: _concatenate,
    contract: _contract,
    **dict.fromkeys(_REDUCTIONS, _reduction),
}


def _rule_of(node: Operator, front: int) -> Any:
    """How the operation is written out, if it leaves the first axes alone; None: it is not."""
    if node.type.dtype.kind not in "fb" or not node.inputs:
        return None
    if _is_elementwise(node):
        return _elementwise
    rule = _RULES.get(node.op)
    return rule if rule is not None and (not front or _is_by_sample(node)) else None


def _is_by_sample(node: Operator) -> bool:
    """Whether an operation keeps samples, the first axis, apart."""
    op, params, shape = node.op, node.params, node.type.shape
    if op is contract:
        return _multiplies_by_sample(node)
    if node.inputs[0].type.shape[:1] != shape[:1]:
        return False
    if op in (index, embed, index_set):
        return params["key"][0] == (0, shape[0], 1) and None not in params["key"]
    if op is permute:
        return bool(params["axes"][0] == 0)
    if op is broadcast_to:
        return len(node.inputs[0].type.shape) == len(shape)
    if op is concatenate:
        return bool(params["axis"] > 0)
    return op is reshape or 0 not in params["axes"]


def _multiplies_by_sample(node: Operator) -> bool:
    """Whether the factors of a product have samples, or are constants without."""
    *labels, out = node.params["spec"]
    length = node.type.shape[0]
    with_samples = [
        own[0] == out[0] and source.type.shape[0] == length
        for own, source in zip(labels, node.inputs, strict=True)
        if out[0] in own
    ]
    return node.type.dtype.kind == "f" and all(with_samples)
