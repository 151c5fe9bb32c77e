"""An operator that works in chunks -> a native loop around the program of a chunk.

The program of a chunk finds its samples at another place of the arrays outside each time. A sum
over samples is both an argument and a result of it: it lies in one place, to which each chunk adds,
unless the program reads it after it has begun to write; then it goes back and forth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..graph import Operator
from ..loops import (
    Affine,
    Buffer,
    Carried,
    Host,
    Kernel,
    Literal,
    LoopProgram,
    Nest,
    Repeat,
    Rows,
    Store,
    identity_of,
)
from .chunks import Chunks, NotNative
from .inplace import may_share
from .lowering import loop_variables
from .memory import plan
from .restrict import Part
from .totals import NewBuffer

Schedule = Callable[..., LoopProgram]

# The name of loops over chunks.
LABEL = "chunks"


def memory_of(program: LoopProgram) -> int:
    """Bytes that a planned program needs, the bodies of its loops included."""
    loops = [kernel for kernel in program.kernels if isinstance(kernel, Repeat)]
    inside = [memory_of(body) * loop.parts for loop in loops for body in loop.bodies]
    return program.planned_bytes + max(inside, default=0)


def tell_chunks(program: LoopProgram) -> str | None:
    """What a program does in chunks of samples, in words; None: nothing."""
    loops = [k for k in program.kernels if isinstance(k, Repeat) and k.label == LABEL]
    nodes = {loop.nodes[0].serial: loop.nodes[0] for loop in loops}
    return "\n".join(node.op.chunks.told() for node in nodes.values()) or None


def chunk_kernels(
    node: Operator,
    inputs: Sequence[Buffer],
    outputs: Sequence[Buffer],
    schedule: Schedule,
    new_buffer: NewBuffer,
) -> list[Kernel]:
    """A loop over the chunks from buffers to buffers, and one for the rest."""
    chunks: Chunks = node.op.chunks
    kept, sums = outputs[: len(chunks.out_axes)], outputs[len(chunks.out_axes) :]
    shared = len(inputs) - len(chunks.in_axes)
    strides = [buffer.strides for buffer in (*inputs[:shared], *sums, *inputs[shared:])]
    programs = [
        plan(schedule(graph, strides, [buffer.strides for buffer in outputs]))
        for graph, _ in chunks.pieces
    ]
    if any(isinstance(kernel, Host) for program in programs for kernel in program.kernels):
        raise NotNative
    loops = [_Loop(program, shared, len(kept)) for program in programs]
    made: list[Kernel] = []
    places: list[list[Buffer]] = []  # of each sum, before the first loop and after each
    for number, (total, combine) in enumerate(zip(sums, chunks.combines, strict=True)):
        apart = not all(loop.shares(number) for loop in loops)
        others = [new_buffer(total.dtype, total.shape) if apart else total for _ in loops]
        places.append([*others, total])
        made.append(_filled(others[0], combine, node))
    start = 0
    for number, (loop, (_, count)) in enumerate(zip(loops, chunks.pieces, strict=True)):
        loop.fixed = list(map(Rows, inputs[:shared]))
        loop.rows = list(_moving(inputs[shared:], chunks.in_axes, start, chunks.part))
        loop.results = list(_moving(kept, chunks.out_axes, start, chunks.part))
        pairs = [(line[number], line[number + 1]) for line in places]
        made.append(loop.kernel(node, count, pairs, new_buffer))
        start += count * chunks.part.width
    return made


def _filled(buffer: Buffer, combine: str, node: Operator) -> Nest:
    """What a sum begins with."""
    variables = loop_variables(buffer.shape)
    place = buffer.flat(tuple(Affine.of(var) for var in variables))
    value = Literal(identity_of(combine, buffer.dtype), buffer.dtype)
    return Nest(variables, [Store(buffer, place, value)], "zeros", [node])


def _moving(
    buffers: Sequence[Buffer], axes: Sequence[int], start: int, part: Part
) -> Iterator[Rows]:
    """Arrays of samples, from chunk to chunk; the first chunk begins with the sample `start`."""
    for buffer, axis in zip(buffers, axes, strict=True):
        extent, stride = buffer.shape[axis], buffer.strides[axis]
        view = buffer
        if start:
            view = Buffer(buffer.name, buffer.dtype, buffer.shape, buffer.strides, buffer.kind)
            view.base = buffer
            view.start = Affine(Part(start, part.length).of(extent) * stride)
        yield Rows(view, part.of(extent) * stride)


class _Loop:
    """The loop around the program of a chunk."""

    def __init__(self, program: LoopProgram, shared: int, kept: int):
        self.program, self.shared, self.kept = program, shared, kept
        self.first_row = shared + len(program.outputs) - kept
        self.before = program.inputs[shared : self.first_row]
        self.after = program.outputs[kept:]
        self.fixed: list[Rows] = []
        self.rows: list[Rows] = []
        self.results: list[Rows] = []

    def shares(self, number: int) -> bool:
        """Whether a sum can stay where it is from chunk to chunk."""
        return may_share(self.program, self.after[number], self.before[number])

    def kernel(
        self,
        node: Operator,
        count: int,
        sums: Sequence[tuple[Buffer, Buffer]],
        new_buffer: NewBuffer,
    ) -> Repeat:
        """The loop over so many chunks; each of the sums lies in one buffer before and in one after
        it. Where that is the same buffer, it is both an argument and a result of every chunk."""
        staying = [k for k, (before, after) in enumerate(sums) if before is after]
        moving = [k for k, (before, after) in enumerate(sums) if before is not after]
        program = self.program
        program.inputs = [
            *program.inputs[: self.shared],
            *[self.before[k] for k in (*staying, *moving)],
            *program.inputs[self.first_row :],
        ]
        program.outputs = [
            *[self.after[k] for k in moving],
            *program.outputs[: self.kept],
            *[self.after[k] for k in staying],
        ]
        in_place = [Rows(sums[k][1]) for k in staying]
        return Repeat(
            count,
            False,
            program,
            [*self.fixed, *in_place],
            [_carried(*sums[k], new_buffer) for k in moving],
            self.rows,
            [*self.results, *in_place],
            [],
            label=LABEL,
            nodes=[node],
        )


def _carried(before: Buffer, after: Buffer, new_buffer: NewBuffer) -> Carried:
    spare = [Rows(new_buffer(after.dtype, after.shape)) for _ in range(2)]
    return Carried(Rows(before), Rows(after), spare=tuple(spare))
