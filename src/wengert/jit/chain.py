"""The native entries of a compiled function, one handing on to the next what it does not take.

There are at most `CHAIN` of them in a row; older ones are found by the program's kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import tree
from ..parts import readings
from .function import written
from .program import MISSED, Program

if TYPE_CHECKING:
    from .function import Jitted

# Entries that are tried one after the other, at some 20 ns each.
CHAIN = 8
# Ways to write a call of one program that have entries of their own.
ENTRIES = 8


def keep(jitted: Jitted, program: Program, args: tuple, kwargs: dict[str, Any], entry: Any) -> None:
    """Remember the entry of a new program for a call written like this; None: it has none."""
    if program.native or entry is not None:
        program.entries[_style(args, kwargs)] = entry
    if entry is not None and entry.native:
        _put(jitted, program, entry)


def entry_for(
    jitted: Jitted, program: Program, args: tuple, kwargs: dict[str, Any], with_out: bool
) -> Any:
    """The entry for this way of writing a call; made where there is none and could be one."""
    from ..schedule import is_on

    style = (*_style(args, kwargs), *["out"] * with_out)
    known = style in program.entries or len(program.entries) >= ENTRIES
    if known or not program.native or not is_on("entries"):
        return program.entries.get(style)
    if not all(_is_plain(leaf) for leaf in tree.leaves((args, kwargs))):
        return None  # converted; one without that may still come
    with jitted._lock:
        if style not in program.entries:
            from .entries import add_entry

            signature = jitted._signature(program, args, kwargs, with_out)
            taken = program.is_flat and program.flat is not None
            entry = None if signature is None or taken else add_entry(program, signature)
            program.entries[style] = entry
            if entry is not None and entry.native:
                _put(jitted, program, entry)
        return program.entries[style]


def _put(jitted: Jitted, program: Program, entry: Any) -> None:
    """Bring a new entry into use: in front of the others, of which the oldest may leave."""
    if program.is_flat:
        entry.next = _missed
        program.flat = entry.call
        return
    jitted._entries = [entry, *jitted._entries]
    for one in jitted._entries[CHAIN:]:
        one.next = jitted._from_evicted
        jitted._evicted.append(one)
    del jitted._entries[CHAIN:]
    link(jitted)
    if jitted.owner is not None:
        from .methods import find_natively

        find_natively()


def link(jitted: Jitted) -> None:
    """Have each entry hand on to the next one what it does not take."""
    following: Any = jitted._dispatch
    for one in reversed(jitted._entries):
        one.next = following
        following = one.call
    jitted._point()


def forget_oldest(jitted: Jitted, most: int) -> None:
    """Let go of the programs not used for longest, beyond so many; calls inside go on."""
    chained = {id(entry) for entry in jitted._entries}
    everything = [p for programs in jitted._programs.values() for p in programs]
    idle = [p for p in everything if not any(id(e) in chained for e in p.entries.values())]
    idle.sort(key=lambda program: program.used)
    gone = set(map(id, idle[: max(0, len(everything) - most)]))
    if not gone:
        return
    entries = {id(e) for p in idle if id(p) in gone for e in p.entries.values()}
    jitted._evicted = [entry for entry in jitted._evicted if id(entry) not in entries]
    kept = {k: [p for p in ps if id(p) not in gone] for k, ps in jitted._programs.items()}
    jitted._programs = {key: programs for key, programs in kept.items() if programs}


def _missed(*args: Any) -> Any:
    return MISSED


def _style(args: tuple, kwargs: dict[str, Any]) -> Any:
    """How a call is written, and how the objects among its arguments are read."""
    return (*written(args, kwargs), *readings((args, kwargs)))


def _is_plain(leaf: Any) -> bool:
    if type(leaf) is np.ndarray:
        return leaf.flags.aligned and leaf.dtype.isnative
    return True
