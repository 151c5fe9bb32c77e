"""The face of a traced array: operators, methods, NumPy's protocols, conversions.

Operators bind operations directly. Methods and plain ``numpy`` functions look up the function of
the same name in `FUNCTIONS`, which `wengert.numpy` fills: one place for the meaning of a name.
Those of SciPy look it up in `wengert.scipy.special`.
"""

from __future__ import annotations

import builtins
import importlib
import math
from typing import Any

import numpy as np

from ..errors import AbstractValueError, ConversionError, DTypeError, ShapeError, explain
from ..ops import elementwise as ew
from ..ops import logic
from ..ops.layout import convert, permute, reshape
from ..ops.op import Op
from ..ops.python_integers import exact
from ..types import ArrayType, Function, type_of, weaken
from .foreign import asked, scipy_function, unavailable
from .indexing import getitem, put, setitem
from .views import Views, copy_of

# NumPy's names -> wengert's functions: "sum", "linalg.norm", "fft.rfft", ...
FUNCTIONS: dict[str, Function] = {}

_METHODS = (
    "all any argmax argmin argpartition argsort clip conj cumprod cumsum diagonal dot max mean min "
    "nonzero prod ptp put repeat round searchsorted squeeze std sum swapaxes take trace var"
).split()


_CONVERSION = "conversion to a NumPy array"
_REMEDY = (
    "Write to arrays that are made in the function, with np.zeros, np.array(x) for a copy and so "
    "on, and use np.sin for math.sin"
)


def _numpy_function(name: str) -> Function:
    function = FUNCTIONS.get(name)
    if function is None:
        raise unavailable("numpy", name)
    return function


def _operator(op: Op, swapped: bool = False) -> Function:
    def method(self: Any, other: Any) -> Any:
        if not _is_operand(other):
            return NotImplemented
        if _is_weak(self) and _is_weak(other):
            return weaken(exact(op, other, self) if swapped else exact(op, self, other))
        return op(other, self) if swapped else op(self, other)

    return method


def _is_weak(value: Any) -> bool:
    while isinstance(value, Array):
        node = value._node
        if node is None:  # an array that was written to
            return False
        if node.output is None:
            return bool(node.type.weak)
        value = node.output
    return type(value) in (int, float, complex)


def _is_operand(other: Any) -> bool:
    return isinstance(other, (Array, np.ndarray, np.generic, bool, int, float, complex))


def _power_operator(self: Any, exponent: Any) -> Any:
    if type(exponent) is int and self.type.dtype.kind in "fc":
        result = ew.integer_power(self, n=exponent)
        if _is_weak(self):
            weaken(result)
        return result
    if type(exponent) is int and exponent == 2 and self.type.dtype.kind == "b" and self.type.shape:
        return ew.square(self)  # NumPy takes this way for arrays, and the dtype with it
    return _plain_power(self, exponent)


_plain_power = _operator(ew.power)


def _in_place(op: Op) -> Function:
    def method(self: Any, other: Any) -> Any:
        if not _is_operand(other):
            return NotImplemented
        if self.type.shape == () and self._base is None and self._writable is not True:
            # NumPy's scalars do not change: x += 1 gives x a new value
            if _is_weak(self) and _is_weak(other):
                return weaken(exact(op, self, other))
            return op(self, other)
        result = op(self, other)
        check_fits(f"in-place {op.name}", result, self, "Write x = x + y instead of x += y.")
        same = type_of(result).dtype == self.type.dtype
        self._write(result if same else convert(result, dtype=self.type.dtype))
        return self

    return method


def check_fits(
    name: str, value: Any, array: Array, remedy: str, casting: Any = "same_kind"
) -> None:
    """An error unless the value has the shape of the array, and a dtype that goes into its."""
    result, target = type_of(value), array.type
    if result.shape != target.shape or not np.can_cast(result.dtype, target.dtype, casting):
        kind = DTypeError if result.shape == target.shape else ShapeError
        problem = f"the result is {result}, the array it must fit into {target}"
        raise kind(explain(name, problem, remedy))


class Array(Views):
    """What every traced array can do; looks and behaves like a NumPy array."""

    __slots__ = ()
    # NumPy arrays and numbers on the left hand over to us.
    __array_priority__ = 1000.0
    value: Any

    # ------------------------------------------------------------ type

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return self.type.shape

    @property
    def dtype(self) -> np.dtype:
        """The element type."""
        return self.type.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.type.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.type.size

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.type.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.type.dtype.itemsize * self.type.size

    def __len__(self) -> int:
        if not self.type.shape:
            raise TypeError("len() of a 0-d array")
        return self.type.shape[0]

    def _weaken(self) -> None:
        node = self._node
        node.output = weaken(node.output)
        array_type = node.type
        if array_type.dtype.kind in "ifc" and not array_type.weak:
            node._type = ArrayType(array_type.dtype, array_type.shape, True)

    # ------------------------------------------------------------ operators

    __add__ = _operator(ew.add)
    __radd__ = _operator(ew.add, swapped=True)
    __sub__ = _operator(ew.subtract)
    __rsub__ = _operator(ew.subtract, swapped=True)
    __mul__ = _operator(ew.multiply)
    __rmul__ = _operator(ew.multiply, swapped=True)
    __truediv__ = _operator(ew.divide)
    __rtruediv__ = _operator(ew.divide, swapped=True)
    __floordiv__ = _operator(logic.floor_divide)
    __rfloordiv__ = _operator(logic.floor_divide, swapped=True)
    __mod__ = _operator(ew.remainder)
    __rmod__ = _operator(ew.remainder, swapped=True)
    __pow__ = _power_operator
    __rpow__ = _operator(ew.power, swapped=True)
    __and__ = _operator(logic.bitwise_and)
    __rand__ = _operator(logic.bitwise_and, swapped=True)
    __or__ = _operator(logic.bitwise_or)
    __ror__ = _operator(logic.bitwise_or, swapped=True)
    __xor__ = _operator(logic.bitwise_xor)
    __rxor__ = _operator(logic.bitwise_xor, swapped=True)
    __lshift__ = _operator(logic.left_shift)
    __rlshift__ = _operator(logic.left_shift, swapped=True)
    __rshift__ = _operator(logic.right_shift)
    __rrshift__ = _operator(logic.right_shift, swapped=True)
    __lt__ = _operator(logic.less)
    __le__ = _operator(logic.less_equal)
    __gt__ = _operator(logic.greater)
    __ge__ = _operator(logic.greater_equal)
    __eq__ = _operator(logic.equal)
    __ne__ = _operator(logic.not_equal)
    __hash__ = None  # type: ignore[assignment]

    __iadd__ = _in_place(ew.add)
    __isub__ = _in_place(ew.subtract)
    __imul__ = _in_place(ew.multiply)
    __itruediv__ = _in_place(ew.divide)
    __ifloordiv__ = _in_place(logic.floor_divide)
    __imod__ = _in_place(ew.remainder)
    __ipow__ = _in_place(ew.power)
    __iand__ = _in_place(logic.bitwise_and)
    __ior__ = _in_place(logic.bitwise_or)
    __ixor__ = _in_place(logic.bitwise_xor)
    __ilshift__ = _in_place(logic.left_shift)
    __irshift__ = _in_place(logic.right_shift)

    def __imatmul__(self, other: Any) -> Any:
        np.matmul(self, other, out=self)  # type: ignore[call-overload]
        return self

    def __neg__(self) -> Any:
        return weaken(exact(ew.negative, self)) if _is_weak(self) else ew.negative(self)

    def __pos__(self) -> Any:
        return ew.positive(self)

    def __abs__(self) -> Any:
        return weaken(exact(ew.absolute, self)) if _is_weak(self) else ew.absolute(self)

    def __invert__(self) -> Any:
        return logic.invert(self)

    def __matmul__(self, other: Any) -> Any:
        return _numpy_function("matmul")(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _numpy_function("matmul")(other, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    # ------------------------------------------------------------ elements

    def __getitem__(self, key: Any) -> Any:
        return getitem(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.type.shape == () and self._base is None and self._writable is not True:
            raise TypeError("a scalar does not support item assignment")
        if not self._keeps_writes or not put(self, key, value):
            self._write(setitem(self, key, value))

    def __iter__(self) -> Any:
        if not self.type.shape:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(self.type.shape[0]))

    # ------------------------------------------------------------ numbers

    def _concrete(self, purpose: str) -> Any:
        from .preparing import unprepared
        from .tracer import concrete

        value = concrete(self)
        if value is None:
            taken = purpose in ("float()", _CONVERSION)
            operation, remedy = asked(purpose, _REMEDY)
            raise AbstractValueError(
                explain(
                    operation,
                    f"the value of {self.type} is not known while the function is traced by jit "
                    f"or vmap{unprepared()}",
                    f"{remedy}."
                    if taken
                    else "Use wg.cond or wnp.where for a choice, wg.while_loop or wg.scan for a "
                    "loop, or static_argnames of jit.",
                )
            )
        return value

    def __bool__(self) -> bool:
        return bool(self._concrete("bool() or `if`"))

    def __index__(self) -> int:
        if self.type.dtype.kind not in "iu":
            raise TypeError(f"only integer arrays can be an index, not {self.type}")
        value = self._concrete("int() or an index")
        return int(value.__index__())

    def __int__(self) -> int:
        return int(self._concrete("int()"))

    # as of NumPy's numbers: integers, which have no derivative

    def __round__(self, ndigits: int | None = None) -> Any:
        return self._whole(round) if ndigits is None else _numpy_function("round")(self, ndigits)

    def __floor__(self) -> int:
        return self._whole(math.floor)

    def __ceil__(self) -> int:
        return self._whole(math.ceil)

    def __trunc__(self) -> int:
        return self._whole(math.trunc)

    def _whole(self, function: Function) -> int:
        return int(function(self._concrete(f"{function.__name__}()")))

    def __float__(self) -> float:
        return float(self._taken_out("float()"))

    def __complex__(self) -> complex:
        return complex(self._taken_out("complex()"))

    def item(self, *index: int) -> Any:
        """The element as a Python number."""
        return np.asarray(self._taken_out("item()")).item(*index)

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return np.asarray(self._taken_out("tolist()")).tolist()

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        # a copy: writing to the plain array must not reach into the recorded values
        return np.array(self._taken_out(_CONVERSION), dtype=dtype)

    def _taken_out(self, purpose: str) -> Any:
        self._refuse_if_active(purpose)
        return self._concrete(purpose)

    def _refuse_if_active(self, purpose: str) -> None:
        """A number taken out of a trace has no derivative: refuse rather than lose it silently."""
        from .tracer import current_trace

        if self.node.active and current_trace() is not None:
            operation, remedy = asked(purpose, _REMEDY)
            raise ConversionError(
                explain(
                    operation,
                    f"the traced value {self.type} would lose its derivative",
                    f"{remedy}, or wg.stop_gradient(x) if no derivative is wanted.",
                )
            )

    def __repr__(self) -> str:
        from .tracer import concrete

        value = None if self._trace.closed else concrete(self)
        shown = "abstract" if value is None else np.array2string(np.asarray(value), threshold=20)
        return f"{type(self).__name__}({self.type}, {shown})"

    def __format__(self, spec: str) -> str:
        value = np.asarray(self._concrete("formatting"))
        return format(value.item() if value.size == 1 else value, spec)

    # ------------------------------------------------------------ NumPy's protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        if method == "outer":
            x, y = (type_of(value) for value in inputs)
            first = reshape(inputs[0], shape=x.shape + (1,) * len(y.shape))
            inputs, name = (first, inputs[1]), ufunc.__name__
        if method in ("reduce", "accumulate") and len(inputs) == 1:
            kwargs.setdefault("axis", 0)  # where the functions of the same meaning default to all
        name = _UFUNC_NAMES.get(name, name)
        function = FUNCTIONS.get(name)
        if function is None or kwargs:  # of which SciPy's names here take none
            function = scipy_function(ufunc, name) or function or _numpy_function(name)
        if out is None:
            return function(*inputs, **kwargs)
        from .outputs import write_out

        is_call = method == "__call__"  # of others `where` says what is reduced
        options = {"where": kwargs.pop("where", True)} if is_call else {}
        options["casting"] = kwargs.get("casting", "same_kind")
        result = function(*inputs, **kwargs)
        return write_out(name, out, result, broadcasts=is_call, **options)

    def __array_function__(self, func: Function, types: Any, args: Any, kwargs: Any) -> Any:
        module = func.__module__.removeprefix("numpy").lstrip(".")
        name = f"{module}.{func.__name__}" if module in ("linalg", "fft") else func.__name__
        return _call(func, name, args, kwargs)

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return importlib.import_module("wengert.numpy")

    # ------------------------------------------------------------ methods

    @property
    def T(self) -> Any:
        """The array with its axes reversed."""
        return permute(self, axes=tuple(range(self.ndim))[::-1])

    @property
    def mT(self) -> Any:
        """The array with its last two axes swapped."""
        return _numpy_function("matrix_transpose")(self)

    @property
    def real(self) -> Any:
        """The real part."""
        return _numpy_function("real")(self)

    @property
    def imag(self) -> Any:
        """The imaginary part."""
        return _numpy_function("imag")(self)

    @property
    def flat(self) -> Any:
        """The elements one after the other."""
        from .flat import Flat

        return Flat(self)

    @flat.setter
    def flat(self, values: Any) -> None:
        self.flat[...] = values

    @property
    def at(self) -> Any:
        """Not needed here: says how arrays are written to."""
        raise AttributeError("use x = x.copy(); x[i] = v: arrays can be written to in place")

    def reshape(self, *shape: Any, order: str = "C") -> Any:
        """The same elements in another shape."""
        target = shape[0] if len(shape) == 1 and not _is_integer(shape[0]) else shape
        return _numpy_function("reshape")(self, target, order=order)

    def transpose(self, *axes: Any) -> Any:
        """The array with its axes permuted."""
        given = axes[0] if len(axes) == 1 and not _is_integer(axes[0]) else axes or None
        return _numpy_function("transpose")(self, given)

    def view(self, dtype: Any = None, type: Any = None) -> Any:
        """The same array again, sharing its memory; the elements cannot be read as others."""
        for wanted in (dtype, type):
            if wanted in (None, np.ndarray):
                continue
            if isinstance(wanted, builtins.type) and issubclass(wanted, np.ndarray):
                raise DTypeError(
                    explain("view", f"got the class {wanted.__name__}", "Keep a plain array.")
                )
            if np.dtype(wanted) != self.dtype:
                raise DTypeError(
                    explain(
                        "view",
                        f"got {np.dtype(wanted)} for an array of {self.dtype}: the bits of a "
                        "traced value cannot be read as another type",
                        "Use x.astype(dtype), or x.real and x.imag of complex numbers.",
                    )
                )
        return self[...]

    def ravel(self, order: str = "C") -> Any:
        """One axis; a view where NumPy gives one."""
        return _numpy_function("ravel")(self, order=order)

    def flatten(self, order: str = "C") -> Any:
        """One axis; always a copy."""
        return copy_of(self.ravel(order), "C")

    def astype(
        self,
        dtype: Any,
        order: str = "K",
        casting: Any = "unsafe",
        subok: bool = True,
        copy: bool = True,
    ) -> Any:
        """The array in another dtype; with ``copy=False`` the array itself if it has it."""
        if not np.can_cast(self.type.dtype, dtype, casting):
            raise DTypeError(
                explain(
                    "astype",
                    f"cannot cast {self.type} to {np.dtype(dtype)} under casting={casting!r}",
                    "Leave out casting, or give a dtype that holds every value.",
                )
            )
        result = _numpy_function("astype")(self, dtype, copy=copy)
        return result if order == "K" else _numpy_function("asarray")(result, order=order)

    def copy(self, order: str = "C") -> Any:
        """A copy that can be written to."""
        return copy_of(self, order)

    def __copy__(self) -> Any:
        return copy_of(self)

    def __deepcopy__(self, memo: Any) -> Any:
        return copy_of(self)

    def fill(self, value: Any) -> None:
        """Write one value to all elements."""
        self[...] = value

    def sort(self, axis: int = -1) -> None:
        """Sort in place."""
        self._write(_numpy_function("sort")(self, axis=axis))


def _is_integer(value: Any) -> bool:
    """Whether one number is given, where a sequence of them may be."""
    return hasattr(value, "__index__") and not getattr(value, "shape", ())


# ufuncs whose NumPy name is not the name of a function in the namespace
_UFUNC_NAMES = {
    "add.reduce": "sum",
    "multiply.reduce": "prod",
    "maximum.reduce": "max",
    "minimum.reduce": "min",
    "logical_and.reduce": "all",
    "logical_or.reduce": "any",
    "add.accumulate": "cumsum",
    "multiply.accumulate": "cumprod",
    "maximum.accumulate": "cummax",
    "minimum.accumulate": "cummin",
    "logaddexp.reduce": "logsumexp",
}


def _call(theirs: Function, name: str, args: Any, kwargs: Any) -> Any:
    """Call the function of a name with the arguments that NumPy's takes."""
    function = _numpy_function(name)
    if len(args) <= 2 and "out" not in kwargs:  # mostly
        return function(*args, **kwargs)
    from .outputs import call_as_numpys

    return call_as_numpys(theirs, function, name, args, kwargs)


def _method(name: str) -> Function:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _call(getattr(np, name), name, (self, *args), kwargs)

    method.__name__ = name
    method.__doc__ = f"``numpy.{name}`` of this array."
    return method


for _name in _METHODS:
    setattr(Array, _name, _method(_name))
