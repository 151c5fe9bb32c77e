"""The program of one block -> the batch loop, with channels innermost.

Where values have many channels, one lane a channel is better than one lane a sample: a block of a
sample or two stays in the second-level cache whatever the size of its images is, and the samples of
any batch share out evenly. The innermost layout of every value is then the axis that its product
with the weights has made, and so all else is as with samples innermost: images have no edges that
leave lanes empty, and elementwise operations run through memory as it lies.

    y[n, o, h, w] = sum of x[n, c, h + i, w + j] * weights[o, c, i, j]
        lanes along o, a tile of positions in registers, weights[i, j, c, o] read in order

Weights are brought into the order in which they are read before the loop begins. Values that come
from outside, or are needed outside, are read and written where they lie: nothing is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..graph import Operator
from ..loops import (
    Affine,
    Buffer,
    Contraction,
    Load,
    Nest,
    Store,
    Var,
    c_strides,
    roots_of,
    walk,
)
from .blocks import BlockScheduler, strides_with_inner
from .building import Region, in_parts
from .shaping import shape_nest


class ChannelScheduler(BlockScheduler):
    """Schedules the program of one block with channels innermost."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.packed: dict[Any, Buffer] = {}

    @staticmethod
    def strides_outside(region: Region, number: int) -> tuple[int, ...] | None:
        """The same as inside."""
        node, axis = region.graph.outputs[number], region.out_axes[number]
        assert node is not None
        inner, shape = region.inner.get(node.serial), node.type.shape
        if inner is None:
            return None
        if axis is not None:
            return strides_with_inner((*shape[:axis], region.length, *shape[axis + 1 :]), inner)
        own = strides_with_inner(shape, inner)
        return (prod(shape), *own) if in_parts(region, number) else own

    # ------------------------------------------------------------ other shapes

    def _schedule_alias(self, node: Operator) -> None:
        source = self.buffer_of(node.inputs[0])
        strides = strides_under(source.shape, source.strides, node.type.shape)
        self.kernel_of[node.serial] = self.kernel_of.get(node.inputs[0].serial, -1)
        if strides is None:
            self.kernel_of[node.serial] = len(self.kernels)
            plain = self._own_buffer(source.dtype, source.shape, c_strides(source.shape))
            self._copy(node.inputs[0], source, plain)
            source, strides = plain, c_strides(node.type.shape)
        self.buffers[node.serial] = source.view(shape=node.type.shape, strides=strides)

    # ------------------------------------------------------------ loops

    def _shaped(self, nest: Nest) -> list[Nest]:
        return shape_nest(Nest(_as_in_memory(nest), nest.stores, nest.label, nest.nodes))

    # ------------------------------------------------------------ products

    def _schedule_product(self, node: Operator) -> None:
        super()._schedule_product(node)
        kernel = self.kernels[-1]
        if not isinstance(kernel, Contraction):
            return
        lanes = [n for n, step in kernel.out_strides.items() if step == 1 and kernel.extents[n] > 1]
        for number, source in enumerate(node.inputs):
            if lanes and source.serial not in self.region.axes:
                kernel = self._pack(kernel, number == 0, lanes[0])
        self.kernels[-1] = kernel

    def _pack(self, kernel: Contraction, is_x: bool, lanes: int) -> Contraction:
        """The product reading what all blocks share in the order in which it does."""
        strides, others = kernel.x_strides, kernel.y_strides
        if not is_x:
            strides, others = others, strides
        if strides.get(lanes, 1) == 1:
            return kernel
        kept = [n for n in strides if n in kernel.out_strides and n != lanes]
        summed = [n for n in strides if n not in kernel.out_strides]
        summed.sort(key=lambda label: -abs(others.get(label, 0)))
        order = [*kept, *summed, lanes]
        source, offset = (kernel.x, kernel.x_offset) if is_x else (kernel.y, kernel.y_offset)
        key = (source, offset, *[(strides[n], kernel.extents[n]) for n in order])
        if key not in self.packed:
            lengths = {n: kernel.extents[n] for n in order}
            self.packed[key] = self._packed(source, offset, lengths, strides, kernel.nodes)
        packed = self.packed[key]
        return kernel.reading(is_x, packed, 0, dict(zip(order, packed.strides, strict=True)))

    def _packed(
        self,
        source: Buffer,
        offset: int,
        lengths: dict[int, int],
        strides: dict[int, int],
        nodes: list[Any],
    ) -> Buffer:
        """Memory outside of the loop for a copy in another order, and the copy itself."""
        made = self.outer._arena_buffer(source.dtype, tuple(lengths.values()))
        variables = [Var(f"{'ijklmnpq'[k % 8]}", n) for k, n in enumerate(lengths.values())]
        place = Affine(offset)
        for label, var in zip(lengths, variables, strict=True):
            place = place + Affine.of(var) * strides[label]
        store = Store(made, made.flat(tuple(map(Affine.of, variables))), Load(source, place))
        self.outer.kernels.append(Nest(variables, [store], "weights in order", nodes))
        return made


def strides_under(
    shape: Sequence[int], strides: Sequence[int], wanted: Sequence[int]
) -> tuple[int, ...] | None:
    """The strides of an array under another shape; None where its elements lie otherwise.

    >>> strides_under((2, 3, 4), (12, 1, 3), (2, 3, 2, 2, 1))
    (12, 1, 6, 3, 0)
    >>> strides_under((2, 3, 4), (12, 1, 3), (2, 12)) is None
    True
    """
    if 0 in wanted:
        return c_strides(tuple(wanted))
    old = [(n, step) for n, step in zip(shape, strides, strict=True) if n != 1]
    found: list[int] = []
    for length in reversed(wanted):
        if length == 1:
            found.append(0)
            continue
        while len(old) > 1 and old[-1][0] % length and _is_one(old[-2], old[-1]):
            old[-2:] = [(old[-2][0] * old[-1][0], old[-1][1])]
        if not old or old[-1][0] % length:
            return None
        n, step = old.pop()
        found.append(step)
        if n != length:
            old.append((n // length, step * length))
    return tuple(reversed(found)) if not old else None


def _is_one(outer: tuple[int, int], inner: tuple[int, int]) -> bool:
    """Whether two axes are one in memory."""
    return outer[1] == inner[0] * inner[1]


def _as_in_memory(nest: Nest) -> list[Var]:
    """The loops in the order of most of the memory that they walk through."""
    if any(var.ordered for var in nest.vars) or any(store.picks for store in nest.stores):
        return nest.vars
    places = [store.at for store in nest.stores]
    places += [expr.at for expr in walk(roots_of(nest.stores)) if isinstance(expr, Load)]
    largest = max(places, key=lambda at: len(at.terms), default=Affine(0))
    return sorted(nest.vars, key=lambda var: -abs(largest.coefficient(var)))
