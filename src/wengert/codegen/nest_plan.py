"""What is decided about a nest before its code is emitted: vectors, unrolling, where sums start."""

from __future__ import annotations

from ..loops import (
    Affine,
    Apply,
    Choose,
    Expr,
    IndexValue,
    Load,
    LoadAt,
    Nest,
    Store,
    parts_of,
    roots_of,
    walk,
)
from ..machine import policy
from .ordering import has_chains
from .summation import loses, place_folds
from .target import Target

Access = Load | LoadAt | Store


class NestPlan:
    """The loops of a nest, the deepest one that each expression needs, and how vectors are used."""

    def __init__(self, nest: Nest, target: Target):
        self.nest, self.target = nest, target
        self.vars, self.stores = nest.vars, nest.stores
        self.last = len(nest.vars) - 1
        self.exprs = walk(roots_of(nest.stores))
        self.depths = self._expression_depths()
        self.body = sum(8 if isinstance(e, Apply) else 1 for e in self.exprs)  # instructions, about
        self.lanes = self._choose_lanes()
        # whether rows end with a vector that overlaps the one before
        self.overlapping = self._may_overlap()
        if self.overlapping:
            self.lanes = min(self.lanes, 1 << (nest.vars[-1].extent.bit_length() - 1))
        # of each store that combines, the loop from which on it does so over all loops
        self.starts = {s: self._register_level(s) for s in nest.stores if s.combine}
        self.interleaved = self._has_chains()
        self.unroll = self._choose_unroll(nest.vars[-1].extent) if nest.vars else 1
        self.folded_level, self.folded_every = self._choose_folds()

    # ------------------------------------------------------------ expressions

    def _expression_depths(self) -> dict[Expr, int]:
        """For every expression the deepest loop it depends on; -1: none."""
        depths: dict[Expr, int] = {}
        branches = any(isinstance(expr, Choose) for expr in self.exprs)
        for expr in self.exprs:
            depth = max((depths[part] for part in parts_of(expr)), default=-1)
            if branches and isinstance(expr, (Load, LoadAt)):
                depth = self.last  # it may exist in one branch only: never read it beforehand
            elif isinstance(expr, (Load, LoadAt, IndexValue)):
                depth = max(depth, self._index_depth(expr.at))
            elif isinstance(expr, Choose):
                # stays a branch, made in the innermost loop
                depth = max(depth, self.last, self._index_depth(expr.test.at))
            depths[expr] = depth
        return depths

    def _index_depth(self, at: Affine) -> int:
        used = {var for var, _ in at.terms}
        return max((k for k, var in enumerate(self.vars) if var in used), default=-1)

    # ------------------------------------------------------------ vectors

    def _choose_lanes(self) -> int:
        if not self.vars or any(isinstance(expr, Choose) for expr in self.exprs):
            return 1
        var, picked = self.vars[-1], [store for store in self.stores if store.picks]
        if var.ordered or not all(self.is_in_row(s) and s.at.coefficient(var) for s in picked):
            return 1  # one after the other, or two lanes might meet at one place
        dtypes = [store.buffer.dtype for store in self.stores]
        # what is computed outside of the innermost loop, such as a learning rate, is a scalar
        dtypes += [expr.dtype for expr in self.exprs if self.depths[expr] == self.last]
        widest = max((d.itemsize for d in dtypes if d.kind != "b"), default=1)
        return max(1, min(self.target.vector_bytes // widest, 64))

    def is_in_row(self, access: Access) -> bool:
        """Whether the innermost loop's counter alone decides where in a row an access is."""
        return all(self.depths[pick] < self.last for pick, _ in access.picks)

    def _may_overlap(self) -> bool:
        """Whether rows can end with a vector that overlaps the one before, and need no mask.

        A masked store makes all loads wait that might touch the lanes behind it, and in memory
        that is dense these are the loads of the next row.
        """
        extent = self.vars[-1].extent if len(self.vars) > 1 else 1
        if self.lanes == 1 or extent % self.lanes == 0 or extent < 2:
            return False
        plain = all(not s.combine and s.at.coefficient(self.vars[-1]) == 1 for s in self.stores)
        return plain and self.body <= policy().nests.small_body * 8

    def _has_chains(self) -> bool:
        """Whether an iteration computes long functions, which are best computed side by side."""
        if self.lanes == 1 or self.target.vector_registers < policy().nests.enough_registers:
            return False
        inner = [expr for expr in self.exprs if self.depths[expr] == self.last]
        return has_chains(self.stores, inner)

    def _choose_unroll(self, extent: int) -> int:
        """How many vectors the innermost loop works on at once."""
        limits = policy().nests
        apart = [s for s in self.stores if s.at.coefficient(self.vars[-1]) not in (0, 1)]
        small = self.body + len(apart) * self.lanes <= limits.small_body * 8  # stored lane by lane
        wanted = limits.unroll_small if small else limits.unroll_large
        if self.interleaved and self.body <= limits.most_chained:
            wanted = max(wanted, limits.unroll_chains)
        if self._only_sums() and extent >= 4 * limits.unroll_sums * self.lanes:
            return limits.unroll_sums
        while wanted > 1 and extent < wanted * self.lanes:
            wanted //= 2
        return wanted

    # ------------------------------------------------------------ sums

    def _register_level(self, store: Store) -> int:
        """The outermost loop from which on all loops are combined over by this store."""
        level = len(self.vars)
        used = {var for var, _ in store.at.terms}
        while level > 0 and not store.picks and self.vars[level - 1] not in used:
            level -= 1
        return level

    def _only_sums(self) -> bool:
        """Whether the innermost loop does little but add to one or two accumulators."""
        inner = all(self.starts.get(s, len(self.vars)) <= self.last for s in self.stores)
        return inner and len(self.stores) <= 2 and self.body <= policy().nests.small_body

    def _choose_folds(self) -> tuple[int, int]:
        """The loop that folds accumulators into totals, and after how many turns; -1: none."""
        if not self.vars or not any(map(loses, self.stores)):
            return -1, 0
        *outer, innermost = (var.extent for var in self.vars)
        whole, rest = divmod(innermost, self.lanes * self.unroll)
        return place_folds(outer, whole + -(-rest // self.lanes))

    def is_folded(self, store: Store) -> bool:
        """Whether a store is combined over the loop that folds."""
        return loses(store) and self.starts[store] <= self.folded_level

    def ends_once(self, store: Store) -> bool:
        """Whether each element is finished in one go: no loop outside combines over it too."""
        used = {var for var, _ in store.at.terms}
        return all(var in used for var in self.vars[: self.starts[store]])

    # ------------------------------------------------------------ ending early

    def watch(self) -> tuple[int, int]:
        """The loop that looks whether to end early, and after how many iterations; -1: none.

        The deepest one that takes long: those inside it end soon enough by themselves.
        """
        body, costs = self.nest.work // self.nest.iterations, policy().costs
        for level in range(self.last, -1, -1):
            whole = body * self.vars[level].extent
            if whole >= costs.watched_loop:
                return level, max(1, 1 << (costs.watch_period // body).bit_length())
            body = whole
        return -1, 0
