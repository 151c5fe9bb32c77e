"""The operation behind `scan`: a loop over the rows of arrays, with the graph of one step inside.

Its transforms are those of its body, which are in `bodies.py`; here they are put together: what
goes in, what comes out, and in which direction the loop runs.

A `counted` loop runs for as many steps as its first constant says, of which there may be more than
its `length`, the rows that compiled programs have memory for: these stop then, and are compiled
again with more (see `rooms`). `counted` is its number among the loops of this kind, or -1 where
nothing is compiled; 0: its steps are known.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import MoreSteps
from ..graph import Graph, Node, Operator, Variable
from ..ops.elementwise import add, select, subtract
from ..ops.layout import broadcast_to, permute, reshape
from ..ops.logic import less
from ..ops.op import Op, Traced, recorder
from ..ops.reductions import reduce_max
from ..trace import Trace
from ..types import ArrayType, Function, type_of
from .batching import Mixed, evaluate_batched, mapping
from .bodies import (
    COUNT,
    Body,
    Pullback,
    batched_body,
    passing_among,
    pullback,
    pushforward,
    staying_zero,
    with_batch,
    without_pullback,
    without_zeros,
    zeros,
)
from .modes import zero_like
from .plans import strong
from .sums import added_to
from .versions import origins


def order(length: int, reverse: bool) -> range:
    """The numbers of the rows, as the loop meets them."""
    return range(length - 1, -1, -1) if reverse else range(length)


def _evaluate(
    *values: Any, body: Body, length: int, reverse: bool, recompute: bool, counted: int = 0
) -> tuple[Any, ...]:
    """Replay the body's graph for each step."""
    fixed, carry, rows = body.split(values)
    count = body.carry
    steps = int(values[0]) if counted else length
    if counted > 0 and steps > length:
        raise MoreSteps(counted, steps)
    made = max(steps, length)
    ys = [
        (np.zeros if counted else np.empty)((made, *t.shape), t.dtype) for t in body.types[count:]
    ]
    program = body.program
    for step in order(steps, reverse):
        found = program([*fixed, *carry, *[x[step] for x in rows]])
        carry = found[:count]
        for y, row in zip(ys, found[count:], strict=True):
            y[step] = row
    ends = [_own(value, t) for value, t in zip(carry, body.types, strict=False)]
    return (*ends, *ys)


def _own(value: Any, array_type: ArrayType) -> Any:
    """The last carry, which must not be a view of an argument."""
    return (
        np.array(value, array_type.dtype)[()]
        if array_type.shape == ()
        else np.array(value, array_type.dtype)
    )


def _type(
    *types: ArrayType,
    body: Body,
    length: int,
    reverse: bool,
    recompute: bool,
    counted: int = 0,
) -> tuple[ArrayType, ...]:
    count, found = body.carry, body.types
    own = [strong(node.type) for node in body.graph.inputs[body.constants :][:count]]
    if own != found[:count]:  # no user's fault: what a carry is was checked when it was traced
        raise TypeError(f"scan: a step makes {found[:count]} of the carry {own}")
    return (*found[:count], *[ArrayType(t.dtype, (length, *t.shape)) for t in found[count:]])


class _Rooms(threading.local):
    known: dict[int, int]
    number = -1
    inside = 0  # loops of this kind around the one that is derived

    def __init__(self) -> None:
        self.known = {}

    def next_number(self) -> int:
        if self.number >= 0:
            self.number += 1
        return self.number


_rooms = _Rooms()
# Steps that compiled programs have memory for, where their number is not known: so many, or more as
# long as what they keep is not many bytes. What is not used of it costs nothing.
# Inside of another loop of this kind, whose steps each keep so much, fewer lie nearer together.
ROOM, MOST_ROOM, MOST_ROOM_INSIDE = 64, 1024, 128
ROOM_BYTES = 1 << 18


def _room(number: int, half: Pullback) -> int:
    """The steps that there is memory for in a loop of this number."""
    if number in _rooms.known:
        return _rooms.known[number]
    kept = [half.forward.types[k] for k in half.residuals]
    row = sum(t.size * t.dtype.itemsize for t in kept)
    length, most = ROOM, MOST_ROOM_INSIDE if _rooms.inside else MOST_ROOM
    while not mapping.depth and length < most and 2 * length * row <= ROOM_BYTES:
        length *= 2
    return length


@contextlib.contextmanager
def rooms(known: dict[int, int]) -> Iterator[None]:
    """Trace a function whose counted loops, by their number, have room for so many steps."""
    before = _rooms.known, _rooms.number, _rooms.inside
    _rooms.known, _rooms.number, _rooms.inside = known, 0, 0
    try:
        yield
    finally:
        _rooms.known, _rooms.number, _rooms.inside = before


# ---------------------------------------------------------------- its rules


class _LoopOp(Op):
    """Recorded where reverse mode may follow, the loop gives out what that will need."""

    def __call__(self, *args: Any, **params: Any) -> Any:
        trace = recorder(args)
        if trace is None:
            return self.compute(args, params)
        count = len(params["body"].graph.outputs)
        if trace.stores:
            active = tuple(_is_active(arg, trace) for arg in args)
            if any(active):
                kept = passing_among(args, trace), max(params["length"], 1)
                half = params["body"].derived(pullback, active, params["recompute"], *kept)
                params["body"] = half.forward
        else:
            params["body"] = params["body"].derived(without_pullback)
        return trace.record(self, args, params)[:count]


def _is_active(arg: Any, trace: Trace) -> bool:
    return isinstance(arg, Traced) and arg._trace is trace and trace.node_of(arg).active


def _pull(node: Operator, g: Sequence[Any], take: Function) -> list[Any]:
    """Cotangents of the arguments: the backward body, run from the last step to the first."""
    active = tuple(source.active for source in node.inputs)
    values = [source.output for source in node.inputs]
    half = node.params["body"].pullback
    if half is None or half.active != active or any(part is not None for part in g[half.outputs :]):
        return pull_loop(active, values, g, take, **node.params)  # where nothing was kept
    residuals = [node.output[k] for k in half.residuals]
    return _run_backward(half, values, residuals, g, node.params, take)


def nothing_so_far(number: int) -> None:
    """The cotangent of an argument that there is already, where none is added to: see `pull`."""


def pull_loop(
    active: tuple[bool, ...],
    values: Sequence[Any],
    g: Sequence[Any],
    take: Function = nothing_so_far,
    **params: Any,
) -> list[Any]:
    """The pullback at these values; the residuals are found anew."""
    half = params["body"].derived(pullback, active, params["recompute"])
    return _pull_again(half, values, g, params, take)


def _pull_again(
    half: Pullback,
    values: Sequence[Any],
    g: Sequence[Any],
    params: dict[str, Any],
    take: Function,
) -> list[Any]:
    residuals = []
    if half.residuals:
        results = loop(*values, **{**params, "body": half.forward})
        residuals = [results[k] for k in half.residuals]
    return _run_backward(half, values, residuals, g, params, take)


def pull_counted(
    active: tuple[bool, ...],
    passing: tuple[bool, ...],
    values: Sequence[Any],
    g: Sequence[Any],
    count: Any,
    take: Function,
    **params: Any,
) -> list[Any]:
    """The pullback of a loop of `count` steps, a number that is not known yet; of the values some
    may be `passing`."""
    number = _rooms.next_number()
    turn = params["body"]
    params |= {"body": turn.derived(with_count), "counted": number}
    gone = (False, *passing) if passing else ()
    _rooms.inside += 1
    half = params["body"].derived(
        pullback, (False, *active), params["recompute"], gone, ROOM, number > 0
    )
    _rooms.inside -= 1
    half.forward.repeats = turn
    params["length"] = _room(number, half)
    return _pull_again(half, [count, *values], g, params, lambda number: take(number - 1))[1:]


def with_count(body: Body) -> Body:
    """The body with a further first constant, the number of steps, which it does not read."""
    count = Variable("", None, COUNT, active=False)
    graph = Graph([count, *body.graph.inputs], body.graph.outputs)
    return Body(graph, body.constants + 1, body.carry)


def _run_backward(
    half: Pullback,
    values: Sequence[Any],
    residuals: Sequence[Any],
    g: Sequence[Any],
    params: dict[str, Any],
    take: Function,
) -> list[Any]:
    first = half.forward.constants
    backward, carry, seeds = _seeded(half, g)
    starts = [zero_like(values[first + k]) if g[k] is None else g[k] for k in carry]
    if half.counts:
        residuals = [*residuals, np.arange(params["length"])]
    arguments = _backward_arguments(half, values, residuals, starts, seeds)
    added = backward.derived(_added)
    for number, k in enumerate(half.sums, len(carry)):
        so_far = take(k) if number in added else None
        if so_far is not None:
            arguments[backward.constants + number] = so_far
    if params.get("counted"):
        backward, arguments = backward.derived(with_count), [values[0], *arguments]
    reverse = not params["reverse"]
    found = loop(*arguments, **{**params, "body": backward, "reverse": reverse})
    cotangents: list[Any] = [None] * len(values)
    places = [first + k for k in carry] + half.sums + half.inner
    for place, part in zip(places, found, strict=True):
        cotangents[place] = part
    return [part if flag else None for part, flag in zip(cotangents, half.active, strict=True)]


def _backward_arguments(
    half: Pullback,
    values: Sequence[Any],
    residuals: Sequence[Any],
    starts: Sequence[Any],
    seeds: Sequence[Any],
) -> list[Any]:
    return [
        *[values[k] for k in half.constants],
        *starts,
        *[zero_like(values[k]) for k in half.sums],
        *residuals,
        *[values[k] for k in half.rows],
        *seeds,
    ]


def _seeded(half: Pullback, g: Sequence[Any]) -> tuple[Body, list[int], list[Any]]:
    """The backward body for the cotangents that there are, the carries that have one, and those of
    rows. A carry that only the end of the loop is decided by has none at any step."""
    body, count = half.backward, len(half.seeds)
    rows = len(body.graph.inputs) - count
    zero = tuple(rows + n for n, k in enumerate(half.seeds) if g[k] is None)
    seeds = [g[k] for k in half.seeds if g[k] is not None]
    if zero:
        body = body.derived(without_zeros, count, zero)
    none = tuple(body.constants + n for n, k in enumerate(half.carry) if g[k] is None)
    still = body.derived(staying_zero, len(seeds), none)
    if still:
        body = body.derived(without_zeros, len(seeds), still)
    first = half.backward.constants
    return body, [k for n, k in enumerate(half.carry) if first + n not in still], seeds


def _added(body: Body) -> dict[int, int]:
    """The carries that a step adds to at some places, where they lie."""
    found = added_to(body.graph)
    return {k: k for k in range(body.carry) if found.get(k) == body.constants + k}


def written(body: Body) -> dict[int, int]:
    """The carries that a step writes to at some places, as numbers of inputs."""
    found = origins(body.graph)
    return {k: n for k, n in found.items() if k < body.carry and n == body.constants + k}


def _push(node: Operator, tangents: Sequence[Any]) -> list[Any]:
    """Tangents of the results."""
    half = node.params["body"].pullback
    plain = not node.params.get("counted")  # rows of zeros would need their number
    if plain and half is not None and half.active == tuple(t is not None for t in tangents):
        return _push_linear(node, tangents, half)
    return _push_together(node, tangents)


def _push_linear(node: Operator, tangents: Sequence[Any], half: Pullback) -> list[Any]:
    """From what was kept for the pullback. That is linear in its seeds, and its own pullback is
    the pushforward: a loop over tangents alone."""
    values = [source.output for source in node.inputs]
    params, first = node.params, half.forward.constants
    own = half.backward.graph.inputs
    rows = [own[len(own) - len(half.seeds) + n].type for n in range(len(half.seeds))]
    arguments = _backward_arguments(
        half,
        values,
        [node.output[k] for k in half.residuals],
        [zero_like(values[first + k]) for k in half.carry],
        [zeros(ArrayType(t.dtype, (params["length"], *t.shape))) for t in rows],
    )
    carries = range(len(half.constants), len(half.constants) + len(half.carry))
    seeds = range(len(arguments) - len(rows), len(arguments))
    active = tuple(n in carries or n in seeds for n in range(len(arguments)))
    given = [tangents[k] for k in [*[first + k for k in half.carry], *half.sums, *half.inner]]
    inner = {**params, "body": half.backward, "reverse": not params["reverse"]}
    found = pull_loop(active, arguments, given, **inner)
    results: list[Any] = [None] * len(node.output)
    for k, number in zip([*half.carry, *half.seeds], [*carries, *seeds], strict=True):
        results[k] = found[number]
    return results


def _push_together(node: Operator, tangents: Sequence[Any]) -> list[Any]:
    """By a loop over values and tangents, which keeps nothing."""
    body: Body = node.params["body"]
    values = [source.output for source in node.inputs]
    pushed = body.derived(pushforward, tuple(t is not None for t in tangents))
    filled = [
        zero_like(value) if tangent is None else tangent
        for value, tangent in zip(values, tangents, strict=True)
    ]
    parts = [
        [*plain, *[t for t, flag in zip(tangent, live, strict=True) if flag]]
        for plain, tangent, live in zip(
            body.split(values), body.split(filled), body.split(pushed.inputs), strict=True
        )
    ]
    arguments = [value for part in parts for value in part]
    found = iter(loop(*arguments, **{**node.params, "body": pushed.body}))
    carry = [next(found) for _ in range(pushed.body.carry)][body.carry :]
    rows = list(found)[len(pushed.outputs) - body.carry :]
    live_tangents = iter([*carry, *rows])
    return [next(live_tangents) if flag else None for flag in pushed.outputs]


def _transpose(g: Sequence[Any], place: int, *args: Any, **params: Any) -> Any:
    """A loop that is linear in an argument: its pullback, which is the same at any value."""
    values = [zeros(arg) if isinstance(arg, ArrayType) else arg for arg in args]
    active = tuple(number == place for number in range(len(args)))
    found = pull_loop(active, values, g, **params)[place]
    return zero_like(values[place]) if found is None else found


def _batch(size: int, flags: Sequence[bool], *args: Any, **params: Any) -> Mixed:
    return _batch_loop(size, flags, None, *args, **params)


def _batch_loop(size: int, flags: Sequence[bool], going: Any, *args: Any, **params: Any) -> Mixed:
    """The loop for a batch, of which only those samples count that are `going`, if given."""
    body: Body = params["body"]
    if params.get("counted") and (flags[0] or going is not None):
        return _batch_counts(size, flags, going, *args, **params)
    masked = going is not None
    batched = body.derived(batched_body, size, tuple(flags), masked)
    fixed, carry, rows = body.split(args)
    _, carry_flags, row_flags = body.split(flags)
    starts = [
        broadcast_to(value, shape=(size, *type_of(value).shape)) if goal and not flag else value
        for value, flag, goal in zip(carry, carry_flags, batched.carry, strict=True)
    ]
    turned = [_swap(x) if flag else x for x, flag in zip(rows, row_flags, strict=True)]
    mask = [going] if masked else []
    found = loop(*mask, *fixed, *starts, *turned, **{**params, "body": batched.body})
    return _mixed(found, batched.carry, batched.rows)


def _mixed(found: Sequence[Any], carry: Sequence[bool], rows: Sequence[bool]) -> Mixed:
    """Ends and rows, of which the flagged ones are batches."""
    ys = zip(found[len(carry) :], rows, strict=True)
    values = (*found[: len(carry)], *[_swap(y) if flag else y for y, flag in ys])
    return Mixed(values, (*carry, *rows))


def _batch_counts(size: int, flags: Sequence[bool], going: Any, *args: Any, **params: Any) -> Mixed:
    """Samples with as many steps as each says: the others keep their carries meanwhile."""
    body: Body = params["body"]
    reverse = params["reverse"]
    fixed, carry, rows = body.split(args)
    _, given, row_flags = body.split(flags)
    if not flags[0]:
        fixed[0], flags = _repeat(fixed[0], size), [True, *flags[1:]]
    if going is not None:
        fixed[0] = select(going, fixed[0], np.int64(0))
    masked, row_results = body.derived(_masked, size, tuple(flags), reverse)
    most = reduce_max(fixed[0], axes=(0,), ties="first") if size else np.int64(0)
    starts = [v if flag else _repeat(v, size) for v, flag in zip(carry, given, strict=True)]
    turned = [_swap(x) if flag else x for x, flag in zip(rows, row_flags, strict=True)]
    first = subtract(most, 1) if reverse else np.int64(0)
    found = loop(most, *fixed, first, *starts, *turned, **{**params, "body": masked})[1:]
    return _mixed(found, [True] * body.carry, row_results)


def _masked(
    body: Body, size: int, flags: tuple[bool, ...], reverse: bool
) -> tuple[Body, list[bool]]:
    """A step for a batch, in which the first constant is the most steps, the second those of each
    sample, and the first carry the number of the step; and which rows of results are batches."""
    first, second = body.constants, body.constants + body.carry
    every = (*flags[:first], *[True] * body.carry, *flags[second:])
    with Trace() as trace:
        inputs = [
            trace.variable(array_type=with_batch(node.type, size, flag), active=False)
            for node, flag in zip(body.graph.inputs, every, strict=True)
        ]
        most, step = (trace.variable(array_type=COUNT, active=False) for _ in range(2))
        going = less(step, inputs[0])
        found = evaluate_batched(body.graph, size, inputs, every, going)
        results = [value for value, _ in found]
        stays = body.derived(written)
        kept = [
            new
            if k in stays
            else select(reshape(going, shape=(size, *[1] * (old.type.ndim - 1))), new, old)
            for k, (new, old) in enumerate(zip(results, inputs[first:second], strict=False))
        ]
        following = subtract(step, 1) if reverse else add(step, 1)
        outputs = [trace.node_of(v) for v in [following, *kept, *results[body.carry :]]]
        nodes: list[Any] = [t.node for t in [most, *inputs[:first], step, *inputs[first:]]]
    rows = [flag for _, flag in found[body.carry :]]
    return Body(Graph(nodes, outputs), first + 1, body.carry + 1), rows


def _repeat(value: Any, size: int) -> Any:
    return broadcast_to(value, shape=(size, *type_of(value).shape))


def _swap(x: Any) -> Any:
    return permute(x, axes=(1, 0, *range(2, len(type_of(x).shape))))


def _samples(rng: np.random.Generator) -> list[Any]:
    with Trace() as trace:
        types = [ArrayType(np.dtype(float), shape) for shape in ((3, 3), (3,), (), (3,))]
        w, h, total, x = inputs = [trace.variable(array_type=t, active=False) for t in types]
        new = np.tanh(w @ h + x)
        results = [new, total + np.sum(new * x), new * total, x]
        outputs = [trace.node_of(result) for result in results]
    body = Body(Graph([tracer.node for tracer in inputs], outputs), 1, 2)  # type: ignore[misc]
    shapes = ((3, 3), 3, (), (4, 3))
    return [
        (
            tuple(rng.normal(size=shape) / 2 for shape in shapes),
            {"body": body, "length": 4, "reverse": reverse, "recompute": recompute},
        )
        for reverse, recompute in ((False, False), (True, False), (False, True))
    ]


# A loop over the rows of arrays, with a body.
loop: Op = _LoopOp(
    "scan",
    _evaluate,
    _type,
    transpose=_transpose,
    batch=_batch,
    hosted="schedule/repeat.py makes a native loop of it",
    samples=_samples,
    multiple=True,
)
loop.masked = _batch_loop
loop.pull_rule = _pull
loop.adds_to = lambda node: {
    k: node.params["body"].constants + k for k in node.params["body"].derived(_added)
}
loop.writes_to = lambda node: node.params["body"].derived(written)
loop.push_rule = _push


def is_loop(node: Node) -> bool:
    """Whether a node is a loop with a body."""
    return isinstance(node, Operator) and node.op is loop
