"""Two checkouts side by side: every row of `wengert bench`, old and new code in turns.

    python benchmarks/compare.py OLD/src NEW/src --only "cnn,matmul" --rounds 9

Each checkout runs in a process of its own, which stays; a row is built in both, then they are
timed in turns, and the best round of each counts. Two processes of one and the same code can
differ by a few percent, by where their memory lies: `--pairs 3` takes the best of three pairs of
processes. On a busy machine `--clock processor` counts the time that a process had, not the time
that passed; it adds up threads. Rows that report a figure of their own (compile times, memory)
are run in turns as often as `--reports` says. Printed: old, new, and new over old.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

WORKER = """
import gc, json, sys, time, warnings
clock = time.process_time if sys.argv[1] == "processor" else time.perf_counter
warnings.simplefilter("ignore")
from wengert.bench import run
from wengert.bench.workload import WENGERT

def rows(only):
    found = {}
    for workload in run._matching(run.TOPICS, only, False):
        found[workload.title] = workload
    return found

table, call, repeats = {}, None, 1
for line in sys.stdin:
    order, *rest = json.loads(line)
    answer = None
    try:
        if order == "rows":
            table = rows(rest[0])
            answer = [[title, bool(w.reports)] for title, w in table.items()]
        elif order == "build":
            call = table[rest[0]].contestants[WENGERT]()
            for _ in range(3):
                call()
            start = clock()
            call()
            once = clock() - start
            repeats = max(1, int(0.03 / max(once, 1e-9)))
            gc.collect(); gc.freeze()
        elif order == "time":
            call()
            start = clock()
            for _ in range(repeats):
                call()
            answer = (clock() - start) / repeats
        elif order == "report":
            answer = float(table[rest[0]].contestants[WENGERT]()())
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"[:200]}
    print("@" + json.dumps(answer), flush=True)
"""


class Checkout:
    """A process that runs the rows of one checkout."""

    def __init__(self, source, clock):
        cache = tempfile.mkdtemp()
        env = {**os.environ, "PYTHONPATH": os.path.abspath(source), "WENGERT_CACHE": cache}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, clock], stdin=pipe, stdout=pipe, env=env, text=True
        )

    def ask(self, *order):
        print(json.dumps(order), file=self.process.stdin, flush=True)
        for line in self.process.stdout:
            if line.startswith("@"):
                return json.loads(line[1:])
        raise RuntimeError(f"the process ended at {order}")


def compare(title, reports, pairs, rounds, report_rounds):
    """The best figures of both, or the errors."""
    best = [float("inf")] * 2
    for pair in pairs:
        errors = [None if reports else one.ask("build", title) for one in pair]
        if any(errors):
            return errors
        found = alternate(title, reports, pair, report_rounds if reports else rounds)
        if isinstance(found[0], dict):
            return found
        best = [min(both) for both in zip(best, found, strict=True)]
    return best


def alternate(title, reports, pair, rounds):
    """The best figures of one pair of processes, asked in turns."""
    best = [float("inf")] * 2
    for turn in range(rounds):
        for k in (0, 1) if turn % 2 == 0 else (1, 0):
            figure = pair[k].ask("report", title) if reports else pair[k].ask("time")
            if isinstance(figure, dict):
                return [figure, figure]
            best[k] = min(best[k], figure)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--reports", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=1)
    parser.add_argument("--clock", choices=["wall", "processor"], default="wall")
    options = parser.parse_args()
    only = [part.strip() for part in options.only.split(",") if part.strip()]
    sources = options.old, options.new
    pairs = [[Checkout(one, options.clock) for one in sources] for _ in range(options.pairs)]
    for pair in pairs:
        old, new = (dict(one.ask("rows", only)) for one in pair)
    slower = []
    for title, reports in new.items():
        if title not in old:
            continue
        one, two = compare(title, reports, pairs, options.rounds, options.reports)
        if isinstance(one, dict) or isinstance(two, dict):
            print(f"{title:60} {one} {two}", flush=True)
            continue
        ratio = two / one if one else float("nan")
        slower += [title] if ratio > 1.02 else []
        print(f"{title:60} {one:12.4g} {two:12.4g} {ratio:7.3f}", flush=True)
    print(f"{len(slower)} rows more than 2 % slower: {', '.join(slower)}")


if __name__ == "__main__":
    main()
