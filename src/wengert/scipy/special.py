"""Special functions under SciPy's names; `wengert.numpy` has some of them too."""

from __future__ import annotations

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

psi = digamma

__all__ = [
    "beta", "betaln", "digamma", "entr", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "expit",
    "factorial", "gamma", "gammaln", "gammasgn", "i0", "i0e", "i1", "i1e", "kl_div", "log_expit",
    "log_ndtr", "log_softmax", "logit", "logsumexp", "ndtr", "ndtri", "polygamma", "psi",
    "rel_entr", "sinc", "softmax", "softplus", "xlog1py", "xlogy",
]  # fmt: skip
