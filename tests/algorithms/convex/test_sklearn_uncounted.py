"""The estimators under add-remove: how many samples there are is private, so n is stated, and a fit on any number of them says the same."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import dpspec as dp

N, D = 50, 3
SIZES = (0, 1, N - 1, N, N + 1, 10 * N)


def samples(m: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(2).normal(size=(m, D))
    return x, np.where(x.sum(axis=1) > 0, "yes", "no") if m else np.empty(0, dtype="<U3")


def classifier(**more):
    return dp.sklearn.PrivateLogisticRegression(**{"neighbours": "add-remove", "classes": ("no", "yes"), "n": N, **more})


def regressor(**more):
    return dp.sklearn.PrivateLinearRegression(**{"neighbours": "add-remove", "n": N, **more})


@pytest.mark.parametrize("make", [classifier, regressor])
def test_a_fit_on_any_number_of_samples_has_the_same_plan_and_shapes_and_says_nothing(make):
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for m in SIZES:
            x, y = samples(m)
            model = make().fit(x, y if make is classifier else x.sum(axis=1))
            assert np.isfinite(model.coef_).all()
            public = {k: np.shape(v) for k, v in vars(model).items() if k.endswith("_") and k != "plan_"}
            found.append((model.plan_["plan_sha256"] if "plan_sha256" in model.plan_ else model.plan_["sha256"], public))
    assert all(f == found[0] for f in found)


def test_the_noise_follows_the_stated_n_and_not_the_samples():
    """One gradient norm L over n under add-remove, twice that over how many there are under replace-one."""

    def sensitivity(model):
        (noise,) = [e for r in model.plan_["releases"] for e in r["noise"]]
        return noise["sensitivity"]

    x, y = samples(2 * N)
    one, two = (classifier(algorithm="dp-gd", n=n).fit(x, y) for n in (N, 2 * N))
    assert sensitivity(one) == pytest.approx(2 * sensitivity(two), rel=1e-8)
    counted = classifier(algorithm="dp-gd", neighbours="replace-one", n=None).fit(x, y)
    assert sensitivity(counted) == pytest.approx(sensitivity(one), rel=1e-8)  # 2L/(2N) = L/N, but for the rounding of sums


@pytest.mark.parametrize("make", [classifier, regressor])
def test_n_is_stated_and_never_counted(make):
    x, y = samples(N)
    with pytest.raises(ValueError, match="state n"):
        make(n=None).fit(x, y if make is classifier else x[:, 0])


def test_which_labels_occur_is_private_too():
    with pytest.raises(ValueError, match="state classes"):
        classifier(classes="observed").fit(*samples(N))


def test_under_replace_one_a_stated_n_is_how_many_there_are():
    x, y = samples(N)
    classifier(neighbours="replace-one", n=N).fit(x, y)
    with pytest.raises(dp.SpecError, match="DP507"):
        classifier(neighbours="replace-one", n=N + 1).fit(x, y)


def test_a_fit_learns():
    x, y = samples(3000)
    assert classifier(n=3000, epsilon=2.0, data_norm=3.0).fit(x, y).score(x, y) > 0.9
