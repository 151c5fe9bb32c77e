"""Engineering: find heat sources from the temperature at the rim.

A plate is heated by unknown sources. The heat equation runs forward from a guess; the gradient by
all 256 unknowns comes back through all time steps in one reverse pass.
"""

import numpy as np

import wengert as wg

SIDE, STEPS = 16, 60


def temperature(source):
    """The plate after some time, with a rim at 0."""

    def step(u, _):
        inner = np.pad(u, 1)
        spread = inner[2:, 1:-1] + inner[:-2, 1:-1] + inner[1:-1, 2:] + inner[1:-1, :-2] - 4 * u
        return u + 0.2 * spread + 0.1 * source, None

    last, _ = wg.scan(step, np.zeros((SIDE, SIDE)), length=STEPS)
    return last


def run():
    rng = np.random.default_rng(0)
    truth = np.zeros((SIDE, SIDE))
    truth[4:6, 3:6] = 1.0
    truth[10:12, 9:13] = 2.0
    measured = np.asarray(temperature(truth)) + 0.01 * rng.standard_normal((SIDE, SIDE))

    def misfit(source):
        return np.sum((temperature(source) - measured) ** 2) + 1e-3 * np.sum(np.abs(source))

    bounds = [(0.0, None)] * SIDE**2
    result = wg.minimize(misfit, np.zeros((SIDE, SIDE)), method="L-BFGS-B", bounds=bounds,
                         options={"maxiter": 150})  # fmt: skip
    return {"truth": truth, "measured": measured, "found": result.x}


def check(found):
    error = np.abs(found["found"] - found["truth"]).mean()
    assert error < 0.2 * found["truth"].mean() + 0.05, error


def draw(figure, found):
    titles = ("temperature measured", "sources found", "sources in truth")
    for axes, name, title in zip(
        figure.subplots(1, 3), ("measured", "found", "truth"), titles, strict=True
    ):
        axes.imshow(found[name], cmap="inferno")
        axes.set(title=title, xticks=[], yticks=[])
