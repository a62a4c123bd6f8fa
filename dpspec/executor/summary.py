"""From the errors of trials to what a reader wants: intervals, bounds held or violated, rates, constants."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpspec.compiler.draft import BoundValue

#: A rate whose interval is wider than this says nothing about an exponent.
WIDEST_RATE_INTERVAL = 0.5


def error_json(measure: str, errors: Sequence[float]) -> dict[str, Any]:
    """Mean, spread and the 95% t-interval of the mean; one trial has no interval and gets its own value."""
    e = np.asarray(errors, dtype=np.float64)
    mean = float(e.mean())
    std = float(e.std(ddof=1)) if e.size > 1 else 0.0
    half = t_quantile(e.size - 1) * std / math.sqrt(e.size) if e.size > 1 else 0.0
    return {
        "measure": measure,
        "mean": mean,
        "std": std,
        "ci95": [mean - half, mean + half],
        "q95": float(np.quantile(e, 0.95)),
        "median": float(np.median(e)),
        "values": [float(v) for v in e],
    }


def t_quantile(degrees: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(max(degrees, 1), 0.975))


def judge(bound: BoundValue, errors: Sequence[float]) -> bool | None:
    """Does an explicit upper bound hold on these trials?

    With a probability p: False when the number of trials within the bound is too small for p at level 0.05 (exact binomial test),
    True when at least a share p is within, None between. In expectation: False when the 95% interval of the mean lies above the
    bound, True when it lies below, None when it straddles it.
    """
    if bound.value is None or bound.kind != "explicit":
        return None
    e = np.asarray(errors)
    if bound.probability is not None:
        within = int(np.count_nonzero(e <= bound.value))
        if within >= bound.probability * e.size:
            return True
        from scipy.special import bdtr

        return False if float(bdtr(within, e.size, bound.probability)) < 0.05 else None
    low, high = error_json("", e.tolist())["ci95"]
    return True if high <= bound.value else False if low > bound.value else None


def bound_json(bound: BoundValue | None, errors: Sequence[float]) -> dict[str, Any] | None:
    if bound is None:
        return None
    return {
        "kind": bound.kind,
        "value": bound.value,
        "holds": judge(bound, errors),
        "expression": bound.expression,
        "status": bound.status,
        "probability": bound.probability,
        "theorem": bound.theorem,
        "holds_if": list(bound.holds_if),
    }


def best_bound(bounds: Sequence[BoundValue], measure: str) -> BoundValue | None:
    """The bound to compare with: the tightest proved explicit upper bound, else a proved order bound, else none."""
    same = [b for b in bounds if b.measure == measure and b.type == "upper" and b.status == "proved"]
    explicit = [b for b in same if b.kind == "explicit" and b.value is not None]
    if explicit:
        return min(explicit, key=lambda b: b.value or math.inf)
    return next((b for b in same if b.kind == "order"), None)


def rate(
    variable: str, values: Sequence[float], means: Sequence[float], relative_errors: Sequence[float], expected: float
) -> dict[str, Any]:
    """Log-log slope of the mean error in one variable, by weighted least squares, with a 95% interval and a verdict.

    The weights are the trials' own standard errors of the log mean, with a floor of 1%; the interval is widened by the scatter about
    the line when that is larger (and then uses Student's t with the line's degrees of freedom).
    """
    x, y = np.log(np.asarray(values)), np.log(np.asarray(means))
    w = 1.0 / np.maximum(np.asarray(relative_errors), 0.01) ** 2
    centre = float((w * x).sum() / w.sum())
    spread = float((w * (x - centre) ** 2).sum())
    slope = float((w * (x - centre) * y).sum() / spread)
    intercept = float((w * y).sum() / w.sum()) - slope * centre
    degrees = x.size - 2
    chi2 = float((w * (y - intercept - slope * x) ** 2).sum())
    inflation = math.sqrt(chi2 / degrees) if degrees > 0 else 1.0
    half = t_quantile(degrees) * inflation / math.sqrt(spread) if inflation > 1 and degrees > 0 else 1.96 / math.sqrt(spread)
    low, high = slope - half, slope + half
    return {
        "variable": variable,
        "expected": expected,
        "measured": slope,
        "ci95": [low, high],
        "verdict": verdict(low, high, expected, decreasing=expected < 0),
    }


def verdict(low: float, high: float, expected: float, *, decreasing: bool) -> str:
    """``better``: the error falls faster (or grows more slowly) than the bound allows; an upper bound is not contradicted by that."""
    if low <= expected <= high:
        return "consistent" if high - low <= WIDEST_RATE_INTERVAL else "undecided"
    return "better" if high < expected else "worse"


def rates(points: Sequence[Mapping[str, Any]], varied: Sequence[str], expected: Mapping[str, float]) -> list[dict[str, Any]]:
    """One row a varied variable with at least three values, all other variables at their first value."""
    found: list[dict[str, Any]] = []
    for variable in varied:
        if variable not in expected:
            continue
        groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
        for p in points:
            rest = tuple((k, v) for k, v in p["at"].items() if k != variable)
            groups.setdefault((p["release"], p["algorithm"], rest), []).append(p)
        for (release, algorithm, rest), group in groups.items():
            usable = [p for p in group if p["error"]["mean"] > 0]
            if len({p["at"][variable] for p in usable}) < 3:
                continue
            row = rate(
                variable,
                [p["at"][variable] for p in usable],
                [p["error"]["mean"] for p in usable],
                [p["error"]["std"] / math.sqrt(p["trials"]) / p["error"]["mean"] for p in usable],
                expected[variable],
            )
            found.append({**row, "release": release, "algorithm": algorithm, "at": dict(rest)})
    return found


def constant(ratios: Sequence[tuple[float, float]]) -> dict[str, Any] | None:
    """The constant of an order bound: the geometric mean over points of (mean error)/(expression with C = 1).

    ``ratios``: that quotient with its relative standard error, a pair a point. The 95% interval is over points where there are at
    least three (the scatter about the bound's shape counts), else from the trials' own standard errors.
    """
    usable = [(v, e) for v, e in ratios if v > 0 and math.isfinite(v)]
    if not usable:
        return None
    logs = np.log([v for v, _ in usable])
    mean, size = float(logs.mean()), len(usable)
    sampling = 1.96 * math.sqrt(sum(e * e for _, e in usable)) / size
    half = max(sampling, t_quantile(size - 1) * float(logs.std(ddof=1)) / math.sqrt(size)) if size >= 3 else sampling
    return {
        "value": math.exp(mean),
        "ci95": [math.exp(mean - half), math.exp(mean + half)],
        "largest": float(np.exp(logs.max())),
        "points": size,
    }
