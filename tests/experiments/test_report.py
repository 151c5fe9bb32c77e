"""Tables, checks, results.json and the page."""

import io
import json
import re

import numpy as np
import pytest

from wengert.experiments import Experiment, Settings, reproduce
from wengert.experiments import reproduce as package_reproduce
from wengert.experiments.page import page
from wengert.experiments.report import Check, Figure, Report, Section
from wengert.experiments.tables import (
    MISSING,
    Column,
    Table,
    amount,
    duration,
    percent,
    print_table,
    text_table,
)

SECTION_KEYS = {
    "title", "command", "data", "complete", "seconds", "tables", "checks", "notes", "curves",
}  # fmt: skip


class Terminal(io.StringIO):
    def isatty(self):
        return True


def filled_section():
    section = Section("s", "A & B", "about", "wengert reproduce s", "digits <drawn>")
    columns = [Column("name", "<name>"), Column("t", "time", duration)]
    section.table("times", "Times of & for all", columns, own="wengert").rows += [
        {"name": "wengert < all", "t": 0.5},
        {"name": "paper", "t": None},
    ]
    section.checks.append(Check("accuracy", 0.97, 0.9655))
    section.figures.append(Figure("A picture", "<svg></svg>"))
    return section


# ---------------------------------------------------------------- tables


def test_a_table_as_text():
    (table,) = filled_section().tables
    assert table.text().splitlines() == [
        "Times of & for all",
        "",
        "<name>           time",
        "-------------  ------",
        "wengert < all  500 ms",
        f"paper               {MISSING}",
    ]


def test_table_without_rows():
    assert text_table(["a", "bc"], []) == ["a  bc", "-  --"]
    assert text_table([], []) == []


def test_own_rows_are_marked():
    (table,) = filled_section().tables
    assert table.html().count('<tr class="own">') == 1
    assert not Table("t", "", table.columns).is_own(["wengert", ""])


def test_rich_draws_on_a_terminal():
    pytest.importorskip("rich")
    terminal = Terminal()
    print_table(filled_section().tables[0], terminal)
    assert "500 ms" in terminal.getvalue() and "----" not in terminal.getvalue()


def test_without_rich_a_terminal_gets_plain_text(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "rich", None)
    terminal = Terminal()
    print_table(filled_section().tables[0], terminal)
    assert "-------------  ------" in terminal.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (3.2e-8, "0.03 us"),
        (9.99e-6, "9.99 us"),
        (1.234e-4, "123 us"),
        (0.25, "250 ms"),
        (65, "65.0 s"),
    ],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (41576 * 2**30, "41,576 GiB")],
)
def test_amounts(size, text):
    assert amount(size) == text


# ---------------------------------------------------------------- checks


@pytest.mark.parametrize(
    ("check", "status"),
    [
        (Check("x", 0.96, 0.96), "reached"),
        (Check("x", 0.9599, 0.96), "not reached"),
        (Check("x", 2.0, 3.0, at_least=False), "reached"),
        (Check("x", 3.1, 3.0, at_least=False), "not reached"),
        (Check("x", 0.99, 0.96, remark="1 of 5 runs"), "reached"),
        (Check("x", float("nan"), 0.96), "not reached"),
    ],
)
def test_status_of_a_check(check, status):
    assert check.status == status
    assert check.data()["status"] == status


def test_remarks_are_told():
    check = Check("x", 0.5, 0.6, remark="after 1 of 5 epochs")
    assert check.text() == (
        "not reached: x: 50.00 % (wanted: at least 60.00 %); after 1 of 5 epochs"
    )
    assert percent(1) == "100.00 %"


# ---------------------------------------------------------------- files


def test_schema_of_the_results(tmp_path):
    report = Report(tmp_path, quick=True)
    section = report.add(filled_section())
    section.curves["loss"] = np.array([1.0, float("nan")])
    results, _ = report.write()
    found = json.loads(results.read_text())
    assert set(found) == {"machine", "quick", "experiments"}
    assert found["quick"] is True
    assert {"wengert", "python", "numpy", "processor", "system", "cores"} == set(found["machine"])
    (section,) = found["experiments"].values()
    assert set(section) == SECTION_KEYS
    assert section["tables"]["times"][0] == {"name": "wengert < all", "t": 0.5}
    assert section["checks"][0]["status"] == "reached"
    assert section["curves"]["loss"] == [1.0, None]  # JSON has no NaN


def assert_self_contained(text):
    assert "<script" not in text and "@import" not in text and "url(http" not in text
    for target in re.findall(r'(?:href|src)="([^"]*)"', text):
        assert target.startswith(("#", "data:image/png;base64,")), target
    outside = set(re.findall(r"https?://[^\"' )<]*", text)) - {"http://www.w3.org/2000/svg"}
    assert not outside


def test_the_page_is_escaped_and_self_contained(tmp_path):
    report = Report(tmp_path)
    report.add(filled_section())
    text = page(report)
    assert "A &amp; B" in text and "wengert &lt; all" in text and "digits &lt;drawn&gt;" in text
    assert "<code>wengert reproduce s</code>" in text
    assert "✓ reached" in text and "prefers-color-scheme:dark" in text
    assert "One seed" not in text and "One seed" in page(Report(tmp_path, quick=True))
    assert_self_contained(text)


def test_what_is_not_self_contained_is_found():
    with pytest.raises(AssertionError):
        assert_self_contained('<img src="https://example.org/a.png">')


def test_writing_leaves_nothing_else_behind(tmp_path):
    report = Report(tmp_path)
    report.write()
    report.write()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "results.json"]


# ---------------------------------------------------------------- running


def experiment(run):
    return Experiment(run, "Title", "about")


def test_a_failing_experiment_keeps_what_was_found(tmp_path):
    def fail(section, progress, settings):
        section.table("t", "caption", [Column("n", "n")]).rows.append({"n": 1})
        raise RuntimeError("broken")

    stream = io.StringIO()
    with pytest.raises(RuntimeError, match="broken"):
        reproduce({"fail": experiment(fail)}, tmp_path, stream=stream)
    assert "not finished" in stream.getvalue()
    found = json.loads((tmp_path / "results.json").read_text())
    assert found["experiments"]["fail"]["tables"]["t"] == [{"n": 1}]
    assert found["experiments"]["fail"]["complete"] is False


def test_each_experiment_is_written_before_the_next_begins(tmp_path):
    seen = []

    def look(section, progress, settings):
        path = tmp_path / "results.json"
        seen.append(sorted(json.loads(path.read_text())["experiments"]) if path.exists() else [])

    reproduce({"a": experiment(look), "b": experiment(look)}, tmp_path, stream=io.StringIO())
    assert seen == [[], ["a"]]


def test_the_command_is_that_of_the_settings(tmp_path):
    settings = Settings(quick=False, epochs=3, seeds=2, data="d", peers=("torch", "jax"), cv=True)
    run = {"x": experiment(lambda section, progress, settings: None)}
    report = package_reproduce(run, tmp_path, settings, io.StringIO())
    assert report.sections[0].command == (
        "wengert reproduce x --full --epochs 3 --seeds 2 --data d --peers torch,jax --cv"
    )


def test_a_busy_machine_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr("os.getloadavg", lambda: (9.0, 0, 0), raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    run = {"x": experiment(lambda section, progress, settings: None)}
    report = reproduce(run, tmp_path, stream=io.StringIO())
    assert report.sections[0].notes == [
        "The machine was busy (load 9.0 on 2 cores): times are too long."
    ]
    monkeypatch.setattr("os.getloadavg", lambda: (2.0, 0, 0), raising=False)
    assert reproduce(run, tmp_path, stream=io.StringIO()).sections[0].notes == []
