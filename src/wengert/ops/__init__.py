"""Every primitive in one place each: types, evaluation, derivative, batching, loops, samples."""

from . import (
    contract,
    cumulative,
    decompositions,
    elementwise,
    fft,
    indexing,
    layout,
    linalg,
    logic,
    matrix_functions,
    positions,
    random,
    reductions,
    sorting,
    special,
    structure,
    windows,
)
from .op import REGISTRY, Op

__all__ = [
    "REGISTRY",
    "Op",
    "contract",
    "cumulative",
    "decompositions",
    "elementwise",
    "fft",
    "indexing",
    "layout",
    "linalg",
    "logic",
    "matrix_functions",
    "positions",
    "random",
    "reductions",
    "sorting",
    "special",
    "structure",
    "windows",
]
