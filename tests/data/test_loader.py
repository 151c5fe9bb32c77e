"""Batches, their order, going on where one stopped; folds; splits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wengert as wg
from wengert import data, errors
from wengert.numpy import random


def small_split(count=6):
    images = np.arange(count * 4, dtype=np.uint8).reshape(count, 2, 2) * 5
    return data.Split(images, np.arange(count) % 3)


class TestOrder:
    def test_it_is_what_the_documents_say(self):
        for seed, epoch in ((0, 0), (3, 1), (2**70, 12)):
            key = random.fold_in(random.key(seed), epoch)
            expected = random.permutation(key, 50)
            np.testing.assert_array_equal(data.epoch_order(50, seed, epoch), expected)

    def test_it_is_a_new_permutation_each_epoch(self):
        orders = [tuple(data.epoch_order(100, 1, epoch)) for epoch in range(5)]
        assert len(set(orders)) == 5
        assert all(sorted(order) == list(range(100)) for order in orders)
        assert orders[0] != tuple(data.epoch_order(100, 2, 0))

    def test_it_compiles_with_the_epoch_as_an_argument(self):
        compiled = wg.jit(lambda epoch: data.epoch_order(20, 7, epoch))
        for epoch in (0, 5):
            expected = data.epoch_order(20, 7, epoch)
            np.testing.assert_array_equal(compiled(np.int64(epoch)), expected)


class TestLoader:
    @given(st.integers(0, 40), st.integers(1, 12), st.booleans(), st.booleans())
    @settings(max_examples=60, deadline=None)
    def test_every_example_comes_once(self, count, size, shuffle, drop_last):
        loader = data.Loader(np.arange(count), size, shuffle, seed=1, drop_last=drop_last)
        batches = list(loader)
        assert len(batches) == len(loader)
        assert all(len(batch) == size for batch in batches[: None if drop_last else -1])
        seen = np.concatenate([np.arange(0), *batches])
        assert len(set(seen.tolist())) == len(seen)
        assert len(seen) == (count - count % size if drop_last else count)

    def test_trees_keep_their_structure_and_rows_stay_together(self):
        tree = {"x": np.arange(20).reshape(10, 2), "more": (np.arange(10) * 2, [np.arange(10)])}
        for batch in data.Loader(tree, 3, shuffle=True):
            row = batch["more"][1][0]
            np.testing.assert_array_equal(batch["x"], np.stack([row * 2, row * 2 + 1], axis=1))
            np.testing.assert_array_equal(batch["more"][0], row * 2)

    def test_named_tuples(self):
        for batch in data.Loader(data.circles(10), 5):
            assert isinstance(batch, data.Examples) and batch.x.shape == (5, 2)

    def test_in_order_batches_are_views_and_shuffled_ones_are_not(self):
        array = np.arange(10.0)
        assert all(np.shares_memory(batch, array) for batch in data.Loader(array, 4))
        shuffled = data.Loader(array, 4, shuffle=True)
        assert not any(np.shares_memory(batch, array) for batch in shuffled)

    def test_epochs_follow_the_order(self):
        loader = data.Loader(np.arange(10), 4, shuffle=True, seed=5)
        for epoch in range(3):
            assert loader.epoch == epoch
            seen = np.concatenate(list(loader))
            np.testing.assert_array_equal(seen, data.epoch_order(10, 5, epoch))

    def test_a_loop_left_early_ends_its_epoch(self):
        loader = data.Loader(np.arange(10), 4, shuffle=True)
        iter(loader)  # asks for no batch: the epoch has not begun
        first = next(iter(loader))
        np.testing.assert_array_equal(first, data.epoch_order(10, 0, 0)[:4])
        np.testing.assert_array_equal(next(iter(loader)), data.epoch_order(10, 0, 1)[:4])

    @given(st.integers(0, 12))
    @settings(max_examples=13, deadline=None)
    def test_going_on_gives_what_would_have_come(self, stop):
        def loader():
            return data.Loader(np.arange(10), 3, shuffle=True, seed=2)

        def batches(one, epochs):
            return (batch.tolist() for _ in range(epochs) for batch in one)

        expected = list(batches(loader(), 4))
        interrupted = loader()
        run = batches(interrupted, 4)
        seen = [next(run) for _ in range(stop)]
        resumed = loader()
        resumed.state = dict(interrupted.state)
        seen += list(batches(resumed, 4 - resumed.epoch))
        assert seen == expected

    def test_state_is_plain_integers(self):
        state = data.Loader(np.arange(10), 3, shuffle=True).state
        assert state == {
            "epoch": 0, "batch": 0,
            "count": 10, "batch_size": 3, "shuffle": 1, "seed": 0, "drop_last": 0,
        }  # fmt: skip
        assert all(type(value) is int for value in state.values())

    def test_state_of_another_loader(self):
        loader = data.Loader(np.arange(10), 3)
        with pytest.raises(errors.DataError) as caught:
            loader.state = data.Loader(np.arange(10), 4).state
        assert str(caught.value).endswith(
            "the state has batch_size=4, this loader batch_size=3. "
            "Resume with a loader of the same data and arguments."
        )
        with pytest.raises(errors.OutOfRangeError) as caught:
            loader.state = {**loader.state, "batch": 9}
        assert str(caught.value).endswith(
            "the state has epoch=0, batch=9, expected an epoch that is not negative and at most "
            "4 batches."
        )

    def test_splits_come_as_floats(self):
        split = small_split()
        for x, y in data.Loader({"it": split}, 4, shuffle=True).__iter__().__next__().values():
            rows = data.epoch_order(6, 0, 0)[:4]
            np.testing.assert_array_equal(x, split.x[rows])
            np.testing.assert_array_equal(y, split.y[rows])
        (x, _), *_ = data.Loader(split[:3], 2)
        assert x.dtype == np.float32 and x.shape == (2, 1, 2, 2)

    @pytest.mark.parametrize(
        ("arrays", "size", "error", "said"),
        [
            ((), 2, errors.ShapeError, "got no arrays. Hand over at least one."),
            (3.0, 2, errors.ShapeError, "got a number, expected arrays of examples."),
            (
                (np.ones(3), np.ones(4)),
                2,
                errors.ShapeError,
                "the arrays have 3, 4 rows. The first axes count the examples and must agree.",
            ),
            (np.ones(3), 0, errors.OutOfRangeError, "got batch_size=0, expected at least 1."),
            (np.ones(3), 2.5, errors.DTypeError, "batch_size=2.5, expected a whole number."),
        ],
    )
    def test_errors(self, arrays, size, error, said):
        with pytest.raises(error) as caught:
            data.Loader(arrays, size)
        assert str(caught.value).startswith("Loader (at ")
        assert str(caught.value).endswith(said)


class TestFolds:
    @given(st.integers(2, 30), st.integers(2, 6), st.sampled_from([None, 0, 4]))
    @settings(max_examples=50, deadline=None)
    def test_each_example_is_tested_once(self, count, folds, seed):
        if folds > count:
            return
        pairs = list(data.kfold(count, folds, seed))
        assert len(pairs) == folds
        assert sorted(np.concatenate([test for _, test in pairs])) == list(range(count))
        for train, test in pairs:
            assert sorted([*train, *test]) == list(range(count))
            assert count // folds <= len(test) <= count // folds + 1

    def test_seeds(self):
        tests = [next(data.kfold(50, 5, seed))[1].tolist() for seed in (0, 0, 1, None)]
        assert tests[0] == tests[1] != tests[2]
        assert tests[3] == list(range(10))

    def test_trees_and_splits(self):
        x, y = data.circles(20)
        rows = list(data.kfold(20, 4))
        for (train, test), (train_rows, test_rows) in zip(data.kfold((x, y), 4), rows, strict=True):
            np.testing.assert_array_equal(train[0], x[train_rows])
            np.testing.assert_array_equal(test[1], y[test_rows])
        train, test = next(data.kfold(small_split(), 3))
        assert isinstance(train, data.Split) and (len(train), len(test)) == (4, 2)
        assert train.images.dtype == np.uint8

    def test_errors(self):
        with pytest.raises(errors.OutOfRangeError) as caught:
            data.kfold(3, folds=4)
        assert str(caught.value).endswith("got folds=4 for 3 examples, expected 2 to 3.")
        with pytest.raises(errors.OutOfRangeError, match="got folds=1 for 3 examples"):
            data.kfold(np.ones(3), folds=1)


class TestSplit:
    def test_pixels_are_exact(self):
        images = np.arange(256, dtype=np.uint8).reshape(1, 16, 16)
        split = data.Split(images, [0])
        expected = (images[0] / 255).astype(np.float32)
        np.testing.assert_array_equal(split.x[0, 0], expected)
        np.testing.assert_array_equal(split.batch(np.array([0])).x, split.x)
        compiled = wg.jit(lambda pixels: pixels.astype(np.float32) / np.float32(255))
        np.testing.assert_array_equal(compiled(images)[:, None], split.x)

    def test_floats_are_made_once(self):
        split = small_split()
        assert split.x is split.x
        assert split.y is split.labels

    def test_cutting(self):
        split = small_split()
        assert len(split[2:4]) == 2 and np.shares_memory(split[2:4].images, split.images)
        assert split[np.array([3, 1])].y.tolist() == [0, 1]
        assert split[split.y == 2].y.tolist() == [2, 2]
        assert split[-1].y.tolist() == [2] and split[0].y.tolist() == [0]
        with pytest.raises(IndexError) as caught:
            split[6]
        assert str(caught.value).endswith("got the row 6, expected one of 6.")

    def test_lengths_must_agree(self):
        with pytest.raises(errors.DataError) as caught:
            data.Split(np.zeros((2, 3, 3), np.uint8), [1])
        assert str(caught.value).endswith("got 2 images and 1 labels.")


class TestCircles:
    def test_the_rule(self):
        x, y = data.circles()
        assert x.shape == (10_000, 2) and x.dtype == np.float32 and y.dtype == np.int64
        assert x.min() >= 0 and x.max() < 1
        outside = ((x.astype(float) - 0.5) ** 2).sum(axis=1) > 1 / (2 * np.pi)
        np.testing.assert_array_equal(y, outside)
        assert abs(y.mean() - 0.5) < 0.02

    def test_seeds(self):
        np.testing.assert_array_equal(data.circles(5, 3).x, data.circles(5, 3).x)
        assert (data.circles(5, 3).x != data.circles(5, 4).x).any()
        with pytest.raises(errors.OutOfRangeError) as caught:
            data.circles(-1)
        assert str(caught.value).endswith("got n=-1, expected at least 0.")
