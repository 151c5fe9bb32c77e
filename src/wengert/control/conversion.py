"""Functions of the user's with their control flow converted: found once, kept by their code.

`of` is what traced code asks before each call. A function of the user's is replaced by its
converted form, which shares globals, defaults and closure cells with it; methods, partial
applications and objects that can be called are taken apart. Everything else is left as it is:
NumPy, wengert, the standard library and what is installed.
"""

from __future__ import annotations

import copy
import functools
import inspect
import opcode
import os
import threading
import types
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..trace.reaching import defaults_of

if TYPE_CHECKING:
    from .pieces import TracedPiece
    from .runtime import Runtime

# What the names begin with that conversion gives.
PREFIX = "_wengert_"
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_NOT_OURS = tuple(
    os.path.dirname(os.path.abspath(str(module.__file__))) + os.sep for module in (np, os)
)
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
# The parts of wengert that are written as its users write.
_PROGRAMS = (
    os.path.join(_ROOT, "bench", "programs"),
    os.path.join(_ROOT, "control", "iterators.py"),
)
# Functions that were converted, of which the oldest are forgotten.
_MOST = 4096
_GOES_ON = frozenset(
    code
    for name, code in opcode.opmap.items()
    if name.startswith(
        ("POP_JUMP", "JUMP", "FOR_ITER", "CALL", "STORE_ATTR", "STORE_SUBSCR", "IS_OP")
    )
    or name in ("STORE_SLICE", "BUILD_SLICE", "BINARY_SLICE")
)
_BINARY = opcode.opmap["BINARY_OP"]


def _operators(code: types.CodeType) -> set[int]:
    """The numbers of the operators in some code, those of ``x += y`` among them."""
    pairs = zip(code.co_code[::2], code.co_code[1::2], strict=True)
    return {number for op, number in pairs if op == _BINARY}


_IN_PLACE = _operators(compile("x += 0\nx |= 0\nx *= 0\nx &= 0\nx -= 0\nx ^= 0", "", "exec"))


class Conversion(NamedTuple):
    """The converted code of a function, with the cell of its runtime."""

    code: types.CodeType
    cell: types.CellType
    plain: bool  # whether it only assigns to its own variables

    @property
    def runtime(self) -> Runtime:
        """What it calls."""
        found: Runtime = self.cell.cell_contents
        return found


class _Current(threading.local):
    inside: TracedPiece | None = None  # the piece that is being traced, if any
    tables = True  # whether tables may stand for lists, and arrays be carried in place of them
    packed = False  # whether that was done
    # tables, by the `id` of the lists for which they stand now
    standing: Mapping[int, Any] = types.MappingProxyType({})


local = _Current()

# By code, and whether what goes over a generator may stop before its end: a conversion, or why
# there is none; "" where none is needed.
_known: dict[tuple[types.CodeType, bool], Conversion | str] = {}


def called(function: Any) -> Any:
    """What is called in place of a function, where calls may not have effects."""
    inside = local.inside
    if inside is not None:
        function = _without_effects(function, inside)
    return of(function)


def _without_effects(function: Any, inside: TracedPiece) -> Any:
    from .pieces import Abandon  # needed inside pieces
    from .purity import changing_method, pure

    changed = changing_method(function)
    if changed is not None:
        inside.changes(changed, f"{function.__name__}()")
    plain = function.__func__ if type(function) is types.MethodType else function
    plain = _call_method(function) or plain
    if type(plain) is types.FunctionType and is_users(plain.__code__):
        names, known = plain.__code__.co_names, plain.__globals__
        inside.roots += [known[name] for name in names if name in known]
        inside.reads(plain.__closure__ or ())
        inside.roots += [content(cell) for cell in plain.__closure__ or ()]
        inside.roots += [*defaults_of(plain), getattr(function, "__self__", function)]
        found = conversion(plain)
        effects = bool(found) if isinstance(found, str) else not found.plain
        if inside.attempt and effects:
            raise Abandon
        return inside.watched(function) if found and isinstance(found, str) else function
    if inside.attempt:
        return pure(function)
    if function is next:
        return _advanced(inside)
    try:
        pure(function)
    except Abandon:
        return inside.watched(function)
    return function


def _advanced(inside: TracedPiece) -> Any:
    """``next``, which takes an item off an iterator."""

    def call(iterator: Any, *default: Any) -> Any:
        inside.changes(iterator, "next()")
        return next(iterator, *default)

    return call


def content(cell: types.CellType) -> Any:
    """What a variable of a function around holds; None where it has no value."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def of(function: Any) -> Any:
    """What is called in place of a function."""
    kind = type(function)
    if kind is types.FunctionType:
        return _function(function)
    if kind is types.MethodType:
        inner = of(function.__func__)
        return (
            function if inner is function.__func__ else types.MethodType(inner, function.__self__)
        )
    if kind is functools.partial:
        inner = of(function.func)
        if inner is function.func:
            return function
        return functools.partial(inner, *function.args, **function.keywords)
    if isinstance(function, (type, types.BuiltinFunctionType, np.ufunc)):
        return function
    method = _call_method(function)
    if method is not None:
        inner = _function(method)
        return function if inner is method else types.MethodType(inner, function)
    return function


def _call_method(thing: Any) -> types.FunctionType | None:
    """What the user has written for calls of an object; None of functions and classes."""
    kinds = () if isinstance(thing, type) else type(thing).__mro__
    method = next((vars(one)["__call__"] for one in kinds if "__call__" in vars(one)), None)
    own = type(method) is types.FunctionType and is_users(method.__code__)
    return method if own else None


def _function(function: types.FunctionType) -> Any:
    found = conversion(function)
    if isinstance(found, str):
        return function
    if _is_generator(function.__code__):
        from .generators import Generated  # needed where there are some

        return functools.partial(Generated, function)
    return bound(function, found, found.runtime)


def _is_generator(code: types.CodeType) -> bool:
    return bool(code.co_flags & inspect.CO_GENERATOR)


def bound(function: types.FunctionType, found: Conversion, runtime: Runtime) -> Any:
    """The converted form of a function, which calls a runtime."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[PREFIX] = found.cell if runtime is found.runtime else types.CellType(runtime)
    made = types.FunctionType(
        found.code,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        tuple(cells[name] for name in found.code.co_freevars),
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__dict__.update(function.__dict__)
    made.__qualname__, made.__module__ = function.__qualname__, function.__module__
    made.__doc__ = function.__doc__
    return made


def conversion(function: types.FunctionType, stops: bool = False) -> Conversion | str:
    """The converted code, or why there is none."""
    key = function.__code__, stops
    found = _known.get(key)
    if found is None:
        found = _convert(function, stops)
        if len(_known) >= _MOST:
            del _known[next(iter(_known))]
        _known[key] = found
    return found


def reason(code: types.CodeType) -> str:
    """Why some code was left as it is; empty where it was not."""
    found = _known.get((code, False), "")
    if _is_generator(code) and not isinstance(found, str):
        return "it is a generator that something else than a `for`, sum() or list() takes items of"
    return found if isinstance(found, str) else ""


def is_users(code: types.CodeType) -> bool:
    """Whether code is the user's own."""
    name = code.co_filename
    if name.startswith(_ROOT):
        return name.startswith(_PROGRAMS)
    return not (name.startswith(("<frozen", *_NOT_OURS)) or any(i in name for i in _INSTALLED))


def is_converted(code: types.CodeType) -> bool:
    """Whether code asks the runtime already."""
    return PREFIX in code.co_freevars


def _convert(function: types.FunctionType, stops: bool) -> Conversion | str:
    code = function.__code__
    if is_converted(code) or not is_users(code) or not _has_control(code):
        return ""
    from .rewriting import rewrite  # needed where there is something to convert
    from .source import Unconvertible, compiled, definition

    try:
        node = copy.deepcopy(definition(function))
        made, statements, plain = rewrite(node, code.co_freevars, stops)
        new = compiled(made, code, (PREFIX,))
    except Unconvertible as reason:
        return str(reason)
    except (SyntaxError, RecursionError, ValueError) as error:
        return f"its form is not supported ({error})"
    if not is_converted(new):
        return ""
    from .runtime import Runtime

    return Conversion(_named(new, code), types.CellType(Runtime(statements, code)), plain)


def _has_control(code: types.CodeType) -> bool:
    """Whether code decides, repeats, calls, writes or takes slices; what does not need not be
    converted."""
    inside = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    own = bool(_GOES_ON & set(code.co_code[::2]) or _IN_PLACE & _operators(code))
    return own or any(map(_has_control, inside))


def _named(made: types.CodeType, code: types.CodeType) -> types.CodeType:
    """The code with the function's own name on the pieces that stand for its statements."""
    constants = tuple(
        _named(const, code) if isinstance(const, types.CodeType) else const
        for const in made.co_consts
    )
    made = made.replace(co_consts=constants)
    if made.co_name.startswith(PREFIX):
        made = made.replace(co_name=code.co_name, co_qualname=code.co_qualname)
    return made
