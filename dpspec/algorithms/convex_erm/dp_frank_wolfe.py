"""Private Frank-Wolfe over an l1 ball, the simplex or a polytope.

    v_t = a vertex chosen privately for a small <v, grad F(w_t)>;   w_{t+1} = (1 - 2/(t + 2)) w_t + 2/(t + 2) v_t,   t = 0..T-1.

Source: 000, sections 3.1.1 and 3.1.4, Table 3.3 (Talwar, Thakurta, Zhang 2015, cited); 003, section 4, inner loop of Algorithm 2.
The choice and its sensitivity: :mod:`dpspec.algorithms.vertices` (003 assumes a bound of the entries of gradients; here they are clipped).
Composition is numerical instead of advanced.

Bound: the chosen vertex is worse than the best by scale*log|V| in expectation (Gumbel noise; 2*scale*(log|V| + 1) bounds Laplace), so with
the curvature K = min((B + lam) Q^2, sup|phi''| |x|_inf^2 Q_1^2 + lam Q^2), Q and Q_1 the l2 and l1 diameters (:func:`vertices.curvature`),
E F(w_T) - F* <= 2 K/(T + 2) + that error (no clipping: c >= L).
"""

from __future__ import annotations

import math
from typing import Any

from dpspec.algorithms import vertices
from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.convex_erm._common import refused
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.objective import Objective
from dpspec.algorithms.sets import constraint_set
from dpspec.models.door import Door
from dpspec.models.rows import Rows
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
            "2*K/(T + 2) + slack",
            "proved",
            "curvature and Gumbel gap",
            conditions="K the curvature of the text, V the number of vertices; laplace: 2*(log(V) + 1) for log(V); no clipping",
            where={
                "K": "curvature of the objective over the set (text)",
                "slack": "expected loss of a chosen vertex: scale*log(V), for laplace 2*scale*(log(V) + 1), V vertices",
            },
        ),
        Bound(
            "excess-empirical-risk",
            "order",
            "upper",
            "C*W^(2/3)*log(n)^2/(n*epsilon)^(2/3)",
            "claimed",
            "Table 3.3 (Talwar, Thakurta, Zhang 2015)",
            conditions="W the Gaussian width, log(1/delta) left out",
            guarantees=("approx", "zcdp"),
            where={"W": "Gaussian width of the set"},
        ),
        Bound(
            "excess-empirical-risk",
            "order",
            "upper",
            "C*log(d*n)/sqrt(n*epsilon)",
            "claimed",
            "003 section 4, pure budgets",
            conditions="pure budgets, T of order sqrt(n*epsilon)",
            guarantees=("pure",),
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
    reads="passes",
    spread=True,
    spec="specs/convex_erm/dp-frank-wolfe.dps",
    margins="several",
)


def sensitivity(p: Problem, t: Tunables) -> float:
    """The largest change of one score <v, mean gradient>."""
    return vertices.sensitivity(p, t.clip)


def accepts(p: Problem, t: Tunables) -> str | None:
    reason = refused(p)
    if reason is None and not vertices.few(p):
        return "it needs a set with few vertices: an l1 ball, the simplex or a polytope"
    if reason is None and not p.loss.smooth_penalty:  # type: ignore[union-attr]
        return "its objective has to be smooth, without an l1 or group term (use an l1 ball, or dp-gd)"
    return reason


def schedule(p: Problem, t: Tunables) -> Tree:
    return Repeat(Draw("vertex", vertices.selection(p, t.clip, t.selection)), t.T)


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door) -> Estimate:
    w = constraint_set(p.task.over, p.facts).start(p.d)
    for step in range(t.T):
        v = vertices.chosen(release, records, p, w, t.clip)
        share = 2 / (step + 2)
        w = (1 - share) * w + share * v
    return Estimate(w)


def _value(p: Problem, t: Tunables, calibrated: Any, halved: float) -> float:
    assert p.loss is not None
    return float(halved * (2 * vertices.curvature(p) / (t.T + 2) + vertices.slack(p, calibrated.scale("vertex"), t.selection)))


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    assert p.loss is not None
    if not vertices.never_clips(p, t.clip) or not math.isfinite(p.loss.smooth):
        return {}
    return {"curvature and Gumbel gap": _value(p, t, calibrated, 1.0)}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    return {"curvature and Gumbel gap": {"K": vertices.curvature(p), "slack": vertices.slack(p, calibrated.scale("vertex"), t.selection)}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """Half of the explicit bound."""
    return _value(p, t, calibrated, 0.5) if p.loss is not None and math.isfinite(p.loss.smooth) else math.inf
