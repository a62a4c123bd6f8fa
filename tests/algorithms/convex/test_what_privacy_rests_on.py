"""Neighbouring data sets that break an argument where one of its premises is missing, and the refusals that follow from them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from dpspec.algorithms.convex_erm import approximate_minima_perturbation, objective_perturbation, output_perturbation
from dpspec.compiler.passes import compile_draft
from dpspec.lang.source import parse_text
from dpspec.spec.model import Polytope
from tests.algorithms.support import logistic, minimise, tunables

METHODS = (output_perturbation, approximate_minima_perturbation, objective_perturbation)

WEAKLY_CONVEX = """analysis "a ridge that covers a non-convex loss"
data
  n = 100, d = 1
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in [-1, 1] by clip
privacy central
  epsilon = 1, delta = 1e-5
release weights
  minimise biweight(1) + 0.81/2*|w|^2 over ball(l2, 1)
  by {method}
"""


def biweight_minimiser(positive: int, n: int = 100, lam: float = 0.81) -> float:
    """argmin over [-1, 1] of the mean of (1 - (1 - s^2)^3)/6 (s = w - y, 1/6 beyond 1) + lam/2 w^2, ``positive`` labels at sqrt(0.6),
    the others at -sqrt(0.6), by a grid."""
    w = np.linspace(-1, 1, 200_001)
    a, b = (np.minimum(1.0, (w - y) ** 2) for y in (math.sqrt(0.6), -math.sqrt(0.6)))
    rho = [(1 - (1 - q) ** 3) / 6 for q in (a, b)]
    return float(w[np.argmin((positive * rho[0] + (n - positive) * rho[1]) / n + lam / 2 * w**2)])


def test_a_ridge_that_covers_a_non_convex_loss_gives_no_strong_convexity_of_lam():
    """The sum is 0.01-strongly convex (curvature at least -0.8 from the data, 0.81 from the ridge), not 0.81: minimisers of neighbours
    are ten times farther apart than 2L/(n lam), L = (16/25)/sqrt(5). Noise for that distance at epsilon = 1, delta = 1e-5 spends a
    delta near one."""
    claimed = 2 * 16 / 25 / math.sqrt(5) / (100 * 0.81)
    moved = abs(biweight_minimiser(50) - biweight_minimiser(51))
    assert moved > 10 * claimed
    mu = 0.2  # at most that of a (1, 1e-5) Gaussian mechanism, whose delta at epsilon = 1 is below 1e-5
    assert norm.cdf(mu / 2 - 1 / mu) - math.e * norm.cdf(-mu / 2 - 1 / mu) < 1e-5
    mu *= moved / claimed
    assert norm.cdf(mu / 2 - 1 / mu) - math.e * norm.cdf(-mu / 2 - 1 / mu) > 0.3


@pytest.mark.parametrize("method", [m.CARD.id for m in METHODS])
def test_methods_that_rest_on_the_ridge_refuse_a_loss_that_is_convex_only_with_it(method):
    draft = compile_draft(parse_text(WEAKLY_CONVEX.format(method=method), surface="dps"))
    assert draft.releases[0].problem.loss.convex
    refused = [d for d in draft.diagnostics if d.code == "DP407"]
    assert refused
    assert "without the ridge" in refused[0].message
    automatic = compile_draft(parse_text(WEAKLY_CONVEX.format(method="auto"), surface="dps"))
    assert automatic.releases[0].module not in METHODS


def test_a_weakly_convex_loss_is_refused_by_the_algorithms_themselves():
    p = minimise(10, 2, logistic(l2=0.5))
    for module in METHODS:
        t = tunables(module, p)
        assert module.accepts(p, t) is None
        assert "by itself" in (module.accepts(replace(p, loss=replace(p.loss, data_convex=False)), t) or "")


@pytest.mark.parametrize("module", METHODS, ids=lambda m: m.CARD.id)
def test_a_guarantee_of_exact_projections_is_not_claimed_over_a_polytope(module, tmp_path):
    """An iterative projection need not be non-expansive, and what it leaves is no subgradient: only the other sets have closed forms."""
    path = tmp_path / "corners.csv"
    np.savetxt(path, np.array([[1000.0, 0.0], [0.0, 1.0], [-1000.0, 0.0], [0.0, -1.0]]), delimiter=",")
    p = minimise(100, 2, logistic(l2=0.5), over=Polytope(vertices=str(path)))
    assert "polytope" in (module.accepts(p, tunables(module, p)) or "")
