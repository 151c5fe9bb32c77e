"""Machine learning: a Gaussian process learns its own length scale.

The likelihood of the data has a Cholesky factorisation inside. Its gradient by the logarithms of
the length scale, the height and the noise finds the three.
"""

import numpy as np

import wengert as wg
from wengert.scipy.linalg import cho_factor, cho_solve


def kernel(p, a, b):
    return np.exp(2 * p[1]) * np.exp(-((a[:, None] - b[None, :]) ** 2) / (2 * np.exp(2 * p[0])))


def surprise(p, x, y):
    """Minus the logarithm of the likelihood, without constants."""
    covariance = kernel(p, x, x) + (np.exp(2 * p[2]) + 1e-8) * np.eye(len(x))
    factor = cho_factor(covariance, lower=True)
    return y @ cho_solve(factor, y) / 2 + np.sum(np.log(np.diag(factor[0])))


def run():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 10, 40))
    y = np.sin(x) + 0.1 * rng.standard_normal(40)
    start = np.array([-1.0, 0.0, -1.0])
    result = wg.minimize(lambda p: surprise(p, x, y), start, method="BFGS")
    p, grid = result.x, np.linspace(-1, 11, 120)
    inverse = np.linalg.inv(kernel(p, x, x) + np.exp(2 * p[2]) * np.eye(40))
    across = kernel(p, grid, x)
    mean = across @ inverse @ y
    variance = np.exp(2 * p[1]) - np.sum((across @ inverse) * across, axis=1)
    return {"x": x, "y": y, "p": p, "grid": grid, "mean": mean, "spread": np.sqrt(variance)}


def check(found):
    inside = (found["grid"] > 0) & (found["grid"] < 10)
    error = np.abs(found["mean"] - np.sin(found["grid"]))[inside]
    assert error.max() < 0.3 and 0.05 < np.exp(found["p"][2]) < 0.2, (error.max(), found["p"])


def draw(figure, found):
    axes = figure.subplots()
    low, high = found["mean"] - 2 * found["spread"], found["mean"] + 2 * found["spread"]
    axes.fill_between(found["grid"], low, high, alpha=0.3)
    axes.plot(found["grid"], found["mean"])
    axes.plot(found["x"], found["y"], "k.")
    length, _, noise = np.exp(found["p"])
    axes.set(title=f"length scale {length:.2f}, noise {noise:.3f}")
