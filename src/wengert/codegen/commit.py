"""What stands around the kernel of a program: its state, and other entries.

The entry of a program gives it arguments, results and captured memory; its kernel wants inputs
(arguments, then state), outputs (results, then new state) and constants. `emit_commit` adds the
function between the two. New state is computed into scratch memory at the end of the arena and
copied over the old only after the kernel has returned 0: a call that fails changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from ..runtime.signature import Signature
from .contexts import table_of, words_of
from .entry import emit_entry
from .llvm_types import I1, I8, I32, I64, declare, private_function
from .llvm_types import POINTER as PTR
from .target import Target

# Arrays of so many bytes are copied by several threads, so many bytes at a time.
_SHARED_BYTES, _CHUNK_BYTES = 1 << 20, 1 << 18


@dataclass(frozen=True)
class Home:
    """Where the kernel finds a buffer: a slot of the entry's buffers, or bytes into the arena."""

    slot: int | None = None
    offset: int | None = None


@dataclass(frozen=True)
class Copy:
    """New state to copy from the arena to the memory in a slot."""

    offset: int
    slot: int
    nbytes: int


def emit_commit(
    module: ir.Module, name: str, kernel: str, places: Sequence[Home], copies: Sequence[Copy]
) -> None:
    """Add `i32 name(ptr buffers, ptr arena)`, which calls `kernel` and then copies the state."""
    function = ir.Function(module, ir.FunctionType(I32, [PTR, PTR]), name)
    buffers, arena = function.args
    builder = ir.IRBuilder(function.append_basic_block())

    def slot(number: int) -> ir.Value:
        at = builder.gep(buffers, [ir.Constant(I64, number)], source_etype=PTR)
        return builder.load(at, typ=PTR)

    def scratch(offset: int) -> ir.Value:
        return builder.gep(arena, [ir.Constant(I64, offset)], source_etype=I8)

    table = builder.alloca(PTR, size=ir.Constant(I32, max(len(places), 1)))
    for number, place in enumerate(places):
        pointer = scratch(place.offset) if place.slot is None else slot(place.slot)  # type: ignore[arg-type]
        builder.store(pointer, builder.gep(table, [ir.Constant(I64, number)], source_etype=PTR))
    code = builder.call(module.globals[kernel], [table, arena])
    with builder.if_then(builder.icmp_signed("==", code, ir.Constant(I32, 0)), likely=True):
        move = module.declare_intrinsic(
            "llvm.memcpy", [PTR, PTR, I64], ir.FunctionType(ir.VoidType(), [PTR, PTR, I64, I1])
        )
        task = None
        for copy in copies:
            count, pair = ir.Constant(I64, copy.nbytes), [slot(copy.slot), scratch(copy.offset)]
            if copy.nbytes < _SHARED_BYTES:
                builder.call(move, [*pair, count, ir.Constant(I1, 0)])
                continue
            from .pool import PARALLEL_FOR  # most programs need no threads

            task = task or _copying_task(module, f"{name}.copy", move)
            context = table_of(builder, [*pair, count])
            chunks = ir.Constant(I64, -(-copy.nbytes // _CHUNK_BYTES))
            kind = ir.FunctionType(ir.VoidType(), [PTR, PTR, I64])
            builder.call(declare(module, PARALLEL_FOR, kind), [task, context, chunks])
    builder.ret(code)


def _copying_task(module: ir.Module, name: str, move: ir.Function) -> ir.Function:
    """`void name(context, number, worker)`: a chunk of one array copied to another."""
    function = private_function(module, name, [PTR, I64, I64])
    context, number, _ = function.args
    b = ir.IRBuilder(function.append_basic_block())
    to, source, count = words_of(b, context, [PTR, PTR, I64])
    chunk = ir.Constant(I64, _CHUNK_BYTES)
    start = b.mul(number, chunk)
    left = b.sub(count, start)
    length = b.select(b.icmp_signed("<", left, chunk), left, chunk)
    pair = [b.gep(pointer, [start], source_etype=I8) for pointer in (to, source)]
    b.call(move, [*pair, length, ir.Constant(I1, 0)])
    b.ret_void()
    return function


def entry_module(kernel: str, signature: Signature, target: Target) -> ir.Module:
    """A module with only an `entry` to the function `kernel` of another module."""
    module = ir.Module("entry")
    module.triple = target.triple
    ir.Function(module, ir.FunctionType(I32, [PTR, PTR]), kernel)
    emit_entry(module, "entry", kernel, signature)
    return module
