"""What the processes of a job do together, as native functions on plain memory.

They call MPI's functions by name and know who they are from a table of numbers (`Fact`), so one
piece of code serves every process. All errors end the job: the communicator says so. How many of
them were begun is counted where other processes can read it (`leaving.py`).

A sum is made in an order that depends on the number of processes alone, never on sizes, timing or
the library's choice. Process r first adds what r ^ 1 has, then what r ^ 2 has, and so on: a binary
tree over the processes. Short arrays are exchanged whole, so that there are log2(n) messages. Long
ones are halved in each step, which adds the same numbers in the same order, and then gathered:
twice the messages, and in all at most two arrays' worth of bytes, however many processes there are.
Where their number is no power of two, those beyond first give what they have to others, and wait.

Whoever waits looks again and again whether the message is there, but leaves the core to others: its
other hardware thread may be just the process that all wait for. So after some quick looks it pauses
between two of them, and yields when that takes long, or where processes are more than cores.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from llvmlite import ir

from ..ops.collectives import ELEMENTS, OPERATIONS, PREFIX
from .counted import carried_loop
from .llvm_types import I8, I32, I64, POINTER, declare, i32, i64
from .pool import relaxing
from .target import Target

TABLE = PREFIX + "table"
COUNT = PREFIX + "count"
# From so many bytes on arrays are halved: where the time for the bytes exceeds that for messages.
LONG = 1 << 14
_STATUS_BYTES = 64  # at least those of an MPI_Status
# Quick looks for a message, some microseconds, before pauses; a microsecond or two of these; looks,
# some milliseconds, after which the core is left to anybody else.
_QUICK_LOOKS, PAUSES, _MOST_LOOKS = 64, 32, 1 << 12
_MOST_LEVELS = 32


class Fact(IntEnum):
    """The table: whole numbers of 64 bits."""

    RANK = 0
    SIZE = 1
    CORE = 2  # the largest power of two that is no more than the size
    COMMUNICATOR = 3
    PAUSES = 4  # between two looks for a message; 0: yield, as there are too few cores
    ELEMENTS = 5  # of each kind of element its bytes and what MPI calls it, then the operations


FUNCTIONS = ("Allgather", "Alltoall", "Bcast", "Irecv", "Isend", "Reduce_local", "Testall")


def collectives_module(target: Target, handle_bytes: int) -> ir.Module:
    """All functions; MPI's handles are numbers or addresses of so many bytes."""
    module = ir.Module("wengert_collectives")
    module.triple = target.triple
    table = ir.GlobalVariable(module, ir.ArrayType(I64, _table_length()), TABLE)
    count = ir.GlobalVariable(module, I64, COUNT)
    handle = ir.IntType(8 * handle_bytes)
    for name, emit in _EMITTED.items():
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), _SIGNATURE), PREFIX + name)
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        builder.store(builder.add(builder.load(count, typ=I64), i64(1)), count)
        emit(_Writer(builder, table, handle, target, list(function.args)))
        builder.ret_void()
    return module


def _table_length() -> int:
    return Fact.ELEMENTS + 2 * len(ELEMENTS) + len(OPERATIONS)


# Every function: from where, to where, work, the number of elements, their kind, and one number
# more: how to combine, or whose turn it is.
_SIGNATURE = [POINTER, POINTER, POINTER, I64, I64, I64]


class _Writer:
    """One function, while it is written: its arguments, and calls of MPI."""

    def __init__(
        self,
        builder: ir.IRBuilder,
        table: ir.Value,
        handle: ir.Type,
        target: Target,
        arguments: list[ir.Value],
    ):
        self.b, self.table, self.handle, self.target = builder, table, handle, target
        self.given, self.out, self.work, self.count, self.kind, self.extra = arguments
        self.rank, self.size, self.core = map(self.fact, (Fact.RANK, Fact.SIZE, Fact.CORE))
        first = self.b.add(i64(Fact.ELEMENTS), self.b.mul(self.kind, i64(2)))
        self.bytes, element = self.fact(first), self.fact(self.b.add(first, i64(1)))
        self.element = self._as_handle(element)
        self.communicator = self._as_handle(self.fact(Fact.COMMUNICATOR))
        # of the messages under way, two at most
        self.requests = [self.b.alloca(ir.ArrayType(handle, 2))]
        self.requests.append(self.b.gep(self.requests[0], [i64(1)], source_etype=handle))
        self.statuses = self.b.alloca(I8, size=i64(2 * _STATUS_BYTES))
        self.statuses.align = 16
        self.arrived = self.b.alloca(I32)

    def fact(self, number: int | ir.Value) -> ir.Value:
        """A number of the table."""
        at = i64(number) if isinstance(number, int) else number
        return self.b.load(self.b.gep(self.table, [at], source_etype=I64), typ=I64)

    def _as_handle(self, number: ir.Value) -> ir.Value:
        return number if self.handle == I64 else self.b.trunc(number, self.handle)

    def call(self, name: str, *arguments: ir.Value | int) -> None:
        """Call a function of MPI; whole numbers that are no handles have 32 bits there."""
        values = [i32(one) if isinstance(one, int) else one for one in arguments]
        signature = ir.FunctionType(I32, [value.type for value in values])
        self.b.call(declare(self.b.module, f"MPI_{name}", signature), values)

    def narrow(self, number: ir.Value) -> ir.Value:
        """A count or a rank as MPI takes it."""
        return self.b.trunc(number, I32)

    def at(self, memory: ir.Value, element: ir.Value) -> ir.Value:
        """The address of an element."""
        return self.b.gep(memory, [self.b.mul(element, self.bytes)], source_etype=I8)

    def copy(self, target: ir.Value, source: ir.Value, count: ir.Value) -> None:
        """Copy elements; they may be there already."""
        signature = ir.FunctionType(POINTER, [POINTER, POINTER, I64])
        function = declare(self.b.module, "memmove", signature)
        self.b.call(function, [target, source, self.b.mul(count, self.bytes)])

    def add(self, source: ir.Value, target: ir.Value, count: ir.Value) -> None:
        """target = source + target, or whatever combines them."""
        at = self.b.add(i64(Fact.ELEMENTS + 2 * len(ELEMENTS)), self.extra)
        operation = self._as_handle(self.fact(at))
        self.call("Reduce_local", source, target, self.narrow(count), self.element, operation)

    def exchange(
        self,
        partner: ir.Value,
        given: tuple[ir.Value, ir.Value],
        wanted: tuple[ir.Value, ir.Value],
    ) -> None:
        """Send and receive at once; (memory, count) each."""
        self._begin("Irecv", partner, *wanted, self.requests[0])
        self._begin("Isend", partner, *given, self.requests[1])
        self._wait(2)

    def send(self, target: ir.Value) -> None:
        """Give the result so far to another."""
        self._begin("Isend", target, self.out, self.count, self.requests[0])
        self._wait(1)

    def receive(self, memory: ir.Value, source: ir.Value) -> None:
        """Get what another has."""
        self._begin("Irecv", source, memory, self.count, self.requests[0])
        self._wait(1)

    def _begin(
        self, name: str, other: ir.Value, memory: ir.Value, count: ir.Value, request: ir.Value
    ) -> None:
        self.call(
            name, memory, self.narrow(count), self.element, self.narrow(other), 0,
            self.communicator, request,
        )  # fmt: skip

    def _wait(self, number: int) -> None:
        """Until the first messages have arrived."""
        b = self.b
        pauses = self.fact(Fact.PAUSES)
        has_none = b.icmp_signed("==", pauses, i64(0))

        def look(now: list[ir.Value]) -> tuple[list[ir.Value], ir.Value]:
            (looks,) = now
            self.call("Testall", number, self.requests[0], self.arrived, self.statuses)
            waits = b.icmp_signed("==", b.load(self.arrived, typ=I32), i32(0))
            is_long, is_longest = (
                b.icmp_signed(">=", looks, i64(most)) for most in (_QUICK_LOOKS, _MOST_LOOKS)
            )
            yields = b.or_(has_none, is_longest)
            with b.if_then(b.and_(waits, b.or_(yields, is_long))), b.if_else(yields) as (one, two):
                with one:
                    b.call(declare(b.module, "sched_yield", ir.FunctionType(I32, [])), [])
                with two:
                    self._pause(pauses)
            return [b.add(looks, i64(1))], waits

        carried_loop(b, [i64(0)], look)

    def _pause(self, times: ir.Value) -> None:
        def turn(now: list[ir.Value]) -> tuple[list[ir.Value], ir.Value]:
            name, arguments = relaxing(self.target)
            values = [i32(one) for one in arguments]
            signature = ir.FunctionType(ir.VoidType(), [value.type for value in values])
            self.b.call(declare(self.b.module, name, signature), values)
            left = self.b.sub(now[0], i64(1))
            return [left], self.b.icmp_signed(">", left, i64(0))

        carried_loop(self.b, [times], turn)


def _all_reduce(w: _Writer) -> None:
    """All get the sum, or another combination, of what all have."""
    b = w.b
    w.copy(w.out, w.given, w.count)
    beyond = b.icmp_signed(">=", w.rank, w.core)
    with b.if_else(beyond) as (then, otherwise):
        with then:
            twin = b.sub(w.rank, w.core)
            w.send(twin)
            w.receive(w.out, twin)
        with otherwise:
            twin = b.add(w.rank, w.core)
            has_twin = b.icmp_signed("<", twin, w.size)
            with b.if_then(has_twin):
                w.receive(w.work, twin)
                w.add(w.work, w.out, w.count)
            is_long = b.icmp_signed(">=", b.mul(w.count, w.bytes), i64(LONG))
            with b.if_else(is_long) as (halved, whole):
                with halved:
                    _by_halves(w)
                with whole:
                    _in_whole(w)
            with b.if_then(has_twin):
                w.send(twin)


def _in_whole(w: _Writer) -> None:
    """Short arrays: log2(n) messages."""
    b = w.b

    def turn(now: list[ir.Value]) -> tuple[list[ir.Value], ir.Value]:
        (distance,) = now
        w.exchange(b.xor(w.rank, distance), (w.out, w.count), (w.work, w.count))
        w.add(w.work, w.out, w.count)
        following = b.shl(distance, i64(1))
        return [following], b.icmp_signed("<", following, w.core)

    carried_loop(b, [i64(1)], turn, enters=b.icmp_signed(">", w.core, i64(1)))


def _by_halves(w: _Writer) -> None:
    """Long arrays: halves of halves are added up, and then gathered the same way back."""
    b = w.b
    starts, counts = (b.alloca(I64, size=i64(_MOST_LEVELS)) for _ in range(2))

    def halves(distance: ir.Value, start: ir.Value, count: ir.Value) -> tuple[ir.Value, ...]:
        """Of a range, the half that is kept here and the one that the partner keeps."""
        low = b.lshr(count, i64(1))
        high, middle = b.sub(count, low), b.add(start, low)
        is_upper = b.icmp_signed("!=", b.and_(w.rank, distance), i64(0))
        pairs = ((middle, start), (high, low), (start, middle), (low, high))
        return tuple(b.select(is_upper, *pair) for pair in pairs)

    def down(now: list[ir.Value]) -> tuple[list[ir.Value], ir.Value]:
        distance, level, start, count = now
        b.store(start, b.gep(starts, [level], source_etype=I64))
        b.store(count, b.gep(counts, [level], source_etype=I64))
        own, own_count, other, other_count = halves(distance, start, count)
        partner = b.xor(w.rank, distance)
        w.exchange(partner, (w.at(w.out, other), other_count), (w.work, own_count))
        w.add(w.work, w.at(w.out, own), own_count)
        following = b.shl(distance, i64(1))
        more = b.icmp_signed("<", following, w.core)
        return [following, b.add(level, i64(1)), own, own_count], more

    def up(now: list[ir.Value]) -> tuple[list[ir.Value], ir.Value]:
        distance, level = now
        start, count = (
            b.load(b.gep(memory, [level], source_etype=I64), typ=I64) for memory in (starts, counts)
        )
        own, own_count, other, other_count = halves(distance, start, count)
        mine, theirs = (w.at(w.out, own), own_count), (w.at(w.out, other), other_count)
        w.exchange(b.xor(w.rank, distance), mine, theirs)
        following = b.lshr(distance, i64(1))
        more = b.icmp_signed(">", following, i64(0))
        return [following, b.sub(level, i64(1))], more

    with b.if_then(b.icmp_signed(">", w.core, i64(1))):
        first = [i64(1), i64(0), i64(0), w.count]
        distance, level, _, _ = carried_loop(b, first, down)
        carried_loop(b, [b.lshr(distance, i64(1)), b.sub(level, i64(1))], up)


def _reduce(w: _Writer) -> None:
    """One of them gets the combination, all others zeros."""
    b = w.b
    root, w.extra = w.extra, i64(list(OPERATIONS).index("sum"))
    _all_reduce(w)
    with b.if_then(b.icmp_signed("!=", w.rank, root)):
        signature = ir.FunctionType(POINTER, [POINTER, I32, I64])
        function = declare(b.module, "memset", signature)
        b.call(function, [w.out, i32(0), b.mul(w.count, w.bytes)])


def _all_gather(w: _Writer) -> None:
    """All get what each has, in the order of ranks."""
    count = w.narrow(w.count)
    w.call("Allgather", w.given, count, w.element, w.out, count, w.element, w.communicator)


def _broadcast(w: _Writer) -> None:
    """All get what one has."""
    w.copy(w.out, w.given, w.count)
    w.call("Bcast", w.out, w.narrow(w.count), w.element, w.narrow(w.extra), w.communicator)


def _reduce_scatter(w: _Writer) -> None:
    """Each gets the combination of the parts that all have for it, of `count` elements."""
    b, count = w.b, w.narrow(w.count)
    w.call("Alltoall", w.given, count, w.element, w.work, count, w.element, w.communicator)

    def turn(now: list[ir.Value]) -> tuple[list[ir.Value], ir.Value]:
        (distance,) = now
        step = b.shl(distance, i64(1))

        def pair(now: list[ir.Value]) -> tuple[list[ir.Value], ir.Value]:
            (left,) = now
            places = (left, b.add(left, distance))
            target, source = (w.at(w.work, b.mul(place, w.count)) for place in places)
            w.add(source, target, w.count)
            following = b.add(left, step)
            return [following], b.icmp_signed("<", b.add(following, distance), w.size)

        carried_loop(b, [i64(0)], pair)
        return [step], b.icmp_signed("<", step, w.size)

    carried_loop(b, [i64(1)], turn, enters=b.icmp_signed(">", w.size, i64(1)))
    w.copy(w.out, w.work, w.count)


_EMITTED: dict[str, Callable[[_Writer], None]] = {
    "all_gather": _all_gather,
    "all_reduce": _all_reduce,
    "broadcast": _broadcast,
    "reduce": _reduce,
    "reduce_scatter": _reduce_scatter,
}
NAMES = tuple(_EMITTED)
