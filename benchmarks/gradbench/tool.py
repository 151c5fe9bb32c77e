"""wengert as a tool of GradBench (https://github.com/gradbench/gradbench): JSON lines on standard
input and output, one answer for each message.

    python benchmarks/gradbench/tool.py

Each problem is a file of this folder with the name of its module. It has `prepare`, which makes
arrays of what was sent, `functions`, which are timed, and `answers`, which make of their results
what is sent back (by default numbers and lists).

GradBench's own runner, or any program that starts an evaluator and carries its lines across, can be
used. The number of threads is that of OMP_NUM_THREADS, by default one.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg

PROBLEMS = (
    "hello", "lse", "llsq", "gmm", "kmeans", "ode", "det", "lstm", "ba", "ht", "particle", "saddle",
)  # fmt: skip


def load(name: str) -> Any:
    """The problem of a module's name; its file lies here."""
    if name not in PROBLEMS:
        raise LookupError(f"there is no problem {name!r}; there are {', '.join(PROBLEMS)}")
    folder = str(Path(__file__).parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(name)


def run(problem: Any, function: str, sent: Any) -> dict[str, Any]:
    """Evaluate one function as often as was asked for; the answer and the times."""
    compute = problem.functions[function]
    arguments = problem.prepare(sent)
    runs, seconds = (sent["min_runs"], sent["min_seconds"]) if _repeats(sent) else (1, 0.0)
    timings: list[dict[str, Any]] = []
    total = 0
    result = None
    while len(timings) < runs or total < seconds * 1e9:
        start = time.perf_counter_ns()
        result = compute(*arguments)
        took = time.perf_counter_ns() - start
        timings.append({"name": "evaluate", "nanoseconds": took})
        total += took
    answer = getattr(problem, "answers", {}).get(function, plain)
    return {"success": True, "output": answer(result), "timings": timings}


def _repeats(sent: Any) -> bool:
    return isinstance(sent, dict) and "min_runs" in sent


def plain(result: Any) -> Any:
    """Arrays as JSON has them."""
    return np.asarray(result).tolist()


def answer(message: dict[str, Any], defined: dict[str, Any]) -> dict[str, Any]:
    """The response to one message; `defined` keeps the problems by their names."""
    response: dict[str, Any] = {"id": message["id"]}
    kind = message["kind"]
    try:
        if kind == "start":
            response["tool"] = "wengert"
        elif kind == "define":
            defined[message["module"]] = load(message["module"])
            response["success"] = True
        elif kind == "evaluate":
            problem = defined[message["module"]]
            response |= run(problem, message["function"], message["input"])
    except Exception:
        response |= {"success": False, "error": traceback.format_exc()}
    return response


def serve(lines: Iterable[str], write: Callable[[str], Any]) -> None:
    """Answer every line."""
    defined: dict[str, Any] = {}
    for line in lines:
        write(json.dumps(answer(json.loads(line), defined)) + "\n")


def main() -> None:
    wg.set_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever is printed is no answer
    serve(sys.stdin, out.write)


if __name__ == "__main__":
    main()
