"""Measures of error for covariances, precision matrices and subspaces, and their non-private references. Study mode only.

The truth is that of the records as the algorithm sees them (:mod:`dpspec.executor.enforced`): their covariance, their second moment
E x x^T, the inverse of that, its leading eigenvectors. On real data the non-private estimate of the same records stands in for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Matrix: TypeAlias = NDArray[np.float64]


def is_matrix(problem: Any) -> bool:
    """``estimate`` of a covariance, a precision matrix or a subspace."""
    return problem.task.kind == "estimate" and problem.task.what in DEFAULT


def _known(trial: Any, name: str) -> Matrix | None:
    value = getattr(trial.truth, name, None)
    return None if value is None else np.asarray(value, dtype=np.float64)


def _second_moment(trial: Any) -> Matrix | None:
    """E x x^T of the law."""
    covariance, mean = _known(trial, "covariance"), _known(trial, "mean")
    if covariance is None:
        return None
    return covariance if mean is None else covariance + np.outer(mean, mean)


def _reference(trial: Any) -> Matrix:
    if trial.reference is None:
        raise LookupError("the law's covariance is not known and there is no reference to measure against")
    return np.asarray(trial.reference, dtype=np.float64)


def _target(trial: Any) -> Matrix:
    """The true matrix of a covariance, second-moment or precision task."""
    moment = _second_moment(trial)
    if moment is None:
        return _reference(trial)
    what = trial.problem.task.what
    if what == "covariance":
        return np.asarray(_known(trial, "covariance"))
    return moment if what == "second-moment" else np.asarray(np.linalg.inv(moment), dtype=np.float64)


def estimand(trial: Any) -> Matrix:
    """The true value of the task, as an estimate."""
    task = trial.problem.task
    return _basis(trial, int(trial.problem.facts["rank"])) if task.what == "subspace" else _target(trial)


def unmet(problem: Any, law: Any, parts: tuple[Any, ...] = (), room: float = 0.0) -> tuple[str, ...]:
    """Declared constants of the second moment that the simulated law contradicts: eigenvalues that are larger, a gap that is smaller. A
    bound that takes them is not judged. ``parts``: of the sample that ``law`` was computed from, with ``room`` standard errors."""
    if getattr(law, "covariance", None) is None or getattr(law, "mean", None) is None or not {"eig_max", "gap"} & set(problem.facts):
        return ()

    def numbers(of: Any) -> tuple[float, float]:
        values = np.linalg.eigvalsh(of.covariance + np.outer(of.mean, of.mean))[::-1]
        k = int(problem.facts.get("rank", 0))
        return float(values[0]), float(values[k - 1] - values[k]) if 0 < k < len(values) else math.nan

    found, (top, gap) = [], numbers(law)
    spread = np.array([numbers(part) for part in parts])
    slack = room * spread.std(axis=0, ddof=1) / math.sqrt(len(parts)) if len(parts) > 1 else np.zeros(2)
    most, least = problem.facts.get("eig_max"), problem.facts.get("gap")
    if most is not None and top - slack[0] > float(most) * (1 + 1e-9):
        found.append(f"the largest eigenvalue of the second moment is {top:.4g}, and {float(most):.4g} is declared")
    if least is not None and problem.task.what == "subspace" and gap + slack[1] < float(least) * (1 - 1e-9):
        found.append(f"the gap of the second moment is {gap:.4g}, and {float(least):.4g} is declared")
    return tuple(found)


def _basis(trial: Any, k: int) -> Matrix:
    """The true principal subspace, (d, k) orthonormal."""
    known, mean = _known(trial, "subspace"), _known(trial, "mean")
    if known is not None and known.shape[1] == k and (mean is None or not mean.any()):  # of a covariance; a mean adds a direction
        return known
    moment = _second_moment(trial)
    return _reference(trial) if moment is None else np.linalg.eigh(moment)[1][:, ::-1][:, :k]


def _l1(a: Matrix) -> float:
    """The largest column sum: the l1 operator norm."""
    return float(np.abs(a).sum(axis=0).max())


def _spectral(a: Matrix) -> float:
    return float(np.abs(np.linalg.eigvalsh(a)).max()) if np.allclose(a, a.T) else float(np.linalg.norm(a, 2))


def _frobenius(a: Matrix) -> float:
    return float(np.linalg.norm(a))


def _largest(a: Matrix) -> float:
    return float(np.abs(a).max())


def _absolute(norm: Callable[[Matrix], float]) -> Callable[[Matrix, Any], float]:
    return lambda estimate, trial: norm(estimate - _target(trial))


def _relative(norm: Callable[[Matrix], float]) -> Callable[[Matrix, Any], float]:
    def measure(estimate: Matrix, trial: Any) -> float:
        truth = _target(trial)
        return norm(estimate - truth) / max(norm(truth), 1e-300)

    return measure


def subspace_distance(w: Matrix, trial: Any) -> float:
    """|sin Theta|_F = sqrt(k - |V^T W|_F^2), in [0, sqrt(min(k, d - k))]."""
    k = w.shape[1]
    return math.sqrt(max(0.0, k - float(np.linalg.norm(_basis(trial, k).T @ w)) ** 2))


def projector_distance(w: Matrix, trial: Any) -> float:
    """|V V^T - W W^T|_F = sqrt(2)*|sin Theta|_F."""
    return math.sqrt(2.0) * subspace_distance(w, trial)


def row_support_error(w: Matrix, trial: Any) -> float:
    """1 - F1 of the non-zero rows of a subspace's basis."""
    truth = np.linalg.norm(_basis(trial, w.shape[1]), axis=1) > 1e-8
    return _f1_error(np.linalg.norm(w, axis=1) > 1e-8, truth)


def matrix_support_error(estimate: Matrix, trial: Any) -> float:
    """1 - F1 of the non-zero off-diagonal entries; entries of the truth below 1e-10 of its largest count as zero."""
    truth = _target(trial)
    off = ~np.eye(len(truth), dtype=bool)
    return _f1_error(estimate[off] != 0, np.abs(truth[off]) > 1e-10 * np.abs(truth).max())


def _f1_error(found: NDArray[np.bool_], truth: NDArray[np.bool_]) -> float:
    both = int(np.count_nonzero(found & truth))
    total = int(found.sum()) + int(truth.sum())
    return 1.0 - 2 * both / total if total else 0.0


def gaussian_kl(theta: Matrix, trial: Any) -> float:
    """KL(N(0, Sigma) || N(0, Theta^-1)) = (tr(Theta Sigma) - d - log det(Theta Sigma))/2; infinite for a Theta that is not positive."""
    known = _second_moment(trial)
    moment = np.asarray(np.linalg.inv(_reference(trial)) if known is None else known, dtype=np.float64)
    sign, log = np.linalg.slogdet(theta)
    if sign <= 0:
        return math.inf
    return float((theta * moment).sum() - len(theta) - log - np.linalg.slogdet(moment)[1]) / 2


def reference_frobenius_error(theta: Matrix, trial: Any) -> float:
    """|Theta^ - Theta*_rho|_F against the non-private graphical lasso of the same records."""
    return _frobenius(theta - _reference(trial))


def relative_reference_error(theta: Matrix, trial: Any) -> float:
    """The same over |Theta*_rho|_F: the zero matrix has 1."""
    return reference_frobenius_error(theta, trial) / _frobenius(_reference(trial))


#: Measures of which non-zeros are found. The support is that of the law itself: a sample has no zeros.
SUPPORTS: Final = ("row-support-error", "matrix-support-error")
#: Measures that compare with the reference, so that the reference always has to be computed.
AGAINST_REFERENCE: Final = ("reference-frobenius-error", "relative-reference-error")

MEASURES: Final[Mapping[str, Callable[[Matrix, Any], float]]] = {
    "subspace-distance": subspace_distance,
    "squared-subspace-distance": lambda w, trial: subspace_distance(w, trial) ** 2,
    "projector-distance": projector_distance,
    "row-support-error": row_support_error,
    "operator-error": _absolute(_spectral),
    "frobenius-error": _absolute(_frobenius),
    "l1-operator-error": _absolute(_l1),
    "max-error": _absolute(_largest),
    "relative-operator-error": _relative(_spectral),
    "relative-frobenius-error": _relative(_frobenius),
    "relative-l1-operator-error": _relative(_l1),
    "matrix-support-error": matrix_support_error,
    "gaussian-kl": gaussian_kl,
    "reference-frobenius-error": reference_frobenius_error,
    "relative-reference-error": relative_reference_error,
}

#: A task's own measure, where neither its target nor a bound names one.
DEFAULT: Final[Mapping[str, str]] = {
    "subspace": "subspace-distance",
    "covariance": "relative-operator-error",
    "second-moment": "relative-operator-error",
    "precision": "relative-reference-error",
}


def estimate_reference(records: Any, problem: Any, tunables: Any, *, known: bool, measure: str) -> tuple[Matrix | None, None]:
    """The non-private estimate: eigenvectors, second moment, covariance or graphical lasso, with the algorithm's own clip radius, rank and
    penalty.

    ``known``: the law tells the truth. Then the reference is only shown beside the errors, and it is left out where the records do not
    fit their memory limit and would have to be drawn once more. Second value: these tasks have no objective.
    """
    from dpspec.algorithms.matrix._lasso import graphical_lasso
    from dpspec.algorithms.matrix._moment import leading, mean_of, second_moment
    from dpspec.data.records import CACHE_BYTES

    if known and measure not in AGAINST_REFERENCE and 8 * records.n * (records.d + 1) > CACHE_BYTES:
        return None, None
    moment = second_moment(records, float(tunables.get("r", math.inf)))
    match problem.task.what:
        case "subspace":
            return leading(moment, int(problem.facts["rank"]))[1], None
        case "precision":
            return graphical_lasso(moment, float(tunables.get("penalty", 0.01))).theta, None
        case "covariance":
            mean = mean_of(records, float(tunables.get("r", math.inf)))
            return moment - np.outer(mean, mean), None
        case _:
            return moment, None
