"""The values of variables around a branch or a loop: which are traced, and what becomes of them.

A variable may hold any tree. Its leaves are *numbers* (arrays, Python's numbers, traced values),
which a branch or a loop can compute, or other things, which must stay what they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import tree
from ..errors import ControlFlowError
from ..graph import Constant, Node, Operator
from ..ops.layout import convert
from ..ops.op import Traced
from ..ops.positions import provided
from ..trace import Tracer, concrete
from ..trace.views import Views, is_array
from ..types import ArrayType, result_dtype, type_of, weaken
from .conversion import PREFIX

_NUMBERS = (np.ndarray, np.generic, bool, int, float, complex)
# Traced values first: what else they may be takes time to tell.
_LEAVES = (Traced, *_NUMBERS)
ATOMS = (Traced, str, bytes, int, float)  # that hold no other objects


class Undefined:
    """Stands for a variable without a value."""

    def __repr__(self) -> str:
        return "undefined"


UNDEFINED = Undefined()
# What the result of a function is before it returns.
NOTHING = Undefined()


def failure(where: str, problem: str, remedy: str) -> ControlFlowError:
    """The error for control flow at a line."""
    return ControlFlowError(f"{where}: {problem}. {remedy}")


class Partial:
    """A variable that has a value on one way only; to use it is an error."""

    __slots__ = ("_name", "_where")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, name: str, where: str):
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_where", where)

    def __repr__(self) -> str:
        return f"<{self._name}, which may have no value>"

    def refuse(self, *args: Any, **kwargs: Any) -> Any:
        """Raise the error."""
        raise failure(
            self._where,
            f"the variable {self._name!r} has a value only if a traced condition says so, and is "
            "read",
            f"Give {self._name} a value on every way, for one before the `if` or the loop.",
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__array_") and name not in ("__array_ufunc__", "__array_function__"):
            raise AttributeError(name)
        return self.refuse()


for _name in (
    "add radd iadd sub rsub isub mul rmul imul truediv rtruediv itruediv floordiv rfloordiv "
    "ifloordiv mod rmod imod pow rpow ipow matmul rmatmul imatmul and rand iand or ror ior xor "
    "rxor ixor lshift rlshift rshift rrshift lt le gt ge eq ne neg pos abs invert bool int float "
    "complex index len iter getitem setitem delitem contains call array array_ufunc "
    "array_function setattr format str round"
).split():
    setattr(Partial, f"__{_name}__", Partial.refuse)


def sure(value: Any, flag: Any, name: str) -> Any:
    """The value of a variable, if a flag says that it has one; else Python's own error."""
    if flag is True:
        return value
    leaves, structure = tree.flatten(value)
    if not all(map(is_number, leaves)):
        raise failure(
            f"reading {name!r}",
            "whether it has a value depends on a traced condition, and it is no number or array",
            f"Give {name} a value on every way, for one before the `if` or the loop.",
        )
    text = f"cannot access local variable {name!r} where it is not associated with a value"
    if not is_abstract(flag):
        raise UnboundLocalError(text)
    texts = {"error": "UnboundLocalError", "name": "", "problem": text, "remedy": ""}
    checked = [provided(leaf, flag, **texts) for leaf in leaves]
    pairs = zip(checked, leaves, strict=True)
    return tree.unflatten(structure, [weaken(c) if type_of(x).weak else c for c, x in pairs])


class _Instance:
    """The kind of an object of the user's in a structure."""


def _instance(data: Any, values: list[Any]) -> Any:
    kind, names = data
    made = object.__new__(kind)
    for name, value in zip(names, values, strict=True):
        setattr(made, name, value)
    return made


tree.register(_Instance, lambda one: ((), None), _instance)


def attributes(thing: Any) -> dict[str, Any] | None:
    """The attributes of an object of the user's that are numbers all, as those of a vector are;
    None of all else."""
    kind: Any = type(thing)
    if kind.__module__ == "builtins" or kind.__setattr__ is not object.__setattr__:
        return None
    if isinstance(thing, (*_NUMBERS, Traced, type)) or kind.__new__ is not object.__new__:
        return None
    found = dict(getattr(thing, "__dict__", {}))
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(thing, name):
                found[name] = getattr(thing, name)
    return found if found and all(map(is_number, found.values())) else None


def flatten(value: Any) -> tuple[list[Any], tree.Structure]:
    """The leaves of a value and its structure; the leaves of an object are its attributes."""
    found = attributes(value) if tree.take_apart(value) is None else None
    if found is None:
        return tree.flatten(value)
    names = tuple(found)
    shape = tree.Structure(_Instance, (type(value), names), (tree.LEAF,) * len(names))
    return list(found.values()), shape


def is_number(value: Any) -> bool:
    """Whether a leaf can be computed."""
    return isinstance(value, _LEAVES)


def can_be_written(leaf: Any) -> bool:
    """Whether a number is an array: somebody may write to it later."""
    return is_array(leaf) if isinstance(leaf, Views) else isinstance(leaf, np.ndarray)


def is_fixed(structure: tree.Structure) -> bool:
    """Whether a value is a number or made of tuples."""
    if structure is tree.LEAF:
        return True
    return structure.kind is tuple and all(map(is_fixed, structure.children))


def is_own_array(value: Any) -> bool:
    """Whether a value is traced, and no tensor: it lives as long as the trace."""
    return type(value) is Tracer or getattr(type(value), "made", False)


def is_abstract(value: Any) -> bool:
    """Whether a traced value has no number yet."""
    return isinstance(value, Traced) and concrete(value) is None


def equal(one: Any, other: Any) -> bool:
    """Whether two leaves that are not traced are the same."""
    if one is other:
        return True
    if isinstance(one, Traced) or isinstance(other, Traced) or type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype and np.array_equal(one, other, equal_nan=False))
    try:
        same = bool(one == other)
    except Exception:  # comparing is up to the objects
        return False
    return same and (not isinstance(one, (float, complex)) or repr(one) == repr(other))


def common(one: ArrayType, other: ArrayType) -> ArrayType | None:
    """The type that both can take, as NumPy promotes; None where the shapes differ."""
    if one.shape != other.shape:
        return None
    if one == other:
        return one
    if one.weak and other.weak:
        dtype = max(one.dtype, other.dtype, key=_rank)
        return ArrayType(dtype, one.shape, True)
    return ArrayType(result_dtype(one, other), one.shape)


def _rank(dtype: np.dtype) -> int:
    return "biufc".index(dtype.kind)


def as_node(node: Node, wanted: ArrayType) -> Node:
    """A node in another dtype."""
    own = node.type
    if own.dtype == wanted.dtype and (own.weak == wanted.weak or wanted.weak):
        return node
    if own.dtype == wanted.dtype and isinstance(node, Constant) and not _is_traced(node):
        return Constant(wanted.dtype.type(node.output))
    return Operator(
        convert, (node,), {"dtype": wanted.dtype}, None, ArrayType(wanted.dtype, own.shape)
    )


def _is_traced(node: Constant) -> bool:
    return isinstance(node.output, Traced)


def filler(wanted: ArrayType) -> Constant:
    """A constant that nobody will read."""
    return Constant(np.broadcast_to(np.zeros((), wanted.dtype), wanted.shape)[()])


def shown(value: Any) -> str:
    """A value as its types, for messages."""
    if value is UNDEFINED or value is NOTHING:
        return "no value"
    leaves, structure = tree.flatten(value)
    return str(tree.unflatten(structure, map(_Type, leaves)))


class _Type:
    def __init__(self, leaf: Any):
        self.text = str(type_of(leaf)) if is_number(leaf) else repr(leaf)

    def __repr__(self) -> str:
        return self.text


def is_internal(name: str) -> bool:
    """Whether a variable is one of the converter's."""
    return name.startswith(PREFIX)
