"""`wengert.numpy`, and NumPy's own where a name is no function of numbers."""

import numpy as _np

import wengert.numpy as _wnp

from . import fft, linalg, random


def where(condition, x=None, y=None):
    """As autograd has it: by names too, and a number chosen by a flag stays what it is."""
    if x is None and y is None:
        return _wnp.where(condition)
    if isinstance(condition, bool) and not isinstance(x, _np.ndarray):
        return x if condition else y
    return _wnp.where(condition, x, y)


def make_diagonal(values, offset=0, axis1=-1, axis2=-2):
    """The values on the diagonals of matrices."""
    return values[..., None] * _np.eye(values.shape[-1])


class int64(_np.int64):
    """A dtype that converts traced values too."""

    def __new__(cls, x):
        return _wnp.astype(_wnp.asarray(x), _np.int64)


def __getattr__(name):
    return getattr(_wnp, name) if hasattr(_wnp, name) else getattr(_np, name)
