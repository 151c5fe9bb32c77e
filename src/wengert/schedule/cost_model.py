"""Is a region worth it? An estimate of time, for what is computed in blocks and one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ..graph import Constant, Node, Operator
from ..machine import policy
from .axes import AxisClasses
from .building import flops_of, is_free
from .cutting import Cut, Way

# Operators that are named where several have one thing in common.
MOST_NAMED = 3


class TimedWay(Way):
    """A way to cut where an estimate of time says so."""

    misfit = "a block would leave the near cache"  # what it means that something does not fit

    def __init__(self, classes: AxisClasses):
        self.classes = classes

    @classmethod
    def shortest(cls) -> int:
        """The shortest axis to cut along."""
        return policy().regions.shortest

    def fits(self, cut: Cut, nodes: Sequence[Operator]) -> bool:
        """Whether what a block needs stays in the near cache."""
        return True

    def time(self, cut: Cut, phase: int, nodes: Sequence[Operator]) -> float:
        """Microseconds of a region made of these operators."""
        raise NotImplementedError

    def is_enough(self, cut: Cut) -> bool:
        """Whether most of the work is in regions."""
        work = sum(work_of(nodes) for nodes in cut.members.values())
        return bool(cut.members) and 2 * work > work_of(cut.graph.operators)

    def declines(self, cut: Cut, phase: int, nodes: Sequence[Operator]) -> str | None:
        """Operators are no region without a product, and where they are faster by themselves."""
        if not any(flops_of(node) and node.serial in cut.inside for node in nodes):
            return "no product goes with it"
        if not self.fits(cut, nodes):
            return self.misfit
        together, apart = self.time(cut, phase, nodes), time_apart(nodes)
        if together < apart:
            return None
        return f"estimated at {together:.0f} us in blocks, {apart:.0f} us without"


class Candidate:
    """A graph cut in one way: how long it takes, and what there is to tell of it."""

    def __init__(self, cut: Cut, way: TimedWay):
        self.cut, self.way = cut, way

    @property
    def time(self) -> float:
        """Microseconds of the whole graph: its regions, and the operators that are in none."""
        cut = self.cut
        inside = sum(self.way.time(cut, phase, nodes) for phase, nodes in cut.members.items())
        return inside + time_apart([n for n in cut.graph.operators if not cut.is_member(n)])

    @property
    def worth_it(self) -> bool:
        """Whether the axis is long enough, and most of the work is in regions."""
        # a length of 0: the axes of one class differ
        return self.cut.length >= self.way.shortest() and self.way.is_enough(self.cut)

    def told(self) -> str:
        """The regions, why they end, and why not more is in them."""
        lines = [f"{self.told_axis()}, {self.way.layout.words}"]
        whole = max(work_of(self.cut.graph.operators), 1)
        for number, nodes in enumerate(self.cut.members.values(), 1):
            products = sum(flops_of(node) > 0 for node in nodes)
            sums = sum(node.serial in self.cut.sums for node in nodes)
            share = f"{work_of(nodes) / whole:.0%} of the arithmetic"
            lines.append(
                f"region {number}: {len(nodes)} operators, {products} of them products, {share}; "
                f"it ends with {sums} sums over the axis"
            )
        return "\n".join([*lines, *self._outside_told()])

    def told_axis(self) -> str:
        """The axis, and how it is cut."""
        blocks = f"{-(-self.cut.length // max(self.cut.width, 1))} blocks of {self.cut.width}"
        return f"along {self.cut.told_names()}: {blocks}"

    def told_way(self) -> str:
        """How blocks lie, and how the axis is cut."""
        return f"{self.way.layout.words}, {self.told_axis()}"

    def told_estimate(self) -> str:
        """How long this way is estimated to take, or why it is not taken."""
        estimate = f"{self.time:.0f} us" if self.worth_it else "; ".join(self._reasons())
        return f"{self.told_way()}: {estimate}"

    def told_why_not(self) -> str:
        """How it is cut, and why it is not worth it."""
        head = f"{self.way.layout.words}, along {self.cut.told_names()}"
        return "; ".join([head, *self._reasons()])

    def _reasons(self) -> list[str]:
        reasons = Counter(self.cut.objections.values()).most_common(3)
        return [f"{why} ({n})" for why, n in reasons]

    def _outside_told(self) -> list[str]:
        """What keeps operators along the axis out of all regions, and which these are."""
        found: dict[str, list[Operator]] = {}
        for node in self.cut.graph.operators:
            why = self.cut.objections.get(node.serial)
            if why is not None and not self.cut.is_member(node):
                found.setdefault(why, []).append(node)
        return [f"not in a region: {_named(nodes)}: {why}" for why, nodes in found.items()]


def moved(cut: Cut, phase: int, nodes: Sequence[Operator]) -> int:
    """Elements that go in and out of the blocks of a region."""
    own = {node.serial for node in nodes}
    wanted = cut.wanted_from(phase)
    sizes = {
        source.serial: source.type.size
        for node in nodes
        for source in node.inputs
        if source.serial not in own and not isinstance(source, Constant)
    }
    sizes |= {node.serial: node.type.size for node in nodes if node.serial in wanted}
    return sum(size for serial, size in sizes.items() if serial in cut.axes)


def largest_of(cut: Cut, nodes: Sequence[Node]) -> int:
    """Bytes of one sample of the largest product."""
    sizes = [nbytes(node) for node in nodes if flops_of(node) and node.serial in cut.axes]
    return max(sizes, default=0) // max(cut.length, 1)


def bytes_of_weights(cut: Cut, nodes: Sequence[Operator]) -> int:
    """Bytes of what the products of all samples share."""
    sources = {s.serial: s for node in nodes if flops_of(node) for s in node.inputs}
    return sum(nbytes(s) for s in sources.values() if s.serial not in cut.axes)


def _named(nodes: Sequence[Operator]) -> str:
    """Some operators by name; products first, as most of the time is theirs."""
    ordered = sorted(nodes, key=lambda node: -flops_of(node))
    texts = [
        f"{node.op.name} {node.type}" + (f" ({node.source})" if node.source else "")
        for node in ordered[:MOST_NAMED]
    ]
    rest = len(nodes) - len(texts)
    return ", ".join(texts) + (f" and {rest} more" if rest else "")


def time_apart(nodes: Sequence[Operator]) -> float:
    """Microseconds of the operators one by one, each over all samples."""
    times, least = policy().times, policy().threads.least_flops
    total = elements_of(computed_in(nodes)) / times.elements
    for flops in map(flops_of, nodes):
        shared = flops >= least
        threads = times.threads if shared else 1
        total += flops / (times.operations * threads) + times.waking * shared
    return total * times.apart


def time_in_blocks(work: float, elements: float) -> float:
    """Microseconds of so much arithmetic in products and so many elements, in a region."""
    times = policy().times
    products = work / (times.operations * times.threads)
    return times.waking + products + elements / (times.elements * times.near)


def computed_in(nodes: Sequence[Operator]) -> list[Operator]:
    """Operators whose elements are computed, and not only moved; products and programs apart."""
    others = [node for node in nodes if not flops_of(node) and not node.op.multiple]
    return [node for node in others if not is_free(node)]


def elements_of(nodes: Iterable[Node]) -> int:
    """The elements of all results."""
    return sum(node.type.size for node in nodes)


def work_of(nodes: Iterable[Node]) -> int:
    """The arithmetic of all products."""
    return sum(flops_of(node) for node in nodes)


def nbytes(node: Node) -> int:
    """Bytes of a value."""
    return int(node.type.size * node.type.dtype.itemsize)
