"""What the user asked of `wengert reproduce`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """How much to run, on what, and beside whom.

    `epochs` and `seeds` override what quick or full runs would take; `data` names a folder with
    data sets; `peers` are libraries that do the same training; `cv` searches learning rates.

    >>> Settings().pick(quick=2, full=5), Settings(quick=False).pick(quick=2, full=5)
    (2, 5)
    >>> Settings(epochs=3).pick(quick=2, full=5, own=3)
    3
    """

    quick: bool = True
    epochs: int | None = None
    seeds: int | None = None
    data: str | None = None
    peers: tuple[str, ...] = ()
    cv: bool = False

    def pick(self, quick: int, full: int, own: int | None = None) -> int:
        """The number for this run: the user's own if there is one."""
        return own if own is not None else quick if self.quick else full

    def options(self) -> str:
        """The options on a command line that ask for the same."""
        chosen = [
            "" if self.quick else "--full",
            f"--epochs {self.epochs}" if self.epochs is not None else "",
            f"--seeds {self.seeds}" if self.seeds is not None else "",
            f"--data {self.data}" if self.data else "",
            f"--peers {','.join(self.peers)}" if self.peers else "",
            "--cv" if self.cv else "",
        ]
        return " ".join(filter(None, chosen))
