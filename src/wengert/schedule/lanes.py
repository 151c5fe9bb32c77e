"""Factorisations of many small matrices -> generated code, one lane a matrix.

As many matrices as a vector has lanes are brought into memory where they lie side by side, element
by element; `codegen.lane_factorisations` has what is done with them there, and nests bring back
what comes of it. Threads share the blocks. Where a last block would not be full, it begins earlier
and does some matrices twice.

LAPACK is called for the others: few matrices, large ones, and complex ones.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from ..graph import Operator
from ..loops import (
    BOOL,
    Affine,
    Apply,
    Buffer,
    Expr,
    Index,
    IndexValue,
    Kernel,
    LibraryCall,
    Literal,
    Load,
    Loop,
    Nest,
    Operand,
    Store,
    Var,
    c_strides,
    cast,
)
from ..machine import current, policy
from ..types import ArrayType
from . import factorisations
from .fused import FusedNest
from .fusion import Scheduler
from .library import Stack
from .lowering import is_native
from .shaping import shape_nest

Lowering = Callable[[Scheduler, Operator], None]
# Numbers that the steps to eigenvalues, and to singular values, keep of each lane.
NUMBERS_FOR_EIGENVALUES, NUMBERS_FOR_SINGULAR_VALUES = 10, 9


def in_lanes(
    otherwise: Lowering,
    vectors: int = 1,
    fewest_rows: int = 1,
    suits: Callable[[Operator], bool] = lambda node: True,
) -> Callable[[Callable[[Block], None]], Lowering]:
    """How an operation lowers: to what a rule says for a block of matrices, if it is worth it."""

    def made(rule: Callable[[Block], None]) -> Lowering:
        @functools.wraps(rule)
        def lower(scheduler: Scheduler, node: Operator) -> None:
            types = node.type if node.op.multiple else (node.type,)
            width = vectors * current().lanes(8)
            if suits(node) and _is_worth_it(node, types, width, fewest_rows):
                Block(scheduler, node, types, width).lower(rule)
            else:
                otherwise(scheduler, node)

        return lower

    return made


def _is_worth_it(node: Operator, types: Sequence[ArrayType], width: int, fewest_rows: int) -> bool:
    """Whether there are so many matrices, and so small ones, that lanes are faster than LAPACK."""
    given, limits = [source.type for source in node.inputs], policy().lanes
    if not all(is_native(source) for source in node.inputs) or any(
        t.dtype.kind not in "fi" or t.size == 0 for t in (*given, *types)
    ):
        return False
    sizes = [n for t in given for n in t.shape[-2:]]
    longest = max(types[0].shape[: _batch_rank(node)], default=0)
    enough = longest >= max(width, limits.fewest)
    fits = fewest_rows <= min(given[0].shape[-2:]) and max(sizes) <= limits.most_rows
    return current().lanes(8) >= limits.narrowest and enough and fits


def _batch_rank(node: Operator) -> int:
    return max(len(source.type.shape) for source in node.inputs) - 2


class Block(Stack):
    """An operation on a stack of matrices, while it is made of what is done with one block."""

    def __init__(
        self, scheduler: Scheduler, node: Operator, types: Sequence[ArrayType], width: int
    ):
        super().__init__(scheduler, node, types)
        self.width = width
        rank = _batch_rank(node)
        self.batch = tuple(np.broadcast_shapes(*[s.type.shape[:-2] for s in node.inputs]))
        assert len(self.batch) == rank
        self.axis = max(range(rank), key=lambda axis: self.batch[axis])
        self.turns = [Var(f"matrix{axis or ''}", n) for axis, n in enumerate(self.batch)]
        self.results = [self._given(number) for number in range(len(types))]
        self.goods: Buffer | None = None
        self.filled: set[Buffer] = set()  # memory of a block that has something in it
        self.start, self.lane = Affine(0), Affine(0)

    def lower(self, rule: Callable[[Block], None]) -> None:
        """All blocks by the rule, and the last one, if it would not be full."""
        length = self.batch[self.axis]
        block = Var("block", length // self.width)
        self._in_loops(rule, block, Affine.of(block) * self.width)
        if length % self.width:
            self._in_loops(rule, Var("rest", 1), Affine(length - self.width))
        if self.goods is not None:
            good = self.goods
            one = Literal(self.real.type(1), self.real)
            self.check(
                self.batch, lambda at: Apply("equal", (Load(good, good.flat(at)), one), BOOL)
            )
        self.finish(*self.results)

    def _in_loops(self, rule: Callable[[Block], None], block: Var, start: Affine) -> None:
        self.start, self.own, self.filled, self.body = start, set(), set(), []
        rule(self)
        body: list[Kernel] = self.body
        around = [var for axis, var in enumerate(self.turns) if axis != self.axis]
        about = {"label": self.node.op.name, "nodes": (self.node,)}
        for var in reversed([var for var in around if var.extent > 1]):
            body = [Loop(var, tuple(body), **about)]
        shares = self._shares(body, block.extent)
        share = Var("share", shares) if shares > 1 else None
        loop = Loop(block, tuple(body), private=tuple(self.own), share=share, **about)
        self.kernels.append(loop if share is None else Loop(share, (loop,), parallel=True, **about))
        self.body = []

    def _shares(self, body: Sequence[Kernel], blocks: int) -> int:
        """Into how many parts threads share the blocks: by sizes alone."""
        limits, cost = policy().threads, sum(kernel.work for kernel in body) * blocks
        if self.scheduler.task.kind == "step" or cost < limits.least_shared:
            return 1
        return min(blocks, limits.most_tasks, cost // limits.least_task)

    # ------------------------------------------------------------ memory

    def work(self, *shape: int, dtype: np.dtype | None = None) -> Buffer:
        """Memory for matrices of a block, side by side."""
        shape = (*shape, self.width)
        made = self.scheduler._arena_buffer(dtype or self.real, shape, c_strides(shape))
        self.own.add(made)
        return made

    def put(self, target: Buffer, value: Callable[..., Expr]) -> None:
        """A nest that stores ``value(index, *operands)`` everywhere in all matrices of a block."""
        mine = target in self.own
        self.filled.add(target)
        shape = target.shape[:-1] if mine else target.shape[len(self.batch) :]
        nest = FusedNest(self.scheduler, (*shape, self.width))
        *inner, self.lane = nest.index
        front = [Affine.of(var) for var in self.turns]
        front[self.axis] = self.start + self.lane
        index = (*front, *inner)
        found = nest.complete(lambda: value(index, *nest.operands(self.node)))
        place = target.flat(nest.index if mine else index)
        store = Store(target, place, cast(found, target.dtype))
        self.body += shape_nest(Nest(nest.vars, [store], self.node.op.name, [self.node]))

    def element(self, work: Buffer, *place: Affine) -> Expr:
        """An element of the matrix of a lane, for a nest."""
        return Load(work, work.flat((*place, self.lane)))

    def give(
        self,
        number: int,
        work: Buffer,
        where: Callable[[Index], Expr] | None = None,
        turned: bool = False,
    ) -> None:
        """A result is what is in memory of the block, and 0 elsewhere; a vector is a column."""
        rank, result = len(self.batch), self.results[number]

        def value(at: Index, *given: Operand) -> Expr:
            place = at[rank:] if len(at) == rank + 2 else (*at[rank:], Affine(0))
            found = self.element(work, *(place[::-1] if turned else place))
            return found if where is None else factorisations.where(where(at), found)

        self.put(result, value)

    def unit(self, at: Index) -> Expr:
        """An element of the identity."""
        same = Apply("equal", (IndexValue(at[-2]), IndexValue(at[-1])), BOOL)
        return factorisations.where(same, Literal(self.real.type(1), self.real))

    def good(self) -> Buffer:
        """Memory for what an algorithm says of each matrix: 1 where it has a result."""
        return self.work(1, 1)

    def look_at(self, good: Buffer) -> None:
        """End the program where a matrix has no result."""
        if self.goods is None:
            self.goods = self.memory(dtype=self.real)
        self.put(self.goods, lambda at, *given: self.element(good, Affine(0), Affine(0)))

    def apply(self, algorithm: str, sizes: Sequence[int], *matrices: Buffer, flops: int) -> None:
        """An algorithm of `codegen.lane_factorisations`, which works in place."""
        read = tuple(one for one in matrices if one in self.filled)
        label = f"lanes_{'_'.join(map(str, (algorithm, self.width, *sizes)))}"
        cost = self.width * flops // policy().costs.flops
        self.body.append(
            LibraryCall(label, matrices, read, matrices, cost, label, [self.node], True)
        )


# ---------------------------------------------------------------- elimination


@in_lanes(factorisations.solve)
def solve(block: Block) -> None:
    """Solutions of many systems."""
    *_, n, m = block.types[0].shape
    a, x, good = block.work(n, n), block.work(n, m), block.good()

    def chosen(at: Index, a: Operand, b: Operand) -> Expr:
        *front, i, j = at
        return a.broadcast((*front, j, i) if block.params["transposed"] else at)

    block.put(a, chosen)
    block.put(x, lambda at, a, b: b.broadcast(at))
    block.apply("solve", (n, m), a, x, good, flops=2 * n**3 // 3 + 2 * n * n * m)
    block.look_at(good)
    block.give(0, x)


@in_lanes(factorisations.lu)
def lu(block: Block) -> None:
    """Elimination with swapped rows; see `ops.linalg.lu`."""
    n = block.types[0].shape[-1]
    a, *numbers = block.work(n, n), *(block.work(n, 1) for _ in range(3))
    block.put(a, lambda at, x: x(at))
    block.apply("lu", (n,), a, *numbers, flops=2 * n**3 // 3)
    block.give(0, a)
    for number, one in enumerate(numbers, 1):
        if block.is_wanted(number):
            block.give(number, one)


@in_lanes(factorisations.pivots)
def pivots(block: Block) -> None:
    """What elimination leaves on the diagonal, and the row swapped with each."""
    n = block.types[0].shape[-1]
    a, left, swaps = block.work(n, n), block.work(n, 1), block.work(n, 1)
    block.put(a, lambda at, x: x(at))
    block.apply("pivots", (n,), a, left, swaps, flops=2 * n**3 // 3)
    block.give(0, left)
    block.give(1, swaps)


# ---------------------------------------------------------------- triangles


@in_lanes(factorisations.cholesky)
def cholesky(block: Block) -> None:
    """The lower triangle of its factors."""
    n = block.types[0].shape[-1]
    a, good = block.work(n, n), block.good()
    block.put(a, factorisations.symmetric(block))
    block.apply("cholesky", (n,), a, good, flops=n**3 // 3)
    block.look_at(good)
    block.give(0, a, factorisations.is_lower)


@in_lanes(factorisations.triangular_solve)
def triangular_solve(block: Block) -> None:
    """Solutions with one triangle."""
    *_, n, m = block.types[0].shape
    a, x, good = block.work(n, n), block.work(n, m), block.good()
    block.put(a, lambda at, a, b: a.broadcast(at))
    block.put(x, lambda at, a, b: b.broadcast(at))
    triangle = "lower" if block.params["lower"] else "upper"
    unit = "unit" if block.params["unit_diagonal"] else ""
    block.apply(unit + triangle, (n, m), a, x, good, flops=n * n * m)
    if not unit:
        block.look_at(good)
    block.give(0, x)


# ---------------------------------------------------------------- orthogonal factors


@in_lanes(factorisations.qr)
def qr(block: Block) -> None:
    """Reflections, and the orthogonal matrix that they make."""
    m, n = block.node.inputs[0].type.shape[-2:]
    columns = block.types[0].shape[-1]
    a, q, tau = block.work(m, n), block.work(m, columns), block.work(min(m, n), 1)
    block.put(a, lambda at, x: x(at))
    block.put(q, lambda at, x: block.unit(at))
    flops = 2 * m * min(m, n) * (n + columns)
    block.apply("qr", (m, n, columns), a, q, tau, flops=flops)
    block.give(0, q)
    block.give(1, a, factorisations.is_upper)


# ---------------------------------------------------------------- values and vectors


@in_lanes(factorisations.eigenvalues, vectors=1, fewest_rows=2)
def eigenvalues(block: Block) -> None:
    """Eigenvalues of symmetric matrices, and vectors if they are wanted."""
    n = block.node.inputs[0].type.shape[-1]
    a, values, below, twice = block.work(n, n), *(block.work(n, m) for m in (1, 1, 2))
    state, good = block.work(NUMBERS_FOR_EIGENVALUES, 1), block.good()
    block.put(a, factorisations.symmetric(block))
    given = [a, values, below, twice, state, good]
    if len(block.types) > 1:
        vectors = block.work(n, n)
        block.put(vectors, lambda at, x: block.unit(at))
        block.apply("eigh", (n,), *given, vectors, flops=9 * n**3)
        block.give(1, vectors)
    else:
        block.apply("eigvalsh", (n,), *given, flops=3 * n**3)
    block.give(0, values)
    block.look_at(good)


def _is_thin(node: Operator) -> bool:
    """Whether no vectors are wanted beyond those of singular values."""
    m, n = node.inputs[0].type.shape[-2:]
    return m == n or not node.params.get("full_matrices")


@in_lanes(factorisations.singular_values, fewest_rows=2, suits=_is_thin)
def singular_values(block: Block) -> None:
    """Singular values, and vectors if they are wanted; of a wide matrix those of its transpose."""
    if len(block.types) == 1:
        m, n, memory = _of_singular_values(block, 2)
        block.apply("svdvals", (m, n), *memory, flops=6 * m * n * n)
        block.give(0, memory[1])
    else:
        sizes, memory = _of_singular_vectors(block)
        m, n, wide = sizes
        block.apply("svd", sizes, *memory, flops=18 * m * n * n)
        large, small = memory[6:8]
        block.give(0, small if wide else large, turned=bool(wide))
        block.give(1, memory[1])
        block.give(2, large if wide else small, turned=bool(wide))
    block.look_at(memory[5])


def _of_singular_values(block: Block, factors: int) -> tuple[int, int, list[Buffer]]:
    """The size of a matrix that is not wide, and the memory that its singular values need."""
    given = block.node.inputs[0].type.shape[-2:]
    (m, n), wide = sorted(given, reverse=True), given[0] < given[1]
    memory = [block.work(m, n), *(block.work(n, k) for k in (1, 1, factors))]

    def chosen(at: Index, a: Operand, *sides: Operand) -> Expr:
        *front, i, j = at
        return a.broadcast((*front, j, i) if wide else at)

    block.put(memory[0], chosen)
    return m, n, [*memory, block.work(NUMBERS_FOR_SINGULAR_VALUES, 1), block.good()]


def _of_singular_vectors(block: Block) -> tuple[tuple[int, int, int], list[Buffer]]:
    """The same for its vectors besides, and whether the matrix was wide."""
    m, n, memory = _of_singular_values(block, 3)
    shape = block.node.inputs[0].type.shape
    large, small = block.work(m, n), block.work(n, n)
    for one in (large, small):
        block.put(one, lambda at, *given: block.unit(at))
    return (m, n, int(shape[-2] < shape[-1])), [*memory, large, small, block.work(n, n)]


@in_lanes(factorisations.least_squares, fewest_rows=2)
def least_squares(block: Block) -> None:
    """Solutions of least squares, by singular values."""
    (m, n, wide), memory = _of_singular_vectors(block)
    rows, columns = block.node.inputs[0].type.shape[-2:]
    k = block.types[0].shape[-1]
    ratio, b, x = block.work(1, 1), block.work(rows, k), block.work(columns, k)
    limit = factorisations.least_ratio(block)
    block.put(ratio, lambda at, *given: Literal(block.real.type(limit), block.real))
    block.put(b, lambda at, a, b: b.broadcast(at))
    flops = 18 * m * n * n + 4 * m * n * k
    block.apply("lstsq", (m, n, wide, k), *memory, ratio, b, x, flops=flops)
    block.give(0, x)
    block.look_at(memory[5])
