"""Graph -> Loops: which values get memory, and which operations share a nest of loops.

Pointwise operations are not computed anywhere by themselves: their expression is built wherever
an element is needed. A value gets a buffer when somebody outside needs it (an output, an operand
of a product or of NumPy), when it is combined over an axis, or when computing it again would cost
more than reading it. Values with buffers are computed by nests; nests over the same loops are
merged, so that a function and its gradient, or several sums over the same data, take one pass.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph import Constant, Graph, Node, Operator
from ..loops import (
    BOOL,
    Accumulate,
    Affine,
    Alias,
    Apply,
    Assembled,
    Buffer,
    Check,
    Host,
    Kernel,
    Literal,
    LoopProgram,
    MemoryKind,
    Nest,
    Pointwise,
    Product,
    Reduction,
    Running,
    Scatter,
    Store,
    as_reals,
    c_strides,
    cast,
    root,
)
from ..ops.layout import again, reshape
from ..trace.tracer import ITEM
from ..types import ArrayType, is_weak
from .fused import FusedNest
from .lowering import (
    Element,
    copied,
    is_native,
    loop_variables,
    product_extents,
)
from .node_lowerings import NodeLowerings, reads_views
from .running import running_nests
from .stored import choose_stored
from .task import Task


class Scheduler:
    """Turns one graph into a `LoopProgram`."""

    def __init__(self, task: Task, graph: Graph):
        self.task, self.graph = task, graph
        self.buffers: dict[int, Buffer] = {}
        self.kernels: list[Kernel | FusedNest] = []
        self.kernel_of: dict[int, int] = {}
        self.lowerings = NodeLowerings(task)
        self.stored: set[int] = set()
        self.constants: dict[Any, Buffer] = {}
        self.items: dict[int, list[Buffer]] = {}
        self.item_outputs: dict[tuple[int, int], Buffer] = {}
        # results that are not in their memory yet, by node and number
        self.unjoined: dict[tuple[int, int], Element] = {}
        self.checks: list[Check] = []
        self.numbers = 0
        self.length: Buffer | None = None  # of a graph for any length
        if task.any_length is not None:
            node, example = task.any_length.length, task.any_length.example
            self.length = Buffer(
                "length", node.type.dtype, (), (), MemoryKind.LENGTH, value=example
            )
            self.buffers[node.serial] = self.length

    def run(self) -> LoopProgram:
        """Schedule the whole graph; checks come last."""
        inputs = self._input_buffers()
        self._take_places(inputs)
        self.stored = choose_stored(self.graph, self.lowerings)
        outputs = self._output_buffers()
        for node in self.graph.operators:
            self._schedule_check(node)
            if node.serial in self.stored:
                self._schedule(node)
        self._copy_outputs(outputs)
        made = [k.finished() if isinstance(k, FusedNest) else k for k in self.kernels]
        kernels: list[Kernel] = [*made, *self.checks]
        return LoopProgram(inputs, [buffer for _, buffer in outputs], kernels, length=self.length)

    # ------------------------------------------------------------ buffers

    def _name(self, letter: str) -> str:
        self.numbers += 1
        return f"{letter}{self.numbers - 1}"

    def _new_buffer(
        self,
        array_type: ArrayType,
        kind: MemoryKind,
        letter: str,
        strides: tuple[int, ...] | None = None,
        value: Any = None,
    ) -> Buffer:
        shape = array_type.shape
        strides = c_strides(shape) if strides is None else strides
        return Buffer(self._name(letter), array_type.dtype, shape, strides, kind, value=value)

    def _temporary(self, node: Node) -> Buffer:
        """Memory for a value that nobody outside sees."""
        return self._new_buffer(node.type, MemoryKind.ARENA, "t")

    def _standard_strides(self, node: Node) -> tuple[int, ...]:
        """The strides of a value that is laid out as temporary values are."""
        return c_strides(node.type.shape)

    def _input_buffers(self) -> list[Buffer]:
        inputs = self.graph.inputs
        given: Sequence[Any] = self.task.input_strides or [None] * len(inputs)
        for node, strides in zip(inputs, given, strict=True):
            self.buffers[node.serial] = self._new_buffer(node.type, MemoryKind.INPUT, "in", strides)
        return [self.buffers[node.serial] for node in inputs]

    def _take_places(self, inputs: Sequence[Buffer]) -> None:
        """What is written to where an input lies has its memory."""
        for node in self.graph.operators:
            if node.serial in self.task.places:
                buffer = self.buffers[node.serial] = inputs[self.task.places[node.serial]]
                if node.op is ITEM:
                    self.item_outputs[node.inputs[0].serial, node.params["index"]] = buffer

    def _output_buffers(self) -> list[tuple[Node, Buffer]]:
        """One buffer for each output; an operator writes straight into the first of its own."""
        pairs = []
        wanted: Sequence[Any] = self.task.output_strides or [None] * len(self.graph.outputs)
        for node, strides in zip(self.graph.outputs, wanted, strict=True):
            assert node is not None
            if node.serial in self.task.places:
                pairs.append((node, self.buffers[node.serial]))
                continue
            buffer = self._new_buffer(node.type, MemoryKind.OUTPUT, "out", strides)
            pairs.append((node, buffer))
            if not isinstance(node, Operator) or buffer.strides != c_strides(buffer.shape):
                continue  # copied at the end
            if self._owns_memory(node):
                self.buffers.setdefault(node.serial, buffer)
            elif node.op is ITEM:
                self.item_outputs.setdefault((node.inputs[0].serial, node.params["index"]), buffer)
            elif node.op is reshape and self._is_reshaped(node):
                shape = node.inputs[0].type.shape
                view = buffer.view(shape=shape, strides=c_strides(shape))
                self.buffers.setdefault(node.inputs[0].serial, view)
        return pairs

    def _is_reshaped(self, node: Operator) -> bool:
        """Whether the node is another shape of what a nest computes, which can put it anywhere."""
        own = node.inputs[0]
        lowering = self.lowerings.lowering(own) if isinstance(own, Operator) else None
        plain = self._standard_strides(own) == c_strides(own.type.shape)
        return plain and isinstance(lowering, (Pointwise, Assembled, Reduction))

    def _owns_memory(self, node: Operator) -> bool:
        """Whether the node's result can be computed straight into a buffer given to it."""
        if node.op is ITEM:
            return reads_views(node.inputs[0])
        return not isinstance(self.lowerings.lowering(node), Alias)

    def buffer_of(self, node: Node) -> Buffer:
        """The memory of a node."""
        found = self.buffers.get(node.serial)
        if found is None:
            if isinstance(node, Constant):
                found = self._constant_buffer(node)
            else:
                found = self._temporary(node)
            self.buffers[node.serial] = found
        return found

    def _constant_buffer(self, node: Constant) -> Buffer:
        """The memory of a constant; equal constants have one."""
        value = np.ascontiguousarray(node.output, node.type.dtype).reshape(node.type.shape)
        key = (value.dtype, value.shape, value.tobytes())
        found = self.constants.get(key)
        if found is None:
            array_type = ArrayType(value.dtype, value.shape)
            found = self._new_buffer(array_type, MemoryKind.CONSTANT, "c", value=value)
            self.constants[key] = found
        return found

    # ------------------------------------------------------------ kernels

    def _schedule(self, node: Operator) -> None:
        loops = self.lowerings.lowering(node)
        if isinstance(loops, Alias):
            self._schedule_alias(node)
        elif isinstance(loops, Pointwise):
            self._schedule_pointwise(node)
        elif isinstance(loops, Assembled):
            self._schedule_parts(node, loops)
        elif isinstance(loops, Reduction):
            self._schedule_reduction(node, loops)
        elif isinstance(loops, Scatter):
            self._schedule_scatter(node, loops)
        elif isinstance(loops, Accumulate):
            self._schedule_accumulate(node, loops)
        elif isinstance(loops, Running):
            self._schedule_running(node, loops)
        elif isinstance(loops, Product):
            self._schedule_product(node)
        elif node.op is ITEM:
            self._schedule_item(node)
        else:
            name = node.op.name if not node.op.loops else "complex function"
            rule = self.task.rule(self.task, name)
            (rule or Scheduler._schedule_host)(self, node)

    def _schedule_alias(self, node: Operator) -> None:
        before = len(self.kernels)
        source = self._contiguous(node.inputs[0])
        strides = self._standard_strides(node)
        self.buffers[node.serial] = source.view(shape=node.type.shape, strides=strides)
        made = self.kernel_of.get(node.inputs[0].serial, -1)
        if node.op is again:
            made = before - 1  # whatever reads it comes after all that is there by now
        self.kernel_of[node.serial] = before if len(self.kernels) > before else made

    def _contiguous(self, node: Node) -> Buffer:
        """The buffer of a node whose elements lie one after the other; copied if need be."""
        buffer = self.buffer_of(node)
        if buffer.strides == self._standard_strides(node):
            return buffer
        if not is_native(node):
            return buffer  # only NumPy will see it, and NumPy takes any strides
        copy = self._temporary(node)
        self._copy(node, buffer, copy)
        return copy

    def _copy(self, node: Node, source: Buffer, target: Buffer) -> None:
        if node.type.dtype.char in "FD":
            source, target = as_reals(source), as_reals(target)
        elif not is_native(node):
            params = {"shape": node.type.shape}
            self.kernels.append(Host(reshape, params, [source], [target], "copy", [node]))
            return
        self.kernels.append(copied(source, target, [node]))

    def _schedule_pointwise(self, node: Operator) -> None:
        def store(nest: FusedNest) -> Store:
            buffer = self.buffer_of(node)
            return Store(buffer, buffer.flat(nest.index), nest.element(node, nest.index))

        self._join(node, node.type.shape, store)

    def _schedule_parts(self, node: Operator, loops: Assembled) -> None:
        """Store each argument where it belongs, in the nest that computes it if there is one."""
        buffer, last = self.buffer_of(node), -1
        corners = loops.corners(*[source.type for source in node.inputs], **node.params)
        for source, corner in zip(node.inputs, corners, strict=True):
            # axes of length 1 are no loops
            shape = tuple(length for length in source.type.shape if length != 1)
            same = _without_ones(source, shape)
            position, nest = self._nest_after([(same or source, same is not None)], shape)
            guards = nest.cover(shape)
            own = iter(nest.index)
            at = tuple(Affine(0) if n == 1 else next(own) for n in source.type.shape)
            value = nest.element(source, at) if same is None else nest.element(same, nest.index)
            place = buffer.flat(tuple(i + first for i, first in zip(at, corner, strict=True)))
            nest.stores.append(Store(buffer, place, cast(value, buffer.dtype), guards=guards))
            nest.nodes.append(node)
            last = max(last, position)
        self.kernel_of[node.serial] = last

    def _schedule_reduction(self, node: Operator, loops: Reduction) -> None:
        shape = node.inputs[0].type.shape
        self._join(node, shape, lambda nest: self._reduction_store(nest, node, loops))

    def _reduction_store(self, nest: FusedNest, node: Operator, loops: Reduction) -> Store:
        buffer = self.buffer_of(node)
        axes = node.params["axes"]
        kept = tuple(at for axis, at in enumerate(nest.index) if axis not in axes)
        value = cast(nest.element(node.inputs[0], nest.index), buffer.dtype)
        return Store(
            buffer, buffer.flat(kept), value, loops.kind, continues=self.lowerings.continues(node)
        )

    def _join(self, node: Operator, shape: tuple[int, ...], make_store: Any) -> None:
        """Put the store of a node into a nest over these loops."""
        position, nest = self._nest_for(node, shape)
        self.kernel_of[node.serial] = position
        nest.nodes.append(node)
        guards = nest.cover(shape)
        nest.members.add(node.serial)
        nest.stores.append(make_store(nest).changed(guards=guards))
        if guards:  # known in a part of the loops only: others read it from memory, later
            nest.members.discard(node.serial)
            nest.memo.pop((node.serial, nest.index), None)

    def _nest_for(self, node: Operator, shape: tuple[int, ...]) -> tuple[int, FusedNest]:
        """The first nest over these loops that comes after all the node depends on."""
        aligned = self.lowerings.is_aligned(node)
        return self._nest_after([(source, aligned) for source in node.inputs], shape)

    def _nest_after(
        self, sources: list[tuple[Node, bool]], shape: tuple[int, ...]
    ) -> tuple[int, FusedNest]:
        """The first nest over these loops that comes after all that is computed of these; with each
        whether it is read at the index of the loops alone."""
        for position in range(self._earliest(sources, shape), len(self.kernels)):
            kernel = self.kernels[position]
            if isinstance(kernel, FusedNest) and kernel.accepts(shape):
                return position, kernel
        nest = FusedNest(self, shape)
        self.kernels.append(nest)
        return len(self.kernels) - 1, nest

    def _earliest(self, sources: list[tuple[Node, bool]], shape: tuple[int, ...]) -> int:
        """The first kernel position that sees all of these."""
        earliest = 0
        pending = list(sources)
        seen: set[tuple[int, bool]] = set()
        while pending:
            source, aligned = pending.pop()
            if (source.serial, aligned) in seen or not isinstance(source, Operator):
                continue
            seen.add((source.serial, aligned))
            if source.serial in self.stored:
                position = self.kernel_of[source.serial]
                kernel = self.kernels[position] if position >= 0 else None
                same = (
                    aligned
                    and isinstance(kernel, FusedNest)
                    and source.serial in kernel.members
                    and kernel.shape == shape == source.type.shape
                    and (source.serial, kernel.index) in kernel.memo
                )
                earliest = max(earliest, position if same else position + 1)
            else:
                keeps = aligned and self.lowerings.is_aligned(source)
                pending.extend((inner, keeps) for inner in source.inputs)
        return earliest

    def _schedule_check(self, node: Operator) -> None:
        """The condition under which the node may be computed, as a flag that is read at the end."""
        loops = self.lowerings.lowering(node)
        check = getattr(loops, "check", None)
        if check is None or node.params.get("inside"):
            return
        flag = self._new_flag()
        shape = node.type.shape
        if isinstance(loops, Scatter):
            shape = loops.shape(*[source.type for source in node.inputs], **node.params)

        _, nest = self._nest_for(node, shape)
        guards = nest.cover(shape)
        condition = nest.complete(lambda: check(nest.index, *nest.operands(node), **node.params))
        nest.stores.append(
            Store(flag, Affine(0), condition, "logical_and", self.flags_continue, guards)
        )
        self._add_check(flag, node)

    flags_continue = False

    def _new_flag(self) -> Buffer:
        return self._new_buffer(ArrayType(BOOL, ()), MemoryKind.ARENA, "ok")

    def _add_check(self, flag: Buffer, node: Operator) -> None:
        code = getattr(self.lowerings.lowering(node), "code", None) or len(self.checks) + 1
        self.checks.append(Check(flag, code, node.op.name, [node]))

    def _schedule_scatter(self, node: Operator, loops: Scatter) -> None:
        """Copy the first argument, then put the elements of the second in, one after the other."""
        out, before = self.buffer_of(node), self.buffer_of(node.inputs[0])
        if not self.lowerings.continues(node) and out is not before:
            self._copy(node, before, out)
        shape = loops.shape(*[source.type for source in node.inputs], **node.params)
        nest = FusedNest(self, shape)
        operands = nest.operands(node)
        at, picks = nest.complete(lambda: loops.place(nest.index, out, *operands, **node.params))
        value = nest.complete(lambda: cast(operands[1].broadcast(nest.index), out.dtype))
        store = Store(out, at, value, loops.combine, continues=True, picks=picks)
        nest.stores.append(store)
        nest.nodes.append(node)
        self.kernel_of[node.serial] = len(self.kernels)
        self.kernels.append(Nest(nest.vars, nest.stores, node.op.name, [node]))

    def _schedule_accumulate(self, node: Operator, loops: Accumulate) -> None:
        """Zeros first, then every element of the argument added at its place.

        Where no two elements meet they are put there, and if they fill it all, without zeros.
        """
        out = self.buffer_of(node)
        nest = FusedNest(self, node.inputs[0].type.shape)
        target = out.flat(tuple(loops.place(nest.index, **node.params)))
        apart = target.is_one_to_one()
        if not apart or node.inputs[0].type.size < node.type.size:
            variables = loop_variables(node.type.shape)
            zero = Literal(out.dtype.type(0), out.dtype)
            place = out.flat(tuple(Affine.of(v) for v in variables))
            self.kernels.append(Nest(variables, [Store(out, place, zero)], "zeros", [node]))
        value = nest.element(node.inputs[0], nest.index)
        store = Store(out, target, value, None if apart else "add", continues=not apart)
        variables = nest.vars
        if not apart:
            order = loops.axes(node.inputs[0].type, **node.params)
            variables = [nest.vars[axis] for axis in order]
        self.kernel_of[node.serial] = len(self.kernels)
        self.kernels.append(Nest(variables, [store], node.op.name, [node]))

    def _schedule_running(self, node: Operator, loops: Running) -> None:
        new_nest = functools.partial(FusedNest, self)
        self.kernels += running_nests(node, loops, self.buffer_of(node), new_nest)
        self.kernel_of[node.serial] = len(self.kernels) - 1

    def _schedule_product(self, node: Operator) -> None:
        dtypes = {node.type.dtype, *[source.type.dtype for source in node.inputs]}
        if len(dtypes) > 1 or node.type.dtype.kind != "f":
            self._schedule_host(node)
            return
        rule = self.task.rule(self.task, node.op.name)
        if rule is not None:
            rule(self, node)
            return
        extents = product_extents(node)
        store = functools.partial(self._product_store, node, list(extents))
        self._join(node, tuple(extents.values()), store)

    def _product_store(self, node: Operator, labels: Sequence[int], nest: FusedNest) -> Store:
        """A product as a nest: the products of elements, added up."""
        buffer, place = self.buffer_of(node), dict(zip(labels, nest.index, strict=True))
        x, y, out = (tuple(place[label] for label in part) for part in node.params["spec"])
        factors = nest.element(node.inputs[0], x), nest.element(node.inputs[1], y)
        value = Apply("multiply", factors, buffer.dtype)
        return Store(
            buffer, buffer.flat(out), value, "add", continues=self.lowerings.continues(node)
        )

    def materialise(self, node: Operator) -> None:
        """Give memory to a value that was to be computed where it is needed."""
        self.stored.add(node.serial)
        self._schedule_pointwise(node)

    def arrays_of(self, node: Operator) -> tuple[list[Buffer], list[Buffer]]:
        """The arguments of an operation as whole arrays, and memory for its results."""
        for source in node.inputs:
            if isinstance(source, Operator) and source.serial not in self.stored:
                self.materialise(source)
        inputs = [self._contiguous(source) for source in node.inputs]
        outputs = self._results(node) if node.op.multiple else [self.buffer_of(node)]
        return inputs, outputs

    def _schedule_host(self, node: Operator) -> None:
        self.add_host(node, *self.arrays_of(node))

    def add_host(self, node: Operator, inputs: list[Buffer], outputs: list[Buffer]) -> None:
        """An operation that NumPy evaluates, from arrays to arrays."""
        types = [source.type for source in node.inputs]
        numbers = tuple(n for n, t in enumerate(types) if is_weak(t) and not t.shape)
        self.add(node, [Host(node.op, node.params, inputs, outputs, node.op.name, [node], numbers)])

    def add(self, node: Operator, kernels: Sequence[Kernel]) -> None:
        """The kernels that compute a node, the last of which ends it."""
        self.kernels += kernels
        self.kernel_of[node.serial] = len(self.kernels) - 1

    def _results(self, node: Operator) -> list[Buffer]:
        """Buffers for an operation with several results; outputs are computed into place."""
        found = self.items[node.serial] = [
            self.item_outputs.get((node.serial, number)) or self._arena_buffer(t.dtype, t.shape)
            for number, t in enumerate(node.type)
        ]
        return found

    def _arena_buffer(
        self, dtype: np.dtype, shape: tuple[int, ...], strides: tuple[int, ...] | None = None
    ) -> Buffer:
        return self._new_buffer(ArrayType(dtype, shape), MemoryKind.ARENA, "t", strides)

    def _schedule_item(self, node: Operator) -> None:
        source = node.inputs[0]
        if source.serial not in self.items:  # of a region, which writes straight into its buffer
            self.kernel_of[node.serial] = self.kernel_of[source.serial]
            return
        number = node.params["index"]
        buffer = self.buffers[node.serial] = self.items[source.serial][number]
        self.kernel_of[node.serial] = self.kernel_of[source.serial]
        element = self.unjoined.get((source.serial, number))
        if element is not None:
            store = functools.partial(_put_together, node, buffer, element)
            self._join(node, node.type.shape, store)

    def _copy_outputs(self, outputs: Sequence[tuple[Node, Buffer]]) -> None:
        """Outputs that are inputs, constants, aliases or outputs already are copied."""
        for node, buffer in outputs:
            if root(self.buffer_of(node)) is not buffer:
                self._copy(node, self.buffer_of(node), buffer)


def _without_ones(node: Node, shape: tuple[int, ...]) -> Node | None:
    """What the node is but for axes of length 1, if it was computed in this shape."""
    while isinstance(node, Operator) and node.op is reshape and node.type.shape != shape:
        node = node.inputs[0]
    return node if node.type.shape == shape else None


def _put_together(node: Node, buffer: Buffer, element: Element, nest: FusedNest) -> Store:
    """Store a result, which the nest knows from now on."""
    value = nest.memo[node.serial, nest.index] = element(nest.index)
    return Store(buffer, buffer.flat(nest.index), value)


def lower(graph: Graph, task: Task) -> LoopProgram:
    """The loops of a graph, every operation lowered and what runs over the same loops fused."""
    return Scheduler(task, graph).run()
