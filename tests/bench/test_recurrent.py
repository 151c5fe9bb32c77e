"""The recurrent networks of the benchmark are the same in each library."""

import numpy as np
import pytest

from wengert.bench import recurrent

SMALL = {"RNN": recurrent.Network("RNN", 4, 196, 8)}
SMALL |= {kind: recurrent.Network(kind, 5, 6, 8) for kind in ("LSTM", "GRU")}


def losses(builder, count=3):
    call = builder()
    return [float(np.asarray(call())) for _ in range(count)]


@pytest.mark.parametrize("kind", sorted(SMALL))
def test_layers_agree(kind):
    torch = pytest.importorskip("torch")
    assert torch.get_num_threads() > 0
    network = SMALL[kind]
    want = losses(recurrent.with_torch(network, 7))
    np.testing.assert_allclose(losses(recurrent.with_wengert(network, 7)), want, rtol=1e-5)


def test_the_papers_network_agrees():
    pytest.importorskip("torch")
    want = losses(recurrent.with_torch(SMALL["RNN"], 7, one_bias=True))
    got = losses(recurrent.with_papers_network(SMALL["RNN"], 7))
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_an_lstm_by_hand_agrees():
    network = SMALL["LSTM"]
    want = losses(recurrent.with_wengert(network, 7))
    got = losses(recurrent.with_wengert(network, 7, by_hand=True))
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_operations_are_counted():
    network = recurrent.Network("RNN", 3, 5, 7)
    products = 2 * 3 * 7 * 5 + 3 * 2 * 7 * 7 + 3 * 7 * 10
    assert network.flops(4) == 2 * 4 * products
