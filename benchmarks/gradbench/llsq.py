"""llsq: how far a polynomial is from the sign function, in least squares."""

import numpy as np

import wengert as wg


def squares(x, t):
    value = np.zeros_like(t)
    for coefficient in x[::-1]:
        value = value * t + coefficient
    return 0.5 * np.sum((np.sign(t) - value) ** 2)


def prepare(sent):
    return np.array(sent["x"]), np.linspace(-1, 1, sent["n"])


functions = {"primal": wg.jit(squares), "gradient": wg.jit(wg.grad(squares))}
