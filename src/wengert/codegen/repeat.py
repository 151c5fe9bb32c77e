"""Loops whose body is a program: a table of the body's buffers, filled anew for each step.

The body is a function `i32 step(buffers, arena)`, compiled once. What changes from step to step is
where its buffers lie: rows move on by a stride, and a carry is read from where the step before
has written it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from ..loops import Buffer, Carried, Repeat, Rows, has_checks
from ..machine import policy
from ..schedule.cost import kernel_cost
from .counted import counted_loop
from .interrupts import stopped
from .memory import Memory

I8, I32, I64, PTR = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.PointerType()

_LINE = 64  # bytes

Pointers = Callable[[Buffer], ir.Value]


def emit_repeat(
    builder: ir.IRBuilder,
    kernel: Repeat,
    pointers: Pointers,
    step: ir.Function,
    constants: Sequence[ir.Value],
) -> None:
    """The whole loop, as the function `i32 (buffers, arena, room, part)`, and a watch if it is to
    end early when that says so; the body's arena is the room.
    """
    _Repeater(builder, kernel, pointers, step).emit(constants)


class _Repeater:
    def __init__(
        self, builder: ir.IRBuilder, kernel: Repeat, pointers: Pointers, step: ir.Function
    ):
        self.builder, self.kernel, self.pointers, self.step = builder, kernel, pointers, step
        self.room, self.part, *self.watch = builder.function.args[2:]
        self.known: dict[int, ir.Value] = {}
        self.first_sample = self._first_sample()
        carries = len(kernel.carries)
        self.first_carry = len(kernel.fixed)
        self.first_row = self.first_carry + carries
        self.first_end = self.first_row + len(kernel.rows)
        self.first_result = self.first_end + carries
        self.first_total = self.first_result + len(kernel.results)
        self.first_constant = self.first_total + len(kernel.totals)

    def emit(self, constants: Sequence[ir.Value]) -> None:
        """Set up the table, then loop."""
        builder, kernel = self.builder, self.kernel
        size = max(1, self.first_constant + len(constants))
        self.table = builder.alloca(PTR, size=ir.Constant(I64, size))
        for place in self._places():
            self._begin(place)  # worked out once, before the loop
        for number, place in enumerate(kernel.fixed):
            self._put(number, self._begin(place))
        for number, place in enumerate(kernel.totals):
            self._put(self.first_total + number, self._begin(place))
            self._clear(place)
        for number, pointer in enumerate(constants):
            self._put(self.first_constant + number, pointer)
        for number, carry in enumerate(kernel.carries):
            self._put(self.first_carry + number, self._start(carry))
        before = builder.block
        head = builder.append_basic_block("step")
        end = builder.append_basic_block("end")
        builder.branch(head)
        builder.position_at_end(head)
        number = builder.phi(I64)
        number.add_incoming(ir.Constant(I64, 0), before)
        if self.watch:
            self._leave_if_stopped(number)
        outs = self._fill(number)
        code = builder.call(self.step, [self.table, self.room])
        if has_checks(kernel):
            wrong = builder.icmp_signed("!=", code, ir.Constant(I32, 0))
            with builder.if_then(wrong, likely=False):
                builder.ret(code)
        for k, pointer in enumerate(outs):
            self._put(self.first_carry + k, pointer)
        following = builder.add(number, ir.Constant(I64, 1))
        number.add_incoming(following, builder.block)
        more = builder.icmp_signed("<", following, ir.Constant(I64, kernel.steps))
        builder.cbranch(more, head, end)
        builder.position_at_end(end)
        builder.ret(ir.Constant(I32, 0))

    def _first_sample(self) -> ir.Value:
        """The first sample of this part; those before have `width` samples, or one more."""
        builder, wide = self.builder, ir.Constant(I64, self.kernel.wide)
        before = builder.mul(self.part, ir.Constant(I64, self.kernel.width))
        if not self.kernel.wide:
            return before
        fewer = builder.icmp_signed("<", self.part, wide)
        return builder.add(before, builder.select(fewer, self.part, wide))

    def _clear(self, place: Rows) -> None:
        """Zeros in the memory of one total."""
        memory = Memory(self.builder, place.buffer.dtype)
        lanes = _LINE // place.buffer.dtype.itemsize
        whole = place.part - place.part % lanes
        begin = self._begin(place)
        vector = ir.Constant(ir.VectorType(memory.element, lanes), None)
        single = ir.Constant(memory.element, None)
        for value, start, stop in ((vector, 0, whole), (single, whole, place.part)):
            count = lanes if value is vector else 1

            def clear(at: ir.Value, value=value, count=count) -> None:
                memory.store(value, memory.at(begin, at), 1, count)

            counted_loop(self.builder, start, stop, count, clear)

    def _leave_if_stopped(self, number: ir.Value) -> None:
        """Return when the call is to end; asked only every so many steps where they are short."""
        builder = self.builder
        cost = max(1, sum(map(kernel_cost, self.kernel.body.kernels)))
        period = max(1, 1 << (policy().costs.watch_period // cost).bit_length())
        turn = builder.and_(number, ir.Constant(I64, period - 1))
        is_turn = builder.icmp_unsigned("==", turn, ir.Constant(I64, 0))
        with (
            builder.if_then(is_turn),
            builder.if_then(stopped(builder, self.watch[0]), likely=False),
        ):
            builder.ret(ir.Constant(I32, 0))

    def _fill(self, number: ir.Value) -> list[ir.Value]:
        """Point the table at this step's buffers; where the step will leave its carries."""
        kernel, row = self.kernel, number
        if kernel.reverse:
            row = self.builder.sub(ir.Constant(I64, kernel.steps - 1), number)
        for place, rows in enumerate(kernel.rows):
            self._put(self.first_row + place, self._row(rows, row))
        for place, rows in enumerate(kernel.results):
            self._put(self.first_result + place, self._row(rows, row))
        outs = [self._out(carry, number, row) for carry in kernel.carries]
        for place, pointer in enumerate(outs):
            self._put(self.first_end + place, pointer)
        return outs

    def _put(self, place: int, pointer: ir.Value) -> None:
        where = self.builder.gep(self.table, [ir.Constant(I64, place)], source_etype=PTR)
        self.builder.store(pointer, where)

    def _row(self, rows: Rows, row: ir.Value) -> ir.Value:
        stride = rows.stride * rows.buffer.dtype.itemsize
        offset = self.builder.mul(row, ir.Constant(I64, stride))
        return self.builder.gep(self._begin(rows), [offset], source_etype=I8)

    def _places(self) -> list[Rows]:
        kernel = self.kernel
        found = [*kernel.fixed, *kernel.rows, *kernel.results, *kernel.totals]
        for carry in kernel.carries:
            found += [carry.start, carry.end, *carry.spare]
            found += [] if carry.rows is None else [carry.rows]
        return found

    def _begin(self, place: Rows) -> ir.Value:
        """Where an array begins for this part of the samples, at row 0."""
        found = self.known.get(id(place))
        if found is None:
            found = self.pointers(place.buffer)
            for count, step in ((self.first_sample, place.sample), (self.part, place.part)):
                if step:
                    stride = ir.Constant(I64, step * place.buffer.dtype.itemsize)
                    offset = self.builder.mul(count, stride)
                    found = self.builder.gep(found, [offset], source_etype=I8)
            self.known[id(place)] = found
        return found

    def _start(self, carry: Carried) -> ir.Value:
        """Where the first step finds a carry."""
        if carry.rows is None or not carry.ahead:
            return self._begin(carry.start)
        first = self.kernel.steps - 1 if self.kernel.reverse else 0
        return self._row(carry.rows, ir.Constant(I64, first))

    def _out(self, carry: Carried, number: ir.Value, row: ir.Value) -> ir.Value:
        """Where this step leaves a carry."""
        builder = self.builder
        if carry.rows is not None and not carry.ahead:
            return self._row(carry.rows, row)
        if carry.rows is not None:
            next_row = builder.add(row, ir.Constant(I64, -1 if self.kernel.reverse else 1))
            between = self._row(carry.rows, next_row)
        else:
            one, other = map(self._begin, carry.spare)
            between = builder.select(builder.trunc(number, ir.IntType(1)), other, one)
        last = builder.icmp_signed("==", number, ir.Constant(I64, self.kernel.steps - 1))
        return builder.select(last, self._begin(carry.end), between)
