"""Colours for columns: those of one colour can be found in one product with the matrix.

Columns that no row has both of get one colour, and the product with the sum of their unit vectors
holds the entries of all of them (Curtis, Powell and Reid). For a symmetric matrix a *star*
colouring is enough (Coleman and More): neighbours differ, and every path of four vertices has three
colours; then each entry stands alone at one of its two places.

The sets of colours that a row has seen are bits of Python's integers, so a colouring takes a few
operations for each entry of the matrix, however many columns meet in a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def colour_columns(pattern: Any) -> np.ndarray:
    """A colour for each column of a CSR pattern, such that no row has a colour twice.

    Columns are taken in their order, which is best for bands, and, where that needs more colours
    than the longest row has entries, once more from the fullest on.
    """
    by_column = pattern.tocsc()
    lengths = np.diff(by_column.indptr)
    least = int(np.diff(pattern.indptr).max(initial=0))
    colours = _greedy(by_column, range(len(lengths)), pattern.shape[0])
    if colours.max(initial=-1) + 1 > least:
        other = _greedy(by_column, np.argsort(-lengths, kind="stable").tolist(), pattern.shape[0])
        colours = min(colours, other, key=lambda found: found.max(initial=-1))
    return colours


def _greedy(by_column: Any, order: Any, rows: int) -> np.ndarray:
    starts, indices = by_column.indptr.tolist(), by_column.indices.tolist()
    seen = [0] * rows  # the colours in each row
    colours = np.zeros(by_column.shape[1], np.int32)
    for column in order:
        own = indices[starts[column] : starts[column + 1]]
        taken = 0
        for row in own:
            taken |= seen[row]
        bit = ~taken & (taken + 1)
        for row in own:
            seen[row] |= bit
        colours[column] = bit.bit_length() - 1
    return colours


def colour_star(pattern: Any) -> np.ndarray:
    """A star colouring of a symmetric CSR pattern; the diagonal does not matter.

    A path of four vertices with two colours would be closed by the last of them that gets its
    colour. As an end it must not have the colour of a *hub* of a neighbour: a vertex that has
    another neighbour with that neighbour's colour. Between two neighbours of one colour it must not
    have that of another neighbour of these.
    """
    count = pattern.shape[0]
    starts, indices = pattern.indptr.tolist(), pattern.indices.tolist()
    colours = [-1] * count
    once = [0] * count  # the colours of a vertex's neighbours
    twice = [0] * count  # those of more than one neighbour
    hubs = [0] * count  # the colours of the hubs that a vertex belongs to
    first: dict[tuple[int, int], int] = {}  # of a vertex, its first neighbour with a colour
    for vertex in range(count):
        own = [one for one in indices[starts[vertex] : starts[vertex + 1]] if one != vertex]
        taken = once[vertex]
        for one in own:
            colour = colours[one]
            if colour >= 0:
                taken |= once[one] if twice[vertex] >> colour & 1 else hubs[one]
        bit = ~taken & (taken + 1)
        new = colours[vertex] = bit.bit_length() - 1
        for one in own:
            colour = colours[one]
            if colour >= 0 and twice[vertex] >> colour & 1:  # this vertex is a hub now
                hubs[one] |= bit
            if not once[one] & bit:
                once[one] |= bit
                first[one, new] = vertex
                continue
            if colour >= 0:  # the neighbour is a hub: of this vertex and of those before
                hubs[vertex] |= 1 << colour
                if not twice[one] & bit:
                    hubs[first[one, new]] |= 1 << colour
            twice[one] |= bit
    return np.array(colours, np.int32).reshape(count)


def column_places(pattern: Any, colours: np.ndarray) -> np.ndarray:
    """For each entry of a CSR pattern its place in the products, an array (colours, rows)."""
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    places: np.ndarray = colours[pattern.indices].astype(np.int64) * pattern.shape[0] + rows
    return places


def star_places(pattern: Any, colours: np.ndarray) -> np.ndarray:
    """For each entry of a symmetric pattern its place; entries across the diagonal share one."""
    size, count = pattern.shape[0], int(colours.max(initial=0)) + 1
    rows = np.repeat(np.arange(size), np.diff(pattern.indptr))
    low, high = np.minimum(rows, pattern.indices), np.maximum(rows, pattern.indices)
    often = np.bincount(rows * count + colours[pattern.indices], minlength=size * count)
    alone = often == 1
    by_low = alone[low * count + colours[high]]
    row, column = np.where(by_low, low, high), np.where(by_low, high, low)
    places: np.ndarray = colours[column].astype(np.int64) * size + row
    return places
