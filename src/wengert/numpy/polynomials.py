"""Polynomials as NumPy has them in its oldest functions: coefficients, highest power first.

NumPy leaves out leading zeros of factors, of remainders and of what it takes roots of, so that the
length of a result depends on values. It does where these are known; while `jit` and `vmap` trace,
the length is that of coefficients of which none is zero, and others are an error when it is run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import OptionError, ShapeError, explain
from ..ops import elementwise as ew
from ..ops.indexing import embed, index
from ..ops.layout import reshape
from ..ops.logic import equal, less_equal, not_equal
from ..ops.positions import provided
from ..ops.structure import concatenate
from ..trace.tracer import concrete
from ..types import inexact_dtype, result_dtype, type_of
from .common import as_value, cast, ndim, shape, strong
from .contractions import convolve
from .creation import vander
from .linalg import eigvals, inv, lstsq
from .reductions import sum
from .structure import numpy_if_plain

__all__ = [
    "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "polyval",
    "roots",
]  # fmt: skip

SMALL = 1e-8  # what `numpy.allclose` takes for zero


def _line(name: str, p: Any) -> Any:
    """Coefficients; a number is a constant."""
    p = strong(as_value(p))
    if ndim(p) > 1:
        raise ShapeError(
            explain(name, f"got an array of shape {shape(p)}", "Give coefficients in one axis.")
        )
    return reshape(p, shape=(1,)) if ndim(p) == 0 else p


def _part(p: Any, start: int, stop: int) -> Any:
    return index(p, key=((start, max(start, stop), 1),))


def polyval(p: Any, x: Any) -> Any:
    """``numpy.polyval``: a polynomial, highest power first, by Horner's rule.

    >>> import wengert as wg, wengert.numpy as wnp
    >>> wg.grad(lambda x: wnp.polyval([1.0, 0.0, 2.0], x))(3.0)
    np.float64(6.0)
    """
    p, x = as_value(p), strong(as_value(x))
    if ndim(p) != 1:
        p = reshape(p, shape=(type_of(p).size,))
    result = x * 0
    for k in range(shape(p)[0]):
        result = result * x + p[k]
    return result


@numpy_if_plain
def polyadd(a1: Any, a2: Any) -> Any:
    """``numpy.polyadd``: the sum of two polynomials.

    >>> import wengert.numpy as wnp
    >>> wnp.polyadd([1, 2], [9, 5, 4])
    array([9, 6, 6])
    """
    return ew.add(*_equally_long("polyadd", a1, a2))


@numpy_if_plain
def polysub(a1: Any, a2: Any) -> Any:
    """``numpy.polysub``: the difference of two polynomials.

    >>> import wengert.numpy as wnp
    >>> wnp.polysub([9, 5, 4], [1, 2])
    array([9, 4, 2])
    """
    return ew.subtract(*_equally_long("polysub", a1, a2))


def _equally_long(name: str, *polynomials: Any) -> list[Any]:
    lines = [_line(name, p) for p in polynomials]
    length = max(shape(p)[0] for p in lines)
    return [_shifted_in(p, length - shape(p)[0], length) for p in lines]


def _shifted_in(p: Any, start: int, length: int) -> Any:
    """The coefficients from a place on, among zeros."""
    own = shape(p)[0]
    if own == length:
        return p
    return embed(p, key=((start, start + own, 1),), shape=(length,))


@numpy_if_plain
def polymul(a1: Any, a2: Any) -> Any:
    """``numpy.polymul``: the product of two polynomials.

    >>> import wengert.numpy as wnp
    >>> wnp.polymul([1, 2, 3], [9, 5, 1])
    array([ 9, 23, 38, 17,  3])
    """
    return convolve(_stripped("polymul", "a1", a1), _stripped("polymul", "a2", a2))


def _stripped(name: str, argument: str, p: Any) -> Any:
    """Coefficients without leading zeros: the last one stays."""
    p = _line(name, p)
    value, length = concrete(p), shape(p)[0]
    if value is not None:
        places = np.flatnonzero(np.asarray(value))
        return _part(p, int(places[0]) if places.size else max(length - 1, 0), length)
    if length < 2:
        return p
    return provided(
        p,
        not_equal(_part(p, 0, 1), 0),
        error="ShapeError",
        name=name,
        problem=f"{argument} begins with 0, which NumPy leaves out: the length of the result "
        "depends on values, which compiled and mapped functions cannot",
        remedy="Leave it out before, or use convolve, which keeps all coefficients.",
    )


@numpy_if_plain
def polydiv(u: Any, v: Any) -> tuple[Any, Any]:
    """``numpy.polydiv``: quotient and remainder.

    >>> import wengert.numpy as wnp
    >>> wnp.polydiv([3.0, 5.0, 2.0], [2.0, 1.0])
    (array([1.5 , 1.75]), array([0.25]))
    """
    u, v = _line("polydiv", u), _line("polydiv", v)
    dtype = inexact_dtype(result_dtype(type_of(u), type_of(v)))
    u, v = cast(u, dtype), cast(v, dtype)
    m, n = shape(u)[0] - 1, shape(v)[0] - 1
    scale = ew.divide(1.0, index(v, key=(0,)))
    rest, quotient = u, []
    for k in range(m - n + 1):
        factor = ew.multiply(scale, index(rest, key=(k,)))
        quotient.append(reshape(factor, shape=(1,)))
        rest = ew.subtract(rest, _shifted_in(ew.multiply(v, factor), k, m + 1))
    whole = concatenate(*quotient, axis=0) if quotient else np.zeros(1, dtype)
    return whole, _without_small(rest, min(max(m - n + 1, 0), m))


def _without_small(rest: Any, usual: int) -> Any:
    """The remainder without leading zeros up to rounding, the `usual` number if nobody knows."""
    value, length = concrete(rest), shape(rest)[0]
    if value is not None:
        small = np.abs(np.asarray(value)[:-1]) <= SMALL
        return _part(rest, length - 1 if np.all(small) else int(np.argmin(small)), length)
    small = less_equal(ew.absolute(_part(rest, 0, min(usual + 1, length - 1))), SMALL)
    return provided(
        _part(rest, usual, length),
        equal(small, np.arange(shape(small)[0]) < usual),
        error="ShapeError",
        name="polydiv",
        problem="NumPy would give a remainder of another length, which depends on values: "
        f"it leaves out what is not above {SMALL} in front",
        remedy="Use the quotient alone, and for the remainder polysub(u, polymul(quotient, v)).",
    )


@numpy_if_plain
def polyder(p: Any, m: int = 1) -> Any:
    """``numpy.polyder``: the m-th derivative of a polynomial.

    >>> import wengert.numpy as wnp
    >>> wnp.polyder([1, 1, 1, 1])
    array([3, 2, 1])
    """
    _check_order("polyder", m)
    p = _line("polyder", p)
    for _ in range(m):
        degree = shape(p)[0] - 1
        p = ew.multiply(_part(p, 0, degree), np.arange(degree, 0, -1))
    return p


@numpy_if_plain
def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """``numpy.polyint``: the m-th integral of a polynomial, with the constants `k`.

    >>> import wengert.numpy as wnp
    >>> wnp.polyint([3.0, 2.0, 1.0], k=7)
    array([1., 1., 1., 7.])
    """
    _check_order("polyint", m)
    p = _line("polyint", p)
    constants = _line("polyint", 0.0 if k is None else k)
    if shape(constants)[0] not in (1, m) and m:
        raise ShapeError(
            explain("polyint", f"got {shape(constants)[0]} constants", f"Give one, or {m}.")
        )
    for number in range(m):
        length = shape(p)[0]
        own = min(number, shape(constants)[0] - 1)
        parts = [ew.divide(p, np.arange(length, 0, -1)), _part(constants, own, own + 1)]
        p = concatenate(*parts, axis=0)
    return p


def _check_order(name: str, m: int) -> None:
    if m < 0:
        raise OptionError(explain(name, f"got the order m={m}", "Give 0 or more."))


# ---------------------------------------------------------------- zeros


@numpy_if_plain
def poly(seq_of_zeros: Any) -> Any:
    """``numpy.poly``: the polynomial with these zeros, or the characteristic one of a matrix.

    >>> import wengert.numpy as wnp
    >>> wnp.poly([1.0, 2.0, 3.0])
    array([  1.,  -6.,  11.,  -6.])
    """
    zeros = strong(as_value(seq_of_zeros))
    real = type_of(zeros).dtype.kind != "c"
    if ndim(zeros) == 2 and shape(zeros)[0] == shape(zeros)[1] != 0:
        zeros = eigvals(zeros)
    if ndim(zeros) > 1:
        raise ShapeError(
            explain(
                "poly", f"got an array of shape {shape(zeros)}", "Give a line or a square matrix."
            )
        )
    zeros = reshape(zeros, shape=(type_of(zeros).size,))
    if not shape(zeros)[0]:
        return 1.0  # as NumPy has it
    result: Any = np.ones(1, inexact_dtype(type_of(zeros).dtype))
    for k in range(shape(zeros)[0]):
        factor = concatenate(np.ones(1, type_of(result).dtype), -_part(zeros, k, k + 1), axis=0)
        result = convolve(result, factor)
    # the zeros of a real matrix come in pairs
    return ew.real(result) if real else result


@numpy_if_plain
def roots(p: Any) -> Any:
    """``numpy.roots``: the zeros of a polynomial, by the eigenvalues of its companion matrix.

    Of traced coefficients they are complex.

    >>> import wengert.numpy as wnp
    >>> wnp.roots([1.0, -6.0, 11.0, -6.0]).round(6)
    array([3., 2., 1.])
    """
    p = _stripped("roots", "p", p)
    dtype = np.result_type(inexact_dtype(type_of(p).dtype), np.complex64)
    value = concrete(p)
    trailing = 0
    if value is not None:
        places = np.flatnonzero(np.asarray(value))
        if not places.size:
            return np.zeros(0, dtype)
        trailing = shape(p)[0] - 1 - int(places[-1])
        p = _part(p, 0, int(places[-1]) + 1)
    degree = shape(p)[0] - 1
    if degree < 1:
        return np.zeros(trailing, dtype)
    p = cast(p, inexact_dtype(type_of(p).dtype))
    top = ew.divide(ew.negative(_part(p, 1, degree + 1)), index(p, key=(0,)))
    below = np.eye(degree, dtype=type_of(top).dtype)[:-1]
    found = eigvals(concatenate(reshape(top, shape=(1, degree)), below, axis=0))
    return concatenate(found, np.zeros(trailing, type_of(found).dtype), axis=0)


# ---------------------------------------------------------------- fitting


@numpy_if_plain
def polyfit(
    x: Any,
    y: Any,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: Any = None,
    cov: bool | str = False,
) -> Any:
    """``numpy.polyfit``: the polynomial of least squares; differentiable by `x`, `y` and `w`.

    >>> import numpy as np, wengert as wg, wengert.numpy as wnp
    >>> slope = lambda y: wnp.polyfit(np.arange(3.0), y, 1)[0]
    >>> wg.grad(slope)(np.array([0.0, 1.0, 4.0])).round(6) + 0.0
    array([-0.5,  0. ,  0.5])
    """
    if deg < 0:
        raise OptionError(explain("polyfit", f"got deg={deg}", "Give 0 or more."))
    x, y = (cast(v, np.result_type(type_of(v).dtype, 0.0)) for v in (as_value(x), as_value(y)))
    if ndim(x) != 1 or ndim(y) not in (1, 2) or shape(x)[0] != shape(y)[0] or not shape(x)[0]:
        raise ShapeError(
            explain(
                "polyfit",
                f"got x of shape {shape(x)} and y of shape {shape(y)}",
                "Give a line x, and y of as many numbers or rows.",
            )
        )
    powers = vander(x, deg + 1)
    if w is not None:
        w = cast(as_value(w), np.result_type(type_of(as_value(w)).dtype, 0.0))
        if shape(w) != shape(x):
            raise ShapeError(explain("polyfit", f"got w of shape {shape(w)}", "One for each x."))
        column = reshape(w, shape=(shape(w)[0], 1))
        powers = ew.multiply(powers, column)
        y = ew.multiply(y, column if ndim(y) == 2 else w)
    scale = ew.sqrt(sum(ew.multiply(powers, powers), 0))
    rcond = shape(x)[0] * np.finfo(type_of(x).dtype).eps if rcond is None else rcond
    found, residuals, rank, values = lstsq(ew.divide(powers, scale), y, rcond)
    scales = reshape(scale, shape=(deg + 1, 1)) if ndim(y) == 2 else scale
    coefficients = ew.divide(found, scales)
    if full:
        return coefficients, residuals, rank, values, rcond
    if not cov:
        return coefficients
    return coefficients, _covariance(powers, scale, residuals, shape(x)[0] - deg - 1, cov, ndim(y))


def _covariance(
    powers: Any, scale: Any, residuals: Any, freedom: int, cov: bool | str, rank: int
) -> Any:
    scaled = ew.divide(powers, scale)
    count = shape(scale)[0]
    outer = ew.multiply(reshape(scale, shape=(count, 1)), reshape(scale, shape=(1, count)))
    base = ew.divide(inv(scaled.T @ scaled), outer)
    if cov == "unscaled":
        return base if rank == 1 else reshape(base, shape=(count, count, 1))
    if freedom <= 0:
        raise OptionError(
            explain("polyfit", "got cov=True and not more points than coefficients", "Add points.")
        )
    factor = ew.divide(residuals, freedom)
    if rank == 1:
        return ew.multiply(base, factor)
    return ew.multiply(reshape(base, shape=(count, count, 1)), factor)
