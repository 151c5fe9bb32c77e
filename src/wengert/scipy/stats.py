"""Distributions under SciPy's names: densities and distribution functions, with derivatives.

A distribution is a few formulas of the standardized variable (x - loc) / scale on its support;
what follows from them is written once. Outside the support a density is 0, its logarithm -inf and
the derivatives are 0; where a parameter is not allowed, all is NaN, as in SciPy. Derivatives are
by all arguments, the parameters of shape included.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import numpy as wnp
from ..errors import DTypeError, explain
from ..numpy.common import as_value
from ..ops.densities import beta_density, gamma_density
from ..ops.incomplete import MANY, along, student
from ..transforms import stop_gradient
from ..types import type_of
from . import special as sp
from .frozen import Frozen
from .multivariate import dirichlet, multivariate_normal

Formula = Callable[..., Any]
LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)
INFINITE = (-math.inf, math.inf)
POSITIVE = (0.0, math.inf)

__all__ = [
    "bernoulli", "beta", "binom", "cauchy", "chi2", "dirichlet", "expon", "f", "gamma", "geom",
    "gumbel_l", "gumbel_r", "halfcauchy", "halfnorm", "invgamma", "laplace", "logistic", "lognorm",
    "multivariate_normal", "nbinom", "norm", "pareto", "poisson", "rayleigh", "t", "truncnorm",
    "uniform", "vonmises", "weibull_min",
]  # fmt: skip


class Distribution:
    """What continuous and discrete distributions share: arguments, support, logarithms.

    `formulas` has, by the name of the method, functions of the standardized variable and the
    parameters of shape; `support` its ends, or a function of these; `allowed` says of them where
    they are.
    """

    def __init__(
        self,
        name: str,
        shapes: str = "",
        support: tuple[float, float] | Formula = INFINITE,
        allowed: Formula | None = None,
        **formulas: Formula,
    ):
        self.name, self.shapes = name, tuple(shapes.split())
        self.ends, self.allowed, self.formulas = support, allowed, formulas
        self.__doc__ = f"The distribution ``scipy.stats.{name}``."

    def __repr__(self) -> str:
        return f"<wengert.scipy.stats.{self.name}>"

    def __call__(self, *args: Any, **named: Any) -> Frozen:
        """The distribution with its parameters given."""
        self._arguments("__call__", args, named)
        return Frozen(self, *args, **named)

    scaled = True  # whether there is a scale beside the location

    def _arguments(self, method: str, args: Sequence[Any], named: dict[str, Any]) -> Any:
        """The parameters of shape, the location and the scale."""
        names = (*self.shapes, "loc", "scale") if self.scaled else (*self.shapes, "loc")
        given = {"loc": 0.0, "scale": 1.0, **dict(zip(names, args, strict=False)), **named}
        missing = [name for name in self.shapes if name not in given]
        unknown = sorted(set(named) - set(names)) or sorted(set(names[: len(args)]) & set(named))
        if missing or unknown or len(args) > len(names):
            got = f"got {len(args)} parameters" + (f" and {', '.join(named)}" if named else "")
            raise TypeError(
                explain(f"{self.name}.{method}", got, f"They are x, {', '.join(names)}.")
            )
        values = [as_value(given[name]) for name in self.shapes]
        return values, as_value(given["loc"]), as_value(given["scale"])

    def _formula(self, method: str) -> Formula:
        if method not in self.formulas:
            there = ", ".join(sorted(self.formulas))
            raise DTypeError(explain(f"{self.name}.{method}", f"is not there; {there} are"))
        return self.formulas[method]

    def _on_support(
        self, method: str, x: Any, args: Sequence[Any], named: dict[str, Any], outside: Any
    ) -> Any:
        """A formula inside the support; below and above it the two numbers of `outside`."""
        formula = self._formula(method)
        shapes, loc, scale = self._arguments(method, args, named)
        y = self._standardized(as_value(x), loc, scale)
        low, high = self.ends(*shapes) if callable(self.ends) else self.ends
        below, above = y < self._finite(low, y), y > self._finite(high, y)
        inside = wnp.logical_not(wnp.logical_or(below, above))
        value = formula(wnp.where(inside, y, self._inner(low, high)), *shapes)
        value = wnp.where(inside, value, wnp.where(below, outside[0], outside[1]))
        valid = self._valid(shapes, scale) & (y == y)
        return wnp.where(valid, value, np.nan), scale

    def _valid(self, shapes: Sequence[Any], scale: Any) -> Any:
        valid = scale > 0
        if self.allowed is not None:
            return valid & self.allowed(*shapes)
        for parameter in shapes:
            valid = valid & (parameter > 0)
        return valid

    @staticmethod
    def _inner(low: Any, high: Any) -> Any:
        """A number inside the support, for where x is not."""
        if isinstance(low, float) and isinstance(high, float):
            if math.isinf(low):
                return 0.0
            return low + 1.0 if math.isinf(high) else 0.5 * (low + high)
        return wnp.where(high < math.inf, 0.5 * (low + wnp.where(high < math.inf, high, low)), low)

    @staticmethod
    def _finite(end: Any, y: Any) -> Any:
        """An end of the support for such numbers, which does not take in the infinite ones."""
        largest = float(np.finfo(type_of(y).dtype).max)
        if isinstance(end, float):
            return max(-largest, min(end, largest))
        return wnp.clip(end, -largest, largest)

    def _standardized(self, x: Any, loc: Any, scale: Any) -> Any:
        return (x - loc) / scale

    def cdf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The probability of numbers up to x."""
        return self._on_support("cdf", x, args, named, (0.0, 1.0))[0]

    def sf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The probability of numbers above x, accurate where it is small."""
        if "sf" not in self.formulas:
            return 1 - self.cdf(x, *args, **named)
        return self._on_support("sf", x, args, named, (1.0, 0.0))[0]

    def logcdf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The logarithm of `cdf`."""
        if "logcdf" not in self.formulas:
            return _log(self.cdf(x, *args, **named), self.sf(x, *args, **named))
        return self._on_support("logcdf", x, args, named, (-math.inf, 0.0))[0]

    def logsf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The logarithm of `sf`."""
        if "logsf" not in self.formulas:
            return _log(self.sf(x, *args, **named), self.cdf(x, *args, **named))
        return self._on_support("logsf", x, args, named, (0.0, -math.inf))[0]


class Continuous(Distribution):
    """A distribution of real numbers, with a location and a scale.

    >>> import wengert as wg
    >>> from wengert.scipy import stats
    >>> print(f"{stats.gamma.logpdf(2.0, 3.0, scale=2.0):.12f}")
    -2.386294361120
    >>> print(f"{wg.grad(stats.gamma.cdf, 1)(2.0, 3.0):.12f}")
    -0.231848672044
    """

    def logpdf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The logarithm of the density at x."""
        value, scale = self._on_support("logpdf", x, args, named, (-math.inf, -math.inf))
        return value - wnp.log(wnp.where(scale > 0, scale, 1.0))

    def pdf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The density at x."""
        return wnp.exp(self.logpdf(x, *args, **named))


class Discrete(Distribution):
    """A distribution of whole numbers, with a location.

    >>> from wengert.scipy import stats
    >>> print(f"{stats.poisson.pmf(2, 1.5):.12f} {stats.poisson.cdf(2, 1.5):.12f}")
    0.251021430167 0.808846830538
    """

    scaled = False

    def _standardized(self, x: Any, loc: Any, scale: Any) -> Any:
        return (x - loc) * 1.0

    def cdf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The probability of numbers up to x."""
        return super().cdf(wnp.floor(as_value(x) * 1.0), *args, **named)

    def sf(self, x: Any, *args: Any, **named: Any) -> Any:
        """The probability of numbers above x, accurate where it is small."""
        return super().sf(wnp.floor(as_value(x) * 1.0), *args, **named)

    def logpmf(self, k: Any, *args: Any, **named: Any) -> Any:
        """The logarithm of the probability of k; -inf between whole numbers."""
        _, loc, _ = self._arguments("logpmf", args, named)
        value = self._on_support("logpmf", k, args, named, (-math.inf, -math.inf))[0]
        whole = as_value(k) - loc == wnp.rint((as_value(k) - loc) * 1.0)
        return wnp.where(whole | (value != value), value, -math.inf)

    def pmf(self, k: Any, *args: Any, **named: Any) -> Any:
        """The probability of k."""
        return wnp.exp(self.logpmf(k, *args, **named))


def _log(p: Any, rest: Any = 1.0) -> Any:
    """log(p), -inf at 0 without a derivative; by the `rest` up to 1 where that is the smaller."""
    zero, most = p == 0, rest < 0.5
    usual = wnp.logical_not(wnp.logical_or(zero, most))
    value = wnp.where(usual, wnp.log(wnp.where(usual, p, 1.0)), -math.inf)
    return wnp.where(most, wnp.log1p(-wnp.where(most, rest, 0.0)), value)


def _square(x: Any) -> Any:
    return x * x


# ---------------------------------------------------------------- on the whole line

norm = Continuous(
    "norm",
    logpdf=lambda y: -0.5 * _square(y) - LOG_ROOT_2PI,
    cdf=sp.ndtr,
    sf=lambda y: sp.ndtr(-y),
    logcdf=sp.log_ndtr,
    logsf=lambda y: sp.log_ndtr(-y),
)
t = Continuous(
    "t",
    "df",
    logpdf=lambda y, df: (
        -0.5 * (df + 1) * wnp.log1p(_square(y) / df) - sp.betaln(0.5, 0.5 * df) - 0.5 * wnp.log(df)
    ),
    cdf=lambda y, df: student(df, y),
    sf=lambda y, df: student(df, -y),
)
cauchy = Continuous(
    "cauchy",
    logpdf=lambda y: -wnp.log1p(_square(y)) - math.log(math.pi),
    cdf=lambda y: wnp.arctan2(1.0, -y) / math.pi,
    sf=lambda y: wnp.arctan2(1.0, y) / math.pi,
)


def _laplace_cdf(y: Any) -> Any:
    half = 0.5 * wnp.exp(-wnp.abs(y))
    return wnp.where(y > 0, 1 - half, half)


def _laplace_logcdf(y: Any) -> Any:
    below = -wnp.abs(y) - math.log(2)
    return wnp.where(y > 0, wnp.log1p(-wnp.exp(below)), below)


laplace = Continuous(
    "laplace",
    logpdf=lambda y: -wnp.abs(y) - math.log(2),
    cdf=_laplace_cdf,
    sf=lambda y: _laplace_cdf(-y),
    logcdf=_laplace_logcdf,
    logsf=lambda y: _laplace_logcdf(-y),
)
logistic = Continuous(
    "logistic",
    logpdf=lambda y: sp.log_expit(y) + sp.log_expit(-y),
    cdf=sp.expit,
    sf=lambda y: sp.expit(-y),
    logcdf=sp.log_expit,
    logsf=lambda y: sp.log_expit(-y),
)


def _gumbel_tail(y: Any) -> Any:
    """log(1 - exp(-exp(y))), which is y far out on the left."""
    far = y < -40
    return wnp.where(far, y, wnp.log(-wnp.expm1(-wnp.exp(wnp.where(far, -40.0, y)))))


gumbel_r = Continuous(
    "gumbel_r",
    logpdf=lambda y: -y - wnp.exp(-y),
    cdf=lambda y: wnp.exp(-wnp.exp(-y)),
    sf=lambda y: -wnp.expm1(-wnp.exp(-y)),
    logcdf=lambda y: -wnp.exp(-y),
    logsf=lambda y: _gumbel_tail(-y),
)
gumbel_l = Continuous(
    "gumbel_l",
    logpdf=lambda y: y - wnp.exp(y),
    cdf=lambda y: -wnp.expm1(-wnp.exp(y)),
    sf=lambda y: wnp.exp(-wnp.exp(y)),
    logcdf=_gumbel_tail,
    logsf=lambda y: -wnp.exp(y),
)


def _vonmises_cdf(y: Any, kappa: Any) -> Any:
    """Turns are counted; within one, half a turn and the integral from 0 as far as it matters."""
    turns = wnp.rint(y * (0.5 / math.pi))
    rest = y - 2 * math.pi * turns
    far = 2 * wnp.arcsin(wnp.sqrt(18.5 / wnp.maximum(stop_gradient(kappa), 18.5)))
    end = wnp.minimum(wnp.abs(rest), stop_gradient(far))
    nodes, weights = (along(numbers, end) for numbers in MANY)
    values = weights * wnp.exp(-2 * kappa * _square(wnp.sin(0.5 * nodes * end)))
    part = end * wnp.sum(values, axis=0) / (2 * math.pi * sp.i0e(kappa))
    return turns + 0.5 + wnp.sign(rest) * wnp.minimum(part, 0.5)


vonmises = Continuous(
    "vonmises",
    "kappa",
    allowed=lambda kappa: kappa >= 0,
    logpdf=lambda y, kappa: (
        -2 * kappa * _square(wnp.sin(0.5 * y)) - wnp.log(sp.i0e(kappa)) - 2 * LOG_ROOT_2PI
    ),
    cdf=_vonmises_cdf,
)


def _log_normal_between(low: Any, high: Any) -> Any:
    """log(ndtr(high) - ndtr(low)), on the side where these are small."""
    right = low > 0
    low, high = wnp.where(right, -high, low), wnp.where(right, -low, high)
    top = sp.log_ndtr(high)
    less = sp.log_ndtr(low) - top
    same = less == 0
    return wnp.where(same, -math.inf, top + wnp.log(-wnp.expm1(wnp.where(same, -1.0, less))))


truncnorm = Continuous(
    "truncnorm",
    "a b",
    support=lambda a, b: (a, b),
    allowed=lambda a, b: a < b,
    logpdf=lambda y, a, b: -0.5 * _square(y) - LOG_ROOT_2PI - _log_normal_between(a, b),
    cdf=lambda y, a, b: wnp.exp(_log_normal_between(a, y) - _log_normal_between(a, b)),
    sf=lambda y, a, b: wnp.exp(_log_normal_between(y, b) - _log_normal_between(a, b)),
)

# ---------------------------------------------------------------- on a half line or an interval

uniform = Continuous(
    "uniform", support=(0.0, 1.0), logpdf=lambda y: 0.0 * y, cdf=lambda y: y, sf=lambda y: 1 - y
)
expon = Continuous(
    "expon",
    support=POSITIVE,
    logpdf=lambda y: -y,
    cdf=lambda y: -wnp.expm1(-y),
    sf=lambda y: wnp.exp(-y),
    logsf=lambda y: -y,
)


def _halfnorm_logsf(y: Any) -> Any:
    near = y < 1
    value = wnp.log1p(-sp.erf(wnp.where(near, y, 0.0) * math.sqrt(0.5)))
    return wnp.where(near, value, math.log(2) + sp.log_ndtr(-y))


halfnorm = Continuous(
    "halfnorm",
    support=POSITIVE,
    logpdf=lambda y: math.log(2) - LOG_ROOT_2PI - 0.5 * _square(y),
    cdf=lambda y: sp.erf(y * math.sqrt(0.5)),
    sf=lambda y: sp.erfc(y * math.sqrt(0.5)),
    logsf=_halfnorm_logsf,
)
halfcauchy = Continuous(
    "halfcauchy",
    support=POSITIVE,
    logpdf=lambda y: math.log(2 / math.pi) - wnp.log1p(_square(y)),
    cdf=lambda y: wnp.arctan(y) * (2 / math.pi),
    sf=lambda y: wnp.arctan2(1.0, y) * (2 / math.pi),
)
rayleigh = Continuous(
    "rayleigh",
    support=POSITIVE,
    logpdf=lambda y: _log(y) - 0.5 * _square(y),
    cdf=lambda y: -wnp.expm1(-0.5 * _square(y)),
    sf=lambda y: wnp.exp(-0.5 * _square(y)),
    logsf=lambda y: -0.5 * _square(y),
)
gamma = Continuous(
    "gamma",
    "a",
    support=POSITIVE,
    logpdf=lambda y, a: gamma_density(a, y),
    cdf=lambda y, a: sp.gammainc(a, y),
    sf=lambda y, a: sp.gammaincc(a, y),
)
chi2 = Continuous(
    "chi2",
    "df",
    support=POSITIVE,
    logpdf=lambda y, df: gamma_density(0.5 * df, 0.5 * y) - math.log(2),
    cdf=lambda y, df: sp.gammainc(0.5 * df, 0.5 * y),
    sf=lambda y, df: sp.gammaincc(0.5 * df, 0.5 * y),
)


def _inverse(y: Any) -> Any:
    """1 / y, infinite at 0 without a derivative."""
    zero = y == 0
    return wnp.where(zero, math.inf, 1 / wnp.where(zero, 1.0, y))


invgamma = Continuous(
    "invgamma",
    "a",
    support=POSITIVE,
    logpdf=lambda y, a: wnp.where(
        y == 0,
        -math.inf,
        gamma_density(a, 1 / wnp.where(y == 0, 1.0, y)) - 2 * wnp.log(wnp.where(y == 0, 1.0, y)),
    ),
    cdf=lambda y, a: sp.gammaincc(a, _inverse(y)),
    sf=lambda y, a: sp.gammainc(a, _inverse(y)),
)
beta = Continuous(
    "beta",
    "a b",
    support=(0.0, 1.0),
    logpdf=lambda y, a, b: beta_density(a, b, y),
    cdf=lambda y, a, b: sp.betainc(a, b, y),
    sf=lambda y, a, b: sp.betaincc(a, b, y),
)


def _f_logpdf(y: Any, m: Any, n: Any) -> Any:
    _, first, second, share = _f_share(y, m, n)
    whole = n + m * y
    return beta_density(first, second, share) + wnp.log(m / whole * (n / whole))


def _f_share(y: Any, m: Any, n: Any) -> Any:
    """The smaller of m y / (n + m y) and 1 less it, and the parameters of its distribution."""
    low = m * y < n
    share = wnp.where(low, m * y, n) / (n + m * y)
    return low, 0.5 * wnp.where(low, m, n), 0.5 * wnp.where(low, n, m), share


def _f_part(y: Any, m: Any, n: Any, upper: bool) -> Any:
    low, *arguments = _f_share(y, m, n)
    below, above = sp.betainc(*arguments), sp.betaincc(*arguments)
    return wnp.where(low, above, below) if upper else wnp.where(low, below, above)


f = Continuous(
    "f",
    "dfn dfd",
    support=POSITIVE,
    logpdf=_f_logpdf,
    cdf=lambda y, m, n: _f_part(y, m, n, upper=False),
    sf=lambda y, m, n: _f_part(y, m, n, upper=True),
)


def _log_ratio(y: Any, s: Any) -> Any:
    return _log(y) / s


lognorm = Continuous(
    "lognorm",
    "s",
    support=POSITIVE,
    logpdf=lambda y, s: wnp.where(
        y == 0,
        -math.inf,
        -0.5 * _square(wnp.log(wnp.where(y == 0, 1.0, y)) / s)
        - wnp.log(s * wnp.where(y == 0, 1.0, y))
        - LOG_ROOT_2PI,
    ),
    cdf=lambda y, s: sp.ndtr(_log_ratio(y, s)),
    sf=lambda y, s: sp.ndtr(-_log_ratio(y, s)),
    logcdf=lambda y, s: sp.log_ndtr(_log_ratio(y, s)),
    logsf=lambda y, s: sp.log_ndtr(-_log_ratio(y, s)),
)
pareto = Continuous(
    "pareto",
    "b",
    support=(1.0, math.inf),
    logpdf=lambda y, b: wnp.log(b) - (b + 1) * wnp.log(y),
    cdf=lambda y, b: -wnp.expm1(-b * wnp.log(y)),
    sf=lambda y, b: wnp.exp(-b * wnp.log(y)),
    logsf=lambda y, b: -b * wnp.log(y),
)
weibull_min = Continuous(
    "weibull_min",
    "c",
    support=POSITIVE,
    logpdf=lambda y, c: wnp.log(c) + sp.xlogy(c - 1, y) - wnp.power(y, c),
    cdf=lambda y, c: -wnp.expm1(-wnp.power(y, c)),
    sf=lambda y, c: wnp.exp(-wnp.power(y, c)),
    logsf=lambda y, c: -wnp.power(y, c),
)

# ---------------------------------------------------------------- of whole numbers


def _is_probability(p: Any) -> Any:
    return (p >= 0) & (p <= 1)


poisson = Discrete(
    "poisson",
    "mu",
    support=POSITIVE,
    allowed=lambda mu: mu >= 0,
    logpmf=lambda k, mu: gamma_density(k + 1, mu),
    cdf=lambda k, mu: sp.gammaincc(k + 1, mu),
    sf=lambda k, mu: sp.gammainc(k + 1, mu),
)
bernoulli = Discrete(
    "bernoulli",
    "p",
    support=(0.0, 1.0),
    allowed=_is_probability,
    logpmf=lambda k, p: sp.xlogy(k, p) + sp.xlog1py(1 - k, -p),
    cdf=lambda k, p: wnp.where(k < 1, 1 - p, 1.0),
    sf=lambda k, p: wnp.where(k < 1, p, 0.0),
)


def _binom_part(k: Any, n: Any, p: Any, upper: bool) -> Any:
    """1 - I(p; k + 1, n - k), or I if upper; all of it at k = n."""
    last = k >= n
    rest = wnp.where(last, 1.0, n - k)
    value = (sp.betainc if upper else sp.betaincc)(k + 1, rest, p)
    return wnp.where(last, 0.0 if upper else 1.0, value)


binom = Discrete(
    "binom",
    "n p",
    support=lambda n, p: (0.0 * n, 1.0 * n),
    allowed=lambda n, p: (n >= 0) & _is_probability(p),
    logpmf=lambda k, n, p: beta_density(k + 1, n - k + 1, p) - wnp.log(n + 1.0),
    cdf=lambda k, n, p: _binom_part(k, n, p, upper=False),
    sf=lambda k, n, p: _binom_part(k, n, p, upper=True),
)
nbinom = Discrete(
    "nbinom",
    "n p",
    support=POSITIVE,
    allowed=lambda n, p: (n > 0) & (p > 0) & (p <= 1),
    logpmf=lambda k, n, p: beta_density(n, k + 1, p) + wnp.log(p / (n + k)),
    cdf=lambda k, n, p: sp.betainc(n, k + 1, p),
    sf=lambda k, n, p: sp.betaincc(n, k + 1, p),
)
geom = Discrete(
    "geom",
    "p",
    support=(1.0, math.inf),
    allowed=lambda p: (p > 0) & (p <= 1),
    logpmf=lambda k, p: sp.xlog1py(k - 1, -p) + wnp.log(p),
    cdf=lambda k, p: -wnp.expm1(sp.xlog1py(k, -p)),
    sf=lambda k, p: wnp.exp(sp.xlog1py(k, -p)),
)
