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
        loops = all(_loop(name, kind)[0] for name in _EXAMPLES for kind in ("D", "F"))
        return loops and all(_sorts_rightly(kind) for kind in ("f8", "f4", "i8", "b1"))
    except (ImportError, AttributeError, LookupError):
        return False


def address(name: str) -> int:
    """Where the function, or what it is given, is that code calls by this name."""
    words = name.removeprefix(PREFIX)
    if words.startswith(tuple(_SORTS)):
        return _sort(*words.split("_"))
    wants_data = words.endswith(_DATA)
    function, kind = words.removesuffix(_DATA).rsplit("_", 1)
    found = _loop(function, kind)
    # what is given nothing does not look where that is
    return found[wants_data] or found[0]


def _ufunc(name: str) -> Any:
    if name not in _TRANSFORMS:
        return getattr(np, name)
    return getattr(importlib.import_module("numpy.fft._pocketfft_umath"), name)


# Their places in NumPy's table of functions of a dtype, which has three of each: the quick one.
_SORTS = {"sort": 33, "argsort": 36}
# The place of PyDataType_GetArrFuncs among the functions that NumPy offers to C.
_FUNCTIONS_OF_DTYPE = 365


@functools.cache
def _sort(name: str, kind: str) -> int:
    """A sort of elements of a dtype, or of places by these."""
    core: Any = importlib.import_module("numpy._core._multiarray_umath")
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    offered = ctypes.c_void_p * (_FUNCTIONS_OF_DTYPE + 1)
    table = offered.from_address(pointer_of(core._ARRAY_API, None))
    functions_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(
        int(table[_FUNCTIONS_OF_DTYPE] or 0)
    )
    own = (ctypes.c_void_p * (_SORTS["argsort"] + 3)).from_address(functions_of(np.dtype(kind)))
    return int(own[_SORTS[name]] or 0)


def _sorts_rightly(kind: str) -> bool:
    """Whether what lies there sorts, as far as an example tells."""
    if not _sort("sort", kind) or not _sort("argsort", kind):
        return False
    line, order = np.array([1, 0, 0, 1, 0]).astype(kind), np.arange(5)
    argsort = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_void_p
    )(_sort("argsort", kind))
    argsort(line.ctypes.data, order.ctypes.data, 5, None)
    sort = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_void_p)(
        _sort("sort", kind)
    )
    before = line[order].tolist()
    sort(line.ctypes.data, 5, None)
    return before == line.tolist() == sorted(before) and sorted(order) == [*range(5)]


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
