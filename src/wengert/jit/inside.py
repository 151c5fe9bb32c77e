"""Looking inside of a compiled function: stages, graphs, memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..loops import Host
from ..runtime.limits import ROOM_GRAIN
from . import debugging
from .arguments import Call
from .dynamic import describe_one, sized
from .program import Program
from .state import trace_lock
from .tracing import capture

if TYPE_CHECKING:
    from .function import Jitted


def with_stages(jitted: Jitted, program: Program, call: Call, key: Any) -> Program:
    """The program with its stages: one that came from the cache goes through them now."""
    from ..codegen.target import Target
    from .building import Stages

    if program.stages is None:
        with trace_lock, jitted._lock:
            captured = program.captured or jitted._capture(call, key)
            program.stages = Stages(captured, key[1], debugging.Clock(), Target.host())
    return program


def graph_for(jitted: Jitted, program: Program, call: Call, key: Any, leaves: list) -> Any:
    """The graph as it is for such leaves, to be evaluated."""
    if not program.any_length:
        return with_stages(jitted, program, call, key).stages.graph
    return traced_for(jitted, call, key, leaves)


def traced_for(jitted: Jitted, call: Call, key: Any, leaves: list) -> Any:
    """The graph for such leaves, traced now."""
    with trace_lock, jitted._lock, jitted._controlled():
        return capture(jitted.function, call, describe_one(leaves, key[1]), key[0]).graph


def memory_of(program: Program, leaves: Sequence[Any] | None) -> dict[str, int]:
    """Bytes by use, and how many arrays a call allocates, without `out=` and with it.

    A result without axes is a NumPy scalar, which takes no array. An operation that NumPy
    evaluates makes its results itself.
    """
    length = None if leaves is None else program.length_of(leaves)
    made = sum(shape != () for _, shape in program.result_types())
    hosts = sum(len(one.outputs) for one in program.segments if isinstance(one, Host))
    types = [(leaf.type.dtype, sized(leaf.type.shape, length)) for leaf in program.leaves]
    room = program.layout.room_bytes * -(-(length or 0) // ROOM_GRAIN) * ROOM_GRAIN
    return {
        "arena": program.arena_bytes + room,
        "inputs": sum(size_in_bytes(*one) for one in types),
        "outputs": sum(size_in_bytes(*one) for one in program.result_types(length)),
        "constants": sum({c.ctypes.data: c.nbytes for c in program.layout.constants}.values()),
        "state": sum(s.cell.memory.nbytes for s in program.state),
        "allocations_per_call": made + hosts,
        "allocations_with_out": hosts,
    }


def size_in_bytes(dtype: np.dtype, shape: tuple[int, ...]) -> int:
    """How much memory an array takes."""
    return dtype.itemsize * int(np.prod(shape, dtype=np.int64))
