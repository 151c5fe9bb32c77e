"""The papers' recurrent network reads an image piece by piece, by backpropagation through time.

The layer is unrolled by hand in a module of its own (`networks.UnrolledRNN`), as the paper does it:
the number of time steps is the user's choice, and every step is a part of the graph.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from . import images, papers
from .cnn import counted, on_data, remark_for
from .comparison import Comparison, Contestant, batch_figures
from .peers import task_of
from .progress import Progress
from .report import Check, Figure, Section
from .settings import Settings
from .training import TASK

TITLE = "A recurrent network learns to read digits, piece by piece"
ABOUT = (
    "One recurrent layer of 64 with tanh, unrolled over T steps of 784 / T pixels, and one dense "
    "layer; Glorot's initial weights, SGD, batches of 100, reshuffled each epoch. The paper does "
    "not say its learning rate: 0.015 comes to about its accuracy, 0.1 shows what the network can "
    "do. 'allocated' is what wengert allocated while steps ran and what others allocated in the "
    "whole training, added up."
)
BATCH, HIDDEN = 100, 64
EPOCHS, SEEDS = 5, 5
STEPS, LONG_STEPS = 4, 28
# Rate, the accuracy to reach after 5 epochs with T = 4, and whose it is.
GOALS = ((0.015, 0.9224, papers.RNN), (0.1, 0.96, ()))


def run(section: Section, progress: Progress, settings: Settings) -> None:
    """Both learning rates with T = 4, beside the peers; and T = 28 in a full run."""
    epochs, seeds = settings.length(EPOCHS), settings.runs(SEEDS)
    chosen = images.choose("mnist", settings)
    section.data = chosen.title
    lengths = (STEPS,) if settings.quick else (STEPS, LONG_STEPS)
    progress.start(len(lengths) * len(GOALS) * (1 + len(settings.peers)) * epochs * seeds)
    curves = []
    for steps in lengths:
        for rate, goal, reported in GOALS:
            comparison, own = train(section, progress, settings, chosen, steps, rate, reported)
            name = f"T = {steps}, rate {rate}"
            curves.append((name, own.runs[0]))
            if steps == STEPS:
                what = f"{name}: mean test accuracy after {counted(epochs, 'epoch')}"
                remark = remark_for(epochs, EPOCHS, seeds, SEEDS)
                check = Check(what, own.accuracy(epochs), goal, remark=remark)
                section.checks.append(on_data(check, chosen, papers.DRAWN_RNN[rate]))
                references = [
                    (f"{row.system} in the paper", row.accuracy[EPOCHS]) for row in reported
                ]
                section.figures += _named(comparison.figures(references), name)
    section.figures += batch_figures(curves)


def train(
    section: Section,
    progress: Progress,
    settings: Settings,
    chosen: images.Choice,
    steps: int,
    rate: float,
    reported: Any,
) -> tuple[Comparison, Contestant]:
    """One setting: wengert, then each peer, into one table."""
    epochs, seeds = settings.length(EPOCHS), settings.runs(SEEDS)
    caption = (
        f"{chosen.title}; T = {steps}, learning rate {rate}; mean of {counted(seeds, 'run')} of "
        f"{counted(epochs, 'epoch')}"
    )
    name = f"steps_{steps}_rate_{rate}"
    comparison = Comparison(section, name, caption, epochs, reported)
    job = {
        "data_name": chosen.name,
        "folder": chosen.folder,
        "network": {"kind": "rnn", "scheme": "glorot", "steps": steps, "hidden": HIDDEN},
        "lr": rate,
        "batch_size": BATCH,
        "epochs": epochs,
        "seeds": seeds,
    }
    own = comparison.run(Contestant("wengert"), TASK, progress, settings.ranks, **job)
    for peer in settings.peers:
        comparison.run(Contestant(peer), task_of(peer), progress, **job)
    section.curves[name] = {one.system: one.runs for one in comparison.contestants}
    return comparison, own


def _named(figures: list[Figure], name: str) -> list[Figure]:
    """The figures with the setting in front of their captions."""
    return [replace(figure, caption=f"{name}. {figure.caption}") for figure in figures]
