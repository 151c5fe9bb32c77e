"""Statistics: draw from a posterior with Hamiltonian Monte Carlo.

A curved density in two dimensions. Each proposal follows the gradient of its logarithm for some
steps; the whole chain, gradients and random numbers included, is one compiled loop.
"""

import numpy as np

import wengert as wg
import wengert.numpy as wnp

SAMPLES, LEAPS, STEP = 4000, 12, 0.15


def logarithm(x):
    """The banana: normal in x0, and in x1 around x0 squared."""
    return -(x[0] ** 2) / 2 - 2 * (x[1] - x[0] ** 2 / 2) ** 2


slope = wg.grad(logarithm)


def propose(x, key):
    """One step of the chain."""
    for_speed, for_choice = wnp.random.split(key)
    speed = wnp.random.normal(for_speed, (2,))

    def leap(state, _):
        y, v = state
        v = v + STEP / 2 * slope(y)
        y = y + STEP * v
        return (y, v + STEP / 2 * slope(y)), None

    (y, v), _ = wg.scan(leap, (x, speed), length=LEAPS)
    gain = logarithm(y) - np.sum(v * v) / 2 - logarithm(x) + np.sum(speed * speed) / 2
    taken = np.log(wnp.random.uniform(for_choice)) < gain
    x = np.where(taken, y, x)
    return x, (x, taken)


@wg.jit
def chain(key):
    keys = wnp.random.split(key, SAMPLES)
    _, (samples, taken) = wg.scan(propose, np.zeros(2), keys)
    return samples, taken


def run():
    samples, taken = chain(wnp.random.key(0))
    return {"samples": samples, "taken": float(np.mean(taken))}


def check(found):
    x = found["samples"][200:]
    assert found["taken"] > 0.7, found["taken"]
    assert abs(x[:, 0].mean()) < 0.1 and abs(x[:, 0].var() - 1) < 0.15, x.mean(0)
    assert abs(x[:, 1].mean() - 0.5) < 0.1  # the mean of x0 squared over 2


def draw(figure, found):
    left, right = figure.subplots(1, 2)
    left.plot(*found["samples"].T, ".", ms=1.5, alpha=0.5)
    left.set(title=f"{SAMPLES} samples, {100 * found['taken']:.0f} % of the proposals taken")
    right.plot(found["samples"][:300])
    right.set(title="the first 300")
