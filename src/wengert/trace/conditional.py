"""What is traced under a condition may write to its own arrays alone, and not read stale ones."""

from __future__ import annotations

import threading
from typing import Any

from ..errors import MutationError, OutsideWriteError, explain


class _Conditional(threading.local):
    """What is traced under a condition: the level of its trace, and the arrays from outside that
    have stand-ins in it, by the `id` of their storage."""

    level = 0
    replaced: frozenset[int] = frozenset()


conditional = _Conditional()


def check_outside(storage: Any) -> None:
    """Refuse to write to an array from outside: it would happen whatever the condition is."""
    if storage._trace.level < conditional.level:
        error = OutsideWriteError(
            explain(
                "writing to an array",
                "the array was made outside of the branch or loop that a traced condition "
                "decides on, and the write is not seen in its text",
                "Write to the array by its name in the branch or loop itself, or return the "
                "new array from the function that writes.",
            )
        )
        error.storage = storage
        raise error


def storages_of(array: Any) -> list[int]:
    """The storage of an array, or all that it may be (see `either`), by their `id`."""
    storage = array._storage()
    return [id(one) for one in getattr(storage, "storages", (storage,))]


def check_current(array: Any) -> None:
    """Refuse to read an array that shares memory with one that is written under a condition."""
    if hasattr(array, "_storage") and not conditional.replaced.isdisjoint(storages_of(array)):
        raise MutationError(
            explain(
                "reading an array",
                "it shares its memory with an array that is written to in a branch or loop that "
                "a traced condition decides on",
                "Take the view inside the branch or loop, or copy it before: x = x.copy().",
            )
        )


class ReadOnlyError(MutationError):
    """A write to a view that NumPy lets nobody write to either."""


def written_read_only() -> ReadOnlyError:
    """The error for it."""
    problem = "the array is a read-only view (a broadcast, a diagonal, a real or imaginary part)"
    return ReadOnlyError(explain("writing to an array", problem, "Copy it first: x = x.copy()."))
