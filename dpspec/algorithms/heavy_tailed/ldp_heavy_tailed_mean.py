"""Mean of records with two moments from one report a user (non-interactive local model): the kernel of dp-catoni-mean on the client.

    user i: m_ij = s E phi(x_ij (1 + eta)/s), eta ~ N(0, 1/beta), phi(a) = a - a^3/6 cut at |a| = sqrt(2); a report R_i of m_i;
    server: (1/n) sum_i R_i.

Each m_ij lies in [-half, half], half = cap*s, cap = (2 sqrt(2)/3) erf(sqrt(beta/2)), whatever a record holds, and R_i is unbiased for m_i:

* ``channel = bit``: the sign of one coordinate, drawn without a look at the record, at random response, d*half*coth(epsilon/2) long;
* ``channel = gaussian`` (printed): m_i + N(0, sigma^2 I); two records are at most 2 half sqrt(d) apart in l2 (d = 1: 4 sqrt(2) s/3).

``auto`` takes the one of less noise: a coordinate of the mean has variance d half^2 coth^2(epsilon/2)/n or 4 d half^2/(mu^2 n), mu what
(epsilon, delta) buys, so bits where 2 tanh(epsilon/2) >= mu, and always where there is no delta.

Privacy: each client's channel clips m_i into its own set again, so any two records of a user have reports within the budget: local,
replace-one; one report a user, no composition. s and beta are public.

Source: 002, section 4.2, mechanism (21), Theorem 3. Differences: exact calibration in the place of sigma^2 = O(.); d coordinates; a report
without a delta; and the scale. By PAC-Bayes as for dp-catoni-mean, and Hoeffding (one bit), Bernstein (a bit of a coordinate) or the
Gaussian tail for the reports given the m_i, with probability 1 - zeta every coordinate has

    |error_j| <= A/s + B s,   A = tau (1 + 1/beta)/2,   n B = beta/2 + tail + 2 cap sqrt(n d) sqrt(2 tail)/strength,   tail = log(4d/zeta),

strength = mu or 2 tanh(epsilon/2) (Bernstein adds a term of order d tail/(strength n) that the scale does not look at). s = sqrt(A/B)
balances, beta = sqrt(2 n B0), B0 = B without its first term, does the same for A B. Printed: beta = sqrt(log(1/zeta)) and
s = n^(1/4) sqrt(epsilon tau)/(log(1/zeta) log(1/delta)^(1/4)), short by a power of log(1/zeta). The central scale, about sqrt(n tau), is
refused: a local error does not fall with n there (002 says so before Theorem 2). The rate (n epsilon^2)^(-1/4) is the best possible for
two moments: Duchi, Jordan and Wainwright 2013.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from dpspec.algorithms import sums
from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.heavy_tailed import dp_catoni_mean as central
from dpspec.algorithms.sets import Vector, constraint_set
from dpspec.models.door import Door
from dpspec.models.features import Feature
from dpspec.models.round_features import Truncated
from dpspec.models.rows import Rows
from dpspec.numeric import robust
from dpspec.privacy.channels.gaussian_vector import GaussianVector
from dpspec.privacy.channels.one_bit import OneBitMean
from dpspec.privacy.channels.protocol import Channel
from dpspec.privacy.channels.sampled_coordinate import SampledCoordinate
from dpspec.privacy.gaussian import epsilon_of, mu_of
from dpspec.privacy.schedule import Draw, Tree

_EVIDENCE = "tests/algorithms/heavy_tailed/test_ldp_heavy_tailed_mean.py::"
_ZCDP = "sqrt(2)*(sqrt(log(1/delta) + epsilon) - sqrt(log(1/delta)))"

COORDINATE: Final = "002 equation (36) with both sides and d coordinates, and the tail of the reports"
LENGTH: Final = "sqrt(d) times the bound of a coordinate"

CARD = Card(
    id="ldp-heavy-tailed-mean",
    title="Mean of heavy-tailed records from one report a user",
    family="heavy_tailed",
    task="mean",
    models=("nldp", "sldp"),
    guarantees=("pure", "approx", "zcdp", "gdp"),
    sources=(Source("002", "4.2", "mechanism (21)", ("Theorem 3",)),),
    summary="Each user truncates its record softly and sends one report; only the bound needs a second moment.",
    needs=(
        Need("x", "privacy", "a report is private whatever the record holds", enforced_by="each client's kernel and its channel's clip"),
        Need("moment", "utility", "E x_j^2 is at most tau for every coordinate"),
    ),
    options={"channel": ("auto", "bit", "gaussian")},
    tunables={
        "zeta": central.CARD.tunables["zeta"],
        "tau": central.CARD.tunables["tau"],
        "strength": Tunable(
            f"mu else sqrt(2*rho) else max(2*tanh(epsilon/2), {_ZCDP}) else 2*tanh(epsilon/2)",
            "of the channel that auto takes: about mu, or 2 tanh(epsilon/2) of a bit; tunes, the noise is exact",
            minimum=1e-12,
        ),
        "load": Tunable(
            "log(4*d/zeta) + 4*sqrt(2)/3*sqrt(n*d)*sqrt(2*log(4*d/zeta))/strength",
            "n B without beta/2; tunes, the bound is computed from the noise",
            minimum=1e-12,
        ),
        "beta": Tunable("sqrt(2*load)", "least (1 + 1/beta)*(beta/2 + load); 002: sqrt(log(1/zeta))", minimum=0.05, maximum=1e4),
        "s": Tunable(
            "sqrt(tau*(1 + 1/beta)/2*n/(beta/2 + load))",
            "balances truncation and noise; 002: n^(1/4)*sqrt(epsilon*tau)/(log(1/zeta)*log(1/delta)^(1/4))",
            minimum=1e-100,
            maximum=1e100,
        ),
    },
    bounds=(
        Bound(
            "linf-error",
            "explicit",
            "upper",
            "tau*(1 + 1/beta)/(2*s) + s*(beta/2 + log(4*d/zeta))/n + side*sqrt(2*log(4*d/zeta)/n) + 2*reach*log(4*d/zeta)/(3*n)",
            "proved",
            COORDINATE,
            probability="1 - zeta",
            conditions="side: scale of Gaussian noise, length of a bit over sqrt(d); reach: length + half where d > 1, else 0",
            where={"side": "scale of Gaussian noise, length of a bit over sqrt(d)", "reach": "length + half where d > 1, else 0"},
        ),
        Bound(
            "l2-error",
            "explicit",
            "upper",
            "sqrt(d)*(tau*(1 + 1/beta)/(2*s) + s*(beta/2 + log(4*d/zeta))/n + side*sqrt(2*log(4*d/zeta)/n) + 2*reach*log(4*d/zeta)/(3*n))",
            "proved",
            LENGTH,
            probability="1 - zeta",
            conditions="side and reach as for a coordinate",
            where={"side": "as above", "reach": "as above"},
        ),
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*sqrt(d*tau)*(d*log(d)/(n*epsilon^2))^(1/4)",
            "proved",
            "2 sqrt(A B) at the balanced scale",
            probability="1 - zeta",
            conditions="bits, epsilon <= 1, n >= d*log(d); times log(1/delta)^(1/4) for Gaussian reports",
            when=("epsilon <= 1", "n >= d*log(d)"),
        ),
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*sqrt(tau*sqrt(log(1/delta))*log(1/zeta)/(sqrt(n)*epsilon))",
            "proved",
            "002 Theorem 3, at the balanced scale",
            probability="1 - zeta",
            conditions="d = 1; at the printed scale a factor sqrt(log(1/zeta)) is missing",
            when=("d = 1",),
        ),
        Bound(
            "l2-error",
            "order",
            "lower",
            "C*sqrt(tau)*(n*epsilon^2)^(-1/4)",
            "claimed",
            "Duchi, Jordan and Wainwright 2013, k = 2 moments",
            conditions="d = 1, epsilon <= 1, in expectation",
            when=("d = 1", "epsilon <= 1"),
        ),
    ),
    faults=(
        Fault(
            "002 (21): the closed form of the integral bounds what a user sends",
            "not in doubles: it is NaN for tiny, huge and missing entries, and one such user makes the mean NaN, which no noise hides",
            "tests/algorithms/sparse/test_robust.py::test_the_bare_closed_form_breaks_its_bound",
            "privacy",
        ),
        Fault(
            "002 Theorem 3: s = n^(1/4) sqrt(epsilon tau)/(log(1/zeta) log(1/delta)^(1/4)) has the error (22)",
            "its bias alone, tau/(2s)*(1 + 1/beta), is larger by a factor that grows like sqrt(log(1/zeta))",
            _EVIDENCE + "test_the_bias_at_the_printed_scale_outgrows_the_printed_bound",
            "utility",
        ),
        Fault(
            "002 (21): sigma^2 = O(s^2 log(1/delta)/epsilon^2)",
            "exact calibration of 2 cap(beta) s sqrt(d); and one bit without a delta has less noise while 2 tanh(epsilon/2) > mu",
            _EVIDENCE + "test_a_bit_has_less_noise_than_the_printed_report",
            "utility",
        ),
        Fault(
            "002 section 4.2: the first private mean of heavy-tailed records in the local model",
            "Duchi, Jordan and Wainwright 2013 have its rate, without a delta; one bit a user attains it here",
            _EVIDENCE + "test_a_bit_attains_the_known_rate",
            "text",
        ),
        Fault(
            "002 Theorem 3: with probability 1 - zeta",
            "1 - 4 zeta is what is proved; log(4d/zeta) here",
            "docs/faults.md#catoni-four-events",
            "text",
        ),
    ),
    cost={"gradients": "0", "rounds": "1", "bits_per_user": "64*d", "memory_bytes": "8*12*(32768 + 64*d)"},
    reads="sums",
    spec="specs/heavy_tailed/ldp-heavy-tailed-mean.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if (reason := central.accepts(p, t)) is not None:
        return reason
    stated = _kind(p)
    if t.channel == "gaussian" and stated == "pure":
        return "channel = gaussian needs a delta; the budget is epsilon alone"
    if t.channel == "bit" and stated in ("zcdp", "gdp"):
        return "channel = bit is stated in epsilon; under rho and mu the reports are Gaussian"
    far = math.sqrt(p.n * t.tau / (2 * math.log(1 / t.zeta)))
    if t.s >= far * (1 - 1e-12):
        return (
            f"s = {t.s:g} is a scale of the central model, sqrt(n*tau/(2*log(1/zeta))) = {far:g} or more: one user's noise is then as "
            "large as sqrt(n), and the error does not fall with n (leave s to its default)"
        )
    return None


def _kind(p: Problem) -> str:
    """How the budget is stated; rho and mu come with a nominal epsilon beside them."""
    return next((kind for name, kind in (("rho", "zcdp"), ("mu", "gdp"), ("delta", "approx")) if name in p.facts), "pure")


def half(t: Tunables) -> float:
    """The largest entry of what a client reports, rounded up."""
    return float(t.s) * robust.supremum(t.beta)


def chosen(p: Problem, t: Tunables) -> str:
    """The channel's word: where the author leaves it open, the one of less noise at the whole budget."""
    if t.channel != "auto":
        return str(t.channel)
    match _kind(p):
        case "pure":
            return "bit"
        case "approx":
            return "bit" if 2 * math.tanh(p.facts["epsilon"] / 2) >= mu_of(p.facts["epsilon"], p.facts["delta"]) else "gaussian"
        case _:
            return "gaussian"


def channel(p: Problem, t: Tunables) -> Channel:
    if chosen(p, t) == "gaussian":
        return GaussianVector(p.d, math.sqrt(p.d) * half(t) * (1 + 2.0**-40))
    return OneBitMean(half(t)) if p.d == 1 else SampledCoordinate(p.d, half(t))


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("report", channel(p, t), per="user")


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    mean = np.atleast_1d(release.mean_blocks("report", truncated(records, p, t)))
    return Estimate(constraint_set(p.task.over, p.facts).project(mean))


def truncated(records: Rows, p: Problem, t: Tunables) -> Iterator[Vector]:
    """What the clients report, in dense blocks: s kernel(x/s), each row from its own record alone."""
    held = Truncated(float(t.s), float(t.beta))
    for x, _ in records.blocks(sums.block_rows(1 << 15, p.d, 64)):
        yield held.cut(x if isinstance(x, np.ndarray) else x.toarray())


def client(p: Problem, t: Tunables) -> dict[str, Feature]:
    return {"report": Truncated(float(t.s), float(t.beta))}


# --------------------------------------------------------------------------------------------------- what is known beforehand


def side(p: Problem, t: Tunables, calibrated: Any) -> float:
    """Bounds the deviation of a coordinate of one report, given what the client reports."""
    scale = float(calibrated.scale("report"))
    return scale if chosen(p, t) == "gaussian" else scale / math.sqrt(p.d)


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    """By theorem. A projection on a convex set that holds the mean makes no l2 error larger, and no coordinate's where it goes coordinate
    by coordinate."""
    over = constraint_set(p.task.over, p.facts)
    if not over.convex:
        return {}
    n, tail = p.n, math.log(4 * p.d / t.zeta)
    reach = calibrated.scale("report") + half(t) if chosen(p, t) == "bit" and p.d > 1 else 0.0
    one = t.tau * (1 + 1 / t.beta) / (2 * t.s) + t.s * (t.beta / 2 + tail) / n
    one += side(p, t, calibrated) * math.sqrt(2 * tail / n) + 2 * reach * tail / (3 * n)
    each = {COORDINATE: one} if over.kind in ("reals", "box", "linf") else {}
    return {**each, LENGTH: math.sqrt(p.d) * one}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    reach = calibrated.scale("report") + half(t) if chosen(p, t) == "bit" and p.d > 1 else 0.0
    names = {"side": side(p, t, calibrated), "reach": reach}
    return {COORDINATE: names, LENGTH: names}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """l2 error: bias, the mean's own spread and the reports' of d coordinates."""
    return math.sqrt(p.d) * math.hypot(t.tau / (4 * t.s), math.sqrt(t.tau / p.n), side(p, t, calibrated) / math.sqrt(p.n))


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    """The classical constant in the O(.) of (21), at this scale s."""
    if budget.kind != "approx" or chosen(p, t) != "gaussian":
        return ()
    e, delta = float(budget.epsilon_exact), float(budget.delta_exact)
    scale = 4 * math.sqrt(2) * t.s / 3 * math.sqrt(2 * math.log(1.25 / delta)) / e
    apart = channel(p, t).sensitivity
    return (
        Published(
            "002 (21) with the classical constant",
            "report",
            "4*sqrt(2)*s/3*sqrt(2*log(1.25/delta))/epsilon",
            scale,
            epsilon_of(apart / scale, delta),
            "for one coordinate" if p.d == 1 else f"for one coordinate; a user reports d = {p.d}",
        ),
    )
