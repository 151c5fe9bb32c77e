"""Imaging: sharpen a blurred picture.

The picture is what, blurred, gives the measured one, with few edges (total variation). Blur and
gradient are `wengert.scipy.ndimage`; 1024 unknown pixels are found by L-BFGS.
"""

import numpy as np

import wengert as wg
from wengert.scipy.ndimage import gaussian_filter

SIDE = 32


def blur(picture):
    return gaussian_filter(picture, 1.5)


def variation(u):
    right, down = u[:, 1:] - u[:, :-1], u[1:] - u[:-1]
    return np.sum(np.sqrt(right**2 + 1e-6)) + np.sum(np.sqrt(down**2 + 1e-6))


def run():
    rows, columns = np.mgrid[:SIDE, :SIDE]
    truth = ((rows - 12) ** 2 + (columns - 11) ** 2 < 40).astype(float)
    truth[20:27, 17:28] = 0.7
    blurred = np.asarray(blur(truth))
    blurred = blurred + 0.01 * np.random.default_rng(0).standard_normal(truth.shape)
    misfit = lambda u: np.sum((blur(u) - blurred) ** 2) + 2e-3 * variation(u)
    result = wg.minimize(misfit, blurred, method="L-BFGS-B", options={"maxiter": 200})
    return {"blurred": blurred, "sharpened": result.x, "truth": truth}


def check(found):
    before = np.abs(found["blurred"] - found["truth"]).mean()
    after = np.abs(found["sharpened"] - found["truth"]).mean()
    assert after < before / 2, (before, after)


def draw(figure, found):
    for axes, (name, picture) in zip(figure.subplots(1, 3), found.items(), strict=True):
        axes.imshow(picture, cmap="gray", vmin=0, vmax=1)
        axes.set(title=name, xticks=[], yticks=[])
