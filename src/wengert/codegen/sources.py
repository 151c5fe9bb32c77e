"""A short text for wengert's own code, of which keys of programs on disk depend.

What counts is the content of the files: times and sizes may stay when a text is another. Reading
all of them takes a good part of the time in which a program is loaded, so what came out is kept
beside the programs, under what the system says of each file. That includes the time of its last
change of any kind, which nobody can set.
"""

from __future__ import annotations

import functools
import hashlib
import os
import time
from collections.abc import Iterator

from .cache import ObjectCache, cache_key, shared_cache

# Clocks of file systems tick: a file that was changed just now may change again unseen.
TICK = 2_000_000_000  # nanoseconds


@functools.cache
def source_fingerprint() -> str | None:
    """A text that changes whenever a source file of the package does; None without files.

    Keys for results that depend on wengert's own code, not just on generated text, need it:
    during development the version stays and the code moves.
    """
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return fingerprint_of(folder, shared_cache())


def fingerprint_of(folder: str, cache: ObjectCache) -> str | None:
    """A hash of the content of all Python files below, read only if one may have changed."""
    files = list(_files(folder))
    if not files:
        return None
    status = [
        (
            entry.path[len(folder) :],
            found.st_ino,
            found.st_size,
            found.st_mtime_ns,
            found.st_ctime_ns,
        )
        for entry in files
        for found in [entry.stat()]
    ]
    settled = os.name == "posix" and max(s[-1] for s in status) < time.time_ns() - TICK
    if not settled:
        return _content(folder, files)
    key = cache_key("sources", folder, repr(status))  # one text is hashed sooner than its parts
    known = cache.get(key)
    if known is None:
        known = _content(folder, files).encode()
        cache.put(key, known)
    return known.decode()


def _files(folder: str) -> Iterator[os.DirEntry[str]]:
    pending = [folder]
    while pending:
        with os.scandir(pending.pop()) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        for entry in entries:
            if entry.name.endswith((".py", ".pyc")):
                yield entry
            elif entry.name != "__pycache__" and entry.is_dir():
                pending.append(entry.path)


def _content(folder: str, files: list[os.DirEntry[str]]) -> str:
    hasher = hashlib.blake2b(digest_size=16)
    for entry in files:
        with open(entry.path, "rb", buffering=0) as file:
            text = file.read()
        hasher.update(b"%s %d:" % (os.fsencode(entry.path[len(folder) :]), len(text)))
        hasher.update(text)
    return hasher.hexdigest()
