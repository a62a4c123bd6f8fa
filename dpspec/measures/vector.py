"""Distances of a vector from the true one."""

from __future__ import annotations

from typing import Final

import numpy as np

from dpspec.measures.measure import Array, Measure, Trial


def l2_error(w: Array, trial: Trial) -> float:
    return float(np.linalg.norm(w - trial.true))


def l1_error(w: Array, trial: Trial) -> float:
    return float(np.abs(w - trial.true).sum())


def linf_error(w: Array, trial: Trial) -> float:
    return float(np.abs(w - trial.true).max())


def squared_l2_error(w: Array, trial: Trial) -> float:
    return l2_error(w, trial) ** 2


def support_error(w: Array, trial: Trial) -> float:
    """1 - F1 of the support of the estimate against the true support."""
    truth = trial.true != 0
    found = w != 0
    both = int(np.count_nonzero(truth & found))
    return 1.0 - 2 * both / max(int(truth.sum()) + int(found.sum()), 1)


L2_ERROR: Final = Measure("l2-error", l2_error, "truth")
L1_ERROR: Final = Measure("l1-error", l1_error, "truth")
LINF_ERROR: Final = Measure("linf-error", linf_error, "truth")
SQUARED_L2_ERROR: Final = Measure("squared-l2-error", squared_l2_error, "truth")
SUPPORT_ERROR: Final = Measure("support-error", support_error, "law")

#: Of every task whose answer is a vector.
DISTANCES: Final = (L2_ERROR, L1_ERROR, LINF_ERROR, SQUARED_L2_ERROR)
