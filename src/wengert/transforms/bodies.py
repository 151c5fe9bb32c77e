"""The body of a loop, a graph of one step, and what the transforms make of it.

A transform of a loop is a transform of its body: forward mode gives a body of values and tangents,
batching a body of batches, reverse mode two bodies. These come from one graph, that of the step
followed by its pullback. The part of it that depends on the cotangents becomes a body that runs
backward in time. The rest is the step itself; what the backward body reads of it, the *residuals*,
the forward body gives out row by row. Which values these are is a matter of cost (`residuals.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..graph import Constant, Graph, Node, Operator, Variable, reachable
from ..graph.rewrite import New, copy_of, rewrite
from ..ops.elementwise import add
from ..ops.layout import again, broadcast_to, fit
from ..ops.python_integers import fits_64_bits
from ..policy import Record
from ..trace import Trace, Tracer
from ..types import ArrayType, type_of
from .batching import evaluate_batched
from .modes import pull, push
from .plans import Replay, strong
from .residuals import is_small, kept_values
from .sums import begun_with, count_uses, first_of, is_zero

COUNT = ArrayType(np.dtype(np.int64), ())


class Primal(NamedTuple):
    """What a program of values and tangents has the values of: the program that it was made from,
    and where among its inputs and results those of that one are."""

    program: Any
    inputs: list[int]
    results: list[int]


class Programs:
    """Programs inside an operation, and what was made of them."""

    __slots__ = ()
    _derived: dict[Any, Any]

    def derived(self, make: Callable[..., Any], *key: Any) -> Any:
        """``make(self, *key)``, worked out once."""
        found = self._derived.get((make, key))
        if found is None:
            found = self._derived[make, key] = make(self, *key)
        return found


class Body(Programs):
    """One step: from constants, carry and rows of the inputs to carry and rows of the outputs.

    Compared by identity as a param; what is derived from it is kept with it.
    """

    def __init__(self, graph: Graph, constants: int, carry: int):
        self.graph = graph
        graph.name = "step"
        self.constants = constants
        self.carry = carry
        # The backward half, where the last outputs are the residuals that it reads.
        self.pullback: Pullback | None = None
        self.primal: Primal | None = None
        # The body of the `while` whose turns the steps are, with what these keep as rows.
        self.repeats: Body | None = None
        self._derived = {}

    @functools.cached_property
    def program(self) -> Replay:
        """The graph for quick replay."""
        return Replay(self.graph)

    @property
    def rows(self) -> int:
        """The number of inputs that have a row for each step."""
        return len(self.graph.inputs) - self.constants - self.carry

    @property
    def types(self) -> list[ArrayType]:
        """The types of the outputs: carry, then rows."""
        return [strong(node.type) for node in self.graph.outputs]  # type: ignore[union-attr]

    def split(self, values: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Inputs as constants, carry and rows."""
        first, second = self.constants, self.constants + self.carry
        return list(values[:first]), list(values[first:second]), list(values[second:])

    def __repr__(self) -> str:
        return f"<body of {len(self.graph.operators)} operations>"


def closed_body(graph: Graph, captured: Sequence[Sequence[Node]], carry: int) -> Body:
    """A body whose first inputs stand for captured values: one for each group of constants."""
    inputs, replaced = [], {}
    for group in captured:
        variable = Variable("", None, group[0].type, active=False)
        inputs.append(variable)
        replaced.update({node.serial: variable for node in group})
    outputs = extract(graph.outputs, replaced)  # type: ignore[arg-type]
    return Body(Graph([*inputs, *graph.inputs], outputs), len(inputs), carry)


def extract(outputs: Iterable[Node], replaced: dict[int, Any]) -> list[Node]:
    """The outputs computed anew, with some nodes on the way replaced by others."""
    new = dict(replaced)
    outputs = list(outputs)
    pending = [node for node in outputs if node.serial not in new]
    needed: dict[int, Node] = {}
    while pending:
        node = pending.pop()
        if node.serial in needed:
            continue
        needed[node.serial] = node
        pending.extend(source for source in node.inputs if source.serial not in new)
    rewrite([needed[serial] for serial in sorted(needed)], copy_of, new)
    return [new[node.serial] for node in outputs]


def _record(
    body: Body, values: Sequence[Any], active: Sequence[bool], passing: Sequence[bool] = ()
) -> tuple[list[Node], list[Node]]:
    """The body run on values of the trace around: its inputs and outputs as nodes.

    A carry becomes active where a step makes it so. Inputs may be `passing`.
    """
    flags = list(active)
    while True:
        with Trace() as trace:
            tracers = [
                trace.variable(value, active=flag)
                for value, flag in zip(values, flags, strict=True)
            ]
            inputs = [tracer.node for tracer in tracers]
            flagged = zip(inputs, passing, strict=False)
            trace.passing = {node.serial for node, flag in flagged if flag}
            outputs = [trace.node_of(value) for value in body.graph.evaluate(tracers)]
        grown = False
        for number, node in enumerate(outputs[: body.carry]):
            place = body.constants + number
            if node.active and not flags[place]:
                flags[place] = grown = True
        if not grown:
            return inputs, outputs


def passing_among(args: Sequence[Any], trace: Trace) -> tuple[bool, ...]:
    """Which arguments of a program inside are gone when the way back is taken, unless they are
    kept; small ones are, as soon as anything of them is read."""
    if not trace.passing:
        return (False,) * len(args)
    nodes = [trace.node_of(arg) for arg in args]
    for node in reachable(nodes):
        if any(source.serial in trace.passing for source in node.inputs):
            trace.passing.add(node.serial)
    return tuple(node.serial in trace.passing and not is_small(node) for node in nodes)


def _is_live(node: Node) -> bool:
    return node.active and node.type.inexact


def zeros(array_type: ArrayType) -> np.ndarray:
    """Zeros that take no memory."""
    return np.broadcast_to(np.zeros((), array_type.dtype), array_type.shape)


# ---------------------------------------------------------------- forward mode


class Pushforward(Record, kw_only=False):
    """A body of values and tangents, and which inputs and outputs have a tangent."""

    body: Body
    inputs: list[bool]
    outputs: list[bool]


def pushforward(body: Body, active: tuple[bool, ...]) -> Pushforward:
    """Forward mode of one step: each group of inputs and outputs is followed by its tangents."""
    with Trace() as trace:
        values = [trace.variable(array_type=node.type, active=False) for node in body.graph.inputs]
        inputs, outputs = _record(body, values, active)
        tangents = [
            trace.variable(array_type=strong(node.type), active=False) if node.active else None
            for node in inputs
        ]
        found = push(outputs, inputs, tangents)
        results = [trace.node_of(node.output) for node in outputs]
        pushed: list[Node | None] = []
        for number, (node, tangent) in enumerate(zip(outputs, found, strict=True)):
            own = strong(node.type)
            if number < body.carry and inputs[body.constants + number].active:
                tangent = zeros(own) if tangent is None else tangent
            pushed.append(None if tangent is None else trace.node_of(fit(tangent, own)))
    parts = [
        [*plain, *[t for t in tangent if t is not None]]
        for plain, tangent in zip(body.split(values), body.split(tangents), strict=True)
    ]
    carry = body.carry
    new = [node for node in pushed[:carry] if node is not None]
    rows = [node for node in pushed[carry:] if node is not None]
    graph = Graph(
        [tracer.node for part in parts for tracer in part],
        [*results[:carry], *new, *results[carry:], *rows],
    )
    made = Body(graph, len(parts[0]), len(parts[1]))
    starts = (0, made.constants, made.constants + made.carry)
    groups = zip(starts, body.split(values), strict=True)
    places = [start + k for start, group in groups for k in range(len(group))]
    rows_from = made.carry - carry
    made.primal = Primal(
        body, places, [k if k < carry else k + rows_from for k in range(len(results))]
    )
    return Pushforward(
        made, [t is not None for t in tangents], [node is not None for node in pushed]
    )


# ---------------------------------------------------------------- batching


class BatchedBody(Record, kw_only=False):
    """A body of batches, and which carries and which rows of the outputs are batches."""

    body: Body
    carry: list[bool]
    rows: list[bool]


def batched_body(
    body: Body, size: int, flags: tuple[bool, ...], masked: bool = False
) -> BatchedBody:
    """The body for a batch; flagged inputs have the batch as their first axis.

    Of a `masked` one a further first constant says which samples count.
    """
    first, second = body.constants, body.constants + body.carry
    now = list(flags)
    while True:
        with Trace() as trace:
            inputs = [
                trace.variable(array_type=with_batch(node.type, size, flag), active=False)
                for node, flag in zip(body.graph.inputs, now, strict=True)
            ]
            going = [trace.variable(array_type=_going(size), active=False)] if masked else []
            results = evaluate_batched(body.graph, size, inputs, now, *going)
            found = [flag for _, flag in results]
            carry = [a or b for a, b in zip(now[first:second], found, strict=False)]
            if carry == now[first:second]:
                wanted = [*carry, *found[body.carry :]]
                nodes = [
                    trace.node_of(value if flag == goal else _repeated(value, size))
                    for (value, flag), goal in zip(results, wanted, strict=True)
                ]
                break
        now[first:second] = carry
    graph = Graph([tracer.node for tracer in [*going, *inputs]], nodes)  # type: ignore[misc]
    made = Body(graph, first + masked, body.carry)
    if body.primal is not None and not masked:
        values = body.primal.program
        own = values.derived(batched_body, size, tuple(flags[k] for k in body.primal.inputs))
        made.primal = body.primal._replace(program=own.body)
    return BatchedBody(made, carry, found[body.carry :])


def _going(size: int) -> ArrayType:
    return ArrayType(np.dtype(bool), (size,))


def with_batch(array_type: ArrayType, size: int, flag: bool) -> ArrayType:
    """The type of a value, or of a batch of it."""
    return ArrayType(array_type.dtype, (size, *array_type.shape)) if flag else array_type


def _repeated(value: Any, size: int) -> Any:
    return broadcast_to(value, shape=(size, *type_of(value).shape))


# ---------------------------------------------------------------- reverse mode


class Pullback(Record, kw_only=False):
    """Reverse mode of one step in two bodies.

    `forward` is the step with its residuals as further rows. `backward` takes, as constants, those
    of the step and first values of carries that count; as carry, the cotangents of the step's carry
    and one sum for each constant; as rows, residuals, rows of the step's inputs, and cotangents of
    the step's rows. It gives the cotangents of the carry, the sums, and rows with the cotangents of
    the step's rows.
    """

    active: tuple[bool, ...]  # of the inputs that it was derived for
    forward: Body
    backward: Body
    outputs: int  # of the step itself
    residuals: list[int]  # which outputs of `forward` they are
    carry: list[int]  # the carries that have a cotangent
    sums: list[int]  # the constants that have one
    inner: list[int]  # the rows of the inputs that have one
    constants: list[int]  # that are read backward
    rows: list[int]  # of the inputs, that are read backward
    seeds: list[int]  # rows of the outputs that can have a cotangent
    counts: bool  # whether the last of the residuals is the number of the step


def pullback(
    body: Body,
    active: tuple[bool, ...],
    recompute: bool,
    passing: tuple[bool, ...] = (),
    steps: int = 1,
    counting: bool = False,
) -> Pullback:
    """Derive both bodies; with `recompute` the only residuals are the carries of each step.

    Those of its inputs that are `passing` are at hand later only if they are kept, as carries are.
    With `counting` the way back knows the numbers of the steps: carries that count are not kept.
    """
    passing = passing or (False,) * len(active)
    own = slice(body.constants, body.constants + body.carry)
    gone = list(passing)
    gone[own] = [not recompute] * body.carry
    step = _StepAndBack(body, active, gone)
    counters = step.counters(own) if counting else {}
    known = {*counters}
    residuals = kept_values(
        step.plain, own, step.cotangents, step.unknown, recompute, passing, steps, known
    )
    shown = {node.serial: k for k, node in enumerate(step.results) if k >= body.carry}
    extra = [node for node in residuals if node.serial not in shown]
    shown.update({node.serial: len(step.results) + k for k, node in enumerate(extra)})
    forward = Body(Graph(step.plain, [*step.results, *extra]), body.constants, body.carry)
    stand_ins = [Variable("", None, node.type, active=False) for node in residuals]
    replaced: dict[int, Any] = dict(zip([n.serial for n in residuals], stand_ins, strict=True))
    number = Variable("", None, COUNT, active=False)
    starts = {k: Variable("", None, COUNT, active=False) for k in counters.values()}
    for serial, k in counters.items():
        replaced[serial] = Operator(add, (starts[k], number), {}, None, COUNT)
    outputs = _without_waiting(extract(step.cotangents, replaced))
    used = {node.serial for node in reachable(outputs)}
    constants, rows = ([k for k in group if step.plain[k].serial in used] for group in step.groups)
    firsts = [k for k, start in starts.items() if start.serial in used]
    inputs: list[Any] = [
        *[step.plain[k] for k in constants],
        *[starts[k] for k in firsts],
        *[step.seeds[k] for k in step.carry],
        *step.totals,
        *stand_ins,
        *([number] if firsts else []),
        *[step.plain[k] for k in rows],
        *[step.seeds[k] for k in step.row_seeds],
    ]
    constants = [*constants, *firsts]
    backward = Body(Graph(inputs, outputs), len(constants), len(step.carry) + len(step.sums))
    forward.pullback = Pullback(
        active,
        forward,
        backward,
        len(step.results),
        [shown[node.serial] for node in residuals],
        step.carry,
        step.sums,
        step.inner,
        constants,
        rows,
        step.row_seeds,
        bool(firsts),
    )
    return forward.pullback


def _without_waiting(outputs: Sequence[Node]) -> list[Node]:
    """again(x, after) -> x: a body of its own shares nothing with the step anyway; nor does it
    check again what the step has checked."""

    def change(node: Node, new: New) -> Node | None:
        waits = isinstance(node, Operator) and node.op in (again, fits_64_bits)
        same = waits and node.inputs[0].type.shape == node.type.shape
        return new[node.inputs[0].serial] if same else None

    new = rewrite(reachable(outputs), change)
    return [new[node.serial] for node in outputs]


def without_pullback(body: Body) -> Body:
    """The same step, where rows that were residuals of another trace are results like any other.

    They have tangents of their own: in forward over reverse, the pullback is what reads them.
    """
    return body if body.pullback is None else Body(body.graph, body.constants, body.carry)


class _StepAndBack:
    """A step and its pullback in one graph, and the nodes of both."""

    def __init__(self, body: Body, active: tuple[bool, ...], passing: Sequence[bool]):
        first, second = body.constants, body.constants + body.carry
        with Trace() as trace:
            values = [
                trace.variable(array_type=node.type, active=False) for node in body.graph.inputs
            ]
            inputs, outputs = _record(body, values, active, passing)
            self.plain: list[Any] = [tracer.node for tracer in values]
            self.results = [trace.node_of(node.output) for node in outputs]
            self.carry = [k for k in range(body.carry) if inputs[first + k].active]
            seeded = [k for k, node in enumerate(outputs) if _is_live(node)]
            seeds = {
                k: trace.variable(array_type=strong(outputs[k].type), active=False)
                for k in sorted({*seeded, *self.carry})
            }
            found = _pulled(inputs, outputs, {k: seeds[k] for k in seeded})
            self.sums = [k for k in found if k < first]
            self.inner = [k for k in found if k >= second]
            totals = [trace.variable(array_type=inputs[k].type, active=False) for k in self.sums]
            cotangents = [
                *[found.get(first + k, zeros(strong(inputs[first + k].type))) for k in self.carry],
                *[found[k] for k in self.inner],
            ]
            terms = [trace.node_of(found[k]) for k in self.sums]
            others = [trace.node_of(g) for g in cotangents]
            zero = _first_terms(terms, [*others, *self.results])
            sums = [
                term if start else trace.node_of(add(total, Tracer(trace, term)))
                for total, term, start in zip(totals, terms, zero, strict=True)
            ]
            cut = len(self.carry)
            starts = zip(totals, zero, strict=True)
            self.cotangents = begun_with(
                [*others[:cut], *sums, *others[cut:]],
                {start.serial: total.node for total, start in starts if start is not None},
            )
        self.seeds = {k: seed.node for k, seed in seeds.items()}
        self.totals = [total.node for total in totals]
        self.row_seeds = [k for k in seeded if k >= body.carry]
        self.unknown = [*self.seeds.values(), *self.totals]
        self.groups = (range(first), range(second, len(self.plain)))

    def counters(self, carry: slice) -> dict[int, int]:
        """The carries to which a step adds one, by serial, as numbers of inputs."""
        found = {}
        for k, after in zip(range(carry.start, carry.stop), self.results, strict=False):
            node = self.plain[k]
            adds = isinstance(after, Operator) and after.op is add and after.inputs[0] is node
            if adds and strong(node.type) == COUNT and _is_one(after.inputs[1]):
                found[node.serial] = k
        return found


def _is_one(node: Node) -> bool:
    return isinstance(node, Constant) and node.type.shape == () and int(node.output) == 1


def _first_terms(terms: Sequence[Node], others: Sequence[Node]) -> list[Node | None]:
    """The zeros that something is added to at some places alone, where a sum can begin instead."""
    uses = count_uses([*terms, *others])
    firsts = [first_of(term, uses) for term in terms]
    return [first if is_zero(first) else None for first in firsts]


def _pulled(
    inputs: Sequence[Node], outputs: Sequence[Node], seeds: dict[int, Any]
) -> dict[int, Any]:
    """The cotangents of the active inputs, but for those that are zero, by their numbers."""
    wanted = [k for k, node in enumerate(inputs) if node.active]
    found = pull([outputs[k] for k in seeds], list(seeds.values()), [inputs[k] for k in wanted])
    return {
        k: fit(g, strong(inputs[k].type))
        for k, g in zip(wanted, found, strict=True)
        if g is not None
    }


def without_zeros(body: Body, seeds: int, zero: tuple[int, ...]) -> Body:
    """A backward body where some of its inputs, carries or `seeds`, which are its last rows, are
    zero and not given; a carry that is zero stays so.

    What is linear in zeros alone is zero, and a zero is not added.
    """
    inputs = body.graph.inputs
    new = _without(body, seeds, zero)
    first, gone = body.constants, {*zero}
    outputs = [
        _orzeros(new[node.serial], node)
        for number, node in enumerate(body.graph.outputs)
        if node is not None and not (number < body.carry and first + number in gone)
    ]
    kept = [node for number, node in enumerate(inputs) if number not in gone]
    carry = sum(first + number not in gone for number in range(body.carry))
    return Body(Graph(kept, outputs), first, carry)


def staying_zero(body: Body, seeds: int, zero: tuple[int, ...]) -> tuple[int, ...]:
    """Those carries of a backward body that are zero at every step, of some that are at first; as
    numbers of inputs."""
    outputs: list[Any] = body.graph.outputs
    while zero:
        new = _without(body, seeds, zero)
        after = {k: new[outputs[k - body.constants].serial] for k in zero}
        still = tuple(k for k, node in after.items() if node is None or is_zero(node))
        if still == zero:
            break
        zero = still
    return zero


def _without(body: Body, seeds: int, zero: Sequence[int]) -> dict[int, Node | None]:
    """What the nodes of a backward body are where some of its inputs are zero; None: zero too."""
    inputs = body.graph.inputs
    gone = {inputs[number].serial for number in zero}
    start = len(inputs) - seeds
    linear = {node.serial for node in [*body.split(inputs)[1], *inputs[start:]]}
    new: dict[int, Node | None] = {}
    for node in body.graph.nodes:
        depends = [source for source in node.inputs if source.serial in linear]
        if not isinstance(node, Operator) or not depends:
            new[node.serial] = None if node.serial in gone else node
            continue
        linear.add(node.serial)
        new[node.serial] = _linear_node(node, depends, new)
    return new


def _linear_node(
    node: Operator, depends: Sequence[Node], new: dict[int, Node | None]
) -> Node | None:
    """The node for new inputs, of which those in `depends` may be zero (None)."""
    left = [source for source in depends if new[source.serial] is not None]
    if not left:
        return None
    if node.op is add and len(left) < len(node.inputs) and left[0].type == node.type:
        return new[left[0].serial]
    inputs = tuple(_orzeros(new[source.serial], source) for source in node.inputs)
    return Operator(node.op, inputs, node.params, None, node.type)


def _orzeros(new: Node | None, old: Node) -> Node:
    return Constant(zeros(strong(old.type)), strong(old.type)) if new is None else new
