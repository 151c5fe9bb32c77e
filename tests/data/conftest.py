"""A small data set in MNIST's format, a cache of one's own, and no network."""

import dataclasses
import gzip
import hashlib

import numpy as np
import pytest

from wengert import data
from wengert.data import catalog, images, places


@pytest.fixture(autouse=True)
def own_places(monkeypatch, tmp_path):
    """Nothing that this machine has is found, and nothing is left on it."""
    monkeypatch.delenv("WENGERT_DATA", raising=False)
    monkeypatch.setattr(places, "DEBIAN", tmp_path / "debian")
    monkeypatch.setattr(places, "user_cache_folder", lambda: tmp_path / "cache")


@pytest.fixture
def files():
    """The four files of a data set of 7 and 3 images, unpacked, by name."""
    random = np.random.default_rng(0)
    contents = []
    for count in (7, 3):
        pixels = random.integers(0, 256, (count, 28, 28), np.uint8)
        contents += [pixels, random.integers(0, 10, count).astype(np.uint8)]
    return {
        name: data.write_idx(array) for name, array in zip(catalog.FILES, contents, strict=True)
    }


@pytest.fixture
def entry(files, monkeypatch):
    """That data set, known under the name of MNIST."""
    sums = tuple(hashlib.sha256(content).hexdigest() for content in files.values())
    small = dataclasses.replace(catalog.MNIST, sums=sums, mirrors=(), packages=())
    monkeypatch.setattr(images, "MNIST", small)
    monkeypatch.setattr(places, "ENTRIES", (small, catalog.FASHION))
    return small


@pytest.fixture
def put(files):
    """Write the files into a folder, packed or not."""

    def write(folder, packed=True, **changed):
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in {**files, **changed}.items():
            path = folder / (f"{name}.gz" if packed else name)
            path.write_bytes(gzip.compress(content, 1) if packed else content)
        return folder

    return write
