"""Schedules: learning rates that change while training.

A schedule writes to its optimizer's `param_groups`, at first when it is made and then whenever its
`step` is called: once an epoch, or once a step, as you like. It does so outside of compiled code,
which reads the new numbers; nothing is compiled again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..errors import OptionError, explain
from .group import Group
from .optimizer import Optimizer


class Schedule:
    """The base of all schedules: counts, and sets what `rate` says.

    `last_epoch` is the number of steps that lie behind; give it to carry on from there.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1):
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            if last_epoch == -1:
                group["initial_lr"] = group["lr"]
            elif "initial_lr" not in group:
                raise OptionError(
                    explain(
                        type(self).__name__,
                        f"last_epoch={last_epoch} with an optimizer that had no schedule",
                        "Load the optimizer's state_dict first, or leave last_epoch at -1.",
                    )
                )
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self.step()

    def rate(self, group: Group, base: float) -> float:
        """The learning rate of a group at `last_epoch`; `base` is what it was at the start."""
        raise NotImplementedError

    def step(self) -> None:
        """Go on by one epoch (or step), and set the learning rates."""
        self.last_epoch += 1
        for group, base in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = self.rate(group, base)

    def get_last_lr(self) -> list[float]:
        """The learning rates that hold now, one for each group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to carry on."""
        return {name: value for name, value in vars(self).items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Carry on from where another schedule was; the optimizer has its own state."""
        vars(self).update({name: v for name, v in state_dict.items() if name != "optimizer"})

    def __repr__(self) -> str:
        shown = {k: v for k, v in vars(self).items() if not k.startswith("_") and k != "optimizer"}
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in shown.items())})"


class StepLR(Schedule):
    """The learning rate times `gamma`, every `step_size` epochs.

    >>> import wengert as wg
    >>> from wengert import optim
    >>> optimizer = optim.SGD([wg.tensor(1.0, requires_grad=True)], lr=0.5)
    >>> schedule = StepLR(optimizer, step_size=2)
    >>> rates = []
    >>> for epoch in range(5):
    ...     rates.append(round(optimizer.lr, 6))
    ...     schedule.step()
    >>> rates
    [0.5, 0.5, 0.05, 0.05, 0.005]
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ):
        _check_count("StepLR", "step_size", step_size)
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, group: Group, base: float) -> float:
        """What holds now, times gamma at each end of a stretch; so changes by hand are kept."""
        ends = self.last_epoch > 0 and self.last_epoch % self.step_size == 0
        rate: float = group["lr"]
        return rate * self.gamma if ends else rate


class CosineLR(Schedule):
    """Half a wave of a cosine from the learning rate down to `eta_min`, over `T_max` epochs.

    With `warmup` the rate first rises in a straight line for so many epochs, out of the `T_max`.

    >>> import wengert as wg
    >>> from wengert import optim
    >>> optimizer = optim.SGD([wg.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> schedule = CosineLR(optimizer, T_max=4)
    >>> rates = []
    >>> for epoch in range(5):
    ...     rates.append(round(optimizer.lr, 3))
    ...     schedule.step()
    >>> rates
    [1.0, 0.854, 0.5, 0.146, 0.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_max: int,
        eta_min: float = 0.0,
        last_epoch: int = -1,
        *,
        warmup: int = 0,
    ):
        _check_count("CosineLR", "T_max", T_max)
        if not 0 <= warmup < T_max:
            raise OptionError(
                explain(
                    "CosineLR",
                    f"warmup={warmup}, expected at least 0 and less than T_max={T_max}",
                    "Warm up for a part of the time.",
                )
            )
        self.T_max, self.eta_min, self.warmup = T_max, eta_min, warmup
        super().__init__(optimizer, last_epoch)

    def rate(self, group: Group, base: float) -> float:
        """The point on the wave, or on the line before it."""
        if self.last_epoch < self.warmup:
            return base * (self.last_epoch + 1) / (self.warmup + 1)
        part = (self.last_epoch - self.warmup) / (self.T_max - self.warmup)
        return _cosine(base, self.eta_min, part)


class OneCycleLR(Schedule):
    """One rise to `max_lr` and a long fall to almost nothing; a step of it for every batch.

    The momentum (of Adam the first beta) goes the opposite way.

    >>> import wengert as wg
    >>> from wengert import optim
    >>> optimizer = optim.Adam([wg.tensor(1.0, requires_grad=True)])
    >>> schedule = OneCycleLR(optimizer, max_lr=0.1, total_steps=10)
    >>> rates = []
    >>> for batch in range(10):
    ...     rates.append(round(optimizer.lr, 4))
    ...     if batch < 9:
    ...         schedule.step()
    >>> rates
    [0.004, 0.052, 0.1, 0.095, 0.0812, 0.0611, 0.0389, 0.0188, 0.005, 0.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ):
        self.total_steps = _total(total_steps, epochs, steps_per_epoch)
        self.anneal_strategy = _checked_shape(anneal_strategy)
        if not 0 <= pct_start <= 1:
            raise OptionError(
                explain("OneCycleLR", f"pct_start={pct_start}, expected a number from 0 to 1", "")
            )
        self.phases = _phases(self.total_steps, pct_start, three_phase)
        self.cycle_momentum = cycle_momentum
        groups = optimizer.param_groups
        self._peaks = _each(max_lr, groups, "max_lr")
        self._momenta = list(
            zip(
                _each(base_momentum, groups, "base_momentum"),
                _each(max_momentum, groups, "max_momentum"),
                strict=True,
            )
        )
        if cycle_momentum and not {"momentum", "betas"} & set(groups[0]):
            raise OptionError(
                explain(
                    "OneCycleLR",
                    "the optimizer has neither momentum nor betas",
                    "Use cycle_momentum=False.",
                )
            )
        if last_epoch == -1:
            for group, peak in zip(groups, self._peaks, strict=True):
                group["lr"] = group["initial_lr"] = peak / div_factor
        self.final_div_factor = final_div_factor
        super().__init__(optimizer, last_epoch)

    def step(self) -> None:
        """Go on by one step; there are `total_steps` of them."""
        if self.last_epoch + 1 > self.total_steps:
            raise OptionError(
                explain(
                    "OneCycleLR: step",
                    f"called {self.last_epoch + 1} times, the cycle has {self.total_steps} steps",
                    "Give a larger total_steps, or stop calling it.",
                )
            )
        super().step()
        if self.cycle_momentum:
            for group, (low, high) in zip(self.optimizer.param_groups, self._momenta, strict=True):
                _set_momentum(group, self._at([high, low, high, high]))

    def rate(self, group: Group, base: float) -> float:
        """The point on the cycle."""
        place = next(n for n, one in enumerate(self.optimizer.param_groups) if one is group)
        last = base / self.final_div_factor
        return self._at([base, self._peaks[place], base, last])

    def _at(self, corners: list[float]) -> float:
        """What holds now of something that goes from the first corner to the last.

        A cycle of two phases goes straight from the second corner to the last.
        """
        if len(self.phases) == 2:
            corners = [corners[0], corners[1], corners[3]]
        start = 0.0
        for number, end in enumerate(self.phases):
            if self.last_epoch <= end or number == len(self.phases) - 1:
                part = (self.last_epoch - start) / (end - start)
                return self._between(corners[number], corners[number + 1], part)
            start = end
        raise AssertionError("a cycle has phases")

    def _between(self, start: float, end: float, part: float) -> float:
        if self.anneal_strategy == "cos":
            return _cosine(start, end, part)
        return start + (end - start) * part


def _cosine(start: float, end: float, part: float) -> float:
    return end + (start - end) / 2.0 * (1.0 + math.cos(math.pi * part))


def _phases(total: int, pct_start: float, three_phase: bool) -> list[float]:
    """The steps at which the phases end."""
    rise = pct_start * total - 1
    return [rise, 2 * pct_start * total - 2, total - 1] if three_phase else [rise, total - 1]


def _set_momentum(group: Group, value: float) -> None:
    if "betas" in group:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


def _total(total: int | None, epochs: int | None, each: int | None) -> int:
    if total is None and epochs is not None and each is not None:
        _check_count("OneCycleLR", "epochs", epochs)
        _check_count("OneCycleLR", "steps_per_epoch", each)
        return epochs * each
    if total is None:
        raise OptionError(
            explain(
                "OneCycleLR",
                "the number of steps is not given",
                "Give total_steps, or epochs and steps_per_epoch.",
            )
        )
    _check_count("OneCycleLR", "total_steps", total)
    return total


def _check_count(owner: str, name: str, value: Any) -> None:
    if not isinstance(value, int) or value < 1:
        raise OptionError(explain(owner, f"{name}={value!r}, expected a whole number above 0", ""))


def _checked_shape(name: str) -> str:
    if name not in ("cos", "linear"):
        raise OptionError(
            explain("OneCycleLR", f'anneal_strategy={name!r}, expected "cos" or "linear"', "")
        )
    return name


def _each(value: float | Sequence[float], groups: Sequence[Group], name: str) -> list[float]:
    """One value for each group."""
    values = list(value) if isinstance(value, (list, tuple)) else [value] * len(groups)
    if len(values) != len(groups):
        raise OptionError(
            explain(
                "OneCycleLR",
                f"got {len(values)} values of {name} for {len(groups)} groups",
                "Give one number, or one for each group.",
            )
        )
    return values  # type: ignore[return-value]
