"""From a released second moment to a precision matrix: positive part, then the graphical lasso. Post-processing only."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from dpspec.algorithms.card import Need, Problem, Tunable
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.matrix._lasso import graphical_lasso
from dpspec.algorithms.matrix._moment import positive_part
from dpspec.algorithms.sets import Vector

PENALTY: Final = Tunable(
    "1/100", "rho of 000 (6.83); its experiments take 0.001 (smaller is less stable: the bound has (d/rho)^2)", minimum=1e-9
)
SPARSE: Final = Need(
    "sparse", "utility", "the precision matrix is sparse; errors are against Theta*_rho of the same records, not against the truth"
)


def precision_of(moment: Vector, penalty: float, **more: Any) -> Estimate:
    """The graphical lasso of the positive part of a released symmetric matrix; where no certified point is found, that of its diagonal,
    with an infinite gap beside it."""
    psd = positive_part(moment)
    try:
        found = graphical_lasso(psd, penalty)
    except (ValueError, np.linalg.LinAlgError):  # noise beyond the doubles' reach: a release that is paid for is not lost for that
        diagonal = np.diag(1 / (np.maximum(np.diag(psd), 0.0) + penalty))
        return Estimate(diagonal, {"moment": moment, "duality_gap": math.inf, **more})
    return Estimate(found.theta, {"moment": moment, "duality_gap": found.gap, **more})


def largest_factor(p: Problem, penalty: float) -> float:
    """M <= (d/rho)^2 bounds max(|Theta*_rho|_2^2, |Theta^|_2^2) for positive semi-definite matrices (000, Lemma 6.3.5). The realised factor
    would be a statistic of the records."""
    return (p.d / penalty) ** 2


def noise_too_large(noise: float, radius: float) -> list[str]:
    """``noise``: Frobenius norm of the noise; S has trace at most r^2 and Frobenius norm at most r^2."""
    if noise <= radius**2:
        return []
    return [f"the noise has Frobenius norm about {noise:.3g} and the second moment at most {radius**2:.3g}: zero is as good an estimate"]
