"""The half of an entry that takes its arguments apart and checks them; see `entry.py`."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from ..runtime.builtin import CONTEXT_OBJECTS, CONTEXT_POINTERS, Pointer
from ..runtime.layout import WORD, ObjectLayout
from ..runtime.signature import (
    BRANCHES,
    AnySpec,
    ArraySpec,
    Dim,
    KeptSpec,
    ObjectSpec,
    OwnerSpec,
    ScalarSpec,
    Signature,
    StaticSpec,
    Tree,
    children_of,
    context_objects,
    keys_of,
    leaves,
)
from .entry_parts import shared_part
from .objects import (
    ALIGNED,
    C_CONTIGUOUS,
    EQUAL,
    F32,
    F64,
    I8,
    I32,
    I64,
    NULL,
    PTR,
    WARN_ON_WRITE,
    WRITEABLE,
    Code,
    Value,
    constant,
    global_constant,
)
from .unchanged import emit_unchanged


class Taking(Code):
    """An entry under construction: the context, what is held, trees and leaves of arguments.

    `owned` are the references that the end of the entry drops.
    """

    def __init__(self, module: ir.Module, name: str, signature: Signature, layout: ObjectLayout):
        super().__init__(module, layout, name, ir.FunctionType(PTR, [PTR, PTR, I64, PTR]))
        self.signature = signature
        self.context, self.args, self.nargs, self.kwnames = self.function.args
        self.leave = self.function.append_basic_block("leave")
        objects = context_objects(signature)
        self.position: dict[int, int] = {}
        for index, item in enumerate(objects, CONTEXT_OBJECTS):
            self.position.setdefault(id(item), index)
        # Static values by their order, not as objects: two may be one object in this process only.
        self.result_statics = CONTEXT_OBJECTS + len(objects) - _statics(signature.result)
        self.argument_statics = self.result_statics - _statics(signature.trees())
        self.result = self.null_slot()
        self.owned_limit = _owned_limit(signature)
        self.owned_count = 0
        self.owned = self.slot(ir.ArrayType(PTR, self.owned_limit))  # `leave` drops these
        self.lengths: dict[str, Value] = {}
        self.dynamic: list[Value] = []  # in the order of the slots after the buffers
        self.tables: dict[tuple[int, ...], ir.GlobalVariable] = {}
        self.unchanged: ir.Function | None = None

    # The context, and what is held

    def item(self, index: int) -> Value:
        """An item of the context."""
        return self.load(self.context, self.layout.tuple_items + WORD * index)

    def object(self, value: Any) -> Value:
        """The object of this process, out of the context."""
        return self.item(self.position[id(value)])

    def pointer(self, which: Pointer) -> Value:
        """An address out of the context's table."""
        return self.load(self.item(CONTEXT_POINTERS), self.layout.bytes_data + WORD * which)

    def table(self, *words: int) -> Value:
        """A constant array of i64."""
        if words not in self.tables:
            name = f"{self.function.name}.table.{len(self.tables)}"
            value = ir.Constant(ir.ArrayType(I64, len(words)), list(words))
            self.tables[words] = global_constant(self.module, name, value)
        return self.tables[words]

    def require_type(self, value: Value, kind: type) -> None:
        """Go on only with an object of exactly this class."""
        self.require(self.same(self.load(value, self.layout.type), self.object(kind)))

    def own(self, value: Value | None) -> Value:
        """Keep a reference until `leave`; the slot it is in, which may also be filled later."""
        index, self.owned_count = self.owned_count, self.owned_count + 1
        slot = self.b.gep(self.owned, [constant(index)], source_etype=PTR)
        if value is not None:
            self.b.store(value, slot)
        return slot

    # Trees

    def walk(self, trees: Sequence[Tree], values: Sequence[Value], found: list) -> None:
        """Take trees apart; `found` gets their leaves, with what stands there."""
        for tree, value in zip(trees, values, strict=True):
            if isinstance(tree, ObjectSpec):
                inside: list[tuple[Any, Value]] = []
                self.walk(tree.children, self.attributes(tree, value), inside)
                for same in tree.arrange(inside, lambda pair: pair[0]):
                    found.append(same[0])
                    for _, other in same[1:]:
                        self.require(self.same(other, same[0][1]))
            elif isinstance(tree, BRANCHES):
                self.walk(children_of(tree), self.children(tree, value), found)
            else:
                found.append((tree, value))

    def children(self, tree: Tree, value: Value) -> list[Value]:
        """What a tuple, list or dict holds, after checking that it is one of that length."""
        if isinstance(tree, dict):
            return self.values(tree, value)
        self.require_type(value, type(tree))
        size = self.load(value, self.layout.size, I64)
        self.require(self.same(size, constant(len(tree))))
        if isinstance(tree, tuple):
            return self.items(value, len(tree))
        items = self.load(value, self.layout.list_items)
        children = [self.load(items, WORD * i) for i in range(len(tree))]
        for child in children:  # all of them before any other step can change the list
            self.hold(child)
        return children

    def values(self, tree: dict[Any, Tree], mapping: Value) -> list[Value]:
        """What a dictionary holds, after checking that its keys are these, in this order."""
        b = self.b
        self.require_type(mapping, dict)
        self.require(self.same(self.call("PyDict_Size", mapping), constant(len(tree))))
        place, slots = self.slot(I64), (self.slot(PTR), self.slot(PTR))
        self.b.store(constant(0), place)
        found = {}
        for expected in keys_of(tree):
            more = self.call("PyDict_Next", mapping, place, *slots)
            self.require(b.not_(self.same(more, constant(0, I32))))
            key, found[expected] = (b.load(slot, typ=PTR) for slot in slots)
            self.hold(key)  # to compare may run Python code, which may change the dictionary
            self.hold(found[expected])
            equal = self.call("PyObject_RichCompareBool", key, self.object(expected), EQUAL)
            self.require(self.same(equal, constant(1, I32)))
        return [found[key] for key in tree]

    def items(self, value: Value, count: int) -> list[Value]:
        """What a tuple holds; it cannot change, so nothing is held."""
        return [self.load(value, self.layout.tuple_items + WORD * i) for i in range(count)]

    def attributes(self, spec: ObjectSpec, value: Value) -> list[Value]:
        """The attributes of an object, after checking that it is of that class."""
        self.require_type(value, spec.kind)
        if spec.names is None:
            count = constant(len(spec.children))
            self.require(self.same(self.load(value, self.layout.size, I64), count))
            return self.items(value, len(spec.children))
        own = [self.object(spec.kind)] if len(spec.children) > len(spec.names) else []
        names = [sys.intern(name) for name in spec.names]
        if not spec.whole:
            return [
                self.owned_new(self.call("PyObject_GetAttr", value, self.object(name)))
                for name in names
            ] + own
        held = self.owned_new(self.call("PyObject_GenericGetDict", value, NULL))
        self.require(self.same(self.call("PyDict_Size", held), constant(len(names))))
        return [self.look_up(held, name) for name in names] + own

    def owned_new(self, value: Value) -> Value:
        """A new reference that a call has returned, or an exception."""
        self.require(self.b.not_(self.is_null(value)))
        self.own(value)
        return value

    def look_up(self, mapping: Value, key: Any) -> Value:
        """What a dictionary has for a key; held."""
        child = self.call("PyDict_GetItemWithError", mapping, self.object(key))
        self.require(self.b.not_(self.is_null(child)))
        self.hold(child)
        return child

    def hold(self, value: Value) -> None:
        """Keep a new reference until `leave`."""
        self.call("Py_IncRef", value)
        self.own(value)

    # Leaves

    def check_statics(self, found: list, position: int) -> list[tuple[Any, Value]]:
        """Check the static leaves, whose objects start at `position`; return the other leaves."""
        others = []
        for spec, value in found:
            if isinstance(spec, StaticSpec):
                self.check_static(spec, value, self.item(position))
                position += 1
            elif not isinstance(spec, AnySpec):
                others.append((spec, value))
        return others

    def check_static(self, spec: StaticSpec, value: Value, expected: Value) -> None:
        """Check what has no buffer: the very same object, or one that has not changed."""
        if isinstance(spec, OwnerSpec):
            expected = self.load(expected, self.layout.weakref_object)
        same = self.same(value, expected)
        if not isinstance(spec, KeptSpec):
            self.require(same)
            return
        if self.unchanged is None:
            name, position = f"{self.function.name}.unchanged", self.position
            self.unchanged = emit_unchanged(
                self.module, self.layout, name, lambda kind: position[id(kind)]
            )
        with self.b.if_then(self.b.not_(same)):
            self.require(self.b.call(self.unchanged, [value, expected, self.context]))

    def check_leaf(self, spec: Any, value: Value) -> Value:
        """The pointer that the kernel gets for an argument."""
        if isinstance(spec, ScalarSpec):
            return self.scalar(spec, value)
        return self.check_array(spec, value, C_CONTIGUOUS * (spec.strides is None))

    def check_array(self, spec: ArraySpec, array: Value, flags: int) -> Value:
        """Check an array, which must have these flags; the pointer to its data."""
        flags |= ALIGNED if spec.aligned else 0
        mask = flags | WARN_ON_WRITE if flags & WRITEABLE else flags
        same_types = (np.dtype(c).num for c in "?bhilqBHILQefdFD" if np.dtype(c) == spec.dtype)
        numbers = sum(1 << number for number in same_types)
        ndim = len(spec.shape)
        lengths = [dim if isinstance(dim, int) else -1 for dim in spec.shape]
        strides = self.table(*spec.strides) if spec.strides else NULL
        words = [constant(word, I32) for word in (numbers, mask, flags, ndim)]
        kinds = [self.object(np.ndarray), self.object(spec.dtype)]
        tables = [self.table(*lengths), strides]
        self.require(
            self.b.call(shared_part(self.module, "check"), [array, *kinds, *words, *tables])
        )
        if -1 in lengths:
            self.check_lengths(spec, self.load(array, self.layout.array_shape))
        return self.load(array, self.layout.array_data)

    def check_lengths(self, spec: ArraySpec, shape: Value) -> None:
        """Check the lengths of dynamic axes, or learn them."""
        for axis, dim in enumerate(spec.shape):
            if isinstance(dim, int):
                continue
            length = self.load(shape, WORD * axis, I64)
            if dim is not None and dim.name in self.lengths:
                self.require(self.same(length, self.length(dim)))
                continue
            if dim is not None:
                self.lengths[dim.name] = length
            self.dynamic.append(length)

    def length(self, dim: int | Dim | None) -> Value:
        """The length of an axis."""
        assert dim is not None  # only arguments have such axes, and those bind them
        if isinstance(dim, int):
            return constant(dim)
        scaled = self.b.mul(self.lengths[dim.name], constant(dim.times))
        return self.b.add(scaled, constant(dim.plus))

    def scalar(self, spec: ScalarSpec, value: Value) -> Value:
        """A pointer to the value of a number."""
        b = self.b
        if spec.kind == "bool":
            true = self.same(value, self.object(True))
            self.require(b.or_(true, self.same(value, self.object(False))))
            return self.converted(b.zext(true, I64), spec.dtype)
        if spec.kind == "int":
            self.require_type(value, int)
            return self.converted(self.integer(value, spec.dtype), spec.dtype)
        kinds = {"float": float, "complex": complex, "numpy": spec.dtype.type}
        self.require_type(value, kinds[spec.kind])
        payload = b.gep(value, [constant(self.layout.value)], source_etype=I8)
        python = {"float": np.float64, "complex": np.complex128}.get(spec.kind)
        if python is None or spec.dtype == python:
            return payload  # the object is immutable and outlives the call
        number = b.load(payload, typ=F64)
        imaginary = self.load(payload, WORD, F64) if spec.kind == "complex" else None
        return self.converted(number, spec.dtype, imaginary)

    def integer(self, value: Value, dtype: np.dtype) -> Value:
        """A Python int as i64 (its 64 bits for uint64); one that `dtype` cannot hold mismatches."""
        b = self.b
        overflow = self.slot(I32)
        number = self.slot(I64)
        b.store(self.call("PyLong_AsLongLongAndOverflow", value, overflow), number)
        fits = self.same(b.load(overflow, typ=I32), constant(0, I32))
        loaded = b.load(number, typ=I64)
        if dtype.kind == "u":
            nonnegative = b.icmp_signed(">=", loaded, constant(0))
            if dtype.itemsize < WORD:
                self.require(b.and_(fits, nonnegative))
            else:
                with b.if_then(b.not_(fits), likely=False):
                    b.store(self.call("PyLong_AsUnsignedLongLong", value), number)
                    self.require(self.is_null(self.call("PyErr_Occurred")))
                loaded = b.load(number, typ=I64)
                self.require(b.or_(b.not_(fits), nonnegative))
        else:
            self.require(fits)
        if dtype.kind in "iu" and dtype.itemsize < WORD:
            narrow = ir.IntType(8 * dtype.itemsize)
            widen = b.sext if dtype.kind == "i" else b.zext
            self.require(self.same(widen(b.trunc(loaded, narrow), I64), loaded))
        return loaded

    def converted(self, number: Value, dtype: np.dtype, imaginary: Value | None = None) -> Value:
        """A slot with the i64 or double `number` as `dtype`."""
        b = self.b
        slot = self.slot(ir.ArrayType(I64, 2), 16)
        if dtype.kind in "biu":
            b.store(b.trunc(number, ir.IntType(8 * dtype.itemsize)), slot)
            return slot
        if number.type == I64:  # by way of double, as NumPy does
            number = b.sitofp(number, F64)
        parts = [number]
        if dtype.kind == "c":
            parts.append(ir.Constant(F64, 0.0) if imaginary is None else imaginary)
        size = dtype.itemsize // len(parts)
        for index, part in enumerate(parts):
            part = part if size == WORD else b.fptrunc(part, F32)
            at = b.gep(slot, [constant(index * size)], source_etype=I8)
            b.store(part, at)
        return slot


def _statics(tree: Tree) -> int:
    return sum(isinstance(leaf, StaticSpec) for leaf in leaves(tree))


def _owned_limit(signature: Signature) -> int:
    """How many references an entry may hold at most."""
    held = _count(signature.trees()) + _count(signature.result) * signature.takes_out
    made = _count(signature.result, tuples=True) + 1  # and the root
    return held + made


def _count(tree: Tree, tuples: bool = False) -> int:
    """The number of things in the lists, dictionaries and objects (and tuples) of a tree."""
    if not isinstance(tree, BRANCHES):
        return 0
    children = children_of(tree)
    own = len(children) if tuples or not isinstance(tree, tuple) else 0
    own += isinstance(tree, ObjectSpec)  # its dictionary
    own += len(children) * isinstance(tree, dict)  # its keys
    return own + sum(_count(child, tuples) for child in children)
