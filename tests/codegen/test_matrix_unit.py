"""Products on the matrix unit: as accurate as multiply-adds, for all numbers that there are."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest
from llvmlite import ir

import wengert as wg
import wengert.numpy as wnp
from wengert import nn, optim
from wengert.bench.steps import begin_with
from wengert.codegen import tiling, unit_tiling
from wengert.codegen.bfloat import Lines, packing_of
from wengert.codegen.compile import compile_module
from wengert.codegen.target import WITH_MATRIX_UNIT, Target
from wengert.codegen.unit_tiling import panel_bytes


def has_unit() -> bool:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WENGERT_CPU", WITH_MATRIX_UNIT)
        try:
            return Target.host().has_matrix_unit
        except ValueError:
            return False


pytestmark = pytest.mark.skipif(not has_unit(), reason="this processor has no matrix unit")

# Errors in units of the sum of magnitudes: what multiply-adds of float32 make, and no more.
MOST_ERROR = 2.5e-7
GAIN = unit_tiling._GAIN


@pytest.fixture(autouse=True)
def on_the_unit(monkeypatch):
    """Have every product that can be on the matrix unit computed there."""
    monkeypatch.setenv("WENGERT_CACHE", "off")
    monkeypatch.setenv("WENGERT_CPU", WITH_MATRIX_UNIT)
    monkeypatch.setattr(unit_tiling, "_GAIN", 0.0)
    tiling._best_plan.cache_clear()
    yield
    tiling._best_plan.cache_clear()


def matrices(m: int, k: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return tuple(rng.normal(size=shape).astype(np.float32) for shape in ((m, k), (k, n)))  # type: ignore[return-value]


def error(found: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    x, y = x.astype(np.float64), y.astype(np.float64)
    return float((np.abs(found - x @ y) / (np.abs(x) @ np.abs(y))).max())


def uses_unit(function, *args) -> bool:
    return "tdpbf16ps" in function.explain(*args).assembly


# ---------------------------------------------------------------- packing


@pytest.mark.parametrize("steps", [1, 2, 31, 32, 33, 70])
@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize("by_lines", [True, False])
@pytest.mark.parametrize("halves", [(3,), (16, 9)])
def test_a_panel_holds_three_parts_of_every_number(steps, rows, by_lines, halves):
    lines = sum(halves)
    rng = np.random.default_rng(steps)
    source = rng.normal(size=(lines, steps)).astype(np.float32)
    source *= np.exp2(rng.integers(-30, 30, size=source.shape)).astype(np.float32)
    stored = np.ascontiguousarray(source if by_lines else source.T)
    module = ir.Module("panel")
    module.triple = Target.host().triple
    packing = packing_of(module, Lines(halves, rows, by_lines))
    packing.linkage = "external"
    compiled = compile_module(module, Target.host())
    panel = np.full(panel_bytes(steps) // 2 + 32, 0x7FC0, np.uint16)
    start = -panel.ctypes.data % 64 // 2
    panel = panel[start : start + panel_bytes(steps) // 2]
    kinds = ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64
    call = compiled.function(packing.name, ctypes.c_uint32, *kinds)
    pitch = stored.shape[1]
    largest = call(panel.ctypes.data, steps, stored.ctypes.data, pitch)
    assert np.uint32(largest).view(np.float32) == np.abs(source).max()
    tiles = (panel.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    blocks = -(-steps // 32)
    tiles = tiles.reshape(blocks, 2, 3, 16, 16, 2).sum(axis=2)
    if not rows:  # (pair, column) -> (column, pair)
        tiles = tiles.swapaxes(2, 3)
    whole = tiles.reshape(blocks, 2, 16, 32).transpose(1, 2, 0, 3).reshape(2, 16, 32 * blocks)
    found = np.concatenate([whole[half, :count] for half, count in enumerate(halves)])
    np.testing.assert_array_equal(found[:, :steps], source)
    np.testing.assert_array_equal(found[:, steps:], 0)


# ---------------------------------------------------------------- products


SIZES = [(2, 1, 1), (17, 33, 18), (32, 64, 48), (50, 300, 31), (97, 129, 100)]
FORMS = {
    "nn": lambda x, y: x @ y,
    "tn": lambda x, y: x.T @ y,
    "nt": lambda x, y: x @ y.T,
    "tt": lambda x, y: x.T @ y.T,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "size", [(2, 1, 1), (17, 33, 18), (32, 64, 48), (50, 300, 31), (97, 129, 100)], ids=str
)
def test_errors_are_those_of_multiply_adds(form, size):
    x, y = matrices(*size)
    args = [np.ascontiguousarray(a.T if t == "t" else a) for a, t in zip((x, y), form, strict=True)]
    function = wg.jit(FORMS[form])
    assert error(function(*args), x, y) < MOST_ERROR
    if min(size) > 2:
        assert uses_unit(function, *args)


def test_errors_do_not_grow_with_long_sums():
    x, y = matrices(64, 5000, 48)
    plain = x @ y
    found = wg.jit(lambda x, y: x @ y)(x, y)
    assert error(found, x, y) < max(2 * error(plain, x, y), MOST_ERROR)


@pytest.mark.parametrize("exponent", [-60, -30, 20, 50])
def test_rows_and_columns_of_all_sizes(exponent):
    x, y = matrices(40, 70, 50)
    rng = np.random.default_rng(1)
    x *= np.exp2(rng.integers(-10, 11, size=(40, 1))).astype(np.float32)
    y *= np.exp2(rng.integers(-10, 11, size=(1, 50)) + exponent).astype(np.float32)
    assert error(wg.jit(lambda x, y: x @ y)(x, y), x, y) < MOST_ERROR


SCALES = [1e-38, 1e-30, 1e-20, 1.0, 1e20, 1e30]
STRANGE = [np.inf, -np.inf, np.nan, 3.4e38, 1e-38, 1e-42, 0.0]


@pytest.mark.parametrize("value", STRANGE, ids=str)
@pytest.mark.parametrize("side", [0, 1])
def test_infinities_and_the_like_are_what_they_are_in_numpy(value, side):
    pair = [a.copy() for a in matrices(40, 70, 50)]
    pair[side][3, 5] = value
    pair[1 - side][5] = 1.0  # in one part, so that others are zero
    with np.errstate(all="ignore"):
        wanted = pair[0] @ pair[1]
    found = wg.jit(lambda x, y: x @ y)(*pair)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "scales", [(a, b) for a in SCALES for b in SCALES if a * b <= 1e30], ids=str
)
def test_very_small_and_very_large_numbers(scales):
    x, y = (a * np.float32(s) for a, s in zip(matrices(33, 40, 34), scales, strict=True))
    with np.errstate(all="ignore"):
        wanted = x.astype(np.float64) @ y.astype(np.float64)
        magnitude = np.abs(x).astype(np.float64) @ np.abs(y).astype(np.float64)
        found = wg.jit(lambda x, y: x @ y)(x, y)
        assert np.all(np.abs(found - wanted) <= 4e-7 * magnitude + 2e-44)


def test_products_share_out_to_threads_without_changing_a_bit():
    x, y = matrices(200, 300, 260)
    found = [wg.jit(lambda x, y: x @ y, threads=threads)(x, y) for threads in (1, 2, 3, 8)]
    for one in found[1:]:
        np.testing.assert_array_equal(one, found[0])


def test_batches_of_products():
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=s).astype(np.float32) for s in ((3, 40, 70), (3, 70, 50)))
    found = wg.jit(lambda x, y: x @ y)(x, y)
    for one, a, b in zip(found, x, y, strict=True):
        assert error(one, a, b) < MOST_ERROR


def test_what_follows_a_product_is_done_in_its_tiles():
    x, y = matrices(70, 300, 45)
    bias = np.linspace(-1, 1, 45, dtype=np.float32)

    def layer(x, y, bias):
        return wnp.maximum(x @ y + bias, 0.0)

    np.testing.assert_allclose(wg.jit(layer)(x, y, bias), layer(x, y, bias), rtol=1e-5, atol=1e-5)


# ---------------------------------------------------------------- loops


@pytest.mark.parametrize("batch", [20, 66, 100, 129])
def test_weights_of_a_loop_are_split_once_before_it(batch):
    rng = np.random.default_rng(batch)
    w = (rng.normal(size=(48, 96)) / 8).astype(np.float32)
    h = rng.normal(size=(batch, 48)).astype(np.float32)

    def loss(w, h):
        def step(h, _):
            y = h @ w
            return wnp.tanh(y[:, :48] + y[:, 48:]), y

        last, rows = wg.scan(step, h, None, length=6)
        return wnp.sum(last * last) + wnp.sum(rows[2])

    both = wg.value_and_grad(loss, argnums=(0, 1))
    value, grads = both(w, h)
    found, found_grads = wg.jit(both)(w, h)
    np.testing.assert_allclose(found, value, rtol=1e-5)
    for a, b in zip(found_grads, grads, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_a_loop_whose_state_overflows_is_what_it_is_in_numpy():
    w = np.full((40, 40), 10.0, np.float32)
    h = np.ones((24, 40), np.float32)

    def last(w, h):
        return wg.scan(lambda h, _: (h @ w, None), h, None, length=20)[0]

    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(wg.jit(last)(w, h), last(w, h))


def test_training_is_the_same_for_any_number_of_threads():
    def train(threads):
        rng = np.random.default_rng(0)
        layer = nn.LSTM(20, 48)
        dense = nn.Linear(48, 10)
        parameters = [*layer.parameters(), *dense.parameters()]
        begin_with(
            parameters, [rng.uniform(-0.2, 0.2, size=p.shape).astype("f4") for p in parameters]
        )
        optimizer = optim.SGD(parameters, lr=0.1)

        @wg.jit(threads=threads)
        def step(x, y):
            optimizer.zero_grad()
            loss = nn.cross_entropy(dense(layer(x)[0][-1]), y)
            loss.backward()
            optimizer.step()
            return loss

        x = rng.normal(size=(7, 90, 20)).astype(np.float32)
        y = rng.integers(0, 10, size=90)
        losses = [float(step(x, y)) for _ in range(5)]
        return losses, [np.array(one) for one in parameters]

    losses, values = train(1)
    assert losses[-1] < losses[0]
    for threads in (2, 5):
        again, others = train(threads)
        assert again == losses
        for a, b in zip(others, values, strict=True):
            np.testing.assert_array_equal(a, b)


# ---------------------------------------------------------------- where it is used


def test_small_products_are_not_on_the_unit_and_large_ones_are(monkeypatch):
    monkeypatch.setattr(unit_tiling, "_GAIN", GAIN)
    tiling._best_plan.cache_clear()
    function = wg.jit(lambda x, y: x @ y)
    assert not uses_unit(function, *matrices(8, 8, 8))
    assert uses_unit(function, *matrices(512, 512, 512))


def test_it_is_used_on_request_alone(monkeypatch):
    host = Target.host()
    assert host.has_matrix_unit and host.runs_here()
    assert not Target.named("sapphirerapids").has_matrix_unit
    monkeypatch.delenv("WENGERT_CPU")
    assert not Target.host().has_matrix_unit
    assert not uses_unit(wg.jit(lambda x, y: x @ y), *matrices(512, 512, 512))
    assert not replace(
        host, features=host.features.replace("+amx-bf16", "-amx-bf16")
    ).has_matrix_unit
