"""Native code that compares a Python value with a snapshot of it; see `wengert.snapshot`.

One function for all of them, which recurses as the snapshot does, so that code does not grow with
what is compared. Only exact classes of Python's own are looked into, by C functions that call no
Python code. Making the iterator of a set may start the garbage collector, though, and that runs
finalizers: so whatever comes out of something that can change is held while it is looked at, and
lengths are asked for again at each step.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MappingProxyType

import numpy as np
from llvmlite import ir

from ..runtime.layout import WORD, ObjectLayout
from ..snapshot import Snapshot
from .objects import C_CONTIGUOUS, EQUAL, I1, I8, I32, I64, NULL, PTR, Code, Value, constant

_HEAD = 2  # of a snapshot, before its pieces: the class, and how it is read


def emit_unchanged(
    module: ir.Module, layout: ObjectLayout, name: str, position: Callable[[object], int]
) -> ir.Function:
    """`i1 unchanged(value, kept, context)`; `position` finds a class in the context's tuple."""
    return _Unchanged(module, layout, name, position).emit()


class _Unchanged(Code):
    def __init__(
        self, module: ir.Module, layout: ObjectLayout, name: str, position: Callable[[object], int]
    ):
        super().__init__(module, layout, name, ir.FunctionType(I1, [PTR, PTR, PTR]))
        self.found, self.kept, self.context = self.function.args
        self.position = position

    def emit(self) -> ir.Function:
        b, yes = self.b, constant(1, I1)
        with b.if_then(self.same(self.found, self.kept)):
            b.ret(yes)
        kind = self.load(self.found, self.layout.type)
        kept_kind = self.load(self.kept, self.layout.type)
        with b.if_then(b.not_(self.same(kept_kind, self.known(Snapshot)))):
            self.require(self.same(kind, kept_kind))
            self.simple(kind)
        self.require(self.same(kind, self.piece(constant(-_HEAD))))
        form = self.piece(constant(1 - _HEAD))
        self.count = b.sub(self.size(self.kept), constant(_HEAD))
        for kinds, compare in (
            ((tuple, list), self.items),
            ((dict,), self.pairs),
            ((object,), self.attributes),
            ((np.ndarray,), self.array),
            ((set,), self.elements),
            ((type,), self.named),
            ((MappingProxyType,), self.held),
        ):
            matches = [self.same(form, self.known(one)) for one in kinds]
            with b.if_then(b.or_(*matches) if len(matches) > 1 else matches[0]):
                compare()
                b.ret(yes)
        b.branch(self.mismatch)
        b.position_at_end(self.mismatch)
        b.ret(constant(0, I1))
        return self.finish()

    def known(self, kind: object) -> Value:
        """A class out of the context."""
        return self.load(self.context, self.layout.tuple_items + WORD * self.position(kind))

    def size(self, container: Value) -> Value:
        return self.load(container, self.layout.size, I64)

    def piece(self, index: Value) -> Value:
        """A piece of the snapshot."""
        first = constant(self.layout.tuple_items + WORD * _HEAD)
        pieces = self.b.gep(self.kept, [first], source_etype=I8)
        return self.b.load(self.b.gep(pieces, [index], source_etype=PTR), typ=PTR)

    def again(self, value: Value, kept: Value) -> Value:
        """Whether something inside has not changed."""
        return self.b.call(self.function, [value, kept, self.context])

    def require_inside(self, values: list[Value], pieces: list[Value]) -> None:
        """Go on only if borrowed values have not changed; mostly they are the very same."""
        b = self.b
        same = [self.same(*both) for both in zip(values, pieces, strict=True)]
        with b.if_then(b.not_(functools.reduce(b.and_, same))):
            for value in values:
                self.call("Py_IncRef", value)
            same = [self.again(*both) for both in zip(values, pieces, strict=True)]
            for value in values:
                self.call("Py_DecRef", value)
            self.require(functools.reduce(b.and_, same))

    # ------------------------------------------------------------ things without pieces

    def simple(self, kind: Value) -> None:
        """Numbers and strings by value, of one class; anything else has to be the same object."""
        b = self.b
        for number, words in ((float, 1), (complex, 2)):
            with b.if_then(self.same(kind, self.known(number))):
                for word in range(words):
                    at = self.layout.value + WORD * word
                    pair = (self.load(one, at, I64) for one in (self.found, self.kept))
                    self.require(self.same(*pair))
                b.ret(constant(1, I1))
        int_, str_, bytes_ = (self.same(kind, self.known(one)) for one in (int, str, bytes))
        self.require(b.or_(int_, b.or_(str_, bytes_)))
        equal = [self.found, self.kept, EQUAL]
        self.require(self.same(self.call("PyObject_RichCompareBool", *equal), constant(1, I32)))
        b.ret(constant(1, I1))

    # ------------------------------------------------------------ containers

    def items(self) -> None:
        """A tuple or a list, or a tuple of another class."""
        b, listed = self.b, self.slot(I1)
        form = self.piece(constant(1 - _HEAD))
        b.store(self.same(form, self.known(list)), listed)
        self.require(self.same(self.size(self.found), self.count))
        inside = b.gep(self.found, [constant(self.layout.tuple_items)], source_etype=I8)
        with self.loop(self.count) as index:
            self.require(self.same(self.size(self.found), self.count))
            items = self.slot(PTR)
            b.store(inside, items)
            with b.if_then(b.load(listed, typ=I1)):
                b.store(self.load(self.found, self.layout.list_items), items)
            start = b.load(items, typ=PTR)
            item = b.load(b.gep(start, [index], source_etype=PTR), typ=PTR)
            self.require_inside([item], [self.piece(index)])

    def held(self) -> None:
        """What a class holds: a dictionary behind a proxy."""
        mapping = self.load(self.found, self.layout.value)
        self.require(self.same(self.load(mapping, self.layout.type), self.known(dict)))
        self.pairs(mapping)

    def pairs(self, mapping: Value | None = None) -> None:
        """A dictionary, in its order."""
        b, mapping = self.b, mapping or self.found
        half = b.lshr(self.count, constant(1))
        self.require(self.same(self.call("PyDict_Size", mapping), half))
        place, slots = self.slot(I64), (self.slot(PTR), self.slot(PTR))
        b.store(constant(0), place)
        with self.loop(half) as index:
            more = self.call("PyDict_Next", mapping, place, *slots)
            self.require(b.not_(self.same(more, constant(0, I32))))
            pair = [b.load(slot, typ=PTR) for slot in slots]
            first = b.shl(index, constant(1))
            pieces = [self.piece(first), self.piece(b.add(first, constant(1)))]
            self.require_inside(pair, pieces)

    def attributes(self) -> None:
        """An object, by its dictionary."""
        attributes = self.call("PyObject_GenericGetDict", self.found, NULL)
        self.new_reference_same(attributes, constant(0))

    def named(self) -> None:
        """An object, attribute by attribute."""
        b = self.b
        with self.loop(b.lshr(self.count, constant(1))) as index:
            first = b.shl(index, constant(1))
            value = self.call("PyObject_GetAttr", self.found, self.piece(first))
            self.new_reference_same(value, b.add(first, constant(1)))

    def new_reference_same(self, value: Value, index: Value) -> None:
        """Compare what a call has returned, or an exception."""
        self.require(self.b.not_(self.is_null(value)))
        same = self.again(value, self.piece(index))
        self.call("Py_DecRef", value)
        self.require(same)

    def elements(self) -> None:
        """A set, in its order."""
        b, good = self.b, self.slot(I1)
        self.require(self.same(self.call("PySet_Size", self.found), self.count))
        iterator = self.call("PyObject_GetIter", self.found)
        self.require(b.not_(self.is_null(iterator)))
        b.store(constant(1, I1), good)
        with self.loop(self.count) as index, b.if_then(b.load(good, typ=I1)):
            element = self.call("PyIter_Next", iterator)
            with b.if_else(self.is_null(element)) as (ended, there):
                with ended:  # it has changed meanwhile
                    b.store(constant(0, I1), good)
                with there:
                    b.store(self.again(element, self.piece(index)), good)
                    self.call("Py_DecRef", element)
        self.call("Py_DecRef", iterator)
        self.require(b.load(good, typ=I1))

    def array(self) -> None:
        """An array: its dtype, its lengths and all of its bytes."""
        b, layout = self.b, self.layout
        dtype, lengths, content = (self.piece(constant(index)) for index in range(3))
        self.require(self.same(self.load(self.found, layout.array_dtype), dtype))
        flags = self.load(self.found, layout.array_flags, I32)
        self.require(b.trunc(b.and_(flags, constant(C_CONTIGUOUS, I32)), I1))
        ndim = b.zext(self.load(self.found, layout.array_ndim, I32), I64)
        self.require(self.same(self.size(lengths), b.mul(ndim, constant(WORD))))
        self.same_bytes(self.load(self.found, layout.array_shape), lengths)
        self.same_bytes(self.load(self.found, layout.array_data), content)

    def same_bytes(self, data: Value, kept: Value) -> None:
        """Compare memory with a `bytes`, as many as that has."""
        b, size = self.b, self.size(kept)
        expected = b.gep(kept, [constant(self.layout.bytes_data)], source_etype=I8)
        whole = b.lshr(size, constant(3))
        for kind, start, end in ((I64, constant(0), whole), (I8, b.shl(whole, constant(3)), size)):
            with self.loop(end, start) as index:
                pair = []
                for base in (data, expected):
                    word = b.load(b.gep(base, [index], source_etype=kind), typ=kind)
                    word.align = 1
                    pair.append(word)
                self.require(self.same(*pair))
