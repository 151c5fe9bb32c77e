"""The text and the pictures of a graph."""

import inspect
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import wengert as wg
from wengert.graph import drawing


def affine(w, x):
    y = w @ x
    return np.sum(y * 2.0) + 1.0


def line_of(function, offset):
    return f"test_printing.py:{inspect.getsourcelines(function)[1] + offset}"


def test_exact_text():
    graph = wg.trace(lambda x, y: (x + y) * x, 2.0, 3.0)
    here = str(graph).split("# ")[1].split("\n")[0]
    assert here.startswith("test_printing.py:")
    assert str(graph) == (
        "<lambda>(x: f64*, y: f64*):\n"
        f"  %0: f64* = add(x, y)  # {here}\n"
        f"  %1: f64* = multiply(%0, x)  # {here}\n"
        "  return %1"
    )


def test_types_constants_and_source_lines():
    captured = np.arange(4.0, dtype=np.float32)

    def f(a, b):
        scaled = a * captured[:2]
        return np.sum(scaled, axis=0) + b

    text = str(wg.trace(f, np.ones((8, 2), np.float32), 1.0))
    first, second = line_of(f, 1), line_of(f, 2)
    assert text == (
        "f(a: f32[8,2], b: f64*):\n"
        "  %0: f32[2] = constant\n"
        f"  %1: f32[8,2] = multiply(a, %0)  # {first}\n"
        f"  %2: f32[2] = sum(%1, axes=(0,))  # {second}\n"
        f"  %3: f32[2] = add(%2, b)  # {second}\n"
        "  return %3"
    )


def test_literals_of_every_kind_and_several_results():
    def f(x):
        return x * np.float32(2), x + 1, x * 1j, x > True

    text = str(wg.trace(f, np.ones(2, np.float32)))
    here = line_of(f, 1)
    assert text == (
        "f(x: f32[2]):\n"
        f"  %0: f32[2] = multiply(x, 2.0)  # {here}\n"
        f"  %1: f32[2] = add(x, 1)  # {here}\n"
        f"  %2: c64[2] = multiply(x, 1j)  # {here}\n"
        f"  %3: bool[2] = greater(x, True)  # {here}\n"
        "  return %0, %1, %2, %3"
    )


def test_trees_of_arguments_have_numbered_names():
    text = str(wg.trace(lambda p, *rest: p["a"] * p["b"] + rest[0], {"a": 1.0, "b": 2.0}, 3.0))
    assert text.startswith("<lambda>(p.0: f64*, p.1: f64*, arg1: f64*):\n")


def test_names_stay_unique():
    graph = wg.trace(lambda *xs: xs[0] + xs[1], 1.0, 2.0)
    for node in graph.inputs:
        node.name = "x"
    assert str(graph).splitlines()[0] == "<lambda>(x: f64*, %0: f64*):"


def test_several_results_of_one_operation():
    text = str(wg.trace(lambda a: np.linalg.slogdet(a), np.eye(2)))
    assert ": (f64, f64) = slogdet(a)" in text
    assert "item(" in text


def test_repr_is_short():
    assert repr(wg.trace(affine, np.ones((2, 3)), np.ones(3))).startswith(
        "<Graph affine: 2 inputs, "
    )


class TestDraw:
    graph = staticmethod(lambda: wg.trace(lambda x, y: np.sin(x + y) * 2.0, 1.0, 2.0))

    def test_svg(self, tmp_path):
        graph = self.graph()
        graph.backward()
        path = graph.draw(tmp_path / "graph.svg")
        assert path == str(tmp_path / "graph.svg")
        root = ET.parse(path).getroot()
        assert root.tag.endswith("svg")
        tags = [element.tag.rsplit("}")[-1] for element in root.iter()]
        assert tags.count("rect") == len(graph.nodes) == 6
        texts = [element.text for element in root.iter() if element.tag.endswith("text")]
        for expected in ("add", "sin", "multiply", "x", "y", "f64*"):
            assert expected in texts
        assert any(text.startswith("= 1   grad -1.97998") for text in texts)
        edges = [e for e in root.iter() if e.tag.endswith("path") and "marker-end" in e.attrib]
        assert len(edges) == 5

    def test_boxes_do_not_overlap(self, tmp_path):
        graph = self.graph()
        root = ET.parse(graph.draw(tmp_path / "graph.svg")).getroot()
        boxes = [
            tuple(float(e.attrib[key]) for key in ("x", "y", "width", "height"))
            for e in root.iter()
            if e.tag.endswith("rect")
        ]
        for a in boxes:
            for b in boxes:
                apart_x = a[0] + a[2] <= b[0] or b[0] + b[2] <= a[0]
                apart_y = a[1] + a[3] <= b[1] or b[1] + b[3] <= a[1]
                assert a is b or apart_x or apart_y

    def test_dot(self, tmp_path):
        graph = self.graph()
        text = (tmp_path / "graph.dot").read_text() if graph.draw(tmp_path / "graph.dot") else ""
        assert text.startswith("digraph {") and text.rstrip().endswith("}")
        assert text.count("->") == 5
        for source in graph.operators:
            assert f"n{source.inputs[0].serial} -> n{source.serial};" in text
        assert 'label="sin\\nf64' in text

    def test_texts_are_escaped(self, tmp_path):
        graph = wg.trace(lambda x: x + 1.0, 1.0)
        graph.inputs[0].name = '<a & "b">'
        ET.parse(graph.draw(tmp_path / "graph.svg"))
        assert '"b"' not in (tmp_path / "graph.dot").name
        graph.draw(tmp_path / "graph.dot")
        label = (tmp_path / "graph.dot").read_text().splitlines()[2]
        assert label.count('"') == 4

    def test_array_values_are_not_written(self, tmp_path):
        graph = wg.trace(lambda x: np.sum(x), np.ones(1000))
        assert (
            len((tmp_path / "g.svg").read_text() if graph.draw(tmp_path / "g.svg") else "") < 3000
        )

    def test_other_endings_are_refused(self, tmp_path):
        with pytest.raises(ValueError) as caught:
            self.graph().draw("graph.png")
        assert str(caught.value) == (
            "draw: the path 'graph.png' ends in '.png', expected .svg, .dot or .gv."
        )


def test_graphs_inside_operations_are_printed_below():
    f = lambda x: wg.scan(lambda c, _: (np.sin(c), None), x, length=3)[0]
    text = str(wg.trace(f, np.ones(2)))
    assert "= scan(x, body=<body of 2 operations>, length=3" in text
    assert "\n    step(%0: f64[2]):\n      %1: f64[2] = sin(%0)" in text


def test_an_input_is_drawn_just_above_its_first_use():
    graph = wg.trace(lambda x, y, z: np.exp(np.sin(x + y)) * z + z, 1.0, 2.0, 3.0)
    depth = drawing._depths(graph)
    x, y, z = (depth[node.serial] for node in graph.inputs)
    assert (x, y, z) == (0, 0, 3)  # add, sin, exp, then the product
    assert all(depth[s.serial] < depth[n.serial] for n in graph.nodes for s in n.inputs)
