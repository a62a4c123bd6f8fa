"""Noisy gradient steps on pairs while records arrive, with the released point fed back: what the online methods share.

The records come in the order of the data, in blocks of ``every`` = b. Block q has the records t of (T_0 + (q - 1) b, T_0 + q b], q =
1..Q, T_0 < T_1 + b the start phase, in which w_0 stands. With B_t the records that t is compared with,

    g_q = 1/b sum_{t in block q} 1/|B_t| sum_{i in B_t} grad phi(w_{q-1}; z_t, z_i),      noisy g_q = g_q + N(0, s^2 I),
    w_q = argmin over the set of <noisy g_q, w> + r(w) + alpha/2 |w - w_0|^2 + 1/(2 eta_q) |w - w_{q-1}|^2,   1/eta_q = A (q + c - 1),

r the spec's regulariser with ridge lam, A = alpha + lam. B_t is all earlier records, or a buffer of s places as it was before the block:
the last s records (fifo), or RS-x (:mod:`dpspec.algorithms.pairwise.rs_x`). w_0, ..., w_Q are released, each as soon as its block is
complete.

Privacy of the whole transcript. What is drawn is the noisy g_q, and all else is computed from them: w_{q-1} is, so no step has to
contract, and nothing is asked of smoothness, convexity or the start phase. Which records are compared depends on n, b, s, the policy and
public coins alone, none of which sees a record, so the coins may be known to everybody and the buffer's content needs no secrecy. Let one
record i be replaced. In its own block every pair of t = i changes: g_q moves by S/b, S the spread of two pairs that share a record. In a
later block, of m copies of it among |B|, by S m/|B| (all b terms are compared with one buffer); among all earlier records by S/b sum_t
1/(t - 1). So the vector of all movements of record i has norm S A_i, with

    A_i^2 = (1/b)^2 + sum_q (m_q^i/|B_q|)^2,       or   (1/b)^2 (1 + sum_{t > i in its block} 1/(t-1))^2 + sum_q (1/b sum_{t in q}
    1/(t-1))^2,

and the transcript is (S max_i A_i/s)-Gaussian-DP (:class:`~dpspec.privacy.mechanisms.gaussian_stream.GaussianStream`). The maximum is
taken over the schedule that the run follows, computed here, not over its law. b = 1 and all earlier records: A <= pi/sqrt(6) = 1.28, and
about 1 + 1/(2 T_1) with a start phase. Replace-one; under zero-out a record of zeros keeps its place and its pairs, so the same holds.
Doubles: a computed gradient of a pair is within E of a real one, and sums of b + |B| terms are rounded (:mod:`dpspec.algorithms.sums`),
in each of Q steps.

Regret, for every sequence of records, in expectation over the noise. The step's three-point inequality with E noise = 0 and |g_q| <= L
gives, for every u of the set, with V = L^2 + d s^2 and 1/eta_q + A = 1/eta_{q+1}, telescoped,

    sum_q (f_q(w_{q-1}) - f_q(u) + r(w_q) - r(u)) <= A c/2 |u - w_0|^2 + V/(2 A) sum_q 1/(q + c - 1) + Q alpha/2 |u - w_0|^2,

f_q the mean penalty of block q. r(w_q) stands for r(w_{q-1}) up to r(w_0) - r(w_Q) <= 0 where w_0 = 0, and every earlier record costs at
most L D. The penalties are those of B_t: with a buffer the regret against all earlier pairs has terms in 1/sqrt(s) besides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from dpspec.algorithms.card import Problem, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.gradients import OPERATIONS, U, distance, norm
from dpspec.algorithms.pairwise.rs_x import rs_x
from dpspec.algorithms.sets import ConstraintSet, Vector, constraint_set
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.numeric.coins import coins
from dpspec.privacy.mechanisms.gaussian_stream import GaussianStream
from dpspec.privacy.schedule import Draw, Tree

#: The explicit bound.
THEOREM: Final = "online gradient steps, the noisy point fed back"
_ENERGY: Final = "d*(1.15*pair_spread/(every*strength))^2"  # d s^2, the noise of a step
_REACH: Final = "2*L/max(B, L/10^6)"
#: Tunables that the methods share, from public names alone.
REACH: Final = Tunable(
    f"min(w_radius, {_REACH}) else {_REACH} else w_radius else L/max(lam, L/10^6)",
    "distance to cover: the radius of the set, at most twice the natural scale L/B of a weight",
)
EVERY: Final = Tunable(
    "ceil(min(max(16*sqrt(d)*pair_spread/(L*strength), 1), n/16))",
    "records a release: averaged noise falls as d S^2/(h b n mu^2) for a curvature h and what is left of the start "
    "grows as B D^2 b/n, equal at "
    "b = sqrt(d)*S/(D*mu*sqrt(h*B)); at least 16 steps; 000: 1",
    integer=True,
    minimum=1,
)
#: Where one average is all that is released: few long steps.
EVERY_OFFLINE: Final = Tunable(
    "ceil(min(max(64*sqrt(d)*pair_spread/(L*strength), 1), n/5))",
    "four times what points that are released one by one take, since long steps (shift) leave the start at once; at least 5; 000: 1",
    integer=True,
    minimum=1,
)
T_1_EARLIER: Final = Tunable(
    "ceil(min(10*every, n/10))",
    "from there on one record moves later gradients by a tenth of its own; 000: max(ceil(16*B^2/alpha^2), 7), which feedback does not need",
    integer=True,
    minimum=1,
)
SIZE: Final = Tunable(
    "ceil(min(max(50, 10*every), n/4))",
    "places of the buffer: one record moves later gradients by a tenth of its own; 000: Omega(n), Omega(sqrt(n)) without a ridge",
    integer=True,
    minimum=1,
)
T_1_BUFFER: Final = Tunable("min(size, ceil(n/4))", "the buffer is full from there on", integer=True, minimum=1)
COINS: Final = Tunable(
    "1", "seed of the public coins of RS-x; part of the plan, which is calibrated to them", integer=True, minimum=0, maximum=2.0**53
)
ALPHA: Final = Tunable(
    f"max(sqrt({_ENERGY}*every/n)/(8*reach) - lam, L/(10^6*reach))",
    "an eighth of the ridge that balances Q*alpha*reach^2/2 with the noise of the steps; 000: O(n^(-1/4))",
    minimum=0.0,
    maximum=1e100,
)
TAIL: Final = Tunable(
    "1/2", "share of the transcript that theta averages; the transcript itself is released too", minimum=1e-6, maximum=1.0
)


def shift(strong: str, most: int = 2) -> Tunable:
    """c, for the strong convexity ``strong``, a formula; first steps are no longer than ``most``/B."""
    noise, pull = f"sqrt({_ENERGY}*n/every)/reach", f"max({strong}, L/(10^9*reach))"
    return Tunable(
        f"max(1, max(B/{most}, {noise})/({pull})) else max(1, max(L/({2 * most}*reach)*sqrt(n/every), {noise})/({pull}))",
        f"first steps 1/(A*c) of at most {most}/B, on which averages of noisy steps rest, and no longer than the noise of Q "
        "of them allows in the set; 000: 0",
        minimum=0.5,
        maximum=1e100,
    )


#: Pairs with all earlier records are n^2/2, with a buffer n*s; more are refused.
MOST_PAIRS: Final = 1 << 39
#: Rounding of gradients, over the sensitivity, beyond which no plan is made.
_ROUNDING: Final = 0.25


class PairOracle(Protocol):
    """What the online methods ask of a loss of two records (:class:`dpspec.tasks.minimise_pairwise.PairObjective`)."""

    @property
    def l2(self) -> float: ...

    @property
    def over(self) -> ConstraintSet: ...

    def arriving(self, records: Rows) -> Arriving:
        """The records in the order in which they come."""

    def prox(self, v: Vector, step: float) -> Vector: ...


class Arriving(Protocol):
    def against(self, w: Vector, rows: slice, others: NDArray[np.int64]) -> Vector:
        """The mean of the gradients of all pairs (z_t, z_i), t of ``rows``, i of ``others``."""

    def against_earlier(self, w: Vector, rows: slice) -> Vector:
        """The mean over t of ``rows`` of the mean over all i < t of the gradients of the pairs (z_t, z_i)."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """When something is released. ``begin``: records before the first step; ``every``: of a block; ``count``: blocks."""

    begin: int
    every: int
    count: int

    def rows(self, q: int) -> slice:
        """Of block q = 0 .. count - 1."""
        return slice(self.begin + q * self.every, self.begin + (q + 1) * self.every)


def blocks(p: Problem, t: Tunables) -> Blocks:
    """The records that do not fill a block join the start phase."""
    every = int(t.every)
    count = max(0, (p.n - int(t.T_1)) // every)
    return Blocks(p.n - count * every, every, count)


def buffers(policy: str, n: int, plan: Blocks, size: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """The record numbers that the buffer holds before each block, with repetitions. A function of public numbers."""
    if policy == "fifo":
        for q in range(plan.count):
            start = plan.rows(q).start
            yield np.arange(max(0, start - size), start, dtype=np.int64)
        return
    held = rs_x(np.empty(0, dtype=np.int64), 0, plan.begin, size, seed)
    for q in range(plan.count):
        yield held
        held = rs_x(held, plan.rows(q).start, plan.rows(q).stop, size, seed)


def runs(policy: str, n: int, plan: Blocks, size: int, seed: int) -> Iterator[tuple[NDArray[np.int64], int]]:
    """:func:`buffers` of ``reservoir`` as (buffer, how many blocks in a row have it): late in a stream records hardly ever enter, and coins
    are tossed for many blocks at a time."""
    held, q = rs_x(np.empty(0, dtype=np.int64), 0, plan.begin, size, seed), 0
    while q < plan.count and plan.rows(q).start <= size:  # the phase in which the buffer fills, and is drawn anew
        yield held, 1
        held = rs_x(held, plan.rows(q).start, plan.rows(q).stop, size, seed)
        q += 1
    count, chunk = 0, max(1, (1 << 20) // (size * plan.every))
    while q < plan.count:
        many = min(chunk, plan.count - q)
        times = np.arange(plan.rows(q).start, plan.rows(q + many - 1).stop, dtype=np.int64)
        taken = (coins(seed, times, size) * (times[:, None] + 1) < 1).reshape(many, plan.every, size)
        before = 0
        for k in np.flatnonzero(taken.any(axis=(1, 2))).tolist():
            count += k + 1 - before  # block k itself still sees the buffer as it was
            yield held, count
            entered, start = taken[k], plan.rows(q + k).start
            last = plan.every - 1 - np.argmax(entered[::-1], axis=0)
            held, count, before = np.where(entered.any(axis=0), start + last, held), 0, k + 1
        count += many - before
        q += many
    if count:
        yield held, count


@lru_cache(maxsize=64)
def _against_all(n: int, plan: Blocks) -> float:
    inverse = np.zeros(n)  # entry t: 1/t, of record t counted from 0, which has t earlier ones
    inverse[1:] = 1 / np.arange(1, n)
    later = inverse[plan.begin :].reshape(plan.count, plan.every)
    own = 1 + later.sum(axis=1, keepdims=True) - np.cumsum(later, axis=1)
    squares = later.sum(axis=1) ** 2
    after = squares.sum() - np.cumsum(squares)
    most = max(float(squares.sum()), float((own**2 + after[:, None]).max()))  # a record of the start phase, or of a block
    return math.sqrt(most) / plan.every


def shares(policy: str, n: int, plan: Blocks, size: int, seed: int, record: int) -> Vector:
    """The share of the buffer that ``record`` has before each block, shape (count,)."""
    if policy == "fifo":
        starts = plan.begin + plan.every * np.arange(plan.count)
        first = np.maximum(0, starts - size)
        return np.where((first <= record) & (record < starts), 1.0 / np.maximum(starts - first, 1), 0.0)
    found = [(float((held == record).mean()), count) for held, count in runs(policy, n, plan, size, seed)]
    return np.repeat(np.array([share for share, _ in found]), [count for _, count in found])


@lru_cache(maxsize=64)
def _against_buffer(policy: str, n: int, plan: Blocks, size: int, seed: int) -> tuple[float, int]:
    squares = np.zeros(n)
    squares[plan.begin :] = 1 / plan.every**2
    if policy == "fifo":  # a block adds 1/|B|^2 to each of the records just before it
        starts = plan.begin + plan.every * np.arange(plan.count)
        first = np.maximum(0, starts - size)
        each = 1.0 / np.maximum(starts - first, 1) ** 2.0
        added = np.bincount(first, each, n + 1) - np.bincount(starts, each, n + 1)
        squares += np.maximum(np.cumsum(added)[:n], 0.0)
    else:
        for held, blocks_in_a_row in runs(policy, n, plan, size, seed):
            which, copies = np.unique(held, return_counts=True)
            squares[which] += blocks_in_a_row * (copies / len(held)) ** 2
    return math.sqrt(float(squares.max())), int(squares.argmax())


def influence(p: Problem, t: Tunables) -> float:
    """max_i A_i: by how much one record moves all gradients of a transcript together, in l2, over the spread S."""
    plan = blocks(p, t)
    if "size" not in t:
        return _against_all(p.n, plan)
    return _against_buffer(t.buffer, p.n, plan, int(t.size), int(t.coins))[0]


def sensitivity(p: Problem, t: Tunables) -> float:
    """By how far neighbours move the vector of all gradients, along any transcript, in l2, rounded up."""
    assert p.loss is not None
    return float((p.loss.spread * influence(p, t) + rounding(p, t)) * (1 + 1e-9))


def rounding(p: Problem, t: Tunables) -> float:
    """How far apart rounding alone moves the gradients of two runs: E a pair that the record is in, and the sums of each step."""
    assert p.loss is not None
    plan = blocks(p, t)
    reach = p.facts.get("x_l2", p.facts.get("x_linf", 0.0) * math.sqrt(p.facts.get("features", p.d)))
    long = max(p.loss.lipschitz, p.loss.slope * reach)
    terms = OPERATIONS + plan.every + (int(t.size) if "size" in t else p.n)
    summed = 2 * U * terms * long * math.sqrt(plan.count)
    return float(2 * p.loss.gradient_error() * influence(p, t) + 2 * summed)


def strength_of(p: Problem, t: Tunables) -> float:
    """A = alpha + lam."""
    return float(t.alpha if "alpha" in t else 0.0) + float(p.loss.l2 if p.loss is not None else 0.0)


def accepts(p: Problem, t: Tunables) -> str | None:
    reason = _loss(p)
    if reason is not None:
        return reason
    plan = blocks(p, t)
    if plan.count < 1:
        return f"the start phase T_1 = {t.T_1} leaves no block of {t.every} among n = {p.n} records: take a smaller T_1 or every"
    pairs = p.n * (int(t.size) if "size" in t else p.n / 2)
    if pairs > MOST_PAIRS:
        return f"it runs through {pairs:.3g} pairs: take a smaller buffer" + ("" if "size" in t else " (fb-on-pair-c)")
    if not strength_of(p, t) > 0:
        return "alpha and the ridge of the loss are both 0, and its steps are 1/((alpha + lam) (q + c - 1))"
    assert p.loss is not None
    lost, moved = rounding(p, t), p.loss.spread * influence(p, t)
    if not lost <= _ROUNDING * moved:
        return f"its gradients in doubles may be off by {lost:.2g}, which is not small against what a record moves them by ({moved:.2g})"
    return None


def _loss(p: Problem) -> str | None:
    loss = p.loss
    if loss is None:
        return "the loss has no certificate"
    if not (math.isfinite(loss.lipschitz) and loss.lipschitz > 0 and math.isfinite(loss.spread) and loss.spread > 0):
        return "no finite Lipschitz constant of the loss of a pair is proved over the enforced record domain"
    if p.task.over.kind in ("sparse", "polytope"):
        return "its regret is that of exact projections onto a convex set, and there is none onto this one"
    if p.neighbours == "add-remove":
        return "how many records there are is private, and its blocks count them (neighbours replace-one or zero-out)"
    if p.n < 2:
        return "there is no pair of records"
    return None


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("gradients", GaussianStream(sensitivity(p, t), p.d, blocks(p, t).count))


# --------------------------------------------------------------------------------------------------------------------- steps


def _step(f: PairOracle, w: Vector, noisy: Vector, start: Vector, q: int, p: Problem, t: Tunables) -> Vector:
    """w_q from w_{q-1}; q counted from 1."""
    strong = strength_of(p, t)
    eta = 1 / (strong * (q + t.shift - 1))
    shrink = 1 + eta * strong
    return f.prox((w - eta * noisy + eta * (strong - f.l2) * start) / shrink, eta / shrink)


def run(records: Rows, p: Problem[PairOracle], t: Tunables, release: Door) -> Estimate:
    """``theta``: the average of the last ``tail`` of the transcript; ``transcript``: (Q + 1, d); ``times``: records before each."""
    f, plan = p.objective, blocks(p, t)
    start = f.over.start(p.d)
    if "size" in t:
        compared = buffers(t.buffer, p.n, plan, int(t.size), int(t.coins))

    def gradients(answer: Callable[[Vector], Vector]) -> None:
        data, w = f.arriving(records), start
        for q in range(plan.count):
            rows = plan.rows(q)
            g = data.against(w, rows, next(compared)) if "size" in t else data.against_earlier(w, rows)
            w = _step(f, w, answer(g), start, q + 1, p, t)

    noisy = release.draw("gradients", gradients, sensitivity=sensitivity(p, t))
    path = transcript(f, np.asarray(noisy), start, p, t)
    last = max(1, math.ceil(t.tail * plan.count))
    times = np.concatenate([[0], plan.begin + plan.every * np.arange(1, plan.count + 1)])
    return Estimate(f.over.project(path[-last:].mean(axis=0)), {"transcript": path, "times": times.astype(np.float64)})


def transcript(f: PairOracle, noisy: Vector, start: Vector, p: Problem, t: Tunables) -> Vector:
    """w_0, ..., w_Q from the noisy gradients: post-processing."""
    path = np.empty((len(noisy) + 1, p.d))
    path[0] = start
    for q, g in enumerate(noisy, start=1):
        path[q] = _step(f, path[q - 1], g, start, q, p, t)
    return path


# -------------------------------------------------------------------------------------------------------------------- bounds


def second_moment(p: Problem, calibrated: Any) -> float:
    """V = L^2 + d s^2, which bounds E|noisy gradient|^2."""
    assert p.loss is not None
    return float(p.loss.lipschitz**2 + p.d * calibrated.scale("gradients") ** 2)


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    """Of the mean regret over the n - 1 penalties of all earlier records, or of the buffer's."""
    assert p.loss is not None
    loss, plan, D = p.loss, blocks(p, t), distance(p)
    start = norm(constraint_set(p.task.over, p.facts).start(p.d))
    if not (loss.data_convex and math.isfinite(D) and start == 0):
        return {}
    strong, c = strength_of(p, t), float(t.shift)
    steps = 1 / (np.arange(plan.count) + c)
    late = (
        strong * c / 2 * D**2
        + second_moment(p, calibrated) / (2 * strong) * float(steps.sum())
        + plan.count * (strong - loss.l2) / 2 * D**2
    )
    value = ((plan.begin - 1) * loss.lipschitz * D + plan.every * late) / (p.n - 1)
    return {THEOREM: value} if value <= loss.lipschitz * D else {}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    assert p.loss is not None
    plan, c, A = blocks(p, t), float(t.shift), strength_of(p, t)
    H = float((1 / (np.arange(plan.count) + c)).sum())
    names = {"first": plan.begin - 1, "L": p.loss.lipschitz, "D": distance(p), "scale": calibrated.scale("gradients")}
    return {THEOREM: {**names, "A": A, "ridge": A - p.loss.l2, "c": c, "Q": plan.count, "H": H}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """The last two terms of the regret at distance ``reach``, with the mean curvature of records that spread evenly."""
    plan, strong = blocks(p, t), strength_of(p, t)
    steps = 1 / (np.arange(plan.count) + float(t.shift))
    noise = p.d * calibrated.scale("gradients") ** 2 / (2 * strong) * float(steps.sum()) / plan.count
    return float(
        noise + (strong - (p.loss.l2 if p.loss is not None else 0.0)) / 2 * t.reach**2 + strong * t.shift / 2 * t.reach**2 / plan.count
    )
