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


def _predicted_mu(p: Floats, q: Floats, *, inverse: float) -> tuple[Floats, Floats]:
    """Phi^-1(p) - Phi^-1(q) and its standard error by the delta method; ``inverse``: the sum of one over the numbers of runs."""
    from scipy.special import ndtri

    a, b = ndtri(p), ndtri(q)
    da, db = np.exp(-a * a / 2) / math.sqrt(2 * math.pi), np.exp(-b * b / 2) / math.sqrt(2 * math.pi)
    error = np.sqrt((p * (1 - p) / da**2 + q * (1 - q) / db**2) * inverse)
    return np.asarray(a - b, dtype=float), np.asarray(error, dtype=float)


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
    """What the test is for. ``value``: the claimed epsilon (mu when ``gaussian``), None without a claim. ``z``: the normal quantile of the
    test. ``n_test``: runs a side that the test will count."""

    value: float | None
    delta: float
    z: float
    n_test: int
    gaussian: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """``sure`` and ``bold``: the events with the best predictions, lowered by ``_SURE`` and ``_BOLD`` times z errors. ``close``: the one
    whose score against the claim is largest, ``excess`` per root of the number of runs."""

    sure: Event
    bold: Event
    close: Event
    excess: float


_SURE, _BOLD = 2.0, 1.1


def best_thresholds(name: str, score: Score, sa: Floats, sb: Floats, aim: Aim, handicap: float = 0.0) -> Choice | None:
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
    caution = [factor * aim.z + handicap for factor in (_SURE, _BOLD)]
    if aim.gaussian:
        mid, error = _predicted_mu(p, q, inverse=1 / n_fit + 1 / aim.n_test)
        values = [mid - z * error for z in caution]
        excess = (mid - claimed) / (error * math.sqrt(n_fit))
    else:
        values = [predicted_epsilon(p, q, n_fit=n_fit, n_test=aim.n_test, delta=aim.delta, z=z) for z in caution]
        excess = _excess(p, q, epsilon=claimed, delta=aim.delta)

    def event(at: int, value: Floats) -> Event:
        k, i = np.unravel_index(at, p.shape)
        return Event(name, score, float(cuts[i]), bool(k % 2), "a" if k < 2 else "b", float(value[k, i]), float(q[k, i]))

    sure, bold = (event(int(np.argmax(v)), v) for v in values)
    at = int(np.argmax(excess))
    return Choice(sure, bold, event(at, values[1]), float(excess.ravel()[at]) - handicap / math.sqrt(n_fit))


def choose_event(statistics: Sequence[Statistic], a: Floats, b: Floats, aim: Aim) -> Event | None:
    """The best event over all statistics. ``a``, ``b``: training outputs, (n, width). None only when every score is constant.

    With a claim: the event of the largest sure prediction if that exceeds it, since it gives the largest bound. Else the one of the
    largest score against the claim, if that is clear on the training runs. Else the bold prediction if it exceeds the claim. Else, with
    any hope left, the score. Without a claim or hope: the bold prediction."""
    choices = [c for c in (_judge(s, a, b, aim) for s in statistics) if c is not None]
    if not choices:
        return None
    sure = max((c.sure for c in choices), key=lambda e: e.predicted)
    bold = max((c.bold for c in choices), key=lambda e: e.predicted)
    best = max(choices, key=lambda c: c.excess)
    if aim.value is None:
        return bold
    if sure.predicted > aim.value:
        return sure
    if best.excess * math.sqrt(min(len(a), len(b))) > _CLEAR:
        return best.close
    if bold.predicted > aim.value or best.excess * math.sqrt(aim.n_test) < 0.5:
        return bold
    return best.close


_CLEAR = 5.5  # standard errors on the training runs; the largest of many scores is lucky by one or two


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
    choice = best_thresholds(s.name, whole, sa, sb, aim, s.handicap)
    if choice is None:
        return None
    judged, refitted = np.concatenate([sa, sb]), np.concatenate([whole(a), whole(b)])
    sure, bold, close = (_carry_over(e, judged, refitted) for e in (choice.sure, choice.bold, choice.close))
    return Choice(sure, bold, close, choice.excess)


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
