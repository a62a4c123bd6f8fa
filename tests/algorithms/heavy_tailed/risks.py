"""Problems of this family by hand: a loss that nothing bounds, a law with a closed form, and a release that keeps what it is given."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from dpspec.algorithms.card import Loss, Problem
from dpspec.algorithms.objective import Objective
from dpspec.algorithms.sets import constraint_set
from dpspec.spec.expr import num
from dpspec.spec.model import Ball
from tests.algorithms.sparse.exact import Exact

NASTY = [0.0, 5e-324, -1e-170, 0.3, -2.0, 1e6, -1e154, 1e300, math.inf, math.nan]


def risk(
    n: int, d: int, *, radius: float = 1.0, norm: Any = "l2", neighbours: str = "replace-one", l2: float = 0.0, **facts: Any
) -> Problem:
    """(<w, x> - y)^2/2 over a ball, no domain of x: sup phi'' = 1 is all that is proved."""
    over = Ball(norm=norm, radius=num(int(radius)))
    known = {"n": n, "d": d, "epsilon": 1.0, "delta": 1e-6, "lam": l2, "max_curve": 1.0, "w_radius": radius}
    known |= {"moment_order_gradient": 2.0, "moment_bound_gradient": 20.0, "eig_min": 1.0, "eig_max": 1.0}
    facts = {k: v for k, v in {**known, **facts}.items() if v is not None}
    f = Objective(lambda u, y: (u - y) ** 2 / 2, lambda u, y: u - y, lambda u, y: np.ones_like(u), l2=l2, over=constraint_set(over, facts))
    loss = Loss("squared", math.inf, math.inf, l2, True, l2, 0.0, "by hand", data_convex=True, curve=1.0)
    task = SimpleNamespace(kind="minimise", pairwise=False, over=over)
    return Problem("central", neighbours, task, facts, loss=loss, oracle=f)


@dataclass
class Kept(Exact):
    """A release without noise that keeps what it was given."""

    seen: list[Any] = field(default_factory=list)

    def draw(self, name: str, value: Any, *, sensitivity: float) -> Any:
        self.seen.append(np.array(value, dtype=float))
        return super().draw(name, value, sensitivity=sensitivity)


def student(n: int, theta: np.ndarray, seed: int, df: float = 3.0) -> tuple[np.ndarray, np.ndarray]:
    """x normal, y = <theta, x> + Student's t: the excess risk of w is |w - theta|^2/2, and by x's moments of order 2 and 4 the second
    moment of a coordinate of the gradient is 3 v_j^2 + (|v|^2 - v_j^2) + df/(df - 2), v = w - theta."""
    g = np.random.default_rng(seed)
    x = g.standard_normal((n, len(theta)))
    return x, x @ theta + g.standard_t(df, n)
