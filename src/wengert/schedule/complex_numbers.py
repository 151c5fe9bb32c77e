"""Complex numbers in memory, two real ones each -> loads and stores of these, and calls.

`real` and `imag` of what lies there are read in place, and `complex_of` stores both. The functions
that are used most are made of the parts (see `passes.complex_rules`); of the others each is one of
C with a table of special cases behind it, which NumPy's loops call for one number after the other.
"""

from __future__ import annotations

import functools

import numpy as np

from ..graph import Node, Operator
from ..loops import (
    Affine,
    Buffer,
    LibraryCall,
    Pointwise,
    Store,
    Symbol,
    cast,
    pairs_in,
    part_of,
)
from ..machine import current
from ..ops.elementwise import direction, imag, power, real
from .fused import FusedNest
from .fusion import Scheduler
from .lowering import is_native

# What an element takes, in units of `Kernel.work`.
_COST = 200
# Functions of operations whose evaluation is more than that.
_FUNCTIONS = {power: np.power, direction: np.sign}


def _read(number: int) -> Pointwise:
    return Pointwise(lambda at, x: part_of(x(at), number), free=True)


_PARTS = {real: _read(0), imag: _read(1)}


def part(node: Operator) -> Pointwise | None:
    """One part of complex numbers that are in memory."""
    return _PARTS[node.op] if node.inputs[0].type.dtype.char in "FD" else None


def lower_complex_of(scheduler: Scheduler, node: Operator) -> None:
    """Both parts of complex numbers are stored where they are computed, one after the other."""
    if node.type.dtype.char not in "FD" or not all(map(is_native, node.inputs)):
        scheduler._schedule_host(node)
        return
    pairs = pairs_in(scheduler.buffer_of(node))
    for number, source in enumerate(node.inputs):
        scheduler._join(node, node.type.shape, functools.partial(_store, pairs, number, source))


def _store(pairs: Buffer, number: int, source: Node, nest: FusedNest) -> Store:
    own = nest.index[len(nest.index) - len(source.type.shape) :]
    lengths = zip(own, source.type.shape, strict=True)
    at = tuple(Affine(0) if n == 1 else i for i, n in lengths)
    value = cast(nest.element(source, at), pairs.dtype)
    return Store(pairs, pairs.flat((*nest.index, Affine(number))), value)


def lower_function(scheduler: Scheduler, node: Operator) -> None:
    """An elementwise function of complex arrays, all of one shape; NumPy evaluates all else."""
    ufunc = _FUNCTIONS.get(node.op, node.op.evaluate)
    types = [node.type, *[source.type for source in node.inputs]]
    alike = all(t[:2] == types[0][:2] for t in types)
    is_known = isinstance(ufunc, np.ufunc) and types[0].dtype.char in "FD"
    if not (current().numpy_loops and is_known and alike and types[0].size):
        scheduler._schedule_host(node)
        return
    given, (out,) = scheduler.arrays_of(node)
    function = f"numpy_{ufunc.__name__}_{out.dtype.char}"
    lines = [_line(buffer) for buffer in (*given, out)]
    steps = (out.dtype.itemsize,) * len(lines)
    data = Symbol(f"{function}_data")
    call = LibraryCall(
        function,
        (tuple(lines), (out.size,), steps, data),
        tuple(lines[:-1]),
        tuple(lines[-1:]),
        _COST * out.size,
        node.op.name,
        [node],
        by_value=True,
    )
    scheduler.add(node, [call])


def _line(buffer: Buffer) -> Buffer:
    return buffer.view(shape=(buffer.size,), strides=(1,))
