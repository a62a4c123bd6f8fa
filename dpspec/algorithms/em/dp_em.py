"""EM with a private M-step (central model): symmetric mixtures as the documents have them, and mixtures of K Gaussians.

*Two components of opposite means* (``gmm(2)``; ``mixture-of-regressions(2)`` where E x x^T = I): the M-step is a mean of one term f_i a
record (:mod:`dpspec.tasks.latent`), and

    beta_t = c + g_t + N(0, noise^2 I),   g_tj = (s/n) sum_i E phi((f_ij - c_j)(1 + h)/s), h ~ N(0, 1/b), t = 1..T,

phi(a) = a - a^3/6 cut at |a| = sqrt(2), c = beta_{t-1} (``centre = current``), or 0 as printed (``zero``). Sensitivity as
dp-gradient-em-full: each entry of a record's part lies in [-cap s, cap s]/n, cap = (2 sqrt(2)/3) erf(sqrt(b/2)), so g moves by at most
2 cap s sqrt(d)/n in l2 where a record is replaced, by zeros too (whose term less c is -c), and by half of that where it leaves. ``records
= all``: every round on all records, adaptive composition; ``fresh``: on one of T disjoint batches of consecutive records, each used once
(parallel composition), not under add-remove.

*K components* (``gmm(K)``): three Gaussian draws a round, of what :mod:`dpspec.algorithms.em._clusters` adds up, each divided by n:

    weights  sum_i r_ik              sqrt(2)/n where a record is replaced or becomes zeros, 1/n where it leaves
    means    sum_i r_ik v_ik         2 C/n                                                  C/n
    spreads  sum_i r_ik |u_ik|^2     sqrt(2) G^2/n                                          G^2/n

u_ik = x_i - mu_k scaled into the ball of radius G, v_ik into that of radius C, whatever the record holds (one with an entry that is no
number counts as 0). C is the smaller one: around its own mean a symmetric cluster has mean 0 at any radius, so there is less noise and no
bias where EM ends, while its spread would be too small. Then mu_k moves by means/weights, at most C, and stays in the ball of radius
``radius``; variances are spreads/weights less the square of that move, cut to [least_sigma^2, sigma^2] and no smaller than their noise.
All of it follows the draws.

Start, ``cells``: ``cells`` public points, the noisy number of records nearest to each (one draw, sqrt(2)/n or 1/n), and k-means of the
points with those weights; ``random``: a public direction or K public points; ``centres = "FILE"``: public means. A start from
the records would have to be paid for, as this one is.

Source: 000, section 7.2.5, Algorithm 7.2.57, Theorems 7.2.7 and 7.2.8; K components are not in the documents (Park et al. 2017 perturb
the same sums, of records of bounded norm and not around the current means). Differences, and why: exact Gaussian calibration; the factor s
that (7.68) lacks; terms are truncated around c: their mean is beta*, which a scale that truncates little must exceed, while they spread
around it by sigma alone (gmm), so that s and the noise are smaller for the same bias; s = tails step_sd as in dp-gradient-em-full; the
regressions with missing entries are refused, as their M-step is no mean of terms.

Bound: dp-gradient-em-split's with f - c in the place of the gradient and steps of length 1, q = g. *Proved* for fresh records, *claimed*
for all of them.
"""

from __future__ import annotations

import math
from typing import Any, Final, Protocol

import numpy as np

from dpspec.algorithms import sums
from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.em import _clusters as clusters
from dpspec.algorithms.em import _steps as steps
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.sets import Vector
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.numeric import norms, robust
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.schedule import Disjoint, Draw, Repeat, Sequence, Tree

_EVIDENCE = "tests/algorithms/em/test_dp_em.py::"
_BOUND: Final = (
    "contraction^T*start_within*signal_to_noise*sigma + (sqrt(d)*(tau*(1 + 1/b)/(2*s)"
    " + s*(b/2 + log(4*d*T/zeta))/n) + scale*(sqrt(d) + sqrt(2*log(2*T/zeta))))/(1 - contraction)"
)
ALL: Final = "contraction and 002 equation (36)"
FRESH: Final = "contraction and 002 equation (36) on fresh records"
#: Shares of the budget of the draws for K components.
_SHARES: Final = {"cells": 1.0, "weights": 1.0, "means": 3.0, "spreads": 1.0}

CARD = Card(
    id="dp-em",
    title="EM with a private M-step",
    family="em",
    task="fit",
    models=("central",),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(
        Source("000", "7.2.5", "Algorithm 7.2.57", ("Theorem 7.2.7", "Theorem 7.2.8")),
        Source("000", "7.2.6", "", ("Lemma 7.2.9",)),
    ),
    summary="Noisy sums of the M-step: a robust mean for two opposite components, clipped weights, means and spreads for K of their own.",
    needs=(
        Need("x", "privacy", "a record has bounded influence", enforced_by="the kernel is bounded; distances to means are clipped at G"),
        Need("signal-to-noise", "utility", "components are far apart against their spread: EM contracts around the truth"),
        Need("start", "utility", "the start is within |beta*|/4 of beta* or -beta* (two opposite components)"),
    ),
    options={"start": ("auto", "random", "diagonal", "cells"), "records": ("all", "fresh"), "centre": ("current", "zero")},
    vectors={"centres": "the means at the start, a row a component (one row, beta, of two opposite components)"},
    tunables={
        "zeta": steps.ZETA,
        "T": Tunable(
            f"ceil(2 + log(n)/3 + 0*components) else {steps.ROUNDS}",
            "000: O(log n), as errors shrink by a factor a round, and some to come near; of K components, which start near, fewer",
            integer=True,
            minimum=1,
            maximum=10_000,
        ),
        "tau": Tunable("step_moment else sigma^2", "second moment of a coordinate of a term of the M-step", minimum=1e-200),
        "b": Tunable("sqrt(2*log(4*d*T/zeta))", "near the least (1 + 1/b)(b/2 + log); 000: log(d/zeta)", minimum=0.05, maximum=1e4),
        "s": Tunable(
            "tails*step_sd else sigma",
            "2 (gmm) or 4 times the spread of a term around beta; 000: sqrt(n*tau/(2*log(d/zeta)))",
            minimum=1e-100,
            maximum=1e100,
        ),
        "radius": Tunable(
            "signal_to_noise*sigma else cluster_radius else 2*sigma",
            "where the means are; length of beta's start",
            minimum=1e-100,
            maximum=1e100,
        ),
        "G": Tunable(
            "sigma*(sqrt(d) + 1)",
            "of K components: few records of a cluster are farther from its mean",
            minimum=norms.SMALLEST,
            maximum=1e70,
        ),
        "C": Tunable(
            "min(G, sigma*sqrt(d))",
            "of K components: about half of the records of the widest cluster that sigma allows are nearer to its mean",
            minimum=norms.SMALLEST,
            maximum=1e70,
        ),
        "least_sigma": Tunable("sigma/20", "of K components: the least standard deviation", minimum=1e-100),
        "least": Tunable(
            "1/(20*components) else 1/20", "of K components: a weight below this is not divided by", minimum=1e-6, maximum=1.0
        ),
        "cells": Tunable(
            "100*components else 1", "of K components: points whose neighbourhoods are counted", integer=True, minimum=1, maximum=1e6
        ),
    },
    bounds=(
        Bound(
            "l2-error-up-to-sign",
            "explicit",
            "upper",
            _BOUND.replace("log(4*d*T/zeta))/n", "log(4*d*T/zeta))/m"),
            "proved",
            FRESH,
            probability="1 - zeta",
            conditions="two opposite components",
            options={"records": "fresh"},
            where={"tau": "second moment of a coordinate of f - c", "m": "records of a round, floor(n/T)"},
        ),
        Bound(
            "l2-error-up-to-sign",
            "explicit",
            "upper",
            _BOUND,
            "claimed",
            ALL,
            probability="1 - zeta",
            conditions="two opposite components, as if each round had fresh records",
            options={"records": "all"},
            where={"tau": "second moment of a coordinate of f - c"},
        ),
        Bound(
            "l2-error-up-to-sign",
            "order",
            "upper",
            "C*sqrt(d*tau*(log(d*n)/n + sqrt(d*log(n)*log(1/delta))/(n*epsilon)))",
            "claimed",
            "2 sqrt(A B) at the balanced scale, T of the order of log(n)",
            probability="1 - zeta",
            conditions="two opposite components; the start's part q^T |start - beta*| is smaller",
        ),
        Bound(
            "l2-error-up-to-sign",
            "order",
            "upper",
            "C*radius*d*log(1/delta)*log(1/zeta)*sqrt(tau)/(sqrt(n)*epsilon)",
            "refuted",
            "000 Theorem 7.2.8",
            probability="1 - 2*T*zeta",
            conditions="R multiplies where it should be added: it goes to 0 with |beta*|",
        ),
    ),
    faults=(
        *(f for f in steps.FAULTS if "Lemma" not in f.claim),
        Fault(
            "000 (7.68): (1/n) sum of the correction, where the polynomial part is s/n times its sum",
            "the parts no longer cancel and one record moves the release without bound; s times both",
            _EVIDENCE + "test_the_printed_correction_is_unbounded_in_a_record",
            "privacy",
        ),
        Fault(
            "000 Theorem 7.2.8: contraction 1 - 2(v - gamma)/(v + mu), and R multiplies",
            "mu is not defined there; the M-step contracts by gamma/v, and the start's part is added",
            "tests/algorithms/em/test_dp_gradient_em_full.py::test_the_error_does_not_vanish_with_the_signal",
            "utility",
        ),
        Fault(
            "000 proof of Theorem 7.2.8: the same records in all rounds",
            "the mean bound needs fresh ones: records = fresh has them; claimed for all. Privacy is unaffected",
            "docs/faults.md#records-are-used-again",
            "text",
        ),
        Fault(
            "000 Lemma 7.2.9: tau = O(|beta*|_inf^2 + sigma^2)",
            "the constant is 1",
            _EVIDENCE + "test_the_moment_of_a_term_has_the_constant_one",
            "utility",
        ),
    ),
    cost={"gradients": "n*T", "rounds": "T", "memory_bytes": "8*(n*d + 12*262144)"},
    reads="passes",
    spec="specs/em/dp-em.dps",
)


class Model(Protocol):
    """A symmetric mixture whose M-step is a mean of terms."""

    def terms(self, beta: Any, x: Any, y: Any) -> Any:
        """What a record adds to the M-step, (rows, d), a function of the record and of beta alone."""


def several(p: Problem) -> bool:
    """Whether the components have means of their own."""
    return "components" in p.facts


def accepts(p: Problem, t: Tunables) -> str | None:
    if t.records == "fresh" and p.n < t.T:
        return f"{t.T} batches of {p.n} records leave some empty"
    if "sigma" not in p.facts:
        return "the noise level of the model is not stated: sigma = 0.5 in the data section"
    if getattr(p.task, "model", "gmm") == "regression-with-missing":
        return "its M-step is no mean of terms, one a record: dp-gradient-em-full serves it"
    if (given := p.public.get("centres")) is not None:
        shape = (int(p.facts["components"]) if several(p) else 1, p.d)
        if np.shape(given) != shape:
            return f"centres has {len(given)} rows of {len(given[0])} numbers, and the start has {shape[0]} of {shape[1]}"
        if t.start != "auto":
            return f"centres is the start, and start = {t.start} another one: leave one of them out"
    if not several(p) and "step_sd" not in p.facts:
        return "how far the terms of the M-step spread is not known: assume signal-to-noise(3)"
    return _refused(p, t)


def _refused(p: Problem, t: Tunables) -> str | None:
    if not several(p):
        return "start = cells is for components with means of their own" if t.start == "cells" else None
    if t.start == "diagonal":
        return "start = diagonal is one vector: components with means of their own start at cells, random or centres"
    if "cluster_radius" not in p.facts and t.radius == 2 * p.facts["sigma"]:
        return "nothing says where the means are: enforce a domain (x in ball(l2, 10) by clip) or set radius"
    if not 1e-6 * t.radius <= t.least_sigma <= p.facts["sigma"]:
        return f"least_sigma = {t.least_sigma:g} lies outside radius*1e-6 to sigma, {1e-6 * t.radius:g} to {p.facts['sigma']:g}"
    if min(t.G, t.C) < clusters.LEAST or t.radius > 1 / clusters.LEAST:
        return f"G = {t.G:g}, C = {t.C:g} and radius = {t.radius:g} must be usual numbers, {clusters.LEAST:g} to {1 / clusters.LEAST:g}"
    return None


def start_of(p: Problem, t: Tunables) -> str:
    """``centres``, or the word of the option."""
    if "centres" in p.public:
        return "centres"
    return str(t.start) if t.start != "auto" else "cells" if several(p) else "random"


def batch(p: Problem, t: Tunables) -> int:
    """Records of the smallest batch."""
    return p.n // int(t.T) if t.records == "fresh" else p.n


def sensitivity(p: Problem, t: Tunables, n: int) -> float:
    """l2 distance between neighbours of the robust mean of the terms of ``n`` records, around a public centre."""
    return steps.sensitivity(p, t, n)


def sensitivities(p: Problem, t: Tunables, n: int) -> dict[str, float]:
    """The same of the sums for K components, by draw."""
    hidden = p.neighbours == "add-remove"
    apart, both = (1.0, 1.0) if hidden else (math.sqrt(2.0), 2.0)
    found = {"cells": (apart, 1.0), "weights": (apart, 1.0), "means": (both, t.C), "spreads": (apart, t.G**2)}
    return {
        name: sums.sensitivity(moved * a / (p.n if name == "cells" else n), n, moved, hidden=hidden, terms=int(p.d + p.facts["components"]))
        for name, (moved, a) in found.items()
    }


def schedule(p: Problem, t: Tunables) -> Tree:
    n = batch(p, t)

    def rounds(body: Tree) -> Tree:
        return Disjoint(body, t.T) if t.records == "fresh" else Repeat(body, t.T)

    if not several(p):
        return rounds(Draw("step", Gaussian(sensitivity(p, t, n), p.d)))
    k, stated = int(p.facts["components"]), sensitivities(p, t, n)
    sizes = {"cells": t.cells, "weights": k, "means": k * p.d, "spreads": k * (p.d if p.facts["diagonal"] else 1)}
    each = {name: Draw(name, Gaussian(stated[name], int(size)), weight=_SHARES[name]) for name, size in sizes.items()}
    body = rounds(Sequence((each["weights"], each["means"], each["spreads"])))
    return Sequence((each["cells"], body)) if start_of(p, t) == "cells" else body


def run(records: Rows, p: Problem[Any], t: Tunables, release: Door) -> Estimate:
    m = batch(p, t)
    cuts = [(k * m, p.n if k == t.T - 1 else (k + 1) * m) for k in range(t.T)] if t.records == "fresh" else []
    parts = [(records.slice(first, last), last - first) for first, last in cuts] or [(records, p.n)] * t.T
    if several(p):
        return Estimate(_several(records, parts, p, t, release))
    beta, stated = np.asarray(p.public["centres"][0]) if "centres" in p.public else steps.start(p, t, release), sensitivity(p, t, m)
    for part, n in parts:
        centre = beta if t.centre == "current" else np.zeros(p.d)
        beta = centre + np.atleast_1d(release.draw("step", robust_step(part, p.oracle, t, beta, centre, n), sensitivity=stated))
    return Estimate(beta)


def robust_step(records: Rows, model: Model, t: Tunables, beta: Vector, centre: Vector, n: int) -> Vector:
    """(s/n) sum kernel((f_i - centre)/s), (d,)."""
    total = sums.Sum(records.d)
    for x, y in records.blocks(sums.block_rows(1 << 15, records.d, 64)):
        total.add(robust.column_sums(model.terms(beta, x, y) - centre, None, t.s, t.b))
    return total.value / n


# ------------------------------------------------------------------------------------------------------------- K components


def _several(records: Rows, parts: list[tuple[Rows, int]], p: Problem[clusters.Clusters], t: Tunables, release: Door) -> Vector:
    model, stated, far = p.oracle, sensitivities(p, t, batch(p, t)), clusters.FAR * t.radius
    means = _centres(records, p, t, release, stated)
    q = clusters.Parameters(np.full(model.k, 1 / model.k), means, np.full((model.k, model.spreads), p.facts["sigma"] ** 2))
    for part, n in parts:
        found = zip(("weights", "means", "spreads"), clusters.statistics(part, model, q, t.G, far, t.C), strict=True)
        drawn = [np.reshape(release.draw(name, v.ravel() / n, sensitivity=stated[name]), v.shape) for name, v in found]
        q = moved(q, drawn, p, t, (release.scale("weights"), release.scale("spreads")))
    return q.packed


def _centres(records: Rows, p: Problem[clusters.Clusters], t: Tunables, release: Door, stated: dict[str, float]) -> Vector:
    """The means at the start, (K, d)."""
    model, kind = p.oracle, start_of(p, t)
    if kind == "centres":
        return np.asarray(p.public["centres"], dtype=np.float64)
    generator = release.public.generator("start")
    points = norms.directions(generator.standard_normal((int(t.cells) if kind == "cells" else model.k, p.d)))[0]
    points = np.asarray(points * (t.radius * generator.random(len(points)) ** (1 / p.d))[:, None])  # uniform in the ball
    if kind == "random":
        return points
    share = np.atleast_1d(
        release.draw("cells", clusters.counts(records, points, clusters.FAR * t.radius) / p.n, sensitivity=stated["cells"])
    )
    mass = np.where(share > 2 * release.scale("cells"), share, 0.0)  # what noise alone would hardly reach
    return clusters.weighted_means(points, mass if mass.any() else np.ones(len(points)), model.k, generator)


def moved(q: clusters.Parameters, drawn: list[Vector], p: Problem, t: Tunables, noise: tuple[float, float]) -> clusters.Parameters:
    """The parameters after a noisy M-step: functions of the draws, the earlier parameters and public numbers. A variance is not taken to be
    smaller than its noise: a component that is too narrow loses its records."""
    weights, means, spreads = np.maximum(drawn[0], max(t.least, 2 * noise[0])), drawn[1], drawn[2]
    step = np.stack([norms.project(v, t.C) for v in means / weights[:, None]])
    squares = step**2 if spreads.shape[1] > 1 or p.d == 1 else (step**2).mean(axis=1, keepdims=True)
    raw = spreads / weights[:, None] / (1 if spreads.shape[1] > 1 else p.d) - squares
    return clusters.Parameters(
        weights / weights.sum(),
        np.stack([norms.project(v, t.radius) for v in q.means + step]),
        np.clip(np.maximum(raw, noise[1] / weights[:, None]), t.least_sigma**2, p.facts["sigma"] ** 2),
    )


# --------------------------------------------------------------------------------------------------- what is known beforehand


def moment(p: Problem, t: Tunables) -> float:
    """Second moment of a coordinate of f - c: by Minkowski where c is within kappa |beta*| of beta*."""
    if t.centre == "zero":
        return float(t.tau)
    return float((math.sqrt(t.tau) + (1 + p.facts.get("kappa", 1.0)) * p.facts.get("signal_to_noise", math.inf) * p.facts["sigma"]) ** 2)


def bounds_apply(p: Problem, t: Tunables) -> bool:
    """They are for two components of opposite means."""
    return not several(p)


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    known = Tunables({**t, "tau": moment(p, t)})
    value = steps.contracted(p, known, steps.deviation(p, known, batch(p, t), calibrated.scale("step")), 1.0)
    return {} if value is None else {FRESH if t.records == "fresh" else ALL: value}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    tau = moment(p, t)
    return {FRESH: {"tau": tau, "m": batch(p, t)}, ALL: {"tau": tau}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """l2 error of a mean: truncation's bias, the spread of a batch's mean and the noise of a last round, twice for what earlier rounds
    leave."""
    if several(p):
        k = p.facts["components"]
        return 2 * k * math.sqrt(p.d) * math.hypot(p.facts["sigma"] / math.sqrt(k * batch(p, t)), calibrated.scale("means"))
    spread = p.facts["step_sd"] if t.centre == "current" else math.sqrt(t.tau)
    bias = 0.0 if t.centre == "current" else t.tau / (2 * t.s)
    return 2 * math.sqrt(p.d) * math.hypot(bias, spread / math.sqrt(batch(p, t)), calibrated.scale("step"))


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    """000's noise, which is right for its own s and b alone."""
    if budget.kind != "approx" or several(p):
        return ()
    from dpspec.privacy.gaussian import epsilon_of

    e, delta = float(budget.epsilon_exact), float(budget.delta_exact)
    root = math.sqrt(math.log(1 / delta) + e) - math.sqrt(math.log(1 / delta))
    printed = math.sqrt(8 * t.tau * p.d * t.T / (9 * math.log(p.d / t.zeta) * p.n)) / root
    whole = sensitivity(p, t, batch(p, t)) * (1 if t.records == "fresh" else math.sqrt(t.T))
    formula = "sqrt(8*tau*d*T/(9*log(d/zeta)*n))/(sqrt(log(1/delta) + epsilon) - sqrt(log(1/delta)))"
    return (Published("000 Algorithm 7.2.57", "step", formula, printed, epsilon_of(whole / printed, delta), "for its own s and b alone"),)
