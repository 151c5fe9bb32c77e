"""What NumPy gives as a view follows writes to its base, however it is computed here."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import wengert as wg
from wengert.errors import MutationError

VIEWS = {
    "windows of columns": lambda y: sliding_window_view(y, 2, axis=1),
    "windows of rows": lambda y: sliding_window_view(y, 2, axis=0),
    "windows in two dimensions": lambda y: sliding_window_view(y, (2, 2)),
    "windows of a transpose": lambda y: sliding_window_view(y.T[1:], 2, axis=0),
    "rows of windows": lambda y: sliding_window_view(y, 3, axis=1)[:, 0],
    "broadcast": lambda y: np.broadcast_to(y, (2, 3, 4)),
    "diagonal": lambda y: np.diagonal(y),
    "diagonal of a part": lambda y: np.diagonal(y[:, :3]),
    "diagonal of a transpose": lambda y: np.diagonal(y.T, 1),
    "diag": lambda y: np.diag(y[:, 1:]),
    "einsum ii->i": lambda y: np.einsum("ii->i", y[:, :3]),
    "einsum ii->i of a transpose": lambda y: np.einsum("ii->i", y[:, :3].T),
    "einsum ij->ji": lambda y: np.einsum("ij->ji", y),
    "real": lambda y: np.real(y),
    "flip": lambda y: np.flip(y),
    "rot90": lambda y: np.rot90(y),
    "split": lambda y: np.split(y, [1])[1],
    "squeeze": lambda y: np.squeeze(y[None]),
    "reshape": lambda y: y.reshape(2, 6),
    "nan_to_num in place": lambda y: np.nan_to_num(y, copy=False),
    "astype itself": lambda y: y.astype(float, copy=False),
}
x = np.arange(1.0, 13.0).reshape(3, 4)


def written_after(take):
    def f(x):
        y = x * 1.0
        view = take(y)
        y[0, 1] = 100.0
        y[1] *= 2
        return np.sum(view * 3.0) + np.sum(np.sin(view[..., 0]))

    return f


@pytest.mark.parametrize("name", VIEWS)
def test_views_follow_writes(name):
    f = written_after(VIEWS[name])
    want = f(x)
    value, gradient = wg.value_and_grad(f)(x)
    assert value == pytest.approx(want, rel=1e-12)
    assert wg.jit(f)(x) == pytest.approx(want, rel=1e-12)
    wg.check_grads(f, (x,), order=1)
    np.testing.assert_allclose(wg.jit(wg.grad(f))(x), gradient, rtol=1e-12)


def test_a_diagonal_that_einsum_gives_is_written_through():
    def f(x):
        y = x * 1.0
        np.einsum("ii->i", y[:, :3])[:] = 7.0
        return np.sum(y * y)

    assert wg.value_and_grad(f)(x)[0] == f(x)
    assert wg.jit(f)(x) == f(x)


def test_nan_to_num_in_place():
    def f(x):
        y = x / np.array([1.0, 0.0, 1.0])
        np.nan_to_num(y, copy=False, posinf=3.0)
        return np.sum(y)

    with np.errstate(all="ignore"):
        want = f(np.ones(3))
        assert wg.value_and_grad(f)(np.ones(3))[0] == want == 5.0
        assert wg.jit(f)(np.ones(3)) == want


# ---------------------------------------------------------------- parts of complex arrays, numbers


def parts(x):
    z = x + 1j * np.sin(x)
    real, imaginary = z.real, np.imag(z)[::-1]
    real[0] = 5.0
    z[1] = 2j
    imaginary *= 2.0
    return [real * 1.0, imaginary * 1.0, np.abs(z)]


def parts_of_made(x):
    z = np.zeros(3, complex)
    real = z.real
    z.real[...] = x
    z.imag[0] = x[1]
    z *= 2
    return [real * 1.0, np.abs(z)]


def of_numbers(x):
    """NumPy's numbers do not change: their reshapes are copies."""
    mean, angle = x.mean(), np.arctan(x[0])
    a, b, c = np.expand_dims(mean, (0, -1)), angle.reshape(1, 1)[None][0], mean[None]
    a -= 0.25
    b *= 2.0
    c += 1.0
    return [mean * 1.0, angle * 1.0, a, b, c]


def of_one_element(x):
    """Arrays without axes do."""
    y = x * 1.0
    one = y[0:1].reshape(())
    wide = one[None]
    wide *= 3.0
    return [one * 1.0, y, wide * 1.0]


@pytest.mark.parametrize("f", [parts, parts_of_made, of_numbers, of_one_element])
def test_writes_reach_what_shares_memory_alone(f):
    x = np.array([1.0, 2.0, 3.0])
    want = f(x)
    ways = [wg.vjp(f, x)[0], wg.jvp(f, (x,), (x,))[0], wg.jit(f)(x)]
    ways.append([rows[1] for rows in wg.vmap(f)(np.stack([x + 1, x]))])
    for got in ways:
        for one, other in zip(got, want, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-14)
    wg.check_grads(lambda x: sum(np.sum(one) for one in f(x)), (x,))


def test_a_number_that_may_be_an_array_is_not_written_behind_its_back():
    def f(x):
        y = x[None]
        y += 1.0
        return x + y

    with pytest.raises(MutationError, match="is not known here"):
        wg.grad(lambda x: np.sum(f(x)))(np.array(2.0))
