"""What holds for every test: every program that is compiled is verified."""

import os
import tempfile

from wengert.jit import debugging

debugging.verify_always = True


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
