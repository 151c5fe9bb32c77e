"""Rules that look at a parameter as a matrix: Muon and Adafactor."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..errors import OptionError, ShapeError, explain
from .group import Group
from .optimizer import Optimizer, Start
from .rules import check_range


class Muon(Optimizer):
    """Momentum, made nearly orthogonal: all directions of a matrix move alike.

    It is for parameters that are matrices; give vectors and embeddings to `AdamW`. The singular
    values of a step are brought near to 1 by `ns_steps` Newton-Schulz iterations, in the
    parameter's precision. `adjust_lr_fn` is "original" or "match_rms_adamw", for rates as those
    of `AdamW`.

    >>> import numpy as np
    >>> import wengert as wg
    >>> w = wg.tensor(np.zeros((2, 2)), requires_grad=True)
    >>> w.grad = np.diag([1.0, 100.0])
    >>> Muon([w], lr=0.1).step()
    >>> bool((np.abs(np.diag(w.numpy()) + 0.1) < 0.05).all())
    True
    """

    fixed = ("ns_steps", "adjust_lr_fn")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ):
        check_range("Muon", lr=lr, weight_decay=weight_decay, momentum=momentum, eps=eps)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise OptionError(
                explain(
                    "Muon",
                    f"adjust_lr_fn={adjust_lr_fn!r}",
                    'Use "original", "match_rms_adamw" or None.',
                )
            )
        super().__init__(
            params, lr=lr, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov,
            ns_coefficients=tuple(ns_coefficients), eps=eps, ns_steps=ns_steps,
            adjust_lr_fn=adjust_lr_fn,
        )  # fmt: skip

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Add a group of matrices."""
        super().add_param_group(param_group)
        for number, p in enumerate(self.param_groups[-1].params):
            if p.ndim != 2:
                raise ShapeError(
                    explain(
                        "Muon",
                        f"parameter {number} has shape {p.shape}, expected a matrix",
                        "Give the others to an optimizer of their own, such as AdamW.",
                    )
                )

    def kept(self, group: Group) -> dict[str, Start]:
        """The running mean of the gradient."""
        return {"momentum_buffer": 0.0}

    def _adds_decay(self, group: Group) -> bool:
        return False  # it shrinks the parameter itself

    def numbers(self, group: Group, step: Any) -> dict[str, Any]:
        """Rates, and the coefficients of the iteration."""
        lr = group.number("lr")
        a, b, c = group.number("ns_coefficients")
        return {
            "lr": lr, "a": a, "b": b, "c": c, "momentum": group.number("momentum"),
            "shrink": 1.0 - lr * group.number("weight_decay"), "eps": group.number("eps"),
        }  # fmt: skip

    def update(self, p: Any, g: Any, kept: dict[str, Any], n: Any, group: Group) -> Any:
        """Along the momentum, made orthogonal."""
        mean = g + n.momentum * (kept["momentum_buffer"] - g)
        kept["momentum_buffer"] = mean
        direction = g + n.momentum * (mean - g) if group.on("nesterov") else mean
        rows, columns = p.shape
        ratio = math.sqrt(max(1.0, rows / columns))
        if group["adjust_lr_fn"] == "match_rms_adamw":
            ratio = 0.2 * math.sqrt(max(rows, columns))
        if group.on("weight_decay"):
            p = p * n.shrink
        return p - n.lr * ratio * _orthogonal(direction, n, int(group["ns_steps"]))


def _orthogonal(x: Any, n: Any, steps: int) -> Any:
    """A matrix with its singular values brought near to 1, by polynomials of it alone."""
    rows, columns = x.shape
    x = x.T if rows > columns else x
    x = x / np.maximum(np.sqrt((x * x).sum()), n.eps)
    for _ in range(steps):
        gram = x @ x.T
        x = n.a * x + (n.b * gram + n.c * (gram @ gram)) @ x
    return x.T if rows > columns else x


class Adafactor(Optimizer):
    """Adam without momentum whose mean squares of a matrix are kept as those of rows and columns.

    Steps are relative to the size of the parameter, which counts as at least ``eps[1]``.

    >>> import numpy as np
    >>> import wengert as wg
    >>> w = wg.tensor(np.ones((3, 2)), requires_grad=True)
    >>> w.grad = np.full((3, 2), 5.0)
    >>> optimizer = Adafactor([w], lr=0.1)
    >>> optimizer.step()
    >>> w.numpy()[0], optimizer.state[0]["row_var"].shape
    (array([0.9, 0.9]), (3, 1))
    """

    fixed = ("eps",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ):
        check_range("Adafactor", lr=lr, weight_decay=weight_decay, **{"eps[1]": eps[1]})
        if eps[0] is not None:
            check_range("Adafactor", **{"eps[0]": eps[0]})
        if beta2_decay > 0 or d < 1:
            raise OptionError(
                explain(
                    "Adafactor",
                    f"beta2_decay={beta2_decay!r} and d={d!r}",
                    "Choose beta2_decay at most 0, and d at least 1.",
                )
            )
        super().__init__(
            params, lr=lr, beta2_decay=beta2_decay, eps=tuple(eps), d=d,
            weight_decay=weight_decay, maximize=maximize,
        )  # fmt: skip

    def kept(self, group: Group) -> dict[str, Start]:
        """The mean squares of rows and columns; of a vector those of its elements."""
        return {"row_var": _row, "col_var": _column, "variance": _vector}

    def counts(self, group: Group) -> bool:
        """How much of a gradient enters the mean falls with the steps."""
        return True

    def _adds_decay(self, group: Group) -> bool:
        return False  # it shrinks the parameter itself

    def numbers(self, group: Group, step: Any) -> dict[str, Any]:
        """Rates."""
        lr = group.number("lr")
        return {
            "rate": step ** group.number("beta2_decay"),
            "size": np.minimum(lr, 1.0 / np.sqrt(step)),
            "shrink": 1.0 - lr * group.number("weight_decay"),
            "d": group.number("d"),
        }

    def update(self, p: Any, g: Any, kept: dict[str, Any], n: Any, group: Group) -> Any:
        """By the gradient over the root of the mean square, and not by more than `d` of that."""
        tiny, least = group["eps"]
        tiny = float(np.finfo(p.dtype).eps) if tiny is None else tiny
        alpha = np.maximum(least, _rms(p)) * n.size
        if group.on("weight_decay"):
            p = p * n.shrink
        square = g * g
        if p.ndim > 1:
            row = _towards(kept["row_var"], square.mean(axis=-1, keepdims=True), n.rate)
            column = _towards(kept["col_var"], square.mean(axis=-2, keepdims=True), n.rate)
            kept.update(row_var=row, col_var=column)
            variance = row * column / np.maximum(row.mean(axis=-2, keepdims=True), tiny)
        else:
            variance = _towards(kept["variance"], square, n.rate)
            kept["variance"] = variance
        step = g / np.sqrt(np.maximum(variance, tiny * tiny))
        return p - alpha / np.maximum(1.0, _rms(step) / n.d) * step


def _towards(old: Any, new: Any, rate: Any) -> Any:
    return old + rate * (new - old)


def _rms(x: Any) -> Any:
    return np.sqrt((x * x).mean())


def _row(p: Any) -> np.ndarray | None:
    return np.zeros((*p.shape[:-1], 1), p.dtype) if p.ndim > 1 else None


def _column(p: Any) -> np.ndarray | None:
    return np.zeros((*p.shape[:-2], 1, p.shape[-1]), p.dtype) if p.ndim > 1 else None


def _vector(p: Any) -> np.ndarray | None:
    return np.zeros(p.shape, p.dtype) if p.ndim < 2 else None
