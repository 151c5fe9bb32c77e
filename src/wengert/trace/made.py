"""Arrays that NumPy makes inside a function being traced: plain until a traced value comes in.

``b = np.zeros(n)`` in such a function gives a `Made` array (`creating.py` sees to that). It is a
traced array around a `Constant`, so that traced values can be written to it, through views too, as
to any other. But as long as none was, it is what NumPy made: whatever is done with it and other
plain values is done by NumPy, at once, and gives plain numbers and `Made` arrays. So it decides
branches and shapes, goes into functions of other packages, and nothing of it is recorded, also
under `jit`. It stays so when its function has returned.

NumPy is given views that cannot be written to. A view that comes back is made again as one that
follows writes; where that cannot be done (``b.view(int)``), nothing can be written any more.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import ConversionError, DTypeError, MutationError, explain
from ..graph import Constant
from ..ops.indexing import gather, scatter_set
from ..ops.layout import reshape
from ..ops.op import Op, Traced, leaked
from ..types import Function
from .array import FUNCTIONS
from .conditional import check_current, conditional
from .masked import Selected
from .reaching import NUMBERS
from .tracer import Trace, Tracer, current_trace

# The dtypes of traced values.
_CODES = frozenset("?bhilqBHILQefdFD")
_SIMPLE = NUMBERS | {float, int, bool, complex, str, type(None), np.ndarray, type(...)}
# NumPy's functions and methods that write to their first argument.
_CHANGING = frozenset("copyto put place putmask fill_diagonal put_along_axis".split())
_CHANGING_METHODS = frozenset("fill partition put setfield sort".split())


_C_ORDER = np.zeros(1).flags


class _Mark:
    """Stands for values that are not plain."""


TRACED: Any = _Mark()


def plain(value: Any) -> Any:
    """A value with plain arrays in place of those made here; `TRACED` if anything is traced."""
    kind = type(value)
    if kind in _SIMPLE:
        return value
    if kind is Made:
        return value._look()
    if kind is tuple or kind is list:
        items = [plain(item) for item in value]
        if any(item is TRACED for item in items):
            return TRACED
        changed = any(one is not other for one, other in zip(items, value, strict=True))
        return kind(items) if changed else value
    if kind is dict:
        content = plain(list(value.values()))
        return TRACED if content is TRACED else dict(zip(value, content, strict=True))
    if kind is slice:
        bounds = plain((value.start, value.stop, value.step))
        return TRACED if bounds is TRACED else slice(*bounds)
    return TRACED if isinstance(value, (Traced, Selected)) else value


def adopt(found: Any, given: Any = ()) -> Any:
    """New arrays that NumPy made, as arrays that can be written to.

    All else is as it is, also what NumPy was given, and views of it.
    """
    kind = type(found)
    if kind is np.ndarray:
        trace = current_trace()
        return found if trace is None or _is_among(found, given) else made(trace, found)
    return kind(adopt(part, given) for part in found) if kind is tuple or kind is list else found


def _is_among(found: np.ndarray, given: Any) -> bool:
    """Whether an array is one of those given, or a view of one, or of memory of other kinds."""
    owner: Any = found
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    if owner.base is not None:
        return True
    return any(
        owner is array or np.may_share_memory(found, array) for array in _plain_arrays(given)
    )


def _plain_arrays(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _plain_arrays(item)
    elif isinstance(value, dict):
        yield from _plain_arrays(list(value.values()))


def made(trace: Trace, array: np.ndarray) -> Any:
    """A new array of the trace; as it is if it holds no numbers."""
    if array.dtype.char not in _CODES or not array.dtype.isnative:
        return array
    if not array.flags.c_contiguous:
        # which reshapes are views depends on how it lies in memory
        order = np.argsort([-abs(stride) for stride in array.strides], kind="stable")
        storage = np.ascontiguousarray(array.transpose(order))
        return made(trace, storage).transpose(*map(int, np.argsort(order)))
    tracer = Made(trace, Constant(array))
    tracer._writable = True
    return tracer


def fold(
    trace: Trace, op: Op, args: Sequence[Any], params: dict[str, Any], values: Sequence[Any]
) -> Any:
    """An operation of plain arrays that NumPy made: computed, and not recorded."""
    output = op.compute(values, params)
    if op.multiple:
        return tuple(made(trace, np.asarray(part)) for part in output)
    if op.write_back is None:
        return made(trace, output) if type(output) is np.ndarray else output
    tracer = Made(trace, Constant(np.asarray(output)))
    tracer._writable = True
    if isinstance(args[0], Tracer):
        tracer._view_of(args[0], op, params)
    return tracer


def afterwards(op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """An operation on a value whose function has returned: good for arrays that NumPy made."""
    constants = [arg._constant() if isinstance(arg, Traced) else arg for arg in args]
    if all(constant is not None for constant in constants):
        trace = max((arg._trace for arg in args if isinstance(arg, Traced)), key=lambda t: t.level)
        return fold(trace, op, args, params, constants)
    for place, (arg, constant) in enumerate(zip(args, constants, strict=True)):
        if constant is None:
            if arg._trace.closed:
                raise leaked(op.name)
            constants[place] = arg
    return op(*constants, **params)


class Made(Tracer):
    """An array that NumPy made in a function being traced; see above."""

    __slots__ = ()
    made = True

    def _constant(self) -> Any:
        """What it holds, as long as that is plain, else None."""
        if conditional.replaced:
            check_current(self)
        if self._written is not None and not self._written.is_settled:
            return None
        node = self._node if self._base is None else self.node
        return node.output if type(node) is Constant and type(node.output) is np.ndarray else None

    def _look(self) -> Any:
        """What it holds, to look at alone, or `TRACED`."""
        content = self._constant()
        if content is None:
            return TRACED
        view = content.view()
        view.setflags(write=False)
        return view

    def _alike(self, node: Any) -> Any:
        return Made(self._trace, node)

    # Writing

    def _put(self, content: np.ndarray) -> None:
        """Replace the content by a new plain one."""
        self._write(Made(self._trace, Constant(content)))

    def _write(self, new: Any) -> None:
        trace, own = current_trace(), self._sure_chain()[-1]._trace
        if trace is not own and trace is not None and trace.body:
            raise MutationError(
                explain(
                    "writing to an array",
                    "the array was made outside the body of a loop or branch, which is traced "
                    "before it runs",
                    "Make the array in the body, or carry it: x = x.copy() in the body.",
                )
            )
        if own.closed and plain(new) is TRACED:
            raise MutationError(
                explain(
                    "writing to an array",
                    "the array was made in a function that has returned, the value is traced",
                    "Make the array inside the function.",
                )
            )
        super()._write(new)
        storage: Any = self._storage()
        node = storage.node
        # which reshapes are views is told from how it lies in memory
        if type(node) is Constant and not getattr(node.output, "flags", _C_ORDER).c_contiguous:
            storage._node = Constant(np.ascontiguousarray(node.output))

    def _share(self, reader: str) -> None:
        """Nothing can be written any more: somebody has a view that would not follow."""
        self._storage()._writable = f"shared: {reader}"

    def _is_alone(self) -> bool:
        """Whether nobody else has the content, so that it can be changed where it lies."""
        node = self._node
        return (
            self._base is None
            and self._writable is True
            and node.output.base is None
            and sys.getrefcount(node) == _ALONE[0]
            and sys.getrefcount(node.output) == _ALONE[1]
        )

    def __setitem__(self, key: Any, value: Any) -> None:
        if self._constant() is None or plain((key, value)) is TRACED:
            super().__setitem__(key, value)
        elif self._is_alone() and current_trace() is self._trace:
            self._node.output[plain(key)] = plain(value)
            self._version += 1
        else:
            content = self._constant().copy()
            content[plain(key)] = plain(value)
            self._put(content)

    def __getitem__(self, key: Any) -> Any:
        own, place = self._look(), plain(key)
        if own is TRACED or place is TRACED:
            return super().__getitem__(key)
        found = own[place]
        return super().__getitem__(key) if _shares(found, [self]) else adopt(found)

    def __contains__(self, value: Any) -> bool:
        own = self._look()
        return value in (list(self) if own is TRACED else own)

    # NumPy's protocols

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        own = self._look()
        if own is TRACED:
            return super().__array__(dtype, copy)
        if sys._getframe(1).f_code.co_name == "as_strided":
            self._share("as_strided")
        return np.array(own, dtype=dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if plain((inputs, kwargs)) is TRACED:
            return super().__array_ufunc__(ufunc, method, *inputs, **kwargs)
        if method == "at":
            return _changing(ufunc.at, inputs, kwargs)
        return _with_out(getattr(ufunc, method), inputs, kwargs)

    def __array_function__(self, func: Function, types: Any, args: Any, kwargs: Any) -> Any:
        if plain((args, kwargs)) is not TRACED:
            if func.__name__ in _CHANGING:
                return _changing(func, args, kwargs)
            found = _with_out(func, args, kwargs)
            arrays = list(_arrays((args, kwargs)))
            if not _shares(found, arrays):
                return found
            if func.__name__ not in FUNCTIONS:
                return _followed(func, args, kwargs, found)
            result = super().__array_function__(func, types, args, kwargs)
            return result if _follows(result, arrays) else _followed(func, args, kwargs, found)
        return super().__array_function__(func, types, args, kwargs)

    # What else an array has

    @property
    def base(self) -> Any:
        """The array that this one is a view of."""
        return None if self._base is None else self._storage()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(np.ndarray, name):
            raise AttributeError(f"'ndarray' object has no attribute {name!r}")
        own = self._look()
        if own is TRACED or name == "ctypes":
            raise ConversionError(
                explain(
                    f"ndarray.{name}",
                    "a traced value has no memory"
                    if own is TRACED
                    else "the memory of an array made in a traced function may not be written to",
                    "Make the array outside the function.",
                )
            )
        if name == "data":
            self._share("ndarray.data")
        return getattr(own, name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        own = self._look()
        if own is TRACED:
            self._refuse_if_active("pickling")
            raise ConversionError(explain("pickling", f"got the traced value {self.type}"))
        return own.copy().__reduce_ex__(protocol)

    def __bytes__(self) -> bytes:
        own = self._look()
        return bytes(self.__array__() if own is TRACED else own)

    def setflags(self, write: Any = None, align: Any = None, uic: Any = None) -> None:
        """``ndarray.setflags``: whether it can be written to."""
        if write is not None:
            self._writable = True if write else "read-only"


def _arrays(value: Any) -> Iterator[Made]:
    """The arrays made here among arguments."""
    if type(value) is Made:
        yield value
    elif type(value) in (tuple, list):
        for item in value:
            yield from _arrays(item)
    elif type(value) is dict:
        yield from _arrays(list(value.values()))


def _shares(found: Any, arrays: list[Made]) -> bool:
    """Whether a result is a view of one of the arrays, or holds such."""
    if isinstance(found, (tuple, list)):
        return any(_shares(part, arrays) for part in found)
    if not isinstance(found, np.ndarray) or isinstance(found, Traced) or found.base is None:
        return False
    return any(np.may_share_memory(found, array._constant()) for array in arrays)


def _follows(result: Any, arrays: list[Made]) -> bool:
    """Whether a result sees what is written to the arrays it is a view of; all of several."""
    if isinstance(result, (tuple, list)):
        return all(_follows(part, arrays) for part in result)
    if not isinstance(result, Tracer):
        return False
    return any(result._storage() is array._storage() for array in arrays)


class _Places:
    """Any view of NumPy's: the elements at certain places of the array laid flat."""

    name = "gather"

    def __call__(self, x: Any, places: np.ndarray, strides: Any) -> Any:
        content = x._constant()
        if content is not None and places.size:  # as it lies in memory, like NumPy's own view
            first = np.unravel_index(places.flat[0], content.shape)
            start = content[tuple(slice(int(place), None) for place in first)]
            return Made(x._trace, Constant(self.evaluate(start, places, strides)))
        return gather(reshape(x, shape=(x.size,)), places, axes=(0,))

    def write_back(self, base: Any, new: Any, places: np.ndarray, strides: Any) -> Any:
        """The array with `new` at the places."""
        flat = scatter_set(reshape(base, shape=(base.size,)), new, places, axes=(0,))
        return reshape(flat, shape=base.shape)

    def evaluate(self, layout: np.ndarray, places: np.ndarray, strides: Any) -> np.ndarray:
        """How the view lies in memory."""
        return np.lib.stride_tricks.as_strided(layout, places.shape, strides, writeable=False)


_PLACES: Any = _Places()


def _followed(function: Function, args: Any, kwargs: Any, found: Any) -> Any:
    """Views that NumPy gives, as views that follow writes.

    The same call on an array of positions says where their elements are.
    """
    for array in list(_arrays((args, kwargs))):
        positions = np.arange(array.size).reshape(array.shape)
        again = _exchanged((args, kwargs), array, positions)
        found = _views(found, function(*again[0], **again[1]), array)
    return found


def _exchanged(value: Any, array: Made, other: np.ndarray) -> Any:
    """The arguments with another array in the place of one, and plain ones for the others."""
    if value is array:
        return other
    if type(value) in (tuple, list):
        return type(value)(_exchanged(item, array, other) for item in value)
    if type(value) is dict:
        return {key: _exchanged(item, array, other) for key, item in value.items()}
    return plain(value)


def _views(found: Any, places: Any, array: Made) -> Any:
    if isinstance(found, (tuple, list)):
        return type(found)(_views(one, at, array) for one, at in zip(found, places, strict=True))
    if not _shares(found, [array]):
        return found
    view = Made(array._trace, Constant(found))
    view._view_of(array, _PLACES, {"places": np.array(places), "strides": found.strides})
    if len(np.unique(places)) < found.size:
        view._writable = "read-only"
    return view


def _changing(function: Function, args: Any, kwargs: Any) -> None:
    """Call a function that writes to its first argument, an array or a `Made` one."""
    given, options = plain((args, kwargs))
    if not args or type(args[0]) is not Made:
        function(*given, **options)
        return
    content = given[0].copy()
    function(content, *given[1:], **options)
    args[0]._put(content)


def _with_out(function: Function, args: Any, kwargs: Any) -> Any:
    """Call a function of NumPy's, which may write to the arrays of `out`."""
    given, options = plain((args, kwargs))
    out = kwargs.get("out")
    targets = out if isinstance(out, tuple) else (out,)
    if not any(type(target) is Made for target in targets):
        return adopt(function(*given, **options), (given, options))
    contents = tuple(t._look().copy() if type(t) is Made else t for t in targets)
    options["out"] = contents if isinstance(out, tuple) else contents[0]
    function(*given, **options)
    for target, content in zip(targets, contents, strict=True):
        if type(target) is Made:
            target._put(content)
    return out[0] if isinstance(out, tuple) and len(out) == 1 else out


# ---------------------------------------------------------------- operators and methods


def _operator(name: str) -> Function:
    usual, numpy_own = getattr(Tracer, name, None), getattr(np.ndarray, name)

    def method(self: Any, *others: Any) -> Any:
        given = plain(others)
        own = TRACED if given is TRACED else self._look()
        if own is not TRACED:
            return adopt(numpy_own(own, *given))
        if usual is None:
            return NotImplemented
        return usual(self, *map(_operand, others))

    return method


def _operand(value: Any) -> Any:
    """Lists beside an array count as arrays."""
    return FUNCTIONS["array"](value) if type(value) in (list, tuple) else value


def _in_place(name: str) -> Function:
    usual, numpy_own = getattr(Tracer, name), getattr(np.ndarray, name)

    def method(self: Any, other: Any) -> Any:
        own, given = self._look(), plain(other)
        if own is TRACED or given is TRACED:
            return usual(self, _operand(other))
        content = own.copy()
        if numpy_own(content, given) is NotImplemented:
            return NotImplemented
        self._put(content)
        return self

    return method


def _method(name: str) -> Function:
    usual, numpy_own = getattr(Tracer, name, None), getattr(np.ndarray, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        own, given = self._look(), plain((args, kwargs))
        if own is not TRACED and given is not TRACED and kwargs.get("out") is None:
            if name in _CHANGING_METHODS:
                return _changing(numpy_own, (self, *args), kwargs)
            found = numpy_own(own, *given[0], **given[1])
            if not _shares(found, [self]):
                return adopt(found, given)
            if type(found) is not np.ndarray or found.dtype != own.dtype:
                self._share(f"ndarray.{name}")
                return found
            result = None if usual is None else usual(self, *args, **kwargs)
            if _follows(result, [self]):
                return result
            return _followed(numpy_own, (self, *args), kwargs, found)
        if usual is None:
            raise DTypeError(
                explain(
                    f"ndarray.{name}",
                    "is not available on traced values",
                    "See wengert.numpy for what is.",
                )
            )
        return usual(self, *args, **kwargs)

    method.__name__ = name
    return method


_BINARY = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift divmod".split()
_OTHERS = (
    "lt le gt ge eq ne neg pos abs invert bool int float complex index repr str format".split()
)
for _name in [*_BINARY, *["r" + name for name in _BINARY], *_OTHERS]:
    setattr(Made, f"__{_name}__", _operator(f"__{_name}__"))
for _name in _BINARY[:-1]:
    setattr(Made, f"__i{_name}__", _in_place(f"__i{_name}__"))
for _name in dir(np.ndarray):
    # a new size for what is there already, and other bytes in the same place, are not followed
    if not _name.startswith("_") and callable(getattr(np.ndarray, _name)) and _name not in (
        "setflags", "resize", "byteswap",
    ):  # fmt: skip
        setattr(Made, _name, _method(_name))
Made.__hash__ = None  # type: ignore[assignment]


def _count_references() -> tuple[int, int]:
    """How often a content that nobody shares counts as referred to, by asking one."""
    array = Made(Trace(), Constant(np.zeros(2)))
    counts: list[int] = []

    def ask(self: Made) -> None:
        node = self._node
        counts.append(sys.getrefcount(node))
        counts.append(sys.getrefcount(node.output))

    ask(array)
    return counts[0], counts[1]


# None of them where references are not counted, as in builds without a global lock.
_ALONE = _count_references() if getattr(sys, "_is_gil_enabled", lambda: True)() else (0, 0)
