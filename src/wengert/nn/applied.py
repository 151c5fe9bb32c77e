"""Layers without parameters: a function of `nn.functional`, and its options as attributes.

Such a layer is a line of a table. Its arguments are those of the function after the inputs, so
names, order and defaults are written once, there.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, ClassVar

from ..types import Function
from .module import Module

# arguments of a function that are no options of a layer: it knows them, or has no use for them
_OWN = ("training", "key")


class Applied(Module):
    """The base of these layers."""

    __signature__: ClassVar[inspect.Signature]
    _function: ClassVar[Function]
    _arrays: ClassVar[tuple[str, ...]]  # options that are buffers, as in PyTorch's state dicts
    _knows_mode: ClassVar[bool]

    def __init__(self, *args: Any, **keywords: Any):
        bound = self.__signature__.bind(*args, **keywords)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            if name in self._arrays:
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, *inputs: Any) -> Any:
        """The function of the inputs, with the options of the layer."""
        options = {name: getattr(self, name) for name in self.__signature__.parameters}
        if self._knows_mode:
            options["training"] = self.training
        return self._function(*inputs, **options)

    def extra_repr(self) -> str:
        """What must be given, and what is not as usual."""
        shown = []
        for name, parameter in self.__signature__.parameters.items():
            value = getattr(self, name)
            if parameter.default is parameter.empty:
                shown.append(f"{value!r}")
            elif name not in self._arrays and value != parameter.default:
                shown.append(f"{name}={value!r}")
        return ", ".join(shown)


def layer(
    name: str,
    function: Function,
    inputs: int = 1,
    order: Sequence[str] = (),
    arrays: Sequence[str] = (),
    **fixed: Any,
) -> type[Module]:
    """A layer that applies a function to so many `inputs`.

    `order` is that of the options where it is not the function's; `fixed` ones cannot be chosen,
    and `arrays` are buffers.

    >>> import numpy as np
    >>> from wengert.nn import functional
    >>> Slope = layer("Slope", functional.leaky_relu)
    >>> Slope(0.5)(np.array([-2.0]))
    array([-1.])
    """
    parameters = inspect.signature(function).parameters
    options = [
        name
        for name, one in list(parameters.items())[inputs:]
        if name not in (*_OWN, *fixed) and one.kind is one.POSITIONAL_OR_KEYWORD
    ]
    signature = inspect.Signature([parameters[one] for one in order or options])

    def run(*args: Any, **keywords: Any) -> Any:
        return function(*args, **keywords, **fixed)

    about = (function.__doc__ or "").partition("\n\n")[0]
    body = {
        "__doc__": f"{about}\n\n    `nn.functional.{function.__name__}` as a layer.\n    ",
        "__module__": "wengert.nn",
        "__signature__": signature,
        "_function": staticmethod(run if fixed else function),
        "_arrays": tuple(arrays),
        "_knows_mode": "training" in parameters,
    }
    return type(name, (Applied,), body)
