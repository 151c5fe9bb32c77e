"""Tensors as state: a compiled step leaves them as the evaluated one does."""

import gc
import threading
import tracemalloc
import weakref

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.errors import (
    AbstractValueError,
    DerivativeError,
    DTypeError,
    LeakedTracerError,
    MutationError,
    OutOfRangeError,
)

RNG = np.random.default_rng(7)
X = RNG.standard_normal((6, 4))
Y = RNG.integers(0, 3, 6)


class MLP:
    """Two layers with tensors as parameters, and what a step needs."""

    def __init__(self, dtype=np.float64):
        rng = np.random.default_rng(3)

        def parameter(*shape):
            return wg.tensor(0.5 * rng.standard_normal(shape), requires_grad=True, dtype=dtype)

        self.w1, self.b1 = parameter(4, 5), parameter(5)
        self.w2, self.b2 = parameter(5, 3), parameter(3)

    @property
    def parameters(self):
        return [self.w1, self.b1, self.w2, self.b2]

    def loss(self, x, y):
        logits = np.tanh(x @ self.w1 + self.b1) @ self.w2 + self.b2
        shifted = logits - np.max(logits, axis=1, keepdims=True)
        log_p = shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
        return -np.mean(np.sum(log_p * (y[:, None] == np.arange(3)), axis=1))

    def zero_grad(self):
        for p in self.parameters:
            p.zero_grad()

    def update(self, lr=0.1):
        with wg.no_grad():
            for p in self.parameters:
                p -= lr * p.grad


def step_of(model, zero=True):
    def step(x, y):
        if zero:
            model.zero_grad()
        loss = model.loss(x, y)
        loss.backward()
        model.update()
        return loss

    return step


def assert_same_state(one, other, rtol=1e-10):
    for p, q in zip(one.parameters, other.parameters, strict=True):
        assert p.requires_grad and p.is_leaf
        np.testing.assert_allclose(p.numpy(), q.numpy(), rtol=rtol)
        assert (p.grad is None) == (q.grad is None)
        if p.grad is not None:
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=rtol, atol=1e-14)


@pytest.mark.parametrize("zero", [True, False], ids=["zeroed", "accumulating"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_training_step(zero, dtype):
    compiled, evaluated = MLP(dtype), MLP(dtype)
    before = list(map(id, compiled.parameters))
    step, plain = wg.jit(step_of(compiled, zero)), step_of(evaluated, zero)
    for _ in range(5):
        loss, want = step(X.astype(dtype), Y), plain(X.astype(dtype), Y)
        assert loss.dtype == dtype
        np.testing.assert_allclose(
            float(loss), float(want), rtol=1e-5 if dtype == np.float32 else 1e-10
        )
        assert_same_state(compiled, evaluated, 2e-4 if dtype == np.float32 else 1e-10)
    assert list(map(id, compiled.parameters)) == before


def test_steady_state_is_native_and_in_place():
    model = MLP()
    step = wg.jit(step_of(model))
    step(X, Y)
    assert len(step._entries) == 1
    memory = [p.numpy().ctypes.data for p in model.parameters]
    called = []
    step._entries[0].next = lambda *args: called.append(args)
    for _ in range(3):
        assert step(X, Y) is not None
    assert not called
    assert [p.numpy().ctypes.data for p in model.parameters] == memory


def test_nothing_is_allocated_by_a_step():
    model = MLP()
    step = wg.jit(step_of(model))
    out = np.empty(())
    for _ in range(3):
        step(X, Y, out=out)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(100):
        step(X, Y, out=out)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 1000


def test_compiled_and_evaluated_steps_mix():
    compiled, evaluated = MLP(), MLP()
    step, plain_on_compiled = wg.jit(step_of(compiled)), step_of(compiled)
    plain = step_of(evaluated)
    for number in range(6):
        (plain_on_compiled if number % 3 == 2 else step)(X, Y)
        plain(X, Y)
        assert_same_state(compiled, evaluated)


def test_gradients_accumulate_until_zeroed_outside():
    w = wg.tensor([1.0, 2.0], requires_grad=True)

    @wg.jit
    def accumulate(x):
        np.sum(w * x).backward()

    x = np.array([3.0, 4.0])
    for count in range(1, 5):
        assert accumulate(x) is None
        np.testing.assert_array_equal(w.grad.numpy(), count * x)
    for _ in range(3):
        w.zero_grad()
        assert w.grad is None
        accumulate(x)
        np.testing.assert_array_equal(w.grad.numpy(), x)
    w.grad = np.array([10.0, 20.0])
    accumulate(x)
    np.testing.assert_array_equal(w.grad.numpy(), [13.0, 24.0])


def test_gradient_that_ends_absent():
    w = wg.tensor(2.0, requires_grad=True)

    @wg.jit
    def step(x):
        (w * w * x).backward()
        g = w.grad
        w.zero_grad()
        return g

    for _ in range(3):
        assert step(3.0) == 12.0
        assert w.grad is None
    w.grad = 1.0
    assert step(3.0) == 13.0
    assert w.grad is None


def test_the_function_may_ask_whether_there_is_a_gradient():
    w = wg.tensor(2.0, requires_grad=True)
    ask = wg.jit(lambda x: x * (1.0 if w.grad is None else w.grad * 10.0))
    assert ask(1.0) == 1.0
    w.grad = 3.0
    assert ask(1.0) == 30.0
    w.grad = 4.0
    assert ask(1.0) == 40.0
    w.grad = None
    assert ask(1.0) == 1.0


def test_counters_views_and_items():
    count = wg.tensor(0)
    table = wg.tensor(np.zeros((3, 2)))
    row = table[1]

    @wg.jit
    def f(x):
        nonlocal count
        count += 1
        table[0] = x
        row[:] = table[0] * 2.0
        table[2, 1] += 1.0
        return count * 1

    for number in range(1, 4):
        assert f(np.array([number, 5.0])) == number
        np.testing.assert_array_equal(
            table.numpy(), [[number, 5.0], [2 * number, 10.0], [0.0, number]]
        )
        np.testing.assert_array_equal(row.numpy(), [2 * number, 10.0])
    assert count.item() == 3


def test_two_functions_share_state():
    w = wg.tensor(np.ones(3))

    @wg.jit
    def grow(x):
        w[...] = w + x

    read = wg.jit(lambda x: w * x)
    for number in range(1, 4):
        grow(1.0)
        np.testing.assert_array_equal(read(2.0), np.full(3, 2.0 * (1 + number)))


def test_swap():
    a, b = wg.tensor(np.zeros(3)), wg.tensor(np.ones(3))

    @wg.jit
    def swap():
        old = a.copy()
        a[...] = b
        b[...] = old

    for number in range(1, 5):
        swap()
        np.testing.assert_array_equal(a.numpy(), np.full(3, number % 2))
        np.testing.assert_array_equal(b.numpy(), np.full(3, 1 - number % 2))


def test_attributes_and_a_method():
    class Counter:
        def __init__(self):
            self.total = wg.tensor(np.zeros(2))

        @wg.jit
        def add(self, x):
            self.total += x
            return self.total * 1.0

    one, two = Counter(), Counter()
    for _ in range(3):
        one.add(np.ones(2))
    two.add(np.ones(2))
    np.testing.assert_array_equal(one.total.numpy(), [3.0, 3.0])
    np.testing.assert_array_equal(two.total.numpy(), [1.0, 1.0])


def test_writes_outside_are_seen():
    w = wg.tensor(np.ones(3), requires_grad=True)
    f = wg.jit(lambda x: np.sum(w * x))
    x = np.arange(3.0)
    assert f(x) == 3.0
    with wg.no_grad():
        w[...] = 2.0
    assert f(x) == 6.0
    with wg.no_grad():
        w *= 10.0
    assert f(x) == 60.0
    w.numpy()[0] = 7.0
    assert w[0].item() == 7.0


def test_values_taken_before_do_not_change():
    w = wg.tensor(np.ones(2), requires_grad=True)
    copy, product = w.detach(), w * w

    @wg.jit
    def grow():
        with wg.no_grad():
            w.__iadd__(1.0)

    grow()
    after = w.detach()
    later = w * w
    grow()
    np.testing.assert_array_equal(copy.numpy(), [1.0, 1.0])
    np.testing.assert_array_equal(after.numpy(), [2.0, 2.0])
    np.sum(product).backward()
    np.testing.assert_array_equal(w.grad.numpy(), [2.0, 2.0])
    w.zero_grad()
    np.sum(later).backward()
    np.testing.assert_array_equal(w.grad.numpy(), [4.0, 4.0])
    np.testing.assert_array_equal(w.numpy(), [3.0, 3.0])


def test_an_argument_that_is_the_state_itself():
    w = wg.tensor(np.arange(4.0))

    @wg.jit
    def f(x):
        w[...] = x[::-1]
        return x * 1.0

    f(np.zeros(4))
    with wg.no_grad():
        w[...] = np.arange(4.0)
    np.testing.assert_array_equal(f(w.numpy()), np.arange(4.0))
    np.testing.assert_array_equal(w.numpy(), np.arange(4.0)[::-1])


def test_an_argument_that_is_a_strided_view_of_the_state():
    w = wg.tensor(np.arange(6.0))

    @wg.jit
    def f(x):
        w[...] = w + np.sum(x)
        return x * 1.0

    f(np.zeros(3))
    view = w.numpy()[::-2]
    for _ in range(3):
        want, total = view.copy(), w.numpy() + view.sum()
        np.testing.assert_array_equal(f(view), want)
        np.testing.assert_array_equal(w.numpy(), total)


# ---------------------------------------------------------------- in place or aside


def test_a_training_step_needs_no_room_for_new_state():
    model = MLP()
    step = wg.jit(step_of(model))
    step(X, Y)
    (program,) = next(iter(step._programs.values()))
    written = [state for state in program.state if state.written]
    assert len(written) == 8 and all(state.scratch is None for state in written)


def reverse(w, x):
    w[...] = w[::-1]


def centre(w, x):
    w -= np.mean(w)


def normalise(w, x):
    w *= 1.0 / np.sqrt(np.sum(w * w))


def old_value(w, x):
    old = w * 3.0
    w += x
    return old


def old_copy(w, x):
    old = w.copy()
    w += x
    return old, w * 1.0


def shifted(w, x):
    w[1:] = w[:-1] + x[1:]


def prefix(w, x):
    w[...] = np.cumsum(w) * x[0]


def outer(w, x):
    w[...] = np.sum(w[:, None] * w[None, :], axis=1)


def twice(w, x):
    w += x
    w *= w[::-1]


def in_part(w, x):
    w[2] = np.sum(w) * x[0]


def product(w, x):
    w[...] = np.diag(x) @ w


def parts(result):
    if result is None:
        return ()
    return result if isinstance(result, tuple) else (result,)


HAZARDS = [
    reverse,
    centre,
    normalise,
    old_value,
    old_copy,
    shifted,
    prefix,
    outer,
    twice,
    in_part,
    product,
]


@pytest.mark.parametrize("function", HAZARDS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("n", [4, 1003])
def test_old_content_is_read_before_it_is_lost(function, n):
    start = np.random.default_rng(n).standard_normal(n)
    x = np.random.default_rng(5).standard_normal(n)
    w, v = wg.tensor(start), wg.tensor(start)
    compiled = wg.jit(lambda x: function(w, x))
    for _ in range(3):
        got, want = compiled(x), function(v, x)
        np.testing.assert_allclose(w.numpy(), v.numpy(), rtol=1e-9, atol=1e-12)
        for one, other in zip(parts(got), parts(want), strict=True):
            np.testing.assert_allclose(one, other.numpy(), rtol=1e-9, atol=1e-12)


# ---------------------------------------------------------------- tensors made inside


def test_tensors_made_inside_are_new_for_every_call():
    start = np.ones(2)

    @wg.jit
    def f(x):
        t = wg.tensor(start, requires_grad=True)
        u = wg.tensor(x, requires_grad=True)
        np.sum(t * u * u).backward()
        with wg.no_grad():
            t += 1.0
        return t.grad, u.grad, t

    x = np.array([3.0, 4.0])
    for _ in range(3):
        t_grad, u_grad, t = f(x)
        np.testing.assert_array_equal(t_grad, x * x)
        np.testing.assert_array_equal(u_grad, 2 * x)
        np.testing.assert_array_equal(t, [2.0, 2.0])


def test_tensors_print_while_tracing():
    w, texts = wg.tensor(np.ones(2)), []

    @wg.jit
    def f(x):
        texts.append(repr(w * x))
        return x

    f(1.0)
    assert texts == ["tensor(abstract f64[2])"]


def test_a_leaked_tensor_is_found():
    kept = []

    @wg.jit
    def f(x):
        kept.append(wg.tensor(x) * 2.0)
        return x

    f(np.ones(2))
    with pytest.raises(LeakedTracerError):
        kept[0] + 1.0


def test_a_tensor_computed_outside():
    w = wg.tensor(np.ones(2), requires_grad=True)
    y = w * 3.0
    f = wg.jit(lambda x: np.sum(y * x))
    assert f(np.ones(2)) == 6.0
    np.sum(y).backward()
    np.testing.assert_array_equal(w.grad.numpy(), [3.0, 3.0])
    w.zero_grad()

    @wg.jit
    def g(x):
        np.sum(y * x).backward()

    with pytest.raises(DerivativeError, match="a tensor that was computed outside"):
        g(np.ones(2))
    assert w.grad is None


# ---------------------------------------------------------------- failures


def test_a_failing_trace_leaves_the_state():
    w = wg.tensor(np.ones(2), requires_grad=True)

    @wg.jit
    def f(x):
        np.sum(w * x).backward()
        with wg.no_grad():
            w.__iadd__(1.0)
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        f(np.ones(2))
    np.testing.assert_array_equal(w.numpy(), [1.0, 1.0])
    assert w.grad is None
    np.testing.assert_array_equal((w + 1.0).numpy(), [2.0, 2.0])


def test_a_failing_call_leaves_the_state():
    w, total = wg.tensor(np.zeros(4)), wg.tensor(0.0)

    @wg.jit
    def f(x, i):
        nonlocal total
        w[...] = w + x
        total += np.sum(w[i])
        return total * 1.0

    good, bad = np.array([0, 1]), np.array([0, 9])
    assert f(1.0, good) == 2.0
    for _ in range(2):
        with pytest.raises(OutOfRangeError):
            f(1.0, bad)
        np.testing.assert_array_equal(w.numpy(), np.ones(4))
        assert total.item() == 2.0
    assert f(1.0, good) == 6.0


def test_a_failing_numpy_part_leaves_the_state():
    w = wg.tensor(np.zeros((2, 2)))

    @wg.jit
    def f(x):
        w[...] = w + x
        return np.linalg.inv(x)

    f(np.eye(2))
    with pytest.raises(np.linalg.LinAlgError):
        f(np.zeros((2, 2)))
    np.testing.assert_array_equal(w.numpy(), np.eye(2))


def test_numbers_are_not_known_while_tracing():
    w = wg.tensor(1.0)
    for function in (lambda x: x * float(w), lambda x: x if w > 0 else -x):
        with pytest.raises(AbstractValueError):
            wg.jit(function, control="trace")(2.0)
    times, decides = wg.jit(lambda x: x * float(w)), wg.jit(lambda x: x if w > 0 else -x)
    assert (times(2.0), decides(2.0)) == (2.0, 2.0)
    w[...] = -1.0
    assert (times(2.0), decides(2.0)) == (-2.0, -2.0)
    w[...] = 1.0
    assert w.item() == 1.0


def test_a_leaf_cannot_be_written_with_gradients_on():
    w = wg.tensor(np.ones(2), requires_grad=True)

    def f(x):
        w[...] = x

    with pytest.raises(MutationError, match="is a leaf"):
        wg.jit(f)(np.ones(2))


def test_a_gradient_of_another_type_is_refused():
    w = wg.tensor(np.ones(2), requires_grad=True)

    def f(x):
        w.grad = x

    with pytest.raises(ValueError, match="the grad of a tensor becomes"):
        wg.jit(f)(np.ones(3))
    assert w.grad is None


# ---------------------------------------------------------------- nesting and threads


def test_a_compiled_function_inside_another():
    w = wg.tensor(np.zeros(2))

    @wg.jit
    def inner():
        w.__iadd__(1.0)

    @wg.jit
    def outer(x):
        inner()
        inner()
        return w * x

    inner()
    np.testing.assert_array_equal(outer(1.0), [3.0, 3.0])
    np.testing.assert_array_equal(outer(1.0), [5.0, 5.0])
    inner()
    np.testing.assert_array_equal(w.numpy(), [6.0, 6.0])


def test_transforms_inside():
    w = wg.tensor(np.array([1.0, 2.0]))

    @wg.jit
    def f(x):
        g = wg.grad(lambda v: np.sum(v * v * w))(x)
        w[...] = g
        return g

    x = np.array([3.0, 4.0])
    np.testing.assert_array_equal(f(x), [6.0, 16.0])
    np.testing.assert_array_equal(f(x), [36.0, 128.0])


def test_tensors_as_arguments_are_evaluated():
    f = wg.jit(lambda t, x: np.sum(t * x))
    t = wg.tensor(np.ones(2), requires_grad=True)
    loss = f(t, np.array([1.0, 2.0]))
    loss.backward()
    np.testing.assert_array_equal(t.grad.numpy(), [1.0, 2.0])


def test_threads_update_one_at_a_time():
    w = wg.tensor(np.zeros(200_000))

    @wg.jit
    def add(x):
        w[...] = w + x

    add(0.0)
    threads = [threading.Thread(target=lambda: [add(1.0) for _ in range(20)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(w.numpy(), np.full(200_000, 80.0))


def test_state_is_freed_with_its_tensors():
    def make():
        w = wg.tensor(np.zeros(1000))
        wg.jit(lambda x: w + x)(1.0)
        return weakref.ref(w._cell)

    memory = make()
    gc.collect()
    assert memory() is None


def test_memory_counts_state():
    model = MLP()
    step = wg.jit(step_of(model))
    size = sum(p.nbytes for p in model.parameters)
    assert step.memory(X, Y)["state"] == 2 * size


def test_dtype_errors_still_hold():
    with pytest.raises(DTypeError):
        wg.jit(lambda x: wg.tensor(x.astype(int), requires_grad=True))(np.ones(2))
    assert wnp.ones(2).dtype == float
