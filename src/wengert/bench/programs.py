"""Programs with loops, branches, buffers and factorisations, written as people write them in NumPy.

Value and gradient of each, compiled, beside the same program in the words of JAX, in
`programs_jax.py`, and the time of the first call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .run import timed_once
from .workload import Builder, Workload, load

# Seconds of a first call, compilation included, with nothing on disk.
FIRST_CALL = 1.0


def _random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def _lattice(n: int) -> np.ndarray:
    return np.stack(np.meshgrid(np.arange(n), np.arange(n)), axis=-1).reshape(-1, 2)


@dataclass(frozen=True)
class Program:
    """A function of data that gives a function of the variables, and where that is evaluated."""

    written: Callable[..., Callable]
    data: tuple[Any, ...]
    at: np.ndarray


# ---------------------------------------------------------------- loops over data


def kalman(seen: Any, moves: Any, looks: Any) -> Callable:
    """The likelihood of a Kalman filter that follows a moving point, by its two noises."""

    def likelihood(log_noise: Any) -> Any:
        noise, error_noise = np.exp(log_noise[0]), np.exp(log_noise[1])
        mean, spread, total = np.zeros(4), np.eye(4), 0.0
        for y in seen:
            mean = moves @ mean
            spread = moves @ spread @ moves.T + noise * np.eye(4)
            expected = looks @ spread @ looks.T + error_noise * np.eye(2)
            error = y - looks @ mean
            solved = np.linalg.solve(expected, error)
            total = total + error @ solved + np.log(np.linalg.det(expected))
            gain = np.linalg.solve(expected, looks @ spread).T
            mean = mean + gain @ error
            spread = spread - gain @ looks @ spread
        return 0.5 * total

    return likelihood


def hidden_markov(seen: Any, states: Any) -> Callable:
    """The likelihood of a sequence under a hidden Markov model, by the forward recursion."""

    def log_softmax(x: Any) -> Any:
        shifted = x - np.max(x, axis=-1, keepdims=True)
        return shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))

    def likelihood(x: Any) -> Any:
        moves = log_softmax(x[:, :states])
        shows = log_softmax(x[:, states:])
        alpha = shows[:, seen[0]] - np.log(states)
        for symbol in seen[1:]:
            paths = alpha[:, None] + moves
            top = np.max(paths, axis=0)
            alpha = top + np.log(np.sum(np.exp(paths - top), axis=0)) + shows[:, symbol]
        top = np.max(alpha)
        return -(top + np.log(np.sum(np.exp(alpha - top))))

    return likelihood


def gated_unit(inputs: Any, targets: Any) -> Callable:
    """A gated recurrent unit, written out."""

    def sigmoid(x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    def loss(weights: Any) -> Any:
        state = np.zeros_like(targets)
        for x in inputs:
            reset = sigmoid(x @ weights[0] + state @ weights[1])
            update = sigmoid(x @ weights[2] + state @ weights[3])
            new = np.tanh(x @ weights[4] + (reset * state) @ weights[5])
            state = update * state + (1 - update) * new
        return np.mean((state - targets) ** 2)

    return loss


# ---------------------------------------------------------------- buffers, element by element


def heat(steps: Any) -> Callable:
    """Heat that spreads along a bar, step by step in place."""

    def spread(start: Any) -> Any:
        u = np.zeros(len(start) + 2)
        u[1:-1] = start
        for _ in range(steps):
            u[1:-1] += 0.2 * (u[2:] - 2 * u[1:-1] + u[:-2])
        return np.sum(u**2)

    return spread


def tridiagonal(right: Any) -> Callable:
    """A tridiagonal system by elimination and substitution, as for a spline."""

    def solved(diagonal: Any) -> Any:
        n = len(diagonal)
        factor, value = np.zeros(n), np.zeros(n)
        factor[0], value[0] = 1 / diagonal[0], right[0] / diagonal[0]
        for i in range(1, n):
            pivot = diagonal[i] - factor[i - 1]
            factor[i] = 1 / pivot
            value[i] = (right[i] - value[i - 1]) / pivot
        for i in range(n - 2, -1, -1):
            value[i] = value[i] - factor[i] * value[i + 1]
        return np.sum(value**2)

    return solved


def warping(other: Any) -> Callable:
    """The distance of two curves under warped time, with a soft minimum: dynamic programming."""

    def distance(x: Any) -> Any:
        n = len(x)
        table = np.full((n + 1, n + 1), 1e3)
        table[0, 0] = 0.0
        for i in range(1, n + 1):
            for j in range(1, n + 1):
                ways = np.array([table[i - 1, j], table[i, j - 1], table[i - 1, j - 1]])
                low = np.min(ways)
                best = low - np.log(np.sum(np.exp(low - ways)))
                table[i, j] = (x[i - 1] - other[j - 1]) ** 2 + best
        return table[n, n]

    return distance


# ---------------------------------------------------------------- simulations


def lorenz(steps: Any) -> Callable:
    """Lorenz's equations by the method of Runge and Kutta."""

    def slope(state: Any, parameters: Any) -> Any:
        x, y, z = state[0], state[1], state[2]
        sigma, rho, beta = parameters[0], parameters[1], parameters[2]
        return np.array([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])

    def end(parameters: Any) -> Any:
        state, h = np.array([1.0, 1.0, 1.0]), 1e-4
        for _ in range(steps):
            k1 = slope(state, parameters)
            k2 = slope(state + h / 2 * k1, parameters)
            k3 = slope(state + h / 2 * k2, parameters)
            k4 = slope(state + h * k3, parameters)
            state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return np.sum(state**2)

    return end


def molecules(itself: Any, steps: Any) -> Callable:
    """Particles that attract and repel each other, by velocity Verlet."""

    def forces(x: Any) -> Any:
        apart = x[:, None] - x[None]
        square = np.sum(apart**2, axis=-1) + itself
        inverse = 1 / square**3
        strength = (24 * inverse * (2 * inverse - 1) / square) * (1 - itself)
        return np.sum(strength[..., None] * apart, axis=1)

    def spread(x: Any) -> Any:
        x, h = x * 1.2, 1e-3
        speed = np.zeros_like(x)
        force = forces(x)
        for _ in range(steps):
            speed = speed + h / 2 * force
            x = x + h * speed
            force = forces(x)
            speed = speed + h / 2 * force
        return np.sum(speed**2) + np.mean(x**2)

    return spread


def arm(lengths: Any, goal: Any) -> Callable:
    """How far the hand of a robot's arm is from where it should be, by its angles."""

    def link(angle: Any, length: Any, upright: bool) -> Any:
        c, s = np.cos(angle), np.sin(angle)
        if upright:
            return np.array([[c, 0, s, length], [0, 1, 0, 0], [-s, 0, c, 0], [0, 0, 0, 1]])
        return np.array([[c, -s, 0, length], [s, c, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])

    def miss(angles: Any) -> Any:
        pose = np.eye(4)
        for k in range(len(lengths)):
            pose = pose @ link(angles[k], lengths[k], k % 2 == 1)
        return np.sum((pose[:3, 3] - goal) ** 2)

    return miss


class Springs:
    """Masses on a line, with springs between them."""

    def __init__(self, strength: Any, count: int):
        self.strength = strength
        self.x, self.speed = np.linspace(0, 1, count) ** 2, np.zeros(count)

    def step(self, h: float) -> None:
        """Move on for a while."""
        pull = self.strength * (self.x[1:] - self.x[:-1])
        self.speed[:-1] += h * pull
        self.speed[1:] -= h * pull
        self.x = self.x + h * self.speed


def springs(count: Any, steps: Any) -> Callable:
    """Masses and springs as an object that is changed step by step, and a list of what is seen."""

    def seen(strength: Any) -> Any:
        chain, energies = Springs(strength, count), []
        for _ in range(steps):
            chain.step(0.05)
            energies.append(np.sum(chain.speed**2))
        return np.mean(energies) + np.sum(chain.x**2)

    return seen


# ---------------------------------------------------------------- until it has converged


def riccati(moves: Any, steers: Any) -> Callable:
    """The cost of the best control of a linear system: Riccati's equation, iterated."""

    def cost(log_weights: Any) -> Any:
        state, control = (
            np.exp(log_weights[0]) * np.eye(len(moves)),
            np.exp(log_weights[1]) * np.eye(2),
        )
        p, change = state, 1.0
        while change > 1e-9:
            inside = control + steers.T @ p @ steers
            gain = np.linalg.solve(inside, steers.T @ p @ moves)
            new = state + moves.T @ p @ moves - moves.T @ p @ steers @ gain
            change = np.max(np.abs(new - p))
            p = new
        return np.trace(p)

    return cost


def kepler(means: Any) -> Callable:
    """Kepler's equation for many planets, by Newton's method, by how round their ways are."""
    import wengert as wg

    def one(mean: Any, roundness: Any) -> Any:
        angle, change = mean, 1.0
        while np.abs(change) > 1e-12:
            miss = angle - roundness * np.sin(angle) - mean
            change = miss / (1 - roundness * np.cos(angle))
            angle = angle - change
        return np.cos(angle) if angle > 1.0 else 1 - 0.5 * angle**2

    def total(x: Any) -> Any:
        return np.sum(wg.vmap(one, in_axes=(0, None))(means, x[0]))

    return total


def adaptive(tolerance: Any) -> Callable:
    """A stiff oscillator by steps that are as long as their error allows."""

    def end(parameters: Any) -> Any:
        def slope(y: Any) -> Any:
            return np.array([y[1], parameters[0] * (1 - y[0] ** 2) * y[1] - parameters[1] * y[0]])

        t, y, h, steps = 0.0, np.array([1.0, 0.0]), 0.1, 0
        while t < 5.0:
            h = min(h, 5.0 - t)
            k1 = slope(y)
            k2 = slope(y + h * k1 / 2)
            k3 = slope(y + 3 * h * k2 / 4)
            new = y + h * (2 * k1 + 3 * k2 + 4 * k3) / 9
            k4 = slope(new)
            error = np.linalg.norm(h * (-5 * k1 / 72 + k2 / 12 + k3 / 9 - k4 / 8))
            if error < tolerance:
                t, y = t + h, new
            h *= min(2.0, max(0.3, 0.9 * (tolerance / (error + 1e-14)) ** (1 / 3)))
            steps += 1
            if steps > 10_000:
                raise RuntimeError("too many steps")
        return y @ y

    return end


# ---------------------------------------------------------------- linear algebra, order


def denoising(weight: Any, turns: Any) -> Callable:
    """A signal of few jumps, by alternating directions: the same system in every turn."""

    def roughness(seen: Any) -> Any:
        n = len(seen)
        steps = np.eye(n - 1, n, k=1) - np.eye(n - 1, n)
        system = np.eye(n) + steps.T @ steps
        jumps, excess = np.zeros(n - 1), np.zeros(n - 1)
        for _ in range(turns):
            x = np.linalg.solve(system, seen + steps.T @ (jumps - excess))
            moved = steps @ x + excess
            jumps = np.sign(moved) * np.maximum(np.abs(moved) - weight, 0)
            excess = moved - jumps
        return np.sum((x - seen) ** 2) + np.sum(np.abs(steps @ x))

    return roughness


def ratings(table: Any, known: Any, rounds: Any) -> Callable:
    """A table of which some is known as a product, by least squares for each row and column."""

    def fitted(others: Any, line: Any, mask: Any) -> Any:
        given = others[mask]
        return np.linalg.solve(given.T @ given + 0.1 * np.eye(3), given.T @ line[mask])

    def miss(columns: Any) -> Any:
        for _ in range(rounds):
            rows = np.array([fitted(columns, line, m) for line, m in zip(table, known)])  # noqa: B905
            columns = np.array([fitted(rows, line, m) for line, m in zip(table.T, known.T)])  # noqa: B905
        return np.sum(((rows @ columns.T - table) * known) ** 2)

    return miss


def gaussian_process(places: Any, values: Any) -> Callable:
    """The likelihood of a Gaussian process, by Cholesky's decomposition."""

    def likelihood(parameters: Any) -> Any:
        scale, length, noise = np.exp(parameters[0]), np.exp(parameters[1]), np.exp(parameters[2])
        distance = places[:, None] - places
        kernel = scale * np.exp(-0.5 * (distance / length) ** 2) + noise * np.eye(len(places))
        lower = np.linalg.cholesky(kernel)
        return 0.5 * values @ np.linalg.solve(kernel, values) + np.sum(np.log(np.diag(lower)))

    return likelihood


def survival(x: Any, times: Any, ended: Any) -> Callable:
    """Cox's likelihood of the order in which things end."""

    def likelihood(weights: Any) -> Any:
        order = np.argsort(-times)
        risk = (x @ weights)[order]
        at_risk = np.log(np.cumsum(np.exp(risk)))
        return -np.sum((risk - at_risk) * ended[order]) / len(x)

    return likelihood


PROGRAMS = {
    "Kalman filter": Program(
        kalman,
        (np.cumsum(_random(200, 2), axis=0), np.eye(4) + 0.1 * np.eye(4, k=2), np.eye(2, 4)),
        np.array([-1.0, 0.5]),
    ),
    "hidden Markov model": Program(
        hidden_markov, (np.random.default_rng(0).integers(0, 5, 300), 8), _random(8, 13)
    ),
    "gated unit": Program(
        gated_unit, (_random(50, 32, 32), _random(32, 32, seed=1)), 0.1 * _random(6, 32, 32)
    ),
    "heat": Program(heat, (500,), _random(198)),
    "tridiagonal system": Program(
        tridiagonal, (np.sin(np.arange(1000) / 10),), 4 + np.abs(_random(1000))
    ),
    "time warping": Program(
        warping, (np.sin(np.linspace(0, 6, 40)),), np.cos(np.linspace(0, 5, 40))
    ),
    "Lorenz": Program(lorenz, (10_000,), np.array([10.0, 28.0, 8 / 3])),
    "molecules": Program(molecules, (np.eye(16), 100), _lattice(4) + 0.05 * _random(16, 2)),
    "robot arm": Program(
        arm, (np.linspace(1, 0.4, 7), np.array([1.0, 0.5, 0.8])), np.linspace(-0.5, 0.5, 7)
    ),
    "springs": Program(springs, (100, 200), 1 + 0.1 * _random(99)),
    "Riccati": Program(
        riccati, (np.eye(4) + 0.1 * _random(4, 4), _random(4, 2, seed=1)), np.array([0.1, -0.3])
    ),
    "Kepler": Program(kepler, (np.linspace(0.1, 3.0, 10_000),), np.array([0.6])),
    "adaptive steps": Program(adaptive, (1e-6,), np.array([1.5, 0.4])),
    "denoising": Program(denoising, (0.5, 40), np.repeat(_random(10), 12) + 0.2 * _random(120)),
    "ratings": Program(
        ratings,
        (_random(30, 20), np.random.default_rng(1).random((30, 20)) < 0.5, 2),
        _random(20, 3, seed=2),
    ),
    "Gaussian process": Program(
        gaussian_process,
        (np.linspace(0, 1, 200), np.sin(3 * np.linspace(0, 1, 200)) + 0.1 * _random(200)),
        np.array([0.0, -1.0, -3.0]),
    ),
    "survival": Program(
        survival,
        (
            _random(2000, 10),
            np.random.default_rng(1).exponential(size=2000),
            np.random.default_rng(2).random(2000) < 0.7,
        ),
        0.1 * _random(10),
    ),
}
# In these JAX has no reverse mode: it takes its forward mode, of one or two variables.
UNBOUNDED = ("Riccati", "Kepler", "adaptive steps")


def with_wengert(name: str) -> Builder:
    """Value and gradient, compiled by wengert."""

    def build() -> Callable[[], Any]:
        import wengert as wg

        program = PROGRAMS[name]
        compiled = wg.jit(wg.value_and_grad(program.written(*program.data)))
        return lambda: compiled(program.at)

    return build


def with_jax(name: str) -> Builder:
    """Value and gradient, compiled by JAX."""

    def build() -> Callable[[], Any]:
        jax = load("jax")
        from . import programs_jax

        program = PROGRAMS[name]
        f = programs_jax.PROGRAMS[name](jax, *program.data)
        if name in UNBOUNDED:
            forward = jax.jacfwd(lambda x: (f(x),) * 2, has_aux=True)
            compiled = jax.jit(lambda x: forward(x)[::-1])
        else:
            compiled = jax.jit(jax.value_and_grad(f))
        x = jax.numpy.asarray(program.at)
        return lambda: jax.block_until_ready(compiled(x))

    return build


def first_call(build: Builder) -> Builder:
    """The time of a first call, from the function to its result."""

    def run() -> float:
        return timed_once(lambda: build()())

    return lambda: run


def workloads(quick: bool) -> list[Workload]:
    """Each program, and its first call."""
    found = []
    for name in PROGRAMS:
        builders = {"wengert": with_wengert(name), "jax": with_jax(name)}
        found.append(
            Workload("programs", name, builders, goals={"jax": 1.0}, same=("jax",), tolerance=1e-6)
        )
        if not quick:
            first = {contestant: first_call(build) for contestant, build in builders.items()}
            found.append(
                Workload("programs", f"{name}, first call", first, reports=True, limit=FIRST_CALL)
            )
    return found
