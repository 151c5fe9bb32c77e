"""What holds for every test: compiled programs are verified, random numbers are the same ones.

A test that fails once in a thousand runs tells nobody anything on the day it fails. So all
generators start anew with each test and hypothesis draws the same examples each time;
WENGERT_RANDOM_EXAMPLES=1 draws others.
"""

import os
import signal
import sys
import tempfile
from collections import Counter

import hypothesis
import numpy as np
import pytest

from wengert.jit import verifying

verifying.strict = True
# A job in the background of a script ignores Ctrl-C, and a test that waits for it would not end.
signal.signal(signal.SIGINT, signal.default_int_handler)

hypothesis.settings.register_profile("same", derandomize=True, database=None, deadline=None)
hypothesis.settings.register_profile("other", deadline=None)
hypothesis.settings.load_profile("other" if os.environ.get("WENGERT_RANDOM_EXAMPLES") else "same")


def pytest_collection_finish(session):
    """Remember where the generators of the test modules, and of their helpers, start."""
    here = os.path.dirname(__file__)
    for module in list(sys.modules.values()):
        if (getattr(module, "__file__", None) or "").startswith(here):
            found = [v for v in vars(module).values() if isinstance(v, np.random.Generator)]
            if found:
                starts[module.__name__] = [(v, v.bit_generator.state) for v in found]


starts = {}  # of a module: its generators, and the state of each when it was imported


@pytest.fixture(autouse=True)
def same_random_numbers(request):
    """The generators that a test uses without seeding them start where they always start."""
    np.random.seed(0)
    for name in starts:
        if name == request.module.__name__ or not name.split(".")[-1].startswith("test_"):
            for generator, state in starts[name]:
                generator.bit_generator.state = state
    for module, at in (("wengert.nn", "manual_seed"), ("torch", "manual_seed")):
        if module in sys.modules:
            getattr(sys.modules[module], at)(0)


def pytest_make_parametrize_id(val, argname):
    """Name bytes by their length: what they hold may differ from one process to the next.

    A gzip header carries the time; two test processes that name a test after it collect
    different tests, and then none runs.
    """
    return f"{argname}-of-{len(val)}-bytes" if isinstance(val, bytes) else None


def pytest_configure(config):
    """With WENGERT_GUARD=end or begin, memory in which a step too far is a fault (see guarded)."""
    edge = os.environ.get("WENGERT_GUARD")
    if edge:
        # code that was compiled elsewhere does not fill its arena
        config.guarded_cache = tempfile.TemporaryDirectory()
        os.environ["WENGERT_CACHE"] = config.guarded_cache.name
        import guarded

        guarded.install(edge)


def pytest_collection_modifyitems(config, items):
    """With WENGERT_SLOW_SHARE=3, of the cases of each slow test the first, the fourth and so on."""
    share = int(os.environ.get("WENGERT_SLOW_SHARE", "1"))
    if share == 1:
        return
    cases, kept, left_out = Counter(), [], []
    for item in items:
        slow = item.get_closest_marker("slow") is not None
        test = item.nodeid.split("[")[0]
        (kept if not slow or cases[test] % share == 0 else left_out).append(item)
        cases[test] += slow
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept
