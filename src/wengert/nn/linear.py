"""Layers that multiply by a weight, look up a table, or change the shape alone.

`Linear` is the shortest example of a layer: parameters made in ``__init__``, used in `forward`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import numpy as wnp
from . import functional, init
from .module import Module, Parameter


class Linear(Module):
    """``x @ weight.T + bias``.

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.Linear(3, 2)(np.ones((5, 3), np.float32)).shape
    (5, 2)
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, dtype: Any = np.float32
    ):
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(np.empty((out_features, in_features), dtype))
        self.bias = Parameter(np.empty(out_features, dtype)) if bias else None
        init.default_(self.weight, self.bias)

    def forward(self, input: Any) -> Any:
        """Features in the last axis."""
        return functional.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes."""
        return f"{self.in_features}, {self.out_features}"


class Embedding(Module):
    """A vector for each of the first integers; `padding_idx` names one that stays as it is.

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.Embedding(10, 4)(np.array([[1, 2, 3]])).shape
    (1, 3, 4)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        dtype: Any = np.float32,
    ):
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = padding_idx
        self.weight = Parameter(np.empty((num_embeddings, embedding_dim), dtype))
        init.normal_(self.weight)
        if padding_idx is not None:
            init.zeros_(self.weight[padding_idx])

    def forward(self, input: Any) -> Any:
        """Integers of any shape; the vectors are a new last axis."""
        return functional.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        """The sizes."""
        tail = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{tail}"


class Flatten(Module):
    """The axes from `start_dim` to `end_dim` made one.

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.Flatten()(np.ones((5, 2, 3))).shape
    (5, 6)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Any) -> Any:
        """The same elements in the same order."""
        own = np.shape(input)
        start, end = self.start_dim % len(own), self.end_dim % len(own)
        return wnp.reshape(input, (*own[:start], -1, *own[end + 1 :]))

    def extra_repr(self) -> str:
        """The axes where they are not the usual ones."""
        usual = (self.start_dim, self.end_dim) == (1, -1)
        return "" if usual else f"{self.start_dim}, {self.end_dim}"


class Identity(Module):
    """What comes in goes out.

    >>> from wengert import nn
    >>> nn.Identity()(3.0)
    3.0
    """

    def forward(self, input: Any) -> Any:
        """The input itself."""
        return input
