"""The optimizers that go from gradient to step by a formula, each a rule for one parameter.

A rule names the arrays it keeps (`kept`), computes the numbers of a step in double precision
(`numbers`), and says how one parameter moves (`update`). `p` is the parameter, `g` the gradient.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..errors import OptionError, explain
from .group import Group
from .optimizer import Optimizer, Start


class SGD(Optimizer):
    """Gradient descent, with momentum if wanted.

    >>> import wengert as wg
    >>> w = wg.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = SGD([w], lr=0.1, momentum=0.9)
    >>> for _ in range(2):
    ...     optimizer.zero_grad()
    ...     (w * w).sum().backward()
    ...     optimizer.step()
    >>> w
    tensor([0.46, 0.92], dtype=float64, requires_grad=True)
    """

    switches = ("weight_decay", "momentum")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ):
        check_range("SGD", lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise OptionError(
                explain(
                    "SGD",
                    f"nesterov=True with momentum={momentum} and dampening={dampening}",
                    "Nesterov's step needs a momentum above zero and no dampening.",
                )
            )
        super().__init__(
            params,
            lr=lr,
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=nesterov,
            maximize=maximize,
        )

    def kept(self, group: Group) -> dict[str, Start]:
        """The velocity, where there is momentum."""
        return {"momentum_buffer": 0.0} if group.on("momentum") else {}

    def counts(self, group: Group) -> bool:
        """The first step with momentum is not like the others."""
        return group.on("momentum")

    def numbers(self, group: Group, step: Any) -> dict[str, Any]:
        """Rates, and how much of a gradient enters the velocity."""
        if step is None:
            return {"lr": group.number("lr")}
        # the first gradient is not dampened: there is nothing to mix it with
        gain = np.where(step <= 1, 1.0, 1.0 - group.number("dampening"))
        return {"lr": group.number("lr"), "momentum": group.number("momentum"), "gain": gain}

    def update(self, p: Any, g: Any, kept: dict[str, Any], n: Any, group: Group) -> Any:
        """Along the gradient, or along the velocity."""
        if group.on("momentum"):
            velocity = n.momentum * kept["momentum_buffer"] + n.gain * g
            kept["momentum_buffer"] = velocity
            g = g + n.momentum * velocity if group.on("nesterov") else velocity
        return p - n.lr * g


class Adam(Optimizer):
    """Adam: steps by the running mean of the gradient over that of its size.

    >>> import wengert as wg
    >>> w = wg.tensor([1.0, 200.0], requires_grad=True)
    >>> optimizer = Adam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([  0.9, 199.9], dtype=float64, requires_grad=True)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        decoupled_weight_decay: bool = False,
    ):
        check_range(self._name, lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas(self._name, betas)
        super().__init__(
            params,
            lr=lr,
            betas=tuple(betas),
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
            maximize=maximize,
            decoupled_weight_decay=decoupled_weight_decay,
        )

    def kept(self, group: Group) -> dict[str, Start]:
        """The running means of the gradient and of its square."""
        moments: dict[str, Start] = {"exp_avg": 0.0, "exp_avg_sq": 0.0}
        return {**moments, "max_exp_avg_sq": 0.0} if group.on("amsgrad") else moments

    def counts(self, group: Group) -> bool:
        """The means start at zero and are corrected for that."""
        return True

    def _adds_decay(self, group: Group) -> bool:
        return group.on("weight_decay") and not group.on("decoupled_weight_decay")

    def numbers(self, group: Group, step: Any) -> dict[str, Any]:
        """Rates, and the corrections."""
        lr, (beta1, beta2) = group.number("lr"), group.number("betas")
        return {
            # the means start at zero: they are too small at first, by these factors
            "size": lr / (1.0 - beta1**step),
            "unroot": 1.0 / np.sqrt(1.0 - beta2**step),
            "rate1": 1.0 - beta1,
            "beta2": beta2,
            "rate2": 1.0 - beta2,
            "eps": group.number("eps"),
            "shrink": 1.0 - lr * group.number("weight_decay"),
        }

    def update(self, p: Any, g: Any, kept: dict[str, Any], n: Any, group: Group) -> Any:
        """By the mean over the root of the mean square."""
        if group.on("weight_decay") and group.on("decoupled_weight_decay"):
            p = p * n.shrink
        mean = kept["exp_avg"] + n.rate1 * (g - kept["exp_avg"])
        square = n.beta2 * kept["exp_avg_sq"] + n.rate2 * g * g
        kept.update(exp_avg=mean, exp_avg_sq=square)
        if group.on("amsgrad"):
            square = np.maximum(kept["max_exp_avg_sq"], square)
            kept["max_exp_avg_sq"] = square
        return p - n.size * mean / (np.sqrt(square) * n.unroot + n.eps)


class AdamW(Adam):
    """Adam with weight decay that shrinks the parameters themselves, not the gradient.

    >>> import numpy as np
    >>> import wengert as wg
    >>> w = wg.tensor([1.0], requires_grad=True)
    >>> w.grad = np.zeros(1)
    >>> AdamW([w], lr=0.1, weight_decay=0.5).step()
    >>> w
    tensor([0.95], dtype=float64, requires_grad=True)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ):
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            maximize=maximize,
            decoupled_weight_decay=True,
        )


class RMSprop(Optimizer):
    """Steps by the gradient over the running mean of its size.

    >>> import wengert as wg
    >>> w = wg.tensor([1.0, 200.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> RMSprop([w], lr=0.1, alpha=0.75).step()
    >>> w
    tensor([  0.8, 199.8], dtype=float64, requires_grad=True)
    """

    switches = ("weight_decay", "momentum")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        *,
        maximize: bool = False,
    ):
        check_range(
            "RMSprop", lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum
        )
        super().__init__(
            params,
            lr=lr,
            alpha=alpha,
            eps=eps,
            weight_decay=weight_decay,
            momentum=momentum,
            centered=centered,
            maximize=maximize,
        )

    def kept(self, group: Group) -> dict[str, Start]:
        """The running means, and the velocity."""
        found: dict[str, Start] = {"square_avg": 0.0}
        if group.on("momentum"):
            found["momentum_buffer"] = 0.0
        if group.on("centered"):
            found["grad_avg"] = 0.0
        return found

    def counts(self, group: Group) -> bool:
        """Only for the state dict: PyTorch's has the count."""
        return True

    def numbers(self, group: Group, step: Any) -> dict[str, Any]:
        """Rates."""
        alpha = group.number("alpha")
        names = ("lr", "eps", "momentum")
        return {"alpha": alpha, "rate": 1.0 - alpha, **{name: group.number(name) for name in names}}

    def update(self, p: Any, g: Any, kept: dict[str, Any], n: Any, group: Group) -> Any:
        """By the gradient over the root of its mean square, or of its variance."""
        square = n.alpha * kept["square_avg"] + n.rate * g * g
        kept["square_avg"] = square
        if group.on("centered"):
            mean = kept["grad_avg"] + n.rate * (g - kept["grad_avg"])
            kept["grad_avg"] = mean
            square = square - mean * mean
        size = np.sqrt(square) + n.eps
        if not group.on("momentum"):
            return p - n.lr * g / size
        velocity = n.momentum * kept["momentum_buffer"] + g / size
        kept["momentum_buffer"] = velocity
        return p - n.lr * velocity


class Adagrad(Optimizer):
    """Steps by the gradient over the root of the sum of all its squares so far.

    >>> import wengert as wg
    >>> w = wg.tensor([1.0, 200.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> Adagrad([w], lr=0.1).step()
    >>> w
    tensor([  0.9, 199.9], dtype=float64, requires_grad=True)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
    ):
        check_range(
            "Adagrad",
            lr=lr,
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            eps=eps,
        )
        super().__init__(
            params,
            lr=lr,
            lr_decay=lr_decay,
            eps=eps,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            maximize=maximize,
        )

    def kept(self, group: Group) -> dict[str, Start]:
        """The sum of squares."""
        return {"sum": group["initial_accumulator_value"]}

    def counts(self, group: Group) -> bool:
        """The rate falls with the steps."""
        return True

    def numbers(self, group: Group, step: Any) -> dict[str, Any]:
        """The rate of this step."""
        size = group.number("lr") / (1.0 + (step - 1.0) * group.number("lr_decay"))
        return {"size": size, "eps": group.number("eps")}

    def update(self, p: Any, g: Any, kept: dict[str, Any], n: Any, group: Group) -> Any:
        """By the gradient over the root of the sum of squares."""
        total = kept["sum"] + g * g
        kept["sum"] = total
        return p - n.size * g / (np.sqrt(total) + n.eps)


def check_range(owner: str, below: float = np.inf, /, **options: float) -> None:
    """Refuse options outside of [0, below).

    >>> check_range("SGD", lr=0.1)
    """
    for name, value in options.items():
        if not 0.0 <= value < below:
            limit = "at least 0" if below == np.inf else f"in [0, {below:g})"
            raise OptionError(
                explain(owner, f"{name}={value!r}, expected a number {limit}", "Choose another.")
            )


def check_betas(owner: str, betas: Iterable[float]) -> None:
    """Refuse rates of running means outside of [0, 1).

    >>> check_betas("Adam", (0.9, 0.999))
    """
    for place, beta in enumerate(betas):
        check_range(owner, 1.0, **{f"betas[{place}]": beta})
