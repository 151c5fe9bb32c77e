"""Graph -> better Graph: named passes in one ordered list."""

from __future__ import annotations

from collections.abc import Callable

from ..graph import Graph
from ..ops import collectives
from .all_at_once import all_at_once
from .carried import carry_numbers
from .collectives import kept_together
from .complex_numbers import split_complex
from .convolution import correlate, trim
from .determinants import lift_where_singular
from .expand import expand
from .exponential import write_out_exponentials
from .forward import join_forward, join_turns
from .gathering import gather_products
from .invariants import hoist_invariants
from .loop_rows import absorb_rows, first_rows, fold_sigmoids, last_rows, lay_out_constants
from .loop_sums import take_in_totals, turn_totals
from .loops import hoist_products, optimise_bodies, prune_loops, sink_products
from .narrowing import narrow
from .one_place import join_writes
from .ordering import put_in_order
from .own_rows import part_rows
from .products import turn_products
from .programs import optimise_programs, prune_programs, write_out_turns
from .ranges import know_ranges
from .selection import write_out_selections
from .simplify import fold_constants, share_common, simplify
from .slices import take_slices
from .small_arrays import write_out_small


def optimise(
    graph: Graph,
    watch: Callable[[str, Graph], None] | None = None,
    any_length: bool = False,
) -> Graph:
    """Run all passes in order; `watch(name, graph)` sees the graph after each.

    For `any_length` those are left out that decide by the length at hand.
    """
    if collectives.perform is None:  # there is one process
        return _run_passes(graph, watch, any_length)
    return kept_together(graph, lambda graph: _run_passes(graph, watch, any_length))


def _run_passes(
    graph: Graph, watch: Callable[[str, Graph], None] | None, any_length: bool
) -> Graph:
    settled: dict[Callable, Graph] = {}  # the graph in which a pass has found nothing to do
    for function in PASSES:
        if any_length and function in (
            write_out_small,
            write_out_turns,
            carry_numbers,
            know_ranges,
        ):
            continue
        if settled.get(function) is not graph:
            found = function(graph)
            if found is graph:
                settled[function] = graph
            graph = found
        if watch is not None:
            watch(function.__name__, graph)
    return graph


PASSES: list[Callable[[Graph], Graph]] = [
    join_forward,
    join_turns,
    narrow,
    write_out_exponentials,
    lift_where_singular,
    write_out_selections,
    expand,
    split_complex,
    narrow,
    fold_constants,
    optimise_bodies(optimise),
    optimise_programs(optimise),
    prune_loops,
    prune_programs,
    hoist_invariants,
    part_rows,
    all_at_once,
    fold_constants,
    take_slices,
    hoist_products,
    sink_products,
    take_in_totals,
    turn_totals,
    last_rows,
    first_rows,
    fold_sigmoids,
    absorb_rows,
    lay_out_constants,
    prune_loops,
    simplify,
    correlate,
    share_common,
    join_writes,
    simplify,
    trim,
    gather_products,
    simplify,
    write_out_small,
    simplify,
    write_out_turns,
    carry_numbers,
    simplify,
    turn_products,
    know_ranges,
    share_common,
    put_in_order,
]
