"""The memory of a program: its buffers, its state, and a `Frame` for each call from Python."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..graph import Node
from ..loops import Buffer, Host
from ..runtime.limits import KNOWN_LENGTHS, ROOM_GRAIN
from .state import Cell, Change

ALIGNMENT = 64
_RUN = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)


@dataclass
class Layout:
    """The buffers of a program, without its graph: all that calling needs."""

    inputs: list[tuple[np.dtype, tuple[int, ...]]]
    outputs: list[tuple[np.dtype, tuple[int, ...]]]
    constants: list[np.ndarray]
    arena_bytes: int
    work: int  # elements of the largest buffer, or the cost of a loop of many steps
    room_bytes: int = 0  # for each unit of length, of a program for any length


class Room:
    """Memory of a program for any length that grows with the length, and is kept.

    Native code reads the three words of `table`: the capacity in bytes, the address, and that of
    the lengths that are known: each at its number modulo `KNOWN_LENGTHS`.
    """

    def __init__(self, bytes_per_unit: int):
        self.bytes_per_unit = bytes_per_unit
        self.known = np.full(KNOWN_LENGTHS, -1, np.int64)
        self.table = np.array([0, 0, self.known.ctypes.data], np.uint64)
        self._memory: np.ndarray | None = None

    def grow(self, length: int) -> None:
        """Make it large enough for a length."""
        needed = -(-length // ROOM_GRAIN) * ROOM_GRAIN * self.bytes_per_unit
        if needed > self.table[0]:
            self._memory = np.empty(needed + ALIGNMENT, np.uint8)
            address = -(-self._memory.ctypes.data // ALIGNMENT) * ALIGNMENT
            self.table[:2] = needed, address

    def admit(self, length: int) -> None:
        """Let calls of this length through."""
        self.known[length % KNOWN_LENGTHS] = length


class State:
    """One piece of state of a program, bound to its memory."""

    def __init__(self, change: Change, slot: int):
        self.cell: Cell = change.cell()
        _check_type(change, self.cell)
        self.present = change.present
        self.read = change.before is not None
        self.written = isinstance(change.after, Node)
        self.removed = change.after is None
        self.slot = slot  # in the table of captured addresses
        # where it is computed: bytes into the arena, or None for straight into its memory
        self.scratch: int | None = None

    @property
    def holds(self) -> bool:
        """Whether it is now as the program expects it."""
        return self.present is None or self.cell.present == self.present

    @property
    def settled(self) -> bool | None:
        """Whether it is present before and after every call; None where a call changes that."""
        after = self.present
        if self.written:
            after = True
        elif self.removed:
            after = False
        return after if self.present in (None, after) else None


def _check_type(change: Change, cell: Cell) -> None:
    if not isinstance(change.after, Node):
        return
    new, memory = change.after.type, cell.memory
    if (new.dtype, new.shape) != (memory.dtype, memory.shape):
        raise ShapeError(
            f"jit: the {change.kind} of a tensor becomes {new}, but its memory holds "
            f"{memory.dtype} of shape {memory.shape}. Keep dtype and shape, or use a new tensor."
        )


class Failed(Exception):  # noqa: N818 - steers, never seen
    """The native code stopped with an error code."""


class Frame:
    """Memory for one call from Python: an arena, and the table of the kernel's buffers."""

    def __init__(self, program: Any):
        self.program = program
        raw = np.empty(program.arena_bytes + ALIGNMENT, np.uint8)
        start = -raw.ctypes.data % ALIGNMENT
        self.arena = raw[start : start + program.arena_bytes]
        self.base = raw.ctypes.data + start
        self.constants = program.layout.constants
        self.segments = [
            s if isinstance(s, Host) else _RUN(program.compiled.address(s))
            for s in program.segments
        ]
        self.owners: dict[int, np.ndarray] = {}
        self.room = Room(program.layout.room_bytes)

    def words(self, buffers: list[np.ndarray], length: int | None) -> np.ndarray:
        """The table of the kernel's buffers; for any length also its room, and the length."""
        found = [array.ctypes.data for array in buffers]
        if length is not None:
            self.room.grow(length)
            self.room.admit(length)  # who comes here has asked
            found += [self.room.table.ctypes.data, length]
        return np.array(found or [0], np.uint64)

    def run(
        self, arrays: list[np.ndarray], results: list[np.ndarray], length: int | None = None
    ) -> None:
        """Run all parts, then copy new state into place."""
        state = self.program.state
        new = [self._scratch(s) for s in state if s.written]
        buffers = [*arrays, *(s.cell.memory for s in state if s.read), *results, *new]
        buffers += self.constants
        table = self.words(buffers, length)
        if len(self.segments) > 1 or isinstance(self.segments[0], Host):
            pairs = zip(self.program.buffers, buffers, strict=True)
            self.owners = {id(buffer): array for buffer, array in pairs}
        for segment in self.segments:
            if isinstance(segment, Host):
                self._run_host(segment)
                continue
            code = segment(table.ctypes.data, self.base)
            if code:
                raise Failed(code)
        self.owners = {}
        for one, content in zip((s for s in state if s.written), new, strict=True):
            if content is not one.cell.memory:
                np.copyto(one.cell.memory, content)

    def _scratch(self, state: State) -> np.ndarray:
        memory = state.cell.memory
        if state.scratch is None:
            return memory
        raw = self.arena[state.scratch : state.scratch + memory.nbytes]
        return raw.view(memory.dtype).reshape(memory.shape)

    def _run_host(self, kernel: Host) -> None:
        inputs = [self._array(buffer) for buffer in kernel.inputs]
        with np.errstate(all="ignore"):
            results = kernel.op.evaluate(*inputs, **kernel.params)
        results = results if kernel.op.multiple else (results,)
        for buffer, value in zip(kernel.outputs, results, strict=True):
            self._array(buffer)[...] = value

    def _array(self, buffer: Buffer) -> np.ndarray:
        owner = buffer
        while owner.base is not None:
            owner = owner.base
        if owner.kind == "arena":
            raw = self.arena[owner.offset : owner.offset + owner.nbytes]
            return raw.view(owner.dtype).reshape(buffer.shape)
        return self.owners[id(owner)].reshape(buffer.shape)
