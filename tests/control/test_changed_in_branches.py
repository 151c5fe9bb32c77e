"""Lists, dicts and objects that a branch on a traced condition changes, as Python changes them."""

import collections
import dataclasses

import numpy as np
import pytest

import wengert as wg

POINTS = [np.array([0.7, -0.4, 1.2]), np.array([-0.7, 0.4, -1.2]), np.array([0.1, 0.2, -0.3])]


def check(f):
    """The values of Python's own run, and the derivatives of a traced one, compiled and mapped."""
    both = wg.jit(wg.value_and_grad(f))
    for x in POINTS:
        value, gradient = both(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        np.testing.assert_allclose(gradient, wg.grad(f)(x), rtol=1e-12, atol=1e-14)
    mapped = wg.jit(wg.vmap(f))(np.stack(POINTS))
    np.testing.assert_allclose(mapped, [f(x) for x in POINTS], rtol=1e-12)


def test_an_item_of_a_dict():
    def f(x):
        state = {"p": x[0], "q": x[1], "name": "ball"}
        if x[0] > 0:
            state["p"] = np.sin(x[2])
        else:
            state["q"] *= 2.0
        return state["p"] * 3 + state["q"] * x[1]

    check(f)


def test_an_item_of_a_list():
    def f(x):
        items = [x[0], x[1] * x[0], 2.0]
        if x[0] > 0:
            items[1] = x[2] ** 2
            if x[1] < 0:
                items[-1] += x[2]
        elif x[2] < 0:
            items[0], items[1] = items[1], items[0]
        return items[0] + 3 * items[1] + 5 * items[2]

    check(f)


class Particle:
    def __init__(self, place, speed):
        self.place, self.speed, self.hits = place, speed, 0

    def move(self, step):
        self.place = self.place + step * self.speed
        if self.place < 0:
            self.bounce()

    def bounce(self):
        self.place = -self.place
        self.speed = -0.9 * self.speed
        self.hits += 1


def test_attributes_of_an_object():
    def f(x):
        particle = Particle(x[0], x[1])
        particle.move(1.5)
        particle.move(2.5)
        return particle.place * x[2] + particle.speed + 0.1 * particle.hits

    check(f)


def test_objects_in_a_loop():
    def f(x):
        particles = [Particle(abs(x[k]), x[(k + 1) % 3]) for k in range(3)]
        for _ in range(30):
            for particle in particles:
                particle.move(0.1)
        return sum(p.place * p.speed + 0.01 * p.hits for p in particles)

    check(f)


def test_an_object_in_a_long_loop_is_one_loop():
    def f(x):
        particle = Particle(abs(x[0]) + 0.1, x[1])
        for _ in range(1000):
            particle.move(0.01)
        return particle.place + particle.speed * x[2]

    check(f)
    assert len(wg.jit(wg.grad(f)).explain(POINTS[0]).graph.splitlines()) < 200


@dataclasses.dataclass
class Account:
    balance: float
    fees: float = 0.0

    def draw(self, amount):
        if amount > self.balance:
            self.fees += 0.5
            return 0.0
        self.balance -= amount
        return amount


def test_a_dataclass():
    def f(x):
        account = Account(x[0] * 2)
        first = account.draw(x[1] + 0.5)
        second = account.draw(x[2] * 0.5)
        return account.balance * 2 + account.fees * x[1] + first + 3 * second

    check(f)


def test_what_both_branches_append():
    def f(x):
        found = [x[0]]
        for k in range(3):
            if x[k] > 0:
                found.append(x[k] ** 2)
            else:
                found.append(found[-1] * 0.5)
        return np.sum(np.array(found) * np.arange(1.0, 5.0))

    check(f)


def test_what_both_branches_take_off():
    def f(x):
        found = [x[0], x[1], x[2]]
        last = x[1]
        if x[0] > 0:
            last = found.pop()
        else:
            last *= found.pop(0)
        return last * 3 + found[0] - found[1]

    check(f)


def test_other_names_see_the_change():
    def f(x):
        state = {"p": x[0]}
        same = state
        held = [state]
        if x[0] > 0:
            held[0]["p"] = x[1] * 5
        return same["p"] + state["p"] * x[2]

    check(f)


def test_a_container_in_another():
    def f(x):
        rows = [[x[0], x[1]], [x[1], x[2]]]
        first = rows[0]
        if x[1] > 0:
            rows[0][1] = x[2] * 2
            rows[1] = [x[0], x[0]]
        return first[1] + rows[0][1] * x[0] + 3 * rows[1][0] + rows[1][1]

    check(f)


def test_a_container_that_a_function_changes():
    def change(state, by):
        state["n"] = state["n"] + by
        return state["n"]

    def f(x):
        state = {"n": x[0]}
        got = change(state, x[1]) if x[2] > 0 else 0.0
        if x[0] > 0 and change(state, 1.0) > 1.5:
            got += state["n"] * x[1]
        return got + state["n"] ** 2

    check(f)


def test_early_returns_after_a_change():
    def f(x):
        state = {"n": x[0], "seen": 0}
        for k in range(3):
            state["n"] = state["n"] * 0.5 + x[k]
            if state["n"] > 0.6:
                state["seen"] += 1
                return state["n"] * state["seen"]
        return state["n"] - 1.0

    check(f)


def test_a_loop_until_something_holds():
    def f(x):
        state = {"a": abs(x[0]) + 1.0, "turns": 0}
        while state["a"] > 0.3:
            if state["a"] > 0.7:
                state["a"] *= 0.8
            else:
                state["a"] = state["a"] - 0.1 * abs(x[1])
            state["turns"] += 1
        return state["a"] * x[2] + state["turns"]

    check(f)


def test_an_array_in_an_attribute():
    class Grid:
        def __init__(self, x):
            self.cells = np.zeros(3)
            self.cells[:] = x

        def clip(self, top):
            if self.cells.max() > top:
                self.cells = self.cells / self.cells.max()

    def f(x):
        grid = Grid(x)
        grid.clip(1.0)
        return np.sum(grid.cells**2)

    check(f)


def test_nothing_is_left_of_a_branch():
    """What a branch puts into an object of the caller's does not stay there while it is traced."""
    held = {"n": 2.0, "m": 3.0}

    def f(x):
        local = dict(held)
        if x[0] > 0:
            local["n"] = x[1]
        return local["n"] * x[0] + local["m"]

    check(f)
    assert held == {"n": 2.0, "m": 3.0}


def test_a_dict_that_is_merged_in_place():
    def f(x):
        out = {"a": x[1], "b": x[2]}
        if x[0] > 0:
            out |= {"a": 2 * x[0]}
        return out["a"] * out["b"]

    check(f)


def test_other_keys_are_an_error():
    def f(x):
        state = {"p": x[0]}
        if x[0] > 0:
            state["q"] = x[1]
        return state["p"] + state.get("q", 0.0)

    with pytest.raises(wg.errors.ControlFlowError, match=r"a dict.*'q'"):
        wg.jit(f)(POINTS[0])


def test_other_lengths_are_an_error():
    def f(x):
        found = [x[0]]
        if x[0] > 0:
            found.append(x[1])
        return sum(found)

    with pytest.raises(
        wg.errors.ControlFlowError, match=r"append\(\) changes a list.*2 items.*1 item if not"
    ):
        wg.jit(f)(POINTS[0])


def test_other_attributes_are_an_error():
    def f(x):
        particle = Particle(x[0], x[1])
        if x[0] > 0:
            particle.colour = x[2]
        return particle.place * getattr(particle, "colour", 1.0)

    with pytest.raises(wg.errors.ControlFlowError, match=r"a Particle.*'colour'"):
        wg.jit(f)(POINTS[0])


def test_other_containers_are_an_error():
    def f(x):
        seen = collections.deque([x[0]], maxlen=2)
        if x[0] > 0:
            seen.append(x[1])
        return seen[-1]

    with pytest.raises(wg.errors.ControlFlowError, match="changes a deque"):
        wg.jit(f)(POINTS[0])


def test_what_the_module_holds_is_not_changed_for_good():
    with pytest.raises(wg.errors.WengertError, match="'n' of a dict"):
        wg.jit(_counting)(POINTS[0])
    assert COUNTS == {"n": 0.0}


COUNTS = {"n": 0.0}


def _counting(x):
    if x[0] > 0:
        COUNTS["n"] = x[0]
    return x[1] + COUNTS["n"]
