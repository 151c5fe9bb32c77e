"""More lines of random programs: what decides, what is captured, and what is seldom written.

Decisions by values, closures, `where=` and `out=`, masks, integers beside floats, batches of
matrices, sums of products of any letters, transforms inside of transforms, loops over trees.
"""

import string

import numpy as np

BATCH_LIMIT = 12  # rows of the matrices of a batch


class MoreLines:
    """Lines that `Writer` writes beside its own."""

    # ------------------------------------------------------------ decisions by values

    def condition(self, known):
        """The text of a condition that depends on values and does not change close by."""
        number = self.choice(
            f"np.sum({known.name})", f"np.max({known.name})", f"{known.name}.mean()",
            f"np.sum({known.name} * {known.name})", f"{known.name}.reshape(-1)[0]",
        )  # fmt: skip
        limit = self.choice(-0.5, 0.0, 0.25, 1.0)
        self.away_from(f"{number} - {limit}")
        return f"{number} {self.word('> < >= <=')} {limit}"

    def write_decision(self):
        x = self.pick(lambda known: known.size <= 2000, traced=True)
        test, other = self.condition(x), self.condition(x)
        v = self.fresh()
        self.decides = True
        self.keep(
            self.choice(
                f"if {test}:\n    {v} = np.sin({x.name})\nelse:\n    {v} = {x.name} * 0.5",
                f"{v} = np.cos({x.name})\nif {test}:\n    {v} = {v} + {x.name}",
                f"if {test}:\n    {v} = {x.name} * 2.0\nelif {other}:\n    {v} = -{x.name}\n"
                f"else:\n    {v} = {x.name} ** 2",
                f"{v} = {x.name} * 1.0\nif {test} and not {other}:\n    {v} *= 0.5\n"
                f"elif {test} or {other}:\n    {v} += 0.25",
                f"{v} = (np.sin({x.name}) if {test} else {x.name} * {x.name})",
                f"{v} = {x.name} * 1.0\nfor i in range(4):\n    if {test}:\n"
                f"        {v} = {v} * 0.5 + i\n    else:\n        break",
                f"def helper{v}(a):\n    if {test}:\n        return np.tanh(a)\n"
                f"    for i in range(3):\n        a = a * 0.5\n        if {other}:\n"
                f"            return a + i\n    return a\n{v} = helper{v}({x.name})",
            ),
            (v, True, False),
        )

    def write_search(self):
        """Loops whose number of turns depends on values."""
        x = self.pick(lambda known: known.size <= 500, traced=True)
        c, n = self.fresh("c"), self.fresh("n")
        self.decides = True
        total = f"np.sum({c} * {c})"
        self.keep(
            f"{c} = {x.name} * 1.0\n{n} = 0\n"
            + self.choice(
                f"while {total} > 0.3:\n    {c} = {c} * 0.6\n    {n} += 1",
                f"while {n} < 6:\n    {n} += 1\n    {c} = np.sin({c}) * 0.8\n"
                f"    if {total} < 0.2:\n        break",
                f"for k in range(7):\n    {c} = {c} * 0.7\n    if {total} < 0.4:\n"
                f"        continue\n    {n} = {n} + 1\n    {c} = {c} - 0.01 * k",
                f"while True:\n    {c} = np.tanh({c}) * 0.75\n    {n} += 1\n"
                f"    if {total} < 0.25 or {n} > 8:\n        break",
                f"while {total} > 0.3 and {n} < 20:\n    {c} = {c} * 0.6\n    {n} += 1\n"
                f"else:\n    {c} = {c} + 0.125",
            )
            + f"\n{c} = {c} * (1.0 + {n})",
            (c, True, False),
        )

    def write_structured(self):
        """`cond`, `switch`, `fori_loop`, `while_loop` and `scan` with trees."""
        x = self.array(1, 2, where=lambda known: known.size <= 500)
        v, name = self.fresh(), x.name
        test = self.condition(x)
        self.keep(
            f"{v} = "
            + self.choice(
                f"wg.cond({test}, lambda a, b: a * b, lambda a, b: a + np.sin(b), {name}, {name})",
                f"wg.cond({test}, lambda t: {{'a': t['a'] * 2.0, 'b': t['b']}}, "
                f"lambda t: {{'a': t['b'], 'b': t['a'] - 1.0}}, "
                f"{{'a': {name}, 'b': np.cos({name})}})['a']",
                f"wg.switch(({test}) + 1, [lambda a: a, lambda a: a * 0.5, "
                f"lambda a: np.tanh(a)], {name})",
                f"wg.fori_loop(0, 5, lambda i, c: (c[0] * 0.5 + c[1], np.sin(c[1]) * (i + 1)), "
                f"({name}, {name} * 0.25))[0]",
                f"wg.fori_loop(1, 4, lambda i, c: {{'s': c['s'] + {name} * i, 'n': c['n'] + 1}}, "
                f"{{'s': {name}, 'n': 0}})['s']",
                f"wg.while_loop(lambda c: np.sum(c[0] ** 2) > 0.3, "
                f"lambda c: (c[0] * 0.6, c[1] + 1), ({name}, 0))[0]",
                f"wg.scan(lambda c, t: ((c[0] * 0.5 + t[0], c[1] - t[1]), c[0] * t[1]), "
                f"({name}[0], {name}[-1]), ({name}, np.cos({name})))[1]",
                f"wg.scan(lambda c, t: (np.tanh(c + t), c), {name}[0], {name}, reverse=True)[1]",
                f"wg.scan(lambda c, _: (np.sin(c) * 0.9, None), {name}, length=4)[0]",
            ),
            (v, True, False),
        )

    # ------------------------------------------------------------ what is captured

    def write_closure(self):
        """Functions that read variables of the program, which change between their calls."""
        x = self.array(where=lambda known: known.size <= 2000)
        v, k, f = self.fresh(), self.fresh("k"), self.fresh("f")
        name = x.name
        self.keep(
            self.choice(
                f"{k} = 0.5\ndef {f}(a):\n    return np.sin(a) * {k}\n"
                f"{v} = {f}({name})\n{k} = 2.0\n{v} = {v} + {f}({name})",
                f"{k} = np.array([0.5, 1.5])\n{f} = lambda a: a * {k}[0] + {k}[1]\n"
                f"{v} = {f}({name})\n{k} *= 2.0\n{v} = {v} * {f}({name})",
                f"{f} = [lambda a: a * i for i in range(3)]\n{v} = {f}[0]({name}) + {name}",
                f"{f} = [lambda a, i=i: a * (i + 0.5) for i in range(3)]\n"
                f"{v} = sum(g({name}) for g in {f})",
                f"def make{k}():\n    {k} = 0\n    def {f}(a):\n        nonlocal {k}\n"
                f"        {k} += 1\n        return a * {k}\n    return {f}\n"
                f"{f} = make{k}()\n{v} = {f}({name}) + {f}({name})",
                f"{k} = []\nfor i in range(3):\n    {k}.append({name} * i)\n{k}[1] = {k}[2]\n"
                f"{v} = {k}[0] + {k}[1]",
                f"{k} = {{'a': {name}}}\n{k}['b'] = np.cos({k}['a'])\n{k}['a'] = {k}['b'] * 0.5\n"
                f"{v} = {k}['a'] + {k}['b']",
                f"class Box{k}:\n    scale = 0.5\n    def __init__(self, a):\n        self.a = a\n"
                f"    def read(self):\n        return self.a * self.scale\n"
                f"{k} = Box{k}({name})\n{v} = {k}.read()\n{k}.scale = 1.5\n{v} = {v} + {k}.read()",
            ),
            (v, True, False),
        )

    def write_module_array(self):
        """An array of the module, which the checks change after the function was compiled."""
        x = self.array(where=lambda known: known.size <= 2000)
        g, n = self.fresh("G"), x.shape[-1]
        self.preamble(f"{g} = {self.choice('np.cos', 'np.sin')}(np.arange({n}.0) + 1.0)")
        self.modules.append(g)
        self.value(
            self.choice(
                f"{x.name} * {g}",
                f"{x.name} @ {g} / {n}",
                f"np.where({g} > 0.1, {x.name}, 0.5)",
                f"{x.name}[..., {g} > -2.0]",
                f"{x.name} + {g}.sum()",
                f"{x.name}[..., np.argsort({g})]",
            )
        )

    # ------------------------------------------------------------ values that nobody takes

    def write_untaken(self):
        """Sides of choices that are not finite where they are not taken."""
        x = self.pick(traced=True)
        self.away_from(x.name)
        name, low = x.name, self.choice(0.25, 0.5)
        self.away_from(f"{name} - {low}")
        self.value(
            self.choice(
                f"np.where({name} > 0, np.sqrt({name}), 0.5)",
                f"np.where({name} > {low}, np.log({name} - {low} + 0.01), {name})",
                f"np.where({name} == 0, 1.0, np.sin({name}) / {name})",
                f"np.where({name} < 0, 0.25, np.where({name} < {low}, {name}, {name} ** 1.5))",
                f"np.select([{name} > {low}, {name} > 0], [np.log({name}), {name} ** 0.5], -0.5)",
                f"np.where(np.isfinite(np.log({name})), np.log(np.abs({name}) + 1.0), {name})",
                f"np.where({name} > 0, {name}, 0.0) ** 1.5",
                f"np.nan_to_num(np.log({name}), nan=0.5, neginf=0.0)",
                f"np.divide(1.0, {name}, out=np.ones({x.shape}), where={name} > {low})",
            )
        )

    # ------------------------------------------------------------ writing in place

    def write_through_views(self):
        """What is written to a view of a view is in the array."""
        x = self.owned()
        v, name = self.fresh(), x.name
        last = f"{name}[..., ::2]"
        self.keep(
            self.choice(
                f"{v} = {name}[::2]\n{v} += 0.5",
                f"{v} = {name}.T\n{v}[0] *= 0.5\n{v}[-1:] -= 0.25",
                f"{v} = {last}\n{v}[...] = np.sin({v})",
                f"{v} = {name}[::-1][:2]\n{v} *= {v}",
                f"{v} = {name}.reshape(-1)\n{v}[::3] = 0.125\n{v}[1:] += {v}[:-1] * 0.5",
                f"{v} = {name}[None][0]\n{v} -= 0.25\n{name} *= 2.0",
                f"{v} = {name}.ravel()[1:]\n{v} += np.cos({v})",
                f"{v} = {name}.swapaxes(0, -1)[..., :1]\n{v} += {v}.sum()",
                f"{v} = {name}[0]\n{name}[-1] = {name}[0] * 0.5\n{v} = {v} + {name}[-1]",
                f"{v}, {name}[0] = {name}[-1] * 1.0, {name}[-1] + 0.5",
            )
        )
        self.learn(v, traced=True, writable=False)

    def write_out(self):
        """Results that go where `out=` says, perhaps only some of them."""
        x = self.owned(where=lambda known: known.value.dtype == np.float64)
        name, b = x.name, self.fresh("b")
        self.away_from(f"{name} - 0.25")
        shape = tuple(x.shape)
        self.keep(
            f"{b} = {self.choice('np.zeros', 'np.ones')}({shape})\n"
            + self.choice(
                f"np.sin({name}, out={b})",
                f"np.add({name}, 0.5, out={name})\n{b} += {name}",
                f"np.multiply({name}, {name}, out={b}, where={name} > 0.25)",
                f"np.cumsum({name}, axis=0, out={b})",
                f"np.clip({name}, -1.0, 1.0, out={b})\n{b} += {name}",
                f"np.exp(-{name} * {name}, {b})\nnp.subtract({b}, {name}, out={b})",
                f"{b}[...] = np.sum({name}, axis=0)\nnp.negative({b}[:1], out={b}[:1])",
                f"np.copyto({b}, {name}, where={name} > 0.25)",
                f"np.putmask({b}, {name} > 0.25, {name})",
                f"np.matmul({name}[..., None], {name}[..., None, :1] * 0.5, out={b}[..., None])",
                f"np.maximum({name}, 0.25, out={b})\nnp.sqrt({b}, out={b})",
                f"np.where({name} > 0.25, {name}, {b}).sum(axis=0, out={b}[0])",
                f"np.mean({name}, axis=-1, out={b}[..., 0])",
            ),
            (b, True, True),
        )

    def write_constant_mask(self):
        """Masks and places that are known: shapes may depend on them."""
        x = self.array()
        n = x.shape[0]
        mask = [self.often(60) for _ in range(n)] if n <= 40 else None
        m = self.fresh("m")
        made = f"np.array({mask})" if mask else f"np.arange({n}) % 3 != 1"
        self.keep(f"{m} = {made}", (m, None, False))
        name = x.name
        text = self.choice(
            f"{name}[{m}]", f"{name}[np.nonzero({m})]", f"{name}[np.flatnonzero({m})] * 2.0",
            f"np.compress({m}, {name}, axis=0)", f"{name}[~{m}] ** 2",
            f"{name}[np.where({m})[0][::-1]]", f"np.delete({name}, np.flatnonzero({m})[:1], 0)",
            f"np.insert({name}, np.flatnonzero({m})[:2], 0.5, axis=0)",
            f"np.append({name}, {name}[{m}], axis=0)",
            f"np.extract({m}, {name}[..., 0] if {name}.ndim > 1 else {name})",
        )  # fmt: skip
        if self.often(30):
            c = self.fresh("c")
            change = self.choice(
                f"{c}[{m}] = 0.5", f"{c}[{m}] *= {name}[{m}]", f"{c}[~{m}] += 1.0",
                f"np.put({c}, [0, -1], 0.75)",
            )  # fmt: skip
            self.keep(f"{c} = {name}.copy()\n{change}", (c, True, True))
        self.value(text)

    # ------------------------------------------------------------ dtypes

    def write_integers(self):
        """Small and unsigned integers beside floats."""
        x = self.array()
        n, name = x.shape[-1], x.name
        dtype = self.word("int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool_")
        self.away_from(f"{name} * 4 - np.round({name} * 4)")
        self.away_from(f"{name} * 4 - np.floor({name} * 4)")
        counts = f"np.arange({n}).astype(np.{dtype})"
        self.value(
            self.choice(
                f"{name} * {counts} / {n}",
                f"{name} + np.{dtype}(1)",
                f"np.floor({name} * 4).astype(np.int8) * {name}",
                f"({name} * 4).astype(np.int32) % 3 + {name}",
                f"np.where({counts} > 1, {name}, {name} * {counts} / {n})",
                f"np.sum({name} > 0.25, axis=0) * {name}",
                f"({name} > 0) * np.{dtype}(1) + {name}",
                f"np.round({name} * 4).astype(np.int16) // 2 * 0.5 + {name}",
                f"np.cumsum({name} > 0.25, axis=-1, dtype=np.{dtype}) / {n} + {name}",
                f"{name} ** ({counts} % 3).astype(np.int8)",
                f"np.hypot({name}, np.ones({n}, np.{dtype}))",
                f"({counts} & 1 if '{dtype}' != 'bool_' else {counts}) + {name}",
                f"np.arctan2({name}, {counts} + np.float32(1.5))",
                f"np.array(2, np.{dtype}) * {name} + np.float32(0.5)",
                f"np.maximum({name}, np.{dtype}(0)) + 0.5 * {name}",
            )
        )

    def write_chosen_place(self):
        """Elements at places that values decide."""
        x = self.array(where=lambda known: known.size <= 100)
        axis = self.random.randrange(len(x.shape))
        self.away_from(f"np.diff(np.sort({x.name}, axis=None))")
        name, n = x.name, x.shape[0]
        self.value(
            self.choice(
                f"{name}.reshape(-1)[np.argmax({name})]",
                f"np.take_along_axis({name}, np.argmin({name}, {axis}, keepdims=True), {axis})",
                f"{name}[np.argsort({name}.reshape({n}, -1)[:, 0])]",
                f"np.sort({name}, axis=None)[::-1]",
                f"np.partition({name}, {x.shape[axis] // 2}, axis={axis})"
                f".take({x.shape[axis] // 2}, axis={axis})",
                f"np.searchsorted(np.linspace(-1, 1, 9), {name}) * {name} / 9",
                f"np.quantile({name}, [0.1, 0.5, 0.85], axis={axis})",
                f"np.median({name})",
                f"np.max({name}, axis={axis}, initial=0.0, where={name} < 0.5)",
                f"np.interp({name}, np.linspace(-2, 2, 5), np.cos(np.arange(5.0)))",
                f"np.digitize({name}, [-0.5, 0.1, 0.6]) + {name}",
                f"np.sum({name}, axis={axis}, where={name} > 0.1)",
                f"np.mean({name}, axis={axis}, where={name} > -100)",
                f"np.argsort(np.argsort({name}, axis={axis}), axis={axis}) * {name} / 10",
            )
        )

    # ------------------------------------------------------------ arrays of all shapes

    def write_running_more(self):
        x = self.array(where=lambda known: known.size <= 100)
        axis = self.random.randrange(len(x.shape))
        name = x.name
        self.away_from(f"np.diff(np.sort({x.name}, axis=None))")
        self.value(
            self.choice(
                f"np.maximum.accumulate({name}, axis={axis})",
                f"np.minimum.accumulate({name}, axis={axis})",
                f"np.add.accumulate({name}, axis={axis})",
                f"np.add.reduce({name}, axis={axis})",
                f"np.multiply.reduce(np.cos({name}), axis={axis})",
                f"np.subtract.outer({name}.reshape(-1)[:30], {name}.reshape(-1)[:20])",
                f"np.nancumsum({name}, axis={axis})",
                f"np.diff({name}, axis={axis}, prepend=0.5)",
                f"np.trapezoid({name}, axis={axis})",
                f"np.prod(np.cos({name}), axis={axis})",
                f"np.cumprod(1.0 + 0.1 * {name}, axis={axis})",
                f"np.average({name}, axis={axis}, weights=np.arange({x.shape[axis]}) + 1.0)",
                f"np.linalg.norm({name}, axis={axis})",
            )
        )

    def write_padded(self):
        x = self.array()
        pads = [(self.random.randint(0, 2), self.random.randint(0, 3)) for _ in x.shape]
        mode = self.choice(
            "constant_values=0.5", "mode='edge'", "mode='reflect'", "mode='symmetric'",
            "mode='wrap'", "mode='linear_ramp', end_values=0.25", "mode='mean'",
            "mode='reflect', reflect_type='odd'", "constant_values=(0.5, -1)",
            "mode='symmetric', reflect_type='odd'", "mode='mean', stat_length=1",
        )  # fmt: skip
        self.value(f"np.pad({x.name}, {pads}, {mode})")

    def write_odd_shapes(self):
        """Axes of no and of one element, arrays without axes, many axes."""
        x = self.array(0, 4)
        name, rank = x.name, len(x.shape)
        texts = [
            f"{name} * np.array(0.5)", f"np.asarray(np.sum({name})) + {name}", f"{name}[()] * 2.0",
            f"{name}[..., None] * np.cos(np.arange(3.0))", f"np.atleast_2d({name})",
            f"np.array(0.5, np.float32) * {name}", f"np.squeeze({name}) + 0.0",
            f"{name} + np.zeros((1, 1))", f"np.broadcast_to({name}, {(2, *x.shape)})",
            f"np.sum({name}.reshape(-1)[:0]) + {name}", f"np.reshape({name}, (1, 1, -1))",
            f"{name} * np.ones((1,) * {rank})", f"np.expand_dims({name}, (0, -1))",
            f"np.array({name}.sum()) * {name}[None, None]", f"{name}.reshape(2, -1) if "
            f"{name}.size % 2 == 0 else {name}", f"np.float64(3.0) * {name} ** 0",
        ]  # fmt: skip
        if rank:
            axis = self.random.randrange(rank)
            texts += [
                f"np.concatenate([{name}, {name}[:0]], axis=0)",
                f"np.sum({name}[:0], axis=0) + {name}",
                f"np.prod({name}[1:1], axis=0) * {name}[:1]",
                f"np.stack([{name}, {name}[::-1]], axis={axis}).sum(axis={axis})",
                f"np.take({name}, [0], axis={axis})",
                f"np.array_split({name}, 3, axis={axis})[0] * 2.0",
                f"np.concatenate(np.split({name}, [1, 2], axis=0)[::-1], axis=0)",
                f"np.rot90(np.atleast_2d({name}), 1)", f"np.flip({name})",
                f"np.kron({name}.reshape(-1)[:6], np.array([1.0, -0.5]))",
                f"np.lib.stride_tricks.sliding_window_view({name}, 1, axis={axis})[..., 0] * 1.0",
                f"np.block([[{name}.reshape(1, -1), {name}.reshape(1, -1) * 2.0]])",
                f"np.cross({name}.reshape(-1)[:3], np.array([0.5, 1.0, -1.0])) if "
                f"{name}.size > 2 else {name}",
                f"np.roll({name}, (1, -2))", f"np.resize({name}, (3, 5))",
                f"np.tri({x.shape[-1]})[0] * {name}", f"np.tril(np.atleast_2d({name}), -1)",
                f"np.vander({name}.reshape(-1)[:4], 3)", f"np.column_stack([{name}, {name}])",
                f"np.apply_along_axis(np.sum, {axis}, {name})", f"np.einsum('...->...', {name})",
            ]  # fmt: skip
        self.value(self.random.choice(texts), writable=x.writable)  # many are views

    # ------------------------------------------------------------ products

    def write_letters(self):
        """A sum of products with letters drawn at random."""
        count = self.choice(1, 2, 2, 3)
        small = lambda known: known.size <= 2000 and max(known.shape, default=1) <= 40
        arrays = [self.array(0, 3, where=small) for _ in range(count)]
        lengths, terms = {}, []
        for known in arrays:
            term = ""
            for extent in known.shape:
                fitting = [letter for letter, n in lengths.items() if n == extent]
                letter = self.random.choice(fitting) if fitting and self.often(60) else None
                if letter is None:
                    letter = string.ascii_letters[len(lengths)]
                    lengths[letter] = extent
                term += letter
            terms.append(term)
        letters = sorted(set("".join(terms)))
        kept = [letter for letter in letters if self.often(45)]
        self.random.shuffle(kept)
        if np.prod([float(n) for n in lengths.values()]) > 200_000:
            return
        names = ", ".join(known.name for known in arrays)
        total = f"np.einsum('{','.join(terms)}->{''.join(kept)}', {names})"
        summed = int(np.prod([n for letter, n in lengths.items() if letter not in kept]))
        self.value(f"{total} / {summed}")

    def write_products_more(self):
        x = self.array(1, 3, where=lambda known: known.size <= 2000 and max(known.shape) <= 40)
        n, name = x.shape[-1], x.name
        texts = [
            f"np.inner({name}, {name}) / {n}", f"np.vdot({name}, {name}) / {x.size}",
            f"np.tensordot({name}, {name}, axes={len(x.shape)}) / {x.size}",
            f"np.tensordot({name}, np.cos(np.arange({n}.0)), axes=1)",
            f"np.matmul({name}, np.cos(np.arange({n}.0)))",
            f"np.linalg.multi_dot([np.atleast_2d({name}.reshape(-1, {n})), np.ones(({n}, 2)), "
            f"np.ones((2, 3))]) / {n}",
            f"np.correlate({name}.reshape(-1), [0.5, 1.0, -0.5], 'same')",
            f"np.convolve({name}.reshape(-1), [0.5, 1.0, -0.5], 'valid')",
            f"np.vecdot({name}, {name}) / {n}",
        ]  # fmt: skip
        if n > 1:  # one sample has no variance, of which NumPy warns
            texts.append(f"np.cov({name}.reshape(-1, {n}))")
        self.value(self.random.choice(texts))

    def write_batch_of_matrices(self):
        """Linear algebra of several matrices at once."""
        fits = lambda known: known.shape[-2] <= BATCH_LIMIT and known.size <= 2000
        x = self.array(2, 4, where=lambda known: len(known.shape) > 1 and fits(known))
        n, m, t = x.shape[-2], self.fresh("m"), f"np.tanh({x.name})"
        shift = f"np.diag(np.arange({n}.0) + 2.0)"
        self.keep(
            f"{m} = {t} @ np.swapaxes({t}, -1, -2) / {x.shape[-1]} + {shift}", (m, True, True)
        )
        right = f"np.cos(np.arange({2 * n}.0)).reshape({n}, 2)"
        flat = "(-1,)"
        self.value(
            self.choice(
                f"np.linalg.solve({m}, {right})",
                f"np.linalg.solve({m}, {m} * 0.5)",
                f"np.linalg.inv({m})",
                f"np.linalg.cholesky({m})",
                f"np.linalg.qr({m})[1]",
                f"np.linalg.qr({m})[0] ** 2",
                f"np.linalg.eigh({m})[0]",
                f"np.linalg.eigh({m})[1] ** 2",
                f"np.linalg.svd({m})[1]",
                f"np.linalg.svd({m} + 0.1 * np.tri({n}))[0] ** 2",
                f"np.linalg.slogdet({m})[1]",
                f"np.log(np.linalg.det({m}))",
                f"np.linalg.pinv({m})",
                f"np.linalg.norm({m}, axis=(-2, -1))",
                f"np.linalg.norm({m}, 2, axis=(-2, -1))",
                f"np.linalg.norm({m}, 'nuc', axis=(-2, -1))",
                f"np.linalg.matrix_power({m} * 0.2, 2)",
                f"np.diagonal({m}, axis1=-2, axis2=-1) * 1.0",
                f"np.trace({m}, axis1=-2, axis2=-1)",
                f"np.sort(np.linalg.eigvals({m} + 0.3 * np.tri({n})).real, axis=-1)",
                f"np.linalg.lstsq({m}.reshape{flat}[:{n * n}].reshape({n}, {n}), {right})[0]",
            )
        )

    def write_transform_more(self):
        x = self.array()
        n, name = x.shape[-1], x.name
        axis = self.random.randrange(len(x.shape))
        texts = [
            f"np.fft.ifft(np.fft.fft({name}, axis={axis})).real * 0.5",
            f"np.abs(np.fft.rfft({name}, axis={axis}) + 2.5 * {x.shape[axis]}) / {n}",
            f"np.fft.fftshift({name}, axes={axis}) * 2.0",
            f"np.imag(np.fft.fft({name}, 8, axis={axis})) / 8",
            f"np.fft.fftn({name}).real / {x.size}",
            f"np.fft.rfft({name}, norm='ortho').imag + 0.0",
            f"np.angle(np.fft.fft({name}) + 5.0 * {n})",
            f"np.real(np.exp(1j * {name}) * (1.0 + 2.0j) ** 0.5) * 0.5",
            f"np.abs({name} + 1j * np.cos({name}) + 4.0)",
            f"np.conj({name} * (1.0 - 0.5j)).imag + np.real(np.sin({name} + 0.5j))",
        ]
        if len(x.shape) > 1:
            texts += [f"np.fft.ifft2(np.fft.fft2({name})).real * 0.9"]
        self.value(self.random.choice(texts))

    # ------------------------------------------------------------ transforms inside

    def write_nested(self):
        """Transforms inside of transforms."""
        x = self.array(1, 2, where=lambda known: known.size <= 400)
        name, axis = x.name, self.random.randrange(len(x.shape))
        n = x.shape[axis]
        self.value(
            self.choice(
                f"wg.grad(lambda a: np.sum(wg.grad(lambda b: np.sum(np.sin(b) * b))(a)))({name})",
                f"wg.grad(lambda a: wg.jit(lambda b: np.sum(np.sin(b) * b))(a))({name})",
                f"wg.jit(wg.grad(lambda a: np.sum(np.tanh(a) * a)))({name})",
                f"wg.jit(lambda a: np.cumsum(a) * 0.1)({name})",
                f"wg.vmap(lambda a: a * np.sum(np.cos(a)), in_axes={axis})({name})",
                f"wg.vmap(lambda a: np.sin(a), in_axes={axis}, out_axes=-1)({name})",
                f"wg.vmap(lambda a, b: a * b, in_axes=({axis}, None))({name}, np.sum({name}))",
                f"wg.vmap(lambda a, b: np.sum(a) * b, in_axes=({axis}, 0))"
                f"({name}, np.cos(np.arange({n}.0)))",
                f"wg.vmap(wg.grad(lambda a: np.sum(np.sin(a) * a)))({name})",
                f"wg.vmap(wg.value_and_grad(lambda a: np.sum(a ** 3)))({name})[1]",
                f"wg.hvp(lambda a: np.sum(np.sin(a) * a), {name}, np.cos({name}))",
                f"wg.vjp(lambda a: np.sin(a) * np.sum(a), {name})[1](np.cos({name}))[0]",
                f"wg.jvp(wg.grad(lambda a: np.sum(a ** 3)), ({name},), (np.sin({name}),))[1]",
                f"wg.stop_gradient(0.5) * {name}",
                f"np.einsum('ii->i', wg.jacobian(lambda a: np.sin(a) * np.sum(a))"
                f"({name}.reshape(-1)[:5]))",
                f"np.sum(wg.hessian(lambda a: np.sum(a ** 2 * np.cos(a)))"
                f"({name}.reshape(-1)[:4]), axis=0)",
                f"wg.vmap(lambda a: wg.scan(lambda c, t: (c * 0.5 + t, c), 0.5, a)[1])"
                f"({name}.reshape({x.shape[0]}, -1))",
                f"wg.vmap(wg.vmap(lambda a: np.sin(a) * a))({name}.reshape({x.shape[0]}, -1))",
            )
        )
