"""Errors of tracing that a user's function catches, as if they were its own.

``except Exception`` or ``except ValueError`` in a function is meant for its own errors. That a
traced value has no number, or may not become a plain array, is none of them: with numbers the
handler would not run, and what it gives would be a result of another program. So it is looked at
behind a function whether such an error ended in a handler of the user's.
"""

from __future__ import annotations

import threading
from typing import Any

from .. import errors
from ..errors import (
    AbstractValueError,
    ControlFlowError,
    ConversionError,
    DerivativeError,
    DTypeError,
    LeakedTracerError,
    MutationError,
    WengertError,
    is_users,
)
from .conditional import ReadOnlyError
from .reaching import is_library

_REFUSALS = (
    AbstractValueError,
    ControlFlowError,
    ConversionError,
    DerivativeError,
    DTypeError,  # such as that of objects
    LeakedTracerError,
    MutationError,
)


class _Noted(threading.local):
    errors: list[WengertError] | None = None  # while a user's function runs


_noted = _Noted()


def _note(error: WengertError) -> None:
    refused = isinstance(error, _REFUSALS) and not isinstance(error, ReadOnlyError)
    if refused and _noted.errors is not None:
        # those before it have ended by now, most of them where they should
        _noted.errors[:] = [*filter(_handler, _noted.errors), error]


errors.on_error = _note


def _handler(error: WengertError) -> str:
    """Where a user's function has caught an error; empty where it has not."""
    outermost = error.__traceback__
    if outermost is None or not is_users(outermost.tb_frame):
        return ""
    frame = outermost.tb_frame
    name = frame.f_code.co_filename
    if "site-packages" in name or is_library(frame.f_globals.get("__name__")):
        return ""
    return f"{name.rpartition('/')[2]}:{outermost.tb_lineno}"


def watched(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function of a user's gives; raises what it should not have caught."""
    noted = _noted.__dict__  # of this thread, looked for once
    outer = noted.get("errors")
    own = noted["errors"] = []
    try:
        result = function(*args, **kwargs)
        if own:
            _reveal(own)
        return result
    finally:
        noted["errors"] = outer
        if own and outer is not None:
            outer += own


def _reveal(errors: list[WengertError]) -> None:
    for error in filter(_handler, errors):
        kind = next(kind for kind in _REFUSALS if isinstance(error, kind))
        raise kind(
            f"{error} The function catches this error itself (at {_handler(error)}), but it comes "
            "from tracing: with numbers there would be none. Keep what is traced out of that `try`."
        )
