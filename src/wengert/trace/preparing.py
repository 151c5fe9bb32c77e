"""The functions of users, made ready to be traced: `jit` has their control flow become operations.

Wherever wengert calls a function of a user's, it calls what `prepared` gives for it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from ..errors import OURS


class _Prepare(threading.local):
    def __init__(self) -> None:
        self.prepare: Callable[[Any], Any] | None = None
        self.reason: Callable[[Any], str] | None = None
        self.turn_by_turn = False


_state = _Prepare()


def prepared(function: Any) -> Any:
    """What is called in place of a user's function: the same, or with its control flow traced."""
    return function if _state.prepare is None else _state.prepare(function)


class Preparing:
    """While it lasts, the functions of users are prepared like this before they are called."""

    def __init__(
        self,
        prepare: Callable[[Any], Any] | None,
        reason: Callable[[Any], str] | None = None,
        turn_by_turn: bool = False,
    ):
        self.own = prepare, reason, turn_by_turn

    def __enter__(self) -> None:
        self.outer = _state.prepare, _state.reason, _state.turn_by_turn
        _state.prepare, _state.reason, _state.turn_by_turn = self.own

    def __exit__(self, *exc_info: object) -> None:
        _state.prepare, _state.reason, _state.turn_by_turn = self.outer


def turn_by_turn() -> bool:
    """Whether loops over known ranges are written out, though one turn could stand for all."""
    return _state.turn_by_turn


def unprepared() -> str:
    """Why the user's function that runs now is called as it is; empty where nothing is to say."""
    frame = _user_frame()
    reason = "" if frame is None or _state.reason is None else _state.reason(frame.f_code)
    return f"; {frame.f_code.co_name} is not converted: {reason}" if frame and reason else ""


def _user_frame() -> FrameType | None:
    """The innermost frame outside wengert and numpy, or None."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(OURS):
        frame = frame.f_back
    return frame
