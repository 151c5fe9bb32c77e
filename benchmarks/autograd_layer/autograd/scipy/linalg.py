"""`wengert.scipy.linalg`, and SciPy's own where a name is no function of traced values."""

import scipy.linalg as _scipy

from . import of_wengert

_wengert = of_wengert("linalg")


def __getattr__(name):
    return getattr(_wengert if hasattr(_wengert, name) else _scipy, name)
