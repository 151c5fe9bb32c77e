"""Equal elements side by side in an order, put in the order of their places.

A quick sort of places by elements leaves those that are equal in any order. Where two that follow
each other are equal, so are the places that they came from; whole runs of these are sorted.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir

from .llvm_types import I64, POINTER, declare, element_type, i64, private_function

PREFIX = "ties_"


def ties(module: ir.Module, name: str) -> ir.Function:
    """The function for elements of a dtype, as in `ties_f8`: elements, order, length."""
    known = module.globals.get(name)
    if known is not None:
        return known
    dtype = np.dtype(name.removeprefix(PREFIX))
    function = private_function(module, name, [POINTER, POINTER, I64, I64])
    keys, order, length, _ = function.args
    entry, head, look, following, run, check, put, done = (
        function.append_basic_block(label)
        for label in ("entry", "head", "look", "next", "run", "check", "sort", "done")
    )
    b = ir.IRBuilder(entry)
    b.branch(head)
    kind = element_type(dtype)

    def key(at: ir.Value) -> ir.Value:
        place = b.load(b.gep(order, [at], source_etype=I64), typ=I64)
        return b.load(b.gep(keys, [place], source_etype=kind), typ=kind)

    def alike(one: ir.Value, other: ir.Value) -> ir.Value:
        if dtype.kind != "f":
            return b.icmp_signed("==", one, other)
        nothing = b.and_(b.fcmp_unordered("uno", one, one), b.fcmp_unordered("uno", other, other))
        return b.or_(b.fcmp_ordered("==", one, other), nothing)

    b.position_at_end(head)
    start = b.phi(I64)
    start.add_incoming(i64(0), entry)
    after = b.add(start, i64(1))
    b.cbranch(b.icmp_signed("<", after, length), look, done)
    b.position_at_end(look)
    first, third = key(start), b.add(start, i64(2))
    b.cbranch(alike(first, key(after)), run, following)
    b.position_at_end(following)
    start.add_incoming(after, following)
    b.branch(head)
    b.position_at_end(run)
    end = b.phi(I64)
    end.add_incoming(third, look)
    b.cbranch(b.icmp_signed("<", end, length), check, put)
    b.position_at_end(check)
    is_more = alike(first, key(end))
    end.add_incoming(b.add(end, i64(1)), check)
    b.cbranch(is_more, run, put)
    b.position_at_end(put)
    signature = ir.FunctionType(ir.VoidType(), [POINTER, I64, I64])
    sort = declare(module, "numpy_sort_i8", signature)
    b.call(sort, [b.gep(order, [start], source_etype=I64), b.sub(end, start), i64(0)])
    start.add_incoming(end, put)
    b.branch(head)
    b.position_at_end(done)
    b.ret_void()
    return function
