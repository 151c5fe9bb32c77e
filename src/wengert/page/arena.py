"""Memory over time: which buffer lies where in the arena, from which kernel to which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..loops import Buffer, Loop, LoopProgram
from ..schedule.memory import Life, lives_of, temporaries
from .kernels import Entry

_MOST = 400  # buffers in one picture, the largest first


def pictures(loops: LoopProgram, entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """The arena of the program, and the own memory of a thread in each loop that has some."""
    number_of = {entry.kernel: entry.number for entry in entries}
    found = [
        _picture(
            "the arena of the program",
            lives_of(loops.kernels, set(temporaries(loops.kernels))),
            [number_of[kernel] for kernel in loops.kernels],
        )
    ]
    for entry in entries:
        kernel = entry.kernel
        if isinstance(kernel, Loop) and kernel.private:
            title = f"a thread's own memory in: {kernel.head()}"
            steps = [number_of[part] for part in kernel.body]
            alive = lives_of(kernel.body, set(kernel.private))
            found.append({**_picture(title, alive, steps), "loop": entry.number})
    return [one for one in found if one["buffers"]]


def _picture(title: str, alive: Sequence[Life], steps: list[int]) -> dict[str, Any]:
    used = [sum(_size(life.buffer) for life in _at(alive, n)) for n in range(len(steps))]
    peak = max(range(len(used)), key=used.__getitem__, default=0)
    shown = sorted(alive, key=lambda life: -life.buffer.nbytes)[:_MOST]
    holding = sorted(_at(alive, peak), key=lambda life: -life.buffer.nbytes)
    return {
        "title": title,
        "steps": steps,
        "bytes": max((life.buffer.offset + _size(life.buffer) for life in alive), default=0),
        "used": used,
        "peak": peak,
        "holding": [life.buffer.name for life in holding[:12]],
        "buffers": [
            {
                "name": life.buffer.name,
                "type": str(life.buffer).partition(": ")[2],
                "bytes": life.buffer.nbytes,
                "offset": life.buffer.offset,
                "start": life.start,
                "end": life.end,
                "made": steps[life.start],
            }
            for life in shown
        ],
    }


def _at(alive: Sequence[Life], step: int) -> list[Life]:
    return [life for life in alive if life.start <= step <= life.end]


def _size(buffer: Buffer) -> int:
    return int(buffer.nbytes)
