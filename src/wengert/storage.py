"""Trees of arrays in files: safetensors, written atomically, read without trust.

A safetensors file is a table in JSON (name, dtype, shape and place of each array) followed by the
bytes of the arrays. There is no code in it, so a file from anywhere is safe to read, and every
number in the table is checked before it is used. What the format has no words for (tuples, lists,
numbers, None, complex arrays) is described in the table's metadata, which other readers ignore.

A dict of arrays, such as a state dict, is stored under its own names: PyTorch's safetensors reads
what `save` wrote, and `load` reads what PyTorch's wrote.

>>> import numpy as np, os, tempfile
>>> path = os.path.join(tempfile.mkdtemp(), "tree.safetensors")
>>> save(path, {"step": 3, "weights": (np.zeros(2), np.ones(1))})
>>> load(path)
{'step': 3, 'weights': (array([0., 0.]), array([1.]))}
"""

from __future__ import annotations

import json
import os
from math import prod
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from . import tree
from .errors import DataError, DTypeError, explain

_DTYPES = {
    "BOOL": np.dtype(bool),
    "U8": np.dtype("u1"),
    "I8": np.dtype("i1"),
    "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"),
    "U32": np.dtype("<u4"),
    "I32": np.dtype("<i4"),
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "BF16": np.dtype("<u2"),  # widened to float32 when read
}
_CODES = {dtype: code for code, dtype in _DTYPES.items() if code != "BF16"}
_LARGEST_TABLE = 100 << 20
# Of an array in NumPy; the elements are counted in bytes of at most 16.
_MOST_AXES, _MOST_ELEMENTS = 64, (1 << 59) - 1
_METADATA = "__metadata__"
_STRUCTURE = "wengert"


# ---------------------------------------------------------------- writing


def save(path: Any, tree: Any) -> None:
    """Write a tree of arrays and numbers, such as ``model.state_dict()``, to a file.

    The file is there in full or not at all, also when the machine stops meanwhile. Things with a
    `state_dict` (modules, optimizers) are written as that; named tuples and dataclasses as tuples
    and dicts.
    """
    arrays: dict[str, np.ndarray] = {}
    structure = _described(tree, "", arrays)
    table: dict[str, Any] = {_METADATA: {"format": "np", _STRUCTURE: json.dumps(structure)}}
    start = 0
    for name, array in arrays.items():
        stop = start + array.nbytes
        table[name] = {
            "dtype": _CODES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [start, stop],
        }
        start = stop
    header = json.dumps(table, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    _write_atomically(path, [len(header).to_bytes(8, "little"), header, *arrays.values()])


def _described(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    """The structure of a tree in words that JSON has; its arrays are put aside under names."""
    if hasattr(value, "state_dict"):
        value = value.state_dict()
    if value is None or type(value) in (bool, int, str):
        return {"value": value}
    if type(value) is float:
        return {"float": value.hex()}
    children, kind = _children(value)
    if kind is None:
        return _array(value, name, arrays)
    parts = [
        (key, _described(child, _joined(name, key), arrays)) for key, child in children.items()
    ]
    return {kind: parts if kind == "dict" else [part for _, part in parts]}


def _children(value: Any) -> tuple[dict[Any, Any], str | None]:
    """The parts of a tree by key, and what it is called; None: not a tree."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, (str, int)) or isinstance(key, bool):
                raise DTypeError(
                    explain("save", f"got a dict with the key {key!r}", "Use strings or integers.")
                )
        return value, "dict"
    if isinstance(value, (tuple, list)):
        return dict(enumerate(value)), "list" if isinstance(value, list) else "tuple"
    if hasattr(type(value), "__dataclass_fields__"):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}, "dict"
    leaves, structure = tree.flatten(value)
    if structure is tree.LEAF:
        return {}, None
    return dict(enumerate(leaves)), "list"


def _joined(name: str, key: Any) -> str:
    return f"{name}.{key}" if name else str(key)


def _array(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    array = np.ascontiguousarray(array).reshape(array.shape)
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    kind = "array" if not isinstance(value, np.generic) else "scalar"
    if array.dtype.kind == "c":
        array, kind = array[..., None].view(array.real.dtype), f"complex {kind}"
    if array.dtype not in _CODES:
        raise DTypeError(
            explain(
                "save",
                f"{name or 'the tree'} holds {value!r:.60} of type {type(value).__name__}",
                "Expected arrays, numbers, strings and None in dicts, lists and tuples.",
            )
        )
    label = name or "array"
    while label in arrays or label == _METADATA:  # keys with dots in them may meet
        label += "_"
    arrays[label] = array
    return {kind: label}


def _write_atomically(path: Any, parts: list[Any]) -> None:
    """Write beside the file, make it last, then rename it into place."""
    target = os.path.realpath(os.fspath(path))
    folder = os.path.dirname(target)
    beside = f"{target}.{os.getpid()}.{os.urandom(4).hex()}.tmp"
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            for part in parts:
                file.write(part if isinstance(part, bytes) else memoryview(part.reshape(-1)))
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        os.unlink(beside)
        raise
    _sync_folder(folder)


def _sync_folder(folder: str) -> None:
    """Make the new name last too, where the system lets a folder be opened."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ---------------------------------------------------------------- reading


class _Stored(NamedTuple):
    code: str
    shape: tuple[int, ...]
    start: int
    stop: int


def load(path: Any) -> Any:
    """Read a tree that `save` wrote, or the arrays of any safetensors file as a dict."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        table, base = _table(file, size, path)
        metadata = table.pop(_METADATA, {})
        entries = _entries(table, size - base, path)
        arrays = {name: _read(file, base, entry, path) for name, entry in entries.items()}
    written = metadata.get(_STRUCTURE) if isinstance(metadata, dict) else None
    if written is None:
        return arrays
    try:
        return _rebuilt(json.loads(written), arrays)
    # all that Python and NumPy raise for a value of another kind than expected
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError):
        raise _bad(path, "the description of the tree does not fit the arrays") from None


def _bad(path: Any, problem: str) -> DataError:
    return DataError(
        explain(
            "load",
            f"{os.fspath(path)!s} is not a whole safetensors file: {problem}",
            "Write it anew, or restore it from a copy.",
        )
    )


def _table(file: BinaryIO, size: int, path: Any) -> tuple[dict[str, Any], int]:
    """The table at the beginning, and where the arrays start."""
    if size < 8:
        raise _bad(path, f"it has {size} bytes, at least 8 are needed")
    length = int.from_bytes(file.read(8), "little")
    if length > min(size - 8, _LARGEST_TABLE):
        raise _bad(path, f"its table should have {length} bytes, the file has {size}")
    try:
        table = json.loads(file.read(length).decode(), object_pairs_hook=_without_repetition)
    except (ValueError, RecursionError) as error:
        raise _bad(path, f"its table cannot be read ({error})") from None
    if not isinstance(table, dict):
        raise _bad(path, "its table is not an object")
    return table, 8 + length


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _entries(table: dict[str, Any], room: int, path: Any) -> dict[str, _Stored]:
    """The arrays of the table; they must lie one after the other and fill the file."""
    entries = {name: _entry(name, described, path) for name, described in table.items()}
    reached = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1].start):
        if entry.start != reached:
            raise _bad(path, f"{name} starts at byte {entry.start}, expected {reached}")
        reached = entry.stop
    if reached != room:
        raise _bad(path, f"its arrays take {reached} bytes, the file has {room} for them")
    return entries


def _entry(name: str, described: Any, path: Any) -> _Stored:
    try:
        code, shape = described["dtype"], described["shape"]
        start, stop = described["data_offsets"]
        numbers = [*shape, start, stop]
    except (KeyError, TypeError, ValueError):
        raise _bad(path, f"{name} has no dtype, shape and data_offsets") from None
    if not all(type(number) is int and number >= 0 for number in numbers) or stop < start:
        raise _bad(path, f"{name} has the shape {shape} and the offsets {start}, {stop}")
    if type(code) is not str or code not in _DTYPES:
        known = ", ".join(_DTYPES)
        raise _bad(path, f"{name} has the dtype {code!r}, known are {known}")
    # NumPy asks for both of an array without elements too
    if len(shape) > _MOST_AXES or prod(n for n in shape if n) > _MOST_ELEMENTS:
        raise _bad(path, f"{name} has the shape {shape}, more than an array can have")
    if prod(shape) * _DTYPES[code].itemsize != stop - start:
        raise _bad(path, f"{name} has the shape {shape} of {code} in {stop - start} bytes")
    return _Stored(code, tuple(shape), start, stop)


def _read(file: BinaryIO, base: int, entry: _Stored, path: Any) -> np.ndarray:
    raw = np.empty(entry.stop - entry.start, np.uint8)
    file.seek(base + entry.start)
    if file.readinto(raw) != raw.size:  # type: ignore[attr-defined]
        raise _bad(path, "it became shorter while it was read")
    array = raw.view(_DTYPES[entry.code]).reshape(entry.shape)
    if entry.code == "BOOL" and array.view(np.uint8).max(initial=0) > 1:
        raise _bad(path, "a Boolean is neither 0 nor 1")
    if entry.code == "BF16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _rebuilt(structure: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The inverse of `_described`."""
    ((kind, content),) = structure.items()
    if kind == "value" and (content is None or type(content) in (bool, int, str)):
        return content
    if kind == "float":
        return float.fromhex(content)
    if kind == "dict" and type(content) is list:
        return {key: _rebuilt(part, arrays) for key, part in content}
    if kind in ("list", "tuple") and type(content) is list:
        parts = [_rebuilt(part, arrays) for part in content]
        return parts if kind == "list" else tuple(parts)
    if kind not in ("array", "scalar", "complex array", "complex scalar"):
        raise ValueError(f"{kind!r} is no kind of content")
    array = arrays[content]
    if kind.startswith("complex "):
        array = array.view(np.result_type(array.dtype, np.complex64))[..., 0]
    return array[()] if kind.endswith("scalar") else array
