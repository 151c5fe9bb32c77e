"""Whether a function may make arrays that traced values are written to, and by which names.

Most functions do not, and for them all names stay what they are (see `creating.py`): that takes
less time. What counts are the names in the code of a function and of all that it can reach:
NumPy's functions that make arrays of values (`np.array`, `np.full`), and those that make constant
ones (`np.zeros`, `np.eye`) if anything is written in place as well; and lists, of which all
functions of NumPy's make arrays. What is called in ways that are not followed counts as if it did
all of it. To be wrong costs little: an array is plain, and says so when a traced value is written
to it.

Where SciPy is reached as well, the names of its functions are changed too (`scipy/arriving.py`):
those that the code mentions, in SciPy's own modules and classes and wherever else they are held.
"""

from __future__ import annotations

import builtins
import dis
import functools
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
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
# Those that NumPy asks of their first arguments alone, while others, and functions among them, may
# hold traced values too.
UNASKED = "apply_along_axis pad piecewise polyint select unwrap".split()
NAMES = (*_CONSTANT, *_OF_VALUES, *UNASKED)
# What is no function, but takes traced values all the same.
OBJECTS = ("c_", "r_", "vectorize")
# NumPy and its functions, by `id`.
_MODULES = (np, np.linalg, np.fft)
OWN: dict[int, Any] = {id(one): one for one in (*_MODULES, *[vars(np)[name] for name in NAMES])}
# What stands in their places and in those of SciPy's functions meanwhile (`creating.py`,
# `scipy/arriving.py`), and whose place that is.
FORTH: dict[int, Any] = {}
INSTEAD: dict[int, Any] = {}

# What a function may do: make constant arrays, arrays of values, write in place, anything.
CONSTANT, VALUES, WRITES, ANYTHING = 1, 2, 4, 8
_EFFECTS = dict.fromkeys(_CONSTANT, CONSTANT) | dict.fromkeys(
    (*_OF_VALUES, *UNASKED, *OBJECTS), VALUES
)
_EFFECTS |= dict.fromkeys(("append", "insert"), VALUES)  # to lists, of which arrays are made
_EFFECTS |= dict.fromkeys(
    "at byteswap copyto fill fill_diagonal flat partition place put put_along_axis putmask "
    "setfield sort".split(),
    WRITES,
)
# How many values are looked at, items of a container, and codes that are remembered.
_MOST, _ITEMS, _REMEMBERED = 300, 30, 4096
_LIBRARIES = frozenset(("numpy", "wengert", "scipy"))
_PYTHONS = f"{os.path.dirname(os.__file__)}{os.sep}"
# Parts of wengert that are written as users write.
_USERS = ("wengert.bench", "wengert.experiments")
_UNCLEAR = frozenset("eval exec getattr globals locals vars __import__ setattr".split())
# The classes of NumPy's numbers.
NUMBERS = frozenset(np.dtype(code).type for code in "?bhilqBHILQefdgFDG")
_DATA = NUMBERS | {
    np.ndarray, float, int, bool, complex, str, bytes, type(None), range, slice, type(...),
}  # fmt: skip
_CONTAINERS = (dict, list, set, str, tuple)
_LISTS = frozenset((list, tuple))


def numpys_own(value: Any) -> Any:
    """NumPy, or a function of it or of SciPy, where something stands in its place."""
    return INSTEAD.get(id(value), value)


def home_of(value: Any) -> Any:
    """The name of the module that a value is, or is from; of an object that of its class."""
    kind: Any = type(value)
    if kind is FunctionType or isinstance(value, type):
        return value.__module__
    if kind is ModuleType:
        return value.__name__
    if kind is MethodType:
        return home_of(value.__self__)
    if kind is functools.partial:
        return home_of(value.func)
    return home_of(value.__func__) if kind is staticmethod else kind.__module__


def is_scipys(value: Any) -> bool:
    """Whether a value is SciPy, or a function, a class, a method or an object of it."""
    home = value.__module__ if type(value) is FunctionType else home_of(value)
    return type(home) is str and home.startswith("scipy") and home[5:6] in ("", ".")


def arriving(function: Any) -> Any:
    """A function of SciPy's as one that takes traced values too, where there is one."""
    return _scipys().stand_in(function) or function


def _scipys() -> Any:
    """What knows SciPy's functions; it comes after this part and is needed with SciPy alone."""
    return importlib.import_module("wengert.scipy.arriving")


class Place:
    """A name, a cell, a class or an item that holds NumPy, or a function of it or of SciPy."""

    __slots__ = ("holder", "name")

    def __init__(self, holder: Any, name: Any):
        self.holder = holder
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and self.holder is other.holder and self.name == other.name

    def __hash__(self) -> int:
        return hash((id(self.holder), self.name))

    def change(self) -> bool:
        """Put the stand-in for what is there now, if there is one."""
        return self._exchange(FORTH)

    def restore(self) -> bool:
        """Put back what it stands for."""
        return self._exchange(INSTEAD)

    def _exchange(self, values: dict[int, Any]) -> bool:
        other = values.get(id(self.held()))
        if other is not None:
            self.hold(other)
        return other is not None

    def held(self) -> Any:
        """What is there now; None if there is nothing."""
        if type(self.holder) is CellType:
            return self.holder.cell_contents if self.holder != CellType() else None
        if isinstance(self.holder, type):
            return vars(self.holder).get(self.name)
        if type(self.holder) is list:
            return self.holder[self.name] if self.name < len(self.holder) else None
        return self.holder.get(self.name)

    def hold(self, value: Any) -> None:
        """Put something there."""
        if type(self.holder) is CellType:
            self.holder.cell_contents = value
        elif isinstance(self.holder, type):
            setattr(self.holder, self.name, value)
        else:
            self.holder[self.name] = value


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
        # what is SciPy's, and where; names of attributes; modules of SciPy that are imported
        self.scipys: list[tuple[Any, Place]] = []
        self.attributes: set[str] = set()
        self.imported: set[str] = set()
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
            elif operation == "LIST_APPEND" or (operation == "BUILD_LIST" and one.arg):
                self.effects |= VALUES
            elif operation in ("LOAD_GLOBAL", "LOAD_NAME"):
                self.look_up(self.scope, name, modules)
            elif operation in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM", "LOAD_SUPER_ATTR"):
                attributes.add(name)
            elif operation == "IMPORT_NAME":
                if not is_library(name):
                    self.effects |= ANYTHING
                elif name.partition(".")[0] == "scipy":
                    self.imported.add(name)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self.read(constant)
            elif isinstance(constant, tuple) and "out" in constant:
                self.effects |= WRITES
        self.attributes |= attributes
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
            self.effects |= _EFFECTS.get(value.__name__, 0)
        elif is_scipys(value):
            self.scipys.append((value, Place(scope, name)))
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
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names:  # a module of the user's may have such a name
        file = getattr(sys.modules.get(top), "__file__", None)
        return file is None or file.startswith(_PYTHONS)
    return top in _LIBRARIES and not name.startswith(_USERS)


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
        if function.__defaults__ or function.__kwdefaults__:
            for value in defaults_of(function):
                if type(value) not in _PASSIVE and not isinstance(value, _VALUES):
                    return False
        return not self.basis or _stand(self.basis)


_PASSIVE = _DATA | {tuple, list, dict, set, frozenset}
_VALUES = (np.ndarray, Typed)
_plans: dict[tuple[int, int], _Plan] = {}


def defaults_of(function: FunctionType) -> tuple[Any, ...]:
    """What arguments of a function are, where a call does not give them."""
    given, named = function.__defaults__ or (), function.__kwdefaults__
    return (*given, *named.values()) if named else given


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

    Arguments that are given to it as they are may be functions too, or lists of traced values.
    """
    given = (*args, *kwargs.values()) if kwargs else args
    effects = 0
    passive = type(function) is FunctionType
    for value in given:
        kind = type(value)
        if kind in _LISTS:
            effects = VALUES
        elif kind not in _PASSIVE and not isinstance(value, _VALUES):
            passive = False
    if not passive:
        return _Search([function, *given], effects).places
    plan = _plans.get((id(function.__code__), effects))
    if plan is not None and plan.fits(function):
        return plan.places
    search = _Search([function], effects)
    plan = _plan(function) if search.by_names else None
    if plan is not None:
        plan.places = search.places
        plan.basis = [one for names in search.basis for one in names.basis]
        if len(_plans) >= _REMEMBERED:
            _plans.clear()
        _plans[id(function.__code__), effects] = plan
    return search.places


def reached(function: Any) -> list[Any]:
    """The objects, of those that are more than data, that a function has names for or holds."""
    return _Search([function]).objects


class _Search:
    """All that can be reached from some values: `places`, if these must be changed."""

    def __init__(self, pending: list[Any], effects: int = 0):
        self.objects: list[Any] = []
        self.places: list[Place] = []
        self.basis: list[_Mentions] = []
        self.scipys: list[tuple[Any, Place | None]] = []
        # whether all places are names, none of them a cell, and all was looked at
        self.by_names = True
        seen = set[int]()
        while pending and len(seen) < _MOST:
            value = pending.pop()
            kind = type(value)
            if kind in _DATA or id(value) in seen or isinstance(value, _VALUES):
                continue
            seen.add(id(value))
            if id(value) in INSTEAD:
                continue
            self.objects.append(value)
            if is_scipys(value):
                self.scipys.append((value, None))
            elif kind is FunctionType:
                effects |= self.function(value, pending)
            else:
                effects |= self.inside(value, pending)
        writes = effects & (CONSTANT | WRITES) == CONSTANT | WRITES
        self.by_names = self.by_names and not pending
        if not (writes or effects & (VALUES | ANYTHING) or pending):
            self.places = []
        self.add_scipys()

    def function(self, function: FunctionType, pending: list[Any]) -> int:
        """Add what a function can do and reach."""
        pending += defaults_of(function)
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        held: list[Place] = []
        effects = 0
        for name, cell in cells:
            effects |= self.cell(name, cell, held, pending)
        if is_library(function.__module__):
            return effects
        self.by_names = self.by_names and not held
        names = _names_of(function)
        self.basis.append(names)
        self.places += names.places + held
        pending += names.values
        return effects | names.effects

    def cell(self, name: str, cell: CellType, places: list[Place], pending: list[Any]) -> int:
        """Add what a variable of a function around holds."""
        try:
            value = numpys_own(cell.cell_contents)
        except ValueError:  # nothing in it yet
            return ANYTHING
        if id(value) not in OWN:
            self.held(cell, name, value, pending)
            return 0
        places.append(Place(cell, name))
        return _EFFECTS.get(value.__name__, 0)

    def inside(self, value: Any, pending: list[Any]) -> int:
        """Add what a value that is no function holds; what it can do by itself."""
        for holder, name, item in _items(value):
            self.held(holder, name, numpys_own(item), pending)
        return _effects(value)

    def held(self, holder: Any, name: Any, value: Any, pending: list[Any]) -> None:
        """Add what is held somewhere, if it is held there by a name that can be changed."""
        if holder is None or type(value) in _DATA or not is_scipys(value):
            pending.append(value)
        else:
            self.by_names = False
            self.scipys.append((value, Place(holder, name)))

    def add_scipys(self) -> None:
        """Add the places of SciPy's functions, if there are any."""
        for names in self.basis:
            self.scipys += names.scipys
        imported = set[str]().union(*[names.imported for names in self.basis])
        if self.scipys or imported:
            attributes = set[str]().union(*[names.attributes for names in self.basis])
            self.places = self.places + _scipys().places(self.scipys, imported, attributes)


def _is_data(value: Any) -> bool:
    """Whether a value is data, or a container of such."""
    if type(value) in _DATA or isinstance(value, _VALUES):
        return True
    if type(value) not in _PASSIVE:
        return False
    held = (item for _, _, item in _items(value))
    return all(type(item) in _DATA or isinstance(item, _VALUES) for item in held)


def _items(value: Any) -> Iterator[tuple[Any, Any, Any]]:
    """What a value that is no function holds, each after where and as what that can be changed."""
    kind: Any = type(value)
    if kind is list:
        yield from ((value, place, item) for place, item in enumerate(value[:_ITEMS]))
    elif kind in (tuple, set, frozenset):
        yield from ((None, None, item) for item in list(value)[:_ITEMS])
    elif kind is dict:
        yield from ((value, key, item) for key, item in list(value.items())[:_ITEMS])
    elif kind is MethodType:
        yield from ((None, None, item) for item in (value.__func__, value.__self__))
    elif isinstance(value, type):
        yield from _methods(value)
    elif not isinstance(value, ModuleType) and kind not in _CALLED:
        yield from _methods(kind)
        if kind is functools.partial:
            yield from ((None, None, item) for item in (value.func, value.args, value.keywords))
        try:  # without asking the object, which may have its own way to answer
            held = object.__getattribute__(value, "__dict__")
        except AttributeError:
            held = {}
        if type(held) is dict:
            more = [(held, name, item) for name, item in held.items() if type(item) not in _DATA]
            yield from more[:_ITEMS]


_CALLED = (np.ufunc, BuiltinFunctionType, type(np.sum))


def _effects(value: Any) -> int:
    """What a value that is no function can do by itself."""
    kind = type(value)
    if kind in (tuple, list, set, frozenset, dict, MethodType) or isinstance(value, type):
        return 0
    if isinstance(value, ModuleType):
        return 0 if is_library(value.__name__) else ANYTHING
    known = kind in _CALLED and is_library(getattr(value, "__module__", "numpy"))
    return 0 if known else ANYTHING


@functools.lru_cache(1024)
def _methods(kind: Any) -> list[tuple[Any, str, Any]]:
    """The methods of a class that are the user's, and what it has of SciPy's."""
    own = [one for one in kind.__mro__ if not is_library(one.__module__)]
    return [
        found
        for one in own
        for name, item in vars(one).items()
        for found in _method(one, name, item)
    ]


def _method(owner: type, name: str, item: Any) -> Iterator[tuple[Any, Any, Any]]:
    """What of an attribute of a class is the user's code, or SciPy's."""
    if type(item) is FunctionType or is_scipys(item):
        yield owner, name, item
    elif type(item) in (staticmethod, classmethod):
        yield None, None, item.__func__
    elif type(item) is property:
        yield from ((None, None, part) for part in (item.fget, item.fset) if part is not None)
    elif type(item) is functools.cached_property:
        yield None, None, item.func
