"""Errors of plain statistics: the answer against that of the same records without noise."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from dpspec.measures.measure import Array, Measure, Trial


def _apart(answer: Array, trial: Trial) -> Any:
    return np.abs(np.asarray(answer, dtype=np.float64) - np.asarray(trial.reference, dtype=np.float64))


#: The mean over the numbers of an answer, and the largest.
ABSOLUTE_ERROR: Final = Measure("absolute-error", lambda answer, trial: float(np.mean(_apart(answer, trial))), "reference")
LARGEST_ERROR: Final = Measure("largest-error", lambda answer, trial: float(np.max(_apart(answer, trial))), "reference")
#: Of quantiles, as a share of the records: 0 for each exact sample quantile, whatever is tied.
RANK_ERROR: Final = Measure(
    "rank-error", lambda answer, trial: float(np.mean(trial.problem.oracle.rank_errors(trial.records, np.asarray(answer)))), "records"
)
