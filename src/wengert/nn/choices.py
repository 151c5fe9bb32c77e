"""Arguments that are one of a few words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..errors import OptionError, explain


def one_of(operation: str, name: str, given: Any, known: Iterable[str]) -> Any:
    """The word itself, or an error that lists the known ones.

    >>> one_of("mse_loss", "reduction", "mean", ("mean", "sum"))
    'mean'
    """
    words = list(known)
    if given not in words:
        listed = ", ".join(repr(word) for word in words)
        raise OptionError(explain(operation, f"got {name}={given!r}", f"Use one of {listed}."))
    return given
