"""The examples that `fit` takes, whatever they come in: arrays, a split of a data set, a loader.

A `Source` has the arrays as they are stored, bytes as bytes, and makes a batch of given rows out of
them: pairs of inputs and targets. It does so with traced values too: inside the compiled step the
rows are gathered and the bytes become floats, one batch at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import tree
from ..data import Loader, Split
from ..errors import ShapeError, StructureError, explain
from ..tensor import Tensor, peek

_WHITE = np.float32(255)


class Source:
    """Arrays of examples, and how a batch is made of some of their rows.

    >>> source = Source("fit", (np.array([[51, 0], [0, 255]], np.uint8), np.array([3, 4])))
    >>> x, y = source.batch(source.arrays, np.array([1]))
    >>> x, y
    (array([[0., 1.]], dtype=float32), array([4]))
    """

    def __init__(self, operation: str, examples: Any, scale: bool = True):
        self.operation, self.scale = operation, scale
        self._makers: list[Callable[[Any], Any]] = []
        self.arrays: tuple[np.ndarray, ...] = ()
        inputs, targets = self._pair(examples)
        self.images = isinstance(examples, Split) or _are_images(inputs)
        self._inputs = self._take_in(inputs, self._scaled if scale else _same)
        self._targets = self._take_in(targets, _same)
        self.count = self._checked()

    def _pair(self, examples: Any) -> tuple[Any, Any]:
        if isinstance(examples, Split):
            return examples, examples.labels
        if isinstance(examples, dict) and set(examples) == {"x", "y"}:
            return examples["x"], examples["y"]
        if isinstance(examples, (tuple, list)) and len(examples) == 2:
            return examples[0], examples[1]
        got = type(examples).__name__
        if isinstance(examples, (tuple, list, dict)):
            got += f" of {len(examples)}"
        raise StructureError(
            explain(
                self.operation,
                f"got examples as {got}, expected a pair of inputs and targets",
                "Give (x, y), where each is an array or a tree of arrays, a split of a data set, "
                "or a data.Loader of one of these.",
            )
        )

    def _take_in(self, values: Any, maker: Callable[[Any], Any]) -> tree.Structure:
        leaves, structure = tree.flatten(values)
        for leaf in leaves:
            if isinstance(leaf, Split):
                self.arrays += (leaf.images,)
                self._makers.append(_image)
            else:
                self.arrays += (_plain(leaf),)
                self._makers.append(maker)
        return structure

    def _checked(self) -> int:
        if any(array.ndim == 0 for array in self.arrays) or not self.arrays:
            raise ShapeError(
                explain(self.operation, "got a number or nothing, expected arrays of examples")
            )
        lengths = [len(array) for array in self.arrays]
        if len(set(lengths)) > 1:
            raise ShapeError(
                explain(
                    self.operation,
                    f"the arrays have {', '.join(map(str, lengths))} rows",
                    "The first axes count the examples and must agree.",
                )
            )
        if not lengths[0]:
            raise ShapeError(explain(self.operation, "got arrays of no examples"))
        return lengths[0]

    def _scaled(self, batch: Any) -> Any:
        return batch / _WHITE if batch.dtype == np.uint8 else batch

    def batch(self, arrays: Any, rows: Any) -> tuple[Any, Any]:
        """Inputs and targets of these rows; `arrays` are the source's, or stand for them."""
        made = [maker(array[rows]) for maker, array in zip(self._makers, arrays, strict=True)]
        split = self._inputs.leaf_count
        inputs = tree.unflatten(self._inputs, made[:split])
        return inputs, tree.unflatten(self._targets, made[split:])


def unpacked(examples: Any) -> tuple[Any, Loader | None]:
    """The examples themselves, and the loader that they came in."""
    if not isinstance(examples, Loader):
        return examples, None
    return examples.arrays, examples


def _plain(leaf: Any) -> np.ndarray:
    """An array as compiled code takes it; what has to be converted is converted once."""
    array = np.asarray(peek(leaf) if isinstance(leaf, Tensor) else leaf)
    odd = any(stride % array.dtype.itemsize for stride in array.strides)
    if odd or not (array.flags.aligned and array.dtype.isnative):
        array = np.array(array, array.dtype.newbyteorder("="), order="C")
    return array


def _same(batch: Any) -> Any:
    return batch


def _image(batch: Any) -> Any:
    """As `Split.x` has it: floats, with an axis for the channel."""
    return (batch / _WHITE)[:, None]


def _are_images(inputs: Any) -> bool:
    return isinstance(inputs, np.ndarray) and (inputs.ndim == 4 or inputs.dtype == np.uint8)
