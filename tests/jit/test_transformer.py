"""Transformer blocks: compiled beside evaluated, in every layout that the scheduler may choose.

Set WENGERT_RANDOM_BLOCKS to run more of the random ones that are marked slow.
"""

import functools
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import wengert as wg
from batch_loops import batch_loops, sizes
from wengert import machine, nn, optim
from wengert.codegen import cache
from wengert.passes import optimise
from wengert.schedule import schedule

LAYOUTS = ("matrices", "lanes", "channels", "apart")


@pytest.fixture(autouse=True)
def no_cache(monkeypatch):
    """Nothing from disk."""
    monkeypatch.setenv("WENGERT_CACHE", "off")
    cache.shared_cache.cache_clear()
    yield
    cache.shared_cache.cache_clear()


def choose(layout):
    """Have everything in regions of one layout, or nothing, however small it is."""
    layouts = () if layout == "apart" else (layout,)
    return machine.use(
        regions={"layouts": layouts, "least_work": 0, "shortest": 2, "large_part": 0},
        matrices={"own_rows": 0},
        times={"apart": 1e9},
    )


class Block(nn.Module):
    def __init__(self, width, heads, first, approximate, batch_first, dtype):
        self.norms = [nn.LayerNorm(width, dtype=dtype) for _ in range(2)]
        self.attention = nn.MultiheadAttention(width, heads, batch_first=batch_first, dtype=dtype)
        self.wide = nn.Linear(width, 2 * width, dtype=dtype)
        self.narrow = nn.Linear(2 * width, width, dtype=dtype)
        self.gelu = nn.GELU(approximate)
        self.first = first

    def attend(self, x, masks):
        return self.attention(x, x, x, need_weights=False, **masks)[0]

    def dense(self, x):
        return self.narrow(self.gelu(self.wide(x)))

    def forward(self, x, masks):
        for norm, layer in zip(
            self.norms, (functools.partial(self.attend, masks=masks), self.dense), strict=True
        ):
            x = x + layer(norm(x)) if self.first else norm(x + layer(x))
        return x


@st.composite
def programs(draw):
    heads = draw(st.sampled_from([1, 2, 4]))
    return {
        "heads": heads,
        "width": heads * draw(st.integers(1, 20)),
        "tokens": draw(st.integers(1, 20)),
        "batch": draw(st.integers(1, 13)),
        "first": draw(st.booleans()),
        "approximate": draw(st.sampled_from(["none", "tanh"])),
        "batch_first": draw(st.booleans()),
        "mask": draw(st.sampled_from(["none", "causal", "added", "padding"])),
        "dtype": draw(st.sampled_from([np.float32, np.float64])),
        "seed": draw(st.integers(0, 99)),
    }


def masks_of(program, rng):
    tokens, batch = program["tokens"], program["batch"]
    if program["mask"] == "causal":
        return {"attn_mask": ~np.tri(tokens, dtype=bool)}
    if program["mask"] == "added":
        return {"attn_mask": rng.normal(size=(tokens, tokens)).astype(program["dtype"])}
    if program["mask"] == "padding":
        hidden = np.arange(tokens) >= rng.integers(1, tokens + 1, size=(batch, 1))
        return {"key_padding_mask": hidden}
    return {}


def trained(program, compile_it, steps=3):
    """The losses of a few steps of training, and the parameters after them."""
    rng = np.random.default_rng(program["seed"])
    names = ("width", "heads", "first", "approximate", "batch_first", "dtype")
    model = Block(*[program[name] for name in names])
    with wg.no_grad():
        for parameter in model.parameters():
            parameter[...] = rng.normal(size=parameter.shape) * 0.3
    shape = (program["batch"], program["tokens"], program["width"])
    if not program["batch_first"]:
        shape = (shape[1], shape[0], shape[2])
    x, y = (rng.normal(size=shape).astype(program["dtype"]) for _ in range(2))
    masks = masks_of(program, rng)
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def step(x, y, masks):
        optimizer.zero_grad()
        loss = nn.mse_loss(model(x, masks), y)
        loss.backward()
        optimizer.step()
        return loss

    run = wg.jit(step) if compile_it else step
    losses = [float(run(x, y, masks)) for _ in range(steps)]
    return losses, [parameter.numpy().copy() for parameter in model.parameters()]


def compare(program):
    losses, parameters = trained(program, compile_it=True)
    wanted, expected = trained(program, compile_it=False)
    close = 2e-3 if program["dtype"] is np.float32 else 1e-8
    np.testing.assert_allclose(losses, wanted, rtol=close)
    for got, want in zip(parameters, expected, strict=True):
        scale = np.abs(want).max() + 1e-3
        np.testing.assert_allclose(got / scale, want / scale, atol=close)


UNHURRIED = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
}


# a member of two regions is read by what only the second one computes again
READ_AGAIN = {
    "heads": 1,
    "width": 3,
    "tokens": 1,
    "batch": 1,
    "first": False,
    "approximate": "none",
    "batch_first": False,
    "mask": "none",
    "dtype": np.float32,
    "seed": 0,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=1, **UNHURRIED)
@given(program=programs())
@example(program=READ_AGAIN)
def test_random_blocks(layout, program):
    with choose(layout):
        compare(program)


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=int(os.environ.get("WENGERT_RANDOM_BLOCKS", "20")), **UNHURRIED)
@given(program=programs())
def test_many_random_blocks(layout, program):
    with choose(layout):
        compare(program)


def gradient_of(batch=8, tokens=24, width=32, heads=2):
    """The gradient of a block by all its parameters, with arguments."""
    rng = np.random.default_rng(0)
    model = Block(width, heads, True, "none", True, np.float32)
    x, y = (rng.normal(size=(batch, tokens, width)).astype(np.float32) for _ in range(2))

    def loss(model, x, y):
        return nn.mse_loss(model(x, {}), y)

    return wg.value_and_grad(loss), (model, x, y)


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_same_bits_for_any_number_of_threads(layout):
    function, arguments = gradient_of()
    found = []
    for threads in (1, 2, 3, 5, 8):
        with choose(layout):
            value, gradients = wg.jit(function, threads=threads)(*arguments)
        leaves = [np.asarray(leaf) for leaf in wg.tree.leaves((value, gradients))]
        found.append([leaf.tobytes() for leaf in leaves])
    assert all(other == found[0] for other in found[1:])


def test_a_step_is_one_loop_over_samples_in_place():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 64, 64)).astype(np.float32)
    w, v = (rng.normal(size=(64, 64)).astype(np.float32) for _ in range(2))

    def loss(w, v, x):
        q = x @ w
        scores = nn.functional.softmax(q @ np.swapaxes(x, 1, 2), dim=-1)
        return np.sum(np.square(nn.functional.gelu(scores @ q) @ v))

    program = schedule(optimise(wg.trace(wg.grad(loss, argnums=(0, 1)), w, v, x)))
    (loop,) = batch_loops(program)
    assert sizes(loop) == (1, 12)
    assert "block of" not in str(loop)  # nothing is copied in or out


def test_the_block_of_the_bench_is_one_loop_over_samples():
    from wengert.bench import transformer

    given = transformer.Sizes()
    model, (x, y) = transformer.module_of(nn, given), transformer.sequences(given)
    graph = wg.trace(wg.value_and_grad(lambda model: nn.mse_loss(model(x), y)), model)
    program = schedule(optimise(graph))
    (loop,) = batch_loops(program)
    assert sizes(loop) == (1, 12)
