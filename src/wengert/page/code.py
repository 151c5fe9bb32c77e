"""LLVM and assembly of each kernel, linked line to line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..codegen.linked import LinkedCode

_CALLED = re.compile(r'call [^@]*@"?([^"(]+)"?\(')
_MOST_LINES = 4000  # of one function: more are not read


def functions_of(symbol: str, code: Mapping[str, LinkedCode], entries: set[str]) -> list[str]:
    """The functions that are the code of a kernel: its own, and what it calls that is no kernel."""
    found: dict[str, None] = {}
    pending = [symbol]
    while pending:
        name = pending.pop(0)
        if name in found or name not in code or (name in entries and name != symbol):
            continue
        found[name] = None
        pending += [called for line in code[name].llvm for called in _CALLED.findall(line)]
    return list(found)


def as_data(name: str, code: LinkedCode) -> dict[str, Any]:
    """A function as plain data; of each line of assembly the line of LLVM that it comes from."""
    lines = [_readable(line) for line in code.llvm[:_MOST_LINES]]
    assembly: Sequence[tuple[str, int]] = code.assembly[:_MOST_LINES]
    return {
        "name": name,
        "llvm": lines,
        "assembly": [text for text, _ in assembly],
        "places": [place for _, place in assembly],
    }


def _readable(line: str) -> str:
    """Without the quotes around names, and the spaces inside of constants."""
    return (
        re.sub(r" {2,}(?=\S)", " ", line.replace('"', ""))
        if line[:2] != "  "
        else ("  " + re.sub(r" {2,}", " ", line.strip().replace('"', "")))
    )
