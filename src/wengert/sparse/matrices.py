"""`sparse_jacobian` and `sparse_hessian`: all entries of a matrix from a few compiled products."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from .. import tree
from ..errors import DTypeError, OptionError, ShapeError, StructureError, explain
from ..jit import jit
from ..jit.fingerprint import graph_text
from ..jit.function import Jitted
from ..ops.indexing import gather
from ..trace.tracing import function_name
from ..transforms import grad, jvp, vjp
from ..types import ArrayType, Function, type_of
from .dependence import scipy_sparse
from .patterns import MODES, Sparsity, pattern_of
from .reads import Entries, entries_of

# Programs of functions that were not given as compiled ones, kept for the next call.
_KEPT = 16
_programs: OrderedDict[Any, _CompiledProducts] = OrderedDict()
_MISSING: Any = object()


def sparse_jacobian(
    f: Function, x: Any = _MISSING, *, sparsity: Any = None, mode: str = "auto"
) -> Any:
    """The Jacobian of `f` at `x` as a SciPy CSR matrix, at the cost of a few products with it.

    `x` and the result of `f` may be arrays of any shape, or trees of them: a column stands for an
    element of `x` and a row for one of ``f(x)``, in the order of ``ravel``, leaf after leaf. Which
    entries there can be, for any `x`, is found by tracing, so the pattern is the same at every
    call, with zeros where there happen to be some. Columns (``mode="forward"``) or rows
    (``"reverse"``) that do not meet are found together, by default by whichever takes fewer
    products. The products are compiled. Where the function reads elements of `x` and then does the
    same with each, or with blocks of them, one program writes all entries where they stay.

    >>> import numpy as np
    >>> x = np.array([1.0, 2.0, 3.0, 4.0])
    >>> sparse_jacobian(lambda x: x[1:] ** 2 - x[:-1], x).toarray()
    array([[-1.,  4.,  0.,  0.],
           [ 0., -1.,  6.,  0.],
           [ 0.,  0., -1.,  8.]])

    Without `x` it gives a function of x, which keeps the pattern and the compiled products. It
    reads what `f` takes from outside once, as `jit` does:

    >>> derivative = sparse_jacobian(lambda x: x[1:] ** 2 - x[:-1])
    >>> derivative(x).nnz, derivative(2 * x).nnz
    (6, 6)
    >>> derivative.sparsity(x)
    <Sparsity: 6 entries in (3, 4), forward, 2 colours>

    `sparsity` gives the pattern where it is known: a SciPy matrix, an array of flags, or a
    `Sparsity`, which has its colours with it.
    """
    return _derivative(f, x, sparsity, mode, "sparse_jacobian")


def sparse_hessian(f: Function, x: Any = _MISSING, *, sparsity: Any = None) -> Any:
    """The Hessian of a scalar function as a SciPy CSR matrix, exactly symmetric.

    The rest is as with `sparse_jacobian`; entries across the diagonal are computed once, with a
    star colouring.

    >>> import numpy as np
    >>> def chain(x):
    ...     return np.sum((x[1:] - x[:-1] ** 2) ** 2)
    >>> sparse_hessian(chain, np.ones(4)).toarray()
    array([[ 8., -4.,  0.,  0.],
           [-4., 10., -4.,  0.],
           [ 0., -4., 10., -4.],
           [ 0.,  0., -4.,  2.]])
    >>> sparse_hessian(chain).sparsity(np.ones(10_000))
    <Sparsity: 29998 entries in (10000, 10000), symmetric, 3 colours>
    """
    return _derivative(f, x, sparsity, "symmetric", "sparse_hessian")


def _derivative(f: Function, x: Any, sparsity: Any, mode: str, name: str) -> Any:
    if not callable(f):
        raise StructureError(
            explain(name, f"got {type(f).__name__}, expected a function", f"Write {name}(f, x).")
        )
    if mode not in (*MODES, "symmetric"):
        raise OptionError(f"{name}: got mode {mode!r}, expected one of {', '.join(MODES)}.")
    scipy_sparse(name)
    derivative = SparseDerivative(f, sparsity, mode, name)
    if x is _MISSING:
        return derivative
    if isinstance(f, Jitted) and sparsity is None:
        kept = f.__dict__.setdefault("_sparse_derivatives", {})
        return kept.setdefault(mode, derivative)(x)
    return derivative.program(x, once=True).run(x)


class SparseDerivative:
    """A function that gives the sparse derivative matrix of another; see `sparse_jacobian`."""

    def __init__(self, f: Function, sparsity: Any, mode: str, name: str):
        self.function = f
        self.mode = mode
        self.name = name
        self._given = sparsity
        self._programs: dict[Any, _CompiledProducts] = {}
        self.__name__ = f"{name}_of_{function_name(f)}"

    def __call__(self, x: Any) -> Any:
        """The matrix at `x`."""
        return self.program(x).run(x)

    def sparsity(self, x: Any) -> Sparsity:
        """The pattern for such an `x`, and its colouring."""
        return self.program(x).sparsity

    def __repr__(self) -> str:
        return f"<{self.name} of {function_name(self.function)}>"

    def program(self, x: Any, once: bool = False) -> _CompiledProducts:
        """The compiled products for such an `x`; `once`: whatever `f` has read is read anew."""
        leaves, structure = tree.flatten(x)
        kinds = tuple((_checked(leaf, self), np.shape(leaf)) for leaf in leaves)
        if once:
            return self._found_again(x, structure, kinds)
        program = self._programs.get((structure, kinds))
        if program is None:
            program = self._program(self._traced(x), x, structure, kinds)
            self._programs[structure, kinds] = program
        return program

    def _program(self, captured: Any, x: Any, structure: Any, kinds: Any) -> _CompiledProducts:
        types = [node.type for node in captured.graph.outputs[: len(captured.results)]]
        dtype = _result_dtype(types, self)
        entries = self._entries(x, len(kinds))
        sparsity = self._sparsity(captured, len(kinds), entries)
        _check_shape(sparsity, types, kinds, self)
        program = _CompiledProducts(self, sparsity, structure, kinds, dtype, entries)
        if self._given is not None:
            _check_given(program, x)
        return program

    def _traced(self, x: Any) -> Any:
        """The product with a vector as a graph, which holds for every x."""
        product = _product(self.function, "symmetric" if self.mode == "symmetric" else "forward")
        shown = tree.map(np.asarray, x)
        return jit(lambda x, t: product(x)(t)).captured(shown, shown)

    def _entries(self, x: Any, inputs: int) -> Entries | None:
        """A program for all entries at once, where the function has such a form."""
        if self._given is not None or self.mode == "symmetric":
            return None
        return entries_of(jit(self.function).captured(tree.map(np.asarray, x)), inputs, self.mode)

    def _sparsity(self, captured: Any, inputs: int, entries: Entries | None) -> Sparsity:
        if entries is not None:
            return Sparsity(entries.pattern, self.mode)
        given = self._given
        if isinstance(given, Sparsity):
            if (given.mode == "symmetric") == (self.mode == "symmetric"):
                return given
            given = given.matrix
        return Sparsity(pattern_of(captured, inputs) if given is None else given, self.mode)

    def _found_again(self, x: Any, structure: Any, kinds: Any) -> _CompiledProducts:
        """The program of an earlier call, if the function does now what it did then."""
        captured = self._traced(x)
        key = (graph_text(captured.graph), structure, kinds, self.mode, id(self._given))
        program = _programs.get(key)
        if program is None:
            program = self._program(captured, x, structure, kinds)
            if not captured.changes:  # else it also matters which tensors it reads
                _programs[key] = program
        else:
            _programs.move_to_end(key)
        while len(_programs) > _KEPT:
            _programs.popitem(last=False)
        return program


def _checked(leaf: Any, derivative: SparseDerivative) -> np.dtype:
    """The dtype of a leaf of x."""
    dtype = np.asarray(leaf).dtype
    if dtype.kind != "f":
        raise DTypeError(
            explain(
                derivative.name,
                f"x of {function_name(derivative.function)} holds {dtype}, expected real floats",
                "Convert it with astype(float), or let the function take it from outside.",
            )
        )
    return dtype


def _result_dtype(types: Sequence[ArrayType], derivative: SparseDerivative) -> np.dtype:
    """The dtype of the matrix of a function that gives such arrays."""
    for one in types:
        if one.dtype.kind == "c":
            raise DTypeError(
                explain(
                    derivative.name,
                    f"{function_name(derivative.function)} returns {one}, expected real values",
                    "Return real and imaginary parts.",
                )
            )
    return np.result_type(*[one.dtype for one in types]) if types else np.dtype(float)


def _check_shape(
    sparsity: Sparsity, types: Sequence[ArrayType], kinds: Any, derivative: SparseDerivative
) -> None:
    rows, columns = sum(one.size for one in types), sum(prod(shape) for _, shape in kinds)
    name = function_name(derivative.function)
    if sparsity.shape[1] != columns:
        problem = f"the pattern has {sparsity.shape[1]} columns, x has {columns} elements"
    elif sparsity.shape[0] != rows:
        problem = f"the pattern has {sparsity.shape[0]} rows, {name} gives {rows} numbers"
    else:
        return
    raise ShapeError(explain(derivative.name, problem, "Give the pattern for this x."))


def _check_given(program: _CompiledProducts, x: Any) -> None:
    """A pattern without entries that are there would give wrong numbers: try it on a vector."""
    derivative, found = program.derivative, program.run(x)
    chance = np.random.default_rng(0)
    parts = [chance.uniform(0.5, 1.5, shape).astype(dtype) for dtype, shape in program.kinds]
    vector = tree.unflatten(program.structure, parts)
    mode = "symmetric" if derivative.mode == "symmetric" else "forward"
    wanted = _raveled(_product(derivative.function, mode)(x)(vector))
    flat = _raveled(vector)
    size = abs(found) @ np.abs(flat) + np.abs(wanted)
    wrong = np.abs(found @ flat - wanted) > 100 * np.sqrt(np.finfo(program.dtype).eps) * size
    if wrong.any():
        raise OptionError(
            explain(
                derivative.name,
                f"the pattern given lacks entries that the derivative has, in row "
                f"{np.flatnonzero(wrong)[0]} or in one that shares a colour with it",
                "Leave sparsity out, and the pattern is found by tracing.",
            )
        )


def _product(f: Function, mode: str) -> Any:
    """At x, the product of the matrix with a tree like x."""
    function = grad(f) if mode == "symmetric" else f
    return lambda x: lambda t: jvp(function, (x,), (t,))[1]


class _CompiledProducts:
    """The compiled products of one function with one pattern, for one kind of x."""

    def __init__(
        self,
        derivative: SparseDerivative,
        sparsity: Sparsity,
        structure: Any,
        kinds: Any,
        dtype: np.dtype,
        entries: Entries | None = None,
    ):
        self.entries = entries
        self.derivative = derivative
        self.sparsity = sparsity
        self.kinds = kinds
        self.structure = structure
        self.dtype = dtype
        self.product = jit(self._product)
        self.taken = jit(_taken)

    def run(self, x: Any) -> Any:
        """The matrix at `x`: a product for each colour, from which the entries are taken."""
        sparsity = self.sparsity
        if not sparsity.nnz:
            return sparsity.filled(np.zeros(0, self.dtype))
        x = tree.map(np.asarray, x)
        if self.entries is not None:
            data = self.entries.data(tree.leaves(x))
            return sparsity.filled(data.astype(self.dtype, copy=False))
        products = self._empty()
        for colour, row in enumerate(products):
            self.product(x, sparsity.colours, np.int32(colour), out=row)
        data = self.taken(products, sparsity.places)
        return sparsity.filled(data.astype(self.dtype, copy=False))

    def _empty(self) -> np.ndarray:
        """Room for what the products give: a column's side in forward mode, else a row's."""
        mode, own = self.sparsity.mode, [dtype for dtype, _ in self.kinds]
        length = self.sparsity.shape[0 if mode == "forward" else 1]
        computed = np.result_type(*own) if mode == "reverse" and own else self.dtype
        return np.empty((self.sparsity.count, length), computed)

    def _product(self, x: Any, own: Any, colour: Any) -> Any:
        """The product with the vector that is 1 where an element has the colour."""
        function, mode = self.derivative.function, self.sparsity.mode
        chosen = own == colour
        if mode != "reverse":
            direction = tree.unflatten(self.structure, _parts(chosen, self.kinds))
            return _raveled(_product(function, mode)(x)(direction))
        out, pullback = vjp(function, x)
        leaves, structure = tree.flatten(out)
        kinds = [(type_of(leaf).dtype, type_of(leaf).shape) for leaf in leaves]
        return _raveled(pullback(tree.unflatten(structure, _parts(chosen, kinds)))[0])


def _taken(products: Any, places: Any) -> Any:
    return gather(products.reshape(-1), places, axes=(0,), inside=True)


def _parts(chosen: Any, kinds: Any) -> list[Any]:
    """A vector of flags as arrays of these kinds."""
    found, start = [], 0
    for dtype, shape in kinds:
        size = prod(shape)
        found.append(chosen[start : start + size].reshape(shape).astype(dtype))
        start += size
    return found


def _raveled(values: Any) -> Any:
    leaves = [np.reshape(leaf, -1) for leaf in tree.leaves(values)]
    return leaves[0] if len(leaves) == 1 else np.concatenate(leaves)
