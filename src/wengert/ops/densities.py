"""Logarithms of the densities of the gamma and beta distributions, without cancellation.

Near the middle of a distribution with large parameters the usual terms are large and of opposite
signs. As deviations from the mean nothing large is there. Derivatives are those of the usual terms.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .approximations import Array, betaln, choose, gammaln, log1pmx, stirling_rest
from .elementwise import log, log1p
from .op import Op
from .special import SHAPE, _unless_both_zero, _xlog1py, _xlogy, polygamma, special

LARGE = 12.0


def log_gamma_density(a: Array, x: Array) -> Array:
    """(a - 1) log(x) - x - log gamma(a)."""

    def usual(a: Array, x: Array) -> Array:
        return _xlogy(a - 1, x) - x - gammaln(a)

    def large(a: Array, x: Array) -> Array:
        exponent = a * log1pmx((x - a) / a, x / a) - stirling_rest(np.maximum(a, 1.0))
        return np.where(
            x == np.inf, -np.inf, exponent + 0.5 * np.log(a / (2 * math.pi)) - np.log(x)
        )

    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return choose((a < LARGE) | (x == 0), usual, large, a, x)


def log_beta_density(a: Array, b: Array, x: Array) -> Array:
    """(a - 1) log(x) + (b - 1) log(1 - x) - log beta(a, b)."""

    def usual(a: Array, b: Array, x: Array) -> Array:
        return _xlogy(a - 1, x) + _xlog1py(b - 1, -x) - betaln(a, b)

    def large(a: Array, b: Array, x: Array) -> Array:
        y = 1 - x
        away, both = x * b - y * a, a + b
        exponent = a * log1pmx(away / a, both * x / a) + b * log1pmx(-away / b, both * y / b)
        first, second = np.maximum(a, 1.0), np.maximum(b, 1.0)
        rest = stirling_rest(first + second) - stirling_rest(first) - stirling_rest(second)
        return exponent + rest + 0.5 * np.log(a / both * b / (2 * math.pi)) - np.log(x * y)

    plain = (a < 1) | (b < 1) | (a + b < LARGE) | (x <= 0) | (x >= 1)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return choose(plain, usual, large, a, b, x)


def _log_unless(power: Any, x: Any) -> Any:
    """log(x), and 0 where x and the power of it are 0."""
    return _unless_both_zero(power, x, log, 1.0, 0.0)


def _quotient_unless(power: Any, x: Any, zero: float) -> Any:
    """power / x, or power / (1 + x) where `zero` is -1; 0 where both are 0."""
    return _unless_both_zero(power, x, lambda x: power / (x - zero), zero + 1, zero)


gamma_density: Op = special(
    "log_gamma_density",
    log_gamma_density,
    lambda ans, a, x: _log_unless(a - 1, x) - polygamma(a, n=0),
    lambda ans, a, x: _quotient_unless(a - 1, x, 0.0) - 1,
    domains=((1.2, 20.0), (0.2, 20.0)),
)
beta_density: Op = special(
    "log_beta_density",
    log_beta_density,
    lambda ans, a, b, x: _log_unless(a - 1, x) - polygamma(a, n=0) + polygamma(a + b, n=0),
    lambda ans, a, b, x: (
        _unless_both_zero(b - 1, -x, log1p, 0.0, -1.0) - polygamma(b, n=0) + polygamma(a + b, n=0)
    ),
    lambda ans, a, b, x: _quotient_unless(a - 1, x, 0.0) - _quotient_unless(b - 1, -x, -1.0),
    domains=(SHAPE, (0.3, 20.0), (0.1, 0.9)),
)
