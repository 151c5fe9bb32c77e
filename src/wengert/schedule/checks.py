"""Conditions under which a program may go on: each is looked at as soon as it is known."""

from __future__ import annotations

from ..loops import Check, Kernel, LoopProgram
from .memory import buffers_of
from .task import Task


def place_checks(program: LoopProgram, task: Task) -> LoopProgram:
    """Each check as soon as its flag is known: what comes after it cannot fail because of it."""
    kernels = [kernel for kernel in program.kernels if not isinstance(kernel, Check)]
    checks = [kernel for kernel in program.kernels if isinstance(kernel, Check)]
    last = {b: n for n, k in enumerate(kernels if checks else ()) for b in buffers_of(k)}
    due: dict[int, list[Kernel]] = {}
    for check in checks:
        due.setdefault(last[check.flag], []).append(check)
    program.kernels = [k for n, kernel in enumerate(kernels) for k in (kernel, *due.get(n, []))]
    return program
