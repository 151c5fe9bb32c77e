"""The object cache: what it stores it returns, and nothing else, whatever happens to the disk."""

import os
import random
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from wengert.codegen import cache as cache_module
from wengert.codegen.cache import ObjectCache, cache_key, default_folder

posix = pytest.mark.skipif(os.name == "nt", reason="permissions and owners are POSIX")
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away"
)


@pytest.fixture
def cache(tmp_path):
    return ObjectCache(tmp_path / "cache")


def only_file(cache):
    (path,) = cache.folder.glob("*.wgo")
    return path


def test_returns_what_was_put(cache):
    assert cache.get("a") is None
    cache.put("a", b"first")
    cache.put(b"b", b"")
    assert cache.get("a") == b"first"
    assert cache.get(b"a") == b"first"
    assert cache.get("b") == b""
    cache.put("a", b"second")
    assert cache.get("a") == b"second"
    assert ObjectCache(cache.folder).get("a") == b"second"
    stats = cache.stats()
    assert (stats.hits, stats.misses, stats.writes, stats.files) == (4, 1, 3, 2)


@posix
def test_folder_and_files_are_private_whatever_the_umask(tmp_path):
    previous = os.umask(0)
    try:
        cache = ObjectCache(tmp_path / "deep" / "cache")
        cache.put("a", b"data")
    finally:
        os.umask(previous)
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(cache.folder.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(only_file(cache).stat().st_mode) == 0o600


def test_truncation_at_every_length_is_a_miss_and_removes_the_file(cache):
    cache.put("key", b"machine code")
    path = only_file(cache)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        path.chmod(0o600)
        assert cache.get("key") is None, length
        assert not path.exists()
    assert cache.stats().rejected == len(whole)
    cache.put("key", b"machine code")
    assert cache.get("key") == b"machine code"


def test_every_flipped_bit_is_a_miss(cache):
    cache.put("key", b"machine code")
    path = only_file(cache)
    whole = path.read_bytes()
    for position in range(8 * len(whole)):
        altered = bytearray(whole)
        altered[position // 8] ^= 1 << position % 8
        path.write_bytes(altered)
        assert cache.get("key") is None, position


def test_appended_bytes_are_a_miss(cache):
    cache.put("key", b"machine code")
    path = only_file(cache)
    path.write_bytes(path.read_bytes() + b"\0")
    assert cache.get("key") is None


def test_a_file_under_another_key_is_a_miss(cache, tmp_path):
    cache.put("key", b"machine code")
    other = ObjectCache(tmp_path / "other")
    other.put("another", b"other code")
    only_file(other).replace(only_file(cache))
    assert cache.get("key") is None


@posix
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_a_miss(cache, mode):
    cache.put("key", b"machine code")
    path = only_file(cache)
    path.chmod(mode)
    assert cache.get("key") is None
    assert not path.exists()


@posix
def test_a_link_to_a_good_file_is_a_miss(cache, tmp_path):
    cache.put("key", b"machine code")
    path = only_file(cache)
    aside = tmp_path / "aside"
    path.rename(aside)
    path.symlink_to(aside)
    assert cache.get("key") is None
    assert aside.exists()
    assert not path.is_symlink()


@posix
@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_something_that_is_no_file_is_a_miss_and_does_not_block(cache, kind):
    cache.put("key", b"machine code")
    path = only_file(cache)
    path.unlink()
    os.mkfifo(path) if kind == "pipe" else path.mkdir()
    assert cache.get("key") is None


@needs_root
def test_a_file_of_another_user_is_a_miss_and_is_left_alone(cache):
    cache.put("key", b"machine code")
    path = only_file(cache)
    os.chown(path, 12345, -1)
    assert cache.get("key") is None
    assert path.exists()
    assert cache.stats().rejected == 1
    cache.put("key", b"machine code")
    assert cache.get("key") == b"machine code"


@posix
def test_ownership_is_compared_with_the_effective_user(cache, monkeypatch):
    cache.put("key", b"machine code")
    monkeypatch.setattr(os, "geteuid", lambda: cache.folder.stat().st_uid + 1)
    with pytest.warns(RuntimeWarning, match="belongs to another user"):
        assert cache.get("key") is None
    assert only_file(cache).exists()


@needs_root
def test_a_folder_of_another_user_is_refused_with_one_warning(cache):
    cache.put("key", b"machine code")
    os.chown(cache.folder, 12345, -1)
    with pytest.warns(RuntimeWarning, match="belongs to another user"):
        assert cache.get("key") is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put("key", b"other")
        assert cache.get("key") is None
    assert not cache.stats().enabled


@posix
def test_a_folder_that_others_may_write_is_refused_with_the_remedy(cache):
    cache.put("key", b"machine code")
    cache.folder.chmod(0o777)
    with pytest.warns(RuntimeWarning) as caught:
        assert cache.get("key") is None
    assert [str(warning.message) for warning in caught] == [
        f"wengert compiles without keeping the code in {cache.folder}: other users may write to it "
        f"(run: chmod go-w '{cache.folder}'). Set WENGERT_CACHE to another folder, or to 'off'."
    ]


@posix
def test_a_linked_folder_is_refused(cache, tmp_path):
    cache.put("key", b"machine code")
    link = tmp_path / "link"
    link.symlink_to(cache.folder)
    with pytest.warns(RuntimeWarning, match="it is a link or not a folder"):
        assert ObjectCache(link).get("key") is None


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "cache").write_text("not a folder")
    cache = ObjectCache(tmp_path / "cache")
    with pytest.warns(RuntimeWarning, match="compiles without keeping the code"):
        cache.put("key", b"data")
    assert cache.get("key") is None


@pytest.mark.parametrize("reason", ["No space left on device", "Read-only file system"])
def test_a_failing_disk_costs_one_warning_and_reading_goes_on(cache, monkeypatch, reason):
    cache.put("old", b"data")

    def fail(*_args, **_kwargs):
        raise OSError(28, reason)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.warns(RuntimeWarning, match=f"cannot write there .{reason}"):
        cache.put("key", b"data")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put("key", b"data")
    assert cache.get("old") == b"data"
    assert [path.suffix for path in cache.folder.iterdir()] == [".wgo"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_leaves_no_partial_file(cache, monkeypatch):
    cache.put("old", b"data")
    really_open = os.open

    def open_full(path, flags, *args, **kwargs):
        if flags & os.O_CREAT:
            os.close(really_open(path, flags, *args, **kwargs))
            return really_open("/dev/full", os.O_WRONLY)
        return really_open(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", open_full)
    with pytest.warns(RuntimeWarning, match="No space left"):
        cache.put("key", b"x" * 100_000)
    monkeypatch.undo()
    assert len(list(cache.folder.iterdir())) == 1


def test_a_removed_folder_is_made_again(cache):
    cache.put("a", b"data")
    only_file(cache).unlink()
    cache.folder.rmdir()
    assert cache.get("a") is None
    cache.put("a", b"data")
    assert cache.get("a") == b"data"


def test_clear_removes_ours_only(cache):
    cache.put("a", b"data")
    (cache.folder / "notes.txt").write_text("mine")
    (cache.folder / ".wgtmp-1-abc").write_text("left over")
    cache.clear()
    assert cache.get("a") is None
    assert [path.name for path in cache.folder.iterdir()] == ["notes.txt"]
    ObjectCache(cache.folder / "never made").clear()


def test_size_is_bounded_and_the_least_recently_used_goes_first(tmp_path):
    size = 10_000
    cache = ObjectCache(tmp_path / "cache", limit_bytes=10 * (size + 100))
    for number in range(8):
        cache.put(f"k{number}", bytes(size))
    for number in (0, 1, 2):
        assert cache.get(f"k{number}") is not None
    for number in range(8, 12):
        cache.put(f"k{number}", bytes(size))
        assert cache.stats().bytes <= cache.limit_bytes
    kept = {number for number in range(12) if cache.get(f"k{number}") is not None}
    assert {0, 1, 2, 10, 11} <= kept
    assert not {3, 4} & kept
    assert cache.stats().evicted == 12 - len(kept)


def test_what_exceeds_the_limit_is_not_stored(tmp_path):
    cache = ObjectCache(tmp_path / "cache", limit_bytes=1000)
    cache.put("big", bytes(1000))
    assert cache.get("big") is None
    cache.put("small", bytes(900))
    assert cache.get("small") == bytes(900)


def test_files_of_other_processes_are_counted(tmp_path):
    one = ObjectCache(tmp_path / "cache", limit_bytes=100_000)
    two = ObjectCache(tmp_path / "cache", limit_bytes=100_000)
    for number in range(200):
        (one if number % 2 else two).put(f"k{number}", bytes(4000))
    # Each looks anew every few writes, so the other's files cannot add up without bound.
    assert one.stats().bytes <= 2 * 100_000


def test_abandoned_temporary_files_are_removed(cache):
    cache.put("a", b"data")
    old = cache.folder / ".wgtmp-1-old"
    new = cache.folder / ".wgtmp-1-new"
    old.write_text("x")
    new.write_text("x")
    os.utime(old, (1, 1))
    ObjectCache(cache.folder).put("b", b"data")
    assert not old.exists()
    assert new.exists()


def hammer(folder, seed):
    """Read and write at random; print wrong results, rejected files, hits."""
    generator = random.Random(seed)
    cache = ObjectCache(folder, limit_bytes=60_000)
    wrong = 0
    for _ in range(1000):
        number = generator.randrange(20)
        expected = bytes([number]) * (1000 + 300 * number)
        if generator.random() < 0.5:
            cache.put(f"k{number}", expected)
        else:
            wrong += cache.get(f"k{number}") not in (None, expected)
    stats = cache.stats()
    print(wrong, stats.rejected, stats.hits > 0, stats.evicted > 0)


def test_many_processes_at_once(tmp_path):
    folder = tmp_path / "cache"
    program = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('cache_tests', {__file__!r})\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "sys.stdin.readline()\n"  # all start together
        f"module.hammer({str(folder)!r}, int(sys.argv[1]))"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", program, str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in range(4)
    ]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    printed = [process.communicate(timeout=60)[0].split() for process in processes]
    assert printed == [["0", "0", "True", "True"]] * 4
    assert [process.returncode for process in processes] == [0] * 4
    assert not list(folder.glob(".wgtmp-*"))


def test_folder_comes_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("WENGERT_CACHE", str(tmp_path / "mine"))
    assert default_folder() == tmp_path / "mine"
    monkeypatch.delenv("WENGERT_CACHE")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_folder() == tmp_path / "xdg" / "wengert" / "objects"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_folder() == tmp_path / "home" / ".cache" / "wengert" / "objects"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert default_folder() == tmp_path / "home" / "Library" / "Caches" / "wengert" / "objects"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert default_folder() == tmp_path / "local" / "wengert" / "objects"


@pytest.mark.parametrize("word", ["off", "OFF", "0"])
def test_off_means_off(monkeypatch, word):
    monkeypatch.setenv("WENGERT_CACHE", word)
    cache = ObjectCache()
    cache.put("a", b"data")
    assert cache.get("a") is None
    cache.clear()
    assert not cache.stats().enabled
    assert cache.stats().folder is None


def test_limit_must_be_positive(tmp_path):
    with pytest.raises(ValueError, match=r"argument limit_bytes: got 0, expected a positive"):
        ObjectCache(tmp_path, limit_bytes=0)


def test_keys_tell_everything_apart():
    parts = [
        (),
        (None,),
        ("",),
        (b"",),
        ("a", "b"),
        ("ab",),
        (("a", "b"),),
        (["a", "b"],),
        (1,),
        (1.0,),
        (True,),
        ("1",),
        (0.0,),
        (-0.0,),
        ({"a": 1},),
        ({"a": 2},),
        ((), ()),
        (((),),),
    ]
    assert len({cache_key(*part) for part in parts}) == len(parts)
    assert cache_key({"a": 1, "b": 2}) == cache_key({"b": 2, "a": 1})
    with pytest.raises(TypeError, match="got a part of type object"):
        cache_key(object())


def test_keys_are_the_same_in_another_process():
    program = (
        "from wengert.codegen.cache import cache_key; print(cache_key('x', (1, 2.5), {3: b'4'}))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout.strip()
    assert printed == cache_key("x", (1, 2.5), {3: b"4"})


@pytest.mark.parametrize("index", range(9))
def test_keys_depend_on_versions_and_system(monkeypatch, index):
    before = cache_key("program")
    changed = list(cache_module._surroundings())
    changed[index] += "x"
    monkeypatch.setattr(cache_module, "_surroundings", lambda: tuple(changed))
    assert cache_key("program") != before
