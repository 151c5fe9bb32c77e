"""Slices of the same length in every turn: loops that read them are traced once."""

import numpy as np
import pytest

import wengert as wg

IMAGE = np.sin(np.arange(3 * 12 * 12.0) ** 2).reshape(3, 12, 12)


def convolution(w):
    out = np.zeros((4, 10, 10))
    for o in range(4):
        for i in range(10):
            for j in range(10):
                out[o, i, j] = np.sum(w[o] * IMAGE[:, i : i + 3, j : j + 3])
    return np.sum(np.tanh(out))


def channel_by_channel(w):
    out = np.zeros((10, 10))
    for c in range(3):
        for i in range(10):
            for j in range(10):
                out[i, j] += np.sum(w[0, c] * IMAGE[c, i : i + 3, j : j + 3])
    return np.sum(np.tanh(out))


def of_the_argument(w):
    x = np.outer(w.ravel()[:20], w.ravel()[20:40])
    s = 0.0
    for i in range(18):
        for j in range(18):
            s = s + np.log(np.sum(np.exp(x[i : i + 3, j : j + 3])))
    return s


def two_of_one(w):
    x = w.ravel()
    s = 0.0
    for i in range(90):
        s = s + np.tanh(x[i : i + 10] @ x[i + 1 : i + 11])
    return s


def every_second(w):
    x, s = w.reshape(27, 4), 0.0
    for i in range(12):
        s = s + np.linalg.norm(x[2 * i + 1 : 2 * i + 4, 1:3]) * np.max(x[2 * i : 2 * i + 2, 0])
    return s


def from_the_end(w):
    x, s = w.ravel(), 0.0
    for i in range(90):
        s = s + np.tanh(x[-i - 12 : -i - 2] @ x[:10])
    return s


def other_axes(w):
    x, s = w.reshape(4, 9, 3), 0.0
    for i in range(9):
        s = s + np.sum(x[1, :, i // 3 : i // 3 + 1] ** 3) * np.sum(x[:, -1, 0:2])
    return s


def cut_at_the_end(w):  # the last are shorter
    x, s = w.ravel(), 0.0
    for i in range(108):
        s = s + np.sum(x[i : i + 10] ** 2) * i
    return s


def written_before(w):
    x = w.ravel() * 1.0
    x[5] = 3.0
    s = 0.0
    for i in range(90):
        s = s + np.tanh(np.sum(x[i : i + 10]))
    x[6] = 7.0
    return s + x[6]


def written_through(w):  # windows are views
    x = w.ravel() * 1.0
    s = 0.0
    for i in range(90):
        v = x[i : i + 10]
        v *= 0.9
        v[0] = 0.5
        s = s + np.sum(v) * x[i + 1]
    return s + np.sum(x**2)


def written_beside(w):  # what is taken sees what is written later
    x = w.ravel() * 1.0
    s = 0.0
    for i in range(90):
        v = x[i : i + 10]
        x[i + 3] = 0.25 * i
        s = s + np.tanh(np.sum(v))
    return s + np.sum(x**2)


def kept_in_a_list(w):  # views that are written to after the loop
    x = w.ravel() * 1.0
    s, kept = 0.0, []
    for i in range(90):
        kept.append(x[i : i + 3])
        s = s + np.sum(x[i : i + 3] ** 2)
    kept[3][:] = 100.0
    return s + np.sum(x)


def kept_by_name(w):
    x = w.ravel() * 1.0
    s, kept = 0.0, x[0:3]
    for i in range(90):
        s = s + np.sum(kept * x[i : i + 3])
        kept = x[i : i + 3]
    kept[:] = 100.0
    return s + np.sum(x)


def each_its_own(w):  # an array that a turn makes
    s = 0.0
    for i in range(20):
        x = np.tanh(w.ravel() * i)
        s = s + np.sum(x[i : i + 5] ** 2)
    return s


def recursive_filter(w):  # what is read was written by the turns before
    x = w.ravel()
    y = x.copy()
    for i in range(5, 100):
        y[i] = x[i] + np.dot(x[:5], y[i - 5 : i][::-1]) / 8
    return np.sum(y**2)


def smoothed_in_place(w):
    y = w.ravel() * 1.0
    for i in range(90):
        y[i : i + 6] += 0.1 * y[i] * np.arange(6)
        y[i + 1 : i + 4] = y[i + 2 : i + 5] * 0.5 + y[i : i + 3]
    return np.sum(np.tanh(y))


def patches_in_place(w):
    y = np.tile(w.ravel(), 3).reshape(18, 18) * 1.0
    for i in range(16):
        for j in range(16):
            y[i : i + 3, j : j + 2] *= 1.0 + 0.1 * y[i + 1, j]
    return np.sum(y**2)


def columns_in_place(w):
    y = w.reshape(9, 12) * 1.0
    for j in range(9):
        y[:, j + 3] -= np.sum(y[1:4, j : j + 3], axis=1).mean() * y[:, j]
    return np.sum(y**2)


IN_PLACE = [recursive_filter, smoothed_in_place, patches_in_place, columns_in_place]
PROGRAMS = [
    *IN_PLACE,
    convolution,
    channel_by_channel,
    of_the_argument,
    two_of_one,
    every_second,
    from_the_end,
    other_axes,
    cut_at_the_end,
    written_before,
    written_through,
    written_beside,
    kept_in_a_list,
    kept_by_name,
    each_its_own,
]


@pytest.fixture
def w():
    return np.random.default_rng(3).normal(size=(4, 3, 3, 3))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_values_and_gradients(program, w):
    value, gradient = wg.jit(wg.value_and_grad(program))(w)
    plain, slope = wg.value_and_grad(program)(w)
    np.testing.assert_allclose(value, program(w), rtol=1e-12)
    np.testing.assert_allclose(plain, program(w), rtol=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    "program",
    [
        *[convolution, channel_by_channel, of_the_argument, two_of_one, every_second, from_the_end],
        *IN_PLACE,
    ],
    ids=lambda program: program.__name__,
)
def test_is_traced_once(program, w):
    graph = wg.jit(wg.grad(program)).explain(w).graph
    assert str(graph).count("\n") < 300


def test_argument_is_not_written_to(w):
    before = IMAGE.copy()

    def f(w):
        s = 0.0
        for i in range(9):
            v = IMAGE[0, i : i + 3, 0] * w[0, 0, 0, 0]
            v += 1.0
            s = s + np.sum(v)
        return s

    np.testing.assert_allclose(wg.jit(f)(w), f(w), rtol=1e-12)
    assert np.array_equal(IMAGE, before)
