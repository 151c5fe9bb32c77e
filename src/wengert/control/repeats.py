"""A `while` whose condition is traced, and a `for` whose turns are all alike.

A turn is traced once, with traced values in place of the variables that it carries from turn to
turn: those that it changes, and that the next turn or what follows reads. Their types must stay
what they are; Python's numbers take on the type that a turn makes of them. Arrays that are written
to are carried by their content.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..errors import ControlFlowError, MutationError, OutsideWriteError
from ..graph import Node, Variable
from ..ops import elementwise as ew
from ..ops.layout import convert
from ..ops.op import Traced
from ..trace import Tracer
from ..trace.conditional import conditional
from ..trace.either import may_be
from ..trace.orders import is_line
from ..trace.views import snapshot
from ..transforms.bodies import zeros
from ..types import ArrayType, type_of, weaken
from . import packed
from .alike import SameContainers, containers_in, forget_fetched, others
from .branches import Variables, run_piece, truth
from .containers import (
    Attributes,
    Twin,
    held_twice,
    holder_of,
    holders,
    objects_in,
    owner_of,
    period,
)
from .contents import is_plain_object
from .conversion import local
from .filled import Filled
from .growing import Collector, Deeper, Growing
from .held_arrays import (
    ChangedType,
    HeldArray,
    KeptOrder,
    SameArrays,
    check_held,
    last_place,
    made_arrays,
    memory_of,
    storages_before,
)
from .pieces import (
    Abandon,
    Fills,
    FillsOutside,
    Grown,
    Grows,
    Outward,
    Sets,
    Swaps,
    Tabled,
    TracedPiece,
)
from .quiet import are_quiet
from .ragged import Shrinking, Unequal, shrinking
from .values import (
    NOTHING,
    UNDEFINED,
    Partial,
    as_node,
    attributes,
    common,
    equal,
    failure,
    flatten,
    is_internal,
    is_number,
    is_own_array,
    shown,
)
from .windows import refuse_windows

COUNT = ArrayType(np.dtype(np.int64), ())
# Turns after which the types of what is carried must have settled.
_PATIENCE = 6
# Items of lists of lists for which a table stands without a try to do without it.
_MANY = 256
# Turns after which all is known that they carry.
_MOST_CHANGES = 64


# Lists that a loop goes over, each with the places that its turns take the items of.
GoneOver = list[tuple[Any, np.ndarray]]


class _Carried:
    """One variable that is carried: the places of its leaves among all that is carried."""

    def __init__(self, place: int, structure: tree.Structure, leaves: list[Any]):
        self.place, self.structure = place, structure
        self.leaves = leaves  # the values themselves; for numbers the types are kept elsewhere
        self.inner = leaves  # what stands for them in a turn


class Turns:
    """A loop that is being made: its variables, what they are before it, and what a turn does."""

    def __init__(
        self,
        variables: Variables,
        body: Callable[[Any], None],
        item: Callable[[Any], Any],
        runs: bool,
        attempt: bool,
        growing: Sequence[Growing] = (),
    ):
        self.variables, self.body, self.item = variables, body, item
        self.runs = runs  # whether there is a first turn for certain
        self.attempt = attempt
        statement = variables.statement
        self.names = variables.names
        self.wanted = [
            place
            for place, name in enumerate(self.names[: statement.changed])
            if name in statement.live or name in statement.enters
        ]
        self.late: dict[int, tuple[tree.Structure, list[ArrayType]]] = {}
        self.shrinking: dict[int, Shrinking] = {}  # variables that have fewer rows after each turn
        self.instances: set[int] = set()  # variables that hold another object after each turn
        self.made: set[int] = set()  # variables that hold an array of their own after each turn
        self.loose: set[int] = set()  # variables with lists of numbers that come from many arrays
        self.period = 1  # after how many turns variables that change places are where they were
        self.first_is_done = False  # whether the first turn was run before
        self.written: set[int] = set()  # storages of arrays in containers that a turn writes to
        self.is_item: set[int] = set()  # variables that are the item at the end of a turn
        self.growing = list(growing)  # the lists that a turn appends to
        self.held: list[Attributes] = []  # the objects whose attributes a turn changes
        self.rows: np.ndarray | None = None  # what the turns go along, where that is known
        # or what they go along the first of, and how many that are
        self.at_most: np.ndarray | None = None
        self.length: Any = None
        self.over: GoneOver = []  # whose items are taken as they are before the loop
        self.index = Variable("", None, COUNT, active=False)
        self.pieces: list[TracedPiece] = []  # in which turns were traced

    # ------------------------------------------------------------ what is carried

    def prepare(self) -> None:
        """Find what is carried, and its first values."""
        made = [self.variables.before[place] for place in self.made]
        arrays = self.variables.arrays()
        self.arrays = [array for array in arrays if not any(array is one for one in made)]
        slots = {id(array): number for number, array in enumerate(self.arrays)}
        self.first: list[Any] = list(self.arrays)
        self.carried: list[_Carried] = []
        lists = [one._original for one in self.growing if not isinstance(one._original, Collector)]
        for place in self.wanted:
            value = self.variables.before[place]
            if id(value) in slots or value is UNDEFINED or value is NOTHING:
                continue
            if isinstance(value, Partial) or any(value is one for one in lists):
                continue
            if self.attempt and local.tables and self._is_table(place, value):
                raise Tabled(value)
            leaves, structure = self._flatten(place, value, False)
            self.carried.append(_Carried(place, structure, leaves))
            self.first += [leaf for leaf in leaves if is_number(leaf)]
        for place, (structure, types) in self.late.items():
            blanks = [zeros(t)[()] for t in types]
            self.carried.append(_Carried(place, structure, blanks))
            self.first += blanks
        for grown in self.growing:
            self.first += grown._first(self.rows)
        for held in self.held:
            self.first += held.first(self._flat)
        self.types = [_type(leaf) for leaf in self.first]

    def _is_table(self, place: int, value: Any) -> bool:
        """Whether a variable holds lists of many items, of which the text sets some."""
        touched = self.names[place] in self.variables.statement.touched
        nested = touched and type(value) is list and bool(value) and type(value[0]) is list
        return nested and len(value) * len(value[0]) > _MANY

    def _flatten(self, place: int, value: Any, made: bool) -> tuple[list[Any], tree.Structure]:
        """The leaves of a variable and its structure."""
        if place in self.instances:
            return flatten(value)
        return tree.flatten(value) if place in self.loose else self._flat(value, made)

    def _flat(self, value: Any, made: bool) -> tuple[list[Any], tree.Structure]:
        """The leaves of a value and its structure; long lists are arrays in an attempt."""
        if not self.attempt or not local.tables:
            return tree.flatten(value)
        leaves, structure = packed.flatten(value, made)
        local.packed = local.packed or packed.is_packed(structure)
        return leaves, structure

    def trace(self) -> None:
        """Trace a turn until the types of what is carried are settled."""
        try:
            self._trace()
        except (Tabled, Grown, Outward):
            raise
        except (Abandon, Exception) as problem:
            self._forget()
            again = isinstance(problem, OutsideWriteError) and not self.variables.every
            if self.attempt and self.period > 1 and not again:
                raise Swaps(self.period) from None
            if isinstance(problem, ChangedType):
                raise
            filled = [one._original for one in self.growing if isinstance(one, Filled)]
            if filled and local.tables:
                raise Tabled(filled[0]) from None
            raise

    def _trace(self) -> None:
        if self.attempt and not are_quiet(self.variables.roots):
            raise Abandon
        self.prepare()
        patience = _PATIENCE
        for _ in range(_MOST_CHANGES):
            if not patience:
                break
            found = self._turn()
            if found is None:  # more variables are carried now
                self.prepare()
                continue
            patience -= 1
            settled = [self._settled(k, node) for k, node in enumerate(found)]
            if settled == self.types:
                self.outputs = [as_node(n, t) for n, t in zip(found, settled, strict=True)]
                self._check_gone_over()
                return
            self.types = settled
        raise self._unsettled(0, self.types[0])

    def _check_gone_over(self) -> None:
        """End the attempt if a turn changes what a later one takes of a list."""
        if not self.over:
            return
        changed = [one for k, twin in self.twins.items() for one in twin.changed(self.after[k])]
        changed += [one for held in self.held for one in held.changed()]
        changed += [one._original for one in self.growing if not isinstance(one, Filled)]
        known = set(map(id, changed))
        for items, places in self.over:
            parts = [*containers_in(items), *tree.leaves(items)] if known else ()
            filled = [one for one in self.growing if isinstance(one, Filled)]
            late = any(one._original is items and one.sets_before(places) for one in filled)
            if late or any(id(one) in known for one in parts):
                raise Abandon

    def _turn(self) -> list[Node] | None:
        """The results of one turn on what is carried; None where a variable has come to it."""
        before = self.variables.before
        where, roots = self.variables.where, self.variables.roots
        with TracedPiece(where, roots, self.attempt, not self.runs) as inside:
            self.pieces.append(inside)
            inside.is_turn, inside.counter = True, self.index
            inside.rows = self.at_most if self.rows is None else self.rows
            inside.length = self.length
            inside.is_old(None)  # looks at what is there, before a turn puts other things in place
            try:
                self.inputs = self._enter(inside)
                item = self.item(self._index(inside))
                run_piece(lambda: self.body(item), self.variables.where)
                after = list(self.variables.get())
                moves = [pair for held in self.held for pair in held.moves()]
                self.period = period([*zip(self.values, after, strict=True), *moves])
                self.variables.check_outside(after)
                self._check_apart()
                return self._left(inside, after, item)
            except Deeper as found:
                if not any(grown is found.grown for grown in self.growing):
                    raise
                return None
            except Unequal:
                if not self._shrinks(self._after_the_first()):
                    raise
                return None
            except Grows as found:
                self._grow(found.thing, Growing(found.thing, found.front))
                return None
            except (Fills, FillsOutside) as found:
                self._fill(inside, found.thing, isinstance(found, FillsOutside))
                return None
            except Sets as found:
                self._hold(inside, found.thing)
                return None
            except OutsideWriteError as error:
                self._leave()  # attributes may have changed places
                owned = owner_of(error.storage, before) if inside.attempt else None
                if owned is None:
                    raise
                self._hold(inside, *owned)
                return None
            except MutationError:
                if self.attempt:  # turn by turn more is known
                    raise Abandon from None
                raise
            finally:
                self.variables.put(before)
                self._leave()

    def _check_apart(self) -> None:
        try:
            self.variables.check_apart(self.arrays, self.inner)
        except ControlFlowError:
            if self.attempt:  # turn by turn they are views of one array
                raise Abandon from None
            raise

    def _leave(self) -> None:
        for held in self.held:
            held.leave()

    def _hold(self, inside: TracedPiece, thing: Any, name: str = "") -> None:
        """Carry what a turn sets of an object of the loop's variables, or an attribute of it."""
        if type(thing) in (list, dict, deque):
            self._hold_container(inside, thing)
            return
        held = next((one for one in self.held if one.thing is thing), None)
        if held is None:
            known = any(one is thing for one in objects_in(self.variables.before))
            if not (inside.attempt and known and is_plain_object(thing)):
                raise Abandon
            held = Attributes(thing)
            held.before = dict(vars(thing))
            self.held.append(held)
        elif not name or name in held.names:
            raise Abandon
        held.names += [name] if name else []

    def _hold_container(self, inside: TracedPiece, thing: Any) -> None:
        """Carry the variables, or the attribute, that hold a container that a turn changes."""
        values = self.variables.before
        places = [k for k, one in enumerate(values) if any(c is thing for c in containers_in(one))]
        owned = holder_of(lambda one: any(c is thing for c in containers_in(one)), values)
        if inside.attempt and places and not set(places) <= set(self.wanted):
            self.wanted += [place for place in places if place not in self.wanted]
        elif owned is not None and not places:
            self._hold(inside, *owned)
        else:
            raise Abandon

    def _grow(self, thing: list[Any], stand_in: Growing) -> None:
        """Let a list of the loop's variables grow, or be filled."""
        if isinstance(thing, Filled) and any(thing is one for one in self.growing):
            self.growing.remove(thing)
            thing = thing._original
            stand_in = Growing(thing)
        held = any(value is thing for value in self.variables.before)
        if not self.attempt or held_twice([thing], _distinct(self.variables.before)):
            raise Abandon
        if not held and local.tables and type(stand_in) is Growing:
            raise Grown(thing, stand_in._front)
        if not held:
            raise Abandon
        self.growing.append(stand_in)

    def _has_grown(self, place: int, after: Any) -> bool:
        """Whether a turn has added items to the copy of a list, which grows from now on."""
        twin = self.twins.get(place)
        grown = None if twin is None or not self.attempt else twin.grown(after)
        if grown is not None:
            self._grow(grown, Growing(grown))
        return grown is not None

    def _is_loose(self, one: _Carried) -> bool:
        """Whether numbers that are carried as an array are better carried one by one."""
        found = packed.is_packed(one.structure) and one.place not in self.loose
        self.loose |= {one.place} if found else set()
        return found

    def _fill(self, inside: TracedPiece, thing: list[Any], by_inner: bool) -> None:
        """Let items of a list be set: by turns that set one each, or in a table."""
        original = self._stand_ins().get(id(thing), thing)
        if local.tables and inside.attempt:
            outer = inside.outer
            while outer is not None:
                if outer.attempt and (id(original) in outer.fresh or outer.is_old(original)):
                    raise FillsOutside(original)
                outer = outer.outer
            known = any(one is original for one in self.variables.before)
            if not original:
                raise ChangedType  # the first turn puts something there
            if by_inner or not known or type(original[0]) is list:
                raise Tabled(original)
        self._grow(original, Filled(original))

    def _enter(self, inside: TracedPiece) -> list[Node]:
        """Put traced values in place of what is carried."""
        inputs: list[Any] = [inside.trace.variable(array_type=t, active=False) for t in self.types]
        nodes = [tracer.node for tracer in inputs]
        count = len(self.arrays)
        self.inner = inside.stand_ins(self.arrays, nodes[:count])
        conditional.replaced = conditional.replaced | self.written
        swapped = {id(a): one for a, one in zip(self.arrays, self.inner, strict=True)}
        given = swapped | {id(grown._original): grown for grown in self.growing}
        values = [given.get(id(value), value) for value in self.variables.before]
        following = iter(inputs[count:])
        self.twins: dict[int, Twin] = {}
        self.orders: dict[tuple[int, int], KeptOrder] = {}
        self.outside: dict[tuple[int, int], list[Any]] = {}  # arrays that results may be
        self.leaves: dict[tuple[int, int], Any] = {}  # what is carried after a turn
        for one in self.carried:
            leaves = one.inner = [self._inner(leaf, following) for leaf in one.leaves]
            for number, (leaf, tracer) in enumerate(zip(one.leaves, leaves, strict=True)):
                if isinstance(tracer, Tracer) and not is_line(tracer.type.shape):
                    kept = self.orders[one.place, number] = KeptOrder(leaf)
                    tracer.node.order = (kept,)
            if one.place in self.shrinking:
                leaves = [self.shrinking[one.place].enter(leaves[0], inside)]
            copy = values[one.place] = tree.unflatten(one.structure, leaves)
            own = one.structure is not tree.LEAF or is_own_array(one.leaves[0])
            if own and one.place not in self.late and one.place not in self.made:
                self.twins[one.place] = Twin(self.variables.before[one.place], copy)
        for grown in self.growing:
            grown._enter(inside, following, self.rows)
        inside.carried = {id(held.thing) for held in self.held}
        for held in self.held:
            held.enter(lambda leaf: self._inner(leaf, following))
        self.given = [*inputs[count:], *self.inner]
        self.entered = {
            place: values[place]
            for place in self.wanted
            if place in self.made or id(self.variables.before[place]) in swapped
        }
        self.values: list[Any] = values
        copies = [values[one.place] for one in self.carried]
        copies += [twin.copy for held in self.held for twin in held.twins]
        parts = [one for copy in copies for one in containers_in(copy)]
        inside.fresh = {id(one) for one in parts if tree.take_apart(one) is not None}
        inside.copies = {id(one) for one in [*parts, *inputs, *self.inner]}
        self.variables.put(values)
        return nodes

    def _inner(self, leaf: Any, following: Any) -> Any:
        if not is_number(leaf):
            return leaf
        tracer = next(following)
        if tracer.type.shape:
            own = is_own_array(leaf)
            tracer._writable = leaf._storage()._writable if own else "argument"
        return tracer

    def _index(self, inside: TracedPiece) -> Any:
        return weaken(ew.positive(Tracer(inside.trace, inside.counter)))

    def _left(self, inside: TracedPiece, after: list[Any], item: Any) -> list[Node] | None:
        """What is carried after a turn."""
        self.is_item = {place for place, value in enumerate(after) if value is item}
        made = made_arrays(self, inside, after)
        if made - self.made:
            self.made |= made
            return None
        if self.made - made:
            raise Abandon
        self.moves = self._moves(after)
        found = [self.inner[slot].node for slot in self.moves]
        if self._shrinks(after):
            return None
        held: list[HeldArray] = []
        for one in self.carried:
            if one.place in self.shrinking:
                entered: Any = self.values[one.place]
                rest = self.shrinking[one.place].left(entered._values, after[one.place], inside)
                found.append(inside.trace.node_of(rest))
                continue
            if self._is_instance(inside, one, after[one.place]):
                return None
            instance = one.place in self.instances
            leaves, structure = self._flatten(one.place, after[one.place], True)
            if instance and [*map(id, flatten(self.values[one.place])[0])] != [*map(id, one.inner)]:
                raise Abandon  # the object itself is changed, which others may hold
            if structure != one.structure:
                if self._has_grown(one.place, after[one.place]) or self._is_loose(one):
                    return None
                raise self._mismatch(one.place, after[one.place])
            refuse_windows(leaves)
            for number, (leaf, old) in enumerate(zip(leaves, one.leaves, strict=True)):
                if not is_number(old):
                    if not equal(leaf, old):
                        raise self._mismatch(one.place, after[one.place])
                    continue
                if not is_number(leaf):
                    raise self._mismatch(one.place, after[one.place])
                found.append(inside.trace.node_of(leaf))
                self.leaves[one.place, number] = leaf
                read = self.names[one.place] in self.variables.statement.enters
                inner = one.inner[number]
                held.append(HeldArray(self.names[one.place], old, inner, leaf, read, one.place))
                kept = self.orders.get((one.place, number))
                self.outside[one.place, number] = [
                    *(storages_before(old) if self.rows is None or not len(self.rows) else []),
                    *inside.seen_outside(leaf),
                ]
                if kept is not None:
                    kept.after = leaf
                    kept.check(self.names[one.place], self.variables.where)
        self.appended: list[Node] = []
        self.set_now: list[Any] = []  # the leaves of attributes after a turn
        for place, value in enumerate(self.values):
            stands = any(value is grown for grown in self.growing)
            if stands and after[place] is not value:
                raise Abandon
        for grown in self.growing:
            found += grown._latest()
            self.appended += self._appended(grown)
        for thing in self.held:
            set_now = thing.left()
            if set_now is None:
                return None
            found += [inside.trace.node_of(leaf) for leaf in set_now]
            pairs = list(zip(thing.leaves, thing.inner, set_now, strict=True))
            held += [HeldArray("an attribute", *three, True) for three in pairs]
            self._check_replaced(inside, pairs, after)
            self.set_now += set_now
        if self._are_written(held):
            return None
        self._check_held_once(inside, after)
        self.after, self.inside = after, inside
        return None if self._come_late(inside, after) else found

    def _is_instance(self, inside: TracedPiece, one: _Carried, after: Any) -> bool:
        """Whether a turn puts an object of its own in place of another, as it would a number."""
        before = self.variables.before[one.place]
        if one.place in self.instances or after is before or type(after) is not type(before):
            return False
        found = tree.take_apart(after) is None and attributes(after) and attributes(before)
        if not found or inside.is_old(after):
            return False
        self.instances.add(one.place)
        return True

    def _are_written(self, held: list[HeldArray]) -> bool:
        """Whether there are more arrays, beside those known as such, that a turn writes to."""
        before = set(self.written)
        for one in held:
            known = one.place in self.made
            if one.is_written and not known:
                self.written |= memory_of(one.before)
        if self.written != before:
            return True
        slots = [
            HeldArray(self._name(slot), array, self.inner[slot], self.inner[move], True)
            for slot, (array, move) in enumerate(zip(self.arrays, self.moves, strict=True))
        ]
        try:
            check_held([*slots, *held], self.made, self.variables.where)
        except ControlFlowError:
            if self.attempt:  # turn by turn more is known
                raise Abandon from None
            raise
        return False

    def _check_replaced(self, inside: TracedPiece, attributes: list[Any], after: list[Any]) -> None:
        """Refuse a write to the array of an attribute that is then replaced by another, but for one
        that the turn makes and no other holds."""
        held = [*after, *(now for _, _, now in attributes)]
        for _, inner, now in attributes:
            if not is_own_array(inner) or now is inner or not inner._storage()._version:
                continue
            made = is_own_array(now) and now._trace is inside.trace and not holders(now, self.given)
            if not made or holders(now, held) > 1:
                raise Abandon
            if not self.first_is_done:
                raise ChangedType  # the first turn writes to what others may hold

    def _shrinks(self, after: list[Any]) -> bool:
        """Whether there are more variables of which a turn takes rows away."""
        found: dict[int, Shrinking] = {}
        if not self.attempt or self.rows is None:
            return False
        for one in self.carried:
            if one.structure is tree.LEAF and one.place not in self.shrinking:
                made = shrinking(one.leaves[0], after[one.place], len(self.rows))
                found |= {} if made is None else {one.place: made}
        self.shrinking |= found
        return bool(found)

    def _after_the_first(self) -> list[Any]:
        """The variables after the first turn, with its own number: traced, and thrown away."""
        with TracedPiece(self.variables.where, self.variables.roots, True) as inside:
            inside.counter = self.index
            before, rows = self.shrinking, self.rows
            if rows is None:
                raise Abandon
            self.shrinking = {}
            try:
                self._enter(inside)
                run_piece(lambda: self.body(self.item(int(rows[0]))), self.variables.where)
                return list(self.variables.get())
            finally:
                self.shrinking = before

    def _moves(self, after: list[Any]) -> list[int]:
        """For each array that may be written to the one that its variable holds after a turn.

        They may change places, as the buffers of a simulation do.
        """
        slots = {id(array): number for number, array in enumerate(self.arrays)}
        inner = {id(array): number for number, array in enumerate(self.inner)}
        moves = list(range(len(self.arrays)))
        for place in self.wanted:
            slot = slots.get(id(self.variables.before[place]))
            if slot is None or after[place] is self.inner[slot]:
                continue
            moves[slot] = inner.get(id(after[place]), -1)
            held = sum(value is self.arrays[slot] for value in self.variables.before)
            if moves[slot] < 0 or held > 1:
                raise self._replaced(slot)
        if sorted(moves) != list(range(len(moves))):
            raise self._replaced(next(k for k, move in enumerate(moves) if k != move))
        return moves

    def check_in_place(self) -> None:
        """Refuse arrays that change places: a loop whose end nobody knows cannot say where they
        are after it."""
        for slot, move in enumerate(self.moves):
            if slot != move:
                raise self._replaced(slot)

    def _replaced(self, slot: int) -> Exception:
        name = self._name(slot)
        if not self.variables.every:
            return OutsideWriteError(name)  # once more with all arrays: they may change places
        return failure(
            self.variables.where,
            f"the array {name!r} is written to in a loop, and replaced by another",
            f"Write to it alone ({name}[...] = x), or replace it alone.",
        )

    def _appended(self, grown: Growing) -> list[Node]:
        """What a turn appends to a list: no array that it writes to later or before."""
        grown._check()
        written = {id(one._storage()) for one in self.inner}
        for leaf in tree.leaves(grown._new):
            if is_own_array(leaf) and id(leaf._storage()) in written:
                raise Abandon
        return grown._appended()

    def _check_held_once(self, inside: TracedPiece, after: list[Any]) -> None:
        """Refuse to change a container that other variables hold too: they would not see it."""
        before = self.variables.before
        enters = self.variables.statement.enters
        entering = [after[place] for place in self.wanted if self.names[place] in enters]
        entering += [item for grown in self.growing for item in grown._new]
        left = [after[place] for place in self.wanted]
        if any(grown._back is not None and grown._back.are_kept(left) for grown in self.growing):
            raise Abandon
        for held in self.held:
            if self._is_shared(held.changed(), before) or held.is_shared():
                raise Abandon
        stand_ins = self._stand_ins()
        for one in containers_in([item for grown in self.growing for item in grown._new]):
            if id(one) in stand_ins or inside.is_old(one):
                raise Abandon  # the list holds it more than once
        for place, twin in self.twins.items():
            copies = twin.copies()
            changed = twin.changed(after[place])
            inner = [one for one in containers_in(after[place]) if id(one) in copies]
            shared = self._is_shared(changed, before) or (changed and held_twice(inner, entering))
            if twin.lost(after[place]):
                own = [*containers_in(after[place])]
                known = any(id(one) in stand_ins or inside.is_old(one) for one in own)
                shared = shared or known or held_twice(own, entering)
                if not shared and not self.first_is_done:
                    raise ChangedType  # the first turn changes what others may hold
            if shared and self.attempt:
                raise Abandon
            if shared:
                raise failure(
                    self.variables.where,
                    f"what {self.names[place]!r} holds is changed in a loop that a traced "
                    "condition decides on, and another variable holds it too",
                    "Change it by one name alone, or copy it before the loop.",
                )

    def _is_shared(self, changed: Sequence[Any], values: Sequence[Any]) -> bool:
        """Whether containers or arrays that are changed can be reached in several ways."""
        may_be = [other for one in changed for other in others(one)]
        known = any(held_twice([other], [other, *values]) for other in may_be)
        return known or held_twice(changed, values)

    def _stand_ins(self) -> dict[int, Any]:
        """What the containers of a turn stand for, by their `id`."""
        twins = [*self.twins.values(), *(twin for held in self.held for twin in held.twins)]
        return {key: value for twin in twins for key, value in twin.copies().items()}

    def _come_late(self, inside: TracedPiece, after: list[Any]) -> bool:
        """Variables that had no value before the loop and are read after it."""
        known = {one.place for one in self.carried}
        grown = False
        for place in self.wanted:
            name, value = self.names[place], after[place]
            nothing = self.variables.before[place]
            if place in known or not (nothing is UNDEFINED or nothing is NOTHING):
                continue
            if value is UNDEFINED or value is NOTHING or isinstance(value, Partial):
                continue
            filled = is_internal(name) or name in self.variables.statement.filled
            if place in self.is_item or not (self.runs or filled):
                continue
            leaves, structure = self._flatten(place, value, True)
            if all(map(is_number, leaves)):
                types = [inside.trace.node_of(leaf).type for leaf in leaves]
                self.late[place] = structure, [ArrayType(t.dtype, t.shape) for t in types]
                grown = True
        return grown

    def _settled(self, number: int, node: Node) -> ArrayType:
        """The type of something carried: Python's numbers take on what a turn makes of them."""
        own, found = self.types[number], node.type
        if found == own or (found.weak and found.shape == own.shape and _takes(own, found)):
            return own
        wanted = common(own, found)
        if wanted is None or not (own.weak or wanted == own):
            raise self._unsettled(number, found)
        return wanted

    # ------------------------------------------------------------ errors

    def _name(self, number: int) -> str:
        """The variable that something carried belongs to."""
        if number < len(self.arrays):
            held = self.arrays[number]
            return next(
                n for n, v in zip(self.names, self.variables.before, strict=True) if v is held
            )
        number -= len(self.arrays)
        for one in self.carried:
            count = sum(map(is_number, one.leaves))
            if number < count:
                return self.names[one.place]
            number -= count
        return "?"

    def _unsettled(self, number: int, found: ArrayType) -> Exception:
        own = self.types[number]
        if self.attempt:
            return ChangedType()
        name = self._name(number)
        return failure(
            self.variables.where,
            f"the variable {name!r} is {own} before a turn of the loop and {found} after it",
            f"Give {name} before the loop the shape and dtype that it has after a turn.",
        )

    def _mismatch(self, place: int, value: Any) -> Exception:
        if self.attempt:
            return ChangedType()
        name = self.names[place]
        return failure(
            self.variables.where,
            f"the variable {name!r} is {shown(self.variables.before[place])} before a turn of the "
            f"loop and {shown(value)} after it",
            f"Keep the structure of {name}, and change only arrays and numbers in it.",
        )

    # ------------------------------------------------------------ before and after all turns

    def start(self) -> list[Any]:
        """The first values in the types that are carried."""
        return [
            leaf if _type(leaf).dtype == t.dtype else _converted(leaf, t)
            for leaf, t in zip(self.first, self.types, strict=True)
        ]

    def settle(self, results: Sequence[Any]) -> None:
        """Let tables know what is in them, before anything is changed."""
        rest = iter(results[len(results) - sum(len(held.leaves) for held in self.held) :])
        for held in self.held:
            held.settle([next(rest) for _ in held.leaves])

    def finish(self, results: Sequence[Any], last: Any = UNDEFINED) -> None:
        """Put the results into the variables."""
        results = [
            weaken(result) if t.weak and isinstance(result, Traced) else result
            for result, t in zip(results, self.types, strict=True)
        ]
        results = [
            snapshot(one) if is_own_array(one) and one._base is not None else one for one in results
        ]
        values = list(self.variables.before)
        following = iter(results[len(self.arrays) :])
        known = set()
        shared: list[tuple[Any, Sequence[Any]]] = []
        same = SameArrays(self.runs)
        arrays = self._kept_arrays()
        for one in self.carried:
            known.add(one.place)
            leaves = [next(following) if is_number(leaf) else leaf for leaf in one.leaves]
            for number, result in enumerate(leaves):
                kept = self.orders.get((one.place, number))
                if kept is not None and isinstance(result, Traced):
                    result.node.order = (kept.at_the_end,)  # type: ignore[attr-defined]
                left = self.leaves.get((one.place, number))
                leaves[number] = same.add(result, [] if left is None else [left])
                shared.append((result, self.outside.get((one.place, number), ())))
                own = arrays.get(id(left))
                if own is None or own is one.leaves[number]:
                    continue
                if self.runs and type_of(own) == type_of(result):
                    leaves[number] = own
                else:
                    shared.append((result, storages_before(own)))
            if one.place in self.shrinking and self.rows is not None:
                leaves = [self.shrinking[one.place].last(leaves[0], len(self.rows))]
            made = tree.unflatten(one.structure, leaves)
            twin = self.twins.get(one.place)
            values[one.place] = made if twin is None else twin.back(self.after[one.place], made)
        for grown in self.growing:
            [next(following) for _ in range(grown._count)]
        rest = [same.add(next(following), [left]) for left in self.set_now]
        outside = map(self.inside.seen_outside, self.set_now)
        shared += zip(rest, outside, strict=True)
        following = iter(rest)
        for held in self.held:
            held.finish(following)
        self._keep_alike(values)
        of_before = self._kept()
        for place in self.wanted:
            if self.runs and place not in known and values[place] is UNDEFINED:
                found = of_before(self.after[place])
                values[place] = UNDEFINED if found is None else found
            if place in self.is_item and last is not UNDEFINED and place not in known:
                values[place] = last
            elif place not in known and values[place] is UNDEFINED:
                values[place] = Partial(self.names[place], self.variables.where)
        for place in self.is_item:
            if place < len(values) and last is not UNDEFINED:
                values[place] = last
        self._write(results[: len(self.arrays)], values)
        for result, storages in shared:
            may_be(result, [*storages, *same.others(result)])
        self.variables.finish(values)
        self._forget()

    def _forget(self) -> None:
        for piece in self.pieces:
            forget_fetched(piece)

    def _ends(self) -> list[tuple[Twin, Any]]:
        """What stands for containers from outside in a turn, each with what is there at its end."""
        pairs = [(twin, self.after[place]) for place, twin in self.twins.items()]
        for held in self.held:
            pairs += zip(held.twins, map(held.after.get, held.names), strict=True)
        return pairs

    def _kept_arrays(self) -> dict[int, Any]:
        """The arrays that containers hold in every turn: variables may hold them behind it too."""
        found = [twin.kept_arrays(now) for twin, now in self._ends()]
        return {key: value for one in found for key, value in one.items()}

    def _kept(self) -> Callable[[Any], Any]:
        """For what a variable holds at the end of a turn the container or object from outside that
        it is in every turn; None for all else."""
        kept = {key: value for twin, now in self._ends() for key, value in twin.kept(now).items()}
        kept |= {id(grown): grown._original for grown in self.growing}
        return lambda one: one if self.inside.is_old(one) else kept.get(id(one))

    def _keep_alike(self, values: list[Any]) -> None:
        """Let variables hold the same container, where they did at the end of a turn."""
        stand_ins = self._stand_ins()
        same = self._kept()

        def outside(one: Any) -> list[Any]:
            found = one if self.inside.is_old(one) else stand_ins.get(id(one))
            return [] if found is None else [found]

        made = SameContainers(self.runs, same, outside)
        for one in self.carried:
            before = self.variables.before[one.place]
            after = self.after[one.place]
            if values[one.place] is not before:
                values[one.place] = made.replaced(values[one.place], after, before)
            elif one.place in self.twins:
                self.twins[one.place].keep_alike(after, made)
        for held in self.held:
            held.keep_alike(made)
        for grown in self.growing:
            own = type(grown._original) is list and not grown._has_blocks
            for place, item in enumerate(grown._new if own else ()):
                made.add([grown._latest_item(place)], [[item]])

    def _write(self, results: Sequence[Any], values: list[Any]) -> None:
        """Write to the arrays, and let variables hold those that have changed places."""
        count = 0 if self.rows is None else len(self.rows)
        for number, result in enumerate(results):
            array, own = self.arrays[last_place(self.moves, number, count)], self.arrays[number]
            if self.outputs[number] is not self.inputs[number]:
                array._write(result)
            if array is not own:
                values[next(k for k, v in enumerate(self.variables.before) if v is own)] = array

    def condition(self, test: Callable[[Any], Any]) -> tuple[Node, list[Node], Node]:
        """The condition as a node, with the nodes of what is carried and of the index."""
        before = self.variables.before
        index = Variable("", None, COUNT, active=False)
        asked = copy.copy(self)  # what stands for things in a turn is needed behind the loop
        asked.held = [copy.copy(held) for held in self.held]
        with TracedPiece(self.variables.where, self.variables.roots, self.attempt) as inside:
            inside.counter = index
            inputs = asked._enter(inside)
            try:
                tracer = self._index(inside)
                found = run_piece(lambda: test(tracer), self.variables.where)
                asked._check_unchanged()
                if isinstance(found, Traced):
                    found = truth(found, self.variables.where)
                else:
                    found = np.bool_(bool(found))
                node = inside.trace.node_of(found)
            finally:
                self.variables.put(before)
                self._leave()
        return node, inputs, index

    def _check_unchanged(self) -> None:
        """Refuse a condition that changes what a turn carries: no turn would see that."""
        carried = [(twin, twin.copy) for twin in self.twins.values()]
        moves = [move for held in self.held for move in held.moves()]
        carried += [(twin, twin.copy) for held in self.held for twin in held.twins]
        set_there = any(now is not copy for copy, now in moves)
        if set_there or any(twin.changed(now) for twin, now in carried):
            if self.attempt:
                raise Abandon
            raise failure(
                self.variables.where,
                "the condition of a `while` changes what the loop changes too",
                "Change it in the loop: `while True:` with a `break`.",
            )


def _distinct(values: Sequence[Any]) -> list[Any]:
    return list({id(value): value for value in values}.values())


def _type(leaf: Any) -> ArrayType:
    own: ArrayType = type_of(leaf)
    return own


def _takes(own: ArrayType, found: ArrayType) -> bool:
    """Whether a Python number fits into something carried."""
    return not own.weak and bool(np.can_cast(found.dtype, own.dtype, "same_kind"))


def _converted(leaf: Any, wanted: ArrayType) -> Any:
    if isinstance(leaf, Traced):
        return convert(leaf, dtype=wanted.dtype)
    if wanted.weak:
        return wanted.dtype.type(leaf).item()
    return wanted.dtype.type(leaf) if not wanted.shape else np.asarray(leaf, wanted.dtype)
