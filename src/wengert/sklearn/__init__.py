"""Networks as scikit-learn estimators: `Classifier` and `Regressor`.

They are trained by `wg.fit`, natively, and work wherever scikit-learn takes an estimator: in
pipelines, cross-validation and searches for parameters, cloned and pickled.

>>> from sklearn.datasets import load_iris
>>> from sklearn.model_selection import cross_val_score
>>> from sklearn.pipeline import make_pipeline
>>> from sklearn.preprocessing import StandardScaler
>>> network = Classifier(hidden_layer_sizes=(16,), lr=0.02, epochs=50, random_state=0)
>>> model = make_pipeline(StandardScaler(), network)
>>> x, y = load_iris(return_X_y=True)
>>> bool(cross_val_score(model, x, y, cv=3).mean() > 0.93)
True
"""

from ..errors import MissingPackageError, explain

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError:
    raise MissingPackageError(
        explain(
            "wengert.sklearn",
            "scikit-learn is not installed",
            "Install it with: pip install 'wengert[sklearn]'.",
        )
    ) from None

from .estimators import Classifier, Regressor

__all__ = ["Classifier", "Regressor"]
