"""An operator that works in chunks -> a native loop around the program of a chunk.

The program of a chunk finds its samples at another place of the arrays outside each time. A sum
over samples is both an argument and a result of it: it lies in one place, to which each chunk adds,
unless the program reads it after it has begun to write; then it goes back and forth. What is the
same for all chunks is computed before the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from ..graph import Operator
from ..loops import (
    Affine,
    Branch,
    Buffer,
    Host,
    Kernel,
    Loop,
    LoopProgram,
    Nest,
    Var,
)
from ..machine import policy
from .chunks import Chunks, NotNative
from .inner import back_and_forth, filled
from .inplace import may_share
from .loop_sums import NewBuffer
from .memory import root, temporaries
from .restrict import Part

Schedule = Callable[..., LoopProgram]

# The name of loops over chunks.
LABEL = "chunks"


def memory_of(program: LoopProgram) -> int:
    """Bytes that a planned program needs, the turns of its loops included."""
    return program.arena_bytes + max(map(_memory_inside, program.kernels), default=0)


def _memory_inside(kernel: Kernel) -> int:
    if not isinstance(kernel, (Loop, Branch)):
        return 0
    inside = max(map(_memory_inside, kernel.parts()), default=0)
    if isinstance(kernel, Branch) or kernel.blocks is not None:
        return inside  # blocks are small: they stay in a cache
    turns = kernel.turns if kernel.parallel else 1
    if kernel.parallel and kernel.fold:  # those under way
        turns = min(turns, policy().regions.many_groups)
    return (kernel.private_bytes + inside) * turns


def tell_chunks(program: LoopProgram) -> str | None:
    """What a program does in chunks of samples, in words; None: nothing."""
    loops = [k for k in program.kernels if isinstance(k, Loop) and k.label == LABEL]
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
        schedule(graph, strides, [buffer.strides for buffer in outputs])
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
        made.append(filled(others[0], combine, "zeros", [node]))
    start = 0
    for number, (loop, (_, count)) in enumerate(zip(loops, chunks.pieces, strict=True)):
        turn = Var("chunk", count)
        around = [*inputs[:shared], *[None] * len(sums), *inputs[shared:]]
        for inner, outer, axis in zip(
            loop.program.inputs,
            around,
            [*[None] * (shared + len(sums)), *chunks.in_axes],
            strict=True,
        ):
            if outer is not None:
                inner.lie_in(outer, _first(outer, axis, start, chunks.part, turn))
        for inner, outer, axis in zip(loop.program.outputs, kept, chunks.out_axes, strict=False):
            inner.lie_in(outer, _first(outer, axis, start, chunks.part, turn))
        pairs = [(line[number], line[number + 1]) for line in places]
        made += [*loop.same, loop.kernel(node, turn, pairs, new_buffer)]
        start += count * chunks.part.width
    return made


def _first(buffer: Buffer, axis: int | None, start: int, part: Part, turn: Var) -> Affine:
    """Where a chunk begins in an array of samples; the first one begins with the sample `start`."""
    if axis is None:
        return Affine(0)
    extent, stride = buffer.shape[axis], buffer.strides[axis]
    first = Affine(Part(start, part.length).of(extent) * stride if start else 0)
    return first + Affine.of(turn) * (part.of(extent) * stride)


def _the_same(program: LoopProgram, shared: set[Buffer]) -> list[Kernel]:
    """What every chunk would compute alike, such as weights in another order."""
    own, known = set(temporaries(program.kernels)), set(shared)
    written = [set(map(root, kernel.writes)) for kernel in program.kernels]
    writers = Counter(buffer for buffers in written for buffer in buffers)
    found: list[Kernel] = []
    for kernel, buffers in zip(program.kernels, written, strict=True):
        once = all(buffer in own and writers[buffer] == 1 for buffer in buffers)
        if isinstance(kernel, Nest) and once and {root(b) for b in kernel.reads} <= known:
            found.append(kernel)
            known |= buffers
    return found


class _Loop:
    """The loop around the program of a chunk."""

    def __init__(self, program: LoopProgram, shared: int, kept: int):
        self.program = program
        self.before = program.inputs[shared : shared + len(program.outputs) - kept]
        self.after = program.outputs[kept:]
        self.same = _the_same(program, set(map(root, program.inputs[:shared])))
        before = {root(buffer) for kernel in self.same for buffer in kernel.writes}
        self.private = tuple(b for b in temporaries(program.kernels) if b not in before)

    def shares(self, number: int) -> bool:
        """Whether a sum can stay where it is from chunk to chunk."""
        return may_share(self.program, self.after[number], self.before[number])

    def kernel(
        self,
        node: Operator,
        turn: Var,
        sums: Sequence[tuple[Buffer, Buffer]],
        new_buffer: NewBuffer,
    ) -> Loop:
        """The loop over chunks; each of the sums lies in one buffer before and in one after it.
        Where that is the same buffer, it is both an argument and a result of every chunk."""
        carries = []
        for before, after, (start, end) in zip(self.before, self.after, sums, strict=True):
            if start is end:
                before.lie_in(end)
                after.lie_in(end)
                continue
            carries.append(back_and_forth(before, after, start, new_buffer, end))
        return Loop(
            turn,
            tuple(kernel for kernel in self.program.kernels if kernel not in self.same),
            private=self.private,
            label=LABEL,
            nodes=(node,),
            carries=tuple(carries),
        )
