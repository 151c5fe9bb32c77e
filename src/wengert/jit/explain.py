"""Looking inside a compiled function: every stage as text, and one page with all of them."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import html
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..graph import Graph
from ..graph.drawing import to_svg
from ..loops import Check, Contraction, Host, Kernel, LibraryCall, Loop, LoopProgram, inside
from ..machine import compiling_for
from ..schedule.building import RegionOp
from ..schedule.chunking import tell_chunks
from ..schedule.memory import arena_bytes
from ..schedule.regions import tell_regions
from ..schedule.steps import Step
from .dynamic import sized
from .frames import Frame
from .hosting import Values, host_lines
from .program import Program

_WORD = ctypes.c_int64
_ENOUGH_SECONDS = 0.05  # of measuring, after the first few runs
_FEW, _MANY = 3, 100
_KINDS: dict[type, str] = {
    LibraryCall: "call of a library",
    Check: "check",
    Contraction: "product",
    Host: "call of NumPy",
}
_DRAWABLE = 150  # nodes: a picture of more is not looked at


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

    def __init__(self, program: Program, values: Sequence[Any] | None):
        self.program = program
        self._values = values
        self._times: list[tuple[str, float]] | None = None
        self._inside: list[tuple[str, float]] = []

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
        length = None if self._values is None else self.program.length_of(self._values)
        plan = self.program.memory(length)
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
            f"{1e6 * seconds:>12.2f} us {100 * seconds / total:>5.1f} %  {label}"
            for label, seconds in rows
        ]
        lines.append(f"{1e6 * sum(s for _, s in rows):>12.2f} us in all")
        if self._inside:
            lines.append("inside the batch loops, a block on one thread:")
            block = sum(seconds for _, seconds in self._inside) or 1.0
            lines += [
                f"{1e6 * seconds:>12.2f} us {100 * seconds / block:>5.1f} %  {label}"
                for label, seconds in self._inside
            ]
        return "\n".join(lines)

    @property
    def times(self) -> list[tuple[str, float]]:
        """Label and seconds of every kernel, in order; the least of several runs."""
        if self._times is None:
            if self._values is None:
                raise ValueError("explain: no arguments to measure with; call jf.explain(*args)")
            self._times, self._inside = _measure(self.program, self._values)
        return self._times

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

    def html(self, path: str | os.PathLike[str]) -> str:
        """Write one page with everything, that needs nothing else; returns the path."""
        sections = [
            *self._sections(),
            ("passes one by one", self.passes),
            ("LLVM", self.llvm),
            ("assembly", self.assembly),
        ]
        body = "\n".join(
            f"<details{' open' if number < 5 else ''}><summary>{html.escape(title)}</summary>"
            f"<pre>{html.escape(text)}</pre></details>"
            for number, (title, text) in enumerate(sections)
        )
        name = html.escape(self.program.name)
        page = _PAGE.format(
            name=name, stages=self.program.clock, picture=self._picture(), body=body
        )
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)
        return os.fspath(path)

    def _picture(self) -> str:
        graph = self._stages.optimised
        if len(graph.nodes) > _DRAWABLE:
            return f"<p>{len(graph.nodes)} nodes: too many for a picture.</p>"
        return to_svg(graph)


class StepTexts:
    """Sees the steps of the schedule, and says what each of them has changed."""

    def __init__(self, graph: Graph):
        self.work: Any = graph
        self.before = _counted(graph)
        self.lines = [f"the graph: {self.before}"]

    def watch(self, step: Step, is_on: bool, work: Any, notes: list[str]) -> None:
        """Note what a step has made of the graph or the loops."""
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


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{name}</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; }}
pre {{ overflow-x: auto; background: #f6f6f4; padding: 1em; font-size: 12.5px; line-height: 1.35; }}
summary {{ font-weight: 600; cursor: pointer; padding: .4em 0; }}
svg {{ max-width: 100%; height: auto; }}
@media (prefers-color-scheme: dark) {{
  body {{ background: #181818; color: #ddd; }} pre {{ background: #222; }}
  svg {{ background: #fff; }}
}}
</style></head><body>
<h1>{name}</h1>
<p>{stages}</p>
{body}
<details><summary>picture of the graph after the passes</summary>{picture}</details>
</body></html>
"""


# ---------------------------------------------------------------- time per kernel


def _named_kernels(kernels: Sequence[Kernel]) -> Iterator[tuple[str | None, Kernel]]:
    """Every kernel with the name of its native function; None where it has none."""
    segment, number, before_native = -1, 0, False
    for kernel in kernels:
        if isinstance(kernel, Host):
            segment, before_native = segment + 1, False
            yield None, kernel
            continue
        if not before_native:
            segment, number, before_native = segment + 1, 0, True
        yield None if isinstance(kernel, Check) else f"kernel{segment}.{number}", kernel
        number += 1


_Times = list[tuple[str, float]]


def _measure(program: Program, values: Sequence[Any]) -> tuple[_Times, _Times]:
    """Every kernel several times, in order, on memory of its own; and those inside batch loops."""
    from ..codegen.compile import compile_module
    from ..codegen.program import emit_program

    assert program.stages is not None
    target = program.stages.target
    length = program.length_of(values)
    # kernels that no watch can end have two arguments, all of them
    loops = dataclasses.replace(program.stages.loops, watched=0)
    native = emit_program(loops, target)
    names = list(_named_kernels(loops.kernels))
    inside = [part for name, kernel in names for part in _in_blocks(name, kernel)]
    for name in [*[name for name, _ in names], *[name for name, _ in inside]]:
        if name is not None and name in native.module.globals:
            native.module.globals[name].linkage = ""
    compiled = compile_module(native.module, target)
    arrays = [np.asarray(v, b.dtype) for v, b in zip(values, loops.inputs, strict=False)]
    arrays += [state.cell.memory.copy() for state in program.state if state.read]
    arrays += [np.empty(sized(shape, length), dtype) for dtype, shape in program.layout.outputs]
    arrays += [np.array(b.value, b.dtype, order="C") for b in native.constants]
    buffers = [*loops.inputs, *loops.outputs, *native.constants]
    frame = Frame(program)
    frame.fill(arrays, length)
    seen = Values(buffers, frame.arena, passing=False)
    seen.slots[:] = arrays
    own = frame.base + loops.arena_bytes
    memory = [frame.table, frame.base, own]
    steps: list[tuple[Kernel, Any]] = []
    for name, kernel in names:
        if isinstance(kernel, Host):
            steps.append((kernel, seen.compiled(host_lines(kernel, seen, len(steps)))))
        elif name is not None and name in compiled.exports:
            steps.append((kernel, _call(compiled.address(name), memory)))
    times = _least(steps)
    steps = []
    for name, block in inside:
        # the first block of the first share, in the memory of the first worker
        kernel, loop = block
        assert loop.blocks is not None
        live = min(loop.blocks.width, length or loop.blocks.extent)
        given = [0, 0, own, 0, live] if loop.private else [0, 0, 0, live]
        behind = [frame.table, frame.base, own + loop.private_bytes]
        steps.append((kernel, _call(compiled.address(name), [*behind, *given])))
    return times, _least(steps)


def _in_blocks(name: str | None, kernel: Kernel) -> Iterator[tuple[str, tuple[Kernel, Loop]]]:
    """The kernels of blocks inside of a batch loop, with the names of their functions."""
    if not isinstance(kernel, Loop):
        return
    for number, loop in enumerate(kernel.body):
        if isinstance(loop, Loop) and loop.blocks is not None:
            for place, part in enumerate(loop.body):
                yield f"{name}.in{number}.in{place}", (part, loop)


def _call(address: int, words: Sequence[int]) -> Callable[[], None]:
    """A call of a native function without a result, with these numbers and addresses."""
    return functools.partial(ctypes.CFUNCTYPE(None, *[_WORD] * len(words))(address), *words)


def _least(steps: Sequence[tuple[Kernel, Any]]) -> list[tuple[str, float]]:
    best = [float("inf")] * len(steps)
    start = time.perf_counter()
    for number in range(_MANY):
        for place, (_, run) in enumerate(steps):
            before = time.perf_counter()
            run()
            best[place] = min(best[place], time.perf_counter() - before)
        if number >= _FEW and time.perf_counter() - start > _ENOUGH_SECONDS:
            break
    return [(_label(kernel), seconds) for (kernel, _), seconds in zip(steps, best, strict=True)]


def _label(kernel: Kernel) -> str:
    first = str(kernel).splitlines()
    return " ".join(line.strip() for line in first[:2])[:100]
