"""Building blocks for the tests of algorithms: problems by hand, tunables as the compiler resolves them, a release without noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from dpspec.algorithms.card import Loss, Problem, Tunables
from dpspec.algorithms.objective import Objective
from dpspec.compiler.tunables import Refusal, resolve_tunables
from dpspec.data.records import Records
from dpspec.privacy.calibrate import Budget, Calibrated, calibrate
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import StudyNoise
from dpspec.privacy.schedule import draws
from dpspec.spec.expr import Expr, Name, Num
from dpspec.spec.model import EstimateTheta, Reals, Set


def logistic(l2: float = 0.0, l1: float = 0.0, over: Any = None) -> Objective:
    """log(1 + exp(-y u)), written without the package under test."""
    more = {} if over is None else {"over": over}
    return Objective(
        lambda u, y: np.logaddexp(0.0, -y * u),
        lambda u, y: -y / (1 + np.exp(y * u)),
        lambda u, y: 1 / (2 + np.exp(u) + np.exp(-u)),
        l2=l2,
        l1=l1,
        **more,
    )


def squared(l2: float = 0.0) -> Objective:
    return Objective(lambda u, y: (u - y) ** 2 / 2, lambda u, y: u - y, lambda u, y: np.ones_like(u), l2=l2)


def minimise(
    n: int,
    d: int,
    objective: Objective,
    *,
    lipschitz: float = 1.0,
    smooth: float = 0.25,
    over: Set | None = None,
    neighbours: str = "replace-one",
    facts: Mapping[str, float] | None = None,
    convex: bool = True,
) -> Problem:
    loss = Loss("test", lipschitz, smooth, objective.l2, convex, objective.l2, objective.l1, "by hand", data_convex=convex)
    known = {"n": n, "d": d, "L": lipschitz, "B": smooth, "lam": objective.l2, "epsilon": 1.0, "delta": 1e-6}
    task = SimpleNamespace(kind="minimise", pairwise=False, over=over if over is not None else Reals())
    return Problem("central", neighbours, task, {**known, **(facts or {})}, loss=loss, oracle=objective)


def sparse_regression(n: int, d: int, *, model: str = "nldp", modifiers: tuple[str, ...] = (), **facts: float) -> Problem:
    known = {"n": n, "d": d, "k": 2, "sigma": 1.0, "sigma_x": 1.0, "sigma_y": 1.0, "epsilon": 1.0, "delta": 1e-5}
    return Problem(model, "replace-one", EstimateTheta(form="linear"), {**known, **facts}, modifiers=frozenset(modifiers))


def tunables(module: ModuleType, p: Problem, **given: str | float) -> Tunables:
    """As the compiler does it: defaults from the card, the rest as if written after ``by ... with``."""
    options: list[tuple[str, Expr]] = []
    for name, value in given.items():
        options.append((name, Name(value) if isinstance(value, str) else Num(Fraction(value))))
    got = resolve_tunables(module.CARD, p, tuple(options))
    if isinstance(got, Refusal):
        raise ValueError(got.message)
    return got[0]


def plan(module: ModuleType, p: Problem, t: Tunables, budget: Budget | None = None) -> Calibrated:
    reason = module.accepts(p, t)
    assert reason is None, reason
    return calibrate(module.schedule(p, t), budget or Budget(epsilon="1", delta="0.000001"))


def study(module: ModuleType, records: Records, p: Problem, t: Tunables, c: Calibrated, seed: int = 0, *, per_user: bool = False) -> Any:
    """One metered run; ``close`` fails unless exactly the planned draws were made."""
    release = Release(c, StudyNoise(seed), mode="study", per_user=per_user)
    estimate = module.run(records, p, t, release)
    release.close()
    return estimate


@dataclass
class Silent:
    """A release that adds nothing and answers with the exact mean of what its channels would clip. It still checks the names, counts and
    sensitivities against the schedule."""

    tree: Any
    done: dict[str, int] = field(default_factory=dict)

    def _next(self, name: str) -> Any:
        leaf = draws(self.tree)[name]
        self.done[name] = self.done.get(name, 0) + 1
        assert self.done[name] <= leaf.total
        return leaf.draw.mechanism

    def scale(self, name: str) -> float:
        return 0.0

    def draw(self, name: str, value: Any, *, sensitivity: float) -> Any:
        assert sensitivity == self._next(name).sensitivity
        return value

    def mean_blocks(self, name: str, blocks: Any) -> Any:
        mechanism = self._next(name)
        rows = [b if isinstance(b, tuple) else (b, None) for b in blocks]
        x = np.concatenate([r[0] for r in rows])
        y = None if rows[0][1] is None else np.concatenate([r[1] for r in rows])
        return _mean(mechanism, x, y)

    def mean_blocks_many(self, names: Any, blocks: Any) -> Any:
        rows = list(blocks)
        return tuple(self.mean_blocks(name, rows) for name in names)


def _mean(mechanism: Any, x: Any, y: Any) -> Any:
    if mechanism.kind == "gaussian-product":
        return (np.clip(x, -mechanism.x_clip, mechanism.x_clip) * np.clip(y, -mechanism.y_clip, mechanism.y_clip)[:, None]).mean(axis=0)
    clipped = x * np.minimum(1.0, mechanism.radius / np.maximum(np.linalg.norm(x, axis=1), 1e-300))[:, None]
    if mechanism.kind == "gaussian-outer":
        return clipped.T @ clipped / len(x)
    if mechanism.kind == "gaussian-ball-product":
        return (clipped * np.clip(y, -mechanism.y_clip, mechanism.y_clip)[:, None]).mean(axis=0)
    return clipped.mean(axis=0)
