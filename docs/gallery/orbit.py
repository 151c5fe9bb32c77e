"""Astronomy: aim a probe from the Earth's orbit to that of Mars.

The flight is a simulation in the Sun's field. Newton's method finds the start velocity with which
the probe arrives at a given place after a given time; the Jacobian goes through the whole flight.
"""

import numpy as np

import wengert as wg

STEPS, DAYS = 400, 258.0
START, TARGET = np.array([1.0, 0.0]), 1.524 * np.array([np.cos(2.7), np.sin(2.7)])
GRAVITY = 4 * np.pi**2  # in astronomical units and years


def flight(velocity):
    """The places at all steps, by the leapfrog method."""
    dt = DAYS / 365.25 / STEPS

    def step(state, _):
        x, v = state
        v = v - dt * GRAVITY * x / np.sum(x * x) ** 1.5
        x = x + dt * v
        return (x, v), x

    _, places = wg.scan(step, (START, velocity), length=STEPS)
    return places


def run():
    arrival = lambda velocity: flight(velocity)[-1]
    aim = wg.jit(lambda velocity: (arrival(velocity), wg.jacfwd(arrival)(velocity)))
    velocity, misses = np.array([0.5, 6.5]), []
    for _ in range(8):
        place, slope = aim(velocity)
        misses.append(np.linalg.norm(place - TARGET))
        velocity = velocity - np.linalg.solve(slope, place - TARGET)
    return {"velocity": velocity, "misses": misses, "path": np.asarray(flight(velocity))}


def check(found):
    assert found["misses"][-1] < 1e-9, found["misses"]


def draw(figure, found):
    left, right = figure.subplots(1, 2)
    angle = np.linspace(0, 2 * np.pi, 200)
    for radius in (1.0, 1.524):
        left.plot(radius * np.cos(angle), radius * np.sin(angle), color="0.8")
    left.plot(*found["path"].T)
    left.plot(0, 0, "o", color="orange")
    left.plot(*TARGET, "rx")
    left.set(aspect="equal", title="the flight")
    right.semilogy(found["misses"], "o-")
    right.set(title="distance missed", xlabel="iteration of Newton's method")
