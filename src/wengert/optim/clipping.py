"""Gradients kept within bounds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..errors import AbstractValueError, NotFiniteError, OptionError, explain
from ..jit import is_tracing
from ..tensor import Tensor, no_grad


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> Any:
    """Shrink all gradients by one factor, so that their norm together is at most `max_norm`.

    Gives the norm they had before.

    >>> import wengert as wg
    >>> w = wg.tensor([0.0, 0.0], requires_grad=True)
    >>> w.grad = np.array([3.0, 4.0])
    >>> float(clip_grad_norm_([w], max_norm=1.0))
    5.0
    >>> w.grad.numpy().round(4)
    array([0.6, 0.8])
    """
    held = _with_gradient(parameters)
    with no_grad():
        total = _norm([gradient for _, gradient in held], norm_type)
        if error_if_nonfinite:
            _check_finite(total, norm_type)
        factor = np.minimum(max_norm / (total + 1e-6), 1.0)
        for p, gradient in held:
            p.grad = gradient * factor.astype(gradient.dtype)
    return total


def _norm(gradients: list[Tensor], norm_type: float) -> Any:
    """The norm of all gradients as one long vector."""
    if not gradients:
        return Tensor(np.zeros(()))
    if norm_type <= 0:
        raise OptionError(
            explain("clip_grad_norm_", f"norm_type={norm_type!r}, expected a number above 0", "")
        )
    sizes = [abs(gradient) for gradient in gradients]
    if norm_type == np.inf:
        return _joined(np.maximum, [size.max() for size in sizes])
    if norm_type == 2:
        return np.sqrt(_joined(np.add, [(size * size).sum() for size in sizes]))
    return _joined(np.add, [(size**norm_type).sum() for size in sizes]) ** (1.0 / norm_type)


def _joined(combine: Any, parts: list[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = combine(total, part)
    return total


def _check_finite(total: Any, norm_type: float) -> None:
    if is_tracing():
        raise AbstractValueError(
            explain(
                "clip_grad_norm_",
                "error_if_nonfinite=True inside jit, where the norm is not known yet",
                "Return the norm from the function and look at it outside.",
            )
        )
    if not np.isfinite(float(total)):
        raise NotFiniteError(
            explain(
                "clip_grad_norm_",
                f"the norm of order {norm_type:g} of the gradients is {float(total)}",
                "Look for the first layer with wg.debug_nans(), or lower the learning rate.",
            )
        )


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Cut every element of the gradients at `-clip_value` and `clip_value`.

    >>> import wengert as wg
    >>> w = wg.tensor([0.0, 0.0], requires_grad=True)
    >>> w.grad = np.array([3.0, -0.5])
    >>> clip_grad_value_([w], 1.0)
    >>> w.grad
    tensor([ 1. , -0.5], dtype=float64)
    """
    with no_grad():
        for p, gradient in _with_gradient(parameters):
            p.grad = np.clip(gradient, -clip_value, clip_value)


def _with_gradient(parameters: Tensor | Iterable[Tensor]) -> list[tuple[Tensor, Tensor]]:
    listed = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    pairs = [(p, p.grad) for p in listed]
    return [(p, gradient) for p, gradient in pairs if gradient is not None]
