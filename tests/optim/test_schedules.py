"""Schedules: the rates they give, state, and compiled steps that follow them."""

import numpy as np
import pytest

import wengert as wg
from wengert import optim
from wengert.errors import OptionError


def make(lr=1.0, **options):
    return optim.SGD([wg.tensor(np.ones(2), requires_grad=True)], lr=lr, **options)


def rates(schedule, count):
    found = []
    for _ in range(count):
        found += schedule.get_last_lr()
        schedule.step()
    return found


def test_steps():
    np.testing.assert_allclose(
        rates(optim.StepLR(make(), 2, gamma=0.5), 6), [1, 1, 0.5, 0.5, 0.25, 0.25]
    )


def test_steps_keep_what_is_changed_by_hand():
    optimizer = make()
    schedule = optim.StepLR(optimizer, 1, gamma=0.5)
    optimizer.lr = 8.0
    schedule.step()
    assert optimizer.lr == 4.0


def test_cosine_with_warmup():
    found = rates(optim.CosineLR(make(), T_max=7, eta_min=0.2, warmup=3), 8)
    np.testing.assert_allclose(found[:4], [0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(found[4:], 0.2 + 0.4 * (1 + np.cos(np.pi * np.arange(1, 5) / 4)))


def test_one_cycle_in_numbers():
    optimizer = make(momentum=0.9)
    schedule = optim.OneCycleLR(
        optimizer, 1.0, total_steps=9, pct_start=3 / 9, anneal_strategy="linear", div_factor=4.0
    )
    momenta = []
    found = []
    for number in range(9):
        found.append(optimizer.lr)
        momenta.append(optimizer.param_groups[0]["momentum"])
        if number < 8:
            schedule.step()
    np.testing.assert_allclose(found[:3], [0.25, 0.625, 1.0])
    np.testing.assert_allclose(found[-1], 0.25e-4)
    np.testing.assert_allclose(momenta[:3], [0.95, 0.9, 0.85])
    np.testing.assert_allclose(momenta[-1], 0.95)


@pytest.mark.parametrize(
    "make_schedule",
    [
        lambda o: optim.StepLR(o, 2, gamma=0.5),
        lambda o: optim.CosineLR(o, 6, warmup=1),
        lambda o: optim.OneCycleLR(o, 0.5, total_steps=8),
    ],
    ids=["step", "cosine", "one cycle"],
)
def test_a_compiled_step_follows(make_schedule):
    optimizer, other = make(momentum=0.5), make(momentum=0.5)
    (w,), (v,) = optimizer.param_groups[0].params, other.param_groups[0].params
    schedules = make_schedule(optimizer), make_schedule(other)

    def step_of(optimizer, w):
        def step():
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()

        return step

    step, plain = wg.jit(step_of(optimizer, w)), step_of(other, v)
    for _ in range(6):
        step()
        plain()
        for schedule in schedules:
            schedule.step()
        np.testing.assert_allclose(w.numpy(), v.numpy(), rtol=1e-12)
    assert repr(step) == "<jit of step, 1 program>"


@pytest.mark.parametrize(
    "make_schedule",
    [
        lambda o: optim.StepLR(o, 2, gamma=0.5),
        lambda o: optim.CosineLR(o, 9),
        lambda o: optim.OneCycleLR(o, 0.5, total_steps=9),
    ],
    ids=["step", "cosine", "one cycle"],
)
def test_going_on_from_a_state_dict(make_schedule):
    optimizer = make(momentum=0.9)
    schedule = make_schedule(optimizer)
    for _ in range(3):
        schedule.step()
    restored = make(momentum=0.9)
    again = make_schedule(restored)
    restored.load_state_dict(optimizer.state_dict())
    again.load_state_dict(schedule.state_dict())
    for _ in range(4):
        assert again.get_last_lr() == schedule.get_last_lr()
        schedule.step()
        again.step()
    assert restored.param_groups[0]["initial_lr"] == schedule.base_lrs[0]


def test_last_epoch():
    optimizer = make()
    first = optim.CosineLR(optimizer, 8)
    for _ in range(3):
        first.step()
    again = optim.CosineLR(optimizer, 8, last_epoch=first.last_epoch)
    first.step()
    assert again.get_last_lr() == first.get_last_lr()


def refused(text, make_it):
    with pytest.raises(OptionError) as caught:
        make_it()
    assert str(caught.value).split("): ")[-1] == text


def test_what_is_refused():
    optimizer = make()
    refused("step_size=0, expected a whole number above 0.", lambda: optim.StepLR(optimizer, 0))
    refused("T_max=2.5, expected a whole number above 0.", lambda: optim.CosineLR(optimizer, 2.5))
    refused(
        "warmup=5, expected at least 0 and less than T_max=5. Warm up for a part of the time.",
        lambda: optim.CosineLR(optimizer, 5, warmup=5),
    )
    refused(
        "last_epoch=3 with an optimizer that had no schedule. "
        "Load the optimizer's state_dict first, or leave last_epoch at -1.",
        lambda: optim.StepLR(optimizer, 2, last_epoch=3),
    )
    refused(
        "the number of steps is not given. Give total_steps, or epochs and steps_per_epoch.",
        lambda: optim.OneCycleLR(optimizer, 0.1, epochs=3),
    )
    refused(
        "pct_start=2, expected a number from 0 to 1.",
        lambda: optim.OneCycleLR(optimizer, 0.1, total_steps=3, pct_start=2),
    )
    refused(
        'anneal_strategy=\'tanh\', expected "cos" or "linear".',
        lambda: optim.OneCycleLR(optimizer, 0.1, total_steps=3, anneal_strategy="tanh"),
    )
    refused(
        "got 2 values of max_lr for 1 groups. Give one number, or one for each group.",
        lambda: optim.OneCycleLR(optimizer, [0.1, 0.2], total_steps=3),
    )
    adagrad = optim.Adagrad(optimizer.param_groups[0].params)
    refused(
        "the optimizer has neither momentum nor betas. Use cycle_momentum=False.",
        lambda: optim.OneCycleLR(adagrad, 0.1, total_steps=3),
    )
    schedule = optim.OneCycleLR(adagrad, 0.1, total_steps=1, cycle_momentum=False)
    schedule.step()
    refused(
        "called 2 times, the cycle has 1 steps. Give a larger total_steps, or stop calling it.",
        schedule.step,
    )
