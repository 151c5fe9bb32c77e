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
import numpy as np
from fit_polynomials import odd, one, plain, remez

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
EI_ROOT = mp.findroot(mp.ei, mp.mpf("0.3725"))


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


def oscillating(order: int, second: bool) -> Function:
    """J_n(x) / x^n, or Y_n less its logarithm and pole, as a function of z = x^2."""

    def value(z: mp.mpf) -> mp.mpf:
        x = mp.sqrt(z)
        if not second:
            return mp.besselj(order, x) / x**order
        with mp.workdps(80):
            pole = 1 / x if order else 0
            log = 2 / mp.pi * (mp.log(x) * mp.besselj(order, x) - pole)
            return (mp.bessely(order, x) - log) / x**order

    return value


def amplitude(order: int, sine: bool) -> Function:
    """What J_n(x) sqrt(pi x / 2) is of the cosine, or -x/8 of the sine, in z = (8 / x)^2."""

    def value(z: mp.mpf) -> mp.mpf:
        x = 8 / mp.sqrt(z)
        with mp.workdps(60):
            phase = x - mp.pi / 4 - order * mp.pi / 2
            j, y = mp.besselj(order, x), mp.bessely(order, x)
            cos, sin = mp.cos(phase), mp.sin(phase)
            part = (y * cos - j * sin) * x / 8 if sine else j * cos + y * sin
            return mp.sqrt(mp.pi * x / 2) * part

    return value


def stretched(f: Function, low: float, high: float) -> tuple[Function, Function, int, int]:
    """A fit of f(z) from low to high in t from -1 to 1, in which its terms stay small."""
    return lambda t: f(mp.mpf(low + high) / 2 + t * mp.mpf(high - low) / 2), one, -1, 1


def scaled_ei(x: mp.mpf) -> mp.mpf:
    """x exp(-x) Ei(x), by its asymptotic series far out."""
    if abs(x) < 200:
        return mp.re(x * mp.exp(-x) * mp.ei(x))
    return mp.fsum(mp.factorial(k) / x**k for k in range(100))


def entire(x: mp.mpf) -> mp.mpf:
    with mp.workdps(80):
        return mp.re(mp.ei(x) - mp.log(abs(x)) - mp.euler) / x


def dilogarithm(w: mp.mpf) -> mp.mpf:
    with mp.workdps(80):
        return mp.re(mp.polylog(2, w)) / w


def stirling_rest(z: mp.mpf) -> mp.mpf:
    """What Stirling's formula leaves of log gamma(x), times x = 1/z."""
    with mp.workdps(80):
        x = 1 / z
        return x * (mp.loggamma(x) - (x - 0.5) * mp.log(x) + x - mp.log(2 * mp.pi) / 2)


def quadrature(count: int, first: int) -> str:
    """The nodes lie closest at 0, where the integrands that it is for have all that is not flat."""
    guesses = np.polynomial.legendre.leggauss(count)[0]
    nodes = [mp.findroot(lambda x: mp.legendre(count, x), mp.mpf(float(v))) for v in guesses]
    slopes = [count * mp.legendre(count - 1, x) / (1 - x * x) for x in nodes]
    places = [(1 + x) / 2 for x in nodes]
    last = 20 - first
    weights = [1 / ((1 - x * x) * slope**2) for x, slope in zip(nodes, slopes, strict=True)]
    rows = {
        f"NODES_{count}": [s * (first + last * s) / 20 for s in places],
        f"WEIGHTS_{count}": [
            w * (first + 2 * last * s) / 20 for s, w in zip(places, weights, strict=True)
        ],
    }
    tables = [
        "\n".join([f"{name} = (", *(f"    {float(x)!r}," for x in values), ")"])
        for name, values in rows.items()
    ]
    about = (
        f"# Gauss and Legendre's rule from 0 to 1, its nodes s moved to s ({first} + {last} s) / 20"
    )
    return "\n".join([about, *tables])


SMALL_BESSEL_TOP = 16
LOW, MID = 1.25, 6.0
BESSEL_RANGES = (("LOW", 0, 16, 13), ("MID", 16, 64, 16))
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
    **{
        f"BESSEL_{kind}{n}_{name}": (
            f"{kind}{n}(x) {'less its logarithm and pole ' if kind == 'Y' else ''}/ x^{n} "
            f"in t = (x^2 - {(low + high) // 2})/{(high - low) // 2}, {low} <= x^2 <= {high}",
            *stretched(oscillating(n, kind == "Y"), low, high), count,
        )
        for kind in "JY" for n in (0, 1) for name, low, high, count in BESSEL_RANGES
    },
    **{
        f"BESSEL_{n}_{part}": (
            f"the {part.lower()} part of J{n} in t = 2 (8/x)^2 - 1, x >= 8",
            *stretched(amplitude(n, part == "SINE"), 0, 1), 15,
        )
        for n in (0, 1) for part in ("COSINE", "SINE")
    },
    "EI_LEFT": (
        "(Ei(x) - log|x| - gamma) / x, -1 <= x <= 0", entire, one, -1, 0, 13,
    ),
    "EI_SMALL": (
        "the same in t = x/3 - 1, 0 <= x <= 6", *stretched(entire, 0, 6), 21,
    ),
    "EI_ROOT": (
        "Ei(x) / (x - root) in q = (x-3/8)/(x+3/8), 5/16 <= x <= 7/16",
        mapped(lambda x: mp.re(mp.ei(x)) / (x - EI_ROOT), 0.375), one,
        q_of(0.3125, 0.375), q_of(0.4375, 0.375), 13,
    ),
    **{
        f"EI_{name}": (
            f"x exp(-x) Ei(x) in t = ({low * high} / x - {(low + high) / 2}) * 2 / {high - low}, "
            f"{low} <= x <= {high}",
            *stretched(lambda z, low=low, high=high: scaled_ei(low * high / z), low, high), count,
        )
        for name, low, high, count in (("MID", 6, 12, 21), ("LARGE", 12, 30, 22))
    },
    "EI_FAR": (
        "x exp(-x) Ei(x) in t = 60/x - 1, x >= 30",
        *stretched(lambda z: scaled_ei(30 / z), 0, 1), 20,
    ),
    "EXP1": (
        "(1 + x) exp(x) E1(x) in q = (x-2)/(x+2), x >= 1",
        mapped(lambda x: (1 + 1 / x) * scaled_ei(-x), 2), one, q_of(1, 2), 1, 29,
    ),
    "SPENCE": (
        "Li2(w) / w in t = (4 w + 1) / 3, -1 <= w <= 1/2", *stretched(dilogarithm, -1, 0.5), 30,
    ),
    "ATANH": (
        "(atanh(r) - r) / r^3 in r^2, |r| <= 1/3",
        lambda s: (mp.atanh(mp.sqrt(s)) / mp.sqrt(s) - 1) / s, one, 0, mp.mpf(1) / 9, 11,
    ),
    "EXP_SMALL": (
        "(exp(x) - 1 - x) / x^2, |x| <= log(2) / 2",
        plain(mp.exp, 2, {0: 1, 1: 1}), one, -mp.log(2) / 2, mp.log(2) / 2, 10,
    ),
    "STIRLING": (
        "x (log gamma(x) - (x - 1/2) log(x) + x - log(2 pi)/2) in t = 2/x - 1, x >= 1",
        *stretched(stirling_rest, 0, 1), 25,
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
    if len(sys.argv) == 1:
        print(quadrature(36, 7))
