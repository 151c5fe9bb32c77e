"""Functions that write to no array: proved from their code, so that nothing need be copied.

What a gradient captures is copied, since the function may write to it before the derivative is
computed (see `keeping.py`). Most functions do not, and of many this can be proved: their code is
run on what is known of its values. A value is *data* (arrays, numbers and traced values, strings,
and tuples, lists and dicts of these) or one known object: a module, a function of NumPy or of
`wengert.numpy` that writes to nothing when it is called like that, a function of the user's, whose
code is run in turn. Data stay data under all that is let through here, and nothing is written. At
the first instruction, name or object that is not listed here there is no proof, and arrays are
copied: objects with methods of their own, in-place operators and `out` are such things.

A proof holds as long as each name means what it meant, which is looked at before each use. It says
nothing of what else runs meanwhile (other threads, signal handlers, finalizers, NumPy's handlers of
floating-point errors): what a function reads must not be written there before the call has ended.
"""

from __future__ import annotations

import builtins
import dis
import inspect
import math
import sys
from collections.abc import Sequence
from types import CodeType, EllipsisType, FunctionType, ModuleType, NoneType
from typing import Any

import numpy as np

from ..types import Function
from .array import FUNCTIONS
from .reaching import NUMBERS, numpys_own
from .tracer import Tracer

# The instructions of other versions may mean something else.
VERSIONS = ((3, 11), (3, 12), (3, 13), (3, 14))
# Functions inside functions, runs of one function until its loops are known, items of a container.
DEEPEST, MOST_STEPS, MOST_ITEMS = 8, 10000, 100

_ATOMS = NUMBERS | {float, int, bool, complex, str, NoneType, EllipsisType, range, Tracer}
_CLASSES = NUMBERS | {float, int, bool, complex, str, tuple, list, dict, np.ndarray}

# How many arguments by position a function takes before one that it would write to.
_FUNCTIONS = (
    "sum 3 mean 3 prod 3 std 3 var 3 max 2 min 2 amax 2 amin 2 argmax 2 argmin 2 all 2 any 2 "
    "dot 2 matmul 2 vdot 2 inner 2 outer 2 tensordot 3 where 3 reshape 2 transpose 2 ravel 1 "
    "concatenate 2 stack 2 vstack 1 hstack 1 squeeze 2 expand_dims 2 broadcast_to 2 swapaxes 3 "
    "moveaxis 3 diag 2 trace 4 clip 3 cumsum 3 diff 3 array 1 asarray 1 zeros 2 ones 2 eye 3 "
    "arange 3 linspace 3 full 2 zeros_like 1 ones_like 1 full_like 2 shape 1 ndim 1 size 1 take 3 "
    "tile 2 roll 3 flip 2 triu 2 tril 2 relu 1 sigmoid 1 softplus 1 erf 1 softmax 2 log_softmax 2 "
    "linalg.norm 3 linalg.solve 2 linalg.inv 1 linalg.det 1 linalg.slogdet 1 linalg.cholesky 1"
)
_METHODS = (
    "sum 2 mean 2 prod 2 std 2 var 2 max 1 min 1 argmax 1 argmin 1 all 1 any 1 dot 1 reshape 9 "
    "transpose 9 ravel 1 flatten 1 squeeze 1 swapaxes 2 trace 3 clip 2 cumsum 2 astype 1 copy 0 "
    "conj 0 item 1 tolist 0 repeat 2 items 0 keys 0 values 0 get 2"
)
_BUILTINS = (
    "abs bool complex enumerate float int isinstance len list max min pow range reversed round sum "
    "tuple zip"
)
_ATTRIBUTES = frozenset("T dtype imag ndim real shape size".split())
_KEYWORDS = frozenset(
    "axis axes axis1 axis2 ddof dtype fill_value initial keepdims offset ord shape start stop num "
    "step strict where".split()
)


def _limits(text: str) -> dict[str, int]:
    words = text.split()
    return {name: int(most) for name, most in zip(words[::2], words[1::2], strict=True)}


METHODS = _limits(_METHODS)


class _UnprovedError(Exception):
    """There is no proof."""


class _Sign:
    """What stands for values that are not known, or for none."""


DATA, _NULL, _ABSENT = _Sign(), _Sign(), _Sign()


class _Known:
    """One object: a module, a class or a function."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Known) and other.value is self.value

    __hash__ = None  # type: ignore[assignment]


class _Method:
    """A method of data, by its name."""

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name


def _known_limits() -> dict[Any, int]:
    """The functions that may be called, and their limits; filled at the first proof."""
    if not _known:
        limits = _limits(_FUNCTIONS)
        for name, ufunc in vars(np).items():
            if type(ufunc) is np.ufunc:
                limits[name] = ufunc.nin
        for name, most in limits.items():
            module = np.linalg if name.startswith("linalg.") else np
            numpys = numpys_own(vars(module).get(name.rpartition(".")[2]))
            for function in (numpys, FUNCTIONS.get(name)):
                if _is_genuine(function):
                    _known[function] = most
        _known.update((vars(builtins)[name], 3) for name in _BUILTINS.split())
        _known.update((one, 3) for one in vars(math).values() if inspect.isbuiltin(one))
        _known.update((one, 1) for one in NUMBERS)
    return _known


_known: dict[Any, int] = {}


def _is_genuine(function: Any) -> bool:
    """Whether a function is NumPy's or wengert's own, and nobody put another in its place."""
    if isinstance(function, FunctionType):
        return function.__globals__.get("__name__", "").split(".")[0] in ("numpy", "wengert")
    return type(function) in (np.ufunc, type(np.sum)) or inspect.isbuiltin(function)


def _is_library(module: Any) -> bool:
    names = "numpy numpy.linalg wengert wengert.numpy wengert.numpy.linalg math".split()
    return any(module is sys.modules.get(name) for name in names)


def is_data(value: Any) -> bool:
    """Whether a value is data, and all that it holds."""
    kind = type(value)
    if kind is np.ndarray:
        return value.dtype.kind in "biufc"
    if kind in _ATOMS:
        return True
    pending, seen = [value], 0
    while pending:
        value = pending.pop()
        kind, seen = type(value), seen + 1
        if seen > MOST_ITEMS:
            return False
        if kind in _ATOMS or (kind is np.ndarray and value.dtype.kind in "biufc"):
            continue
        if kind is slice:
            pending += [value.start, value.stop, value.step]
        elif kind in (tuple, list, dict) and len(value) <= MOST_ITEMS:
            pending += value
            if kind is dict:
                pending += value.values()
        else:
            return False
    return True


def _meaning(value: Any) -> Any:
    """What is known of a value."""
    if is_data(value):
        return DATA
    # only of these kinds: what other objects say when they are compared is not known
    kind = type(value)
    if kind is FunctionType or (issubclass(kind, ModuleType) and _is_library(value)):
        return _Known(value)
    if kind in (np.ufunc, type(np.sum), type(len), type) and _is_listed(value):
        return _Known(value)
    raise _UnprovedError


def _is_listed(value: Any) -> bool:
    return value in _known_limits() or value in _CLASSES


def _content(known: Any) -> Any:
    """What a name with this meaning holds: an object, or `DATA`."""
    return DATA if known is DATA else known.value


class _Basis:
    """What a proof rests on: arguments, what cells and names hold, and the code of functions."""

    def __init__(self, arguments: list[Any], keywords: dict[str, Any]):
        self.arguments, self.keywords = arguments, keywords
        self.cells: dict[int, tuple[Any, Any]] = {}
        self.names: dict[tuple[int, str], tuple[dict[str, Any], str, Any]] = {}
        self.functions: dict[FunctionType, CodeType] = {}

    def add_name(self, names: dict[str, Any], name: str, value: Any) -> None:
        """Note what a name must go on to mean."""
        self.names[id(names), name] = names, name, value

    def stands(self, args: Sequence[Any], keywords: dict[str, Any]) -> bool:
        """Whether all is as it was. Asked in every call: most of what is known is data."""
        if len(args) != len(self.arguments) or keywords.keys() != self.keywords.keys():
            return False
        for arg, known in zip(args, self.arguments, strict=True):
            if not (is_data(arg) if known is DATA else _meaning(arg) == known):
                return False
        for name, known in self.keywords.items():
            if _meaning(keywords[name]) != known:
                return False
        try:
            for cell, known in self.cells.values():
                value = cell.cell_contents
                if value is not known and (known is not DATA or not is_data(value)):
                    return False
        except ValueError:  # nothing in it
            return False
        for names, name, known in self.names.values():
            value = names.get(name, _ABSENT)
            if value is known:
                continue
            value = numpys_own(value)
            if value is not known and (known is not DATA or not is_data(value)):
                return False
        for function, code in self.functions.items():
            if function.__code__ is not code or not (
                (function.__defaults__ is None and function.__kwdefaults__ is None)
                or _plain_defaults(function)
            ):
                return False
        return True


class Proof:
    """Whether a function writes to no array when it is called with certain arguments."""

    # A function whose names keep changing is not worth it.
    attempts = 3

    def __init__(self, function: Function):
        self.function = function
        self.called = False
        self.basis: _Basis | None = None

    def holds(self, args: Sequence[Any], keywords: dict[str, Any]) -> bool:
        """Whether there is a proof. Not at the first call, as a copy takes less time."""
        if not self.called or not self.attempts:
            self.called = True
            return False
        try:
            if self.basis is not None and self.basis.stands(args, keywords):
                return True
            arguments = [_meaning(arg) for arg in args]
            named = {name: _meaning(arg) for name, arg in keywords.items()}
            self.attempts -= 1
            self.basis = self._prove(arguments, named)
        except _UnprovedError:
            return False
        return True

    def _prove(self, arguments: list[Any], keywords: dict[str, Any]) -> _Basis:
        if sys.version_info[:2] not in VERSIONS or type(self.function) is not FunctionType:
            raise _UnprovedError
        basis = _Basis(arguments, keywords)
        _Run(basis, self.function, arguments, keywords, DEEPEST).result()
        return basis


def _plain_defaults(function: FunctionType) -> bool:
    given, named = function.__defaults__, function.__kwdefaults__
    return (given is None or is_data(given)) and (named is None or is_data(named))


class _Run:
    """One run of a function's code."""

    def __init__(
        self,
        basis: _Basis,
        function: FunctionType,
        args: Sequence[Any],
        keywords: dict[str, Any],
        depth: int,
    ):
        self.basis, self.function, self.depth = basis, function, depth
        self.code = code = function.__code__
        unusual = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR
        unusual |= inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
        if not depth or code.co_flags & unusual or code.co_exceptiontable or code.co_cellvars:
            raise _UnprovedError
        if not _plain_defaults(function) or len(args) > code.co_argcount:
            raise _UnprovedError
        basis.functions[function] = code
        parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        # a parameter that is not given has its default, or the call fails
        self.start = dict.fromkeys(parameters, DATA)
        self.start.update(zip(parameters, args, strict=False))
        for name, value in keywords.items():
            if name not in parameters:
                raise _UnprovedError
            self.start[name] = value
        self.results: list[Any] = []

    def result(self) -> Any:
        """What is known of the result, when all ways through the code have been gone."""
        instructions = list(dis.get_instructions(self.code))
        places = {one.offset: place for place, one in enumerate(instructions)}
        states: dict[int, tuple[list[Any], dict[str, Any]]] = {}
        pending: list[tuple[int, list[Any], dict[str, Any]]] = [(0, [], self.start)]
        for _ in range(MOST_STEPS):
            if not pending:
                break
            place, stack, names = pending.pop()
            merged = _merge(states.get(place), stack, names)
            if merged is None:
                continue
            states[place] = merged
            self.stack, self.names = list(merged[0]), dict(merged[1])
            self.target: int | None = None
            self.target_stack: list[Any] = []
            self.before = instructions[max(place - 2, 0) : place]
            goes_on = self.step(instructions[place])
            if self.target is not None:
                pending.append((places[self.target], self.target_stack, self.names))
            if goes_on:
                pending.append((place + 1, self.stack, self.names))
        if pending or not self.results:
            raise _UnprovedError
        first = self.results[0]
        if any(result != first for result in self.results):
            raise _UnprovedError
        return first

    def step(self, one: dis.Instruction) -> bool:
        """Do one instruction; whether the next one follows it."""
        name = one.opname
        if name in _NOTHING:
            return True
        method = getattr(self, "do_" + name.lower(), None)
        if method is not None:
            return method(one) is not False
        if name in _POPS:
            taken, given = _POPS[name]
            self.take_data(taken)
            self.stack += [DATA] * given
        elif name.startswith("LOAD_FAST"):
            self.do_load_fast(one)
        elif "JUMP" in name:
            return self.jump(one)
        else:
            raise _UnprovedError
        return True

    # The stack

    def pop(self) -> Any:
        if not self.stack:
            raise _UnprovedError
        return self.stack.pop()

    def take_data(self, count: int) -> None:
        for _ in range(count):
            if self.pop() is not DATA:
                raise _UnprovedError

    # Names

    def do_load_fast(self, one: dis.Instruction) -> None:
        for name in one.argval if isinstance(one.argval, tuple) else (one.argval,):
            if name not in self.names:
                raise _UnprovedError
            self.stack.append(self.names[name])

    def do_load_fast_and_clear(self, one: dis.Instruction) -> None:
        raise _UnprovedError

    def do_store_fast(self, one: dis.Instruction) -> None:
        for name in one.argval if isinstance(one.argval, tuple) else (one.argval,):
            self.names[name] = self.pop()

    do_store_fast_store_fast = do_store_fast

    def do_store_fast_load_fast(self, one: dis.Instruction) -> None:
        stored, loaded = one.argval
        self.names[stored] = self.pop()
        if loaded not in self.names:
            raise _UnprovedError
        self.stack.append(self.names[loaded])

    def do_load_const(self, one: dis.Instruction) -> None:
        if not is_data(one.argval):
            raise _UnprovedError
        self.stack.append(DATA)

    def do_load_small_int(self, one: dis.Instruction) -> None:
        self.stack.append(DATA)

    def do_load_deref(self, one: dis.Instruction) -> None:
        place = self.code.co_freevars.index(one.argval)
        cell = (self.function.__closure__ or ())[place]
        try:
            known = _meaning(cell.cell_contents)
        except ValueError:
            raise _UnprovedError from None
        self.basis.cells[id(cell)] = cell, _content(known)
        self.stack.append(known)

    def do_load_global(self, one: dis.Instruction) -> None:
        names = self.function.__globals__
        if one.argval not in names:
            self.basis.add_name(names, one.argval, _ABSENT)
            function: Any = self.function
            names = function.__builtins__
        known = self.look_up(names, one.argval)
        assert one.arg is not None
        self.stack += [_NULL, known] if one.arg & 1 else [known]

    def look_up(self, names: dict[str, Any], name: str) -> Any:
        if name not in names:
            raise _UnprovedError
        known = _meaning(numpys_own(names[name]))
        self.basis.add_name(names, name, _content(known))
        return known

    def do_load_attr(self, one: dis.Instruction) -> None:
        assert one.arg is not None
        if sys.version_info >= (3, 12) and one.arg & 1:
            self.do_load_method(one)
        else:
            self.stack.append(self.attribute(self.pop(), one.argval))

    def do_load_method(self, one: dis.Instruction) -> None:
        owner = self.pop()
        if owner is DATA and one.argval not in METHODS:
            raise _UnprovedError
        found = _Method(one.argval) if owner is DATA else self.attribute(owner, one.argval)
        self.stack += [_NULL, found]

    def attribute(self, owner: Any, name: str) -> Any:
        if owner is DATA:
            if name in _ATTRIBUTES:
                return DATA
        elif isinstance(owner, _Known) and isinstance(owner.value, ModuleType):
            return self.look_up(vars(owner.value), name)
        raise _UnprovedError

    # Calls

    def do_push_null(self, one: dis.Instruction) -> None:
        self.stack.append(_NULL)

    def do_call_kw(self, one: dis.Instruction) -> None:
        before = self.before[-1]
        if before.opname != "LOAD_CONST" or type(before.argval) is not tuple:
            raise _UnprovedError
        self.take_data(1)
        self.call(one.argval, before.argval)

    def do_call(self, one: dis.Instruction) -> None:
        before = self.before[-1]
        if before.opname == "PRECALL":
            before = self.before[-2]
        named = before.opname == "KW_NAMES"
        names = self.code.co_consts[before.arg] if named else ()  # type: ignore[index]
        self.call(one.argval, names)

    def call(self, count: int, keywords: tuple[str, ...]) -> None:
        """Replace a callable and its arguments by the result."""
        given = [self.pop() for _ in range(count)][::-1]
        # one of the two is the callable, and which of them depends on the version
        one, other = self.pop(), self.pop()
        if (one is _NULL) is (other is _NULL):
            raise _UnprovedError
        callee = other if one is _NULL else one
        by_name = dict(zip(keywords, given[count - len(keywords) :], strict=True))
        self.stack.append(self.called(callee, given[: count - len(keywords)], by_name))

    def called(self, callee: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
        if isinstance(callee, _Method):
            most = METHODS[callee.name]
        elif not isinstance(callee, _Known):
            raise _UnprovedError
        elif callee.value in _known_limits():
            most = _known_limits()[callee.value]
        elif type(callee.value) is FunctionType:
            return _Run(self.basis, callee.value, args, keywords, self.depth - 1).result()
        else:
            raise _UnprovedError
        if len(args) > most or not keywords.keys() <= _KEYWORDS:
            raise _UnprovedError
        for arg in (*args, *keywords.values()):
            if arg is not DATA and not (isinstance(arg, _Known) and arg.value in _CLASSES):
                raise _UnprovedError
        return DATA

    # Operators and containers

    def do_binary_op(self, one: dis.Instruction) -> None:
        if one.argrepr.endswith("="):
            raise _UnprovedError
        self.take_data(2)
        self.stack.append(DATA)

    def do_build_tuple(self, one: dis.Instruction) -> None:
        self.take_data(one.argval)
        self.stack.append(DATA)

    do_build_list = do_build_slice = do_build_tuple

    def do_unpack_sequence(self, one: dis.Instruction) -> None:
        self.take_data(1)
        self.stack += [DATA] * one.argval

    def do_copy(self, one: dis.Instruction) -> None:
        if one.argval > len(self.stack):
            raise _UnprovedError
        self.stack.append(self.stack[-one.argval])

    def do_swap(self, one: dis.Instruction) -> None:
        if one.argval > len(self.stack):
            raise _UnprovedError
        place = -one.argval
        self.stack[place], self.stack[-1] = self.stack[-1], self.stack[place]

    # Where it goes on

    def do_return_value(self, one: dis.Instruction) -> bool:
        self.results.append(self.pop())
        return False

    def do_return_const(self, one: dis.Instruction) -> bool:
        self.do_load_const(one)
        return self.do_return_value(one)

    def do_for_iter(self, one: dis.Instruction) -> None:
        if not self.stack or self.stack[-1] is not DATA:
            raise _UnprovedError
        # at the end the iterator is gone, or there is an END_FOR that takes it away
        later = sys.version_info >= (3, 12)
        self.target = one.argval
        self.target_stack = [*self.stack, DATA] if later else self.stack[:-1]
        self.stack.append(DATA)

    def do_end_for(self, one: dis.Instruction) -> None:
        self.take_data(2 if sys.version_info < (3, 13) else 1)

    def jump(self, one: dis.Instruction) -> bool:
        name = one.opname
        if name in ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"):
            self.target, self.target_stack = one.argval, list(self.stack)
            return False
        if not name.startswith("POP_JUMP"):
            raise _UnprovedError
        self.pop()
        self.target, self.target_stack = one.argval, list(self.stack)
        return True


# Instructions without an effect here, and those that make data of data.
_NOTHING = frozenset(
    "CACHE COPY_FREE_VARS EXTENDED_ARG KW_NAMES NOP NOT_TAKEN PRECALL RESUME".split()
)
_POPS = {
    "BINARY_SLICE": (3, 1), "BINARY_SUBSCR": (2, 1), "COMPARE_OP": (2, 1), "CONTAINS_OP": (2, 1),
    "GET_ITER": (1, 1), "IS_OP": (2, 1), "POP_ITER": (1, 0), "POP_TOP": (1, 0), "TO_BOOL": (1, 1),
    "UNARY_INVERT": (1, 1), "UNARY_NEGATIVE": (1, 1), "UNARY_NOT": (1, 1), "UNARY_POSITIVE": (1, 1),
}  # fmt: skip


def _merge(old: Any, stack: list[Any], names: dict[str, Any]) -> Any:
    """The state at a place that is reached in two ways, or None if nothing is new."""
    if old is None:
        return stack, names
    # names that have no value on one of the ways have none
    both = {name: known for name, known in names.items() if name in old[1]}
    if stack != old[0] or any(old[1][name] != known for name, known in both.items()):
        raise _UnprovedError
    return None if both.keys() == old[1].keys() else (stack, both)
