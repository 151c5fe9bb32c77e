"""Sparse Jacobians and Hessians: the pattern by tracing, then colours, then few products."""

from .matrices import sparse_hessian, sparse_jacobian
from .patterns import Sparsity

__all__ = ["Sparsity", "sparse_hessian", "sparse_jacobian"]
