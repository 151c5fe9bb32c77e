"""Stacks whose number of items is traced: arrays with room for some items, and the number.

What `stack_names.py` writes calls these functions. While nothing about a list is traced it stays
one. At a `while` whose turns take items off, `TracedStack` stands for it: each leaf of the items
has an array, in which the items lie one after the other. It is a tree of these arrays and the
number, so that branches and loops carry it like any other value; putting an item on or taking one
off makes a new one. Items are numbers, and tuples of numbers: what can be changed could be changed
by others.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..errors import ControlFlowError
from ..ops import indexing, logic
from ..ops.layout import convert
from ..ops.positions import provided, within
from ..types import ArrayType, type_of, weaken
from . import conversion
from .pieces import Abandon
from .values import can_be_written, common, failure, is_fixed, is_number

# Items that there is room for beside those at first: a search that halves what it looks at has
# some dozens, and every sample of a mapped function has room of its own.
ROOM = 256
# How often the types of items may turn out to be wider than those before.
_WIDENINGS = 8


class _WidenedError(ControlFlowError):
    """An item has wider types than those before."""

    def __init__(self, kind: ItemKind, types: Sequence[ArrayType]):
        super().__init__(str(kind.differs()))
        self.kind, self.types = kind, types


class TracedStack:
    """What stands for a list whose length is traced."""

    def __init__(self, kind: ItemKind, arrays: Sequence[Any], size: Any):
        self.kind, self.arrays, self.size = kind, arrays, size

    def pushed(self, item: Any) -> TracedStack:
        """A stack with one more item."""
        leaves = self.kind.leaves(item)
        size = self.kind.with_room(self.size)
        arrays = [
            indexing.scatter_set(array, convert(leaf, dtype=t.dtype), size, axes=(0,))
            for array, leaf, t in zip(self.arrays, leaves, self.kind.types, strict=True)
        ]
        return TracedStack(self.kind, arrays, size + 1)

    def popped(self) -> tuple[TracedStack, Any]:
        """A stack without the last item, and that item."""
        rest = within(self.kind.with_items(self.size) - 1, length=self.kind.room, name="pop")
        leaves = [indexing.gather(array, rest, axes=(0,)) for array in self.arrays]
        return TracedStack(self.kind, self.arrays, rest), self.kind.item(leaves)


class ItemKind:
    """What all items of a stack have in common."""

    def __init__(self, items: Sequence[Any], where: str, name: str):
        self.where, self.name = where, name
        self.room = len(items) + ROOM
        self.structure = tree.flatten(items[0])[1]
        self.types = [type_of(leaf) for leaf in self._numbers(items[0])]

    def leaves(self, item: Any) -> list[Any]:
        """The numbers in an item, which must be like those before."""
        numbers = self._numbers(item)
        wider = [common(t, type_of(leaf)) for t, leaf in zip(self.types, numbers, strict=True)]
        if wider != self.types:
            raise _WidenedError(self, [t for t in wider if t is not None])
        return numbers

    def _numbers(self, item: Any) -> list[Any]:
        leaves, structure = tree.flatten(item)
        if structure != self.structure or not is_fixed(structure):
            raise self.differs()
        if not all(is_number(leaf) and not can_be_written(leaf) for leaf in leaves):
            raise self.differs()
        return leaves

    def item(self, numbers: Sequence[Any]) -> Any:
        """The item that has some numbers."""
        pairs = zip(numbers, self.types, strict=True)
        return tree.unflatten(self.structure, [weaken(n) if t.weak else n for n, t in pairs])

    def differs(self) -> ControlFlowError:
        """The error for an item that is not like those before."""
        return failure(
            self.where,
            f"the list {self.name!r} is a stack whose length is traced, and its items are not all "
            "numbers, or tuples of numbers, of one structure and one type",
            "Keep them in arrays made with np.zeros and count them in a variable.",
        )

    def with_room(self, size: Any) -> Any:
        """A number of items to which one can be added."""
        return provided(
            size,
            logic.less(size, self.room),
            error="ControlFlowError",
            name=self.where,
            problem=f"the list {self.name!r} has more than {self.room} items, expected at most "
            "that many where their number is traced",
            remedy="Keep them in arrays made with np.zeros and count them in a variable.",
        )

    def with_items(self, size: Any) -> Any:
        """A number of items of which one can be taken."""
        return provided(
            size,
            logic.greater(size, 0),
            error="OutOfRangeError",
            name=self.where,
            problem=f"pop from the list {self.name!r}, which is empty",
            remedy="Ask first whether it has items.",
        )


tree.register(
    TracedStack,
    lambda stack: ((*stack.arrays, stack.size), stack.kind),
    lambda kind, children: TracedStack(kind, children[:-1], children[-1]),
)


def _stack(items: Sequence[Any], where: str, name: str, types: Any) -> TracedStack:
    """A stack that has the items of a list."""
    if not items:
        raise Abandon  # nothing is known of its items
    kind = ItemKind(items, where, name)
    kind.types = kind.types if types is None else types
    made = TracedStack(kind, [np.zeros((kind.room, *t.shape), t.dtype) for t in kind.types], 0)
    for item in items:
        made = made.pushed(item)
    return TracedStack(kind, made.arrays, len(items))


def with_stacks(lists: dict[str, Any], where: str, work: Callable[[dict[str, Any]], None]) -> None:
    """Work with stacks in place of lists, whose items take on the types that all of them have."""
    types: dict[str, Sequence[ArrayType]] = {}
    own = {name: items for name, items in lists.items() if type(items) is list}
    for _ in range(_WIDENINGS):
        try:
            work(lists | {n: _stack(items, where, n, types.get(n)) for n, items in own.items()})
            return
        except _WidenedError as found:
            if found.kind.name not in own or len(found.types) < len(found.kind.types):
                raise
            types[found.kind.name] = found.types
    raise Abandon


# ---------------------------------------------------------------- what converted functions call


def pushed(stack: Any, *items: Any) -> Any:
    """The stack with more items."""
    for item in items:
        if isinstance(stack, TracedStack):
            stack = stack.pushed(item)
        else:
            conversion.called(stack.append)(item)
    return stack


def popped(stack: Any) -> tuple[Any, Any]:
    """The stack without its last item, and that item."""
    if isinstance(stack, TracedStack):
        return stack.popped()
    return stack, conversion.called(stack.pop)()


def some(stack: Any) -> Any:
    """Whether there are items."""
    return logic.greater(stack.size, 0) if isinstance(stack, TracedStack) else bool(stack)


def number_of(stack: Any, function: Any) -> Any:
    """How many items there are, where the function is `len` indeed."""
    if not isinstance(stack, TracedStack):
        return conversion.called(function)(stack)
    if function is not builtins.len:
        raise stack.kind.differs()
    return stack.size


def top(stack: Any) -> Any:
    """The last item."""
    return stack.popped()[1] if isinstance(stack, TracedStack) else stack[-1]
