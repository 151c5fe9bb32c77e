"""saddle: the least of the largest values of a function, one descent inside the other."""

import numpy as np
from descent import argmin

import wengert as wg


def f(x, y):
    return np.sum(x**2) - np.sum(y**2)


def saddle(mode):
    """The compiled search; the letters of `mode` are those of the outer and the inner gradient."""
    outer, inner = mode

    def argmax(x, start, mode):
        return argmin(lambda y: -f(x, y), start, mode)

    def find(start):
        x = argmin(lambda x: f(x, argmax(x, start, inner)), start, outer)
        return wg.numpy.concatenate([x, argmax(x, start, outer)])

    return wg.jit(find)


def prepare(sent):
    return (np.array(sent["start"]),)


functions = {mode: saddle(mode) for mode in ("ff", "fr", "rf", "rr")}
