"""The noise formulas that the documents print, for comparison only: no plan is calibrated by them.

Each returns the standard deviation of one Gaussian release; :func:`epsilon_spent` tells what such releases really cost.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

from dpspec.privacy import gaussian
from dpspec.privacy.gaussian import Number, exact


def _checked(epsilon: float, delta: float, sensitivity: float, count: int = 1) -> None:
    if not (epsilon > 0 and 0 < delta < 1 and sensitivity > 0 and count >= 1):
        raise ValueError(f"epsilon, sensitivity > 0, 0 < delta < 1 and count >= 1, got {epsilon}, {sensitivity}, {delta}, {count}")


def classic_gaussian_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """sensitivity*sqrt(2 log(1.25/delta))/epsilon: document 000, Definition 2.1.3.

    Proved for epsilon < 1 (Dwork, Roth 2014, appendix A), a condition that the document omits; too small from about epsilon 8.45 on at
    delta 1e-5. See :func:`classic_in_range`.
    """
    _checked(epsilon, delta, sensitivity)
    return sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def classic_in_range(epsilon: float) -> bool:
    """Whether the classic formula is used where it is proved; outside, DP305 is reported."""
    return epsilon < 1


def zcdp_gaussian_sigma(
    epsilon: float, delta: float, sensitivity: float, count: int = 1, *, form: Literal["corrected", "printed"] = "corrected"
) -> float:
    """sensitivity*sqrt(count/(2 rho)), sqrt(rho) = sqrt(log(1/delta) + epsilon) - sqrt(log(1/delta)): document 000, Lemmas 2.1.8 to 2.1.10.

    ``printed``: Lemma 2.1.9 as it stands, rho = sensitivity/(2 sigma^2) without the square, which gives sqrt(count*sensitivity/(2 rho)):
    too small for sensitivities above 1 and too large below.
    """
    _checked(epsilon, delta, sensitivity, count)
    room = math.log(1 / delta)
    root_rho = epsilon / (math.sqrt(room + epsilon) + math.sqrt(room))
    moved = sensitivity if form == "corrected" else math.sqrt(sensitivity)
    return moved * math.sqrt(count / 2) / root_rho


def advanced_composition_sigma(
    epsilon: float, delta: float, sensitivity: float, count: int, *, form: Literal["corrected", "printed"] = "corrected"
) -> float:
    """The classic Gaussian scale at epsilon' = epsilon/(2 sqrt(2 T log(2/slack))) and delta': document 000, Lemma 2.1.5 with 2.1.3.

    ``printed``: delta' = delta/T and slack delta, which adds up to 2 delta. ``corrected``: delta' = delta/(2T) and slack delta/2.
    Proved for epsilon < 1.
    """
    _checked(epsilon, delta, sensitivity, count)
    slack, each = (delta, delta / count) if form == "printed" else (delta / 2, delta / (2 * count))
    return classic_gaussian_sigma(epsilon / (2 * math.sqrt(2 * count * math.log(2 / slack))), each, sensitivity)


def epsilon_spent(sigma: Number, sensitivity: Number, count: int, delta: Number) -> float:
    """The epsilon that ``count`` Gaussian releases of standard deviation ``sigma`` really spend at ``delta``: exact, rounded up."""
    s, moved = exact(sigma), exact(sensitivity)
    if s <= 0 or moved <= 0 or count < 1:
        raise ValueError(f"sigma, sensitivity and count are positive, got {sigma}, {sensitivity}, {count}")
    return gaussian.epsilon_of(gaussian.sqrt_up(Fraction(count) * (moved / s) ** 2), delta)
