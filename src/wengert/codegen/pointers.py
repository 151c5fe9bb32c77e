"""Where a kernel finds the memory of its buffers: a table of pointers, and an arena.

Tables of pointers are also what tasks on other threads get to know of the kernel they belong to.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from ..loops import Buffer, MemoryKind, Var
from ..runtime.limits import ROOM_GRAIN
from ..schedule.memory import ALIGNMENT
from .llvm_types import I8, I32, I64, i64
from .llvm_types import POINTER as PTR


def rounded(size: int) -> int:
    """So many bytes that what follows is aligned."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def moved_bytes(builder: ir.IRBuilder, pointer: ir.Value, offset: int) -> ir.Value:
    """The address some bytes further on."""
    if not offset:
        return pointer
    return builder.gep(pointer, [i64(offset)], source_etype=I8)


def table_of(builder: ir.IRBuilder, words: Sequence[ir.Value]) -> ir.Value:
    """An array of pointers on the stack."""
    table = builder.alloca(PTR, size=i64(len(words)))
    for number, word in enumerate(words):
        place = builder.gep(table, [i64(number)], source_etype=PTR)
        builder.store(word, place)
    return table


def words_of(builder: ir.IRBuilder, context: ir.Value, count: int) -> list[ir.Value]:
    """The pointers that a context holds."""
    places = [
        builder.gep(context, [i64(k)], source_etype=PTR) if k else context for k in range(count)
    ]
    return [builder.load(place, typ=PTR) for place in places]


def room_length(builder: ir.IRBuilder, length: ir.Value) -> ir.Value:
    """The length for which the room is laid out."""
    return builder.and_(builder.add(length, i64(ROOM_GRAIN - 1)), i64(-ROOM_GRAIN))


def is_error(builder: ir.IRBuilder, code: ir.Value) -> ir.Value:
    """Whether a segment has ended with an error code."""
    return builder.icmp_signed("!=", code, ir.Constant(I32, 0))


class Pointers:
    """The data pointers of buffers, loaded once at the head of a kernel."""

    def __init__(
        self,
        builder: ir.IRBuilder,
        args: Sequence[ir.Value],
        slots: dict[int, int],
        local: ir.Value | None = None,
        counters: dict[Var, ir.Value] | None = None,
        room: tuple[int, Buffer] | None = None,
    ):
        self.builder = builder
        self.buffers, self.arena = args
        self.slots = slots
        self.room = room  # its slot, and the length that it grows with
        self.own_table = True  # whether `buffers` is the table of the whole program
        self.local = local  # the arena of the worker, in a batch loop
        self.counters = counters or {}
        self.known: dict[int, ir.Value] = {}

    def __call__(self, buffer: Buffer) -> ir.Value:
        """Where a buffer begins."""
        found = self.known.get(id(buffer))
        if found is None:
            found = self._load(buffer) if buffer.base is None else self._view(buffer)
            self.known[id(buffer)] = found
        return found

    def _view(self, buffer: Buffer) -> ir.Value:
        assert buffer.base is not None
        pointer, size = self(buffer.base), buffer.dtype.itemsize
        pointer = moved_bytes(self.builder, pointer, buffer.start.constant * size)
        for var, step in buffer.start.terms:
            offset = self.builder.mul(self.counters[var], i64(step * size))
            pointer = self.builder.gep(pointer, [offset], source_etype=I8)
        return pointer

    def _load(self, buffer: Buffer) -> ir.Value:
        if buffer.kind is MemoryKind.ROOM:
            return self._in_room(buffer)
        number = self.slots.get(id(buffer))
        if number is None:
            assert buffer.kind.is_temporary
            arena = self.arena if buffer.kind is MemoryKind.ARENA else self.local
            return moved_bytes(self.builder, arena, buffer.offset)
        # the length is no pointer: it is in the slot itself, but not in the table of a form
        in_slot = buffer.kind is MemoryKind.LENGTH and self.own_table
        return self._slot(number) if in_slot else self.word(number)

    def _slot(self, number: int) -> ir.Value:
        return self.builder.gep(self.buffers, [i64(number)], source_etype=PTR)

    def word(self, number: int) -> ir.Value:
        """The pointer in a slot."""
        return self.builder.load(self._slot(number), typ=PTR)

    def _in_room(self, buffer: Buffer) -> ir.Value:
        assert self.room is not None
        b, (slot, length) = self.builder, self.room
        units = room_length(b, b.load(self(length), typ=I64))
        place = b.gep(self.word(slot), [i64(1)], source_etype=I64)  # behind its capacity
        start = b.load(place, typ=PTR)
        return b.gep(start, [b.mul(units, i64(buffer.offset))], source_etype=I8)
