"""Walking through the epochs: natively, many steps at a time.

`Walk` knows the batches of an epoch and runs the steps from one to another as one native call, or
as two, because a last batch that is not full has a program of its own. Before it does so it notes
the state that the steps will change. When a loss turns out not to be finite, that state is put
back and the steps before the bad one are made again, to the same bits: so the model is left as it
was before that step, and training itself pays for no check.
"""

from __future__ import annotations

import copy
import threading
import time
from typing import Any, NamedTuple

import numpy as np

from .. import tree
from ..data import epoch_order
from ..errors import ShapeError, explain
from ..jit import Repeated
from ..tensor import peek
from .closures import Closures
from .parts import Parted
from .source import Source

Calls = Repeated | Closures | Parted  # of a step, for batch after batch
# Noting the state takes at most this part of the time.
_NOTING = 0.01


class Batches:
    """The rows of the batches of one epoch: full ones, and perhaps a smaller one at the end."""

    def __init__(self, count: int, batch_size: int, drop_last: bool):
        self.size = min(batch_size, count) if not drop_last else batch_size
        self.full, rest = divmod(count, self.size)
        self.rest = 0 if drop_last else rest
        self.number = self.full + (self.rest > 0)
        if not self.number:
            raise ShapeError(
                explain(
                    "fit",
                    f"batch_size={batch_size} with drop_last leaves no batch of {count} examples",
                    "Use a smaller batch_size, or drop_last=False.",
                )
            )

    def parts(self, order: np.ndarray) -> list[np.ndarray]:
        """The rows of the full batches, and of the last one, if it is not full."""
        split = self.full * self.size
        parts = [order[:split].reshape(self.full, self.size)]
        return [*parts, order[None, split:]] if self.rest else parts

    def examples(self, first: int, last: int) -> int:
        """How many examples the batches from `first` to `last` have."""
        missing = self.size - self.rest if self.rest and last == self.number > first else 0
        return (last - first) * self.size - missing

    def mean(self, values: np.ndarray) -> float:
        """The mean over all examples of what is a mean in each batch so far."""
        weights = np.full(len(values), float(self.size))
        if self.rest and len(values) == self.number:
            weights[-1] = self.rest
        return float(np.average(values, weights=weights))

    def run(
        self,
        repeated: Calls,
        source: Source,
        moving: list[Any],
        out: Any,
        first: int,
        last: int,
    ) -> None:
        """Call for the batches from `first` to `last`; `moving` is of each part of the rows."""
        start = 0
        for rows in moving:
            length = len(rows[0])
            low, high = max(first - start, 0), min(last - start, length)
            if low < high:
                part = tree.map(lambda array: array[start : start + length], out)  # noqa: B023
                repeated.run((source.arrays,), rows, part, low, high)
            start += length


def results_for(repeated: Calls, source: Source, moving: list[Any], number: int) -> Any:
    """Arrays for what `number` calls give; compiles all that these calls will need."""
    programs = [repeated.prepare(source.arrays, tree.map(_first, rows)) for rows in moving]
    arrays = [np.zeros((number, *shape), dtype) for dtype, shape in programs[0].result_types()]
    return tree.unflatten(programs[0].structure, arrays)


def _first(array: np.ndarray) -> Any:
    return array[0]


class Orders:
    """The orders of the epochs, each made while the epoch before it runs without the GIL."""

    def __init__(self, count: int, seed: int):
        self._count, self._seed = count, seed
        self._ahead: tuple[int, threading.Thread, list[np.ndarray]] | None = None

    def of(self, epoch: int, last: bool) -> np.ndarray:
        """The order of an epoch; unless it is the last, the next one is begun."""
        found: list[np.ndarray] = []
        if self._ahead is not None and self._ahead[0] == epoch:
            _, thread, found = self._ahead
            thread.join()
        self._ahead = None
        if not last:
            self._begin(epoch + 1)
        return found[0] if found else epoch_order(self._count, self._seed, epoch)

    def _begin(self, epoch: int) -> None:
        made: list[np.ndarray] = []
        thread = threading.Thread(
            target=lambda: made.append(epoch_order(self._count, self._seed, epoch)), daemon=True
        )
        self._ahead = (epoch, thread, made)
        thread.start()


class Order(NamedTuple):
    """How the examples of an epoch are ordered."""

    seed: int
    shuffle: bool
    drop_last: bool


class Walk:
    """Runs the training steps of an epoch; `schedule` is one that goes on with every step."""

    def __init__(
        self,
        source: Source,
        repeated: Calls,
        batches: Batches,
        order: Order,
        optimizer: Any,
        schedule: Any,
    ):
        self.source, self.repeated, self.batches = source, repeated, batches
        self.state = repeated if isinstance(repeated, Closures) else Cells(repeated)
        self.optimizer, self.schedule = optimizer, schedule
        self.noted = Noted(self)
        self.values: dict[str, np.ndarray] = {}
        self.order = np.arange(source.count)
        self._orders = Orders(source.count, order.seed) if order.shuffle else None
        self._scheduled: list[np.ndarray] = []

    def begin(self, epoch: int, values: dict[str, np.ndarray]) -> None:
        """Start an epoch; `values` are those of the steps that were made already."""
        number = self.batches.number
        self._scheduled = []
        if self.schedule is not None:
            groups = self.optimizer.param_groups
            self._scheduled = [np.zeros((number, group.numbers.size)) for group in groups]
        self.values = results_for(self.repeated, self.source, self._moving(), number)
        for name, done in values.items():
            self.values[name][: len(done)] = done
        self.noted.forget()

    def reorder(self, epoch: int, last: bool) -> None:
        """Bring the examples into the order of an epoch; `last`: no other comes after it."""
        if self._orders is not None:
            self.order = self._orders.of(epoch, last)

    def _moving(self) -> list[Any]:
        """For each part of the rows, the arrays that the native loop goes along."""
        start, found = 0, []
        for rows in self.batches.parts(self.order):
            numbers = [array[start : start + len(rows)] for array in self._scheduled]
            if len(rows):
                found.append((rows, *numbers))
            start += len(rows)
        return found

    def rows(self, number: int) -> np.ndarray:
        """The rows of a batch."""
        start = number * self.batches.size
        return self.order[start : start + self.batches.size]

    def run(self, first: int, last: int) -> tuple[int, int | None]:
        """Make the steps from `first` to `last`.

        Gives the number of the step after them, and that of the first whose loss is not finite;
        then the state is as it was before that one.
        """
        if self.noted.due:
            self.noted.take(first)
        switches = self.switches()
        last = self._follow_schedule(first, last)
        following = self.switches()
        self.turn(switches)
        self._run(first, last)
        self.turn(following)
        finite = np.isfinite(self.values["loss"][first:last])
        if finite.all():
            if following != switches:  # steps can be made again only by the same programs
                self.noted.forget()
            return last, None
        bad = first + int(np.argmin(finite))
        self.rewind(bad)
        return bad, bad

    def switches(self) -> list[dict[str, bool]]:
        """Which options are turned on; they decide which program a step is."""
        if self.schedule is None:
            return []
        return [group.switches() for group in self.optimizer.param_groups]

    def turn(self, switches: list[dict[str, bool]]) -> None:
        """Turn options on and off."""
        if switches != self.switches():
            self.optimizer.turn(switches)

    def rewind(self, step: int) -> None:
        """Bring the state back to where it was before a step."""
        start = self.noted.put_back()
        self._run(start, step)
        if self.schedule is not None:
            for _ in range(start, step):
                self.schedule.step()

    def _run(self, first: int, last: int) -> None:
        self.batches.run(self.repeated, self.source, self._moving(), self.values, first, last)

    def _follow_schedule(self, first: int, last: int) -> int:
        """Write down the options of the steps; stops where one is turned on or off."""
        if self.schedule is None:
            return last
        groups = self.optimizer.param_groups
        switches = self.switches()
        for step in range(first, last):
            for group, numbers in zip(groups, self._scheduled, strict=True):
                numbers[step] = peek(group.numbers)
            self.schedule.step()
            if self.switches() != switches:
                return step + 1
        return last


class Cells:
    """The memory that native steps change, to be noted and put back."""

    def __init__(self, repeated: Repeated | Parted):
        self._repeated = repeated
        self._cells: dict[int, tuple[Any, np.ndarray]] = {}
        self._present: dict[int, bool] = {}

    def take(self) -> None:
        """Note what is there."""
        for program in self._repeated.programs():
            for state in program.state:
                cell = state.cell
                if state.written and id(cell) not in self._cells:
                    self._cells[id(cell)] = (cell, np.empty_like(cell.memory))
        for key, (cell, saved) in self._cells.items():
            np.copyto(saved, cell.memory)
            self._present[key] = cell.present

    def put_back(self) -> None:
        """Bring back what was noted."""
        for key, (cell, saved) in self._cells.items():
            cell.store(saved if self._present[key] else None)


class Noted:
    """The state that the steps change, noted before some of them."""

    def __init__(self, walk: Walk):
        self.walk = walk
        self.at: int | None = None
        self._options: list[np.ndarray] = []
        self._schedule: Any = None
        self._switches: list[dict[str, bool]] = []
        self._next = 0.0

    @property
    def due(self) -> bool:
        """Whether it is time to note the state again."""
        return self.at is None or time.monotonic() >= self._next

    def forget(self) -> None:
        """The state has changed in other ways than by steps."""
        self.at = None

    def take(self, step: int) -> None:
        """Note the state before this step."""
        start = time.monotonic()
        self.walk.state.take()
        if self.walk.schedule is not None:
            self._options = [np.array(peek(g.numbers)) for g in self.walk.optimizer.param_groups]
            self._schedule = copy.deepcopy(self.walk.schedule.state_dict())
            self._switches = self.walk.switches()
        self.at = step
        now = time.monotonic()
        self._next = now + (now - start) / _NOTING

    def put_back(self) -> int:
        """Bring back the state that was noted; the step before which that was."""
        assert self.at is not None
        self.walk.state.put_back()
        if self.walk.schedule is not None:
            self.walk.schedule.load_state_dict(copy.deepcopy(self._schedule))
            for group, numbers in zip(self.walk.optimizer.param_groups, self._options, strict=True):
                group.numbers[...] = numbers
            self.walk.turn(self._switches)
        return self.at
