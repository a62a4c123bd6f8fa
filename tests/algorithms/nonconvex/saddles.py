"""Problems of the tests of second-order methods: plans, records with a saddle point at 0, replayed releases."""

from __future__ import annotations

import math
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.executor.bind import bound_problem
from dpspec.lang.source import parse_text
from dpspec.privacy.noise import PublicRandomness
from tests.algorithms.nonconvex.test_dp_pgd_nonconvex import SPEC

ROBUST = "biweight(1/2)"
CLIPPED = "[-1, 1] by clip"


def planned(module: ModuleType, loss: str = ROBUST, y: str = CLIPPED, options: str = "", **more: Any) -> tuple[Any, Any, Any]:
    """Problem, tunables and calibrated plan of the module on a spec."""
    known = {"n": 20_000, "d": 2, "over": "R^d", "neighbours": "replace-one", "epsilon": "1", "delta": "1e-6", **more}
    text = SPEC.format(loss=loss, y=y, options=f" with {options}" if options else "", **known)
    draft = compile_draft(parse_text(text.replace("by dp-pgd-nonconvex", f"by {module.CARD.id}"), surface="dps"))
    release = draft.releases[0]
    assert release.module is module, [e.message for e in draft.diagnostics]
    return bound_problem(draft, release), release.tunables, draft.calibrated or release.calibrated


def mixed(n: int, d: int = 2, seed: int = 0) -> Records:
    """Half of the records have x = e_1 and y = +-3/8 in turn, the others a direction orthogonal to it and y = 0: by symmetry w = 0 is a
    stationary point of any even loss of the residual, and a saddle point of biweight(1/2): phi''(3/8) is -0.8, phi''(0) = 1."""
    rng = np.random.default_rng(seed)
    x = np.zeros((n, d))
    x[: n // 2, 0] = 1.0
    side = rng.normal(size=(n - n // 2, d - 1))
    x[n // 2 :, 1:] = side / np.linalg.norm(side, axis=1, keepdims=True)
    y = np.zeros(n)
    y[: n // 2 : 2], y[1 : n // 2 : 2] = 0.375, -0.375
    return Records(x, y)


def still(seed: int = 0) -> Any:
    """A release without noise that keeps what it is given."""
    seen: list[tuple[str, np.ndarray]] = []

    def draw(name: str, value: Any, *, sensitivity: float) -> Any:
        seen.append((name, np.array(value)))
        return int(np.argmax(value)) if name == "iterate" else value

    everyone = SimpleNamespace(public=PublicRandomness(seed), scale=lambda name: 0.0, draw=draw, seen=seen)
    everyone.batch = lambda name, n: np.arange(n)
    return everyone


def answered(answers: list[Any], seed: int = 0) -> Any:
    """A release that gives these answers whatever it is asked."""
    left = iter(answers)
    release = still(seed)
    release.draw = lambda name, value, *, sensitivity: next(left)
    return release


def trial(p: Any, r: Records) -> Any:
    return SimpleNamespace(problem=p, records=r)


def spent_by(sensitivities: list[float], scales: list[float], delta: float) -> float:
    """The epsilon of Gaussian draws together, by SciPy."""
    from tests.algorithms.nonconvex.test_dp_pgd_nonconvex import spent

    mu = math.sqrt(sum((a / b) ** 2 for a, b in zip(sensitivities, scales, strict=True)))
    return spent(1 / mu, delta)
