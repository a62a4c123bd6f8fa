"""One pass over the records of projected gradient steps on pairs, averaged: what the methods that add noise at the end share.

    w_t = prox_{eta_t}(w_{t-1} - eta_t (g_t + lam w_{t-1} + alpha (w_{t-1} - w_0))),   g_t = 1/(t-1) sum_{i<t} grad phi(w_{t-1}; z_t, z_i),
    eta_t = 2/(A (t + c)),  A = alpha + lam,   t = T_1 + 1, ..., n;     released: the projection of  sum_{t > n - K} p_t w_t + noise,

p_t proportional to t + c - 1, the records in a public random order, w_t = w_0 for t <= T_1, c = max(0, 1 + 2 B/A - T_1). B is the
smoothness of the loss of a pair, lam the spec's ridge, alpha an added one about the public start w_0.

Sensitivity, re-derived. eta_t <= 1/(B + A), so a step with the same g is a contraction by 1 - eta_t A = 1 - 2/(t + c), and the prox is
none the longer. At t = i the replaced record turns every term of g_i, at t > i one of t - 1; a pair's gradient moves by at most S, the
spread of two pairs that share a record (``Loss.spread``: G for ranking losses of two labels, 2 G at most; ridges are the same in all pairs
and cancel). With x = t + c the distance e_t of the two runs has  x (x - 1) e_t <= (x - 1)(x - 2) e_{t-1} + (2 S/A)(x - 1) [1/(t - 1) or,
at t = i, 1], so for the worst record, i = T_1 + 1,

    e_t = (2 S/A) (t - 1 + c (1 + H_{t-1} - H_{T_1})) / ((t + c)(t + c - 1)),   H_k = 1 + 1/2 + ... + 1/k;     2 S/(A t) for c = 0,

and the released average moves by sum p_t e_t, about 16/7 S/(A n) for the last quarter (4 S/(A n) for all steps). Replace-one; under
zero-out a record of zeros is a record as any other, whose pairs stay, so the same holds. Doubles: each step of either run is off by eta_t
E + R (E: of a mean gradient, that of slopes, margins and sums; R: of the point and its prox), and later steps neither forget nor enlarge
it: E/A + R (n + c)/2.

Bound, for every data set, in expectation over order and noise. For eta_t <= 1/(B + A) the prox inequality gives, f_t the strongly convex
loss of step t, (x - 1)(f_t(w_t) - f_t(u)) <= A/4 ((x - 1)(x - 2)|w_{t-1} - u|^2 - x (x - 1)|w_t - u|^2), which telescopes. u is the
minimiser of F~ = F + alpha/2 |. - w_0|^2, and E f_t(u) = F~(u) in a random order. E f_t(w_t) is within 4 G e_t of E F~(w_t): to exchange
the positions t, i of a pair with those of a random pair replaces at most four of the first t records. Where (t <= n - K) nothing is
averaged E F~(w_t) >= F~(u), so with m = n - K

    E F(average) - F* <= alpha D^2/2 + (M + 4 G sum_{t > m} (t + c - 1) e_t) / sum_{t > m} (t + c - 1),
    M = min(A/4 (T_1 + c)(T_1 + c - 1) D^2 + 4 G sum_{T_1 < t <= m} (t + c - 1) e_t,  A/4 (m + c)(m + c - 1) Q^2),  Q the set's diameter,

and the noise z adds at most slope * sqrt(E|z|^2), or (B + lam)/2 E|z|^2 on R^d, where z has mean 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from dpspec.algorithms import sums
from dpspec.algorithms.card import Problem, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.gradients import OPERATIONS, U, distance, is_pure, norm, step_rounding
from dpspec.algorithms.sets import EIGEN, ConstraintSet, Vector, constraint_set
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.mechanisms.norm_laplace import NormLaplace
from dpspec.privacy.schedule import Draw, Tree

#: More records are refused: n^2/2 pairs.
MOST: Final = 1 << 20
#: Rounding of steps, over the sensitivity, beyond which no plan is made.
_ROUNDING: Final = 0.25


class PairOracle(Protocol):
    """What the methods ask of a loss of two records (:class:`dpspec.tasks.minimise_pairwise.PairObjective`)."""

    @property
    def l2(self) -> float: ...

    @property
    def over(self) -> ConstraintSet: ...

    def ordered(self, records: Rows, order: NDArray[np.intp]) -> InOrder:
        """The records in ``order``, a permutation that depends on none of them."""

    def prox(self, v: Vector, step: float) -> Vector: ...


class InOrder(Protocol):
    def gradient(self, w: Vector, k: int) -> Vector:
        """(1/k) sum over i < k of the gradients of the pairs (z_k, z_i), counted from 0."""


@dataclass(frozen=True, slots=True)
class Chain:
    """The steps in numbers. ``t``: begin + 1 .. n as floats; ``step`` eta_t; ``weight`` p_t, zero before ``first``; ``apart``: e_t."""

    strong: float
    shift: float
    begin: int
    first: int
    total: float
    t: Vector
    step: Vector
    weight: Vector
    apart: Vector


def added(t: Tunables) -> float:
    """alpha, the weight of the ridge that the method adds; 0 where it adds none."""
    return float(t.get("alpha", 0.0))


def chain(p: Problem, t: Tunables) -> Chain:
    """The course of steps that both the sensitivity and the run follow, from public numbers."""
    assert p.loss is not None
    n, begin, strong = p.n, int(t.T_1), added(t) + p.loss.l2
    shift = max(0.0, 1 + 2 * p.loss.smooth / strong - begin)
    times = np.arange(begin + 1, n + 1, dtype=np.float64)
    x = times + shift
    first = n + 1 - max(1, math.ceil(t.tail * (n - begin)))
    kept = np.where(times >= first, x - 1, 0.0)
    harmonic = np.cumsum(1 / times) - 1 / times  # H_{t-1} - H_{begin}
    apart = 2 * p.loss.spread / strong * (times - 1 + shift * (1 + harmonic)) / (x * (x - 1))
    return Chain(strong, shift, begin, first, float(kept.sum()), times, 2 / (strong * x), kept / kept.sum(), apart)


def sensitivity(p: Problem, t: Tunables) -> float:
    """By how far neighbours move the average, in l2, rounded up."""
    c = chain(p, t)
    return float((float(c.weight @ c.apart) + rounding(p, c)) * (1 + 1e-9))


def rounding(p: Problem, c: Chain) -> float:
    """How far apart the averages of two runs are that differ by rounding alone: see the module's text."""
    assert p.loss is not None
    loss, over, d = p.loss, constraint_set(p.task.over, p.facts), p.d
    start = norm(over.start(d))
    pulled = loss.lipschitz + loss.l2 * start + (loss.penalty_slope(d) if start > 0 else 0.0)  # at w_0, over A
    far = start + min(over.distance_bound(d), pulled / c.strong)
    reach = p.facts.get("x_l2", p.facts.get("x_linf", 0.0) * math.sqrt(p.facts.get("features", d)))
    long = max(loss.lipschitz, loss.slope * reach)  # a pair's two terms are summed apart: far from 0 each is longer than their difference
    data = (OPERATIONS + p.n) * long + (d + 8) * loss.smooth * far
    error = loss.gradient_error() + U * (data + 8 * c.strong * far)
    pull = float(c.step[0]) * (loss.lipschitz + c.strong * far)
    ops = step_rounding(over, d, loss.smooth_penalty) + (
        EIGEN * d if loss.classes > 1 else 0
    )  # a matrix of d numbers is projected on a cone
    step = U * (ops + d + 8) * (2 * far + pull)
    return float(2 * (error / c.strong + step * (p.n + c.shift) / 2) + 16 * U * far)


def accepts(p: Problem, t: Tunables) -> str | None:
    reason = refused(p)
    if reason is not None:
        return reason
    assert p.loss is not None
    strong = added(t) + p.loss.l2
    if not strong > 0:
        return "alpha and the ridge of the loss are both 0: without strong convexity its steps do not forget a record"
    if not p.loss.smooth / strong < 1e12:
        return f"the strong convexity {strong:.2g} is lost beside the smoothness {p.loss.smooth:.2g} of the loss: take a larger alpha"
    if not 1 <= t.T_1 < p.n:
        return f"the start phase T_1 = {t.T_1} leaves no step for n = {p.n} records: take a larger alpha or a smaller T_1"
    return too_coarse(p, chain(p, t))


def refused(p: Problem) -> str | None:
    """What every one-pass method of this family requires."""
    loss = p.loss
    if loss is None:
        return "the loss has no certificate"
    if not (math.isfinite(loss.lipschitz) and loss.lipschitz > 0 and math.isfinite(loss.spread)):
        return "no finite Lipschitz constant of the loss of a pair is proved over the enforced record domain"
    if not math.isfinite(loss.smooth):
        return "no finite smoothness constant of the loss of a pair is proved, and its steps contract only where it is smooth"
    if not (loss.convex and loss.data_convex):
        return "the loss of a pair is not proved convex in w without the ridge, and its steps contract only where it is"
    if p.task.over.kind in ("sparse", "polytope"):
        return "the guarantee is that of exact projections onto a convex set, and there is none onto this one"
    if p.neighbours == "add-remove":
        return "how many records there are is private, and its steps count them (neighbours replace-one or zero-out)"
    if p.n < 2:
        return "there is no pair of records"
    if p.n > MOST:
        return f"it runs through n^2/2 pairs, and n = {p.n} is beyond {MOST}"
    return None


def too_coarse(p: Problem, c: Chain) -> str | None:
    lost, moved = rounding(p, c), float(c.weight @ c.apart)
    if lost <= _ROUNDING * moved:
        return None
    return (
        f"its steps in doubles may be off by {lost:.2g}, which is not small against what a record moves the average by ({moved:.2g}): the "
        "proof is for exact steps"
    )


def schedule(p: Problem, t: Tunables) -> Tree:
    s = sensitivity(p, t)
    return Draw("output", NormLaplace(s, p.d) if is_pure(p) else Gaussian(s, p.d))


def average(records: Rows, p: Problem[PairOracle], t: Tunables, release: Door) -> Vector:
    """The average of the steps on these records, without noise: for the meter alone, or a reference."""
    f, c, alpha = p.objective, chain(p, t), added(t)
    data = f.ordered(records, release.public.generator("order").permutation(p.n))
    w = start = f.over.start(p.d)
    total = sums.Sum(p.d)
    for k in range(c.begin, p.n):  # step t = k + 1 reads the record k, counted from 0
        eta, weight = float(c.step[k - c.begin]), float(c.weight[k - c.begin])
        w = f.prox(w - eta * (data.gradient(w, k) + f.l2 * w + alpha * (w - start)), eta)
        if weight > 0:
            total.add(weight * w)
    return total.value


def run(records: Rows, p: Problem[PairOracle], t: Tunables, release: Door) -> Estimate:
    noisy = release.draw("output", average(records, p, t, release), sensitivity=sensitivity(p, t))
    return Estimate(p.objective.over.project(np.asarray(noisy)))


def noise_energy(p: Problem, calibrated: Any) -> float:
    """E|noise|^2 of the one draw."""
    return float(calibrated.scale("output") ** 2 * p.d * (p.d + 1 if is_pure(p) else 1))


#: The theorem of the explicit bound.
CHAIN: Final = "telescoping, stability and noise"


def _parts(p: Problem, t: Tunables, calibrated: Any) -> tuple[dict[str, float], float]:
    """The names of the bound, and the slope of the objective."""
    assert p.loss is not None
    D, N, c, loss = distance(p), noise_energy(p, calibrated), chain(p, t), p.loss
    over = constraint_set(p.task.over, p.facts)
    x, last, late = c.begin + c.shift, c.first - 1 + c.shift, c.t >= c.first
    stability = 4 * loss.lipschitz * (c.t + c.shift - 1) * c.apart
    before = c.strong / 4 * x * (x - 1) * D**2 + float(stability[~late].sum())
    if math.isfinite(over.diameter(p.d)):
        before = min(before, c.strong / 4 * last * (last - 1) * over.diameter(p.d) ** 2)
    slope = loss.lipschitz + loss.l2 * (norm(over.start(p.d)) + D)
    noise = (loss.smooth + loss.l2) / 2 * N if p.task.over.kind == "reals" and loss.classes == 1 else slope * math.sqrt(N)
    return {"ridge": added(t), "D": D, "S": before + float(stability[late].sum()), "W": c.total, "E": noise}, slope


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    assert p.loss is not None
    D = distance(p)
    if not (math.isfinite(D) and p.loss.smooth_penalty):
        return {}
    v, slope = _parts(p, t, calibrated)
    value = v["ridge"] * D**2 / 2 + v["S"] / v["W"] + v["E"]
    return {CHAIN: value} if value <= slope * D else {}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    return {CHAIN: _parts(p, t, calibrated)[0]}
