"""Estimators with scikit-learn's interface: thin wrappers on plans.

``fit`` writes a spec for the data's public shape, has it checked and calibrated, and runs it in release mode with secure noise. The
numbers of records and columns count as public. Labels of the classifier: the two classes are read off ``y`` unless ``classes``
states them, so a class that one person alone has would be revealed: state them. ``plan_`` holds the checked plan as JSON-able data.

>>> import dpspec as dp
>>> model = dp.sklearn.PrivateLogisticRegression(epsilon=1.0, delta=1e-6).fit(x, y)   # doctest: +SKIP
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

_SPEC = """analysis "estimator"

data
  n = {n}, d = {d}
  from memory
  private, unit person, neighbours {neighbours}
  x in ball(l2, {norm}) by scale
  y in {labels}

privacy central
  epsilon = {epsilon}{delta}

release weights
  minimise {loss} + {ridge}/2*|w|^2 over {over}
  by {algorithm}
"""


def _decimal(value: float) -> str:
    """The number as the spec language reads it, without an exponent."""
    return np.format_float_positional(value, trim="-")


class _Private(BaseEstimator):  # type: ignore[misc]
    """Parameters: ``epsilon``; ``delta`` (None: pure epsilon); ``data_norm``, the bound that each record (with its constant column) is
    scaled to; ``alpha``, the ridge weight lam; ``fit_intercept``; ``algorithm``, a name or ``auto``; ``neighbours``."""

    def _solve(self, x: Any, y: Any, loss: str, labels: str, over: str) -> None:
        from dpspec.api import loads, plan

        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise ValueError(f"epsilon must be positive and finite, not {self.epsilon!r}")
        if not (math.isfinite(self.data_norm) and self.data_norm > 0):
            raise ValueError(f"data_norm must be positive and finite, not {self.data_norm!r}")
        if len(x) < 2:
            raise ValueError("the data are 1 sample: a single record has no neighbours to hide among")
        if self.fit_intercept:
            x = np.hstack([x, np.full((len(x), 1), 1.0)])
        text = _SPEC.format(
            n=len(x),
            d=x.shape[1],
            neighbours=self.neighbours,
            norm=_decimal(self.data_norm),
            labels=labels,
            epsilon=_decimal(self.epsilon),
            delta="" if self.delta is None else f", delta = {_decimal(self.delta)}",
            loss=loss,
            ridge=_decimal(self.alpha),
            over=over,
            algorithm=self.algorithm,
        )
        checked = plan(loads(text, surface="dps"))
        record = checked.run(x, y)
        self.plan_ = checked.to_json()
        w = np.asarray(record.outputs["weights"]["theta"])
        self.coef_, self.intercept_ = (w[:-1], float(w[-1])) if self.fit_intercept else (w, 0.0)


class PrivateLogisticRegression(ClassifierMixin, _Private):  # type: ignore[misc]
    """Binary logistic regression with a ridge term, (epsilon, delta)-DP. ``classes``: the two labels, public; ``radius``: of the l2 ball
    that the weights lie in, None for all of R^d. Raises ``ValueError`` for more than two classes and for bad parameters."""

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = 1e-6,
        data_norm: float = 1.0,
        alpha: float = 1e-3,
        radius: float | None = None,
        fit_intercept: bool = True,
        algorithm: str = "auto",
        neighbours: str = "replace-one",
        classes: tuple[Any, Any] | None = None,
    ) -> None:
        self.epsilon, self.delta, self.data_norm, self.alpha, self.radius = epsilon, delta, data_norm, alpha, radius
        self.fit_intercept, self.algorithm, self.neighbours, self.classes = fit_intercept, algorithm, neighbours, classes

    def fit(self, X: Any, y: Any) -> PrivateLogisticRegression:
        """X: (n, d) numbers, y: (n,) labels of two classes."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        if kind != "binary":
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
        self.classes_ = np.unique(y) if self.classes is None else np.asarray(self.classes)
        if len(self.classes_) != 2:
            raise ValueError(f"This classifier needs samples of 2 classes in the data, but the data contains {len(self.classes_)} class")
        if not np.isin(y, self.classes_).all():
            raise ValueError("y holds labels that are not in classes")
        signs = np.where(y == self.classes_[1], 1.0, -1.0)
        over = "R^d" if self.radius is None else f"ball(l2, {_decimal(self.radius)})"
        self._solve(X, signs, "log(1 + exp(-y*<w, x>))", "{-1, 1} by map(-1 -> -1, 1 -> 1)", over)
        return self

    def decision_function(self, X: Any) -> Any:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return X @ self.coef_ + self.intercept_

    def predict(self, X: Any) -> Any:
        score = self.decision_function(X)
        return self.classes_[(score > 0).astype(int)]

    def predict_proba(self, X: Any) -> Any:
        p = 1 / (1 + np.exp(-np.clip(self.decision_function(X), -700, 700)))
        return np.column_stack([1 - p, p])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        tags.non_deterministic = True
        return tags


class PrivateLinearRegression(RegressorMixin, _Private):  # type: ignore[misc]
    """Ridge regression over an l2 ball, (epsilon, delta)-DP. ``bounds``: the interval that responses are clipped to; ``radius``: of the
    ball that the weights lie in (it makes the gradients bounded, so it is needed)."""

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = 1e-6,
        data_norm: float = 1.0,
        bounds: tuple[float, float] = (-1.0, 1.0),
        alpha: float = 1e-3,
        radius: float = 1.0,
        fit_intercept: bool = True,
        algorithm: str = "auto",
        neighbours: str = "replace-one",
    ) -> None:
        self.epsilon, self.delta, self.data_norm, self.bounds, self.alpha = epsilon, delta, data_norm, bounds, alpha
        self.radius, self.fit_intercept, self.algorithm, self.neighbours = radius, fit_intercept, algorithm, neighbours

    def fit(self, X: Any, y: Any) -> PrivateLinearRegression:
        """X: (n, d) numbers, y: (n,) numbers."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        low, high = (float(b) for b in self.bounds)
        if not low < high:
            raise ValueError(f"bounds are an interval, not {self.bounds!r}")
        labels = f"[{_decimal(low)}, {_decimal(high)}] by clip"
        self._solve(X, np.asarray(y, dtype=np.float64), "(y - <w, x>)^2/2", labels, f"ball(l2, {_decimal(self.radius)})")
        return self

    def predict(self, X: Any) -> Any:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return X @ self.coef_ + self.intercept_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        tags.non_deterministic = True
        return tags
