"""Where things lie in CPython's and NumPy's objects, tried out before anything relies on it."""

import ctypes
import functools
import sys
import types
import weakref
from dataclasses import dataclass

import numpy as np

WORD = 8  # bytes of a pointer and of a slot of `buffers`


@dataclass(frozen=True)
class ObjectLayout:
    """Byte offsets in CPython's and NumPy's objects.

    Generated code depends on them, so a key of cached code must hold the layout.
    """

    type: int = 8
    size: int = 16  # of a tuple or list
    tuple_items: int = 24
    list_items: int = 24
    bytes_data: int = 32
    cell_content: int = 16
    weakref_object: int = 16  # what a weak reference refers to
    value: int = 16  # of a float, a complex, a NumPy scalar
    array_data: int = 16
    array_ndim: int = 24
    array_shape: int = 32
    array_strides: int = 40
    array_dtype: int = 56
    array_flags: int = 64
    array_weakrefs: int = 72
    dtype_byteorder: int = 26
    dtype_number: int = 28


@functools.cache
def native_layout() -> ObjectLayout | None:
    """The layout of this interpreter's objects, or None where entries cannot be used.

    Nothing is taken on trust: each offset is tried on real objects and compared with what Python
    says of them.
    """
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != WORD:
        return None
    if object.__basicsize__ != 16:  # without a lock around all objects each has one of its own
        return None
    # CPython 3.14 put a cached hash before a tuple's items; the type itself tells.
    layout = ObjectLayout(tuple_items=tuple.__basicsize__, bytes_data=bytes.__basicsize__ - 1)
    good = _objects_agree(layout) and _arrays_agree(layout) and numpy_functions() is not None
    return layout if good else None


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


def address_of(array: np.ndarray) -> int:
    """Where the elements of an array lie; `array.ctypes.data` says the same in four times as long.

    >>> address_of(x := np.ones(3)) == x.ctypes.data
    True
    """
    layout = native_layout()
    if layout is None:
        return array.ctypes.data
    return _unsigned(id(array) + layout.array_data).value


_unsigned = ctypes.c_uint64.from_address


def _objects_agree(layout: ObjectLayout) -> bool:
    items = (object(), object(), object())
    cell = types.CellType(items)
    listed = list(items)
    list_items = _word(id(listed) + layout.list_items)
    double = ctypes.c_double.from_address
    return (
        [_word(id(items) + layout.tuple_items + WORD * i) for i in range(3)]
        == [id(x) for x in items]
        and [_word(list_items + WORD * i) for i in range(3)] == [id(x) for x in items]
        and _word(id(items) + layout.size) == _word(id(listed) + layout.size) == 3
        and _word(id(items) + layout.type) == id(tuple)
        and _word(id(cell) + layout.cell_content) == id(items)
        and ctypes.string_at(id(b"wengert!") + layout.bytes_data, WORD) == b"wengert!"
        and double(id(half := 0.5) + layout.value).value == half
        and double(id(imaginary := 3 + 4j) + layout.value + 8).value == imaginary.imag
        and double(id(scalar := np.float64(2.5)) + layout.value).value == scalar
        and ctypes.c_int16.from_address(id(short := np.int16(-7)) + layout.value).value == short
    )


def _arrays_agree(layout: ObjectLayout) -> bool:
    frozen = np.zeros((2, 3, 5), np.float32)[::-1, :, 1:4]
    frozen.flags.writeable = False
    misaligned = np.zeros(17, np.uint8)[1:].view(np.float64)
    swapped = np.zeros((4, 1), ">i4")
    arrays = (frozen, misaligned, swapped, np.zeros((), bool))
    return _weakrefs_agree(layout) and all(_array_agrees(layout, array) for array in arrays)


def _weakrefs_agree(layout: ObjectLayout) -> bool:
    array = np.empty(1)
    before = _word(id(array) + layout.array_weakrefs)
    reference = weakref.ref(array)
    after = _word(id(array) + layout.array_weakrefs)
    refers_to = _word(id(reference) + layout.weakref_object)
    return before == 0 and after == id(reference) and refers_to == id(array)


def _array_agrees(layout: ObjectLayout, array: np.ndarray) -> bool:
    at, dtype = id(array), id(array.dtype)
    shape, strides = _word(at + layout.array_shape), _word(at + layout.array_strides)
    axes = range(array.ndim)
    byteorder = ctypes.c_char.from_address(dtype + layout.dtype_byteorder).value
    return (
        _word(at + layout.type) == id(np.ndarray)
        and _word(at + layout.array_data) == array.ctypes.data
        and ctypes.c_int32.from_address(at + layout.array_ndim).value == array.ndim
        and [_word(shape + WORD * i) for i in axes] == list(array.shape)
        and [_word(strides + WORD * i) for i in axes] == list(array.strides)
        and _word(at + layout.array_dtype) == dtype
        and ctypes.c_int32.from_address(at + layout.array_flags).value == array.flags.num
        and byteorder == array.dtype.byteorder.encode()
        and ctypes.c_int32.from_address(dtype + layout.dtype_number).value == array.dtype.num
    )


NUMPY_ABI = 0x02000000  # what PyArray_GetNDArrayCVersion says for all of NumPy 2
NUMPY_FEATURES = 0x12  # PyArray_GetNDArrayCFeatureVersion of NumPy 2.0; later ones only add


@functools.cache
def numpy_functions() -> tuple[int, int] | None:
    """Addresses of PyArray_NewFromDescr and PyArray_Scalar; None where NumPy's C API is unknown."""
    try:
        from numpy._core._multiarray_umath import _ARRAY_API
    except ImportError:
        return None
    address_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    table = (ctypes.c_uint64 * 212).from_address(address_of(_ARRAY_API, None))
    version = ctypes.PYFUNCTYPE(ctypes.c_uint)
    if table[2] != id(np.ndarray) or version(table[0])() != NUMPY_ABI:
        return None
    if version(table[211])() < NUMPY_FEATURES:
        return None
    return table[94], table[60]
