"""The generated CPython entry: arguments checked, kernel called, result built, all in native code.

`emit_entry` adds to an LLVM module, for a kernel and a `Signature`:

    ptr NAME(ptr self, ptr args, i64 nargs, ptr kwnames)    a METH_FASTCALL | METH_KEYWORDS function
    i32 NAME.run(ptr buffers, ptr arena)                    the kernel, without the GIL if so asked

The entry goes through its phases in this order, and the order is what makes it safe:

    keywords -> walk -> check -> overlap -> lock -> allocate -> run -> unlock -> build

*Walk* takes the trees of arguments apart and holds a reference to all that came out of a list or a
dictionary, because looking up a key may run Python code, which may change them. *Check* reads the
arrays only after that: from there to the end of the kernel no Python code runs in this thread
except what the kernel itself calls. Before *allocate* anything unexpected ends in the block
`mismatch`, which gives the untouched call to the next callable; there is one way out, which drops
all references held. Objects and addresses come from the context that `runtime.builtin` describes;
Python's C functions are resolved by name.
"""

import functools
import itertools
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from llvmlite import ir

from ..runtime.arena import ARENA_ALIGNMENT
from ..runtime.builtin import (
    CONTEXT_FINISH,
    CONTEXT_SPARES,
    RECYCLED_BYTES,
    SPARE_BYTES,
    Pointer,
)
from ..runtime.layout import WORD, ObjectLayout, native_layout
from ..runtime.limits import SPARES, STACK_ARENA_LIMIT
from ..runtime.signature import (
    ArraySpec,
    Dim,
    Signature,
    StaticSpec,
    Tree,
    keys_of,
)
from .entry_parts import shared_part
from .native_arguments import Taking
from .objects import (
    C_CONTIGUOUS,
    I1,
    I8,
    I32,
    I64,
    NULL,
    PTR,
    WRITEABLE,
    Value,
    c_function,
    constant,
)


def emit_entry(module: ir.Module, name: str, kernel: str, signature: Signature) -> bool:
    """Add the entry `name` and `name.run` of the function `kernel` to `module`.

    Where entries cannot be used (see `native_layout`) only `name.run` is added and False returned;
    `bind` then works through ctypes.
    """
    run = _emit_run(module, name, kernel, signature)
    layout = native_layout()
    if layout is None:
        return False
    _Entry(module, name, run, signature, layout).emit()
    return True


def _emit_run(module: ir.Module, name: str, kernel: str, signature: Signature) -> ir.Function:
    kernel_type = ir.FunctionType(I32, [PTR, PTR])
    target = module.globals.get(kernel) or ir.Function(module, kernel_type, kernel)
    run = ir.Function(module, kernel_type, f"{name}.run")
    b = ir.IRBuilder(run.append_basic_block())
    if signature.release_gil:
        state = b.call(c_function(module, "PyEval_SaveThread"), [])
        code = b.call(target, run.args)
        b.call(c_function(module, "PyEval_RestoreThread"), [state])
    else:
        code = b.call(target, run.args)
    b.ret(code)
    return run


class _Entry(Taking):
    """Emits one entry."""

    def __init__(
        self,
        module: ir.Module,
        name: str,
        run: ir.Function,
        signature: Signature,
        layout: ObjectLayout,
    ):
        super().__init__(module, name, signature, layout)
        self.run = run
        self.kept_bytes = 0  # of results that are used again, each of them once

    # The phases

    def emit(self) -> None:
        signature = self.signature
        with self.loop(constant(self.owned_limit)) as index:
            self.b.store(NULL, self.b.gep(self.owned, [index], source_etype=PTR))
        by_name, self.out = self.keywords()
        self.require(self.same(self.nargs, constant(len(signature.args))))
        by_position = [self.load(self.args, WORD * i) for i in range(len(signature.args))]
        found: list[tuple[Any, Value]] = []
        self.walk(signature.trees(), [*by_position, *by_name], found)
        given = self.walk_out()
        found = self.check_statics(found, self.argument_statics)
        inputs = [(spec, value, self.check_leaf(spec, value)) for spec, value in found]
        self.check_given(given)
        captured = self.captured()
        self.check_overlap(inputs, given, captured)
        arena, unlock = self.arena()
        results, made = self.allocate(given, unlock)
        buffers = [data for _, _, data in inputs] + results + captured + self.dynamic
        array = self.slot(ir.ArrayType(I64, max(1, len(buffers))))
        for index, value in enumerate(buffers):
            self.put(value, array, index)
        code = self.b.call(self.run, [array, arena])
        unlock(self.b)
        failed = self.function.append_basic_block("failed")
        self.require(self.same(code, constant(0, I32)), failed)
        self.build_result(given, results, made)
        self.emit_other_ends(failed, code)
        self.emit_leave()
        self.slots.branch(self.function.blocks[1])

    def keywords(self) -> tuple[list[Value], Value]:
        """Values of the declared keywords, and of `out` (NULL when it is not given)."""
        names = [name for name, _ in self.signature.kwargs] + ["out"] * self.signature.takes_out
        if not names:
            self.require(self.is_null(self.kwnames))
            return [], NULL
        slots = [self.null_slot() for _ in names]
        b, order = self.b, self.signature.order
        with b.if_then(b.not_(self.is_null(self.kwnames))):
            count = self.load(self.kwnames, self.layout.size, I64)
            self.require(b.icmp_unsigned("<=", count, constant(len(names))))
            first = b.gep(self.args, [self.nargs], source_etype=PTR)
            with self.loop(count) as index:
                items = b.gep(self.kwnames, [constant(self.layout.tuple_items)], source_etype=I8)
                name = b.load(b.gep(items, [index], source_etype=PTR), typ=PTR)
                value = b.load(b.gep(first, [index], source_etype=PTR), typ=PTR)
                known = constant(0, I1)
                for declared, slot in zip(names, slots, strict=True):
                    equal = self.same(name, self.object(sys.intern(declared)))
                    if declared in order:
                        equal = b.and_(equal, self.same(index, constant(order.index(declared))))
                    known = b.or_(known, equal)
                    b.store(b.select(equal, value, b.load(slot, typ=PTR)), slot)
                self.require(known)
        values = [b.load(slot, typ=PTR) for slot in slots]
        out = values.pop() if self.signature.takes_out else NULL
        for value in values:
            self.require(b.not_(self.is_null(value)))
        return values, out

    # What is given with `out`, and state

    def walk_out(self) -> list[Value]:
        """A slot for each array of the result: the array given with `out`, or NULL.

        None at all where `out` is not taken.
        """
        slots: list[Value] = []
        if not self.signature.takes_out:
            return slots
        self.has_out = self.b.and_(
            self.b.not_(self.is_null(self.out)), self.b.not_(self.same(self.out, self.object(None)))
        )
        with self.b.if_then(self.has_out):
            found: list[tuple[Any, Value]] = []
            self.walk([self.signature.result], [self.out], found)
            for _, value in self.check_statics(found, self.result_statics):
                slot = self.null_slot()
                absent = self.same(value, self.object(None))
                self.b.store(self.b.select(absent, NULL, value), slot)
                slots.append(slot)
        return slots

    def check_given(self, given: list[Value]) -> None:
        for spec in self.signature.outputs():
            for dim in spec.shape:
                if isinstance(dim, Dim) and (dim.plus < 0 or dim.times < 0):
                    self.require(self.b.icmp_signed(">=", self.length(dim), constant(0)))
        for spec, slot in zip(self.signature.outputs(), given, strict=bool(given)):
            array = self.b.load(slot, typ=PTR)
            with self.b.if_then(self.b.not_(self.is_null(array))):
                self.check_array(spec, array, C_CONTIGUOUS | WRITEABLE)

    def captured(self) -> list[Value]:
        count = len(self.signature.captured)
        if not count:
            return []
        table = self.pointer(Pointer.CAPTURED)
        pointers = [self.load(table, WORD * i) for i in range(count)]
        for pointer in pointers:
            self.require(self.b.not_(self.is_null(pointer)))
        return pointers

    # Overlap

    def check_overlap(self, inputs: list, given: list[Value], captured: list[Value]) -> None:
        """No array given with `out` and no written state may share memory with anything else."""
        b, outputs = self.b, self.signature.outputs() if given else ()
        state = list(zip(self.signature.captured, captured, strict=True))
        written = [pair for pair in state if pair[0].written]
        if not outputs and not written:
            return
        read = [pair for pair in state if not pair[0].written]
        arrays = [(spec, value) for spec, value, _ in inputs if isinstance(spec, ArraySpec)]
        count, total = len(outputs) + len(written), len(outputs) + len(state) + len(arrays)
        ranges = self.slot(ir.ArrayType(I64, 2 * total))
        always = constant(bool(written), I1)
        with b.if_then(b.or_(always, self.has_out) if given else always):
            measure, apart = (shared_part(self.module, name) for name in ("measure", "apart"))
            for index, (spec, data) in enumerate(written + read, len(outputs)):
                start = b.ptrtoint(data, I64)
                self.put(start, ranges, 2 * index)
                self.put(b.add(start, constant(spec.nbytes)), ranges, 2 * index + 1)
            given_arrays = [(s, b.load(g, typ=PTR)) for s, g in zip(outputs, given, strict=True)]
            places = [*range(len(outputs)), *range(len(outputs) + len(state), total)]
            for index, (array_spec, array) in zip(places, given_arrays + arrays, strict=True):
                at = b.gep(ranges, [constant(2 * index)], source_etype=I64)
                b.call(measure, [array, constant(array_spec.dtype.itemsize), at])
            arguments = [ranges, constant(count), constant(total)]
            self.require(b.call(apart, arguments))

    # Arena, allocation, result

    def arena(self) -> tuple[Value, Callable[[ir.IRBuilder], None]]:
        """The arena's address, and what emits its release.

        A small arena is on the stack. A large one is shared by all threads and has a lock that is
        tried, never waited for: who finds it taken mismatches, and the next callable brings an
        arena of its own.
        """
        b, nbytes = self.b, self.signature.arena_bytes
        if not nbytes:
            return NULL, lambda builder: None
        if nbytes <= STACK_ARENA_LIMIT:
            arena = b.alloca(ir.ArrayType(I8, nbytes))  # here: a mismatch needs no stack for it
            arena.align, arena.type = ARENA_ALIGNMENT, PTR
            return arena, lambda builder: None
        lock = self.pointer(Pointer.LOCK)
        me = self.call("PyThread_get_thread_ident")
        me = me if me.type == I64 else b.zext(me, I64)
        swapped = b.cmpxchg(lock, constant(0), me, "acquire", "monotonic")
        self.require(b.extract_value(swapped, 1))

        def unlock(builder: ir.IRBuilder) -> None:
            builder.atomic_rmw("xchg", lock, constant(0), "release")

        return self.pointer(Pointer.ARENA), unlock

    def allocate(self, given: list[Value], unlock: Callable) -> tuple[list[Value], list[Value]]:
        """Pointers to write the results to, and the slots of the arrays made for them."""
        b, pointers, made = self.b, [], []
        no_memory = self.function.append_basic_block("no_memory")
        new, exact = self.pointer(Pointer.NEW_FROM_DESCR), self.object(np.ndarray)
        for number, spec in enumerate(self.signature.outputs()):
            made.append(self.own(None))
            array = b.load(given[number], typ=PTR) if given else NULL
            if spec.shape:
                ndim = constant(len(spec.shape), I32)
                arguments = [array, made[-1], new, exact, self.object(spec.dtype), ndim]
                arguments.append(self.shape_of(spec))
                pointer = self.place_for(spec, number, arguments)
                self.require(b.not_(self.is_null(pointer)), no_memory)
                pointers.append(pointer)
                continue
            place = self.slot(ir.ArrayType(I64, 2), 16)
            if not given:
                pointers.append(place)
                continue
            pointer = self.slot(PTR)
            b.store(place, pointer)
            with b.if_then(b.not_(self.is_null(array))):
                b.store(self.load(array, self.layout.array_data), pointer)
            pointers.append(b.load(pointer, typ=PTR))
        failing = ir.IRBuilder(no_memory)
        unlock(failing)
        failing.branch(self.leave)
        return pointers, made

    def place_for(self, spec: ArraySpec, number: int, arguments: list[Value]) -> Value:
        """Memory for a result; large ones are used again."""
        b = self.b
        lengths = [dim for dim in spec.shape if isinstance(dim, int)]
        bytes_ = math.prod(lengths) * spec.dtype.itemsize
        if len(lengths) == len(spec.shape):
            if bytes_ < SPARE_BYTES or SPARES * (self.kept_bytes + bytes_) > RECYCLED_BYTES:
                return b.call(shared_part(self.module, "provide"), arguments)
            self.kept_bytes += bytes_
            return self.recycled(number, arguments)
        size: Value = constant(bytes_)
        for dim in spec.shape:
            size = size if isinstance(dim, int) else b.mul(size, self.length(dim))
        most = RECYCLED_BYTES // (SPARES * len(self.signature.outputs()))
        at_least, at_most = constant(SPARE_BYTES), constant(most)
        again = b.and_(b.icmp_signed(">=", size, at_least), b.icmp_signed("<=", size, at_most))
        place = self.slot(PTR)
        with b.if_else(again) as (large, other):
            with other:
                b.store(b.call(shared_part(self.module, "provide"), arguments), place)
            with large:
                b.store(self.recycled(number, arguments), place)
        return b.load(place, typ=PTR)

    def recycled(self, number: int, arguments: list[Value]) -> Value:
        first = constant(SPARES * number)
        recycle = shared_part(self.module, "recycle")
        return self.b.call(recycle, [self.item(CONTEXT_SPARES), first, *arguments])

    def shape_of(self, spec: ArraySpec) -> Value:
        """A result's shape as an array of i64, constant where it can be."""
        if all(isinstance(dim, int) for dim in spec.shape):
            return self.table(*spec.shape)  # type: ignore[arg-type]
        shape = self.slot(ir.ArrayType(I64, len(spec.shape)))
        for axis, dim in enumerate(spec.shape):
            self.put(self.length(dim), shape, axis)
        return shape

    def build_result(self, given: list[Value], results: list[Value], made: list[Value]) -> None:
        b = self.b
        if given:
            arrays = [b.load(slot, typ=PTR) for slot in given]
            all_given = functools.reduce(b.and_, (b.not_(self.is_null(a)) for a in arrays))
            with b.if_then(all_given):
                self.call("Py_IncRef", self.out)
                b.store(self.out, self.result)
                b.branch(self.leave)
        outputs = zip(self.signature.outputs(), results, made, strict=True)
        arrays = [b.load(slot, typ=PTR) if given else NULL for slot in given or made]
        finished = iter(
            [self.finished(*one, array) for one, array in zip(outputs, arrays, strict=True)]
        )
        statics = itertools.count(self.result_statics)
        result = self.build(self.signature.result, finished, statics)
        if self.signature.finish is not None:
            result = self.call("PyObject_CallOneArg", self.item(CONTEXT_FINISH), result)
        else:
            self.call("Py_IncRef", result)
        b.store(result, self.result)
        b.branch(self.leave)

    def finished(self, spec: ArraySpec, data: Value, made: Value, given: Value) -> Value:
        """The object for one array of the result: given, or made, or now made of a scalar."""
        b = self.b
        if given is NULL:
            if not spec.shape:
                self.make_scalar(spec, data, made)
            return b.load(made, typ=PTR)
        absent = self.is_null(given)
        if not spec.shape:
            with b.if_then(absent):
                self.make_scalar(spec, data, made)
        return b.select(absent, b.load(made, typ=PTR), given)

    def make_scalar(self, spec: ArraySpec, data: Value, made: Value) -> None:
        function = self.pointer(Pointer.SCALAR)
        kind = ir.FunctionType(PTR, [PTR, PTR, PTR])
        function.type = ir.PointerType(kind)  # a call needs the type of what it calls
        scalar = self.b.call(function, [data, self.object(spec.dtype), NULL])
        self.require(self.b.not_(self.is_null(scalar)), self.leave)
        self.b.store(scalar, made)

    def build(self, tree: Tree, finished: Iterator[Value], statics: Iterator[int]) -> Value:
        """The result's tree as a borrowed reference; what is new is owned by a slot."""
        b = self.b
        if isinstance(tree, StaticSpec):
            return self.item(next(statics))
        if isinstance(tree, ArraySpec):
            return next(finished)
        children = list(tree.values() if isinstance(tree, dict) else tree)
        parts = [self.build(child, finished, statics) for child in children]
        kind = {"tuple": "PyTuple", "list": "PyList"}.get(type(tree).__name__, "PyDict")
        size = [] if isinstance(tree, dict) else [constant(len(tree))]
        container = self.call(f"{kind}_New", *size)
        self.require(b.not_(self.is_null(container)), self.leave)
        self.own(container)
        if isinstance(tree, dict):
            by_key = dict(zip(tree, parts, strict=True))
            for key in keys_of(tree):
                stored = self.call("PyDict_SetItem", container, self.object(key), by_key[key])
                self.require(self.same(stored, constant(0, I32)), self.leave)
            return container
        for index, part in enumerate(parts):
            self.call("Py_IncRef", part)  # the container takes this reference
            self.call(f"{kind}_SetItem", container, constant(index), part)
        return container

    # The other ends

    def emit_other_ends(self, failed: ir.Block, code: Value) -> None:
        """The kernel returned an error; the call is not what this entry is for."""
        call = self.function.args
        for block, name, arguments in (
            (failed, "failed", [*call, code]),
            (self.mismatch, "pass_on", call),
        ):
            self.b.position_at_end(block)
            self.b.store(self.b.call(shared_part(self.module, name), arguments), self.result)
            self.b.branch(self.leave)

    def emit_leave(self) -> None:
        self.b.position_at_end(self.leave)
        assert self.owned_count <= self.owned_limit
        with self.loop(constant(self.owned_limit)) as index:
            at = self.b.gep(self.owned, [index], source_etype=PTR)
            owned = self.b.load(at, typ=PTR)
            with self.b.if_then(self.b.not_(self.is_null(owned))):
                self.call("Py_DecRef", owned)
        self.b.ret(self.b.load(self.result, typ=PTR))
