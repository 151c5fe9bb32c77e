"""Products against NumPy: values, dtypes, shapes, gradients, errors."""

import numpy as np
import pytest

import wengert.numpy as wnp
from wengert.errors import DTypeError, ShapeError
from wengert.numpy import contractions
from wengert.transforms.batching import vmap
from wengert.transforms.check import check_grads
from wengert.transforms.reverse import grad


def same(result, expected, **tolerance):
    assert np.shape(result) == np.shape(expected)
    assert np.asarray(result).dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(result, expected, **{"rtol": 1e-12, "atol": 1e-12, **tolerance})


def random(*shapes, dtype=float, seed=0):
    rng = np.random.default_rng(seed)
    made = [rng.normal(size=shape) for shape in shapes]
    if np.dtype(dtype).kind == "c":
        made = [x + 1j * rng.normal(size=x.shape) for x in made]
    return [np.asarray(x, dtype) for x in made]


MATMUL = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((1, 2, 3), (5, 3, 4)),
    ((6, 1, 2, 3), (5, 3, 4)),
    ((6, 1, 2, 3), (1, 5, 3, 4)),
    ((3,), (5, 3, 4)),
    ((5, 2, 3), (3,)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 2)),
    ((0, 2, 3), (3, 2)),
]


@pytest.mark.parametrize("shapes", MATMUL)
def test_matmul(shapes):
    x, y = random(*shapes)
    same(wnp.matmul(x, y), np.matmul(x, y))
    if x.size and y.size:
        check_grads(lambda a, b: a @ b, (x, y))
        check_grads(lambda a, b: np.matmul(a, b), (x, y), order=1)


@pytest.mark.parametrize("shapes", MATMUL)
def test_matmul_batched(shapes):
    x, y = random(*shapes)
    xs, ys = np.stack([x, -2 * x]), np.stack([y, y + 1])
    same(vmap(wnp.matmul)(xs, ys), np.stack([a @ b for a, b in zip(xs, ys, strict=True)]))
    same(vmap(lambda a: wnp.matmul(a, y))(xs), np.stack([a @ y for a in xs]))
    same(vmap(lambda b: wnp.matmul(x, b))(ys), np.stack([x @ b for b in ys]))


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float32", "complex64"])
def test_dtypes(dtype):
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 2, size=(3, 3)).astype(dtype) for _ in range(2))
    for name in ("matmul", "dot", "inner", "outer", "kron", "tensordot", "vdot", "vecdot"):
        same(getattr(wnp, name)(x, y), getattr(np, name)(x, y))
    same(wnp.einsum("ij,jk->ik", x, y), np.einsum("ij,jk->ik", x, y))
    same(wnp.einsum("ij->i", x), np.einsum("ij->i", x))
    same(wnp.einsum("ij,jk,k->i", x, y, y[0]), np.einsum("ij,jk,k->i", x, y, y[0]))


def test_float32_stays_float32():
    x = np.ones((2, 2), np.float32)
    assert grad(lambda a: wnp.sum(wnp.matmul(a, x)))(x).dtype == np.float32
    # but products make an array of a Python number, as in NumPy and unlike *
    assert wnp.dot(x, 2.0).dtype == np.dot(x, 2.0).dtype == np.float64


@pytest.mark.parametrize(
    "shapes", [((), (3,)), ((2, 3), ()), ((), ()), ((4, 5, 3), (2, 3, 6)), ((4, 3), (3,)),
               ((2, 2, 3), (3, 4)), ((3,), (2, 3, 4)), *MATMUL[:4]]
)  # fmt: skip
def test_dot(shapes):
    x, y = random(*shapes)
    same(wnp.dot(x, y), np.dot(x, y))
    check_grads(wnp.dot, (x, y))


@pytest.mark.parametrize("shapes", [((3,), (3,)), ((2, 3), (4, 3)), ((2, 3), (3,)), ((), (2,))])
def test_inner(shapes):
    x, y = random(*shapes)
    same(wnp.inner(x, y), np.inner(x, y))
    check_grads(wnp.inner, (x, y))


def test_vdot_and_vecdot_conjugate():
    x, y = random((2, 3), (2, 3), dtype=complex)
    same(wnp.vdot(x, y), np.vdot(x, y))
    same(wnp.vecdot(x, y), np.vecdot(x, y))
    same(wnp.vecdot(x, y, axis=0), np.vecdot(x, y, axis=0))
    same(wnp.vecdot(x[None], y[:, None]), np.vecdot(x[None], y[:, None]))
    check_grads(wnp.vecdot, (x.real, y.real))


def test_matvec_and_vecmat():
    x, y = random((4, 2, 3), (3,), dtype=complex)
    same(wnp.matvec(x, y), np.matvec(x, y))
    same(wnp.vecmat(x[:, :, 0], x), np.vecmat(x[:, :, 0], x))
    with pytest.raises(ShapeError, match="at least 2 and 1 axes"):
        wnp.matvec(y, y)


@pytest.mark.parametrize("shapes", [((2,), (3,)), ((2, 2), (3,)), ((), (3,)), ((0,), (2,))])
def test_outer(shapes):
    x, y = random(*shapes)
    same(wnp.outer(x, y), np.outer(x, y))
    check_grads(wnp.outer, (x, y))


@pytest.mark.parametrize(
    "shapes, axes",
    [
        (((2, 3, 4), (3, 4, 5)), 2),
        (((2, 3), (4, 5)), 0),
        (((2, 3, 4), (4, 3, 2)), ([1, 0], [1, 2])),
        (((2, 3), (5, 2)), (0, 1)),
        (((2, 3), (5, 2)), (-2, -1)),
        (((2, 3), (2, 3)), 2),
    ],
)
def test_tensordot(shapes, axes):
    x, y = random(*shapes)
    if axes == 2 and shapes[0] == shapes[1]:
        axes = ([0, 1], [0, 1])
    same(wnp.tensordot(x, y, axes), np.tensordot(x, y, axes))
    check_grads(lambda a, b: wnp.tensordot(a, b, axes), (x, y))


@pytest.mark.parametrize(
    "shapes", [((2, 3), (4, 2)), ((2,), (3, 2)), ((2, 1, 2), (3,)), ((), (2,))]
)
def test_kron(shapes):
    x, y = random(*shapes)
    same(wnp.kron(x, y), np.kron(x, y))
    check_grads(wnp.kron, (x, y))


@pytest.mark.parametrize(
    "shapes, axes",
    [
        (((3,), (3,)), {}),
        (((4, 3), (3,)), {}),
        (((3, 4), (3, 4)), {"axis": 0}),
        (((3, 4), (5, 1, 3)), {"axisa": 0}),
        (((4, 3), (4, 3)), {"axisc": 0}),
    ],
)
def test_cross(shapes, axes):
    x, y = random(*shapes)
    same(wnp.cross(x, y, **axes), np.cross(x, y, **axes))
    check_grads(lambda a, b: wnp.cross(a, b, **axes), (x, y))


EINSUM = [
    ("ij,jk", [(2, 3), (3, 4)]),
    ("ij,jk->ki", [(2, 3), (3, 4)]),
    ("ba,cb", [(2, 3), (3, 2)]),
    ("ii->i", [(3, 3)]),
    ("ii", [(3, 3)]),
    ("iji->j", [(3, 2, 3)]),
    ("iii->i", [(3, 3, 3)]),
    ("ijij->ij", [(2, 3, 2, 3)]),
    ("ij->", [(2, 3)]),
    ("ij->ji", [(2, 3)]),
    ("ij", [(2, 3)]),
    ("ji", [(2, 3)]),
    ("i->i", [(3,)]),
    ("i,i->i", [(1,), (3,)]),
    ("i,i", [(1,), (3,)]),
    ("i,j", [(2,), (3,)]),
    ("ij,ij->", [(2, 3), (2, 3)]),
    ("ij,kl->", [(2, 3), (2, 3)]),
    ("ij,kl->jl", [(2, 3), (2, 3)]),
    ("iij,j->i", [(2, 2, 3), (3,)]),
    (",ij", [(), (2, 3)]),
    ("...ij,...jk", [(5, 2, 3), (3, 4)]),
    ("...ij,...jk->...ik", [(5, 1, 2, 3), (4, 3, 4)]),
    ("i...->...", [(2, 3, 4)]),
    ("...->...", [(2, 3)]),
    ("...i,...i", [(2, 3), (3,)]),
    ("b...i,b...j->...bij", [(2, 3, 1), (2, 3, 4)]),
    ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
    ("ab,bc,cd,de->ae", [(2, 3), (3, 4), (4, 5), (5, 2)]),
    ("i,j,k", [(2,), (3,), (4,)]),
    ("i,i,i->", [(3,), (1,), (3,)]),
    ("i,i,i->i", [(1,), (1,), (3,)]),
    ("bi,bj,bij->b", [(4, 2), (4, 3), (4, 2, 3)]),
    ("ii,ii,ii->i", [(2, 2), (2, 2), (2, 2)]),
    (" i j , j k -> i k ", [(2, 3), (3, 4)]),
    ("ij,jk->ik", [(0, 3), (3, 4)]),
    ("ij,jk->ik", [(2, 0), (0, 4)]),
]


@pytest.mark.parametrize("subscripts, shapes", EINSUM)
def test_einsum(subscripts, shapes):
    arrays = random(*shapes)
    same(wnp.einsum(subscripts, *arrays), np.einsum(subscripts, *arrays))
    same(wnp.einsum(subscripts, *arrays, optimize="optimal"), np.einsum(subscripts, *arrays))
    if all(x.size for x in arrays):
        check_grads(lambda *xs: np.einsum(subscripts, *xs), arrays)
        stacked = [np.stack([x, -x, 2 * x]) for x in arrays]
        batched = vmap(lambda *xs: wnp.einsum(subscripts, *xs))(*stacked)
        for n in range(3):
            same(batched[n], np.einsum(subscripts, *[x[n] for x in stacked]))


def test_einsum_interleaved_path_and_dtype():
    x, y, z = random((2, 3), (3, 4), (4, 2))
    same(wnp.einsum(x, [0, 1], y, [1, 2]), np.einsum(x, [0, 1], y, [1, 2]))
    same(wnp.einsum(x, [0, 1], y, [1, 2], [2, 0]), np.einsum(x, [0, 1], y, [1, 2], [2, 0]))
    same(wnp.einsum(x, [Ellipsis, 5], [5, Ellipsis]), x.T)
    path = ["einsum_path", (1, 2), (0, 1)]
    same(wnp.einsum("ij,jk,kl", x, y, z, optimize=path), x @ y @ z)
    same(wnp.einsum("ij,jk,kl", x, y, z, optimize=["einsum_path", (0, 1, 2)]), x @ y @ z)
    assert wnp.einsum("ij->j", x, dtype=np.float32).dtype == np.float32


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_convolve_and_correlate(name, mode):
    function, reference = getattr(wnp, name), getattr(np, name)
    for n in range(1, 7):
        for m in range(1, 7):
            x, y = random((n,), (m,), dtype=complex)
            same(function(x, y, mode), reference(x, y, mode))
            same(function(x.real, y.real, mode), reference(x.real, y.real, mode))
    for shapes in [((5,), (3,)), ((2,), (4,))]:
        check_grads(lambda a, b: reference(a, b, mode), random(*shapes))
    xs = np.arange(12.0).reshape(3, 4)
    kernel = np.array([1.0, -2.0])
    same(vmap(lambda x: function(x, kernel, mode))(xs),
         np.stack([reference(x, kernel, mode) for x in xs]))  # fmt: skip


def test_convolve_takes_a_number():
    same(wnp.convolve([1, 2, 3], 2), np.convolve([1, 2, 3], 2))


def test_a_long_kernel_is_taken_in_pieces(monkeypatch):
    x, y = random((12,), (7,))
    expected = np.convolve(x, y)
    monkeypatch.setattr(contractions, "_LARGEST", 40)
    same(wnp.convolve(x, y), expected)
    check_grads(wnp.convolve, (x, y))
    monkeypatch.setattr(contractions, "_LARGEST", 1)
    same(wnp.convolve(x, y), expected)


def test_convolve_agrees_with_scipy():
    signal = pytest.importorskip("scipy.signal")
    x, y = random((50,), (7,))
    for mode in ("full", "same", "valid"):
        same(wnp.convolve(x, y, mode), signal.convolve(x, y, mode, method="direct"))
        same(wnp.correlate(x, y, "full"), signal.correlate(x, y, "full", method="direct"))


def test_traced_arrays_and_plain_numpy_agree():
    x, y = random((3, 3), (3, 3))
    for name in ("matmul", "dot", "inner", "kron", "vdot", "tensordot", "cross"):
        through = grad(lambda a, name=name: np.sum(np.sin(getattr(np, name)(a, y))))(x)
        direct = grad(lambda a, name=name: wnp.sum(wnp.sin(getattr(wnp, name)(a, y))))(x)
        same(through, direct)


def test_errors():
    x, y = np.zeros((2, 3)), np.zeros((4, 5))
    with pytest.raises(ShapeError) as error:
        wnp.matmul(x, y)
    assert "matmul" in str(error.value)
    assert (
        "got arrays of shapes (2, 3) and (4, 5): the lengths 3 and 4 of axes that run together "
        "differ. Transpose or reshape one of them." in str(error.value)
    )
    with pytest.raises(ShapeError, match="Use \\* to multiply by a number"):
        wnp.matmul(x, 2.0)
    with pytest.raises(ShapeError, match=r"matmul.*\(1, 3\) and \(2, 3\)"):
        wnp.matmul(np.zeros((1, 3)), x)
    with pytest.raises(ShapeError, match="dot"):
        wnp.dot(x, y)
    with pytest.raises(ShapeError, match=r"einsum.*'j'.*differ in length"):
        wnp.einsum("ij,jk", x, y)
    with pytest.raises(ShapeError, match="subscripts 'ijk' for an array with 2 axes"):
        wnp.einsum("ijk", x)
    with pytest.raises(ShapeError, match="for 2 arrays, but 1 arrays"):
        wnp.einsum("ij,jk", x)
    with pytest.raises(ShapeError, match="names an axis twice or one that no array has"):
        wnp.einsum("ij->iik", x)
    with pytest.raises(ShapeError, match=r"lacks the axes of '\.\.\.'"):
        wnp.einsum("...j->j", x)
    with pytest.raises(ShapeError, match="cannot read the subscripts"):
        wnp.einsum("i1", x)
    with pytest.raises(ShapeError, match="expected 3 and 3"):
        wnp.cross(np.zeros(2), np.zeros(2))
    with pytest.raises(ShapeError, match="got 1 axes of a but 2 axes of b"):
        wnp.tensordot(x, x, ([0], [0, 1]))
    with pytest.raises(ShapeError, match="expected a sequence"):
        wnp.convolve(x, [1.0])
    with pytest.raises(DTypeError, match="Use full, same or valid"):
        wnp.convolve([1.0], [1.0], "some")
