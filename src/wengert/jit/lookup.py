"""Whole programs kept on disk, found by their graph before they are compiled.

A record holds the object code of a program and all that is needed to bind it: shapes and dtypes of
the buffers, the constants and the size of the arena. It exists for programs that are one native
function. Its key needs the trace, but no pass, no schedule and no code generation; it exists for
any function whose graph has a `fingerprint`.

The key also covers the kinds of arguments, the way the call was written, the structure of the
result, the machine with its cores and thresholds, the layout of the interpreter's objects, the
source of wengert itself and the steps of the schedule that are on (`WENGERT_SCHEDULE`).
Records are JSON and raw bytes in the object cache, which checks their integrity.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .arguments import Leaf
from .debugging import Clock
from .dynamic import outline
from .entries import bind
from .fingerprint import graph_fingerprint
from .frames import CallLayout
from .program import Program, object_cache
from .tracing import Captured, StaticResult

if TYPE_CHECKING:
    from ..codegen.target import Target

_VERSION = 3
_LENGTH = struct.Struct("<Q")


def graph_key(captured: Captured, kinds: Sequence[Leaf], style: Any, target: Target) -> str | None:
    """The key of the record for a traced function; None where it can have none."""
    from ..codegen.cache import cache_key
    from ..codegen.sources import source_fingerprint
    from ..runtime.layout import native_layout
    from ..schedule.setting import setting

    if object_cache().folder is None:
        return None
    code, source = graph_fingerprint(captured.graph), source_fingerprint()
    if code is None or source is None:
        return None
    described = [
        (k.kind, k.type.dtype.str, k.type.shape, k.type.weak, k.strides or "contiguous", k.turned)
        for k in kinds
    ]
    form = (str(captured.structure), outline(captured))
    surroundings = (target.baked, str(native_layout()), source, setting())
    return cache_key(_VERSION, code, described, form, style, surroundings)


def save(key: str | None, program: Any) -> None:
    """Keep a program under its key, if a record can hold it and nothing went wrong with it."""
    from ..schedule.setting import setting

    if program.stages.steps != setting():
        return  # what is wrong is told in each process
    if key is None or ("entry" not in program.compiled.exports and program.entry_code is None):
        return
    object_cache().put(key, _pack(program))


def load(
    key: str | None,
    name: str,
    kinds: Sequence[Leaf],
    prepare: Callable[[Any], Any],
    clock: Clock,
    captured: Captured,
) -> tuple[Any, Any] | None:
    """The program kept under the key of a traced function and its native entry; or None."""
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
        return program, bind(program, signature, program.entry_code or program.compiled, "entry")


# ---------------------------------------------------------------- records


def _pack(program: Any) -> bytes:
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
    text = json.dumps(header).encode()
    parts = [text, *(c.tobytes() for c in layout.constants), program.compiled.image]
    parts += [] if program.entry_code is None else [program.entry_code.image]
    return b"".join(_LENGTH.pack(len(part)) + part for part in parts)


def _unpack(
    data: bytes, name: str, kinds: Sequence[Leaf], captured: Captured, clock: Clock
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
    layout = CallLayout(buffers("inputs"), buffers("outputs"), constants, *sizes)
    compiled = load_image(images[0], symbols=c_api_addresses())
    if set(pool.ENTRIES) & set(compiled.needs):
        threads.attach(pool.load(object_cache()))
    results = [r if isinstance(r, StaticResult) else None for r in captured.results]
    program = Program(
        name,
        kinds,
        layout,
        captured.structure,
        results,
        compiled,
        ["kernel0"],
        captured.changes,
        direct=header["direct"],
        clock=clock,
    )
    if len(images) > 1:
        symbols = c_api_addresses() | program.kernel
        program.entry_code = load_image(images[1], symbols=symbols)
    program.from_record = True
    program.captured = captured  # arrays as they were: tracing again would read them anew
    return program, header["signature"]
