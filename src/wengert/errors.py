"""Errors that say the operation, the argument, what it got, what it expected, and what to do.

Every class also derives from the built-in exception that NumPy or Python would raise in the
same place, so ``except ValueError`` written for NumPy code keeps working.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

import numpy

F = TypeVar("F")
# The file of generated code that evaluates recorded operations; its global `SOURCES` has the line
# of the user's for each of its own. And the ids of the code that does so one by one; it lasts.
GENERATED, SOURCES = "<wengert>", "sources"
_EVALUATING: set[int] = set()
in_detail: Callable[[FrameType | None], str] | None = None  # what tells more of a line: `lines`
on_error: Callable[[WengertError], None] | None = None  # what is told of errors: `trace/hidden.py`
OURS = (
    os.path.dirname(os.path.abspath(__file__)) + os.sep,
    os.path.dirname(os.path.abspath(numpy.__file__)) + os.sep,
    GENERATED,
)


class WengertError(Exception):
    """The base of all errors that wengert raises on purpose."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        if on_error is not None:
            on_error(self)


class ShapeError(WengertError, ValueError):
    """Shapes that do not fit together."""


class DTypeError(WengertError, TypeError):
    """A dtype that an operation or a transform does not take."""


class AxisError(WengertError, ValueError, IndexError):
    """An axis that the array does not have."""


class OutOfRangeError(WengertError, IndexError, ValueError):
    """An index outside the array; never silently clamped."""


class IntegerError(WengertError, OverflowError):
    """A Python integer that the dtype it must take on does not hold; never silently wrapped."""


class DerivativeError(WengertError, TypeError):
    """A derivative that does not exist or was not defined."""


class LeakedTracerError(WengertError, RuntimeError):
    """A traced value used after the function that was traced has returned."""


class MutationError(WengertError, ValueError):
    """A write that would reach an array the traced function does not own."""


class OutsideWriteError(MutationError):
    """A write, under a traced condition, to an array made outside of what the condition decides."""

    storage: Any = None  # the array


class AbstractValueError(WengertError, TypeError):
    """A traced value without a number was asked for its number."""


class ConversionError(WengertError, TypeError):
    """A traced value was about to lose its derivative by becoming a plain array."""


class StructureError(WengertError, TypeError):
    """Trees (tuples, lists, dicts) whose structures do not match."""


class ControlFlowError(StructureError):
    """Control flow on traced values that cannot become an operation."""


class GraphError(WengertError, ValueError):
    """A graph that breaks the rules that `verify` checks."""


class LoopError(WengertError, ValueError):
    """A program of loops that breaks the rules that `verify_loops` checks."""


class DataError(WengertError, ValueError):
    """Data whose bytes or lengths are not what they should be."""


class DataNotFoundError(WengertError, FileNotFoundError):
    """A data set that is neither on this machine nor to be had from elsewhere."""


class OptionError(WengertError, ValueError):
    """An option outside of what it can be."""


class NotFiniteError(WengertError, FloatingPointError):
    """A number that had to be finite is infinite or NaN."""


class MissingPackageError(WengertError, ImportError):
    """An optional package that is not installed."""


class CheckGradsError(WengertError, AssertionError):
    """`check_grads` found a derivative that differs from finite differences."""


class FixedLengthWarning(UserWarning):
    """A function with dynamic axes that is compiled for each length by itself."""


class RecompilationWarning(UserWarning):
    """A function that is compiled again and again."""


class CompilerWarning(UserWarning):
    """The compiler found a fault of its own, and compiled a function in a plainer way."""


class ConstantRandomWarning(UserWarning):
    """Random numbers that were drawn while a function was compiled, and so are constants of it."""


class ChangedOutsideWarning(UserWarning):
    """A function changes what it computes with when it is compiled, and not in its calls."""


class MoreSteps(Exception):  # noqa: N818 - steers, never seen
    """A loop has more steps than a compiled program has memory for: its number, and the steps."""


class DependsOnLength(Exception):  # noqa: N818 - steers; its text ends up in a warning
    """What stands in the way of a program for any length: a problem, and the node that has it."""

    def __init__(self, problem: str, node: Any = None):
        where = f" (at {node.source})" if getattr(node, "source", None) else ""
        name = f"{node.op.name}{where}: " if hasattr(node, "op") else ""
        super().__init__(f"{name}{problem}".rstrip("."))


def is_users(frame: FrameType) -> bool:
    """Whether code is the user's that is running, not wengert's, NumPy's or SciPy's."""
    ours = frame.f_code.co_filename.startswith(OURS)
    return not (ours or str(frame.f_globals.get("__name__")).startswith("scipy."))


def evaluates(function: F) -> F:
    """Mark a function that goes through recorded operations, each of which it calls `node`."""
    _EVALUATING.add(id(function.__code__))  # type: ignore[attr-defined]
    return function


def user_line() -> str:
    """``file.py:12`` of the user's line that is running now, or at which it was recorded; or ""."""
    frame: FrameType | None = sys._getframe(1)
    if in_detail is not None:
        return in_detail(frame)
    while frame is not None:
        name = frame.f_code.co_filename
        if is_users(frame):
            return f"{os.path.basename(name)}:{frame.f_lineno}"
        recorded: str | None = None
        if name == GENERATED:
            recorded = frame.f_globals.get(SOURCES, {}).get(frame.f_lineno)
        elif id(frame.f_code) in _EVALUATING:
            recorded = getattr(frame.f_locals.get("node"), "source", None)
        if recorded:
            return recorded
        frame = frame.f_back
    return ""


def explain(operation: str, problem: str, remedy: str = "") -> str:
    """Compose a message: the operation, the user's line, what is wrong, what to do."""
    line = user_line()
    where = f" (at {line})" if line else ""
    tail = f" {remedy}" if remedy else ""
    return f"{operation}{where}: {problem}.{tail}"
