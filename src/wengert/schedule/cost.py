"""What elementary functions and nests cost, in units of a load and an addition."""

from __future__ import annotations

from ..loops import Apply, Nest, roots_of, walk

# Elementary functions that cost more than a load and a store.
EXPENSIVE = frozenset(
    "exp exp2 expm1 log log2 log10 log1p sin cos tan tanh sinh cosh arcsin arccos arctan arcsinh "
    "arccosh arctanh arctan2 power expit erf erfc logaddexp hypot cbrt gammaln digamma fmod "
    "remainder searchsorted".split()
)
FUNCTION_COST = 8


def iteration_cost(nest: Nest) -> int:
    """The cost of one iteration."""
    values = walk(roots_of(nest.stores))
    calls = sum(isinstance(expr, Apply) and expr.name in EXPENSIVE for expr in values)
    return len(nest.stores) + len(values) // 4 + calls * FUNCTION_COST


def iterations(nest: Nest) -> int:
    """How often the body runs."""
    count = 1
    for var in nest.vars:
        count *= var.extent
    return count
