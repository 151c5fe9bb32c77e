"""Lines of the user's code: all there is to tell of them, for `explain` and `debug_nans`, and
warnings that point at them."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from types import FrameType
from typing import Any

from . import errors

# The files whose code makes derivatives of recorded operations.
_DERIVING = (errors.GENERATED, os.path.join("transforms", "modes.py"))
# The functions that run what is to be told of: of the user's function, and of its graph.
_BORDERS = {
    "capture": os.path.join("jit", "tracing.py"),
    "_traced": os.path.join("page", "teaching.py"),
}
_PULLING = "_walk_back"  # the function there that goes back from a value


class Line(str):
    """A line of the user's, with its file, the modules that were running, outermost first, and
    whether it is the derivative of what is written there that was recorded, of which operation,
    and of which value."""

    file: str
    layers: tuple[Any, ...]
    derived: bool
    operation: str
    differentiated: Any  # the node of the value, as the mode that differentiates it has it

    def modules(self) -> list[str]:
        """How the modules are called, the outermost first."""
        if not self.layers:
            return []
        named = getattr(self.layers[0], "named_modules", None)
        names = {id(module): name for name, module in named()} if named else {}
        found = [type(self.layers[0]).__name__]
        for layer in self.layers[1:]:
            kind, name = type(layer).__name__, names.get(id(layer), "")
            found.append(f"{name} {kind}" if name else kind)
        return found


def tell_in_detail(on: bool) -> bool:
    """Have `user_line` give a `Line`, which takes longer, or not; gives what it did before."""
    before, errors.in_detail = errors.in_detail, _line_in_detail if on else None
    return before is not None


@contextlib.contextmanager
def in_detail() -> Iterator[None]:
    """Have lines told in detail for a while."""
    before = tell_in_detail(True)
    try:
        yield
    finally:
        tell_in_detail(before)


def _line_in_detail(frame: FrameType | None) -> Line:
    """The line, whether it is derived, and the modules whose `forward` is running."""
    found, layers, derived = "", [], False
    file, outer, operation, value = "", (), "", None
    while frame is not None:
        code = frame.f_code
        if _BORDERS.get(code.co_name, "\0") in code.co_filename:
            break  # whoever is outside computes nothing of it
        derived = derived or code.co_filename.endswith(_DERIVING)
        if value is None and code.co_name == _PULLING and code.co_filename.endswith(_DERIVING):
            value = frame.f_locals["outputs"][0]
        if code.co_name == "forward" and hasattr(frame.f_locals.get("self"), "_captured_by_jit"):
            layers.append(frame.f_locals["self"])
        if not found and id(code) in errors._EVALUATING:
            node: Any = frame.f_locals.get("node")
            recorded = getattr(node, "source", None)
            if derived and not operation and hasattr(node, "op"):
                operation = node.op.name
            if recorded:
                found, file = recorded, getattr(recorded, "file", "")
                outer, derived = getattr(recorded, "layers", ()), derived or is_derived(recorded)
                operation = getattr(recorded, "operation", "") or operation
                break
        if not found and errors.is_users(frame):
            file = code.co_filename
            found = f"{os.path.basename(file)}:{frame.f_lineno}"
        frame = frame.f_back
    line = Line(found)
    line.file, line.layers, line.derived = file, (*outer, *reversed(layers)), derived
    line.operation, line.differentiated = operation, value
    return line


def is_derived(line: str | None) -> bool:
    """Whether a line, if it is told in detail, is that of a derivative."""
    return getattr(line, "derived", False)


def hand_on(source: str | None, made: Any) -> None:
    """Give what was made in place of a node the line of that node, where it has none."""
    pending = [made, *made.inputs]
    while source is not None and pending:
        one = pending.pop()
        if one.source is None and one.inputs:
            one.source = source
            pending += one.inputs


def warn(text: str, category: type[Warning]) -> None:
    """Warn at the line of the user's that is running."""
    frame = sys._getframe(1)
    while frame.f_back is not None and not errors.is_users(frame):
        frame = frame.f_back
    scope = frame.f_globals
    registry = scope.setdefault("__warningregistry__", {})  # where Python notes what was said
    file, module = frame.f_code.co_filename, scope.get("__name__")
    warnings.warn_explicit(text, category, file, frame.f_lineno, module, registry)
