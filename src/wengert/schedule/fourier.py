"""Fourier transforms -> calls of NumPy's own loops, line after line without Python.

A loop of a ufunc goes along one axis beside that of the transform, which it has several lines of at
a time from; the others are loops around the call. Arguments are read as they lie, and results are
put where they are wanted; along further axes a transform works in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import Any, NamedTuple

import numpy as np

from ..graph import Node, Operator
from ..loops import Affine, Buffer, Kernel, LibraryCall, Loop, Symbol, Var
from ..machine import current, policy
from ..ops.fft import fft, ifft, irfft, rfft
from ..ops.linalg import real_dtype
from .fusion import Scheduler
from .strided import strided


class _Strided(NamedTuple):
    """An array, and how far apart elements are along each of its axes."""

    buffer: Buffer
    strides: Sequence[int]
    offset: int = 0


def lower_fourier(scheduler: Scheduler, node: Operator) -> None:
    """A transform along one axis or several, by NumPy's loops; by NumPy where these are missing."""
    source = node.inputs[0]
    if not current().numpy_loops or not source.type.size or not _has_loop(node, source):
        scheduler._schedule_host(node)
        return
    given = _Strided(*strided(scheduler, source))
    out = scheduler.buffer_of(node)
    found = _Strided(out, out.strides)
    kernels: list[Kernel] = []
    if "axes" in node.params:
        for axis in reversed(node.params["axes"]):
            kernels += _along(node, node.op.name, axis, given, found)
            given = found
    else:
        axis = node.params["axis"]
        name = node.op.name
        if node.op is rfft:
            name = f"rfft_n_{'odd' if source.type.shape[axis] % 2 else 'even'}"
        kernels += _along(node, name, axis, given, found)
    scheduler.add(node, kernels)


def _has_loop(node: Operator, source: Node) -> bool:
    """Whether there is a loop from numbers of this kind to those: both of one precision."""
    kinds = {fft: "cc", ifft: "cc", rfft: "fc", irfft: "cf"}[node.op]
    types = source.type, node.type
    parts = {real_dtype(t.dtype) for t in types}
    is_right = "".join(t.dtype.kind for t in types) == kinds and len(parts) == 1
    return is_right and parts <= {np.dtype("f4"), np.dtype("f8")} and node.params.get("axes") != ()


def _along(node: Operator, name: str, axis: int, given: _Strided, found: _Strided) -> list[Kernel]:
    """The transform along one axis, for all lines."""
    lengths = node.inputs[0].type.shape
    points = node.type.shape[axis] if node.op is not rfft else lengths[axis]
    real = real_dtype(node.type.dtype)
    around = [
        (n, given.strides[k], found.strides[k])
        for k, n in enumerate(lengths)
        if k != axis and n > 1
    ]
    around = _merged(around)
    longest = max(range(len(around)), key=lambda k: around[k][0], default=None)
    outer = around.pop(longest) if longest is not None else (1, 0, 0)
    turns = [Var(f"line{number or ''}", n) for number, (n, _, _) in enumerate(around)]
    ends = [
        _line(one, [step[place] for step in around], turns, outer, axis, place, length)
        for place, (one, length) in enumerate(
            ((given, lengths[axis]), (found, node.type.shape[axis])), 1
        )
    ]
    sizes = [one.buffer.dtype.itemsize for one in (given, found)]
    steps = (outer[1] * sizes[0], 0, outer[2] * sizes[1],
             given.strides[axis] * sizes[0], found.strides[axis] * sizes[1])  # fmt: skip
    factor = (_factor(node, points, real),)
    kind = "D" if real.itemsize == 8 else "F"
    function = f"numpy_{name}_{kind}"
    data = Symbol(f"{function}_data")
    dims = (outer[0], lengths[axis], node.type.shape[axis])
    flops = int(5 * points * log2(points + 1) * outer[0])
    call = LibraryCall(
        function,
        ((ends[0], factor, ends[1]), dims, steps, data),
        (ends[0],),
        (ends[1],),
        flops // policy().costs.flops + 100,
        node.op.name,
        [node],
        by_value=True,
    )
    body: list[Kernel] = [call]
    for var in reversed(turns):
        body = [Loop(var, tuple(body), label=node.op.name, nodes=(node,))]
    return body


def _merged(axes: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Axes that are gone through as one, where one begins when the next has ended."""
    found: list[tuple[int, int, int]] = []
    for length, *steps in axes:
        if found and all(
            before == length * own for before, own in zip(found[-1][1:], steps, strict=True)
        ):
            found[-1] = (found[-1][0] * length, steps[0], steps[1])
        else:
            found.append((length, steps[0], steps[1]))
    return found


def _line(
    one: _Strided,
    steps: Sequence[int],
    turns: Sequence[Var],
    outer: tuple[int, int, int],
    axis: int,
    place: int,
    length: int,
) -> Buffer:
    """What a call reads or writes of an array, in the turns of the loops around."""
    start = Affine(one.offset)
    for var, step in zip(turns, steps, strict=True):
        start = start + Affine.of(var) * step
    return one.buffer.view(start, (outer[0], length), (outer[place], one.strides[axis]))


def _factor(node: Operator, points: int, real: np.dtype) -> Any:
    """What results are multiplied with, as `norm` says."""
    norm, number = node.params["norm"], real.type(points)
    if norm == "ortho":
        return np.reciprocal(np.sqrt(number))
    forward = node.op in (fft, rfft)
    return np.reciprocal(number) if (norm == "forward") is forward else real.type(1)
