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
    assert (model.coef_.shape, model.intercept_.shape, model.decision_function(x).shape) == ((1, 4), (1,), (3000,))


@pytest.mark.parametrize("intercept", [True, False])
def test_several_classes_have_scikit_learns_shapes(intercept):
    """Against LogisticRegression on the same records: attributes, methods and the order of the classes."""
    from sklearn.linear_model import LogisticRegression

    x = np.random.default_rng(0).normal(size=(4000, 5))
    y = np.array(["c", "a", "b"])[np.argmax(x[:, :3] + (1.0 if intercept else 0.0), axis=1)]
    theirs = LogisticRegression(fit_intercept=intercept).fit(x, y)
    model = dp.sklearn.PrivateLogisticRegression(epsilon=4.0, data_norm=4.0, classes=("c", "b", "a"), fit_intercept=intercept).fit(x, y)
    assert list(model.classes_) == list(theirs.classes_) == ["a", "b", "c"]
    for name in ("coef_", "intercept_"):
        assert getattr(model, name).shape == getattr(theirs, name).shape
    for name in ("predict", "predict_proba", "decision_function"):
        assert getattr(model, name)(x).shape == getattr(theirs, name)(x).shape
    assert model.predict_proba(x).sum(axis=1) == pytest.approx(1.0)
    assert np.array_equal(model.predict(x), model.classes_[model.predict_proba(x).argmax(axis=1)])
    assert model.score(x, y) > 0.85
    (release,) = model.plan_["releases"]
    assert release["task"].startswith("minimise multinomial(3)")
    assert release["noise"][0]["size"] == 3 * (6 if intercept else 5)


def test_what_is_released_does_not_depend_on_which_classes_occur():
    """A class that nobody has keeps its row: the shape is the one that was stated."""
    x = np.random.default_rng(0).normal(size=(50, 4))
    model = dp.sklearn.PrivateLogisticRegression(classes=(0, 1, 2, 3)).fit(x, np.zeros(50, dtype=int))
    assert model.coef_.shape == (4, 4)
    two = dp.sklearn.PrivateLogisticRegression(classes=(0, 1)).fit(x, np.zeros(50, dtype=int))
    assert two.coef_.shape == (1, 4)


def test_linear_regression_learns():
    x, _ = classification()
    model = dp.sklearn.PrivateLinearRegression(epsilon=1.0).fit(x / 4, x[:, 0] / 4)
    assert model.score(x / 4, x[:, 0] / 4) > 0.6


def test_bad_parameters_are_refused():
    x, y = classification(20)
    with pytest.raises(ValueError, match="epsilon"):
        dp.sklearn.PrivateLogisticRegression(epsilon=-1, classes=("no", "yes")).fit(x, y)
    with pytest.raises(ValueError, match="classes must be stated"):
        dp.sklearn.PrivateLogisticRegression().fit(x, y)
    with pytest.raises(ValueError, match="'observed'"):
        dp.sklearn.PrivateLogisticRegression(classes="seen").fit(x, y)
    with pytest.raises(ValueError, match="twice"):
        dp.sklearn.PrivateLogisticRegression(classes=("no", "yes", "no")).fit(x, y)
    with pytest.raises(ValueError, match="at least 2"):
        dp.sklearn.PrivateLogisticRegression(classes=("no",)).fit(x, y)
    with pytest.raises(ValueError, match="classes"):
        dp.sklearn.PrivateLogisticRegression(classes=("no", "maybe")).fit(x, y)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["PrivateLogisticRegression", "PrivateLinearRegression"])
def test_check_estimator(name):
    from sklearn.utils.estimator_checks import check_estimator

    public = {"classes": "observed"} if name == "PrivateLogisticRegression" else {}  # the checks bring many sets of labels
    found = check_estimator(getattr(dp.sklearn, name)(epsilon=100.0, **public), on_fail=None, on_skip=None)
    failed = {r["check_name"]: str(r["exception"])[:200] for r in found if r["status"] == "failed"}
    assert {k: v for k, v in failed.items() if k not in EXPECTED} == {}
    assert sum(r["status"] == "passed" for r in found) > 35


def _scaled(x, radius):
    return x * np.minimum(1.0, radius / np.linalg.norm(x, axis=1))[:, None]


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("radius", [1.0, 0.05, 300.0])
def test_records_are_scaled_in_predict_as_in_fit(intercept, radius):
    """A weight of scaled records says something about scaled records only: long, short and mixed records, one alone like in a batch."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-80, 80, (400, 3)) * rng.choice([1.0, 1e-3], (400, 1))
    y = np.clip(x[:, 0] / 80, -1, 1)
    model = dp.sklearn.PrivateLinearRegression(epsilon=50, data_norm=radius, fit_intercept=intercept, radius=2).fit(x, y)
    rows = np.c_[x, np.ones(len(x))] if intercept else x
    w = np.append(model.coef_, model.intercept_) if intercept else model.coef_
    np.testing.assert_allclose(model.predict(x), _scaled(rows, radius) @ w, rtol=1e-9, atol=1e-12)
    assert model.predict(x[3:4])[0] == pytest.approx(model.predict(x)[3])
    assert (np.abs(model.predict(x)) <= 2 * radius * (1 + 1e-9)).all()  # |w| <= 2
    model.set_params(data_norm=7.0)  # of the next fit
    np.testing.assert_allclose(model.predict(x), _scaled(rows, radius) @ w, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("classes", [("a", "b"), ("a", "b", "c")])
def test_classifiers_scale_records_in_predict_as_in_fit(classes):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 2)) * rng.uniform(0.1, 1000, (300, 1))
    y = rng.choice(classes, 300)
    model = dp.sklearn.PrivateLogisticRegression(epsilon=20, classes=classes).fit(x, y)
    margins = _scaled(np.c_[x, np.ones(len(x))], 1.0) @ np.c_[model.coef_, model.intercept_].T
    np.testing.assert_allclose(model.decision_function(x), margins[:, 0] if len(classes) == 2 else margins, rtol=1e-9, atol=1e-12)


def test_a_target_that_scaled_records_explain_is_learnt_at_any_length():
    """y is the direction's first coordinate; records are 20 to 80 long and the ball has radius 1."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(4000, 2))
    x *= (rng.uniform(20, 80, 4000) / np.linalg.norm(x, axis=1))[:, None]
    y = x[:, 0] / np.linalg.norm(x, axis=1)
    model = dp.sklearn.PrivateLinearRegression(epsilon=8, radius=2, fit_intercept=False).fit(x, y)
    assert model.score(x, y) > 0.95


@pytest.mark.parametrize("fitted", [True, False])
def test_predict_knows_whether_fit_had_a_constant_column(fitted):
    """A parameter that is set after fit belongs to the next fit."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 3)), rng.choice([0, 1], 30)
    for model, target in (
        (dp.sklearn.PrivateLogisticRegression(classes=(0, 1), fit_intercept=fitted), y),
        (dp.sklearn.PrivateLinearRegression(fit_intercept=fitted), x[:, 0]),
    ):
        model.fit(x, target)
        before = model.predict(x)
        assert (model.set_params(fit_intercept=not fitted).predict(x) == before).all()


@pytest.mark.parametrize("name", ["algorithm", "neighbours", "n"])
def test_a_parameter_is_one_line_of_the_spec(name):
    """What follows a line break would be read as more of the spec: another release, another domain."""
    more = {"algorithm": "dp-gd", "neighbours": "replace-one", "n": 4}[name]
    model = dp.sklearn.PrivateLogisticRegression(classes=(0, 1), **{name: f"{more}\n\nrelease b\n  estimate mean(x)\n  by dp-catoni-mean"})
    with pytest.raises(ValueError, match=f"{name} is one line"):
        model.fit(np.eye(4), [0, 1, 0, 1])


def test_classes_may_be_a_set():
    model = dp.sklearn.PrivateLogisticRegression(classes={"yes", "no"}).fit(np.eye(4), ["no", "yes", "no", "yes"])
    assert list(model.classes_) == ["no", "yes"]
