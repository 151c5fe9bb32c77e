"""Layers without parameters: a function of `nn.functional`, and its options as attributes.

Such a layer is a line of a table. Its arguments are those of the function after the inputs, so
names, order and defaults are written once, there.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, ClassVar

from ..types import Function
from . import functional
from .module import Module

# arguments of a function that are no options of a layer: it knows them, or has no use for them
_OWN = ("training", "key")
_INPLACE = inspect.Parameter("inplace", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=False)


class Applied(Module):
    """The base of these layers."""

    __signature__: ClassVar[inspect.Signature]
    _function: ClassVar[Function]
    _options: ClassVar[tuple[str, ...]]  # of the function; the others are the layer's own
    _arrays: ClassVar[tuple[str, ...]]  # options that are buffers, as in PyTorch's state dicts
    _knows_mode: ClassVar[bool]
    inplace: bool = False

    def __init__(self, *args: Any, **keywords: Any):
        bound = self.__signature__.bind(*args, **keywords)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            if name in self._arrays:
                self.register_buffer(name, value)
            elif value is not self.__signature__.parameters[name].default:
                setattr(self, name, value)  # the usual ones are attributes of the class

    def forward(self, *inputs: Any) -> Any:
        """The function of the inputs, with the options of the layer."""
        options = {name: getattr(self, name) for name in self._options}
        if self._knows_mode:
            options["training"] = self.training
        result = self._function(*inputs, **options)
        if not self.inplace:
            return result
        inputs[0][...] = result
        return inputs[0]

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
    inplace: bool = False,
    **fixed: Any,
) -> type[Module]:
    """A layer that applies a function to so many `inputs`.

    `order` is that of the options where it is not the function's; `fixed` ones cannot be chosen,
    and `arrays` are buffers. A layer that may work `inplace` has an option for that: the result
    is written into the input.

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
    options = list(order) or options
    taken = [parameters[one] for one in options] + ([_INPLACE] if inplace else [])

    def run(*args: Any, **keywords: Any) -> Any:
        return function(*args, **keywords, **fixed)

    known = next(name for name, value in vars(functional).items() if value is function)
    about = (function.__doc__ or "").partition("\n\n")[0]
    body = {one.name: one.default for one in taken if one.default is not one.empty} | {
        "__doc__": f"{about}\n\n    `nn.functional.{known}` as a layer.\n    ",
        "__module__": "wengert.nn",
        "__signature__": inspect.Signature(taken),
        "_options": tuple(options),
        "_function": staticmethod(run if fixed else function),
        "_arrays": tuple(arrays),
        "_knows_mode": "training" in parameters,
    }
    return type(name, (Applied,), body)
