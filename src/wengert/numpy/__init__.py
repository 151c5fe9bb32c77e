"""The NumPy-like namespace: NumPy's names and meanings, on plain and on traced arrays.

Plain ``numpy`` functions called on traced values end up here too: what a name means is written
once.
"""

from typing import Any

import numpy as _np

from ..trace.array import FUNCTIONS as _FUNCTIONS
from . import (
    calculus,
    contractions,
    creation,
    elementwise,
    fft,
    histograms,
    indexing,
    joining,
    linalg,
    padding,
    polynomials,
    quantiles,
    random,
    reductions,
    sets,
    sorting,
    special,
    statistics,
    structure,
    tricks,
    windows,
)
from .calculus import *  # noqa: F403
from .contractions import *  # noqa: F403
from .creation import *  # noqa: F403
from .elementwise import *  # noqa: F403
from .histograms import *  # noqa: F403
from .indexing import *  # noqa: F403
from .joining import *  # noqa: F403
from .padding import *  # noqa: F403
from .polynomials import *  # noqa: F403
from .quantiles import *  # noqa: F403
from .reductions import *  # noqa: F403
from .sets import *  # noqa: F403
from .sorting import *  # noqa: F403
from .special import *  # noqa: F403
from .statistics import *  # noqa: F403
from .structure import *  # noqa: F403
from .tricks import *  # noqa: F403
from .windows import *  # noqa: F403

_MODULES = (
    calculus, creation, elementwise, special, reductions, structure, joining, padding, indexing,
    sorting, contractions, windows, statistics, quantiles, sets,
    histograms, polynomials, tricks,
)  # fmt: skip
__all__ = [name for module in _MODULES for name in module.__all__] + ["fft", "linalg", "random"]

for _module in _MODULES:
    _FUNCTIONS.update({name: getattr(_module, name) for name in _module.__all__})
_FUNCTIONS.update(indexing.UFUNC_METHODS)
_FUNCTIONS["asfortranarray"] = creation.asfortranarray
_FUNCTIONS.update({f"linalg.{name}": getattr(linalg, name) for name in linalg.__all__})
_FUNCTIONS.update({f"fft.{name}": getattr(fft, name) for name in fft.__all__})

pi = _np.pi
e = _np.e
euler_gamma = _np.euler_gamma
inf = _np.inf
nan = _np.nan
newaxis = None
bool_ = bool = _np.bool_
int8, int16, int32, int64 = _np.int8, _np.int16, _np.int32, _np.int64
uint8, uint16, uint32, uint64 = _np.uint8, _np.uint16, _np.uint32, _np.uint64
float32, float64 = _np.float32, _np.float64
complex64, complex128 = _np.complex64, _np.complex128
# What says something of types or of plain arrays alone is NumPy's own.
finfo, iinfo, isdtype, promote_types = _np.finfo, _np.iinfo, _np.isdtype, _np.promote_types
from_dlpack, isscalar, issubdtype, einsum_path = (
    _np.from_dlpack, _np.isscalar, _np.issubdtype, _np.einsum_path,
)  # fmt: skip
# The array API, whose dtypes and devices are NumPy's.
__array_api_version__ = _np.__array_api_version__
__array_namespace_info__ = _np.__array_namespace_info__


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"wengert.numpy has no {name!r}. Functions of plain numpy that are missing here cannot be "
        "differentiated; wg.custom_rule adds one of your own."
    )
