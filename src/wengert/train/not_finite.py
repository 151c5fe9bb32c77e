"""Where a loss that is not finite came from.

The batch is run once more, evaluated, with a look at what goes into and comes out of every module.
The first that makes something infinite out of finite numbers is the one to name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import tree
from ..tensor import no_grad, peek


def where_it_began(model: Any, loss: Callable[[Any, Any], Any], x: Any, y: Any) -> tuple[str, str]:
    """The name of the module where it began (or ""), and that in words.

    >>> import wengert.numpy as wnp
    >>> from wengert import nn
    >>> class Logarithm(nn.Module):
    ...     def forward(self, x):
    ...         return wnp.log(x)
    >>> model = nn.Sequential(nn.ReLU(), Logarithm())
    >>> where_it_began(model, nn.mse_loss, np.array([-1.0]), np.array([0.0]))
    ('1', 'it began in layer 1 (Logarithm), which made -inf')
    """
    if not _is_finite((x, y)):
        return "", f"the batch itself has {_sample((x, y))}"
    for name, parameter in model.named_parameters():
        if not _is_finite(peek(parameter)):
            layer = name.rpartition(".")[0]
            return layer, (
                f"{name} had {_sample(peek(parameter))} before it: "
                "the update of the step before was too large"
            )
    for name, buffer in model.named_buffers():
        if not _is_finite(peek(buffer)):
            layer = name.rpartition(".")[0]
            return layer, f"the buffer {name} had {_sample(peek(buffer))} before it"
    found: list[tuple[str, str]] = []
    with no_grad(), np.errstate(all="ignore"), _watched(model, found):
        output = model(x)
        if not found:
            value = loss(output, y)
            if not _is_finite(value):
                found.append(
                    ("", f"all layers are finite, the loss function made {_sample(value)}")
                )
    if found:
        return found[0]
    return "", "evaluated by NumPy the same batch is finite; wg.debug_nans() may show more"


@contextlib.contextmanager
def _watched(model: Any, found: list[tuple[str, str]]) -> Iterator[None]:
    """Look at every call of a module below the model; the first one that is bad is noted."""
    named = list(model.named_modules())
    for name, module in named:
        vars(module)["forward"] = _looking(name, module, module.forward, found)
    try:
        yield
    finally:
        for _, module in named:
            del vars(module)["forward"]


def _looking(name: str, module: Any, forward: Any, found: list[tuple[str, str]]) -> Any:
    def look(*args: Any, **kwargs: Any) -> Any:
        good = _is_finite((args, kwargs))
        output = forward(*args, **kwargs)
        if good and not found and not _is_finite(output):
            kind = type(module).__name__
            layer = f"layer {name} ({kind})" if name else f"the model itself ({kind})"
            found.append((name, f"it began in {layer}, which made {_sample(output)}"))
        return output

    return look


def _arrays(value: Any) -> Iterator[np.ndarray]:
    for leaf in tree.leaves(value):
        if leaf is not None:
            array = np.asarray(leaf.numpy() if hasattr(leaf, "numpy") else leaf)
            if array.dtype.kind in "fc":
                yield array


def _is_finite(value: Any) -> bool:
    return all(np.isfinite(array).all() for array in _arrays(value))


def _sample(value: Any) -> str:
    """The first number that is not finite."""
    for array in _arrays(value):
        bad = array[~np.isfinite(array)]
        if bad.size:
            return f"{bad.flat[0]}"
    return "nothing"
