"""What the algorithms of this family require, beside the shared :mod:`dpspec.algorithms.gradients`."""

from __future__ import annotations

import math

from dpspec.algorithms.card import Problem
from dpspec.algorithms.gradients import (
    LARGEST,
    STRENGTH_ANY,
    distance,
    exact_gradient,
    is_pure,
    mean_sensitivity,
    moved,
    noisy_gradient,
    norm,
    prox,
    start_gap,
    steepness,
    summed,
)

__all__ = [
    "LARGEST",
    "STRENGTH_ANY",
    "distance",
    "exact_gradient",
    "is_pure",
    "mean_sensitivity",
    "moved",
    "noisy_gradient",
    "norm",
    "prox",
    "refused",
    "start_gap",
    "steepness",
    "summed",
]


def refused(
    p: Problem,
    *,
    smooth: bool = False,
    strongly: bool = False,
    fixed_batches: bool = False,
    exact_projections: bool = False,
    ridge_counts: bool = False,
) -> str | None:
    """The first requirement of a convex empirical risk that fails, or None. ``exact_projections``: the guarantee rests on them;
    ``ridge_counts``: records' losses may be convex only together with the ridge."""
    if getattr(p.task, "pairwise", False):
        return "the loss is over pairs of records"
    if p.loss is None:
        return "the loss has no certificate"
    if not (math.isfinite(p.loss.lipschitz) and p.loss.lipschitz > 0):
        return "no finite Lipschitz constant of the loss is proved over the enforced record domain"
    if not p.loss.lipschitz * p.n < LARGEST:
        return "the sum of the records' gradients may leave the range of doubles"
    if not p.loss.convex:
        return "the loss is not proved convex in w"
    if not (
        p.loss.data_convex or ridge_counts
    ):  # 'mu >= lam' and 'steps contract by 1 - eta*lam' are false for a loss that eats up a part of the ridge
        return "a record's loss is proved convex only together with the ridge term, and the method needs it convex by itself"
    if p.task.over.kind == "sparse":
        return "the k-sparse vectors are not a convex set"
    if exact_projections and p.task.over.kind == "polytope":
        return "the guarantee is that of exact projections, and one onto a polytope comes from a solver (dp-frank-wolfe needs none)"
    if smooth and not (math.isfinite(p.loss.smooth) and p.loss.smooth > 0):
        return "no finite smoothness constant of the loss is proved"
    if strongly and not p.loss.l2 > 0:
        return "the objective has no ridge term lam/2*|w|^2, and the method rests on strong convexity"
    if fixed_batches and p.neighbours != "replace-one":
        return f"its batches have a fixed size, which is accounted for under replace-one, not under {p.neighbours}"
    return None
