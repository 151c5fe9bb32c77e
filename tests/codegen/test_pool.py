"""The native thread pool: every task once, whoever calls, with any number of threads."""

import ctypes
import os
import random
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from wengert.codegen import pool as pool_module
from wengert.codegen.cache import ObjectCache
from wengert.codegen.compile import compile_module
from wengert.codegen.pool import DECLARATIONS, MAX_THREADS, pool_ir
from wengert.codegen.target import Target
from wengert.runtime import threads

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the pool needs POSIX threads")

# Context: [0] steps of work per task, [1] number of collisions, [2] highest worker index;
# from 16 on a count for each task, from 4096 on a flag for each worker (one cache line each).
TASKS = (
    DECLARATIONS
    + """
define void @task(ptr %c, i64 %i, i64 %w) {
entry:
  %highest.place = getelementptr i64, ptr %c, i64 2
  %highest = atomicrmw max ptr %highest.place, i64 %w monotonic
  %flag.scaled = mul i64 %w, 16
  %flag.index = add i64 %flag.scaled, 4096
  %flag = getelementptr i64, ptr %c, i64 %flag.index
  %taken = atomicrmw add ptr %flag, i64 1 acq_rel
  %collided = icmp ne i64 %taken, 0
  %collision = zext i1 %collided to i64
  %collisions = getelementptr i64, ptr %c, i64 1
  %more.collisions = atomicrmw add ptr %collisions, i64 %collision monotonic
  %count.index = add i64 %i, 16
  %count = getelementptr i64, ptr %c, i64 %count.index
  %counted = atomicrmw add ptr %count, i64 1 monotonic
  %steps = load i64, ptr %c
  br label %work
work:
  %k = phi i64 [ 0, %entry ], [ %k1, %work ]
  %sink = load volatile i64, ptr %flag
  %k1 = add i64 %k, 1
  %again = icmp slt i64 %k1, %steps
  br i1 %again, label %work, label %done
done:
  %free = atomicrmw sub ptr %flag, i64 1 acq_rel
  ret void
}
define void @run(ptr %c, i64 %n, i64 %repeat) {
entry:
  br label %loop
loop:
  %r = phi i64 [ 0, %entry ], [ %r1, %loop ]
  call void @wengert_parallel_for(ptr @task, ptr %c, i64 %n)
  %r1 = add i64 %r, 1
  %more = icmp slt i64 %r1, %repeat
  br i1 %more, label %loop, label %done
done:
  ret void
}
define void @run_limited(ptr %c, i64 %n, i64 %workers) {
  call void @wengert_parallel_for_limited(ptr @task, ptr %c, i64 %n, i64 %workers)
  ret void
}

; Nesting: outer task i runs 8 inner tasks, which count at 8 i + inner index.
define void @outer(ptr %c, i64 %i, i64 %w) {
  %inner = alloca { ptr, i64 }
  store ptr %c, ptr %inner
  %place = getelementptr { ptr, i64 }, ptr %inner, i64 0, i32 1
  store i64 %i, ptr %place
  call void @wengert_parallel_for(ptr @inner, ptr %inner, i64 8)
  ret void
}
define void @inner(ptr %pair, i64 %j, i64 %w) {
  %c = load ptr, ptr %pair
  %place = getelementptr { ptr, i64 }, ptr %pair, i64 0, i32 1
  %i = load i64, ptr %place
  %first = mul i64 %i, 8
  %which = add i64 %first, %j
  %index = add i64 %which, 16
  %count = getelementptr i64, ptr %c, i64 %index
  %counted = atomicrmw add ptr %count, i64 1 monotonic
  ret void
}
define void @run_nested(ptr %c, i64 %n) {
  call void @wengert_parallel_for(ptr @outer, ptr %c, i64 %n)
  ret void
}
"""
)
I64, POINTER = ctypes.c_int64, ctypes.c_void_p


class Tasks:
    def __init__(self, symbols=None):
        code = compile_module(TASKS, symbols=symbols)
        self._run = code.function("run", None, POINTER, I64, I64)
        self._run_limited = code.function("run_limited", None, POINTER, I64, I64)
        self._run_nested = code.function("run_nested", None, POINTER, I64)

    @staticmethod
    def context(steps=1):
        context = np.zeros(4096 + 16 * MAX_THREADS, np.int64)
        context[0] = steps
        return context

    def check(self, n, repeat=1, steps=1, threads=MAX_THREADS):
        """Run n tasks `repeat` times and return the highest worker index that was used."""
        context = self.context(steps)
        self._run(context.ctypes.data, n, repeat)
        self.verify(context, n, repeat)
        assert context[2] < threads
        return context[2]

    def verify(self, context, n, repeat):
        assert (context[16 : 16 + n] == repeat).all()
        assert (context[16 + n : 4096] == 0).all()
        assert context[1] == 0, "two tasks ran at once under one worker index"

    def check_limited(self, n, workers):
        context = self.context(200)
        self._run_limited(context.ctypes.data, n, workers)
        self.verify(context, n, 1)
        assert context[2] < workers

    def check_nested(self, n):
        context = self.context()
        self._run_nested(context.ctypes.data, n)
        self.verify(context, 8 * n, 1)


@pytest.fixture(scope="module")
def tasks():
    threads.attach(pool_module.load())
    yield Tasks()
    threads.set_threads(None)


@pytest.mark.parametrize("count", range(1, 9))
def test_every_task_runs_once(tasks, count):
    threads.set_threads(count)
    for n in (0, 1, 2, 3, 7, 8, 9, 64, 1000):
        tasks.check(n, threads=count)
    for n in (2, 5, 17):
        tasks.check(n, repeat=300, threads=count)


def test_a_negative_count_runs_nothing(tasks):
    context = tasks.context()
    tasks._run(context.ctypes.data, -5, 1)
    tasks.verify(context, 0, 1)


def test_threads_start_when_needed_and_end_when_not_wanted(tasks):
    threads.set_threads(1)
    assert threads.running_workers() == 0
    threads.set_threads(6)
    for n in (0, 1):
        tasks.check(n, repeat=10)
        assert threads.running_workers() == 0
    tasks.check(3)
    assert threads.running_workers() == 2
    tasks.check(100)
    assert threads.running_workers() == 5
    threads.set_threads(3)
    assert threads.running_workers() == 2
    tasks.check(100, threads=3)
    threads.set_threads(4)
    tasks.check(100, threads=4)
    assert threads.running_workers() == 3
    threads.set_threads(1)
    assert threads.running_workers() == 0


def test_several_threads_really_share_the_work(tasks):
    threads.set_threads(2)
    assert max(tasks.check(64, steps=20_000) for _ in range(50)) == 1


def test_work_is_shared_again_after_the_workers_slept(tasks):
    threads.set_threads(2)
    for _ in range(3):
        time.sleep(0.05)
        assert max(tasks.check(64, steps=20_000) for _ in range(50)) == 1


@pytest.mark.parametrize("workers", [0, 1, 2, 3, 100])
def test_worker_index_stays_below_the_limit(tasks, workers):
    threads.set_threads(5)
    tasks.check(100)  # so that workers beyond the limit exist
    for _ in range(50):
        tasks.check_limited(40, max(workers, 1))


@pytest.mark.parametrize("count", [1, 2, 4])
def test_nested_calls_run_where_they_are(tasks, count):
    threads.set_threads(count)
    for n in (1, 2, 30):
        for _ in range(30):
            tasks.check_nested(n)


def in_threads(number, work):
    errors = []

    def guarded(index):
        try:
            work(index)
        except BaseException as error:
            errors.append(error)

    started = [threading.Thread(target=guarded, args=(index,)) for index in range(number)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert not errors, errors


def test_several_python_threads_call_at_once(tasks):
    threads.set_threads(3)

    def work(_):
        for _ in range(40):
            tasks.check(20, repeat=20, steps=20)
            tasks.check_nested(5)

    in_threads(4, work)


def test_stress_with_resizing_while_jobs_run(tasks):
    end = time.monotonic() + 2.0

    def work(index):
        generator = random.Random(index)
        while time.monotonic() < end:
            if index == 0:
                threads.set_threads(generator.randint(1, 8))
                time.sleep(generator.random() * 0.002)
            elif generator.random() < 0.1:
                tasks.check_nested(generator.randrange(12))
            else:
                steps = generator.choice([1, 10, 1000])
                tasks.check(generator.randrange(40), generator.randrange(1, 30), steps)

    in_threads(3, work)


def test_sums_are_the_same_bits_for_every_number_of_threads(tasks):
    text = (
        DECLARATIONS
        + """
    define void @part(ptr %c, i64 %i, i64 %w) {
    entry:
      %x = load ptr, ptr %c
      %out.place = getelementptr ptr, ptr %c, i64 1
      %out = load ptr, ptr %out.place
      %start = mul i64 %i, 1000
      %end = add i64 %start, 1000
      br label %loop
    loop:
      %k = phi i64 [ %start, %entry ], [ %k1, %loop ]
      %s = phi double [ 0.0, %entry ], [ %s1, %loop ]
      %p = getelementptr double, ptr %x, i64 %k
      %v = load double, ptr %p
      %s1 = fadd double %s, %v
      %k1 = add i64 %k, 1
      %more = icmp slt i64 %k1, %end
      br i1 %more, label %loop, label %done
    done:
      %q = getelementptr double, ptr %out, i64 %i
      store double %s1, ptr %q
      ret void
    }
    define void @parts(ptr %c, i64 %n) {
      call void @wengert_parallel_for(ptr @part, ptr %c, i64 %n)
      ret void
    }
    """
    )
    parts = compile_module(text).function("parts", None, POINTER, I64)
    x, results = np.random.default_rng(0).normal(size=100_000), set()
    for count in range(1, 9):
        threads.set_threads(count)
        out = np.full(100, np.nan)
        pointers = np.array([x.ctypes.data, out.ctypes.data], np.uintp)
        parts(pointers.ctypes.data, 100)
        results.add(out.tobytes())
    assert len(results) == 1
    assert np.isclose(np.frombuffer(results.pop()).sum(), x.sum())


def private_pool(symbols):
    """Return tasks on a pool of their own, whose calls into the system can be replaced."""
    code = compile_module(pool_ir(Target.host()), symbols=symbols)
    own = {name: code.address(name) for name in code.exports}
    configure = code.function("wengert_pool_configure", None, ctypes.c_int32, ctypes.c_int32)
    return Tasks(symbols=own), configure


def test_a_system_without_more_threads_is_asked_once():
    calls = []
    prototype = ctypes.CFUNCTYPE(ctypes.c_int, POINTER, POINTER, POINTER, POINTER)
    refuse = prototype(lambda *_: calls.append(1) or 11)
    address = ctypes.cast(refuse, POINTER).value
    own_tasks, configure = private_pool({"pthread_create": address})
    configure(4, 100)
    own_tasks.check(50, repeat=20, threads=1)
    assert len(calls) == 1


def test_the_pool_comes_from_the_cache(tmp_path):
    cache = ObjectCache(tmp_path / "cache")
    compile_module(pool_ir(Target.host()), cache=cache, level=0)
    again = compile_module(pool_ir(Target.host()), cache=cache, level=0)
    assert again.from_cache
    assert again.function("wengert_pool_started", ctypes.c_int32)() == 0
    assert pool_module.load() is pool_module.load(cache)


@pytest.mark.parametrize("name", ["x86-64", "apple-m1", "neoverse-n1"])
def test_the_pool_compiles_for_other_processors(name):
    assert compile_module(pool_ir(Target.named(name)), Target.named(name)).object_code


def test_without_posix_threads_calls_run_inline():
    windows = Target(triple="x86_64-pc-windows-msvc", cpu="x86-64", features="")
    code = compile_module(pool_ir(windows))
    own_tasks = Tasks(symbols={name: code.address(name) for name in code.exports})
    own_tasks.check(100, threads=1)
    own_tasks.check_nested(3)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads /proc")
def test_workers_leave_signals_to_python(tasks):
    threads.set_threads(1)
    before = set(os.listdir("/proc/self/task"))
    threads.set_threads(2)
    # Until it has run a task a thread may still be starting, with everything blocked.
    assert max(tasks.check(64, steps=20_000) for _ in range(50)) == 1
    (worker,) = set(os.listdir("/proc/self/task")) - before
    status = Path(f"/proc/self/task/{worker}/status").read_text()
    blocked = int(next(line for line in status.splitlines() if "SigBlk" in line).split()[1], 16)
    assert blocked >> (2 - 1) & 1, "SIGINT"
    assert blocked >> (15 - 1) & 1, "SIGTERM"
    assert not blocked >> (11 - 1) & 1, "SIGSEGV"


def run_script(body, timeout=30.0, **environment):
    """Run a program that has `tasks` and `threads`; return what it printed."""
    script = (
        "import importlib.util, os, sys, threading, time\n"
        f"spec = importlib.util.spec_from_file_location('pool_tests', {__file__!r})\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "threads = module.threads\n"
        "threads.attach(module.pool_module.load())\n"
        "tasks = module.Tasks()\n" + textwrap.dedent(body)
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")


@needs_fork
def test_a_forked_child_starts_its_own_pool():
    body = """
        threads.set_threads(3)
        tasks.check(50, repeat=100)
        for depth in range(2):  # a child, and its child
            child = os.fork()
            if child:
                _, status = os.waitpid(child, 0)
                tasks.check(50, repeat=10)
                assert threads.running_workers() == 2
                os._exit(os.waitstatus_to_exitcode(status))
            assert threads.running_workers() == 0
            tasks.check(50, repeat=100, threads=3)
            assert threads.running_workers() == 2
    """
    run_script(body)


@needs_fork
def test_fork_while_another_thread_runs_a_job():
    body = """
        threads.set_threads(2)
        stop = False
        def work():
            while not stop:
                tasks.check(50, repeat=50, steps=100)
        thread = threading.Thread(target=work)
        thread.start()
        for _ in range(20):
            child = os.fork()
            if not child:
                tasks.check(50, repeat=20, threads=2)
                os._exit(0 if threads.running_workers() == 1 else 1)
            _, status = os.waitpid(child, 0)
            assert status == 0
        stop = True
        thread.join()
    """
    run_script(body)


@needs_fork
def test_multiprocessing_by_fork_works():
    body = """
        import multiprocessing
        threads.set_threads(2)
        tasks.check(50)
        with multiprocessing.get_context("fork").Pool(2) as processes:
            print(*processes.map(checked, range(4)))
    """
    body = "def checked(n):\n    tasks.check(50 + n, 10)\n    return n\n" + textwrap.dedent(body)
    assert run_script(body) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("ending", ["", "sys.exit(0)", "os._exit(0)"])
def test_the_interpreter_ends_with_threads_asleep_or_spinning(ending):
    run_script(f"threads.set_threads(4); tasks.check(50, repeat=10)\n{ending}")


def test_the_interpreter_ends_while_a_daemon_thread_runs_jobs():
    body = """
        threads.set_threads(3)
        def work():
            while True:
                tasks.check(50, repeat=10_000)
        threading.Thread(target=work, daemon=True).start()
        time.sleep(0.1)
    """
    run_script(body)


def test_environment_sets_the_default():
    body = "print(threads.get_threads()); tasks.check(50); print(threads.running_workers())"
    assert run_script(body, WENGERT_THREADS="3") == ["3", "2"]


def test_default_is_the_cores_of_this_process(monkeypatch):
    monkeypatch.delenv("WENGERT_THREADS", raising=False)
    threads.set_threads(None)
    assert threads.get_threads() == threads.available_cores() >= 1
    if hasattr(os, "sched_getaffinity"):
        assert threads.available_cores() <= len(os.sched_getaffinity(0))


@pytest.mark.parametrize("text", ["0", "-1", "two", "1025", "1.5"])
def test_a_bad_environment_is_named(monkeypatch, text):
    monkeypatch.setenv("WENGERT_THREADS", text)
    monkeypatch.setattr(threads, "_threads", None)
    with pytest.raises(ValueError, match=r"^environment variable WENGERT_THREADS: got"):
        threads.get_threads()


@pytest.mark.parametrize("n", [0, -3, 1025, 2.0, True, "2"])
def test_set_threads_refuses_other_than_positive_whole_numbers(n):
    with pytest.raises(ValueError) as caught:
        threads.set_threads(n)
    assert str(caught.value) == (
        f"set_threads: argument n: got {n!r}, expected a whole number from 1 to 1024"
    )


def test_both_sides_agree_on_the_largest_number():
    assert threads.MAX_THREADS == MAX_THREADS


def test_set_threads_accepts_numpy_integers():
    threads.set_threads(np.int32(2))
    assert threads.get_threads() == 2
    threads.set_threads(None)


@pytest.mark.timing
def test_fork_and_join_take_less_than_three_microseconds(tasks):
    """Two tasks on two threads cost at most 3 us more than one task alone, when hot."""
    context = tasks.context(steps=20_000)

    def fastest(count, n):
        threads.set_threads(count)
        times = []
        for _ in range(50):
            start = time.perf_counter()
            tasks._run(context.ctypes.data, n, 100)
            times.append((time.perf_counter() - start) / 100)
        return min(times)

    assert fastest(2, 2) - fastest(1, 1) < 3e-6


# ---------------------------------------------------------------- merging in order

# Context: [0] slots, [1] pieces, [2] and so on what is merged, a piece each; a task leaves its
# number in its slot, from 1024 on, and merging multiplies and adds, so that another order would
# give something else.
MERGING = (
    DECLARATIONS
    + """
@merge.state = internal global [4096 x i64] zeroinitializer, align 64
define void @turn(ptr %c, i64 %i, i64 %w) {
  %slots = load i64, ptr %c
  %pieces.place = getelementptr i64, ptr %c, i64 1
  %pieces = load i64, ptr %pieces.place
  call void @wengert_await_slot(ptr @merge.state, i64 %i, i64 %slots, i64 %pieces)
  %slot = urem i64 %i, %slots
  %index = add i64 %slot, 1024
  %place = getelementptr i64, ptr %c, i64 %index
  store i64 %i, ptr %place
  call void @wengert_merge_in_order(ptr @merge.state, i64 %i, i64 %slots, i64 %pieces, ptr @merge,
                                    ptr %c)
  ret void
}
define void @merge(ptr %c, i64 %piece, i64 %slot) {
  %index = add i64 %slot, 1024
  %place = getelementptr i64, ptr %c, i64 %index
  %part = load i64, ptr %place
  %sum.index = add i64 %piece, 2
  %sum = getelementptr i64, ptr %c, i64 %sum.index
  %before = load i64, ptr %sum
  %times = mul i64 %before, 31
  %after = add i64 %times, %part
  store i64 %after, ptr %sum
  ret void
}
define void @run(ptr %c, i64 %n) {
  call void @llvm.memset.p0.i64(ptr @merge.state, i8 0, i64 32768, i1 false)
  call void @wengert_parallel_for(ptr @turn, ptr %c, i64 %n)
  ret void
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""
)


@pytest.mark.parametrize(("slots", "pieces"), [(1, 1), (2, 3), (5, 1), (5, 16), (48, 7)])
def test_what_is_merged_is_merged_in_order(slots, pieces):
    pool_module.load()
    run = compile_module(MERGING, Target.host()).function(
        "run", None, ctypes.c_void_p, ctypes.c_int64
    )
    try:
        for count in (1, 2, 7):
            threads.set_threads(count)
            for n in (1, 3, 40, 64, 65, 300):
                context = np.zeros(2048, np.int64)
                context[:2] = slots, pieces
                run(context.ctypes.data, n)
                want = 0
                for i in range(n):
                    want = (want * 31 + i) % (1 << 64)
                assert [int(one) % (1 << 64) for one in context[2 : 2 + pieces]] == [want] * pieces
    finally:
        threads.set_threads(None)
