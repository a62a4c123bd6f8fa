"""Frank-Wolfe with privately chosen vertices for smooth losses that need not be convex (DP-FW-L1): a point of small Frank-Wolfe gap.

    v_k = a vertex chosen privately for a small <v, grad F(w_k)>;   w_{k+1} = w_k + gamma (v_k - w_k),   k = 0..T-1,   0 < gamma <= 1,

over an l1 ball, the simplex or a polytope, from the public point nearest to 0 (the barycentre); released is one of the last K = ceil(tail
T) iterates, that public randomness picks, or the last. The gap of w is max_v <grad F(w), w - v>.

Privacy: T choices by the exponential mechanism, or by the greatest score with Laplace noise. The sensitivity of a score is derived in
:mod:`dpspec.algorithms.vertices`: 2 c max|v|_1/n under replace-one, c a bound of the entries of a record's gradient that is enforced by
clipping. An exponential choice has bounded range, and T of them compose as epsilon_0^2/8 of zCDP each or better; a Laplace choice does not,
and is accounted as pure.

Source: 000, section 4.1.4, Algorithm 4.1.19, Theorem 4.1.6, Corollary 4.1.1 and the remark on noisy max; section 4.2.3, Algorithm 4.2.24,
Theorem 4.2.14 (smooth in l1). Differences: the constant of the sensitivity; exact composition for every epsilon; gamma <= 1; explicit
bounds.

Bound: the chosen vertex is worse than the best by scale*log|V| in expectation (Laplace: 2*scale*(log|V| + 1)), so, as for dp-fw-l2,

    E gap(w_R) <= DF/(gamma K) + (T/K)(that + C gamma/2),   C = min((B + lam) Q_2^2, sup|phi''| max|x|_inf^2 Q_1^2 + lam Q_2^2),

Q_p the lp diameter: <v, H v> of the Hessian phi'' x x^T is at most either (no clipping: c is a bound of the entries).
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from dpspec.algorithms import vertices
from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.formulas import STRENGTH, STRENGTH_SOURCE
from dpspec.algorithms.nonconvex_erm._common import gap, kept, refused, typical_gap
from dpspec.algorithms.objective import Objective
from dpspec.algorithms.sets import constraint_set
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Draw, Repeat, Tree

_TESTS = "tests/algorithms/nonconvex/test_frank_wolfe_nonconvex.py::"
#: One of few rounds leaks little about a vertex: eight times epsilon is what the audit of the suite sees.
AUDIT_FACTOR: Final = 8

CARD = Card(
    id="dp-fw-l1",
    title="Frank-Wolfe with private vertices to a point of small gap",
    family="nonconvex_erm",
    task="minimise",
    models=("central",),
    guarantees=("pure", "approx", "zcdp"),
    sources=(
        Source("000", "4.1.4", "Algorithm 4.1.19", ("Theorem 4.1.6", "Corollary 4.1.1")),
        Source("000", "4.2.3", "Algorithm 4.2.24", ("Theorem 4.2.14",)),
    ),
    summary="Frank-Wolfe whose vertices the exponential mechanism or noisy max chooses; the gap grows with log(d) over an l1 ball.",
    needs=(
        Need("lipschitz", "privacy", "every record's gradient has l2 norm at most L on the set"),
        Need("smooth", "utility", "the objective is S-smooth in l2, S = B + lam"),
    ),
    options={"selection": ("exponential", "laplace"), "output": ("random", "last")},
    tunables={
        "clip": Tunable(
            "L_inf else L*x_linf/x_l2 else L", "bound of the entries of a record's gradient, enforced record by record", minimum=1e-300
        ),
        "strength": Tunable(f"{STRENGTH} else epsilon/8", STRENGTH_SOURCE),
        "radius": Tunable("w_radius else L/B", "l2 radius of the set (without one it is refused)"),
        "curvature": Tunable(
            "4*min(B*w_l2^2, B*(x_linf/x_l2*w_l1)^2) + 4*lam*w_l2^2 else 4*(B + lam)*radius^2", "C of the bound, by the norms of the sets"
        ),
        "radius1": Tunable("w_l1 else radius", "l1 radius of the set"),
        "gap": Tunable("min(at_zero, 2*L*radius) else 2*L*radius", "a public bound of F(w_0) - F*, for tuning; 000: O(1)", minimum=1e-300),
        "T": Tunable(
            "ceil(max(5, min(n*strength*sqrt(2*gap*curvature)/(2*clip*radius1*log(2*d + 1)), 300)))",
            "least sqrt(2*gap*C/T) + 2*c*w_l1*log(V)*sqrt(T)/(n*mu), capped; 000: n*epsilon/(sqrt(log(1/delta))*log(|A|*n/zeta))",
            integer=True,
            minimum=1,
            maximum=1e5,
        ),
        "gamma": Tunable(
            "min(1, sqrt(2*gap/(T*max(curvature, gap/10^6))))",
            "least gap/(gamma*T) + C*gamma/2; 000: sqrt(2/(T*Q^2)), which may exceed 1",
            minimum=1e-300,
            maximum=1.0,
        ),
        "tail": Tunable("1/2", "share of the last iterates that the released one is from; 000: all", minimum=1e-6, maximum=1.0),
    },
    bounds=(
        Bound(
            "frank-wolfe-gap",
            "explicit",
            "upper",
            "DF/(gamma*K) + T/K*(slack + C_f*gamma/2)",
            "proved",
            "descent and Gumbel gap",
            conditions="output = random; K = ceil(tail*T), DF the public gap, V the number of vertices, C the curvature of the text; "
            "laplace: 2*(log(V) + 1) for log(V); no clipping",
            options={"output": "random"},
            where={
                "K": "averaged steps, ceil(tail*T)",
                "DF": "F(w_0) - F*, at most (public)",
                "slack": "expected loss of a chosen vertex: scale*log(V), for laplace 2*scale*(log(V) + 1), V vertices",
                "C_f": "curvature of the objective over the set",
            },
        ),
        Bound(
            "frank-wolfe-gap",
            "order",
            "upper",
            "C*Q*log(1/delta)^(1/4)*sqrt(log(n*V/zeta))/sqrt(n*epsilon)",
            "claimed",
            "000 Theorem 4.1.6, equation (4.8)",
            probability="1 - zeta",
            conditions="L, S and DF constants; Q the l1 diameter",
            where={"Q": "the l1 diameter", "V": "number of vertices"},
        ),
    ),
    faults=(
        Fault(
            "000, proof of Theorem 4.1.6: the sensitivity of a score is O(Q G/(n epsilon))",
            "epsilon does not belong there: above 1 it makes the sensitivity too small by as much",
            _TESTS + "test_the_printed_sensitivity_of_a_score_is_divided_by_epsilon",
            "privacy",
        ),
        Fault(
            "000 Theorems 4.1.6, 4.2.6 (robust regression) and 4.2.14: O(.) for the sensitivity",
            "2 G max|v|_1/n under replace-one: with G max|v|_1/n every choice spends twice its epsilon",
            _TESTS + "test_half_of_the_sensitivity_doubles_the_loss_of_a_choice",
            "privacy",
        ),
        Fault(
            "000 Theorem 4.2.6: O(C_sigma (B + 1)/n) for the sensitivity of squared residuals",
            "4 C_sigma (B + 1)/n: 2 of the square and 2 of two records; with the print a choice spends up to four times its epsilon",
            _TESTS + "test_a_score_of_a_squared_residual_moves_by_four_times_the_print",
            "privacy",
        ),
        Fault(
            "000 Theorem 4.1.6: epsilon_0 = epsilon/sqrt(8 T log(1/delta)) for every epsilon",
            "advanced composition gives epsilon up to about 4 log(1/delta) only: at 40 it states 43 for T = 1000",
            _TESTS + "test_advanced_composition_serves_small_budgets_only",
            "privacy",
        ),
        Fault(
            "000 Theorem 4.1.6: gamma = sqrt(2/(T Q^2)), and no word on w_1",
            "beyond 1 the iterates leave the set, where no gradient is bounded",
            _TESTS + "test_a_step_beyond_one_leaves_the_set_and_the_lipschitz_constant",
            "privacy",
        ),
        Fault(
            "000 after Corollary 4.1.1: noisy max may take the place of the exponential mechanism",
            "it may where pure choices are composed, as there; under zCDP, as here, it may not: Laplace noise has no "
            "bounded range, and a choice is not epsilon_0^2/8",
            _TESTS + "test_a_laplace_choice_is_no_eighth_of_a_square",
            "text",
        ),
        Fault(
            "000 section 4.1.5: Algorithm 4.1.19 was run, with an l1 regulariser and measured by projected gradients",
            "that is the problem of Algorithm 4.1.16; the gap over a polytope is a maximum over vertices and easy to compute",
            _TESTS + "test_an_l1_term_is_for_the_other_methods",
            "text",
        ),
    ),
    cost={"gradients": "n*T", "rounds": "T", "memory_bytes": "8*n*(features + 1)"},
    reads="passes",
    spec="specs/nonconvex_erm/dp-fw-l1.dps",
    margins="several",
)


def sensitivity(p: Problem, t: Tunables) -> float:
    """The largest change of one score <v, mean gradient>."""
    return vertices.sensitivity(p, t.clip)


def accepts(p: Problem, t: Tunables) -> str | None:
    reason = refused(p)
    if reason is not None:
        return reason
    assert p.loss is not None
    if not vertices.few(p):
        return "it needs a set with few vertices: an l1 ball, the simplex or a polytope"
    if not p.loss.smooth_penalty:
        return "its objective has to be smooth, without an l1 or group term (use an l1 ball, or dp-pgd-nonconvex)"
    return None


def schedule(p: Problem, t: Tunables) -> Tree:
    return Repeat(Draw("vertex", vertices.selection(p, t.clip, t.selection)), t.T)


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door) -> Estimate:
    last = kept(t)
    chosen = t.T - last + int(release.public.generator("iterate").integers(last))
    w = found = constraint_set(p.task.over, p.facts).start(p.d)
    for k in range(t.T):
        if k == chosen:
            found = w
        w = (1 - t.gamma) * w + t.gamma * vertices.chosen(release, records, p, w, t.clip)
    return Estimate(np.asarray(w if t.output == "last" else found))


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    assert p.loss is not None
    Q, DF, K = constraint_set(p.task.over, p.facts).diameter(p.d), gap(p), kept(t)
    if t.output != "random" or not math.isfinite(DF) or not vertices.never_clips(p, t.clip):
        return {}
    each = vertices.slack(p, calibrated.scale("vertex"), t.selection) + vertices.curvature(p) * t.gamma / 2
    value = DF / (t.gamma * K) + t.T / K * each
    return {"descent and Gumbel gap": value} if value <= (p.loss.lipschitz + p.loss.l2 * Q) * Q else {}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    slack = vertices.slack(p, calibrated.scale("vertex"), t.selection)
    return {"descent and Gumbel gap": {"DF": gap(p), "K": kept(t), "slack": slack, "C_f": vertices.curvature(p)}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float | None:
    """As dp-fw-l2 predicts it. Only where the gap is what is expected: it is no gradient norm and no excess risk."""
    if p.goal is None or p.goal.measure != "frank-wolfe-gap":
        return None
    error = vertices.slack(p, calibrated.scale("vertex"), t.selection)
    return typical_gap(t.gap, error, vertices.curvature(p), p.d, t.gamma, t.T)
