"""Loops whose samples never meet, cut into parts that threads share.

Where every value that a step computes has an axis of samples, and no operation mixes samples but to
add them up over all steps, the whole loop can run for some samples on one thread and for others on
another: they meet once, at the end. The cut depends on the sizes alone, so the result is the same
for any number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import Constant, Graph, Node, Operator
from ..machine import policy
from .axes import AxisClasses
from .cost_model import nbytes, time_apart
from .restrict import Part, restrict
from .sample_axes import keeps_apart


@dataclass
class Split:
    """Bodies for one part of the samples."""

    graphs: list[Graph]  # for the parts of this width, then for those that are wider by one
    parts: int
    width: int  # samples in a part
    wide: int  # how many parts have one more
    axes: list[int | None]  # of samples, in the inputs; in the outputs it is the first


def split_body(
    graph: Graph, constants: int, carry: int, steps: int, totals: int = 0
) -> Split | None:
    """The body cut along its samples, where that is possible and worth it.

    The last outputs, so many as there are `totals`, are sums over all samples.
    """
    if any(node.op.multiple for node in graph.operators):
        return None  # a loop inside is shared out by itself
    time = steps * time_apart(graph.operators)
    if time < policy().scans.least_time:
        return None
    samples = Samples.of(graph, constants, carry, totals)
    if samples is None:
        return None
    shared = [node for node in graph.nodes if node.serial not in samples.axes]
    many = sum(map(_nbytes, shared)) > policy().regions.most_weights
    parts = count_parts(
        samples.length,
        policy().scans.fewest_for_many_weights if many else 1,
        time,
        sum(nbytes(node) for node in graph.outputs[len(graph.outputs) - totals :] if node),
    )
    if parts == 1:
        return None
    width, wide = divmod(samples.length, parts)
    graphs = samples.cut(graph, [width, width + 1] if wide else [width])
    if graphs is None:
        return None
    return Split(graphs, parts, width, wide, [samples.axes.get(n.serial) for n in graph.inputs])


@dataclass
class Samples:
    """The axis of samples in the values of a body, all of whose outputs begin with it, but for the
    last ones, so many as there are totals, which are sums over all samples."""

    length: int
    classes: AxisClasses
    axes: dict[int, int]  # by serial
    sums: set[int]

    @classmethod
    def of(cls, graph: Graph, constants: int, carry: int, totals: int = 0) -> Samples | None:
        """The samples of a body; None where it has none."""
        inputs, outputs = graph.inputs, [node for node in graph.outputs if node is not None]
        outputs, sums = outputs[: len(outputs) - totals], outputs[len(outputs) - totals :]
        if not outputs or not all(node.type.shape for node in outputs):
            return None
        classes = AxisClasses(graph.operators)
        for before, after in zip(inputs[constants : constants + carry], outputs, strict=False):
            for axis in range(len(before.type.shape)):
                classes.join((before.serial, axis), (after.serial, axis))
        kind = classes.find((outputs[0].serial, 0))
        axes = {node.serial: classes.axis_in(node, kind) for node in graph.nodes}
        known = {serial: axis for serial, axis in axes.items() if axis is not None}
        length = outputs[0].type.shape[0]
        if any(known.get(node.serial) != 0 for node in outputs):
            return None
        if any(n.type.shape[known[n.serial]] != length for n in graph.nodes if n.serial in known):
            return None
        return cls(length, classes, known, {node.serial for node in sums})

    def cut(self, graph: Graph, widths: Sequence[int]) -> list[Graph] | None:
        """The body for so many samples each; None where they do not stay apart."""
        parts = [Part(width, self.length) for width in widths]
        for node in graph.operators:
            is_sum = node.serial in self.sums
            if not keeps_apart(node, self.classes, self.axes, parts[:1], is_sum):
                return None
        graphs = [found for part in parts if (found := restrict(graph, self.axes, part))]
        return graphs if len(graphs) == len(parts) else None


def count_parts(length: int, fewest: int, time: float, totals: int = 0) -> int:
    """How many parts of so many samples at least, equal ones if possible, for a loop that takes so
    many microseconds and has totals of so many bytes; 1: none.

    >>> count_parts(100, 1, 5000.0), count_parts(100, 1, 400.0), count_parts(128, 32, 5000.0)
    (16, 8, 4)
    >>> count_parts(100, 1, 5000.0, 1 << 20), count_parts(9, 1, 5000.0)
    (4, 1)
    """
    wanted = policy().scans
    table = wanted.parts if totals <= wanted.few_totals else wanted.parts_with_totals
    most = max(wanted.few_parts * wanted.least_part, time)
    many = [
        n
        for n, least in table
        if n * wanted.least_part <= most and length // n >= max(fewest, least)
    ]
    if not many:
        return 1
    equal = [n for n in many if length % n == 0 and n >= wanted.about_as_many * many[0]]
    return equal[0] if equal else many[0]


def _nbytes(node: Node) -> int:
    """The bytes of a value that is there before the loop."""
    if isinstance(node, Operator):
        return 0
    if isinstance(node, Constant) and not any(np.asarray(node.output).strides):
        return 0  # one number
    return int(node.type.size * node.type.dtype.itemsize)
