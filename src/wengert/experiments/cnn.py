"""The papers' convolutional network, on handwritten digits and on clothes.

Two convolutions of 3 x 3 with max pools and two dense layers; cross entropy, SGD with a rate of
0.01, batches of 100. Weights begin as Kaiming proposes for rectifiers;
``docs/experiments.md`` says how that was chosen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import wengert as wg
from wengert import nn

from . import convolutions, images, networks, papers
from .comparison import Comparison, Contestant, batch_figures
from .example import drawn
from .peers import task_of
from .pictures import gallery
from .progress import Progress
from .report import Check, Figure, Section
from .settings import Settings
from .training import TASK

TITLE = "A convolutional network learns to read digits"
ABOUT = (
    "Conv 1->6 3x3, ReLU, max pool 2, conv 6->16 3x3, ReLU, max pool 2, flatten, dense 84 ReLU, "
    "dense 10; cross entropy, SGD 0.01, batches of 100. The loop over the epoch is compiled. "
    "'allocated' is what wengert allocated while steps ran and what others allocated in the whole "
    "training, added up."
)
FASHION_TITLE = "The same network learns to tell clothes apart"
FASHION_ABOUT = (
    "Network and training as for the digits, on Fashion-MNIST, which is harder: the paper reports "
    "that 85 % were reached eventually."
)
LEARNING_RATE = 0.01
BATCH = 100
NETWORK = {"kind": "cnn", "scheme": "kaiming"}
EPOCHS, SEEDS = 5, 5
FASHION_EPOCHS, FASHION_SEEDS = 20, 1
FASHION_GOAL = 0.86
MEMORY_GOAL = 400 * 10**6


def run(section: Section, progress: Progress, settings: Settings) -> None:
    """Train on MNIST, beside the peers, and compare the ways to compute a convolution."""
    epochs, seeds = settings.length(EPOCHS), settings.runs(SEEDS)
    chosen = images.choose("mnist", settings)
    comparison, own = train(section, progress, settings, chosen, epochs, seeds, papers.CNN)
    section.checks += digit_checks(own, chosen, epochs, seeds)
    wanted = papers.best(papers.CNN, EPOCHS)
    section.figures += comparison.figures([("Keras in the paper, epoch 5", wanted)])
    section.figures += batch_figures(comparison.first_runs())
    add_mistakes(section, own)
    convolutions.compare(section, progress, BATCH, rounds=2 if settings.quick else 5)
    section.figures.append(Figure("The network's graph, one image", drawn_network(), wide=True))


def run_fashion(section: Section, progress: Progress, settings: Settings) -> None:
    """Train on Fashion-MNIST, and say when 85 % were passed."""
    epochs, seeds = settings.length(FASHION_EPOCHS), settings.runs(FASHION_SEEDS)
    chosen = images.choose("fashion", settings)
    reported = [papers.Reported("their Julia (eventually)", papers.FASHION_SOURCE)]
    comparison, own = train(section, progress, settings, chosen, epochs, seeds, reported)
    passed = passing_epoch(own, papers.FASHION_ACCURACY)
    after = f"were passed after epoch {passed}" if passed else "were not passed"
    section.notes.append(f"85 % {after}, in a training of {counted(epochs, 'epoch')}.")
    best = float(own.accuracies.mean(0).max())
    passes = "test accuracy passes the paper's" if chosen.genuine else "best test accuracy"
    after = f"test accuracy after {counted(epochs, 'epoch')}"
    goals = [
        Check(passes, best, papers.FASHION_ACCURACY),
        Check(after, own.accuracy(epochs), FASHION_GOAL),
    ]
    remark = remark_for(epochs, FASHION_EPOCHS)
    section.checks += [
        on_data(replace(goal, remark=remark), chosen, papers.DRAWN_FASHION) for goal in goals
    ]
    section.figures += comparison.figures([("the paper", papers.FASHION_ACCURACY)])
    add_mistakes(section, own)


def train(
    section: Section,
    progress: Progress,
    settings: Settings,
    chosen: images.Choice,
    epochs: int,
    seeds: int,
    reported: Any,
) -> tuple[Comparison, Contestant]:
    """wengert, then each peer, into one table."""
    section.data = chosen.title
    systems = 1 + len(settings.peers)
    progress.start(systems * epochs * seeds)
    caption = f"{chosen.title}; mean of {counted(seeds, 'run')} of {counted(epochs, 'epoch')}"
    comparison = Comparison(section, "training", caption, epochs, reported)
    job = {
        "data_name": chosen.name,
        "folder": chosen.folder,
        "network": NETWORK,
        "lr": LEARNING_RATE,
        "batch_size": BATCH,
        "epochs": epochs,
        "seeds": seeds,
    }
    own = comparison.run(
        Contestant("wengert"), TASK, progress, settings.ranks, **job, mistakes=True
    )
    for peer in settings.peers:
        comparison.run(Contestant(peer), task_of(peer), progress, **job)
    section.curves["runs"] = {one.system: one.runs for one in comparison.contestants}
    return comparison, own


def digit_checks(own: Contestant, chosen: images.Choice, epochs: int, seeds: int) -> list[Check]:
    """What the papers reached with this network, and the memory it may take."""
    accuracy = Check(
        f"mean test accuracy after {counted(epochs, 'epoch')}",
        own.accuracy(epochs),
        papers.best(papers.CNN, EPOCHS),
        remark=remark_for(epochs, EPOCHS, seeds, SEEDS),
    )
    checks = [on_data(accuracy, chosen, papers.DRAWN_CNN)]
    peak = own.memory.get("peak_bytes")
    if peak:
        show = lambda size: f"{size / 1e6:.0f} MB"
        checks.append(Check("peak memory, data included", peak, MEMORY_GOAL, False, show))
    return checks


def on_data(check: Check, chosen: images.Choice, bar: float) -> Check:
    """A check on the data at hand: by the papers' figure on theirs, by another bar on others."""
    if chosen.genuine:
        return check
    other = f"on {chosen.title}: the bar is one for these, not the papers'"
    remark = "; ".join(filter(None, [other, check.remark]))
    return replace(check, wanted=bar, remark=remark)


def remark_for(epochs: int, all_epochs: int, runs: int = 1, all_runs: int = 1) -> str:
    """How much less was run than the papers have; empty if nothing is missing.

    >>> remark_for(2, 5, 1, 5), remark_for(5, 5)
    ('after 2 of 5 epochs, 1 of 5 runs', '')
    """
    less = [f"after {epochs} of {all_epochs} epochs"] if epochs < all_epochs else []
    less += [f"{runs} of {all_runs} runs"] if runs < all_runs else []
    return ", ".join(less)


def passing_epoch(own: Contestant, level: float) -> int | None:
    """The first epoch whose mean accuracy is at least the level."""
    passed = np.flatnonzero(own.accuracies.mean(0) >= level)
    return int(passed[0]) + 1 if len(passed) else None


def counted(number: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "run"), counted(5, "run")
    ('1 run', '5 runs')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def add_mistakes(section: Section, own: Contestant) -> None:
    """Show a few images that the network got wrong."""
    if not own.mistakes:
        return
    pixels = [255 - np.array(one["pixels"], np.uint8) for one in own.mistakes]
    captions = [f"{short(one['truth'])}→{short(one['said'])}" for one in own.mistakes]
    figure = Figure(
        "Wrong, and sure of it: what it is → what the network says",
        gallery(pixels, captions),
        wide=True,
    )
    section.figures.append(figure)


def short(name: str) -> str:
    """A class name that fits under a small image."""
    return name if len(name) <= 5 else name[:4] + "."


def drawn_network() -> str:
    """The graph of the network for one image, drawn."""
    model = networks.initialise(networks.cnn(), NETWORK["scheme"], 0)
    image, label = np.zeros((1, 1, 28, 28), np.float32), np.zeros(1, np.int64)
    return drawn(wg.trace(lambda x: nn.cross_entropy(model(x), label), image))
