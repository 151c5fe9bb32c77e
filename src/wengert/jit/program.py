"""One compiled program: its native entries, and calling it from Python.

A program is called in two ways. Its *entries* are native functions that take a call as it was
written, check it and run; there is one for each way of writing (`f(x, y)`, `f(x, y=y)`). Everything
else goes through `run`: arguments that had to be converted, results into memory that overlaps an
argument, operations that NumPy evaluates between native parts, an arena that another thread uses.

A call that `run` makes works in a `Frame` of its own, and these are kept for the next.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..errors import MoreSteps, ShapeError
from ..loops import Buffer
from ..ops.op import Traced
from ..runtime.arena import Workspace
from ..runtime.limits import STACK_ARENA_LIMIT, steps_code
from . import debugging
from .arguments import ANY, Leaf
from .dynamic import is_any, sized
from .frames import ALIGNMENT, CallLayout, Failed, Frame
from .state import Change, Hold, State
from .tracing import StaticResult

# What a flat entry gives back for a call that it does not take.
MISSED = object()


class Program:
    """A compiled program; see the module."""

    def __init__(
        self,
        name: str,
        leaves: Sequence[Leaf],
        layout: CallLayout,
        structure: tree.Structure,
        results: Sequence[Any],
        compiled: Any,
        segments: Sequence[Any],
        changes: Sequence[Change] = (),
        stages: Any = None,
        buffers: Sequence[Buffer] = (),
        direct: Sequence[bool] = (),
        clock: debugging.Clock | None = None,
    ):
        self.name, self.leaves, self.layout = name, list(leaves), layout
        self.structure, self.results = structure, list(results)
        self.compiled, self.segments = compiled, list(segments)
        self.stages, self.buffers = stages, list(buffers)
        self.is_leaf = structure.kind is None and not isinstance(self.results[0], StaticResult)
        self.clock = clock or debugging.Clock()
        self.from_record = False  # whether it was found in the cache
        self.captured: Any = None  # what it was found by there
        self.signature_text = ""  # of the first entry
        self.entry_code: Any = None  # of the first entry, where that is not in `compiled`
        first = len(layout.constants)
        self.state = [State(change, first + n) for n, change in enumerate(changes)]
        self.arena_bytes = layout.arena_bytes
        self.any_length = is_any(self.leaves)
        self.room = Workspace(layout.room_bytes)  # of the native entries
        self.alike: Any = None  # for any length: whether the function is the same at another
        self.lengths: dict[int, bool] = {}  # what that has said
        if layout.room_bytes:  # only an arena that is not on the stack has a lock
            self.arena_bytes = max(self.arena_bytes, STACK_ARENA_LIMIT + ALIGNMENT)
        self.result_count = len(layout.outputs) - sum(s.written for s in self.state)
        self._place_scratch(direct)
        self.entries: dict[Any, Any] = {}
        self.used = 0  # when a call last found it; see `Jitted._find`
        # whether the last signature is one of leaves: some trees are taken apart in Python
        self.is_flat = False
        self.flat: Any = None  # the entry for these
        words = [c.ctypes.data for c in layout.constants] + [0] * len(self.state)
        if self.any_length:
            words.append(self.room.table.ctypes.data)
        self.table = np.array(words, np.uint64)
        self.arena: Any = None  # of the native entries
        self.threads: int | None = None  # the most it may use
        # called with the error code and the arguments when a native call fails
        self.failed: Callable[..., Any] = _raise_error_code
        self._frames: list[Frame] = []
        self._hold = Hold(name)

    def _place_scratch(self, direct: Sequence[bool]) -> None:
        """Room in the arena for new state, where it cannot be computed straight into place."""
        written = [state for state in self.state if state.written]
        for state, in_place in zip(written, direct, strict=True):
            if not in_place:
                state.scratch = self.arena_bytes
                self.arena_bytes += -(-max(state.cell.memory.nbytes, 1) // ALIGNMENT) * ALIGNMENT

    # ------------------------------------------------------------ native entries

    @property
    def single(self) -> bool:
        """Whether the whole program is one native function."""
        return self.segments == ["kernel0"]

    @property
    def native(self) -> bool:
        """Whether calls can stay native: one function, and state that is as it was after a call."""
        return self.single and all(state.settled is not None for state in self.state)

    @property
    def holds(self) -> bool:
        """Whether the state is now as it was when the program was traced."""
        return all(state.holds for state in self.state)

    @property
    def kernel(self) -> dict[str, int]:
        """The address of the function that an entry in another module calls."""
        return {self.main: self.compiled.address(self.main)}

    @property
    def main(self) -> str:
        """The native function that takes the entry's buffers."""
        between = any(state.written or state.read for state in self.state)
        # an entry gives the state before the room and the length, a kernel wants those alone
        return "commit" if between or (self.any_length and self.state) else "kernel0"

    # ------------------------------------------------------------ calls from Python

    def result_types(self, length: int | None = None) -> list[tuple[np.dtype, tuple[int, ...]]]:
        """Dtype and shape of every array of the result; with `ANY` where no length is given."""
        found = self.layout.outputs[: self.result_count]
        return (
            found if length is None else [(dtype, sized(shape, length)) for dtype, shape in found]
        )

    def length_of(self, values: Sequence[Any]) -> int | None:
        """The length of the dynamic axes of a call; None without such axes."""
        if not self.any_length:
            return None
        pairs = zip(self.leaves, values, strict=True)
        leaf, array = next((leaf, value) for leaf, value in pairs if ANY in leaf.type.shape)
        return int(array.shape[leaf.type.shape.index(ANY)])

    def run_flat(self, values: Sequence[Any]) -> Any:
        """Call the entry that takes leaves; `MISSED` where it does not take these."""
        found = self.flat(*values)
        return found if found is MISSED else self._finish(found)

    def run(self, values: Sequence[Any], out: Any = None) -> Any:
        """Call with leaves that are of the program's kinds."""
        arrays = [
            np.asarray(value, dtype)
            for value, (dtype, _) in zip(values, self.layout.inputs, strict=False)
        ]
        length = self.length_of(values)
        targets = self._targets(out, length)
        memory = [state.cell.memory for state in self.state]
        for number, array in enumerate(arrays):
            if any(np.may_share_memory(array, one) for one in memory):
                arrays[number] = _copy_with_strides(array)
        taken = arrays + memory
        results = [
            target if _usable(target, taken) else np.empty(shape, dtype)
            for target, (dtype, shape) in zip(targets, self.result_types(length), strict=True)
        ]
        if self.state:
            with self._state_held():
                self._execute(arrays, results, length)
        else:
            self._execute(arrays, results, length)
        if out is None:
            return self._rebuild(results)
        for target, result in zip(targets, results, strict=True):
            if target is not result:
                np.copyto(target, result)
        return out

    def run_hosted(self, arrays: list[Any], args: tuple) -> Any:
        """Call with the leaves as the program wants them, which `args` gave; it has no state."""
        frame = self._take_frame()
        try:
            results = frame.run_hosted(arrays)
        except Failed as failed:
            code = failed.args[0]
        except MoreSteps as more:
            code = steps_code(*more.args)
        else:
            self._keep_frame(frame)
            return _number_or_array(results[0]) if self.is_leaf else self._rebuild(results)
        return self.failed(code, *args)

    def _state_held(self) -> contextlib.AbstractContextManager[None]:
        """Keep other calls of this program out; wait for one that runs without the GIL."""
        return self._hold(self.arena)

    def _execute(
        self, arrays: list[np.ndarray], results: list[np.ndarray], length: int | None
    ) -> None:
        frame = self._take_frame()
        frame.run(arrays, results, length)
        self._keep_frame(frame)
        for state in self.state:
            if state.written:
                state.cell.present = True
            elif state.removed:
                state.cell.present = False

    def _take_frame(self) -> Frame:
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = Frame(self)
        if frame.is_large:
            frame.scratch.take(threading.get_ident())
        return frame

    def _keep_frame(self, frame: Frame) -> None:
        if frame.is_large:
            frame.scratch.release()
        self._frames.append(frame)

    def _rebuild(self, arrays: Sequence[np.ndarray]) -> Any:
        return self._finish(map(_number_or_array, arrays))

    def _finish(self, found: Iterable[Any]) -> Any:
        """The result as the function gave it, from its arrays and numbers."""
        if self.is_leaf:
            return next(iter(found))
        rest = iter(found)
        leaves = [r.value if isinstance(r, StaticResult) else next(rest) for r in self.results]
        return tree.unflatten(self.structure, leaves)

    def _targets(self, out: Any, length: int | None) -> list[Any]:
        """The arrays of `out`, checked."""
        if out is None:
            return [None] * self.result_count
        leaves = tree.flatten_like(self.structure, out, f"{self.name}: argument out")
        pairs = zip(leaves, self.results, strict=True)
        targets = [leaf for leaf, result in pairs if not isinstance(result, StaticResult)]
        for target, (dtype, shape) in zip(targets, self.result_types(length), strict=True):
            array = isinstance(target, np.ndarray) and not isinstance(target, Traced)
            good = array and target.flags.writeable
            if not good or target.dtype != dtype or target.shape != shape:
                got = (
                    f"{target.dtype} of shape {target.shape}"
                    + ("" if target.flags.writeable else ", read-only")
                    if array
                    else f"{target!r} of type {type(target).__name__}"
                )
                raise ShapeError(
                    f"{self.name}: argument out holds {got}, expected a writable array of {dtype} "
                    f"of shape {shape}. Make it with np.empty({shape}, np.{dtype})."
                )
        return targets


def _raise_error_code(code: int, *args: Any, **kwargs: Any) -> Any:
    from ..runtime.builtin import raise_error_code

    return raise_error_code(code, *args, **kwargs)


def _copy_with_strides(array: np.ndarray) -> np.ndarray:
    """A copy that lies in memory as the original does: programs are compiled for strides."""
    low, high = np.lib.array_utils.byte_bounds(array)
    raw = np.empty(high - low, np.uint8)
    start = array.ctypes.data - low
    copy: np.ndarray = np.ndarray(array.shape, array.dtype, raw.data, start, array.strides)
    copy[...] = array
    return copy


def _number_or_array(array: np.ndarray) -> Any:
    return array if array.ndim else array[()]


def _usable(target: Any, inputs: Sequence[np.ndarray]) -> bool:
    """Whether a result can be computed straight into `target`."""
    if target is None or not (target.flags.c_contiguous and target.flags.aligned):
        return False
    if type(target) is not np.ndarray or not target.dtype.isnative:
        return False
    return not any(np.may_share_memory(target, array) for array in inputs)


def object_cache() -> Any:
    """The cache of object code on disk."""
    from ..codegen.cache import shared_cache

    return shared_cache()
