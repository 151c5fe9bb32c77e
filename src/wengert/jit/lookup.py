"""The cache that is asked before tracing: whole programs by the function's fingerprint.

A record holds the object code of a program and all that is needed to bind it: shapes and dtypes of
the buffers, the constants, the size of the arena and the structure of the result. It exists for
functions that have a `fingerprint`, and programs without state that are one native function. Its
key covers the fingerprint, the kinds of arguments, the way the call was written, the processor,
the layout of the interpreter's objects and the source of wengert itself. Records are JSON and raw
bytes in the object cache, which checks their integrity.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import tree
from .arguments import Call, Leaf
from .debugging import Clock
from .fingerprint import fingerprint
from .tracing import StaticResult

_VERSION = 1
_LENGTH = struct.Struct("<Q")


class _Unrecordable(Exception):  # noqa: N818 - steers, never seen
    """A program that a record cannot hold."""


def key_of(
    function: Callable, call: Call, structure: tree.Structure, kinds: Sequence[Leaf], style: Any
) -> str | None:
    """The key of the record for such a call; None where only tracing can tell."""
    from .program import object_cache

    if object_cache().folder is None:
        return None
    statics = tuple((place, static.value) for place, static in call.statics())
    code = fingerprint(function, statics)
    if code is None:
        return None
    try:
        shape = _structure_to_json(structure)
    except _Unrecordable:
        return None
    from ..codegen.cache import cache_key, source_fingerprint
    from ..codegen.target import Target
    from ..runtime.builtin import native_layout

    described = [
        (k.kind, k.type.dtype.str, k.type.shape, k.type.weak, k.strides or "contiguous")
        for k in kinds
    ]
    return cache_key(
        "program",
        _VERSION,
        code,
        described,
        json.dumps(shape),
        style,
        Target.host().key(),
        str(native_layout()),
        source_fingerprint(),
    )


def save(key: str | None, program: Any) -> None:
    """Keep a program under its key, if a record can hold it."""
    from .program import object_cache

    if key is None or program.state or "entry" not in program.compiled.exports:
        return
    try:
        data = _pack(program)
    except _Unrecordable:
        return
    object_cache().put(key, data)


def load(
    key: str | None, name: str, kinds: Sequence[Leaf], prepare: Callable[[Any], Any], clock: Clock
) -> tuple[Any, Any] | None:
    """The program kept under the key and its native entry, ready to be called; or None."""
    from .program import object_cache

    if key is None:
        return None
    with clock("look up"):
        data = object_cache().get(key)
        if data is None:
            return None
        program = _unpack(data, name, kinds, clock)
    signature = prepare(program)
    if signature is None:
        return None
    with clock("link"):
        return program, program.bind(signature, program.compiled, "entry")


# ---------------------------------------------------------------- records


def _pack(program: Any) -> bytes:
    layout = program.layout
    header = {
        "outputs": [(dtype.str, shape) for dtype, shape in layout.outputs],
        "inputs": [(dtype.str, shape) for dtype, shape in layout.inputs],
        "constants": [(c.dtype.str, c.shape) for c in layout.constants],
        "arena": layout.arena_bytes,
        "work": layout.work,
        "structure": _structure_to_json(program.structure),
        "results": [_static_to_json(result) for result in program.results],
    }
    text = json.dumps(header).encode()
    parts = [text, *(c.tobytes() for c in layout.constants), program.compiled.image]
    return b"".join(_LENGTH.pack(len(part)) + part for part in parts)


def _unpack(data: bytes, name: str, kinds: Sequence[Leaf], clock: Clock) -> Any:
    from ..codegen import pool
    from ..codegen.compile import load_image
    from ..runtime import threads
    from ..runtime.builtin import c_api_addresses
    from .frames import Layout
    from .program import Program

    parts = []
    while data:
        (length,) = _LENGTH.unpack_from(data)
        parts.append(data[_LENGTH.size : _LENGTH.size + length])
        data = data[_LENGTH.size + length :]
    header = json.loads(parts[0])

    def buffers(of: str) -> list[tuple[np.dtype, tuple[int, ...]]]:
        return [(np.dtype(dtype), tuple(shape)) for dtype, shape in header[of]]

    constants = [
        np.frombuffer(raw, dtype).reshape(shape).copy()
        for raw, (dtype, shape) in zip(parts[1:-1], buffers("constants"), strict=True)
    ]
    layout = Layout(
        buffers("inputs"), buffers("outputs"), constants, header["arena"], header["work"]
    )
    compiled = load_image(parts[-1], symbols=c_api_addresses())
    if pool.PARALLEL_FOR in compiled.needs:
        threads.attach(pool.load())
    structure = _structure_from_json(header["structure"])
    results = [None if result is None else StaticResult(result[0]) for result in header["results"]]
    return Program(name, kinds, layout, structure, results, compiled, ["kernel0"], clock=clock)


def _static_to_json(result: Any) -> Any:
    if not isinstance(result, StaticResult):
        return None
    if type(result.value) not in (bool, int, float, str):
        raise _Unrecordable
    return [result.value]


_KINDS: dict[str, Any] = {"tuple": tuple, "list": list, "dict": dict, "none": type(None)}


def _structure_to_json(structure: tree.Structure) -> Any:
    if structure.kind is None:
        return "leaf"
    name = next((name for name, kind in _KINDS.items() if kind is structure.kind), None)
    keys = structure.data or ()
    if name is None or any(type(key) is not str for key in keys):
        raise _Unrecordable
    return [name, list(keys), [_structure_to_json(child) for child in structure.children]]


def _structure_from_json(data: Any) -> tree.Structure:
    if data == "leaf":
        return tree.LEAF
    name, keys, children = data
    kept = tuple(keys) if name == "dict" else None
    return tree.Structure(_KINDS[name], kept, tuple(map(_structure_from_json, children)))
