"""A piece of a function traced by itself: a branch, a condition, a turn of a loop.

It has a trace of its own. What it reads from outside is captured; arrays from outside that it
writes to have *stand-ins* in it, whose last content is one of its results. No other array from
outside may be written to, and no object changed but what can be put back (`contents.py`): that
would happen whatever the condition is, and once for all turns. An *attempt* is the turn of a loop
that could as well be run turn by turn: what cannot be traced so, or is not known to be without
effects, ends it, and nothing of it is left.
"""

from __future__ import annotations

import collections
import functools
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import ControlFlowError
from ..graph import Constant, Graph, Node, Variable
from ..graph.rewrite import copy_of, rewrite
from ..ops.op import Traced
from ..trace import Trace, Tracer
from ..trace.conditional import conditional, storages_of
from ..trace.lying import strides_of
from ..trace.reaching import defaults_of
from ..trace.views import is_array
from ..types import ArrayType
from .contents import Comparison, Contents, MadeInsideError, content, is_users_kind
from .conversion import local
from .values import ATOMS, attributes, failure

# Objects that are looked into for what a piece may not change.
_MOST_OBJECTS = 20000
# Pieces of one statement inside of one another: a function that calls itself twice has ten levels.
_MOST_REPEATED = 1024


def _common_strides(array: Any, arrays: Sequence[Any]) -> Any:
    """How an array lies in memory; None if others that it may change places with lie otherwise."""
    own = strides_of(array)
    others = [one for one in arrays if one.type == array.type]
    return own if all(strides_of(other) == own for other in others) else None


class Abandon(BaseException):
    """Ends an attempt; no `except Exception` of the user's may keep it."""

    piece: TracedPiece | None = None  # that it is for, where that is known

    def is_for_outer(self) -> bool:
        """Whether it ends the attempt of a piece around the one that has ended."""
        return self.piece is not None and self.piece is local.inside


class Grows(Abandon):
    """Ends an attempt: a turn adds to a list from outside, at its front or its end."""

    def __init__(self, thing: list[Any], front: bool):
        self.thing, self.front = thing, front


class Fills(Abandon):
    """Ends an attempt: a turn sets an item of a list at a traced place."""

    def __init__(self, thing: list[Any]):
        self.thing = thing


class Tabled(Abandon):
    """Ends an attempt: a table should stand for a list from before the loop."""

    def __init__(self, thing: list[Any]):
        self.thing = thing


class Grown(Abandon):
    """Ends an attempt: a turn adds to a list that some container or object holds."""

    def __init__(self, thing: list[Any], front: bool):
        self.thing, self.front = thing, front


class Swaps(Abandon):
    """Ends an attempt: variables or attributes change places in a turn, and are where they were
    after some turns."""

    def __init__(self, period: int):
        self.period = period


class Outward(Abandon):
    """Ends the attempts of inner loops too."""

    def is_for_outer(self) -> bool:
        """Whether it ends the attempt of a piece around the one that has ended."""
        return True


class FillsOutside(Outward):
    """Ends the attempts of inner loops: they set an item of a list that a loop around carries."""

    def __init__(self, thing: list[Any]):
        self.thing = thing


class Sets(Abandon):
    """Ends an attempt: a turn changes an object or a container from outside."""

    def __init__(self, thing: Any):
        self.thing = thing


class TracedPiece:
    """A piece that is being traced."""

    def __init__(
        self, where: str, roots: Sequence[Any], attempt: bool = False, captures: bool = True
    ):
        self.where = where
        self.roots = list(roots)
        self.outer = local.inside
        self.repeated = 0  # how many pieces of the same statement were traced inside
        self._count_recursion()
        self.attempt: bool = attempt or (self.outer is not None and self.outer.attempt)
        # what is done to values from outside belongs to it too, unless it runs for certain
        self.trace = Trace(keep_source=True, captures=captures)
        self.is_turn = False  # whether it is a turn of a loop
        # what its turns go along, or some of the first, where that is known, and where it stands
        self.rows: Any = None
        self.counter: Any = None
        self.length: Any = None  # how many of them, where an outer loop tells
        self.pairs: dict[TracedPiece, Any] = {}  # with each of the loops around, see `all_turns`
        self.carried: set[int] = set()  # objects that it may change, by their `id`
        self.fresh: set[int] = set()  # copies of containers that stand for those from outside
        self.copies: set[int] = set()  # those, and objects and arrays that do
        self.fetched: dict[int, Any] = {}  # containers read at a traced place, with their lists
        self.read: dict[int, Any] = {}  # what stands for lists of lists that are read at one
        self.contents: Contents | None = None  # others that it may change, if it is a branch
        # arrays from outside, and those that stand for them
        self.replaced: tuple[Sequence[Any], Sequence[Any]] = ((), ())
        self._old: dict[int, Any] | None = None
        self._rooted = 0

    def _count_recursion(self) -> None:
        """Refuse a function that calls itself too often before a traced condition ends it."""
        first, outer = None, self.outer
        while outer is not None:
            first = outer if outer.where == self.where else first
            outer = outer.outer
        if first is not None:
            first.repeated += 1
            if first.repeated > _MOST_REPEATED:
                raise recursion(self.where)

    def along(self, counter: Node) -> Any:
        """What its index is in all turns; None for another index."""
        return self.rows if counter is self.counter else None

    def turn(self) -> Any:
        """The number of the turn, of a loop over known indices at equal distances."""
        if self.rows is None:
            return Tracer(self.trace, self.counter)
        distances = np.diff(self.rows)
        if len(distances) and not (distances == distances[0]).all():
            raise Abandon
        tracer: Any = Tracer(self.trace, self.counter)
        step = int(distances[0]) if len(distances) else 1
        found = tracer if not self.rows[0] else tracer - int(self.rows[0])
        return found if step == 1 else found // step

    def __enter__(self) -> TracedPiece:
        self.reads(self.roots)
        self.trace.__enter__()
        self._saved = conditional.level, conditional.replaced
        conditional.level = self.trace.level
        local.inside = self
        return self

    def __exit__(self, *exc_info: object) -> None:
        local.inside = self.outer
        conditional.level, conditional.replaced = self._saved
        self.trace.__exit__(*exc_info)

    def stand_ins(self, arrays: Sequence[Any], nodes: Sequence[Node] | None = None) -> list[Any]:
        """Arrays of this piece in place of those from outside, which cannot be read any more."""
        made = []
        for number, array in enumerate(arrays):
            node = self.trace.node_of(array) if nodes is None else nodes[number]
            inner = Tracer(self.trace, node)
            inner._order = functools.partial(_common_strides, array, arrays)
            node.order = (inner._order,)
            inner._writable = array._storage()._writable or (True if is_array(array) else None)
            made.append(inner)
        storages = frozenset(one for array in arrays for one in storages_of(array))
        conditional.replaced = conditional.replaced | storages
        self.replaced = arrays, made
        return made

    def seen_outside(self, leaf: Any) -> list[Any]:
        """The arrays from outside that a value of this piece may be, or be a view of."""
        arrays, inner = self.replaced
        if not isinstance(leaf, Tracer) or not leaf.type.shape:
            return []
        storage: Any = leaf._storage()
        found: list[Any] = []
        for one in getattr(storage, "storages", (storage,)):
            slot = next((k for k, own in enumerate(inner) if own is one), None)
            if slot is not None:
                outer = arrays[slot]._storage()
                found += getattr(outer, "storages", (outer,))
            elif one._trace is not self.trace:
                found.append(one)
        return found

    # ------------------------------------------------------------ effects

    def is_old(self, thing: Any) -> bool:
        """Whether an object was there before the piece."""
        if id(thing) in self.fresh or getattr(type(thing), "is_stand_in", False):
            return False
        own = self._own()
        known = id(thing) in own or len(own) >= _MOST_OBJECTS  # which are not all, then
        return known or (self.outer is not None and self.outer.is_old(thing))

    def are_old(self, *things: Any) -> bool:
        """Whether all were there before the piece."""
        return all(map(self.is_old, things))

    def has_copies(self, *things: Any) -> bool:
        """Whether one of some things stands for another from outside of a turn."""
        own = any(id(thing) in self.copies for thing in things)
        return own or (self.outer is not None and self.outer.has_copies(*things))

    def _own(self) -> dict[int, Any]:
        """The objects that can be reached from the roots, by their `id`."""
        if self._old is None:
            self._old = {}
        if self._rooted < len(self.roots):
            _collect(self.roots[self._rooted :], self._old, self.trace.level)
            self._rooted = len(self.roots)
        return self._old

    def _all_old(self) -> dict[int, Any]:
        outer = {} if self.outer is None else self.outer._all_old()
        return {**outer, **self._own()}

    def outer_of(self, value: Any) -> Any:
        """A value as it is outside of the piece."""
        for array, inner in zip(*self.replaced, strict=True):
            if value is inner:
                return array
        if isinstance(value, Traced) and value._trace.level >= self.trace.level:
            raise MadeInsideError
        return value

    def may_change(self) -> Contents:
        """Lists, dicts and objects from outside that the piece changes from now on."""
        self.contents = Contents(self.outer_of)
        return self.contents

    def reads(self, cells: Sequence[Any]) -> None:
        """Variables from outside that the piece reads: an iterator among them would be another."""
        held = [one for cell in cells if type(cell) is types.CellType for one in _parts(cell)]
        for thing in filter(_is_iterator, held):
            self.changes(thing, "reading it")

    def watched(self, function: Any) -> Any:
        """A function of which it is not known what it changes: that is found by comparing."""

        def call(*args: Any, **kwargs: Any) -> Any:
            before = Comparison(self._all_old().values())
            try:
                result = function(*args, **kwargs)
            finally:
                for thing, held in before.changed():
                    self.changes(thing, f"{getattr(function, '__name__', 'a function')}()", held)
            if _is_iterator(result):
                return _WatchedIterator(self.watched(result.__next__))
            return result

        return call

    def changes(self, thing: Any, how: str, before: dict[Any, Any] | None = None) -> None:
        """An object is about to be changed, or is changed and held something else before."""
        if isinstance(thing, Traced) or id(thing) in self.carried or not self.is_old(thing):
            return
        if self.contents is not None and self.contents.keep(thing, how, before):
            return
        if self.attempt:
            held = hasattr(thing, "__dict__") or type(thing) in (list, dict, collections.deque)
            ends = Sets(thing) if held else Abandon()
            if how in ("append()", "insert()") and type(thing) is list:
                ends = Grows(thing, how == "insert()")
            ends.piece = self
            raise ends
        raise failure(
            self.where,
            f"{how} changes a {type(thing).__name__} from outside of a branch or loop that a "
            "traced condition decides on: it would change whatever the condition is",
            "Keep the value in a variable or in an array made with wnp.zeros, or use "
            'jit(control="trace") if the condition is known while tracing.',
        )


class _WatchedIterator(Iterator[Any]):
    """A generator, or what `map` gives: what it changes, it does when it is asked for items."""

    def __init__(self, following: Callable[[], Any]):
        self._following = following

    def __next__(self) -> Any:
        return self._following()


def _is_iterator(value: Any) -> bool:
    """Whether it is one of Python's iterators, of which nobody knows where they stand."""
    return isinstance(value, Iterator) and type(value).__module__ in _OF_ITERATORS


_OF_ITERATORS = ("builtins", "itertools", f"{__package__}.generators")


def recursion(where: str) -> ControlFlowError:
    """The error for a function that calls itself under a traced condition, without a near end."""
    return failure(
        where,
        "a function calls itself, and a traced condition decides how often: all that it may call "
        "is compiled, and that has no end or is too much",
        "Keep what is still to be done in a list (`while stack: x = stack.pop()`), use a `while`, "
        'bound the depth by a small number that is known, or use jit(control="trace") if the '
        "condition is known while tracing.",
    )


def _collect(roots: Sequence[Any], found: dict[int, Any], level: int) -> None:
    """The objects that can be reached, by their `id`, but for those that a piece has made: they
    hold values of its level."""
    pending = list(roots)
    while pending and len(found) < _MOST_OBJECTS:
        now = pending.pop()
        if id(now) in found or isinstance(now, ATOMS):
            continue
        parts = _parts(now)
        held = attributes(now) or getattr(now, "__dict__", {})
        own = held.values() if is_users_kind(type(now)) else parts
        made = any(isinstance(one, Traced) and one._trace.level >= level for one in own)
        if not made or type(now) is types.CellType:
            found[id(now)] = now
            pending += parts


def _parts(thing: Any) -> list[Any]:
    """What an object holds; of a class nothing, but its attributes may be counters."""
    if isinstance(thing, dict):
        return [*thing.values()]
    if isinstance(thing, (list, tuple, set, frozenset, collections.deque)):
        return [*thing]
    if isinstance(thing, types.CellType):
        return [*content(thing).values()]
    if isinstance(thing, types.FunctionType):
        return [*(thing.__closure__ or ()), *defaults_of(thing)]
    if isinstance(thing, functools.partial):
        return [thing.func, thing.args, thing.keywords]
    if isinstance(thing, (types.MethodType, types.BuiltinMethodType)):
        return [thing.__self__]
    if isinstance(thing, type) or not is_users_kind(type(thing)):
        return []
    return [getattr(thing, "__dict__", None)]


# ---------------------------------------------------------------- graphs


Same = dict[int, Node]  # nodes that stand for others, by the number of these


def captured(
    outputs: Sequence[Node], inputs: Sequence[Node] = (), same: Same | None = None
) -> dict[Any, tuple[Any, list[Node]]]:
    """The traced values from outside that nodes read: the value and the nodes that hold it.

    What only the inputs read does not count.
    """
    groups: dict[Any, tuple[Any, list[Node]]] = {}
    for node in _needed(outputs, {node.serial for node in inputs}, same or {}):
        if isinstance(node, Constant) and isinstance(node.output, Traced):
            value: Any = node.output
            key = (id(value._trace), value.node.serial)
            groups.setdefault(key, (value, []))[1].append(node)
    return groups


def _needed(outputs: Sequence[Node], given: set[int], same: Same) -> list[Node]:
    """The nodes that outputs need, inputs first, without those that are given."""
    needed: dict[int, Node] = {}
    pending = [node for node in outputs if node.serial not in given]
    while pending:
        node = pending.pop()
        if node.serial not in needed:
            needed[node.serial] = node
            sources = (same[node.serial],) if node.serial in same else node.inputs
            pending.extend(source for source in sources if source.serial not in given)
    return [needed[serial] for serial in sorted(needed)]


def closed(
    outputs: Sequence[Node],
    inputs: Sequence[Node],
    keys: Sequence[Any],
    groups: dict[Any, tuple[Any, list[Node]]],
    types: dict[Any, ArrayType],
    same: Same | None = None,
) -> Graph:
    """The outputs as a graph of captured values, in the order of `keys`, and of inputs."""
    fresh: list[Any] = []
    new: dict[int, Any] = {}
    for key in keys:
        variable = Variable("", None, types[key], active=False)
        fresh.append(variable)
        for node in groups[key][1] if key in groups else ():
            new[node.serial] = variable
    for node in inputs:
        variable = Variable("", None, node.type, active=False)
        fresh.append(variable)
        new[node.serial] = variable
    own = same or {}

    def copy(node: Node, new: Any) -> Node | None:
        if node.serial in own:
            found: Node = new[own[node.serial].serial]
            return found
        return copy_of(node, new)

    rewrite(_needed(outputs, set(new), own), copy, new)
    return Graph(fresh, [new[node.serial] for node in outputs])
