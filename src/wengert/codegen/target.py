"""The processor that code is generated for.

A `Target` is a `Machine` with what LLVM calls it: a triple, a processor, features. `Target.host()`
describes the machine in front of us, or the one named by `WENGERT_CPU`; `Target.named("haswell")`
describes another, to generate (and where possible run) its code here. How wide vectors are follows
from the features; caches and cores are what the system says.

LLVM halves its vectors on the first AVX-512 processors by default, because light use of the wide
units lowered their clock. Generated code uses them heavily, so every AVX-512 target switches that
preference off in its feature list.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Mapping
from typing import Any

from ..machine import Machine, caches, in_use
from ..runtime import numpy_loops
from ..runtime.lapack import library
from ..runtime.threads import available_cores

ARM82 = ("neon", "fullfp16", "lse")  # what every Apple processor has, by LLVM's names


@functools.cache
def llvm() -> Any:
    """Return `llvmlite.binding` with every back end ready; the first call imports llvmlite."""
    from llvmlite import binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    return binding


class Target(Machine):
    """A machine as a code generator sees it; compare and hash freely, it is plain data."""

    triple: str
    cpu: str
    features: str

    @staticmethod
    def host() -> Target:
        """Return this machine's target, or the one that `WENGERT_CPU` names; with what
        `machine.use` changes."""
        return in_use(_host(os.environ.get("WENGERT_CPU", ""), available_cores()))

    @staticmethod
    def named(name: str) -> Target:
        """Return the target called `name` (see `Target.names`), whatever machine this is."""
        from .processors import checked

        return checked(name, "Target.named: argument name")

    @staticmethod
    def names() -> tuple[str, ...]:
        """Return the names that `Target.named` and `WENGERT_CPU` know."""
        from .processors import NAMED

        return tuple(NAMED)

    @property
    def architecture(self) -> str:
        """The instruction set family: `x86_64`, `aarch64`, or the triple's first word."""
        return architecture_of(self.triple)

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
        """Return what LLVM makes object code from besides a module, for a cache key."""
        return (self.triple, self.cpu, self.features)

    def __hash__(self) -> int:
        return hash((self.cpu, self.vector_bytes, self.l2_bytes, self.cores))


@functools.cache
def _host(override: str, cores: int) -> Target:
    there = {"lapack": library(), "numpy_loops": numpy_loops.are_there()}
    target = _machine()
    if override not in ("", "host", "native"):
        from .processors import chosen

        target = chosen(override)
    return target.replace(**caches(), cores=cores, **there)


@functools.cache
def _machine() -> Target:
    binding = llvm()
    triple = binding.get_process_triple()
    available = dict(binding.get_host_cpu_features())
    if architecture_of(triple) == "aarch64":
        available.setdefault("neon", True)  # part of the base instruction set
        if sys.platform == "darwin":
            available.update(dict.fromkeys(ARM82, True))
    return describe(triple, binding.get_host_cpu_name(), available)


def architecture_of(triple: str) -> str:
    """The instruction set family of a triple."""
    first = triple.split("-")[0]
    return {"arm64": "aarch64", "amd64": "x86_64"}.get(first, first)


def describe(triple: str, cpu: str, available: Mapping[str, bool]) -> Target:
    """The target with what follows from its features."""
    features = dict(available)
    if features.get("avx512f"):
        features["prefer-256-bit"] = False
    return Target(
        triple=triple,
        cpu=cpu,
        features=_flatten(features),
        **_vector_unit(architecture_of(triple), features),
    )


def _vector_unit(architecture: str, features: Mapping[str, bool]) -> dict[str, Any]:
    """Return what is known of the vectors, as fields of a `Machine`."""
    if architecture == "aarch64":
        return _vectors(16, 32, True, 4)
    if architecture != "x86_64":
        return _vectors(16, 16, False, 1)
    # Code for AVX-512 mixes 512-bit with narrower vectors, for which VL and DQ are needed.
    if all(features.get(name) for name in ("avx512f", "avx512vl", "avx512dq", "avx512bw")):
        return _vectors(64, 32, True, 1)
    return _vectors(32 if features.get("avx") else 16, 16, bool(features.get("fma")), 2)


def _vectors(width: int, registers: int, fma: bool, at_once: int) -> dict[str, Any]:
    return {
        "vector_bytes": width,
        "vector_registers": registers,
        "has_fma": fma,
        "vectors_at_once": at_once,
    }


def _flatten(features: Mapping[str, bool]) -> str:
    return ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(features.items()))


def _enabled(features: str) -> set[str]:
    return {name[1:] for name in features.split(",") if name.startswith("+")}
