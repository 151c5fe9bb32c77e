"""The dtypes of a program of loops: what is stored, and all views of one memory."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...errors import LoopError
from ...loops import (
    BOOL,
    Branch,
    Buffer,
    Check,
    Choose,
    Contraction,
    Host,
    Kernel,
    LibraryCall,
    Loop,
    Nest,
    Sum,
    Transfer,
    pairs_in,
    reals_in,
)
from ..memory import buffers_of, root
from .accesses import expressions_of


def verify_types(kernel: Kernel, name: str) -> None:
    """Check one kernel, but for what is inside of loops over kernels."""
    if isinstance(kernel, Nest):
        _verify_nest(kernel, name)
    elif isinstance(kernel, Contraction):
        _verify_product(kernel, name)
    elif isinstance(kernel, Transfer):
        _same(name, kernel.inner.name, kernel.inner.dtype, kernel.outer.dtype)
    elif isinstance(kernel, Loop):
        for carry in kernel.carries:
            for one in (carry.after, carry.start, *carry.homes):
                _same(name, f"{one.name}, which is carried on,", one.dtype, carry.before.dtype)
            _verify_views((carry.start, *carry.homes), name)
    elif isinstance(kernel, Check):
        _same(name, kernel.flag.name, kernel.flag.dtype, BOOL)
    else:
        assert isinstance(kernel, (LibraryCall, Host, Branch)), kernel
    if not isinstance(kernel, (Loop, Branch)):
        _verify_views(buffers_of(kernel), name)


def _same(name: str, what: str, got: np.dtype, wanted: np.dtype) -> None:
    if got != wanted:
        raise LoopError(f"{name}: {what} is {got}, but {wanted} is expected there")


def _verify_views(buffers: Iterable[Buffer], name: str) -> None:
    for buffer in buffers:
        owner = root(buffer)
        if reals_in(owner) > reals_in(buffer):
            owner = pairs_in(owner)
        _same(name, f"a view of {owner.name}", buffer.dtype, owner.dtype)


def _verify_nest(nest: Nest | Contraction, name: str) -> None:
    for store in nest.stores:
        _same(name, f"what {store.buffer.name} is given", store.value.dtype, store.buffer.dtype)
    for expr in expressions_of(nest):
        if isinstance(expr, Choose):
            for part in (expr.yes, expr.no):
                _same(name, "what is chosen", part.dtype, expr.dtype)


def _verify_product(product: Contraction, name: str) -> None:
    _verify_nest(product, name)
    for buffer in product.factors:
        _same(name, f"the factor {buffer.name}", buffer.dtype, product.out.dtype)
    for value in product.values:
        _same(name, "a factor that is computed", value.dtype, product.out.dtype)
    for expr in expressions_of(product):
        if isinstance(expr, Sum):
            _same(name, "the sum", expr.dtype, product.out.dtype)
