"""The experiments and their report, at small sizes."""

import io
import json

import numpy as np
import pytest

from wengert.experiments import Settings, example, ratio
from wengert.experiments.progress import Progress
from wengert.experiments.report import Section
from wengert.experiments.timing import best_times


def silent(name="test"):
    return Progress(name, io.StringIO())


# ---------------------------------------------------------------- example


@pytest.mark.parametrize("way", example.WAYS)
def test_the_worked_example(way):
    assert example.WAYS[way](-2.0, 5.0, -4.0) == (-12.0, (-4.0, -4.0, 3.0))


@pytest.mark.parametrize("way", example.WAYS)
def test_the_example_computes(way):
    assert example.WAYS[way](1.0, 2.0, 7.0) == (21.0, (7.0, 7.0, 3.0))


def test_the_drawn_graph_shows_values_and_gradients():
    svg = example.drawn(example.run_graph(*example.POINT))
    assert svg.startswith("<svg")
    assert "= -12   grad 1" in svg and "= -2   grad -4" in svg


def test_a_wrong_answer_stops_the_example(monkeypatch):
    monkeypatch.setattr(example, "WAYS", {"bad": lambda *point: (0.0, (0.0, 0.0, 0.0))})
    with pytest.raises(AssertionError, match="bad gave"):
        example.run(Section("example", "", ""), silent(), Settings())


# ---------------------------------------------------------------- ratio


@pytest.mark.parametrize("f", ratio.FUNCTIONS)
def test_a_row_has_consistent_ratios(f):
    row = ratio.measure(f, 10, rounds=1)
    assert row["function"] == f.__name__ and row["n"] == 10
    assert row["grad_ratio"] == row["f_grad"] / row["f"]
    assert row["grad_to_numpy"] == row["f_grad"] / row["numpy_f"]
    assert all(row[column.key] for column in ratio.COLUMNS)


def test_ratio_fills_rows_figures_and_summary(monkeypatch):
    monkeypatch.setattr(ratio, "FUNCTIONS", (ratio.rosenbrock, ratio.logsumexp))
    section = Section("ratio", ratio.TITLE, ratio.ABOUT)
    progress = silent("ratio")
    ratio.measure_all(section, progress, (10, 100), rounds=1)
    assert [row["n"] for row in section.tables[0].rows] == [10, 100, 10, 100]
    assert "ratio [4/4] logsumexp, n = 100" in progress.stream.getvalue()
    assert len(section.checks) == 2
    assert len(section.figures) == 3 and all(f.svg.startswith("<svg") for f in section.figures)
    json.dumps(section.as_data())


def test_sizes_are_those_of_the_benchmark():
    assert ratio.SIZES == (10, 100, 1000, 10**4, 10**5, 10**6, 10**7)
    assert ratio.SIZES[:-1] == ratio.QUICK_SIZES


def test_quick_measures_less(monkeypatch):
    seen = []
    monkeypatch.setattr(ratio, "measure_all", lambda s, p, sizes, rounds: seen.append(sizes))
    ratio.run(Section("", "", ""), silent(), Settings())
    ratio.run(Section("", "", ""), silent(), Settings(quick=False))
    assert seen == [ratio.QUICK_SIZES, ratio.SIZES]


@pytest.mark.parametrize("what", ["value", "gradient", "slope"])
def test_modes_that_disagree_stop_the_benchmark(what):
    right = (np.float64(2.0), np.array([1.0, 3.0]))
    compiled = (right[0] + (what == "value"), right[1] + (what == "gradient"))
    forward = (right[0], np.float64(4.0) + (what == "slope"))
    ratio._check("f", 2, right, right, (right[0], np.float64(4.0)))
    with pytest.raises(AssertionError, match=f"f, n = 2: the compiled {what} is off by"):
        ratio._check("f", 2, compiled, right, forward)


def test_small_gradients_are_checked_closely():
    # the gradient of logsumexp at n = 10^7: rounding passes, one part in a million does not
    n = 10**7
    right = (np.float64(16.0), np.full(3, 2e-7))
    forward = (right[0], np.sum(right[1]))
    ratio._check("f", n, (right[0], right[1] + 3e-15), right, forward)
    with pytest.raises(AssertionError, match="gradient is off"):
        ratio._check("f", n, (right[0], right[1] * (1 + 1e-6)), right, forward)


def test_a_nan_stops_the_benchmark():
    right = (np.float64(2.0), np.array([1.0, 3.0]))
    with pytest.raises(AssertionError, match="value is off"):
        ratio._check("f", 2, (np.float64("nan"), right[1]), right, (2.0, np.float64(4.0)))


def test_the_promises_are_checked_where_they_are_hardest():
    rows = [
        {"function": "a", "n": 10, "grad_ratio": 3.5, "grad_to_numpy": 0.5},
        {"function": "b", "n": 100, "grad_ratio": 1.0, "grad_to_numpy": 0.75},
    ]
    assert [check.text() for check in ratio.checks(rows)] == [
        "reached: f + gradient in units of NumPy's f alone (worst: b, n = 100): 0.75 "
        "(wanted: at most 1.00)",
        "not reached: f + gradient in units of the compiled f (worst: a, n = 10): 3.50 "
        "(wanted: at most 3.00)",
    ]


# ---------------------------------------------------------------- progress and timing


def test_plain_progress_counts_steps():
    progress = silent("work")
    with progress:
        progress.start(2)
        progress.step("one")
        progress.step("two")
    assert progress.stream.getvalue() == "work [1/2] one\nwork [2/2] two\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_on_a_terminal():
    pytest.importorskip("rich")
    progress = Progress("work", Terminal())
    with progress:
        progress.start(2)
        progress.step("one")
        progress.step("two")
    assert "2/2" in progress.stream.getvalue()


def test_candidates_take_turns():
    calls = []
    names = ("a", "b")
    candidates = {name: lambda name=name: calls.append(name) for name in names}
    times = best_times(candidates, rounds=2, sample_seconds=0.0)
    assert set(times) == set(names) and all(seconds > 0 for seconds in times.values())
    assert calls[-4:] == ["a", "b", "a", "b"]
