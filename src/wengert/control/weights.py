"""How much code a nest of loops of a few turns each would be, written out.

Eight turns are soon written out, but three such loops around each other are 512 turns. So a loop of
few turns with others inside is *weighed* before it runs: two of its turns are traced and thrown
away, and of each loop in them two as well; the heavier one counts as often as there are turns. What
counts is operations on numbers and on small arrays: where those are many, there is much code for
little work.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..graph import Graph, Operator
from ..ops import elementwise as ew
from ..trace import current_trace
from .alike import forget_fetched
from .pieces import Abandon, TracedPiece

if TYPE_CHECKING:
    from .branches import Variables

# Operations on numbers that are written out: a gradient of these compiles in less than a second.
MOST = 800
# What some count for: derivatives of extremes ask for ties, a side of a branch is a program, so is
# the turn of a loop that stays one, and an array of up to so many elements has loops of its own.
# (Expectation maximisation in 8 turns, of 3 clusters each, compiles in 0.8 s as a loop, in 1.9 s
# written out, and then runs a fifth faster.)
_HEAVY = {ew.minimum: 3, ew.maximum: 3}
_BRANCH, _LOOP = 60, 20
_ARRAY, _SMALL = 2, 1 << 10
# Loops of at most so many turns are run turn by turn, if they are not too heavy. Inside of one that
# is, which is traced once for all its turns, they are fewer: short bodies make quick loops.
_FEW, _FEW_INSIDE = 8, 3


class _Scale(threading.local):
    on = False
    more: int = 0  # what counts besides the operations that were recorded
    few: int = _FEW
    light = False  # whether what runs now is part of a loop that is light


_scale = _Scale()


def is_light() -> bool:
    """Whether what runs now was weighed as part of a loop, and may be written out."""
    return _scale.light


def weighing() -> bool:
    """Whether what runs now is traced for its weight alone."""
    return _scale.on


def few() -> int:
    """The most turns of a loop that is run turn by turn."""
    return _scale.few


@contextlib.contextmanager
def settled(heavy: bool) -> Iterator[None]:
    """While it lasts, a loop that was weighed is traced: turn by turn, or once for all if heavy."""
    before = _scale.few, _scale.light
    _scale.few, _scale.light = (_FEW_INSIDE, False) if heavy else (_scale.few, True)
    try:
        yield
    finally:
        _scale.few, _scale.light = before


def add_branch(sides: Sequence[Graph]) -> None:
    """Count a branch that stays one."""
    operators = sum(isinstance(node, Operator) for side in sides for node in side.nodes)
    _scale.more += _BRANCH + operators


def weight(variables: Variables, turn: Callable[[int], None], turns: int) -> int | None:
    """What the turns of a loop weigh, written out; None where that cannot be told."""

    def work() -> int:
        arrays = variables.arrays()
        with TracedPiece(variables.where, variables.roots, attempt=True) as inside:
            inner = inside.stand_ins(arrays)
            swapped = {id(array): one for array, one in zip(arrays, inner, strict=True)}
            # what a turn puts into a list or a dictionary is thrown away with it
            copies: dict[int, Any] = {}
            before = [_copied(value, copies) for value in variables.before]
            inside.fresh = {id(copy) for copy in copies.values()}
            variables.put([swapped.get(id(value), value) for value in before])
            _scale.on, _scale.more = True, 0
            try:
                weigh_turns(turn, turns)
                return _weight()
            finally:
                _scale.on = False
                variables.put(variables.before)
                forget_fetched(inside)

    try:
        found: int = variables.retrying(work)
        return found
    except (Abandon, Exception):
        return None  # whatever it is, the loop itself will tell


def _copied(value: Any, copies: dict[int, Any]) -> Any:
    """A value with copies of the lists and dictionaries in it, which are taken down by `id`."""
    if type(value) not in (list, dict):
        return value
    if id(value) not in copies:
        copies[id(value)] = made = value.copy()
        for slot, one in list(made.items() if type(made) is dict else enumerate(made)):
            made[slot] = _copied(one, copies)
    return copies[id(value)]


def weigh_turns(
    turn: Callable[[int], None],
    turns: int,
    lists: Sequence[list[Any]] = (),
    is_loop: bool = False,
) -> None:
    """Run two turns of a loop, of which the heavier counts for all that are written out, or for
    one if the loop stays one.

    One alone could be the exception, such as that for the element on the diagonal. The lists that
    they append to are given as many items as all turns append.
    """
    start = _weight()
    heaviest = 0
    lengths = [len(one) for one in lists]
    places = sorted({turns // 4, turns // 2} if turns else ())
    for place in places:
        before = _weight()
        turn(place)
        heaviest = max(heaviest, _weight() - before)
    for one, length in zip(lists, lengths, strict=True):
        added = one[length:]
        count = len(added) * turns // max(len(places), 1)
        one[length:] = [added[k % len(added)] for k in range(count)]
    written_out = heaviest + _LOOP if is_loop else heaviest * turns
    _scale.more += written_out - (_weight() - start)


def _weight() -> int:
    """The weight of what was recorded in this piece, and of what counts besides."""
    trace = current_trace()
    recorded = {} if trace is None else trace.recorded or {}
    return _scale.more + sum(map(_weight_of, recorded.values()))


def _weight_of(node: Operator) -> int:
    if node.type.shape:
        return _ARRAY if node.type.size <= _SMALL else 0
    return _HEAVY.get(node.op, 1)
