"""Frank-Wolfe on the risk of a law whose gradients have two moments, over an l1 ball, the simplex or a polytope (central model).

    batch t of the T disjoint ones:  g = robust coordinate means (scale s) of the gradients at w_t;
    v_t = a vertex chosen by the exponential mechanism with the scores -<v, g + lam w_t>;   w_{t+1} = (1 - a_t) w_t + a_t v_t,

t = 0..T-1, from the public point of the set nearest to 0; a_t = 2/(t + 2), or 1/sqrt(T) where the loss is not convex. What is released is
the mean of w_A, ..., w_T weighted by their numbers (``tail``: which share of them), or w_T where the loss is not convex.

Sensitivity: a coordinate of g lies in [-cap, cap]*s for one record of m, cap = (2 sqrt(2)/3) erf(sqrt(beta/2)), whatever it holds, so
under replace-one a score moves by at most max|v|_1 * 2 cap s/m (half of that where a record vanishes). Batches are consecutive rows: a
record meets one choice, and the whole spends what one choice does (parallel composition).

Source: 003, section 4, Algorithm 1, Theorems 1 and 2, Corollary 1 (LASSO: `minimise (<w, x> - y)^2 over ball(l1, 1)`), Theorem 3 (robust
regression: a loss such as biweight). Differences: the kernel is guarded (numeric.robust); the sensitivity is that of one score, where the
printed exp(epsilon u/(2 Delta)) has the l1 *diameter* in Delta and the factor 2 as well, twice the noise needed; s, T and the start are
public numbers; a mean where the last point is printed: a step moves w by a_t, and the last choices are the least sure.

Bound (convex loss, decreasing steps; F the law's risk with its ridge; E (grad_j)^2 <= tau on the set). By PAC-Bayes (002 equation (36),
both sides, d T coordinates) and the tail of the exponential mechanism, with probability 1 - zeta every choice is worse than the best one by
at most

    e = Q_1 (tau (1 + 1/beta)/(2 s) + (s/m)(beta/2 + log(4 d T/zeta))) + scale (log V + log(2 T/zeta)),

and h_{t+1} <= (1 - a_t) h_t + a_t e + a_t^2 C/2 gives F(w_k) - F* <= 2 C/(k + 2) + e by induction, of the mean with k = A by convexity,
C the curvature:

    C = min(sup|phi''| max_j E x_j^2 Q_1^2, B Q_2^2) + lam Q_2^2,   E <x, u>^2 <= (sum |u_j| (E x_j^2)^(1/2))^2,

Q_p the lp diameter, B a bound of the risk's l2 smoothness: the dimension enters by logarithms only.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from dpspec.algorithms import sums, vertices
from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.heavy_tailed import _gradients as heavy
from dpspec.algorithms.objective import Objective
from dpspec.algorithms.sets import constraint_set
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.numeric import robust
from dpspec.privacy.mechanisms.exponential import Exponential
from dpspec.privacy.schedule import Disjoint, Draw, Tree

#: A choice among few vertices leaks little to a classifier of outputs: eight times epsilon is what the audit of the suite sees.
AUDIT_FACTOR: Final = 8
_EVIDENCE: Final = "tests/algorithms/heavy_tailed/test_dp_fw_heavy_tailed.py::"
FRESH: Final = "Frank-Wolfe with inexact choices on fresh records"
_CHOICE: Final = "4*sqrt(2)/3*log(2*d*n/zeta)/epsilon"

CARD = Card(
    id="dp-fw-heavy-tailed",
    title="Private Frank-Wolfe with robust means of the gradients",
    family="heavy_tailed",
    task="minimise",
    models=("central",),
    guarantees=("pure", "approx", "zcdp"),
    sources=(Source("003", "4", "Algorithm 1", ("Theorem 1", "Theorem 2", "Corollary 1", "Theorem 3")),),
    summary="One batch a step: its gradients averaged with bounded influence, a vertex chosen by the exponential mechanism; pure, and "
    "logarithmic in the dimension.",
    needs=(*heavy.NEEDS, Need("convex", "utility", "the loss is convex in w (else only a rate is claimed)")),
    options={"steps": ("auto", "decreasing", "constant")},
    tunables={
        "zeta": heavy.ZETA,
        "tau": heavy.TAU,
        "curvature": Tunable(
            "4*max_curve*moment_bound_x^(2/moment_order_x)*w_l1^2 else 4*max_curve*eig_max*w_radius^2 else 4*B*w_radius^2 else 4*w_l1^2",
            "C of the bound without its ridge; tunes",
            minimum=1e-300,
        ),
        "T": Tunable(
            f"ceil(max(8, min(n/10, 60, (4*curvature/(2*w_l1*sqrt(2*tau*(log(4*d*n/zeta) + {_CHOICE})/n)))^(2/3))))",
            "of the order of the least 2*C/T + e, e of order sqrt(T/n); 003: (n*epsilon*alpha^2/(tau*log(V*d/zeta)))^(1/3)",
            integer=True,
            minimum=1,
            maximum=1e5,
        ),
        "load": Tunable(
            "log(4*d*T/zeta) + 4*sqrt(2)/3*log(4*d*T/zeta)/epsilon",
            "m times what multiplies s in the error of a choice over an l1 ball, without beta/2; tunes, the noise is exact",
            minimum=1e-12,
        ),
        "beta": Tunable("sqrt(2*load)", "least (1 + 1/beta)*(beta/2 + load); 003: O(1)", minimum=0.05, maximum=1e4),
        "s": Tunable(
            "sqrt(tau*(1 + 1/beta)/2*n/T/(beta/2 + load))/6",
            "a sixth of what balances the worst truncation and the noise; 003: O(sqrt(n*epsilon*tau/(T*log(V*d*T/zeta))))",
            minimum=1e-100,
            maximum=1e100,
        ),
        "tail": vertices.tail("1/3"),
    },
    bounds=(
        Bound(
            "excess-population-risk",
            "explicit",
            "upper",
            "2*K/(A + 2) + W*(tau*(1 + 1/beta)/(2*s) + s/m*(beta/2 + log(4*d*T/zeta))) + scale*(log(V) + log(2*T/zeta))",
            "proved",
            FRESH,
            probability="1 - zeta",
            conditions="a convex loss, decreasing steps; W the l1 diameter, V the number of vertices, m = floor(n/T), C the curvature of "
            "the text, which needs a declared moment of x, its eigenvalues (of E x x^T) or a proved smoothness",
            where={
                "K": "curvature of the population risk (text)",
                "W": "the l1 diameter",
                "V": "number of vertices",
                "m": "records of a step, floor(n/T)",
                "A": vertices.AVERAGED,
            },
        ),
        Bound(
            "excess-population-risk",
            "order",
            "upper",
            "C*W^(4/3)*(tau*log(n*d/zeta))^(1/3)/(n*epsilon)^(1/3)",
            "claimed",
            "003 Theorem 2",
            probability="1 - zeta",
            conditions="convex, epsilon <= 1; printed with W, which its T does not give; the smoothness alpha^(1/3) left out",
            needs=("convex",),
            when=("epsilon <= 1",),
            where={"W": "the l1 diameter"},
        ),
        Bound(
            "excess-population-risk",
            "order",
            "upper",
            "C*log(d*n/zeta)^(1/4)/(n*epsilon)^(1/4)",
            "claimed",
            "003 Theorem 3",
            probability="1 - zeta",
            conditions="phi'(<w, x> - y) with phi' odd, the unit l1 ball, symmetric noise; eigenvalues and constants of phi left out",
            when=("w_l1 = 1",),
        ),
    ),
    faults=(
        heavy.KERNEL_FAULT,
        Fault(
            "003, tuning of Theorem 2 and Corollary 1: T, s and steps from alpha, tau, lambda_max(E x x^T)",
            "estimated from the records they are a release; here every number is the spec's",
            _EVIDENCE + "test_a_number_of_steps_from_the_largest_eigenvalue_tells_neighbours_apart",
            "privacy",
        ),
        Fault(
            "003 Algorithm 1: no word on w_0",
            "a start that looks at the records is released: with constant steps a share (1 - 1/sqrt(T))^T of it stands in the output; here "
            "the point of the set nearest to 0",
            _EVIDENCE + "test_a_start_from_the_records_stands_in_the_output",
            "privacy",
        ),
        Fault(
            "003 Algorithm 1, step 3: exp(epsilon u/(2 Delta)) with Delta from the l1 diameter",
            "the diameter is the range already: epsilon/2 is spent, with twice the noise",
            _EVIDENCE + "test_the_printed_choice_spends_half",
            "utility",
        ),
        Fault(
            "003 Theorem 2: linear in |W|_1",
            "the curvature is alpha |W|_1^2: |W|_1^2 with the printed T, |W|_1^(4/3) at best",
            _EVIDENCE + "test_the_bound_grows_with_the_four_thirds_power_of_the_radius",
            "utility",
        ),
        Fault(
            "003 Corollary 1: (<w, x> - y)^2 is lambda_max-smooth",
            "2 lambda_max, and its gradient is twice that of the text: tau four times",
            _EVIDENCE + "test_the_curvature_of_the_lasso",
            "text",
        ),
        Fault(
            "003 Assumption 2: psi'(s) > 0 for all s > 0, with the biweight as an example",
            "the biweight's psi' is 0 beyond c",
            _EVIDENCE + "test_the_biweight_is_flat_beyond_c",
            "text",
        ),
    ),
    cost={"gradients": "n", "rounds": "T", "memory_bytes": "8*(n*(d + 1) + 12*262144)"},
    reads="parts",
    spec="specs/heavy_tailed/dp-fw-heavy-tailed.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    reason = heavy.refused(p, t)
    if reason is not None:
        return reason
    assert p.loss is not None
    if not vertices.few(p):
        return "it needs a set with few vertices: an l1 ball, the simplex or a polytope (heavy-tailed-dp-gd-catoni for others)"
    if not p.loss.smooth_penalty:
        return "its objective has to be smooth, without an l1 or group term (use an l1 ball)"
    if p.neighbours == "add-remove":
        return "a record that is added or removed shifts every later batch (neighbours replace-one or zero-out)"
    if p.n < t.T:
        return f"T = {t.T} batches need at least as many records"
    return None


def sensitivity(p: Problem, t: Tunables) -> float:
    """The largest change of one score <v, g + lam w>."""
    assert p.loss is not None
    moved = 2.0 if p.neighbours == "replace-one" else 1.0
    least = p.n // t.T
    _, l1, l2 = vertices.shape(p)
    most = robust.supremum(t.beta) * t.s * l1 + p.loss.l2 * l2**2  # of a score, whose inner product rounds
    exact = moved * robust.supremum(t.beta) * t.s * l1 / least
    return sums.sensitivity(exact, p.n - (t.T - 1) * least, moved, beside=(p.d + 4) * most)


def schedule(p: Problem, t: Tunables) -> Tree:
    return Disjoint(Draw("vertex", Exponential(sensitivity(p, t), vertices.shape(p)[0])), t.T)


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door) -> Estimate:
    w, points = constraint_set(p.task.over, p.facts).start(p.d), []
    for step, batch in enumerate(records.rounds(t.T)):
        g = heavy.robust_gradient(batch, w, p, t, batch[0].shape[0]) + p.objective.l2 * w
        v = vertices.nearest(release, p, g, sensitivity(p, t))
        share = 2 / (step + 2) if decreasing(p, t) else 1 / math.sqrt(t.T)
        w = (1 - share) * w + share * v
        points.append(w)
    return Estimate(vertices.average(points, t) if decreasing(p, t) and _convex(p) else np.asarray(w))


def decreasing(p: Problem, t: Tunables) -> bool:
    return bool(t.steps == "decreasing" or (t.steps == "auto" and _convex(p)))


def _convex(p: Problem) -> bool:
    return p.loss is not None and bool(p.loss.convex)


# --------------------------------------------------------------------------------------------------- what is known beforehand


def curvature(p: Problem) -> float:
    """C of the text."""
    assert p.loss is not None
    Q, W = constraint_set(p.task.over, p.facts).diameter(p.d), 2 * vertices.shape(p)[1]
    flat = min(p.loss.curve * heavy.second_moment(p) * W**2, (heavy.smoothness(p) - p.loss.l2) * Q**2)
    return float(flat + p.loss.l2 * Q**2)


def choice_error(p: Problem, t: Tunables, scale: float) -> float:
    """e of the text: by how much every chosen vertex is worse than the best, with probability 1 - zeta."""
    count, l1, _ = vertices.shape(p)
    mean = heavy.coordinate_error(t, p.n // t.T, math.log(4 * p.d * t.T / t.zeta))
    return float(2 * l1 * mean + scale * (math.log(count) + math.log(2 * t.T / t.zeta)))


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    assert p.loss is not None
    C = curvature(p)
    if not (_convex(p) and decreasing(p, t) and math.isfinite(C)):
        return {}
    return {FRESH: 2 * C / (vertices.first(t) + 2) + choice_error(p, t, calibrated.scale("vertex"))}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    count, l1, _ = vertices.shape(p)
    return {FRESH: {"K": curvature(p), "W": 2 * l1, "V": count, "m": p.n // t.T, "A": vertices.first(t)}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """Half of the curvature's term, and a choice's expected gap with the spread and a quarter of the worst bias."""
    count, l1, _ = vertices.shape(p)
    C = curvature(p) if math.isfinite(curvature(p)) else t.curvature
    mean = math.sqrt(2 * math.log(2 * p.d) * t.tau * t.T / p.n) + t.tau / (8 * t.s)
    return float(C / (vertices.first(t) + 2) + l1 * mean + calibrated.scale("vertex") * math.log(count))


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    """The printed choice at this scale: its temperature, and half of epsilon that it spends."""
    if budget.kind != "pure":
        return ()
    e, m = float(budget.epsilon_exact), p.n // t.T
    delta = 4 * math.sqrt(2) * 2 * vertices.shape(p)[1] * t.s / (3 * m)
    temperature = 2 * delta / e
    formula = "2*4*sqrt(2)*W*s/(3*m*epsilon)"
    spent = 2 * sensitivity(p, t) / temperature
    return (Published("003 Algorithm 1", "vertex", formula, temperature, spent, "the l1 diameter W and the factor 2"),)
