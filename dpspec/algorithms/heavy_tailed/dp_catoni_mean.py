"""Mean of records with two moments: the smoothed, softly truncated mean plus Gaussian noise (central model).

    m_j = (s/n) sum_i E phi(x_ij (1 + eta)/s), eta ~ N(0, 1/beta), phi(a) = a - a^3/6 cut at |a| = sqrt(2);   release m + N(0, sigma^2 I).

Sensitivity: each term lies in [-cap, cap]*s/n, cap = (2 sqrt(2)/3) erf(sqrt(beta/2)), whatever a record holds, so under replace-one m moves
by at most 2 cap s sqrt(d)/n in l2, and by half of that where a record vanishes from the sum (kernel(0) = 0). One Gaussian draw.

Source: 000, section 3.2.4, equation (3.80), Theorem 3.2.6 (again as Lemma 7.2.2); 002, section 4.2, mechanism (18), Theorem 2.
Differences: the documents leave the constant of sigma open; here it is exact Gaussian calibration. Their scales are
sqrt(n tau/(2 log(1/zeta))), the best one *without* noise (000: error ~ 1/epsilon), and
sqrt(n epsilon tau)/(log(1/zeta) log(1/delta)^(1/4)) (002). By PAC-Bayes with the prior N(0, 1/beta) and the posterior N(1, 1/beta),
KL = beta/2, with probability 1 - zeta every coordinate has

    |error_j| <= A/s + B s,   A = tau (1 + 1/beta)/2,   B = (beta/2 + log(4d/zeta))/n + (sigma/s) sqrt(2 log(4d/zeta)),

where sigma/s does not depend on s; the default s = sqrt(A/B) balances the two, and beta = sqrt(2 n B0), B0 = B without its first term,
does the same for A B. tau bounds the uncentred second moment of a coordinate.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from dpspec.algorithms import sums
from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.sets import constraint_set
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.numeric import robust
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.schedule import Draw, Tree

_EVIDENCE = "tests/algorithms/heavy_tailed/test_dp_catoni_mean.py::"
_ZCDP = "sqrt(2)*(sqrt(log(1/delta) + epsilon) - sqrt(log(1/delta)))"

COORDINATE: Final = "002 equation (36) with both sides and d coordinates, and the noise"
LENGTH: Final = "sqrt(d) times the bound of a coordinate"

CARD = Card(
    id="dp-catoni-mean",
    title="Mean of heavy-tailed records by smoothed soft truncation",
    family="heavy_tailed",
    task="mean",
    models=("central",),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(
        Source("000", "3.2.4", "equation (3.80)", ("Theorem 3.2.6", "Lemma 7.2.2")),
        Source("002", "4.2", "mechanism (18)", ("Theorem 2",)),
    ),
    summary="Coordinate means of bounded influence, whatever a record holds, and one Gaussian draw; only the bound needs a second moment.",
    needs=(
        Need("x", "privacy", "a record has bounded influence", enforced_by="the kernel is bounded whatever a record holds"),
        Need("moment", "utility", "E x_j^2 is at most tau for every coordinate"),
    ),
    tunables={
        "zeta": Tunable("1/20", "the probability that the bound fails", minimum=1e-12, maximum=0.5),
        "tau": Tunable(
            "moment_bound_x^(2/moment_order_x) else moment_bound^(2/moment_order) else x_linf^2 else moment_bound_x",
            "the second moment of a coordinate, from the declared moment of order 2 or more (Jensen), or the largest square of the domain",
            minimum=1e-300,
        ),
        "strength": Tunable(
            f"{_ZCDP} else mu else sqrt(2*rho)", "about the Gaussian-DP mu that the budget buys; tunes, the noise is exact", minimum=1e-12
        ),
        "tail": Tunable("log(4*d/zeta)", "two sides and two kinds of error in each coordinate; tunes, a bound has its own", minimum=1e-12),
        "beta": Tunable(
            "sqrt(2*(tail + 4*sqrt(2)/3*sqrt(d)*sqrt(2*tail)/strength))",
            "least (1 + 1/beta)*(beta/2 + tail + noise); 000: 2 log(1/zeta)",
            minimum=0.05,
            maximum=1e4,
        ),
        "s": Tunable(
            "sqrt(tau*(1 + 1/beta)/2*n/(beta/2 + tail + 4*sqrt(2)/3*sqrt(d)*sqrt(2*tail)/strength))",
            "balances truncation and noise; 000: sqrt(n*tau/(2*log(1/zeta))), 002: sqrt(n*epsilon*tau)/(log(1/zeta)*log(1/delta)^(1/4))",
            minimum=1e-100,
            maximum=1e100,
        ),
    },
    bounds=(
        Bound(
            "linf-error",
            "explicit",
            "upper",
            "tau*(1 + 1/beta)/(2*s) + s*(beta/2 + log(4*d/zeta))/n + scale*sqrt(2*log(4*d/zeta))",
            "proved",
            COORDINATE,
            probability="1 - zeta",
        ),
        Bound(
            "l2-error",
            "explicit",
            "upper",
            "sqrt(d)*(tau*(1 + 1/beta)/(2*s) + s*(beta/2 + log(4*d/zeta))/n + scale*sqrt(2*log(4*d/zeta)))",
            "proved",
            LENGTH,
            probability="1 - zeta",
        ),
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*sqrt(d*tau*(log(d)/n + sqrt(d*log(d)*log(1/delta))/(n*epsilon)))",
            "proved",
            "2 sqrt(A B) at the balanced scale; 002 Theorem 2 for d = 1",
            probability="1 - zeta",
        ),
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*sqrt(d)*sqrt(tau*log(1/delta)/(n*epsilon^2))",
            "claimed",
            "000 Theorem 3.2.6 at its own scale, s = sqrt(n*tau/(2*log(1/zeta)))",
            probability="1 - zeta",
            conditions="d = 1 in the document",
            when=("d = 1",),
        ),
    ),
    faults=(
        Fault(
            "000 (3.68) to (3.77): the closed form bounds the influence of a record",
            "not in doubles: it cancels for large entries and is NaN for tiny, huge and missing ones",
            "tests/algorithms/sparse/test_robust.py::test_the_bare_closed_form_breaks_its_bound",
            "privacy",
        ),
        Fault(
            "000 Theorem 3.2.6: s = sqrt(n*tau/(2*log(1/zeta)))",
            "the best scale without noise: the noise is then sqrt(tau/n)/epsilon, where the balanced scale has sqrt(tau/(n*epsilon))",
            _EVIDENCE + "test_the_printed_scale_pays_more_at_small_budgets",
            "utility",
        ),
        Fault(
            "002 Theorem 2, (37) to (39): the bias is O(tau/(s*beta))",
            "it is tau/(2s)*(1 + 1/beta) and does not fall with beta, so the printed scale loses a factor sqrt(log(1/zeta))",
            _EVIDENCE + "test_the_bias_does_not_fall_with_beta",
            "utility",
        ),
        Fault(
            "000 (3.80), 002 (18): sigma^2 = O(.)",
            "exact calibration of the sensitivity 2 cap(beta) s sqrt(d)/n",
            "docs/faults.md#catoni-exact-noise",
            "utility",
        ),
        Fault(
            "002 Theorem 2: with probability 1 - zeta",
            "1 - 4 zeta is what is proved; log(4d/zeta) here",
            "docs/faults.md#catoni-four-events",
            "text",
        ),
    ),
    cost={"gradients": "n", "rounds": "1", "memory_bytes": "8*(n*d + 12*262144)"},
    reads="sums",
    spec="specs/heavy_tailed/dp-catoni-mean.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.task.what != "mean":
        return f"it estimates mean(x), not {p.task.what}(x)"
    order = p.facts.get("moment_order_x", p.facts.get("moment_order", 2.0))
    if order < 2:
        return "its bound needs a second moment, and the declared one is of a lower order"
    declared = p.facts.get("moment_bound_x", p.facts.get("moment_bound", 0.0)) ** (2 / order)
    if t.tau < declared * (1 - 1e-12):
        return f"tau = {t.tau:g} contradicts the declared moment, by which E x_j^2 may be {declared:g}: its bound would be false"
    least = p.facts.get("x_least", 0.0)
    enforced = min(declared + least**2, p.facts.get("x_linf", math.inf) ** 2)
    if least > 0 and t.tau < enforced * (1 - 1e-12):
        return (
            f"enforcement moves entries of x up to {least:g} away from 0, so E x_j^2 may be {enforced:g} and not tau = {t.tau:g}: its "
            f"bound would be false (with tau = {enforced * (1 + 1e-6):.7g}, or enforce a set that contains 0)"
        )
    return None


def sensitivity(p: Problem, t: Tunables) -> float:
    """l2 distance of the robust mean between neighbours, with the public n as divisor."""
    moved = 2.0 if p.neighbours == "replace-one" else 1.0
    exact = moved * robust.supremum(t.beta) * t.s * math.sqrt(p.d) / p.n
    return sums.sensitivity(exact, p.n, moved, hidden=p.neighbours == "add-remove")


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("mean", Gaussian(sensitivity(p, t), p.d))


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    total = sums.Sum(p.d)
    for x, _ in records.blocks(sums.block_rows(1 << 15, p.d, 64)):
        total.add(robust.column_sums(x, None, t.s, t.beta))
    noisy = np.atleast_1d(release.draw("mean", total.value / p.n, sensitivity=sensitivity(p, t)))
    return Estimate(constraint_set(p.task.over, p.facts).project(noisy))


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    """By theorem. A projection on a convex set that holds the mean makes no l2 error larger, and no coordinate's where it goes coordinate
    by coordinate."""
    over = constraint_set(p.task.over, p.facts)
    if not over.convex:
        return {}
    tail = math.log(4 * p.d / t.zeta)
    one = t.tau * (1 + 1 / t.beta) / (2 * t.s) + t.s * (t.beta / 2 + tail) / p.n + calibrated.scale("mean") * math.sqrt(2 * tail)
    each = {COORDINATE: one} if over.kind in ("reals", "box", "linf") else {}
    return {**each, LENGTH: math.sqrt(p.d) * one}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    return {COORDINATE: {}, LENGTH: {}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """l2 error: bias, the mean's own spread and noise of d coordinates."""
    return math.sqrt(p.d) * math.hypot(t.tau / (4 * t.s), math.sqrt(t.tau / p.n), calibrated.scale("mean"))


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    """The calibrations that the documents name for d = 1, at this scale s."""
    if budget.kind != "approx":
        return ()
    from dpspec.privacy.gaussian import epsilon_of

    e, delta = float(budget.epsilon_exact), float(budget.delta_exact)
    each = 4 * math.sqrt(2) * t.s / (3 * p.n)
    root = math.sqrt(math.log(1 / delta) + e) - math.sqrt(math.log(1 / delta))
    forms = (
        (
            "000 section 3.2.4 (zCDP)",
            "4*sqrt(2)*s/(3*n)/(sqrt(2)*(sqrt(log(1/delta) + epsilon) - sqrt(log(1/delta))))",
            each / (math.sqrt(2) * root),
        ),
        (
            "000 Lemma 2.1.2 (classical)",
            "4*sqrt(2)*s/(3*n)*sqrt(2*log(1.25/delta))/epsilon",
            each * math.sqrt(2 * math.log(1.25 / delta)) / e,
        ),
    )
    remark = "for one coordinate" if p.d == 1 else f"for one coordinate; d = {p.d} are released at once"
    return tuple(
        Published(source, "mean", formula, scale, epsilon_of(sensitivity(p, t) / scale, delta), remark) for source, formula, scale in forms
    )
