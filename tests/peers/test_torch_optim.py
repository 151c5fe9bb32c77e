"""Optimizers, clipping and schedules beside PyTorch's, step by step."""

import numpy as np
import pytest

import wengert as wg
from wengert import optim

torch = pytest.importorskip("torch")

SHAPES = [(4, 3), (3,), (), (2, 2, 2)]
MATRICES = [(4, 3), (1, 3), (1, 1), (2, 4)]
STEPS = 8
TOLERANCE = {np.float32: {"rtol": 1e-5, "atol": 1e-6}, np.float64: {"rtol": 1e-12, "atol": 1e-13}}

OPTIMIZERS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.2}),
    ("SGD", {"lr": 0.1, "momentum": 0.8, "nesterov": True, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-4, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.05, "amsgrad": True, "maximize": True}),
    ("Adam", {"lr": 0.05, "weight_decay": 0.3, "decoupled_weight_decay": True}),
    ("AdamW", {}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.5, "amsgrad": True}),
    ("RMSprop", {}),
    ("RMSprop", {"lr": 0.03, "alpha": 0.8, "momentum": 0.9, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.03, "centered": True, "momentum": 0.5, "maximize": True}),
    ("Adagrad", {}),
    (
        "Adagrad",
        {"lr": 0.1, "lr_decay": 0.2, "weight_decay": 0.1, "initial_accumulator_value": 0.5},
    ),
    ("Adadelta", {}),
    ("Adadelta", {"lr": 0.5, "rho": 0.8, "eps": 1e-3, "weight_decay": 0.1, "maximize": True}),
    ("Adamax", {}),
    ("Adamax", {"lr": 0.05, "betas": (0.8, 0.9), "weight_decay": 0.1, "maximize": True}),
    ("NAdam", {}),
    ("NAdam", {"lr": 0.05, "betas": (0.8, 0.9), "weight_decay": 0.1, "momentum_decay": 0.1}),
    ("NAdam", {"lr": 0.05, "weight_decay": 0.3, "decoupled_weight_decay": True, "maximize": True}),
    ("RAdam", {}),
    ("RAdam", {"lr": 0.05, "betas": (0.8, 0.9), "weight_decay": 0.1, "eps": 1e-3}),
    ("RAdam", {"lr": 0.05, "weight_decay": 0.3, "decoupled_weight_decay": True, "maximize": True}),
    ("ASGD", {}),
    ("ASGD", {"lr": 0.05, "lambd": 0.1, "alpha": 0.5, "t0": 2, "weight_decay": 0.1}),
    ("ASGD", {"lr": 0.05, "maximize": True}),
    ("Rprop", {}),
    ("Rprop", {"lr": 0.1, "etas": (0.3, 1.5), "step_sizes": (0.06, 0.2), "maximize": True}),
    ("Adafactor", {}),
    ("Adafactor", {"lr": 0.5, "beta2_decay": -0.5, "d": 2.0, "weight_decay": 0.1}),
    ("Adafactor", {"lr": 0.05, "eps": (1e-4, 0.1), "maximize": True}),
    ("Muon", {}),
    ("Muon", {"lr": 0.1, "weight_decay": 0.3, "momentum": 0.8, "nesterov": False, "ns_steps": 3}),
    ("Muon", {"lr": 0.1, "adjust_lr_fn": "match_rms_adamw", "ns_coefficients": (3.0, -3.2, 1.2)}),
]
NAMES = [f"{name}-{'-'.join(options) or 'defaults'}" for name, options in OPTIMIZERS]


@pytest.fixture(autouse=True)
def in_the_precision_of_the_parameters(request, monkeypatch):
    """PyTorch has numbers of a step in its default precision, and Muon's matrices in bfloat16."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", lambda tensor: tensor.clone())
    given = getattr(request.node, "callspec", None)
    in_single = given is not None and given.params.get("dtype") is np.float32
    torch.set_default_dtype(torch.float32 if in_single else torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def arrays(seed, dtype, shapes=SHAPES):
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.standard_normal(shape), dtype) for shape in shapes]


def parameters(dtype, name=""):
    """The same numbers as parameters of both."""
    start = arrays(0, dtype, MATRICES if name == "Muon" else SHAPES)
    own = [wg.tensor(a, requires_grad=True) for a in start]
    return own, [torch.tensor(a, requires_grad=True) for a in start]


def set_gradients(own, theirs, seed, dtype, absent=()):
    shapes = [p.shape for p in own]
    for place, gradient in enumerate(arrays(seed, dtype, shapes)):
        missing = place in absent
        own[place].grad = None if missing else gradient
        theirs[place].grad = None if missing else torch.tensor(gradient)


def assert_same(own, theirs, dtype):
    for mine, other in zip(own, theirs, strict=True):
        assert mine.dtype == dtype
        np.testing.assert_allclose(mine.numpy(), other.detach().numpy(), **TOLERANCE[dtype])


def loss_of(params, x):
    """A function whose gradients differ from step to step, in both libraries."""
    w, b, c, t = params
    return (((x @ w + b) ** 2).sum() + (c * c).sum() + (t * t * t).sum() * c.sum()) * 0.1


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f32", "f64"])
@pytest.mark.parametrize(("name", "options"), OPTIMIZERS, ids=NAMES)
def test_steps(name, options, dtype):
    own, theirs = parameters(dtype, name)
    mine = getattr(optim, name)(own, **options)
    other = getattr(torch.optim, name)(theirs, **options)
    for number in range(STEPS):
        # one parameter has no gradient for a while: it stays, and so does its count of steps
        set_gradients(own, theirs, number + 1, dtype, absent=(1,) if number in (0, 3) else ())
        mine.step()
        other.step()
        assert_same(own, theirs, dtype)


# in double precision once for each kind: that compiled and evaluated agree is tested elsewhere
COMPILED = [(*one, np.float32) for one in OPTIMIZERS]
COMPILED += [(*OPTIMIZERS[place], np.float64) for place in (2, 6, 9, 12, 14, *range(16, 36, 2))]


@pytest.mark.parametrize(("name", "options", "dtype"), COMPILED)
def test_compiled_steps(name, options, dtype):
    own, theirs = parameters(dtype, name)
    mine = getattr(optim, name)(own, **options)
    other = getattr(torch.optim, name)(theirs, **options)

    @wg.jit
    def step(x):
        mine.zero_grad()
        loss = loss_of(own, x)
        loss.backward()
        mine.step()
        return loss

    for number in range(STEPS):
        x = np.random.default_rng(number).standard_normal((5, 4)).astype(dtype)
        got = step(x)
        other.zero_grad()
        want = loss_of(theirs, torch.tensor(x))
        want.backward()
        other.step()
        np.testing.assert_allclose(got, want.detach().numpy(), **TOLERANCE[dtype])
        assert_same(own, theirs, dtype)
        if number == 4:
            mine.lr = other.param_groups[0]["lr"] = 0.01
    assert repr(step) == "<jit of step, 1 program>"
    assert step.explain(x).hosts == []


@pytest.mark.parametrize(("name", "options"), OPTIMIZERS, ids=NAMES)
def test_state_moves_between_the_libraries(name, options):
    own, theirs = parameters(np.float64, name)
    mine = getattr(optim, name)(own, **options)
    other = getattr(torch.optim, name)(theirs, **options)
    for number in range(3):
        set_gradients(own, theirs, number + 1, np.float64)
        other.step()
    for p, q in zip(own, theirs, strict=True):
        with wg.no_grad():
            p[...] = q.detach().numpy()
    mine.load_state_dict(other.state_dict())
    set_gradients(own, theirs, 9, np.float64)
    mine.step()
    other.step()
    assert_same(own, theirs, np.float64)


def rosenbrock(w):
    return (100 * (w[1:] - w[:-1] ** 2) ** 2 + (1 - w[:-1]) ** 2).sum()


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f32", "f64"])
@pytest.mark.parametrize(
    "options",
    [
        {"lr": 0.1, "max_iter": 3},
        {"lr": 0.5, "max_iter": 4, "history_size": 2},
        {"max_iter": 5, "line_search_fn": "strong_wolfe"},
        {"max_iter": 7, "history_size": 3, "line_search_fn": "strong_wolfe", "max_eval": 9},
        {"lr": 3.0, "max_iter": 4, "line_search_fn": "strong_wolfe"},
    ],
    ids=lambda options: "-".join(options),
)
def test_lbfgs(options, dtype):
    """Rounding grows from step to step, by the Hessian: few steps in float32, and more slack."""
    start = np.array([-1.2, 1.0, 0.7, -0.4], dtype)
    own, theirs = wg.tensor(start, requires_grad=True), torch.tensor(start, requires_grad=True)
    mine, other = optim.LBFGS([own], **options), torch.optim.LBFGS([theirs], **options)
    calls = {"own": 0, "theirs": 0}

    def closure_of(optimizer, w, name):
        def closure():
            calls[name] += 1
            optimizer.zero_grad()
            loss = rosenbrock(w)
            loss.backward()
            return loss

        return closure

    for _ in range(2 if dtype == np.float32 else 5):
        got = mine.step(closure_of(mine, own, "own"))
        want = other.step(closure_of(other, theirs, "theirs"))
        slack = 1e-3 if dtype == np.float32 else 1e-7
        np.testing.assert_allclose(float(got), want.item(), rtol=slack)
        np.testing.assert_allclose(own.numpy(), theirs.detach().numpy(), rtol=slack, atol=slack)
        assert calls["own"] == calls["theirs"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("norm_type", [2.0, 1.0, 3.0, np.inf])
@pytest.mark.parametrize("max_norm", [0.5, 1e3])
def test_clip_grad_norm(norm_type, max_norm, dtype):
    own, theirs = parameters(dtype)
    set_gradients(own, theirs, 1, dtype, absent=(1,))
    got = optim.clip_grad_norm_(own, max_norm, norm_type)
    want = torch.nn.utils.clip_grad_norm_(theirs, max_norm, norm_type)
    np.testing.assert_allclose(float(got), float(want), rtol=1e-6)
    for p, q in zip(own, theirs, strict=True):
        assert (p.grad is None) == (q.grad is None)
        if q.grad is not None:
            assert p.grad.dtype == dtype
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), **TOLERANCE[dtype])


def test_clip_grad_value():
    own, theirs = parameters(np.float32)
    set_gradients(own, theirs, 1, np.float32)
    optim.clip_grad_value_(own, 0.5)
    torch.nn.utils.clip_grad_value_(theirs, 0.5)
    for p, q in zip(own, theirs, strict=True):
        np.testing.assert_array_equal(p.grad.numpy(), q.grad.numpy())


SCHEDULES = [
    ("StepLR", "StepLR", {"step_size": 3}),
    ("StepLR", "StepLR", {"step_size": 2, "gamma": 0.7}),
    ("CosineLR", "CosineAnnealingLR", {"T_max": 7}),
    ("CosineLR", "CosineAnnealingLR", {"T_max": 20, "eta_min": 0.01}),
    ("OneCycleLR", "OneCycleLR", {"max_lr": 0.5, "total_steps": 20}),
    ("OneCycleLR", "OneCycleLR", {"max_lr": [0.5, 0.3], "epochs": 4, "steps_per_epoch": 5}),
    (
        "OneCycleLR",
        "OneCycleLR",
        {
            "max_lr": 0.5,
            "total_steps": 24,
            "three_phase": True,
            "anneal_strategy": "linear",
            "pct_start": 0.4,
            "div_factor": 10.0,
            "final_div_factor": 100.0,
            "base_momentum": 0.7,
            "max_momentum": 0.9,
        },
    ),
    ("OneCycleLR", "OneCycleLR", {"max_lr": 0.5, "total_steps": 20, "cycle_momentum": False}),
]


@pytest.mark.parametrize(("name", "their_name", "options"), SCHEDULES)
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_schedules(name, their_name, options, optimizer):
    own, theirs = parameters(np.float64)
    extra = {"momentum": 0.9} if optimizer == "SGD" else {}

    def grouped(params):
        return [{"params": params[:1], "lr": 0.2}, {"params": params[1:]}]

    mine = getattr(optim, optimizer)(grouped(own), lr=0.1, **extra)
    other = getattr(torch.optim, optimizer)(grouped(theirs), lr=0.1, **extra)
    schedule = getattr(optim, name)(mine, **options)
    theirs_schedule = getattr(torch.optim.lr_scheduler, their_name)(other, **options)
    for number in range(20):
        assert schedule.last_epoch == number
        np.testing.assert_allclose(
            schedule.get_last_lr(), theirs_schedule.get_last_lr(), rtol=1e-11, atol=1e-15
        )
        for group, wanted in zip(mine.param_groups, other.param_groups, strict=True):
            which = "momentum" if optimizer == "SGD" else "betas"
            np.testing.assert_allclose(group[which], wanted[which], rtol=1e-11)
        set_gradients(own, theirs, number, np.float64)
        mine.step()
        other.step()
        assert_same(own, theirs, np.float64)
        if number < 19:
            schedule.step()
            theirs_schedule.step()
