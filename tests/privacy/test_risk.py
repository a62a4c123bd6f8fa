"""The best attacker, against closed forms and simulated optimal tests; and the published formulas against the catalogue's numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpspec.privacy import published
from dpspec.privacy.guarantees import Approx, Gdp, Guarantee, Pure, Zcdp
from dpspec.privacy.risk import advantage, risk, sentences, strongest


def test_gdp_attacker_is_the_threshold_test() -> None:
    from scipy.stats import norm

    found = risk(Gdp(0.7))
    for a in (0.001, 0.01):
        assert found.detection[a] == pytest.approx(norm.sf(norm.isf(a) - 0.7), rel=1e-9)
    assert found.advantage == pytest.approx(2 * norm.cdf(0.35) - 1, rel=1e-9)


def test_pure_attacker_sees_randomised_response() -> None:
    """All attacks on one answer of randomised response: reject on the likely answer with probability t."""
    e = 1.5
    p = math.exp(e) / (1 + math.exp(e))
    for a in (0.001, 0.01):
        assert risk(Pure(e)).detection[a] == pytest.approx(a / (1 - p) * p, rel=1e-9)
    assert risk(Pure(e)).advantage == pytest.approx(2 * p - 1, rel=1e-9)


def test_approx_attacker_sees_the_four_outcome_mechanism() -> None:
    """Kairouz et al.: with probability delta the record is revealed, else randomised response."""
    e, d = 1.0, 0.02
    p = np.array([d, (1 - d) * math.exp(e) / (1 + math.exp(e)), (1 - d) / (1 + math.exp(e)), 0.0])
    q = p[::-1]
    assert risk(Approx(e, d)).advantage == pytest.approx(float(np.maximum(p - q, 0).sum()), rel=1e-9)
    assert risk(Approx(e, d)).detection[0.01] == pytest.approx(d + math.exp(e) * 0.01, rel=1e-9)


def test_zcdp_attacker_is_between_the_gaussian_and_pinsker() -> None:
    rho = 0.08
    gaussian = advantage(Gdp(math.sqrt(2 * rho)))
    assert gaussian <= advantage(Zcdp(rho)) <= math.sqrt(rho / 2) + 1e-12
    assert risk(Zcdp(rho)).detection[0.01] >= risk(Gdp(math.sqrt(2 * rho))).detection[0.01]


def test_more_budget_is_more_risk() -> None:
    for kind in (Pure, Gdp, Zcdp):
        rates = [risk(kind(v)).detection[0.01] for v in (0.01, 0.1, 1.0, 3.0)]
        assert rates == sorted(rates)
        assert rates[0] >= 0.01


def test_sentences_use_the_lowest_curve() -> None:
    with_mu = Guarantee("approx", epsilon=1.0, delta=1e-5, mu=0.268)
    assert strongest(with_mu) == Gdp(0.268)
    first, second = sentences(with_mu)
    assert "at most 2.0%" in first  # 1.978 % rounded up; the pair (1, 1e-5) alone would allow 2.8 %
    assert "10.7%" in second
    assert "2.8%" in sentences(Guarantee("approx", epsilon=1.0, delta=1e-5))[0]
    assert "100%" in sentences(Guarantee("pure", epsilon=12.0, delta=0.0))[0]


# ------------------------------------------------------------------------------------------------------ published formulas


def test_the_classic_formula_is_loose_below_and_unsafe_above() -> None:
    """Catalogue: at delta 1e-5 it first violates at about epsilon 8.45; at epsilon 10 its true delta is 2.27e-5; at 1, 4.1e-8."""
    from dpspec.privacy.gaussian import delta_upper

    def spent(epsilon: float) -> float:
        return published.epsilon_spent(published.classic_gaussian_sigma(epsilon, 1e-5, 1), 1, 1, 1e-5)

    assert spent(8.4) < 8.4
    assert spent(8.5) > 8.5
    assert delta_upper(10, 1 / published.classic_gaussian_sigma(10, 1e-5, 1)) == pytest.approx(2.27e-5, rel=5e-3)
    assert delta_upper(1, 1 / published.classic_gaussian_sigma(1, 1e-5, 1)) == pytest.approx(4.1e-8, rel=2e-2)
    assert published.classic_in_range(0.9)
    assert not published.classic_in_range(1)


def test_the_lemma_without_its_square_under_noises() -> None:
    """Catalogue: sensitivity 10 at (1, 1e-5): sigma 15.5, true epsilon 2.65."""
    sigma = published.zcdp_gaussian_sigma(1, 1e-5, 10, form="printed")
    assert sigma == pytest.approx(15.5, abs=0.01)
    assert published.epsilon_spent(sigma, 10, 1, 1e-5) == pytest.approx(2.65, abs=0.01)
    assert published.epsilon_spent(published.zcdp_gaussian_sigma(1, 1e-5, 10), 10, 1, 1e-5) < 1


@pytest.mark.parametrize(("steps", "factor"), [(10, 915), (100, 1085), (1000, 1254)])
def test_noise_factors_of_the_comparison(steps: int, factor: float) -> None:
    """Catalogue, document 000 section 4.1.5: c in sigma^2 = c G^2 T log(1/delta)/(n eps)^2 with sensitivity 2G/n, delta 1e-4, eps 1."""
    sigma = published.advanced_composition_sigma(1, 1e-4, 1, steps)
    assert 4 * sigma**2 / (steps * math.log(1e4)) == pytest.approx(factor, abs=0.6)
    by_zcdp = published.zcdp_gaussian_sigma(1, 1e-4, 1, steps)
    assert 4 * by_zcdp**2 / (steps * math.log(1e4)) == pytest.approx(8.43, abs=0.005)


def test_exact_factor_is_the_smallest() -> None:
    from dpspec.privacy.gaussian import noise_multiplier

    assert 4 * noise_multiplier(1, 1e-4, 100) ** 2 / (100 * math.log(1e4)) == pytest.approx(4.41, abs=0.005)


def test_splitting_delta_as_printed_saves_noise_that_is_owed() -> None:
    assert published.advanced_composition_sigma(0.9, 1e-5, 1, 50, form="printed") < published.advanced_composition_sigma(0.9, 1e-5, 1, 50)


def test_sentences_speak_of_what_is_hidden_alone() -> None:
    """In a local model a member is seen sending a report, and with labels alone protected the rest of a record may be published, so an
    attacker finds members with certainty; a guarantee for an event bounds no person with several."""
    g = Guarantee("pure", epsilon=2.0, delta=0.0)
    assert "finds a member" in sentences(g)[0]
    for protects, word in (("records", "record"), ("labels", "label"), ("attributes", "attribute")):
        for model in ("central", "nldp", "sldp"):
            text = sentences(g, model=model, protects=protects)[0]
            if (model, protects) == ("central", "records"):
                continue
            assert "member" not in text
            assert f"a suspected {word} " in text
    event = sentences(g, unit="event")[0]
    assert "member" not in event
    assert "the record of one event " in event
    assert len({s.rpartition(" with at most ")[2] for s in (event, text, sentences(g)[0])}) == 1  # the numbers are the same
