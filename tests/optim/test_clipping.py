"""Clipping of gradients, evaluated and compiled."""

import numpy as np
import pytest

import wengert as wg
from wengert import optim
from wengert.errors import AbstractValueError, NotFiniteError, OptionError


def tensors(*gradients):
    made = []
    for gradient in gradients:
        p = wg.tensor(np.zeros(np.shape(gradient)), requires_grad=True)
        p.grad = np.asarray(gradient, float)
        made.append(p)
    return made


@pytest.mark.parametrize(("norm_type", "want"), [(2.0, 13.0), (1.0, 19.0), (np.inf, 12.0)])
def test_norms(norm_type, want):
    params = tensors([3.0, -4.0], [[12.0]])
    assert float(optim.clip_grad_norm_(params, 100.0, norm_type)) == pytest.approx(want)
    np.testing.assert_array_equal(params[0].grad.numpy(), [3.0, -4.0])
    optim.clip_grad_norm_(params, 1.0, norm_type)
    assert float(optim.clip_grad_norm_(params, 100.0, norm_type)) == pytest.approx(1.0, rel=1e-5)


def test_one_tensor_and_none():
    (p,) = tensors([3.0, 4.0])
    assert float(optim.clip_grad_norm_(p, 1.0)) == 5.0
    p.zero_grad()
    assert float(optim.clip_grad_norm_([p], 1.0)) == 0.0


def test_compiled():
    w = wg.tensor(np.array([3.0, 4.0]), requires_grad=True)
    optimizer = optim.SGD([w], lr=1.0)

    @wg.jit
    def step():
        optimizer.zero_grad()
        (w * w * 0.5).sum().backward()
        norm = optim.clip_grad_norm_([w], 1.0)
        optim.clip_grad_value_([w], 0.7)
        optimizer.step()
        return norm

    assert step() == 5.0
    np.testing.assert_allclose(w.numpy(), [2.4, 3.3], rtol=1e-6)
    np.testing.assert_allclose(step(), np.hypot(2.4, 3.3), rtol=1e-6)


def test_values():
    params = tensors([3.0, -0.5, -9.0])
    optim.clip_grad_value_(params, 1.0)
    np.testing.assert_array_equal(params[0].grad.numpy(), [1.0, -0.5, -1.0])


def test_errors():
    params = tensors([np.inf, 1.0])
    with pytest.raises(NotFiniteError) as caught:
        optim.clip_grad_norm_(params, 1.0, error_if_nonfinite=True)
    assert str(caught.value).endswith(
        ": the norm of order 2 of the gradients is inf. "
        "Look for the first layer with wg.debug_nans(), or lower the learning rate."
    )
    with pytest.raises(OptionError, match="norm_type=0, expected a number above 0"):
        optim.clip_grad_norm_(params, 1.0, 0)
    with pytest.raises(AbstractValueError, match="Return the norm from the function and look at"):
        wg.jit(lambda: optim.clip_grad_norm_(params, 1.0, error_if_nonfinite=True))()
