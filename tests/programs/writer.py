"""Random programs as people write them: Python source, written line by line.

A program is a function of one to three arrays, in plain NumPy style: in-place writes, views,
buffers that change after they were used, loops, helpers, fancy indices, linear algebra. Each line
is run on sample inputs as soon as it is written, and kept if it is legal and its values are
harmless: finite, bent back by `tanh` where they grow, and away from kinks, so that finite
differences exist.

The text names dtypes only as `single`, which is float32 or, to check derivatives, float64.
"""

import contextlib
import itertools
import linecache
import random

import numpy as np

import wengert as wg
import wengert.numpy as wnp
from programs.habits import Habits
from programs.lines import MoreLines

EXTENTS = [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 30, 33, 64, 65, 100, 101, 129, 300, 301, 400]
SIZE_LIMIT = 50_000
LARGE = 6.0  # values beyond it are bent back
MARGIN = 2e-4  # how far from a kink every element must be
MATRIX_LIMIT = 40  # rows of what is factorised
_numbers = itertools.count()


class Known:
    """What is known of a variable: how it may be used in the lines that follow."""

    def __init__(self, name, value, traced, writable):
        self.name = name
        self.value = value
        self.traced = traced  # depends on the inputs
        self.writable = writable  # not an argument, nor a view of one

    @property
    def shape(self):
        return np.shape(self.value)

    @property
    def size(self):
        return int(np.size(self.value))


class RefusedError(Exception):
    """A line that cannot be written here: another one is tried."""


class Program:
    """The source of a random program and the inputs that it was written on."""

    def __init__(self, source, inputs, single, decides=False, modules=()):
        self.source = source
        self.inputs = inputs
        self.single = single  # rounded to single precision somewhere
        self.decides = decides  # by values, which `vmap` alone does not know
        self.modules = modules  # names of arrays outside of the function
        self.function = self.compiled_with(np.float32)
        self.in_double = self.compiled_with(np.float64)

    def compiled_with(self, single):
        scope = {"np": np, "wnp": wnp, "wg": wg, "single": single, "__name__": "random_program"}
        # `jit` reads the source of what it converts
        name = f"<random program {next(_numbers)}>"
        linecache.cache[name] = len(self.source), None, self.source.splitlines(True), name
        exec(compile(self.source, name, "exec"), scope)
        return scope["program"]

    def double_inputs(self):
        return [x.astype(np.float64) for x in self.inputs]

    def __str__(self):
        inputs = [f"# {x.dtype}{list(x.shape)}" for x in self.inputs]
        return "\n".join([*inputs, self.source])


class Writer(MoreLines, Habits):
    """Writes a random program; `random` makes every choice, so that a seed names a program."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.generator = np.random.default_rng(seed)
        self.lines = []
        self.outside = []  # lines in front of the function
        self.modules = []
        self.decides = False
        self.count = 0
        self.variables = {}
        self.inputs = [self.make_input() for _ in range(self.random.choice([1, 1, 2, 2, 3]))]
        self.arguments = [f"x{k}" for k in range(len(self.inputs))]
        self.restart()
        for name in self.arguments:
            self.learn(name, traced=True, writable=False)

    # ------------------------------------------------------------ choices

    def often(self, percent):
        return self.random.random() * 100 < percent

    def choice(self, *options):
        return self.random.choice(options)

    def word(self, text):
        return self.random.choice(text.split())

    def make_shape(self):
        rank = self.choice(0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 4)
        limit = SIZE_LIMIT if self.often(25) else 1500
        while True:
            shape = tuple(self.random.choice(EXTENTS) for _ in range(rank))
            if np.prod(shape) <= limit:
                return shape

    def make_input(self):
        dtype = np.float32 if self.often(25) else np.float64
        values = self.generator.uniform(-1.5, 1.5, self.make_shape())
        return np.asarray(values, dtype)

    def fresh(self, letter="v"):
        self.count += 1
        return f"{letter}{self.count}"

    def pick(self, where=lambda known: True, traced=None):
        """A variable with these properties, rather a new one: long chains are more interesting."""
        found = [
            known
            for known in self.variables.values()
            if (traced is None or known.traced == traced) and where(known)
        ]
        if not found:
            raise RefusedError
        return self.random.choice(found[-3:] if self.often(65) else found)

    def array(self, least=1, most=3, traced=True, where=lambda known: True):
        fits = lambda known: least <= len(known.shape) <= most and where(known)
        return self.pick(fits, traced)

    def partner(self, known, traced=None):
        """A variable that broadcasts with this one, or a number."""
        if self.often(20):
            return self.choice("0.5", "-1.25", "2", "1", "0.75")
        fits = lambda other: broadcasts(known.shape, other.shape)
        return self.pick(fits, traced).name

    # ------------------------------------------------------------ keeping lines

    def restart(self):
        """Run the lines that were kept from the beginning, as an in-place write may have failed."""
        self.scope = {"np": np, "wnp": wnp, "wg": wg, "single": np.float32}
        self.scope |= {f"x{k}": x.copy() for k, x in enumerate(self.inputs)}
        self.run("\n".join([*self.outside, *self.lines]))
        for known in self.variables.values():
            known.value = self.scope[known.name]

    def run(self, text):
        with np.errstate(all="ignore"):
            exec(compile(text, "<line>", "exec"), self.scope)

    def preamble(self, text):
        """A line in front of the function, for all that follow."""
        self.run(text)
        self.outside.append(text)

    def learn(self, name, traced, writable):
        value = self.scope[name]
        self.variables[name] = Known(name, value, traced, writable)

    def keep(self, text, *results):
        """Keep lines that make these variables, each (name, traced, writable), if harmless."""
        try:
            self.run(text)
            changed = [self.scope[name] for name, _, _ in results]
            changed += [known.value for known in self.variables.values() if known.writable]
            if not all(harmless(value) for value in changed):
                raise RefusedError
        except (RefusedError, ValueError, IndexError, TypeError, np.linalg.LinAlgError) as error:
            self.restart()
            raise RefusedError from error
        self.lines.append(text)
        for result in results:
            self.learn(*result)
        for name, traced, _ in results:
            self.bend(name, traced)

    def bend(self, name, traced):
        value = self.scope[name]
        if np.size(value) and np.asarray(value).dtype.kind == "f" and np.max(np.abs(value)) > LARGE:
            bent = self.fresh()
            self.keep(f"{bent} = np.tanh({name} * 0.25)", (bent, traced, True))

    def value(self, text, *, traced=True, writable=True):
        """Keep an assignment of this expression to a new variable."""
        name = self.fresh()
        self.keep(f"{name} = {text}", (name, traced, writable))

    def away_from(self, text):
        """Refuse if an element of this expression is near zero, where a derivative jumps."""
        try:
            with np.errstate(all="ignore"):
                distance = np.abs(eval(text, self.scope))
        except (ValueError, IndexError) as error:  # such as the largest of no elements
            raise RefusedError from error
        if np.size(distance) and not np.min(distance) > MARGIN:
            raise RefusedError

    # ------------------------------------------------------------ lines: elementwise

    def write_smooth(self):
        x = self.pick(traced=True).name
        self.value(
            self.choice(
                f"np.sin({x})",
                f"np.cos({x}) * {x}",
                f"np.tanh({x})",
                f"np.exp(-{x} * {x})",
                f"np.log(1.5 + {x} * {x})",
                f"np.sqrt({x}**2 + 0.5)",
                f"1 / (1.0 + {x}**2)",
                f"np.arctan({x})",
                f"np.log1p(np.exp({x}))",
                f"{x}**3 - {x}",
                f"wnp.expit({x})",
                f"({x} * {x} + 1.0) ** 0.5",
                f"-{x}",
                f"np.square({x})",
            )
        )

    def write_pair(self):
        x = self.pick(traced=True)
        y = self.partner(x)
        a, b = (x.name, y) if self.often(50) else (y, x.name)
        self.value(
            self.choice(
                f"{a} + {b}",
                f"{a} * {b}",
                f"{a} - {b}",
                f"{a} / (1.0 + np.square({b}))",
                f"np.hypot({a}, 1.0 + np.square({b}))",
                f"np.arctan2({a}, 2.0 + np.square({b}))",
                f"np.logaddexp({a}, {b})",
                f"(1.0 + {a} ** 2) ** (0.5 * {b})",
            )
        )

    def write_kink(self):
        x = self.pick(traced=True)
        y = self.partner(x)
        self.away_from(f"{x.name} - {y}")
        self.value(
            self.choice(
                f"np.maximum({x.name}, {y})",
                f"np.minimum({y}, {x.name})",
                f"np.abs({x.name} - {y})",
                f"np.where({x.name} > {y}, {x.name}, 0.5 * {x.name})",
                f"({x.name} <= {y}) * {x.name}",
                f"np.clip({x.name}, {y}, None)",
                f"np.where({x.name} < {y}, np.sin({x.name}), {x.name} * {x.name})",
            )
        )

    def write_cast(self):
        x = self.pick(traced=True).name
        self.value(
            self.choice(f"{x}.astype(single)", f"{x} * single(0.5)", f"{x} + np.float64(0.5)")
        )

    # ------------------------------------------------------------ lines: shapes

    def write_view(self):
        x = self.array()
        self.value(f"{x.name}{self.index(x.shape)}", writable=x.writable)

    def write_layout(self):
        x = self.array()
        rank = len(x.shape)
        axes = list(range(rank))
        self.random.shuffle(axes)
        axis = self.random.randrange(rank)
        self.value(
            self.choice(
                f"{x.name}.T",
                f"np.transpose({x.name}, {axes})",
                f"{x.name}.reshape(-1)",
                f"{x.name}.reshape({x.shape[0]}, -1)",
                f"{x.name}[::-1]",
                f"np.swapaxes({x.name}, 0, {axis})",
                f"np.expand_dims({x.name}, {axis})",
                f"{x.name}[None]",
            ),
            writable=x.writable,
        )

    def write_rearranged(self):
        x = self.array()
        axis = self.random.randrange(len(x.shape))
        self.value(
            self.choice(
                f"np.roll({x.name}, {self.random.randint(-3, 3)}, {axis})",
                f"np.flip({x.name}, {axis}) + 0.0",
                f"np.repeat({x.name}, 2, axis={axis})",
                f"np.concatenate([{x.name}, {x.name} * 0.5], axis={axis})",
                f"np.stack([{x.name}, np.sin({x.name})], axis={axis})",
                f"np.tile({x.name}, 2)",
                f"np.pad({x.name}, 1)",
                f"np.pad({x.name}, (2, 1), mode='edge')",
                f"np.outer({x.name}, {x.name}[0])",
                f"np.diff({x.name}, axis={axis})",
                f"np.moveaxis({x.name}, {axis}, 0) * 1.0",
            )
        )

    def write_join(self):
        x = self.array()
        other = self.pick(lambda known: known.shape == x.shape)
        axis = self.random.randrange(len(x.shape))
        join = self.choice("concatenate", "stack")
        self.value(f"np.{join}([{other.name}, {x.name}], axis={axis})")

    def index(self, shape):
        return "[" + ", ".join(self.part(n) for n in shape[: self.choice(1, len(shape))]) + "]"

    def part(self, n):
        if n < 2 or self.often(25):
            return ":"
        start = self.random.randrange(n)
        stop = self.random.randint(start + 1, n)
        return self.choice(
            str(start), str(start - n), f"{start}:{stop}", f"{start}:", f":{stop}",
            f"::{self.choice(2, 3)}", "::-1", f"{start}::2", f":-{n - start}",
        )  # fmt: skip

    # ------------------------------------------------------------ lines: fancy indices

    def places(self, n, count=None):
        count = count or self.random.choice([1, 2, 3, 5, 9, 17])
        return [self.random.randrange(-n, n) for _ in range(count)]

    def write_gather(self):
        x = self.array()
        n = x.shape[0]
        at = self.fresh("at")
        self.keep(f"{at} = np.array({self.places(n)})", (at, None, False))
        texts = [
            f"{x.name}[{at}]",
            f"np.take({x.name}, {at}, axis=0)",
            f"{x.name}[{at}] * {x.name}[{at}[::-1]]",
        ]
        if len(x.shape) > 1:
            columns = self.places(x.shape[1], len(self.scope[at]))
            texts += [
                f"{x.name}[{at}, {columns}]",
                f"{x.name}[np.ix_({at}, {columns[:3]})]",
                f"{x.name}[:, {columns}]",
            ]
        self.value(self.random.choice(texts))

    def write_order(self):
        x = self.array()
        axis = self.random.randrange(len(x.shape))
        self.away_from(f"np.diff(np.sort({x.name}, axis={axis}), axis={axis})")
        method = self.word("linear hazen weibull lower nearest midpoint median_unbiased")
        self.value(
            self.choice(
                f"np.sort({x.name}, axis={axis})",
                f"np.max({x.name}, axis={axis})",
                f"np.min({x.name}, axis={axis}, keepdims=True)",
                f"np.median({x.name}, axis={axis})",
                f"np.nanmedian({x.name}, axis={axis})",
                f"np.quantile({x.name}, 0.3, axis={axis}, method='{method}')",
                f"np.nanpercentile({x.name}, [20, 70], axis={axis}, method='{method}')",
                f"np.take_along_axis({x.name}, np.argsort({x.name}, axis={axis}), axis={axis})",
                f"np.ptp({x.name}, axis={axis})",
            )
        )

    # ------------------------------------------------------------ lines: reductions and products

    def write_reduction(self):
        x = self.array()
        rank = len(x.shape)
        axis = self.random.choice([None, *range(rank), -1])
        keep = f", axis={axis}" + self.choice("", ", keepdims=True")
        name = self.word("sum sum mean mean var std logsumexp")
        module = "wnp" if name == "logsumexp" else "np"
        inner = f"{x.name} + np.arange({x.shape[-1]})" if name == "std" else x.name
        self.value(f"{module}.{name}({inner}{keep})")

    def write_running(self):
        x = self.array()
        axis = self.random.randrange(len(x.shape))
        self.value(
            self.choice(
                f"np.cumsum({x.name}, axis={axis})",
                f"np.cumprod(np.cos({x.name}), axis={axis})",
                f"wnp.softmax({x.name}, axis={axis})",
                f"np.gradient({x.name}, axis={axis})",
                f"np.r_['{axis}', {x.name}, np.sin({x.name})]",
                f"np.polyval([0.5, -1.0, 0.25], np.sin({x.name}))",
            )
        )

    def write_product(self):
        x = self.array(where=lambda known: known.size <= 10_000)
        n = x.shape[-1]
        weight = f"np.cos(np.arange({n} * 3.0)).reshape({n}, 3)"
        texts = [f"{x.name} @ {weight}", f"np.dot({x.name}, np.sin(np.arange({n}.0)))"]
        if len(x.shape) > 1:
            texts += [
                f"{x.name} @ np.swapaxes({x.name}, -1, -2) / {n}",
                f"np.einsum('...ij,...ij->...i', {x.name}, {x.name})",
                f"np.einsum('...ij,...ik->...jk', {x.name}, {x.name}) / {x.shape[-2]}",
            ]
        else:
            texts += [f"np.outer({x.name}, {x.name})", f"np.convolve({x.name}, [0.5, 1.0, -0.25])"]
            # a factor of 0 in front is left out, which is another shape
            leads = bool(x.value[0])
            texts += [f"np.polymul({x.name}, [1.0, 0.5])"] if leads else []
            texts += [f"np.polyder({x.name})"]
            texts += [f"np.polyfit(np.arange({n}.0), {x.name}, 1)"] if n > 2 else []
        self.value(self.random.choice(texts))

    def square(self):
        """A line that makes a well-conditioned symmetric matrix; its name and size."""
        small = lambda known: known.shape[0] <= MATRIX_LIMIT
        x = self.array(2, 2, where=small)
        n, name = x.shape[0], self.fresh("m")
        self.keep(
            f"{name} = np.tanh({x.name}) @ np.tanh({x.name}).T / {x.shape[1]} + 2.0 * np.eye({n})",
            (name, True, True),
        )
        return name, n

    def write_linear_algebra(self):
        a, n = self.square()
        right = f"np.sin(np.arange({n}.0))"
        self.value(
            self.choice(
                f"np.linalg.solve({a}, {right})",
                f"np.linalg.inv({a})",
                f"np.linalg.slogdet({a})[1]",
                f"np.linalg.det({a} / 2.0)",
                f"np.linalg.cholesky({a})",
                f"np.linalg.norm({a})",
                f"np.trace({a})",
                f"np.linalg.solve({a}, {a} * 0.5 + np.eye({n}))",
                f"np.linalg.eigvalsh({a} + np.diag(np.arange({n}.0)))",
                f"np.diag(np.diag({a}))",
                f"np.tril({a}) + np.triu({a}, 1) * 0.5",
                f"np.linalg.matrix_power({a} * 0.3, 3)",
            )
        )

    def write_transform(self):
        x = self.array()
        n = x.shape[-1]
        self.value(
            self.choice(
                f"np.fft.irfft(np.fft.rfft({x.name}) * 0.9 ** np.arange({n // 2 + 1}), {n})",
                f"np.abs(np.fft.fft({x.name}) + 3.0 * {n}) / {n}",
                f"np.real(np.fft.fft({x.name})) / {n}",
            )
        )

    # ------------------------------------------------------------ lines: writing in place

    def owned(self, where=lambda known: True):
        """A variable that may be written to: one that there is, or a copy."""
        if self.often(40):
            x = self.array(where=where)
            name = self.fresh("c")
            self.keep(f"{name} = {x.name}.copy()", (name, True, True))
        return self.array(where=lambda known: known.writable and where(known))

    def write_into(self):
        x = self.owned()
        index = self.index(x.shape)
        part = eval(f"{x.name}{index}", self.scope)
        fits = lambda known: known.shape == np.shape(part)
        source = self.choice("0.5", f"np.sin({x.name}{index})", None) or self.pick(fits).name
        self.keep(f"{x.name}{index} {self.word('= += -= *=')} {source}")

    def write_masked(self):
        x = self.owned()
        limit = self.choice(0.5, 0.0, -0.25)
        self.away_from(f"{x.name} - {limit}")
        self.keep(
            self.choice(
                f"{x.name}[{x.name} > {limit}] *= 0.5",
                f"{x.name}[{x.name} < {limit}] = 0.25",
                f"{x.name}[{x.name} > {limit}] += {limit}",
            )
        )

    def write_scattered(self):
        x = self.owned()
        at = self.places(x.shape[0])
        unique = sorted({k % x.shape[0] for k in at})
        self.keep(
            self.choice(
                f"np.add.at({x.name}, {at}, 0.5)",
                f"{x.name}[{unique}] = np.cos({x.name}[{unique}])",
                f"{x.name}[{unique}] *= 2.0",
                f"{x.name} *= 0.5",
                f"{x.name} += np.sin({x.name})",
                f"{x.name}.fill(0.25)",
            )
        )

    # ------------------------------------------------------------ lines: loops and buffers

    def write_captured_buffer(self):
        """A plain array that changes after it was used."""
        x = self.array(1, 1, where=lambda known: known.size <= 400)
        n, w, s = x.shape[0], self.fresh("w"), self.fresh("s")
        turns = min(n, self.random.randint(1, 4))
        update = self.choice(
            f"{w}[i] = i + 1.0", f"{w}[:] = np.cos({w} + i)", f"{w} += 0.5 * (i + 1)",
            f"{w}[i:] *= 0.5", f"np.copyto({w}, np.sin(np.arange({n}.0) * i))",
        )  # fmt: skip
        use = self.choice(
            f"{s} = {s} + np.sin({w} @ {x.name} / {n})",
            f"{s} = {s} + {x.name} * {w}",
            f"{s} = {s} * 0.5 + np.where({w} > 0.75, {x.name}, {x.name}**2)",
        )
        start = self.choice("np.zeros", "np.ones")
        after = self.choice("", f"\n{w}[:] = np.nan", f"\n{w} *= 0")
        self.keep(
            f"{w} = {start}({n})\n{s} = 0.0\nfor i in range({turns}):\n"
            f"    {update}\n    {use}{after}",
            (s, True, False),
        )

    def write_captured_indices(self):
        x = self.array()
        n, at, s = x.shape[0], self.fresh("at"), self.fresh("s")
        first = self.places(n, 3)
        self.keep(
            f"{at} = np.array({first})\n{s} = {x.name}[{at}] * 1.0\n{at}[:] = 0\n"
            f"{s} = {s} + {x.name}[{at}]",
            (s, True, True),
        )

    def write_recurrence(self):
        """A buffer that is filled element by element."""
        x = self.array(1, 2, where=lambda known: 2 <= known.shape[0] <= 40)
        n, b = x.shape[0], self.fresh("b")
        shape = x.shape if len(x.shape) > 1 else f"({n},)"
        step = self.choice(
            f"{b}[i] = 0.5 * {b}[i - 1] + {x.name}[i]",
            f"{b}[i] = np.sin({b}[i - 1]) * np.tanh({x.name}[i]) + {x.name}[i - 1]",
            f"{b}[i] = {x.name}[{n - 1} - i] - {b}[i - 1] * {b}[i - 1] * 0.1",
            f"{b}[i] += {x.name}[i]\n    {b}[i - 1] *= 0.5",
        )
        turns = self.choice(f"range(1, {n})", f"range(1, {n}, 2)", f"range({n - 1}, 0, -1)")
        self.keep(
            f"{b} = {self.word('np np wnp')}.zeros({shape}, dtype={x.name}.dtype)\n"
            f"{b}[0] = {x.name}[0]\n"
            f"for i in {turns}:\n    {step}",
            (b, True, True),
        )

    def write_buffer(self):
        """An array that NumPy makes, and that traced values are written to."""
        x = self.array(where=lambda known: known.size <= 2000)
        b, shape, index = self.fresh("b"), f"{x.shape}", self.index(x.shape)
        counted = f"np.arange({x.size}.0).reshape({shape}) / {x.size}"
        make = self.choice(
            f"np.zeros({shape})", f"np.ones({shape})", f"np.full({shape}, 0.5)", counted,
            f"np.linspace(-1, 1, {x.size}).reshape({shape})", f"np.array({x.name})",
            f"np.copy(np.cos({counted}))", f"np.zeros_like({counted})",
            f"np.zeros({x.shape[::-1]}).T", f"np.ones({shape}, order='F')",
        )  # fmt: skip
        before = self.choice("", f"\n{b} *= 0.5", f"\n{b}{index} = 0.25", f"\nw = {b} * 1.0")
        change = self.choice(
            f"{b}{index} = {x.name}{index}",
            f"{b} += {x.name}",
            f"np.multiply({x.name}, {b}, out={b})",
            f"np.sin({x.name}{index}, out={b}{index})",
            f"{b}.reshape(-1)[::2] = {x.name}.reshape(-1)[::2] * 2.0",
            f"{b}.T[...] = {x.name}.T * 0.5",
            f"np.copyto({b}, np.cos({x.name}))",
            f"for i in range(min({x.shape[0]}, 5)):\n    {b}[i] = {x.name}[-1 - i] * (i + 0.5)",
            f"{b}.flat[{self.random.randrange(x.size)}] = np.sum({x.name}) / {x.size}",
            f"row = {b}[0]\n{b}[-1] += {x.name}[0]\n{b}[0] = row + {x.name}[-1]",
            f"{b}[{b} > 0.4] = 0.1\n{b} += np.asarray({x.name}) * 0.5",
        )
        self.keep(f"{b} = {make}{before}\n{change}", (b, True, True))

    def write_gathered_numbers(self):
        """A list of numbers made an array."""
        x = self.array(1, 1)
        items = [f"{x.name}[{self.random.randrange(x.size)}]" for _ in range(3)]
        items[self.random.randrange(3)] = self.choice("1.0", "np.sum({0})", "2", "{0}[0] ** 2")
        items = [item.format(x.name) for item in items]
        text = self.choice(
            f"[{', '.join(items)}]", f"[[{', '.join(items)}], [0.5, 1, {items[0]}]]",
            f"list({x.name}[:5])", f"[v * 2.0 for v in {x.name}[:4]]",
        )  # fmt: skip
        self.value(f"np.array({text})")

    def write_loop(self):
        """A value that is carried through the turns of a loop, none of which magnifies errors."""
        x = self.pick(lambda known: known.size <= 5000, traced=True)
        c = self.fresh("c")
        step = self.choice(
            f"{c} = np.tanh({c} * 0.9 + {x.name} * i)",
            f"{c} = {c} + np.sin({c}) * 0.1\n    if i % 2 == 0:\n"
            f"        {c} = {c} * np.tanh({x.name})",
            f"{c} = {c} - ({c} * {c} - 2.0) / (2.0 + np.abs(2 * {c}))",
            f"if i == 2:\n        continue\n    {c} = np.cos({c} * 0.9 + {x.name})",
        )
        turns = self.random.randint(1, 12)
        head = f"for i in range({turns}):"
        if self.often(25):
            self.keep(
                f"{c} = {x.name}\ni = 0\nwhile i < {turns}:\n    i += 1\n    {step}",
                (c, True, False),
            )
        else:
            self.keep(f"{c} = {x.name}\n{head}\n    {step}", (c, True, False))

    def write_scan(self):
        x = self.array(1, 2, where=lambda known: known.shape[0] > 1)
        h, s = self.fresh("h"), self.fresh("s")
        self.keep(
            f"{h}, {s} = wg.scan(lambda h, v: (np.tanh(0.5 * h + v), h * v), "
            f"{x.name}[0] * 0.5, {x.name})",
            (h, True, False),
            (s, True, False),
        )

    def write_helper(self):
        """Helpers, recursion, comprehensions."""
        x = self.array(where=lambda known: known.size <= 2000)
        name = self.fresh("f")
        n = x.shape[0]
        text = self.choice(
            f"def {name}(a):\n    if len(a) <= 2:\n        return a[0] * a[-1]\n"
            f"    h = len(a) // 2\n    return np.sin({name}(a[:h])) + {name}(a[h:])",
            f"def {name}(a, depth={self.random.randint(1, 4)}):\n"
            f"    return a if depth == 0 else np.tanh({name}(a, depth - 1) + a)",
            f"def {name}(a):\n"
            f"    return np.stack([np.sum(a[i] * a[-1 - i]) for i in range({min(n, 9)})])",
            f"def {name}(a):\n    rows = [r * k for k, r in enumerate(a)]\n"
            "    return sum(rows[:9])",
            f"def {name}(a):\n    a = a.copy()\n    a[0] = a[-1]\n    a[1:] *= 0.5\n    return a",
        )
        v = self.fresh()
        self.keep(f"{text}\n{v} = {name}({x.name})", (v, True, False))

    def write_transformed(self):
        """A transform inside of the program, which is transformed itself."""
        x = self.array(where=lambda known: known.size <= 2000)
        inner = self.choice(
            "lambda a: np.sin(a) * a", "lambda a: np.tanh(a * 0.5) + a**2",
            "lambda a: np.cumsum(np.cos(a))", "lambda a: a / (1.0 + np.sum(a * a))",
        )  # fmt: skip
        self.value(
            self.choice(
                f"wg.checkpoint({inner})({x.name})",
                f"wg.grad(lambda b: np.sum(np.sin(({inner})(b))))({x.name})",
                f"wg.vmap({inner})({x.name})",
                f"wg.jvp({inner}, ({x.name},), (np.cos({x.name}),))[1]",
                f"wg.vmap(lambda b: np.sum(({inner})(b)))({x.name})",
            )
        )

    # ------------------------------------------------------------ the whole

    def write_line(self):
        with contextlib.suppress(RefusedError):
            getattr(self, "write_" + self.random.choice(KINDS))()

    def finish(self):
        results = [known for known in self.variables.values() if known.traced]
        last = results[-1].name
        others = [known.name for known in results if self.often(15)]
        text = f"return {last}" if not others else f"return [{', '.join([last, *others])}]"
        body = "\n".join([*self.lines, text])
        indented = "\n".join(f"    {line}" for line in body.split("\n"))
        outside = "".join(f"{line}\n" for line in self.outside)
        source = f"{outside}def program({', '.join(self.arguments)}):\n{indented}\n"
        single = any(
            np.asarray(known.value).dtype == np.float32 for known in self.variables.values()
        )
        return Program(source, self.inputs, single, self.decides, self.modules)


OWN = [name for kind in (Writer, MoreLines, Habits) for name in vars(kind)]
KINDS = [name.removeprefix("write_") for name in OWN if name.startswith("write_")]
KINDS.remove("line")
KINDS += ["smooth", "pair", "pair", "into", "view", "reduction", "laid_flat"]
KINDS += ["held_twice", "statement"]


def broadcasts(*shapes):
    try:
        return np.prod(np.broadcast_shapes(*shapes)) <= SIZE_LIMIT
    except ValueError:
        return False


def harmless(value):
    """Whether a value is finite, of moderate size, and not empty."""
    value = np.asarray(value)
    if value.dtype.kind not in "fiub" or not 0 < value.size <= SIZE_LIMIT:
        return False
    return bool(np.all(np.abs(value) < 1e3))


def write_program(seed, most=9):
    writer = Writer(seed)
    wanted = writer.random.randint(1, most)
    for _ in range(4 * wanted):
        if len(writer.lines) < wanted:
            writer.write_line()
    return writer.finish()
