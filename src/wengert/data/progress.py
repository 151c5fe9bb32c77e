"""How far a download or a drawing has come, for those who wait for it."""

from __future__ import annotations

import sys
import time
from typing import IO

_WIDTH = 30
_PAUSE = 0.1  # seconds between two looks of the bar


class Progress:
    """How far something has come, on one line of a terminal; elsewhere one line at the start."""

    def __init__(self, label: str, stream: IO[str] | None = None):
        self._label = label
        self._stream = stream if stream is not None else sys.stderr
        self._terminal = self._stream is not None and self._stream.isatty()
        self._shown = 0.0

    def show(self, done: int, total: int, unit: str, scale: float = 1.0) -> None:
        """Say that `done` of `total` is there; ten times a second at most."""
        now = time.monotonic()
        if not self._label or self._stream is None or (self._shown and not self._terminal):
            return
        if done < total and now - self._shown < _PAUSE:
            return
        self._shown = now
        if not self._terminal:
            print(f"{self._label} ({total / scale:,.0f} {unit}) ...", file=self._stream)
            return
        filled = round(_WIDTH * done / total)
        bar = "#" * filled + "." * (_WIDTH - filled)
        text = f"{self._label} [{bar}] {done / scale:,.0f} of {total / scale:,.0f} {unit}"
        print(f"\r{text}", end="", file=self._stream, flush=True)

    def finish(self) -> None:
        """End the line."""
        if self._shown and self._terminal:
            print(file=self._stream)
