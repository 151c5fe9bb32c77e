"""Patterns hold for every value: whatever the dense derivative has is in them."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from programs.writer import write_program
from wengert.ops import REGISTRY

SEED = 20241


def samples_of(op):
    return list(op.samples(np.random.default_rng(SEED))) if op.samples else []


def is_real(value):
    return isinstance(value, np.ndarray) and value.dtype == np.float64 and value.size


CASES = [
    pytest.param(op, args, params, place, id=f"{name}-{number}-{place}")
    for name, op in sorted(REGISTRY.items())
    if op.zero is None and "jvp" not in op.absent
    for number, (args, params) in enumerate(samples_of(op))
    for place, arg in enumerate(args)
    if is_real(arg)
]


def real_parts(result):
    parts = result if isinstance(result, (tuple, list)) else [result]
    found = []
    for part in parts:
        if np.result_type(part).kind == "c":
            found += [wnp.real(part), wnp.imag(part)]
        elif np.result_type(part).kind == "f":
            found.append(part)
    return found


def flat_jacobian(f, x):
    """The dense Jacobian of a function with a list of results, one row an element."""
    blocks = wg.jacfwd(f)(x)
    return np.concatenate([np.reshape(block, (-1, np.size(x))) for block in blocks])


def assert_covers(sparsity, dense):
    assert sparsity.shape == dense.shape
    missed = (dense != 0) & ~sparsity.matrix.toarray()
    assert not missed.any(), f"missed {np.argwhere(missed)[:5]}"


@pytest.mark.parametrize("op, args, params, place", CASES)
def test_patterns_of_operations_cover_their_derivatives(op, args, params, place):
    def f(x):
        return real_parts(op(*args[:place], x, *args[place + 1 :], **params))

    with np.errstate(all="ignore"):
        if not f(args[place]):
            return  # it gives integers
        dense = flat_jacobian(f, args[place])
        assert_covers(wg.sparse_jacobian(f).sparsity(args[place]), dense)


def exact(f, x):
    """The pattern is what the derivative at a random place has, and no more."""
    dense = np.reshape(wg.jacobian(f)(x), (-1, x.size))
    np.testing.assert_array_equal(wg.sparse_jacobian(f).sparsity(x).matrix.toarray(), dense != 0)


def random_values(*shape):
    return np.random.default_rng(3).uniform(0.5, 1.5, shape)


BAND = np.diag(np.arange(1.0, 7.0)) + np.diag(np.ones(4), 2)
KEPT = np.array([1.0, 0.0, 2.0, 0.0, 0.0, 3.0])
PLACES = np.array([[5, 0], [2, 2], [-1, 3]])


def set_places(x):
    y = x * 2.0
    y[::2] = x[:3] ** 2
    y[np.array([5, 2, 1])] = x[:3] * x[3:]
    return y


EXACT = {
    "elementwise": lambda x: np.exp(x) * x,
    "slices": lambda x: x[::-2] * x[:3],
    "neighbours": lambda x: x[1:] - x[:-1] ** 2,
    "stacked": lambda x: np.concatenate([x[:2], np.zeros(3), x[4:] * x[:2]]),
    "outer": lambda x: x[:3, None] * x[None, 3:],
    "sum of rows": lambda x: np.sum(x.reshape(2, 3) ** 2, axis=1),
    "turned": lambda x: np.sin(x.reshape(2, 3).T),
    "gathered": lambda x: x[PLACES] ** 2,
    "scattered": set_places,
    "running sum": lambda x: np.cumsum(x),
    "running sum of rows": lambda x: np.cumsum(x.reshape(2, 3), axis=1),
    "running product": lambda x: np.cumprod(x.reshape(3, 2)[::-1], axis=0),
    "band": lambda x: BAND @ x**2,
    "band from the right": lambda x: x.reshape(1, 6) @ BAND,
    "masked": lambda x: x**2 * KEPT,
    "chosen by a known mask": lambda x: np.where(KEPT > 0, x, 5.0),
    "padded": lambda x: np.pad(x, 2),
    "rolled": lambda x: np.roll(x, 2) * x,
    "product of matrices": lambda x: x.reshape(2, 3) @ x.reshape(3, 2),
    "nothing": np.sign,
    "loop": lambda x: wg.scan(lambda c, row: (np.sin(row), c * row), x[0], x)[1],
    "counted loop": lambda x: wg.scan(lambda c, i: (c, c[i] * c[i - 1]), x, np.arange(6))[1],
    "loop backwards": lambda x: wg.scan(lambda c, r: (c * r, c + r), 1.0, x, reverse=True)[1],
    "checkpointed": wg.checkpoint(lambda x: np.tanh(x[1:]) * x[:-1]),
    "mapped": lambda x: wg.vmap(lambda row: row[0] * row[1])(x.reshape(3, 2)),
    "convolved": lambda x: np.convolve(x, np.array([1.0, 2.0]), "valid"),
}


@pytest.mark.parametrize("f", EXACT.values(), ids=EXACT)
def test_patterns_are_exact_where_they_can_be(f):
    exact(f, random_values(6))


MORE = {
    "where": (lambda x: np.where(x > 1, x, x[::-1]), 6),
    "absolute": (lambda x: np.abs(x) + np.maximum(x, x[0]), 6),
    "sorted": (np.sort, 6),
    "sorted rows": (lambda x: np.sort(x.reshape(2, 3), axis=1), 6),
    "largest": (lambda x: np.max(x.reshape(2, 3), axis=1), 6),
    "at the largest": (lambda x: x[np.argmax(x)] * x, 6),
    "at rounded": (lambda x: x.reshape(3, 2)[np.floor(x[:3]).astype(int)], 6),
    "put where it is largest": (lambda x: _put(x, np.argmax(x)), 6),
    "relu": (lambda x: np.maximum(x - 1, 0.0), 6),
    "solved": (lambda x: np.linalg.solve(np.eye(3) * 2 + x[:3], x[3:]), 6),
    "fft": (lambda x: np.real(np.fft.fft(x)), 6),
}


def _put(x, place):
    y = x * 1.0
    y[place] = x[0]
    return y


def _turned(x):
    """A register of three that is turned as often as the last element says."""
    going = lambda state: state[1] < x[3]
    turn = lambda state: (np.concatenate([state[0][1:], state[0][:1]]), state[1] + 0.4)
    return wg.while_loop(going, turn, (x[:3] * 2, 0.0))[0]


def _either(x):
    return wg.cond(x[0] > 1, lambda x: x[1:] * x[0], lambda x: x[:-1] ** 2, x)


MORE |= {
    "while": (_turned, 4),
    "cond": (_either, 5),
    "gradient of a while": (lambda x: wg.grad(lambda x: _turned(x) @ x[4:])(x), 7),
    "gradient of a cond": (lambda x: wg.grad(lambda x: np.sum(_either(x) ** 2))(x), 5),
}


@pytest.mark.parametrize("f, size", MORE.values(), ids=MORE)
def test_patterns_hold_at_every_place(f, size):
    """What is decided by values is in the pattern either way: it covers many places at once."""
    sparsity = wg.sparse_jacobian(f).sparsity(np.ones(size))
    rng = np.random.default_rng(5)
    for _ in range(20):
        x = rng.uniform(0.1, 1.9, size)
        assert_covers(sparsity, np.reshape(wg.jacobian(f)(x), (-1, size)))


def test_rows_are_not_mixed_by_what_is_decided_inside_them():
    """The largest of each row, and an index found in it: two blocks."""
    blocks = np.kron(np.eye(2), np.ones((3, 3))).astype(bool)
    sorted_rows = wg.sparse_jacobian(lambda x: np.sort(x.reshape(2, 3), axis=1))
    np.testing.assert_array_equal(sorted_rows.sparsity(np.ones(6)).matrix.toarray(), blocks)
    largest = wg.sparse_jacobian(lambda x: np.max(x.reshape(2, 3), axis=1))
    np.testing.assert_array_equal(largest.sparsity(np.ones(6)).matrix.toarray(), blocks[::3])


def _shifted(x):
    return np.eye(5) * 3 + x[:, :, None]


BLOCKS = {
    "solve": lambda x: np.linalg.solve(_shifted(np.ones((4, 5))), x[:, :, None]),
    "solve by the matrix": lambda x: np.linalg.solve(_shifted(x), np.ones((4, 5, 1))),
    "inverse": lambda x: np.linalg.inv(_shifted(x)),
    "cholesky": lambda x: np.linalg.cholesky(_shifted(x[:, :1] ** 2)) * x[:, :, None],
    "fft": lambda x: np.real(np.fft.fft(x, axis=1)),
    "fft of columns": lambda x: np.real(np.fft.fft(x.T, axis=0)).T,
    "real fft": lambda x: np.imag(np.fft.rfft(x, axis=1)),
    "there and back": lambda x: np.fft.irfft(np.fft.rfft(x, axis=1), 5, axis=1),
}


@pytest.mark.parametrize("f", BLOCKS.values(), ids=BLOCKS)
def test_a_batch_of_matrices_or_lines_is_not_mixed(f):
    x = random_values(4, 5)
    found = wg.sparse_jacobian(f).sparsity(x)
    dense = np.reshape(wg.jacobian(f)(x), (-1, 20))
    assert_covers(found, dense)
    rows = len(dense) // 4
    blocks = np.kron(np.eye(4), np.ones((rows, 5))) > 0
    assert not (found.matrix.toarray() & ~blocks).any()


def test_branches_and_turns_keep_apart_what_they_do_not_mix():
    """Two branches together, and a state of which each element goes its own way."""
    both = wg.sparse_jacobian(_either).sparsity(np.ones(5)).matrix.toarray()
    wanted = np.eye(4, 5) + np.eye(4, 5, k=1) > 0
    wanted[:, 0] = True
    np.testing.assert_array_equal(both, wanted)

    def halved(x):
        return wg.while_loop(lambda y: np.sum(y) > 1, lambda y: y * y / 2, x)

    found = wg.sparse_jacobian(halved).sparsity(np.ones(5)).matrix.toarray()
    np.testing.assert_array_equal(found, np.eye(5, dtype=bool))
    assert_covers(wg.sparse_jacobian(_turned).sparsity(np.ones(4)), np.ones((3, 4)) * [1, 1, 1, 0])


def test_custom_rules_count_not_what_they_replace():
    """A straight-through estimator has a derivative where its function has none."""

    @wg.custom_rule(jvp=lambda primals, tangents: (np.round(primals[0]), tangents[0]))
    def rounded(x):
        return np.round(x)

    exact(lambda x: rounded(x)[1:] * 2, random_values(5))


def test_long_loops_are_covered_at_once(monkeypatch):
    from wengert.sparse import propagate

    monkeypatch.setattr(propagate, "_FOLLOWED", 0)

    def f(x):
        def step(carry, row):
            a, b, c = carry
            return (b, row[0] * 2, c), (row[1] * row[0], a, c * row[1])

        (a, b, c), ys = wg.scan(step, (x[0], x[1], x[2]), x[3:].reshape(4, 2))
        return [a, b, c, *ys]

    x = random_values(11)
    found = wg.sparse_jacobian(f).sparsity(x)
    assert_covers(found, flat_jacobian(f, x))
    inner = found.matrix.toarray()[3:7, 3:]
    np.testing.assert_array_equal(inner, np.kron(np.eye(4), np.ones((1, 2))))


@pytest.mark.parametrize("seed", range(40))
def test_patterns_of_random_programs_cover_their_derivatives(seed):
    program = write_program(seed)
    sizes = [x.size for x in program.inputs]
    if sum(sizes) > 600:
        pytest.skip("its dense derivative takes long")

    def f(inputs):
        return real_parts(program.function(*inputs))

    with np.errstate(all="ignore"):
        try:
            sparsity = wg.sparse_jacobian(f).sparsity(list(program.inputs))
        except wg.errors.AbstractValueError:
            pytest.skip("decides by values, which compiled functions cannot")
        rows = wg.jacfwd(f)(list(program.inputs))
    blocks = [
        np.concatenate(
            [np.reshape(part, (-1, n)) for part, n in zip(row, sizes, strict=True)], axis=1
        )
        for row in rows
    ]
    if blocks:
        assert_covers(sparsity, np.concatenate(blocks))
