"""Graph -> loops: named steps in one ordered list, each with the graph or the loops in and out.

A handful of them is the spine: lower every operation, fuse plainly, place checks, plan memory. It
is right for every program. All others are there for speed: the docstring of each says what it gains
and on which row of `wengert bench`, and each can be left out by its name,
`WENGERT_SCHEDULE=-chunks,-regions`; `WENGERT_SCHEDULE=plain` leaves out all, and then their modules
are not even imported.

What is inside a program (a chunk or a block of samples, a step of a scan) goes through the same
list, those steps of it that it names.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..graph import Graph
from ..loops import LoopProgram
from .setting import choose_steps, setting
from .task import Strides, Task

if TYPE_CHECKING:
    from ..passes.lengths import AnyLength

WHOLE = ("program", "chunked", "chunk")
EVERYWHERE = (*WHOLE, "step", "block")


class Step(NamedTuple):
    """One step; functions are named as `module:function` and imported when they are needed."""

    name: str
    function: str = ""  # from a graph or loops, and the task, to the same
    within: tuple[str, ...] = EVERYWHERE  # the kinds of programs that it is for
    rules: tuple[tuple[str, str], ...] = ()  # operations that it makes native, and how they lower
    is_speed: bool = True


# How operations lower to calls of functions outside.
_LIBRARY = {
    "collectives:lower_collective": (
        "all_extreme",
        "all_gather",
        "all_reduce",
        "broadcast",
        "reduce",
        "reduce_scatter",
    ),
    "complex_numbers:lower_complex_of": ("complex_of",),
    "complex_numbers:lower_function": ("complex function", "direction"),
    "complex_numbers:part": ("imag", "real"),
    "factorisations:banded_solve": ("solve_banded",),
    "factorisations:general_eigenvalues": ("eig", "eigvals"),
    "factorisations:schur": ("schur",),
    "factorisations:triangular_product": ("triangular_product",),
    "factorisations:triangular_sylvester": ("triangular_sylvester",),
    "fourier:lower_fourier": ("fft", "ifft", "irfft", "rfft"),
    "lanes:cholesky": ("cholesky",),
    "lanes:eigenvalues": ("eigh", "eigvalsh"),
    "lanes:least_squares": ("lstsq",),
    "lanes:lu": ("lu",),
    "lanes:pivots": ("pivots",),
    "lanes:qr": ("qr",),
    "lanes:singular_values": ("svd", "svdvals"),
    "lanes:solve": ("solve",),
    "lanes:triangular_solve": ("solve_triangular",),
    "sorting:lower_argsort": ("argsort",),
    "sorting:lower_sort": ("sort",),
}

STEPS = [
    Step(
        "lengths", "dynamic_length:lengths", ("program",), (("region", "batch_loops:lower_region"),)
    ),
    Step("regions", "regions:regions", WHOLE, (("region", "batch_loops:lower_region"),)),
    Step(
        "scans",
        rules=(
            ("scan", "repeat:lower_scan"),
            ("while", "turns:lower_while"),
            ("switch", "branches:lower_switch"),
        ),
    ),
    Step("products", rules=(("contract", "products:lower_product"),)),
    Step(
        "library", rules=tuple((name, rule) for rule, names in _LIBRARY.items() for name in names)
    ),
    Step("keeps"),
    Step("lower", "fusion:lower", (*WHOLE, "step"), is_speed=False),
    Step("epilogues", "epilogues:epilogues"),
    Step("prologues", "prologues:prologues"),
    Step("checks", "checks:place_checks", (*WHOLE, "step"), is_speed=False),
    Step("pieces", "shaping:pieces", (*WHOLE, "step")),
    Step("joins", "joining:joins", ("step",)),
    Step("orders", "shaping:orders", (*WHOLE, "step")),
    Step("threads", "parallel:threads", (*WHOLE, "step")),
    Step("memory", "memory:plan", ("program", "chunked"), is_speed=False),
    Step("chunks", "chunked:chunks", ("program",), (("chunks", "chunked:lower_chunks"),)),
    # What `passes`, `codegen` and `jit` do for speed, and leave out as they are told here. Passes:
    # 10 % on `recurrent: RNN 64, 28 x 28, batch 100`. Kernels that differ only in their memory
    # share code: `compile: chain graph`. Native entries: 0.2 us instead of 23 us on `call`.
    # Programs kept on disk: `compile: first call, from the disk cache`.
    Step("passes", within=("program",)),
    Step("kernels", within=("program",)),
    Step("entries", within=("program",)),
    Step("records", within=("program",)),
]

SPEED = [step.name for step in STEPS if step.is_speed]


def schedule(
    graph: Graph,
    input_strides: Strides | None = None,
    any_length: AnyLength | None = None,
    watch: Callable[[Step, bool, Any, list[str]], None] | None = None,
) -> LoopProgram:
    """The loops that compute a graph, in all their steps; for any length, if so asked.

    `watch(step, is_on, work, notes)` sees every step, the graph or the loops after it, and what it
    tells of its decisions.
    """
    return run(
        Task(
            graph=graph,
            steps=_chosen(setting()),
            run=run,
            rule=rule_for,
            notes=[],
            input_strides=input_strides,
            any_length=any_length,
            watch=watch,
        )
    )


def is_on(name: str) -> bool:
    """Whether a speed step is on, as the environment says."""
    return name in _chosen(setting())


@functools.cache
def _chosen(text: str) -> frozenset[str]:
    return choose_steps(SPEED, text)


def run(task: Task, work: Any = None) -> Any:
    """All steps of a task, one after the other, on its graph or on what it has become so far."""
    work = task.graph if work is None else work
    for step in STEPS:
        is_on = not step.is_speed or task.has(step.name)
        if task.kind not in step.within:
            task.note(lambda: "a step of programs inside this one")
        elif is_on and step.function:
            work = load(step.function)(work, task)
        if task.watch is not None:
            task.watch(step, is_on, work, task.notes[:])
            task.notes.clear()
    return work


def rule_for(task: Task, operation: str) -> Any:
    """How an operation lowers that only steps know which are on; None: it does not."""
    for step in STEPS:
        for name, function in step.rules:
            if name == operation and task.has(step.name):
                return load(function)
    return None


def load(place: str) -> Any:
    """The function at `module:function` of this folder."""
    module, name = place.split(":")
    return getattr(importlib.import_module(f".{module}", __package__), name)
