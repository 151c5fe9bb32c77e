"""A long compilation says what it is doing, to people and to loggers, and leaves nothing behind."""

import gc
import io
import logging
import sys
import time
import types

import numpy as np
import pytest

import wengert as wg
from wengert.jit import waiting
from wengert.jit.debugging import Clock


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """Makes the standard error a terminal, when the test runs."""

    def begin():
        monkeypatch.setattr(sys, "stderr", Terminal())
        return sys.stderr

    return begin


def test_a_terminal_is_told_after_a_second(terminal):
    stream, clock = terminal(), Clock("step")
    clock.started -= waiting.PATIENCE - 0.05
    with clock("compile"):
        time.sleep(0.3)
    said, *erased = stream.getvalue().lstrip("\r").split("\r")
    assert said == "wengert: step: compiling to machine code, 1 s so far"
    assert "".join(erased).strip() == ""


def test_what_is_quick_says_nothing(terminal):
    stream, clock = terminal(), Clock("step")
    with clock("compile"):
        wg.jit(lambda x: np.sin(x) + 1.25).captured(np.ones(3))
    assert stream.getvalue() == ""


def test_errors_leave_the_line_clean(terminal):
    stream, clock = terminal(), Clock("step")
    clock.started -= 2 * waiting.PATIENCE
    with pytest.raises(ValueError, match="no"), clock("trace"):
        time.sleep(0.2)
        raise ValueError("no")
    assert "tracing the function" in stream.getvalue() and stream.getvalue().endswith("\r")


@pytest.mark.parametrize("kernel", [True, False])
def test_a_notebook_is_told_but_not_a_process_that_has_merely_imported_it(monkeypatch, kernel):
    package = types.ModuleType("IPython")
    shell = types.SimpleNamespace(kernel="this one") if kernel else None
    package.get_ipython = lambda: shell
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    clock = Clock("step")
    clock.started -= 2 * waiting.PATIENCE
    with clock("schedule"):
        time.sleep(0.1)
    assert ("making loops" in sys.stderr.getvalue()) == kernel


def test_elsewhere_nothing_is_written_but_a_logger_is_told(monkeypatch, caplog):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    clock = Clock("step")
    clock.started -= 2 * waiting.PATIENCE
    with clock("schedule"):
        time.sleep(0.1)
    with caplog.at_level(logging.INFO, logger="wengert"), clock("schedule"):
        time.sleep(0.2)
    assert stream.getvalue() == ""
    assert caplog.messages == ["wengert: step: making loops of the graph, 2 s so far"]


@pytest.mark.parametrize("usual", [700, 0, 10 * waiting.OBJECTS])
def test_the_garbage_collector_looks_seldom_while_something_is_compiled(usual):
    """And as often as before afterwards, after an error too; never more often."""
    seen, before = [], gc.get_threshold()

    def f(x):
        seen.append(gc.get_threshold()[0])
        return np.linalg.inv(x)

    gc.set_threshold(usual, 11, 12)
    try:
        with pytest.raises(ValueError, match="inv"):
            wg.jit(f)(np.ones(3))
        assert gc.get_threshold() == (usual, 11, 12)
    finally:
        gc.set_threshold(*before)
    assert seen == [waiting.OBJECTS if usual == 700 else usual]
