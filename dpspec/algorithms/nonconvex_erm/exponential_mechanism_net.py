"""The exponential mechanism on a net of a bounded set: pure differential privacy for losses that need not be convex, in few dimensions.

    P(w) proportional to exp(-epsilon (F(w) - F(w_0))/(2 s)),   w in a net: every point of the set lies within alpha of one of it,

w_0 the point of the set nearest to 0. Over R^d with a ridge the set is the ball of radius L/lam, where all minimisers of F lie: lam |w*| =
|mean gradient at w*| <= L, and an l1 or group term only pulls w* closer. The net is a cubic grid of spacing 2 alpha/sqrt(d) whose points
within alpha of the set are projected onto it: a projection is non-expansive, so they stay within alpha of the points that they cover. How
many there are is in the plan, and beyond ``most`` the plan is refused with the number: it grows like (1 + r sqrt(d)/alpha)^d.

Privacy: one choice. The regulariser is public and cancels; a record contributes phi(w) - phi(w_0), which is at most L r, r the greatest
|w - w_0|, and at least -L r and, from w_0 = 0, inf phi - sup_y phi(0, y); both ends are enforced record by record. Under replace-one a
score moves by at most their sum over n, where a record vanishes by L r/n.

Source: 000, section 4.2.2, Theorem 4.2.4, the text after it, and Theorem 4.2.12. Differences: the constants of the sensitivity (L/n there);
the exact size of the net; alpha balances net and noise with constants.

Bound: the best point of the net is worse than F* by G alpha, G = L + lam R + the slope of the penalties, R the greatest |w| of the set, and
over R^d without an l1 or group term, where grad F(w*) = 0, by S alpha^2/2; a choice among N is worse than the best by scale*log N in
expectation, and by scale*(log N + log(1/zeta)) with probability 1 - zeta.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final

import numpy as np

from dpspec.algorithms import sums
from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.gradients import LARGEST, distance, moved, norm
from dpspec.algorithms.nonconvex_erm._common import gap
from dpspec.algorithms.objective import Objective
from dpspec.algorithms.sets import ConstraintSet, Vector, constraint_set
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.numeric.norms import lengths
from dpspec.privacy.mechanisms.exponential import Exponential
from dpspec.privacy.schedule import Draw, Tree

_TESTS = "tests/algorithms/nonconvex/test_exponential_mechanism_net.py::"
#: One choice leaks little about a net: eight times epsilon is what the audit of the suite sees.
AUDIT_FACTOR: Final = 8
#: A grid of more points than this is not even counted.
_HUGE: Final = 1 << 18
#: Margins of a block, which stay in the cache, and its records: long rows, since each point costs a few calls.
_NUMBERS: Final = 64_000
_ROWS: Final = 8000
#: Distances and differences of penalties are computed in a few steps each, with room.
_ROUNDED: Final = 1 + 2.0**-40

CARD = Card(
    id="exponential-mechanism-net",
    title="The exponential mechanism on a net of the set",
    family="nonconvex_erm",
    task="minimise",
    models=("central",),
    guarantees=("pure", "approx", "zcdp"),
    sources=(Source("000", "4.2.2", "exponential mechanism on a net, unnumbered", ("Theorem 4.2.4", "Theorem 4.2.12")),),
    summary="One private choice among the points of a net, by their empirical risks; the net grows exponentially in d, and has a limit.",
    needs=(Need("lipschitz", "privacy", "every record's gradient has l2 norm at most L on the set"),),
    tunables={
        "reach": Tunable(
            "w_radius else L/max(lam, L/10^9)", "radius of the set, or of the ball of all minimisers", minimum=1e-300, maximum=1e100
        ),
        "most": Tunable(
            "ceil(max(1000, min(4000, 10^9/n)))", "points of the net, at most: their risks cost n times as many margins", True, 1, 4e6
        ),
        "alpha": Tunable(
            "max(min(4*reach*d/(n*epsilon), reach/4), reach*sqrt(d)/max(most^(1/d) - 2, 1))",
            "least L*alpha + (4*L*reach/(n*epsilon))*d*log(1/alpha), and no net beyond most; 000: d/(n*epsilon)",
            minimum=1e-300,
            maximum=1e100,
        ),
    },
    bounds=(
        Bound(
            "excess-empirical-risk",
            "explicit",
            "upper",
            "near + scale*log(N)",
            "proved",
            "net and exponential mechanism",
            conditions="N the size of the net, G as in the docstring; S*alpha^2/2 over R^d without an l1 or group term, else G*alpha",
            where={"near": "how far F moves within alpha: G*alpha, or S*alpha^2/2 over R^d where that is less", "N": "size of the net"},
        ),
        Bound(
            "excess-empirical-risk",
            "order",
            "upper",
            "C*(d*log(1 + 2*L*n*epsilon/(lam*d)) + log(1/zeta))/(n*epsilon)",
            "proved",
            "000 Theorem 4.2.4",
            probability="1 - zeta",
            conditions="lam > 0, alpha = d/(n*epsilon); L and lam constants",
            needs=("strongly-convex",),
        ),
    ),
    faults=(
        Fault(
            "000, proof of Theorem 4.2.4: the sensitivity is O(L/n)",
            "2 L^2/(lam n) with w_0 = 0, and 4 L^2/(lam n) for any w_0 of the ball: with L/n and lam = 0.1 the loss is 10 times epsilon",
            _TESTS + "test_the_printed_sensitivity_lacks_the_radius",
            "privacy",
        ),
        Fault(
            "000 Theorem 4.2.12: the size of the net of a ball of radius r has L/lam in it",
            "the radius takes its place",
            _TESTS + "test_the_net_covers_the_set_and_has_the_size_of_the_plan",
            "text",
        ),
        Fault(
            "000 Theorem 4.2.12: the loss -<w, z> - lam/2 |w|^2",
            "is Lipschitz on the ball alone, and Theorem 4.2.4 is about R^d",
            _TESTS + "test_the_concave_loss_is_lipschitz_on_a_ball_alone",
            "text",
        ),
    ),
    cost={"gradients": "n*most", "rounds": "1", "memory_bytes": "8*n*(features + 1) + 8*most*d"},
    reads="passes",
    spec="specs/nonconvex_erm/exponential-mechanism-net.dps",
)


def region(p: Problem) -> ConstraintSet:
    """The set, or the ball of all minimisers over R^d. Unbounded where there is neither."""
    over = constraint_set(p.task.over, p.facts)
    far = distance(p)
    if over.kind != "reals" or not math.isfinite(far):
        return over
    return ConstraintSet("l2", radius=far)


def net(over: ConstraintSet, d: int, alpha: float) -> Vector | int:
    """The points of the net, (N, d), in a fixed order; or how many a grid would have when there are too many to make."""
    return _net(over.kind, over.radius, over.low, over.high, d, alpha)


@lru_cache(maxsize=4)
def _net(kind: str, radius: float, low: float, high: float, d: int, alpha: float) -> Vector | int:
    over = ConstraintSet(kind, radius=radius, low=low, high=high)  # type: ignore[arg-type]
    least, most = {"box": (low, high), "simplex": (0.0, 1.0)}.get(kind, (-radius, radius))
    # centres of cells of half a diagonal alpha, that cover each side
    cells = max(1.0, np.ceil((most - least) * math.sqrt(d) / (2 * alpha) * _ROUNDED))
    if d * math.log(cells) > math.log(_HUGE):
        return int(math.exp(min(d * math.log(cells), 700.0)))
    axis = least + (most - least) * (np.arange(int(cells)) + 0.5) / cells
    grid = np.stack([g.ravel() for g in np.meshgrid(*[axis] * d, indexing="ij")], axis=1)
    found = over.project_rows(grid)
    near = lengths(found - grid).values <= alpha * (1 + 1e-9)
    return np.unique(found[near], axis=0)


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.loss is None:
        return "the loss has no certificate"
    if not (math.isfinite(p.loss.lipschitz) and p.loss.lipschitz > 0):
        return "no finite Lipschitz constant of the loss is proved over the enforced record domain"
    over = region(p)
    if over.kind == "sparse":
        return "the k-sparse vectors are not a convex set"
    if over.kind == "polytope":
        return "the net is one of exact projections, and one onto a polytope comes from a solver (dp-fw-l1 needs none)"
    if not math.isfinite(over.distance_bound(p.d)) or over.kind == "reals":
        return "it needs a bounded set, or a ridge term, whose minimisers lie in the ball of radius L/lam"
    if not p.loss.lipschitz * max(1.0, far(p)) * p.n < LARGEST:
        return "the sum of the records' losses may leave the range of doubles"
    if min(p.loss.l2, p.loss.l1, 0.0 if p.loss.group is None else p.loss.group.weight) < 0:
        return "a penalty with a negative weight does not keep the minimisers in the set of the net"
    points = net(over, p.d, float(t.alpha))
    count = points if isinstance(points, int) else len(points)
    if count > t.most:
        return f"a net of width alpha = {t.alpha:.3g} has {count:.3g} points in {p.d} dimensions, more than most = {t.most}: widen it"
    return "a net of one point says nothing: alpha is as wide as the set" if count < 2 else None


def far(p: Problem) -> float:
    """r: the greatest |w - w_0| of the set, rounded up."""
    return region(p).distance_bound(p.d) * _ROUNDED


def ends(p: Problem) -> tuple[float, float]:
    """(low, high): a record's phi(w) - phi(w_0) lies in [-low, high] at every point of the net, as it is computed and cut."""
    assert p.loss is not None
    high = p.loss.lipschitz * far(p) * _ROUNDED
    centred = norm(region(p).start(p.d)) == 0
    return (min(high, p.loss.at_zero) if centred else high), high


def penalty(p: Problem) -> float:
    """The regulariser over the set, at most: what the scores hold beside the sums over records."""
    assert p.loss is not None
    most = far(p) + norm(region(p).start(p.d))
    return (p.loss.l2 * most / 2 + p.loss.penalty_slope(p.d)) * most * _ROUNDED


def sensitivity(p: Problem, t: Tunables) -> float:
    """The largest change of one score between neighbours, rounded up."""
    low, high = ends(p)  # of a record
    exact = ((high + low) if moved(p) == 2 else high) / p.n
    widest = moved(p) * high / p.n
    rounded = sums.sensitivity(widest, p.n, moved(p), hidden=p.neighbours == "add-remove", terms=8, beside=2 * penalty(p)) - widest
    return math.nextafter((exact + rounded) * _ROUNDED + 2.0**-50 * widest, math.inf)


def schedule(p: Problem, t: Tunables) -> Tree:
    points = net(region(p), p.d, float(t.alpha))
    return Draw("choice", Exponential(sensitivity(p, t), points if isinstance(points, int) else len(points)))


def risks(records: Any, f: Objective, points: Vector, start: Vector, low: float, high: float, n: int) -> Vector:
    """(1/n) sum of phi_i(w) - phi_i(w_0) at every point, each cut to [-low, high], shape (N,)."""
    total, rows = sums.Sum(len(points)), max(1, min(n, _ROWS))
    parts = np.array_split(points, -(-len(points) * rows // _NUMBERS))
    room = np.empty((2, rows * len(parts[0])))
    with np.errstate(all="ignore"):
        for x, y in records.blocks(rows):
            features = np.ascontiguousarray((x if isinstance(x, np.ndarray) else x.toarray()).T)
            before, part = np.array(f.phi(_margins(features, start[None], room), y)), []
            for own in parts:
                change = f.phi(_margins(features, own, room), y)
                change -= before
                if not (change.min() >= -low and change.max() <= high):  # a NaN fails both
                    change = np.clip(np.where(np.isfinite(change), change, 0.0), -low, high)
                part.append(change.sum(axis=1))
            total.add(np.concatenate(part))
    return total.value / n


def _margins(features: Vector, points: Vector, room: Vector) -> Vector:
    """<w, x> of every point and record, (points, records), in ``room``: each a function of the two alone, bit for bit, and the dimensions
    are few."""
    u, more = (v[: len(points) * features.shape[1]].reshape(len(points), -1) for v in room)
    np.multiply(points[:, 0, None], features[0], out=u)
    for j in range(1, len(features)):
        u += np.multiply(points[:, j, None], features[j], out=more)
    return np.asarray(u)


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door) -> Estimate:
    f, over = p.objective, region(p)
    points = net(over, p.d, float(t.alpha))
    assert not isinstance(points, int)
    score = -risks(records, f, points, over.start(p.d), *ends(p), p.n) - _regularisers(f, points)
    return Estimate(np.array(points[int(release.draw("choice", score, sensitivity=sensitivity(p, t)))]))


def _regularisers(f: Objective, points: Vector) -> Vector:
    """The regulariser at every point, (N,): public."""
    smooth: Vector = 0.5 * f.l2 * (points * points).sum(axis=1) + f.l1 * np.abs(points).sum(axis=1)
    return smooth if f.group is None else smooth + np.array([f.group.value(w) for w in points])


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    assert p.loss is not None
    over, points = region(p), net(region(p), p.d, float(t.alpha))
    most = over.distance_bound(p.d) + norm(over.start(p.d))
    near = (p.loss.lipschitz + p.loss.l2 * most + p.loss.penalty_slope(p.d)) * t.alpha
    if p.task.over.kind == "reals" and p.loss.smooth_penalty and math.isfinite(p.loss.smooth):
        near = min(near, (p.loss.smooth + p.loss.l2) * t.alpha**2 / 2)
    count = points if isinstance(points, int) else len(points)
    value = near + calibrated.scale("choice") * math.log(count)
    return {"net and exponential mechanism": value} if value <= gap(p) else {}  # w_0 does as well


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    assert p.loss is not None
    over, points = region(p), net(region(p), p.d, float(t.alpha))
    slope = p.loss.lipschitz + p.loss.l2 * (over.distance_bound(p.d) + norm(over.start(p.d))) + p.loss.penalty_slope(p.d)
    near = slope * t.alpha
    if p.task.over.kind == "reals" and p.loss.smooth_penalty and math.isfinite(p.loss.smooth):
        near = min(near, (p.loss.smooth + p.loss.l2) * t.alpha**2 / 2)
    return {"net and exponential mechanism": {"near": near, "N": points if isinstance(points, int) else len(points)}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float | None:
    """The explicit bound, of a convex loss alone: elsewhere other methods predict norms of gradients."""
    if p.loss is None or not p.loss.convex:
        return None
    points = net(region(p), p.d, float(t.alpha))
    count = points if isinstance(points, int) else len(points)
    return float(p.loss.lipschitz * t.alpha + calibrated.scale("choice") * math.log(count))
