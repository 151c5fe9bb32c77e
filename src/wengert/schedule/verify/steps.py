"""Where the arrays of a loop's body lie outside: what a loop reads, and where it leaves results."""

from __future__ import annotations

from ...loops import Affine, Buffer, Repeat, Rows
from .accesses import in_memory
from .places import Places, of_buffer

# A part of the memory outside, and the places there.
Placed = tuple[Rows, Places]


def owner_of(rows: Rows) -> Buffer:
    """The buffer that owns the memory."""
    return in_memory(rows.buffer, Affine(0))[0]


def rows_of(loop: Repeat, part: int) -> tuple[list[Placed], list[Placed]]:
    """Where one part of a loop reads what was there before, and where it leaves results."""
    body = loop.body if loop.wider is None or part >= loop.wide else loop.wider
    sample = part * loop.width + min(part, loop.wide)
    last = loop.steps - 1

    def placed(rows: Rows, like: Buffer, first: int = 0, count: int = 1) -> Placed:
        start = in_memory(rows.buffer, Affine(0))[1].constant
        start += sample * rows.sample + part * rows.part + first * rows.stride
        places = of_buffer(like, start, [(rows.stride, count)])
        assert places is not None
        return rows, places

    carries, results = len(loop.carries), len(loop.results)
    inside = iter(body.inputs)
    read = [placed(rows, next(inside)) for rows in loop.fixed]
    written: list[Placed] = []
    for carry, before, after in zip(loop.carries, inside, body.outputs, strict=False):
        if carry.rows is not None and carry.ahead:
            read.append(placed(carry.rows, before, last if loop.reverse else 0))
        else:
            read.append(placed(carry.start, before))
        if carry.rows is not None and not carry.ahead:
            written.append(placed(carry.rows, after, 0, loop.steps))
            continue
        written.append(placed(carry.end, after))
        if carry.rows is not None and last:
            written.append(placed(carry.rows, after, 0 if loop.reverse else 1, last))
        elif last:
            written += [placed(rows, after) for rows in carry.spare]
    first_row = len(loop.fixed) + carries
    for rows, like in zip(loop.rows, body.inputs[first_row:], strict=True):
        read.append(placed(rows, like, 0, loop.steps))
    for rows, like in zip(loop.results, body.outputs[carries:], strict=False):
        written.append(placed(rows, like, 0, loop.steps))
    for rows, like in zip(loop.totals, body.outputs[carries + results :], strict=True):
        written.append(placed(rows, like))
    return read, written
