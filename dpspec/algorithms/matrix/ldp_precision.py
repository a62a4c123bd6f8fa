"""Sparse precision matrix from one noisy second moment a user (non-interactive local model).

    1. user i scales x_i into the ball of radius r and reports x_i x_i^T + N_i;
    2. the server averages, takes the positive part and solves the graphical lasso.

``noise = gaussian`` (with a delta): upper triangle N(0, s^2), sensitivity sqrt(2)*r^2. ``noise = symmetrised-wishart`` (pure): W1 - W2
a user,
t = r^2/epsilon. ``auto``: as the budget asks.

Source: 000, section 6.3.5, Algorithm 6.3.53, Theorem 6.3.8 (printed local sensitivity 1/n of x x^T/n; it is sqrt(2)/n), and the sentence
there that 'the same holds for epsilon-LDP', which names no mechanism: entrywise Laplace noise of scale (d+1)/epsilon would give d(d+1)
where the
symmetrised Wishart gives d^(3/2).
"""

from __future__ import annotations

import math
from typing import Any

from dpspec.algorithms.card import Bound, Card, Fault, Problem, Source, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.matrix._common import CLIP_LOCAL, EXISTS, LOCAL_X, RADIUS, printed_gaussian, sensitivity_fault, wrong_task
from dpspec.algorithms.matrix._deviation import FAILURE, gaussian_frobenius, symmetrised_frobenius
from dpspec.algorithms.matrix._moment import blocks
from dpspec.algorithms.matrix._precision import PENALTY, SPARSE, largest_factor, noise_too_large, precision_of
from dpspec.models.door import Door
from dpspec.models.features import Feature, Record
from dpspec.models.rows import Rows
from dpspec.privacy.channels.gaussian_outer import GaussianOuter
from dpspec.privacy.channels.wishart_outer import WishartOuter
from dpspec.privacy.schedule import Draw, Tree

CARD = Card(
    id="ldp-precision",
    title="Sparse precision matrix from one noisy second moment a user",
    family="matrix",
    task="precision",
    models=("nldp", "sldp"),
    guarantees=("approx", "zcdp", "gdp", "pure"),
    sources=(Source("000", "6.3.5", "Algorithm 6.3.53", ("Theorem 6.3.8",)),),
    summary="Each user reports x x^T with symmetric Gaussian or symmetrised Wishart noise; positive part and graphical "
    "lasso on the server.",
    needs=(LOCAL_X, SPARSE),
    options={"noise": ("auto", "gaussian", "symmetrised-wishart")},
    tunables={"r": RADIUS, "penalty": PENALTY},
    bounds=(
        Bound(
            "reference-frobenius-error",
            "explicit",
            "upper",
            "(d/penalty)^2*N",
            "proved",
            "000 Theorem 6.3.8 with M <= (d/rho)^2 and constants",
            probability="0.95",
            conditions="the expression is that of Gaussian noise; the value is that of the noise chosen",
            where={
                "N": "Frobenius norm of the averaged noise with probability 0.95: sqrt(2)*scale*(sqrt(d*(d + 1)/2) + "
                "sqrt(2*log(20)))/sqrt(n) for Gaussian noise"
            },
        ),
        Bound(
            "reference-frobenius-error",
            "order",
            "upper",
            "C*d^3*sqrt(log(1/delta))/(penalty^2*epsilon*sqrt(n))",
            "proved",
            "000 Theorem 6.3.8",
            options={"noise": "gaussian"},
        ),
        Bound(
            "reference-frobenius-error",
            "order",
            "upper",
            "C*d^(7/2)/(penalty^2*epsilon*sqrt(n))",
            "proved",
            "pure version, symmetrised Wishart",
            options={"noise": "symmetrised-wishart"},
        ),
    ),
    faults=(
        sensitivity_fault("000, Algorithm 6.3.53 and Theorem 6.3.8", "n*(x x^T/n)"),
        CLIP_LOCAL,
        EXISTS,
        Fault(
            "000, section 6.3.5: the same holds for epsilon-LDP",
            "no mechanism, constant or bound is given; symmetrised Wishart noise a user is epsilon-LDP",
            "tests/algorithms/matrix/test_matrix_local.py::test_the_pure_channel_is_private_and_unbiased",
            "utility",
        ),
        Fault("000, Theorem 6.3.8: 'Algorithm 4'", "Algorithm 6.3.53", "docs/faults.md#numbers-of-references", "text"),
    ),
    cost={"gradients": "0", "rounds": "1", "bits_per_user": "64*d*(d + 1)/2", "memory_bytes": "80*d*d"},
    reads="sums",
    spec="specs/matrix/ldp-precision.dps",
)


def channel(p: Problem, t: Tunables) -> GaussianOuter | WishartOuter:
    if t.noise == "gaussian" or (t.noise == "auto" and {"delta", "rho", "mu"} & p.facts.keys()):
        return GaussianOuter(p.d, t.r)
    return WishartOuter(p.d, t.r)


def resolved_options(p: Problem, t: Tunables) -> dict[str, str]:
    return {"noise": "gaussian" if isinstance(channel(p, t), GaussianOuter) else "symmetrised-wishart"}


def accepts(p: Problem, t: Tunables) -> str | None:
    return wrong_task(p, "precision")


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("moment", channel(p, t), per="user")


def client(p: Problem, t: Tunables) -> dict[str, Feature]:
    return {"moment": Record()}


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    return precision_of(release.mean_blocks("moment", blocks(records)), t.penalty)


def frobenius(p: Problem, t: Tunables, calibrated: Any, eta: float) -> float:
    """A bound of the norm of the averaged noise at probability 1 - ``eta``; n Wishart matrices add up to n(d + 1) degrees."""
    scale = calibrated.scale("moment")
    if isinstance(channel(p, t), GaussianOuter):
        return gaussian_frobenius(scale / math.sqrt(p.n), p.d, eta, isotropic=False)
    return symmetrised_frobenius(scale, p.d, eta, float(p.n * (p.d + 1))) / p.n


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    return {CARD.bounds[0].theorem: largest_factor(p, t.penalty) * frobenius(p, t, calibrated, FAILURE)}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    return {CARD.bounds[0].theorem: {"N": frobenius(p, t, calibrated, FAILURE)}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    return frobenius(p, t, calibrated, 0.5)


def warnings(p: Problem, t: Tunables, calibrated: Any) -> list[str]:
    return noise_too_large(predicted(p, t, calibrated), t.r)


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    if not isinstance(channel(p, t), GaussianOuter):
        return ()
    return printed_gaussian(p, budget, "000 Algorithm 6.3.53", "moment", 1.0, t.r)
