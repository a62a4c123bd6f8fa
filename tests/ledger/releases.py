"""Calibrated schedules of every kind, as plans store them."""

from __future__ import annotations

import random
from typing import Any

from dpspec.privacy.forms import to_json
from dpspec.privacy.schedule import Disjoint, Draw, Parallel, Repeat, Sampled, Sequence, Tree
from tests.privacy.kinds import instance

COUNTS = {"unit": "person", "relation": "add-remove", "model": "central", "protects": "records"}


def schedule(tree: Tree, levels: dict[str, float], **counts: str) -> dict[str, Any]:
    return {"version": 1, **COUNTS, **counts, "n": 1000, "budget": {}, "parts": None, "tree": to_json(tree, levels)}


def gaussian(level: float, count: int = 1, **counts: str) -> dict[str, Any]:
    draw = Draw("r.g", instance("gaussian-vector"))
    return schedule(draw if count == 1 else Repeat(draw, count), {"r.g": level}, **counts)


def sampled(level: float, rate: float, steps: int, method: str = "poisson", **counts: str) -> dict[str, Any]:
    draw = Draw("r.s", instance("gaussian-vector"))
    return schedule(Repeat(Sampled(draw, method, rate, 1000), steps), {"r.s": level}, **counts)


def laplace(level: float, **counts: str) -> dict[str, Any]:
    return schedule(Draw("r.l", instance("laplace-vector")), {"r.l": level}, **counts)


def exponential(epsilon: float, **counts: str) -> dict[str, Any]:
    return schedule(Draw("r.e", instance("exponential")), {"r.e": epsilon}, **counts)


def approx(epsilon: float, **counts: str) -> dict[str, Any]:
    return schedule(Draw("r.a", instance("wishart")), {"r.a": epsilon}, **counts)


def parts(level: float, scale: float, **counts: str) -> dict[str, Any]:
    """A Gaussian draw on one part of the records and a Laplace draw on the other one."""
    tree = Parallel((Draw("a.g", instance("gaussian-vector")), Draw("b.l", instance("laplace-vector"))))
    return schedule(tree, {"a.g": level, "b.l": scale}, **counts)


def equal_parts(level: float, **counts: str) -> dict[str, Any]:
    tree = Sequence((Disjoint(Draw("r.g", instance("gaussian-vector")), 4), Draw("r.h", instance("gaussian-vector"))))
    return schedule(tree, {"r.g": level, "r.h": level}, **counts)


def mixed(count: int, seed: int) -> list[dict[str, Any]]:
    """``count`` releases of unlike kinds from a few dozen plans."""
    rng = random.Random(seed)
    makers = [
        *(gaussian(40.0 + 3 * k) for k in range(6)),
        *(sampled(1.2 + 0.1 * k, 0.004 + 0.001 * k, 20) for k in range(5)),
        *(laplace(90.0 + 10 * k) for k in range(3)),
        *(exponential(0.01 + 0.004 * k) for k in range(3)),
        approx(0.01),
        *(parts(60.0 + k, 80.0) for k in range(2)),
        equal_parts(70.0),
    ]
    return [rng.choice(makers) for _ in range(count)]
