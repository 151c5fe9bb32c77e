"""Run on every rank: a training of a small network, whose result is written to a file.

python training.py MODEL OUT [checkpoint=PATH] [epochs=N] [parts=N] [shard=1]
                   [fail=RANK] [pause=SECONDS] [mapped=FOLDER]

With a folder the examples are files there, which are mapped into memory.
"""

import os
import sys
import time
from pathlib import Path

import numpy as np

import wengert as wg
from wengert import nn, optim
from wengert.job import world

EXAMPLES = 203
RNG = np.random.default_rng(11)
X = RNG.normal(size=(EXAMPLES, 1, 6, 6)).astype(np.float32)
Y = (X.sum((1, 2, 3)) > 0).astype(np.int64) + (X[:, 0, 0, 0] > 1)


def model(name):
    """Plain ones, and such with randomness and with statistics of the batch."""
    if name == "mlp":
        layers = [nn.Flatten(), nn.Linear(36, 16), nn.ReLU(), nn.Linear(16, 3)]
    elif name == "noisy":
        layers = [nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()]
        layers += [nn.Dropout(0.3), nn.Linear(64, 3)]
    return nn.Sequential(*layers)


class Fault:
    """A rank fails after the first epoch; all take their time, so that others can end them."""

    def __init__(self, fail, pause):
        self.fail, self.pause = int(fail), float(pause)

    def on_epoch_end(self, run):
        """As `fit` calls it."""
        if wg.distributed.rank() == self.fail:
            raise ValueError("this rank has had enough")

    def on_progress(self, run):
        """As `fit` calls it."""
        time.sleep(self.pause)


def examples(folder):
    """Images and classes, in memory or in files."""
    if folder is None:
        return X, Y
    if wg.distributed.rank() == 0:
        for name, array in (("x", X), ("y", Y)):
            np.save(Path(folder, f"{name}.npy"), array)
    world().agreed(None)  # they are there
    return tuple(np.load(Path(folder, f"{name}.npy"), mmap_mode="r") for name in "xy")


def train(name, checkpoint=None, epochs=3, parts=None, fail=-1, pause=0, shard=0, mapped=None):
    """The trained state and the curves."""
    nn.manual_seed(1)
    network = model(name)
    optimizer = optim.Adam(network.parameters(), lr=0.01)
    history = wg.fit(
        network, nn.cross_entropy, optimizer, examples(mapped), int(epochs), 64,
        validation=(X[:50], Y[:50]), seed=3, callbacks=[Fault(fail, pause)], checkpoint=checkpoint,
        checkpoint_steps=1, progress=False, parts=parts and int(parts), clip_norm=1.0,
        shard_optimizer=bool(int(shard)),
    )  # fmt: skip
    found = {name: np.asarray(value) for name, value in network.state_dict().items()}
    found |= {f"{n}.{k}": v.numpy() for n, d in enumerate(optimizer.state) for k, v in d.items()}
    kept = ("loss", "accuracy", "validation_loss", "validation_accuracy")
    found |= {f"epochs {k}": np.array([one[k] for one in history.epochs]) for k in kept}
    return found | {f"steps {name}": np.asarray(v) for name, v in history.steps.items()}


if __name__ == "__main__":
    name, out, *options = sys.argv[1:]
    Path(f"{out}.{wg.distributed.rank()}.pid").write_text(str(os.getpid()))
    found = train(name, **dict(option.split("=") for option in options))
    bits = np.concatenate([np.ravel(value).view("u1") for value in found.values()])
    every = wg.distributed.all_gather(bits)
    assert (every == every[0]).all(), "ranks differ"
    if wg.distributed.rank() == 0:
        np.savez(f"{out}.tmp.npz", **found)
        os.replace(f"{out}.tmp.npz", out)
