"""Progress: a bar in a terminal, lines elsewhere, nothing where none is wanted."""

import io
import sys

import pytest

from wengert.train.progress import Bar, Lines, Progress, progress_for

RECORD = {"loss": 0.5, "accuracy": 0.75, "seconds": 2.0, "examples_per_second": 1000.0}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def walk(progress):
    progress.start(2, 10, 0)
    for epoch in range(2):
        for step in (4, 10):
            progress.advance(epoch, step, {"loss": 0.5}, 1234.5)
        progress.finish_epoch(epoch, RECORD)
    progress.close()


def test_which():
    assert type(progress_for(False, "images")) is Progress
    assert type(progress_for(None, "images")) is Progress
    assert isinstance(progress_for(io.StringIO(), "images"), Lines)


def test_without_a_standard_error(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert type(progress_for(True, "images")) is Progress


def test_lines_wait_but_the_last_is_written():
    stream = io.StringIO()
    walk(progress_for(stream, "images"))
    assert stream.getvalue().splitlines() == [
        "epoch 1/2  loss 0.5000  accuracy 75.00%  |  2 s  1,000 images/s",
        "epoch 2/2  loss 0.5000  accuracy 75.00%  |  2 s  1,000 images/s",
    ]


def test_lines_in_epochs_that_take_long(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    stream = io.StringIO()
    lines = Lines(stream, "examples")
    lines.start(1, 100, 0)
    for step in range(100):  # a second each
        now[0] += 1.0
        lines.advance(0, step, {"loss": 0.5}, 10.0)
    written = stream.getvalue().splitlines()
    assert written[0] == "epoch 1/1  step 9/100  loss 0.5000  10 examples/s"
    assert 3 <= len(written) <= 5  # the pauses grow


def test_a_bar_in_a_terminal():
    pytest.importorskip("rich")
    stream = Terminal()
    bar = progress_for(stream, "images")
    assert isinstance(bar, Bar)
    walk(bar)
    text = stream.getvalue()
    for line in ("epoch 1/2  loss 0.5000  accuracy 75.00%  |  2 s  1,000 images/s",) * 2:
        assert line in text
    assert "epoch 2/2  loss 0.5000  1,234 images/s" in text or "1,235 images/s" in text


def test_a_terminal_without_rich(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    assert isinstance(progress_for(Terminal(), "images"), Lines)
