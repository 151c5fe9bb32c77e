"""Conditions under which a program may go on: each is looked at as soon as it is known."""

from __future__ import annotations

from ..loops import Check, Kernel, LoopProgram
from .memory import buffers_of
from .task import Task


def place_checks(program: LoopProgram, task: Task) -> LoopProgram:
    """Each check as soon as its flag is known: what comes after it cannot fail because of it."""
    kernels = [kernel for kernel in program.kernels if not isinstance(kernel, Check)]
    due: dict[int, list[Kernel]] = {}
    for check in program.kernels:
        if isinstance(check, Check):
            last = max(k for k, kernel in enumerate(kernels) if check.flag in buffers_of(kernel))
            due.setdefault(last, []).append(check)
    program.kernels = [k for n, kernel in enumerate(kernels) for k in (kernel, *due.get(n, []))]
    return program
