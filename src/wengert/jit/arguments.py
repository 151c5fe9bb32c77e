"""Arguments of a call: put in order, taken apart, described.

`f(x, y)` and `f(x, y=y)` are one call: keywords move to their positions. Static arguments are set
aside. What remains is a tree whose leaves are arrays and numbers, and the program that takes them
is found by the leaves' kinds: dtype, shape and strides of an array, the Python type of a number.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import DTypeError, IntegerError
from ..loops import c_strides
from ..snapshot import alike, hash_of, snapshot, unchanged
from ..trace.tracing import check_leaf, function_name
from ..types import ArrayType, type_of

# In the shape of an argument's kind: an axis of any length; see `dynamic`.
ANY = -1


class StaticValue:
    """A static argument as it was at a call; equal only to one that cannot be told from that."""

    __slots__ = ("kept", "value")

    def __init__(self, value: Any):
        self.value = value
        self.kept = snapshot(value)  # the value may change in place later

    def holds(self) -> bool:
        """Whether the value is still what it was."""
        return unchanged(self.value, self.kept)

    def __repr__(self) -> str:
        return repr(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StaticValue) and alike(self.kept, other.kept)

    def __hash__(self) -> int:
        return hash_of(self.kept)


class Call(NamedTuple):
    """One call in order: arguments by position and by name, static ones wrapped."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def dynamic(self) -> tuple[tuple, dict[str, Any]]:
        """The arguments that are not static."""
        args = tuple(value for value in self.args if not isinstance(value, StaticValue))
        kwargs = {k: v for k, v in self.kwargs.items() if not isinstance(v, StaticValue)}
        return args, kwargs

    def statics(self) -> tuple:
        """The static ones and where they stand."""
        found: list[Any] = [
            (place, value)
            for place, value in enumerate(self.args)
            if isinstance(value, StaticValue)
        ]
        found += [(n, v) for n, v in sorted(self.kwargs.items()) if isinstance(v, StaticValue)]
        return tuple(found)

    def replace(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list, dict]:
        """The whole call with other values for the dynamic arguments."""
        rest = iter(args)
        merged = [v.value if isinstance(v, StaticValue) else next(rest) for v in self.args]
        named = {
            name: v.value if isinstance(v, StaticValue) else kwargs[name]
            for name, v in self.kwargs.items()
        }
        return merged, named


class Parameters:
    """The parameters of a function, to bring calls in order."""

    def __init__(self, function: Callable, static_argnames: Sequence[str]):
        self.name = function_name(function)
        self.static = frozenset(static_argnames)
        self.positions: dict[str, int] = {}
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            parameters = []
        for position, parameter in enumerate(parameters):
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                self.positions[parameter.name] = position
        self.static_positions = {
            position
            for position, parameter in enumerate(parameters)
            if parameter.name in self.static and parameter.kind.name.startswith("POSITIONAL")
        }
        self.names = [parameter.name for parameter in parameters]
        self._taking = [p.name for p in parameters if "POSITIONAL" in p.kind.name]
        self._open = not parameters or any(p.kind is p.VAR_KEYWORD for p in parameters)
        for name in self.static:
            if not self.knows(name):
                raise ValueError(
                    f"jit: static_argnames has {name!r}, but {self.name} has the parameters "
                    f"{', '.join(self.names)}. Name one of them."
                )

    def knows(self, name: str) -> bool:
        """Whether an argument can have this name."""
        return self._open or name in self.names

    def name_at(self, position: int) -> str:
        """The name of the parameter that takes an argument by position; the last takes the rest."""
        return self._taking[min(position, len(self._taking) - 1)] if self._taking else ""

    def order_seen(self, kwargs: dict[str, Any]) -> tuple[str, ...]:
        """The order of keywords where the function can see it: in what ``**names`` holds."""
        free = [name for name in kwargs if name not in self.names]
        return tuple(kwargs) if len(free) > 1 else ()

    def order(self, args: tuple, kwargs: dict[str, Any]) -> Call:
        """Keywords moved to their positions as far as these follow on, static values wrapped."""
        if kwargs:
            args, kwargs = self._move(args, dict(kwargs))
            if not self._open:  # nobody sees in which order they were given
                kwargs = dict(sorted(kwargs.items()))
        if self.static:
            args = tuple(
                self._wrap(value, place) if place in self.static_positions else value
                for place, value in enumerate(args)
            )
            kwargs = {n: self._wrap(v, n) if n in self.static else v for n, v in kwargs.items()}
        return Call(args, kwargs)

    def _move(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        moved = list(args)
        by_position = {self.positions[n]: n for n in kwargs if n in self.positions}
        while len(moved) in by_position:
            moved.append(kwargs.pop(by_position[len(moved)]))
        return tuple(moved), kwargs

    def _wrap(self, value: Any, where: Any) -> StaticValue:
        try:
            hash(value)
        except TypeError:
            raise DTypeError(
                f"{self.name}: static argument {where!r} is {value!r} of type "
                f"{type(value).__name__}, which cannot be hashed. Give a number, a string or a "
                "tuple, or do not name it in static_argnames."
            ) from None
        return StaticValue(value)


class Leaf(NamedTuple):
    """The kind of one leaf; `kind` is "array", "numpy" for a scalar, or the Python type's name.

    `strides` is None for a contiguous array. Where an array in another order is taken as a copy of
    its own, it is `turned`.
    """

    kind: str
    type: ArrayType
    strides: tuple[int, ...] | None = None
    turned: bool = False


def describe(leaf: Any) -> Leaf:
    """The kind of a leaf that has been made `plain`."""
    if isinstance(leaf, np.ndarray):
        strides = None if leaf.flags.c_contiguous else leaf.strides
        return Leaf("array", ArrayType(leaf.dtype, leaf.shape), strides)
    return Leaf("numpy" if isinstance(leaf, np.generic) else type(leaf).__name__, type_of(leaf))


def plain(leaf: Any, operation: str, number: int) -> Any:
    """A leaf as compiled code takes it: aligned, in native byte order, no subclass."""
    if type(leaf) in (float, bool, complex):
        return leaf
    if type(leaf) is int:
        if not -(2**63) <= leaf < 2**63:
            raise IntegerError(
                f"{operation}: argument {number} is {leaf}, which does not fit into 64 bits. "
                "Use a float, or name the argument in static_argnames."
            )
        return leaf
    leaf = check_leaf(leaf, operation, number)
    if not isinstance(leaf, np.ndarray):
        if isinstance(leaf, np.generic):
            return leaf if leaf.dtype.isnative else leaf.astype(leaf.dtype.newbyteorder("="))
        kind = next(k for k in (bool, int, float, complex) if isinstance(leaf, k))
        return kind(leaf)
    odd = any(stride % leaf.dtype.itemsize for stride in leaf.strides)
    if odd or not (leaf.flags.aligned and leaf.dtype.isnative):
        return np.array(leaf, leaf.dtype.newbyteorder("="), order="K", subok=False)
    return np.asarray(leaf)


def element_strides(leaf: Leaf) -> tuple[int, ...]:
    """Strides in elements."""
    if leaf.strides is None:
        return c_strides(leaf.type.shape)
    return tuple(stride // leaf.type.dtype.itemsize for stride in leaf.strides)
