"""Loops that cannot be right: an error that says where and why, each time, and never a result.

Programs are written at random from a few faults: values whose shape, dtype or structure changes
from turn to turn, places that do not exist. WENGERT_BAD_LOOPS=10000 tries so many. (Loops without
end are in tests/jit/test_interrupts.py.)
"""

import importlib.util
import os
import random

import numpy as np
import pytest

import wengert as wg
from wengert.errors import OutOfRangeError, StructureError

COUNT = int(os.environ.get("WENGERT_BAD_LOOPS", "40"))
SEED = int(os.environ.get("WENGERT_RANDOM_SEED", "0"))
LENGTH = 4

GOING = [
    "s < {limit}",
    "np.sum(x * x) > -{limit}",
    "s * 0.5 < {limit} and x[0] < 9",
    "not s > {limit}",
]
HARMLESS = [
    "s = s + 0.5 * np.sin(s)",
    "y = np.cos(x) * s",
    "s = s + np.max(y)",
    "if s > 0.5:\n    s = s + 0.25\nelse:\n    s = s + 0.5",
    "for k in range(3):\n    s = s + 0.1 * x[k]",
    "s = helper(s, x)",
]
# what a turn does, and the variable that is another thing after it
CHANGED = {
    "y = np.concatenate([y, y])": "y",
    "y = y[1:]": "y",
    "y = y[None]": "y",
    "y = np.outer(x, x)": "y",
    "y = np.sum(y)": "y",
    "y = y + 1j": "y",
    "s = s * 2j": "s",
    "s = (s, s)": "s",
    "s = [s + 1]": "s",
    "s = {'a': s}": "s",
    "m = x": "m",
}
MISSING = [
    "s = s + x[{far}]",
    "s = s + x[-{far}]",
    "s = s + x[i + {far}] * 1e-9",
    "s = s + y[i * 2] * 1e-9",
    "y[i] = s",
    "y[i + {far}] = s",
    "s = s + np.take(x, i + {far}) * 1e-9",
]


def program(rng):
    """The source of a function of x, a numbered fault, and the name of what is at fault."""
    kind = rng.choice(["changed", "missing"])
    limit = rng.choice(["50", "1e3", "30.0"])
    lines = rng.sample(HARMLESS, rng.randint(0, 2))
    name = ""
    if kind == "changed":
        fault, name = rng.choice(list(CHANGED.items()))
        lines.append("s = s + 0.1" if name != "s" else "y = y * 0.5")
    else:
        fault = rng.choice(MISSING).format(far=rng.randint(LENGTH + 1, 99))
        # an array that is written to is not replaced as well, which would be another fault
        lines = [line for line in lines if not (fault[:2] == "y[" and line[:3] == "y =")]
        lines += ["i = i + 1", "s = s + 1e-6"]
    rng.shuffle(lines)
    # what comes after a change may undo it
    lines.insert(len(lines) if kind == "changed" else rng.randint(0, len(lines)), fault)
    going = rng.choice(GOING).format(limit=limit)
    body = "\n".join(lines).replace("\n", "\n        ")
    return (
        kind,
        name,
        fault,
        f"""import numpy as np

def helper(s, x):
    return s + 0.1 * x[1]

def f(x):
    "{rng.random()}: code of its own, as the same code in another file would be known"
    s, y, i, m = x[0], np.cos(x), 0, 0
    while {going}:
        {body}
    return np.sum(np.abs(np.asarray(s))) + np.sum(np.abs(y)) + np.sum(m)
""",
    )


def load(source, path):
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f


TRANSFORMS = {
    "value": lambda f: (wg.jit(f), np.linspace(0.1, 1.0, LENGTH)),
    "gradient": lambda f: (wg.jit(wg.grad(f)), np.linspace(0.1, 1.0, LENGTH)),
    "tangent": lambda f: (
        wg.jit(lambda x: wg.jvp(f, (x,), (x,))[1]),
        np.linspace(0.1, 1.0, LENGTH),
    ),
    "batch": lambda f: (wg.jit(wg.vmap(f)), np.linspace(0.1, 1.0, 2 * LENGTH).reshape(2, LENGTH)),
}


@pytest.mark.slow
@pytest.mark.parametrize("number", range(COUNT))
def test_a_clear_error(number, tmp_path):
    rng = random.Random(SEED + number)
    kind, name, fault, source = program(rng)
    transform = rng.choice(list(TRANSFORMS))
    path = tmp_path / f"bad_{number}.py"
    compiled, x = TRANSFORMS[transform](load(source, path))
    told = f"{transform} of\n{source}"
    with pytest.raises(StructureError if kind == "changed" else OutOfRangeError) as caught:
        compiled(x)
    text = str(caught.value)
    assert path.name in text, f"{text}\n{told}"
    if kind == "changed":
        assert f"'{name}'" in text, f"{text}\n{told}"
    else:
        at = 1 + source.splitlines().index(next(s for s in source.splitlines() if fault in s))
        assert f"{path.name}:{at}" in text, f"{text}\n{told}"
