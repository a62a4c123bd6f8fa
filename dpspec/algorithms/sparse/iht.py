"""Iterative hard thresholding without privacy: the reference of the sparse algorithms.

theta <- Trunc(theta - eta*grad L(theta), kept) until the relative change is at most 1e-4, L the least-squares loss. Source: 000,
section 5.3.6 (citing [43], [161]), Lemma 5.3.3. Study mode only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpspec.algorithms.card import Bound, Card, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.sets import hard_threshold
from dpspec.privacy.schedule import Tree

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
    cost={"gradients": "n*T", "memory_bytes": "8*d*d"},
    role="reference",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    return None if p.task.form == "linear" else "the model is not linear"


def schedule(p: Problem, t: Tunables) -> Tree:
    raise ValueError("a reference draws no noise")


def run(records: Any, p: Problem, t: Tunables, release: Any) -> Estimate:
    """``release`` is not used. Steps 1/lambda_max of the second moments, which never raise the loss."""
    s, b = np.zeros((p.d, p.d)), np.zeros(p.d)
    for x, y in records.blocks():
        s += np.asarray(x.T @ x if isinstance(x, np.ndarray) else (x.T @ x).todense())
        b += x.T @ y
    s, b = s / records.n, b / records.n
    eta = 1 / max(float(np.linalg.eigvalsh(s)[-1]), 1e-300)
    theta = np.zeros(p.d)
    for _ in range(t.T):
        following = hard_threshold(theta - eta * (s @ theta - b), t.kept)
        change, size = float(np.linalg.norm(following - theta)), float(np.linalg.norm(following))
        theta = following
        if change <= t.tolerance * size:
            break
    return Estimate(theta)
