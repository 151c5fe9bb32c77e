"""What holds for every test: every program that is compiled is verified."""

from wengert.jit import debugging

debugging.verify_always = True


def pytest_make_parametrize_id(val, argname):
    """Name bytes by their length: what they hold may differ from one process to the next.

    A gzip header carries the time; two test processes that name a test after it collect
    different tests, and then none runs.
    """
    return f"{argname}-of-{len(val)}-bytes" if isinstance(val, bytes) else None
