"""Graphs of one function at several lengths become one graph, or say why not."""

import numpy as np
import pytest

import wengert.numpy as wnp
from wengert.errors import DependsOnLength
from wengert.graph import Graph
from wengert.graph.rules import verify
from wengert.ops.random import random_bits, random_bits_at
from wengert.passes.lengths import (
    LENGTHS,
    Family,
    by_position,
    for_any_length,
    generalise,
)
from wengert.trace import trace


def family_of(function, *shapes):
    """The graphs of a function of arrays; None in a shape is the length."""
    return Family(
        [
            trace(function, *[np.ones([n if a is None else a for a in shape]) for shape in shapes])
            for n in LENGTHS
        ]
    )


def names(graph):
    return [node.op.name for node in graph.operators]


def test_the_axis_of_every_value():
    found = for_any_length(family_of(lambda x, w: np.tanh(x @ w).T, (None, 3), (3, 2)))
    axes = [(node.op.name, found.axes.get(node.serial)) for node in found.graph.operators]
    assert axes == [("contract", 0), ("tanh", 0), ("permute", 1)]
    assert found.axes.get(found.graph.inputs[0].serial) == 0
    assert found.graph.inputs[1].serial not in found.axes
    assert found.example == LENGTHS[0]


def test_numbers_are_computed_from_the_length():
    family = generalise(family_of(lambda x: np.sum(x) / len(x), (None,)))
    for graph in family.graphs:
        assert names(graph)[-1] == "divide"
        assert any(node in family.length for node in graph.nodes)
    assert names(family.graphs[0]) == names(family.graphs[1])


def test_arrays_that_count():
    found = for_any_length(family_of(lambda x: x * np.arange(2.0, 2 * len(x) + 2, 2), (None,)))
    assert found.positions in found.graph.nodes
    same = for_any_length(family_of(lambda x: x + np.full(len(x), 7.0), (None,)))
    assert same.positions not in same.graph.nodes


def test_outputs_are_operators_of_their_own():
    found = for_any_length(family_of(lambda x: (x, x, np.sin(x)), (None, 2)))
    outputs = found.graph.outputs
    assert len({node.serial for node in outputs}) == 3
    assert all(found.axes[node.serial] == 0 for node in outputs)


def test_graphs_stay_well_formed():
    family = generalise(
        family_of(lambda x: np.var(x, axis=0) / x * np.arange(len(x))[:, None], (None, 2))
    )
    for graph, length, positions in zip(
        family.graphs, family.length, family.positions, strict=True
    ):
        verify(Graph([*graph.inputs, length, positions], graph.outputs))


def test_random_bits_are_numbered_by_sample():
    key = np.array([1, 2], np.uint32)
    graphs = [
        trace(lambda k, n=n: random_bits(k, shape=(n, 3), width=32, stream=0), key) for n in LENGTHS
    ]
    family = by_position(Family(graphs))
    assert names(family.graphs[0])[-1] == "random_bits_at"
    places = np.arange(LENGTHS[1] * 3, dtype=np.uint64).reshape(-1, 3)
    expected = random_bits(key, shape=(LENGTHS[1], 3), width=32, stream=0)
    np.testing.assert_array_equal(random_bits_at(key, places, width=32, stream=0), expected)
    unchanged = Family([trace(np.sin, np.ones(n)) for n in LENGTHS])
    assert by_position(unchanged) is unchanged


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x[1:], "index (at test_lengths.py"),
        (lambda x: x[:, None] * x, "two axes of the dynamic length"),
        (lambda x: x * np.log(len(x)), "is not a simple function of the length"),
        (lambda x: x * np.arange(len(x)) ** 2, "lies along the dynamic axis"),
        (lambda x: np.sin(x) if len(x) > 100 else x, "the steps that the function takes change"),
        (lambda x: wnp.reshape(x, (-1, 1))[::-1], "what it is told changes with the length"),
    ],
)
def test_what_depends_on_the_length(function, reason):
    with pytest.raises(DependsOnLength) as error:
        for_any_length(family_of(function, (None,)))
    assert reason in str(error.value)
