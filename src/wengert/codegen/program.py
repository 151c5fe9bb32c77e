"""A whole program of loops -> one LLVM module.

Every kernel becomes a function of its own; `kernel(buffers, arena)` calls them in order. Where
NumPy must evaluate an operation in between, the program is cut into segments, `kernel0`,
`kernel1`, ..., and the caller runs NumPy between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from ..loops import (
    Affine,
    Apply,
    Buffer,
    Check,
    Contraction,
    Host,
    Kernel,
    Load,
    LoopProgram,
    Nest,
    ParallelNest,
    Store,
    Var,
)
from ..runtime import threads
from ..schedule.memory import buffers_of, root
from ..schedule.shaping import shape_nest
from . import pool
from .nests import NestEmitter
from .scalars import declare
from .target import Target

I32, I64, PTR = ir.IntType(32), ir.IntType(64), ir.PointerType()


@dataclass
class ProgramModule:
    """The LLVM module of a program, its segments, and the constants it wants pointers to."""

    module: ir.Module
    segments: list[str | Host]
    constants: list[Buffer]


def emit_program(program: LoopProgram, target: Target) -> ProgramModule:
    """Generate code for all kernels."""
    module = ir.Module("wengert")
    module.triple = target.triple
    constants = _constants(program)
    slots = {
        id(buffer): number
        for number, buffer in enumerate([*program.inputs, *program.outputs, *constants])
    }
    segments: list[str | Host] = []
    for group in _segments(program.kernels):
        if isinstance(group, Host):
            segments.append(group)
        else:
            name = f"kernel{len(segments)}"
            _emit_segment(module, target, name, group, slots)
            segments.append(name)
    return ProgramModule(module, segments, constants)


def _constants(program: LoopProgram) -> list[Buffer]:
    found: dict[int, Buffer] = {}
    for kernel in program.kernels:
        for buffer in map(root, buffers_of(kernel)):
            if buffer.kind == "constant":
                found[id(buffer)] = buffer
    return list(found.values())


def _segments(kernels: Sequence[Kernel]) -> list[Any]:
    """Runs of native kernels, and the host operations between them."""
    groups: list[Any] = []
    for kernel in kernels:
        if isinstance(kernel, Host):
            groups.append(kernel)
        elif groups and isinstance(groups[-1], list):
            groups[-1].append(kernel)
        else:
            groups.append([kernel])
    return groups or [[]]


def _emit_segment(
    module: ir.Module, target: Target, name: str, kernels: Sequence[Kernel], slots: dict[int, int]
) -> None:
    function = ir.Function(module, ir.FunctionType(I32, [PTR, PTR]), name)
    builder = ir.IRBuilder(function.append_basic_block())
    pointers = _Pointers(builder, function.args, slots)
    for number, kernel in enumerate(kernels):
        if isinstance(kernel, Check):
            _emit_check(builder, kernel, pointers)
            continue
        inner = _emit_kernel(module, target, f"{name}.{number}", kernel, slots)
        builder.call(inner, function.args)
    builder.ret(ir.Constant(I32, 0))


def _emit_check(builder: ir.IRBuilder, kernel: Check, pointers: _Pointers) -> None:
    flag = builder.load(pointers(kernel.flag), typ=ir.IntType(8))
    wrong = builder.icmp_unsigned("==", flag, ir.Constant(ir.IntType(8), 0))
    with builder.if_then(wrong, likely=False):
        builder.ret(ir.Constant(I32, kernel.code))


def _emit_kernel(
    module: ir.Module, target: Target, name: str, kernel: Kernel, slots: dict[int, int]
) -> ir.Function:
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR, PTR]), name)
    function.linkage = "internal"
    builder = ir.IRBuilder(function.append_basic_block())
    if isinstance(kernel, ParallelNest):
        task = _emit_task(module, target, name, kernel, slots)
        _call_pool(builder, task, function.args, kernel.task.extent + (kernel.rest is not None))
        nests = kernel.joins
    elif isinstance(kernel, Contraction):
        nests = shape_nest(as_nest(kernel))
    else:
        assert isinstance(kernel, Nest)
        nests = [kernel]
    _emit_nests(builder, target, nests, _Pointers(builder, function.args, slots))
    builder.ret_void()
    return function


def _emit_nests(
    builder: ir.IRBuilder, target: Target, nests: Sequence[Nest], pointers: _Pointers
) -> None:
    for nest in nests:
        for buffer in buffers_of(nest):
            pointers(buffer)
    for nest in nests:
        NestEmitter(builder, target, pointers).emit(nest)


def _emit_task(
    module: ir.Module, target: Target, name: str, kernel: ParallelNest, slots: dict[int, int]
) -> ir.Function:
    """`void name.task(ptr context, i64 task, i64 worker)`; the context holds buffers and arena."""
    kind = ir.FunctionType(ir.VoidType(), [PTR, I64, I64])
    function = ir.Function(module, kind, f"{name}.task")
    function.linkage = "internal"
    builder = ir.IRBuilder(function.append_basic_block())
    context, number, _ = function.args
    arena = builder.gep(context, [ir.Constant(I64, 1)], source_etype=PTR)
    args = [builder.load(context, typ=PTR), builder.load(arena, typ=PTR)]
    pointers = _Pointers(builder, args, slots)
    for buffer in buffers_of(kernel.body):
        pointers(buffer)
    if kernel.rest is not None:
        whole = builder.icmp_signed("<", number, ir.Constant(I64, kernel.task.extent))
        with builder.if_else(whole) as (then, otherwise):
            with then:
                NestEmitter(builder, target, pointers, {kernel.task: number}).emit(kernel.body)
            with otherwise:
                NestEmitter(builder, target, pointers).emit(kernel.rest)
    else:
        NestEmitter(builder, target, pointers, {kernel.task: number}).emit(kernel.body)
    builder.ret_void()
    return function


def _call_pool(
    builder: ir.IRBuilder, task: ir.Function, args: Sequence[ir.Value], count: int
) -> None:
    """Run all tasks on the process's pool."""
    threads.attach(pool.load())
    kind = ir.FunctionType(ir.VoidType(), [PTR, PTR, I64])
    parallel_for = declare(builder.module, pool.PARALLEL_FOR, kind)
    context = builder.alloca(PTR, size=ir.Constant(I64, 2))
    builder.store(args[0], context)
    second = builder.gep(context, [ir.Constant(I64, 1)], source_etype=PTR)
    builder.store(args[1], second)
    builder.call(parallel_for, [task, context, ir.Constant(I64, count)])


class _Pointers:
    """The data pointers of buffers, loaded once at the head of a kernel."""

    def __init__(self, builder: ir.IRBuilder, args: Sequence[ir.Value], slots: dict[int, int]):
        self.builder = builder
        self.buffers, self.arena = args
        self.slots = slots
        self.known: dict[int, ir.Value] = {}

    def __call__(self, buffer: Buffer) -> ir.Value:
        owner = root(buffer)
        found = self.known.get(id(owner))
        if found is None:
            found = self.known[id(owner)] = self._load(owner)
        return found

    def _load(self, buffer: Buffer) -> ir.Value:
        if buffer.kind == "arena":
            offset = ir.Constant(I64, buffer.offset)
            return self.builder.gep(self.arena, [offset], source_etype=ir.IntType(8))
        slot = ir.Constant(I64, self.slots[id(buffer)])
        place = self.builder.gep(self.buffers, [slot], source_etype=PTR)
        return self.builder.load(place, typ=PTR)


def as_nest(kernel: Contraction) -> Nest:
    """A product as plain loops."""
    variables = {label: Var(f"l{label}", extent) for label, extent in kernel.extents.items()}

    def flat(strides: dict[int, int], offset: int = 0) -> Affine:
        total = Affine(offset)
        for label, stride in strides.items():
            total = total + Affine.of(variables[label]) * stride
        return total

    dtype = kernel.out.dtype
    x = Load(kernel.x, flat(kernel.x_strides, kernel.x_offset))
    y = Load(kernel.y, flat(kernel.y_strides, kernel.y_offset))
    store = Store(kernel.out, flat(kernel.out_strides), Apply("multiply", (x, y), dtype), "add")
    return Nest(list(variables.values()), [store], kernel.label, kernel.nodes)
