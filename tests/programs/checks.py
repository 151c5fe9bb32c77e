"""What must hold for a random program: every way to run or differentiate it agrees.

The value is what NumPy gives. Derivatives agree with finite differences in double precision, taken
at two widths; where these two do not agree with each other, rounding or a kink spoils them, and
they decide nothing. Compiled results agree with evaluated ones, and are the same bits on one
thread and on two. Where derivatives in single precision do not, the same in double precision tells
how far rounding alone takes the evaluated ones from the truth.
"""

import numpy as np

import wengert as wg
import wengert.numpy as wnp
from wengert.tree import leaves

DOUBLE, SINGLE = 1e-9, 3e-4
WIDTH = 1e-5  # of the steps of finite differences


class UndecidedError(Exception):
    """Finite differences are too rough here to say anything."""


def check(program, chance):
    """Check a program in every mode; `chance` (of `random`) chooses among the costly ones."""
    try:
        with np.errstate(all="ignore"):
            check_values(program)
            check_derivatives(program)
            check_compiled_gradient(program)
            chance.choice([check_batched, check_compiled_batched, check_compiled_curvature])(
                program
            )
    except BaseException as error:
        error.add_note(f"the program was:\n{program}")
        raise


def outputs(result):
    return list(result) if isinstance(result, list) else [result]


def weighted(function):
    """A scalar function of the list of inputs: all outputs, each element with its own weight."""

    def loss(inputs):
        total = 0.0
        for result in outputs(function(*inputs)):
            size = int(np.prod(np.shape(result)))
            weights = np.cos(np.arange(float(size))).reshape(np.shape(result))
            total = total + wnp.sum(wnp.asarray(result) * weights)
        return total

    return loss


def assert_close(got, want, single, what):
    # of a number that only some turns of a loop make one of NumPy's, values decide the dtype
    is_open = type(want) is float and np.asarray(got).dtype.kind == "f"
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}"
    assert is_open or got.dtype == want.dtype, f"{what}: dtype {got.dtype}, expected {want.dtype}"
    scale = np.max(np.abs(want), initial=1.0)
    np.testing.assert_allclose(
        got, want, rtol=0, atol=(SINGLE if single else DOUBLE) * scale, err_msg=what
    )


def check_values(program):
    """Traced, compiled and plain: the same values, and arguments that nobody wrote to."""
    want = outputs(program.function(*program.inputs))
    _ = wg.jvp(program.function, tuple(program.inputs), tuple(program.inputs))
    traced, _ = wg.vjp(program.function, *program.inputs)
    compiled = wg.jit(program.function)
    given = [x.copy() for x in program.inputs]
    for turn in range(2):
        for got, expected in zip(outputs(compiled(*program.inputs)), want, strict=True):
            assert_close(got, expected, program.single, f"compiled value, call {turn}")
    for got, expected in zip(outputs(traced), want, strict=True):
        assert_close(got, expected, program.single, "traced value")
    for before, x in zip(given, program.inputs, strict=True):
        np.testing.assert_array_equal(x, before, err_msg="an argument was written to")
    check_modules(program, compiled)


def check_modules(program, compiled):
    """Arrays outside of the function are read once, while it is compiled, and then again."""
    scope = program.function.__globals__
    before = {name: scope[name].copy() for name in program.modules}
    want = outputs(program.function(*program.inputs))
    for name in program.modules:
        scope[name] *= 0.5
        for got, expected in zip(outputs(compiled(*program.inputs)), want, strict=True):
            assert_close(got, expected, program.single, f"{name} was changed after it was read")
    if before:
        want = outputs(program.function(*program.inputs))
        again = wg.jit(program.function)(*program.inputs)
        for got, expected in zip(outputs(again), want, strict=True):
            assert_close(got, expected, program.single, "compiled anew after a change")
    scope.update(before)


def moved(inputs, direction, by):
    return [x + by * v for x, v in zip(inputs, direction, strict=True)]


def inner(left, right):
    return sum(float(np.sum(a * b)) for a, b in zip(left, right, strict=True))


def scale_of(left, right):
    return 1.0 + sum(float(np.sum(np.abs(a * b))) for a, b in zip(left, right, strict=True))


def slope(function, inputs, direction, width):
    ahead, behind = (function(moved(inputs, direction, by)) for by in (width, -width))
    return (ahead - behind) / (2 * width)


def assert_slope(got, function, inputs, direction, scale, what):
    """The derivative of a scalar function along a direction, by finite differences."""
    wide = slope(function, inputs, direction, WIDTH)
    narrow = slope(function, inputs, direction, WIDTH / 2)
    doubt = abs(wide - narrow)
    if doubt > 1e-4 * scale:
        raise UndecidedError
    limit = 1e-6 * scale + 10 * doubt
    assert abs(got - narrow) <= limit, f"{what}: {got}, by finite differences {narrow}"


def check_derivatives(program):
    """Gradient, tangent and curvature in double precision against finite differences."""
    inputs = program.double_inputs()
    loss = weighted(program.in_double)
    generator = np.random.default_rng(0)
    v, w = ([generator.uniform(-1, 1, x.shape) for x in inputs] for _ in range(2))
    value, gradient = wg.value_and_grad(loss)(inputs)
    assert_close(value, np.float64(loss(inputs)), False, "value beside the gradient")
    expected = inner(gradient, v)
    scale = scale_of(gradient, v)
    _, tangent = wg.jvp(loss, (inputs,), (v,))
    assert abs(tangent - expected) <= 1e-9 * scale, f"jvp {tangent}, gradient {expected}"
    assert_slope(expected, loss, inputs, v, scale, "gradient")
    curvature = wg.hvp(loss, inputs, v)
    along = lambda x: inner(wg.grad(loss)(x), w)
    assert_slope(inner(curvature, w), along, inputs, v, scale_of(curvature, w), "hvp")


def check_compiled_gradient(program):
    run = lambda function, inputs, way: way(wg.value_and_grad(weighted(function)))(inputs)
    found = [
        check_compiled(program, run, lambda f, n=threads: wg.jit(f, threads=n), "gradient")
        for threads in (1, 2)
    ]
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two, err_msg="one thread and two")


def evaluated(function):
    return function


def check_compiled(program, run, way, what):
    """`run(function, inputs, way)` of the program, compiled in a way, is as it is evaluated."""
    got, want = (leaves(run(program.function, program.inputs, w)) for w in (way, evaluated))
    try:
        for a, b in zip(got, want, strict=True):
            assert_close(a, b, program.single, f"compiled {what}")
    except AssertionError:
        if not program.single:
            raise
        check_rounding(program, run, way, what, got, want)
    return got


def check_rounding(program, run, way, what, got, want):
    """The compiled results are as near to those in double precision as the evaluated ones."""
    inputs = program.double_inputs()
    compiled, exact = (leaves(run(program.in_double, inputs, w)) for w in (way, evaluated))
    for a, b, double, truth in zip(got, want, compiled, exact, strict=True):
        assert_close(double, truth, False, f"compiled {what} in double precision")
        scale, own = np.max(np.abs(truth), initial=1.0), np.max(np.abs(b - truth), initial=0.0)
        error = np.max(np.abs(a - truth), initial=0.0)
        assert error <= 3 * own + SINGLE * scale, (
            f"compiled {what}: off by {error}, evaluated {own}"
        )


def check_mapped(program, way, what):
    """All samples at once, in a way, are as one after the other."""

    def run(function, inputs, way):
        inputs = [np.stack([x, 0.9 * x, x + 0.05]).astype(x.dtype) for x in inputs]
        if way is not evaluated:
            return outputs(way(function)(*inputs))
        rows = [outputs(function(*[x[k] for x in inputs])) for k in range(3)]
        return [np.stack(parts) for parts in zip(*rows, strict=True)]

    check_compiled(program, run, way, what)


def check_batched(program):
    check_mapped(program, lambda f: wg.vmap(wg.jit(f) if program.decides else f), "vmap")


def check_compiled_batched(program):
    check_mapped(program, lambda f: wg.jit(wg.vmap(f)), "vmap")


def check_compiled_curvature(program):
    def run(function, inputs, way):
        curvature = lambda inputs, v: wg.hvp(weighted(function), inputs, v)
        return way(curvature)(inputs, [np.cos(x) for x in inputs])

    check_compiled(program, run, wg.jit, "hvp")
