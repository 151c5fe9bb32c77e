"""Entries from what a function reads: the dense Jacobian's, and in CSR's order from the start."""

import numpy as np
import pytest

import wengert as wg

INDEX = np.array([3, 0, 4, 4, 1])
CAMERA, POINT = np.array([0, 1, 1, 0, 1]), np.array([0, 1, 2, 2, 0])
PAIRS = np.array([[0, 1], [2, 2], [4, 3]])


def broyden(x):
    padded = np.concatenate([np.zeros(1), x, np.zeros(1)])
    return (3 - 2 * x) * x - padded[:-2] - 2 * padded[2:] + 1


def filled(x):
    y = np.zeros(len(x))
    y[1:] -= x[:-1]
    y[:-1] -= 2 * x[1:]
    y += (3 - 2 * x) * x
    return y


def grid(x):
    u = x.reshape(3, 4)
    return u[1:-1, 1:-1] ** 2 * u[:-2, 1:-1] - np.sin(u[2:, 1:-1]) + u[1:-1, :-2] * u[1:-1, 2:]


def blocks(x):
    """Two numbers of each pair of blocks, of which one does not need all, and then one of each."""
    left, right = x[:6].reshape(3, 2), x[6:].reshape(3, 2)
    both = left * np.stack([right[:, 1], right[:, 0] * left[:, 0]], axis=1)
    return np.concatenate([both.ravel(), np.sum(left, axis=1)])


def scene(x):
    """Cameras and points that meet in observations; the second error does not need it all."""
    cameras, points = x[:6].reshape(2, 3)[CAMERA], x[6:].reshape(3, 2)[POINT]
    seen = cameras[:, :2] * cameras[:, 2:] / points
    return np.concatenate([seen.ravel(), np.sum(cameras, axis=1)])


def gathered(x):
    block = x[PAIRS]  # what is read twice in a row is one entry
    return block[:, 0] * np.sin(block[:, 1]), block * block[:, ::-1]


FUNCTIONS = {
    "padded": broyden,
    "filled": filled,
    "grid": grid,
    "blocks": blocks,
    "scene": scene,
    "index": lambda x: x[INDEX] * np.cos(x[2]),
    "pairs": gathered,
    "roll": lambda x: np.roll(x, 1) * x + np.sin(np.roll(x, -1)),
    "turned": lambda x: x[::-1] * x,
    "moved": lambda x: x[2:5],
    "twice": lambda x: (x[1:] * x[1:] + x[1:] * x[:-1], 3.0 * x[::2]),
    "one and all": lambda x: x[0] * x[1:] + np.sum(x[3:5]),
    "spread": lambda x: np.broadcast_to(x[:1], (6,)) * x[:6],
    "lines": lambda x: np.sum(x.reshape(4, 3) ** 2, axis=1),
    "branch": lambda x: np.where(x[:-1] > 0.9, x[1:] ** 2, x[:-1]),
    "step": lambda x: wg.scan(lambda c, r: (c, r * r), 0.0, x[2:6])[1],
    "single": lambda x: np.float32(2) * x[1:].astype(np.float32) * x[:-1].astype(np.float32),
}


def dense(f, x):
    rows = [np.reshape(one, (-1, x.size)) for one in wg.tree.leaves(wg.jacobian(f)(x))]
    return np.concatenate(rows)


CASES = [(name, "auto") for name in FUNCTIONS]
CASES += [(name, mode) for name in ("padded", "roll", "scene") for mode in ("forward", "reverse")]


@pytest.mark.parametrize(("name", "mode"), CASES)
def test_the_entries_are_those_of_the_dense_jacobian(name, mode):
    f, x = FUNCTIONS[name], np.linspace(0.5, 1.4, 12)
    found = wg.sparse_jacobian(f, x, mode=mode)
    assert found.has_canonical_format
    tolerance = 1e-6 if found.dtype == np.float32 else 1e-13
    np.testing.assert_allclose(found.toarray(), dense(f, x), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("name", "passes"),
    [("padded", [1]), ("filled", [1]), ("grid", [1]), ("scene", [2, 1])],
)
def test_few_passes_write_the_entries_where_they_stay(name, passes):
    x = np.linspace(0.5, 1.4, 12)
    entries = wg.sparse_jacobian(FUNCTIONS[name]).program(x).entries
    assert [one.passes for one in entries.products] == passes
    assert entries.is_direct


def test_an_entry_that_is_read_at_two_places_takes_colours():
    assert wg.sparse_jacobian(gathered).program(np.ones(12)).entries is None


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_what_is_fixed_in_what_is_read_is_no_entry(mode):
    """A zero before the first element moves with the others where all of them are seeded."""

    def f(x):
        before = np.concatenate([np.zeros(1), x[:-1]])
        around = np.concatenate([x[-1:], np.zeros(5)])
        return np.sin(before) + np.exp(around)

    x = np.linspace(0.5, 1.4, 6)
    found = wg.sparse_jacobian(f, x, mode=mode)
    assert found.nnz == 6
    np.testing.assert_allclose(found.toarray(), dense(f, x), rtol=1e-13, atol=1e-13)


def test_rules_of_users_are_kept():
    @wg.custom_rule(jvp=lambda x, t: (np.round(x[0]), 2 * t[0]))
    def steps(x):
        return np.round(x)

    x = np.linspace(0.5, 1.4, 5)
    found = wg.sparse_jacobian(lambda x: steps(x[1:]) * x[:-1], x)
    np.testing.assert_allclose(np.diag(found.toarray(), 1), 2 * x[:-1])


def test_patterns_are_coloured_only_when_asked():
    derivative = wg.sparse_jacobian(broyden)
    derivative(np.ones(50))
    sparsity = derivative.sparsity(np.ones(50))
    assert "_coloured" not in vars(sparsity)
    assert repr(sparsity) == "<Sparsity: 148 entries in (50, 50), forward, 3 colours>"
