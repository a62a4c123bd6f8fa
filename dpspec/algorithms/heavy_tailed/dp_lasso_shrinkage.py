"""Least squares over an l1 ball when records have four moments: entries are shrunk, then private Frank-Wolfe (central model).

    x~_ij = sign(x_ij) min(|x_ij|, K), y~_i likewise;   g = (1/n) sum x~_i phi'(<x~_i, w_t>, y~_i), phi'(u, y) = c(u - y);
    v_t = a vertex of the ball chosen by the exponential mechanism with the scores -<v, g + lam w_t>;  w_{t+1} = (1 - a_t) w_t + a_t v_t,

a_t = 2/(t + 2), t = 0..T-1, from 0; what is released is the mean of w_A, ..., w_T weighted by their numbers (``tail``: which share of
them), since a step moves w by a_t and the last choices are the least sure; c = 1 for (<w, x> - y)^2/2 and 2 for (<w, x> - y)^2.

Sensitivity: iterates are convex combinations of vertices, so |w|_1 <= r and |<x~, w>| <= r K; slopes are cut at c K (1 + r) in the doubles
that run, and a record's part of a score is at most c K^2 r (1 + r): 2 c K^2 r (1 + r)/n under replace-one, half of that where a record
vanishes. NaN counts as 0 before anything else. T choices of bounded range compose exactly.

Source: 003, section 4, Algorithm 2, Theorems 4 and 5. Differences: the score's own sensitivity (printed: with the l1 diameter, twice that),
exact composition (printed: epsilon/(2 sqrt(2 T log(1/delta))) a choice), any radius, K and T from public numbers with their constants,
a mean where the last point is printed.

Bound (E x_j^4 <= M for every j, E y^4 <= M; F the law's risk with its ridge). Gradients are linear in the entries of the mean of z~ z~^T,
z = (x, y), so one event serves every step: shrinking moves an entry's mean by at most sqrt(2) M/K^2 (Cauchy-Schwarz, Markov), and by
Bernstein with probability 1 - zeta/2 all (d + 1)^2 entries are within

    D = sqrt(2) M/K^2 + sqrt(2 M x/n) + 2 K^2 x/(3 n),  x = log(4 (d + 1)^2/zeta)

of the law's. With the tail of the exponential mechanism

    F(w_k) - F* <= 2 C/(k + 2) + 2 r c (1 + r) D + scale (log 2d + log(2 T/zeta)) for all k with probability 1 - zeta,

C = c sqrt(M) (2r)^2 + lam (2r)^2 as E <x, u>^2 <= sqrt(M) |u|_1^2, and by convexity the mean is no worse than k = A says.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from dpspec.algorithms import sums, vertices
from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.formulas import STRENGTH
from dpspec.algorithms.heavy_tailed import _gradients as heavy
from dpspec.algorithms.objective import Objective, margins
from dpspec.algorithms.sets import Vector, shrink
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.exponential import Exponential
from dpspec.privacy.schedule import Draw, Repeat, Tree
from dpspec.symbolic.margin import bounded

#: A choice among few vertices leaks little to a classifier of outputs: eight times epsilon is what the audit of the suite sees.
AUDIT_FACTOR: Final = 8
_EVIDENCE: Final = "tests/algorithms/heavy_tailed/test_dp_lasso_shrinkage.py::"
UNIFORM: Final = "Frank-Wolfe, and one event for the entries of a second moment"
_SHRUNK: Final = "entries are shrunk to [-K, K] and slopes cut at c K (1 + r), whatever a record holds"

CARD = Card(
    id="dp-lasso-shrinkage",
    title="Least squares over an l1 ball from shrunk records",
    family="heavy_tailed",
    task="minimise",
    models=("central",),
    guarantees=("pure", "approx", "zcdp"),
    sources=(Source("003", "4", "Algorithm 2", ("Theorem 4", "Theorem 5")),),
    summary="Entries are shrunk at K, then Frank-Wolfe chooses vertices on all records; four moments, logarithmic in the dimension.",
    needs=(
        Need("x", "privacy", "a record has bounded influence", enforced_by=_SHRUNK),
        Need("y", "privacy", "a record has bounded influence", enforced_by=_SHRUNK),
        Need("moment", "utility", "fourth moments of every coordinate of x and of y are at most M", of=("x", "y")),
    ),
    tunables={
        "zeta": heavy.ZETA,
        "M": Tunable(
            "max(moment_bound_x^(4/moment_order_x), moment_bound_y^(4/moment_order_y)) else moment_bound^(4/moment_order)",
            "fourth moment of a coordinate of x and of y, from the declared ones of order 4 or more (Jensen)",
            minimum=1e-300,
        ),
        "strength": Tunable(
            f"{STRENGTH} else epsilon/8", "the Gaussian-DP mu, or a pure budget over some 16 choices; tunes", minimum=1e-12
        ),
        "T": Tunable(
            "ceil(max(10, min(200, (4*w_l1/(1 + w_l1)/sqrt(sqrt(2)*log(4*d*n/zeta)/(n*strength)))^(4/5))))",
            "of the order of the least 2*C/T + noise and bias, of order T^(1/4); 003: (sqrt(n*epsilon)*lambda_max/...)^(4/5)",
            integer=True,
            minimum=1,
            maximum=1e5,
        ),
        "K": Tunable(
            "(sqrt(2)*M*n/(sqrt(T)*log(4*d*T/zeta)/strength + 2/3*log(4*(d + 1)^2/zeta)))^(1/4)/4",
            "a quarter of what balances the worst shrinkage and the noise; 003: (n*epsilon)^(1/4)/T^(1/8)",
            minimum=1e-100,
            maximum=1e100,
        ),
        "tail": vertices.tail("1/6"),
    },
    bounds=(
        Bound(
            "excess-population-risk",
            "explicit",
            "upper",
            "8*r^2*(c*sqrt(M) + lam)/(A + 2) + 2*r*c*(1 + r)*(sqrt(2)*M/K^2 + sqrt(2*M*x/n) + 2*K^2*x/(3*n)) + "
            "scale*(log(2*d) + log(2*T/zeta))",
            "proved",
            UNIFORM,
            probability="1 - zeta",
            conditions="r the radius, c = sup phi'', x = log(4*(d + 1)^2/zeta), C = 4*r^2*(c*sqrt(M) + lam)",
            where={
                "r": "radius of the l1 ball",
                "c": "sup phi''",
                "x": "log(4*(d + 1)^2/zeta)",
                "lam": "the ridge",
                "A": vertices.AVERAGED,
            },
        ),
        Bound(
            "excess-population-risk",
            "order",
            "upper",
            "C*(sqrt(log(1/delta))*log(d*n/zeta))^(4/5)/(n*epsilon)^(2/5)",
            "claimed",
            "003 Theorem 5",
            probability="1 - zeta",
            conditions="the unit l1 ball, M a constant, lambda_max(E x x^T)^(1/5) left out; one root printed over both logarithms",
            when=("w_l1 = 1",),
        ),
    ),
    faults=(
        Fault(
            "003 Algorithm 2: the sensitivity 8 K^2/n, and no word on eta_t and w_0",
            "it needs |w|_1 <= 1: a step beyond 1, or a start outside of the ball, moves gradients by more",
            _EVIDENCE + "test_a_step_beyond_one_leaves_the_ball_and_the_sensitivity",
            "privacy",
        ),
        Fault(
            "003 Algorithm 2, step 1: sign(x) min(|x|, K)",
            "of a NaN it is NaN, which makes every score NaN: the choice, or the failure, tells that the record is there. NaN is 0 here",
            _EVIDENCE + "test_a_missing_entry_passes_the_printed_shrinkage",
            "privacy",
        ),
        Fault(
            "003 Theorem 5: T from lambda_max(E x x^T), K and eta from it",
            "estimated from the records they are a release; here every number is the spec's, and the curvature is that of the moments",
            "tests/algorithms/heavy_tailed/test_dp_fw_heavy_tailed.py::"
            "test_a_number_of_steps_from_the_largest_eigenvalue_tells_neighbours_apart",
            "privacy",
        ),
        Fault(
            "003 Theorem 4: epsilon/(2 sqrt(2 T log(1/delta))) a choice, with the l1 diameter in the score's sensitivity",
            "private for epsilon < 1, and a fraction is spent: bounded range alone leaves a factor of 4, the diameter one of 2",
            _EVIDENCE + "test_the_printed_choices_spend_a_fraction",
            "utility",
        ),
        Fault(
            "003 Theorem 5: (sqrt(log(1/delta) log(d T/zeta)))^(4/5)",
            "the root covers log(1/delta) alone: the choices' logarithm enters as it is",
            _EVIDENCE + "test_the_logarithm_of_the_choices_is_under_no_root",
            "text",
        ),
    ),
    cost={"gradients": "n*T", "rounds": "T", "memory_bytes": "8*n*(d + 1)"},
    reads="passes",
    spec="specs/heavy_tailed/dp-lasso-shrinkage.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if getattr(p.task, "pairwise", False) or p.loss is None or p.loss.name != "squared" or not p.loss.smooth_penalty:
        return "it is least squares: minimise (<w, x> - y)^2, with a factor or a ridge, without an l1 or group term"
    if not (p.task.over.kind == "ball" and p.task.over.norm == "l1"):
        return "its set is an l1 ball"
    orders = [p.facts[f"moment_order_{v}"] for v in ("x", "y") if f"moment_order_{v}" in p.facts]
    if min((*orders, p.facts.get("moment_order", 4.0))) < 4:
        return "its bound needs fourth moments of x and y, and a declared one is of a lower order"
    if _declared(p) * (1 - 1e-12) > t.M:
        return f"M = {t.M:g} contradicts the declared moments, by which a fourth one may be {_declared(p):g}: its bound would be false"
    return None


def _declared(p: Problem) -> float:
    known = [(p.facts[f"moment_bound_{v}"], p.facts[f"moment_order_{v}"]) for v in ("x", "y") if f"moment_order_{v}" in p.facts]
    return max((bound ** (4 / order) for bound, order in known), default=0.0)


def steepest(p: Problem, t: Tunables) -> float:
    """c K (1 + r), at which slopes are cut, rounded up."""
    assert p.loss is not None
    return float(p.loss.curve * t.K * (1 + vertices.shape(p)[1]) * (1 + 2.0**-40))


def sensitivity(p: Problem, t: Tunables) -> float:
    """The largest change of one score <v, g + lam w>."""
    assert p.loss is not None
    moved = 2.0 if p.neighbours == "replace-one" else 1.0
    hidden = p.neighbours == "add-remove"
    _, r, _ = vertices.shape(p)
    one = float(t.K * steepest(p, t) * r)
    most = (sums.HIDDEN if hidden else 1) * one + p.loss.l2 * r**2
    return sums.sensitivity(moved * one / p.n, p.n, moved, hidden=hidden, beside=(p.d + 4) * most)


def schedule(p: Problem, t: Tunables) -> Tree:
    return Repeat(Draw("vertex", Exponential(sensitivity(p, t), 2 * p.d)), t.T)


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door) -> Estimate:
    w, s, points = np.zeros(p.d), sensitivity(p, t), []
    for step in range(t.T):
        v = vertices.nearest(release, p, shrunk_gradient(records, w, p, t) + p.objective.l2 * w, s)
        w = (1 - 2 / (step + 2)) * w + 2 / (step + 2) * v
        points.append(w)
    return Estimate(vertices.average(points, t))


def shrunk_gradient(records: Rows, w: Vector, p: Problem[Objective], t: Tunables) -> Vector:
    """(1/n) sum x~_i phi'(<x~_i, w>, y~_i) at the public n, shape (d,); each term's entries are at most K times :func:`steepest`."""
    total, cap = sums.Sum(w.size), steepest(p, t)
    for x, y in records.blocks(sums.block_rows(1 << 18, w.size)):
        with np.errstate(all="ignore"):
            z = shrunk(x, t.K)
            total.add(z.T @ bounded(p.objective.slope(margins(z, w), shrunk(y, t.K)), cap))
    return np.asarray(total.value / p.n)


def shrunk(x: Any, K: float) -> Any:
    """sign(v)*min(|v|, K) entry by entry, a NaN 0 first; CSR stays CSR."""
    if isinstance(x, np.ndarray):
        return shrink(np.nan_to_num(x, nan=0.0, posinf=math.inf, neginf=-math.inf), K)
    from scipy.sparse import csr_array

    return csr_array((shrunk(x.data, K), x.indices, x.indptr), shape=x.shape)


# --------------------------------------------------------------------------------------------------- what is known beforehand


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    return {UNIFORM: _value(p, t, calibrated.scale("vertex"), 1.0)}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    assert p.loss is not None
    x = math.log(4 * (p.d + 1) ** 2 / t.zeta)
    return {UNIFORM: {"r": vertices.shape(p)[1], "c": p.loss.curve, "x": x, "lam": p.loss.l2, "A": vertices.first(t)}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """The bound with a quarter of the worst bias and the curvature's half."""
    return _value(p, t, calibrated.scale("vertex"), 0.25)


def _value(p: Problem, t: Tunables, scale: float, share: float) -> float:
    assert p.loss is not None
    r, c, n = vertices.shape(p)[1], p.loss.curve, p.n
    x = math.log(4 * (p.d + 1) ** 2 / t.zeta)
    D = share * math.sqrt(2) * t.M / t.K**2 + math.sqrt(2 * t.M * x / n) + 2 * t.K**2 * x / (3 * n)
    C = 4 * r**2 * (c * math.sqrt(t.M) + p.loss.l2)
    choice = scale * (math.log(2 * p.d) + math.log(2 * t.T / t.zeta))
    return float(2 * C / (vertices.first(t) + 2) * max(share, 0.5) + 2 * r * c * (1 + r) * D + choice)


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    """The printed temperature for the unit ball and (<w, x> - y)^2, in its shape for this radius and factor, and what T choices spend."""
    if budget.kind != "approx" or p.neighbours != "replace-one":
        return ()
    from dpspec.privacy.spent import epsilon_spent

    assert p.loss is not None
    e, delta, r = float(budget.epsilon_exact), float(budget.delta_exact), vertices.shape(p)[1]
    each = e / (2 * math.sqrt(2 * t.T * math.log(1 / delta)))
    temperature = 2 * (2 * r) * 2 * p.loss.curve * t.K**2 * (1 + r) / p.n / each
    spent = epsilon_spent(schedule(p, t), {"vertex": 2 * sensitivity(p, t) / temperature}, budget.delta_exact, "replace-one")
    formula = "2*8*W*K^2/n*2*sqrt(2*T*log(1/delta))/epsilon at radius 1"
    return (
        Published(
            "003 Algorithm 2", "vertex", formula, temperature, spent, "proved for epsilon < 1" if e < 1 else "its proof needs epsilon < 1"
        ),
    )
