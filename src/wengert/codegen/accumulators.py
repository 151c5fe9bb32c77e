"""What a nest combines over its loops, in registers: vectors whose lanes are joined at the end.

Long sums of floating-point numbers go through totals that lose nothing (`summation.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from ..loops import Store, identity_of
from .nest_plan import NestPlan
from .scalars import Scalars
from .summation import fold, settled
from .vectors import across_lanes

# By store; of one that is folded the two parts of its total.
SUM, LOST = range(2)
Accumulators = dict[tuple[Store, int], ir.Value]


def identity(scalars: Scalars, store: Store) -> ir.Value:
    """What changes nothing when it is combined."""
    dtype = store.buffer.dtype
    return scalars.literal(identity_of(store.combine or "", dtype), dtype)


def combined(scalars: Scalars, store: Store, x: ir.Value, y: ir.Value) -> ir.Value:
    """Two values as one."""
    dtype = store.buffer.dtype
    return scalars.apply(store.combine or "", [x, y], [dtype, dtype], dtype)


class Combining:
    """The accumulators of one nest."""

    def __init__(self, plan: NestPlan, vector: Scalars):
        self.plan, self.vector = plan, vector

    def fresh(self, stores: Sequence[Store]) -> Accumulators:
        """Accumulators that hold nothing yet, and of what is folded totals."""
        found: Accumulators = {}
        for store in stores:
            found[store, SUM] = identity(self.vector, store)
            if self.plan.is_folded(store):
                found[store, LOST] = identity(self.vector, store)
        return found

    def number(self, store: Store, accumulators: Accumulators) -> ir.Value:
        """What an accumulator or a total holds, of all lanes together."""
        value, vector = accumulators[store, SUM], self.vector
        if self.plan.is_folded(store):
            value = settled(vector, (value, accumulators[store, LOST]), store.buffer.dtype)

        def join(x: ir.Value, y: ir.Value) -> ir.Value:
            return combined(Scalars.like(vector.builder, x, vector.has_fma), store, x, y)

        return across_lanes(vector.builder, value, join)

    def emptied(self, accumulators: Accumulators) -> Accumulators:
        """Accumulators for one stretch: those with totals start anew, the others go on."""
        found: Accumulators = {}
        for store in self.plan.stores:
            if (store, SUM) in accumulators:
                value = accumulators[store, SUM]
                folded = (store, LOST) in accumulators
                found[store, SUM] = identity(self.vector, store) if folded else value
        return found

    def folded(self, totals: Accumulators, accumulators: Accumulators) -> Accumulators:
        """Totals with what accumulators have taken since."""
        found = dict(totals)
        for store in self.plan.stores:
            part, rest = (store, SUM), (store, LOST)
            if rest in totals:
                total, dtype = (totals[part], totals[rest]), store.buffer.dtype
                found[part], found[rest] = fold(self.vector, total, accumulators[part], dtype)
            elif part in totals:
                found[part] = accumulators[part]
        return found

    def joined(self, copies: Sequence[ir.Value], stores: Sequence[Store]) -> Accumulators:
        """The accumulators of all copies as one, by halves."""
        found: Accumulators = {}
        for place, store in enumerate(stores):
            parts = list(copies[place :: len(stores)])
            while len(parts) > 1:
                pairs = zip(parts[::2], parts[1::2], strict=True)
                parts = [combined(self.vector, store, x, y) for x, y in pairs]
            found[store, SUM] = parts[0]
        return found
