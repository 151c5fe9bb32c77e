"""What every layer is: parameters, buffers and other modules as attributes, and `forward`.

A `Parameter` is a tensor that training changes, a buffer one that training keeps track of (such as
the mean that batch norm has seen). A module notices what is assigned to its attributes; that is all
there is to write:

>>> import numpy as np
>>> from wengert import nn
>>> class Affine(nn.Module):
...     def __init__(self, size):
...         self.scale = nn.Parameter(np.ones(size))
...         self.shift = nn.Parameter(np.zeros(size))
...
...     def forward(self, x):
...         return x * self.scale + self.shift
>>> affine = Affine(3)
>>> affine
Affine()    scale f64[3], shift f64[3]    6 parameters
>>> [name for name, parameter in affine.named_parameters()]
['scale', 'shift']

A module is also a tree (see `tree.py`) whose leaves are its parameters: `wg.grad` of a function of
a module gives a module with gradients in the place of the parameters. Buffers are not leaves: a
module that is taken apart and rebuilt shares them with the original, and so updates them in place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from .. import tree
from ..errors import (
    AbstractValueError,
    DTypeError,
    MutationError,
    ShapeError,
    StructureError,
    explain,
)
from ..flag import Flag
from ..jit import is_tracing
from ..tensor import Tensor, no_grad, peek, value_alone
from ..trace import called
from ..types import check_class
from .skeleton import Skeleton, parts_of

__all__ = ["Module", "Parameter"]


class Parameter(Tensor):
    """A tensor that a module registers and training changes; holds a copy of the data.

    >>> Parameter([1.0, 2.0])
    tensor([1., 2.], dtype=float64, requires_grad=True)
    """

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True, dtype: Any = None):
        if isinstance(data, Tensor):
            data = peek(data)
        elif isinstance(data, np.ndarray):
            check_class(data, "Parameter")
        super().__init__(np.array(data, dtype), requires_grad)


class Incompatible(NamedTuple):
    """What `load_state_dict` did not find, and what it found no use for."""

    missing: list[str]
    unexpected: list[str]


class Module:
    """The base of all layers and networks; see the text above for how to write one."""

    # the kind of each registered attribute: "parameter", "buffer" or "module", in order
    _kinds: dict[str, str]
    _transient: set[str]  # buffers that stay out of state dicts
    _mode: Flag
    # `jit` of a method: the module is state that the program captures, not an argument
    _captured_by_jit = True

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        tree.register(cls, _take_apart, Skeleton.rebuild, parts_of)

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Subclasses need not call ``super().__init__()``."""
        module = super().__new__(cls)
        vars(module).update(_kinds={}, _transient=set(), _mode=Flag(True))
        return module

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calling a module runs its `forward`."""
        return called(self.forward, *args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; every module defines its own."""
        raise NotImplementedError(
            explain(
                type(self).__name__,
                "the module has no forward method",
                "Define forward(self, x): it is what calling the module runs.",
            )
        )

    # ------------------------------------------------------------ attributes

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            self._register(name, value, "parameter")
        elif isinstance(value, Module):
            self._register(name, value, "module")
        elif value is None or name not in self._kinds:
            object.__setattr__(self, name, value)
        elif self._kinds[name] == "buffer":
            vars(self)[name] = _as_buffer(value)
        else:
            raise DTypeError(
                explain(
                    f"{type(self).__name__}.{name}",
                    f"got {type(value).__name__} for a {self._kinds[name]}",
                    f"Assign a {self._kinds[name]}, or write into it: "
                    f"with wg.no_grad(): module.{name}[...] = value",
                )
            )

    def __delattr__(self, name: str) -> None:
        self._kinds.pop(name, None)
        self._transient.discard(name)
        object.__delattr__(self, name)

    def _register(self, name: str, value: Any, kind: str) -> None:
        if not name or "." in name:
            raise StructureError(
                explain(
                    type(self).__name__,
                    f"got {name!r} as the name of a {kind}",
                    "Use a name without a dot: dots separate the names in a state dict.",
                )
            )
        self._transient.discard(name)
        self._kinds[name] = kind
        vars(self)[name] = value

    def register_parameter(self, name: str, parameter: Parameter | None) -> None:
        """Register a parameter, or that there is none: ``bias=False`` keeps its place."""
        self._register(name, parameter, "parameter")

    def register_module(self, name: str, module: Module | None) -> None:
        """Register a submodule under a name that no attribute could have, such as "0"."""
        self._register(name, module, "module")

    add_module = register_module

    def register_buffer(self, name: str, value: Any, persistent: bool = True) -> None:
        """Register an array that is part of the module's state but not trained.

        One that is not `persistent` stays out of state dicts.
        """
        self._register(name, _as_buffer(value), "buffer")
        if not persistent:
            self._transient.add(name)

    # ------------------------------------------------------------ walking

    def _own(self, kind: str) -> Iterator[tuple[str, Any]]:
        values = vars(self)
        for name, one in self._kinds.items():
            if one == kind and values[name] is not None:
                yield name, values[name]

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules that are attributes of this one, with their names."""
        return self._own("module")

    def children(self) -> Iterator[Module]:
        """The modules that are attributes of this one."""
        return (module for _, module in self._own("module"))

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it, each once, with dotted names."""
        seen: set[int] = set()
        for path, module in self._places(prefix, seen):
            seen.add(id(module))
            yield path, module

    def _places(self, prefix: str, skipped: Collection[int] = ()) -> Iterator[tuple[str, Module]]:
        """This module and all below it in every place where they stand, however deep."""
        waiting: list[tuple[str | None, Module]] = [(prefix, self)]
        around: set[int] = set()  # a module inside itself is not walked again
        while waiting:
            path, module = waiting.pop()
            if path is None:
                around.remove(id(module))
            elif id(module) not in skipped and id(module) not in around:
                yield path, module
                around.add(id(module))
                waiting.append((None, module))
                below = [(_join(path, name), child) for name, child in module.named_children()]
                waiting += reversed(below)

    def modules(self) -> Iterator[Module]:
        """This module and all below it, each once."""
        return (module for _, module in self.named_modules())

    def _all(self, kind: str, prefix: str, recurse: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        for path, module in self.named_modules(prefix) if recurse else [(prefix, self)]:
            for name, value in module._own(kind):
                if id(value) not in seen:
                    seen.add(id(value))
                    yield _join(path, name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """All parameters, each once, with dotted names."""
        return self._all("parameter", prefix, recurse)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters, each once: what an optimizer takes."""
        return (parameter for _, parameter in self._all("parameter", "", recurse))

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        """All buffers, each once, with dotted names."""
        return self._all("buffer", prefix, recurse)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers, each once."""
        return (buffer for _, buffer in self._all("buffer", "", recurse))

    def apply(self, function: Callable[[Module], Any]) -> Self:
        """Call a function with every module, the innermost first.

        >>> from wengert import nn
        >>> def zero(module):
        ...     if isinstance(module, nn.Linear):
        ...         nn.init.zeros_(module.weight)
        >>> float(nn.Sequential(nn.Linear(2, 2)).apply(zero)[0].weight.sum())
        0.0
        """
        for module in reversed(list(self.modules())):
            function(module)
        return self

    # ------------------------------------------------------------ modes, gradients, dtypes

    @property
    def training(self) -> bool:
        """Whether layers such as dropout behave as in training.

        A program that `jit` compiles is for the modes it has read: `train` and `eval` work for
        compiled functions too.
        """
        return self._mode.value

    @training.setter
    def training(self, value: bool) -> None:
        self._mode.value = bool(value)

    def train(self, mode: bool = True) -> Self:
        """Put this module and all below it into training mode."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Put this module and all below it into evaluation mode."""
        return self.train(False)

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for parameter in self.parameters():
            if isinstance(parameter, Tensor):  # in a module of gradients it is an array
                parameter.zero_grad()

    def astype(self, dtype: Any) -> Self:
        """Give all floating parameters and buffers another dtype, as new tensors.

        Do this before an optimizer takes the parameters.
        """
        made: dict[int, Any] = {}
        for module in self.modules():
            for name, kind in module._kinds.items():
                value = vars(module)[name]
                if kind == "module" or value is None or value.dtype.kind not in "fc":
                    continue
                if id(value) not in made:
                    changed = _plain(value).astype(dtype)
                    trained = kind == "parameter" and getattr(value, "requires_grad", True)
                    make = Parameter if kind == "parameter" else Tensor
                    made[id(value)] = make(changed, trained)
                vars(module)[name] = made[id(value)]
        return self

    # ------------------------------------------------------------ state

    def _state(self) -> Iterator[tuple[str, Tensor]]:
        """Everything that a state dict has; a parameter in two places under both names."""
        for path, module in self._places(""):
            values = vars(module)
            for name, kind in module._kinds.items():
                stays = kind != "module" and values[name] is not None
                if stays and name not in module._transient:
                    yield _join(path, name), values[name]

    def state_dict(self) -> dict[str, np.ndarray]:
        """The parameters and buffers by dotted name, as copies.

        >>> from wengert import nn
        >>> {name: array.shape for name, array in nn.Linear(3, 2).state_dict().items()}
        {'weight': (2, 3), 'bias': (2,)}
        """
        return {name: np.array(_plain(value)) for name, value in self._state()}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> Incompatible:
        """Write arrays into the parameters and buffers of these names, in place.

        All shapes are checked before anything is written. With `strict` the names must be the
        same; otherwise the result says which were missing or unexpected.
        """
        own = dict(self._state())
        found = Incompatible(
            [name for name in own if name not in state], [name for name in state if name not in own]
        )
        if strict and (found.missing or found.unexpected):
            raise StructureError(_mismatch(type(self).__name__, found))
        arrays = {name: _plain(state[name]) for name in own if name in state}
        for name, array in arrays.items():
            if array.shape != own[name].shape:
                raise ShapeError(
                    explain(
                        "load_state_dict",
                        f"{name} has shape {array.shape}, expected {own[name].shape}",
                        "Build the module with the sizes that the state dict was made with.",
                    )
                )
        with no_grad():
            for name, array in arrays.items():
                own[name][...] = array.astype(own[name].dtype)
        return found

    # ------------------------------------------------------------ printing

    def extra_repr(self) -> str:
        """The arguments that the printed form shows."""
        return ""

    def __repr__(self) -> str:
        from .printing import describe  # not needed to train

        return describe(self)

    def _repr_html_(self) -> str:
        from .printing import describe_as_html

        return describe_as_html(self)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _as_buffer(value: Any) -> Tensor | None:
    if value is None or isinstance(value, Tensor):
        return value
    return Tensor(np.array(value))


def write(buffer: Tensor, value: Any) -> None:
    """Put a new content into a buffer, in place; no derivative passes through.

    >>> seen = Tensor(np.zeros(2))
    >>> write(seen, seen + 1)
    >>> seen
    tensor([1., 1.], dtype=float64)
    """
    try:
        content = Tensor(value_alone(value))
    except AbstractValueError:
        raise MutationError(
            explain(
                "writing to a buffer",
                "inside vmap and checkpoint the value has no number yet",
                "Call eval() first, or keep the module outside of them.",
            )
        ) from None
    buffer[...] = content


def _plain(value: Any) -> np.ndarray:
    """The array of a tensor, whoever made it."""
    if isinstance(value, Tensor):
        return peek(value)
    return np.asarray(value.detach() if hasattr(value, "detach") else value)


def _mismatch(name: str, found: Incompatible) -> str:
    parts = []
    if found.missing:
        parts.append("has no " + ", ".join(found.missing))
    if found.unexpected:
        parts.append("has " + ", ".join(found.unexpected) + " besides")
    return explain(
        "load_state_dict",
        f"the state dict for {name} " + " and ".join(parts),
        "Give one of the same network, or strict=False to load what fits.",
    )


def _take_apart(module: Module) -> tuple[list[Any], Skeleton]:
    """The parameters of a module, each once, and all the rest of it."""
    skeleton, parameters = Skeleton.of(module)
    return [_leaf(parameter) for parameter in parameters], skeleton


def _leaf(parameter: Any) -> Any:
    """What a parameter holds: an array; inside `jit`, a value that it traces."""
    if not isinstance(parameter, Tensor):
        return parameter
    return parameter.detach() if is_tracing() else peek(parameter)


tree.register(Module, _take_apart, Skeleton.rebuild, parts_of)
