"""Digits that the library draws: 28 x 28 images with labels, for which nothing is downloaded.

Each image takes one of the shapes of `strokes.py`, shakes its control points, bends, slants,
stretches, turns and shifts it, and moves a pen along it that presses unevenly. The ink of the pen
is spread over the pixels around each point of its way, blurred to the width of the pen, and cut off
where it is thin, which gives strokes with a flat top and soft edges. Then come contrast and noise.

An image is a function of the seed, the split and its number alone: images are drawn in chunks, each
with random bits of its own, so a smaller set is the beginning of a larger one. The bits are those
of `wengert.numpy.random`, and what is done with them for each pixel is sums and products, which
every machine rounds alike.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from ..errors import DataError, OutOfRangeError, explain
from ..numpy import random
from . import places
from .catalog import FILES, MAX_FILE_BYTES
from .idx import read_checked, write_idx
from .progress import Progress
from .sets import Dataset, Split
from .strokes import MAX_CONTROLS, SAMPLES, shapes

SIZE = 28
DRAWING = 1  # changes with whatever changes the images, so that a cache of old ones is not taken
_CHUNK = 500  # images drawn at once; part of what determines the images
_MARGIN = 4  # pixels around the image that catch ink, and the reach of the blur
_CANVAS = SIZE + 2 * _MARGIN
_WORTH_KEEPING = 5000  # images from which a set is kept on disk: about half a second of drawing
_MOST = 10_000_000
_PARAMETERS = 25  # label, shape, and what `_Hand.of` takes


def digits(train: int = 60_000, test: int = 10_000, seed: int = 0) -> Dataset:
    """A data set of digits drawn from strokes, shaped like MNIST; the same seed, the same bits.

    Large sets take a few seconds to draw and are then kept in the user's cache.

    >>> from wengert import data
    >>> drawn = data.digits(train=20, test=10)
    >>> drawn
    digits: 20 images of 28 x 28 to train, 10 to test (drawn with seed 0)
    >>> drawn.train.images.dtype, drawn.train.x.shape
    (dtype('uint8'), (20, 1, 28, 28))
    """
    counts = {"train": _count("train", train), "test": _count("test", test)}
    seed = operator.index(seed)
    key = random.key(seed)  # refuses a seed that is negative before anything else is done
    keep = train + test >= _WORTH_KEEPING
    name = f"digits-{DRAWING}-{train}-{test}-{seed}"
    arrays = _kept(name, counts) if keep else None
    if arrays is None:
        arrays = _draw_all(key, counts)
        if keep:
            places.store(name, {file: write_idx(a) for file, a in zip(FILES, arrays, strict=True)})
    splits = Split(arrays[0], arrays[1]), Split(arrays[2], arrays[3])
    return Dataset("digits", *splits, tuple("0123456789"), f"drawn with seed {seed}")


def _count(name: str, value: Any) -> int:
    number = operator.index(value)
    if not 0 <= number <= _MOST:
        raise OutOfRangeError(
            explain("data.digits", f"got {name}={number}, expected 0 to {_MOST:,}")
        )
    return number


def _kept(name: str, counts: dict[str, int]) -> list[np.ndarray] | None:
    """The arrays as they were kept, if they are there and whole."""
    cache = places.cache_folder()
    if cache is None or not places.intact(cache / name):
        return None
    try:
        limit = max(MAX_FILE_BYTES, max(counts.values()) * SIZE * SIZE)
        return [read_checked(cache / name / file, limit)[0] for file in FILES]
    except (DataError, OSError):
        return None


def _draw_all(key: Any, counts: dict[str, int]) -> list[np.ndarray]:
    total, done = sum(counts.values()), 0
    progress = Progress("drawing digits")
    arrays = []
    for split, count in enumerate(counts.values()):
        images = np.empty((count, SIZE, SIZE), np.uint8)
        labels = np.empty(count, np.uint8)
        own = random.fold_in(key, split)
        for number, start in enumerate(range(0, count, _CHUNK)):
            rows = slice(start, min(start + _CHUNK, count))
            drawn, written = draw(random.fold_in(own, number))
            images[rows] = drawn[: rows.stop - start]
            labels[rows] = written[: rows.stop - start]
            done += rows.stop - start
            if total >= _WORTH_KEEPING:
                progress.show(done, total, "images")
        arrays += [images, labels]
    progress.finish()
    return arrays


def draw(key: Any) -> tuple[np.ndarray, np.ndarray]:
    """One chunk of images and their labels, both uint8."""
    style_key, shake_key, noise_key = random.split(key, 3)
    style = _uniform(random.bits(style_key, (_PARAMETERS, _CHUNK)))
    hand = _Hand.of(style[2:])
    labels = (style[0] * 10).astype(int)
    way, starts = _ways(labels, style[1], _normal(shake_key, (_CHUNK, MAX_CONTROLS, 2)), hand)
    x, y = _on_the_page(_bend(way, hand), hand)
    ink = _blur(_spread(x, y, _pressure(x, y, starts, hand)), hand)
    return _expose(ink, noise_key, hand), labels.astype(np.uint8)


class _Hand(NamedTuple):
    """What makes one image differ from the next: for each image of a chunk, a column of numbers."""

    shake: np.ndarray  # of control points, in half heights of a digit
    bend_x: np.ndarray  # amplitude and phase of the waves that bend it
    bend_y: np.ndarray
    phase_x: np.ndarray
    phase_y: np.ndarray
    angle: np.ndarray  # radians
    slant: np.ndarray
    width: np.ndarray  # pixels from the middle
    height: np.ndarray
    shift_x: np.ndarray  # pixels
    shift_y: np.ndarray
    pen: np.ndarray  # the blur's standard deviation in pixels: strokes are about 2.4 times as wide
    unevenness: np.ndarray  # of the pressure, and where along the way
    phase: np.ndarray
    softness: np.ndarray  # of the edges
    contrast: np.ndarray
    noise: np.ndarray  # of the scanner: in steps of 255

    @classmethod
    def of(cls, style: np.ndarray) -> _Hand:
        values = iter(style[:, :, None])

        def between(low: float, high: float) -> Any:
            return low + (high - low) * next(values)

        def around(middle: float, spread: float) -> Any:
            """The sum of two, which prefers the middle."""
            return middle + spread * (next(values) + next(values) - 1)

        return cls(
            shake=between(0.02, 0.09),
            bend_x=between(0, 0.1),
            bend_y=between(0, 0.1),
            phase_x=between(0, 2 * np.pi),
            phase_y=between(0, 2 * np.pi),
            angle=around(0, 0.22),
            slant=around(-0.1, 0.3),
            width=around(9.2, 2.4),
            height=around(9.3, 1.8),
            shift_x=around(0, 2.4),
            shift_y=around(0, 2.0),
            pen=between(0.6, 1.25),
            unevenness=between(0, 0.4),
            phase=between(0, 2 * np.pi),
            softness=between(0.3, 0.8),
            contrast=between(0.8, 1.0),
            noise=between(0, 30),
        )


def _ways(
    labels: np.ndarray, choice: np.ndarray, shaken: np.ndarray, hand: _Hand
) -> tuple[np.ndarray, np.ndarray]:
    """The pen's way for each image, (N, SAMPLES, 2), and which of its points begin a stroke."""
    ways = np.empty((len(labels), SAMPLES, 2))
    starts = np.empty((len(labels), SAMPLES), bool)
    for digit, variants in enumerate(shapes()):
        variant = (choice * len(variants)).astype(int)
        for number, shape in enumerate(variants):
            rows = np.flatnonzero((labels == digit) & (variant == number))
            shake = shaken[rows, : len(shape.controls)] * hand.shake[rows, :, None]
            controls = shape.controls + shake
            # four products in a fixed order, not a product of matrices: the same bits everywhere
            parts = [
                controls[:, taken] * weights[:, None]
                for taken, weights in zip(shape.taken, shape.weights, strict=True)
            ]
            ways[rows] = parts[0] + parts[1] + parts[2] + parts[3]
            starts[rows] = shape.starts
    return ways, starts


def _bend(way: np.ndarray, hand: _Hand) -> tuple[np.ndarray, np.ndarray]:
    x, y = way[..., 0], way[..., 1]
    return (
        x + hand.bend_x * np.sin(2.5 * y + hand.phase_x),
        y + hand.bend_y * np.sin(3.0 * x + hand.phase_y),
    )


def _on_the_page(point: tuple[np.ndarray, np.ndarray], hand: _Hand) -> tuple[Any, Any]:
    """Slanted, stretched, turned, and moved to the middle of the image, in pixels."""
    x, y = point
    x, y = (x + hand.slant * y) * hand.width, y * hand.height
    cosine, sine = np.cos(hand.angle), np.sin(hand.angle)
    x, y = cosine * x - sine * y, sine * x + cosine * y
    middle = (_CANVAS - 1) / 2
    return (
        np.clip(_centred(x) + hand.shift_x + middle, 0, _CANVAS - 2),
        np.clip(_centred(y) + hand.shift_y + middle, 0, _CANVAS - 2),
    )


def _centred(x: np.ndarray) -> np.ndarray:
    centred: np.ndarray = x - 0.5 * (x.min(axis=1, keepdims=True) + x.max(axis=1, keepdims=True))
    return centred


def _pressure(x: np.ndarray, y: np.ndarray, starts: np.ndarray, hand: _Hand) -> np.ndarray:
    """The ink at each point: the length of the way to it, times the pressure of the pen there."""
    length = np.sqrt(np.diff(x, axis=1, prepend=0) ** 2 + np.diff(y, axis=1, prepend=0) ** 2)
    length[starts] = 0
    along = np.linspace(0, 12, SAMPLES)
    ink: np.ndarray = length * (1 + hand.unevenness * np.sin(along + hand.phase))
    return ink


def _spread(x: np.ndarray, y: np.ndarray, ink: np.ndarray) -> np.ndarray:
    """Share the ink of each point among the four pixels around it, in a canvas for each image."""
    column, row = np.floor(x), np.floor(y)
    right, below = x - column, y - row
    page = np.arange(len(x))[:, None] * (_CANVAS * _CANVAS)
    corner = (page + row * _CANVAS + column).astype(np.intp)
    pixels = [corner, corner + 1, corner + _CANVAS, corner + _CANVAS + 1]
    above, under = ink * (1 - below), ink * below
    shares = [above * (1 - right), above * right, under * (1 - right), under * right]
    size = len(x) * _CANVAS * _CANVAS
    canvas = np.bincount(np.ravel(pixels), np.ravel(shares), minlength=size)
    return canvas.astype(np.float32).reshape(len(x), _CANVAS, _CANVAS)


def _blur(canvas: np.ndarray, hand: _Hand) -> np.ndarray:
    """Blur each image with a Gaussian of its own width; 1 is the middle of a long straight line."""
    distance = np.arange(_MARGIN + 1)
    taps = np.exp(-0.5 * (distance / hand.pen) ** 2).astype(np.float32)
    taps /= taps[:, :1] + 2 * sum(taps[:, d : d + 1] for d in range(1, _MARGIN + 1))
    taps = taps[:, :, None, None]
    down = taps[:, 0] * canvas[:, _MARGIN:-_MARGIN]
    for d in range(1, _MARGIN + 1):
        above, below = _MARGIN - d, _MARGIN + d
        down += taps[:, d] * (canvas[:, above : above + SIZE] + canvas[:, below : below + SIZE])
    across = taps[:, 0] * down[:, :, _MARGIN:-_MARGIN]
    for d in range(1, _MARGIN + 1):
        left, right = _MARGIN - d, _MARGIN + d
        across += taps[:, d] * (down[:, :, left : left + SIZE] + down[:, :, right : right + SIZE])
    blurred: np.ndarray = across / taps[:, 0]
    return blurred


def _expose(ink: np.ndarray, noise_key: Any, hand: _Hand) -> np.ndarray:
    """Cut the ink off at the edges of the strokes, then add noise; bytes."""
    softness, contrast, noise = (
        part.astype(np.float32)[:, :, None] for part in (hand.softness, hand.contrast, hand.noise)
    )
    ink -= np.float32(0.5) * (1 - softness)
    ink /= softness
    np.clip(ink, 0, 1, out=ink)
    ink *= 255 * contrast
    grain = random.bits(noise_key, ink.size // 4).view(np.uint8).reshape(ink.shape)
    ink += noise * (grain * np.float32(2 / 255) - 1)
    shades: np.ndarray = np.rint(np.clip(ink, 0, 255, out=ink)).astype(np.uint8)
    return shades


def _uniform(bits: Any) -> np.ndarray:
    uniform: np.ndarray = bits * 2.0**-32
    return uniform


def _normal(key: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Nearly normal numbers, sums of four uniform ones: no logarithms, and none is far off."""
    normal: np.ndarray = (_uniform(random.bits(key, (4, *shape))).sum(axis=0) - 2) * 3**0.5
    return normal
