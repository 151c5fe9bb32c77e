"""The generated entry against its Python twin, `CtypesCall`, and against all sorts of bad calls."""

import contextlib
import dataclasses
import gc
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
import timeit
import tracemalloc
import weakref
from typing import NamedTuple

import numpy as np
import pytest
from llvmlite import ir

from wengert.codegen.compile import compile_module
from wengert.codegen.entry import emit_entry
from wengert.codegen.gate import gate_address
from wengert.codegen.interrupts import emit_poll
from wengert.runtime.arena import Arena, _free_arenas_after_fork
from wengert.runtime.builtin import bind, c_api_addresses
from wengert.runtime.layout import _arrays_agree, _objects_agree, native_layout
from wengert.runtime.limits import STACK_ARENA_LIMIT
from wengert.runtime.signature import (
    AnySpec,
    ArraySpec,
    CapturedSpec,
    Dim,
    Finish,
    ObjectSpec,
    Ordered,
    ScalarSpec,
    Signature,
    StaticSpec,
)

FALLBACK = "fallback"

pytestmark = pytest.mark.skipif(native_layout() is None, reason="no native entries here")


def floats(*shape, **options):
    return ArraySpec(np.dtype(np.float64), shape, **options)


def fallback(*args, **kwargs):
    return FALLBACK


# Kernels, written as LLVM IR


def copies(*moves):
    """A kernel that copies `nbytes` from buffer `source` to buffer `target`, for each move.

    A source "slot 3" is the slot itself: the length of a dynamic axis. "arena" is the arena.
    """
    lines = []

    def address(place):
        name = f"%v{len(lines)}"
        if place == "arena":
            return "%arena"
        direct = isinstance(place, str)
        index = int(place.removeprefix("slot ")) if direct else place
        lines.append(f"{name} = getelementptr i64, ptr %buffers, i64 {index}")
        if direct:
            return name
        lines.append(f"%v{len(lines)} = load ptr, ptr {name}")
        return f"%v{len(lines) - 1}"

    for source, target, nbytes in moves:
        a, b = address(source), address(target)
        lines.append(f"call void @llvm.memcpy.p0.p0.i64(ptr {b}, ptr {a}, i64 {nbytes}, i1 false)")
    body = "\n".join(lines)
    return f"""
        declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
        define i32 @kernel(ptr %buffers, ptr %arena) {{\n{body}\nret i32 0 }}"""


SQUARES = """
    define i32 @kernel(ptr %buffers, ptr %arena) {
    entry:
      %x = load ptr, ptr %buffers
      %v1 = getelementptr ptr, ptr %buffers, i64 1
      %v = load ptr, ptr %v1
      %g1 = getelementptr ptr, ptr %buffers, i64 2
      %g = load ptr, ptr %g1
      br label %loop
    loop:
      %i = phi i64 [0, %entry], [%i1, %loop]
      %s = phi double [0.0, %entry], [%s1, %loop]
      %p = getelementptr double, ptr %x, i64 %i
      %a = load double, ptr %p
      %a2 = fmul double %a, %a
      %s1 = fadd double %s, %a2
      %d = fadd double %a, %a
      %q = getelementptr double, ptr %g, i64 %i
      store double %d, ptr %q
      %i1 = add i64 %i, 1
      %c = icmp slt i64 %i1, 8
      br i1 %c, label %loop, label %exit
    exit:
      store double %s1, ptr %v
      ret i32 0
    }"""

# Returns what its argument holds; writes nothing.
FAILS = """
    define i32 @kernel(ptr %buffers, ptr %arena) {
      %x = load ptr, ptr %buffers
      %code = load i32, ptr %x
      ret i32 %code
    }"""

# Waits until its argument is not 0, or gives up with code 9 so that a broken test ends.
WAITS = """
    define i32 @kernel(ptr %buffers, ptr %arena) {
    entry:
      %x = load ptr, ptr %buffers
      br label %loop
    loop:
      %i = phi i64 [0, %entry], [%i1, %loop]
      %i1 = add i64 %i, 1
      %seen = load volatile i64, ptr %x
      %go = icmp ne i64 %seen, 0
      %late = icmp ugt i64 %i, 20000000000
      %stop = or i1 %go, %late
      br i1 %stop, label %exit, label %loop
    exit:
      %code = select i1 %go, i32 0, i32 9
      ret i32 %code
    }"""

# Polls for signals as often as its argument says, then returns code 5.
POLLS = """
    define i32 @kernel(ptr %buffers, ptr %arena) {
    entry:
      %x = load ptr, ptr %buffers
      %n = load i64, ptr %x
      br label %loop
    loop:
      %i = phi i64 [0, %entry], [%i1, %loop]
      %i1 = add i64 %i, 1
      %raised = call i32 @wengert.poll()
      %hit = icmp ne i32 %raised, 0
      %late = icmp sge i64 %i1, %n
      %stop = or i1 %hit, %late
      br i1 %stop, label %exit, label %loop
    exit:
      ret i32 5
    }"""


def entry_text(signature, kernel, poll=False):
    module = ir.Module("test")
    assert emit_entry(module, "entry", "kernel", signature)
    if poll:
        emit_poll(module)
    text = str(module)
    (declared,) = (line for line in text.splitlines() if line.startswith('declare i32 @"kernel"'))
    return text.replace(declared, kernel)


def compiled(signature, kernel, poll=False):
    text = entry_text(signature, kernel, poll)
    return compile_module(text, symbols=c_api_addresses())


def make(signature, kernel, *, poll=False, code=None, **options):
    code = code or compiled(signature, kernel, poll)
    addresses = code.address("entry.run"), code.address("entry"), gate_address()
    options.setdefault("fallback", fallback)
    return bind(signature, *addresses, keep_alive=code, **options)


def both(signature, kernel, **options):
    """The entry and its twin in Python."""
    bound = make(signature, kernel, **options)
    assert bound.native and type(bound.call) is type(len)
    return bound.call, bound.slow


SQUARES_SIGNATURE = Signature((floats(8),), (floats(), floats(8)))


@pytest.fixture(scope="module")
def squares():
    return make(SQUARES_SIGNATURE, SQUARES)


# Objects of other classes


class Holder:
    def __init__(self, **attributes):
        vars(self).update(attributes)


class Slotted:
    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x


class Pair(NamedTuple):
    first: object
    second: object


def test_attributes_of_objects_are_arguments():
    spec = ObjectSpec(Holder, ("a", "b"), (ObjectSpec(Slotted, ("x",), (floats(2),)), floats(2)))
    signature = Signature((spec,), (floats(2), floats(2)))
    one, two = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    good = Holder(a=Slotted(one), b=two, more="is not looked at")
    for call in both(signature, copies((0, 2, 16), (1, 3, 16))):
        found = call(good)
        assert np.array_equal(found, [one, two])
        bad = [
            Holder(a=Slotted(one)),
            Holder(a=one, b=two),
            Holder(a=Slotted(None), b=two),
            Slotted(one),
            type("Sub", (Holder,), {})(a=Slotted(one), b=two),
        ]
        for value in bad:
            assert call(value) == FALLBACK


def test_tuples_of_other_classes_are_arguments():
    signature = Signature((ObjectSpec(Pair, None, (floats(1), floats(1))),), floats(1))
    for call in both(signature, copies((1, 2, 8))):
        assert call(Pair(np.array([1.0]), np.array([2.0]))) == 2
        assert call((np.array([1.0]), np.array([2.0]))) == FALLBACK
        assert call(tuple.__new__(Pair, (np.array([1.0]),))) == FALLBACK


def test_whole_objects_have_no_other_attributes():
    mark = object()
    children = (StaticSpec(mark), floats(1), AnySpec())
    signature = Signature((ObjectSpec(Holder, ("mark", "x", "any"), children, True),), floats(1))
    x = np.array([5.0])
    for call in both(signature, copies((0, 1, 8))):
        assert call(Holder(mark=mark, x=x, any=1)) == 5
        assert call(Holder(any=None, x=x, mark=mark)) == 5
        assert call(Holder(mark=object(), x=x, any=1)) == FALLBACK
        assert call(Holder(mark=mark, x=x)) == FALLBACK
        assert call(Holder(mark=mark, x=x, other=1)) == FALLBACK
        assert call(Holder(mark=mark, x=x, any=1, other=1)) == FALLBACK


def test_numbers_order_leaves_and_tie_them():
    spec = ObjectSpec(
        Holder,
        ("a", "b", "c", "d"),
        (floats(1), StaticSpec(None), floats(1), floats(1)),
        numbers=(1, 0, 1),
    )
    signature = Signature((spec,), (floats(1), floats(1)))
    assert len(signature.inputs()) == 2
    one, two = np.array([1.0]), np.array([2.0])
    for call in both(signature, copies((0, 2, 8), (1, 3, 8))):
        assert call(Holder(a=one, b=None, c=two, d=one)) == (2, 1)
        assert call(Holder(a=one, b=None, c=two, d=one.copy())) == FALLBACK
        assert call(Holder(a=one, b=1, c=two, d=one)) == FALLBACK


def test_finish_makes_the_result():
    signature = Signature((floats(1),), (floats(1),), finish=Finish(lambda found: ["done", found]))
    for call in both(signature, copies((0, 1, 8))):
        assert call(np.array([3.0])) == ["done", (3,)]
        assert call(1) == FALLBACK

    def fails(found):
        raise OSError("no")

    signature = Signature((floats(1),), (floats(1),), finish=Finish(fails))
    for call in both(signature, copies((0, 1, 8))):
        with pytest.raises(OSError, match="no"):
            call(np.array([3.0]))


def test_references_to_attributes_are_dropped():
    spec = ObjectSpec(Holder, ("x", "y"), (floats(1), floats(1)), whole=True)
    signature = Signature((spec, ObjectSpec(Slotted, ("x",), (floats(1),))), floats(1))
    call = make(signature, copies((0, 3, 8))).call
    x = np.array([1.0])
    good, bad = (Holder(x=x, y=x), Slotted(x)), (Holder(x=x, y=None), Slotted(x))
    before = sys.getrefcount(x), sys.getrefcount(vars(good[0]))
    for _ in range(100):
        call(*good)
        call(*bad)
    assert (sys.getrefcount(x), sys.getrefcount(vars(good[0]))) == before


# What a good call does


def test_value_and_gradient(squares):
    x = np.arange(8.0)
    for call in (squares.call, squares.slow):
        value, gradient = call(x)
        assert type(value) is np.float64 and value == 140
        assert type(gradient) is np.ndarray and gradient.flags.owndata
        np.testing.assert_array_equal(gradient, 2 * x)


def test_bind_can_be_made_to_use_ctypes():
    forced = make(SQUARES_SIGNATURE, SQUARES, native=False)
    assert not forced.native and forced.call is forced.slow
    assert forced.call(np.ones(8))[0] == 8
    assert forced.call(3) == FALLBACK
    forced.next = lambda x: x + 1
    assert forced.call(3) == 4


def test_out_is_written_and_returned(squares):
    x = np.arange(8.0)
    for call in (squares.call, squares.slow):
        out = (np.zeros(()), np.zeros(8))
        assert call(x, out=out) is out
        assert out[0] == 140
        np.testing.assert_array_equal(out[1], 2 * x)


def test_out_may_be_given_in_part(squares):
    x = np.arange(8.0)
    for call in (squares.call, squares.slow):
        gradient = np.zeros(8)
        result = call(x, out=(None, gradient))
        assert result[0] == 140 and type(result[0]) is np.float64
        assert result[1] is gradient and gradient[3] == 6
        value = np.zeros(())
        result = call(x, out=(value, None))
        assert result[0] is value and value == 140 and result[1][3] == 6
        assert call(x, out=None)[0] == 140


@pytest.mark.parametrize(
    "out",
    [
        np.zeros(8),
        [np.zeros(()), np.zeros(8)],
        (np.zeros(()),),
        (np.zeros(1), np.zeros(8)),
        (np.zeros(()), np.zeros(9)),
        (np.zeros(()), np.zeros(16)[::2]),
        (np.zeros(()), np.zeros(8, np.float32)),
        (np.zeros(()), np.broadcast_to(1.0, 8)),
        (1.0, np.zeros(8)),
    ],
)
def test_out_of_another_kind_is_a_mismatch(squares, out):
    assert squares.call(np.ones(8), out=out) == FALLBACK
    assert squares.slow(np.ones(8), out=out) == FALLBACK


def test_read_only_out_is_a_mismatch(squares):
    frozen = np.zeros(8)
    frozen.flags.writeable = False
    assert squares.call(np.ones(8), out=(None, frozen)) == FALLBACK
    assert not frozen.any()


def test_out_that_overlaps_is_a_mismatch(squares):
    memory = np.ones(20)
    x = memory[4:12]
    for call in (squares.call, squares.slow):
        assert call(x, out=(None, x)) == FALLBACK
        assert call(x, out=(None, memory[:8])) == FALLBACK
        assert call(x, out=(None, memory[11:19])) == FALLBACK
        assert call(x, out=(memory[5:6].reshape(()), None)) == FALLBACK
        assert call(np.ones(8), out=(memory[4:5].reshape(()), memory[:8])) == FALLBACK
        assert call(x, out=(None, memory[12:]))[0] == 8  # touches, does not overlap
        memory[:] = 1


def test_overlap_sees_strides():
    reverse = Signature((floats(4, strides=(-16,)),), floats())
    call, slow = both(reverse, copies((0, 1, 8)))
    memory = np.arange(10.0)
    x = memory[7:0:-2]
    assert call(x) == slow(x) == 7
    for index in range(10):
        out = memory[index : index + 1].reshape(())
        expected = FALLBACK if 1 <= index <= 7 else out
        assert call(x, out=out) is expected
        assert slow(x, out=out) is expected
        memory[:] = np.arange(10.0)


def test_trees():
    tree = {"w": [floats(2), (floats(),)], "b": floats(1)}
    result = {"first": (floats(2), StaticSpec(None)), "rest": [floats(), floats(1)]}
    moves = copies((0, 3, 16), (1, 4, 8), (2, 5, 8))
    w, s, b = np.array([1.0, 2.0]), np.array(3.0), np.array([4.0])
    for call in both(Signature((tree,), result), moves):
        got = call({"w": [w, (s,)], "b": b})
        assert list(got) == ["first", "rest"] and type(got["rest"]) is list
        np.testing.assert_array_equal(got["first"][0], w)
        assert got["first"][1] is None and got["rest"][0] == 3 and got["rest"][1][0] == 4
        out = {"first": (np.zeros(2), None), "rest": [np.zeros(()), np.zeros(1)]}
        assert call({"w": [w, (s,)], "b": b}, out=out) is out
        assert out["rest"][1][0] == 4
        for bad in ({"w": w}, {"v": w, "b": b}, {"w": (w, (s,)), "b": b}, {"w": [w, s], "b": b}):
            assert call(bad) == FALLBACK
        assert call({"w": [w, (s,)], "b": b, "c": b}) == FALLBACK
        assert call({"b": b, "w": [w, (s,)]}) == FALLBACK


def test_dictionaries_in_another_order_than_their_leaves():
    tree = Ordered({"a": floats(1), "b": floats(2)}, ("b", "a"))
    result = Ordered({"c": floats(2), "d": floats(1)}, ("d", "c"))
    a, b, key = np.array([1.0]), np.array([2.0, 3.0]), "".join(["", "b"])
    for call in both(Signature((tree,), result), copies((0, 3, 8), (1, 2, 16))):
        for _ in range(2):
            got = call({key: b, "a": a})
            assert list(got) == ["d", "c"]
            np.testing.assert_array_equal(got["c"], b)
            np.testing.assert_array_equal(got["d"], a)
        assert call({"a": a, "b": b}) == FALLBACK


def test_the_keys_of_dictionaries_may_run_code():
    class Key(str):
        __slots__ = ()

        def __eq__(self, other):
            given.clear()
            return True

        __hash__ = str.__hash__

    tree = {"a": floats(1), "b": floats(1)}
    for call in both(Signature((tree,), (floats(1),)), copies((0, 2, 8))):
        given = {Key("a"): np.ones(1), "b": np.ones(1)}
        assert call(given) == FALLBACK


def test_keywords_in_the_order_that_a_function_sees():
    names = (("x", floats(1)), ("y", floats(1)))
    signature = Signature((), (floats(1), floats(1)), kwargs=names, order=("y", "x"))
    x, y = np.array([1.0]), np.array([2.0])
    for call in both(signature, copies((0, 2, 8), (1, 3, 8))):
        assert call(y=y, x=x) == (1.0, 2.0)
        assert call(x=x, y=y) == FALLBACK


def test_a_keyword_that_is_not_interned_goes_to_the_fallback(squares):
    name = "".join(["o", "ut"])
    assert squares.call(np.ones(8), **{name: None}) == FALLBACK
    assert squares.slow(np.ones(8), **{name: None})[0] == 8


def test_keywords_and_static_arguments():
    mode, same = "a mode", object()
    signature = Signature(
        (floats(1), StaticSpec(mode)),
        (floats(), floats(), StaticSpec(same), StaticSpec(mode)),
        kwargs=(("scale", floats(1)), ("flag", StaticSpec(None))),
    )
    x, y = np.array([1.0]), np.array([2.0])
    for call in both(signature, copies((0, 2, 8), (1, 3, 8))):
        expected = (1.0, 2.0, same, mode)
        assert call(x, mode, scale=y, flag=None) == expected
        assert call(x, mode, flag=None, scale=y) == expected
        out = (np.zeros(()), np.zeros(()), same, mode)
        assert call(x, mode, out=out, flag=None, scale=y) is out
        assert call(x, mode, y, None) == FALLBACK
        assert call(x, mode, scale=y) == FALLBACK
        assert call(x, mode, scale=y, flag=None, other=1) == FALLBACK
        assert call(x, mode, scale=y, flag=False) == FALLBACK
        assert call(x, "another", scale=y, flag=None) == FALLBACK


INTEGERS = (0, 1, -1, 127, 128, -129, 255, 256, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64)
SCALARS = [
    *(("float", dtype, (0.1, -0.0, np.inf, 1e300)) for dtype in "fdFD"),
    *(("int", dtype, INTEGERS) for dtype in "bhilBHILfdFD"),
    *(("bool", dtype, (True, False)) for dtype in "?bBlLfdFD"),
    *(("complex", dtype, (0.1 - 2j,)) for dtype in "FD"),
    *(("numpy", dtype, (np.dtype(dtype).type(1.5),)) for dtype in "?bhilBHILefdFD"),
]


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize(("kind", "dtype", "values"), SCALARS)
def test_scalars(kind, dtype, values):
    dtype = np.dtype(dtype)
    signature = Signature((ScalarSpec(kind, dtype),), ArraySpec(dtype, ()))
    call, slow = both(signature, copies((0, 1, dtype.itemsize)))
    for value in values:
        got, expected = call(value), slow(value)
        if kind == "int" and dtype.kind in "fc" and not -(2**63) <= value < 2**63:
            assert got == FALLBACK  # rare: Python converts it
            continue
        assert type(got) is type(expected)
        assert got is FALLBACK or got.tobytes() == expected.tobytes()
    for other in (1, 1.0, True, 1j, np.float64(1), np.int8(1), np.array(1.0), "1", None):
        assert (call(other) is FALLBACK) == (slow(other) is FALLBACK)


def test_dynamic_axes():
    n = Dim("n")
    signature = Signature(
        (floats(n, 2), floats(None), floats(Dim("n", 2, -1))),
        (floats(n), floats(Dim("n", 1, -1)), *[ArraySpec(np.dtype(np.int64), ())] * 2),
    )
    moves = copies((0, 3, 8), ("slot 7", 5, 8), ("slot 8", 6, 8))
    for call in both(signature, moves):
        for length, other in ((1, 0), (2, 5), (7, 3)):
            x, y, z = np.ones((length, 2)), np.ones(other), np.ones(2 * length - 1)
            result = call(x, y, z)
            assert [np.shape(r) for r in result] == [(length,), (length - 1,), (), ()]
            assert result[2:] == (length, other)
            assert call(x, y, z[1:]) == FALLBACK
        assert call(np.ones((0, 2)), y, np.ones(0)) == FALLBACK


def test_layouts():
    any_layout = Signature((floats(3, 2, strides=(8, 24), aligned=False),), floats())
    call, slow = both(any_layout, copies((0, 1, 8)))
    fortran = np.asfortranarray(np.arange(6.0).reshape(3, 2))
    frozen = fortran.copy("F")
    frozen.flags.writeable = False
    misaligned = np.frombuffer(bytearray(49), np.float64, 6, 1).reshape(2, 3).T
    assert not misaligned.flags.aligned
    for good in (fortran, frozen, misaligned):
        assert call(good) == slow(good) == 0
    for bad in (np.ascontiguousarray(fortran), fortran[::-1], fortran[:2]):
        assert call(bad) == slow(bad) == FALLBACK
    contiguous, slow = both(Signature((floats(2, 3),), floats()), copies((0, 1, 8)))
    for bad in (misaligned.T, np.ones((2, 6))[:, ::2], np.ones((3, 2)).T, np.ones((2, 3))[::-1]):
        assert contiguous(bad) == slow(bad) == FALLBACK


def test_dtypes_are_compared_by_what_they_are(squares):
    x = np.arange(8.0)
    marked = x.view(np.dtype(np.float64, metadata={"unit": "m"}))
    assert marked.dtype is not x.dtype
    assert squares.call(marked)[0] == 140
    for bad in (x.astype(">f8"), x.view(np.int64), x.view("M8[s]"), x.astype(object)):
        assert squares.call(bad) == FALLBACK
    whole = Signature((ArraySpec(np.dtype(np.int64), (1,)),), ArraySpec(np.dtype(np.int64), ()))
    call, slow = both(whole, copies((0, 1, 8)))
    for character in "lq":  # two C types of one size
        if np.dtype(character).itemsize == 8:
            assert call(np.array([5], character)) == slow(np.array([5], character)) == 5


def test_captured_state():
    spec = (CapturedSpec(16, written=True), CapturedSpec(8, written=False))
    signature = Signature((floats(1),), floats(), captured=spec)
    state, read = np.array([1.0, 2.0]), np.array([7.0])
    table = np.array([state.ctypes.data, read.ctypes.data], np.uint64)
    # the result is the state that is read; the argument is added to the state that is written
    bound = make(signature, copies((3, 1, 8), (0, 2, 8)), captured=table)
    for call in (bound.call, bound.slow):
        assert call(np.array([5.0])) == 7 and state[0] == 5
        assert call(state[1:]) == FALLBACK
        assert call(read) == 7 and state[0] == 7
        assert call(read, out=state[1:].reshape(())) == FALLBACK
        table[0] = 0
        assert call(np.array([5.0])) == FALLBACK
        table[0] = state.ctypes.data
    with pytest.raises(ValueError, match="expected a uint64 array of 2 addresses"):
        make(signature, FAILS)


# Chains, errors


def test_fallback_gets_the_call_as_it_came():
    calls = []
    bound = make(SQUARES_SIGNATURE, SQUARES, fallback=lambda *a, **k: calls.append((a, k)))
    first, second = object(), object()
    assert bound.call(first, second, out=first, other=second) is None
    assert calls == [((first, second), {"out": first, "other": second})]


def test_signatures_chain(squares):
    tens = Signature((floats(10),), floats())
    second = make(tens, copies((0, 1, 8)))
    first = make(SQUARES_SIGNATURE, SQUARES, fallback=second.call)
    assert first.call(np.full(8, 2.0))[0] == 32
    assert first.call(np.full(10, 2.0)) == 2
    assert first.call(np.full(11, 2.0)) == FALLBACK
    second.next = len
    assert second.next is len
    assert first.call(np.full(11, 2.0)) == 11


def test_a_ring_of_entries_is_an_error_not_a_crash():
    signature = SQUARES_SIGNATURE.replace(arena_bytes=STACK_ARENA_LIMIT)
    first, second = make(signature, SQUARES), make(signature, SQUARES)
    first.next, second.next = second.call, first.call
    # that of the entry or that of the call, whichever comes first
    with pytest.raises(RecursionError, match=r"(in a compiled call|calling a Python object)$"):
        first.call("junk")
    first.next = fallback


def test_no_fallback_is_an_error():
    bound = make(SQUARES_SIGNATURE, SQUARES, fallback=None)
    for call in (bound.call, bound.slow):
        with pytest.raises(TypeError) as error:
            call(1, 2, 3)
        assert str(error.value) == (
            "compiled call: the arguments match no signature, and there is no fallback"
        )


def test_errors_of_the_fallback_pass_through():
    def refuse(*args, **kwargs):
        raise LookupError("no such thing")

    bound = make(SQUARES_SIGNATURE, SQUARES, fallback=refuse)
    with pytest.raises(LookupError, match="no such thing"):
        bound.call(1)


def test_error_codes():
    signature = Signature(
        (ArraySpec(np.dtype(np.int32), ()),), floats(3), kwargs=(("k", StaticSpec(None)),)
    )
    bound = make(signature, FAILS)
    for call in (bound.call, bound.slow):
        with pytest.raises(RuntimeError, match="the kernel failed with error code 17"):
            call(np.array(17, np.int32), k=None)
        assert call(np.array(0, np.int32), k=None).shape == (3,)
    seen = []
    bound = make(signature, FAILS, on_error=lambda *a, **k: seen.append((a, k)) or "mended")
    x, out = np.array(4, np.int32), np.zeros(3)
    for call in (bound.call, bound.slow):
        assert call(x, k=None, out=out) == "mended"
        ((code, got), names) = seen.pop()
        assert code == 4 and got is x and names == {"k": None, "out": out}


# Signals, threads


@contextlib.contextmanager
def alarm(seconds, handler):
    previous = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX timers")
@pytest.mark.parametrize("release_gil", [False, True])
def test_a_signal_interrupts_a_polling_kernel(release_gil):
    number = ArraySpec(np.dtype(np.int64), ())
    signature = Signature((number,), floats(2), release_gil=release_gil)
    bound = make(signature, POLLS, poll=True)

    def interrupt(*_):
        raise KeyboardInterrupt

    for call in (bound.call, bound.slow):
        with pytest.raises(RuntimeError, match="code 5"):
            call(np.array(3))
        with alarm(0.05, interrupt), pytest.raises(KeyboardInterrupt):
            call(np.array(10**10))
        handled = []
        with alarm(
            0.05, lambda *_, seen=handled: seen.append(1)
        ):  # a handler that returns stops nothing
            for _ in range(1000):
                with pytest.raises(RuntimeError, match="code 5"):
                    call(np.array(20_000))
                if handled:
                    break
        assert handled == [1]


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs POSIX threads")
def test_ctrl_c_from_another_thread():
    number = ArraySpec(np.dtype(np.int64), ())
    bound = make(Signature((number,), (), release_gil=True), POLLS, poll=True)
    main = threading.get_ident()
    timer = threading.Timer(0.05, lambda: signal.pthread_kill(main, signal.SIGINT))
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            bound.call(np.array(10**10))
    finally:
        timer.join()
        signal.signal(signal.SIGINT, previous)


def test_polling_outside_the_main_thread_is_harmless():
    number = ArraySpec(np.dtype(np.int64), ())
    bound = make(
        Signature((number,), (), release_gil=True), POLLS, poll=True, on_error=lambda *_: "done"
    )
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(bound.call(np.array(100)))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == ["done"] * 3


NUMBER = ArraySpec(np.dtype(np.int64), (1,))


def test_the_gil_is_released():
    bound = make(Signature((NUMBER,), (), release_gil=True), WAITS)
    for call in (bound.call, bound.slow):
        flag = np.zeros(1, np.int64)
        timer = threading.Timer(0.02, lambda flag=flag: flag.fill(1))
        timer.start()
        assert call(flag) == ()
        timer.join()


def test_a_list_changed_by_another_thread_keeps_its_arrays():
    bound = make(Signature(([NUMBER, floats(8)],), floats(8), release_gil=True), WAITS)
    flag, freed = np.zeros(1, np.int64), []

    class Watched:
        def __init__(self, memory):
            self.__array_interface__ = memory.__array_interface__
            self.memory = memory

        def __del__(self):
            freed.append(True)

    arguments = [flag, np.asarray(Watched(np.ones(8)))]

    def empty_the_list():
        arguments.clear()
        freed.append(len(freed))
        flag.fill(1)

    timer = threading.Timer(0.02, empty_the_list)
    timer.start()
    assert bound.call(arguments).shape == (8,)
    timer.join()
    assert freed == [0, True]  # freed, but after the kernel


def test_a_taken_arena_is_a_mismatch():
    signature = Signature((NUMBER,), (), arena_bytes=STACK_ARENA_LIMIT + 1, release_gil=True)
    arena = Arena(signature.arena_bytes)
    bound = make(signature, WAITS, arena=arena)
    flag, results = np.zeros(1, np.int64), []
    waiting = threading.Thread(target=lambda: results.append(bound.call(flag)))
    waiting.start()
    while not arena.locked:
        time.sleep(0.001)
    ready = np.ones(1, np.int64)
    assert bound.call(ready) == FALLBACK
    bound.next = bound.slow
    assert bound.call(ready) == ()
    if hasattr(os, "fork"):
        _free_arenas_after_fork()  # what runs in a child, where the other thread is gone
        assert not arena.locked
    flag.fill(1)
    waiting.join()
    assert results == [()] and not arena.locked


@pytest.mark.parametrize("nbytes", [STACK_ARENA_LIMIT, 4 * STACK_ARENA_LIMIT])
def test_threads_do_not_share_an_arena(nbytes):
    spec = ArraySpec(np.dtype(np.uint8), (nbytes,))
    signature = Signature((spec,), spec, arena_bytes=nbytes, release_gil=True)
    moves = [(0, "arena", nbytes), ("arena", 1, nbytes)] * 4
    bound = make(signature, copies(*moves))
    bound.next = bound.slow
    wrong = []

    def work(value):
        x = np.full(nbytes, value, np.uint8)
        for _ in range(300):
            if not np.array_equal(bound.call(x), x):
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_failing_kernel_gives_the_arena_back():
    spec = ArraySpec(np.dtype(np.int32), ())
    arena = Arena(STACK_ARENA_LIMIT + 1)
    bound = make(Signature((spec,), (), arena_bytes=arena.nbytes), FAILS, arena=arena)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="code 3"):
            bound.call(np.array(3, np.int32))
        assert not arena.locked


def test_no_memory_for_the_result():
    huge = Signature((floats(Dim("n")),), floats(Dim("n", 2**40)), arena_bytes=10**6)
    arena = Arena(huge.arena_bytes)
    bound = make(huge, FAILS, arena=arena)
    for length in (100, 2**20):
        with pytest.raises((MemoryError, ValueError)):
            bound.call(np.ones(length))
        assert not arena.locked


# Bad calls


class Sub(np.ndarray):
    pass


class Evil:
    """A key that is equal to nothing and empties the dictionary when asked."""

    def __init__(self, name, victim):
        self.name, self.victim = name, victim

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        self.victim.clear()
        raise ValueError("not to be compared")


def test_keys_that_change_the_dictionary():
    signature = Signature(([{"a": floats(1), "b": floats(1)}, floats(1)],), floats())
    bound = make(signature, copies((0, 3, 8)))
    for name in "ab":
        for call in (bound.call, bound.slow):
            outer = [mapping := {}, np.ones(1)]
            for key in "ab":
                mapping[Evil(key, outer) if key == name else key] = np.ones(1)
            assert call(outer) == FALLBACK
            assert outer == []


def junk(rng, depth=0):
    makers = [
        lambda: None,
        lambda: rng.choice([0, 1, -1, 2**62, 2**64, -(2**200), 10**400]),
        lambda: rng.choice([0.5, float("nan"), 1j, True, "x", b"x", ..., int, len, {1, 2}]),
        lambda: rng.choice([np.float64(1), np.float32(1), np.int64(1), np.bool_(True)]),
        lambda: np.ones(rng.choice([0, 1, 3, 4, 5])),
        lambda: np.ones((rng.choice([0, 1, 4]), rng.choice([1, 2, 3]))),
        lambda: np.ones(4, rng.choice("?bBhilLefFDgOSUM")[0].replace("M", "d")),
        lambda: np.ones(4).astype(">f8"),
        lambda: np.ones(8)[::2],
        lambda: np.ones(4)[::-1],
        lambda: np.ones(4).view(Sub),
        lambda: np.ma.masked_array([1.0, 2.0, 3.0, 4.0]),
        lambda: np.frombuffer(bytearray(33), np.float64, 4, 1),
        lambda: np.broadcast_to(1.0, 4),
        lambda: np.zeros(4, [("a", "f8")]),
        lambda: np.lib.stride_tricks.as_strided(np.ones(4), (4,), (0,)),
        object,
    ]
    nested = [
        lambda: [junk(rng, depth + 1) for _ in range(rng.randrange(4))],
        lambda: tuple(junk(rng, depth + 1) for _ in range(rng.randrange(4))),
        lambda: {rng.choice(["w", "b", 1, None]): junk(rng, depth + 1) for _ in range(3)},
    ]
    return rng.choice(makers + nested if depth < 3 else makers)()


def spoiled(rng, value):
    """A copy of `value` with one part of it, at random, replaced by junk."""
    if rng.random() < 0.3 or not isinstance(value, dict | list | tuple) or not value:
        return junk(rng)
    if isinstance(value, dict):
        key = rng.choice(list(value))
        if rng.random() < 0.3:
            return {k if k != key else junk_key(rng): v for k, v in value.items()}
        return {**value, key: spoiled(rng, value[key])}
    index = rng.randrange(len(value))
    return type(value)(spoiled(rng, v) if i == index else v for i, v in enumerate(value))


def junk_key(rng):
    return rng.choice(["w ", "out", 3, None, (1, 2), "x" * 50, np.float64(3)])


def test_random_bad_calls():
    tree = {"w": [floats(4), (floats(4), ScalarSpec("int", np.dtype(np.int32)))]}
    signature = Signature(
        (floats(4), tree, ScalarSpec("float", np.dtype(np.float32))),
        {"loss": floats(), "grads": [floats(4), (floats(4),)]},
        kwargs=(("k", floats(None)),),
    )
    call, slow = both(signature, copies((0, 6, 8), (1, 7, 32), (2, 8, 32)))
    rng = random.Random(0)
    outcomes = {True: 0, False: 0}
    while outcomes[False] < 10_000:
        args = [np.ones(4), {"w": [np.ones(4), (np.ones(4), 3)]}, 2.0]
        kwargs = {"k": np.ones(rng.randrange(3))}
        if rng.random() < 0.5:
            kwargs["out"] = {"loss": np.zeros(()), "grads": [np.zeros(4), (np.zeros(4),)]}
        for _ in range(rng.choice([0, 1, 1, 1, 1, 1, 1, 1, 1, 2])):
            spoil(rng, args, kwargs)
        got, expected = call(*args, **kwargs), slow(*args, **kwargs)
        matched = got is not FALLBACK
        assert matched == (expected is not FALLBACK), (args, kwargs)
        outcomes[matched] += 1
    assert outcomes[True] >= 1_000  # the good calls among them work all the while


def spoil(rng, args, kwargs):
    what = rng.randrange(8)
    if what == 0:
        args.insert(rng.randrange(len(args) + 1), junk(rng))
    elif what == 1 and args:
        args.pop(rng.randrange(len(args)))
    elif what == 2:
        kwargs[rng.choice(["out", "k", "other"])] = junk(rng)
    elif what == 3:
        kwargs.pop("k", None)
    elif what == 4 and "out" in kwargs:
        kwargs["out"] = spoiled(rng, kwargs["out"])
    elif args:
        index = rng.randrange(len(args))
        args[index] = spoiled(rng, args[index])


# References and bytes


def test_no_reference_is_lost_or_leaked():
    tree = {"w": [floats(4), (floats(4),)]}
    key = StaticSpec(object())
    signature = Signature((tree,), {"a": [floats(4), (floats(4),), key], "b": floats()})
    call, _ = both(signature, copies((0, 2, 32), (1, 3, 32)))
    x, y = np.ones(4), np.ones(4)
    good, bad = {"w": [x, (y,)]}, {"w": [x, (3,)]}
    out = {"a": [np.zeros(4), (np.zeros(4),), key.value], "b": np.zeros(())}
    part = {"a": [out["a"][0], (None,), key.value], "b": None}
    watched = [x, y, good["w"], good["w"][1], bad["w"], out, out["a"], out["a"][0], key.value]
    watched += [np.ndarray, np.dtype(np.float64), call, call.__self__, fallback]
    gc.collect()
    counted = lambda items: [sys.getrefcount(item) for item in items]
    before = counted(watched)
    for _ in range(500):
        call(good)
        call(good, out=out)
        call(good, out=part)
        call(bad)
        call(good, out=bad)
    result = call(good)
    fresh = [result, result["a"], result["a"][0], result["a"][1], result["b"]]
    other = [object()]  # held by its name or container and by a list of its own, as each of these
    assert counted(fresh) == 5 * counted([other[0]])
    del result, fresh
    assert counted(watched) == before


def test_a_program_is_freed_with_its_last_callable():
    owner = np.zeros(1)
    code = compiled(SQUARES_SIGNATURE, SQUARES)
    addresses = code.address("entry.run"), code.address("entry"), gate_address()
    before = sys.getrefcount(owner)
    call = bind(SQUARES_SIGNATURE, *addresses, keep_alive=(owner, code)).call
    del code
    gc.collect()
    assert sys.getrefcount(owner) > before
    assert call(np.ones(8))[0] == 8
    del call
    gc.collect()
    assert sys.getrefcount(owner) == before


def test_a_fallback_that_knows_its_program_is_no_leak():
    class Jitted:
        def compile_anew(self, *args):
            return "anew"

    jitted = Jitted()
    jitted.bound = make(SQUARES_SIGNATURE, SQUARES, fallback=jitted.compile_anew)
    assert jitted.bound.call(1) == "anew"
    watch = weakref.ref(jitted)
    del jitted
    gc.collect()
    assert watch() is None


def traced_bytes(call, x, out, times):
    """What is left allocated after that many calls, and the most there was meanwhile."""
    loop = itertools.repeat(None, times)
    tracemalloc.start()
    try:
        for _ in loop:
            call(x, out=out)
        return tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()


def test_out_allocates_nothing(squares):
    x, out = np.ones(8), (np.zeros(()), np.zeros(8))
    traced_bytes(squares.call, x, out, 1000)  # lets the interpreter specialise the loop
    assert traced_bytes(squares.call, x, out, 10_000) == (0, 0)
    assert traced_bytes(squares.call, x, None, 10)[1] >= 64  # a result would be seen


# Code that travels


def test_generated_code_holds_no_address():
    signature = Signature(({"w": floats(4)}, StaticSpec(object())), (floats(),), release_gil=True)
    text = entry_text(signature, copies((0, 1, 8)), poll=True)
    assert "inttoptr" not in text
    assert str(id(np.ndarray)) not in text
    again = Signature(({"w": floats(4)}, StaticSpec(object())), (floats(),), release_gil=True)
    assert entry_text(again, copies((0, 1, 8)), poll=True) == text


LOADER = """
import sys
import numpy as np
from wengert.codegen.compile import load_image
from wengert.codegen.gate import gate_address
from wengert.runtime.builtin import bind, c_api_addresses
from wengert.runtime.signature import ArraySpec, Signature

spec = ArraySpec(np.dtype(np.float64), (8,))
signature = Signature((spec,), (ArraySpec(np.dtype(np.float64), ()), spec))
code = load_image(open(sys.argv[1], "rb").read(), symbols=c_api_addresses())
addresses = code.address("entry.run"), code.address("entry"), gate_address()
call = bind(signature, *addresses, fallback=lambda x: "fallback", keep_alive=code).call
print(type(call).__name__, call(np.arange(8.0))[0], call(1))
"""


def test_object_code_runs_in_another_process(tmp_path):
    path = tmp_path / "image"
    path.write_bytes(compiled(SQUARES_SIGNATURE, SQUARES).image)
    command = [sys.executable, "-c", LOADER, str(path)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["builtin_function_or_method", "140.0", "fallback"]


def test_layout_is_tried_not_assumed():
    layout = native_layout()
    for field in dataclasses.fields(layout):
        wrong = dataclasses.replace(layout, **{field.name: getattr(layout, field.name) + 8})
        if field.name in ("dtype_byteorder", "dtype_number"):
            wrong = dataclasses.replace(layout, **{field.name: getattr(layout, field.name) - 1})
        if field.name == "list_items":
            continue  # one word on is the length of the allocation: no address to follow
        assert not (_objects_agree(wrong) and _arrays_agree(wrong)), field.name


def test_without_a_layout_only_the_kernel_is_emitted(monkeypatch):
    monkeypatch.setattr("wengert.codegen.entry.native_layout", lambda: None)
    module = ir.Module("test")
    assert not emit_entry(module, "entry", "kernel", SQUARES_SIGNATURE)
    assert "entry.run" in module.globals and "entry" not in module.globals


@pytest.mark.parametrize(
    ("make_one", "message"),
    [
        (lambda: ArraySpec(np.dtype(object), ()), "expected a native bool, integer"),
        (lambda: ArraySpec(np.dtype(">f8"), ()), "expected a native bool, integer"),
        (lambda: floats(2, strides=(8, 8)), "got 2 strides for 1 axes"),
        (lambda: ScalarSpec("str", np.dtype(float)), "got kind 'str'"),
        (lambda: ScalarSpec("float", np.dtype(int)), "a Python float is not converted to int64"),
        (lambda: Signature((), floats(None)), "whose length no argument gives"),
        (lambda: Signature((), floats(Dim("n"))), "whose length no argument gives"),
        (lambda: Signature((floats(Dim("n", 2)),), ()), r"make it Dim\('n'\)"),
        (lambda: Signature((), floats(1, aligned=False)), "must be C-contiguous and aligned"),
        (lambda: Signature((), (), kwargs=(("out", floats()),)), "'out'; that name is kept"),
        (lambda: Signature((), ScalarSpec("int", np.dtype(int))), r"use ArraySpec\(dtype, \(\)\)"),
    ],
)
def test_bad_descriptions(make_one, message):
    with pytest.raises(ValueError, match=message):
        make_one()


def test_trees_hold_leaves_only():
    with pytest.raises(TypeError, match="got 3 in a tree"):
        Signature((3,), ())


@pytest.mark.timing
def test_overhead(squares):
    """At most 0.3 us a call for a value and a gradient of 8 numbers, 0.1 us with `out`."""
    names = {"f": squares.call, "x": np.ones(8), "out": (np.zeros(()), np.zeros(8))}

    def microseconds(statement):
        return min(timeit.repeat(statement, globals=names, number=20_000, repeat=20)) / 0.02

    assert microseconds("f(x)") <= 0.3
    assert microseconds("f(x, out=out)") <= 0.1


def large_copy():
    """A program that copies a large array, and so makes a large result."""
    from wengert.jit import jit

    copy = jit(lambda x: x + 1.0)
    copy(np.zeros(1 << 18))  # the first call compiles, and runs outside the entry
    return copy


def test_a_large_result_that_nobody_holds_is_used_again():
    copy, x = large_copy(), np.zeros(1 << 18)
    first = copy(x)
    address = first.ctypes.data
    second = copy(x)
    assert second.ctypes.data != address  # the first is still held
    del first
    assert copy(x).ctypes.data == address


def test_a_large_result_that_a_view_or_weakref_sees_is_left_alone():
    import weakref

    copy, x = large_copy(), np.zeros(1 << 18)
    kept = copy(x)[5:]
    watched = copy(x)
    reference = weakref.ref(watched)
    address = watched.ctypes.data
    del watched
    new = copy(x + 1)
    assert kept[0] == 1.0
    assert new.ctypes.data != address or reference() is None


def test_a_result_that_was_reshaped_or_locked_is_not_used_again():
    copy, x = large_copy(), np.zeros(1 << 18)
    reshape = lambda a: a.resize((1 << 9, 1 << 9), refcheck=False)  # in place
    for spoil in (reshape, lambda a: a.setflags(write=False)):
        result = copy(x)
        spoil(result)
        del result
        again = copy(x)
        assert again.shape == x.shape
        assert again.flags.writeable
        np.testing.assert_array_equal(again, 1.0)
