"""Values that are better kept than computed again, and those that are better computed again."""

from __future__ import annotations

from collections.abc import Sequence

from ..functions import Cost
from ..graph import Graph, Node, Operator
from ..loops import Product, Reduction
from ..machine import policy
from .node_lowerings import NodeLowerings


class Kept:
    """Decides for one graph; see `stored.Keeper`.

    4 % on `circles: tanh, one step`, against keeping whatever several read.
    """

    def __init__(self, graph: Graph, lowerings: NodeLowerings, users: dict[int, list[Operator]]):
        self.graph, self.lowerings, self.users = graph, lowerings, users
        self.limits = policy().fusion
        self.passes = self._passes()
        self.later, self.chosen_from = self._kept_for_later(), self._chosen_from()
        self.inlined: dict[int, int] = {}  # operations that reading an element would repeat
        self.slow: set[int] = set()  # what is not stored and takes a division or more
        self.choices: dict[int, int] = {}  # that are made in the expressions of what is not stored

    def keeps(self, node: Operator, readers: Sequence[Operator], stored: set[int]) -> bool:
        """Whether the node is to be kept."""
        if node.serial in self.later or self._is_spread(node, readers, stored):
            return True
        if self._is_slow(node) and self._is_repeated(node):
            return True
        if isinstance(node.op.loops, Reduction):
            in_lanes = self.lowerings.task.kind == "block"
            if in_lanes or not self._feeds_one(node, readers):
                return True
        if node.op.cost is Cost.LONG and self._is_read_again(node, readers):
            return True
        crosses = self._crosses_passes(node, readers) or node.serial in self.chosen_from
        if crosses and self._work(node) > self.limits.most_repeated:
            return True
        return self._is_read_in_passes(readers) and self._work(node) > self._most_repeated(node)

    def _most_repeated(self, node: Operator) -> int:
        """The operations that are rather repeated than that an element is stored and read again."""
        near = node.type.size <= self.limits.most_near
        return self.limits.most_repeated_near if near else self.limits.most_repeated

    def note(self, node: Operator, stored: set[int]) -> None:
        """See a node that was decided; arguments that make it too many choices are stored."""
        if node.serial not in stored and self._is_slow(node):
            self.slow.add(node.serial)
        if node.serial not in stored:
            self.inlined[node.serial] = min(self._work(node), self.limits.most_repeated + 1)
        if self.lowerings.is_pointwise(node):
            self.choices[node.serial] = self._limit_choices(node, stored)

    def _work(self, node: Operator) -> int:
        return 1 + sum(self.inlined.get(source.serial, 0) for source in node.inputs)

    # ------------------------------------------------------------ who reads it

    def _crosses_passes(self, node: Operator, users: Sequence[Operator]) -> bool:
        """Whether the node is read in a pass over it and again after that pass."""
        return len(users) > 1 and not all(self.lowerings.is_pointwise(user) for user in users)

    def _is_read_in_passes(self, users: Sequence[Operator]) -> bool:
        """Whether some read the node when more passes are over than others do: ``w`` in a chain of
        ``w = w - (w @ u) * u``, each link of which would compute all links before it anew."""
        return len({self.passes[user.serial] for user in users}) > 1

    def _is_read_again(self, node: Operator, users: Sequence[Operator]) -> bool:
        """Whether an expensive value is read at several places or in several shapes."""
        if self._crosses_passes(node, users) and node.type.size <= self.limits.most_kept:
            return True
        shapes = {
            user.type.shape if self.lowerings.is_pointwise(user) else node.type.shape
            for user in users
        }
        return len(users) > 1 and len(shapes) > 1

    def _feeds_one(self, node: Operator, users: Sequence[Operator]) -> bool:
        """Whether each element is used once, for the same element of one other value."""
        return len(users) == 1 and self.lowerings.is_aligned(users[0])

    def _is_spread(self, node: Operator, users: Sequence[Operator], stored: set[int]) -> bool:
        """Whether each element is read along a whole line of a product that sums over nothing."""
        return any(
            self._is_outer(user)
            and node.type.size < user.type.size
            and not self._only_moves(node, stored)
            for user in users
        )

    def _is_slow(self, node: Operator) -> bool:
        """Whether computing an element takes a division, a root or a longer function."""
        slow = node.op.cost in (Cost.SLOW, Cost.LONG)
        return slow or any(source.serial in self.slow for source in node.inputs)

    def _is_repeated(self, node: Operator) -> bool:
        """Whether many lines of a larger value read it: x in `x[None, :] - y[:, None]`.

        What is the same along the innermost loop is computed before that loop, whoever reads it.
        """
        if (
            self.lowerings.is_free(node)
            or node.type.size <= 1
            or self.lowerings.task.kind == "block"
        ):
            return False
        many, pending = self.limits.most_lines * node.type.size, [node]
        seen = {node.serial}
        while pending:
            one = pending.pop()
            for user in self.users.get(one.serial, ()):
                if not self.lowerings.is_pointwise(user):
                    continue
                if user.type.size > many and one.type.shape[-1] == user.type.shape[-1] > 1:
                    return True
                free = self.lowerings.is_free(user) and user.type.size == one.type.size
                if free and user.serial not in seen:
                    seen.add(user.serial)
                    pending.append(user)
        return False

    def _is_outer(self, node: Operator) -> bool:
        """Whether the node is a product that sums over nothing."""
        return isinstance(node.op.loops, Product) and self.lowerings.is_pointwise(node)

    def _only_moves(self, node: Node, stored: set[int]) -> bool:
        """Whether the elements of the node lie in memory, at whatever places."""
        pending, seen = [node], set(stored)
        while pending:
            one = pending.pop()
            if isinstance(one, Operator) and one.serial not in seen:
                if not self.lowerings.is_free(one):
                    return False
                seen.add(one.serial)
                pending.extend(one.inputs)
        return True

    # ------------------------------------------------------------ choices

    def _chosen_from(self) -> set[int]:
        """Values that several read, and of which an index chooses: each chosen piece is a nest of
        its own, which would compute them anew."""
        found: set[int] = set()
        leading: set[int] = set()  # to a choice, by expressions
        for node in reversed(self.graph.operators):
            readers = self.users.get(node.serial, [])
            if any(user.serial in leading for user in readers):
                if len({user.serial for user in readers}) > 1:
                    found.add(node.serial)
            elif not self._chooses(node):
                continue
            if self.lowerings.is_pointwise(node):
                leading.add(node.serial)
        return found

    def _chooses(self, node: Operator) -> bool:
        return bool(getattr(self.lowerings.lowering(node), "chooses", False))

    def _limit_choices(self, node: Operator, stored: set[int]) -> int:
        """How many choices the node's expression makes; arguments that make it too many are stored.

        Each choice cuts the loops, and what cannot be cut further branches in the innermost one.
        """
        choices = self.choices
        own = max(1, len(node.inputs) - 1) if self._chooses(node) else 0
        sources = {s.serial for s in node.inputs if choices.get(s.serial)} - stored
        total = own + sum(choices[serial] for serial in sources)
        for serial in sorted(sources, key=lambda s: (-choices[s], s)):
            if total <= self.limits.most_choices:
                break
            stored.add(serial)
            total -= choices[serial]
        return total

    # ------------------------------------------------------------ passes

    def _passes(self) -> dict[int, int]:
        """How many passes have to be over before a value can be computed."""
        passes: dict[int, int] = {}
        for node in self.graph.operators:
            passes[node.serial] = max(
                (
                    passes[source.serial] + (not self.lowerings.is_pointwise(source))
                    for source in node.inputs
                    if isinstance(source, Operator)
                ),
                default=0,
            )
        return passes

    def _kept_for_later(self) -> set[int]:
        """Values whose expensive functions an earlier pass computes anyway: it stores them.

        Such as the slope of an activation: the backward pass multiplies with it, after many other
        passes, but its functions are those of the activation itself.
        """
        passes = self.passes
        functions: dict[int, set[int]] = {}  # the expensive ones that an element needs
        for node in self.graph.operators:
            sources = [source for source in node.inputs if isinstance(source, Operator)]
            if self.lowerings.is_pointwise(node):
                found = functions[node.serial] = set()
                if node.op.cost is Cost.LONG:
                    found.add(node.serial)
                # what fewer elements need is computed once for many of these
                alike = [s for s in sources if s.type.size >= node.type.size]
                found.update(*[functions.get(source.serial, ()) for source in alike])
        computed: set[tuple[int, int]] = set()  # functions, and the passes that compute them
        for node in self.graph.operators:
            readers = self.users.get(node.serial, [])
            if functions.get(node.serial) and not all(map(self.lowerings.is_pointwise, readers)):
                computed |= {(serial, passes[node.serial]) for serial in functions[node.serial]}
        return {
            node.serial
            for node in self.graph.operators
            if any(
                (serial, passes[node.serial]) in computed
                for serial in functions.get(node.serial, ())
            )
            and any(
                passes[user.serial] > passes[node.serial]
                for user in self.users.get(node.serial, [])
            )
            and node.type.size <= self.limits.most_kept
        }
