"""The papers' experiments, built only on the public API; `wengert reproduce` runs them.

An experiment is a function ``run(section, progress, quick)`` that fills in a `Section` row by row,
so that whatever is finished can be written at any moment. `EXPERIMENTS` lists them in the order
in which ``reproduce all`` runs them.
"""

from __future__ import annotations

from . import example, ratio
from .reproduce import Experiment, reproduce

EXPERIMENTS: dict[str, Experiment] = {
    "example": Experiment(example.run, example.TITLE, example.ABOUT),
    "ratio": Experiment(ratio.run, ratio.TITLE, ratio.ABOUT),
}

__all__ = ["EXPERIMENTS", "Experiment", "reproduce"]
