"""Sums of shifted products: the gradient of a convolution by its input, and its transpose.

Both are recorded as ``fold(contract(g, w))``: every element of `g` times the whole kernel, which is
then added up where it belongs. The product is as many times larger than `g` as the kernel has
elements. Two better ways to the same sums:

- With stride 1 the result is itself a convolution, of `g` with zeros around it and the kernel
  flipped: one product that reads `g` at shifted places, and nothing is added up in memory. As in
  every convolution with padding, the zeros meet all weights, so an infinite one gives NaN there.
- Otherwise the product is laid out with the places in the window before its positions, so that
  what is added up lies in a row.
"""

from __future__ import annotations

from math import prod

from ..graph import Graph, Node, Operator
from ..ops.contract import contract, normal_spec
from ..ops.indexing import embed, index
from ..ops.layout import permute, reshape
from ..ops.windows import fold, windows
from .rewriting import apply, rebuild

Numbers = tuple[int, ...]

# The correlation also multiplies the zeros; beyond this factor it is not worth it.
MOST_WASTE = 2


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
    few = prod(shape) <= MOST_WASTE * prod(positions)
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
