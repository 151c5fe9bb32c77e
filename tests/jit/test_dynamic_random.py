"""Random programs of samples and sums, for any length: compiled = evaluated, gradients too.

Set WENGERT_RANDOM_LENGTHS to run more of them (marked slow), WENGERT_RANDOM_SEED to run others.
"""

import os

import numpy as np
import pytest

import wengert as wg
from wengert import tree

FUNCTIONS = [
    np.sin,
    np.tanh,
    lambda a: a * a,
    lambda a: np.exp(-np.abs(a)),
    lambda a: np.where(a > 0, a, 0.1 * a),
    lambda a: a - np.max(a, axis=1, keepdims=True),
]
SUMS = [
    lambda a, b: np.mean(a, axis=0),
    lambda a, b: np.sum(a * b, axis=0) / len(a),
    lambda a, b: np.sum(a.T @ b, axis=1) / len(a),
]


def random_program(rng):
    """A function of samples (n, 3) and (n,), made of a few random steps."""
    weights = rng.standard_normal((3, 3)) / 2
    steps = rng.integers(0, 1000, (rng.integers(3, 14), 4))

    def program(x, v):
        rows, sums = [x, x * v[:, None]], [np.sum(x, axis=0) / len(x)]
        for kind, a, b, which in steps:
            row, other = rows[a % len(rows)], rows[b % len(rows)]
            if kind % 7 == 0:
                sums.append(SUMS[which % len(SUMS)](row, other))
            elif kind % 7 == 1:
                rows.append(row * sums[b % len(sums)])
            elif kind % 7 == 2:
                rows.append(row @ weights)
            elif kind % 7 == 3:
                rows.append((row.T * v).T + np.arange(len(x))[:, None] / len(x))
            elif kind % 7 == 4:
                rows.append(row + other / 2)
            else:
                rows.append(FUNCTIONS[which % len(FUNCTIONS)](row))
        return rows[-1], sums[-1], np.sum(np.sin(rows[-1])) / len(x) + np.sum(sums[-1])

    return lambda x, v: (program(x, v), wg.grad(lambda z: program(z, v)[2])(x))


def compare(seed):
    rng = np.random.default_rng(seed)
    program = random_program(rng)
    compiled = wg.jit(program, dynamic={"x": 0, "v": 0})
    for n in (5, 1, 40, 130):
        x, v = rng.standard_normal((n, 3)), rng.standard_normal(n)
        found, expected = tree.leaves(compiled(x, v)), tree.leaves(program(x, v))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10, err_msg=f"{seed=}, {n=}")
    found = [program for several in compiled._programs.values() for program in several]
    assert sum(program.any_length for program in found) == 1
    assert len(found) <= 2, "length 1 alone may have a program of its own"


@pytest.mark.filterwarnings("error::wengert.errors.FixedLengthWarning")
@pytest.mark.parametrize("seed", range(8))
def test_random_programs(seed):
    compare(seed)


@pytest.mark.slow
@pytest.mark.filterwarnings("error::wengert.errors.FixedLengthWarning")
def test_many_random_programs():
    first = int(os.environ.get("WENGERT_RANDOM_SEED", "1000"))
    for seed in range(first, first + int(os.environ.get("WENGERT_RANDOM_LENGTHS", "100"))):
        compare(seed)
