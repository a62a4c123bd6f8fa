"""What both sides of the accuracy benchmark share: the data, the objective, the protocol and the shape of a result.

Imports NumPy and SciPy only, so that the peers' environments can use it. Objective, on the training rows:

    F(w) = mean log(1 + exp(-y <w, x>)) + LAM/2 |w|^2 on R^d,   |x| = 1 (a constant column is part of x),   y in {-1, 1}.

Neighbours are data sets of the same size that differ in one record (replace-one); delta is DELTA where a method has one. The error of
a run is F(w) - min F. Measured runs have the seeds 0, 1, ..; tuning, where a method is tuned, has seeds from TUNING_SEEDS on.
"""

from __future__ import annotations

import csv
import datetime
import json
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0)
DELTA = 1e-6
LAM = 1e-3
TUNING_SEEDS = 1000

# public sizes of the domains of adult.csv, whose columns are integer codes from 0
_CATEGORICAL = {"workclass": 9, "marital-status": 7, "occupation": 15, "relationship": 6, "race": 5, "sex": 2, "native-country": 42}
_NUMERIC = {"age": 85, "fnlwgt": 100, "education-num": 16, "capital-gain": 100, "capital-loss": 100, "hours-per-week": 99}


def adult(folder: Path) -> tuple[Any, Any]:
    """One-hot categories, numbers in [0, 1], a constant: (39073, 93); the first 80 % of a seeded permutation of adult.csv."""
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
    """The 123 binary features of the LIBSVM file and a constant: (32561, 124), every row."""
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


class Problem:
    """One data set with its objective: ``x`` (n, d), ``y`` (n,), ``best`` = min F by L-BFGS-B on the data."""

    def __init__(self, name: str, x: Any, y: Any) -> None:
        self.name, self.x, self.y = name, x, y
        self.n, self.d = x.shape

        def value(w: Any) -> tuple[float, Any]:
            margin = y * (x @ w)
            slope = -(x.T @ (y * expit(-margin))) / self.n + LAM * w
            return float(np.logaddexp(0, -margin).mean() + LAM / 2 * (w @ w)), slope

        options = {"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-9}
        self.best = float(minimize(value, np.zeros(self.d), jac=True, method="L-BFGS-B", options=options).fun)

    def excess(self, w: Any) -> Any:
        """F(w) - min F; of each column where ``w`` is (d, k)."""
        w = np.asarray(w, dtype=float)
        margin = (self.x @ w).T * self.y
        return np.logaddexp(0, -margin).mean(axis=-1) + LAM / 2 * (w**2).sum(axis=0) - self.best


def problem(name: str, folder: Path) -> Problem:
    return Problem(name, *LOADERS[name](folder))


def row(p: Problem, method: str, epsilon: float, errors: Any, seconds: Any, **more: Any) -> dict[str, Any]:
    """One cell: ``errors`` and processor ``seconds`` of every measured run; ``excess_sd`` is the sample's (divisor runs - 1)."""
    errors = np.asarray(errors, dtype=float)
    return {
        "data": p.name,
        "method": method,
        "eps": epsilon,
        "n": p.n,
        "d": p.d,
        "runs": len(errors),
        "excess_mean": float(errors.mean()),
        "excess_sd": float(errors.std(ddof=1)) if len(errors) > 1 else None,
        "seconds": float(np.median(seconds)),
        **more,
        "excess": [float(f"{e:.6g}") for e in errors],
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": machine(),
    }


def machine() -> dict[str, Any]:
    """Processor, cores that this process may use, threads a BLAS may use, system."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [line.split(":", 1)[1].strip() for line in info.read_text(encoding="utf-8").splitlines() if line.startswith("model name")]
        name = models[0] if models else name
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"cpu": name, "cores": cores, "threads": os.environ.get("OMP_NUM_THREADS"), "system": platform.system()}


def versions(*packages: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {"python": sys.version.split()[0]}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


class Results:
    """A file of JSON lines, one a cell, that grows as cells are done; standard output if there is no path."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.cells = {key(r): r for r in read(path)} if path is not None and path.exists() else {}

    def has(self, data: str, method: str, epsilon: float) -> bool:
        return (data, method, float(epsilon)) in self.cells

    def get(self, data: str, method: str, epsilon: float) -> dict[str, Any]:
        return self.cells[data, method, float(epsilon)]

    def add(self, cell: dict[str, Any]) -> None:
        line = json.dumps(cell)
        if self.path is None:
            print(line, flush=True)
        else:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        self.cells[key(cell)] = cell


def key(cell: dict[str, Any]) -> tuple[str, str, float]:
    return cell["data"], cell["method"], float(cell["eps"])


def read(path: Path) -> list[dict[str, Any]]:
    """The cells of one file. A last line that a killed run left unfinished raises ``ValueError`` with its place."""
    cells = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            try:
                cells.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise ValueError(f"{path}, line {number}: not a JSON object ({error}); delete the line and run again") from error
    return cells
