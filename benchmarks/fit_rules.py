"""Fit the rules of quadrature of the incomplete functions and write them as `ops/rules.py`.

    python benchmarks/fit_rules.py

The integrands of a function are many but alike: from 0 on, in units of where they are exp(-32),
most lie between exp(-32 t) and exp(-32 t^2), and combinations of some 40 of them are all there is
in float64. So a rule with half as many nodes is exact for all. It is found from Gauss and
Legendre's, which needs more: a node after the other is left out, and the others move until the
rule is exact again; at last they move in more digits, until it is for all integrands alike.
"""

from pathlib import Path

import mpmath as mp
import numpy as np
import scipy.linalg
from numpy.polynomial import legendre

from wengert.ops import incomplete

START = 28
PLACE = Path(__file__).resolve().parents[1] / "src" / "wengert" / "ops" / "rules.py"
# Beyond this t nothing is left of any; integrands are series of Legendre in s, t = FAR s^2.
FAR, DEGREE, POINTS = 41 / incomplete.NEARLY, 110, 140


class Gamma:
    """The integrands of the incomplete gamma function: near the mean, and far from it."""

    name, count, rank = "GAMMA", 19, 37

    def __init__(self):
        points = []
        for a in np.geomspace(1e-3, 3e5, 120):
            points += [(a, x) for x in a + np.sinh(np.linspace(-6, 6, 61)) * np.sqrt(a + 0.25)]
            points += [(a, x) for x in np.geomspace(1e-8, 1e6, 40)]
        # those that fall most suddenly
        points += [(a, x) for a in np.linspace(0.5, 1.3, 25) for x in np.linspace(1, 1.5, 26)]
        a, x = np.array([point for point in points if point[1] > 1e-8]).T
        self.spans = np.array(incomplete.gamma_span(a, x, incomplete.NEARLY))

    def values(self, t):
        slope, x, turn, end = self.spans[:, :, None]
        u = end * t
        return np.exp(-slope * u - x * incomplete.exp_square(turn * u))

    @staticmethod
    def exact(span, t):
        """The value in many digits, and the derivative of its logarithm by t."""
        slope, x, turn, end = span
        v = turn * end * t
        grown = mp.expm1(v)
        return mp.exp(-slope * end * t - x * (grown - v)), -(slope + x * turn * grown) * end


class Beta:
    """Those of the incomplete beta function."""

    name, count, rank = "BETA", 23, 42

    def __init__(self):
        rng = np.random.default_rng(0)
        anywhere = lambda low, high: np.exp(rng.uniform(np.log(low), np.log(high), 12_000))
        of_all = lambda: np.concatenate([anywhere(1e-6, 1e6), anywhere(0.05, 50)])
        a, b, small = of_all(), of_all(), np.concatenate([anywhere(1e-9, 1)] * 2)
        near_mean = rng.beta(np.maximum(a, 0.05), np.maximum(b, 0.05))
        around = a / (a + b) * (1 + rng.normal(size=len(a)) / 3)
        places = [near_mean, around, rng.random(len(a)), small, 1 - small]
        x = np.choose(rng.integers(0, len(places), len(a)), places)
        sudden = rng.uniform(0.5, 1.3, 2000), np.exp(rng.uniform(0, 14, 2000))
        a, b = np.concatenate([a, sudden[0]]), np.concatenate([b, sudden[1]])
        x = np.concatenate([x, rng.uniform(1, 1.5, 2000) / (1 + sudden[1])])
        x = np.clip(x, 1e-12, 1 - 1e-12)
        self.spans = np.array(incomplete.beta_span(a, b, x, incomplete.NEARLY))

    def values(self, t):
        both, slope, share, turn, end = self.spans[:, :, None]
        curve, _, _ = incomplete.beta_curve(end * t, share, turn)
        return np.exp(-slope * end * t - both * curve)

    @staticmethod
    def exact(span, t):
        both, slope, share, turn, end = span
        v = turn * end * t
        level = 1 + share * mp.expm1(v)
        exponent = -slope * end * t - both * (mp.log(level) - share * v)
        steeper = both * turn * share * (mp.exp(v) / level - 1)
        return mp.exp(exponent), -(slope + steeper) * end


class Exactness:
    """How far a rule, nodes s and weights, is from exact for the functions that span a family."""

    def __init__(self, family):
        x, w = legendre.leggauss(POINTS)
        s = (x + 1) / 2
        weights = w * s * FAR  # of dt = 2 FAR s ds
        values = family.values(FAR * s * s)
        self.integrals = values @ weights
        scaled = values / self.integrals[:, None] * np.sqrt(weights)
        # those that are least like the others, and some anywhere
        extremes = scipy.linalg.qr(scaled.T, mode="r", pivoting=True)[1][:80]
        others = np.random.default_rng(0).permutation(len(scaled))[:100]
        self.typical = np.union1d(extremes, others)
        _, _, basis = np.linalg.svd(scaled, full_matrices=False)
        basis = basis[: family.rank]  # what follows is rounding
        self.wanted = basis @ np.sqrt(weights)
        powers = legendre.legvander(x, DEGREE) * (2 * np.arange(DEGREE + 1) + 1)
        self.series = powers.T @ (basis / np.sqrt(weights) * (w / 2)).T
        self.slopes = 2 * legendre.legder(self.series)

    def residual(self, rule):
        """What the rule is off by, and the derivatives of that by nodes and weights."""
        s, weights = np.split(rule, 2)
        values = legendre.legval(2 * s - 1, self.series)
        slopes = legendre.legval(2 * s - 1, self.slopes) * weights
        return values @ weights - self.wanted, np.hstack([slopes, values])

    def solve(self, rule):
        """Newton's method, by shorter steps where it would not get nearer."""
        off, slopes = self.residual(rule)
        for _ in range(60):
            step = np.linalg.lstsq(slopes, off, rcond=1e-14)[0]
            for length in (1, 0.5, 0.25, 0.1, 0.03, 0.01):
                moved = rule - length * step
                s = moved[: len(moved) // 2]
                apart = np.diff(np.sort(s), prepend=0, append=1) > 1e-4
                found = self.residual(moved) if apart.all() else (off, slopes)
                if np.linalg.norm(found[0]) < np.linalg.norm(off):
                    rule, (off, slopes) = moved, found
                    break
            else:
                break
        return np.linalg.norm(off), rule

    def without_one(self, rule):
        """The rule with a node less: the first that is not missed, from the lightest on."""
        count = len(rule) // 2
        tried = []
        for node in np.argsort(rule[count:]):
            tried.append(self.solve(np.delete(rule, [node, count + node])))
            if tried[-1][0] < 3e-15:
                break
        return min(tried, key=lambda found: found[0])


def refined(family, chosen, rule):
    """The nodes t and weights that are best for all chosen integrands, in 50 digits."""
    mp.mp.dps = 50
    spans = [[mp.mpf(float(part)) for part in family.spans[:, k]] for k in chosen]
    pieces = [0, 0.125, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3]
    integrals = [mp.quad(lambda t, span=span: family.exact(span, t)[0], pieces) for span in spans]
    count = family.count

    def residual(rule):
        off, slopes = mp.matrix(len(spans), 1), mp.matrix(len(spans), len(rule))
        for i, span in enumerate(spans):
            for j in range(count):
                height, slope = family.exact(span, rule[j])
                slopes[i, count + j] = height / integrals[i]
                slopes[i, j] = slopes[i, count + j] * slope * rule[count + j]
                off[i] += slopes[i, count + j] * rule[count + j]
            off[i] -= 1
        return off, slopes

    rule = mp.matrix([float(number) for number in rule])
    off, slopes = residual(rule)
    damping = mp.mpf(10) ** -20
    for _ in range(12):
        normal = slopes.T * slopes
        for k in range(2 * count):
            normal[k, k] *= 1 + damping
        moved = rule - mp.lu_solve(normal, slopes.T * off)
        found = residual(moved)
        nearer = mp.norm(found[0]) < mp.norm(off)
        damping = damping / 30 if nearer else damping * 100
        if nearer:
            rule, (off, slopes) = moved, found
    return np.array([float(number) for number in rule])


def fitted(family):
    """The lines of the rule's tables."""
    exactness, count = Exactness(family), family.count
    x, w = legendre.leggauss(START)
    s = (1 + x) / 2
    # nodes closest at 0, where the integrands have all that is not flat
    t, slope = s * (9 + 11 * s) / 20, (9 + 22 * s) / 20
    _, rule = exactness.solve(np.concatenate([np.sqrt(t / FAR), 0.5 * w * slope]))
    while len(rule) > 2 * count:
        off, rule = exactness.without_one(rule)
        print(f"{family.name}: {len(rule) // 2} nodes, off by {off:.1e}", flush=True)
    rule[:count] = FAR * rule[:count] ** 2
    t, weights = np.split(refined(family, exactness.typical, rule), 2)
    error = np.abs(family.values(t) @ weights / exactness.integrals - 1).max()
    print(f"{family.name}: relative errors are at most {error:.1e}", flush=True)
    lines = [f"# Relative errors are at most {error:.1e}."]
    order = np.argsort(t)
    for name, values in (("NODES", t[order]), ("WEIGHTS", weights[order])):
        lines += [
            f"{family.name}_{name} = (",
            *(f"    {value!r}," for value in values.tolist()),
            ")",
        ]
    return lines


if __name__ == "__main__":
    found = ['"""Rules of quadrature; made by benchmarks/fit_rules.py."""', ""]
    for family in (Gamma(), Beta()):
        found += fitted(family)
    PLACE.write_text("\n".join(found) + "\n")
