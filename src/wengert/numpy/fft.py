"""Discrete Fourier transforms under NumPy's names (``numpy.fft``).

Lengths (`n`, `s`) crop or pad with zeros, as in NumPy; `norm` is ``"backward"``, ``"ortho"`` or
``"forward"``. float32 arrays give complex64 spectra.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ShapeError, WengertError, explain
from ..ops import fft as ops
from ..ops.elementwise import conjugate
from ..ops.indexing import embed, index
from ..ops.layout import convert
from ..ops.op import Op
from ..ops.structure import concatenate
from ..trace.lying import in_order
from ..trace.views import Views, copy_of
from ..types import Function, type_of
from .common import as_value, named, ndim, normal_axis, shape

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

fftfreq = np.fft.fftfreq
rfftfreq = np.fft.rfftfreq


class _NormError(WengertError, ValueError):
    """A `norm` that is not one of NumPy's three."""


def _norm(name: str, norm: str | None) -> str:
    if norm is None:
        return "backward"
    if norm not in ops.OPPOSITE:
        raise _NormError(
            explain(name, f"got norm={norm!r}", "Use 'backward', 'ortho' or 'forward'.")
        )
    return norm


def _resize(name: str, x: Any, axis: int, n: int) -> Any:
    """Crop the axis to `n` elements, or pad it with zeros."""
    own = shape(x)
    length = own[axis]
    if n < 1:
        raise ShapeError(explain(name, f"got {n} points for axis {axis}", "Give at least 1 point."))
    if n == length:
        return x
    kept = tuple((0, min(n, size) if k == axis else size, 1) for k, size in enumerate(own))
    if n < length:
        return index(x, key=kept)
    return embed(x, key=kept, shape=(*own[:axis], n, *own[axis + 1 :]))


def _axes(name: str, x: Any, s: Any, axes: Any) -> list[int]:
    rank = ndim(x)
    if axes is None:
        count = rank if s is None else len(s)
        axes = range(rank - count, rank)
    result = [normal_axis(name, axis, rank) for axis in axes]
    if s is not None and len(s) != len(result):
        raise ShapeError(
            explain(
                name,
                f"got {len(s)} lengths in s={tuple(s)} for {len(result)} axes",
                "Give s and axes the same length.",
            )
        )
    return result


def _resize_all(name: str, x: Any, s: Any, axes: Sequence[int]) -> Any:
    for axis, n in zip(axes, s or (), strict=False):
        if n is not None and n != -1:  # NumPy's ways to say: as it is
            x = _resize(name, x, axis, n)
    return x


def _transform(name: str, op: Any, x: Any, s: Any, axes: Sequence[int], norm: str | None) -> Any:
    norm = _norm(name, norm)
    if len(set(axes)) == len(axes):
        x = _resize_all(name, x, s, axes)
        return op(x, axes=tuple(axes), norm=norm) if axes else x
    for k in reversed(range(len(axes))):  # NumPy resizes and transforms a repeated axis again
        x = _resize_all(name, x, None if s is None else s[k : k + 1], axes[k : k + 1])
        x = op(x, axes=(axes[k],), norm=norm)
    return x


def _lengths(x: Any, s: Any, axes: Sequence[int]) -> Any:
    """The lengths to transform, where an axis that is halved may be transformed again."""
    repeated = axes[-1] in axes[:-1] if axes else False
    return [shape(x)[axis] for axis in axes] if s is None and repeated else s


def _along_one(name: str, op: Op, about: str) -> Function:
    def transform(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
        x = as_value(a)
        axis = normal_axis(name, axis, ndim(x))
        x = x if n is None else _resize(name, x, axis, n)
        return _transform(name, op, x, None, (axis,), norm)

    return named(transform, name, f"``numpy.fft.{name}``: {about}.")


def _along_several(name: str, op: Op, default: tuple[int, int] | None, about: str) -> Function:
    def transform(a: Any, s: Any = None, axes: Any = default, norm: str | None = None) -> Any:
        x = as_value(a)
        return _transform(name, op, x, s, _axes(name, x, s, axes), norm)

    return named(transform, name, f"``numpy.fft.{name}``: {about}.")


fft = _along_one("fft", ops.fft, "the transform along one axis")
ifft = _along_one("ifft", ops.ifft, "the inverse of `fft`")
fftn = _along_several("fftn", ops.fft, None, "the transform along several axes (all by default)")
ifftn = _along_several("ifftn", ops.ifft, None, "the inverse of `fftn`")
fft2 = _along_several("fft2", ops.fft, (-2, -1), "the transform along two axes")
ifft2 = _along_several("ifft2", ops.ifft, (-2, -1), "the inverse of `fft2`")


def rfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """``numpy.fft.rfft``: the non-negative frequencies of a real array."""
    a = as_value(a)
    axis = normal_axis("rfft", axis, ndim(a))
    a = a if n is None else _resize("rfft", a, axis, n)
    return ops.rfft(a, axis=axis, norm=_norm("rfft", norm))


def irfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """``numpy.fft.irfft``: the inverse of `rfft`; `n` points, by default an even number."""
    a = as_value(a)
    axis = normal_axis("irfft", axis, ndim(a))
    n = 2 * (shape(a)[axis] - 1) if n is None else n
    if n < 1:
        raise ShapeError(explain("irfft", f"got {n} points for axis {axis}", "Give n, at least 1."))
    a = _resize("irfft", a, axis, n // 2 + 1)
    given = type_of(a).dtype
    if given.char in "fd" or given.kind in "biu":
        a = convert(a, dtype=np.result_type(given, np.complex64))
    return ops.irfft(a, axis=axis, n=n, norm=_norm("irfft", norm))


def rfftn(a: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """``numpy.fft.rfftn``: `rfft` along the last of the axes, `fft` along the others."""
    a = as_value(a)
    places = _axes("rfftn", a, s, axes)
    s = _lengths(a, s, places)
    a = _resize_all("rfftn", a, s and s[-1:], places[-1:])
    half = ops.rfft(a, axis=places[-1], norm=_norm("rfftn", norm))
    return _transform("rfftn", ops.fft, half, s and s[:-1], places[:-1], norm)


def irfftn(a: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """``numpy.fft.irfftn``: the inverse of `rfftn`."""
    a = as_value(a)
    places = _axes("irfftn", a, s, axes)
    whole = _transform("irfftn", ops.ifft, a, s and s[:-1], places[:-1], norm)
    last = None if s is None or s[-1] in (None, -1) else s[-1]
    return irfft(whole, last, places[-1], norm)


def rfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> Any:
    """``numpy.fft.rfft2``: `rfftn` along two axes."""
    return rfftn(a, s, axes, norm)


def irfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> Any:
    """``numpy.fft.irfft2``: the inverse of `rfft2`."""
    return irfftn(a, s, axes, norm)


def hfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """``numpy.fft.hfft``: the real spectrum of an array whose other half is its conjugate."""
    return irfft(conjugate(as_value(a)), n, axis, ops.OPPOSITE[_norm("hfft", norm)])


def ihfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """``numpy.fft.ihfft``: the inverse of `hfft`."""
    return conjugate(rfft(a, n, axis, ops.OPPOSITE[_norm("ihfft", norm)]))


def _rotate(x: Any, axes: Any, shift: Any) -> Any:
    """Move the first ``shift(length)`` elements of each axis to its end."""
    x = whole = as_value(x)
    rank = ndim(x)
    given = range(rank) if axes is None else [axes] if isinstance(axes, int) else axes
    for axis in [normal_axis("fftshift", item, rank) for item in given]:
        length = shape(x)[axis]
        cut = shift(length)
        if 0 < cut < length:
            x = concatenate(_part(x, axis, cut, length), _part(x, axis, 0, cut), axis=axis)
    x = copy_of(x) if x is whole else x
    return in_order(x, ("K", whole.node)) if isinstance(whole, Views) else x


def _part(x: Any, axis: int, start: int, stop: int) -> Any:
    key = tuple((start, stop, 1) if k == axis else (0, size, 1) for k, size in enumerate(shape(x)))
    return index(x, key=key)


def fftshift(x: Any, axes: Any = None) -> Any:
    """``numpy.fft.fftshift``: the zero frequency moved to the middle."""
    return _rotate(x, axes, lambda length: (length + 1) // 2)


def ifftshift(x: Any, axes: Any = None) -> Any:
    """``numpy.fft.ifftshift``: undoes `fftshift`."""
    return _rotate(x, axes, lambda length: length // 2)
