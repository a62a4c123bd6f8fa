"""Estimators with scikit-learn's interface: thin wrappers on plans.

``fit`` writes a spec for the data's public shape, has it checked and calibrated, and runs it in release mode with secure noise. The
numbers of records and columns count as public; under ``neighbours="add-remove"`` the number of records is private, and ``n`` states the
public number that sums are divided by. The classes of the classifier are stated (``classes``) and not read off ``y``: a class that
one person alone has would be revealed by the shape of what is released. ``plan_`` holds the checked plan as JSON-able data.

A record longer than ``data_norm`` is scaled to that norm, its constant column included, in ``predict`` as in ``fit``: the weights are those
of scaled records. A ``data_norm`` that most records exceed leaves little but their directions, so scale columns by public numbers first.

Each fit is a release of its own. ``ledger`` and ``account`` charge it before noise is drawn (:mod:`dpspec.ledger`), and then
cross-validation and grid search charge every fit, or stop where the limit is reached. Without them a second fit on private data in one
process warns once (:class:`BudgetWarning`, DP713) with the total so far, and :func:`spent` gives it at any time; other processes are not
seen.

>>> import dpspec as dp
>>> model = dp.sklearn.PrivateLogisticRegression(epsilon=1.0, delta=1e-6, classes=("no", "yes")).fit(x, y)   # doctest: +SKIP
"""

from __future__ import annotations

import math
import threading
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
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


class BudgetWarning(UserWarning):
    """DP713: an estimator was fitted again in this process, and no ledger counts its budgets."""


_fits: list[tuple[dict[str, Any], str]] = []
_lock = threading.Lock()


def spent(delta: float = 1e-6) -> dict[str, Any]:
    """``{"releases", "epsilon", "delta"}`` of all fits of this process that no ledger counts, had their parameters been fixed in advance:
    epsilon is the largest over the neighbouring relations that were used, each for itself; infinite at a ``delta`` that is too small."""
    from dpspec.ledger.totals import counted, total

    with _lock:
        fits = list(_fits)
    found = [total(counted(s for s, own in fits if own == relation), Fraction(delta), check=False) for relation in {own for _, own in fits}]
    return {"releases": len(fits), "epsilon": max((t.epsilon for t in found), default=0.0), "delta": delta}


def _counted(schedule: dict[str, Any], delta: float | None) -> None:
    """One more fit that no ledger counts; the second one warns."""
    with _lock:
        _fits.append((schedule, schedule["relation"]))
        if len(_fits) != 2:
            return
    so_far = spent(delta or 0.0)
    warnings.warn(
        f"DP713: this is the second fit on private data in this process, and each spends its budget: together epsilon "
        f"{so_far['epsilon']:.4g} at delta {so_far['delta']:g} so far. Cross-validation and grid search fit many times. Give the estimator "
        "ledger= and account=, or fit once; dpspec.sklearn.spent() tells the total",
        BudgetWarning,
        stacklevel=4,
    )


def _decimal(value: float) -> str:
    """The number as the spec language reads it, without an exponent."""
    return np.format_float_positional(value, trim="-")


class _Private(BaseEstimator):  # type: ignore[misc]
    """Parameters: ``epsilon``; ``delta`` (None: pure epsilon); ``data_norm``, the bound that each record (with its constant column) is
    scaled to; ``alpha``, the ridge weight lam; ``fit_intercept``; ``algorithm``, a name or ``auto``; ``neighbours``; ``n``, needed under
    add-remove alone: the public number of records that sums are divided by, about how many there are and never counted from them;
    ``ledger`` and ``account``, the URL or file of a ledger and the account that each fit is charged to (None: what the configuration
    says, :mod:`dpspec.config`)."""

    def _hides_its_size(self) -> bool:
        """Whether how many records there are is private; then the public n must be stated."""
        if self.neighbours != "add-remove":
            return False
        if self.n is None:
            raise ValueError("under add-remove how many records there are is private: state n, the public number that sums are divided by")
        return True

    def _with_constant(self, x: Any, constant: bool) -> Any:
        return np.hstack([x, np.full((len(x), 1), 1.0)]) if constant else x

    def _margins(self, x: Any, weights: Any) -> Any:
        """<w, x> of records that are scaled as ``fit`` scaled its own; ``weights``: (d,) or (K, d), the intercept's column last."""
        from fractions import Fraction

        from dpspec.data.enforce import enforce
        from dpspec.data.records import Records
        from dpspec.spec.expr import Num
        from dpspec.spec.model import Ball, Data, Domain, Enforcement

        ball = Ball(norm="l2", radius=Num(Fraction(_decimal(self.scaled_to_))))
        domain = Domain(variable="x", set=ball, by=Enforcement(how="scale"))
        scaled, _ = enforce(Records(self._with_constant(x, self.with_constant_)), Data(domains=(domain,)))
        return np.asarray(scaled.x) @ np.asarray(weights).T

    def _solve(self, x: Any, y: Any, loss: str, labels: str, over: str) -> Any:
        """The released weights, (d,) or (K, d), the intercept's column last."""
        from dpspec.api import loads, plan

        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise ValueError(f"epsilon must be positive and finite, not {self.epsilon!r}")
        if not (math.isfinite(self.data_norm) and self.data_norm > 0):
            raise ValueError(f"data_norm must be positive and finite, not {self.data_norm!r}")
        if not self._hides_its_size() and len(x) < 2:
            raise ValueError("the data are 1 sample: a single record has no neighbours to hide among")
        for name in ("algorithm", "neighbours", "n"):  # words of one line of the spec
            if len(str(getattr(self, name)).splitlines()) > 1:
                raise ValueError(f"{name} is one line, not {getattr(self, name)!r}")
        x = self._with_constant(x, self.fit_intercept)
        self.scaled_to_, self.with_constant_ = float(self.data_norm), bool(self.fit_intercept)
        text = _SPEC.format(
            n=len(x) if self.n is None else self.n,
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
        from dpspec.config import charged

        ledger, account = charged(self.ledger, self.account)
        record = checked.run(x, y, ledger=ledger, account=account)
        if ledger is None:
            from dpspec.compiler.plan import schedule_json

            _counted(schedule_json(checked.draft), self.delta)
        self.plan_ = checked.to_json()
        return np.asarray(record.outputs["weights"]["theta"])


class PrivateLogisticRegression(ClassifierMixin, _Private):  # type: ignore[misc]
    """Logistic regression with a ridge term, (epsilon, delta)-DP; multinomial for more than two classes. ``classes``: all labels that
    there may be, public, or ``"observed"`` where it is public which labels occur in ``y``; ``radius``: of the l2 ball that the weights lie
    in (Frobenius norm of the matrix for several classes), None for all of R^d.

    Attributes: ``classes_`` sorted; ``coef_`` (1, d) for two classes, else (K, d); ``intercept_`` (1,) or (K,); ``plan_``. Raises
    ``ValueError`` for bad parameters and for labels outside ``classes``."""

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
        classes: Any = None,
        n: int | None = None,
        ledger: str | None = None,
        account: str | None = None,
    ) -> None:
        self.epsilon, self.delta, self.data_norm, self.alpha, self.radius = epsilon, delta, data_norm, alpha, radius
        self.fit_intercept, self.algorithm, self.neighbours, self.classes, self.n = fit_intercept, algorithm, neighbours, classes, n
        self.ledger, self.account = ledger, account

    def fit(self, X: Any, y: Any) -> PrivateLogisticRegression:
        """X: (n, d) numbers, y: (n,) labels."""
        hidden = self._hides_its_size()
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=0 if hidden else 1)
        if isinstance(self.classes, str):  # else every label is compared with the stated ones; this check warns of few records a class
            if hidden:
                raise ValueError("under add-remove who is in the data is private, and so is which labels occur: state classes")
            check_classification_targets(y)
        self.classes_ = self._stated(y)
        K = len(self.classes_)
        if K < 2 and not isinstance(self.classes, str):
            raise ValueError("classes lists one label; a classifier needs at least 2")
        if K < 2:
            raise ValueError(f"This classifier needs samples of at least 2 classes in the data, but the data contains {K} class")
        if not np.isin(y, self.classes_).all():
            raise ValueError("y holds labels that are not in classes")
        code = np.searchsorted(self.classes_, y)
        over = "R^d" if self.radius is None else f"ball(l2, {_decimal(self.radius)})"
        if K == 2:
            labels = "{-1, 1} by map(-1 -> -1, 1 -> 1)"
            w = self._solve(X, 2.0 * code - 1.0, "log(1 + exp(-y*<w, x>))", labels, over)
        else:
            labels = f"{{{', '.join(map(str, range(K)))}}} by reject"
            w = self._solve(X, code.astype(np.float64), f"multinomial({K})", labels, over)
        w = np.atleast_2d(w)
        self.coef_ = w[:, :-1] if self.fit_intercept else w
        self.intercept_ = w[:, -1] if self.fit_intercept else np.zeros(len(w))
        return self

    def _stated(self, y: Any) -> Any:
        if self.classes is None:
            raise ValueError("classes must be stated, as they are published: classes=(...), or 'observed' where it is public which occur")
        if isinstance(self.classes, str):
            if self.classes != "observed":
                raise ValueError(f"classes are a sequence of labels or 'observed', not {self.classes!r}")
            return np.unique(y)
        found = np.unique(np.asarray(list(self.classes)))
        if len(found) != len(self.classes):
            raise ValueError("classes lists a label twice")
        return found

    def decision_function(self, X: Any) -> Any:
        """Scores: (n,) for two classes, positive for the second; else (n, K), the largest wins."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        weights = np.hstack([self.coef_, self.intercept_[:, None]]) if self.with_constant_ else self.coef_
        scores = self._margins(X, weights)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> Any:
        """Labels, (n,)."""
        score = self.decision_function(X)
        return self.classes_[(score > 0).astype(int) if score.ndim == 1 else score.argmax(axis=1)]

    def predict_proba(self, X: Any) -> Any:
        """Probabilities, (n, K), in the order of ``classes_``."""
        from dpspec.algorithms.multinomial import softmax

        score = self.decision_function(X)
        return softmax(np.stack([np.zeros(len(score)), score]) if score.ndim == 1 else score.T).T

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
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
        n: int | None = None,
        ledger: str | None = None,
        account: str | None = None,
    ) -> None:
        self.epsilon, self.delta, self.data_norm, self.bounds, self.alpha = epsilon, delta, data_norm, bounds, alpha
        self.radius, self.fit_intercept, self.algorithm, self.neighbours, self.n = radius, fit_intercept, algorithm, neighbours, n
        self.ledger, self.account = ledger, account

    def fit(self, X: Any, y: Any) -> PrivateLinearRegression:
        """X: (n, d) numbers, y: (n,) numbers."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=0 if self._hides_its_size() else 1)
        low, high = (float(b) for b in self.bounds)
        if not low < high:
            raise ValueError(f"bounds are an interval, not {self.bounds!r}")
        labels = f"[{_decimal(low)}, {_decimal(high)}] by clip"
        w = self._solve(X, np.asarray(y, dtype=np.float64), "(y - <w, x>)^2/2", labels, f"ball(l2, {_decimal(self.radius)})")
        self.coef_, self.intercept_ = (w[:-1], float(w[-1])) if self.fit_intercept else (w, 0.0)
        return self

    def predict(self, X: Any) -> Any:
        """Numbers, (n,)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return self._margins(X, np.append(self.coef_, self.intercept_) if self.with_constant_ else self.coef_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        tags.non_deterministic = True
        return tags
