"""Wrong arguments of `fit`: the exact words."""

import numpy as np
import pytest

import wengert as wg
from wengert import data, nn, optim
from wengert.train import EarlyStopping

X, Y = data.circles(200)
PAIR = (
    ", expected a pair of inputs and targets. Give (x, y), where each is an array or a tree of "
    "arrays, a split of a data set, or a data.Loader of one of these."
)
ROWS = "the arrays have 200, 9 rows. The first axes count the examples and must agree."


def arguments(**changed):
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
    return {
        "model": model,
        "loss": nn.cross_entropy,
        "optimizer": optim.SGD(model.parameters(), lr=0.1),
        "train": (X, Y),
        "epochs": 1,
        "batch_size": 50,
        "progress": False,
        **changed,
    }


@pytest.mark.parametrize(
    "name, value, message",
    [
        (
            "model",
            np.tanh,
            "got ufunc as model, expected an nn.Module. Write a class with forward(self, x).",
        ),
        (
            "loss",
            3,
            "got int as loss, expected a function of (output, target). Give nn.cross_entropy.",
        ),
        (
            "loss",
            lambda output, y: output,
            "the loss has shape (50, 2), expected one number. "
            'Give a loss that takes the mean over the batch: reduction="mean".',
        ),
        (
            "optimizer",
            0.1,
            "got float as optimizer, expected an optimizer. "
            "Give optim.SGD(model.parameters(), lr=0.01).",
        ),
        ("epochs", -1, "got epochs=-1, expected a whole number of at least 0."),
        ("batch_size", None, "got batch_size=None, expected a whole number of at least 1."),
        ("seed", 0.5, "got seed=0.5, expected a whole number of at least 0."),
        ("patience", 0, "got patience=0, expected a whole number above 0."),
        ("checkpoint_steps", 0, "got checkpoint_steps=0, expected a whole number of at least 1."),
        (
            "metrics",
            "all",
            "got metrics='all'. Give \"auto\", None, or a dict of functions of (output, target) by "
            'name, other than "loss".',
        ),
        (
            "schedule_every",
            "day",
            'got schedule_every=\'day\', expected "auto", "epoch" or "step".',
        ),
        (
            "schedule",
            1,
            "got int as schedule, expected a schedule. Give optim.CosineLR(optimizer, 10).",
        ),
        (
            "callbacks",
            [3],
            "got the callback 3. Give functions of the run, or objects with any of the methods "
            "on_start, on_progress, on_epoch_end, on_end.",
        ),
        ("train", X, f"got examples as ndarray{PAIR}"),
        ("train", (X, Y, Y), f"got examples as tuple of 3{PAIR}"),
        ("train", (X, Y[:9]), ROWS),
        ("train", (X[:0], Y[:0]), "got arrays of no examples."),
        ("train", (1.0, 2.0), "got a number or nothing, expected arrays of examples."),
        ("validation", (X, Y[:9]), ROWS),
    ],
)
def test_wrong_arguments(name, value, message):
    with pytest.raises((TypeError, ValueError)) as caught:
        wg.fit(**arguments(**{name: value}))
    assert str(caught.value).partition("): ")[2] == message


def test_batches_that_leave_nothing():
    with pytest.raises(ValueError) as caught:
        wg.fit(**arguments(batch_size=500, drop_last=True))
    assert str(caught.value).endswith(
        "batch_size=500 with drop_last leaves no batch of 200 examples. "
        "Use a smaller batch_size, or drop_last=False."
    )


def test_lbfgs_with_clipped_gradients():
    model = nn.Linear(2, 2)
    lbfgs = optim.LBFGS(model.parameters())
    with pytest.raises(ValueError) as caught:
        wg.fit(**arguments(model=model, optimizer=lbfgs, clip_norm=1.0))
    assert str(caught.value).endswith(
        "got clip_norm=1.0 for LBFGS. It chooses its steps by the gradients as they are: "
        "leave clip_norm out."
    )


def test_the_schedule_of_another_optimizer():
    other = optim.SGD(nn.Linear(2, 2).parameters(), lr=1.0)
    with pytest.raises(ValueError) as caught:
        wg.fit(**arguments(schedule=optim.StepLR(other, 2)))
    assert str(caught.value).endswith(
        "the schedule is of another optimizer. Make it with this one."
    )


def test_early_stopping():
    with pytest.raises(ValueError) as caught:
        wg.fit(**arguments(callbacks=EarlyStopping(monitor="validation_loss")))
    assert str(caught.value).endswith(
        "monitor='validation_loss' is not measured. "
        "Measured are loss, accuracy, seconds, examples_per_second."
    )
    with pytest.raises(ValueError) as caught:
        EarlyStopping(mode="up")
    assert str(caught.value).endswith('got mode=\'up\', expected "min" or "max".')
