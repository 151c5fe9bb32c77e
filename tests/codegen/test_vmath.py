"""Vector mathematics against mpmath (float64) and against float64 NumPy (float32), in ulp."""

from __future__ import annotations

import ctypes
import functools
import math

import llvmlite.binding as llvm
import mpmath as mp
import numpy as np
import pytest
import scipy.special
from llvmlite import ir

from wengert.codegen import scalars, vmath
from wengert.functions import FUNCTIONS

BOUND = 2.0  # ulp
EXACT = {"floor", "ceil", "trunc", "rint"} | {"sign", "copysign", "sqrt", "fmod"}
EXTREMES = {"maximum", "minimum", "fmax", "fmin", "largest", "smallest"}
EXACT |= EXTREMES
DTYPES = {"f32": np.float32, "f64": np.float64}
INF, NAN = np.inf, np.nan


# --- compiling and running a function over arrays ---------------------------------------------


def build(name: str, dtype: type, width: int, has_fma: bool) -> ir.Module:
    """Return a module with `f(inputs..., output, count)`, looping over vectors (0: scalars)."""
    element = ir.DoubleType() if dtype is np.float64 else ir.FloatType()
    lanes = ir.VectorType(element, width) if width else element
    index, count = ir.IntType(64), 2 if name in vmath.TWO_ARGUMENTS else 1
    module = ir.Module()
    kind = ir.FunctionType(ir.VoidType(), [element.as_pointer()] * (count + 1) + [index])
    function = ir.Function(module, kind, "f")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    entry, loop = builder.block, function.append_basic_block("loop")
    done = function.append_basic_block("done")
    builder.branch(loop)
    builder.position_at_end(loop)
    i = builder.phi(index)
    i.add_incoming(index(0), entry)
    places = [builder.bitcast(builder.gep(a, [i]), lanes.as_pointer()) for a in function.args[:-1]]
    values = [builder.load(place, align=4) for place in places[:-1]]
    result = vmath.emit(builder, name, *values, has_fma=has_fma)
    builder.store(result, places[-1], align=4)
    following = builder.add(i, index(max(width, 1)))
    i.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, function.args[-1]), loop, done)
    builder.position_at_end(done)
    builder.ret_void()
    return module


@functools.cache
def initialized() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@functools.cache
def compiled(name: str, dtype: type, width: int, has_fma: bool):
    initialized()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2
    )
    parsed = llvm.parse_assembly(str(build(name, dtype, width, has_fma)))
    parsed.verify()
    engine = llvm.create_mcjit_compiler(parsed, machine)
    engine.finalize_object()
    count = 2 if name in vmath.TWO_ARGUMENTS else 1
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (count + 1), ctypes.c_int64)
    return kind(engine.get_function_address("f")), engine


def run(name: str, *args: np.ndarray, width: int = 8, has_fma: bool = True) -> np.ndarray:
    dtype = args[0].dtype.type
    native, _engine = compiled(name, dtype, width, has_fma)
    size = args[0].size
    padded = [np.pad(a, (0, -size % max(width, 1)), mode="edge") for a in args]
    out = np.empty_like(padded[0])
    native(*(a.ctypes.data for a in padded), out.ctypes.data, out.size)
    return out[:size]


# --- exact values -----------------------------------------------------------------------------


def mp_power(x: mp.mpf, y: mp.mpf) -> mp.mpf:
    if x == 0:
        return mp.mpf(0) if y > 0 else mp.inf
    value = mp.exp(y * mp.log(abs(x)))
    return -value if x < 0 and int(y) % 2 else value


def mp_logaddexp(x: mp.mpf, y: mp.mpf) -> mp.mpf:
    return max(x, y) + mp.log1p(mp.exp(-abs(x - y)))


def mp_mills(x: mp.mpf) -> mp.mpf:
    if abs(x) > 1000:  # to 1e-20
        series = mp.fsum([1, -1 / x**2, 3 / x**4, -15 / x**6, 105 / x**8])
        return series / (abs(x) * mp.sqrt(2 * mp.pi))
    return mp.exp(x * x / 2) * mp.erfc(abs(x) / mp.sqrt(2)) / 2


def mp_sigmoid(x: mp.mpf) -> mp.mpf:
    return 1 / (1 + mp.exp(-x)) if x > 0 else mp.exp(x) / (1 + mp.exp(x))


def mp_sigmoid_tail(x: mp.mpf) -> mp.mpf:
    tail = mp_sigmoid(-abs(x))
    return -tail if x < 0 else tail


def c_lgamma(x: float) -> float:
    """C's lgamma: unlike SciPy's it is right at subnormal numbers and at -inf."""
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):
        return INF


MPMATH = {
    "exp": mp.exp,
    "exp2": lambda x: mp.exp(x * mp.ln2),
    "expm1": mp.expm1,
    "log": mp.log,
    "log2": lambda x: mp.log(x) / mp.ln2,
    "log10": lambda x: mp.log(x) / mp.ln10,
    "log1p": mp.log1p,
    "sin": mp.sin,
    "cos": mp.cos,
    "tan": mp.tan,
    "arcsin": mp.asin,
    "arccos": mp.acos,
    "arctan": mp.atan,
    "arctan2": mp.atan2,
    "sinh": mp.sinh,
    "cosh": mp.cosh,
    "tanh": mp.tanh,
    "arcsinh": lambda x: mp.sign(x) * mp.asinh(abs(x)),
    "arccosh": mp.acosh,
    "arctanh": mp.atanh,
    "sigmoid": mp_sigmoid,
    "sigmoid_tail": mp_sigmoid_tail,
    "logaddexp": mp_logaddexp,
    "erf": mp.erf,
    "erfc": lambda x: mp.erfc(x) if x < 40 else mp.mpf(0),
    "gauss": lambda x: mp.exp(-x * x / 2) if abs(x) < 50 else mp.mpf(0),
    "mills": mp_mills,
    "gammaln": mp.loggamma,
    "digamma": mp.digamma,
    "power": mp_power,
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "hypot": lambda x, y: mp.sqrt(x * x + y * y),
}
NUMPY = {
    "sigmoid": scipy.special.expit,
    "sigmoid_tail": lambda x: np.copysign(scipy.special.expit(-abs(x)), x),
    "erf": scipy.special.erf,
    "erfc": scipy.special.erfc,
    "gauss": lambda x: np.exp(-0.5 * x * x),
    "mills": lambda x: scipy.special.erfcx(abs(x) / np.sqrt(2.0)) / 2,
    "gammaln": lambda x: np.vectorize(c_lgamma, otypes=[x.dtype])(x),
    "digamma": scipy.special.digamma,
    "largest": np.maximum,
    "smallest": np.minimum,
}


def numpy_function(name: str):
    return NUMPY.get(name) or getattr(np, name)


def exact(name: str, args: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the exact results as unevaluated sums high + low of float64."""
    if name in EXACT or args[0].dtype == np.float32:
        wide = args if name in EXACT else [a.astype(np.float64) for a in args]
        with np.errstate(all="ignore"):
            return numpy_function(name)(*wide).astype(np.float64), np.float64(0)
    pairs = [_pair(name, point) for point in zip(*(a.tolist() for a in args), strict=True)]
    return np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])


@functools.cache
def _pair(name: str, point: tuple[float, ...]) -> tuple[float, float]:
    with mp.workprec(260):
        value = MPMATH[name](*(mp.mpf(v) for v in point))
        if abs(value) >= mp.mpf(2) ** 1024:
            return (INF if value > 0 else -INF), 0.0
        high = float(value)
        return high, 0.0 if np.isinf(high) else float(value - high)


def ulp_error(got: np.ndarray, high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Return the distance in units of the last place; an overflow counts as the next power of 2."""
    info = np.finfo(got.dtype)
    limit = 2.0**info.maxexp if got.dtype == np.float32 else INF
    with np.errstate(all="ignore"):
        high = np.where(np.abs(high) >= limit, np.copysign(INF, high), high)
        _, exponent = np.frexp(high)
        unit = np.ldexp(1.0, np.maximum(exponent, info.minexp + 1) - 1 - info.nmant)
        wide = got.astype(np.float64)
        if got.dtype == np.float32:
            wide = np.where(np.isinf(got) & np.isfinite(high), np.copysign(limit, wide), wide)
        error = np.abs((wide - high) - low) / unit
    return np.where(wide == high, np.abs(low) / unit, error)


# --- arguments --------------------------------------------------------------------------------

# Where each function is interesting, besides everywhere.
TYPICAL = {
    "arcsin": (-1, 1),
    "arccos": (-1, 1),
    "arctanh": (-1, 1),
    "erfc": (-6, 28),
    "gauss": (-15, 15),
    "mills": (-15, 15),
    "erf": (-6.2, 6.2),
    "sin": (-300, 300),
    "cos": (-300, 300),
    "tan": (-300, 300),
    "log1p": (-1, 3),
    "log": (0, 3),
    "log2": (0, 3),
    "log10": (0, 3),
    "arccosh": (1, 4),
    "tanh": (-3, 3),
    "sinh": (-25, 25),
    "cosh": (-25, 25),
    "gammaln": (0, 9),
    "digamma": (0, 9),
}
DOMAIN = {
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "gammaln", "digamma"), (0, INF)),
    "log1p": (-1, INF),
    "arccosh": (1, INF),
    "arcsin": (-1, 1),
    "arccos": (-1, 1),
    "arctanh": (-1, 1),
}
# Results leave the range about here; probed densely on both sides.
EDGES = {
    "exp": (709.782712893384, -745.1332191019411, -708.3964, 88.72284, -103.97208, -87.33655),
    "exp2": (1024, -1075, -1022, 128, -150, -126),
    "expm1": (709.782712893384, 88.72284, -37.4, -17.3),
    "sinh": (710.4758600739439, 89.41599, 1),
    "cosh": (710.4758600739439, 89.41599),
    "sigmoid": (-745.1332191019411, -103.97208, -708.3964, 36.7),
    "sigmoid_tail": (-745.1332191019411, 103.97208, -708.3964, 36.7),
    "tanh": (0.2554, 0.52, 19.06, 9.01, 22),
    "erf": (1, 5.92, 3.92),
    "erfc": (26.55, 27.23, 10.05, 9.19, -5.8),
    "gauss": (37.5, 38.6, 13, 14.4, -14.4),
    "mills": (0, 0.75, 14.5, -14.5, 39),
    "gammaln": (0.5, 1, 1.5, 2, 2.5, 3.5, 4, 2.0**60, 4e36),
    "digamma": (1, 1.4616321449683622, 2, 3, 4),
    "arctan": (1,),
    "arcsinh": (0.5, 2.0**30),
    "arccosh": (1, 2.0**30),
    "arctanh": (0.5, 1),
    "arcsin": (0.5, 1),
    "arccos": (0.5, 1, -1, -0.5),
    **dict.fromkeys(("log", "log2", "log10"), (1, 0.5**0.5, 2**0.5, 1e-308, 1e-38)),
    **dict.fromkeys(("sin", "cos", "tan"), (2.0**20, np.pi / 4, 3 * np.pi / 4)),
}


def near_quarter_turns(dtype: type, rng: np.random.Generator, count: int) -> np.ndarray:
    """Floats nearest to multiples of pi/2, small and huge: where reduction loses most bits."""
    multiples = np.concatenate([np.arange(1, count), rng.integers(1, 2**50, count)])
    turns = np.array([float(mp.mpf(int(m)) * mp.pi / 2) for m in multiples])
    worst = [6381956970095103 * 2.0**797, 5.3193726483265414e255, 1e22, 2.0**1023]
    turns = np.concatenate([turns, worst if dtype is np.float64 else [1.6e38]])
    return turns.astype(dtype)


def random_bits(dtype: type, rng: np.random.Generator, count: int) -> np.ndarray:
    """Floats of all exponents alike, subnormal ones too."""
    unsigned = np.uint64 if dtype is np.float64 else np.uint32
    values = rng.integers(0, np.iinfo(unsigned).max, count, unsigned, endpoint=True).view(dtype)
    return values[np.isfinite(values)]


def arguments(name: str, dtype: type, count: int, seed: int = 1) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    if name in vmath.TWO_ARGUMENTS:
        return two_arguments(name, dtype, rng, count)
    low, high = TYPICAL.get(name, (-20, 20))
    parts = [
        random_bits(dtype, rng, count // 2),
        rng.uniform(low, high, count).astype(dtype),
        (rng.normal(size=count // 4) * np.exp2(rng.uniform(-40, 4, count // 4))).astype(dtype),
    ]
    for edge in EDGES.get(name, ()):
        steps = rng.integers(-30, 30, 20) * np.spacing(dtype(edge))
        around = edge * (1 + rng.normal(size=20) * 10.0 ** rng.uniform(-12, -2, 20))
        parts += [(edge + steps).astype(dtype), around.astype(dtype)]
    if name in ("sin", "cos", "tan"):
        parts.append(near_quarter_turns(dtype, rng, count // 8))
    if name in ("log", "log2", "log10", "arccosh"):
        offsets = rng.normal(size=count // 2) * np.exp2(rng.uniform(-50, -1, count // 2))
        parts.append((1 + offsets).astype(dtype))
    x = np.concatenate(parts)
    domain = DOMAIN.get(name, (-INF, INF))
    return [x[(x > domain[0]) & (x < domain[1])]]


def two_arguments(name: str, dtype: type, rng: np.random.Generator, count: int) -> list[np.ndarray]:
    scaled = lambda: rng.normal(size=count) * np.exp2(rng.uniform(-6, 6, count))
    x = np.concatenate([random_bits(dtype, rng, count), scaled().astype(dtype)])
    y = np.concatenate([random_bits(dtype, rng, count), scaled().astype(dtype)])
    size = min(x.size, y.size)
    x, y = x[:size], y[:size]
    if name == "power":
        bases = np.abs(random_bits(dtype, rng, size))
        top = np.log(np.finfo(dtype).max)
        reach = rng.uniform(-1.1, 1.02, bases.size) * top
        with np.errstate(all="ignore"):
            powers = (reach / np.log(bases.astype(np.float64))).astype(dtype)
        near_one = (1 + rng.normal(size=size) * np.exp2(rng.uniform(-22, -2, size))).astype(dtype)
        large = (rng.normal(size=size) * np.exp2(rng.uniform(0, 24, size))).astype(dtype)
        negative = -np.abs(scaled()[:size].astype(dtype))
        whole = rng.integers(-40, 40, size).astype(dtype)[: negative.size]
        x = np.concatenate([np.abs(x), bases, near_one, negative])
        y = np.concatenate([y, powers, large, whole])
    if name in ("hypot", "arctan2", "fmod"):
        with np.errstate(all="ignore"):
            other = (x * rng.normal(size=size) * np.exp2(rng.uniform(-3, 3, size))).astype(dtype)
        x, y = np.concatenate([x, x]), np.concatenate([y, other])
    good = np.isfinite(x) & np.isfinite(y)
    return [x[good], y[good]]


# --- the error bound --------------------------------------------------------------------------

POINTS = {"f32": 20000, "f64": 500}
CASES = [(name, kind) for name in sorted(vmath.NAMES) for kind in DTYPES]


def worst_error(name: str, args: list[np.ndarray], got: np.ndarray) -> tuple[float, str]:
    high, low = exact(name, args)
    error = ulp_error(got, high, low)
    if name == "logaddexp":  # where the sum nearly cancels, the bound is of the larger argument
        larger = np.abs(np.maximum(*args))
        own = np.abs(high).astype(got.dtype)
        error = error * np.spacing(own) / np.spacing(np.maximum(own, larger))
    error = np.where(np.isnan(error), INF, error)
    worst = int(np.argmax(error))
    shown = ", ".join(repr(a[worst]) for a in args)
    message = f"{name}({shown}) = {got[worst]!r}, exact {high[worst]!r}: {error[worst]:.3f} ulp"
    return float(error[worst]), message


@pytest.mark.parametrize("has_fma", [True, False], ids=["fma", "mul"])
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_error_is_at_most_two_ulp(name: str, kind: str, has_fma: bool) -> None:
    args = arguments(name, DTYPES[kind], POINTS[kind])
    error, message = worst_error(name, args, run(name, *args, has_fma=has_fma))
    assert error <= (0 if name in EXACT else BOUND), message


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_error_on_many_points(name: str, kind: str) -> None:
    for seed in range(2, 6):
        args = arguments(name, DTYPES[kind], 10 * POINTS[kind], seed)
        error, message = worst_error(name, args, run(name, *args))
        assert error <= (0 if name in EXACT else BOUND), message


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", sorted(vmath.NAMES - vmath.TWO_ARGUMENTS))
def test_float32_over_its_whole_range(name: str) -> None:
    low, high = DOMAIN.get(name, (-INF, INF))
    for start in range(0, 2**32, 2**25):
        x = np.arange(start, start + 2**25, 13, np.uint32).view(np.float32)
        x = x[(x > low) & (x < high)]
        if x.size:
            error, message = worst_error(name, [x], run(name, x, width=16))
            assert error <= (0 if name in EXACT else BOUND), message


# --- special values ---------------------------------------------------------------------------


def special_values(dtype: type) -> np.ndarray:
    info = np.finfo(dtype)
    sizes = [0, info.smallest_subnormal, info.tiny, 0.5, 1, 1.5, 2, 3, 4, 1e6, 2.0**24 - 1]
    sizes += [2.0**24, 2.0**53, info.max, INF]
    return np.array([*sizes, *(-s for s in sizes), NAN], dtype)


@pytest.mark.parametrize("has_fma", [True, False], ids=["fma", "mul"])
@pytest.mark.parametrize("width", [0, 1, 4])
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_special_values_are_those_of_numpy(name: str, kind: str, width: int, has_fma: bool) -> None:
    x = special_values(DTYPES[kind])
    args = [x]
    if name in vmath.TWO_ARGUMENTS:
        args = [np.repeat(x, x.size), np.tile(x, x.size)]
    got = run(name, *args, width=width, has_fma=has_fma)
    with np.errstate(all="ignore"):
        expected = numpy_function(name)(*args)
    signs_matter = ~np.isnan(expected)
    if name in EXTREMES:
        signs_matter &= expected != 0  # NumPy itself leaves max(0, -0) open
    for same in (np.isnan, np.isinf, lambda v: v == 0):
        np.testing.assert_array_equal(same(got), same(expected), err_msg=name)
    np.testing.assert_array_equal(np.signbit(got)[signs_matter], np.signbit(expected)[signs_matter])


def test_nan_of_any_payload_stays_nan() -> None:
    patterns = np.random.default_rng(3).integers(1, 2**22, 64).astype(np.uint32)
    x = (patterns | np.uint32(0x7FC00000)).view(np.float32)
    for name in sorted(vmath.NAMES - {"fmax", "fmin", "copysign"}):
        args = [x, x[::-1].copy()] if name in vmath.TWO_ARGUMENTS else [x]
        assert np.isnan(run(name, *args)).all(), name
        wide = [a.astype(np.float64) for a in args]
        assert np.isnan(run(name, *wide)).all(), name


def test_any_width_gives_the_same_bits() -> None:
    for name in ("exp", "log", "tanh", "sin", "power", "fmod", "erfc"):
        args = arguments(name, np.float32, 400)
        expected = run(name, *args, width=0)
        for width in (1, 2, 3, 16):
            np.testing.assert_array_equal(run(name, *args, width=width), expected)


# The other term of each reflection formula, besides the function of -x.
POLE_TERMS = {
    "gammaln": lambda a: mp.log(mp.pi / (a * abs(mp.sinpi(a)))),
    "digamma": lambda a: 1 / a + mp.pi * mp.cospi(a) / mp.sinpi(a),
}


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("name", POLE_TERMS)
def test_reflection_is_within_four_ulp_of_its_terms(name: str, kind: str) -> None:
    dtype = DTYPES[kind]
    x = -np.random.default_rng(5).uniform(1e-3, 30, 400).astype(dtype)
    for point, got in zip(x.tolist(), run(name, x).tolist(), strict=True):
        value = MPMATH[name](mp.mpf(point)).real
        terms = abs(MPMATH[name](mp.mpf(-point))), abs(POLE_TERMS[name](mp.mpf(-point)))
        unit = np.spacing(dtype(max(terms)))
        assert abs(got - value) <= 4 * unit, (point, got, value)


# --- targets ----------------------------------------------------------------------------------

TARGETS = {
    "skylake-avx512": ("x86_64-unknown-linux-gnu", 16, True),
    "haswell": ("x86_64-unknown-linux-gnu", 8, True),
    "x86-64": ("x86_64-unknown-linux-gnu", 4, False),
    "generic": ("aarch64-unknown-linux-gnu", 4, True),
}


def assembly(name: str, dtype: type, cpu: str) -> str:
    initialized()
    triple, width, has_fma = TARGETS[cpu]
    try:
        target = llvm.Target.from_triple(triple)
    except RuntimeError:
        pytest.skip(f"this LLVM has no back end for {triple}")
    module = build(name, dtype, width, has_fma)
    module.triple = triple
    machine = target.create_target_machine(cpu=cpu, opt=2)
    return machine.emit_assembly(llvm.parse_assembly(str(module)))


def called(text: str) -> set[str]:
    """Return the names called, from lines like `callq expf@PLT` or `bl fma`."""
    words = (line.split() for line in text.splitlines())
    calls = {w[1] for w in words if len(w) > 1 and w[0] in ("callq", "call", "bl", "jmp", "b")}
    return {c.removesuffix("@PLT").strip('"') for c in calls if not c.startswith((".L", "*"))}


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("cpu", TARGETS)
def test_every_function_compiles_without_library_calls(cpu: str, kind: str) -> None:
    for name in sorted(vmath.NAMES):
        foreign = {c for c in called(assembly(name, DTYPES[kind], cpu)) if "wengert." not in c}
        assert not foreign, f"{name} on {cpu} calls {foreign}"


def test_the_loop_language_reaches_every_function() -> None:
    names = {scalars._VMATH_NAMES.get(name, name) for name in FUNCTIONS}
    assert names >= vmath.NAMES


# --- errors -----------------------------------------------------------------------------------


def test_errors_say_what_was_expected() -> None:
    builder = ir.IRBuilder()
    one, two = ir.Constant(ir.FloatType(), 1.0), ir.Constant(ir.DoubleType(), 2.0)
    with pytest.raises(ValueError, match=r"no function 'asin'.*Use NumPy's name"):
        vmath.emit(builder, "asin", one)
    with pytest.raises(TypeError, match=r"power got arguments \(float, double\), expected 2"):
        vmath.emit(builder, "power", one, two)
    with pytest.raises(TypeError, match=r"exp got lanes of i32, expected float or double"):
        vmath.emit(builder, "exp", ir.Constant(ir.IntType(32), 1))
