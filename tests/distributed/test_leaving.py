"""A rank that leaves before the others: the job ends within seconds, with one message."""

import time

import pytest

import ranks

# The others would wait for ever; starting takes most of it, on a machine that is busy.
SECONDS = 45
WAITED_FOR = "has ended its program while rank 0 waits for it in an operation of all ranks"
ENDINGS = {
    "raise": WAITED_FOR,
    "exit": "has left with status 1, so all ranks end.",
    "early": WAITED_FOR,
}


def left(count, how, good=False):
    start = time.monotonic()
    text = ranks.run(count, "leaving.py", how, timeout=SECONDS, good=good)
    assert text.count("ready") == count
    assert time.monotonic() - start < SECONDS
    return text


@ranks.needs_mpi
@pytest.mark.parametrize(
    "count, how",
    [(2, "raise"), (3, "early"), pytest.param(2, "exit", marks=pytest.mark.slow)],
)
def test_the_job_ends_with_one_message(count, how):
    text = left(count, how)
    assert text.count("wengert: rank") == 1
    assert f"rank {count - 1} of {count} {ENDINGS[how]}" in text


@ranks.needs_mpi
@pytest.mark.slow
@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT"])
def test_a_rank_that_is_ended_by_a_signal_ends_the_job(how):
    assert "TERMINATED" in left(2, how) or how == "SIGINT"


@ranks.needs_mpi
@pytest.mark.slow
def test_ranks_that_end_one_after_the_other_are_left_alone():
    assert "wengert: rank" not in left(3, "good", good=True)
    assert "wengert: rank" not in left(2, "all leave")
