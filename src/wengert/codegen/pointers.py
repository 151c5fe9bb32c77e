"""Where a kernel finds the memory of its buffers: a table of pointers, and an arena."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from llvmlite import ir

from ..loops import Buffer, MemoryKind, Var
from .llvm_types import I8, I32, I64, i64
from .llvm_types import POINTER as PTR

if TYPE_CHECKING:
    from ..loops import Loop


def moved_bytes(builder: ir.IRBuilder, pointer: ir.Value, offset: int) -> ir.Value:
    """The address some bytes further on."""
    if not offset:
        return pointer
    return builder.gep(pointer, [i64(offset)], source_etype=I8)


def is_error(builder: ir.IRBuilder, code: ir.Value) -> ir.Value:
    """Whether a segment has ended with an error code."""
    return builder.icmp_signed("!=", code, ir.Constant(I32, 0))


# What a loop gives to the kernels inside: a counter, where the private memory of a turn lies, or
# where a value lies that it hands on from turn to turn.
Key: TypeAlias = "Var | Loop | Buffer"


@dataclass(frozen=True)
class Around:
    """What the functions of kernels know of the loops around them."""

    keys: tuple[Key, ...] = ()  # an argument for each
    slots: Mapping[Buffer, int] | None = None  # where buffers are found, if not as usual
    is_shared: bool = False  # by threads, so that nothing inside can be
    in_blocks: bool = False

    def arguments(self, watched: bool) -> list[ir.Type]:
        """Of the function of a kernel: buffers, arena, scratch, what loops give, and a watch."""
        kinds = [I64 if isinstance(key, Var) else PTR for key in self.keys]
        return [PTR, PTR, PTR, *kinds, *[PTR] * watched]


NO_LOOPS = Around()


class Pointers:
    """The data pointers of buffers, loaded once at the head of a kernel."""

    def __init__(
        self,
        builder: ir.IRBuilder,
        words: Sequence[ir.Value],
        slots: Mapping[Buffer, int],
        homes: Mapping[Buffer, Loop],
        around: Around,
        room: tuple[int, Buffer] | None = None,
    ):
        self.builder, self.around = builder, around
        self.buffers, self.arena, self.scratch = words[:3]
        self.given = dict(zip(around.keys, words[3:], strict=False))
        self.slots = slots if around.slots is None else around.slots
        self.homes = homes  # of buffers that are private to a loop
        self.room = room  # its slot, and the length that it grows with
        self.known: dict[Buffer, ir.Value] = {}

    @property
    def words(self) -> list[ir.Value]:
        """What the function of a kernel gets."""
        return [self.buffers, self.arena, self.scratch, *self.given.values()]

    @property
    def counters(self) -> dict[Var, ir.Value]:
        """The turns of all loops around."""
        return {key: value for key, value in self.given.items() if isinstance(key, Var)}

    def __call__(self, buffer: Buffer) -> ir.Value:
        """Where a buffer begins."""
        found = self.known.get(buffer)
        if found is None:
            found = self._load(buffer) if buffer.base is None else self._view(buffer)
            self.known[buffer] = found
        return found

    def _view(self, buffer: Buffer) -> ir.Value:
        assert buffer.base is not None
        pointer, size = self(buffer.base), buffer.dtype.itemsize
        pointer = moved_bytes(self.builder, pointer, buffer.start.constant * size)
        for var, step in buffer.start.terms:
            offset = self.builder.mul(self.given[var], i64(step * size))
            pointer = self.builder.gep(pointer, [offset], source_etype=I8)
        return pointer

    def _load(self, buffer: Buffer) -> ir.Value:
        if buffer.kind is MemoryKind.ROOM:
            from .contexts import in_room

            return in_room(self, buffer)
        number = self.slots.get(buffer)
        if number is None and buffer.kind is MemoryKind.CARRIED:
            return self.given[buffer]
        if number is None:
            assert buffer.kind is MemoryKind.ARENA, buffer
            home = self.homes.get(buffer)
            arena = self.arena if home is None else self.given[home]
            return moved_bytes(self.builder, arena, buffer.offset)
        # the length is no pointer: it is in the slot itself, but not in the table of a form
        in_slot = buffer.kind is MemoryKind.LENGTH and self.around.slots is None
        return self._slot(number) if in_slot else self.word(number)

    def _slot(self, number: int) -> ir.Value:
        return self.builder.gep(self.buffers, [i64(number)], source_etype=PTR)

    def word(self, number: int) -> ir.Value:
        """The pointer in a slot."""
        return self.builder.load(self._slot(number), typ=PTR)
