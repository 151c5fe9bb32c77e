"""Random programs with lists, dicts, deques, sets, objects and arrays, and names for their parts.

A program is a function of five numbers. Each of its statements is run in Python as soon as it is
written, and kept if nothing is raised and all numbers stay finite. What is compiled gives what
Python gives, or says that it cannot: see `check`.
"""

import contextlib
import random
import re

import numpy as np

import wengert as wg
from programs.checks import UndecidedError, assert_slope
from programs.container_lines import (
    BLOCKS,
    CONTAINERS,
    GROUPS,
    HEAD,
    LINES,
    NUMBERS,
    TESTS,
    VALUES,
)
from programs.writer import Program
from wengert.errors import WengertError

DEEPEST = 4  # blocks in blocks
OTHERS = "s = 0.0; k = 1; j = 0; last = 0.1"
REST = "s + k + 0.5 * j + last * 0.05"
EXACT, DERIVED = 1e-9, 1e-7


class ContainerWriter:
    """Writes a random program; `random` makes every choice, so that a seed names a program."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        generator = np.random.default_rng(seed)
        self.points = [generator.normal(size=5) for _ in range(2)]
        groups = self.random.sample(GROUPS, self.random.choice([1, 1, 1, 2, 2, 3]))
        chosen = {name for group in groups for name in group}
        self.names = [name for name in CONTAINERS if name in chosen]
        self.result = " + ".join([REST, *(CONTAINERS[name][1] for name in self.names)])
        missing = set(CONTAINERS) - chosen
        self.unknown = re.compile(rf"(?<!\.)\b({'|'.join(sorted(missing))})\b")
        self.known = re.compile(rf"(?<!\.)\b({'|'.join(sorted(chosen))})\b")
        self.body = [OTHERS, *(f"{name} = {CONTAINERS[name][0]}" for name in self.names)]
        self.counters = []
        self.count = 0

    # ------------------------------------------------------------ choices

    def choose(self, texts):
        """One of some texts, none of which names a container that the program does not have;
        rather one that names those which it has."""
        usable = [text for text in texts if not self.unknown.search(text)]
        named = [text for text in usable if self.known.search(text)]
        return self.random.choice(named if named and self.random.random() < 0.85 else usable)

    def filled(self, text, depth):
        """A text with a choice in place of each name; lines of a block are indented as it is."""
        same = {"i": f"i{self.count}"}
        self.count += "$i" in text
        lines = []
        for line in text.split("\n"):
            indent = line[: len(line) - len(line.lstrip())]
            if line.strip() in ("$body", "$line"):
                inner = self.lines(line.strip(), depth)
            else:
                inner = [self.line(line.strip(), same)]
            lines += [indent + one for one in inner]
            if re.match(r"for \$i\b", line):
                self.counters.append(same["i"])
        if re.match(r"for \$i\b", text):
            self.counters.pop()
        return "\n".join(lines)

    def lines(self, kind, depth):
        count = 1 if kind == "$line" else self.random.randint(1, 3)
        return "\n".join(self.statement(depth + 1) for _ in range(count)).split("\n")

    def line(self, text, same):
        """A line with a choice in place of each name, the same one for names with a digit."""

        def choice(match):
            name = match[1]
            if name not in same:
                made = self.line(getattr(self, "make_" + name.rstrip("0123456789"))(), same)
                if not name[-1].isdigit():
                    return made
                same[name] = made
            return same[name]

        return re.sub(r"\$([a-z]+\d*)", choice, text)

    def make_number(self):
        return self.choose(NUMBERS)

    def make_value(self):
        return self.choose(VALUES)

    def make_test(self):
        if self.counters and self.random.random() < 0.2:
            return f"{self.random.choice(self.counters)} % 2 == 0"
        return self.choose(TESTS)

    def make_index(self):
        chance = self.random.random()
        if chance < 0.15:
            return self.random.choice(["k", "j"])
        if self.counters and chance < 0.75:
            form = self.random.choice(["{} % 5", "{} % 5", "({} + 1) % 5", "{} % 3", "{} % 5 - 1"])
            return form.format(self.random.choice(self.counters))
        return str(self.random.randint(-2, 4))

    def make_near(self):
        """A place among three."""
        return self.random.choice(["0", "1", "2", "-1", *(f"{i} % 3" for i in self.counters)])

    def make_bit(self):
        return self.random.choice(["0", "1", *(f"{i} % 2" for i in self.counters)])

    def make_key(self):
        return self.random.choice(["'p'", "'q'", "'r'"])

    def make_float(self):
        return f"{self.random.uniform(-1, 2):.1f}"

    def make_turns(self):
        return str(self.random.choice([3, 5, 9, 12]))

    def make_names(self):
        """All that a function inside may set."""
        return ", ".join(["s", "k", "j", "last", *self.names])

    def make_result(self):
        return self.result

    # ------------------------------------------------------------ the whole

    def statement(self, depth):
        if depth < DEEPEST and self.random.random() < (0.55 if depth == 1 else 0.25):
            return self.filled(self.choose(BLOCKS), depth)
        return self.filled(self.choose(LINES), depth)

    def source(self):
        lines = "\n".join([*self.body, f"return {self.result}"]).split("\n")
        return f"{HEAD}def program(x):\n" + "".join(f"    {line}\n" for line in lines)

    def program(self):
        return Program(self.source(), self.points, False)

    def write(self):
        """Write one more statement, if Python can run the program with it."""
        self.body.append(self.statement(1))
        try:
            program = self.program()
            if all(abs(program.function(x)) < 1e6 for x in self.points):
                return
        except (LookupError, ValueError, TypeError, AttributeError, NameError, RuntimeError):
            pass
        self.body.pop()


def write_container_program(seed, most=8):
    writer = ContainerWriter(seed)
    for _ in range(writer.random.randint(2, most)):
        writer.write()
    return writer.program()


# ---------------------------------------------------------------- what must hold


def check(program):
    """Check a program in every mode; whether it is compiled, and finite differences are decided.

    A refusal is an error of wengert's, which is raised where the value is not known to be right.
    """
    try:
        with np.errstate(all="ignore"):
            check_values(program)
            check_gradient(program)
            with contextlib.suppress(WengertError):
                check_mapped(program)
            with contextlib.suppress(WengertError):
                check_written_out(program)
    except BaseException as error:
        error.add_note(f"the program was:\n{program}")
        raise


def assert_close(got, want, tolerance, what):
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, err_msg=what)


def check_values(program):
    """Compiled at one point, the program gives what Python gives there and at another."""
    compiled = wg.jit(program.function)
    for number, x in enumerate(program.inputs):
        assert_close(compiled(x), program.function(x), EXACT, f"compiled value, point {number}")


def check_gradient(program):
    """The evaluated gradient is that of finite differences, and the compiled one is the same."""
    function, compiled = program.function, wg.jit(wg.value_and_grad(program.function))
    evaluated = [wg.grad(function)(x) for x in program.inputs]
    for x, gradient in zip(program.inputs, evaluated, strict=True):
        with contextlib.suppress(UndecidedError):
            v = np.cos(np.arange(5.0))
            scale = 1.0 + float(np.sum(np.abs(gradient)))
            loss = lambda inputs: function(inputs[0])
            assert_slope(gradient @ v, loss, [x], [v], scale, "evaluated gradient")
    for number, (x, gradient) in enumerate(zip(program.inputs, evaluated, strict=True)):
        value, got = compiled(x)
        assert_close(value, function(x), EXACT, f"value beside the gradient, point {number}")
        assert_close(got, gradient, DERIVED, f"compiled gradient, point {number}")


def check_mapped(program):
    """All points at once are as one after the other."""
    got = wg.jit(wg.vmap(program.function))(np.stack(program.inputs))
    assert_close(got, [program.function(x) for x in program.inputs], EXACT, "compiled vmap")


def check_written_out(program):
    """All loops written out, the program gives the same."""
    compiled = wg.jit(program.function, control="trace")
    for number, x in enumerate(program.inputs):
        assert_close(compiled(x), program.function(x), EXACT, f"written out, point {number}")
