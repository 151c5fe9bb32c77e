"""The operations that a loop becomes once an iteration is traced: a `scan`, or a `while`.

A `scan` goes over indices that are known. What an iteration reads at places that these tell, and
the arrays that it fills place by place, are rows that the `scan` goes along and leaves behind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..graph import Constant, Node, Operator, Variable
from ..ops import elementwise as ew
from ..transforms.bodies import Body
from ..types import type_of
from .histories import History, early_rows, history
from .independent import run_turns
from .known_numbers import KnownNumbers
from .pieces import Abandon, captured, closed
from .reads import known_reads, read_rows
from .repeats import COUNT, Turns
from .values import UNDEFINED, is_abstract


def as_scan(turns: Turns, rows: np.ndarray, last: Any) -> None:
    """A loop over known indices."""
    turns.rows = rows
    turns.trace()
    first = turns.start()
    every = [*turns.outputs, *turns.appended]
    read = [value for value, _ in captured(every).values()]
    if not any(map(is_abstract, [*read, *first])):
        raise Abandon  # all of it is known: Python computes it
    final = KnownNumbers(turns).after(rows)
    told = _histories(turns, rows)
    kept = [k for k in range(len(first)) if k not in told]
    reads: list[tuple[Node, Any]] = [
        (node, read_rows(node, turns.index, rows)) for node in known_reads(every, turns.index)
    ]
    carry = [(turns.inputs[k], turns.outputs[k], first[k]) for k in kept]
    same: dict[int, Node] = {}
    for k, one in told.items():
        reads += early_rows(first[k], one)
        carry += _carried_on(one, turns.arrays[k], same)
    outputs = [after for _, after, _ in carry] + [one.value for one in told.values()]
    outputs += turns.appended
    inputs = [*[before for before, _, _ in carry], turns.index, *[node for node, _ in reads]]
    groups = captured(outputs, inputs, same)
    keys = list(groups)
    types = {key: type_of(value) for key, (value, _) in groups.items()}
    body = Body(closed(outputs, inputs, keys, groups, types, same), len(keys), len(carry))
    given = [groups[key][0] for key in keys] + [start for _, _, start in carry]
    rest = [rows, *[taken for _, taken in reads]]
    found = run_turns([*given, *rest], body, len(rows))
    results = dict(zip(kept, found, strict=False))
    for (k, one), written in zip(told.items(), found[len(carry) :], strict=False):
        results[k] = one.filled(first[k], written)
    turns.settle([results[k] for k in range(len(first))])
    written = iter(found[len(carry) + len(told) :])
    for grown in turns.growing:
        grown._extend([next(written) for _ in grown._types], len(rows))
    turns.finish([final.get(k, results[k]) for k in range(len(first))], last)


def _histories(turns: Turns, rows: np.ndarray) -> dict[int, History]:
    """The arrays that are filled place by place, by their number among what is carried."""
    found = {}
    for k in range(len(turns.arrays)):
        every = [*turns.outputs, *turns.appended]
        one = history(turns.inputs[k], turns.outputs[k], every, turns.index, rows)
        if one is not None:
            found[k] = one
    return found


def as_while(turns: Turns, test: Callable[[Any], Any], count: bool) -> None:
    """A loop that ends by a condition of the index, which is carried if `count` is set."""
    from ..transforms.repetition import Turn, while_op

    turns.trace()
    asked, condition_inputs, condition_index = turns.condition(test)
    if turns.attempt and not count:
        numbers = KnownNumbers(turns)
        if numbers.decide(asked, condition_inputs, condition_index):
            rows = numbers.counted(asked, condition_inputs, condition_index)
            as_scan(turns, rows, UNDEFINED)
            return
    if turns.growing or any(held.has_arrays for held in turns.held):
        raise Abandon  # nobody knows how long the list will be, or whether there is a turn
    turns.check_in_place()
    body_groups, test_groups = captured(turns.outputs), captured([asked])
    values = {k: v for group in (body_groups, test_groups) for k, (v, _) in group.items()}
    keys = list(values)
    types = {key: type_of(value) for key, value in values.items()}
    following = Operator(ew.add, (turns.index, Constant(np.int64(1))), {}, None, COUNT)
    outputs = [*turns.outputs, *([following] if count else [])]
    inputs = [*turns.inputs, *([turns.index] if count else [])]
    asks = [*condition_inputs, *([condition_index] if count else [])]
    first = [*turns.start(), *([np.int64(0)] if count else [])]
    body = Body(closed(outputs, inputs, keys, body_groups, types), len(keys), len(first))
    condition = Body(closed([asked], asks, keys, test_groups, types), 0, 0)
    results = while_op(*[values[key] for key in keys], *first, turn=Turn(condition, body))
    turns.settle(results[: len(turns.types)])
    turns.finish(results[: len(turns.types)])


def _carried_on(one: History, array: Any, same: dict[int, Node]) -> list[tuple[Node, Node, Any]]:
    """What is carried in place of an array: the last values written, before and after a turn, and
    at first. Reads of these are put into `same`."""
    held = [Variable("", None, one.type, active=False) for _ in range(one.length)]
    for node, distance in one.reads.values():
        same[node.serial] = held[distance - 1] if distance else one.value
    return list(zip(held, [one.value, *held][: one.length], one.starts(array), strict=True))
