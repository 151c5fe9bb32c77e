"""`wengert.scipy.integrate`, and SciPy's own where a name is no function of traced values."""

import scipy.integrate as _scipy

from . import of_wengert

_wengert = of_wengert("integrate")


def __getattr__(name):
    return getattr(_wengert if hasattr(_wengert, name) else _scipy, name)
