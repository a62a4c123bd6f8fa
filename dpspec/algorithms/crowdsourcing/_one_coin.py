"""EM for one-coin workers: worker i names the true label with probability q_i on every task, and each wrong one equally often.

    q_i = share of worker i's labels that are right by the posterior y, brought into [low, high];        (7.6), (7.10)
    y_jk proportional to exp(sum over workers who name k of log(q_i (K - 1)/(1 - q_i))).                 (7.7), (7.8)

Source: 000, section 7.1.3, for K = 2; K labels derived: the log likelihood of label k is that sum up to a constant of the task. The
answers are one 0/1 matrix a label, CSR, so a step costs the answers that there are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def named(codes: Any, classes: int) -> tuple[Any, ...]:
    """Who names label k, one (tasks, workers) matrix of zeros and ones a label; codes of no label are nobody's."""
    from scipy.sparse import csr_array

    return tuple(csr_array(codes == k, dtype=np.float64) for k in range(classes))


def start(matrices: tuple[Any, ...]) -> Vector:
    """Majority vote as posteriors, (tasks, K): 1 on the label most named, shared among equals."""
    counts = np.stack([np.asarray(m.sum(axis=1)).ravel() for m in matrices], axis=1)
    best = counts == counts.max(axis=1, keepdims=True)
    return np.asarray(best / best.sum(axis=1, keepdims=True))


def right(matrices: tuple[Any, ...], y: Vector) -> tuple[Vector, Vector]:
    """How many of each worker's labels are right by ``y``, and how many it has named."""
    hits = np.sum([m.T @ y[:, k] for k, m in enumerate(matrices)], axis=0)
    return np.asarray(hits), np.sum([np.asarray(m.sum(axis=0)).ravel() for m in matrices], axis=0)


def posterior(matrices: tuple[Any, ...], q: Vector) -> Vector:
    """(tasks, K); no number overflows, as only differences of the sums enter an exponential."""
    weights = np.log(q * (len(matrices) - 1) / (1 - q))
    sums = np.stack([m @ weights for m in matrices], axis=1)
    e = np.exp(sums - sums.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def em(matrices: tuple[Any, ...], low: float, high: float, rounds: int) -> tuple[Vector, Vector]:
    """Posteriors (tasks, K) and the share of each worker's labels that are right by them, unprojected (1/K of nothing)."""
    y = start(matrices)
    for _ in range(rounds):
        y = posterior(matrices, np.clip(shares(matrices, y), low, high))
    return y, shares(matrices, y)


def shares(matrices: tuple[Any, ...], y: Vector) -> Vector:
    hits, total = right(matrices, y)
    return np.where(total > 0, hits / np.maximum(total, 1.0), 1 / len(matrices))
