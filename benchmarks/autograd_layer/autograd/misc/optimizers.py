"""Three optimizers of trees of arrays: each is a rule for one line of numbers."""

import functools

import wengert.numpy as np

from .flatten import flatten


def _of_trees(rule):
    @functools.wraps(rule)
    def optimize(grad, x0, callback=None, num_iters=200, step_size=0.1, **options):
        x, unflatten = flatten(x0)
        state = None
        for i in range(num_iters):
            g = flatten(grad(unflatten(x), i))[0]
            if callback:
                callback(unflatten(x), i, unflatten(g))
            change, state = rule(g, state, i, **options)
            x = x - step_size * change
        return unflatten(x)

    return optimize


@_of_trees
def sgd(g, state, i, mass=0.9):
    velocity = mass * (0.0 if state is None else state) + (1.0 - mass) * g
    return velocity, velocity


@_of_trees
def rmsprop(g, state, i, gamma=0.9, eps=1e-8):
    average = gamma * (1.0 if state is None else state) + (1 - gamma) * g**2
    return g / (np.sqrt(average) + eps), average


@_of_trees
def adam(g, state, i, b1=0.9, b2=0.999, eps=1e-8):
    m, v = (0.0, 0.0) if state is None else state
    m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
    change = (m / (1 - b1 ** (i + 1))) / (np.sqrt(v / (1 - b2 ** (i + 1))) + eps)
    return change, (m, v)
