"""Results that go into the arrays that `out=` names, which must hold them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ConversionError, explain
from ..ops.elementwise import select
from ..ops.layout import broadcast_to
from ..ops.op import Traced
from ..types import type_of
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
