"""Processors by their names, to generate code for others than the one in front of us."""

from __future__ import annotations

import functools

from .target import ARM82, Target, architecture_of, describe, llvm

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

# name -> (architecture, features that its code may use)
NAMED: dict[str, tuple[str, tuple[str, ...]]] = {
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
    "neoverse-n1": ("aarch64", ARM82),
    "neoverse-v1": ("aarch64", ARM82),
    "apple-m1": ("aarch64", ARM82),
    "apple-m2": ("aarch64", ARM82),
}
# LLVM's own definition of these processors already carries the list above; the levels do not.
_LLVM_NAMES = {"x86-64-v2": "x86-64", "x86-64-v3": "x86-64", "x86-64-v4": "x86-64"}


def checked(name: str, where: str, *others: str) -> Target:
    """The target of this name, or an error about `where` it was given."""
    if name not in NAMED:
        raise ValueError(f"{where}: got {name!r}, expected one of {', '.join((*others, *NAMED))}")
    return _named(name)


def chosen(name: str) -> Target:
    """The target that `WENGERT_CPU` names, whose code must run here."""
    target = checked(name, "environment variable WENGERT_CPU", "host")
    missing = target.missing_here()
    if missing:
        runnable = ["host", *(one for one in NAMED if _named(one).runs_here())]
        raise ValueError(
            f"environment variable WENGERT_CPU: got {name!r}, whose code needs "
            f"{', '.join(missing)}, which this machine lacks; choose one of {', '.join(runnable)}"
        )
    return target


@functools.cache
def _named(name: str) -> Target:
    architecture, features = NAMED[name]
    cpu = _LLVM_NAMES.get(name, name)
    return describe(_triple_for(architecture, name), cpu, dict.fromkeys(features, True))


def _triple_for(architecture: str, name: str) -> str:
    """Prefer this machine's system, so that the code can be loaded here where it can run."""
    here: str = llvm().get_process_triple()
    if architecture_of(here) == architecture:
        return here
    if name.startswith("apple-"):
        return "arm64-apple-macosx"
    return f"{architecture}-unknown-linux-gnu"
