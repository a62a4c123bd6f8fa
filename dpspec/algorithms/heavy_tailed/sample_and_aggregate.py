"""Sample and aggregate: minimisers on disjoint blocks, and the centre of most of them with noise at its smooth sensitivity (central model).

    w_i = argmin_W (1/b) sum_{z in block i} l(w; z) + penalty, i = 1..m, b = floor(n/m);   release  prox(g + S T/s),

g the centre of attention of w_1..w_m, S its smooth bound (:mod:`dpspec.algorithms.heavy_tailed._centre`: at least the local sensitivity in
l2, at most e^t times a neighbour's, t = ``smoothing``), T of the multivariate Student law with d + 2 degrees of freedom. Pure: one release
spends s (d + 1)/sqrt(d + 2) + (d + 2) t under replace-one and zero-out. Which record is in which block is a public coin's choice among n
places. A record is in one block and changes one point, whatever it holds; every point lies in the set W, whose diameter is public.

*Block minimisers.* ``T`` accelerated proximal steps of a length that follows the block's second moments, restarted where they point
uphill. Privacy does not rest on how far they come: a point is a function of its own block, in W, and the set's start where a number
overflowed. All blocks have equally many records, and the same operations are done on each; at most m - 1 records at the end are left out.

Source: 000, section 3.2.3, Algorithm 3.2.5, Theorems 3.2.1 and 3.2.2, Lemma 3.2.1; Nissim, Raskhodnikova and Smith 2007. Differences: the
order statistics in S; Student's law for the Gaussian, which is pure, for d below 150 with less noise at delta = 1e-5, and allows a t of
epsilon/(2 (d + 2)) for the printed epsilon/(4 (d + log(2/delta))); disjoint blocks for m subsets of the same size of which a record may be
in sqrt(m): then one point changes, not sqrt(m) of them, the range is left behind by e^(-t m/2) and not e^(-t sqrt(m)/2), and blocks of
independent records are independent.

*The explicit bound*, for a ridge lam > 0 and second moments at most tau of the gradient's coordinates at the minimiser w* of the law's
objective F over W, with F' = 0 there. The block objective is lam-strongly convex, so |w_i - w*| <= |gradient of the block at w*|/lam; by
Markov that exceeds r = sqrt(8 d tau/b)/lam with probability at most 1/8, and by Hoeffding fewer than N = 7 m/8 - sqrt(m log(2/zeta)/2)
blocks are closer with probability at most zeta/2. Each of N points within r of w* has r_i(N) <= 2 r, so |g - w*| <= 3 r and S <=
max(4 r, diameter e^(-t (N - t0))); the rest is a quantile of |T|. Then F(w) - F(w*) <= B/2 |w - w*|^2.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.heavy_tailed import _centre as centre
from dpspec.algorithms.heavy_tailed import _gradients as heavy
from dpspec.algorithms.heavy_tailed import _trimmed as trimmed
from dpspec.algorithms.objective import Objective
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.smooth_student_vector import SmoothStudentVector
from dpspec.privacy.schedule import Draw, Tree
from dpspec.symbolic.margin import bounded

_EVIDENCE: Final = "tests/algorithms/heavy_tailed/test_sample_and_aggregate.py::"
_ROOT: Final = "(sqrt(log(1/delta) + epsilon) - sqrt(log(1/delta)))"
_RIDGE: Final = "a ridge, Markov on a block and Hoeffding over blocks (text of the module)"
_BOUNDED: Final = "a record is in one block and changes one of m points of the set; their centre moves by at most S, and S by at most e^t"


def _blocks(smoothness: str) -> str:
    """The default m, from public facts."""
    return f"max(1, min(floor(n/(2*d)), 4000, ceil(2/smoothing*log(1 + w_radius*({smoothness})*sqrt(n/(d*tau))))))"


CARD = Card(
    id="sample-and-aggregate",
    title="Sample and aggregate: the centre of block minimisers with noise at its smooth sensitivity",
    family="heavy_tailed",
    task="minimise",
    models=("central",),
    guarantees=("pure", "approx", "zcdp"),
    sources=(
        Source("000", "3.2.3", "Algorithm 3.2.5", ("Theorem 3.2.1",)),
        Source("000", "3.2.3", "Algorithm 3.2.5 with exact minimisers", ("Lemma 3.2.1", "Theorem 3.2.2")),
    ),
    summary="Minimises on disjoint blocks of records without privacy and releases the centre of most of the minimisers.",
    needs=(
        Need("x", "privacy", "a record has bounded influence", enforced_by=_BOUNDED),
        Need("y", "privacy", "a record has bounded influence", enforced_by=_BOUNDED),
        Need("moment", "utility", "second moments of the gradient's coordinates are at most tau at the minimiser"),
        Need("convex", "utility", "the loss is convex in w"),
    ),
    tunables={
        "zeta": heavy.ZETA,
        "tau": heavy.TAU,
        "each": Tunable(
            f"sqrt(2*rho) else max(epsilon, sqrt(2)*{_ROOT}) else epsilon",
            "epsilon of the draw, at most what the budget buys; tunes",
            minimum=1e-12,
        ),
        "smoothing": Tunable(
            "each/(2*(d + 2))", "half of epsilon for the dilation; 000: epsilon/(4*(d + log(2/delta)))", minimum=1e-300, maximum=100
        ),
        "m": Tunable(
            f"{_blocks('B + lam')} else {_blocks('max_curve*eig_max + lam')} else {_blocks('1')}",
            "blocks: e^(-t*m/2) leaves of the diameter what all records together leave of their minimiser, sqrt(d*tau/n) over the "
            "smoothness (1 where nothing says more); 000: d^2/epsilon^2, overlapping",
            integer=True,
            minimum=1,
            maximum=8000,
        ),
        "T": Tunable("100", "accelerated steps on a block; 000: exact minimisers", integer=True, minimum=1, maximum=1e4),
    },
    bounds=(
        Bound(
            "excess-population-risk",
            "explicit",
            "upper",
            "B/2*min(diameter, 3*r + scale*S*q)^2",
            "proved",
            _RIDGE,
            probability="1 - zeta",
            conditions="a ridge lam, exact block minimisers, F' = 0 at the minimiser over W, B the smoothness of the law's risk; r = "
            "sqrt(8*d*tau/b)/lam, S = max(4*r, diameter*exp(-t*(N - t0))), N = 7*m/8 - sqrt(m*log(2/zeta)/2), q the 1 - zeta/2 quantile "
            "of |T|",
            where={
                "B": "smoothness of the law's risk",
                "r": "sqrt(8*d*tau/b)/lam, b records a block",
                "S": "max(min(4*r, diameter), diameter*exp(-smoothing*(floor(N) - t0))), N = 7*m/8 - sqrt(m*log(2/zeta)/2)",
                "q": "the 1 - zeta/2 quantile of the length of the noise",
                "diameter": "of the set",
            },
        ),
        Bound(
            "excess-population-risk",
            "order",
            "upper",
            "C*tau*d^2*(d + log(1/delta))^2*log(1/delta)/(n*epsilon^4)",
            "claimed",
            "000 Theorem 3.2.2 with the logarithms that it leaves out, d*tau for 4*B*F*",
            conditions="strongly convex blocks with probability 5/6, m of order (d + log(1/delta))^2/epsilon^2; (B/alpha)^2 left out",
            regime="C*d^2/epsilon^2",
        ),
    ),
    faults=(
        Fault(
            "000 Algorithm 3.2.5, step 5: rho(t) is the mean of the top ceil(s/beta) of r_1(t)..r_m(t)",
            "of the largest, S is not beta-smooth: sqrt(m) points that move from a cluster to the far end take it up by a factor of order "
            "beta*e^(beta*sqrt(m)/2), and no (epsilon, delta) below 1 holds; the order statistic is smooth",
            _EVIDENCE + "test_the_mean_of_the_largest_radii_is_not_smooth",
            "privacy",
        ),
        Fault(
            "000 Algorithm 3.2.5, step 5, by the mean of the smallest",
            "up to 2*beta-smooth (log(1 + beta) more by the points that are exchanged): the proof fails; no pair whose "
            "loss passes epsilon is known, as the printed beta has room",
            _EVIDENCE + "test_the_mean_of_the_smallest_radii_is_steeper_than_beta",
            "text",
        ),
        Fault(
            "000 Algorithm 3.2.5, step 5: the maximum over k needs r_i(t) for t > m, which is not defined",
            "stopped at m, S is 0 where most points are equal, and the output is one of them without noise: the diameter takes its place",
            _EVIDENCE + "test_without_the_diameter_equal_points_have_no_noise",
            "privacy",
        ),
        Fault(
            "000 Theorem 3.2.1: epsilon > 2 d/sqrt(m)",
            "with beta = epsilon/(4 (d + log(2/delta))) and s = sqrt(m), ceil(s/beta) radii exist only where sqrt(m) >= 4 (d + "
            "log(2/delta))/epsilon",
            _EVIDENCE + "test_the_printed_number_of_blocks_has_too_few_radii",
            "utility",
        ),
        Fault(
            "000 Lemma 3.2.1: a block is within eta = sqrt(40 E|grad|^2/(n alpha^2)) with probability 3/4",
            "Markov's 1/10 and 1/6 leave 0.7333, for the two events are not independent; 48 for 40 gives 3/4",
            _EVIDENCE + "test_the_union_of_two_failures_leaves_less_than_three_quarters",
            "text",
        ),
        Fault(
            "000 Theorem 3.2.2: E|grad l(w*, x)|^2 <= 4 B F* from the smoothness of the law's risk",
            "smoothness of the mean loss bounds no record's gradient: each loss has to be smooth and non-negative; here tau is declared",
            "tests/algorithms/heavy_tailed/test_heavy_tailed_dp_gd_catoni.py::test_a_smooth_risk_says_nothing_of_its_records",
            "utility",
        ),
    ),
    cost={"gradients": "n*T", "rounds": "1", "memory_bytes": "8*(3*n*(d + 1) + 4*m^2 + 4*m*d^2)"},
    spec="specs/heavy_tailed/sample-and-aggregate.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    reason = heavy.refused(p, t)
    if reason is not None:
        return reason
    assert p.loss is not None
    if p.neighbours == "add-remove":
        return "how many records a block has must be public (neighbours replace-one or zero-out)"
    if not p.loss.convex or not math.isfinite(p.loss.curve):
        return "its steps on a block need a convex loss with a bounded second derivative in the margin"
    far = diameter(p)
    if not 1e-100 < far < 1e100:
        return "its noise needs a set of public diameter (minimise ... over ball(l2, r))"
    if t.m > p.n:
        return f"m = {t.m} blocks need a record each, and there are n = {p.n}"
    if t.smoothing < trimmed.LEAST:
        return f"smoothing = {t.smoothing:g} is below 2^-16, where rounding would count (more budget, or fewer releases)"
    if t.smoothing * centre.steps(t.m, 1) > trimmed.FARTHEST:
        return f"e^(-smoothing*m/2) is beyond the range of doubles (m = {t.m}, smoothing = {t.smoothing:g})"
    return None


def diameter(p: Problem) -> float:
    return heavy.spread(p)[1]


def mechanism(p: Problem, t: Tunables) -> SmoothStudentVector:
    """Outputs are multiples of 2^-30 of the diameter, rounded to a power of two."""
    return SmoothStudentVector(t.smoothing, 2.0 ** math.floor(math.log2(diameter(p)) - 30), p.d)


def uncertain(p: Problem, t: Tunables, calibrated: Any) -> str | None:
    level = float(calibrated.levels["centre"])
    if (p.d + 2) * t.smoothing >= level:
        return f"smoothing = {t.smoothing:g} spends all of epsilon {level:g} (it has to be below epsilon/(d + 2))"
    return None


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("centre", mechanism(p, t))


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door) -> Estimate:
    b = p.n // t.m
    # the places of a block, and no record, are chosen: neighbours are cut alike
    order = np.asarray(release.public.generator("blocks").permutation(p.n))[: t.m * b]
    parts = list(records.take(order).blocks())
    x = np.concatenate([v if isinstance(v, np.ndarray) else v.toarray() for v, _ in parts]).reshape(t.m, b, p.d)
    y = None if parts[0][1] is None else np.concatenate([v for _, v in parts]).reshape(t.m, b)
    assert p.loss is not None
    points = minimisers(p.objective, x, y, t.T, p.loss.curve)
    value = release.draw("centre", centre.released(points, 1, t.smoothing, diameter(p)), sensitivity=t.smoothing)
    return Estimate(p.objective.over.project(np.atleast_1d(value)))


def minimisers(f: Objective, x: Any, y: Any, T: int, curve: float) -> Any:
    """Of the objective on each block, (m, d). ``x`` (m, b, d), ``y`` (m, b), ``curve`` a bound of phi''. A row is a function
    of its block alone: blocks have one shape, and no product runs through BLAS, which would round by what else it holds."""
    m, b, d = x.shape
    start = f.over.start(d)
    labels: Any = None if y is None else y.ravel()
    with np.errstate(all="ignore"):
        moment = np.einsum("mbi,mbj->mij", x, x) / b
        steep = curve * np.abs(moment).sum(axis=2).max(axis=1) + f.l2  # at least the largest eigenvalue
        step = np.where((steep > 0) & np.isfinite(steep), 1 / steep, 0.0)
        w, ahead, pace = np.tile(start, (m, 1)), np.tile(start, (m, 1)), np.ones(m)
        for _ in range(T):
            u = np.einsum("mbd,md->mb", x, ahead)
            s = bounded(f.slope(u.ravel(), labels), f.limit).reshape(m, b)
            g = np.einsum("mbd,mb->md", x, s) / b + f.l2 * ahead
            v = ahead - step[:, None] * g
            v = np.where(np.isfinite(v).all(axis=1)[:, None], v, start)
            new = np.stack([f.prox(v[i], float(step[i])) for i in range(m)])
            uphill = np.einsum("md,md->m", ahead - new, new - w) > 0
            after = np.where(uphill, 1.0, (1 + np.sqrt(1 + 4 * pace**2)) / 2)
            push = np.where(uphill, 0.0, (pace - 1) / after)
            ahead, w, pace = new + push[:, None] * (new - w), new, after
    return w


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    assert p.loss is not None
    smooth = heavy.smoothness(p)
    held = 7 * t.m / 8 - math.sqrt(t.m * math.log(2 / t.zeta) / 2)
    t0 = centre.needed(t.m, 1)
    if not (p.loss.data_convex and p.loss.l2 > 0 and math.isfinite(smooth) and held >= t0):
        return {}
    from scipy.special import fdtri

    r = math.sqrt(8 * p.d * t.tau / (p.n // t.m)) / p.loss.l2
    far = diameter(p)
    bound = max(min(4 * r, far), far * math.exp(-t.smoothing * (math.floor(held) - t0)))
    quantile = math.sqrt(p.d * float(fdtri(p.d, p.d + 2, 1 - t.zeta / 2)))
    error = min(far, 3 * r + calibrated.scale("centre") * bound * quantile)
    return {_RIDGE: smooth / 2 * error**2}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    assert p.loss is not None
    from scipy.special import fdtri

    held = 7 * t.m / 8 - math.sqrt(t.m * math.log(2 / t.zeta) / 2)
    r, far = math.sqrt(8 * p.d * t.tau / (p.n // t.m)) / p.loss.l2 if p.loss.l2 > 0 else math.inf, diameter(p)
    S = max(min(4 * r, far), far * math.exp(-t.smoothing * (math.floor(held) - centre.needed(t.m, 1))))
    q = math.sqrt(p.d * float(fdtri(p.d, p.d + 2, 1 - t.zeta / 2)))
    return {_RIDGE: {"B": heavy.smoothness(p), "r": r, "S": S, "q": q, "diameter": far}}


def reach_of_noise(p: Problem, t: Tunables, calibrated: Any) -> float:
    """The root of E|noise|^2 at S = the largest of what is left of the diameter and 4 times a block minimiser's error."""
    smooth = heavy.smoothness(p)
    r = math.sqrt(p.d * t.tau / (p.n // t.m)) / (smooth if math.isfinite(smooth) and smooth > 0 else 1.0)
    far = diameter(p)
    bound = max(min(4 * r, far), far * math.exp(-t.smoothing * centre.steps(t.m, 1)))
    return float(calibrated.scale("centre") * bound * math.sqrt(p.d + 2))


def warnings(p: Problem, t: Tunables, calibrated: Any) -> list[str]:
    noise, far = reach_of_noise(p, t, calibrated), heavy.spread(p)[0]
    if noise < far / 2:
        return []
    return [
        f"the declared moments allow noise of length {noise:.3g} in a set that reaches {far:.3g} from its start: expect no more than an "
        "answer without data gives (more records, a larger epsilon, or heavy-tailed-dp-gd-catoni)"
    ]


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """Excess risk: half the smoothness (1 where it is not known) times the squared error of a centre of points that are each
    sqrt(d tau/b) over the smoothness away, and of its noise."""
    smooth = heavy.smoothness(p)
    smooth = smooth if math.isfinite(smooth) and smooth > 0 else 1.0
    far = diameter(p)
    r = min(far, math.sqrt(p.d * t.tau / (p.n // t.m)) / smooth)
    bound = max(min(far, 2 * r), far * math.exp(-t.smoothing * centre.steps(t.m, 1)))
    return float(smooth / 2 * min(far**2, r**2 + (p.d + 2) * (calibrated.scale("centre") * bound) ** 2))


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    """Step 5 in two readings, each on the witness of its fault; with the order statistics the printed Gaussian constants hold."""
    if budget.kind != "approx":
        return ()
    e, delta = float(budget.epsilon_exact), float(budget.delta_exact)
    beta, gamma = e / (4 * (p.d + math.log(2 / delta))), e / (5 * math.sqrt(2 * math.log(2 / delta)))
    formula, (low, high) = "5*sqrt(2*log(2/delta))*S/epsilon", printed_witness(t.m, beta)
    lines = [
        Published(
            "000 Algorithm 3.2.5, the maximum over ranks up to m",
            "centre",
            formula,
            0.0,
            math.inf,
            "S is 0 where all block minimisers are equal and positive at a neighbour: one output without noise",
        )
    ]
    spent = spent_by_dilation(math.log(high / low), p.d, delta)
    if spent > e:
        lines.append(
            Published(
                "000 Algorithm 3.2.5, rho the mean of the largest",
                "centre",
                formula,
                diameter(p) * low / gamma,
                spent,
                "S of equal block minimisers and of a neighbour are not within e^beta: at least this is spent",
            )
        )
    return tuple(lines)


def printed_witness(m: int, beta: float) -> tuple[float, float]:
    """S/diameter by the largest radii, of m equal points and of the same with floor(sqrt(m)) of them at the far end."""
    s = max(1, math.isqrt(m))
    t0, top = math.ceil((m + s) / 2 + 1), min(m, math.ceil(s / beta))
    last = steps = max(0, math.ceil((m + 1 - t0) / s) - 1)
    low = 2 * math.exp(-beta * last)
    high = low
    for k in range(steps):  # a moved point has m - s others at the far end within no rank below s + 1
        rank = t0 + (k + 1) * s
        radii = s + (m - s if rank > m - s else 0)
        high = max(high, 2 * math.exp(-beta * k) * min(radii, top) / top)
    return low, high


def spent_by_dilation(ratio: float, d: int, delta: float) -> float:
    """The least epsilon at which N(0, e^(2 ratio) I) and N(0, I) in R^d are (epsilon, delta)-close in that direction."""
    if ratio <= 0:
        return 0.0
    from scipy.optimize import brentq
    from scipy.special import chdtrc

    def excess(epsilon: float) -> float:
        # the loss -d ratio + q (1 - e^(-2 ratio))/2, q = |x|^2, is above epsilon where q is above this
        at = 2 * (epsilon + d * ratio) / -math.expm1(-2 * ratio)
        tail = float(chdtrc(d, at))
        log_tail = math.log(tail) if tail > 0 else -math.inf
        return float(chdtrc(d, at * math.exp(-2 * ratio))) - math.exp(min(epsilon + log_tail, 0.0)) - delta

    top = 1.0
    while excess(top) > 0:
        top *= 2
        if top > 1e12:
            return math.inf
    return 0.0 if excess(0.0) <= 0 else float(brentq(excess, 0.0, top))
