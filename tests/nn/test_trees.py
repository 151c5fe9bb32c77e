"""Modules as trees: gradients shaped like the module, compiled functions of a module, vmap."""

import numpy as np
import pytest

import wengert as wg
from wengert import nn, tree
from wengert.errors import StructureError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((6, 3)).astype(np.float32)
Y = RNG.integers(0, 2, 6)


def network():
    nn.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2))


def loss(model, x=X, y=Y):
    return nn.cross_entropy(model(x), y)


def defined_by_run(model):
    model.zero_grad()
    value = loss(model)
    value.backward()
    return value, {name: p.grad.numpy() for name, p in model.named_parameters()}


@pytest.mark.parametrize("way", [lambda f: f, wg.jit], ids=["evaluated", "compiled"])
def test_gradient_has_the_shape_of_the_module(way):
    model = network()
    wanted, gradients = defined_by_run(model)
    value, gradient = way(wg.value_and_grad(loss))(model)
    assert type(gradient) is nn.Sequential and type(value) is np.float32
    np.testing.assert_allclose(value, wanted.numpy(), rtol=1e-6)
    found = dict(gradient.named_parameters())
    assert list(found) == list(gradients)
    for name, array in found.items():
        assert type(array) is np.ndarray
        np.testing.assert_allclose(array, gradients[name], rtol=1e-4, atol=1e-7)


def test_buffers_are_updated_by_the_functional_way():
    one, other, third = network(), network(), network()
    loss(one)
    wg.grad(loss)(other)
    wg.jit(wg.grad(loss))(third)
    for model in (other, third):
        assert model[1].num_batches_tracked.item() == 1
        np.testing.assert_allclose(
            one[1].running_mean.numpy(), model[1].running_mean.numpy(), rtol=1e-5
        )


def test_compiled_functions_of_a_module():
    model = network().eval()
    run = wg.jit(lambda model, x: model(x))
    np.testing.assert_allclose(run(model, X), model(X).numpy(), rtol=1e-5)
    nn.init.zeros_(model[3].weight)
    np.testing.assert_allclose(run(model, X), model(X).numpy(), rtol=1e-5)
    assert "1 program" in repr(run)  # other values: the same program
    model.train()
    run(model, X)
    assert "2 programs" in repr(run) and model[1].num_batches_tracked.item() == 1
    other = network()  # its buffers are other memory
    run(other, X)
    assert other[1].num_batches_tracked.item() == 1


def test_captured_module_in_a_compiled_gradient():
    model = network().eval()
    gradient = wg.jit(lambda x: wg.grad(lambda model: loss(model, x))(model))
    for _ in range(2):
        found = gradient(X)[0].weight
        np.testing.assert_allclose(found, wg.grad(loss)(model)[0].weight, rtol=1e-4, atol=1e-7)
        nn.init.ones_(model[0].weight)


def test_tied_weights_have_one_gradient():
    tied = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    tied[1].weight = tied[0].weight
    gradient = wg.grad(lambda model: model(X).sum())(tied)
    assert gradient[0].weight is gradient[1].weight
    tied(X).sum().backward()
    np.testing.assert_allclose(gradient[0].weight, tied[0].weight.grad.numpy(), rtol=1e-5)


@pytest.mark.parametrize("way", [lambda f: f, wg.jit], ids=["evaluated", "compiled"])
def test_parameters_with_the_same_gradient_are_not_tied(way):
    cell = nn.RNNCell(3, 4)  # of which two biases are added
    gradient = way(wg.grad(lambda cell: np.sum(cell(X) ** 2)))(cell)
    assert [name for name, _ in gradient.named_parameters()] == list(cell.state_dict())
    gradient.bias_ih[...] += 1.0
    assert not np.array_equal(gradient.bias_ih, gradient.bias_hh)


def test_descent_by_tree_map():
    model = network()
    first = float(loss(model))
    for _ in range(30):
        gradient = wg.grad(loss)(model)
        model = tree.map(lambda p, g: p - 0.5 * g, model, gradient)
    assert float(loss(model)) < first / 2
    trained = network()
    trained.load_state_dict(model.state_dict())
    assert float(loss(trained)) == float(loss(model))
    model.zero_grad()
    moments = tree.map(lambda p: (p, p), model)  # any tree in the place of a parameter
    assert len(tree.leaves(moments)) == 2 * len(tree.leaves(model))


def test_per_sample_gradients():
    model = network().eval()
    each = wg.vmap(wg.grad(loss), in_axes=(None, 0, 0))(model, X[:, None], Y[:, None])
    assert each[0].weight.shape == (6, 4, 3)
    whole = wg.grad(loss)(model)
    np.testing.assert_allclose(each[0].weight.mean(0), whole[0].weight, rtol=1e-3, atol=1e-6)


def test_ensembles_by_vmap():
    models = [nn.Linear(3, 2) for _ in range(4)]
    stacked = tree.map(lambda *ps: np.stack(ps), *models)
    together = wg.vmap(lambda model: model(X))(stacked)
    for model, found in zip(models, together, strict=True):
        np.testing.assert_allclose(found, model(X).numpy(), rtol=1e-5, atol=1e-6)


def test_second_derivatives():
    model = nn.Sequential(nn.Linear(3, 2, dtype=np.float64), nn.Tanh())
    x = X.astype(np.float64)

    def value(model):
        return (model(x) ** 2).sum()

    direction = tree.map(np.ones_like, wg.grad(value)(model))
    product = wg.jvp(wg.grad(value), (model,), (direction,))[1]
    step = 1e-6
    ahead, behind = (
        wg.grad(value)(tree.map(lambda p, d, s=s: p + s * d, model, direction))
        for s in (step, -step)
    )
    numeric = (ahead[0].weight - behind[0].weight) / (2 * step)
    np.testing.assert_allclose(product[0].weight, numeric, rtol=1e-6)


def test_structures():
    model = network()
    structure = tree.flatten(model)[1]
    assert structure == tree.flatten(model)[1]
    assert "weight *, bias *" in repr(structure)
    assert structure != tree.flatten(network())[1]  # other buffers
    assert tree.flatten(nn.Linear(3, 2))[1] == tree.flatten(nn.Linear(3, 2))[1]
    for other in (nn.Linear(2, 3), nn.Linear(3, 2, bias=False), nn.Linear(3, 2).eval()):
        assert tree.flatten(nn.Linear(3, 2))[1] != tree.flatten(other)[1]
    with pytest.raises(StructureError):
        tree.map(lambda a, b: a, nn.Linear(3, 2), nn.Linear(2, 3))


def test_attributes_of_any_kind():
    class Odd(nn.Module):
        def __init__(self):
            self.weight = nn.Parameter(np.ones(2))
            self.table = np.arange(2.0)
            self.names = ["a"]
            self.pairs = [(np.zeros(2), 1)]

    odd = Odd()
    before = tree.flatten(odd)[1]
    assert before == tree.flatten(odd)[1]
    rebuilt = tree.map(lambda p: p, odd)
    assert rebuilt.names == ["a"] and rebuilt.names is not odd.names
    odd.names.append("b")
    assert before != tree.flatten(odd)[1]
    assert before == tree.flatten(Odd())[1]
    other = Odd()
    other.table[0] = 5
    assert before != tree.flatten(other)[1]
