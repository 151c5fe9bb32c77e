"""Other sizes: adaptive pooling, and `interpolate`.

All of it goes axis by axis. A place of the result is a sum of a few places of the input, the same
for all rows: `Taps` has which ones, and how much of each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import numpy as wnp
from ...errors import OptionError, ShapeError, explain
from ...transforms import custom_rule
from ..choices import one_of
from .convolution import Numbers
from .pooling import avg_pool, max_pool, where_largest
from .ranks import by_rank

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "interpolate",
]  # fmt: skip


# Sums of more terms than this are left to be derived.
_MOST = 16


class Taps(NamedTuple):
    """For each place of the result the places (results, taps) to read, and their weights."""

    places: np.ndarray
    weights: np.ndarray | None = None  # None: a single place, as it is


def _along(x: Any, axis: int, taps: Taps) -> Any:
    """One axis of an array made another length.

    The transpose of such sums are sums of the same kind. They are given as the rule: derived, the
    transpose would add every term to where it was read, one after the other.
    """
    back = _transposed(taps, np.shape(x)[axis])
    if back.places.shape[1] > _MOST:
        return _sums(x, axis, taps)

    def run(x: Any) -> Any:
        return _sums(x, axis, taps)

    def push(primals: Any, tangents: Any) -> Any:
        return run(*primals), _along(tangents[0], axis, taps)

    def pull(x: Any) -> Any:
        return run(x), lambda g: (_along(g, axis, back),)

    return custom_rule(push, pull)(run)(x)


def _sums(x: Any, axis: int, taps: Taps) -> Any:
    if taps.weights is None:
        return wnp.take(x, taps.places[:, 0], axis=axis)
    form = [1] * len(np.shape(x))
    form[axis] = -1
    total: Any = None
    for places, weights in zip(taps.places.T, taps.weights.T, strict=True):
        if weights.any() or total is None:
            factor = weights.astype(x.dtype).reshape(form)
            term = wnp.take(x, places, axis=axis) * factor
            if not weights.all():  # what does not count may be infinite
                term = wnp.where(factor != 0, term, 0)
            total = term if total is None else total + term
    return total


def _transposed(taps: Taps, length: int) -> Taps:
    """The taps of the transpose: for each of `length` places which results have read it."""
    weights = np.ones(taps.places.shape) if taps.weights is None else taps.weights
    results = np.broadcast_to(np.arange(len(taps.places))[:, None], taps.places.shape)
    counting = weights != 0
    read, result, weight = (part[counting] for part in (taps.places, results, weights))
    order = np.argsort(read, kind="stable")
    counts = np.bincount(read, minlength=length)
    starts = np.cumsum(counts) - counts
    column = np.arange(len(order)) - np.repeat(starts, counts)
    places = np.zeros((length, max(counts.max(initial=0), 1)), np.int64)
    found = np.zeros(places.shape)
    places[read[order], column], found[read[order], column] = result[order], weight[order]
    return Taps(places, found)


# ---------------------------------------------------------------- adaptive pooling


def _bins(length: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Where each of `count` windows begins and ends; they cover the axis evenly."""
    numbers = np.arange(count)
    return numbers * length // count, -(-(numbers + 1) * length // count)


def _bin_places(length: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The places of each window, and which of them there are; windows may differ by one."""
    starts, ends = _bins(length, count)
    places = starts[:, None] + np.arange((ends - starts).max(initial=1))
    there = places < ends[:, None]
    return np.where(there, places, ends[:, None] - 1), there


def _output_size(name: str, x: Any, given: Any, rank: int) -> tuple[Numbers, Numbers]:
    """The sizes of space before and after; None keeps that of an axis."""
    own = np.shape(x)
    sizes = (given,) * rank if given is None or isinstance(given, int) else tuple(given)
    if len(own) not in (rank + 1, rank + 2) or len(sizes) != rank:
        raise ShapeError(
            explain(
                name,
                f"got input of shape {own} and output_size={given!r}, expected {rank + 2} axes, "
                f"or {rank + 1} without samples, and an integer or {rank} of them",
            )
        )
    space = own[-rank:]
    return space, tuple(
        old if new is None else int(new) for old, new in zip(space, sizes, strict=True)
    )


def adaptive_avg_pool(rank: int, input: Any, output_size: Any) -> Any:
    """The means of `output_size` windows that cover (samples, channels, SPACE) evenly.

    >>> import numpy as np
    >>> adaptive_avg_pool1d(np.array([[1.0, 2.0, 3.0, 4.0, 5.0]]), 2)
    array([[2., 4.]])
    """
    space, sizes = _output_size(f"adaptive_avg_pool{rank}d", input, output_size, rank)
    if _divides(space, sizes):
        return avg_pool(rank, input, tuple(map(_quotient, space, sizes)))
    for axis, (old, new) in enumerate(zip(space, sizes, strict=True), start=-rank):
        if old != new:
            places, there = _bin_places(old, new)
            input = _along(input, axis, Taps(places, there / there.sum(1, keepdims=True)))
    return input


def _divides(space: Numbers, sizes: Numbers) -> bool:
    return all(new and old % new == 0 for old, new in zip(space, sizes, strict=True))


def _quotient(old: int, new: int) -> int:
    return old // new


def adaptive_max_pool(rank: int, input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of `output_size` windows that cover (samples, channels, SPACE) evenly.

    With `return_indices` also where each was found, as positions in the space laid flat.

    >>> import numpy as np
    >>> adaptive_max_pool1d(np.array([[1.0, 2.0, 3.0, 4.0, 5.0]]), 2)
    array([[3., 5.]])
    """
    space, sizes = _output_size(f"adaptive_max_pool{rank}d", input, output_size, rank)
    if _divides(space, sizes):
        sizes = tuple(map(_quotient, space, sizes))
        return max_pool(rank, input, sizes, return_indices=return_indices)
    places = [_bin_places(old, new)[0] for old, new in zip(space, sizes, strict=True)]
    indices = where_largest(input, places, rank)
    lead, found = np.shape(input)[:-rank], np.shape(indices)
    flat = wnp.reshape(input, (*lead, math.prod(space)))
    taken = wnp.take_along_axis(flat, wnp.reshape(indices, (*lead, -1)), axis=-1)
    pooled = wnp.reshape(taken, found)
    return (pooled, indices) if return_indices else pooled


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = by_rank(adaptive_avg_pool)
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = by_rank(adaptive_max_pool)


# ---------------------------------------------------------------- interpolation

# for each mode the numbers of axes of space that it is for
MODES: dict[str, tuple[int, ...]] = {
    "nearest": (1, 2, 3), "nearest-exact": (1, 2, 3), "linear": (1,), "bilinear": (2,),
    "bicubic": (2,), "trilinear": (3,), "area": (1, 2, 3),
}  # fmt: skip
_SMOOTH = ("linear", "bilinear", "bicubic", "trilinear")


def interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """(samples, channels, space) at another size, or `scale_factor` times as large.

    `mode` is "nearest", "nearest-exact", "linear" (of one axis), "bilinear" and "bicubic" (of
    two), "trilinear" (of three) or "area". With `align_corners` the first and last elements stay
    where they are; otherwise elements have an extent, and their edges do. `antialias` averages
    over what a smaller image would leave out.

    >>> import numpy as np
    >>> interpolate(np.array([[[1.0, 2.0]]]), scale_factor=2)
    array([[[1., 1., 2., 2.]]])
    >>> interpolate(np.array([[[1.0, 3.0]]]), size=3, mode="linear", align_corners=True)
    array([[[1., 2., 3.]]])
    """
    rank = len(np.shape(input)) - 2
    _check_mode(np.shape(input), rank, mode, align_corners, antialias)
    space = np.shape(input)[2:]
    sizes, scales = _sizes(space, size, scale_factor, bool(recompute_scale_factor))
    if mode == "area":
        return adaptive_avg_pool(rank, input, sizes)
    rule = {"nearest": _nearest, "nearest-exact": _nearest_exact}.get(mode)
    for axis, (old, new, scale) in enumerate(zip(space, sizes, scales, strict=True), start=2):
        step = 1.0 / scale if scale else old / new
        if antialias and old == new:  # as PyTorch has it, whatever the factor
            continue
        if rule is not None:
            taps = rule(old, new, step)
        elif antialias:
            taps = _antialiased(old, new, step, mode == "bicubic", bool(align_corners))
        else:
            at = _positions(old, new, step, bool(align_corners))
            taps = _cubic(old, at) if mode == "bicubic" else _linear(old, at)
        if old != new or taps.weights is not None:
            input = _along(input, axis, taps)
    return input


def _check_mode(
    own: Numbers, rank: int, mode: str, align_corners: bool | None, antialias: bool
) -> None:
    one_of("interpolate", "mode", mode, MODES)
    if rank not in MODES[mode]:
        raise ShapeError(
            explain(
                "interpolate",
                f"got input of shape {own} for mode={mode!r}, expected (samples, channels) and "
                f"{' or '.join(map(str, MODES[mode]))} axes of space",
            )
        )
    if align_corners is not None and mode not in _SMOOTH:
        raise OptionError(
            explain(
                "interpolate",
                f"got align_corners={align_corners} for mode={mode!r}",
                f"It is for {', '.join(_SMOOTH)}.",
            )
        )
    if antialias and mode not in ("bilinear", "bicubic"):
        raise OptionError(
            explain(
                "interpolate", f"got antialias=True for mode={mode!r}", "Use bilinear or bicubic."
            )
        )


def _sizes(
    space: Numbers, size: Any, scale_factor: Any, recompute: bool
) -> tuple[Numbers, Sequence[float | None]]:
    """The new sizes, and the factors where these decide which places are read."""
    rank = len(space)
    if (size is None) == (scale_factor is None):
        raise OptionError(
            explain(
                "interpolate", f"got size={size!r} and scale_factor={scale_factor!r}", "Give one."
            )
        )
    given = scale_factor if size is None else size
    several = tuple(given) if isinstance(given, (tuple, list)) else (given,) * rank
    if len(several) != rank:
        raise ShapeError(
            explain("interpolate", f"got {given!r} for {rank} axes of space", "Give one for each.")
        )
    if size is not None:
        return tuple(map(int, several)), [None] * rank
    sizes = tuple(math.floor(n * factor) for n, factor in zip(space, several, strict=True))
    return sizes, [None] * rank if recompute else [float(factor) for factor in several]


def _nearest(old: int, new: int, step: float) -> Taps:
    # in single precision, as PyTorch rounds: a factor such as 1.3 is decided by the last bit
    at = np.floor(np.arange(new, dtype=np.float32) * np.float32(step)).astype(np.int64)
    return Taps(np.minimum(at, old - 1)[:, None])


def _nearest_exact(old: int, new: int, step: float) -> Taps:
    middles = (np.arange(new, dtype=np.float32) + np.float32(0.5)) * np.float32(step)
    return Taps(np.minimum(np.floor(middles).astype(np.int64), old - 1)[:, None])


def _positions(old: int, new: int, step: float, align_corners: bool) -> np.ndarray:
    """Where the places of the result lie between those of the input."""
    if align_corners:
        return np.arange(new) * ((old - 1) / (new - 1) if new > 1 else 0.0)
    return (np.arange(new) + 0.5) * step - 0.5


def _linear(old: int, at: np.ndarray) -> Taps:
    at = np.clip(at, 0.0, old - 1)
    below = np.minimum(np.floor(at).astype(np.int64), old - 1)
    share = at - below
    places = np.stack([below, np.minimum(below + 1, old - 1)], axis=1)
    return Taps(places, np.stack([1.0 - share, share], axis=1))


def _cubic_kernel(distance: np.ndarray, a: float) -> np.ndarray:
    """Keys' kernel: how much an element counts at a distance."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((d - 5) * d + 8) * d * a - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def _cubic(old: int, at: np.ndarray) -> Taps:
    below = np.floor(at).astype(np.int64)
    places = below[:, None] + np.arange(-1, 3)
    weights = _cubic_kernel(at[:, None] - places, -0.75)
    return Taps(np.clip(places, 0, old - 1), weights)


def _antialiased(old: int, new: int, step: float, cubic: bool, align_corners: bool) -> Taps:
    """The kernel is made as wide as the places of the result are apart."""
    if align_corners:
        step = (old - 1) / (new - 1) if new > 1 else 0.0
    width = max(step, 1.0)
    support = (2.0 if cubic else 1.0) * width
    centres = step * (np.arange(new) + 0.5)
    first = np.maximum((centres - support + 0.5).astype(np.int64), 0)
    last = np.minimum((centres + support + 0.5).astype(np.int64), old)
    places = first[:, None] + np.arange((last - first).max())
    distance = (places - centres[:, None] + 0.5) / width
    kernel = _cubic_kernel(distance, -0.5) if cubic else np.maximum(1.0 - np.abs(distance), 0.0)
    weights = np.where(places < last[:, None], kernel, 0.0)
    return Taps(np.minimum(places, old - 1), weights / weights.sum(1, keepdims=True))
