"""All that the page shows of one compilation, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..codegen.linked import lines_of_stores, lines_of_sums, linked_code
from ..graph import Graph, Node
from ..loops import Contraction, Kernel, LoopProgram
from ..machine import Machine, compiling_for
from ..rates import Floor, measure_floor
from . import arena, code, kernels, teaching
from .graphs import Graphs
from .sources import Sources

_SUM = "+="  # in place of the beginning of the statement that adds up a product
# The parts of the page that speak of lengths of axes.
_WITH_LENGTHS = ("arguments", "stages", "kernels", "nodes", "buffers", "arena")


@dataclass
class Stage:
    """A pass or a step of the schedule: what it has made, and what it says."""

    name: str
    kind: str  # "trace", "pass" or "step"
    graph: Graph | None  # None: the program consists of loops now
    text: str = ""  # what has changed, in words
    notes: Sequence[str] = ()
    loops: str = ""


@dataclass
class Compilation:
    """What the page is made of."""

    name: str
    arguments: Sequence[str]
    clock: Mapping[str, float]
    steps: Sequence[Stage]
    graph: Graph
    loops: LoopProgram
    target: Any
    native: Any  # the LLVM module of the loops, with the names of its functions
    memory: Mapping[str, int]
    regions: str
    stored: Sequence[Any] = ()  # what in that belongs to which store
    measured: kernels.Seconds = field(default_factory=dict)  # seconds
    measured_inside: kernels.Seconds = field(default_factory=dict)
    to_run: Graph | None = None  # the graph as it is for the arguments at hand
    values: Sequence[Any] | None = None  # of its inputs
    named: Callable[[str], str] = str  # text with a name for the length that stands for any


def timed(made: Compilation) -> tuple[list[kernels.Entry], Sources, Floor]:
    """The kernels with their times and floors, the lines with theirs, and the rates behind it."""
    sources = Sources(step.graph for step in made.steps if step.graph is not None)
    entries = kernels.tree_of(made.loops.kernels)
    for entry in entries:
        if entry.parent is None and entry.kernel in made.measured:
            entry.seconds = made.measured[entry.kernel]
            entry.shares(made.measured_inside)
    floor = _at_least(measure_floor(quick=True), made.target)
    with compiling_for(made.target):
        kernels.set_floors(entries, floor, made.target)
    _count_lines(entries, sources)
    return entries, sources, floor


def page_data(made: Compilation) -> dict[str, Any]:
    """The page's data, ready to be written as JSON."""
    entries, sources, floor = timed(made)
    graphs = Graphs(sources)
    stages = _stages(made.steps, graphs)
    symbols = {kernel: name for name, kernel in made.native.names.items()}
    functions = linked_code(str(made.native.module), made.target)
    own = _code(entries, symbols, functions)
    run = None
    if made.values is not None and made.to_run is not None:
        run = teaching.run(made.to_run, made.values, graphs)
    found = {
        "name": made.name,
        "arguments": list(made.arguments),
        "clock": dict(made.clock),
        "seconds": sum(made.measured.values()) if made.measured else None,
        "floor": sum(entry.floor for entry in entries if entry.parent is None),
        "rates": {"flops": floor.flops_all, "bytes": floor.bandwidth_all},
        "memory": dict(made.memory),
        "regions": made.regions,
        "stages": stages,
        "kernels": [
            {**kernels.as_data(entry, symbols.get(entry.kernel), _number(graphs))}
            for entry in entries
        ],
        "code": own,
        "functions": {name: code.as_data(name, one) for name, one in functions.items()},
        "statements": _statements(made, entries, own),
        "arena": arena.pictures(made.loops, entries),
        "run": run,
        "nodes": graphs.nodes,
        "boxes": graphs.boxes,
        "lines": sources.lines,
        "groups": sources.groups,
        "files": sources.files(),
        "buffers": [
            *[{"use": "input", "text": str(b)} for b in made.loops.inputs],
            *[{"use": "output", "text": str(b)} for b in made.loops.outputs],
        ],
    }
    return found | {part: _renamed(found[part], made.named) for part in _WITH_LENGTHS}


def _renamed(data: Any, named: Callable[[str], str]) -> Any:
    """Plain data with each text in it renamed."""
    if isinstance(data, dict):
        return {key: _renamed(value, named) for key, value in data.items()}
    if isinstance(data, list):
        return [_renamed(value, named) for value in data]
    return named(data) if isinstance(data, str) else data


def _at_least(floor: Floor, machine: Machine) -> Floor:
    """What was measured, but no less than the machine does by its description: others may have kept
    it busy meanwhile."""
    one = 1e6 * machine.cycles * machine.flops
    return replace(
        floor,
        flops_one=max(floor.flops_one, one),
        flops_all=max(floor.flops_all, one * machine.cores),
    )


def _stages(steps: Sequence[Stage], graphs: Graphs) -> list[dict[str, Any]]:
    """Each pass and step with its nodes; those without a change of the graph take the last ones."""
    found: list[dict[str, Any]] = []
    before: dict[str, Any] = {"nodes": [], "outputs": [], "value": None}
    loops = ""
    for step in steps:
        now = before if step.graph is None else graphs.stage(step.graph)
        old, new = set(before["nodes"]), set(now["nodes"])
        changed = old != new if step.kind != "trace" else False
        stage = {
            "name": step.name,
            "kind": step.kind,
            "text": step.text,
            "notes": list(step.notes),
            "added": len(new - old) if changed else 0,
            "gone": len(old - new) if changed else 0,
            "loops": step.loops if step.loops != loops else "",
        }
        stage["changed"] = changed or bool(stage["loops"])
        if changed or not found:
            stage |= now
        found.append(stage)
        before, loops = now, step.loops or loops
    return found


def _count_lines(entries: Sequence[kernels.Entry], sources: Sources) -> None:
    """Share the time of each kernel among the lines that it comes from."""
    for entry in entries:
        if entry.children or not entry.seconds or not entry.nodes:
            continue
        weights = kernels.weights_of(entry.nodes)
        whole = sum(weights) or 1.0
        for node, weight in zip(entry.nodes, weights, strict=True):
            group = sources.of(node)
            if group >= 0:
                sources.count(group, entry.seconds * weight / whole)


def _number(graphs: Graphs) -> Callable[[Node], int | None]:
    return lambda node: node.serial if node.serial in graphs.nodes else None


def _statements(
    made: Compilation, entries: Sequence[kernels.Entry], own: Mapping[int, Sequence[str]]
) -> dict[str, dict[int, str]]:
    """For each function the beginning of the statement that a line of LLVM belongs to; tiles, which
    products share, have that of any product."""
    module = made.native.module
    found = {
        name: {number: f"{store.buffer.name}[{store.at}" for number, store in lines.items()}
        for name, lines in lines_of_stores(module, made.stored).items()
    }
    for entry in entries:
        if isinstance(entry.kernel, Contraction):
            for name in own.get(entry.number, ()):
                for number in lines_of_sums(module.globals[name]):
                    found.setdefault(name, {}).setdefault(number, _SUM)
    return found


def _code(
    entries: Sequence[kernels.Entry], symbols: Mapping[Kernel, str], functions: Mapping[str, Any]
) -> dict[int, list[str]]:
    names = set(symbols.values())
    return {
        entry.number: code.functions_of(symbols[entry.kernel], functions, names)
        for entry in entries
        if entry.kernel in symbols
    }
