"""The text of a module, as llvmlite writes it, in a third of the time.

The instructions that programs have thousands of are written here. All others, and any with
metadata or attributes, are left to llvmlite. What differs are constants with equal lanes: llvmlite
formats every lane, here zeros and undefined ones are a word and others are formatted once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions as kinds

_SIMPLE = re.compile(r"[-a-zA-Z$._][-a-zA-Z$._0-9]*")  # names that need no quotes


def text_of(module: ir.Module) -> str:
    """The module as LLVM reads it."""
    if module.get_identified_types() or module.namedmetadata:
        return str(module)
    lines = [
        f'; ModuleID = "{module.name}"',
        f'target triple = "{module.triple}"',
        f'target datalayout = "{module.data_layout}"',
        "",
    ]
    lines += [_global(value) for value in module.globals.values()]
    lines += map(str, module.metadata)
    return "\n".join(lines)


def _global(value: Any) -> str:
    if not isinstance(value, ir.Function) or not value.blocks:
        return str(value)
    parts: list[str] = []
    value.descr_prototype(parts)
    parts.append("{\n")
    for block in value.blocks:
        parts.append(f"{_label(block)}:\n")
        parts += [f"  {_instruction(one)}\n" for one in block.instructions]
    parts.append("}\n")
    return "".join(parts)


def _label(block: ir.Block) -> str:
    return block.name if _SIMPLE.fullmatch(block.name) else block.get_reference()[1:]


def _instruction(one: Any) -> str:
    write = _WRITERS.get(type(one))
    if write is None or one.metadata:
        return str(one)
    return write(one)


def _typed(value: Any) -> str:
    return f"{value.type!s} {_value(value)}"


def _value(value: Any) -> str:
    if type(value) is ir.Constant and isinstance(value.constant, tuple):  # its lanes are equal
        return _equal_lanes(value.constant)
    text: str = value.get_reference()
    return text


def _equal_lanes(lanes: tuple[Any, ...]) -> str:
    first = lanes[0]
    if first.constant is None or (isinstance(first.type, ir.IntType) and first.constant == 0):
        return "zeroinitializer"
    if first.constant is ir.Undefined:
        return "undef"
    return f"<{', '.join([_typed(first)] * len(lanes))}>"


def _simple(one: Any) -> str:
    name = " ".join([one.opname, *one.flags]) if one.flags else one.opname
    operands = ", ".join(map(_value, one.operands))
    return f"{one.get_reference()} = {name} {one.type!s} {operands}"


def _call(one: Any) -> str:
    callee, *arguments = one.operands
    plain = not (one.tail or one.fastmath or one.attributes or one.arg_attributes or one.cconv)
    if not plain or not isinstance(callee, ir.Function) or callee.function_type.var_arg:
        return str(one)
    text = f"call {one.type!s} {callee.get_reference()}({', '.join(map(_typed, arguments))})"
    return text if isinstance(one.type, ir.VoidType) else f"{one.get_reference()} = {text}"


def _place(one: Any) -> str:
    name = "getelementptr inbounds" if one.inbounds else "getelementptr"
    operands = ", ".join(map(_typed, one.operands))
    return f"{one.get_reference()} = {name} {one.source_etype!s}, {operands}"


def _load(one: Any) -> str:
    align = "" if one.align is None else f", align {one.align}"
    return f"{one.get_reference()} = load {one.type!s}, {_typed(one.operands[0])}{align}"


def _store(one: Any) -> str:
    align = "" if one.align is None else f", align {one.align}"
    value, place = one.operands
    return f"store {_typed(value)}, {_typed(place)}{align}"


def _phi(one: Any) -> str:
    incoming = ", ".join(
        [f"[{_value(value)}, {block.get_reference()}]" for value, block in one.incomings]
    )
    return f"{one.get_reference()} = phi {' '.join(one.flags)} {one.type!s} {incoming}"


def _lanes(one: Any) -> str:
    return f"{one.get_reference()} = {one.opname} {', '.join(map(_typed, one.operands))}"


def _select(one: Any) -> str:
    operands = ", ".join(map(_typed, one.operands))
    return f"{one.get_reference()} = select {' '.join(one.flags)} {operands}"


def _compare(one: Any) -> str:
    name = " ".join([one.opname, *one.flags, one.op])
    left, right = one.operands
    return f"{one.get_reference()} = {name} {_typed(left)}, {_value(right)}"


def _cast(one: Any) -> str:
    return f"{one.get_reference()} = {one.opname} {_typed(one.operands[0])} to {one.type!s}"


_WRITERS: dict[type, Callable[[Any], str]] = {
    kinds.Instruction: _simple,
    kinds.CallInstr: _call,
    kinds.GEPInstr: _place,
    kinds.LoadInstr: _load,
    kinds.StoreInstr: _store,
    kinds.PhiInstr: _phi,
    kinds.ExtractElement: _lanes,
    kinds.InsertElement: _lanes,
    kinds.ShuffleVector: _lanes,
    kinds.SelectInstr: _select,
    kinds.ICMPInstr: _compare,
    kinds.FCMPInstr: _compare,
    kinds.CastInstr: _cast,
}
