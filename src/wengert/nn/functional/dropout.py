"""Dropout: noise in training."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy as wnp
from ...errors import OptionError, explain
from ...numpy import random
from ..seeding import next_key


def dropout(input: Any, p: float = 0.5, training: bool = True, key: Any = None) -> Any:
    """In training, zeros in random places with probability `p`; the rest grows by 1 / (1 - p).

    The numbers come from the stream that `nn.manual_seed` starts, or from a `key` (see
    `wengert.numpy.random`).

    >>> import numpy as np
    >>> dropout(np.ones(2), training=False)
    array([1., 1.])
    """
    if not 0 <= p <= 1:
        raise OptionError(explain("dropout", f"got p={p}", "It is a probability, between 0 and 1."))
    if not training or p == 0:
        return input
    if p == 1:
        return input * 0
    keep = 1.0 - p
    kept = random.bernoulli(next_key() if key is None else key, np.float32(keep), np.shape(input))
    return wnp.where(kept, input * (1.0 / keep), 0)
