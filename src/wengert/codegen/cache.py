"""Compiled code kept on disk, private to the user and never trusted blindly.

Loading a file as machine code means running what it says, so the rules are strict. The folder and
every file in it must belong to the user and be writable by nobody else, links are not followed, and
each file carries a keyed hash over its content and the key it was stored under. Whatever fails a
check counts as missing: it is removed where it is ours, and compiled again. The hash guards against
damage and mixed-up files; against other users the guard is ownership and permissions.

Many processes may use one folder at once. A file appears under its name only when complete (written
aside, then renamed), and readers that lose a race against removal simply miss. The total size is
bounded: the least recently used files go first, and use is recorded in the modification time.

A disk that is full or read-only, or a folder that fails the checks, costs one warning and the
caching, never the program. `WENGERT_CACHE` names another folder, or `off`.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import platform
import stat
import struct
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ..folders import user_cache_folder
from ..policy import Record

_MAGIC = b"WENGERT\0"
_VERSION = 1
_HASH_BYTES = 32
_HEADER = struct.Struct(f"<8sIIQ{_HASH_BYTES}s")  # magic, version, zero, length, hash
_SUFFIX = ".wgo"
_TEMPORARY = ".wgtmp-"
_ABANDONED_AFTER = 3600.0  # seconds after which a temporary file has no living writer
_RESCAN_AFTER = 64  # writes between looks at what other processes have added
_KEEP_SHARE = 0.9  # of the limit, when files must go: not one removal for every write
_OFF = ("off", "0", "no", "none", "false")
_HAS_OWNERS = hasattr(os, "geteuid")
_OPEN_SAFELY = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)  # a planted pipe must not block us
    | getattr(os, "O_BINARY", 0)
)
# What opening says of a link, a locked file, a socket or a folder where a plain file should be.
_NOT_A_PLAIN_FILE = (errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENXIO, errno.EISDIR)


class CacheStats(Record, kw_only=False):
    """What the cache holds on disk, and what this process did with it."""

    folder: str | None
    enabled: bool
    files: int
    bytes: int
    limit_bytes: int
    hits: int
    misses: int
    rejected: int
    writes: int
    evicted: int


class _UnsafeFolderError(Exception):
    """The cache folder could have been written by someone else."""


class _UntrustedFileError(Exception):
    """A file is damaged, or is not (only) ours: it must not be loaded."""


class ObjectCache:
    """Bytes by key in a folder; see the module for what is promised.

    `folder=None` takes `WENGERT_CACHE` or the user's cache folder; `limit_bytes` bounds the total.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, limit_bytes: int = 512 << 20):
        if limit_bytes <= 0:
            raise ValueError(
                f"ObjectCache: argument limit_bytes: got {limit_bytes}, expected a positive number "
                "of bytes; set WENGERT_CACHE=off to do without a cache"
            )
        self.folder = Path(folder) if folder is not None else default_folder()
        self.limit_bytes = limit_bytes
        self._readable = self._writable = self.folder is not None
        self._lock = threading.Lock()
        self._hits = self._misses = self._rejected = self._writes = self._evicted = 0
        self._estimated_bytes: int | None = None  # None: look before the next decision
        self._writes_since_scan = 0

    def get(self, key: bytes | str) -> bytes | None:
        """Return what was stored under `key`, or None if nothing (trustworthy) is there."""
        data = None
        if self._readable:
            with self._survive("read"), self._open_folder(create=False) as folder:
                data = self._read(folder, _as_bytes(key))
        with self._lock:
            self._hits += data is not None
            self._misses += data is None
        return data

    def put(self, key: bytes | str, data: bytes) -> None:
        """Store `data` under `key`; does nothing if the cache is off, too small or not usable."""
        content = _seal(_as_bytes(key), data)
        if not self._writable or len(content) > self.limit_bytes:
            return
        with self._survive("write"), self._open_folder(create=True) as folder:
            folder.write(_file_name(_as_bytes(key)), content)
            with self._lock:
                self._writes += 1
                self._make_room(folder, len(content))

    def clear(self) -> None:
        """Remove everything that the cache has stored (and nothing else in its folder)."""
        if not self._readable:
            return
        with self._survive("clear"), self._open_folder(create=False) as folder:
            for entry in folder.entries():
                if entry.name.endswith(_SUFFIX) or entry.name.startswith(_TEMPORARY):
                    folder.remove(entry.name)
        with self._lock:
            self._estimated_bytes = None

    def stats(self) -> CacheStats:
        """Return counts and sizes."""
        sizes: list[int] = []
        if self._readable:
            with self._survive("read"), self._open_folder(create=False) as folder:
                sizes = [entry.size for entry in folder.entries() if entry.name.endswith(_SUFFIX)]
        return CacheStats(
            folder=str(self.folder) if self.folder else None,
            enabled=self._readable,
            files=len(sizes),
            bytes=sum(sizes),
            limit_bytes=self.limit_bytes,
            hits=self._hits,
            misses=self._misses,
            rejected=self._rejected,
            writes=self._writes,
            evicted=self._evicted,
        )

    def _read(self, folder: _Folder, key: bytes) -> bytes | None:
        name = _file_name(key)
        try:
            content = folder.read(name, self.limit_bytes)
            return None if content is None else _unseal(key, content)
        except _UntrustedFileError:
            folder.remove_if_ours(name)
            with self._lock:
                self._rejected += 1
            return None

    def _make_room(self, folder: _Folder, added: int) -> None:
        """Remove the least recently used files if the total has passed the limit."""
        self._writes_since_scan += 1
        if self._estimated_bytes is not None and self._writes_since_scan < _RESCAN_AFTER:
            self._estimated_bytes += added
            if self._estimated_bytes <= self.limit_bytes:
                return
        entries = list(folder.entries())
        _remove_abandoned(folder, entries)
        stored = sorted(
            (entry for entry in entries if entry.name.endswith(_SUFFIX)), key=lambda e: e.used
        )
        total = sum(entry.size for entry in stored)
        wanted = total if total <= self.limit_bytes else int(_KEEP_SHARE * self.limit_bytes)
        for entry in stored[:-1]:  # the newest was just written, and fits by itself
            if total <= wanted:
                break
            folder.remove(entry.name)
            total -= entry.size
            self._evicted += 1
        self._estimated_bytes = total
        self._writes_since_scan = 0

    @contextlib.contextmanager
    def _open_folder(self, create: bool) -> Iterator[_Folder]:
        assert self.folder is not None
        folder = _Folder.open(self.folder, create)
        try:
            yield folder
        finally:
            folder.close()

    @contextlib.contextmanager
    def _survive(self, doing: str) -> Iterator[None]:
        """Turn what the file system can do to us into a miss, or one warning and no caching."""
        try:
            yield
        except FileNotFoundError:
            if doing == "write":  # the folder was removed under us: the next write makes it anew
                self._estimated_bytes = None
        except _UnsafeFolderError as error:
            self._readable = self._writable = False
            _warn_once(self.folder, str(error))
        except OSError as error:
            if doing == "write":
                self._writable = False
            else:
                self._readable = self._writable = False
            reason = error.strerror or str(error)
            _warn_once(self.folder, f"cannot {doing} there ({reason})")


class _CachedFile(NamedTuple):
    name: str
    size: int
    used: int  # modification time in nanoseconds


class _Folder:
    """An open, checked folder; names are resolved relative to it, so it cannot be swapped."""

    def __init__(self, path: Path, descriptor: int | None):
        self.path = path
        self.descriptor = descriptor

    @classmethod
    def open(cls, path: Path, create: bool) -> _Folder:
        if create:
            _make_private(path)
        if not _HAS_OWNERS:
            # Windows: the user's local data folder is private by its access list.
            if not path.is_dir():
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            return cls(path, None)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _OPEN_SAFELY)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise _UnsafeFolderError("it is a link or not a folder") from None
            raise
        try:
            _check_folder(os.fstat(descriptor), path)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, descriptor)

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)

    def place(self, name: str) -> str:
        return name if self.descriptor is not None else str(self.path / name)

    def read(self, name: str, limit: int) -> bytes | None:
        """Return the whole file, None if there is none, and mark it as used."""
        try:
            descriptor = os.open(
                self.place(name), os.O_RDONLY | _OPEN_SAFELY, dir_fd=self.descriptor
            )
        except OSError as error:
            if error.errno == errno.ENOENT:
                return None
            if error.errno in _NOT_A_PLAIN_FILE:
                raise _UntrustedFileError from None
            raise
        try:
            status = os.fstat(descriptor)
            if not _trustworthy(status) or status.st_size > limit:
                raise _UntrustedFileError
            with os.fdopen(os.dup(descriptor), "rb") as file:
                content = file.read()
            self.mark_used(name, descriptor)
        finally:
            os.close(descriptor)
        return content

    def mark_used(self, name: str, descriptor: int) -> None:
        """Set the modification time; the kernel's own clock is too coarse to order uses."""
        now = time.time_ns()
        with contextlib.suppress(OSError):
            if os.utime in os.supports_fd:
                os.utime(descriptor, ns=(now, now))
            else:
                os.utime(self.place(name), ns=(now, now))

    def write(self, name: str, content: bytes) -> None:
        temporary = f"{_TEMPORARY}{os.getpid()}-{os.urandom(8).hex()}"
        descriptor = os.open(
            self.place(temporary),
            os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN_SAFELY,
            0o600,
            dir_fd=self.descriptor,
        )
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                self.mark_used(temporary, descriptor)
            os.replace(
                self.place(temporary),
                self.place(name),
                src_dir_fd=self.descriptor,
                dst_dir_fd=self.descriptor,
            )
        except BaseException:
            self.remove(temporary)
            raise

    def remove(self, name: str) -> None:
        """Remove a file if the system lets us; another process may have been faster."""
        with contextlib.suppress(OSError):
            os.unlink(self.place(name), dir_fd=self.descriptor)

    def remove_if_ours(self, name: str) -> None:
        """Remove a file that this user owns; another's is left for its owner to explain."""
        with contextlib.suppress(OSError):
            status = os.stat(self.place(name), dir_fd=self.descriptor, follow_symlinks=False)
            if not _HAS_OWNERS or status.st_uid == os.geteuid():
                os.unlink(self.place(name), dir_fd=self.descriptor)

    def entries(self) -> Iterator[_CachedFile]:
        with os.scandir(self.path if self.descriptor is None else self.descriptor) as found:
            for entry in found:
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    yield _CachedFile(entry.name, status.st_size, status.st_mtime_ns)


@functools.cache
def shared_cache() -> ObjectCache:
    """The cache of this process, in the default folder."""
    return ObjectCache()


def default_folder() -> Path | None:
    """Return the folder that `WENGERT_CACHE` or the system names; None if it is off or unknown."""
    chosen = os.environ.get("WENGERT_CACHE", "")
    if chosen.lower() in _OFF:
        return None
    if chosen:
        return Path(chosen).expanduser()
    try:
        return user_cache_folder() / "wengert" / "objects"
    except RuntimeError:  # no home folder
        return None


def cache_key(*parts: Any) -> str:
    """Return a key that depends on `parts` and on everything else that shapes generated code.

    That is the version of wengert, of llvmlite and LLVM, of NumPy and of Python (the generated
    entry points read their objects), and the operating system. Parts may be None, booleans,
    numbers, strings, bytes, and tuples, lists and dictionaries of these; the target's `key()` and
    the program itself belong among them.
    """
    hasher = hashlib.blake2b(digest_size=32, person=b"wengert-key")
    _feed(hasher, _surroundings())
    _feed(hasher, parts)
    return hasher.hexdigest()


@functools.cache
def _surroundings() -> tuple[str, ...]:
    import llvmlite
    import numpy
    from llvmlite import binding

    return (
        _own_version(),
        llvmlite.__version__,
        str(binding.llvm_version_info),
        numpy.__version__,
        sys.version,
        sys.implementation.cache_tag or "",
        sys.platform,
        platform.machine(),
        str(struct.calcsize("P")),
    )


def _own_version() -> str:
    version = getattr(sys.modules[__name__.split(".", 1)[0]], "__version__", None)
    if version is not None:
        return str(version)
    from importlib import metadata  # reading it takes a hundred times as long

    try:
        return metadata.version("wengert")
    except metadata.PackageNotFoundError:
        return "unknown"


def _feed(hasher: Any, value: Any) -> None:
    """Hash `value` with its type and length, so that no two different values look the same."""
    if isinstance(value, (tuple, list)):
        hasher.update(b"%c%d:" % (b"(" if isinstance(value, tuple) else b"[", len(value)))
        for item in value:
            _feed(hasher, item)
    elif isinstance(value, dict):
        hasher.update(b"{%d:" % len(value))
        for name in sorted(value, key=lambda k: (type(k).__name__, repr(k))):
            _feed(hasher, name)
            _feed(hasher, value[name])
    elif isinstance(value, (bytes, bytearray, memoryview)):
        raw = bytes(value)
        hasher.update(b"b%d:" % len(raw))
        hasher.update(raw)
    elif value is None or isinstance(value, (str, bool, int, float, complex)):
        text = (value if isinstance(value, str) else repr(value)).encode("utf-8", "surrogatepass")
        hasher.update(b"%s%d:" % (type(value).__name__.encode(), len(text)))
        hasher.update(text)
    else:
        raise TypeError(
            f"cache_key: got a part of type {type(value).__name__}, expected None, a number, text, "
            "bytes or a tuple, list or dictionary of these; convert it first"
        )


def _as_bytes(key: bytes | str) -> bytes:
    return key.encode() if isinstance(key, str) else bytes(key)


def _file_name(key: bytes) -> str:
    return hashlib.blake2b(key, digest_size=20, person=b"wengert-name").hexdigest() + _SUFFIX


def _digest(key: bytes, data: bytes) -> bytes:
    short_key = hashlib.blake2b(key, digest_size=64, person=b"wengert-content").digest()
    return hashlib.blake2b(data, digest_size=_HASH_BYTES, key=short_key).digest()


def _seal(key: bytes, data: bytes) -> bytes:
    return _HEADER.pack(_MAGIC, _VERSION, 0, len(data), _digest(key, data)) + data


def _unseal(key: bytes, content: bytes) -> bytes:
    """Return the data of a file that is whole, of this version, and was stored under `key`."""
    if len(content) < _HEADER.size:
        raise _UntrustedFileError
    magic, version, zero, length, digest = _HEADER.unpack_from(content)
    data = content[_HEADER.size :]
    if (magic, version, zero, length) != (_MAGIC, _VERSION, 0, len(data)):
        raise _UntrustedFileError
    if digest != _digest(key, data):
        raise _UntrustedFileError
    return data


def _make_private(path: Path) -> None:
    missing = [folder for folder in (path, *path.parents) if not os.path.lexists(folder)]
    for folder in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)


def _check_folder(status: os.stat_result, path: Path) -> None:
    if status.st_uid != os.geteuid():
        raise _UnsafeFolderError("it belongs to another user")
    if status.st_mode & 0o022:
        raise _UnsafeFolderError(f"other users may write to it (run: chmod go-w '{path}')")


def _trustworthy(status: os.stat_result) -> bool:
    if not stat.S_ISREG(status.st_mode):
        return False
    if not _HAS_OWNERS:
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _remove_abandoned(folder: _Folder, entries: list[_CachedFile]) -> None:
    """Remove temporary files whose writer must have died."""
    oldest = time.time_ns() - int(1e9 * _ABANDONED_AFTER)
    for entry in entries:
        if entry.name.startswith(_TEMPORARY) and entry.used < oldest:
            folder.remove(entry.name)


_warned: set[Path | None] = set()


def _warn_once(folder: Path | None, reason: str) -> None:
    if folder in _warned:
        return
    _warned.add(folder)
    warnings.warn(
        f"wengert compiles without keeping the code in {folder}: {reason}. "
        "Set WENGERT_CACHE to another folder, or to 'off'.",
        RuntimeWarning,
        stacklevel=2,
    )
