"""The machine that programs are compiled for: vectors, caches, cores, rates.

A `Machine` is plain data; all that passes, schedule and codegen know of hardware they know from
one. Its `policy` is the table of thresholds, some of which follow from the caches. `codegen.target`
adds what LLVM calls the processor, and describes the one in front of us.

`current()` is the machine that passes and schedule work for. `jit` says which one that is while it
compiles. Where nobody does, it is `Machine()`, the one that the table was measured on: what is made
of a graph, looked at by itself, is the same everywhere.

A test that needs another machine, or other thresholds, chooses them for a while:

    with machine.use(cores=1, regions={"least_work": 0}):
        ...

What is compiled there, by `jit` too, is compiled so, and kept on disk under a key of its own.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

from .policy import Policy, Record, policy_for

# A virtual machine is told the size of a cache, not with how many others it shares that: of the
# last-level one a core counts on so much.
_MOST_SHARE = 16 << 20
_GROUPS = frozenset(Policy._names)


class Machine(Record):
    """A machine; compare and hash freely, it is plain data.

    >>> Machine().lanes(4), Machine(vector_bytes=32).lanes(8)
    (16, 4)
    """

    vector_bytes: int = 64
    vector_registers: int = 32
    has_fma: bool = True
    vectors_at_once: int = 1  # how many multiply-adds of vectors can begin in a cycle
    l1d_bytes: int = 32 << 10
    l2_bytes: int = 1 << 20
    l3_bytes: int = 32 << 20
    l2_cores: int = 1  # that share one second-level cache,
    l3_cores: int = 2  # and one last-level cache
    cores: int = 2  # that this process may run on: code has memory set aside for as many threads
    cycles: float = 2500.0  # in a microsecond
    l2_rate: float = 16.0  # bytes of weights a cycle, from the second-level cache
    l3_rate: float = 10.0  # and from beyond it
    # the LAPACK that is in the process, and the width of its integers, as in `numpy64`; or none
    lapack: str = ""
    numpy_loops: bool = False  # whether NumPy's own loops can be called
    # thresholds in place of those that follow from the rest: group, name, value
    thresholds: tuple[tuple[str, str, Any], ...] = ()

    def lanes(self, itemsize: int) -> int:
        """Return how many elements of `itemsize` bytes fill one vector register."""
        return max(1, self.vector_bytes // itemsize)

    @property
    def has_masks(self) -> bool:
        """Whether one vector under a mask is better than narrower ones for what is left over."""
        return self.vector_bytes >= 32

    @property
    def flops(self) -> int:
        """Operations of float32 in a cycle."""
        return self.lanes(4) * self.vectors_at_once * (2 if self.has_fma else 1)

    @functools.cached_property
    def policy(self) -> Policy:
        """The thresholds that decide how programs are cut, scheduled and written out."""
        made = policy_for(
            l1=self.l1d_bytes,
            l2=self.l2_bytes // self.l2_cores,
            l3=min(self.l3_bytes // self.l3_cores, _MOST_SHARE),
            operations=self.cycles * self.flops,
            rates=(self.cycles * self.l2_rate, self.cycles * self.l3_rate),
        )
        for group, name, value in self.thresholds:
            made = made.changed(**{group: {name: value}})
        return made

    @functools.cached_property
    def baked(self) -> str:
        """All that code for the machine depends on besides its instructions, for a cache key."""
        return repr(self)

    def __hash__(self) -> int:
        return hash((self.vector_bytes, self.l2_bytes, self.cores))


_FACTS = frozenset(Machine._names) - {"thresholds"}
Kind = TypeVar("Kind", bound=Machine)
_current: ContextVar[Machine] = ContextVar("machine", default=Machine())  # noqa: B039 - frozen
_choice: ContextVar[Callable[[Any], Any] | None] = ContextVar("choice", default=None)


def current() -> Machine:
    """Return the machine that passes and schedule work for."""
    return _current.get()


def policy() -> Policy:
    """Return the thresholds of the current machine.

    >>> policy().regions.width
    16
    """
    return _current.get().policy


@contextlib.contextmanager
def compiling_for(machine: Machine) -> Iterator[None]:
    """Have passes and schedule work for a machine: what `jit` does while it compiles."""
    token = _current.set(machine)
    try:
        yield
    finally:
        _current.reset(token)


@contextlib.contextmanager
def use(machine: Machine | None = None, /, **changes: Any) -> Iterator[Machine]:
    """Choose a machine, or change some facts and thresholds of the one that there is.

    A change is a field of `Machine`, or a group of `Policy` with the thresholds that differ. In
    place of the machine in front of us it holds for what is compiled by this thread; of that one,
    only how vectors are called remains.

    >>> with use(l2_bytes=2 << 20, threads={"most_tasks": 4}):
    ...     policy().regions.most_weights, policy().threads.most_tasks
    (1048576, 4)
    """
    before = _choice.get()

    @functools.cache
    def chosen(other: Machine) -> Machine:
        same = other if before is None else before(other)
        return _changed(same if machine is None else same.replace(**machine._values()), changes)

    made = _changed(machine or current(), changes)
    _ = made.policy  # where a threshold is none, an error
    tokens = _current.set(made), _choice.set(chosen)
    try:
        yield made
    finally:
        _current.reset(tokens[0])
        _choice.reset(tokens[1])


def in_use(machine: Kind) -> Kind:
    """Return the machine, or what `use` makes of it."""
    choice = _choice.get()
    return machine if choice is None else choice(machine)


def _changed(machine: Kind, changes: dict[str, Any]) -> Kind:
    facts = {name: value for name, value in changes.items() if name not in _GROUPS}
    for name in facts:
        if name not in _FACTS:
            known = ", ".join(sorted(_FACTS | _GROUPS))
            raise ValueError(f"machine.use: got {name!r}, expected one of {known}")
    groups = [(name, new) for name, new in changes.items() if name in _GROUPS]
    thresholds = [(group, *item) for group, new in groups for item in new.items()]
    return machine.replace(**facts, thresholds=(*machine.thresholds, *thresholds))


# ---------------------------------------------------------------- what the system says


@functools.cache
def caches() -> dict[str, int]:
    """Return what the system says of its caches, as fields of a `Machine`."""
    found: dict[str, int] = {}
    for source in (_caches_from_sys(), _caches_from_sysctl(), _caches_from_sysconf()):
        found = {name: size for name, size in source.items() if size > 0} | found
    return found


def _caches_from_sys(root: str = "/sys/devices/system/cpu/cpu0/cache") -> dict[str, int]:
    sizes: dict[int, int] = {}
    sharing: dict[int, int] = {}
    for index in range(16):
        try:
            level, kind, size = (
                _read(f"{root}/index{index}/{n}") for n in ("level", "type", "size")
            )
            if kind in ("Data", "Unified"):
                sizes[int(level)] = _parse_size(size)
                sharing[int(level)] = _count_of(_read(f"{root}/index{index}/shared_cpu_list"))
        except (OSError, ValueError):
            continue
    # the first level is a core's own: as many as share it are threads of one core
    own = sharing.get(1, 1)
    names = {1: "l1d_bytes", 2: "l2_bytes", 3: "l3_bytes"}
    found = {names[level]: size for level, size in sizes.items() if level in names}
    return found | {
        f"l{level}_cores": max(1, sharing[level] // own) for level in (2, 3) if level in sharing
    }


def _read(path: str) -> str:
    with open(path) as file:
        return file.read().strip()


def _parse_size(text: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    if text and text[-1] in units:
        return int(text[:-1]) * units[text[-1]]
    return int(text)


def _count_of(text: str) -> int:
    """How many numbers a list of ranges has.

    >>> _count_of("0-3,8-11"), _count_of("5")
    (8, 1)
    """
    ranges: Iterable[list[int]] = ([int(end) for end in one.split("-")] for one in text.split(","))
    return sum(ends[-1] - ends[0] + 1 for ends in ranges)


def _caches_from_sysconf() -> dict[str, int]:
    def size(name: str) -> int:
        try:
            return os.sysconf(name)
        except (AttributeError, OSError, ValueError):
            return 0

    names = {"l1d_bytes": "LEVEL1_DCACHE", "l2_bytes": "LEVEL2_CACHE", "l3_bytes": "LEVEL3_CACHE"}
    return {field: size(f"SC_{name}_SIZE") for field, name in names.items()}


def _caches_from_sysctl() -> dict[str, int]:
    if sys.platform != "darwin":
        return {}
    import ctypes

    library = ctypes.CDLL(None)

    def size(name: str) -> int:
        value, length = ctypes.c_int64(0), ctypes.c_size_t(8)
        failed = library.sysctlbyname(
            name.encode(), ctypes.byref(value), ctypes.byref(length), None, ctypes.c_size_t(0)
        )
        return 0 if failed else value.value

    names = {"l1d_bytes": "l1dcachesize", "l2_bytes": "l2cachesize", "l3_bytes": "l3cachesize"}
    return {field: size(f"hw.{name}") for field, name in names.items()}
