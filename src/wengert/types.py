"""Types of values: a dtype and a shape, printed as ``f32[8,2]``.

A Python number is *weak*: it takes on the dtype of the array it meets, as in NumPy 2, so that
``float32_array * 2.0`` stays float32. Everything else has the dtype it says.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .errors import DTypeError, explain

Function = Callable[..., Any]

_KINDS = {"f": "f", "i": "i", "u": "u", "c": "c"}
_WEAK_EXEMPLARS = {"i": int, "f": float, "c": complex}


class ArrayType(NamedTuple):
    """The type of one array value.

    >>> import numpy as np
    >>> print(ArrayType(np.dtype("float32"), (8, 2)))
    f32[8,2]
    """

    dtype: np.dtype
    shape: tuple[int, ...]
    weak: bool = False

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        size = 1
        for length in self.shape:
            size *= length
        return size

    @property
    def inexact(self) -> bool:
        """Whether values of this type can carry a derivative."""
        return self.dtype.kind in "fc"

    def __str__(self) -> str:
        name = dtype_name(self.dtype) + ("*" if self.weak else "")
        return f"{name}[{','.join(map(str, self.shape))}]" if self.shape else name


def dtype_name(dtype: np.dtype) -> str:
    """``f32``, ``i64``, ``c128``, ``bool``: the short name of a dtype."""
    if dtype.kind == "b":
        return "bool"
    kind = _KINDS.get(dtype.kind)
    return f"{kind}{dtype.itemsize * 8}" if kind else str(dtype)


_PYTHON_TYPES = {
    bool: ArrayType(np.dtype(bool), ()),
    int: ArrayType(np.dtype(np.int64), (), True),
    float: ArrayType(np.dtype(np.float64), (), True),
    complex: ArrayType(np.dtype(np.complex128), (), True),
}


class Typed:
    """Base of the objects that know their own `type` (traced values)."""

    __slots__ = ()
    type: ArrayType

    def _weaken(self) -> None:
        """Take on a weak type; see `weaken`."""
        raise NotImplementedError


def type_of(value: Any) -> Any:
    """The `ArrayType` of an array, a number or a traced value; a tuple of types for a tuple.

    >>> print(type_of(np.zeros((2, 3), np.float32)), type_of(2.0))
    f32[2,3] f64*
    """
    if isinstance(value, Typed):
        return value.type
    if isinstance(value, (np.ndarray, np.generic)):  # as a tuple it is made in half the time
        return tuple.__new__(ArrayType, (value.dtype, value.shape, False))
    python_type = _PYTHON_TYPES.get(type(value))
    if python_type is not None:
        return python_type
    if isinstance(value, tuple):
        return tuple(type_of(item) for item in value)
    array = np.asarray(value)
    return ArrayType(array.dtype, array.shape)


def weaken(value: Any) -> Any:
    """Python numbers combined by operators stay Python numbers: they do not promote arrays."""
    if isinstance(value, Typed):
        value._weaken()
    elif isinstance(value, (np.generic, np.ndarray)) and value.dtype.kind in "ifc":
        return value.item()
    return value


def is_weak(array_type: Any) -> bool:
    """Whether a type (or a tuple of types) is that of a Python number."""
    return isinstance(array_type, ArrayType) and array_type.weak


def promotable(array_type: ArrayType) -> Any:
    """What stands for the type in NumPy's promotion: its dtype, or a Python type when weak."""
    return _WEAK_EXEMPLARS[array_type.dtype.kind] if array_type.weak else array_type.dtype


def result_dtype(*types: ArrayType) -> np.dtype:
    """NumPy's promoted dtype of several types; weak numbers do not promote."""
    zeros = {"i": 0, "f": 0.0, "c": 0j}
    return np.result_type(*[zeros[t.dtype.kind] if t.weak else t.dtype for t in types])


def inexact_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype in which derivatives and means of `dtype` are taken."""
    return dtype if dtype.kind in "fc" else np.dtype(np.float64)


# What an operation on arrays of a class means is said by these methods.
_MEANINGS = frozenset(
    "__array_ufunc__ __array_function__ __array_wrap__ __getitem__ __add__ __sub__ __mul__ "
    "__matmul__ __truediv__ __pow__ __eq__ __lt__ sum mean dot transpose".split()
)


@functools.lru_cache(256)
def lost_meaning(kind: type) -> tuple[str, str] | None:
    """What is lost when arrays of a class are taken for plain ones, and what to do; or None.

    >>> lost_meaning(np.memmap)
    >>> lost_meaning(np.matrix)[0]
    'a numpy.matrix, for which * and ** are products of matrices'
    """
    if issubclass(kind, Typed):
        return None
    # the module takes long to import, and without it there are no masked arrays
    if issubclass(kind, getattr(sys.modules.get("numpy.ma"), "MaskedArray", ())):
        return (
            "a masked array, whose mask would be lost",
            "Pass x.filled(0) and the mask, and use wnp.where(mask, 0, x).",
        )
    if issubclass(kind, np.matrix):
        return (
            "a numpy.matrix, for which * and ** are products of matrices",
            "Pass np.asarray(x), and write @ for products.",
        )
    if issubclass(kind, (np.memmap, np.recarray)):
        return None
    own = kind.__mro__[: kind.__mro__.index(np.ndarray)]
    if not any(_MEANINGS & vars(one).keys() for one in own):
        return None
    return (
        f"an array of the class {kind.__name__}, which says itself what operations mean",
        "Pass np.asarray(x).",
    )


def check_class(value: np.ndarray, operation: str) -> None:
    """Refuse arrays that are more than numbers: what they mean would be lost."""
    kind: Any = type(value)
    lost = lost_meaning(kind)
    if lost is not None:
        raise DTypeError(explain(operation, f"got {lost[0]}", lost[1]))


def lowest(dtype: np.dtype) -> Any:
    """The least value of a real dtype, with which padding changes no maximum."""
    if dtype.kind == "f":
        return -np.inf
    return np.iinfo(dtype).min if dtype.kind in "iu" else False


def exactly(value: object) -> object:
    """A key that is equal for the same values only: 1 is not 1.0, and 0.0 is not -0.0."""
    if isinstance(value, (tuple, list)):
        return (type(value), *map(exactly, value))
    if isinstance(value, float):
        return (float, value.hex())
    return (type(value), value)
