"""Limits of an account, and the filters that keep them when every next release is chosen after seeing all earlier ones.

**Why filters.** Ordinary composition theorems fix the budget of every step in advance. An analyst who reads a result and then decides how
much to spend on the next one is outside of them (Rogers, Roth, Ullman, Vadhan 2016). A *filter* is a rule that admits or stops, seeing what
was spent, and whose stopped process keeps the limit whatever the choices:

``basic``
    sum of epsilon at most E, sum of delta at most D: (E, D)-DP (Rogers et al. 2016: basic composition is a filter). Exact for
    pure limits.
``zcdp``
    sum of rho at most R: R-zCDP (the Renyi filter of Feldman, Zrnic 2021, for all orders at once; Whitehouse, Ramdas, Rogers, Wu 2023 with
    failing draws). Exact: no fixed sequence of zCDP steps has more room.
``renyi:A``
    sum of the Renyi divergences of order A at most B: that divergence at most B (Feldman, Zrnic 2021; Lecuyer 2021). Proof:
    e^((A - 1)L_t - (A - 1)(sum up to t)) is a supermartingale under P, and the sum is known before step t is drawn.
``gdp``
    sum of mu^2 at most M^2: M-GDP (Koskela, Tobaben, Honkela 2022; Smith, Thakurta 2022). Exact for Gaussian noise.

For privacy-loss distributions and for optimal composition no filter is known, only odometers and totals of sequences that were fixed in
advance. So nothing is admitted by them: the ledger reports that total (:mod:`dpspec.ledger.totals`) and admits by filters.

**Several filters at once.** An (epsilon, delta) account runs filters f with parts of delta, delta_f, and admits a release when at least one
of them has still room, counted from the beginning. Let A_f be the transcripts on which f never overflowed. They cover all transcripts that
the account lets happen. On A_f the process equals the one that f alone would have stopped, which is (epsilon, delta_f)-DP, so for every
event S P(S and A_f) <= e^epsilon Q(S and A_f) + delta_f; cutting the transcripts into disjoint subsets of the A_f and adding up gives
(epsilon, sum of delta_f)-DP. ``basic`` needs no delta of its own for pure draws. Deltas of failing draws are counted once,
in their own part, since an overall failure has at most the probability of their sum (a filter by itself: the sum is bounded before each
step). A window restarts the filters; it is a rule about what may be spent in it, and the guarantee over several windows is their
composition.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpspec.ledger.costs import UNIT, Cost, number
from dpspec.privacy import gaussian
from dpspec.privacy.gaussian import exact

#: Parts of delta of an (epsilon, delta) account: for failing draws, and of the rest for each filter.
FAILING, GDP, RENYI = Fraction(1, 10), Fraction(6, 10), Fraction(4, 10)
FILTERS = ("any", "basic", "gdp", "zcdp", "renyi")


class LimitError(ValueError):
    """A limit that is none. The message says why."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Room for ``bound`` units of ``measure``; ``delta``: the part of delta that turns it into the account's statement (0: none)."""

    measure: str
    bound: int
    delta: Fraction = Fraction(0)

    def to_json(self) -> dict[str, Any]:
        return {"measure": self.measure, "bound": str(self.bound), "delta": str(self.delta)}

    @staticmethod
    def of_json(data: Mapping[str, Any]) -> Filter:
        return Filter(str(data["measure"]), int(data["bound"]), Fraction(data["delta"]))


@dataclass(frozen=True, slots=True)
class Point:
    """One statement of a limit, ``{"epsilon": .., "delta": ..}``, ``{"rho": ..}`` or ``{"mu": ..}``, kept while one of ``filters`` has room
    and the failing draws have spent at most ``failing`` units of delta."""

    stated: Mapping[str, str]
    filters: tuple[Filter, ...]
    failing: int

    def to_json(self) -> dict[str, Any]:
        return {"stated": dict(self.stated), "filters": [f.to_json() for f in self.filters], "failing": str(self.failing)}

    @staticmethod
    def of_json(data: Mapping[str, Any]) -> Point:
        filters = tuple(Filter.of_json(f) for f in data["filters"])
        return Point({str(k): str(v) for k, v in data["stated"].items()}, filters, int(data["failing"]))


@dataclass(frozen=True, slots=True)
class Limit:
    """Every point must be kept: one for a single statement, several for a profile."""

    points: tuple[Point, ...]

    def measures(self) -> tuple[str, ...]:
        return tuple(sorted({f.measure for p in self.points for f in p.filters} | {"delta"}))

    def empty(self) -> Cost:
        return dict.fromkeys(self.measures(), 0)

    def to_json(self) -> list[dict[str, Any]]:
        return [p.to_json() for p in self.points]

    @staticmethod
    def of_json(data: Sequence[Mapping[str, Any]]) -> Limit:
        return Limit(tuple(Point.of_json(p) for p in data))


def make_limit(
    *,
    epsilon: str | None = None,
    delta: str | None = None,
    rho: str | None = None,
    mu: str | None = None,
    profile: Sequence[tuple[str, str]] = (),
    filters: str = "any",
) -> Limit:
    """The limit that numbers in text state. Raises :class:`LimitError`."""
    named = [w for w, v in (("epsilon", epsilon), ("rho", rho), ("mu", mu), ("profile", profile or None)) if v is not None]
    if len(named) != 1:
        raise LimitError(f"a limit is one of epsilon (with or without delta), rho, mu and a profile, not {' and '.join(named) or 'none'}")
    if filters not in FILTERS:
        raise LimitError(f"filters are {', '.join(FILTERS)}, not {filters!r}")
    if delta is not None and epsilon is None:
        raise LimitError("a delta belongs to an epsilon")
    if named[0] in ("rho", "mu"):
        word, text = (named[0], rho if rho is not None else mu)
        value = _positive(word, text)
        if filters not in ("any", {"rho": "zcdp", "mu": "gdp"}[word]):
            raise LimitError(f"a limit in {word} has one filter, and it is exact; {filters} belongs to an (epsilon, delta) limit")
        bound = math.floor(value * UNIT) if word == "rho" else math.floor(value**2 * UNIT)
        return Limit((Point({word: str(text)}, (Filter("rho" if word == "rho" else "mu2", bound),), 0),))
    pairs = list(profile) if profile else [(str(epsilon), delta or "0")]
    return Limit(tuple(_point(e, d, filters) for e, d in pairs))


def _positive(word: str, text: Any) -> Fraction:
    try:
        value = exact(str(text))
    except (ValueError, ZeroDivisionError):
        raise LimitError(f"{word} = {text!r} is not a number") from None
    if not 0 < value <= 10**6:
        raise LimitError(f"{word} = {text} is not between 0 and a million")
    return value


def _point(epsilon: str, delta: str, filters: str) -> Point:
    e = _positive("epsilon", epsilon)
    try:
        d = exact(delta)
    except (ValueError, ZeroDivisionError):
        raise LimitError(f"delta = {delta!r} is not a number") from None
    if not 0 <= d < 1:
        raise LimitError(f"delta = {delta} is outside [0, 1)")
    basic = Filter("epsilon", math.floor(e * UNIT))
    stated = {"epsilon": epsilon, "delta": delta}
    if d == 0 or filters == "basic":
        if d == 0 and filters not in ("any", "basic"):
            raise LimitError(f"a pure limit is kept by the sum of epsilon alone; {filters} needs a delta")
        return Point(stated, (basic,), math.floor(d * UNIT))
    failing, rest = d * FAILING, d * (1 - FAILING)
    kinds = {"any": ("basic", "gdp", "renyi"), "gdp": ("gdp",), "zcdp": ("zcdp",), "renyi": ("renyi",)}[filters]
    share = {"gdp": GDP, "renyi": RENYI} if filters == "any" else {filters: Fraction(1)}
    found = [basic] if "basic" in kinds else []
    if "gdp" in kinds:
        part = rest * share["gdp"]
        found.append(Filter("mu2", math.floor(Fraction(gaussian.mu_of(e, part)) ** 2 * UNIT), part))
    if "zcdp" in kinds:
        from dpspec.privacy.guarantees import zcdp_rho

        found.append(Filter("rho", math.floor(Fraction(zcdp_rho(e, rest)) * UNIT), rest))
    if "renyi" in kinds:
        found += _renyi(e, rest * share["renyi"])
    return Point(stated, tuple(f for f in found if f.bound > 0), math.floor(failing * UNIT))


def _renyi(epsilon: Fraction, delta: Fraction) -> list[Filter]:
    """Four orders, each with a quarter of delta: that at which a Gaussian release is best, 1 + 2 log(1/delta)/epsilon, and smaller ones,
    which sampling wants."""
    part = delta / 4
    best = 2 * max(1.0, -math.log(float(part))) / float(epsilon)
    orders = sorted({Fraction(1) + max(Fraction(round(best * share * 8), 8), Fraction(1, 8)) for share in (1, 0.5, 0.25, 0.125)})
    return [Filter(f"renyi:{order}", _bound(order, epsilon, delta / len(orders)), delta / len(orders)) for order in orders]


def _bound(order: Fraction, epsilon: Fraction, delta: Fraction) -> int:
    """The largest divergence of ``order`` that is (epsilon, delta)-DP, rounded down: epsilon - log(1 - 1/A) - (log(1/delta) - log A)/(A -
    1) (Canonne, Kamath, Steinke 2020, Proposition 12)."""
    with gaussian._precision(128) as flint:
        a = gaussian._ball(flint, order)
        value = gaussian._ball(flint, epsilon) - (-1 / a).log1p() - (-gaussian._ball(flint, delta).log() - a.log()) / (a - 1)
        return max(0, math.floor(Fraction(gaussian._lower(flint, value)) * UNIT))


# ------------------------------------------------------------------------------------------------------------------- room


def open_filters(point: Point, total: Mapping[str, int]) -> tuple[Filter, ...]:
    """The filters of a point that have never overflowed, by the totals, which only grow; none when the failing draws overflowed."""
    failed = total["delta"]
    return () if failed > point.failing else tuple(f for f in point.filters if total[f.measure] <= f.bound)


def fits(limit: Limit, total: Mapping[str, int]) -> bool:
    """Whether every point has a filter with room for ``total``."""
    return all(open_filters(point, total) for point in limit.points)


def used(limit: Limit, total: Mapping[str, int]) -> float:
    """The share of the limit that is spent: of the tightest point, by its filter with the most room."""
    shares = [0.0]
    for point in limit.points:
        by = [number(total[f.measure]) / (f.bound / UNIT) for f in point.filters]
        failed = number(total["delta"])
        of_failing = 0.0 if not failed else failed / (point.failing / UNIT) if point.failing else math.inf
        shares.append(max(min(by, default=math.inf), of_failing))
    return max(shares)


def left(limit: Limit, total: Mapping[str, int]) -> list[dict[str, Any]]:
    """For each point, in the account's own terms, what one more release may spend: a pure epsilon, a mu or a rho, by the filters that are
    open; numbers are rounded down."""
    out = []
    for point in limit.points:
        row: dict[str, Any] = {"of": dict(point.stated)}
        for f in open_filters(point, total):
            room = Fraction(f.bound - total[f.measure], UNIT)
            if f.measure == "mu2":
                row["mu"] = gaussian.sqrt_down(room)
            else:
                row[f.measure] = gaussian.float_down(room)
        failed = total["delta"]
        if point.failing and failed <= point.failing:
            row["delta of failing draws"] = gaussian.float_down(Fraction(point.failing - failed, UNIT))
        if "mu" in row and "epsilon" in point.stated and exact(point.stated["delta"]) > 0 and row["mu"] > 0:
            row["epsilon at its delta"] = _implied(row["mu"], exact(point.stated["delta"]))
        out.append(row)
    return out


def _implied(mu: float, delta: Fraction) -> float:
    """What a Gaussian release of this mu states at the account's delta, rounded down to six digits."""
    value = gaussian.epsilon_of(mu, delta)
    if value <= 0 or not math.isfinite(value):
        return value
    digits = 6 - math.ceil(math.log10(value))
    return float(Fraction(math.floor(Fraction(value) * Fraction(10) ** digits)) / Fraction(10) ** digits)
