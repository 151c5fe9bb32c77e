"""`wengert.scipy.stats`."""

import sys

import scipy.stats as _scipy

from .. import of_wengert

_wengert = of_wengert("stats")


class _Distribution:
    """A distribution of wengert, and SciPy's for what is drawn at random."""

    def __init__(self, name):
        self.places = [getattr(place, name) for place in (_wengert, _scipy) if hasattr(place, name)]

    def __getattr__(self, name):
        return next(getattr(own, name) for own in self.places if hasattr(own, name))


def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(name)
    return _Distribution(name)


# autograd has these as modules
for _name in ("norm", "t", "multivariate_normal"):
    sys.modules[f"{__name__}.{_name}"] = __getattr__(_name)
