"""A training step in parts: the same bits on any number of ranks.

A batch is cut into `parts`, a power of two that depends on the batch alone. The gradient of each
part is computed by a program of its own, and the gradients are added up in a binary tree: of the
first two, of the next two, then of these sums, and so on. Which rank computes which part, and where
along the tree the sums go from one rank to another, changes nothing about the numbers. So a
training on 64 ranks gives the bits of one in a single process that goes through the same parts.

A rank has neighbouring parts, hence whole subtrees. With 2, 4, 8, ... ranks each has one, and the
rest of the tree is what `distributed.all_reduce` does. With other numbers of ranks all subtrees are
gathered, and each rank adds them up.

All calls of a step, one for each part, for each sum of two, for the sum over ranks and for the
update, are made by one native loop (`jit.run_in_turns`), MPI's included.

What a part means: the loss is the mean over the part, and the parts are weighted with their
examples. Batch normalisation therefore has the statistics of a part; its running ones are the mean
over the parts. Each part has a stream of random numbers of its own, for dropout.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import distributed, job, nn, tree
from ..errors import OptionError, explain
from ..jit import CallSeries, Repeated, jit, run_in_turns
from ..optim import clip_grad_norm_
from ..tensor import Aside, Tensor, no_grad, replace
from .shards import Shards
from .source import Source

# Parts of so many examples are worth a program of their own; there may be `_FEW` smaller ones.
_EXAMPLES, _FEWEST_EXAMPLES, _FEW = 64, 16, 16
# Gradients begin at multiples of so many bytes.
_ALIGNED = 64


def parts_of(batch_size: int) -> int:
    """Into how many parts a batch is cut unless one says so.

    >>> [parts_of(n) for n in (10, 100, 256, 1600, 10_000)]
    [1, 4, 16, 16, 128]
    """
    most = max(min(_FEW, batch_size // _FEWEST_EXAMPLES), batch_size // _EXAMPLES, 1)
    return 1 << (most.bit_length() - 1)


class Subtree(NamedTuple):
    """Neighbouring parts that are summed up by themselves: so many from one on."""

    start: int
    size: int

    @property
    def halves(self) -> tuple[Subtree, Subtree]:
        """The two that it is the sum of."""
        half = self.size // 2
        return Subtree(self.start, half), Subtree(self.start + half, half)


class Shares:
    """Which rank has which parts of a batch.

    >>> Shares(8, 3).subtrees(1)
    [Subtree(start=2, size=2), Subtree(start=4, size=1)]
    """

    def __init__(self, parts: int, ranks: int):
        self.parts, self.ranks = parts, ranks

    def bounds(self, rank: int) -> tuple[int, int]:
        """The first part of a rank and the one after its last."""
        return rank * self.parts // self.ranks, (rank + 1) * self.parts // self.ranks

    def subtrees(self, rank: int) -> list[Subtree]:
        """The largest subtrees that a rank has all parts of."""
        start, end = self.bounds(rank)
        found = []
        while start < end:
            size = start & -start or self.parts
            while size > end - start:
                size //= 2
            found.append(Subtree(start, size))
            start += size
        return found

    @property
    def alike(self) -> bool:
        """Whether every rank has one subtree, all of one size: then ranks are a tree as well."""
        is_power = self.ranks & (self.ranks - 1) == 0
        return is_power and self.ranks <= self.parts

    @property
    def most(self) -> int:
        """The number of subtrees of the rank that has most."""
        return max(len(self.subtrees(rank)) for rank in range(self.ranks))


class Layout:
    """Where the results of a part lie: arrays side by side in one long one for each of `groups`.

    `sum` of a dtype and `max` are combined over all parts, and so are the measured `values`.
    """

    def __init__(self, structure: tree.Structure, types: Sequence[tuple[np.dtype, Any]]):
        self.structure = structure
        names = tree.unflatten(structure, range(len(types)))
        self.places: list[tuple[str, int, tuple[int, ...]]] = [("", 0, ())] * len(types)
        self.lengths: dict[str, int] = {}
        self.dtypes: dict[str, np.dtype] = {}
        for kind, numbers in names.items():
            for number in tree.leaves(numbers):
                dtype, shape = types[number]
                group = f"{kind} {dtype}" if kind == "sum" else kind
                start = self.lengths.get(group, 0)
                self.places[number] = (group, start, shape)
                step = max(_ALIGNED // dtype.itemsize, 1)
                size = int(np.prod(shape, dtype=int))
                self.lengths[group] = start + -(-size // step) * step
                self.dtypes[group] = dtype
        self.rest = {group for group in self.lengths if group != "values"}

    def memory(self, start: int = 0) -> dict[str, np.ndarray]:
        """Room for what a part gives, full of a number."""
        return {g: np.full(n, start, self.dtypes[g]) for g, n in self.lengths.items()}

    def taken_apart(self, groups: dict[str, Any], first_axes: int = 0) -> Any:
        """The arrays in the long ones, which may be traced, as a part has given them."""
        leaves: list[Any] = []
        for group, start, shape in self.places:
            if group not in groups:
                leaves.append(None)
                continue
            size = int(np.prod(shape, dtype=int))
            piece = groups[group][..., start : start + size]
            leaves.append(piece.reshape((*piece.shape[:first_axes], *shape)))
        return tree.unflatten(self.structure, leaves)


def _everywhere(memory: dict[str, np.ndarray], turns: int) -> dict[str, np.ndarray]:
    """The same memory in every turn."""
    shape = np.lib.stride_tricks.as_strided
    return {g: shape(a, (turns, *a.shape), (0, *a.strides)) for g, a in memory.items()}


def _combined(group: str, one: Any, other: Any) -> Any:
    return np.maximum(one, other) if group == "max" else one + other


class Parted:
    """Makes step after step in parts; stands where `Repeated` stands for whole batches."""

    def __init__(self, steps: Any, source: Source, parts: int, shards: Shards | None = None):
        self.steps, self.source, self.parts, self.shards = steps, source, parts, shards
        self.world = job.world()
        self._buffers = list(steps.model.buffers())
        self._part = Repeated(jit(self._gradients))
        self._join = Repeated(jit(self._joined))
        self._layout: Layout | None = None
        self._plans: dict[int, _Plan] = {}
        self._clip = Repeated(jit(self._clipped))
        self._finish = Repeated(jit(self._finished))

    # ------------------------------------------------------------ what is compiled

    def _gradients(self, arrays: Any, weight: Any, number: Any, rows: Any) -> dict[str, Any]:
        """Gradients, new buffers and measured values of a part, each times its weight."""
        steps, optimizer = self.steps, self.steps.optimizer
        with nn.fork_rng(number), Aside(self._buffers) as aside:
            x, y = self.source.batch(arrays, rows)
            optimizer.zero_grad()
            output = steps.model(x)
            value = steps.value(output, y)
            (value * weight.astype(value.dtype)).backward()
            parameters = enumerate(steps.parameters())
            sums = {f"gradient {n}": p.grad for n, p in parameters if p.grad is not None}
            measured = steps.measured(value, output, y)
            optimizer.zero_grad()
            counts = {}
            written = {id(one) for one in aside.written()}
            for n, buffer in enumerate(self._buffers):
                if id(buffer) in written and buffer.dtype.kind in "fc":
                    sums[f"buffer {n}"] = buffer * weight.astype(buffer.dtype)
                elif id(buffer) in written:
                    # a value of its own: the tensor itself is about to change back
                    counts[f"buffer {n}"] = buffer.astype(np.int64) + 0
        values = {name: one * weight for name, one in measured.items()}
        return {"sum": sums, "max": counts, "values": values}

    def _joined(self, pair: Any) -> dict[str, Any]:
        """The sum of two subtrees."""
        one, other = pair
        return {group: _combined(group, one[group], other[group]) for group in one}

    def _finished(self, moving: Any) -> dict[str, Any]:
        """The update, from the sums over all parts."""
        groups, *numbers = moving
        assert self._layout is not None
        found = self._layout.taken_apart(groups)
        sums, counts = found["sum"], found["max"]
        self._set_gradients(sums)
        self._update(numbers)
        for n, buffer in enumerate(self._buffers):
            new = sums.get(f"buffer {n}", counts.get(f"buffer {n}"))
            if new is not None:
                replace(buffer, Tensor(new))
        nn.next_key()
        return found["values"]  # type: ignore[no-any-return]

    def _set_gradients(self, sums: dict[str, Any]) -> None:
        for n, p in enumerate(self.steps.parameters()):
            gradient = sums.get(f"gradient {n}")
            p.grad = None if gradient is None else Tensor(gradient)

    def _clipped(self, groups: dict[str, Any]) -> dict[str, Any]:
        """The sums with gradients of a bounded norm.

        A program of its own: what else is in a program may change the order of the norm's sum.
        """
        assert self._layout is not None
        sums = self._layout.taken_apart(groups)["sum"]
        self._set_gradients(sums)
        parameters = self.steps.parameters()
        clip_grad_norm_(parameters, self.steps.clip_norm)
        found = {f"gradient {n}": p.grad for n, p in enumerate(parameters) if p.grad is not None}
        self.steps.optimizer.zero_grad()
        return {**sums, **found}

    def _update(self, numbers: list[Any]) -> None:
        """Update all parameters: here, or where their state is."""
        steps, shards = self.steps, self.shards
        for n, p in enumerate(steps.parameters()):
            if shards is not None and not shards.owns(n):
                p.grad = None
        with steps.options(numbers):
            steps.optimizer.step()
        steps.optimizer.zero_grad()
        if shards is not None:
            with no_grad():
                for p, owner in zip(steps.parameters(), shards.owners, strict=True):
                    replace(p, distributed.broadcast(p, owner))

    # ------------------------------------------------------------ as `Repeated` does it

    def prepare(self, arrays: Any, moving: Any) -> Any:
        """The program of the update, compiled now with all that comes before it; nothing runs."""
        plan = self._plan(arrays, moving[0])
        return self._finish.prepare((plan.final, *moving[1:]))

    def programs(self) -> list[Any]:
        """All programs so far that read or write state."""
        return [*self._part.programs(), *self._finish.programs()]

    def run(
        self, fixed: tuple[Any], rows: Any, out: Any, first: int = 0, last: int | None = None
    ) -> None:
        """Make the steps from `first` to `last`; `out` gets what all ranks together measured."""
        order, *numbers = rows
        last = len(order) if last is None else last
        if first == last:
            return
        plan = self._plan(fixed[0], order[0])
        run_in_turns(plan.calls(fixed[0], order, numbers, out), first, last)
        if plan.shares.alike and plan.shares.ranks > 1:
            arrays = tree.leaves(out)
            together = distributed.all_reduce(np.stack([a[first:last] for a in arrays]))
            for target, row in zip(arrays, together, strict=True):
                target[first:last] = row

    def _plan(self, arrays: Any, rows: np.ndarray) -> _Plan:
        size = len(rows)
        if size not in self._plans:
            # the last batch of an epoch may be too small for all of them
            parts = min(self.parts, 1 << (size.bit_length() - 1))
            plan = _Plan(self, size, Shares(parts, self.world.size))
            if self._layout is None:
                first = plan.part(0)
                program = self._part.prepare(arrays, *first, rows[plan.rows(0)])
                self._check(program)
                self._layout = Layout(program.structure, program.result_types())
            plan.lay_out(self._layout)
            self._plans[size] = plan
        return self._plans[size]

    def _check(self, program: Any) -> None:
        """What one part writes, another would read, if they are on one rank."""
        if any(state.written for state in program.state):
            raise OptionError(
                explain(
                    "fit",
                    "the model or the loss writes to a tensor that is no buffer of the model, so "
                    "that a batch cannot be cut into parts",
                    "Make it one: self.register_buffer(name, value).",
                )
            )


class _Plan:
    """The calls of a step for batches of one size."""

    def __init__(self, parted: Parted, size: int, shares: Shares):
        self.parted, self.size, self.shares = parted, size, shares
        self.own = shares.subtrees(parted.world.rank)

    def rows(self, part: int) -> slice:
        """The places of a part in the batch."""
        parts = self.shares.parts
        return slice(part * self.size // parts, (part + 1) * self.size // parts)

    def part(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """The weight of a part, and its number."""
        rows = self.rows(number)
        return np.array((rows.stop - rows.start) / self.size), np.array(number, np.int64)

    def lay_out(self, layout: Layout) -> None:
        """Make room for the results of the parts and for their sums."""
        self.layout = layout
        self.free: list[dict[str, np.ndarray]] = []
        self.sequence: list[tuple[Any, ...]] = []
        self.roots = [self._room(subtree) for subtree in self.own]
        # a rank with fewer subtrees than others gives what changes nothing
        while len(self.roots) < self.shares.most:
            self.roots.append(layout.memory())
            self.roots[-1].get("max", np.zeros(0, np.int64))[:] = np.iinfo(np.int64).min
        self.total = self.roots[0]
        if self.shares.ranks > 1:
            self.reduce = Repeated(jit(self._reduced))
            self.total = layout.memory()
            if self.shares.alike:
                self.total["values"] = self.roots[0]["values"]
        self.final = self.total
        if self.parted.steps.clip_norm is not None:
            room = layout.memory()
            self.final = {g: a if g.startswith("sum") else self.total[g] for g, a in room.items()}

    def _room(self, subtree: Subtree) -> dict[str, np.ndarray]:
        """Where a subtree's sum is; notes the calls that put it there."""
        if subtree.size == 1:
            room = self._take_room()
            self.sequence.append((subtree.start, room))
            return room
        pair = [self._room(half) for half in subtree.halves]
        room = self._take_room()
        self.sequence.append((tuple(pair), room))
        self.free += pair
        return room

    def _take_room(self) -> dict[str, np.ndarray]:
        return self.free.pop() if self.free else self.layout.memory()

    def _reduced(self, roots: Any) -> dict[str, Any]:
        """The sums over all ranks; of measured values only where ranks are no tree themselves."""
        if self.shares.alike:
            return {g: _over_ranks(g, roots[0][g]) for g in roots[0] if g != "values"}
        found = {}
        for group in roots[0]:
            if group == "max":
                own = roots[0][group]
                for other in roots[1:]:
                    own = np.maximum(own, other[group])
                found[group] = _over_ranks(group, own)
            else:
                gathered = distributed.all_gather(np.stack([root[group] for root in roots]))
                found[group] = self._summed(gathered, Subtree(0, self.shares.parts))
        return found

    def _summed(self, gathered: Any, subtree: Subtree) -> Any:
        """The sum of a subtree from those of all ranks, along the same tree."""
        for rank in range(self.shares.ranks):
            known = self.shares.subtrees(rank)
            if subtree in known:
                return gathered[rank, known.index(subtree)]
        one, other = subtree.halves
        return self._summed(gathered, one) + self._summed(gathered, other)

    def calls(
        self, arrays: Any, order: np.ndarray, numbers: list[Any], out: Any
    ) -> list[CallSeries]:
        """The calls of every turn."""
        return list(self._calls(arrays, order, numbers, out))

    def _calls(self, arrays: Any, order: Any, numbers: list[Any], out: Any) -> Iterator[CallSeries]:
        parted, turns = self.parted, len(order)
        for what, room in self.sequence:
            target = _everywhere(room, turns)
            if isinstance(what, int):
                rows, results = order[:, self.rows(what)], self.layout.taken_apart(target, 1)
                yield CallSeries(parted._part, (arrays, *self.part(what)), rows, results)
            else:
                pair = tuple(_everywhere(one, turns) for one in what)
                yield CallSeries(parted._join, (), pair, target)
        total = _everywhere(self.total, turns)
        if self.shares.ranks > 1:
            roots = [_everywhere(root, turns) for root in self.roots]
            wanted = total
            if self.shares.alike:
                wanted = {group: total[group] for group in total if group != "values"}
            yield CallSeries(self.reduce, (), roots, wanted)
        final = _everywhere(self.final, turns)
        if self.final is not self.total:
            sums = [{g: a for g, a in one.items() if g.startswith("sum")} for one in (total, final)]
            clipped = self.layout.taken_apart(sums[1], 1)["sum"]
            yield CallSeries(parted._clip, (), sums[0], clipped)
        yield CallSeries(parted._finish, (), (final, *numbers), out)


def _over_ranks(group: str, own: Any) -> Any:
    return distributed.all_reduce(own, "max" if group == "max" else "sum")
