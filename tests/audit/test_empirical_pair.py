"""audit_pair: what it sees, what it refuses, what it says."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from dpspec.audit.empirical import audit_pair
from dpspec.audit.empirical.pair import TRAIN_SHARE
from dpspec.audit.empirical.samples import as_matrix, encode, fit_coding
from dpspec.audit.empirical.statistics import FAMILIES, candidates
from dpspec.spec.diagnostics import SpecError

RNG = np.random.default_rng


def laplace(mu, n, seed, scale=1.0):
    return RNG(seed).laplace(mu, scale, (n, 1))


def test_the_bound_is_below_the_true_epsilon_and_near_it():
    found = audit_pair(laplace(0, 100_000, 1, 0.5), laplace(1, 100_000, 2, 0.5), claim=1.0)
    assert found.verdict == "violated"
    assert 1.9 < found.epsilon_lower < 2.0


def test_without_a_claim_there_is_a_bound_and_no_verdict_of_violation():
    found = audit_pair(laplace(0, 20_000, 1, 0.2), laplace(1, 20_000, 2, 0.2))
    assert found.verdict == "not-certified"
    assert found.epsilon_lower > 3
    assert found.delta_lower is None


def test_never_says_that_a_claim_holds():
    found = audit_pair(laplace(0, 5000, 1), laplace(0, 5000, 2), claim=5.0)
    assert found.verdict == "not-certified"
    text = json.dumps(found.to_audit_json("x"))
    assert "holds" not in text
    assert "safe" not in text


def test_level_at_the_boundary_over_seeds():
    """The tight Laplace count at confidence 0.5: a tenth of the error is spent, so at most 5 % alarms, 3 standard errors over 120 trials;
    and not none, since the test is exact."""
    found = [audit_pair(laplace(0, 2000, [s, 0]), laplace(1, 2000, [s, 1]), claim=1.0, confidence=0.5) for s in range(120)]
    alarms = sum(f.verdict == "violated" for f in found)
    assert 0 < alarms <= 120 * 0.05 + 3 * math.sqrt(120 * 0.05 * 0.95)
    assert {f.error for f in found} == {0.05}


def test_delta_accounts_for_a_rare_failure():
    """With probability 0.02 the input is published: (0, 0.02)-DP, and no finite epsilon at delta = 0."""

    def leak(value, n, seed):
        rng = RNG(seed)
        return np.where(rng.random((n, 1)) < 0.02, value, rng.laplace(0, 1, (n, 1)))

    a, b = leak(7.0, 20_000, 1), leak(-7.0, 20_000, 2)
    pure = audit_pair(a, b, claim=1.0)
    approximate = audit_pair(a, b, claim=1.0, delta=0.02)
    assert pure.verdict == "violated"
    assert 0.01 < pure.delta_lower < 0.02
    assert approximate.verdict == "not-certified"


def test_scale_differences_are_seen():
    found = audit_pair(RNG(1).normal(0, 1, (20_000, 1)), RNG(2).normal(0, 2, (20_000, 1)), claim=1.0)
    assert found.verdict == "violated"


def test_an_interaction_is_seen_that_no_coordinate_shows():
    """The sign of the product is all that depends on the input: both coordinates are symmetric on either input."""

    def signs(agree, n, seed):
        rng = RNG(seed)
        x = rng.normal(size=(n, 2))
        flip = rng.random(n) < (0.9 if agree else 0.1)
        x[:, 1] = np.abs(x[:, 1]) * np.where(flip, 1, -1) * np.sign(x[:, 0])
        return x

    a, b = signs(True, 10_000, 1), signs(False, 10_000, 2)
    assert audit_pair(a, b, claim=1.0, statistics=["coordinates"]).verdict == "not-certified"
    assert audit_pair(a, b, claim=1.0).verdict == "violated"
    assert audit_pair(a, b, claim=1.0, statistics=["boosting"]).verdict == "violated"


def test_exact_repeated_values_are_events():
    """An atom in a continuous law: 0.25 with probability 0.3 on one input, 0.75 on the other; no threshold separates it as well."""

    def atom(value, n, seed):
        rng = RNG(seed)
        return np.where(rng.random((n, 1)) < 0.3, value, rng.random((n, 1)))

    found = audit_pair(atom(0.25, 10_000, 1), atom(0.75, 10_000, 2), claim=1.0)
    assert found.verdict == "violated"
    assert found.statistic == "exact outputs"
    assert found.epsilon_lower > 5


def test_floating_point_grid_of_a_textbook_laplace():
    """numpy's Laplace plus 0 or plus 1 has different low bits (Mironov 2012): refuted by its digits, and by nothing else; a rounded one
    is not."""
    a, b = laplace(0, 20_000, 1), laplace(1, 20_000, 2)
    assert audit_pair(a, b, claim=1.0).verdict == "not-certified"
    assert audit_pair(a, b, claim=1.0, statistics=["digits"]).verdict == "violated"
    grid = 2.0**-10
    rounded = [np.round(x / grid) * grid for x in (a, b)]
    assert audit_pair(*rounded, claim=1.0, statistics=["digits"]).verdict == "not-certified"


def test_labels_missing_and_infinite_outputs():
    rng = RNG(0)
    words = [np.where(rng.random((4000, 1)) < p, "yes", "no") for p in (0.9, 0.1)]
    assert audit_pair(*words, claim=1.0).verdict == "violated"
    holes = [np.where(rng.random((4000, 2)) < p, np.nan, rng.normal(size=(4000, 2))) for p in (0.9, 0.1)]
    assert audit_pair(*holes, claim=1.0).verdict == "violated"
    signs = [np.where(rng.random((4000, 1)) < p, np.inf, -np.inf) for p in (0.9, 0.1)]
    assert audit_pair(*signs, claim=1.0).verdict == "violated"
    mixed = [np.array([["a" if rng.random() < p else "b", rng.normal()] for _ in range(3000)], dtype=object) for p in (0.9, 0.1)]
    assert audit_pair(*mixed, claim=1.0).verdict == "violated"


def test_outputs_of_unequal_length_are_padded():
    ragged = [[list(range(1 + (RNG([s, i]).random() < p))) for i in range(2000)] for s, p in ((1, 0.95), (2, 0.05))]
    assert as_matrix(ragged[0]).shape == (2000, 3)
    assert audit_pair(*ragged, claim=1.0).verdict == "violated"


def test_the_coding_does_not_look_at_held_out_rows():
    """A label unseen in training is one code, whatever it is."""
    train = np.array([["a"], ["b"]], dtype=object)
    coding = fit_coding(train, train)
    assert encode(coding, np.array([["z"], ["q"], ["b"]], dtype=object))[:, 0].tolist() == [-1.0, -1.0, 1.0]


def test_the_event_is_chosen_on_the_training_part_alone(monkeypatch):
    """Whatever the held-out rows are, the event is the same: here they are replaced by constants."""
    import dpspec.audit.empirical.pair as module

    chosen = []
    original = module.choose_event

    def spy(*args, **kwargs):
        chosen.append(original(*args, **kwargs))
        return chosen[-1]

    monkeypatch.setattr(module, "choose_event", spy)
    n = 4000
    a, b = laplace(0, n, 1), laplace(1, n, 2)
    audit_pair(a, b, claim=1.0, seed=5)
    rng = RNG(5)  # the shuffles that audit_pair makes: first a, then b
    keep = math.ceil(TRAIN_SHARE * n)
    for x in (a, b):
        x[rng.permutation(n)[keep:]] = 0.123
    audit_pair(a, b, claim=1.0, seed=5)
    assert chosen[0].text() == chosen[1].text()
    assert chosen[0].likelier == chosen[1].likelier


def test_sorted_files_do_no_harm():
    a, b = np.sort(laplace(0, 20_000, 1), axis=0), np.sort(laplace(1, 20_000, 2), axis=0)
    found = audit_pair(a, b, claim=1.0)
    assert found.verdict == "not-certified"


def test_common_random_numbers_are_noticed():
    z = RNG(0).laplace(0, 1, (5000, 1))
    found = audit_pair(z, z + 1.0, claim=1.0)
    assert "DP656" in [d.code for d in found.diagnostics]
    assert found.verdict == "not-certified"


def test_recurring_noise_is_noticed():
    z = np.tile(RNG(0).laplace(0, 1, (1000, 1)), (5, 1))
    found = audit_pair(z, laplace(1, 5000, 3), claim=1.0)
    assert "DP656" in [d.code for d in found.diagnostics]


def test_rounded_outputs_are_not_taken_for_recurring_noise():
    a, b = np.round(laplace(0, 5000, 1), 2), np.round(laplace(1, 5000, 2), 2)
    assert "DP656" not in [d.code for d in audit_pair(a, b, claim=1.0).diagnostics]


def test_too_few_runs_are_reported():
    """40 held-out runs cannot show epsilon = 8, by any event: ln of the bounds is about ln(40/5)."""
    found = audit_pair(laplace(0, 60, 1), laplace(1, 60, 2), claim=8.0)
    assert "DP652" in [d.code for d in found.diagnostics]
    assert "DP652" not in [d.code for d in audit_pair(laplace(0, 2000, 1), laplace(1, 2000, 2), claim=1.0).diagnostics]


def test_constant_outputs_tell_nothing():
    found = audit_pair(np.zeros((100, 2)), np.zeros((100, 2)), claim=0.0)
    assert found.epsilon_lower == 0.0
    assert found.verdict == "not-certified"


def test_a_deterministic_mechanism_is_refuted():
    assert audit_pair(np.zeros((1000, 1)), np.ones((1000, 1)), claim=1.0).verdict == "violated"


@pytest.mark.parametrize(
    ("a", "b", "options", "code"),
    [
        (np.zeros((100, 1)), np.zeros((100, 2)), {}, "DP653"),
        (np.zeros((5, 1)), np.zeros((100, 1)), {}, "DP653"),
        (np.zeros((100, 0)), np.zeros((100, 0)), {}, "DP653"),
        (np.zeros(100), np.zeros(100), {"claim": -1.0}, "DP659"),
        (np.zeros(100), np.zeros(100), {"claim": math.nan}, "DP659"),
        (np.zeros(100), np.zeros(100), {"delta": 1.0}, "DP659"),
        (np.zeros(100), np.zeros(100), {"confidence": 1.0}, "DP659"),
        (np.zeros(100), np.zeros(100), {"mu": -0.1}, "DP659"),
    ],
)
def test_refusals(a, b, options, code):
    with pytest.raises(SpecError) as e:
        audit_pair(a, b, **options)
    assert [d.code for d in e.value.diagnostics] == [code]


def test_unknown_statistics_are_refused():
    with pytest.raises(ValueError, match="unknown statistics"):
        audit_pair(np.zeros(100), np.zeros(100), statistics=["entropy"])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("width", [1, 3, 80])
def test_every_statistic_scores_every_row(family, width):
    rng = RNG(0)
    a, b, other = rng.normal(0, 1, (300, width)), rng.normal(0.5, 1, (300, width)), rng.normal(0, 5, (50, width))
    for s in candidates([family], a, b):
        score = s.fit(a, b)
        if score is not None:
            values = score(other)
            assert values.shape == (50,)
            assert np.all(np.isfinite(values))


def test_json_shape():
    found = audit_pair(laplace(0, 4000, 1, 0.3), laplace(1, 4000, 2, 0.3), claim=1.0)
    out = json.loads(json.dumps(found.to_audit_json("mech.py")))
    assert out["subject"] == "mech.py"
    assert out["verdict"] == "violated"
    assert out["static"] is None
    assert out["exact"] is None
    assert {"epsilon_lower", "confidence", "samples", "statistic"} <= out["empirical"].keys()
    assert out["empirical"]["samples"] == 4000
    assert out["findings"][0]["code"] == "DP650"
    assert out["stated"]["epsilon"] == 1.0


def test_gaussian_dp_claim_is_sharper_than_its_epsilon_and_delta():
    """mu = 1.5 against a claim of 1: 5000 runs refute mu, while (epsilon, delta = 1e-6) of mu = 1, epsilon = 4.9, stays unrefuted."""
    a, b = RNG(1).normal(0, 1, (5000, 1)), RNG(2).normal(1.5, 1, (5000, 1))
    assert audit_pair(a, b, mu=1.0).verdict == "violated"
    assert audit_pair(a, b, claim=4.9, delta=1e-6).verdict == "not-certified"


def test_a_tight_gaussian_claim_is_not_refuted():
    verdicts = [audit_pair(RNG([1, s]).normal(0, 1, (4000, 1)), RNG([2, s]).normal(0.7, 1, (4000, 1)), mu=0.7).verdict for s in range(20)]
    assert verdicts == ["not-certified"] * 20
