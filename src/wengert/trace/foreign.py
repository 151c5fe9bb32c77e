"""SciPy's functions that meet a traced value: its ufuncs, and those that ask it for a plain array.

A ufunc asks its arguments, and arrives at the function of the same name in `wengert.scipy.special`.
The others arrive at `wengert.scipy` where the traced function has them under a name
(`scipy/arriving.py`). What is not there, or was called in another way, ends here: with an error
that names the function that the user has called, not the conversion somewhere inside of it.
"""

from __future__ import annotations

import functools
import importlib
import sys
from types import FrameType, FunctionType
from typing import Any, NamedTuple

import numpy as np

from ..errors import DTypeError, explain, is_users
from ..types import Function


def unavailable(module: str, name: str) -> DTypeError:
    """The error for a function that has no counterpart."""
    remedy = f"See wengert.{module} for what is; wg.custom_rule adds a function of your own."
    return DTypeError(explain(f"{module}.{name}", "is not available on traced values", remedy))


def scipy_function(ufunc: np.ufunc, name: str) -> Function | None:
    """What a ufunc of SciPy's is on traced values; None if it is not SciPy's."""
    theirs = sys.modules.get("scipy.special._ufuncs")  # with those that others are written with
    if theirs is None or getattr(theirs, name, None) is not ufunc:
        return None
    own: Function | None = getattr(importlib.import_module("wengert.scipy.special"), name, None)
    if own is None:
        raise unavailable("scipy.special", name)
    return _with_options(ufunc, own)


@functools.cache
def _with_options(ufunc: np.ufunc, own: Function) -> Function:
    """A function with the options that all ufuncs have: `where`, `dtype` and others."""
    made: Function = importlib.import_module("wengert.numpy.elementwise").of_ufunc(ufunc, own)
    return made


def asked(purpose: str, remedy: str) -> tuple[str, str]:
    """What asks a traced value for its number, and what to do: of SciPy's functions the one."""
    call = _scipy_call()
    return (purpose, remedy) if call is None else (str(call), call.remedy)


class _ScipyCall(NamedTuple):
    """A public function of SciPy's: its module, such as ``linalg``, and its name there."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"scipy.{self.module}.{self.name}"

    @property
    def remedy(self) -> str:
        """What to call instead."""
        if self._is_ours():
            return f"Call wengert.{self}"
        return (
            "It is not available on traced values: see wengert.scipy for what is, or give it a "
            "derivative by wg.custom_rule"
        )

    def _is_ours(self) -> bool:
        first, *rest = self.name.split(".")
        if self.module not in importlib.import_module("wengert.scipy").__all__:
            return False
        ours = importlib.import_module(f"wengert.scipy.{self.module}")
        return first in ours.__all__ and all(hasattr(getattr(ours, first), one) for one in rest)


def _scipy_call() -> _ScipyCall | None:
    """The function of SciPy's that was called by the user's line that is running; or None."""
    frame: FrameType | None = sys._getframe(1)
    running: list[FrameType] = []
    while frame is not None and not is_users(frame):
        running.append(frame)
        frame = frame.f_back
    calls = [call for one in reversed(running) for call in _calls(one)]
    return next((call for call in calls if _is_public(call)), calls[0] if calls else None)


def _calls(frame: FrameType) -> list[_ScipyCall]:
    """The functions that a frame may be of: a decorator has the one that it is for."""
    home = str(frame.f_globals.get("__name__"))
    if not home.startswith("scipy."):
        return []
    if home.startswith("scipy._"):
        held = [value for value in frame.f_locals.values() if type(value) is FunctionType]
        homes = [(str(one.__module__).split("."), one.__name__) for one in held]
        return [_ScipyCall(path[1], name) for path, name in homes if path[0] == "scipy"]
    return [_call(frame, home.split(".")[1])]


def _call(frame: FrameType, module: str) -> _ScipyCall:
    name, owner = frame.f_code.co_name, frame.f_locals.get("self")
    if owner is None:
        return _ScipyCall(module, name)
    named = getattr(owner, "name", None)  # as distributions have it
    of = named if isinstance(named, str) else type(owner).__name__.removesuffix("_gen")
    return _ScipyCall(module, of if name in ("__init__", "__call__") else f"{of}.{name}")


def _is_public(call: _ScipyCall) -> bool:
    found: Any = sys.modules.get(f"scipy.{call.module}")
    for name in call.name.split("."):
        found = None if name.startswith("_") else getattr(found, name, None)
    return found is not None
