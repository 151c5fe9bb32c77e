"""Which of the steps for speed are taken: all, unless the environment chooses among them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from contextvars import ContextVar

from ..errors import OptionError

# The environment variable that chooses among the steps.
SETTING = "WENGERT_SCHEDULE"

_instead: ContextVar[str | None] = ContextVar("steps", default=None)


def setting() -> str:
    """The steps that the environment chooses, as text: part of what compiled code depends on."""
    instead = _instead.get()
    return os.environ.get(SETTING, "").replace(" ", "") if instead is None else instead


@contextlib.contextmanager
def with_setting(text: str) -> Iterator[None]:
    """Choose the steps in place of the environment.

    >>> with with_setting("plain"):
    ...     setting()
    'plain'
    """
    token = _instead.set(text)
    try:
        yield
    finally:
        _instead.reset(token)


def choose_steps(names: Sequence[str], text: str) -> frozenset[str]:
    """The speed steps that are on, of these: all; `plain` leaves out all, `-name` one, and `+name`
    brings one back.

    >>> sorted(choose_steps(["chunks", "regions", "threads"], "-chunks"))
    ['regions', 'threads']
    >>> sorted(choose_steps(["chunks", "regions", "threads"], "plain,+threads"))
    ['threads']
    """
    chosen = set(names)
    for word in filter(None, text.split(",")):
        name = word[1:]
        if word == "plain":
            chosen = set()
        elif word[0] == "-" and name in names:
            chosen.discard(name)
        elif word[0] == "+" and name in names:
            chosen.add(name)
        else:
            raise OptionError(
                f"{SETTING}: got {word!r}, expected plain, or -name or +name with a name among "
                f"{', '.join(names)}, separated by commas"
            )
    return frozenset(chosen)
