"""NumPy's own functions on plain memory: where they are.

The loop of a ufunc is a C function of addresses, lengths and steps that knows nothing of Python.
Native code calls it as NumPy does. Where it is, is read from the ufunc, whose layout NumPy's
headers publish, and all that can be compared with what Python says of it is compared. As with
LAPACK, code has names alone: `numpy_fft_D`, and `numpy_fft_D_data` for what a loop is given beside
its arguments.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from typing import Any

import numpy as np

PREFIX = "numpy_"
_DATA = "_data"
# Transforms are in a module of their own.
_TRANSFORMS = ("fft", "ifft", "irfft", "rfft_n_even", "rfft_n_odd")
_EXAMPLES = (*_TRANSFORMS, "sin", "power")


class _Ufunc(ctypes.Structure):
    """The head of a PyUFuncObject, behind that of any object."""

    _fields_ = (
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("types", ctypes.POINTER(ctypes.c_char)),
    )


@functools.cache
def are_there() -> bool:
    """Whether NumPy's loops are where they are looked for."""
    try:
        return all(_loop(name, kind)[0] for name in _EXAMPLES for kind in ("D", "F"))
    except (ImportError, AttributeError, LookupError):
        return False


def address(name: str) -> int:
    """Where the function, or what it is given, is that code calls by this name."""
    words = name.removeprefix(PREFIX)
    wants_data = words.endswith(_DATA)
    function, kind = words.removesuffix(_DATA).rsplit("_", 1)
    found = _loop(function, kind)
    # what is given nothing does not look where that is
    return found[wants_data] or found[0]


def _ufunc(name: str) -> Any:
    if name not in _TRANSFORMS:
        return getattr(np, name)
    return getattr(importlib.import_module("numpy.fft._pocketfft_umath"), name)


@functools.cache
def _loop(function: str, kind: str) -> tuple[int, int]:
    """The loop of a ufunc for complex numbers of a kind, and what it is given as data."""
    ufunc = _ufunc(function)
    found = _Ufunc.from_address(id(ufunc) + object.__basicsize__)
    known = (found.nin, found.nout, found.nargs, found.ntypes)
    # pointers are followed only where all numbers are right
    is_right = known == (ufunc.nin, ufunc.nout, ufunc.nargs, ufunc.ntypes)
    if not is_right or found.name != ufunc.__name__.encode():
        raise LookupError(f"numpy_loops: the ufunc {function!r} is not laid out as expected")
    for number, signature in enumerate(ufunc.types):
        codes = found.types[number * found.nargs : (number + 1) * found.nargs]
        if [np.dtype(c).num for c in signature.replace("->", "")] != list(codes):
            raise LookupError(f"numpy_loops: the types of {function!r} are not as expected")
        if kind in signature and "O" not in signature:
            data = found.data[number] if found.data else None
            return int(found.functions[number] or 0), int(data or 0)
    raise LookupError(f"numpy_loops: {function!r} has no loop for {kind!r}")
