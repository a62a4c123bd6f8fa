"""The centre of attention of points in a set of known diameter, and a smooth bound of its local sensitivity, exactly.

m points, of which a record changes at most s. r_i(t) is the distance from point i to its t-th nearest point, itself counted, so r_i(1) = 0;
r_(j)(t) is the j-th smallest of r_1(t)..r_m(t). The centre g is the point with the least r_i(t0), t0 = floor((m + s)/2) + 1.

*Local sensitivity.* Of the t0 points in the least ball at least t0 - s did not change, for z and for its neighbour z' alike, and
2 (t0 - s) > m - s, so the two balls share a point: |g - g'| <= r_(1)(t0) + r'_(1)(t0). A point that did not change has
r'_i(t) <= r_i(t + s), and among any s + 1 points one did not: r'_(1)(t0) <= r_(s+1)(t0 + s). With a_k = r_(ks+1)(t0 + ks), and
``diameter`` where t0 + ks > m,

    |g - g'| <= U_0,   U_k = min(diameter, a_k + a_(k+1)),   S = max_{k >= 0} e^(-k t) U_k.

*Smoothness.* The same two facts give a_k <= a'_(k+1), so U_k <= U'_(k+1), and S <= e^t S'. The maximum ends at the first k with
t0 + (k + 1) s > m, where U_k is the diameter; without that term S could be 0.

Source: Nissim, Raskhodnikova and Smith 2007, section 5; 000, Algorithm 3.2.5. Printed is 2 max_k e^(-k t) rho(t0 + (k + 1) s), rho the
mean of the "top" s/t of the r_i: for the largest ones that is not smooth, for the smallest ones up to twice as steep as claimed, and
r_i(t) is not defined beyond m. a_k + a_(k+1) is at most 2 a_(k+1).

In the doubles that run: a distance is a function of its two points alone, the same double for neighbours, and the order statistics of
doubles are exact, so U_k <= U'_(k+1) holds as computed, the sum and the minimum being monotone. Powers are off by 2^-43 while k t <= 700;
the exponent is t (1 - 2^-24), which leaves room for that where t >= 2^-16. A distance is off by (d + 1) 2^-51 of itself, or by 2^-1000
where it underflows: S is raised by 2^-30 of itself, for d below 10^6, and by 2^-48 of the diameter, a public number.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpspec.algorithms.sets import Vector


def distances(points: Any) -> Any:
    """(m, m) Euclidean distances of (m, d) points, coordinate by coordinate, so that each is a function of its two points alone."""
    m, d = points.shape
    far = np.zeros((m, m))
    for j in range(d):
        np.hypot(far, points[:, j, None] - points[None, :, j], out=far)
    return far


def needed(m: int, s: int) -> int:
    """t0: how many points the least ball holds."""
    return (m + s) // 2 + 1


def steps(m: int, s: int) -> int:
    """The first k at which U_k is the diameter."""
    return max(0, math.ceil((m + 1 - needed(m, s)) / s) - 1)


def smooth_bound(far: Any, s: int, t: float, diameter: float) -> float:
    """S of the points with distances ``far``."""
    m, t0, last = len(far), needed(len(far), s), steps(len(far), s)
    best = diameter * math.exp(-t * last)
    if t0 > m:
        return best
    ranks = np.sort(np.sort(far, axis=1)[:, t0 - 1 :: s], axis=0)  # column k: r_i(t0 + k s), in order
    k = np.arange(ranks.shape[1])
    at = np.minimum(k * s, m - 1)
    a = np.append(np.where(k * s < m, ranks[at, k], diameter), diameter)
    u = np.minimum(diameter, a[:-1] + a[1:])[: last + 1]
    return max(best, float((u * np.exp(-t * np.arange(len(u)))).max(initial=0.0)))


def released(points: Any, s: int, t: float, diameter: float) -> Vector:
    """g and S in one array of d + 1 numbers, as a smooth mechanism takes them. ``points``: finite, in a set of this diameter."""
    far, t0 = distances(points), needed(len(points), s)
    radii = np.partition(far, t0 - 1, axis=1)[:, t0 - 1] if t0 <= len(points) else np.zeros(len(points))
    bound = smooth_bound(far, s, t * (1 - 2.0**-24), diameter)
    return np.append(points[int(np.argmin(radii))], bound * (1 + 2.0**-30) + 2.0**-48 * diameter)
