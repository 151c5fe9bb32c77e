"""What is particular to single rules; their steps are compared with PyTorch's in `tests/peers`."""

import numpy as np
import pytest

import wengert as wg
from wengert import data, nn, optim
from wengert.errors import MutationError, OptionError, ShapeError


def test_muon_is_for_matrices():
    with pytest.raises(ShapeError) as caught:
        optim.Muon([wg.tensor(np.ones(3), requires_grad=True)])
    assert str(caught.value).endswith(
        ": parameter 0 has shape (3,), expected a matrix. Give the others to an optimizer of "
        "their own, such as AdamW."
    )


def test_muon_moves_all_directions_alike():
    rng = np.random.default_rng(0)
    for shape in [(5, 3), (3, 5), (4, 4)]:
        w = wg.tensor(np.zeros(shape), requires_grad=True)
        w.grad = rng.standard_normal(shape)
        optim.Muon([w], lr=1.0, momentum=0.0).step()
        values = np.linalg.svd(w.numpy())[1] / np.sqrt(max(1, shape[0] / shape[1]))
        assert (values > 0.6).all() and (values < 1.3).all()


def test_options_that_steps_are_made_for_are_fixed():
    optimizer = optim.Muon([wg.tensor(np.ones((2, 2)), requires_grad=True)])
    with pytest.raises(MutationError) as caught:
        optimizer.param_groups[0]["ns_steps"] = 3
    assert str(caught.value).endswith(
        ": got 3, but the option is 5 for good. Compiled steps "
        "are made for it: make a new optimizer."
    )
    optimizer.param_groups[0]["lr"] = 0.5
    optimizer.load_state_dict(optimizer.state_dict())


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda w: optim.Muon(w, adjust_lr_fn="other"), "): adjust_lr_fn='other'"),
        (lambda w: optim.Adafactor(w, d=0.5), "): beta2_decay=-0.8 and d=0.5"),
        (lambda w: optim.Rprop(w, etas=(1.5, 2.0)), "): etas[0]=1.5, expected"),
        (lambda w: optim.Adadelta(w, rho=1.5), "): rho=1.5, expected"),
        (lambda w: optim.NAdam(w, betas=(0.9, 1.0)), "): betas[1]=1.0, expected"),
    ],
)
def test_options_out_of_range(make, text):
    with pytest.raises(OptionError) as caught:
        make([wg.tensor(np.ones((2, 2)), requires_grad=True)])
    assert text in str(caught.value)


def test_adafactor_keeps_rows_and_columns():
    params = [wg.tensor(np.ones(s), requires_grad=True) for s in [(4, 3), (5,), (2, 3, 6)]]
    kept = optim.Adafactor(params).state
    shapes = [{name: array.shape for name, array in one.items()} for one in kept]
    assert shapes == [
        {"row_var": (4, 1), "col_var": (1, 3)},
        {"variance": (5,)},
        {"row_var": (2, 3, 1), "col_var": (2, 1, 6)},
    ]


@pytest.mark.parametrize("name", ["ASGD", "Adafactor", "Adamax", "Muon", "NAdam", "RAdam", "Rprop"])
def test_fit_goes_on_from_its_checkpoint_to_the_same_bits(name, tmp_path):
    """State that is a number, a row or a column of a parameter is kept too."""
    x, y = data.circles(40)

    def trained(epochs, path):
        nn.manual_seed(0)
        bias = name != "Muon"
        model = nn.Sequential(nn.Linear(2, 4, bias), nn.Tanh(), nn.Linear(4, 2, bias))
        optimizer = getattr(optim, name)(model.parameters(), lr=0.01)
        wg.fit(
            model, nn.cross_entropy, optimizer, (x, y), epochs, 20, checkpoint=path, progress=False
        )
        return [
            *model.state_dict().values(),
            *(v.numpy() for s in optimizer.state for v in s.values()),
        ]

    whole = trained(4, None)
    trained(2, tmp_path / "training")
    for one, other in zip(trained(4, tmp_path / "training"), whole, strict=True):
        np.testing.assert_array_equal(one, other)
