"""wengert beside PyTorch: gradients of the same code, and the define-by-run behaviour.

The functions use methods and operators that tensors of both have.
"""

import numpy as np
import pytest

import wengert as wg
from wengert import Tensor

torch = pytest.importorskip("torch")

V = np.array([0.3, -0.7, 1.2, -1.6])
P = np.array([0.4, 0.9, 1.7, 2.6])
S = np.array([[0.3, -0.7, 1.2], [-1.6, 0.8, 2.1]])
W = np.array([[0.5, 1.4], [-0.3, 0.8], [1.0, -0.6]])


def softmax(xp, x):
    shifted = xp.exp(x - x.max())
    return shifted / shifted.sum()


def loop(xp, x):
    total = x
    for k in range(1, 6):
        total = xp.sin(total) * x + k
    return total


# name: (function of xp, x and constants, point, constants)
CASES = {
    "square": (lambda xp, x: x * x, V, ()),
    "polynomial": (lambda xp, x: 3 * x**3 - x**2 + 2 / x, V, ()),
    "sqrt": (lambda xp, x: xp.sqrt(x) + x**1.5, P, ()),
    "exp_log": (lambda xp, x: xp.exp(x) * xp.log(x), P, ()),
    "log1p_expm1": (lambda xp, x: xp.log1p(x) * xp.expm1(x), P, ()),
    "trigonometric": (lambda xp, x: xp.sin(x) * xp.cos(x) + xp.tan(x / 2), V, ()),
    "hyperbolic": (lambda xp, x: xp.tanh(x) + xp.sinh(x) * xp.cosh(x), V, ()),
    "arctan2": (lambda xp, x: xp.arctan2(x, x * x + 1), V, ()),
    "hypot": (lambda xp, x: xp.hypot(x, x * x), V, ()),
    "abs": (lambda xp, x: xp.abs(x) * x, V, ()),
    "maximum": (lambda xp, x, y: xp.maximum(x, y) * x, V, (P,)),
    "minimum": (lambda xp, x, y: xp.minimum(x * x, y), V, (P,)),
    "where": (lambda xp, x: xp.where(x > 0, x * x, xp.exp(x)), V, ()),
    "sum": (lambda xp, x: x.sum() * x, S, ()),
    "mean": (lambda xp, x: x.mean() * x, S, ()),
    "prod": (lambda xp, x: x.prod() * x, V, ()),
    "max": (lambda xp, x: x.max() * x.min(), S, ()),
    "cumsum": (lambda xp, x: xp.cumsum(x, 0) ** 2, S, ()),
    "cumprod": (lambda xp, x: xp.cumprod(x, 0), V, ()),
    "var": (lambda xp, x: ((x - x.mean()) ** 2).mean() ** 0.5, S, ()),
    "reshape": (lambda xp, x: x.reshape(3, 2) ** 2, S, ()),
    "transpose": (lambda xp, x: x.T @ x, S, ()),
    "slicing": (lambda xp, x: x[1:] * x[:-1], V, ()),
    "two_axes": (lambda xp, x: x[:, 1:] * x[0, 0], S, ()),
    "integer_index": (lambda xp, x: x[[0, 2, 2]] ** 2, V, ()),
    "matmul": (lambda xp, x, w: xp.tanh(x @ w), S, (W,)),
    "matmul_vector": (lambda xp, x, w: w @ x[0, :2], S, (W,)),
    "einsum": (lambda xp, x, w: xp.einsum("ij,jk->ki", x, w) ** 2, S, (W,)),
    "outer": (lambda xp, x: xp.outer(x, x) ** 2, V, ()),
    "broadcast": (lambda xp, x: x * x[0], S, ()),
    "softmax": (softmax, V, ()),
    "loop": (loop, V, ()),
    "inv": (lambda xp, x, w: xp.linalg.inv(x @ w), S, (W,)),
    "det": (lambda xp, x, w: xp.linalg.det(x @ w), S, (W,)),
    "norm": (lambda xp, x: xp.linalg.norm(x), S, ()),
    "sigmoid": (lambda xp, x: 1 / (1 + xp.exp(-x)), V, ()),
}


def _weights(shape):
    return np.cos(np.arange(np.prod(shape, dtype=int)) / 2).reshape(shape)


def _of_torch(f, x, constants):
    leaf = torch.tensor(x, requires_grad=True)
    out = f(torch, leaf, *map(torch.tensor, constants))
    out.backward(torch.tensor(_weights(tuple(out.shape))))
    return out.detach().numpy(), leaf.grad.numpy()


@pytest.mark.parametrize("name", CASES)
def test_backward_agrees_with_torch(name):
    f, x, constants = CASES[name]
    value, gradient = _of_torch(f, x, constants)
    leaf = wg.tensor(x, requires_grad=True)
    out = f(wg.numpy, leaf, *constants)
    out.backward(_weights(out.shape))
    np.testing.assert_allclose(out.numpy(), value, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(leaf.grad, gradient, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_vjp_agrees_with_torch(name):
    f, x, constants = CASES[name]
    _, gradient = _of_torch(f, x, constants)
    out, pullback = wg.vjp(lambda x: f(wg.numpy, x, *constants), x)
    np.testing.assert_allclose(
        pullback(_weights(np.shape(out)))[0], gradient, rtol=1e-11, atol=1e-13
    )


# ---------------------------------------------------------------- define by run


def _both(x):
    return wg.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)


def _same(ours, theirs):
    np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-14)


def test_gradients_accumulate():
    ours, theirs = _both(V)
    for leaf in (ours, theirs):
        (leaf * leaf).sum().backward()
        (leaf**3).sum().backward()
    _same(ours.grad, theirs.grad)


def test_a_shared_value_collects_from_all_its_users():
    ours, theirs = _both(V)
    for leaf in (ours, theirs):
        y = leaf * 2
        (y * y + y).sum().backward()
    _same(ours.grad, theirs.grad)


def test_backward_with_a_seed():
    ours, theirs = _both(V)
    (ours**2).backward(P)
    (theirs**2).backward(torch.tensor(P))
    _same(ours.grad, theirs.grad)


def test_backward_of_an_array_asks_for_a_seed():
    ours, theirs = _both(V)
    with pytest.raises(RuntimeError, match="scalar outputs"):
        (theirs**2).backward()
    with pytest.raises(wg.errors.WengertError, match="seed"):
        (ours**2).backward()


def test_detach_cuts_the_derivative():
    ours, theirs = _both(V)
    for leaf in (ours, theirs):
        (leaf * leaf.detach()).sum().backward()
    _same(ours.grad, theirs.grad)


def test_no_grad_records_nothing():
    ours, theirs = _both(V)
    with wg.no_grad():
        mine = ours * 2
    with torch.no_grad():
        other = theirs * 2
    assert isinstance(mine, Tensor)
    assert mine.requires_grad is other.requires_grad is False


def test_a_constant_leaf_gets_no_gradient():
    ours, theirs = _both(V)
    constant, other = wg.tensor(P), torch.tensor(P)
    (ours * constant).sum().backward()
    (theirs * other).sum().backward()
    assert constant.grad is None and other.grad is None
    _same(ours.grad, theirs.grad)


def test_a_training_loop_takes_the_same_steps():
    ours, theirs = _both(W)
    for _ in range(5):
        loss = ((S @ ours) ** 2).mean()
        other = ((torch.tensor(S) @ theirs) ** 2).mean()
        assert float(loss.numpy()) == pytest.approx(float(other.detach()), rel=1e-13)
        loss.backward()
        other.backward()
        ours = wg.tensor(ours.numpy() - 0.1 * np.asarray(ours.grad), requires_grad=True)
        theirs = (theirs - 0.1 * theirs.grad).detach().requires_grad_(True)
    np.testing.assert_allclose(ours.numpy(), theirs.detach().numpy(), rtol=1e-12)
