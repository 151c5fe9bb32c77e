"""Lines as people write them who think of arrays as memory: names for parts, orders, swaps.

Views of what lies in another order, parts that are written to under a condition, names that change
places, masks that are joined, loops with counters, functions in functions, early returns.
"""


class Habits:
    """Lines that `Writer` writes beside its own."""

    def write_laid_flat(self):
        """Flat arrays of what may lie in another order: views or copies, as NumPy has it."""
        x = self.array(2, 3, where=lambda known: known.size <= 2000)
        v, w, name = self.fresh(), self.fresh("w"), x.name
        turned = self.choice(
            f"{name}.T * 0.5", f"{name} * 1.0", f"np.swapaxes({name}, 0, -1) + {name}.T",
            f"np.sin({name}.T)", f"{name}.T.copy()", f"np.copy({name}.T)", f"np.array({name}.T)",
            f"np.where({name}.T > 9.0, 0.0, {name}.T)", f"{name}.T.astype(np.float64)",
            f"np.moveaxis({name}, 0, -1) * {name}.sum()", f"np.asfortranarray({name}) * 1.0",
            f"np.sum({name}[None] * 0.5, axis=0).T", f"{name}[:, ::-1].T * 2.0",
        )  # fmt: skip
        flat = self.choice(
            "{0}.ravel()", "{0}.reshape(-1)", "{0}.T.ravel()", "{0}.reshape(-1, 1)",
            "{0}[1:].reshape(-1)", "np.ravel({0})", "{0}.ravel('F')", "{0}.ravel('K')",
            "{0}.T.reshape(-1)", "np.ascontiguousarray({0})", "{0}.flatten()", "{0}[::-1].ravel()",
            "{0}.reshape({0}.shape[0], -1)", "{0}.reshape(-1, {0}.shape[-1])",
        ).format(v)  # fmt: skip
        change = self.choice(
            f"{w} += 0.5", f"{w}[...] = np.cos({w})", f"{w}[::2] *= 0.5", f"{v}[0] = 0.25",
            f"np.add({w}, 0.25, out={w})", f"{v} *= 0.5\n{w}[0] = 0.125", f"{w}[-1] -= {v}[0, 0]",
        )  # fmt: skip
        self.keep(f"{v} = {turned}\n{w} = {flat}\n{change}", (v, True, True), (w, True, False))

    def write_part_under_condition(self):
        """Parts of an array that have names, written to where a value says so."""
        x = self.array(1, 2, where=lambda known: known.shape[0] >= 2 and known.size <= 500)
        v, w = self.fresh(), self.fresh("w")
        test = self.condition(x)
        self.decides = True
        part = self.choice(
            f"{v}[0:1]", f"{v}[1:]", f"{v}[::-1]", f"{v}.T", f"{v}[..., :1]", f"{v}.reshape(-1)",
            f"{v}[None][0]", f"{v}.ravel()[1:]",
        )  # fmt: skip
        change = self.choice(f"{w} += 0.5", f"{w}[...] = np.sin({w})", f"{w}[0] *= 0.5")
        self.keep(
            f"{v} = {x.name} * 1.0\n"
            + self.choice(
                f"if {test}:\n    {w} = {part}\n    {change}",
                f"if {test}:\n    {w} = {part}\n    {change}\nelse:\n    {v}[0] = 0.25",
                f"{w} = {part}\nif {test}:\n    {change}",
                f"for i in range(3):\n    {w} = {part}\n    {change}",
                f"i = 0\nwhile i < 3 and {test}:\n    {w} = {part}\n    {change}\n    i += 1",
                f"if {test}:\n    for row in {v}[:4]:\n        row {self.word('+= *=')} 0.5"
                if len(x.shape) > 1
                else f"if {test}:\n    {v}[1:] += {v}[:-1]",
            ),
            (v, True, True),
        )

    def write_swapped(self):
        """Names that change places, and two names of one array."""
        x = self.array(1, 2, where=lambda known: known.size <= 1000)
        a, b, name = self.fresh("a"), self.fresh("b"), x.name
        self.keep(
            self.choice(
                f"{a}, {b} = {name} * 0.5, np.cos({name})\n{a}, {b} = {b}, {a} + {b}",
                f"{a} = {b} = {name} * 1.0\n{a}[0] = 0.5\n{b} = {b} + {a}",
                f"{a} = {b} = np.zeros({x.shape})\n{b} += {name}\n{a} = {a} * 2.0",
                f"{a}, {b} = {name} * 0.5, {name} * 2.0\nfor i in range(5):\n"
                f"    {a}[...] = np.sin({b}) * 0.9\n    {a}, {b} = {b}, {a}",
                f"{a} = {name} * 1.0\n{b} = {a}\n{a} = {a} + 1.0\n{b} *= 0.5",
                f"{a} = {name} * 1.0\n{b} = {a}\n{a} += 1.0\n{b} *= 0.5",
                f"{a} = [{name} * k for k in range(3)]\n{a}[0], {a}[2] = {a}[2], {a}[0]\n"
                f"{b} = {a}[0] - {a}[1]\n{a} = {a}[2] + {b}",
                f"{a} = {name}.copy()\n{a}[0], {a}[-1] = {a}[-1] * 1.0, {a}[0] * 0.5\n"
                f"{b} = {a}[::-1]",
            ),
            (a, True, False),
            (b, True, False),
        )

    def write_joined_masks(self):
        """Masks joined by `&`, `|` and `~`, and chains of choices."""
        x = self.array()
        name, c = x.name, self.fresh("c")
        low, high = self.choice((-0.5, 0.5), (0.0, 0.75), (-0.25, 0.1))
        self.away_from(f"({name} - {low}) * ({name} - {high})")
        mask = self.choice(
            f"({name} > {low}) & ({name} < {high})", f"~({name} > {low}) | ({name} > {high})",
            f"np.logical_and({name} >= {low}, ~({name} >= {high}))",
            f"({name} > {low}) ^ ({name} > {high})",
        )  # fmt: skip
        self.keep(
            self.choice(
                f"{c} = np.where({mask}, {name}, np.where({name} < {low}, {low}, {name} * 0.5))",
                f"{c} = {name}.copy()\n{c}[{mask}] = 0.5",
                f"{c} = {name}.copy()\n{c}[{mask}] *= {name}[{mask}]",
                f"{c} = {name} * 1.0\nm = {mask}\n{c}[m] = 0.25\n{c}[~m] += 0.5",
                f"{c} = np.sum({name}, axis=0, where={mask}, keepdims=True) + {name}",
                f"{c} = np.add({name}, 1.0, out={name} * 0.5, where={mask})",
                f"{c} = np.clip({name}, {low}, None) + np.clip({name}, None, {high})",
                f"{c} = np.any({mask}, axis=0) * {name}",
                f"{c} = np.count_nonzero({mask}, axis=-1, keepdims=True) * 0.1 + {name}",
            ),
            (c, True, True),
        )

    def write_function_in_function(self):
        """Defaults, keyword arguments, early returns, tuples and dictionaries that come back."""
        x = self.array(1, 2, where=lambda known: known.size <= 1000)
        f, v, name = self.fresh("f"), self.fresh(), x.name
        test = self.condition(x)
        self.decides = True
        self.keep(
            self.choice(
                f"def {f}(a, scale=0.5, *, shift=0.25):\n    return a * scale + shift\n"
                f"{v} = {f}({name}) - {f}({name}, 2.0, shift=0.0)",
                f"def {f}(a):\n    if {test}:\n        return np.tanh(a)\n    return a * 0.5\n"
                f"{v} = {f}({name}) + {name}",
                f"def {f}(a):\n    for i in range(4):\n        if np.sum(a * a) < 0.5 + i:\n"
                f"            return a + i\n        a = a * 0.7\n    return a\n{v} = {f}({name})",
                f"def {f}(a):\n    def g(b, k=2):\n        return b * k + a\n"
                f"    return g(a), g(a, 0.5)\n"
                f"{v}, rest = {f}({name})\n{v} = {v} - rest",
                f"def {f}(a):\n    return {{'sum': a.sum(axis=0, keepdims=True), 'all': a}}\n"
                f"found = {f}({name})\n{v} = found['all'] - found['sum']",
                f"def {f}(a, out):\n    out[...] = np.sin(a)\n    return None\n"
                f"{v} = np.zeros({x.shape})\n{f}({name}, {v})",
                f"def {f}(a):\n    part = a[0:1]\n    part += 0.5\n"
                f"{v} = {name} * 1.0\n{f}({v})\n{f}({v}[::-1])",
                f"{f} = [lambda a, k=k: a * k for k in (0.5, 1.5)]\n"
                f"{v} = np.stack([g({name}) for g in {f}])",
                f"def {f}(*parts, **names):\n    return sum(parts) * names.get('k', 0.5)\n"
                f"{v} = {f}({name}, {name} * 2.0, k=0.25) + {f}({name})",
            ),
            (v, True, False),
        )

    def write_held_twice(self):
        """Arrays and views of them, by several names, in lists, dictionaries and objects, written
        to by one and read by the other in a loop."""
        x = self.array(2, 2, where=lambda known: known.size <= 100)
        a, b, c, name = self.fresh("a"), self.fresh("b"), self.fresh("c"), x.name
        n = min(x.shape)
        square = f"{name}[:{n}, :{n}]"
        start = self.choice(
            f"np.array({square})", f"np.zeros(({n}, {n}))", f"np.ones(({n}, {n}))",
            f"{square} * 0.5", f"np.tile({name}[0, :{n}], ({n}, 1))", f"wnp.zeros(({n}, {n}))",
        )  # fmt: skip
        view = self.choice(f"{a}.T", f"{a}[::-1]", f"{a}[:]", f"{a}[:, ::-1]", f"np.flip({a}, 0)")
        held, part = self.choice(
            (f"{b} = {view}", b), (f"{b} = [{view}, {name}]", f"{b}[0]"),
            (f"{b} = {{'a': {view}, 'k': 0.5}}", f"{b}['a']"),
            (f"class Held{b}:\n    pass\n{b} = Held{b}()\n{b}.a = {view}", f"{b}.a"),
        )  # fmt: skip
        i, j = self.choice(f"k % {n}", f"(k + 1) % {n}", "0", "-1"), f"k % {n}"
        write = self.choice(
            f"{part}[{i}] = np.tanh({a}[{j}]) * 0.5", f"{part}[{i}, {j}] += 0.25 * {c}",
            f"{part}[...] = np.tanh({a} + {square})", f"{a}[{i}] = np.sin({part}[{j}] + 0.5)",
            f"{a} += 0.01 * k", f"{part}[{i}, {j}] = {name}[0, {j}]",
            f"{part}[:, {i}] *= 0.5", f"{a}[{j}, {i}] -= 0.5 * {part}[{i}, {j}]",
        )  # fmt: skip
        read = f"{c} = np.tanh({c} * 0.5 + {self.choice(part, a)}[{i}, {j}])"
        rest = self.choice("", f"    {part} = {a}[:]\n", f"    {part} = {part} * 0.5\n")
        self.keep(
            f"{a} = {start}\n{held}\n{c} = {name}[0, 0]\n"
            f"for k in range({self.choice(2, 3, 9, 12)}):\n    {write}\n    {read}\n{rest}",
            (a, True, False),
            (c, True, False),
        )
        self.value(f"{part} * 1.0", writable=False)

    def write_statement(self):
        """`try`, `with`, `match`, `:=`, `continue` behind `elif`, `del`, starred targets."""
        found = self.array(where=lambda known: 3 <= known.size <= 2000)
        v, s, name = self.fresh(), self.fresh("s"), self.fresh()
        self.keep(f"{name} = np.ravel({found.name})[:9] * 1.0", (name, True, True))
        x = self.variables[name]
        self.away_from(f"{name} * ({name} - 0.5)")
        self.decides = True
        self.keep(
            self.choice(
                f"{s} = 0.0\nfor {v} in {name}:\n    if {v} > 0.5:\n        {s} = {s} + 1.0\n"
                f"    elif {v} < 0:\n        continue\n    {s} = {s} * 0.5 + {v}",
                f"{s} = 0.0\nfor i in range({x.size}):\n    try:\n        if {name}[i] < 0:\n"
                f"            continue\n        {s} += {name}[i]\n    finally:\n"
                f"        {s} = {s} * 0.5\n    {s} += 0.25",
                f"try:\n    {s} = {name} * 2.0\n    raise KeyError\nexcept KeyError:\n"
                f"    {s} = {s} + 1.0\nelse:\n    {s} = {name}\nfinally:\n    {s} = {s} * 0.5",
                f"with np.errstate(all='ignore'):\n    if {name}[0] > 0:\n"
                f"        {s} = {name} * 0.5\n    else:\n        {s} = np.cos({name})",
                f"if ({v} := np.sum({name} * {name})) > 0:\n    {s} = {name} * {v}\nelse:\n"
                f"    {s} = {name}",
                f"{s} = {name}\nwhile ({v} := np.sum({s} * {s})) > 0.4:\n    {s} = {s} * 0.6",
                f"match {name}.shape:\n    case (n, m):\n        {s} = {name}\n    case (n,):\n"
                f"        {s} = {name} * n",
                f"first, *{v}, last = {name}\n{s} = first * last + sum({v})",
                f"{v} = [{name}, {name} * 2.0]\ndel {v}[0]\n{s} = {v}[0]",
                f"{s} = sum(v * k for k, v in enumerate({name}) if v > 0) + {name}[0]",
                f"{s} = 0.0\nfor {v} in {name}:\n    if not 0 < {v} < 0.5:\n"
                f"        {s} = {s} - {v}\n        continue\n    {s} = {s} * {v}",
            ),
            (s, True, False),
        )

    def write_stepped(self):
        """Augmented assignments through steps, dots and new axes."""
        x = self.owned(where=lambda known: known.size <= 2000)
        name, rank = x.name, len(x.shape)
        parts = [
            f"{name}[::-2]", f"{name}[..., ::-1]", f"{name}[1::2]", f"{name}[None, ..., :1]",
            f"{name}[::-1][::2]", f"{name}[..., None][..., 0]", f"{name}.T[::2]",
            f"np.swapaxes({name}, 0, {rank - 1})[:1]", f"np.moveaxis({name}, 0, -1)[..., -1]",
        ]  # fmt: skip
        part, other = self.random.choice(parts), self.random.choice(parts)
        self.keep(
            self.choice(
                f"{part} += 0.5",
                f"{part} *= np.cos({part})",
                f"{part}[...] = 0.25",
                f"{part} -= {part} * 0.5\n{other} += 0.125",
                f"{name}[:] = {name}[::-1]",
                f"{name}[1:] += {name}[:-1]",
                f"{name}[:-1] -= {name}[1:] * 0.5",
                f"{name}[...] = {name} - {name}.mean(axis=0)",
                f"{name}[...] = np.add.reduce({name}, axis=0)",
                f"{name} += np.add.accumulate({name}, axis=0)[-1]",
            )
        )

    def write_counted(self):
        """Loops with counters, comprehensions that are stacked, ternaries, chained comparisons."""
        x = self.array(1, 2, where=lambda known: 2 <= known.shape[0] <= 40 and known.size <= 500)
        name, n, c, k = x.name, x.shape[0], self.fresh("c"), self.fresh("k")
        self.keep(
            self.choice(
                f"{k} = 0\n{c} = {name}[0] * 0.0\nwhile {k} < {min(n, 7)}:\n"
                f"    {c} = {c} + {name}[{k}] * (1.0 if {k} % 2 else -1.0)\n    {k} += 1",
                f"{c} = np.stack([{name}[i] * i if 0 < i < 4 else -{name}[i] for i in range({n})])",
                f"{c} = np.array([{name}[-1 - i] for i in range({min(n, 5)})])",
                f"{c} = np.concatenate([r[None] * 0.5 for r in {name}] + [{name}[:1]])",
                f"{c} = sum(a * b for a, b in zip({name}[1:9], {name}[:8]))",
                f"{c} = np.zeros({x.shape})\nfor {k}, r in enumerate({name}):\n"
                f"    {c}[-1 - {k}] = r\n    {c}[{k}] += 0.5 * r",
                f"{c} = {name} * 1.0\nfor i in range({n - 1}, 0, -1):\n"
                f"    {c}[i - 1] += 0.5 * {c}[i]",
                f"{c} = {name} * 1.0\nfor i in range(3):\n    for j in range(2):\n"
                f"        {c}[(i + j) % {n}] -= {c}[j] * 0.25",
                f"{c} = {{i: {name}[i] for i in range(2)}}\n{c} = {c}[0] - {c}[1]",
                f"{c} = [*{name}][::-1]\n{c} = {c}[0] * 2.0 + {c}[-1]",
            ),
            (c, True, False),
        )

    def write_complex(self):
        """Complex numbers on the way to real ones, and writes to them."""
        x = self.array(where=lambda known: known.size <= 1000)
        name, z = x.name, self.fresh("z")
        self.value(
            self.choice(
                f"np.abs({name} * (1 + 2j) + 3.0)",
                f"(np.exp(1j * {name}) * np.conj(1j + {name})).real",
                f"np.real(({name} + 0.5j) ** 2) + np.imag(1j * {name})",
                f"(np.cumsum({name} * 1j, axis=0) / {x.shape[0]}).imag",
                f"np.where({name} > -100, {name} + 1j, 0).imag * {name}",
            ),
            writable=False,
        )
        self.keep(
            f"{z} = np.zeros({x.shape}, complex)\n{z}[...] = {name} * 1j\n{z}[0] += 0.5\n"
            f"{z} = ({z} * {z}).real",
            (z, True, False),
        )
