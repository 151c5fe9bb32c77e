"""IDX files: every dtype goes there and back, and no bytes whatever do harm."""

import gzip
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from wengert import data, errors
from wengert.data import idx

DTYPES = [np.uint8, np.int8, np.int16, np.int32, np.float32, np.float64]


def header(code=0x08, *lengths, rank=None):
    rank = len(lengths) if rank is None else rank
    return bytes([0, 0, code, rank]) + struct.pack(f">{len(lengths)}I", *lengths)


GOOD = header(0x08, 2, 3) + bytes(range(6))


def problem(content, **options):
    with pytest.raises(errors.DataError) as caught:
        data.read_idx(content, **options)
    return str(caught.value).split("the bytes: ", 1)[1]


@pytest.mark.parametrize("dtype", DTYPES)
@given(st.data())
@settings(max_examples=20, deadline=None)
def test_there_and_back(dtype, drawn):
    shape = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
    array = drawn.draw(hnp.arrays(dtype, shape))
    for content in (data.write_idx(array), gzip.compress(data.write_idx(array))):
        back = data.read_idx(content)
        assert back.dtype == array.dtype and back.dtype.isnative
        np.testing.assert_array_equal(back, array)
        assert back.flags.writeable


def test_a_known_file():
    np.testing.assert_array_equal(data.read_idx(GOOD), [[0, 1, 2], [3, 4, 5]])
    shorts = header(0x0B, 2) + b"\x01\x02\xff\xfe"
    assert data.read_idx(shorts).tolist() == [258, -2]


def test_from_a_file(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(GOOD))
    assert data.read_idx(path).shape == data.read_idx(str(path)).shape == (2, 3)


def test_several_gzip_members_are_one_file():
    packed = gzip.compress(GOOD[:7]) + gzip.compress(GOOD[7:])
    assert data.read_idx(packed).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_the_sum_is_of_the_unpacked_bytes():
    sums = {idx.read_checked(content)[1] for content in (GOOD, gzip.compress(GOOD, 1))}
    assert len(sums) == 1
    assert sums != {idx.read_checked(header(0x08, 3, 2) + bytes(range(6)))[1]}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file ends within the header. Fetch the file again."),
        (GOOD[:3], "the file ends within the header. Fetch the file again."),
        (GOOD[:9], "the file ends within the header. Fetch the file again."),
        (
            b"PK\3\4rest",
            "it begins with 50 4b 03 04, expected 00 00, a dtype and a rank. "
            "This is not an IDX file.",
        ),
        (
            header(0x0A, 1) + b"1",
            "the dtype code is 0x0a, expected one of 0x08 uint8, 0x09 int8, 0x0b int16, "
            "0x0c int32, 0x0d float32, 0x0e float64.",
        ),
        (bytes([0, 0, 8, 33]) + bytes(200), "the header says rank 33, expected at most 32."),
        (
            GOOD[:-1],
            "the header says 6 bytes of uint8[2, 3], more than a file of this size can hold. "
            "The file is cut off: fetch it again.",
        ),
        (
            gzip.compress(GOOD[:-1]),
            "the header says 6 bytes of uint8[2, 3], but only 5 bytes follow. "
            "The file is cut off: fetch it again.",
        ),
        (GOOD + b"x", "bytes are left over after the 6 of uint8[2, 3]."),
        (gzip.compress(GOOD + b"x"), "bytes are left over after the 6 of uint8[2, 3]."),
        (
            header(0x0E, 2**32 - 1, 2**32 - 1),
            "the header says 147,573,952,520,956,936,200 bytes of float64[4294967295, 4294967295],"
            " more than max_bytes=1,073,741,824. "
            "Raise max_bytes if the array is really that large.",
        ),
        (
            header(0x08, 0, 2**32 - 1),  # no elements, but an array that NumPy may not make
            "the header says 4,294,967,295 bytes of uint8[0, 4294967295], more than "
            "max_bytes=1,073,741,824. Raise max_bytes if the array is really that large.",
        ),
    ],
)
def test_what_is_wrong_is_said(content, said):
    assert problem(content) == said


def test_damaged_gzip():
    packed = bytearray(gzip.compress(GOOD))
    assert problem(bytes(packed[:-9])).startswith("the gzip stream is damaged (")
    packed[-5] ^= 1  # its checksum
    assert problem(bytes(packed)).startswith("the gzip stream is damaged (CRC check failed")
    assert problem(b"\x1f\x8bnonsense").startswith("the gzip stream is damaged (")


def test_the_file_is_named(tmp_path):
    path = tmp_path / "broken"
    path.write_bytes(b"")
    with pytest.raises(errors.DataError, match=r"read_idx \(at .*\): .*broken: the file ends"):
        data.read_idx(path)


def peak_memory(action):
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_gzip_bomb_costs_nothing():
    packer = zlib.compressobj(9, wbits=31)
    bomb = packer.compress(GOOD) + b"".join(packer.compress(bytes(1 << 20)) for _ in range(64))
    bomb += packer.flush()
    assert peak_memory(lambda: problem(bomb)) < 2 << 20


def test_a_header_that_promises_too_much_costs_nothing():
    lie = gzip.compress(header(0x08, 1 << 29) + b"x")
    assert peak_memory(lambda: problem(lie)) < 1 << 20
    assert "more than a file of this size can hold" in problem(lie)


def test_max_bytes():
    assert "more than max_bytes=5" in problem(GOOD, max_bytes=5)
    assert data.read_idx(GOOD, max_bytes=6).size == 6


def survives(content):
    """An array that takes no more than allowed, or a DataError; nothing else."""
    try:
        array = data.read_idx(content, max_bytes=10_000)
    except errors.DataError:
        return
    assert array.nbytes <= 10_000


@given(st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_bytes(content):
    survives(content)
    survives(b"\0\0" + content)
    survives(b"\x1f\x8b\x08\0" + content)


@given(
    st.sampled_from([GOOD, gzip.compress(GOOD), data.write_idx(np.ones((3, 2, 2)))]),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4),
    st.integers(0, 200),
    st.binary(max_size=8),
)
@settings(max_examples=500, deadline=None)
def test_mutated_files(content, changes, length, tail):
    mutated = bytearray(content)
    for place, value in changes:
        mutated[place % len(mutated)] = value
    survives(bytes(mutated[:length]) + tail)


def test_arrays_that_have_no_place():
    with pytest.raises(errors.DTypeError) as caught:
        data.write_idx(np.ones(2, np.int64))
    assert str(caught.value).endswith(
        "got int64, expected one of uint8, int8, int16, int32, float32, float64. Use astype."
    )
    with pytest.raises(errors.ShapeError, match=r"no room for the shape \(1, "):
        data.write_idx(np.ones((1,) * 33, np.uint8))
