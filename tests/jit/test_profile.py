"""Where the time goes: by kernel, by line, beside its floor, and as a trace for Chrome."""

import itertools
import json

import numpy as np
import pytest

import wengert as wg
from wengert.scipy.linalg import expm


def loss(w, x):
    hidden = np.tanh(x @ w)
    return np.sum(hidden * hidden)


@pytest.fixture(scope="module")
def profile():
    function = wg.jit(wg.value_and_grad(loss))
    return function.profile(np.full((60, 40), 0.01), np.ones((200, 60)))


def line(offset):
    return f"test_profile.py:{loss.__code__.co_firstlineno + offset}"


def test_kernels_have_times_lines_and_floors(profile):
    top = [kernel for kernel in profile.kernels if kernel.depth == 0]
    assert sum(kernel.seconds for kernel in top) == pytest.approx(profile.seconds)
    assert all(0 <= kernel.floor <= kernel.seconds for kernel in profile.kernels)
    named = {name for kernel in profile.kernels for name in kernel.lines}
    assert {line(1), line(1) + " (derivative)", line(2)} <= named
    assert 0 < profile.floor <= profile.seconds


def test_lines_share_the_time(profile):
    found = {one.line: one for one in profile.lines}
    assert found[line(1)].forward > 0 and found[line(1)].backward > 0
    assert 0.5 * profile.seconds < sum(one.seconds for one in profile.lines)
    assert sum(one.seconds for one in profile.lines) <= 1.001 * profile.seconds
    assert profile.lines == sorted(profile.lines, key=lambda one: -one.seconds)


def test_it_prints_as_tables(profile):
    text = str(profile)
    assert text.startswith("loss: ") and " us, floor " in text.splitlines()[0]
    assert "        time   share    floor  of time  kernel" in text
    assert "     forward     backward   share  line" in text and line(1) in text
    assert repr(profile).startswith("<profile of loss: ")
    assert profile._repr_html_().count("<tr>") == 1 + len(profile.kernels)


def test_chrome_trace(profile, tmp_path):
    path = tmp_path / "trace.json"
    assert profile.chrome_trace(path) == str(path)
    events = [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"]
    whole, *kernels = events
    assert whole["dur"] == pytest.approx(1e6 * profile.seconds)
    assert len(kernels) == len(profile.kernels)
    for event in kernels:
        assert event["ts"] >= 0 and event["ts"] + event["dur"] <= 1.001 * whole["dur"]
    tops = [e for e, k in zip(kernels, profile.kernels, strict=True) if k.depth == 0]
    for one, other in itertools.pairwise(tops):
        assert one["ts"] + one["dur"] == pytest.approx(other["ts"])


def test_its_page_opens_at_the_time(profile, tmp_path):
    path = tmp_path / "page.html"
    assert profile.html(path) == str(path)
    assert path.stat().st_size > 400_000


def test_a_block_with_a_number_that_is_computed_where_it_is_used():
    """How often a matrix is halved and squared has no function of its own, and no time."""
    x = np.random.default_rng(0).normal(size=(5, 20, 20))
    found = wg.jit(wg.vmap(lambda a: expm(0.3 * a))).profile(x)
    inner = [kernel for kernel in found.kernels if kernel.depth > 0]
    assert inner and all(kernel.seconds > 0 for kernel in inner)
    assert found.seconds > 0
