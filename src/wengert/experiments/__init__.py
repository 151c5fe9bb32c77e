"""The papers' experiments, built only on the public API; `wengert reproduce` runs them.

An experiment is a function ``run(section, progress, settings)`` that fills in a `Section` as it
goes on, so that whatever is finished can be written at any moment. `EXPERIMENTS` lists them in the
order in which ``reproduce all`` runs them.

`networks.py` has the papers' networks and `papers.py` their figures. Trainings run in processes of
their own (`workers.py`), so that their time and memory (`memory.py`) are theirs alone:
`training.py` is wengert's, `peers/` has the same in other libraries, and `comparison.py` puts them
beside each other. `report.py` collects what was found, `page.py` makes a page of it, with what
`tables.py`, `charts.py` and `pictures.py` draw.
"""

from __future__ import annotations

from . import circles, cnn, example, ratio, rnn
from .networks import UnrolledRNN
from .reproduce import Experiment, reproduce
from .settings import Settings

EXPERIMENTS: dict[str, Experiment] = {
    "example": Experiment(example.run, example.TITLE, example.ABOUT),
    "cnn": Experiment(cnn.run, cnn.TITLE, cnn.ABOUT),
    "fashion": Experiment(cnn.run_fashion, cnn.FASHION_TITLE, cnn.FASHION_ABOUT),
    "rnn": Experiment(rnn.run, rnn.TITLE, rnn.ABOUT),
    "circles": Experiment(circles.run, circles.TITLE, circles.ABOUT),
    "ratio": Experiment(ratio.run, ratio.TITLE, ratio.ABOUT),
}

__all__ = ["EXPERIMENTS", "Experiment", "Settings", "UnrolledRNN", "reproduce"]
