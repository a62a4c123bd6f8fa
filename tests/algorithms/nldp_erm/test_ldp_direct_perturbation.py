"""ldp-direct-perturbation: messages in exact arithmetic, the estimator by hand and by an independent solver, and the documents' noise."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import brentq, minimize
from scipy.stats import norm

from dpspec.algorithms.card import Problem
from dpspec.algorithms.nldp_erm import ldp_direct_perturbation as module
from dpspec.algorithms.sets import ConstraintSet
from dpspec.data.records import Records
from dpspec.privacy.calibrate import Budget
from dpspec.privacy.schedule import draws
from dpspec.spec.expr import num
from dpspec.spec.model import Ball, EstimateTheta
from tests import leak
from tests.algorithms.support import plan, study, tunables

BUDGET = Budget(epsilon="1", delta="0.00001")


def problem(n: int, d: int, epsilon: float = 1.0, over=None, **facts: float) -> Problem:
    known = {"n": n, "d": d, "epsilon": epsilon, "delta": 1e-5, "x_l2": 1.0, "y_abs": 1.0}
    return Problem("nldp", "replace-one", EstimateTheta(form="linear", over=over), {**known, **facts})


def exact_epsilon(mu: float, delta: float = 1e-5) -> float:
    def gap(e: float) -> float:
        return float(norm.cdf(mu / 2 - e / mu) - math.exp(e + norm.logcdf(-mu / 2 - e / mu)) - delta)

    return float(brentq(gap, 0.0, mu * mu + 20 * mu + 20))


NASTY = [0.0, 5e-324, -1e-170, 0.6, -2.0, 1e154, -1.7e308, math.inf, math.nan]


class NoNoise:
    def add_gaussian(self, x, scale, *, sensitivity, dim):
        return x


def sent(t, tree) -> dict[str, set[tuple[Fraction, ...]]]:
    """What clients would send without noise, over hostile records."""
    found: dict[str, set[tuple[Fraction, ...]]] = {name: set() for name in draws(tree)}
    for a, b, y in itertools.product([*NASTY, 1.0], [*NASTY, 1.0], [0.0, 1.0, -1.0, 1e308, math.nan]):
        records = Records(np.array([[a, b]]), np.array([y]))
        for name, leaf in draws(tree).items():
            values = np.concatenate(list(module.joined(records, t))) if name == "record" else next(module.blocks(records))
            found[name].add(tuple(Fraction(float(v)) for v in leaf.draw.mechanism.encode(values, 1.0, NoNoise())[0]))
    return found


@pytest.mark.parametrize("report", ["moments", "records"])
def test_no_record_moves_a_message_by_more_than_its_sensitivity(report):
    p = problem(10, 2)
    t = tunables(module, p, report=report, tau=Fraction(1, 2))
    tree = module.schedule(p, t)
    for name, distinct in sent(t, tree).items():
        largest = max(sum((s - r) ** 2 for s, r in zip(u, v, strict=True)) for u in distinct for v in distinct)
        stated = Fraction(draws(tree)[name].draw.mechanism.sensitivity)
        assert largest <= stated**2
        assert largest >= (Fraction(999, 1000) * stated) ** 2
    far = np.array([6.0, 8.0])  # as printed nothing is clipped: a record of length 10 against 0, noise for unit records
    leak.moved(float(np.linalg.norm(np.outer(far, far))), math.sqrt(2))


@pytest.mark.parametrize("report", ["moments", "records"])
def test_a_message_spends_the_budget_exactly(report):
    p = problem(1000, 3)
    c = plan(module, p, tunables(module, p, report=report), BUDGET)
    mu = math.hypot(*(leaf.draw.mechanism.sensitivity / c.scale(name) for name, leaf in draws(c.tree).items()))
    assert 1 - 1e-3 < exact_epsilon(mu) <= 1 + 1e-9


def test_noise_for_one_part_does_not_cover_the_pair():
    """The exact sigma for two points at distance 2, at (1, 1e-5), on both x and y: the records (e_1, 1) and (-e_1, -1)."""
    mu = brentq(lambda m: exact_epsilon(m) - 1.0, 0.01, 1.0)
    sigma = 2 / mu
    distance = math.dist((1, 0, 1), (-1, 0, -1))
    assert exact_epsilon(distance / sigma) == pytest.approx(1.47, abs=0.01)
    p = problem(1000, 2)
    (one,) = module.published(p, tunables(module, p, report="records"), FakeBudget())
    classical = 2 * math.sqrt(2 * math.log(1.25e5))
    assert one.scale == pytest.approx(classical)
    assert one.epsilon == pytest.approx(exact_epsilon(distance / classical), rel=1e-6)
    assert one.epsilon > 1
    leak.epsilon(exact_epsilon(distance / sigma), 1.0, 1e-5)


class FakeBudget:
    kind, epsilon_exact, delta_exact = "approx", Fraction(1), Fraction(1, 10**5)


def test_the_printed_noise_spends_less_than_half():
    """Algorithm 5.2.39: 32 r^4 log(2.5/delta)/epsilon^2, and sensitivities sqrt(2) r^2, 2 r tau."""
    p = problem(1000, 2)
    for one in module.published(p, tunables(module, p, report="moments"), FakeBudget()):
        c = math.sqrt(32 * math.log(2.5e5))
        assert one.epsilon == pytest.approx(exact_epsilon(math.sqrt(2 + 4) / c), rel=1e-6)
        assert one.epsilon < 0.45


def law(n: int, d: int, seed: int = 0) -> Records:
    g = np.random.default_rng(seed)
    x = g.normal(size=(n, d))
    x /= np.linalg.norm(x, axis=1)[:, None]
    return Records(x, np.clip(x @ truth(d) + 0.1 * g.normal(size=n), -1, 1))


def truth(d: int) -> np.ndarray:
    return np.array([0.6, -0.3, 0.2, 0.0, 0.1][:d])


@pytest.mark.parametrize("report", ["moments", "records"])
def test_the_error_is_about_as_predicted(report):
    """Root mean square over 12 runs; isotropic x, so eig_min = 1/d. Both reports are unbiased: the mean of the runs is near the truth."""
    p = problem(20_000, 3, 20.0, eig_min=1 / 3)
    t = tunables(module, p, report=report)
    c = plan(module, p, t, Budget(epsilon="20", delta="0.00001"))
    found = [study(module, law(p.n, 3, seed), p, t, c, seed).theta - truth(3) for seed in range(12)]
    error = math.sqrt(np.mean([v @ v for v in found]))
    assert 0.4 < error / module.predicted(p, t, c) < 2
    assert np.linalg.norm(np.mean(found, axis=0)) < error


def test_auto_takes_the_report_of_less_error():
    for epsilon, word in ((1.0, "moments"), (60.0, "records")):
        p = problem(10_000_000, 20, epsilon)
        t = tunables(module, p)
        assert module.chosen(p, t) == word
        best = {
            w: module.predicted(p, s, plan(module, p, s, Budget(epsilon=str(epsilon), delta="0.00001")))
            for w in ("moments", "records")
            for s in [tunables(module, p, report=w)]
        }
        assert min(best, key=best.__getitem__) == word


def test_an_indefinite_moment_is_repaired():
    """n = 1,000 at epsilon 1: without a floor S has negative eigenvalues, and the published one is positive definite."""
    p = problem(1000, 4)
    t = tunables(module, p, report="moments")
    c = plan(module, p, t, BUDGET)
    got = study(module, law(1000, 4), p, t, c)
    floor = 2 * c.scale("moment") / math.sqrt(1000) * 2
    assert np.linalg.eigvalsh(got.extras["moment"])[0] >= floor * (1 - 1e-9)
    g = np.random.default_rng(0)
    noise = g.normal(size=(4, 4)) * c.scale("moment") / math.sqrt(1000)
    assert np.linalg.eigvalsh(np.eye(4) / 4 + np.triu(noise) + np.triu(noise, 1).T)[0] < 0
    assert "about n" in module.warnings(p, t, c)[0]


def test_least_squares_over_a_set_is_that_of_an_independent_solver():
    g = np.random.default_rng(1)
    a = g.normal(size=(4, 4))
    s, b = a @ a.T + 0.1 * np.eye(4), 3 * g.normal(size=4)
    got = module.least_squares(s, b, ConstraintSet("l1", radius=1.0))
    found = minimize(
        lambda v: (v[:4] - v[4:]) @ s @ (v[:4] - v[4:]) / 2 - b @ (v[:4] - v[4:]),
        np.full(8, 0.05),
        bounds=[(0, None)] * 8,
        constraints={"type": "ineq", "fun": lambda v: 1 - v.sum()},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    value = got @ s @ got / 2 - b @ got
    assert np.abs(got).sum() <= 1 + 1e-9
    assert value == pytest.approx(found.fun, rel=1e-6)


def test_what_it_cannot_serve_is_said():
    p = problem(1000, 3)
    assert "not linear" in str(module.accepts(problem_glm(), tunables(module, p)))
    big = problem(10**9, 3)
    assert "4e+09 numbers" in str(module.accepts(big, tunables(module, big, report="records")))
    wide = problem(1000, 20_001)
    assert "20001 x 20001" in str(module.accepts(wide, tunables(module, wide)))
    ball = problem(1000, 3, over=Ball(norm="l1", radius=num(1)))
    assert module.accepts(ball, tunables(module, ball)) is None


def problem_glm() -> Problem:
    return Problem("nldp", "replace-one", EstimateTheta(form="glm"), dict(problem(10, 2).facts))
