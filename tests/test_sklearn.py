"""The scikit-learn estimators: scikit-learn's own checks, and what these do not see."""

import contextlib
import copy
import pickle
import subprocess
import sys
import textwrap
import unittest

import numpy as np
import pytest

import wengert as wg
from wengert import nn, optim


def test_without_scikit_learn_the_error_says_what_to_install():
    script = """
        import sys
        sys.modules["sklearn"] = None
        try:
            import wengert.sklearn
        except ImportError as error:
            print(type(error).__name__, error)
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )
    assert found.stdout.startswith("MissingPackageError wengert.sklearn")
    assert (
        "scikit-learn is not installed. Install it with: pip install 'wengert[sklearn]'."
        in found.stdout
    )


sklearn = pytest.importorskip("sklearn")
from sklearn.base import clone  # noqa: E402
from sklearn.datasets import load_iris, make_regression  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.utils.estimator_checks import estimator_checks_generator  # noqa: E402

from wengert.sklearn import Classifier, Regressor  # noqa: E402


def own_checks(estimator, long):
    """Runs scikit-learn's checks, the long or the short ones."""
    count = 0
    for instance, check in estimator_checks_generator(estimator):
        name = getattr(check, "func", check).__name__
        if name == "check_array_api_input" or (name in SHORT) == long:
            continue  # it asks for SCIPY_ARRAY_API in the environment
        # a check that asks for a package that is not there leaves the others to be made
        with contextlib.suppress(unittest.SkipTest):
            check(instance)
            count += 1
    return count


# Those that compile no training, or one.
SHORT = {
    "check_do_not_raise_errors_in_init_or_set_param", "check_estimator_cloneable",
    "check_estimator_repr", "check_estimator_tags_renamed", "check_get_params_invariance",
    "check_mixin_order", "check_no_attributes_set_in_init",
    "check_parameters_default_constructible", "check_readonly_memmap_input",
    "check_set_params", "check_valid_tag_types", "check_dict_unchanged",
    "check_dont_overwrite_attributes", "check_fit2d_predict1d",
    "check_n_features_in", "check_estimators_unfitted", "check_requires_y_none",
}  # fmt: skip
NETWORKS = [Classifier((16,), lr=0.02), Regressor((16,), lr=0.02)]


@pytest.mark.filterwarnings("default")  # the checks provoke some themselves
@pytest.mark.parametrize("network", NETWORKS, ids=lambda n: type(n).__name__)
def test_scikit_learns_own_checks_that_are_short(network):
    assert own_checks(network, long=False) >= 15


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("network", NETWORKS, ids=lambda n: type(n).__name__)
def test_scikit_learns_own_checks(network):
    assert own_checks(network, long=True) >= 30


@pytest.fixture(scope="module")
def iris():
    x, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(x), y


@pytest.fixture(scope="module")
def fitted(iris):
    return Classifier((16,), lr=0.02, epochs=60, random_state=0).fit(*iris)


def test_the_classes_are_told_apart(fitted, iris):
    x, y = iris
    assert fitted.score(x, y) > 0.95
    probabilities = fitted.predict_proba(x)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-14)
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(x)), probabilities, rtol=1e-12)
    assert fitted.n_iter_ == len(fitted.loss_curve_) == 60
    assert fitted.loss_ == fitted.loss_curve_[-1] < fitted.loss_curve_[0]


def test_the_compiled_network_is_the_module(fitted, iris):
    x, _ = iris
    with wg.no_grad():
        outputs = np.asarray(fitted.module_(x))
    for count in (1, 7, 150):
        expected = np.exp(outputs[:count]) / np.exp(outputs[:count]).sum(1, keepdims=True)
        np.testing.assert_allclose(fitted.predict_proba(x[:count]), expected, rtol=1e-12)


def test_the_same_random_state_gives_the_same_bits_and_leaves_the_stream_alone(fitted, iris):
    before = nn.get_rng_state()
    again = clone(fitted).fit(*iris)
    np.testing.assert_array_equal(nn.get_rng_state(), before)
    np.testing.assert_array_equal(again.predict_proba(iris[0]), fitted.predict_proba(iris[0]))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_predict_the_same_and_go_on_alone(fitted, iris, copied):
    x, y = iris
    other = copied(fitted)
    expected = fitted.predict_proba(x)
    np.testing.assert_array_equal(other.predict_proba(x), expected)
    other.partial_fit(x, y)
    assert other.n_iter_ == fitted.n_iter_ + 1
    assert not np.array_equal(other.predict_proba(x), expected)
    np.testing.assert_array_equal(fitted.predict_proba(x), expected)


def test_the_dtype_is_that_of_the_samples_or_of_the_module(iris):
    x, y = iris
    single = Classifier((4,), epochs=2, random_state=0).fit(x.astype(np.float32), y)
    assert single.predict_proba(x.astype(np.float32)).dtype == np.float32
    own = Classifier(module=nn.Linear, epochs=2, random_state=0).fit(x, y)
    assert own.module_.weight.dtype == np.float32
    assert own.predict_proba(x).dtype == np.float32


def dropping(features, outputs):
    return nn.Sequential(
        nn.Linear(features, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(32, outputs),
    )  # fmt: skip


def test_a_network_of_ones_own_predicts_in_evaluation_mode(iris):
    x, y = iris
    network = Classifier(module=dropping, optimizer=optim.Adam, lr=0.02, epochs=40, random_state=1)
    network.fit(x, y)
    assert network.score(x, y) > 0.93
    np.testing.assert_array_equal(network.predict_proba(x), network.predict_proba(x))
    np.testing.assert_allclose(
        network.predict_proba(x[:1]), network.predict_proba(x)[:1], rtol=1e-5
    )


def test_early_stopping_keeps_the_best_network(iris):
    x, y = iris
    network = Classifier((16,), lr=0.1, early_stopping=True, patience=5, tol=0.0, random_state=0)
    network.fit(x, y)
    curve = network.validation_loss_curve_
    assert network.n_iter_ < 200
    assert np.argmin(curve) == network.n_iter_ - 1 - 5


def test_a_training_ends_when_the_loss_does():
    x = np.linspace(-1, 1, 50)[:, None]
    line = Regressor((), lr=0.1, epochs=1000, random_state=0).fit(x, x[:, 0])
    assert line.n_iter_ < 1000
    unending = Regressor((), lr=0.1, epochs=150, patience=None, random_state=0).fit(x, x[:, 0])
    assert unending.n_iter_ == 150


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "huber", nn.smooth_l1_loss])
def test_losses_of_numbers(loss):
    x, y = make_regression(60, 3, n_informative=3, random_state=0)
    network = Regressor((), loss=loss, lr=0.3, epochs=300, batch_size=30, random_state=0)
    assert network.fit(x, y / y.std()).score(x, y / y.std()) > 0.9


def test_several_targets():
    x = np.random.default_rng(0).normal(size=(80, 2))
    y = np.stack([x[:, 0] - x[:, 1], 2 * x[:, 0]], 1)
    network = Regressor((), lr=0.05, epochs=200, random_state=0).fit(x, y)
    assert network.predict(x[:5]).shape == (5, 2)
    assert network.score(x, y) > 0.99


def test_in_a_search_in_a_pipeline():
    x, y = load_iris(return_X_y=True)
    model = make_pipeline(StandardScaler(), Classifier((8,), epochs=20, random_state=0))
    search = GridSearchCV(model, {"classifier__lr": [1e-5, 0.05]}, cv=2).fit(x, y)
    assert search.best_params_ == {"classifier__lr": 0.05}


def test_feature_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"one": [0.0, 1.0, 2.0, 3.0], "two": [1.0, 0.0, 1.0, 0.0]})
    network = Classifier((2,), epochs=1, random_state=0).fit(frame, [0, 1, 0, 1])
    assert list(network.feature_names_in_) == ["one", "two"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"activation": "relo"}, "got activation='relo'"),
        ({"optimizer": "adan"}, "got optimizer='adan'"),
        ({"loss": "mse"}, "got loss='mse'"),
        ({"hidden_layer_sizes": (3, 0)}, r"got hidden_layer_sizes=\(3, 0\)"),
        ({"epochs": 0}, "got epochs=0, expected a whole number of at least 1"),
        ({"batch_size": 1.5}, "got batch_size=1.5, expected a whole number"),
        ({"module": lambda i, o: 3}, "module= made int, expected an nn.Module"),
        (
            {"module": lambda i, o: nn.Linear(i, o + 1)},
            r"the network gives shape \(1, 4\) for one sample, expected \(1, 3\)",
        ),
    ],
)
def test_parameters_that_make_no_sense(iris, options, text):
    with pytest.raises((ValueError, TypeError), match=text):
        Classifier(**options).fit(*iris)


def test_labels_and_targets_that_come_too_late():
    x = np.array([[0.0], [1.0]])
    online = Classifier((2,), random_state=0).partial_fit(x, [0, 1])
    with pytest.raises(ValueError, match=r"got the labels \[2\], which are not among"):
        online.partial_fit(x, [1, 2])
    numbers = Regressor((), random_state=0).partial_fit(x, [0.0, 1.0])
    with pytest.raises(ValueError, match=r"got targets of shape \(2, 2\), expected \(2,\)"):
        numbers.partial_fit(x, np.ones((2, 2)))
    with pytest.raises(NotFittedError):
        Regressor().predict(x)


def test_a_weight_is_how_often_a_sample_counts():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(12, 3)), rng.normal(size=12)
    weights = np.array([0, 1, 2, 3] * 3)
    regressor = Regressor((4,), "tanh", lr=0.02, epochs=15, random_state=0)
    weighed = clone(regressor).fit(x, y, sample_weight=weights)
    repeated = clone(regressor).fit(np.repeat(x, weights, 0), np.repeat(y, weights))
    np.testing.assert_allclose(weighed.predict(x), repeated.predict(x), rtol=1e-9)
    stopped = Classifier((4,), epochs=3, early_stopping=True, validation_fraction=0.4)
    assert len(stopped.fit(x, y > 0, weights + 1).validation_loss_curve_) == 3
