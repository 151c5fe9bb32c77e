"""Where data sets lie on this machine, and how they get into the cache.

The places are tried in the order of `places`: the folder of the caller, `WENGERT_DATA`, the user's
cache, and where Debian installs data sets. In each, the files may lie in a folder of the data set's
name or directly; the few bytes of the test labels tell which of the known data sets lies there
directly.

The cache is written whole or not at all: the files go into a folder aside, which is then renamed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import DataError, DataNotFoundError, explain
from ..folders import user_cache_folder
from .catalog import ENTRIES, FILES, MAX_FILE_BYTES, Entry
from .idx import read_checked

DEBIAN = Path("/usr/share/datasets")
_TEMPORARY = ".part-"
_ABANDONED_AFTER = 3600.0  # seconds after which a folder aside has no living writer
_LABELS = FILES[-1]  # the smallest file, which tells data sets apart


@dataclass(frozen=True)
class Place:
    """A folder in which to look, and how it came to be one."""

    origin: str
    folder: Path


@dataclass(frozen=True)
class Found:
    """A data set that lies on this machine."""

    name: str
    folder: Path
    origin: str

    def __str__(self) -> str:
        return f"{self.name} in {self.folder} ({self.origin})"


def cache_folder() -> Path | None:
    """Where fetched and drawn data is kept; None on a machine without a home folder."""
    try:
        return user_cache_folder() / "wengert" / "data"
    except RuntimeError:
        return None


def places(folder: str | os.PathLike[str] | None = None) -> list[Place]:
    """The folders in which to look, first choice first."""
    chosen = os.environ.get("WENGERT_DATA")
    cache = cache_folder()
    given = [
        ("folder=", Path(folder).expanduser() if folder is not None else None),
        ("WENGERT_DATA", Path(chosen).expanduser() if chosen else None),
        ("cache", cache),
        ("Debian", DEBIAN),
    ]
    return [Place(origin, path) for origin, path in given if path is not None]


def found(folder: str | os.PathLike[str] | None = None) -> list[Found]:
    """The known data sets on this machine and the folders that `mnist` and others would read.

    Nothing is fetched, and of the files only the test labels are read.

    >>> all(set_.name in ("mnist", "fashion-mnist") for set_ in found())
    True
    """
    located = (locate(entry, places(folder)) for entry in ENTRIES)
    return [one for one in located if one is not None]


def locate(entry: Entry, among: Iterable[Place]) -> Found | None:
    """The first place that has all files of a data set."""
    for place in among:
        for name in (*entry.folders, ""):
            folder = place.folder / name
            if not all(file_in(folder, file) for file in FILES):
                continue
            if name or _known_as(folder) in (entry.name, None):
                return Found(entry.name, folder, place.origin)
    return None


def file_in(folder: Path, name: str) -> Path | None:
    """The file of that name, packed or not; some mirrors write a dot for the second dash."""
    stem, kind, end = name.rsplit("-", 2)
    for spelling in (name, f"{stem}.{kind}-{end}"):
        for path in (folder / spelling, folder / f"{spelling}.gz"):
            with contextlib.suppress(OSError):  # a folder that we may not enter has nothing for us
                if path.is_file():
                    return path
    return None


def _known_as(folder: Path) -> str | None:
    """The name of the known data set whose test labels lie in a folder, if there is one."""
    path = file_in(folder, _LABELS)
    assert path is not None
    try:
        sum_ = read_checked(path, MAX_FILE_BYTES)[1]
    except (DataError, OSError):
        return None  # reading it for good will say what is wrong
    return next((entry.name for entry in ENTRIES if entry.sums[-1] == sum_), None)


def check_folder(operation: str, folder: str | os.PathLike[str] | None) -> None:
    """A folder that was named and does not exist is a slip, not a reason to look elsewhere."""
    if folder is not None and not Path(folder).expanduser().is_dir():
        raise DataNotFoundError(
            explain(
                operation,
                f"folder={os.fspath(folder)!r} is not a folder",
                "Name one that holds the files, or leave folder out.",
            )
        )


# ---------------------------------------------------------------- the cache


def store(name: str, files: Mapping[str, bytes]) -> Path | None:
    """Keep files in the cache, in a folder of that name; None, and a warning, if that fails.

    Two processes may store the same: either's folder is as good. With the files goes a list of
    their sums, for data that has no other proof (`intact`).
    """
    cache = cache_folder()
    if cache is None:
        return None
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_abandoned(cache)
        aside = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=cache))
        try:
            _write_all(aside, files)
            return _put_in_place(aside, cache / name)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        warnings.warn(
            f"wengert cannot keep {name} in {cache} ({error.strerror or error}); "
            "it will be fetched or drawn again next time",
            RuntimeWarning,
            stacklevel=2,
        )
        return None


def intact(folder: Path) -> bool:
    """Whether the files that `store` put there are all there, and as they were."""
    try:
        lines = (folder / "SHA256SUMS").read_text("ascii").splitlines()
        for line in lines:
            sum_, _, name = line.partition("  ")
            with open(folder / name, "rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != sum_:
                    return False
    except (OSError, UnicodeError):
        return False
    return bool(lines)


def _remove_abandoned(cache: Path) -> None:
    """Remove what a killed process left aside."""
    for path in cache.glob(f"{_TEMPORARY}*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _ABANDONED_AFTER:
                shutil.rmtree(path, ignore_errors=True)


def _write_all(folder: Path, files: Mapping[str, bytes]) -> None:
    sums = [f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in files.items()]
    for name, content in (*files.items(), ("SHA256SUMS", "".join(sums).encode("ascii"))):
        with open(folder / name, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def _put_in_place(aside: Path, target: Path) -> Path:
    for _ in range(3):  # another process may put its own there between two steps
        try:
            os.rename(aside, target)
            return target
        except OSError:
            if not target.is_dir():
                raise
            if intact(target):
                return target
        damaged = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=target.parent))
        with contextlib.suppress(OSError):
            os.rename(target, damaged / "old")
        shutil.rmtree(damaged, ignore_errors=True)
    os.rename(aside, target)
    return target
