"""Images with any number of axes under SciPy's names (``scipy.ndimage``): filters, interpolation.

Outside, an image goes on as `mode` says: "reflect" (d c b a | a b c d | d c b a), "mirror"
(d c b | a b c d | c b a), "nearest" (a a a | a b c d | d d d), "wrap" (b c d | a b c d | a b c), or
"constant", with `cval`. Results have the dtype of the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import numpy as wnp
from ..errors import OptionError, ShapeError, explain
from ..trace.tracer import concrete
from ..types import type_of
from .splines import MODES, interpolated, spline_coefficients

__all__ = [
    "affine_transform", "convolve", "convolve1d", "correlate", "correlate1d", "gaussian_filter",
    "gaussian_filter1d", "map_coordinates", "shift", "spline_filter", "uniform_filter",
    "uniform_filter1d", "zoom",
]  # fmt: skip

# In NumPy's words; SciPy has some of them twice.
_PADDING = {
    "reflect": "symmetric", "grid-mirror": "symmetric", "mirror": "reflect", "nearest": "edge",
    "wrap": "wrap", "grid-wrap": "wrap", "constant": "constant", "grid-constant": "constant",
}  # fmt: skip


def _image(name: str, x: Any, lowest: int = 0) -> Any:
    x = wnp.asarray(x)
    if np.ndim(x) < lowest:
        raise ShapeError(explain(name, "got a number, expected an array"))
    return x


def _check_mode(name: str, mode: Any, modes: Any) -> None:
    if mode not in modes:
        words = ", ".join(map(repr, modes))
        raise OptionError(explain(name, f"got mode={mode!r}", f"Use one of {words}."))


def _each(name: str, option: str, given: Any, count: int) -> list[Any]:
    """One option for each axis; a single one counts for all."""
    if isinstance(given, str) or np.ndim(given) == 0:
        return [given] * count
    found = list(given)
    if len(found) != count:
        raise OptionError(
            explain(name, f"got {len(found)} of {option} for {count} axes", "Give one for each.")
        )
    return found


def _in_dtype_of(image: Any, result: Any) -> Any:
    return result.astype(type_of(image).dtype)


def _padded(x: Any, widths: Sequence[tuple[int, int]], modes: Sequence[str], cval: Any) -> Any:
    for axis, (width, mode) in enumerate(zip(widths, modes, strict=True)):
        if width != (0, 0):
            here = [(0, 0)] * len(widths)
            here[axis] = width
            options = {"constant_values": cval} if _PADDING[mode] == "constant" else {}
            x = wnp.pad(x, here, _PADDING[mode], **options)
    return x


def _width(name: str, size: int, origin: Any) -> tuple[int, int]:
    """How many elements a kernel needs before and after; `origin` moves it."""
    before = size // 2 + int(origin)
    if not 0 <= before < size:
        limit = f"Use {-(size // 2)} to {(size - 1) // 2}."
        raise OptionError(explain(name, f"got origin={origin} for {size} weights", limit))
    return before, size - 1 - before


def _computed(x: Any) -> Any:
    """In double precision, as SciPy computes."""
    wide = np.result_type(type_of(x).dtype, np.float64)
    return x.astype(wide)


# ---------------------------------------------------------------- filters


def correlate(
    input: Any, weights: Any, *, mode: str = "reflect", cval: Any = 0.0, origin: Any = 0
) -> Any:
    """``scipy.ndimage.correlate``: the sum of the elements around each, times weights.

    >>> correlate(np.array([1.0, 2.0, 4.0]), np.array([1.0, 0.0, -1.0]), mode="nearest")
    array([-1., -3., -2.])
    """
    x, kernel = _image("correlate", input), _image("correlate", weights)
    result = _weighted(x, kernel, mode, cval, origin)
    return result if type_of(kernel).dtype.kind == "c" else _in_dtype_of(x, result)


def _weighted(x: Any, kernel: Any, mode: str, cval: Any, origin: Any) -> Any:
    """`correlate` in double precision."""
    _check_mode("correlate", mode, _PADDING)
    rank = np.ndim(x)
    if np.ndim(kernel) != rank:
        problem = f"got an image of {rank} axes and weights of {np.ndim(kernel)}"
        raise ShapeError(explain("correlate", problem, "They must have as many."))
    origins = _each("correlate", "origin", origin, rank)
    sizes = np.shape(kernel)
    widths = [_width("correlate", n, o) for n, o in zip(sizes, origins, strict=True)]
    padded = _padded(_computed(x), widths, [mode] * rank, cval)
    kernel = kernel if type_of(kernel).dtype.kind == "c" else kernel.astype(type_of(padded).dtype)
    return wnp.conv(padded[None, None], kernel[None, None])[0, 0]


def convolve(
    input: Any, weights: Any, *, mode: str = "reflect", cval: Any = 0.0, origin: Any = 0
) -> Any:
    """``scipy.ndimage.convolve``: `correlate` with the weights reversed.

    >>> convolve(np.array([0.0, 1.0, 0.0]), np.array([1.0, 2.0, 3.0]))
    array([1., 2., 3.])
    """
    kernel = _image("convolve", weights)
    origins = _each("convolve", "origin", origin, np.ndim(kernel))
    turned = kernel[(slice(None, None, -1),) * np.ndim(kernel)]
    sizes = np.shape(kernel)
    moved = [-int(o) - (n % 2 == 0) for n, o in zip(sizes, origins, strict=True)]
    return correlate(input, turned, mode=mode, cval=cval, origin=moved)


def correlate1d(
    input: Any, weights: Any, axis: int = -1, *, mode: str = "reflect", cval: Any = 0.0,
    origin: int = 0,
) -> Any:  # fmt: skip
    """``scipy.ndimage.correlate1d``: `correlate` along one axis.

    >>> correlate1d(np.array([[1.0, 2.0, 4.0]]), [1, 1, 1], mode="constant")
    array([[3., 7., 6.]])
    """
    x, kernel = _image("correlate1d", input, 1), wnp.asarray(weights)
    if np.ndim(kernel) != 1 or not np.shape(kernel)[0]:
        problem = f"got weights of shape {np.shape(kernel)}, expected a vector"
        raise ShapeError(explain("correlate1d", problem))
    kernel, origins = _along(x, kernel, axis, origin)
    return correlate(x, kernel, mode=mode, cval=cval, origin=origins)


def _along(x: Any, kernel: Any, axis: int, origin: int) -> tuple[Any, list[int]]:
    """Weights and origin along one axis as those of all axes."""
    shape, origins = [1] * np.ndim(x), [0] * np.ndim(x)
    shape[axis], origins[axis] = np.shape(kernel)[0], origin
    return wnp.reshape(kernel, tuple(shape)), origins


def convolve1d(
    input: Any, weights: Any, axis: int = -1, *, mode: str = "reflect", cval: Any = 0.0,
    origin: int = 0,
) -> Any:  # fmt: skip
    """``scipy.ndimage.convolve1d``: `convolve` along one axis.

    >>> convolve1d(np.array([0.0, 1.0, 0.0]), [1, 2, 3])
    array([1., 2., 3.])
    """
    kernel = wnp.asarray(weights)
    moved = -origin - (np.shape(kernel)[0] % 2 == 0)
    return correlate1d(input, kernel[::-1], axis, mode=mode, cval=cval, origin=moved)


def _gaussian(sigma: Any, order: int, radius: int) -> Any:
    """The weights of a Gaussian, or of its derivative."""
    places = np.arange(-radius, radius + 1.0)
    weights = wnp.exp(-0.5 / (sigma * sigma) * places**2)
    weights = weights / wnp.sum(weights)
    # each derivative makes of q(x) times the Gaussian (q' - x q / sigma²) times it
    polynomial: list[Any] = [1.0]
    for _ in range(order):
        derived = [k * polynomial[k] for k in range(1, len(polynomial))] + [0.0, 0.0]
        lifted = [0.0, *(-term / (sigma * sigma) for term in polynomial)]
        polynomial = [one + other for one, other in zip(derived, lifted, strict=True)]
    return weights * sum(term * places**k for k, term in enumerate(polynomial))


def gaussian_filter1d(
    input: Any, sigma: Any, axis: int = -1, order: int = 0, *, mode: str = "reflect",
    cval: Any = 0.0, truncate: float = 4.0, radius: int | None = None,
) -> Any:  # fmt: skip
    """``scipy.ndimage.gaussian_filter1d``: smoothed along an axis, or its derivative of an `order`.

    The weights reach as far as `radius`, or ``truncate * sigma``. With `radius` given, `sigma` may
    be a value that is known at run time alone.

    >>> gaussian_filter1d(np.array([0.0, 0.0, 1.0, 0.0, 0.0]), 0.5).round(3)
    array([0.   , 0.106, 0.787, 0.106, 0.   ])
    """
    if radius is None:
        width = concrete(sigma)
        if width is None:
            raise OptionError(
                explain(
                    "gaussian_filter1d",
                    "how far the weights reach is not known while tracing",
                    "Give radius=.",
                )
            )
        radius = int(truncate * float(width) + 0.5)
    if radius < 0 or order < 0:
        problem = f"got radius={radius} and order={order}, expected numbers from 0 on"
        raise OptionError(explain("gaussian_filter1d", problem))
    weights = _gaussian(sigma, int(order), int(radius))[::-1]
    return correlate1d(input, weights, axis, mode=mode, cval=cval)


def gaussian_filter(
    input: Any, sigma: Any, order: Any = 0, *, mode: Any = "reflect", cval: Any = 0.0,
    truncate: float = 4.0, radius: Any = None, axes: Any = None,
) -> Any:  # fmt: skip
    """``scipy.ndimage.gaussian_filter``: `gaussian_filter1d` along each axis.

    >>> spot = np.zeros((3, 3))
    >>> spot[1, 1] = 1
    >>> gaussian_filter(spot, 0.5).round(3)
    array([[0.011, 0.084, 0.011],
           [0.084, 0.619, 0.084],
           [0.011, 0.084, 0.011]])
    """
    x = _image("gaussian_filter", input, 1)
    chosen = _axes("gaussian_filter", axes, np.ndim(x))
    options = [
        _each("gaussian_filter", name, given, len(chosen))
        for name, given in (("sigma", sigma), ("order", order), ("mode", mode), ("radius", radius))
    ]
    for axis, width, derivative, own_mode, reach in _in_order(x, options[2], chosen, *options):
        x = gaussian_filter1d(
            x, width, axis, derivative, mode=own_mode, cval=cval, truncate=truncate, radius=reach
        )
    return x


def _axes(name: str, axes: Any, rank: int) -> list[int]:
    given = range(rank) if axes is None else (axes,) if np.ndim(axes) == 0 else axes
    found = [int(axis) for axis in given]
    if any(not -rank <= axis < rank for axis in found):
        raise OptionError(explain(name, f"got axes={axes!r} for an image of {rank} axes"))
    return [axis % rank for axis in found]


def _in_order(x: Any, modes: Sequence[str], *options: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The options of each axis; the last axis, whose elements are neighbours, first.

    Where constants are added or results are rounded to whole numbers, the order counts: SciPy's.
    """
    rows = list(zip(*options, strict=True))
    free = type_of(x).inexact and not any(_PADDING.get(mode) == "constant" for mode in modes)
    return rows[::-1] if free else rows


def uniform_filter1d(
    input: Any, size: int, axis: int = -1, *, mode: str = "reflect", cval: Any = 0.0,
    origin: int = 0,
) -> Any:  # fmt: skip
    """``scipy.ndimage.uniform_filter1d``: the mean of `size` elements along an axis.

    >>> uniform_filter1d(np.array([3.0, 0.0, 6.0]), 3)
    array([2., 3., 4.])
    """
    if size < 1:
        raise OptionError(explain("uniform_filter1d", f"got size={size}, expected 1 or more"))
    x = _image("uniform_filter1d", input, 1)
    ones, origins = _along(x, np.ones(int(size)), axis, origin)
    # the sum of whole numbers is exact, and so is a mean that is one
    return _in_dtype_of(x, _weighted(x, ones, mode, cval, origins) / size)


def uniform_filter(
    input: Any, size: Any = 3, *, mode: Any = "reflect", cval: Any = 0.0, origin: Any = 0,
    axes: Any = None,
) -> Any:  # fmt: skip
    """``scipy.ndimage.uniform_filter``: `uniform_filter1d` along each axis.

    >>> uniform_filter(np.eye(2) * 9, 3)
    array([[5., 4.],
           [4., 5.]])
    """
    x = _image("uniform_filter", input, 1)
    chosen = _axes("uniform_filter", axes, np.ndim(x))
    options = [
        _each("uniform_filter", name, given, len(chosen))
        for name, given in (("size", size), ("mode", mode), ("origin", origin))
    ]
    for axis, length, own_mode, start in _in_order(x, options[1], chosen, *options):
        x = uniform_filter1d(x, length, axis, mode=own_mode, cval=cval, origin=start)
    return x


# ---------------------------------------------------------------- interpolation


def spline_filter(input: Any, order: int = 3, *, mode: str = "mirror") -> Any:
    """``scipy.ndimage.spline_filter``: the coefficients of the splines through the elements.

    >>> spline_filter(np.array([1.0, 1.0, 1.0])).round(12)
    array([1., 1., 1.])
    """
    _check_mode("spline_filter", mode, MODES)
    return spline_coefficients(_computed(_image("spline_filter", input)), int(order), mode)


def map_coordinates(
    input: Any, coordinates: Any, *, order: int = 3, mode: str = "constant", cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:  # fmt: skip
    """``scipy.ndimage.map_coordinates``: the image between its elements, at any places.

    `coordinates` has a row for each axis. `order` is that of the splines, 0 (the nearest element)
    to 5; the derivative with respect to the coordinates is theirs.

    >>> image = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> map_coordinates(image, [[0.5, 1.0], [0.5, 0.25]], order=1)
    array([1.5 , 2.25])
    """
    x, places = _image("map_coordinates", input, 1), wnp.asarray(coordinates)
    _check_mode("map_coordinates", mode, MODES)
    if np.ndim(places) < 1 or np.shape(places)[0] != np.ndim(x):
        raise ShapeError(
            explain(
                "map_coordinates",
                f"got coordinates of shape {np.shape(places)} for an image of {np.ndim(x)} axes",
                "Give a row of coordinates for each axis.",
            )
        )
    if order not in range(6):
        raise OptionError(explain("map_coordinates", f"got order={order!r}", "Use 0 to 5."))
    found = interpolated(_computed(x), list(places), int(order), mode, cval, prefilter)
    if type_of(x).dtype.kind in "iu":
        found = wnp.trunc(found + wnp.where(found > 0, 0.5, -0.5))
    return _in_dtype_of(x, found)


def affine_transform(
    input: Any, matrix: Any, offset: Any = 0.0, output_shape: Any = None, *, order: int = 3,
    mode: str = "constant", cval: Any = 0.0, prefilter: bool = True,
) -> Any:  # fmt: skip
    """``scipy.ndimage.affine_transform``: element o of the result lies at ``matrix @ o + offset``.

    `matrix` is square, or the vector of its diagonal.

    >>> affine_transform(np.arange(4.0), np.array([0.5]), 0.5, order=1)
    array([0.5, 1. , 1.5, 2. ])
    """
    x, matrix = _image("affine_transform", input, 1), wnp.asarray(matrix)
    rank = np.ndim(x)
    if np.shape(matrix) not in ((rank,), (rank, rank)):
        problem = f"got a matrix of shape {np.shape(matrix)} for an image of {rank} axes"
        raise ShapeError(explain("affine_transform", problem))
    matrix = wnp.diag(matrix) if np.ndim(matrix) == 1 else matrix
    grid = _grid(np.shape(x) if output_shape is None else tuple(output_shape))
    column = (slice(None), *(None,) * rank)
    offset = wnp.broadcast_to(wnp.asarray(offset), (rank,))
    places = wnp.tensordot(matrix, grid, 1) + offset[column]
    return map_coordinates(x, places, order=order, mode=mode, cval=cval, prefilter=prefilter)


def _grid(shape: tuple[int, ...]) -> np.ndarray:
    return np.indices(shape).astype(np.float64)


def shift(
    input: Any, shift: Any, *, order: int = 3, mode: str = "constant", cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:  # fmt: skip
    """``scipy.ndimage.shift``: the image moved, by any distance along each axis.

    >>> shift(np.arange(4.0), 0.5, order=1)
    array([0. , 0.5, 1.5, 2.5])
    """
    x = _image("shift", input, 1)
    moves = shift if np.ndim(shift) else [shift] * np.ndim(x)
    places = [grid - move for grid, move in zip(_grid(np.shape(x)), moves, strict=True)]
    options = {"order": order, "mode": mode, "cval": cval, "prefilter": prefilter}
    return map_coordinates(x, wnp.stack(places), **options)


def zoom(
    input: Any, zoom: Any, *, order: int = 3, mode: str = "constant", cval: Any = 0.0,
    prefilter: bool = True, grid_mode: bool = False,
) -> Any:  # fmt: skip
    """``scipy.ndimage.zoom``: the image with another number of elements.

    The first and last elements stay at the ends; with `grid_mode` the edges of the elements do.

    >>> zoom(np.array([0.0, 1.0, 2.0]), 5 / 3, order=1)
    array([0. , 0.5, 1. , 1.5, 2. ])
    """
    x = _image("zoom", input, 1)
    factors = _each("zoom", "zoom", zoom, np.ndim(x))
    shape = tuple(round(n * factor) for n, factor in zip(np.shape(x), factors, strict=True))
    grid = _grid(shape)
    for places, own, wanted in zip(grid, np.shape(x), shape, strict=True):
        if grid_mode:
            places[...] = (places + 0.5) * (own / max(wanted, 1)) - 0.5
        elif wanted > 1:
            places[...] = np.minimum(places * ((own - 1) / (wanted - 1)), own - 1)
    return map_coordinates(x, grid, order=order, mode=mode, cval=cval, prefilter=prefilter)
