"""Checkpoints: all the state of a training in one file, and in the one before it.

The file is a safetensors file (see `storage.py`) with parameters and buffers, the optimizer, the
schedule, callbacks, the stream of random numbers, the history, and the place in the epoch. The
order of an epoch is a function of the seed and the epoch's number, so it need not be kept.

A file is written beside the old one, made to last and renamed into place; the old one stays as
``PATH.previous``. Whenever the process is killed there is a complete file. Each carries a checksum
of its content, so one that the disk has damaged is noticed, and the one before is taken.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import warnings
from typing import Any

import numpy as np

from .. import nn
from ..errors import DataError, OptionError, explain
from ..storage import load, save
from ..tensor import no_grad, peek

_FORMAT = 1
_DIGEST = "digest"


class CheckpointWarning(UserWarning):
    """The last checkpoint could not be used, the one before it was."""


class Checkpoint:
    """The checkpoint files of a training."""

    def __init__(self, path: Any):
        self.path = os.path.abspath(os.fspath(path))
        self.previous = f"{self.path}.previous"

    def write(self, content: dict[str, Any]) -> None:
        """Write a new file; the last one becomes the previous one."""
        content = {"format": _FORMAT, **content}
        content[_DIGEST] = digest(content)
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        if os.path.exists(self.path):
            self._keep()
        save(self.path, content)

    def _keep(self) -> None:
        """Give the last file its second name; it keeps the first until the new one is there."""
        beside = f"{self.previous}.{os.getpid()}.tmp"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
        try:
            os.link(self.path, beside)
        except OSError:  # a file system without links
            os.replace(self.path, self.previous)
            return
        os.replace(beside, self.previous)

    def read(self) -> dict[str, Any] | None:
        """The content of the last file that is whole; None where there is none."""
        self._clean()
        problems = []
        for path in (self.path, self.previous):
            try:
                content = _read(path)
            except FileNotFoundError:
                continue
            except DataError as error:
                problems.append(str(error))
                continue
            if problems:
                # it must not become the previous one when the next is written
                os.replace(self.path, f"{self.path}.damaged")
                warnings.warn(
                    f"fit: {problems[0]} The checkpoint before it, {path}, is used.",
                    CheckpointWarning,
                    stacklevel=2,
                )
            return content
        if problems:
            raise DataError(
                explain(
                    "fit",
                    f"the checkpoint {self.path} and the one before it are damaged: {problems[0]}",
                    "Remove them to start anew.",
                )
            )
        return None

    def _clean(self) -> None:
        """Remove what processes left behind that were killed while they wrote."""
        for path in (self.path, self.previous):
            for left in glob.glob(f"{glob.escape(path)}.*.tmp"):
                writer = left.removeprefix(path).split(".")[1]
                if writer.isdigit() and not _lives(int(writer)):
                    with contextlib.suppress(OSError):
                        os.unlink(left)


def _lives(process: int) -> bool:
    if os.name != "posix":
        return True  # asking would end it there
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return process != os.getpid()


def _read(path: str) -> dict[str, Any]:
    content = load(path)
    if not isinstance(content, dict) or "format" not in content:
        raise DataError(explain("fit", f"{path} is no checkpoint of a training"))
    known = type(content["format"]) is int and content["format"] == _FORMAT
    written = content.pop(_DIGEST, None)
    # another format may have no such checksum; where there is one it must fit
    if (written is not None or known) and repr(written) != repr(digest(content)):
        raise DataError(explain("fit", f"{path} is damaged: its checksum is not that of its bytes"))
    if not known:
        raise OptionError(
            explain(
                "fit",
                f"{path} has the format {content['format']!r}, known is {_FORMAT}",
                "Resume with the version of wengert that wrote it.",
            )
        )
    return content


def digest(tree: Any) -> str:
    """A checksum of a tree of arrays, numbers and strings.

    >>> digest({"a": np.zeros(2)}) == digest({"a": np.zeros(2)})
    True
    >>> digest({"a": np.zeros(2)}) == digest({"a": np.zeros(2, np.int64)})
    False
    """
    state = hashlib.blake2b(digest_size=16)
    waiting = [tree]
    while waiting:
        value = waiting.pop()
        if isinstance(value, (np.ndarray, np.generic)):
            array = np.ascontiguousarray(value)
            state.update(f"{array.dtype.str}{np.shape(value)}".encode())
            state.update(array.reshape(-1).view(np.uint8).data)
        elif isinstance(value, dict):
            state.update(repr(list(value)).encode())
            waiting += value.values()
        elif isinstance(value, (tuple, list)):
            state.update(f"{len(value)}".encode())
            waiting += value
        else:
            state.update(repr(value).encode())
    return state.hexdigest()


# ---------------------------------------------------------------- the state of a training


def state_of(model: Any, optimizer: Any, schedule: Any) -> dict[str, Any]:
    """Everything that the steps to come depend on."""
    return {
        "model": model.state_dict(),
        "others": {name: np.array(peek(t)) for name, t in _others(model, optimizer).items()},
        "optimizer": optimizer.state_dict(),
        "schedule": None if schedule is None else schedule.state_dict(),
        "random": nn.get_rng_state(),
    }


def restore_state(content: dict[str, Any], model: Any, optimizer: Any, schedule: Any) -> None:
    """Put all of it back, in place."""
    if (schedule is None) != (content["schedule"] is None):
        had, has = ("no", "one") if content["schedule"] is None else ("a", "none")
        raise OptionError(
            explain(
                "fit",
                f"the training of the checkpoint had {had} schedule, this one has {has}",
                "Resume with the same arguments.",
            )
        )
    model.load_state_dict(content["model"])
    with no_grad():
        for name, tensor in _others(model, optimizer).items():
            if name in content["others"]:
                tensor[...] = content["others"][name]
    if schedule is not None:
        schedule.load_state_dict(content["schedule"])
    optimizer.load_state_dict(content["optimizer"])
    nn.set_rng_state(content["random"])


def _others(model: Any, optimizer: Any) -> dict[str, Any]:
    """Tensors that no state dict has: passing buffers, trained tensors outside of the model."""
    known = {id(tensor) for _, tensor in model._state()}
    found = {f"buffer {n}": t for n, t in model.named_buffers() if id(t) not in known}
    trained = [p for group in optimizer.param_groups for p in group.params]
    outside = [p for p in trained if id(p) not in known]
    return {**found, **{f"trained {n}": p for n, p in enumerate(outside)}}
