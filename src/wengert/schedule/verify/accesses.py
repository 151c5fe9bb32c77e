"""What a kernel reads and writes: every load and store, with the turns in which it happens.

An access is an index in the buffer that owns the memory, and the values that loop variables take.
Choices and guards narrow these: what stands behind `i < 3 ? a[i] : b[i - 3]` is not read elsewhere.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, prod

import numpy as np

from ...loops import (
    Affine,
    Apply,
    Branch,
    Buffer,
    Check,
    Choose,
    Contraction,
    Expr,
    IndexValue,
    InRange,
    Kernel,
    LibraryCall,
    Literal,
    Load,
    LoadAt,
    Loop,
    Nest,
    Store,
    Transfer,
    Var,
    as_reals,
    parts_of,
    reals_in,
    roots_of,
    walk,
)
from .places import Box, Places, bounds, boxes_where

# An expression of more choices than this is not followed branch by branch.
MOST_BRANCHES = 1 << 12
# A place that is computed from values without being held to a range.
UNBOUNDED = 1 << 48

Range = tuple[float, float]
Choice = tuple[InRange, bool]


@dataclass(eq=False)
class Access:
    """One load or store of a kernel, in all turns of its loops."""

    buffer: Buffer  # that is named, a view perhaps
    owner: Buffer  # of the memory
    at: Affine  # in the owner
    boxes: list[Box]  # the turns; the index is affine in each
    # What values, which are between a least and a greatest one, times their strides add to it.
    picks: list[tuple[int, Range]] = field(default_factory=list)
    is_decided: bool = True  # or the boxes have more turns than there are
    combines: bool = False  # a store, with what is there

    def places(self) -> Iterator[Places]:
        """All places that it may touch."""
        start = sum(int(low) * stride for stride, (low, _) in self.picks)
        axes = [(stride, int(high - low) + 1) for stride, (low, high) in self.picks]
        for box in self.boxes:
            found = Places.at(self.at, box)
            if found is not None:
                more = Places.of(found.start + start, [*found.axes, *axes])
                assert more is not None
                yield more

    @property
    def is_bounded(self) -> bool:
        """Whether values that places depend on are held to ranges."""
        return all(abs(end) < UNBOUNDED for _, ends in self.picks for end in ends)


@dataclass
class Uses:
    """All that a kernel, or one turn of it, reads and then writes."""

    loads: list[Access] = field(default_factory=list)
    stores: list[Access] = field(default_factory=list)

    def __add__(self, other: Uses) -> Uses:
        return Uses([*self.loads, *other.loads], [*self.stores, *other.stores])

    def without(self, buffers: Container[Buffer]) -> Uses:
        """All but what is in these."""
        return Uses(
            [load for load in self.loads if load.owner not in buffers],
            [store for store in self.stores if store.owner not in buffers],
        )


def in_memory(buffer: Buffer, at: Affine) -> tuple[Buffer, Affine]:
    """The buffer that owns the memory, and an index there, of real numbers."""
    at = at * reals_in(buffer)
    while buffer.base is not None:
        buffer, at = buffer.base, at + buffer.start * reals_in(buffer)
    return buffer, at


def access(buffer: Buffer, at: Affine, boxes: Sequence[Box]) -> Access:
    """An access at an index that loop variables alone decide."""
    return Access(buffer, *in_memory(buffer, at), list(boxes))


# ---------------------------------------------------------------- nests


def uses_of_nest(nest: Nest, box: Box) -> Uses:
    """What a nest reads and writes. A sum that goes on is read as well as written."""
    found = Uses()
    turns = box if all(var.extent for var in nest.vars) else None
    for store in nest.stores:
        if turns is None:
            found.stores += _begun_by_no_turns(nest, store, box)
            continue
        boxes, decided = _turns([(guard, True) for guard in store.guards], turns)
        at = in_memory(store.buffer, store.at)
        picks = _picks(store.picks, turns)
        target = Access(store.buffer, *at, boxes, picks, decided, bool(store.combine))
        found.loads += _loads([store], turns)
        if store.combine and store.continues:
            found.loads.append(target)
        found.stores.append(target)
    return found


def _begun_by_no_turns(nest: Nest, store: Store, box: Box) -> Iterator[Access]:
    """Loops that never run leave their sums at the identity."""
    kept = all(var.extent for var, _ in store.at.terms)
    if store.combine and not store.continues and kept:
        yield access(store.buffer, store.at, [box])


def _turns(choices: Sequence[Choice], box: Box) -> tuple[list[Box], bool]:
    """The turns in which choices are made so, and whether these are exactly those."""
    tests = [(test.at, test.low, test.high, wanted) for test, wanted in choices]
    found = boxes_where(tests, box)
    return ([box], False) if found is None else (list(found), True)


def _loads(stores: Iterable[Store], box: Box) -> list[Access]:
    """The loads of stores, each with the turns in which it happens."""
    found: dict[tuple[Expr, tuple[Choice, ...]], Access] = {}
    pending: list[tuple[Expr, tuple[Choice, ...]]] = [
        (root, tuple((guard, True) for guard in store.guards))
        for store in stores
        for root in store.roots()
    ]
    turns: dict[tuple[Choice, ...], tuple[list[Box], bool]] = {}
    seen: set[tuple[Expr, tuple[Choice, ...]]] = set()
    while pending:
        expr, choices = pending.pop()
        if (expr, choices) in seen:
            continue
        seen.add((expr, choices))
        if choices not in turns:
            turns[choices] = _turns(choices, box) if len(turns) < MOST_BRANCHES else ([box], False)
        boxes, decided = turns[choices]
        if not boxes:
            continue
        if isinstance(expr, Choose):
            pending.append((expr.yes, (*choices, (expr.test, True))))
            pending.append((expr.no, (*choices, (expr.test, False))))
            continue
        if isinstance(expr, (Load, LoadAt)):
            picks = _picks(expr.picks, box) if isinstance(expr, LoadAt) else []
            memory = in_memory(expr.buffer, expr.at)
            found[expr, choices] = Access(expr.buffer, *memory, boxes, picks, decided)
        pending += [(part, choices) for part in parts_of(expr)]
    return list(found.values())


# ---------------------------------------------------------------- products


def uses_of_product(product: Contraction, box: Box) -> Uses:
    """What a product reads and writes: factors, what is done with its sums, and these themselves.

    Sums that nobody else reads lie in scratch memory of the code, which is no buffer.
    """
    found = Uses()
    factors = (
        (product.x, product.x_offset, product.x_strides, product.x_value),
        (product.y, product.y_offset, product.y_strides, product.y_value),
    )
    extents = product.extents
    labels = product.variables | {
        label: Var(str(label), n) for label, n in extents.items() if label not in product.variables
    }
    if all(extents.values()):
        for buffer, start, strides, value in factors:
            if value is None:
                found.loads.append(access(buffer, _over(labels, strides, start), [box]))
        found.loads += _loads([Store(product.out, Affine(0), v) for v in product.values], box)
    if product.keeps_sums:
        sums = access(product.out, _over(labels, product.out_strides), [box])
        found.stores.append(sums)
        if product.accumulates:
            found.loads.append(sums)
    return found + uses_of_nest(Nest(list(product.vars.values()), product.stores), box)


def _over(labels: Mapping[int, Var], strides: Mapping[int, int], start: int = 0) -> Affine:
    """The index of an array with a stride for each label."""
    at = Affine(start)
    for label, stride in strides.items():
        at = at + Affine.of(labels[label]) * stride
    return at


# ---------------------------------------------------------------- kernels around kernels


def uses_of(kernel: Kernel, box: Box) -> Uses:
    """What a kernel reads and writes, in all turns of all loops inside."""
    if isinstance(kernel, Nest):
        return uses_of_nest(kernel, box)
    if isinstance(kernel, Contraction):
        return uses_of_product(kernel, box)
    if isinstance(kernel, Transfer):
        return _uses_of_transfer(kernel, box)
    if isinstance(kernel, Branch):
        asked = [] if kernel.value is None else [access(kernel.value, Affine(0), [box])]
        sides = [(part, one) for part, side in sides_of(kernel, box) for one in side]
        return sum((uses_of(part, one) for part, one in sides), Uses(asked))
    if isinstance(kernel, Loop):
        turns = turns_of(kernel, box)
        found = sum((uses_of(part, turns) for part in kernel.parts()), Uses())
        return found.without(own_of(kernel)) + carried_by(kernel, turns)
    if isinstance(kernel, LibraryCall):
        reads, writes = ([whole(b, box) for b in part] for part in (kernel.reads, kernel.writes))
        return Uses(reads, writes)
    assert isinstance(kernel, Check), kernel
    return Uses([access(kernel.flag, Affine(0), [box])])


def whole(buffer: Buffer, box: Box) -> Access:
    """All of a buffer."""
    if 0 in buffer.shape:
        return access(buffer, Affine(0), [])
    buffer = as_reals(buffer)
    variables = [Var(str(axis), n) for axis, n in enumerate(buffer.shape)]
    return access(buffer, buffer.flat(tuple(map(Affine.of, variables))), [box])


def own_of(loop: Loop) -> set[Buffer]:
    """What is there in a turn of a loop alone."""
    return {*loop.private, *[b for carry in loop.carries for b in (carry.before, carry.after)]}


def carried_by(loop: Loop, turns: Box) -> Uses:
    """Where values that a loop hands on come from, and where its turns leave them."""
    found = Uses()
    first, count = turns[loop.var]
    if loop.limit is not None:
        found.loads.append(access(loop.limit, Affine(0), [turns]))
    for carry in loop.carries:
        found.loads.append(_lying_in(carry.start, carry.before, turns))
        between = turns
        if carry.end is not None:
            found.stores.append(_lying_in(carry.end, carry.after, turns))
            between = {**turns, loop.var: (first + loop.reverse, count - 1)}
        if between[loop.var][1]:
            found.stores += [_lying_in(place, carry.after, between) for place in carry.places]
    return found


def _lying_in(outer: Buffer, inner: Buffer, box: Box) -> Access:
    """All of a buffer that lies where another one begins."""
    at = _all_of(inner, inner.shape, box).at
    return access(outer, at, [box] if inner.size else [])


def sides_of(branch: Branch, box: Box) -> list[tuple[Kernel, list[Box]]]:
    """The kernels of a branch, each with the turns in which it runs."""
    return [
        (kernel, [box] if branch.value is not None else _turns([(branch.test, wanted)], box)[0])
        for kernels, wanted in ((branch.yes, True), (branch.no, False))
        for kernel in kernels
    ]


def turns_of(loop: Loop, box: Box) -> Box:
    """All turns of a loop, or those that fall to turns of the loop around."""
    first, stop = 0, loop.turns
    if loop.share is not None and loop.share in box:
        share, number = box[loop.share]
        first, stop = (n * loop.turns // loop.share.extent for n in (share, share + number))
    found = {**box, loop.var: (first, stop - first)}
    if loop.count is not None:
        most = 1 if loop.share is None else box.get(loop.share, (0, loop.share.extent))[1]
        found[loop.count] = (0, -(-(stop - first) // most))
    if loop.blocks is not None:
        found[loop.blocks.live] = (1, loop.blocks.width)
    return found


def _uses_of_transfer(kernel: Transfer, box: Box) -> Uses:
    """What copying the samples of some blocks reads and writes."""
    blocks = kernel.blocks
    first, number = box[blocks.var]
    begin = first * blocks.width
    count = min(begin + number * blocks.width, blocks.extent) - begin
    shape = [count if axis == kernel.axis else n for axis, n in enumerate(kernel.outer.shape)]
    here = {**box, blocks.var: (first, 1)}
    outside = _all_of(kernel.outer, shape, here)
    inside = _all_of(kernel.inner, kernel.inner.shape, here)
    return Uses([outside], [inside]) if kernel.inward else Uses([inside], [outside])


def _all_of(buffer: Buffer, shape: Sequence[int], box: Box) -> Access:
    """So many elements of a buffer along each axis."""
    at = Affine(0)
    for axis, (n, stride) in enumerate(zip(shape, buffer.strides, strict=True)):
        at = at + Affine.of(Var(str(axis), n)) * stride
    return access(buffer, at, [box] if prod(shape) else [])


# ---------------------------------------------------------------- the range of a value


def _picks(picks: Sequence[tuple[Expr, int]], box: Box) -> list[tuple[int, Range]]:
    """Strides, and the ranges of the values that are multiplied with them."""
    if not picks:
        return []
    known: dict[Expr, Range] = {}
    for expr in walk([place for place, _ in picks]):
        known[expr] = _range_of(expr, known, box)
    return [(stride, known[place]) for place, stride in picks]


def _range_of(expr: Expr, known: Mapping[Expr, Range], box: Box) -> Range:
    """The least and the greatest value of an expression, by those of its parts."""
    if isinstance(expr, Literal):
        value = float(expr.value.real)
        return (value, value) if value == value else (-inf, inf)
    if isinstance(expr, IndexValue):
        return bounds(expr.at, box)
    if isinstance(expr, Choose):
        return _either(known[expr.yes], known[expr.no])
    if isinstance(expr, Apply):
        return _range_of_function(expr, [known[arg] for arg in expr.args])
    if isinstance(expr, (Load, LoadAt)):
        value = in_memory(expr.buffer, Affine(0))[0].value
        if expr.buffer.dtype.kind in "iub" and np.size(value) and np.ndim(value):
            return float(np.min(value)), float(np.max(value))
    return _limits(expr.dtype)


def _range_of_function(expr: Apply, args: Sequence[Range]) -> Range:
    limits = _limits(expr.dtype)
    if expr.name == "minimum":
        return tuple(min(ends) for ends in zip(*args, strict=True))
    if expr.name == "maximum":
        return tuple(max(ends) for ends in zip(*args, strict=True))
    found = limits
    if expr.name == "where":
        found = _either(*args[1:])
    elif expr.name in ("convert", "positive", "stop_gradient"):
        found = args[0]
    elif expr.name == "add":
        found = args[0][0] + args[1][0], args[0][1] + args[1][1]
    elif expr.name == "subtract":
        found = args[0][0] - args[1][1], args[0][1] - args[1][0]
    elif expr.name == "multiply" and all(abs(end) < inf for ends in args for end in ends):
        ends = [a * b for a in args[0] for b in args[1]]
        found = min(ends), max(ends)
    elif expr.name == "remainder" and args[1][0] > 0:
        found = 0, args[1][1] - (expr.dtype.kind != "f")
    # what does not fit goes round, to anywhere
    return found if limits[0] <= found[0] and found[1] <= limits[1] else limits


def _either(one: Range, other: Range) -> Range:
    return min(one[0], other[0]), max(one[1], other[1])


def _limits(dtype: np.dtype) -> Range:
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind in "iu":
        return float(np.iinfo(dtype).min), float(np.iinfo(dtype).max)
    return -inf, inf


def expressions_of(kernel: Nest | Contraction) -> list[Expr]:
    """Every expression of a kernel."""
    values = kernel.values if isinstance(kernel, Contraction) else []
    return walk([*roots_of(kernel.stores), *values])
