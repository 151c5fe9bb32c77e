"""The fingerprint of sources follows their content, and is read again only where it may differ."""

import os

import pytest

from wengert.codegen import sources
from wengert.codegen.cache import ObjectCache
from wengert.codegen.sources import fingerprint_of, source_fingerprint


@pytest.fixture
def cache(tmp_path):
    return ObjectCache(tmp_path / "cache")


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "package"
    made.mkdir()
    return made


@pytest.fixture(params=["settled", "changed just now"])
def tick(request, monkeypatch):
    monkeypatch.setattr(sources, "TICK", 0 if request.param == "settled" else sources.TICK)


def test_it_is_stable():
    source_fingerprint.cache_clear()
    first = source_fingerprint()
    source_fingerprint.cache_clear()
    assert source_fingerprint() == first is not None


def test_a_source_that_changes_at_the_same_size_and_time_is_another(folder, cache, tick):
    assert fingerprint_of(str(folder), cache) is None
    file = folder / "inside" / "source.py"
    file.parent.mkdir()
    found = set()
    for text in ("a = 1", "a = 2", "b = 1"):
        # a file of its own: two writes may fall into one tick of the clock
        (folder / "new").write_text(text)
        (folder / "new").replace(file)
        os.utime(file, (1, 1))
        for _ in range(2):
            found.add(fingerprint_of(str(folder), cache))
    file.rename(folder / "source.py")
    found.add(fingerprint_of(str(folder), cache))
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "source.cpython-311.pyc").write_bytes(b"")
    found.add(fingerprint_of(str(folder), cache))
    assert len(found) == 4 and None not in found


@pytest.mark.skipif(os.name != "posix", reason="times of changes are POSIX's")
def test_files_are_read_once(folder, cache, monkeypatch):
    monkeypatch.setattr(sources, "TICK", 0)
    (folder / "source.py").write_text("a = 1")
    first = fingerprint_of(str(folder), cache)
    monkeypatch.setattr(sources, "_content", None)  # cannot be called
    assert fingerprint_of(str(folder), cache) == first


def test_files_of_just_now_are_read_again(folder, cache, monkeypatch):
    (folder / "source.py").write_text("a = 1")
    first = fingerprint_of(str(folder), cache)
    with monkeypatch.context() as patched:
        patched.setattr(sources, "_content", lambda *_: "read")
        assert fingerprint_of(str(folder), cache) == "read" != first
