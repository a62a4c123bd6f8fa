"""Frank-Wolfe on noisy gradients for smooth losses that need not be convex (DP-FW-L2): a point of small Frank-Wolfe gap.

    v_k = a point of the set that minimises <grad F(w_k) + e_k, v>,   e_k ~ N(0, s^2 I);   w_{k+1} = w_k + gamma_k (v_k - w_k),

k = 0..T-1, from the public point of the set nearest to 0; gamma_k is gamma <= 1, and gamma/fall in the last C = ceil(late T) steps: long
ones forget the start, short ones move less about the point that they are near. Released is one of the last K = ceil(tail T) iterates, that
public randomness picks, or the last. The gap of w is max_v <grad F(w), w - v>, F with its ridge.

Privacy: T Gaussian draws of the mean gradient, each of sensitivity 2 L/n (replace-one; L/n where a record vanishes); they compose exactly,
and vertices and iterates are post-processing. Iterates are convex combinations of points of the set, where L is certified.

Source: 000, section 4.1.2, Algorithm 4.1.17 (4.2.23 is the same), Theorems 4.1.4 and 4.2.13. Differences: exact calibration; gamma <= 1;
steps that fall; any bounded convex set, symmetric or not; a sharper and explicit bound:

    gamma_k gap(w_k) <= F(w_k) - F(w_{k+1}) + gamma_k <e_k, v^ - v_k> + S gamma_k^2 Q^2/2,

v^ the exact minimiser at w_k, S = B + lam, Q the diameter. v^ is independent of e_k, so E <e_k, v^> = 0, and E <e_k, -v_k> <= s W, W = E
sup over v of <v, z> the Gaussian width. Summed over the last K, before which F rises by no more than the same terms,

    E gap(w_R) <= DF fall/(gamma K) + s W (fall (T - C) + C)/K + S gamma Q^2/2 (fall (T - C) + C/fall)/K.

W is at most the least of |v|_2 sqrt(d), |v|_1 sqrt(2 log(2 d)) and |v|_inf d sqrt(2/pi) over the set (the maxima of |z|_2, |z|_inf and
|z|_1 in expectation), so over an l1 ball it grows with log(d) alone.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.formulas import STRENGTH, STRENGTH_SOURCE
from dpspec.algorithms.gradients import mean_sensitivity, noisy_gradient
from dpspec.algorithms.nonconvex_erm._common import gap, kept, refused, short, typical_gap
from dpspec.algorithms.objective import Objective
from dpspec.algorithms.sets import constraint_set
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.schedule import Draw, Repeat, Tree

_TESTS = "tests/algorithms/nonconvex/test_frank_wolfe_nonconvex.py::"
_PGD = "tests/algorithms/nonconvex/test_dp_pgd_nonconvex.py::"

CARD = Card(
    id="dp-fw-l2",
    title="Frank-Wolfe on noisy gradients to a point of small gap",
    family="nonconvex_erm",
    task="minimise",
    models=("central",),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(
        Source("000", "4.1.2", "Algorithm 4.1.17", ("Theorem 4.1.4", "Lemma 4.1.1", "Lemma 4.1.4")),
        Source("000", "4.2.3", "Algorithm 4.2.23", ("Theorem 4.2.13",)),
    ),
    summary="T Gaussian draws of the mean gradient and a linear oracle of the set; the noise counts by the set's Gaussian width.",
    needs=(
        Need("lipschitz", "privacy", "every record's gradient has l2 norm at most L on the set"),
        Need("smooth", "utility", "the objective is S-smooth in l2, S = B + lam"),
    ),
    options={"output": ("random", "last")},
    tunables={
        "strength": Tunable(STRENGTH, STRENGTH_SOURCE),
        "smoothness": Tunable("B + lam", "smoothness of F: that of the loss and the ridge weight"),
        "radius": Tunable("w_radius else L/smoothness", "l2 radius of the set (without one it is refused)"),
        "gap": Tunable("min(at_zero, 2*L*radius) else 2*L*radius", "a public bound of F(w_0) - F*, for tuning; 000: O(1)", minimum=1e-300),
        "width": Tunable(
            "min(w_l2*sqrt(d), w_l1*sqrt(2*log(2*d)), w_linf*d*sqrt(2/pi)) else radius*sqrt(d)", "the Gaussian width of the set, bounded"
        ),
        "T": Tunable(
            "ceil(max(10, min(n*strength*radius*sqrt(2*smoothness*gap)/(L*width), (smoothness*radius^2*n*strength/(d*L*width))^(2/3), "
            "3*10^8/(n*d), 1000)))",
            "about the least predicted error, S*radius^2/(2*d*T) + width*L*sqrt(T)/(n*mu), and no more than least sqrt(2*gap*S*Q^2/T) + "
            "width*2*L*sqrt(T)/(n*mu), that of the bound, Q = 2*w_radius; 000: n*epsilon/sqrt((Q^2 + W^2)*log(1/delta))",
            integer=True,
            minimum=1,
            maximum=1e6,
        ),
        "gamma": Tunable(
            "min(1, max(sqrt(gap/(2*T*smoothness*radius^2)), 12/T))",
            "least gap/(gamma*T) + S*gamma*Q^2/2 of equal steps, and enough to forget the start; 000: O(.), which may exceed 1",
            minimum=1e-300,
            maximum=1.0,
        ),
        "tail": Tunable("1/4", "share of the last iterates that the released one is from; 000: all", minimum=1e-6, maximum=1.0),
        "fall": Tunable("3", "by what late steps are divided; 000: 1", minimum=1.0, maximum=1e6),
        "late": Tunable("1/2", "share of the steps that are short", minimum=1e-6, maximum=1.0),
    },
    bounds=(
        Bound(
            "frank-wolfe-gap",
            "explicit",
            "upper",
            "DF*fall/(gamma*K) + scale*W*(fall*(T - C) + C)/K + S*gamma*Q^2/2*(fall*(T - C) + C/fall)/K",
            "proved",
            "descent and width",
            conditions="output = random; K = ceil(tail*T), C = ceil(late*T), DF the public gap, W the width, Q the l2 diameter",
            options={"output": "random"},
            where={
                "K": "averaged steps, ceil(tail*T)",
                "C": "short ones, ceil(late*T)",
                "DF": "F(w_0) - F*, at most (public)",
                "W": "Gaussian width of the set",
                "S": "smoothness",
                "Q": "the l2 diameter",
            },
        ),
        Bound(
            "frank-wolfe-gap",
            "order",
            "upper",
            "C*sqrt(Q*L*W*sqrt(S*DF*log(1/delta))/(n*epsilon))",
            "proved",
            "the explicit bound at the best T and gamma",
            conditions="gamma <= 1",
            when=("gamma <= 1",),
            where={"Q": "the l2 diameter", "W": "Gaussian width of the set", "S": "smoothness", "DF": "F(w_0) - F*, at most"},
        ),
        Bound(
            "frank-wolfe-gap",
            "order",
            "upper",
            "C*Q*((Q^2 + W^2)*log(1/delta))^(1/4)/sqrt(n*epsilon)",
            "refuted",
            "000 Theorem 4.1.4, equation (4.6)",
            conditions="printed for every set; its proof drops 1/(2 S Q^2), and for small sets the claim is smaller than what is proved",
            where={"Q": "the l2 diameter", "W": "Gaussian width of the set"},
        ),
    ),
    faults=(
        Fault(
            "000 Theorems 4.1.4 and 4.2.13: gamma = O(.), and no word on w_1",
            "beyond 1 the iterates leave the set, where L bounds no gradient and 2 L/n no sensitivity",
            _TESTS + "test_a_step_beyond_one_leaves_the_set_and_the_lipschitz_constant",
            "privacy",
        ),
        Fault(
            "000 Theorem 4.1.4: one constant c for every epsilon < c_1 T",
            "the constant must grow with epsilon/log(1/delta)",
            _PGD + "test_no_constant_serves_every_epsilon",
            "privacy",
        ),
        Fault(
            "000 Theorem 4.1.4: T and gamma balance F(w_1) - F*",
            "that is a number of the data; DF is a public bound here",
            "tests/algorithms/test_printed_leaks.py::test_steps_balanced_by_the_distance_to_the_least_risk_differ",
            "privacy",
        ),
        Fault(
            "000 Theorem 4.2.5, equation (4.50): gradients of (sigma(<w, x>) - y)^2 are bounded by C_sigma (B + 1)",
            "the factor 2 of the square is lost: the print calibrates to half of the Lipschitz constant",
            _TESTS + "test_the_gradient_of_a_squared_residual_has_its_factor_of_two",
            "privacy",
        ),
        Fault(
            "000, proof of Theorem 4.1.4: the third term is O((Q^2 + W^2) s^2)/gamma",
            "it is that over 2 S Q^2: over a ball of radius r the printed bound falls as r^1.5 and the proved one as r^0.5",
            _TESTS + "test_the_printed_bound_is_too_small_for_small_sets",
            "utility",
        ),
        Fault(
            "000 after Corollary 4.1.1: over sets that hold the unit ball all other bounds grow with d, and (4.8) with log(d) alone",
            "such a polytope has a large diameter or exponentially many vertices: W <= max|v|_2 sqrt(2 log|A|)",
            _TESTS + "test_few_vertices_around_the_unit_ball_are_far_away",
            "text",
        ),
    ),
    cost={"gradients": "n*T", "rounds": "T", "memory_bytes": "8*n*(features + 1)"},
    reads="passes",
    spread=True,
    spec="specs/nonconvex_erm/dp-fw-l2.dps",
    margins="several",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    reason = refused(p)
    if reason is not None:
        return reason
    assert p.loss is not None
    if not math.isfinite(constraint_set(p.task.over, p.facts).diameter(p.d)):
        return "it steps towards points where linear functions are least, and over an unbounded set there are none (dp-pgd-nonconvex)"
    if not p.loss.smooth_penalty:
        return "its objective has to be smooth, without an l1 or group term (use an l1 ball, or dp-pgd-nonconvex)"
    return None


def schedule(p: Problem, t: Tunables) -> Tree:
    return Repeat(Draw("gradient", Gaussian(mean_sensitivity(p), p.d)), t.T)


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door) -> Estimate:
    f, last = p.objective, kept(t)
    chosen = t.T - last + int(release.public.generator("iterate").integers(last))
    w = found = f.over.start(p.d)
    for k in range(t.T):
        if k == chosen:
            found = w
        noisy = noisy_gradient(release, records, p, w) + float(f.l2) * w
        gamma = t.gamma if k < t.T - short(t) else t.gamma / t.fall
        w = (1 - gamma) * w + gamma * f.over.minimise_linear(noisy)
    return Estimate(np.asarray(w if t.output == "last" else found))


def width(p: Problem) -> float:
    """A bound of the Gaussian width of the set."""
    d = p.d
    norms = ((2, "w_l2", math.sqrt(d)), (1, "w_l1", math.sqrt(2 * math.log(2 * d))), (0, "w_linf", d * math.sqrt(2 / math.pi)))
    return min((p.facts[name] * factor for _, name, factor in norms if name in p.facts), default=math.inf)


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    assert p.loss is not None
    Q, DF, K = constraint_set(p.task.over, p.facts).diameter(p.d), gap(p), kept(t)
    if t.output != "random" or not math.isfinite(DF) or not math.isfinite(width(p)):
        return {}
    T, C, fall = t.T, short(t), t.fall
    value = DF * fall / (t.gamma * K) + calibrated.scale("gradient") * width(p) * (fall * (T - C) + C) / K
    value += (p.loss.smooth + p.loss.l2) * t.gamma * Q**2 / 2 * (fall * (T - C) + C / fall) / K
    return {"descent and width": value} if value <= (p.loss.lipschitz + p.loss.l2 * Q) * Q else {}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    assert p.loss is not None
    Q, S = constraint_set(p.task.over, p.facts).diameter(p.d), p.loss.smooth + p.loss.l2
    return {"descent and width": {"DF": gap(p), "K": kept(t), "C": short(t), "W": width(p), "S": S, "Q": Q}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float | None:
    """:func:`dpspec.algorithms.nonconvex_erm._common.typical_gap`. Only where the gap is what is expected: it is no gradient norm and no
    excess risk."""
    if p.goal is None or p.goal.measure != "frank-wolfe-gap":
        return None
    Q = constraint_set(p.task.over, p.facts).diameter(p.d)
    return typical_gap(t.gap, calibrated.scale("gradient") * t.width, t.smoothness * Q**2, p.d, t.gamma / t.fall, round(t.fall * t.T))
