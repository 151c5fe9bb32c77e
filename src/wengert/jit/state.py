"""Tensors as state: memory that a tensor shares with compiled programs.

While `jit` traces, a tensor from outside is *lifted*: what it holds becomes an input of the trace,
and writes to it replace that by other traced values. When tracing ends the tensor is put back as it
was, and its last content is one more output of the program. The program reads and writes the
tensor's own memory, a `Cell`: it computes the new content aside and copies it into place only when
all else has succeeded, so that a call that fails changes nothing.

A gradient may be absent. Whether it is can decide what a program does, so a program is bound to
cells that are present, or absent, as they were when it was traced. The table of addresses that its
native entry reads has a zero for a cell that is not as it must be; then the call comes to Python.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..graph import Node, Variable
from ..ops.op import Traced
from ..runtime.arena import ARENA_ALIGNMENT, aligned_memory
from ..trace.tracer import Trace
from ..types import ArrayType

_SATISFIED = 1  # in a table, for a cell that is absent as it must be


class Cell:
    """Memory for one array that may be absent, and the tables that hold its address.

    >>> cell = Cell(ArrayType(np.dtype(float), (2,)), None)
    >>> cell.present
    False
    >>> cell.store([1.0, 2.0])
    >>> cell.memory
    array([1., 2.])
    """

    __slots__ = ("__weakref__", "_places", "_present", "memory", "native")

    def __init__(self, array_type: ArrayType, content: Any, reservation: Reservation | None = None):
        reserved = None if reservation is None else reservation.take(array_type)
        if reserved is None:
            reserved = aligned_empty(array_type.shape, array_type.dtype)
        self.memory = reserved
        self._present = content is not None
        self._places: list[tuple[weakref.ref, int, bool]] = []
        if content is not None:
            np.copyto(self.memory, content)
        # the memory, where entries may read it from an argument that has the cell, else None
        self.native = None if _traces_running else self.memory
        _cells.add(self)

    @property
    def present(self) -> bool:
        """Whether there is anything in the memory."""
        return self._present

    @present.setter
    def present(self, present: bool) -> None:
        if present != self._present:
            self._present = present
            self.update()

    def store(self, content: Any) -> None:
        """Put a new content, or None, into place."""
        if content is not None:
            np.copyto(self.memory, content)
        self.present = content is not None

    def read(self) -> np.ndarray | None:
        """A copy of the content: a compiled call may change the memory at any time."""
        return self.memory.copy() if self._present else None

    def fits(self, array: np.ndarray) -> bool:
        """Whether an array can be stored without changing its type."""
        return array.dtype == self.memory.dtype and array.shape == self.memory.shape

    def watch(self, table: np.ndarray, slot: int, present: bool) -> None:
        """Keep `table[slot]` at the address while `present` holds, and at zero otherwise."""
        with _places_lock:
            self._places.append((weakref.ref(table), slot, present))
        self.update()

    def retire(self) -> None:
        """The tensor has left this memory: no program may use it natively again."""
        self._set_places(lambda wanted: 0)
        self._places = []
        self.native = None

    def suspend(self) -> None:
        """Let no native entry through for now."""
        self._set_places(lambda wanted: 0)
        self.native = None

    def update(self) -> None:
        """Bring the tables up to date."""
        if _traces_running:
            return  # all are suspended; the end of the trace brings them back
        self.native = self.memory
        here = self.memory.ctypes.data
        self._set_places(
            lambda wanted: (here if wanted else _SATISFIED) if wanted == self._present else 0
        )

    def _set_places(self, word: Any) -> None:
        with _places_lock:
            live = []
            for place in self._places:
                table = place[0]()
                if table is not None:
                    table[place[1]] = word(place[2])
                    live.append(place)
            self._places = live


class Loan(Cell):
    """An array that a tensor has handed out: whoever holds it may write to it at any time.

    >>> loan = Loan(np.ones(2))
    >>> held = loan.memory
    >>> loan.is_over()
    False
    >>> del held
    >>> loan.is_over()
    True
    """

    __slots__ = ()

    def __init__(self, array: np.ndarray):
        self.memory = array
        self._present = True
        self._places = []
        self.native = None
        _cells.add(self)

    def update(self) -> None:
        """No program reads memory that is on loan."""

    def is_over(self) -> bool:
        """Whether nobody holds the array, or a view of it, any more."""
        return sys.getrefcount(self.memory) == _NO_OTHER


class Borrowed(Loan):
    """What lay in a cell that programs share: the array is read-only, a new content goes there.

    Unless something else lies there by then: what was taken before stays apart.
    """

    __slots__ = ("_home",)

    def __init__(self, array: np.ndarray, home: Cell):
        self._home = home
        super().__init__(array)
        self.memory.setflags(write=False)

    def store(self, content: Any) -> None:
        """Put a new content into both."""
        if self._home.present and self._home.memory.tobytes() == self.memory.tobytes():
            self._home.store(content)
        self.memory = np.array(content, self.memory.dtype)
        self.memory.setflags(write=False)

    def is_over(self) -> bool:
        """Never: the tensor can still be written to."""
        return False


# What `sys.getrefcount` says of an array that only an attribute refers to.
_NO_OTHER = sys.getrefcount(type("Owner", (), {"array": np.empty(0)}).array)  # type: ignore[attr-defined]

_places_lock = threading.RLock()
_cells: weakref.WeakSet[Cell] = weakref.WeakSet()
_traces_running = 0


def any_cells() -> bool:
    """Whether any tensor shares its memory with a program, or with the user."""
    return bool(_cells)


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An uninitialised array that starts at a cache line."""
    nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return aligned_memory(nbytes).view(dtype).reshape(shape)


class Allocation:
    """One allocation for arrays of one dtype that belong together, such as a model's parameters.

    Each starts at a cache line; what lies between them is zero. Nothing is allocated before the
    first of the arrays is asked for, and each is given away once.

    >>> reservations = Allocation(np.dtype(float), [(3,), (2, 2)]).reservations
    >>> small, large = reservations[0].take(), reservations[1].take()
    >>> large.ctypes.data - small.ctypes.data
    64
    """

    def __init__(self, dtype: np.dtype, shapes: Sequence[tuple[int, ...]]):
        self.dtype = dtype
        self._memory: np.ndarray | None = None
        self._elements = 0
        self.reservations = []
        line = ARENA_ALIGNMENT // dtype.itemsize
        for shape in shapes:
            self.reservations.append(Reservation(self, shape, self._elements))
            self._elements += -(-int(np.prod(shape, dtype=np.int64)) // line) * line

    @property
    def memory(self) -> np.ndarray:
        """The whole as one flat array."""
        if self._memory is None:
            self._memory = aligned_empty((self._elements,), self.dtype)
            self._memory.fill(0)
        return self._memory


class Reservation:
    """A place in an `Allocation` for one array."""

    __slots__ = ("allocation", "shape", "start", "taken")

    def __init__(self, allocation: Allocation, shape: tuple[int, ...], start: int):
        self.allocation, self.shape, self.start = allocation, shape, start
        self.taken = False

    def take(self, array_type: ArrayType | None = None) -> np.ndarray | None:
        """The memory; None where it is in use already, or not for such an array."""
        wanted = (self.allocation.dtype, self.shape)
        fits = array_type is None or (array_type.dtype, array_type.shape) == wanted
        if self.taken or not fits:
            return None
        self.taken = True
        size = int(np.prod(self.shape, dtype=np.int64))
        return self.allocation.memory[self.start : self.start + size].reshape(self.shape)


class _Local(threading.local):
    running: StatefulTrace | None = None


local = _Local()


def is_tracing() -> bool:
    """Whether `jit` traces just now, in this thread: values have no numbers yet."""
    return local.running is not None


# One trace with state at a time: while it runs the tensors it has lifted hold traced values.
trace_lock = threading.RLock()


class Change:
    """What a program does with one piece of state: a tensor's data or its gradient.

    `before` is the input that stands for it, or None. `present` says whether it must be there when
    the program starts (None: no matter). `after` is the new content: a node, None for "absent from
    now on", or `UNCHANGED`.
    """

    def __init__(self, owner: Any, kind: str, before: Variable | None, present: bool | None):
        self.owner, self.kind = owner, kind
        self.before = before
        self.present = present
        self.after: Any = UNCHANGED

    def cell(self) -> Cell:
        """The memory, made on first use."""
        if self.kind == "data":
            return self.owner._data_cell(isinstance(self.after, Node))
        return self.owner.gradient_cell()


UNCHANGED = object()


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
        # where it is computed: bytes into the arena, or None for straight into its memory
        self.scratch: int | None = None

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


class Hold:
    """Keeps calls of one program apart, whose state they read and write."""

    def __init__(self, name: str):
        self.name = name
        self.lock = threading.Lock()
        self.runner: int | None = None  # the thread that holds it

    @contextlib.contextmanager
    def __call__(self, arena: Any) -> Iterator[None]:
        """Keep others out, and wait for a call that uses the arena without the GIL."""
        me = threading.get_ident()
        if me in (self.runner, arena and arena.holder):
            raise RuntimeError(
                f"{self.name}: called from a signal handler that interrupts a call of the same "
                "function, whose state is in use. Set a flag in the handler and call it later."
            )
        with self.lock:
            while arena is not None and not arena.take(me):
                time.sleep(1e-4)
            self.runner = me
            try:
                yield
            finally:
                self.runner = None
                if arena is not None:
                    arena.release()


class _Gradient:
    def __init__(self, home: Any, change: Change | None, now: Any):
        self.home, self.change, self.now = home, change, now
        self.written = False


class StatefulTrace:
    """A jit trace in progress: the tensors it has lifted, and what they hold now."""

    def __init__(self, trace: Trace):
        self.trace = trace
        self._data: dict[int, tuple[Any, Node, Any, Change]] = {}
        self._gradients: dict[int, _Gradient] = {}
        self._number = 0

    def __enter__(self) -> StatefulTrace:
        global _traces_running
        trace_lock.acquire()
        self._outer = local.running
        local.running = self
        _traces_running += 1
        for cell in list(_cells):
            cell.suspend()
        return self

    def __exit__(self, *exc_info: object) -> None:
        global _traces_running
        local.running = self._outer
        for storage, node, _, _ in self._data.values():
            storage._put_back(node)
        _traces_running -= 1
        if not _traces_running:
            for cell in list(_cells):
                cell.update()
        trace_lock.release()

    def lift(self, storage: Any) -> Any:
        """The traced value that stands for what a tensor from outside holds; None: not outside."""
        node = storage._node
        if id(storage) in self._data or isinstance(node.output, Traced):
            return None
        dtype, shape = node.type.dtype, node.type.shape
        tracer = self._variable(ArrayType(dtype, shape))
        tracer.node.order = (storage._keep_order(),)
        change = Change(storage, "data", tracer.node, True)
        self._data[id(storage)] = (storage, node, tracer, change)
        return tracer

    def gradient(self, home: Any) -> Any:
        """The gradient that a leaf holds now."""
        return self._gradient(home, observe=True).now

    def set_gradient(self, home: Any, value: Any) -> None:
        """Replace the gradient of a leaf."""
        held = self._gradient(home, observe=False)
        held.now = value
        held.written = True

    def _gradient(self, home: Any, observe: bool) -> _Gradient:
        held = self._gradients.get(id(home))
        if held is not None:
            return held
        if isinstance(home.output, Traced):  # a tensor made inside the function
            held = _Gradient(home, None, None)
        elif not observe:
            held = _Gradient(home, Change(home, "grad", None, None), None)
        else:
            there = home.held_gradient()
            tracer = None
            if there is not None:
                tracer = self._variable(ArrayType(there.dtype, there.shape))
            before = None if tracer is None else tracer.node
            held = _Gradient(home, Change(home, "grad", before, there is not None), tracer)
        self._gradients[id(home)] = held
        return held

    def _variable(self, array_type: ArrayType) -> Any:
        self._number += 1
        return self.trace.variable(array_type=array_type, name=f"s{self._number - 1}", active=False)

    def changes(self) -> list[Change]:
        """What the function has done to the state; to be asked before the trace is left."""
        found = []
        for storage, _, tracer, change in self._data.values():
            content = strip(storage._node.output, self.trace)
            if content is not tracer:
                change.after = self.trace.node_of(content)
            found.append(change)
        for held in self._gradients.values():
            if held.change is not None:
                if held.written:
                    now = strip(held.now, self.trace)
                    held.change.after = None if now is None else self.trace.node_of(now)
                found.append(held.change)
        return found


def strip(value: Any, trace: Trace) -> Any:
    """The value as `trace` sees it: without the levels of tracing inside it."""
    while isinstance(value, Traced) and value._trace.level > trace.level:
        value = value.value  # type: ignore[attr-defined]
    return value
