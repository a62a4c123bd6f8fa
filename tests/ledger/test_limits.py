"""Limits and filters: what their bounds mean, by other routes, and when they stop."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import pytest
from scipy.stats import norm

from dpspec.ledger.costs import INFINITE, UNIT, added, cost_of
from dpspec.ledger.limits import Limit, LimitError, Point, fits, left, make_limit, open_filters, used
from dpspec.privacy.schedule import Draw
from tests.ledger.releases import schedule
from tests.privacy.kinds import instance


def only(limit: Limit) -> Point:
    (point,) = limit.points
    return point


def test_parts_of_delta_are_at_most_delta():
    for filters in ("any", "gdp", "renyi", "zcdp", "basic"):
        point = only(make_limit(epsilon="1.5", delta="1e-6", filters=filters))
        assert sum((f.delta for f in point.filters), Fraction(0)) + Fraction(point.failing, UNIT) <= Fraction(1, 10**6)
        assert point.filters


@pytest.mark.parametrize(("epsilon", "delta"), [("0.1", "1e-9"), ("1", "1e-6"), ("8", "1e-3")])
def test_each_filter_implies_the_statement(epsilon: str, delta: str):
    for filters in ("any", "gdp", "renyi", "zcdp"):
        for f in only(make_limit(epsilon=epsilon, delta=delta, filters=filters)).filters:
            e, d, bound = float(epsilon), float(f.delta), f.bound / UNIT
            if f.measure == "mu2":
                mu = math.sqrt(bound)
                spent = norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu)
                assert spent == pytest.approx(d, rel=1e-6)
            elif f.measure.startswith("renyi:"):
                a = mpmath.mpf(Fraction(f.measure[6:]).numerator) / Fraction(f.measure[6:]).denominator
                implied = bound + mpmath.log(1 - 1 / a) + (mpmath.log(1 / mpmath.mpf(d)) - mpmath.log(a)) / (a - 1)
                assert float(implied) == pytest.approx(e, rel=1e-9)
            elif f.measure == "rho":
                orders = [1 + math.exp(t / 50) for t in range(-200, 500)]
                best = min(bound * a + math.log1p(-1 / a) + (math.log(1 / d) - math.log(a)) / (a - 1) for a in orders)
                assert best == pytest.approx(e, rel=1e-3)
                assert best >= e * (1 - 1e-9)  # a grid of orders finds no less
            else:
                assert (f.measure, Fraction(f.bound, UNIT) <= Fraction(epsilon), f.delta) == ("epsilon", True, 0)


def test_exact_limits():
    assert only(make_limit(rho="1/4")).filters[0].bound == UNIT // 4
    assert only(make_limit(mu="1/2")).filters[0].bound == UNIT // 4
    pure = make_limit(epsilon="1")
    assert pure.measures() == ("delta", "epsilon")
    assert fits(pure, {"epsilon": UNIT, "delta": 0})
    assert not fits(pure, {"epsilon": UNIT + 1, "delta": 0})
    assert not fits(pure, {"epsilon": UNIT, "delta": 1})  # a pure limit has no delta to fail with
    assert not fits(pure, {"epsilon": INFINITE, "delta": 0})


def test_a_filter_that_overflowed_is_out_and_another_goes_on():
    limit = make_limit(epsilon="1", delta="1e-6")
    total = limit.empty()
    point = only(limit)
    assert len(open_filters(point, total)) == len(point.filters)
    total["epsilon"] = INFINITE  # a Gaussian release
    assert [f.measure for f in open_filters(point, total)] == [f.measure for f in point.filters if f.measure != "epsilon"]
    assert fits(limit, total)
    total["delta"] = point.failing + 1
    assert not fits(limit, total)
    assert used(limit, total) >= 1


def test_a_profile_keeps_every_point():
    limit = make_limit(profile=[("1", "1e-6"), ("0.5", "1e-2")])
    tight = min(f.bound for p in limit.points for f in p.filters if f.measure == "mu2")
    renyi = {m: INFINITE for m in limit.measures() if "renyi" in m}
    total = {**limit.empty(), **renyi, "epsilon": INFINITE, "mu2": tight}
    assert fits(limit, total)
    assert not fits(limit, {**total, "mu2": tight + 1})


def test_what_is_left_is_rounded_down_and_fits():
    limit = make_limit(rho="0.1")
    total = {"rho": UNIT // 30, "delta": 0}
    (row,) = left(limit, total)
    assert fits(limit, {**total, "rho": total["rho"] + math.floor(Fraction(row["rho"]) * UNIT)})
    assert row["rho"] == pytest.approx(0.1 - 1 / 30, rel=1e-12)
    (row,) = left(make_limit(epsilon="1", delta="1e-5", filters="gdp"), {"mu2": 0, "delta": 0})
    assert 0.9 < row["epsilon at its delta"] <= 1


def test_forms_are_lossless():
    for limit in (make_limit(epsilon="1", delta="1e-6"), make_limit(rho="0.3"), make_limit(profile=[("1", "0"), ("0.1", "1e-3")])):
        assert Limit.of_json(limit.to_json()) == limit


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"epsilon": "1", "rho": "1"},
        {"delta": "1e-6"},
        {"delta": "1e-6", "rho": "1"},
        {"epsilon": "-1"},
        {"epsilon": "nan"},
        {"epsilon": "1", "delta": "1"},
        {"epsilon": "1", "delta": "x"},
        {"epsilon": "1", "filters": "gdp"},
        {"rho": "1", "filters": "gdp"},
        {"epsilon": "1", "delta": "1e-6", "filters": "odometer"},
    ],
)
def test_what_is_no_limit(words: dict[str, str]):
    with pytest.raises(LimitError):
        make_limit(**words)


# ------------------------------------------------------------------------------------------------- the union of several filters


def worst_case(limit: Limit, epsilon: float, levels: tuple[float, ...], depth: int) -> float:
    """The largest sum of (p - e^epsilon q)_+ over the transcripts of randomised responses whose budgets an adversary chooses by the
    answers, worked out over all of its strategies."""
    costs = {e: cost_of(schedule(Draw("r.x", instance("binary-response")), {"r.x": e}), limit.measures()) for e in levels}

    def reached(total: dict[str, int], p: float, q: float, left: int) -> float:
        best = max(0.0, p - math.exp(epsilon) * q)
        for e in levels if left else ():
            after = added(total, costs[e])
            if fits(limit, after):
                high = math.exp(e) / (1 + math.exp(e))
                best = max(best, reached(after, p * high, q * (1 - high), left - 1) + reached(after, p * (1 - high), q * high, left - 1))
        return best

    return reached(limit.empty(), 1.0, 1.0, depth)


@pytest.mark.parametrize(
    ("epsilon", "delta", "filters", "levels"),
    [("0.9", "0.05", "any", (0.02, 0.3, 0.6)), ("0.3", "0.2", "gdp", (0.1, 0.25, 0.5)), ("0.2", "0.2", "gdp", (0.3, 0.45))],
)
def test_filters_keep_the_statement_against_every_strategy(epsilon: str, delta: str, filters: str, levels: tuple[float, ...]):
    """And filters with twice the room do not: the tree is deep enough to see it."""
    limit = make_limit(epsilon=epsilon, delta=delta, filters=filters)
    assert worst_case(limit, float(epsilon), levels, 6) <= float(delta)
    (point,) = limit.points
    loose = replace(point, filters=tuple(replace(f, bound=2 * f.bound) for f in point.filters))
    assert worst_case(Limit((loose,)), float(epsilon), levels, 7) > float(delta)
