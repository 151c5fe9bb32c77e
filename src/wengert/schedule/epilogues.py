"""Epilogues: what is done with every element of a product, done as soon as its sum is finished.

    t = x @ w                  for i, j: for k: sum += x[i, k] * w[k, j]
    h = maximum(t + b, 0)  ->            h[i, j] = maximum(sum + b[j], 0)

A store moves from its nest into a product when it needs the result of the product at its own
element only, and everything else it reads is there by then. Bias and activation move in this way,
masks of a backward pass, and updates of parameters. A product waits for what its epilogue needs, if
nobody in between needs the product. Of a nest that also does other things, such as summing what
one of its stores computes, the other things stay and read what the product has stored.

The sums themselves get memory only if somebody else reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ..loops import (
    Affine,
    Buffer,
    Check,
    Choose,
    Contraction,
    Expr,
    Host,
    IndexValue,
    Kernel,
    Load,
    LoadAt,
    LoopProgram,
    MemoryKind,
    Nest,
    Store,
    Sum,
    Var,
    can_fail,
    replaced,
    roots_of,
    takes_long,
    walk,
)
from .lowering import loop_variables
from .memory import root
from .shaping import merge_loops, rewrite_indices
from .task import Task
from .uses import KernelList

Turn = tuple[int, int]  # when a kernel runs: after an earlier one, and in which order there


def fuse_epilogues(kernels: Sequence[Kernel], flags: Sequence[Buffer] = ()) -> list[Kernel]:
    """The kernels with all stores in products that can be there; `flags` are read by checks.

    >>> import numpy as np
    >>> from wengert.schedule import schedule
    >>> from wengert.trace import trace
    >>> graph = trace(lambda x, w, b: np.tanh(x @ w + b), np.ones((3, 4)), np.ones((4, 5)), 1.0)
    >>> print(*schedule(graph).kernels)
    for i < 3 for j < 5: sum of in0 * in1 for 1 < 4  # contract
      out3[5*i + j] = tanh(sum + in2[0])
    """
    products = [kernel for kernel in kernels if isinstance(kernel, Contraction)]
    if not any(_takes_stores(product) for product in products):
        return list(kernels)
    return _Epilogues(kernels, flags).run()


def epilogues(program: LoopProgram, task: Task) -> LoopProgram:
    """What is done with the elements of products, done as soon as they are there.

    On one thread 4 % on `mlp: 784-512-512-10 batch 128, training step`.
    """
    checks = [kernel for kernel in program.kernels if isinstance(kernel, Check)]
    kernels = [kernel for kernel in program.kernels if not isinstance(kernel, Check)]
    program.kernels = [*fuse_epilogues(kernels, [check.flag for check in checks]), *checks]
    return program


def _takes_stores(product: Contraction) -> bool:
    return not product.accumulates and 0 not in product.extents.values()


@dataclass
class _Result:
    """A value that a product has for each element: where it lies in memory, and what it is."""

    product: int
    at: Affine
    value: Expr


class _Epilogues(KernelList):
    """Moves the stores of one list of kernels."""

    def __init__(self, kernels: Sequence[Kernel], flags: Sequence[Buffer]):
        super().__init__(kernels)
        self.flags = set(map(root, flags))
        self.turns: list[Turn] = [(position, 0) for position in range(len(kernels))]
        self.moves = 0
        self.results: dict[Buffer, _Result] = {}
        self.barriers = [n for n, kernel in enumerate(kernels) if self._can_fail(kernel)]

    def run(self) -> list[Kernel]:
        """The kernels in their new order."""
        for position, kernel in enumerate(self.kernels):
            if isinstance(kernel, Contraction) and _takes_stores(kernel):
                self._add_product(position, kernel)
            elif isinstance(kernel, Nest) and all(v.extent and not v.ordered for v in kernel.vars):
                self._lighten(position, kernel)
        order = sorted(range(len(self.kernels)), key=self.turns.__getitem__)
        kernels = [self._without_sums(self.kernels[position]) for position in order]
        return [k for k in kernels if not isinstance(k, Nest) or k.stores]

    # ------------------------------------------------------------ who uses what

    def _product(self, position: int) -> Contraction:
        product = self.kernels[position]
        assert isinstance(product, Contraction)
        return product

    def _can_fail(self, kernel: Kernel) -> bool:
        if isinstance(kernel, Host) or can_fail(kernel):
            return True
        return any(root(buffer) in self.flags for buffer in kernel.writes)

    def _between(self, first: Turn, last: Turn, positions: Iterable[int]) -> list[Turn]:
        """The turns of those kernels that come after `first` and not after `last`."""
        return [turn for n in positions if first < (turn := self.turns[n]) <= last]

    def _readers(self, buffers: Iterable[Buffer]) -> list[int]:
        return [n for buffer in buffers for n in self.readers.get(root(buffer), ())]

    def _writers(self, buffers: Iterable[Buffer]) -> list[int]:
        return [n for buffer in buffers for n in self.writers.get(root(buffer), ())]

    def _is_settled(self, buffer: Buffer) -> bool:
        """Whether one kernel alone writes the buffer, so that what it stores stays."""
        return _is_whole(buffer) and len(self.writers[root(buffer)]) == 1

    # ------------------------------------------------------------ products

    def _add_product(self, position: int, product: Contraction) -> None:
        if not self._is_settled(product.out):
            return
        labels = list(product.out_strides)
        names = loop_variables(tuple(product.extents[label] for label in labels))
        product = replace(product, vars=dict(zip(labels, names, strict=True)))
        self.kernels[position] = product
        value = Sum(product.out.dtype)
        self.results[root(product.out)] = _Result(position, product.place(), value)

    def _without_sums(self, kernel: Kernel) -> Kernel:
        """Sums that nobody else reads need no memory; they are computed as the first store lies."""
        if not isinstance(kernel, Contraction) or not kernel.stores:
            return kernel
        out, strides = kernel.out, kernel.out_strides
        if out.kind is not MemoryKind.ARENA or self.readers.get(out):
            return kernel
        for store in kernel.stores:
            if store.at.constant == 0 and store.at.bounds()[1] == out.size - 1:
                strides = {label: store.at.coefficient(var) for label, var in kernel.vars.items()}
                break
        return replace(kernel, keeps_sums=False, out_strides=strides)

    # ------------------------------------------------------------ nests

    def _lighten(self, position: int, nest: Nest) -> None:
        """Have products take what they can of a nest."""
        wanted: dict[int, set[tuple[Buffer, Affine]]] = {}  # by where they store
        for store in nest.stores:
            product = self._product_for(store)
            if product is not None:
                wanted.setdefault(product, set()).add((store.buffer, store.at))
        for product in sorted(wanted, key=self.turns.__getitem__, reverse=True):
            stores = [s for s in nest.stores if (s.buffer, s.at) in wanted[product]]
            nest = self._moved(position, nest, product, stores)

    def _product_for(self, store: Store) -> int | None:
        """The last product whose results the store reads, if it can be in an epilogue at all."""
        if store.combine or store.guards or store.picks or not _is_whole(store.buffer):
            return None
        values = walk([store.value])
        if any(isinstance(expr, (Choose, LoadAt, IndexValue)) for expr in values):
            return None
        loads = [expr for expr in values if isinstance(expr, Load)]
        found = [self._stored(load) for load in loads]
        products = [result.product for result in found if result is not None]
        return max(products, key=self.turns.__getitem__, default=None)

    def _moved(self, position: int, nest: Nest, place: int, stores: list[Store]) -> Nest:
        """The nest without those stores, which are now in the product; or as it was."""
        left, product = _without(nest, stores), self._product(place)
        results = set(product.writes)
        if left is None or any(root(buffer) in results for buffer in left.reads):
            return nest  # the results would be read as often as before
        fused = self._over_labels(nest, place, stores)
        turn = self._possible_turn(position, place, stores) if fused else None
        if turn is None:
            return nest
        assert fused is not None
        fuller = [*product.stores, *fused]
        self.put(place, replace(product, stores=fuller, nodes=[*product.nodes, *nest.nodes]))
        self.put(position, left)
        self.turns[place] = turn
        for store in fused:
            if self._is_settled(store.buffer):
                self.results[root(store.buffer)] = _Result(place, store.at, store.value)
        return left

    # ------------------------------------------------------------ when

    def _possible_turn(self, nest: int, place: int, stores: Sequence[Store]) -> Turn | None:
        """When the product can run with these stores; None: never."""
        product = self._product(place)
        now, end = self.turns[place], (self.turns[nest][0], -1)  # just before the nest
        # its own results are values by now, but for memory that others write to as well, which
        # cannot be read while the product stores to it
        loads = [expr for expr in walk(roots_of(stores)) if isinstance(expr, Load)]
        others = [load.buffer for load in loads if self._result(load, place) is None]
        writers = self._writers(others)
        if place in writers or any(self.turns[kernel] > end for kernel in writers):
            return None
        after = max([now, *self._between(now, end, [*writers, *self._worth_waiting(stores)])])
        # behind others that wait for the same kernel
        turn = now if after == now else (after[0], self.moves + 1)
        # nobody may miss the product's results, or change what it reads, while it waits,
        results = product.writes
        users = self._readers(results) + self._writers([*results, *product.reads])
        if self._between(now, turn, users):
            return None
        # and what the stores write must not be used between there and the nest, or by the product
        # itself: a later store to the same memory would come before the earlier ones of others
        targets = [store.buffer for store in stores]
        if set(map(root, targets)) & set(map(root, [*results, *product.reads])):
            return None
        users = self._readers(targets) + self._writers(targets)
        if self._between(after, end, users):
            return None
        self.moves += turn != now
        return turn

    def _worth_waiting(self, stores: Sequence[Store]) -> list[int]:
        """Kernels after which new state can be computed straight into the place of the old.

        They read the old one, or may still fail.
        """
        old = [
            load.buffer
            for store in stores
            if store.buffer.kind is MemoryKind.OUTPUT
            for load in walk([store.value])
            if isinstance(load, Load) and load.at == store.at
            if load.buffer.kind is MemoryKind.INPUT
        ]
        return [*self._readers(old), *self.barriers] if old else []

    # ------------------------------------------------------------ where

    def _over_labels(self, nest: Nest, place: int, stores: list[Store]) -> list[Store] | None:
        """The stores over the loops of the product, its results being values; None: impossible."""
        own, product = Nest(nest.vars, stores), self._product(place)
        change = self._substitution(own, place)
        if change is None:
            own = merge_loops(own)  # under another shape there may be more loops than needed
            change = self._substitution(own, place)
        if change is None:
            return None
        over = rewrite_indices(own, list(product.vars.values()), change).stores
        if not all(_covers(store.at, product) for store in over):
            return None
        known: dict[Expr, Expr] = {}
        for expr in walk(roots_of(over)):
            found = self._result(expr, place) if isinstance(expr, Load) else None
            if found is not None:
                assert isinstance(expr, Load)
                if not _same(expr.at, found.at):
                    return None
                known[expr] = found.value
        values = replaced(roots_of(over), known.get)
        return [store.rebuilt(values) for store in over]

    def _substitution(self, nest: Nest, place: int) -> dict[Var, Affine] | None:
        """The loops of a nest in terms of a product's, if both have the same elements."""
        for expr in walk(roots_of(nest.stores)):
            found = self._result(expr, place) if isinstance(expr, Load) else None
            if found is not None:
                assert isinstance(expr, Load)
                return _substitution(nest.vars, expr.at, self._product(place), found.at)
        return None

    def _result(self, load: Load, place: int) -> _Result | None:
        found = self._stored(load)
        return found if found is not None and found.product == place else None

    def _stored(self, load: Load) -> _Result | None:
        """What a product has where this is loaded from; of parts of arrays nothing is known."""
        return self.results.get(root(load.buffer)) if _is_whole(load.buffer) else None


def _same(a: Affine, b: Affine) -> bool:
    return a.constant == b.constant and dict(a.terms) == dict(b.terms)


def _covers(at: Affine, product: Contraction) -> bool:
    """Whether each element of the product has a place of its own."""
    used = all(at.coefficient(var) for var in product.vars.values() if var.extent > 1)
    return used and at.is_one_to_one()


def _substitution(
    variables: Sequence[Var], at: Affine, product: Contraction, own: Affine
) -> dict[Var, Affine] | None:
    """The loops of a nest in terms of a product's: k < 12 -> 4*i + j, where both are at one place.

    `at` is where the nest reads a result, `own` where the product has it.
    """
    free = {var: own.coefficient(var) for var in product.vars.values() if var.extent > 1}
    found: dict[Var, Affine] = {}
    for var in variables:
        step = at.coefficient(var)
        reach, value = 1, Affine(0)
        while reach < var.extent:
            inner = next((label for label, s in free.items() if s == step * reach), None)
            if inner is None or step == 0 or var.extent % (reach * inner.extent):
                return None
            value = value + Affine.of(inner) * reach
            reach *= inner.extent
            del free[inner]
        found[var] = value
    return None if free else found


def _without(nest: Nest, stores: Sequence[Store]) -> Nest | None:
    """The other stores of a nest, which read what these ones store instead of computing it again.

    None if something expensive would still be computed twice.
    """
    kept = [store for store in nest.stores if store not in stores]
    stored: dict[Expr, Expr] = {s.value: Load(s.buffer, s.at) for s in stores}
    values = replaced(roots_of(kept), stored.get)
    left = [store.rebuilt(values) for store in kept]
    still = set(walk(roots_of(left)))
    if any(takes_long(expr) and expr in still for expr in walk(roots_of(stores))):
        return None
    return Nest(nest.vars, left, nest.label, nest.nodes)


def _is_whole(buffer: Buffer) -> bool:
    """Whether a buffer is all the memory of its owner, in its shape or in another."""
    owner, view = root(buffer), buffer
    while view.base is not None:
        if view.start != Affine(0):
            return False
        view = view.base
    return buffer.size == owner.size
