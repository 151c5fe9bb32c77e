"""Signals under SciPy's names (``scipy.signal``): convolution, recursive filters, trends."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from .. import numpy as wnp
from ..errors import OptionError, ShapeError, explain
from ..transforms import scan
from ..types import type_of

__all__ = [
    "convolve", "convolve2d", "correlate", "correlate2d", "detrend", "fftconvolve", "lfilter",
    "oaconvolve",
]  # fmt: skip

_MODES = ("full", "same", "valid")
# How an array goes on outside, in SciPy's words and in NumPy's.
_BOUNDARIES = {"fill": "constant", "wrap": "wrap", "symm": "symmetric"}


def _one_of(name: str, option: str, got: Any, known: Any) -> None:
    if got not in known:
        words = ", ".join(map(repr, known))
        raise OptionError(explain(name, f"got {option}={got!r}", f"Use one of {words}."))


def _pair(name: str, in1: Any, in2: Any, rank: int | None = None) -> tuple[Any, Any]:
    one, other = wnp.asarray(in1), wnp.asarray(in2)
    if np.ndim(one) != np.ndim(other) or (rank is not None and np.ndim(one) != rank):
        wanted = "as many axes each" if rank is None else f"{rank} axes each"
        raise ShapeError(
            explain(name, f"got shapes {np.shape(one)} and {np.shape(other)}, expected {wanted}")
        )
    return one, other


def _turned(x: Any) -> Any:
    """Reversed along all axes, and conjugated."""
    return wnp.conj(x[(slice(None, None, -1),) * np.ndim(x)])


def _slid(x: Any, kernel: Any) -> Any:
    """The sum of the products at every place where the kernel, reversed, lies inside of x."""
    reversed_kernel = kernel[(slice(None, None, -1),) * np.ndim(kernel)]
    return wnp.conv(x[None, None], reversed_kernel[None, None])[0, 0]


def _cut(name: str, full: Any, own: Any, other: Any, mode: str) -> Any:
    """The part of a full convolution that the mode names."""
    if mode == "full":
        return full
    if mode == "same":
        sizes = own
    else:
        _check_nested(name, own, other)
        sizes = [abs(n - k) + 1 for n, k in zip(own, other, strict=True)]
    starts = [(n - size) // 2 for n, size in zip(np.shape(full), sizes, strict=True)]
    key = [slice(start, start + size) for start, size in zip(starts, sizes, strict=True)]
    return full[tuple(key)]


def _check_nested(name: str, own: Any, other: Any) -> None:
    pairs = list(zip(own, other, strict=True))
    if not (all(n >= k for n, k in pairs) or all(n <= k for n, k in pairs)):
        raise ShapeError(
            explain(
                name,
                f"got shapes {tuple(own)} and {tuple(other)} with mode='valid'",
                "One of the arrays must be at least as long as the other along every axis.",
            )
        )


def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """``scipy.signal.convolve``: the convolution of arrays with any number of axes.

    Modes are "full", "same" (the shape of `in1`) and "valid" (no padding). It is computed directly,
    or with ``method="fft"`` as `fftconvolve`.

    >>> convolve(np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 0.5]), mode="same")
    array([1. , 2.5, 4. ])
    """
    one, other = _pair("convolve", in1, in2)
    _one_of("convolve", "mode", mode, _MODES)
    _one_of("convolve", "method", method, ("auto", "direct", "fft"))
    if np.ndim(one) == 0:
        return one * other
    if method == "fft":
        return fftconvolve(one, other, mode)
    own, kernel = np.shape(one), np.shape(other)
    if 0 in (*own, *kernel):
        return np.zeros(0)
    if mode == "valid":
        _check_nested("convolve", own, kernel)
        small = all(n >= k for n, k in zip(own, kernel, strict=True))
        return _slid(one, other) if small else _slid(other, one)
    return _cut("convolve", _slid(wnp.pad(one, [(k - 1, k - 1) for k in kernel]), other), own,
                kernel, mode)  # fmt: skip


def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """``scipy.signal.correlate``: the cross-correlation; `in2` is conjugated.

    >>> correlate(np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 0.5]))
    array([0.5, 2. , 3.5, 3. , 0. ])
    """
    one, other = _pair("correlate", in1, in2)
    return convolve(one, _turned(other), mode, method)


def convolve2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0
) -> Any:
    """``scipy.signal.convolve2d``: the convolution of matrices.

    Outside, `in1` is `fillvalue` (`boundary` "fill"), goes on periodically ("wrap") or is mirrored
    ("symm").

    >>> convolve2d(np.eye(2), np.ones((2, 2)), mode="same", boundary="wrap")
    array([[2., 2.],
           [2., 2.]])
    """
    one, other = _pair("convolve2d", in1, in2, 2)
    middle = [(k - 1) // 2 for k in np.shape(other)]
    return _slid_over("convolve2d", one, other, mode, middle, boundary, fillvalue)


def correlate2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0
) -> Any:
    """``scipy.signal.correlate2d``: the cross-correlation of matrices; `in2` is conjugated.

    >>> correlate2d(np.eye(2), np.array([[1.0, 2.0]]))
    array([[2., 1., 0.],
           [0., 2., 1.]])
    """
    one, other = _pair("correlate2d", in1, in2, 2)
    middle = [k // 2 for k in np.shape(other)]
    return _slid_over("correlate2d", one, _turned(other), mode, middle, boundary, fillvalue)


def _slid_over(
    name: str, one: Any, other: Any, mode: str, middle: list[int], boundary: str, fillvalue: Any
) -> Any:
    """The convolution of matrices; with mode "same" it begins at `middle` of the full one."""
    _one_of(name, "mode", mode, _MODES)
    _one_of(name, "boundary", boundary, _BOUNDARIES)
    if mode == "valid":
        return convolve(one, other, mode)
    options = {"constant_values": fillvalue} if boundary == "fill" else {}
    widths = [(k - 1, k - 1) for k in np.shape(other)]
    full = _slid(wnp.pad(one, widths, _BOUNDARIES[boundary], **options), other)
    if mode == "full":
        return full
    rows, columns = (slice(m, m + n) for m, n in zip(middle, np.shape(one), strict=True))
    return full[rows, columns]


def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """``scipy.signal.fftconvolve``: the convolution by Fourier transforms, along some axes.

    >>> fftconvolve(np.array([1.0, 2.0]), np.array([1.0, 1.0])).round(12)
    array([1., 3., 2.])
    """
    one, other = _pair("fftconvolve", in1, in2)
    _one_of("fftconvolve", "mode", mode, _MODES)
    rank = np.ndim(one)
    if rank == 0:
        return one * other
    chosen = range(rank) if axes is None else (axes,) if isinstance(axes, int) else axes
    along = sorted({axis % rank for axis in chosen})
    own, kernel = np.shape(one), np.shape(other)
    if 0 in (*own, *kernel):
        return np.zeros(0)
    lengths = [own[axis] + kernel[axis] - 1 for axis in along]
    spectra = _spectra(one, other, lengths, along)
    rest = np.broadcast_shapes(*[
        tuple(1 if axis in along else n for axis, n in enumerate(sizes)) for sizes in (own, kernel)
    ])  # fmt: skip
    wanted = [own[axis] if axis in along else rest[axis] for axis in range(rank)]
    other_sizes = [kernel[axis] if axis in along else 1 for axis in range(rank)]
    if mode == "valid":
        _check_nested("fftconvolve", [own[a] for a in along], [kernel[a] for a in along])
    return _cut("fftconvolve", spectra, wanted, other_sizes, mode)


oaconvolve = fftconvolve


def _spectra(one: Any, other: Any, lengths: list[int], axes: list[int]) -> Any:
    """The product of the spectra, transformed back."""
    if "c" in (type_of(one).dtype.kind, type_of(other).dtype.kind):
        product = wnp.fft.fftn(one, lengths, axes) * wnp.fft.fftn(other, lengths, axes)
        return wnp.fft.ifftn(product, lengths, axes)
    product = wnp.fft.rfftn(one, lengths, axes) * wnp.fft.rfftn(other, lengths, axes)
    return wnp.fft.irfftn(product, lengths, axes)


# ---------------------------------------------------------------- filters


def lfilter(b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """``scipy.signal.lfilter``: ``a[0] y[n] = b[0] x[n] + b[1] x[n-1] + ... - a[1] y[n-1] - ...``.

    With `zi`, the state before the first sample, the result is (y, the state after the last).

    >>> lfilter(np.array([1.0]), np.array([1.0, -0.5]), np.array([1.0, 0.0, 0.0, 0.0]))
    array([1.   , 0.5  , 0.25 , 0.125])
    """
    b, a, x = wnp.atleast_1d(b), wnp.atleast_1d(a), wnp.asarray(x)
    for name, value in (("b", b), ("a", a)):
        if np.ndim(value) != 1 or not np.shape(value)[0]:
            problem = f"got {name} of shape {np.shape(value)}, expected a vector of coefficients"
            raise ShapeError(explain("lfilter", problem))
    dtype = np.result_type(*[type_of(v).dtype for v in (b, a, x)], np.float32)
    order = max(np.shape(b)[0], np.shape(a)[0])
    ahead, back = (
        wnp.pad(v / a[0], (0, order - np.shape(v)[0])).astype(dtype) for v in (b, a)
    )  # fmt: skip
    rows = wnp.moveaxis(x, axis, 0).astype(dtype)
    lanes = np.shape(rows)[1:]
    if zi is None:
        state = np.zeros((order - 1, *lanes), dtype)
    else:
        state = wnp.moveaxis(wnp.asarray(zi), axis, 0).astype(dtype)
        state = wnp.broadcast_to(state, (order - 1, *lanes))
    column = (slice(1, None), *(None,) * len(lanes))

    def step(state: Any, sample: Any) -> tuple[Any, Any]:
        if order == 1:
            return state, ahead[0] * sample
        result = ahead[0] * sample + state[0]
        moved = wnp.concatenate([state[1:], wnp.zeros_like(state[:1])])
        return moved + ahead[column] * sample - back[column] * result, result

    state, found = scan(step, state, rows)
    found = wnp.moveaxis(found, 0, axis)
    return found if zi is None else (found, wnp.moveaxis(state, 0, axis))


def detrend(data: Any, axis: int = -1, type: str = "linear", bp: Any = 0) -> Any:
    """``scipy.signal.detrend``: without the mean ("constant") or the line of least squares.

    `bp` has the places where a new line begins.

    >>> detrend(np.array([1.0, 2.0, 4.0, 4.0])).round(3)
    array([-0.1, -0.2,  0.7, -0.4])
    """
    kinds = ("linear", "l", "constant", "c")
    _one_of("detrend", "type", type, kinds)
    data = wnp.asarray(data)
    data = data if type_of(data).inexact else data.astype(np.float64)
    if type in kinds[2:]:
        return data - wnp.mean(data, axis=axis, keepdims=True)
    count = np.shape(data)[axis]
    ends = np.unique(np.concatenate([[0], np.atleast_1d(bp), [count]])).astype(int)
    if (ends > count).any() or (ends < 0).any():
        problem = f"got bp={bp!r} for {count} samples"
        raise OptionError(explain("detrend", problem, "Give places between the samples."))
    rows = wnp.moveaxis(data, axis, -1)
    pieces = [_without_line(rows[..., start:stop]) for start, stop in pairwise(ends)]
    return wnp.moveaxis(wnp.concatenate(pieces, -1), -1, axis)


def _without_line(rows: Any) -> Any:
    """Rows without the lines that fit them best."""
    count = np.shape(rows)[-1]
    line = np.stack([np.ones(count), np.arange(1, count + 1) / count], 1)
    basis, _ = np.linalg.qr(line)
    basis = basis[:, :count].astype(type_of(rows).dtype)
    return rows - (rows @ basis) @ basis.T
