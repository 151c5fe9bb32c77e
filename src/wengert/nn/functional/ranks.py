"""Functions that differ only by the number of axes of space.

``conv1d``, ``conv2d`` and ``conv3d`` are one function of the number of axes, written once.
"""

from __future__ import annotations

import functools
import inspect

from ...types import Function

SPACE = {1: "length", 2: "height, width", 3: "depth, height, width"}


def by_rank(function: Function, name: str = "") -> tuple[Function, Function, Function]:
    """A function whose first argument is the number of axes, as one for 1, 2 and 3 of them.

    They have its name, unless there is another. In its docstring SPACE stands for the axes.

    >>> def area(rank, side):
    ...     "The size of a cube of (SPACE)."
    ...     return side**rank
    >>> area1d, area2d, area3d = by_rank(area)
    >>> area3d(2), area2d.__name__, area2d.__doc__
    (8, 'area2d', 'The size of a cube of (height, width).')
    """
    name = name or function.__name__
    return _of_rank(function, 1, name), _of_rank(function, 2, name), _of_rank(function, 3, name)


def _of_rank(function: Function, rank: int, name: str) -> Function:
    @functools.wraps(function)
    def run(*args: object, **keywords: object) -> object:
        return function(rank, *args, **keywords)

    run.__name__ = run.__qualname__ = f"{name}{rank}d"
    run.__doc__ = (function.__doc__ or "").replace("SPACE", SPACE[rank])
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[1:]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run
