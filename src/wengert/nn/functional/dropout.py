"""Dropout: noise in training."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import numpy as wnp
from ...errors import OptionError, ShapeError, explain
from ...numpy import random
from ..seeding import next_key
from .activations import SELU_ALPHA, SELU_SCALE
from .ranks import by_rank

__all__ = [
    "alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout",
]  # fmt: skip


def dropout(input: Any, p: float = 0.5, training: bool = True, key: Any = None) -> Any:
    """In training, zeros in random places with probability `p`; the rest grows by 1 / (1 - p).

    The numbers come from the stream that `nn.manual_seed` starts, or from a `key` (see
    `wengert.numpy.random`).

    >>> import numpy as np
    >>> dropout(np.ones(2), training=False)
    array([1., 1.])
    """
    return _dropped("dropout", input, p, training, key, np.shape(input))


def _dropped(name: str, x: Any, p: float, training: bool, key: Any, shape: Any) -> Any:
    """Dropout with one decision for each element of `shape`, which broadcasts to the input."""
    _check_probability(name, p)
    if not training or p == 0:
        return x
    if p == 1:
        return x * 0
    kept = _kept(p, key, shape)
    return wnp.where(kept, x * (1.0 / (1.0 - p)), 0)


def _check_probability(name: str, p: float) -> None:
    if not 0 <= p <= 1:
        raise OptionError(explain(name, f"got p={p}", "It is a probability, between 0 and 1."))


def _kept(p: float, key: Any, shape: Any) -> Any:
    return random.bernoulli(next_key() if key is None else key, np.float32(1.0 - p), shape)


def _channels(name: str, rank: int, x: Any) -> tuple[int, ...]:
    own = np.shape(x)
    if len(own) not in (rank + 1, rank + 2):
        raise ShapeError(
            explain(
                name,
                f"got input of shape {own}, expected {rank + 2} axes, or {rank + 1} without "
                "samples",
            )
        )
    return (*own[:-rank], *(1,) * rank)


def channel_dropout(
    rank: int, input: Any, p: float = 0.5, training: bool = True, key: Any = None
) -> Any:
    """`dropout` of whole channels of (samples, channels, SPACE).

    >>> import numpy as np
    >>> dropout2d(np.ones((1, 1, 2)), training=False)
    array([[[1., 1.]]])
    """
    name = f"dropout{rank}d"
    return _dropped(name, input, p, training, key, _channels(name, rank, input))


dropout1d, dropout2d, dropout3d = by_rank(channel_dropout, "dropout")


def alpha_dropout(input: Any, p: float = 0.5, training: bool = False, key: Any = None) -> Any:
    """In training, the lower limit of `selu` in random places with probability `p`, and all
    shifted and scaled so that mean 0 and variance 1 stay.

    >>> import numpy as np
    >>> alpha_dropout(np.ones(2))
    array([1., 1.])
    """
    return _alpha_dropped("alpha_dropout", input, p, training, key, np.shape(input))


def feature_alpha_dropout(
    input: Any, p: float = 0.5, training: bool = False, key: Any = None
) -> Any:
    """`alpha_dropout` of whole channels: of all but the first two axes at once.

    >>> import numpy as np
    >>> feature_alpha_dropout(np.ones((1, 2)))
    array([[1., 1.]])
    """
    own = np.shape(input)
    shape = (*own[:2], *(1,) * (len(own) - 2))
    return _alpha_dropped("feature_alpha_dropout", input, p, training, key, shape)


def _alpha_dropped(name: str, x: Any, p: float, training: bool, key: Any, shape: Any) -> Any:
    _check_probability(name, p)
    if not training or p == 0:
        return x
    if p == 1:
        return x * 0
    lowest = -SELU_ALPHA * SELU_SCALE
    scale = 1.0 / math.sqrt((1.0 - p) * (1.0 + p * lowest * lowest))
    return (wnp.where(_kept(p, key, shape), x, lowest) - p * lowest) * scale
