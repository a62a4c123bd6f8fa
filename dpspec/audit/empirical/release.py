"""The end-to-end check of one algorithm: run it many times on two neighbouring data sets and look for more than the plan allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpspec.audit.empirical.pair import audit_samples_pair
from dpspec.audit.empirical.result import Claim, EmpiricalResult, check_confidence
from dpspec.audit.empirical.samples import as_matrix


def audit_plan_release(
    run_once: Callable[[int, int], Any],
    claim_epsilon: float | None,
    claim_delta: float = 0.0,
    *,
    claim_mu: float | None = None,
    trials: int = 2000,
    confidence: float = 0.99,
    statistics: tuple[str, ...] = ("coordinates", "summaries", "atoms", "histogram", "linear"),
    seed: int = 0,
) -> EmpiricalResult:
    """Bounds epsilon (or mu) from ``trials`` runs on each of two neighbouring data sets.

    run_once: ``(seed, which) -> output``; ``which`` is 0 or 1 for the data set, ``seed`` differs from run to run and between the two
    sides: the test needs the sides independent. Outputs of any one shape are flattened to (width,). claim: (claim_epsilon, claim_delta),
    or ``claim_mu`` for a release that is planned as Gaussian DP, which is the sharper test of one: at a small delta an (epsilon, delta)
    statement allows far more than the Gaussian curve it came from.

    Three tenths of the runs learn the direction (pooled covariance^-1 times the difference of means, with a ridge) and other scores, and
    choose one threshold; the others are counted. Four times the claimed mu is found at 2,000 trials. The whole error 1 - confidence is
    spent (no reserve, unlike :func:`~dpspec.audit.empirical.pair.audit_pair`): a release calibrated to its claim exactly alarms in up to
    that share of seeds. A violation that shows on other data sets only stays unseen."""
    check_confidence(confidence)
    claim = Claim(claim_epsilon, claim_delta, claim_mu)
    seeds = np.random.SeedSequence(seed).generate_state(2 * trials, dtype=np.uint32)
    sides = [[np.asarray(run_once(int(seeds[2 * i + which]), which)).ravel() for i in range(trials)] for which in (0, 1)]
    a, b = (as_matrix(side) for side in sides)
    return audit_samples_pair(a, b, claim, confidence=confidence, alpha=1 - confidence, statistics=statistics, seed=seed)
