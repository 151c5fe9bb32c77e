"""Building, evaluating and differentiating a graph node by node."""

import gc
import time

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert.errors import DerivativeError, GraphError, ShapeError, StructureError
from wengert.graph import Constant, Graph, Operator, Variable, reachable, verify

LONG = 100_000


def s2(x, y, z):
    return (x + y) * z


def seconds(action):
    start = time.process_time()
    action()
    return time.process_time() - start


def test_the_papers_example():
    graph = wg.trace(s2, -2.0, 5.0, -4.0)
    assert float(graph.forward()) == -12.0
    graph.backward()
    assert [float(node.gradient) for node in graph.inputs] == [-4.0, -4.0, 3.0]
    assert [float(node.output) for node in graph.inputs] == [-2.0, 5.0, -4.0]
    inner = graph.operators[0]
    assert (float(inner.output), float(inner.gradient)) == (3.0, -4.0)
    assert float(graph.operators[1].gradient) == 1.0


def test_kinds_of_nodes():
    graph = wg.trace(lambda x, a: np.sum(a * 2.0 + x), 1.0, np.ones(3))
    kinds = [node.kind for node in graph.nodes]
    assert kinds == [
        "Variable", "Variable", "Constant", "BroadcastedOperator", "BroadcastedOperator",
        "ScalarOperator",
    ]  # fmt: skip
    x, a, two, product, _, total = graph.nodes
    assert isinstance(x, Variable) and x.name == "x" and a.name == "a"
    assert isinstance(two, Constant) and two.output == 2.0
    assert isinstance(product, Operator) and product.inputs == (a, two)
    assert repr(total) == "ScalarOperator(sum: f64)"
    assert repr(product) == "BroadcastedOperator(multiply: f64[3])"
    assert repr(two) == "Constant(f64*)"
    assert graph.outputs == [total]
    assert graph.operators == graph.nodes[3:]


def test_inputs_come_before_their_users():
    graph = wg.trace(lambda x: np.sin(x) * x + np.exp(x), 0.3)
    seen = set()
    for node in graph.nodes:
        assert all(source.serial in seen for source in node.inputs)
        seen.add(node.serial)


def test_dead_code_is_not_in_the_graph_but_unused_inputs_are():
    def f(x, y):
        np.exp(x)
        return x * 2.0

    graph = wg.trace(f, 1.0, 2.0)
    assert [node.op.name for node in graph.operators] == ["multiply"]
    assert [node.name for node in graph.inputs] == ["x", "y"]
    assert graph.inputs[1] in graph.nodes
    graph.backward()
    assert float(graph.inputs[1].gradient) == 0.0


def test_fed_new_values_many_times():
    graph = wg.trace(s2, 0.0, 0.0, 0.0)
    rng = np.random.default_rng(0)
    for _ in range(100):
        x, y, z = rng.normal(size=3)
        assert graph.forward(x, y, z) == (x + y) * z
        graph.backward()
        assert [float(node.gradient) for node in graph.inputs] == [z, z, x + y]
        assert graph(x, y, z) == (x + y) * z


def test_forward_clears_old_gradients():
    graph = wg.trace(s2, -2.0, 5.0, -4.0)
    graph.backward()
    graph.forward(1.0, 2.0, 3.0)
    assert all(node.gradient is None for node in graph.nodes)


def test_calling_leaves_the_nodes_alone():
    graph = wg.trace(s2, -2.0, 5.0, -4.0)
    assert graph(1.0, 1.0, 1.0) == 2.0
    assert float(graph.outputs[0].output) == -12.0


def test_backward_twice_does_not_add_up():
    graph = wg.trace(s2, -2.0, 5.0, -4.0)
    graph.backward()
    graph.backward()
    assert float(graph.inputs[2].gradient) == 3.0


def test_backward_with_a_seed():
    graph = wg.trace(lambda x: x * x, np.array([1.0, 2.0, 3.0]))
    graph.backward(np.array([1.0, 0.0, 10.0]))
    np.testing.assert_array_equal(graph.inputs[0].gradient, [2.0, 0.0, 60.0])
    assert graph.inputs[0].gradient.dtype == np.float64


def test_gradients_have_the_dtype_of_their_node():
    graph = wg.trace(lambda x: np.sum(x * 2.0), np.ones(3, np.float32))
    graph.backward()
    assert graph.inputs[0].gradient.dtype == np.float32


def test_trees_in_and_out():
    graph = wg.trace(lambda p, x: {"y": p["w"] * x, "n": None}, {"w": 2.0, "b": 3.0}, 4.0)
    assert graph.forward() == {"y": 8.0, "n": None}
    assert graph.forward({"w": 3.0, "b": 0.0}, 5.0) == {"y": 15.0, "n": None}
    assert graph({"w": 1.0, "b": 0.0}, 7.0) == {"y": 7.0, "n": None}


def test_results_that_are_inputs_or_constants():
    graph = wg.trace(lambda x: (x, 3.0, x), 2.0)
    assert graph.forward(5.0) == (5.0, 3.0, 5.0)
    graph = wg.trace(lambda x: 3.0, 2.0)
    graph.backward()
    assert float(graph.inputs[0].gradient) == 0.0


def test_a_graph_evaluates_traced_values():
    graph = wg.trace(lambda x: np.sin(x) * x, 0.0)
    np.testing.assert_allclose(wg.grad(graph)(0.5), np.sin(0.5) + 0.5 * np.cos(0.5), rtol=1e-15)
    np.testing.assert_allclose(
        wg.grad(wg.grad(graph))(0.5), 2 * np.cos(0.5) - 0.5 * np.sin(0.5), rtol=1e-14
    )


def test_a_graph_of_a_gradient():
    graph = wg.trace(wg.grad(lambda x: np.sum(np.sin(x) ** 2)), np.array([0.3, 0.4]))
    verify(graph)
    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(graph(x), np.sin(2 * x), rtol=1e-14)


def test_several_results_of_one_operation_are_items():
    graph = wg.trace(lambda a: wnp.linalg.slogdet(a)[1], np.eye(2) * 2)
    verify(graph)
    graph.backward()
    np.testing.assert_allclose(graph.inputs[0].gradient, np.eye(2) / 2, rtol=1e-15)
    np.testing.assert_allclose(graph(np.eye(2) * 3), np.log(9.0), rtol=1e-15)


class TestErrors:
    def test_number_of_arguments(self):
        graph = wg.trace(s2, 1.0, 2.0, 3.0)
        with pytest.raises(StructureError) as caught:
            graph.forward(1.0, 2.0)
        assert str(caught.value) == (
            "s2: got a tree of structure (*, *), expected (*, *, *). "
            "Give a tree with the same tuples, lists and dict keys."
        )

    def test_shape_of_an_argument(self):
        graph = wg.trace(lambda x: x * np.ones(3), np.ones(3))
        for feed in (graph, graph.forward):
            with pytest.raises(ShapeError) as caught:
                feed(np.ones(1))
            assert str(caught.value) == (
                "<lambda>: argument 'x' has shape (1,), the graph was traced for (3,). "
                "Trace the function again for the new shape."
            )

    def test_backward_of_several_results(self):
        with pytest.raises(GraphError) as caught:
            wg.trace(lambda x: (x, x), 1.0).backward()
        assert str(caught.value) == (
            "backward: the graph has 2 outputs, expected one. "
            "Trace a function that returns a single value."
        )

    def test_backward_needs_a_seed_of_the_outputs_shape(self):
        graph = wg.trace(lambda x: x * 2.0, np.ones(3))
        with pytest.raises(GraphError) as caught:
            graph.backward()
        assert str(caught.value) == (
            "backward: the output is f64[3], the seed f64*; expected the same shape. "
            "Give `seed` an array of the output's shape."
        )

    def test_backward_without_values(self):
        x = Variable("x", array_type=wg.trace(lambda x: x, 1.0).inputs[0].type)
        with pytest.raises(
            DerivativeError, match=r"the graph holds no values\. Call graph\.forward"
        ):
            Graph([x], [x]).backward()


class TestLong:
    """A chain of 100,000 operations: nothing recurses, everything is linear."""

    @staticmethod
    def chain(x):
        for _ in range(LONG // 2):
            x = x * 1.00001 + 0.00001
        return x

    def test_trace_forward_backward_print_delete(self):
        graph = wg.trace(self.chain, 1.0)
        assert len(graph.operators) == LONG
        expected = self.chain(1.0)
        np.testing.assert_allclose(graph.forward(1.0), expected, rtol=1e-12)
        graph.backward()
        np.testing.assert_allclose(graph.inputs[0].gradient, 1.00001 ** (LONG // 2), rtol=1e-9)
        assert str(graph).count("\n") == LONG + 1
        verify(graph)
        del graph
        gc.collect()

    def test_draw(self, tmp_path):
        def shorter(x):
            for _ in range(3000):
                x = x * 1.00001
            return x

        graph = wg.trace(shorter, 1.0)
        graph.draw(tmp_path / "long.dot")
        assert seconds(lambda: graph.draw(tmp_path / "long.svg")) < 5
        assert (tmp_path / "long.dot").read_text().count("->") == 6000

    def test_grad(self):
        np.testing.assert_allclose(wg.grad(self.chain)(1.0), 1.00001 ** (LONG // 2), rtol=1e-9)

    def test_jvp(self):
        _, tangent = wg.jvp(self.chain, (1.0,), (1.0,))
        np.testing.assert_allclose(tangent, 1.00001 ** (LONG // 2), rtol=1e-9)

    def test_vmap(self):
        out = wg.vmap(self.chain)(np.array([1.0, 2.0]))
        np.testing.assert_allclose(out, [self.chain(1.0), self.chain(2.0)], rtol=1e-12)

    def test_linear_time(self):
        def of_length(count):
            def f(x):
                for _ in range(count):
                    x = x * 1.00001
                return x

            return min(seconds(lambda: wg.grad(f)(1.0)) for _ in range(3))

        of_length(100)
        assert of_length(20_000) < 60 * of_length(1_000)  # 20 if linear, 400 if quadratic


class TestSharing:
    """2^40 paths from the input to the output."""

    @staticmethod
    def doubled(x):
        for _ in range(40):
            x = x + x
        return x

    def test_graph(self):
        graph = wg.trace(self.doubled, 1.0)
        assert len(graph.operators) == 40
        assert graph.forward(3.0) == 3.0 * 2.0**40
        graph.backward()
        assert graph.inputs[0].gradient == 2.0**40
        assert len(reachable(graph.outputs)) == 41
        verify(graph)
        assert str(graph).count("\n") == 41

    def test_transforms(self):
        assert wg.grad(self.doubled)(1.0) == 2.0**40
        assert wg.jvp(self.doubled, (1.0,), (1.0,))[1] == 2.0**40
        np.testing.assert_array_equal(wg.vmap(self.doubled)(np.ones(2)), [2.0**40] * 2)

    def test_second_order(self):
        def f(x):
            for _ in range(40):
                x = x * x / x + x
            return x

        assert wg.grad(f)(1.0) == pytest.approx(2.0**40)
        assert wg.grad(wg.grad(f))(1.0) == pytest.approx(0.0, abs=1e-3 * 2.0**40)

    def test_tensor(self):
        x = wg.tensor(1.0, requires_grad=True)
        self.doubled(x).backward()
        assert x.grad.item() == 2.0**40
