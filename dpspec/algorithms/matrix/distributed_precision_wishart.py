"""Sparse precision matrix from players' covariance shares with Wishart noise: private for readers of the output, not for the server.

    1. player i scales x_i into the ball and sends A_i = x_i x_i^T/n + sum of v v^T, v ~ N(0, C);
    2. the server adds the shares (and, for ``server = trusted``, the degrees of freedom that lack): S~ = S + W_d(m, C);
    3. centre, positive part, graphical lasso.

Who is protected against whom
-----------------------------
``server = trusted`` (default): the guarantee is that of the released Theta, for its readers. The server is a trusted curator: a message
A_i has rank 2 and x_i in its column space, so the server tells two candidate records apart with certainty, at any epsilon and delta; and
it knows the vectors it adds itself.
``server = secure-aggregation``: the author declares that players run a secure-aggregation protocol, so that the server sees the sum alone.
Then the players supply all degrees of freedom, ceil(m/(n - colluding)) vectors each, so that the guarantee also holds for the server
and up to
``colluding`` players that pool what they know. dpspec does not run such a protocol; nothing checks the declaration, and the plan says so.
``server = untrusted`` is refused: use ldp-precision.

In a run dpspec plays all players: the draw is from the law of the sum, which is what a trusted curator would add.

Source: 000, section 6.3.5, Algorithm 6.3.52, with the law of Theorems 6.3.4 and 6.3.6. Differences: the pure version (m = d + 1) is not DP;
``noise = symmetrised-wishart`` (chosen for a pure budget) sends signed shares v v^T - w w^T, which is. k = m - n may be negative in the
printed version; here n > m only means more noise. C and m come from a proved tail of the loss
(:mod:`dpspec.privacy.mechanisms.wishart_one_sided`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.matrix._common import (
    CENTRAL_X,
    CLIP_CENTRAL,
    EXISTS,
    ONE_SIDED,
    TESTS,
    below,
    central_radius,
    central_refusal,
    wrong_task,
)
from dpspec.algorithms.matrix._deviation import FAILURE
from dpspec.algorithms.matrix._moment import nuclear_sensitivity, second_moment, wishart_rounding
from dpspec.algorithms.matrix._precision import PENALTY, SPARSE, largest_factor, noise_too_large, precision_of
from dpspec.algorithms.matrix.dp_precision_covariance import frobenius, one_sided_refusal
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.wishart import SymmetrisedWishart
from dpspec.privacy.mechanisms.wishart_one_sided import Wishart
from dpspec.privacy.schedule import Draw, Tree

#: The audit's factor on epsilon: noise of several records' worth of degrees and a proved, not exact, tail leave room below it.
AUDIT_FACTOR = 16.0

CARD = Card(
    id="distributed-precision-wishart",
    title="Sparse precision matrix from players' Wishart shares (server trusted, or secure aggregation declared)",
    family="matrix",
    task="precision",
    models=("central",),
    guarantees=("approx", "pure"),
    sources=(Source("000", "6.3.5", "Algorithm 6.3.52", ("Theorem 6.3.4", "Theorem 6.3.6")),),
    summary="The sum of covariance shares with rank-one noise is a second moment plus Wishart noise; private for "
    "readers of the output only.",
    needs=(
        CENTRAL_X,
        Need(
            "trust",
            "privacy",
            "the server is trusted, or sees nothing but the sum",
            enforced_by="scope of the guarantee: readers of the output. server = trusted leaves the server outside it "
            "(each message shows it the "
            "record); server = secure-aggregation is the author's declaration that it sees the sum alone",
        ),
        SPARSE,
    ),
    trust={"server": "trusted", "colluding": 0},
    options={
        "server": ("trusted", "secure-aggregation", "untrusted"),
        "noise": ("auto", "wishart", "symmetrised-wishart"),
        "centre": ("on", "off"),
    },
    tunables={
        "penalty": PENALTY,
        "colluding": Tunable(
            "0", "players who may drop out or pool what they know, for server = secure-aggregation", integer=True, minimum=0
        ),
    },
    bounds=(
        Bound(
            "reference-frobenius-error",
            "explicit",
            "upper",
            "(d/penalty)^2*N",
            "proved",
            "000 Lemma 6.3.3 and Theorem 6.3.3",
            probability="0.95",
            conditions="at most d + n degrees in the expression; the value is that of the degrees drawn",
            where={
                "N": "Frobenius norm of the noise with probability 0.95: at most sqrt(d)*scale*(sqrt(d + n) + sqrt(d) + "
                "sqrt(2*log(20)))^2 for d + n degrees, computed for those drawn"
            },
        ),
        Bound(
            "reference-frobenius-error",
            "order",
            "upper",
            "C*d^(5/2)*(d + n + log(1/delta)/epsilon^2)/(penalty^2*n)",
            "proved",
            "000 before Algorithm 6.3.52, sum form with n degrees from the players",
            conditions="centre = off; the players' n vectors alone give noise that does not vanish with n: n <= d + "
            "log(1/delta)/epsilon^2 is the regime",
            options={"centre": "off"},
        ),
        Bound(
            "reference-frobenius-error",
            "order",
            "upper",
            "C*d^(7/2)*log(d)/(penalty^2*n*epsilon)",
            "refuted",
            "000 Theorem 6.3.4 for Algorithm 6.3.52 (pure)",
            conditions="a bound of a mechanism that is not private",
        ),
    ),
    faults=(
        Fault(
            "000, Algorithm 6.3.52 is private like Algorithm 6.3.51 although the server is not trusted",
            "A_i = x x'/n + v v' has rank 2 with x in its column space: the server tells two records apart with "
            "certainty (delta = 1), for d = 2 "
            "because A_i - x x'/n must have rank one",
            TESTS + "test_a_server_reads_the_record_in_a_rank_two_message",
            "privacy",
        ),
        Fault(
            "000, Algorithm 6.3.52: the server adds k = m - n vectors",
            "it knows them; its view has n < d degrees, a singular Wishart. With secure aggregation the players supply all of m",
            TESTS + "test_secure_aggregation_makes_the_players_supply_every_degree",
            "privacy",
        ),
        ONE_SIDED,
        CLIP_CENTRAL,
        EXISTS,
        Fault(
            "000, Algorithm 6.3.52: k = m - n",
            "negative for n > m; then every player still adds one vector, which is more noise",
            "docs/faults.md#players-without-degrees",
            "utility",
        ),
    ),
    cost={"gradients": "0", "rounds": "1", "bits_per_user": "64*d*(d + 1)/2", "memory_bytes": "80*d*d"},
    reads="sums",
    spread=True,
    spec="specs/matrix/distributed-precision-wishart.dps",
)


def chosen(p: Problem, noise: str) -> str:
    return noise if noise != "auto" else "wishart" if p.facts.get("delta") else "symmetrised-wishart"


def accepts(p: Problem, t: Tunables) -> str | None:
    problem = wrong_task(p, "precision") or central_refusal(p)
    if problem is not None:
        return problem
    if p.neighbours == "add-remove":
        return (
            "every player sends a share with its part of the noise, so who takes part is seen, and the noise follows how many do "
            "(neighbours replace-one or zero-out, or dp-precision-covariance)"
        )
    if t.server == "untrusted":
        return (
            "it protects nobody against the server: a message has rank 2 and shows the record. Take ldp-precision, or declare "
            "server = secure-aggregation if the players run such a protocol"
        )
    if t.server == "trusted" and t.colluding:
        return "colluding players are counted for server = secure-aggregation only"
    if not t.colluding < p.n:
        return "colluding must be less than the number of players"
    return one_sided_refusal(p, chosen(p, t.noise))


def mechanism(p: Problem, t: Tunables) -> Wishart | SymmetrisedWishart:
    r = central_radius(p)
    neighbours: Any = p.neighbours
    trusted = t.server == "trusted"
    if chosen(p, t.noise) == "wishart":
        delta, blur = below(p.facts["delta"]), wishart_rounding(p, r)
        return Wishart(r**2 / p.n, p.d, delta, neighbours, parties=p.n, missing=t.colluding, server=trusted, rounding=blur)
    least = p.d + 1
    degrees = max(least, p.n) if trusted else p.n * math.ceil(least / (p.n - t.colluding))
    return SymmetrisedWishart(nuclear_sensitivity(p, r), p.d, degrees)


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("sum", mechanism(p, t))


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    m = mechanism(p, t)
    moment = release.draw("sum", second_moment(records, n=p.n), sensitivity=m.sensitivity)
    if isinstance(m, Wishart) and t.centre == "on":
        moment = moment - m.degrees(release.level("sum")) * release.scale("sum") * np.eye(p.d)
    return precision_of(moment, t.penalty)


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    noise = frobenius(p, mechanism(p, t), calibrated.levels["sum"], FAILURE, centred=t.centre == "on")
    return {CARD.bounds[0].theorem: largest_factor(p, t.penalty) * noise}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    N = frobenius(p, mechanism(p, t), calibrated.levels["sum"], FAILURE, centred=t.centre == "on")
    return {CARD.bounds[0].theorem: {"N": N}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """The Frobenius norm of the noise, plus nothing for the trust that it asks for: it never beats Gaussian noise."""
    return frobenius(p, mechanism(p, t), calibrated.levels["sum"], 0.5)


def warnings(p: Problem, t: Tunables, calibrated: Any) -> list[str]:
    found = noise_too_large(predicted(p, t, calibrated), central_radius(p))
    if t.server == "trusted":
        found.append(
            "the guarantee holds for readers of the output and not for the server, which can read each player's record "
            "off its rank-2 message: "
            "the server is a trusted curator here (server = secure-aggregation declares otherwise; ldp-precision needs no trust)"
        )
    else:
        found.append(
            f"the guarantee for the server rests on the declared secure aggregation and on at most {t.colluding} "
            f"colluding players; dpspec neither "
            "runs nor checks that protocol"
        )
    return found


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    if budget.kind != "pure":
        return ()
    scale = 1.5 * central_radius(p) ** 2 / (p.n * float(budget.epsilon_exact))
    return (Published("000 Theorem 6.3.4", "sum", "3*r^2/(2*n*epsilon)", scale, math.inf, "one-sided: delta at least 1 - exp(-epsilon/3)"),)
