"""Files: what is written is read back, whole or not at all; bad bytes give a clear error."""

import contextlib
import json
import os
import subprocess
import sys
from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wengert as wg
from wengert import nn, storage
from wengert.errors import DataError, DTypeError

Pair = namedtuple("Pair", "left right")


@dataclass
class Point:
    x: object
    y: object


def assert_same(one, other):
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    elif isinstance(one, (np.ndarray, np.generic)):
        assert one.dtype == other.dtype and one.shape == other.shape
        assert one.tobytes() == other.tobytes()
    else:
        assert one == other or one != one


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tree.safetensors"


TREES = [
    {"w": np.ones((2, 3), np.float32), "b": np.zeros(3)},
    [1, 2.5, True, None, "text", (), [], {}],
    (np.arange(3), [np.array(4.0), {"a.b": np.ones(1), "a": {"b": np.zeros(2)}}]),
    {3: np.ones(1), "3": np.zeros(1)},
    np.float32(1.5),
    np.array(7),
    {"nan": float("nan"), "inf": -float("inf"), "tiny": 5e-324, "big": 2**70},
    {"c": np.array([1 + 2j, 3]), "c64": np.array([1j], np.complex64), "s": np.complex128(2j)},
    {"empty": np.zeros((0, 3)), "flags": np.array([True, False])},
    {"__metadata__": np.ones(1), "": np.ones(2), "é\n": np.ones(3)},
    [np.zeros(2, code) for code in "bBhHiIqQefd"],
]


@pytest.mark.parametrize("tree", TREES, ids=range(len(TREES)))
def test_round_trip(path, tree):
    wg.save(path, tree)
    assert_same(wg.load(path), tree)


def test_layouts_and_byte_orders(path):
    base = np.arange(24.0).reshape(4, 6)
    tree = {"f": np.asfortranarray(base), "step": base[::2, ::-1], "big": base.astype(">f8")}
    wg.save(path, tree)
    for name, array in wg.load(path).items():
        np.testing.assert_array_equal(array, tree[name])
        assert array.dtype.isnative and array.flags.writeable and array.flags.c_contiguous


def test_other_trees(path):
    wg.save(path, {"pair": Pair(1, np.ones(1)), "point": Point(np.zeros(1), [2])})
    wanted = {"pair": (1, np.ones(1)), "point": {"x": np.zeros(1), "y": [2]}}
    assert_same(wg.load(path), wanted)


def test_modules_and_tensors(path):
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    wg.save(path, {"model": model, "t": wg.tensor([1.0]), "step": 3})
    found = wg.load(path)
    assert_same(found["model"], model.state_dict())
    assert found["step"] == 3 and found["t"].tolist() == [1.0]
    other = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    other.load_state_dict(found["model"])
    assert_same(other.state_dict(), model.state_dict())


def test_the_same_tree_gives_the_same_bytes(tmp_path):
    tree = {"a": np.arange(5), "b": [1.0, None]}
    wg.save(tmp_path / "1", tree)
    wg.save(tmp_path / "2", tree)
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_other_readers_and_writers(path):
    peer = pytest.importorskip("safetensors.numpy")
    arrays = {"w": np.ones((2, 3), np.float32), "n": np.array(3), "e": np.zeros((0, 2))}
    wg.save(path, arrays)
    assert_same(dict(sorted(peer.load_file(path).items())), dict(sorted(arrays.items())))
    peer.save_file(arrays, path, metadata={"format": "np"})
    assert_same(dict(sorted(wg.load(path).items())), dict(sorted(arrays.items())))


def test_bfloat16_is_widened(path):
    numbers = np.array([1.0, -2.5, 3e38], np.float32).view(np.uint32)
    raw = (numbers >> 16).astype("<u2").tobytes()
    write_file(path, {"x": {"dtype": "BF16", "shape": [3], "data_offsets": [0, 6]}}, raw)
    found = wg.load(path)["x"]
    np.testing.assert_array_equal(found.view(np.uint32), numbers >> 16 << 16)


# ---------------------------------------------------------------- atomic


def test_a_failed_write_leaves_the_old_file(path, monkeypatch):
    wg.save(path, [1])

    def fails(descriptor):
        raise OSError("no space")

    monkeypatch.setattr(storage.os, "fsync", fails)
    with pytest.raises(OSError, match="no space"):
        wg.save(path, [2])
    monkeypatch.undo()
    assert wg.load(path) == [1]
    assert os.listdir(path.parent) == [path.name]


def test_links_and_permissions(path, tmp_path):
    wg.save(path, [1])
    link = tmp_path / "link"
    link.symlink_to(path)
    wg.save(link, [2])
    assert link.is_symlink() and wg.load(path) == [2]
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_killed_writer_leaves_a_whole_file(path):
    """Written over and over by a process that is killed: every file seen is whole."""
    wg.save(path, {"n": 0, "x": np.zeros(50_000)})
    code = (
        "import sys, numpy as np\n"
        "from wengert.storage import save\n"
        "n = 0\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    n += 1\n"
        "    save(sys.argv[1], {'n': n, 'x': np.full(50_000, float(n))})\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
    try:
        writer.stdout.readline()
        for _ in range(20):
            found = wg.load(path)
            assert (found["x"] == found["n"]).all()
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()
    found = wg.load(path)
    assert (found["x"] == found["n"]).all()


# ---------------------------------------------------------------- bad files


def write_file(path, table, data=b""):
    header = table if isinstance(table, bytes) else json.dumps(table).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)


def entry(**changes):
    return {"x": {"dtype": "F64", "shape": [2], "data_offsets": [0, 16], **changes}}


BAD = [
    (b"{}", b"1234", "its arrays take 0 bytes, the file has 4 for them"),
    (b"{nonsense}", b"", "its table cannot be read (Expecting property name"),
    (b"\xff\xff", b"", "its table cannot be read ('utf-8' codec"),
    (b"[]", b"", "its table is not an object"),
    (b'{"a": 1, "a": 2}', b"", "its table cannot be read (a name occurs twice)"),
    (b"[" * 100_000, b"", "its table cannot be read"),
    ({"x": 3}, b"", "x has no dtype, shape and data_offsets"),
    ({"x": {"dtype": "F64", "shape": [1]}}, b"", "x has no dtype, shape and data_offsets"),
    (entry(dtype="F7"), bytes(16), "x has the dtype 'F7', known are BOOL, U8,"),
    (entry(shape=[3]), bytes(16), "x has the shape [3] of F64 in 16 bytes"),
    (entry(shape=[-2]), bytes(16), "x has the shape [-2] and the offsets 0, 16"),
    (entry(shape=[2.0]), bytes(16), "x has the shape [2.0] and the offsets 0, 16"),
    (entry(data_offsets=[16, 0]), bytes(16), "x has the shape [2] and the offsets 16, 0"),
    (entry(data_offsets=[8, 24]), bytes(24), "x starts at byte 8, expected 0"),
    (entry(), bytes(15), "its arrays take 16 bytes, the file has 15 for them"),
    (entry(dtype="BOOL"), b"\x01\x02", "x has the shape [2] of BOOL in 16 bytes"),
    (entry(dtype="BOOL", data_offsets=[0, 2]), b"\1\2", "a Boolean is neither 0 nor 1"),
    (entry(dtype=["F64"]), bytes(16), "x has the dtype ['F64'], known are BOOL, U8,"),
    (entry(dtype={}), bytes(16), "x has the dtype {}, known are BOOL, U8,"),
    (entry(shape=[0, 2**63], data_offsets=[0, 0]), b"", f"x has the shape [0, {2**63}], more than"),
    (entry(shape=[2**40, 2**40, 0], data_offsets=[0, 0]), b"", "x has the shape [1099511627776,"),
    (entry(shape=[1] * 65 + [2]), bytes(16), "x has the shape [1, 1,"),
]
# Descriptions of the tree that do not fit the array x, two numbers of float64.
UNFIT = [
    '{"array": "y"}', '{"array": ["x"]}', '{"array": {}}', '{"other": "x"}', "3", '"array"', "[]",
    "{}", "null", '{"array": "x", "list": []}', '{"value": [1]}', '{"value": NaN}',
    '{"float": "0x1p99999"}', '{"float": "text"}', '{"float": 3}', '{"dict": "ab"}',
    '{"dict": {"ab": 1}}', '{"dict": [["a"]]}', '{"dict": [[["a"], {"value": 1}]]}',
    '{"dict": [[{}, {"value": 1}]]}', '{"list": 3}', '{"list": "ab"}', '{"tuple": {"a": 1}}',
    '{"list": [3]}', '{"complex scalar": "flags"}', '{"complex array": "none"}', "nonsense",
    '{"list": [' * 5000, "9" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("described", UNFIT, ids=[text[:30] for text in UNFIT])
def test_descriptions_that_do_not_fit(path, described):
    table = {
        "__metadata__": {"wengert": described},
        **entry(),
        "flags": {"dtype": "BOOL", "shape": [1], "data_offsets": [16, 17]},
        "none": {"dtype": "F64", "shape": [], "data_offsets": [17, 25]},
    }
    write_file(path, table, bytes(25))
    with pytest.raises(DataError, match="the description of the tree does not fit the arrays"):
        wg.load(path)


@pytest.mark.parametrize("table, data, problem", BAD, ids=[problem for *_, problem in BAD])
def test_bad_files(path, table, data, problem):
    write_file(path, table, data)
    with pytest.raises(DataError) as caught:
        wg.load(path)
    message = str(caught.value)
    assert f"tree.safetensors is not a whole safetensors file: {problem}" in message
    assert message.endswith("Write it anew, or restore it from a copy.")


def test_short_files(path):
    path.write_bytes(b"1234")
    with pytest.raises(DataError, match="it has 4 bytes, at least 8 are needed"):
        wg.load(path)
    path.write_bytes((2**62).to_bytes(8, "little") + b"{}")
    with pytest.raises(DataError, match=f"its table should have {2**62} bytes, the file has 10"):
        wg.load(path)
    with pytest.raises(FileNotFoundError):
        wg.load(path.parent / "nothing")


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_bytes_give_a_tree_or_the_error(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("bytes") / "file"
    wg.save(path, {"w": np.arange(3.0), "rest": [1, 2.5, None]})
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content)))]
    for _ in range(data.draw(st.integers(0, 3))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    with contextlib.suppress(DataError):
        wg.load(path)


ODD = st.one_of(
    st.sampled_from([None, True, -1, 0, 1, 2**31, 2**63, 2**64, 1e300, "", "F64", "x", "\ud800"]),
    st.text(max_size=3),
    st.lists(st.integers(-2, 2**65), max_size=3),
    st.dictionaries(st.sampled_from(["array", "dict", "list", "value", "x"]), st.integers()),
)


def altered(value, data):
    """The JSON value with one part of it, somewhere, replaced by another or left out."""
    nested = isinstance(value, (dict, list)) and len(value) > 0
    if not nested or data.draw(st.integers(0, 4)) == 0:
        return data.draw(ODD)
    chosen = data.draw(
        st.sampled_from(list(value if isinstance(value, dict) else range(len(value))))
    )
    if data.draw(st.integers(0, 9)) == 0:
        del value[chosen]
    else:
        value[chosen] = altered(value[chosen], data)
    return value


def crafted(path, tree, data):
    """Write a tree with parts of its table, and of the description in it, altered."""
    wg.save(path, tree)
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    table = json.loads(raw[8 : 8 + size])
    if data.draw(st.booleans()):
        described = altered(json.loads(table["__metadata__"]["wengert"]), data)
        table["__metadata__"]["wengert"] = json.dumps(described)
    else:
        table = altered(table, data)
    write_file(path, table, raw[8 + size :])


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_crafted_tables_give_a_tree_or_the_error(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("tables") / "file"
    crafted(path, {"w": np.arange(3.0), "c": np.ones(1, complex), "rest": [1, 2.5, ()]}, data)
    with contextlib.suppress(DataError):
        wg.load(path)


def test_what_cannot_be_saved(path):
    with pytest.raises(DTypeError) as caught:
        wg.save(path, {"f": [object]})
    assert str(caught.value).endswith(
        ": f.0 holds <class 'object'> of type type. Expected arrays, numbers, strings and None in "
        "dicts, lists and tuples."
    )
    with pytest.raises(DTypeError) as caught:
        wg.save(path, {(1, 2): 3})
    assert str(caught.value).endswith(": got a dict with the key (1, 2). Use strings or integers.")
    assert not path.exists()
