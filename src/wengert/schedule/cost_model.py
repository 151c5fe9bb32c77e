"""Is a region worth it? An estimate of time, for what is computed in blocks and one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ..graph import Constant, Node, Operator
from ..machine import policy
from .building import flops_of, is_free
from .cutting import Cutter

# Operators that are named where several have one thing in common.
MOST_NAMED = 3


class TimedCutter(Cutter):
    """Cuts where an estimate of time says so."""

    misfit = "a block would leave the near cache"  # what it means that something does not fit

    @classmethod
    def shortest(cls) -> int:
        """The shortest axis to cut along."""
        return policy().regions.shortest

    @property
    def time(self) -> float:
        """Microseconds of the whole graph: its regions, and the operators that are in none."""
        inside = sum(self._time(phase, nodes) for phase, nodes in self.members.items())
        return inside + time_apart([n for n in self.graph.operators if not self._member(n)])

    @property
    def worth_it(self) -> bool:
        """Whether most of the work is in regions."""
        if self.length < self.shortest():
            return False  # also where the axes of one class differ in length
        work = sum(work_of(nodes) for nodes in self.members.values())
        return bool(self.members) and 2 * work > work_of(self.graph.operators)

    def _suits(self, phase: int, nodes: Sequence[Operator]) -> bool:
        declined = self._declined(phase, nodes)
        if declined is not None:
            self.objections |= {node.serial: declined for node in nodes}
        return declined is None

    def _declined(self, phase: int, nodes: Sequence[Operator]) -> str | None:
        """Why operators that could make a region do not; None: they do."""
        if not any(flops_of(node) and node.serial in self.inside for node in nodes):
            return "no product goes with it"
        if not self._fits(nodes):
            return self.misfit
        together, apart = self._time(phase, nodes), time_apart(nodes)
        if together < apart:
            return None
        return f"estimated at {together:.0f} us in blocks, {apart:.0f} us without"

    def _fits(self, nodes: Sequence[Operator]) -> bool:
        """Whether what a block needs stays in the near cache."""
        return True

    def _time(self, phase: int, nodes: Sequence[Operator]) -> float:
        """Microseconds of a region made of these operators."""
        raise NotImplementedError

    def _moved(self, phase: int, nodes: Sequence[Operator]) -> int:
        """Elements that go in and out of the blocks."""
        own = {node.serial for node in nodes}
        wanted = self._wanted_from(phase)
        moved = {
            source.serial: source.type.size
            for node in nodes
            for source in node.inputs
            if source.serial not in own and not isinstance(source, Constant)
        }
        moved |= {node.serial: node.type.size for node in nodes if node.serial in wanted}
        return sum(size for serial, size in moved.items() if serial in self.axes)

    def _largest(self, nodes: Sequence[Node]) -> int:
        """Bytes of one sample of the largest product."""
        sizes = [nbytes(node) for node in nodes if flops_of(node) and node.serial in self.axes]
        return max(sizes, default=0) // max(self.length, 1)

    def _bytes_of_weights(self, nodes: Sequence[Operator]) -> int:
        sources = {s.serial: s for node in nodes if flops_of(node) for s in node.inputs}
        return sum(nbytes(s) for s in sources.values() if s.serial not in self.axes)

    # ------------------------------------------------------------ in words

    def told(self) -> str:
        """The regions, why they end, and why not more is in them."""
        lines = [f"{self.told_axis()}, {self.layout.words}"]
        whole = max(work_of(self.graph.operators), 1)
        for number, nodes in enumerate(self.members.values(), 1):
            products, sums = (
                sum(map(bool, found))
                for found in ([flops_of(n) for n in nodes], [n.serial in self.sums for n in nodes])
            )
            share = f"{work_of(nodes) / whole:.0%} of the arithmetic"
            lines.append(
                f"region {number}: {len(nodes)} operators, {products} of them products, {share}; "
                f"it ends with {sums} sums over the axis"
            )
        return "\n".join([*lines, *self._outside_told()])

    def told_axis(self) -> str:
        """The axis, and how it is cut."""
        blocks = f"{-(-self.length // max(self.width, 1))} blocks of {self.width}"
        return f"along {self._axis_told()}: {blocks}"

    def told_estimate(self) -> str:
        """How long this way is estimated to take, or why it is not taken."""
        estimate = f"{self.time:.0f} us" if self.worth_it else "; ".join(self._reasons())
        return f"{self.layout.words}, {self.told_axis()}: {estimate}"

    def told_why_not(self) -> str:
        """The axis, and why it is not worth it."""
        return "; ".join([f"along {self._axis_told()}", *self._reasons()])

    def _reasons(self) -> list[str]:
        reasons = Counter(self.objections.values()).most_common(3)
        return [f"{why} ({n})" for why, n in reasons]

    def _outside_told(self) -> list[str]:
        """What keeps operators along the axis out of all regions, and which these are."""
        found: dict[str, list[Operator]] = {}
        for node in self.graph.operators:
            why = self.objections.get(node.serial)
            if why is not None and not self._member(node):
                found.setdefault(why, []).append(node)
        return [f"not in a region: {_named(nodes)}: {why}" for why, nodes in found.items()]


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
