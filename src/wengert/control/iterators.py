"""Python's own iterators as generators: what they ask of items may be traced.

They are written as users write, and converted as their functions are: ``sum(filter(f, x))`` is the
loop of a generator that yields under a condition.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


def kept(function: Any, items: Any, /) -> Iterator[Any]:
    """``filter``."""
    for item in items:
        if item if function is None else function(item):
            yield item


def left_out(function: Any, items: Any, /) -> Iterator[Any]:
    """``itertools.filterfalse``."""
    for item in items:
        if not (item if function is None else function(item)):
            yield item


def at_first(predicate: Any, items: Any, /) -> Iterator[Any]:
    """``itertools.takewhile``."""
    for item in items:
        if not predicate(item):
            return
        yield item


def from_then_on(predicate: Any, items: Any, /) -> Iterator[Any]:
    """``itertools.dropwhile``."""
    begun = False
    for item in items:
        begun = begun or not predicate(item)
        if begun:
            yield item


def selected(data: Any, selectors: Any) -> Iterator[Any]:
    """``itertools.compress``."""
    for item, flag in zip(data, selectors, strict=False):
        if flag:
            yield item


def counting(start: Any = 0, step: Any = 1) -> Iterator[Any]:
    """``itertools.count``."""
    while True:
        yield start
        start = start + step


def reduced(function: Any, items: Any, /, *initial: Any) -> Any:
    """``functools.reduce``."""
    start, rest = (list(initial), items) if initial else _apart(items)
    if not start:
        raise TypeError("reduce() of empty iterable with no initial value")
    found = start[0]
    for item in rest:
        found = function(found, item)
    return found


def running(items: Any, function: Any = operator.add, *, initial: Any = None) -> Iterator[Any]:
    """``itertools.accumulate``."""
    start, rest = ([initial], items) if initial is not None else _apart(items)
    if not start:
        return
    found = start[0]
    yield found
    for item in rest:
        found = function(found, item)
        yield found


def _apart(items: Any) -> tuple[list[Any], Any]:
    """A list of the first item, if there is one, and the others: a sequence where they are one."""
    if isinstance(items, (list, tuple, range, np.ndarray)):
        return list(items[:1]), items[1:]
    rest = iter(items)
    return list(itertools.islice(rest, 1)), rest


WRITTEN: dict[Any, Callable[..., Any]] = {
    filter: kept,
    itertools.filterfalse: left_out,
    itertools.takewhile: at_first,
    itertools.dropwhile: from_then_on,
    itertools.compress: selected,
    itertools.count: counting,
    itertools.accumulate: running,
    functools.reduce: reduced,
}
