"""Counts, sums and means by key: which whole numbers each group has, and what follows of the noisy ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpspec.algorithms.card import Problem, Tunables
from dpspec.algorithms.statistics import _moments as moments
from dpspec.algorithms.statistics import _noise as noise
from dpspec.algorithms.statistics import dp_column_mean, dp_sum
from dpspec.models.columns import Keys
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.cube_norm import CubeBlocks

Whole = NDArray[np.int64]


def refused(p: Problem, t: Tunables) -> str | None:
    """Why the column cannot be summed in whole steps."""
    if p.task.what == "count":
        return "step is of a sum" if t.step else None
    if p.task.what == "mean":
        return "step is of a sum; a mean is taken as fine as n allows" if t.step else None
    if not 1e-150 < dp_sum.largest(p) < 1e150:
        return "its interval has ends beyond 1e150, or below 1e-150: declare it in other units"
    if t.step and dp_sum.largest(p) / t.step * noise.ROOM * p.n > noise.MOST:
        return f"sums of n = {p.n} numbers in steps of {t.step:g} do not fit: a larger step"
    low, high = dp_sum.ends(p, t)
    return None if low < high else f"no two multiples of step = {dp_sum.step(p, t):g} lie in its interval"


def unit(p: Problem, t: Tunables) -> float:
    """The largest size of one record's number, in steps; of a pair, in l_inf."""
    match p.task.what:
        case "count":
            return 1.0
        case "sum":
            low, high = dp_sum.ends(p, t)
            return float(max(abs(low), abs(high)))
        case _:
            return float(moments.steps(p))


def width(p: Problem, t: Tunables) -> float:
    """How far apart two records' numbers are."""
    if p.task.what == "count":
        return 0.0
    low, high = dp_sum.ends(p, t)
    return float(high - low)


def numbers(records: Rows, p: Problem[Keys], t: Tunables, codes: Whole, size: int) -> Whole:
    """(1, size) or, of pairs (sum, how many), (2, size): exact, and cut where no sum of n records comes to."""
    keys, what = p.oracle, p.task.what
    if what == "count":
        return np.bincount(codes[codes >= 0], minlength=size)[None, :].astype(np.int64)
    assert keys.of is not None
    column = keys.of
    if what == "sum":
        s, (low, high) = dp_sum.step(p, t), dp_sum.ends(p, t)

        def whole(entries: NDArray[np.float64]) -> Whole:
            values = np.clip(column.offset + column.factor * entries, column.value_low, column.value_high)
            return np.asarray(noise.steps(values, s, low, high))[None, :]

    else:
        k = moments.steps(p)
        middle, half = (column.low + column.high) / 2, (column.high - column.low) / 2

        def whole(entries: NDArray[np.float64]) -> Whole:
            with np.errstate(all="ignore"):  # half of the narrowest interval is 0, and 0/0 counts as the lower end
                c = np.clip(np.nan_to_num((entries - middle) / half, nan=-1.0), -1.0, 1.0)
            return np.vstack([noise.steps(c * k, 1.0, -k, k), np.full(entries.size, k, dtype=np.int64)])

    found = keys.sums(records, codes, size, whole)
    return np.asarray(noise.cut(found if found.size else np.zeros((1 if what == "sum" else 2, size), dtype=np.int64)), dtype=np.int64)


def answers(drawn: NDArray[np.float64], p: Problem, t: Tunables, planned: Any, level: float) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Of noisy numbers, a row a group: the values in the author's units, standard errors and intervals."""
    if p.task.what == "mean":
        return _means(drawn, p, planned, level)
    law = noise.law(planned, level)
    found = drawn[:, 0]
    if p.task.what == "sum":
        s, rounding = dp_sum.step(p, t), 0.0 if t.step else p.n / 2
        law = noise.Law(law.mean + rounding, law.error, law.half + rounding).times(s)
        found = found * s
    low, high = found - law.half, found + law.half
    if p.task.what == "count":
        low, high = np.maximum(low, 0.0), np.maximum(high, 0.0)
    return found, {"standard_error": np.full(found.shape, law.error), "low": low, "high": high}


def _means(drawn: NDArray[np.float64], p: Problem, planned: Any, level: float) -> tuple[NDArray[np.float64], dict[str, Any]]:
    one, k = pair(planned), moments.steps(p)
    middle, half = (p.facts["value_low"] + p.facts["value_high"]) / 2, (p.facts["value_high"] - p.facts["value_low"]) / 2
    found = np.array([dp_column_mean.ratio(total / k, count / k, one, level, k) for total, count in drawn]).reshape(-1, 4)
    value, error, low, high = found.T
    return middle + half * value, {"standard_error": half * error, "low": middle + half * low, "high": middle + half * high}


def pair(planned: Any) -> Any:
    """The noise of one group."""
    return planned.one if isinstance(planned, CubeBlocks) else planned


def error(p: Problem, t: Tunables, planned: Any, level: float, records: float) -> float:
    """Mean absolute error of one group's number; of a mean for a group of so many records, halfway between the middle and an end."""
    if p.task.what == "mean":
        k = moments.steps(p)
        about = 0.8 * moments.spread(pair(planned), level, (1.0, -0.5), k) / max(records, 1.0)
        return min(about, 1.0) * (p.facts["value_high"] - p.facts["value_low"]) / 2
    found = noise.law(planned, level).mean
    return found * (dp_sum.step(p, t) if p.task.what == "sum" else 1.0) if math.isfinite(found) else found
