"""What is to be scheduled, and what every step may ask about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..graph import Graph
from ..loops import LoopProgram
from ..policy import Record

if TYPE_CHECKING:
    from ..passes.lengths import AnyLength

Strides = Sequence[tuple[int, ...]]


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
