"""`scan`: a loop as one operation with a graph inside.

The body is traced once, for one step. Evaluated, the graph is replayed step by step; compiled, it
becomes the body of a native loop, so that the number of steps costs no time to compile. Values
from outside that the body uses become constants of the loop, and their cotangents are summed up
while the loop runs backward. The transforms of the body are in `bodies.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from .. import tree
from ..errors import AbstractValueError, DTypeError, ShapeError, StructureError, explain
from ..graph import Constant, Graph, Node
from ..ops.indexing import index
from ..ops.layout import convert, reshape
from ..ops.op import Traced
from ..ops.structure import concatenate
from ..trace import Trace, called
from ..trace.reaching import places_to_change
from ..trace.tracing import check_leaf
from ..trace.views import snapshot
from ..types import ArrayType, Function, type_of
from .batching import stack_samples, take_sample
from .bodies import Body, closed_body
from .loop import loop, order
from .plans import strong

Carry = TypeVar("Carry")

# ---------------------------------------------------------------- the function


def scan(
    body_f: Callable[[Carry, Any], tuple[Carry, Any]],
    init: Carry,
    xs: Any = None,
    length: int | None = None,
    checkpoint: int | None = None,
    reverse: bool = False,
) -> tuple[Carry, Any]:
    """A loop that carries a state along: ``carry, y = body_f(carry, x)`` for each row x of `xs`.

    Returns the last carry, and all y stacked along a new first axis. `init`, `xs` and y may be any
    trees of arrays; without `xs` give the `length`, and x is None. The carry keeps its structure,
    shapes and dtypes. `reverse` goes from the last row to the first.

    For the derivative the values that it needs are kept for all steps. ``checkpoint=k`` keeps
    the carry of every k-th step only and computes the steps between a second time.

    >>> import numpy as np
    >>> scan(lambda total, x: (total + x, total * x), 0.0, np.array([1.0, 2.0, 3.0]))
    (np.float64(6.0), array([0., 2., 9.]))

    Whatever the body takes from outside has a derivative too:

    >>> import wengert as wg
    >>> def compound(rate):
    ...     return scan(lambda money, _: (money * (1 + rate), None), 100.0, length=10)[0]
    >>> wg.value_and_grad(compound)(0.05)
    (np.float64(162.8894626777442), np.float64(1551.328215978516))
    """
    carry, carry_structure = _leaves(init, "init")
    rows, row_structure = _leaves(xs, "xs")
    steps = _length(rows, length)
    every = _interval(checkpoint)

    def on_leaves(leaves: Sequence[Any]) -> Any:
        state = tree.unflatten(carry_structure, leaves[: len(carry)])
        row = tree.unflatten(row_structure, leaves[len(carry) :])
        return _pair(called(body_f, state, row))

    try:
        carry, body, captured, out_structure = _traced(on_leaves, carry, carry_structure, rows)
    except AbstractValueError:  # the body looks at values: run it on them, step by step
        return _unrolled(on_leaves, carry, carry_structure, rows, steps, reverse)
    found = _run(body, [*captured, *carry, *rows], steps, reverse, every)
    count = carry_structure.leaf_count
    return (
        tree.unflatten(carry_structure, found[:count]),
        tree.unflatten(out_structure, found[count:]),
    )


def _leaves(values: Any, name: str) -> tuple[list[Any], tree.Structure]:
    leaves, structure = tree.flatten(values)
    return [snapshot(check_leaf(leaf, "scan", name)) for leaf in leaves], structure


def _length(rows: Sequence[Any], length: Any) -> int:
    shapes = [type_of(leaf).shape for leaf in rows]
    if () in shapes:
        raise ShapeError(
            explain("scan", "xs holds a number, expected arrays", "Give arrays with a row a step.")
        )
    lengths: list[int] = sorted({shape[0] for shape in shapes})
    if length is not None:
        length = operator.index(length)
        lengths = sorted({*lengths, length})
    if not lengths:
        raise StructureError(
            explain("scan", "got neither xs nor length", "Give the number of steps: length=10.")
        )
    if len(lengths) > 1:
        raise ShapeError(
            explain(
                "scan",
                f"xs and length ask for {' and '.join(map(str, lengths))} steps",
                "Give arrays whose first axes have one length.",
            )
        )
    if lengths[0] < 0:
        raise ShapeError(explain("scan", f"got length={length}, expected 0 or more"))
    return lengths[0]


def _interval(checkpoint: Any) -> int | None:
    if checkpoint is None:
        return None
    if isinstance(checkpoint, bool) or not hasattr(checkpoint, "__index__") or checkpoint < 1:
        raise DTypeError(
            explain(
                "scan",
                f"got checkpoint={checkpoint!r}, expected a number of steps from 1 on",
                "Give checkpoint=10 to keep the carry of every tenth step, or None to keep all.",
            )
        )
    return operator.index(checkpoint)


def _pair(result: Any) -> tuple[Any, Any]:
    if isinstance(result, tuple) and len(result) == 2:
        return result
    raise StructureError(
        explain(
            "scan",
            f"the body returned {tree.flatten(result)[1]}, expected a pair (carry, y)",
            "Return carry, None if there is no y.",
        )
    )


# ---------------------------------------------------------------- tracing the body


def _traced(
    on_leaves: Function,
    carry: Sequence[Any],
    structure: tree.Structure,
    rows: Sequence[Any],
) -> tuple[list[Any], Body, list[Any], tree.Structure]:
    """The initial carry in its final types, the body, the values it captures, y's structure."""
    row_types = [ArrayType(t.dtype, t.shape[1:]) for t in map(type_of, rows)]
    types = [type_of(leaf) for leaf in carry]
    while True:
        graph, outputs, out_structure = _traced_once(on_leaves, types, row_types, structure)
        wanted = [_settled(own, node.type) for own, node in zip(types, outputs, strict=True)]
        if wanted == types:
            break
        types = wanted
    groups: dict[Any, list[Node]] = {}
    for node in graph.nodes:
        if isinstance(node, Constant) and isinstance(node.output, Traced):
            value: Any = node.output
            groups.setdefault((id(value._trace), value.node.serial), []).append(node)
    captured = [group[0].output for group in groups.values()]
    body = closed_body(graph, list(groups.values()), len(carry))
    start = [_as_type(leaf, own) for leaf, own in zip(carry, types, strict=True)]
    return start, body, captured, out_structure


def _settled(own: ArrayType, found: ArrayType) -> ArrayType:
    """The type of a carry that began as a Python number: that of what the body makes of it."""
    return strong(found) if own.weak and found.shape == () else own


def _traced_once(
    on_leaves: Function,
    types: Sequence[ArrayType],
    row_types: Sequence[ArrayType],
    structure: tree.Structure,
) -> tuple[Graph, list[Node], tree.Structure]:
    with Trace(keep_source=True, places=places_to_change(on_leaves)) as trace:
        trace.body = True
        tracers = [trace.variable(array_type=t, active=False) for t in [*types, *row_types]]
        for tracer in tracers:
            tracer._writable = "argument" if tracer.type.shape else None
        variables: list[Any] = [tracer.node for tracer in tracers]
        carry, ys = on_leaves(tracers)
        leaves, found = tree.flatten(carry)
        leaves = [check_leaf(leaf, "scan", "carry") for leaf in leaves]
        if not found.fits(structure) or not all(
            _fits(type_of(leaf), own) for leaf, own in zip(leaves, types, strict=True)
        ):
            raise _changed_carry(structure, types, found, [type_of(leaf) for leaf in leaves])
        outputs = [
            trace.node_of(leaf if own.weak else _as_type(leaf, own))
            for leaf, own in zip(leaves, types, strict=True)
        ]
        row_leaves, row_structure = tree.flatten(ys)
        rows = [trace.node_of(check_leaf(leaf, "scan", "y")) for leaf in row_leaves]
    return Graph(variables, [*outputs, *rows]), outputs, row_structure


def _fits(found: ArrayType, own: ArrayType) -> bool:
    """Whether a carry of type `own` may become `found`; Python numbers take on a dtype."""
    if found.shape != own.shape:
        return False
    return (
        own.weak
        or found.dtype == own.dtype
        or (found.weak and np.can_cast(found.dtype, own.dtype, "same_kind"))
    )


def _as_type(leaf: Any, own: ArrayType) -> Any:
    return leaf if type_of(leaf) == strong(own) else convert(leaf, dtype=own.dtype)


def _changed_carry(
    structure: tree.Structure,
    types: Sequence[ArrayType],
    found: tree.Structure,
    found_types: Sequence[ArrayType],
) -> StructureError:
    before, after = Shown.tree(structure, types), Shown.tree(found, found_types)
    return StructureError(
        explain(
            "scan",
            f"the body was given the carry {before} and returned {after}",
            "Return a carry of the same structure, shapes and dtypes as init.",
        )
    )


class Shown:
    """A leaf that prints as its type."""

    def __init__(self, array_type: ArrayType):
        self.type = array_type

    def __repr__(self) -> str:
        return str(self.type)

    @classmethod
    def tree(cls, structure: tree.Structure, types: Sequence[ArrayType]) -> str:
        """A tree with types for leaves."""
        return str(tree.unflatten(structure, map(cls, types)))


def _unrolled(
    on_leaves: Function,
    carry: Sequence[Any],
    structure: tree.Structure,
    rows: Sequence[Any],
    length: int,
    reverse: bool,
) -> tuple[Any, Any]:
    """Step after step in Python, for a body that decides by values."""
    outputs: list[Any] = [None] * length
    state, out_structure = tree.unflatten(structure, carry), None
    for step in order(length, reverse):
        state, y = on_leaves([*tree.leaves(state), *[take_sample(x, step) for x in rows]])
        outputs[step], out_structure = tree.flatten(y)
    if out_structure is None:
        raise StructureError(
            explain(
                "scan",
                "the body decides by values and there are no steps to run it for",
                "Give xs with at least one row, or use wnp.where in the body.",
            )
        )
    stacked = [stack_samples(column) for column in zip(*outputs, strict=True)]
    return state, tree.unflatten(out_structure, stacked)


# ---------------------------------------------------------------- running it


def _run(
    body: Body, values: Sequence[Any], length: int, reverse: bool, every: int | None
) -> Sequence[Any]:
    """The loop; with checkpoints as a loop over segments, each of which is a loop."""
    if every is None:
        results: Sequence[Any] = loop(
            *values, body=body, length=length, reverse=reverse, recompute=False
        )
        return results
    fixed, carry, rows = body.split(values)
    whole = length // every
    parts = [(0, whole, every), (whole * every, 1, length - whole * every)]
    pieces = []
    for start, count, steps in reversed(parts) if reverse else parts:
        if count and (steps or length == 0):
            stretch = [_segments(x, start, count, steps) for x in rows]
            found = _run_segments(body, [*fixed, *carry, *stretch], count, steps, reverse)
            carry = list(found[: body.carry])
            pieces.append([_joined(y, count * steps) for y in found[body.carry :]])
    columns = zip(*(reversed(pieces) if reverse else pieces), strict=True)
    return [*carry, *[concatenate(*c, axis=0) if len(c) > 1 else c[0] for c in columns]]


def _run_segments(
    body: Body, values: Sequence[Any], count: int, steps: int, reverse: bool
) -> Sequence[Any]:
    types = [type_of(value) for value in values]
    fixed, carry, rows = body.split(types)
    with Trace() as trace:
        row_types = [ArrayType(t.dtype, t.shape[1:]) for t in rows]
        inputs = [
            trace.variable(array_type=strong(t), active=False) for t in [*fixed, *carry, *row_types]
        ]
        results = loop(*inputs, body=body, length=steps, reverse=reverse, recompute=False)
        outputs = [trace.node_of(result) for result in results]
    graph = Graph([tracer.node for tracer in inputs], outputs)  # type: ignore[misc]
    segment = Body(graph, body.constants, body.carry)
    results = loop(*values, body=segment, length=count, reverse=reverse, recompute=True)
    return tuple(results)


def _segments(x: Any, start: int, count: int, steps: int) -> Any:
    shape = type_of(x).shape
    rest = [(0, n, 1) for n in shape[1:]]
    if count * steps != shape[0]:
        x = index(x, key=((start, start + count * steps, 1), *rest))
    return reshape(x, shape=(count, steps, *shape[1:]))


def _joined(y: Any, length: int) -> Any:
    return reshape(y, shape=(length, *type_of(y).shape[2:]))
