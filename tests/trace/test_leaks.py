"""Traced values that outlive their function, and traces in several threads."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import wengert as wg
from wengert.errors import LeakedTracerError
from wengert.trace import current_trace

LEAK = (
    "got a traced value whose function has already returned. Return values from the function "
    "(use has_aux=True for extras) instead of storing them in globals, attributes or lists "
    "outside it."
)


def leak_one(transform=wg.grad, x=3.0):
    kept = []

    def f(x):
        kept.append(x * 2.0)
        return x * x

    transform(f)(x)
    return kept[0]


TRANSFORMS = {
    "grad": wg.grad,
    "jvp": lambda f: lambda x: wg.jvp(f, (x,), (1.0,)),
    "vjp": lambda f: lambda x: wg.vjp(f, x)[1](1.0),
    "linearize": lambda f: lambda x: wg.linearize(f, x)[1](1.0),
    "jacfwd": wg.jacfwd,
    "jacrev": wg.jacrev,
    "trace": lambda f: lambda x: wg.trace(f, x),
    "vmap": lambda f: lambda x: wg.vmap(f)(np.array([x, x])),
    "checkpoint": lambda f: wg.grad(wg.checkpoint(f)),
}


class TestLeaks:
    @pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS.keys())
    def test_use_after_the_end(self, transform):
        leaked = leak_one(transform)
        with pytest.raises(LeakedTracerError):
            leaked + 1.0

    def test_the_text(self):
        leaked = leak_one()
        with pytest.raises(LeakedTracerError) as caught:
            leaked + 1.0
        text = str(caught.value)
        assert text.startswith("add (at test_leaks.py:")
        assert text.endswith("): " + LEAK)

    @pytest.mark.parametrize(
        "use",
        [
            bool, float, int, np.sin, np.asarray, lambda x: x > 0, lambda x: -x, lambda x: x.item(),
            lambda x: np.sum(x), lambda x: f"{x:.1f}", lambda x: np.array([x]),
            lambda x: x.copy() + 1,
            lambda x: wg.grad(lambda y: y * y)(x), lambda x: wg.grad(lambda y: y * x)(1.0),
            lambda x: wg.grad(lambda y: x)(1.0), lambda x: wg.jvp(np.sin, (1.0,), (x,)),
            lambda x: wg.vjp(np.sin, 1.0)[1](x), lambda x: wg.vmap(lambda y: y * x)(np.ones(2)),
        ],
    )  # fmt: skip
    def test_every_use(self, use):
        with pytest.raises(LeakedTracerError):
            use(leak_one())

    def test_printing_still_works(self):
        assert repr(leak_one()) == "Tracer(f64*, abstract)"

    def test_through_an_attribute(self):
        class Model:
            pass

        model = Model()

        def f(x):
            model.state = x
            return x * x

        wg.grad(f)(1.0)
        with pytest.raises(LeakedTracerError):
            wg.grad(lambda x: x * model.state)(2.0)

    def test_after_an_exception(self):
        kept = []

        def f(x):
            kept.append(x)
            raise ValueError

        with pytest.raises(ValueError):
            wg.grad(f)(1.0)
        with pytest.raises(LeakedTracerError):
            kept[0] * 2.0

    def test_from_an_inner_trace_into_the_outer_one(self):
        kept = []

        def outer(x):
            wg.grad(lambda y: kept.append(y * x) or y * y)(x)
            return x * kept[0]

        with pytest.raises(LeakedTracerError):
            wg.grad(outer)(2.0)

    def test_writing_to_a_leaked_array(self):
        kept = []
        wg.grad(lambda x: kept.append(x * 1.0) or np.sum(x))(np.ones(2))
        with pytest.raises(LeakedTracerError):
            kept[0][0] = 1.0

    def test_results_and_aux_do_not_leak(self):
        gradient, aux = wg.grad(lambda x: (x * x, {"x": x}), has_aux=True)(3.0)
        assert gradient + aux["x"] == 9.0

    def test_no_trace_is_left_running(self):
        for transform in TRANSFORMS.values():
            leak_one(transform)
            assert current_trace() is None


class TestThreads:
    def test_tracing_in_several_threads(self):
        barrier = threading.Barrier(4)

        def work(seed):
            x = np.random.default_rng(seed).normal(size=5)
            barrier.wait()
            for _ in range(20):
                f = lambda x: np.sum(np.sin(x) * wg.grad(lambda y: np.sum(y**3))(x))
                got = wg.hessian(f)(x)
            h = 2 * 6 * x * np.cos(x) + 6 * np.sin(x) - 3 * x**2 * np.sin(x)
            np.testing.assert_allclose(got, np.diag(h), rtol=1e-10, atol=1e-12)
            return True

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(work, range(4)))

    def test_several_kinds_at_once(self):
        def work(number):
            x = float(number)
            for _ in range(50):
                assert wg.grad(lambda x: x**3)(x) == 3 * x**2
                assert wg.jvp(lambda x: x * x, (x,), (1.0,))[1] == 2 * x
                np.testing.assert_array_equal(wg.vmap(lambda y: y * x)(np.ones(2)), [x, x])
            return True

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(work, range(8)))

    def test_a_value_leaked_from_another_thread(self):
        with ThreadPoolExecutor(1) as pool:
            leaked = pool.submit(leak_one).result()
        with pytest.raises(LeakedTracerError):
            leaked + 1.0

    def test_mixing_two_running_traces_of_two_threads(self):
        kept, errors = [], []
        ready, done = threading.Event(), threading.Event()

        def owner(x):
            kept.append(x)
            ready.set()
            done.wait(10)
            return x * x

        def other():
            ready.wait(10)
            for f in (lambda y: y * kept[0], lambda y: kept[0] * y, lambda y: kept[0]):
                try:
                    wg.grad(f)(2.0)
                except LeakedTracerError as error:
                    errors.append(str(error))
            done.set()

        thread = threading.Thread(target=other)
        thread.start()
        assert wg.grad(owner)(3.0) == 6.0
        thread.join()
        assert len(errors) == 3
        assert errors[0].endswith(
            "got a traced value of another thread. "
            "Trace the whole function in one thread, or pass plain arrays between threads."
        )

    def test_worker_threads_inside_a_function(self):
        def f(x):
            with ThreadPoolExecutor(2) as pool:
                return sum(pool.map(lambda k: np.sin(x) * k, (1.0, 2.0, 3.0)))

        np.testing.assert_allclose(wg.grad(f)(0.5), 6 * np.cos(0.5), rtol=1e-14)
