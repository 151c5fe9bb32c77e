"""The functions of users, made ready to be traced: `jit` has their control flow become operations.

Wherever wengert calls a function of a user's, it does so by `called`. One of SciPy's is made ready
to take traced values.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from ..errors import is_users
from .hidden import watched
from .reaching import arriving, is_scipys


class _Prepared(threading.local):
    current: Preparing | None = None


_state = _Prepared()

# How control flow becomes operations, and why it may not: `jit`, which has the converter, says so.
CONVERTER: tuple[Callable[[Any], Any] | None, Callable[[Any], str] | None] = (None, None)


def called(function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """What a user's function gives: called as it is, or with its control flow traced."""
    if is_scipys(function):
        function = arriving(function)
    current = _state.current
    if current is not None and current.prepare is not None:
        function = current.prepare(function)
    return watched(function, args, kwargs)


class Preparing:
    """While it lasts, the functions of users are prepared like this before they are called."""

    def __init__(
        self,
        prepare: Callable[[Any], Any] | None,
        reason: Callable[[Any], str] | None = None,
        turn_by_turn: bool = False,
    ):
        self.prepare, self.reason, self.turn_by_turn = prepare, reason, turn_by_turn
        # containers, by their `id`, with others that may be the same: a traced condition decides
        self.alike: dict[int, tuple[Any, list[Any]]] = {}

    def __enter__(self) -> None:
        self.outer, _state.current = _state.current, self

    def __exit__(self, *exc_info: object) -> None:
        _state.current = self.outer


def converting() -> Preparing | None:
    """What converts control flow; None where `jit` has said already whether it is converted."""
    return Preparing(*CONVERTER, turn_by_turn=True) if _state.current is None else None


def alike() -> dict[int, tuple[Any, list[Any]]]:
    """Containers of the functions that are traced now, with others that may be the same."""
    return {} if _state.current is None else _state.current.alike


def turn_by_turn() -> bool:
    """Whether loops over known ranges are written out, though one turn could stand for all."""
    return _state.current is not None and _state.current.turn_by_turn


def unprepared() -> str:
    """Why the user's function that runs now is called as it is; empty where nothing is to say."""
    frame = _user_frame()
    told = _state.current and _state.current.reason
    reason = told(frame.f_code) if frame and told else ""
    return f"; {frame.f_code.co_name} is not converted: {reason}" if frame and reason else ""


def _user_frame() -> FrameType | None:
    """The innermost frame of the user's, or None."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_users(frame):
        frame = frame.f_back
    return frame
