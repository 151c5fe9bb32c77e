"""The processor that code is generated for.

A `Target` says what a code generator must know of a processor: how LLVM names it, how wide a
vector register is, how many there are, whether multiply-add is one instruction, and how much of a
working set stays close. `Target.host()` describes the machine in front of us, or the one named by
`WENGERT_CPU`; `Target.named("haswell")` describes another, to generate (and where possible run) its
code here.

LLVM halves its vectors on the first AVX-512 processors by default, because light use of the wide
units lowered their clock. Generated code uses them heavily, so every AVX-512 target switches that
preference off in its feature list; the attributes of `Target.function_attributes` say the same to
functions that other tools compile.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

_DEFAULT_L1D = 32 * 1024
_DEFAULT_L2 = 1024 * 1024

# What each x86-64 level adds to the one before it, by LLVM's feature names.
_V2 = ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3")
_SANDYBRIDGE = (*_V2, "avx")
_V3 = (*_SANDYBRIDGE, "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_V4 = (*_V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
_ICELAKE = (
    *_V4,
    *("avx512bitalg", "avx512ifma", "avx512vbmi", "avx512vbmi2", "avx512vnni"),
    *("avx512vpopcntdq", "gfni"),
)
_SAPPHIRE = (*_ICELAKE, "avx512bf16", "avx512fp16", "avxvnni")
_ZEN4 = (*_ICELAKE, "avx512bf16")
_NEON = ("neon",)
_ARM82 = ("neon", "fullfp16", "lse")

# name -> (architecture, features that its code may use)
_NAMED: dict[str, tuple[str, tuple[str, ...]]] = {
    "x86-64": ("x86_64", ()),
    "x86-64-v2": ("x86_64", _V2),
    "x86-64-v3": ("x86_64", _V3),
    "x86-64-v4": ("x86_64", _V4),
    "nehalem": ("x86_64", _V2),
    "sandybridge": ("x86_64", _SANDYBRIDGE),
    "haswell": ("x86_64", _V3),
    "skylake": ("x86_64", _V3),
    "skylake-avx512": ("x86_64", _V4),
    "icelake-server": ("x86_64", _ICELAKE),
    "sapphirerapids": ("x86_64", _SAPPHIRE),
    "znver2": ("x86_64", _V3),
    "znver3": ("x86_64", _V3),
    "znver4": ("x86_64", _ZEN4),
    "cortex-a72": ("aarch64", _NEON),
    "neoverse-n1": ("aarch64", _ARM82),
    "neoverse-v1": ("aarch64", _ARM82),
    "apple-m1": ("aarch64", _ARM82),
    "apple-m2": ("aarch64", _ARM82),
}
# LLVM's own definition of these processors already carries the list above; the levels do not.
_LLVM_NAMES = {"x86-64-v2": "x86-64", "x86-64-v3": "x86-64", "x86-64-v4": "x86-64"}


@functools.cache
def llvm() -> Any:
    """Return `llvmlite.binding` with every back end ready; the first call imports llvmlite."""
    from llvmlite import binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    return binding


@dataclass(frozen=True)
class Target:
    """A processor as a code generator sees it; compare and hash freely, it is plain data."""

    triple: str
    cpu: str
    features: str
    vector_bytes: int
    has_fma: bool
    vector_registers: int
    l1d_bytes: int = _DEFAULT_L1D
    l2_bytes: int = _DEFAULT_L2

    @staticmethod
    def host() -> Target:
        """Return this machine's target, or the one that `WENGERT_CPU` names."""
        return _host(os.environ.get("WENGERT_CPU", ""))

    @staticmethod
    def named(name: str) -> Target:
        """Return the target called `name` (see `Target.names`), whatever machine this is."""
        if name not in _NAMED:
            raise ValueError(_unknown_name("Target.named: argument name", name))
        return _named(name)

    @staticmethod
    def names() -> tuple[str, ...]:
        """Return the names that `Target.named` and `WENGERT_CPU` know."""
        return tuple(_NAMED)

    @property
    def architecture(self) -> str:
        """The instruction set family: `x86_64`, `aarch64`, or the triple's first word."""
        return _architecture(self.triple)

    def lanes(self, itemsize: int) -> int:
        """Return how many elements of `itemsize` bytes fill one vector register."""
        return max(1, self.vector_bytes // itemsize)

    @property
    def has_masks(self) -> bool:
        """Whether one vector under a mask is better than narrower ones for what is left over."""
        return self.vector_bytes >= 32

    @property
    def function_attributes(self) -> str:
        """LLVM attributes that keep full-width vectors: `define void @f() <here> {`."""
        if self.vector_bytes < 64:
            return ""
        bits = 8 * self.vector_bytes
        return f'"min-legal-vector-width"="{bits}" "prefer-vector-width"="{bits}"'

    def missing_here(self) -> tuple[str, ...]:
        """Return the features that its code needs and this machine lacks (empty: it runs)."""
        machine = _machine()
        if self.architecture != machine.architecture:
            return (self.architecture,)
        return tuple(sorted(_enabled(self.features) - _enabled(machine.features)))

    def runs_here(self) -> bool:
        """Say whether this machine can execute code generated for the target."""
        return not self.missing_here()

    def key(self) -> tuple[str, str, str]:
        """Return what object code depends on, for a cache key."""
        return (self.triple, self.cpu, self.features)

    def __str__(self) -> str:
        fma = "FMA" if self.has_fma else "no FMA"
        return (
            f"{self.cpu} ({self.architecture}): {self.vector_registers} vector registers of "
            f"{self.vector_bytes} bytes, {fma}, L1d {self.l1d_bytes // 1024} KiB, "
            f"L2 {self.l2_bytes // 1024} KiB"
        )


@functools.cache
def _host(override: str) -> Target:
    if override in ("", "host", "native"):
        return _machine()
    if override not in _NAMED:
        raise ValueError(_unknown_name("environment variable WENGERT_CPU", override, "host"))
    target = _named(override)
    missing = target.missing_here()
    if missing:
        raise ValueError(
            f"environment variable WENGERT_CPU: got {override!r}, whose code needs "
            f"{', '.join(missing)}, which this machine lacks; "
            f"choose one of {', '.join(_runnable_names())}"
        )
    machine = _machine()
    return replace(target, l1d_bytes=machine.l1d_bytes, l2_bytes=machine.l2_bytes)


def _unknown_name(where: str, got: str, *extra: str) -> str:
    return f"{where}: got {got!r}, expected one of {', '.join((*extra, *_NAMED))}"


def _runnable_names() -> list[str]:
    return ["host", *(name for name in _NAMED if _named(name).runs_here())]


@functools.cache
def _machine() -> Target:
    binding = llvm()
    triple = binding.get_process_triple()
    available = dict(binding.get_host_cpu_features())
    if _architecture(triple) == "aarch64":
        available.setdefault("neon", True)  # part of the base instruction set
        if sys.platform == "darwin":
            available.update(dict.fromkeys(_ARM82, True))  # true of every Apple processor
    l1d, l2 = cache_sizes()
    target = _describe(triple, binding.get_host_cpu_name(), available)
    return replace(target, l1d_bytes=l1d, l2_bytes=l2)


@functools.cache
def _named(name: str) -> Target:
    architecture, features = _NAMED[name]
    cpu = _LLVM_NAMES.get(name, name)
    return _describe(_triple_for(architecture, name), cpu, dict.fromkeys(features, True))


def _triple_for(architecture: str, name: str) -> str:
    """Prefer this machine's system, so that the code can be loaded here where it can run."""
    here: str = llvm().get_process_triple()
    if _architecture(here) == architecture:
        return here
    if name.startswith("apple-"):
        return "arm64-apple-macosx"
    return f"{architecture}-unknown-linux-gnu"


def _architecture(triple: str) -> str:
    first = triple.split("-")[0]
    return {"arm64": "aarch64", "amd64": "x86_64"}.get(first, first)


def _describe(triple: str, cpu: str, available: Mapping[str, bool]) -> Target:
    features = dict(available)
    if features.get("avx512f"):
        features["prefer-256-bit"] = False
    width, registers, fma = _vector_unit(_architecture(triple), features)
    return Target(triple, cpu, _flatten(features), width, fma, registers)


def _vector_unit(architecture: str, features: Mapping[str, bool]) -> tuple[int, int, bool]:
    """Return bytes per vector register, number of them, and whether multiply-add is fused."""
    if architecture == "aarch64":
        return 16, 32, True
    if architecture != "x86_64":
        return 16, 16, False
    # Code for AVX-512 mixes 512-bit with narrower vectors, for which VL and DQ are needed.
    if all(features.get(name) for name in ("avx512f", "avx512vl", "avx512dq", "avx512bw")):
        return 64, 32, True
    return (32 if features.get("avx") else 16), 16, bool(features.get("fma"))


def _flatten(features: Mapping[str, bool]) -> str:
    return ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(features.items()))


def _enabled(features: str) -> set[str]:
    return {name[1:] for name in features.split(",") if name.startswith("+")}


@functools.cache
def cache_sizes() -> tuple[int, int]:
    """Return the bytes of the first-level data cache and of the second-level cache."""
    l1d, l2 = _first_known(_caches_from_sys(), _caches_from_sysctl(), _caches_from_sysconf())
    return l1d or _DEFAULT_L1D, l2 or _DEFAULT_L2


def _first_known(*sources: tuple[int, int]) -> tuple[int, int]:
    def known(sizes: Iterable[int]) -> int:
        return next((size for size in sizes if size > 0), 0)

    return known(source[0] for source in sources), known(source[1] for source in sources)


def _caches_from_sys(root: str = "/sys/devices/system/cpu/cpu0/cache") -> tuple[int, int]:
    found = {1: 0, 2: 0}
    for index in sorted(Path(root).glob("index*")):
        try:
            level = int((index / "level").read_text())
            kind = (index / "type").read_text().strip()
            size = _parse_size((index / "size").read_text().strip())
        except (OSError, ValueError):
            continue
        if kind in ("Data", "Unified") and level in found:
            found[level] = size
    return found[1], found[2]


def _parse_size(text: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    if text and text[-1] in units:
        return int(text[:-1]) * units[text[-1]]
    return int(text)


def _caches_from_sysconf() -> tuple[int, int]:
    def size(name: str) -> int:
        try:
            return os.sysconf(name)
        except (AttributeError, OSError, ValueError):
            return 0

    return size("SC_LEVEL1_DCACHE_SIZE"), size("SC_LEVEL2_CACHE_SIZE")


def _caches_from_sysctl() -> tuple[int, int]:
    if sys.platform != "darwin":
        return 0, 0
    import ctypes

    library = ctypes.CDLL(None)

    def size(name: bytes) -> int:
        value, length = ctypes.c_int64(0), ctypes.c_size_t(8)
        failed = library.sysctlbyname(
            name, ctypes.byref(value), ctypes.byref(length), None, ctypes.c_size_t(0)
        )
        return 0 if failed else value.value

    return size(b"hw.l1dcachesize"), size(b"hw.l2cachesize")
