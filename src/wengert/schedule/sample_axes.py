"""Samples through all of a graph: behind reshapes that merge their axis with others, and in loops.

`axes` relates the results of one operation to its arguments; a `scan` has a graph inside, and what
it does to an axis is what that graph does, step after step. A loop can run for a part of the
samples where every value of its body belongs to one sample, to none, or is a sum over samples to
which steps add: a *total*, such as the gradient of a weight. Totals of parts add up to the total of
all, as long as nothing but sums and moves is done with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..graph import Graph, Node, Operator
from ..passes.constants import is_uniform
from ..trace.tracer import ITEM
from ..transforms.bodies import Body
from ..transforms.loop import is_loop
from .axes import AxisClasses, Relation, relate
from .building import has_loops, sum_of
from .lowering import lowering_of
from .random_bits import counted_axes
from .restrict import BodyCut, Part, blocked

_NEEDS_SUM = "needs the sum over all samples at every step"


def is_additive(node: Operator) -> bool:
    """Whether an operation takes sums over parts of the samples to sums over the same parts: it is
    linear in all arguments together. Of sums in another dtype it may round, or cut off, each."""
    linear = node.op.additive or (len(node.inputs) == 1 and 0 in node.op.linear)
    return linear and all(source.type.dtype == node.type.dtype for source in node.inputs)


def items_of(graph: Graph) -> dict[int, list[Operator]]:
    """The results that are read of operations with several, by the serial of the operation."""
    found: dict[int, list[Operator]] = {}
    for node in graph.operators:
        if node.op is ITEM:
            found.setdefault(node.inputs[0].serial, []).append(node)
    return found


class SampleClasses(AxisClasses):
    """The axes of all values of a graph, joined where they are one and the same, through loops."""

    def __init__(self, operators: Sequence[Operator]):
        self.inner: dict[int, SampleClasses] = {}  # of bodies, by the serial of the loop
        self.known: dict[int, dict[tuple[int, int], tuple[int, int]]] = {}
        super().__init__(operators)

    def _relation(self, node: Operator) -> Relation:
        found = relate(node, lowering_of(node), merged=True)
        found.mixed -= counted_axes(node)
        return found

    def _join_all(self, node: Operator) -> None:
        if is_loop(node):
            self._join_loop(node)
        elif node.op is ITEM and node.inputs[0].serial in self.inner:
            self._join_item(node)
        else:
            super()._join_all(node)

    def _join_loop(self, loop: Operator) -> None:
        """Arguments whose axes the body joins."""
        body: Body = loop.params["body"]
        inner = self.inner[loop.serial] = SampleClasses(body.graph.operators)
        carry = body.split(body.graph.inputs)[1]
        for before, after in zip(carry, body.graph.outputs, strict=False):
            assert after is not None
            for axis in range(len(before.type.shape)):
                inner.join((before.serial, axis), (after.serial, axis))
        self.known[loop.serial] = {}
        first = body.constants + body.carry
        for number, (source, own) in enumerate(zip(loop.inputs, body.graph.inputs, strict=True)):
            self._join_inner(loop, source, own, int(number >= first))

    def _join_item(self, item: Operator) -> None:
        loop, number = item.inputs[0], item.params["index"]
        assert isinstance(loop, Operator)
        body: Body = loop.params["body"]
        own = body.graph.outputs[number]
        assert own is not None
        self._join_inner(loop, item, own, int(number >= body.carry))

    def _join_inner(self, loop: Operator, outer: Node, own: Node, front: int) -> None:
        """An array outside of a loop with those that have the same axes in its body."""
        inner, known = self.inner[loop.serial], self.known[loop.serial]
        for axis in range(len(own.type.shape)):
            place = (outer.serial, axis + front)
            self.join(known.setdefault(inner.find((own.serial, axis)), place), place)


# ---------------------------------------------------------------- what a loop does to samples


class MixedSamples(Exception):  # noqa: N818 - control flow, not an error
    """A loop cannot run for a part of the samples; the argument says why."""


def cut_loop(
    loop: Operator,
    classes: SampleClasses,
    axes: dict[int, int],
    used: Iterable[Operator],
    sizes: Sequence[Part],
    partial: Iterable[int] = (),
) -> BodyCut:
    """How a loop runs for a part of the samples, which are these `axes` of values outside of it.

    `used` are the results that somebody reads, `sizes` the parts to run for, and
    `partial` values outside that are sums over a part of the samples. Raises `MixedSamples`.
    """
    body: Body = loop.params["body"]
    inner = classes.inner[loop.serial]
    own = axes_inside(loop, classes, axes, used)
    for node in body.graph.nodes:
        if node.serial in own:
            extent = node.type.shape[own[node.serial]]
            if not all(part.fits(extent) for part in sizes):
                raise MixedSamples("has an axis that samples do not share evenly")
    cut = BodyCut(own)
    sums = _Partial(body, cut, inner, sizes).all_sums(_fresh_totals(loop, set(partial)))
    outputs: list[Any] = body.graph.outputs
    cut.totals = {number for number, node in enumerate(outputs) if node.serial in sums}
    for item in used:
        number = item.params["index"]
        if outputs[number].serial not in own and number not in cut.totals:
            raise MixedSamples("gives out a value that belongs to no sample")
    return cut


def axes_inside(
    loop: Operator, classes: SampleClasses, axes: dict[int, int], used: Iterable[Operator]
) -> dict[int, int]:
    """The axis of samples of the values in a loop's body, by serial. May raise `MixedSamples`."""
    inner = classes.inner[loop.serial]
    places = _seen_from_outside(loop, axes, used)
    kinds = {inner.find((node.serial, axis)) for node, axis in places if axis is not None}
    own: dict[int, int] = {}
    for node in loop.params["body"].graph.nodes:
        found = [a for a in range(_rank(node)) if inner.find((node.serial, a)) in kinds]
        if len(found) > 1:
            raise MixedSamples("mixes samples")
        if found:
            own[node.serial] = found[0]
    if any(own.get(node.serial) != axis for node, axis in places):
        raise MixedSamples("mixes samples")  # they are another axis outside, or two
    return own


def _seen_from_outside(
    loop: Operator, axes: dict[int, int], used: Iterable[Operator]
) -> list[tuple[Node, int | None]]:
    """The arguments and results of a body, each with its axis of samples, by those outside."""
    body: Body = loop.params["body"]
    first = body.constants + body.carry
    found: list[tuple[Any, Node, bool]] = [
        (own, source, number >= first)
        for number, (source, own) in enumerate(zip(loop.inputs, body.graph.inputs, strict=True))
    ]
    found += [
        (body.graph.outputs[item.params["index"]], item, item.params["index"] >= body.carry)
        for item in used
    ]
    places = [
        (own, axes[outer.serial] - in_rows if outer.serial in axes else None)
        for own, outer, in_rows in found
    ]
    if any(axis is not None and axis < 0 for _, axis in places):
        raise MixedSamples("runs along it step by step")
    return places


def _fresh_totals(loop: Operator, partial: set[int]) -> set[int]:
    """The carries that may be totals: they begin with nothing, or with a part of a sum."""
    starts = loop.params["body"].split(loop.inputs)[1]
    return {
        number
        for number, start in enumerate(starts)
        if start.serial in partial or is_uniform(start, 0)
    }


def _rank(node: Node) -> int:
    return len(getattr(node.type, "shape", ()))


class _Partial:
    """Finds the values of a body that are sums over samples, and checks all others."""

    def __init__(self, body: Body, cut: BodyCut, classes: SampleClasses, sizes: Sequence[Part]):
        self.body, self.cut, self.classes, self.sizes = body, cut, classes, sizes
        self.items = items_of(body.graph)

    def all_sums(self, candidates: set[int]) -> set[int]:
        """The serials of all sums, where of the carries at most the candidates are totals."""
        carry = self.body.split(self.body.graph.inputs)[1]
        outputs: list[Any] = self.body.graph.outputs
        while True:
            self.cut.inner.clear()  # totals inside may depend on those outside
            found = {carry[number].serial for number in candidates}
            for node in self.body.graph.operators:
                if self._is_sum(node, found):
                    found.add(node.serial)
            kept = {number for number in candidates if outputs[number].serial in found}
            if kept == candidates:
                break
            candidates = kept
        for number, node in enumerate(outputs[: self.body.carry]):
            if node.serial in found and number not in candidates:
                raise MixedSamples("mixes samples")
        self._check_all(found)
        return found

    def _is_sum(self, node: Operator, known: set[int]) -> bool:
        """Whether a value is a sum over samples, by what is known of its sources."""
        axes = self.cut.axes
        if node.serial in axes or is_loop(node):
            return False
        if node.op is ITEM:
            return self._is_total(node, known)
        if is_additive(node) and all(s.serial in known for s in node.inputs):
            return True
        places = {k: axes[s.serial] for k, s in enumerate(node.inputs) if s.serial in axes}
        relation = self.classes.relations[node.serial]
        return bool(places) and sum_of(node) == "add" and relation.adds_up(places)

    def _is_total(self, item: Operator, known: set[int]) -> bool:
        loop, number = item.inputs[0], item.params["index"]
        if not isinstance(loop, Operator) or not is_loop(loop):
            return False
        if loop.serial not in self.cut.inner:
            self._cut_inner(loop, known)
        return loop.serial in self.cut.inner and number in self.cut.inner[loop.serial].totals

    def _cut_inner(self, loop: Operator, known: set[int]) -> None:
        """Cut a loop inside, if it has to do with samples."""
        items = self.items.get(loop.serial, [])
        if any(node.serial in self.cut.axes for node in (*loop.inputs, *items)):
            self.cut.inner[loop.serial] = cut_loop(
                loop, self.classes, self.cut.axes, items, self.sizes, known
            )

    def _check_all(self, sums: set[int]) -> None:
        for node in self.body.graph.operators:
            if is_loop(node):
                self._check_loop(node, sums)
            elif node.op is not ITEM or not is_loop(node.inputs[0]):
                self._check(node, sums)

    def _check_loop(self, loop: Operator, sums: set[int]) -> None:
        """Sums may go into a loop as what totals begin with, and nowhere else."""
        self._cut_inner(loop, sums)
        cut = self.cut.inner.get(loop.serial)
        totals = set() if cut is None else cut.totals
        first = loop.params["body"].constants
        for number, source in enumerate(loop.inputs):
            if source.serial in sums and number - first not in totals:
                raise MixedSamples(_NEEDS_SUM)

    def _check(self, node: Operator, sums: set[int]) -> None:
        is_sum = node.serial in sums and any(s.serial in self.cut.axes for s in node.inputs)
        if not keeps_apart(node, self.classes, self.cut.axes, self.sizes, is_sum):
            raise MixedSamples("mixes samples")
        if node.serial not in sums and any(source.serial in sums for source in node.inputs):
            raise MixedSamples(_NEEDS_SUM)


def keeps_apart(
    node: Operator,
    classes: AxisClasses,
    axes: dict[int, int],
    sizes: Iterable[Part],
    is_sum: bool = False,
) -> bool:
    """Whether an operation works sample by sample, or has nothing to do with samples; or, where it
    is a sum, whether it adds up all samples and nothing else that parts share."""
    places = {k: axes[s.serial] for k, s in enumerate(node.inputs) if s.serial in axes}
    if not places and node.serial not in axes:
        return not is_sum
    if not has_loops(node) or any(blocked(node, axes, part) is None for part in sizes):
        return False
    relation = classes.relations[node.serial]
    if is_sum:
        return node.serial not in axes and relation.adds_up(places)
    return node.serial in axes and relation.separates(axes[node.serial], places)
