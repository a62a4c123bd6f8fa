"""The choice of the event to test: the threshold event with the best predicted lower bound on the training runs.

The choice may be as clever as it likes: the runs it is tested on are others. To keep luck from deciding it, learned scores are judged on
training rows they were not fitted on, and the prediction carries the error of the training counts as well as that of the test to come.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from dpspec.audit.empirical.statistics import Score, Statistic

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Event:
    """``{score >= threshold}``, or ``{score < threshold}`` when ``below``; likelier on input ``likelier``. ``predicted``: the lower bound
    of epsilon (or of mu) expected of the test; -inf when the training runs showed nothing. ``rare``: its training frequency on the less
    likely input."""

    statistic: str
    score: Score
    threshold: float
    below: bool
    likelier: Literal["a", "b"]
    predicted: float
    rare: float

    def hits(self, x: Floats) -> int:
        s = self.score(x)
        return int(np.count_nonzero(s < self.threshold if self.below else s >= self.threshold))

    def text(self) -> str:
        return f"{self.statistic} {'<' if self.below else '>='} {self.threshold:.6g}"


def predicted_epsilon(p: Floats, q: Floats, *, n_fit: float, n_test: float, delta: float, z: float) -> Floats:
    """The e^eps at which the score of p - e^eps q - delta would be z: the lower root of Fieller's quadratic, as epsilon (-inf when none).

    ``p``, ``q``: smoothed frequencies among ``n_fit`` training runs a side. Variances: binomial over training and test together.
    """
    inverse = 1 / n_fit + 1 / n_test
    vp, vq = p * (1 - p) * inverse, q * (1 - q) * inverse
    top = p - delta
    free = np.maximum(top * top * vq + vp * q * q - z * z * vp * vq, 0.0)
    ratio = (top * top - z * z * vp) / (top * q + z * np.sqrt(free))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where((top > 0) & (ratio > 0), np.log(np.maximum(ratio, 1e-300)), -np.inf), dtype=float)


def _excess(p: Floats, q: Floats, *, epsilon: float, delta: float) -> Floats:
    """The score of p - e^epsilon q - delta, up to the root of the number of runs: large where the claim is easiest to refute. Its noise
    has the same size at every event, so the largest is not the luckiest."""
    ratio = math.exp(min(epsilon, 700.0))
    pooled = np.clip((p + q - delta) / (ratio + 1.0), 1e-12, 1.0)
    on_line = np.minimum(ratio * pooled + delta, 1.0)
    variance = on_line * (1 - on_line) + ratio * ratio * pooled * (1 - pooled)
    return np.asarray((p - delta - ratio * q) / np.sqrt(variance), dtype=float)


def _predicted_mu(p: Floats, q: Floats, *, n_fit: float, n_test: float, z: float) -> tuple[Floats, Floats]:
    """Delta method for Phi^-1(p) - Phi^-1(q): the value less z errors, and the error."""
    from scipy.special import ndtri

    inverse = 1 / n_fit + 1 / n_test
    a, b = ndtri(p), ndtri(q)
    da, db = np.exp(-a * a / 2) / math.sqrt(2 * math.pi), np.exp(-b * b / 2) / math.sqrt(2 * math.pi)
    error = np.sqrt((p * (1 - p) / da**2 + q * (1 - q) / db**2) * inverse)
    return np.asarray(a - b - z * error, dtype=float), error


_FOLDS = 2  # learned scores are judged on rows they were not fitted on
_DEPTH = np.array([1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128])


def thresholds(a: Floats, b: Floats, most: int = 256) -> Floats:
    """Cuts of the pooled scores: equally spaced ranks and ranks at geometric depth from both ends, midway between neighbours."""
    pooled = np.unique(np.concatenate([a, b]))
    if len(pooled) < 2:
        return pooled
    if len(pooled) <= most:
        cuts = pooled
    else:
        ends = _DEPTH[len(pooled) > _DEPTH]
        ranks = np.concatenate([np.linspace(0, len(pooled) - 1, most).astype(int), ends, len(pooled) - 1 - ends])
        cuts = pooled[np.unique(ranks)]
    return np.asarray(cuts[cuts > pooled[0]], dtype=float)


@dataclass(frozen=True, slots=True)
class Aim:
    """What the test is for. ``value``: the claimed epsilon (mu when ``gaussian``), None without a claim. ``z``: how many errors a
    prediction is lowered by. ``n_test``: runs a side that the test will count."""

    value: float | None
    delta: float
    z: float
    n_test: int
    gaussian: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """``bold``: the event with the best cautious prediction. ``close``: the one whose score against the claim is largest, and that
    score."""

    bold: Event
    close: Event
    excess: float


def best_thresholds(name: str, score: Score, sa: Floats, sb: Floats, aim: Aim) -> Choice | None:
    """The best cuts of one score, ``sa`` and ``sb`` on training runs; all four of tail and direction are tried. None when it is
    constant."""
    cuts = thresholds(sa, sb)
    if len(cuts) < 1:
        return None
    na, nb = len(sa), len(sb)
    above_a = na - np.searchsorted(np.sort(sa), cuts, side="left")
    above_b = nb - np.searchsorted(np.sort(sb), cuts, side="left")
    pa, pb = (above_a + 0.5) / (na + 1.0), (above_b + 0.5) / (nb + 1.0)
    p = np.stack([pa, 1 - pa, pb, 1 - pb])  # above and below, likelier on a; above and below, likelier on b
    q = np.stack([pb, 1 - pb, pa, 1 - pa])
    n_fit, claimed = min(na, nb), aim.value or 0.0
    if aim.gaussian:
        value, error = _predicted_mu(p, q, n_fit=n_fit, n_test=aim.n_test, z=aim.z)
        excess = (value + aim.z * error - claimed) / (error * math.sqrt(n_fit))
    else:
        value = predicted_epsilon(p, q, n_fit=n_fit, n_test=aim.n_test, delta=aim.delta, z=aim.z)
        excess = _excess(p, q, epsilon=claimed, delta=aim.delta)

    def event(at: int) -> Event:
        k, i = np.unravel_index(at, value.shape)
        return Event(name, score, float(cuts[i]), bool(k % 2), "a" if k < 2 else "b", float(value[k, i]), float(q[k, i]))

    at = int(np.argmax(excess))
    return Choice(event(int(np.argmax(value))), event(at), float(excess.ravel()[at]))


def choose_event(statistics: Sequence[Statistic], a: Floats, b: Floats, aim: Aim) -> Event | None:
    """The best event over all statistics. ``a``, ``b``: training outputs, (n, width). None only when every score is constant.

    Where the cautious prediction exceeds the claim (or there is none, or no hope of refuting it) it decides, since it gives the largest
    bound; else the score against the claim."""
    bold: Event | None = None
    close: Event | None = None
    excess = -math.inf
    for s in statistics:
        choice = _judge(s, a, b, aim)
        if choice is None:
            continue
        if bold is None or choice.bold.predicted > bold.predicted:
            bold = choice.bold
        if choice.excess > excess:
            close, excess = choice.close, choice.excess
    if bold is None or aim.value is None or bold.predicted > aim.value or excess * math.sqrt(aim.n_test) < 0.5:
        return bold
    return close


def _judge(s: Statistic, a: Floats, b: Floats, aim: Aim) -> Choice | None:
    whole = s.fit(a, b)
    if whole is None:
        return None
    if not s.learned:
        return best_thresholds(s.name, whole, whole(a), whole(b), aim)
    sa, sb = np.empty(len(a)), np.empty(len(b))
    for fold in range(_FOLDS):
        out_a, out_b = np.arange(len(a)) % _FOLDS == fold, np.arange(len(b)) % _FOLDS == fold
        score = s.fit(a[~out_a], b[~out_b])
        if score is None:
            return None
        sa[out_a], sb[out_b] = score(a[out_a]), score(b[out_b])
    choice = best_thresholds(s.name, whole, sa, sb, replace(aim, z=aim.z + s.handicap))
    if choice is None:
        return None
    choice = replace(choice, excess=choice.excess - s.handicap / math.sqrt(min(len(a), len(b))))
    judged, refitted = np.concatenate([sa, sb]), np.concatenate([whole(a), whole(b)])
    return replace(choice, bold=_carry_over(choice.bold, judged, refitted), close=_carry_over(choice.close, judged, refitted))


def _carry_over(event: Event, judged: Floats, refitted: Floats) -> Event:
    """The same event for the score refitted on all training rows: the cut, midway between two scores, that leaves nearest the same share
    below."""
    share = int(np.count_nonzero(judged < event.threshold))
    ordered = np.sort(refitted)
    steps = np.flatnonzero(np.diff(ordered) > 1e-9 * (1 + np.abs(ordered[1:])))  # a cut after each of these ranks
    if not len(steps):
        return event
    at = int(steps[np.argmin(np.abs(steps + 1 - share))])
    return replace(event, threshold=float((ordered[at] + ordered[at + 1]) / 2))
