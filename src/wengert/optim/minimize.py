"""SciPy's minimizers with exact derivatives.

SciPy sees one flat vector and one compiled function that gives value and gradient together; methods
that use second derivatives get compiled products of the Hessian with a vector, or the Hessian
itself. The function to minimize takes and the result holds whatever tree of arrays `x0` is.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from .. import tree
from ..errors import DTypeError, MissingPackageError, OptionError, StructureError, explain
from ..jit import jit
from ..transforms import hessian, hvp, jacobian, value_and_grad
from ..types import Function

# What SciPy's methods can make use of.
_GRADIENT = """
    cg bfgs l-bfgs-b tnc slsqp newton-cg dogleg trust-ncg trust-krylov trust-exact trust-constr
"""
_GRADIENT_METHODS = frozenset(_GRADIENT.split())
_PRODUCT_METHODS = frozenset(["newton-cg", "trust-ncg", "trust-krylov", "trust-constr"])
_HESSIAN_METHODS = frozenset(["dogleg", "trust-exact"])
_METHODS = _GRADIENT_METHODS | {"nelder-mead", "powell", "cobyla", "cobyqa"}


def minimize(
    f: Function,
    x0: Any,
    args: Any = (),
    method: str | None = None,
    jac: Any = "exact",
    hess: Any = "exact",
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    callback: Function | None = None,
    options: dict[str, Any] | None = None,
) -> Any:
    """Minimize a scalar function of arrays with `scipy.optimize.minimize` and exact derivatives.

    `x0` is an array or any tree of arrays; `f(x, *args)` gets the like, and so does `callback`.
    The result is SciPy's, with `x` and `jac` in the structure of `x0`. `method`, `tol` and
    `options` are SciPy's. `jac` and `hess` say how derivatives are found: "exact", or what SciPy
    takes (a function of flat vectors, "2-point", None).

    `bounds` are SciPy's, or a pair `(low, high)`, each a number, None, or of the structure of `x0`.
    `constraints` are SciPy's, with functions of `x` in the structure of `x0`; where they say
    nothing about derivatives, these are exact too.

    >>> def rosenbrock(x):
    ...     return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
    >>> result = minimize(rosenbrock, np.zeros(4))
    >>> result.x.round(4)
    array([1., 1., 1., 1.])
    >>> line = {"slope": 0.0, "offset": 0.0}
    >>> t, y = np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 5.0])
    >>> result = minimize(lambda p: np.sum((p["slope"] * t + p["offset"] - y) ** 2), line)
    >>> {name: round(float(value), 4) for name, value in result.x.items()}
    {'slope': 2.0, 'offset': 1.0}
    """
    optimize = _scipy()
    args = args if isinstance(args, tuple) else (args,)
    vector = _Vector(x0)
    if jac is True:
        raise OptionError(
            explain(
                "minimize",
                "jac=True, but f gives its value alone here",
                'Leave jac at "exact": the gradient is derived from f.',
            )
        )
    listed = _as_list(constraints)
    name = _method(method, bounds, listed)
    given = [_constraint(optimize, one, vector, name) for one in listed]
    problem = _Problem(f, vector, args, exact_jac=_is_exact(jac), exact_hess=_is_exact(hess))
    found = optimize.minimize(
        problem.function(name),
        vector.start,
        method=method,
        bounds=_bounds(optimize, bounds, vector),
        constraints=given,
        tol=tol,
        callback=_callback(callback, vector),
        options=options,
        **problem.derivatives(name, jac, hess),
    )
    found.x = vector.tree(found.x)
    # trust-constr gives the derivatives of the constraints, and these are not like x
    if isinstance(found.get("jac"), np.ndarray) and found.jac.shape == vector.start.shape:
        found.jac = vector.tree(found.jac)
    return found


def _scipy() -> Any:
    try:
        import scipy.optimize
    except ImportError:
        raise MissingPackageError(
            explain(
                "minimize",
                "SciPy is not installed",
                "Install it: pip install scipy, or pip install 'wengert[sparse]'.",
            )
        ) from None
    return scipy.optimize


class _Vector:
    """The arrays of a tree as one flat vector of float64."""

    def __init__(self, x0: Any):
        plain = isinstance(x0, (list, tuple)) and all(isinstance(one, (int, float)) for one in x0)
        leaves, self.structure = tree.flatten(np.array(x0, float) if plain else x0)
        arrays = [_real(leaf) for leaf in leaves]
        self.types = [(array.dtype, array.shape) for array in arrays]
        parts = [np.asarray(array, float).ravel() for array in arrays]
        self.start = np.concatenate(parts) if parts else np.zeros(0)
        if not self.start.size:
            raise StructureError(
                explain("minimize", "x0 holds no numbers", "Give the point to start from.")
            )

    def tree(self, flat: Any) -> Any:
        """The tree that a vector stands for; the vector may be traced."""
        leaves, place = [], 0
        for dtype, shape in self.types:
            size = int(np.prod(shape, dtype=np.int64))
            leaves.append(flat[place : place + size].reshape(shape).astype(dtype))
            place += size
        return tree.unflatten(self.structure, leaves)

    def flat(self, like: Any, argument: str) -> np.ndarray:
        """The vector for another tree of the same structure."""
        leaves = tree.flatten_like(self.structure, like, f"minimize: argument {argument}")
        pairs = zip(leaves, self.types, strict=True)
        parts = [np.broadcast_to(np.asarray(leaf, float), shape) for leaf, (_, shape) in pairs]
        return np.concatenate([part.ravel() for part in parts])


def _real(leaf: Any) -> np.ndarray:
    array = np.asarray(leaf.numpy() if hasattr(leaf, "numpy") else leaf)
    if array.dtype.kind not in "biuf":
        raise DTypeError(
            explain(
                "minimize",
                f"x0 holds {array.dtype}, expected real numbers",
                "Split complex numbers into real and imaginary parts.",
            )
        )
    return array if array.dtype.kind == "f" else array.astype(float)


class _Problem:
    """The function as SciPy calls it, with its derivatives."""

    def __init__(
        self,
        f: Function,
        vector: _Vector,
        args: tuple[Any, ...],
        exact_jac: bool,
        exact_hess: bool,
    ):
        self.args, self.exact_jac, self.exact_hess = args, exact_jac, exact_hess

        def objective(flat: Any, args: tuple[Any, ...]) -> Any:
            return f(vector.tree(flat), *args)

        self._value = jit(objective)
        self._both = jit(value_and_grad(objective))
        self._product = jit(lambda flat, v, args: hvp(lambda z: objective(z, args), flat, v))
        self._hessian = jit(hessian(objective))

    def function(self, method: str) -> Function:
        """Value alone, or value and gradient."""
        if not (self.exact_jac and method in _GRADIENT_METHODS):
            return lambda flat: float(self._value(flat, self.args))

        def both(flat: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = self._both(flat, self.args)
            return float(value), gradient

        return both

    def derivatives(self, method: str, jac: Any, hess: Any) -> dict[str, Any]:
        """How SciPy shall find derivatives."""
        found: dict[str, Any] = {}
        if method in _GRADIENT_METHODS:
            found["jac"] = True if self.exact_jac else jac
        if not self.exact_hess:
            if hess is not None:
                found["hess"] = hess
        elif method in _HESSIAN_METHODS:
            found["hess"] = lambda flat: self._hessian(flat, self.args)
        elif method in _PRODUCT_METHODS:
            found["hessp"] = lambda flat, v: self._product(flat, np.ascontiguousarray(v), self.args)
        return found


def _is_exact(how: Any) -> bool:
    return isinstance(how, str) and how == "exact"


def _method(method: str | None, bounds: Any, constraints: list[Any]) -> str:
    """The method that SciPy will use, in lower case."""
    if method is None:
        if constraints:
            return "slsqp"
        return "bfgs" if bounds is None else "l-bfgs-b"
    name = method.lower() if isinstance(method, str) else ""
    if name not in _METHODS:
        raise OptionError(
            explain(
                "minimize",
                f"got the method {method!r}",
                f"Choose one of {', '.join(sorted(_METHODS))}.",
            )
        )
    return name


def _bounds(optimize: Any, bounds: Any, vector: _Vector) -> Any:
    """SciPy's bounds as they are; a pair of trees as two vectors."""
    if not (isinstance(bounds, tuple) and len(bounds) == 2):
        return bounds
    low, high = _end(bounds[0], vector, -np.inf), _end(bounds[1], vector, np.inf)
    return bounds if low is None or high is None else optimize.Bounds(low, high)


def _end(end: Any, vector: _Vector, default: float) -> np.ndarray | None:
    if end is None or isinstance(end, (int, float)):
        return np.full(vector.start.shape, default if end is None else float(end))
    if not tree.flatten(end)[1].fits(vector.structure):
        return None  # a pair of SciPy's, for the first of two numbers
    return vector.flat(end, "bounds")


def _as_list(constraints: Any) -> list[Any]:
    if isinstance(constraints, (list, tuple)):
        return list(constraints)
    return [constraints]


def _constraint(optimize: Any, given: Any, vector: _Vector, method: str) -> Any:
    """A constraint of SciPy's, on flat vectors and with exact derivatives."""
    if isinstance(given, optimize.LinearConstraint):
        return given
    if isinstance(given, optimize.NonlinearConstraint):
        exact = _Constraint(given.fun, vector, ())
        derivatives = {"jac": given.jac, "hess": given.hess}
        if given.jac == "2-point":  # what SciPy assumes where nothing is said
            derivatives["jac"] = exact.jacobian
            if method == "trust-constr":
                derivatives["hess"] = exact.hessian
        return optimize.NonlinearConstraint(
            exact.value, given.lb, given.ub, keep_feasible=given.keep_feasible, **derivatives
        )
    if not isinstance(given, dict) or "fun" not in given or "type" not in given:
        raise StructureError(
            explain(
                "minimize",
                f"got {given!r} as a constraint",
                'Give {"type": "eq" or "ineq", "fun": function}, or SciPy\'s LinearConstraint or '
                "NonlinearConstraint.",
            )
        )
    exact = _Constraint(given["fun"], vector, tuple(given.get("args", ())))
    return {"type": given["type"], "fun": exact.value, "jac": given.get("jac", exact.jacobian)}


class _Constraint:
    """A function that gives the constrained numbers, with its derivatives."""

    def __init__(self, function: Function, vector: _Vector, args: tuple[Any, ...]):
        def numbers(flat: Any, args: tuple[Any, ...]) -> Any:
            leaves = tree.leaves(function(vector.tree(flat), *args))
            parts = [np.reshape(leaf, (-1,)) for leaf in leaves]
            return np.concatenate(parts) if len(parts) > 1 else parts[0]

        def weighted(flat: Any, weights: Any, args: tuple[Any, ...]) -> Any:
            return np.sum(numbers(flat, args) * weights)

        value, derivative = jit(numbers), jit(jacobian(numbers))
        second = jit(hessian(weighted))
        self.value = lambda flat: value(flat, args)
        self.jacobian = lambda flat: derivative(flat, args)
        self.hessian = lambda flat, weights: second(flat, np.ascontiguousarray(weights), args)


def _callback(callback: Function | None, vector: _Vector) -> Any:
    """The user's callback, given trees; SciPy tells its two forms apart by the argument's name."""
    if callback is None:
        return None
    if _parameter_names(callback) == ["intermediate_result"]:

        def with_result(intermediate_result: Any) -> Any:
            intermediate_result.x = vector.tree(intermediate_result.x)
            return callback(intermediate_result=intermediate_result)

        return with_result
    return lambda xk, *rest: callback(vector.tree(np.array(xk)), *rest)


def _parameter_names(function: Function) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # of a built-in
        return []
