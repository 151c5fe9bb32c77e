"""Special functions under SciPy's names; `wengert.numpy` has some of them too."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import DTypeError, explain
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
from ..numpy.common import as_value, cast
from ..numpy.special import is_complex
from ..ops import bessel, complex_bessel, incomplete, integrals, logic
from ..ops import complex_functions as cf
from ..ops import elementwise as ew
from ..ops import special as sp
from ..ops import zeta as zeta_functions
from ..ops.op import Traced
from ..types import type_of

psi = digamma

__all__ = [
    "beta", "betainc", "betaincc", "betaln", "binom", "comb", "digamma", "entr", "erf", "erfc",
    "erfcinv", "erfcx", "erfinv", "exp1", "expi", "expit", "expn", "factorial", "gamma",
    "gammainc", "gammaincc", "gammaln", "gammasgn", "i0", "i0e", "i1", "i1e", "iv", "ive", "j0",
    "j1", "jn", "jv", "kl_div", "lambertw", "log_expit", "log_ndtr", "log_softmax", "loggamma",
    "logit", "logsumexp", "multigammaln", "ndtr", "ndtri", "poch", "polygamma", "psi", "rel_entr",
    "rgamma", "sinc", "softmax", "softplus", "spence", "xlog1py", "xlogy", "y0", "y1", "yn",
    "yv", "zeta",
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
    3.757276736e-42
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
    return incomplete.regularized_beta(as_value(a), as_value(b), as_value(x), upper=False)


def betaincc(a: Any, b: Any, x: Any) -> Any:
    """1 - betainc(a, b, x), accurate where it is small.

    >>> import wengert.scipy as wsp
    >>> print(f"{wsp.special.betaincc(2.0, 3.0, 0.99):.9e}")
    3.970000000e-06
    """
    return incomplete.regularized_beta(as_value(a), as_value(b), as_value(x), upper=True)


def exp1(z: Any) -> Any:
    """The exponential integral E_1.

    >>> import wengert.scipy as wsp
    >>> print(f"{wsp.special.exp1(1.0):.12f}")
    0.219383934396
    """
    z = as_value(z)
    return cf.exp1_op(z) if is_complex(z) else integrals.expn_op(z, n=1)


def expi(x: Any) -> Any:
    """The exponential integral Ei.

    >>> import wengert.scipy as wsp
    >>> print(f"{wsp.special.expi(1.0):.12f}")
    1.895117816356
    """
    x = as_value(x)
    return cf.expi_op(x) if is_complex(x) else integrals.expi_op(x)


def expn(n: int, x: Any) -> Any:
    """The generalized exponential integral E_n; n is a whole number.

    >>> import wengert.scipy as wsp
    >>> print(f"{wsp.special.expn(2, 1.0):.12f}")
    0.148495506776
    """
    order = _whole("expn", n)
    if order < 0:
        raise DTypeError(explain("expn", f"got the order {order}", "Give one of at least 0."))
    return integrals.expn_op(as_value(x), n=order)


def spence(z: Any) -> Any:
    """The integral of log(t) / (1 - t) from 1 to z, which is the dilogarithm of 1 - z.

    >>> import wengert.scipy as wsp
    >>> print(f"{wsp.special.spence(0.0):.12f}")
    1.644934066848
    """
    z = as_value(z)
    return cf.spence_op(z) if is_complex(z) else integrals.spence(z)


def lambertw(z: Any, k: int = 0, tol: float = 1e-8) -> Any:
    """Lambert's W, the w with w exp(w) = z; k, a whole number, says which. It is complex.

    It is as exact as can be: `tol` is there for SciPy's sake alone.

    >>> import wengert.scipy as wsp
    >>> print(f"{wsp.special.lambertw(1.0).real:.12f}")
    0.567143290410
    """
    z = as_value(z)
    if not is_complex(z):
        single = type_of(z).dtype == np.float32
        z = cast(z, np.dtype(np.complex64 if single else np.complex128))
    return cf.lambertw_op(z, k=_whole("lambertw", k))


# ---------------------------------------------------------------- Bessel functions


def _whole(name: str, order: Any) -> int:
    """A whole order as an int, or an error."""
    number = None if isinstance(order, Traced) else np.asarray(order)
    if number is None or number.ndim or number != np.rint(number):
        raise DTypeError(
            explain(
                name,
                f"got the order {order!r}, expected a whole number",
                "Orders between whole ones, arrays of orders and derivatives by the order are not "
                "there; wg.custom_rule adds a function of your own.",
            )
        )
    return int(number)


def _of_order(kind: str, n: int, x: Any) -> Any:
    """A Bessel function of an order that may be negative: (-1)^n times that of -n."""
    x = as_value(x)
    op = getattr(complex_bessel if is_complex(x) else bessel, kind)
    value = op(x, n=abs(n))
    return -value if n < 0 and n % 2 else value


def j0(x: Any) -> Any:
    """The Bessel function of the first kind of order 0.

    >>> import wengert.scipy as wsp
    >>> print(f"{wsp.special.j0(1.0):.12f}")
    0.765197686558
    """
    return _of_order("j", 0, x)


def j1(x: Any) -> Any:
    """The Bessel function of the first kind of order 1.

    >>> import wengert.scipy as wsp
    >>> print(f"{wsp.special.j1(1.0):.12f}")
    0.440050585745
    """
    return _of_order("j", 1, x)


def jv(v: Any, z: Any) -> Any:
    """The Bessel function of the first kind of a whole order v; also called `jn`.

    >>> import wengert.scipy as wsp
    >>> print(f"{wsp.special.jv(2, 1.0):.12f}")
    0.114903484932
    """
    return _of_order("j", _whole("jv", v), z)


jn = jv


def y0(x: Any) -> Any:
    """The Bessel function of the second kind of order 0.

    >>> import wengert.scipy as wsp
    >>> print(f"{wsp.special.y0(1.0):.12f}")
    0.088256964216
    """
    return _of_order("y", 0, x)


def y1(x: Any) -> Any:
    """The Bessel function of the second kind of order 1.

    >>> import wengert.scipy as wsp
    >>> print(f"{wsp.special.y1(1.0):.12f}")
    -0.781212821300
    """
    return _of_order("y", 1, x)


def yv(v: Any, z: Any) -> Any:
    """The Bessel function of the second kind of a whole order v; also called `yn`.

    >>> import wengert.scipy as wsp
    >>> print(f"{wsp.special.yv(2, 1.0):.12f}")
    -1.650682606816
    """
    return _of_order("y", _whole("yv", v), z)


yn = yv


def _real_order(name: str, order: Any) -> float:
    """An order as a number of which whole ones are ints, and not negative; or an error."""
    number = None if isinstance(order, Traced) else np.asarray(order)
    if number is None or number.ndim or number.dtype.kind not in "biuf" or not np.isfinite(number):
        raise DTypeError(
            explain(
                name,
                f"got the order {order!r}, expected one real number",
                "Arrays of orders and derivatives by the order are not there; wg.custom_rule adds "
                "a function of your own.",
            )
        )
    return float(number) if number % 1 else abs(int(number))


def iv(v: Any, z: Any) -> Any:
    """The modified Bessel function of the first kind of a real order v, which is a number.

    >>> import wengert.scipy as wsp
    >>> print(f"{wsp.special.iv(2, 1.0):.12f} {wsp.special.iv(0.5, 1.0):.12f}")
    0.135747669767 0.937674888245
    """
    return _modified(z, _real_order("iv", v), False)


def ive(v: Any, z: Any) -> Any:
    """exp(-|z|) iv(v, z).

    >>> import wengert.scipy as wsp
    >>> print(f"{wsp.special.ive(2, 1000.0):.12f}")
    0.012592018595
    """
    return _modified(z, _real_order("ive", v), True)


def _modified(z: Any, n: float, scaled: bool) -> Any:
    """I_n(z), times exp(-|real part of z|) if scaled; of complex numbers from the right half."""
    z = as_value(z)
    if not is_complex(z):
        return sp.bessel_i(z, n=n, scaled=scaled)
    left = logic.less(ew.real(z), 0)
    turned = ew.select(left, -z, z)
    exponent = 1j * ew.imag(turned) if scaled else turned
    value = complex_bessel.i(turned, n=n) * ew.exp(exponent)
    whole, part = divmod(n, 1)
    turn = (-1) ** int(whole) * np.exp(1j * math.pi * part)
    if part:  # the negative axis belongs to the upper half
        turn = ew.select(logic.less(ew.imag(z), 0), np.conj(turn), turn)
    return cast(value * ew.select(left, turn, 1.0), type_of(z).dtype)


# ---------------------------------------------------------------- gamma functions and combinatorics


def loggamma(z: Any) -> Any:
    """log(gamma(z)), continuous but for the negative axis; of real numbers below 0 it is NaN.

    >>> import wengert.scipy as wsp
    >>> print(f"{wsp.special.loggamma(0.5):.12f}")
    0.572364942925
    >>> print(f"{wsp.special.loggamma(1 + 2j):.9f}")
    -1.876078786+0.129646316j
    """
    z = as_value(z)
    if is_complex(z):
        return cf.loggamma_op(z)
    return ew.select(logic.less(z, 0), np.nan, sp.gammaln(z))


def rgamma(z: Any) -> Any:
    """1 / gamma(z), which is 0 at 0 and the negative integers.

    >>> import wengert.scipy as wsp
    >>> float(wsp.special.rgamma(3.0)), float(wsp.special.rgamma(-1.0))
    (0.5, 0.0)
    """
    z = as_value(z)
    if is_complex(z):
        return cf.rgamma_op(z)
    return sp.rgamma(z)


def multigammaln(a: Any, d: int) -> Any:
    """The logarithm of the multivariate gamma function of dimension d.

    >>> import wengert.scipy as wsp
    >>> print(f"{wsp.special.multigammaln(3.5, 3):.12f}")
    3.895898482154
    """
    a, dimension = as_value(a), _whole("multigammaln", d)
    total: Any = dimension * (dimension - 1) * 0.25 * math.log(math.pi)
    for k in range(dimension):
        total = total + sp.gammaln(a - 0.5 * k)
    return total


def poch(z: Any, m: Any) -> Any:
    """gamma(z + m) / gamma(z), the rising factorial.

    >>> import wengert.scipy as wsp
    >>> print(f"{wsp.special.poch(3.0, 2.0):.12f}")
    12.000000000000
    """
    return integrals.poch(as_value(z), as_value(m))


def binom(n: Any, k: Any) -> Any:
    """The binomial coefficient of real numbers.

    >>> import wengert.scipy as wsp
    >>> float(wsp.special.binom(5, 2))
    10.0
    """
    return integrals.binom(as_value(n), as_value(k))


def comb(N: Any, k: Any, *, exact: bool = False, repetition: bool = False) -> Any:
    """How many ways there are to choose k of N; 0 for numbers outside 0 <= k <= N.

    >>> import wengert.scipy as wsp
    >>> float(wsp.special.comb(5, 2)), wsp.special.comb(60, 30, exact=True)
    (10.0, 118264581564861424)
    """
    if exact:
        total, chosen = (_whole("comb", value) for value in (N, k))
        total = total + chosen - 1 if repetition and chosen else total
        return math.comb(total, chosen) if 0 <= chosen <= total else 0
    N, k = as_value(N), as_value(k)
    if repetition:
        return comb(N + k - 1, k)
    inside = logic.logical_and(logic.less_equal(k, N), logic.greater_equal(k, 0))
    inside = logic.logical_and(inside, logic.greater_equal(N, 0))
    return ew.select(inside, integrals.comb(ew.select(inside, N, 1), ew.select(inside, k, 1)), 0.0)


def zeta(x: Any, q: Any = None) -> Any:
    """Riemann's zeta function, or Hurwitz's of a number x > 1, with its derivative by q.

    Riemann's takes complex numbers too, at most 100 from the real axis; beyond it is NaN.

    >>> import wengert.scipy as wsp
    >>> print(f"{wsp.special.zeta(2.0):.12f} {wsp.special.zeta(3, 0.5):.12f}")
    1.644934066848 8.414398322117
    """
    if q is None:
        x = as_value(x)
        riemann = zeta_functions.complex_riemann_zeta if is_complex(x) else None
        return (riemann or zeta_functions.riemann_zeta)(x)
    exponent = None if isinstance(x, Traced) else np.asarray(x)
    if exponent is None or exponent.ndim or exponent <= 1:
        raise DTypeError(
            explain(
                "zeta",
                f"got x = {x!r} beside q, expected a number above 1",
                "Arrays of x and derivatives by x are not there.",
            )
        )
    return zeta_functions.hurwitz_zeta(as_value(q), s=float(exponent))


# The ufuncs that SciPy's functions of these names call: on traced values they arrive here.
_riemann_zeta = _zeta = zeta
_lambertw = lambertw
