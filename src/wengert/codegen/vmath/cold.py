"""Rare lanes: out-of-line functions, called only when some lane needs them.

`patch` asks one question of all lanes; if the answer is yes it calls an internal function of the
module that walks over the lanes and replaces the results of the rare ones by those of a scalar
float64 function. The rest of the vector code stays free of branches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from ..counted import carried_loop
from .lanes import F32, Emitter, Lanes

DOUBLE, WORD = ir.DoubleType(), ir.IntType(64)
Body = Callable[[Emitter, Sequence[Lanes]], Lanes]


def patch(k: Emitter, name: str, body: Body, rare: Lanes, args: list[Lanes], done: Lanes) -> Lanes:
    """Return `done`, with the lanes of the mask `rare` replaced by the scalar `body` of `args`."""
    builder = k.builder
    fixer = _lane_function(k, name, body, len(args))
    before = builder.block
    with builder.if_then(k.any_lane(rare), likely=False):
        # The mask travels as an integer: passing vectors of bits is not dependable.
        mask = builder.bitcast(rare.value, ir.IntType(max(k.width, 1)))
        mask = builder.zext(mask, _mask_type(k)) if k.width < 64 else mask
        mended = builder.call(fixer, [mask, *(a.value for a in args), done.value])
        inside = builder.block
    merged = builder.phi(k.float_type)
    merged.add_incoming(done.value, before)
    merged.add_incoming(mended, inside)
    return k.wrap(merged)


def scalar_function(module: ir.Module, name: str, body: Body, count: int, has_fma: bool):
    """Return the module's scalar float64 function, emitting it when it is new."""
    found = module.globals.get(name)
    if found is not None:
        return found
    function = ir.Function(module, ir.FunctionType(DOUBLE, [DOUBLE] * count), name)
    _mark_cold(function)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    k = Emitter(builder, DOUBLE, has_fma)
    builder.ret(body(k, [k.wrap(a) for a in function.args]).value)
    return function


def _mark_cold(function: ir.Function) -> None:
    function.linkage = "internal"
    function.attributes.add("noinline")
    function.attributes.add("cold")


def _lane_function(k: Emitter, name: str, body: Body, count: int) -> ir.Function:
    """Return the function (mask, args..., done) -> done with the masked lanes computed anew."""
    module = k.builder.module
    flavour = "fma" if k.has_fma else "mul"
    scalar = scalar_function(module, f"wengert.{name}.{flavour}", body, count, k.has_fma)
    lanes_name = f"wengert.{name}.{flavour}.x{k.width}.f{k.format.bits}"
    found = module.globals.get(lanes_name)
    if found is not None:
        return found
    kind = ir.FunctionType(k.float_type, [_mask_type(k)] + [k.float_type] * (count + 1))
    function = ir.Function(module, kind, lanes_name)
    _mark_cold(function)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    builder.ret(_walk(builder, k, scalar, list(function.args)))
    return function


def _mask_type(k: Emitter) -> ir.Type:
    return ir.IntType(max(k.width, 64))


def _walk(builder: ir.IRBuilder, k: Emitter, scalar: ir.Function, args: list) -> ir.Value:
    """Go through memory, lane by lane while mask bits are left: short code for any width."""
    mask, *inputs, done = args
    if not k.width:
        return _call_in_double(builder, k, scalar, inputs)
    places = [_spill(builder, v) for v in (*inputs, done)]

    def one(now: list[ir.Value]) -> tuple[list[ir.Value], ir.Value]:
        lane, rest = now
        slots = [builder.gep(place, [lane]) for place in places]
        with builder.if_then(builder.trunc(rest, ir.IntType(1))):
            values = [builder.load(slot) for slot in slots[:-1]]
            builder.store(_call_in_double(builder, k, scalar, values), slots[-1])
        left = builder.lshr(rest, ir.Constant(mask.type, 1))
        more = builder.icmp_unsigned("!=", left, ir.Constant(mask.type, 0))
        return [builder.add(lane, WORD(1)), left], more

    carried_loop(builder, [WORD(0), mask], one, "lane")
    return builder.load(builder.bitcast(places[-1], k.float_type.as_pointer()))


def _spill(builder: ir.IRBuilder, vector: ir.Value) -> ir.Value:
    """Store a vector on the stack and return the address of its first lane."""
    place = builder.alloca(vector.type)
    builder.store(vector, place)
    return builder.bitcast(place, vector.type.element.as_pointer())


def _call_in_double(builder: ir.IRBuilder, k: Emitter, scalar: ir.Function, values: list):
    if k.format is F32:
        values = [builder.fpext(v, DOUBLE) for v in values]
    result = builder.call(scalar, values)
    return builder.fptrunc(result, ir.FloatType()) if k.format is F32 else result
