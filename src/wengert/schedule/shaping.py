"""Nests made ready for code: loops merged, split where a choice changes, put in a good order."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from math import copysign, prod

from ..loops import (
    Affine,
    Apply,
    Choose,
    Expr,
    IndexValue,
    InRange,
    Kernel,
    Literal,
    Load,
    LoadAt,
    LoopProgram,
    Nest,
    Store,
    Sum,
    Var,
    identity_of,
    roots_of,
    walk,
)
from ..loops.places import are_apart
from ..machine import policy
from .task import Task


def pieces(program: LoopProgram, task: Task) -> LoopProgram:
    """Nests cut where a choice changes, so that no branch is left in their loops.

    On one thread 4 % on `cnn: 5x5, padding 2, batch 100`.
    """
    program.kernels = _for_nests(program.kernels, pieces_of)
    return program


def orders(program: LoopProgram, task: Task) -> LoopProgram:
    """Loops merged, and the one innermost along which most memory lies.

    On one thread 1 % on `cnn: VGG, batch 100`, whose nests mostly lie well already.
    """
    program.kernels = _for_nests(program.kernels, finished)
    return program


def _for_nests(kernels: Sequence[Kernel], change: Callable[[Nest], list[Nest]]) -> list[Kernel]:
    return [part for k in kernels for part in (change(k) if isinstance(k, Nest) else [k])]


def shape_nest(nest: Nest) -> list[Nest]:
    """The nests to generate code for, in order."""
    return [part for piece in pieces_of(nest) for part in finished(piece)]


def pieces_of(nest: Nest) -> list[Nest]:
    """The nest in pieces, in order, in each of which all choices are made."""
    if _keeps_its_order(nest):
        return [nest]
    pieces = split_choices(nest)
    if len(pieces) > 1:
        pieces = _filled_first(nest, pieces)
        pieces = _first_fills(nest) + [_continued(piece) for piece in pieces]
    return [piece for piece in pieces if piece.stores]


def finished(nest: Nest) -> list[Nest]:
    """A piece with its loops merged and put in a good order."""
    return [nest] if _keeps_its_order(nest) else tile_turned(order_loops(merge_loops(nest)))


def _keeps_its_order(nest: Nest) -> bool:
    """Whether there is nothing to do, or scattered stores keep the order of their elements."""
    empty = any(var.extent == 0 for var in nest.vars)
    return empty or any(s.picks and not are_apart(s, nest.vars) for s in nest.stores)


def _first_fills(nest: Nest) -> list[Nest]:
    """The identities that pieces of a nest start combining with."""
    fills = []
    for store in nest.stores:
        if store.combine and not store.continues:
            used = {var for var, _ in store.at.terms}
            dtype = store.buffer.dtype
            value = Literal(identity_of(store.combine, dtype), dtype)
            kept = [var for var in nest.vars if var in used]
            # loops may be longer than this store's own: what it is not for is not its memory
            guards = tuple(g for g in store.guards if any(var in used for var, _ in g.at.terms))
            fill = Nest(kept, [Store(store.buffer, store.at, value, guards=guards)], "fill")
            fills += [piece for piece in split_choices(fill) if piece.stores]
    return fills


def _filled_first(nest: Nest, pieces: list[Nest]) -> list[Nest]:
    """Edges of one number (zeros around an array) -> all filled with it first: two nests, not five.

    Thin edges of a small array cost more, one by one, than writing its inside twice.
    """
    if len(nest.stores) != 1 or nest.stores[0].combine or nest.stores[0].guards:
        return pieces
    values = [piece.stores[0].value for piece in pieces]
    edges = [value for value in values if isinstance(value, Literal)]
    if len(edges) < 2 or len({value.value.tobytes() for value in edges}) > 1:
        return pieces
    inside = [p for p, value in zip(pieces, values, strict=True) if not isinstance(value, Literal)]
    fill = Nest(nest.vars, [nest.stores[0].changed(value=edges[0])], "fill", nest.nodes)
    apart = [p for p, value in zip(pieces, values, strict=True) if isinstance(value, Literal)]
    if policy().fusion.much_less * sum(map(_vectors_stored, apart)) < _vectors_stored(fill):
        return pieces
    return [fill, *inside]


def _vectors_stored(nest: Nest) -> int:
    """A rough cost of storing a number everywhere: vectors, and some more for every line."""
    parts = [[var.extent for var in part.vars] or [1] for part in finished(nest)]
    lines = [(prod(extents[:-1]), extents[-1]) for extents in parts]
    begin, vector = policy().fusion.line_cost, policy().fusion.vector
    return sum(count * (begin + length // vector) + begin for count, length in lines)


def _continued(nest: Nest) -> Nest:
    stores = [s.changed(continues=True) if s.combine else s for s in nest.stores]
    return Nest(nest.vars, stores, nest.label, nest.nodes)


def rewrite_indices(nest: Nest, variables: list[Var], values: Mapping[Var, Affine]) -> Nest:
    """The nest over other variables, in terms of which some old ones have these values; choices
    that are known then are made."""
    memo: dict[Expr, Expr] = {}
    for expr in walk(roots_of(nest.stores)):
        memo[expr] = _rewritten(expr, memo, values)
    stores = []
    for store in nest.stores:
        guards = [
            InRange(guard.at.substitute(values), guard.low, guard.high) for guard in store.guards
        ]
        known = [guard.decided() for guard in guards]
        if False in known:
            continue
        left = tuple(guard for guard, value in zip(guards, known, strict=True) if value is None)
        stores.append(store.rebuilt(memo, at=store.at.substitute(values), guards=left))
    return Nest(variables, stores, nest.label, nest.nodes)


def _rewritten(expr: Expr, memo: dict[Expr, Expr], values: Mapping[Var, Affine]) -> Expr:
    if isinstance(expr, Load):
        return Load(expr.buffer, expr.at.substitute(values))
    if isinstance(expr, LoadAt):
        picks = tuple((memo[place], stride) for place, stride in expr.picks)
        return LoadAt(expr.buffer, expr.at.substitute(values), picks)
    if isinstance(expr, IndexValue):
        return IndexValue(expr.at.substitute(values))
    if isinstance(expr, Apply):
        args = tuple(memo[arg] for arg in expr.args)
        shorter = _without_zeros(args) if expr.name == "add" else None
        return shorter or Apply(expr.name, args, expr.dtype)
    if isinstance(expr, Choose):
        test = InRange(expr.test.at.substitute(values), expr.test.low, expr.test.high)
        known = test.decided()
        if known is not None:
            return memo[expr.yes if known else expr.no]
        return Choose(test, memo[expr.yes], memo[expr.no], expr.dtype)
    assert isinstance(expr, (Literal, Sum))
    return expr


def _without_zeros(args: tuple[Expr, ...]) -> Expr | None:
    """A sum to which another zero was to be added; one is enough to make 0.0 of -0.0.

    Such sums are left of arrays put together of pieces, where all choices are made.
    """
    for this, other in (args, args[::-1]):
        if _is_zero(this) and (_is_zero(other) or _has_zero(other)):
            return other
    return None


def _is_zero(expr: Expr) -> bool:
    if not isinstance(expr, Literal) or expr.dtype.kind != "f":
        return False
    return expr.value == 0 and copysign(1, expr.value) > 0


def _has_zero(expr: Expr) -> bool:
    return isinstance(expr, Apply) and expr.name == "add" and any(map(_is_zero, expr.args))


# ---------------------------------------------------------------- splitting


def split_choices(nest: Nest) -> list[Nest]:
    """Cut loops at the places where a choice changes: x < 3 ? a : b -> two nests without it.

    Only what is chosen is evaluated afterwards, so padded edges are never read.
    """
    pieces = [rewrite_indices(nest, nest.vars, {})]
    done: list[Nest] = []
    while pieces:
        piece = pieces.pop(0)
        cut = _find_cut(piece)
        guarded = any(store.guards for store in piece.stores)
        if cut is None or (len(pieces) + len(done) >= policy().fusion.most_pieces and not guarded):
            done.append(piece)
            continue
        var, place = cut
        pieces = [_segment(piece, var, 0, place), _segment(piece, var, place, var.extent), *pieces]
    return done


def _find_cut(nest: Nest) -> tuple[Var, int] | None:
    tests = [guard for store in nest.stores for guard in store.guards]
    # the outermost choice first: where it is made against those inside, they need not be
    values = reversed(walk(roots_of(nest.stores)))
    tests += [expr.test for expr in values if isinstance(expr, Choose)]
    for test in tests:
        if len(test.at.terms) != 1:
            continue
        (var, coefficient), constant = test.at.terms[0], test.at.constant
        for bound in (test.low, test.high):
            # the least value of the variable with coefficient * var + constant >= bound
            place = -((constant - bound) // coefficient) if coefficient > 0 else None
            if place is None:
                place = (constant - bound) // -coefficient + 1
            if 0 < place < var.extent:
                return var, place
    return None


def _segment(nest: Nest, var: Var, start: int, stop: int) -> Nest:
    part = Var(var.name, stop - start, var.ordered)
    variables = [part if v is var else v for v in nest.vars]
    value = Affine.of(part) + start
    return rewrite_indices(nest, variables, {var: value})


# ---------------------------------------------------------------- merging and ordering


def indices_of(nest: Nest) -> list[Affine]:
    """Every index in the nest."""
    found = [store.at for store in nest.stores]
    found += [guard.at for store in nest.stores for guard in store.guards]
    for expr in walk(roots_of(nest.stores)):
        if isinstance(expr, (Load, LoadAt, IndexValue)):
            found.append(expr.at)
        elif isinstance(expr, Choose):
            found.append(expr.test.at)
    return found


def merge_loops(nest: Nest) -> Nest:
    """for i for j: a[i*n + j] -> for k: a[k], where every index allows it."""
    merged = True
    while merged:
        merged = False
        indices = indices_of(nest)
        variables = [var for var in nest.vars if var.extent != 1] or nest.vars[:0]
        if len(variables) != len(nest.vars):
            nest = Nest(variables, nest.stores, nest.label, nest.nodes)
        for outer, inner in itertools.pairwise(variables):
            if outer.ordered or inner.ordered:
                continue
            if all(at.coefficient(outer) == at.coefficient(inner) * inner.extent for at in indices):
                nest = _merged(nest, outer, inner)
                merged = True
                break
    return nest


def _merged(nest: Nest, outer: Var, inner: Var) -> Nest:
    joined = Var(inner.name, outer.extent * inner.extent)
    variables = [joined if var is inner else var for var in nest.vars if var is not outer]
    values = {outer: Affine(0), inner: Affine.of(joined)}
    return rewrite_indices(nest, variables, values)


def order_loops(nest: Nest) -> Nest:
    """Put the loop along which most memory is contiguous innermost."""
    if len(nest.vars) < 2 or nest.vars[-1].ordered:
        return nest
    accesses = [(store.buffer, store.at) for store in nest.stores]
    for expr in walk(roots_of(nest.stores)):
        if isinstance(expr, Load):
            accesses.append((expr.buffer, expr.at))
    indices = [at for _, at in dict.fromkeys(accesses)]
    free = [var for var in nest.vars if not var.ordered]
    best = max(free, key=lambda var: (_contiguity(var, indices), nest.vars.index(var)))
    variables = [var for var in nest.vars if var is not best] + [best]
    return Nest(variables, nest.stores, nest.label, nest.nodes)


def _contiguity(var: Var, indices: Sequence[Affine]) -> float:
    """How many accesses walk memory one by one along the variable; strided ones count against."""
    score = 0.0
    for at in indices:
        step = at.coefficient(var)
        if step:
            # a few steps at a time still uses most of a line of the cache
            score += 1.0 if step == 1 else (-0.25 if 0 < step <= 4 else -1.0)
    share = min(1.0, var.extent / policy().fusion.vector)
    # where a line is a part of a vector, beginning it takes as long as what is done in it
    share = share / 2 if 2 * var.extent < policy().fusion.short_loop else share
    return score * share if score > 0 else score


# ---------------------------------------------------------------- arrays that are turned


def tile_turned(nest: Nest) -> list[Nest]:
    """for i for j: a[i, j] = b[j, i] -> for blocks of j: for i: for j in the block.

    Some lines of the cache for each array are at work at a time, rather than one for each j.
    """
    if len(nest.vars) < 2 or any(store.combine for store in nest.stores):
        return [nest]
    *outer, last = nest.vars
    together = policy().fusion.turned_together
    across = _turned_along(nest, last, together)
    if across is None or last.ordered or across.ordered or last.extent < 2 * together:
        return [nest]
    whole = last.extent - last.extent % together
    found = []
    if whole < last.extent:
        found.append(_segment(nest, last, whole, last.extent))
        nest = _segment(nest, last, 0, whole)
        last = nest.vars[-1]
    block = Var(last.name + "b", whole // together)
    inner = Var(last.name, together)
    place = Affine.of(block) * together + Affine.of(inner)
    variables = [*[var for var in outer if var is not across], block, across, inner]
    return [rewrite_indices(nest, variables, {last: place}), *found]


def _turned_along(nest: Nest, last: Var, together: int) -> Var | None:
    """The loop along which an array lies one by one that is far apart along the last one."""
    loads = [expr for expr in walk(roots_of(nest.stores)) if isinstance(expr, Load)]
    for at in [access.at for access in loads] + [store.at for store in nest.stores]:
        if abs(at.coefficient(last)) >= together:
            for var in nest.vars[:-1]:
                if at.coefficient(var) == 1 and var.extent >= together // 2:
                    return var
    return None
