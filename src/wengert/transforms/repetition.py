"""The operation behind `while_loop`: a program that runs again as long as another one says so.

Forward mode and batches are loops of the same kind, over more. Reverse mode needs the values of
all turns, so it takes a `scan` of as many steps as there were turns, with all that is known of
scans: that number is counted along the way. Where programs are compiled, `passes/forward.py` makes
one loop of the turns and that scan: turns then have rows, as many as there is `room` for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import MoreSteps
from ..graph import Graph, Node, Operator, Variable
from ..ops.elementwise import add, select
from ..ops.layout import broadcast_to, convert, reshape
from ..ops.logic import logical_and
from ..ops.op import Op, Traced, recorder
from ..ops.reductions import reduce_any
from ..trace import Trace
from ..trace.tracer import concrete
from ..types import ArrayType, Function, is_weak, type_of, weaken
from .batching import Mixed, evaluate_batched
from .bodies import (
    COUNT,
    Body,
    Primal,
    Programs,
    batched_body,
    extract,
    passing_among,
    pushforward,
    with_batch,
    zeros,
)
from .choice import own
from .loop import nothing_so_far, pull_counted, pull_loop, written
from .modes import zero_like


class Turn(Programs):
    """Whether there is another turn, and what it does. Compared by identity as a param.

    Both have the same inputs; to `test`, which carries nothing, all of them are rows.
    """

    def __init__(self, test: Body, body: Body):
        self.test, self.body = test, body
        test.graph.name = "while"
        body.graph.name = "turn"
        self.counts = False  # whether the last carry is the number of turns, for reverse mode
        self.passing: tuple[bool, ...] = ()  # inputs that are gone on the way back, unless kept
        self.masks = False  # whether samples that have ended are carried along
        self.room = 0  # rows for what turns give out beside the carry
        self.number = 0  # of a loop with such rows, as that of a counted loop
        self.primal: Primal | None = None
        self._derived = {}

    def like(self, test: Body, body: Body) -> Turn:
        """Other programs that mean the same."""
        made = Turn(test, body)
        made.masks, made.room, made.number = self.masks, self.room, self.number
        return made

    @property
    def programs(self) -> tuple[Body, ...]:
        """All programs inside."""
        return self.test, self.body

    @property
    def types(self) -> tuple[ArrayType, ...]:
        """The types of the carry."""
        return tuple(node.type for node in self.body.split(self.body.graph.inputs)[1])

    @property
    def row_types(self) -> tuple[ArrayType, ...]:
        """The types of what turns give out row by row."""
        rows = self.body.types[self.body.carry :]
        return tuple(ArrayType(t.dtype, (self.room, *t.shape)) for t in rows)

    def __repr__(self) -> str:
        return f"<turn of {len(self.body.graph.operators)} operations>"


def _evaluate(*values: Any, turn: Turn) -> tuple[Any, ...]:
    fixed, carry, _ = turn.body.split(values)
    test, program = turn.test.program, turn.body.program
    rows = [np.zeros(t.shape, t.dtype) for t in turn.row_types]
    turns = 0
    # what becomes of samples that have ended nobody wants to know
    with np.errstate(all="ignore") if turn.masks else contextlib.nullcontext():
        while test([*fixed, *carry])[0]:
            found = program([*fixed, *carry])
            carry = found[: len(carry)]
            for row, value in zip(rows, found[len(carry) :], strict=True):
                row[min(turns, turn.room - 1)] = value
            turns += 1
    if rows and turns > turn.room:
        raise MoreSteps(turn.number, turns)
    ends = zip(carry, turn.types, strict=True)
    return (*[weaken(value) if is_weak(t) else own(value, t) for value, t in ends], *rows)


# ---------------------------------------------------------------- counting


def counting(turn: Turn, passing: tuple[bool, ...] = ()) -> Turn:
    """The same turns, with their number as the last carry."""
    constants, carry = turn.body.constants, turn.body.carry
    counter = Variable("", None, COUNT, active=False)
    with Trace() as trace:
        number = trace.variable(array_type=COUNT, active=False)
        more = trace.node_of(add(number, 1))
    (following,) = extract([more], {number.node.serial: counter})
    inputs, outputs = turn.body.graph.inputs, turn.body.graph.outputs
    body = Body(Graph([*inputs, counter], [*outputs, following]), constants, carry + 1)
    idle = Variable("", None, COUNT, active=False)
    test = Body(Graph([*turn.test.graph.inputs, idle], turn.test.graph.outputs), 0, 0)
    made = Turn(test, body)
    made.counts, made.masks = True, turn.masks
    made.passing = (*passing, False) if passing else ()
    return made


class _WhileOp(Op):
    """Recorded where reverse mode may follow, the turns are counted."""

    def __call__(self, *args: Any, turn: Turn) -> Any:
        trace = recorder(args)
        if trace is None:
            return self.compute(args, {"turn": turn})
        count = turn.body.carry
        active = any(
            isinstance(arg, Traced) and arg._trace is trace and trace.node_of(arg).active
            for arg in args
        )
        if trace.stores and active and not turn.counts:
            counted = turn.derived(counting, passing_among(args, trace))
            return trace.record(self, (*args, np.int64(0)), {"turn": counted})[:count]
        return trace.record(self, args, {"turn": turn})


# ---------------------------------------------------------------- derivatives


def _pull(node: Operator, g: Sequence[Any], take: Any) -> list[Any]:
    active = tuple(source.active for source in node.inputs)
    values = [source.output for source in node.inputs]
    turn: Turn = node.params["turn"]
    count = node.output[-1] if turn.counts else None
    return pull_while(active, values, g, turn, count, take)


def pull_while(
    active: tuple[bool, ...],
    values: Sequence[Any],
    g: Sequence[Any],
    turn: Turn,
    count: Any = None,
    take: Function = nothing_so_far,
) -> list[Any]:
    """The pullback at these values, by a loop of as many steps as there were turns."""
    if count is None:
        count = while_op(*values, np.int64(0), turn=turn.derived(counting))[-1]
    known = concrete(count)
    params = {"reverse": False, "recompute": False}
    if known is not None and np.ndim(known) == 0:
        return pull_loop(active, values, g, take, body=turn.body, length=int(known), **params)
    return pull_counted(active, turn.passing, values, g, count, take, body=turn.body, **params)


def _transpose(g: Sequence[Any], place: int, *args: Any, turn: Turn) -> Any:
    """Turns that are linear in an argument: their pullback, which is the same at any value."""
    values = [zeros(arg) if isinstance(arg, ArrayType) else arg for arg in args]
    active = tuple(number == place for number in range(len(args)))
    found = pull_while(active, values, g, turn)[place]
    return zero_like(values[place]) if found is None else found


def _push(node: Operator, tangents: Sequence[Any]) -> list[Any]:
    """Tangents of the results, by a loop over values and tangents."""
    turn: Turn = node.params["turn"]
    pushed, inputs, outputs = turn.derived(_pushed, tuple(t is not None for t in tangents))
    values = [source.output for source in node.inputs]
    filled = [zero_like(v) if t is None else t for v, t in zip(values, tangents, strict=True)]
    arguments = [
        value
        for plain, own, live in zip(*map(turn.body.split, (values, filled, inputs)), strict=True)
        for value in [*plain, *[t for t, flag in zip(own, live, strict=True) if flag]]
    ]
    found = while_op(*arguments, turn=pushed)
    live_tangents = iter(found[turn.body.carry :])
    return [next(live_tangents) if flag else None for flag in outputs]


def _pushed(turn: Turn, active: tuple[bool, ...]) -> tuple[Turn, list[bool], list[bool]]:
    """Turns of values and tangents, and which inputs and which results have a tangent."""
    pushed = turn.body.derived(pushforward, active)
    body = pushed.body
    constants, carry, _ = body.split(body.graph.inputs)
    own = [*constants[: turn.body.constants], *carry[: turn.body.carry]]
    test = _on_inputs(turn.test, own, [*constants, *carry])
    made = Turn(test, body)
    made.masks = turn.masks
    assert body.primal is not None
    made.primal = body.primal._replace(program=turn)
    return made, pushed.inputs, pushed.outputs


def _on_inputs(body: Body, own: Sequence[Node], inputs: Sequence[Node]) -> Body:
    """The body for more inputs than it reads: `own` are those that stand for its own."""
    fresh = {node.serial: Variable("", None, node.type, active=False) for node in inputs}
    replaced = {
        old.serial: fresh[new.serial] for old, new in zip(body.graph.inputs, own, strict=True)
    }
    outputs = extract(body.graph.outputs, replaced)  # type: ignore[arg-type]
    return Body(Graph(list(fresh.values()), outputs), 0, 0)


# ---------------------------------------------------------------- batches


def _batch(size: int, flags: Sequence[bool], *args: Any, turn: Turn) -> Any:
    return _batch_while(size, flags, None, *args, turn=turn)


def _batch_while(size: int, flags: Sequence[bool], going: Any, *args: Any, turn: Turn) -> Mixed:
    """Turns for a batch, of which only those samples count that are `going`, if that is given."""
    fixed, carry, _ = turn.body.split(args)
    constants, given, _ = turn.body.split(flags)
    together = None if going is not None else turn.derived(_together, size, tuple(flags))
    if together is not None:
        carried = together[1]
        found = while_op(*fixed, *_starts(carry, given, carried, size), turn=together[0])
        return Mixed(tuple(found), tuple(carried))
    every = [True] * len(carry)
    starts = _starts(carry, given, every, size)
    ((first, flag),) = evaluate_batched(
        turn.test.graph, size, [*fixed, *starts], [*constants, *every], going
    )
    first = first if flag else _repeat(first, size)
    first = first if going is None else logical_and(first, going)
    batched = turn.derived(_apart, size, tuple(constants))
    return Mixed(tuple(while_op(*fixed, first, *starts, turn=batched)[1:]), tuple(every))


def _starts(
    carry: Sequence[Any], given: Sequence[bool], goals: Sequence[bool], size: int
) -> list[Any]:
    return [
        value if flag or not goal else _repeat(value, size)
        for value, flag, goal in zip(carry, given, goals, strict=True)
    ]


def _together(turn: Turn, size: int, flags: tuple[bool, ...]) -> tuple[Turn, list[bool]] | None:
    """Turns for a batch whose samples all have the same number of them, and which carries are
    batches; None: they have not."""
    found = turn.body.derived(batched_body, size, flags)
    now = (*flags[: turn.body.constants], *found.carry)
    test = turn.test.derived(batched_body, size, now)
    if test.rows[0]:
        return None
    made = Turn(test.body, _in_types(found.body, turn))
    if turn.primal is not None:
        values = turn.primal.program
        own = values.derived(_together, size, tuple(flags[k] for k in turn.primal.inputs))
        made.primal = None if own is None else turn.primal._replace(program=own[0])
    return made, found.carry


def _apart(turn: Turn, size: int, constants: tuple[bool, ...]) -> Turn:
    """Turns for a batch as long as one sample goes on. Which do is carried along first, and the
    others keep their values."""
    count, carries = turn.body.constants, turn.body.carry
    flags = [*constants, *[True] * carries]
    with Trace() as trace:
        inputs = [
            trace.variable(array_type=with_batch(node.type, size, flag), active=False)
            for node, flag in zip(turn.body.graph.inputs, flags, strict=True)
        ]
        mask = ArrayType(np.dtype(bool), (size,))
        live = trace.variable(array_type=mask, active=False)
        fixed, carry = inputs[:count], inputs[count:]
        found = evaluate_batched(turn.body.graph, size, inputs, flags, live)
        stays = turn.body.derived(written)
        new = [
            value if k in stays else _kept(live, value, old, size)
            for k, ((value, _), old) in enumerate(zip(found, carry, strict=True))
        ]
        ((more, flag),) = evaluate_batched(turn.test.graph, size, [*fixed, *new], flags, live)
        more = logical_and(live, more if flag else _repeat(more, size))
        outputs = [trace.node_of(value) for value in [more, *new]]
        nodes: list[Any] = [tracer.node for tracer in [*fixed, live, *carry]]
    body = Body(Graph(nodes, outputs), count, carries + 1)
    with Trace() as trace:
        again = [trace.variable(array_type=node.type, active=False) for node in nodes]
        any_going = trace.node_of(reduce_any(again[count], axes=(0,)))
    made = Turn(Body(Graph([t.node for t in again], [any_going]), 0, 0), body)  # type: ignore[misc]
    made.masks = True
    if turn.primal is not None:
        values, places = turn.primal.program, turn.primal.inputs
        fixed_places, carried = values.body.split(places)[:2]
        made.primal = Primal(
            values.derived(_apart, size, tuple(constants[k] for k in fixed_places)),
            [*fixed_places, count, *[k + 1 for k in carried]],
            [0, *[k + 1 for k in turn.primal.results]],
        )
    return made


def _kept(live: Any, value: Any, old: Any, size: int) -> Any:
    """The new value of the samples that go on, and the old one of the others."""
    shape = (size, *[1] * (type_of(old).ndim - 1))
    chosen = select(reshape(live, shape=shape), value, old)
    dtype = type_of(old).dtype
    return chosen if type_of(chosen).dtype == dtype else convert(chosen, dtype=dtype)


def _in_types(body: Body, turn: Turn) -> Body:
    """A body that keeps the dtypes of its carry, which may have been Python numbers."""
    wanted = [t.dtype for t in turn.types]
    found: list[Any] = body.graph.outputs
    if all(node.type.dtype == dtype for node, dtype in zip(found, wanted, strict=True)):
        return body
    outputs = [
        node
        if node.type.dtype == dtype
        else Operator(convert, (node,), {"dtype": dtype}, None, ArrayType(dtype, node.type.shape))
        for node, dtype in zip(found, wanted, strict=True)
    ]
    return Body(Graph(body.graph.inputs, outputs), body.constants, body.carry)


def _repeat(value: Any, size: int) -> Any:
    return broadcast_to(value, shape=(size, *type_of(value).shape))


# ---------------------------------------------------------------- the operation


def _samples(rng: np.random.Generator) -> list[Any]:
    types = [ArrayType(np.dtype(float), shape) for shape in ((3, 3), (), (3,), ())]

    def body(function: Any, *parts: int) -> Body:
        with Trace() as trace:
            inputs = [trace.variable(array_type=t, active=False) for t in types]
            nodes = [trace.node_of(value) for value in function(*inputs)]
        return Body(Graph([tracer.node for tracer in inputs], nodes), *parts)  # type: ignore[misc]

    turn = Turn(
        body(lambda w, most, x, n: (n < most,), 0, 0),
        body(lambda w, most, x, n: (np.tanh(w @ x) + np.sin(n), n + np.exp(w[0, 0] - 1)), 2, 2),
    )
    w, x = rng.normal(size=(3, 3)) / 2, rng.normal(size=3)
    return [((w, np.float64(most), x, np.float64(0.2)), {"turn": turn}) for most in (1.5, 0.0)]


# Turns of a program, as long as another one says so.
while_op: Op = _WhileOp(
    "while",
    _evaluate,
    lambda *types, turn: (*turn.types, *turn.row_types),
    transpose=_transpose,
    batch=_batch,
    hosted="schedule/turns.py makes a native loop of it",
    samples=_samples,
    multiple=True,
)
while_op.masked = _batch_while
while_op.pull_rule = _pull
while_op.writes_to = lambda node: node.params["turn"].body.derived(written)
while_op.push_rule = _push


def is_while(node: Node) -> bool:
    """Whether a node is a loop without a known number of turns."""
    return isinstance(node, Operator) and node.op is while_op
