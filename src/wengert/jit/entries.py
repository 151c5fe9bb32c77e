"""Native entries: what they check of a call, and how they are made.

An entry is a native function that takes a call as it was written, checks it and runs the program.
`signature_of` says what it checks, as trees of `runtime.signature`; the code is `codegen.entry`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .. import tree
from ..parts import ANYTHING, Parts, Same, Unchanged
from ..parts import parts as parts_of
from ..runtime import builtin
from ..runtime.arena import Arena
from ..runtime.limits import STACK_ARENA_LIMIT
from ..runtime.signature import (
    BRANCHES,
    AnySpec,
    ArraySpec,
    CapturedSpec,
    Dim,
    Finish,
    KeptSpec,
    ObjectSpec,
    Ordered,
    ScalarSpec,
    Signature,
    StaticSpec,
)
from ..snapshot import is_native
from ..types import ArrayType
from .arguments import ANY, Leaf, Parameters, StaticValue
from .inside import size_in_bytes
from .program import Program, object_cache
from .tracing import StaticResult

# Calls that touch more elements than this release the GIL.
LONG_CALL = 1 << 16
# Beyond so many arguments and results an entry takes long to compile and saves little of a call.
MOST_LEAVES = 1024


class NoNativeEntry(Exception):  # noqa: N818 - steers, never seen
    """The entry cannot take such arguments or results."""


def spec_of(leaf: Leaf) -> Any:
    """What the entry checks of one leaf."""
    if leaf.type.dtype.char in "gG":
        raise NoNativeEntry
    if leaf.kind == "array":
        shape = tuple(Dim("n") if n == ANY else n for n in leaf.type.shape)
        return ArraySpec(leaf.type.dtype, shape, leaf.strides)
    return ScalarSpec(leaf.kind, leaf.type.dtype)


def result_tree(structure: tree.Structure, leaves: Iterator[Any]) -> Any:
    """A tree of specs as the entry builds them: tuples, lists, dicts, and static objects."""
    if structure.kind is None:
        return next(leaves)
    if structure.kind is type(None):
        return StaticSpec(None)
    children = [result_tree(child, leaves) for child in structure.children]
    if structure.kind is dict:
        return Ordered(dict(zip(structure.data, children, strict=True)), structure.data.order)
    if structure.kind not in (tuple, list):
        raise NoNativeEntry
    return structure.kind(children)


def argument_tree(value: Any, leaves: Iterator[Any]) -> Any:
    """A tree of specs as the entry takes them apart: `value` shows where the leaves are."""
    taken = tree.take_apart(value)
    if taken is None:
        return next(leaves)
    if value is None:
        return StaticSpec(None)
    children = [argument_tree(child, leaves) for child in taken[0]]
    if type(value) is dict:
        return Ordered(dict(zip(taken[1], children, strict=True)), taken[1].order)
    if type(value) in (tuple, list):
        return type(value)(children)
    parts = parts_of(value)
    if parts is None:
        raise NoNativeEntry
    return _object_spec(parts, children)


def _object_spec(parts: Parts, children: Sequence[Any]) -> Any:
    """What the entry checks of an object whose children are to be found by `parts`."""
    numbers: list[int] = []
    spec = _part(parts, children, numbers)
    if numbers == list(range(len(children))):
        return spec
    if any(isinstance(child, BRANCHES) for child in children):
        raise NoNativeEntry
    return spec.replace(numbers=tuple(numbers))


def _part(part: Any, children: Sequence[Any], numbers: list[int]) -> Any:
    if isinstance(part, int):
        numbers.append(part)
        return children[part]
    if isinstance(part, Same):
        return StaticSpec(part.value)
    if isinstance(part, Unchanged):
        return KeptSpec(part.kept)
    if part is ANYTHING:
        return AnySpec()
    inside = tuple(_part(child, children, numbers) for child in part.children)
    inside += () if part.own is None else (KeptSpec(part.own),)
    return ObjectSpec(part.kind, part.names, inside, part.whole)


def call_specs(
    parameters: Parameters, args: tuple, kwargs: dict[str, Any], leaves: Sequence[Leaf]
) -> tuple[tuple, tuple]:
    """Specs for a call as it was written: by position, and by name in the order of the leaves.

    `leaves` are those of the same call in order.
    """
    specs = iter([spec_of(leaf) for leaf in leaves])
    call = parameters.order(args, kwargs)

    def spec(value: Any) -> Any:
        if isinstance(value, StaticValue):
            if not is_native(value.kept):
                raise NoNativeEntry
            return KeptSpec(value.kept)
        return argument_tree(value, specs)

    by_position = [spec(value) for value in call.args]
    by_name = {name: spec(call.kwargs[name]) for name in sorted(call.kwargs)}
    names = {place: name for name, place in parameters.positions.items()}
    moved = [(names[p], by_position[p]) for p in range(len(args), len(by_position))]
    return tuple(by_position[: len(args)]), (*moved, *by_name.items())


def signature_of(
    program: Program,
    parameters: Parameters,
    args: tuple,
    kwargs: dict[str, Any],
    takes_out: bool = False,
) -> Any:
    """What the entry for a call written like this checks; None where it cannot."""
    if not program.native or len(program.leaves) + program.result_count > MOST_LEAVES:
        return None
    try:
        arrays = [spec_of(Leaf("array", ArrayType(*one))) for one in program.result_types()]
        flat = tuple(map(spec_of, program.leaves)), ()
    except NoNativeEntry:
        return None
    specs = iter(arrays)
    statics = [
        StaticSpec(r.value) if isinstance(r, StaticResult) else next(specs) for r in program.results
    ]
    finish, program.is_flat = None, False
    try:
        by_position, by_name = call_specs(parameters, args, kwargs, program.leaves)
    except NoNativeEntry:  # the leaves alone go in and come out natively
        program.is_flat = True
        by_position, by_name = flat
        result: Any = tuple(arrays)
    else:
        try:
            result = result_tree(program.structure, iter(statics))
        except NoNativeEntry:  # objects of other classes are made in Python
            result, finish = tuple(arrays), Finish(program._finish)
    captured = [CapturedSpec(c.nbytes, False) for c in program.layout.constants]
    captured += [
        CapturedSpec(s.cell.memory.nbytes if s.settled else 0, s.written) for s in program.state
    ]
    if program.any_length:
        captured.append(CapturedSpec(program.room.table.nbytes, False))
    return Signature(
        by_position,
        result,
        by_name,
        tuple(captured),
        program.arena_bytes,
        release_gil=_releases_gil(program),
        takes_out=takes_out,
        finish=finish,
        order=() if program.is_flat else parameters.order_seen(kwargs),
    )


def _releases_gil(program: Program) -> bool:
    # without a lock of its own a program that writes state is safe under the GIL alone
    locked = not program.state or program.arena_bytes > STACK_ARENA_LIMIT
    return (program.any_length or program.layout.work > LONG_CALL) and locked


def places(program: Program) -> tuple[list[Any], list[Any]]:
    """How the entry's buffers become the kernel's, and what is copied after it."""
    from ..codegen.commit import Copy, Home

    arguments, results = len(program.leaves), program.result_count
    captured = arguments + results
    homes = [Home(slot=n) for n in range(arguments)]
    homes += [Home(slot=captured + s.slot) for s in program.state if s.read]
    homes += [Home(slot=arguments + n) for n in range(results)]
    homes += [
        Home(slot=captured + s.slot) if s.scratch is None else Home(offset=s.scratch)
        for s in program.state
        if s.written
    ]
    homes += [Home(slot=captured + n) for n in range(len(program.layout.constants))]
    if program.any_length:
        last = captured + len(program.table)
        homes += [Home(slot=n) for n in range(last - 1, last + 1)]
    copies = [
        Copy(s.scratch, captured + s.slot, s.cell.memory.nbytes)
        for s in program.state
        if s.written and s.scratch is not None
    ]
    return homes, copies


def bind(program: Program, signature: Any, compiled: Any, name: str) -> Any:
    """The native entry `name` of `compiled` as a callable."""
    from ..codegen.gate import gate_address

    if program.arena is None and program.arena_bytes > STACK_ARENA_LIMIT:
        program.arena = Arena(program.arena_bytes)
        program.arena.beside = program.room
    for state in program.state:
        state.cell.watch(program.table, state.slot, bool(state.settled))
    return builtin.bind(
        signature,
        compiled.address(f"{name}.run"),
        compiled.address(name) if name in compiled.exports else None,
        gate_address(),
        captured=program.table if len(program.table) else None,
        arena=program.arena,
        on_error=program.failed,
        name=program.name,
        keep_alive=(program, compiled, program.compiled),
    )


def add_entry(program: Program, signature: Any) -> Any:
    """An entry for another way of writing the call, as a module of its own."""
    from ..codegen.commit import entry_module
    from ..codegen.compile import compile_here

    level = 0 if signature.is_large else 2
    compiled = compile_here(
        lambda target: entry_module(program.main, signature, target),
        cache=object_cache(),
        symbols=builtin.c_api_addresses() | program.kernel,
        level=level,
    )
    if program.entry_code is None:
        program.entry_code = compiled
    return bind(program, signature, compiled, "entry")


def drop_results_of_others(program: Program) -> None:
    """Before a call outside the chain that makes large results: not too many are kept."""
    if any(
        ANY in shape or size_in_bytes(dtype, shape) >= builtin.SPARE_BYTES
        for dtype, shape in program.result_types()
    ):
        builtin.drop_idle_results()


def emit_around(module: Any, program: Program, signature: Any) -> bool:
    """Add what stands between the entry and the kernel, and the entry unless it is large."""
    from ..codegen.commit import emit_commit
    from ..codegen.entry import emit_entry

    if program.main == "commit":
        emit_commit(module, "commit", "kernel0", *places(program))
    if not signature.is_large:
        emit_entry(module, "entry", program.main, signature)
    return not signature.is_large
