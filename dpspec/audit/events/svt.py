"""The sparse vector technique."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dpspec.audit.component import NOTHING, Breach, Component, Context, Family, Missing, event_pairs
from dpspec.audit.conversions import gauss_legendre
from dpspec.audit.event import Event
from dpspec.audit.events._additive import ratio
from dpspec.audit.kinds import WHOLE, Kind, Sort
from dpspec.audit.pairs import Array, randomized_response

KIND = Kind(
    "sparse vector technique",
    ("sensitivity", "threshold_scale", "query_scale", "queries", "cutoff", "monotone", "releases"),
    (("sensitivity",), ("threshold_scale",), ("query_scale",)),
    sorts={
        "releases": Sort("", form="word", words=("index", "value")),
        "queries": Sort(WHOLE.title, 1, 2.0**53, True, words=("unbounded",)),
    },
    aliases=("sparse_vector", "above_threshold"),
    attained="queries that rise before the threshold is met and fall behind it, or the reverse",
)
EXAMPLE = {"type": "svt", "sensitivity": 1, "threshold_scale": 2, "query_scale": 4, "cutoff": 1, "queries": 9}
RELATION = "add_remove"


def model(event: Event, context: Context) -> list[Component]:
    top = event.number("sensitivity")
    if top is None:
        raise Missing("sensitivity")
    if top == 0:
        return [NOTHING]
    b1, b2 = event.number("threshold_scale") or 0.0, event.number("query_scale") or 0.0
    queries, cutoff = event.number("queries"), event.number("cutoff")
    if b2 == 0:
        gap = -math.expm1(-top / b1) / 2 if b1 > 0 else 1.0
        why = f"{event.what}: the queries carry no noise, so (below, above) on queries 0 and {top:g} is impossible for the swapped answers"
        return [Component(event.what, breach=Breach("DP634", gap, why))]
    if event.fields.get("queries") == "unbounded" and cutoff is None:
        # of many queries 0, then as many at the sensitivity, the shares above the threshold differ one way, for the neighbour the other way
        why = f"{event.what}: without a cut-off and a limit on the queries the shares of positives tell any two neighbours apart"
        return [Component(event.what, breach=Breach("DP634", 1.0, why))]
    if b1 == 0 and queries is None:
        raise Missing("queries")
    most = min(x for x in (queries, cutoff, math.inf) if x is not None)
    monotone = event.fields.get("monotone") is True
    upper = ratio(top, b1) + (1.0 if monotone else 2.0) * most * top / b2
    if queries is not None:
        upper = min(upper, queries * top / b2)  # the threshold noise ignored: a post-processing of noisy answers
    lower, under = 0.0, None
    if event.fields.get("releases") == "value":
        # the noisy answer that was compared: a value far below 0 shows that the threshold lay lower still, and then every earlier answer
        # and the value itself move by top/b2. All noisy answers together cost no more; the threshold is noise of its own
        upper = queries * top / b2 if queries is not None else math.inf
        lower = upper
    elif b1 > 0:
        lower, under = _shown(b1, b2, top, queries, cutoff, monotone)
        lower = min(lower - 1e-9, upper)  # the error of the quadrature
    unknown = "" if math.isfinite(upper) else "no cut-off and no number of queries: the loss grows linearly with the positives"
    over = randomized_response(upper) if 0 < upper < 500 else None
    found = Component(event.what, pure=upper, pure_at_least=max(lower, 0.0), rho=upper**2 / 2, over=over, under=under)
    return [replace(found, unknown=unknown, how="DP634")]


def _shown(b1: float, b2: float, top: float, queries: float | None, cutoff: float | None, monotone: bool) -> tuple[float, Family | None]:
    """The largest log-ratio of one pattern of answers, some below and then some above, and these patterns as pairs of two outputs."""
    moves = ("first", "others") if monotone else ("apart",)
    n = int(min(queries if queries is not None else 2 * (cutoff or 50), 400))
    above_most = int(min(cutoff, n) if cutoff is not None else n)
    lower, pairs = 0.0, []
    for above in {min(max(n // 2, 1), above_most), above_most, 1}:
        for below in {n - above, min(above, n - above)}:
            if below < 0 or (cutoff is not None and above > cutoff):
                continue
            for move in moves:
                p, q = svt_chances(b1, b2, top, below, above, move)
                lower = max(lower, p - q)
                pairs.append((math.exp(p), math.exp(q)))
    kept = event_pairs((p, q) for p, q in pairs if min(p, q) > 1e-290)
    return lower, Family(kept) if kept else None


def svt_split(b1: float, b2: float, top: float, below: int, above: int, move: str = "apart") -> float:
    """ln of the ratio of the two numbers of :func:`svt_chances`."""
    first, second = svt_chances(b1, b2, top, below, above, move)
    return first - second


def svt_chances(b1: float, b2: float, top: float, below: int, above: int, move: str = "apart") -> tuple[float, float]:
    """ln P(``below`` times below, then ``above`` times above) under two data sets.

    ``move``: ``apart``, the first queries rise by ``top`` and the others fall by it; ``first`` or ``others``, only those move, as
    monotone queries do.
    """
    falling, rising = {"apart": ((0.0, top), (top, 0.0)), "first": ((0.0, 0.0), (top, 0.0)), "others": ((0.0, top), (0.0, 0.0))}[move]
    # beyond these the threshold's density or a power of the distribution function decides alone
    high = 60 * b1 + b2 * (math.log(max(below, 1)) + 45) + top
    low = -(60 * b1 + b2 * (math.log(max(above, 1)) + 45) + top)
    near = [c + b * x for b in (b1, b2) for x in np.linspace(-50, 50, 201).tolist() for c in (0.0, top)]
    knots = sorted(x for x in {*np.linspace(low, high, 400).tolist(), *near, 0.0, top / 2, top} if low <= x <= high)
    x, w = gauss_legendre(16)
    left, right = np.array(knots[:-1]), np.array(knots[1:])
    half = (right - left) / 2
    t = ((left + right) / 2)[:, None] + half[:, None] * x
    log_weight = np.log(half[:, None] * w)

    density = log_weight - np.abs(t - top / 2) / b1 - math.log(2 * b1)

    def log_chance(first: float, second: float) -> float:
        f = density + below * _log_laplace_cdf((t - first) / b2) + above * _log_laplace_cdf((second - t) / b2)
        peak = float(f.max())
        return peak + math.log(float(np.exp(f - peak).sum()))

    return log_chance(*falling), log_chance(*rising)


def _log_laplace_cdf(z: Array) -> Array:
    found = z - math.log(2)
    right = z >= 0
    with np.errstate(under="ignore"):
        found[right] = np.log1p(-np.exp(-z[right]) / 2)
    return found
