"""Optics: shape a lens so that parallel rays meet in one point.

Rays are refracted at a curved surface by Snell's law. The gradient of the spot's size by the
coefficients of the surface goes through the refraction, and through the slope of the surface,
which is a derivative itself.
"""

import numpy as np

import wengert as wg

INDEX, FOCUS = 1.5, 4.0
HEIGHTS = np.linspace(-1.0, 1.0, 41)


def surface(c, y):
    """How far the glass stands out at a height."""
    return c[0] * y**2 + c[1] * y**4 + c[2] * y**6


def landing(c, y):
    """Where a ray at height y meets the plane of the focus; it leaves the glass at the surface."""
    slope = wg.grad(surface, argnums=1)(c, y)
    inside = np.arctan(slope)
    outside = np.arcsin(np.clip(INDEX * np.sin(inside), -0.99, 0.99))  # no total reflection
    direction = outside - inside
    return y + (FOCUS - surface(c, y)) * np.tan(direction)


def spot(c):
    hits = wg.vmap(landing, in_axes=(None, 0))(c, HEIGHTS)
    return np.mean(hits**2)


def run():
    sphere = np.array([-0.25, 0.0, 0.0])
    result = wg.minimize(spot, sphere, method="BFGS", options={"gtol": 1e-10})
    return {"before": sphere, "after": result.x, "sizes": [spot(sphere), result.fun]}


def check(found):
    before, after = found["sizes"]
    assert after < before / 1e4, found["sizes"]


def draw(figure, found):
    for axes, name in zip(figure.subplots(1, 2, sharey=True), ("before", "after"), strict=True):
        c = found[name]
        for y in HEIGHTS[::4]:
            axes.plot([-1, surface(c, y), FOCUS], [y, y, landing(c, y)], color="tab:blue", lw=0.8)
        axes.plot(surface(c, HEIGHTS), HEIGHTS, color="k")
        axes.set(title=f"{name}: size {np.sqrt(spot(c)):.1e}")
