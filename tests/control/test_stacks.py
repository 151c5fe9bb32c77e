"""Lists as stacks whose length depends on traced values, and recursion that has no known end."""

import numpy as np
import pytest

import wengert as wg


def _halved(x):
    stack = [(0.0, 1.0)]
    total = 0.0
    while stack:
        lo, hi = stack.pop()
        if (hi - lo) * x < 0.2:
            total += (hi - lo) * np.sin(x * lo)
        else:
            mid = 0.5 * (lo + hi)
            stack.append((lo, mid))
            stack.append((mid, hi))
    return total


def _extended(x):
    left: list = [1]
    last = 0.0
    while len(left) > 0 and last < 50:
        now = left.pop()
        last = now * x
        if last < 4:
            left.extend([now + 0.5, now + 1])
    return last + len(left)


def _added_in_place(x):
    left = [(x, 0)]
    total = 0.0
    while len(left) > 0:
        now, depth = left.pop()
        if depth > 5 or now > 3:
            total = total + now
            continue
        left += [(now + 1.0, depth + 1), (now * 1.5, depth + 1)]
    return total


def _on_top(x):
    heights = []
    heights.append(3.0)
    total = 0.0
    count = 0
    while heights and count < 20:
        count += 1
        if heights[-1] * x > 1:
            heights.append(heights[-1] / 2)
            total = total + heights[-1] * x
        else:
            heights.pop()
    return total


@pytest.mark.parametrize("function", [_halved, _extended, _added_in_place, _on_top])
def test_a_stack_gives_what_python_gives(function):
    for x in (0.7, 1.3, 3.1):
        h = 1e-6
        slope = (function(x + h) - function(x - h)) / (2 * h)
        assert np.isclose(wg.jit(function)(x), function(x), rtol=1e-13)
        assert np.isclose(wg.grad(wg.jit(function))(x), slope, rtol=1e-5, atol=1e-8)
        assert np.isclose(wg.jit(wg.grad(function))(x), slope, rtol=1e-5, atol=1e-8)


def test_samples_have_stacks_of_their_own():
    xs = np.array([0.1, 0.7, 1.3, 3.1])
    expected = [_halved(x) for x in xs]
    assert np.allclose(wg.jit(wg.vmap(_halved))(xs), expected, rtol=1e-13)
    slopes = [wg.grad(_halved)(x) for x in xs]
    assert np.allclose(wg.jit(wg.vmap(wg.grad(_halved)))(xs), slopes, rtol=1e-12)


def test_an_empty_stack_is_an_error():
    def emptied(x):
        stack = [x]
        while x > 0:
            y = stack.pop()
            x = x - y / 4
        return x

    with pytest.raises(IndexError):
        emptied(1.0)
    with pytest.raises(IndexError, match="empty"):
        wg.jit(emptied)(1.0)


def test_a_stack_without_room_says_what_to_do():
    def growing(x):
        stack = [x]
        while len(stack) < 2000 and x > 0:
            y = stack.pop()
            stack.append(y)
            stack.append(y * x)
        return stack[-1]

    with pytest.raises(wg.errors.ControlFlowError, match=r"more than .* items.*np\.zeros"):
        wg.jit(growing)(0.5)


def _aliased(x):
    stack = [x]
    other = stack
    while stack:
        y = stack.pop()
        if y > 1:
            other.append(y / 2)
    return y


def _with_arrays(x):
    box = np.array([x, 1.0])
    stack = [box]
    while stack:
        top = stack.pop()
        box[0] = box[0] / 2
        if box[0] > 1:
            stack.append(box)
    return top[0]


@pytest.mark.parametrize("function", [_aliased, _with_arrays])
def test_what_others_can_change_is_refused(function):
    with pytest.raises(wg.errors.WengertError):
        wg.jit(function)(8.0)


def _without_bound(x):
    return x if x < 1 else _without_bound(x / 2) + _without_bound(x / 3)


def _far_bound(x, depth=60):
    if depth == 0 or x < 1:
        return x
    return _far_bound(x / 2, depth - 1) + _far_bound(x / 3, depth - 1)


@pytest.mark.parametrize("function", [_without_bound, _far_bound])
def test_recursion_that_a_traced_condition_ends_is_an_error(function):
    with pytest.raises(wg.errors.ControlFlowError, match=r"calls itself.*stack"):
        wg.jit(function)(5.0)
