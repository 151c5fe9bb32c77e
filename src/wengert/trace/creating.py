"""NumPy's functions that make arrays, as the user's code has them while it is traced.

Nobody has a say in what ``np.zeros(n)`` or ``np.array([x, 1.0])`` gives: NumPy's protocols are for
functions of arrays. NumPy itself stays as it is, for all packages that rely on it. But where the
functions that are traced have NumPy under a name (``np``, or ``zeros`` by ``from numpy import``),
these names mean something else meanwhile, as far as they can be found (`reaching.py`): a module
with NumPy's attributes, where functions that make arrays make such that traced values can be
written to (`made.py`), and all stack lists of traced values (`lists.py`). They do so in threads
that trace; for all others they are NumPy's own.
"""

from __future__ import annotations

import functools
import importlib
import sys
import threading
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from ..errors import AbstractValueError, ConversionError
from ..ops.op import Traced
from ..types import Function
from .array import FUNCTIONS
from .lists import TAKING, for_call
from .made import TRACED, Made, adopt, plain
from .reaching import FORTH, INSTEAD, NAMES, OBJECTS, UNASKED, Place
from .tracer import Tracer, current_trace

# Where arrays begin with whatever is in memory, zeros do as well, and are always the same.
_INSTEAD: dict[str, Any] = {"empty": np.zeros, "empty_like": np.zeros_like}
# Functions that take traced values, and those that are meant.
_TAKES = {
    "array": "array", "asarray": "asarray", "asanyarray": "asanyarray", "copy": "copy",
    "ascontiguousarray": "ascontiguousarray", "asfortranarray": "asfortranarray",
    "asarray_chkfinite": "asarray", "full": "full", "full_like": "full_like", "arange": "arange",
    "linspace": "linspace", "logspace": "logspace", "geomspace": "geomspace",
    "zeros_like": "zeros_like", "ones_like": "ones_like", "empty_like": "empty_like",
    "fromiter": "array", "require": "asarray",
}  # fmt: skip

# Functions that may give the array itself, which is then written to.
_THEMSELVES = frozenset(
    "asarray asanyarray ascontiguousarray asfortranarray asarray_chkfinite require".split()
)


def _replacement(name: str) -> Function:
    own: Any = getattr(np, name)
    instead = _asked if name in UNASKED else _make

    @functools.wraps(own)
    def function(*args: Any, **kwargs: Any) -> Any:
        now: Any = getattr(np, name)
        if current_trace() is None or now is not own:  # or somebody has put another one there
            return now(*args, **kwargs)
        return instead(name, own, args, kwargs)

    return function


def _asked(name: str, own: Function, args: Any, kwargs: Any) -> Any:
    """NumPy's function; ours where that meets a traced value for which it did not ask."""
    try:
        return own(*args, **kwargs)
    except (AbstractValueError, ConversionError):
        return FUNCTIONS[name](*args, **kwargs)


def _make(name: str, own: Function, args: Any, kwargs: Any) -> Any:
    if name == "fromiter" and args:
        args = ([*args[0]], *args[1:])
    if name in _THEMSELVES and args and type(args[0]) is Tracer and args[0].shape:
        return _of_traced(name, own, (args[0], *_settled(args[1:])), _settled(kwargs))
    args, kwargs = _settled((args, kwargs))
    given = plain((args, kwargs))
    if given is TRACED:
        return _of_traced(name, own, args, kwargs)
    found = _INSTEAD.get(name, own)(*given[0], **given[1])
    if type(found) is np.ndarray:
        for one, other in zip(args, given[0], strict=True):
            if other is found:
                return one
        if any(type(one) is Made and np.may_share_memory(found, one._constant()) for one in args):
            return FUNCTIONS[name](*args, **kwargs)  # a view
    return adopt(found, given)


def _settled(value: Any) -> Any:
    """Traced values that have no derivative and are known as the numbers that they are."""
    if type(value) is Tracer:
        number = _known(value)
        return value if number is None else number
    if type(value) in (tuple, list):
        items = [_settled(item) for item in value]
        changed = any(one is not other for one, other in zip(items, value, strict=True))
        return type(value)(items) if changed else value
    if type(value) is dict:
        return {key: _settled(item) for key, item in value.items()}
    return value


def _known(value: Any) -> Any:
    while isinstance(value, Traced):
        node = value.node  # type: ignore[attr-defined]
        if node.active or value._trace.closed:
            return None
        value = node.output
    return np.array(value)[()] if isinstance(value, np.ndarray) else value


def _of_traced(name: str, own: Function, args: Any, kwargs: Any) -> Any:
    """The function of traced values, with the arguments that it has here."""
    dtype = kwargs.get("dtype", args[1] if len(args) > 1 and name != "full" else None)
    if name not in _TAKES or _is_other(dtype):
        return own(*args, **kwargs)
    if name == "require":
        args, kwargs = _required(args, kwargs)
    options = {
        key: value
        for key, value in kwargs.items()
        if key not in ("subok", "like", "device", "requirements")
    }
    if name == "array" and kwargs.get("copy", True) is None:
        options["copy"] = False
    return FUNCTIONS[_TAKES[name]](*args, **options)


def _required(args: Any, kwargs: Any) -> Any:
    """The arguments of ``np.require`` as those of ``np.asarray``."""
    given = args[2] if len(args) > 2 else kwargs.get("requirements")
    wanted = {str(one)[0].upper() for one in ([given] if isinstance(given, str) else given or ())}
    options: dict[str, Any] = (
        {"order": "C" if "C" in wanted else "F"} if wanted & {"C", "F"} else {}
    )
    return args[:2], {**kwargs, **options, **({"copy": True} if "O" in wanted else {})}


def _is_other(dtype: Any) -> bool:
    """Whether a dtype is none of numbers: that of objects holds traced values as they are."""
    try:
        return dtype is not None and np.dtype(dtype).kind not in "biufc"
    except TypeError:
        return False


class _Module(ModuleType):
    """NumPy's module, or one in it, but for the functions that make arrays or are given lists."""

    def __init__(self, own: ModuleType):
        super().__init__(own.__name__, own.__doc__)
        vars(self)["_own"] = own
        for name in ("__loader__", "__spec__", "__package__"):
            vars(self)[name] = vars(own)[name]

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._own, name)
        if id(found) in TAKING:
            return for_call(found, sys._getframe(1))
        if current_trace() is None:
            return found
        return FUNCTIONS[name] if name in OBJECTS else FORTH.get(id(found), found)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._own, name, value)

    def __dir__(self) -> list[str]:
        return dir(self._own)

    def __repr__(self) -> str:
        return repr(self._own)

    def __reduce__(self) -> Any:
        return importlib.import_module, (self._own.__name__,)


MODULE = _Module(np)
REPLACEMENTS = {name: _replacement(name) for name in NAMES}
vars(MODULE).update(REPLACEMENTS)
FORTH |= {id(vars(np)[name]): REPLACEMENTS[name] for name in NAMES}
INSTEAD |= {id(REPLACEMENTS[name]): vars(np)[name] for name in NAMES}
for _module in (MODULE, _Module(np.linalg), _Module(np.fft)):
    FORTH[id(_module._own)] = _module
    INSTEAD[id(_module)] = _module._own


class Makers:
    """Names that mean other functions from now on, until `leave`."""

    def __init__(self, places: Sequence[Place]):
        self.places = []
        with _lock:
            for place in places:
                count = _counts.get(place, 0)
                if count or place.change():
                    _counts[place] = count + 1
                    self.places.append(place)

    def leave(self) -> None:
        """The names mean again what they meant, unless somebody else needs them."""
        with _lock:
            for place in self.places:
                _counts[place] -= 1
                if not _counts[place]:
                    del _counts[place]
                    place.restore()


_lock = threading.Lock()
_counts: dict[Place, int] = {}
