"""What notebooks show: graphs, tensors, modules, histories, explanations, bars of trainings."""

import re
import sys
import types
from xml.etree import ElementTree

import numpy as np
import pytest

import wengert as wg
from wengert import nn
from wengert.displays import curves, table, text
from wengert.train.progress import progress_for


def parsed(html):
    """HTML that must be well formed."""
    return ElementTree.fromstring(f"<div>{html}</div>")


def cells(html):
    return ["".join(cell.itertext()) for cell in parsed(html).iter("td")]


def test_tables_escape_and_align():
    html = table("a < b", ["name", "n"], [["<x>", "1,000"], ["y", "2.5 %"]])
    assert cells(html) == ["<x>", "1,000", "y", "2.5 %"]
    assert [("right" in cell.get("style")) for cell in parsed(html).iter("td")] == [False, True] * 2
    assert parsed(text("a & <b>"))[0].text == "a & <b>"


def test_curves_leave_out_what_is_not_finite():
    html = curves("loss", {"training": [2.0, np.nan, 1.0], "validation": [np.inf, 3.0, 2.0]})
    lines = list(parsed(html).iter("polyline"))
    assert [len(line.get("points").split()) for line in lines] == [2, 2]
    assert curves("loss", {"training": [np.nan]}) == ""


def test_graphs():
    graph = wg.trace(lambda x, y: (x + y) * 2.0, 1.0, 2.0)
    assert parsed(graph._repr_html_()) is not None and "<svg" in graph._repr_html_()
    long = wg.trace(lambda x: sum((x + n for n in range(100)), x), 1.0)
    assert "<svg" not in long._repr_html_() and "add(" in long._repr_html_()


def test_tensors():
    small = wg.tensor([[1.0, 2.5]], requires_grad=True)
    assert cells(small._repr_html_()) == ["1", "2.5"]
    assert "tensor f64[1,2], requires grad" in small._repr_html_()
    for data in (np.zeros((2, 2, 2)), np.zeros(100), 3.0, np.zeros((0, 3))):
        assert parsed(wg.tensor(data)._repr_html_()).find("pre") is not None


def test_modules():
    html = nn.Sequential(nn.Linear(3, 2), nn.ReLU())._repr_html_()
    assert "Sequential: 8 parameters" in html
    assert [re.sub("\u2003", "", cell) for cell in cells(html)][3:] == [
        *["0: Linear(3, 2)", "weight f32[2,3], bias f32[2]", "8"],
        *["1: ReLU()", "", ""],
    ]


def test_histories():
    history = wg.History()
    assert parsed(history._repr_html_()) is not None
    for epoch in range(20):
        history.add_epoch({"loss": 1 / (1 + epoch), "validation_loss": 1.0, "seconds": 0.5})
    html = history._repr_html_()
    assert len(list(parsed(html).iter("polyline"))) == 2
    assert len(list(parsed(html).iter("tr"))) == 1 + 17 and "..." in cells(html)


def test_explanations():
    html = wg.jit(lambda x, y: x * y).explain(2.0, 3.0)._repr_html_()
    assert html.startswith("<iframe") and "srcdoc=" in html and "&lt;script&gt;" in html


class Handle:
    def __init__(self):
        self.shown = []

    def update(self, html):
        self.shown.append(html)


@pytest.fixture
def notebook(monkeypatch):
    """A notebook that remembers what it was shown."""
    handle = Handle()

    def show(html, display_id):
        handle.update(html)
        return handle

    display = types.SimpleNamespace(HTML=str, display=show)
    package = types.ModuleType("IPython")
    package.display = display
    package.get_ipython = lambda: types.SimpleNamespace(kernel="this one")
    monkeypatch.setitem(sys.modules, "IPython", package)
    return handle


def test_a_bar_in_a_notebook(notebook):
    bar = progress_for(True, "images")
    bar.start(2, 10, 0)
    bar._said = 0.0
    bar.advance(0, 5, {"loss": 0.5}, 1000.0)
    assert 'value="25.0"' in notebook.shown[-1] and "epoch 1/2  loss 0.5000" in notebook.shown[-1]
    for epoch in range(2):
        bar.finish_epoch(epoch, {"loss": 0.25, "seconds": 1.0, "examples_per_second": 10.0})
    bar.close()
    assert "<progress" not in notebook.shown[-1]
    assert parsed(notebook.shown[-1]).find("pre").text.count("epoch") == 2
