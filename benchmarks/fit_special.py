"""Fit the polynomials of wengert's special functions and print them as `special_coefficients.py`.

    python benchmarks/fit_special.py > src/wengert/ops/special_coefficients.py

Each entry is a weighted minimax fit (see `fit_polynomials.remez`). Beside the fit's error stands
the condition of its evaluation: how much larger than the result the sum of the sizes of its terms
is, at worst; times half an ulp it bounds the rounding error of Horner's rule.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import mpmath as mp
from fit_polynomials import odd, one, remez

mp.mp.dps = 50
Function = Callable[[mp.mpf], mp.mpf]


def mapped(f: Function, centre: float) -> Function:
    """f as a function of q = (x - centre) / (x + centre)."""
    return lambda q: f(centre * (1 + q) / (1 - q))


def q_of(x: float, centre: float) -> mp.mpf:
    return (mp.mpf(x) - centre) / (mp.mpf(x) + centre)


def scaled_erfcx(q: mp.mpf) -> mp.mpf:
    """(1 + 2x) exp(x^2) erfc(x) at x = 4 (1 + q) / (1 - q); its limit far out is 2 / sqrt(pi)."""
    x = 4 * (1 + q) / (1 - q)
    if x < 60:
        return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)
    term, total = mp.mpf(1), mp.mpf(0)
    for k in range(40):
        total += term
        term *= -(2 * k + 1) / (2 * x * x)
    return (1 + 2 * x) / (x * mp.sqrt(mp.pi)) * total


def erfcinv_of_root(s: mp.mpf) -> mp.mpf:
    """y / s with erfc(y) = exp(-s^2), by Newton's method on the logarithm."""
    y = s
    for _ in range(60):
        tail = mp.erfc(y)
        step = (mp.log(tail) + s * s) * tail * mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
        y += step
        if abs(step) < mp.mpf(10) ** -40:
            break
    return y / s


def lgamma_quotient(x: mp.mpf) -> mp.mpf:
    return mp.loggamma(x) / ((x - 1) * (x - 2))


DIGAMMA_ROOT = mp.findroot(mp.digamma, mp.mpf("1.4616"))


def bessel_small(order: int) -> Function:
    """I_n(x) / (x/2)^n as a function of z = x^2 / 4."""
    return lambda z: mp.besseli(order, 2 * mp.sqrt(z)) / mp.sqrt(z) ** order


def bessel_large(order: int) -> Function:
    """sqrt(x) exp(-x) I_n(x) as a function of v = 16 / x - 1."""

    def value(v: mp.mpf) -> mp.mpf:
        x = 16 / (v + 1)
        if x > 1e4:
            term, total = mp.mpf(1), mp.mpf(0)
            for k in range(1, 30):
                total += term
                term *= -(4 * order * order - (2 * k - 1) ** 2) / (k * 8 * x)
            return total / mp.sqrt(2 * mp.pi)
        return mp.sqrt(x) * mp.exp(-x) * mp.besseli(order, x)

    return value


SMALL_BESSEL_TOP = 16
LOW, MID = 1.25, 6.0
# name: (what, function, weight, low, high, count)
FITS = {
    "ERF": (
        "(erf(x) - x) / x in x^2, |x| <= 1",
        odd(mp.erf, 1, {1: 1}), lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)), 0, 1, 12,
    ),
    "ERFCX": (
        "(1 + 2x) exp(x^2) erfc(x) in q = (x-4)/(x+4), x >= 1/2",
        scaled_erfcx, one, q_of(0.5, 4), 1, 24,
    ),
    "ERFINV": (
        "erfinv(x) / x in x^2, |x| <= 3/4",
        lambda z: mp.erfinv(mp.sqrt(z)) / mp.sqrt(z), one, 0, 0.5625, 23,
    ),
    "ERFCINV": (
        "y / s with erfc(y) = exp(-s^2) in q = (s-4)/(s+4), 1.177 <= s <= 27.4",
        mapped(erfcinv_of_root, 4), one, q_of(1.177, 4), q_of(27.4, 4), 32,
    ),
    "GAMMALN_LOW": (
        "log(gamma(x)) / (x-1) / (x-2) in q = (x-1.25)/(x+1.25), 1/2 <= x <= 3",
        mapped(lgamma_quotient, LOW), lambda q: 1 / mapped(lgamma_quotient, LOW)(q),
        q_of(0.5, LOW), q_of(3, LOW), 28,
    ),
    "GAMMALN_MID": (
        "the same in q = (x-6)/(x+6), 3 <= x <= 12",
        mapped(lgamma_quotient, MID), lambda q: 1 / mapped(lgamma_quotient, MID)(q),
        q_of(3, MID), q_of(12, MID), 24,
    ),
    "DIGAMMA_LOW": (
        "digamma(x) / (x - root) in q = (x-1.25)/(x+1.25), 1/2 <= x <= 3",
        mapped(lambda x: mp.digamma(x) / (x - DIGAMMA_ROOT), LOW),
        lambda q: 1 / mapped(lambda x: mp.digamma(x) / (x - DIGAMMA_ROOT), LOW)(q),
        q_of(0.5, LOW), q_of(3, LOW), 28,
    ),
    "DIGAMMA_MID": (
        "digamma(x) in q = (x-6)/(x+6), 3 <= x <= 12",
        mapped(mp.digamma, MID), one, q_of(3, MID), q_of(12, MID), 24,
    ),
    "BESSEL_I0_SMALL": (
        "I0(x) in z = x^2/4, |x| <= 8",
        bessel_small(0), lambda z: 1 / bessel_small(0)(z), 0, SMALL_BESSEL_TOP, 16,
    ),
    "BESSEL_I1_SMALL": (
        "I1(x) / (x/2) in z = x^2/4, |x| <= 8",
        bessel_small(1), lambda z: 1 / bessel_small(1)(z), 0, SMALL_BESSEL_TOP, 16,
    ),
    "BESSEL_I0_LARGE": (
        "sqrt(x) exp(-x) I0(x) in v = 16/x - 1, x >= 8", bessel_large(0), one, -1, 1, 26,
    ),
    "BESSEL_I1_LARGE": (
        "sqrt(x) exp(-x) I1(x) in v = 16/x - 1, x >= 8", bessel_large(1), one, -1, 1, 26,
    ),
}  # fmt: skip


def condition(coefficients: list[mp.mpf], low: mp.mpf, high: mp.mpf) -> mp.mpf:
    points = [low + (high - low) * i / 200 for i in range(201)]
    sizes = [abs(c) for c in coefficients][::-1]
    return max(mp.polyval(sizes, abs(x)) / abs(mp.polyval(coefficients[::-1], x)) for x in points)


def show(name: str) -> str:
    what, f, weight, low, high, count = FITS[name]
    coefficients, error = remez(f, weight, mp.mpf(low), mp.mpf(high), count)
    worst = float(condition(coefficients, mp.mpf(low), mp.mpf(high)))
    quality = f"error 2^{float(mp.log(error, 2)):.1f}, condition {worst:.2g}"
    numbers = [f"    {float(c)!r}," for c in coefficients]
    return "\n".join([f"# {what}", f"{name} = (  # {quality}", *numbers, ")"])


if __name__ == "__main__":
    print('"""Minimax polynomials, lowest power first; made by benchmarks/fit_special.py."""\n')
    for name in sys.argv[1:] or FITS:
        print(show(name), flush=True)
