"""How the ten digits are written: strokes of the pen, several shapes for each digit.

A stroke is a list of points that a smooth curve passes through (a Catmull-Rom spline); corners are
where one stroke ends and the next begins. Coordinates are those of a box with x to the right and y
down, both from -1 to 1, the digit about 1.2 wide and 2 high.

A shape is kept as what drawing needs: its control points, one after the other, and for each of the
`SAMPLES` points along the pen's way the four control points that it depends on and their weights.
The way is linear in the control points, so thousands of shaken copies are drawn at once.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from math import cos, pi, sin

import numpy as np

SAMPLES = 96  # along the whole way of the pen: about two for each pixel
MAX_CONTROLS = 24

Point = tuple[float, float]
Stroke = list[Point]


def pen(points: str) -> Stroke:
    """Points written as ``x,y`` with spaces between them.

    >>> pen("0,-1 .5,1")
    [(0.0, -1.0), (0.5, 1.0)]
    """
    pairs = (point.split(",") for point in points.split())
    return [(float(x), float(y)) for x, y in pairs]


def arc(x: float, y: float, rx: float, ry: float, start: float, end: float) -> Stroke:
    """Points on an ellipse around (x, y), from one angle to another in degrees, 0 to the right."""
    count = max(3, round(abs(end - start) / 40) + 1)
    angles = [(start + (end - start) * i / (count - 1)) * pi / 180 for i in range(count)]
    return [(x + rx * cos(angle), y + ry * sin(angle)) for angle in angles]


SHAPES: tuple[tuple[list[Stroke], ...], ...] = (
    (  # 0: an oval, closed, with a tail, narrow and open
        [arc(0, 0, 0.62, 1, -90, 270)],
        [arc(0, 0, 0.6, 0.95, -60, 310)],
        [[*arc(0, 0.05, 0.52, 0.95, -110, -420), *pen(".15,-.55")]],
        [arc(0, 0, 0.4, 1, -70, 265)],
    ),
    (  # 1: a stroke, with a flag, with a flag and a foot
        [pen(".05,-1 0,0 0,1")],
        [pen("-.35,-.55 .05,-.95"), pen(".05,-.95 .05,1")],
        [pen("-.3,-.65 .05,-1"), pen(".05,-1 .05,.95"), pen("-.4,.95 .45,.95")],
    ),
    (  # 2: a hook and a foot, a loop at the foot, an angular one
        [pen("-.5,-.55 -.25,-.92 .15,-1 .5,-.65 .35,-.1 -.55,.95"), pen("-.55,.95 .6,.95")],
        [pen("-.5,-.65 -.1,-1 .4,-.8 .4,-.3 0,.4 -.4,.85 -.6,.7 -.35,.55 .1,.85 .6,.9")],
        [pen("-.45,-.85 .2,-1 .5,-.75 .3,-.2"), pen(".3,-.2 -.5,1"), pen("-.5,1 .1,.9 .6,1")],
    ),
    (  # 3: two bowls, a flat top, bowls that run into each other
        [
            pen("-.5,-.75 -.1,-1 .42,-.75 .35,-.3 -.1,-.05"),
            pen("-.1,-.05 .45,.15 .5,.65 .05,1 -.55,.75"),
        ],
        [
            pen("-.5,-.95 .5,-.95"),
            pen(".5,-.95 -.05,-.15"),
            pen("-.05,-.15 .45,.1 .5,.65 .05,1 -.5,.8"),
        ],
        [pen("-.45,-.85 .1,-1 .45,-.6 .1,-.1 .25,0 .55,.4 .3,.9 -.2,1 -.55,.7")],
    ),
    (  # 4: open with straight strokes, closed, open with a curve
        [pen("-.4,-.95 -.55,.15"), pen("-.55,.15 .6,.1"), pen(".3,-.6 .25,1")],
        [pen(".3,-1 -.6,.3"), pen("-.6,.3 .65,.3"), pen(".3,-1 .3,1")],
        [pen("-.5,-.9 -.55,-.25 -.2,.05 .25,-.1 .45,-.35"), pen(".5,-.95 .4,0 .35,1")],
    ),
    (  # 5: three strokes, one stroke, a long bar
        [
            pen(".5,-.95 -.4,-.95"),
            pen("-.4,-.95 -.45,-.15"),
            pen("-.45,-.15 .1,-.3 .52,.15 .4,.75 -.05,1 -.55,.75"),
        ],
        [pen(".5,-.9 0,-.95 -.35,-.75 -.35,-.3 .1,-.15 .45,.2 .4,.75 -.05,1 -.5,.85")],
        [
            pen(".65,-1 -.25,-.9"),
            pen("-.25,-.9 -.4,-.05"),
            pen("-.4,-.05 .2,-.15 .4,.35 .1,.85 -.55,.95"),
        ],
    ),
    (  # 6: a swung stem, a straight one, a small loop
        [pen(".4,-.95 -.1,-.7 -.5,0 -.5,.6 -.1,1 .35,.85 .5,.45 .2,.1 -.25,.2 -.5,.55")],
        [pen(".1,-1 -.3,-.3 -.48,.35"), arc(0, 0.5, 0.48, 0.48, 180, 540)],
        [pen(".05,-1 -.35,-.4 -.5,.4 -.2,.98 .25,.9 .35,.5 .05,.3 -.35,.6")],
    ),
    (  # 7: two strokes, with a bar, with a hook and a curve
        [pen("-.55,-.9 .55,-.95"), pen(".55,-.95 .15,0 -.15,1")],
        [pen("-.55,-.9 .55,-.95"), pen(".55,-.95 -.1,1"), pen("-.3,0 .5,-.05")],
        [pen("-.55,-.6 -.5,-.9"), pen("-.5,-.9 0,-.85 .55,-.95"), pen(".55,-.95 .1,-.1 0,1")],
    ),
    (  # 8: one stroke that crosses itself, two circles, an open top
        [pen(".4,-.7 0,-1 -.42,-.65 -.2,-.2 .25,.1 .5,.55 .05,1 -.48,.6 -.2,.1 .2,-.2 .42,-.6")],
        [arc(0, -0.5, 0.4, 0.47, 90, 450), arc(0, 0.48, 0.5, 0.5, -90, 270)],
        [pen(".5,-.85 .05,-1 -.4,-.7 -.1,-.15 .35,.3 .3,.85 -.15,1 -.4,.65 -.05,.1 .55,-.8")],
    ),
    (  # 9: a straight stem, a curved tail, a stem that leans
        [arc(-0.02, -0.48, 0.46, 0.5, 0, -360), pen(".46,-.75 .44,.1 .4,1")],
        [arc(0, -0.45, 0.45, 0.5, -20, -370), pen(".46,-.6 .45,.2 .2,.85 -.2,1 -.5,.8")],
        [pen(".45,-.75 .1,-1 -.35,-.75 -.4,-.3 0,-.1 .4,-.45 .48,-.8 .35,.1 0,1")],
    ),
)


@dataclass(frozen=True)
class Shape:
    """Control points (C, 2); for each sample, the four it takes (4, S) and their weights (4, S).

    `starts` marks the samples that begin a stroke: no ink flows to them from the one before.
    """

    controls: np.ndarray
    taken: np.ndarray
    weights: np.ndarray
    starts: np.ndarray


@functools.cache
def shapes() -> tuple[tuple[Shape, ...], ...]:
    """The shapes of each digit, ready to be drawn."""
    return tuple(tuple(_shape(strokes) for strokes in digit) for digit in SHAPES)


def _shape(strokes: list[Stroke]) -> Shape:
    controls, taken, weights, starts = [], [], [], []
    first = 0
    for stroke, count in zip(strokes, _shares(strokes), strict=True):
        positions = np.linspace(0, len(stroke) - 1, count)
        piece = np.minimum(positions.astype(int), len(stroke) - 2)
        around = piece + np.arange(-1, 3)[:, None]
        taken.append(first + np.clip(around, 0, len(stroke) - 1))
        weights.append(_catmull_rom(positions - piece))
        starts.append(np.arange(count) == 0)
        controls += stroke
        first += len(stroke)
    assert first <= MAX_CONTROLS
    return Shape(
        np.array(controls),
        np.concatenate(taken, axis=1),
        np.concatenate(weights, axis=1),
        np.concatenate(starts),
    )


def _shares(strokes: list[Stroke]) -> list[int]:
    """How many samples each stroke gets: in proportion to its length, `SAMPLES` in all."""
    lengths = [
        sum(float(np.hypot(*np.subtract(a, b))) for a, b in itertools.pairwise(stroke))
        for stroke in strokes
    ]
    ends = np.rint(np.cumsum(lengths) / sum(lengths) * SAMPLES).astype(int)
    counts: list[int] = np.diff(ends, prepend=0).tolist()
    return counts


def _catmull_rom(t: np.ndarray) -> np.ndarray:
    """Weights of the four control points around the place t in [0, 1] between the middle two."""
    return 0.5 * np.stack(
        [
            t * (-1 + t * (2 - t)),
            2 + t * t * (3 * t - 5),
            t * (1 + t * (4 - 3 * t)),
            t * t * (t - 1),
        ]
    )
