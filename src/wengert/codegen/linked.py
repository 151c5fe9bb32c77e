"""Machine code as text, each instruction with the line of LLVM IR that it was made of.

LLVM carries the places of instructions through to the assembly, if they have any: here every
instruction's place is its own line of the IR's text.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from llvmlite import ir

from ..loops import Store
from .compile import _Parsed, _target_machine
from .epilogue import VectorStores
from .nest_values import NestValues
from .target import Target

_NAME = re.compile(r'^define .*?@"?([^"(]+)"?\(')
_NUMBERED = re.compile(r"^!(\d+) =", re.MULTILINE)
_PLACE = re.compile(r"\s+\.loc\s+\d+ (\d+)")
# Directives and comments that say nothing about what the processor does.
_NOISE = re.compile(r"\s*(\.(?!quad|long|short|byte|zero|ascii)|#|$)")
_LABEL = re.compile(r"^\.L(tmp|func|sec|line|info|abbrev|debug|cu|string|addr|rng|names)")


class LinkedCode(NamedTuple):
    """A function: its lines of IR, and of assembly with the number of the line of IR of each."""

    llvm: list[str]
    assembly: list[tuple[str, int]]


class Stored(NamedTuple):
    """What was emitted for a store: the value, and the instructions that put it into memory."""

    store: Store
    value: Any
    instructions: list[Any]


# What emits, of a store and its value, all that comes after the value: in nests, the last if it is
# summed up, and behind products.
_EMITTERS = (
    (NestValues, "store"),
    (NestValues, "store_vector"),
    (NestValues, "only_real"),
    (VectorStores, "store"),
)
_SUMMING = re.compile(r"llvm\.(fma|fmuladd|vector\.reduce\.fadd)\.")


@contextlib.contextmanager
def stores_recorded() -> Iterator[list[Stored]]:
    """A list that fills with what is emitted for stores meanwhile."""
    found: list[Stored] = []

    def recording(plain: Callable[..., Any]) -> Callable[..., Any]:
        def emit(self: Any, store: Store, value: ir.Value, *more: Any) -> Any:
            block = self.builder.block
            before = len(block.instructions)
            result = plain(self, store, value, *more)
            after = self.builder.block
            own = after.instructions[before if after is block else 0 :]
            found.append(Stored(store, value, own))
            return result

        return emit

    before = [(owner, name, getattr(owner, name)) for owner, name in _EMITTERS]
    for owner, name, plain in before:
        setattr(owner, name, recording(plain))
    try:
        yield found
    finally:
        for owner, name, plain in before:
            setattr(owner, name, plain)


def lines_of_stores(module: ir.Module, stored: Sequence[Stored]) -> dict[str, dict[int, Store]]:
    """For each function the lines of IR that compute and store what a store says.

    A line that several need is that of the first.
    """
    lines = {id(one): (f.name, n) for f in module.functions for one, n in _numbered(f)}
    found: dict[str, dict[int, Store]] = {}
    for one in stored:
        for name, number in _computing([one.value, *one.instructions], lines):
            found.setdefault(name, {}).setdefault(number, one.store)
    return found


def lines_of_sums(function: ir.Function) -> list[int]:
    """The lines of IR that multiply, add up, and read what is multiplied."""
    lines = {id(one): (function.name, n) for one, n in _numbered(function)}
    summing = [
        one
        for block in function.blocks
        for one in block.instructions
        if one.opname in ("fmul", "fadd")
        or _SUMMING.match(getattr(getattr(one, "callee", None), "name", ""))
    ]
    return [number for _, number in _computing(summing, lines)]


def _computing(
    values: Sequence[Any], lines: Mapping[int, tuple[str, int]]
) -> Iterator[tuple[str, int]]:
    """The lines that some values are computed in, and all that they are computed from."""
    pending, seen = list(values), set()
    while pending:
        value = pending.pop()
        if id(value) in lines and id(value) not in seen and not isinstance(value, ir.PhiInstr):
            seen.add(id(value))
            yield lines[id(value)]
            pending += value.operands


def _numbered(function: ir.Function) -> Iterator[tuple[Any, int]]:
    """The instructions with the numbers of their lines, if each is one line."""
    sizes = [1 + len(block.instructions) for block in function.blocks]
    if not sizes or len(str(function).splitlines()) != 3 + sum(sizes):
        return
    number = 2
    for block in function.blocks:
        for place, instruction in enumerate(block.instructions, 1):
            yield instruction, number + place
        number += 1 + len(block.instructions)


def linked_code(text: str, target: Target) -> dict[str, LinkedCode]:
    """The functions of a module, by name; lines of IR are counted from 0 within a function."""
    placed, starts, bodies = _with_places(text)
    found = {name: LinkedCode(lines, []) for name, lines in bodies.items()}
    with _Parsed(placed) as module:
        assembly = _target_machine(target, 2).emit_assembly(module)
    for name, line, place in _instructions(assembly, bodies):
        own = place - starts[name]
        found[name].assembly.append((line, own if 0 <= own < len(bodies[name]) else -1))
    return found


def _with_places(text: str) -> tuple[str, dict[str, int], dict[str, list[str]]]:
    """The module with a place at each instruction; for each function its first line, and all."""
    first = 1 + max((int(number) for number in _NUMBERED.findall(text)), default=-1)
    unit, file, kinds, version, dwarf = range(first, first + 5)
    extra = [
        f"!llvm.dbg.cu = !{{!{unit}}}",
        f"!llvm.module.flags = !{{!{version}, !{dwarf}}}",
        f"!{unit} = distinct !DICompileUnit(language: DW_LANG_C, file: !{file}, "
        "isOptimized: true, runtimeVersion: 0, emissionKind: LineTablesOnly)",
        f'!{file} = !DIFile(filename: "wengert.ll", directory: "")',
        f"!{kinds} = !DISubroutineType(types: !{{}})",
        f'!{version} = !{{i32 2, !"Debug Info Version", i32 3}}',
        f'!{dwarf} = !{{i32 7, !"Dwarf Version", i32 4}}',
    ]
    number, scope, name, lines = dwarf + 1, 0, "", []
    starts: dict[str, int] = {}
    bodies: dict[str, list[str]] = {}
    for place, line in enumerate(text.splitlines(), 1):
        begins = _NAME.match(line)
        if begins:
            name, scope = begins[1], number
            starts[name], bodies[name] = place, []
            extra.append(
                f'!{number} = distinct !DISubprogram(name: "{name}", scope: !{file}, '
                f"file: !{file}, line: {place}, type: !{kinds}, unit: !{unit}, "
                "spFlags: DISPFlagDefinition)"
            )
            lines.append(f"{line} !dbg !{number}")
            number += 1
        elif name and line.startswith("  ") and _is_instruction(line):
            extra.append(f"!{number} = !DILocation(line: {place}, scope: !{scope})")
            lines.append(f"{line}, !dbg !{number}")
            number += 1
        else:
            lines.append(line)
        if name:
            bodies[name].append(line)
            name = "" if line == "}" else name
    return "\n".join([*lines, *extra]) + "\n", starts, bodies


def _is_instruction(line: str) -> bool:
    """Whether a line is all of an instruction: the cases of a switch have lines of their own."""
    bare = line.strip()
    return not bare.endswith("[") and not re.match(r"i\d+ -?\w+, label|\]$", bare)


def _instructions(assembly: str, functions: dict[str, list[str]]) -> Iterator[tuple[str, str, int]]:
    """The function, the text and the line of IR of each instruction and label."""
    name, place = "", -1
    for line in assembly.splitlines():
        label = line.split(":")[0].strip('"') if line[:1] not in ("\t", " ", "#", "") else None
        if label in functions:
            name, place = label, -1
        elif line.lstrip().startswith((".section", ".size")):
            name = ""
        found = _PLACE.match(line)
        if found:
            place = int(found[1])
        elif name and not (_LABEL.match(line) or (label is None and _NOISE.match(line))):
            yield name, line.split("#")[0].rstrip().expandtabs(8), place if label is None else -1
