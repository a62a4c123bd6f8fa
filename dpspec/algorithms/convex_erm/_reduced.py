"""Private variance reduction: the estimate that DP-SVRG, DP-Katyusha and DP-SVRG++ share, its accounting and its defaults.

At a step at y with the anchor z two kinds of vectors are released, and nothing else of the records reaches an iterate:

* ``anchor``: grad F(z) + N(0, s_a^2 I) or less where gradients at z are short, F the mean over all records, sensitivity 2L/n (replace-one);
* ``difference``: the mean over a fresh secret batch of b records of grad f(y) - grad f(z), plus noise. A record's summand has norm at most
  c = min(2L, B|y - z|), to which its difference of slopes is cut in the doubles that run, so under replace-one the mean moves by 2c/b.
  y and z are functions of earlier releases, so the vector is scaled by 2L/c first and the noise is drawn at the sensitivity 4L/b that
  stands in the plan: adaptive composition at a fixed noise multiplier (000 has the full 2G for every step and treats it as 1).

The batch is a uniform subset of exactly b of the n records, drawn for every step: the sampler that the accountant assumes under
replace-one. Documents draw one record; then the noise that a record needs when it is drawn (4L against a mean over all) makes the method
useless at any n, see the faults.

What that costs. Let mu^2 = mu_a^2 + mu_d^2 be the budget's split, tau the total step length, K the differences. K steps of length tau/K
with fresh anchors (variance K (2L/(n mu_a))^2), and T epochs that use one anchor each (variance T (2L/(n mu_a))^2, for tau/T), both
displace the iterate by a variance of tau^2 (2L/(n mu_a))^2 a coordinate: full-batch noise, whatever K and T are. A difference at noise
multiplier z costs q^2/z^2 of mu_d^2 when z is above 1 (q = b/n), so the batch cancels as well: the differences add tau^2 (2Br/(n mu_d))^2,
r the root mean square of |y - z|. The best split is mu_d^2/mu_a^2 = Br/L =: ``share``, and the sum is

    tau^2 (2L/(n mu))^2 (1 + share)^2:

never below dp-gd's noise, and close to it while anchors are near. r follows from the method: noise and descent move the iterate by
about D, the distance to cover, in a random walk over the epochs, hence D/sqrt(T) and the like. Then D^2/(2 tau) + 9/2 d tau
(L(1 + share)/(n mu))^2 is least at the default tau (and tau <= 4/lam), as for dp-gd; T only trades anchors, n gradients each, against
share; steps are as long as they are stable; and b is the least batch with z about 1.5, or what keeps the sampling error of the
differences, at most B^2 r^2/b, below the noise. The constants 9/2 (2 in theory), 1.5 and the caps were set on synthetic problems: logistic
losses, n = 2000 to 40,000, d = 5 to 51, on records on the sphere, with a decaying spectrum, one-hot, and almost separable.
"""

from __future__ import annotations

import math
from typing import Any, Final

from dpspec.algorithms.card import Problem, Tunable, Tunables
from dpspec.algorithms.convex_erm._common import mean_sensitivity, norm, steepness, summed
from dpspec.algorithms.sets import Vector
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.schedule import Draw, Repeat, Sampled, Sequence, Tree

_SLACK: Final = 1.0 + 1e-9  # rounding of a mean of differences, relative to the bound that it is scaled by
_FLOOR: Final = 1e-4  # least bound, as a share of 2L, so that rounding errors are never scaled up past the slack

REACH: Final = Tunable(
    "min(w_radius, 2*L/B) else 2*L/B", "distance D to cover: the radius of the set, at most twice the natural scale L/B of a weight"
)
TAU: Final = Tunable(
    "1/(3*L*(1 + share)*sqrt(d)/(reach*n*strength) + lam/4)",
    "total step length: least D^2/(2 tau) + 9/2 d tau (L(1 + share)/(n mu))^2, at most 4/lam",
)
TAIL: Final = Tunable("1/2", "share of the last epochs whose anchors are averaged (000: the last alone)", minimum=1e-6, maximum=1.0)

BATCH: Final = Tunable(
    "ceil(min(n, max(1.5*n*strength*sqrt(share/((1 + share)*K)), (share*n*strength)^2/(4*d*K))))",
    "records a step: a noise multiplier of about 1.5, where sampling amplifies, and less sampling error than noise",
    integer=True,
    minimum=1,
)


def difference_sensitivity(p: Problem, b: int) -> float:
    """2*(2L)/b: a record's difference of gradients has norm at most 2L."""
    return 2.0 * mean_sensitivity(p, b)


def tree(p: Problem, t: Tunables, anchors: int, steps: int) -> Tree:
    """``anchors`` gradients over all records, each followed by ``steps`` differences over batches. The weight n^2/b^2 turns the share of
    the plain noise that calibration splits into one of the amplified mu^2."""
    moved = Draw("difference", Gaussian(difference_sensitivity(p, t.b), p.d), weight=t.share * (p.n / t.b) ** 2)
    sampled: Tree = Sampled(moved, "fixed", t.b / p.n, p.n)
    return Repeat(Sequence((Draw("anchor", Gaussian(mean_sensitivity(p), p.d)), Repeat(sampled, steps))), anchors)


def anchored(release: Any, p: Problem, z: Vector, exact: Vector) -> Vector:
    """grad F(z), which leaves this function with noise only: at most the planned one, see ``_common.noisy_gradient``."""
    share = steepness(p, z)
    noisy: Vector = release.draw("anchor", exact / share, sensitivity=mean_sensitivity(p))
    return noisy * share


def difference(release: Any, records: Any, p: Problem, b: int, y: Vector, z: Vector) -> Vector:
    """The noisy estimate of grad F(y) - grad F(z) from a fresh batch."""
    assert p.loss is not None
    f, whole = p.objective, 2.0 * p.loss.lipschitz
    batch = records.take(release.batch("difference"))
    rounding = (summed(p, b) - 1.0) * whole  # of the two sums, next to which c may be small
    within = max(p.loss.smooth * norm(y - z), _FLOOR * whole) * _SLACK
    bound = min(whole, within + rounding)
    change = f.data_difference(y, z, batch, b, within=min(whole, within)) * (whole / bound)
    noisy: Vector = release.draw("difference", change, sensitivity=difference_sensitivity(p, b))
    return noisy * (bound / whole)


def estimate(release: Any, records: Any, p: Problem, b: int, y: Vector, z: Vector, anchor: Vector) -> Vector:
    """The noisy estimate of grad F(y) of one step; ``anchor``: the exact grad F(z)."""
    return difference(release, records, p, b, y, z) + anchored(release, p, z, anchor)


def noise(calibrated: Any) -> tuple[float, float]:
    """The noise variances of one coordinate of an anchor and (at most: at the full 2L) of a difference."""
    return float(calibrated.scale("anchor") ** 2), float((calibrated.scale("difference") * _SLACK) ** 2)


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
