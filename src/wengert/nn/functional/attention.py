"""Attention: values looked up by how well keys fit queries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import numpy as wnp
from .dropout import dropout

__all__ = ["scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Any:
    """The mean of the values, weighted by how well their keys fit the query.

    Shapes are (..., length, size). `attn_mask` is added to the products, or is Boolean and true
    where a query may look; `is_causal` lets it look at its own place and before.

    >>> import numpy as np
    >>> q = k = np.zeros((2, 3))
    >>> scaled_dot_product_attention(q, k, np.eye(2), is_causal=True)
    array([[1. , 0. ],
           [0.5, 0.5]])
    """
    if is_causal:
        causal = np.tri(np.shape(query)[-2], np.shape(key)[-2], dtype=bool)
        attn_mask = causal if attn_mask is None else wnp.logical_and(attn_mask, causal)
    weights = attention_weights(query, key, attn_mask, scale)
    return wnp.matmul(dropout(weights, dropout_p), value)


def attention_weights(query: Any, key: Any, mask: Any = None, scale: float | None = None) -> Any:
    """How much each query looks at each key: they sum to 1 over the keys.

    >>> import numpy as np
    >>> attention_weights(np.zeros((1, 3)), np.zeros((2, 3)))
    array([[0.5, 0.5]])
    """
    scale = 1.0 / math.sqrt(np.shape(query)[-1]) if scale is None else scale
    scores = wnp.matmul(query * scale, wnp.matrix_transpose(key))
    if mask is not None:
        allowed = mask.dtype.kind == "b"
        scores = wnp.where(mask, scores, -np.inf) if allowed else scores + mask
    return wnp.softmax(scores, axis=-1)
