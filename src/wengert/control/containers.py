"""Containers that a turn of a loop changes: what it leaves goes back into the very same ones.

A turn works on copies of the containers that it carries, with traced values in them. What it has
put into such a copy is put into the container itself behind the loop, and what it has written to an
array in there is written to that array: whoever else holds them sees it, as without a loop.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from .. import tree
from .values import is_own_array

# Objects that are looked at for a container that is held twice.
_MOST = 20000


class Twin:
    """A value from outside and what stands for it in a turn, with their parts, if they have any."""

    def __init__(self, original: Any, copy: Any):
        self.original, self.copy = original, copy
        whole, inner = tree.take_apart(original), tree.take_apart(copy)
        self.parts: list[Twin] | None = None
        if whole is not None and inner is not None:
            self.parts = [Twin(a, b) for a, b in zip(whole[0], inner[0], strict=True)]

    def changed(self, after: Any) -> list[Any]:
        """The containers and arrays from outside that a turn has changed, and not replaced."""
        if after is not self.copy:
            return []
        if self.parts is None:
            written = is_own_array(self.original) and after._storage()._version > 0
            return [self.original] if written else []
        left = list(tree.take_apart(after)[0])  # type: ignore[index]
        pairs = list(zip(self.parts, left, strict=True))
        found = [one for part, now in pairs for one in part.changed(now)]
        replaced = any(part.copy is not now for part, now in pairs)
        return [*found, *([self.original] if replaced else [])]

    def back(self, after: Any, result: Any) -> Any:
        """What is there behind the loop: the value itself with the results in it, or another."""
        if after is not self.copy:
            return result
        if self.parts is None:
            if is_own_array(self.original) and after._storage()._version > 0:
                self.original._write(result)
            return self.original
        left, (found, data) = tree.take_apart(after)[0], tree.take_apart(result)  # type: ignore[index, misc]
        new = [p.back(a, r) for p, a, r in zip(self.parts, left, found, strict=True)]
        if all(one is part.original for one, part in zip(new, self.parts, strict=True)):
            return self.original
        shape = tree.Structure(type(result), data, (tree.LEAF,) * len(new))
        return _refilled(self.original, tree.unflatten(shape, new))


def _refilled(container: Any, new: Any) -> Any:
    """A container with another content; a new one where it cannot be changed."""
    if isinstance(container, list):
        container[:] = new
    elif isinstance(container, dict):
        container.update(new)
    elif dataclasses.is_dataclass(container):
        for field in dataclasses.fields(container):
            object.__setattr__(container, field.name, getattr(new, field.name))
    else:
        return new
    return container


def held_twice(things: Iterable[Any], values: Iterable[Any]) -> bool:
    """Whether one of some containers and arrays can be reached in two ways."""
    wanted = {id(thing): 0 for thing in things}
    pending = list(values)
    seen: set[int] = set()
    while pending and wanted and len(seen) < _MOST:
        now = pending.pop()
        if id(now) in wanted:
            wanted[id(now)] += 1
            if wanted[id(now)] > 1:
                return True
        elif id(now) in seen:
            continue
        seen.add(id(now))
        taken = tree.take_apart(now)
        pending += getattr(now, "__dict__", {}).values() if taken is None else taken[0]
    return False
