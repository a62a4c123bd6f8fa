"""The mean of records in a ball or a box, no sparsity needed (central model).

With c the middle of the domain and v = x - c, |v|_2 <= r, the noisy sum of v over the public n, plus c, put back into the domain. Where
how many records there are is private, z = (v, a) is summed instead, and the mean is the first block over the last: z~_v/(z~_a/a), never a
division by n.

Sensitivity of the sum over n: 2 r/n in l2 where a record is replaced, sqrt(r^2 + a^2)/n where it is there or not. a = r d^(-1/4) balances
the noise of d coordinates, which grows with r^2 + a^2, and that of the count, which falls with a^2, at a mean of length r. Noise:
Gaussian where the budget has room for it; at pure epsilon that of density ~ exp(-|z|_2/b) (the K-norm mechanism of the ball, E|z|_2 = d
b), or in a box with sides h the cube's, in whole steps of h (E|z_j| = (d + 1) b/2): whichever has the smaller mean square. Both beat
independent Laplace noise, whose l1 sensitivity is sqrt(d), or d, times as large.

Source: Hardt and Talwar 2010 (K-norm); Chaudhuri, Monteleoni and Sarwate 2011 for the ball; 000, Definition 2.1.6 for Gaussian noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from dpspec.algorithms import sums
from dpspec.algorithms.card import Bound, Card, Need, Problem, Source, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.sets import constraint_set
from dpspec.algorithms.statistics import _noise as noise
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.models.rows import each as each_block
from dpspec.privacy.mechanisms.cube_norm import CubeNorm
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.mechanisms.norm_laplace import NormLaplace
from dpspec.privacy.schedule import Draw, Tree

Mechanism: TypeAlias = Gaussian | NormLaplace | CubeNorm

CARD = Card(
    id="dp-mean",
    title="Mean of bounded records",
    family="statistics",
    task="mean",
    models=("central",),
    guarantees=("pure", "approx", "zcdp", "gdp"),
    sources=(noise.KNORM, Source("000", "2.1", "Definition 2.1.6")),
    summary="A noisy sum over n, or over a count in the same draw where n is private; Gaussian noise, or that of a ball or box.",
    needs=(Need("x", "privacy", "every record lies in a ball or a box"),),
    bounds=(
        Bound("l2-error", "order", "upper", "C*x_l2*(1/sqrt(n) + d/(n*epsilon))", "proved", "sampling, and d b for noise of the ball"),
    ),
    cost={"gradients": "0", "rounds": "1", "memory_bytes": "8*32768*d"},
    reads="sums",
    spread=True,
    spec="specs/statistics/dp-mean.dps",
)


@dataclass(frozen=True, slots=True)
class Frame:
    """``centre``: of the domain; ``radius``: of the records about it; ``half``: half a side of a box, infinite for a ball."""

    centre: float
    radius: float
    half: float


def frame(p: Problem) -> Frame:
    x = p.domains["x"].enforced if "x" in p.domains else None
    ball = p.facts["x_l2"]
    if x is None or x.low is None or x.high is None or x.shape not in ("box", "linf") or x.low == x.high:
        return Frame(0.0, ball, math.inf)
    centre, half = float(x.low + x.high) / 2, float(x.high - x.low) / 2 * (1 + 2.0**-50)
    return Frame(centre, half * math.sqrt(p.d) * (1 + 2.0**-50), half)


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.task.what != "mean":
        return f"it estimates mean(x), not {p.task.what}(x)"
    if "x_l2" not in p.facts:
        return "the enforced domain of x bounds no norm (x in ball(l2, 1) by scale)"
    if not 1e-120 < frame(p).radius < 1e120:
        return "its domain has a size beyond 1e120, or below 1e-120: declare it in other units"
    return None


def weight(p: Problem) -> float:
    """a; 0 where how many records there are is public."""
    return frame(p).radius * p.d**-0.25 if p.neighbours == "add-remove" else 0.0


def steps(p: Problem) -> int:
    return int(2 ** max(4, min(30, 47 - math.ceil(math.log2(p.n)))))


def mechanism(p: Problem) -> Mechanism:
    hidden, f = p.neighbours == "add-remove", frame(p)
    size = p.d + hidden
    longest = math.hypot(f.radius, weight(p))
    moved = 1.0 if hidden else 2.0
    euclidean = sums.sensitivity(moved * longest / p.n, p.n, moved, hidden=hidden)
    if noise.kinds(p) != ("pure",):
        return Gaussian(euclidean, size)
    # per coordinate, at epsilon 1, in units of x: sqrt(size (size + 1)/size) b, and sqrt((size + 1)(size + 2)/3) b
    of_ball = math.sqrt(size + 1) * euclidean * p.n
    of_cube = math.sqrt((size + 1) * (size + 2) / 3) * moved * f.half
    return CubeNorm(moved * steps(p), size) if of_cube < of_ball else NormLaplace(euclidean, size)


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("mean", mechanism(p))


def centred(x: Any, f: Frame) -> Any:
    return (x if isinstance(x, np.ndarray) else x.toarray()) - f.centre


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    planned, f = mechanism(p), frame(p)
    cube = isinstance(planned, CubeNorm)
    value = whole(records, p, f) if cube else length(records, p, f)
    drawn = np.atleast_1d(release.draw("mean", value, sensitivity=planned.sensitivity)).astype(np.float64)
    unit = f.half / steps(p) / p.n if cube else 1.0
    drawn, error = drawn * unit, each(planned, release.scale("mean")) * unit
    if p.neighbours == "add-remove":
        a = f.half if cube else weight(p)
        share = max(float(drawn[-1]) / a, 1.0 / p.n)
        mean = drawn[:-1] / share
        mean *= min(1.0, f.radius / max(float(np.linalg.norm(mean)), 1e-300))
        spread = error * np.sqrt(1 + (mean / a) ** 2) / share
    else:
        mean, spread = drawn, np.full(p.d, error)
    inside = placed(mean, p, f)
    extras = {"standard_error": spread, "low": mean + f.centre - 2.12 * spread, "high": mean + f.centre + 2.12 * spread}
    return Estimate(constraint_set(p.task.over, p.facts).project(inside), extras)


def length(records: Any, p: Problem, f: Frame) -> Any:
    """Sums of v over n, and a times how many records there are over n behind."""
    total, count = sums.Sum(p.d), 0
    for part, rows in each_block(records, sums.block_rows(1 << 18, p.d), lambda x, _: (centred(x, f).sum(axis=0), x.shape[0])):
        total.add(part)
        count += rows
    return np.append(total.value / p.n, weight(p) * count / p.n) if p.neighbours == "add-remove" else total.value / p.n


def whole(records: Any, p: Problem, f: Frame) -> Any:
    """The same in whole steps of half a side."""
    k, total, count = steps(p), [0] * p.d, 0

    def steps_of(x: Any, _: Any) -> tuple[Any, int]:
        """Sums of whole doubles, 2^45 at most: exact. Enforced records hold no NaN; where one does, it is the middle."""
        v = centred(x, f)
        v *= k / f.half
        np.rint(v, out=v)
        np.clip(v, -k, k, out=v)
        found = v.sum(axis=0)
        if np.isnan(found).any():
            found = np.nan_to_num(v, nan=0.0).sum(axis=0)
        return found, x.shape[0]

    for part, rows in each_block(records, 1 << 15, steps_of):
        total = [a + int(b) for a, b in zip(total, part, strict=True)]
        count += k * rows
    found = [*total, count] if p.neighbours == "add-remove" else total
    return np.array([noise.cut(v) for v in found], dtype=np.int64)


def each(planned: Mechanism, scale: float) -> float:
    """The standard deviation of one entry of the noise."""
    if isinstance(planned, Gaussian):
        return scale
    return scale * (
        math.sqrt(planned.size + 1) if isinstance(planned, NormLaplace) else math.sqrt((planned.size + 1) * (planned.size + 2) / 3)
    )


def placed(mean: Any, p: Problem, f: Frame) -> Any:
    """In the domain again: post-processing, and no further from any mean of it."""
    if math.isfinite(f.half):
        return np.clip(mean, -f.half, f.half) + f.centre
    return mean * min(1.0, f.radius / max(float(np.linalg.norm(mean)), 1e-300))


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """l2 error: sampling and noise."""
    planned, f = mechanism(p), frame(p)
    unit = f.half / steps(p) / p.n if isinstance(planned, CubeNorm) else 1.0
    return math.hypot(f.radius / math.sqrt(p.n), math.sqrt(p.d) * each(planned, calibrated.scale("mean")) * unit)
