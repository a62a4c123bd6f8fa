"""Sparse precision matrix by noise on the non-private graphical lasso (output perturbation), central model.

    1. Theta = graphical lasso of the second moment S of the scaled records, to |Theta - Theta*|_F <= tol;
    2. release Theta + N; raise its eigenvalues to the public floor 1/(r^2 + rho*d).

Sensitivity. Theta* moves by at most b^2*|S - S'|_F with b a data-free bound of |Theta*|_2 (000, Lemmas 6.3.5 and 6.3.6), so

    D = b^2*sqrt(2)*r^2/n + 2*tol,      b = d/rho - (d - 1)*a,  a = 1/(r^2 + rho*d),

tol a share (``slack``) of the first term: a public number. The solver is certain to get there, for every S, in a number of steps that
public numbers bound (:func:`dpspec.algorithms.matrix._lasso.within`): a run that stopped for want of it would tell about the records. b:
the eigenvalues of Theta* are at least a, and their sum is at most |Theta*|_1 <= d/rho, by optimality (<S, Theta*> + rho*|Theta*|_1 = d).
The document has b = d/rho.

Source: 000, section 6.3.4, Algorithm 6.3.50, Theorems 6.3.1 and 6.3.2. Differences from the printed version: Wishart noise is not private
there (one-sided support), so N is W1 - W2 with t = sqrt(d)*D/(2 epsilon) (pure) or symmetric Gaussian noise isotropic in the Frobenius
product (with a delta); sqrt(2)/n in place of 2/n; the solver's tolerance is part of the sensitivity; noise has mean 0. Covariance
perturbation (dp-precision-covariance) is better by d^(1/2) in the worst case and far better in practice.

``estimate.theta``: (d, d); extras ``noisy``: before the floor.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.matrix._common import CENTRAL_X, CLIP_CENTRAL, ONE_SIDED, TESTS, central_radius, central_refusal, wrong_task
from dpspec.algorithms.matrix._deviation import FAILURE, gaussian_frobenius, symmetrised_frobenius
from dpspec.algorithms.matrix._lasso import Band, within
from dpspec.algorithms.matrix._moment import frobenius_sensitivity, positive_part, second_moment
from dpspec.algorithms.matrix._precision import SPARSE
from dpspec.algorithms.proximal import MOST_STEPS
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.symmetric import GaussianSymmetric
from dpspec.privacy.mechanisms.wishart import SymmetrisedWishart
from dpspec.privacy.schedule import Draw, Tree

Mechanism: TypeAlias = GaussianSymmetric | SymmetrisedWishart

#: The audit's factor: the sensitivity is a worst case over all data, far from what any one pair of small data sets attains.
AUDIT_FACTOR = 16.0

#: Under add-remove there may be more than n records, and the solver's rounding grows with them: room is left for so many times n.
ROOM = 16

CARD = Card(
    id="dp-precision-output",
    title="Sparse precision matrix: noise on the graphical lasso",
    family="matrix",
    task="precision",
    models=("central",),
    guarantees=("pure", "approx", "zcdp", "gdp"),
    sources=(Source("000", "6.3.4", "Algorithm 6.3.50", ("Theorem 6.3.1", "Theorem 6.3.2", "Lemma 6.3.5", "Lemma 6.3.6")),),
    summary="Certified graphical lasso plus symmetrised Wishart (pure) or symmetric Gaussian noise, eigenvalues raised to a public floor.",
    needs=(
        CENTRAL_X,
        Need(
            "solver",
            "privacy",
            "|Theta - Theta*|_F <= tol",
            enforced_by="the solver's steps to it are bounded for all data sets; 2*tol is in the sensitivity",
        ),
        SPARSE,
    ),
    options={"noise": ("auto", "gaussian", "symmetrised-wishart", "wishart")},
    tunables={
        "penalty": Tunable("1/10", "rho of 000 (6.83); the sensitivity has (d/rho)^2, so rho = 0.001 as printed is hopeless", minimum=1e-9),
        "slack": Tunable("1/50", "tol as a share of the exact minimiser's sensitivity", minimum=1e-9, maximum=1.0),
    },
    bounds=(
        Bound(
            "reference-frobenius-error",
            "explicit",
            "upper",
            "N + slack*S",
            "proved",
            "norm of the noise; the floor is a projection on a convex set that holds Theta*",
            probability="0.95",
            conditions="the expression is that of Gaussian noise; the value is that of the noise chosen",
            where={
                "N": "Frobenius norm of the noise with probability 0.95: scale*(sqrt(d*(d + 1)/2) + sqrt(2*log(20))) for Gaussian noise",
                "S": "(d/penalty)^2 times the sensitivity of the second moment",
            },
        ),
        Bound(
            "reference-frobenius-error",
            "order",
            "upper",
            "C*d^4/(n*epsilon*penalty^2)",
            "proved",
            "000 Theorem 6.3.2 for the symmetrised Wishart",
            options={"noise": "symmetrised-wishart"},
        ),
        Bound(
            "reference-frobenius-error",
            "order",
            "upper",
            "C*d^4*log(d)/(n*epsilon*penalty^2)",
            "refuted",
            "000 Theorem 6.3.2",
            conditions="a bound of a mechanism that is not private",
        ),
    ),
    faults=(
        ONE_SIDED,
        CLIP_CENTRAL,
        Fault(
            "000, Algorithm 6.3.50: the sensitivity is that of the exact minimiser",
            "what is released is an iterate: with tolerance tol two outputs may differ by D + 2*tol",
            TESTS + "test_the_solver_is_certified_within_its_share_of_the_sensitivity",
            "privacy",
        ),
        Fault(
            "000, (6.99): beta = max of |Theta|_2 over the two data sets",
            "noise may not depend on it; d/rho serves for all data",
            "tests/algorithms/test_printed_leaks.py::test_largest_eigenvalues_of_estimates_differ",
            "privacy",
        ),
        Fault(
            "000, (6.98): |S - S'|_F <= 2/n", "sqrt(2)/n", "tests/privacy/test_mechanisms.py::test_second_moment_sensitivities", "utility"
        ),
        Fault(
            "000, Algorithm 6.3.50: noise of mean (d+1) C is added and never subtracted",
            "W1 - W2 and Gaussian noise have mean 0",
            "tests/algorithms/matrix/test_matrix_central.py::test_one_sided_noise_shrinks_the_precision_to_nothing",
            "utility",
        ),
        Fault("000, proof of Theorem 6.3.1: (6.3.5)", "Lemma 6.3.5", "docs/faults.md#numbers-of-references", "text"),
    ),
    cost={"gradients": "0", "rounds": "1", "memory_bytes": "80*d*d"},
    reads="sums",
    spread=True,
    spec="specs/matrix/dp-precision-output.dps",
)


def largest_norm(p: Problem, t: Tunables) -> float:
    """b of the module's text: the spectral norm of Theta* is at most this for every data set. The floor of the eigenvalues rests on
    |S|_2 <= r^2, which more than n records break: under add-remove b is d/rho, which holds for every positive semi-definite S."""
    return p.d / float(t.penalty) - (0.0 if p.neighbours == "add-remove" else (p.d - 1) * floor(p, t))


def exact_sensitivity(p: Problem, t: Tunables) -> float:
    """b^2 times the Frobenius sensitivity of S."""
    return largest_norm(p, t) ** 2 * frobenius_sensitivity(p, central_radius(p))


def tolerance(p: Problem, t: Tunables) -> float:
    """tol of the module's text."""
    return float(t.slack) * exact_sensitivity(p, t)


def band(p: Problem, t: Tunables, share: float = 1.0) -> Band:
    """Of the eigenvalues of Theta*, for ``share`` times n records: then |S|_2 <= share*r^2."""
    return Band(p.d, float(t.penalty), share * central_radius(p) ** 2 * (1 + 1e-9), largest_norm(p, t))


def chosen(p: Problem, noise: str) -> str:
    if noise != "auto":
        return noise
    return "gaussian" if {"delta", "rho", "mu"} & p.facts.keys() else "symmetrised-wishart"


def resolved_options(p: Problem, t: Tunables) -> dict[str, str]:
    return {"noise": chosen(p, t.noise)}


def accepts(p: Problem, t: Tunables) -> str | None:
    problem = wrong_task(p, "precision") or central_refusal(p)
    if problem is None and t.noise == "wishart":
        return (
            "one-sided Wishart noise on Theta (000, Algorithm 6.3.50) is not private: Theta + N exceeds Theta in the "
            "Loewner order, so outputs of "
            "neighbours have different supports. Witness at d = 1: records 0 and 1 give different Theta, and the output rules one out with "
            "probability 1 - exp(-epsilon/2) at the least. Take noise = symmetrised-wishart (pure) or noise = gaussian"
        )
    if problem is not None:
        return problem
    share, tol = ROOM if p.neighbours == "add-remove" else 1, tolerance(p, t)
    least, course = band(p, t, float(share)).reach(tol)
    help = "raise slack or penalty, or take dp-precision-covariance, whose solver is post-processing"
    if not tol >= least:
        return (
            f"its solver has to get within {tol:.2g} of the minimiser and doubles are only certain of {least:.2g} for all data sets; {help}"
        )
    if course is None:
        return f"its solver may need more than {MOST_STEPS} steps for some data set; {help}"
    return None


def mechanism(p: Problem, t: Tunables) -> Mechanism:
    sensitivity = exact_sensitivity(p, t) * (1 + 2 * float(t.slack)) * (1 + 1e-9)
    if chosen(p, t.noise) == "gaussian":
        return GaussianSymmetric(sensitivity, p.d)
    return SymmetrisedWishart(math.sqrt(p.d) * sensitivity, p.d)


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("theta", mechanism(p, t))


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    m = mechanism(p, t)
    theta = within(second_moment(records, n=p.n), band(p, t, max(1.0, records.n / p.n)), tolerance(p, t))
    noisy = release.draw("theta", theta, sensitivity=m.sensitivity)
    return Estimate(positive_part(noisy, floor(p, t)), {"noisy": noisy})


def floor(p: Problem, t: Tunables) -> float:
    """1/(r^2 + rho*d), a lower bound of the eigenvalues of Theta* for every data set of n records (000, Lemma 6.3.5, |S|_2 <= r^2)."""
    return 1 / (central_radius(p) ** 2 + float(t.penalty) * p.d)


def noise_norm(p: Problem, t: Tunables, calibrated: Any, eta: float) -> float:
    scale = calibrated.scale("theta")
    if isinstance(mechanism(p, t), GaussianSymmetric):
        return gaussian_frobenius(scale, p.d, eta, isotropic=True)
    return symmetrised_frobenius(scale, p.d, eta)


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    """The projection does not increase the distance to Theta*, which lies in the set; the solver adds at most tol."""
    return {CARD.bounds[0].theorem: noise_norm(p, t, calibrated, FAILURE) + float(t.slack) * exact_sensitivity(p, t)}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    return {CARD.bounds[0].theorem: {"N": noise_norm(p, t, calibrated, FAILURE), "S": exact_sensitivity(p, t)}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """The norm of the noise in units of the covariance: over (d/rho)^2, to compare with covariance perturbation, times sqrt(d)."""
    return noise_norm(p, t, calibrated, 0.5) / (p.d / float(t.penalty)) ** 2 * math.sqrt(p.d)


def warnings(p: Problem, t: Tunables, calibrated: Any) -> list[str]:
    noise, largest = noise_norm(p, t, calibrated, 0.5), math.sqrt(p.d) * p.d / float(t.penalty)
    if noise <= largest:
        return []
    return [f"the noise has Frobenius norm about {noise:.3g}, and no Theta* exceeds {largest:.3g}: use dp-precision-covariance"]


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    if budget.kind not in ("pure", "approx"):
        return ()
    scale = p.d**2.5 / (p.n * float(budget.epsilon_exact) * float(t.penalty) ** 2) * central_radius(p) ** 2
    return (
        Published(
            "000 Theorem 6.3.1",
            "theta",
            "d^(5/2)/(n*epsilon*rho^2)",
            scale,
            math.inf,
            "one-sided Wishart noise: no finite epsilon at delta 0",
        ),
    )
