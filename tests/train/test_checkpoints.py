"""A training that is interrupted in any way ends with the bits of one that was not."""

import os
import random
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import wengert as wg
from wengert import data, nn, optim
from wengert.train import EarlyStopping
from wengert.train.checkpoints import Checkpoint, CheckpointWarning, digest

X, Y = data.circles(130)


class Stop(Exception):  # noqa: N818 - not an error
    """Ends a training from a callback."""


class StopAfter:
    """Raises after so many steps."""

    def __init__(self, steps):
        self.steps = steps

    def on_progress(self, run):
        if run.step >= self.steps:
            raise Stop


class Passing(nn.Module):
    """Counts its calls in a buffer that is not part of state dicts."""

    def __init__(self):
        self.register_buffer("calls", np.zeros(()), persistent=False)

    def forward(self, x):
        nn.module.write(self.calls, self.calls + 1)
        return x * (1 + 0.01 * self.calls).astype(np.float32)


def training(path=None, epochs=3, stop=None, callbacks=(), **options):
    """A training with state of all kinds."""
    nn.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.2), Passing(), nn.Linear(8, 2)
    )
    optimizer = optim.Adam(model.parameters(), lr=0.02, amsgrad=True)
    schedule = optim.OneCycleLR(optimizer, 0.05, total_steps=30)
    callbacks = [*callbacks, *([] if stop is None else [StopAfter(stop)])]
    options = {"checkpoint_steps": 4, "progress": False, "schedule": schedule, **options}
    history = wg.fit(
        model, nn.cross_entropy, optimizer, (X, Y), epochs, 20, (X, Y), 7, callbacks, path,
        **options,
    )  # fmt: skip
    state = {**model.state_dict(), "calls": np.array(model[4].calls.numpy())}
    return digest([state, optimizer.state_dict(), schedule.state_dict()]), history


@pytest.fixture(scope="module")
def whole():
    return training()


@pytest.mark.parametrize("steps", [4, 9, 20])
def test_resumes_to_the_same_bits(tmp_path, whole, steps):
    """In the first epoch, in the second, and in the last, short batch of one."""
    path = tmp_path / "run.safetensors"
    with pytest.raises(Stop) as caught:
        training(path, stop=steps)
    assert caught.value.history.step_count >= steps
    state, history = training(path)
    assert state == whole[0]
    for name, curve in whole[1].steps.items():
        np.testing.assert_array_equal(history.steps[name], curve)
    for name in ("loss", "accuracy", "validation_loss", "lr"):
        np.testing.assert_array_equal(history[name], whole[1][name])


def test_a_finished_training_is_only_read(tmp_path, whole):
    path = tmp_path / "run.safetensors"
    training(path)
    seen = []
    state, history = training(path, callbacks=[seen.append])
    assert state == whole[0] and not seen
    assert history.to_dict() == training(path)[1].to_dict()


def test_more_epochs_than_before(tmp_path):
    path = tmp_path / "run.safetensors"
    training(path, epochs=2)
    assert training(path, epochs=4)[0] == training(epochs=4)[0]


def test_callbacks_are_kept(tmp_path):
    def stopping():
        return [EarlyStopping(patience=2, monitor="validation_loss", min_delta=10.0)]

    path = tmp_path / "run.safetensors"
    expected = training(epochs=9, callbacks=stopping())
    assert len(expected[1]) == 3
    with pytest.raises(Stop):
        training(path, epochs=9, callbacks=stopping(), stop=16)
    for _ in range(2):  # the second time there is nothing left to do but to take the best
        resumed = training(path, epochs=9, callbacks=stopping())
        assert resumed[0] == expected[0] and len(resumed[1]) == 3
    with pytest.raises(ValueError) as caught:
        training(path, epochs=9)
    assert str(caught.value).endswith(
        "the checkpoint has the state of a callback EarlyStopping, which is not there. "
        "Resume with the same callbacks, as far as they have a state."
    )


@pytest.mark.parametrize(
    "options, message",
    [
        ({"drop_last": True}, "is of a training with drop_last=False, this one has drop_last=True"),
        ({"schedule": None}, "the training of the checkpoint had a schedule, this one has none"),
    ],
)
def test_other_arguments_are_refused(tmp_path, options, message):
    path = tmp_path / "run.safetensors"
    training(path, epochs=1)
    with pytest.raises(ValueError) as caught:
        training(path, **options)
    assert message in str(caught.value)


# ---------------------------------------------------------------- the files


def test_the_last_two_are_kept(tmp_path):
    path = tmp_path / "folder" / "run.safetensors"
    training(path, epochs=1)
    files = sorted(os.listdir(path.parent))
    assert files == ["run.safetensors", "run.safetensors.previous"]
    contents = [wg.load(path.parent / name)["run"]["step"] for name in files]
    assert contents == [7, 4]
    assert wg.load(path)["model"]["0.weight"].shape == (8, 2)


def with_table(raw, change):
    """The bytes of a checkpoint whose table was changed by hand."""
    size = int.from_bytes(raw[:8], "little")
    header = change(bytes(raw[8 : 8 + size]).decode()).encode()
    return len(header).to_bytes(8, "little") + header + raw[8 + size :]


CRAFTED = {
    "kind": lambda table: table.replace('\\"array\\"', '\\"other\\"', 1),
    "no pair": lambda table: table.replace('\\"dict\\": [[', '\\"dict\\": [[[', 1),
    "dtype": lambda table: table.replace('"dtype":"F32"', '"dtype":["F32"]', 1),
    "shape": lambda table: table.replace('"shape":[8,2]', '"shape":[[8],2]', 1),
    "format": lambda table: table.replace('{\\"value\\": 1}', '{\\"value\\": 7}', 1),
    "format is an array": lambda table: table.replace(
        '{\\"value\\": 1}', '{\\"array\\": \\"model.0.weight\\"}', 1
    ),
    "digest is an array": lambda table: re.sub(
        r'(digest\\", )\{.*?\}', r'\1{\\"array\\": \\"model.0.weight\\"}', table
    ),
    "overflow": lambda table: re.sub(r'(float\\": \\")[^\\]*', r"\g<1>0x1p9999", table, count=1),
}


@pytest.mark.parametrize("change", CRAFTED)
def test_a_crafted_table_falls_back_to_the_one_before(tmp_path, change):
    path = tmp_path / "run.safetensors"
    checkpoint = Checkpoint(path)
    content = {"model": {"0.weight": np.ones((8, 2), np.float32)}, "rate": 0.1, "epoch": 1}
    for epoch in (1, 2):
        checkpoint.write({**content, "epoch": epoch})
    raw = path.read_bytes()
    changed = with_table(raw, CRAFTED[change])
    assert changed != raw
    path.write_bytes(changed)
    with pytest.warns(CheckpointWarning, match=r"The checkpoint before it, .*\.previous, is used"):
        assert checkpoint.read()["epoch"] == 1


@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_a_damaged_file_falls_back_to_the_one_before(tmp_path, whole, damage):
    path = tmp_path / "run.safetensors"
    with pytest.raises(Stop):
        training(path, stop=13)
    raw = bytearray(path.read_bytes())
    if damage == "flip":
        raw[-3] ^= 16
    path.write_bytes(raw[: {"cut": len(raw) // 2, "flip": len(raw), "empty": 0}[damage]])
    with pytest.warns(CheckpointWarning, match=r"The checkpoint before it, .*\.previous, is used"):
        state, _ = training(path)
    assert state == whole[0]
    assert sorted(os.listdir(tmp_path)) == [
        "run.safetensors", "run.safetensors.damaged", "run.safetensors.previous"
    ]  # fmt: skip


def test_two_damaged_files(tmp_path):
    path = tmp_path / "run.safetensors"
    training(path, epochs=1)
    for one in (path, tmp_path / "run.safetensors.previous"):
        one.write_bytes(b"nothing")
    with pytest.raises(ValueError) as caught:
        training(path)
    assert "and the one before it are damaged" in str(caught.value)
    assert str(caught.value).endswith("Remove them to start anew.")


def test_other_files_are_not_taken_for_checkpoints(tmp_path):
    path = tmp_path / "model.safetensors"
    wg.save(path, {"weights": np.zeros(3)})
    with pytest.raises(ValueError, match="is no checkpoint of a training"):
        training(path)
    np.testing.assert_array_equal(wg.load(path)["weights"], np.zeros(3))  # still there
    wg.save(path, {"format": 99})
    with pytest.raises(ValueError, match="has the format 99, known is 1"):
        training(path)


def test_what_killed_processes_left_is_removed(tmp_path):
    path = tmp_path / "run.safetensors"
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = tmp_path / f"run.safetensors.{ended.pid}.ab12cd34.tmp"
    other = tmp_path / f"run.safetensors.{os.getppid()}.ab12cd34.tmp"
    left.write_bytes(b"half")
    other.write_bytes(b"being written")
    assert Checkpoint(path).read() is None
    assert not left.exists() and other.exists()


# ---------------------------------------------------------------- killed

PROGRAM = """
import sys, time
import numpy as np
import wengert as wg
from wengert import data, nn, optim
from wengert.train.checkpoints import digest

class Say:
    start = None

    def on_progress(self, run):
        if self.start is None:
            self.start = time.monotonic()
            print(run.step - 1, flush=True)

    def on_end(self, run):
        print(time.monotonic() - (self.start or time.monotonic()))

nn.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 16), nn.BatchNorm1d(16), nn.Dropout(0.1), nn.Linear(16, 2))
optimizer = optim.Adam(model.parameters(), lr=0.01)
schedule = optim.CosineLR(optimizer, 6)
wg.fit(model, nn.cross_entropy, optimizer, data.circles(950), 6, 25, callbacks=[Say()],
       checkpoint=sys.argv[1], checkpoint_steps=1, schedule=schedule, progress=False)
print(digest([model.state_dict(), optimizer.state_dict()]), flush=True)
"""


def start(path):
    command = [sys.executable, "-c", PROGRAM, str(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def finished(path):
    """The seconds that the steps took, and the final bits."""
    process = start(path)
    output = process.communicate()[0].split()
    assert process.returncode == 0
    return float(output[-2]), output[-1]


def kill_and_resume(folder, kills, seed):
    usual, expected = finished(folder / "whole.safetensors")
    rng, path, places = random.Random(seed), folder / "run.safetensors", []
    for _ in range(kills):
        process = start(path)
        begun = process.stdout.readline().strip()
        if begun.isdigit():  # the step that it started with; else there was none left to make
            places.append(int(begun))
        time.sleep(rng.random() * usual / kills)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert finished(path)[1] == expected
    assert places == sorted(places) and places[-1] > 0  # each went on where the one before was
    files = [name for name in os.listdir(folder) if name.startswith("run")]
    assert sorted(files) == ["run.safetensors", "run.safetensors.previous"]


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_killed_three_times(tmp_path):
    kill_and_resume(tmp_path, kills=3, seed=0)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_killed_twenty_times(tmp_path):
    kill_and_resume(tmp_path, kills=20, seed=1)


@pytest.mark.skipif(os.name != "posix", reason="needs SIGINT")
def test_ctrl_c(tmp_path):
    """The steps under way are finished, and all of them are in the checkpoint."""
    path = tmp_path / "run.safetensors"

    class Press:
        def on_progress(self, run):
            if run.step >= 8:
                os.kill(os.getpid(), signal.SIGINT)
                assert run.model.training  # nothing is raised in the middle of things

    with pytest.raises(KeyboardInterrupt) as caught:
        training(path, callbacks=[Press()], checkpoint_steps=None)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    history = caught.value.history
    assert history.step_count == wg.load(path)["run"]["step"] >= 8
    step = history.step_count
    assert str(caught.value) == (
        f"fit: interrupted in epoch {step // 7 + 1} after {step % 7} of 7 steps. "
        f"The checkpoint is {path}."
    )
    assert training(path)[0] == training()[0]


@pytest.mark.skipif(os.name != "posix", reason="needs SIGINT")
def test_ctrl_c_twice_interrupts_at_once():
    def press(run):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)

    with pytest.raises(KeyboardInterrupt) as caught:
        training(callbacks=[press])
    assert str(caught.value) == "" and caught.value.history.step_count == 7
