"""`fit`: the loop of a training.

What it does is what one would write by hand:

    for epoch in range(epochs):
        for rows in batches(epoch_order(count, seed, epoch)):
            x, y = gather(train, rows)
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()
        validate(); tell callbacks; step the schedule; write a checkpoint

except that the inner loop is native: hundreds of steps are one call (see `epoch_loop.py`), long
enough to cost nothing and short enough for the bar to move and for Ctrl-C.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterable
from typing import Any

from .. import distributed, job, nn
from ..errors import DTypeError, NotFiniteError, OptionError, explain
from ..numpy import random
from ..optim import OneCycleLR, Optimizer, Schedule
from .callbacks import Callbacks, EarlyStopping
from .checkpoints import restore_state, state_of
from .epoch_loop import Batches, Order, Walk
from .evaluation import Evaluation, in_mode, kept_modes
from .history import VALIDATION, History, in_order
from .interrupts import Interrupts
from .not_finite import where_it_began
from .parts import parts_of
from .progress import Progress, progress_for
from .run import Run
from .saving import Saving
from .shards import Shards
from .source import Source, unpacked
from .steps import Metrics, Steps

_CHUNK = 0.15  # seconds between two looks of Python
_GROWTH = 4  # of the number of steps in a native call, at most
_DROPOUT = 0x64726F70  # sets the stream of random numbers apart from the orders of the epochs


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during `fit`; `history` has what was done."""

    history: History


def fit(
    model: nn.Module,
    loss: Callable[[Any, Any], Any],
    optimizer: Optimizer,
    train: Any,
    epochs: int,
    batch_size: int | None = None,
    validation: Any = None,
    seed: int = 0,
    callbacks: Iterable[Any] | Callable[[Any], Any] = (),
    checkpoint: Any = None,
    *,
    metrics: str | Metrics | None = "auto",
    schedule: Schedule | None = None,
    schedule_every: str = "auto",
    clip_norm: float | None = None,
    patience: int | None = None,
    shuffle: bool = True,
    drop_last: bool = False,
    scale: bool = True,
    progress: Any = True,
    checkpoint_seconds: float = 60.0,
    checkpoint_steps: int | None = None,
    parts: int | None = None,
    shard_optimizer: bool = False,
) -> History:
    """Train a model, natively; the `History` has the curves.

    `train` and `validation` are pairs (x, y) of arrays or trees of arrays, a split of a data set,
    or a `data.Loader` of one of these, whose seed, shuffle, drop_last and, if none is given here,
    batch size hold. Inputs of uint8
    become ``byte / float32(255)`` in the step, unless `scale` is false. `loss(model(x), y)` is the
    mean over a batch.

    The same model, optimizer, data and `seed` give the same bits, with any number of threads:
    the orders of the epochs and the masks of dropout are functions of the seed.

    `metrics` are functions of (output, target) by name that give one number for each example;
    "auto" measures the accuracy where targets are integers and outputs have one axis more.
    `schedule` goes on with every epoch, or with every step (`schedule_every`, "epoch" or "step";
    a `OneCycleLR` with every step by default). `clip_norm` bounds the norm of the gradients.
    `callbacks` watch (see `train.Callback`), and `patience` is short for `EarlyStopping`.

    With `checkpoint`, a path, all state is written there atomically after each epoch and every
    `checkpoint_seconds` or `checkpoint_steps`. A file that is there already is resumed from: the
    training ends with the bits of one that was never interrupted.

    Under `mpiexec` each rank takes its share of every batch, and all have the same parameters
    throughout. A batch is then cut into `parts`, a power of two that depends on its size unless it
    is given here, whose gradients are added up in a fixed order: any number of ranks gives the same
    bits as one process with the same `parts`. With `shard_optimizer` each rank keeps the
    optimizer's state of some parameters alone. See docs/scaling.md.

    A step of `optim.LBFGS` is one of its, with up to `max_iter` iterations, for each batch; it
    decides in Python, and what it evaluates is compiled. Give it all examples as one batch.

    A loss that is not finite raises `NotFiniteError` with the step and the layer where it began;
    the model is then as it was before that step. Ctrl-C ends the training after the steps under
    way, writes the checkpoint and raises KeyboardInterrupt. Any error has the `history` so far.

    >>> import numpy as np
    >>> from wengert import nn, optim
    >>> nn.manual_seed(0)
    >>> line = nn.Linear(1, 1)
    >>> x = np.linspace(-1, 1, 200, dtype=np.float32)[:, None]
    >>> optimizer = optim.SGD(line.parameters(), lr=0.1)
    >>> history = fit(line, nn.mse_loss, optimizer, (x, 3 * x + 1), 20, 10, progress=False)
    >>> line.weight.numpy().round(2), line.bias.numpy().round(2)
    (array([[3.]], dtype=float32), array([1.], dtype=float32))
    >>> history.last["loss"] < 1e-3
    True
    """
    _check_kinds(model, loss, optimizer, schedule)
    examples, loader = unpacked(train)
    source = Source("fit: argument train", examples, scale)
    if loader is None:
        order = Order(seed, shuffle, drop_last)
    else:
        order = Order(loader.seed, loader.shuffle, loader.drop_last)
        batch_size = loader.batch_size if batch_size is None else batch_size
    batch_size = _whole("batch_size", batch_size, 1)
    parts = _parts(parts, batch_size, source, optimizer)
    settings = {
        "examples": source.count,
        "batch_size": batch_size,
        "seed": _whole("seed", seed, 0),
        "order_seed": order.seed,
        "shuffle": order.shuffle,
        "drop_last": order.drop_last,
        "parts": parts,
    }
    steps = Steps(model, loss, optimizer, metrics, clip_norm)
    shards = Shards(optimizer) if shard_optimizer and distributed.size() > 1 else None
    walk = Walk(
        source,
        steps.training(source, parts, shards),
        Batches(source.count, batch_size, order.drop_last),
        order,
        optimizer,
        schedule if _is_each_step(schedule, schedule_every) else None,
    )
    evaluation = None
    if validation is not None:
        held = Source("fit: argument validation", unpacked(validation)[0], scale)
        evaluation = Evaluation(model, held, steps.evaluation(held), batch_size)
    watching = Callbacks(callbacks)
    if patience is not None:
        watching.add(EarlyStopping(patience))
    if checkpoint_steps is not None:
        _whole("checkpoint_steps", checkpoint_steps, 1)
    return _Training(
        Run(model, optimizer, schedule, _whole("epochs", epochs, 0)),
        walk,
        steps,
        evaluation,
        watching,
        Saving(checkpoint, settings, checkpoint_seconds, checkpoint_steps, shards),
        progress_for(
            progress if job.world().leads else False,
            "images" if source.images else "examples",
        ),
        seed,
        shards,
    ).fit()


class _Training:
    """The parts of a training, put together."""

    def __init__(
        self,
        run: Run,
        walk: Walk,
        steps: Steps,
        evaluation: Evaluation | None,
        callbacks: Callbacks,
        saving: Saving,
        progress: Progress,
        seed: int,
        shards: Shards | None = None,
    ):
        self.run, self.walk, self.steps, self.evaluation = run, walk, steps, evaluation
        self.callbacks, self.saving, self.progress = callbacks, saving, progress
        self.seed, self.shards = seed, shards
        self.pace = _Pace()
        self.world = job.world()

    def fit(self) -> History:
        """Train to the end."""
        before = nn.get_rng_state()
        nn.set_rng_state(random.fold_in(random.key(self.seed), _DROPOUT))
        try:
            with Interrupts() as interrupts, in_mode(self.run.model, True):
                self._fit(interrupts)
        except BaseException as error:
            error.history = self.run.history  # type: ignore[attr-defined]
            raise
        finally:
            self.progress.close()
            nn.set_rng_state(before)
        return self.run.history

    def _fit(self, interrupts: Interrupts) -> None:
        run = self.run
        self._begin_alike()
        if self.shards is not None:
            self.shards.drop_others()
        self.saving.resume(run, self.callbacks)
        if run.step:
            self.progress.note(f"resumed after {run.epoch} epochs and {run.batch} steps")
        self.progress.start(run.epochs, self.walk.batches.number, run.epoch)
        self._tell("on_start")
        while not run.finished:
            self._run_epoch(interrupts)
            self._finish_epoch()
            self._look(interrupts)
        if self.shards is not None:
            self.shards.bring_together()
        self._tell("on_end")

    def _begin_alike(self) -> None:
        """Let all ranks start from what the first one has."""
        run, world = self.run, self.world
        if world.size > 1:
            state = world.agreed(state_of(run.model, run.optimizer, run.schedule))
            restore_state(state, run.model, run.optimizer, run.schedule)

    def _tell(self, event: str) -> None:
        """Call the callbacks, which may change the model, but not its modes."""
        if self.callbacks.listen(event):
            with kept_modes(self.run.model):
                self.callbacks.call(event, self.run)
            self.walk.noted.forget()
            self.run.stopped = self.world.any(self.run.stopped)

    def _look(self, interrupts: Interrupts) -> None:
        """End the training if Ctrl-C was pressed."""
        if self.world.any(interrupts.pressed):
            self.saving.write(self.run, self.callbacks)
            where = f" The checkpoint is {self.saving.path}." if self.saving.path else ""
            raise Interrupted(
                f"fit: interrupted in epoch {self.run.epoch + 1} after {self.run.batch} of "
                f"{self.walk.batches.number} steps.{where}"
            )

    def _run_epoch(self, interrupts: Interrupts) -> None:
        """The steps of an epoch, or those that are left of it."""
        run, number = self.run, self.walk.batches.number
        start = time.perf_counter()
        self.walk.reorder(run.epoch, last=run.epoch + 1 == run.epochs)
        run.seconds += time.perf_counter() - start
        steps = run.history.steps if run.batch else {}
        self.walk.begin(run.epoch, {name: curve[-run.batch :] for name, curve in steps.items()})
        while run.batch < number:
            first = run.batch
            last = min(number, first + self.pace.steps, first + self.saving.until_due(run.step))
            start = time.perf_counter()
            last, bad = self.walk.run(first, last)
            spent = self.world.agreed(time.perf_counter() - start)
            self._count(first, last, spent)
            if bad is not None:
                self._fail(bad)
            self._show()
            self._tell("on_progress")
            if self.saving.due(run.step):
                self.saving.write(run, self.callbacks)
            if run.batch < number:
                self._look(interrupts)

    def _count(self, first: int, last: int, spent: float) -> None:
        run = self.run
        self.pace.note(last - first, spent)
        run.batch = last
        run.step += last - first
        run.seconds += spent
        run.history.add_steps({n: v[first:last] for n, v in self.walk.values.items()})

    def _means(self) -> dict[str, float]:
        """The means over the epoch so far."""
        values, done = self.walk.values, self.run.batch
        return {name: self.walk.batches.mean(values[name][:done]) for name in in_order(values)}

    def _speed(self) -> float:
        return self.walk.batches.examples(0, self.run.batch) / max(self.run.seconds, 1e-9)

    def _show(self) -> None:
        self.progress.advance(self.run.epoch, self.run.batch, self._means(), self._speed())

    def _finish_epoch(self) -> None:
        """What happens between two epochs."""
        run = self.run
        record = self._means()
        if self.evaluation is not None:
            held = self.evaluation.run()
            record |= {VALIDATION + name: held[name] for name in in_order(held)}
        if run.schedule is not None:
            record["lr"] = run.optimizer.lr
        record |= {"seconds": run.seconds, "examples_per_second": self._speed()}
        run.history.add_epoch(record)
        self.progress.finish_epoch(run.epoch, run.history.last)
        run.epoch += 1
        run.batch, run.seconds = 0, 0.0
        self._tell("on_epoch_end")
        if run.schedule is not None and self.walk.schedule is None:
            run.schedule.step()
        self.saving.write(run, self.callbacks)

    def _fail(self, bad: int) -> None:
        """Say where a loss that is not finite began; the state is that of before the step."""
        walk, run = self.walk, self.run
        value = walk.values["loss"][bad]
        rows = walk.rows(bad)
        x, y = walk.source.batch(walk.source.arrays, rows)
        walk.noted.take(bad)
        layer, words = where_it_began(run.model, self.steps.loss, x, y)
        walk.noted.put_back()
        error = NotFiniteError(
            explain(
                "fit",
                f"the loss is {value} in step {bad + 1} of epoch {run.epoch + 1}; {words}",
                f"Try a smaller learning rate (it is {run.optimizer.lr:g}), clip_norm=1.0, or "
                "inputs of a smaller scale. The model is as it was before that step.",
            )
        )
        error.step, error.layer, error.rows = run.step, layer, rows  # type: ignore[attr-defined]
        raise error


def _parts(parts: int | None, batch_size: int, source: Source, optimizer: Optimizer) -> int | None:
    """Into how many parts a batch is cut; None: it is taken as a whole."""
    world = job.world()
    if parts is not None and (_whole("parts", parts, 1) & (parts - 1) or parts > batch_size):
        raise OptionError(
            explain(
                "fit",
                f"got parts={parts} for batch_size={batch_size}",
                "Give a power of two that is no more than the batch size.",
            )
        )
    if world.communicator is None:
        found = parts
    else:
        found = parts or parts_of(min(batch_size, source.count))
    if found is None:
        return None
    if optimizer.asks:
        raise OptionError(
            explain(
                "fit",
                f"{type(optimizer).__name__} decides by the whole loss, and got a batch in parts",
                "Run it in one process, without parts.",
            )
        )
    if world.size > found:
        raise OptionError(
            explain(
                "fit",
                f"{world.size} ranks cannot share a batch of {batch_size} in {found} parts",
                "Use fewer ranks, a larger batch_size, or more parts.",
            )
        )
    if not world.same([(array.shape, array.dtype.str) for array in source.arrays]):
        raise OptionError(
            explain(
                "fit: argument train",
                "the ranks have arrays of other shapes or dtypes",
                "Give every rank all examples; each reads its own rows. Arrays that do not fit "
                'into memory can be mapped: np.load(path, mmap_mode="r").',
            )
        )
    return found


class _Pace:
    """How many steps a native call has."""

    def __init__(self) -> None:
        self.steps = 1

    def note(self, steps: int, seconds: float) -> None:
        """Learn from a call."""
        if steps:
            fitting = int(_CHUNK * steps / max(seconds, 1e-9))
            self.steps = max(1, min(fitting, _GROWTH * self.steps))


# ---------------------------------------------------------------- arguments


def _whole(name: str, value: Any, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise OptionError(
            explain("fit", f"got {name}={value!r}, expected a whole number of at least {least}")
        )
    return number


def _check_kinds(model: Any, loss: Any, optimizer: Any, schedule: Any) -> None:
    if not isinstance(model, nn.Module):
        raise _wrong("model", model, "an nn.Module", "Write a class with forward(self, x).")
    if not callable(loss):
        raise _wrong("loss", loss, "a function of (output, target)", "Give nn.cross_entropy.")
    if not isinstance(optimizer, Optimizer):
        raise _wrong(
            "optimizer", optimizer, "an optimizer", "Give optim.SGD(model.parameters(), lr=0.01)."
        )
    if schedule is not None and not isinstance(schedule, Schedule):
        raise _wrong("schedule", schedule, "a schedule", "Give optim.CosineLR(optimizer, 10).")
    if schedule is not None and schedule.optimizer is not optimizer:
        raise OptionError(
            explain("fit", "the schedule is of another optimizer", "Make it with this one.")
        )


def _wrong(name: str, value: Any, expected: str, remedy: str) -> DTypeError:
    got = f"got {type(value).__name__} as {name}, expected {expected}"
    return DTypeError(explain("fit", got, remedy))


def _is_each_step(schedule: Schedule | None, every: str) -> bool:
    if every not in ("auto", "epoch", "step"):
        raise OptionError(
            explain("fit", f'got schedule_every={every!r}, expected "auto", "epoch" or "step"')
        )
    if schedule is None or every == "epoch":
        return False
    return every == "step" or isinstance(schedule, OneCycleLR)
