"""An array that is one of several that are there already: a traced condition decides which.

``z = y if c else y * 2`` computes what `z` holds, but whether a write to `z` is one to `y` is not
known. As long as nobody looks, it does not matter: what is written to `z` makes `y` unreadable, and
what is written to `y` makes `z` so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import MutationError, explain
from ..types import ArrayType
from .views import Views


class Either:
    """Stands as the base of such an array, for all that it may be."""

    __slots__ = ("storages",)
    name = "either"
    made = False
    _base = None
    _writable = None

    def __init__(self, storages: Sequence[Any]):
        self.storages = tuple(storages)

    @property
    def type(self) -> ArrayType:
        """That of all of them."""
        return self.storages[0].type  # type: ignore[no-any-return]

    @property
    def _version(self) -> int:
        return sum(storage._version for storage in self.storages)

    def leave(self) -> None:
        """Nobody may read what the array may have been: something is written to it."""
        for storage in self.storages:
            if not isinstance(storage._written, _Unknown):
                storage._keep_order()
                storage._written = _Unknown(storage._peek())
                storage._node = None
            storage._version += 1


class OneOfDistinct(Either):
    """Stands for what one of several arrays may be that are not the same among each other.

    So a write to one of them, though it is one to what the others may be, leaves these as they are.
    """

    __slots__ = ("written",)

    def __init__(self, storages: Sequence[Any], written: list[int]):
        super().__init__(storages)
        self.written = written  # one number, for all of them: the versions that they have made

    @property
    def _version(self) -> int:
        found: int = super()._version - self.written[0]
        return found

    def leave(self) -> None:
        """Nobody may read what the array may have been, but for the others."""
        super().leave()
        self.written[0] += len(self.storages)


class _Unknown:
    """Stands for what was written to an array, where that is not known."""

    is_settled = False

    def __init__(self, content: Any):
        self.content = content  # of this type

    @property
    def depth(self) -> int:
        raise undecided()

    def settle(self) -> Any:
        """The whole content: nobody knows it."""
        raise undecided()


def undecided() -> MutationError:
    """The error for reading one of two arrays after a write to the other."""
    return MutationError(
        explain(
            "reading an array",
            "whether it was changed by a write to another array is not known: a traced condition, "
            "or the turn of a loop, decides whether both are the same",
            "Copy in the branch or loop: z = y.copy().",
        )
    )


def may_be(result: Any, storages: Sequence[Any], written: list[int] | None = None) -> Any:
    """A result of a branch or loop, which may be one of these arrays or a view of one; with
    `written`, which they share, one of several that are not the same among each other."""
    if storages and isinstance(result, Views) and result.type.shape and result._base is None:
        distinct = {id(storage): storage for storage in storages}
        every = list(distinct.values())
        made: Any = Either(every) if written is None else OneOfDistinct(every, written)
        result._view_of(made, EITHER, {})
        view: Any = result._base
        view.sure = False
    return result


class _Op:
    name = "either"


EITHER: Any = _Op()
