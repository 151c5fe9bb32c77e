"""Graph -> Graph: forward and reverse mode, batching, recomputation, and what is built on them."""

from .batching import vmap
from .calls import checkpoint, custom_rule
from .check import check_grads
from .control import scan
from .flow import cond, fori_loop, switch, while_loop
from .forward import jvp, linearize
from .jacobian import hessian, hvp, jacfwd, jacobian, jacrev
from .reverse import grad, stop_gradient, value_and_grad, vjp

__all__ = [
    "check_grads",
    "checkpoint",
    "cond",
    "custom_rule",
    "fori_loop",
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "linearize",
    "scan",
    "stop_gradient",
    "switch",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
]
