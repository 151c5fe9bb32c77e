"""Products among the kernels of a program: their code, memory and threads."""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir

from ..loops import Contraction
from ..machine import policy
from .contraction import (
    emit_contraction,
    flops,
    is_packed,
    is_shared,
    part_name,
    unfinished_bytes,
    units,
)
from .equal_kernels import form_of_values
from .interrupts import leave_if_stopped
from .pointers import I64, PTR, Pointers, moved_bytes, rounded, words_of
from .tasks import Tasks
from .unrolled import emit_unrolled, unrolled_form


class Product(NamedTuple):
    """The code of a product: its function, and what it needs."""

    name: str
    scratch: int  # bytes for each worker
    unfinished: int  # bytes for sums in blocks, for all workers together
    units: int  # that can be shared out


class Products(Tasks):
    """Emits the products of a program."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.products: dict[Any, Product] = {}

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
        product = self._product(name, kernel, watched)
        shared = is_shared(kernel) and product.units > 1 and self.workers > 1
        shared = shared and not pointers.around.is_shared
        workers = self.workers if shared else 1
        scratch = product.unfinished + product.scratch * workers
        args = self._product_arguments(builder, kernel, pointers, product.unfinished)
        if not shared:
            function = self.module.globals[product.name]
            builder.call(function, args if watch is None else [*args, watch])
            return scratch
        tasks = workers
        if not is_packed(kernel, self.target):
            tasks *= policy().threads.tasks_per_worker
            if watched:
                tasks = max(tasks, flops(kernel) // policy().costs.watched_flops)
        tasks = min(product.units, tasks)
        task = self._contraction_task(name, product, tasks, watched)
        self._share_out(builder, task, args, tasks, watch, workers)
        return scratch

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

    def _product(self, name: str, kernel: Contraction, watched: bool) -> Product:
        """The code of a product; products of the same form have one."""
        strides = (kernel.out_strides, kernel.x_strides, kernel.y_strides)
        dtypes = (kernel.out.dtype, kernel.x.dtype, kernel.y.dtype)
        key = [*kernel.extents.items(), *(tuple(one.items()) for one in strides), *dtypes]
        form = (*key, kernel.accumulates, watched, kernel.keeps_sums, form_of_values(kernel))
        if form not in self.products:
            inner = f"{name}.product"
            small = None if watched else unrolled_form(kernel, self.target)
            if small is not None:
                emit_unrolled(self.module, self.target, kernel, small, inner)
                self.products[form] = Product(inner, 0, 0, 1)
                return self.products[form]
            scratch = emit_contraction(self.module, self.target, kernel, inner, watched=watched)
            unfinished = rounded(unfinished_bytes(kernel, self.target))
            total = units(kernel, self.target)
            self.products[form] = Product(inner, rounded(scratch), unfinished, total)
        return self.products[form]

    def _contraction_task(
        self, name: str, product: Product, tasks: int, watched: bool
    ) -> ir.Function:
        """`void name.task(context, task, worker)`: a range of the units of a product."""
        function = self._function(f"{name}.task", [PTR, I64, I64])
        builder = ir.IRBuilder(function.append_basic_block())
        context, number, worker = function.args
        part = self.module.globals[part_name(product.name)]
        out, x, y, space, *more = words_of(builder, context, [PTR] * (len(part.args) - 2))
        if watched:
            leave_if_stopped(builder, more[-1])
        own = builder.mul(worker, ir.Constant(I64, product.scratch))
        space = builder.gep(space, [own], source_etype=ir.IntType(8))
        count = ir.Constant(I64, product.units)
        bounds = [
            builder.udiv(builder.mul(place, count), ir.Constant(I64, tasks))
            for place in (number, builder.add(number, ir.Constant(I64, 1)))
        ]
        builder.call(part, [out, x, y, space, *bounds, *more])
        builder.ret_void()
        return function
