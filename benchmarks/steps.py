"""The constants in dp-gd's defaults and in the ranking of ``by auto``, on synthetic problems only: no real data set is looked at.

    python -m benchmarks.steps [--runs 3] [--n 20000] [--quick]

Logistic regression with unit records as in benchmarks/convex_data.py: d in {20, 100}; features one-hot-like, Gaussian with a
decaying spectrum, or that rotated; margins of standard deviation 1 (noisy labels) or 3 (nearly separable); epsilon 0.1, 0.5, 2. For each
problem the excess risk of dp-gd with ``reach`` 1, 2, 4 and 8 times L/B and of objective-perturbation is printed, over the least of the
row; at the end the geometric means and the largest ratios, and those of what ``by auto`` chooses.
"""

from __future__ import annotations

import argparse
import itertools
from typing import Any

import numpy as np

from benchmarks.convex_accuracy import measured
from benchmarks.convex_data import Problem

#: L/B = 4 for the logistic loss on unit records.
METHODS = {f"reach {k} L/B": f"dp-gd with reach = {4 * k}" for k in (1, 2, 4, 8)}
METHODS |= {"objective": "objective-perturbation", "auto": "auto"}
COMPARED = [m for m in METHODS if m != "auto"]


def problem(seed: int, n: int, d: int, kind: str, decay: float, margin: float) -> Problem:
    rng = np.random.default_rng(seed)
    scale = np.arange(1, d + 1) ** (-decay / 2)
    if kind == "one-hot":
        x = (rng.random((n, d)) < np.minimum(0.9, 2 * scale**2 + 0.002)) * 1.0
        x[:, -1] = 1.0
    else:
        x = rng.standard_normal((n, d)) * scale
    if kind == "rotated":
        x = x @ np.linalg.qr(rng.standard_normal((d, d)))[0]
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    u = x @ rng.standard_normal(d)
    u = (u - u.mean()) * (margin / u.std())
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-u)), 1.0, -1.0)
    return Problem(f"{kind}, d {d}, decay {decay}, margin {margin:g}", x, y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--n", type=int, default=20_000)
    parser.add_argument("--quick", action="store_true", help="d = 20 alone")
    args = parser.parse_args()
    ratios: dict[str, list[float]] = {m: [] for m in METHODS}
    family = itertools.product([20] if args.quick else [20, 100], ["one-hot", "gauss", "rotated"], [0.5, 1.5], [1.0, 3.0])
    print(" ".join(f"{m:>12}" for m in METHODS))
    for seed, (d, kind, decay, margin) in enumerate(family):
        p = problem(seed, args.n, d, kind, decay, margin)
        for epsilon in (0.1, 0.5, 2.0):
            cells: dict[str, Any] = {m: measured(p, m, epsilon, algorithm, args.runs) for m, algorithm in METHODS.items()}
            errors = {m: cell["excess_mean"] for m, cell in cells.items()}
            least = min(errors[m] for m in COMPARED)
            for m in METHODS:
                ratios[m].append(errors[m] / least)
            row = " ".join(f"{errors[m] / least:12.2f}" for m in METHODS)
            print(f"{row}  {p.name}, epsilon {epsilon:g}: {least:.2e}, auto chose {cells['auto']['chosen']}", flush=True)
    print(" ".join(f"{np.exp(np.mean(np.log(r))):12.2f}" for r in ratios.values()), " geometric mean")
    print(" ".join(f"{max(r):12.2f}" for r in ratios.values()), " largest")


if __name__ == "__main__":
    main()
