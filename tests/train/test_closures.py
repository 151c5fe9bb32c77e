"""`fit` with an optimizer that decides by the loss."""

import numpy as np
import pytest

import wengert as wg
from wengert import data, nn, optim
from wengert.errors import NotFiniteError

X, Y = data.circles(60)


def network(batch_norm=False):
    nn.manual_seed(0)
    between = [nn.BatchNorm1d(8)] if batch_norm else []
    return nn.Sequential(nn.Linear(2, 8), *between, nn.Tanh(), nn.Linear(8, 2))


def fitted(epochs=6, batch_size=60, checkpoint=None, model=None, schedule=False, **options):
    model = network() if model is None else model
    optimizer = optim.LBFGS(model.parameters(), **{"max_iter": 4, **options})
    plan = {"schedule": optim.StepLR(optimizer, 2, 0.5)} if schedule else {}
    history = wg.fit(
        model, nn.cross_entropy, optimizer, (X, Y), epochs, batch_size, seed=3, shuffle=False,
        progress=False, checkpoint=checkpoint, **plan,
    )  # fmt: skip
    return model, optimizer, history


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
@pytest.mark.parametrize("batch_size", [60, 25])
def test_it_is_the_loop_written_by_hand(search, batch_size):
    """In double precision: rounding grows from step to step."""
    x = X.astype(np.float64)
    models = [network().astype(np.float64) for _ in range(2)]
    one, other = (
        optim.LBFGS(model.parameters(), max_iter=4, line_search_fn=search) for model in models
    )
    history = wg.fit(
        models[0], nn.cross_entropy, one, (x, Y), 3, batch_size, shuffle=False, progress=False
    )
    losses = []
    for first in [*range(0, 60, batch_size)] * 3:
        rows = slice(first, first + batch_size)

        def closure(rows=rows):
            other.zero_grad()
            loss = nn.cross_entropy(models[1](x[rows]), Y[rows])
            loss.backward()
            return loss

        losses.append(float(other.step(closure)))
    np.testing.assert_allclose(history.steps["loss"], losses, rtol=1e-6)
    for name, value in models[0].state_dict().items():
        np.testing.assert_allclose(value, models[1].state_dict()[name], rtol=1e-5, atol=1e-6)
    assert one.memory.evaluations == other.memory.evaluations
    assert all(parameter.grad is None for parameter in models[0].parameters())


def test_it_finds_a_minimum():
    _, _, history = fitted(epochs=12, max_iter=20, line_search_fn="strong_wolfe")
    assert history.last["loss"] < 1e-3 and history.last["accuracy"] == 1.0


def test_a_schedule_changes_its_rate():
    _, optimizer, history = fitted(schedule=True)
    assert list(history["lr"]) == [1.0, 1.0, 0.5, 0.5, 0.25, 0.25]
    assert optimizer.lr == 0.125


def test_a_training_goes_on_from_its_checkpoint_to_the_same_bits(tmp_path):
    whole, _, _ = fitted(model=network(batch_norm=True), batch_size=25)
    path = tmp_path / "training"
    fitted(epochs=3, checkpoint=path, model=network(batch_norm=True), batch_size=25)
    rest, _, history = fitted(checkpoint=path, model=network(batch_norm=True), batch_size=25)
    assert len(history["loss"]) == 6
    for name, value in whole.state_dict().items():
        np.testing.assert_array_equal(rest.state_dict()[name], value)


def test_a_loss_that_is_not_finite_leaves_the_model_as_it_was_before_the_step():
    model = network()
    x, y = X.copy(), Y.copy()
    x[45] = np.inf
    optimizer = optim.LBFGS(model.parameters(), max_iter=4)
    with pytest.raises(NotFiniteError) as caught:
        wg.fit(model, nn.cross_entropy, optimizer, (x, y), 1, 20, shuffle=False, progress=False)
    assert "in step 3 of epoch 1; the batch itself has inf" in str(caught.value)
    other, before, _ = fitted(epochs=0)
    wg.fit(other, nn.cross_entropy, before, (x[:40], y[:40]), 1, 20, shuffle=False, progress=False)
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(other.state_dict()[name], value)
    assert optimizer.memory.iterations == before.memory.iterations
