"""What the loops of operations say about their axes."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.schedule.axes import AxisClasses, relate
from wengert.schedule.lowering import lowering_of

X = np.ones((20, 3))


def last_relation(function, *args):
    node = wg.trace(function, *args).operators[-1]
    return relate(node, lowering_of(node))


def keeps_first_axis(function, *args):
    """Whether each sample of the result needs that sample of the first argument alone."""
    graph = wg.trace(function, *args)
    classes = AxisClasses(graph.operators)
    kind = classes.find((graph.inputs[0].serial, 0))
    return all(_separates(classes, kind, node) for node in graph.operators)


def _separates(classes, kind, node):
    axis = classes.axis_in(node, kind)
    places = {k: classes.axis_in(source, kind) for k, source in enumerate(node.inputs)}
    places = {k: place for k, place in places.items() if place is not None}
    return axis is not None and classes.relations[node.serial].separates(axis, places)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: wnp.tanh(x) * 2 + x,
        lambda x: x + wnp.ones(3),
        lambda x: x.reshape(20, 3, 1),
        lambda x: x @ np.ones((3, 4)),
        lambda x: wnp.sum(x, axis=1),
        lambda x: x[:, 1:],
        lambda x: x[:, ::-1],
        lambda x: wnp.pad(x, ((0, 0), (1, 1))),
        lambda x: wnp.take_along_axis(x, np.zeros((20, 1), int), 1),
        lambda x: wnp.max(x, axis=1, keepdims=True) - x,
    ],
)
def test_operations_that_keep_samples_apart(function):
    assert keeps_first_axis(function, X)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[::-1],
        lambda x: wnp.roll(x, 1, axis=0),
        lambda x: wnp.pad(x, ((1, 0), (0, 0)))[:20],
        lambda x: x.reshape(10, 6),
        lambda x: wnp.sort(x, axis=0),
        lambda x: x @ x.T,
        lambda x: x + x[0],
        lambda x: x[np.arange(20)[::-1]],
        lambda x: wnp.cumsum(x, axis=0),
    ],
)
def test_operations_that_mix_samples(function):
    assert not keeps_first_axis(function, X)


def test_sums_of_a_product_join_the_axes_that_they_run_over():
    relation = last_relation(lambda x, y: wnp.einsum("ni,nj->ij", x, y), X, X)
    assert relation.sums == [[(0, 0), (1, 0)]]
    assert relation.adds_up({0: 0, 1: 0})
    assert not relation.adds_up({0: 0})
