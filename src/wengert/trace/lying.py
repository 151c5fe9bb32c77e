"""Traced arrays as NumPy's would lie in memory: what a reshape is, and what ``order=`` means.

`orders` has the strides of what was computed; here they are those of arrays, which may be views, or
copies in an order of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import MutationError, OptionError, explain
from ..graph import Node, Operator
from ..ops.layout import reshape
from ..types import ArrayType, type_of
from .conditional import check_outside
from .either import EITHER, Either, undecided
from .orders import (
    C_ORDER,
    UNKNOWN,
    Strides,
    c_strides,
    claimed_strides,
    copied_a,
    f_strides,
    is_c_order,
    is_line,
    lying,
    node_strides,
    relaid,
    reshapes_without_copy,
    stand_in,
    viewed,
)
from .views import View, Views, is_array, snapshot


def strides_of(array: Any) -> Strides | None:
    """The strides that NumPy would give to this array; None where they are not known."""
    if not isinstance(array, Views):
        plain: Strides = np.asarray(array).strides
        return plain
    chain = array._chain()
    if isinstance(chain[-1], Either):
        chain.pop()
    storage = chain[-1]
    strides = _storage_strides(storage)
    if strides is None:
        return None
    layout = stand_in(storage.type, strides)
    for view in reversed(chain[:-1]):
        made: View = view._base  # type: ignore[assignment]
        if made.rest:
            layout = _first(layout, made.params["axes"])
        elif made.contiguous and not layout.flags.c_contiguous:
            layout = stand_in(view.type, c_strides(view.type))
        elif made.op is reshape and made.sure:
            if not reshapes_without_copy(layout, made.params["shape"]):
                return None  # not how NumPy makes it: see `always_view`
            layout = layout.reshape(made.params["shape"])
        else:
            layout = viewed(made.op, made.params, layout)
    return layout.strides


def _storage_strides(storage: Views) -> Strides | None:
    if is_line(storage.type.shape):
        return c_strides(storage.type)
    if storage.made:
        return c_strides(storage.type)
    order = getattr(storage, "_order", None)
    if order is None:
        return node_strides(storage._node)
    return claimed_strides(storage.type, order)


def _first(layout: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The strides of ``x[i]`` for a traced integer `i`: those of any element of the axes."""
    if 0 in layout.shape:
        return np.empty([n for axis, n in enumerate(layout.shape) if axis not in axes])
    return layout[(*[0 if axis in axes else slice(None) for axis in range(layout.ndim)], ...)]


def axes_in_memory(array: Any, order: str) -> tuple[int, ...]:
    """The axes in the order in which "K" or "A" take an array apart, the outermost first."""
    shape = array.type.shape
    axes = tuple(range(len(shape)))
    if is_line(shape):
        return axes
    strides = strides_of(array)
    if strides is None:
        raise OptionError(
            explain(
                f'order="{order}"',
                f"the order in memory that NumPy would give to an array of shape {shape} is not "
                "known here",
                'Say which order is meant, "C" or "F", or take the elements of a copy: x.copy().',
            )
        )
    if order == "K":
        return tuple(sorted(axes, key=lambda axis: -abs(strides[axis])))
    flags = stand_in(array.type, strides).flags
    return axes[::-1] if flags.f_contiguous and not flags.c_contiguous else axes


# ---------------------------------------------------------------- views or copies


def is_view(made: View) -> bool | None:
    """Whether NumPy would make this a view of its base; None where that is not known."""
    base = made.base.type
    if not is_array(made.base):
        return None if _may_be_array(made.base.node) else False
    if made.op is reshape and not made.contiguous:
        # with strides like these no axes can be joined: if it is a view, it always is
        apart = [(2 * base.size) ** (axis + 1) for axis in range(len(base.shape))]
        lying = stand_in(base, tuple(apart)) if 8 * sum(apart) < 2**62 else None
        if lying is not None and reshapes_without_copy(lying, made.params["shape"]):
            return True
    strides = strides_of(made.base)
    if strides is None:
        return None
    layout = stand_in(base, strides)
    if made.contiguous:
        return layout.flags.c_contiguous
    return made.op is not reshape or reshapes_without_copy(layout, made.params["shape"])


def _may_be_array(node: Node) -> bool:
    """Whether NumPy's value without axes may be an array, which an argument or a copy can be; what
    is computed is a number."""
    return not isinstance(node, Operator) or node.op.name in _OF_ONE_ELEMENT


# What gives an array where an array of one element and no axes goes in, or always.
_OF_ONE_ELEMENT = frozenset(
    "convert where select reshape permute real imag stop_gradient again item".split()
)


def decide(chain: list[Views]) -> None:
    """Find out which views of a chain, the storage last, are copies in NumPy: these are none."""
    for view in reversed(chain[:-1]):
        made: View = view._base  # type: ignore[assignment]
        if made.op is EITHER:
            if made.base._version != view._seen:
                raise undecided()
            for storage in made.base.storages:  # type: ignore[attr-defined]
                check_outside(storage)
            made.base.leave()  # type: ignore[attr-defined]
            view._base = None  # type: ignore[misc]
            view._version = view._seen  # type: ignore[misc]
        elif not made.sure:
            known = is_view(made)
            if known is None:
                raise not_known(made)
            made.sure = True
            if not known:
                view._base = None  # type: ignore[misc]
                view._version = view._seen  # type: ignore[misc]
                view._lie(C_ORDER)


def is_decided(array: Any) -> bool:
    """Whether it is known of what an array is a view: from now on it is one of that alone."""
    try:
        array._sure_chain()
    except MutationError:
        return False
    return True


def not_known(made: View) -> MutationError:
    """The error for a write that another array may see or not."""
    source = made.base._storage()
    op = getattr(source._node, "op", None)
    computed = "" if op is None else f", the result of {op.name},"
    return MutationError(
        explain(
            "writing to an array",
            f"an array of shape {made.base.type.shape}{computed} was laid out as another one, and "
            "in NumPy it depends on its order in memory whether that is a view, which sees what is "
            "written, or a copy; the order is not known here",
            "Copy before: y.copy().ravel() is a copy, and of y = y.copy() y.ravel() is a view.",
        )
    )


def if_contiguous(view: Any) -> Any:
    """A view of an array if that lies one element after the other, and otherwise a copy."""
    if isinstance(view, Views) and view._base is not None:
        view._base.sure, view._base.contiguous = False, True
        if not is_line(view.type.shape):
            view._node = lying(view._node, C_ORDER)
    return view


def always_view(view: Any) -> Any:
    """A reshape that is a view whatever the order, on the way to one that NumPy makes otherwise."""
    if isinstance(view, Views) and view._base is not None:
        view._base.sure = True
        view._node = lying(view._node, UNKNOWN)
    return view


# ---------------------------------------------------------------- new arrays


def copied_order(array: Views, order: str) -> Any:
    """The claim of a copy in an order of NumPy's."""
    if order in "CF":
        return C_ORDER if order == "C" else f_strides(array.type)
    if order == "A":
        strides = strides_of(array)
        return UNKNOWN if strides is None else copied_a(array.type, strides)
    is_known = array._base is None and not array.made
    known = getattr(array, "_order", None) if is_known else None
    return ("K", array.node) if known is None else known


def lies_as(made: Any, model: Any, order: str) -> Any:
    """A new array that lies in memory as a copy of another one of its shape would."""
    shape = made.shape
    if is_line(shape) or (order != "A" and len(shape) != np.ndim(model)):
        return made
    if shape != np.shape(model):
        traced = isinstance(made, Views)
        return in_order(made, _as_wide(made.type, model, order)) if traced else made
    if not isinstance(made, Views):
        strides = strides_of(model)
        return made if strides is None else relaid(made, strides)
    made._order = (
        copied_order(model, order)
        if isinstance(model, Views)
        else np.empty_like(model, made.type.dtype, order).strides  # type: ignore[call-overload]
    )
    made._node.order = (made._order,)
    return made


def _as_wide(array_type: ArrayType, model: Any, order: Any) -> Any:
    """The claim of an array that follows the order of one with other lengths."""
    strides = strides_of(model)
    if strides is None:
        return UNKNOWN
    like = stand_in(type_of(model), strides)
    if order == "A":
        return f_strides(array_type) if like.flags.fnc else C_ORDER
    return np.empty_like(like, array_type.dtype, order, shape=array_type.shape).strides


def in_order_of(array: Any, *sources: Any) -> Any:
    """A new array that NumPy gives in C order if all that it is made of is; else nobody knows."""

    def strides() -> Strides | None:
        found = [(type_of(source), strides_of(source)) for source in sources]
        known = all(own is not None and is_c_order(kind, own) for kind, own in found)
        return c_strides(array.type) if known else None

    return in_order(array, strides)


def in_order(array: Any, order: Any) -> Any:
    """A new array that NumPy gives in an order of its own: a claim of `orders`."""
    if isinstance(array, Views) and not is_line(array.type.shape):
        array = array if array._base is None else snapshot(array)
        array._lie(order)
    return array
