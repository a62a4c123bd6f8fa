"""Quantiles by one bit a user: the bisection, its rank error, and the exact privacy of an answer."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpspec.algorithms.statistics import ldp_quantile
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.executor import bind
from dpspec.lang.source import parse_text
from dpspec.privacy.channels.one_bit import OneBitMean
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise, keep_threshold

SPEC = """analysis "a"
data
  n = {n}, d = 1
  from memory columns [age]
  private, unit person, neighbours replace-one
  x in box(0, 100) by clip
privacy {model}
  epsilon = {epsilon}
release r
  estimate {what}
  by ldp-quantile{by}
"""


def drafted(what: str = "median(age)", by: str = " with step = 1", n: int = 4000, epsilon: float = 1, model: str = "sldp"):
    return compile_draft(parse_text(SPEC.format(n=n, what=what, by=by, epsilon=epsilon, model=model), surface="dps"))


def ran(draft, x: np.ndarray, seed: int):
    release = draft.releases[0]
    problem = bind.bound_problem(draft, release)
    meter = Release(release.calibrated, StudyNoise(seed), mode="study", public=PublicRandomness(0))
    return release.module.run(Records(x[:, None]), problem, release.tunables, meter)


def off(v: np.ndarray, answers: np.ndarray, shares: tuple[float, ...]) -> list[float]:
    return [max(np.mean(v < a) - p, p - np.mean(v <= a), 0.0) for a, p in zip(answers, shares, strict=True)]


def test_without_noise_it_is_as_exact_as_the_samples_of_the_rounds_whatever_is_tied() -> None:
    """A population of one value, of two, and of many."""
    for values in ([37.0], [0.0, 100.0], [0.0, 1.0, 2.0, 99.0], [100.0]):
        x = np.tile(np.repeat(values, 5), 4000 // (5 * len(values)) + 1)[:4000]
        found = ran(drafted("quantile(age, 0.3, 0.8)", epsilon=40), x, 1)
        assert max(off(x, found.theta, (0.3, 0.8))) <= found.extras["rank_error"][0] < 0.1  # rounds see 4000/T users, not all


def test_the_rank_error_holds() -> None:
    """Of 95 % at least; Hoeffding's bound and a union over the rounds leave room."""
    x = np.round(np.clip(np.random.default_rng(2).normal(40, 15, 4000), 0, 100))
    draft = drafted("quantile(age, 0.25, 0.5)")
    misses, sizes = 0, []
    for seed in range(60):
        found = ran(draft, x, seed)
        errors = off(x, found.theta, (0.25, 0.5))
        misses += max(errors) > found.extras["rank_error"][0]
        sizes.append(max(errors))
    assert misses <= 3
    assert 0.05 * found.extras["rank_error"][0] < np.mean(sizes) < found.extras["rank_error"][0] < 0.5


@pytest.mark.parametrize(
    ("text", "x", "by"),
    [
        ("(0, 100)", np.sort(np.random.default_rng(5).uniform(0, 100, 20_000)), ""),  # sorted by the very column
        ("(0, 100)", np.sort(np.random.default_rng(5).uniform(0, 100, 20_000))[::-1], " with step = 1/100"),
        ("(0, 1000000)", np.random.default_rng(6).uniform(0, 1, 20_000), ""),  # all in the first of the last intervals
        ("(0, 1000000)", np.exp(10 + 0.02 * np.random.default_rng(7).normal(size=20_000)), ""),
        ("(0, 1000000000000)", np.random.default_rng(8).integers(1, 200, 20_000).astype(float), " with step = 1"),
        ("(0, 100)", np.random.default_rng(9).integers(1, 7, 20_000).astype(float), " with step = 1, T = 4"),
    ],
)
def test_what_is_said_of_the_rank_holds_for_any_records(text: str, x: np.ndarray, by: str) -> None:
    """In any order, and however narrow beside the interval: of some number within ``rank_within``."""
    spec = SPEC.format(n=20_000, what="median(age)", by=by, epsilon=1, model="sldp").replace("(0, 100)", text)
    draft = compile_draft(parse_text(spec, surface="dps"))
    for seed in range(5):
        found = ran(draft, x, seed)
        near, answer = found.extras["rank_within"][0], found.theta[0]
        assert max(np.mean(x < answer - near) - 0.5, 0.5 - np.mean(x <= answer + near)) <= found.extras["rank_error"][0] < 0.25


def test_quantiles_rise_with_their_shares() -> None:
    x = np.random.default_rng(3).uniform(0, 100, 4000)
    for seed in range(5):
        assert np.all(np.diff(ran(drafted("quantile(age, 0.48, 0.5, 0.52)", by="", epsilon=0.3), x, seed).theta) >= 0)


def test_the_likelihood_ratio_of_an_answer_is_e_to_the_epsilon_at_most() -> None:
    """Enumerated: a user tells one of two reports, whose chances are the sampler's own fractions; a record chooses which is which."""
    epsilon = 1.0
    keep = Fraction(keep_threshold(epsilon), 2**64)
    assert keep / (1 - keep) <= Fraction(math.exp(epsilon)) * (1 + Fraction(1, 10**15))
    reports = np.ravel(OneBitMean(1.0).encode(np.array([[1.0], [-1.0]] * 2000), epsilon, StudyNoise(1)))
    assert set(np.round(np.abs(reports), 12)) == {round(OneBitMean(1.0).scale(epsilon), 12)}
    assert np.mean(reports[::2] > 0) == pytest.approx(float(keep), abs=0.04)


def test_every_user_answers_once() -> None:
    from dpspec.privacy.schedule import Disjoint

    release = drafted().releases[0]
    assert isinstance(release.tree, Disjoint)
    assert release.calibrated.guarantee.epsilon == pytest.approx(1)


def test_what_is_refused() -> None:
    said = [d.message for d in drafted(model="nldp").diagnostics if d.severity == "error"]
    assert any("sldp" in text for text in said)
    said = [d.message for d in drafted("quantile(age, 0.1, 0.5, 0.9)", by=" with T = 2").diagnostics if d.severity == "error"]
    assert any("do not go round 3 quantiles" in text for text in said)


def test_the_answer_of_a_last_interval() -> None:
    assert ldp_quantile._answer(46.9, 47.1, 1.0, 0.0) == 47.0
    assert ldp_quantile._answer(46.2, 46.4, 1.0, 0.0) == 46.0
    assert ldp_quantile._answer(0.0, 0.1, 1.0, 0.0) == 0.0
    assert ldp_quantile._answer(46.0, 46.5, 0.0, 0.0) == 46.25
