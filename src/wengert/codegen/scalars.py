"""The elementary functions of the loop language as LLVM instructions.

They work on scalars and on vectors alike: a value is an LLVM value of the element type or of a
vector of it, booleans are i1. `functions` has them one by one, `vmath` those that take long.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from ..errors import WengertError
from ..loops import float_range, not_an_integer
from ..machine import policy
from . import vmath
from .functions import EMITTERS
from .llvm_types import element_type, intrinsic, type_suffix
from .vectors import splat, vector_type, width_of

# What `vmath` calls some functions.
_VMATH_NAMES = {"expit": "sigmoid", "expit_tail": "sigmoid_tail"}


class Scalars:
    """Emits elementary functions with one builder, for a number of lanes (1: plain scalars)."""

    def __init__(self, builder: ir.IRBuilder, lanes: int, has_fma: bool):
        self.builder = builder
        self.lanes = lanes
        self.has_fma = has_fma

    @classmethod
    def like(cls, builder: ir.IRBuilder, value: ir.Value, has_fma: bool) -> Scalars:
        """Those for as many lanes as a value has."""
        return cls(builder, width_of(value), has_fma)

    def type(self, dtype: np.dtype) -> ir.Type:
        """The LLVM type of a value."""
        return vector_type(element_type(dtype), self.lanes)

    def literal(self, value: Any, dtype: np.dtype) -> ir.Constant:
        """A constant on all lanes."""
        element = ir.Constant(element_type(dtype), _literal(value, dtype))
        return element if self.lanes == 1 else ir.Constant(self.type(dtype), element)

    def splat(self, value: ir.Value) -> ir.Value:
        """A scalar on all lanes."""
        return splat(self.builder, value, self.lanes)

    def apply(
        self, name: str, args: list[ir.Value], dtypes: list[np.dtype], dtype: np.dtype
    ) -> ir.Value:
        """One elementary function; `dtypes` are those of the arguments."""
        if name == "convert":
            return self.convert(args[0], dtypes[0], dtype)
        if name == "where":
            return self.builder.select(*args)
        if name == "bits":
            return self.builder.bitcast(args[0], self.type(dtype))
        own = EMITTERS.get(name)
        if own is not None:
            return own(self, args, dtypes[0])
        if dtypes[0].kind == "f":
            return self.elementary(_VMATH_NAMES.get(name, name), args)
        raise WengertError(f"codegen: no code for {name} of {dtypes[0]}")

    def elementary(self, name: str, args: list[ir.Value]) -> ir.Value:
        """A function of `vmath`: in line, or as a call once the program has many of them.

        One of them is a hundred instructions; LLVM's time grows faster than the size of a body.
        """
        module = self.builder.module
        full_name = f"wengert.{name}.{type_suffix(args[0].type)}"
        uses = module.__dict__.setdefault("elementary_uses", {})
        uses[full_name] = uses.get(full_name, 0) + 1
        if uses[full_name] <= policy().code.in_line:
            return vmath.emit(self.builder, name, *args, has_fma=self.has_fma)
        function = module.globals.get(full_name) or self._outlined(name, full_name, args)
        return self.builder.call(function, args)

    def _outlined(self, name: str, full_name: str, args: list[ir.Value]) -> ir.Function:
        kind = args[0].type
        signature = ir.FunctionType(kind, [kind] * len(args))
        function = ir.Function(self.builder.module, signature, full_name)
        function.linkage = "internal"
        function.attributes.add("noinline")
        builder = ir.IRBuilder(function.append_basic_block())
        builder.ret(vmath.emit(builder, name, *function.args, has_fma=self.has_fma))
        return function

    def intrinsic(self, name: str, *args: ir.Value) -> ir.Value:
        """Call an LLVM intrinsic overloaded by the type of its arguments."""
        return intrinsic(self.builder, name, *args)

    def convert(self, x: ir.Value, source: np.dtype, target: np.dtype) -> ir.Value:
        """NumPy's cast between real dtypes."""
        b, kind = self.builder, self.type(target)
        if source == target:
            return x
        if target.kind == "b":
            zero = self.literal(0, source)
            if source.kind == "f":
                return b.fcmp_unordered("!=", x, zero)
            return b.icmp_unsigned("!=", x, zero)
        if source.kind == "f" and target.kind == "f":
            return b.fpext(x, kind) if target.itemsize > source.itemsize else b.fptrunc(x, kind)
        if source.kind == "f":
            return self._to_integer(x, source, target)
        if source.kind == "b" and target.kind == "f":  # a blend: half the work of a conversion
            return b.select(x, self.literal(1, target), self.literal(0, target))
        if target.kind == "f":
            return b.uitofp(x, kind) if source.kind == "u" else b.sitofp(x, kind)
        if source.kind == "b" or target.itemsize > source.itemsize:
            return b.zext(x, kind) if source.kind in "bu" else b.sext(x, kind)
        return b.trunc(x, kind) if target.itemsize < source.itemsize else x

    def _to_integer(self, x: ir.Value, source: np.dtype, target: np.dtype) -> ir.Value:
        """A float as an integer; LLVM leaves open what becomes of those out of range."""
        b, kind = self.builder, self.type(target)
        low, high = float_range(target)
        lost = not_an_integer(target)
        if lost == low:  # the lowest is then the same whether it counts or not
            size = self.intrinsic("llvm.fabs", x)
            defined = b.fcmp_ordered("<", size, self.literal(high, source))
        else:
            above = b.fcmp_ordered(">=", x, self.literal(low, source))
            defined = b.and_(above, b.fcmp_ordered("<", x, self.literal(high, source)))
        zero = self.literal(0, source)
        safe = b.select(defined, x, zero)
        if str(target) == "uint64":
            negative = b.fcmp_ordered("<", safe, zero)
            below = b.fptosi(b.select(negative, safe, zero), kind)
            number = b.select(negative, below, b.fptoui(b.select(negative, zero, safe), kind))
        else:
            dtype = np.dtype("i4" if high == 2.0**31 else "i8")
            wide = self.type(dtype)
            number = b.select(defined, b.fptosi(safe, wide), self.literal(lost, dtype))
            return number if wide == kind else b.trunc(number, kind)
        return b.select(defined, number, self.literal(lost, target))


def _literal(value: Any, dtype: np.dtype) -> Any:
    number = dtype.type(value).item()
    if dtype.kind == "f" and dtype.itemsize == 4:
        return float(np.float32(number))
    return int(number) if dtype.kind in "biu" else number
