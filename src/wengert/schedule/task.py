"""What is to be scheduled, and what every step may ask about it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from ..errors import OptionError
from ..graph import Graph
from ..loops import LoopProgram
from ..policy import Record

if TYPE_CHECKING:
    from ..passes.lengths import AnyLength

Strides = Sequence[tuple[int, ...]]

# The environment variable that chooses among the steps.
SETTING = "WENGERT_SCHEDULE"


class Task(Record):
    """A graph on its way to loops: the whole program, or one inside it, and what is around it."""

    graph: Graph
    steps: frozenset[str]  # the speed steps that are on
    run: Callable[..., LoopProgram]  # all steps, one after the other
    rule: Callable[[Task, str], Any]  # how an operation lowers that only some step knows
    # What it is a program for: everything ("program"), everything once it was cut into chunks
    # ("chunked"), one chunk of samples ("chunk"), one step of a scan ("step"), one block of samples
    # ("block").
    kind: str = "program"
    input_strides: Strides | None = None
    output_strides: Strides | None = None
    any_length: AnyLength | None = None
    continued: frozenset[int] = frozenset()  # sums whose memory holds a part already, by serial
    # What is written to where an input lies: values by serial, with the numbers of the inputs, and
    # the reads of what is overwritten, which are done before that.
    places: Mapping[int, int] = {}
    reads: frozenset[int] = frozenset()
    watch: Callable[..., None] | None = None  # sees every step; see `steps.schedule`
    notes: list[str]

    def has(self, step: str) -> bool:
        """Whether a speed step is on."""
        return step in self.steps

    def note(self, tell: Callable[[], str]) -> None:
        """Tell of a decision, where somebody watches."""
        if self.watch is not None:
            self.notes.append(tell())


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
