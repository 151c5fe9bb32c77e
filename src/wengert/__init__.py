"""wengert: automatic differentiation of plain NumPy code.

>>> import numpy as np
>>> import wengert as wg
>>> wg.grad(lambda x: np.sum(np.sin(x)))(np.zeros(3))
array([1., 1., 1.])
"""

from __future__ import annotations

import importlib
from typing import Any

from . import numpy
from .graph import Graph
from .jit import clear_cache, debug_nans, jit
from .runtime.threads import set_threads
from .tensor import Tensor, no_grad, tensor
from .trace import trace
from .transforms import (
    check_grads,
    checkpoint,
    custom_rule,
    grad,
    hessian,
    hvp,
    jacfwd,
    jacobian,
    jacrev,
    jvp,
    linearize,
    stop_gradient,
    value_and_grad,
    vjp,
    vmap,
)

__version__ = "0.1.0"

__all__ = [
    "Graph",
    "Tensor",
    "check_grads",
    "checkpoint",
    "clear_cache",
    "custom_rule",
    "debug_nans",
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "linearize",
    "no_grad",
    "numpy",
    "set_threads",
    "stop_gradient",
    "tensor",
    "trace",
    "value_and_grad",
    "vjp",
    "vmap",
]

_LAZY = ("cli",)


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'wengert' has no attribute {name!r}")
