"""What loops and tasks give to the kernels inside of them.

Tables of pointers are what tasks on other threads get to know of the kernel they belong to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llvmlite import ir

from ..loops import Buffer
from ..runtime.limits import ROOM_GRAIN
from ..schedule.memory import ALIGNMENT
from .llvm_types import I8, I64, i64
from .llvm_types import POINTER as PTR
from .pointers import Around, Key, Pointers


def rounded(size: int) -> int:
    """So many bytes that what follows is aligned."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def table_of(builder: ir.IRBuilder, words: Sequence[ir.Value]) -> ir.Value:
    """An array of pointers and numbers on the stack."""
    table = builder.alloca(PTR, size=i64(len(words)))
    for number, word in enumerate(words):
        place = builder.gep(table, [i64(number)], source_etype=PTR)
        builder.store(word, place)
    return table


def words_of(builder: ir.IRBuilder, context: ir.Value, kinds: Sequence[ir.Type]) -> list[ir.Value]:
    """The pointers and numbers that a context holds."""
    places = [
        builder.gep(context, [i64(k)], source_etype=PTR) if k else context
        for k in range(len(kinds))
    ]
    return [builder.load(place, typ=kind) for place, kind in zip(places, kinds, strict=True)]


def within(
    pointers: Pointers,
    given: Mapping[Key, ir.Value],
    scratch: ir.Value | None = None,
    shared: bool = False,
    in_blocks: bool = False,
) -> Pointers:
    """The same inside of one more loop, which gives these."""
    around = Around(
        (*pointers.around.keys, *given),
        pointers.around.slots,
        shared or pointers.around.is_shared,
        in_blocks or pointers.around.in_blocks,
    )
    words = [pointers.buffers, pointers.arena, pointers.scratch if scratch is None else scratch]
    words += [*pointers.given.values(), *given.values()]
    found = Pointers(pointers.builder, words, pointers.slots, pointers.homes, around, pointers.room)
    found.known = dict(pointers.known)
    return found


def room_length(builder: ir.IRBuilder, length: ir.Value) -> ir.Value:
    """The length for which the room is laid out."""
    return builder.and_(builder.add(length, i64(ROOM_GRAIN - 1)), i64(-ROOM_GRAIN))


def in_room(pointers: Pointers, buffer: Buffer) -> ir.Value:
    """Where a buffer is in the memory that grows with a length."""
    assert pointers.room is not None
    b, (slot, length) = pointers.builder, pointers.room
    units = room_length(b, b.load(pointers(length), typ=I64))
    place = b.gep(pointers.word(slot), [i64(1)], source_etype=I64)  # behind its capacity
    start = b.load(place, typ=PTR)
    return b.gep(start, [b.mul(units, i64(buffer.offset))], source_etype=I8)
