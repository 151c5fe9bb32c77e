"""Trees of arrays."""

import dataclasses
from collections import OrderedDict, namedtuple

import numpy as np
import pytest

from wengert import tree
from wengert.errors import StructureError
from wengert.transforms.batching import broadcast_prefix

Point = namedtuple("Point", "x y")


@dataclasses.dataclass
class Node:
    value: object
    child: object = None
    count: int = dataclasses.field(default=0, init=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    a: object


class Plain:
    pass


ROUND_TRIPS = [
    1.0, None, (), [], {}, (1, (2, [3, {"a": 4}])), {"b": 1, "a": (2, None)}, Point(1, Point(2, 3)),
    Slotted((1, 2)), [None, [None]], {1: "x", "a": 2},
]  # fmt: skip


@pytest.mark.parametrize("value", ROUND_TRIPS, ids=repr)
def test_round_trip(value):
    leaves, structure = tree.flatten(value)
    assert tree.unflatten(structure, leaves) == value
    assert type(tree.unflatten(structure, leaves)) is type(value)
    assert structure.leaf_count == len(leaves)
    assert tree.flatten(value)[1] == structure
    assert hash(tree.flatten(value)[1]) == hash(structure)


def test_order_of_leaves():
    assert tree.leaves({"b": (1, 2), "a": [3], "c": None}) == [3, 1, 2]


def test_dataclasses_keep_fields_without_init():
    node = Node(1.0, Node(2.0))
    node.count = 7
    again = tree.map(lambda x: x * 10, node)
    assert (again.value, again.child.value, again.count) == (10.0, 20.0, 70)
    assert type(again) is Node


def test_structures_differ():
    different = [1, (1,), [1], {"a": 1}, {"b": 1}, (1, 2), Point(1, 2), None, ()]
    structures = [tree.flatten(value)[1] for value in different]
    for i, one in enumerate(structures):
        for j, other in enumerate(structures):
            assert (one == other) == (i == j)
    assert structures[0] != "leaf"


def test_structures_are_shown_with_stars():
    assert repr(tree.flatten({"a": (1, None), "b": [2]})[1]) == "{'a': (*, None), 'b': [*]}"


def test_arrays_strings_and_unknown_objects_are_leaves():
    thing, array = Plain(), np.ones(3)
    leaves = tree.leaves([thing, array, "text", {1, 2}])
    assert leaves[0] is thing and leaves[1] is array and leaves[2:] == ["text", {1, 2}]
    assert len(tree.leaves(OrderedDict(a=1))) == 1


def test_a_dataclass_type_is_a_leaf():
    assert tree.leaves([Node]) == [Node]


def test_map():
    assert tree.map(lambda a, b: a + b, {"x": (1, 2)}, {"x": (10, 20)}) == {"x": (11, 22)}
    with pytest.raises(StructureError) as caught:
        tree.map(lambda a, b: a, (1, 2), [1, 2])
    assert str(caught.value) == (
        "tree.map: got a tree of structure [*, *], expected (*, *). "
        "Give a tree with the same tuples, lists and dict keys."
    )


def test_dicts_are_rebuilt_in_their_own_order():
    given = {"b": 1, "a": {"z": 2, 3: 4}}
    leaves, structure = tree.flatten(given)
    assert leaves == [4, 2, 1]  # the sorted order, in which those of other dicts come too
    assert str(tree.unflatten(structure, leaves)) == str(given)
    other = tree.flatten({"a": {3: 4, "z": 2}, "b": 1})[1]
    assert structure != other and other != structure
    assert structure.fits(other) and other.fits(structure)
    assert not structure.fits(tree.flatten({"b": 1, "c": {"z": 2, 3: 4}})[1])
    assert list(tree.map(lambda x, y: x + y, {"b": 1, "a": 2}, {"a": 3, "b": 4}).items()) == [
        ("b", 5),
        ("a", 5),
    ]


def test_register():
    class Bag:
        def __init__(self, items, label):
            self.items, self.label = items, label

    assert len(tree.leaves(Bag([1, 2], "mine"))) == 1
    tree.register(Bag, lambda bag: (bag.items, bag.label), lambda label, items: Bag(items, label))
    doubled = tree.map(lambda x: 2 * x, Bag([1, 2], "mine"))
    assert (doubled.items, doubled.label) == ([2, 4], "mine")
    assert tree.flatten(Bag([1], "a"))[1] != tree.flatten(Bag([1], "b"))[1]


class TestPrefix:
    structure = tree.flatten((1, {"a": 2, "b": [3, 4]}))[1]

    @pytest.mark.parametrize(
        "prefix, expected",
        [
            (0, [0, 0, 0, 0]), (None, [None] * 4), ((0, None), [0, None, None, None]),
            ((0, {"a": 1, "b": 2}), [0, 1, 2, 2]), ([0, {"a": 1, "b": (2, 3)}], [0, 1, 2, 3]),
        ],
    )  # fmt: skip
    def test_spreads(self, prefix, expected):
        assert broadcast_prefix(prefix, self.structure, "f") == expected

    @pytest.mark.parametrize("prefix", [(0,), (0, {"a": 1}), {"a": 0}, (0, (1, 2))])
    def test_does_not_fit(self, prefix):
        with pytest.raises(StructureError) as caught:
            broadcast_prefix(prefix, self.structure, "f")
        assert str(caught.value).startswith("f: got the prefix ")
        assert str(caught.value).endswith("Give a single value, or one per argument.")


def test_iterating_leaves_of_a_long_list():
    many = list(range(100_000))
    assert tree.leaves(many) == many
