"""Prologues: a factor of a product that is computed where the product reads it.

    t = tanh(x)                       for i, k: pack tanh(x[i, k])
    y = t @ w      ->                 for i, j: for k: sum += packed * w[k, j]

A value that only products read needs no memory of its own, and no pass that writes it. There are
two ways to do without:

- A factor of which each element is read once, as in a dot product or the matrix of a matrix-vector
  product, makes the product a sum over expressions: a nest like any other reduction.
- A large product copies its factors anyway, in the order in which its tiles read them, and the
  expression can be computed on the way. How often this computes an element, the plan of the
  product says (`units.packing`).

A product that would read its factor as it lies keeps the temporary value, unless that is so large
that it would not stay in the caches: then it is packed as well. The rule of all this is: what is
computed, and the loads for it, must not cost more than the store and the loads of the value that
are saved. A function that takes long is never evaluated more often than before, and the product
never gets a worse plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

from ..loops import (
    Affine,
    Apply,
    Buffer,
    Contraction,
    Expr,
    Kernel,
    Literal,
    Load,
    LoopProgram,
    MemoryKind,
    Nest,
    Store,
    Sum,
    Var,
    replaced,
    roots_of,
    takes_long,
    walk,
)
from ..machine import current, policy
from .lowering import loop_variables
from .memory import root
from .shaping import merge_loops, order_loops, rewrite_indices
from .task import Task
from .units import Packing, packing
from .uses import KernelList

Packer = Callable[[Contraction], Packing]


def _packing(kernel: Contraction) -> Packing:
    return packing(kernel, current())


def fuse_prologues(
    kernels: Sequence[Kernel],
    packing: Packer = _packing,
    note: Callable[[Callable[[], str]], None] | None = None,
) -> list[Kernel]:
    """The kernels with all values in products that are better computed there; `note` is told why.

    >>> import numpy as np
    >>> from wengert.schedule import schedule
    >>> from wengert.trace import trace
    >>> graph = trace(lambda x, y: np.exp(x) @ y, np.ones(1000), np.ones(1000))
    >>> print(*schedule(graph).kernels)
    for i < 1000:  # contract
      out2[0] += exp(in0[i]) * in1[i]
    """
    if not any(isinstance(kernel, Contraction) for kernel in kernels):
        return list(kernels)
    return _Prologues(kernels, packing, note or (lambda tell: None)).run()


def prologues(program: LoopProgram, task: Task) -> LoopProgram:
    """Factors of products computed where the products read them.

    It saves the memory of these factors; on `transformer` and `mlp` it is about even in time.
    """
    program.kernels = fuse_prologues(program.kernels, note=task.note)
    return program


@dataclass
class _Value:
    """A value that may be computed where it is read, and the nest that computes it now."""

    nest: Nest
    store: Store
    value: Expr  # with what others of the nest store anyway read from memory
    own: Nest  # the value alone, over as few loops as can be
    readers: list[tuple[int, bool]]  # products by their position, and whether it is x there


class _Prologues(KernelList):
    """Moves the values of one list of kernels."""

    def __init__(
        self,
        kernels: Sequence[Kernel],
        packing: Packer,
        note: Callable[[Callable[[], str]], None],
    ):
        super().__init__(kernels)
        self.packing, self.note = packing, note
        self.sums: set[int] = set()  # products that become nests

    def run(self) -> list[Kernel]:
        """The kernels that are left, products that read each element once as nests."""
        for position, kernel in enumerate(self.kernels):
            if isinstance(kernel, Nest) and all(v.extent and not v.ordered for v in kernel.vars):
                for store in list(kernel.stores):
                    self._try(position, store)
        found: list[Kernel] = []
        for position, kernel in enumerate(self.kernels):
            if position in self.sums:
                assert isinstance(kernel, Contraction)
                found += _as_nests(kernel)
            elif not isinstance(kernel, Nest) or kernel.stores:
                found.append(kernel)
        return found

    # ------------------------------------------------------------ which values

    def _try(self, position: int, store: Store) -> None:
        """Move one value into all products that read it, or into none."""
        value = self._value(position, store)
        if value is None or not _is_cheaper(value):
            return
        fused: dict[int, Contraction] = {}
        for place, is_x in value.readers:
            before = fused.get(place, self.kernels[place])
            assert isinstance(before, Contraction)
            after = _with_value(before, is_x, value)
            if after is None or not self._is_good(before, after, is_x, value):
                return
            fused[place] = after
        for place, product in fused.items():
            self.put(place, replace(product, nodes=[*value.nest.nodes, *product.nodes]))
            if any(_reads_once(product, is_x) for at, is_x in value.readers if at == place):
                self.sums.add(place)
        self.put(position, _without(value.nest, store))

    def _value(self, position: int, store: Store) -> _Value | None:
        """The store as a value that only products need; None: it is something else."""
        nest, buffer = self.kernels[position], store.buffer
        assert isinstance(nest, Nest)
        if store.combine or store.guards or store.picks or buffer.kind is not MemoryKind.ARENA:
            return None
        if root(buffer) is not buffer or self.writers[buffer] != [position]:
            return None
        if not isinstance(store.value, Apply) or not store.at.is_one_to_one():
            return None
        if not all(isinstance(e, (Apply, Load, Literal)) for e in walk([store.value])):
            return None
        readers = []
        for place in self.readers.get(buffer, []):
            kernel = self.kernels[place]
            if not isinstance(kernel, Contraction) or place <= position:
                return None
            if any(root(b) is buffer for b in _loaded([*roots_of(kernel.stores), *kernel.values])):
                return None
            factors = ((kernel.x, kernel.x_value), (kernel.y, kernel.y_value))
            for number, (factor, value) in enumerate(factors):
                if value is None and root(factor) is buffer:
                    readers.append((place, number == 0))
        found = self._from_memory(nest, store)
        # what it reads must still be there
        if any(k > position for b in _loaded([found]) for k in self.writers.get(root(b), [])):
            return None
        own = merge_loops(Nest(nest.vars, [store.changed(value=found)]))
        return _Value(nest, store, found, own, readers) if readers else None

    def _from_memory(self, nest: Nest, store: Store) -> Expr:
        """What is stored, with what others of the nest store anyway read from there."""
        kept: dict[Expr, Expr] = {
            other.value: Load(other.buffer, other.at)
            for other in nest.stores
            if other is not store
            and not (other.combine or other.guards or other.picks)
            and len(self.writers[root(other.buffer)]) == 1
            and other.value is not store.value
            and isinstance(other.value, Apply)
        }
        return replaced([store.value], kept.get)[store.value]

    # ------------------------------------------------------------ where they are good

    def _is_good(self, before: Contraction, after: Contraction, is_x: bool, value: _Value) -> bool:
        """Whether a product should compute this factor."""
        if _reads_once(after, is_x):
            other = after.y_value if is_x else after.x_value
            return (other is None or _reads_once(after, not is_x)) and _makes_good_sums(after)
        if _overlaps(after, is_x):
            return False
        old = self.packing(before)
        was_packed = (old.x if is_x else old.y) > 0
        if not was_packed and not _is_worth_packing(after, is_x, value):
            return False
        new = self.packing(after)
        times = new.x if is_x else new.y
        extra = (times - 1) * value.own.iteration_work
        most = policy().prologues
        good = times > 0 and extra <= most.saved and new.cycles <= most.nearly * old.cycles
        self.note(
            lambda: (
                f"{value.store.buffer.name} into its product: {new.cycles:.0f} cycles, "
                f"{old.cycles:.0f} without, computed {times:.1f} times: {'yes' if good else 'no'}"
            )
        )
        return good


def _loaded(values: Iterable[Expr]) -> list[Buffer]:
    return [expr.buffer for expr in walk(values) if isinstance(expr, Load)]


def _has_functions(exprs: Iterable[Expr]) -> bool:
    """Whether one of them takes long."""
    return any(map(takes_long, exprs))


def _is_cheaper(value: _Value) -> bool:
    """Whether computing the value for each reader takes fewer loads than keeping it does."""
    exprs, readers = walk([value.value]), len(value.readers)
    loops = [var for var in value.nest.vars if var.extent > 1]
    full = [e for e in exprs if isinstance(e, Load) and all(map(e.at.coefficient, loops))]
    left = set(walk(roots_of(_without(value.nest, value.store).stores)))
    again = exprs if readers > 1 else [e for e in exprs if e in left]
    if _has_functions(again):
        return False
    stays = any(load in left for load in full)
    before = (0 if stays else len(full)) + 1 + readers
    return readers * len(full) <= before


def _without(nest: Nest, store: Store) -> Nest:
    kept = [other for other in nest.stores if other is not store]
    return Nest(nest.vars, kept, nest.label, nest.nodes)


# ---------------------------------------------------------------- values over the loops of products


def _with_value(product: Contraction, is_x: bool, value: _Value) -> Contraction | None:
    """The product with a factor computed from what the value is computed from; None: impossible."""
    if 0 in product.extents.values():
        return None
    product = _with_loops(product)
    place = _place_in_memory(product.lead(is_x))
    change = None if place is None else _substitution(value.own, place)
    if change is None:
        return None
    loops = list(product.variables.values())
    expr = rewrite_indices(value.own, loops, change).stores[0].value
    lead = _lead(expr)
    if lead is None:
        return None
    strides = {label: lead.at.coefficient(var) for label, var in product.variables.items()}
    strides = {label: step for label, step in strides.items() if step}
    return product.reading(is_x, lead.buffer, lead.at.constant, strides, expr)


def _with_loops(product: Contraction) -> Contraction:
    """The product with loop variables for all labels."""
    if product.inner:
        return product
    kept = list(product.out_strides)
    summed = [label for label in product.extents if label not in product.out_strides]
    names = loop_variables([product.extents[label] for label in (*kept, *summed)])
    return replace(
        product,
        vars=product.vars or dict(zip(kept, names, strict=False)),
        inner=dict(zip(summed, names[len(kept) :], strict=True)),
    )


def _place_in_memory(load: Load) -> Affine | None:
    """The element number in the buffer that owns the memory."""
    at, buffer = load.at, load.buffer
    while buffer.base is not None:
        if buffer.start.terms:
            return None
        at, buffer = at + buffer.start.constant, buffer.base
    return at


def _substitution(own: Nest, place: Affine) -> dict[Var, Affine] | None:
    """The loops of a value in terms of a product's: where it has the element at this place.

    Each stride is written in the number system of the loops, 7 as 2*3 + 1 for loops of strides 3
    and 1. The digits are right if the index of each loop stays in its range.
    """
    (store,) = own.stores
    found = {var: Affine(0) for var in own.vars}
    steps = sorted(((step, var) for var, step in store.at.terms), key=lambda pair: -pair[0])
    if any(step < 0 for step, _ in steps):
        return None
    numbers = [(place.constant - store.at.constant, Affine(1))]
    numbers += [(step, Affine.of(var)) for var, step in place.terms]
    for number, factor in numbers:
        sign = 1 if number >= 0 else -1
        left = abs(number)
        for step, var in steps:
            digit, left = divmod(left, step)
            found[var] = found[var] + factor * (sign * digit)
        if left:
            return None
    for var, index in found.items():
        low, high = index.bounds()
        if low < 0 or high >= var.extent:
            return None
    return found


def _lead(expr: Expr) -> Load | None:
    """A load that has all the loops that any has; the best one walks memory one by one."""
    loads = [part for part in walk([expr]) if isinstance(part, Load)]
    used = {var for load in loads for var, _ in load.at.terms}
    full = [load for load in loads if used and all(map(load.at.coefficient, used))]
    return min(full, key=lambda load: min(abs(step) for _, step in load.at.terms), default=None)


# ---------------------------------------------------------------- how products read


def _uses(product: Contraction, is_x: bool) -> int:
    """How often each element of a factor is used: the loops that it does not have."""
    strides = product.x_strides if is_x else product.y_strides
    return prod(n for label, n in product.extents.items() if not strides.get(label))


def _reads_once(product: Contraction, is_x: bool) -> bool:
    return _uses(product, is_x) == 1 and product.lead(is_x).at.is_one_to_one()


def _overlaps(product: Contraction, is_x: bool) -> bool:
    """Whether elements are read at several places of a factor, as by windows."""
    return not product.lead(is_x).at.is_one_to_one()


def _is_worth_packing(product: Contraction, is_x: bool, value: _Value) -> bool:
    """Whether a factor should be packed for no other reason than that it is computed."""
    wanted, costly = policy().prologues, _has_functions(walk([value.value]))
    few = wanted.few_costly_uses if costly else wanted.few_uses
    return value.store.buffer.nbytes >= wanted.large_bytes and _uses(product, is_x) >= few


def _makes_good_sums(product: Contraction) -> bool:
    nest = order_loops(merge_loops(_sums(product)))
    inner, few = nest.vars[-1], policy().prologues
    if _has_functions(walk(roots_of(nest.stores))):
        return inner.extent >= few.few_costly
    kept = nest.stores[0].at.coefficient(inner)
    return inner.extent >= (few.few_kept if kept else few.few_summed)


def _sums(product: Contraction) -> Nest:
    """The sums of a product as a nest."""
    factors = product.x_value or product.lead(True), product.y_value or product.lead(False)
    value = Apply("multiply", factors, product.out.dtype)
    is_sum = product.accumulates or any(var.extent > 1 for var in product.inner.values())
    store = Store(product.out, product.place(), value)
    if is_sum:
        store = store.changed(combine="add", continues=product.accumulates)
    return Nest(list(product.variables.values()), [store], product.label, product.nodes)


def _as_nests(product: Contraction) -> list[Kernel]:
    """The sums of a product as a nest, and what is done with them as another."""
    nests: list[Kernel] = [_sums(product)]
    if product.stores:
        finished = Load(product.out, product.place())
        known = replaced(
            roots_of(product.stores), lambda e: finished if isinstance(e, Sum) else None
        )
        stores = [store.rebuilt(known) for store in product.stores]
        nests.append(Nest(list(product.vars.values()), stores, product.label, product.nodes))
    return nests
