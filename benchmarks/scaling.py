"""How training scales over ranks: what is measured, the model, and its prediction.

    python benchmarks/scaling.py [--ranks 1 2 4] [--seconds 20] [--out scaling.json]

runs itself under mpiexec with each number of ranks, one thread a rank, and measures

- the all-reduce of wengert and that of MPI, for arrays of 4 bytes to 4 MB, in turns;
- how much of an all-reduce that does not block hides behind work of the same rank;
- steps of the digit CNN (batch 100), the VGG (batch 20) and a transformer block (batch 12) on every
  rank, weak scaling: as many examples on each rank, whatever their number; and the same steps with
  every rank for itself, which shows what they take from each other without a message: caches,
  memory, clocks, and cores that are two threads of one. Beside them the steps in parts of a rank
  for itself, which is what the cut costs, and steps where waiting ranks do not pause.

From these it takes a latency and a bandwidth, predicts every step as that of a rank for itself plus
the all-reduce of its gradients, compares, and goes on to 1,000 ranks.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from math import log2
from pathlib import Path

import numpy as np

SIZES = [1, 256, 4096, 36_262, 262_144, 1_048_576]
# Steps in a native call.
TURNS = 16
# What halved arrays are, in bytes: `codegen.collectives.LONG`.
LONG = 1 << 14
# Between machines, for the prediction: of a network of 100 Gbit/s.
NETWORK = {"latency": 2e-6, "bandwidth": 10e9}


def networks():
    """Name: the model, the loss, examples for so many ranks, examples a rank."""
    from wengert import nn
    from wengert.bench import cnn, transformer

    def of_images(layers):
        return lambda: (cnn.module_of(nn, layers), nn.cross_entropy, cnn.images)

    def block():
        sizes = transformer.Sizes()
        make = lambda n: transformer.sequences(transformer.Sizes(batch=n))
        return transformer.module_of(nn, sizes), nn.mse_loss, make

    return {
        "digit CNN": (of_images(cnn.digit_network()), 100),
        "VGG": (of_images(cnn.vgg()), 20),
        "transformer": (block, 12),
    }


# ---------------------------------------------------------------- on every rank


def best(communicator, calls, seconds):
    """The best time of each call, in turns, as the slowest rank sees it; medians beside them."""
    found = {name: [] for name in calls}
    until = time.perf_counter() + seconds
    while True:
        for name, call in calls.items():
            if communicator is not None:
                communicator.Barrier()
            start = time.perf_counter()
            call()
            spent = time.perf_counter() - start
            if communicator is not None:
                spent = max(communicator.allgather(spent))
            found[name].append(spent)
        going = time.perf_counter() < until
        if communicator is not None:
            going = communicator.bcast(going)
        if not going and len(found[name]) >= 3:
            return {name: [min(times), float(np.median(times))] for name, times in found.items()}


def measure_sums(world, seconds):
    """Seconds of an all-reduce, wengert's and MPI's, by the number of float32."""
    from wengert import distributed, jit

    found = {}
    for size in SIZES:
        x = np.ones(size, np.float32)
        out = np.empty_like(x)
        reduce = jit(distributed.all_reduce)
        reduce(x)
        times = max(1, min(200, 200_000 // size))

        def often(call, times=times):
            return lambda: [call() for _ in range(times)]

        calls = {
            "wengert": often(lambda reduce=reduce, x=x: reduce(x)),
            "mpi": often(lambda x=x, out=out: world.communicator.Allreduce(x, out)),
        }
        times_of = best(world.communicator, calls, seconds / len(SIZES))
        found[size] = {name: [t / times for t in pair] for name, pair in times_of.items()}
    return found


def measure_steps(world, seconds):
    """Seconds of a training step of each network; how many parameters it has."""
    from wengert import distributed, nn, optim
    from wengert.train import Source, Steps

    found = {}
    for name, (make, batch) in networks().items():
        nn.manual_seed(0)
        model, loss, examples = make()
        count = sum(p.size for p in model.parameters())
        total = batch * world.size
        source = Source("scaling", examples(total))
        steps = Steps(model, loss, optim.SGD(model.parameters(), lr=1e-4), None)
        calls = {"alone": steps_of(steps.training(source), source, batch)}
        with distributed.alone():
            calls["parted"] = steps_of(steps.training(source, 1), source, batch)
        if world.size > 1:
            calls["step"] = steps_of(steps.training(source, world.size), source, total)
            calls["restless"] = without_pauses(calls["step"])
        times = best(world.communicator, calls, seconds / 3)
        found[name] = {"parameters": count, "batch": batch}
        found[name] |= {call: [t / TURNS for t in pair] for call, pair in times.items()}
    return found


def steps_of(repeated, source, batch):
    """Some steps with the first examples."""
    rows = np.tile(np.arange(batch), (TURNS, 1))
    out = {"loss": np.zeros(TURNS)}
    run = lambda: repeated.run((source.arrays,), (rows,), out)
    run()
    return run


def without_pauses(call):
    """The same, where whoever waits for a message looks for it without a pause."""
    from wengert.codegen.collectives import Fact
    from wengert.ops import collectives

    table = collectives.perform.table

    def restless():
        pauses = table[Fact.PAUSES]
        table[Fact.PAUSES] = min(pauses, 1)
        call()
        table[Fact.PAUSES] = pauses

    return restless


def measure_overlap(world, seconds):
    """Seconds of work, of an all-reduce, and of both where the sum is begun before the work."""
    import wengert as wg

    x = np.ones(262_144, np.float32)
    out, y = np.empty_like(x), np.random.default_rng(0).normal(size=20_000)
    busy = wg.jit(lambda y: wg.numpy.sum(wg.numpy.tanh(wg.numpy.exp(y))))
    work_once = lambda: [busy(y) for _ in range(8)]
    busy(y)

    def both():
        request = world.communicator.Iallreduce(x, out)
        work_once()
        request.Wait()

    calls = {
        "work": work_once,
        "sum": lambda: world.communicator.Allreduce(x, out),
        "both": both,
    }
    return best(world.communicator, calls, seconds)


def work(seconds, out, only):
    """What one rank does."""
    from wengert import distributed, set_threads

    set_threads(1)
    world = distributed.init()
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_setaffinity"):  # far apart: neighbours may be one core with two threads
        os.sched_setaffinity(0, {world.rank * max(cores // world.size, 1) % cores})
    found = {} if only == "sums" else {"steps": measure_steps(world, seconds / 2)}
    if world.size > 1 and only != "steps":
        found["sums"] = measure_sums(world, seconds / 2)
        found["overlap"] = measure_overlap(world, seconds / 16)
    if world.leads:
        Path(out).write_text(json.dumps(found))


# ---------------------------------------------------------------- the model


def messages(ranks, size):
    """How many messages follow each other, and how many bytes of each array they carry."""
    levels = log2(ranks)
    if 4 * size < LONG:
        return levels, 4 * size * levels
    return 2 * levels, 2 * 4 * size * (ranks - 1) / ranks


def sum_time(ranks, size, latency, bandwidth):
    """The model: latency for every message, time for every byte."""
    if ranks == 1:
        return 0.0
    number, carried = messages(ranks, size)
    return number * latency + carried / bandwidth


def fitted(sums, ranks):
    """Latency and bandwidth that fit the times, each as important as the other."""
    rows, wanted = [], []
    for size, times in sums.items():
        number, carried = messages(ranks, int(size))
        seconds = times["wengert"][1]
        rows.append([number / seconds, carried / seconds])
        wanted.append(1.0)
    (latency, cost), *_ = np.linalg.lstsq(np.array(rows), np.array(wanted), rcond=None)
    return max(latency, 1e-9), 1 / max(cost, 1e-15)


def tell(results):
    """All tables, in Markdown."""
    counts = sorted(results, key=int)
    lines = ["| float32 | " + " | ".join(f"{n} ranks" for n in counts if int(n) > 1) + " |"]
    lines.append("|---" * len(lines[0].split("|")[1:-1]) + "|")
    for size in map(str, SIZES):
        row = []
        for n in counts:
            if "sums" in results[n]:
                one, mpi = (results[n]["sums"][size][k][1] for k in ("wengert", "mpi"))
                row.append(f"{1e6 * one:.1f} µs ({one / mpi:.2f}x)")
        lines.append(f"| {int(size):,} | " + " | ".join(row) + " |")
    lines += ["", "all-reduce, medians; in brackets: times MPI's own", ""]
    fits = {n: fitted(results[n]["sums"], int(n)) for n in counts if "sums" in results[n]}
    for n, (latency, bandwidth) in fits.items():
        words = f"latency {1e6 * latency:.2f} µs, bandwidth {bandwidth / 1e9:.2f} GB/s"
        lines.append(f"- {n} ranks: {words}")
    lines += ["", *told_overlap(results, counts)]
    for name, one in results[counts[0]].get("steps", {}).items():
        alone, parameters = one["alone"][1], one["parameters"]
        lines += ["", f"{name}: {parameters:,} parameters, batch {one['batch']} a rank", ""]
        heads = ["ranks", "each for itself", "in parts", "together", "efficiency", "of one alone"]
        heads += ["predicted", "difference", "without pauses"]
        lines += [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
        for n in counts:
            times = results[n]["steps"][name]
            beside, spent = (times.get(k, times["alone"])[1] for k in ("alone", "step"))
            guess = beside + (sum_time(int(n), parameters, *fits[n]) if n in fits else 0.0)
            parted, restless = (times.get(k, [spent] * 2)[1] for k in ("parted", "restless"))
            cells = [n, *(f"{1e3 * t:.3f} ms" for t in (beside, parted, spent))]
            cells += [f"{beside / spent:.1%}", f"{alone / spent:.1%}"]
            cells += [f"{1e3 * guess:.3f} ms", f"{guess / spent - 1:+.1%}"]
            cells += [f"{restless / spent - 1:+.1%}"]
            lines.append(f"| {' | '.join(cells)} |")
        for n in (64, 256, 1000):
            guess = alone + sum_time(n, parameters, *NETWORK.values())
            cells = [
                f"{n}, network",
                *[""] * 3,
                f"{alone / guess:.1%}",
                "",
                f"{1e3 * guess:.3f} ms",
            ]
            lines.append(f"| {' | '.join(cells)} | | |")
    return "\n".join([*lines, "", *judged(results, counts)])


def told_overlap(results, counts):
    """How much of a sum is hidden by work that goes on meanwhile."""
    for n in counts:
        if "overlap" in results[n]:
            work, alone, both = (results[n]["overlap"][k][1] for k in ("work", "sum", "both"))
            times = ", ".join(f"{1e3 * t:.2f}" for t in (work, alone, both))
            hidden = (work + alone - both) / alone
            yield f"- {n} ranks: work, sum, both at once {times} ms: {hidden:.0%} of the sum hidden"


def judged(results, counts):
    """What is wanted, and whether it is so."""
    most = counts[-1]
    steps = results[most].get("steps", {}).get("digit CNN", {})
    if "step" in steps:
        share = steps["alone"][1] / steps["step"][1]
        met = "met" if share >= 0.9 else "NOT met"
        yield f"weak scaling of the CNN on {most} ranks: {share:.1%}, goal 90%: {met}"
    ratios = [
        times["wengert"][1] / times["mpi"][1]
        for n in counts
        for times in results[n].get("sums", {}).values()
    ]
    if ratios:
        met = "met" if max(ratios) <= 1.2 else "NOT met"
        yield f"all-reduce: at most {max(ratios):.2f}x MPI's time, goal 1.2x: {met}"


# ---------------------------------------------------------------- the command


def launched(ranks, seconds, out, only):
    """Run this script on so many ranks."""
    beside = Path(sys.executable).parent / "mpiexec"
    mpiexec = str(beside) if beside.exists() else shutil.which("mpiexec")
    if mpiexec is None:
        raise SystemExit("there is no mpiexec: pip install 'wengert[mpi]'")
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    command = [sys.executable, __file__, "--work", "--seconds", str(seconds), "--out", str(out)]
    command += ["--only", only] if only else []
    command = command if ranks == 1 else [mpiexec, "-n", str(ranks), *command]
    limit = 60 + 10 * seconds
    subprocess.run(command, env=os.environ | allowed, check=True, timeout=limit)
    return json.loads(Path(out).read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    usual = [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= max(cores or 1, 4)]
    parser.add_argument("--ranks", type=int, nargs="+", default=usual)
    parser.add_argument("--seconds", type=float, default=20.0, help="for each number of ranks")
    parser.add_argument("--out", default="scaling.json")
    parser.add_argument("--only", choices=("sums", "steps"))
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--tell", action="store_true", help="show the results that are there")
    given = parser.parse_args()
    if given.work:
        work(given.seconds, given.out, given.only)
        return
    results = json.loads(Path(given.out).read_text()) if given.tell else {}
    for ranks in () if given.tell else given.ranks:
        print(f"{ranks} ranks ...", file=sys.stderr, flush=True)
        results[str(ranks)] = launched(
            ranks, given.seconds, Path(f"{given.out}.{ranks}"), given.only
        )
        Path(given.out).write_text(json.dumps(results, indent=1))
    print(tell(results))


if __name__ == "__main__":
    main()
