"""dtypes and values as NumPy has them, in corners where another dtype or number is easily made."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
from wengert import nn
from wengert.errors import DTypeError, OptionError

INF, NAN = np.inf, np.nan
DTYPES = ["bool", "int8", "uint8", "int64", "uint64", "float32", "float64", "complex64"]


def compare(function, *args, **tolerance):
    """What the compiled and the recorded program give, against NumPy's own result."""
    with np.errstate(all="ignore"):
        expected = function(*args)
        traced = [wg.jit(function)(*args), wg.trace(function, *args)(*args)]
    for found in traced:
        pairs = zip(found, expected, strict=True) if type(found) is tuple else [(found, expected)]
        for got, wanted in pairs:
            got, wanted = np.asarray(got), np.asarray(wanted)
            assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
            np.testing.assert_allclose(got, wanted, **{"rtol": 1e-6, **tolerance})


# ---------------------------------------------------------------- dtypes

FUNCTIONS = {
    "tril": np.tril,
    "triu": lambda x: np.triu(x, 1),
    "not tril": lambda x: np.logical_not(np.tril(x)),
    "tril of a vector": lambda x: np.tril(x[0]),
    "sum from a fraction": lambda x: np.sum(x, initial=1.5),
    "prod from 2": lambda x: np.prod(x, initial=2),
    "max from 1": lambda x: np.max(x, initial=1),
    "min from 1, some": lambda x: np.min(x, axis=1, initial=1, where=x != 0),
    "choose": lambda x: np.choose([0, 1, 0], [x, 1]),
    "geomspace": lambda x: np.geomspace(1 + np.abs(x[0]), 2 + np.abs(x[1]), 3),
    "polyval at a number": lambda x: np.polyval(x[0], 2),
    "round": np.round,
    "angle": np.angle,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_dtypes(name):
    numbers = np.arange(9).reshape(3, 3) % 4
    each = lambda *arrays: tuple(FUNCTIONS[name](x) for x in arrays)
    compare(each, *[numbers.astype(dtype) for dtype in DTYPES], rtol=1e-5)


def test_a_mask_stays_a_mask():
    mask = wg.jit(lambda x: ~np.tril(x > 0))(np.ones((2, 2)))
    np.testing.assert_array_equal(mask, [[False, True], [False, False]])


@pytest.mark.parametrize("dtype", ["int8", "float32", "float64", "complex64"])
def test_diff_with_ends(dtype):
    x = np.array([1, 2, 4]).astype(dtype)
    for ends in ({"prepend": 0.5}, {"append": 1}, {"prepend": [0, 1], "append": x}):
        compare(lambda x, ends=ends: np.diff(x, **ends), x)
    compare(lambda x: np.diff(x, prepend=x[0]), x)


def test_ediff1d_takes_ends_of_its_kind():
    compare(lambda x: np.ediff1d(x, 1.5, [2, 3]), np.array([1, 2, 4], np.float32))
    with pytest.raises(DTypeError, match=r"ediff1d .*: got to_end of f64 for differences of i64"):
        wg.jit(lambda x: np.ediff1d(x, to_end=0.5))(np.arange(3))


def test_lists_of_numbers():
    f = lambda x: wnp.array([x[0], 0.5])
    assert wg.jit(f)(np.ones(2, np.float32)).dtype == f(np.ones(2, np.float32)).dtype == np.float64
    f = lambda x: wnp.array([x[0], x[1]])
    assert wg.jit(f)(np.ones(2, np.float32)).dtype == np.float32


def test_astype_without_a_copy():
    def f(x):
        y = x * 2
        assert y.astype(float, copy=False) is y
        assert np.astype(y, float, copy=False) is y
        assert y.astype(float) is not y
        assert y.astype(np.float32, copy=False) is not y
        z = y.astype(float, copy=False)
        z[0] = 0.0
        return np.sum(y)

    np.testing.assert_array_equal(wg.grad(f)(np.ones(3)), [0, 2, 2])
    np.testing.assert_array_equal(wg.jit(wg.grad(f))(np.ones(3)), [0, 2, 2])


def test_astype_knows_casting():
    with pytest.raises(DTypeError, match=r"cannot cast f64\[2\] to int64 under casting='safe'"):
        wg.jit(lambda x: x.astype(int, casting="safe"))(np.ones(2))
    assert wg.jit(lambda x: x.astype("f8", "C", "safe"))(np.ones(2, "f4")).dtype == np.float64


def test_no_negative_number_of_classes():
    with pytest.raises(OptionError, match=r"one_hot .*: got num_classes=-1. Give the number of"):
        nn.functional.one_hot(np.array([0, 1]), -1)
    assert nn.functional.one_hot(np.array([], int), 0).shape == (0, 0)


# ---------------------------------------------------------------- values

BINS = {"up": [1.0, 2.0, 4.0, 5.0], "down": [5.0, 4.0, 2.0, 1.0], "one": [2.0], "none": []}


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("bins", BINS)
def test_digitize(bins, right):
    x, edges = np.array([0.0, 1, 1.5, 2, 3, 4, 4.5, 5, 9, NAN]), np.array(BINS[bins])
    compare(lambda x: np.digitize(x, edges, right), x)
    compare(lambda x, edges: np.digitize(x, edges, right), x, edges)


def test_digitize_of_other_dtypes():
    compare(lambda x: np.digitize(x, np.array([3, 2, 1], np.uint8)), np.array([0.5, 1.5, 2.5, 9]))
    with pytest.raises(ValueError, match="the bins neither increase nor decrease"):
        wg.jit(lambda x: np.digitize(x, np.array([3, 4, 1], np.uint8)))(np.ones(2))
    with pytest.raises(DTypeError, match=r"digitize .*: got c128\[2\]"):
        wg.jit(lambda x: np.digitize(x, [1.0, 2.0]))(np.ones(2, complex))


X, XP = np.array([-1, 0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 5]), np.arange(5.0)


@pytest.mark.parametrize(
    "fp",
    [
        [0, INF, 2, 3, 4], [-INF, 0, 1, 2, INF], [INF, INF, 1, -INF, -INF], [0, NAN, 1, 2, 3],
        [INF, -INF, INF, 0, 0], [1, 1, 2, 2, 2],
    ],
)  # fmt: skip
def test_interp_beside_infinities(fp):
    fp = np.array(fp, float)
    compare(lambda x: np.interp(x, XP, fp), X)
    compare(lambda x, fp: np.interp(x, XP, fp), X, fp)
    compare(lambda x, fp: np.interp(x, np.array([-INF, 0, 1, 2, INF]), fp), X, fp)


def test_interp_keeps_its_slopes():
    slopes = wg.grad(lambda x: np.sum(np.interp(x, XP, XP**2)))(X)
    np.testing.assert_array_equal(slopes, [0, 1, 1, 3, 3, 5, 5, 7, 7, 7, 0])


@pytest.mark.parametrize(
    "stand_ins",
    [
        {}, {"nan": INF, "posinf": 5.0}, {"nan": -INF, "neginf": NAN}, {"posinf": -INF},
        {"posinf": INF, "neginf": -INF},
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_nan_to_num(stand_ins, dtype):
    x = np.array([NAN, INF, -INF, 1.0, -0.0]).astype(dtype)
    if dtype == "complex128":
        x.imag = x.real[::-1]
    compare(lambda x: np.nan_to_num(x, **stand_ins), x)


def test_round_of_infinite_parts():
    x = np.empty(3, complex)
    x.real, x.imag = [1.26, INF, NAN], [INF, 2.55, -INF]
    compare(lambda x: np.round(x, 1), x)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "options",
    [
        {}, {"ddof": 3}, {"ddof": 5}, {"bias": True}, {"dtype": np.float32},
        {"dtype": np.float32, "aweights": [1, 2, 3]}, {"fweights": [1, 0, 2], "ddof": 4},
        {"aweights": [0.1, 0.2, 0.3], "ddof": 2}, {"aweights": [0.1, 0.2, 0.3], "ddof": 9},
    ],
)  # fmt: skip
def test_cov(options):
    x = np.array([[1.0, 2.0, 4.0], [0.0, -1.0, 1.5]])
    compare(lambda x: np.cov(x, **options), x, rtol=1e-5)
    compare(lambda x: np.cov(x[0], **options), x, rtol=1e-5)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 2), (0, 0)])
def test_cov_of_nothing(shape):
    compare(np.cov, np.zeros(shape))
    with pytest.raises(ValueError, match="ddof must be an integer"):
        wg.jit(lambda x: np.cov(x, ddof=0.5))(np.ones((2, 2)))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("ddof", [0, 1, 1.5, 2, 3, 4])
def test_variances_with_too_few_elements(ddof):
    x = np.array([[NAN, 1, 2], [NAN, NAN, 1], [NAN, NAN, NAN], [1, 2, 4]])
    for function in (np.nanvar, np.nanstd, np.var, np.std):
        compare(lambda x, f=function: f(x, axis=1, ddof=ddof), x)
        compare(lambda x, f=function: f(x, axis=1, ddof=ddof), np.arange(6).reshape(2, 3))
        compare(lambda x, f=function: f(x, ddof=ddof, keepdims=True), x[3])


@pytest.mark.parametrize("traced", ["a", "b", "rtol", "atol"])
def test_isclose_with_any_argument_traced(traced):
    given = {"a": np.array([1.0, 1.01, INF, NAN, -INF]), "b": 1.0, "rtol": 0.0, "atol": 0.02}
    f = lambda x: np.isclose(**{**given, traced: x})
    compare(f, given[traced])
    assert wg.grad(lambda t: np.sum(np.isclose(1.0, 1.0, rtol=t) * t))(1e-3) == 1.0


def test_isclose_of_integers_and_infinite_tolerance():
    x = np.array([0, 1, 255], np.uint8)
    compare(lambda x: np.isclose(x, x[::-1], atol=250), x)
    compare(lambda x: np.isclose(x, np.int8(-128)), np.array([127, -128], np.int8))
    compare(lambda x: np.isclose(x, 1.0, atol=INF), np.array([1.0, INF, NAN]))


# ---------------------------------------------------------------- linear algebra

SINGULAR = np.array([[[0.0, 0], [0, 0]], [[2, 1], [1, 3]], [[1, 1], [1, 1]], [[NAN, 1], [1, 2]]])


@pytest.mark.parametrize("p", [None, 2, -2])
def test_cond_by_singular_values(p):
    compare(lambda x: np.linalg.cond(x, p), SINGULAR[:2])
    compare(lambda x: np.linalg.cond(x, p), SINGULAR[0])


@pytest.mark.parametrize("p", [1, -1, INF, -INF, "fro"])
def test_cond_by_the_inverse(p):
    compare(lambda x: np.linalg.cond(x, p), SINGULAR)
    compare(lambda x: np.linalg.cond(x, p), SINGULAR[2])
    slope = wg.jit(wg.grad(lambda x: np.sum(np.linalg.cond(x, p)[1])))(SINGULAR)
    np.testing.assert_array_equal(slope[[0, 2]], np.zeros((2, 2, 2)))
    wg.check_grads(lambda x: np.linalg.cond(x, p), (SINGULAR[1],))


def test_cond_of_empty_matrices():
    with pytest.raises(np.linalg.LinAlgError, match=r"cond .*: got empty matrices"):
        wg.jit(np.linalg.cond)(np.zeros((0, 0)))


MATRICES = np.random.default_rng(0).normal(size=(2, 3, 3)) * [[[1.0]], [[3.0]]]


@pytest.mark.parametrize("rtol", [None, 0.5, np.array([1e-3, 0.6]), np.array([[0.5], [0.1]])])
def test_pinv_with_any_rtol(rtol):
    a = MATRICES if np.ndim(rtol) < 2 else np.stack([MATRICES, MATRICES])
    compare(lambda a: np.linalg.pinv(a, rtol=rtol), a)
    if rtol is not None:
        compare(lambda a, rtol: np.linalg.pinv(a, rtol=rtol), a, rtol)
        compare(lambda a, rtol: np.linalg.pinv(a, rtol), a, rtol)


def test_pinv_batches_and_refuses():
    rtol = np.array([1e-3, 0.6])
    each = np.stack([np.linalg.pinv(MATRICES[0], rtol=r) for r in rtol])
    pinv = lambda a, r: np.linalg.pinv(a, rtol=r)
    np.testing.assert_allclose(wg.vmap(pinv, in_axes=(None, 0))(MATRICES[0], rtol), each)
    np.testing.assert_allclose(wg.vmap(pinv)(MATRICES, rtol), np.linalg.pinv(MATRICES, rtol=rtol))
    with pytest.raises(ValueError, match=r"pinv .*: got rcond of shape \(3,\) for a stack of sh"):
        wg.jit(pinv)(MATRICES, np.ones(3))
    wg.check_grads(lambda a: np.linalg.pinv(a, rtol=0.0), (MATRICES,), order=1)


def test_the_slope_of_lstsq_has_its_own_cutoff():
    # the last singular value is above 1e-15 of the first and below what lstsq counts
    u, _ = np.linalg.qr(MATRICES[0])
    v, _ = np.linalg.qr(MATRICES[1])
    a = u @ np.diag([1.0, 0.5, 3e-16]) @ v
    b = np.array([1.0, 2.0, 3.0])
    slope = wg.grad(lambda a: np.sum(np.linalg.lstsq(a, b)[0]))(a)
    assert np.abs(slope).max() < 1e3


EMPTY = {
    "eigvals": lambda a: np.abs(np.linalg.eigvals(a)),
    "eig": lambda a: np.abs(np.linalg.eig(a)[1]),
    "eigvalsh": np.linalg.eigvalsh,
    "eigh": lambda a: np.linalg.eigh(a)[1],
    "svd": lambda a: np.linalg.svd(a)[0],
    "inv": np.linalg.inv,
    "det": np.linalg.det,
    "slogdet": lambda a: np.linalg.slogdet(a)[1],
    "qr": lambda a: np.linalg.qr(a)[1],
    "cholesky": np.linalg.cholesky,
    "pinv": np.linalg.pinv,
    "solve": lambda a: np.linalg.solve(a, a),
    "expm": wnp.linalg.expm,
    "matrix_power": lambda a: np.linalg.matrix_power(a, 3),
    "matrix_rank": np.linalg.matrix_rank,
}


@pytest.mark.parametrize("name", EMPTY)
def test_empty_matrices(name):
    stacks = [np.zeros(shape) for shape in ((0, 0), (2, 0, 0), (0, 2, 2))]
    each = lambda *stacks: tuple(EMPTY[name](a) for a in stacks)
    if name != "expm":  # NumPy has none
        compare(each, *stacks)
    if name != "matrix_rank":
        slopes = wg.grad(lambda stacks: sum(np.sum(x) for x in each(*stacks)))
        for found in (slopes(stacks), wg.jit(slopes)(stacks)):
            assert [slope.shape for slope in found] == [a.shape for a in stacks]


# ---------------------------------------------------------------- long doubles

LONG = {
    "absolute": lambda z: np.sum(np.abs(z)),
    "real": lambda z: np.sum(np.real(z) ** 2),
    "imag": lambda z: np.sum(np.imag(z) ** 3),
    "product": lambda z: np.real(np.sum(z * z * np.exp(z))),
    "conjugate": lambda z: np.real(np.sum(z * np.conj(z))),
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("jit", [False, True])
def test_long_doubles(name, jit):
    z = np.array([1 + 2j, 0.5 - 1j])
    f = wg.grad(LONG[name])
    got = (wg.jit(f) if jit else f)(z.astype(np.clongdouble))
    assert got.dtype == np.clongdouble
    np.testing.assert_allclose(got, f(z), rtol=1e-14)
    real = f(z.real.astype(np.longdouble))
    assert real.dtype == np.longdouble
