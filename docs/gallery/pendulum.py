"""Physics: a double pendulum from its Lagrangian.

The equations of motion are not written down. They follow from the Lagrangian L(q, v) by its
derivatives: d/dt (dL/dv) = dL/dq. The energy must stay the same.
"""

import numpy as np

import wengert as wg


def heights(q):
    return -np.array([np.cos(q[0]), np.cos(q[0]) + np.cos(q[1])])


def energy(q, v):
    first = v[0] ** 2
    second = v[0] ** 2 + v[1] ** 2 + 2 * v[0] * v[1] * np.cos(q[0] - q[1])
    kinetic, potential = (first + second) / 2, 9.81 * np.sum(heights(q))
    return kinetic, potential


def lagrangian(q, v):
    kinetic, potential = energy(q, v)
    return kinetic - potential


def acceleration(q, v):
    mass = wg.hessian(lagrangian, argnums=1)(q, v)
    mixed = wg.jacfwd(wg.grad(lagrangian, argnums=1), argnums=0)(q, v)
    return np.linalg.solve(mass, wg.grad(lagrangian, argnums=0)(q, v) - mixed @ v)


@wg.jit
def step(q, v, dt):
    """A step of Runge and Kutta's method of order 4."""
    rate = lambda q, v: (v, acceleration(q, v))
    q1, v1 = rate(q, v)
    q2, v2 = rate(q + dt / 2 * q1, v + dt / 2 * v1)
    q3, v3 = rate(q + dt / 2 * q2, v + dt / 2 * v2)
    q4, v4 = rate(q + dt * q3, v + dt * v3)
    return q + dt / 6 * (q1 + 2 * q2 + 2 * q3 + q4), v + dt / 6 * (v1 + 2 * v2 + 2 * v3 + v4)


def run():
    q, v = np.array([2.0, 2.5]), np.zeros(2)
    path, energies = [q], [sum(energy(q, v))]
    for _ in range(1500):
        q, v = step(q, v, 0.01)
        path.append(q)
        energies.append(sum(energy(q, v)))
    return {"path": np.array(path), "energies": np.array(energies)}


def check(found):
    drift = np.ptp(found["energies"]) / abs(found["energies"][0])
    assert drift < 1e-3, drift


def draw(figure, found):
    left, right = figure.subplots(1, 2)
    x = np.cumsum(np.sin(found["path"]), axis=1)
    y = np.cumsum(-np.cos(found["path"]), axis=1)
    left.plot(x[:, 1], y[:, 1], lw=0.7)
    left.set(aspect="equal", title="path of the lower mass")
    right.plot(np.arange(len(x)) / 100, found["path"], label=["upper", "lower"])
    right.set(title="angles", xlabel="time")
    right.legend()
