"""NumPy's functions that are given lists of traced values: an array is made of these first.

NumPy asks no item of a list whether it is traced, and no protocol does it for it. So where a
function that is traced names NumPy (`creating.py`), or is converted (`control/runtime.py`), another
function is called. It is the name's meaning for a call alone: what is kept or compared, as in
``act is np.tanh``, is NumPy's own.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import numpy as np

from .array import FUNCTIONS
from .made import TRACED, plain

# Functions that ask lists for their items, which may be arrays. All others would make one array of
# a list, and ask none of its items whether it is traced.
_OF_LISTS = (
    "broadcast_arrays choose column_stack concatenate dstack hstack lexsort piecewise select "
    "stack vstack"
)
_OF_LISTS_OF_ARRAYS = frozenset(
    [*[getattr(np, name) for name in _OF_LISTS.split()], np.linalg.multi_dot]
)
_OF_ARRAYS = frozenset(
    function
    for module in (np, np.linalg, np.fft)
    for function in vars(module).values()
    if type(function) is type(np.sum)
    and function not in _OF_LISTS_OF_ARRAYS
    and function is not np.block  # whose lists say where arrays stand, whatever is in them
)


def takes_one_array(function: Any) -> bool:
    """Whether a function is one of NumPy's that makes one array of a list."""
    return type(function) is np.ufunc or (_is_numpys(function) and function in _OF_ARRAYS)


def takes_arrays(function: Any) -> bool:
    """Whether a function is one of NumPy's that asks a list for its items."""
    return _is_numpys(function) and function in _OF_LISTS_OF_ARRAYS


def _is_numpys(function: Any) -> bool:
    return type(function) is type(np.sum)  # what users call may have no hash


def of_lists(function: Any) -> Any:
    """A function of arrays that takes lists of traced values too."""
    return _given(function, _array)


def of_lists_of_arrays(function: Any) -> Any:
    """A function of lists of arrays, of which each may be a list of traced values."""
    return _given(function, _arrays)


_LISTS = frozenset((list, tuple))


def _given(function: Any, change: Callable[[Any], Any]) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        if _LISTS.isdisjoint(map(type, args)) and (
            not kwargs or _LISTS.isdisjoint(map(type, kwargs.values()))
        ):
            return function(*args, **kwargs)
        given = {name: arg if name == "out" else change(arg) for name, arg in kwargs.items()}
        return function(*map(change, args), **given)

    return call


def _arrays(arg: Any) -> Any:
    # of a tuple one: `lexsort` looks for traced keys there alone
    return type(arg)(map(_array, arg)) if type(arg) in (list, tuple) else arg


def _array(arg: Any) -> Any:
    if type(arg) is not list and type(arg) is not tuple:
        return arg
    return FUNCTIONS["asarray"](arg) if plain(arg) is TRACED else arg


# ---------------------------------------------------------------- names that mean it


def for_call(function: Any, frame: FrameType) -> Any:
    """What a function's name gives to a frame: one of `TAKING` if it calls that at once."""
    code = frame.f_code
    known = _known.get(id(code))
    if known is None or known[0] is not code:
        if len(_known) >= _REMEMBERED:
            _known.clear()
        known = _known[id(code)] = code, _called(code)
    return TAKING[id(function)] if frame.f_lasti in known[1] else function


# Functions of NumPy's as those that take lists of traced values too, by `id`.
TAKING = {
    id(function): of_lists_of_arrays(function) if takes_arrays(function) else of_lists(function)
    for module in (np, np.linalg, np.fft)
    for function in vars(module).values()
    if takes_one_array(function) or takes_arrays(function)
}
# By `id`: a code's own hash is that of all it consists of.
_known: dict[int, tuple[CodeType, frozenset[int]]] = {}
_REMEMBERED = 4096


def _called(code: CodeType) -> frozenset[int]:
    """Where a code loads an attribute that it calls: ``np.sum`` in ``np.sum(x)``."""
    steps = [one for one in dis.get_instructions(code) if one.opname != "EXTENDED_ARG"]
    around = zip([None, None, *steps], [None, *steps], steps, [*steps[1:], None], strict=False)
    return frozenset(
        one.offset for first, last, one, after in around if _calls(first, last, one, after)
    )


def _calls(first: Any, last: Any, one: Any, after: Any) -> bool:
    """Whether an instruction loads what is called, given the two before it and that after it.

    Beside a function that is called Python has an object, or a null: loaded with the function,
    before its module (``np``), or after it.
    """
    if one.opname == "LOAD_METHOD":
        return True
    nulls = [
        last is not None and last.opname == "LOAD_GLOBAL" and last.arg & 1,
        sys.version_info >= (3, 12) and one.arg is not None and one.arg & 1,
    ]
    beside = after if sys.version_info >= (3, 13) else first
    nulls.append(beside is not None and beside.opname == "PUSH_NULL")
    return one.opname == "LOAD_ATTR" and any(nulls)
