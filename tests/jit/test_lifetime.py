"""Code that runs is not freed, and what nobody needs is: each in a process of its own, as a crash
must be a failed test."""

import os
import subprocess
import sys
import textwrap

import pytest

from wengert.runtime.layout import native_layout

MEASURED = os.path.exists("/proc/self/statm")

START = """
import gc, os, signal, sys, threading, time, weakref
import numpy as np
import wengert as wg

def resident():
    # bytes of the process that are in memory
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

"""


def run(script, timeout=120, **environment):
    """Run a script; its output."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", START + textwrap.dedent(script)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


# ---------------------------------------------------------------- cleared while it runs

# Long enough to be in the middle of it, without the GIL; `spent` is how long.
LONG = """
def long(x):
    return wg.scan(lambda c, _: (np.sin(c) + np.cos(c), None), x, None, length=400)[0]

def timed(f, *args):
    start = time.perf_counter()
    f(*args)
    return time.perf_counter() - start

x = np.linspace(0.0, 1.0, 20_000)
f = wg.jit(long)
expected = f(x)
spent = min(timed(f, x) for _ in range(3))
"""


def test_cleared_by_another_thread():
    run(
        LONG
        + """
def clear():
    time.sleep(spent / 3)
    f.clear()
    gc.collect()

for _ in range(4):
    f(x)
    thread = threading.Thread(target=clear)
    thread.start()
    assert np.array_equal(f(x), expected)
    thread.join()
"""
    )


def test_cleared_by_threads_that_call_it_too():
    run(
        LONG
        + """
small, large = x[:10_000].copy(), x
right = []

def work(number):
    for turn in range(6):
        part = (small, large)[(turn + number) % 2]
        right.append(np.allclose(f(part), expected[:len(part)]))
        if turn % 3 == number % 3:
            f.clear()

threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for one in threads: one.start()
for one in threads: one.join()
assert all(right) and len(right) == 24
"""
    )


@pytest.mark.skipif(not hasattr(__import__("signal"), "setitimer"), reason="no timers")
def test_cleared_by_a_signal_handler():
    # So long that it asks for signals several times on its way; after the handler a good part of
    # the call is still to run, and a busy machine only makes that part longer.
    run(
        LONG
        + """
x = np.linspace(0.0, 1.0, 400_000)
expected = f(x)
seen = []

def clear(*_):
    seen.append(time.perf_counter())
    f.clear()
    gc.collect()

signal.signal(signal.SIGALRM, clear)
for turn in range(2):
    f(x)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    result = f(x)
    left = time.perf_counter() - seen[turn]
    assert left > 0.01, left  # not only when it had ended
    assert np.array_equal(result, expected)
"""
    )


def test_cleared_while_it_is_traced():
    run(
        """
def twice(x):
    f.clear()
    gc.collect()
    return x * 2.0

f = wg.jit(twice)
for n in range(1, 10):
    assert f(np.ones(n)).sum() == 2 * n
"""
    )


def test_cleared_by_its_arguments():
    # looking a key up calls __eq__, from inside the entry
    run(
        """
class Key:
    def __init__(self, name): self.name = name
    def __hash__(self): return 7
    def __lt__(self, other): return self.name < other.name
    def __eq__(self, other):
        if clearing:
            f.clear()
            gc.collect()
        return self.name == other.name

clearing = False
f = wg.jit(lambda d: {key: 2.0 * value for key, value in d.items()})
for _ in range(3):
    d = {Key("a"): np.ones(4), Key("b"): np.zeros(4)}
    for clearing in (False, False, True):
        assert sum(v.sum() for v in f(d).values()) == 8.0
"""
    )


def test_forgotten_from_inside():
    run(
        """
def twice(x):
    global f
    f = None
    gc.collect()
    return x * 2.0

for n in range(1, 6):
    f = wg.jit(twice)
    f(np.ones(n))
    f = wg.jit(twice)
    assert f(np.ones(n)).sum() == 2 * n
"""
    )


def test_the_loop_of_a_cleared_function():
    run(
        LONG
        + """
from wengert.jit.looping import Repeated

f = wg.jit(lambda factor, row: factor * long(row))
rows = np.stack([x, x / 2, x / 3])
expected = 2.0 * np.stack([long(row) for row in rows])
out = np.zeros_like(rows)

def clear():
    time.sleep(spent)
    f.clear()
    gc.collect()

for _ in range(3):
    f(2.0, x)
    out[:] = 0
    thread = threading.Thread(target=clear)
    thread.start()
    Repeated(f).run((2.0,), rows, out)
    assert np.allclose(out, expected)
    thread.join()
"""
    )


def test_clearing_the_cache_on_disk_while_it_runs(tmp_path):
    run(
        LONG
        + """
def clear():
    wg.clear_cache()
    time.sleep(spent / 3)
    f.clear()
    wg.clear_cache()

for _ in range(2):
    f(x)
    thread = threading.Thread(target=clear)
    thread.start()
    assert np.array_equal(f(x), expected)
    thread.join()
""",
        WENGERT_CACHE=str(tmp_path),
    )


# ---------------------------------------------------------------- collected


@pytest.mark.skipif(native_layout() is None, reason="no native entries")
def test_a_collected_function_leaves_nothing_that_is_read_again():
    # freed memory is overwritten
    run(
        """
for i in range(30):
    f = wg.jit(lambda x: x * 2.0)
    f(np.arange(5.0))
    f(np.arange(6.0))
    del f
    gc.collect()
""",
        PYTHONMALLOC="malloc",
        MALLOC_PERTURB_="2",
    )


@pytest.mark.skipif(not MEASURED, reason="no /proc")
def test_code_that_is_gone_leaves_no_memory_behind():
    run(
        """
from wengert.codegen.compile import compile_module, load_image
image = compile_module("define i32 @f(i32 %x) { ret i32 %x }").image

def load(count):
    for _ in range(count):
        load_image(image).address("f")

load(256)
before = resident()
load(512)
each = (resident() - before) / 512
assert each < 1000, f"{each:.0f} bytes for each image"
"""
    )


# How a program comes and goes, of number `n`.
GONE = {
    "functions": "wg.jit(eval(f'lambda x: x * {n}.5 + np.sum(x)'))(np.ones(7))",
    "functions found on disk": "wg.jit(lambda x: x * 2.5 + np.sum(x))(np.ones(7))",
    "shapes of one function": "f(np.ones(n + 1))",
    "instances": "Scaler(n).scale(np.ones(7))",
}


@pytest.mark.exhaustive
@pytest.mark.skipif(not MEASURED, reason="no /proc")
@pytest.mark.parametrize("how", GONE)
def test_programs_that_are_gone_leave_no_memory_behind(how, tmp_path):
    cache = str(tmp_path) if how == "functions found on disk" else "off"
    run(
        f"""
import ctypes, warnings

class Scaler:
    def __init__(self, factor): self.factor = factor

    @wg.jit
    def scale(self, x): return self.factor * x

f = wg.jit(lambda x: x * 2.5 + np.sum(x))
sys.modules["wengert.jit.function"].PROGRAMS = 16
warnings.simplefilter("ignore", wg.errors.RecompilationWarning)
trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)

def settled():
    gc.collect()
    trim(0)
    return resident()

def make(first, last):
    for n in range(first, last):
        {GONE[how]}

make(0, 512)  # until the heap has its size
before = settled()
make(512, 1024)
each = (settled() - before) / 512
print(f"{{each:.0f}} bytes for each")
assert each < 1000, f"{{each:.0f}} bytes for each"
""",
        timeout=900,
        WENGERT_CACHE=cache,
    )


def test_programs_that_were_cleared_leave_the_loop_over_rows():
    run(
        """
from wengert.jit.looping import Repeated

f = wg.jit(lambda factor, row: factor * row)
repeated = Repeated(f)
rows = np.ones((4, 3))
repeated.run((2.0,), rows, np.zeros((4, 3)))
gone = weakref.ref(repeated.programs()[0])
f.clear()
gc.collect()
assert gone() is None
"""
    )
