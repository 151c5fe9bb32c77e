"""Methods that Python calls by itself, and whether they have effects.

Operators, properties and their like are not called in the text of a loop, so nobody is asked
before. Where an object of a class that has some is within reach of a turn that is to stand for all,
their code is looked at: it may not write to anything, nor call what may.
"""

from __future__ import annotations

import builtins
import collections
import dis
import functools
import itertools
import types
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ..ops.op import Traced
from .contents import content
from .conversion import is_users

# What is asked for before it happens, or never happens in a turn.
_ASKED = frozenset(
    "__init__ __new__ __call__ __setattr__ __delattr__ __setitem__ __delitem__ __init_subclass__ "
    "__class_getitem__ __repr__ __str__ __del__ __reduce__ __getstate__ __setstate__".split()
)
_WRITES = ("STORE_ATTR", "STORE_SUBSCR", "STORE_SLICE", "STORE_GLOBAL", "DELETE")
# Values within reach that are looked at, and items of one container.
_MOST, _ITEMS = 2000, 50
_PLAIN = (np.ndarray, np.generic, int, float, complex, str, bytes, types.ModuleType, type)


def are_quiet(values: Iterable[Any]) -> bool:
    """Whether methods that Python calls by itself on values within reach have no effects."""
    return all(map(is_quiet, _classes_in(values)))


def _classes_in(values: Iterable[Any]) -> set[type]:
    pending = list(values)
    seen: set[int] = set()
    found: set[type] = set()
    while pending and len(seen) < _MOST:
        now = pending.pop()
        if isinstance(now, Traced):
            continue
        if isinstance(now, type):
            found.add(now)
        if id(now) in seen or isinstance(now, _PLAIN):
            continue
        seen.add(id(now))
        kind: Any = type(now)
        found.add(kind)
        if isinstance(now, dict):
            pending += itertools.islice(now.values(), _ITEMS)
        elif isinstance(now, (list, tuple, collections.deque)):
            pending += itertools.islice(now, _ITEMS)
        elif isinstance(now, types.CellType):
            pending += content(now).values()
        elif is_users_class(kind):
            pending += getattr(now, "__dict__", {}).values()
    return found


@functools.lru_cache(maxsize=4096)
def is_users_class(kind: type) -> bool:
    """Whether a class has methods of the user's."""
    return any(True for _ in _methods(kind))


def _methods(kind: type) -> Iterator[tuple[str, types.FunctionType]]:
    for base in kind.__mro__:
        for name, value in vars(base).items():
            parts = (value.fget,) if isinstance(value, property) else (value,)
            if not isinstance(value, (types.FunctionType, property)) and hasattr(value, "__get__"):
                parts = (getattr(type(value), "__get__", None),)
            for part in parts:
                if isinstance(part, types.FunctionType) and is_users(part.__code__):
                    yield name if part is value else "", part


@functools.lru_cache(maxsize=4096)
def is_quiet(kind: type) -> bool:
    """Whether methods of a class that Python calls by itself have no effects."""
    return all(
        _has_no_effects(method)
        for name, method in _methods(kind)
        if not name or (name.startswith("__") and name not in _ASKED)
    )


def _purity() -> Any:
    from . import purity  # which asks here

    return purity


def _has_no_effects(function: types.FunctionType, known: frozenset[Any] = frozenset()) -> bool:
    code = function.__code__
    if code in known:
        return True
    first = code.co_varnames[:1] if function.__name__ == "__init__" else ()
    before: Any = None
    for one in dis.get_instructions(code):
        own = one.opname == "STORE_ATTR" and before in first and bool(first)
        if one.opname.startswith(_WRITES) and not own:
            return False
        before = one.argval if one.opname.startswith("LOAD_FAST") else None
        if isinstance(before, tuple):
            before = before[-1]
    names = {*code.co_names}
    if names & _purity().CHANGING or "random" in names or set(code.co_cellvars) - {"__class__"}:
        return False
    cells = [cell.cell_contents for cell in function.__closure__ or () if cell != types.CellType()]
    known = known | {code}
    values = [_meaning(function, name) for name in code.co_names]
    return all(_may_be_called(value, known) for value in [*values, *cells])


def _meaning(function: types.FunctionType, name: str) -> Any:
    """What a name of the code is: that of an attribute is not known, and counts as none."""
    return function.__globals__.get(name, getattr(builtins, name, None))


def _may_be_called(value: Any, known: frozenset[Any]) -> bool:
    if isinstance(value, types.BuiltinFunctionType) and value.__module__ == "builtins":
        return value in _purity().BUILTINS or value in (hash, id, iter, callable)
    if isinstance(value, type) and is_users_class(value):
        return all(_has_no_effects(m, known) for name, m in _methods(value) if name == "__init__")
    if isinstance(value, types.FunctionType) and is_users(value.__code__):
        return _has_no_effects(value, known)
    return True
