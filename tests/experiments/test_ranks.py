"""`wengert reproduce --ranks`: a training on several processes, and the bits of one."""

import pytest

import ranks
from wengert.experiments.settings import Settings
from wengert.experiments.training import TASK
from wengert.experiments.workers import stream

JOB = {
    "data_name": "digits",
    "network": {"kind": "cnn", "scheme": "glorot"},
    "lr": 0.1,
    "epochs": 1,
    "seeds": 1,
    "limit": 400,
}


@ranks.needs_mpi
@pytest.mark.slow
def test_a_training_of_the_papers_runs_on_any_number_of_ranks():
    found = {}
    for count in (2, 3):
        items = list(stream(TASK, ranks=count, **JOB))
        assert [item["kind"] for item in items] == ["epoch", "run", "memory"]
        (found[count],) = [item for item in items if item["kind"] == "run"]
    for name in ("accuracy", "batch_loss", "batch_accuracy"):
        assert found[2][name] == found[3][name]


def test_the_command_says_how_many_ranks():
    assert Settings(ranks=4).options() == "--ranks 4"
    assert Settings().options() == ""
