"""Gradient EM in the local model: each user reports one truncated gradient, in the round of its group (sequential local model).

    user i of group t: m_ij = s E phi(q_ij (1 + h)/s), h ~ N(0, 1/b);  a report R_i of m_i;
    server: beta_t = beta_{t-1} + eta (1/m) sum over group t of R_i,   t = 1..T,

over T disjoint groups of consecutive users, m = floor(n/T), the last one taking the rest; q_i the gradient of record i's Q(.; beta_{t-1})
at beta_{t-1}, which the server sends down (:mod:`dpspec.tasks.latent`); phi(a) = a - a^3/6 cut at |a| = sqrt(2).

Each m_ij lies in [-half, half], half = cap s, cap = (2 sqrt(2)/3) erf(sqrt(b/2)), whatever a record holds and its gradient overflows to,
and R_i is unbiased for m_i:

* ``channel = bit``: the sign of one coordinate, drawn without a look at the record, at random response, d half coth(epsilon/2) long;
* ``channel = gaussian`` (meant by 002): m_i + N(0, scale^2 I); two records are at most 2 half sqrt(d) apart in l2.

``auto``: bits where 2 tanh(epsilon/2) is at least the mu that (epsilon, delta) buys, and always where there is no delta (the variance of a
coordinate is d half^2 coth^2(epsilon/2) or 4 d half^2/mu^2 a report).

Privacy: each client's channel clips m_i into its own set again, so any two records of a user have reports within the budget: local,
replace-one. A user answers in one round, fixed in public; the beta that it is asked at was computed from other users' reports.

Source: 002, section 4.2, the sentence before Theorem 3 (no algorithm is printed) with mechanism (21). Differences, and why:

* exact calibration; one bit where it has less noise;
* s = tails gradient_sd as in dp-gradient-em-full: one user's noise is proportional to s. The scale that balances the bound here, sqrt(A/B)
  below, is about m^(1/4), that of (21) with log(1/delta) and log(1/zeta) to powers that do not balance;
* T is a constant: every round costs users.

Bound, derived here (*proved*): fresh users make beta_{t-1} independent of group t. With probability 1 - zeta every coordinate of every
round is within A/s + B s of the population gradient's, A = tau (1 + 1/b)/2, B s = s (b/2 + l)/m + side sqrt(2 l/m) + 2 reach l/(3 m),
l = log(4dT/zeta): 002 equation (36), and the Gaussian, Hoeffding (d = 1) or Bernstein tail of the reports. Contraction adds the rounds up
(dp-gradient-em-split).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from dpspec.algorithms import sums
from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.em import _steps as steps
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.sets import Vector
from dpspec.models.door import Door, Told
from dpspec.models.features import Feature
from dpspec.models.round_features import LatentGradient, Truncated
from dpspec.models.rows import Rows
from dpspec.numeric import robust
from dpspec.numeric.latent import GRADIENTS
from dpspec.privacy.channels.gaussian_vector import GaussianVector
from dpspec.privacy.channels.one_bit import OneBitMean
from dpspec.privacy.channels.protocol import Channel
from dpspec.privacy.channels.sampled_coordinate import SampledCoordinate
from dpspec.privacy.gaussian import epsilon_of, mu_of
from dpspec.privacy.schedule import Disjoint, Draw, Tree

_EVIDENCE = "tests/algorithms/em/test_ldp_gradient_em.py::"
#: The bound's words, and its name in a plan.
FRESH: Final = "contraction, 002 equation (36) on fresh users and the tail of their reports"

CARD = Card(
    id="ldp-gradient-em",
    title="Gradient EM from one report a user",
    family="em",
    task="fit",
    models=("sldp",),
    guarantees=("pure", "approx", "zcdp", "gdp"),
    sources=(Source("002", "4.2", "the local extension of Algorithm 2, by mechanism (21)", ("Theorem 3",)),),
    summary="T disjoint groups of users; each user truncates its gradient at the current estimate softly and sends one report.",
    needs=(
        Need("x", "privacy", "a report is private whatever the record holds", enforced_by="each client's kernel and its channel's clip"),
        *steps.NEEDS[1:],
        Need("contraction", "utility", "the population gradient at beta is within g |beta - beta*| of that of Q(.; beta*)"),
    ),
    options={"channel": ("auto", "bit", "gaussian"), "start": steps.START},
    tunables={
        "zeta": steps.ZETA,
        "T": Tunable(
            "ceil(4 + log(1/kappa)/log(2))",
            "some rounds to come near and some to contract; 002: O(log n). A round costs users",
            integer=True,
            minimum=1,
            maximum=10_000,
        ),
        "eta": steps.ETA,
        "tau": steps.TAU,
        "b": Tunable("sqrt(2*log(4*d*T/zeta))", "as for dp-gradient-em-split; 002: sqrt(log(d/zeta))", minimum=0.05, maximum=1e4),
        "s": Tunable(
            "tails*gradient_sd",
            "2 (gmm) or 4 times the spread of a gradient at the truth; 002: (n/T)^(1/4)*sqrt(epsilon*tau) up to logarithms",
            minimum=1e-100,
            maximum=1e100,
        ),
        "radius": steps.RADIUS,
    },
    bounds=(
        Bound(
            "l2-error-up-to-sign",
            "explicit",
            "upper",
            "(1 - eta*(1 - contraction))^T*start_within*signal_to_noise*sigma + sqrt(d)*(tau*(1 + 1/b)/(2*s) + s*(b/2 + "
            "log(4*d*T/zeta))/m + side*sqrt(2*log(4*d*T/zeta)/m) + 2*reach*log(4*d*T/zeta)/(3*m))/(1 - contraction)",
            "proved",
            FRESH,
            probability="1 - zeta",
            conditions="side: scale of Gaussian noise, length of a bit over sqrt(d); reach: length + half where d > 1, else 0; shown where"
            " the start is as near as stated and the iterates stay within kappa |beta*|",
            where={
                "m": "users of a round, floor(n/T)",
                "side": "scale of Gaussian noise, length of a bit over sqrt(d)",
                "reach": "length + half where d > 1, else 0",
            },
        ),
        Bound(
            "l2-error-up-to-sign",
            "order",
            "upper",
            "C*d^(3/4)*sqrt(tau)*(T*log(d*T)/(n*epsilon^2))^(1/4)",
            "proved",
            "2 sqrt(A B) at the balanced scale",
            probability="1 - zeta",
            conditions="s = sqrt(A/B), epsilon <= 1; times log(1/delta)^(1/4) for Gaussian reports; the start's part is smaller",
            when=("epsilon <= 1",),
        ),
    ),
    faults=(
        *(f for f in steps.FAULTS if "Lemma" not in f.claim),
        Fault(
            "002 before Theorem 3: all results on gradient EM extend to the local model",
            "nothing is printed that could be attacked: no algorithm, noise or bound; with T rounds on all users each "
            "would report T times. Here once",
            _EVIDENCE + "test_every_user_reports_once",
            "text",
        ),
        Fault(
            "002 (21): s = n^(1/4) sqrt(epsilon tau)/(log(1/zeta) log(1/delta)^(1/4)) for a round of n/T users and d coordinates",
            "noise has sqrt(d) more and the sum T less; balanced is sqrt(A/B), whose bound is smaller",
            _EVIDENCE + "test_the_printed_scale_is_not_balanced",
            "utility",
        ),
    ),
    cost={"gradients": "n", "rounds": "T", "bits_per_user": "64*d", "memory_bytes": "8*(n*d + 12*(32768 + 64*d))"},
    reads="passes",
    spec="specs/em/ldp-gradient-em.dps",
)


def kind(p: Problem) -> str:
    """How the budget is stated; rho and mu come with a nominal epsilon beside them."""
    return next((word for name, word in (("rho", "zcdp"), ("mu", "gdp"), ("delta", "approx")) if name in p.facts), "pure")


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.n < t.T:
        return f"{t.T} groups of {p.n} users leave some empty"
    if t.channel == "gaussian" and kind(p) == "pure":
        return "channel = gaussian needs a delta; the budget is epsilon alone"
    if t.channel == "bit" and kind(p) in ("zcdp", "gdp"):
        return "channel = bit is stated in epsilon; under rho and mu the reports are Gaussian"
    return steps.refusal(p)


def half(t: Tunables) -> float:
    """The largest entry of what a client reports, rounded up."""
    return float(t.s) * robust.supremum(t.b)


def chosen(p: Problem, t: Tunables) -> str:
    """The channel's word: where the author leaves it open, the one of less noise at the whole budget."""
    if t.channel != "auto":
        return str(t.channel)
    match kind(p):
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
    return Disjoint(Draw("report", channel(p, t), per="user"), t.T)


def run(records: Rows, p: Problem[steps.Model], t: Tunables, release: Door) -> Estimate:
    beta, m = steps.start(p, t, release), p.n // int(t.T)
    for k in range(t.T):  # disjoint users, in the order of the public numbers of their rows
        users = records.slice(k * m, p.n if k == t.T - 1 else (k + 1) * m)
        told = Told(truncated(users, p.oracle, t, beta), {"beta": beta})
        beta = beta + t.eta * np.atleast_1d(release.mean_blocks("report", told))
    return Estimate(beta)


def truncated(users: Rows, model: steps.Model, t: Tunables, beta: Vector) -> Iterator[Vector]:
    """What the clients report, in dense blocks: s kernel(q/s), each row from its own record and from beta alone."""
    held = Truncated(float(t.s), float(t.b))
    for x, y in users.blocks(sums.block_rows(1 << 15, users.d, 64)):
        yield held.cut(model.gradients(beta, x, y))


def client(p: Problem[steps.Model], t: Tunables) -> dict[str, Feature]:
    """Of the three models of the task, whose gradients a device has."""
    name = str(getattr(p.task, "model", ""))
    if name not in GRADIENTS:
        return {}
    return {"report": LatentGradient(name, float(p.facts["sigma"]), GRADIENTS[name][1], float(t.s), float(t.b))}


# --------------------------------------------------------------------------------------------------- what is known beforehand


def side(p: Problem, t: Tunables, scale: float) -> float:
    """Bounds the deviation of a coordinate of one report, given what the client reports."""
    return scale if chosen(p, t) == "gaussian" else scale / math.sqrt(p.d)


def deviation(p: Problem, t: Tunables, scale: float) -> float:
    """With probability 1 - zeta every round's mean report is this close to the population gradient, in l2."""
    m, tail = p.n // int(t.T), math.log(4 * p.d * t.T / t.zeta)
    reach = scale + half(t) if chosen(p, t) == "bit" and p.d > 1 else 0.0
    one = t.tau * (1 + 1 / t.b) / (2 * t.s) + t.s * (t.b / 2 + tail) / m
    return float(math.sqrt(p.d) * (one + side(p, t, scale) * math.sqrt(2 * tail / m) + 2 * reach * tail / (3 * m)))


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    value = steps.contracted(p, t, deviation(p, t, calibrated.scale("report")))
    return {} if value is None else {FRESH: value}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    scale = calibrated.scale("report")
    reach = scale + half(t) if chosen(p, t) == "bit" and p.d > 1 else 0.0
    return {FRESH: {"m": p.n // int(t.T), "side": side(p, t, scale), "reach": reach}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """l2 error: the spread of the gradients and of the reports of a last round, twice for what earlier rounds leave."""
    m, own = p.n // int(t.T), p.facts.get("gradient_sd", t.s / 2)
    return 2 * math.sqrt(p.d / m) * math.hypot(own, side(p, t, calibrated.scale("report")))


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    """The zCDP noise that the text means, at this s."""
    if budget.kind != "approx" or chosen(p, t) != "gaussian":
        return ()
    e, delta = float(budget.epsilon_exact), float(budget.delta_exact)
    scale = 4 * t.s * math.sqrt(p.d) / (3 * (math.sqrt(math.log(1 / delta) + e) - math.sqrt(math.log(1 / delta))))
    spent = epsilon_of(channel(p, t).sensitivity / scale, delta)
    formula = "4*s*sqrt(d)/(3*(sqrt(log(1/delta) + epsilon) - sqrt(log(1/delta))))"
    return (Published("002 Theorem 3 and Algorithm 2", "report", formula, scale, spent, "zCDP"),)
