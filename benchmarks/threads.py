"""How compiled programs use the cores: times for several numbers of threads, and where they go.

    python benchmarks/threads.py                          # 1, 2, 4, ... threads up to the cores
    python benchmarks/threads.py --only "digits;MLP" --threads 1,16 --no-peers
    python benchmarks/threads.py --timeline --only "VGG"  # each job: who works, who waits

The table has the time on one thread and, for each number of threads, how many times as fast that
is, with NumPy and PyTorch beside it, which have as many threads as there are cores, in turns. Rows
with a goal for sixteen cores show it, and whether it is met on the most threads that were measured.
The first rows say what the machine itself gives: arithmetic in registers and a copy of memory, on
as many threads, so that a row can be judged by what is possible (two threads of one core, say).

The timeline is of one call, the fastest of some: for every job that threads share, how long it
takes, how much of that all threads together are busy, and what its tasks take on one thread. What
is lost is one of: waiting (too few or unequal tasks, waking), slower tasks (caches, memory,
neighbours), and time between the jobs, in which one thread works alone. It comes from a pool with
clocks in it.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import os
import re
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

CALL = Callable[[], Any]


# ---------------------------------------------------------------- workloads


def with_layers(layers: Any, batch: int) -> dict[str, Callable[[], CALL]]:
    """A training step of a network that is a list of layers."""
    from wengert.bench import cnn

    return {"wengert": cnn.with_wengert(layers, batch), "torch": cnn.with_torch(layers, batch)}


def dense(widths: tuple[int, ...], batch: int) -> dict[str, Callable[[], CALL]]:
    """A training step of a network of dense layers."""

    layers: list[Any] = [("flatten",)]
    for before, after in itertools.pairwise(widths):
        layers += [("linear", before, after), ("relu",)]
    return with_layers(layers[:-1], batch)


def product(rows: int, inner: int, columns: int) -> dict[str, Callable[[], CALL]]:
    """A product of matrices of float32, into memory that is there."""
    from wengert.bench.workload import load

    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, inner)).astype(np.float32)
    y = rng.normal(size=(inner, columns)).astype(np.float32)
    out = np.empty((rows, columns), np.float32)

    def wengert() -> CALL:
        import wengert as wg

        compiled = wg.jit(lambda x, y: x @ y)
        return lambda: compiled(x, y, out=out)

    def torch() -> CALL:
        library = load("torch")
        a, b, c = map(library.tensor, (x, y, out))
        return lambda: library.mm(a, b, out=c)

    return {"wengert": wengert, "numpy": lambda: lambda: np.matmul(x, y, out), "torch": torch}


def elementwise(n: int) -> dict[str, Callable[[], CALL]]:
    """Value and gradient of a sum of elementary functions."""
    from wengert.bench import ratio

    x = ratio.point(n)
    return {"wengert": ratio.with_wengert(ratio.mixed_sum, x)}


def copied(n: int) -> dict[str, Callable[[], CALL]]:
    """What memory allows: two numbers read and one written for an addition."""
    x, y = (np.random.default_rng(i).normal(size=n) for i in range(2))
    out = np.empty_like(x)

    def wengert() -> CALL:
        import wengert as wg

        compiled = wg.jit(lambda x, y: x + y)
        return lambda: compiled(x, y, out=out)

    return {"wengert": wengert}


def in_registers(n: int) -> dict[str, Callable[[], CALL]]:
    """What the cores allow: functions of a value that is read from the near cache."""
    x = np.random.default_rng(0).uniform(size=(n, 2048)).astype(np.float32)

    def wengert() -> CALL:
        import wengert.numpy as wnp
        from wengert import jit

        def f(x: Any) -> Any:
            for _ in range(8):
                x = wnp.tanh(wnp.exp(-x))
            return wnp.sum(x)

        compiled = jit(f)
        return lambda: compiled(x)

    return {"wengert": wengert}


def recurrent(kind: str, hidden: int, batch: int) -> dict[str, Callable[[], CALL]]:
    """A training step of a recurrent network on rows of images."""
    from wengert.bench import recurrent as bench

    network = bench.Network(kind, 28, 28, hidden)
    return {
        "wengert": bench.with_wengert(network, batch),
        "torch": bench.with_torch(network, batch),
    }


def attention(**sizes: int) -> dict[str, Callable[[], CALL]]:
    """A training step of a transformer block."""
    from wengert.bench import transformer as bench

    return {
        "wengert": bench.with_wengert(bench.Sizes(**sizes)),
        "torch": bench.with_torch(bench.Sizes(**sizes)),
    }


def workloads() -> dict[str, Callable[[], dict[str, Callable[[], CALL]]]]:
    """All rows by name."""
    from wengert.bench import cnn

    digits, vgg = cnn.digit_network(), cnn.vgg()
    large = {"width": 256, "heads": 8, "tokens": 128, "batch": 32}
    return {
        "registers alone": lambda: in_registers(500),
        "memory alone, 10^7": lambda: copied(10**7),
        "sin/exp/tanh 10^7": lambda: elementwise(10**7),
        "digits, batch 100": lambda: with_layers(digits, 100),
        "digits, batch 10,000": lambda: with_layers(digits, 10_000),
        "VGG, batch 100": lambda: with_layers(vgg, 100),
        "VGG, batch 1,000": lambda: with_layers(vgg, 1000),
        "MLP 784-512-512-10, batch 128": lambda: dense((784, 512, 512, 10), 128),
        "MLP 784-2048-2048-10, batch 1024": lambda: dense((784, 2048, 2048, 10), 1024),
        "product 512": lambda: product(512, 512, 512),
        "product 2048": lambda: product(2048, 2048, 2048),
        "product 4096": lambda: product(4096, 4096, 4096),
        "LSTM 128, batch 100": lambda: recurrent("LSTM", 128, 100),
        "GRU 128, batch 100": lambda: recurrent("GRU", 128, 100),
        "transformer 128, batch 12": lambda: attention(),
        "transformer 256, batch 32": lambda: attention(**large),
    }


# What is wanted on sixteen cores: so many times as fast as one thread, or as a peer on all cores.
GOALS: dict[str, tuple[str, float]] = {
    "sin/exp/tanh 10^7": ("threads", 12),
    "digits, batch 100": ("threads", 6),
    "digits, batch 10,000": ("threads", 12),
    "VGG, batch 100": ("threads", 6),
    "VGG, batch 1,000": ("threads", 12),
    "MLP 784-2048-2048-10, batch 1024": ("torch", 1.1),
    "product 2048": ("numpy", 0.95),
    "product 4096": ("numpy", 0.95),
    "LSTM 128, batch 100": ("torch", 1.3),
    "GRU 128, batch 100": ("torch", 1.3),
    "transformer 128, batch 12": ("torch", 1.3),
    "transformer 256, batch 32": ("torch", 1.3),
}


def judged(name: str, times: dict[Any, float], counts: list[int]) -> str:
    """The goal of a row and how it stands; nothing where there is none, or no peer."""
    against, wanted = GOALS.get(name, ("", 0.0))
    most = counts[-1]
    other = times.get(counts[0] if against == "threads" else against)
    if other is None:
        return ""
    best = times[most] if against == "threads" else min(times[n] for n in counts)
    found = other / best
    of = f"of one on {most} threads" if against == "threads" else f"of {against}"
    return f"  {found:.2f}x {of}, goal {wanted:g}x: {'met' if found >= wanted else 'NOT met'}"


# ---------------------------------------------------------------- times


def measured(call: CALL, seconds: float) -> float:
    """Seconds of a call, the median of some runs: enough for a few, not more than some seconds."""
    times = []
    begin = time.perf_counter()
    while len(times) < 3 or (time.perf_counter() - begin < seconds and len(times) < 400):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def row(build: Callable[[], dict[str, Any]], counts: list[int], options: Any) -> dict[Any, float]:
    """Times by number of threads, and of the peers by their names; best of the rounds."""
    import wengert as wg

    builders = build()
    calls = {"wengert": builders["wengert"]()}
    if options.peers:
        for name in ("numpy", "torch"):
            try:
                calls[name] = builders[name]()
            except (KeyError, ImportError):
                continue
    for call in calls.values():
        call()
    found: dict[Any, list[float]] = {}
    for _ in range(options.rounds):
        for count in counts:
            wg.set_threads(count)
            calls["wengert"]()
            time.sleep(0.02)
            calls["wengert"]()
            found.setdefault(count, []).append(measured(calls["wengert"], options.seconds))
        for name, call in calls.items():
            if name != "wengert":
                time.sleep(0.05)  # threads of others spin for a while
                call()
                found.setdefault(name, []).append(measured(call, options.seconds))
    wg.set_threads(None)
    return {name: min(times) for name, times in found.items()}


def table(options: Any) -> None:
    """Print a line for each workload."""
    counts = options.threads
    heads = [f"{n} thr" for n in counts[1:]] + (["numpy", "torch"] if options.peers else [])
    width = max(map(len, workloads()))
    print(f"{'':<{width}} {'one thread':>13}", *[f"{head:>9}" for head in heads], flush=True)
    verdicts: list[str] = []
    for name, build in chosen(options).items():
        try:
            times = row(build, counts, options)
        except Exception as error:  # one row must not cost the others
            print(f"{name:<{width}} {type(error).__name__}: {error}"[:200], flush=True)
            continue
        best = min(times[n] for n in counts)
        cells = [f"{times[counts[0]] / times[n]:>8.2f}x" for n in counts[1:]]
        if options.peers:
            peers = [times.get(peer) for peer in ("numpy", "torch")]
            cells += [f"{t / best:>8.2f}x" if t else f"{'':>9}" for t in peers]
        verdict = judged(name, times, counts)
        verdicts.append(verdict)
        print(f"{name:<{width}} {1e3 * times[counts[0]]:>10.3f} ms", *cells, verdict, flush=True)
    met = sum(verdict.endswith(": met") for verdict in verdicts)
    print(f"goals: {met} met of {sum(map(bool, verdicts))}")
    if options.peers:
        print("numpy, torch: their time over wengert's best; above 1 wengert is faster")


def chosen(options: Any) -> dict[str, Any]:
    """The workloads whose names have one of the words in them."""
    words = [word.strip() for word in (options.only or "").split(";") if word.strip()]
    rows = workloads().items()
    return {name: build for name, build in rows if not words or any(w in name for w in words)}


# ---------------------------------------------------------------- the timeline

_MOST = 1 << 16  # records
_RECORD = np.dtype([(name, "i8") for name in ("job", "index", "worker", "start", "end")])
_CLOCKS = f"""
@clock.records = global [{_MOST * 5} x i64] zeroinitializer, align 64
@clock.count = global i64 0
declare i64 @llvm.readcyclecounter()
define internal void @clock_record(i64 %job, i64 %index, i64 %worker, i64 %start) {{
entry:
  %end = call i64 @llvm.readcyclecounter()
  %number = atomicrmw add ptr @clock.count, i64 1 monotonic
  %room = icmp ult i64 %number, {_MOST}
  br i1 %room, label %write, label %done
write:
  %place = mul i64 %number, 5
  %p0 = getelementptr i64, ptr @clock.records, i64 %place
  %p1 = getelementptr i64, ptr %p0, i64 1
  %p2 = getelementptr i64, ptr %p0, i64 2
  %p3 = getelementptr i64, ptr %p0, i64 3
  %p4 = getelementptr i64, ptr %p0, i64 4
  store i64 %job, ptr %p0
  store i64 %index, ptr %p1
  store i64 %worker, ptr %p2
  store i64 %start, ptr %p3
  store i64 %end, ptr %p4
  br label %done
done:
  ret void
}}
define ptr @clock_records() {{ ret ptr @clock.records }}
define ptr @clock_count() {{ ret ptr @clock.count }}
"""
# the number of a job's task function is above the number of its tasks
_NAMED = 32
_MASK = (1 << _NAMED) - 1


class Timeline:
    """A pool with clocks in it, put in place of the usual one before anything is compiled."""

    def __init__(self) -> None:
        from wengert.codegen import pool, tasks

        self.names: list[str] = []
        number = f"\n  %n = and i64 %n.all, {_MASK}\n  %job = lshr i64 %n.all, {_NAMED}"
        for part, worker in (("_INLINE", "0"), ("_CLAIM", "%worker")):
            text = _with_clock(getattr(pool, part), worker)
            text = text.replace("ptr %context, i64 %n", "ptr %context, i64 %n.all", 1)
            setattr(pool, part, text.replace("entry:", f"entry:{number}", 1))
        pool._INLINE = _CLOCKS + pool._INLINE
        pool._ENTRIES = self._entry(pool._ENTRIES)
        pool._WORKER = pool._WORKER.replace(
            "%n.hint = load atomic i64, ptr @job.n monotonic, align 8",
            "%n.hint.all = load atomic i64, ptr @job.n monotonic, align 8\n"
            f"  %n.hint = and i64 %n.hint.all, {_MASK}",
        )
        share = tasks.Tasks._share_out
        names = self.names

        def named(self: Any, builder: Any, task: Any, words: Any, count: int, *rest: Any) -> None:
            names.append(task.name)
            share(self, builder, task, words, count + (len(names) << _NAMED), *rest)

        tasks.Tasks._share_out = named
        self.pool, self.ticks = pool, _ticks()

    @staticmethod
    def _entry(text: str) -> str:
        """The entry of a job writes down when it began and ended, as the task -1."""
        head, body = text.split("define void @wengert_parallel_for_watched", 1)
        body, rest = body.split("define void @wengert_pool_configure", 1)
        few = f"%few = and i64 %n, {_MASK}\n  %job = lshr i64 %n, {_NAMED}"
        began = "%began = call i64 @llvm.readcyclecounter()"
        body = body.replace("entry:", f"entry:\n  {began}\n  {few}")
        body = body.replace("(i64 %allowed, i64 %n)", "(i64 %allowed, i64 %few)")
        ended = "call void @clock_record(i64 %job, i64 -1, i64 0, i64 %began)"
        body = body.replace("  ret void", f"  {ended}\n  ret void")
        watched, configure = (
            "define void @wengert_parallel_for_watched",
            "define void @wengert_pool_configure",
        )
        return f"{head}{watched}{body}{configure}{rest}"

    def jobs(self, call: CALL) -> tuple[list[dict[str, Any]], float]:
        """The jobs of one call, in order, and what it takes: their times in microseconds."""
        (records, seconds), rate = self._records(call), self.ticks
        jobs: list[dict[str, Any]] = []
        whole = records[records["index"] < 0]
        whole = whole[np.argsort(whole["start"])]
        last = whole["start"][0] if len(whole) else 0
        for one in whole:
            inside = (records["index"] >= 0) & (records["job"] == one["job"])
            inside &= (records["start"] >= one["start"]) & (records["end"] <= one["end"])
            found = records[inside]
            lengths = (found["end"] - found["start"]) / rate
            first = [found["start"][found["worker"] == w].min() for w in set(found["worker"])]
            jobs.append(
                {
                    "name": self.names[int(one["job"]) - 1],
                    "tasks": len(found),
                    "workers": len(first),
                    "before": (one["start"] - last) / rate,
                    "wall": (one["end"] - one["start"]) / rate,
                    "busy": float(lengths.sum()),
                    "longest": float(lengths.max(initial=0)),
                    "late": (max(first, default=one["start"]) - one["start"]) / rate,
                }
            )
            last = one["end"]
        return jobs, 1e6 * seconds

    def _records(self, call: CALL) -> tuple[np.ndarray, float]:
        code = self.pool._pool_code
        assert code is not None
        pointer = ctypes.CFUNCTYPE(ctypes.c_void_p)
        records = pointer(code.address("clock_records"))()
        count = ctypes.c_int64.from_address(pointer(code.address("clock_count"))())
        count.value = 0
        call()  # to the end of what may be under way
        time.sleep(0.001)
        call()
        count.value = 0
        start = time.perf_counter()
        call()
        seconds = time.perf_counter() - start
        some = (ctypes.c_char * (min(count.value, _MOST) * _RECORD.itemsize)).from_address(records)
        return np.frombuffer(some, _RECORD).copy(), seconds


def _ticks() -> float:
    """Ticks in a microsecond of the counter that `llvm.readcyclecounter` reads."""
    from wengert.codegen.compile import compile_here

    code = compile_here(
        lambda target: (
            "declare i64 @llvm.readcyclecounter()\n"
            "define i64 @now() {\n  %t = call i64 @llvm.readcyclecounter()\n  ret i64 %t\n}\n"
        ),
        level=0,
    )
    now = ctypes.CFUNCTYPE(ctypes.c_int64)(code.address("now"))
    before, start = now(), time.perf_counter()
    time.sleep(0.05)
    return (now() - before) / (1e6 * (time.perf_counter() - start))


def _with_clock(text: str, worker: str) -> str:
    """Code with clocks around each call of a task."""

    def around(found: re.Match[str]) -> str:
        call, index = found.group(0), found.group(1)
        start = f"%clock.{index[1:]}"
        return (
            f"  {start} = call i64 @llvm.readcyclecounter()\n{call}\n"
            f"  call void @clock_record(i64 %job, i64 {index}, i64 {worker}, i64 {start})"
        )

    return re.sub(r" *call void %task\(ptr %context, i64 (%\w+), i64 %?\w+\)", around, text)


def timelines(options: Any) -> None:
    """Print the jobs of each workload on one thread and on the most threads asked for."""
    import wengert as wg

    timeline = Timeline()
    most = max(options.threads)
    for name, build in chosen(options).items():
        call = build()["wengert"]()
        found = []
        for count in (1, most):
            wg.set_threads(count)
            for _ in range(3):
                call()
            end, runs = time.perf_counter() + options.seconds, []
            while len(runs) < 5 or time.perf_counter() < end:
                runs.append(timeline.jobs(call))
            found.append(min(runs, key=lambda run: run[1]))
        (alone, time_alone), (jobs, whole) = found
        print(f"\n{name}: {time_alone / 1e3:.3f} ms on one thread, {whole / 1e3:.3f} on {most}")
        print("    before      wall  one thr   tasks wkrs  longest    late  busy/wall  slower  job")
        lines = list(zip(jobs, alone, strict=False))
        for job, one in lines[: options.lines]:
            print(
                f"{job['before']:>10.1f}{job['wall']:>10.1f}{one['wall']:>9.1f}{job['tasks']:>8}"
                f"{job['workers']:>5}{job['longest']:>9.1f}{job['late']:>8.1f}"
                f"{job['busy'] / max(job['wall'], 1e-9):>11.1f}"
                f"{job['busy'] / max(one['busy'], 1e-9):>8.2f}  {job['name']}"
            )
        serial, walls = sum(j["before"] for j in jobs), sum(j["wall"] for j in jobs)
        busy, own = sum(j["busy"] for j in jobs), sum(j["busy"] for j in alone)
        rest = max(0.0, whole - serial - walls)
        print(
            f"    in all {len(jobs)} jobs of {walls:.0f} us, {serial:.0f} us between them and "
            f"{rest:.0f} before and after; threads busy {busy / max(walls, 1e-9):.1f}, tasks "
            f"{busy / max(own, 1e-9):.2f} times as slow as on one",
            flush=True,
        )


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    usual = [n for n in (1, 2, 4, 8, 16, 32, 64, 128) if n <= (cores or 1)]
    numbers = lambda text: [int(n) for n in text.split(",")]
    parser.add_argument("--threads", type=numbers, default=usual, help="such as 1,2,16")
    parser.add_argument("--only", help="parts of names of rows, between semicolons")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="wengert alone")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.15, help="for each measurement")
    parser.add_argument("--timeline", action="store_true", help="the jobs of a call, one by one")
    parser.add_argument("--lines", type=int, default=60, help="jobs that a timeline prints")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.timeline:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["WENGERT_CACHE"] = folder  # code for another pool
            timelines(options)
    else:
        table(options)


if __name__ == "__main__":
    sys.exit(main())
