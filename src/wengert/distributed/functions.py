"""The operations on what all ranks have; see `ops/collectives.py` for their rules.

All ranks must call the same ones in the same order, with arrays of the same shape and dtype. Inside
`jit` an operation whose result nobody uses is left out, as any other: use it on all ranks or none.
"""

from __future__ import annotations

from typing import Any

from ..errors import OptionError, ShapeError, explain
from ..job import size
from ..numpy.common import as_value, strong
from ..ops import collectives
from ..types import type_of


def all_reduce(x: Any, operation: str = "sum") -> Any:
    """The sum of what all ranks have, on every rank; or their "mean", "max" or "min".

    The order of summation depends on the number of ranks alone: a binary tree over them. So all
    ranks have the same bits, and every run has. The derivative is that of the sum of all ranks'
    results: a cotangent is summed over all ranks, too.

    >>> import numpy as np
    >>> all_reduce(np.arange(3.0), "mean")
    array([0., 1., 2.])
    """
    if operation not in ("sum", "mean", "max", "min"):
        raise OptionError(
            explain(
                "all_reduce",
                f'got operation={operation!r}, expected "sum", "mean", "max" or "min"',
            )
        )
    x, count = strong(as_value(x)), size()
    if count == 1:
        return x
    if operation in ("max", "min"):
        return collectives.all_extreme(x, operation=operation, size=count)
    total = collectives.all_reduce(x, size=count)
    return total / type_of(x).dtype.type(count) if operation == "mean" else total


def all_gather(x: Any) -> Any:
    """What each rank has, as the rows of one array, on every rank.

    >>> import numpy as np
    >>> all_gather(np.arange(3.0))
    array([[0., 1., 2.]])
    """
    x, count = strong(as_value(x)), size()
    return x[None] if count == 1 else collectives.all_gather(x, size=count)


def broadcast(x: Any, root: int = 0) -> Any:
    """What the rank `root` has, on every rank; the others give arrays of the same kind.

    >>> import numpy as np
    >>> broadcast(np.arange(3.0))
    array([0., 1., 2.])
    """
    x, count = strong(as_value(x)), size()
    if not 0 <= root < count:
        raise OptionError(
            explain("broadcast", f"got root={root}, expected one of the ranks 0 to {count - 1}")
        )
    return x if count == 1 else collectives.broadcast(x, root=int(root), size=count)


def reduce_scatter(x: Any) -> Any:
    """The sum of what all ranks have, a row for each of them: rank r gets row r of it.

    >>> import numpy as np
    >>> reduce_scatter(np.arange(3.0)[None])
    array([0., 1., 2.])
    """
    x, count = strong(as_value(x)), size()
    if type_of(x).shape[:1] != (count,):
        raise ShapeError(
            explain(
                "reduce_scatter",
                f"got an array of shape {type_of(x).shape} for {count} ranks",
                f"Give it one row for each rank: a first axis of {count}.",
            )
        )
    return x[0] if count == 1 else collectives.reduce_scatter(x, size=count)
