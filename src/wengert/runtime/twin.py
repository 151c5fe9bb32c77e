"""The twin of the generated entry, in Python.

`CtypesCall` checks arguments, calls the kernel and builds the result as `codegen/entry.py` does. It
works in any interpreter and has an arena of its own in each call; tests hold the two side by side.
"""

import ctypes
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..snapshot import unchanged
from .arena import Arena
from .limits import NO_FALLBACK
from .signature import (
    BRANCHES,
    WITHOUT_BUFFER,
    ArraySpec,
    Dim,
    KeptSpec,
    Leaf,
    ObjectSpec,
    OwnerSpec,
    ScalarSpec,
    Signature,
    StaticSpec,
    Tree,
    children_of,
    keys_of,
)


class _Mismatch(Exception):  # noqa: N818 - steers, never seen
    """A call that is not of the signature."""


class CtypesCall:
    """The entry's work in Python, for any interpreter, and with an arena for each call."""

    def __init__(
        self,
        signature: Signature,
        run_address: int,
        cell: types.CellType,
        on_error: Callable[..., Any],
        captured: np.ndarray | None,
        keep_alive: Any,
        name: str,
    ):
        self.signature, self.__name__, self.__self__ = signature, name, keep_alive
        self._cell, self._on_error, self._captured = cell, on_error, captured
        self._trees, self._outputs = signature.trees(), signature.outputs()
        self._names = [name for name, _ in signature.kwargs]
        # The code releases the GIL itself, and may leave an exception that ctypes must look for.
        self._run = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(run_address)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Check the arguments, call the kernel, build the result."""
        try:
            inputs, given, lengths = self._match(args, kwargs)
        except _Mismatch:
            return self._call_next(args, kwargs)
        signature = self.signature
        results = [
            np.empty(_shape(spec, lengths), spec.dtype) if array is None else array
            for spec, array in zip(self._outputs, given, strict=True)
        ]
        words = [array.ctypes.data for array in inputs + results]
        buffers = np.array(words + self._state() + list(lengths.values()), np.uint64)
        arena = Arena(signature.arena_bytes) if signature.arena_bytes else None
        code = self._run(buffers.ctypes.data, arena.address if arena else None)
        if code:
            return self._on_error(code, *args, **kwargs)
        if given and all(array is not None for array in given):
            return kwargs["out"]
        finished = (
            new[()] if old is None and not new.ndim else new
            for new, old in zip(results, given, strict=True)
        )
        result = _build(signature.result, finished)
        return result if signature.finish is None else signature.finish.function(result)

    def _call_next(self, args: tuple, kwargs: dict) -> Any:
        try:
            following = self._cell.cell_contents
        except ValueError:  # the cell is empty
            return self._on_error(NO_FALLBACK)
        return following(*args, **kwargs)

    def _match(self, args: tuple, kwargs: dict) -> tuple[list, list, dict]:
        _need(kwargs.keys() - {"out"} == set(self._names))
        order = self.signature.order
        _need(not order or [name for name in kwargs if name != "out"] == list(order))
        found: list[tuple[Leaf, Any]] = []
        _walk(self._trees, (*args, *(kwargs[name] for name in self._names)), found)
        lengths: dict[Any, int] = {}
        inputs = [_input(spec, value, lengths) for spec, value in found]
        inputs = [array for array in inputs if array is not None]
        given = _given(self.signature.result, self._outputs, kwargs.get("out"), lengths)
        self._check_overlap(inputs, given)
        return inputs, given, lengths

    def _check_overlap(self, inputs: list, given: list) -> None:
        written = [_extent(array) for array in given if array is not None]
        read = [_extent(array) for array in inputs]
        for spec, address in zip(self.signature.captured, self._state(), strict=True):
            _need(address)
            (written if spec.written else read).append((address, address + spec.nbytes))
        ranges = written + read
        for i, (low, high) in enumerate(written):
            _need(all(low >= end or start >= high for start, end in ranges[i + 1 :]))

    def _state(self) -> list[int]:
        return [] if self._captured is None else self._captured.tolist()


def _need(condition: Any) -> None:
    if not condition:
        raise _Mismatch


def _walk(trees: Any, values: Any, found: list[tuple[Leaf, Any]]) -> None:
    _need(len(trees) == len(values))
    for tree, value in zip(trees, values, strict=True):
        if isinstance(tree, ObjectSpec):
            inside: list[tuple[Leaf, Any]] = []
            _walk(tree.children, _attributes(tree, value), inside)
            for same in tree.arrange(inside, lambda pair: pair[0]):
                _need(all(other is same[0][1] for _, other in same))
                found.append(same[0])
            continue
        if not isinstance(tree, BRANCHES):
            found.append((tree, value))
            continue
        _need(type(value) is (dict if isinstance(tree, dict) else type(tree)))
        _walk(children_of(tree), _values(tree, value) if isinstance(tree, dict) else value, found)


def _attributes(spec: ObjectSpec, value: Any) -> Any:
    _need(type(value) is spec.kind)
    if spec.names is None:
        return value
    own = [spec.kind] if len(spec.children) > len(spec.names) else []
    if spec.whole:
        held = vars(value)
        _need(held.keys() == set(spec.names))
        return [held[name] for name in spec.names] + own
    try:
        return [getattr(value, name) for name in spec.names] + own
    except Exception:  # attributes may be anything that runs
        raise _Mismatch from None


def _values(tree: dict, mapping: dict) -> list[Any]:
    try:
        _need(list(mapping) == keys_of(tree))
        return [mapping[key] for key in tree]
    except Exception:  # keys compare with whatever __eq__ they have
        raise _Mismatch from None


def _shape(spec: ArraySpec, lengths: dict[Any, int]) -> tuple[int, ...]:
    return tuple(dim.of(lengths) if isinstance(dim, Dim) else dim for dim in spec.shape)  # type: ignore[misc]


def _input(spec: Leaf, value: Any, lengths: dict[Any, int]) -> np.ndarray | None:
    if isinstance(spec, WITHOUT_BUFFER):
        if isinstance(spec, KeptSpec):
            _need(unchanged(value, spec.value))
        elif isinstance(spec, OwnerSpec):
            _need(value is spec.value())
        elif isinstance(spec, StaticSpec):
            _need(value is spec.value)
        return None
    if isinstance(spec, ScalarSpec):
        kinds = {"float": float, "int": int, "bool": bool, "complex": complex}
        _need(type(value) is kinds.get(spec.kind, spec.dtype.type))
        try:
            return np.array(value, spec.dtype)
        except OverflowError:
            raise _Mismatch from None
    _check_array(spec, value, lengths)
    return value


def _check_array(spec: ArraySpec, array: Any, lengths: dict[Any, int]) -> None:
    _need(type(array) is np.ndarray and array.dtype == spec.dtype)
    _need(array.ndim == len(spec.shape) and (array.flags.aligned or not spec.aligned))
    for dim, length in zip(spec.shape, array.shape, strict=True):
        if dim is None:
            lengths[object()] = length
        elif isinstance(dim, Dim):
            _need(dim.of({dim.name: lengths.setdefault(dim.name, length)}) == length)
        else:
            _need(dim == length)
    if spec.strides is None:
        _need(array.flags.c_contiguous)
    else:
        axes = zip(spec.shape, array.strides, spec.strides, strict=True)
        _need(all(got == expected for dim, got, expected in axes if dim != 1))


def _given(
    result: Tree, outputs: tuple[ArraySpec, ...], out: Any, lengths: dict[Any, int]
) -> list[np.ndarray | None]:
    _need(all(length >= 0 for spec in outputs for length in _shape(spec, lengths)))
    if out is None:
        return [None] * len(outputs)
    found: list[tuple[Leaf, Any]] = []
    _walk((result,), (out,), found)
    given = []
    for spec, value in found:
        if isinstance(spec, StaticSpec):
            _need(value is spec.value)
            continue
        if value is not None:
            assert isinstance(spec, ArraySpec)  # a signature allows no other
            _check_array(spec, value, lengths)
            _need(value.flags.writeable)
        given.append(value)
    return given


def _extent(array: np.ndarray) -> tuple[int, int]:
    return np.lib.array_utils.byte_bounds(array) if array.size else (0, 0)


def _build(tree: Tree, finished: Iterator[Any]) -> Any:
    if isinstance(tree, StaticSpec):
        return tree.value
    if isinstance(tree, ArraySpec):
        return next(finished)
    if isinstance(tree, dict):
        made = {key: _build(child, finished) for key, child in tree.items()}
        return {key: made[key] for key in keys_of(tree)}
    return type(tree)(_build(child, finished) for child in tree)
