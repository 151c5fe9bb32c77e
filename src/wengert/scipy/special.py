"""Special functions under SciPy's names; `wengert.numpy` has some of them too."""

from __future__ import annotations

from typing import Any

from ..numpy import (
    beta,
    betaln,
    digamma,
    entr,
    erf,
    erfc,
    erfcinv,
    erfcx,
    erfinv,
    expit,
    factorial,
    gamma,
    gammaln,
    gammasgn,
    i0,
    i0e,
    i1,
    i1e,
    kl_div,
    log_expit,
    log_ndtr,
    log_softmax,
    logit,
    logsumexp,
    ndtr,
    ndtri,
    polygamma,
    rel_entr,
    sinc,
    softmax,
    softplus,
    xlog1py,
    xlogy,
)
from ..numpy.common import as_value
from ..ops import incomplete

psi = digamma

__all__ = [
    "beta", "betainc", "betaincc", "betaln", "digamma", "entr", "erf", "erfc", "erfcinv",
    "erfcx", "erfinv", "expit", "factorial", "gamma", "gammainc", "gammaincc", "gammaln",
    "gammasgn", "i0", "i0e", "i1", "i1e", "kl_div", "log_expit", "log_ndtr", "log_softmax",
    "logit", "logsumexp", "ndtr", "ndtri", "polygamma", "psi", "rel_entr", "sinc", "softmax",
    "softplus", "xlog1py", "xlogy",
]  # fmt: skip

# ---------------------------------------------------------------- incomplete integrals


def gammainc(a: Any, x: Any) -> Any:
    """The regularized lower incomplete gamma function P(a, x), with derivatives by both.

    >>> import wengert.scipy as wsp
    >>> print(f"{wsp.special.gammainc(2.0, 1.0):.12f}")
    0.264241117657
    """
    return incomplete.incomplete_gamma(as_value(a), as_value(x), upper=False)


def gammaincc(a: Any, x: Any) -> Any:
    """1 - gammainc(a, x), accurate where it is small.

    >>> import wengert.scipy as wsp
    >>> print(f"{wsp.special.gammaincc(2.0, 100.0):.9e}")
    3.757276759e-42
    """
    return incomplete.incomplete_gamma(as_value(a), as_value(x), upper=True)


def betainc(a: Any, b: Any, x: Any) -> Any:
    """The regularized incomplete beta function I(x; a, b), with derivatives by all three.

    >>> import wengert as wg
    >>> import wengert.scipy as wsp
    >>> print(f"{wsp.special.betainc(2.0, 3.0, 0.5):.12f}")
    0.687500000000
    >>> print(f"{wg.grad(wsp.special.betainc)(2.0, 3.0, 0.5):.12f}")
    -0.195288686635
    """
    return incomplete.incomplete_beta(as_value(a), as_value(b), as_value(x))


def betaincc(a: Any, b: Any, x: Any) -> Any:
    """1 - betainc(a, b, x), accurate where it is small.

    >>> import wengert.scipy as wsp
    >>> print(f"{wsp.special.betaincc(2.0, 3.0, 0.99):.9e}")
    3.970000000e-06
    """
    return incomplete.incomplete_beta(as_value(b), as_value(a), 1 - as_value(x))
