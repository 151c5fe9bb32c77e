"""What a data set is made of: splits of images with labels, held as bytes.

The images stay as they are stored, one byte for each pixel: a quarter of the memory of float32.
`Split.x` has them all as floats, made when first asked for; a `Loader` makes the floats of one
batch at a time and never needs `x`. Either way a pixel is ``byte / float32(255)``, to the bit.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..errors import DataError, OutOfRangeError, explain

_WHITE = np.float32(255)


class Examples(NamedTuple):
    """Inputs and targets; the first axis of both counts the examples."""

    x: Any
    y: Any


class Split:
    """The training or the test part of a data set of images.

    `images` is uint8 (N, height, width), `labels` int64 (N,). `x` is float32 (N, 1, height, width)
    in [0, 1], as `nn.Conv2d` takes it, and `y` the labels again. It unpacks into `x, y`; indexing
    with a slice, a mask or an array of rows gives a smaller split.

    >>> split = Split(np.full((4, 28, 28), 51, np.uint8), np.array([3, 1, 4, 1]))
    >>> x, y = split[:2]
    >>> x.shape, x[0, 0, 0, 0], y
    ((2, 1, 28, 28), np.float32(0.2), array([3, 1]))
    >>> split
    4 images of 28 x 28
    """

    def __init__(self, images: np.ndarray, labels: Any):
        if len(images) != len(labels):
            raise DataError(
                explain("Split", f"got {len(images):,} images and {len(labels):,} labels")
            )
        self.images = images
        self.labels = np.asarray(labels, np.int64)

    @functools.cached_property
    def x(self) -> np.ndarray:
        """All images as float32 (N, 1, height, width) in [0, 1]; kept once made."""
        return _as_floats(self.images)

    @property
    def y(self) -> np.ndarray:
        """The labels."""
        return self.labels

    def batch(self, rows: Any) -> Examples:
        """The examples with these numbers (a slice or an array) as `x` and `y`."""
        return Examples(_as_floats(take(self.images, rows)), take(self.labels, rows))

    def __len__(self) -> int:
        return len(self.images)

    def __iter__(self) -> Iterator[np.ndarray]:
        yield self.x
        yield self.y

    def __getitem__(self, rows: Any) -> Split:
        if isinstance(rows, int | np.integer):
            if not -len(self) <= rows < len(self):
                raise OutOfRangeError(
                    explain("Split", f"got the row {rows}, expected one of {len(self):,}")
                )
            rows = slice(rows, rows + 1 or None)
        return Split(self.images[rows], self.labels[rows])

    def __repr__(self) -> str:
        height, width = self.images.shape[1:]
        return f"{len(self):,} images of {height} x {width}"


class Dataset:
    """A named data set of images: `train` and `test`, the names of its `classes`, its `source`.

    It unpacks into its splits, and those into arrays:

    >>> splits = [Split(np.zeros((n, 28, 28), np.uint8), [7] * n) for n in (3, 2)]
    >>> sevens = Dataset("sevens", *splits)
    >>> (x_train, y_train), (x_test, y_test) = sevens
    >>> x_train.shape, y_test
    ((3, 1, 28, 28), array([7, 7]))
    >>> sevens
    sevens: 3 images of 28 x 28 to train, 2 to test
    """

    def __init__(
        self,
        name: str,
        train: Split,
        test: Split,
        classes: tuple[str, ...] = (),
        source: str = "",
    ):
        self.name = name
        self.train = train
        self.test = test
        self.classes = classes
        self.source = source

    def __iter__(self) -> Iterator[Split]:
        yield self.train
        yield self.test

    def __repr__(self) -> str:
        origin = f" ({self.source})" if self.source else ""
        return f"{self.name}: {self.train} to train, {len(self.test):,} to test{origin}"


def take(array: np.ndarray, rows: Any) -> np.ndarray:
    """Rows of an array: a view for a slice, else one gather."""
    return array[rows] if isinstance(rows, slice) else np.take(array, rows, axis=0)


def _as_floats(images: np.ndarray) -> np.ndarray:
    floats = np.empty(images.shape, np.float32)
    np.divide(images, _WHITE, out=floats)
    return floats[:, None]
