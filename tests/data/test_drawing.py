"""Drawn digits: the same bits, all shapes, a cache that mends itself, errors."""

import hashlib

import numpy as np
import pytest

from wengert import data, errors
from wengert.data import drawing, places, strokes

TRAIN_SUM = "bbcf8dd4d7f5d8db17d15904e926c33f11ab96ad84a0d857df2cb20603a0df3a"
TEST_SUM = "91dd6a2426e5410867f9cbb581a7602c6ec8ca72d0936b326da09620f6a8d30e"


@pytest.fixture(scope="module")
def thousand():
    return data.digits(train=1000, test=500, seed=0)


def sum_of(split):
    return hashlib.sha256(split.images.tobytes() + split.labels.tobytes()).hexdigest()


def test_the_bits_are_these(thousand):
    """A change of the images must be meant; then DRAWING changes, too."""
    assert drawing.DRAWING == 1
    assert (
        sum_of(thousand.train) == "bbcf8dd4d7f5d8db17d15904e926c33f11ab96ad84a0d857df2cb20603a0df3a"
    )
    assert (
        sum_of(thousand.test) == "91dd6a2426e5410867f9cbb581a7602c6ec8ca72d0936b326da09620f6a8d30e"
    )


def test_smaller_sets_are_beginnings(thousand):
    fewer = data.digits(train=730, test=3)
    np.testing.assert_array_equal(fewer.train.images, thousand.train.images[:730])
    np.testing.assert_array_equal(fewer.test.y, thousand.test.y[:3])
    assert len(data.digits(0, 0).train) == 0


def test_seeds_and_splits_differ(thousand):
    other = data.digits(500, 0, seed=1)
    assert (other.train.images != thousand.train.images[:500]).any(axis=(1, 2)).all()
    assert (thousand.test.images != thousand.train.images[:500]).any(axis=(1, 2)).all()


def test_all_digits_come_about_as_often(thousand):
    counts = np.bincount(thousand.train.y, minlength=10)
    assert len(counts) == 10 and counts.min() > 60 and counts.max() < 140


def test_they_are_images_of_digits(thousand):
    images = thousand.train.images.astype(float)
    ink = (images > 128).mean(axis=(1, 2))
    assert ink.min() > 0.02 and ink.max() < 0.5
    border = np.concatenate([images[:, 0], images[:, -1], images[:, :, 0], images[:, :, -1]], 1)
    assert (border > 128).mean() < 0.03
    assert images.max(axis=(1, 2)).min() > 150


def test_neighbours_mostly_agree(thousand):
    """A nearest neighbour knows most digits, and the label decides: shuffled labels it does not."""
    train, test = (s.images.reshape(len(s), -1) / 255.0 for s in thousand)
    distance = (train**2).sum(1) - 2 * test @ train.T
    nearest = distance.argmin(axis=1)
    right = (thousand.train.y[nearest] == thousand.test.y).mean()
    assert 0.7 < right < 0.99


def test_every_shape_fits_its_box():
    for digit in strokes.shapes():
        assert len(digit) >= 3
        for shape in digit:
            assert len(shape.controls) <= strokes.MAX_CONTROLS
            assert shape.weights.shape == shape.taken.shape == (4, strokes.SAMPLES)
            np.testing.assert_allclose(shape.weights.sum(axis=0), 1)
            way = (shape.controls[shape.taken] * shape.weights[..., None]).sum(axis=0)
            assert abs(way).max() < 1.1
            assert shape.starts[0]


def test_curves_pass_through_their_points():
    shape = strokes._shape([strokes.pen("0,0 1,0 1,1 0,1")])
    way = (shape.controls[shape.taken] * shape.weights[..., None]).sum(axis=0)
    for point in shape.controls:
        assert np.abs(way - point).sum(axis=1).min() < 0.05
    np.testing.assert_allclose(way[[0, -1]], [[0, 0], [0, 1]])


class TestCache:
    @pytest.fixture(autouse=True)
    def keep_small_ones(self, monkeypatch):
        monkeypatch.setattr(drawing, "_WORTH_KEEPING", 10)

    def kept(self):
        return places.cache_folder() / "digits-1-20-5-3"

    def test_kept_and_read_back(self, monkeypatch, capsys):
        first = data.digits(20, 5, seed=3)
        assert places.intact(self.kept())
        assert capsys.readouterr().err == "drawing digits (25 images) ...\n"
        monkeypatch.setattr(drawing, "draw", lambda key: pytest.fail("drawn again"))
        again = data.digits(20, 5, seed=3)
        assert sum_of(again.train) == sum_of(first.train)
        assert sum_of(again.test) == sum_of(first.test)
        assert repr(again) == repr(first)

    @pytest.mark.parametrize("damage", [b"", b"\0\0\x08\x01\0\0\0\x01!", None])
    def test_a_damaged_one_is_drawn_again(self, damage):
        first = data.digits(20, 5, seed=3)
        path = self.kept() / "train-images-idx3-ubyte"
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]) if damage is None else damage)
        assert sum_of(data.digits(20, 5, seed=3).train) == sum_of(first.train)
        assert path.read_bytes() == content

    def test_without_a_place_to_keep_it(self, tmp_path):
        (tmp_path / "cache").write_bytes(b"a file")
        with pytest.warns(RuntimeWarning, match="wengert cannot keep digits-1-20-5-3"):
            assert len(data.digits(20, 5, seed=3).train) == 20


def test_errors():
    with pytest.raises(errors.OutOfRangeError) as caught:
        data.digits(train=-1)
    assert str(caught.value).endswith("got train=-1, expected 0 to 10,000,000.")
    with pytest.raises(errors.DTypeError, match="got the seed -1"):
        data.digits(10, 10, seed=-1)


@pytest.mark.slow
def test_the_whole_set_is_drawn_in_time():
    import time

    start = time.process_time()
    data.digits(10_000, 0, seed=9)
    assert time.process_time() - start < 10 / 7
