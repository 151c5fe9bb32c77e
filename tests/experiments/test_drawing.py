"""Charts and pictures: what they show, at the right places."""

import struct
import zlib
from xml.etree import ElementTree

import numpy as np
import pytest

from wengert.experiments import charts, pictures
from wengert.experiments.charts import Bar, Scale, Series

SVG = "{http://www.w3.org/2000/svg}"


def parsed(svg):
    return ElementTree.fromstring(svg)


def texts(svg):
    return [element.text for element in parsed(svg).iter(f"{SVG}text")]


def test_a_scale_maps_its_ends():
    assert Scale(0, 10, 100, 200)(5) == 150
    assert Scale(1, 100, 0, 2, log=True)(10) == pytest.approx(1)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.9131, 0.9655), (-3, 1200), (1e-6, 3e-6)])
def test_ticks_lie_inside_and_are_not_too_many(low, high):
    ticks = charts.round_numbers(low, high)
    assert 2 <= len(ticks) <= 7
    assert all(low - 1e-12 <= tick <= high + 1e-12 for tick in ticks)


def test_decades_are_thinned():
    assert len(charts.decades(1e-9, 1e9)) <= 8


def test_curves_bands_and_references_are_drawn():
    series = [
        Series("own <1>", [1, 2], [0.5, 0.7], dots=True, low=[0.4, 0.6], high=[0.6, 0.8]),
        Series("other", [1, 2], [0.1, 0.9], dashed=True),
    ]
    svg = charts.lines(series, "epoch", "accuracy", title="T", references=[("paper", 0.8)])
    root = parsed(svg)
    assert len(list(root.iter(f"{SVG}circle"))) == 2
    assert len(list(root.iter(f"{SVG}polygon"))) == 1
    assert len(list(root.iter(f"{SVG}polyline"))) == 2
    assert {"own <1>", "other", "paper", "epoch", "accuracy", "T"} <= set(texts(svg))


def test_values_that_are_not_finite_are_left_out():
    svg = charts.lines([Series("x", [1, 2, 3], [1.0, float("nan"), 2.0])], "x", "y")
    (line,) = parsed(svg).iter(f"{SVG}polyline")
    assert len(line.get("points").split()) == 2 and "nan" not in svg


def test_no_curves_make_an_empty_chart():
    assert charts.lines([], "x", "y").startswith("<svg")
    assert charts.bars([]) == ""


def test_epochs_are_whole():
    series = [Series("", [1, 2], [0.5, 0.7])]
    assert "1.2" in texts(charts.lines(series, "epoch", "y"))
    assert "1.2" not in texts(charts.lines(series, "epoch", "y", whole_x=True))


@pytest.mark.parametrize("log", [False, True])
def test_longer_bars_for_larger_values(log):
    rows = [Bar("a", 1.0, "1 s", own=True), Bar("b", 100.0, "100 s"), Bar("none", 0.0, "0 s")]
    widths = [
        float(bar.get("width")) for bar in parsed(charts.bars(rows, log=log)).iter(f"{SVG}rect")
    ]
    assert widths[2] < widths[0] < widths[1]


@pytest.mark.parametrize("shape", [(3, 5), (4, 2, 3)])
def test_png_holds_the_pixels(shape):
    pixels = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    data = pictures.png(pixels)
    width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
    assert (height, width, depth, kind) == (*shape[:2], 8, 2 if len(shape) == 3 else 0)
    start = data.index(b"IDAT") + 4
    (length,) = struct.unpack(">I", data[start - 8 : start - 4])
    rows = np.frombuffer(zlib.decompress(data[start : start + length]), np.uint8)
    assert np.array_equal(rows.reshape(height, -1)[:, 1:].reshape(shape), pixels)


def test_maps_are_blue_below_and_orange_above_with_the_first_row_at_the_bottom():
    red, _, blue = (
        pictures._coloured(np.array([[0.0], [1.0]]))[:, 0, c].astype(int) for c in range(3)
    )
    assert red[0] > blue[0] and blue[1] > red[1]


def test_a_gallery_has_all_images():
    svg = pictures.gallery([np.zeros((28, 28), np.uint8)] * 12, ["7→1"] * 12, columns=10)
    assert len(list(parsed(svg).iter(f"{SVG}image"))) == 12
    assert texts(svg) == ["7→1"] * 12
