"""Measures of error for covariances, precision matrices and subspaces. Study mode only."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpspec.measures.measure import Measure, Trial

Matrix: TypeAlias = NDArray[np.float64]


def known(law: Any, name: str) -> Matrix | None:
    """A moment or a subspace of a law, where it is known."""
    value = getattr(law, name, None)
    return None if value is None else np.asarray(value, dtype=np.float64)


def second_moment(law: Any) -> Matrix | None:
    """E x x^T of the law."""
    covariance, mean = known(law, "covariance"), known(law, "mean")
    if covariance is None:
        return None
    return covariance if mean is None else covariance + np.outer(mean, mean)


def reference(trial: Trial) -> Matrix:
    if trial.reference is None:
        raise LookupError("the law's covariance is not known and there is no reference to measure against")
    return np.asarray(trial.reference, dtype=np.float64)


def _l1(a: Matrix) -> float:
    """The largest column sum: the l1 operator norm."""
    return float(np.abs(a).sum(axis=0).max())


def _spectral(a: Matrix) -> float:
    return float(np.abs(np.linalg.eigvalsh(a)).max()) if np.allclose(a, a.T) else float(np.linalg.norm(a, 2))


def _frobenius(a: Matrix) -> float:
    return float(np.linalg.norm(a))


def _largest(a: Matrix) -> float:
    return float(np.abs(a).max())


def _absolute(norm: Callable[[Matrix], float]) -> Callable[[Matrix, Trial], float]:
    return lambda estimate, trial: norm(estimate - trial.true)


def _relative(norm: Callable[[Matrix], float]) -> Callable[[Matrix, Trial], float]:
    def measure(estimate: Matrix, trial: Trial) -> float:
        truth = trial.true
        return norm(estimate - truth) / max(norm(truth), 1e-300)

    return measure


def subspace_distance(w: Matrix, trial: Trial) -> float:
    """|sin Theta|_F = sqrt(k - |V^T W|_F^2), in [0, sqrt(min(k, d - k))]."""
    return math.sqrt(max(0.0, w.shape[1] - float(np.linalg.norm(trial.true.T @ w)) ** 2))


def projector_distance(w: Matrix, trial: Trial) -> float:
    """|V V^T - W W^T|_F = sqrt(2)*|sin Theta|_F."""
    return math.sqrt(2.0) * subspace_distance(w, trial)


def row_support_error(w: Matrix, trial: Trial) -> float:
    """1 - F1 of the non-zero rows of a subspace's basis."""
    truth = np.linalg.norm(trial.true, axis=1) > 1e-8
    return _f1_error(np.linalg.norm(w, axis=1) > 1e-8, truth)


def least_row_norm(w: Matrix, trial: Trial) -> float:
    """The norm above which every row of the true basis is found: the largest one of a row that is not, 0 when all are."""
    missed = np.linalg.norm(w, axis=1) <= 1e-8
    return float((np.linalg.norm(trial.true, axis=1) * missed).max())


def matrix_support_error(estimate: Matrix, trial: Trial) -> float:
    """1 - F1 of the non-zero off-diagonal entries; entries of the truth below 1e-10 of its largest count as zero."""
    truth = trial.true
    off = ~np.eye(len(truth), dtype=bool)
    return _f1_error(estimate[off] != 0, np.abs(truth[off]) > 1e-10 * np.abs(truth).max())


def _f1_error(found: NDArray[np.bool_], truth: NDArray[np.bool_]) -> float:
    both = int(np.count_nonzero(found & truth))
    total = int(found.sum()) + int(truth.sum())
    return 1.0 - 2 * both / total if total else 0.0


def gaussian_kl(theta: Matrix, trial: Trial) -> float:
    """KL(N(0, Sigma) || N(0, Theta^-1)) = (tr(Theta Sigma) - d - log det(Theta Sigma))/2; infinite for a Theta that is not positive."""
    known = second_moment(trial.truth)
    moment = np.asarray(np.linalg.inv(reference(trial)) if known is None else known, dtype=np.float64)
    sign, log = np.linalg.slogdet(theta)
    if sign <= 0:
        return math.inf
    return float((theta * moment).sum() - len(theta) - log - np.linalg.slogdet(moment)[1]) / 2


def reference_frobenius_error(theta: Matrix, trial: Trial) -> float:
    """|Theta^ - Theta*_rho|_F against the non-private graphical lasso of the same records."""
    return _frobenius(theta - reference(trial))


def relative_reference_error(theta: Matrix, trial: Trial) -> float:
    """The same over |Theta*_rho|_F: the zero matrix has 1."""
    return reference_frobenius_error(theta, trial) / _frobenius(reference(trial))


SUBSPACE_DISTANCE: Final = Measure("subspace-distance", subspace_distance, "truth")
RELATIVE_OPERATOR_ERROR: Final = Measure("relative-operator-error", _relative(_spectral), "truth")
RELATIVE_REFERENCE_ERROR: Final = Measure("relative-reference-error", relative_reference_error, "reference")

#: Of a basis of a subspace. The support is that of the law itself: a sample has no zeros.
OF_A_SUBSPACE: Final = (
    SUBSPACE_DISTANCE,
    Measure("squared-subspace-distance", lambda w, trial: subspace_distance(w, trial) ** 2, "truth"),
    Measure("projector-distance", projector_distance, "truth"),
    Measure("row-support-error", row_support_error, "law"),
    Measure("least-row-norm", least_row_norm, "law"),
)

#: Of a symmetric matrix, beside the task's own.
OF_A_MATRIX: Final = (
    RELATIVE_OPERATOR_ERROR,
    Measure("operator-error", _absolute(_spectral), "truth"),
    Measure("frobenius-error", _absolute(_frobenius), "truth"),
    Measure("l1-operator-error", _absolute(_l1), "truth"),
    Measure("max-error", _absolute(_largest), "truth"),
    Measure("relative-frobenius-error", _relative(_frobenius), "truth"),
    Measure("relative-l1-operator-error", _relative(_l1), "truth"),
    Measure("matrix-support-error", matrix_support_error, "law"),
    Measure("reference-frobenius-error", reference_frobenius_error, "reference"),
)

GAUSSIAN_KL: Final = Measure("gaussian-kl", gaussian_kl, "truth")
