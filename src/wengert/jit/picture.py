"""What the page shows of a compiled function, put together from its stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..codegen.program import emit_program
from ..graph import Graph
from ..lines import in_detail
from ..page import Compilation
from ..page.building import Stage
from .building import Stages
from .debugging import Clock
from .inside import memory_of, traced_for
from .measuring import Measured, measure

if TYPE_CHECKING:
    from .explain import Explanation


def compilation(story: Explanation) -> Compilation:
    """All that the page is made of."""
    program, stages = story.program, stages_in_detail(story)
    steps, loops = _steps(story, stages)
    measured = Measured([], [])
    if story._values is not None:
        measured = measure(program, story._values, loops)
    return Compilation(
        name=program.name,
        arguments=[
            f"{node.name}: {node.type}" for node in stages.graph.inputs[: len(program.leaves)]
        ],
        clock=program.clock.seconds,
        steps=steps,
        graph=stages.graph,
        loops=loops,
        target=stages.target,
        native=measured.native or emit_program(loops, stages.target, program.threads),
        stored=measured.stored,
        memory=memory_of(program, story._values),
        regions=story.regions,
        measured=dict(measured.kernels),
        measured_inside=dict(measured.inside),
        to_run=_graph_to_run(story, stages),
        values=_values(story),
        named=story._named,
    )


def stages_in_detail(story: Explanation) -> Any:
    """The stages, with all there is to tell of lines, if they come out the same once more."""
    if story._call is not None:
        jitted, args, kwargs = story._call
        with in_detail():
            captured = jitted.captured(*args, **kwargs)
            found = Stages(captured, story.program.leaves, Clock(), story._stages.target)
        if str(found.loops) == str(story._stages.loops):
            return found
    return story._stages


def _steps(story: Explanation, stages: Any) -> tuple[list[Stage], Any]:
    """Each pass and step with what it made, and the loops at the end."""
    from .explain import StepTexts

    before = stages.graph
    steps = [Stage("traced", "trace", before, f"{len(before.operators)} operators")]
    for name, graph in stages.passes:
        same = graph is before or str(graph) == str(before)
        text = (
            "no change" if same else f"{len(before.operators)} → {len(graph.operators)} operators"
        )
        steps.append(Stage(name, "pass", before if same else graph, text))
        before = steps[-1].graph
    texts = StepTexts(stages.optimised)

    def watch(step: Any, is_on: bool, work: Any, notes: list[str]) -> None:
        change = texts.watch(step, is_on, work, notes)
        is_graph = isinstance(work, Graph)
        steps.append(
            Stage(
                step.name,
                "step",
                work if is_graph else None,
                change.replace("->", "→"),
                [line for note in notes for line in note.splitlines()],
                "" if is_graph else str(work),
            )
        )

    return steps, stages.schedule(watch)


def _graph_to_run(story: Explanation, stages: Any) -> Any:
    """The graph for the arguments at hand: that of a program for any length is for another one."""
    if not story.program.any_length:
        return stages.graph
    if story._call is None:
        return None
    jitted, args, kwargs = story._call
    call = jitted._order(args, kwargs)
    leaves, key = jitted._key(call)
    with in_detail():
        return traced_for(jitted, call, key, leaves)


def _values(story: Explanation) -> list[Any] | None:
    """What the inputs of the graph hold: the arguments, then the state that is read."""
    if story._values is None:
        return None
    state = [np.array(one.cell.memory) for one in story.program.state if one.read]
    return [*story._values, *state]
