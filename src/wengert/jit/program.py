"""One compiled program: a graph through passes, loops and code generation, and calling it.

A program is called in two ways. Its *entries* are native functions that take a call as it was
written, check it and run; there is one for each way of writing (`f(x, y)`, `f(x, y=y)`). Everything
else goes through `run`: arguments that had to be converted, results into memory that overlaps an
argument, operations that NumPy evaluates between native parts, an arena that another thread uses.

A call that `run` makes works in a `Frame` of its own, and these are kept for the next.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import tree
from ..errors import ShapeError
from ..graph import Graph, Node
from ..loops import Buffer, Host, LoopProgram
from ..passes import optimise
from ..runtime.builtin import raise_error_code
from ..schedule import plan, schedule
from ..schedule.memory import root
from . import debugging
from .arguments import (
    Leaf,
    NotNative,
    Parameters,
    call_specs,
    element_strides,
    result_tree,
    spec_of,
)
from .state import Cell, Change
from .tracing import Captured, StaticResult

# Calls that touch more elements than this release the GIL.
LONG_CALL = 1 << 16
_ALIGNMENT = 64
_RUN = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)


class State:
    """One piece of state of a program, bound to its memory."""

    def __init__(self, change: Change, slot: int):
        self.cell: Cell = change.cell()
        _check_type(change, self.cell)
        self.present = change.present
        self.read = change.before is not None
        self.written = isinstance(change.after, Node)
        self.removed = change.after is None
        self.slot = slot  # in the table of captured addresses
        self.scratch = 0  # bytes into the arena, where it is written

    @property
    def holds(self) -> bool:
        """Whether it is now as the program expects it."""
        return self.present is None or self.cell.present == self.present

    @property
    def settled(self) -> bool | None:
        """Whether it is present before and after every call; None where a call changes that."""
        after = self.present
        if self.written:
            after = True
        elif self.removed:
            after = False
        return after if self.present in (None, after) else None


def _check_type(change: Change, cell: Cell) -> None:
    if not isinstance(change.after, Node):
        return
    new, memory = change.after.type, cell.memory
    if (new.dtype, new.shape) != (memory.dtype, memory.shape):
        raise ShapeError(
            f"jit: the {change.kind} of a tensor becomes {new}, but its memory holds "
            f"{memory.dtype} of shape {memory.shape}. Keep dtype and shape, or use a new tensor."
        )


class Stages:
    """What the stages of a compilation made; for looking inside."""

    def __init__(self, captured: Captured, leaves: Sequence[Leaf], clock: debugging.Clock):
        self.captured = captured
        self.graph: Graph = captured.graph
        self.passes: list[tuple[str, Graph]] = []
        with clock("passes"):
            self.optimised = optimise(
                self.graph, lambda name, graph: self.passes.append((name, graph))
            )
        with clock("schedule"):
            self.loops: LoopProgram = plan(schedule(self.optimised, self._strides(leaves)))

    def _strides(self, leaves: Sequence[Leaf]) -> list[tuple[int, ...]]:
        from ..loops import c_strides

        state = self.graph.inputs[len(leaves) :]
        return [*map(element_strides, leaves), *(c_strides(node.type.shape) for node in state)]


@dataclass
class Layout:
    """The buffers of a program, without its graph: all that calling needs."""

    inputs: list[tuple[np.dtype, tuple[int, ...]]]
    outputs: list[tuple[np.dtype, tuple[int, ...]]]
    constants: list[np.ndarray]
    arena_bytes: int
    work: int  # elements of the largest buffer

    @classmethod
    def of(cls, loops: LoopProgram, constants: Sequence[Buffer]) -> Layout:
        """The layout of a planned program."""
        return cls(
            [(b.dtype, b.shape) for b in loops.inputs],
            [(b.dtype, b.shape) for b in loops.outputs],
            # copies: the program must not change with an array that the function has captured
            [np.array(b.value, b.dtype, order="C") for b in constants],
            loops.arena_bytes,
            max((b.size for b in [*loops.inputs, *loops.outputs]), default=0),
        )


class Program:
    """A compiled program; see the module."""

    def __init__(
        self,
        name: str,
        leaves: Sequence[Leaf],
        layout: Layout,
        structure: tree.Structure,
        results: Sequence[Any],
        compiled: Any,
        segments: Sequence[Any],
        changes: Sequence[Change] = (),
        stages: Stages | None = None,
        buffers: Sequence[Buffer] = (),
        clock: debugging.Clock | None = None,
    ):
        self.name, self.leaves, self.layout = name, list(leaves), layout
        self.structure, self.results = structure, list(results)
        self.compiled, self.segments = compiled, list(segments)
        self.stages, self.buffers = stages, list(buffers)
        self.clock = clock or debugging.Clock()
        self.from_record = stages is None
        first = len(layout.constants)
        self.state = [State(change, first + n) for n, change in enumerate(changes)]
        self.arena_bytes = layout.arena_bytes
        self.result_count = len(layout.outputs) - sum(s.written for s in self.state)
        self._place_scratch()
        self.entries: dict[Any, Any] = {}
        self.table = np.array(
            [c.ctypes.data for c in layout.constants] + [0] * len(self.state), np.uint64
        )
        self.arena: Any = None  # of the native entries
        # called with the error code and the arguments when a native call fails
        self.failed: Callable[..., Any] = raise_error_code
        self._frames: list[Frame] = []
        self._state_lock = threading.Lock()

    def _place_scratch(self) -> None:
        written = [state for state in self.state if state.written]
        for state in written:
            state.scratch = self.arena_bytes
            self.arena_bytes += -(-max(state.cell.memory.nbytes, 1) // _ALIGNMENT) * _ALIGNMENT

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

    def signature(self, parameters: Parameters, args: tuple, kwargs: dict[str, Any]) -> Any:
        """What the entry for a call written like this checks; None where it cannot."""
        from ..runtime.builtin import ArraySpec, CapturedSpec, Signature, StaticSpec

        if not self.native:
            return None
        arrays = iter(
            spec_of(Leaf("array", type_)) for type_ in map(_array_type, self.result_types())
        )
        try:
            specs: list[Any] = [
                StaticSpec(r.value) if isinstance(r, StaticResult) else next(arrays)
                for r in self.results
            ]
            by_position, by_name = call_specs(parameters, args, kwargs, self.leaves)
            result = result_tree(self.structure, iter(specs))
        except NotNative:
            return None
        assert all(isinstance(spec, (ArraySpec, StaticSpec)) for spec in specs)
        captured = [CapturedSpec(c.nbytes, False) for c in self.layout.constants]
        captured += [
            CapturedSpec(s.cell.memory.nbytes if s.settled else 0, s.written) for s in self.state
        ]
        return Signature(
            by_position,
            result,
            by_name,
            tuple(captured),
            self.arena_bytes,
            release_gil=self._releases_gil(),
        )

    def _releases_gil(self) -> bool:
        from ..runtime.builtin import STACK_ARENA_LIMIT

        # without a lock of its own a program that writes state is safe under the GIL alone
        locked = not self.state or self.arena_bytes > STACK_ARENA_LIMIT
        return self.layout.work > LONG_CALL and locked

    def bind(self, signature: Any, compiled: Any, name: str) -> Any:
        """The native entry `name` of `compiled` as a callable."""
        from ..runtime.builtin import STACK_ARENA_LIMIT, Arena, bind

        if self.arena is None and self.arena_bytes > STACK_ARENA_LIMIT:
            self.arena = Arena(self.arena_bytes)
        for state in self.state:
            state.cell.watch(self.table, state.slot, bool(state.settled))
        return bind(
            signature,
            compiled.address(f"{name}.run"),
            compiled.address(name) if name in compiled.exports else None,
            captured=self.table if len(self.table) else None,
            arena=self.arena,
            on_error=self.failed,
            name=self.name,
            keep_alive=(self, compiled, self.compiled),
        )

    def add_entry(self, signature: Any) -> Any:
        """An entry for another way of writing the call, as a module of its own."""
        from ..codegen.commit import entry_module
        from ..codegen.compile import compile_module
        from ..codegen.target import Target
        from ..runtime.builtin import c_api_addresses

        target = Target.host()
        module = entry_module(self.main, signature, target)
        symbols = {**c_api_addresses(), self.main: self.compiled.address(self.main)}
        compiled = compile_module(module, target, cache=object_cache(), symbols=symbols)
        return self.bind(signature, compiled, "entry")

    @property
    def main(self) -> str:
        """The native function that takes the entry's buffers."""
        return "commit" if any(state.written or state.read for state in self.state) else "kernel0"

    def places(self) -> tuple[list[Any], list[Any]]:
        """How the entry's buffers become the kernel's, and what is copied after it."""
        from ..codegen.commit import Copy, Place

        arguments, results = len(self.leaves), self.result_count
        captured = arguments + results
        places = [Place(slot=n) for n in range(arguments)]
        places += [Place(slot=captured + s.slot) for s in self.state if s.read]
        places += [Place(slot=arguments + n) for n in range(results)]
        places += [Place(offset=s.scratch) for s in self.state if s.written]
        places += [Place(slot=captured + n) for n in range(len(self.layout.constants))]
        copies = [
            Copy(s.scratch, captured + s.slot, s.cell.memory.nbytes)
            for s in self.state
            if s.written
        ]
        return places, copies

    # ------------------------------------------------------------ calls from Python

    def result_types(self) -> list[tuple[np.dtype, tuple[int, ...]]]:
        """Dtype and shape of every array of the result."""
        return self.layout.outputs[: self.result_count]

    def run(self, values: Sequence[Any], out: Any = None) -> Any:
        """Call with leaves that are of the program's kinds."""
        arrays = [
            np.asarray(value, dtype)
            for value, (dtype, _) in zip(values, self.layout.inputs, strict=False)
        ]
        targets = self._targets(out)
        results = [
            target if _usable(target, arrays) else np.empty(shape, dtype)
            for target, (dtype, shape) in zip(targets, self.result_types(), strict=True)
        ]
        if self.state:
            with self._state_lock, self._arena_held():
                self._execute(arrays, results)
        else:
            self._execute(arrays, results)
        if out is None:
            return self._rebuild(results)
        for target, result in zip(targets, results, strict=True):
            if target is not result:
                np.copyto(target, result)
        return out

    @contextlib.contextmanager
    def _arena_held(self) -> Iterator[None]:
        """Keep native calls of this program out; wait for one that runs without the GIL."""
        if self.arena is None:
            yield
            return
        while self.arena.locked:
            time.sleep(1e-4)
        lock = ctypes.c_int64.from_address(self.arena.lock_address)
        lock.value = threading.get_ident()
        try:
            yield
        finally:
            lock.value = 0

    def _execute(self, arrays: list[np.ndarray], results: list[np.ndarray]) -> None:
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = Frame(self)
        frame.run(arrays, results)
        self._frames.append(frame)
        for state in self.state:
            if state.written:
                state.cell.present = True
            elif state.removed:
                state.cell.present = False

    def run_checked(self, values: Sequence[Any], out: Any = None) -> Any:
        """Call operation by operation in NumPy, for `debug_nans`."""
        assert self.stages is not None
        state = [s.cell.memory.copy() for s in self.state if s.read]
        found = debugging.evaluate_checked(self.stages.graph, [*values, *state])
        for one, new in zip(
            (s for s in self.state if s.written), found[self.result_count :], strict=True
        ):
            one.cell.store(new)
        for one in self.state:
            if one.removed:
                one.cell.store(None)
        results = [
            np.array(value, dtype).reshape(shape)
            for value, (dtype, shape) in zip(found, self.result_types(), strict=False)
        ]
        if out is None:
            return self._rebuild(results)
        for target, result in zip(self._targets(out), results, strict=True):
            np.copyto(target, result)
        return out

    def _rebuild(self, arrays: list[np.ndarray]) -> Any:
        rest = iter(arrays)
        leaves = [
            r.value if isinstance(r, StaticResult) else _number_or_array(next(rest))
            for r in self.results
        ]
        return tree.unflatten(self.structure, leaves)

    def _targets(self, out: Any) -> list[Any]:
        """The arrays of `out`, checked."""
        if out is None:
            return [None] * self.result_count
        leaves = tree.flatten_like(self.structure, out, f"{self.name}: argument out")
        pairs = zip(leaves, self.results, strict=True)
        targets = [leaf for leaf, result in pairs if not isinstance(result, StaticResult)]
        for target, (dtype, shape) in zip(targets, self.result_types(), strict=True):
            good = isinstance(target, np.ndarray) and target.flags.writeable
            if not good or target.dtype != dtype or target.shape != shape:
                got = (
                    f"{target.dtype} of shape {target.shape}"
                    + ("" if target.flags.writeable else ", read-only")
                    if isinstance(target, np.ndarray)
                    else f"{target!r} of type {type(target).__name__}"
                )
                raise ShapeError(
                    f"{self.name}: argument out holds {got}, expected a writable array of {dtype} "
                    f"of shape {shape}. Make it with np.empty({shape}, np.{dtype})."
                )
        return targets

    def memory(self) -> dict[str, int]:
        """Bytes by use, and what a call allocates."""
        return {
            "arena": self.arena_bytes,
            "inputs": sum(_nbytes(leaf.type.dtype, leaf.type.shape) for leaf in self.leaves),
            "outputs": sum(_nbytes(*one) for one in self.result_types()),
            "constants": sum(c.nbytes for c in self.layout.constants),
            "state": sum(s.cell.memory.nbytes for s in self.state),
            "allocations_per_call": self.result_count,
        }


def _array_type(one: tuple[np.dtype, tuple[int, ...]]) -> Any:
    from ..types import ArrayType

    return ArrayType(*one)


def _nbytes(dtype: np.dtype, shape: tuple[int, ...]) -> int:
    return dtype.itemsize * int(np.prod(shape, dtype=np.int64))


def _number_or_array(array: np.ndarray) -> Any:
    return array if array.ndim else array[()]


def _usable(target: Any, inputs: Sequence[np.ndarray]) -> bool:
    """Whether a result can be computed straight into `target`."""
    if target is None or not (target.flags.c_contiguous and target.flags.aligned):
        return False
    if type(target) is not np.ndarray or not target.dtype.isnative:
        return False
    return not any(np.may_share_memory(target, array) for array in inputs)


class Failed(Exception):  # noqa: N818 - steers, never seen
    """The native code stopped with an error code."""


class Frame:
    """Memory for one call from Python: an arena, and the table of the kernel's buffers."""

    def __init__(self, program: Program):
        self.program = program
        raw = np.empty(program.arena_bytes + _ALIGNMENT, np.uint8)
        start = -raw.ctypes.data % _ALIGNMENT
        self.arena = raw[start : start + program.arena_bytes]
        self.base = raw.ctypes.data + start
        self.constants = program.layout.constants
        self.segments = [
            s if isinstance(s, Host) else _RUN(program.compiled.address(s))
            for s in program.segments
        ]
        self.owners: dict[int, np.ndarray] = {}

    def run(self, arrays: list[np.ndarray], results: list[np.ndarray]) -> None:
        """Run all parts, then copy new state into place."""
        state = self.program.state
        new = [self._scratch(s) for s in state if s.written]
        buffers = [*arrays, *(s.cell.memory for s in state if s.read), *results, *new]
        buffers += self.constants
        table = np.array([array.ctypes.data for array in buffers] or [0], np.uint64)
        if len(self.segments) > 1 or isinstance(self.segments[0], Host):
            pairs = zip(self.program.buffers, buffers, strict=True)
            self.owners = {id(buffer): array for buffer, array in pairs}
        for segment in self.segments:
            if isinstance(segment, Host):
                self._run_host(segment)
                continue
            code = segment(table.ctypes.data, self.base)
            if code:
                raise Failed(code)
        self.owners = {}
        for one, content in zip((s for s in state if s.written), new, strict=True):
            np.copyto(one.cell.memory, content)

    def _scratch(self, state: State) -> np.ndarray:
        memory = state.cell.memory
        raw = self.arena[state.scratch : state.scratch + memory.nbytes]
        return raw.view(memory.dtype).reshape(memory.shape)

    def _run_host(self, kernel: Host) -> None:
        inputs = [self._array(buffer) for buffer in kernel.inputs]
        with np.errstate(all="ignore"):
            results = kernel.op.evaluate(*inputs, **kernel.params)
        results = results if kernel.op.multiple else (results,)
        for buffer, value in zip(kernel.outputs, results, strict=True):
            self._array(buffer)[...] = value

    def _array(self, buffer: Buffer) -> np.ndarray:
        owner = root(buffer)
        if owner.kind == "arena":
            raw = self.arena[owner.offset : owner.offset + owner.nbytes]
            return raw.view(owner.dtype).reshape(buffer.shape)
        return self.owners[id(owner)].reshape(buffer.shape)


# ---------------------------------------------------------------- making one


def build(
    captured: Captured,
    leaves: Sequence[Leaf],
    prepare: Callable[[Program], Any],
    clock: debugging.Clock,
    name: str,
) -> tuple[Program, Any]:
    """Compile a captured function; the program, and the entry for the call at hand or None.

    `prepare` gives the signature of that call, or None.
    """
    from ..codegen.compile import compile_module
    from ..codegen.program import emit_program
    from ..codegen.target import Target
    from ..runtime.builtin import c_api_addresses

    stages = Stages(captured, leaves, clock)
    target = Target.host()
    with clock("emit"):
        native = emit_program(stages.loops, target)
        program = Program(
            name,
            leaves,
            Layout.of(stages.loops, native.constants),
            captured.structure,
            [r if isinstance(r, StaticResult) else None for r in captured.results],
            None,
            native.segments,
            captured.changes,
            stages,
            [*stages.loops.inputs, *stages.loops.outputs, *native.constants],
            clock,
        )
        signature = prepare(program)
        has_entry = _emit_around(native.module, program, signature)
    with clock("compile"):
        program.compiled = compile_module(
            native.module, target, cache=object_cache(), symbols=c_api_addresses()
        )
    with clock("link"):
        entry = program.bind(signature, program.compiled, "entry") if has_entry else None
    return program, entry


def _emit_around(module: Any, program: Program, signature: Any) -> bool:
    """Add what stands between the entry and the kernel, and the entry."""
    from ..codegen.commit import emit_commit
    from ..codegen.entry import emit_entry

    if signature is None:
        return False
    if program.main == "commit":
        emit_commit(module, "commit", "kernel0", *program.places())
    emit_entry(module, "entry", program.main, signature)
    return True


@functools.cache
def object_cache() -> Any:
    """The cache of object code on disk."""
    from ..codegen.cache import ObjectCache

    return ObjectCache()
