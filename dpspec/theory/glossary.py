"""What the names of bounds mean where a bound itself does not say (``Bound.where``), a setting has none of that name, and it is no noise
scale: facts of a spec and the constants of a loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

GLOSSARY: Final[Mapping[str, str]] = {
    "C": "a constant that is not specified",
    "pi": "3.14159...",
    "n": "records",
    "d": "numbers that are estimated, for vectors of one margin the coordinates of x",
    "m": "public records",
    "k": "sparsity",
    "k_x": "rows of the sparse subspace that are not 0",
    "rank": "dimension of the subspace",
    "epsilon": "of the budget",
    "delta": "of the budget",
    "zeta": "chance that the bound fails",
    "L": "Lipschitz constant of a record's loss (certified)",
    "B": "smoothness, the ridge's too (certified)",
    "lam": "strong convexity (certified)",
    "D": "radius of the set",
    "x_l2": "bound of |x|_2 (enforced)",
    "value_low": "least value of the column",
    "value_high": "largest value of the column",
    "noise_bound": "bound of the noise in the model of y (noise-bounded)",
    "eig_min": "least eigenvalue of the covariance of x (eigenvalues)",
    "eig_max": "largest eigenvalue (eigenvalues)",
    "gap": "lambda_k - lambda_{k+1} (eigengap)",
    "sigma": "sub-Gaussian constant, or the spread of a component",
    "moment_order_y": "order of the moment of y that is bounded (moment of y)",
    "signal_to_noise": "|beta*|_2 over sigma",
    "start_within": "distance of the start over |beta*|_2",
    "contraction": "of the population's step",
    "ability": "mean of (2p - 1)^2 over workers",
    "advantage": "mean of P(right) - P(the likeliest wrong label) over workers",
    "classes": "labels of a task",
    "experts": "workers who are always right",
}
