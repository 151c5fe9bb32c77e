"""The entries of a Jacobian from what a function reads, where each element does the same.

Most functions read their argument first (slices of it, its neighbours, what an index says, padded
or not) and compute with what they have read afterwards: f(x) = g(s), where s only moves elements
of x. Then an entry of f's Jacobian is an entry of g's, and that is simple: element by element, or
block by block. So there is no need of colours for the columns of x, of which neighbours must
differ: one cotangent of ones gives the entries of all rows, beside each other as CSR has them, and
that the cotangent is of ones is known to the compiler. What was read twice for one row is told
apart by place and not by value.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..graph import Constant, Graph, Node, Operator, Variable
from ..graph.rewrite import New, rewrite
from ..jit import jit
from ..ops.indexing import embed, gather, index, index_set
from ..ops.layout import broadcast_to, permute, reshape
from ..ops.structure import concatenate
from ..passes.simplify import fold_constants, share_common
from ..transforms import jvp, vjp
from .dependence import scipy_sparse
from .patterns import pattern_of

# Operations that only move elements, or leave places free for others.
_MOVES = (index, embed, index_set, gather, reshape, permute, broadcast_to, concatenate)
# More products than this in one program are not written out.
_MOST_PRODUCTS = 16
# Entries that lie together in so few pieces are cut out; others are looked up.
_MOST_PIECES = 8
# Instead of the column that a row has in a product: that of no element of x, or none at all.
_FIXED, _NOTHING = -1, -2


class _Part(NamedTuple):
    """The entries of one output: its rows, and for each entry its row, its read and the element."""

    output: int
    shape: tuple[int, ...]
    rows: np.ndarray
    reads: np.ndarray
    elements: np.ndarray
    columns: np.ndarray
    distinct: int  # entries
    numbers: np.ndarray  # of each row, which one of all outputs' it is
    fixed: tuple[np.ndarray, ...]  # rows, reads and elements of what is read and no element of x


class _Products(NamedTuple):
    """How the entries of one output are computed: the products, and where they put each entry."""

    passes: int
    make: Any  # of the values read, an array
    shape: tuple[int, ...]  # of it
    places: np.ndarray  # in it as a flat one, in the order of the part's entries


class Entries:
    """All entries of a Jacobian in CSR's order, as one compiled function of x's leaves.

    `places` says where they are in the arrays that the products make, one after the other. Where
    that is the order of CSR itself, the products are written where they stay.
    """

    def __init__(
        self, cut: _Cut, products: Sequence[_Products], places: np.ndarray, pattern: Any, dtype: Any
    ):
        self.cut = cut
        self.products = products
        self.places = places
        self.pattern = pattern
        self.dtype = dtype
        self.is_direct = len(_pieces(places)) == 1
        self.run = jit(self._arrays if self.is_direct else self._data)

    def data(self, leaves: Sequence[Any]) -> np.ndarray:
        """The entries for such an x."""
        if not self.is_direct:
            found: np.ndarray = self.run(leaves)
            return found
        sizes = [prod(one.shape) for one in self.products]
        made, ends = np.empty(sum(sizes), self.dtype), np.cumsum([0, *sizes]).tolist()
        parts = zip(pairwise(ends), self.products, strict=True)
        self.run(leaves, out=[made[a:b].reshape(one.shape) for (a, b), one in parts])
        first = int(self.places[0])
        return made[first : first + self.places.size]

    def _arrays(self, leaves: Any) -> Any:
        values = self.cut.read.evaluate(leaves)
        return [one.make(values).astype(self.dtype) for one in self.products]

    def _data(self, leaves: Any) -> Any:
        flat = [array.reshape(-1) for array in self._arrays(leaves)]
        return _taken(np.concatenate(flat) if len(flat) > 1 else flat[0], self.places)


def entries_of(captured: Any, count: int, mode: str) -> Entries | None:
    """The entries of a function of `count` arrays, if a few products of what it reads give them.

    It is cut where indices were looked up, and else behind all that moves elements.
    """
    if captured.changes or not count:
        return None
    graph = share_common(fold_constants(captured.graph))
    if not any(node.op in _MOVES for node in graph.operators):
        return None
    ways = (False, True) if any(map(_looked_up, graph.operators)) else (True,)
    found = (_entries(graph, count, mode, behind) for behind in ways)
    return next((one for one in found if one is not None), None)


def _entries(graph: Graph, count: int, mode: str, behind: bool) -> Entries | None:
    cut = _Cut(graph, count, behind)
    if not cut.nodes:
        return None
    parts = [part for part in cut.parts() if part.rows.size]
    found = [_products(cut, part, mode) for part in parts]
    products = [one for one in found if one is not None]
    if not products or len(products) < len(found):
        return None
    if sum(one.passes for one in products) > _MOST_PRODUCTS:
        return None
    rows = np.concatenate([part.numbers[part.rows] for part in parts])
    columns = np.concatenate([part.columns for part in parts])
    starts = np.cumsum([0, *[prod(one.shape) for one in products]]).tolist()
    places = [one.places + start for one, start in zip(products, starts, strict=False)]
    shape = (cut.height, sum(node.type.size for node in graph.inputs[:count]))
    order = np.lexsort((columns, rows))
    first = np.ones(order.size, bool)  # of those that are one entry
    first[1:] = (np.diff(rows[order]) != 0) | (np.diff(columns[order]) != 0)
    dtype = np.result_type(*[cut.types[part.output].dtype for part in parts])
    ordered = np.concatenate(places)[order[first]]
    return Entries(cut, products, ordered, _matrix(rows, columns, shape), dtype)


def _matrix(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> Any:
    """The pattern with entries at these places, each of them once."""
    marks = (np.ones(rows.size, bool), (rows, columns))
    pattern = scipy_sparse().csr_array(marks, shape=shape)
    pattern.sum_duplicates()
    return pattern


def _pieces(places: np.ndarray) -> list[tuple[int, int]]:
    """Where places that follow each other begin and end."""
    cuts = np.flatnonzero(np.diff(places) != 1) + 1
    return list(pairwise([0, *cuts.tolist(), len(places)]))


def _taken(flat: Any, places: np.ndarray) -> Any:
    """The elements at these places."""
    pieces = _pieces(places)
    if len(pieces) > _MOST_PIECES:
        return gather(flat, places, axes=(0,), inside=True)
    return np.concatenate([flat[int(places[a]) : int(places[b - 1]) + 1] for a, b in pieces])


# ---------------------------------------------------------------- cutting a graph


class _Cut:
    """A graph in two: `read` moves elements of the inputs, `rest` computes with what it gives."""

    def __init__(self, graph: Graph, count: int, behind: bool):
        self.columns: dict[int, np.ndarray] = {}  # of each element its column + 1; 0: of no input
        self.behind = behind
        start = 1
        for leaf in graph.inputs[:count]:
            numbers = np.arange(start, start + leaf.type.size)
            self.columns[leaf.serial] = numbers.reshape(leaf.type.shape)
            start += leaf.type.size
        self.nodes = self._edge(graph)
        new: New = {node.serial: _variable(node) for node in self.nodes}
        variables: list[Any] = [new[node.serial] for node in self.nodes]
        outputs, self.numbers, self.height = _taken_apart(graph, new)
        self.read = Graph(graph.inputs[:count], self.nodes)
        rewrite(_needed(outputs, new), lambda node, new: None, new)
        self.rest = Graph(variables, [new[node.serial] for node in outputs])
        self.types = [node.type for node in outputs]

    def _edge(self, graph: Graph) -> list[Node]:
        """What is read and then computed with, or returned."""
        depends = set(self.columns)
        edge: dict[int, Node] = {}
        for node in graph.operators:
            inputs = [source for source in node.inputs if source.serial in depends]
            if not inputs:
                continue
            depends.add(node.serial)
            moved = self._moved(node)
            if moved is not None:
                self.columns[node.serial] = moved
            else:
                edge |= {one.serial: one for one in inputs if one.serial in self.columns}
        edge |= {one.serial: one for one in graph.outputs if one and one.serial in self.columns}
        return [edge[serial] for serial in sorted(edge)]

    def _moved(self, node: Operator) -> np.ndarray | None:
        """The columns of an operation that only moves elements, else None."""
        if node.op not in _MOVES:
            return None
        arrays: list[Any] = []
        for number, source in enumerate(node.inputs):
            known = self.columns.get(source.serial)
            if node.op is gather and number:
                if not isinstance(source, Constant):
                    return None
                known = np.asarray(source.output)
            elif known is None:
                if not isinstance(source, Constant):
                    return None
                known = np.zeros(source.type.shape, np.int64)
            elif not self.behind and _looked_up(source):
                return None
            arrays.append(known)
        return np.asarray(node.op.evaluate(*arrays, **node.params))

    def parts(self) -> list[_Part]:
        """The entries of each output of the rest by what was read."""
        rest, count = self.rest, len(self.nodes)

        def product(values: Any, tangents: Any) -> Any:
            return jvp(lambda *s: rest.evaluate(s), values, tangents)[1]

        shown = tuple(np.zeros(node.type.shape, node.type.dtype) for node in self.nodes)
        found = pattern_of(jit(product).captured(shown, shown), count)
        sizes = np.cumsum([0, *[node.type.size for node in self.nodes]])
        columns = np.concatenate([self.columns[node.serial].ravel() for node in self.nodes])
        parts, start = [], 0
        for number, node in enumerate(rest.outputs):
            assert node is not None
            rows, places = found[start : start + node.type.size].tocoo().coords
            rows, places = rows.astype(np.int64), places.astype(np.int64)
            reads = np.searchsorted(sizes, places, side="right") - 1
            own, kept = (rows, reads, places - sizes[reads]), columns[places] > 0
            moved = [one[kept] for one in own]
            column = columns[places[kept]] - 1
            distinct = _matrix(moved[0], column, (node.type.size, int(columns.max(initial=0)))).nnz
            fixed = tuple(one[~kept] for one in own)
            more = (column, distinct, self.numbers[number], fixed)
            parts.append(_Part(number, node.type.shape, moved[0], moved[1], moved[2], *more))
            start += node.type.size
        return parts


def _taken_apart(graph: Graph, given: New) -> tuple[list[Node], list[np.ndarray], int]:
    """What the outputs are put together of: values, and of each element the number of its row."""
    outputs = [node for node in graph.outputs if node is not None]
    ends = np.cumsum([0, *[node.type.size for node in outputs]]).tolist()
    pending = [
        (node, np.arange(start, end).reshape(node.type.shape))
        for node, (start, end) in zip(outputs, pairwise(ends), strict=True)
    ]
    found: list[tuple[Node, np.ndarray]] = []
    while pending:
        node, rows = pending.pop()
        if node.serial in given or not isinstance(node, Operator):
            found.append((node, rows))
        elif node.op is reshape:
            pending.append((node.inputs[0], rows.reshape(node.inputs[0].type.shape)))
        elif node.op is concatenate and node.params["axis"] == 0:
            cuts = np.cumsum([source.type.shape[0] for source in node.inputs])[:-1]
            pending += zip(node.inputs, np.split(rows, cuts), strict=True)
        else:
            found.append((node, rows))
    found.sort(key=lambda one: int(one[1].min(initial=ends[-1])))
    return [node for node, _ in found], [rows.ravel() for _, rows in found], ends[-1]


def _looked_up(node: Node) -> bool:
    return isinstance(node, Operator) and node.op is gather


def _variable(node: Node) -> Variable:
    return Variable("", None, node.type)


def _needed(outputs: Sequence[Node], given: New) -> list[Node]:
    """What the outputs are computed from, up to the nodes that are given."""
    seen: dict[int, Node] = {}
    pending = [node for node in outputs if node.serial not in given]
    while pending:
        node = pending.pop()
        if node.serial not in seen:
            seen[node.serial] = node
            pending += [source for source in node.inputs if source.serial not in given]
    return [seen[serial] for serial in sorted(seen)]


# ---------------------------------------------------------------- products


def _products(cut: _Cut, part: _Part, mode: str) -> _Products | None:
    """The fewer products of those that put the entries of an output beside each other."""
    one = _cotangents(cut, part) if mode != "forward" else None
    fewest = int(np.bincount(part.rows).max())  # of the other kind
    if mode == "reverse" or (one is not None and one.passes <= fewest):
        return one
    other = _tangents(cut, part)
    known = [found for found in (one, other) if found is not None]
    return min(known, key=lambda found: found.passes) if known else None


def _in_order(part: _Part, kinds: np.ndarray) -> list[int]:
    """The kinds of entries in the order in which a full row has them."""
    lengths = np.bincount(part.rows)
    full = part.rows == int(np.argmax(lengths))
    order = np.argsort(part.columns[full], kind="stable")
    return list(dict.fromkeys([*kinds[full][order].tolist(), *np.flatnonzero(np.bincount(kinds))]))


def _cotangents(cut: _Cut, part: _Part) -> _Products | None:
    """A product for each element of a block of the output, where blocks read blocks.

    The leading axes of the output and of what is read are the same then, up to a shift.
    """
    if part.distinct != part.rows.size:
        return None  # an entry has several parts
    reads = _in_order(part, part.reads)
    shapes = {read: cut.nodes[read].type.shape for read in reads}
    for leading in range(len(part.shape), -1, -1):
        lanes = prod(part.shape[leading:])
        if lanes > _MOST_PRODUCTS:
            return None
        shifts = {read: _shift(part, read, shapes[read], leading) for read in reads}
        if None not in shifts.values():
            return _by_blocks(cut, part, leading, shifts)
    return None


def _shift(part: _Part, read: int, shape: tuple[int, ...], leading: int) -> Any:
    """By how much the leading index of the output is ahead of that of what it reads, if always."""
    if len(shape) < leading:
        return None
    own = part.reads == read
    rows = part.rows[own] // prod(part.shape[leading:])
    elements = part.elements[own] // max(1, prod(shape[leading:]))
    shift = []
    for length, other in zip(part.shape[:leading][::-1], shape[:leading][::-1], strict=True):
        ahead = rows % length - elements % other
        if np.any(ahead != ahead[0]):
            return None
        shift.append(int(ahead[0]))
        rows, elements = rows // length, elements // other
    return tuple(shift[::-1])


def _by_blocks(
    cut: _Cut, part: _Part, leading: int, shifts: dict[int, tuple[int, ...]]
) -> _Products | None:
    block, within, lanes = part.shape[:leading], part.shape[leading:], prod(part.shape[leading:])
    shapes = {read: cut.nodes[read].type.shape for read in shifts}
    widths = {read: prod(shape[leading:]) for read, shape in shapes.items()}
    chosen, trailing = list(shifts), np.zeros(part.rows.size, np.int64)
    for read in chosen:
        own = part.reads == read
        trailing[own] = part.elements[own] % widths[read]
    # what an element of a block reads: (lane, read, the first and the last element + 1 of the read)
    columns: list[tuple[int, int, int, int]] = []
    offset, width = np.zeros(part.rows.size, np.int64), 0
    for lane, read in itertools.product(range(lanes), chosen):
        own = (part.reads == read) & (part.rows % lanes == lane)
        there = np.flatnonzero(np.bincount(trailing[own], minlength=widths[read]))
        for a, b in _pieces(there) if there.size else ():
            columns.append((lane, read, int(there[a]), int(there[b - 1]) + 1))
        offset[own] = width + np.searchsorted(there, trailing[own])
        width += there.size
    if prod(block) * width > 2 * part.rows.size:
        return None
    rest = Graph(cut.rest.inputs, [cut.rest.outputs[part.output]])
    dtype = cut.types[part.output].dtype

    def make(values: Sequence[Any]) -> Any:
        def function(*own: Any) -> Any:
            filled = dict(enumerate(values)) | dict(zip(chosen, own, strict=True))
            return rest.evaluate([filled[number] for number in range(len(values))])[0]

        _, pullback = vjp(function, *[values[read] for read in chosen])
        units = np.eye(lanes, dtype=dtype).reshape(lanes, *within)
        seeds = [broadcast_to(unit, shape=part.shape) for unit in units]
        pulled = [dict(zip(chosen, pullback(seed), strict=True)) for seed in seeds]
        found = []
        for lane, read, first, last in columns:
            shape = (*shapes[read][:leading], widths[read])
            moved = _fitted(pulled[lane][read], shape, block, shifts[read])
            found.append(moved if last - first == widths[read] else moved[..., first:last])
        return np.concatenate(found, axis=-1) if len(found) > 1 else found[0]

    return _Products(lanes, make, (*block, width), part.rows // lanes * width + offset)


def _fitted(found: Any, shape: tuple[int, ...], block: tuple[int, ...], shift: Any) -> Any:
    """What was read at another place, moved to that of the output; zeros where there is none."""
    found = found[..., None] if found.shape == shape[:-1] else found.reshape(shape)
    if shape[:-1] == block and not any(shift):
        return found
    inner, outer = [], []
    for length, own, ahead in zip(block, shape, shift, strict=False):
        first, last = max(0, ahead), min(length, own + ahead)
        outer.append((first, last, 1))
        inner.append(slice(first - ahead, last - ahead))
    whole = (0, shape[-1], 1)
    return embed(found[tuple(inner)], key=(*outer, whole), shape=(*block, shape[-1]))


def _tangents(cut: _Cut, part: _Part) -> _Products | None:
    """A product for each kind of element that is read; kinds that no row has both of share one."""
    count, entries = prod(part.shape), part.rows.size
    # what is no element of x is no entry, but it is in the product all the same
    rows, reads, elements = map(
        np.concatenate, zip((part.rows, part.reads, part.elements), part.fixed, strict=True)
    )
    columns = np.concatenate([part.columns, np.full(rows.size - entries, _FIXED)])
    colours: list[np.ndarray] = []  # of each, the column that a row has in it
    seeds: list[list[tuple[int, int, int]]] = []  # of each, (read, lane, lanes)
    of_entry = np.zeros(rows.size, np.int64)
    for read in _in_order(part, part.reads):
        own = np.flatnonzero(reads == read)
        lanes = _lanes(rows[own], elements[own], cut.nodes[read].type.shape)
        if lanes is None:
            return None
        for lane in range(lanes):
            some = own[elements[own] % lanes == lane]
            if not np.any(some < entries):
                continue
            colour = _colour(colours, rows[some], columns[some])
            if colour == len(colours):
                if colour == _MOST_PRODUCTS:
                    return None
                colours.append(np.full(count, _NOTHING))
                seeds.append([])
            colours[colour][rows[some]] = columns[some]
            seeds[colour].append((read, lane, lanes))
            of_entry[some] = colour
    of_entry = of_entry[:entries]
    if sum(int(np.sum(one >= 0)) for one in colours) != part.distinct:
        return None  # an entry has parts in several products
    if count * len(colours) > 2 * entries:
        return None
    order = _in_order(part, of_entry)
    place = np.argsort(order)
    rest = Graph(cut.rest.inputs, [cut.rest.outputs[part.output]])

    def make(values: Sequence[Any]) -> Any:
        found = [_product(rest, values, seeds[colour])[..., None] for colour in order]
        return np.concatenate(found, axis=-1) if len(found) > 1 else found[0]

    shape = (*part.shape, len(colours))
    return _Products(len(colours), make, shape, part.rows * len(colours) + place[of_entry])


def _product(rest: Graph, values: Sequence[Any], seeds: Sequence[tuple[int, int, int]]) -> Any:
    """The tangent of the one output where the seeded elements move by one."""
    chosen = sorted({read for read, _, _ in seeds})

    def function(*own: Any) -> Any:
        filled = dict(enumerate(values)) | dict(zip(chosen, own, strict=True))
        return rest.evaluate([filled[number] for number in range(len(values))])[0]

    tangents = []
    for read in chosen:
        shape, dtype = np.shape(values[read]), values[read].dtype
        lanes = next(lanes for one, _, lanes in seeds if one == read)
        unit = np.zeros(lanes, dtype)
        unit[[lane for one, lane, _ in seeds if one == read]] = 1
        repeated = broadcast_to(unit, shape=(prod(shape) // lanes, lanes))
        tangents.append(repeated.reshape(shape) if lanes > 1 else np.ones(shape, dtype))
    return jvp(function, tuple(values[read] for read in chosen), tuple(tangents))[1]


def _lanes(rows: np.ndarray, elements: np.ndarray, shape: tuple[int, ...]) -> int | None:
    """How many trailing elements must be told apart for a row to have each of them once."""
    for leading in range(len(shape), -1, -1):
        lanes = prod(shape[leading:])
        if lanes > _MOST_PRODUCTS:
            return None
        if np.bincount(rows * lanes + elements % lanes).max() == 1:
            return int(lanes)
    return None


def _colour(colours: Sequence[np.ndarray], rows: np.ndarray, columns: np.ndarray) -> int:
    """The product that these entries go to: one where they are already, or one they do not meet."""
    free = len(colours)
    for number in reversed(range(len(colours))):
        found = colours[number][rows]
        met = found != _NOTHING
        if np.all(found[met] == columns[met]):
            if met.any():
                return number
            free = number
    return free
