"""Many calls on any executor: in order, kept, resumed."""

import concurrent.futures
import multiprocessing
import threading

import numpy as np
import pytest

from wengert.errors import StructureError
from wengert.train import grid, sweep


def product(lr, seed):
    return {"lr": np.array(lr), "value": lr * seed}


class Counting:
    """Counts the calls that are made; fails at one of them."""

    def __init__(self, broken=None):
        self.calls, self.broken, self._lock = [], broken, threading.Lock()

    def __call__(self, number):
        with self._lock:
            self.calls.append(number)
        if number == self.broken:
            raise ValueError("this one is broken")
        return number**2


SETTINGS = grid(number=range(6))
SQUARES = [0, 1, 4, 9, 16, 25]


def test_results_are_in_order_on_any_executor():
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        found = list(sweep(product, grid(lr=[2, 3], seed=[1, 10]), executor))
    assert [one["value"] for one in found] == [2, 20, 3, 30]
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, spawn) as executor:
        assert list(sweep(dict, SETTINGS, executor)) == SETTINGS


def test_what_is_done_is_not_done_again(tmp_path):
    first = Counting(broken=3)
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        results = sweep(first, SETTINGS, executor, tmp_path)
        with pytest.raises(ValueError, match="this one is broken") as caught:
            list(results)
    assert caught.value.__notes__ == ["in the call of a sweep with {'number': 3}"]
    second = Counting()
    assert list(sweep(second, SETTINGS, keep=tmp_path)) == SQUARES
    done = [number for number in first.calls if number != 3]
    assert {0, 1, 2} <= set(done)
    assert sorted(done + second.calls) == list(range(6))
    third = Counting()
    assert list(sweep(third, SETTINGS, keep=tmp_path)) == SQUARES
    assert third.calls == []
    assert list(sweep(third, grid(number=[7]), keep=tmp_path)) == [49]


def test_results_come_as_they_are_wanted():
    counting = Counting()
    results = sweep(counting, SETTINGS)
    assert (next(results), counting.calls) == (0, [0])


def test_an_executor_must_be_one():
    with pytest.raises(StructureError, match="got int as executor, which has no method submit"):
        sweep(product, [], 4)
