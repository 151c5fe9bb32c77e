"""`Sparsity`: which entries a derivative matrix can have, and how few products give them all."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..errors import OptionError, ShapeError, explain
from ..graph import Graph
from ..jit.tracing import Captured
from ..passes.expand import expand
from ..passes.simplify import fold_constants, share_common
from .colouring import colour_columns, colour_star, column_places, star_places
from .dependence import scipy_sparse, sources, union
from .propagate import matrix_of, propagate

MODES = ("auto", "forward", "reverse")


class Sparsity:
    """The pattern of a sparse matrix with its colouring, to be used again.

    `matrix` is a boolean CSR array. `mode` says which products give the entries: ``"forward"``
    columns of one colour together, ``"reverse"`` rows, ``"symmetric"`` columns of a Hessian whose
    entries have two places each. `colours` has the colour of each column or row; `count` is the
    number of colours, and of products.

    >>> import numpy as np
    >>> import wengert as wg
    >>> derivative = wg.sparse_jacobian(lambda x: x[1:] * x[:-1])
    >>> derivative.sparsity(np.ones(1000))
    <Sparsity: 1998 entries in (999, 1000), forward, 2 colours>
    """

    def __init__(self, pattern: Any, mode: str = "auto"):
        self.matrix = _pattern(pattern)
        size = self.matrix.shape
        if mode == "symmetric":
            if size[0] != size[1]:
                raise ShapeError(
                    explain(
                        "sparse_hessian",
                        f"the pattern has the shape {size}, expected a square",
                        "Give the pattern of the Hessian: a row and a column for each element.",
                    )
                )
            self.matrix = _pattern(self.matrix + self.matrix.T)
        self._wanted = mode

    @functools.cached_property
    def _coloured(self) -> tuple[str, np.ndarray, np.ndarray]:
        """The mode, the colours and the place of each entry in the products, found when needed."""
        if self._wanted != "symmetric":
            return _compressed(self.matrix, self._wanted)
        colours = colour_star(self.matrix)
        return "symmetric", colours, star_places(self.matrix, colours)

    @property
    def mode(self) -> str:
        """Which products give the entries."""
        return self._coloured[0]

    @property
    def colours(self) -> np.ndarray:
        """The colour of each column, or in reverse of each row."""
        return self._coloured[1]

    @functools.cached_property
    def count(self) -> int:
        """The number of colours."""
        return int(self.colours.max(initial=-1)) + 1

    @functools.cached_property
    def places(self) -> np.ndarray:
        """For each entry its place in the products."""
        largest = self.count * max(self.shape)
        return self._coloured[2].astype(np.int32 if largest < 1 << 31 else np.int64)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the matrix."""
        rows, columns = self.matrix.shape
        return int(rows), int(columns)

    @property
    def nnz(self) -> int:
        """The number of entries."""
        return int(self.matrix.nnz)

    def filled(self, data: np.ndarray) -> Any:
        """The CSR matrix with these entries. It shares nothing with others."""
        parts = (data, self.matrix.indices.copy(), self.matrix.indptr.copy())
        return scipy_sparse().csr_matrix(parts, shape=self.shape)

    def __repr__(self) -> str:
        plural = "" if self.count == 1 else "s"
        return (
            f"<Sparsity: {self.nnz} entries in {self.shape}, {self.mode}, "
            f"{self.count} colour{plural}>"
        )


def _pattern(given: Any) -> Any:
    """Any matrix as a boolean CSR array with sorted indices: of a sparse one all it stores."""
    sparse = scipy_sparse()
    if sparse.issparse(given):
        found = sparse.csr_array(given)
        found = sparse.csr_array(
            (np.ones(found.nnz, bool), found.indices, found.indptr), shape=found.shape
        )
    else:
        array = np.asarray(given)
        if array.ndim != 2 or array.dtype.kind not in "biuf":
            raise OptionError(
                explain(
                    "sparsity",
                    f"got {type(given).__name__} as a pattern, expected a matrix",
                    "Give a SciPy sparse matrix, a 2-d boolean array, or a Sparsity.",
                )
            )
        found = sparse.csr_array(array != 0)
    found.sum_duplicates()
    found.data[:] = True
    # as SciPy would choose it: it converts others at every use
    index = sparse.get_index_dtype(maxval=max(found.nnz, *found.shape))
    found.indices, found.indptr = found.indices.astype(index), found.indptr.astype(index)
    return found


def _compressed(pattern: Any, mode: str) -> tuple[str, np.ndarray, np.ndarray]:
    """Columns (forward) or rows (reverse), whichever need fewer colours; their places."""
    turned = pattern.T.tocsr()
    longest = {
        "forward": int(np.diff(pattern.indptr).max(initial=0)),
        "reverse": int(np.diff(turned.indptr).max(initial=0)),
    }
    found: dict[str, np.ndarray] = {}
    # the one that can need fewer first: the other is tried only where it could be better still
    for way in sorted(longest, key=lambda one: (longest[one], one)):
        best = min((int(c.max(initial=-1)) + 1 for c in found.values()), default=None)
        if mode in ("auto", way) and (best is None or longest[way] < best):
            found[way] = colour_columns(pattern if way == "forward" else turned)
    way = min(found, key=lambda one: (int(found[one].max(initial=-1)), one))
    colours = found[way]
    if way == "forward":
        return way, colours, column_places(pattern, colours)
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    return way, colours, colours[rows].astype(np.int64) * pattern.shape[1] + pattern.indices


def pattern_of(captured: Captured, inputs: int) -> Any:
    """The pattern of a linear map: its last `inputs` arguments are what it is linear in.

    Before those come the values at which it is linear, after them the state that it reads.
    """
    graph = captured.graph
    for function in (expand, fold_constants, share_common):
        graph = function(graph)
    leaves = graph.inputs[inputs : 2 * inputs]
    columns = iter(sources([leaf.type.size for leaf in leaves]))
    given = [next(columns) if leaf in leaves else () for leaf in graph.inputs]
    found, _ = propagate(graph, given, [None] * len(given))
    blocks = [
        matrix_of(union(one), node.type.size, sum(leaf.type.size for leaf in leaves))
        for one, node in zip(found, _outputs(graph), strict=True)
    ]
    return scipy_sparse().vstack(blocks, format="csr") if blocks else None


def _outputs(graph: Graph) -> list[Any]:
    return [node for node in graph.outputs if node is not None]
