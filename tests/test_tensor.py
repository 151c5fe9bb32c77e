"""Define by run: tensors, `backward`, `parents`, `no_grad`."""

import copy
import gc
import pickle
import threading

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.errors import DTypeError, MutationError, ShapeError

X = np.array([0.3, 0.5, 0.7])


def leaf(data):
    return wg.tensor(data, requires_grad=True)


class TestBackward:
    def test_the_papers_example(self):
        x, y, z = leaf(-2.0), leaf(5.0), leaf(-4.0)
        f = (x + y) * z
        f.backward()
        assert f.item() == -12.0
        assert (x.grad.item(), y.grad.item(), z.grad.item()) == (-4.0, -4.0, 3.0)

    def test_composite_operators_are_forward_code(self):
        def sigmoid(t):
            return 1.0 / (1.0 + np.exp(-t))

        def mse(prediction, target):
            difference = prediction - target
            return np.mean(difference * difference)

        w, x, y = leaf(np.array([0.1, -0.2])), np.arange(6.0).reshape(3, 2), np.ones(3)
        loss = mse(sigmoid(x @ w), y)
        loss.backward()
        expected = wg.grad(lambda w: mse(sigmoid(x @ w), y))(w.numpy())
        np.testing.assert_allclose(w.grad.numpy(), expected, rtol=1e-14)

    @pytest.mark.parametrize(
        "f",
        [
            lambda t: np.sum(np.sin(t) * t), lambda t: wnp.logsumexp(t), lambda t: (t @ t) ** 0.5,
            lambda t: t.sum() / t.max() - t[0] * t[::2][1], lambda t: np.prod(t),
            lambda t: np.sum(wnp.where(t > 0.4, t, -t)), lambda t: np.sum(t.reshape(3, 1) * t),
            lambda t: np.linalg.norm(t),
            lambda t: np.sum(wnp.stack([t, t * 2]).T[1]), lambda t: np.sum(np.sort(-t) * X),
        ],
    )  # fmt: skip
    def test_equals_grad(self, f):
        t = leaf(X)
        f(t).backward()
        np.testing.assert_allclose(t.grad.numpy(), wg.grad(f)(X), rtol=1e-13)

    def test_gradients_accumulate(self):
        x = leaf(3.0)
        (x * x).backward()
        assert x.grad.item() == 6.0
        (x * 2.0).backward()
        assert x.grad.item() == 8.0
        x.zero_grad()
        assert x.grad is None
        (x * x).backward()
        assert x.grad.item() == 6.0
        x.grad = None
        assert x.grad is None

    def test_backward_twice_through_one_graph(self):
        x = leaf(3.0)
        y = x * x
        y.backward()
        y.backward()
        assert x.grad.item() == 12.0

    def test_shared_parts(self):
        x = leaf(2.0)
        y = x * x
        (y * y + y).backward()
        assert x.grad.item() == 4 * 8.0 + 4.0

    def test_accumulated_gradients_are_not_shared(self):
        x, y = leaf(X), leaf(X)
        np.sum(x + y).backward()
        x.grad.numpy()[0] = 99.0
        np.testing.assert_array_equal(y.grad.numpy(), np.ones(3))

    def test_seed(self):
        x = leaf(X)
        y = x * x
        y.backward(np.array([1.0, 0.0, 2.0]))
        np.testing.assert_allclose(x.grad.numpy(), [0.6, 0.0, 2.8])
        y.backward(wg.tensor([1.0, 1.0, 1.0]))
        np.testing.assert_allclose(x.grad.numpy(), [1.2, 1.0, 4.2])

    def test_only_leaves_that_ask_get_a_gradient(self):
        x, c = leaf(2.0), wg.tensor(3.0)
        y = x * c
        y.backward()
        assert c.grad is None and y.grad is None
        assert x.grad.item() == 3.0

    def test_dtypes(self):
        x = leaf(X.astype(np.float32))
        np.sum(np.sin(x) * 2.0).backward()
        assert x.grad.dtype == np.float32
        x = leaf(X.astype(np.float32))
        np.sum(x * X).backward()
        assert x.grad.dtype == np.float32

    def test_non_scalar_asks_for_a_seed(self):
        y = leaf(X) * 2.0
        with pytest.raises(ShapeError) as caught:
            y.backward()
        text = str(caught.value)
        assert text.startswith("backward (at test_tensor.py:")
        assert text.endswith(
            "): the tensor is f64[3], expected a scalar. "
            "Give a seed of its shape: t.backward(np.ones(t.shape)), or sum it first."
        )

    def test_wrong_seed(self):
        with pytest.raises(ShapeError) as caught:
            (leaf(X) * 2.0).backward(np.ones(2))
        assert str(caught.value).endswith(
            "): the seed has shape (2,), the tensor (3,). Give a seed of the tensor's shape."
        )

    def test_nothing_to_differentiate(self):
        with pytest.raises(DTypeError) as caught:
            (wg.tensor(2.0) * 3.0).backward()
        assert str(caught.value).endswith(
            "): the tensor does not depend on any tensor that requires a gradient. "
            "Make one with wg.tensor(data, requires_grad=True), outside no_grad()."
        )


class TestStructure:
    def test_parents(self):
        x, y = leaf(2.0), wg.tensor(3.0)
        z = x * y
        w = z + 1.0
        assert [p.item() for p in z.parents] == [2.0, 3.0]
        assert [p.item() for p in w.parents] == [6.0]
        assert x.parents == ()
        assert z.parents[0].is_leaf and z.parents[0].requires_grad
        assert not w.parents[0].is_leaf
        assert not z.parents[1].requires_grad

    def test_gradients_are_seen_through_parents(self):
        x = leaf(2.0)
        y = x * x
        y.backward()
        assert y.parents[0].grad.item() == 4.0

    def test_walking_to_the_leaves(self):
        x = leaf(2.0)
        node, depth = np.sin(np.exp(x * x)), 0
        while node.parents:
            node, depth = node.parents[0], depth + 1
        assert depth == 3 and node.item() == 2.0

    def test_detach(self):
        x = leaf(3.0)
        y = (x * x).detach()
        assert not y.requires_grad and y.parents == () and y.item() == 9.0
        (x * y).backward()
        assert x.grad.item() == 9.0

    def test_no_grad(self):
        x = leaf(3.0)
        with wg.no_grad():
            y = x * x
            assert not y.requires_grad and y.parents == ()
        assert (x * x).requires_grad
        (y * x).backward()
        assert x.grad.item() == 9.0

    def test_no_grad_ends_with_an_exception(self):
        x = leaf(3.0)
        with pytest.raises(ValueError), wg.no_grad():
            raise ValueError
        assert (x * x).requires_grad

    def test_no_grad_nests_and_is_of_its_thread(self):
        x, seen = leaf(3.0), []
        with wg.no_grad():
            with wg.no_grad():
                pass
            assert not (x * x).requires_grad
            thread = threading.Thread(target=lambda: seen.append((x * x).requires_grad))
            thread.start()
            thread.join()
        assert seen == [True]

    def test_constants_remember_nothing(self):
        y = wg.tensor(X) * 2.0 + np.sin(wg.tensor(X))
        assert y.parents == () and y.is_leaf and not y.requires_grad

    def test_discrete_results(self):
        x = leaf(X)
        assert not (x > 0.4).requires_grad
        assert not np.floor(x).requires_grad
        assert not wnp.argmax(x).requires_grad


class TestFace:
    def test_data_is_copied_in(self):
        a = np.ones(2)
        t = wg.tensor(a)
        a[0] = 5.0
        np.testing.assert_array_equal(t.numpy(), [1, 1])

    def test_of_lists_numbers_tensors_and_dtype(self):
        assert wg.tensor([[1, 2], [3, 4]]).shape == (2, 2)
        assert wg.tensor(1).dtype == np.int64
        assert wg.tensor([1.0], dtype=np.float32).dtype == np.float32
        assert wg.tensor(leaf(2.0)).item() == 2.0

    def test_deep_copies_and_pickles(self):
        x = leaf(X)
        for again in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
            assert again.requires_grad and again.is_leaf and again.grad is None
            np.sum(again * x).backward()
            np.testing.assert_array_equal(again.grad.numpy(), X)
        y = copy.deepcopy(x * 2.0)
        assert y.requires_grad and not y.is_leaf
        y = pickle.loads(pickle.dumps(x * 2.0))
        assert not y.requires_grad and y.tolist() == (2 * X).tolist()

    def test_repr(self):
        assert repr(wg.tensor([1.0, 2.0])) == "tensor([1., 2.], dtype=float64)"
        assert repr(leaf(np.float32(2))) == "tensor(2., dtype=float32, requires_grad=True)"

    def test_numbers(self):
        x = leaf(2.5)
        assert (float(x), int(x), bool(x), x.item(), x.tolist()) == (2.5, 2, True, 2.5, 2.5)
        assert f"{x * 2.0:.1f}" == "5.0"
        np.testing.assert_array_equal(np.asarray(leaf(X)), X)
        assert leaf(X).tolist() == X.tolist()

    def test_control_flow(self):
        x = leaf(2.0)
        y = x * 3.0 if x > 1 else x
        while y < 100:
            y = y * y
        y.backward()
        assert x.grad.item() == 4 * 3**4 * 2.0**3

    def test_wrong_data(self):
        with pytest.raises(DTypeError) as caught:
            wg.tensor("text")
        assert str(caught.value) == (
            "tensor: got 'text', expected numbers. Give an array, a list or a number."
        )
        with pytest.raises(DTypeError) as caught:
            leaf([1, 2])
        assert str(caught.value) == (
            "tensor: requires_grad needs floats, got int64. Use astype(float)."
        )

    def test_mixed_with_arrays_on_both_sides(self):
        x = leaf(X)
        a = np.arange(3.0)
        for y in (x + a, a + x, a * x - x / 2, np.float64(2) * x, a @ x, np.maximum(a, x)):
            assert isinstance(y, wg.Tensor) and y.requires_grad
        np.sum(a * x).backward()
        np.testing.assert_array_equal(x.grad.numpy(), a)


class TestWrites:
    def test_a_leaf_that_requires_a_gradient_is_not_written_to(self):
        x = leaf(X)
        for write in (
            lambda: x.__setitem__(0, 1.0),
            lambda: x.__iadd__(1.0),
            lambda: x[1:].__imul__(2.0),
            lambda: leaf(1.0).__iadd__(1.0),
        ):
            with pytest.raises(MutationError) as caught:
                write()
            assert str(caught.value).endswith(
                "): the tensor is a leaf that requires a gradient. "
                "Copy it first, or write under wg.no_grad()."
            )

    def test_computed_tensors_can_be_written_to(self):
        x = leaf(X)
        y = x * 2.0
        y[0] = 5.0
        y[1:] *= x[1:]
        np.sum(y).backward()
        np.testing.assert_allclose(y.numpy(), [5.0, 2 * 0.25, 2 * 0.49])
        np.testing.assert_allclose(x.grad.numpy(), [0.0, 4 * 0.5, 4 * 0.7])

    def test_a_copy_can_be_written_to(self):
        x = leaf(X)
        y = x.copy()
        y[0] = x[1] * 3.0
        np.sum(y).backward()
        np.testing.assert_allclose(x.grad.numpy(), [0.0, 4.0, 1.0])

    def test_traced_values_into_a_constant_tensor(self):
        x = leaf(2.0)
        t = wg.tensor(np.zeros(3))
        t[1] = x * x
        assert t.requires_grad
        np.sum(t * t).backward()
        assert x.grad.item() == 4 * 8.0

    @pytest.mark.parametrize("start", [2.0, np.array([2.0, 3.0])])
    def test_gradient_descent(self, start):
        w = leaf(start)
        alias = w
        for _ in range(100):
            loss = np.sum((w - 1.0) ** 2)
            loss.backward()
            with wg.no_grad():
                w -= 0.1 * w.grad
            w.zero_grad()
        assert w is alias and w.requires_grad and w.is_leaf
        np.testing.assert_allclose(w.numpy(), np.ones_like(start), atol=1e-8)

    def test_writes_to_parts_under_no_grad(self):
        w = leaf(np.zeros((2, 2)))
        with wg.no_grad():
            w[0] = 1.0
            w.T[0] += 5.0
        np.testing.assert_array_equal(w.numpy(), [[6, 1], [5, 0]])
        np.sum(w * w).backward()
        np.testing.assert_array_equal(w.grad.numpy(), [[12, 2], [10, 0]])

    def test_what_was_computed_before_a_write_keeps_its_values(self):
        w = leaf(np.array([1.0, 2.0]))
        before = np.sum(w**3)
        with wg.no_grad():
            w += 10.0
        before.backward()
        np.testing.assert_array_equal(w.grad.numpy(), [3.0, 12.0])
        assert before.item() == 9.0
        np.sum(w).backward()
        np.testing.assert_array_equal(w.grad.numpy(), [4.0, 13.0])


class TestWithTransforms:
    def test_grad_around(self):
        t = leaf(3.0)
        gradient = wg.grad(lambda x: x * x * t)(2.0)
        assert float(gradient) == 12.0
        (gradient * 1.0).backward()
        assert t.grad.item() == 4.0

    def test_transforms_of_tensors(self):
        t = leaf(X)
        gradient = wg.grad(lambda x: np.sum(x**3))(t)
        assert isinstance(gradient, wg.Tensor)
        np.testing.assert_allclose(gradient.numpy(), 3 * X**2)
        np.sum(gradient).backward()
        np.testing.assert_allclose(t.grad.numpy(), 6 * X)
        np.testing.assert_allclose(wg.vmap(np.sin)(t).numpy(), np.sin(X))

    def test_backward_inside_a_traced_function_is_of_its_own(self):
        def f(x):
            t = leaf(2.0)
            (t * t).backward()
            return x * t.grad.item()

        assert wg.grad(f)(5.0) == 4.0


class TestLong:
    def test_chain(self):
        x = leaf(1.0)
        y = x
        for _ in range(50_000):
            y = y * 1.00001 + 0.00001
        y.backward()
        np.testing.assert_allclose(x.grad.item(), 1.00001**50_000, rtol=1e-9)
        del y
        gc.collect()

    def test_what_is_not_needed_is_freed(self):
        x = leaf(np.ones(10))
        y = x
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(2000):
            y = x * 2.0
        assert len(gc.get_objects()) - before < 500
        assert y.requires_grad
