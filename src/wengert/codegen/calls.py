"""Calls of LAPACK and BLAS: by name, with the address of every argument, as Fortran has it."""

from __future__ import annotations

import numpy as np
from llvmlite import ir

from ..loops import Buffer, LibraryCall
from ..machine import Machine
from ..runtime.lapack import PREFIX
from .llvm_types import I8, POINTER, declare, element_type, i64
from .llvm_types import I64 as LENGTH
from .pointers import Pointers


def emit_call(
    builder: ir.IRBuilder, call: LibraryCall, pointers: Pointers, machine: Machine
) -> None:
    """Put what is no memory on the stack, and call.

    After all arguments Fortran wants the length of each letter.
    """
    integer = ir.IntType(int(machine.lapack[-2:]))
    given: list[ir.Value] = []
    letters = 0
    for one in call.arguments:
        if isinstance(one, Buffer):
            given.append(pointers(one))
            continue
        if isinstance(one, str):
            letters += 1
            value = ir.Constant(I8, ord(one))
        elif isinstance(one, int):
            value = ir.Constant(integer, one)
        else:
            value = ir.Constant(element_type(np.dtype(type(one))), float(one))
        place = builder.alloca(value.type)
        builder.store(value, place)
        given.append(place)
    kinds = [*[POINTER] * len(given), *[LENGTH] * letters]
    signature = ir.FunctionType(ir.VoidType(), kinds)
    function = declare(builder.module, PREFIX + call.function, signature)
    builder.call(function, [*given, *[i64(1)] * letters])
