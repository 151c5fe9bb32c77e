"""Operations that NumPy evaluates inside a compiled program, at little more than NumPy's own cost.

What such an operation reads and writes is found once for each frame, whose parts are written out as
one Python function with a name in `Values` for every array. Those in the arena are views that stay;
arguments and results are put in by every call; and what passes from NumPy to NumPy alone is never
copied: a variable holds the array that the operation gave, until its last use. A result that no
loops touch is the array that NumPy made.

A `HostedEntry` takes calls of such a program whose arguments are arrays and numbers as it was
compiled for, and runs them without looking for the program; it stands in a chain of native entries
as one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import GENERATED
from ..loops import Buffer, Host, MemoryKind, c_strides, root


class Values:
    """The arrays of a frame that NumPy sees, as the names that generated code has for them.

    `slots` are those of the buffers, which every call brings. What passes from NumPy to NumPy is in
    variables of the code, or for code of a single operation, which would lose them, in slots too.
    """

    def __init__(
        self,
        buffers: Sequence[Buffer],
        arena: np.ndarray,
        taken: Sequence[int] = (),
        passing: bool = True,
    ):
        self.arena, self.passing = arena, passing
        self.slots: list[Any] = [None] * len(buffers)
        self.names: dict[str, Any] = {"slots": self.slots, "ndarray": np.ndarray}
        self.names["copied"] = _copied
        self.taken = {id(buffers[n]) for n in taken}  # results that NumPy's arrays may be
        self._known: dict[Any, str] = {id(b): f"slots[{n}]" for n, b in enumerate(buffers)}
        self._kept = [*buffers]  # so that no id comes to mean another buffer

    def name(self, buffer: Buffer) -> str:
        """The array of a buffer."""
        owner = root(buffer)
        if owner.kind is MemoryKind.ARENA:
            key: Any = (id(owner), buffer.shape)
            if key not in self._known:
                self._remember(owner, key, f"m{len(self._kept)}")
                self.names[self._known[key]] = self._view(owner, buffer)
            return self._known[key]
        if id(owner) not in self._known:
            assert owner.kind is MemoryKind.HOST, owner
            if not self.passing:
                self.slots.append(None)
            place = f"h{len(self._kept)}" if self.passing else f"slots[{len(self.slots) - 1}]"
            self._remember(owner, id(owner), place)
        name = self._known[id(owner)]
        return name if buffer.shape == owner.shape else f"{name}.reshape({buffer.shape})"

    def _remember(self, owner: Buffer, key: Any, name: str) -> None:
        self._kept.append(owner)
        self._known[key] = name

    def _view(self, owner: Buffer, buffer: Buffer) -> np.ndarray:
        raw = self.arena[owner.offset : owner.offset + owner.nbytes]
        return raw.view(owner.dtype).reshape(buffer.shape)

    def compiled(self, lines: Sequence[str]) -> Callable[[], None]:
        """Lines of source as a function without arguments."""
        text = "\n    ".join(["def call():", *lines, "return"])
        exec(compile(text, GENERATED, "exec"), self.names)
        call: Callable[[], None] = self.names.pop("call")  # no cycle: arenas go at once
        return call


def host_lines(kernel: Host, values: Values, number: int = 0) -> list[str]:
    """One operation that NumPy evaluates, as lines of Python source that put the results in place.

    A loop over arguments and results would take as long as a small operation.
    """
    names = values.names
    names[f"evaluate{number}"] = kernel.op.evaluate
    arguments = [
        f"{values.name(buffer)}.item()" if n in kernel.numbers else values.name(buffer)
        for n, buffer in enumerate(kernel.inputs)
    ]
    keywords = []
    for name, value in kernel.params.items():
        names[f"p{number}_{name}"] = value
        keywords.append(f"{name}=p{number}_{name}")
    results = "".join(f"v{n}, " for n in range(len(kernel.outputs)))
    target = results if kernel.op.multiple else "v0"
    lines = [f"{target} = evaluate{number}({', '.join([*arguments, *keywords])})"]
    # memory of the arena is used again, so a view of it would change
    fresh = any(root(one).kind is MemoryKind.ARENA for one in kernel.inputs)
    for n, buffer in enumerate(kernel.outputs):
        is_result = id(buffer) in values.taken
        if root(buffer).kind is not MemoryKind.HOST and not is_result:
            lines.append(f"{values.name(buffer)}[...] = v{n}")
            continue
        dtype, shape = f"d{number}_{n}", f"s{number}_{n}"
        names |= {dtype: buffer.dtype, shape: buffer.shape}
        test = f"type(v{n}) is ndarray and v{n}.dtype is {dtype} and v{n}.shape == {shape}"
        test += f" and v{n}.base is None" * (fresh or is_result)
        if is_result:  # it belongs to the caller alone, and is as all other results are
            test += f" and v{n}.flags.carray"
            test += "".join(f" and v{n} is not {one}" for one in arguments)
        name = values.name(buffer)
        lines.append(f"{name} = v{n} if {test} else copied(v{n}, {dtype}, {shape})")
    return lines


def _copied(value: Any, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    made = np.array(value, dtype, order="C")
    return made if made.shape == shape else np.array(np.broadcast_to(made, shape))


def body_lines(segments: Sequence[Any], values: Values) -> list[str]:
    """All parts of a program in turn; each lets go of what it is the last to use.

    A native part is `call_` with its name, and gives an error code that `stop` takes.
    """
    last: dict[str, int] = {}
    for position, one in enumerate(segments):
        for buffer in [*one.inputs, *one.outputs] if isinstance(one, Host) else ():
            if root(buffer).kind is MemoryKind.HOST:
                last[values.name(root(buffer))] = position
    lines: list[str] = []
    for position, one in enumerate(segments):
        if isinstance(one, Host):
            lines += host_lines(one, values, position)
            gone = [name for name, end in last.items() if end == position]
            gone += [f"v{n}" for n in range(len(one.outputs))]
            lines.append(f"del {', '.join(gone)}")
        else:
            lines += [f"code = call_{one}(table, base)", "if code: stop(code)"]
    return lines


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
