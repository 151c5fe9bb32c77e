"""Random numbers that a function draws while it is traced: constants of the compiled program.

A program that was compiled gives the same numbers in every call where the function, called again
and again, would draw new ones. That is seldom what is meant, so it is said: whether a generator
was used is seen from its state before and after.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..errors import ConstantRandomWarning
from ..trace.tracing import function_name

# Where NumPy's own generator stands before it gives its first number, by its version.
_BEGINNINGS = (623, 624)


class Drawing:
    """The generators of random numbers that a function can reach, NumPy's own and Python's."""

    def __init__(self, function: Any, objects: list[Any]):
        self.function = function
        self.before = [(one, _state(one)) for one in _generators(objects)]
        self.without = "numpy.random" not in sys.modules

    def tell(self) -> bool:
        """Whether numbers were drawn since then; it is warned of."""
        unused = all(_same(_state(one), state) for one, state in self.before)
        if unused and not (self.without and _is_used_at_all()):
            return False
        from ..lines import warn

        warn(
            f"{function_name(self.function)}: random numbers that were drawn while it was compiled "
            "are the same in every call. Draw them outside and give them as arguments, or use "
            "wengert.numpy.random with a key that is an argument.",
            ConstantRandomWarning,
        )
        return True


def _generators(objects: list[Any]) -> list[Any]:
    """The generators of random numbers among some objects, and those that everybody has."""
    random, numpys = sys.modules.get("random"), sys.modules.get("numpy.random")
    if numpys is None:
        return [] if random is None else [random]
    kinds: tuple[type, ...] = (numpys.Generator, numpys.RandomState)
    found = [value for value in objects if isinstance(value, kinds)]
    return [*found, numpys.mtrand._rand, *([] if random is None else [random])]


def _is_used_at_all() -> bool:
    """Whether NumPy's own generator, which comes with the module, is not as it began."""
    numpys = sys.modules.get("numpy.random")
    return numpys is not None and _state(numpys.mtrand._rand)["state"]["pos"] not in _BEGINNINGS


def _state(generator: Any) -> Any:
    """Something that changes when numbers are drawn."""
    if hasattr(generator, "bit_generator"):
        return generator.bit_generator.state
    if hasattr(generator, "get_state"):
        return generator.get_state(legacy=False)
    return generator.getstate()


def _same(one: Any, other: Any) -> bool:
    """Whether two states are the same: numbers, arrays, and dictionaries of these."""
    if isinstance(one, dict):
        return all(_same(part, other[name]) for name, part in one.items())
    return bool(np.all(one == other))
