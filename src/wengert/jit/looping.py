"""Many calls of a compiled function as one native call.

`Repeated(f)` calls `f(*fixed, row)` for row after row of an array (or of a tree of arrays), and
puts the results into the rows of other arrays. Where the function is one native program, so are
the calls together: a native loop (`codegen/repeating.py`) runs the program and moves on along the
rows, in some nanoseconds a step, without the GIL and without allocating anything.

`run_in_turns` does so with several functions: one call of each, in order, and then the next row.

The first call goes through Python, which traces and compiles; so do all calls of a function that is
not native as a whole (an operation of NumPy inside) or that `debug_nans` watches.

>>> import numpy as np
>>> from wengert import tensor
>>> from wengert.jit import jit
>>> total = tensor(0.0)
>>> @jit
... def add(factor, x):
...     total[...] = total + factor * x
...     return total
>>> sums = np.zeros(5)
>>> Repeated(add).run((2.0,), np.arange(5.0), sums)
>>> sums
array([ 0.,  2.,  6., 12., 20.])
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import tree
from ..errors import ShapeError, explain
from . import debugging
from .function import Jitted
from .program import Program, object_cache
from .state import aligned_empty, local

_Address = ctypes.c_void_p
_Count = ctypes.c_int64
# with the GIL: the function releases it itself, and may come back with an exception
_REPEAT = ctypes.PYFUNCTYPE(ctypes.c_int32, _Address, _Count, _Count, _Address)


@functools.cache
def _native_loop() -> tuple[Any, Any]:
    """The loop as a callable, and the code that it needs in memory."""
    from ..codegen.compile import compile_here
    from ..codegen.repeating import REPEAT, repeat_ir
    from ..runtime.builtin import c_api_addresses

    compiled = compile_here(repeat_ir, cache=object_cache(), symbols=c_api_addresses())
    return _REPEAT(compiled.address(REPEAT)), compiled


class Repeated:
    """Calls a compiled function for row after row; see the module."""

    def __init__(self, function: Jitted):
        self.function = function
        # the memory that a program works in, as long as there is the program
        self._arenas: weakref.WeakKeyDictionary[Program, np.ndarray] = weakref.WeakKeyDictionary()
        self.native_calls = 0  # how many calls were part of a native loop

    def prepare(self, *arguments: Any) -> Program:
        """The program for such arguments, compiled now if it has to be; nothing runs."""
        function = self.function
        call = function._order(arguments, {})
        leaves, key = function._key(call)
        found: Program = function._find_or_compile(call, key, leaves, arguments, {})[0]
        return found

    def programs(self) -> list[Program]:
        """All programs of the function so far."""
        return [one for found in self.function._programs.values() for one in found]

    def run(
        self, fixed: tuple, rows: Any, out: Any, first: int = 0, last: int | None = None
    ) -> None:
        """Call ``function(*fixed, row)`` for the rows from `first` to `last`.

        `rows` is a tree of arrays, `out` a tree of arrays like the results; each has one row for
        every call. An error is raised as the call would raise it; the rows before it are done.
        """
        run_in_turns([CallSeries(self, fixed, rows, out)], first, last)

    def _ready(self, arguments: tuple) -> tuple[Program, list[Any]] | None:
        """The program for these arguments and its leaves, if all of it can run natively now."""
        if local.running is not None or debugging.checking_nans():
            return None
        leaves, key = self.function._key(self.function._order(arguments, {}))
        program = None if key is None else self.function._find(key)
        if program is None or not program.native or program.main not in program.compiled.exports:
            return None
        if program.any_length:
            return None  # its table has more than addresses
        # a zero stands for state that is not as the program needs it
        return (program, leaves) if program.table.all() else None

    def _takes(
        self, program: Program, leaves: list[Any], moving: list[Any], results: list[Any]
    ) -> bool:
        """Whether the rows are what the program reads and writes, and apart from its state."""
        if len(results) != program.result_count:
            return False
        for target, (dtype, shape) in zip(results, program.result_types(), strict=True):
            fits = target.dtype == dtype and target.shape[1:] == shape
            in_one_piece = len(target) > 0 and target[0].flags.c_contiguous
            if not (fits and in_one_piece and target.flags.writeable):
                return False
        kept = leaves[: len(leaves) - len(moving)]
        given = [*(leaf for leaf in kept if isinstance(leaf, np.ndarray)), *moving]
        if not all(array.dtype.isnative and array.flags.aligned for array in moving):
            return False
        memory = [state.cell.memory for state in program.state]
        apart = [*memory, *results]
        return not any(np.may_share_memory(one, other) for one in given for other in apart)

    def _arena(self, program: Program) -> int:
        """The address of the program's scratch memory."""
        if program.arena is not None:
            return program.arena.address
        if program not in self._arenas:
            memory = aligned_empty((max(program.arena_bytes, 1),), np.dtype(np.uint8))
            self._arenas[program] = memory
        return self._arenas[program].ctypes.data


class CallSeries:
    """``repeated(*fixed, row)`` for row after row, with the results into the rows of `out`.

    Rows may lie in the same place, where an array has a stride of zero: what one call gives there
    is what another takes.
    """

    def __init__(self, repeated: Repeated, fixed: tuple[Any, ...], rows: Any, out: Any):
        self.repeated, self.fixed = repeated, fixed
        self.moving, self.structure = tree.flatten(rows)
        self.results = tree.leaves(out)

    def arguments(self, row: int) -> tuple[Any, ...]:
        """What the function is called with for a row."""
        return (*self.fixed, tree.unflatten(self.structure, [array[row] for array in self.moving]))

    def ready(self, row: int) -> tuple[Program, list[Any]] | None:
        """The program and its leaves, if it can run natively from this row on."""
        found = self.repeated._ready(self.arguments(row))
        takes = found is not None and self.repeated._takes(*found, self.moving, self.results)
        return found if takes else None

    def run_once(self, row: int) -> None:
        """One call through Python."""
        found = tree.leaves(self.repeated.function(*self.arguments(row)))
        for target, value in zip(self.results, found, strict=True):
            target[row] = value

    def record(self, program: Program, leaves: list[Any], first: int) -> tuple[list[int], Any]:
        """What the native loop is told, and what must stay in memory meanwhile."""
        kept = len(leaves) - len(self.moving)
        inputs = [
            np.asarray(value, dtype)
            for value, (dtype, _) in zip(leaves[:kept], program.layout.inputs, strict=False)
        ]
        along = [*self.moving, *self.results]
        addresses = [array.ctypes.data for array in inputs]
        addresses += [array.ctypes.data + first * array.strides[0] for array in along]
        buffers = np.array([*addresses, *program.table], np.uint64)
        slots = np.arange(kept, kept + len(along))
        strides = np.array([array.strides[0] for array in along], np.int64)
        main, arena = program.compiled.address(program.main), self.repeated._arena(program)
        tables = [array.ctypes.data for array in (slots, strides)]
        words = [main, buffers.ctypes.data, arena, len(along), *tables]
        return words, (inputs, buffers, slots, strides)


def run_in_turns(calls: Sequence[CallSeries], first: int = 0, last: int | None = None) -> None:
    """Make one call of each, in order, for the rows from `first` to `last`.

    >>> from wengert.jit import jit
    >>> double, add = Repeated(jit(lambda x: 2 * x)), Repeated(jit(lambda x: x + 1))
    >>> between, out = np.zeros((1, 2)), np.zeros((3, 2))
    >>> same = np.lib.stride_tricks.as_strided(between, (3, 2), (0, 8))
    >>> rows = np.arange(6.0).reshape(3, 2)
    >>> run_in_turns([CallSeries(double, (), rows, same), CallSeries(add, (), same, out)])
    >>> out
    array([[ 1.,  3.],
           [ 5.,  7.],
           [ 9., 11.]])
    """
    arrays = [array for call in calls for array in (*call.moving, *call.results)]
    last = _checked(arrays, first, last)
    while first < last:
        ready = [call.ready(first) for call in calls]
        if all(found is not None for found in ready):
            first += _run_native(calls, ready, first, last)  # type: ignore[arg-type]
            continue
        for call in calls:
            call.run_once(first)
        first += 1


def _checked(arrays: Sequence[Any], first: int, last: int | None) -> int:
    shortest = min(len(array) for array in arrays)
    last = shortest if last is None else last
    if not 0 <= first <= last <= shortest:
        raise ShapeError(
            explain(
                "Repeated.run",
                f"got first={first} and last={last} for arrays of {shortest} rows",
                "Give every array a row for each call.",
            )
        )
    return last


def _run_native(
    calls: Sequence[CallSeries], ready: Sequence[tuple[Program, list[Any]]], first: int, last: int
) -> int:
    """Run the native loop; the number of turns that it made."""
    repeat, _ = _native_loop()
    found = [call.record(*one, first) for call, one in zip(calls, ready, strict=True)]
    records = np.array([words for words, _ in found], np.uint64)
    done = np.zeros(2, np.int64)
    with contextlib.ExitStack() as held:
        for program in {id(program): program for program, _ in ready}.values():
            held.enter_context(program._state_held())
        code = repeat(records.ctypes.data, len(calls), last - first, done.ctypes.data)
    count, which = map(int, done)
    for number, call in enumerate(calls):
        call.repeated.native_calls += count + (code != 0 and number < which)
    if code:
        call, (program, _) = calls[which], ready[which]
        function = call.repeated.function
        function._failed(program, code, *function._leading(), *call.arguments(first + count))
    return count
