"""SciPy's own functions on traced values: they arrive at those of `wengert.scipy`.

SciPy's ufuncs ask their arguments, as all of NumPy's do. Its other functions make arrays of them at
once. So while a function is traced that mentions SciPy's, something stands in their places: in the
modules and classes of SciPy that have them, and wherever else the traced function holds them
(`trace/reaching.py` finds out). It looks at the arguments. If one is traced, and the thread is one
that traces, it calls the function of the same name in `wengert.scipy`; else SciPy's own.

What there is of each module is found by name. Methods are changed in SciPy's classes: those of
distributions, frozen or not, and of interpolators, whoever has made the object.

>>> import numpy as np
>>> import scipy.special
>>> import wengert as wg
>>> print(wg.grad(scipy.special.logsumexp)(np.zeros(2)))
[0.5 0.5]
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterable
from types import CellType, FunctionType, MethodType
from typing import Any, NamedTuple

from .. import numpy as wnp
from ..errors import OptionError, explain
from ..trace.made import TRACED, plain
from ..trace.reaching import FORTH, INSTEAD, Place, home_of, is_scipys
from ..trace.tracer import current_trace

# Arguments that say how SciPy computes, not what.
_MANNERS = frozenset(
    "Dfun blocksize check_finite col_deriv copy driver hmin jac lapack_driver lwork ml mu "
    "mxhnil mxordn mxords mxstep overwrite_a overwrite_ab overwrite_b overwrite_data".split()
)
_MODULES = {*sys.modules[__package__].__all__}
_MOST = 300  # values that are looked at for traced ones


class _Shared(NamedTuple):
    """What SciPy and wengert both have of a module."""

    scope: dict[str, Any]  # the names of SciPy's module
    names: list[str]  # its functions and classes
    methods: list[tuple[type, str]]  # in which class, and what


def places(
    held: Iterable[tuple[Any, Place | None]], imported: Iterable[str], attributes: Iterable[str]
) -> list[Place]:
    """Where SciPy's functions are that some code may call.

    It reaches values of SciPy's, held in places, imports modules, and has names of attributes.
    """
    names, modules = {"__call__", *attributes}, set[str]()
    for value, _ in held:
        modules |= _modules(home_of(value), names)
        names |= {value.__name__} if type(value) is MethodType else set()
    for name in imported:
        modules |= _modules(name, names)
    found = [one for value, place in held if place for one in _changed(place, value)]
    for module in sorted(modules):
        table = _table(module)
        if table is not None:
            found += [Place(table.scope, name) for name in table.names if name in names]
            found += [Place(owner, name) for owner, name in table.methods if name in names]
    return found


def _modules(name: str, attributes: set[str]) -> set[str]:
    """The modules that both have, of a name such as ``scipy.linalg._basic``; of SciPy itself those
    among the attributes."""
    parts = name.split(".")
    return {parts[1]} & _MODULES if len(parts) > 1 else attributes & _MODULES


def stand_in(value: Any) -> Any:
    """What stands in the place of a function, a class or a method of SciPy's; None if nothing."""
    for module in _modules(home_of(value), set()):
        _table(module)
    kind = type(value)
    if kind is functools.partial:
        inner = stand_in(value.func)
        return inner and functools.partial(inner, *value.args, **value.keywords)
    if kind is staticmethod:
        inner = stand_in(value.__func__)
        return inner and staticmethod(inner)
    if kind is MethodType:
        inner = FORTH.get(id(value.__func__))
        return inner and MethodType(inner, value.__self__)
    return FORTH.get(id(value))


class _Held(Place):
    """A place that holds a method or a partial function, for which there is a stand-in here alone.

    Such come and go, and so does what is known of them.
    """

    __slots__ = ("other", "own")

    def __init__(self, place: Place, own: Any, other: Any):
        super().__init__(place.holder, place.name)
        self.own, self.other = own, other

    def change(self) -> bool:
        """Put the stand-in there, if what it stands for is there still."""
        if self.held() is not self.own:
            return False
        INSTEAD[id(self.other)] = self.own
        self.hold(self.other)
        return True

    def restore(self) -> bool:
        """Put back what was there, also if another trace has put its stand-in there."""
        own = INSTEAD.pop(id(self.held()), None)
        INSTEAD.pop(id(self.other), None)
        if own is not None:
            self.hold(own)
        return own is not None


def _changed(place: Place, value: Any) -> list[Place]:
    """The place of a value, if there is a stand-in for it."""
    other = stand_in(value)  # first: it fills the table if that is empty
    if id(value) in FORTH:
        return [place]
    return [] if other is None else [_Held(place, value, other)]


def _exchange(own: Any, other: Any) -> None:
    FORTH[id(own)], INSTEAD[id(other)] = other, own


@functools.cache
def _table(module: str) -> _Shared | None:
    """What there is of a module; None where SciPy is not installed."""
    try:
        theirs = importlib.import_module(f"scipy.{module}")
    except ImportError:
        return None
    ours = importlib.import_module(f"wengert.scipy.{module}")
    table = _Shared(vars(theirs), [], [])
    for name in ours.__all__:
        own, other = vars(theirs).get(name), _AS_SCIPYS.get(name, _itself)(getattr(ours, name))
        if own is None or own is other:
            continue
        if type(own) is FunctionType:
            _exchange(own, _function(own, other, f"scipy.{module}.{name}"))
            table.names.append(name)
        elif isinstance(own, type):
            _exchange(own, _Class(own, other, f"scipy.{module}.{name}"))
            table.names.append(name)
            _add_methods(table, own, other, _REMADE.get(name, _pieces))
        elif is_scipys(own):
            _add_methods(table, type(own), type(other), functools.partial(_as_usual, own, other))
    if module == "stats":  # the one frozen form that does not ask the distribution
        own = type(theirs.multivariate_normal())
        _add_methods(table, own, type(ours.multivariate_normal), _vectors)
    return table


# ---------------------------------------------------------------- functions and classes


def _is_traced(arguments: Any) -> bool:
    """Whether any of some arguments is traced, or a function that holds what is."""
    if current_trace() is None:
        return False
    pending, seen = [arguments], set[int]()
    while pending and len(seen) < _MOST:
        value = pending.pop()
        if id(value) not in seen:
            seen.add(id(value))
            if plain(value) is TRACED:
                return True
            pending += _inside(value)
    return False


def _inside(value: Any) -> Iterable[Any]:
    """What a container or a function holds."""
    kind = type(value)
    if kind in (tuple, list):
        return value  # type: ignore[no-any-return]
    if kind is dict:
        return value.values()  # type: ignore[no-any-return]
    if kind is functools.partial:
        return value.func, value.args, value.keywords
    if kind is MethodType:
        return value.__func__, getattr(value.__self__, "__dict__", None)
    if kind is FunctionType:
        cells = [cell for cell in value.__closure__ or () if cell != _EMPTY]
        return value.__defaults__, value.__kwdefaults__, *(cell.cell_contents for cell in cells)
    return (getattr(value, "__dict__", None),) if callable(value) else ()


_EMPTY = CellType()


def _function(own: Callable[..., Any], ours: Callable[..., Any], name: str) -> Any:
    @functools.wraps(own)
    def function(*args: Any, **kwargs: Any) -> Any:
        if not _is_traced((args, kwargs)):
            return own(*args, **kwargs)
        return _call(own, ours, name, args, kwargs)

    return function


class _Class:
    """Stands for a class of SciPy's: calls make objects of ours where an argument is traced."""

    def __init__(self, own: Any, ours: Any, name: str):
        self._own, self._ours = own, ours
        self._make = _function(own, ours, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._make(*args, **kwargs)

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, (self._own, self._ours))

    def __subclasscheck__(self, kind: Any) -> bool:
        return issubclass(kind, (self._own, self._ours))

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return (self._own,)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)


_signature = functools.cache(inspect.signature)


def _call(own: Any, ours: Any, name: str, args: Any, kwargs: Any) -> Any:
    """Call ours with the arguments of SciPy's.

    Those that SciPy demands come first and in the same order, all others go by their names.
    """
    theirs, taken = _signature(own), _signature(ours).parameters
    given: list[Any] = []
    options: dict[str, Any] = {}
    for key, value in theirs.bind(*args, **kwargs).arguments.items():
        parameter = theirs.parameters[key]
        if parameter.kind is parameter.VAR_POSITIONAL:
            given += value
        elif parameter.kind is parameter.VAR_KEYWORD:
            options |= value
        elif parameter.default is parameter.empty:
            given.append(value)
        elif not _is_same(value, parameter.default):
            options[key] = value
    for key in options:
        if key not in taken and key not in _MANNERS:
            raise OptionError(
                explain(
                    name,
                    f"the argument {key} is not there for traced values",
                    f"wengert.{name} takes {', '.join(taken)}.",
                )
            )
    return ours(*given, **{key: value for key, value in options.items() if key in taken})


def _is_same(value: Any, default: Any) -> bool:
    simple = isinstance(default, (bool, int, float, str)) and type(value) is type(default)
    return value is default or (simple and value == default)


def _itself(ours: Any) -> Any:
    return ours


def _of_vectors(odeint: Any) -> Any:
    """Ours takes states of any shape, SciPy's makes vectors of them."""

    @functools.wraps(odeint)
    def function(func: Any, y0: Any, *args: Any, **options: Any) -> Any:
        return odeint(func, wnp.atleast_1d(y0), *args, **options)

    return function


# Functions that take more than SciPy's, made to do as SciPy's do.
_AS_SCIPYS = {"odeint": _of_vectors}


# ---------------------------------------------------------------- methods


def _add_methods(table: _Shared, theirs: Any, ours: Any, made: Callable[[Any], Any]) -> None:
    """Add the methods that objects of two classes have; ours is `made` of theirs."""
    _COUNTERPARTS[theirs] = made
    for name in dir(ours):
        if name.startswith("_") and name != "__call__":
            continue
        owner = next((one for one in theirs.__mro__ if name in vars(one)), object)
        own = vars(owner).get(name)
        if type(own) is FunctionType:
            if id(own) not in FORTH:
                _exchange(own, _method(own, name))
            if (owner, name) not in table.methods:
                table.methods.append((owner, name))


def _method(own: Callable[..., Any], name: str) -> Any:
    @functools.wraps(own)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = _COUNTERPARTS.get(type(self))
        if made is None or not _is_traced((args, kwargs)):
            return own(self, *args, **kwargs)
        ours = getattr(made(self), name, None)
        return own(self, *args, **kwargs) if ours is None else ours(*args, **kwargs)

    return method


# For classes of SciPy's, of exactly which an object is, what makes one of ours of it.
_COUNTERPARTS: dict[type, Callable[[Any], Any]] = {}


def _as_usual(usual: Any, ours: Any, own: Any) -> Any:
    """Ours, for a distribution of SciPy's with the usual support; None for others made by hand."""
    same = all(getattr(own, end, None) == getattr(usual, end, None) for end in ("a", "b", "inc"))
    return ours if same else None


def _vectors(own: Any) -> Any:
    from .stats import multivariate_normal

    return multivariate_normal(own.mean, own.cov, allow_singular=own.allow_singular)


def _pieces(own: Any) -> Any:
    from .interpolate import PPoly

    return PPoly(own.c, own.x, own.extrapolate, own.axis)


def _line(own: Any) -> Any:
    from .interpolate import interp1d

    options = {"bounds_error": own.bounds_error, "fill_value": own.fill_value}
    kind = own._kind
    if kind == "spline":
        kind = _OF_DEGREE.get(own._spline.k, f"spline of degree {own._spline.k}")
    return interp1d(own.x, own.y, kind, own.axis, assume_sorted=True, **options)


_OF_DEGREE = {0: "zero", 1: "slinear", 3: "cubic"}


def _grid(own: Any) -> Any:
    from .interpolate import RegularGridInterpolator

    return RegularGridInterpolator(
        own.grid, own.values, own.method, own.bounds_error, own.fill_value
    )


_REMADE = {"interp1d": _line, "RegularGridInterpolator": _grid}
