"""`cond`, `switch`, `while_loop`, `fori_loop`: control flow that does not depend on Python.

The functions are traced once, on values of which the types are known alone. What they take from
outside becomes an argument of the operation, so its derivative is known too. A function that must
look at values while it is traced runs on them in Python instead, where there are any.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .. import tree
from ..errors import AbstractValueError, DTypeError, ShapeError, StructureError, explain
from ..graph import Constant, Graph, Node, Operator
from ..ops.elementwise import add
from ..ops.layout import convert
from ..ops.logic import not_equal
from ..ops.op import Traced
from ..ops.python_integers import fits_64_bits
from ..trace import Trace, called
from ..trace.reaching import places_to_change
from ..trace.tracing import check_leaf
from ..trace.views import snapshot
from ..types import ArrayType, Function, result_dtype, type_of, weaken
from .bodies import Body, closed_body
from .choice import Branches, switch_op, taken
from .control import Shown
from .loop import loop
from .repetition import Turn, while_op

# Turns that no loop comes to in a month, and how far a counter may get meanwhile.
LONG, COUNTED = 1 << 51, 1 << 62

State = TypeVar("State")
Result = TypeVar("Result")

# ---------------------------------------------------------------- branches


def cond(
    pred: Any, true_f: Callable[..., Result], false_f: Callable[..., Result], *args: Any
) -> Result:
    """``true_f(*args) if pred else false_f(*args)``, where `pred` may be known at run time alone.

    Both functions return trees of one structure, with the same shapes and dtypes. Only one of them
    runs; under `vmap`, where samples differ, both do, and each sample takes its own result.

    >>> import wengert as wg
    >>> half = wg.jit(lambda n: wg.cond(n % 2 == 0, lambda n: n // 2, lambda n: 3 * n + 1, n))
    >>> half(10), half(7)
    (np.int64(5), np.int64(22))

    The derivative is that of the function that runs:

    >>> wg.grad(lambda x: wg.cond(x > 1, lambda x: x**2, lambda x: 2 * x - 1, x))(3.0)
    np.float64(6.0)
    """
    for name, f in (("true_f", true_f), ("false_f", false_f)):
        if not callable(f):
            raise DTypeError(
                explain("cond", f"{name} is {f!r}, expected a function", "Write lambda: value.")
            )
    result: Result = _choose("cond", _truth(pred, "cond", "pred"), (false_f, true_f), args)
    return result


def switch(index: Any, branches: Sequence[Callable[..., Result]], *args: Any) -> Result:
    """``branches[index](*args)``, where `index` may be known at run time alone.

    An index that is too small or too large takes the first branch or the last one. What else holds
    for the functions, and for their derivatives, `cond` says.

    >>> import numpy as np
    >>> import wengert as wg
    >>> wave = wg.jit(lambda kind, x: wg.switch(kind, [np.sin, np.cos, np.tanh], x))
    >>> wave(1, 0.0), wave(7, 0.0)
    (np.float64(1.0), np.float64(0.0))
    """
    functions = tuple(branches)
    if not functions or not all(map(callable, functions)):
        raise DTypeError(
            explain(
                "switch",
                f"got {len(functions)} branches of which {sum(map(callable, functions))} are "
                "functions, expected functions, at least one",
                "Write lambda: value for a value.",
            )
        )
    own = type_of(check_leaf(index, "switch", "index"))
    if own.shape != () or own.dtype.kind not in "biu":
        raise DTypeError(
            explain("switch", f"the index is {own}, expected one integer", "Use x.astype(int).")
        )
    number = snapshot(index)
    if own.dtype != np.int64:
        number = convert(number, dtype=np.dtype(np.int64))
    result: Result = _choose("switch", number, functions, args)
    return result


def _truth(pred: Any, operation: str, name: str) -> Any:
    """A Boolean of one element, as the number of a branch."""
    own = type_of(check_leaf(pred, operation, name))
    if own.shape != ():
        raise ShapeError(
            explain(
                operation,
                f"{name} is {own}, expected one truth value",
                "Use wnp.any or wnp.all; wnp.where chooses element by element.",
            )
        )
    truth = pred if own.dtype.kind == "b" else not_equal(pred, 0)
    return convert(truth, dtype=np.dtype(np.int64))


def _choose(operation: str, index: Any, functions: Sequence[Function], args: Any) -> Any:
    leaves, structure = tree.flatten(args)
    leaves = [snapshot(check_leaf(leaf, operation, "args")) for leaf in leaves]
    types = [type_of(leaf) for leaf in leaves]

    def on_leaves(f: Function) -> Function:
        return lambda values: called(f, *tree.unflatten(structure, values))

    try:
        traced = [_trace(on_leaves(f), types, operation, "result", True) for f in functions]
    except Exception as error:  # one looks at values, or fails where it would not have run
        known = not isinstance(index, Traced)
        if not known and not (isinstance(error, AbstractValueError) and _is_known(index)):
            raise
        return functions[taken(index, len(functions))](*args)
    found = _agreed(operation, traced)
    for one in traced:
        one.outputs[:] = [_converted(node, t) for node, t in zip(one.outputs, found, strict=True)]
    captured, bodies = _closed(traced, 0, rows=True)
    results = switch_op(index, *captured, *leaves, branches=Branches(bodies))
    return tree.unflatten(traced[0].structure, results)


def _is_known(value: Any) -> bool:
    try:
        int(value)
    except AbstractValueError:
        return False
    return True


def _agreed(operation: str, traced: Sequence[_Recorded]) -> list[ArrayType]:
    """The types of the results, which all branches have in common."""
    first = traced[0]
    for number, other in enumerate(traced[1:], 1):
        if not other.structure.fits(first.structure):
            one, two = _branch_names(operation, number)
            raise StructureError(
                explain(
                    operation,
                    f"{one} returned {first.shown()} and {two} {other.shown()}",
                    "Return trees of the same structure from all branches.",
                )
            )
    found = [node.type for node in first.outputs]
    for number, other in enumerate(traced[1:], 1):
        for place, node in enumerate(other.outputs):
            joined = _joined(found[place], node.type)
            if joined is None:
                one, two = _branch_names(operation, number)
                leaf = _leaf_name("the result", first.structure, place)
                raise StructureError(
                    explain(
                        operation,
                        f"{leaf} is {found[place]} from {one} and {node.type} from {two}",
                        "Return the same shapes and dtypes from all branches; use astype.",
                    )
                )
            found[place] = joined
    return found


def _branch_names(operation: str, number: int) -> tuple[str, str]:
    return ("false_f", "true_f") if operation == "cond" else ("branch 0", f"branch {number}")


def _joined(one: ArrayType, other: ArrayType) -> ArrayType | None:
    """The type of two that stand for one value; Python numbers take on a dtype. None: there is
    none."""
    if one.shape != other.shape:
        return None
    if one.weak and other.weak:
        return max(one, other, key=lambda t: "ifc".index(t.dtype.kind))
    if one.weak or other.weak:
        weak, plain = (one, other) if one.weak else (other, one)
        if not np.can_cast(weak.dtype, plain.dtype, "same_kind"):
            return ArrayType(result_dtype(weak, plain), one.shape)
        return plain
    return one if one.dtype == other.dtype else None


# ---------------------------------------------------------------- loops


def while_loop(
    cond_f: Callable[[State], Any], body_f: Callable[[State], State], init: State
) -> State:
    """``state = init``, then ``state = body_f(state)`` as long as ``cond_f(state)`` is true.

    The state is any tree of arrays, and keeps its structure, shapes and dtypes. The number of turns
    need not be known: compiled, this is a native loop. Under `vmap` each sample has turns of its
    own number.

    >>> import wengert as wg
    >>> def root(a):  # Newton's method
    ...     far = lambda x: abs(x * x - a) > 1e-12
    ...     return wg.while_loop(far, lambda x: (x + a / x) / 2, 1.0)
    >>> wg.jit(root)(2.0)
    np.float64(1.414213562373095)

    Derivatives go through all turns, forward and backward. For the latter the values of each are
    kept; that of a fixed point needs none of it, see `custom_rule`.

    >>> wg.grad(root)(2.0)
    np.float64(0.35355339059327373)
    """
    leaves, structure = _state("while_loop", init)

    def turn(values: Sequence[Any]) -> Any:
        return called(body_f, tree.unflatten(structure, values))

    def test(values: Sequence[Any]) -> Any:
        return called(cond_f, tree.unflatten(structure, values))

    try:
        body, types = _settle("while_loop", turn, leaves, structure)
        going = _trace(test, types, "while_loop", "cond_f's result")
    except AbstractValueError:  # one of them looks at values: turn after turn in Python
        state: State = tree.unflatten(structure, leaves)
        while cond_f(state):
            state = body_f(state)
        return state
    _check_test(going)
    captured, bodies = _closed([going, body], len(leaves))
    start = [_as_type(leaf, own) for leaf, own in zip(leaves, types, strict=True)]
    found = while_op(*captured, *start, turn=Turn(*bodies))
    result: State = tree.unflatten(structure, found)
    return result


def fori_loop(lo: Any, hi: Any, body_f: Callable[[Any, State], State], init: State) -> State:
    """``state = init``, then ``state = body_f(i, state)`` for i from `lo` to `hi`, `hi` excluded.

    The state is any tree of arrays, and keeps its structure, shapes and dtypes. The bounds may be
    known at run time alone.

    >>> import wengert as wg
    >>> wg.jit(lambda n: wg.fori_loop(1, n + 1, lambda i, product: product * i, 1.0))(5)
    np.float64(120.0)
    """
    leaves, structure = _state("fori_loop", init)
    bounds = [_bound("fori_loop", *pair) for pair in (("lo", lo), ("hi", hi))]
    known = not any(isinstance(bound, Traced) for bound in bounds)

    def turn(values: Sequence[Any]) -> Any:
        return values[0] + 1, called(body_f, values[0], tree.unflatten(structure, values[1:]))

    whole = tree.flatten((0, init))[1]
    start: list[Any] = [bounds[0], *leaves]
    try:
        body, types = _settle("fori_loop", turn, start, whole)
        going = None if known else _trace(lambda v: v[0] < hi, types, "fori_loop", "hi")
    except AbstractValueError:  # the body looks at values: step after step in Python
        state: State = tree.unflatten(structure, leaves)
        for i in range(int(lo), int(hi)):
            state = body_f(i, state)
        return state
    start = [_as_type(leaf, own) for leaf, own in zip(start, types, strict=True)]
    if going is None:
        captured, (one,) = _closed([body], len(start))
        length = max(0, int(bounds[1]) - int(bounds[0]))
        params = {"length": length, "reverse": False, "recompute": False}
        found = loop(*captured, *start, body=one, **params)
        found = [weaken(v) if t.weak else v for v, t in zip(found, types, strict=True)]
    else:
        captured, bodies = _closed([going, body], len(start))
        found = while_op(*captured, *start, turn=Turn(*bodies))
    result: State = tree.unflatten(structure, found[1:])
    return result


def _state(operation: str, init: Any) -> tuple[list[Any], tree.Structure]:
    leaves, structure = tree.flatten(init)
    return [snapshot(check_leaf(leaf, operation, "init")) for leaf in leaves], structure


def _bound(operation: str, name: str, bound: Any) -> Any:
    own = type_of(check_leaf(bound, operation, name))
    if own.shape == () and own.dtype.kind in "iu":
        return snapshot(bound)
    raise DTypeError(
        explain(operation, f"{name} is {own}, expected one integer", "Use x.astype(int).")
    )


def _check_test(going: _Recorded) -> None:
    types = [node.type for node in going.outputs]
    if len(types) != 1 or types[0].shape != () or going.structure != tree.LEAF:
        raise ShapeError(
            explain(
                "while_loop",
                f"cond_f returned {going.shown()}, expected one truth value",
                "Use wnp.any or wnp.all.",
            )
        )
    if types[0].dtype.kind != "b":
        going.outputs[:] = [_converted(going.outputs[0], ArrayType(np.dtype(bool), ()))]


def _settle(
    operation: str, turn: Function, leaves: Sequence[Any], structure: tree.Structure
) -> tuple[_Recorded, list[ArrayType]]:
    """The body for a state of settled types, and these: what began as a Python number takes on the
    type of what the body makes of it."""
    types = [type_of(leaf) for leaf in leaves]
    while True:
        traced = _trace(turn, types, operation, "state")
        if not traced.structure.fits(structure):
            raise _changed(operation, structure, types, traced)
        wanted = []
        for place, (own, node) in enumerate(zip(types, traced.outputs, strict=True)):
            kept = _carried(own, node.type)
            if kept is None:
                raise _changed(operation, structure, types, traced, place)
            wanted.append(kept)
        if wanted == types:
            break
        types = wanted
    for place, leaf in enumerate(leaves):
        if operation == "fori_loop" and place == 0:
            most = COUNTED  # it stays below `hi`
        else:
            most = COUNTED - abs(leaf) if type(leaf) is int else 0
        traced.outputs[place] = _as_counter(traced.outputs[place], traced.inputs[place], most)
    traced.outputs[:] = [_converted(node, t) for node, t in zip(traced.outputs, types, strict=True)]
    return traced, types


def _as_counter(node: Node, before: Node, most: int) -> Node:
    """i + 1 for a Python integer, without the check that it fits: in `LONG` turns a step of so
    little comes nowhere near 64 bits."""
    if not isinstance(node, Operator) or node.op is not add:
        return node
    checked, step = node.inputs
    if not isinstance(checked, Operator) or checked.op is not fits_64_bits:
        return node
    known = isinstance(step, Constant) and type(step.output) is int
    if not known or checked.inputs[0] is not before or abs(step.output) * LONG > most:
        return node
    made = Operator(add, (before, step), {}, None, node.type)
    made.source = node.source
    return made


def _carried(own: ArrayType, found: ArrayType) -> ArrayType | None:
    """The type of a state that was `own` before a turn and is `found` after it."""
    if own.weak:
        return _joined(own, found)
    fits = found.shape == own.shape and (
        found.dtype == own.dtype
        or (found.weak and np.can_cast(found.dtype, own.dtype, "same_kind"))
    )
    return own if fits else None


def _changed(
    operation: str,
    structure: tree.Structure,
    types: Sequence[ArrayType],
    traced: _Recorded,
    place: int | None = None,
) -> StructureError:
    if operation == "fori_loop":  # of whose state the body does not see the first part, i
        structure, types = structure.children[1], types[1:]
        traced = _Recorded(traced.inputs, traced.outputs[1:], traced.structure.children[1])
        place = None if place is None else place - 1
    if place is None:
        before = Shown.tree(structure, types)
        problem = f"the body was given {before} and returned {traced.shown()}"
    else:
        leaf = _leaf_name("the state", structure, place)
        problem = (
            f"{leaf} is {types[place]} before a turn and {traced.outputs[place].type} after it"
        )
    remedy = "Return a state of the same structure, shapes and dtypes as init"
    if place is not None and traced.outputs[place].type.shape == types[place].shape:
        dtype = traced.outputs[place].type.dtype
        remedy += f": begin with an init of dtype {dtype}, or convert with astype"
    return StructureError(explain(operation, problem, f"{remedy}."))


# ---------------------------------------------------------------- tracing


class _Recorded(NamedTuple):
    """A function that was traced on flat values."""

    inputs: list[Any]
    outputs: list[Node]
    structure: tree.Structure

    def shown(self) -> str:
        """The result, with types for leaves."""
        return Shown.tree(self.structure, [node.type for node in self.outputs])


def _trace(
    f: Function, types: Sequence[ArrayType], operation: str, name: str, captures: bool = False
) -> _Recorded:
    with Trace(keep_source=True, captures=captures, places=places_to_change(f)) as trace:
        trace.body = True
        tracers = [trace.variable(array_type=t, active=False) for t in types]
        for tracer in tracers:
            tracer._writable = "argument" if tracer.type.shape else None
        variables = [tracer.node for tracer in tracers]
        leaves, structure = tree.flatten(f(tracers))
        outputs = [trace.node_of(check_leaf(leaf, operation, name)) for leaf in leaves]
    return _Recorded(variables, outputs, structure)


def _closed(
    traced: Sequence[_Recorded], carry: int, rows: bool = False
) -> tuple[list[Any], list[Body]]:
    """The traced values that the functions take from outside, and bodies of which these are the
    first inputs. Of the bodies only the last carries something."""
    graphs = [Graph(one.inputs, one.outputs) for one in traced]
    found: list[dict[Any, list[Node]]] = []
    values: dict[Any, Any] = {}
    for graph in graphs:
        groups: dict[Any, list[Node]] = {}
        for node in graph.nodes:
            if isinstance(node, Constant) and isinstance(node.output, Traced):
                value: Any = node.output
                key = (id(value._trace), value.node.serial)
                values.setdefault(key, value)
                groups.setdefault(key, []).append(node)
        found.append(groups)
    bodies = []
    for number, (graph, groups) in enumerate(zip(graphs, found, strict=True)):
        stand_ins = [groups.get(key) or [Constant(None, type_of(values[key]))] for key in values]
        body = closed_body(graph, stand_ins, 0)
        carries = number == len(graphs) - 1 and not rows
        bodies.append(Body(body.graph, len(values) * carries, carry * carries))
    return list(values.values()), bodies


def _converted(node: Node, wanted: ArrayType) -> Node:
    """The node in another dtype; a Python number stays one if it is to be one."""
    if node.type.dtype == wanted.dtype:
        return node
    return Operator(convert, (node,), {"dtype": wanted.dtype}, None, wanted)


def _as_type(leaf: Any, own: ArrayType) -> Any:
    """The first state in its settled type."""
    found = type_of(leaf)
    if found.dtype == own.dtype and (own.weak or not found.weak):
        return leaf
    changed = convert(leaf, dtype=own.dtype)
    return weaken(changed) if own.weak else changed


def _leaf_name(whole: str, structure: tree.Structure, place: int) -> str:
    """``the state``, or where in it: ``the state[1]['x']``."""
    return whole + _leaf_paths(structure)[place]


def _leaf_paths(structure: tree.Structure) -> list[str]:
    """Where each leaf is, as Python would say it.

    >>> _leaf_paths(tree.flatten({"b": (1, 2), "a": [3]})[1])
    ["['a'][0]", "['b'][0]", "['b'][1]"]
    """
    if structure.kind is None:
        return [""]
    count = len(structure.children)
    if structure.kind is dict:
        steps = [f"[{key!r}]" for key in structure.data]
    elif dataclasses.is_dataclass(structure.kind):
        steps = [f".{field.name}" for field in dataclasses.fields(structure.kind)]
    elif hasattr(structure.kind, "_fields"):
        steps = [f".{name}" for name in structure.kind._fields]
    else:
        steps = [f"[{number}]" for number in range(count)]
    if len(steps) != count:  # a class that is taken apart in its own way
        steps = [f"[{number}]" for number in range(count)]
    pairs = zip(steps, structure.children, strict=True)
    return [step + rest for step, child in pairs for rest in _leaf_paths(child)]
