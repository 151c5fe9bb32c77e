"""Whether a function may make arrays that traced values are written to, and by which names.

Most functions do not, and for them all names stay what they are (see `creating.py`): that takes
less time. What counts are the names in the code of a function and of all that it can reach:
NumPy's functions that make arrays of values (`np.array`, `np.full`), and those that make constant
ones (`np.zeros`, `np.eye`) if anything is written in place as well. What is called in ways that are
not followed counts as if it did all of it. To be wrong costs little: an array is plain, and says so
when a traced value is written to it.
"""

from __future__ import annotations

import builtins
import dis
import functools
from collections.abc import Sequence
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ..types import Typed
from .array import FUNCTIONS

_CONSTANT = "zeros ones empty eye identity tri zeros_like ones_like empty_like".split()
_OF_VALUES = (
    "array asarray asanyarray ascontiguousarray asfortranarray asarray_chkfinite require copy full "
    "full_like arange linspace logspace geomspace fromiter"
).split()
NAMES = (*_CONSTANT, *_OF_VALUES)
# What is no function, but takes traced values all the same.
OBJECTS = ("c_", "r_", "vectorize")
# NumPy and its functions, and what stands in their places meanwhile (`creating.py`), by `id`.
OWN: dict[int, Any] = {id(np): np, **{id(vars(np)[name]): vars(np)[name] for name in NAMES}}
INSTEAD: dict[int, Any] = {}

# What a function may do: make constant arrays, arrays of values, write in place, anything.
CONSTANT, VALUES, WRITES, ANYTHING = 1, 2, 4, 8
_EFFECTS = dict.fromkeys(_CONSTANT, CONSTANT) | dict.fromkeys((*_OF_VALUES, *OBJECTS), VALUES)
_EFFECTS |= dict.fromkeys(
    "at byteswap copyto fill fill_diagonal flat partition place put put_along_axis putmask "
    "setfield sort".split(),
    WRITES,
)
# How many values are looked at, items of a container, and codes that are remembered.
_MOST, _ITEMS, _REMEMBERED = 300, 30, 4096
_LIBRARIES = frozenset("numpy wengert scipy math cmath operator itertools builtins".split())
# Parts of wengert that are written as users write.
_USERS = ("wengert.bench", "wengert.experiments")
_UNCLEAR = frozenset("eval exec getattr globals locals vars __import__ setattr".split())
# The classes of NumPy's numbers.
NUMBERS = frozenset(np.dtype(code).type for code in "?bhilqBHILQefdgFDG")
_DATA = NUMBERS | {
    np.ndarray, float, int, bool, complex, str, bytes, type(None), range, slice, type(...),
}  # fmt: skip
_CONTAINERS = (dict, list, set, str, tuple)


def numpys_own(value: Any) -> Any:
    """NumPy, or a function of it, where something stands in its place."""
    return INSTEAD.get(id(value), value)


class Place:
    """A name or a cell that holds NumPy or one of its functions."""

    __slots__ = ("holder", "name")

    def __init__(self, holder: Any, name: str):
        self.holder = holder
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and self.holder is other.holder and self.name == other.name

    def __hash__(self) -> int:
        return hash((id(self.holder), self.name))

    def exchange(self, values: dict[int, Any]) -> bool:
        """Put in what stands for what is there now, if anything does."""
        is_cell = type(self.holder) is CellType
        try:
            now = self.holder.cell_contents if is_cell else self.holder.get(self.name)
        except ValueError:  # nothing in the cell
            return False
        other = values.get(id(now))
        if other is None:
            return False
        if is_cell:
            self.holder.cell_contents = other
        else:
            self.holder[self.name] = other
        return True


def _stand(basis: list[tuple[dict[str, Any], str, Any]]) -> bool:
    """Whether names mean what they meant."""
    for scope, name, value in basis:
        now = scope.get(name)
        if now is not value and numpys_own(now) is not value:
            return False
    return True


class _Mentions:
    """What the code of a function says: its effects, the places it uses, the values it names."""

    def __init__(self, function: FunctionType):
        self.effects = 0
        self.code, self.scope = function.__code__, function.__globals__
        self.places: list[Place] = []
        self.values: list[Any] = []
        self.basis: list[tuple[dict[str, Any], str, Any]] = []
        self.read(function.__code__)

    def read(self, code: CodeType) -> None:
        """Add what a code says, and those inside it."""
        attributes: set[str] = set()
        modules: list[ModuleType] = []
        for one in dis.get_instructions(code):
            operation, name = one.opname, one.argval
            if operation in ("STORE_SUBSCR", "STORE_SLICE") or (
                operation == "BINARY_OP" and one.argrepr.endswith("=")
            ):
                self.effects |= WRITES
            elif operation in ("LOAD_GLOBAL", "LOAD_NAME"):
                self.look_up(self.scope, name, modules)
            elif operation in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM", "LOAD_SUPER_ATTR"):
                attributes.add(name)
            elif operation == "IMPORT_NAME" and not is_library(name):
                self.effects |= ANYTHING
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self.read(constant)
            elif isinstance(constant, tuple) and "out" in constant:
                self.effects |= WRITES
        for name in attributes:
            self.attribute(name, modules)

    def look_up(self, scope: dict[str, Any], name: str, modules: list[ModuleType]) -> None:
        """Add what a name means."""
        if name not in scope:
            if name in _UNCLEAR or not hasattr(builtins, name):
                self.effects |= ANYTHING
            return
        value = numpys_own(scope[name])
        if type(value) in _DATA:
            return
        self.basis.append((scope, name, value))
        if id(value) in OWN:
            place = Place(scope, name)
            self.places += [] if place in self.places else [place]
            if value is not np:
                self.effects |= _EFFECTS[value.__name__]
        elif isinstance(value, ModuleType):
            if not is_library(value.__name__):
                modules.append(value)
        else:
            self.values.append(value)

    def attribute(self, name: str, modules: list[ModuleType]) -> None:
        """Add what an attribute of something can be."""
        if name in _EFFECTS:
            self.effects |= _EFFECTS[name]
            return
        for module in modules:  # it may grow
            if name in vars(module):
                self.look_up(vars(module), name, modules)
                return
        if name not in _harmless():
            self.effects |= ANYTHING


@functools.cache
def _harmless() -> frozenset[str]:
    """Attributes of arrays and containers, and functions that make no array of their own."""
    names = {name for kind in (np.ndarray, *_CONTAINERS) for name in dir(kind)}
    names |= {name.rpartition(".")[2] for name in FUNCTIONS} | set(dir(np))
    return frozenset(name for name in names if not name.startswith("__"))


@functools.cache
def is_library(module: str | None) -> bool:
    """Whether a module is known to call no code of the user's by a name."""
    name = str(module)
    return name.partition(".")[0] in _LIBRARIES and not name.startswith(_USERS)


def _names_of(function: FunctionType) -> _Mentions:
    code = function.__code__
    found = _known.get(id(code))
    if (
        found is None
        or found.code is not code
        or found.scope is not function.__globals__
        or not _stand(found.basis)
    ):
        if len(_known) >= _REMEMBERED:
            _known.clear()
        found = _known[id(code)] = _Mentions(function)
    return found


# By `id`: a code's own hash is that of all it consists of.
_known: dict[int, _Mentions] = {}


class _Plan:
    """What was found for a function, good for all that have its code and hold the like.

    `cells` says what those hold: None for data, a module, a function's plan, or which object.
    """

    __slots__ = ("basis", "cells", "code", "places", "scope")

    def __init__(self, function: FunctionType, cells: list[Any]):
        self.code, self.scope, self.cells = function.__code__, function.__globals__, cells
        self.basis: list[tuple[dict[str, Any], str, Any]] = []
        self.places: list[Place] = []

    def fits(self, function: FunctionType) -> bool:
        """Whether it says what the function does, too."""
        if function.__code__ is not self.code or function.__globals__ is not self.scope:
            return False
        if self.cells:
            try:
                for cell, known in zip(function.__closure__ or (), self.cells, strict=True):
                    value = cell.cell_contents
                    if value is known:
                        continue
                    if known is None:
                        if type(value) not in _PASSIVE and not isinstance(value, _VALUES):
                            return False
                    elif type(known) is _Plan:
                        if type(value) is not FunctionType or not known.fits(value):
                            return False
                    elif known != (type(value), id(value)):
                        return False
            except ValueError:  # nothing in a cell
                return False
        if function.__defaults__ and not _are_passive(function.__defaults__):
            return False
        return not self.basis or _stand(self.basis)


_PASSIVE = _DATA | {tuple, list, dict, set, frozenset}
_VALUES = (np.ndarray, Typed)
_plans: dict[int, _Plan] = {}


def _are_passive(values: Sequence[Any]) -> bool:
    for value in values:
        if type(value) not in _PASSIVE and not isinstance(value, _VALUES):
            return False
    return True


def _plan(function: FunctionType, depth: int = 8) -> _Plan | None:
    """A plan for a function: what its cells hold now."""
    cells: list[Any] = []
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:
            return None
        if type(value) is FunctionType:
            value = _plan(value, depth - 1) if depth else None
            if value is None:
                return None
        elif _is_data(value):
            value = None
        elif not isinstance(value, ModuleType):
            value = type(value), id(value)
        cells.append(value)
    return _Plan(function, cells)


def places_to_change(
    function: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
) -> list[Place]:
    """Where a function names NumPy, if traced values may be written to arrays that it makes.

    Arguments that are given to it as they are may be functions too.
    """
    given = (*args, *kwargs.values()) if kwargs else args
    if type(function) is not FunctionType or not _are_passive(given):
        return _Search([function, *given]).places
    plan = _plans.get(id(function.__code__))
    if plan is not None and plan.fits(function):
        return plan.places
    search = _Search([function])
    plan = _plan(function) if search.by_names else None
    if plan is not None:
        plan.places = search.places
        plan.basis = [one for names in search.basis for one in names.basis]
        if len(_plans) >= _REMEMBERED:
            _plans.clear()
        _plans[id(function.__code__)] = plan
    return search.places


def reached(function: Any) -> list[Any]:
    """The objects, of those that are more than data, that a function has names for or holds."""
    return _Search([function]).objects


class _Search:
    """All that can be reached from some values: `places`, if these must be changed."""

    def __init__(self, pending: list[Any]):
        self.objects: list[Any] = []
        self.places: list[Place] = []
        self.basis: list[_Mentions] = []
        # whether all places are names, none of them a cell, and all was looked at
        self.by_names = True
        effects, seen = 0, set[int]()
        while pending and len(seen) < _MOST:
            value = pending.pop()
            kind = type(value)
            if kind in _DATA or id(value) in seen or isinstance(value, _VALUES):
                continue
            seen.add(id(value))
            if id(value) in INSTEAD:
                continue
            self.objects.append(value)
            if kind is FunctionType:
                effects |= self.function(value, pending)
            else:
                effects |= _inside(value, pending)
        writes = effects & (CONSTANT | WRITES) == CONSTANT | WRITES
        self.by_names = self.by_names and not pending
        if not (writes or effects & (VALUES | ANYTHING) or pending):
            self.places = []

    def function(self, function: FunctionType, pending: list[Any]) -> int:
        """Add what a function can do and reach."""
        pending += function.__defaults__ or ()
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        held: list[Place] = []
        effects = 0
        for name, cell in cells:
            effects |= _look_into(name, cell, held, pending)
        if is_library(function.__module__):
            return effects
        self.by_names = self.by_names and not held
        names = _names_of(function)
        self.basis.append(names)
        self.places += names.places + held
        pending += names.values
        return effects | names.effects


def _is_data(value: Any) -> bool:
    """Whether a value is data, or a container of such."""
    if type(value) in _DATA or isinstance(value, _VALUES):
        return True
    if type(value) not in _PASSIVE:
        return False
    held: list[Any] = []
    _inside(value, held)
    return all(type(item) in _DATA or isinstance(item, _VALUES) for item in held)


def _look_into(name: str, cell: CellType, places: list[Place], pending: list[Any]) -> int:
    try:
        value = numpys_own(cell.cell_contents)
    except ValueError:  # nothing in it yet
        return ANYTHING
    if id(value) not in OWN:
        pending.append(value)
        return 0
    places.append(Place(cell, name))
    return 0 if value is np else _EFFECTS[value.__name__]


def _inside(value: Any, pending: list[Any]) -> int:
    """Add what a value that is no function holds; what it can do by itself."""
    kind: Any = type(value)
    if kind in (tuple, list, set, frozenset):
        pending += list(value)[:_ITEMS]
    elif kind is dict:
        pending += list(value.values())[:_ITEMS]
    elif kind is MethodType:
        pending += [value.__func__, value.__self__]
    elif isinstance(value, ModuleType):
        return 0 if is_library(value.__name__) else ANYTHING
    elif isinstance(value, type):
        pending += _methods(value)
    elif kind in (np.ufunc, BuiltinFunctionType, type(np.sum)):
        return 0 if is_library(getattr(value, "__module__", "numpy")) else ANYTHING
    else:
        pending += _methods(kind)
        if kind is functools.partial:
            pending += [value.func, value.args, value.keywords]
        try:  # without asking the object, which may have its own way to answer
            held = object.__getattribute__(value, "__dict__")
        except AttributeError:
            held = {}
        if type(held) is dict:
            pending += [item for item in held.values() if type(item) not in _DATA][:_ITEMS]
        return ANYTHING
    return 0


@functools.lru_cache(1024)
def _methods(kind: Any) -> list[FunctionType]:
    """The methods of a class that are the user's."""
    own = [one for one in kind.__mro__ if not is_library(one.__module__)]
    return [item for one in own for item in vars(one).values() if type(item) is FunctionType]
