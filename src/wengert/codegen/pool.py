"""The thread pool of generated code, itself generated.

`wengert_parallel_for(task, context, n)` calls `task(context, index, worker)` for every index below
n, on several threads, and returns when all are done. Callers cut work into tasks by index alone, so
what is computed does not depend on how many threads there are or which of them takes a task;
`worker` (below the number of threads, different for tasks that run at the same time in one call)
is for scratch memory only.

How it works. A job is published by one atomic word, the *state*: a number that grows with each job,
an *open* bit, and the count of workers inside. A worker that sees an open job it has not met adds
itself to the count, claims indices from a shared counter until none is left, and subtracts itself;
of at most 64, which are bits of one word, it first claims the one with its own number.
The caller does the same work, then clears the open bit and waits for the count to reach zero. So it
waits only for workers that took part: one that the system has not yet woken cannot delay anybody.

Some tasks leave parts of a result that are merged in order: by `wengert_await_slot` a task waits
until its part of the memory is free again, and `wengert_merge_in_order` merges what is finished and
next in order, by whoever comes by: each piece of the result by one worker at a time, several pieces
by several. So a slow worker holds up nobody for as many tasks as there are slots; tasks beyond
those are claimed in order: whoever waits does so for somebody who works.

Idle workers spin for a moment, since the next job of a training step follows within microseconds,
and then sleep, each on a condition variable of its own: a job of few tasks is for as many workers,
the same each time, and wakes no others. Threads are created when a job first needs them. One job
runs at a time; a call that finds the pool busy (from another Python thread, or from inside a task)
runs its tasks itself. After a fork the child notices that it is another process and starts anew.
Two things a task must not do: fork, and wait for Python's global lock while its caller holds it.

At exit nothing is stopped: sleeping threads end with the process, whereas joining them could hang.
"""

from __future__ import annotations

import ctypes
import signal
import string
import threading
import time
from typing import Any

from ..policy import Record
from ..runtime import threads
from .cache import ObjectCache
from .compile import Compiled, add_symbol, compile_here
from .target import Target

MAX_THREADS = 1024
PARALLEL_FOR = "wengert_parallel_for"
PARALLEL_FOR_LIMITED = "wengert_parallel_for_limited"
PARALLEL_FOR_WATCHED = "wengert_parallel_for_watched"
AWAIT_SLOT = "wengert_await_slot"
MERGE_IN_ORDER = "wengert_merge_in_order"
ENTRIES = (
    PARALLEL_FOR,
    PARALLEL_FOR_LIMITED,
    PARALLEL_FOR_WATCHED,
    AWAIT_SLOT,
    MERGE_IN_ORDER,
)
# The state of merging in order: for each piece how many turns are merged, and a lock; then for each
# slot one more than the last turn that is finished there. Bytes of a piece, to its lock, of a slot.
MERGE_PIECE, MERGE_LOCK, MERGE_SLOT = 128, 64, 8
DECLARATIONS = f"""
declare void @{PARALLEL_FOR}(ptr, ptr, i64)
declare void @{PARALLEL_FOR_LIMITED}(ptr, ptr, i64, i64)
declare void @{PARALLEL_FOR_WATCHED}(ptr, ptr, i64, i64, ptr, ptr)
declare void @{AWAIT_SLOT}(ptr, i64, i64, i64)
declare void @{MERGE_IN_ORDER}(ptr, i64, i64, i64, ptr, ptr)
"""

_STACK_BYTES = 8 << 20  # secondary threads get half a megabyte on some systems
_OPEN = 1 << 16  # the state: job number << 17 | open << 16 | workers inside
_COUNT = _OPEN - 1
_WAIT_NANOSECONDS = 50_000_000
_PATIENCE = 64  # steps until a worker looks whether those whom a job is for have come: microseconds


class Pool(Record, kw_only=False):
    """Addresses of the process's pool; the code they point to is never unloaded."""

    parallel_for: int
    parallel_for_limited: int
    parallel_for_watched: int
    configure: int
    trim: int
    started: int


_pool: Pool | None = None
_pool_code: Compiled | None = None
_load_lock = threading.Lock()


def load(cache: ObjectCache | None = None) -> Pool:
    """Return the process's pool, compiling it (or taking it from `cache`) on the first call.

    It also registers its `ENTRIES` for other modules, and `DECLARATIONS` declares them:
    `wengert_parallel_for` (task, context, count), `wengert_parallel_for_limited` (the same and an
    upper bound of the worker index) and `wengert_parallel_for_watched` (the same, a function and
    its argument: it is called, about every 50 ms, while the caller waits for the last workers);
    `wengert_await_slot` (state, turn, slots, pieces), and `wengert_merge_in_order` (the same, a
    task that merges a piece of what is in a slot, and its context).
    """
    global _pool, _pool_code
    with _load_lock:
        if _pool is None:
            code = compile_here(pool_ir, cache=cache, level=0)
            pool = Pool(
                parallel_for=code.address(PARALLEL_FOR),
                parallel_for_limited=code.address(PARALLEL_FOR_LIMITED),
                parallel_for_watched=code.address(PARALLEL_FOR_WATCHED),
                configure=code.address("wengert_pool_configure"),
                trim=code.address("wengert_pool_trim"),
                started=code.address("wengert_pool_started"),
            )
            for name in ENTRIES:
                add_symbol(name, code.address(name))
            # Threads run in this code until the process ends: it must survive even the
            # interpreter's own clearing of modules.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
            _pool, _pool_code = pool, code
            threads.attach(pool)
    return _pool


def pool_ir(target: Target) -> str:
    """Return the pool as LLVM IR text for `target`'s system."""
    if "windows" in target.triple:  # no POSIX threads: every call runs its own tasks
        text = _INLINE + _MERGING + _INLINE_ONLY_ENTRIES
    else:
        text = _GLOBALS + _INLINE + _CLAIM + _WAITING + _AWAITING + _MERGING
        text += _WORKER + _RESIZING + _ENTRIES
    return string.Template(text).substitute(_values(target))


def relaxing(target: Target) -> tuple[str, tuple[int, ...]]:
    """What one who looks again and again calls in between, with its arguments."""
    known: dict[str, tuple[str, tuple[int, ...]]] = {
        "x86_64": ("llvm.x86.sse2.pause", ()),
        "aarch64": ("llvm.aarch64.isb", (15,)),
    }
    return known.get(target.architecture, ("llvm.donothing", ()))


def _values(target: Target) -> dict[str, Any]:
    relax, arguments = relaxing(target)
    faults = [name for name in ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL") if hasattr(signal, name)]
    keep_faults = "\n".join(
        f"  %ignored.{name} = call i32 @sigdelset(ptr %blocked, i32 {int(getattr(signal, name))})"
        for name in faults
    )
    return {
        "RELAX_DECLARATION": f"declare void @{relax}({', '.join('i32' for _ in arguments)})",
        "RELAX": f"call void @{relax}({', '.join(f'i32 {one}' for one in arguments)})",
        "MAX_THREADS": MAX_THREADS,
        "STACK_BYTES": _STACK_BYTES,
        "NOT_OPEN": ~_OPEN,
        "OPEN_OR_COUNT": _OPEN | _COUNT,
        "OPEN": _OPEN,
        "COUNT": _COUNT,
        "KEEP_FAULTS": keep_faults,
        "SIG_SETMASK": int(getattr(signal, "SIG_SETMASK", 0)),  # there is none without POSIX
        "CLOCK_REALTIME": int(getattr(time, "CLOCK_REALTIME", 0)),
        "WAIT_NANOSECONDS": _WAIT_NANOSECONDS,
        "PATIENCE": _PATIENCE,
        "MERGE_LOCK": MERGE_LOCK,
        "MERGE_PIECE": MERGE_PIECE,
    }


# Words that different threads write have cache lines (pairs of them, as they are fetched) of their
# own. Storage of the system's opaque types is larger than on any system we know.
_GLOBALS = """
@state = internal global { i64, [120 x i8] } zeroinitializer, align 128
@next = internal global { i64, [120 x i8] } zeroinitializer, align 128
@claims = internal global { i64, [120 x i8] } zeroinitializer, align 128
@busy = internal global { i32, [124 x i8] } zeroinitializer, align 128
@sleepers = internal global { i32, [124 x i8] } zeroinitializer, align 128
@waiting = internal global { i32, [124 x i8] } zeroinitializer, align 128

@job.task = internal global ptr null, align 128
@job.context = internal global ptr null
@job.n = internal global i64 0
@job.workers = internal global i64 0
@job.limit = internal global i64 0

@wanted = internal global i32 1, align 128
@spins = internal global i32 0
@keep = internal global i32 1
@running = internal global i32 0
@owner = internal global i32 0

@idle.mutex = internal global [256 x i8] zeroinitializer, align 128
@idle.wake = internal global [$MAX_THREADS x [128 x i8]] zeroinitializer, align 128
@is.asleep = internal global [$MAX_THREADS x i32] zeroinitializer, align 128
@done.mutex = internal global [256 x i8] zeroinitializer, align 128
@done.wake = internal global [256 x i8] zeroinitializer, align 128
@threads = internal global [$MAX_THREADS x i64] zeroinitializer

declare i32 @getpid()
declare i32 @sched_yield()
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sigdelset(ptr, i32)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_timedwait(ptr, ptr, ptr)
declare i32 @clock_gettime(i32, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.cttz.i64(i64, i1)
$RELAX_DECLARATION
"""

_INLINE = """
; Every task, here and in order.
define internal void @run_inline(ptr %task, ptr %context, i64 %n) {
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %following, %loop ]
  call void %task(ptr %context, i64 %i, i64 0)
  %following = add i64 %i, 1
  %more = icmp slt i64 %following, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""

_CLAIM = """
; Take tasks until none is left: of few tasks first the one with the worker's own number, so that
; what it works on is in its cache if it worked on it before.
define internal void @run_claimed(ptr %task, ptr %context, i64 %n, i64 %worker) {
entry:
  %few = icmp sle i64 %n, 64
  br i1 %few, label %own, label %claim
own:
  %beyond = icmp sge i64 %worker, %n
  br i1 %beyond, label %free, label %take
free:
  %taken = load atomic i64, ptr @claims monotonic, align 8
  %left = xor i64 %taken, -1
  %lowest = call i64 @llvm.cttz.i64(i64 %left, i1 false)
  %some = icmp slt i64 %lowest, %n
  br i1 %some, label %take, label %done
take:
  %j = phi i64 [ %worker, %own ], [ %lowest, %free ]
  %bit = shl i64 1, %j
  %before = atomicrmw or ptr @claims, i64 %bit monotonic
  %others = and i64 %before, %bit
  %won = icmp eq i64 %others, 0
  br i1 %won, label %run.own, label %free
run.own:
  call void %task(ptr %context, i64 %j, i64 %worker)
  br label %free
claim:
  %i = atomicrmw add ptr @next, i64 1 monotonic
  %mine = icmp slt i64 %i, %n
  br i1 %mine, label %run, label %done
run:
  call void %task(ptr %context, i64 %i, i64 %worker)
  br label %claim
done:
  ret void
}
"""

_WAITING = """
; One step of spinning; later ones let others have the core, who may be the ones we wait for.
define internal void @relax(i32 %step, i32 %limit) {
entry:
  $RELAX
  %patience = lshr i32 %limit, 2
  %early = icmp ult i32 %step, %patience
  br i1 %early, label %done, label %late
late:
  %low = and i32 %step, 31
  %turn = icmp eq i32 %low, 0
  br i1 %turn, label %yield, label %done
yield:
  %ignored = call i32 @sched_yield()
  br label %done
done:
  ret void
}

; A moment after now, by the clock that condition variables go by.
define internal void @soon(ptr %moment) {
  %asked = call i32 @clock_gettime(i32 $CLOCK_REALTIME, ptr %moment)
  %part = getelementptr i64, ptr %moment, i64 1
  %seconds = load i64, ptr %moment
  %nanoseconds = load i64, ptr %part
  %later = add i64 %nanoseconds, $WAIT_NANOSECONDS
  %over = icmp sge i64 %later, 1000000000
  %carry = zext i1 %over to i64
  %full = mul i64 %carry, 1000000000
  %rest = sub i64 %later, %full
  %sum = add i64 %seconds, %carry
  store i64 %sum, ptr %moment
  store i64 %rest, ptr %part
  ret void
}

; The caller's wait for the workers inside its (closed) job. If there is a function %look it is
; called now and then, without the mutex, because it may take as long as it likes.
define internal void @wait_for_workers(ptr %look.function, ptr %argument) {
entry:
  %moment = alloca [2 x i64], align 8
  %limit = load atomic i32, ptr @spins monotonic, align 4
  br label %spin
spin:
  %step = phi i32 [ 0, %entry ], [ %following, %pause ]
  %state = load atomic i64, ptr @state acquire, align 8
  %inside = and i64 %state, $COUNT
  %alone = icmp eq i64 %inside, 0
  br i1 %alone, label %done, label %pause
pause:
  call void @relax(i32 %step, i32 %limit)
  %following = add i32 %step, 1
  %go.on = icmp ult i32 %following, %limit
  br i1 %go.on, label %spin, label %sleep
sleep:
  %locked = call i32 @pthread_mutex_lock(ptr @done.mutex)
  store atomic i32 1, ptr @waiting seq_cst, align 4
  br label %look
look:
  %state.now = load atomic i64, ptr @state seq_cst, align 8
  %inside.now = and i64 %state.now, $COUNT
  %alone.now = icmp eq i64 %inside.now, 0
  br i1 %alone.now, label %woken, label %wait
wait:
  %watched = icmp ne ptr %look.function, null
  br i1 %watched, label %wait.a.while, label %wait.for.ever
wait.for.ever:
  %waited = call i32 @pthread_cond_wait(ptr @done.wake, ptr @done.mutex)
  br label %look
wait.a.while:
  call void @soon(ptr %moment)
  %timed = call i32 @pthread_cond_timedwait(ptr @done.wake, ptr @done.mutex, ptr %moment)
  %signalled = icmp eq i32 %timed, 0
  br i1 %signalled, label %look, label %call
call:
  %unlocked.for.call = call i32 @pthread_mutex_unlock(ptr @done.mutex)
  %ignored = call i1 %look.function(ptr %argument)
  %locked.again = call i32 @pthread_mutex_lock(ptr @done.mutex)
  br label %look
woken:
  store atomic i32 0, ptr @waiting seq_cst, align 4
  %unlocked = call i32 @pthread_mutex_unlock(ptr @done.mutex)
  br label %done
done:
  ret void
}

; Wake those sleepers that the job is for: it has work for the workers 1 to %useful. The mutex is
; taken and left so that a sleeper is either before its last look at the state or truly asleep.
define internal void @wake_workers(i64 %useful) {
entry:
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 4
  %none = icmp sle i32 %asleep, 0
  br i1 %none, label %done, label %some
some:
  %running = load atomic i32, ptr @running monotonic, align 4
  %running.wide = sext i32 %running to i64
  %last = call i64 @llvm.smin.i64(i64 %running.wide, i64 %useful)
  %any = icmp sgt i64 %last, 0
  br i1 %any, label %wake, label %done
wake:
  %locked = call i32 @pthread_mutex_lock(ptr @idle.mutex)
  %unlocked = call i32 @pthread_mutex_unlock(ptr @idle.mutex)
  br label %look
look:
  %id = phi i64 [ 1, %wake ], [ %following, %next ]
  %flag = getelementptr i32, ptr @is.asleep, i64 %id
  %sleeps = load atomic i32, ptr %flag monotonic, align 4
  %is.asleep.now = icmp ne i32 %sleeps, 0
  br i1 %is.asleep.now, label %signal, label %next
signal:
  %condition = getelementptr [128 x i8], ptr @idle.wake, i64 %id
  %ignored = call i32 @pthread_cond_signal(ptr %condition)
  br label %next
next:
  %following = add i64 %id, 1
  %more = icmp sle i64 %following, %last
  br i1 %more, label %look, label %done
done:
  ret void
}
"""

_AWAITING = """
; Wait until what the turn left that had this turn's slot before it is merged.
define void @wengert_await_slot(ptr %state, i64 %turn, i64 %slots, i64 %pieces) {
entry:
  %limit = load atomic i32, ptr @spins monotonic, align 4
  br label %look
look:
  %step = phi i32 [ 0, %entry ], [ %following, %pause ], [ %step, %next ]
  %piece = phi i64 [ 0, %entry ], [ %piece, %pause ], [ %piece.after, %next ]
  %offset = mul i64 %piece, $MERGE_PIECE
  %head = getelementptr i8, ptr %state, i64 %offset
  %merged = load atomic i64, ptr %head acquire, align 8
  %room = add i64 %merged, %slots
  %free = icmp slt i64 %turn, %room
  br i1 %free, label %next, label %pause
pause:
  call void @relax(i32 %step, i32 %limit)
  %following = add i32 %step, 1
  br label %look
next:
  %piece.after = add i64 %piece, 1
  %more = icmp slt i64 %piece.after, %pieces
  br i1 %more, label %look, label %done
done:
  ret void
}
"""

_MERGING = """
; The turn is finished: merge what is next in order, of each piece that nobody else merges. Whoever
; has merged looks once more after giving back the lock, for what was finished meanwhile.
define void @wengert_merge_in_order(ptr %state, i64 %turn, i64 %slots, i64 %pieces, ptr %merge,
                                    ptr %context) {
entry:
  %heads = mul i64 %pieces, $MERGE_PIECE
  %finished = getelementptr i8, ptr %state, i64 %heads
  %own = urem i64 %turn, %slots
  %own.place = getelementptr i64, ptr %finished, i64 %own
  %mark = add i64 %turn, 1
  store atomic i64 %mark, ptr %own.place seq_cst, align 8
  br label %piece
; those who come at the same time begin with different pieces
piece:
  %number = phi i64 [ 0, %entry ], [ %number.after, %done ]
  %shifted = add i64 %number, %turn
  %which = urem i64 %shifted, %pieces
  %offset = mul i64 %which, $MERGE_PIECE
  %head = getelementptr i8, ptr %state, i64 %offset
  %lock = getelementptr i8, ptr %head, i64 $MERGE_LOCK
  br label %try
try:
  %exchange = cmpxchg ptr %lock, i64 0, i64 1 seq_cst monotonic
  %locked = extractvalue { i64, i1 } %exchange, 1
  br i1 %locked, label %begin, label %done
begin:
  %first = load atomic i64, ptr %head monotonic, align 8
  br label %look
look:
  %next = phi i64 [ %first, %begin ], [ %after, %merging ]
  %slot = urem i64 %next, %slots
  %place = getelementptr i64, ptr %finished, i64 %slot
  %after = add i64 %next, 1
  %found = load atomic i64, ptr %place acquire, align 8
  %ready = icmp eq i64 %found, %after
  br i1 %ready, label %merging, label %leave
merging:
  call void %merge(ptr %context, i64 %which, i64 %slot)
  store atomic i64 %after, ptr %head release, align 8
  br label %look
leave:
  %held = atomicrmw xchg ptr %lock, i64 0 seq_cst
  %late = load atomic i64, ptr %place seq_cst, align 8
  %more = icmp eq i64 %late, %after
  br i1 %more, label %try, label %done
done:
  %number.after = add i64 %number, 1
  %again = icmp slt i64 %number.after, %pieces
  br i1 %again, label %piece, label %end
end:
  ret void
}
"""

_WORKER = """
; Is there an open job with another number than the last one this worker met?
define internal i1 @is_new(i64 %state, i64 %seen) alwaysinline {
  %open = and i64 %state, $OPEN
  %is.open = icmp ne i64 %open, 0
  %number = lshr i64 %state, 17
  %unmet = icmp ne i64 %number, %seen
  %new = and i1 %is.open, %unmet
  ret i1 %new
}

define internal ptr @worker(ptr %argument) {
entry:
  %id = ptrtoint ptr %argument to i64
  %full = load atomic i32, ptr @spins monotonic, align 4
  br label %idle
; Spinning that ends in sleep halves the patience, work restores it: a worker that shares its core
; with the caller, or is called rarely, soon costs next to nothing.
idle:
  %seen = phi i64 [ -1, %entry ], [ %number, %left ], [ %met, %woken ]
  %limit = phi i32 [ %full, %entry ], [ %full.again, %left ], [ %half, %woken ]
  br label %spin
spin:
  %met = phi i64 [ %seen, %idle ], [ %met, %pause ], [ %number, %skip ], [ %met, %enter ]
  %step = phi i32 [ 0, %idle ], [ %following, %pause ], [ %step, %skip ], [ %step, %enter ]
  %keep = load atomic i32, ptr @keep monotonic, align 4
  %keep.wide = sext i32 %keep to i64
  %kept = icmp slt i64 %id, %keep.wide
  br i1 %kept, label %look, label %leave
look:
  %state = load atomic i64, ptr @state acquire, align 8
  %number = lshr i64 %state, 17
  %new = call i1 @is_new(i64 %state, i64 %met)
  br i1 %new, label %consider, label %pause
pause:
  call void @relax(i32 %step, i32 %limit)
  %following = add i32 %step, 1
  %go.on = icmp ult i32 %following, %limit
  br i1 %go.on, label %spin, label %sleep

; These two may be those of a later job already: reading them here only saves a useless entry.
consider:
  %inside = and i64 %state, $COUNT
  %busy = add i64 %inside, 1
  %n.hint = load atomic i64, ptr @job.n monotonic, align 8
  %workers.hint = load atomic i64, ptr @job.workers monotonic, align 8
  %room = icmp slt i64 %busy, %n.hint
  %chosen = icmp slt i64 %id, %workers.hint
  %useful = and i1 %room, %chosen
  br i1 %useful, label %enter, label %others
; A job of few tasks is for others. Those whom the system has taken away for a while leave tasks
; that nobody has begun: after a moment somebody else takes them.
others:
  %limit.hint = load atomic i64, ptr @job.limit monotonic, align 8
  %could = icmp slt i64 %id, %limit.hint
  br i1 %could, label %moment, label %skip
moment:
  %beat = phi i32 [ 0, %others ], [ %next.beat, %moment ]
  $RELAX
  %next.beat = add i32 %beat, 1
  %not.yet = icmp ult i32 %next.beat, $PATIENCE
  br i1 %not.yet, label %moment, label %again
again:
  %same = load atomic i64, ptr @state acquire, align 8
  %same.number = lshr i64 %same, 17
  %is.same = icmp eq i64 %same.number, %number
  %same.open = and i64 %same, $OPEN
  %is.open = icmp ne i64 %same.open, 0
  %still = and i1 %is.same, %is.open
  %claimed = load atomic i64, ptr @claims monotonic, align 8
  %left.over = xor i64 %claimed, -1
  %lowest = call i64 @llvm.cttz.i64(i64 %left.over, i1 false)
  %begun = icmp sge i64 %lowest, %n.hint
  %needed = xor i1 %begun, true
  %help = and i1 %still, %needed
  br i1 %help, label %enter, label %skip
skip:
  br label %spin
enter:
  %seen.state = phi i64 [ %state, %consider ], [ %same, %again ]
  %entered.state = add i64 %seen.state, 1
  %exchange = cmpxchg ptr @state, i64 %seen.state, i64 %entered.state acquire monotonic
  %entered = extractvalue { i64, i1 } %exchange, 1
  br i1 %entered, label %inside.job, label %spin

; From here until the count is given back the job cannot change.
inside.job:
  %workers = load atomic i64, ptr @job.limit monotonic, align 8
  %allowed = icmp slt i64 %id, %workers
  br i1 %allowed, label %work, label %give.back
work:
  %task = load ptr, ptr @job.task
  %context = load ptr, ptr @job.context
  %n = load atomic i64, ptr @job.n monotonic, align 8
  call void @run_claimed(ptr %task, ptr %context, i64 %n, i64 %id)
  br label %give.back
give.back:
  %before = atomicrmw sub ptr @state, i64 1 seq_cst
  %rest = and i64 %before, $OPEN_OR_COUNT
  %last = icmp eq i64 %rest, 1
  br i1 %last, label %tell, label %left
tell:
  %waiting = load atomic i32, ptr @waiting seq_cst, align 4
  %is.waiting = icmp ne i32 %waiting, 0
  br i1 %is.waiting, label %wake.caller, label %left
wake.caller:
  %locked.done = call i32 @pthread_mutex_lock(ptr @done.mutex)
  %unlocked.done = call i32 @pthread_mutex_unlock(ptr @done.mutex)
  %signalled = call i32 @pthread_cond_signal(ptr @done.wake)
  br label %left
left:
  %full.again = load atomic i32, ptr @spins monotonic, align 4
  br label %idle

sleep:
  %own.flag = getelementptr i32, ptr @is.asleep, i64 %id
  %own.wake = getelementptr [128 x i8], ptr @idle.wake, i64 %id
  %locked = call i32 @pthread_mutex_lock(ptr @idle.mutex)
  store atomic i32 1, ptr %own.flag seq_cst, align 4
  %more.sleepers = atomicrmw add ptr @sleepers, i32 1 seq_cst
  br label %last.look
last.look:
  %keep.now = load atomic i32, ptr @keep seq_cst, align 4
  %keep.now.wide = sext i32 %keep.now to i64
  %dismissed = icmp sge i64 %id, %keep.now.wide
  %state.now = load atomic i64, ptr @state seq_cst, align 8
  %new.now = call i1 @is_new(i64 %state.now, i64 %met)
  %stop = or i1 %dismissed, %new.now
  br i1 %stop, label %woken, label %wait
wait:
  %waited = call i32 @pthread_cond_wait(ptr %own.wake, ptr @idle.mutex)
  br label %last.look
woken:
  store atomic i32 0, ptr %own.flag seq_cst, align 4
  %fewer.sleepers = atomicrmw sub ptr @sleepers, i32 1 seq_cst
  %unlocked = call i32 @pthread_mutex_unlock(ptr @idle.mutex)
  %half = lshr i32 %limit, 1
  br label %idle
leave:
  ret ptr null
}
"""

_RESIZING = """
; All of these run with @busy held (or, for @start_anew, before anybody can hold it).
define internal void @start_anew() {
  %a = call i32 @pthread_mutex_init(ptr @idle.mutex, ptr null)
  %c = call i32 @pthread_mutex_init(ptr @done.mutex, ptr null)
  %d = call i32 @pthread_cond_init(ptr @done.wake, ptr null)
  %state = load atomic i64, ptr @state monotonic, align 8
  %number = lshr i64 %state, 17
  %closed = shl i64 %number, 17
  store atomic i64 %closed, ptr @state monotonic, align 8
  store atomic i32 0, ptr @running monotonic, align 4
  store atomic i32 1, ptr @keep monotonic, align 4
  store atomic i32 0, ptr @sleepers monotonic, align 4
  store atomic i32 0, ptr @waiting monotonic, align 4
  store atomic i32 0, ptr @busy monotonic, align 4
  ret void
}

; True if the pool is this process's; the first call in a process (also after a fork) makes it so.
define internal i1 @adopt() {
entry:
  %pid = call i32 @getpid()
  %owner = load atomic i32, ptr @owner acquire, align 4
  %ours = icmp eq i32 %pid, %owner
  br i1 %ours, label %yes, label %try
try:
  %unclaimed = icmp ne i32 %owner, -1
  br i1 %unclaimed, label %claim, label %no
claim:
  %exchange = cmpxchg ptr @owner, i32 %owner, i32 -1 acquire monotonic
  %claimed = extractvalue { i32, i1 } %exchange, 1
  br i1 %claimed, label %start, label %no
start:
  call void @start_anew()
  store atomic i32 %pid, ptr @owner release, align 4
  br label %yes
yes:
  ret i1 true
no:
  ret i1 false
}

define internal i1 @try_lock() {
  %exchange = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic
  %locked = extractvalue { i32, i1 } %exchange, 1
  ret i1 %locked
}

; Let the threads from number %threads on end. (Number 0 is the caller.)
define internal void @shrink(i32 %threads) {
entry:
  %running = load atomic i32, ptr @running monotonic, align 4
  %too.many = icmp sge i32 %running, %threads
  br i1 %too.many, label %dismiss, label %done
dismiss:
  store atomic i32 %threads, ptr @keep seq_cst, align 4
  %locked = call i32 @pthread_mutex_lock(ptr @idle.mutex)
  %unlocked = call i32 @pthread_mutex_unlock(ptr @idle.mutex)
  br label %wake
wake:
  %id = phi i32 [ %threads, %dismiss ], [ %next.id, %wake ]
  %condition = getelementptr [128 x i8], ptr @idle.wake, i32 %id
  %woken = call i32 @pthread_cond_signal(ptr %condition)
  %next.id = add i32 %id, 1
  %more.ids = icmp sle i32 %next.id, %running
  br i1 %more.ids, label %wake, label %join
join:
  %i = phi i32 [ %threads, %wake ], [ %following, %join ]
  %slot = getelementptr i64, ptr @threads, i32 %i
  %thread = load i64, ptr %slot
  %joined = call i32 @pthread_join(i64 %thread, ptr null)
  %following = add i32 %i, 1
  %more = icmp sle i32 %following, %running
  br i1 %more, label %join, label %finish
finish:
  %left = sub i32 %threads, 1
  store atomic i32 %left, ptr @running monotonic, align 4
  br label %done
done:
  ret void
}

; Start workers until %needed run. They block signals, which belong to Python's main thread, except
; for faults, which are their own.
define internal void @grow(i32 %needed) {
entry:
  %blocked = alloca [256 x i8], align 16
  %previous = alloca [256 x i8], align 16
  %attributes = alloca [256 x i8], align 16
  %filled = call i32 @sigfillset(ptr %blocked)
$KEEP_FAULTS
  %masked = call i32 @pthread_sigmask(i32 $SIG_SETMASK, ptr %blocked, ptr %previous)
  %prepared = call i32 @pthread_attr_init(ptr %attributes)
  %sized = call i32 @pthread_attr_setstacksize(ptr %attributes, i64 $STACK_BYTES)
  %keep = add i32 %needed, 1
  store atomic i32 %keep, ptr @keep seq_cst, align 4
  %running = load atomic i32, ptr @running monotonic, align 4
  %first = add i32 %running, 1
  br label %create
create:
  %i = phi i32 [ %first, %entry ], [ %following, %created ]
  %slot = getelementptr i64, ptr @threads, i32 %i
  %condition = getelementptr [128 x i8], ptr @idle.wake, i32 %i
  %ready = call i32 @pthread_cond_init(ptr %condition, ptr null)
  %flag = getelementptr i32, ptr @is.asleep, i32 %i
  store atomic i32 0, ptr %flag monotonic, align 4
  %wide = zext i32 %i to i64
  %argument = inttoptr i64 %wide to ptr
  %failed = call i32 @pthread_create(ptr %slot, ptr %attributes, ptr @worker, ptr %argument)
  %ok = icmp eq i32 %failed, 0
  br i1 %ok, label %created, label %limited
created:
  store atomic i32 %i, ptr @running monotonic, align 4
  %following = add i32 %i, 1
  %more = icmp sle i32 %following, %needed
  br i1 %more, label %create, label %finish
limited:
  ; The system gives no more threads: do not ask again with every call.
  store atomic i32 %i, ptr @wanted monotonic, align 4
  br label %finish
finish:
  %destroyed = call i32 @pthread_attr_destroy(ptr %attributes)
  %unmasked = call i32 @pthread_sigmask(i32 $SIG_SETMASK, ptr %previous, ptr null)
  ret void
}
"""

_ENTRIES = """
define void @wengert_parallel_for(ptr %task, ptr %context, i64 %n) {
  call void @wengert_parallel_for_limited(ptr %task, ptr %context, i64 %n, i64 $MAX_THREADS)
  ret void
}

define void @wengert_parallel_for_limited(ptr %task, ptr %context, i64 %n, i64 %workers) {
  call void @wengert_parallel_for_watched(ptr %task, ptr %context, i64 %n, i64 %workers,
                                          ptr null, ptr null)
  ret void
}

define void @wengert_parallel_for_watched(ptr %task, ptr %context, i64 %n, i64 %workers,
                                          ptr %look, ptr %argument) {
entry:
  %wanted = load atomic i32, ptr @wanted monotonic, align 4
  %wanted.wide = sext i32 %wanted to i64
  %allowed = call i64 @llvm.smin.i64(i64 %wanted.wide, i64 %workers)
  %threads = call i64 @llvm.smin.i64(i64 %allowed, i64 %n)
  %several = icmp sgt i64 %threads, 1
  br i1 %several, label %adopt, label %inline
adopt:
  %ours = call i1 @adopt()
  br i1 %ours, label %lock, label %inline
lock:
  %locked = call i1 @try_lock()
  br i1 %locked, label %prepare, label %inline
inline:
  call void @run_inline(ptr %task, ptr %context, i64 %n)
  ret void

prepare:
  call void @shrink(i32 %wanted)
  %running = load atomic i32, ptr @running monotonic, align 4
  %useful = sub i64 %threads, 1
  %needed = trunc i64 %useful to i32
  %short = icmp slt i32 %running, %needed
  br i1 %short, label %grow, label %publish
grow:
  call void @grow(i32 %needed)
  br label %publish
publish:
  store ptr %task, ptr @job.task
  store ptr %context, ptr @job.context
  store atomic i64 %n, ptr @job.n monotonic, align 8
  ; of few tasks the same workers each time have theirs, and what they need of memory near
  store atomic i64 %threads, ptr @job.workers monotonic, align 8
  store atomic i64 %workers, ptr @job.limit monotonic, align 8
  store atomic i64 0, ptr @next monotonic, align 8
  store atomic i64 0, ptr @claims monotonic, align 8
  %old = load atomic i64, ptr @state monotonic, align 8
  %old.number = lshr i64 %old, 17
  %number = add i64 %old.number, 1
  %shifted = shl i64 %number, 17
  %opened = or i64 %shifted, $OPEN
  store atomic i64 %opened, ptr @state seq_cst, align 8
  call void @wake_workers(i64 %useful)
  call void @run_claimed(ptr %task, ptr %context, i64 %n, i64 0)
  %last = atomicrmw and ptr @state, i64 $NOT_OPEN acq_rel
  %inside = and i64 %last, $COUNT
  %alone = icmp eq i64 %inside, 0
  br i1 %alone, label %unlock, label %wait
wait:
  call void @wait_for_workers(ptr %look, ptr %argument)
  br label %unlock
unlock:
  store atomic i32 0, ptr @busy release, align 4
  ret void
}

define void @wengert_pool_configure(i32 %threads, i32 %spins) {
  store atomic i32 %threads, ptr @wanted monotonic, align 4
  store atomic i32 %spins, ptr @spins monotonic, align 4
  ret void
}

; End the threads beyond those wanted, now if the pool is idle, else before the next job.
define void @wengert_pool_trim() {
entry:
  %ours = call i1 @adopt()
  br i1 %ours, label %lock, label %done
lock:
  %locked = call i1 @try_lock()
  br i1 %locked, label %trim, label %done
trim:
  %wanted = load atomic i32, ptr @wanted monotonic, align 4
  call void @shrink(i32 %wanted)
  store atomic i32 0, ptr @busy release, align 4
  br label %done
done:
  ret void
}

; How many workers run in this process, for tests and for reporting.
define i32 @wengert_pool_started() {
  %ours = call i1 @adopt()
  %running = load atomic i32, ptr @running monotonic, align 4
  %ours.wide = sext i1 %ours to i32
  %result = and i32 %running, %ours.wide
  ret i32 %result
}
"""

_INLINE_ONLY_ENTRIES = """
define void @wengert_await_slot(ptr %state, i64 %turn, i64 %slots) {
  ret void
}
define void @wengert_parallel_for(ptr %task, ptr %context, i64 %n) {
  call void @run_inline(ptr %task, ptr %context, i64 %n)
  ret void
}
define void @wengert_parallel_for_limited(ptr %task, ptr %context, i64 %n, i64 %workers) {
  call void @run_inline(ptr %task, ptr %context, i64 %n)
  ret void
}
define void @wengert_parallel_for_watched(ptr %task, ptr %context, i64 %n, i64 %workers,
                                          ptr %look, ptr %argument) {
  call void @run_inline(ptr %task, ptr %context, i64 %n)
  ret void
}
define void @wengert_pool_configure(i32 %threads, i32 %spins) {
  ret void
}
define void @wengert_pool_trim() {
  ret void
}
define i32 @wengert_pool_started() {
  ret i32 0
}
"""
