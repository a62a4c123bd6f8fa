"""Private Frank-Wolfe over an l1 ball, the simplex or a polytope.

    v_t = a vertex chosen privately for a small <v, grad F(w_t)>;   w_{t+1} = (1 - 2/(t + 2)) w_t + 2/(t + 2) v_t,   t = 0..T-1.

Source: 000, sections 3.1.1 and 3.1.4, Table 3.3 (Talwar, Thakurta, Zhang 2015, cited); 003, section 4, inner loop of Algorithm 2.
Vertices are chosen by the
exponential mechanism (bounded range) or by the greatest score with Laplace noise of scale 2*sensitivity/epsilon. One score moves by at most
moved*c*max|v|_1/n, c a bound of every entry of a record's gradient that the run enforces by clipping them to [-c, c] (003
assumes it); by Hoelder moved*L*max|v|_2/n holds as well, and the smaller of the two is used. Composition is numerical instead of advanced.

Bound: the chosen vertex is worse than the best by scale*log|V| in expectation (Gumbel noise; 2*scale*(log|V| + 1) bounds Laplace), so with
the curvature C_f = (B + lam) Q^2, Q the l2 diameter, E F(w_T) - F* <= 2 C_f/(T + 2) + that error (no clipping: c >= L).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpspec.algorithms import sums
from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.convex_erm._common import moved, refused
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.objective import Objective
from dpspec.algorithms.sets import ConstraintSet, Vector, constraint_set
from dpspec.numeric.norms import lengths
from dpspec.privacy.mechanisms.exponential import Exponential
from dpspec.privacy.mechanisms.noisy_max import NoisyMax
from dpspec.privacy.schedule import Draw, Repeat, Tree

#: One of few rounds leaks little about a vertex: eight times epsilon is what the audit of the suite sees. Twice epsilon shows in the laws
#: of tests/algorithms/convex.
AUDIT_FACTOR = 8

_EVIDENCE = "tests/algorithms/convex/test_frank_wolfe.py::"

CARD = Card(
    id="dp-frank-wolfe",
    title="Private Frank-Wolfe",
    family="convex_erm",
    task="minimise",
    models=("central",),
    guarantees=("pure", "approx", "zcdp"),
    sources=(
        Source("000", "3.1.1, 3.1.4", "private Frank-Wolfe of Talwar, Thakurta, Zhang 2015 (cited)", ("Table 3.3", "Lemma 2.1.3")),
        Source("003", "4", "inner loop of Algorithm 2, Frank-Wolfe over a polytope (cited)", ()),
    ),
    summary="Frank-Wolfe whose vertices are chosen by the exponential mechanism or noisy max: error logarithmic in the dimension.",
    needs=(
        Need("lipschitz", "privacy", "every record's gradient has l2 norm at most L on the set"),
        Need("convex", "utility", "the loss is convex in w"),
        Need("smooth", "utility", "the objective is B-smooth in l2"),
    ),
    options={"selection": ("exponential", "laplace")},
    tunables={
        "clip": Tunable(
            "L_inf else L*x_linf/x_l2 else L", "bound of the entries of a record's gradient, enforced record by record", minimum=1e-300
        ),
        "T": Tunable(
            "ceil(max(5, min((n*epsilon)^(2/3)/12, 300)))",
            "Table 3.3: (n epsilon)^(2/3), a twelfth of it (real curvature is far below B Q^2; set on synthetic problems) and capped",
            integer=True,
            minimum=1,
            maximum=1e5,
        ),
    },
    bounds=(
        Bound(
            "excess-empirical-risk",
            "explicit",
            "upper",
            "2*(B+lam)*Q^2/(T+2) + a*scale*log(V)",
            "proved",
            "curvature and Gumbel gap",
            conditions="Q the l2 diameter, V the number of vertices; laplace: 2*(log(V) + 1) for log(V); no clipping",
        ),
        Bound(
            "excess-empirical-risk",
            "order",
            "upper",
            "C*W^(2/3)*log(n)^2/(n*epsilon)^(2/3)",
            "claimed",
            "Table 3.3 (Talwar, Thakurta, Zhang 2015)",
            conditions="W the Gaussian width, log(1/delta) left out",
        ),
        Bound(
            "excess-empirical-risk",
            "order",
            "upper",
            "C*log(d*n)/sqrt(n*epsilon)",
            "claimed",
            "003 section 4, pure budgets",
            conditions="pure budgets, T of order sqrt(n*epsilon)",
        ),
    ),
    faults=(
        Fault(
            "003 section 4: the entries of the gradients are bounded by L",
            "nothing enforces it; here each record's entries are clipped, so the guarantee holds for any records",
            _EVIDENCE + "test_one_large_record_moves_the_scores_no_further_than_planned",
            "privacy",
        ),
        Fault(
            "noisy min with Laplace noise of the scores' sensitivity over epsilon",
            "scores move both ways, so the scale is 2*sensitivity/epsilon; with half of it a choice is 2*epsilon-DP",
            _EVIDENCE + "test_half_the_laplace_scale_is_not_enough",
            "privacy",
        ),
        Fault(
            "000 Table 3.3: gradient complexity (n epsilon)^(2/3)",
            "that counts iterations: each reads n records",
            "docs/faults.md#frank-wolfe-gradients",
            "text",
        ),
    ),
    cost={"gradients": "n*T", "rounds": "T", "memory_bytes": "8*n*(features + 1)"},
    spec="specs/convex_erm/dp-frank-wolfe.dps",
    margins="several",
)


def _set(p: Problem) -> ConstraintSet:
    return constraint_set(p.task.over, p.facts)


def _shape(p: Problem) -> tuple[int, float, float]:
    """(number of vertices, max |v|_1, max |v|_2), the norms rounded up."""
    over = _set(p)
    if over.vertices is not None:
        return len(over.vertices), float(lengths(over.vertices, "l1").upper.max()), float(lengths(over.vertices).upper.max())
    return (p.d, 1.0, 1.0) if over.kind == "simplex" else (2 * p.d, over.radius, over.radius)


def sensitivity(p: Problem, t: Tunables) -> float:
    """The largest change of one score <v, mean gradient>."""
    assert p.loss is not None
    _, l1, l2 = _shape(p)
    slope = min(t.clip * l1, p.loss.lipschitz * l2)
    # a score is an inner product of a vertex and a mean gradient with the ridge's: off by (d + 4)u of what it is at most, in both runs
    most = (sums.HIDDEN if p.neighbours == "add-remove" else 1) * slope + p.loss.l2 * l2**2
    return sums.sensitivity(
        moved(p) * slope / p.n, p.n, moved(p), hidden=p.neighbours == "add-remove", terms=8 * p.loss.classes, beside=(p.d + 4) * most
    )


def accepts(p: Problem, t: Tunables) -> str | None:
    reason = refused(p)
    kind = p.task.over.kind
    if reason is None and not (kind in ("simplex", "polytope") or (kind == "ball" and p.task.over.norm == "l1")):
        return "it needs a set with few vertices: an l1 ball, the simplex or a polytope"
    if reason is None and not p.loss.smooth_penalty:  # type: ignore[union-attr]
        return "its objective has to be smooth, without an l1 or group term (use an l1 ball, or dp-gd)"
    return reason


def schedule(p: Problem, t: Tunables) -> Tree:
    s, count = sensitivity(p, t), _shape(p)[0]
    return Repeat(Draw("vertex", Exponential(s, count) if t.selection == "exponential" else NoisyMax(s, count)), t.T)


def clipped_gradient(f: Objective, w: Vector, records: Any, n: int, clip: float, lipschitz: float) -> Vector:
    """(1/n) sum of the records' gradients, each entry clipped to [-clip, clip] (one that cannot be computed is 0); no work where the norm
    bound implies it."""
    if clip >= lipschitz:
        return f.data_gradient(w, records, n)
    total = sums.Sum(w.size)
    for x, y in records.blocks(4096):
        total.add(np.clip(np.nan_to_num(f.gradients(w, x, y), nan=0.0), -clip, clip).sum(axis=0))
    return total.value / n


def run(records: Any, p: Problem, t: Tunables, release: Any) -> Estimate:
    assert p.loss is not None
    f, over, s = p.objective, _set(p), sensitivity(p, t)
    w = over.start(p.d)
    for step in range(t.T):
        g = clipped_gradient(f, w, records, p.n, t.clip, min(p.loss.lipschitz, p.loss.lipschitz_inf)) + f.l2 * w
        if over.vertices is not None:
            v = over.vertices[release.draw("vertex", -(over.vertices @ g), sensitivity=s)]
        else:
            scores = -g if over.kind == "simplex" else over.radius * np.concatenate([-g, g])
            j = release.draw("vertex", scores, sensitivity=s)
            v = np.zeros(p.d)
            v[j % p.d] = 1.0 if over.kind == "simplex" else over.radius * (1 if j < p.d else -1)
        share = 2 / (step + 2)
        w = (1 - share) * w + share * v
    return Estimate(w)


def _value(p: Problem, t: Tunables, calibrated: Any, halved: float) -> float:
    assert p.loss is not None
    count, scale = _shape(p)[0], calibrated.scale("vertex")
    slack = scale * math.log(count) if t.selection == "exponential" else 2 * scale * (math.log(count) + 1)
    return float(2 * (p.loss.smooth + p.loss.l2) * _set(p).diameter(p.d) ** 2 / (t.T + 2) * halved + slack * halved)


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    assert p.loss is not None
    if (t.clip < p.loss.lipschitz * (1 - 1e-12) and not _never_clips(p, t)) or not math.isfinite(p.loss.smooth):
        return {}
    return {"curvature and Gumbel gap": _value(p, t, calibrated, 1.0)}


def _never_clips(p: Problem, t: Tunables) -> bool:
    """Whether the entries of the gradients are proved to be no larger than ``clip``."""
    assert p.loss is not None
    return bool(p.loss.lipschitz_inf <= t.clip * (1 + 1e-12))


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """Half of the explicit bound."""
    return _value(p, t, calibrated, 0.5) if p.loss is not None and math.isfinite(p.loss.smooth) else math.inf
