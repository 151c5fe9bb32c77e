"""What to do where native code stopped: give it more room, take another program, or say why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import MoreSteps, OutOfRangeError
from ..loops import NO_RESULT
from ..ops.linalg import LinearAlgebraError
from ..runtime.limits import (
    MORE_STEPS,
    NEW_LENGTH,
    NO_ELEMENTS,
    ROOM_TOO_SMALL,
    STEP_CODES,
    steps_code,
)
from .chain import link
from .dynamic import for_length, one_length
from .inside import graph_for
from .state import trace_lock

if TYPE_CHECKING:
    from .function import Jitted


def go_on(function: Jitted, program: Any, code: int, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The result after all, or the error that NumPy raises there."""
    out = kwargs.pop("out", None)
    call = function._order(args, kwargs)
    leaves, key = function._key(call)
    if code == ROOM_TOO_SMALL:
        with program._state_held():
            if program.room.grow(program.length_of(leaves)) and program.arena is not None:
                program.arena.make_way()
        return function._again(args, kwargs, out)
    if code == NEW_LENGTH:
        found, key = for_length(function, program, call, key, leaves, args, kwargs)
        return function._again(args, kwargs, out) if found is program else found.run(leaves, out)
    if code == NO_ELEMENTS:  # length 0 has ways of its own
        with trace_lock, function._lock:
            fixed = one_length(function, call, key, leaves, args, kwargs)[0]
        return fixed.run(leaves, out)
    if code > MORE_STEPS:
        graph = graph_for(function, program, call, key, leaves)
        try:
            _evaluate(program, graph, leaves)
        except MoreSteps as more:
            code = steps_code(*more.args)
        else:
            raise _unexplained(program, code)
    loop, power = divmod(MORE_STEPS - code, STEP_CODES)
    _make_room(function, program, loop, 1 << power)
    return function._again(args, kwargs, out)


def _evaluate(program: Any, graph: Any, leaves: list[Any]) -> None:
    """Run the program by NumPy, which raises the error."""
    state = [one.cell.memory.copy() for one in program.state if one.read]
    with np.errstate(all="ignore"):
        graph.evaluate([*leaves, *state])


def _unexplained(program: Any, code: int) -> Exception:
    if code == NO_RESULT:  # another rounding has made all the difference
        return LinearAlgebraError(
            f"{program.name}: a matrix is singular, not positive definite, or not finite, to "
            "rounding. Add a small multiple of the identity, or use lstsq or pinv."
        )
    return OutOfRangeError(
        f"{program.name}: compiled code stopped with error {code}, which NumPy does not see. "
        "Please report the function and its arguments."
    )


def _make_room(function: Jitted, program: Any, loop: int, steps: int) -> None:
    """Forget a program that has not memory enough for the steps of a loop: the next one has."""
    with function._lock:
        function._rooms[loop] = max(steps, function._rooms.get(loop, 0))
        kept = {k: [p for p in ps if p is not program] for k, ps in function._programs.items()}
        function._programs = {key: programs for key, programs in kept.items() if programs}
        gone = {id(entry) for entry in program.entries.values()}
        function._entries = [entry for entry in function._entries if id(entry) not in gone]
        function._evicted = [entry for entry in function._evicted if id(entry) not in gone]
        link(function)
