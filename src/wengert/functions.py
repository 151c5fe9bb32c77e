"""The elementary functions of the loop language, and what is known of each beside its code.

Whoever asks what a function costs, whether it is for floats alone or what it begins with when it
combines many numbers, asks this one table. The code generators must have code for all of them.
An operation of one such function has its cost too (see `ops/op.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from math import inf


class Cost(IntEnum):
    """What one element takes beside its arguments, in units of a load and an addition."""

    QUICK = 1  # no longer than reading the result from memory would
    SLOW = 4  # one instruction that takes as long as several
    LONG = 8  # more than a load and a store: a polynomial, a search


@dataclass(frozen=True)
class Function:
    """What is known of an elementary function."""

    cost: Cost = Cost.QUICK
    floats: bool = False  # whether it is a function of floats alone
    # The number that changes nothing where the function combines many; None: it combines none.
    # An infinity stands for the end of the dtype.
    identity: float | None = None
    # The operation of arrays that combines as this function does, if it has another name.
    operation: str | None = None


def _all(names: str, *facts: object) -> dict[str, Function]:
    return dict.fromkeys(names.split(), Function(*facts))  # type: ignore[arg-type]


FUNCTIONS: dict[str, Function] = {
    **_all(
        "subtract negative positive absolute fabs square scale sign where convert "
        "equal not_equal less less_equal greater greater_equal logical_xor logical_not "
        "isnan isinf isfinite isneginf isposinf signbit bitwise_and bitwise_or bitwise_xor invert "
        "left_shift right_shift stop_gradient deg2rad rad2deg bits"
    ),
    **_all("add logical_or", Cost.QUICK, False, 0),
    **_all("multiply logical_and", Cost.QUICK, False, 1),
    **_all("maximum", Cost.QUICK, False, -inf),
    **_all("minimum", Cost.QUICK, False, inf),
    # the same for any order of the numbers, also of zeros and NaN
    **_all("largest", Cost.QUICK, False, -inf, "maximum"),
    **_all("smallest", Cost.QUICK, False, inf, "minimum"),
    **_all("floor ceil trunc rint copysign fmax fmin", Cost.QUICK, True),
    **_all("divide reciprocal floor_divide", Cost.SLOW),
    **_all("sqrt", Cost.SLOW, True),
    **_all("fmod remainder whole_power", Cost.LONG),
    **_all(
        "exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan arctan2 sinh cosh "
        "tanh arcsinh arccosh arctanh expit expit_tail erf erfc power cbrt hypot logaddexp gammaln "
        "digamma gauss mills",
        Cost.LONG,
        True,
    ),
}
