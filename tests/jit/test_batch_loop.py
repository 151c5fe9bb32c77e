"""The batch loop: compiled networks beside evaluated ones.

Random networks (layers, channels, kernels, strides, padding, dilation, groups, pooling,
activations, losses, any batch size) are trained for a few steps in both ways. Set
WENGERT_RANDOM_NETWORKS to run more of them (marked slow), WENGERT_RANDOM_SEED to run others.
"""

import os

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert import machine, nn, optim


@pytest.fixture(autouse=True, params=["lanes", "channels"])
def any_size(request, monkeypatch):
    """Regions however small they are, with one lane a sample and with one lane a channel."""
    monkeypatch.setenv("WENGERT_CACHE", "off")
    wg.clear_cache()
    small = {"layouts": (request.param,), "least_work": 0, "shortest": 2}
    with machine.use(regions=small, times={"apart": 1e9}):
        yield


ACTIVATIONS = [nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU]


def random_network(rng):
    """Layers that fit together, and the shape of a sample."""
    channels, size = int(rng.integers(1, 4)), int(rng.integers(7, 13))
    shape = (channels, size, size)
    layers = []
    for _ in range(rng.integers(1, 3)):
        layer, channels, size = random_convolution(rng, channels, size)
        layers += [layer, ACTIVATIONS[rng.integers(len(ACTIVATIONS))]()]
        if size >= 4 and rng.random() < 0.6:
            pool = nn.MaxPool2d if rng.random() < 0.7 else nn.AvgPool2d
            layers.append(pool(2))
            size //= 2
    width = int(rng.integers(2, 40))
    layers += [nn.Flatten(), nn.Linear(channels * size * size, width)]
    layers += [ACTIVATIONS[rng.integers(len(ACTIVATIONS))](), nn.Linear(width, 5)]
    return nn.Sequential(*layers), shape


def random_convolution(rng, channels, size):
    groups = channels if rng.random() < 0.2 else 1
    out = groups * int(rng.integers(1, 9))
    kernel = int(rng.integers(1, 4))
    padding, dilation = int(rng.integers(0, 3)), int(rng.integers(1, 3))
    stride = int(rng.integers(1, 3))
    after = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    if after < 2:
        return nn.Conv2d(channels, out, 1, groups=groups), out, size
    layer = nn.Conv2d(
        channels, out, kernel, stride=stride, padding=padding, dilation=dilation, groups=groups
    )
    return layer, out, after


LOSSES = {
    "cross_entropy": lambda out, y: nn.cross_entropy(out, y),
    "mse": lambda out, y: nn.mse_loss(out, wnp.cos(wnp.arange(5.0, dtype=np.float32)) + y[:, None]),
    "sum": lambda out, y: wnp.sum(wnp.tanh(out) ** 2) / 7,
}


def trained(seed, compile_it, steps=5):
    """Losses and parameters after some steps; the same network for the same seed."""
    rng = np.random.default_rng(seed)
    nn.manual_seed(seed)
    model, shape = random_network(rng)
    batch = int(rng.choice([1, 2, 15, 16, 17, 31, 48, 100, 300]))
    loss_of = LOSSES[sorted(LOSSES)[rng.integers(len(LOSSES))]]
    make = [
        lambda p: optim.SGD(p, lr=0.05),
        lambda p: optim.SGD(p, lr=0.02, momentum=0.9, nesterov=True),
        lambda p: optim.Adam(p, lr=0.003),
    ][rng.integers(3)]
    optimizer = make(model.parameters())

    def step(x, y):
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = wg.jit(step) if compile_it else step
    losses = []
    for _ in range(steps):
        x = rng.normal(size=(batch, *shape)).astype(np.float32)
        y = rng.integers(0, 5, size=batch)
        losses.append(float(run(x, y)))
    return losses, [p.numpy().copy() for p in model.parameters()]


def compare(seed):
    losses, parameters = trained(seed, compile_it=True)
    wanted, expected = trained(seed, compile_it=False)
    np.testing.assert_allclose(losses, wanted, rtol=2e-4, atol=2e-6, err_msg=f"seed {seed}")
    for got, want in zip(parameters, expected, strict=True):
        scale = np.abs(want).max() + 1e-3
        np.testing.assert_allclose(got / scale, want / scale, atol=2e-4, err_msg=f"seed {seed}")


@pytest.mark.parametrize("seed", range(4))
def test_random_networks(seed):
    compare(seed)


@pytest.mark.slow
def test_many_random_networks():
    first = int(os.environ.get("WENGERT_RANDOM_SEED", "1000"))
    for seed in range(first, first + int(os.environ.get("WENGERT_RANDOM_NETWORKS", "12"))):
        compare(seed)


def small_step(n=37):
    rng = np.random.default_rng(n)
    x = rng.normal(size=(n, 9)).astype(np.float32)
    y = rng.integers(0, 4, size=n)
    w = rng.normal(size=(9, 12)).astype(np.float32)
    v = rng.normal(size=(12, 4)).astype(np.float32)

    def loss(x, w, v):
        return nn.cross_entropy(wnp.tanh(x @ w) @ v, y)

    return loss, (x, w, v)


@pytest.mark.parametrize("n", [2, 15, 16, 17, 33, 100])
def test_any_batch_size(n):
    loss, arguments = small_step(n)
    step = wg.value_and_grad(loss, argnums=(0, 1, 2))
    value, gradients = wg.jit(step)(*arguments)
    expected, wanted = step(*arguments)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    for got, want in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


def test_the_same_bits_for_any_number_of_threads():
    loss, arguments = small_step(300)
    found = []
    for threads in (1, 2, 3, 8):
        step = wg.jit(wg.value_and_grad(loss, argnums=(0, 1, 2)), threads=threads)
        value, gradients = step(*arguments)
        found.append([np.asarray(value), *gradients])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            assert a.tobytes() == b.tobytes()


def test_samples_that_are_not_finite_stay_apart():
    """A bad sample spoils its own gradient and the sums, and nothing else."""
    _, (x, w, v) = small_step(37)
    x[3] = np.nan
    gradient = wg.jit(wg.grad(lambda x: wnp.sum(wnp.tanh(x @ w) @ v)))(x)
    assert np.isnan(gradient[3]).all()
    assert np.isfinite(np.delete(gradient, 3, axis=0)).all()


def test_bad_labels_raise_and_leave_the_state_as_it_was():
    model = nn.Linear(6, 3)
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    @wg.jit
    def step(x, y):
        optimizer.zero_grad()
        loss = nn.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    x = np.ones((40, 6), np.float32)
    y = np.zeros(40, int)
    step(x, y)
    before = model.weight.numpy().copy()
    y[37] = 3
    with pytest.raises(IndexError):
        step(x, y)
    np.testing.assert_array_equal(model.weight.numpy(), before)


def test_per_sample_gradients():
    _, (x, w, _) = small_step(37)
    per_sample = wg.vmap(wg.grad(lambda x, w: wnp.sum(wnp.tanh(x @ w))), in_axes=(0, None))
    np.testing.assert_allclose(wg.jit(per_sample)(x, w), per_sample(x, w), rtol=1e-5, atol=1e-6)
