"""What constants hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..graph import Constant, Node
from ..types import Typed


def constant_value(node: Node) -> Any:
    """The plain value of a constant node, else None."""
    if not isinstance(node, Constant) or isinstance(node.output, Typed):
        return None
    plain = isinstance(node.output, (np.ndarray, np.generic, bool, int, float, complex))
    return node.output if plain else None


def is_uniform(node: Node, number: float) -> bool:
    """Whether every element of a constant is this number."""
    value = constant_value(node)
    if value is None or np.size(value) == 0:
        return False
    array = np.asarray(value)
    if array.flat[0] != number:  # most constants are settled by their first element
        return False
    return not any(array.strides) or bool(np.all(array == number))
