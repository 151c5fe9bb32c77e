"""Every program of loops is verified, in a thread, while LLVM makes machine code of it.

The rules are those of `schedule/verify`: whatever is read was written, tasks do not meet, and so
on. A program that breaks one gives wrong numbers, by a fault of the compiler's. Then it is made
again with fewer of the steps that are there for speed, and a warning tells of the fault: results
are right, calls take longer. The same is done where a step fails with an error of its own.

LLVM needs no Python and takes longer than the rules, so that this costs nothing where there are two
cores. What is found on disk was verified when it was made.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import CompilerWarning, GraphError, LoopError
from ..lines import warn
from ..schedule.setting import with_setting
from . import debugging

if TYPE_CHECKING:
    from .building import Stages

# Raise faults instead: the tests do, and WENGERT_DEBUG.
strict = False

# Without what changes loops most, then without anything for speed but native calls.
_FEWER_STEPS = (
    "-regions,-chunks,-keeps,-epilogues,-prologues,-pieces,-joins,-orders,-threads",
    "plain,+entries,+records",
)
# Errors that no program of a user's is to cause: what is wrong with that, tracing and passes tell.
_FAULTS = (LoopError, GraphError, AssertionError, AttributeError, KeyError, RecursionError)


class Verification:
    """The rules checked for the loops of a program, beside something else.

    >>> Verification(lambda: None).finish()
    """

    def __init__(self, verify: Callable[[], None]) -> None:
        self._error: BaseException | None = None
        self._verify, self._context = verify, contextvars.copy_context()
        self._thread: threading.Thread | None = threading.Thread(target=self._run, daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # the system gives no more threads
            self._thread = None

    def _run(self) -> None:
        try:
            self._context.run(self._verify)
        except BaseException as error:
            self._error = error

    def finish(self) -> None:
        """Wait for it, and raise what it has found."""
        if self._thread is None:
            self._run()
        else:
            self._thread.join()
        if self._error is not None:
            raise self._error


def verification(stages: Stages) -> Verification:
    """Begin to verify what the stages of a compilation made."""

    def verify() -> None:
        from ..schedule.verify import verify_stages

        verify_stages(stages.optimised, stages.any_length is not None, stages.loops)

    return Verification(verify)


def without_faults(name: str, build: Callable[[], Any]) -> Any:
    """What `build` makes of a function, with as few steps as it takes to break no rule."""
    try:
        return build()
    except _FAULTS as error:
        if strict or debugging.level() > 0:
            raise
        fault = error
    for steps in _FEWER_STEPS:
        try:
            with with_setting(steps):
                found = build()
        except _FAULTS:
            continue
        warn(_told(name, fault, steps), CompilerWarning)
        return found
    raise fault


def _told(name: str, fault: Exception, steps: str) -> str:
    return (
        f"{name}: a fault of the compiler, found before anything was computed: "
        f"{type(fault).__name__}: {fault}. The function is compiled with WENGERT_SCHEDULE={steps}: "
        "its results are right, its calls take longer. Please report it, with the function"
    )
