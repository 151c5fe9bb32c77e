"""Heaps, and the order of tuples, of traced numbers."""

import heapq

import numpy as np
import pytest

import wengert as wg

X = np.random.default_rng(0).normal(size=12)
TIES = np.array([1.0, 2.0, 1.0, 3.0, 2.0, 1.0, 0.0, 3.0, 0.0, 2.0, 1.0, 3.0])


def pushed_and_popped(x):
    heap = []
    for v in x:
        heapq.heappush(heap, v * x[0])
    return heapq.heappop(heap) + 2 * heapq.heappop(heap) * heap[0]


def tuples_on_a_heap(x):
    heap = [(x[i], i) for i in range(5)]
    heapq.heapify(heap)
    for _ in range(4):
        v, i = heapq.heappop(heap)
        heapq.heappush(heap, (v + 1.0 + 0.1 * x[i], i))
    return sum(k * v * x[i] for k, (v, i) in enumerate(sorted(heap)))


def pushed_and_popped_at_once(x):
    heap = sorted(x[:5])
    return heapq.heappushpop(heap, x[6]) + 2 * heapq.heapreplace(heap, x[7]) + 3 * heap[0]


def several(x):
    largest = heapq.nlargest(2, list(x), key=lambda v: v * v)
    merged = list(heapq.merge(sorted(x[:5]), sorted(x[5:])))
    return sum(heapq.nsmallest(3, x)) * largest[1] + merged[3] * len(heapq.nsmallest(-1, x))


def the_best_of_tuples(x):
    v, i = max((x[i], i) for i in range(12))
    w, j = min([(x[k] > 0, x[k] * x[0]) for k in range(12)])
    return v * x[i - 1] + w * 2 + j


def sorted_tuples(x):
    rising = sorted((x[i] * x[i] // 1, -x[i], i) for i in range(12))
    falling = sorted([(x[i] // 1, x[11 - i]) for i in range(12)], reverse=True)
    keyed = sorted(range(12), key=lambda i: (x[i] // 1, -(x[i] ** 2)))
    s = sum(k * a * v * x[i] for k, (a, v, i) in enumerate(rising))
    return (
        s
        + sum(k * v for k, (_, v) in enumerate(falling))
        + sum(k * x[i] for k, i in enumerate(keyed))
    )


@pytest.mark.parametrize("x", [X, TIES, -TIES], ids=["x", "ties", "falling"])
@pytest.mark.parametrize(
    "f",
    [
        pushed_and_popped, tuples_on_a_heap, pushed_and_popped_at_once, several,
        the_best_of_tuples, sorted_tuples,
    ],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_values_and_gradients(f, x):
    value, gradient = wg.jit(wg.value_and_grad(f))(x)
    np.testing.assert_allclose(value, f(x), rtol=1e-12)
    if x is X:  # which of equals comes first, no heap says
        np.testing.assert_allclose(gradient, wg.grad(f)(x), rtol=1e-11, atol=1e-13)


def test_a_heap_under_a_traced_condition():
    """A side that pushes leaves one item more."""

    def f(x):
        heap = [x[0]]
        if x[1] > 0:
            heapq.heappush(heap, x[2])
        return heap[0]

    with pytest.raises(wg.errors.ControlFlowError, match=r"heappush\(\) changes a list"):
        wg.jit(f)(X)


def test_nothing_to_pop():
    with pytest.raises(IndexError, match="index out of range"):
        wg.jit(lambda x: heapq.heappop([]) * x)(1.0)
