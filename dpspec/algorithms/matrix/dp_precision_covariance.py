"""Sparse precision matrix by the graphical lasso of a perturbed second moment, central model.

    1. S of the scaled records; S~ = S + N;
    2. the positive part of S~;
    3. Theta^ = argmin over Theta > 0 of -log det Theta + <S~+, Theta> + rho*|Theta|_1, the diagonal penalised.

``noise``                  guarantee          noise
``gaussian``               epsilon, delta     symmetric, isotropic in the Frobenius product, sensitivity sqrt(2)*r^2/n
``laplace``                pure               upper triangle, l1 sensitivity r^2*sqrt(d(d+3)/2)/n (printed 2d/n; (d+1)/n also holds)
``symmetrised-wishart``    pure               W1 - W2, t = r^2/(n epsilon): Frobenius norm about sqrt(2) d^(3/2) t
``wishart``                epsilon, delta     W_d(m, c r^2/n I), m and c from a proved tail of the loss
``auto``                   as the budget      gaussian with a delta, symmetrised-wishart without

Source: 000, section 6.3.5, Algorithm 6.3.51, Theorems 6.3.3 to 6.3.7. Differences from the printed version: clipping, the sqrt(2), exact
calibration, the positive part before the solver (on an indefinite matrix the objective is unbounded below, which it is at the printed
settings), a centred Wishart (``centre = on``: its mean m c r^2/n I is subtracted, post-processing), and the pure Wishart claim of Theorem
6.3.4, which is refused: see the module's ``PURE_WISHART``.

``estimate.theta``: (d, d) positive definite; extras ``moment``: S~.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Problem, Source, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.matrix._common import (
    CENTRAL_X,
    CLIP_CENTRAL,
    EXISTS,
    ONE_SIDED,
    PURE_WISHART,
    TESTS,
    below,
    central_radius,
    central_refusal,
    printed_gaussian,
    sensitivity_fault,
    wrong_task,
)
from dpspec.algorithms.matrix._deviation import FAILURE, gaussian_frobenius, laplace_frobenius, symmetrised_frobenius, wishart_frobenius
from dpspec.algorithms.matrix._moment import frobenius_sensitivity, l1_sensitivity, nuclear_sensitivity, second_moment, wishart_rounding
from dpspec.algorithms.matrix._precision import PENALTY, SPARSE, largest_factor, noise_too_large, precision_of
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.symmetric import GaussianSymmetric, LaplaceSymmetric, second_moment_l1_sensitivity
from dpspec.privacy.mechanisms.wishart import SymmetrisedWishart
from dpspec.privacy.mechanisms.wishart_one_sided import Wishart
from dpspec.privacy.schedule import Draw, Tree

Mechanism: TypeAlias = GaussianSymmetric | LaplaceSymmetric | SymmetrisedWishart | Wishart
_CENTRAL = "tests/algorithms/matrix/test_matrix_central.py::"

CARD = Card(
    id="dp-precision-covariance",
    title="Sparse precision matrix: graphical lasso of a perturbed covariance",
    family="matrix",
    task="precision",
    models=("central",),
    guarantees=("approx", "zcdp", "gdp", "pure"),
    sources=(
        Source(
            "000",
            "6.3.5",
            "Algorithm 6.3.51",
            ("Theorem 6.3.3", "Theorem 6.3.4", "Theorem 6.3.5", "Theorem 6.3.6", "Theorem 6.3.7", "Lemma 6.3.1"),
        ),
    ),
    summary="Symmetric noise on the second moment (Gaussian, Laplace, Wishart or symmetrised Wishart), positive part, graphical lasso.",
    needs=(CENTRAL_X, SPARSE),
    options={"noise": ("auto", "gaussian", "laplace", "wishart", "symmetrised-wishart", "sulq"), "centre": ("on", "off")},
    tunables={"penalty": PENALTY},
    bounds=(
        Bound(
            "reference-frobenius-error",
            "explicit",
            "upper",
            "(d/penalty)^2*N",
            "proved",
            "000 Theorem 6.3.3 with M <= (d/rho)^2 and the norm of the noise drawn",
            probability="0.95",
            conditions="the expression is that of noise = gaussian; the value is that of the noise chosen",
            where={
                "N": "Frobenius norm of the noise with probability 0.95: scale*(sqrt(d*(d + 1)/2) + sqrt(2*log(20))) for "
                "Gaussian noise, else of the noise chosen (text of _deviation)"
            },
        ),
        Bound(
            "reference-frobenius-error",
            "order",
            "upper",
            "C*d^3*sqrt(log(1/delta))/(penalty^2*n*epsilon)",
            "proved",
            "000 Theorem 6.3.7 (Gaussian), corrected",
            options={"noise": "gaussian"},
        ),
        Bound(
            "reference-frobenius-error",
            "order",
            "upper",
            "C*d^4/(penalty^2*n*epsilon)",
            "proved",
            "000 Theorem 6.3.5 (Laplace)",
            options={"noise": "laplace"},
        ),
        Bound(
            "reference-frobenius-error",
            "order",
            "upper",
            "C*d^(7/2)/(penalty^2*n*epsilon)",
            "proved",
            "symmetrised Wishart, in place of 000 Theorem 6.3.4",
            options={"noise": "symmetrised-wishart"},
        ),
        Bound(
            "reference-frobenius-error",
            "order",
            "upper",
            "C*d^(5/2)*(d + log(1/delta)/epsilon^2)/(penalty^2*n)",
            "proved",
            "000 Theorem 6.3.6 (Wishart), sum form",
            options={"noise": "wishart"},
        ),
        Bound(
            "reference-frobenius-error",
            "order",
            "upper",
            "C*d^(7/2)*log(d)/(penalty^2*n*epsilon)",
            "refuted",
            "000 Theorem 6.3.4 (pure Wishart)",
            conditions="a bound of a mechanism that is not private",
        ),
    ),
    faults=(
        sensitivity_fault("000, Theorem 6.3.7", "n*S"),
        CLIP_CENTRAL,
        ONE_SIDED,
        EXISTS,
        Fault(
            "000, section 6.3.6: 300 of 2000 genes are chosen and the data normalised before the analysis",
            "which variables are kept and how they are scaled are functions of the private rows; choose them without the data",
            "tests/algorithms/test_printed_leaks.py::test_variables_chosen_by_their_spread_differ",
            "privacy",
        ),
        Fault(
            "000, Theorems 6.3.4 to 6.3.8: M = max(|Theta*|^2, |Theta^|^2) in the bound",
            "the value of M holds the non-private Theta*; a private report prints (d/rho)^2",
            "tests/algorithms/test_printed_leaks.py::test_largest_eigenvalues_of_estimates_differ",
            "privacy",
        ),
        Fault(
            "000, Table 6.5: delta = 0.01",
            "above 1/n for every set with n > 100. What is stated holds and promises little, as to publish a random record "
            "has (0, 1/n): a plan warns",
            TESTS + "test_a_delta_above_one_over_n_is_warned_of",
            "text",
        ),
        Fault(
            "000, Table 6.4: Wishart rows with relative error 0.88 to 0.995 are the best",
            "the zero matrix has 1: one-sided noise of mean (d+1)*3/(2 n eps) I drives the estimate to 0",
            _CENTRAL + "test_one_sided_noise_shrinks_the_precision_to_nothing",
            "utility",
        ),
        Fault(
            "000, Theorem 6.3.6: E N = (m/n) I biases S upwards",
            "centre = on subtracts it",
            _CENTRAL + "test_one_sided_noise_shrinks_the_precision_to_nothing",
            "utility",
        ),
        Fault(
            "000, Theorem 6.3.6 and Lemma 6.3.1: m >= d + 14/epsilon^2*log(4/delta)",
            "safe for epsilon < 1 and far too many: 84.9 beyond d at (1, 0.01); a proved tail gives less noise and holds for every epsilon",
            _CENTRAL + "test_the_wishart_calibration_is_valid_and_below_the_printed_one",
            "utility",
        ),
        Fault("000, Theorem 6.3.6: delta in (0, 1/eps)", "(0, 1/e), Lemma 6.3.1", "docs/faults.md#range-of-delta", "text"),
        Fault(
            "000, Table 6.5: Wishart at epsilon 1 and 1.5",
            "the theorem needs epsilon < 1",
            "docs/faults.md#epsilon-outside-the-theorem",
            "text",
        ),
        Fault(
            "000, Theorem 6.3.5: l1 sensitivity 2d/n",
            "sqrt(d(d+3)/2)/n suffices",
            _CENTRAL + "test_the_l1_sensitivity_is_below_the_printed_one",
            "utility",
        ),
        Fault(
            "000, Remark 6.3.2: Wishart beats Laplace for pure DP",
            "it compares with a mechanism that is not private; the symmetrised one does",
            "docs/faults.md#comparison-with-what-is-not-private",
            "text",
        ),
        Fault(
            "000, Table 6.5: Gaussian error .1285, .1607, .1759 for growing n at rho = 0.001",
            "the objective is unbounded at these settings and the bound falls in n: no targets",
            TESTS + "test_the_printed_objective_is_unbounded_below",
            "utility",
        ),
    ),
    cost={"gradients": "0", "rounds": "1", "memory_bytes": "80*d*d"},
    reads="sums",
    spread=True,
    spec="specs/matrix/dp-precision-covariance.dps",
)


def chosen(p: Problem, noise: str) -> str:
    if noise != "auto":
        return noise
    return "symmetrised-wishart" if "delta" not in p.facts and not {"rho", "mu"} & p.facts.keys() else "gaussian"


def resolved_options(p: Problem, t: Tunables) -> dict[str, str]:
    return {"noise": chosen(p, t.noise)}


def accepts(p: Problem, t: Tunables) -> str | None:
    problem = wrong_task(p, "precision") or central_refusal(p)
    return problem or one_sided_refusal(p, t.noise)


def one_sided_refusal(p: Problem, noise: str) -> str | None:
    """Why the one-sided noise cannot serve this budget."""
    if noise != "wishart":
        return None
    if not p.facts.get("delta") and not {"rho", "mu"} & p.facts.keys():
        return PURE_WISHART
    if not p.facts.get("delta") or {"rho", "mu"} & p.facts.keys():
        return "Wishart noise gives one pair (epsilon, delta), and neither zCDP nor Gaussian DP: its losses can be infinite"
    return None


def mechanism(p: Problem, noise: str) -> Mechanism:
    r, n, d = central_radius(p), p.n, p.d
    neighbours: Any = p.neighbours
    match chosen(p, noise):
        case "gaussian":
            return GaussianSymmetric(frobenius_sensitivity(p, r), d)
        case "sulq":  # one query an entry, d^2 of them: symmetrised, it is isotropic noise for the length d r^2/n, more than is needed
            return GaussianSymmetric(max(d * r**2 / n, frobenius_sensitivity(p, r)), d)
        case "laplace":
            return LaplaceSymmetric(l1_sensitivity(p, r), d)
        case "wishart":
            return Wishart(r**2 / n, d, below(p.facts["delta"]), neighbours, rounding=wishart_rounding(p, r))
        case _:
            return SymmetrisedWishart(nuclear_sensitivity(p, r), d)


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("moment", mechanism(p, t.noise))


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    m = mechanism(p, t.noise)
    moment = release.draw("moment", second_moment(records, n=p.n), sensitivity=m.sensitivity)
    if isinstance(m, Wishart) and t.centre == "on":
        moment = moment - m.degrees(release.level("moment")) * release.scale("moment") * np.eye(p.d)
    return precision_of(moment, t.penalty)


def frobenius(p: Problem, m: Mechanism, level: float, eta: float, *, centred: bool = True) -> float:
    """A bound of the Frobenius norm of the noise at probability 1 - ``eta``."""
    scale = m.scale(level)
    match m:
        case GaussianSymmetric():
            return gaussian_frobenius(scale, p.d, eta, isotropic=True)
        case LaplaceSymmetric():
            return laplace_frobenius(scale, p.d, eta)
        case Wishart():
            degrees = m.degrees(level)
            whole = wishart_frobenius(scale, degrees, p.d, eta)
            if not centred:
                return whole
            return min(whole + degrees * scale * math.sqrt(p.d), scale * math.sqrt(degrees * p.d * (p.d + 1) / eta))
        case SymmetrisedWishart():
            return symmetrised_frobenius(scale, p.d, eta, float(max(m.degrees, p.d + 1)))


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    m = mechanism(p, t.noise)
    noise = frobenius(p, m, calibrated.levels["moment"], FAILURE, centred=t.centre == "on")
    return {CARD.bounds[0].theorem: largest_factor(p, t.penalty) * noise}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    N = frobenius(p, mechanism(p, t.noise), calibrated.levels["moment"], FAILURE, centred=t.centre == "on")
    return {CARD.bounds[0].theorem: {"N": N}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """The Frobenius norm of the noise: the factor M is common to the covariance-perturbation algorithms."""
    return frobenius(p, mechanism(p, t.noise), calibrated.levels["moment"], 0.5)


def warnings(p: Problem, t: Tunables, calibrated: Any) -> list[str]:
    return noise_too_large(predicted(p, t, calibrated), central_radius(p))


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    r, noise = central_radius(p), chosen(p, t.noise)
    if noise == "gaussian":
        return printed_gaussian(p, budget, "000 Theorem 6.3.7", "moment", 1 / p.n, r)
    if budget.kind not in ("pure", "approx"):
        return ()
    e = float(budget.epsilon_exact)
    if noise == "laplace":
        true = second_moment_l1_sensitivity(r, p.n, p.d, p.neighbours)  # type: ignore[arg-type]
        b = 2 * p.d * r**2 / (p.n * e)
        return (
            Published("000 Theorem 6.3.5", "moment", "2*d*r^2/(n*epsilon)", b, true / b, "twice the noise that the sensitivity asks for"),
        )
    if noise == "symmetrised-wishart":
        return (
            Published(
                "000 Theorem 6.3.4",
                "moment",
                "3*r^2/(2*n*epsilon)",
                1.5 * r**2 / (p.n * e),
                math.inf,
                "one-sided: delta at least 1 - exp(-epsilon/3)",
            ),
        )
    return ()
