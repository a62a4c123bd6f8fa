"""Iterative hard thresholding without privacy: the reference of the sparse algorithms.

theta <- Trunc(theta - eta*grad L(theta), kept) until the relative change is at most 1e-4, L the least-squares loss. Source: 000,
section 5.3.6 (citing [43], [161]), Lemma 5.3.3. Study mode only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from dpspec.algorithms.card import Bound, Card, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.sets import Vector, hard_threshold
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Tree

#: Largest dimension at which the second moments are kept as a matrix (32 MB).
DENSE: Final = 2048

CARD = Card(
    id="iht",
    title="Iterative hard thresholding (not private)",
    family="sparse",
    task="estimate-theta",
    models=("central", "nldp", "sldp"),
    guarantees=(),
    sources=(Source("000", "5.3.6", "iterative hard thresholding", ("Lemma 5.3.3",)),),
    summary="Gradient steps on least squares, each followed by keeping the largest entries.",
    needs=(Need("sparse", "utility", "theta has at most k non-zeros"),),
    tunables={
        "kept": Tunable("min(d, 2*k)", "at least k; more entries contract faster", integer=True, minimum=1),
        "T": Tunable("1000", "most steps", integer=True, minimum=1),
        "tolerance": Tunable("1/10^4", "000, section 5.3.6", minimum=0.0),
    },
    bounds=(Bound("l2-error", "order", "upper", "C*noise_bound*sqrt(k*log(d/k)/n)", "claimed", "000 section 5.3.1 [244], minimax"),),
    cost={"gradients": "n*T", "memory_bytes": "8*min(d*d, 2048^2)"},
    role="reference",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    return None if p.task.form == "linear" else "the model is not linear"


def schedule(p: Problem, t: Tunables) -> Tree:
    raise ValueError("a reference draws no noise")


def run(records: Rows, p: Problem, t: Tunables, release: Door | None) -> Estimate:
    """``release`` is not used. Steps 1/lambda_max of the second moments, which never raise the loss. The (d, d) matrix is kept up to
    :data:`DENSE` coordinates; beyond, each step reads the records."""
    b = np.zeros(p.d)
    for x, y in records.blocks():
        b += x.T @ y
    b /= records.n
    times, largest = _moments(records, p.d)
    eta = 1 / max(largest, 1e-300)
    theta = np.zeros(p.d)
    for _ in range(t.T):
        following = hard_threshold(theta - eta * (times(theta) - b), t.kept)
        change, size = float(np.linalg.norm(following - theta)), float(np.linalg.norm(following))
        theta = following
        if change <= t.tolerance * size:
            break
    return Estimate(theta)


def _moments(records: Any, d: int) -> tuple[Callable[[Vector], Vector], float]:
    """v -> S v for the second moments S = (1/n) sum x x^T, and the largest eigenvalue of S (from above up to 1e-6 where it is iterated)."""
    if d <= DENSE:
        s = np.zeros((d, d))
        for x, _ in records.blocks():
            s += np.asarray(x.T @ x if isinstance(x, np.ndarray) else (x.T @ x).todense())
        s /= records.n
        return (lambda v: np.asarray(s @ v)), float(np.linalg.eigvalsh(s)[-1])
    from scipy.sparse.linalg import LinearOperator, eigsh

    def times(v: Vector) -> Vector:
        total = np.zeros(d)
        for x, _ in records.blocks():
            total += x.T @ np.asarray(x @ np.ravel(v))
        total /= records.n
        return total

    top = eigsh(LinearOperator((d, d), matvec=times, dtype=np.float64), k=1, tol=1e-7, v0=np.ones(d), return_eigenvectors=False)
    return times, float(top[0]) * (1 + 1e-6)
