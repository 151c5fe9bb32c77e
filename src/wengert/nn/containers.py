"""Modules made of modules, and of parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..errors import StructureError, explain
from .module import Module, Parameter

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


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


class ParameterList(Module):
    """A list of parameters, named "0", "1", ..., that the module it belongs to knows about.

    >>> import numpy as np
    >>> from wengert import nn
    >>> scales = nn.ParameterList([nn.Parameter(np.ones(2)), np.zeros(3)])
    >>> len(scales), [name for name, _ in scales.named_parameters()]
    (2, ['0', '1'])
    """

    def __init__(self, values: Iterable[Any] = ()):
        self.extend(values)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Any]:
        return (parameter for _, parameter in self._own("parameter"))

    def __getitem__(self, key: int | slice) -> Any:
        """One parameter, or a list with some of them (the same ones, not copies)."""
        found = list(self)[key]
        return type(self)(found) if isinstance(key, slice) else found

    def __setitem__(self, key: int, value: Any) -> None:
        name = list(vars(self)["_kinds"])[key]
        self.register_parameter(name, _as_parameter(value))

    def append(self, value: Any) -> Any:
        """Add a parameter, or an array that becomes one, at the end."""
        self.register_parameter(str(len(self)), _as_parameter(value))
        return self

    def extend(self, values: Iterable[Any]) -> Any:
        """Add several at the end."""
        for value in values:
            self.append(value)
        return self


def _as_parameter(value: Any) -> Any:
    return value if isinstance(value, Parameter) else Parameter(value)


class _Named(Module):
    """A dictionary whose values are registered under its keys."""

    kind: str

    def __init__(self, values: Mapping[str, Any] | Iterable[tuple[str, Any]] | None = None):
        self.update(values or {})

    def _register_value(self, key: str, value: Any) -> None:
        raise NotImplementedError

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._own(self.kind))

    def __contains__(self, key: object) -> bool:
        return key in list(self)

    def __getitem__(self, key: str) -> Any:
        return dict(self._own(self.kind))[key]

    def __setitem__(self, key: str, value: Any) -> None:
        if key not in self and hasattr(self, key):
            raise StructureError(
                explain(
                    type(self).__name__,
                    f"got {key!r} as a key, which is an attribute of every module",
                    "Use another key.",
                )
            )
        self._register_value(key, value)

    def __delitem__(self, key: str) -> None:
        delattr(self, key)

    def keys(self) -> list[str]:
        """The names, in order."""
        return list(self)

    def values(self) -> list[Any]:
        """What is registered, in order."""
        return [value for _, value in self.items()]

    def items(self) -> list[tuple[str, Any]]:
        """Names and what is registered under them, in order."""
        return list(self._own(self.kind))

    def pop(self, key: str) -> Any:
        """Take one out."""
        value = self[key]
        del self[key]
        return value

    def clear(self) -> None:
        """Take all out."""
        for key in list(self):
            del self[key]

    def update(self, values: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
        """Add several, in place of those of the same names."""
        pairs = values.items() if isinstance(values, (Mapping, _Named)) else values
        for key, value in pairs:
            self[key] = value


class ModuleDict(_Named):
    """A dictionary of modules that the module it belongs to knows about.

    >>> from wengert import nn
    >>> layers = nn.ModuleDict({"in": nn.Linear(2, 3), "act": nn.ReLU()})
    >>> layers["out"] = nn.Linear(3, 1)
    >>> layers.keys(), len(list(layers.parameters()))
    (['in', 'act', 'out'], 4)
    """

    kind = "module"

    def _register_value(self, key: str, value: Any) -> None:
        self.register_module(key, value)


class ParameterDict(_Named):
    """A dictionary of parameters that the module it belongs to knows about.

    >>> import numpy as np
    >>> from wengert import nn
    >>> scales = nn.ParameterDict({"left": nn.Parameter(np.ones(2)), "right": np.zeros(3)})
    >>> scales["right"].shape, [name for name, _ in scales.named_parameters()]
    ((3,), ['left', 'right'])
    """

    kind = "parameter"

    def _register_value(self, key: str, value: Any) -> None:
        self.register_parameter(key, _as_parameter(value))
