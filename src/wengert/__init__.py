"""wengert: automatic differentiation of plain NumPy code.

>>> import numpy as np
>>> import wengert as wg
>>> wg.grad(lambda x: np.sum(np.sin(x)))(np.zeros(3))
array([1., 1., 1.])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import numpy
from .graph import Graph
from .jit import clear_cache, debug_nans, jit
from .runtime.threads import set_threads
from .tensor import Tensor, no_grad, tensor
from .trace import trace
from .transforms import (
    check_grads,
    checkpoint,
    cond,
    custom_rule,
    fori_loop,
    grad,
    hessian,
    hvp,
    jacfwd,
    jacobian,
    jacrev,
    jvp,
    linearize,
    scan,
    stop_gradient,
    switch,
    value_and_grad,
    vjp,
    vmap,
    while_loop,
)

if TYPE_CHECKING:  # these are imported on first use, see below
    from . import data, distributed, nn, optim, scipy, sparse
    from . import train as train
    from .optim.minimize import minimize
    from .sparse import sparse_hessian, sparse_jacobian
    from .storage import load, save
    from .train import History, fit

__version__ = "0.1.0"

__all__ = [
    "Graph",
    "History",
    "Tensor",
    "check_grads",
    "checkpoint",
    "clear_cache",
    "cond",
    "custom_rule",
    "data",
    "debug_nans",
    "distributed",
    "fit",
    "fori_loop",
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "linearize",
    "load",
    "minimize",
    "nn",
    "no_grad",
    "numpy",
    "optim",
    "save",
    "scan",
    "scipy",
    "set_threads",
    "sparse",
    "sparse_hessian",
    "sparse_jacobian",
    "stop_gradient",
    "switch",
    "tensor",
    "trace",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
]

# Where names come from that are imported on first use: a module itself, or a name in it.
_LAZY = {
    "History": "train.history",
    "cli": "cli",
    "data": "data",
    "distributed": "distributed",
    "fit": "train.fitting",
    "load": "storage",
    "minimize": "optim.minimize",
    "nn": "nn",
    "optim": "optim",
    "save": "storage",
    "scipy": "scipy",
    "sklearn": "sklearn",
    "sparse": "sparse",
    "sparse_hessian": "sparse.matrices",
    "sparse_jacobian": "sparse.matrices",
    "train": "train",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'wengert' has no attribute {name!r}")
    module = importlib.import_module(f".{_LAZY[name]}", __name__)
    return module if _LAZY[name] == name else getattr(module, name)
