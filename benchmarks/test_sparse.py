"""Sparse algorithms against plain NumPy loops of the same steps, and against themselves in the number of non-zeros.

Both sides run in this process on one thread, in turn; the assertions are on ratios of medians. The plain loops draw the same kind and
amount of noise from NumPy's generator and know nothing of plans, meters or blocks.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable

import numpy as np
import pytest
from scipy.sparse import csr_array

from dpspec.algorithms.sparse import dp_iht, dp_iht_subgaussian, dp_iht_truncated, label_ldp_iht
from dpspec.data.records import Records
from dpspec.privacy.calibrate import Budget, calibrate
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import StudyNoise
from dpspec.spec.expr import Num
from dpspec.spec.model import Sparse
from tests.algorithms.support import logistic, minimise, sparse_regression, tunables

N, D, T, KEPT = 10_000, 1_000, 8, 10
BUDGET = Budget(epsilon="1", delta="0.000001")


def top(v: np.ndarray, kept: int) -> np.ndarray:
    out = np.zeros_like(v)
    keep = np.argpartition(np.abs(v), v.size - kept)[v.size - kept :]
    out[keep] = v[keep]
    return out


def unit(v: np.ndarray) -> np.ndarray:
    return v * min(1.0, 1.0 / max(float(np.linalg.norm(v)), 1e-300))


def peel(g: np.random.Generator, v: np.ndarray, kept: int, b: float) -> np.ndarray:
    out, left = np.zeros_like(v), np.abs(v)
    for _ in range(kept):
        j = int(np.argmax(left + g.gumbel(scale=b, size=v.size)))
        out[j], left[j] = v[j] + g.laplace(scale=b), -np.inf
    return out


def plain_label(x: np.ndarray, y: np.ndarray, scale: float, g: np.random.Generator) -> np.ndarray:
    z, theta = np.clip(y, -5, 5) + scale * g.standard_normal(len(y)), np.zeros(D)
    for _ in range(T):
        theta = unit(top(theta - x.T @ (x @ theta - z) / len(y), KEPT))
    return theta


def plain_dp_iht(x: np.ndarray, y: np.ndarray, scale: float, g: np.random.Generator) -> np.ndarray:
    w, norms = np.zeros(D), np.linalg.norm(x, axis=1)
    for _ in range(T):
        slope = -y / (1 + np.exp(y * (x @ w)))
        slope = np.clip(slope, -1 / norms, 1 / norms)
        w = top(w - 2 * (x.T @ slope / len(y) + scale * g.standard_normal(D)), KEPT)
    return w


def plain_subgaussian(x: np.ndarray, y: np.ndarray, scale: float, g: np.random.Generator) -> np.ndarray:
    w = np.zeros(D)
    for _ in range(T):
        c = np.clip(x, -4, 4)
        w = unit(peel(g, w - 0.7 * c.T @ (c @ w - np.clip(y, -5, 5)) / len(y), KEPT, scale))
    return w


def plain_truncated(x: np.ndarray, y: np.ndarray, scale: float, g: np.random.Generator) -> np.ndarray:
    w, m = np.zeros(D), len(y) // T
    for i in range(T):
        c, z = np.clip(x[i * m : (i + 1) * m], -3, 3), np.clip(y[i * m : (i + 1) * m], -3, 3)
        w = unit(peel(g, w - 0.6 * c.T @ (c @ w - z) / m, KEPT, scale))
    return w


def setup(name: str):
    p = sparse_regression(N, D, modifiers=("labels-only",) if name == "label" else ())
    if name == "label":
        return label_ldp_iht, p, tunables(label_ldp_iht, p, T=T, kept=KEPT, y_clip=5), plain_label
    if name == "dp-iht":
        p = minimise(N, D, logistic(), over=Sparse(k=Num(KEPT)), facts={"k": KEPT})
        return dp_iht, p, tunables(dp_iht, p, T=T, eta=2, G=1), plain_dp_iht
    if name == "subgaussian":
        return dp_iht_subgaussian, p, tunables(dp_iht_subgaussian, p, T=T, kept=KEPT, K_x=4, K_y=5), plain_subgaussian
    return dp_iht_truncated, p, tunables(dp_iht_truncated, p, T=T, kept=KEPT, K=3), plain_truncated


def seconds(f: Callable[[], object]) -> float:
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


@pytest.mark.parametrize("name", ["label", "dp-iht", "subgaussian", "truncated"])
def test_a_fit_against_a_plain_loop(name: str) -> None:
    module, p, t, plain = setup(name)
    g = np.random.default_rng(0)
    x = g.normal(size=(N, D))
    y = np.where(x[:, 0] > 0, 1.0, -1.0)
    records, calibrated = Records(x, y), calibrate(module.schedule(p, t), BUDGET)
    scale = max(calibrated.scale(n) for n in calibrated.levels)

    def ours() -> object:
        return module.run(records, p, t, Release(calibrated, StudyNoise(1), mode="study"))

    def theirs() -> object:
        return plain(x, y, scale, np.random.default_rng(1))

    ours(), theirs()
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(7)]
    mine, other = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"\n{name}: {1e3 * mine:.0f} ms a fit, plain loop {1e3 * other:.0f} ms, ratio {mine / other:.2f}")
    assert mine / other <= 1.3


def wide(n: int, d: int, each: int) -> csr_array:
    g = np.random.default_rng(1)
    columns = g.integers(0, d // each, (n, each)) + (d // each) * np.arange(each)
    return csr_array((g.normal(size=n * each), columns.reshape(-1), each * np.arange(n + 1)), shape=(n, d))


@pytest.mark.parametrize("name", ["label", "dp-iht", "truncated"])
def test_time_is_linear_in_the_non_zeros(name: str) -> None:
    """d = 20,000 fixed, n = 20,000; 20, 40, 80 and 160 non-zeros a row: the exponent of the time beyond the part that d costs anyway."""
    n, d = 20_000, 20_000
    times, sizes = [], (0, 40, 80, 160, 320)
    for each in sizes:
        if name == "dp-iht":
            p = minimise(n, d, logistic(), over=Sparse(k=Num(2)), facts={"k": 2})
            module, t = dp_iht, tunables(dp_iht, p, T=T, eta=2, G=1)
        elif name == "label":
            p = sparse_regression(n, d, modifiers=("labels-only",))
            module, t = label_ldp_iht, tunables(label_ldp_iht, p, T=T, kept=4, y_clip=5)
        else:
            p = sparse_regression(n, d, model="central")
            module, t = dp_iht_truncated, tunables(dp_iht_truncated, p, T=T, kept=2, K=3)
        x = wide(n, d, each) if each else csr_array((n, d))
        records, calibrated = Records(x, np.where(np.arange(n) % 2 == 0, 1.0, -1.0)), calibrate(module.schedule(p, t), BUDGET)

        def fit(module=module, records=records, p=p, t=t, calibrated=calibrated) -> object:
            return module.run(records, p, t, Release(calibrated, StudyNoise(1), mode="study"))

        fit()
        times.append(min(seconds(fit) for _ in range(4)))
    rest = np.array(times[1:]) - times[0]
    exponent = float(np.polyfit(np.log(sizes[1:]), np.log(np.maximum(rest, 1e-9)), 1)[0])
    print(f"\n{name}: {', '.join(f'{1e3 * v:.0f}' for v in times)} ms at {sizes} non-zeros a row, exponent {exponent:.2f}")
    assert math.isfinite(exponent)
    assert exponent <= 1.25
