"""Products among the kernels of a program: their code, memory and threads."""

from __future__ import annotations

from math import ceil, inf, prod
from typing import Any, NamedTuple

from llvmlite import ir

from ..loops import Contraction
from ..machine import policy
from ..schedule.plans import Plan
from ..schedule.tiling import make_plan
from ..schedule.units import shared_loops
from .contexts import rounded, words_of
from .contraction import (
    emit_contraction,
    flops,
    is_shared,
    part_name,
    unfinished_bytes,
    units,
)
from .counted import counted_loop
from .equal_kernels import form_of_values
from .interrupts import leave_if_stopped
from .panels import SharedPanels, emit_panels, pack_name
from .pointers import I64, PTR, Pointers, i64, moved_bytes
from .tasks import Tasks
from .unrolled import emit_unrolled, unrolled_form


class EmittedProduct(NamedTuple):
    """The code of a product: its function, and what it needs."""

    name: str
    scratch: int  # bytes for each worker, or for all together where they share panels
    unfinished: int  # bytes for sums in blocks, for all workers together
    units: tuple[int, int]  # along two loops, that can be shared out
    panels: SharedPanels | None = None  # where the product is that of threads which share them


class Products(Tasks):
    """Emits the products of a program."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.products: dict[Any, EmittedProduct] = {}
        self.last_panels = 0, 0  # where those of the product before begin and end, in scratch

    def _contraction(
        self,
        builder: ir.IRBuilder,
        name: str,
        kernel: Contraction,
        pointers: Pointers,
        watch: ir.Value | None,
    ) -> int:
        """A product: on one thread, or its units shared out to several; bytes of scratch."""
        watched = watch is not None
        shared = is_shared(kernel) and self.workers > 1 and not pointers.around.is_shared
        product = self._product(name, kernel, watched, shared)
        shared = shared and prod(product.units) > 1
        args = self._product_arguments(builder, kernel, pointers, product.unfinished)
        if not shared:
            function = self.module.globals[product.name]
            builder.call(function, args if watch is None else [*args, watch])
            return product.unfinished + product.scratch
        grid = self._grid(kernel, product, watched)
        if product.panels is None:
            task = self._contraction_task(name, product, grid, watched)
            self._share_out(builder, task, args, prod(grid), watch, self.workers)
            return product.unfinished + product.scratch * self.workers
        start, end = self._place_of_panels(product)
        args[3] = moved_bytes(builder, args[3], start)
        self._with_panels(builder, name, product, args, grid, watch)
        return product.unfinished + end

    def _place_of_panels(self, product: EmittedProduct) -> tuple[int, int]:
        """Where its panels begin and end: elsewhere than those of the product before.

        All cores have these in their caches, and would have to be told of every line that is
        written, which takes several times as long as writing it. So have rounds, the one and the
        next.
        """
        assert product.panels is not None
        size = product.scratch * product.panels.places
        begin, end = self.last_panels
        start = 0 if size <= begin else end
        self.last_panels = start, start + size
        return self.last_panels

    def _with_panels(
        self,
        builder: ir.IRBuilder,
        name: str,
        product: EmittedProduct,
        args: list[ir.Value],
        grid: tuple[int, int],
        watch: ir.Value | None,
    ) -> None:
        """Round after round: pack what is next of both factors, then multiply it."""
        panels, watched = product.panels, watch is not None
        assert panels is not None
        packers = min(panels.units, policy().threads.tasks_per_worker * self.workers)
        pack = self._packing_task(name, product, packers, watched)
        task = self._contraction_task(name, product, grid, watched)

        def one(number: ir.Value) -> None:
            words = [*args, number]
            if panels.places > 1:
                away = builder.mul(builder.and_(number, i64(1)), i64(product.scratch))
                words[3] = builder.gep(args[3], [away], source_etype=ir.IntType(8))
            self._share_out(builder, pack, words, packers, watch, self.workers)
            self._share_out(builder, task, words, prod(grid), watch, self.workers)

        if panels.rounds == 1:
            one(i64(0))
        else:
            counted_loop(builder, 0, panels.rounds, 1, one)

    def _grid(self, kernel: Contraction, product: EmittedProduct, watched: bool) -> tuple[int, int]:
        """Into how many tasks the units along each loop are cut: what is computed depends on the
        plan alone, so that this may depend on the threads."""
        limits, plan = policy().threads, make_plan(kernel, self.target)
        assert plan is not None
        units = product.units
        if product.panels is None and (plan.pack_x or plan.pack_y):  # each task for itself
            workers = min(self.workers, max(units))
            return (workers, 1) if units[0] >= units[1] else (1, workers)
        most = min(limits.tasks_per_worker * self.workers, flops(kernel) // limits.least_task_flops)
        if watched:
            most = max(most, flops(kernel) // policy().costs.watched_flops)
        tiled = {"row": plan.row, "vector": plan.vector, "column": plan.column}
        lengths = [
            tiled[loop].extent if isinstance(loop, str) else inf
            for loop in shared_loops(plan).loops
        ]
        return choose_grid(units, (lengths[0], lengths[1]), max(most, 2), self.workers)

    def _product_arguments(
        self,
        builder: ir.IRBuilder,
        kernel: Contraction,
        pointers: Pointers,
        unfinished: int,
    ) -> list[ir.Value]:
        """What the function of a product gets; unfinished sums lie at the beginning of scratch."""
        accesses = [(kernel.x, kernel.x_offset), (kernel.y, kernel.y_offset)]
        accesses += [(buffer, at.constant) for buffer, at in kernel.accesses()]
        x, y, *others = [
            moved_bytes(builder, pointers(buffer), first * buffer.dtype.itemsize)
            for buffer, first in accesses
        ]
        out = pointers(kernel.out) if kernel.keeps_sums else pointers.scratch
        return [out, x, y, moved_bytes(builder, pointers.scratch, unfinished), *others]

    def _product(
        self, name: str, kernel: Contraction, watched: bool, shared: bool
    ) -> EmittedProduct:
        """The code of a product, to be `shared` by threads; products of the same form have one."""
        strides = (kernel.out_strides, kernel.x_strides, kernel.y_strides)
        dtypes = (kernel.out.dtype, kernel.x.dtype, kernel.y.dtype)
        key = [*kernel.extents.items(), *(tuple(one.items()) for one in strides), *dtypes]
        form = (*key, kernel.accumulates, watched, kernel.keeps_sums, form_of_values(kernel))
        plan = make_plan(kernel, self.target) if shared else None
        panels = self.workers > policy().threads.few_workers
        panels = panels and plan is not None and plan.shares_panels
        if (form, panels) not in self.products:
            made = self._emit_product(f"{name}.product", kernel, watched, plan if panels else None)
            self.products[form, panels] = made
        return self.products[form, panels]

    def _emit_product(
        self, name: str, kernel: Contraction, watched: bool, in_panels: Plan | None
    ) -> EmittedProduct:
        small = None if watched else unrolled_form(kernel, self.target)
        if small is not None:
            emit_unrolled(self.module, self.target, kernel, small, name)
            return EmittedProduct(name, 0, 0, (1, 1))
        unfinished = rounded(unfinished_bytes(kernel, self.target))
        total = units(kernel, self.target)
        if in_panels is not None:
            panels = emit_panels(self.module, self.target, kernel, name, in_panels, watched)
            return EmittedProduct(name, rounded(panels.bytes), unfinished, total, panels)
        scratch = emit_contraction(self.module, self.target, kernel, name, watched=watched)
        return EmittedProduct(name, rounded(scratch), unfinished, total)

    def _contraction_task(
        self, name: str, product: EmittedProduct, grid: tuple[int, int], watched: bool
    ) -> ir.Function:
        """`void name.task(context, task, worker)`: a rectangle of the units of a product."""
        part = self.module.globals[part_name(product.name)]
        panels = product.panels is not None
        function, b, (out, x, y, space, *more), (number, worker) = self._task_of(
            f"{name}.task", part, 5 if panels else 4, panels, watched
        )
        if not panels:
            own = b.mul(worker, i64(product.scratch))
            space = b.gep(space, [own], source_etype=ir.IntType(8))
        rounds = [more.pop(-2 if watched else -1)] if panels else []
        place = b.udiv(number, i64(grid[1])), b.urem(number, i64(grid[1]))
        bounds = [
            b.udiv(b.mul(end, i64(units)), i64(count))
            for at, units, count in zip(place, product.units, grid, strict=True)
            for end in (at, b.add(at, i64(1)))
        ]
        b.call(part, [out, x, y, space, *rounds, *bounds, *more])
        b.ret_void()
        return function

    def _packing_task(
        self, name: str, product: EmittedProduct, tasks: int, watched: bool
    ) -> ir.Function:
        """`void name.packing(context, task, worker)`: some tiles of the factors of a product."""
        pack = self.module.globals[pack_name(product.name)]
        assert product.panels is not None
        units = i64(product.panels.units)
        function, b, (out, x, y, space, *more), (number, _) = self._task_of(
            f"{name}.packing", pack, 3, True, watched
        )
        rounds = more.pop(-2 if watched else -1)
        # columns first: their units can be longer, and it is those at the end that others wait for
        number = b.sub(i64(tasks - 1), number)
        bounds = [b.udiv(b.mul(end, units), i64(tasks)) for end in (number, b.add(number, i64(1)))]
        b.call(pack, [out, x, y, space, rounds, *bounds, *more])
        b.ret_void()
        return function

    def _task_of(
        self, name: str, part: ir.Function, numbers: int, has_round: bool, watched: bool
    ) -> tuple[ir.Function, ir.IRBuilder, list[ir.Value], list[ir.Value]]:
        """A task that calls a part of a product, with the words of its context."""
        function = self._function(name, [PTR, I64, I64])
        builder = ir.IRBuilder(function.append_basic_block())
        context, *counts = function.args
        pointers = len(part.args) - numbers
        kinds = [PTR] * (pointers - watched) + [I64] * has_round + [PTR] * watched
        words = words_of(builder, context, kinds)
        if watched:
            leave_if_stopped(builder, words[-1])
        return function, builder, words, counts


def choose_grid(
    units: tuple[int, int], lengths: tuple[float, float], most: int, workers: int
) -> tuple[int, int]:
    """How the units along two loops are cut into tasks, at most so many: so that all workers have
    the same to do, no task is long at the end, and little is read again: a task multiplies some
    rows and columns, of as many as the `lengths` say, and the fewer of one it has the less it does
    with each element of the other.

    >>> choose_grid((10, 16), (128, 512), 128, 16), choose_grid((4, 1), (64, 64), 128, 16)
    ((2, 16), (4, 1))
    >>> choose_grid((74, 32), (1024, 1024), 16, 2), choose_grid((147, 64), (2048, 2048), 128, 16)
    ((2, 8), (8, 16))
    """
    best, rates = (inf, (1, 1)), policy().products
    for rows in range(1, min(units[0], most) + 1):
        fitting = min(units[1], most // rows)
        for columns in {fitting, max(1, fitting // 2), max(1, fitting // 4)}:
            longest = ceil(units[0] / rows) * ceil(units[1] / columns) / (units[0] * units[1])
            waves = ceil(rows * columns / workers) + rates.tail
            again = rates.reading * (rows / lengths[0] + columns / lengths[1])
            best = min(best, (waves * longest * workers + again, (rows, columns)))
    return best[1]
