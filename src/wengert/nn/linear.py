"""Layers that multiply by a weight, look up a table, or change the shape alone.

`Linear` is the shortest example of a layer: parameters made in ``__init__``, used in `forward`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import numpy as wnp
from . import functional, init
from .module import Module, Parameter

__all__ = ["Bilinear", "Embedding", "EmbeddingBag", "Flatten", "Identity", "Linear", "Unflatten"]


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


class Bilinear(Module):
    """``x1 @ weight[o] @ x2 + bias[o]`` for each feature o of the result.

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.Bilinear(2, 3, 4)(np.ones((5, 2), np.float32), np.ones((5, 3), np.float32)).shape
    (5, 4)
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        dtype: Any = np.float32,
    ):
        self.in1_features, self.in2_features = in1_features, in2_features
        self.out_features = out_features
        self.weight = Parameter(np.empty((out_features, in1_features, in2_features), dtype))
        self.bias = Parameter(np.empty(out_features, dtype)) if bias else None
        bound = 1 / math.sqrt(in1_features)
        init.uniform_(self.weight, -bound, bound)
        if bias:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Any, input2: Any) -> Any:
        """Features in the last axes."""
        return functional.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes."""
        return f"{self.in1_features}, {self.in2_features}, {self.out_features}"


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


class EmbeddingBag(Module):
    """The sum, the mean or the largest of the vectors of each bag of integers.

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.EmbeddingBag(10, 4, mode="sum")(np.array([1, 2, 3]), np.array([0, 2])).shape
    (2, 4)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        mode: str = "mean",
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        dtype: Any = np.float32,
    ):
        self.num_embeddings, self.embedding_dim, self.mode = num_embeddings, embedding_dim, mode
        self.include_last_offset, self.padding_idx = include_last_offset, padding_idx
        self.weight = Parameter(np.empty((num_embeddings, embedding_dim), dtype))
        init.normal_(self.weight)
        if padding_idx is not None:
            init.zeros_(self.weight[padding_idx])

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        """A row of integers for each bag; or a vector, and where in it each bag begins."""
        return functional.embedding_bag(
            input,
            self.weight,
            offsets,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )

    def extra_repr(self) -> str:
        """The sizes and the mode."""
        tail = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}, mode={self.mode!r}{tail}"


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


class Unflatten(Module):
    """The axis `dim` made several.

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.Unflatten(1, (2, 3))(np.ones((5, 6))).shape
    (5, 2, 3)
    """

    def __init__(self, dim: int, unflattened_size: Any):
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Any) -> Any:
        """The same elements in the same order."""
        own = np.shape(input)
        axis = self.dim % len(own)
        return wnp.reshape(input, (*own[:axis], *self.unflattened_size, *own[axis + 1 :]))

    def extra_repr(self) -> str:
        """The axis and the sizes."""
        return f"{self.dim}, {self.unflattened_size}"


class Identity(Module):
    """What comes in goes out.

    >>> from wengert import nn
    >>> nn.Identity()(3.0)
    3.0
    """

    def forward(self, input: Any) -> Any:
        """The input itself."""
        return input
