"""Private variance reduction: the one step that DP-SVRG, DP-Katyusha and DP-SVRG++ share, and its accounting.

A step at y with the anchor z releases two vectors, and nothing else of the records reaches an iterate:

* ``anchor``: grad F(z) + N(0, s2^2 I), F the mean over all records, sensitivity 2L/n (replace-one);
* ``difference``: the mean over a fresh secret batch of b records of grad f(y) - grad f(z), plus noise. A record's summand has norm at most
  c = min(2L, B|y - z|), so under replace-one the mean moves by 2c/b. y and z are functions of earlier releases, so the vector is scaled
  by 2L/c first and the noise is drawn at the sensitivity 4L/b that stands in the plan: adaptive composition at a fixed noise
  multiplier (000 has the full 2G for every step and treats it as 1).

The batch is a uniform subset of exactly b of the n records, drawn for every step: the sampler that the accountant assumes under
replace-one. Documents draw one record; then the noise that a record needs when it is drawn (4L against a mean over all) makes the method
useless at any n, see the faults. Weights: (n/b)^2 for the differences, at which both kinds of noise have the same multiplier per share
of n in the plain case (each step costs q^2/z^2 of mu^2 when the multiplier z is above 1).
"""

from __future__ import annotations

import math
from typing import Any, Final

from dpspec.algorithms.card import Problem, Tunable, Tunables
from dpspec.algorithms.convex_erm._common import mean_sensitivity, norm
from dpspec.algorithms.sets import Vector
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.schedule import Draw, Repeat, Sampled, Sequence, Tree

_SLACK: Final = 1.0 + 1e-9  # rounding of a mean of differences, relative to the bound that it is scaled by
_FLOOR: Final = 1e-6  # least bound, as a share of 2L, so that rounding errors are never scaled up past the slack

BATCH: Final = Tunable(
    "ceil(min(n, 1.5*n*strength/sqrt(2*K)))",
    "records a step: the differences' noise multiplier is then about 1.5, where sampling amplifies (000: epsilon <= c1*K*(b/n)^2)",
    integer=True,
    minimum=1,
)


def difference_sensitivity(p: Problem, b: int) -> float:
    """2*(2L)/b: a record's difference of gradients has norm at most 2L."""
    return 2.0 * mean_sensitivity(p, b)


def tree(p: Problem, b: int, steps: int) -> Tree:
    """``steps`` times an anchor gradient over all records and a difference over a batch."""
    difference = Draw("difference", Gaussian(difference_sensitivity(p, b), p.d), weight=(p.n / b) ** 2)
    return Repeat(Sequence((Draw("anchor", Gaussian(mean_sensitivity(p), p.d)), Sampled(difference, "fixed", b / p.n, p.n))), steps)


def estimate(release: Any, records: Any, p: Problem, b: int, y: Vector, z: Vector, anchor: Vector) -> Vector:
    """The noisy estimate of grad F(y) of one step; ``anchor``: the exact grad F(z), which leaves this function with noise only."""
    assert p.loss is not None
    f, whole = p.objective, 2.0 * p.loss.lipschitz
    batch = records.take(release.batch("difference"))
    bound = min(whole, max(p.loss.smooth * norm(y - z), _FLOOR * whole)) * _SLACK
    change = (f.data_gradient(y, batch, b) - f.data_gradient(z, batch, b)) * (whole / bound)
    noisy: Vector = release.gaussian("difference", change, sensitivity=difference_sensitivity(p, b))
    still: Vector = release.gaussian("anchor", anchor, sensitivity=mean_sensitivity(p))
    return noisy * (bound / whole) + still


def variance(t: Tunables, calibrated: Any) -> float:
    """A bound of the noise variance of one coordinate of an estimate: both draws, the differences at their full 2L."""
    return float(calibrated.scale("anchor") ** 2 + (calibrated.scale("difference") * _SLACK) ** 2)


def bad_batch(p: Problem, t: Tunables) -> str | None:
    return f"a batch of {t.b} records is larger than n = {p.n}" if t.b > p.n else None


def spent_at_least(p: Problem, sigma: float, steps: int, delta: float) -> float:
    """A lower bound of the epsilon at ``delta`` of ``steps`` noisy differences of single records with noise ``sigma``.

    One coordinate: a record that adds h = 2L/sigma (in noise units) when it is drawn, and its replacement that subtracts it. The event
    "some step exceeds h" has probability at least P(drawn at least once)/2 with the one and at most steps*Q(h) with the other, so the
    necessary epsilon is log((P/2 - delta)/(steps*Q(h))).
    """
    from scipy.special import log_ndtr

    assert p.loss is not None
    drawn = -math.expm1(steps * math.log1p(-1 / p.n)) if p.n > 1 else 1.0
    if drawn / 2 <= delta:
        return 0.0
    return max(0.0, math.log(drawn / 2 - delta) - math.log(steps) - float(log_ndtr(-2 * p.loss.lipschitz / sigma)))
