"""Where wengert differs from NumPy on purpose; docs/numpy.md tells users the same.

Each entry names functions, says when they differ, and has the words under which docs/numpy.md says
so. The plugin asks `is_expected` for a call whose answer was not NumPy's; what no entry explains
is a finding.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import wengert as wg


@dataclass(frozen=True)
class Difference:
    """Functions that differ from NumPy, and when: a condition on the call, the way, the error."""

    names: frozenset[str]
    when: Callable


def _differentiated(call, way, error):
    return way == "differentiated"


def _dtype_alone(call, way, error):
    return str(error).startswith("dtype complex")


def _vectors(call, way, error):
    """The factors multiply to the same matrix, so that vectors differ by signs or phases alone."""
    if "Not equal to tolerance" not in str(error) or not isinstance(call.result, tuple):
        return False
    ours = wg.jit(call.again)(*call.arrays)
    whole, theirs = (_multiplied(call.name, result) for result in (ours, call.result))
    return np.allclose(whole, theirs, rtol=1e-3, atol=1e-3 * np.max(np.abs(theirs), initial=1.0))


def _multiplied(name, result):
    if name == "linalg.qr":
        return result[0] @ result[1]
    if name == "linalg.svd":
        u, s, v = result
        return u[..., : s.shape[-1]] * s[..., None, :] @ v[..., : s.shape[-1], :]
    values, vectors = result
    return vectors * values[..., None, :] @ np.linalg.inv(vectors)


def _symmetric(call, way, error):
    """Of symmetric matrices the values are NumPy's, and derivatives those of the symmetric part."""
    a = np.asarray(call.arrays[0])
    is_symmetric = np.allclose(a, np.swapaxes(a, -1, -2).conj())
    return way == "differentiated" or not is_symmetric


def _singular(call, way, error):
    """Whether a singular value that is nothing but rounding counts is the processor's choice."""
    values = np.linalg.svdvals(np.asarray(call.arrays[0]))
    return np.min(values, initial=np.inf) < 1e-13 * np.max(values, initial=0.0)


def _tied(call, way, error):
    """Equal elements share the derivative, or one has it, which no direction alone tells."""
    elements = np.concatenate([np.ravel(x) for x in call.arrays])
    return way == "differentiated" and np.unique(elements).size < elements.size


# By the words in docs/numpy.md that tell of it.
DIFFERENCES = {
    "Values that decide shapes": Difference(
        frozenset(
            "histogram histogram2d histogramdd histogram_bin_edges nonzero flatnonzero "
            "argwhere".split()
        ),
        _differentiated,
    ),
    "Eigenvalues of a general matrix are complex": Difference(
        frozenset(["linalg.eig", "linalg.eigvals", "roots", "poly"]), _dtype_alone
    ),
    "Symmetric matrices": Difference(
        frozenset(f"linalg.{name}" for name in "cholesky eigh eigvalsh svd pinv".split()),
        _symmetric,
    ),
    "The rank of a singular matrix": Difference(frozenset(["linalg.lstsq"]), _singular),
    "Ties and kinks": Difference(
        frozenset(
            "clip median nanmedian quantile nanquantile percentile nanpercentile unique unique_all "
            "unique_counts unique_inverse unique_values union1d intersect1d setdiff1d "
            "setxor1d".split()
        ),
        _tied,
    ),
    "Eigenvectors and singular vectors": Difference(
        frozenset(["linalg.eig", "linalg.eigh", "linalg.svd", "linalg.qr"]), _vectors
    ),
}


def is_expected(call, way, error) -> bool:
    """Whether an entry explains that this way to make the call failed so."""
    return any(
        call.name in entry.names and entry.when(call, way, error) for entry in DIFFERENCES.values()
    )
