"""Mean of records from one report a user (non-interactive local model): an unbiased channel, averaged.

    user i: R_i = report of x_i - c through a channel with E R_i = x_i - c and ratio e^epsilon;   server: c + (1/n) sum_i R_i.

``channel`` is the one of least predicted error for the domain and the budget (``auto``), or one of

* ``one-bit`` (d = 1): the sign of x - c at random response, length B = half*coth(epsilon/2);
* ``sampled-coordinate``: that sign of one coordinate, drawn without a look at the record; length B = d*half*coth(epsilon/2);
* ``hemisphere``, ``priv-unit`` (d >= 2): a random direction that leans towards x - c, of length B, for the l2 ball of radius r;
* ``laplace``: x - c plus Laplace noise of scale b, b = 2*half*d/epsilon over a cube;
* ``gaussian``: x - c in the ball of radius r plus N(0, s^2 I), s = 2 r/mu; the only one without a pure epsilon.

Privacy: each client brings x - c into its channel's set whatever the record holds, so any two records of a user have reports within
(epsilon, delta): local, replace-one; one report a user, no composition. c, half and r are public.

Error. The reports are independent with mean mu - c (mu the mean of the law), so E|error|_2^2 = E|R - E R|_2^2/n, at most

    V/n,   V = B^2 for reports of length B,   d*s^2 + r^2 (Gaussian),   2*d*b^2 + d*half^2 (Laplace over the cube),

and with probability 1 - zeta, reports of length B: |error|_2 <= B*(1 + sqrt(2 log(1/zeta)))/sqrt(n) (bounded differences 2B/n). Other
channels: Gaussian concentration, and Chernoff's bound of Laplace sums, log E exp(tX) <= 2 b^2 t^2 for |t| <= 1/(sqrt(2) b). Coordinates:
Bernstein (variance about B^2/d) for vectors, Hoeffding for one bit. All of this is about the law, the sampling
error of the records is part of it; for a fixed data set V is smaller by the spread of the records.

Source: 000, section 5.1.2, Algorithm 5.1.30, Lemma 5.1.1 (one number in [0, b] plus Laplace(b/epsilon)) and section 5.1.3, Lemma 5.1.6
(a vector: users are dealt to the coordinates). Differences: c = b/2 for records of [0, b]: with the same b/epsilon for Laplace and half of
the length for the other channels. The document's vector protocol averages over the users that fell to a coordinate, which has no value
where none did; here a coordinate's reports are summed and divided by the public n/d, unbiased for any n.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.sets import Vector, constraint_set
from dpspec.models.door import Door
from dpspec.models.features import Feature, Shifted
from dpspec.models.rows import Rows
from dpspec.privacy.channels.gaussian_vector import GaussianVector
from dpspec.privacy.channels.hemisphere import Hemisphere
from dpspec.privacy.channels.laplace_vector import LaplaceVector
from dpspec.privacy.channels.one_bit import OneBitMean
from dpspec.privacy.channels.priv_unit import PrivUnit, best_cap
from dpspec.privacy.channels.protocol import Channel
from dpspec.privacy.channels.sampled_coordinate import SampledCoordinate
from dpspec.privacy.gaussian import mu_of
from dpspec.privacy.schedule import Draw, Tree

_EVIDENCE = "tests/algorithms/nldp_erm/test_ldp_mean.py::"

#: In the order in which a tie is decided.
PURE: Final = ("one-bit", "sampled-coordinate", "priv-unit", "hemisphere", "laplace")
#: A cap is drawn by rejection from directions: smaller ones take too long, and the channel refuses below 1e-4.
LEAST_CAP: Final = 2e-4

SQUARED: Final = "second moment of a report"
LONG: Final = "bounded differences of the reports, Gaussian and Laplace tails"
COORDINATES: Final = "Bernstein, Hoeffding and Chernoff bounds of one coordinate, d of them"

CARD = Card(
    id="ldp-mean",
    title="Mean from one unbiased report a user",
    family="nldp_erm",
    task="mean",
    models=("nldp", "sldp"),
    guarantees=("pure", "approx", "zcdp", "gdp"),
    sources=(
        Source("000", "5.1.2", "Algorithm 5.1.30", ("Lemma 5.1.1", "Lemma 5.1.12")),
        Source("000", "5.1.3", "LDP-AVG for vectors", ("Lemma 5.1.6",)),
    ),
    summary="Each user sends one report through the channel of least error for its domain and budget; the server averages.",
    needs=(Need("x", "privacy", "a report is private whatever the record holds", enforced_by="each client clips its own record"),),
    options={"channel": ("auto", *PURE, "gaussian")},
    tunables={
        "zeta": Tunable("1/20", "the probability that a bound fails", minimum=1e-12, maximum=0.5),
        "centre": Tunable(
            "(x_low + x_high)/2*floor(min(1, 2*x_l2/(sqrt(d)*(x_high - x_low)))) else 0",
            "the middle of the domain's box; 0 where the l2 ball around 0 is the smaller set",
        ),
        "half": Tunable(
            "max(x_high - centre, centre - x_low) else x_linf + abs(centre) else sigma_x*sqrt(2*log(2*n*d)) + abs(centre)"
            " else x_l2 + abs(centre)",
            "half of the range of a coordinate; the largest of n d where x is only sub-Gaussian, which no bound speaks of",
            minimum=1e-250,
            maximum=1e150,
        ),
        "r": Tunable(
            "min(x_l2 + abs(centre)*sqrt(d), half*sqrt(d)) else min(sigma_x*(sqrt(d) + sqrt(2*log(n))) + abs(centre)*sqrt(d), half*sqrt(d))"
            " else half*sqrt(d)",
            "the l2 norm of x - centre",
            minimum=1e-250,
            maximum=1e150,
        ),
    },
    bounds=(
        Bound(
            "l2-error",
            "explicit",
            "upper",
            "sampled + off",
            "proved",
            LONG,
            probability="1 - zeta",
            where={
                "sampled": "min(r, half*sqrt(d))/sqrt(n)*(1 + sqrt(2*log(2/zeta))) where noise is added to a record, else 0",
                "off": "length*(1 + sqrt(2*log(1/zeta)))/sqrt(n) of reports of that length, else the tail of the noise",
            },
        ),
        Bound(
            "squared-l2-error",
            "explicit",
            "upper",
            "V/n",
            "proved",
            SQUARED,
            conditions="in expectation",
            where={"V": "second moment of a report: its length^2, Gaussian d*scale^2 + r^2, Laplace 2*d*scale^2 + d*half^2"},
        ),
        Bound(
            "linf-error",
            "explicit",
            "upper",
            "sampled + off",
            "proved",
            COORDINATES,
            probability="1 - zeta",
            where={
                "sampled": "min(half, r)*sqrt(2*log(4*d/zeta)/n) where noise is added to a record, else 0",
                "off": "least of Hoeffding's and Bernstein's bound of a coordinate of the reports and of the l2 bound, or the noise's tail",
            },
        ),
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*r*sqrt(d)/(sqrt(n)*epsilon)",
            "proved",
            "V/n for epsilon <= 1 over the l2 ball",
            when=("epsilon <= 1",),
        ),
        Bound(
            "linf-error",
            "order",
            "upper",
            "C*half*d*sqrt(log(d/zeta))/(sqrt(n)*epsilon)",
            "proved",
            "000 Lemma 5.1.6",
            probability="1 - zeta",
            conditions="records of a cube; sqrt(d) in the place of d is true",
        ),
        Bound(
            "linf-error",
            "order",
            "upper",
            "C*half*sqrt(d*log(d/zeta)/n)*(1 + 1/epsilon)",
            "proved",
            "000 Lemma 5.1.6 with the root of d",
            probability="1 - zeta",
            conditions="records of a cube, n >= d*log(d/zeta)",
            regime="d*log(d/zeta)",
        ),
        Bound(
            "linf-error",
            "explicit",
            "upper",
            "4*half*sqrt(log(2/zeta))/(sqrt(n)*epsilon)",
            "refuted",
            "000 Lemma 5.1.1",
            probability="1 - zeta",
            conditions="d = 1, Laplace reports, n > log(2/zeta), the noise alone",
        ),
        Bound(
            "l2-error",
            "order",
            "lower",
            "C*r*sqrt(d)/(sqrt(n)*epsilon)",
            "claimed",
            "Duchi, Jordan and Wainwright 2018, Corollary 3",
            conditions="epsilon <= 1, in expectation",
            when=("epsilon <= 1",),
        ),
    ),
    faults=(
        Fault(
            "000 Lemma 5.1.1 by Lemma 5.1.12: noise above 2 b sqrt(log(2/zeta))/(sqrt(n) epsilon) has probability zeta if n > log(2/zeta)",
            "false near that limit: at n = 12, zeta = 1.4e-5 it is more likely; 2 sqrt(2) in the place of 2 holds for all n >= log(2/zeta)",
            _EVIDENCE + "test_the_printed_constant_fails_and_the_safe_one_holds",
            "utility",
        ),
        Fault(
            "000 Lemma 5.1.6: error of order d b sqrt(log(d/zeta))/(sqrt(n) epsilon)",
            "sqrt(d) is what the protocol gives",
            _EVIDENCE + "test_the_error_of_a_coordinate_grows_with_the_root_of_d",
            "utility",
        ),
        Fault(
            "000 section 5.1.3: a_j is the mean over the users that report on coordinate j",
            "there may be none; the sum over n/d is unbiased for every n",
            _EVIDENCE + "test_every_coordinate_has_a_value_with_one_user",
            "utility",
        ),
        Fault("000 Lemma 5.1.6: max over j in [d]", "over the p coordinates", "docs/faults.md#coordinates-of-a-mean", "text"),
    ),
    cost={"gradients": "0", "rounds": "1", "bits_per_user": "64*d", "memory_bytes": "8*8192*d"},
    reads="sums",
    spec="specs/nldp_erm/ldp-mean.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.task.what != "mean":
        return f"it estimates mean(x), not {p.task.what}(x)"
    if t.channel == "auto" or t.channel in offered(p, t):
        return None
    if _kind(p) in ("zcdp", "gdp"):
        return f"channel = {t.channel} is stated in epsilon; under rho and mu it sends through the Gaussian channel"
    if t.channel == "gaussian":
        return "channel = gaussian needs a delta; the budget is epsilon alone"
    if p.d == 1:
        return f"channel = {t.channel} is for vectors of two coordinates and more; channel = one-bit for a number"
    if t.channel == "one-bit":
        return f"channel = one-bit reports one number, and x has {p.d}; channel = sampled-coordinate reports one coordinate"
    return f"at epsilon = {p.facts['epsilon']:g} the caps of channel = {t.channel} are too small to be drawn; hemisphere has none"


def channel_of(word: str, p: Problem, t: Tunables) -> Channel:
    """The channel of an option word."""
    match word:
        case "one-bit":
            return OneBitMean(t.half)
        case "sampled-coordinate":
            return SampledCoordinate(p.d, t.half)
        case "hemisphere":
            return Hemisphere(p.d, t.r)
        case "priv-unit":
            return PrivUnit(p.d, t.r)
        case "laplace":
            return LaplaceVector(p.d, t.half, "linf")
        case _:
            return GaussianVector(p.d, t.r)


def offered(p: Problem, t: Tunables) -> tuple[str, ...]:
    """The channels that go with the budget and the dimension."""
    kind = _kind(p)
    if kind in ("zcdp", "gdp"):
        return ("gaussian",)
    several = {"one-bit": p.d == 1, "priv-unit": p.d > 1 and best_cap(p.d, p.facts["epsilon"]).mass >= LEAST_CAP, "hemisphere": p.d > 1}
    found = tuple(word for word in PURE if several.get(word, True) and not (p.d == 1 and word == "sampled-coordinate"))
    return (*found, "gaussian") if kind == "approx" else found


def chosen(p: Problem, t: Tunables) -> str:
    """The channel's word: of least V at the whole budget where the author leaves it open."""
    if t.channel != "auto":
        return str(t.channel)
    words = offered(p, t)
    return words[0] if len(words) == 1 else min(words, key=lambda word: second_moment(channel_of(word, p, t), level_of(word, p), t))


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("report", channel_of(chosen(p, t), p, t), per="user")


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    return Estimate(constraint_set(p.task.over, p.facts).project(average(records, t, release)))


def client(p: Problem, t: Tunables) -> dict[str, Feature]:
    return {"report": Shifted(float(t.centre))}


def average(records: Rows, t: Tunables, release: Door) -> Vector:
    """The unbiased average of the reports, shape (d,)."""
    return np.asarray(np.atleast_1d(release.mean_blocks("report", moved(records, t.centre))) + t.centre)


def moved(records: Rows, centre: float, rows: int = 8192) -> Iterator[Any]:
    """x - centre in dense blocks: each client subtracts the public centre before its channel clips."""
    for x, _ in records.blocks(rows):
        with np.errstate(over="ignore"):  # what leaves the doubles is the record 0 to its channel
            yield (x if isinstance(x, np.ndarray) else x.toarray()) - centre


# --------------------------------------------------------------------------------------------------- what is known beforehand


def _kind(p: Problem) -> str:
    """How the budget is stated; rho and mu come with a nominal epsilon beside them."""
    return next((kind for name, kind in (("rho", "zcdp"), ("mu", "gdp"), ("delta", "approx")) if name in p.facts), "pure")


def level_of(word: str, p: Problem) -> float:
    return (
        1 / p.facts["epsilon"]
        if word == "laplace"
        else 1 / mu_of(p.facts["epsilon"], p.facts["delta"])
        if word == "gaussian"
        else p.facts["epsilon"]
    )


def second_moment(channel: Any, level: float, t: Tunables) -> float:
    """V: bounds E|R - E R|_2^2 of one report over every law on the domain."""
    scale, d = channel.scale(level), channel.size
    match channel:
        case GaussianVector():
            return float(d * scale**2 + t.r**2)
        case LaplaceVector():
            return float(2 * d * scale**2 + min(d * t.half**2, t.r**2))
        case _:
            return float(scale**2)


def whole(p: Problem, t: Tunables) -> bool:
    """Whether the clients' clips leave every record of the domain as it is."""
    f = p.facts
    ends = max(f["x_high"] - t.centre, t.centre - f["x_low"]) if "x_high" in f else math.inf
    ends = min(ends, f.get("x_linf", math.inf) + abs(t.centre))
    far = min(f.get("x_l2", math.inf) + abs(t.centre) * math.sqrt(p.d), ends * math.sqrt(p.d))
    cube = chosen(p, t) in ("one-bit", "sampled-coordinate", "laplace")
    return bool(t.half >= ends * (1 - 1e-12) if cube else t.r >= far * (1 - 1e-12))


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    """By theorem; none where a client's clip may change a record of the domain. A projection on a convex set that holds the mean makes no
    l2 error larger, and no coordinate's where it goes coordinate by coordinate."""
    over = constraint_set(p.task.over, p.facts)
    each = {COORDINATES} if over.kind not in ("reals", "box", "linf") else set()
    return {name: value for name, value in tails(p, t, calibrated).items() if name not in each} if over.convex else {}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    found = tails(p, t, calibrated)
    additive = isinstance(calibrated.tree.mechanism, (GaussianVector, LaplaceVector))
    long = min(t.r, t.half * math.sqrt(p.d)) / math.sqrt(p.n) * (1 + math.sqrt(2 * math.log(2 / t.zeta))) if additive else 0.0
    one = min(t.half, t.r) * math.sqrt(2 * math.log(4 * p.d / t.zeta) / p.n) if additive else 0.0
    names: dict[str, dict[str, float]] = {SQUARED: {"V": p.n * found[SQUARED]} if found else {}, "000 Lemma 5.1.1": {}}
    for name, sampled in ((LONG, long), (COORDINATES, one)):
        if name in found:
            names[name] = {"sampled": sampled, "off": found[name] - sampled}
    return names


def tails(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    """The bounds of the average itself, by theorem."""
    if not whole(p, t):
        return {}
    draw = calibrated.tree
    channel, scale, n, d = draw.mechanism, calibrated.scale("report"), p.n, p.d
    found = {SQUARED: second_moment(channel, calibrated.levels["report"], t) / n}
    side = min(t.half, t.r)  # of a coordinate of a record around the centre
    two, four = math.log(2 * d / t.zeta), math.log(4 * d / t.zeta)
    sampled = side * math.sqrt(2 * four / n)
    spread = min(t.r, t.half * math.sqrt(d)) / math.sqrt(n) * (1 + math.sqrt(2 * math.log(2 / t.zeta)))
    match channel:
        case GaussianVector():
            found[LONG] = spread + scale * (math.sqrt(d) + math.sqrt(2 * math.log(2 / t.zeta))) / math.sqrt(n)
            found[COORDINATES] = sampled + scale * math.sqrt(2 * four / n)
        case LaplaceVector():
            if four <= n:
                tail = scale * math.sqrt(8 * four / n)
                found |= {LONG: spread + math.sqrt(d) * tail, COORDINATES: sampled + tail}
            if d == 1:
                found["000 Lemma 5.1.1"] = 4 * t.half * math.sqrt(math.log(2 / t.zeta) / n) / p.facts["epsilon"]
        case _:
            found[LONG] = scale * (1 + math.sqrt(2 * math.log(1 / t.zeta))) / math.sqrt(n)
            found[COORDINATES] = scale * math.sqrt(2 * two / n)
            if not isinstance(channel, OneBitMean):
                bernstein = scale * math.sqrt(2 * two * share(channel, calibrated.levels["report"]) / n) + 2 * (scale + side) * two / (
                    3 * n
                )
                found[COORDINATES] = min(found[COORDINATES], bernstein)
            found[COORDINATES] = min(found[COORDINATES], found[LONG])
    return found


def share(channel: Any, level: float) -> float:
    """Bounds E R_j^2/B^2 of a coordinate of a report of length B: 1/d for a sampled coordinate and the hemisphere. For a cap of height h
    around v, E u_j^2 is between E<u, v>^2 and (1 - E<u, v>^2)/(d - 1); <u, v>^2 of a uniform u has the law Beta(1/2, (d - 1)/2)."""
    d = int(channel.size)
    if not isinstance(channel, PrivUnit):
        return 1 / d
    from scipy.special import betainc

    cap = best_cap(d, level)
    far = (1 - float(betainc(1.5, (d - 1) / 2, cap.height**2))) / (2 * d)
    inside = float(cap.inside)
    square = inside / cap.mass * far + (1 - inside) / (1 - cap.mass) * (1 / d - far)
    return max(square, (1 - square) / (d - 1))


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """l2 error: the root of V/n."""
    return math.sqrt(second_moment(calibrated.tree.mechanism, calibrated.levels["report"], t) / p.n)


def warnings(p: Problem, t: Tunables, calibrated: Any) -> list[str]:
    if whole(p, t):
        return []
    return [
        f"clients clip x - {t.centre:g} at {t.half:g} a coordinate and at norm {t.r:g}, and x may lie outside: that bias is in no bound"
    ]


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    """000, Algorithm 5.1.30: the same noise, on v in [0, b] with b = 2 half."""
    if budget.kind != "pure" or p.d > 1 or chosen(p, t) != "laplace":
        return ()
    e = float(budget.epsilon_exact)
    return (Published("000 Algorithm 5.1.30", "report", "b/epsilon", 2 * t.half / e, e, "b the length of the range"),)
