"""The shuffle model: every unit sends one report of a local randomizer, and only the multiset of the reports is seen.

Above, k-ary randomized response: with probability k (1 - keep)/(k - 1) a report is a uniform value, whatever was asked (its blanket: Balle,
Bell, Gascon, Nissim 2019). An observer who knows all other inputs and which reports were blanket sees, of the reports that are one of the
two values in question, how many are which: N uniform among the two, and the report of the unit. Any other epsilon-DP report: a report of
another unit is a copy of either of the two with probability e^-epsilon in all (Feldman, McMillan, Talwar 2021, Theorem 3.1). Fewer such
reports show more, so that N may be rounded down. Below: all other units hold one value, and how often the other one is reported is counted.
"""

from __future__ import annotations

import math

import numpy as np

from dpspec.audit.component import NOTHING, Component, Context, Missing, assuming
from dpspec.audit.event import Event
from dpspec.audit.events import inner
from dpspec.audit.kinds import BODY, Kind
from dpspec.audit.pairs import Array, Atoms, randomized_response

KIND = Kind(
    "reports of a local randomizer, one a unit, seen without order or sender",
    (*BODY, "n"),
    (BODY, ("n",)),
    aliases=("shuffle_model", "shuffled_responses"),
    attained="two values of one unit where all others hold one of them",
)
EXAMPLE = {"type": "shuffled_reports", "n": 1000, "event": {"type": "randomized_response", "categories": 2, "epsilon": 2}}
RELATION = "replace_one"

_GROUPS = 240  # rows of N that are told apart
_POINTS = 4000


def model(event: Event, context: Context) -> list[Component]:
    n = event.number("n")
    if n is None:
        raise Missing("n")
    found = inner(event, context)
    if context.neighbouring not in ("replace_one", "local_replace"):
        why = f"{event.what}: that a unit reports at all is seen in the number of reports; state replace_one"
        return [Component(event.what, unknown=why)]
    one = found[0]
    pure = math.fsum(c.pure * c.count for c in found)
    if any(c.unknown or c.slack or c.breach is not None for c in found) or not math.isfinite(pure):
        return found  # shuffling takes nothing away
    if pure == 0:
        return [NOTHING]
    keep, other, blanket = _report(event, pure)
    response = keep is not None and len(found) == 1 and one.count == 1
    top = min(pure, 700.0)
    if keep is None or not response:
        keep, other, blanket = 1 / (1 + math.exp(-top)), 1 / (1 + math.exp(top)), math.exp(-top)
    over = _with_blanket(int(n), keep, other, blanket) if pure < 30 else randomized_response(pure) if pure < 500 else None
    under = _counted(int(n), keep, other) if response and pure < 30 else None
    low = pure if response else 0.0
    got = Component(event.what, pure=pure, pure_at_least=low, rho=pure**2 / 2, over=over, under=under, how="shuffled reports")
    return assuming([got], *(c.assumes for c in found))


def _report(event: Event, pure: float) -> tuple[float | None, float, float]:
    """(keep, the probability of one other value, probability of a uniform one of the two values) of randomized response."""
    if len(event.inner) != 1 or event.inner[0].kind != "randomized_response" or event.inner[0].count != 1:
        return None, 0.0, 0.0
    k = event.inner[0].number("categories") or 2.0
    keep = math.exp(pure) / (math.exp(pure) + k - 1) if pure < 700 else 1.0
    other = (1 - keep) / (k - 1)
    stated = event.inner[0].number("keep")
    if stated is not None and stated < (1 - stated) / (k - 1):
        return None, 0.0, 0.0  # lies more often than another value: no blanket of this form
    return keep, other, 2 * other


def _window(n: int, p: float) -> tuple[int, int]:
    """Numbers beyond which a binomial has less than 1e-19 of its mass on either side (Bernstein)."""
    half = 10 * math.sqrt(n * p * (1 - p)) + 60
    return max(math.floor(n * p - half), 0), min(math.ceil(n * p + half), n)


def _with_blanket(n: int, keep: float, other: float, blanket: float) -> Atoms:
    """The pair of (N, how many of them are the first value), N rounded down to some hundred numbers; both masses on a grid of losses."""
    from scipy.stats import binom

    low, high = _window(n - 1, blanket)
    starts = np.unique(np.linspace(low, high + 1, min(_GROUPS, high - low + 1) + 1).astype(int))
    masses = np.diff(binom.cdf(starts - 1, n - 1, blanket))
    sure = 1 - float(masses.sum())  # a tail on either side: as if nothing hid the report
    rest = max(1 - keep - other, 0.0)
    all_p, all_q = [np.array([sure, 0.0])], [np.array([0.0, sure])]
    for count, mass in zip(starts[:-1], masses, strict=True):
        if mass <= 0:
            continue
        a, b = _window(int(count), 0.5)
        x = np.arange(a, b + 2)
        same, less = binom.pmf(x, count, 0.5), binom.pmf(x - 1, count, 0.5)
        all_p += [mass * (keep * less + other * same)]
        all_q += [mass * (other * less + keep * same)]
        if rest > 0:  # the report is neither of the two
            all_p += [np.array([mass * rest])]
            all_q += [np.array([mass * rest])]
    return _gridded(np.concatenate(all_p), np.concatenate(all_q))


def _gridded(p: Array, q: Array) -> Atoms:
    """Outputs moved to the two next points of a symmetric grid of losses with both masses kept, which dominates (connect the dots)."""
    finite = (p > 0) & (q > 0)
    sure_p, sure_q = 1 - float(p[finite].sum()), 1 - float(q[finite].sum())
    p, q = p[finite], q[finite]
    loss = np.log(p) - np.log(q)
    top = float(np.abs(loss).max())
    step = 2 * top / _POINTS
    at = np.clip(np.floor((loss + top) / step).astype(int), 0, _POINTS - 1)
    lower = -top + at * step
    share = np.clip((np.exp(lower - loss) - math.exp(-step)) / -math.expm1(-step), 0.0, 1.0)
    mass = np.bincount(at, weights=p * share, minlength=_POINTS + 1) + np.bincount(at + 1, weights=p * (1 - share), minlength=_POINTS + 1)
    points = -top + np.arange(_POINTS + 1) * step
    return Atoms(
        (max(sure_p, 0.0), *mass.tolist(), 0.0),
        (0.0, *(mass * np.exp(-points)).tolist(), max(sure_q, 0.0)),
    )


def _counted(n: int, keep: float, other: float) -> Atoms:
    """The number of reports of a value that no other unit holds, for a unit that holds it and for one that does not."""
    from scipy.stats import binom

    low, high = _window(n - 1, other)
    x = np.arange(low, high + 2)
    same, less = binom.pmf(x, n - 1, other), binom.pmf(x - 1, n - 1, other)
    p, q = keep * less + (1 - keep) * same, other * less + (1 - other) * same
    solid = (p > 1e-25) & (q > 1e-25)
    return Atoms(tuple(p[solid].tolist()), tuple(q[solid].tolist()))


def on_relation(event: Event) -> bool:
    return True
