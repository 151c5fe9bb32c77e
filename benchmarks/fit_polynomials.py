"""Fit the polynomials of wengert's vector mathematics and print them as `coefficients.py`.

    python benchmarks/fit_polynomials.py > src/wengert/codegen/vmath/coefficients.py

Each entry is a weighted minimax fit (Remez exchange on a dense Chebyshev grid, mpmath, 50 digits).
The weight says how an error of the polynomial reaches the result; the fit's error is printed, as a
power of two, in the comment of its entry. Coefficients are rounded to the width they are used in.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import mpmath as mp
import numpy as np

mp.mp.dps = 50
Function = Callable[[mp.mpf], mp.mpf]
HALF_LN2 = mp.log(2) / 2 * mp.mpf("1.0005")
LOG_LOW, LOG_HIGH = mp.sqrt(0.5) - 1, mp.sqrt(2) - 1
LOG_S2 = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mp.mpf("1.0005")
QUARTER_PI2 = (mp.pi / 4) ** 2 * mp.mpf("1.0005")
ERFC_CENTRE = 4
MILLS_CENTRE = 3
DIGAMMA_ROOT = mp.findroot(mp.digamma, 1.4616321449683623)


def remez(f: Function, weight: Function, low: mp.mpf, high: mp.mpf, count: int, rounds: int = 8):
    """Return `count` coefficients, lowest power first, and the weighted error they leave."""
    grid = [
        (low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * 24 * count))
        for i in range(24 * count)
    ]
    values = [f(x) for x in grid]
    weights = [abs(weight(x)) for x in grid]
    nodes = [round((1 - np.cos(np.pi * i / count)) / 2 * (len(grid) - 1)) for i in range(count + 1)]
    for _ in range(rounds):
        rows = mp.matrix(count + 1, count + 1)
        right = mp.matrix(count + 1, 1)
        for row, node in enumerate(nodes):
            for column in range(count):
                rows[row, column] = grid[node] ** column
            rows[row, count] = (-1) ** row / weights[node]
            right[row] = values[node]
        solution = mp.lu_solve(rows, right)
        coefficients = [solution[i] for i in range(count)]
        errors = [
            w * (mp.polyval(coefficients[::-1], x) - v)
            for x, v, w in zip(grid, values, weights, strict=True)
        ]
        exchanged = exchange(errors, count + 1)
        if exchanged is None or exchanged == nodes:
            break
        nodes = exchanged
    return coefficients, max(abs(e) for e in errors)


def exchange(errors: list[mp.mpf], wanted: int) -> list[int] | None:
    """Pick the largest error of each run of one sign; drop the smallest end runs if too many."""
    peaks: list[int] = []
    for i, error in enumerate(errors):
        if peaks and (errors[peaks[-1]] > 0) == (error > 0):
            if abs(error) > abs(errors[peaks[-1]]):
                peaks[-1] = i
        else:
            peaks.append(i)
    while len(peaks) > wanted:
        peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
    return peaks if len(peaks) == wanted else None


def odd(f: Function, order: int, terms: dict[int, mp.mpf]) -> Function:
    """Return z -> (f(x) - sum(terms[k] * x**k)) / x**order with x = sqrt(z), also near 0."""

    def remainder(z: mp.mpf) -> mp.mpf:
        with mp.workdps(120):
            x = mp.sqrt(z)
            rest = f(x) - mp.fsum(c * x**k for k, c in terms.items())
            return rest / x**order

    return remainder


def plain(f: Function, order: int, terms: dict[int, mp.mpf]) -> Function:
    """Return x -> (f(x) - sum(terms[k] * x**k)) / x**order, also near 0."""

    def remainder(x: mp.mpf) -> mp.mpf:
        with mp.workdps(120):
            return (f(x) - mp.fsum(c * x**k for k, c in terms.items())) / x**order

    return remainder


def mapped_erfcx(q: mp.mpf) -> mp.mpf:
    """(1 + 2x) exp(x^2) erfc(x) at x = K (1 + q) / (1 - q)."""
    x = ERFC_CENTRE * (1 + q) / (1 - q)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def mapped_tail(q: mp.mpf) -> mp.mpf:
    """(1 + x) exp(x^2 / 2) ndtr(-x) at x = 3 (1 + q) / (1 - q)."""
    x = MILLS_CENTRE * (1 + q) / (1 - q)
    return (1 + x) * mp.exp(x * x / 2) * mp.erfc(x / mp.sqrt(2)) / 2


def stirling_rest(z: mp.mpf) -> mp.mpf:
    """x (gammaln(x) - (x - 1/2)(log(x) - 1) - (log(2 pi) - 1) / 2) at x = 1/sqrt(z)."""
    with mp.workdps(120):
        x = 1 / mp.sqrt(z)
        leading = (x - mp.mpf(0.5)) * (mp.log(x) - 1) + (mp.log(2 * mp.pi) - 1) / 2
        return x * (mp.loggamma(x) - leading)


def digamma_rest(z: mp.mpf) -> mp.mpf:
    """x^2 (log(x) - 1/(2x) - digamma(x)) at x = 1/sqrt(z)."""
    with mp.workdps(120):
        x = 1 / mp.sqrt(z)
        return (mp.log(x) - 1 / (2 * x) - mp.digamma(x)) * x * x


def digamma_slope(v: mp.mpf) -> mp.mpf:
    """digamma(y) / (y - root) at y = 3/2 + v."""
    y = mp.mpf(1.5) + v
    return mp.digamma(y) / (y - DIGAMMA_ROOT)


def erfc_q(x: float) -> mp.mpf:
    return mp.mpf(x - ERFC_CENTRE) / (x + ERFC_CENTRE)


one = lambda z: mp.mpf(1)
third, two_thirds = mp.mpf(1) / 3, mp.mpf(2) / 3
twice_atanh = lambda s: 2 * mp.atanh(s)
minus_log_erfc = lambda v: -mp.log(mp.erfc(v + 1))
erfc_weight = lambda v: mp.erfc(v + 1)
log1p = mp.log1p
# name: (what, function, weight, low, high, {width: count})
FITS = {
    "EXP": (
        "(exp(r) - 1 - r) / r^2, |r| <= ln(2)/2",
        plain(mp.exp, 2, {0: 1, 1: 1}), lambda r: r * r, -HALF_LN2, HALF_LN2, {64: 10, 32: 5},
    ),
    "EXP2": (
        "(2^r - 1) / r, |r| <= 1/2",
        plain(lambda r: mp.mpf(2) ** r, 1, {0: 1}), lambda r: r, -0.5, 0.5, {64: 11, 32: 6},
    ),
    "LOG": (
        "(2 atanh(s) - 2s) / s^3 in s^2, |s| <= 0.1716",
        odd(twice_atanh, 3, {1: 2}), one, 0, LOG_S2, {64: 7},
    ),
    "LOG_TAIL": (
        "(2 atanh(s) - 2s - 2/3 s^3) / s^5 in s^2, |s| <= 0.1716",
        odd(twice_atanh, 5, {1: 2, 3: two_thirds}), one, 0, LOG_S2, {64: 8},
    ),
    "LOG1P": (
        "(log(1+f) - f + f^2/2) / f^3, sqrt(1/2) <= 1+f <= sqrt(2)",
        plain(log1p, 3, {1: 1, 2: mp.mpf(-0.5)}), lambda f: f * f, LOG_LOW, LOG_HIGH, {32: 8},
    ),
    "LOG1P_WIDE": (
        "(log(1+f) - f) / f^2 evaluated in float64 for float32 power",
        plain(log1p, 2, {1: 1}), lambda f: f, LOG_LOW, LOG_HIGH, {64: 12},
    ),
    "EXP_WIDE": (
        "(exp(r) - 1) / r evaluated in float64 for float32 results",
        plain(mp.exp, 1, {0: 1}), lambda r: r, -HALF_LN2, HALF_LN2, {64: 7},
    ),
    "SIN": (
        "(sin(r) - r) / r^3 in r^2, |r| <= pi/4",
        odd(mp.sin, 3, {1: 1}), lambda z: z, 0, QUARTER_PI2, {64: 6, 32: 3},
    ),
    "COS": (
        "(cos(r) - 1 + r^2/2) / r^4 in r^2, |r| <= pi/4",
        odd(mp.cos, 4, {0: 1, 2: mp.mpf(-0.5)}), lambda z: z * z, 0, QUARTER_PI2, {64: 6, 32: 3},
    ),
    "ASIN": (
        "(asin(x) - x) / x^3 in x^2, |x| <= 1/2",
        odd(mp.asin, 3, {1: 1}), lambda z: z, 0, 0.25, {64: 13, 32: 6},
    ),
    "ATAN": (
        "(atan(x) - x) / x^3 in x^2, |x| <= 1",
        odd(mp.atan, 3, {1: 1}), lambda z: z, 0, 1, {64: 20, 32: 9},
    ),
    "SINH": (
        "(sinh(x) - x) / x^3 in x^2, |x| <= 1",
        odd(mp.sinh, 3, {1: 1}), lambda z: z, 0, 1, {64: 7, 32: 4},
    ),
    "HALF_EXPM1": (
        "((exp(2r) - 1) / 2 - r) / r^2, -ln(2)/4 <= r <= 0.256",
        plain(lambda r: mp.expm1(2 * r) / 2, 2, {1: 1}), lambda r: r, -HALF_LN2 / 2, 0.256,
        {64: 11, 32: 6},
    ),
    "ASINH": (
        "(asinh(x) - x) / x^3 in x^2, |x| <= 1/2",
        odd(mp.asinh, 3, {1: 1}), lambda z: z, 0, 0.25, {64: 12, 32: 5},
    ),
    "ATANH": (
        "(atanh(x) - x) / x^3 in x^2, |x| <= 1/2",
        odd(mp.atanh, 3, {1: 1}), lambda z: z, 0, 0.25, {64: 14, 32: 7},
    ),
    "ERF": (
        "(erf(x) - x) / x in x^2, |x| <= 1",
        odd(mp.erf, 1, {1: 1}), one, 0, 1, {64: 12, 32: 7},
    ),
    "MINUS_LOG_ERFC": (
        "-log(erfc(1 + v)), 0 <= v <= 5 (float64) or 3.1 (float32)",
        minus_log_erfc, erfc_weight, 0, {64: mp.mpf(5), 32: mp.mpf("3.1")}, {64: 19, 32: 7},
    ),
    "ERFCX": (
        "(1 + 2x) exp(x^2) erfc(x) in q = (x-4)/(x+4), 1/2 <= x <= 28",
        mapped_erfcx, one, erfc_q(0.5), erfc_q(28), {64: 22},
    ),
    "ERFCX_WIDE": (
        "the same for 0 <= x <= 10.5, evaluated in float64 for float32 results",
        mapped_erfcx, one, -1, erfc_q(10.5), {64: 13},
    ),
    "MILLS": (
        "(1 + x) exp(x^2 / 2) ndtr(-x) in q = (x-3)/(x+3), x >= 0",
        mapped_tail, lambda q: 1 / mapped_tail(q), -1, 1, {32: 13},
    ),
    "RCBRT": (
        "m^(-1/3), 1 <= m <= 2",
        lambda m: mp.cbrt(1 / m), one, 1, 2, {64: 6, 32: 4},
    ),
    "GAMMALN": (
        "(gammaln(2 + t) - (1 - gamma) t) / t^2, |t| <= 1/2",
        plain(lambda t: mp.loggamma(2 + t), 2, {1: 1 - mp.euler}), lambda t: t,
        -0.5, 0.5, {64: 17, 32: 8},
    ),
    "STIRLING": (
        "x (gammaln(x) - (x - 1/2)(log(x) - 1) - (log(2 pi) - 1)/2) in 1/x^2, x >= 4",
        stirling_rest, one, 0, mp.mpf(1) / 16, {64: 10, 32: 3},
    ),
    "DIGAMMA": (
        "digamma(3/2 + v) / (3/2 + v - root), |v| <= 1/2",
        digamma_slope, one, -0.5, 0.5, {64: 22, 32: 11},
    ),
    "DIGAMMA_REST": (
        "x^2 (log(x) - 1/(2x) - digamma(x)) in 1/x^2, x >= 4",
        digamma_rest, lambda z: z, 0, mp.mpf(1) / 16, {64: 9, 32: 3},
    ),
}  # fmt: skip


def show(name: str) -> str:
    what, f, weight, low, high, counts = FITS[name]
    lines = [f"# {what}", f"{name} = {{"]
    for width, count in counts.items():
        top = high[width] if isinstance(high, dict) else high
        coefficients, error = remez(f, weight, mp.mpf(low), mp.mpf(top), count)
        rounded = [float(np.float32(c) if width == 32 else float(c)) for c in coefficients]
        lines.append(f"    {width}: (  # error 2^{float(mp.log(error, 2)):.1f}")
        for start in range(0, count, 3):
            row = ", ".join(repr(c) for c in rounded[start : start + 3])
            lines.append(f"        {row},")
        lines.append("    ),")
    return "\n".join([*lines, "}"])


if __name__ == "__main__":
    print('"""Minimax polynomials, lowest power first; made by benchmarks/fit_polynomials.py."""\n')
    print("# What each approximates, and where, stands above it; keys are the bits of the float.")
    print("# fmt: off")
    for name in sys.argv[1:] or FITS:
        print(show(name), flush=True)
