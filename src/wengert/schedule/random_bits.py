"""Random bits for a part of the samples.

An element of random bits is a function of its number in the whole. So a part of the samples can
have its own, if it knows where it begins: it counts on from there. The words that bits are made of
count along their only axis; what is made of them for an array of any shape does so along each of
its axes, where a part is a run of whole words behind every place of the axes in front:

    bits(key, (steps, samples, features))   ->   for each step, words from this chunk's first on
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from ..graph import Constant, Node, Operator
from ..ops.elementwise import add
from ..ops.layout import reshape
from ..ops.random import random_word, random_word_from
from ..ops.structure import concatenate
from ..passes.rewriting import apply
from .restrict import Part

WORDS = 4  # of a block


def counted_axes(node: Operator) -> set[int]:
    """The axes along which elements depend on nothing but their number."""
    if node.op is random_word:
        return {0} if node.type.ndim == 1 else set()
    return set(range(1, len(node.type.shape))) if _words_of(node) else set()


def counts_on(node: Operator, axes: dict[int, int]) -> bool:
    """Whether a part of the samples is had by counting on from where it begins."""
    axis = axes.get(node.serial)
    return axis is not None and axis in counted_axes(node)


def has_whole_blocks(node: Operator, axis: int, sizes: Sequence[Part]) -> bool:
    """Whether these parts of such a node begin and end between blocks of words."""
    if node.op is random_word:
        return True
    extent, each = node.type.shape[axis], prod(node.type.shape[axis + 1 :])
    ends = [extent, *[part.of(extent) for part in sizes]]
    return all(end * each % WORDS == 0 for end in ends)


def counted_part(
    node: Operator,
    axis: int,
    part: Part,
    value_of: Callable[[Operator], Node],
    first_of: Callable[[int], Node],
) -> Operator:
    """The part of a node that counts on; `value_of` gives the key of words, and `first_of`, for the
    length of an axis, the place at which the part begins."""
    if node.op is random_word:
        blocks = node.params["blocks"]
        params = {**node.params, "blocks": part.of(blocks)}
        return apply(random_word_from, value_of(node), first_of(blocks), params=params)
    shape = node.type.shape
    lines, extent, each = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    line, blocks = extent * each // WORDS, part.of(extent) * each // WORDS
    starts = Constant(np.arange(lines, dtype=np.uint64) * np.uint64(line))
    first = apply(add, starts, first_of(line), params={})
    columns = []
    for word in _words_of(node):
        params = {**word.params, "blocks": blocks}
        made = apply(random_word_from, value_of(word), first, params=params)
        columns.append(apply(reshape, made, params={"shape": (lines, blocks, 1)}))
    together = apply(concatenate, *columns, params={"axis": 2})
    own = (*shape[:axis], part.of(extent), *shape[axis + 1 :])
    return apply(reshape, together, params={"shape": own})


def _words_of(node: Node) -> list[Operator]:
    """The words that the elements of a node are, in order, if it consists of these alone."""
    if not isinstance(node, Operator) or node.op is not reshape:
        return []
    together = node.inputs[0]
    if not isinstance(together, Operator) or together.op is not concatenate:
        return []
    words = [column.inputs[0] for column in together.inputs if column.inputs]
    if len(together.inputs) != WORDS or together.type.shape[1:] != (WORDS,):
        return []
    found = [word for word in words if isinstance(word, Operator) and word.op is random_word]
    numbers = [word.params["word"] for word in found]
    keys = {(word.inputs[0].serial, word.params["stream"]) for word in found}
    alone = numbers == list(range(WORDS)) and len(keys) == 1
    return found if alone and found[0].type.ndim == 1 else []
