"""The instructions of a loop's body, in the order in which a processor can run them.

An elementary function is a chain of instructions that wait for each other. Meanwhile a processor
runs what it finds further on, but it looks only about a hundred waiting instructions ahead, which
is three or four such chains. So the chains of an iteration, and those of several iterations, are
interleaved here: an instruction comes when its operands are there, the start of the longest way to
the end first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from itertools import pairwise

from llvmlite import ir

from ..loops import Expr, Load, LoadAt, Store, takes_long
from ..machine import policy
from ..schedule.memory import root

# Cycles until a result is there; the others take as long as an addition. Only the order matters.
_LATENCY = {
    "fdiv": 16, "load": 6, "fcmp": 3, "icmp": 3,
    **dict.fromkeys("shl ashr lshr and or xor add sub select store".split(), 1),
    **dict.fromkeys("getelementptr bitcast fneg".split(), 0),
}  # fmt: skip
_ADDITION = 4
_AT_ONCE = 2  # vector instructions that begin in one cycle


def has_chains(stores: Iterable[Store], inner: Iterable[Expr]) -> bool:
    """Whether stores are of long functions, best computed side by side with those of other vectors.

    `inner` are the expressions of each vector. Nothing that is stored may be read in another place.
    """
    written, long = {root(store.buffer) for store in stores}, False
    for expr in inner:
        if isinstance(expr, (Load, LoadAt)) and root(expr.buffer) in written:
            return False
        long = long or takes_long(expr)
    return long


def align_spills(function: ir.Function, vector_bytes: int) -> None:
    """Keep what does not fit into registers on the stack so that no vector is in two cache lines.

    Where the stack of a process begins is chance: without this, so is up to a tenth of the time.
    """
    function.attributes.alignstack = vector_bytes
    function.attributes.add("noinline")  # llvmlite writes an alignment beside other attributes only


def as_written(function: ir.Function) -> None:
    """Have LLVM make code of a function as it is, without improving it: for what runs seldom."""
    for attribute in ("noinline", "optnone"):
        function.attributes.add(attribute)


def interleave(block: ir.Block, starts: Sequence[int]) -> None:
    """Reorder a block from the first of `starts` on: there begin iterations that are independent.

    Within an iteration, what reads or writes memory stays in order around everything that writes.
    """
    first = starts[0]
    body = block.instructions[first:]
    if len(body) > policy().nests.most_ordered or any(_effect(one) is None for one in body):
        return
    ends = [*[start - first for start in starts], len(body)]
    before = _predecessors(body, ends)
    block.instructions[first:] = [body[k] for k in _listed(body, before)]


def _effect(one: ir.Instruction) -> str | None:
    """What an instruction does to memory: "reads", "writes" or "none"; None: not known."""
    if one.opname != "call":
        return {"load": "reads", "store": "writes"}.get(one.opname, "none")
    name = one.callee.name
    if not name.startswith("llvm."):
        return None
    if name.startswith("llvm.masked"):
        return "reads" if name.startswith("llvm.masked.load") else None
    return "none"


def _predecessors(body: Sequence[ir.Instruction], ends: Sequence[int]) -> list[set[int]]:
    """For each instruction those that come before it, by their places."""
    places = {id(one): k for k, one in enumerate(body)}
    before = [{places[id(v)] for v in one.operands if id(v) in places} for one in body]
    for start, end in pairwise(ends):
        reads: list[int] = []  # since the last one that writes
        written: int | None = None
        for k in range(start, end):
            effect = _effect(body[k])
            if effect != "none" and written is not None:
                before[k].add(written)
            if effect == "reads":
                reads.append(k)
            elif effect == "writes":
                before[k].update(reads)
                reads, written = [], k
    return before


def _latency(one: ir.Instruction) -> int:
    if one.opname == "call" and one.callee.name.startswith(("llvm.fabs", "llvm.copysign")):
        return 1
    return _LATENCY.get(one.opname, _ADDITION)


def _listed(body: Sequence[ir.Instruction], before: Sequence[set[int]]) -> list[int]:
    """The places of all instructions in the order in which a simple processor begins them."""
    after: list[list[int]] = [[] for _ in body]
    for k, places in enumerate(before):
        for place in places:
            after[place].append(k)
    latency = [_latency(one) for one in body]
    way = [0] * len(body)  # cycles to the end
    for k in reversed(range(len(body))):
        way[k] = latency[k] + max((way[n] for n in after[k]), default=0)
    missing = [len(places) for places in before]
    there = [0] * len(body)  # when the operands are
    waiting = [(0, k) for k, count in enumerate(missing) if not count]
    ready: list[tuple[int, int]] = []
    order: list[int] = []
    cycle = 0
    while waiting or ready:
        begun = 0
        while begun < _AT_ONCE:
            while waiting and waiting[0][0] <= cycle:
                k = heapq.heappop(waiting)[1]
                heapq.heappush(ready, (-way[k], k))
            if not ready:
                break
            k = heapq.heappop(ready)[1]
            order.append(k)
            begun += latency[k] > 0
            for n in after[k]:
                missing[n] -= 1
                there[n] = max(there[n], cycle + latency[k])
                if not missing[n]:
                    heapq.heappush(waiting, (there[n], n))
        cycle += 1
    return order
