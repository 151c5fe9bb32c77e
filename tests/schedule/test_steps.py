"""The steps of the schedule: in order, told by `explain`, and each of them can be left out."""

import os
import subprocess
import sys

import numpy as np
import pytest

import wengert as wg
from wengert.bench import cnn
from wengert.errors import OptionError
from wengert.schedule.setting import choose_steps
from wengert.schedule.steps import SPEED, STEPS, load

NAMES = [step.name for step in STEPS]


def scanned(w, x):
    def step(h, row):
        h = np.tanh(h @ w + row)
        return h, h

    last, rows = wg.scan(step, np.zeros((x.shape[1], len(w))), x)
    return np.mean(rows**2) + np.sum(last)


def network(params, x, y):
    w, b, v = params
    return np.mean((np.maximum(x @ w + b, 0.0) @ v - y) ** 2)


def programs():
    rng = np.random.default_rng(3)
    params = rng.normal(size=(12, 40)), rng.normal(size=40), rng.normal(size=(40, 3))
    batch = rng.normal(size=(600, 12)), rng.normal(size=(600, 3))
    yield wg.value_and_grad(network), (params, *batch)
    yield wg.value_and_grad(scanned), (rng.normal(size=(8, 8)) / 4, rng.normal(size=(5, 16, 8)))
    yield lambda x: (np.pad(x, 1), np.sum(np.exp(x)), np.sort(x)), (rng.normal(size=(20, 20)),)


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["plain", *[f"-{name}" for name in SPEED]])
def test_any_step_can_be_left_out(setting, monkeypatch):
    monkeypatch.setenv("WENGERT_CACHE", "off")
    monkeypatch.setenv("WENGERT_SCHEDULE", setting)
    for function, args in programs():
        got, want = wg.jit(function)(*args), function(*args)
        for one, other in zip(wg.tree.leaves(got), wg.tree.leaves(want), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "name, gone", [("regions", "batch loop"), ("products", "product"), ("scans", "loop")]
)
def test_what_is_left_out_is_not_there(name, gone, monkeypatch):
    monkeypatch.setenv("WENGERT_CACHE", "off")
    function, args = list(programs())[name == "scans"]
    without = "-regions" if name != "regions" else ""
    monkeypatch.setenv("WENGERT_SCHEDULE", without)
    assert gone in counts(wg.jit(function).explain(*args).schedule)
    monkeypatch.setenv("WENGERT_SCHEDULE", f"{without},-{name}")
    story = wg.jit(function).explain(*args).schedule
    assert gone not in counts(story) and f"{name}: left out" in story


def counts(story):
    """The kinds of kernels that there are in the end."""
    words = [line.split("->")[-1] for line in story.splitlines() if "arena of" in line]
    return [part.strip().split(" ", 1)[1].rstrip("s") for part in words[-1].split(",")[:-1]]


def test_the_digit_network_tells_its_steps_in_order():
    step, args = cnn.compiled_step(cnn.digit_network(), 64)
    story = step.explain(*args)
    told = [line.split(":")[0] for line in story.schedule.splitlines() if line[0] != " "]
    assert told == ["the graph", *NAMES]
    assert "# schedule" in str(story)
    for part in (
        "operator by operator: ",
        "one lane a channel, along axis 0",
        "taken: ",
        "arena of",
    ):
        assert part in story.schedule


def test_names_are_unique_and_functions_exist():
    assert len(set(NAMES)) == len(NAMES)
    for step in STEPS:
        places = [step.function, *[function for _, function in step.rules]]
        assert all(len(load(place).__doc__) > 20 for place in places if place)


def test_unknown_steps_are_refused(monkeypatch):
    with pytest.raises(OptionError, match="WENGERT_SCHEDULE: got '-chunk', expected plain, or"):
        choose_steps(SPEED, "-chunk")
    monkeypatch.setenv("WENGERT_SCHEDULE", "fast")
    with pytest.raises(OptionError, match="got 'fast'"):
        wg.jit(lambda x: x + 1.5)(np.ones(3))


def test_any_length_becomes_one_length_each(monkeypatch):
    monkeypatch.setenv("WENGERT_SCHEDULE", "plain")
    doubled = wg.jit(lambda x: np.sum(x) * x, dynamic={"x": 0})
    for n in (3, 5):
        np.testing.assert_allclose(doubled(np.ones(n)), np.full(n, float(n)))


def test_the_setting_is_part_of_the_cache(tmp_path):
    """What was compiled with all steps is not taken where some are left out."""
    code = (
        "import numpy as np, wengert as wg\n"
        "f = wg.jit(lambda x: np.tanh(x) @ x)\n"
        "x = np.ones((4, 4)); f(x); p = f.program(x)\n"
        "print(p.from_record)"
    )

    def run(setting):
        environment = {"WENGERT_CACHE": str(tmp_path), "WENGERT_SCHEDULE": setting}
        return subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, **environment},
        ).stdout.strip()

    tmp_path.chmod(0o700)
    assert [run(""), run(""), run("-epilogues"), run("-epilogues")] == [
        "False", "True", "False", "True",
    ]  # fmt: skip
