"""Parameters that share their options: what an entry of `param_groups` is.

To the user a `Group` is a dictionary like PyTorch's: ``group["lr"] *= 0.1``. Inside, the numbers
among the options lie in one tensor, and the Booleans in flags, so that both are state of a compiled
step: a change between two calls is seen by the next one. A number is just another number; nothing
is compiled again. A Boolean selects among programs, and so does whether a number like
`weight_decay` is zero: what is turned off is not computed.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from ..errors import DTypeError, MutationError, StructureError, explain
from ..flag import Flag
from ..jit import is_tracing
from ..tensor import Tensor, operand


class Group(MutableMapping[str, Any]):
    """The parameters of one group, and their options.

    >>> from wengert import optim, tensor
    >>> group = optim.SGD([tensor([1.0], requires_grad=True)], lr=0.1).param_groups[0]
    >>> group["lr"] *= 0.5
    >>> group["lr"], group["nesterov"]
    (0.05, False)
    """

    def __init__(
        self,
        owner: str,
        params: Sequence[Tensor],
        options: Mapping[str, Any],
        switches: Sequence[str],
        fixed: Sequence[str] = (),
    ):
        self.params = list(params)
        self._owner = owner  # for messages
        self._places: dict[str, int | tuple[int, ...]] = {}  # of numbers, in the one tensor
        self._flags: dict[str, Flag] = {}
        self._others: dict[str, Any] = {}
        self._watchers: list[Any] = []
        values: list[float] = []
        self._fixed = tuple(fixed)
        for name, value in options.items():
            if name in fixed:
                self._others[name] = value
            elif isinstance(value, bool):
                self._flags[name] = Flag(value)
            elif _is_number(value):
                self._places[name] = len(values)
                values.append(float(value))
            elif isinstance(value, (tuple, list)) and value and all(map(_is_number, value)):
                self._places[name] = tuple(range(len(values), len(values) + len(value)))
                values += map(float, value)
            else:
                self._others[name] = value
        self.numbers = Tensor(np.array(values, float))
        for name in switches:
            if name in self._places:
                self._flags[name] = Flag(bool(options[name]))
        # how many updates each of the parameters has had
        self.steps = Tensor(np.zeros(len(self.params)))
        # numbers of the last step that differ from parameter to parameter
        self.rows: dict[str, Tensor] = {}

    def on(self, name: str) -> bool:
        """Whether an option is there and turned on: true, or not zero."""
        return name in self._flags and self._flags[name].value

    def number(self, name: str) -> Any:
        """A number among the options, in float64; inside `jit` a traced one."""
        place = self._places[name]
        numbers = operand(self.numbers)
        if isinstance(place, tuple):
            return tuple(numbers[one] for one in place)
        return numbers[place]

    def switches(self) -> dict[str, bool]:
        """Which options are turned on; they decide which program a compiled step is."""
        return {name: flag.value for name, flag in self._flags.items()}

    def turn(self, switches: Mapping[str, bool]) -> None:
        """Turn options on and off, and tell nobody; the numbers stay as they are."""
        for name, value in switches.items():
            self._flags[name].value = value

    def watch(self, changed: Any) -> None:
        """Have `changed()` called whenever an option is turned on or off."""
        self._watchers.append(changed)

    # ------------------------------------------------------------ as a dictionary

    def __getitem__(self, name: str) -> Any:
        if name == "params":
            return self.params
        if name not in self._places:
            return self._flags[name].value if name in self._flags else self._others[name]
        found = self.number(name)
        if is_tracing():
            return found
        return tuple(map(float, found)) if isinstance(found, tuple) else float(found)

    def __setitem__(self, name: str, value: Any) -> None:
        if name == "params":
            raise StructureError(
                explain(
                    f"{self._owner}: param_groups",
                    "the parameters of a group are fixed",
                    "Use add_param_group, or make a new optimizer.",
                )
            )
        if name in self._fixed and value != self._others[name]:
            raise MutationError(
                explain(
                    f'{self._owner}: param_groups[...]["{name}"]',
                    f"got {value!r}, but the option is {self._others[name]!r} for good",
                    "Compiled steps are made for it: make a new optimizer.",
                )
            )
        if name not in self._places and name not in self._flags:
            self._others[name] = value
            return
        if is_tracing() and not (name in self._places and self._stays_on(name)):
            raise MutationError(
                explain(
                    f'{self._owner}: param_groups[...]["{name}"]',
                    "inside jit, the option would be turned on or off",
                    "Assign to it outside of the compiled function.",
                )
            )
        if name in self._places:
            self._set_numbers(name, value)
        if name in self._flags and not is_tracing():
            self._flags[name].value = bool(value)
            for changed in self._watchers:
                changed()

    def _stays_on(self, name: str) -> bool:
        """Whether a number can be any other without turning something on."""
        return name not in self._flags or self._flags[name].value

    def _set_numbers(self, name: str, value: Any) -> None:
        place = self._places[name]
        several = isinstance(place, tuple)
        values = tuple(value) if several and isinstance(value, (tuple, list)) else (value,)
        places = place if isinstance(place, tuple) else (place,)
        fits = len(values) == len(places) and all(map(_is_number, values))
        if not fits:
            expected = f"{len(places)} numbers" if several else "a number"
            raise DTypeError(
                explain(
                    f'{self._owner}: param_groups[...]["{name}"]',
                    f"got {value!r}, expected {expected}",
                    "Assign floats.",
                )
            )
        for one, number in zip(places, values, strict=True):
            self.numbers[one] = number

    def __delitem__(self, name: str) -> None:
        del self._others[name]  # what the optimizer needs stays

    def __iter__(self) -> Iterator[str]:
        yield "params"
        yield from self._places
        yield from (name for name in self._flags if name not in self._places)
        yield from self._others

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr(dict(self))


def _is_number(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.shape == ()
    if isinstance(value, (np.ndarray, np.generic)):
        return value.shape == () and value.dtype.kind in "iuf"
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
