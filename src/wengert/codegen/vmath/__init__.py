"""Elementary functions as straight vector code.

`emit(builder, "exp", x)` appends instructions for exp to the current block: explicit arithmetic on
all lanes at once (fused multiply-adds, bit patterns, selects), for float32 and float64, scalars and
vectors of any width. There are no library calls and no fast-math flags, and the code needs no
optimiser. Results are within 2 ulp of the exact value over the whole range, subnormal numbers and
huge angles included; NaN, infinities and signed zeros come out as NumPy has them.
Two exceptions, where the exact result cancels: logaddexp is within 2 ulp of its larger argument,
gammaln and digamma below 0 are within 4 ulp of the larger term of the reflection formula.

How to read the folder: `lanes` gives LLVM values operators, `doubled` keeps rounding errors where
they matter, `coefficients` holds the fitted polynomials, `cold` handles the rare lanes of sin, cos,
tan and fmod in functions of their own; the mathematics is in `exponential`, `logarithm`,
`trigonometric`, `special`, `gamma` and `basic`.
"""

from __future__ import annotations

from llvmlite import ir

from . import basic, exponential, gamma, logarithm, special, trigonometric
from .lanes import Emitter

_FUNCTIONS = {
    **basic.FUNCTIONS,
    **exponential.FUNCTIONS,
    **logarithm.FUNCTIONS,
    **trigonometric.FUNCTIONS,
    **special.FUNCTIONS,
    **gamma.FUNCTIONS,
}
NAMES = frozenset(_FUNCTIONS)
_LANE_0 = ir.Constant(ir.IntType(32), 0)
TWO_ARGUMENTS = frozenset(
    {"power", "arctan2", "fmod", "hypot", "logaddexp"}
    | {"largest", "smallest", "maximum", "minimum", "fmax", "fmin", "copysign"}
)


def emit(builder: ir.IRBuilder, name: str, *args: ir.Value, has_fma: bool = True) -> ir.Value:
    """Append the code of one elementary function and return its result.

    All arguments have one type: float, double, or a vector of them. Names are NumPy's (`arcsin`,
    `power`), and `sigmoid`, `sigmoid_tail`, `erf`, `erfc`, `gauss`, `mills`, `gammaln`, `digamma`.
    Set `has_fma=False` for processors without fused multiply-add.
    After sin, cos, tan and fmod the builder stands in a new basic block: rare lanes are handled
    behind a branch.

    >>> module = ir.Module()
    >>> vector = ir.VectorType(ir.FloatType(), 8)
    >>> function = ir.Function(module, ir.FunctionType(vector, [vector]), "exp8")
    >>> builder = ir.IRBuilder(function.append_basic_block())
    >>> builder.ret(emit(builder, "exp", function.args[0])).opname
    'ret'
    """
    if name not in _FUNCTIONS:
        raise ValueError(
            f"vmath.emit: no function {name!r}; expected one of {', '.join(sorted(NAMES))}. "
            "Use NumPy's name, such as 'arcsin' for asin."
        )
    expected = 2 if name in TWO_ARGUMENTS else 1
    types = {str(a.type) for a in args}
    if len(args) != expected or len(types) != 1:
        got = ", ".join(str(a.type) for a in args) or "none"
        raise TypeError(
            f"vmath.emit: {name} got arguments ({got}), expected {expected} of one type. "
            "Broadcast and convert the values first."
        )
    _check_float(name, args[0].type)
    kind = args[0].type
    if isinstance(kind, ir.VectorType) and kind.count == 1:
        # Back ends are not well tried on vectors of one lane, so these are computed as scalars.
        scalars = [builder.extract_element(a, _LANE_0) for a in args]
        result = emit(builder, name, *scalars, has_fma=has_fma)
        return builder.insert_element(ir.Constant(kind, ir.Undefined), result, _LANE_0)
    k = Emitter(builder, kind, has_fma)
    return _FUNCTIONS[name](k, *(k.wrap(a) for a in args)).value


def _check_float(name: str, kind: ir.Type) -> None:
    element = kind.element if isinstance(kind, ir.VectorType) else kind
    if not isinstance(element, (ir.FloatType, ir.DoubleType)):
        raise TypeError(
            f"vmath.emit: {name} got lanes of {element}, expected float or double. "
            "Convert the value first."
        )
