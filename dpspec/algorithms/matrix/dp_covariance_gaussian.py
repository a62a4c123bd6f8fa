"""The second moment with symmetric Gaussian noise, central model.

    S = (1/n) sum x_i x_i^T of the scaled records; release S + N.

Source: 000, section 6.2.3, equations (6.16) to (6.18), and the SULQ baseline of section 6.3.6. Differences from the printed version:
sensitivity sqrt(2)*r^2/n under replace-one (printed 1/n, which is add-remove with public n), exact calibration, and by default noise
that is isotropic in the Frobenius inner product, with half the variance off the diagonal at the same privacy (``noise = upper``: as
printed). ``noise = sulq``: every one of the d^2 entries is a query of its own, sensitivity d*r^2/n over all of them; the document names
this
baseline without a scale, and this is the documented choice. ``psd = on`` projects on the positive semi-definite cone: post-processing.

``estimate.theta``: (d, d) symmetric. No mean is subtracted: the estimate is of E x x^T.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.matrix._common import (
    CENTRAL_X,
    CLIP_CENTRAL,
    central_radius,
    central_refusal,
    printed_gaussian,
    sensitivity_fault,
    wrong_task,
)
from dpspec.algorithms.matrix._deviation import FAILURE, gaussian_max, gaussian_operator, sampling_max, sampling_operator
from dpspec.algorithms.matrix._moment import frobenius_sensitivity, positive_part, rounded, second_moment
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.mechanisms.symmetric import GaussianSymmetric
from dpspec.privacy.schedule import Draw, Tree

CARD = Card(
    id="dp-covariance-gaussian",
    title="Covariance by one symmetric Gaussian matrix",
    family="matrix",
    task="covariance",
    models=("central",),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(
        Source("000", "6.2.3", "equation (6.16)", ("(6.17)", "(6.18)")),
        Source("000", "6.3.6", "SULQ baseline"),
    ),
    summary="Second moment of scaled records plus symmetric Gaussian noise, optionally projected on the positive semi-definite cone.",
    needs=(CENTRAL_X, Need("sub-gaussian", "utility", "x has mean 0")),
    options={"noise": ("isotropic", "upper", "sulq"), "psd": ("off", "on")},
    bounds=(
        Bound(
            "operator-error",
            "explicit",
            "upper",
            "c*(N + x/3*x_l2^2/n + sqrt((x/3*x_l2^2/n)^2 + 2*x_l2^2*top*x/n))",
            "proved",
            "000 (6.17) with both terms and constants",
            probability="0.95",
            conditions="against E x x^T of the scaled records; psd = on doubles it",
            where={
                "c": "2 where psd = on, else 1",
                "N": "spectral norm of the noise with probability 0.975: scale*(sqrt(2*d) + sqrt(2*log(80))), for noise = "
                "upper scale*(2*sqrt(d) + 2*sqrt(log(80)))",
                "x": "log(80*d)",
                "top": "eig_max where it is declared, at most x_l2^2",
            },
        ),
        Bound(
            "max-error",
            "explicit",
            "upper",
            "scale*sqrt(2*log(40*d*(d + 1))) + x_l2^2*sqrt(log(40*d*(d + 1))/(2*n))",
            "proved",
            "000 (6.18) with constants",
            probability="0.95",
            conditions="psd = off",
            options={"psd": "off"},
        ),
        Bound(
            "operator-error", "order", "upper", "C*(sqrt(d*log(1/delta))/(n*epsilon) + sqrt(eig_max/n))", "proved", "000 (6.17), both terms"
        ),
        Bound(
            "operator-error",
            "order",
            "upper",
            "C*sqrt(d*log(1/delta))/(n*epsilon)",
            "refuted",
            "000 (6.17)",
            conditions="drops the sampling error, which dominates for n*epsilon^2 > d*log(1/delta)",
        ),
    ),
    faults=(
        sensitivity_fault("000, equation (6.16), used by Theorems 6.2.1 and 6.3.7", "n*S"),
        CLIP_CENTRAL,
        Fault(
            "000, (6.17): |S~ - Sigma|_2 = O(sqrt(p log(1/delta))/(n eps))",
            "the sampling error |S - Sigma|_2 is dropped",
            "tests/algorithms/matrix/test_matrix_central.py::test_the_printed_covariance_bound_misses_the_sampling_error",
            "utility",
        ),
        Fault("000, after (6.17): the estimator may be indefinite", "psd = on projects it", "docs/faults.md#indefinite-estimate", "text"),
        Fault(
            "000, Table 6.5: SULQ (printed SQLU) without a scale",
            "d*r^2/n over d^2 queries, stated here",
            "docs/faults.md#scale-of-sulq",
            "text",
        ),
    ),
    cost={"gradients": "0", "rounds": "1", "memory_bytes": "64*d*d"},
    reads="sums",
    spread=True,
    spec="specs/matrix/dp-covariance-gaussian.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    return wrong_task(p, "covariance") or central_refusal(p)


def mechanism(p: Problem, noise: str) -> GaussianSymmetric | Gaussian:
    """What releases the second moment. sulq: d^2 queries, each of sensitivity r^2/n, so together at most d*r^2/n in l2."""
    r = central_radius(p)
    if noise == "sulq":
        return Gaussian(p.d * r**2 / p.n + rounded(p, r), size=p.d * p.d)
    return GaussianSymmetric(frobenius_sensitivity(p, r), p.d, "upper" if noise == "upper" else "isotropic")


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("moment", mechanism(p, t.noise))


def noisy_moment(records: Any, p: Problem, noise: str, release: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """S + N, symmetric (d, d): the one draw of this family's central Gaussian algorithms."""
    out = release.draw("moment", second_moment(records, n=p.n), sensitivity=mechanism(p, noise).sensitivity)
    return np.asarray((out + out.T) / 2)


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    moment = noisy_moment(records, p, t.noise, release)
    if t.psd == "on":
        return Estimate(positive_part(moment), {"moment": moment})
    return Estimate(moment)


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    r, scale = central_radius(p), calibrated.scale("moment")
    operator = gaussian_operator(scale, p.d, FAILURE / 2, isotropic=t.noise != "upper")
    operator += sampling_operator(p.n, p.d, r, p.facts.get("eig_max", r**2), FAILURE / 2)
    found = {CARD.bounds[0].theorem: operator * (2 if t.psd == "on" else 1)}
    if t.psd == "off":
        found[CARD.bounds[1].theorem] = gaussian_max(scale, p.d, FAILURE / 2) + sampling_max(p.n, p.d, r, FAILURE / 2)
    return found


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    r = central_radius(p)
    N = gaussian_operator(calibrated.scale("moment"), p.d, FAILURE / 2, isotropic=t.noise != "upper")
    names = {"c": 2.0 if t.psd == "on" else 1.0, "N": N, "x": math.log(80 * p.d), "top": min(p.facts.get("eig_max", r**2), r**2)}
    return {CARD.bounds[0].theorem: names, CARD.bounds[1].theorem: {}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """Spectral norm: noise and sampling, without the constants of the proof."""
    r = central_radius(p)
    return float(calibrated.scale("moment") * math.sqrt(2 * p.d) + r * math.sqrt(p.facts.get("eig_max", r**2 / p.d) / p.n))


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    return printed_gaussian(p, budget, "000 (6.16)", "moment", 1 / p.n, central_radius(p))
