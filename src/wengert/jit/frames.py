"""The memory of a program: its buffers, its state, and a `Frame` for each call from Python."""

from __future__ import annotations

import contextvars
import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..loops import Host
from ..runtime.arena import COUNTED_BYTES, Arena, Workspace
from ..runtime.layout import address_of
from .hosting import Values, body_lines
from .state import State

ALIGNMENT = 64
_RUN = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)


@dataclass
class CallLayout:
    """The buffers of a program, without its graph: all that calling needs."""

    inputs: list[tuple[np.dtype, tuple[int, ...]]]
    outputs: list[tuple[np.dtype, tuple[int, ...]]]
    constants: list[np.ndarray]
    arena_bytes: int
    work: int  # elements of the largest buffer, or the cost of a loop of many steps
    room_bytes: int = 0  # for each unit of length, of a program for any length


class Failed(Exception):  # noqa: N818 - steers, never seen
    """The native code stopped with an error code."""


def _stop(code: int) -> None:
    raise Failed(code)


class Frame:
    """Memory for one call from Python: an arena, and the table of the kernel's buffers."""

    def __init__(self, program: Any):
        self.program = program
        self.room = Workspace(program.layout.room_bytes)
        self.scratch = Arena(program.arena_bytes)
        self.scratch.beside = self.room
        self.is_large = program.any_length or program.arena_bytes >= COUNTED_BYTES
        self.arena = self.scratch.memory
        self.base = self.arena.ctypes.data
        self.constants = program.layout.constants
        layout = program.layout
        count = len(layout.inputs) + len(layout.outputs) + len(layout.constants)
        self.nothing = [None] * count
        self.words = (ctypes.c_uint64 * (count + 2))()  # addresses, which the kernel reads
        self.table = ctypes.addressof(self.words)
        self.hosted = any(isinstance(one, Host) for one in program.segments)
        self._find_results(program)
        self.values = Values(program.buffers, self.arena, self.taken)
        self.body = self._written_out(program)
        # NumPy keeps what it does about errors in the context
        self.quiet = contextvars.Context()
        self.quiet.run(np.seterr, all="ignore")

    def _written_out(self, program: Any) -> Callable[[], None]:
        """All parts of the program, as a function without arguments."""
        names = self.values.names
        names |= {"table": self.table, "base": self.base, "stop": _stop}
        for one in program.segments:
            if not isinstance(one, Host):
                names[f"call_{one}"] = _RUN(program.compiled.address(one))
        return self.values.compiled(body_lines(program.segments, self.values))

    def _find_results(self, program: Any) -> None:
        """Which results are the arrays that NumPy makes, and which buffers native parts use."""
        layout, buffers = program.layout, program.buffers
        first = len(layout.inputs)
        self.results = slice(first, first + len(layout.outputs))
        if not self.hosted:
            self.taken, self.made, self.addressed = [], layout.outputs, []
            return
        from ..schedule.memory import numpys_own  # compiling alone needs all of the schedule

        own = set(map(id, numpys_own(program.stages.loops.kernels)))
        free = range(first, first + program.result_count)
        self.taken = [n for n in free if id(buffers[n]) in own]
        self.made = [
            None if first + n in self.taken else one for n, one in enumerate(layout.outputs)
        ]
        self.addressed = [n for n in range(self.results.stop) if id(buffers[n]) not in own]
        for n, array in enumerate(layout.constants, self.results.stop):
            self.words[n] = address_of(array)

    def fill(self, buffers: list[np.ndarray], length: int | None) -> None:
        """Fill the table of the kernel's buffers; for any length also with its room, and that."""
        found = [address_of(array) for array in buffers]
        if length is not None:
            if self.room.grow(length):
                self.scratch.make_way()
            self.room.admit(length)  # who comes here has asked
            found += [address_of(self.room.table), length]
        self.words[: len(found)] = found  # type: ignore[assignment]

    def run(
        self, arrays: list[np.ndarray], results: list[np.ndarray], length: int | None = None
    ) -> None:
        """Run all parts, then copy new state into place."""
        state = self.program.state
        new = [self._scratch(s) for s in state if s.written]
        buffers = [*arrays, *(s.cell.memory for s in state if s.read), *results, *new]
        buffers += self.constants
        if self.hosted:
            if length is not None:
                self.fill(buffers, length)
            found = self.quiet.run(self._run_hosted, buffers)
            for result, own in zip(results, found, strict=False):
                if own is not result:
                    np.copyto(result, own)
        else:
            self.fill(buffers, length)
            self.body()
        for one, content in zip((s for s in state if s.written), new, strict=True):
            if content is not one.cell.memory:
                np.copyto(one.cell.memory, content)

    def run_hosted(self, arrays: list[Any]) -> list[np.ndarray]:
        """Run all parts of a program without state for arguments as they are; gives new results."""
        arrays += [one and np.empty(one[1], one[0]) for one in self.made]
        return self.quiet.run(self._run_hosted, arrays + self.constants)

    def _run_hosted(self, buffers: list[Any]) -> list[np.ndarray]:
        """Native parts and NumPy's in turn; gives the results."""
        words = self.words
        for n in self.addressed:
            words[n] = address_of(buffers[n])
        slots = self.values.slots
        slots[:] = buffers
        try:
            self.body()
            return slots[self.results]
        finally:
            slots[:] = self.nothing

    def _scratch(self, state: State) -> np.ndarray:
        memory = state.cell.memory
        if state.scratch is None:
            return memory
        raw = self.arena[state.scratch : state.scratch + memory.nbytes]
        return raw.view(memory.dtype).reshape(memory.shape)
