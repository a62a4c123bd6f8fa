"""Mean in an l1 ball from one report a user (non-interactive local model): the reports of ldp-mean, projected.

m = E x lies in the l1 ball of radius Lambda. ``method = direct`` (default): the average of unbiased reports in full dimension, projected on
that ball. With N the error of the average, the projection z of m + N has <m + N - z, m - z> <= 0, so

    |z - m|_2^2 <= <N, z - m> <= |N|_inf |z - m|_1 <= 2 Lambda |N|_inf,        and |z - m|_2 <= |N|_2.

That is the rate of the printed scheme, sqrt(Lambda) (log(d)/(n epsilon^2))^(1/4), without its random projection and its clipping bias.
``method = projection``: as printed, repaired. G has ``width`` rows of N(0, 1/width) and is public; a user reports G x, *clipped at B*, plus
Gaussian noise of sensitivity 2 B; users form groups, of whose means the one with the smallest half-covering ball in l1 is taken, and z
minimises |G z - u|_2 over the l1 ball. It sends ``width`` numbers in the place of d.

Privacy: every client clips what it reports, so its channel's guarantee holds for any record and any G: local, replace-one, one report each.

Source: 001, section 3.1, Algorithm 2, Lemmas 3 to 5, Corollary 1, Theorem 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.nldp_erm import ldp_mean as full
from dpspec.algorithms.nldp_erm.l1_recovery import least_squares
from dpspec.algorithms.nldp_erm.median_of_means_metric import central
from dpspec.algorithms.sets import Vector, project_l1
from dpspec.models.door import Door
from dpspec.models.features import Feature
from dpspec.models.rows import Rows
from dpspec.privacy.channels.gaussian_vector import GaussianVector
from dpspec.privacy.schedule import Disjoint, Draw, Tree

_EVIDENCE = "tests/algorithms/nldp_erm/test_ldp_l1_mean.py::"

DIRECT: Final = "projection of an error that is small in every coordinate"

CARD = Card(
    id="ldp-l1-mean",
    title="Mean in an l1 ball from one report a user",
    family="nldp_erm",
    task="mean",
    models=("nldp", "sldp"),
    guarantees=("pure", "approx", "zcdp", "gdp"),
    sources=(Source("001", "3.1", "Algorithm 2", ("Lemma 3", "Lemma 4", "Lemma 5", "Corollary 1", "Theorem 2")),),
    summary="Each user sends one unbiased report; the server averages and projects on the l1 ball.",
    needs=(Need("x", "privacy", "a report is private whatever the record holds", enforced_by="each client clips what it reports"),),
    options={"method": ("direct", "projection"), **full.CARD.options},
    tunables={
        **full.CARD.tunables,
        "Lambda": Tunable("w_l1", "the radius of the l1 ball after `over`", minimum=1e-250, maximum=1e150),
        "width": Tunable(
            "min(d, max(1, ceil(Lambda*epsilon*sqrt(n)/r)))",
            "001 Theorem 2, in units of r; for method = projection",
            integer=True,
            minimum=1,
        ),
        "groups": Tunable(
            "min(n, ceil(18*log(1/zeta)))",
            "001 Algorithm 2, by its own failure probability; for method = projection",
            integer=True,
            minimum=1,
        ),
        "B": Tunable(
            "r*(1 + sqrt(2*log(n/zeta)/width))",
            "clips no G x of a record of norm r with probability 1 - zeta",
            minimum=1e-250,
            maximum=1e150,
        ),
    },
    bounds=(
        Bound(
            "l2-error",
            "explicit",
            "upper",
            "min(sqrt(2*Lambda*c), b)",
            "proved",
            DIRECT,
            probability="1 - zeta",
            conditions="|E x|_1 <= Lambda; method = direct; side and reach of a coordinate; or ldp-mean's bound where that is less",
            options={"method": "direct"},
            where={
                "c": "the linf bound of ldp-mean, side*sqrt(2*log(2*d/zeta)/n) + 2*reach*log(2*d/zeta)/(3*n) and its like",
                "b": "its l2 bound",
            },
        ),
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*sqrt(Lambda)*(r^2*log(d)/(n*epsilon^2))^(1/4)",
            "proved",
            "the same for isotropic reports, epsilon <= 1",
            conditions="|E x|_1 <= Lambda; method = direct; times log(1/delta)^(1/4) for Gaussian reports",
            probability="1 - zeta",
            options={"method": "direct"},
            when=("epsilon <= 1",),
        ),
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*log(n*d/delta)*sqrt(log(1/delta))*(Lambda^2/(n*epsilon^2))^(1/4)",
            "claimed",
            "001 Theorem 2",
            conditions="records of norm 1, method = projection with the constraint set of the paper; delta fails it, too",
            options={"method": "projection"},
        ),
    ),
    faults=(
        Fault(
            "001 Algorithm 2: G x is released with noise for sensitivity 1, and never clipped",
            "two records differ by up to 2 |G|_op, about 2 (1 + sqrt(d/p)): nominal epsilon 1 is above 8 at p = 50, d = 1000",
            _EVIDENCE + "test_an_unclipped_projection_is_not_private",
            "privacy",
        ),
        Fault(
            "001 Algorithm 2: sigma^2 = 2 log(1.25/delta)/epsilon^2",
            "two points of a ball of radius 1 are at distance 2: half of the noise that is needed",
            _EVIDENCE + "test_the_printed_noise_is_half_of_what_is_needed",
            "privacy",
        ),
        Fault(
            "001 Algorithm 2 with a clip at 1",
            "half of the users have |G x| > |x|, and are clipped; B = 1 + sqrt(2 log(n/zeta)/p) clips next to none",
            _EVIDENCE + "test_a_clip_at_the_radius_hits_half_of_the_users",
            "utility",
        ),
        Fault(
            "001 Algorithm 2: constraint radius 100 p log(n d/delta)/epsilon sqrt(m/n)",
            "vacuous: at n = 1e8, d = 1e4, Lambda = 1 it is above |G m|_1, so z = 0; least squares over the l1 ball needs no radius",
            _EVIDENCE + "test_the_printed_radius_is_vacuous",
            "utility",
        ),
        Fault(
            "001 Lemma 4: a group fails with probability at most 2/3",
            "at most 1/3, as Lemma 3 gives",
            "docs/faults.md#majority-of-groups",
            "text",
        ),
        Fault("001: delta is the failure probability too", "zeta here", "docs/faults.md#two-meanings-of-delta", "text"),
        Fault(
            "001 Lemma 3: noise of covariance I_d, success with probability 1/9",
            "I_p, failure",
            "docs/faults.md#dimension-of-the-noise",
            "text",
        ),
    ),
    cost={"gradients": "0", "rounds": "1", "bits_per_user": "64*d", "memory_bytes": "8*8192*d"},
    reads="parts",
    spec="specs/nldp_erm/ldp-l1-mean.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if getattr(p.task.over, "norm", "") != "l1":
        return "the mean is not said to lie in an l1 ball (`estimate mean(x) over ball(l1, 1)`)"
    if t.Lambda > p.facts["w_l1"] * (1 + 1e-12):
        return f"Lambda = {t.Lambda:g} exceeds the radius {p.facts['w_l1']:g} of the l1 ball after `over`: the estimate would lie outside"
    if t.method == "projection" and "gaussian" not in full.offered(p, t):
        return "method = projection reports with Gaussian noise; the budget is epsilon alone"
    return full.accepts(p, t)


def schedule(p: Problem, t: Tunables) -> Tree:
    if t.method == "projection":
        return Disjoint(Draw("report", GaussianVector(t.width, t.B), per="user"), t.groups)
    return full.schedule(p, t)


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    if t.method == "direct":
        return Estimate(project_l1(full.average(records, t, release), t.Lambda))
    g = release.public.generator("projection").normal(size=(t.width, p.d)) / math.sqrt(t.width)
    means = np.array([release.mean_blocks("report", projected(x, g)) for x, _ in records.rounds(t.groups)])
    return Estimate(least_squares(g, central(means), t.Lambda))


def client(p: Problem, t: Tunables) -> dict[str, Feature]:
    """Of the direct method; a projection is a matrix that devices do not hold."""
    return full.client(p, t) if t.method == "direct" else {}


def projected(x: Any, g: Vector, rows: int = 8192) -> Iterator[Vector]:
    """G x of the users of a group, in blocks; the channel clips them. What leaves the doubles is the record 0."""
    for start in range(0, x.shape[0], rows):
        block = x[start : start + rows]
        with np.errstate(all="ignore"):
            yield np.asarray((block if isinstance(block, np.ndarray) else block.toarray()) @ g.T)


# --------------------------------------------------------------------------------------------------- what is known beforehand


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    found = full.tails(p, t, calibrated) if t.method == "direct" else {}
    if full.COORDINATES not in found or t.Lambda < p.facts["w_l1"] * (1 - 1e-12):  # the mean may lie outside of a smaller ball
        return {}
    return {DIRECT: min(math.sqrt(2 * t.Lambda * found[full.COORDINATES]), found[full.LONG])}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    found = full.tails(p, t, calibrated)
    return {DIRECT: {"c": found[full.COORDINATES], "b": found[full.LONG]}} if full.COORDINATES in found else {}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """The rate of the projection with the largest of d coordinates of the noise, or the l2 error where that is less."""
    if t.method == "direct":
        spread = full.predicted(p, t, calibrated)
        return float(min(spread, math.sqrt(2 * t.Lambda * spread * math.sqrt(2 * math.log(2 * p.d) / p.d))))
    noise = calibrated.scale("report") * math.sqrt(2 * t.groups * math.log(2 * p.d) / p.n)
    return float(min(2 * t.Lambda, math.sqrt(2 * t.Lambda * noise)))


def warnings(p: Problem, t: Tunables, calibrated: Any) -> list[str]:
    return full.warnings(p, t, calibrated) if t.method == "direct" else []


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    """001, Algorithm 2, with the clip that it lacks."""
    if budget.kind != "approx" or t.method != "projection":
        return ()
    from dpspec.privacy.gaussian import epsilon_of

    e, delta = float(budget.epsilon_exact), float(budget.delta_exact)
    scale = math.sqrt(2 * math.log(1.25 / delta)) / e * t.r
    remark = "if G x were clipped at B; without a clip 2 |G|_op is what two records differ by"
    return (Published("001 Algorithm 2", "report", "sqrt(2*log(1.25/delta))*r/epsilon", scale, epsilon_of(2 * t.B / scale, delta), remark),)
