"""Points in the plane with a rule that a small network can learn."""

from __future__ import annotations

import operator

import numpy as np

from ..errors import OutOfRangeError, explain
from ..numpy import random
from .sets import Examples

# The circle around the middle that covers half of the unit square: pi r^2 = 1/2.
CENTRE = 0.5
RADIUS_SQUARED = 1 / (2 * np.pi)


def circles(n: int = 10_000, seed: int = 0) -> Examples:
    """`n` points in the unit square, float32 (n, 2), labelled 1 outside a circle and 0 inside.

    The circle lies around (0.5, 0.5) and covers half of the square: its squared radius is
    1 / (2 pi).

    >>> x, y = circles(4)
    >>> x.shape, y
    ((4, 2), array([0, 0, 1, 1]))
    """
    n = operator.index(n)
    if n < 0:
        raise OutOfRangeError(explain("data.circles", f"got n={n}, expected at least 0"))
    x = random.uniform(random.key(seed), (n, 2), np.float32)
    distance = (x.astype(np.float64) - CENTRE) ** 2
    return Examples(x, (distance[:, 0] + distance[:, 1] > RADIUS_SQUARED).astype(np.int64))
