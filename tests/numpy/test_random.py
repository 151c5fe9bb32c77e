"""Random numbers: known answers, distributions, keys, batching, derivatives."""

import numpy as np
import pytest

import wengert.numpy as wnp
from wengert.errors import DTypeError, ShapeError
from wengert.numpy import random
from wengert.ops.random import philox, random_bits
from wengert.transforms.batching import vmap
from wengert.transforms.check import check_grads
from wengert.transforms.reverse import grad

COUNT = 20_000
KEY = random.key(1234)

# The known answers that Random123 publishes for philox4x32 with 10 rounds.
KNOWN = [
    ("00000000 " * 4, "00000000 " * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff " * 4, "ffffffff " * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (
        "243f6a88 85a308d3 13198a2e 03707344",
        "a4093822 299f31d0",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


@pytest.mark.parametrize("counter, key, expected", KNOWN)
def test_known_answers(counter, key, expected):
    words = lambda text: np.array([int(word, 16) for word in text.split()], np.uint32)
    np.testing.assert_array_equal(philox(words(counter), words(key)), words(expected))


def test_elements_depend_on_key_and_position_alone():
    for width in (32, 64):
        long = random.bits(KEY, 10_001, width)
        np.testing.assert_array_equal(random.bits(KEY, 7, width), long[:7])
        np.testing.assert_array_equal(random.bits(KEY, (3, 5), width), long[:15].reshape(3, 5))
    counter = np.array([2500, 0, 0, 0], np.uint32)
    assert random.bits(KEY, 10_001)[-1] == philox(counter, KEY)[0]
    assert random.bits(KEY, 2, 64)[1] == philox(np.zeros(4), KEY)[2:].view(np.uint64)[0]


def test_same_key_same_numbers():
    np.testing.assert_array_equal(random.normal(KEY, 10), random.normal(KEY, 10))
    np.testing.assert_array_equal(random.key(1234), KEY)


def test_keys_from_seeds():
    assert random.key(2**32 + 5).tolist() == [5, 1]
    assert random.key(np.int64(7)).tolist() == [7, 0]
    large = [random.key(n + 3).tolist() for n in (0, 2**64, 2**65, 2**128)]
    assert len({tuple(item) for item in large}) == 4
    seeds = np.arange(5)
    np.testing.assert_array_equal(vmap(random.key)(seeds), [random.key(n) for n in range(5)])


def test_split_and_folded_keys_are_independent():
    keys = [*random.split(KEY, 200), *[random.fold_in(KEY, n) for n in range(200)], KEY]
    assert len({tuple(key.tolist()) for key in keys}) == len(keys)
    rows = np.stack([random.uniform(key, 500) for key in keys[:40] + keys[200:240]])
    correlations = np.corrcoef(rows)[np.triu_indices(len(rows), 1)]
    # each is about normal with deviation 1 / sqrt(500)
    assert abs(correlations).max() < 5 / np.sqrt(500)
    assert abs(correlations.mean()) < 0.005
    # folding does not confuse key and number
    first, second = random.key(0), random.key(1)
    assert random.fold_in(first, 1).tolist() != random.fold_in(second, 0).tolist()


def test_streams_do_not_meet():
    drawn = random.bits(KEY, 4000).tolist()
    assert not set(drawn[:100]) & set(random.split(KEY, 50).ravel().tolist())


def distribution(name):
    draws = {
        "uniform": lambda k: random.uniform(k, COUNT),
        "uniform float32": lambda k: random.uniform(k, COUNT, np.float32),
        "uniform moved": lambda k: random.uniform(k, COUNT, low=-2.0, high=3.0),
        "normal": lambda k: random.normal(k, COUNT),
        "normal float32": lambda k: random.normal(k, COUNT, np.float32),
        "normal moved": lambda k: random.normal(k, COUNT, loc=1.0, scale=2.0),
        "exponential": lambda k: random.exponential(k, COUNT, scale=2.0),
        "gumbel": lambda k: random.gumbel(k, COUNT),
        "truncated": lambda k: random.truncated_normal(k, -1.0, 2.0, COUNT),
    }
    stats = pytest.importorskip("scipy.stats")
    laws = {
        "uniform": stats.uniform(),
        "uniform float32": stats.uniform(),
        "uniform moved": stats.uniform(-2, 5),
        "normal": stats.norm(),
        "normal float32": stats.norm(),
        "normal moved": stats.norm(1, 2),
        "exponential": stats.expon(scale=2),
        "gumbel": stats.gumbel_r(),
        "truncated": stats.truncnorm(-1, 2),
    }
    return draws[name], laws[name], stats


@pytest.mark.parametrize(
    "name",
    ["uniform", "uniform float32", "uniform moved", "normal", "normal float32", "normal moved",
     "exponential", "gumbel", "truncated"],
)  # fmt: skip
def test_distributions(name):
    draw, law, stats = distribution(name)
    values = np.asarray(draw(KEY), np.float64)
    assert stats.kstest(values, law.cdf).pvalue > 0.01
    deviation = law.std() / np.sqrt(COUNT)
    assert abs(values.mean() - law.mean()) < 4 * deviation
    assert abs(values.std() / law.std() - 1) < 0.03
    # neighbours have nothing to do with each other
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 4 / np.sqrt(COUNT)


def test_dtypes_and_ranges():
    assert random.uniform(KEY, 3, np.float32).dtype == np.float32
    assert random.normal(KEY, 3, np.float32).dtype == np.float32
    assert random.exponential(KEY, 3, np.float32, scale=2.0).dtype == np.float32
    assert random.truncated_normal(KEY, -1.0, 1.0, 3, np.float32).dtype == np.float32
    assert random.uniform(KEY).shape == () and random.normal(KEY, (0, 3)).shape == (0, 3)
    assert random.normal(KEY, (3, 3)).shape == (3, 3)
    # so narrow that rounding would reach the upper end
    narrow = random.uniform(KEY, 1000, low=1.0, high=float(np.nextafter(1.0, 2.0)))
    assert set(narrow.tolist()) == {1.0}
    assert random.uniform(KEY, low=np.zeros(3), high=np.ones((2, 1))).shape == (2, 3)


def test_bernoulli_and_integers():
    hits = random.bernoulli(KEY, 0.3, COUNT)
    assert hits.dtype == bool and abs(hits.mean() - 0.3) < 4 * np.sqrt(0.21 / COUNT)
    assert not random.bernoulli(KEY, 0.0, 100).any() and random.bernoulli(KEY, 1.0, 100).all()
    assert random.bernoulli(KEY, np.array([0.0, 1.0])).tolist() == [False, True]
    numbers = random.integers(KEY, -3, 4, COUNT)
    assert numbers.dtype == np.int64
    counts = np.bincount(numbers + 3, minlength=7)
    assert len(counts) == 7 and abs(counts - COUNT / 7).max() < 5 * np.sqrt(COUNT / 7)
    assert random.integers(KEY, 5, shape=3, dtype=np.int8).dtype == np.int8
    limits = np.array([1, 10, 100])
    assert (random.integers(KEY, limits) < limits).all()


def test_permutation():
    order = random.permutation(KEY, 50)
    assert sorted(order.tolist()) == list(range(50)) and order.tolist() != list(range(50))
    x = np.arange(12.0).reshape(3, 4)
    mixed = random.permutation(KEY, x)
    assert sorted(mixed.tolist()) == x.tolist()
    columns = random.permutation(KEY, x, axis=1)
    assert sorted(columns.T.tolist()) == x.T.tolist()
    firsts = [random.permutation(key, 3)[0] for key in random.split(KEY, 600)]
    assert abs(np.bincount(firsts) - 200).max() < 60
    weights = np.arange(3.0)
    gradient = grad(lambda a: wnp.sum(random.permutation(KEY, a) * weights))(np.ones(3))
    assert sorted(gradient.tolist()) == [0, 1, 2]


def test_categorical():
    p = np.array([0.1, 0.0, 0.6, 0.3])
    with np.errstate(divide="ignore"):
        logits = np.log(p) + 5
    drawn = random.categorical(KEY, logits, shape=COUNT)
    frequencies = np.bincount(drawn, minlength=4) / COUNT
    assert abs(frequencies - p).max() < 4 * np.sqrt(0.25 / COUNT) and frequencies[1] == 0
    assert random.categorical(KEY, np.zeros((5, 3))).shape == (5,)
    assert random.categorical(KEY, np.zeros((5, 3)), axis=0).shape == (3,)
    assert random.categorical(KEY, np.zeros((5, 3)), shape=(2, 5)).shape == (2, 5)


def test_choice():
    p = np.array([0.5, 0.0, 0.25, 0.25])
    drawn = random.choice(KEY, 4, COUNT, p=p)
    frequencies = np.bincount(drawn, minlength=4) / COUNT
    assert abs(frequencies - p).max() < 4 * np.sqrt(0.25 / COUNT) and frequencies[1] == 0
    assert sorted(random.choice(KEY, 4, 3, replace=False, p=p).tolist()) == [0, 2, 3]
    assert sorted(random.choice(KEY, 6, (2, 3), replace=False).ravel().tolist()) == list(range(6))
    x = np.arange(10.0).reshape(5, 2)
    assert random.choice(KEY, x, (4, 2)).shape == (4, 2, 2)
    assert np.bincount(random.choice(KEY, 3, 300)).min() > 60


@pytest.mark.parametrize(
    "draw",
    [
        lambda k: random.bits(k, 5, 64),
        lambda k: random.uniform(k, (2, 3)),
        lambda k: random.normal(k, 5),
        lambda k: random.permutation(k, 6),
        lambda k: random.categorical(k, np.zeros((2, 3))),
        lambda k: random.split(k, 3),
        lambda k: random.fold_in(k, 3),
        lambda k: random.integers(k, 3, 9, 4),
        lambda k: random.choice(k, 5, 3, p=np.full(5, 0.2)),
        lambda k: random.truncated_normal(k, 0.0, 1.0, 3),
    ],
)
def test_vmap_over_keys_is_a_loop(draw):
    keys = random.split(KEY, 4)
    np.testing.assert_array_equal(vmap(draw)(keys), np.stack([draw(key) for key in keys]))


def test_vmap_over_numbers_folded_in():
    steps = np.arange(-2, 3)
    expected = np.stack([random.fold_in(KEY, n) for n in steps])
    np.testing.assert_array_equal(vmap(lambda n: random.fold_in(KEY, n))(steps), expected)


def test_parameters_are_differentiable():
    loc, scale = np.array([0.5, -1.0]), np.array(2.0)
    check_grads(lambda a, b: random.normal(KEY, (3, 2), loc=a, scale=b) ** 2, (loc, scale))
    check_grads(lambda a, b: random.uniform(KEY, (3, 2), low=a, high=b) ** 2, (loc, scale))
    check_grads(lambda b: random.exponential(KEY, 3, scale=b) ** 2, (scale,))
    check_grads(lambda a: random.truncated_normal(KEY, a, 3.0, (3, 2)), (loc,))
    noise = random.normal(KEY, 4)
    assert grad(lambda b: wnp.sum(random.normal(KEY, 4, scale=b)))(3.0) == pytest.approx(
        noise.sum()
    )


def test_generator():
    rng, again = random.Generator(5), random.Generator(5)
    first = rng.normal(size=(2, 3))
    assert first.shape == (2, 3) and not np.array_equal(first, rng.normal(size=(2, 3)))
    np.testing.assert_array_equal(first, again.normal(size=(2, 3)))
    assert rng.random().shape == () and rng.uniform(2, 3, 4).min() >= 2
    assert rng.standard_normal(3).shape == (3,) and rng.exponential(2.0, 3).shape == (3,)
    assert rng.integers(0, 5, 10).max() < 5 and rng.bernoulli(0.5, 3).dtype == bool
    assert rng.choice(5, 2, replace=False).shape == (2,)
    assert rng.categorical(np.zeros(3), size=4).shape == (4,)
    x = np.arange(20)
    rng.shuffle(x)
    assert sorted(x.tolist()) == list(range(20)) and x.tolist() != list(range(20))
    assert sorted(rng.permutation(5).tolist()) == [0, 1, 2, 3, 4]


def test_errors():
    with pytest.raises(DTypeError, match=r"got f64\[2\] as the key, expected u32\[2\]"):
        random.uniform(np.zeros(2), 3)
    with pytest.raises(DTypeError, match="got dtype=float16, expected float32 or float64"):
        random.normal(KEY, 3, np.float16)
    with pytest.raises(DTypeError, match="Seeds are not negative"):
        random.key(-1)
    with pytest.raises(DTypeError, match="expected an integer"):
        random.key(1.5)
    with pytest.raises(ShapeError, match=r"parameters of shape \(3,\) do not broadcast"):
        random.normal(KEY, (2,), loc=np.zeros(3))
    with pytest.raises(ShapeError, match=r"normal.*shapes \(2,\) and \(3,\)"):
        random.normal(KEY, loc=np.zeros(2), scale=np.ones(3))
    with pytest.raises(ShapeError, match="do not broadcast to shape"):
        random.categorical(KEY, np.zeros((2, 3)), shape=5)
    with pytest.raises(ShapeError, match="The range must not be empty"):
        random.integers(KEY, 3, 3)
    with pytest.raises(ShapeError, match="cannot take 4 of 3 without repetition"):
        random.choice(KEY, 3, 4, replace=False)
    with pytest.raises(DTypeError, match="Use 32 or 64"):
        random.bits(KEY, 3, 16)


def test_bits_have_no_derivative():
    assert random_bits.zero
