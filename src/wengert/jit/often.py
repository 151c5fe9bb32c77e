"""What is said of a function that is compiled again and again: what changes, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..errors import RecompilationWarning
from .arguments import Parameters

# So many of the newest programs are compared.
_COMPARED = 32


class _Difference(NamedTuple):
    """Something that may differ between programs: its values, and what to do if it does."""

    what: str
    values: Sequence[Any]
    remedy: str
    shown: bool = True


def warn_often(
    parameters: Parameters, keys: Sequence[Any], owners: Sequence[str], any_length: bool, count: int
) -> None:
    """Warn, with the keys of a function's programs and the argument that each leaf is in.

    `any_length` says that it was to be compiled for any length, which has not helped.
    """
    changes = _changes(parameters, keys[-_COMPARED:], owners, any_length)
    most = max(changes, key=lambda change: len(set(change.values)))
    if len(set(most.values)) < 2:
        why = ". What it reads from outside changes: give that as an argument."
    else:
        some = ", ".join(list(dict.fromkeys(map(str, most.values)))[:3])
        seen = f": {some}, ..." if most.shown else ""
        why = f", as {most.what} changes{seen}. {most.remedy}"
    _warn(f"{parameters.name}: was compiled {count} times{why}")


def warn_of_instances(name: str, count: int) -> None:
    """Warn of a method that is compiled for one instance after the other."""
    _warn(
        f"{name}: was compiled {count} times, as the instance changes. Keep the instances, or "
        "compile a function that has what differs between them as arguments."
    )


def _warn(text: str) -> None:
    from ..lines import warn

    warn(text, RecompilationWarning)


def _changes(
    parameters: Parameters, keys: Sequence[Any], owners: Sequence[str], any_length: bool
) -> Iterator[_Difference]:
    yield _Difference(
        "the structure of the arguments",
        [key[0] for key in keys],
        "Give the same structure of tuples, lists and dicts each time.",
        shown=False,
    )
    for place, statics in enumerate(zip(*(key[2] for key in keys), strict=False)):
        where = keys[-1][2][place][0]
        name = where if isinstance(where, str) else parameters.name_at(where)
        yield _Difference(
            f"the static argument {name}",
            [static for _, static in statics],
            f"Leave {name} out of static_argnames, or give it one of few values.",
        )
    for name, leaves in zip(owners, zip(*(key[1] for key in keys), strict=False), strict=False):
        yield from _of_array(name, leaves, any_length)


def _of_array(name: str, leaves: Sequence[Any], any_length: bool) -> Iterator[_Difference]:
    shapes = [leaf.type.shape for leaf in leaves]
    yield _Difference(
        f"the shape of argument {name}", shapes, _for_shapes(name, shapes, any_length)
    )
    yield _Difference(
        f"the dtype of argument {name}",
        [leaf.type.dtype for leaf in leaves],
        "Convert it to one dtype before the call.",
    )
    yield _Difference(
        f"the strides of argument {name}",
        [leaf.strides for leaf in leaves],
        f"Give arrays that lie alike in memory, for instance np.ascontiguousarray({name}).",
    )


def _for_shapes(name: str, shapes: Sequence[tuple[Any, ...]], any_length: bool) -> str:
    """What to do where these shapes come."""
    if any_length or len(set(map(len, shapes))) > 1:
        return "Pad it to a few shapes."
    axes = [axis for axis, lengths in enumerate(zip(*shapes, strict=True)) if len(set(lengths)) > 1]
    named = str(axes[0]) if len(axes) == 1 else str(tuple(axes))
    return f'Compile it for any length with jit(dynamic={{"{name}": {named}}}), or pad it.'
