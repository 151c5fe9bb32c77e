"""Lists that loops append to, held by dictionaries, objects and other lists."""

from collections import defaultdict

import numpy as np
import pytest

import wengert as wg

X = np.array([0.3, 1.1])


def in_a_dict(x):
    history = {"place": [], "speed": [x[1]]}
    place, speed = x
    for _ in range(60):
        speed = speed - 0.1 * np.sin(place)
        place = place + 0.1 * speed
        history["place"].append(place)
        history["speed"].append(speed)
    return np.sum(np.array(history["place"]) ** 2) + history["speed"][-1] * history["speed"][0]


def in_a_dict_that_makes_them(x):
    history = defaultdict(list)
    place, speed = x
    for k in range(60):
        speed = speed - 0.1 * np.sin(place)
        place = place + 0.1 * speed
        history["place"].append(place)
        history["speed"].append(speed * k)
    return np.sum(np.array(history["place"]) ** 2) + sum(history["speed"])


def put_there_by_the_first_turn(x):
    history, speed = {}, x[1]
    for k in range(60):
        speed = 0.9 * speed + x[0]
        history.setdefault("speed", []).append(speed * k)
        if "twice" not in history:
            history["twice"] = []
        history["twice"].append(2 * speed)
    return sum(history["speed"]) + history["twice"][-1]


def in_a_list(x):
    rows, speed = [[], []], x[1]
    for k in range(60):
        speed = 0.9 * speed + x[0]
        rows[0].append(speed)
        rows[1].append((k, speed**2))
    return sum(rows[0]) + rows[1][7][1] * rows[1][7][0]


class Recorder:
    def __init__(self):
        self.count = 0
        self.seen = {"place": []}
        self.speeds = []

    def keep(self, place, speed):
        self.seen["place"].append(place)
        self.speeds.append(speed)
        self.count += 1


def in_an_object(x):
    recorder = Recorder()
    place, speed = x
    for _ in range(60):
        speed = speed - 0.1 * np.sin(place)
        place = place + 0.1 * speed
        recorder.keep(place, speed)
    return sum(recorder.seen["place"]) * recorder.count + recorder.speeds[-1] * recorder.speeds[3]


def dictionaries_in_a_list(x):
    """Its variables have the name of one in a comprehension behind the loop."""
    parts = [{"x": x[0] * k, "v": x[1] + k} for k in range(4)]
    for _ in range(40):
        for p in parts:
            p["v"] = p["v"] - 0.1 * np.sin(p["x"])
            p["x"] = p["x"] + 0.1 * p["v"]
    return sum(p["x"] ** 2 for p in parts) + parts[2]["v"]


def set_by_a_helper(x):
    def move(state, k):
        state["x"] = 0.9 * state["x"] + 0.1 * state["y"][0]
        state["y"][0] = state["x"] * 0.5 + k

    state = {"x": x[0], "y": [x[1]]}
    for k in range(40):
        move(state, k)
    return state["x"] * state["y"][0]


def rows_that_are_read_by_the_turn(x):
    """The best way through states, by rows."""
    rows = [[x[0] * k for k in range(5)]]
    for t in range(1, 20):
        row = []
        for k in range(5):
            row.append(max(rows[t - 1][j] - 0.1 * x[1] * abs(j - k) for j in range(5)) + 0.01 * k)
        rows.append(row)
    return max(rows[-1]) + rows[3][2]


def from_its_last_items(x):
    history = {"x": [x[0], x[1]]}
    for _ in range(60):
        history["x"].append(0.9 * history["x"][-1] - 0.1 * np.sin(history["x"][-2]))
    return sum(history["x"])


def by_an_inner_loop(x):
    seen, history, value = [x[0]], {"value": []}, 0.0
    for i in range(12):
        for j in range(11):
            value = 0.9 * value + x[0] * i - x[1] * j
            history["value"].append(value)
            seen.append(0.5 * seen[-1] + value)
    return sum(history["value"]) + seen[-1] + seen[17] + 0.1 * len(seen)


def by_an_inner_loop_and_around_it(x):
    seen = []
    for i in range(12):
        seen.append(x[1] * i)
        for j in range(11):
            seen.append(x[0] * j)
    return sum(k * v for k, v in enumerate(seen))


GROWING = [
    dictionaries_in_a_list,
    set_by_a_helper,
    put_there_by_the_first_turn,
    by_an_inner_loop,
    in_a_dict,
    in_a_dict_that_makes_them,
    in_a_list,
    in_an_object,
    from_its_last_items,
]


def check(f, x):
    compiled = wg.jit(wg.value_and_grad(f))
    value, gradient = compiled(x)
    np.testing.assert_allclose(value, f(x), rtol=1e-12)
    along, step = np.array([0.4, -0.9]), 1e-6
    slope = (f(x + step * along) - f(x - step * along)) / (2 * step)
    np.testing.assert_allclose(gradient @ along, slope, rtol=1e-6, atol=1e-7)
    return len(compiled.program(x).stages.graph.operators)


@pytest.mark.parametrize("f", GROWING, ids=[f.__name__ for f in GROWING])
def test_traced_once(f):
    assert check(f, X) < 100


# ---------------------------------------------------------------- one list held twice


def in_two_lists(x):
    one = {"x": x[0]}
    parts, same = [one, {"x": x[1]}], [one]
    for _ in range(20):
        parts[0]["x"] = 0.9 * parts[0]["x"] + same[0]["x"]
    return one["x"] + same[0]["x"] + parts[1]["x"]


def under_two_keys(x):
    one = []
    history = {"a": one, "b": one}
    for k in range(20):
        history["a"].append(x[0] * k)
        history["b"].append(x[1] + len(history["a"]))
    return sum(one)


def counted_by_another_name(x):
    history = {"a": []}
    same = history["a"]
    for _ in range(20):
        history["a"].append(x[0] * len(same) + x[1])
    return sum(same)


def looked_at_behind_the_loop(x):
    history = {"a": []}
    same = history["a"]
    for k in range(20):
        history["a"].append(x[0] * k + x[1])
    history["a"].append(1.0)
    return sum(same) * len(same)


def replaced_in_between(x):
    history = {"a": []}
    for k in range(20):
        history["a"].append(x[0] * k + x[1])
        if k == 10:
            history["a"] = [x[0]]
    return sum(history["a"])


def the_dict_is_replaced(x):
    history = {"a": []}
    for k in range(20):
        history = {"a": history["a"]}
        history["a"].append(x[0] * k + x[1])
    return sum(history["a"])


SHARED = [
    in_two_lists,
    rows_that_are_read_by_the_turn,
    by_an_inner_loop_and_around_it,
    under_two_keys,
    counted_by_another_name,
    looked_at_behind_the_loop,
    replaced_in_between,
    the_dict_is_replaced,
]


@pytest.mark.parametrize("f", SHARED, ids=[f.__name__ for f in SHARED])
def test_lists_held_twice_are_one(f):
    check(f, X)
