"""Pictures of pixels inside a page: small PNG images, written here, embedded as data."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from html import escape

import numpy as np


def png(pixels: np.ndarray) -> bytes:
    """A PNG file of uint8 pixels, (height, width) in grey or (height, width, 3) in colour.

    >>> png(np.zeros((2, 2), np.uint8))[:4]
    b'\\x89PNG'
    """
    height, width = pixels.shape[:2]
    kind = 2 if pixels.ndim == 3 else 0
    rows = np.ascontiguousarray(pixels, np.uint8).reshape(height, -1)
    filtered = b"".join(b"\0" + row.tobytes() for row in rows)
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(filtered, 9)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, body) for name, body in chunks)


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def image(pixels: np.ndarray, x: float, y: float, width: float, height: float) -> str:
    """An SVG element that shows the pixels, square by square."""
    data = base64.b64encode(png(pixels)).decode()
    return (
        f'<image x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
        f'preserveAspectRatio="none" style="image-rendering:pixelated" '
        f'href="data:image/png;base64,{data}"/>'
    )


def gallery(images: Sequence[np.ndarray], captions: Sequence[str], columns: int = 10) -> str:
    """Small images side by side, each with a line of text below."""
    side, gap, text = 64, 14, 20
    rows = -(-len(images) // columns)
    width = min(len(images), columns) * (side + gap) + gap
    height = rows * (side + text + gap) + gap
    parts = []
    for number, (pixels, caption) in enumerate(zip(images, captions, strict=True)):
        x = gap + number % columns * (side + gap)
        y = gap + number // columns * (side + text + gap)
        parts.append(image(pixels, x, y, side, side))
        parts.append(
            f'<text x="{x + side / 2:g}" y="{y + side + 14}" text-anchor="middle">'
            f"{escape(caption)}</text>"
        )
    return _svg(width, height, parts)


def decision_maps(maps: Sequence[np.ndarray], names: Sequence[str], radius: float) -> str:
    """What networks say about the unit square, in colours from 0 to 1, with the true circle."""
    side, gap, text = 150, 16, 20
    columns = 3
    rows = -(-len(maps) // columns)
    parts = []
    for number, (values, name) in enumerate(zip(maps, names, strict=True)):
        x = gap + number % columns * (side + gap)
        y = text + gap + number // columns * (side + text + gap)
        parts.append(f'<text x="{x}" y="{y - 7}" class="title">{escape(name)}</text>')
        parts.append(image(_coloured(values), x, y, side, side))
        parts.append(
            f'<circle cx="{x + side / 2:g}" cy="{y + side / 2:g}" r="{radius * side:.2f}" '
            'fill="none" stroke="#111" stroke-width="1.5" stroke-dasharray="4 3"/>'
        )
    width = min(len(maps), columns) * (side + gap) + gap
    return _svg(width, rows * (side + text + gap) + gap, parts)


_BELOW, _BETWEEN, _ABOVE = (
    np.array(c, float) for c in ((49, 104, 175), (247, 243, 236), (216, 96, 52))
)


def _coloured(values: np.ndarray) -> np.ndarray:
    """0 in blue, 0.5 in white, 1 in orange; the first row of values is at the bottom."""
    part = np.clip(np.asarray(values, float), 0.0, 1.0)[::-1, :, None]
    lower = _BELOW + (_BETWEEN - _BELOW) * np.minimum(part * 2, 1.0)
    upper = (_ABOVE - _BETWEEN) * np.maximum(part * 2 - 1, 0.0)
    return (lower + upper).round().astype(np.uint8)


def _svg(width: float, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg class="chart" role="img" xmlns="http://www.w3.org/2000/svg" '
        f'viewBox="0 0 {width} {height}" width="{width}" height="{height}">{"".join(parts)}</svg>'
    )
