"""lse: the logarithm of a sum of exponentials, from its parts."""

import numpy as np

import wengert as wg


def logsumexp(x):
    largest = np.max(x)
    return largest + np.log(np.sum(np.exp(x - largest)))


def prepare(sent):
    return (np.array(sent["x"]),)


functions = {"primal": wg.jit(logsumexp), "gradient": wg.jit(wg.grad(logsumexp))}
