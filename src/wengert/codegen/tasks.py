"""What kernels for speed have in common: work that threads share, nests that are written out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llvmlite import ir

from ..loops import Nest, Var, roots_of, walk
from . import pool
from .contexts import table_of
from .counted import counted_loop
from .interrupts import emit_watch
from .llvm_types import declare
from .pointers import I64, PTR, Pointers, i64
from .scope import Scope
from .small_nests import emit_flat, grid_of


class Tasks(Scope):
    """A program whose kernels may run on several threads."""

    def _nest(
        self, builder: ir.IRBuilder, nest: Nest, pointers: Pointers, watch: ir.Value | None
    ) -> None:
        # a nest of a block has whole vectors already
        apart = watch is None and not pointers.around.in_blocks
        apart = apart and not _counts(nest, pointers.counters)
        grid = grid_of(nest, self.target) if apart else None
        if grid is not None:
            emit_flat(builder, nest, grid, self.target, pointers)
        else:
            super()._nest(builder, nest, pointers, watch)

    def _share_out(
        self,
        builder: ir.IRBuilder,
        task: ir.Function,
        words: Sequence[ir.Value],
        count: int,
        watch: ir.Value | None,
        workers: int | None = None,
    ) -> None:
        """Run the tasks 0 to count - 1 on the process's pool.

        Their context are these pointers and the watch, if there is one.
        """
        context = table_of(builder, [*words, *([] if watch is None else [watch])])
        workers = workers or self.threads
        arguments = [task, context, ir.Constant(I64, count)]
        kinds = [PTR, PTR, I64]
        name = pool.PARALLEL_FOR
        if workers is not None or watch is not None:
            name = pool.PARALLEL_FOR_LIMITED
            arguments.append(ir.Constant(I64, workers or pool.MAX_THREADS))
            kinds.append(I64)
        if watch is not None:
            name = pool.PARALLEL_FOR_WATCHED
            arguments += [emit_watch(self.module), watch]
            kinds += [PTR, PTR]
        kind = ir.FunctionType(ir.VoidType(), kinds)
        builder.call(declare(self.module, name, kind), arguments)


def _counts(nest: Nest, counters: Mapping[Var, ir.Value]) -> bool:
    """Whether a nest has what loops around it count in its indices."""
    found = [expr.at for expr in walk(roots_of(nest.stores)) if hasattr(expr, "at")]
    found += [store.at for store in nest.stores]
    return any(var in counters for at in found for var, _ in at.terms)


def one_by_one(
    builder: ir.IRBuilder,
    task: ir.Function,
    words: Sequence[ir.Value],
    count: int,
    watch: ir.Value | None,
) -> None:
    """Run the tasks on this thread alone."""
    context = table_of(builder, [*words, *([] if watch is None else [watch])])
    counted_loop(builder, 0, count, 1, lambda number: builder.call(task, [context, number, i64(0)]))
