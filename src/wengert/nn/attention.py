"""Attention with several heads."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import numpy as wnp
from ..errors import ShapeError, explain
from . import functional, init
from .functional.attention import attention_weights
from .linear import Linear
from .module import Module, Parameter

__all__ = ["MultiHeadAttention", "MultiheadAttention"]


class MultiHeadAttention(Module):
    """Every place of a sequence looks up others, with `num_heads` patterns at once.

    Query, key and value are (length, samples, features), with `batch_first` (samples, length,
    features), or (length, features). `kdim` and `vdim` are the features of keys and values where
    they differ from `embed_dim`; `add_bias_kv` adds one learned place to keys and values,
    `add_zero_attn` one of zeros.

    >>> import numpy as np
    >>> from wengert import nn
    >>> x = np.ones((2, 5, 8), np.float32)
    >>> y, weights = nn.MultiHeadAttention(8, 2, batch_first=True)(x, x, x)
    >>> y.shape, weights.shape
    ((2, 5, 8), (2, 5, 5))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        dtype: Any = np.float32,
    ):
        if num_heads < 1 or embed_dim % num_heads:
            raise ShapeError(
                explain(
                    "MultiHeadAttention",
                    f"got embed_dim={embed_dim} and num_heads={num_heads}",
                    "The features must be a multiple of the heads.",
                )
            )
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.add_zero_attn, self.batch_first = add_zero_attn, batch_first
        self._make_projections(bias, dtype)
        self.out_proj = Linear(embed_dim, embed_dim, bias, dtype)
        if bias:
            init.zeros_(self.out_proj.bias)
        self.bias_k = Parameter(np.empty((1, 1, embed_dim), dtype)) if add_bias_kv else None
        self.bias_v = Parameter(np.empty((1, 1, embed_dim), dtype)) if add_bias_kv else None
        if add_bias_kv:
            init.glorot_normal_(self.bias_k)
            init.glorot_normal_(self.bias_v)

    def _make_projections(self, bias: bool, dtype: Any) -> None:
        """One weight for all three where they have the same shape, as in PyTorch."""
        size = self.embed_dim

        def weight(rows: int, columns: int, wanted: bool) -> Any:
            if not wanted:
                return None
            return init.glorot_uniform_(Parameter(np.empty((rows, columns), dtype)))

        same = self.kdim == self.vdim == size
        self.in_proj_weight = weight(3 * size, size, same)
        self.q_proj_weight = weight(size, size, not same)
        self.k_proj_weight = weight(size, self.kdim, not same)
        self.v_proj_weight = weight(size, self.vdim, not same)
        self.in_proj_bias = Parameter(np.zeros(3 * size, dtype)) if bias else None

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Any, Any]:
        """The result, and how much each query looked at each key (None unless `need_weights`).

        `attn_mask` (queries, keys), or one for each sample and head, and `key_padding_mask`
        (samples, keys) are added to the products, or are Boolean and true where no one may look.
        """
        single = len(np.shape(query)) == 2
        inputs = [self._batch_first(x, single) for x in (query, key, value)]
        q, k, v = self._projections(*inputs)
        mask = self._mask(np.shape(q), np.shape(k), attn_mask, key_padding_mask, single, is_causal)
        k, v, mask = self._with_extra_places(k, v, mask)
        q, k, v = (self._heads(x) for x in (q, k, v))
        weights = attention_weights(q, k, mask)
        if self.training and self.dropout:
            weights = functional.dropout(weights, self.dropout)
        samples, _, length, _ = np.shape(q)
        mixed = wnp.reshape(
            wnp.swapaxes(wnp.matmul(weights, v), 1, 2), (samples, length, self.embed_dim)
        )
        result = self.out_proj(mixed)
        if single:
            result = wnp.squeeze(result, 0)
        elif not self.batch_first:
            result = wnp.swapaxes(result, 0, 1)
        if not need_weights:
            return result, None
        shown = wnp.mean(weights, axis=1) if average_attn_weights else weights
        return result, wnp.squeeze(shown, 0) if single else shown

    def _batch_first(self, x: Any, single: bool) -> Any:
        """(samples, length, features)."""
        if single:
            return wnp.expand_dims(x, 0)
        return x if self.batch_first else wnp.swapaxes(x, 0, 1)

    def _projections(self, query: Any, key: Any, value: Any) -> list[Any]:
        if self.in_proj_weight is None:
            weights = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        else:
            weights = wnp.split(self.in_proj_weight, 3)
        biases: Any = [None] * 3
        if self.in_proj_bias is not None:
            biases = wnp.split(self.in_proj_bias, 3)
        parts = zip((query, key, value), weights, biases, strict=True)
        return [functional.linear(x, weight, bias) for x, weight, bias in parts]

    def _heads(self, x: Any) -> Any:
        """(samples, heads, length, features of a head)."""
        samples, length, _ = np.shape(x)
        split = wnp.reshape(x, (samples, length, self.num_heads, self.embed_dim // self.num_heads))
        return wnp.swapaxes(split, 1, 2)

    def _mask(
        self,
        q: tuple[Any, ...],
        k: tuple[Any, ...],
        attn_mask: Any,
        padding_mask: Any,
        single: bool,
        causal: bool,
    ) -> Any:
        """What is added to the products, in a shape that broadcasts to all of them, or None."""
        if causal and attn_mask is None:
            attn_mask = ~np.tri(q[1], k[1], dtype=bool)
        mask = None
        if attn_mask is not None:
            mask = _additive(attn_mask, self.weight_dtype)
            if len(np.shape(mask)) == 3:
                mask = wnp.reshape(mask, (q[0], self.num_heads, q[1], k[1]))
        if padding_mask is not None:
            padding = _additive(padding_mask, self.weight_dtype)
            padding = wnp.reshape(padding, (1 if single else q[0], 1, 1, k[1]))
            mask = padding if mask is None else mask + padding
        return mask

    @property
    def weight_dtype(self) -> np.dtype:
        """The dtype of the parameters."""
        return self.out_proj.weight.dtype

    def _with_extra_places(self, k: Any, v: Any, mask: Any) -> tuple[Any, Any, Any]:
        """One learned place, or one of zeros, after all others; every query may look there."""
        samples, _, size = np.shape(k)
        extra: list[tuple[Any, Any]] = []
        if self.bias_k is not None:
            extra.append((self.bias_k, self.bias_v))
        if self.add_zero_attn:
            zeros = np.zeros((1, 1, size), k.dtype)
            extra.append((zeros, zeros))
        for more_k, more_v in extra:
            k, v = (
                wnp.concatenate([x, wnp.broadcast_to(more, (samples, 1, size))], axis=1)
                for x, more in ((k, more_k), (v, more_v))
            )
            if mask is not None:
                mask = wnp.pad(mask, [(0, 0)] * (len(np.shape(mask)) - 1) + [(0, 1)])
        return k, v, mask


def _additive(mask: Any, dtype: Any) -> Any:
    """A Boolean mask as numbers to add: -inf where no one may look."""
    if mask.dtype.kind != "b":
        return mask
    return wnp.where(mask, np.array(-np.inf, dtype), np.array(0, dtype))


MultiheadAttention = MultiHeadAttention
