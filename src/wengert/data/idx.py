"""Arrays in IDX files, the format of MNIST, read from bytes that nobody vouches for.

An IDX file is two zero bytes, a byte for the dtype, a byte for the rank, the length of each axis as
a big-endian 32-bit number, and the elements, big-endian, the last axis fastest. Files may be packed
with gzip.

What a header promises is checked before anything is allocated: against `max_bytes`, and against
what the file can hold (gzip packs at most 1032 bytes into one). The elements are then unpacked
straight into the array, never more of them than the header said, so a file that unpacks to
terabytes costs no more than one that does not.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import struct
import zlib
from collections.abc import Iterator
from math import prod
from typing import Any, BinaryIO

import numpy as np

from ..errors import DataError, DTypeError, ShapeError, explain

DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_CODES = {np.dtype(name).newbyteorder("="): code for code, name in DTYPES.items()}
_MAX_RANK = 32
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_MOST = 1032  # bytes that deflate can make of one
_PART = 1 << 20
DEFAULT_LIMIT = 1 << 30

Source = str | os.PathLike[str] | bytes | bytearray | memoryview


def read_idx(source: Source, max_bytes: int = DEFAULT_LIMIT) -> np.ndarray:
    """The array in an IDX file, packed with gzip or not; `source` is a path, or the bytes.

    The array has the machine's byte order. Whatever is wrong with the bytes is a `DataError`, and
    an array of more than `max_bytes` is refused before memory is taken for it.

    >>> read_idx(write_idx(np.array([[1, 2], [3, 4]], np.int16)))
    array([[1, 2],
           [3, 4]], dtype=int16)
    """
    return read_checked(source, max_bytes)[0]


def write_idx(array: Any) -> bytes:
    """An array as the bytes of an IDX file; unsigned and signed bytes, i16, i32, f32 and f64.

    >>> write_idx(np.array([7, 8], np.uint8)).hex(" ")
    '00 00 08 01 00 00 00 02 07 08'
    """
    array = np.asarray(array)
    code = _CODES.get(array.dtype.newbyteorder("="))
    if code is None:
        names = ", ".join(str(dtype) for dtype in _CODES)
        raise DTypeError(
            explain("write_idx", f"got {array.dtype}, expected one of {names}", "Use astype.")
        )
    if array.ndim > _MAX_RANK or any(length >= 1 << 32 for length in array.shape):
        raise ShapeError(
            explain("write_idx", f"the format has no room for the shape {array.shape}")
        )
    header = bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    elements = np.ascontiguousarray(array, DTYPES[code]).reshape(-1).view(np.uint8)
    return b"".join((header, elements.data))


def read_checked(source: Source, max_bytes: int = DEFAULT_LIMIT) -> tuple[np.ndarray, str]:
    """The array, and the SHA-256 of the unpacked file, which no repacking changes."""
    name = "the bytes" if isinstance(source, bytes | bytearray | memoryview) else os.fspath(source)
    with _opened(source) as (file, size):
        packed = file.read(2) == _GZIP_MAGIC
        file.seek(0)
        try:
            if not packed:
                return _read(file, name, size, max_bytes)
            with gzip.GzipFile(fileobj=file, mode="rb") as unpacked:
                return _read(unpacked, name, size * _GZIP_MOST, max_bytes)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise _broken(name, f"the gzip stream is damaged ({error})") from error


@contextlib.contextmanager
def _opened(source: Source) -> Iterator[tuple[BinaryIO, int]]:
    if isinstance(source, bytes | bytearray | memoryview):
        yield io.BytesIO(source), memoryview(source).nbytes
        return
    with open(source, "rb") as file:
        yield file, os.fstat(file.fileno()).st_size


def _read(file: Any, name: str, most: int, max_bytes: int) -> tuple[np.ndarray, str]:
    """Header and elements of an unpacked stream that can hold at most that many bytes."""
    header, dtype, shape = _read_header(file, name)
    expected = prod(shape) * dtype.itemsize
    # NumPy counts axes of length 0 as 1 when it decides whether an array is too large
    if (needed := prod(max(length, 1) for length in shape) * dtype.itemsize) > max_bytes:
        raise _broken(
            name,
            f"the header says {needed:,} bytes of {dtype.name}{list(shape)}, more than "
            f"max_bytes={max_bytes:,}",
            "Raise max_bytes if the array is really that large.",
        )
    if len(header) + expected > most:
        raise _truncated(name, dtype, shape, "more than a file of this size can hold")
    array = np.empty(shape, dtype)
    flat = array.reshape(-1).view(np.uint8).data
    got = _fill(file, flat)
    if got < expected:
        raise _truncated(name, dtype, shape, f"but only {got:,} bytes follow")
    if file.read(1):  # at the end of a gzip stream this also checks its sum
        raise _broken(
            name, f"bytes are left over after the {expected:,} of {dtype.name}{list(shape)}"
        )
    digest = hashlib.sha256(header)
    digest.update(flat)
    if not dtype.isnative:
        array = array.byteswap(inplace=True).view(dtype.newbyteorder("="))
    return array, digest.hexdigest()


def _read_header(file: Any, name: str) -> tuple[bytes, np.dtype, tuple[int, ...]]:
    magic = _exactly(file, 4, name)
    if magic[:2] != b"\0\0":
        raise _broken(
            name,
            f"it begins with {magic.hex(' ')}, expected 00 00, a dtype and a rank",
            "This is not an IDX file.",
        )
    if magic[2] not in DTYPES:
        codes = ", ".join(f"{code:#04x} {np.dtype(name).name}" for code, name in DTYPES.items())
        raise _broken(name, f"the dtype code is {magic[2]:#04x}, expected one of {codes}")
    rank = magic[3]
    if rank > _MAX_RANK:
        raise _broken(name, f"the header says rank {rank}, expected at most {_MAX_RANK}")
    lengths = _exactly(file, 4 * rank, name)
    return magic + lengths, np.dtype(DTYPES[magic[2]]), struct.unpack(f">{rank}I", lengths)


def _exactly(file: Any, count: int, name: str) -> bytes:
    found = bytearray(count)
    got = _fill(file, memoryview(found))
    if got < count:
        raise _broken(name, "the file ends within the header", "Fetch the file again.")
    return bytes(found)


def _fill(file: Any, target: memoryview) -> int:
    """Read until the target is full or the file ends; the number of bytes read."""
    done = 0
    while done < len(target):
        got = file.readinto(target[done : done + _PART])
        if not got:
            break
        done += got
    return done


def _truncated(name: str, dtype: np.dtype, shape: tuple[int, ...], how: str) -> DataError:
    size = prod(shape) * dtype.itemsize
    problem = f"the header says {size:,} bytes of {dtype.name}{list(shape)}, {how}"
    return _broken(name, problem, "The file is cut off: fetch it again.")


def _broken(name: str, problem: str, remedy: str = "") -> DataError:
    return DataError(explain("read_idx", f"{name}: {problem}", remedy))
