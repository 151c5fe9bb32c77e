"""Patches, channels and borders: layers that move elements."""

from __future__ import annotations

from typing import Any

from . import functional as f
from .applied import layer
from .module import Module

__all__ = [
    "ChannelShuffle", "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d",
    "ConstantPad2d", "ConstantPad3d", "Fold", "PixelShuffle", "PixelUnshuffle",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d",
    "ReplicationPad2d", "ReplicationPad3d", "Unfold", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip

Unfold = layer("Unfold", f.unfold)
Fold = layer("Fold", f.fold)
PixelShuffle = layer("PixelShuffle", f.pixel_shuffle)
PixelUnshuffle = layer("PixelUnshuffle", f.pixel_unshuffle)
ChannelShuffle = layer("ChannelShuffle", f.channel_shuffle)

# ---------------------------------------------------------------- borders


class _Pad(Module):
    """What the borders share: a width for all sides, or one for each."""

    rank: int
    mode: str

    def __init__(self, padding: Any):
        several = isinstance(padding, (tuple, list))
        self.padding = tuple(padding) if several else (padding,) * (2 * self.rank)

    def forward(self, input: Any) -> Any:
        """The last axes with a border."""
        return f.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        """The widths."""
        return f"{self.padding}"


class _ConstantPad(_Pad):
    mode = "constant"

    def __init__(self, padding: Any, value: float):
        super().__init__(padding)
        self.value = value

    def forward(self, input: Any) -> Any:
        """The last axes with a border."""
        return f.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        """The widths and the value."""
        return f"{self.padding}, {self.value}"


def _pads(
    name: str, base: type[Module], mode: str, about: str
) -> tuple[type[Module], type[Module], type[Module]]:
    def pad(rank: int) -> type[Module]:
        text = (
            f"A border of {about} around the last {'axis' if rank == 1 else f'{rank} axes'}.\n\n"
            "    `padding` is a width for all sides, or those before and after the last axis, then "
            "those of\n    the one before it, and so on.\n    "
        )
        body = {"__doc__": text, "__module__": "wengert.nn", "rank": rank, "mode": mode}
        return type(f"{name}Pad{rank}d", (base,), body)

    return pad(1), pad(2), pad(3)


ConstantPad1d, ConstantPad2d, ConstantPad3d = _pads(
    "Constant", _ConstantPad, "constant", "one value"
)
ZeroPad1d, ZeroPad2d, ZeroPad3d = _pads("Zero", _Pad, "constant", "zeros")
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = _pads(
    "Reflection", _Pad, "reflect", "the elements mirrored at the last one"
)
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = _pads(
    "Replication", _Pad, "replicate", "the last element"
)
CircularPad1d, CircularPad2d, CircularPad3d = _pads(
    "Circular", _Pad, "circular", "the elements of the other end"
)
