"""The arrays that variables of a loop hold: how they lie in memory, which are made anew in each
iteration, and which change places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..trace.conditional import storages_of
from ..trace.lying import strides_of
from .containers import holders
from .pieces import TracedPiece
from .values import failure, is_own_array

if TYPE_CHECKING:
    from .repeats import Turns


class KeptOrder:
    """How something carried lies in memory: as before the loop, if a turn leaves it so."""

    def __init__(self, leaf: Any):
        self.before, self.after = leaf, leaf
        self.asked = False

    def __call__(self) -> Any:
        """The strides that an iteration finds."""
        self.asked = True
        return strides_of(self.before)

    def at_the_end(self) -> Any:
        """The same for what is there after all turns."""
        own = strides_of(self.before)
        return own if strides_of(self.after) == own else None

    def check(self, name: str, where: str) -> None:
        """Refuse a turn that was traced for one order and leaves another."""
        if self.asked and self.at_the_end() is None:
            raise failure(
                where,
                f"the array {name!r} may lie in memory in another order after a turn of the loop, "
                "and it depends on the order whether an array made of it by reshape is a view, to "
                "which something is written",
                f"Reshape a copy: {name}.copy().",
            )


class ChangedType(Exception):  # noqa: N818 - steers an attempt
    """What is carried does not keep its shape: the first turn may be another one."""


@dataclass
class HeldArray:
    """An array that is carried: what it is before the loop, what stands for it in a turn, what it
    is after one, and whether a turn reads it."""

    name: str
    before: Any
    inner: Any
    after: Any
    read: bool
    place: int = -1  # of the variable

    @property
    def is_written(self) -> bool:
        """Whether a turn writes to it."""
        return is_own_array(self.inner) and self.inner._version > 0

    def shares(self, other: HeldArray) -> bool:
        """Whether they may be one array at the beginning of a turn, the first or another."""
        return not (
            memory_of(self.before).isdisjoint(memory_of(other.before))
            and memory_of(self.after).isdisjoint(memory_of(other.after))
        )


class SameArrays:
    """The results of a branch or loop, of which some may be one array, or share its memory."""

    def __init__(self, sure: bool):
        self.sure = sure  # whether one of the ends that are told was reached
        self.known: list[tuple[Any, Sequence[Any]]] = []  # with what they are at these ends

    def add(self, result: Any, ends: Sequence[Any]) -> Any:
        """The result, or one that was added before and is the same at each end."""
        arrays = [end for end in ends if memory_of(end)]
        if not arrays or not is_own_array(result):
            return result
        for other, at in self.known if self.sure else ():
            if len(at) == len(ends) and all(a is b for a, b in zip(at, ends, strict=True)):
                return other
        self.known.append((result, ends))
        return result

    def others(self, result: Any) -> list[Any]:
        """The storages of results that were added before and may be this one."""
        found: list[Any] = []
        place = next((k for k, (one, _) in enumerate(self.known) if one is result), 0)
        own = {key for end in self.known[place][1] for key in memory_of(end)} if place else set()
        for other, ends in self.known[:place]:
            if any(not own.isdisjoint(memory_of(end)) for end in ends):
                storage = other._storage()
                found += getattr(storage, "storages", (storage,))
        return found


def memory_of(leaf: Any) -> set[int]:
    """The arrays that a value is, or is a view of, by the `id` of their storage."""
    return set(storages_of(leaf)) if is_own_array(leaf) and leaf.type.shape else set()


def check_held(every: Sequence[HeldArray], made: set[int], where: str) -> None:
    """Refuse a turn that writes to one array and reads another that it may be: each is carried by
    its own content, so the write would not be seen there. Nor would be one to an array from before
    the loop that is then replaced by another."""
    for one in every:
        replaced = one.place >= 0 and one.place not in made and one.after is not one.inner
        if replaced and one.is_written and memory_of(one.before):
            raise failure(
                where,
                f"an array of {one.name!r} is written to in a loop, and replaced by another",
                "Write to it alone (x[...] = y), or replace it alone.",
            )
        for other in every if one.is_written else ():
            if other.read and other.inner is not one.inner and one.shares(other):
                raise failure(
                    where,
                    f"{one.name!r} is written to in a loop, and {other.name!r} may share its "
                    "memory in a turn",
                    f"Copy the array before it is held twice: {other.name} = x.copy().",
                )


def made_arrays(turns: Turns, inside: TracedPiece, after: list[Any]) -> set[int]:
    """The variables whose array is replaced by one that the turn makes and no other holds.

    What the next turn writes to it no one else sees, so it is carried as a number would be. To
    an array from before the loop a first turn that was run by itself has written.
    """
    found = set()
    held = [after[place] for place in turns.wanted]
    held += [item for grown in turns.growing for item in grown._new]
    for place in turns.wanted:
        value, first = after[place], turns.entered.get(place)
        if first is None or value is first or not is_own_array(value):
            continue
        if value._trace is not inside.trace or holders(value, turns.given):
            continue  # it was there before the turn
        if not memory_of(value).isdisjoint(memory_of(first)):
            continue  # it may have been
        if holders(value, held) > 1:
            continue
        if first._storage()._version > 0:
            if holders(turns.variables.before[place], turns.variables.before) > 1:
                continue
            if not turns.first_is_done:
                raise ChangedType
        found.add(place)
    return found


def storages_before(leaf: Any) -> list[Any]:
    """The arrays that something carried is before the first turn, and after none."""
    if not is_own_array(leaf):
        return []
    storage = leaf._storage()
    return [*getattr(storage, "storages", (storage,))]


def last_place(moves: Sequence[int], slot: int, iterations: int) -> int:
    """The array that the variable of another one holds after all iterations."""
    seen = [slot]
    while moves[seen[-1]] != slot:
        seen.append(moves[seen[-1]])
    return seen[iterations % len(seen)]
