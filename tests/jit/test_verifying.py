"""A fault of the compiler is found before it gives a wrong number."""

import threading
import warnings

import numpy as np
import pytest

import wengert as wg
from wengert.errors import CompilerWarning, LoopError
from wengert.jit import verifying
from wengert.schedule import epilogues, fusion, steps

X = np.linspace(0.5, 2.0, 12).reshape(3, 4)


def function(x):
    return np.tanh(x @ x.T) * 2.0


@pytest.fixture
def as_users_have_it(monkeypatch):
    monkeypatch.setattr(verifying, "strict", False)
    monkeypatch.delenv("WENGERT_DEBUG", raising=False)


def forgetful(step, name=None):
    """A step that loses the last kernel."""

    def wrong(work, task):
        program = step(work, task)
        program.kernels = program.kernels[:-1]
        return program

    return wrong


@pytest.fixture
def wrong_epilogues(monkeypatch):
    monkeypatch.setattr(epilogues, "epilogues", forgetful(epilogues.epilogues))


def fault(jitted, x=X):
    with pytest.warns(CompilerWarning) as found:
        result = jitted(x)
    return result, str(found[0].message)


def test_a_wrong_program_is_made_again_in_a_plainer_way(as_users_have_it, wrong_epilogues):
    jitted = wg.jit(function)
    result, text = fault(jitted)
    np.testing.assert_allclose(result, function(X), rtol=1e-12)
    assert text == (
        "function: a fault of the compiler, found before anything was computed: LoopError: "
        "the end: 9 elements of the result out1 (0 to 8) are not stored. The function is compiled "
        "with WENGERT_SCHEDULE=-regions,-chunks,-keeps,-epilogues,-prologues,-pieces,-joins,"
        "-orders,-threads: its results are right, its calls take longer. "
        "Please report it, with the function"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(jitted(X + 1), function(X + 1), rtol=1e-12)
    assert "\nepilogues: left out" in str(jitted.explain(X))


def test_derivatives_too(as_users_have_it, wrong_epilogues):
    gradient = wg.grad(lambda x: np.sum(function(x)))
    result, _ = fault(wg.jit(gradient))
    np.testing.assert_allclose(result, gradient(X), rtol=1e-10)


def test_a_step_that_fails_is_left_out(as_users_have_it, monkeypatch):
    def fails(work, task):
        raise KeyError("t12")

    monkeypatch.setattr(epilogues, "epilogues", fails)
    result, text = fault(wg.jit(function))
    np.testing.assert_allclose(result, function(X), rtol=1e-12)
    assert "KeyError: 't12'" in text


def test_it_is_told_again_in_each_process(as_users_have_it, wrong_epilogues, monkeypatch, tmp_path):
    monkeypatch.setenv("WENGERT_CACHE", str(tmp_path))
    for _ in range(2):  # one that is found on disk would say nothing
        result, _ = fault(wg.jit(lambda x: function(x) + 1.0))
        np.testing.assert_allclose(result, function(X) + 1.0, rtol=1e-12)


def test_without_any_way_it_is_an_error(as_users_have_it, monkeypatch):
    monkeypatch.setattr(fusion, "lower", forgetful(fusion.lower))
    with pytest.raises(LoopError, match=r"(is|are) not stored"):
        wg.jit(function)(X)


def test_tests_see_the_error_itself(wrong_epilogues):
    with pytest.raises(LoopError, match="are not stored"):
        wg.jit(function)(X)


def test_debug_sees_the_error_itself(as_users_have_it, wrong_epilogues, monkeypatch):
    monkeypatch.setenv("WENGERT_DEBUG", "1")
    with pytest.raises(LoopError, match="are not stored"):
        wg.jit(function)(X)


def test_errors_of_the_user_stay_errors(as_users_have_it):
    with pytest.raises(IndexError), warnings.catch_warnings():
        warnings.simplefilter("error")
        wg.jit(lambda x: x[3:][0] + x[7])(np.ones(5))


def test_a_system_without_threads_verifies_all_the_same(
    as_users_have_it, wrong_epilogues, monkeypatch
):
    def none_left(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    result, _ = fault(wg.jit(function))
    np.testing.assert_allclose(result, function(X), rtol=1e-12)


def test_all_that_is_left_out_are_steps():
    for setting in verifying._FEWER_STEPS:
        names = [word[1:] for word in setting.split(",") if word[0] in "+-"]
        assert set(names) <= set(steps.SPEED)
