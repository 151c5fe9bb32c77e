"""What all optimizers share: groups, options, state, and compiling."""

import copy

import numpy as np
import pytest

import wengert as wg
from wengert import nn, optim
from wengert.errors import DTypeError, MutationError, OptionError, ShapeError, StructureError

X = np.random.default_rng(5).standard_normal((6, 3))
ALL = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("Adam", {"lr": 0.1, "amsgrad": True, "weight_decay": 0.1}),
    ("AdamW", {"lr": 0.1, "maximize": True}),
    ("RMSprop", {"lr": 0.1, "momentum": 0.5, "centered": True}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1}),
    ("Adadelta", {"lr": 0.5, "rho": 0.8, "eps": 1e-3}),
    ("Adamax", {"lr": 0.05, "weight_decay": 0.1}),
    ("NAdam", {"lr": 0.05, "momentum_decay": 0.1}),
    ("RAdam", {"lr": 0.05, "betas": (0.8, 0.5)}),
    ("ASGD", {"lr": 0.05, "t0": 2}),
    ("Rprop", {"lr": 0.1}),
    ("Adafactor", {"lr": 0.1, "weight_decay": 0.1}),
]
IDS = ["-".join([name, *options]) for name, options in ALL]


def parameters(dtype=np.float64):
    rng = np.random.default_rng(1)
    return [
        wg.tensor(rng.standard_normal(shape), requires_grad=True, dtype=dtype)
        for shape in [(3, 4), (4,), ()]
    ]


def loss_of(params, x):
    w, b, c = params
    return np.sum(np.tanh(x @ w + b) * c)


def step_of(optimizer, params):
    def step(x):
        optimizer.zero_grad()
        loss = loss_of(params, x)
        loss.backward()
        optimizer.step()
        return loss

    return step


def assert_same(params, others, **tolerance):
    for p, q in zip(params, others, strict=True):
        np.testing.assert_allclose(p.numpy(), q.numpy(), **(tolerance or {"rtol": 1e-12}))


# ---------------------------------------------------------------- steps


@pytest.mark.parametrize(("name", "options"), ALL, ids=IDS)
def test_compiled_steps_are_the_evaluated_ones(name, options):
    own, others = parameters(), parameters()
    compiled = getattr(optim, name)(own, **options)
    evaluated = getattr(optim, name)(others, **options)
    step, plain = wg.jit(step_of(compiled, own)), step_of(evaluated, others)
    for number in range(5):
        (step_of(compiled, own) if number == 3 else step)(X)
        plain(X)
        assert_same(own, others, rtol=1e-10)
    for state, other in zip(compiled.state, evaluated.state, strict=True):
        assert list(state) == list(other)
        assert_same(state.values(), other.values(), rtol=1e-10)
    written = [state for state in step.program(X).state if state.written]
    if name == "ASGD":  # whose rates of the next step are single numbers, known before they are due
        written = [state for state in written if state.cell.memory.ndim]
    assert written and all(state.scratch is None for state in written)  # all of it in place


def test_sgd_in_numbers():
    w = wg.tensor(np.array([4.0, -2.0]), requires_grad=True)
    optimizer = optim.SGD([w], lr=0.5, momentum=0.5, dampening=0.5, weight_decay=0.25)
    w.grad = np.array([1.0, 0.0])
    optimizer.step()  # gradient + decay = 2, -0.5; the first is not dampened
    np.testing.assert_array_equal(w.numpy(), [3.0, -1.75])
    optimizer.step()  # 1.75, -0.4375; velocity 0.5 * (2, -0.5) + 0.5 * that = 1.875, -0.46875
    np.testing.assert_array_equal(w.numpy(), [2.0625, -1.515625])


def test_what_was_computed_before_a_step_keeps_its_numbers():
    w = wg.tensor([3.0], requires_grad=True)
    optimizer = optim.SGD([w], lr=1.0)
    early = w * w
    w.grad = np.array([1.0])
    optimizer.step()
    w.zero_grad()
    early.sum().backward()
    np.testing.assert_array_equal(w.numpy(), [2.0])
    np.testing.assert_array_equal(w.grad.numpy(), [6.0])


def test_parameters_without_gradient_stay():
    one, two = (wg.tensor([1.0], requires_grad=True) for _ in range(2))
    optimizer = optim.Adam([one, two], lr=0.1)
    one.grad = np.array([2.0])
    optimizer.step()
    optimizer.step()
    assert two.item() == 1.0
    two.grad = np.array([2.0])
    optimizer.step()
    np.testing.assert_allclose(two.numpy(), [0.9])  # its first step is corrected as a first step
    np.testing.assert_array_equal(optimizer.param_groups[0].steps.numpy(), [3.0, 1.0])


def test_no_gradients_at_all():
    (w, _, _) = params = parameters()
    before = w.numpy().copy()
    optim.Adam(params).step()
    np.testing.assert_array_equal(w.numpy(), before)


def test_a_compiled_step_for_each_set_of_gradients():
    one, two = (wg.tensor([1.0], requires_grad=True) for _ in range(2))
    optimizer = optim.Adam([one, two], lr=0.1)

    @wg.jit
    def step():
        optimizer.step()

    one.grad = np.array([2.0])
    step()
    step()
    two.grad = np.array([2.0])
    step()
    np.testing.assert_allclose(one.numpy(), [0.7])
    np.testing.assert_allclose(two.numpy(), [0.9])
    assert repr(step) == "<jit of step, 2 programs>"


def test_closure():
    w = wg.tensor([2.0], requires_grad=True)
    optimizer = optim.SGD([w], lr=0.25)

    def closure():
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 4.0
    np.testing.assert_array_equal(w.numpy(), [1.0])


def test_zero_grad():
    w, v = (wg.tensor(np.ones(2, np.float32), requires_grad=True) for _ in range(2))
    optimizer = optim.SGD([w, v])
    w.grad = np.ones(2, np.float32)
    optimizer.zero_grad(set_to_none=False)
    np.testing.assert_array_equal(w.grad.numpy(), [0.0, 0.0])
    assert w.grad.dtype == np.float32 and v.grad is None
    optimizer.zero_grad()
    assert w.grad is None


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_dtypes_are_kept(dtype):
    params = parameters(dtype)
    optimizer = optim.AdamW(params, amsgrad=True)
    for p in params:
        p.grad = np.ones(p.shape, dtype)
    optimizer.step()
    assert all(p.dtype == dtype for p in params)
    assert all(t.dtype == dtype for state in optimizer.state for t in state.values())


def test_a_module():
    class Line(nn.Module):
        def __init__(self):
            self.slope, self.offset = nn.Parameter([0.0]), nn.Parameter([0.0])

        def forward(self, x):
            return x * self.slope + self.offset

    model = Line()
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    x = np.linspace(-1, 1, 11)

    @wg.jit
    def step(x, y):
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(300):
        loss = step(x, 2 * x + 1)
    assert float(loss) < 1e-6
    np.testing.assert_allclose([model.slope.item(), model.offset.item()], [2.0, 1.0], atol=1e-2)


# ---------------------------------------------------------------- options


def test_options_change_between_calls_without_compiling():
    params, others = parameters(), parameters()
    options = {"lr": 0.1, "betas": (0.9, 0.99), "weight_decay": 0.1}
    compiled, evaluated = optim.Adam(params, **options), optim.Adam(others, **options)
    step, plain = wg.jit(step_of(compiled, params)), step_of(evaluated, others)
    changes = [("lr", 0.5), ("betas", (0.5, 0.7)), ("eps", 0.1), ("weight_decay", 0.7)]
    for name, value in changes:
        step(X)
        plain(X)
        for optimizer in (compiled, evaluated):
            optimizer.param_groups[0][name] = value
        assert compiled.param_groups[0][name] == value
    step(X)
    plain(X)
    assert_same(params, others, rtol=1e-10)
    assert repr(step) == "<jit of step, 1 program>"


def test_what_is_turned_on_is_compiled_once():
    params, others = parameters(), parameters()
    compiled, evaluated = optim.SGD(params, lr=0.1), optim.SGD(others, lr=0.1)
    step, plain = wg.jit(step_of(compiled, params)), step_of(evaluated, others)
    for momentum in (0.0, 0.9, 0.5, 0.0, 0.9):
        for optimizer in (compiled, evaluated):
            optimizer.param_groups[0]["momentum"] = momentum
        for _ in range(2):
            step(X)
            plain(X)
        assert_same(params, others, rtol=1e-10)
    assert repr(step) == "<jit of step, 2 programs>"
    compiled.param_groups[0]["maximize"] = evaluated.param_groups[0]["maximize"] = True
    step(X)
    plain(X)
    assert_same(params, others, rtol=1e-10)


def test_lr_of_all_groups():
    a, b, c = parameters()
    optimizer = optim.SGD([{"params": a}, {"params": [b, c], "lr": 0.5}], lr=0.1)
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.5]
    assert optimizer.lr == 0.1
    optimizer.lr = 0.2
    assert [group["lr"] for group in optimizer.param_groups] == [0.2, 0.2]


def test_the_learning_rate_may_change_inside():
    w = wg.tensor([8.0], requires_grad=True)
    optimizer = optim.SGD([w], lr=1.0)

    @wg.jit
    def step():
        w.grad = np.ones(1)
        optimizer.step()
        optimizer.param_groups[0]["lr"] = optimizer.param_groups[0]["lr"] * 0.5

    for _ in range(3):
        step()
    np.testing.assert_array_equal(w.numpy(), [8.0 - 1.75])
    assert optimizer.lr == 0.125


@pytest.mark.parametrize(("name", "value"), [("maximize", True), ("momentum", 0.5)])
def test_nothing_is_turned_on_inside(name, value):
    optimizer = optim.SGD(parameters(), lr=1.0)

    def change():
        optimizer.param_groups[0][name] = value

    with pytest.raises(MutationError) as caught:
        wg.jit(change)()
    assert str(caught.value).endswith(
        ": inside jit, the option would be turned on or off. "
        "Assign to it outside of the compiled function."
    )
    assert not optimizer.param_groups[0].on(name)


def test_groups_are_dictionaries():
    a, b, c = parameters()
    optimizer = optim.Adam([a, b], lr=0.1)
    optimizer.add_param_group({"params": [c], "betas": [0.8, 0.9]})
    first, second = optimizer.param_groups
    assert list(first) == [
        *("params", "lr", "betas", "eps", "weight_decay"),
        *("amsgrad", "maximize", "decoupled_weight_decay"),
    ]
    assert len(first) == 8
    assert first["params"][1] is b and second["params"][0] is c
    assert first["betas"] == (0.9, 0.999) and second["betas"] == (0.8, 0.9)
    assert second.get("nothing", 3) == 3
    second["label"] = "scales"
    assert second["label"] == "scales"
    del second["label"]
    with pytest.raises(KeyError):
        del second["lr"]
    assert repr(optim.SGD([a], lr=0.1)) == (
        "SGD(\n  group 0: 1 tensors, 12 numbers; lr=0.1, momentum=0.0, dampening=0.0, "
        "weight_decay=0.0, nesterov=False, maximize=False\n)"
    )


# ---------------------------------------------------------------- state


@pytest.mark.parametrize(("name", "options"), ALL, ids=IDS)
def test_training_goes_on_from_a_state_dict(name, options):
    params = parameters()
    optimizer = getattr(optim, name)(params, **options)
    step = step_of(optimizer, params)
    for _ in range(3):
        step(X)
    optimizer.lr = 0.05
    saved = copy.deepcopy(optimizer.state_dict())
    others = [wg.tensor(p.numpy(), requires_grad=True) for p in params]
    restored = getattr(optim, name)(others, lr=1.0)
    compiled = wg.jit(step_of(restored, others))
    compiled(X)  # state that a program shares is loaded in place
    for p, q in zip(params, others, strict=True):
        with wg.no_grad():
            q[...] = p.numpy()
    restored.load_state_dict(saved)
    assert restored.lr == 0.05
    for _ in range(2):
        step(X)
        compiled(X)
    assert_same(params, others, rtol=1e-10)


def test_a_state_dict_is_a_copy():
    params = parameters()
    optimizer = optim.Adam(params)
    step_of(optimizer, params)(X)
    saved = optimizer.state_dict()
    before = saved["state"][0]["exp_avg"].copy()
    step_of(optimizer, params)(X)
    np.testing.assert_array_equal(saved["state"][0]["exp_avg"], before)
    assert saved["state"][2]["step"] == 1.0
    assert saved["param_groups"][0]["params"] == [0, 1, 2]
    assert saved["param_groups"][0]["betas"] == (0.9, 0.999)


def test_state_dicts_that_do_not_fit():
    a, b, c = parameters()
    saved = optim.Adam([a, b]).state_dict()
    with pytest.raises(StructureError) as caught:
        optim.Adam([a, b, c]).load_state_dict(saved)
    assert str(caught.value).endswith(
        ": got groups of [2] parameters, expected [3]. "
        "Make the optimizer with the same groups as the one that was saved."
    )
    swapped = optim.Adam([b, a], lr=0.7)
    with pytest.raises(ShapeError) as caught:
        swapped.load_state_dict(saved)
    assert swapped.lr == 0.7  # nothing is loaded in part
    assert str(caught.value).endswith(
        ": exp_avg of parameter 0 has shape (3, 4), expected (4,). "
        "Load the state of an optimizer of the same model."
    )


def test_a_copy_has_state_of_its_own():
    params = parameters()
    optimizer = optim.Adam(params, lr=0.1)
    step_of(optimizer, params)(X)
    others, other = copy.deepcopy((params, optimizer))
    assert other.param_groups[0].params[0] is others[0]
    before = [p.numpy().copy() for p in params]
    wg.jit(step_of(other, others))(X)
    for p, old in zip(params, before, strict=True):
        np.testing.assert_array_equal(p.numpy(), old)
    step_of(optimizer, params)(X)
    assert_same(params, others, rtol=1e-10)


def test_a_learning_rate_may_be_a_tensor():
    assert optim.SGD(parameters(), lr=wg.tensor(0.25)).lr == 0.25


# ---------------------------------------------------------------- errors


def refused(error, text, make):
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value).split(": ", 1)[1] == text


def test_parameters_that_are_refused():
    w = wg.tensor([1.0], requires_grad=True)
    give = "Give each of the tensors made with requires_grad=True once."
    refused(DTypeError, f"parameter 1 is there twice. {give}", lambda: optim.SGD([w, w]))
    refused(
        DTypeError,
        f"parameter 0 is ndarray, expected a tensor. {give}",
        lambda: optim.SGD([np.ones(2)]),
    )
    not_leaf = f"parameter 0 is not a leaf that requires a gradient. {give}"
    refused(DTypeError, not_leaf, lambda: optim.SGD([w * 2]))
    refused(DTypeError, not_leaf, lambda: optim.SGD([wg.tensor([1.0])]))
    refused(
        DTypeError,
        f"parameter 0 is of complex128, expected a real dtype. {give}",
        lambda: optim.SGD([wg.tensor([1j], requires_grad=True)]),
    )
    refused(
        DTypeError,
        "got Tensor as parameters, expected several tensors or dicts. "
        "Give a list: [w], or model.parameters().",
        lambda: optim.SGD(w),
    )
    refused(
        StructureError,
        "got no parameters. Give tensors with requires_grad=True: model.parameters().",
        lambda: optim.SGD([]),
    )


def test_options_that_are_refused():
    w = wg.tensor([1.0], requires_grad=True)
    refused(
        OptionError,
        "lr=-1, expected a number at least 0. Choose another.",
        lambda: optim.SGD([w], lr=-1),
    )
    refused(
        OptionError,
        "betas[1]=1.0, expected a number in [0, 1). Choose another.",
        lambda: optim.Adam([w], betas=(0.9, 1.0)),
    )
    refused(
        OptionError,
        "nesterov=True with momentum=0 and dampening=0. "
        "Nesterov's step needs a momentum above zero and no dampening.",
        lambda: optim.SGD([w], nesterov=True),
    )
    names = "lr, momentum, dampening, weight_decay, nesterov, maximize"
    refused(
        StructureError,
        f"""add_param_group (at {__file__.split("/")[-1]}:LINE): got the option 'lt'. """
        f'Give {{"params": [...]}} with any of {names}.',
        lambda: _without_line(lambda: optim.SGD([{"params": [w], "lt": 1.0}])),
    )


def _without_line(make):
    import re

    try:
        make()
    except StructureError as error:
        raise StructureError(re.sub(r":\d+\)", ":LINE)", str(error))) from None


def test_assignments_that_are_refused():
    group = optim.Adam([wg.tensor([1.0], requires_grad=True)]).param_groups[0]
    with pytest.raises(DTypeError, match=r"got 0\.9, expected 2 numbers\. Assign floats\."):
        group["betas"] = 0.9
    with pytest.raises(DTypeError, match=r"got 'fast', expected a number\. Assign floats\."):
        group["lr"] = "fast"
    with pytest.raises(StructureError, match="the parameters of a group are fixed"):
        group["params"] = []


# ---------------------------------------------------------------- a rule of one's own


def test_a_rule_of_ones_own():
    class SignDescent(optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, lr=lr)

        def update(self, p, g, kept, n, group):
            return p - n.lr * np.sign(g)

    w = wg.tensor([1.0, -1.0], requires_grad=True)
    optimizer = SignDescent([w], lr=0.25)

    @wg.jit
    def step():
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()

    for _ in range(3):
        step()
    np.testing.assert_array_equal(w.numpy(), [0.25, -0.25])
