"""Chemistry: find rate constants from measured concentrations.

A -> B -> C. The rates are fitted to noisy measurements of B; the derivative goes through the
solver of the differential equation, `wengert.scipy.integrate.odeint`.
"""

import numpy as np

import wengert as wg
from wengert.scipy.integrate import odeint

TIMES = np.linspace(0.0, 8.0, 25)


def reaction(y, t, rates):
    a, b = y[0], y[1]
    first, second = rates[0] * a, rates[1] * b
    return np.array([-first, first - second, second])


def course(logarithms):
    """The concentrations over time; logarithms keep the rates positive."""
    return odeint(reaction, np.array([1.0, 0.0, 0.0]), TIMES, args=(np.exp(logarithms),))


def run():
    rng = np.random.default_rng(0)
    truth = np.array([0.9, 0.3])
    clean = np.asarray(course(np.log(truth)))
    measured = clean[:, 1] + 0.01 * rng.standard_normal(len(TIMES))
    misfit = lambda logarithms: np.sum((course(logarithms)[:, 1] - measured) ** 2)
    result = wg.minimize(misfit, np.zeros(2) - 0.5, method="BFGS")
    return {"truth": truth, "rates": np.exp(result.x), "measured": measured, "clean": clean,
            "fitted": np.asarray(course(result.x))}  # fmt: skip


def check(found):
    assert np.allclose(found["rates"], found["truth"], rtol=0.1), found["rates"]


def draw(figure, found):
    axes = figure.subplots()
    axes.plot(TIMES, found["fitted"], label=["A", "B", "C"])
    axes.plot(TIMES, found["measured"], "k.", label="B, measured")
    axes.set(title="rates " + ", ".join(f"{r:.3f}" for r in found["rates"]), xlabel="time")
    axes.legend()
