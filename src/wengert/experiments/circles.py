"""Six small networks learn which points lie in a circle, one sample at a time.

Three hidden layers of 25 with tanh, ReLU or sigmoid between them; 'clipped' networks end in a
sigmoid. The loss is the mean squared error, the label 1 outside of the circle and 0 inside. A step
sees one sample, as in the paper; it takes microseconds, since the loop over the epoch is compiled.
Learning rates come from a grid search by 5-fold cross validation, and the accuracies from twice
5-fold cross validation.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

import wengert as wg
from wengert import data, nn, optim

from . import networks, papers
from .charts import Series, lines
from .cnn import remark_for
from .pictures import decision_maps
from .progress import Progress
from .report import Check, Figure, Section
from .settings import Settings
from .tables import Column, Table, duration
from .workers import Emit, Job, stream_all, stream_on

TITLE = "Six networks learn a circle, one sample at a time"
ABOUT = (
    "10,000 points in the unit square, label 1 outside of the circle that covers half of it. "
    "Three hidden layers of 25, mean squared error, SGD with one sample a step, reshuffled each "
    "epoch. Initial weights are Glorot's, or standard normal for sigmoids: the paper has both."
    " Accuracies are means over folds, with their standard deviations."
)
TASK = "wengert.experiments.circles:train_folds"
SEARCH = "wengert.experiments.circles:search_rates"
MODELS = tuple(papers.CIRCLES)
POINTS, FOLDS, REPEATS = 10_000, 5, 2
EPOCHS = 120
SCHEMES = {"tanh": "glorot", "relu": "glorot", "sigmoid": "normal"}  # by activation
RATES = (0.0005, 0.002, 0.008, 0.03, 0.1)
# Used where no search is run: the rates that the search finds.
LEARNING_RATES = {
    "tanh": 0.008,
    "tanh clipped": 0.0005,
    "relu": 0.0005,
    "relu clipped": 0.0005,
    "sigmoid": 0.03,
    "sigmoid clipped": 0.002,
}
SEARCH_SEED = 1000  # the folds of the search are not those of the test
MAP_SIDE = 60
RADIUS = float(np.sqrt(1 / (2 * np.pi)))

_share = "{:.3f}".format
COLUMNS = [
    Column("model", "model"),
    Column("rate", "learning rate", "{:g}".format),
    Column("train", "training accuracy", _share),
    Column("train_std", "±", "{:.4f}".format),
    Column("test", "test accuracy", _share),
    Column("test_std", "±", "{:.4f}".format),
    Column("paper_train", "paper: training", _share),
    Column("paper_test", "paper: test", _share),
    Column("folds", "folds"),
    Column("seconds", "one training", duration),
    Column("step", "one step", duration),
]


def run(section: Section, progress: Progress, settings: Settings) -> None:
    """The search if it is wanted, then the cross validation of all six."""
    epochs, repeats = settings.length(EPOCHS), settings.runs(REPEATS)
    folds = 1 if settings.quick and settings.seeds is None else FOLDS
    section.data = f"{POINTS:,} points drawn by wengert, as the paper describes"
    searching = settings.cv or not settings.quick
    trainings = len(MODELS) * (repeats * folds + (len(RATES) * FOLDS if searching else 0))
    progress.start(trainings)
    rates = search(section, progress, settings, epochs) if searching else LEARNING_RATES
    found = validate(section, progress, settings, rates, epochs, repeats, folds)
    remark = remark_for(epochs, EPOCHS, repeats * folds, REPEATS * FOLDS)
    section.checks += [
        Check(f"{row['model']}: mean test accuracy", row["test"], row["paper_test"], remark=remark)
        for row in found.rows
    ]


def validate(
    section: Section,
    progress: Progress,
    settings: Settings,
    rates: dict[str, float],
    epochs: int,
    repeats: int,
    folds: int,
) -> Table:
    """Train all models on all folds, as many processes as cores, and fill in the table."""
    times = f"{repeats} x {FOLDS} folds" if folds == FOLDS else f"{folds} of {FOLDS} folds"
    caption = f"Six models, {times}, {epochs} epochs of one sample a step"
    table = section.table("models", caption, COLUMNS, own="")
    jobs: list[Job] = [
        (
            TASK,
            {
                "model": name,
                "rate": rates[name],
                "repeats": repeats,
                "folds": folds,
                "epochs": epochs,
            },
        )
        for name in MODELS
    ]
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in MODELS}
    for number, item in _stream(jobs, settings):
        name = MODELS[number]
        progress.step(f"{name}, fold {len(results[name]) + 1}, {_share(item['test'])}")
        results[name].append(item)
        table.rows[:] = [_row(n, rates[n], found) for n, found in results.items() if found]
    section.curves["mse"] = {name: found[0]["curve"] for name, found in results.items()}
    section.figures += _figures(results)
    return table


def _row(name: str, rate: float, found: list[dict[str, Any]]) -> dict[str, Any]:
    train, test = (np.array([item[key] for item in found]) for key in ("train", "test"))
    paper_train, paper_test = papers.CIRCLES[name]
    return {
        "model": name,
        "rate": rate,
        "train": float(train.mean()),
        "train_std": _spread(train),
        "test": float(test.mean()),
        "test_std": _spread(test),
        "paper_train": paper_train,
        "paper_test": paper_test,
        "folds": len(found),
        "seconds": float(np.mean([item["seconds"] for item in found])),
        "step": float(np.min([item["seconds"] / item["steps"] for item in found])),
    }


def _spread(values: np.ndarray) -> float | None:
    """The standard deviation, of which one value has none."""
    return float(values.std()) if len(values) > 1 else None


def _figures(results: dict[str, list[dict[str, Any]]]) -> list[Figure]:
    series = [
        Series(name, list(range(1, len(found[0]["curve"]) + 1)), found[0]["curve"])
        for name, found in results.items()
    ]
    curves = lines(
        series, "epoch", "mean squared error", title="Learning curves", log_y=True, whole_x=True
    )
    maps = decision_maps(
        [np.array(found[0]["map"]) for found in results.values()], list(results), RADIUS
    )
    return [
        Figure("Mean squared error in each epoch, first fold", curves),
        Figure("What the networks say: blue inside, orange outside; dashed: the truth", maps),
    ]


# ---------------------------------------------------------------- learning rates


def search(
    section: Section, progress: Progress, settings: Settings, epochs: int
) -> dict[str, float]:
    """The best rate of each model by the mean accuracy over five folds."""
    caption = f"Grid search: mean accuracy of {FOLDS} folds by learning rate, {epochs} epochs"
    columns = [
        Column("model", "model"),
        *(Column(f"{rate:g}", f"{rate:g}", _share) for rate in RATES),
    ]
    table = section.table("search", caption, columns)
    # an executor may have more workers than there are models; a process of our own begins slowly
    groups = [RATES] if settings.pool is None else [(rate,) for rate in RATES]
    places = [(name, rates) for name in MODELS for rates in groups]
    jobs: list[Job] = [
        (SEARCH, {"model": name, "rates": rates, "epochs": epochs}) for name, rates in places
    ]
    accuracies: dict[str, dict[float, list[float]]] = {
        name: {rate: [] for rate in RATES} for name in MODELS
    }
    for number, item in _stream(jobs, settings):
        name, rate = places[number][0], item["rate"]
        accuracies[name][rate].append(item["test"])
        progress.step(f"{name}, rate {rate:g}, {_share(item['test'])}")
        table.rows[:] = [_search_row(n, found) for n, found in accuracies.items()]
    return {
        name: max(found, key=lambda rate: np.mean(found[rate]))
        for name, found in accuracies.items()
    }


def _search_row(name: str, found: dict[float, list[float]]) -> dict[str, Any]:
    means = {f"{rate:g}": float(np.mean(values)) for rate, values in found.items() if values}
    return {"model": name, **means}


# ---------------------------------------------------------------- the jobs


def _stream(jobs: list[Job], settings: Settings) -> Iterator[tuple[int, dict[str, Any]]]:
    """What the jobs find: as many processes as cores, or where the user wants them."""
    if settings.pool is None:
        return stream_all(jobs, os.cpu_count() or 1)
    return stream_on(jobs, settings.pool, settings.keep)


def train_folds(
    emit: Emit,
    *,
    model: str,
    rate: float,
    repeats: int,
    folds: int,
    epochs: int,
    points: int = POINTS,
) -> None:
    """The job: train on `folds` of the five folds, `repeats` times; the first gives its map."""
    network, scheme = networks.circle_network(model), SCHEMES[model.split()[0]]
    for repeat in range(repeats):
        for fold, (train, test) in enumerate(_folds(points, repeat)[:folds]):
            item = train_one(network, scheme, rate, train, test, epochs, repeat * FOLDS + fold)
            if repeat == fold == 0:
                item["map"] = decision_map(network)
            emit(item)


def search_rates(
    emit: Emit, *, model: str, rates: list[float], epochs: int, points: int = POINTS
) -> None:
    """The job: all five folds for every rate."""
    network, scheme = networks.circle_network(model), SCHEMES[model.split()[0]]
    for rate in rates:
        for fold, (train, test) in enumerate(_folds(points, SEARCH_SEED)):
            item = train_one(network, scheme, rate, train, test, epochs, SEARCH_SEED + fold)
            emit({"rate": rate, "test": item["test"]})


def _folds(points: int, seed: int) -> list[Any]:
    x, y = data.circles(points)
    return list(data.kfold((x, y.astype(np.float32)[:, None]), FOLDS, seed))


def train_one(
    network: nn.Module,
    scheme: str,
    rate: float,
    train: Any,
    test: Any,
    epochs: int,
    seed: int,
) -> dict[str, Any]:
    """One training from fresh weights; a rate that is too high counts as guessing wrong."""
    networks.initialise(network, scheme, seed)
    optimizer = optim.SGD(network.parameters(), lr=rate)
    try:
        history = wg.fit(
            network,
            nn.mse_loss,
            optimizer,
            train,
            epochs,
            1,
            seed=seed,
            metrics=None,
            progress=False,
        )
    except FloatingPointError:  # the loss is not finite any more
        return {"rate": rate, "train": 0.0, "test": 0.0, "seconds": 0.0, "steps": 1, "curve": []}
    return {
        "rate": rate,
        "train": accuracy(network, *train),
        "test": accuracy(network, *test),
        "seconds": float(sum(history["seconds"])),
        "steps": epochs * len(train[0]),
        "curve": [round(float(loss), 6) for loss in history["loss"]],
    }


def accuracy(network: nn.Module, x: np.ndarray, y: np.ndarray) -> float:
    """The share of the points on the right side of 1/2."""
    with wg.no_grad():
        said = network(x).numpy() > 0.5
    return float(np.mean(said == (y > 0.5)))


def decision_map(network: nn.Module, side: int = MAP_SIDE) -> list[list[float]]:
    """What the network says on a grid over the unit square, from the bottom up."""
    centres = (np.arange(side, dtype=np.float32) + 0.5) / side
    x, y = np.meshgrid(centres, centres)
    with wg.no_grad():
        said = network(np.stack([x.ravel(), y.ravel()], 1)).numpy()
    return np.round(said.reshape(side, side), 3).astype(float).tolist()
