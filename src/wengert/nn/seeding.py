"""One stream of random numbers for initial weights and dropout.

`manual_seed` starts it; the same seed gives the same bits, evaluated and compiled. The stream is a
key (see `wengert.numpy.random`) in a tensor: inside `jit` it is state, so a compiled program
advances it by itself and each call draws new numbers.

>>> from wengert import nn
>>> manual_seed(0)
>>> first = nn.Linear(3, 2).weight.numpy()
>>> manual_seed(0)
>>> bool((nn.Linear(3, 2).weight.numpy() == first).all())
True
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..errors import ShapeError, explain
from ..numpy import random
from ..tensor import Aside, Tensor, operand, peek

__all__ = ["fork_rng", "get_rng_state", "manual_seed", "next_key", "set_rng_state"]

_key = Tensor(random.key(0))


def manual_seed(seed: int) -> None:
    """Start the stream of random numbers anew."""
    _key[...] = random.key(seed)


def get_rng_state() -> np.ndarray:
    """Where the stream is now: two words, to continue from with `set_rng_state`."""
    return np.array(peek(_key))


def set_rng_state(state: Any) -> None:
    """Continue the stream from where `get_rng_state` was called."""
    state = np.asarray(state)
    if state.shape != (2,) or state.dtype != np.uint32:
        raise ShapeError(
            explain(
                "set_rng_state",
                f"got {state.dtype} of shape {state.shape}, expected uint32 of shape (2,)",
                "Give what get_rng_state returned, or use manual_seed.",
            )
        )
    _key[...] = state


def next_key() -> Any:
    """A key that was not used before; the stream moves on.

    >>> manual_seed(0)
    >>> bool((next_key() == next_key()).all())
    False
    """
    now = operand(_key)
    following, fresh = random.split(now)
    _key[...] = following
    return fresh


@contextlib.contextmanager
def fork_rng(number: Any) -> Iterator[None]:
    """Draw from a stream of its own meanwhile, which `number` chooses; the other one stays.

    >>> manual_seed(0)
    >>> with fork_rng(1):
    ...     first = next_key()
    >>> with fork_rng(1):
    ...     second = next_key()
    >>> bool((first == second).all())
    True
    """
    with Aside([_key]):
        _key[...] = random.fold_in(operand(_key), number)
        yield
