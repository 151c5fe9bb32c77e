"""In-place writes made functional, with NumPy's aliasing.

An array that was computed is its own storage. A slice, reshape or transpose of it is a *view*:
it remembers its base and how it was made. A write through a view computes a new content for the
whole chain up to the storage, and raises the storage's version; every other view of the same
storage sees the version has changed when it is next read, and recomputes itself.

Whether a reshape is a view depends on how NumPy would have the array in memory. It counts as one
until somebody writes to it or to its base: then `orders` says, and a copy stands for itself.
As in NumPy, an element taken out with integers alone is a number, not a view.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import MutationError, explain
from ..keeping import keep
from ..ops.layout import reshape
from ..ops.op import Op, Traced, uncaptured
from ..types import ArrayType
from .conditional import check_outside, written_read_only
from .orders import C_ORDER, claimed, is_line, is_written, lying
from .writes import Writes, settled


class View:
    """How a view was made from its base: ``op(base, *rest, **params)``.

    `sure` is False where it may be a copy, as of a number; `contiguous`, whether it is one of all
    arrays that do not lie one element after the other, as `ravel` gives.
    """

    __slots__ = ("base", "contiguous", "op", "params", "rest", "sure")

    def __init__(self, base: Views, op: Op, params: dict[str, Any], rest: tuple[Any, ...]):
        self.base = base
        self.op = op
        self.params = params
        self.rest = rest
        self.sure = op is not reshape and base.type.shape != ()
        self.contiguous = False

    def read(self) -> Any:
        """The view of what the base holds now."""
        return self.op(self.base._peek(), *self.rest, **self.params)

    def write(self, content: Any) -> Any:
        """The base with the view's new content put back."""
        write_back: Any = self.op.write_back
        return write_back(self.base._peek(), content, *self.rest, **self.params)


class Views:
    """The part of a traced array that knows about storage, views and writes."""

    __slots__ = ()
    # Whether writes at numbers are remembered by their places (see `writes`).
    _keeps_writes = True
    made: bool  # whether NumPy made it in a function being traced
    _trace: Any
    _node: Any
    _base: View | None
    _version: int
    _seen: int
    _writable: Any
    _written: Writes | None
    # How it lies in memory, where its node does not say: a claim of `orders`. Mostly not set.
    _order: Any
    node: Any
    type: ArrayType

    def _view_of(
        self, base: Views, op: Op, params: dict[str, Any], rest: tuple[Any, ...] = ()
    ) -> None:
        """Make this array a view of `base`, which may be one of a trace outside: writes find out.

        `rest` are the operation's other arguments.
        """
        rest = tuple(snapshot(arg) for arg in rest)
        self._base = View(base, op, params, rest)  # type: ignore[misc]
        self._seen = self._storage()._version  # type: ignore[misc]

    def _chain(self) -> list[Views]:
        """This array, its base, and so on up to the storage."""
        chain: list[Views] = [self]
        while chain[-1]._base is not None:
            chain.append(chain[-1]._base.base)
        return chain

    def _storage(self) -> Views:
        array: Views = self
        while array._base is not None:
            array = array._base.base
        return array

    def _sure_chain(self) -> list[Views]:
        """The chain, where it is known that it is one in NumPy: before anything is written."""
        chain = self._chain()
        for view in chain:
            if view._base is not None and not view._base.sure:
                from .lying import decide  # needed where reshaped arrays are written to

                decide(chain)
                return self._chain()
        return chain

    def _lie(self, order: Any) -> None:
        """Let this array, which is no view, lie in memory in another way than its node says."""
        self._order = order
        self._node = lying(self._node or settled(self), order)

    def _keep_order(self) -> Any:
        """How this array lies in memory, before its node is replaced by what is written."""
        if not hasattr(self, "_order"):
            self._order = C_ORDER if self.made else claimed(self)
        return self._order

    def _refresh(self) -> None:
        """Recompute a view whose storage has been written to since it was last read."""
        if self._storage()._version == self._seen:
            return
        chain = self._sure_chain()
        version = chain[-1]._version
        if version == self._seen:
            return
        with uncaptured():
            for view in reversed(chain[:-1]):
                made: View = view._base  # type: ignore[assignment]
                view._node = made.read()._node
                view._seen = version  # type: ignore[misc]

    def _peek(self) -> Any:
        """The present content as an array that is nobody's view, without refreshing."""
        return self._alike(self._node or settled(self))

    def _alike(self, node: Any) -> Any:
        """An array of this kind and trace."""
        return self._trace.wrap(node)

    def _write(self, new: Any) -> None:
        """Replace the whole content of this array, and of everything it is a view of."""
        chain = self._sure_chain()
        self._check_writable(chain[-1], new)
        self.node  # noqa: B018  # refresh the chain before it is rewritten
        content = new
        for array in chain[:-1]:
            made: View = array._base  # type: ignore[assignment]
            content = made.write(content)
        storage = chain[-1]
        node = storage._trace.node_of(content)
        if not is_written(node, storage._node):
            node = lying(node, storage._keep_order())
        storage._node = node
        storage._written = None  # type: ignore[misc]
        storage._version += 1  # type: ignore[misc]

    def _check_writable(self, storage: Views, new: Any) -> None:
        if storage._writable == "argument":
            raise _refused(
                "the array is an argument of the function being traced; the caller's own array "
                "would change"
            )
        if any(array._writable == "read-only" for array in self._chain()):
            raise written_read_only()
        if isinstance(storage._writable, str) and storage._writable.startswith("shared"):
            reader = storage._writable.partition(": ")[2]
            problem = f"{reader} has given a view of the array, which would not see it"
            raise _refused(problem, "Copy the array first: x = x.copy().")
        check_outside(storage)
        if isinstance(new, Traced) and new._trace.level > storage._trace.level:
            raise _refused(
                "the array was made outside the function being traced, the value inside",
                "Make the array inside the function, or return the value.",
            )


def _refused(problem: str, remedy: str = "Copy it first: x = x.copy().") -> MutationError:
    return MutationError(explain("writing to an array", problem, remedy))


def copy_of(array: Any, order: str = "K") -> Any:
    """A copy: new storage with the same content."""
    if isinstance(array, Views):
        copied = snapshot(array)
        if not is_line(array.type.shape):
            from .lying import copied_order

            copied._lie(C_ORDER if order == "C" else copied_order(array, order))
        # the copy of a number is a number, not a 0-d array
        copied._writable = True if array.type.shape or is_array(array) else None
        return copied
    return np.array(array, order=order)  # type: ignore[call-overload]


def is_array(array: Views) -> bool:
    """Whether the value is an array that can change; NumPy's numbers cannot."""
    return bool(array.type.shape) or array._base is not None or array._writable is True


def snapshot(value: Any, operation: str = "trace") -> Any:
    """What an array holds now, unmoved by later writes to it; numbers as they are."""
    if not isinstance(value, Views):
        return keep(value, operation)
    return value._alike(value.node)


def read_only(array: Any) -> Any:
    """Mark a traced array as one that must not be written to."""
    if isinstance(array, Views):
        array._writable = "read-only"
    return array
