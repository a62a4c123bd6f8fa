"""The largest of noisy scores: its index, or its value too."""

from __future__ import annotations

import math

import numpy as np

from dpspec.audit.component import NOTHING, Breach, Component, Context, Missing, unattained
from dpspec.audit.conversions import laplace_cdf, quadrature
from dpspec.audit.event import Event
from dpspec.audit.events._selection import score
from dpspec.audit.kinds import SCORES, Kind
from dpspec.audit.pairs import Array, Atoms, GumbelPair, approximate, cells, randomized_response

KIND = Kind(
    "largest of noisy scores",
    (*SCORES, "scale", "noise", "candidates", "releases", "monotone", "decay"),
    (("scale",),),
    aliases=("report_noisy_max", "rnm"),
    attained="half of the candidates rise and half fall",
)
EXAMPLE = {"type": "noisy_max", "linf_sensitivity": 1, "scale": 2}
RELATION = "add_remove"


def model(event: Event, context: Context) -> list[Component]:
    top, scale = score(event), event.number("scale") or 0.0
    if scale == 0:
        return [Component(event.what, breach=Breach("DP620", 1.0, f"{event.what}: no noise on the scores"))] if top > 0 else [NOTHING]
    noise = str(event.fields.get("noise", "laplace"))
    candidates = event.number("candidates")
    factor = 1.0 if event.fields.get("monotone") is True else 2.0
    releases = event.fields.get("releases", "index")
    if releases in ("value", "both"):
        found = _with_value(event.what, top / scale, noise, candidates, releases == "both" and candidates != 1, factor)
        # of a falling sensitivity only the first use is shown
        return [unattained(c) for c in found] if event.number("decay") else found
    if candidates == 1:
        return [NOTHING]
    if noise not in ("laplace", "gumbel", "exponential"):
        raise Missing("a noise law that is modelled (laplace, gumbel, exponential)")
    found = []
    decay = event.number("decay")
    for most, least, uses in _decaying(top, decay, event.count):
        epsilon = factor * most / scale
        pair = None
        if noise in ("laplace", "gumbel"):
            # the raised half leads by half of the relative move under one data set and trails by it under the other
            # (a smaller move is allowed too; it keeps the losing probability far above the error of the quadrature)
            win = half_win(int(candidates or 2), min(factor / 2 * least / scale, 12.0), noise)
            pair = Atoms((win, 1 - win), (1 - win, win))
        found.append(
            Component(
                event.what,
                uses,
                pure=epsilon,
                pure_at_least=0.0 if pair is None else math.log(pair.p[0] / pair.p[1]),
                rho=epsilon**2 / 8 if noise == "gumbel" else epsilon**2 / 2,
                over=randomized_response(epsilon) if 0 < epsilon < 500 else None,
                under=pair,
            )
        )
    return found


def _with_value(what: str, gap: float, noise: str, candidates: float | None, index: bool, factor: float) -> list[Component]:
    """The value of the largest noisy score, with its index or without. ``gap``: the sensitivity in units of the noise."""
    if noise == "gumbel":
        # the maximum is Gumbel noise on a soft maximum, which moves by the sensitivity, and says nothing on which candidate it was
        pair = GumbelPair(gap)
        value = Component(what, pure_at_least=math.inf, over=pair, under=pair)
        epsilon = factor * gap
        chosen = Component(f"{what}: index", pure=epsilon, rho=epsilon**2 / 8, over=randomized_response(epsilon) if epsilon < 500 else None)
        return [value, chosen] if index else [value]
    if noise not in ("laplace", "exponential"):
        raise Missing("a noise law that is modelled (laplace, gumbel, exponential)")
    if candidates is None:
        raise Missing("candidates")
    n = int(candidates)
    if noise == "exponential":
        # one-sided noise: when all scores rise by the sensitivity, smaller outputs are impossible; one score far ahead shows the most
        chance = -math.expm1(-gap)
        why = f"{what}: exponential noise is never negative, so a value below the largest score of a neighbour shows which data set it was"
        slack = -math.expm1(-n * gap)
        over = approximate(n * gap, slack) if slack < 1 and n * gap < 500 else None
        under = Atoms((chance, 1 - chance), (0.0, 1.0))
        return [Component(what, pure=n * gap, slack=slack, over=over, under=under, breach=Breach("DP642", chance, why))]
    # left tail of the maximum: density ~ exp(n x/b); a shift of all queries by Delta gives exp(n Delta/b), the bound of n releases
    epsilon = n * gap
    over = randomized_response(epsilon) if epsilon < 500 else None
    how = "the value of the largest noisy answer costs as much as all answers"
    low = _value_of_max(n, gap)
    return [Component(what, pure=epsilon, pure_at_least=epsilon, rho=epsilon**2 / 2, over=over, under=low, how=how)]


def half_win(candidates: int, gap: float, noise: str) -> float:
    """P(the largest noisy score lies in the raised half) when half of ``candidates`` scores are ``gap`` noise units above the rest."""
    half = max(candidates // 2, 1)
    if noise == "gumbel":
        return 1 / (1 + math.exp(-gap))
    if noise != "laplace":
        raise Missing("a noise law that is modelled (laplace or gumbel)")

    def density(x: Array) -> Array:  # of the best of the raised half, times P(all others are below)
        log_cdf = np.where(x < 0, x - math.log(2), np.log1p(-np.exp(-np.abs(x)) / 2))
        y = x + gap
        log_other = np.where(y < 0, y - math.log(2), np.log1p(-np.exp(-np.abs(y)) / 2))
        return np.asarray(half * np.exp(-np.abs(x)) / 2 * np.exp((half - 1) * log_cdf + half * log_other), dtype=float)

    top = math.log(half) + 45.0
    knots = sorted({-45.0, -gap, 0.0, *np.linspace(-45.0, top, 60).tolist()})
    return quadrature(density, knots, 24)


def _decaying(top: float, decay: float | None, count: int) -> list[tuple[float, float, int]]:
    """(largest, smallest sensitivity, uses) of runs of a schedule top*(1-decay)^j, j < count; one run of one use without decay."""
    if not decay:
        return [(top, top, 1)]
    length = max(count // 100, 1)
    runs = []
    for start in range(0, count, length):
        stop = min(start + length, count)
        runs.append((top * (1 - decay) ** start, top * (1 - decay) ** (stop - 1), stop - start))
    return runs


def _value_of_max(n: int, gap: float) -> Atoms:
    """The largest of n Laplace variables against all of them moved by ``gap`` noise units."""

    def cdf(x: Array) -> Array:
        return laplace_cdf(x, 1.0) ** n

    return cells(lambda x: cdf(x - gap), cdf, -40.0, 45.0 + gap, 20001)


def uses(event: Event) -> int:
    """Runs of a falling sensitivity carry their own counts."""
    return 1 if event.number("decay") and event.fields.get("releases", "index") == "index" else event.count
