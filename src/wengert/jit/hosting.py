"""Operations that NumPy evaluates inside a compiled program, at little more than NumPy's own cost.

What such an operation reads and writes is found once for each frame: a `host_call` knows its slots
in `Values`, a list of arrays. Those in the arena are views that stay; arguments and results are put
in by every call; and what passes from NumPy to NumPy alone is never copied: the slot holds the
array that the operation gave, until its last use. A result that no loops touch is the array that
NumPy made.

A `HostedEntry` takes calls of such a program whose arguments are arrays and numbers as it was
compiled for, and runs them without looking for the program; it stands in a chain of native entries
as one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..loops import Buffer, Host, c_strides
from ..schedule.memory import root


class Values:
    """The arrays of a frame that NumPy sees."""

    def __init__(self, buffers: Sequence[Buffer], arena: np.ndarray, taken: Sequence[int] = ()):
        self.arena = arena
        self.taken = {id(buffers[n]) for n in taken}  # results that NumPy's arrays may be
        self.slots: list[Any] = [None] * len(buffers)
        self._places: dict[Any, int] = {id(buffer): n for n, buffer in enumerate(buffers)}
        self._kept = [*buffers]  # so that no id comes to mean another buffer
        self._passing = list(range(len(buffers)))  # slots that are empty between calls

    def place(self, buffer: Buffer) -> tuple[int, tuple[int, ...] | None]:
        """The slot of a buffer, and its shape if it must be given another than the slot has."""
        owner = root(buffer)
        if owner.kind == "arena":
            slot = self._new_slot((id(owner), buffer.shape), owner)
            self.slots[slot] = self._view(owner, buffer)
            return slot, None
        if owner.kind == "host":
            self._new_slot(id(owner), owner)
        other = buffer.shape if buffer.shape != owner.shape else None
        return self._places[id(owner)], other

    def _new_slot(self, key: Any, owner: Buffer) -> int:
        if key not in self._places:
            self._kept.append(owner)
            self._places[key] = len(self.slots)
            if owner.kind == "host":
                self._passing.append(len(self.slots))
            self.slots.append(None)
        return self._places[key]

    def put(self, arrays: Sequence[np.ndarray]) -> None:
        """Take in the arrays of a call: arguments, results, constants."""
        self.slots[: len(arrays)] = arrays

    def clear(self) -> None:
        """Let go of all that belongs to the call."""
        for slot in self._passing:
            self.slots[slot] = None

    def _view(self, owner: Buffer, buffer: Buffer) -> np.ndarray:
        raw = self.arena[owner.offset : owner.offset + owner.nbytes]
        return raw.view(owner.dtype).reshape(buffer.shape)


def host_call(kernel: Host, values: Values, drops: Sequence[int] = ()) -> Callable[[], None]:
    """One operation that NumPy evaluates, as a call without arguments.

    It puts the results into their slots, and empties those in `drops`. It is written out as Python
    source, since a loop over arguments and results would take as long as a small operation.
    """
    names: dict[str, Any] = {f"p_{name}": value for name, value in kernel.params.items()}
    names |= {"slots": values.slots, "evaluate": kernel.op.evaluate, "ndarray": np.ndarray}
    arguments = []
    for buffer in kernel.inputs:
        slot, shape = values.place(buffer)
        arguments.append(f"slots[{slot}]" if shape is None else f"slots[{slot}].reshape({shape})")
    arguments += [f"{name}=p_{name}" for name in kernel.params]
    results = "".join(f"v{n}, " for n in range(len(kernel.outputs)))
    target = results if kernel.op.multiple else "v0"
    lines = [f"{target} = evaluate({', '.join(arguments)})"]
    # memory of the arena is used again, so a view of it would change
    fresh = any(root(one).kind == "arena" for one in kernel.inputs)
    for n, buffer in enumerate(kernel.outputs):
        slot, _ = values.place(buffer)
        is_result = id(buffer) in values.taken
        if root(buffer).kind != "host" and not is_result:
            lines.append(f"slots[{slot}][...] = v{n}")
            continue
        names |= {f"d{n}": buffer.dtype, f"s{n}": buffer.shape, "copied": _copied}
        test = f"type(v{n}) is ndarray and v{n}.dtype is d{n} and v{n}.shape == s{n}"
        test += f" and v{n}.base is None" * (fresh or is_result)
        if is_result:  # it belongs to the caller alone, and is as all other results are
            test += f" and v{n}.flags.carray"
            test += "".join(f" and v{n} is not {one}" for one in arguments[: len(kernel.inputs)])
        lines.append(f"slots[{slot}] = v{n} if {test} else copied(v{n}, d{n}, s{n})")
    lines += [f"slots[{slot}] = None" for slot in drops]
    exec("\n    ".join(["def call():", *lines]), names)
    call: Callable[[], None] = names["call"]
    return call


def _copied(value: Any, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    return np.array(np.broadcast_to(value, shape), dtype)


def host_calls(segments: Sequence[Any], values: Values) -> list[Callable[[], None] | None]:
    """For each segment its call of NumPy, or None; each drops what it is the last to use."""
    last: dict[int, int] = {}
    for position, one in enumerate(segments):
        if isinstance(one, Host):
            for buffer in [*one.inputs, *one.outputs]:
                if root(buffer).kind == "host":
                    last[values.place(buffer)[0]] = position
    return [
        host_call(one, values, [slot for slot, end in last.items() if end == position])
        if isinstance(one, Host)
        else None
        for position, one in enumerate(segments)
    ]


class HostedEntry:
    """Calls of one program with all arguments by position, each an array or a number.

    `owner` gives the instance of a method, which comes before them.
    """

    native = True

    def __init__(self, program: Any, owner: Callable[[], Any] | None = None):
        self.program = program
        self.next: Callable[..., Any] = _nobody
        self.call = self._written_out(owner)

    def _written_out(self, owner: Callable[[], Any] | None) -> Callable[..., Any]:
        """What takes a call, as Python source: a loop would take longer than a small operation."""
        names: dict[str, Any] = {"entry": self, "program": self.program, "owner": owner}
        names |= {"ndarray": np.ndarray, "asarray": np.asarray}
        taken, tests, given = [], [], []
        for n, leaf in enumerate(self.program.leaves):
            kind, dtype, shape, strides = _kind(leaf)
            names |= {f"k{n}": kind, f"d{n}": dtype, f"s{n}": shape, f"t{n}": strides}
            taken.append(f"a{n}, ")
            tests.append(f"type(a{n}) is k{n}")
            if kind is np.ndarray:
                tests.append(f"a{n}.dtype is d{n} and a{n}.shape == s{n}")
                tests.append(f"a{n}.strides == t{n} and a{n}.flags.aligned")
            given.append(f"a{n}, " if kind is np.ndarray else f"asarray(a{n}, d{n}), ")
        if owner is not None:
            taken.insert(0, "instance, ")
            tests.insert(0, "instance is owner()")
        lines = [
            "def call(*args, **kwargs):",
            f" if not kwargs and len(args) == {len(taken)}:",
            *([f"  ({''.join(taken)}) = args"] if taken else []),
            f"  if {' and '.join(tests) or True}:",
            f"   return program.run_hosted([{''.join(given)}], args)",
            " return entry.next(*args, **kwargs)",
        ]
        exec("\n".join(lines), names)
        call: Callable[..., Any] = names["call"]
        return call


def _nobody(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError("an entry at the end of a chain")


def _kind(leaf: Any) -> tuple[type, np.dtype, tuple[int, ...], tuple[int, ...]]:
    """The type of an argument and, of an array, its dtype, shape and strides in bytes."""
    dtype, shape = leaf.type.dtype, leaf.type.shape
    if leaf.kind != "array":
        return {"float": float, "complex": complex, "bool": bool}[leaf.kind], dtype, (), ()
    strides = leaf.strides or tuple(dtype.itemsize * n for n in c_strides(shape))
    return np.ndarray, dtype, shape, strides


def hosted_entry(
    program: Any, args: tuple, kwargs: dict[str, Any], owner: Callable[[], Any] | None = None
) -> HostedEntry | None:
    """The entry of a program in which NumPy evaluates something; None where it can have none."""
    hosted = any(isinstance(one, Host) for one in program.segments)
    plain = not kwargs and all(type(one) in _PLAIN for one in args)
    if not (hosted and plain) or program.state or program.any_length:
        return None
    known = all(leaf.kind in ("array", "float", "complex", "bool") for leaf in program.leaves)
    return HostedEntry(program, owner) if known and len(args) == len(program.leaves) else None


_PLAIN = (np.ndarray, float, complex, bool)
