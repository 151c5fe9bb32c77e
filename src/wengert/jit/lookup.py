"""Whole programs kept on disk, found before tracing, or before compiling.

A record holds the object code of a program and all that is needed to bind it: shapes and dtypes of
the buffers, the constants, the size of the arena and the structure of the result. It exists for
programs that are one native function. There are two ways to one. The *function's* key needs no
tracing; it exists where the function has a `fingerprint` and there is no state. The *graph's* key
needs the trace, but no pass, no schedule and no code generation; it holds for any function whose
graph is made of wengert's own operations.

Both keys cover the kinds of arguments, the way the call was written, the processor, the layout of
the interpreter's objects and the source of wengert itself. Records are JSON and raw bytes in the
object cache, which checks their integrity.
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
from .fingerprint import fingerprint, graph_fingerprint
from .frames import Layout
from .program import Program, object_cache
from .tracing import Captured, StaticResult

_VERSION = 2
_LENGTH = struct.Struct("<Q")


class _Unrecordable(Exception):  # noqa: N818 - steers, never seen
    """A program that a record cannot hold."""


def key_of(
    function: Callable, call: Call, structure: tree.Structure, kinds: Sequence[Leaf], style: Any
) -> str | None:
    """The key of the record for such a call; None where only tracing can tell."""
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
    return _key("function", code, kinds, json.dumps(shape), style)


def graph_key(captured: Captured, kinds: Sequence[Leaf], style: Any) -> str | None:
    """The key of the record for a traced function; None where operations are not all our own."""
    if object_cache().folder is None:
        return None
    code = graph_fingerprint(captured.graph)
    if code is None:
        return None
    return _key("graph", code, kinds, str(captured.structure), (*style, captured.outline()))


def _key(way: str, code: str, kinds: Sequence[Leaf], structure: str, style: Any) -> str:
    from ..codegen.cache import cache_key, source_fingerprint
    from ..codegen.target import Target
    from ..runtime.layout import native_layout

    described = [
        (k.kind, k.type.dtype.str, k.type.shape, k.type.weak, k.strides or "contiguous")
        for k in kinds
    ]
    surroundings = (Target.host().key(), str(native_layout()), source_fingerprint())
    return cache_key(way, _VERSION, code, described, structure, style, surroundings)


def save(key: str | None, program: Any, captured: bool = False) -> None:
    """Keep a program under its key, if a record can hold it; `captured`: of its graph."""
    if key is None or ("entry" not in program.compiled.exports and program.entry_code is None):
        return
    try:
        data = _pack(program, captured)
    except _Unrecordable:
        return
    object_cache().put(key, data)


def load(
    key: str | None,
    name: str,
    kinds: Sequence[Leaf],
    prepare: Callable[[Any], Any],
    clock: Clock,
    captured: Captured | None = None,
) -> tuple[Any, Any] | None:
    """The program kept under the key and its native entry, ready to be called; or None.

    `captured` is the traced function, for the key of its graph.
    """
    if key is None:
        return None
    with clock("look up"):
        data = object_cache().get(key)
        if data is None:
            return None
        program, expected = _unpack(data, name, kinds, captured, clock)
        signature = prepare(program)
        if repr(signature) != expected:  # its entry was compiled for another
            return None
    with clock("link"):
        return program, program.bind(signature, program.entry_code or program.compiled, "entry")


# ---------------------------------------------------------------- records


def _pack(program: Any, captured: bool) -> bytes:
    layout = program.layout
    header: dict[str, Any] = {
        "outputs": [(dtype.str, shape) for dtype, shape in layout.outputs],
        "inputs": [(dtype.str, shape) for dtype, shape in layout.inputs],
        "constants": [(c.dtype.str, c.shape) for c in layout.constants],
        "arena": layout.arena_bytes,
        "work": layout.work,
        "room": layout.room_bytes,
        "direct": [state.scratch is None for state in program.state if state.written],
        "signature": program.signature_text,
        "images": 1 if program.entry_code is None else 2,
    }
    if not captured:
        header["structure"] = _structure_to_json(program.structure)
        header["results"] = [_static_to_json(result) for result in program.results]
    text = json.dumps(header).encode()
    parts = [text, *(c.tobytes() for c in layout.constants), program.compiled.image]
    parts += [] if program.entry_code is None else [program.entry_code.image]
    return b"".join(_LENGTH.pack(len(part)) + part for part in parts)


def _unpack(
    data: bytes, name: str, kinds: Sequence[Leaf], captured: Captured | None, clock: Clock
) -> tuple[Any, str]:
    from ..codegen import pool
    from ..codegen.compile import load_image
    from ..runtime import threads
    from ..runtime.builtin import c_api_addresses

    parts = []
    while data:
        (length,) = _LENGTH.unpack_from(data)
        parts.append(data[_LENGTH.size : _LENGTH.size + length])
        data = data[_LENGTH.size + length :]
    header = json.loads(parts[0])
    images = parts[-header["images"] :]
    del parts[-header["images"] :]

    def buffers(of: str) -> list[tuple[np.dtype, tuple[int, ...]]]:
        return [(np.dtype(dtype), tuple(shape)) for dtype, shape in header[of]]

    constants = [
        np.frombuffer(raw, dtype).reshape(shape).copy()
        for raw, (dtype, shape) in zip(parts[1:], buffers("constants"), strict=True)
    ]
    sizes = (header[name] for name in ("arena", "work", "room"))
    layout = Layout(buffers("inputs"), buffers("outputs"), constants, *sizes)
    compiled = load_image(images[0], symbols=c_api_addresses())
    if set(pool.ENTRIES) & set(compiled.needs):
        threads.attach(pool.load(object_cache()))
    if captured is None:
        structure = _structure_from_json(header["structure"])
        results = [None if one is None else StaticResult(one[0]) for one in header["results"]]
    else:
        structure = captured.structure
        results = [r if isinstance(r, StaticResult) else None for r in captured.results]
    program = Program(
        name,
        kinds,
        layout,
        structure,
        results,
        compiled,
        ["kernel0"],
        captured.changes if captured else (),
        direct=header["direct"],
        clock=clock,
    )
    if len(images) > 1:
        symbols = c_api_addresses() | program.kernel
        program.entry_code = load_image(images[1], symbols=symbols)
    program.from_record = "function" if captured is None else "graph"
    return program, header["signature"]


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
