"""Distributions of vectors: the normal and Dirichlet's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import numpy as wnp
from ..errors import ShapeError, explain
from ..numpy.common import as_value, shape
from . import special as sp
from .frozen import Frozen

LOG_2PI = math.log(2 * math.pi)


class MultivariateNormal:
    """The normal distribution of vectors; `cov` is a matrix, its diagonal or one number.

    >>> import numpy as np
    >>> from wengert.scipy import stats
    >>> cov = np.array([[2.0, 0.5], [0.5, 1.0]])
    >>> print(f"{stats.multivariate_normal.logpdf(np.zeros(2), np.ones(2), cov):.12f}")
    -2.689113531806
    """

    name = "multivariate_normal"

    def __call__(self, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Frozen:
        """The distribution with its parameters given."""
        return Frozen(self, mean, cov, **({"allow_singular": True} if allow_singular else {}))

    def logpdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
        """The logarithm of the density at vectors, which lie along the last axis of x.

        With `allow_singular` in the space that the covariance spans, and -inf beside it.
        """
        size, mean, matrix = _normal("logpdf", x, mean, cov)
        x = as_value(x)
        if size == 1 and (not shape(x) or shape(x)[-1] != 1):
            x = wnp.reshape(x, (*shape(x), 1))
        elif size > 1 and len(shape(x)) == 1 and shape(x)[0] != size:
            x = wnp.reshape(x, (-1, 1))
        away = x - mean
        rows = wnp.reshape(away, (-1, size))
        value = _in_its_span(rows, matrix) if allow_singular else _regular(rows, matrix)
        return wnp.reshape(value, shape(away)[:-1])

    def pdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
        """The density at vectors."""
        return wnp.exp(self.logpdf(x, mean, cov, allow_singular))

    def entropy(self, mean: Any = None, cov: Any = 1) -> Any:
        """The differential entropy."""
        size, _, matrix = _normal("entropy", None, mean, cov)
        root = wnp.linalg.cholesky(matrix)
        return 0.5 * size * (1 + LOG_2PI) + wnp.sum(wnp.log(wnp.diagonal(root)))


def _normal(method: str, x: Any, mean: Any, cov: Any) -> tuple[int, Any, Any]:
    """The number of dimensions, the mean, and the covariance as a matrix."""
    cov = as_value(cov)
    mean = None if mean is None else as_value(mean)
    sizes = [shape(value)[-1] for value in (mean, cov) if value is not None and shape(value)]
    if not sizes and x is not None and mean is None and shape(as_value(x)):
        sizes = [shape(as_value(x))[-1]] if shape(cov) else [1]
    size = sizes[0] if sizes else 1
    wanted = {(), (size,), (size, size)}
    if shape(cov) not in wanted or (mean is not None and shape(mean) not in {(), (size,)}):
        got = f"got a mean of shape {None if mean is None else shape(mean)} and a covariance of "
        raise ShapeError(
            explain(
                f"multivariate_normal.{method}",
                f"{got}{shape(cov)}",
                "Give a mean (d,) and a covariance (d, d), (d,) or ().",
            )
        )
    matrix = cov if len(shape(cov)) == 2 else cov * wnp.eye(size)
    return size, 0.0 if mean is None else mean, matrix


def _regular(away: Any, matrix: Any) -> Any:
    """The logarithm of the density of rows."""
    root = wnp.linalg.cholesky(matrix)
    white = wnp.linalg.solve_triangular(root, away.T, lower=True)
    half_log = wnp.sum(wnp.log(wnp.diagonal(root))) + 0.5 * shape(matrix)[0] * LOG_2PI
    return -0.5 * wnp.sum(white * white, axis=0) - half_log


def _in_its_span(away: Any, matrix: Any) -> Any:
    """The same in the space of the eigenvectors with variances that are not 0."""
    variances, vectors = wnp.linalg.eigh(matrix)
    least = 1e6 * np.finfo(float).eps * wnp.max(wnp.abs(variances))
    spanned = variances > least
    along = away @ vectors
    kept = wnp.where(spanned, variances, 1.0)
    square = wnp.sum(wnp.where(spanned, along * along / kept, 0.0), axis=-1)
    log_all = wnp.sum(wnp.where(spanned, wnp.log(kept) + LOG_2PI, 0.0))
    beside = wnp.sum(wnp.where(spanned, 0.0, along * along), axis=-1)
    return wnp.where(beside < least * least, -0.5 * (square + log_all), -math.inf)


class Dirichlet:
    """The distribution of vectors of probabilities, which lie along the first axis.

    >>> import numpy as np
    >>> from wengert.scipy import stats
    >>> print(f"{stats.dirichlet.logpdf(np.array([0.2, 0.3, 0.5]), np.array([1.0, 2, 3])):.12f}")
    1.504077396776
    """

    name = "dirichlet"

    def __call__(self, alpha: Any) -> Frozen:
        """The distribution with its parameters given."""
        return Frozen(self, alpha)

    def logpdf(self, x: Any, alpha: Any) -> Any:
        """The logarithm of the density; x may leave out its last row, which is what is left."""
        x, alpha = as_value(x), as_value(alpha)
        count = shape(alpha)[0] if len(shape(alpha)) == 1 else 0
        rows = shape(x)[0] if shape(x) else 0
        if count < 2 or rows not in (count, count - 1):
            raise ShapeError(
                explain(
                    "dirichlet.logpdf",
                    f"got x of shape {shape(x)} and alpha of shape {shape(alpha)}",
                    "Give alpha (K,) and x (K, ...) or (K - 1, ...).",
                )
            )
        if rows == count - 1:
            x = wnp.concatenate([x, 1 - wnp.sum(x, axis=0, keepdims=True)])
        spread = wnp.reshape(alpha, (count, *(1,) * (len(shape(x)) - 1)))
        total = sp.gammaln(wnp.sum(alpha)) - wnp.sum(sp.gammaln(alpha))
        return wnp.sum(sp.xlogy(spread - 1, x), axis=0) + total

    def pdf(self, x: Any, alpha: Any) -> Any:
        """The density."""
        return wnp.exp(self.logpdf(x, alpha))

    def rvs(self, alpha: Any, size: Any = 1, random_state: Any = None) -> np.ndarray:
        """Vectors drawn at random, by NumPy: of plain numbers, a vector in each row."""
        if isinstance(random_state, np.random.RandomState):
            return random_state.dirichlet(alpha, size)
        return np.random.default_rng(random_state).dirichlet(alpha, size)


multivariate_normal = MultivariateNormal()
dirichlet = Dirichlet()
