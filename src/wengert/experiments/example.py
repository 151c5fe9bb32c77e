"""The worked example of the papers: f(x, y, z) = (x + y) z at (-2, 5, -4), three ways.

>>> differentiate_by_grad(-2.0, 5.0, -4.0)
(-12.0, (-4.0, -4.0, 3.0))
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import wengert as wg

from .progress import Progress
from .report import Figure, Section
from .settings import Settings
from .tables import Column

TITLE = "Worked example: f(x, y, z) = (x + y) z at (-2, 5, -4)"
ABOUT = (
    "The value is -12 and the gradient (-4, -4, 3), by the gradient transform, by a forward and a "
    "backward pass over the graph, and by tensors that remember how they were made."
)
POINT = (-2.0, 5.0, -4.0)
EXPECTED = (-12.0, (-4.0, -4.0, 3.0))

Answer = tuple[float, tuple[float, ...]]


def f(x: Any, y: Any, z: Any) -> Any:
    """The function."""
    return (x + y) * z


def differentiate_by_grad(*point: float) -> Answer:
    """Value and gradient from `wengert.value_and_grad`."""
    value, gradient = wg.value_and_grad(f, argnums=(0, 1, 2))(*point)
    return float(value), tuple(map(float, gradient))


def differentiate_by_graph(*point: float) -> Answer:
    """Value and gradient from a `Graph`: built once, then a forward and a backward pass."""
    graph = run_graph(*point)
    return float(graph.outputs[0].output), tuple(float(v.gradient) for v in graph.inputs)  # type: ignore[union-attr]


def run_graph(*point: float) -> wg.Graph:
    """The graph of the function with every node's value and gradient filled in."""
    graph = wg.trace(f, *point)
    graph.forward()
    graph.backward()
    return graph


def differentiate_by_tensor(*point: float) -> Answer:
    """Value and gradient from tensors, as the function runs."""
    tensors = [wg.tensor(number, requires_grad=True) for number in point]
    result = f(*tensors)
    result.backward()
    return result.item(), tuple(tensor.grad.item() for tensor in tensors)  # type: ignore[union-attr]


WAYS = {
    "wg.grad": differentiate_by_grad,
    "wg.Graph": differentiate_by_graph,
    "wg.Tensor": differentiate_by_tensor,
}


COLUMNS = [
    Column("way", "way"),
    Column("value", "f", "{:g}".format),
    *[Column(f"d{name}", f"df/d{name}", "{:g}".format) for name in "xyz"],
]


def run(section: Section, progress: Progress, settings: Settings) -> None:
    """Fill in the three answers and the drawn graph; a wrong answer is an error."""
    table = section.table("ways", "Value and gradient by each way of differentiating", COLUMNS)
    progress.start(len(WAYS))
    for name, differentiate in WAYS.items():
        progress.step(name)
        value, gradient = differentiate(*POINT)
        if (value, gradient) != EXPECTED:
            raise AssertionError(f"{name} gave {value} and {gradient}, expected {EXPECTED}")
        row = {"way": name, "value": value}
        row.update({f"d{name}": g for name, g in zip("xyz", gradient, strict=True)})
        table.rows.append(row)
    section.figures.append(Figure("The graph after both passes", drawn(run_graph(*POINT))))


def drawn(graph: wg.Graph) -> str:
    """The picture of a graph as SVG text."""
    with tempfile.TemporaryDirectory() as folder:
        return Path(graph.draw(str(Path(folder) / "graph.svg"))).read_text(encoding="utf-8")
