"""Loops: over a range of numbers, or as long as what they carry from turn to turn says."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from .llvm_types import as_i64, i64

Values = list[ir.Value]


def carried_loop(
    builder: ir.IRBuilder,
    values: Sequence[ir.Value],
    body: Callable[[Values], tuple[Values, ir.Value]],
    name: str = "loop",
    enters: ir.Value | None = None,
) -> Values:
    """body(values) gives those of the next turn and whether there is one; the last of them.

    The first turn is always taken, or where `enters` says so: then no values come out.
    """
    b = builder
    before, head = b.block, b.append_basic_block(name)
    done = None if enters is None else b.append_basic_block("after")
    if enters is None:
        b.branch(head)
    else:
        b.cbranch(enters, head, done)
    b.position_at_end(head)
    now = [b.phi(value.type) for value in values]
    following, more = body(now)
    for phi, first, value in zip(now, values, following, strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(value, b.block)
    if done is None:
        done = b.append_basic_block("after")
    b.cbranch(more, head, done)
    b.position_at_end(done)
    return following


def counted_loop(
    builder: ir.IRBuilder,
    start: int | ir.Value,
    stop: int | ir.Value,
    step: int,
    body: Callable[[ir.Value], object],
) -> None:
    """body(i) for i in range(start, stop, step); no loop is made where at most one turn is."""

    def turn(index: ir.Value, values: Values) -> Values:
        body(index)
        return values

    if not (isinstance(start, int) and isinstance(stop, int)):
        enters = builder.icmp_signed("<", as_i64(start), as_i64(stop))
        accumulating_loop(builder, start, stop, step, [], turn, enters)
    elif start < stop:
        accumulating_loop(builder, start, stop, step, [], turn)


def accumulating_loop(
    builder: ir.IRBuilder,
    start: int | ir.Value,
    stop: int | ir.Value | None,
    step: int,
    values: Sequence[ir.Value],
    body: Callable[[ir.Value, Values], Values],
    enters: ir.Value | None = None,
) -> Values:
    """values = body(i, values) for i in range(start, stop, step); the last values.

    The first turn is taken as in `carried_loop`; without a stop there is no other.
    """
    known = isinstance(start, int) and isinstance(stop, int)
    if stop is None or (known and stop - start <= step):
        return body(as_i64(start), list(values))
    end = as_i64(stop)

    def turn(now: Values) -> tuple[Values, ir.Value]:
        index, *carried = now
        after = body(index, carried)
        following = builder.add(index, i64(step))
        return [following, *after], builder.icmp_signed("<", following, end)

    return carried_loop(builder, [as_i64(start), *values], turn, enters=enters)[1:]
