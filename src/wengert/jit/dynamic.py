"""Axes whose length each call decides: `jit(f, dynamic={"x": 0})`.

The kinds of such arguments have `ANY` in place of the length, so that one program is found for all
lengths. To make that program the function is traced at a few lengths and the graphs are compared
(`passes.lengths`). Where they cannot be made one, the function is compiled for each length by
itself, as without `dynamic`, and a `FixedLengthWarning` says what stands in the way.

At the first call of every other length the function is traced again, and that graph is compared:
where it does something else there, as with `len(x) % 2`, the length has a program of its own.

All dynamic axes of one call have the same length.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import tree
from ..errors import AxisError, DependsOnLength, DTypeError, FixedLengthWarning, ShapeError
from ..graph import Node
from ..trace.orders import lies_in_c_order
from ..types import ArrayType
from .arguments import ANY, Call, Leaf, Parameters, describe
from .state import trace_lock
from .tracing import Captured, CapturesTraced, StaticResult, capture
from .waiting import seldom_collected

if TYPE_CHECKING:
    from .function import Jitted

Axes = dict[str, tuple[int, ...]]


def checked_axes(dynamic: Any) -> Axes:
    """The argument `dynamic` of `jit`: names of arguments with their axes."""
    if dynamic is None:
        return {}
    if not isinstance(dynamic, Mapping):
        raise TypeError(
            f"jit: argument dynamic is {dynamic!r} of type {type(dynamic).__name__}, expected a "
            'dictionary of argument names and axes, such as {"x": 0}'
        )
    found: Axes = {}
    for name, axes in dynamic.items():
        several = axes if isinstance(axes, (tuple, list)) else (axes,)
        whole = all(isinstance(a, (int, np.integer)) and not isinstance(a, bool) for a in several)
        if not isinstance(name, str) or not several or not whole:
            raise TypeError(
                f"jit: argument dynamic has {name!r}: {axes!r}, expected the name of an argument "
                'and an axis or a tuple of axes, such as {"x": 0}'
            )
        found[name] = tuple(int(axis) for axis in several)
    return found


def check_names(axes: Axes, parameters: Parameters) -> None:
    """Every name must be a parameter of the function, and not a static one."""
    for name in axes:
        if name in parameters.static:
            raise ValueError(
                f"jit: argument {name!r} is both in dynamic and in static_argnames. A static "
                "argument has no axes; name it in one of them."
            )
        if not parameters.knows(name):
            raise ValueError(
                f"jit: dynamic has {name!r}, but {parameters.name} has the parameters "
                f"{', '.join(parameters.names)}. Name one of them."
            )


# ---------------------------------------------------------------- kinds of arguments


def describe_any(
    call: Call, leaves: Sequence[Any], axes: Axes, parameters: Parameters
) -> tuple[list[Any], list[Leaf]]:
    """The leaves, and their kinds for any length; arrays with a dynamic axis are contiguous."""
    found, kinds = list(leaves), list(map(describe, leaves))
    lengths: dict[str, int] = {}
    for number, name in enumerate(owners(call, parameters)):
        if name not in axes:
            continue
        array = leaves[number]
        places = _places(array, name, axes[name], parameters.name)
        for axis in places:
            lengths[f"argument {name} has length {{}} along axis {axis}"] = array.shape[axis]
        found[number] = np.ascontiguousarray(array)
        shape = tuple(ANY if a in places else n for a, n in enumerate(array.shape))
        turned = not lies_in_c_order(array.shape, array.strides)
        kinds[number] = Leaf("array", ArrayType(array.dtype, shape), None, turned)
    if len(set(lengths.values())) > 1:
        first = next(iter(lengths))
        other = next(text for text, n in lengths.items() if n != lengths[first])
        raise ShapeError(
            f"{parameters.name}: {first.format(lengths[first])}, "
            f"{other.format(lengths[other])}; expected the same length along all dynamic axes of "
            "a call. Give arrays of one length, or leave one of the arguments out of dynamic."
        )
    return found, kinds


def describe_one(leaves: Sequence[Any], kinds: Sequence[Leaf]) -> tuple[Leaf, ...]:
    """The kinds of leaves for the length that they have, by those for any length."""
    pairs = zip(leaves, kinds, strict=True)
    return tuple(describe(leaf)._replace(turned=kind.turned) for leaf, kind in pairs)


def owners(call: Call, parameters: Parameters) -> list[str]:
    """For each leaf of a call the name of the argument that it is in."""
    args, kwargs = call.dynamic()
    places = [place for place in range(len(call.args)) if place not in dict(call.statics())]
    named = [(parameters.name_at(place), arg) for place, arg in zip(places, args, strict=True)]
    named += [(name, kwargs[name]) for name in sorted(kwargs)]
    return [name for name, value in named for _ in tree.leaves(value)]


def _places(array: Any, name: str, axes: Sequence[int], function: str) -> list[int]:
    """The dynamic axes of one array, counted from the front."""
    if not isinstance(array, np.ndarray):
        raise DTypeError(
            f"{function}: argument {name} is in dynamic but holds {array!r} of type "
            f"{type(array).__name__}, expected arrays. Give an array, or leave it out of dynamic."
        )
    for axis in axes:
        if not -array.ndim <= axis < array.ndim:
            raise AxisError(
                f"{function}: argument {name} has the shape {array.shape}, expected an array with "
                f"the dynamic axis {axis}. Give such an array, or name another axis in dynamic."
            )
    return [axis % array.ndim for axis in axes]


def at_length(kinds: Sequence[Leaf], length: int) -> list[Leaf]:
    """The kinds of arguments for one length."""
    return [
        kind._replace(type=kind.type._replace(shape=sized(kind.type.shape, length)))
        for kind in kinds
    ]


def sized(shape: Sequence[int], length: int | None) -> tuple[int, ...]:
    """A shape with the length in place of `ANY`."""
    return tuple(length if n == ANY else n for n in shape)  # type: ignore[misc]


def is_any(kinds: Sequence[Leaf]) -> bool:
    """Whether there is a dynamic axis among the arguments."""
    return any(ANY in kind.type.shape for kind in kinds)


# ---------------------------------------------------------------- tracing


def capture_any(
    function: Callable, call: Call, kinds: Sequence[Leaf], structure: tree.Structure
) -> Captured:
    """The function as a graph for any length."""
    from ..passes.lengths import LENGTHS

    traced = [_traced(function, call, at_length(kinds, n), structure) for n in LENGTHS]
    family = _general(traced, LENGTHS)
    alike = functools.partial(_is_alike, traced, _text_of(family))
    return traced[0]._replace(graph=family.graphs[0], family=family, alike=alike)


def _general(traced: Sequence[Captured], lengths: Sequence[int]) -> Any:
    """What is traced at several lengths, as one family."""
    from ..passes.expand import expand
    from ..passes.lengths import Family, by_position, generalise

    if any(_outside(one) != _outside(traced[0]) for one in traced):
        raise DependsOnLength("what the function returns or changes depends on the length")
    family = by_position(Family([one.graph for one in traced], lengths))
    return generalise(family.changed([expand(graph) for graph in family.graphs]))


def _is_alike(traced: Sequence[Captured], general: str, one: Captured, length: int) -> bool:
    """Whether the function at one more length is an instance of the general one.

    What Python does with a length cannot be seen (`len(x) % 2`, `n > 50`), only what comes of it.
    """
    from ..passes.lengths import LENGTHS

    if length in LENGTHS:
        return True
    try:
        family = _general([*traced, one], (*LENGTHS, length))
    except DependsOnLength:
        return False
    return _text_of(family) == general


def _text_of(family: Any) -> str:
    """A text that changes with the graph of a family."""
    from .fingerprint import graph_text

    return graph_text(family.graphs[0])


def _traced(
    function: Callable, call: Call, kinds: Sequence[Leaf], structure: tree.Structure
) -> Captured:
    try:
        # two operations that are one at some length must not be one there
        return capture(function, call, kinds, structure, shares=False)
    except CapturesTraced:
        raise
    except Exception as error:
        # its own length may be the only one that works: then the trace for that length succeeds
        raise DependsOnLength(f"it does not run at every length: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    name = type(error).__name__
    lines = str(error).splitlines()
    return f"{name}: {lines[0]}" if lines else name


def _outside(captured: Captured) -> Any:
    """What must not change with the length: results that are no arrays, and the state."""
    results = [r.value if isinstance(r, StaticResult) else None for r in captured.results]
    owners = [id(change.owner) for change in captured.changes]
    return captured.structure, [(type(r), r) for r in results], owners, outline(captured)


def outline(captured: Captured) -> list[tuple]:
    """What happens to each piece of state, without the nodes."""
    return [
        (c.kind, c.present, c.before is not None, c.after is None, isinstance(c.after, Node))
        for c in captured.changes
    ]


# ---------------------------------------------------------------- calls


def for_length(
    jitted: Jitted, program: Any, call: Call, key: Any, leaves: list, args: tuple, kwargs: dict
) -> tuple[Any, Any]:
    """The program for any length, or where the function is another at this one, its own."""
    length = program.length_of(leaves)
    if not program.lengths.get(length):
        with trace_lock, jitted._lock, seldom_collected():
            if length not in program.lengths:
                program.lengths[length] = _is_same(jitted, program, call, key, leaves, length)
            if not program.lengths[length]:
                return one_length(jitted, call, key, leaves, args, kwargs)
    program.room.admit(length)
    return program, key


def _is_same(jitted: Jitted, program: Any, call: Call, key: Any, leaves: list, length: int) -> bool:
    """Whether the function does at this length what it does at any."""
    try:
        with jitted._controlled():
            kinds = describe_one(leaves, key[1])
            one = capture(jitted.function, call, kinds, key[0], shares=False)
    except Exception:  # the program for this length alone will say what is wrong
        return False
    return bool(program.alike(one, length))


def one_length(
    jitted: Jitted, call: Call, key: Any, leaves: list, args: tuple, kwargs: dict
) -> tuple[Any, Any]:
    """The program for the length at hand alone."""
    key = (key[0], describe_one(leaves, key[1]), key[2])
    return jitted._find(key) or jitted._compile(call, key, args, kwargs), key


def warn_fixed(name: str, reason: DependsOnLength) -> None:
    """Say once why a function is compiled for every length by itself."""
    from ..lines import warn

    warn(
        f"{name}: compiled anew for each length of its dynamic axes, because one program for any "
        f"length cannot be had: {reason}.",
        FixedLengthWarning,
    )
