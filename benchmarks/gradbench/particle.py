"""particle: where to put a charge so that a particle that it pushes passes through the origin.

The force on the particle is minus the gradient of the potential of two charges; its path is found
by Euler's method, step after step until it crosses the axis. So derivatives are nested.
"""

import numpy as np
from descent import MODES, argmin, length

import wengert as wg

STEP = 0.1


def missed(w, mode):
    """The square of the place where the particle crosses the axis."""
    charges = wg.numpy.stack([10.0, 10.0 - w]), np.array([10.0, 0.0])

    def potential(at):
        return sum(1 / length(at - charge) for charge in charges)

    force = MODES[mode](potential)

    def above(state):
        at, speed = state
        return at[1] + STEP * speed[1] > 0

    def move(state):
        at, speed = state
        return at + STEP * speed, speed - STEP * force(at)

    at, speed = wg.while_loop(above, move, (np.array([0.0, 8.0]), np.array([0.75, 0.0])))
    at = at + STEP * speed
    crossed = at + at[1] / -speed[1] * speed
    return crossed[0] ** 2


def control(mode):
    """The compiled search; the first letter of `mode` is that of its own gradient."""
    return wg.jit(lambda w: argmin(lambda w: missed(w, mode[1]), w, mode[0]))


def prepare(sent):
    return (float(sent["w"]),)


functions = {mode: control(mode) for mode in ("ff", "fr", "rf", "rr")}
