"""`verify` finds graphs that break the rules."""

import numpy as np
import pytest

import wengert as wg
from wengert.errors import GraphError
from wengert.graph import Constant, Graph, Operator, Variable, verify
from wengert.ops.elementwise import add, multiply, sin
from wengert.types import ArrayType

F64 = np.dtype(np.float64)
VECTOR = ArrayType(F64, (3,))


def test_good_graphs_pass():
    for f, args in (
        (lambda x: x, (1.0,)),
        (lambda x: np.sum(np.sin(x) @ x), (np.ones(3),)),
        (lambda x: (x + 1.0, None), (np.ones((2, 2), np.float32),)),
        (wg.grad(lambda x: np.sum(x**3)), (np.ones(3),)),
    ):
        graph = wg.trace(f, *args)
        assert verify(graph) is graph


def test_a_wrong_dtype():
    x = Variable("x", array_type=VECTOR)
    bad = Operator(sin, (x,), {}, array_type=ArrayType(np.dtype(np.float32), (3,)))
    with pytest.raises(GraphError) as caught:
        verify(Graph([x], [bad]))
    assert str(caught.value) == (
        "BroadcastedOperator(sin: f32[3]) has type f32[3], its operation says f64[3]"
    )


def test_a_wrong_shape():
    x = Variable("x", array_type=VECTOR)
    bad = Operator(sin, (x,), {}, array_type=ArrayType(F64, (4,)))
    with pytest.raises(GraphError, match=r"has type f64\[4\], its operation says f64\[3\]"):
        verify(Graph([x], [bad]))


def test_shapes_that_do_not_fit_together():
    x = Variable("x", array_type=VECTOR)
    y = Variable("y", array_type=ArrayType(F64, (4,)))
    bad = Operator(add, (x, y), {}, array_type=VECTOR)
    with pytest.raises(GraphError) as caught:
        verify(Graph([x, y], [bad]))
    assert "BroadcastedOperator(add: f64[3]) is not valid: add" in str(caught.value)
    assert "(3,) and (4,)" in str(caught.value)


def test_a_wrong_number_of_arguments():
    x = Variable("x", array_type=VECTOR)
    bad = Operator(multiply, (x,), {}, array_type=VECTOR)
    with pytest.raises(GraphError, match="is not valid"):
        verify(Graph([x], [bad]))


def test_use_before_definition():
    early = Operator(sin, [], {}, array_type=VECTOR)
    late = Variable("x", array_type=VECTOR)
    early._inputs = (late,)
    with pytest.raises(GraphError) as caught:
        verify(Graph([late], [early]))
    assert str(caught.value) == (
        "BroadcastedOperator(sin: f64[3]) uses Variable(f64[3]) before it is defined"
    )


def test_a_cycle():
    x = Variable("x", array_type=VECTOR)
    one = Operator(sin, (x,), {}, array_type=VECTOR)
    two = Operator(add, (one, x), {}, array_type=VECTOR)
    one._inputs = (two,)
    with pytest.raises(GraphError, match="before it is defined"):
        verify(Graph([x], [two]))


def test_a_variable_from_elsewhere():
    x = Variable("x", array_type=VECTOR)
    with pytest.raises(GraphError) as caught:
        verify(Graph([], [x]))
    assert str(caught.value) == "Variable(f64[3]) is a variable but not an input of the graph"


def test_a_constant_of_another_type():
    constant = Constant(np.ones(3), ArrayType(F64, (4,)))
    with pytest.raises(GraphError) as caught:
        verify(Graph([], [constant]))
    assert str(caught.value) == "Constant(f64[4]) does not have the type of its value"


def test_an_operation_with_several_results():
    graph = wg.trace(lambda a: np.linalg.slogdet(a)[1], np.eye(2))
    parent = graph.operators[0]
    parent._type = (parent.type[0],)
    with pytest.raises(GraphError, match="its operation says"):
        verify(graph)
