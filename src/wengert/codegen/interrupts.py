"""Ctrl-C in the middle of a compiled call.

Python's own handler only notes that a signal came; what it means is decided when the main thread
asks, holding the GIL. So native code that runs for long has to ask now and then, and it does so in
three steps, each much rarer than the one before:

- loops, tasks and the gaps between kernels call `wengert.watch`, about every 10 to 1000
  microseconds, a distance that the generator estimates from the cost of the loops;
- `watch` looks at the clock, and goes on only if `INTERVAL` has passed, and only in the thread that
  made the call (others merely see whether that one has found something);
- `wengert.poll` takes the GIL and lets Python run its handlers. If one raises, the *watch* is
  marked as stopped; all threads leave their loops, the kernel returns `INTERRUPTED`, and the entry
  passes the exception on.

A watch lives on the stack of the call: when it may ask next, whether it has stopped, and the thread
that asks. Short programs have none; see `LoopProgram.watched`.
"""

from __future__ import annotations

import time

from llvmlite import ir

from .llvm_types import declare
from .objects import C_LONG, I1, I32, I64, NULL, POLL, PTR, c_function, constant

WATCH = "wengert.watch"
INTERVAL = 50_000_000  # nanoseconds
INTERRUPTED = -2  # the kernel's code; an exception is set
_DUE, _STOPPED, _THREAD = range(3)


def emit_poll(module: ir.Module) -> ir.Function:
    """Add `i32 wengert.poll()`, which is not 0 when the handler of a signal raised an exception.

    The kernel must then return, and not 0; the entry passes the exception on. Works with and
    without the GIL, in any thread; only Python's main thread sees signals. It takes the GIL, so a
    kernel should poll about every 50 ms and not in inner loops.
    """
    poll = module.globals.get(POLL) or ir.Function(module, ir.FunctionType(I32, []), POLL)
    if not poll.is_declaration:
        return poll
    poll.linkage = "linkonce_odr"
    b = ir.IRBuilder(poll.append_basic_block())
    state = b.call(c_function(module, "PyGILState_Ensure"), [])
    raised_before = b.icmp_unsigned("!=", b.call(c_function(module, "PyErr_Occurred"), []), NULL)
    answer = b.alloca(I32)
    b.store(constant(1, I32), answer)
    with b.if_then(b.not_(raised_before)):  # a handler must not run over an exception
        raised = b.call(c_function(module, "PyErr_CheckSignals"), [])
        b.store(b.zext(b.icmp_signed("!=", raised, constant(0, I32)), I32), answer)
    b.call(c_function(module, "PyGILState_Release"), [state])
    b.ret(b.load(answer, typ=I32))
    return poll


def start_watch(builder: ir.IRBuilder) -> ir.Value:
    """A new watch on the stack, of the thread that runs this."""
    watch = builder.alloca(I64, size=constant(3))
    watch.align, watch.type = 8, PTR
    due = builder.add(_now(builder), constant(INTERVAL))
    for place, value in ((_DUE, due), (_STOPPED, constant(0)), (_THREAD, _thread(builder))):
        builder.store(value, _field(builder, watch, place))
    return watch


def leave_if_stopped(
    builder: ir.IRBuilder, watch: ir.Value, every: tuple[ir.Value, int] | None = None
) -> None:
    """Return from a function when the call is to end.

    `every` is a counter and a power of two: this happens only at multiples of it.
    """
    if every is None or every[1] == 1:
        with builder.if_then(stopped(builder, watch), likely=False):
            leave(builder)
        return
    counter, period = every
    turn = builder.and_(counter, constant(period - 1))
    with builder.if_then(builder.icmp_unsigned("==", turn, constant(0)), likely=False):
        leave_if_stopped(builder, watch)


def leave(builder: ir.IRBuilder) -> None:
    """Return from a function, without an error code if it has one."""
    result = builder.function.function_type.return_type
    if isinstance(result, ir.VoidType):
        builder.ret_void()
    else:
        builder.ret(ir.Constant(result, 0))


def stopped(builder: ir.IRBuilder, watch: ir.Value) -> ir.Value:
    """Whether the call is to end."""
    return builder.call(emit_watch(builder.module), [watch])


def emit_watch(module: ir.Module) -> ir.Function:
    """Add `i1 wengert.watch(ptr watch)`; see the module."""
    function = declare(module, WATCH, ir.FunctionType(I1, [PTR]))
    if not function.is_declaration:
        return function
    function.linkage = "internal"
    (watch,) = function.args
    b = ir.IRBuilder(function.append_basic_block())
    flag = _field(b, watch, _STOPPED)
    with b.if_then(
        b.icmp_unsigned("!=", b.load_atomic(flag, "monotonic", 8, typ=I64), constant(0))
    ):
        b.ret(constant(1, I1))
    owner = b.load(_field(b, watch, _THREAD), typ=I64)
    with b.if_then(b.icmp_unsigned("!=", owner, _thread(b))):
        b.ret(constant(0, I1))
    due = _field(b, watch, _DUE)
    with b.if_then(b.icmp_signed("<", _now(b), b.load(due, typ=I64)), likely=True):
        b.ret(constant(0, I1))
    raised = b.icmp_signed("!=", b.call(emit_poll(module), []), constant(0, I32))
    b.atomic_rmw("xchg", flag, b.zext(raised, I64), "monotonic")
    # from now on, not from when it was due: taking the GIL may have taken a while
    b.store(b.add(_now(b), constant(INTERVAL)), due)
    b.ret(raised)
    return function


def _field(builder: ir.IRBuilder, watch: ir.Value, place: int) -> ir.Value:
    return builder.gep(watch, [constant(place)], source_etype=I64)


def _thread(builder: ir.IRBuilder) -> ir.Value:
    ident = builder.call(c_function(builder.module, "PyThread_get_thread_ident"), [])
    return ident if C_LONG == I64 else builder.zext(ident, I64)


def _now(builder: ir.IRBuilder) -> ir.Value:
    """A clock in nanoseconds."""
    module = builder.module
    if "windows" in module.triple:
        ticks = declare(module, "GetTickCount64", ir.FunctionType(I64, []))
        return builder.mul(builder.call(ticks, []), constant(1_000_000))
    kind = ir.FunctionType(I32, [I32, PTR])
    with builder.goto_entry_block():
        moment = builder.alloca(I64, size=constant(2))
        moment.align, moment.type = 8, PTR
    clock = declare(module, "clock_gettime", kind)
    builder.call(clock, [constant(getattr(time, "CLOCK_MONOTONIC", 1), I32), moment])
    seconds, rest = (builder.load(_field(builder, moment, k), typ=I64) for k in range(2))
    return builder.add(builder.mul(seconds, constant(1_000_000_000)), rest)
