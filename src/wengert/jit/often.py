"""What is said of a function that is compiled again and again: what changes, and what to do."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ..errors import RecompilationWarning

_REMEDIES = {
    "shape": "Compile for any length with jit(dynamic=...), or pad to a few lengths.",
    "strides": "Give arrays that lie alike in memory, for instance np.ascontiguousarray(x).",
    "dtype": "Convert to one dtype before the call.",
    "static": "Do not name in static_argnames what changes often, or give it as an array.",
    "structure": "Give the same structure of tuples, lists and dicts each time.",
}


def warn_often(name: str, keys: Sequence[Any], count: int) -> None:
    """Warn, with the keys of a function's programs."""
    what, example = _changes(keys)
    seen = f": {example}" if example else ""
    remedy = next(text for word, text in _REMEDIES.items() if word in what)
    warnings.warn(
        f"{name}: was compiled {count} times, as {what} changes{seen}. {remedy}",
        RecompilationWarning,
        stacklevel=2,
    )


def _changes(keys: Sequence[Any]) -> tuple[str, str]:
    """What differs most among the keys, in words, and some of its values."""
    recent = keys[-32:]
    found: list[tuple[int, str, str]] = [
        (len({key[0] for key in recent}), "the structure of the arguments", ""),
        (len({key[2] for key in recent}), "a static argument", _some(_static(k) for k in recent)),
    ]
    for number in range(min(len(key[1]) for key in recent)):
        leaves = [key[1][number] for key in recent]
        for word, values in (
            ("shape", [leaf.type.shape for leaf in leaves]),
            ("dtype", [str(leaf.type.dtype) for leaf in leaves]),
            ("strides", [leaf.strides for leaf in leaves]),
        ):
            found.append((len(set(values)), f"the {word} of argument {number}", _some(values)))
    _, what, example = max(found, key=lambda one: one[0])
    return what, example


def _static(key: Any) -> str:
    return ", ".join(repr(static.value) for _, static in key[2])


def _some(values: Any) -> str:
    return ", ".join(list(dict.fromkeys(map(str, values)))[:3]) + ", ..."
