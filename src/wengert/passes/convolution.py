"""Sums of shifted products: the gradient of a convolution by its input, and its transpose.

Both are recorded as ``fold(contract(g, w))``: every element of `g` times the whole kernel, which is
then added up where it belongs. The product is as many times larger than `g` as the kernel has
elements. Two better ways to the same sums:

- With stride 1 the result is itself a convolution, of `g` with zeros around it and the kernel
  flipped: one product that reads `g` at shifted places, and nothing is added up in memory. As in
  every convolution with padding, the zeros meet all weights, so an infinite one gives NaN there.
- Otherwise the product is laid out with the places in the window before its positions, so that
  what is added up lies in a row.

Where the input was padded, the gradient of its edge is cut off again. `trim` sees to it that these
edges are not computed: with 3x3 windows, padded by one, 14 x 14 results and not 16 x 16.
"""

from __future__ import annotations

from collections import Counter
from math import prod

from ..graph import Graph, Node, Operator
from ..machine import policy
from ..ops.contract import contract, normal_spec
from ..ops.indexing import embed, index
from ..ops.layout import permute, reshape
from ..ops.windows import fold, windows
from .rewriting import apply, rebuild

Numbers = tuple[int, ...]


def correlate(graph: Graph) -> Graph:
    """fold(contract(g, w)) -> contract(windows(pad(g)), flip(w)), or a better layout of it."""
    return rebuild(graph, _folded_product)


def _folded_product(node: Operator) -> Node | None:
    if node.op is not fold or not node.params["shape"]:
        return None
    product, rank = _behind_reshape(node), len(node.params["shape"])
    if product is None or product.op is not contract or 0 in product.type.shape:
        return None
    x, y, out = product.params["spec"]
    positions, sizes = set(out[-2 * rank : -rank]), set(out[-rank:])
    for g, w, g_labels, w_labels in ((*product.inputs, x, y), (*product.inputs[::-1], y, x)):
        if positions <= set(g_labels) - set(w_labels) and sizes <= set(w_labels) - set(g_labels):
            if set(node.params["strides"]) == {1} and _pays(node, product, g):
                return _correlation(node, g, w, (g_labels, w_labels, out))
            return _in_rows(node, product)
    return None


def _behind_reshape(node: Operator) -> Operator | None:
    """What is folded, before a reshape that leaves the windows alone (groups of channels)."""
    source = node.inputs[0]
    if isinstance(source, Operator) and source.op is reshape:
        behind, count = source.inputs[0], 2 * len(node.params["shape"])
        if source.type.shape[-count:] == behind.type.shape[-count:]:
            source = behind
    return source if isinstance(source, Operator) else None


def _pays(node: Operator, product: Operator, g: Node) -> bool:
    """Whether there are few zeros, and `g` with them is smaller than the product."""
    shape, dilations = node.params["shape"], node.params["dilations"]
    rank = len(shape)
    positions, sizes = product.type.shape[-2 * rank : -rank], product.type.shape[-rank:]
    padded = prod(
        length + step * (size - 1)
        for length, size, step in zip(shape, sizes, dilations, strict=True)
    )
    few = prod(shape) <= policy().rewriting.most_waste * prod(positions)
    return few and g.type.size // prod(positions) * padded <= product.type.size


def _correlation(node: Operator, g: Node, w: Node, spec: tuple[Numbers, Numbers, Numbers]) -> Node:
    g_labels, w_labels, out = spec
    rank = len(node.params["shape"])
    positions, sizes = out[-2 * rank : -rank], out[-rank:]
    lengths = dict(zip(w_labels, w.type.shape, strict=True))
    spans = [
        step * (lengths[label] - 1)
        for label, step in zip(sizes, node.params["dilations"], strict=True)
    ]
    leading = tuple(label for label in g_labels if label not in positions)
    order = tuple(g_labels.index(label) for label in leading + positions)
    shifted = apply(
        windows,
        _with_zeros_around(apply(permute, g, params={"axes": order}), spans),
        params={
            "sizes": tuple(lengths[label] for label in sizes),
            "strides": node.params["strides"],
            "dilations": node.params["dilations"],
        },
    )
    key = tuple((n - 1, -1, -1) if k in sizes else (0, n, 1) for k, n in lengths.items())
    flipped = apply(index, w, params={"key": key})
    labels = normal_spec(leading + positions + sizes, w_labels, out[:-rank])
    result = apply(contract, shifted, flipped, params={"spec": labels})
    return apply(reshape, result, params={"shape": node.type.shape}, like=node)


def _with_zeros_around(x: Node, widths: list[int]) -> Node:
    """The last axes longer by a width at both ends."""
    full = [0] * (len(x.type.shape) - len(widths)) + widths
    key = tuple((width, width + n, 1) for width, n in zip(full, x.type.shape, strict=True))
    shape = tuple(n + 2 * width for width, n in zip(full, x.type.shape, strict=True))
    return apply(embed, x, params={"key": key, "shape": shape}) if any(widths) else x


def _in_rows(node: Operator, product: Operator) -> Node:
    x, y, out = product.params["spec"]
    rank = len(node.params["shape"])
    leading = len(out) - 2 * rank
    swap = (*range(leading), *range(leading + rank, len(out)), *range(leading, leading + rank))
    spec = (x, y, tuple(out[axis] for axis in swap))
    rows = apply(contract, *product.inputs, params={"spec": spec})
    patches = apply(permute, rows, params={"axes": swap})
    folded = apply(fold, patches, params=node.params)
    return apply(reshape, folded, params={"shape": node.type.shape}, like=node)


def trim(graph: Graph) -> Graph:
    """index(contract(windows(pad(g)), w)) -> contract(windows(pad less(g)), w)."""
    users = Counter(source.serial for node in graph.operators for source in node.inputs)
    users.update(node.serial for node in graph.outputs if node is not None)
    # the rule sees rebuilt nodes, in the order of those that the users are counted for
    before = iter(graph.operators)

    def rule(node: Operator) -> Node | None:
        product = _cut_product(next(before))
        if product is None or users[product.serial] > 1:
            return None  # the whole of it is needed anyway
        return _trimmed(node)

    return rebuild(graph, rule)


def _cut_product(node: Operator) -> Operator | None:
    """The product, before a reshape of groups of channels, of which a part is taken."""
    if node.op is not index:
        return None
    source = node.inputs[0]
    if isinstance(source, Operator) and source.op is reshape:
        source = source.inputs[0]
    return source if isinstance(source, Operator) and source.op is contract else None


def _trimmed(node: Operator) -> Node | None:
    product, key, shape = _cut_product(node), node.params["key"], node.inputs[0].type.shape
    assert product is not None
    x, y, out = product.params["spec"]
    shifted, w = product.inputs
    if not isinstance(shifted, Operator) or shifted.op is not windows:
        return None
    rank = len(shifted.params["sizes"])
    front = len(shape) - rank
    slices = all(isinstance(item, tuple) and item[2] == 1 for item in key)
    if not slices or key[:front] != tuple((0, n, 1) for n in shape[:front]):
        return None
    positions = x[-2 * rank : -rank]
    if product.type.shape[-rank:] != shape[front:] or out[-rank:] != positions:
        return None
    padded = _with_less_around(shifted, [item[:2] for item in key[front:]])
    if padded is None or set(positions) & set(y):
        return None
    narrow = apply(windows, padded, params=shifted.params)
    result = apply(contract, narrow, w, params=product.params)
    return apply(reshape, result, params={"shape": node.type.shape}, like=node)


def _with_less_around(shifted: Operator, ranges: list[tuple[int, int]]) -> Node | None:
    """What the windows at a range of positions see of zeros with an array in their midst."""
    padded, rank = shifted.inputs[0], len(ranges)
    if not isinstance(padded, Operator) or padded.op is not embed:
        return None
    if set(shifted.params["strides"]) != {1} or None in padded.params["key"]:
        return None
    front = len(padded.params["shape"]) - rank
    key, shape = list(padded.params["key"]), list(padded.params["shape"])
    spans = zip(shifted.params["sizes"], shifted.params["dilations"], strict=True)
    for axis, ((first, last), (size, step)) in enumerate(zip(ranges, spans, strict=True), front):
        if not isinstance(key[axis], tuple) or key[axis][2] != 1 or first >= last:
            return None
        start, stop = key[axis][0] - first, key[axis][1] - first
        shape[axis] = last - first + step * (size - 1)
        if start < 0 or stop > shape[axis]:
            return None  # not only zeros would be cut off
        key[axis] = (start, stop, 1)
    if tuple(shape) == padded.inputs[0].type.shape:
        return padded.inputs[0]
    return apply(embed, padded.inputs[0], params={"key": tuple(key), "shape": tuple(shape)})
