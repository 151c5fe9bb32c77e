"""The honest benchmark of automatic differentiation: what does a gradient cost?

For n = 10 ... 10^7 variables it measures the function alone, the function with its gradient, and
their ratio. Theory bounds the ratio at 4 to 5. NumPy's time for the function alone stands beside:
a gradient that costs less than that is free for someone who uses NumPy today.

Forward mode gives a derivative along one direction; a whole gradient would take n of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import wengert as wg

from .charts import Series, lines
from .example import drawn
from .progress import Progress
from .report import Check, Figure, Section
from .settings import Settings
from .tables import Column, duration
from .timing import best_times

TITLE = "What a gradient costs: f, f with its gradient, and their ratio"
ABOUT = (
    "Times of one call in float64, the best of several rounds in which all candidates take turns. "
    "'NumPy f' is the function called on plain arrays; 'f', 'f + grad' and 'f + jvp' are compiled; "
    "'evaluated' columns run the same derivative operation by operation with NumPy."
)
SIZES = tuple(10**k for k in range(1, 8))
QUICK_SIZES = tuple(10**k for k in range(1, 7))
# The difference allowed between the compiled and the evaluated gradient: relative to its largest
# element, plus some units in the last place of a cotangent of size 1. The latter is for
# `logsumexp`: the share of the maximum is 1 minus a sum over all n elements, which cancels, while
# the gradient itself is of size 1 / n. A sum in plain order is off by 12 eps there at n = 10^7.
TOLERANCE = 1e-9
ROUNDING = 64 * float(np.finfo(np.float64).eps)


def rosenbrock(x: Any) -> Any:
    """The banana valley: neighbours coupled, no transcendental function."""
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def logsumexp(x: Any) -> Any:
    """log(sum(exp(x))) with the maximum taken out first."""
    largest = np.max(x)
    return largest + np.log(np.sum(np.exp(x - largest)))


def waves(x: Any) -> Any:
    """A sum of sin, exp and tanh: dominated by elementary functions."""
    return np.sum(np.sin(x) * np.exp(-x * x) + np.tanh(x))


def logistic(x: Any) -> Any:
    """The logistic loss of n margins."""
    return np.sum(np.logaddexp(0.0, -x))


FUNCTIONS: tuple[Callable, ...] = (rosenbrock, logsumexp, waves, logistic)

COLUMNS = [
    Column("function", "function"),
    Column("n", "n", lambda n: f"10^{round(np.log10(n))}"),
    Column("numpy_f", "NumPy f", duration),
    Column("f", "f", duration),
    Column("f_grad", "f + grad", duration),
    Column("grad_ratio", "/ f", "{:.2f}".format),
    Column("grad_to_numpy", "/ NumPy f", "{:.2f}".format),
    Column("f_jvp", "f + jvp", duration),
    Column("jvp_ratio", "/ f", "{:.2f}".format),
    Column("evaluated_f_grad", "evaluated f + grad", duration),
    Column("evaluated_ratio", "/ NumPy f", "{:.2f}".format),
    Column("evaluated_f_jvp", "evaluated f + jvp", duration),
]


# f with its gradient may cost this much: of NumPy's f alone, and of the compiled f.
NUMPY_BOUND, COMPILED_BOUND = 1.0, 3.0


def run(section: Section, progress: Progress, settings: Settings) -> None:
    """Measure every function at every size."""
    quick = settings.quick
    measure_all(section, progress, QUICK_SIZES if quick else SIZES, rounds=7 if quick else 9)


def measure_all(section: Section, progress: Progress, sizes: tuple[int, ...], rounds: int) -> None:
    """One row for each function and size, then the checks, the plots and the graph."""
    top = round(np.log10(max(sizes)))
    caption = f"Time of one call for up to 10^{top} variables, the best of {rounds} rounds"
    table = section.table("times", caption, COLUMNS)
    progress.start(len(FUNCTIONS) * len(sizes))
    for f in FUNCTIONS:
        for n in sizes:
            progress.step(f"{f.__name__}, n = {n}")
            table.rows.append(measure(f, n, rounds))
    section.checks += checks(table.rows)
    section.figures += plots(table.rows)
    graph = wg.trace(wg.value_and_grad(rosenbrock), np.array([1.0, 2.0, 3.0]))
    caption = "Rosenbrock's function with its gradient, n = 3"
    section.figures.append(Figure(caption, drawn(graph), wide=True))


def measure(f: Callable, n: int, rounds: int) -> dict[str, Any]:
    """The times and ratios of one function at one size, after a check of the gradients."""
    x = np.random.default_rng(n).uniform(-1.0, 1.0, n)
    direction = np.ones(n)
    evaluated = wg.value_and_grad(f)
    compiled = wg.jit(wg.value_and_grad(f))
    compiled_f, compiled_jvp = wg.jit(f), wg.jit(_with_direction(f))
    _check(f.__name__, n, compiled(x), evaluated(x), compiled_jvp(x, direction))
    times = best_times(
        {
            "numpy_f": lambda: f(x),
            "f": lambda: compiled_f(x),
            "f_grad": lambda: compiled(x),
            "f_jvp": lambda: compiled_jvp(x, direction),
            "evaluated_f_grad": lambda: evaluated(x),
            "evaluated_f_jvp": lambda: wg.jvp(f, (x,), (direction,)),
        },
        rounds,
    )
    return {
        "function": f.__name__,
        "n": n,
        **times,
        "grad_ratio": times["f_grad"] / times["f"],
        "grad_to_numpy": times["f_grad"] / times["numpy_f"],
        "jvp_ratio": times["f_jvp"] / times["f"],
        "evaluated_ratio": times["evaluated_f_grad"] / times["numpy_f"],
    }


def _with_direction(f: Callable) -> Callable:
    def value_and_slope(x: Any, direction: Any) -> Any:
        return wg.jvp(f, (x,), (direction,))

    return value_and_slope


def _check(name: str, n: int, compiled: Any, evaluated: Any, forward: Any) -> None:
    """A benchmark of wrong answers is worth nothing: stop if the modes disagree."""
    value, gradient = evaluated
    steepest = np.max(np.abs(gradient))
    for what, got, expected, scale in (
        ("value", compiled[0], value, abs(value)),
        ("gradient", compiled[1], gradient, steepest),
        ("slope", forward[1], np.sum(gradient), steepest * n),
    ):
        error, allowed = float(np.max(np.abs(got - expected))), TOLERANCE * scale + ROUNDING
        if not error <= allowed:
            raise AssertionError(
                f"{name}, n = {n}: the compiled {what} is off by {error:.1e}, allowed {allowed:.1e}"
            )


def checks(rows: list[dict[str, Any]]) -> list[Check]:
    """The two promises, each at the function and size where it is hardest to keep."""
    found = []
    for key, what, bound in (
        ("grad_to_numpy", "f + gradient in units of NumPy's f alone", NUMPY_BOUND),
        ("grad_ratio", "f + gradient in units of the compiled f", COMPILED_BOUND),
    ):
        worst = max(rows, key=lambda row: row[key])
        where = f"{what} (worst: {worst['function']}, n = {worst['n']})"
        found.append(Check(where, worst[key], bound, at_least=False, show="{:.2f}".format))
    return found


CURVES = {
    "f_grad": "f + grad",
    "f": "f",
    "f_jvp": "f + jvp",
    "evaluated_f_grad": "evaluated f + grad",
    "numpy_f": "NumPy f",
}


def plots(rows: list[dict[str, Any]]) -> list[Figure]:
    """For each function the times by number of variables."""
    figures = []
    for name in dict.fromkeys(row["function"] for row in rows):
        own = [row for row in rows if row["function"] == name]
        series = [
            Series(label, [r["n"] for r in own], [r[key] for r in own], dashed=key == "numpy_f")
            for key, label in CURVES.items()
        ]
        svg = lines(series, "n", "seconds", title=name, log_x=True, log_y=True)
        figures.append(Figure(f"{name}: time of one call by number of variables", svg))
    return figures
