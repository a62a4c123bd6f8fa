"""From the errors of trials to what a reader wants: intervals, bounds held or violated, rates, constants, the cost of privacy.

The statistics, and what was checked about them (tests/executor/test_summary.py):

- A mean error that is positive has its 95% interval on the log scale, mean * exp(+-t * s/(mean sqrt(T))): errors are skewed to the
  right, and there the plain t-interval covers too little (0.90 instead of 0.93 for exponential errors and ten trials).
- A rate is the least-squares slope of log mean error on the log of the variable with *equal* weights. Weights from the trials' own
  spread would be estimates themselves, and with few trials the interval would then cover too little. Its variance comes from the
  trials: the slope is a smooth function of the points' means, so each trial has an influence on it, and the spread of those
  influences (Student's t with T - 1 degrees) accounts for points that share their records (common random numbers).
- A line that bends significantly has no single slope; the interval is then widened to the slopes between neighbouring points.
- Many points are judged at once, so each is judged at the level 0.05 / (number of points).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpspec.compiler.draft import Target
from dpspec.theory.bounds import BoundValue

Vector: TypeAlias = NDArray[np.float64]

#: A rate whose 99% interval is wider than this says nothing about an exponent.
WIDEST_RATE_INTERVAL = 0.5
#: Chance that a study accuses a bound that is true, over all of its points.
LEVEL = 0.05
#: An estimate whose mean error is at least this share of the zero vector's says nothing about a rate.
SATURATED = 0.9
#: The verdict on a rate where the bound says nothing: too few points meet its conditions and beat the answer without data.
OUTSIDE = "outside the regime"
#: Variables whose bounds speak of small values.
TO_ZERO = ("epsilon", "delta", "rho", "mu", "alpha")
#: A bend is significant at this level.
BEND_LEVEL = 0.01


def t_quantile(degrees: float, level: float = 0.975) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(max(degrees, 1), level))


def error_json(measure: str, errors: Sequence[float]) -> dict[str, Any]:
    """Mean, spread and the 95% interval of the mean; one trial has no interval and gets its own value."""
    e = np.asarray(errors, dtype=np.float64)
    mean = float(e.mean())
    std = 0.0 if e.size < 2 else float(e.std(ddof=1)) if math.isfinite(mean) else math.inf
    return {
        "measure": measure,
        "mean": mean,
        "std": std,
        "ci95": list(mean_interval(e)),
        "q95": float(np.quantile(e, 0.95, method="linear" if math.isfinite(mean) else "higher")),
        "median": float(np.median(e)),
        "values": [float(v) for v in e],
    }


def mean_interval(e: Vector) -> tuple[float, float]:
    """95% interval of the mean: on the log scale for errors that cannot be negative, else Student's."""
    mean = float(e.mean())
    if e.size < 2 or not math.isfinite(mean):
        return mean, mean
    half = t_quantile(e.size - 1) * float(e.std(ddof=1)) / math.sqrt(e.size)
    if mean > 0 and float(e.min()) >= 0 and half / mean < 50:
        return mean * math.exp(-half / mean), mean * math.exp(half / mean)
    return mean - half, mean + half


def relative_half_width(errors: Sequence[float]) -> float:
    """Half the 95% interval of the mean as a share of it (infinite for one trial): what ``until`` compares."""
    e = np.asarray(errors, dtype=np.float64)
    if e.size < 2:
        return math.inf
    mean = float(e.mean())
    if not math.isfinite(mean):
        return math.inf
    spread = float(e.std(ddof=1))
    if spread == 0:
        return 0.0
    return t_quantile(e.size - 1) * spread / math.sqrt(e.size) / mean if mean > 0 else math.inf


# ---------------------------------------------------------------------------------------------------------------- bounds


def judge(bound: BoundValue, errors: Sequence[float], level: float = LEVEL) -> tuple[bool | None, float | None]:
    """Does an explicit upper bound hold on these trials? Also the chance of errors this large if it does (None: not judged).

    With a probability p: False when so few trials within the bound have a chance below ``level`` under p (exact binomial test), True
    when a share of at least p is within, None between. In expectation: False when the mean lies above the bound by a one-sided t test
    at ``level``, True when the upper end of the 95% interval does not exceed the bound, None between.
    """
    if bound.value is None or bound.kind != "explicit":
        return None, None
    e = np.asarray(errors, dtype=np.float64)
    if bound.probability is not None:
        from scipy.special import bdtr

        within = int(np.count_nonzero(e <= bound.value))
        chance = float(bdtr(within, e.size, bound.probability))
        if within >= bound.probability * e.size:
            return True, chance
        return (False if chance < level else None), chance
    mean = float(e.mean())
    if not math.isfinite(mean):  # an infinite error that can happen makes the expectation infinite
        return (None, None) if math.isnan(mean) else (False, 0.0)
    spread = float(e.std(ddof=1)) / math.sqrt(e.size) if e.size > 1 else 0.0
    if spread == 0:
        if mean <= bound.value:
            return True, 1.0
        return (False, 0.0) if e.size > 1 else (None, None)
    from scipy.special import stdtr

    chance = float(stdtr(e.size - 1, -(mean - bound.value) / spread))
    if chance < level:
        return False, chance
    return (True if mean_interval(e)[1] <= bound.value else None), chance


def judge_with_room(bound: BoundValue, errors: Sequence[float], level: float, room: float) -> tuple[bool | None, float | None]:
    """:func:`judge`, where the truth that errors compare with is known up to ``room`` in the measure: False when smaller errors still
    violate the bound, True when larger ones still hold, None between. For a squared error the room is on its root, squared."""
    if not room:
        return judge(bound, errors, level)
    e = np.asarray(errors, dtype=np.float64)
    if bound.measure.startswith("squared-"):
        low, high = np.maximum(np.sqrt(e) - math.sqrt(room), 0.0) ** 2, (np.sqrt(e) + math.sqrt(room)) ** 2
    else:
        low, high = np.maximum(e - room, 0.0), e + room
    (less, chance), (more, other) = judge(bound, list(low), level), judge(bound, list(high), level)
    return (False, chance) if less is False else (True, other) if more is True else (None, chance)


def bound_json(
    bound: BoundValue | None,
    errors: Sequence[float],
    level: float = LEVEL,
    *,
    room: float = 0.0,
    unmet: Sequence[str] = (),
    broken: Sequence[str] = (),
    trivial: float | None = None,
) -> dict[str, Any] | None:
    """``within``: trials whose error does not exceed the bound; ``chance``: see :func:`judge`; ``room``: see :func:`judge_with_room`;
    ``unmet``: conditions of the bound that the simulated law is known to break, so that nothing is judged; ``broken``: the same, where
    errors below the bound still say so (``Task.broken``); ``vacuous``: it lies above the mean error ``trivial`` of the answer without data,
    so or above what every answer has, so that it promises nothing although it is true."""
    if bound is None:
        return None
    holds, chance = judge_with_room(bound, errors, level, room) if not unmet else (None, None)
    if holds is False and broken:  # the declaration is refuted, not the bound
        holds, chance, unmet = None, None, broken
    explicit = bound.kind == "explicit" and bound.value is not None
    return {
        "kind": bound.kind,
        "value": bound.value,
        "holds": holds,
        "within": sum(1 for e in errors if bound.value is not None and e <= bound.value) if explicit else None,
        "chance": chance,
        "expression": bound.expression,
        "status": bound.status,
        "probability": bound.probability,
        "theorem": bound.theorem,
        "holds_if": list(bound.holds_if),
        "room": room,
        "unmet": list(dict.fromkeys(unmet)),
        "vacuous": bound.vacuous or (explicit and trivial is not None and 0 < trivial < (bound.value or 0.0)),
    }


def target_json(target: Target | None, errors: Sequence[float]) -> dict[str, Any] | None:
    """Is a target met on these trials: the mean error is at most the stated value; with a probability p, at least a share p of the
    trials is. ``sure``: the 95% interval of the mean (an exact binomial test at level 0.05) says the same; otherwise the ``verdict`` is
    ``undecided``. ``interval``: of the mean, or of the share of trials within (Clopper and Pearson)."""
    if target is None:
        return None
    e = np.asarray(errors, dtype=np.float64)
    if target.probability is None:
        low, high = mean_interval(e)
        met = bool(float(e.mean()) <= target.at_most)
        sure = e.size > 1 and (high <= target.at_most if met else not low <= target.at_most)
    else:
        from scipy.special import bdtr, bdtrc, betaincinv

        within, p = int(np.count_nonzero(e <= target.at_most)), target.probability
        met = within >= p * e.size
        sure = float((bdtrc(within - 1, e.size, p) if within else 1.0) if met else bdtr(within, e.size, p)) < LEVEL
        low = float(betaincinv(within, e.size - within + 1, LEVEL / 2)) if within else 0.0
        high = float(betaincinv(within + 1, e.size - within, 1 - LEVEL / 2)) if within < e.size else 1.0
    return {
        "measure": target.measure,
        "at_most": target.at_most,
        "probability": target.probability,
        "met": met,
        "sure": bool(sure),
        "verdict": ("met" if met else "missed") if sure else "undecided",
        "interval": [low if math.isfinite(low) else None, high if math.isfinite(high) else None],
    }


# ------------------------------------------------------------------------------------------------------- cost of privacy


def cost_of_privacy(errors: Sequence[float], reference: Sequence[float]) -> dict[str, Any] | None:
    """Mean error over the non-private mean error on the same records, with a 95% interval (trials are paired); None without one."""
    if len(reference) != len(errors) or len(errors) == 0:
        return None
    e, r = np.asarray(errors, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    above, below = float(e.mean()), float(r.mean())
    if not (0 < above < math.inf and 0 < below < math.inf):
        return None
    if e.size < 2:
        return {"ratio": above / below, "ci95": [above / below, above / below]}
    half = t_quantile(e.size - 1) * float((e / above - r / below).std(ddof=1)) / math.sqrt(e.size)
    if half > 50:
        return None
    return {"ratio": above / below, "ci95": [above / below * math.exp(-half), above / below * math.exp(half)]}


def comparisons(points: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each algorithm against the first one at the same point: ratio of mean errors with its paired 95% interval. The records of a trial
    are the same for all of them."""
    groups: dict[tuple[str, tuple[tuple[str, float], ...]], list[Mapping[str, Any]]] = {}
    for p in points:
        groups.setdefault((p["release"], tuple(p["at"].items())), []).append(p)
    found = []
    for (release, at), group in groups.items():
        base = group[0]
        for p in group[1:]:
            row = cost_of_privacy(p["error"]["values"], base["error"]["values"])
            if row is not None and p["error"]["measure"] == base["error"]["measure"]:
                low, high = row["ci95"]
                word = "lower" if high < 1 else "higher" if low > 1 else "undecided"
                found.append(
                    {"release": release, "at": dict(at), "algorithm": p["algorithm"], "against": base["algorithm"], **row, "error": word}
                )
    return found


# ----------------------------------------------------------------------------------------------------------------- rates


def contrast(weights: Vector, errors: Sequence[Vector]) -> tuple[float, float, float]:
    """sum_i weights_i log(mean error of point i): value, standard error, degrees of freedom.

    Points with equally many trials are taken trial by trial (trial t shares its records with trial t of the other points), so that
    what they have in common cancels; otherwise as independent, with Welch-Satterthwaite degrees.
    """
    means = np.array([e.mean() for e in errors])
    value = float(weights @ np.log(means))
    sizes = {e.size for e in errors}
    if len(sizes) == 1:
        (size,) = sizes
        influence = sum(w * e / m for w, e, m in zip(weights, errors, means, strict=True))
        return value, float(np.std(influence, ddof=1)) / math.sqrt(size), float(size - 1)
    parts = np.array([(w * e.std(ddof=1) / m) ** 2 / e.size for w, e, m in zip(weights, errors, means, strict=True)])
    total = float(parts.sum())
    degrees = total**2 / float(sum(p**2 / (e.size - 1) for p, e in zip(parts, errors, strict=True))) if total > 0 else 1.0
    return value, math.sqrt(total), degrees


def rate(
    variable: str,
    values: Sequence[float],
    errors: Sequence[Sequence[float]],
    expected: float,
    shape: Sequence[float | None] = (),
    *,
    to_zero: bool = False,
) -> dict[str, Any]:
    """Log-log slope of the mean error in one variable with intervals and a verdict.

    ``values``: at least three distinct, ascending; ``errors``: the trials at each (at least two). ``expected``: the bound's asymptotic
    exponent. ``shape``: the bound's value at each point up to a constant, where known; its slope over the same points is what the
    bound says *here*, logarithms and settings included.

    ``verdict`` compares the 99% interval with what lies between the two: ``consistent``, ``better`` (towards the limit that the bound
    speaks of, the error falls faster or grows more slowly than it allows, which does not contradict it), ``worse``, or ``undecided``
    (too wide to tell, or the line bends towards the expected slope and the study stops before it gets there). ``to_zero``: that limit
    is the variable going to zero, as for budgets; else to infinity.
    """
    x = np.log(np.asarray(values, dtype=np.float64))
    e = [np.asarray(v, dtype=np.float64) for v in errors]
    slope_weights = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
    slope, spread, degrees = contrast(slope_weights, e)
    half95, half99 = t_quantile(degrees) * spread, t_quantile(degrees, 0.995) * spread
    low, high = slope - half95, slope + half95
    low99, high99 = slope - half99, slope + half99
    bends, approaches = _bends(x, e), False
    if bends:
        y = np.log([v.mean() for v in e])
        local = np.diff(y) / np.diff(x)
        low, high = min(low, float(local.min())), max(high, float(local.max()))
        low99, high99 = min(low99, low), max(high99, high)
        first, last = (local[-1], local[0]) if to_zero else (local[0], local[-1])
        approaches = abs(last - expected) < abs(first - expected)
    here = None
    if len(shape) == len(x) and all(s is not None and math.isfinite(s) and s > 0 for s in shape):
        here = float(slope_weights @ np.log(np.asarray(shape, dtype=np.float64)))
    word = verdict(low99, high99, expected, here, to_zero=to_zero)
    return {
        "variable": variable,
        "limit": "0" if to_zero else "infinity",
        "expected": expected,
        "expected_here": here,
        "measured": slope,
        "ci95": [low, high],
        "bends": bends,
        "verdict": "undecided" if word == "worse" and approaches else word,
    }


def _bends(x: Vector, errors: Sequence[Vector]) -> bool:
    """Is the quadratic part of log error against log variable significantly not zero?"""
    from scipy.special import stdtr

    basis = np.stack([np.ones_like(x), x - x.mean()])
    square = (x - x.mean()) ** 2
    weights = square - basis.T @ np.linalg.lstsq(basis.T, square, rcond=None)[0]
    if float(np.abs(weights).max()) < 1e-9:
        return False
    value, spread, degrees = contrast(weights / float(weights @ square), errors)
    if spread == 0:
        return abs(value) > 1e-9
    return 2 * float(stdtr(degrees, -abs(value) / spread)) < BEND_LEVEL


def verdict(low: float, high: float, expected: float, here: float | None = None, *, to_zero: bool = False) -> str:
    """Where the interval of the measured slope lies with respect to the bound's; see :func:`rate`."""
    least, most = (expected, expected) if here is None else (min(expected, here), max(expected, here))
    if high < least:
        return "worse" if to_zero else "better"
    if low > most:
        return "better" if to_zero else "worse"
    return "consistent" if high - low <= WIDEST_RATE_INTERVAL else "undecided"


def rates(
    points: Sequence[Mapping[str, Any]], varied: Sequence[str], expected: Mapping[tuple[str, str], Mapping[str, float]]
) -> list[dict[str, Any]]:
    """One row for a release, an algorithm, a varied variable with at least three values and a combination of the others.

    ``expected``: exponents of the algorithm's bound by (release, algorithm) and variable. No bound says anything of points that do no
    better than the zero vector, or where its own conditions fail (``outside``): they are left out (``left_out``). Where fewer than three
    remain, the slope of all of them is shown and the verdict is :data:`OUTSIDE`.
    """
    found: list[dict[str, Any]] = []
    for variable in varied:
        for (release, algorithm, rest), group in series(points, variable):
            exponents = expected.get((release, algorithm), {})
            positive = [p for p in group if 0 < p["error"]["mean"] < math.inf and p["trials"] > 1]
            usable = [p for p in positive if not saturated(p) and not p.get("outside")]
            if variable not in exponents or len({p["at"][variable] for p in positive}) < 3:
                continue
            inside = len({p["at"][variable] for p in usable}) >= 3
            left_out = len(positive) - len(usable)
            if not inside:
                usable = positive
            row = rate(
                variable,
                [p["at"][variable] for p in usable],
                [p["error"]["values"] for p in usable],
                exponents[variable],
                [p.get("bound_shape") for p in usable],
                to_zero=variable in TO_ZERO,
            )
            if not inside:
                row["verdict"] = OUTSIDE
            found.append({**row, "release": release, "algorithm": algorithm, "at": dict(rest), "left_out": left_out})
    return found


def saturated(point: Mapping[str, Any]) -> bool:
    trivial = point.get("trivial_error")
    return trivial is not None and point["error"]["mean"] >= SATURATED * trivial > 0


def series(
    points: Sequence[Mapping[str, Any]], variable: str
) -> Iterator[tuple[tuple[str, str, tuple[tuple[str, float], ...]], list[Mapping[str, Any]]]]:
    """The points that differ in ``variable`` alone, ascending in it: ((release, algorithm, the rest), points)."""
    groups: dict[tuple[str, str, tuple[tuple[str, float], ...]], list[Mapping[str, Any]]] = {}
    for p in points:
        rest = tuple((k, v) for k, v in p["at"].items() if k != variable)
        groups.setdefault((p["release"], p["algorithm"], rest), []).append(p)
    for key, group in groups.items():
        yield key, sorted(group, key=lambda p: float(p["at"][variable]))


# -------------------------------------------------------------------------------------------------------------- constant


def constant(ratios: Sequence[tuple[float, float]]) -> dict[str, Any] | None:
    """The constant of an order bound: the geometric mean over points of (mean error)/(expression with C = 1).

    ``ratios``: that quotient with its relative standard error, a pair a point. The 95% interval is over points where there are at
    least three (the scatter about the bound's shape counts), else from the trials' own standard errors. ``largest``: over the points,
    the constant with which the bound covers every mean that was measured.
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


def constants(points: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The fitted constant of each algorithm's order bound, a row a release and algorithm. Points no better than the answer without data say
    nothing of it and are left out."""
    groups: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for p in points:
        shape, mean = p.get("order_shape"), p["error"]["mean"]
        if shape is None or shape <= 0 or mean <= 0 or saturated(p):
            continue
        relative = p["error"]["std"] / math.sqrt(p["trials"]) / mean
        groups.setdefault((p["release"], p["algorithm"]), []).append((mean / shape, relative))
    found = []
    for (release, algorithm), ratios in groups.items():
        fitted = constant(ratios)
        expression = next(p.get("order_expression") for p in points if (p["release"], p["algorithm"]) == (release, algorithm))
        if fitted is not None:
            found.append({"release": release, "algorithm": algorithm, "expression": expression, **fitted})
    return found
