"""What a step keeps for its pullback."""

import numpy as np

import wengert as wg
import wengert.numpy as wnp
from wengert.graph import Operator
from wengert.transforms.loop import is_loop


def kept(step, start):
    """The shapes of the rows that the forward half of a scan keeps."""
    traced = wg.trace(wg.grad(lambda x: wnp.sum(wg.scan(step, x, length=5)[0])), start)
    forward = next(node for node in traced.nodes if is_loop(node))
    assert isinstance(forward, Operator)
    body = forward.params["body"]
    return [t.shape for t in body.types[body.carry :]]


def test_small_steps_keep_the_fewest_bytes():
    """What is quickly computed again from where a step began is not kept, in whatever pieces."""

    def step(y, _):
        moved = wnp.stack([y[1], y[2], y[0]]) + 1.0
        twice = moved * 2.0
        return moved * twice + twice * twice * y, None

    assert kept(step, np.ones(3)) == [(3,)]


def test_long_chains_are_not_computed_again():
    """A sum of many terms is kept, though all of them could be computed again."""

    def step(y, _):
        total = y
        for n in range(9):
            total = total + y * (n + 0.5)
        return total * total, None

    assert kept(step, np.ones(3)) == [(3,)]
    traced = wg.trace(wg.grad(lambda x: wnp.sum(wg.scan(step, x, length=5)[0])), np.ones(3))
    backward = [node for node in traced.nodes if is_loop(node)][-1].params["body"].graph
    assert len(backward.operators) < 30


def test_what_takes_long_is_kept():
    step = lambda y, _: (wnp.exp(y) * 0.1 + y * y, None)
    assert kept(step, np.ones(3)) == [(3,), (3,)]  # the carry and its exponential


def test_the_nearest_of_equal_cuts():
    """What is kept is computed again as little as possible."""
    step = lambda y, _: (wnp.sin((y + 1.0) * 2.0), None)
    traced = wg.trace(wg.grad(lambda x: wg.scan(step, x, length=5)[0]), 0.5)
    loops = [node for node in traced.nodes if is_loop(node)]
    backward = loops[-1].params["body"].graph
    assert len(loops) == 2
    assert not any(node.op.name == "add" for node in backward.operators)
