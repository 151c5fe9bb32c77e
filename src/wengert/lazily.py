"""Packages that import each of their files when a name in it is first asked for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any


def by_name(package: str, files: Mapping[str, str]) -> list[str]:
    """Lets a package find the names that are listed in `files`, by the file that has them.

    A file that is called what a name in it is called must not wait: a package has its files as
    attributes, too. The names are returned. The package gets its `__getattr__` here, so that
    tools that check types see no more names in it than there are.
    """
    homes = {name: file for file, names in files.items() for name in names.split()}
    module: Any = sys.modules[package]

    def find(name: str) -> Any:
        if name in files:
            return importlib.import_module(f"{package}.{name}")
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        setattr(module, name, found)
        return found

    module.__getattr__ = find
    module.__dir__ = lambda: [*{*vars(module), *homes}]
    return [*homes]
