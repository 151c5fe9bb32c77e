"""Looking inside a compiled function: every stage as text, and one page with all of them."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..graph import Graph
from ..loops import Check, Contraction, Host, Kernel, LibraryCall, Loop, LoopProgram, inside
from ..machine import compiling_for
from ..schedule.building import RegionOp
from ..schedule.chunking import tell_chunks
from ..schedule.memory import arena_bytes
from ..schedule.regions import tell_regions
from ..schedule.steps import Step
from .inside import memory_of
from .measuring import Measured, label, measure
from .program import Program

_KINDS: dict[type, str] = {
    LibraryCall: "call of a library",
    Check: "check",
    Contraction: "product",
    Host: "call of NumPy",
}


class Explanation:
    """The story of one compilation. `print` tells it; the parts are attributes, all text.

    >>> import numpy as np
    >>> import wengert as wg
    >>> story = wg.jit(lambda x: np.sum(x * x)).explain(np.ones(3))
    >>> print(story.loops)  # doctest: +ELLIPSIS
    input  in0: f64[3]
    output out1: f64
    ...
    """

    def __init__(
        self,
        program: Program,
        values: Sequence[Any] | None,
        call: tuple[Any, tuple, dict] | None = None,
    ):
        self.program = program
        self._values = values
        self._call = call  # the function with its arguments, to be traced anew
        self._measured: Measured | None = None

    @property
    def graph(self) -> str:
        """The graph as traced, derivatives included; `n` is the length of dynamic axes."""
        return self._named(str(self._stages.graph))

    def _named(self, text: str) -> str:
        """Text of a stage, with a name for the length that stands for any."""
        found = self._stages.any_length
        return text if found is None else re.sub(rf"\b{found.example}\b", "n", text)

    @property
    def passes(self) -> str:
        """The graph after every pass that changed it."""
        found, before = [], self.graph
        for name, graph in self._stages.passes:
            after = self._named(str(graph))
            found.append(f"after {name}: " + ("no change" if after == before else f"\n{after}"))
            before = after
        return "\n".join(found)

    @property
    def regions(self) -> str:
        """What runs block by block along an axis, why that ends, and what stays outside; where the
        batch is worked through in chunks, this for one of them."""
        if self._stages.any_length is not None:
            return "one program for any length: all along the dynamic axis runs block by block"
        with compiling_for(self._stages.target):
            return tell_chunks(self._stages.loops) or tell_regions(self._stages.optimised)

    @property
    def schedule(self) -> str:
        """The steps from the graph to the loops: what each has made of it, and why."""
        steps = StepTexts(self._stages.optimised)
        self._stages.schedule(steps.watch)
        return self._named("\n".join(steps.lines))

    @property
    def loops(self) -> str:
        """The loops, with the buffers they work on."""
        return self._named(str(self._stages.loops))

    @property
    def memory(self) -> str:
        """The memory plan, in bytes."""
        plan = memory_of(self.program, self._values)
        allocated = plan.pop("allocations_per_call"), plan.pop("allocations_with_out")
        lines = [f"{use + ':':<11}{count:>14,} bytes" for use, count in plan.items()]
        made = "arrays that a call allocates: {}, with out= {}".format(*allocated)
        return "\n".join([*lines, made])

    @property
    def llvm(self) -> str:
        """The LLVM IR."""
        return self._compiled._text or ""

    @property
    def assembly(self) -> str:
        """The machine code as assembly."""
        return self._compiled.assembly()

    @property
    def time(self) -> str:
        """How long each kernel takes, measured with the arguments given to `explain`."""
        rows = self.times
        total = sum(seconds for _, seconds in rows) or 1.0
        lines = [
            f"{1e6 * seconds:>12.2f} us {100 * seconds / total:>5.1f} %  {name}"
            for name, seconds in rows
        ]
        lines.append(f"{1e6 * sum(s for _, s in rows):>12.2f} us in all")
        inside = self._measure().inside
        if inside:
            lines.append("inside the batch loops, a block on one thread:")
            block = sum(seconds for _, seconds in inside) or 1.0
            lines += [
                f"{1e6 * seconds:>12.2f} us {100 * seconds / block:>5.1f} %  {label(kernel)}"
                for kernel, seconds in inside
            ]
        return "\n".join(lines)

    @property
    def times(self) -> list[tuple[str, float]]:
        """Label and seconds of every kernel, in order; the least of several runs."""
        return [(label(kernel), seconds) for kernel, seconds in self._measure().kernels]

    def _measure(self) -> Measured:
        if self._measured is None:
            if self._values is None:
                raise ValueError("explain: no arguments to measure with; call jf.explain(*args)")
            self._measured = measure(self.program, self._values)
        return self._measured

    @property
    def hosts(self) -> list[str]:
        """The operations that NumPy evaluates from inside the program."""
        return [str(k) for k in self._stages.loops.kernels if isinstance(k, Host)]

    @property
    def _stages(self) -> Any:
        assert self.program.stages is not None
        return self.program.stages

    @property
    def _compiled(self) -> Any:
        """The code with its text; a program from the cache is generated once more for it."""
        compiled = self.program.compiled
        if compiled._text is not None:
            return compiled
        from ..codegen.compile import compile_module
        from ..codegen.program import emit_program

        target = self._stages.target
        module = emit_program(self._stages.loops, target, self.program.threads).module
        return compile_module(module, target)

    def _sections(self) -> list[tuple[str, str]]:
        hosts = self.hosts
        native = "all of it is native code"
        note = "evaluated by NumPy: " + "; ".join(hosts) if hosts else native
        sections = [
            ("graph", self.graph),
            ("after the passes", self._named(str(self._stages.optimised))),
            ("schedule", self.schedule),
            ("regions", self.regions),
            (f"loops ({note})", self.loops),
            ("memory", self.memory),
        ]
        if self._values is not None:
            sections.append(("time per kernel", self.time))
        return sections

    def __str__(self) -> str:
        lengths = ", one program for any length n" if self.program.any_length else ""
        head = f"{self.program.name}{lengths}: {self.program.clock}"
        return "\n\n".join([head, *(f"# {title}\n{text}" for title, text in self._sections())])

    def __repr__(self) -> str:
        return f"<explanation of {self.program.name}; print it, or write it with .html(path)>"

    def _repr_html_(self) -> str:
        """The page, in a frame of its own."""
        from html import escape

        from ..page import page_text

        page = escape(page_text(self.page_data()), quote=True)
        style = "width:100%;height:720px;border:1px solid #ddd;border-radius:8px"
        return f'<iframe style="{style}" srcdoc="{page}"></iframe>'

    def html(self, path: str | os.PathLike[str]) -> str:
        """Write one page with everything, that needs nothing else; returns the path."""
        from ..page import write_page

        return write_page(self.page_data(), path)

    def page_data(self) -> dict[str, Any]:
        """All that the page shows, as plain data."""
        from ..page import page_data
        from .picture import compilation

        return page_data(compilation(self))


class StepTexts:
    """Sees the steps of the schedule, and says what each of them has changed."""

    def __init__(self, graph: Graph):
        self.work: Any = graph
        self.before = _counted(graph)
        self.lines = [f"the graph: {self.before}"]

    def watch(self, step: Step, is_on: bool, work: Any, notes: list[str]) -> str:
        """Note what a step has made of the graph or the loops; gives what has changed."""
        after = _counted(work)
        if not is_on:
            change = "left out"
        elif not step.function and not step.rules:
            change = "on"
        elif not step.function:
            names = [name for name, _ in step.rules]
            counts = Counter(node.op.name for node in self.work.operators)
            found = sum(counts[name] for name in names)
            change = f"{found} of {names[0]}" if found else "nothing to do"
        else:
            change = "no change" if after == self.before else f"{self.before} -> {after}"
        self.lines += [f"{step.name}: {change}"]
        self.lines += [f"  {line}" for note in notes for line in note.splitlines()]
        self.work, self.before = work, after
        return change


def _counted(work: Graph | LoopProgram) -> str:
    """How much a graph or its loops consist of."""
    if isinstance(work, Graph):
        names = Counter(
            "region" if isinstance(node.op, RegionOp) else "operator" for node in work.operators
        )
    else:
        names = Counter(map(_kind, work.kernels))
    parts = [f"{n} {name}" + "s" * (n != 1) for name, n in names.items()]
    if not isinstance(work, Graph):
        parts.append(f"arena of {arena_bytes(work):,} bytes")
    return ", ".join(parts) or "nothing"


def _kind(kernel: Kernel) -> str:
    """What a kernel is, in a word or two."""
    if not isinstance(kernel, Loop):
        return _KINDS.get(type(kernel), "nest")
    loops = [part for part in inside(kernel) if isinstance(part, Loop)]
    if any(loop.blocks is not None for loop in loops):
        return "batch loop"
    return "shared nest" if all(loop.parallel for loop in loops) else "loop"
