"""The operation behind `cond` and `switch`: several programs, of which one runs.

A branch is a `Body` of one step that carries nothing: its inputs are rows, so the transforms of
bodies are those of branches. What branches derive differs from branch to branch (which values the
backward half reads, which results have a tangent), so each is brought to one signature: the union
of the inputs, and zeros for the outputs that it does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph import Constant, Graph, Node, Operator, Variable
from ..ops.elementwise import maximum, minimum, select
from ..ops.layout import broadcast_to, convert, reshape
from ..ops.logic import equal, logical_and
from ..ops.op import Op, Traced, recorder
from ..policy import Record
from ..trace import Trace
from ..types import ArrayType, Function, is_weak, type_of, weaken
from .batching import Mixed, evaluate_batched
from .bodies import (
    Body,
    Primal,
    Programs,
    Pullback,
    extract,
    passing_among,
    pullback,
    pushforward,
    with_batch,
    without_pullback,
    zeros,
)
from .modes import zero_like
from .plans import strong
from .sums import added_to, begun_with, count_uses, first_of, is_zero
from .versions import origins


class Branches(Programs):
    """Programs with the same types of inputs and outputs. Compared by identity as a param."""

    def __init__(self, bodies: Sequence[Body]):
        self.bodies = tuple(bodies)
        for number, body in enumerate(self.bodies):
            body.graph.name = f"branch {number}"
        # The backward half, where the last outputs are what it reads.
        self.backward: _Backward | None = None
        self.primal: Primal | None = None
        self._derived = {}

    @property
    def programs(self) -> tuple[Body, ...]:
        """All programs inside."""
        return self.bodies

    @property
    def types(self) -> tuple[ArrayType, ...]:
        """The types of the results: those of a Python number where it is one in every branch."""
        columns = zip(*[body.graph.outputs for body in self.bodies], strict=True)
        return tuple(_common(column) for column in columns)

    def __repr__(self) -> str:
        return f"<{len(self.bodies)} branches>"


def _common(nodes: Sequence[Node]) -> ArrayType:
    first: ArrayType = nodes[0].type
    return first if all(is_weak(node.type) for node in nodes) else strong(first)


def taken(index: Any, count: int) -> int:
    """The number of the branch that runs: the index, brought into range."""
    return int(min(max(int(index), 0), count - 1))


def _evaluate(index: Any, *values: Any, branches: Branches) -> tuple[Any, ...]:
    body = branches.bodies[taken(index, len(branches.bodies))]
    return tuple(
        weaken(value) if is_weak(t) else own(value, t)
        for value, t in zip(body.program(values), branches.types, strict=True)
    )


def own(value: Any, array_type: ArrayType) -> Any:
    """A result that is no view of an argument."""
    copied = np.array(value, array_type.dtype)
    return copied[()] if array_type.shape == () else copied


# ---------------------------------------------------------------- one signature


class _Keyed(Record, kw_only=False):
    """A graph's inputs by keys that branches have in common, and its outputs by others."""

    inputs: dict[Any, Variable]
    outputs: dict[Any, Node]


def _aligned(programs: Sequence[_Keyed], inputs: Sequence[Any], outputs: Sequence[Any]) -> Branches:
    """Branches of all these inputs and outputs, by their keys; an output that one lacks is zero."""
    types = {
        key: node.type
        for one in programs
        for key, node in [*one.inputs.items(), *one.outputs.items()]
    }
    return Branches([_with_signature(one, inputs, outputs, types) for one in programs])


def _with_signature(
    program: _Keyed, inputs: Sequence[Any], outputs: Sequence[Any], types: dict[Any, ArrayType]
) -> Body:
    fresh = {key: Variable("", None, types[key], active=False) for key in inputs}
    replaced: dict[int, Any] = {
        node.serial: fresh.get(key) or Constant(zeros(types[key]), strong(types[key]))
        for key, node in program.inputs.items()
    }
    found = [key for key in outputs if key in program.outputs]
    nodes = dict(zip(found, extract([program.outputs[k] for k in found], replaced), strict=True))
    results = [
        nodes[key] if key in nodes else Constant(zeros(types[key]), strong(types[key]))
        for key in outputs
    ]
    return Body(Graph(list(fresh.values()), results), 0, 0)


def _in_order(groups: Sequence[Sequence[Any]]) -> list[Any]:
    """The union of several lists, in the order in which their members come first."""
    return list(dict.fromkeys(key for group in groups for key in group))


# ---------------------------------------------------------------- reverse mode


class _Backward(Record, kw_only=False):
    """Branches that pull cotangents back, and what goes in and comes out.

    Keys: ("input", k) and ("output", k) of the forward branches, ("seed", k) for the cotangent of
    an output, ("cotangent", k) for that of an input, and ("sum", k) for what that is added to.
    """

    active: tuple[bool, ...]  # of the inputs that it was derived for
    forward: Branches
    outputs: int  # of the branches themselves
    programs: list[_Keyed]
    inputs: list[Any]
    seeds: list[int]
    cotangents: list[int]


def _backward(
    branches: Branches, active: tuple[bool, ...], passing: tuple[bool, ...] = ()
) -> _Backward:
    """Derive both halves. What one branch keeps and another does not, is zero there."""
    halves: list[Pullback] = [
        body.derived(pullback, active, False, passing) for body in branches.bodies
    ]
    count = len(branches.types)
    places, slots = _kept_places(halves, count)
    extended, programs = [], []
    for half, place in zip(halves, places, strict=True):
        results = half.forward.graph.outputs
        by_slot = {place[k]: results[k] for k in range(count, len(results))}
        extra = [by_slot.get(count + n) or Constant(zeros(t), t) for n, t in enumerate(slots)]
        extended.append(Body(Graph(half.forward.graph.inputs, [*results[:count], *extra]), 0, 0))
        given = [("output", place.get(k, k)) for k in half.residuals]
        given += [("input", k) for k in half.rows] + [("seed", k) for k in half.seeds]
        inner = half.backward.graph
        programs.append(
            _Keyed(
                dict(zip(given, inner.inputs, strict=True)),
                {("cotangent", k): node for k, node in zip(half.inner, inner.outputs, strict=True)},  # type: ignore[misc]
            )
        )
    forward = Branches(extended)
    for k in range(len(active)):
        _add_to_sum(programs, k)
    keys = _in_order([list(one.inputs) for one in programs])
    forward.backward = _Backward(
        active,
        forward,
        count,
        programs,
        [key for key in keys if key[0] != "seed"],
        sorted(k for kind, k in keys if kind == "seed"),
        sorted({k for one in programs for _, k in one.outputs}),
    )
    return forward.backward


def _add_to_sum(programs: Sequence[_Keyed], number: int) -> None:
    """Where every branch adds to some places of a cotangent, or to none, it is given the sum."""
    key, sums = ("cotangent", number), ("sum", number)
    firsts: list[Node | None] = []
    for one in programs:
        uses = count_uses(one.outputs.values())
        firsts.append(first_of(one.outputs[key], uses) if key in one.outputs else None)
    found = [node for one, node in zip(programs, firsts, strict=True) if key in one.outputs]
    if not found or not all(map(is_zero, found)):
        return
    for one, first in zip(programs, firsts, strict=True):
        own = found[0].type  # type: ignore[union-attr]
        total = one.inputs[sums] = Variable("", None, ArrayType(own.dtype, own.shape), active=False)
        if first is None:
            one.outputs[key] = total
            continue
        keys = list(one.outputs)
        nodes = begun_with([one.outputs[k] for k in keys], {first.serial: total})
        one.outputs.update(zip(keys, nodes, strict=True))


def _kept_places(
    halves: Sequence[Pullback], count: int
) -> tuple[list[dict[int, int]], list[ArrayType]]:
    """Where each branch puts what it keeps, by the number of its output, and the types of these
    places: branches share them, as only one of them runs."""
    slots: list[ArrayType] = []
    places: list[dict[int, int]] = []
    for half in halves:
        free = list(range(len(slots)))
        place: dict[int, int] = {}
        for k, node in enumerate(half.forward.graph.outputs[count:], count):
            own = strong(node.type)  # type: ignore[union-attr]
            slot = next((n for n in free if slots[n] == own), None)
            if slot is None:
                slot = len(slots)
                slots.append(own)
            else:
                free.remove(slot)
            place[k] = count + slot
        places.append(place)
    return places, slots


class _SwitchOp(Op):
    """Recorded where reverse mode may follow, the branches give out what that will need."""

    def __call__(self, index: Any, *args: Any, branches: Branches) -> Any:
        trace = recorder((index, *args))
        if trace is None:
            return self.compute((index, *args), {"branches": branches})
        count = len(branches.types)
        active = tuple(
            isinstance(arg, Traced) and arg._trace is trace and trace.node_of(arg).active
            for arg in args
        )
        if trace.stores and any(active):
            branches = branches.derived(_backward, active, passing_among(args, trace)).forward
        elif not trace.stores:
            branches = branches.derived(_forget)
        return trace.record(self, (index, *args), {"branches": branches})[:count]


def _forget(branches: Branches) -> Branches:
    """The same branches, where what was kept for another trace is a result like any other."""
    if branches.backward is None:
        return branches
    return Branches([without_pullback(body) for body in branches.bodies])


def _pull(node: Operator, g: Sequence[Any], take: Function) -> list[Any]:
    active = tuple(source.active for source in node.inputs[1:])
    index, *values = [source.output for source in node.inputs]
    half = node.params["branches"].backward
    if half is None or half.active != active or any(part is not None for part in g[half.outputs :]):
        return pull_switch(active, index, values, g, node.params["branches"])
    return _run_backward(half, index, values, node.output, g, take)


def pull_switch(
    active: tuple[bool, ...], index: Any, values: Sequence[Any], g: Sequence[Any], branches: Any
) -> list[Any]:
    """The pullback at these values; what it reads of the branch is computed anew."""
    half = branches.derived(_backward, active)
    results = switch_op(index, *values, branches=half.forward)
    return _run_backward(half, index, values, results, g)


def _run_backward(
    half: _Backward,
    index: Any,
    values: Sequence[Any],
    results: Sequence[Any],
    g: Sequence[Any],
    take: Function = lambda number: None,
) -> list[Any]:
    seeds = [("seed", k) for k in half.seeds if g[k] is not None]
    wanted = [("cotangent", k) for k in half.cotangents]
    if not wanted or not seeds:
        return [None] * (len(values) + 1)
    backward = _aligned(half.programs, [*half.inputs, *seeds], wanted)
    given: dict[str, Any] = {"input": values, "output": results, "seed": g, "sum": {}}
    for kind, k in half.inputs:
        if kind == "sum":
            so_far = take(k + 1)
            given["sum"][k] = zero_like(values[k]) if so_far is None else so_far
    arguments = [given[kind][k] for kind, k in [*half.inputs, *seeds]]
    found = switch_op(index, *arguments, branches=backward)
    cotangents: list[Any] = [None] * (len(values) + 1)
    for (_, k), part in zip(wanted, found, strict=True):
        cotangents[k + 1] = part
    return cotangents


def _transpose(g: Sequence[Any], place: int, *args: Any, branches: Branches) -> Any:
    """Branches that are linear in an argument: their pullback, which is the same at any value."""
    index, *values = [zeros(arg) if isinstance(arg, ArrayType) else arg for arg in args]
    active = tuple(number == place - 1 for number in range(len(values)))
    found = pull_switch(active, index, values, g, branches)[place]
    return zero_like(values[place - 1]) if found is None else found


def _added(branches: Branches) -> dict[int, int]:
    """The results that every branch makes of one argument, by adding to some places of it."""
    first, *others = [added_to(body.graph) for body in branches.bodies]
    return {k: n for k, n in first.items() if all(one.get(k) == n for one in others)}


def _written(branches: Branches) -> dict[int, int]:
    """The results that every branch makes of one argument, by writing to some places of it, or
    leaves as it is."""
    first, *others = [origins(body.graph) for body in branches.bodies]
    return {k: n for k, n in first.items() if all(one.get(k) == n for one in others)}


# ---------------------------------------------------------------- forward mode and batches


def _push(node: Operator, tangents: Sequence[Any]) -> list[Any]:
    """Tangents of the results, by branches of values and tangents."""
    flags = tuple(t is not None for t in tangents[1:])
    pushed, live = node.params["branches"].derived(_pushed, flags)
    values = [source.output for source in node.inputs]
    found = switch_op(*values, *[t for t in tangents[1:] if t is not None], branches=pushed)
    results: list[Any] = [None] * len(node.type)
    for k, tangent in zip(live, found[len(results) :], strict=True):
        results[k] = tangent
    return results


def _pushed(branches: Branches, flags: tuple[bool, ...]) -> tuple[Branches, list[int]]:
    """Branches from values and tangents to values and tangents, and of which results the latter
    are."""
    count = len(branches.types)
    programs = []
    for body in branches.bodies:
        pushed = body.derived(pushforward, flags)
        inner = pushed.body.graph
        tangents = iter(inner.outputs[count:])
        outputs = {("value", k): node for k, node in enumerate(inner.outputs[:count])}
        outputs |= {("tangent", k): next(tangents) for k, f in enumerate(pushed.outputs) if f}
        inputs = {("input", k): node for k, node in enumerate(inner.inputs)}
        programs.append(_Keyed(inputs, outputs))
    live = sorted({k for one in programs for kind, k in one.outputs if kind == "tangent"})
    shown = [*[("value", k) for k in range(count)], *[("tangent", k) for k in live]]
    aligned = _aligned(programs, list(programs[0].inputs), shown)
    places = list(range(len(flags) + 1))
    aligned.primal = Primal(branches, places, list(range(count)))
    return aligned, live


def _batch(size: int, flags: Sequence[bool], *args: Any, branches: Branches) -> Any:
    return _batch_switch(size, flags, None, *args, branches=branches)


def _batch_switch(
    size: int, flags: Sequence[bool], going: Any, index: Any, *args: Any, branches: Branches
) -> Mixed:
    """Where samples take different branches, all of them, and each sample chooses."""
    if not flags[0]:
        batched, found = branches.derived(_batched, size, tuple(flags[1:]), going is not None)
        mask = [] if going is None else [going]
        return Mixed(switch_op(index, *mask, *args, branches=batched), found)
    count = len(branches.bodies)
    index = minimum(maximum(index, np.int64(0)), np.int64(count - 1))
    rows = []
    tables = branches.derived(_written)  # each branch writes to those of its samples
    given, own_flags = list(args), list(flags[1:])
    for place in tables.values():
        own = branches.bodies[0].graph.inputs[place].type
        given[place] = _as_batch((given[place], own_flags[place]), True, size, own)
        own_flags[place] = True
    with np.errstate(all="ignore"):  # of samples that do not take a branch nobody wants to know
        for number, body in enumerate(branches.bodies):
            here = equal(index, np.int64(number))
            mask = here if going is None else logical_and(here, going)
            rows.append((here, evaluate_batched(body.graph, size, given, own_flags, mask)))
            for result, place in tables.items():
                given[place] = rows[-1][1][result][0]
    results = []
    for number, own in enumerate(branches.types):
        if number in tables:
            results.append(given[tables[number]])
            continue
        shape = (size, *[1] * own.ndim)
        chosen = _as_batch(rows[-1][1][number], True, size, own)
        for here, values in reversed(rows[:-1]):
            part = _as_batch(values[number], True, size, own)
            chosen = select(reshape(here, shape=shape), part, chosen)
        results.append(chosen)
    return Mixed(tuple(results), (True,) * len(results))


def _as_batch(result: tuple[Any, bool], goal: bool, size: int, own: ArrayType) -> Any:
    """A result of a branch in its dtype, as a batch where that is the goal."""
    value, flag = result
    if goal and not flag:
        value = broadcast_to(value, shape=(size, *type_of(value).shape))
    return value if type_of(value).dtype == own.dtype else convert(value, dtype=own.dtype)


def _batched(
    branches: Branches, size: int, flags: tuple[bool, ...], masked: bool
) -> tuple[Branches, tuple[bool, ...]]:
    """Branches for a batch, and which of their results are batches, in one of them; of `masked`
    ones the first input says which samples count."""
    types = [node.type for node in branches.bodies[0].graph.inputs]
    mask = ArrayType(np.dtype(bool), (size,))
    runs: list[tuple[list[Any], list[tuple[Any, bool]]]] = []
    with Trace() as trace:
        for body in branches.bodies:
            inputs = [
                trace.variable(array_type=with_batch(t, size, flag), active=False)
                for t, flag in zip(types, flags, strict=True)
            ]
            going = [trace.variable(array_type=mask, active=False)] if masked else []
            found = evaluate_batched(body.graph, size, inputs, flags, *going)
            runs.append(([*going, *inputs], found))
        columns = zip(*[found for _, found in runs], strict=True)
        goals = tuple(any(flag for _, flag in column) for column in columns)
        bodies = []
        for inputs, found in runs:
            results = zip(found, goals, branches.types, strict=True)
            nodes = [trace.node_of(_as_batch(pair, goal, size, t)) for pair, goal, t in results]
            bodies.append(Body(Graph([t.node for t in inputs], nodes), 0, 0))  # type: ignore[misc]
    return Branches(bodies), goals


def _samples(rng: np.random.Generator) -> list[Any]:
    def body(function: Any) -> Body:
        types = [ArrayType(np.dtype(float), shape) for shape in ((3, 3), (3,), ())]
        with Trace() as trace:
            inputs = [trace.variable(array_type=t, active=False) for t in types]
            nodes = [trace.node_of(value) for value in function(*inputs)]
        return Body(Graph([tracer.node for tracer in inputs], nodes), 0, 0)  # type: ignore[misc]

    branches = Branches(
        [
            body(lambda w, x, s: (np.tanh(w @ x), s * s)),
            body(lambda w, x, s: (np.sin(x) * s, np.sum(x * x))),
            body(lambda w, x, s: (x, np.exp(s) + w[0, 0])),
        ]
    )
    shapes = ((3, 3), 3, ())
    return [
        ((np.int64(index), *[rng.normal(size=shape) for shape in shapes]), {"branches": branches})
        for index in (0, 1, 2, -4, 7)
    ]


# One of several programs.
switch_op: Op = _SwitchOp(
    "switch",
    _evaluate,
    lambda *types, branches: branches.types,
    transpose=_transpose,
    batch=_batch,
    hosted="schedule/branches.py makes native branches of it",
    samples=_samples,
    multiple=True,
)
switch_op.masked = _batch_switch
switch_op.pull_rule = _pull
switch_op.adds_to = lambda node: {
    number: place + 1 for number, place in node.params["branches"].derived(_added).items()
}
switch_op.writes_to = lambda node: {
    number: place + 1 for number, place in node.params["branches"].derived(_written).items()
}
switch_op.push_rule = _push


def is_switch(node: Node) -> bool:
    """Whether a node is a choice between programs."""
    return isinstance(node, Operator) and node.op is switch_op
