"""Calls of libraries by name: the address of every argument, as Fortran has it, or as C has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from ..loops import Buffer, LibraryCall, Symbol
from ..machine import Machine
from ..runtime.lapack import PREFIX
from . import lane_functions, ties
from .llvm_types import I8, POINTER, declare, element_type, i64
from .llvm_types import I64 as LENGTH
from .pointers import Pointers


def emit_call(
    builder: ir.IRBuilder, call: LibraryCall, pointers: Pointers, machine: Machine
) -> None:
    """Put what is no memory on the stack, and call.

    After all arguments Fortran wants the length of each letter.
    """
    if call.by_value:
        _emit_by_value(builder, call, pointers, machine)
        return
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
        elif isinstance(one, np.complexfloating):
            kind = element_type(one.real.dtype)
            parts = [float(one.real), float(one.imag)]
            value = ir.Constant(ir.ArrayType(kind, 2), [ir.Constant(kind, x) for x in parts])
        else:
            value = ir.Constant(element_type(np.dtype(type(one))), float(one))
        place = builder.alloca(value.type)
        builder.store(value, place)
        given.append(place)
    kinds = [*[POINTER] * len(given), *[LENGTH] * letters]
    signature = ir.FunctionType(ir.VoidType(), kinds)
    function = declare(builder.module, PREFIX + call.function, signature)
    builder.call(function, [*given, *[i64(1)] * letters])


def _emit_by_value(
    builder: ir.IRBuilder, call: LibraryCall, pointers: Pointers, machine: Machine
) -> None:
    given = [_value(builder, one, pointers) for one in call.arguments]
    builder.call(_function(builder.module, call.function, given, machine), given)


def _function(
    module: ir.Module, name: str, given: Sequence[ir.Value], machine: Machine
) -> ir.Function:
    """The function of a name: one of our own, which the module then has, or one from outside."""
    if name.startswith(ties.PREFIX):
        return ties.ties(module, name)
    if name.startswith(lane_functions.PREFIX):
        return lane_functions.lane_function(module, name, machine.has_fma)
    return declare(module, name, ir.FunctionType(ir.VoidType(), [value.type for value in given]))


def _value(builder: ir.IRBuilder, one: Any, pointers: Pointers) -> ir.Value:
    """An argument: a pointer or a number; of several the address of the first."""
    if isinstance(one, Buffer):
        return pointers(one)
    if isinstance(one, Symbol):
        # what is called or not is all the same to the linker
        return declare(builder.module, one.name, ir.FunctionType(ir.VoidType(), ()))
    if isinstance(one, int):
        return i64(one)
    if not isinstance(one, tuple):
        return ir.Constant(element_type(np.dtype(type(one))), float(one))
    values = [_value(builder, part, pointers) for part in one]
    place = builder.alloca(values[0].type, size=i64(len(values)))
    for number, value in enumerate(values):
        target = builder.gep(place, [i64(number)], source_etype=values[0].type)
        builder.store(value, target)
    return place
