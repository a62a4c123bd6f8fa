"""Excess empirical risk of peers on Adult and a9a, at the settings of benchmarks/convex_accuracy.py. Runs in the environment of setup.sh.

diffprivlib's LogisticRegression (pure epsilon), and a plain NumPy DP-GD whose steps are tuned on the private data free of
charge. Usage: VENV/bin/python benchmarks/peers/logistic.py DATA_DIR [--runs 20]; one JSON line a cell.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import sys
import warnings
from pathlib import Path

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import expit
from scipy.stats import norm

_HERE = Path(__file__).resolve()
_SPEC = importlib.util.spec_from_file_location("convex_accuracy", _HERE.parents[1] / "convex_accuracy.py")
assert _SPEC is not None
assert _SPEC.loader is not None
ours = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(ours)


def risk(w, x, y):
    return float(np.logaddexp(0, -y * (x @ w)).mean() + ours.LAM / 2 * (w @ w))


def gradient(w, x, y):
    return -x.T @ (y * expit(-y * (x @ w))) / len(y)


def gaussian_mu(epsilon, delta):
    return brentq(lambda m: norm.cdf(m / 2 - epsilon / m) - math.exp(epsilon) * norm.cdf(-m / 2 - epsilon / m) - delta, 1e-6, 50)


def dp_gd(x, y, epsilon, steps, eta, rng):
    sigma = 2 / len(y) * math.sqrt(steps) / gaussian_mu(epsilon, 1e-6)
    w = np.zeros(x.shape[1])
    for _ in range(steps):
        w = w - eta * (gradient(w, x, y) + ours.LAM * w + sigma * rng.standard_normal(len(w)))
    return w


def diffprivlib(x, y, epsilon, seed):
    from diffprivlib.models import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression(
            epsilon=epsilon, data_norm=1.0, C=1 / (ours.LAM * len(y)), fit_intercept=False, max_iter=1000, random_state=seed
        )
        return model.fit(x, y).coef_[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=20)
    args = parser.parse_args()
    for name, load in ours.LOADERS.items():
        x, y = load(args.folder)
        zero = np.zeros(x.shape[1])
        slope = lambda w, x=x, y=y: gradient(w, x, y) + ours.LAM * w  # noqa: E731
        best = minimize(
            risk, zero, args=(x, y), jac=lambda w, *_, s=slope: s(w), method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-9}
        ).fun
        for epsilon in ours.EPSILONS:
            grid = {
                (t, eta): [dp_gd(x, y, epsilon, t, eta, np.random.default_rng(100 + s)) for s in range(2)]
                for t in (25, 50, 100, 200)
                for eta in (1, 2, 4, 8)
            }
            steps, eta = min(grid, key=lambda k: np.mean([risk(w, x, y) for w in grid[k]]))
            for tool, fit in (
                ("numpy DP-GD, tuned", lambda s, x=x, y=y, e=epsilon, t=steps, h=eta: dp_gd(x, y, e, t, h, np.random.default_rng(s))),
                ("diffprivlib", lambda s, x=x, y=y, e=epsilon: diffprivlib(x, y, e, s)),
            ):
                errors = [risk(fit(s), x, y) - best for s in range(args.runs)]
                print(json.dumps({"data": name, "tool": tool, "eps": epsilon, "excess_mean": float(np.mean(errors))}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
