"""`wengert.scipy.ndimage` beside SciPy: values, derivatives, batches, compiled."""

import numpy as np
import pytest
import scipy.ndimage

import wengert as wg
from wengert.scipy import ndimage

RNG = np.random.default_rng(11)
X, XX, CUBE = RNG.normal(size=7), RNG.normal(size=(4, 5)), RNG.normal(size=(3, 4, 2))
FILTER_MODES = ["reflect", "mirror", "nearest", "wrap", "constant", "grid-mirror", "grid-wrap"]
MODES = [*FILTER_MODES, "grid-constant"]


def same_as_scipy(name, args, options, grads=1, jit=True):
    function = lambda *xs: getattr(ndimage, name)(*xs, **options)
    expected = getattr(scipy.ndimage, name)(*args, **options)
    found = function(*args)
    assert np.asarray(found).dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    arrays = [np.asarray(arg, float) for arg in args if np.ndim(arg)]
    rest = args[len(arrays) :]
    closed = lambda *xs: function(*xs, *rest)
    if jit:
        np.testing.assert_allclose(wg.jit(closed)(*arrays), expected, rtol=1e-12, atol=1e-12)
    if grads:
        wg.check_grads(closed, arrays, order=grads)


@pytest.mark.parametrize("mode", FILTER_MODES)
@pytest.mark.parametrize("name", ["correlate", "convolve"])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
def test_filters_along_one_axis(mode, name, size):
    weights = RNG.normal(size=size)
    options = {"mode": mode, "cval": 0.7}
    same_as_scipy(name, (X, weights), options, grads=0, jit=False)
    same_as_scipy(name + "1d", (XX, weights), {**options, "axis": 0}, grads=0, jit=False)
    if size == 4:
        same_as_scipy(name, (X, weights), {**options, "origin": 1}, grads=2)
        same_as_scipy(name + "1d", (XX, weights), {**options, "origin": -2})


@pytest.mark.parametrize("mode", FILTER_MODES)
@pytest.mark.parametrize("name", ["correlate", "convolve"])
def test_filters_along_several_axes(mode, name):
    same_as_scipy(name, (XX, RNG.normal(size=(3, 2))), {"mode": mode, "origin": (1, 0)})
    same_as_scipy(name, (CUBE, RNG.normal(size=(2, 3, 3))), {"mode": mode, "cval": 2.0})


@pytest.mark.parametrize("mode", FILTER_MODES)
def test_smoothing(mode):
    same_as_scipy("gaussian_filter", (XX, 1.1), {"mode": mode, "cval": 0.3}, grads=2)
    same_as_scipy("uniform_filter", (XX, 3), {"mode": mode}, grads=2)


def test_options_of_smoothing():
    options = {"sigma": (0.6, 1.4), "order": (0, 2), "mode": ["wrap", "nearest"], "radius": (1, 3)}
    same_as_scipy("gaussian_filter", (XX,), options)
    same_as_scipy("gaussian_filter", (CUBE,), {"sigma": 1.0, "axes": (0, 2), "truncate": 2.0})
    for order in range(4):
        same_as_scipy("gaussian_filter1d", (X, 0.8), {"order": order})
    same_as_scipy("uniform_filter", (XX,), {"size": (2, 3), "origin": (-1, 1), "mode": "mirror"})
    same_as_scipy("uniform_filter", (CUBE,), {"size": 2, "axes": 1})
    same_as_scipy("uniform_filter1d", (X, 4), {"axis": 0, "origin": 1})


def test_the_width_of_a_gaussian_has_a_derivative():
    smooth = lambda sigma: ndimage.gaussian_filter(XX, sigma, radius=3)
    wg.check_grads(smooth, (0.9,), order=2)
    np.testing.assert_allclose(wg.jit(smooth)(0.9), smooth(0.9), rtol=1e-12)
    with pytest.raises(ValueError, match=r"how far the weights reach is not known .* Give radius="):
        wg.jit(lambda sigma: ndimage.gaussian_filter(XX, sigma))(0.9)


def test_dtypes_are_those_of_the_image():
    whole = np.array([[1, 200, 30], [4, 5, 6]], np.int32)
    same_as_scipy("uniform_filter", (whole, 3), {}, grads=0, jit=False)
    same_as_scipy("correlate", (whole, np.array([[0.4, 1.0]])), {}, grads=0, jit=False)
    same_as_scipy("zoom", (whole, 2), {"order": 1}, grads=0, jit=False)
    narrow = XX.astype(np.float32)
    assert ndimage.gaussian_filter(narrow, 1.0).dtype == np.float32
    assert ndimage.map_coordinates(narrow, np.ones((2, 3))).dtype == np.float32
    wave = XX + 1j * XX.T[:4, :1]
    expected = scipy.ndimage.gaussian_filter(wave, 1.0)
    np.testing.assert_allclose(ndimage.gaussian_filter(wave, 1.0), expected, rtol=1e-12)


# ---------------------------------------------------------------- interpolation

# SciPy's coefficients of short arrays with mode "reflect" are off in the seventh digit: the sum
# that starts its recursion reads an element that it has changed. Longer arrays do not show it.
LONG = RNG.normal(size=(26, 29))
INSIDE = RNG.integers(0, 3, size=(2, 6)) + RNG.uniform(0.2, 0.8, size=(2, 6))
ANYWHERE = RNG.uniform(-9.0, 12.0, size=(2, 40))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", range(6))
def test_map_coordinates(mode, order):
    options = {"order": order, "mode": mode, "cval": 0.4}
    image = LONG if mode in ("reflect", "grid-mirror") else XX
    # with mode "nearest" SciPy is off by 1e-5 farther outside than 12 elements
    places = ANYWHERE if mode == "nearest" else 4 * ANYWHERE
    jit = order == (3 if mode == "constant" else 1)
    same_as_scipy("map_coordinates", (image, places), options, grads=0, jit=jit)
    same_as_scipy("map_coordinates", (image, INSIDE), options, grads=0, jit=False)
    exact = np.stack([np.arange(-9.0, 15.0), np.arange(-8.0, 16.0)])
    same_as_scipy("map_coordinates", (image, exact), options, grads=0, jit=False)
    if order in (1, 3):
        function = lambda x, at: ndimage.map_coordinates(x, at, **options)
        wg.check_grads(function, (XX, INSIDE), order=1)


@pytest.mark.parametrize("order", range(6))
@pytest.mark.parametrize("mode", ["reflect", "mirror", "grid-wrap"])
def test_splines_go_through_the_elements_of_short_arrays(order, mode):
    grid = np.indices(XX.shape)
    found = ndimage.map_coordinates(XX, grid, order=order, mode=mode)
    np.testing.assert_allclose(found, XX, rtol=1e-12, atol=1e-13)


def test_second_derivatives_by_the_places():
    wg.check_grads(ndimage.map_coordinates, (XX[:3, :3], INSIDE[:, :2] / 2), order=2)


def test_a_plain_image_at_traced_places():
    inside = wg.jit(lambda at: ndimage.map_coordinates(XX, at))
    np.testing.assert_allclose(inside(INSIDE), ndimage.map_coordinates(XX, INSIDE), rtol=1e-12)


def test_batches():
    images = np.stack([XX, 2 * XX])
    places = np.stack([INSIDE, INSIDE + 0.05])
    many = wg.vmap(lambda x, at: ndimage.map_coordinates(x, at, order=3))(images, places)
    expected = scipy.ndimage.map_coordinates(2 * XX, INSIDE + 0.05)
    np.testing.assert_allclose(many[1], expected, rtol=1e-12)
    smooth = wg.vmap(lambda x: ndimage.gaussian_filter(x, 1.0))(images)
    np.testing.assert_allclose(smooth[1], scipy.ndimage.gaussian_filter(2 * XX, 1.0), rtol=1e-12)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", [0, 1, 3])
def test_moved_and_zoomed(mode, order):
    options = {"order": order, "mode": mode}
    image = LONG if mode in ("reflect", "grid-mirror") else XX
    grads = 1 if order == 3 and image is XX else 0
    same_as_scipy("shift", (image, 0.4), options, grads=grads, jit=False)
    same_as_scipy("shift", (image,), {"shift": (1.3, -0.7), **options}, grads=0, jit=False)
    same_as_scipy("zoom", (image, 1.7), options, grads=grads, jit=False)
    same_as_scipy("zoom", (image,), {"zoom": (0.6, 2.3), **options}, grads=0, jit=False)
    matrix, offset = np.array([[0.9, 0.2], [-0.1, 1.1]]), np.array([0.33, 0.14])
    more = {"offset": offset, "output_shape": (3, 6), **options}
    same_as_scipy("affine_transform", (image, matrix), more, grads=0, jit=False)
    same_as_scipy("affine_transform", (image, np.array([0.5, 0.8])), options, grads=0, jit=False)


def test_zoom_of_the_grid_and_other_options():
    options = {"zoom": 2, "grid_mode": True, "mode": "grid-constant", "order": 1}
    same_as_scipy("zoom", (XX,), options, grads=0)
    options = {"order": 3, "prefilter": False, "mode": "mirror"}
    same_as_scipy("map_coordinates", (XX, INSIDE), options)
    for order in (2, 3, 4, 5):
        for mode in ("mirror", "reflect", "grid-wrap"):
            image = LONG if mode == "reflect" else XX
            same_as_scipy("spline_filter", (image,), {"order": order, "mode": mode}, grads=0)
    wg.check_grads(ndimage.spline_filter, (XX,), order=2)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: ndimage.correlate(X, XX), "got an image of 1 axes and weights of 2"),
        (lambda: ndimage.correlate(X, X, mode="edge"), "got mode='edge'"),
        (lambda: ndimage.correlate(X, [1.0, 2.0], origin=3), "got origin=3 for 2 weights"),
        (lambda: ndimage.gaussian_filter(XX, (1.0, 2.0, 3.0)), "got 3 of sigma for 2 axes"),
        (lambda: ndimage.map_coordinates(XX, INSIDE[:1]), r"coordinates of shape \(1, 6\)"),
        (lambda: ndimage.map_coordinates(XX, INSIDE, order=7), "got order=7. Use 0 to 5."),
        (lambda: ndimage.affine_transform(XX, np.eye(3)), r"got a matrix of shape \(3, 3\)"),
        (lambda: ndimage.uniform_filter(XX, 0), "got size=0"),
    ],
)
def test_errors(call, text):
    with pytest.raises(ValueError, match=text):
        call()


def test_names_are_scipys():
    assert [name for name in ndimage.__all__ if not hasattr(scipy.ndimage, name)] == []
