"""The images that the experiments train on, and what to call them in a table."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from wengert import data

from ..errors import DataNotFoundError
from .settings import Settings

TITLES = {"mnist": "MNIST", "fashion": "Fashion-MNIST", "digits": "digits drawn by wengert"}
_LOADERS = {"mnist": data.mnist, "fashion": data.fashion_mnist}


@dataclass(frozen=True)
class Choice:
    """Which data set a run uses: `name` is what was meant or, if it cannot be had, `digits`."""

    name: str
    meant: str
    folder: str | None = None

    @property
    def genuine(self) -> bool:
        """Whether it is the papers' data."""
        return self.name == self.meant

    @property
    def title(self) -> str:
        """What a table calls it.

        >>> Choice("digits", "mnist").title
        'digits drawn by wengert, in place of MNIST, which is not here'
        """
        if self.genuine:
            return TITLES[self.name]
        return f"{TITLES[self.name]}, in place of {TITLES[self.meant]}, which is not here"


@functools.lru_cache
def _choose(meant: str, folder: str | None) -> Choice:
    try:
        _LOADERS[meant](folder)
    except DataNotFoundError:
        return Choice("digits", meant)
    return Choice(meant, meant, folder)


def choose(meant: str, settings: Settings) -> Choice:
    """The data set that is meant if it is here or can be fetched, else drawn digits."""
    return _choose(meant, settings.data)


def load(name: str, folder: str | None = None, limit: int | None = None) -> data.Dataset:
    """The data set; `limit` keeps that many images to train and to test."""
    if name == "digits":
        count = {} if limit is None else {"train": limit, "test": limit}
        return data.digits(**count)
    found = _LOADERS[name](folder)
    if limit is None:
        return found
    train, test = found.train[:limit], found.test[:limit]
    return data.Dataset(found.name, train, test, found.classes, found.source)
