"""The order in memory decides whether a reshaped array is a view: as in NumPy, or refused."""

import itertools

import numpy as np
import pytest

import wengert as wg
from wengert.errors import ControlFlowError, MutationError, OptionError
from wengert.trace.lying import strides_of
from wengert.trace.orders import copied

X = np.arange(1.0, 7.0).reshape(2, 3)


def flattened(x):
    y = x.T * 2
    w = y.ravel()
    w += 1
    return y


def reshaped(x):
    y = x.T * 2
    y.reshape(-1)[1:3] = 5.0
    return y


def written_base(x):
    y = x.T * 2
    w, v = y.reshape(-1), y.reshape(3, 2, 1)
    y[0, 0] = 100.0
    return w + v.sum()


def view_of_a_view(x):
    y = x.T * 2
    w = y.ravel()
    w[1:][::2] += 5
    np.add(w, 1, out=w)
    return y.ravel() + w


def split_axes(x):
    y = x.T * 2
    y.reshape(3, 1, 2, 1)[0] = 5.0
    y.reshape(2, 3)[0] = 1.0
    return y


def part(x):
    y = x.T * 2
    y[1:].ravel()[:] = 0.0
    y[:, 0].ravel()[0] = 7.0
    return y


def copies(x):
    y = x.T.copy()
    y.ravel()[0] = 7.0
    z = y * 2
    z.reshape(-1)[1] = 5.0
    u, v = np.copy(x.T), np.array(x.T, order="C")
    u.ravel()[0], v.ravel()[1] = 8.0, 9.0
    return y + z + u + v


def converted(x):
    y, z = x.T.astype(np.float32), x.T.astype(float, order="C")
    y.ravel()[1], z.ravel()[0] = 4.0, 3.0
    return y + z


def like(x):
    y, z, v = np.zeros_like(x.T), np.empty_like(x.T), np.full_like(x.T, 2.0, order="C")
    y.ravel()[1] = x[0, 0]
    z[...] = x.T
    z.reshape(-1)[1] = 5.0
    v.ravel()[2] = x[0, 1]
    u = z * 2
    u.ravel()[0] = 3.0
    return y + z + u + v


def stacked(x):
    y = np.array([x.T, x.T * 2])
    y.ravel()[3] = 7.0
    return y


def contiguous(x):
    a = x * 1.0
    b, c, d = np.ascontiguousarray(a.T), np.ascontiguousarray(a), np.asfortranarray(a.T)
    b[0, 0], c[0, 1], d[1, 0] = 5.0, 6.0, 8.0
    return a.sum() + b * 2 + c.T * 3 + d


def chosen(x):
    y = np.where(x.T > 2, x.T, 0.0)
    y.reshape(-1)[:2] = 9.0
    return y


def reduced(x):
    y = np.stack([x, x * 2], 2) * 1.0
    s = y.transpose(1, 2, 0).sum(1) + x.T.sum(0, keepdims=True)
    return s


def product(x):
    y = x.T @ x
    y.ravel()[::4] += 10.0
    z = y / 3
    z.ravel()[::4] += 1.0
    return z


def own_order(x):
    y = x.T * 2
    w = y
    w += x.T.copy()
    w[...] = x.T.copy() + 1
    w.ravel()[1] = 3.0
    return y


def elements(x):
    y = x.T * 2.0
    orders = [y.ravel("K"), y.ravel("A"), y.ravel("F"), y.flatten("K"), y.T.ravel("K")]
    return np.concatenate([*orders, y.reshape(-1, order="A"), y[:, ::-1].ravel("K")])


def diagonal(x):
    y = x[:, :2] * 1.0
    d = np.diagonal(y.T)
    y[0, 0] = 77.0
    return d * 1


def loop(x):
    y = x.T * 2
    for i in range(6):
        y.ravel()[i] += i * x[0, 0]
    return y


def branch(x):
    y = x.T * 1.0
    if x[0, 0] > 0:
        w = y.ravel()
        w[0] = 9.0
    else:
        w = y.reshape(-1)
        w[1] = 8.0
    return y


def rebound(x):
    y = x * 1.0
    k = 0
    while abs(x[0, 0]) * k < 3:
        y = y * 2
        y.reshape(-1)[k] = 0.0
        k += 1
    y.reshape(-1)[5] = 1.0
    return y


def either(x):
    if x[0, 0] > 0:  # noqa: SIM108 - a branch is what is tested
        y = x * 2
    else:
        y = x * 3
    y.reshape(-1)[0] = 7.0
    return y


PROGRAMS = [
    flattened, reshaped, written_base, view_of_a_view, split_axes, part, copies, converted, like,
    stacked, contiguous, chosen, reduced, product, own_order, elements, diagonal, loop, branch,
    rebound, either,
]  # fmt: skip
BRANCHING = (branch, rebound, either)
# on a tensor these make plain arrays, which no tensor can be written to
OF_PLAIN_ARRAYS = (like, stacked, contiguous, copies)


def orders(x):
    return [x, np.asfortranarray(x), -x, np.stack([x, x], 2)[:, :, 0], x[::-1]]


def weighted(f, x):
    return (np.arange(f(x).size).reshape(f(x).shape) * f(x)).sum()


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
class TestModes:
    def test_forward(self, f):
        for x in orders(X):
            np.testing.assert_array_equal(wg.jvp(f, (x,), (x,))[0], f(x))

    def test_reverse(self, f):
        for x in orders(X):
            value, gradient = wg.value_and_grad(lambda x: weighted(f, x))(x)
            assert value == weighted(f, x)
            np.testing.assert_allclose(
                gradient, wg.jit(wg.grad(lambda x: weighted(f, x)))(x), rtol=1e-14
            )

    def test_compiled(self, f):
        compiled = wg.jit(f)  # one for all orders: none takes the program of another
        for x in orders(X):
            np.testing.assert_array_equal(compiled(x), f(x))
            np.testing.assert_array_equal(wg.jit(lambda x: wg.jvp(f, (x,), (x,))[0])(x), f(x))

    def test_batched(self, f):
        if f in BRANCHING:
            pytest.skip("vmap knows no values")
        for x in orders(X):
            samples = np.empty_like(np.broadcast_to(x, (4, *x.shape)))
            samples[:] = x
            for many in (samples, np.asfortranarray(samples)):
                np.testing.assert_array_equal(wg.vmap(f)(many)[1], f(many[1]))
                np.testing.assert_array_equal(wg.jit(wg.vmap(f))(many)[1], f(many[1]))

    @pytest.mark.parametrize("requires_grad", [False, True])
    def test_tensors(self, f, requires_grad):
        if f in OF_PLAIN_ARRAYS:
            pytest.skip("makes plain arrays of tensors")
        for x in orders(X)[:3]:
            found = f(wg.tensor(x, requires_grad=requires_grad))
            np.testing.assert_array_equal(np.asarray(found), f(x))


# ---------------------------------------------------------------- results of functions

# Calls whose order is known wherever that of the arguments is.
KNOWN = """
x*2|-x|x**2|np.sin(x)|x+y|y+x|x*v|v-x|np.maximum(x,y)|np.where(x>0,x,y)|np.where(x>0,0,1.)|x>0
~(x>0)
x.astype(np.float32)|x.astype(float)|x.astype(np.float32,order='C')|x.astype(float,order='F')
x.copy()
x.copy('K')|x.copy('A')|x.copy('F')|np.copy(x)|np.copy(x,order='C')|np.array(x)
np.array(x,order='F')
np.array([x,y])|np.asarray(x)*1|np.ascontiguousarray(x)*1|np.asfortranarray(x)*1
np.require(x,None,'C')+0
np.zeros_like(x)|np.ones_like(x)|np.full_like(x,3.)|np.full_like(x,x.sum())
np.zeros_like(x,order='C')
np.zeros_like(x,shape=(4,5))|np.full((3,4),x.sum())|np.full((3,4),x.sum(),order='F')|np.clip(x,0,1)
x.sum(0)|x.sum(1)|x.sum(-1)|x.sum(1,keepdims=True)|x.mean(0)|x.var(1)|x.std(2)|x.max(0)|x.min(1)
x.prod(1)|np.any(x>0,1)|np.all(x>0,0)|np.ptp(x,1)|np.nansum(x,1)|np.linalg.norm(x,axis=1)
np.round(x,1)
np.average(x,axis=1)|np.add.reduce(x,1)|np.sort(x,0)|np.diff(x,axis=0)|np.gradient(x,axis=1)
x[::-1]*1
np.flip(x,1)|np.tile(x,2)|np.repeat(x,2,2)|np.rot90(x)*1|x[:,1:2]+0|x[:,::2]*1|x[...,None]*1|x[1]*2
np.swapaxes(x,0,1)*1|np.moveaxis(x,0,2)*1|x.transpose(1,2,0)*1|x.reshape(-1,x.shape[-1])*1
x.ravel('F')
x.reshape(x.shape[0],-1)|x.reshape(-1,2)|x.reshape((-1,2),order='F')|np.broadcast_to(v,x.shape)*1
x.T
x[0]@x[0].T|x[0].T@x[0]/2|np.dot(x,x[0].T)|np.inner(x,x)|np.outer(x[0],x[1])
np.tensordot(x,x,((1,),(1,)))
np.einsum('ijk->kij',x)|np.add.outer(v,x)|np.triu(x[0])|x.real*1|(x+1j).real+0|np.abs(x+1j)|(x+1j)*2
np.exp(x)/np.exp(x).sum(0)|(x-x.mean(0))/x.std(0)|np.select([x>0,x<0],[x,y])|np.take(x,i,1)*1
np.meshgrid(x[0,0],x[0,:,0])[0]|np.arctan2(x,y)|np.sinc(x)|x//2|np.modf(x)[0]|np.float32(2)*x
"""
# Calls whose order is known for arguments in C order, or not at all.
OTHERS = """
np.cumsum(x,0)|np.add.accumulate(x,1)|np.argsort(x,1)|np.median(x,1)|np.quantile(x,.3,axis=1)
np.roll(x,1,0)
np.repeat(x,[1,2,1],1)|np.pad(x,1)|np.pad(x,1,mode='edge')|np.concatenate([x,y])
np.concatenate([x,y],1)
np.stack([x,y])|np.stack([x,x],1)|np.stack([x,x],-1)|np.vstack([x,y])|np.stack([x[:,0],x[:,1]])
np.insert(x,1,0.,1)
np.stack(list(x.T))|np.stack([r*2 for r in x])|np.delete(x,1,1)|np.block([[x],[y]])
np.append(x,y,0)|x[i]|x[:,i]
x[:,:,i]|x[i,:,i]|x[:,i,i]|x[i[:,None],i]|x[...,i]*2|np.take(x,i,0)|np.take(x,i,2)
np.compress([1,0,1],x,axis=1)
x[np.ix_(i[:2],i,i)]|np.choose(np.zeros(x.shape,int),[x,y])|x@x.swapaxes(-1,-2)
np.matmul(x.T,x.T.swapaxes(-1,-2))
np.einsum('ijk,ijl->lk',x,x)|np.einsum('ijk,ijk->ij',x,y)|np.einsum('ijk,lk->lij',x,x[0])
np.kron(x[0],x[1])
np.einsum('ij,jk->ki',q,q)|np.cross(x[...,:3],y[...,:3])|np.diagonal(x)*1|np.tril(x)
np.linalg.inv(q)
np.linalg.solve(q,q+1)|np.linalg.cholesky(q@q.T)|np.linalg.qr(q)[0]|np.linalg.svd(q)[2]
np.linalg.eigh(q+q.T)[1]
np.fft.fft(x,axis=1)|np.fft.rfft(x,axis=0)|np.fft.fft2(x)|np.cov(x[0])
np.apply_along_axis(lambda r:r*2,0,x)
np.linspace(x[0],x[1],3)|np.linspace(x[0],x[1],3,axis=-1)|np.vectorize(lambda t:t*2)(x)
np.trapezoid(x,axis=1)
np.vander(x[0,0])|np.interp(x,np.arange(4.),np.arange(4.)+x.sum())|np.nan_to_num(x)
np.logaddexp.reduce(x,1)
np.pad(x,1,mode='reflect')|np.pad(x,1,mode='wrap')|np.pad(x,0)|np.tile(v,(2,1))|np.kron(x[0],v)
np.kron(x,np.ones(1))
np.isin(x,y)|np.nanquantile(x,[.2,.7],axis=1)|np.nanpercentile(x[0],[20,70],axis=1,method='hazen')
np.nanmedian(x,1)|np.fft.fftshift(x)|np.fft.ifftshift(x,1)|np.roll(x,(1,2),(0,1))|np.roll(x,1)
np.zeros_like(x,shape=(4,2,3))|np.full_like(x,1.,order='A',shape=(2,3))|np.ones_like(x,order='A')
np.linalg.cholesky(q@q.T,upper=True)|np.linalg.svd(q+q.T,hermitian=True)[0]|(x+1j).imag*1
"""


def calls(text):
    return [call for line in text.strip().splitlines() for call in line.split("|")]


def lying(shape, axes, rng):
    """An array whose axes lie in memory in this order, the outermost first."""
    dense = rng.normal(size=[shape[axis] for axis in axes])
    return dense.transpose(np.argsort(axes))


def of_call(call):
    """A function that makes the call, where `np` is a name that tracing finds."""
    scope = {"np": np, "i": np.array([0, 1, 0])}
    exec(f"def f(x, y, v):\n    q = x[:, 0] + 9 * np.eye(4)\n    return {call}", scope)
    return scope["f"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", [*calls(KNOWN), *calls(OTHERS)])
def test_results_lie_as_in_numpy(call):
    f, rng = of_call(call), np.random.default_rng(0)
    found = []

    def probe(x, y, v):
        result = f(x, y, v)
        if hasattr(result, "_chain"):
            found.append((result.type, strides_of(result)))
        return x.sum()

    pairs = [(axes, axes) for axes in itertools.permutations(range(3))]
    for one, other in [*pairs, ((0, 1, 2), (2, 1, 0)), ((2, 1, 0), (0, 1, 2))]:
        x, y, v = lying((4, 3, 4), one, rng), lying((4, 3, 4), other, rng), rng.normal(size=4)
        want = np.asarray(f(x, y, v))
        found.clear()
        wg.jvp(probe, (x, y, v), (x, y, v))
        wg.jit(probe)(x, y, v)
        for array_type, strides in found:
            if strides is None:
                assert call not in calls(KNOWN)
                continue
            theirs = [s * array_type.dtype.itemsize // want.itemsize for s in want.strides]
            dense = [copied(array_type, tuple(each)) for each in (strides, theirs)]
            long = [axis for axis, length in enumerate(want.shape) if length > 1]
            assert [dense[0][axis] for axis in long] == [dense[1][axis] for axis in long]


def test_elementwise_results_of_any_strides():
    rng = np.random.default_rng(0)
    for _ in range(200):
        shape = tuple(rng.integers(1, 4, size=3))
        parts = []
        for _ in range(2):
            array = lying(shape, rng.permutation(3), rng)
            step = tuple(slice(None, None, int(rng.choice([1, -1]))) for _ in shape)
            parts.append(
                np.broadcast_to(array[step][:, :1], shape) if rng.random() < 0.3 else array[step]
            )
        found = []
        wg.jvp(lambda x, y, found=found: found.append(strides_of(x * y)) or x.sum(), parts, parts)
        want = parts[0] * parts[1]
        long = [axis for axis, length in enumerate(shape) if length > 1]
        assert [found[0][axis] for axis in long] == [want.strides[axis] for axis in long]


# ---------------------------------------------------------------- what is not known


class TestRefused:
    def test_the_result_of_einsum(self):
        def f(x):
            y = np.einsum("ij,kj->ki", x, x)
            w = y.ravel()
            w[0] = 1.0
            return y

        with pytest.raises(
            MutationError,
            match=r"an array of shape \(2, 2\), the result of contract, was laid out as another "
            r"one, .*the order is not known here. Copy before: y.copy\(\).ravel\(\) is a copy, and "
            r"of y = y.copy\(\) y.ravel\(\) is a view.",
        ):
            wg.jvp(f, (X,), (X,))

    def test_what_it_says_helps(self):
        def f(x):
            y = np.einsum("ij,kj->ki", x, x).copy()
            y.ravel()[0] = 1.0
            return y

        np.testing.assert_array_equal(wg.jvp(f, (X,), (X,))[0], f(X))

    def test_reading_a_view_after_a_write_to_its_base(self):
        def f(x):
            y = np.einsum("ij,kj->ki", x, x)
            w = y.ravel()
            y[0, 0] = 1.0
            return w * 2

        with pytest.raises(MutationError, match="the order is not known here"):
            wg.jit(f)(X)

    def test_nothing_is_written(self):
        def f(x):
            y = np.einsum("ij,kj->ki", x, x)
            return y.ravel() * 2 + y.reshape(-1)

        np.testing.assert_allclose(wg.jit(f)(X), f(X), rtol=1e-14)

    def test_elements_in_an_unknown_order(self):
        with pytest.raises(OptionError, match=r'order="K".*is not known here'):
            wg.jit(lambda x: np.einsum("ij,kj->ki", x, x).ravel("K"))(X)

    def test_a_loop_that_changes_the_order(self):
        def f(x):
            z = x[:, :2] * 1.0
            k = 0
            while k * x[0, 0] < 3:
                z = z.T * 2
                z.ravel()[1] = 5.0
                k += 1
            return z

        with pytest.raises(ControlFlowError, match="'z' may lie in memory in another order after"):
            wg.jit(f)(X)

    def test_after_a_loop_that_changes_the_order(self):
        def f(x):
            z = x[:, :2] * 1.0
            k = 0
            while k * x[0, 0] < 3:
                z = z.T * 2
                k += 1
            z.ravel()[1] = 5.0
            return z

        with pytest.raises(MutationError, match="the order is not known here"):
            wg.jit(f)(X)

    def test_branches_of_different_orders(self):
        def f(x):
            z = x[:, :2] * 1.0
            y = z * 2 if x[0, 0] > 0 else z.T * 3
            y.reshape(-1)[0] = 7.0
            return y

        with pytest.raises(MutationError, match="the order is not known here"):
            wg.jit(f)(X)

    def test_any_length(self):
        def f(x):
            y = x * 2
            y.reshape(len(y), -1)[:, 0] = 7.0
            return y

        compiled, x = wg.jit(f, dynamic={"x": 0}), np.ones((4, 2, 3))
        np.testing.assert_array_equal(compiled(x), f(x))
        turned = np.asfortranarray(x)
        with pytest.raises(MutationError, match="the order is not known here"):
            compiled(turned)


@pytest.mark.parametrize("same", [np.ascontiguousarray, np.asarray, np.asanyarray])
def test_arrays_of_known_numbers_are_themselves(same):
    """All that was written to an array may be known; what is no copy of it is none then either."""

    def f(x):
        y = np.reshape(x, (1, 1, -1)) * 1.0
        y[0] = 0.25
        turned = y.T.astype(np.float64)
        other = same(turned)
        np.add(other, 0.25, out=other)
        return y * turned + np.sum(x)

    x = np.arange(30.0).reshape(30, 1)
    np.testing.assert_allclose(wg.jit(f)(x), f(x))
    np.testing.assert_allclose(wg.vmap(f)(x[None])[0], f(x))
