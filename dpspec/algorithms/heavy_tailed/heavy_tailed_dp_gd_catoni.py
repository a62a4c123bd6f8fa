"""Gradient descent on the risk of a law whose gradients have two moments: robust coordinate means plus Gaussian noise (central model).

    g_t = (s/m) sum_i E phi(grad_j l(w_{t-1}; z_i)(1 + eta)/s) + N(0, sigma^2 I),
    w_t = prox(w_{t-1} - step (g_t + lam w_{t-1})),   t = 1..T,

phi(a) = a - a^3/6 cut at |a| = sqrt(2), eta ~ N(0, 1/beta), from the public point of the set nearest to 0; released is the average of the
last ``tail`` of w_1..w_T. ``batches = parts``: the records are cut into ``parts`` batches in their order, and T/parts steps in a row read
each (parts = 1: all records in every step, as printed; parts = T: fresh records in every step). ``fixed``: b random records a step.

Sensitivity: each of the m terms of a coordinate lies in [-cap, cap]*s/m, cap = (2 sqrt(2)/3) erf(sqrt(beta/2)), whatever a record holds, so
under replace-one the mean moves by at most 2 cap s sqrt(d)/m in l2 (half of that where a record vanishes). A record meets T/parts Gaussian
draws; ``fixed`` is the fixed-size sampler with its own accountant.

Source: 000, section 3.2.4, Algorithm 3.2.8, Theorems 3.2.7 and 3.2.8, and its mini-batches of section 3.2.5; 003, section 4, its
gradients with Gaussian noise. Differences: exact composition in the place of sigma^2 = 8 v d T/(9 log(1/zeta) n rho);
the scale s, printed sqrt(n v/(2 log(1/zeta))), the best one without noise, follows from a balance of truncation and noise; T, step and
start are public; an average for the last point.

Bound (parts = T; F the law's risk with its ridge, convex and B-smooth, step <= 1/B; E (grad_j)^2 <= tau on the set). By PAC-Bayes for fresh
records (002 equation (36), both sides, d T coordinates) and the tail of chi, with probability 1 - zeta every step errs by at most

    E = sqrt(d) (tau (1 + 1/beta)/(2 s) + (s/m)(beta/2 + log(4 d T/zeta))) + sigma (sqrt(d) + sqrt(2 log(2 T/zeta)))

in l2. A step with error e has F(w') - F(u) <= (|w - u|^2 - |w' - u|^2)/(2 step) - <e, w' - u> (smoothness, convexity, prox), so the
average of the last K = ceil(tail*T) iterates is within Q^2/(2 step K) + Q E of the least risk, Q the diameter, and within
(D^2/(2 step) + T Q E)/K, D the distance from the start. With records that are read again (parts < T) an iterate depends on them; the
documents' bounds then rest on a uniform convergence that needs Lipschitz gradients of each record, and are claimed only.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.formulas import STRENGTH, STRENGTH_SOURCE
from dpspec.algorithms.heavy_tailed import _gradients as heavy
from dpspec.algorithms.objective import Objective
from dpspec.algorithms.sets import Vector
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.schedule import Disjoint, Draw, Repeat, Sampled, Tree

_EVIDENCE: Final = "tests/algorithms/heavy_tailed/test_heavy_tailed_dp_gd_catoni.py::"
FRESH: Final = "inexact projected descent on fresh records"

CARD = Card(
    id="heavy-tailed-dp-gd-catoni",
    title="Noisy gradient descent with robust means of the gradients",
    family="heavy_tailed",
    task="minimise",
    models=("central",),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(
        Source("000", "3.2.4", "Algorithm 3.2.8", ("Theorem 3.2.7", "Theorem 3.2.8", "Lemma 3.2.9", "Lemma 3.2.10", "Lemma 3.2.11")),
        Source("000", "3.2.5", "mini-batches of 1000 (no noise stated)"),
        Source("003", "4", "robust gradient (1) to (5) with Gaussian noise"),
    ),
    summary="Gradients are averaged with bounded influence, so records need no domain; only the error needs a second moment.",
    needs=(
        *heavy.NEEDS,
        Need("convex", "utility", "the loss is convex in w"),
        Need("smooth", "utility", "the mean loss of the law is B-smooth"),
    ),
    options={"batches": ("parts", "fixed")},
    tunables={
        "zeta": heavy.ZETA,
        "tau": heavy.TAU,
        "strength": Tunable(STRENGTH, STRENGTH_SOURCE, minimum=1e-12),
        "smoothness": heavy.SMOOTHNESS,
        "reach": Tunable("w_radius else sqrt(d)", "distance to cover: the radius of the set; tunes", minimum=1e-12),
        "T": Tunable(
            "ceil(max(16, min(100, (2*smoothness*reach/sqrt(8*sqrt(2)/3*tau*d^(3/2)/(n*strength)))^(4/5))))",
            "least smoothness*reach^2/(2 T) + reach*E, E of order T^(1/4) where a step reads all records; 000: (B/alpha) log(n)",
            integer=True,
            minimum=1,
            maximum=1e5,
        ),
        "parts": Tunable("1", "disjoint batches: 1 reads all records in every step (000), T fresh ones", integer=True, minimum=1),
        "b": Tunable("floor(n/parts)", "records of a step", integer=True, minimum=1),
        "load": Tunable(
            "log(4*d*T/zeta) + 4*sqrt(2)/3*b/n*parts*sqrt(d*T/parts)/strength*(1 + sqrt(2*log(2*T/zeta)/d))",
            "m times what multiplies s in the error of a coordinate, without beta/2; tunes, the noise is exact",
            minimum=1e-12,
        ),
        "beta": Tunable("sqrt(2*load)", "least (1 + 1/beta)*(beta/2 + load); 000: log(1/zeta)", minimum=0.05, maximum=1e4),
        "s": Tunable(
            "sqrt(tau*(1 + 1/beta)/2*b/(beta/2 + load))/8",
            "an eighth of what balances the worst truncation and the noise: laws with more than two moments have less of the one (set "
            "on three laws; the bound is 4 times the least); 000: sqrt(n*tau/(2*log(1/zeta)))",
            minimum=1e-100,
            maximum=1e100,
        ),
        "step": Tunable(
            "1/smoothness", "000 Theorem 3.2.7: one over the smoothness (printed 1/beta, beta being two things)", minimum=1e-300
        ),
        "tail": Tunable("1/2", "share of the last iterates that is averaged; 000: the last one", minimum=1e-6, maximum=1.0),
    },
    bounds=(
        Bound(
            "excess-population-risk",
            "explicit",
            "upper",
            "min(Q^2/(2*step*K) + Q*E, D^2/(2*step*K) + T/K*Q*E)",
            "proved",
            FRESH,
            probability="1 - zeta",
            conditions="parts = T, a convex loss and set, step*B <= 1, B bounds the law's smoothness; K = ceil(tail*T), E as in the text: "
            "sqrt(d)*(tau*(1 + 1/beta)/(2*s) + s/m*(beta/2 + log(4*d*T/zeta))) + scale*(sqrt(d) + sqrt(2*log(2*T/zeta))); a declared "
            "largest eigenvalue is that of E x x^T",
            where={
                "Q": "diameter of the set",
                "D": "distance of the start to a minimiser, at most",
                "K": "averaged steps, ceil(tail*T)",
                "E": "error of a step: sqrt(d)*(tau*(1 + 1/beta)/(2*s) + s/m*(beta/2 + log(4*d*T/zeta))) + scale*(sqrt(d) + "
                "sqrt(2*log(2*T/zeta))), m records a step",
            },
        ),
        Bound(
            "excess-population-risk",
            "order",
            "upper",
            "C*tau*d^2*log(n)^2*log(1/delta)*log(1/zeta)/(n*epsilon^2)",
            "claimed",
            "000 Theorem 3.2.7",
            probability="1 - 2*zeta*T",
            conditions="strongly convex, parts = 1, the printed scale; Q^2*B^4/alpha^3 left out",
            needs=("strongly-convex of population",),
            when=("parts = 1",),
        ),
        Bound(
            "excess-population-risk",
            "order",
            "upper",
            "C*log(1/delta)^(1/3)*sqrt(log(1/zeta))*d^(2/3)/(n*epsilon^2)^(1/3)",
            "claimed",
            "000 Theorem 3.2.8",
            probability="1 - 2*zeta*T",
            conditions="convex, parts = 1, the printed scale, n >= d^2/epsilon^2 up to logarithms",
            needs=("convex",),
            when=("parts = 1",),
            regime="C*d^2/epsilon^2",
        ),
        Bound(
            "excess-population-risk",
            "order",
            "upper",
            "C*tau*d*sqrt(d*log(n)*log(1/delta))*log(d)/(n*epsilon)",
            "claimed",
            "the square of the error at the balanced scale, strongly convex, T of order log(n)",
            conditions="parts = 1; B and alpha left out; sampling of order tau*d*log(d)/n where that is larger",
            needs=("strongly-convex of population",),
            when=("parts = 1",),
        ),
    ),
    faults=(
        heavy.KERNEL_FAULT,
        Fault(
            "000 Algorithm 3.2.8, step 1: epsilon~ = (sqrt(log(1/delta)) + epsilon) - sqrt(log(1/delta)), that is epsilon",
            "sigma^2 divides by it once, so it is the rho of zCDP, (sqrt(log(1/delta) + epsilon) - sqrt(log(1/delta)))^2; with epsilon "
            "in its place (1, 1e-5) spends more than 7 by zCDP, without the square 2.7",
            _EVIDENCE + "test_the_printed_budget_is_spent_several_times",
            "privacy",
        ),
        Fault(
            "000 section 3.2.5: mini-batches of 1000, and no word on their noise",
            "a mean over b records moves by n/b times as much as one over n: the noise of Algorithm 3.2.8 is too small by as much",
            _EVIDENCE + "test_a_batch_with_the_noise_of_all_records_is_not_private",
            "privacy",
        ),
        Fault(
            "000 Theorem 3.2.8: T = B |w_0 - w*|/chi",
            "a number of steps that looks at the minimiser is a release; here every number is public",
            _EVIDENCE + "test_no_number_of_steps_looks_at_the_records",
            "privacy",
        ),
        Fault(
            "000: s = sqrt(n*v/(2*log(1/zeta)))",
            "the best scale without noise: the balanced one has an error of order (tau*sqrt(T)/(n*epsilon))^(1/2) in the place of "
            "(tau*T/n)^(1/2)/epsilon",
            _EVIDENCE + "test_the_printed_scale_has_more_noise_than_it_saves_bias",
            "utility",
        ),
        Fault(
            "000 section 3.2.5: v = 5 for noise that is centred lognormal(1, 1)",
            "E (x_j e)^2 = (e - 1)e^3 = 34.5 for x_j of variance 1",
            _EVIDENCE + "test_the_moment_of_the_experiments_is_not_five",
            "utility",
        ),
        Fault(
            "000 Lemma 3.2.9: uniform convergence from the smoothness of the law's risk",
            "the covering needs records whose gradients are Lipschitz on average; on fresh records nothing uniform is needed",
            _EVIDENCE + "test_a_smooth_risk_says_nothing_of_its_records",
            "utility",
        ),
        Fault(
            "000 Algorithm 3.2.8 and Theorem 3.2.7: beta is the precision of eta, and eta_t = 1/beta",
            "two numbers of one name: the step is one over the smoothness",
            _EVIDENCE + "test_the_default_step_is_one_over_the_smoothness",
            "text",
        ),
    ),
    cost={"gradients": "b*T", "rounds": "T", "memory_bytes": "8*(n*(d + 1) + 12*262144)"},
    reads="rows",
    spec="specs/heavy_tailed/heavy-tailed-dp-gd-catoni.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    reason = heavy.refused(p, t)
    if reason is not None:
        return reason
    if t.batches == "fixed":
        if p.neighbours != "replace-one":
            return f"batches of a fixed size are accounted for under replace-one, not under {p.neighbours} (batches = parts)"
        return None if t.b <= p.n and t.parts == 1 else f"batches = fixed takes parts = 1 and at most n = {p.n} records a step (b = {t.b})"
    if t.parts > 1 and p.neighbours == "add-remove":
        return "a record that is added or removed shifts every later batch (parts = 1, or neighbours replace-one or zero-out)"
    if t.T % t.parts != 0 or t.parts > p.n:
        return f"parts = {t.parts} has to divide T = {t.T}, and a batch needs a record (n = {p.n})"
    return None if t.b == p.n // t.parts else f"b = {t.b} is for batches = fixed; parts = {t.parts} says how many records a step reads"


def count(p: Problem, t: Tunables) -> int:
    """The least number of records of a step."""
    return int(t.b if t.batches == "fixed" else p.n // t.parts)


def sensitivity(p: Problem, t: Tunables) -> float:
    """l2 distance of a step's robust mean between neighbours."""
    least = count(p, t)
    largest = least if t.batches == "fixed" else p.n - (t.parts - 1) * least
    return heavy.sensitivity(p, t, least, largest, math.sqrt(p.d))


def schedule(p: Problem, t: Tunables) -> Tree:
    draw = Draw("gradient", Gaussian(sensitivity(p, t), p.d))
    if t.batches == "fixed":
        return Repeat(Sampled(draw, "fixed", t.b / p.n, p.n), t.T)
    again = Repeat(draw, t.T // t.parts)
    return again if t.parts == 1 else Disjoint(again, t.parts)


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door) -> Estimate:
    f, w, kept = p.objective, p.objective.over.start(p.d), kept_steps(t)
    total = np.zeros(p.d)
    for k, (batch, m) in enumerate(_batches(records, p, t, release)):
        g = np.atleast_1d(release.draw("gradient", heavy.robust_gradient(batch, w, p, t, m), sensitivity=sensitivity(p, t)))
        w = stepped(f, w, g, t.step)
        if k >= t.T - kept:
            total += w
    return Estimate(total / kept)


def _batches(records: Rows, p: Problem, t: Tunables, release: Door) -> Any:
    """What each step reads, and the public number that its sum is divided by."""
    if t.batches == "fixed":
        for _ in range(t.T):
            yield records.take(release.batch("gradient", records.n)), t.b
    elif t.parts == 1:
        for _ in range(t.T):
            yield records, p.n
    else:
        for x, y in records.rounds(t.parts):
            for _ in range(t.T // t.parts):
                yield (x, y), x.shape[0]


def stepped(f: Objective, w: Vector, g: Vector, step: float) -> Vector:
    """One proximal step with the ridge's gradient added to that of the data part."""
    return f.prox(w - step * (g + f.l2 * w), step)


def kept_steps(t: Tunables) -> int:
    return math.ceil(float(t.tail * t.T))


# --------------------------------------------------------------------------------------------------- what is known beforehand


def step_error(p: Problem, t: Tunables, scale: float) -> float:
    """E of the text: l2 error of every step's gradient, with probability 1 - zeta, on fresh records."""
    one = heavy.coordinate_error(t, count(p, t), math.log(4 * p.d * t.T / t.zeta))
    return math.sqrt(p.d) * one + scale * (math.sqrt(p.d) + math.sqrt(2 * math.log(2 * t.T / t.zeta)))


def descent_bound(p: Problem, t: Tunables, error: float) -> float | None:
    """Excess risk after steps that each err by ``error``; None where the argument does not apply."""
    assert p.loss is not None
    D, Q = heavy.spread(p)
    if not (p.loss.convex and math.isfinite(Q) and t.step * heavy.smoothness(p) <= 1 + 1e-12):
        return None
    K = kept_steps(t)
    return float(min(Q**2 / (2 * t.step * K) + Q * error, (D**2 / (2 * t.step) + t.T * Q * error) / K))


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    if t.batches == "fixed" or t.parts != t.T:
        return {}
    value = descent_bound(p, t, step_error(p, t, calibrated.scale("gradient")))
    return {} if value is None else {FRESH: value}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    D, Q = heavy.spread(p)
    return {FRESH: {"D": D, "Q": Q, "K": kept_steps(t), "E": step_error(p, t, calibrated.scale("gradient"))}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """Excess risk: what the steps leave of the start's, and the noise, the spread and a quarter of the worst bias of half the steps."""
    far, m = t.reach, count(p, t)
    noise = p.d * (calibrated.scale("gradient") ** 2 + t.tau / m) / max(1, kept_steps(t))
    left = far**2 / (2 * t.step * t.T)
    return float(left + far * math.sqrt(noise + p.d * (t.tau / (8 * t.s)) ** 2))


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    """Algorithm 3.2.8's noise at this scale s and beta, in its three readings, and what each really spends on a step over all records."""
    if budget.kind != "approx" or t.batches == "fixed":
        return ()
    from dpspec.privacy.published import epsilon_spent

    e, delta = float(budget.epsilon_exact), float(budget.delta_exact)
    each, times, moves = 4 * math.sqrt(2) * t.s * math.sqrt(p.d) / (3 * count(p, t)), t.T // t.parts, sensitivity(p, t)
    root = math.sqrt(math.log(1 / delta) + e) - math.sqrt(math.log(1 / delta))
    readings = (
        ("000 Algorithm 3.2.8, epsilon~ the rho of zCDP", "(sqrt(log(1/delta) + epsilon) - sqrt(log(1/delta)))^2", root**2, "safe"),
        ("000 Algorithm 3.2.8, the square lost", "sqrt(log(1/delta) + epsilon) - sqrt(log(1/delta))", root, "sigma^2 divides by it once"),
        ("000 Algorithm 3.2.8 as printed", "(sqrt(log(1/delta)) + epsilon) - sqrt(log(1/delta))", e, "the radical and the square lost"),
    )
    return tuple(
        Published(
            source,
            "gradient",
            f"4*s*sqrt(d*T)/(3*n*sqrt(epsilon~)), epsilon~ = {formula}",
            each * math.sqrt(times / (2 * rho)),
            epsilon_spent(each * math.sqrt(times / (2 * rho)), moves, times, budget.delta_exact),
            remark,
        )
        for source, formula, rho, remark in readings
    )
