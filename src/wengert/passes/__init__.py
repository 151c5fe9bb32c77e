"""Graph -> better Graph: named passes, in the one ordered list of `pipeline`.

The list is imported on first use: `expand` alone is enough for a program that is not to be fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .pipeline import PASSES, optimise

__all__ = ["PASSES", "optimise"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import pipeline

    return getattr(pipeline, name)
