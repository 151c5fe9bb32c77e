"""Results that go into the arrays that `out` names, which must hold them."""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any

import numpy as np

from ..errors import ConversionError, explain
from ..ops.elementwise import select
from ..ops.layout import broadcast_to
from ..ops.op import Traced
from ..types import Function, type_of
from .array import Array, check_fits

# functions that are ufuncs but for the name: their results are broadcast to `out`
BROADCASTING = frozenset(("clip", "round", "fix", "isneginf", "isposinf"))


def write_out(
    name: str,
    out: tuple[Any, ...],
    result: Any,
    *,
    broadcasts: bool,
    where: Any = True,
    casting: Any = "same_kind",
) -> Any:
    """Write results where `out` says, and give that back; None: the result itself."""
    results = result if isinstance(result, tuple) else (result,)
    targets = [*out, *[None] * (len(results) - len(out))]
    for target, value in zip(targets, results, strict=True):
        if target is not None:
            _write(name, target, value, broadcasts, where, casting)
    pairs = zip(targets, results, strict=True)
    found = tuple(value if target is None else target for target, value in pairs)
    return found if isinstance(result, tuple) else found[0]


def _write(name: str, target: Any, value: Any, broadcasts: bool, where: Any, casting: Any) -> None:
    if not isinstance(target, Array):
        if isinstance(value, Traced) or isinstance(where, Traced):
            raise ConversionError(
                explain(
                    f"numpy.{name}",
                    "the output is a plain NumPy array, the result a traced value",
                    "Make the array in the function, with np.zeros or np.array(x) for a copy, or "
                    "write x = x + y instead of x += y.",
                )
            )
        np.copyto(target, value, casting=casting, where=where)
        return
    if broadcasts and type_of(value).shape != target.type.shape:
        value = broadcast_to(value, shape=target.type.shape)
    remedy = "Give an array of this shape and dtype, or convert the result with astype."
    check_fits(f"numpy.{name} with out=", value, target, remedy, casting)
    target[...] = value if where is True else select(where, value, target)


def call_as_numpys(theirs: Function, function: Function, name: str, args: Any, kwargs: Any) -> Any:
    """Call a function with the arguments of NumPy's, which takes more of them by place."""
    count = _count(function)
    names = _names(theirs)[count:] if len(args) > count else []
    if len(names) >= len(args) - count:  # or else there are too many
        rest = dict(zip(names, args[count:], strict=False))
        args = args[:count]
        kwargs = {key: value for key, value in rest.items() if value is not None} | kwargs
    out = kwargs.pop("out", None)
    result = function(*args, **kwargs)
    if out is None:
        return result
    return write_out(name, (out,), result, broadcasts=name in BROADCASTING)


@functools.cache
def _count(function: Function) -> int:
    """How many arguments a function takes by place."""
    kinds = [one.kind for one in inspect.signature(function).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return sys.maxsize
    return len(kinds) - kinds.count(inspect.Parameter.KEYWORD_ONLY)


@functools.cache
def _names(theirs: Function) -> list[str]:
    try:
        return list(inspect.signature(theirs).parameters)
    except ValueError:  # of one written in C
        return []
