"""A whole program of loops -> one LLVM module.

Every kernel becomes a function of its own; `kernel(buffers, arena)` calls them in order. Where
NumPy must evaluate an operation in between, the program is cut into segments, `kernel0`,
`kernel1`, ..., and the caller runs NumPy between them.

A program for any length finds that length in the last slot of its buffers, and before it, if it
needs one, the address of its *room*: two words, the room's capacity in bytes and where it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from llvmlite import ir

from ..loops import (
    BlockLoop,
    Buffer,
    Check,
    Contraction,
    Host,
    Kernel,
    LoopProgram,
    Nest,
    ParallelNest,
    Repeat,
    Transfer,
    Var,
    has_checks,
)
from ..runtime.limits import NO_ELEMENTS, ROOM_GRAIN, ROOM_TOO_SMALL
from ..runtime.threads import available_cores
from ..schedule.cost import kernel_cost
from ..schedule.memory import ALIGNMENT, buffers_of, root
from . import pool
from .contraction import (
    MAX_WORKERS,
    emit_contraction,
    flops,
    held_bytes,
    held_factor,
    is_packed,
    is_shared,
    part_name,
    prepare_name,
    unfinished_bytes,
    units,
)
from .flat import emit_flat, grid_of
from .forms import form_of_values, repeated_forms
from .interrupts import INTERRUPTED, emit_watch, leave_if_stopped, start_watch, stopped
from .nests import WATCH_COST, NestEmitter
from .repeat import emit_repeat
from .scalars import declare
from .strided import counted_loop
from .target import Target
from .transfer import emit_transfer
from .unrolled import emit_unrolled, unrolled_form

I32, I64, PTR = ir.IntType(32), ir.IntType(64), ir.PointerType()
# A batch loop of any length with less work than this, in elements, stays on one thread.
WORTH_WAKING = 1 << 17
TASKS_PER_WORKER = 2  # of products that pack nothing; each task of the others packs what it reads
# A product that packs nothing looks between tasks of about this size whether to end early.
WATCHED_FLOPS = 1 << 28


@dataclass
class ProgramModule:
    """The LLVM module of a program, its segments, and the constants it wants pointers to."""

    module: ir.Module
    segments: list[str | Host]
    constants: list[Buffer]


def emit_program(program: LoopProgram, target: Target, threads: int | None = None) -> ProgramModule:
    """Generate code for all kernels; decides how much scratch they need behind the arena.

    `threads` is the most that any kernel may use.
    """
    module = ir.Module("wengert")
    module.triple = target.triple
    constants = _constants(program)
    emitter = _ProgramEmitter(module, target, program, constants, threads)
    segments: list[str | Host] = []
    for group in _segments(program.kernels):
        if isinstance(group, Host):
            segments.append(group)
        else:
            segments.append(emitter.segment(f"kernel{len(segments)}", group))
    program.scratch_bytes = emitter.held_bytes + emitter.scratch_bytes
    return ProgramModule(module, segments, constants)


def _constants(program: LoopProgram) -> list[Buffer]:
    found: dict[int, Buffer] = {}
    for kernel in program.kernels:
        for buffer in map(root, buffers_of(kernel)):
            if buffer.kind == "constant":
                found[id(buffer)] = buffer
    return list(found.values())


def _segments(kernels: Sequence[Kernel]) -> list[Any]:
    """Runs of native kernels, and the host operations between them."""
    groups: list[Any] = []
    for kernel in kernels:
        if isinstance(kernel, Host):
            groups.append(kernel)
        elif groups and isinstance(groups[-1], list):
            groups[-1].append(kernel)
        else:
            groups.append([kernel])
    return groups or [[]]


class _Product(NamedTuple):
    """The code of a product: its function, and what it needs."""

    name: str
    scratch: int  # bytes for each worker
    unfinished: int  # bytes for sums in blocks, for all workers together
    units: int  # that can be shared out


class _ProgramEmitter:
    """Emits the kernels of one program."""

    def __init__(
        self,
        module: ir.Module,
        target: Target,
        program: LoopProgram,
        constants: list[Buffer],
        threads: int | None,
    ):
        self.module = module
        self.target, self.threads, self.program = target, threads, program
        self.watched = {id(kernel) for kernel in program.kernels[: program.watched]}
        buffers = [*program.inputs, *program.outputs, *constants]
        self.slots = {id(buffer): number for number, buffer in enumerate(buffers)}
        if program.length is not None:  # after the room, if there is one: see `runtime.builtin`
            self.slots[id(program.length)] = len(buffers) + bool(program.room_bytes)
        self.room = len(buffers)
        self.held = self._places_held(program.kernels)
        self.scratch_start = program.planned_bytes + self.held_bytes
        self.scratch_bytes = 0
        self.products: dict[Any, _Product] = {}
        self.repeated = repeated_forms(program.kernels)
        self.bodies: dict[Any, ir.Function] = {}

    def _places_held(self, kernels: Sequence[Kernel]) -> dict[int, int]:
        """Where in the arena products find what was prepared before the loop that they are in:
        for all loops of blocks, and for this program where it is the body of a loop itself."""
        self.held_bytes = 0
        places: dict[int, int] = {}
        inside = [k for loop in kernels if isinstance(loop, BlockLoop) for k in loop.body]
        for kernel in [*kernels, *inside]:
            size = held_bytes(kernel, self.target) if isinstance(kernel, Contraction) else 0
            if size:
                places[id(kernel)] = self.program.planned_bytes + self.held_bytes
                self.held_bytes += _rounded(size)
        return places

    def preparation(self, name: str, kernels: Sequence[Kernel]) -> ir.Function | None:
        """`void name(buffers, arena)`: prepare what these products hold; None: nothing."""
        held = [k for k in kernels if isinstance(k, Contraction) and id(k) in self.held]
        if not held:
            return None
        function = self._function(name, [PTR, PTR])
        builder = ir.IRBuilder(function.append_basic_block())
        pointers = self._pointers(builder, function.args)
        for number, kernel in enumerate(held):
            product = self._product(f"{name}{number}", kernel, False)
            buffer, first = held_factor(kernel, self.target)
            factor = _moved(builder, pointers(buffer), first * buffer.dtype.itemsize)
            place = _moved(builder, pointers.arena, self.held[id(kernel)])
            builder.call(self.module.globals[prepare_name(product.name)], [place, factor])
        builder.ret_void()
        return function

    def segment(self, name: str, kernels: Sequence[Kernel]) -> str:
        """`i32 name(buffers, arena)`: the kernels one after the other."""
        function = ir.Function(self.module, ir.FunctionType(I32, [PTR, PTR]), name)
        builder = ir.IRBuilder(function.append_basic_block())
        pointers = self._pointers(builder, function.args)
        if self.program.length is not None:
            self._check_length(builder, self.program.length, pointers)
        watch, unwatched = None, 0
        if any(id(kernel) in self.watched for kernel in kernels):
            watch = start_watch(builder)
        for number, kernel in enumerate(kernels):
            if isinstance(kernel, Check):
                _emit_check(builder, kernel, pointers)
                continue
            cost = kernel_cost(kernel)
            is_watched = id(kernel) in self.watched
            may_be_long = cost >= WATCH_COST or getattr(kernel, "length", None) is not None
            own = [watch] if is_watched and may_be_long else []
            code = builder.call(
                self._kernel(f"{name}.{number}", kernel, bool(own)), [*function.args, *own]
            )
            if isinstance(kernel, Repeat) and has_checks(kernel):
                with builder.if_then(_is_error(builder, code), likely=False):
                    builder.ret(code)
            unwatched += cost
            if own or (is_watched and unwatched >= WATCH_COST):
                unwatched = 0
                with builder.if_then(stopped(builder, watch), likely=False):
                    builder.ret(ir.Constant(I32, INTERRUPTED))
        builder.ret(ir.Constant(I32, 0))
        return name

    def _pointers(
        self,
        builder: ir.IRBuilder,
        args: Sequence[ir.Value],
        slots: dict[int, int] | None = None,
        local: ir.Value | None = None,
        counters: dict[Var, ir.Value] | None = None,
    ) -> _Pointers:
        """Pointers to the memory of the program's buffers, or to that in a table of its own."""
        room = None if self.program.length is None else (self.room, self.program.length)
        found = _Pointers(builder, args, slots or self.slots, local, counters, room)
        found.own_table = found.slots is self.slots
        return found

    def _check_length(self, builder: ir.IRBuilder, buffer: Buffer, pointers: _Pointers) -> None:
        """Return a code where the room is too small, or where there is no answer for nothing."""
        length = builder.load(pointers(buffer), typ=I64)
        if self.program.room_bytes:
            needed = builder.mul(_room_length(builder, length), _i64(self.program.room_bytes))
            capacity = builder.load(pointers.word(self.room), typ=I64)
            short = builder.icmp_signed("<", capacity, needed)
            with builder.if_then(short, likely=False):
                builder.ret(ir.Constant(I32, ROOM_TOO_SMALL))
        if _needs_elements(self.program):
            none = builder.icmp_signed("==", length, _i64(0))
            with builder.if_then(none, likely=False):
                builder.ret(ir.Constant(I32, NO_ELEMENTS))

    def _kernel(self, name: str, kernel: Kernel, watched: bool) -> ir.Function:
        """`void name(buffers, arena)`, and a watch if it is to end early when that says so."""
        if isinstance(kernel, Repeat):
            return self._repeat(name, kernel, watched)
        if id(kernel) not in self.repeated or id(kernel) in self.held:
            return self._body(name, kernel, watched, self.slots)
        form, roots = self.repeated[id(kernel)]
        if (form, watched) not in self.bodies:
            slots = {id(buffer): number for number, buffer in enumerate(roots)}
            self.bodies[form, watched] = self._body(f"{name}.form", kernel, watched, slots)
        function = self._function(name, [PTR] * (3 if watched else 2))
        builder = ir.IRBuilder(function.append_basic_block())
        pointers = self._pointers(builder, function.args[:2])
        table = _table(builder, [pointers(buffer) for buffer in roots])
        builder.call(self.bodies[form, watched], [table, *function.args[1:]])
        builder.ret_void()
        return function

    def _body(self, name: str, kernel: Kernel, watched: bool, slots: dict[int, int]) -> ir.Function:
        """The function of a kernel; `slots` say where in `buffers` its memory is found."""
        function = self._function(name, [PTR] * (3 if watched else 2))
        builder = ir.IRBuilder(function.append_basic_block())
        watch = function.args[2] if watched else None
        pointers = self._pointers(builder, function.args[:2], slots)
        if isinstance(kernel, Contraction):
            self._contraction(builder, name, kernel, pointers, watch)
        elif isinstance(kernel, ParallelNest):
            task = self._nest_task(name, kernel, watched, slots)
            count = kernel.task.extent + (kernel.rest is not None)
            self._share_out(builder, task, list(function.args[:2]), count, watch)
            self._nests(builder, kernel.joins, pointers, watch)
        elif isinstance(kernel, BlockLoop):
            self._block_loop(builder, name, kernel, list(function.args[:2]), watch)
        else:
            assert isinstance(kernel, Nest)
            self._nests(builder, [kernel], pointers, watch)
        builder.ret_void()
        return function

    # ------------------------------------------------------------ the batch loop

    def _block_loop(
        self,
        builder: ir.IRBuilder,
        name: str,
        kernel: BlockLoop,
        args: list[ir.Value],
        watch: ir.Value | None,
    ) -> None:
        """Groups of blocks shared out to threads, then what joins their sums."""
        body = [self._inside(f"{name}.in{n}", kernel, part) for n, part in enumerate(kernel.body)]
        fills = [self._inside(f"{name}.fill{n}", kernel, p) for n, p in enumerate(kernel.fills)]
        scratch = max((bytes_ for _, bytes_ in body), default=0)
        own = _rounded(kernel.planned_bytes + scratch)
        workers = min(MAX_WORKERS, available_cores(), kernel.groups, self.threads or MAX_WORKERS)
        self.scratch_bytes = max(self.scratch_bytes, own * workers)
        task = self._block_task(name, kernel, fills, body, own, watch is not None)
        prepare = self.preparation(f"{name}.prepare", kernel.body)
        if prepare is not None:
            builder.call(prepare, args)
        if kernel.length is None:
            self._share_out(builder, task, args, kernel.groups, watch, workers)
        else:
            extent = builder.load(self._pointers(builder, args)(kernel.length), typ=I64)
            work = builder.mul(extent, _i64(max(kernel.cost, 1)))
            little = builder.icmp_signed("<", work, _i64(WORTH_WAKING))
            with builder.if_else(little) as (alone, together):
                with alone:
                    _one_by_one(builder, task, args, kernel.groups, watch)
                with together:
                    self._share_out(builder, task, args, kernel.groups, watch, workers)
        for number, join in enumerate(kernel.joins):
            builder.call(self._kernel(f"{name}.join{number}", join, False), args)

    def _block_task(
        self,
        name: str,
        kernel: BlockLoop,
        fills: Sequence[tuple[ir.Function, int]],
        body: Sequence[tuple[ir.Function, int]],
        own: int,
        watched: bool,
    ) -> ir.Function:
        """`void name.task(context, group, worker)`: the blocks of one group, one after another."""
        function = self._function(f"{name}.task", [PTR, I64, I64])
        b = ir.IRBuilder(function.append_basic_block())
        context, group, worker = function.args
        *words, watch = _words(b, context, 3) if watched else [*_words(b, context, 2), None]
        place = b.add(b.mul(worker, _i64(own)), _i64(self.scratch_start))
        local = b.gep(words[1], [place], source_etype=ir.IntType(8))
        for fill, _ in fills:
            b.call(fill, [*words, local, group, _i64(0), _i64(0)])
        extent: ir.Value = _i64(kernel.extent)
        blocks: ir.Value = _i64(kernel.blocks)
        if kernel.length is not None:
            extent = b.load(self._pointers(b, words)(kernel.length), typ=I64)
            blocks = b.udiv(b.add(extent, _i64(kernel.width - 1)), _i64(kernel.width))
        first, last = (
            b.udiv(b.mul(number, blocks), _i64(kernel.groups))
            for number in (group, b.add(group, _i64(1)))
        )

        def one(block: ir.Value) -> None:
            if watched:
                self._look(b, kernel, block, watch)
            left = b.sub(extent, b.mul(block, _i64(kernel.width)))
            whole = b.icmp_signed("<", _i64(kernel.width), left)
            live = b.select(whole, _i64(kernel.width), left)
            for part, _ in body:
                b.call(part, [*words, local, group, block, live])

        counted_loop(b, first, last, 1, one)
        b.ret_void()
        return function

    def _look(
        self, builder: ir.IRBuilder, kernel: BlockLoop, block: ir.Value, watch: ir.Value
    ) -> None:
        """See whether to end early: at every block, or where these are cheap at some of them."""
        period = 1
        if kernel.length is not None:
            cost = sum(map(kernel_cost, kernel.body))
            period = 1 << (WATCH_COST // max(cost, 1)).bit_length()
        leave_if_stopped(builder, watch, (block, period))

    def _inside(self, name: str, loop: BlockLoop, kernel: Kernel) -> tuple[ir.Function, int]:
        """`void name(buffers, arena, own arena, group, block, live)`, and the scratch it needs."""
        function = self._function(name, [PTR, PTR, PTR, I64, I64, I64])
        builder = ir.IRBuilder(function.append_basic_block())
        *_, local, group, block, live = function.args
        counters = {loop.group: group, loop.block: block, loop.live: live}
        pointers = self._pointers(builder, function.args[:2], None, local, counters)
        scratch = 0
        if isinstance(kernel, Contraction):
            room = _moved(builder, local, loop.planned_bytes)
            scratch = self._product_inside(builder, name, loop, kernel, pointers, room)
        elif isinstance(kernel, Transfer):
            outer, near = pointers(kernel.outer), pointers(kernel.inner)
            length = None
            if kernel.scaled:
                assert self.program.length is not None
                length = builder.load(pointers(self.program.length), typ=I64)
            emit_transfer(builder, kernel, outer, near, live, length)
        else:
            assert isinstance(kernel, Nest)
            self._nests(builder, [kernel], pointers, counters=counters)
        builder.ret_void()
        return function, scratch

    def _product_inside(
        self,
        builder: ir.IRBuilder,
        name: str,
        loop: BlockLoop,
        kernel: Contraction,
        pointers: _Pointers,
        room: ir.Value,
    ) -> int:
        """A product of a block; the first block of a group may begin its sums."""
        later = self._product(name, kernel, False)
        args = self._product_arguments(builder, kernel, pointers, room, later.unfinished)
        scratch = later.unfinished + later.scratch
        if not kernel.begins:
            builder.call(self.module.globals[later.name], args)
            return scratch
        alone = replace(kernel, accumulates=False, begins=False)
        begin = self._product(f"{name}.begin", alone, False)
        group, block = (pointers.counters[var] for var in (loop.group, loop.block))
        first = builder.udiv(builder.mul(group, _i64(loop.blocks)), _i64(loop.groups))
        with builder.if_else(builder.icmp_signed("==", block, first)) as (then, otherwise):
            with then:
                others = self._product_arguments(builder, alone, pointers, room, begin.unfinished)
                builder.call(self.module.globals[begin.name], others)
            with otherwise:
                builder.call(self.module.globals[later.name], args)
        return max(scratch, begin.unfinished + begin.scratch)

    # ------------------------------------------------------------ loops with a program inside

    def _repeat(self, name: str, kernel: Repeat, watched: bool) -> ir.Function:
        """`i32 name(buffers, arena)`: a loop that calls the body with a table of its buffers."""
        last = [PTR] * watched
        part, room = self._repeated_part(name, kernel, kernel.body, last)
        if kernel.wider is not None:
            wider, more = self._repeated_part(f"{name}.wider", kernel, kernel.wider, last)
            part, room = self._either_part(name, kernel, part, wider), max(room, more)
        workers = min(MAX_WORKERS, available_cores(), kernel.parts, self.threads or MAX_WORKERS)
        self.scratch_bytes = max(self.scratch_bytes, room * workers)
        function = self._function(name, [PTR, PTR, *last], I32)
        builder = ir.IRBuilder(function.append_basic_block())
        buffers, arena, *watch = function.args
        if kernel.parts == 1:
            place = _moved(builder, arena, self.scratch_start)
            builder.ret(builder.call(part, [buffers, arena, place, _i64(0), *watch]))
            return function
        code = builder.alloca(I32)
        builder.store(ir.Constant(I32, 0), code)
        task = self._part_task(name, part, room)
        words = [buffers, arena, code]
        self._share_out(builder, task, words, kernel.parts, watch[0] if watched else None, workers)
        builder.ret(builder.load(code, typ=I32))
        return function

    def _repeated_part(
        self, name: str, kernel: Repeat, body: LoopProgram, last: Sequence[ir.Type]
    ) -> tuple[ir.Function, int]:
        """`i32 name.part(buffers, arena, room, part)`: all steps of one part, and the bytes of the
        room that it needs."""
        constants = _constants(body)
        threads = 1 if kernel.parts > 1 else self.threads  # parts are shared out already
        inner = _ProgramEmitter(self.module, self.target, body, constants, threads)
        step = self.module.globals[inner.segment(f"{name}.step", body.kernels)]
        step.linkage = "internal"
        part = self._function(f"{name}.part", [PTR, PTR, PTR, I64, *last], I32)
        builder = ir.IRBuilder(part.append_basic_block())
        pointers = self._pointers(builder, part.args[:2])
        prepare = inner.preparation(f"{name}.prepare", body.kernels)
        emit_repeat(builder, kernel, pointers, step, [pointers(c) for c in constants], prepare)
        return part, _rounded(body.planned_bytes + inner.held_bytes + inner.scratch_bytes)

    def _either_part(
        self, name: str, kernel: Repeat, part: ir.Function, wider: ir.Function
    ) -> ir.Function:
        """The part with the body for its width."""
        function = self._function(f"{name}.any", part.function_type.args, I32)
        builder = ir.IRBuilder(function.append_basic_block())
        is_wide = builder.icmp_signed("<", function.args[3], _i64(kernel.wide))
        with builder.if_then(is_wide):
            builder.ret(builder.call(wider, function.args))
        builder.ret(builder.call(part, function.args))
        return function

    def _part_task(self, name: str, part: ir.Function, room: int) -> ir.Function:
        """`void name.task(context, part, worker)`: all steps for one part of the samples."""
        function = self._function(f"{name}.task", [PTR, I64, I64])
        b = ir.IRBuilder(function.append_basic_block())
        context, number, worker = function.args
        buffers, arena, code, *watch = _words(b, context, len(part.args) - 1)
        place = b.add(b.mul(worker, _i64(room)), _i64(self.scratch_start))
        own = b.gep(arena, [place], source_etype=ir.IntType(8))
        found = b.call(part, [buffers, arena, own, number, *watch])
        with b.if_then(_is_error(b, found), likely=False):
            b.store(found, code)
        b.ret_void()
        return function

    def _function(
        self, name: str, arguments: Sequence[ir.Type], result: ir.Type | None = None
    ) -> ir.Function:
        kind = ir.FunctionType(result or ir.VoidType(), arguments)
        function = ir.Function(self.module, kind, name)
        function.linkage = "internal"
        return function

    def _nests(
        self,
        builder: ir.IRBuilder,
        nests: Sequence[Nest],
        pointers: _Pointers,
        watch: ir.Value | None = None,
        counters: dict[Var, ir.Value] | None = None,
    ) -> None:
        for nest in nests:
            for buffer in buffers_of(nest):
                pointers(buffer)
        for nest in nests:
            grid = None if counters or watch is not None else grid_of(nest, self.target)
            if grid is not None:
                emit_flat(builder, nest, grid, self.target, pointers)
            else:
                NestEmitter(builder, self.target, pointers, counters, watch).emit(nest)

    def _nest_task(
        self, name: str, kernel: ParallelNest, watched: bool, slots: dict[int, int]
    ) -> ir.Function:
        """`void name.task(context, task, worker)`; the context holds buffers, arena and watch."""
        function = self._function(f"{name}.task", [PTR, I64, I64])
        builder = ir.IRBuilder(function.append_basic_block())
        context, number, _ = function.args
        buffers, arena, *rest = _words(builder, context, 3 if watched else 2)
        watch = rest[0] if watched else None
        if watched:
            leave_if_stopped(builder, watch)
        pointers = self._pointers(builder, [buffers, arena], slots)
        for buffer in buffers_of(kernel.body):
            pointers(buffer)
        given = {kernel.task: number}
        if kernel.rest is None:
            NestEmitter(builder, self.target, pointers, given, watch).emit(kernel.body)
        else:
            whole = builder.icmp_signed("<", number, ir.Constant(I64, kernel.task.extent))
            with builder.if_else(whole) as (then, otherwise):
                with then:
                    NestEmitter(builder, self.target, pointers, given, watch).emit(kernel.body)
                with otherwise:
                    NestEmitter(builder, self.target, pointers, None, watch).emit(kernel.rest)
        builder.ret_void()
        return function

    def _contraction(
        self,
        builder: ir.IRBuilder,
        name: str,
        kernel: Contraction,
        pointers: _Pointers,
        watch: ir.Value | None,
    ) -> None:
        """A product: on one thread, or its units shared out to several."""
        watched = watch is not None
        product = self._product(name, kernel, watched)
        workers = min(MAX_WORKERS, available_cores(), self.threads or MAX_WORKERS)
        shared = is_shared(kernel) and product.units > 1 and workers > 1
        workers = workers if shared else 1
        needed = product.unfinished + product.scratch * workers
        self.scratch_bytes = max(self.scratch_bytes, needed)
        room = _moved(builder, pointers.arena, self.scratch_start)
        args = self._product_arguments(builder, kernel, pointers, room, product.unfinished)
        if not shared:
            function = self.module.globals[product.name]
            builder.call(function, args if watch is None else [*args, watch])
            return
        tasks = workers
        if not is_packed(kernel, self.target):
            tasks *= TASKS_PER_WORKER
            if watched:
                tasks = max(tasks, flops(kernel) // WATCHED_FLOPS)
        tasks = min(product.units, tasks)
        task = self._contraction_task(name, product, tasks, watched)
        self._share_out(builder, task, args, tasks, watch, workers)

    def _product_arguments(
        self,
        builder: ir.IRBuilder,
        kernel: Contraction,
        pointers: _Pointers,
        room: ir.Value,
        unfinished: int,
    ) -> list[ir.Value]:
        """What the function of a product gets; `room` begins with the bytes for unfinished sums."""
        accesses = [(kernel.x, kernel.x_offset), (kernel.y, kernel.y_offset)]
        accesses += [(buffer, at.constant) for buffer, at in kernel.accesses()]
        x, y, *others = [
            _moved(builder, pointers(buffer), first * buffer.dtype.itemsize)
            for buffer, first in accesses
        ]
        out = pointers(kernel.out) if kernel.keeps_sums else room
        if id(kernel) in self.held:
            others.insert(0, _moved(builder, pointers.arena, self.held[id(kernel)]))
        return [out, x, y, _moved(builder, room, unfinished), *others]

    def _product(self, name: str, kernel: Contraction, watched: bool) -> _Product:
        """The code of a product; products of the same form have one."""
        strides = (kernel.out_strides, kernel.x_strides, kernel.y_strides)
        dtypes = (kernel.out.dtype, kernel.x.dtype, kernel.y.dtype)
        key = [*kernel.extents.items(), *(tuple(one.items()) for one in strides), *dtypes]
        form = (*key, kernel.accumulates, watched, kernel.keeps_sums, kernel.steady,
                form_of_values(kernel))  # fmt: skip
        if form not in self.products:
            inner = f"{name}.product"
            plain = not watched and id(kernel) not in self.held
            small = unrolled_form(kernel, self.target) if plain else None
            if small is not None:
                emit_unrolled(self.module, self.target, kernel, small, inner)
                self.products[form] = _Product(inner, 0, 0, 1)
                return self.products[form]
            scratch = emit_contraction(self.module, self.target, kernel, inner, watched=watched)
            unfinished = _rounded(unfinished_bytes(kernel, self.target))
            total = units(kernel, self.target)
            self.products[form] = _Product(inner, _rounded(scratch), unfinished, total)
        return self.products[form]

    def _contraction_task(
        self, name: str, product: _Product, tasks: int, watched: bool
    ) -> ir.Function:
        """`void name.task(context, task, worker)`: a range of the units of a product."""
        function = self._function(f"{name}.task", [PTR, I64, I64])
        builder = ir.IRBuilder(function.append_basic_block())
        context, number, worker = function.args
        part = self.module.globals[part_name(product.name)]
        out, x, y, space, *more = _words(builder, context, len(part.args) - 2)
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
        context = _table(builder, [*words, *([] if watch is None else [watch])])
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


def _emit_check(builder: ir.IRBuilder, kernel: Check, pointers: _Pointers) -> None:
    flag = builder.load(pointers(kernel.flag), typ=ir.IntType(8))
    wrong = builder.icmp_unsigned("==", flag, ir.Constant(ir.IntType(8), 0))
    with builder.if_then(wrong, likely=False):
        builder.ret(ir.Constant(I32, kernel.code))


def _is_error(builder: ir.IRBuilder, code: ir.Value) -> ir.Value:
    return builder.icmp_signed("!=", code, ir.Constant(I32, 0))


def _i64(value: int) -> ir.Constant:
    return ir.Constant(I64, value)


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _moved(builder: ir.IRBuilder, pointer: ir.Value, offset: int) -> ir.Value:
    if not offset:
        return pointer
    return builder.gep(pointer, [ir.Constant(I64, offset)], source_etype=ir.IntType(8))


def _table(builder: ir.IRBuilder, words: Sequence[ir.Value]) -> ir.Value:
    """An array of pointers on the stack."""
    table = builder.alloca(PTR, size=ir.Constant(I64, len(words)))
    for number, word in enumerate(words):
        place = builder.gep(table, [ir.Constant(I64, number)], source_etype=PTR)
        builder.store(word, place)
    return table


def _words(builder: ir.IRBuilder, context: ir.Value, count: int) -> list[ir.Value]:
    """The pointers that a context holds."""
    places = [
        builder.gep(context, [ir.Constant(I64, k)], source_etype=PTR) if k else context
        for k in range(count)
    ]
    return [builder.load(place, typ=PTR) for place in places]


def _one_by_one(
    builder: ir.IRBuilder,
    task: ir.Function,
    words: Sequence[ir.Value],
    count: int,
    watch: ir.Value | None,
) -> None:
    """Run the tasks on this thread alone."""
    context = _table(builder, [*words, *([] if watch is None else [watch])])
    counted_loop(
        builder, 0, count, 1, lambda number: builder.call(task, [context, number, _i64(0)])
    )


def _room_length(builder: ir.IRBuilder, length: ir.Value) -> ir.Value:
    """The length for which the room is laid out."""
    return builder.and_(builder.add(length, _i64(ROOM_GRAIN - 1)), _i64(-ROOM_GRAIN))


def _needs_elements(program: LoopProgram) -> bool:
    """Whether something is the largest or smallest of all along the axis of any length."""
    loops = [kernel for kernel in program.kernels if isinstance(kernel, BlockLoop)]
    joins = [nest for loop in loops for join in loop.joins for nest in _nests_of(join)]
    return any(store.combine in ("maximum", "minimum") for nest in joins for store in nest.stores)


def _nests_of(kernel: Kernel) -> list[Nest]:
    return kernel.parts() if isinstance(kernel, ParallelNest) else [kernel]  # type: ignore[list-item]


class _Pointers:
    """The data pointers of buffers, loaded once at the head of a kernel."""

    def __init__(
        self,
        builder: ir.IRBuilder,
        args: Sequence[ir.Value],
        slots: dict[int, int],
        local: ir.Value | None = None,
        counters: dict[Var, ir.Value] | None = None,
        room: tuple[int, Buffer] | None = None,
    ):
        self.builder = builder
        self.buffers, self.arena = args
        self.slots = slots
        self.room = room  # its slot, and the length that it grows with
        self.own_table = True  # whether `buffers` is the table of the whole program
        self.local = local  # the arena of the worker, in a batch loop
        self.counters = counters or {}
        self.known: dict[int, ir.Value] = {}

    def __call__(self, buffer: Buffer) -> ir.Value:
        found = self.known.get(id(buffer))
        if found is None:
            found = self._load(buffer) if buffer.base is None else self._view(buffer)
            self.known[id(buffer)] = found
        return found

    def _view(self, buffer: Buffer) -> ir.Value:
        assert buffer.base is not None
        pointer, size = self(buffer.base), buffer.dtype.itemsize
        pointer = _moved(self.builder, pointer, buffer.start.constant * size)
        for var, step in buffer.start.terms:
            offset = self.builder.mul(self.counters[var], _i64(step * size))
            pointer = self.builder.gep(pointer, [offset], source_etype=ir.IntType(8))
        return pointer

    def _load(self, buffer: Buffer) -> ir.Value:
        if buffer.kind == "room":
            return self._in_room(buffer)
        number = self.slots.get(id(buffer))
        if number is None:
            assert buffer.kind in ("arena", "block")
            arena = self.arena if buffer.kind == "arena" else self.local
            return _moved(self.builder, arena, buffer.offset)
        # the length is no pointer: it is in the slot itself, but not in the table of a form
        return (
            self._slot(number) if buffer.kind == "length" and self.own_table else self.word(number)
        )

    def _slot(self, number: int) -> ir.Value:
        return self.builder.gep(self.buffers, [_i64(number)], source_etype=PTR)

    def word(self, number: int) -> ir.Value:
        """The pointer in a slot."""
        return self.builder.load(self._slot(number), typ=PTR)

    def _in_room(self, buffer: Buffer) -> ir.Value:
        assert self.room is not None
        b, (slot, length) = self.builder, self.room
        units = _room_length(b, b.load(self(length), typ=I64))
        place = b.gep(self.word(slot), [_i64(1)], source_etype=I64)  # behind its capacity
        start = b.load(place, typ=PTR)
        return b.gep(start, [b.mul(units, _i64(buffer.offset))], source_etype=ir.IntType(8))
