"""Epidemiology: when did people begin to keep their distance?

A model of susceptible, infected and recovered people, with a rate of contacts that falls at an
unknown day. It is fitted to daily counts by the likelihood of Poisson's distribution; the Hessian
says how sure the answer is.
"""

import numpy as np

import wengert as wg
from wengert.scipy.stats import poisson

DAYS, PEOPLE = 90, 100_000.0


def cases(p):
    """New infections on each day; p: contacts before, after, the day of the change over 10."""
    before, after, day = np.exp(p[0]), np.exp(p[1]), 10 * p[2]

    def step(state, today):
        s, i = state
        rate = after + (before - after) / (1 + np.exp((today - day) / 2))
        new = rate * s * i / PEOPLE
        return (s - new, i + new - 0.15 * i), new

    _, new = wg.scan(step, (PEOPLE - 20.0, 20.0), np.arange(float(DAYS)))
    return new


def run():
    truth = np.array([np.log(0.4), np.log(0.12), 3.5])
    counts = np.random.default_rng(0).poisson(np.asarray(cases(truth))).astype(float)
    surprise = lambda p: -np.sum(poisson.logpmf(counts, cases(p)))
    result = wg.minimize(surprise, np.array([np.log(0.35), np.log(0.2), 3.0]), method="BFGS")
    spread = np.sqrt(np.diag(np.linalg.inv(wg.hessian(surprise)(result.x))))
    return {"truth": truth, "fitted": result.x, "spread": spread, "counts": counts}


def check(found):
    off = np.abs(found["fitted"] - found["truth"])
    assert np.all(off < 5 * found["spread"] + 1e-3), (off, found["spread"])


def draw(figure, found):
    axes = figure.subplots()
    axes.bar(np.arange(DAYS), found["counts"], color="0.8", label="counted")
    axes.plot(np.asarray(cases(found["fitted"])), label="fitted")
    day, spread = 10 * found["fitted"][2], 10 * found["spread"][2]
    axes.axvspan(day - 2 * spread, day + 2 * spread, color="tab:orange", alpha=0.5,
                 label=f"change on day {day:.1f} ± {spread:.1f}")  # fmt: skip
    axes.set(xlabel="day", title="new infections")
    axes.legend()
