"""Batches of examples, and folds for cross validation.

The examples are any tree of arrays (a tuple, a dict, ...) whose first axes agree, or a `Split` of a
data set; each batch is a tree like it. Batches in order are views, shuffled ones are gathered once.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import tree
from ..errors import DataError, DTypeError, OutOfRangeError, ShapeError, explain
from .sets import Split, take
from .shuffling import epoch_order


class Loader:
    """Iterates over batches; each ``for`` loop over it is one epoch.

    With `shuffle`, the order of an epoch is `epoch_order(count, seed, epoch)`: the same seed gives
    the same batches, each epoch its own. `drop_last` leaves out a last batch that is not full.

    >>> loader = Loader({"x": np.arange(5) * 10, "y": np.arange(5)}, batch_size=2)
    >>> [batch["x"].tolist() for batch in loader]
    [[0, 10], [20, 30], [40]]
    >>> len(loader)
    3

    `state`, a dict of integers, says where the loader stands; a loader of the same arguments that
    is given it goes on from there, in the middle of an epoch too.

    >>> loader = Loader(np.arange(6), batch_size=2, shuffle=True, seed=1)
    >>> first = next(iter(loader))
    >>> other = Loader(np.arange(6), batch_size=2, shuffle=True, seed=1)
    >>> other.state = loader.state
    >>> sorted(np.concatenate([first, *other]).tolist())
    [0, 1, 2, 3, 4, 5]

    A loop that is left early has ended its epoch: the next loop is the next epoch.
    """

    def __init__(
        self,
        arrays: Any,
        batch_size: int,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
    ):
        self._leaves, self._structure = _rows_of("Loader", arrays)
        self.count = len(self._leaves[0])
        self.batch_size = _positive("Loader", "batch_size", batch_size)
        self.shuffle = shuffle
        self.seed = operator.index(seed)
        self.drop_last = drop_last
        self._epoch = self._batch = 0
        self._resume = False

    @property
    def arrays(self) -> Any:
        """The examples, in the structure and order in which they were given."""
        return tree.unflatten(self._structure, self._leaves)

    def __len__(self) -> int:
        full, rest = divmod(self.count, self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    @property
    def epoch(self) -> int:
        """The number of the epoch that is under way, or of the one that comes next."""
        return self._epoch

    @property
    def state(self) -> dict[str, int]:
        """The epoch and the number of its batches that were handed out, with the settings."""
        return {"epoch": self._epoch, "batch": self._batch, **self._settings()}

    @state.setter
    def state(self, state: dict[str, int]) -> None:
        for name, own in self._settings().items():
            if state.get(name) != own:
                raise DataError(
                    explain(
                        "Loader",
                        f"the state has {name}={state.get(name)}, this loader {name}={own}",
                        "Resume with a loader of the same data and arguments.",
                    )
                )
        epoch, batch = state["epoch"], state["batch"]
        if epoch < 0 or not 0 <= batch <= len(self):
            raise OutOfRangeError(
                explain(
                    "Loader",
                    f"the state has epoch={epoch}, batch={batch}, expected an epoch that is not "
                    f"negative and at most {len(self)} batches",
                )
            )
        self._epoch, self._batch = epoch, batch
        self._resume = True

    def _settings(self) -> dict[str, int]:
        return {
            "count": self.count,
            "batch_size": self.batch_size,
            "shuffle": int(self.shuffle),
            "seed": self.seed,
            "drop_last": int(self.drop_last),
        }

    def __iter__(self) -> Iterator[Any]:
        epoch, first = self._epoch, self._batch
        if not self._resume and first:  # the loop before was left early
            epoch, first = epoch + 1, 0
        self._epoch, self._batch, self._resume = epoch, first, False
        return self._batches(epoch, first)

    def _batches(self, epoch: int, first: int) -> Iterator[Any]:
        order = epoch_order(self.count, self.seed, epoch) if self.shuffle else None
        for number in range(first, len(self)):
            rows: Any = slice(number * self.batch_size, (number + 1) * self.batch_size)
            # before handing out: who saves the state in the loop's body has had this batch
            self._epoch, self._batch = epoch, number + 1
            yield self._take(rows if order is None else order[rows])
        self._epoch, self._batch = epoch + 1, 0

    def _take(self, rows: Any) -> Any:
        return tree.unflatten(self._structure, [_batch(leaf, rows) for leaf in self._leaves])


def kfold(arrays: Any, folds: int = 5, seed: int | None = 0) -> Iterator[tuple[Any, Any]]:
    """The pairs (train, test) of a cross validation; each example is in one test part.

    Of a number, the pairs are row numbers in rising order; of a tree of arrays or a `Split`, they
    are trees like it. Examples are dealt to the folds at random; `seed=None` keeps their order. The
    sizes of the folds differ by at most one.

    >>> for train, test in kfold(5, folds=2, seed=None):
    ...     print(train, test)
    [3 4] [0 1 2]
    [0 1 2] [3 4]
    """
    folds = _positive("kfold", "folds", folds)
    whole = isinstance(arrays, int | np.integer)
    leaves, structure = ([], None) if whole else _rows_of("kfold", arrays)
    count = int(arrays) if whole else len(leaves[0])
    if not 2 <= folds <= count:
        raise OutOfRangeError(
            explain("kfold", f"got folds={folds} for {count} examples, expected 2 to {count}")
        )
    pairs = _fold_rows(count, folds, seed)
    if structure is None:
        return pairs
    return (
        tuple(tree.unflatten(structure, [leaf[rows] for leaf in leaves]) for rows in pair)
        for pair in pairs
    )


def _fold_rows(count: int, folds: int, seed: int | None) -> Iterator[tuple[Any, Any]]:
    order = np.arange(count) if seed is None else epoch_order(count, seed, 0)
    for part in np.array_split(order, folds):
        tested = np.zeros(count, bool)
        tested[part] = True
        yield np.flatnonzero(~tested), np.flatnonzero(tested)


def _rows_of(operation: str, arrays: Any) -> tuple[list[Any], tree.Structure]:
    """The leaves, arrays or splits whose lengths agree."""
    leaves, structure = tree.flatten(arrays)
    leaves = [leaf if isinstance(leaf, Split) else np.asarray(leaf) for leaf in leaves]
    if not leaves:
        raise ShapeError(explain(operation, "got no arrays", "Hand over at least one."))
    if any(not isinstance(leaf, Split) and leaf.ndim == 0 for leaf in leaves):
        raise ShapeError(explain(operation, "got a number, expected arrays of examples"))
    lengths = [len(leaf) for leaf in leaves]
    if len(set(lengths)) > 1:
        raise ShapeError(
            explain(
                operation,
                f"the arrays have {', '.join(map(str, lengths))} rows",
                "The first axes count the examples and must agree.",
            )
        )
    return leaves, structure


def _batch(leaf: Any, rows: Any) -> Any:
    return leaf.batch(rows) if isinstance(leaf, Split) else take(leaf, rows)


def _positive(operation: str, name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise DTypeError(
            explain(operation, f"got {name}={value!r}, expected a whole number")
        ) from None
    if number < 1:
        raise OutOfRangeError(explain(operation, f"got {name}={number}, expected at least 1"))
    return number
