"""Functions that are known to have no effects, so that one call can stand for those of all turns.

This is asked of each call in a turn of a loop that is traced once, although it could be run turn by
turn. What is not known here may draw random numbers, print, count or remember: then the loop is
run.
"""

from __future__ import annotations

import builtins
import collections
import dataclasses
import functools
import math
import operator
import os
import types
from typing import Any

import numpy as np

from ..ops.op import Traced
from .conversion import called, is_users
from .pieces import Abandon
from .quiet import is_quiet

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_FOLDERS = tuple(
    os.path.join(_ROOT, name) + os.sep for name in ("numpy", "transforms", "ops", "trace")
)
_RANDOM = os.path.join(_ROOT, "numpy", "random.py")
# What takes no functions of the user's.
_SCIPYS_FILES = tuple(
    os.path.join(_ROOT, "scipy", f"{name}.py")
    for name in ("special", "linalg", "signal", "ndimage", "stats", "multivariate", "frozen")
)
BUILTINS = frozenset(
    getattr(builtins, name)
    for name in "abs all any bool complex dict divmod enumerate float frozenset getattr hasattr "
    "int isinstance issubclass len list max min pow range repr reversed round set slice sorted str "
    "sum tuple type zip".split()
)


def _changes(module: Any, name: str) -> bool:
    """Whether a function of `operator` is that of an assignment, such as ``x[i] = y`` or ``+=``."""
    name = name.strip("_")
    in_place = name.startswith("i") and hasattr(operator, name[1:])
    return module is operator and (in_place or name in ("setitem", "delitem"))


_MATH = frozenset(
    value
    for module in (math, operator)
    for name, value in vars(module).items()
    if callable(value) and not _changes(module, name)
)
_WRITING = frozenset("copyto put place putmask put_along_axis fill_diagonal".split())
CHANGING = frozenset(
    "append extend insert pop remove clear sort reverse update setdefault popitem add discard "
    "appendleft extendleft popleft rotate fill put itemset resize setfield setflags partition "
    "byteswap difference_update intersection_update symmetric_difference_update "
    "__setitem__ __delitem__ __setattr__ __delattr__ __next__ __iadd__ __isub__ __imul__ __ior__ "
    "__iand__ __ixor__ __ipow__ __itruediv__ __ifloordiv__ __imod__ __imatmul__".split()
)
_CONTAINERS = (
    list,
    collections.deque,
    dict,
    set,
    np.ndarray,
    str,
    tuple,
    int,
    float,
    complex,
    range,
    bytes,
    np.generic,
)


# SciPy's functions of data: they call no function of the user's, and draw nothing.
_SCIPYS = ("scipy.special", "scipy.linalg", "scipy.signal", "scipy.ndimage", "scipy.fft")
# Of distributions these alone.
_DENSITIES = frozenset(
    "pdf logpdf pmf logpmf cdf logcdf sf logsf ppf isf mean var std median entropy".split()
)


def changing_method(function: Any) -> Any:
    """The object that a method of Python's or NumPy's would change; None where it is none."""
    owner = getattr(function, "__self__", None)
    if owner is None or isinstance(owner, (types.ModuleType, type)):
        return None
    return owner if function.__name__ in CHANGING else None


def pure(function: Any) -> Any:
    """The function, where a call has no effects; ends the attempt otherwise."""
    if isinstance(function, functools.partial):
        pure(function.func)
        return function
    if isinstance(function, np.ufunc) or _is_numpy(function):
        return _watched(function)
    if _is_scipys(function):
        return _of_data(function)
    if isinstance(function, types.MethodType):
        owner = function.__self__
        if isinstance(owner, Traced) or getattr(type(owner), "is_stand_in", False):
            return function
        pure(function.__func__)
        return function
    if isinstance(function, types.FunctionType):
        name = function.__code__.co_filename
        if name.startswith(_FOLDERS) and not name.startswith(_RANDOM):
            return function
        if name in _SCIPYS_FILES and function.__name__ != "rvs":
            return _of_data(function)
        raise Abandon
    if isinstance(function, type):
        return _class(function)
    if isinstance(function, (types.BuiltinFunctionType, types.MethodWrapperType)):
        return _builtin(function)
    if isinstance(function, staticmethod) and hasattr(function, "function"):
        return function  # compiled: its function is asked for when it runs
    raise Abandon


def _is_numpy(function: Any) -> bool:
    module = getattr(function, "__module__", None) or ""
    named = module == "numpy" or module.startswith(("numpy.linalg", "numpy.fft", "numpy.lib"))
    return named and not isinstance(function, type) and function.__name__ not in _WRITING


def _is_scipys(function: Any) -> bool:
    module = f"{getattr(function, '__module__', None)}."
    if isinstance(function, type):
        return False
    if module.startswith("scipy.stats."):  # a distribution is called with its parameters
        return getattr(function, "__name__", "pdf") in _DENSITIES
    return module.startswith(tuple(f"{name}." for name in _SCIPYS))


def _of_data(function: Any) -> Any:
    """A function of SciPy's that may call none of the user's, nor write into a plain array."""

    def call(*args: Any, **kwargs: Any) -> Any:
        writes = any(name.startswith(("overwrite", "out")) for name in kwargs)
        if writes or any(map(callable, [*args, *kwargs.values()])):
            raise Abandon
        return function(*args, **kwargs)

    return call


def _watched(function: Any) -> Any:
    """A function of NumPy's that may not write its result into a plain array."""

    def call(*args: Any, **kwargs: Any) -> Any:
        out = kwargs.get("out")
        if isinstance(function, np.ufunc) and len(args) > function.nin:
            out = args[function.nin :]
        outs = out if isinstance(out, tuple) else (out,)
        if any(one is not None and not isinstance(one, Traced) for one in outs):
            raise Abandon
        return function(*args, **kwargs)

    return call


def _added(function: Any) -> Any:
    """``np.add.at`` and its like, which may not write to a plain array."""

    def call(array: Any, *args: Any) -> Any:
        if not isinstance(array, Traced):
            raise Abandon
        return function(array, *args)

    return call


def is_plain_class(kind: Any) -> bool:
    """Whether making an object of a class is a call of the user's `__init__`."""
    inherited: Any = object.__new__
    made = kind.__new__ is inherited and type(kind) is type
    written = vars(kind).get("__init__")
    own = type(written) is types.FunctionType and is_users(written.__code__)
    generated = own and written.__code__.co_filename == "<string>"
    return made and own and not generated and kind.__setattr__ is object.__setattr__


def maker(kind: Any) -> Any:
    """A function that makes an object as its class does, with `__init__` called like any other."""

    def make(*args: Any, **kwargs: Any) -> Any:
        made = object.__new__(kind)
        called(kind.__init__)(made, *args, **kwargs)
        return made

    return make


def _class(kind: type) -> Any:
    known = kind in BUILTINS or kind.__module__ == "numpy"
    named_tuple = issubclass(kind, tuple) and hasattr(kind, "_fields") and "__new__" in vars(kind)
    if is_plain_class(kind) and is_quiet(kind):
        return maker(kind)
    if known or ((named_tuple or _is_plain_dataclass(kind)) and is_quiet(kind)):
        return kind
    raise Abandon


def _is_plain_dataclass(kind: type) -> bool:
    """Whether making an instance only puts its arguments into fields."""
    if not dataclasses.is_dataclass(kind) or hasattr(kind, "__post_init__"):
        return False
    frozen = kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    own = kind.__new__ is object.__new__ and (frozen or kind.__setattr__ is object.__setattr__)
    written = vars(kind).get("__init__")  # by Python: a class of that name has no file
    generated = type(written) is types.FunctionType and written.__code__.co_filename == "<string>"
    factories = (field.default_factory for field in dataclasses.fields(kind))
    return own and generated and all(f is dataclasses.MISSING or f in BUILTINS for f in factories)


def _builtin(function: Any) -> Any:
    owner = getattr(function, "__self__", None)
    if owner is None or isinstance(owner, types.ModuleType):
        if function in BUILTINS or function in _MATH:
            return function
    elif isinstance(owner, np.ufunc):
        return _added(function) if function.__name__ == "at" else _watched(function)
    elif isinstance(owner, _CONTAINERS):  # those that change it were asked for before
        return function
    raise Abandon
