"""What the user asked of `wengert reproduce`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Settings:
    """How much to run, on what, and beside whom.

    A quick run has one seed, a full one all of the papers'; both have the papers' epochs.
    `epochs` and `seeds` override these; `data` names a folder with data sets; `peers` are
    libraries that do the same training; `cv` searches learning rates;
    `ranks` is how many processes share each training of images. `pool` is the executor of that name
    on which cross validation runs, and `keep` a folder for what it has found.

    >>> Settings().runs(5), Settings(quick=False).runs(5), Settings(seeds=2).runs(5)
    (1, 5, 2)
    >>> Settings().length(20), Settings(epochs=3).length(20)
    (20, 3)
    """

    quick: bool = True
    epochs: int | None = None
    seeds: int | None = None
    data: str | None = None
    peers: tuple[str, ...] = ()
    cv: bool = False
    ranks: int = 1
    executor: str | None = None
    pool: Any = None
    keep: str | None = None

    def runs(self, full: int) -> int:
        """How many seeds to train from, if the papers have `full`."""
        return self.seeds if self.seeds is not None else 1 if self.quick else full

    def length(self, epochs: int) -> int:
        """How many epochs to train for, if the papers do so for `epochs`."""
        return self.epochs if self.epochs is not None else epochs

    def options(self) -> str:
        """The options on a command line that ask for the same."""
        chosen = [
            "" if self.quick else "--full",
            f"--epochs {self.epochs}" if self.epochs is not None else "",
            f"--seeds {self.seeds}" if self.seeds is not None else "",
            f"--data {self.data}" if self.data else "",
            f"--peers {','.join(self.peers)}" if self.peers else "",
            "--cv" if self.cv else "",
            f"--ranks {self.ranks}" if self.ranks > 1 else "",
            f"--executor {self.executor}" if self.executor else "",
        ]
        return " ".join(filter(None, chosen))
