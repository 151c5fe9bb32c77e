"""The loops as a tree of kernels: what each computes, how long it takes, and how long it must."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

from ..functions import FUNCTIONS
from ..graph import Node, Operator
from ..loops import (
    Apply,
    Branch,
    Check,
    Contraction,
    Host,
    Kernel,
    LibraryCall,
    Loop,
    MemoryKind,
    Nest,
    Transfer,
    format_expr,
    inside,
    root,
    roots_of,
    walk,
)
from ..machine import Machine
from ..rates import Floor
from ..schedule.building import flops_of, is_free
from ..schedule.memory import buffers_of

Seconds = Mapping[Kernel, float]  # of each kernel
_KINDS: dict[type, str] = {
    LibraryCall: "library",
    Check: "check",
    Contraction: "product",
    Host: "NumPy",
    Transfer: "copy of a block",
    Branch: "branch",
    Nest: "loops",
}


_LETTERS = "ijklmnopqruvw"


class Entry:
    """One kernel, where it stands in the tree, and what is known of it."""

    def __init__(self, number: int, kernel: Kernel, parent: Entry | None, role: str, turns: float):
        self.number, self.kernel, self.parent, self.role = number, kernel, parent, role
        self.turns = turns  # how often it runs in one call
        self.seconds: float | None = None  # of all turns together
        self.floor = 0.0
        self.nodes: list[Node] = []  # all that it computes
        self.children: list[Entry] = []

    @property
    def flops(self) -> float:
        """Operations of numbers, in all turns."""
        if self.children:
            return sum(child.flops for child in self.children)
        return self.turns * _flops(self.kernel)

    def shares(self, measured: Seconds) -> None:
        """Share the time among what is inside: as it was measured there, or is estimated."""
        if self.seconds is None or not self.children:
            return
        parts = [measured.get(child.kernel, 0.0) for child in self.children]
        if not any(parts):
            parts = [child.turns * child.kernel.work for child in self.children]
        whole = sum(parts) or 1.0
        for child, part in zip(self.children, parts, strict=True):
            child.seconds = self.seconds * part / whole
            child.shares(measured)


def tree_of(kernels: Sequence[Kernel]) -> list[Entry]:
    """All kernels, those inside of others right behind them."""
    found: list[Entry] = []

    def add(kernel: Kernel, parent: Entry | None, role: str, turns: float) -> None:
        entry = Entry(len(found), kernel, parent, role, turns)
        found.append(entry)
        if parent is not None:
            parent.children.append(entry)
        for part_role, part, times in _parts(kernel):
            add(part, entry, part_role, turns * times)

    for kernel in kernels:
        add(kernel, None, "", 1.0)
    _find_nodes(found)
    return found


def _parts(kernel: Kernel) -> Iterator[tuple[str, Kernel, float]]:
    """What is directly inside, what for, and how often it runs in one run of the kernel."""
    if isinstance(kernel, Loop):
        turns = float(kernel.turns)
        if kernel.share is not None:
            turns /= kernel.share.extent
        folds = turns / kernel.run if kernel.run else 0.0
        for role, times in (("begin", 1.0), ("body", turns), ("fold", folds), ("join", 1.0)):
            yield from ((role, part, times) for part in getattr(kernel, role))
    elif isinstance(kernel, Branch):
        # which of them runs is known at run time: each as often as the other
        sides = 0.5 if kernel.yes and kernel.no else 1.0
        yield from (("yes", part, sides) for part in kernel.yes)
        yield from (("no", part, sides) for part in kernel.no)


def _find_nodes(entries: Sequence[Entry]) -> None:
    """What each kernel computes: what it stores, and what that needs and nobody stores."""
    leaves = [entry for entry in entries if not entry.children]
    stored = {node.serial for one in entries for node in getattr(one.kernel, "nodes", ())}
    for entry in leaves:
        seen: dict[int, Node] = {}
        pending = list(getattr(entry.kernel, "nodes", ()))
        while pending:
            node = pending.pop()
            if node.serial not in seen and isinstance(node, Operator):
                seen[node.serial] = node
                pending += [source for source in node.inputs if source.serial not in stored]
        entry.nodes = sorted(seen.values(), key=lambda node: node.serial)


def weights_of(nodes: Sequence[Node]) -> list[float]:
    """How much of a kernel's time each node is likely to take."""
    return [_weight(node) for node in nodes]


def _weight(node: Node) -> float:
    flops = flops_of(node)
    if flops:
        return flops / 16.0  # a vector of multiply-adds at a time
    if is_free(node):
        return 1e-6
    cost = getattr(getattr(node, "op", None), "cost", None) or 1
    return float(getattr(node.type, "size", 1)) * float(cost)


def set_floors(entries: Sequence[Entry], floor: Floor, machine: Machine) -> None:
    """The least time of each kernel by its operations; for whole kernels by their memory too."""
    for entry in entries:
        threads = 0 if isinstance(entry.kernel, Loop) and entry.kernel.parallel else 1
        top = entry
        while top.parent is not None:
            top = top.parent
        threads = 0 if isinstance(top.kernel, Loop) and top.kernel.parallel else threads
        compute = floor.seconds(entry.flops, None, threads) or 0.0
        if entry.parent is None and not isinstance(entry.kernel, (Host, Check)):
            size = touched_bytes(entry.kernel)
            near = machine.cycles * 1e6 * machine.l2_rate
            memory = floor.seconds(None, size, threads) or 0.0
            compute = max(compute, size / near if size <= machine.l2_bytes else memory)
        # what was measured can be below: then the rates are, and this is the best known
        entry.floor = compute if entry.seconds is None else min(compute, entry.seconds)


def touched_bytes(kernel: Kernel) -> int:
    """Bytes of the arrays that a kernel reads and writes, without those inside of it alone."""
    own = {b for one in inside(kernel) if isinstance(one, Loop) for b in one.private}
    kinds = MemoryKind.INPUT, MemoryKind.OUTPUT, MemoryKind.CONSTANT, MemoryKind.ARENA
    found = {b for b in map(root, buffers_of(kernel)) if b not in own and b.kind in kinds}
    return sum(buffer.nbytes for buffer in found)


def _flops(kernel: Kernel) -> float:
    if isinstance(kernel, Contraction):
        stores = prod(var.extent for var in kernel.vars.values()) * _applies(kernel)
        return 2.0 * prod(kernel.extents.values()) + stores
    if isinstance(kernel, Nest):
        return float(kernel.iterations * (_applies(kernel) + sum(map(_adds, kernel.stores))))
    return 0.0


def _adds(store: Any) -> bool:
    return store.combine is not None


def _applies(kernel: Nest | Contraction) -> int:
    """Operations for one element; those that take long count as many."""
    found = [one for one in walk(roots_of(kernel.stores)) if isinstance(one, Apply)]
    return sum(int(FUNCTIONS[one.name].cost) for one in found if one.name != "convert")


def as_data(
    entry: Entry, symbol: str | None, number_of: Callable[[Node], int | None]
) -> dict[str, Any]:
    """A kernel as plain data."""
    kernel = entry.kernel
    nodes = [number_of(node) for node in entry.nodes]
    return {
        "parent": None if entry.parent is None else entry.parent.number,
        "role": entry.role,
        "kind": _kind(kernel),
        "title": title_of(entry),
        "text": _text(kernel),
        "nodes": [node for node in nodes if node is not None],
        "turns": entry.turns,
        "seconds": entry.seconds,
        "flops": entry.flops,
        "bytes": touched_bytes(kernel) if entry.parent is None else None,
        "floor": entry.floor,
        "symbol": symbol,
        "long": isinstance(kernel, (Loop, Branch)),
    }


def _kind(kernel: Kernel) -> str:
    if isinstance(kernel, Loop):
        if kernel.parallel:
            return "shared by threads"
        return "loop" if kernel.blocks is None else "batch loop"
    return _KINDS[type(kernel)]


def title_of(entry: Entry) -> str:
    """What a kernel is, in a few words: the operations whose results it stores."""
    kernel = entry.kernel
    if isinstance(kernel, Loop):
        return kernel.head()
    if isinstance(kernel, (Branch, Host, LibraryCall, Check, Transfer)):
        return str(kernel).splitlines()[0]
    names = list(dict.fromkeys(n.op.name for n in kernel.nodes if isinstance(n, Operator)))
    return ", ".join(names) or kernel.label or "fill"


def _text(kernel: Kernel) -> list[str]:
    if isinstance(kernel, Loop):
        return [f"{kernel.head()}:", *[f"  {carry}" for carry in kernel.carries]]
    if isinstance(kernel, Contraction):
        return _product(kernel)
    lines = str(kernel).splitlines()
    return lines[:1] if isinstance(kernel, Branch) else lines


def _product(kernel: Contraction) -> list[str]:
    """A product with its indices written out."""
    names = {label: _LETTERS[n % len(_LETTERS)] for n, label in enumerate(kernel.extents)}
    names |= {label: str(var) for label, var in kernel.variables.items()}
    header = " ".join(f"for {names[label]} < {n}" for label, n in kernel.extents.items())

    def place(buffer: Any, strides: Mapping[int, int], first: int = 0) -> str:
        terms = [(names[label], n) for label, n in strides.items() if n]
        parts = [name if n == 1 else f"{n}*{name}" for name, n in terms]
        parts += [str(first)] if first or not parts else []
        return f"{buffer.name}[{' + '.join(parts)}]"

    x = place(kernel.x, kernel.x_strides, kernel.x_offset)
    y = place(kernel.y, kernel.y_strides, kernel.y_offset)
    x = x if kernel.x_value is None else f"({format_expr(kernel.x_value)})"
    y = y if kernel.y_value is None else f"({format_expr(kernel.y_value)})"
    out = place(kernel.out, kernel.out_strides) if kernel.keeps_sums else "sum"
    lines = [f"{header}:", f"  {out} += {x} * {y}"]
    if kernel.stores:
        lines += ["then, with each sum:", *[f"  {store}" for store in kernel.stores]]
    return lines
