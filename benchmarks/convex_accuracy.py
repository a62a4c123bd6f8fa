"""Excess empirical risk of our algorithms on Adult and a9a: one JSON line a cell.

Objective: mean log(1 + exp(-y <w, x>)) + 0.001/2 |w|^2 on R^d, unit rows with a constant column, replace-one, delta 1e-6, the
training rows of the peers' benchmark. Usage: python benchmarks/convex_accuracy.py DATA_DIR ALGORITHM... [--runs N] [--data adult a9a]
where DATA_DIR holds adult.csv, a9a and a9a.t. An algorithm ``auto`` is what ``by auto`` chooses.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0)
LAM = 1e-3
_CATEGORICAL = {"workclass": 9, "marital-status": 7, "occupation": 15, "relationship": 6, "race": 5, "sex": 2, "native-country": 42}
_NUMERIC = {"age": 85, "fnlwgt": 100, "education-num": 16, "capital-gain": 100, "capital-loss": 100, "hours-per-week": 99}


def adult(folder: Path) -> tuple[Any, Any]:
    """One-hot categories, numbers in [0, 1], a constant: 93 columns; the first 80 % of a seeded permutation, as for the peers."""
    with (folder / "adult.csv").open(encoding="utf-8") as file:
        rows = csv.reader(file)
        header = next(rows)
        table = np.array([[int(v) for v in row] for row in rows])
    column = {name: table[:, j] for j, name in enumerate(header)}
    parts = [np.eye(k)[column[c]] for c, k in _CATEGORICAL.items()] + [(column[c] / (k - 1))[:, None] for c, k in _NUMERIC.items()]
    x = np.hstack([*parts, np.ones((len(table), 1))])
    keep = np.random.default_rng(0).permutation(len(x))[: int(0.8 * len(x))]
    return _unit(x[keep]), (2.0 * column["income>50K"] - 1)[keep]


def a9a(folder: Path) -> tuple[Any, Any]:
    x, y = [], []
    for line in (folder / "a9a").read_text(encoding="utf-8").splitlines():
        words = line.split()
        row = np.zeros(124)
        row[123] = 1.0
        for word in words[1:]:
            key, value = word.split(":")
            row[int(key) - 1] = float(value)
        x.append(row)
        y.append(1.0 if words[0] in ("+1", "1") else -1.0)
    return _unit(np.array(x)), np.array(y)


def _unit(x: Any) -> Any:
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)


LOADERS = {"adult": adult, "a9a": a9a}


def spec(n: int, d: int, epsilon: float, algorithm: str) -> str:
    return f"""analysis "benchmark"

data
  n = {n}, d = {d}
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {{-1, 1}} by map(0 -> -1, 1 -> 1)

privacy central
  epsilon = {epsilon}, delta = 0.000001

release weights
  minimise log(1 + exp(-y*<w, x>)) + 0.001/2*|w|^2
  by {algorithm}
"""


def cell(x: Any, y: Any, epsilon: float, algorithm: str, runs: int) -> dict[str, Any]:
    """Mean and median excess risk of seeded study runs, the optimum by scipy."""
    from scipy.optimize import minimize

    from dpspec.compiler.passes import compile_draft
    from dpspec.data.records import Records
    from dpspec.executor.bind import bound_problem
    from dpspec.lang.source import parse_text
    from dpspec.privacy.meter import Release
    from dpspec.privacy.noise import StudyNoise

    def risk(w: Any) -> float:
        return float(np.logaddexp(0, -y * (x @ w)).mean() + LAM / 2 * (w @ w))

    def slope(w: Any) -> Any:
        return -x.T @ (y / (1 + np.exp(y * (x @ w)))) / len(y) + LAM * w

    best = minimize(risk, np.zeros(x.shape[1]), jac=slope, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-9}).fun
    started = time.perf_counter()
    draft = compile_draft(parse_text(spec(len(x), x.shape[1], epsilon, algorithm), surface="dps"))
    planned = time.perf_counter() - started
    (release,) = draft.releases
    problem, records = bound_problem(draft, release), Records(x, y)
    errors, seconds = [], []
    for seed in range(runs):
        meter = Release(release.calibrated, StudyNoise(seed), mode="study")
        started = time.perf_counter()
        w = release.module.run(records, problem, release.tunables, meter).theta
        seconds.append(time.perf_counter() - started)
        meter.close()
        errors.append(risk(w) - best)
    return {
        "tool": f"dpspec {algorithm}",
        "chosen": release.module.CARD.id,
        "eps": epsilon,
        "n": len(x),
        "d": x.shape[1],
        "runs": runs,
        "excess_mean": float(np.mean(errors)),
        "excess_sd": float(np.std(errors)),
        "seconds": float(np.median(seconds)),
        "plan_seconds": planned,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("algorithms", nargs="+")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--data", nargs="+", default=["adult", "a9a"])
    parser.add_argument("--eps", nargs="+", type=float, default=list(EPSILONS))
    args = parser.parse_args()
    for name in args.data:
        x, y = LOADERS[name](args.folder)
        for algorithm in args.algorithms:
            for epsilon in args.eps:
                print(json.dumps({"data": name, **cell(x, y, epsilon, algorithm, args.runs)}), flush=True)


if __name__ == "__main__":
    main()
