"""Functions on a block of small matrices, one lane each, by their names in calls of a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from .lane_eigenvalues import eigenvalues
from .lane_factorisations import cholesky, lu, pivots, qr, solve, triangle
from .lane_singular_values import decomposition, least_squares, singular_values
from .llvm_types import POINTER, private_function
from .side_by_side import Matrices, SideBySide

PREFIX = "lanes_"


def lane_function(module: ir.Module, name: str, has_fma: bool) -> ir.Function:
    """The function of a name such as `lanes_solve_8_6_1`: eight lanes, 6 rows, 1 column more."""
    known = module.globals.get(name)
    if known is not None:
        return known
    algorithm, width, *sizes = name.removeprefix(PREFIX).split("_")
    emit, shapes = _ALGORITHMS[algorithm]
    columns = shapes(*map(int, sizes))
    function = private_function(module, name, [POINTER] * len(columns))
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block())
    lanes = SideBySide(builder, int(width), has_fma)
    given = [Matrices(lanes, *one) for one in zip(function.args, columns, strict=True)]
    emit(lanes, *map(int, sizes), *given)
    builder.ret_void()
    return function


# Algorithms by name, each with how many columns its arguments have, by the sizes of the problem.
_ALGORITHMS: dict[str, tuple[Callable[..., None], Callable[..., Sequence[int]]]] = {
    "solve": (solve, lambda n, m: (n, m, 1)),
    "lu": (lu, lambda n: (n, 1, 1, 1)),
    "pivots": (pivots, lambda n: (n, 1, 1)),
    "cholesky": (cholesky, lambda n: (n, 1)),
    "lower": (triangle(lower=True, unit=False), lambda n, m: (n, m, 1)),
    "upper": (triangle(lower=False, unit=False), lambda n, m: (n, m, 1)),
    "unitlower": (triangle(lower=True, unit=True), lambda n, m: (n, m, 1)),
    "unitupper": (triangle(lower=False, unit=True), lambda n, m: (n, m, 1)),
    "eigvalsh": (eigenvalues, lambda n: (n, 1, 1, 2, 1, 1)),
    "eigh": (eigenvalues, lambda n: (n, 1, 1, 2, 1, 1, n)),
    "svdvals": (singular_values, lambda m, n: (n, 1, 1, 2, 1, 1)),
    "svd": (decomposition, lambda m, n, is_wide: (n, 1, 1, 3, 1, 1, n, n, n)),
    "lstsq": (least_squares, lambda m, n, is_wide, k: (n, 1, 1, 3, 1, 1, n, n, n, 1, k, k)),
    "qr": (qr, lambda m, n, columns: (n, columns, 1)),
}
