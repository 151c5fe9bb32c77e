"""The LAPACK that is already in the process: where its functions are.

NumPy's wheels carry an OpenBLAS whose symbols are plain, with integers of 64 bits. Where NumPy has
none (another build of it), SciPy offers the functions that it is linked to, with integers of 32.
Code names a function as `lapack_dgetrf`; where that is, is looked up when the code is linked, so
that code kept on disk finds the library of another process.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np

# What the names of functions begin with in generated code.
PREFIX = "lapack_"
# How builds of OpenBLAS spell a function, and the width of their integers.
_SPELLINGS = (("scipy_{}_64_", 64), ("{}_64_", 64), ("scipy_{}_", 32), ("{}_", 32))
_FOLDERS = ("../numpy.libs", ".libs", ".dylibs")


@functools.cache
def library() -> str:
    """The library that is there and the width of its integers, `numpy64`; empty without one."""
    found = _of_numpy()
    if found is not None:
        return f"numpy{found[2]}"
    return "scipy32" if importlib.util.find_spec("scipy") is not None else ""


def address(name: str) -> int:
    """Where the function is that code calls by this name."""
    function = name.removeprefix(PREFIX)
    found = _of_numpy()
    if found is None:
        return _of_scipy(function)
    loaded, spelling, _ = found
    pointer = ctypes.cast(getattr(loaded, spelling.format(function)), ctypes.c_void_p)
    assert pointer.value is not None
    return pointer.value


@functools.cache
def _of_numpy() -> tuple[Any, str, int] | None:
    """NumPy's own OpenBLAS, how it spells names, and the width of its integers."""
    root = Path(np.__file__).parent
    for folder in _FOLDERS:
        for path in sorted((root / folder).glob("*openblas*")):
            try:
                # it is in the process already: another copy is not wanted
                loaded = ctypes.CDLL(str(path), os.RTLD_NOLOAD | os.RTLD_NOW)
            except (OSError, AttributeError):
                continue
            for spelling, bits in _SPELLINGS:
                if hasattr(loaded, spelling.format("dgetrf")):
                    return loaded, spelling, bits
    return None


def _of_scipy(function: str) -> int:
    from scipy.linalg import cython_blas, cython_lapack

    for module in (cython_lapack, cython_blas):
        capsule = module.__pyx_capi__.get(function)
        if capsule is not None:
            return _pointer_in(capsule)
    raise LookupError(f"lapack.address: SciPy offers no function {function!r}")


def _pointer_in(capsule: Any) -> int:
    python = ctypes.pythonapi
    name_of, pointer_of = python.PyCapsule_GetName, python.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(pointer_of(capsule, name_of(capsule)))
