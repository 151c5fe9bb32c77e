"""Finance: prices of options and all their sensitivities.

The price of a call by Black and Scholes' formula. Delta, gamma, vega and theta are its
derivatives, first and second, for a whole range of prices at once. The formulas of textbooks
check them.
"""

import numpy as np

import wengert as wg
from wengert.scipy.special import ndtr

STRIKE, RATE = 100.0, 0.02
SPOTS = np.linspace(60.0, 140.0, 81)


def price(spot, volatility, years):
    root = volatility * np.sqrt(years)
    d1 = (np.log(spot / STRIKE) + (RATE + volatility**2 / 2) * years) / root
    return spot * ndtr(d1) - STRIKE * np.exp(-RATE * years) * ndtr(d1 - root)


def run():
    delta = wg.grad(price)
    greeks = {
        "price": price,
        "delta": delta,
        "gamma": wg.grad(delta),
        "vega": wg.grad(price, argnums=1),
        "theta": lambda spot, volatility, years: (
            -wg.grad(price, argnums=2)(spot, volatility, years)
        ),
    }
    everywhere = lambda f: wg.jit(wg.vmap(f, in_axes=(0, None, None)))
    return {name: everywhere(f)(SPOTS, 0.25, 0.5) for name, f in greeks.items()}


def check(found):
    root = 0.25 * np.sqrt(0.5)
    d1 = (np.log(SPOTS / STRIKE) + (RATE + 0.25**2 / 2) * 0.5) / root
    density = np.exp(-d1 * d1 / 2) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(found["delta"], ndtr(d1), rtol=1e-9)
    np.testing.assert_allclose(found["gamma"], density / (SPOTS * root), rtol=1e-8)
    np.testing.assert_allclose(found["vega"], SPOTS * density * np.sqrt(0.5), rtol=1e-8)


def draw(figure, found):
    for axes, (name, values) in zip(figure.subplots(1, 5), found.items(), strict=True):
        axes.plot(SPOTS, values)
        axes.set(title=name, xticks=[60, 100, 140])
