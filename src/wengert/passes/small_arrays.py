"""Small arrays of many samples -> numbers: one value for each element, along the samples alone.

    dot(x, y), x and y f64[n,3]   ->   x0 * y0 + x1 * y1 + x2 * y2, each f64[n]

A mapped function computes with points, rotations, states: arrays of a few elements, of which there
are many. Loops over so few elements are all beginnings and ends, and a product of them is a kernel
of its own for each sample. As numbers they are expressions that fuse, one lane a sample.
"""

from __future__ import annotations

import itertools
from collections import Counter
from math import prod
from typing import Any

import numpy as np

from ..graph import Constant, Graph, Node, Operator
from ..graph.rewrite import New, on_new_inputs, rewrite, with_nodes
from ..machine import policy
from ..ops import elementwise as ew
from ..ops.contract import contract
from ..ops.indexing import embed, index, python_key
from ..ops.layout import broadcast_to, permute, reduce_sum, reshape
from ..ops.structure import concatenate
from ..types import ArrayType
from .rewriting import apply, constant_value

Numbers = list[Node]  # the elements of a small array in order, each along the samples or the same


def write_out_small(graph: Graph) -> Graph:
    """dot(x, y) -> x0 * y0 + x1 * y1 + x2 * y2 for the samples of a mapped function."""
    samples = _samples(graph)
    if samples is None:
        return graph
    work = _WrittenOut(graph, samples)
    if not work.is_worth_it():
        return graph
    new = rewrite(graph.nodes, work.change)
    for node in graph.outputs:
        if node is not None:
            new[node.serial] = work.whole(node, new)
    return with_nodes(graph, new)


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
    """One graph with its small arrays written out."""

    def __init__(self, graph: Graph, samples: int):
        self.graph, self.samples = graph, samples
        self.most = policy().rewriting.most_numbers
        self.numbers: dict[int, Numbers] = {}  # of the old nodes that are written out
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

    # ------------------------------------------------------------ what is small

    def _is_small(self, node: Node) -> bool:
        return self._has_samples(node) and len(node.type.shape) > 1

    def _has_samples(self, node: Node) -> bool:
        shape: Any = getattr(node.type, "shape", ())
        return bool(shape) and shape[0] == self.samples and 0 < prod(shape[1:]) <= self.most

    def _size(self, node: Node) -> int:
        return prod(node.type.shape[1:])

    def _can_be_written_out(self, node: Operator) -> bool:
        if node.op.multiple or not self._has_samples(node):
            return False
        if _rule_of(node) is None:
            return False
        return all(self._is_read(node, source) for source in node.inputs)

    def _is_read(self, node: Operator, source: Node) -> bool:
        """Whether the elements of an argument are numbers: along the samples, or a few."""
        rank = len(source.type.shape)
        if self._has_samples(source):
            return rank == len(node.type.shape) or not _is_elementwise(node)
        if source.type.size > self.most or self.samples in source.type.shape:
            return False
        if node.op is contract:
            return constant_value(source) is not None
        return _is_elementwise(node) and rank < len(node.type.shape)

    # ------------------------------------------------------------ the new graph

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
        """An array that was written out, put together again."""
        numbers = self.numbers.get(node.serial)
        if numbers is None:
            return new[node.serial]
        if new[node.serial] is node:
            new[node.serial] = self._joined(node, numbers)
        return new[node.serial]

    def _joined(self, node: Node, numbers: Numbers) -> Node:
        shape = node.type.shape
        along = [self._along(number) for number in numbers]
        if len(along) == 1:
            return apply(reshape, along[0], params={"shape": shape}, like=node)
        column = {"shape": (self.samples, 1)}
        columns = [apply(reshape, number, params=column) for number in along]
        joined = apply(concatenate, *columns, params={"axis": 1})
        return apply(reshape, joined, params={"shape": shape}, like=node)

    def _along(self, number: Node) -> Node:
        """A number for each sample."""
        if number.type.shape:
            return number
        return apply(broadcast_to, number, params={"shape": (self.samples,)})

    def of(self, source: Node, new: New) -> Numbers:
        """The elements of an argument."""
        found = self.numbers.get(source.serial)
        if found is None:
            found = self.numbers[source.serial] = self._taken(source, new[source.serial])
        return found

    def _taken(self, source: Node, whole: Node) -> Numbers:
        shape = source.type.shape
        first: tuple[Any, ...] = ()
        if self._has_samples(source):
            first, shape = ((0, self.samples, 1),), shape[1:]
            if not shape:
                return [whole]
        elif constant_value(source) is not None:
            values = np.broadcast_to(constant_value(source), shape).reshape(-1)
            weak = source.type.weak
            return [Constant(v if not weak else source.output, _scalar(source)) for v in values]
        elif not shape:
            return [whole]
        places = itertools.product(*map(range, shape))
        return [apply(index, whole, params={"key": (*first, *place)}) for place in places]

    def _inner(self, node: Node) -> tuple[int, ...]:
        """The shape of a sample."""
        return node.type.shape[1:] if self._has_samples(node) else node.type.shape

    def _written_out(self, node: Operator, new: New) -> Numbers:
        arguments = [
            np.array([*self.of(source, new), None], object)[:-1].reshape(self._inner(source))
            for source in node.inputs
        ]
        rule = _rule_of(node)
        assert rule is not None
        result = rule(node, [self._has_samples(s) for s in node.inputs], *arguments)
        return list(np.reshape(result, -1))


def _scalar(node: Node) -> ArrayType:
    return ArrayType(node.type.dtype, (), node.type.weak)


# ---------------------------------------------------------------- one operation, element by element


def _elementwise(node: Operator, samples: list[bool], *xs: np.ndarray) -> Any:
    shape = node.type.shape[1:]
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


def _index(node: Operator, samples: list[bool], x: np.ndarray) -> Any:
    return x[python_key(node.params["key"][1:])]


def _embed(node: Operator, samples: list[bool], x: np.ndarray) -> Any:
    result = np.full(node.type.shape[1:], _Zero.of(node.type.dtype), object)
    result[python_key(node.params["key"][1:])] = x if x.ndim else x[()]
    return result


def _reshape(node: Operator, samples: list[bool], x: np.ndarray) -> Any:
    return x


def _permute(node: Operator, samples: list[bool], x: np.ndarray) -> Any:
    return x.transpose([axis - 1 for axis in node.params["axes"][1:]])


def _broadcast(node: Operator, samples: list[bool], x: np.ndarray) -> Any:
    return np.broadcast_to(x, node.type.shape[1:])


def _concatenate(node: Operator, samples: list[bool], *xs: np.ndarray) -> Any:
    return np.concatenate(xs, node.params["axis"] - 1)


def _reduce_sum(node: Operator, samples: list[bool], x: np.ndarray) -> Any:
    axes = [axis - 1 for axis in node.params["axes"]]
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    lines = x.transpose([*kept, *axes]).reshape(prod(node.type.shape[1:]), -1)
    return [_total(line) for line in lines]


def _contract(node: Operator, samples: list[bool], x: np.ndarray, y: np.ndarray) -> Any:
    x_labels, y_labels, out = node.params["spec"]
    own = [x_labels[1:] if samples[0] else x_labels, y_labels[1:] if samples[1] else y_labels]
    lengths = dict(zip(own[0], x.shape, strict=True)) | dict(zip(own[1], y.shape, strict=True))
    summed = [label for label in lengths if label not in out]
    found = []
    for place in itertools.product(*[range(lengths[label]) for label in out[1:]]):
        at = dict(zip(out[1:], place, strict=True))
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


def _total(terms: Any) -> Node:
    total: Node = terms[0]
    for term in terms[1:]:
        total = apply(ew.add, total, term, params={})
    return total


def _is_elementwise(node: Operator) -> bool:
    return node.op.elementary or node.op is ew.integer_power


def _rule_of(node: Operator) -> Any:
    """How the operation is written out; None: it is not."""
    op, params = node.op, node.params
    if _is_elementwise(node):
        return _elementwise if node.type.dtype.kind in "fb" else None
    if op is contract:
        return _contract if _is_by_sample(node) else None
    rank = len(node.type.shape)
    whole = node.inputs and getattr(node.inputs[0].type, "shape", ())[:1] == node.type.shape[:1]
    if not whole or node.type.dtype.kind not in "fb":
        return None
    if op is index and params["key"][0] == (0, node.type.shape[0], 1):
        return _index if None not in params["key"] else None
    if op is embed and params["key"][0] == (0, node.type.shape[0], 1):
        return _embed if None not in params["key"] else None
    if op is reshape:
        return _reshape
    if op is permute:
        return _permute if params["axes"][0] == 0 else None
    if op is broadcast_to:
        return _broadcast if len(node.inputs[0].type.shape) == rank else None
    if op is concatenate:
        return _concatenate if params["axis"] > 0 else None
    if op is reduce_sum:
        return _reduce_sum if 0 not in params["axes"] else None
    return None


def _is_by_sample(node: Operator) -> bool:
    """Whether a product keeps samples apart: its factors have them, or are constants without."""
    *labels, out = node.params["spec"]
    length = node.type.shape[0]
    with_samples = [
        own[0] == out[0] and source.type.shape[0] == length
        for own, source in zip(labels, node.inputs, strict=True)
        if out[0] in own
    ]
    return node.type.dtype.kind == "f" and all(with_samples)
