"""A `Replay` on plain values, as Python code of one line a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import GENERATED, SOURCES
from ..ops.elementwise import scale, unless
from ..types import Function

if TYPE_CHECKING:
    from .plans import Replay

# Elements from which on an array that is not needed any more is used again.
LARGE = 2048


def _free_to_overwrite(
    replay: Replay, steps: Sequence[tuple[Any, ...]], outputs: Sequence[Any], place: int, first: int
) -> list[int]:
    """The slot, if any, of a large array that this step may put its result into: one that a
    ufunc has just made, of the same type, and that nothing needs any more."""
    number, _, sources, _ = steps[place]
    own = replay.types[number]
    if own.size < LARGE:
        return []
    needed = {slot for _, _, later, _ in steps[place + 1 :] for slot in later}
    needed.update(outputs)
    makers = {first + made: evaluate for made, evaluate, _, _ in steps[:place]}
    for slot in sources:
        if slot in needed or slot not in makers or replay.types[slot - first] != own:
            continue
        if isinstance(makers[slot], np.ufunc):
            return [slot]
    return []


def _quick_steps(replay: Replay, first: int) -> tuple[list[tuple[Any, ...]], list[Any]]:
    """Numbered steps and outputs without the care for what would be a NaN."""
    same: dict[Any, Any] = {}  # slots that others stand for
    steps = []
    for number, (op, evaluate, given, params) in enumerate(replay.steps):
        sources = tuple(same.get(slot, slot) for slot in given)
        if op is unless and _is_typed(replay, sources[2], first, number):
            same[first + number] = sources[2]
        else:
            quick = np.multiply if op is scale else evaluate
            steps.append((number, quick, sources, params))
    outputs = [same.get(slot, slot) for slot in replay.outputs]
    needed, live = set(outputs), []
    for step in reversed(steps):
        if first + step[0] in needed:
            needed.update(step[2])
            live.append(step)
    return live[::-1], outputs


def _is_typed(replay: Replay, slot: int, first: int, number: int) -> bool:
    return slot >= first and replay.types[slot - first] == replay.types[number]


def as_function(replay: Replay, quick: bool) -> Function:
    """The steps as Python code."""
    inputs = replay.inputs
    known: dict[str, Any] = {
        f"v{inputs + place}": constant for place, constant in enumerate(replay.constants)
    }
    first = inputs + len(replay.constants)
    steps: list[tuple[Any, ...]] = [(n, *step[1:]) for n, step in enumerate(replay.steps)]
    outputs = replay.outputs
    if quick:
        steps, outputs = _quick_steps(replay, first)
    lines = [f"def replay({', '.join(f'v{slot}' for slot in range(inputs))}):"]
    for place, (number, evaluate, sources, params) in enumerate(steps):
        known[f"f{number}"] = evaluate
        arguments = [f"v{slot}" for slot in sources]
        if params:
            known[f"p{number}"] = params
            arguments.append(f"**p{number}")
        elif isinstance(evaluate, np.ufunc):
            free = _free_to_overwrite(replay, steps, outputs, place, first)
            arguments += [f"out=v{slot}" for slot in free]
        lines.append(f" v{first + number} = f{number}({', '.join(arguments)})")
    names = ["None" if slot is None else f"v{slot}" for slot in outputs]
    lines.append(f" return [{', '.join(names)}]")
    known[SOURCES] = {2 + place: replay.sources[step[0]] for place, step in enumerate(steps)}
    exec(compile("\n".join(lines), GENERATED, "exec"), known)  # names and numbers made above
    made: Function = known["replay"]
    return made
