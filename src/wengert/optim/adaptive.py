"""More rules for one parameter (see `rules.py`): those that adapt the size of the step by more than
a running mean of squares.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .group import Group
from .optimizer import Optimizer, Start
from .rules import check_betas, check_range


def one(p: Any) -> np.ndarray:
    """State that is a single number for each parameter, at first 1.

    >>> one(np.zeros((2, 3)))
    array(1.)
    """
    return np.ones((), p.dtype)


class Adadelta(Optimizer):
    """Steps by the gradient times the size of past steps over the size of past gradients.

    >>> import wengert as wg
    >>> w = wg.tensor([1.0, 200.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> Adadelta([w], lr=1.0, rho=0.75, eps=0.01).step()
    >>> w.numpy().round(2)
    array([  0.8, 199.8])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        *,
        maximize: bool = False,
    ):
        check_range("Adadelta", lr=lr, eps=eps, weight_decay=weight_decay)
        check_range("Adadelta", 1.0, rho=rho)
        super().__init__(
            params, lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize
        )

    def kept(self, group: Group) -> dict[str, Start]:
        """The running means of the squares of gradients and of steps."""
        return {"square_avg": 0.0, "acc_delta": 0.0}

    def counts(self, group: Group) -> bool:
        """Only for the state dict: PyTorch's has the count."""
        return True

    def numbers(self, group: Group, step: Any) -> dict[str, Any]:
        """Rates."""
        rho = group.number("rho")
        return {"lr": group.number("lr"), "rho": rho, "rate": 1.0 - rho, "eps": group.number("eps")}

    def update(self, p: Any, g: Any, kept: dict[str, Any], n: Any, group: Group) -> Any:
        """By the ratio of both sizes."""
        square = n.rho * kept["square_avg"] + n.rate * g * g
        delta = np.sqrt(kept["acc_delta"] + n.eps) / np.sqrt(square + n.eps) * g
        kept.update(square_avg=square, acc_delta=n.rho * kept["acc_delta"] + n.rate * delta * delta)
        return p - n.lr * delta


class Adamax(Optimizer):
    """Adam with the largest recent gradient in the place of the mean square.

    >>> import wengert as wg
    >>> w = wg.tensor([1.0, 200.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> Adamax([w], lr=0.1).step()
    >>> w.numpy().round(6)
    array([  0.9, 199.9])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        *,
        maximize: bool = False,
    ):
        check_range("Adamax", lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas("Adamax", betas)
        super().__init__(
            params, lr=lr, betas=tuple(betas), eps=eps, weight_decay=weight_decay,
            maximize=maximize,
        )  # fmt: skip

    def kept(self, group: Group) -> dict[str, Start]:
        """The running mean of the gradient, and the largest."""
        return {"exp_avg": 0.0, "exp_inf": 0.0}

    def counts(self, group: Group) -> bool:
        """The mean starts at zero and is corrected for that."""
        return True

    def numbers(self, group: Group, step: Any) -> dict[str, Any]:
        """Rates, and the correction."""
        beta1, beta2 = group.number("betas")
        size = group.number("lr") / (1.0 - beta1**step)
        return {"size": size, "rate1": 1.0 - beta1, "beta2": beta2, "eps": group.number("eps")}

    def update(self, p: Any, g: Any, kept: dict[str, Any], n: Any, group: Group) -> Any:
        """By the mean over the largest."""
        mean = kept["exp_avg"] + n.rate1 * (g - kept["exp_avg"])
        largest = np.maximum(n.beta2 * kept["exp_inf"], np.abs(g) + n.eps)
        kept.update(exp_avg=mean, exp_inf=largest)
        return p - n.size * mean / largest


class _Decoupled(Optimizer):
    """Weight decay in the gradient, or, if decoupled, of the parameter itself."""

    def _adds_decay(self, group: Group) -> bool:
        return group.on("weight_decay") and not group.on("decoupled_weight_decay")

    def _decayed(self, p: Any, n: Any, group: Group) -> Any:
        decoupled = group.on("weight_decay") and group.on("decoupled_weight_decay")
        return p * n.shrink if decoupled else p

    def kept(self, group: Group) -> dict[str, Start]:
        """The running means of the gradient and of its square."""
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def counts(self, group: Group) -> bool:
        """The means start at zero and are corrected for that."""
        return True

    def numbers(self, group: Group, step: Any) -> dict[str, Any]:
        """Rates."""
        beta1, beta2 = group.number("betas")
        return {
            "rate1": 1.0 - beta1, "beta2": beta2, "rate2": 1.0 - beta2, "eps": group.number("eps"),
            "shrink": 1.0 - group.number("lr") * group.number("weight_decay"),
        }  # fmt: skip

    def _moments(self, g: Any, kept: dict[str, Any], n: Any) -> tuple[Any, Any]:
        """The new running means."""
        mean = kept["exp_avg"] + n.rate1 * (g - kept["exp_avg"])
        square = n.beta2 * kept["exp_avg_sq"] + n.rate2 * g * g
        kept.update(exp_avg=mean, exp_avg_sq=square)
        return mean, square


class NAdam(_Decoupled):
    """Adam with Nesterov's momentum.

    >>> import wengert as wg
    >>> w = wg.tensor([1.0, 200.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> NAdam([w], lr=0.1).step()
    >>> w.numpy().round(3)
    array([  0.894, 199.894])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
    ):
        check_range(
            "NAdam", lr=lr, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay
        )
        check_betas("NAdam", betas)
        super().__init__(
            params, lr=lr, betas=tuple(betas), eps=eps, weight_decay=weight_decay,
            momentum_decay=momentum_decay, decoupled_weight_decay=decoupled_weight_decay,
            maximize=maximize,
        )  # fmt: skip

    def kept(self, group: Group) -> dict[str, Start]:
        """Also the product of all momenta so far."""
        return {"mu_product": one, **super().kept(group)}

    def numbers(self, group: Group, step: Any) -> dict[str, Any]:
        """Rates, this momentum and the next, and the correction of the mean square."""
        beta1, beta2 = group.number("betas")
        decay = group.number("momentum_decay")
        return {
            **super().numbers(group, step),
            "lr": group.number("lr"),
            "mu": beta1 * (1.0 - 0.5 * 0.96 ** (step * decay)),
            "next": beta1 * (1.0 - 0.5 * 0.96 ** ((step + 1.0) * decay)),
            "unroot": 1.0 / np.sqrt(1.0 - beta2**step),
        }

    def update(self, p: Any, g: Any, kept: dict[str, Any], n: Any, group: Group) -> Any:
        """By the gradient and the mean as it will be."""
        p = self._decayed(p, n, group)
        product = kept["mu_product"] * n.mu
        kept["mu_product"] = product
        mean, square = self._moments(g, kept, n)
        size = np.sqrt(square) * n.unroot + n.eps
        now, ahead = (1.0 - n.mu) / (1.0 - product), n.next / (1.0 - product * n.next)
        return p - n.lr * (now * g + ahead * mean) / size


class RAdam(_Decoupled):
    """Adam that goes by the mean alone while too few squares are known.

    >>> import wengert as wg
    >>> w = wg.tensor([1.0, 200.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> RAdam([w], lr=0.1).step()
    >>> w.numpy().round(6)
    array([  0.8, 160. ])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
    ):
        check_range("RAdam", lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas("RAdam", betas)
        super().__init__(
            params, lr=lr, betas=tuple(betas), eps=eps, weight_decay=weight_decay,
            decoupled_weight_decay=decoupled_weight_decay, maximize=maximize,
        )  # fmt: skip

    def numbers(self, group: Group, step: Any) -> dict[str, Any]:
        """Rates, and how far the mean square can be trusted: 0 for not yet."""
        beta1, beta2 = group.number("betas")
        correction = 1.0 - beta2**step
        longest = 2.0 / (1.0 - beta2) - 1.0
        length = longest - 2.0 * step * beta2**step / correction
        # where it is not enough the formula has poles and roots of negative numbers
        enough, longest = np.maximum(length, 5.0), np.maximum(longest, 5.0)
        trust = (enough - 4.0) * (enough - 2.0) * longest
        trust = trust / ((longest - 4.0) * (longest - 2.0) * enough)
        return {
            **super().numbers(group, step),
            "size": group.number("lr") / (1.0 - beta1**step),
            "trust": np.where(length > 5.0, np.sqrt(trust * correction), 0.0),
        }

    def update(self, p: Any, g: Any, kept: dict[str, Any], n: Any, group: Group) -> Any:
        """By the mean over the root of the mean square, once that is known well enough."""
        p = self._decayed(p, n, group)
        mean, square = self._moments(g, kept, n)
        return p - n.size * mean * np.where(n.trust > 0, n.trust / (np.sqrt(square) + n.eps), 1.0)


class ASGD(Optimizer):
    """Gradient descent with falling rates; from step `t0` on, `ax` in the state is the mean of
    the parameters.

    >>> import wengert as wg
    >>> w = wg.tensor([1.0, 2.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> ASGD([w], lr=0.1, lambd=0.0).step()
    >>> w
    tensor([0.8, 1.6], dtype=float64, requires_grad=True)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        *,
        maximize: bool = False,
    ):
        check_range("ASGD", lr=lr, weight_decay=weight_decay)
        super().__init__(
            params, lr=lr, lambd=lambd, alpha=alpha, t0=t0, weight_decay=weight_decay,
            maximize=maximize,
        )  # fmt: skip

    def kept(self, group: Group) -> dict[str, Start]:
        """The rate and the share of the mean for the next step, and the mean."""
        return {"eta": one, "mu": one, "ax": 0.0}

    def counts(self, group: Group) -> bool:
        """The rate falls with the steps."""
        return True

    def numbers(self, group: Group, step: Any) -> dict[str, Any]:
        """What the first step has, and what the next one will have."""
        lr, lambd = group.number("lr"), group.number("lambd")
        return {
            "lr": lr,
            "lambd": lambd,
            "first": np.where(step <= 1.0, 1.0, 0.0),
            "eta": lr / (1.0 + lambd * lr * step) ** group.number("alpha"),
            "mu": 1.0 / np.maximum(step - group.number("t0"), 1.0),
        }

    def update(self, p: Any, g: Any, kept: dict[str, Any], n: Any, group: Group) -> Any:
        """Along the gradient, and a little towards zero."""
        eta = np.where(n.first > 0, n.lr, kept["eta"])
        new = p * (1.0 - n.lambd * eta) - eta * g
        mean = kept["ax"] + (new - kept["ax"]) * kept["mu"]
        kept.update(eta=n.eta, mu=n.mu, ax=mean)
        return new


class Rprop(Optimizer):
    """Steps of a size of their own for every element, which grows while the sign of the gradient
    stays and shrinks when it changes.

    >>> import wengert as wg
    >>> w = wg.tensor([1.0, 200.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> Rprop([w], lr=0.1).step()
    >>> w
    tensor([  0.9, 199.9], dtype=float64, requires_grad=True)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        maximize: bool = False,
    ):
        check_range("Rprop", lr=lr)
        check_range("Rprop", 1.0, **{"etas[0]": etas[0]})
        super().__init__(
            params, lr=lr, etas=tuple(etas), step_sizes=tuple(step_sizes), maximize=maximize
        )

    def kept(self, group: Group) -> dict[str, Start]:
        """The last gradient, and the sizes of the steps."""
        return {"prev": 0.0, "step_size": 0.0}

    def counts(self, group: Group) -> bool:
        """The first sizes are the learning rate."""
        return True

    def numbers(self, group: Group, step: Any) -> dict[str, Any]:
        """Factors and limits of the sizes."""
        shrink, grow = group.number("etas")
        least, most = group.number("step_sizes")
        first = np.where(step <= 1.0, 1.0, 0.0)
        return {
            "lr": group.number("lr"), "first": first, "shrink": shrink, "grow": grow,
            "least": least, "most": most,
        }  # fmt: skip

    def update(self, p: Any, g: Any, kept: dict[str, Any], n: Any, group: Group) -> Any:
        """By the sign of the gradient; where it has changed, not at all."""
        agreement = g * kept["prev"]
        factor = np.where(agreement > 0, n.grow, np.where(agreement < 0, n.shrink, 1.0))
        size = np.where(n.first > 0, n.lr, kept["step_size"]) * factor.astype(p.dtype)
        size = np.minimum(np.maximum(size, n.least), n.most)
        g = np.where(agreement < 0, 0.0, g)
        kept.update(prev=g, step_size=size)
        return p - np.sign(g) * size
