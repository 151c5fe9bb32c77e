"""Ctrl-C during a training: the steps under way are finished first.

Python may raise KeyboardInterrupt between any two lines, in the middle of writing down what was
done. So while `fit` runs, Ctrl-C only leaves a mark, which `fit` looks at between the native calls.
Pressed a second time it interrupts at once.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class Interrupts:
    """Use as a context manager; `pressed` says whether Ctrl-C was pressed inside.

    Signals belong to the main thread; in others, and where the program handles Ctrl-C in a way of
    its own, nothing is changed.
    """

    def __init__(self) -> None:
        self.pressed = False
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        own = threading.current_thread() is threading.main_thread()
        if own and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._mark)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _mark(self, number: int, frame: FrameType | None) -> None:
        if self.pressed:
            signal.default_int_handler(number, frame)
        self.pressed = True
