"""How long each kernel of a compiled program takes, measured one by one on memory of its own."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..loops import Check, Host, Kernel, Loop, LoopProgram
from .dynamic import sized
from .frames import Frame
from .hosting import Values, host_lines
from .program import Program

_WORD = ctypes.c_int64
_ENOUGH_SECONDS = 0.05  # of measuring, after the first few runs
_FEW, _MANY = 3, 100
_LEAST = 0.1  # of what is measured: the call around it can be all but this


class Measured(NamedTuple):
    """Seconds of every kernel of a program, and of those inside batch loops, for one block on one
    thread; in order, the least of several runs."""

    kernels: list[tuple[Kernel, float]]
    inside: list[tuple[Kernel, float]]
    native: Any = None  # the module that was made of them
    stored: Sequence[Any] = ()  # what in it belongs to which store


def _named_kernels(kernels: Sequence[Kernel]) -> Iterator[tuple[str | None, Kernel]]:
    """Every kernel with the name of its native function; None where it has none."""
    segment, number, before_native = -1, 0, False
    for kernel in kernels:
        if isinstance(kernel, Host):
            segment, before_native = segment + 1, False
            yield None, kernel
            continue
        if not before_native:
            segment, number, before_native = segment + 1, 0, True
        yield None if isinstance(kernel, Check) else f"kernel{segment}.{number}", kernel
        number += 1


def measure(program: Program, values: Sequence[Any], loops: LoopProgram | None = None) -> Measured:
    """Run every kernel several times, in order; `loops` are those of the program, or made alike."""
    from ..codegen.compile import compile_module
    from ..codegen.contexts import rounded
    from ..codegen.linked import stores_recorded
    from ..codegen.program import emit_program

    assert program.stages is not None
    target = program.stages.target
    length = program.length_of(values)
    # kernels that no watch can end have two arguments, all of them
    loops = dataclasses.replace(loops or program.stages.loops, watched=0)
    with stores_recorded() as stored:
        native = emit_program(loops, target)
    names = list(_named_kernels(loops.kernels))
    inside = [part for name, kernel in names for part in _in_blocks(name, kernel)]
    for name in [*[name for name, _ in names], *[name for name, _ in inside]]:
        if name is not None and name in native.module.globals:
            native.module.globals[name].linkage = ""
    compiled = compile_module(native.module, target)
    arrays = [np.asarray(v, b.dtype) for v, b in zip(values, loops.inputs, strict=False)]
    arrays += [state.cell.memory.copy() for state in program.state if state.read]
    arrays += [np.empty(sized(shape, length), dtype) for dtype, shape in program.layout.outputs]
    arrays += [np.array(b.value, b.dtype, order="C") for b in native.constants]
    buffers = [*loops.inputs, *loops.outputs, *native.constants]
    frame = Frame(program)
    frame.fill(arrays, length)
    seen = Values(buffers, frame.arena, passing=False)
    seen.slots[:] = arrays
    own = frame.base + loops.arena_bytes
    memory = [frame.table, frame.base, own]
    steps: list[tuple[Kernel, Any]] = []
    for name, kernel in names:
        if isinstance(kernel, Host):
            steps.append((kernel, seen.compiled(host_lines(kernel, seen, len(steps)))))
        elif name is not None and name in compiled.exports:
            steps.append((kernel, _call(compiled.address(name), memory)))
    times = _least(steps)
    steps = []
    for name, block in inside:
        if name not in compiled.exports:
            continue  # its code is part of that of another
        # the first block of the first share, in the memory of the first worker
        kernel, loop, around = block
        assert loop.blocks is not None
        live = min(loop.blocks.width, length or loop.blocks.extent)
        given, behind = [], own
        for one in (around, loop):  # their turns, and where what they have for themselves lies
            given += [0, *([behind] if one.private else [])]
            behind += rounded(one.private_bytes)
        memory = [frame.table, frame.base, behind]
        steps.append((kernel, _call(compiled.address(name), [*memory, *given, 0, live])))
    return Measured(times, _least(steps), native, stored)


def _in_blocks(name: str | None, kernel: Kernel) -> Iterator[tuple[str, tuple[Kernel, Loop, Loop]]]:
    """The kernels of blocks inside of a batch loop, with the names of their functions."""
    if not isinstance(kernel, Loop):
        return
    for number, loop in enumerate(kernel.body):
        if isinstance(loop, Loop) and loop.blocks is not None:
            for place, part in enumerate(loop.body):
                yield f"{name}.in{number}.in{place}", (part, loop, kernel)


def _call(address: int, words: Sequence[int]) -> Callable[[], None]:
    """A call of a native function without a result, with these numbers and addresses."""
    return functools.partial(ctypes.CFUNCTYPE(None, *[_WORD] * len(words))(address), *words)


def _least(steps: Sequence[tuple[Kernel, Any]]) -> list[tuple[Kernel, float]]:
    best = [float("inf")] * len(steps)
    start = time.perf_counter()
    for number in range(_MANY):
        for place, (_, run) in enumerate(steps):
            before = time.perf_counter()
            run()
            best[place] = min(best[place], time.perf_counter() - before)
        if number >= _FEW and time.perf_counter() - start > _ENOUGH_SECONDS:
            break
    pairs = zip(steps, best, strict=True)
    return [
        (kernel, max(seconds - _around(run), _LEAST * seconds)) for (kernel, run), seconds in pairs
    ]


def _around(run: Any) -> float:
    """Seconds that the call of a native function takes beside the function."""
    return _call_alone(len(run.args)) if isinstance(run, functools.partial) else 0.0


@functools.cache
def _call_alone(count: int) -> float:
    """Seconds of a call from here of a native function that does next to nothing."""
    nothing = ctypes.cast(ctypes.CDLL(None).abs, ctypes.c_void_p).value
    run = _call(nothing or 0, [0] * count)
    best = float("inf")
    for _ in range(20 * _MANY):
        before = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - before)
    return best


def label(kernel: Kernel) -> str:
    """A kernel in one line."""
    first = str(kernel).splitlines()
    return " ".join(line.strip() for line in first[:2])[:100]
