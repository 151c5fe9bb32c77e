"""Where functions have a kink, and what is no number: values and derivatives beside PyTorch's."""

import numpy as np
import pytest

import wengert as wg
from wengert.nn import functional

torch = pytest.importorskip("torch")

POINTS = np.array([-6.0, -3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0, 6.0, np.nan, np.inf, -np.inf])
ACTIVATIONS = {
    "celu": (),
    "elu": (),
    "hardshrink": (),
    "hardsigmoid": (),
    "hardswish": (),
    "hardtanh": (),
    "leaky_relu": (),
    "logsigmoid": (),
    "relu": (),
    "relu6": (),
    "selu": (),
    "sigmoid": (),
    "silu": (),
    "softshrink": (),
    "softsign": (),
    "tanh": (),
    "tanhshrink": (),
    "threshold": (0.5, -2.0),
}
# where PyTorch's own formulas give no number, and ours the limit
LIMITS = {"silu": [-np.inf], "softsign": [np.inf, -np.inf]}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name):
    arguments = ACTIVATIONS[name]
    points = POINTS[~np.isin(POINTS, LIMITS.get(name, []))]
    leaf = torch.tensor(points, requires_grad=True)
    wanted = getattr(torch.nn.functional, name)(leaf, *arguments)
    wanted.sum().backward()

    def run(x):
        found, pullback = wg.vjp(lambda x: getattr(functional, name)(x, *arguments), x)
        return found, pullback(np.ones_like(x))[0]

    for way in (run, wg.jit(run)):
        with np.errstate(invalid="ignore"):
            found, gradient = way(points)
        np.testing.assert_allclose(found, wanted.detach().numpy(), rtol=1e-12, atol=1e-15)
        kinks = np.isfinite(points)
        # PyTorch's 1/6 is one of single precision
        slack = 1e-7 if name == "hardsigmoid" else 1e-12
        np.testing.assert_allclose(gradient[kinks], leaf.grad.numpy()[kinks], slack, 1e-15)


MARGINS = [
    ("margin_ranking_loss", (np.zeros(3), np.array([-1.0, 0.0, 1.0]), np.ones(3)), {}),
    ("hinge_embedding_loss", (np.array([1.0, 0.0, 2.0]), np.array([-1, -1, 1])), {}),
    ("multi_margin_loss", (np.array([[1.0, 0.0, 2.0]]), np.array([0])), {}),
    ("multilabel_margin_loss", (np.array([1.0, 0.0, 2.0]), np.array([0, -1, 0])), {}),
    ("smooth_l1_loss", (np.array([1.0, 0.0, -1.0]), np.zeros(3)), {}),
    ("huber_loss", (np.array([1.0, 0.0, -1.0]), np.zeros(3)), {}),
    ("l1_loss", (np.array([1.0, 0.0, -1.0]), np.zeros(3)), {}),
]


@pytest.mark.parametrize("name, arguments, options", MARGINS, ids=[name for name, *_ in MARGINS])
def test_losses_at_their_margins(name, arguments, options):
    x, *others = arguments
    leaf = torch.tensor(x, requires_grad=True)
    getattr(torch.nn.functional, name)(leaf, *map(torch.tensor, others), **options).backward()
    gradient = wg.grad(lambda x: getattr(functional, name)(x, *others, **options))(x)
    np.testing.assert_allclose(gradient, leaf.grad.numpy(), rtol=1e-12)


def test_what_is_no_number_stays_none():
    bad = np.array([[np.nan, 0.5, 0.5]])
    assert np.isnan(functional.binary_cross_entropy(bad, np.zeros((1, 3))))
    assert np.isnan(functional.lp_pool1d(bad, 2, 3)).all()
    assert np.isnan(functional.max_pool1d(bad, 3)).all()
    assert np.isnan(functional.adaptive_max_pool1d(bad, 2)[0, 0])
    probabilities = np.broadcast_to(bad, (4, 1, 3))
    with np.errstate(invalid="ignore"):
        assert np.isnan(functional.ctc_loss(probabilities, np.array([[1]]), [4], [1]))
