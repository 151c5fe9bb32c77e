"""A captured function -> passes -> loops -> machine code: one program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from ..graph import Graph
from ..loops import Buffer, LoopProgram, c_strides
from ..machine import compiling_for, policy
from ..schedule import schedule
from ..schedule.memory import loops_of
from ..schedule.setting import setting, with_setting
from ..schedule.steps import is_on
from . import debugging
from .arguments import ANY, Leaf, element_strides
from .dynamic import at_length
from .frames import CallLayout
from .program import Program, object_cache
from .tracing import Captured, StaticResult
from .verifying import verification

if TYPE_CHECKING:
    from ..codegen.target import Target
    from ..loops import Loop
    from ..passes.lengths import AnyLength


class Stages:
    """What the stages of a compilation made; for looking inside."""

    def __init__(
        self, captured: Captured, leaves: Sequence[Leaf], clock: debugging.Clock, target: Target
    ):
        self.captured, self.target = captured, target
        self.steps = setting()  # what chooses them
        self.graph: Graph = captured.graph
        self.passes: list[tuple[str, Graph]] = []
        self.any_length: AnyLength | None = None
        with compiling_for(target):
            self._run(leaves, clock)

    def _run(self, leaves: Sequence[Leaf], clock: debugging.Clock) -> None:
        captured = self.captured
        with clock("passes"):
            family = captured.family
            self.optimised = _optimised(
                self.graph,
                lambda name, graph: self.passes.append((name, graph)),
                family is not None,
            )
            if family is not None:
                from ..passes.lengths import for_any_length

                others = [_optimised(graph, None, True) for graph in family.graphs[1:]]
                self.any_length = for_any_length(family.changed([self.optimised, *others]))
                self.optimised = self.any_length.graph
                leaves = at_length(leaves, self.any_length.example)
        with clock("schedule"):
            self.strides = self._strides(leaves)
            self.loops: LoopProgram = self.schedule()
            self.direct = _direct(captured, self.loops)

    def schedule(self, watch: Any = None) -> LoopProgram:
        """The loops of the optimised graph; `watch` sees every step."""
        with compiling_for(self.target), with_setting(self.steps):
            return schedule(self.optimised, self.strides, self.any_length, watch)

    def _strides(self, leaves: Sequence[Leaf]) -> list[tuple[int, ...]]:
        state = self.graph.inputs[len(leaves) :]
        return [*map(element_strides, leaves), *(c_strides(node.type.shape) for node in state)]

    def types(self, nodes: Sequence[Any]) -> list[tuple[np.dtype, tuple[int, ...]]]:
        """Dtypes and shapes of nodes, with `ANY` along the axis of any length."""
        axes = {} if self.any_length is None else self.any_length.axes
        return [
            (
                node.type.dtype,
                tuple(
                    ANY if axes.get(node.serial) == axis else n
                    for axis, n in enumerate(node.type.shape)
                ),
            )
            for node in nodes
        ]


def _optimised(graph: Graph, watch: Callable[[str, Graph], None] | None, any_length: bool) -> Graph:
    """The graph after all passes, or after the one without which operations have no loops."""
    if is_on("passes"):
        from ..passes import optimise

        return optimise(graph, watch, any_length)
    from ..passes.expand import expand

    graph = expand(graph)
    if watch is not None:
        watch(expand.__name__, graph)
    return graph


def _direct(captured: Captured, loops: LoopProgram) -> list[bool]:
    """For each piece of state that is written, whether that may happen in place.

    Also decides which kernels may end early: none of a short program, and none from the first on
    that writes state in place.
    """
    works = [kernel.work for kernel in reversed(loops.kernels)]
    costs = list(accumulate(works))[::-1]  # of every kernel with all that follow
    least = policy().costs.long_program
    is_long = bool(costs) and (costs[0] >= least or loops.length is not None)
    loops.watched = len(loops.kernels) if is_long else 0
    if not captured.written:
        return []
    from .placement import direct

    return direct(captured, loops, costs)


def _layout(stages: Stages, constants: Sequence[Buffer], workspace: int) -> CallLayout:
    """The layout of a planned program, whose kernels need workspace behind the arena."""
    loops = stages.loops
    return CallLayout(
        stages.types(stages.optimised.inputs),
        stages.types(stages.optimised.outputs),
        # copies: the program must not change with an array that the function has captured
        _copies(constants),
        loops.arena_bytes + workspace,
        _work(loops),
        loops.room_bytes,
    )


def _work(loops: LoopProgram) -> int:
    """How much a call does: the elements of the largest buffer, or what a loop of many steps
    costs."""
    sizes = [b.size for b in [*loops.inputs, *loops.outputs]]
    steps = [k.work for k in loops.kernels if any(map(_is_steps, loops_of([k])))]
    return max([*sizes, *steps], default=0)


def _is_steps(loop: Loop) -> bool:
    """Whether it is a loop over steps, or over chunks."""
    return not loop.parallel and loop.blocks is None


def _copies(constants: Sequence[Buffer]) -> list[np.ndarray]:
    copies: dict[Any, np.ndarray] = {}  # an array that is used twice is kept once
    found = []
    for b in constants:
        value = np.asarray(b.value)
        key = (value.ctypes.data, value.dtype, b.dtype, value.shape, value.strides)
        if key not in copies:
            copies[key] = np.array(value, b.dtype, order="C")
        found.append(copies[key].reshape(b.shape))
    return found


def build(
    name: str,
    captured: Captured,
    leaves: Sequence[Leaf],
    prepare: Callable[[Program], Any],
    clock: debugging.Clock,
    target: Target,
    threads: int | None = None,
) -> tuple[Program, Any]:
    """Compile a captured function for a machine; the program, and the entry for the call at hand or
    None.

    `prepare` gives the signature of that call, or None.
    """
    from ..codegen.compile import compile_module
    from ..codegen.program import emit_program

    stages = Stages(captured, leaves, clock, target)
    with clock("emit"):
        native = emit_program(stages.loops, target, threads)
        program = Program(
            name,
            leaves,
            _layout(stages, native.constants, native.workspace_bytes),
            captured.structure,
            [r if isinstance(r, StaticResult) else None for r in captured.results],
            None,
            native.segments,
            captured.changes,
            stages,
            [*stages.loops.inputs, *stages.loops.outputs, *native.constants],
            stages.direct,
            clock,
        )
        signature = prepare(program)
        program.signature_text = repr(signature)
        has_entry = False
        if signature is not None:
            from .entries import add_entry, bind, emit_around

            has_entry = emit_around(native.module, program, signature)
    cache, symbols = object_cache() if is_on("records") else None, _symbols(stages.loops, signature)
    with clock("compile"):
        text: Callable[[Any], str] = str
        if is_on("records"):
            from ..codegen.writing import text_of as text
        written = text(native.module)
        verified = verification(stages)
        program.compiled = compile_module(written, target, cache=cache, symbols=symbols)
    with clock("verify"):
        verified.finish()
    with clock("link"):
        entry = bind(program, signature, program.compiled, "entry") if has_entry else None
    if signature is not None and not has_entry:
        with clock("entry"):
            entry = add_entry(program, signature)
    return program, entry


def _symbols(loops: LoopProgram, signature: Any) -> dict[str, int]:
    """The functions of Python that the code calls: entries, and kernels that Ctrl-C may end."""
    if signature is None and not loops.watched:
        return {}
    from ..runtime.builtin import c_api_addresses

    return c_api_addresses()
