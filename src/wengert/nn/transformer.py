"""Transformers: attention, then a small network at each place, again and again."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from ..errors import OptionError, explain
from ..types import Function
from . import functional, init
from .activations import Dropout
from .attention import MultiHeadAttention
from .containers import ModuleList
from .linear import Linear
from .module import Module
from .normalization import LayerNorm

__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
]  # fmt: skip

_ACTIVATIONS: dict[str, Function] = {"relu": functional.relu, "gelu": functional.gelu}


class _TransformerLayer(Module):
    """What both kinds of layers have: attention to themselves, and a network of two layers."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Function = functional.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        dtype: Any = np.float32,
    ):
        name = type(self).__name__
        if isinstance(activation, str):
            if activation not in _ACTIVATIONS:
                raise OptionError(
                    explain(
                        name, f"got activation={activation!r}", 'Use "relu", "gelu" or a function.'
                    )
                )
            activation = _ACTIVATIONS[activation]
        self.activation, self.norm_first = activation, norm_first

        def attention() -> Module:
            return MultiHeadAttention(
                d_model, nhead, dropout, bias, batch_first=batch_first, dtype=dtype
            )

        # in PyTorch's order, which is that of its state dicts and of optimizers
        self.self_attn = attention()
        if self.attends_to_memory:
            self.multihead_attn = attention()
        self.linear1 = Linear(d_model, dim_feedforward, bias, dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, dtype)
        parts = "123" if self.attends_to_memory else "12"
        for number in parts:
            setattr(
                self, f"norm{number}", LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)
            )
        for number in parts:
            setattr(self, f"dropout{number}", Dropout(dropout))

    attends_to_memory = False

    def _with(self, part: int, x: Any, change: Function) -> Any:
        """One residual part, with its norm before or after."""
        norm, dropout = getattr(self, f"norm{part}"), getattr(self, f"dropout{part}")
        if self.norm_first:
            return x + dropout(change(norm(x)))
        return norm(x + dropout(change(x)))

    def _feed_forward(self, x: Any) -> Any:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_TransformerLayer):
    """Attention of a sequence to itself, and a small network at each place.

    >>> import numpy as np
    >>> from wengert import nn
    >>> nn.TransformerEncoderLayer(8, 2, 16)(np.ones((5, 3, 8), np.float32)).shape
    (5, 3, 8)
    """

    def forward(
        self,
        src: Any,
        src_mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool = False,
    ) -> Any:
        """(length, samples, features), or as `batch_first` says; masks as in attention."""

        def attend(x: Any) -> Any:
            return self.self_attn(
                x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal
            )[0]

        return self._with(2, self._with(1, src, attend), self._feed_forward)


class TransformerDecoderLayer(_TransformerLayer):
    """Attention of a sequence to itself and to the encoder's output, and a small network.

    >>> import numpy as np
    >>> from wengert import nn
    >>> tgt, memory = np.ones((5, 3, 8), np.float32), np.ones((7, 3, 8), np.float32)
    >>> nn.TransformerDecoderLayer(8, 2, 16)(tgt, memory).shape
    (5, 3, 8)
    """

    attends_to_memory = True

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Any:
        """(length, samples, features), or as `batch_first` says; masks as in attention."""

        def attend(x: Any) -> Any:
            return self.self_attn(
                x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal
            )[0]

        def look_up(x: Any) -> Any:
            return self.multihead_attn(
                x, memory, memory, memory_key_padding_mask, False, memory_mask,
                is_causal=memory_is_causal,
            )[0]  # fmt: skip

        x = self._with(2, self._with(1, tgt, attend), look_up)
        return self._with(3, x, self._feed_forward)


class _Stack(Module):
    """Copies of a layer one after the other, and perhaps a norm at the end."""

    def _make(self, layer: Module, num_layers: int, norm: Module | None) -> None:
        self.layers = ModuleList([copy.deepcopy(layer) for _ in range(num_layers)])
        self.num_layers = num_layers
        self.norm = norm

    def _run(self, x: Any, *args: Any) -> Any:
        for layer in self.layers:
            x = layer(x, *args)
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_Stack):
    """`num_layers` copies of an encoder layer, and perhaps a norm at the end.

    >>> import numpy as np
    >>> from wengert import nn
    >>> encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2)
    >>> encoder(np.ones((5, 3, 8), np.float32)).shape
    (5, 3, 8)

    The last two arguments are for PyTorch's memory and make no difference here.
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ):
        self._make(encoder_layer, num_layers, norm)

    def forward(
        self,
        src: Any,
        mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool = False,
    ) -> Any:
        """As in the layers."""
        return self._run(src, mask, src_key_padding_mask, is_causal)


class TransformerDecoder(_Stack):
    """`num_layers` copies of a decoder layer, and perhaps a norm at the end.

    >>> import numpy as np
    >>> from wengert import nn
    >>> decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 2)
    >>> decoder(np.ones((5, 3, 8), np.float32), np.ones((7, 3, 8), np.float32)).shape
    (5, 3, 8)
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None):
        self._make(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Any:
        """As in the layers."""
        return self._run(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
            tgt_is_causal, memory_is_causal,
        )  # fmt: skip


class Transformer(Module):
    """An encoder of one sequence and a decoder of another (Vaswani et al. 2017).

    >>> import numpy as np
    >>> from wengert import nn
    >>> model = nn.Transformer(8, 2, 1, 1, 16)
    >>> mask = nn.Transformer.generate_square_subsequent_mask(5)
    >>> src, tgt = np.ones((7, 3, 8), np.float32), np.ones((5, 3, 8), np.float32)
    >>> model(src, tgt, tgt_mask=mask).shape
    (5, 3, 8)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Function = functional.relu,
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        dtype: Any = np.float32,
    ):
        options = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias, dtype,
        )  # fmt: skip

        def norm() -> Module:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)

        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*options), num_encoder_layers, norm()
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*options), num_decoder_layers, norm()
        )
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.glorot_uniform_(parameter)

    def forward(
        self,
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool = False,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Any:
        """The decoder's output for `tgt`, given `src`; masks as in attention."""
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
            tgt_is_causal, memory_is_causal,
        )  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(sz: int, dtype: Any = np.float32) -> np.ndarray:
        """What is added so that each place looks at itself and before: 0 there, else -inf.

        >>> Transformer.generate_square_subsequent_mask(2)
        array([[  0., -inf],
               [  0.,   0.]], dtype=float32)
        """
        return np.triu(np.full((sz, sz), -np.inf, dtype), 1)
