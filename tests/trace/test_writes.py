"""In-place writes inside differentiated functions: NumPy's aliasing, and right derivatives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wengert.numpy as wnp
from wengert.errors import (
    AbstractValueError,
    ConversionError,
    DTypeError,
    MutationError,
    OutOfRangeError,
    ShapeError,
)
from wengert.transforms.batching import vmap
from wengert.transforms.check import check_grads
from wengert.transforms.forward import jvp
from wengert.transforms.reverse import grad, value_and_grad, vjp

VECTOR = np.array([0.5, -1.2, 2.0, 0.7])
MATRIX = np.array([[0.5, -1.2, 2.0], [0.7, 1.1, -0.4]])


def agree(program, *args, order=2):
    """The program gives what NumPy gives, traced too, and its derivatives are right."""
    expected = program(np, *args)
    value, _ = vjp(lambda *xs: program(wnp, *xs), *args)
    np.testing.assert_allclose(value, expected, rtol=1e-14, atol=1e-14)
    assert value.dtype == expected.dtype
    check_grads(lambda *xs: program(wnp, *xs), args, order=order)


# ---------------------------------------------------------------- single programs


def element(xp, x):
    y = x * 1.0
    y[1] = x[0] * x[2]
    y[-1] *= y[1]
    return y


def whole_array(xp, x):
    y = x.copy()
    y[...] = x * x
    y += x
    y *= y
    y -= 1
    y /= x + 3
    return y


def mask(xp, x):
    y = x.copy()
    y[x > 0] *= 2
    y[y < 0] = x[0] * x[1]
    y[y > 1.2] = y[y > 1.2] ** 2
    return y


def overlapping(xp, x):
    y = x.copy()
    y[1:] += y[:-1]
    y[:-1] *= y[1:]
    y[::-1] -= 2 * y
    return y


def swap(xp, x):
    y = x.copy()
    y[[0, 1]] = y[[1, 0]] * x[3]
    y[0], y[3] = y[3], y[0]
    return y


def repeated_places(xp, x):
    y = x.copy()
    y[[1, 1, 2]] = xp.stack([x[0] * x[1], x[2] ** 2, x[3]])
    y[[0, 0]] += x[:2]  # as in NumPy only the last addition remains
    return y


def loop(xp, x):
    y = xp.zeros(6)
    y[0], y[1] = x[0], x[1]
    for i in range(2, 6):
        y[i] = y[i - 1] * x[i % 4] + y[i - 2]
    return y


def fill(xp, x):
    y = xp.empty(4)
    y.fill(x[1])
    y[2:].fill(x[0] * x[3])
    return y * x


def sort_in_place(xp, x):
    y = x * 2
    y.sort()
    y[:2] = y[:2] * y[2:]
    return y


def copy_into(xp, x):
    y = xp.zeros(4)
    xp.copyto(y, x * x)
    xp.copyto(y[::2], x[:2], where=np.array([True, False]))
    return y


def out_argument(xp, x):
    y = xp.zeros(4)
    np.multiply(x, x, out=y)
    np.add(y[1:], x[:-1], out=y[1:])
    return y


def scatter_methods(xp, x):
    y = x.copy()
    places = np.array([0, 2, 2, 3])
    np.add.at(y, places, x * x)
    np.subtract.at(y, ([1, 1],), x[0])
    np.multiply.at(y, places, x + 1)
    np.maximum.at(y, places, 1.7 * x)
    np.minimum.at(y, slice(0, 2), x[2] - 1)
    return y


def numbers_do_not_alias(xp, x):
    y = x.copy()
    first = y[0]
    y[0] = 5.0
    first += y[1]
    return y * first


def zero_d_arrays_do(xp, x):
    y = x.copy()
    first = y[0, ...]
    y[0] = x[2] * x[3]
    first *= y[1]
    z = xp.zeros(())
    other = z
    z += x[0] ** 2
    return y * other


def loop_over_rows(xp, x):
    y = xp.zeros((4, 2))
    for row, v in zip(y, x, strict=True):
        row[0] = v
        row[1:] = v * v
    return y


VECTOR_PROGRAMS = [
    element, whole_array, mask, overlapping, swap, repeated_places, loop, fill, sort_in_place,
    copy_into, out_argument, scatter_methods, numbers_do_not_alias, zero_d_arrays_do,
    loop_over_rows,
]  # fmt: skip


@pytest.mark.parametrize("program", VECTOR_PROGRAMS, ids=lambda f: f.__name__)
def test_vector_programs(program):
    agree(program, VECTOR)


def through_views(xp, x):
    y = x.copy()
    y.T[1] = x[:, 0] * 2
    y[::-1, 1:][0] += x[0, :2]
    y.reshape(6)[::2] *= x[1, 2]
    y.ravel()[1] = x[1, 1] ** 2
    y[None, :, None][0, 0, 0] *= 3
    return y


def views_see_the_base(xp, x):
    y = x.copy()
    rows, flat, turned, wide = y[1], y.ravel(), y.T, y[:, None]
    y[1] = x[0] * x[1]
    flat[0] = x[1, 2] ** 2
    turned[2, 1] += flat[0]
    wide[0, 0, 1] = rows[0] * turned[0, 0]
    return xp.concatenate([rows, flat, turned.ravel(), wide.ravel(), y.ravel()])


def split_pieces(xp, x):
    y = x.copy()
    left, right = xp.split(y, [1], axis=1)
    left *= x[1, 1]
    right[0] = left[1] + x[1, 1:]
    a, b = xp.array_split(y, 2)
    a += b
    return y


def reshape_of_a_transpose_copies(xp, x):
    y = x.copy()
    flat = y.T.reshape(6)
    flat[0] = 100.0
    y[0, 0] = x[1, 1] * x[0, 1]
    return xp.concatenate([flat, y.ravel()])


def fancy_indexing_copies(xp, x):
    y = x.copy()
    picked = y[[0, 1]]
    picked[0] = 7.0
    chosen = y[y > 0]
    chosen *= 3
    y[0] *= x[1]
    return xp.concatenate([picked.ravel(), chosen, y.ravel()])


def squeezed_and_expanded(xp, x):
    y = x.copy()
    xp.expand_dims(y, 1)[0, 0] = x[1] ** 2
    xp.squeeze(y[:, 1:2])[...] = x[:, 0] * x[0, 2]
    xp.swapaxes(y, 0, 1)[2] += 1
    xp.moveaxis(y[None], 0, 2)[1, 0, 0] = x[0, 0]
    xp.flip(y)[0] -= x[0]
    xp.rot90(y)[0, 0] *= 2
    return y


def mixed_keys(xp, x):
    y = x.copy()
    y[1, [0, 2]] = x[0, 1:] * x[1, 0]
    y[:, [1, 0]] *= x[:, :2]
    y[np.array([True, False]), 1:] -= x[1, 1]
    y[..., -1] = y[..., 0] * y[..., 1]
    y[[[0], [1]], [0, 2]] += 1.0
    return y


def copies_are_apart(xp, x):
    y = x.copy()
    z = y.copy()
    z[0] *= 3
    w = xp.array(y)
    w += x
    y[1] = x[0] * z[0]
    return xp.concatenate([y, z, w, y.flatten()[None, :3]])


MATRIX_PROGRAMS = [
    through_views, views_see_the_base, split_pieces, reshape_of_a_transpose_copies,
    fancy_indexing_copies, squeezed_and_expanded, mixed_keys, copies_are_apart,
]  # fmt: skip


@pytest.mark.parametrize("program", MATRIX_PROGRAMS, ids=lambda f: f.__name__)
def test_matrix_programs(program):
    agree(program, MATRIX)


@pytest.mark.parametrize("program", VECTOR_PROGRAMS + MATRIX_PROGRAMS, ids=lambda f: f.__name__)
def test_forward_over_reverse_and_third_order(program):
    x = VECTOR if program in VECTOR_PROGRAMS else MATRIX

    def scalar(x):
        return wnp.sum(wnp.sin(program(wnp, x)))

    def slope(x):
        return wnp.sum(grad(scalar)(x) * wnp.cos(x))

    direction = np.cos(np.arange(x.size)).reshape(x.shape)
    forward = jvp(slope, (x,), (direction,))[1]
    reverse = wnp.sum(grad(slope)(x) * direction)
    np.testing.assert_allclose(forward, reverse, rtol=1e-9)
    third = value_and_grad(lambda x: wnp.sum(grad(slope)(x) * direction))(x)
    np.testing.assert_allclose(third[0], reverse, rtol=1e-9)
    h = 1e-5
    step = [wnp.sum(grad(slope)(x + s * h * direction) * direction) for s in (1, -1)]
    np.testing.assert_allclose(
        np.sum(third[1] * direction), (step[0] - step[1]) / (2 * h), rtol=1e-4, atol=1e-5
    )


# how many elements a mask takes depends on the sample
VALUE_DEPENDENT = {fancy_indexing_copies}


@pytest.mark.parametrize("program", VECTOR_PROGRAMS + MATRIX_PROGRAMS, ids=lambda f: f.__name__)
def test_inside_vmap(program):
    x = VECTOR if program in VECTOR_PROGRAMS else MATRIX
    batch = np.stack([x, x[::-1] + 0.1, x * x])
    if program in VALUE_DEPENDENT:
        with pytest.raises(AbstractValueError, match="the number of elements a boolean mask sel"):
            vmap(lambda x: program(wnp, x))(batch)
        return
    got = vmap(lambda x: program(wnp, x))(batch)
    np.testing.assert_allclose(got, np.stack([program(np, x) for x in batch]), rtol=1e-13)
    slopes = vmap(grad(lambda x: wnp.sum(wnp.sin(program(wnp, x)))))(batch)
    single = [grad(lambda x: wnp.sum(wnp.sin(program(wnp, x))))(x) for x in batch]
    np.testing.assert_allclose(slopes, np.stack(single), rtol=1e-12, atol=1e-13)


def test_mask_with_a_number_inside_vmap():
    def clipped(x):
        y = x.copy()
        y[x > 1] = x[0] ** 2
        return y

    batch = np.array([[0.5, 2.0], [1.5, 0.2]])
    np.testing.assert_array_equal(vmap(clipped)(batch), [[0.5, 0.25], [2.25, 0.2]])
    jacobians = vmap(lambda x: grad(lambda x: wnp.sum(clipped(x)))(x))(batch)
    np.testing.assert_array_equal(jacobians, [[2.0, 0.0], [3.0, 1.0]])


def test_a_traced_integer_names_a_view():
    def f(x):
        y = x.copy()
        row = y[wnp.argmax(x[:, 0])]
        row[0] = x[0, 0] * x[0, 1]
        y[wnp.argmin(x[:, 0]), 1:] *= 2.0
        return wnp.sum(y * y) + wnp.sum(row)

    check_grads(f, (MATRIX,))
    expected = MATRIX.copy()
    expected[1, 0] = MATRIX[0, 0] * MATRIX[0, 1]
    expected[0, 1:] *= 2
    np.testing.assert_allclose(f(MATRIX), np.sum(expected**2) + np.sum(expected[1]))


# ---------------------------------------------------------------- nested traces


def test_writes_of_constants_to_arrays_around_a_nested_function():
    def outer(x):
        counts = wnp.zeros(2)

        def inner(y):
            counts[0] = x[0]
            return wnp.sum(y**3)

        return wnp.sum(grad(inner)(x)) * counts[0]

    x = np.array([2.0, 3.0])
    np.testing.assert_allclose(outer(x), 3 * (4 + 9) * 2)
    check_grads(outer, (x,))


def test_a_captured_array_is_taken_as_it_was():
    def outer(x):
        z = x * 1.0
        _, pullback = vjp(lambda y: y * z, x)
        z[0] = 100.0
        return wnp.sum(pullback(wnp.ones(2))[0] ** 2)

    x = np.array([2.0, 3.0])
    value, gradient = value_and_grad(outer)(x)
    np.testing.assert_allclose(value, 13.0)
    np.testing.assert_allclose(gradient, 2 * x)


def test_an_argument_of_a_nested_function_is_taken_as_it_was():
    def outer(x):
        z = x * 1.0
        _, pullback = vjp(lambda y: y * y, z)
        z[0] = 100.0
        return wnp.sum(pullback(wnp.ones(2))[0])

    x = np.array([2.0, 3.0])
    np.testing.assert_allclose(grad(outer)(x), [2.0, 2.0])


# ---------------------------------------------------------------- casting


def test_assignment_casts_to_the_dtype_of_the_array():
    def f(x):
        y = wnp.zeros(3, wnp.float32)
        y[0] = x[0] * x[1]
        y[1:] = x
        assert y.dtype == np.float32
        return wnp.sum(y * y)

    x = np.array([1.5, 2.5])
    gradient = grad(f)(x)
    assert gradient.dtype == np.float64
    np.testing.assert_allclose(gradient, 2 * 1.5 * 2.5 * x[::-1] + 2 * x, rtol=1e-6)


def test_integer_arrays_cut_off_fractions():
    def f(x):
        y = wnp.zeros(2, int)
        y[0] = x[0]
        return wnp.sum(x * y)

    np.testing.assert_array_equal(grad(f)(np.array([2.7, 1.0])), [2.0, 0.0])


def raises(error, f, *args, match):
    with pytest.raises(error, match=match):
        grad(f)(*args)


def test_a_float_result_does_not_fit_into_an_integer_array():
    def f(x):
        y = wnp.zeros(4, int)
        y += x
        return wnp.sum(y)

    raises(DTypeError, f, VECTOR, match="the result is f64.4., the array it must fit into i64.4.")


def test_complex_values_do_not_fit_into_real_arrays():
    def f(x):
        y = wnp.zeros(4)
        y[0] = x[0] * 1j
        return wnp.sum(y)

    raises(DTypeError, f, VECTOR, match="the imaginary part would be lost")


# ---------------------------------------------------------------- refused


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.__setitem__(0, 1.0),
        lambda x: x.__iadd__(1.0),
        lambda x: x[1:].__setitem__(0, 1.0),
        lambda x: x.reshape(2, 2).T.__imul__(2.0),
        lambda x: x.fill(0.0),
        lambda x: x.sort(),
        lambda x: np.copyto(x, 0.0),
        lambda x: np.add.at(x, [0], 1.0),
        lambda x: np.put(x, [0], 1.0),
    ],
)
def test_writing_to_an_argument(change):
    original = VECTOR.copy()
    raises(
        MutationError,
        lambda x: (change(x), wnp.sum(x))[1],
        original,
        match=r"the array is an argument of the function being traced; the caller's own array "
        r"would change. Copy it first: x = x.copy\(\).",
    )
    np.testing.assert_array_equal(original, VECTOR)


def test_asarray_of_a_traced_constant_is_itself():
    def f(x):
        made = wnp.ones(4)
        np.asarray(made)[0] = 5.0
        return wnp.sum(x * made)

    np.testing.assert_array_equal(grad(f)(VECTOR), [5.0, 1.0, 1.0, 1.0])  # as np.ones has it


def test_writing_to_an_array_from_outside():
    def outer(x):
        kept = wnp.zeros(4)

        def inner(y):
            kept[0] = y[0]
            return wnp.sum(y)

        return wnp.sum(grad(inner)(x))

    raises(
        MutationError,
        outer,
        VECTOR,
        match="the array was made outside the function being traced, the value inside. "
        "Make the array inside the function, or return the value.",
    )


def test_writing_to_a_plain_array():
    plain = np.zeros(4)

    def f(x):
        plain[0] = x[0]
        return wnp.sum(x)

    # NumPy answers with its own error, and gives ours as the cause
    with pytest.raises(ValueError, match="setting an array element") as caught:
        grad(f)(VECTOR)
    assert isinstance(caught.value.__cause__, ConversionError)
    assert "arrays that are made in the function, with np.zeros" in str(caught.value.__cause__)

    def g(x):
        plain[1:] = x[1:]
        return wnp.sum(x)

    raises(ConversionError, g, VECTOR, match="made in the function, with np.zeros")


@pytest.mark.parametrize(
    "view",
    [
        lambda y: wnp.broadcast_to(y, (2, 4)),
        lambda y: wnp.broadcast_to(y, (2, 4))[0],
        lambda y: wnp.broadcast_arrays(y, np.zeros((2, 1)))[0],
        lambda y: wnp.diagonal(y.reshape(2, 2)),
    ],
)
def test_read_only_views(view):
    def f(x):
        view(x * 2)[0] = 1.0
        return wnp.sum(x)

    raises(MutationError, f, VECTOR, match="the array is a read-only view")


def test_read_only_views_see_their_base():
    def program(xp, x):
        y = x * 1
        wide = xp.broadcast_to(y, (2, 4))
        across = xp.diagonal(y.reshape(2, 2))
        y[0] = x[1] * x[2]
        return xp.concatenate([wide.ravel(), across])

    agree(program, VECTOR)


def test_in_place_results_must_keep_the_shape():
    def f(x):
        y = x.copy()
        y += wnp.ones((2, 4))
        return wnp.sum(y)

    raises(ShapeError, f, VECTOR, match="Write x = x . y instead of x .= y")


def test_matrix_product_in_place():
    def program(xp, x):
        y = x.copy()
        view = y[:]
        y @= x.T
        return view * x

    agree(program, np.array([[0.5, 1.2], [-0.3, 0.8]]))


def test_values_must_fit_their_place():
    def f(x):
        y = x.copy()
        y[:2] = x[:3]
        return wnp.sum(y)

    raises(ShapeError, f, VECTOR, match=r"cannot put an array of shape \(3,\) into a place of sh")


def test_indices_out_of_range():
    def f(x):
        y = x.copy()
        y[4] = 1.0
        return wnp.sum(y)

    def g(x):
        y = x.copy()
        y[[0, -5]] = 1.0
        return wnp.sum(y)

    raises(OutOfRangeError, f, VECTOR, match="got the index 4 for axis 0 of length 4")
    raises(OutOfRangeError, g, VECTOR, match="got the index -5 for an axis of length 4")
    with pytest.raises(IndexError):
        grad(f)(VECTOR)


def test_masks_must_have_the_shape_of_their_axes():
    raises(
        OutOfRangeError,
        lambda x: wnp.sum(x[np.array([True, False])]),
        VECTOR,
        match=r"got a mask of shape \(2,\) for an array of shape \(4,\)",
    )


def test_numbers_cannot_be_written_to():
    def f(x):
        s = wnp.sum(x)
        s[...] = 1.0
        return s

    with pytest.raises(TypeError, match="a scalar does not support item assignment"):
        grad(f)(VECTOR)


# ---------------------------------------------------------------- random programs

SHAPE = (4, 3)
SLICES = [slice(None), slice(1, None), slice(None, None, -1), slice(None, -1), slice(2, 0, -1)]
SHAPES = [(12,), (3, 4), (2, 6), (2, 2, 3), (4, 3)]


def contiguous(a):
    """Computed arrays count as contiguous here; NumPy's keep the order of their operands."""
    return np.ascontiguousarray(a) if type(a) is np.ndarray and a.ndim else a


def view_of(xp, a, kind, p):
    if kind == 0:
        return a[SLICES[p % 5]]
    if kind == 1:
        return a[..., SLICES[p % 5]]
    if kind == 2:
        return a.T
    if kind == 3:
        fitting = [s for s in SHAPES if np.prod(s) == a.size] or [(-1,)]
        return a.reshape(fitting[p % len(fitting)])
    if kind == 4:
        return a[p % a.shape[0]]
    if kind == 5:
        return xp.ravel(a)
    if kind == 6:
        return a[:, None] if p % 2 else xp.squeeze(a)
    if kind == 7:
        return a[..., p % a.shape[-1]]
    return xp.split(a, [1])[p % 2]


def write_to(xp, a, other, kind, p):
    value = xp.sin(xp.sum(other))  # bounded, so that long programs stay finite
    line = xp.resize(other, a.shape[-1:]) * 0.5
    if kind == 0:
        a[p % a.shape[0]] = value
    elif kind == 1:
        a[...] = line
    elif kind == 2:
        a *= 0.7
        a += line
    elif kind == 3:
        a[SLICES[p % 5]] *= value
    elif kind == 4:
        a[[p % a.shape[0], 0]] = a[[0, p % a.shape[0]]]
    elif kind == 5:
        a[np.arange(a.shape[0]) % 2 == p % 2] = line if a.ndim > 1 else value
    elif kind == 6:
        a[..., SLICES[p % 5]] -= value
    elif kind == 7:
        a[..., 1:] -= 0.5 * a[..., :-1]
    else:
        np.add.at(a, [0, 0], line if a.ndim > 1 else value)


def run(xp, code, x):
    arrays = [x.copy()]
    for step, i, j, kind, p in code:
        a, other = arrays[i % len(arrays)], arrays[j % len(arrays)]
        if a.ndim == 0 or a.size == 0:
            continue
        if step == "view":
            arrays.append(view_of(xp, a, kind, p))
        elif step == "compute":
            arrays.append(contiguous(xp.sin(a) + 0.5 * a))
        elif step == "copy":
            arrays.append(a.copy() if p % 2 else contiguous(a[[0, -1]]))
        else:
            write_to(xp, a, other, kind, p)
    return xp.concatenate([xp.ravel(xp.sin(a)) for a in arrays])


PROGRAMS = st.lists(
    st.tuples(
        st.sampled_from(["view", "view", "compute", "copy", "write", "write", "write"]),
        st.integers(0, 20),
        st.integers(0, 20),
        st.integers(0, 8),
        st.integers(0, 9),
    ),
    min_size=4,
    max_size=16,
)


@settings(max_examples=150, deadline=None)
@given(PROGRAMS)
def test_random_programs(code):
    x = np.cos(np.arange(12.0)).reshape(SHAPE)
    expected = run(np, code, x)
    value, pullback = vjp(lambda x: run(wnp, code, x), x)
    np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-12)
    direction = np.sin(np.arange(12.0) ** 2).reshape(SHAPE)
    # the programs are analytic: NumPy's own derivative along the imaginary axis is exact
    derivative = run(np, code, x + 1e-30j * direction).imag / 1e-30
    _, tangent = jvp(lambda x: run(wnp, code, x), (x,), (direction,))
    scale = max(1.0, np.abs(derivative).max())
    np.testing.assert_allclose(tangent / scale, derivative / scale, atol=1e-10)
    seed = np.cos(np.arange(len(value)))
    np.testing.assert_allclose(
        np.sum(pullback(seed)[0] * direction), np.sum(seed * tangent), rtol=1e-9, atol=1e-9 * scale
    )


@settings(max_examples=25, deadline=None)
@given(PROGRAMS)
def test_random_programs_nested_and_batched(code):
    x = np.cos(np.arange(12.0)).reshape(SHAPE)

    def scalar(x):
        return wnp.mean(run(wnp, code, x))

    def slope(x):
        return wnp.sum(grad(scalar)(x) * wnp.sin(x))

    direction = np.sin(np.arange(12.0) ** 2).reshape(SHAPE)
    second = grad(slope)(x)
    np.testing.assert_allclose(
        np.sum(second * direction), jvp(slope, (x,), (direction,))[1], rtol=1e-9, atol=1e-9
    )
    batch = np.stack([x, 0.5 * x])
    got = vmap(lambda x: run(wnp, code, x))(batch)
    expected = np.stack([run(np, code, x) for x in batch])
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)
    slopes = vmap(grad(scalar))(batch)
    np.testing.assert_allclose(slopes, np.stack([grad(scalar)(x) for x in batch]), atol=1e-12)
