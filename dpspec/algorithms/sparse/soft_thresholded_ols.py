"""Soft-thresholded ordinary least squares, without privacy: the reference of ``nldp-sparse-linear-regression``.

theta = S_lam(S^{-1} b), S = mean x x^T, b = mean x y. Source: 004, section 3.2, equation (2), Lemma 29: for a k-sparse theta* and
lam >= |S^{-1} b - theta*|_inf the l2 error is at most 2 sqrt(k) lam (printed 4 sqrt(k) lam: entries outside the support are exactly 0).
Study mode only.
"""

from __future__ import annotations

import math

import numpy as np

from dpspec.algorithms.card import Bound, Card, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.sets import soft_threshold
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Tree

CARD = Card(
    id="soft-thresholded-ols",
    title="Soft-thresholded least squares (not private)",
    family="sparse",
    task="estimate-theta",
    models=("central", "nldp", "sldp"),
    guarantees=(),
    sources=(Source("004", "3.2", "equation (2)", ("Lemma 29",)),),
    summary="The estimator that the local algorithms noise, on the records themselves.",
    needs=(
        Need("sparse", "utility", "theta has at most k non-zeros"),
        Need("eigenvalues", "utility", "the empirical covariance is invertible"),
    ),
    tunables={"threshold": Tunable("1", "multiple of sqrt(2 log(2 d)) times the standard error (004: O(sqrt(log d/n)))", minimum=0.0)},
    bounds=(
        Bound("l2-error", "order", "upper", "C*sqrt(k*log(d)/n)", "proved", "004 Lemma 29", conditions="lam >= |S^{-1} b - theta|_inf"),
    ),
    cost={"gradients": "0", "memory_bytes": "8*d*d"},
    role="reference",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.task.form != "linear":
        return "the model is not linear"
    return None if p.n > p.d else f"n = {p.n} records in dimension d = {p.d} have no invertible covariance"


def schedule(p: Problem, t: Tunables) -> Tree:
    raise ValueError("a reference draws no noise")


def run(records: Rows, p: Problem, t: Tunables, release: Door | None) -> Estimate:
    """``release`` is not used. The threshold is the quantile of the largest of d standard errors of least squares."""
    s, b, yy = np.zeros((p.d, p.d)), np.zeros(p.d), 0.0
    for x, y in records.blocks():
        s += np.asarray(x.T @ x if isinstance(x, np.ndarray) else (x.T @ x).todense())
        b += x.T @ y
        yy += float(y @ y)
    s, b = s / records.n, b / records.n
    inverse = np.linalg.pinv(s, hermitian=True)
    ols = inverse @ b
    variance = max(yy / records.n - float(b @ ols), 0.0)
    lam = t.threshold * math.sqrt(2 * math.log(2 * p.d)) * np.sqrt(variance * np.diag(inverse).clip(0.0) / records.n)
    return Estimate(soft_threshold(ols, lam), {"ols": ols})
