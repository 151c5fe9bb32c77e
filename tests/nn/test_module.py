"""Modules: what they register, walk, print, store; their modes."""

import copy
import pickle

import numpy as np
import pytest

import wengert as wg
from wengert import nn
from wengert.errors import DTypeError, MutationError, ShapeError, StructureError
from wengert.nn.module import write

X = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)


class Cell(nn.Module):
    def __init__(self, size=3):
        self.size = size
        self.weight = nn.Parameter(np.eye(size), dtype=np.float32)
        self.register_buffer("seen", np.zeros(size, np.float32))
        self.register_buffer("scratch", np.zeros(2), persistent=False)

    def forward(self, x):
        y = x @ self.weight
        if self.training:
            write(self.seen, self.seen + y.sum(0))
        return y


class Net(nn.Module):
    def __init__(self):
        self.first = Cell()
        self.rest = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2, bias=False))

    def forward(self, x):
        return self.rest(self.first(x))


NAMES = ["first.weight", "rest.0.weight", "rest.0.bias", "rest.2.weight"]


# ---------------------------------------------------------------- what a module has


def test_names():
    net = Net()
    assert [name for name, _ in net.named_parameters()] == NAMES
    assert next(net.named_parameters("net"))[0] == "net.first.weight"
    assert list(net.parameters(recurse=False)) == []
    assert [name for name, _ in net.named_buffers()] == ["first.seen", "first.scratch"]
    assert len(list(net.buffers())) == 2
    assert [name for name, _ in net.named_children()] == ["first", "rest"]
    assert list(net.children()) == [net.first, net.rest]
    modules = ["", "first", "rest", "rest.0", "rest.1", "rest.2"]
    assert [name for name, _ in net.named_modules()] == modules
    assert len(list(net.modules())) == 6


def test_parameters_are_leaves_with_a_copy():
    data = np.zeros(2)
    parameter = nn.Parameter(data)
    data[0] = 7
    assert parameter.requires_grad and parameter.is_leaf and isinstance(parameter, wg.Tensor)
    assert parameter.numpy()[0] == 0
    assert not nn.Parameter(data, requires_grad=False).requires_grad
    assert type(parameter * 2) is wg.Tensor
    assert nn.Parameter(wg.tensor([1.0])).numpy() == [1.0]


def test_shared_modules_and_parameters_count_once():
    layer = nn.Linear(3, 3)
    net = nn.Sequential(layer, layer)
    net.register_module("tied", nn.Linear(3, 3))
    net.tied.weight = layer.weight
    assert [name for name, _ in net.named_parameters()] == ["0.weight", "0.bias", "tied.bias"]
    assert list(net.state_dict()) == [
        "0.weight", "0.bias", "1.weight", "1.bias", "tied.weight", "tied.bias",
    ]  # fmt: skip
    assert repr(net).startswith("Sequential") and "15 parameters" in repr(net)


def test_attributes_can_be_replaced_and_removed():
    cell = Cell()
    cell.weight = nn.Parameter(np.zeros((3, 3)))
    assert len(list(cell.parameters())) == 1
    cell.seen = np.ones(3)
    assert isinstance(cell.seen, wg.Tensor) and list(cell.state_dict()) == ["weight", "seen"]
    cell.seen = None
    assert list(cell.state_dict()) == ["weight"]
    cell.weight = None
    assert list(cell.parameters()) == []
    del cell.weight
    assert not hasattr(cell, "weight")
    cell.weight = 3
    assert cell.weight == 3


def test_register_parameter_and_module():
    module = nn.Module()
    module.register_parameter("w", nn.Parameter(np.zeros(1)))
    module.register_parameter("b", None)
    module.add_module("0", nn.ReLU())
    assert list(module.state_dict()) == ["w"] and module.b is None
    assert [name for name, _ in module.named_children()] == ["0"]


def test_apply_goes_from_the_inside_out():
    seen = []
    net = Net()
    assert net.apply(lambda module: seen.append(type(module).__name__)) is net
    assert seen[-1] == "Net" and sorted(seen[:3]) == ["Linear", "Linear", "Tanh"]


def test_deep_modules():
    """No recursion where a chain of modules is walked."""
    module = nn.Identity()
    for _ in range(3000):
        outer = nn.Module()
        outer.inner = module
        module = outer
    assert len(list(module.modules())) == 3001
    module.eval()
    assert len(module.state_dict()) == 0
    assert "Identity()" in repr(module)


def test_a_module_inside_itself():
    net = Net()
    net.rest.whole = net
    assert [name for name, _ in net.named_parameters()] == NAMES
    assert list(net.state_dict()) == ["first.weight", "first.seen", *NAMES[1:]]
    assert "33 parameters" in repr(net)
    gradient = wg.grad(lambda net: net.first(X).sum())(net)
    assert gradient.rest.whole is gradient


# ---------------------------------------------------------------- modes and gradients


def test_train_and_eval_reach_all_modules():
    net = Net()
    assert net.training and net.rest[1].training
    assert net.eval() is net
    assert not any(module.training for module in net.modules())
    net.train()
    assert all(module.training for module in net.modules())
    net.first.training = False
    assert not net.first.training and net.training


def test_compiled_functions_follow_the_mode():
    net = Net()
    run = wg.jit(lambda x: net(x))
    run(X)
    seen = net.first.seen.numpy().copy()
    assert seen.any()
    net.eval()
    for _ in range(2):
        run(X)
    np.testing.assert_array_equal(net.first.seen.numpy(), seen)
    net.train()
    run(X)
    np.testing.assert_allclose(net.first.seen.numpy(), 2 * seen, rtol=1e-6)


def test_the_mode_can_change_inside_a_compiled_function():
    net = Net()

    @wg.jit
    def validate(x):
        net.eval()
        result = net(x)
        net.train()
        return result

    for _ in range(3):
        validate(X)
        assert net.training and not net.first.seen.numpy().any()


def test_backward_and_zero_grad():
    net = Net()
    net(X).sum().backward()
    assert all(parameter.grad is not None for parameter in net.parameters())
    net.zero_grad()
    assert all(parameter.grad is None for parameter in net.parameters())


def test_compiled_methods_treat_the_module_as_state():
    class Trained(Net):
        @wg.jit
        def step(self, x):
            self.zero_grad()
            loss = (self(x) ** 2).sum()
            loss.backward()
            with wg.no_grad():
                for parameter in self.parameters():
                    parameter -= 0.01 * parameter.grad
            return loss

    net = Trained()
    losses = [float(net.step(X)) for _ in range(4)]
    assert losses == sorted(losses, reverse=True) and losses[0] > losses[-1]


def test_astype_keeps_ties():
    net = nn.Sequential(Cell(), nn.Linear(3, 3))
    net[1].weight = net[0].weight
    net[1].bias = nn.Parameter(np.zeros(3), requires_grad=False)
    assert net.astype(np.float64) is net
    assert net[1].weight is net[0].weight
    assert {array.dtype for array in net.state_dict().values()} == {np.dtype(np.float64)}
    assert isinstance(net[0].weight, nn.Parameter) and net[0].weight.requires_grad
    assert isinstance(net[1].bias, nn.Parameter) and not net[1].bias.requires_grad
    assert net(X.astype(np.float64)).dtype == np.float64


def test_copies_and_pickles_are_independent():
    net = Net().eval()
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert type(other.first.weight) is nn.Parameter and not other.training
        np.testing.assert_array_equal(net(X).numpy(), other(X).numpy())
        nn.init.zeros_(other.first.weight)
        other.train()
        assert net.first.weight.numpy().any() and not net.training
        assert list(other.state_dict()) == list(net.state_dict())


# ---------------------------------------------------------------- state dicts


def test_state_dict_round_trip():
    net, other = Net(), Net()
    net(X)
    state = net.state_dict()
    assert list(state) == ["first.weight", "first.seen", *NAMES[1:]]
    before = list(map(id, other.parameters()))
    assert other.load_state_dict(state) == ([], [])
    assert list(map(id, other.parameters())) == before
    np.testing.assert_array_equal(net.eval()(X).numpy(), other.eval()(X).numpy())
    state["first.weight"][:] = 0
    assert net.first.weight.numpy().any() and other.first.weight.numpy().any()


def test_loading_keeps_dtypes_and_reaches_compiled_programs():
    net = Net().eval()
    run = wg.jit(lambda x: net(x))
    run(X)
    net.load_state_dict({name: np.zeros(a.shape) for name, a in net.state_dict().items()})
    assert net.first.weight.dtype == np.float32
    assert not run(X).any()


def test_loading_what_fits():
    net = Net()
    found = net.load_state_dict({"first.weight": np.zeros((3, 3)), "other": 0}, strict=False)
    assert found.missing == ["first.seen", *NAMES[1:]] and found.unexpected == ["other"]
    assert not net.first.weight.numpy().any()


def test_nothing_is_written_when_a_shape_is_wrong():
    net = Net()
    state = {name: np.zeros_like(array) for name, array in net.state_dict().items()}
    state["rest.2.weight"] = np.zeros((4, 2))
    with pytest.raises(ShapeError) as caught:
        net.load_state_dict(state)
    assert str(caught.value).endswith(
        ": rest.2.weight has shape (4, 2), expected (2, 4). Build the module with the sizes that "
        "the state dict was made with."
    )
    assert net.first.weight.numpy().any()


# ---------------------------------------------------------------- printing


def test_printed_form():
    assert repr(Net()) == (
        "Net                                                    33 parameters\n"
        "  first: Cell()        weight f32[3,3]                  9\n"
        "  rest: Sequential\n"
        "    0: Linear(3, 4)    weight f32[4,3], bias f32[4]    16\n"
        "    1: Tanh()\n"
        "    2: Linear(4, 2)    weight f32[2,4]                  8"
    )
    assert repr(nn.ReLU()) == "ReLU()    0 parameters"


PRINTED = [
    (nn.Conv2d(1, 6, 3), "Conv2d(1, 6, kernel_size=3)"),
    (
        nn.Conv2d(2, 4, (3, 2), stride=2, padding="valid", groups=2),
        "Conv2d(2, 4, kernel_size=(3, 2), stride=2, padding='valid', groups=2)",
    ),
    (nn.ConvTranspose2d(1, 1, 2, 2, output_padding=1), "output_padding=1)"),
    (nn.MaxPool2d(3, stride=2, padding=1), "MaxPool2d(3, stride=2, padding=1)"),
    (nn.AvgPool2d(2, ceil_mode=True), "AvgPool2d(2, ceil_mode=True)"),
    (nn.Embedding(9, 2, padding_idx=0), "Embedding(9, 2, padding_idx=0)"),
    (nn.Flatten(0, 1), "Flatten(0, 1)"),
    (nn.GELU("tanh"), "GELU(approximate='tanh')"),
    (nn.LeakyReLU(), "LeakyReLU()"),
    (nn.Softmax(1), "Softmax(dim=1)"),
    (nn.Dropout(0.2), "Dropout(p=0.2)"),
    (nn.BatchNorm2d(3), "BatchNorm2d(3)"),
    (nn.LayerNorm((4, 5)), "LayerNorm(4, 5)"),
]


@pytest.mark.parametrize("module, text", PRINTED, ids=[text for _, text in PRINTED])
def test_layers_print_their_arguments(module, text):
    assert text in repr(module)


# ---------------------------------------------------------------- containers


def test_sequential():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    assert len(net) == 2 and net[-1] is list(net)[1]
    assert net.append(nn.Linear(4, 1)) is net
    assert [name for name, _ in net[1:].named_children()] == ["1", "2"]
    assert net[1:][1] is net[2]
    named = nn.Sequential({"inner": nn.Linear(3, 4), "act": nn.Tanh()})
    assert list(named.state_dict()) == ["inner.weight", "inner.bias"]
    np.testing.assert_array_equal(named(X).numpy(), np.tanh(named.inner(X)).numpy())


def test_module_list():
    layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(2)).extend([nn.ReLU()])
    assert len(layers) == 3 and next(iter(layers.state_dict())) == "0.weight"
    assert isinstance(layers[:2], nn.ModuleList)


# ---------------------------------------------------------------- errors


def test_errors():
    cell = Cell()
    with pytest.raises(DTypeError) as caught:
        cell.weight = np.zeros(3)
    assert str(caught.value).endswith(
        ": got ndarray for a parameter. Assign a parameter, or write into it: with wg.no_grad(): "
        "module.weight[...] = value"
    )
    with pytest.raises(StructureError) as caught:
        cell.register_buffer("a.b", np.zeros(1))
    assert str(caught.value).endswith(
        ": got 'a.b' as the name of a buffer. Use a name without a dot: dots separate the names in "
        "a state dict."
    )
    with pytest.raises(NotImplementedError) as caught:
        nn.Module()(1)
    assert str(caught.value).endswith(
        ": the module has no forward method. Define forward(self, x): it is what calling the "
        "module runs."
    )
    with pytest.raises(StructureError) as caught:
        cell.load_state_dict({"weight": np.eye(3), "bias": np.zeros(3)})
    assert str(caught.value).endswith(
        ": the state dict for Cell has no seen and has bias besides. Give one of the same network, "
        "or strict=False to load what fits."
    )
    with pytest.raises(MutationError) as caught:
        wg.vmap(cell)(X)
    assert str(caught.value).endswith(
        ": inside vmap and checkpoint the value has no number yet. Call eval() first, or keep the "
        "module outside of them."
    )


def test_layers_of_a_table_are_copied_and_pickled():
    model = nn.Sequential(
        nn.LeakyReLU(0.2), nn.MaxPool2d(2), nn.ZeroPad2d(1), nn.CrossEntropyLoss(np.ones(3))
    )
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert repr(other) == repr(model)
        assert [type(one) for one in other] == [type(one) for one in model]
        assert other[0].negative_slope == 0.2 and other[3].state_dict()["weight"].shape == (3,)
