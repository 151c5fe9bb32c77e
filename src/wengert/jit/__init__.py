"""`jit`: a function traced once for each kind of arguments, compiled, and then called natively.

function.py    what `jit` returns: which program takes a call, and the way back from misses
arguments.py   arguments -> leaves, keys, and what the native entry checks
state.py       tensors as state: memory that programs and tensors share
converting.py  control flow of Python -> operations
tracing.py     a function on abstract values -> graph and state
program.py     graph -> passes -> loops -> machine code, and calling it from Python
looping.py     many calls as one native call
lookup.py      the cache that is asked before compiling
explain.py     looking inside
debugging.py   WENGERT_DEBUG, debug_nans
"""

from .debugging import debug_nans
from .function import Jitted, clear_cache, jit
from .looping import CallSeries, Repeated, run_in_turns
from .state import is_tracing

__all__ = [
    "CallSeries",
    "Jitted",
    "Repeated",
    "clear_cache",
    "debug_nans",
    "is_tracing",
    "jit",
    "run_in_turns",
]
