"""The one walk that rewriting is made of."""

import numpy as np

from wengert.graph import Operator, verify
from wengert.graph.rewrite import copied, rewrite, with_nodes
from wengert.ops import REGISTRY
from wengert.trace import trace

X = np.array([0.5, 1.5])


def graph():
    return trace(lambda x: (np.sin(x) * x, np.exp(x)), X)


def test_nothing_changes_where_nothing_is_changed():
    before = graph()
    new = rewrite(before.nodes, lambda node, new: None)
    assert all(new[node.serial] is node for node in before.nodes)


def test_what_reads_a_new_node_is_new_and_the_rest_stays():
    before = graph()
    sine = next(node for node in before.operators if node.op.name == "sin")

    def change(node, new):
        if node is sine:
            return Operator(REGISTRY["cos"], (new[node.inputs[0].serial],), {}, None, node.type)
        return None

    after = verify(with_nodes(before, rewrite(before.nodes, change)))
    np.testing.assert_array_equal(after.evaluate([X])[0], np.cos(X) * X)
    assert after.outputs[1] is before.outputs[1]
    assert after.outputs[0] is not before.outputs[0]


def test_what_is_given_stays_and_copies_know_their_line():
    before = graph()
    (variable,) = before.inputs
    product = before.outputs[0]
    new = rewrite(before.nodes, lambda node, new: None, {variable.serial: before.outputs[1]})
    assert new[variable.serial] is before.outputs[1]
    assert new[product.serial].source == product.source
    again = copied(product, product.inputs)
    assert again is not product and (again.op, again.type) == (product.op, product.type)
