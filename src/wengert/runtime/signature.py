"""What a compiled call looks like: the kinds of its arguments and results, as trees.

A `Signature` is what a native entry checks (`codegen/entry.py`), or `CtypesCall` in its place.
Leaves are arrays, scalars and objects that must be the very same. Branches are tuples, lists
and dictionaries, written as themselves, and objects of other classes, an `ObjectSpec`: the entry
reads their attributes, so that a dataclass or a module is taken apart without any Python code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ..policy import Record
from ..snapshot import Snapshot

# Arguments and results of an entry that has a module of its own.
LARGE = 48
SCALAR_KINDS = ("float", "int", "bool", "complex", "numpy")


class Dim(Record, kw_only=False):
    """The length of a dynamic axis, `times * name + plus`; equal names mean equal lengths."""

    name: str
    times: int = 1
    plus: int = 0

    def of(self, lengths: dict[str, int]) -> int:
        """The length, given those of the names."""
        return self.times * lengths[self.name] + self.plus


class ArraySpec(Record, kw_only=False):
    """What an array must look like: a `numpy.ndarray`, no subclass, in native byte order.

    `shape` holds lengths, `Dim`s, or None for an axis of any length. `strides` None means
    C-contiguous. A result of shape () is returned as a NumPy scalar.
    """

    dtype: np.dtype
    shape: tuple[int | Dim | None, ...]
    strides: tuple[int, ...] | None = None
    aligned: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", canonical_dtype(self.dtype))
        if self.strides is not None and len(self.strides) != len(self.shape):
            raise ValueError(
                f"ArraySpec: got {len(self.strides)} strides for {len(self.shape)} axes; "
                "give one for each axis, or None"
            )


class ScalarSpec(Record, kw_only=False):
    """A scalar argument, converted to `dtype`.

    `kind` is the exact type accepted: Python's "float", "int", "bool" or "complex", or "numpy" for
    the scalar type of `dtype`. An int that does not fit `dtype` does not match.
    """

    kind: str
    dtype: np.dtype

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", canonical_dtype(self.dtype))
        if self.kind not in SCALAR_KINDS:
            raise ValueError(f"ScalarSpec: got kind {self.kind!r}; expected one of {SCALAR_KINDS}")
        accepted = {"float": "fc", "int": "iufc", "bool": "biufc", "complex": "c"}
        kinds = accepted.get(self.kind, "biufc")
        if self.dtype.kind not in kinds or (self.kind != "numpy" and self.dtype == np.float16):
            raise ValueError(
                f"ScalarSpec: a Python {self.kind} is not converted to {self.dtype}; "
                "declare another dtype and convert in the kernel"
            )


class StaticSpec(Record, kw_only=False):
    """An argument that must be this very object, or an object in the result; has no buffer."""

    value: Any


class KeptSpec(StaticSpec, kw_only=False):
    """An argument that must be as it was when `value`, a `snapshot`, was taken; has no buffer."""

    def __repr__(self) -> str:
        return "KeptSpec()"  # the entry's code does not depend on the value


class OwnerSpec(StaticSpec, kw_only=False):
    """An argument that must be the object that `value`, a weak reference, refers to."""

    def __repr__(self) -> str:
        return "OwnerSpec()"


class CapturedSpec(Record, kw_only=False):
    """State of `nbytes` bytes, at an address in a table that Python may repoint (0: mismatch)."""

    nbytes: int
    written: bool = True


class AnySpec(Record, kw_only=False):
    """An attribute that must be there, whatever it is; has no buffer."""


class ObjectSpec(Record, kw_only=False):
    """An object of exactly this class, whose attributes are trees.

    Without `names` it is a tuple of another class and the children are its items. `whole` says that
    the object's dictionary must have these names and no others. A child more than there are names
    is a `KeptSpec` that the class itself must be like. `numbers` give the place of each
    leaf with a buffer among those of this object, where that is not the order of the attributes;
    leaves of the same number must be one object.
    """

    kind: type
    names: tuple[str, ...] | None
    children: tuple[Tree, ...]
    whole: bool = False
    numbers: tuple[int, ...] | None = None

    def arrange(self, found: Sequence[Any], spec_of: Callable[[Any], Leaf]) -> list[list[Any]]:
        """What was found for the leaves, in the order of their buffers, those without one first.

        Each in a list of its own, with the further ones of the same number.
        """
        if self.numbers is None:
            return [[one] for one in found]
        first = [[one] for one in found if isinstance(spec_of(one), WITHOUT_BUFFER)]
        rest = (one for one in found if not isinstance(spec_of(one), WITHOUT_BUFFER))
        by_number: dict[int, list[Any]] = {}
        for number, one in zip(self.numbers, rest, strict=True):
            by_number.setdefault(number, []).append(one)
        return first + [by_number[number] for number in sorted(by_number)]


WITHOUT_BUFFER = (StaticSpec, AnySpec)
Leaf = ArraySpec | ScalarSpec | StaticSpec | AnySpec
Tree = Any  # a Leaf, or an ObjectSpec, tuple, list or dict of Trees


class Finish:
    """What turns the tuple of results into what the caller gets; all are alike, and equal."""

    def __init__(self, function: Callable[[tuple], Any]):
        self.function = function

    def __repr__(self) -> str:
        return "Finish()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Finish)

    def __hash__(self) -> int:
        return hash(Finish)


class Signature(Record, kw_only=False):
    """One way to call a program: arguments by position and by name, and the result, all trees.

    Buffers follow the order of the leaves, of a dictionary in the order of this signature's keys.
    With `finish` the result is a tuple, and what that function makes of it is returned. The keyword
    `out` gives the arrays of the result, where `takes_out` says that it may. With `order` the
    keywords must be given in it.
    """

    args: tuple[Tree, ...]
    result: Tree
    kwargs: tuple[tuple[str, Tree], ...] = ()
    captured: tuple[CapturedSpec, ...] = ()
    arena_bytes: int = 0
    release_gil: bool = False
    takes_out: bool = True
    finish: Finish | None = None
    order: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        bound: set[str] = set()
        for dim in _dims(self.inputs()):
            if isinstance(dim, Dim) and dim.name not in bound:
                if (dim.times, dim.plus) != (1, 0):
                    raise ValueError(
                        f"Signature: the first axis named {dim.name!r} is {dim}; "
                        f"make it Dim({dim.name!r})"
                    )
                bound.add(dim.name)
        for leaf in self.outputs():
            if leaf.strides is not None or not leaf.aligned:
                raise ValueError(f"Signature: result {leaf} must be C-contiguous and aligned")
        for dim in _dims(self.outputs()):
            if dim is None or (isinstance(dim, Dim) and dim.name not in bound):
                raise ValueError(
                    f"Signature: the result has the axis {dim}, whose length no argument gives"
                )
        if any(name == "out" for name, _ in self.kwargs):
            raise ValueError("Signature: got the keyword 'out'; that name is kept for the results")

    def trees(self) -> tuple[Tree, ...]:
        """The trees of all arguments, by position and then by name."""
        return self.args + tuple(tree for _, tree in self.kwargs)

    def inputs(self) -> tuple[ArraySpec | ScalarSpec, ...]:
        """The leaves that have a buffer, in the order of the kernel's `buffers`."""
        found = leaves(self.trees())
        return tuple(leaf for leaf in found if not isinstance(leaf, WITHOUT_BUFFER))

    @property
    def is_large(self) -> bool:
        """Whether its entry is so long that LLVM should not try hard to make it good."""
        return len(self.inputs()) + len(self.outputs()) > LARGE

    def outputs(self) -> tuple[ArraySpec, ...]:
        """The arrays of the result, in the order of the kernel's `buffers`."""
        found = []
        for leaf in leaves(self.result):
            if isinstance(leaf, ScalarSpec):
                raise ValueError(f"Signature: got {leaf} in the result; use ArraySpec(dtype, ())")
            if isinstance(leaf, ArraySpec):
                found.append(leaf)
        return tuple(found)


def _dims(specs: Iterable[Leaf]) -> Iterator[int | Dim | None]:
    for spec in specs:
        if isinstance(spec, ArraySpec):
            yield from spec.shape


def canonical_dtype(dtype: Any) -> np.dtype:
    """The one instance of a native numeric dtype that NumPy itself uses."""
    found = np.dtype(dtype)
    if found.kind not in "biufc" or found.itemsize > 16 or not found.isnative or found.char in "gG":
        raise ValueError(
            f"call path: got dtype {found!r}; expected a native bool, integer, float or complex"
        )
    return np.dtype(found.str)


def leaves(tree: Tree) -> Iterator[Leaf]:
    """The leaves of a tree, depth first, dictionaries in their own order."""
    if isinstance(tree, ObjectSpec):
        inside = list(leaves(tree.children))
        yield from (same[0] for same in tree.arrange(inside, lambda leaf: leaf))
    elif isinstance(tree, BRANCHES):
        for child in children_of(tree):
            yield from leaves(child)
    elif isinstance(tree, Leaf):
        yield tree
    else:
        raise TypeError(
            f"Signature: got {tree!r} in a tree; "
            "expected ArraySpec, ScalarSpec, StaticSpec, or a tuple, list, dict or object of them"
        )


class Ordered(dict[Any, Any]):
    """A dictionary of trees in the order of the leaves; `order` is that of its keys."""

    def __init__(self, trees: dict[Any, Tree], order: tuple[Any, ...]):
        super().__init__(trees)
        self.order = order

    def __repr__(self) -> str:
        return f"Ordered({super().__repr__()}, {self.order})"


def keys_of(branch: dict[Any, Tree]) -> list[Any]:
    """The keys of a dictionary in the order in which they stand in it."""
    return list(branch.order if isinstance(branch, Ordered) else branch)


BRANCHES = (tuple, list, dict, ObjectSpec)


def children_of(branch: Tree) -> Sequence[Tree]:
    """The trees below a branch."""
    if isinstance(branch, ObjectSpec):
        return branch.children
    return list(branch.values()) if isinstance(branch, dict) else branch


def looked_up(tree: Tree) -> Iterator[Any]:
    """All classes, dictionary keys and attribute names of a tree."""
    if isinstance(tree, dict):
        yield from tree
    elif isinstance(tree, ObjectSpec):
        yield tree.kind
        yield from map(sys.intern, tree.names or ())
    if isinstance(tree, BRANCHES):
        for child in children_of(tree):
            yield from looked_up(child)


def context_objects(signature: Signature) -> tuple[Any, ...]:
    """The objects that the entry of `signature` reads from its context; `finish` is the first.

    Their places follow from the signature's structure alone, so that cached code finds them in
    another process: nothing is left out for being the same object here. Static values come last.
    """
    found: list[Any] = [np.ndarray, tuple, list, dict, float, int, complex, True, False, None]
    # for `codegen/unchanged.py`
    found += [Snapshot, set, object, type, str, bytes, MappingProxyType]
    found += ["out", *(sys.intern(name) for name, _ in signature.kwargs)]
    statics = []
    for tree in (*signature.trees(), signature.result):
        found += looked_up(tree)
        for leaf in leaves(tree):
            if isinstance(leaf, StaticSpec):
                statics.append(leaf.value)
            elif not isinstance(leaf, AnySpec):
                found += [leaf.dtype, leaf.dtype.type]
    finish = None if signature.finish is None else signature.finish.function
    return (finish, *found, *statics)
