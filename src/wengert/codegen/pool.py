"""The thread pool of generated code, itself generated.

`wengert_parallel_for(task, context, n)` calls `task(context, index, worker)` for every index below
n, on several threads, and returns when all are done. Callers cut work into tasks by index alone, so
what is computed does not depend on how many threads there are or which of them takes a task;
`worker` (below the number of threads, different for tasks that run at the same time in one call)
is for scratch memory only.

How it works. A job is published by one atomic word, the *state*: a number that grows with each job,
an *open* bit, and the count of workers inside. A worker that sees an open job it has not met adds
itself to the count, claims indices from a shared counter until none is left, and subtracts itself.
The caller does the same work, then clears the open bit and waits for the count to reach zero. So it
waits only for workers that took part: one that the system has not yet woken cannot delay anybody.

Idle workers spin for a moment, since the next job of a training step follows within microseconds,
and then sleep on a condition variable. Threads are created when a job first needs them. One job
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
from dataclasses import dataclass
from typing import Any

from ..runtime import threads
from .cache import ObjectCache
from .compile import Compiled, add_symbol, compile_here
from .target import Target

MAX_THREADS = 1024
PARALLEL_FOR = "wengert_parallel_for"
PARALLEL_FOR_LIMITED = "wengert_parallel_for_limited"
PARALLEL_FOR_WATCHED = "wengert_parallel_for_watched"
ENTRIES = (PARALLEL_FOR, PARALLEL_FOR_LIMITED, PARALLEL_FOR_WATCHED)
DECLARATIONS = f"""
declare void @{PARALLEL_FOR}(ptr, ptr, i64)
declare void @{PARALLEL_FOR_LIMITED}(ptr, ptr, i64, i64)
declare void @{PARALLEL_FOR_WATCHED}(ptr, ptr, i64, i64, ptr, ptr)
"""

_STACK_BYTES = 8 << 20  # secondary threads get half a megabyte on some systems
_OPEN = 1 << 16  # the state: job number << 17 | open << 16 | workers inside
_COUNT = _OPEN - 1
_WAIT_NANOSECONDS = 50_000_000


@dataclass(frozen=True)
class Pool:
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
    its argument: it is called, about every 50 ms, while the caller waits for the last workers).
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
        return _INLINE + _INLINE_ONLY_ENTRIES
    text = _GLOBALS + _INLINE + _CLAIM + _WAITING + _WORKER + _RESIZING + _ENTRIES
    return string.Template(text).substitute(_values(target))


def _values(target: Target) -> dict[str, Any]:
    relax = {
        "x86_64": ("llvm.x86.sse2.pause()", "llvm.x86.sse2.pause()"),
        "aarch64": ("llvm.aarch64.isb(i32 15)", "llvm.aarch64.isb(i32)"),
    }
    call, declaration = relax.get(target.architecture, ("llvm.donothing()", "llvm.donothing()"))
    faults = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL")
    keep_faults = "\n".join(
        f"  %ignored.{name} = call i32 @sigdelset(ptr %blocked, i32 {int(getattr(signal, name))})"
        for name in faults
    )
    return {
        "RELAX_DECLARATION": f"declare void @{declaration}",
        "RELAX": f"call void @{call}",
        "MAX_THREADS": MAX_THREADS,
        "STACK_BYTES": _STACK_BYTES,
        "NOT_OPEN": ~_OPEN,
        "OPEN_OR_COUNT": _OPEN | _COUNT,
        "OPEN": _OPEN,
        "COUNT": _COUNT,
        "KEEP_FAULTS": keep_faults,
        "SIG_SETMASK": int(signal.SIG_SETMASK),
        "CLOCK_REALTIME": int(time.CLOCK_REALTIME),
        "WAIT_NANOSECONDS": _WAIT_NANOSECONDS,
    }


# Words that different threads write have cache lines (pairs of them, as they are fetched) of their
# own. Storage of the system's opaque types is larger than on any system we know.
_GLOBALS = """
@state = internal global { i64, [120 x i8] } zeroinitializer, align 128
@next = internal global { i64, [120 x i8] } zeroinitializer, align 128
@busy = internal global { i32, [124 x i8] } zeroinitializer, align 128
@sleepers = internal global { i32, [124 x i8] } zeroinitializer, align 128
@waiting = internal global { i32, [124 x i8] } zeroinitializer, align 128

@job.task = internal global ptr null, align 128
@job.context = internal global ptr null
@job.n = internal global i64 0
@job.workers = internal global i64 0

@wanted = internal global i32 1, align 128
@spins = internal global i32 0
@keep = internal global i32 1
@running = internal global i32 0
@owner = internal global i32 0

@idle.mutex = internal global [256 x i8] zeroinitializer, align 128
@idle.wake = internal global [256 x i8] zeroinitializer, align 128
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
declare i32 @pthread_cond_broadcast(ptr)
declare i64 @llvm.smin.i64(i64, i64)
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
; Take tasks until none is left.
define internal void @run_claimed(ptr %task, ptr %context, i64 %n, i64 %worker) {
entry:
  br label %claim
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

; Wake as many sleepers as the job can use beyond those already awake. The mutex is taken and left
; so that a sleeper is either before its last look at the state or truly asleep.
define internal void @wake_workers(i64 %useful) {
entry:
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 4
  %none = icmp sle i32 %asleep, 0
  br i1 %none, label %done, label %count
count:
  %running = load atomic i32, ptr @running monotonic, align 4
  %awake = sub i32 %running, %asleep
  %awake.wide = sext i32 %awake to i64
  %missing = sub i64 %useful, %awake.wide
  %enough = icmp sle i64 %missing, 0
  br i1 %enough, label %done, label %wake
wake:
  %locked = call i32 @pthread_mutex_lock(ptr @idle.mutex)
  %unlocked = call i32 @pthread_mutex_unlock(ptr @idle.mutex)
  ; A job with fewer workers than threads wants particular ones: wake all.
  %running.wide = sext i32 %running to i64
  %workers = load atomic i64, ptr @job.workers monotonic, align 8
  %particular = icmp sle i64 %workers, %running.wide
  %asleep.wide = sext i32 %asleep to i64
  %everyone = icmp sge i64 %missing, %asleep.wide
  %all = or i1 %particular, %everyone
  br i1 %all, label %broadcast, label %signal
broadcast:
  %ignored.all = call i32 @pthread_cond_broadcast(ptr @idle.wake)
  br label %done
signal:
  %i = phi i64 [ 0, %wake ], [ %following, %signal ]
  %ignored.one = call i32 @pthread_cond_signal(ptr @idle.wake)
  %following = add i64 %i, 1
  %more = icmp slt i64 %following, %missing
  br i1 %more, label %signal, label %done
done:
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
  br i1 %useful, label %enter, label %skip
skip:
  br label %spin
enter:
  %entered.state = add i64 %state, 1
  %exchange = cmpxchg ptr @state, i64 %state, i64 %entered.state acquire monotonic
  %entered = extractvalue { i64, i1 } %exchange, 1
  br i1 %entered, label %inside.job, label %spin

; From here until the count is given back the job cannot change.
inside.job:
  %workers = load atomic i64, ptr @job.workers monotonic, align 8
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
  %locked = call i32 @pthread_mutex_lock(ptr @idle.mutex)
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
  %waited = call i32 @pthread_cond_wait(ptr @idle.wake, ptr @idle.mutex)
  br label %last.look
woken:
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
  %b = call i32 @pthread_cond_init(ptr @idle.wake, ptr null)
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
  %woken = call i32 @pthread_cond_broadcast(ptr @idle.wake)
  br label %join
join:
  %i = phi i32 [ %threads, %dismiss ], [ %following, %join ]
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
  store atomic i64 %workers, ptr @job.workers monotonic, align 8
  store atomic i64 0, ptr @next monotonic, align 8
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
