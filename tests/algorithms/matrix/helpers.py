"""Problems of the matrix tasks by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpspec.algorithms.card import Problem
from dpspec.data.records import Records
from dpspec.privacy.calibrate import Budget, Calibrated
from dpspec.spec.model import Estimate
from tests.algorithms import support


def problem(what: Any, n: int, d: int, *, model: str = "central", neighbours: str = "replace-one", **facts: float) -> Problem:
    known: dict[str, float] = {"n": n, "d": d, "epsilon": 1.0, "delta": 1e-6}
    if model == "central":
        known["x_l2"] = 1.0
    known.update(facts)
    return Problem(model, neighbours, Estimate(what=what), {k: v for k, v in known.items() if v == v})


def one_run(module: Any, x: np.ndarray, p: Problem, budget: Budget | None = None, seed: int = 0, **options: Any) -> tuple[Any, Calibrated]:
    t = support.tunables(module, p, **options)
    c = support.plan(module, p, t, budget)
    return support.study(module, Records(x), p, t, c, seed), c


def ball(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Points of the unit l2 ball, not uniform: directions times a length in [0, 1]."""
    z = rng.standard_normal((n, d))
    return z / np.linalg.norm(z, axis=1, keepdims=True) * rng.random((n, 1))


def wishart(rng: np.random.Generator, degrees: int, d: int) -> np.ndarray:
    g = rng.standard_normal((d, degrees))
    return g @ g.T
