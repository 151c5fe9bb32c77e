"""The gate, and with it all that is the same in every entry: compiled once, never freed.

The gate is what CPython calls of every program, so that no code is freed while it runs. A callable
may lose its last reference during a call: another thread, a signal handler or the traced function
itself says `f.clear()`. An entry that held a reference to itself could not give it back, as it
would return into memory that is no longer there. So calls go through one small function that
stays: it holds the callable, and with it all that the program needs, calls the entry, and lets go
after it.

What entries call (`entry_parts.py`) is in the same module: it would make up most of the code of a
small program, and compiling it the longest part of its first call.
"""

from __future__ import annotations

import ctypes
import threading

from ..runtime.builtin import c_api_addresses
from ..runtime.layout import ObjectLayout, native_layout
from .cache import cache_key, shared_cache
from .compile import ENTRY_PREFIX, Compiled, add_symbol, compile_module, load_image
from .sources import source_fingerprint
from .target import Target

GATE = ENTRY_PREFIX + "gate"

_lock = threading.Lock()
_code: Compiled | None = None


def gate_address() -> int | None:
    """The address of the gate; None where there are no entries."""
    code = load()
    return None if code is None else code.address(GATE)


def load() -> Compiled | None:
    """The code that entries share, compiled or taken from the cache on the first call.

    It is registered under its names for the modules of entries. None where there are no entries.
    """
    global _code
    layout = native_layout()
    if layout is None:
        return None
    with _lock:
        if _code is None:
            code = _found_or_compiled(Target.host(), layout)
            for name in code.exports:
                add_symbol(name, code.address(name))
            # Calls may be inside until the process ends: not even the interpreter's own clearing
            # of modules may free it.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
            _code = code
    return _code


def _found_or_compiled(target: Target, layout: ObjectLayout) -> Compiled:
    """By what it is made from: to write the module only to look for it would take as long as half
    of a first call from disk."""
    cache, symbols = shared_cache(), c_api_addresses()
    key = cache_key("gate", source_fingerprint(), target.key(), repr(layout))
    image = cache.get(key)
    if image is not None:
        return load_image(image, target, symbols)
    from .entry_parts import parts_module

    code = compile_module(parts_module(target, layout), target, symbols=symbols)
    cache.put(key, code.image)
    return code
