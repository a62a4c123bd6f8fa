"""The scikit-learn estimators: what the library's own checks say, and that they are plans."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import dpspec as dp

#: Checks that a private estimator cannot pass, all for one reason.
EXPECTED = (  # two fits on the same data differ by fresh secure noise
    "check_classifier_data_not_an_array",
    "check_regressor_data_not_an_array",
    "check_supervised_y_2d",
    "check_fit_idempotent",
    "check_regressors_int",
    "check_sample_weight_equivalence_on_dense_data",
)


def classification(n=3000):
    x = np.random.default_rng(0).normal(size=(n, 4))
    return x, np.where(x[:, 0] > 0, "yes", "no")


def test_logistic_regression_learns_and_keeps_its_plan():
    x, y = classification()
    model = dp.sklearn.PrivateLogisticRegression(epsilon=1.0, data_norm=3.0, classes=("no", "yes")).fit(x, y)
    assert model.score(x, y) > 0.9
    assert set(model.predict(x)) <= {"no", "yes"}
    assert model.predict_proba(x).sum(axis=1) == pytest.approx(1.0)
    assert model.plan_["guarantee"]["epsilon"] <= 1.0
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.coef_, model.coef_)


def test_linear_regression_learns():
    x, _ = classification()
    model = dp.sklearn.PrivateLinearRegression(epsilon=1.0).fit(x / 4, x[:, 0] / 4)
    assert model.score(x / 4, x[:, 0] / 4) > 0.6


def test_bad_parameters_are_refused():
    x, y = classification(20)
    with pytest.raises(ValueError, match="epsilon"):
        dp.sklearn.PrivateLogisticRegression(epsilon=-1).fit(x, y)
    with pytest.raises(ValueError, match="classes"):
        dp.sklearn.PrivateLogisticRegression(classes=("no", "maybe")).fit(x, y)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["PrivateLogisticRegression", "PrivateLinearRegression"])
def test_check_estimator(name):
    from sklearn.utils.estimator_checks import check_estimator

    found = check_estimator(getattr(dp.sklearn, name)(epsilon=100.0), on_fail=None, on_skip=None)
    failed = {r["check_name"]: str(r["exception"])[:200] for r in found if r["status"] == "failed"}
    assert {k: v for k, v in failed.items() if k not in EXPECTED} == {}
    assert sum(r["status"] == "passed" for r in found) > 35
