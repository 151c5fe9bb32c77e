"""What an operation does to dependence, read off its entry.

The loops of an entry say which elements an element of the result is made of: their rules are run
on symbolic indices, and the indices they ask for are worked out for all elements at once. An
operation without loops, or an index that is not known, makes everything depend on all that it could
depend on. So a pattern holds for every value of the inputs: `where` counts with both sides, and a
maximum with all elements that could be it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from ..graph import Operator
from ..loops import (
    Accumulate,
    Affine,
    Alias,
    Apply,
    Buffer,
    Choose,
    Expr,
    Index,
    Load,
    LoadAt,
    MemoryKind,
    Operand,
    Pointwise,
    Product,
    Reduction,
    Running,
    Scatter,
    Var,
)
from ..loops.expressions import parts_of
from ..ops.indexing import gather
from ..schedule.lowering import loop_variables
from ..types import ArrayType
from .dependence import NONE, Dependence, combine, everything, select, union

Known = Sequence[Any]  # of each input its value where that is the same for all x, else None

# Running sums of up to this many pairs are followed pair by pair.
_PAIRS = 1 << 20


def depends(
    node: Operator, given: Sequence[Dependence], known: Known, seen: dict[int, Any]
) -> Dependence:
    """What the result of an operation depends on, by what its inputs do.

    `seen` keeps what is the same each time that a node is met, in the steps of a loop.
    """
    if node.op.zero is not None or not node.type.size:
        return NONE
    if all(one.type.size == 1 for one in (node, *node.inputs)) and not any(
        value is not None for value in known
    ):
        return union(
            *given
        )  # of one element each: no need to ask which; programs have many of these
    loops = node.op.loops
    loops = loops(**node.params) if callable(loops) else loops
    if isinstance(loops, Alias):
        return given[0]
    if isinstance(loops, Pointwise):
        return _pointwise(node, loops, given, known, seen)
    if isinstance(loops, Reduction):
        shape, axes = node.inputs[0].type.shape, node.params["axes"]
        return combine(given[0], _along(shape, axes), _numbers(shape).ravel(), node.type.size)
    if isinstance(loops, Accumulate):
        return _accumulated(node, loops, given[0])
    if isinstance(loops, Scatter):
        return _scattered(node, loops, given, known)
    if isinstance(loops, Running):
        return union(*[_running(node, one) for one in given])
    if isinstance(loops, Product):
        return union(*[_multiplied(node, number, given, known) for number in (0, 1)])
    return _mixed(node, given) if node.op.mixes else everything(given, node.type.size)


def _numbers(shape: Sequence[int]) -> np.ndarray:
    return np.arange(prod(shape)).reshape(shape)


def _along(shape: Sequence[int], axes: Sequence[int]) -> np.ndarray:
    """For each element the number of the one that it goes to when `axes` are summed over."""
    kept = [1 if axis in axes else length for axis, length in enumerate(shape)]
    return np.broadcast_to(_numbers(kept), shape).ravel()


def _mixed(node: Operator, given: Sequence[Dependence]) -> Dependence:
    """All elements along some axes together, which are counted from the end."""
    types, shape = [source.type for source in node.inputs], node.type.shape
    mixed = node.op.mixes(*types, **node.params)
    found = []
    for one, own in zip(given, types, strict=True):
        axes = [len(own.shape) + axis for axis in mixed]
        left = [1 if axis in axes else length for axis, length in enumerate(own.shape)]
        lines = combine(one, _along(own.shape, axes), _numbers(own.shape).ravel(), prod(left))
        found.append(select(lines, np.broadcast_to(_numbers(left), shape)))
    return union(*found)


# ---------------------------------------------------------------- element by element


class _Elements:
    """The elements of an array, or some of them, to work out indices for."""

    def __init__(self, shape: Sequence[int]):
        self.shape = tuple(shape)
        self.vars = loop_variables(shape)
        self.index: Index = tuple(Affine.of(var) for var in self.vars)
        axes = np.indices(self.shape, sparse=True) if self.shape else ()
        self.places: dict[Var, np.ndarray] = dict(zip(self.vars, axes, strict=True))

    def value(self, at: Affine, some: np.ndarray | None = None) -> np.ndarray:
        """An index at all elements, or at those with the numbers `some`."""
        total: Any = np.array(at.constant)
        for var, coefficient in at.terms:
            total = total + self.places[var] * coefficient
        whole = np.broadcast_to(total, self.shape).ravel()
        return whole if some is None else whole[some]


def _contiguous(array_type: ArrayType) -> Buffer:
    shape = array_type.shape
    strides = tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
    return Buffer("", array_type.dtype, shape, strides, MemoryKind.ARENA)


class _ReadNoter:
    """Gives a rule its arguments, and notes which element each expression reads."""

    def __init__(self, node: Operator, known: Known):
        self.buffers = [_contiguous(source.type) for source in node.inputs]
        self.operands = [
            Operand(source.type, self._element(number), self._memory(number), known[number])
            for number, source in enumerate(node.inputs)
        ]

    def _element(self, number: int) -> Any:
        return lambda index: Load(self.buffers[number], self.buffers[number].flat(index))

    def _memory(self, number: int) -> Any:
        return lambda: self.buffers[number]

    def number(self, buffer: Buffer) -> int:
        """Which of the arguments a buffer is."""
        return next(number for number, own in enumerate(self.buffers) if own is buffer)

    def knows(self, expr: Expr) -> bool:
        """Whether an expression is an element of an array that is known."""
        return isinstance(expr, Load) and self._constant(expr) is not None

    def _constant(self, load: Load) -> Any:
        return self.operands[self.number(load.buffer)].constant

    def flags(self, load: Any, elements: _Elements, some: np.ndarray | None) -> np.ndarray:
        """The truth of such an element, for each element of the result."""
        values = np.ravel(self._constant(load)).astype(bool)
        found: np.ndarray = values[elements.value(load.at, some)]
        return found


def _pointwise(
    node: Operator,
    loops: Pointwise,
    given: Sequence[Dependence],
    known: Known,
    seen: dict[int, Any],
) -> Dependence:
    if not loops.free and any(one.type.dtype.kind == "c" for one in (node, *node.inputs)):
        return _broadcast(node, given)  # the rule is for real numbers
    reads = seen.get(node.serial)
    if reads is None:
        reads = _reads(node, loops, known)
        if all(value is None for value in known):  # else it may be another the next time
            seen[node.serial] = reads
    if reads is _LOOKED_UP:
        looked_up = "axes" in node.params
        return _picked(node, given, known) if looked_up else everything(given, node.type.size)
    found = [
        given[number] if numbers is None else select(given[number], numbers)
        for number, numbers in reads
        if given[number]
    ]
    return union(*found) if len(found) > 1 else found[0] if found else NONE


# Instead of reads: places that depend on values.
_LOOKED_UP: Any = object()


def _reads(node: Operator, loops: Pointwise, known: Known) -> list[tuple[int, Any]]:
    """Pairs: an argument, and for each element of the result the number of the one it reads there,
    or -1; None in place of these where each reads its own."""
    elements, reader = _Elements(node.type.shape), _ReadNoter(node, known)
    value = loops.rule(elements.index, *reader.operands, **node.params)
    found: dict[int, list[np.ndarray]] = {}
    for load, some in _loads(value, elements, reader):
        if isinstance(load, LoadAt):
            return _LOOKED_UP  # type: ignore[no-any-return]
        numbers = np.full(node.type.size, -1)
        numbers[slice(None) if some is None else some] = elements.value(load.at, some)
        found.setdefault(reader.number(load.buffer), []).append(numbers)
    own = np.arange(node.type.size)
    pairs: list[tuple[int, Any]] = []
    for number, places in found.items():
        if len(places) == 1:
            places[0][_zero_factors(node, number, known)] = -1
        same = node.inputs[number].type.size == node.type.size
        pairs += [(number, None if same and (one == own).all() else one) for one in places]
    return pairs


def _broadcast(node: Operator, given: Sequence[Dependence]) -> Dependence:
    """An operation whose arguments meet by broadcasting."""
    shapes = [source.type.shape for source in node.inputs]
    if np.broadcast_shapes(*shapes) != node.type.shape:
        return everything(given, node.type.size)
    met = [np.broadcast_to(_numbers(shape), node.type.shape) for shape in shapes]
    return union(*[select(one, numbers) for one, numbers in zip(given, met, strict=True)])


def _loads(
    value: Expr, elements: _Elements, reader: _ReadNoter
) -> Iterator[tuple[Any, np.ndarray | None]]:
    """What an expression reads, and for which elements of the result (None: for all)."""
    pending: list[tuple[Expr, np.ndarray | None]] = [(value, None)]
    seen = set()
    while pending:
        expr, some = pending.pop()
        if (id(expr), id(some)) in seen:
            continue
        seen.add((id(expr), id(some)))
        if isinstance(expr, (Load, LoadAt)):
            yield expr, some
        elif isinstance(expr, Choose):
            place = elements.value(expr.test.at, some)
            inside = (place >= expr.test.low) & (place < expr.test.high)
            pending += _split(some, inside, expr.yes, expr.no)
        elif isinstance(expr, Apply) and expr.name == "where" and reader.knows(expr.args[0]):
            pending += _split(some, reader.flags(expr.args[0], elements, some), *expr.args[1:])
        else:
            pending += [(part, some) for part in parts_of(expr)]


def _split(some: np.ndarray | None, inside: np.ndarray, yes: Expr, no: Expr) -> list[Any]:
    """Two expressions, each with the elements for which it is the one that counts."""
    every = np.arange(len(inside)) if some is None else some
    parts = (yes, every[inside]), (no, every[~inside])
    return [(part, chosen) for part, chosen in parts if len(chosen)]


def _zero_factors(node: Operator, number: int, known: Known) -> Any:
    """Where an operation that is linear in an argument has nothing of it, whatever that is."""
    others = [value for place, value in enumerate(known) if place != number]
    nowhere = np.zeros(0, int)
    if number not in node.op.linear or not others or any(value is None for value in others):
        return nowhere
    if all(np.ndim(value) == 0 for value in others):
        return nowhere
    own = node.inputs[number].type

    def at(value: int) -> Any:
        filled = [*known]
        filled[number] = np.full(own.shape, value, own.dtype)
        return np.asarray(node.op.evaluate(*filled, **node.params))

    with np.errstate(all="ignore"):
        return np.flatnonzero((at(1) == at(0)).ravel())


# ---------------------------------------------------------------- places that are looked up


def _located(
    shape: Sequence[int], indices: Known, kinds: Sequence[ArrayType], axes: Sequence[int]
) -> tuple[list[int], tuple[int, ...], np.ndarray]:
    """The axes whose indices are not known, the shape without these, and the numbers of the
    elements there that the indices ask for."""
    unknown = [axis for axis, value in zip(axes, indices, strict=True) if value is None]
    left = tuple(1 if axis in unknown else length for axis, length in enumerate(shape))
    filled = [
        np.zeros(kind.shape, int) if value is None else value
        for value, kind in zip(indices, kinds, strict=True)
    ]
    return unknown, left, gather.evaluate(_numbers(left), *filled, axes=axes)


def _picked(node: Operator, given: Sequence[Dependence], known: Known) -> Dependence:
    """A gather; where an index is not known, of everything along its axis."""
    shape, kinds = node.inputs[0].type.shape, [source.type for source in node.inputs[1:]]
    unknown, left, numbers = _located(shape, known[1:], kinds, node.params["axes"])
    own = given[0]
    if unknown:
        own = combine(own, _along(shape, unknown), _numbers(shape).ravel(), prod(left))
    return select(own, numbers)


def _scattered(
    node: Operator, loops: Scatter, given: Sequence[Dependence], known: Known
) -> Dependence:
    """A scatter; where an index is not known, to everywhere along its axis."""
    size, kinds = node.type.size, [source.type for source in node.inputs]
    target = loops.shape(*kinds, **node.params)
    if "axes" in node.params:
        unknown, left, places = _located(node.type.shape, known[2:], kinds[2:], node.params["axes"])
        places = places.ravel()
    else:
        elements, reader = _Elements(target), _ReadNoter(node, known)
        unknown, left = [], node.type.shape
        out = _contiguous(node.type)
        at, _ = loops.place(elements.index, out, *reader.operands, **node.params)
        places = elements.value(at)
    numbers = np.broadcast_to(_numbers(kinds[1].shape), target).ravel()
    put = combine(given[1], places, numbers, prod(left))
    if unknown:
        return union(given[0], select(put, np.broadcast_to(_numbers(left), node.type.shape)))
    own = given[0]
    if loops.combine is None:  # what was there is gone
        kept = np.arange(size)
        kept[places] = -1
        own = select(own, kept)
    return union(own, put)


def _accumulated(node: Operator, loops: Accumulate, given: Dependence) -> Dependence:
    elements, out = _Elements(node.inputs[0].type.shape), _contiguous(node.type)
    at = out.flat(tuple(loops.place(elements.index, **node.params)))
    size = node.inputs[0].type.size
    return combine(given, elements.value(at), np.arange(size), node.type.size)


# ---------------------------------------------------------------- sums


def _running(node: Operator, given: Dependence) -> Dependence:
    """A running sum: all elements of the line up to its own, or of a long line all."""
    shape, axis = node.type.shape, node.params["axis"]
    length, numbers = shape[axis], _numbers(shape)
    lines = np.moveaxis(numbers, axis, -1).reshape(-1, length)
    if lines.size * length > _PAIRS:
        line = _along(shape, [axis])
        return select(combine(given, line, numbers.ravel(), lines.shape[0]), line)
    later, earlier = np.tril_indices(length)
    if node.params["reverse"]:
        later, earlier = earlier, later
    return combine(given, lines[:, later].ravel(), lines[:, earlier].ravel(), node.type.size)


def _multiplied(
    node: Operator, number: int, given: Sequence[Dependence], known: Known
) -> Dependence:
    """A product with another array; of one that is known, its zeros count."""
    if not given[number]:
        return NONE
    labels, out = (node.params["spec"][k] for k in (number, 2))
    shape, size = node.inputs[number].type.shape, node.type.size
    other = known[1 - number]
    if other is not None and np.count_nonzero(other) < np.size(other):
        return _multiplied_by(node, number, np.asarray(other), given[number])
    summed = [axis for axis, label in enumerate(labels) if label not in out]
    own, left = given[number], [n for axis, n in enumerate(shape) if axis not in summed]
    if summed:
        own = combine(own, _along(shape, summed), _numbers(shape).ravel(), prod(left))
    kept = [label for label in labels if label in out]
    order = [kept.index(label) for label in out if label in labels]
    places = _numbers(left).transpose(order)
    key = tuple(slice(None) if label in labels else None for label in out)
    numbers = np.broadcast_to(places[key], node.type.shape)
    return select(own, numbers) if size else NONE


def _multiplied_by(node: Operator, number: int, other: np.ndarray, given: Dependence) -> Dependence:
    """A product with a known array: one entry for each of its elements that are not zero."""
    labels, others, out = (node.params["spec"][k] for k in (number, 1 - number, 2))
    shape = node.inputs[number].type.shape
    lengths = dict(zip(labels, shape, strict=True))
    free = [label for label in labels if label not in others]
    extents = [lengths[label] for label in free]
    grid = np.indices(extents).reshape(len(free), 1, prod(extents))
    found = np.argwhere(other)
    place: dict[int, Any] = dict(zip(free, grid, strict=True))
    place |= {label: found[:, axis, None] for axis, label in enumerate(others)}
    count = (len(found), prod(extents))

    def numbers(own: Sequence[int], shape: Sequence[int]) -> np.ndarray:
        total: Any = np.zeros((1, 1), int)
        for label, length in zip(own, shape, strict=True):
            total = total * length + place[label]
        return np.broadcast_to(total, count).ravel()

    return combine(given, numbers(out, node.type.shape), numbers(labels, shape), node.type.size)
