"""The programs of `programs.py` in the words of JAX: `scan`, `while_loop`, `.at[].set`.

Each takes the module `jax` and the data, and gives a function of the variables alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def kalman(jax: Any, seen: Any, moves: Any, looks: Any) -> Callable:
    """A scan over what was seen."""
    jnp = jax.numpy

    def likelihood(log_noise: Any) -> Any:
        noise, error_noise = jnp.exp(log_noise[0]), jnp.exp(log_noise[1])

        def step(carry: Any, y: Any) -> Any:
            mean, spread, total = carry
            mean = moves @ mean
            spread = moves @ spread @ moves.T + noise * jnp.eye(4)
            expected = looks @ spread @ looks.T + error_noise * jnp.eye(2)
            error = y - looks @ mean
            solved = jnp.linalg.solve(expected, error)
            total = total + error @ solved + jnp.log(jnp.linalg.det(expected))
            gain = jnp.linalg.solve(expected, looks @ spread).T
            return (mean + gain @ error, spread - gain @ looks @ spread, total), None

        (_, _, total), _ = jax.lax.scan(step, (jnp.zeros(4), jnp.eye(4), 0.0), seen)
        return 0.5 * total

    return likelihood


def hidden_markov(jax: Any, seen: Any, states: Any) -> Callable:
    """A scan over the symbols."""
    jnp = jax.numpy

    def likelihood(x: Any) -> Any:
        moves = jax.nn.log_softmax(x[:, :states])
        shows = jax.nn.log_softmax(x[:, states:])

        def step(alpha: Any, symbol: Any) -> Any:
            paths = alpha[:, None] + moves
            return jax.nn.logsumexp(paths, axis=0) + shows[:, symbol], None

        alpha, _ = jax.lax.scan(step, shows[:, seen[0]] - jnp.log(states), jnp.asarray(seen[1:]))
        return -jax.nn.logsumexp(alpha)

    return likelihood


def gated_unit(jax: Any, inputs: Any, targets: Any) -> Callable:
    """A scan over time."""
    jnp = jax.numpy

    def loss(weights: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            reset = jax.nn.sigmoid(x @ weights[0] + state @ weights[1])
            update = jax.nn.sigmoid(x @ weights[2] + state @ weights[3])
            new = jnp.tanh(x @ weights[4] + (reset * state) @ weights[5])
            return update * state + (1 - update) * new, None

        state, _ = jax.lax.scan(step, jnp.zeros_like(targets), inputs)
        return jnp.mean((state - targets) ** 2)

    return loss


def heat(jax: Any, steps: Any) -> Callable:
    """Updates at places, in a scan."""
    jnp = jax.numpy

    def spread(start: Any) -> Any:
        def step(u: Any, _: Any) -> Any:
            return u.at[1:-1].add(0.2 * (u[2:] - 2 * u[1:-1] + u[:-2])), None

        u, _ = jax.lax.scan(step, jnp.zeros(len(start) + 2).at[1:-1].set(start), None, length=steps)
        return jnp.sum(u**2)

    return spread


def tridiagonal(jax: Any, right: Any) -> Callable:
    """Two scans, one of them backward."""
    jnp = jax.numpy

    def solved(diagonal: Any) -> Any:
        def down(carry: Any, row: Any) -> Any:
            factor, value = carry
            pivot = row[0] - factor
            carry = 1 / pivot, (row[1] - value) / pivot
            return carry, carry

        def up(after: Any, row: Any) -> Any:
            value = row[1] - row[0] * after
            return value, value

        first = 1 / diagonal[0], right[0] / diagonal[0]
        (_, last), (factors, values) = jax.lax.scan(down, first, (diagonal[1:], right[1:]))
        factors = jnp.concatenate([first[0][None], factors[:-1]])
        values = jnp.concatenate([first[1][None], values[:-1]])
        _, before = jax.lax.scan(up, last, (factors, values), reverse=True)
        return jnp.sum(before**2) + last**2

    return solved


def warping(jax: Any, other: Any) -> Callable:
    """A scan over rows, and one over places in them."""
    jnp = jax.numpy

    def distance(x: Any) -> Any:
        n = len(x)

        def row(above: Any, here: Any) -> Any:
            def place(left: Any, given: Any) -> Any:
                up, corner, y = given
                ways = jnp.array([up, left, corner])
                made = (here - y) ** 2 - jax.nn.logsumexp(-ways)
                return made, made

            _, made = jax.lax.scan(place, 1e3, (above[1:], above[:-1], other))
            return jnp.concatenate([jnp.array([1e3]), made]), None

        table, _ = jax.lax.scan(row, jnp.full(n + 1, 1e3).at[0].set(0.0), x)
        return table[n]

    return distance


def lorenz(jax: Any, steps: Any) -> Callable:
    """A scan over steps."""
    jnp = jax.numpy

    def slope(state: Any, parameters: Any) -> Any:
        x, y, z = state
        sigma, rho, beta = parameters
        return jnp.array([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])

    def end(parameters: Any) -> Any:
        h = 1e-4

        def step(state: Any, _: Any) -> Any:
            k1 = slope(state, parameters)
            k2 = slope(state + h / 2 * k1, parameters)
            k3 = slope(state + h / 2 * k2, parameters)
            k4 = slope(state + h * k3, parameters)
            return state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

        state, _ = jax.lax.scan(step, jnp.ones(3), None, length=steps)
        return jnp.sum(state**2)

    return end


def molecules(jax: Any, itself: Any, steps: Any) -> Callable:
    """A scan over steps."""
    jnp = jax.numpy

    def forces(x: Any) -> Any:
        apart = x[:, None] - x[None]
        square = jnp.sum(apart**2, axis=-1) + itself
        inverse = 1 / square**3
        strength = (24 * inverse * (2 * inverse - 1) / square) * (1 - itself)
        return jnp.sum(strength[..., None] * apart, axis=1)

    def spread(x: Any) -> Any:
        x, h = x * 1.2, 1e-3

        def step(carry: Any, _: Any) -> Any:
            x, speed, force = carry
            speed = speed + h / 2 * force
            x = x + h * speed
            force = forces(x)
            return (x, speed + h / 2 * force, force), None

        start = x, jnp.zeros_like(x), forces(x)
        (x, speed, _), _ = jax.lax.scan(step, start, None, length=steps)
        return jnp.sum(speed**2) + jnp.mean(x**2)

    return spread


def arm(jax: Any, lengths: Any, goal: Any) -> Callable:
    """A Python loop over the joints."""
    jnp = jax.numpy

    def link(angle: Any, length: Any, upright: bool) -> Any:
        c, s = jnp.cos(angle), jnp.sin(angle)
        if upright:
            return jnp.array([[c, 0, s, length], [0, 1, 0, 0], [-s, 0, c, 0], [0, 0, 0, 1]])
        return jnp.array([[c, -s, 0, length], [s, c, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])

    def miss(angles: Any) -> Any:
        pose = jnp.eye(4)
        for k in range(len(lengths)):
            pose = pose @ link(angles[k], lengths[k], k % 2 == 1)
        return jnp.sum((pose[:3, 3] - goal) ** 2)

    return miss


def springs(jax: Any, count: Any, steps: Any) -> Callable:
    """A scan with the energies as its results."""
    jnp = jax.numpy

    def seen(strength: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            x, speed = carry
            pull = 0.05 * strength * (x[1:] - x[:-1])
            speed = speed.at[:-1].add(pull).at[1:].add(-pull)
            return (x + 0.05 * speed, speed), jnp.sum(speed**2)

        start = jnp.linspace(0, 1, count) ** 2, jnp.zeros(count)
        (x, _), energies = jax.lax.scan(step, start, None, length=steps)
        return jnp.mean(energies) + jnp.sum(x**2)

    return seen


def riccati(jax: Any, moves: Any, steers: Any) -> Callable:
    """A while loop: forward mode only."""
    jnp = jax.numpy

    def cost(log_weights: Any) -> Any:
        state, control = (
            jnp.exp(log_weights[0]) * jnp.eye(len(moves)),
            jnp.exp(log_weights[1]) * jnp.eye(2),
        )

        def step(carry: Any) -> Any:
            p, _ = carry
            inside = control + steers.T @ p @ steers
            gain = jnp.linalg.solve(inside, steers.T @ p @ moves)
            new = state + moves.T @ p @ moves - moves.T @ p @ steers @ gain
            return new, jnp.max(jnp.abs(new - p))

        p, _ = jax.lax.while_loop(lambda carry: carry[1] > 1e-9, step, (state, 1.0))
        return jnp.trace(p)

    return cost


def kepler(jax: Any, means: Any) -> Callable:
    """A while loop, mapped: forward mode only."""
    jnp = jax.numpy

    def one(mean: Any, roundness: Any) -> Any:
        def step(carry: Any) -> Any:
            angle, _ = carry
            miss = angle - roundness * jnp.sin(angle) - mean
            change = miss / (1 - roundness * jnp.cos(angle))
            return angle - change, change

        start = mean, jnp.ones_like(mean)
        angle, _ = jax.lax.while_loop(lambda carry: jnp.abs(carry[1]) > 1e-12, step, start)
        return jax.lax.cond(angle > 1.0, jnp.cos, lambda a: 1 - 0.5 * a**2, angle)

    return lambda x: jnp.sum(jax.vmap(one, in_axes=(0, None))(means, x[0]))


def adaptive(jax: Any, tolerance: Any) -> Callable:
    """A while loop in which steps that are too long are not taken."""
    jnp = jax.numpy

    def end(parameters: Any) -> Any:
        def slope(y: Any) -> Any:
            return jnp.array([y[1], parameters[0] * (1 - y[0] ** 2) * y[1] - parameters[1] * y[0]])

        def turn(state: Any) -> Any:
            t, y, h = state
            h = jnp.minimum(h, 5.0 - t)
            k1 = slope(y)
            k2 = slope(y + h * k1 / 2)
            k3 = slope(y + 3 * h * k2 / 4)
            new = y + h * (2 * k1 + 3 * k2 + 4 * k3) / 9
            error = jnp.linalg.norm(h * (-5 * k1 / 72 + k2 / 12 + k3 / 9 - slope(new) / 8))
            good = error < tolerance
            grown = 0.9 * (tolerance / (error + 1e-14)) ** (1 / 3)
            t, y = jnp.where(good, t + h, t), jnp.where(good, new, y)
            return t, y, h * jnp.minimum(2.0, jnp.maximum(0.3, grown))

        start = (0.0, jnp.array([1.0, 0.0]), 0.1)
        y = jax.lax.while_loop(lambda state: state[0] < 5.0, turn, start)[1]
        return y @ y

    return end


def denoising(jax: Any, weight: Any, turns: Any) -> Callable:
    """The system is factored before a scan."""
    jnp = jax.numpy

    def roughness(seen: Any) -> Any:
        n = len(seen)
        steps = jnp.eye(n - 1, n, k=1) - jnp.eye(n - 1, n)
        factors = jax.scipy.linalg.lu_factor(jnp.eye(n) + steps.T @ steps)

        def turn(carry: Any, _: Any) -> Any:
            _, jumps, excess = carry
            x = jax.scipy.linalg.lu_solve(factors, seen + steps.T @ (jumps - excess))
            moved = steps @ x + excess
            jumps = jnp.sign(moved) * jnp.maximum(jnp.abs(moved) - weight, 0)
            return (x, jumps, moved - jumps), None

        start = (jnp.zeros(n), jnp.zeros(n - 1), jnp.zeros(n - 1))
        (x, _, _), _ = jax.lax.scan(turn, start, None, length=turns)
        return jnp.sum((x - seen) ** 2) + jnp.sum(jnp.abs(steps @ x))

    return roughness


def ratings(jax: Any, table: Any, known: Any, rounds: Any) -> Callable:
    """Masked products for all rows at once."""
    jnp = jax.numpy

    def fitted(others: Any, table: Any, known: Any) -> Any:
        mask = known * 1.0
        systems = jnp.einsum("ij,jk,jl->ikl", mask, others, others) + 0.1 * jnp.eye(3)
        return jnp.linalg.solve(systems, ((mask * table) @ others)[..., None])[..., 0]

    def miss(columns: Any) -> Any:
        for _ in range(rounds):
            rows = fitted(columns, table, known)
            columns = fitted(rows, table.T, known.T)
        return jnp.sum(((rows @ columns.T - table) * known) ** 2)

    return miss


def gaussian_process(jax: Any, places: Any, values: Any) -> Callable:
    """Cholesky's decomposition, used twice."""
    jnp = jax.numpy

    def likelihood(parameters: Any) -> Any:
        scale, length, noise = jnp.exp(parameters)
        distance = places[:, None] - places
        kernel = scale * jnp.exp(-0.5 * (distance / length) ** 2) + noise * jnp.eye(len(places))
        lower = jnp.linalg.cholesky(kernel)
        solved = jax.scipy.linalg.cho_solve((lower, True), values)
        return 0.5 * values @ solved + jnp.sum(jnp.log(jnp.diag(lower)))

    return likelihood


def survival(jax: Any, x: Any, times: Any, ended: Any) -> Callable:
    """Sorting and running sums."""
    jnp = jax.numpy

    def likelihood(weights: Any) -> Any:
        order = jnp.argsort(-times)
        risk = (x @ weights)[order]
        at_risk = jnp.log(jnp.cumsum(jnp.exp(risk)))
        return -jnp.sum((risk - at_risk) * jnp.asarray(ended)[order]) / len(x)

    return likelihood


PROGRAMS: dict[str, Callable[..., Callable]] = {
    "Kalman filter": kalman,
    "hidden Markov model": hidden_markov,
    "gated unit": gated_unit,
    "heat": heat,
    "tridiagonal system": tridiagonal,
    "time warping": warping,
    "Lorenz": lorenz,
    "molecules": molecules,
    "robot arm": arm,
    "springs": springs,
    "Riccati": riccati,
    "Kepler": kepler,
    "adaptive steps": adaptive,
    "denoising": denoising,
    "ratings": ratings,
    "Gaussian process": gaussian_process,
    "survival": survival,
}
