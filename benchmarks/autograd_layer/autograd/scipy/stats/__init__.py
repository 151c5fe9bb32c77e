"""`wengert.scipy.stats`."""

import sys

import scipy.stats as _scipy

from .. import of_wengert

_wengert = of_wengert("stats")


def __getattr__(name):
    return getattr(_wengert if hasattr(_wengert, name) else _scipy, name)


# autograd has these as modules
for _name in ("norm", "t", "multivariate_normal"):
    sys.modules[f"{__name__}.{_name}"] = __getattr__(_name)
