"""An `if`, a conditional expression, `and` and `or` whose condition is traced.

Both sides are traced, each as a piece of its own. What they leave in the variables that are read
later must agree: the same structure, the same shapes, dtypes as NumPy promotes them. Together they
become one operation with two programs inside, of which one runs. Where both are a few operations on
numbers that cannot fail, both are computed and one result is selected.
"""

from __future__ import annotations

import functools
import opcode
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..errors import ControlFlowError, OutsideWriteError, WengertError
from ..graph import Graph, Node, Operator
from ..ops import elementwise as ew
from ..ops import logic
from ..ops.layout import convert, reshape
from ..ops.op import Traced
from ..ops.positions import PYTHONS, provided
from ..trace.conditional import storages_of
from ..trace.either import Either, may_be
from ..trace.lying import in_order, is_decided, strides_of
from ..trace.tracer import current_trace
from ..transforms.bodies import Body
from ..types import ArrayType, type_of, weaken
from .alike import SameContainers, containers_in
from .containers import refilled
from .contents import Changed, described, put, slot_name
from .conversion import local
from .held_arrays import SameArrays
from .jumps import RESULT, RETURNED
from .pieces import TracedPiece, captured, closed, recursion
from .quiet import are_quiet
from .rewriting import Statement
from .values import (
    NOTHING,
    UNDEFINED,
    Partial,
    as_node,
    common,
    equal,
    failure,
    filler,
    flatten,
    is_internal,
    is_number,
    is_own_array,
    shown,
)
from .weights import add_branch

Get = Callable[[], tuple[Any, ...]]
Set = Callable[[Sequence[Any]], None]
Make = Callable[[Sequence[Any]], Any]  # a value of the results

# Operations on numbers that are as well computed as skipped, and how many of them.
_LIGHT = frozenset(
    [
        *[ew.add, ew.subtract, ew.multiply, ew.negative, ew.absolute, ew.maximum, ew.minimum],
        *[logic.less, logic.less_equal, logic.greater, logic.greater_equal, logic.equal],
        *[logic.not_equal, logic.logical_and, logic.logical_or, logic.logical_not],
        *[ew.select, convert, ew.square, ew.positive],
    ]
)
_FEW = 12
_HIGHEST = 4  # of their powers
_RAISE = opcode.opmap["RAISE_VARARGS"]


def truth(test: Any, where: str) -> Any:
    """A traced condition as one Boolean."""
    own = type_of(test)
    if own.size != 1:
        raise failure(
            where,
            f"the truth of {own} is ambiguous: it has {own.size} elements, expected one",
            "Use wnp.any(x) or wnp.all(x), or wnp.where(x, a, b) to choose element by element.",
        )
    value = reshape(test, shape=()) if own.shape else test
    return value if own.dtype.kind == "b" else logic.not_equal(value, 0)


class Variables:
    """The variables of a statement: how to read and write them, and which arrays are written."""

    def __init__(self, statement: Statement, get: Get, put: Set, where: str, roots: Sequence[Any]):
        self.statement, self.get, self.put, self.where = statement, get, put, where
        self.names = statement.names
        self.before = get()
        for name, value in zip(self.names, self.before, strict=True):
            if not is_own_array(value) or value._base is None:
                continue
            if name in statement.touched or not isinstance(value._storage(), Either):
                is_decided(value)
        self.roots = [*self.before, *roots]
        self.every = False

    def has_cell(self, cell: Any) -> bool:
        """Whether the statement sets the variable of a cell, which functions inside may set too."""
        put: Any = self.put
        cells = dict(zip(put.__code__.co_freevars, put.__closure__ or (), strict=True))
        return any(cells.get(name) is cell for name in self.names[: self.statement.changed])

    def arrays(self) -> list[Any]:
        """The traced arrays that the statement may write to, once each."""
        found: dict[int, Any] = {}
        for name, value in zip(self.names, self.before, strict=True):
            if self.every or name in self.statement.touched:
                array = is_own_array(value) and value.type.shape
                if array and (value._base is None or name in self.statement.touched):
                    found[id(value)] = value
        return list(found.values())

    def check_apart(self, arrays: Sequence[Any], inner: Sequence[Any]) -> None:
        """Refuse a write to one of two arrays that share memory: the other would not see it."""
        storages = [id(array._storage()) for array in arrays]
        for storage, one in zip(storages, inner, strict=True):
            if one._version and storages.count(storage) > 1:
                shared = [id(a) for a, s in zip(arrays, storages, strict=True) if s == storage]
                pairs = zip(self.names, self.before, strict=True)
                names = " and ".join(name for name, value in pairs if id(value) in shared)
                raise failure(
                    self.where,
                    f"{names} share their memory and are changed in a branch or loop that a traced "
                    "condition decides on",
                    "Write to one of them alone, or take the views in the branch or loop itself.",
                )

    def retrying(self, work: Callable[[], Any]) -> Any:
        """Work that writes to more arrays than its text says is done again with all of them."""
        try:
            return work()
        except OutsideWriteError:
            if self.every:
                raise
            self.every = True
            return work()

    def check_outside(self, after: Sequence[Any]) -> None:
        """Refuse to change a variable of the module: it would hold a traced value for good."""
        for name, old, new in zip(self.names, self.before, after, strict=True):
            if name in self.statement.outside and new is not old:
                raise failure(
                    self.where,
                    f"the global variable {name!r} is changed in a branch or loop that a traced "
                    "condition decides on",
                    "Return the new value, and assign it outside of the compiled function.",
                )

    def finish(self, values: Sequence[Any]) -> None:
        """Set the variables that are changed."""
        self.put([*values, *self.before[len(values) :]])


class RaisedError(ControlFlowError):
    """A piece raises an error itself."""

    def __init__(self, where: str, error: Exception, piece: Callable[[], Any]):
        super().__init__(
            f"{where}: {type(error).__name__} is raised in a branch or loop that a traced "
            f"condition decides on ({error}): compiled code cannot raise it. Check the arguments "
            "before the compiled function, give the result a NaN there, or use "
            'jit(control="trace").'
        )
        self.error, self.piece = error, piece


def run_piece(piece: Callable[[], Any], where: str) -> Any:
    """Run a piece; what it raises itself is an error of its own under a traced condition."""
    try:
        return piece()
    except WengertError:
        raise
    except RecursionError as error:
        raise recursion(where) from error
    except Exception as error:
        trace = error.__traceback__
        inner = trace.tb_next if trace is not None else None
        if inner is None or inner.tb_next is not None:
            raise
        raise RaisedError(where, error, piece) from error


class _Left:
    """What one side leaves in a variable, or puts into a container or an object."""

    def __init__(self, value: Any, inside: TracedPiece, nodes: Callable[[Any], Node]):
        self.value = value
        self.leaves, self.structure = flatten(value)
        self.nodes = [nodes(leaf) if is_number(leaf) else None for leaf in self.leaves]
        # the arrays from outside that leaves may be, or be views of
        self.outside = [inside.seen_outside(leaf) for leaf in self.leaves]


class _Side:
    """What one side leaves: contents of arrays and of containers, and values of variables."""

    def __init__(
        self, variables: Variables, arrays: Sequence[Any], piece: Callable[[], Any], quiet: bool
    ):
        before, self.arrays, self.where = variables.before, arrays, variables.where
        with TracedPiece(variables.where, variables.roots) as inside:
            self.inside: Any = inside
            self.changed = inside.may_change()
            inner = inside.stand_ins(arrays)
            swapped = {id(array): one for array, one in zip(arrays, inner, strict=True)}
            variables.put([swapped.get(id(value), value) for value in before])
            try:
                run_piece(piece if quiet else inside.watched(piece), variables.where)
                after = list(variables.get())
                variables.check_outside(after)
                variables.check_apart(arrays, inner)
                places = {id(one): number for number, one in enumerate(inner)}
                self.array = [places.get(id(value)) for value in after]
                self.contents = [one.node for one in inner]
                self.written = [one._version > 0 for one in inner]
                self.left = [self._left(value) for value in after]
                self.held = self.changed.left(self._left)
            finally:
                self.changed.restore()
                variables.put(before)

    def _left(self, value: Any) -> _Left:
        return _Left(value, self.inside, self.inside.trace.node_of)

    def unchanged(self, value: Any) -> _Left:
        """What was there before, and is on this side, as it has not put anything else there; into
        what is in it, it may have."""
        with self.changed.applied(self.held):
            return _Left(value, self.inside, self._from_outside)

    def _from_outside(self, leaf: Any) -> Node:
        for number, array in enumerate(self.arrays):
            if leaf is array:
                written: Node = self.contents[number]
                return written
        if is_own_array(leaf):
            storages = {one for array in self.arrays for one in storages_of(array)}
            if not storages.isdisjoint(storages_of(leaf)):
                raise failure(
                    self.where,
                    "a container or an object holds a view of an array that is written to in a "
                    "branch that a traced condition decides on",
                    "Put a copy there: x.copy().",
                )
        node: Node = self.inside.trace.node_of(leaf)
        return node


class _Merge:
    """The results of two sides, made alike."""

    def __init__(self, variables: Variables, arrays: Sequence[Any], sides: Sequence[_Side]):
        self.variables, self.arrays, self.sides = variables, arrays, sides
        self.outputs: list[tuple[Node, Node]] = []
        self.types: list[ArrayType] = []
        self.orders: dict[int, Any] = {}  # how results lie in memory, by their number
        self.outside: dict[int, Sequence[Any]] = {}  # arrays that results may be, likewise
        # what both sides leave in variables and slots that are made of results
        self.places: dict[Any, list[Any]] = {}
        self.returns = [self._returns(side) for side in sides]

    def _returns(self, side: _Side) -> bool:
        """Whether a side has left the function: its other variables do not matter."""
        if RETURNED not in self.variables.names:
            return False
        return side.left[self.variables.names.index(RETURNED)].value is True

    def output(
        self,
        nodes: Sequence[Node | None],
        wanted: ArrayType,
        leaves: Sequence[Any] = (),
        outside: Sequence[Any] = (),
    ) -> int:
        """The number of a new result, which is one of the leaves, or of arrays from outside."""
        first, second = (filler(wanted) if n is None else as_node(n, wanted) for n in nodes)
        number = len(self.outputs)
        if leaves:
            self.orders[number] = functools.partial(_common_strides, leaves)
            self.outside[number] = outside
        self.outputs.append((first, second))
        self.types.append(wanted)
        return number

    def keep_alike(self, values: list[Any], changed: Sequence[tuple[Changed, Any]]) -> None:
        """Let variables and slots hold the same container, where they do on both sides."""

        def same(one: Any) -> Any:
            return one if any(side.inside.is_old(one) for side in self.sides) else None

        def outside(one: Any) -> list[Any]:
            return [] if same(one) is None else [one]

        made = SameContainers(True, same, outside)
        held = {id(kept): slots for kept, slots in changed}
        for (key, slot), ends in self.places.items():
            own = values if key is None else held[key]
            own[slot] = made.add(own[slot], ends)

    def contents(self) -> list[tuple[Any, int]]:
        """The arrays that are written on a side, with the numbers of their new contents."""
        found = []
        for number, array in enumerate(self.arrays):
            if any(side.written[number] for side in self.sides):
                nodes = [side.contents[number] for side in self.sides]
                found.append((array, self.output(nodes, nodes[0].type)))
        return found

    def variable(self, place: int) -> Make:
        """How the value of a variable is made of the results."""
        name, before = self.variables.names[place], self.variables.before[place]
        pair = [side.left[place] for side in self.sides]
        arrays = {side.array[place] for side in self.sides}
        if arrays != {None} and len(arrays) == 1:
            return lambda results: before
        first, second = (one.value for one in pair)
        if _is_same(first, second):
            return lambda results: first
        if name not in self.variables.statement.live:
            return lambda results: before
        empty = [_is_empty(one.value) for one in pair]
        if any(empty) or self._differs(name, pair):
            return self._one_sided(name, pair, empty)
        self.places[None, place] = [one.value for one in pair]
        return self._both(_named(name), pair)

    def changed(self) -> list[tuple[Changed, dict[Any, Make]]]:
        """The containers and objects that a side changes, with how each slot is made."""
        every = {key: one for side in self.sides for key, one in side.changed.kept.items()}
        kept = {k: one for k, one in every.items() if not self.variables.has_cell(one.thing)}
        return [(one, self._slots(key, one)) for key, one in kept.items()]

    def _slots(self, key: int, kept: Changed) -> dict[Any, Make]:
        held = [side.held.get(key, dict.fromkeys(kept.before)) for side in self.sides]
        if list(held[0]) != list(held[1]):
            otherwise, then = (described(kept.thing, slots) for slots in held)
            raise failure(
                self.variables.where,
                f"{kept.how} changes a {type(kept.thing).__name__} from outside of a branch or "
                f"loop that a traced condition decides on: it has {then} if the condition holds "
                f"and {otherwise} if not",
                "Give it the same ones on both sides, keep the value in a variable or in an array "
                'made with wnp.zeros, or use jit(control="trace") if the condition is known while '
                "tracing.",
            )
        return {slot: self._slot(kept, slot, [one[slot] for one in held]) for slot in held[0]}

    def _slot(self, kept: Changed, slot: Any, found: Sequence[_Left | None]) -> Make:
        if found[0] is found[1]:  # None: neither side has put anything there
            value = kept.before[slot]
            return lambda results: value
        pairs = zip(self.sides, found, strict=True)
        pair = [side.unchanged(kept.before[slot]) if one is None else one for side, one in pairs]
        first, second = (one.value for one in pair)
        unknown = next((one for one in (first, second) if isinstance(one, Partial)), None)
        if unknown is not None:
            return lambda results: unknown
        if _is_same(first, second):
            return lambda results: first
        self.places[id(kept), slot] = [first, second]
        return self._both(slot_name(kept.thing, slot), pair)

    def _differs(self, name: str, pair: Sequence[_Left]) -> bool:
        """Whether a side that has left the function has something else in a variable."""
        if not any(self.returns) or name == RESULT:
            return False
        return not _agree(*pair)

    def _one_sided(self, name: str, pair: Sequence[_Left], empty: Sequence[bool]) -> Make:
        if all(empty):
            value = pair[0].value
            return lambda results: value
        missing = empty.index(True) if any(empty) else self.returns.index(True)
        given = pair[1 - missing]
        value, nodes = given.value, given.nodes
        mixed = any(n is None for n in nodes) and any(n is not None for n in nodes)
        partial = Partial(name, self.variables.where)
        if name in self.variables.statement.filled:
            unfit = isinstance(value, Partial) or mixed
        else:
            unfit = name != RESULT and not is_internal(name)
        if unfit and not self.returns[missing]:
            return lambda results: partial
        self.places[None, self.variables.names.index(name)] = [value]
        if isinstance(value, Partial) or any(n is None for n in nodes):
            if mixed:
                raise self._mismatch(_named(name), pair)
            return lambda results: value
        numbers = [
            self.output((None, n) if missing == 0 else (n, None), n.type, (leaf,), outside)  # type: ignore[union-attr]
            for n, leaf, outside in zip(given.nodes, given.leaves, given.outside, strict=True)
        ]
        structure = given.structure
        return lambda results: tree.unflatten(structure, [results[k] for k in numbers])

    def _both(self, what: str, pair: Sequence[_Left]) -> Make:
        one, other = pair
        structure = one.structure
        if structure != other.structure:
            raise self._mismatch(what, pair)
        made: list[Any] = []
        for number, (a, b) in enumerate(zip(one.nodes, other.nodes, strict=True)):
            leaf, second = one.leaves[number], other.leaves[number]
            if equal(leaf, second):
                made.append((False, leaf))
                continue
            wanted = None if a is None or b is None else common(a.type, b.type)
            if wanted is None:
                raise self._mismatch(what, pair)
            outside = [*one.outside[number], *other.outside[number]]
            made.append((True, self.output((a, b), wanted, (leaf, second), outside)))
        return lambda results: tree.unflatten(
            structure, [results[item] if computed else item for computed, item in made]
        )

    def _mismatch(self, what: str, pair: Sequence[_Left]) -> Exception:
        otherwise, then = (shown(one.value) for one in pair)
        return failure(
            self.variables.where,
            f"{what} {then} if a traced condition holds and {otherwise} if not",
            "Make both of one structure and shape, or choose with wnp.where(condition, x, y).",
        )


def _is_same(one: Any, other: Any) -> bool:
    """Whether both sides leave one and the same: containers that are equal are two."""
    return one is other or (equal(one, other) and next(containers_in(one), None) is None)


def _named(name: str) -> str:
    return "the function returns" if name == RESULT else f"the variable {name!r} is"


def _agree(one: _Left, other: _Left) -> bool:
    if one.structure != other.structure:
        return False
    pairs = zip(one.nodes, other.nodes, strict=True)
    return all(
        a is not None and b is not None and common(a.type, b.type) is not None for a, b in pairs
    )


def _common_strides(leaves: Sequence[Any]) -> Any:
    """How one of two values lies in memory, whichever it is; None where that is not known."""
    found = {strides_of(leaf) for leaf in leaves}
    return found.pop() if len(found) == 1 else None


def _is_empty(value: Any) -> bool:
    return value is UNDEFINED or value is NOTHING


def decide(
    variables: Variables, test: Any, then: Callable[[], Any], orelse: Callable[[], Any]
) -> None:
    """An `if` on a traced condition."""
    chosen, quiet = truth(test, variables.where), are_quiet(variables.roots)

    def work() -> None:
        arrays = variables.arrays()
        sides = [_Side(variables, arrays, piece, quiet) for piece in (orelse, then)]
        merge = _Merge(variables, arrays, sides)
        contents = merge.contents()
        changed = merge.changed()
        made = [merge.variable(place) for place in range(variables.statement.changed)]
        for kept, _ in changed:
            if local.inside is not None:
                local.inside.changes(kept.thing, kept.how)
        results = run(chosen, merge.outputs, merge.types)
        for number, order in merge.orders.items():
            results[number] = in_order(results[number], order)
        same = SameArrays(True)
        whole = list(results)
        for number, order in merge.orders.items():
            results[number] = same.add(results[number], order.args[0])
        values = [make(results) for make in made]
        held = [
            (kept, {slot: make(results) for slot, make in slots.items()}) for kept, slots in changed
        ]
        merge.keep_alike(values, held)
        for array, number in contents:
            array._write(results[number])
        for number in merge.orders:
            may_be(whole[number], [*merge.outside[number], *same.others(whole[number])])
        variables.finish(values)
        for kept, slots in held:
            put(kept.thing, slots)

    try:
        variables.retrying(work)
    except RaisedError as raised:
        if raised.piece not in (then, orelse) or not _is_pythons(raised.error):
            raise
        (orelse if raised.piece is then else then)()
        going = logic.logical_not(chosen) if raised.piece is then else chosen
        if not _provide(variables, going, raised.error):
            raise


def _is_pythons(error: Exception) -> bool:
    """Whether it is one of Python's exceptions, raised by the statement."""
    own = PYTHONS.get(type(error).__name__) is type(error)
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return own and trace is not None and trace.tb_frame.f_code.co_code[trace.tb_lasti] == _RAISE


def _provide(variables: Variables, going: Any, error: Exception) -> bool:
    """Let what is read behind an error that a traced condition raises be there only if it is not
    raised; whether there is something."""
    problem = str(error.args[0] if len(error.args) == 1 else error)
    texts = {"error": type(error).__name__, "name": "", "problem": problem, "remedy": ""}
    held = list(variables.get())
    done = 0
    trace = current_trace()
    chosen: dict[int, Any] = {}  # what stands for arrays that a condition has chosen

    def check(value: Any) -> Any:
        nonlocal done
        if is_own_array(value):
            if value._trace is not trace:
                return value
            done += 1
            checked: Any = provided(value, going, **texts)
            checked = weaken(checked) if value.type.weak else checked
            base = value._base and value._base.base
            if isinstance(base, Either):  # nothing is written to any that it may be
                return chosen.setdefault(id(value), may_be(checked, base.storages))
            if value.type.shape and value._storage()._writable != "argument":
                value._write(checked)
                return value
            checked._writable = value._storage()._writable
            return checked
        taken = tree.take_apart(value)
        if taken is None or (local.inside is not None and local.inside.is_old(value)):
            return value
        parts = [check(part) for part in taken[0]]
        if all(one is part for one, part in zip(parts, taken[0], strict=True)):
            return value
        shape = tree.Structure(type(value), taken[1], (tree.LEAF,) * len(parts))
        return refilled(value, tree.unflatten(shape, parts))

    for place, name in enumerate(variables.names):
        if name in variables.statement.live:
            held[place] = check(held[place])
    variables.put(held)
    return done > 0


def run(chosen: Any, outputs: Sequence[tuple[Node, Node]], types: Sequence[ArrayType]) -> list[Any]:
    """The results of the side that is taken: the first of each pair, or the second if `chosen`."""
    if not outputs:
        return []
    sides = [list(side) for side in zip(*outputs, strict=True)]
    groups = [captured(side) for side in sides]
    values = {key: value for group in groups for key, (value, _) in group.items()}
    keys = list(values)
    own = {key: type_of(value) for key, value in values.items()}
    graphs = [closed(side, [], keys, group, own) for side, group in zip(sides, groups, strict=True)]
    given = [values[key] for key in keys]
    if all(map(_is_light, graphs)):
        first, second = (graph.evaluate(given) for graph in graphs)
        results = [ew.select(chosen, b, a) for a, b in zip(first, second, strict=True)]
    else:
        from ..transforms.choice import Branches, switch_op

        add_branch(graphs)
        branches = Branches([Body(graph, 0, 0) for graph in graphs])
        index = convert(chosen, dtype=np.dtype(np.int64))
        results = list(switch_op(index, *given, branches=branches))
    return [
        weaken(result) if wanted.weak and isinstance(result, Traced) else result
        for result, wanted in zip(results, types, strict=True)
    ]


def _is_light(graph: Graph) -> bool:
    operators = [node for node in graph.nodes if isinstance(node, Operator)]
    results = [node for node in graph.outputs if node is not None]
    return (
        len(operators) <= _FEW
        and all(node.op in _LIGHT or _is_small_power(node) for node in operators)
        and all(node.type.shape == () for node in [*operators, *results])
        and all(node.type.dtype.kind in "fb" for node in operators)
    )


def _is_small_power(node: Operator) -> bool:
    return node.op is ew.integer_power and 0 < node.params["n"] <= _HIGHEST


def choose(
    test: Any, then: Callable[[], Any], orelse: Callable[[], Any], where: str, roots: Sequence[Any]
) -> Any:
    """A conditional expression on a traced condition."""
    statement = Statement(0, "", [RESULT], 1, frozenset([RESULT]))
    held: list[Any] = [NOTHING]

    def put(values: Sequence[Any]) -> None:
        held[0] = values[0]

    def keep(piece: Callable[[], Any]) -> Callable[[], None]:
        def kept() -> None:
            held[0] = piece()

        return kept

    variables = Variables(statement, lambda: tuple(held), put, where, roots)
    decide(variables, test, keep(then), keep(orelse))
    return held[0]
