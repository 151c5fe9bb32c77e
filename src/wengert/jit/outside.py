"""What a function does to what is outside of it while it is traced: it is not done in its calls.

A compiled program reads attributes, items and variables from outside once, and only tensors are
written by each call. A function that changes others may still be right: it keeps a table for later,
or its last result for whoever looks at it. Whether it is shows when it is traced once more. If it
meets traced values that the first trace left behind, or comes to another graph, the function itself
would give other results in its next call than the program does, and that is said.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator
from types import CellType, CodeType, FunctionType
from typing import Any

from ..errors import ChangedOutsideWarning, LeakedTracerError, explain
from ..lines import warn
from ..ops.op import Traced
from ..trace.reaching import reached
from ..trace.tracing import function_name
from .drawn import Drawing
from .tracing import Captured

# Longer containers are not looked into.
_LONGEST = 10_000
_NOTHING = object()
_STORE_GLOBAL = dis.opmap["STORE_GLOBAL"]
_REMEDY = (
    "Take it as an argument and return its new value, or keep it in a wg.tensor and update that in "
    "place (t += 1)."
)

_Changes = list[tuple[str, Any]]  # places in words, and what is there now


def captured_once(function: Any, capture: Callable[[], Captured]) -> Captured:
    """What `capture` gives for a function, if that is what its later calls are to compute too."""
    objects = reached(function)
    drawing, before = Drawing(function, objects), _Holdings(objects)
    captured = capture()
    if drawing.tell():
        return captured
    changed = before.changes()
    if changed and not _holds_again(capture, captured, changed, _Holdings(objects)):
        problem = (
            f"it changes {_listed(changed)}, with which its next call computes, but compiled code "
            "updates nothing outside of it but tensors"
        )
        text = explain(function_name(function), problem, _REMEDY)
        if any(_is_traced(value) for _, value in changed):
            before.restore()
            raise LeakedTracerError(text)
        warn(text, ChangedOutsideWarning)
    return captured


def _holds_again(
    capture: Callable[[], Captured], captured: Captured, changed: _Changes, now: _Holdings
) -> bool:
    """Whether the function comes to the same graph with what it has changed."""
    try:
        return not _differ(captured, capture())
    except LeakedTracerError:
        return not any(_is_traced(value) for _, value in changed)
    except Exception:  # what is wrong with its next call is not for this one to say
        return True
    finally:
        now.restore()


def _differ(one: Captured, other: Captured) -> bool:
    """Whether two traces surely compute something else."""
    from .fingerprint import graph_fingerprint

    first, second = graph_fingerprint(one.graph), graph_fingerprint(other.graph)
    return first is not None and second is not None and first != second


def _is_traced(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_is_traced, value))
    return isinstance(value, Traced)


def _listed(changed: _Changes) -> str:
    traced = [place for place, value in changed if _is_traced(value)]
    places = traced or [place for place, _ in changed]
    return ", ".join(places[:3]) + (" and others" if len(places) > 3 else "")


class _Holdings:
    """What some objects hold now: lists, dictionaries, attributes, variables of functions."""

    def __init__(self, objects: list[Any]):
        self.kept: list[tuple[str, Any, Any]] = []
        # what wengert's own objects keep is no matter of the user's
        own = [value for value in objects if _is_own(value)]
        seen = {id(item) for value in own for item in vars(value).values()}
        seen |= {id(vars(value)) for value in own}
        for value in objects:
            for name, holder in _holders(value):
                if id(holder) not in seen:
                    seen.add(id(holder))
                    self.kept.append((name, holder, _content(holder)))

    def changes(self) -> _Changes:
        """Where something else is held now, in words, and what."""
        return [
            (name.format(place), value)
            for name, holder, content in self.kept
            for place, value in _changes(content, _content(holder))
        ]

    def restore(self) -> None:
        """Put everything back as it was."""
        for _, holder, content in self.kept:
            if any(True for _ in _changes(_content(holder), content)):
                _put(holder, content)


class _Globals:
    """The global variables that a function assigns to."""

    def __init__(self, function: FunctionType):
        self.scope, self.names = function.__globals__, _assigned(function.__code__)

    def __len__(self) -> int:
        return len(self.names)

    def copy(self) -> dict[str, Any]:
        """Their values."""
        return {name: self.scope[name] for name in self.names if name in self.scope}

    def clear(self) -> None:
        """Forget them."""
        for name in self.names:
            self.scope.pop(name, None)

    def update(self, values: dict[str, Any]) -> None:
        """Set them."""
        self.scope.update(values)


def _is_own(value: Any) -> bool:
    """Whether a value is of one of wengert's classes, and no layer or optimizer."""
    home = type(value).__module__
    theirs = ("wengert.nn", "wengert.optim")
    return (
        home.startswith("wengert.") and not home.startswith(theirs) and hasattr(value, "__dict__")
    )


def _assigned(code: CodeType) -> set[str]:
    """The names of global variables that a code assigns to, or one inside it."""
    names = set[str]()
    if _STORE_GLOBAL in code.co_code[::2]:
        names |= {i.argval for i in dis.get_instructions(code) if i.opcode == _STORE_GLOBAL}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _assigned(constant)
    return names


def _holders(value: Any) -> Iterator[tuple[str, Any]]:
    """The containers that a value is or has, each after words for a place in it."""
    kind: Any = type(value)
    if kind is list:
        yield "item {} of a list", value
    elif isinstance(value, dict):
        yield "{!r} of a dict", value
    elif kind is FunctionType:
        names, cells = value.__code__.co_freevars, value.__closure__ or ()
        for name, cell in zip(names, cells, strict=True):
            yield f"the variable {name}", cell
        yield f"`{{}}` of {value.__name__}", value.__dict__
        yield "the variable {}", _Globals(value)
    elif not isinstance(value, type) and not kind.__module__.startswith(("builtins", "numpy")):
        try:  # without asking the object, which may have its own way to answer
            held = object.__getattribute__(value, "__dict__")
        except AttributeError:
            return
        if type(held) is dict:
            yield f"`{{}}` of {kind.__name__}", held


def _content(holder: Any) -> Any:
    if type(holder) is CellType:
        try:
            return {"": holder.cell_contents}
        except ValueError:
            return {}
    return holder.copy() if len(holder) <= _LONGEST else {}


def _changes(before: Any, now: Any) -> Iterator[tuple[Any, Any]]:
    """The places that hold something else, and what."""
    if type(before) is list:
        before, now = dict(enumerate(before)), dict(enumerate(now))
    for place, value in now.items():
        if before.get(place, _NOTHING) is not value:
            yield place, value
    yield from ((place, None) for place in before if place not in now)


def _put(holder: Any, content: Any) -> None:
    if type(holder) is CellType:
        holder.cell_contents = content[""]
    elif type(holder) is list:
        holder[:] = content
    else:
        holder.clear()
        holder.update(content)
