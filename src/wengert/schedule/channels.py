"""What is done otherwise in blocks with channels innermost.

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

from ..loops import (
    Affine,
    Buffer,
    Contraction,
    Load,
    Nest,
    Store,
    Var,
    roots_of,
    walk,
)
from .building import Region, in_parts
from .fusion import Scheduler
from .strided import strides_with_inner


class Weights:
    """What all blocks share, copied once into the order in which their products read it."""

    def __init__(self, outer: Scheduler):
        self.outer = outer
        self.packed: dict[Any, Buffer] = {}

    def read_by(self, kernel: Contraction, shared: Sequence[bool]) -> Contraction:
        """The product reading its factors in order, of those that are shared."""
        lanes = [n for n, step in kernel.out_strides.items() if step == 1 and kernel.extents[n] > 1]
        for number, is_shared in enumerate(shared):
            if lanes and is_shared:
                kernel = self._pack(kernel, number == 0, lanes[0])
        return kernel

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


def strides_outside(region: Region, number: int) -> tuple[int, ...] | None:
    """How a result is best laid out in memory, where that is not as usual: as inside."""
    node, axis = region.graph.outputs[number], region.out_axes[number]
    assert node is not None
    inner, shape = region.inner.get(node.serial), node.type.shape
    if inner is None or not region.has_channels:
        return None
    if axis is not None:
        return strides_with_inner((*shape[:axis], region.length, *shape[axis + 1 :]), inner)
    own = strides_with_inner(shape, inner)
    return (prod(shape), *own) if in_parts(region, number) else own


def as_in_memory(nest: Nest) -> Nest:
    """The nest with its loops in the order of most of the memory that they walk through."""
    if any(var.ordered for var in nest.vars) or any(store.picks for store in nest.stores):
        return nest
    places = [store.at for store in nest.stores]
    places += [expr.at for expr in walk(roots_of(nest.stores)) if isinstance(expr, Load)]
    largest = max(places, key=lambda at: len(at.terms), default=Affine(0))
    order = sorted(nest.vars, key=lambda var: -abs(largest.coefficient(var)))
    return Nest(order, nest.stores, nest.label, nest.nodes)
