"""Modules made of modules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .module import Module


class _Numbered(Module):
    """Modules in order, named "0", "1", ... unless they have names of their own."""

    def __len__(self) -> int:
        return sum(1 for _ in self.children())

    def __iter__(self) -> Iterator[Module]:
        return self.children()

    def __getitem__(self, key: int | slice) -> Any:
        """One module, or a container with some of them (the same ones, not copies)."""
        if not isinstance(key, slice):
            return list(self.children())[key]
        part = type(self)()
        for name, module in list(self.named_children())[key]:
            part.register_module(name, module)
        return part

    def append(self, module: Module) -> Any:
        """Add a module at the end."""
        self.register_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Add several modules at the end."""
        for module in modules:
            self.append(module)
        return self


class Sequential(_Numbered):
    """Modules one after the other: each gets what the one before returned.

    >>> from wengert import nn
    >>> nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    Sequential                                             13 parameters
      0: Linear(2, 3)    weight f32[3,2], bias f32[3]    9
      1: ReLU()
      2: Linear(3, 1)    weight f32[1,3], bias f32[1]    4
    """

    def __init__(self, *modules: Any):
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, module in modules[0].items():
                self.register_module(name, module)
        else:
            self.extend(modules)

    def forward(self, input: Any) -> Any:
        """All modules in turn."""
        for module in self.children():
            input = module(input)
        return input


class ModuleList(_Numbered):
    """A list of modules that the module it belongs to knows about.

    >>> from wengert import nn
    >>> layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Iterable[Module] = ()):
        self.extend(modules)
