"""Discrete Fourier transforms: four linear operations and their exact transposes.

The matrix of `fft` is symmetric, so `fft` and `ifft` are their own transposes. `rfft` gives the
half of the spectrum that a real array needs and `irfft` goes back; each is the transpose of the
other up to a conjugation and the weights of `_shares`, which count how often a frequency of the
half occurs in the whole. `norm` is NumPy's; transposing keeps the scale, which for the pair
`rfft`/`irfft` carries the opposite name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError, explain
from ..types import ArrayType
from .elementwise import conjugate, scale
from .layout import batch_axes
from .linalg import real_dtype
from .op import Op

FOURIER = "NumPy has a fast Fourier transform"

# The name under which the inverse transform has the scale of the forward one.
OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _precision(name: str, x: ArrayType) -> int:
    """Bytes of one real number of the result: float32 stays single, integers become double."""
    if x.dtype.char not in "fdFD" and x.dtype.kind not in "biu":
        raise DTypeError(
            explain(name, f"is not defined for {x}", "Convert the array to float64 with astype.")
        )
    return 4 if x.dtype.char in "fF" else 8


def _complex(name: str, x: ArrayType) -> np.dtype:
    return np.dtype(f"c{2 * _precision(name, x)}")


def _check_length(name: str, x: ArrayType, axes: Sequence[int]) -> None:
    for axis in axes:
        if x.shape[axis] == 0:
            raise ShapeError(
                explain(
                    name,
                    f"got an array of shape {x.shape}, whose axis {axis} is empty",
                    "Transform axes with at least one element, or pad with n.",
                )
            )


def _complex_transform(name: str, transform: Any) -> Op:
    def type_rule(x: ArrayType, axes: tuple[int, ...], norm: str) -> ArrayType:
        _check_length(name, x, axes)
        return ArrayType(_complex(name, x), x.shape)

    def evaluate(x: Any, axes: tuple[int, ...], norm: str) -> Any:
        if len(axes) == 1:
            return transform(x, None, axes[0], norm)
        # as NumPy's transforms along several axes do, which take twice as long to begin
        for axis in reversed(axes):
            x = transform(x, None, axis, norm)
        return x if axes else np.asarray(x, np.result_type(x, np.complex64))

    op: Op = Op(
        name,
        evaluate,
        type_rule,
        linear=(0,),
        transpose=(lambda g, x, axes, norm: op(g, axes=axes, norm=norm),),
        batch=batch_axes(lambda: op),
        mixes=lambda x, axes, norm: [axis - x.ndim for axis in axes],
        hosted=FOURIER,
        samples=_complex_samples,
    )
    return op


def _complex_samples(rng: np.random.Generator) -> Any:
    z = rng.normal(size=(3, 4)) + 1j * rng.normal(size=(3, 4))
    yield (z,), {"axes": (1,), "norm": "backward"}
    yield (z,), {"axes": (1, 0), "norm": "ortho"}
    yield (z.astype(np.complex64),), {"axes": (0,), "norm": "forward"}
    yield (rng.normal(size=(5,)),), {"axes": (0,), "norm": "forward"}
    yield (rng.normal(size=(0, 2)),), {"axes": (1,), "norm": "backward"}


fft = _complex_transform("fft", np.fft.fft)
ifft = _complex_transform("ifft", np.fft.ifft)


def _shares(n: int, rank: int, axis: int, ends: float, between: float, dtype: np.dtype) -> Any:
    """Weights along `axis` of the half spectrum of `n` points.

    The frequency 0, and n/2 when n is even, occur once in the whole spectrum; those between
    twice.
    """
    weights = np.full(n // 2 + 1, between, real_dtype(dtype))
    weights[0] = ends
    if n % 2 == 0:
        weights[-1] = ends
    return weights.reshape([-1 if place == axis else 1 for place in range(rank)])


def _rfft_type(x: ArrayType, axis: int, norm: str) -> ArrayType:
    if x.dtype.kind == "c":
        raise DTypeError(
            explain("rfft", f"got {x}, expected real numbers", "Use fft for complex ones.")
        )
    _check_length("rfft", x, (axis,))
    return ArrayType(_complex("rfft", x), _with_length(x.shape, axis, x.shape[axis] // 2 + 1))


def _with_length(shape: tuple[int, ...], axis: int, length: int) -> tuple[int, ...]:
    return (*shape[:axis], length, *shape[axis + 1 :])


def _rfft_transpose(g: Any, x: ArrayType, axis: int, norm: str) -> Any:
    n = x.shape[axis]
    shares = _shares(n, x.ndim, axis, 1.0, 0.5, _complex("rfft", x))
    return irfft(scale(conjugate(g), shares), axis=axis, n=n, norm=OPPOSITE[norm])


def _real_samples(rng: np.random.Generator) -> Any:
    yield (rng.normal(size=(3, 4)),), {"axis": 1, "norm": "backward"}
    yield (rng.normal(size=(5, 2)),), {"axis": 0, "norm": "ortho"}
    yield (rng.normal(size=(2, 3)).astype(np.float32),), {"axis": 1, "norm": "forward"}
    yield (rng.normal(size=(1,)),), {"axis": 0, "norm": "forward"}


rfft: Op = Op(
    "rfft",
    lambda x, axis, norm: np.fft.rfft(x, axis=axis, norm=norm),
    _rfft_type,
    linear=(0,),
    transpose=(_rfft_transpose,),
    batch=lambda size, flags, x, axis, norm: rfft(x, axis=axis + 1, norm=norm),
    mixes=lambda x, axis, norm: [axis - x.ndim],
    hosted=FOURIER,
    samples=_real_samples,
)


def _irfft_type(x: ArrayType, axis: int, n: int, norm: str) -> ArrayType:
    if x.shape[axis] != n // 2 + 1 or n < 1:
        raise ShapeError(
            explain(
                "irfft",
                f"got an array of shape {x.shape} for {n} points along axis {axis}",
                f"The axis must have n // 2 + 1 = {n // 2 + 1} elements and n be positive.",
            )
        )
    return ArrayType(np.dtype(f"f{_precision('irfft', x)}"), _with_length(x.shape, axis, n))


def _irfft_transpose(g: Any, x: ArrayType, axis: int, n: int, norm: str) -> Any:
    shares = _shares(n, x.ndim, axis, 1.0, 2.0, _complex("irfft", x))
    return scale(conjugate(rfft(g, axis=axis, norm=OPPOSITE[norm])), shares)


def _half_samples(rng: np.random.Generator) -> Any:
    z = rng.normal(size=(3, 4)) + 1j * rng.normal(size=(3, 4))
    yield (z,), {"axis": 1, "n": 6, "norm": "backward"}
    yield (z,), {"axis": 1, "n": 7, "norm": "ortho"}
    yield (z.astype(np.complex64),), {"axis": 0, "n": 5, "norm": "forward"}
    yield (z[0, :1],), {"axis": 0, "n": 1, "norm": "forward"}


irfft: Op = Op(
    "irfft",
    lambda x, axis, n, norm: np.fft.irfft(x, n, axis=axis, norm=norm),
    _irfft_type,
    linear=(0,),
    transpose=(_irfft_transpose,),
    batch=lambda size, flags, x, axis, n, norm: irfft(x, axis=axis + 1, n=n, norm=norm),
    mixes=lambda x, axis, n, norm: [axis - x.ndim],
    hosted=FOURIER,
    samples=_half_samples,
)
