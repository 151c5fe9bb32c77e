"""Samples followed through reshapes and through loops."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.passes import optimise
from wengert.schedule.restrict import Part, restrict
from wengert.schedule.sample_axes import (
    MixedSamples,
    SampleClasses,
    cut_loop,
    is_loop,
)

N, STEPS, FEATURES = 12, 4, 3


def traced(function, *args):
    """The graph of a loop, its classes, the loop and the results of it that are read."""
    graph = optimise(wg.trace(function, *args))
    loop = next(node for node in graph.operators if is_loop(node))
    items = [node for node in graph.operators if node.inputs and node.inputs[0] is loop]
    return graph, SampleClasses(graph.operators), loop, items


def cut(function, *args, axis=1):
    """The loop of a function, cut along an axis of its last argument."""
    graph, classes, loop, items = traced(function, *args)
    kind = classes.find((graph.inputs[-1].serial, axis))
    axes = {n.serial: a for n in graph.nodes if (a := classes.axis_in(n, kind)) is not None}
    return loop, items, axes, cut_loop(loop, classes, axes, items, [Part(5, N)])


def rows():
    return np.random.default_rng(0).normal(size=(STEPS, N, FEATURES))


def test_axes_run_through_a_loop():
    def last(x):
        return wg.scan(lambda h, row: (wnp.tanh(h + row), h), wnp.zeros((N, FEATURES)), x)

    _, items, axes, found = cut(last, rows())
    ends = {item.params["index"]: axes[item.serial] for item in items}
    assert ends == {0: 0, 1: 1}
    assert found.totals == set()


def test_a_reshape_that_merges_samples_with_others():
    graph = wg.trace(lambda x: wnp.tanh(x.reshape(N * 5, 2)).reshape(N, 5, 2), np.ones((N, 10)))
    classes = SampleClasses(graph.operators)
    kind = classes.find((graph.inputs[0].serial, 0))
    assert [classes.axis_in(node, kind) for node in graph.operators] == [0, 0, 0]


def test_axes_behind_others_are_not_merged():
    graph = wg.trace(lambda x: x.reshape(5 * N, 2), np.ones((5, N, 2)))
    classes = SampleClasses(graph.operators)
    place = (graph.inputs[0].serial, 1)
    assert classes.find(place) == place


def test_sums_that_steps_add_to_are_totals():
    def energy(x):
        def step(state, row):
            h, total, products = state
            h = wnp.tanh(h + row)
            return (h, total + wnp.sum(h), products + h.T @ row), wnp.sum(row, axis=0)

        start = (wnp.zeros((N, FEATURES)), 0.0, wnp.zeros((FEATURES, FEATURES)))
        return wg.scan(step, start, x)

    _, _, _, found = cut(energy, rows())
    assert found.totals == {1, 2, 3}


def test_the_loop_for_fewer_samples():
    def energy(x):
        def step(state, row):
            h, total = state
            h = wnp.tanh(h + row)
            return (h, total + wnp.sum(h, axis=0)), 2 * h

        return wg.scan(step, (wnp.zeros((N, FEATURES)), wnp.zeros(FEATURES)), x)

    loop, _, _, found = cut(energy, rows())
    body = restrict(loop.params["body"].graph, found.axes, Part(5, N), found.inner)
    shapes = [node.type.shape for node in body.outputs]
    assert shapes == [(5, FEATURES), (FEATURES,), (5, FEATURES)]


@pytest.mark.parametrize(
    "step, why",
    [
        (lambda h, row: (h + row - wnp.mean(row, axis=0), None), "needs the sum over all samples"),
        (lambda h, row: (h * 2 + wnp.cumsum(row, axis=0), None), "mixes samples"),
        (lambda h, row: (h * 2 + row[::-1], None), "mixes samples"),
    ],
)
def test_loops_that_mix_samples(step, why):
    with pytest.raises(MixedSamples, match=why):
        cut(lambda x: wg.scan(step, wnp.zeros((N, FEATURES)), x)[0], rows())


def test_a_sum_that_steps_need():
    def step(state, row):
        h, total = state
        h = wnp.tanh(h + row + total)
        return (h, total + wnp.sum(h)), None

    with pytest.raises(MixedSamples, match="needs the sum over all samples"):
        cut(lambda x: wg.scan(step, (wnp.zeros((N, FEATURES)), 0.0), x)[0][0], rows())


def test_a_sum_that_begins_with_something():
    def step(state, row):
        h, total = state
        h = wnp.tanh(h + row)
        return (h, total + h.T @ h), None

    with pytest.raises(MixedSamples, match="needs the sum over all samples"):
        cut(lambda x: wg.scan(step, (wnp.zeros((N, FEATURES)), wnp.eye(FEATURES)), x)[0], rows())


def test_a_loop_along_the_samples():
    def running(x):
        return wg.scan(lambda h, row: (h + row, h), np.zeros(FEATURES), x)[1]

    _, classes, loop, items = traced(running, rows()[0])
    axes = {node.serial: 0 for node in [*loop.inputs[1:], *items]}
    with pytest.raises(MixedSamples, match="runs along it step by step"):
        cut_loop(loop, classes, axes, items, [Part(5, N)])
