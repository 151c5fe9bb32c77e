"""`wengert.scipy.special`, and SciPy's own where a name is no function of traced values."""

import scipy.special as _scipy

from . import of_wengert

_wengert = of_wengert("special")


def __getattr__(name):
    return getattr(_wengert if hasattr(_wengert, name) else _scipy, name)
