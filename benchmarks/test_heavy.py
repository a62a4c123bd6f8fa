"""Heavy-tailed algorithms against bare NumPy loops of the same steps, and against the comparators in error.

Both sides run in this process on one thread, in turn; assertions are on ratios of medians. The bare robust mean evaluates the closed form
as printed, unguarded, on the same numbers.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from dpspec.algorithms.heavy_tailed import _trimmed as trimmed
from dpspec.algorithms.heavy_tailed import dp_catoni_mean, dp_clipped_mean, dp_trimmed_mean, median_of_means
from dpspec.data.records import Records
from dpspec.privacy.calibrate import Budget
from tests.algorithms.heavy_tailed.test_dp_clipped_mean import LAWS, problem
from tests.algorithms.support import plan, study, tunables

N, D = 20_000, 3


def seconds(run: Callable[[], Any], times: int = 5) -> float:
    found = []
    for _ in range(times):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return statistics.median(found)


def plain_catoni(x: np.ndarray, s: float, beta: float) -> np.ndarray:
    """000 (3.68) to (3.77) in one expression."""
    a = x / s
    b = np.abs(a) / math.sqrt(beta)
    root = math.sqrt(2.0)
    low, high = (root - a) / b, (root + a) / b
    fl, fh, el, eh = ndtr(-low), ndtr(-high), np.exp(-(low**2) / 2), np.exp(-(high**2) / 2)
    pi = math.sqrt(2 * math.pi)
    c = 2 * root / 3 * (fl - fh) - (a - a**3 / 6) * (fl + fh) + b / pi * (1 - a**2 / 2) * (eh - el)
    c += a * b**2 / 2 * (fh + fl + (high * eh + low * el) / pi) + b**3 / (6 * pi) * ((2 + low**2) * el - (2 + high**2) * eh)
    return np.asarray(s * (a * (1 - b**2 / 2) - a**3 / 6 + c).mean(axis=0))


def plain_trimmed(x: np.ndarray, m: int, t: float, width: float) -> tuple[float, float]:
    """The definition of the smooth sensitivity, O(m^2)."""
    x = np.sort(x)
    n, best = len(x), width * math.exp(-m * t)
    for k in range(m):
        i = np.arange(k + 2)
        left, right = m - i, n - m + k - i
        ok = (left >= 0) & (right < n)
        if not ok.all():
            best = max(best, math.exp(-k * t) * width)
            continue
        best = max(best, math.exp(-k * t) * min(width, float((x[right] - x[left]).max()) / (n - 2 * m)))
    return float(x[m : n - m].mean()), best


def test_a_robust_mean_costs_no_more_than_the_printed_formula() -> None:
    x = LAWS["t(3)"][0](np.random.default_rng(0), (200_000, D))
    p = problem(len(x), D)
    t = tunables(dp_catoni_mean, p)
    c = plan(dp_catoni_mean, p, t, Budget(epsilon="1", delta="1e-6"))
    records = Records(x, None)
    ours = seconds(lambda: study(dp_catoni_mean, records, p, t, c))
    theirs = seconds(lambda: plain_catoni(x, t.s, t.beta))
    print(f"dp-catoni-mean {ours:.3f} s, the bare closed form {theirs:.3f} s")
    assert ours < 3 * theirs


def test_the_smooth_sensitivity_is_not_quadratic() -> None:
    x = LAWS["lognormal"][0](np.random.default_rng(0), N)
    ours = seconds(lambda: trimmed.released(x, 1000, 0.02, -2.0, 2.0))
    theirs = seconds(lambda: plain_trimmed(x, 1000, 0.02, 4.0), 3)
    f, bound = trimmed.released(x, 1000, 0.02, -2.0, 2.0)
    g, by_definition = plain_trimmed(x, 1000, 0.02, 4.0)
    assert f == pytest.approx(g, rel=1e-9)
    assert bound == pytest.approx(by_definition, rel=1e-6)
    print(f"smooth sensitivity {ours:.4f} s, by its definition {theirs:.4f} s")
    assert ours < theirs


@pytest.mark.parametrize("law", LAWS)
def test_errors_beside_the_comparators(law: str) -> None:
    """Mean l2 errors over 20 samples: the robust mean is below twice the clipped one, and none is worse than no answer."""
    draw, var = LAWS[law]
    budget = Budget(epsilon="1", delta="1e-6")
    p = problem(N, D, tau=var + 1)
    private = {m.CARD.id: (m, tunables(m, p)) for m in (dp_catoni_mean, dp_clipped_mean, dp_trimmed_mean)}
    plans = {name: plan(m, p, t, budget) for name, (m, t) in private.items()}
    g = np.random.default_rng(1)
    theta = np.full(D, 1 / math.sqrt(D))
    far: dict[str, list[float]] = {"mean": [], "median-of-means": [], "zero": [1.0], **{name: [] for name in private}}
    k = tunables(median_of_means, p)
    for seed in range(20):
        x = theta + draw(g, (N, D))
        records = Records(x, None)
        far["mean"].append(float(np.linalg.norm(x.mean(axis=0) - theta)))
        far["median-of-means"].append(float(np.linalg.norm(median_of_means.run(records, p, k, None).theta - theta)))
        for name, (m, t) in private.items():
            far[name].append(float(np.linalg.norm(study(m, records, p, t, plans[name], seed).theta - theta)))
    means = {name: float(np.mean(v)) for name, v in far.items()}
    print(law, {name: round(v, 4) for name, v in means.items()})
    assert means["dp-catoni-mean"] < 2 * means["dp-clipped-mean"]
    assert max(means[name] for name in private) < means["zero"]
