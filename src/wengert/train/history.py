"""What happened in a training: the curves, step by step and epoch by epoch.

>>> history = History()
>>> history.add_steps({"loss": np.array([2.0, 1.0]), "accuracy": np.array([0.5, 0.75])})
>>> history.add_epoch({"loss": 1.5, "accuracy": 0.625, "validation_loss": 1.1, "seconds": 0.2})
>>> history
1 epoch, 2 steps, 0.2 s
  epoch    loss  accuracy  validation loss  seconds
      1  1.5000    62.50%           1.1000      0.2
>>> history["validation_loss"]
array([1.1])
>>> history.steps["loss"]
array([2., 1.])
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ..displays import curves, table
from ..errors import MissingPackageError, OptionError, explain

VALIDATION = "validation_"
_BOTH_ENDS = 8  # of a long table
_TIMES = ("lr", "seconds", "examples_per_second")


class History:
    """The curves of a training.

    `steps` has an array with one number for each step by name: "loss", and the metrics such as
    "accuracy". `epochs` has a dict of numbers for each epoch: the means of those, the same with
    "validation_" in front, "lr", "seconds" and "examples_per_second". ``history[name]`` is one of
    these numbers for all epochs.
    """

    def __init__(self) -> None:
        self.epochs: list[dict[str, float]] = []
        self._parts: dict[str, list[np.ndarray]] = {}

    # ------------------------------------------------------------ filling it

    def add_steps(self, values: Mapping[str, np.ndarray]) -> None:
        """Append the numbers of some steps."""
        for name, part in values.items():
            self._parts.setdefault(name, []).append(np.array(part, float))

    def add_epoch(self, record: Mapping[str, float]) -> None:
        """Append the numbers of an epoch."""
        self.epochs.append({name: float(value) for name, value in record.items()})

    # ------------------------------------------------------------ reading it

    @property
    def steps(self) -> dict[str, np.ndarray]:
        """The curves over the steps."""
        for name, parts in self._parts.items():
            self._parts[name] = [np.concatenate(parts)]
        return {name: self._parts[name][0] for name in in_order(self._parts)}

    @property
    def step_count(self) -> int:
        """How many steps there were."""
        return sum(map(len, self._parts.get("loss", ())))

    @property
    def loss(self) -> np.ndarray:
        """The loss of every step."""
        return self.steps.get("loss", np.zeros(0))

    @property
    def accuracy(self) -> np.ndarray:
        """The accuracy in the batch of every step, from 0 to 1."""
        return self._curve("accuracy")

    @property
    def last(self) -> dict[str, float]:
        """The numbers of the last epoch."""
        return self.epochs[-1] if self.epochs else {}

    @property
    def seconds(self) -> float:
        """The time that all epochs took together."""
        return sum(record.get("seconds", 0.0) for record in self.epochs)

    def __len__(self) -> int:
        return len(self.epochs)

    def __getitem__(self, name: str) -> np.ndarray:
        known = self.names()
        if name not in known:
            raise OptionError(
                explain(
                    "History",
                    f"there is no {name!r}",
                    f"Known are {', '.join(known) or 'no numbers yet'}.",
                )
            )
        return np.array([record.get(name, np.nan) for record in self.epochs])

    def __contains__(self, name: str) -> bool:
        return name in self.names()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def names(self) -> list[str]:
        """The names of the numbers that epochs have."""
        return list(dict.fromkeys(name for record in self.epochs for name in record))

    def _curve(self, name: str) -> np.ndarray:
        steps = self.steps
        if name not in steps:
            raise OptionError(
                explain(
                    "History",
                    f"no {name} was measured",
                    "It is measured for integer labels, or as fit(..., metrics=...) says.",
                )
            )
        return steps[name]

    # ------------------------------------------------------------ as plain data

    def to_dict(self) -> dict[str, Any]:
        """All of it as lists and numbers, which JSON can hold."""
        steps = {name: curve.tolist() for name, curve in self.steps.items()}
        return {"steps": steps, "epochs": [dict(record) for record in self.epochs]}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> History:
        """The history that `to_dict` was asked of.

        >>> History.from_dict(History().to_dict())
        no steps yet
        """
        history = cls()
        if content["steps"]:
            history.add_steps({name: np.array(c, float) for name, c in content["steps"].items()})
        for record in content["epochs"]:
            history.add_epoch(record)
        return history

    def to_json(self, path: Any = None) -> str:
        """The same as text; written to a file if `path` is given. NaN is null."""
        text = json.dumps(_without_nan(self.to_dict()), allow_nan=False)
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return text

    # ------------------------------------------------------------ for people

    def __repr__(self) -> str:
        if not self.step_count and not self.epochs:
            return "no steps yet"
        head = f"{_counted(len(self.epochs), 'epoch')}, {_counted(self.step_count, 'step')}"
        lines = [f"{head}, {shown('seconds', self.seconds)} s"]
        if self.epochs:
            lines += _table(self.names(), self.epochs)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The curves of loss and metrics, in training and validation, and the table."""
        own = [n for n in self.names() if not n.startswith(VALIDATION) and n not in _TIMES]
        pictures = []
        for name in own if len(self.epochs) > 1 else []:
            kinds = {"training": name, "validation": VALIDATION + name}
            found = {kind: list(self[key]) for kind, key in kinds.items() if key in self}
            pictures.append(curves(name, found))
        title = repr(self).partition("\n")[0]
        return "".join(pictures) + table(title, *_rows(self.names(), self.epochs))

    def plot(self, path: Any = None) -> Any:
        """Draw loss and accuracy: every step, the epochs' means, the validation.

        Writes an image if `path` is given (png, svg, pdf). Gives the matplotlib figure.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise MissingPackageError(
                explain(
                    "History.plot",
                    "matplotlib is not installed",
                    "Install it with: pip install 'wengert[plots]'.",
                )
            ) from None
        names = list(self.steps) or ["loss"]
        figure = Figure(figsize=(6.4 * len(names), 4.2), layout="constrained")
        for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
            self._draw(axes, name)
        if path is not None:
            figure.savefig(os.fspath(path), dpi=120)
        return figure

    def _draw(self, axes: Any, name: str) -> None:
        curve = self.steps.get(name, np.zeros(0))
        per_epoch = len(curve) / max(len(self.epochs), 1)
        places = (np.arange(len(curve)) + 1) / per_epoch if len(curve) else curve
        axes.plot(places, curve, color="0.8", linewidth=0.6, label="step")
        ends = np.arange(1, len(self.epochs) + 1)
        # a mean over an epoch belongs to its middle, a validation to its end
        for key, label, shift in ((name, "epoch", 0.5), (VALIDATION + name, "validation", 0.0)):
            if key in self:
                axes.plot(ends - shift, self[key], marker="o", markersize=3, label=label)
        axes.set_xlabel("epoch")
        axes.set_ylabel(name)
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)


def in_order(names: Iterable[str]) -> list[str]:
    """The loss first, then the metrics.

    >>> in_order({"accuracy", "loss", "area"})
    ['loss', 'accuracy', 'area']
    """
    return sorted(names, key=lambda name: (name != "loss", name))


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def shown(name: str, value: float) -> str:
    """A number as people read it.

    >>> shown("validation_accuracy", 0.98765), shown("loss", 0.1234567)
    ('98.77%', '0.1235')
    """
    base = name.removeprefix(VALIDATION)
    if base == "accuracy":
        return f"{value:.2%}"
    if base == "examples_per_second":
        return f"{value:,.0f}"
    if base == "seconds":
        return f"{value:.3g}"
    if base == "lr":
        return f"{value:.4g}"
    return f"{value:.4f}" if 1e-3 <= abs(value) < 1e6 else f"{value:.4g}"


def _rows(names: list[str], epochs: list[dict[str, float]]) -> tuple[list[str], list[list[str]]]:
    """The heads of a table of epochs, and its rows; of a long one both ends."""
    rows = [
        [str(number), *(shown(name, one[name]) if name in one else "" for name in names)]
        for number, one in enumerate(epochs, 1)
    ]
    if len(rows) > 2 * _BOTH_ENDS:
        rows = [*rows[:_BOTH_ENDS], ["...", *[""] * len(names)], *rows[-_BOTH_ENDS:]]
    return ["epoch", *(name.replace("_", " ") for name in names)], rows


def _table(names: list[str], epochs: list[dict[str, float]]) -> list[str]:
    heads, rows = _rows(names, epochs)
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    return [
        "  " + "  ".join(c.rjust(width) for c, width in zip(row, widths, strict=True)).rstrip()
        for row in [heads, *rows]
    ]


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_without_nan(one) for one in value]
    return value if not isinstance(value, float) or np.isfinite(value) else None
