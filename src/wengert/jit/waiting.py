"""A compilation that takes longer than a second says what it is doing.

In a terminal or a notebook that is a line on the standard error, which goes again; elsewhere
nothing is written. The logger `wengert`, if somebody listens to it, is told in either case.
Here is also what makes it shorter from outside: a garbage collector that looks seldom.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

PATIENCE = 1.0  # seconds
# New objects between two looks of the garbage collector while something is compiled. What compiling
# makes stays until the end: at Python's 700 a twentieth to a tenth of the time is spent on looking.
OBJECTS = 100_000
_DOING = {
    "trace": "tracing the function",
    "passes": "improving the graph",
    "schedule": "making loops of the graph",
    "verify": "verifying the loops",
    "emit": "generating code",
    "compile": "compiling to machine code",
    "link": "linking",
    "entry": "compiling an entry",
}


@contextlib.contextmanager
def seldom_collected() -> Iterator[None]:
    """Let the garbage collector look seldom in a `with` block, never more often than before."""
    usual, *older = gc.get_threshold()
    if not 0 < usual < OBJECTS:
        yield
        return
    gc.set_threshold(OBJECTS, *older)
    try:
        yield
    finally:
        gc.set_threshold(usual, *older)


@contextlib.contextmanager
def announced(name: str, stage: str, started: float) -> Iterator[None]:
    """Say what is done in a `with` block, as soon as it is `PATIENCE` since it all started."""
    stream, logger = _terminal(), _logger()
    if stream is None and logger is None:
        yield
        return
    said: list[str] = []

    def say() -> None:
        spent = time.perf_counter() - started
        said.append(f"wengert: {name}: {_DOING.get(stage, stage)}, {spent:.0f} s so far")
        if logger is not None:
            logger.info("%s", said[-1])
        if stream is not None:
            print(f"\r{said[-1]}", end="", file=stream, flush=True)

    left = PATIENCE - (time.perf_counter() - started)
    timer = threading.Timer(max(left, 0.0), say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if said and stream is not None:  # what comes next finds the line as it was
            print(f"\r{' ' * len(said[-1])}\r", end="", file=stream, flush=True)


def _terminal() -> Any:
    """The standard error, if a person is likely to look at it."""
    stream = sys.stderr
    if stream is None:
        return None
    return stream if stream.isatty() or _notebook() else None


def _notebook() -> bool:
    if "IPython" not in sys.modules:
        return False  # most often, and without a look at that file
    from ..displays import in_notebook

    return in_notebook()


def _logger() -> Any:
    """The logger, if somebody has asked for what it is told."""
    logging = sys.modules.get("logging")
    if logging is None:
        return None
    logger = logging.getLogger("wengert")
    return logger if logger.isEnabledFor(logging.INFO) else None
