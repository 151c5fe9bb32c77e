"""Products of arrays with labelled axes, and `einsum`, which writes the labels as letters.

Labels are integers. Negative ones stand for axes that broadcast (the stacks of `matmul`, the
ellipsis of `einsum`), counted from the right, so that -1 is the last of them.
"""

from __future__ import annotations

import functools
import string
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError, explain
from ..ops.contract import Labels, Spec, contract, normal_spec
from ..ops.layout import permute, reduce_sum, reshape
from ..trace.lying import in_order
from ..trace.orders import UNKNOWN
from ..types import result_dtype, type_of
from .common import as_factors, cast, named_dtype, shape
from .structure import diagonal_part, known


def product(
    name: str, x: Any, x_labels: Labels, y: Any, y_labels: Labels, out: Labels, loose: bool = False
) -> Any:
    """The product of two arrays with labelled axes; labels that `out` lacks are summed over.

    Axes of length 1 with a negative label broadcast; with `loose`, all axes of length 1 do.
    """
    x_shape, x_axes, y_shape, y_axes, spec = _prepare(
        name, shape(x), x_labels, shape(y), y_labels, out, loose
    )
    if x_shape is not None:
        x = reshape(x, shape=x_shape)
    if y_shape is not None:
        y = reshape(y, shape=y_shape)
    if x_axes:
        x = reduce_sum(x, axes=x_axes)
    if y_axes:
        y = reduce_sum(y, axes=y_axes)
    return contract(x, y, spec=spec)


@functools.lru_cache(maxsize=4096)
def _prepare(
    name: str,
    x_shape: tuple[int, ...],
    x_labels: Labels,
    y_shape: tuple[int, ...],
    y_labels: Labels,
    out: Labels,
    loose: bool,
) -> tuple[Any, Labels, Any, Labels, Spec]:
    """What is done to the arrays (new shape or None, axes to sum), and the spec."""
    x_kept = _kept(name, x_shape, x_labels, y_shape, y_labels, loose)
    y_kept = _kept(name, y_shape, y_labels, x_shape, x_labels, loose)
    x_rest = tuple(x_labels[axis] for axis in x_kept)
    y_rest = tuple(y_labels[axis] for axis in y_kept)
    x_axes = tuple(k for k, label in enumerate(x_rest) if label not in y_rest and label not in out)
    y_axes = tuple(k for k, label in enumerate(y_rest) if label not in x_rest and label not in out)
    spec = normal_spec(
        tuple(label for k, label in enumerate(x_rest) if k not in x_axes),
        tuple(label for k, label in enumerate(y_rest) if k not in y_axes),
        out,
    )
    return _changed(x_shape, x_kept), x_axes, _changed(y_shape, y_kept), y_axes, spec


def _kept(
    name: str,
    own: tuple[int, ...],
    labels: Labels,
    other: tuple[int, ...],
    others: Labels,
    loose: bool,
) -> list[int]:
    """The axes without those of length 1 that broadcast against the other array."""
    lengths = dict(zip(others, other, strict=True))
    kept = []
    for axis, (label, length) in enumerate(zip(labels, own, strict=True)):
        wanted = lengths.get(label, length)
        broadcasts = (loose or label < 0) and 1 in (length, wanted)
        if length != wanted and not broadcasts:
            raise ShapeError(
                explain(
                    name,
                    f"got arrays of shapes {own} and {other}: the lengths {length} and {wanted} "
                    "of axes that run together differ",
                    "Transpose or reshape one of them.",
                )
            )
        if length == wanted or length != 1:
            kept.append(axis)
    return kept


def _changed(own: tuple[int, ...], kept: list[int]) -> tuple[int, ...] | None:
    return None if len(kept) == len(own) else tuple(own[axis] for axis in kept)


# ---------------------------------------------------------------- einsum


def einsum(*operands: Any, optimize: Any = False, dtype: Any = None) -> Any:
    """``numpy.einsum``: sums of products, as the subscripts say.

    More than two arrays are multiplied two at a time, in a good order.
    """
    subscripts, arrays = _einsum_arguments(operands)
    shapes = tuple(shape(x) for x in arrays)
    inputs, out, path = _einsum_plan(subscripts, shapes, _hashable(optimize))
    common = named_dtype(dtype) if dtype is not None else result_dtype(*map(type_of, arrays))
    if common.kind in "iu":
        # sums of short integers are long, and long ones with and without a sign become floats
        arrays = [cast(x, common) for x in arrays]
    if path is None and dtype is None:
        result = product("einsum", arrays[0], inputs[0], arrays[1], inputs[1], out, loose=True)
        if type_of(result).dtype.kind in "fc":
            return in_order(result, UNKNOWN)
        # sums of short integers are long, but not in einsum
        return in_order(cast(result, common), UNKNOWN)
    if dtype is not None or len(arrays) != 2:
        arrays = [cast(x, common) for x in arrays]
    terms = [_without_repeats(x, labels) for x, labels in zip(arrays, inputs, strict=True)]
    for group in path or [(0, 1)]:
        taken = [terms[place] for place in group]
        terms = [term for place, term in enumerate(terms) if place not in group]
        while len(taken) > 1:
            (x, x_labels), (y, y_labels) = taken[:2]
            rest = [*terms, *taken[2:]]
            result = out if not rest else _needed(x_labels + y_labels, out, rest)
            joined = product("einsum", x, x_labels, y, y_labels, result, loose=True)
            taken = [(joined, result), *taken[2:]]
        terms.append(taken[0])
    result = cast(_single(*terms[0], out), common)
    # of one array it may be a view
    return result if len(arrays) == 1 else in_order(result, UNKNOWN)


Term = tuple[Any, Labels]


def _needed(labels: Labels, out: Labels, rest: Sequence[Term]) -> Labels:
    wanted = set(out).union(*[own for _, own in rest])
    return tuple(dict.fromkeys(label for label in labels if label in wanted))


def _single(x: Any, labels: Labels, out: Labels) -> Any:
    """Sum over the labels that are not wanted and bring the others into order."""
    axes = tuple(axis for axis, label in enumerate(labels) if label not in out)
    if axes:
        x = reduce_sum(x, axes=axes)
        labels = tuple(label for label in labels if label in out)
    return x if labels == out else permute(x, axes=tuple(labels.index(label) for label in out))


def _without_repeats(x: Any, labels: Labels) -> Term:
    """Take the diagonal where a label appears twice."""
    while len(set(labels)) < len(labels):
        label = next(label for label in labels if labels.count(label) > 1)
        first = labels.index(label)
        second = labels.index(label, first + 1)
        others = tuple(axis for axis in range(len(labels)) if axis not in (first, second))
        x = diagonal_part(permute(x, axes=(*others, first, second)), 0)
        labels = (*[labels[axis] for axis in others], label)
    return x, labels


def _einsum_arguments(operands: tuple[Any, ...]) -> tuple[Any, list[Any]]:
    """The subscripts (text, or a tuple of label lists) and the arrays."""
    if operands and isinstance(operands[0], str):
        return operands[0].replace(" ", ""), as_factors(*operands[1:])
    if len(operands) < 2:
        raise DTypeError(
            explain("einsum", "expected subscripts and arrays", "Write einsum('ij,jk->ik', x, y).")
        )
    count = len(operands) // 2
    lists = [tuple(known("einsum", labels)) for labels in operands[1 : 2 * count : 2]]
    out = tuple(known("einsum", operands[-1])) if len(operands) % 2 else None
    return (tuple(lists), out), as_factors(*operands[0 : 2 * count : 2])


def _hashable(optimize: Any) -> Any:
    if isinstance(optimize, (list, tuple)):
        return tuple(item if isinstance(item, (str, int)) else tuple(item) for item in optimize)
    return optimize


@functools.lru_cache(maxsize=1024)
def _einsum_plan(
    subscripts: Any, shapes: tuple[tuple[int, ...], ...], optimize: Any
) -> tuple[list[Labels], Labels, list[tuple[int, ...]] | None]:
    """The labels of each array and of the result, and which arrays to multiply when.

    There is no need of a path (None) for two arrays that have no label twice.
    """
    lists, out_list = _split_subscripts(subscripts)
    if len(lists) != len(shapes):
        raise ShapeError(
            explain("einsum", f"got subscripts for {len(lists)} arrays, but {len(shapes)} arrays")
        )
    inputs = [_labels(items, len(own)) for items, own in zip(lists, shapes, strict=True)]
    _check_lengths(inputs, shapes)
    stacked = tuple(range(min([0, *[label for labels in inputs for label in labels]]), 0))
    if out_list is None:
        every = [label for labels in inputs for label in labels if label >= 0]
        out = stacked + tuple(sorted(label for label in every if every.count(label) == 1))
    else:
        if stacked and Ellipsis not in out_list:
            raise ShapeError(
                explain("einsum", "the result lacks the axes of '...'", "Write '...' there too.")
            )
        out = tuple(
            label
            for item in out_list
            for label in (stacked if item is Ellipsis else (_label(item),))
        )
    _check_out(inputs, out)
    if len(inputs) == 2 and all(len(set(labels)) == len(labels) for labels in inputs):
        return inputs, out, None
    return inputs, out, _path(inputs, out, shapes, optimize)


def _split_subscripts(subscripts: Any) -> tuple[list[list[Any]], list[Any] | None]:
    if not isinstance(subscripts, str):
        lists, out = subscripts
        return [list(items) for items in lists], None if out is None else list(out)
    text, arrow, result = subscripts.partition("->")
    return [_items(part) for part in text.split(",")], _items(result) if arrow else None


def _items(text: str) -> list[Any]:
    before, dots, after = text.partition("...")
    letters = before + after
    if not all(letter.isascii() and letter.isalpha() for letter in letters):
        raise ShapeError(
            explain("einsum", f"cannot read the subscripts {text!r}", "Use letters and '...'.")
        )
    return [*before, *([Ellipsis] if dots else []), *after]


def _label(item: Any) -> int:
    return ord(item) if isinstance(item, str) else int(item)


def _labels(items: list[Any], rank: int) -> Labels:
    extra = rank - sum(item is not Ellipsis for item in items)
    if extra < 0 or (extra > 0 and Ellipsis not in items) or items.count(Ellipsis) > 1:
        shown = "".join("..." if item is Ellipsis else str(item) for item in items)
        raise ShapeError(
            explain("einsum", f"got the subscripts {shown!r} for an array with {rank} axes")
        )
    return tuple(
        label
        for item in items
        for label in (range(-extra, 0) if item is Ellipsis else (_label(item),))
    )


def _check_lengths(inputs: list[Labels], shapes: tuple[tuple[int, ...], ...]) -> None:
    lengths: dict[int, int] = {}
    for labels, own in zip(inputs, shapes, strict=True):
        inside: dict[int, int] = {}
        for label, length in zip(labels, own, strict=True):
            known = lengths.get(label, 1)
            fits = known == length or 1 in (known, length)
            if inside.setdefault(label, length) != length or not fits:
                name = chr(label) if label >= 65 else str(label)
                raise ShapeError(
                    explain(
                        "einsum",
                        f"the axes {name!r} of arrays of shapes "
                        f"{' and '.join(map(str, shapes))} differ in length",
                        "Axes with the same letter must have the same length.",
                    )
                )
            lengths[label] = length if known == 1 else known


def _check_out(inputs: list[Labels], out: Labels) -> None:
    known = {label for labels in inputs for label in labels}
    if len(set(out)) < len(out) or not set(out) <= known:
        raise ShapeError(
            explain(
                "einsum",
                "the result names an axis twice or one that no array has",
                "Each letter of the result must be in an input, and once in the result.",
            )
        )


def _path(
    inputs: list[Labels], out: Labels, shapes: tuple[tuple[int, ...], ...], optimize: Any
) -> list[tuple[int, ...]]:
    if len(inputs) < 3:
        return [tuple(range(len(inputs)))]
    if isinstance(optimize, tuple) and optimize and optimize[0] == "einsum_path":
        return list(optimize[1:])
    labels = list(dict.fromkeys(label for own in inputs for label in own))
    letters = string.ascii_letters
    text: Callable[[Labels], str] = lambda own: "".join(letters[labels.index(k)] for k in own)
    subscripts = f"{','.join(map(text, inputs))}->{text(out)}"
    stand_ins = [np.broadcast_to(0.0, own) for own in shapes]
    how: Any = optimize if optimize in ("optimal", "greedy") else "greedy"
    return list(np.einsum_path(subscripts, *stand_ins, optimize=how)[0][1:])
