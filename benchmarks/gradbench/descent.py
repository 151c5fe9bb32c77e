"""Gradient descent as `particle` and `saddle` want it: until the slope or the step is small."""

import numpy as np

import wengert as wg

TOLERANCE = 1e-5
MODES = {"f": wg.jacfwd, "r": wg.grad}


def length(v):
    return np.sqrt(np.sum(v**2))


def argmin(f, start, mode):
    """Where `f` is least, from `start` on; its gradient by mode "f" or "r".

    After ten steps down in a row the rate doubles; a step that does not lead down halves it.
    """
    gradient = MODES[mode](f)

    def attempt(x, value, slope, rate, count):
        """A step; whether it was too small to go on."""
        new = x - rate * slope
        there = f(new)
        small = length(new - x) <= TOLERANCE
        moved = wg.cond(
            ~small & (there < value),
            lambda: (new, there, gradient(new), rate, count + 1),
            lambda: (x, value, slope, rate / 2, 0),
        )
        return *moved, small

    def turn(state):
        *place, rate, count, _ = state
        return wg.cond(
            count == 10,
            lambda: (*place, rate * 2, 0, False),
            lambda: attempt(*place, rate, count),
        )

    def going(state):
        _, _, slope, _, _, small = state
        return ~small & (length(slope) > TOLERANCE)

    begin = (start, f(start), gradient(start), TOLERANCE, 0, False)
    return wg.while_loop(going, turn, begin)[0]
