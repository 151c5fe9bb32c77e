"""The estimators: what they share, and what makes one of classes and one of numbers."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from .. import nn
from .. import numpy as wnp
from ..errors import OptionError, explain
from ..jit import jit
from ..train import EarlyStopping, History, fit
from .building import (
    CLASS_LOSSES,
    NUMBER_LOSSES,
    OPTIMIZERS,
    Activation,
    Loss,
    checked,
    chosen,
    dtype_of,
    perceptron,
    weighted,
)

_FLOATS = (np.float64, np.float32)
_SEEDS = 2**31 - 1
_AUTO_BATCH = 200


class _Network(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A network with its training, whatever it predicts."""

    def __init__(
        self,
        hidden_layer_sizes: Any = (100,),
        activation: Activation = "relu",
        *,
        module: Callable[[int, int], nn.Module] | None = None,
        loss: str | Loss = "auto",
        optimizer: Any = "adam",
        lr: float = 1e-3,
        weight_decay: float = 0.0,
        epochs: int = 200,
        batch_size: int | str = "auto",
        shuffle: bool = True,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int | None = 10,
        tol: float = 1e-4,
        random_state: Any = None,
        verbose: bool = False,
    ):
        self.hidden_layer_sizes, self.activation = hidden_layer_sizes, activation
        self.module, self.loss = module, loss
        self.optimizer, self.lr, self.weight_decay = optimizer, lr, weight_decay
        self.epochs, self.batch_size, self.shuffle = epochs, batch_size, shuffle
        self.early_stopping, self.validation_fraction = early_stopping, validation_fraction
        self.patience, self.tol = patience, tol
        self.random_state, self.verbose = random_state, verbose

    # ------------------------------------------------------------ what the two differ in

    def _validated(
        self, X: Any, y: Any, first: bool, classes: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Samples and targets as the loss takes them; the first ones say what there is to learn."""
        raise NotImplementedError

    def _output_count(self) -> int:
        raise NotImplementedError

    def _known_losses(self) -> dict[str, Loss]:
        raise NotImplementedError

    def _groups(self, y: np.ndarray) -> np.ndarray | None:
        """By which samples are set aside evenly."""
        return None

    # ------------------------------------------------------------ building

    def _begin(self, x: np.ndarray) -> None:
        """A new network, its optimizer and an empty history."""
        name = type(self).__name__
        self._random_ = check_random_state(self.random_state)
        before = nn.get_rng_state()
        nn.manual_seed(self._random_.randint(_SEEDS))
        try:
            features, outputs = x.shape[1], self._output_count()
            if self.module is None:
                hidden, activation = self.hidden_layer_sizes, self.activation
                model = perceptron(name, features, outputs, hidden, activation, x.dtype)
            else:
                model = checked(name, self.module(features, outputs), x, outputs)
        finally:
            nn.set_rng_state(before)
        made = chosen(name, "optimizer", self.optimizer, OPTIMIZERS)
        options = {"weight_decay": self.weight_decay} if self.weight_decay else {}
        self.module_ = model
        self.optimizer_ = made(model.parameters(), lr=self.lr, **options)
        self.history_ = History()
        self._prepare()

    def _prepare(self) -> None:
        """Make what compiles, which no pickle and no copy has."""
        model = self.module_

        def outputs(x: Any) -> Any:
            return model(x)

        self._compiled_ = jit(outputs, dynamic={"x": 0})

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_compiled_", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "module_" in state:
            self._prepare()

    # ------------------------------------------------------------ training

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train a new network on the samples X (samples, features) and their targets y.

        With `sample_weight` the loss of a batch is the mean weighted by it; samples of weight 0 are
        left out.
        """
        x, targets = self._validated(X, y, True, None)
        self._begin(x)
        epochs = self._whole("epochs", self.epochs)
        self._train(*self._weighed(x, targets, sample_weight), epochs, stops=True)
        return self

    def _continue(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """One epoch more, on these samples."""
        first = not hasattr(self, "module_")
        x, targets = self._validated(X, y, first, classes)
        if first:
            self._begin(x)
        self._train(*self._weighed(x, targets, sample_weight), 1, stops=False)
        return self

    def _weighed(
        self, x: np.ndarray, y: np.ndarray, given: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """The samples that count, with their weights where there are any."""
        if given is None:
            return x, y, None
        weights = _check_sample_weight(given, x, dtype=x.dtype, ensure_non_negative=True)
        counts = weights > 0
        return x[counts], y[counts], weights[counts]

    def _train(
        self, x: np.ndarray, y: np.ndarray, weights: np.ndarray | None, epochs: int, stops: bool
    ) -> None:
        x = x.astype(dtype_of(self.module_, x.dtype), copy=False)
        loss = chosen(type(self).__name__, "loss", self.loss, self._known_losses())
        held, watching = None, []
        arrays = [x, y] if weights is None else [x, y, weights]
        if stops and self.early_stopping:
            parts = train_test_split(
                *arrays, test_size=self.validation_fraction, random_state=self._random_,
                stratify=self._groups(y),
            )  # fmt: skip
            arrays, held = parts[::2], _as_pair(*parts[1::2])
        if stops and self.patience is not None:
            watching = [
                EarlyStopping(self.patience, min_delta=self.tol, restore_best=self.early_stopping)
            ]
        self.module_.train()
        try:
            history = fit(
                self.module_,
                loss if weights is None else weighted(loss),
                self.optimizer_,
                _as_pair(*arrays),
                epochs,
                self._batch(len(arrays[0])),
                held,
                metrics="auto" if weights is None else None,
                seed=int(self._random_.randint(_SEEDS)),
                callbacks=watching,
                shuffle=self.shuffle,
                progress=bool(self.verbose),
            )
        finally:
            self.module_.eval()
        self.history_.add_steps(history.steps)
        for record in history.epochs:
            self.history_.add_epoch(record)

    def _batch(self, count: int) -> int:
        if isinstance(self.batch_size, str) and self.batch_size == "auto":
            return min(_AUTO_BATCH, count)
        return min(self._whole("batch_size", self.batch_size), count)

    def _whole(self, name: str, value: Any) -> int:
        if not isinstance(value, numbers.Integral) or value < 1:
            problem = f"got {name}={value!r}, expected a whole number of at least 1"
            raise OptionError(explain(type(self).__name__, problem))
        return int(value)

    # ------------------------------------------------------------ results

    def _outputs(self, X: Any) -> np.ndarray:
        """What the network says of samples."""
        check_is_fitted(self)
        x = validate_data(self, X, dtype=_FLOATS, reset=False)
        return np.asarray(self._compiled_(x.astype(dtype_of(self.module_, x.dtype), copy=False)))

    @property
    def n_iter_(self) -> int:
        """How many epochs there were."""
        return len(self.history_)

    @property
    def loss_curve_(self) -> list[float]:
        """The mean loss of each epoch."""
        return list(map(float, self.history_["loss"]))

    @property
    def loss_(self) -> float:
        """The mean loss of the last epoch."""
        return float(self.history_.last["loss"])

    @property
    def validation_loss_curve_(self) -> list[float]:
        """The loss of the samples that early stopping sets aside, after each epoch."""
        return list(map(float, self.history_["validation_loss"]))


def _as_pair(x: Any, y: Any, weights: Any = None) -> tuple[Any, Any]:
    """Examples as `fit` takes them: weights belong to the targets."""
    return (x, y) if weights is None else (x, (y, weights))


class Classifier(ClassifierMixin, _Network):  # type: ignore[misc]
    """A network that tells classes apart, trained on the cross entropy.

    `hidden_layer_sizes` and `activation` ("relu", "tanh", "logistic", "gelu", "silu", "identity")
    make the network; or `module`, a function of the numbers of features and of classes that returns
    an `nn.Module`. `loss` is another function of (outputs, numbers of the classes). `optimizer`
    ("adam", "adamw", "rmsprop", "sgd", or a function such as `optim.Adam`) gets `lr` and
    `weight_decay`. A training takes up to `epochs` epochs of batches of `batch_size` samples (by
    default up to 200), and ends when the loss has not become better by `tol` for `patience` epochs
    (None: never). With `early_stopping` the share `validation_fraction` of the samples is set
    aside, its loss decides, and the best network is kept. Parameters have the dtype of the samples,
    float32 or float64; those of a `module` have their own.

    After `fit`: `classes_`, `module_`, `history_` (the `History` of `wg.fit`), `loss_curve_`,
    `loss_`, `n_iter_`, `n_features_in_`, and `feature_names_in_` where the samples had names.

    >>> x = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> xor = Classifier((16,), "tanh", lr=0.05, epochs=300, random_state=0)
    >>> xor.fit(x, ["even", "odd", "odd", "even"]).predict(x)
    array(['even', 'odd', 'odd', 'even'], dtype='<U4')
    >>> xor.predict_proba(x).shape
    (4, 2)
    """

    def _validated(
        self, X: Any, y: Any, first: bool, classes: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        x, y = validate_data(self, X, y, dtype=_FLOATS, reset=first)
        check_classification_targets(y)
        if first:
            self.classes_ = np.unique(y if classes is None else classes)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise OptionError(
                explain(
                    "Classifier.partial_fit",
                    f"got the labels {unknown}, which are not among the classes {self.classes_}",
                    "Give all classes with the first call: partial_fit(X, y, classes=...).",
                )
            )
        return x, np.searchsorted(self.classes_, y)

    def _output_count(self) -> int:
        return len(self.classes_)

    def _known_losses(self) -> dict[str, Loss]:
        return CLASS_LOSSES

    def _groups(self, y: np.ndarray) -> np.ndarray | None:
        return y

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Train for one epoch more on these samples; the first call names all `classes`.

        >>> x, y = np.array([[-1.0], [1.0]]), np.array([0, 1])
        >>> online = Classifier((4,), lr=0.1, random_state=0)
        >>> for _ in range(20):
        ...     online = online.partial_fit(x, y, classes=[0, 1])
        >>> online.predict(x), online.n_iter_
        (array([0, 1]), 20)
        """
        return self._continue(X, y, classes, sample_weight)

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, in the order of `classes_`, for each sample."""
        return np.asarray(wnp.softmax(self._outputs(X), axis=1))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The logarithms of the probabilities."""
        return np.asarray(wnp.log_softmax(self._outputs(X), axis=1))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each sample."""
        found = self._outputs(X).argmax(axis=1)
        return np.asarray(self.classes_[found])


class Regressor(RegressorMixin, _Network):  # type: ignore[misc]
    """A network that predicts numbers, one or several for each sample.

    Arguments and results are those of `Classifier`; `module` is called with the numbers of features
    and of targets, and `loss` is "squared_error" (the default), "absolute_error", "huber", or a
    function of (outputs, targets), both of shape (samples, targets).

    >>> x = np.linspace(-1, 1, 100)[:, None]
    >>> line = Regressor((), lr=0.05, epochs=300, random_state=0).fit(x, 3 * x[:, 0] + 1)
    >>> line.predict([[2.0]]).round(1)
    array([7.])
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _validated(
        self, X: Any, y: Any, first: bool, classes: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        x, y = validate_data(
            self, X, y, dtype=_FLOATS, reset=first, multi_output=True, y_numeric=True
        )
        if first:
            self._row_ = y.shape[1:]
        elif y.shape[1:] != self._row_:
            raise OptionError(
                explain(
                    "Regressor.partial_fit",
                    f"got targets of shape {y.shape}, expected {(len(x), *self._row_)}",
                    "Give as many targets for each sample as before, or call fit.",
                )
            )
        return x, y.reshape(len(x), -1).astype(x.dtype)

    def _output_count(self) -> int:
        return int(np.prod(self._row_))

    def _known_losses(self) -> dict[str, Loss]:
        return NUMBER_LOSSES

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train for one epoch more on these samples.

        >>> x = np.linspace(-1, 1, 20)[:, None]
        >>> line = Regressor((), optimizer="sgd", lr=0.1, random_state=0)
        >>> for _ in range(100):
        ...     line = line.partial_fit(x, 2 * x[:, 0])
        >>> line.predict([[3.0]]).round(1)
        array([6.])
        """
        return self._continue(X, y, sample_weight=sample_weight)

    def predict(self, X: Any) -> np.ndarray:
        """The prediction for each sample; a row where there were several targets."""
        outputs = self._outputs(X)
        return outputs.reshape(len(outputs), *self._row_)
