"""The order of the examples in an epoch: one function of the seed and of the epoch's number.

Whoever walks over data (`Loader`, `kfold`, `wg.fit`) takes the order from here, so that a run can
be resumed at any epoch without knowing the ones before, and a loop of one's own over a `Loader`
sees the batches that `wg.fit` sees. The order of epoch e is

    permutation(fold_in(key(seed), e), count)

with the functions of `wengert.numpy.random`. Those trace and compile, and so does this: `epoch`
may be a traced integer.
"""

from __future__ import annotations

from typing import Any

from ..numpy import random


def epoch_order(count: int, seed: int, epoch: Any) -> Any:
    """The numbers below `count` in the order in which epoch number `epoch` takes them.

    >>> epoch_order(6, seed=0, epoch=0)
    array([1, 4, 2, 0, 5, 3])
    >>> epoch_order(6, seed=0, epoch=1)
    array([4, 3, 2, 0, 1, 5])
    """
    return random.permutation(random.fold_in(random.key(seed), epoch), count)
