"""Latent variables and crowds: a round of EM at n = 1e6, d = 20, K = 2 beside bare NumPy, and a crowd's inference at a million answers.

The peers of the clipped rounds compute the same sums block by block on the same thread, without a proof of their rounding. A robust round
is measured against three: the gradients summed without truncation, block by block (``plain``) and as one line of NumPy over the whole array
(``line``), and one erf and one exponential of every entry (``pass``), below which no closed form of the kernel can be, which has two each.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpspec.algorithms.card import Tunables
from dpspec.algorithms.em import _clusters as clusters
from dpspec.algorithms.em import _steps as steps
from dpspec.algorithms.em import dp_gradient_em_clipped as clipped
from dpspec.compiler.plan import make_plan
from dpspec.data.records import Records
from dpspec.executor.run import run
from dpspec.lang.source import parse_text
from dpspec.tasks.latent import Mixture

N, D, SIGMA, ROWS = 1_000_000, 20, 0.5, 2048
BETA = np.full(D, 1.5 / np.sqrt(D))
CLIP = SIGMA * np.sqrt(D)


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    g = np.random.default_rng(0)
    return g.standard_normal((N, D)) * SIGMA + (g.integers(0, 2, N) * 2.0 - 1)[:, None] * BETA


def bare_gradient(x: np.ndarray) -> Any:
    total = np.zeros(D)
    for i in range(0, N, ROWS):
        block = x[i : i + ROWS]
        q = np.tanh(block @ BETA / SIGMA**2)[:, None] * block - BETA
        q *= np.minimum(1.0, CLIP / np.sqrt(np.einsum("ij,ij->i", q, q)))[:, None]
        total += q.sum(axis=0)
    return total / N


def plain_gradient(x: np.ndarray) -> Any:
    total = np.zeros(D)
    for i in range(0, N, ROWS):
        block = x[i : i + ROWS]
        total += (np.tanh(block @ BETA / SIGMA**2)[:, None] * block - BETA).sum(axis=0)
    return total / N


def one_pass(x: np.ndarray) -> float:
    from scipy.special import erf

    return sum(float(erf(x[i : i + ROWS]).sum() + np.exp(x[i : i + ROWS]).sum()) for i in range(0, N, ROWS))


def bare_statistics(x: np.ndarray, q: clusters.Parameters, clip: float) -> np.ndarray:
    weights, means, spreads = np.zeros(2), np.zeros((2, D)), np.zeros(2)
    for i in range(0, N, ROWS):
        apart = [x[i : i + ROWS] - m for m in q.means]
        squares = np.stack([np.einsum("ij,ij->i", u, u) for u in apart], axis=1)
        logs = np.log(q.weights) - squares / (2 * q.variances.T) - D / 2 * np.log(q.variances.T)
        shares = np.exp(logs - logs.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        factor = np.minimum(1.0, clip / np.sqrt(squares))
        weights += shares.sum(axis=0)
        for k in range(2):
            means[k] += (shares[:, k] * factor[:, k]) @ apart[k]
        spreads += (shares * factor**2 * squares).sum(axis=0)
    return np.concatenate([weights, means.ravel(), spreads])


def faster(one: Callable[[], Any], other: Callable[[], Any], rounds: int = 5) -> float:
    """The least time of ``one`` over that of ``other``, taken in turn."""
    least = [np.inf, np.inf]
    for _ in range(rounds):
        for i, f in enumerate((one, other)):
            start = time.perf_counter()
            f()
            least[i] = min(least[i], time.perf_counter() - start)
    return least[0] / least[1]


def test_a_round_of_clipped_gradient_em(benchmark: Any, x: np.ndarray) -> None:
    records, model, t = Records(x), Mixture(SIGMA), Tunables({"G": CLIP})
    np.testing.assert_allclose(clipped.clipped_gradient(records, model, t, BETA, N), bare_gradient(x), atol=1e-12)
    benchmark.pedantic(lambda: clipped.clipped_gradient(records, model, t, BETA, N), rounds=3)
    ratio = faster(lambda: clipped.clipped_gradient(records, model, t, BETA, N), lambda: bare_gradient(x))
    print(f"\nclipped gradient EM, a round: {ratio:.2f} of bare NumPy")
    assert ratio <= 1.5


def test_a_round_of_robust_gradient_em(benchmark: Any, x: np.ndarray) -> None:
    records, model, t = Records(x), Mixture(SIGMA), Tunables({"s": 2 * SIGMA, "b": 5.5})

    def ours() -> Any:
        return steps.robust_gradient(records, model, t, BETA, N)

    np.testing.assert_allclose(ours(), plain_gradient(x), atol=0.05)
    benchmark.pedantic(ours, rounds=3)
    line = faster(ours, lambda: (np.tanh(x @ BETA / SIGMA**2)[:, None] * x - BETA).mean(axis=0), 3)
    ratios = {"plain": faster(ours, lambda: plain_gradient(x), 3), "line": line, "pass": faster(ours, lambda: one_pass(x), 3)}
    print("\nrobust gradient EM, a round: " + ", ".join(f"{v:.2f} of {k}" for k, v in ratios.items()))
    assert ratios["line"] <= 1.5
    assert ratios["pass"] <= 1.5


def test_a_round_of_em_for_two_components(benchmark: Any, x: np.ndarray) -> None:
    records, model, clip = Records(x), clusters.Clusters(2, D, False), SIGMA * (np.sqrt(D) + 2)
    q = clusters.Parameters(np.array([0.5, 0.5]), np.stack([BETA, -BETA]), np.full((2, 1), SIGMA**2))

    def ours() -> tuple[Any, ...]:
        return clusters.statistics(records, model, q, clip, 1e6, clip)

    np.testing.assert_allclose(np.concatenate([np.ravel(v) for v in ours()]), bare_statistics(x, q, clip), rtol=1e-9)
    benchmark.pedantic(ours, rounds=3)
    ratio = faster(ours, lambda: bare_statistics(x, q, clip))
    print(f"\nEM for two components, a round: {ratio:.2f} of bare NumPy")
    assert ratio <= 1.5


CROWD = """
analysis "a million answers"
data
  n = {n}, d = {d}
  from memory
  private, unit worker, neighbours replace-one
  x in {{-1, 0, 1}} by map(0 -> 0, -1 -> -1, 1 -> 1)
privacy nldp, attribute
  epsilon = 1
release labels
  infer truth from labels
  by {algorithm}
"""


@pytest.mark.parametrize("algorithm", ["private-majority-voting", "private-dawid-skene"])
def test_a_crowd_of_a_million_answers(benchmark: Any, algorithm: str) -> None:
    """1,000 workers and 1,000 tasks from a sparse matrix; every cell is reported, as no answer is protected, too. A release: secure noise,
    report by report."""
    from scipy.sparse import csr_array

    g = np.random.default_rng(0)
    truth = g.integers(0, 2, 1000) * 2 - 1
    answers = np.where(g.random((1000, 1000)) < 0.7, truth, -truth) * (g.random((1000, 1000)) < 0.9)
    plan = make_plan(parse_text(CROWD.format(n=1000, d=1000, algorithm=algorithm), surface="dps"))
    found = benchmark.pedantic(lambda: run(plan, csr_array(answers.astype(float))), rounds=2)
    assert np.mean(found.outputs["labels"]["labels"] == truth) > 0.95
