"""What a description leaves open is worked out, and events known by closed forms say what those say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpspec.audit import audit
from dpspec.audit.verdict import AuditResult


def judged(claim: dict[str, Any], *events: dict[str, Any], relation: str = "add_remove") -> AuditResult:
    return audit({"audit": 1, "setting": {"unit": "person", "neighbouring": relation}, "claim": claim, "events": list(events)})


def needed(found: AuditResult) -> float:
    (told,) = [d.message for d in found.findings if d.code == "DP649"]
    return float(told.rsplit(" ", 1)[1])


@pytest.mark.parametrize("delta", [1e-9, 1e-5])
def test_the_threshold_that_a_claim_needs(delta: float) -> None:
    """Laplace: delta = exp(-(T - 1)/b)/2 for one key, 1 - (1 - t)^k for k; Gaussian: of the tail that the noise itself leaves."""
    event = {"type": "laplace_threshold", "l1_sensitivity": 1, "scale": 2, "keys": 1}
    found = judged({"epsilon": 0.5, "delta": delta}, event)
    assert found.verdict == "cannot-verify"
    exact = 1 - 2 * math.log(2 * delta)
    assert exact * (1 - 1e-9) <= needed(found) <= exact * 1.001
    assert judged({"epsilon": 0.5, "delta": delta}, {**event, "threshold": needed(found)}).verdict == "holds"
    several = judged({"epsilon": 1.5, "delta": delta}, {**event, "l1_sensitivity": 3, "keys": 3, "first_count": 1})
    exact = 1 - 2 * math.log(2 * -math.expm1(math.log1p(-delta) / 3))
    assert exact * (1 - 1e-9) <= needed(several) <= exact * 1.001


def test_whole_thresholds_for_noise_on_integers() -> None:
    """P(1 + X >= T) = r^(T-1)/(1+r): the least whole T."""
    event = {"type": "discrete_laplace_threshold", "l1_sensitivity": 1, "scale": 1, "keys": 1}
    r, delta = math.exp(-1), 1e-6
    exact = next(t for t in range(2, 100) if r ** (t - 1) / (1 + r) <= delta)
    # any threshold above T - 1 is reached from T on
    assert exact - 1 < needed(judged({"epsilon": 1, "delta": delta}, event)) <= exact


def test_no_threshold_helps_noise_that_is_too_small() -> None:
    event = {"type": "laplace_threshold", "l1_sensitivity": 1, "scale": 1, "keys": 1}
    (told,) = [d for d in judged({"epsilon": 0.5, "delta": 1e-6}, event).findings if d.code == "DP649"]
    assert told.message.startswith("no threshold meets")


@pytest.mark.parametrize(("multiplier", "beta", "nu"), [(3.0, 0.0, 1.0), (8.0, 0.1, 3.0), (2.0, 0.3, 30.0)])
def test_student_noise_by_a_search_over_neighbours(multiplier: float, beta: float, nu: float) -> None:
    """The largest log ratio over moves, bounds and outputs on grids lies below what is certified and, without dilation, attains it."""
    y = np.concatenate([np.linspace(-60, 60, 4001), np.geomspace(60, 1e6, 400), -np.geomspace(60, 1e6, 400)]) * multiplier
    worst = still = 0.0
    for bound in np.exp(np.linspace(-beta, beta, 5)):
        for move in np.linspace(0, min(1.0, bound), 5):
            p = stats.t.logpdf(y / multiplier, nu) - math.log(multiplier)
            q = stats.t.logpdf((y - move) / (multiplier * bound), nu) - math.log(multiplier * bound)
            shown = float(np.max(np.abs(p - q)))
            worst, still = max(worst, shown), max(still, shown) if bound == 1.0 else still
    event = {"type": "smooth_sensitivity", "noise_multiplier": multiplier, "beta": beta, "degrees": nu}
    certified = (nu + 1) * math.asinh(1 / (2 * multiplier * math.sqrt(nu))) + max(1.0, nu) * beta
    assert worst <= certified * (1 + 1e-9)
    assert judged({"epsilon": certified * 1.002, "delta": 0}, event).verdict == "holds"
    assert judged({"epsilon": still * 0.99, "delta": 0}, event).verdict == "violated"


def test_pate_for_any_votes() -> None:
    """GNMax with deviation 40 on 1,000 queries is at most Gaussian of mu = sqrt(1000) sqrt(2)/40; three classes by quadrature show less."""
    event = {"type": "gnmax", "sigma": 40, "queries": 1000}
    mu = math.sqrt(1000 * 2) / 40
    low, high = 0.0, 50.0
    for _ in range(100):
        e = (low + high) / 2
        shown = stats.norm.cdf(mu / 2 - e / mu) - math.exp(e) * stats.norm.cdf(-mu / 2 - e / mu)
        low, high = (e, high) if shown > 1e-5 else (low, e)
    assert judged({"epsilon": high * 1.005, "delta": 1e-5}, event, relation="replace_one").verdict == "holds"
    assert judged({"epsilon": 0.1, "delta": 1e-5}, event, relation="replace_one").verdict == "violated"
    tested = {**event, "threshold_sigma": 20, "asked": 5000}
    assert judged({"epsilon": high * 1.005, "delta": 1e-5}, tested, relation="replace_one").verdict != "holds"  # asking costs too


def test_output_perturbation_rests_on_its_conditions() -> None:
    """Two records decide a one-dimensional ridge of squared losses on bounded data in closed form: the minimiser moves by 2 L/(lam n)."""
    event = {"type": "output_perturbation", "lipschitz": 1, "strong_convexity": 0.5, "n": 200, "sigma": 0.2}
    mu = 2 / (0.5 * 200) / 0.2
    e = 2.0
    delta = float(stats.norm.cdf(mu / 2 - e / mu) - math.exp(e) * stats.norm.cdf(-mu / 2 - e / mu))
    found = judged({"epsilon": e, "delta": max(delta * 1.01, 1e-12)}, event, relation="replace_one")
    assert found.verdict == "holds-if"
    assert "minimiser" in found.conditions[0]
    linear = lambda slopes: -float(np.mean(slopes)) / 0.5  # noqa: E731  # minimiser of mean(slope_i w) + (0.5/2) w^2
    one, other = np.ones(200), np.r_[np.ones(199), -1.0]
    assert abs(linear(one) - linear(other)) == pytest.approx(2 / (0.5 * 200))
    assert judged({"epsilon": 0.01, "delta": 1e-9}, event, relation="replace_one").verdict == "not-certified"
