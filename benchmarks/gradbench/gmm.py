"""gmm: the log posterior of a mixture of Gaussians with a Wishart prior on the precisions."""

from math import lgamma, log, pi

import numpy as np

import wengert as wg


def logsumexp(values, axis):
    largest = np.max(values, axis=axis, keepdims=True)
    total = np.log(np.sum(np.exp(values - largest), axis=axis, keepdims=True))
    return np.squeeze(largest + total, axis=axis)


def factors(q, below):
    """The lower triangular factor of each precision: exp(q) on the diagonal, then by columns."""
    k, d = q.shape
    columns, rows = np.triu_indices(d, 1)
    matrix = wg.numpy.zeros((k, d, d))
    matrix[:, rows, columns] = below
    matrix[:, np.arange(d), np.arange(d)] = np.exp(q)
    return matrix


def log_posterior(parameters, x, m, gamma):
    alpha, mu, q, below = (parameters[name] for name in ("alpha", "mu", "q", "l"))
    (n, d), k = x.shape, len(alpha)
    matrix = factors(q, below)
    sums = np.sum(q, axis=1)
    scaled = np.einsum("kij,nkj->nki", matrix, x[:, None] - mu)
    beta = alpha + sums - 0.5 * np.sum(scaled**2, axis=2)
    likelihood = np.sum(logsumexp(beta, axis=1)) - n * (d / 2 * log(2 * pi) + logsumexp(alpha, 0))
    freedom = d + m + 1
    gammas = sum(lgamma((freedom - j) / 2) for j in range(d)) + d * (d - 1) / 4 * log(pi)
    prior = k * (freedom * d * log(gamma / 2**0.5) - gammas)
    return likelihood + prior - gamma**2 / 2 * np.sum(matrix**2) + m * np.sum(sums)


def prepare(sent):
    parameters = {name: np.array(sent[name], float) for name in ("alpha", "mu", "q", "l")}
    k, d = sent["k"], sent["d"]
    parameters["l"] = parameters["l"].reshape(k, d * (d - 1) // 2)
    return parameters, np.array(sent["x"]), sent["m"], sent["gamma"]


static = ("m", "gamma")
functions = {
    "objective": wg.jit(log_posterior, static_argnames=static),
    "jacobian": wg.jit(wg.grad(log_posterior), static_argnames=static),
}
answers = {"jacobian": lambda found: {name: value.tolist() for name, value in found.items()}}
