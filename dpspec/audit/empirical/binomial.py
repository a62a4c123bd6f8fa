"""Two binomial counts against one privacy statement: exact, one-sided, at a stated confidence.

An event ``S`` was fixed before the counts were drawn. ``k_p`` of ``n_p`` independent outputs on one input fall into it (probability p),
``k_q`` of ``n_q`` on the neighbouring input (probability q). A privacy statement is a curve ``p <= g(q)`` with g increasing: ``e^eps q +
delta`` for (eps, delta), ``Phi(Phi^-1(q) + mu)`` for mu-Gaussian differential privacy.

Bounding p and q one at a time (Clopper and Pearson 1934, half of the error each) adds two standard errors where one root of a sum of
squares would do. Here the pair is bounded at once:

* the counts are ordered by the lower limit that the score statistic gives (:func:`evidence`), increasing in k_p and decreasing in k_q;
* the p-value of a point (p, q) is the probability of a pair of counts at least as extreme as the observed one, ``R``;
* the nuisance q is confined to a Clopper-Pearson interval of error gamma, which is paid for (Berger and Boos 1994);
* the supremum over q in it is bounded from above on cells: on [q1, q2] the probability of R is at most its value at (g(q2), q1), because R
  shrinks in k_q and grows in k_p. So no grid error can make the bound too good.

``R`` does not depend on the statement tested, hence one confidence region for (p, q) from which every consequence (a least epsilon, a
least delta, a least mu) follows simultaneously, and the least epsilon is exactly monotone in the level."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Curve = Callable[[Floats], Floats]

_CELLS = 256
_ENTRIES = 4_000_000  # the most entries of a table; fewer cells beyond
_SLACK = 3e-6  # relative; the error of the logarithms of factorials is below it up to 10^8 runs


@dataclass(frozen=True, slots=True)
class Counts:
    """``k_p`` hits in ``n_p`` runs on the side where the event is likelier, ``k_q`` in ``n_q`` on the other."""

    k_p: int
    n_p: int
    k_q: int
    n_q: int

    def __post_init__(self) -> None:
        if not (0 <= self.k_p <= self.n_p and 0 <= self.k_q <= self.n_q and self.n_p > 0 and self.n_q > 0):
            raise ValueError(f"impossible counts {self}")


@dataclass(frozen=True, slots=True)
class Evidence:
    """The observed counts with their rejection region R and the law of k_q on the cells of the nuisance q.

    left, right: (cells,), the ends of each cell. mass: (cells, J), P[k_q = first + j] at the left end; ``below``: (cells,), P[k_q <
    first]. least: (J,), the least k_p in R at each k_q, n_p + 1 when there is none. log_choose: (n_p + 1,). ``limit`` is the score lower
    limit of the counts, a close guess of the exact one."""

    counts: Counts
    alpha: float
    gamma: float
    first: int
    left: Floats
    right: Floats
    mass: Floats
    below: Floats
    least: npt.NDArray[np.int64]
    log_choose: Floats
    limit: float


def upper_tail(k: npt.ArrayLike, n: int, p: npt.ArrayLike) -> Floats:
    """P(Binomial(n, p) >= k), elementwise, by the incomplete beta function. k <= 0 gives 1, k > n gives 0."""
    from scipy.special import betainc

    k_, p_ = np.broadcast_arrays(np.asarray(k, dtype=float), np.asarray(p, dtype=float))
    inner = np.clip(k_, 1, n)
    value: Any = betainc(inner, n - inner + 1.0, np.clip(p_, 0.0, 1.0))
    return np.asarray(np.where(k_ <= 0, 1.0, np.where(k_ > n, 0.0, value)), dtype=float)


def lower_bound(k: int, n: int, alpha: float) -> float:
    """Clopper-Pearson: with probability at least 1 - alpha the true probability is no less."""
    from scipy.special import betaincinv

    return 0.0 if k == 0 else float(betaincinv(k, n - k + 1, alpha))


def upper_bound(k: int, n: int, alpha: float) -> float:
    """Clopper-Pearson: with probability at least 1 - alpha the true probability is no more."""
    from scipy.special import betaincinv

    return 1.0 if k == n else float(betaincinv(k + 1, n - k, 1.0 - alpha))


def clopper_pearson_epsilon(counts: Counts, delta: float, alpha: float) -> float:
    """ln((p_low - delta)/q_high) with alpha/2 for each side; -inf when the numerator is not positive. The plain textbook bound."""
    numerator = lower_bound(counts.k_p, counts.n_p, alpha / 2) - delta
    return -math.inf if numerator <= 0 else math.log(numerator / upper_bound(counts.k_q, counts.n_q, alpha / 2))


def evidence(counts: Counts, *, alpha: float, order_delta: float) -> Evidence:
    """The rejection region of the observed counts.

    Let T_eps(i, j) be the score statistic of p = e^eps q + order_delta (numerator over its standard error at the pooled estimate on that
    line), and z the normal quantile at alpha. The counts are ordered by the eps at which T_eps(i, j) = z: the score lower limit. So R =
    {T_e >= z} with e the limit of the observed counts, and R is all there is when e is below ``_LEAST_ORDER``. ``order_delta`` must be
    chosen without a look at the counts; it moves the power, never the validity.

    Where T > 0 it grows in i and falls in j: the numerator N is linear, the variance V a concave quadratic in each count with V >= 0
    where N = 0, hence V'/V <= N'/N in i (and the mirror image in j). It falls in eps likewise. So the order is monotone, as
    :func:`refutes` needs."""
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha {alpha} is outside (0, 1)")
    c = counts
    gamma = alpha / 20
    low, high = lower_bound(c.k_q, c.n_q, gamma / 2), upper_bound(c.k_q, c.n_q, gamma / 2)
    spread = 6.0 * math.sqrt(max(high * (1 - low), 1.0 / c.n_q) * c.n_q)
    first, last = max(0, math.floor(low * c.n_q - spread)), min(c.n_q, math.ceil(high * c.n_q + spread))
    cells = max(32, min(_CELLS, _ENTRIES // (last - first + 1)))
    edges = np.linspace(math.sqrt(low), math.sqrt(high), cells + 1) ** 2
    edges[0], edges[-1] = min(edges[0], low), max(edges[-1], high)
    j = np.arange(first, last + 1)
    choose_q = _log_choose(c.n_q)
    mass = _pmf(choose_q[j], j, c.n_q, edges[:-1])
    mass[:, -1] += upper_tail(last + 1, c.n_q, edges[:-1])  # R only shrinks in k_q: what lies beyond counts as the last
    below = 1.0 - upper_tail(first, c.n_q, edges[:-1])
    least, limit = _least(c, j, alpha, order_delta)
    choose_p = choose_q if c.n_p == c.n_q else _log_choose(c.n_p)
    return Evidence(c, alpha, gamma, first, edges[:-1], edges[1:], mass, below, least, choose_p, limit)


def _log_choose(n: int) -> Floats:
    from scipy.special import gammaln

    k = np.arange(n + 1.0)
    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0), dtype=float)


def _pmf(log_choose: Floats, k: npt.NDArray[np.int64], n: int, p: Floats) -> Floats:
    """Binomial probabilities, a hair too large: (len(p), len(k))."""
    from scipy.special import xlog1py, xlogy

    column = np.clip(p, 0.0, 1.0)[:, None]
    return np.asarray(
        np.exp(log_choose[None, :] + xlogy(k[None, :], column) + xlog1py(n - k[None, :], -column)) * (1 + _SLACK), dtype=float
    )


_LEAST_ORDER = -3.0


def _score(c: Counts, i: Floats, j: Floats, ratio: float, delta: float) -> Floats:
    """N/sqrt(V) where N > 0, else 0."""
    top = i / c.n_p - delta - ratio * j / c.n_q
    q = np.clip((i + j - c.n_p * delta) / (c.n_p * ratio + c.n_q), 0.0, 1.0)
    p = np.minimum(ratio * q + delta, 1.0)
    variance = p * (1 - p) / c.n_p + ratio * ratio * q * (1 - q) / c.n_q
    return np.where(top > 0, top / np.sqrt(np.maximum(variance, 1e-300)), 0.0)


def _least(c: Counts, k_q: npt.NDArray[np.int64], alpha: float, delta: float) -> tuple[npt.NDArray[np.int64], float]:
    """For each k_q the least k_p in R, n_p + 1 when there is none; and the score lower limit."""
    from scipy.special import ndtri

    z = max(0.1, -float(ndtri(alpha)))
    i_seen, j_seen = np.array([float(c.k_p)]), np.array([float(c.k_q)])
    outside, inside = 40.0, _LEAST_ORDER
    if _score(c, i_seen, j_seen, math.exp(inside), delta)[0] < z:
        return np.zeros(len(k_q), dtype=np.int64), _LEAST_ORDER
    while outside - inside > 1e-10:
        mid = (outside + inside) / 2
        inside, outside = (mid, outside) if _score(c, i_seen, j_seen, math.exp(mid), delta)[0] >= z else (inside, mid)
    ratio, j = math.exp(inside - 1e-9), k_q.astype(float)  # a hair below the limit: ties belong to R
    lo = np.full(len(j), -1.0)  # not in R
    hi = np.full(len(j), c.n_p + 1.0)  # in R, or past the end
    while np.any(hi - lo > 1):
        mid_i = np.floor((lo + hi) / 2)
        hit = _score(c, mid_i, j, ratio, delta) >= z
        hi, lo = np.where(hit & (hi - lo > 1), mid_i, hi), np.where(~hit & (hi - lo > 1), mid_i, lo)
    return hi.astype(np.int64), inside


def refutes(e: Evidence, curve: Curve) -> bool:
    """Whether the statement ``p <= curve(q)`` (curve increasing) is rejected at level alpha. True is safe; False only means not
    rejected."""
    some = slice(None, None, 16)
    level = e.alpha - e.gamma
    if np.any(_tail(e, some, curve(e.right)[some]) > level):
        return False
    return not np.any(_tail(e, slice(None), curve(e.right)) > level)


def _tail(e: Evidence, cells: slice, p: Floats) -> Floats:
    """P(R) with k_q at the left end of each of the cells and k_p at the given p, from above."""
    n = e.counts.n_p
    spread = 7.0 * math.sqrt(n) * np.sqrt(np.maximum(p * (1 - p), 1.0 / n))
    lo = max(0, math.floor(float(np.min(n * p - spread))), int(e.least[0]) - 1)
    hi = min(n, math.ceil(float(np.max(n * p + spread))), int(e.least[-1]) + 1)
    hi = max(hi, lo)
    k = np.arange(lo, hi + 1)
    beyond = upper_tail(hi + 1, n, p)
    pmf = _pmf(e.log_choose[k], k, n, p)
    reach = np.concatenate([np.cumsum(pmf[:, ::-1], axis=1)[:, ::-1] + beyond[:, None], beyond[:, None]], axis=1)  # P(k_p >= lo + column)
    reach = np.concatenate([np.minimum(reach, 1.0), np.ones((len(p), 1)), np.zeros((len(p), 1))], axis=1)
    column = np.clip(e.least - lo, 0, hi + 1 - lo)
    column = np.where(e.least < lo, hi + 2 - lo, np.where(e.least > n, hi + 3 - lo, column))
    total: Floats = np.einsum("cj,cj->c", e.mass[cells], reach[:, column]) + e.below[cells]
    return total


def dp_curve(epsilon: float, delta: float) -> Curve:
    ratio = math.exp(min(epsilon, 700.0))
    return lambda q: np.minimum(1.0, ratio * q + delta)


def gdp_curve(mu: float) -> Curve:
    """The trade-off curve of mu-GDP (Dong, Roth and Su 2022) as power against size: Phi(Phi^-1(q) + mu)."""

    def curve(q: Floats) -> Floats:
        from scipy.special import ndtr, ndtri

        return np.asarray(np.where(q <= 0, 0.0, ndtr(ndtri(np.clip(q, 1e-300, 1.0)) + mu)), dtype=float)

    return curve


def least_parameter(e: Evidence, family: Callable[[float], Curve], *, start: float, low: float, high: float, tolerance: float) -> float:
    """The largest parameter in [low, high] found refuted (the true one exceeds it at confidence 1 - alpha), or ``low`` when none is.

    ``family(x)`` must increase with x. The answer is always a parameter at which :func:`refutes` was true, or ``low``.
    """
    good, bad = low, high
    x, step = min(max(start, low), high), 3 * tolerance
    if x > low and refutes(e, family(x)):
        good = x
        while good < high:
            x = min(good + step, high)
            if not refutes(e, family(x)):
                bad = x
                break
            good, step = x, 3 * step
    elif x > low:
        bad = x
        while bad > low:
            x = max(bad - step, low)
            if x == low or refutes(e, family(x)):
                good = x
                break
            bad, step = x, 3 * step
    while bad - good > tolerance:
        mid = (good + bad) / 2
        good, bad = (mid, bad) if refutes(e, family(mid)) else (good, mid)
    return good


def epsilon_lower(e: Evidence, delta: float) -> float:
    """The least epsilon >= 0 that (epsilon, delta) needs, at confidence 1 - alpha."""
    c = e.counts
    error = math.sqrt(1 / max(c.k_p, 1) + 1 / max(c.k_q, 1))
    return least_parameter(e, lambda x: dp_curve(x, delta), start=e.limit - 1e-3, low=0.0, high=60.0, tolerance=max(1e-3, 0.03 * error))


def delta_lower(e: Evidence, epsilon: float) -> float:
    """The least delta >= 0 that (epsilon, delta) needs: a lower bound of the hockey-stick divergence at e^epsilon."""
    c = e.counts
    p, q, ratio = c.k_p / c.n_p, c.k_q / c.n_q, math.exp(min(epsilon, 700.0))
    error = math.sqrt(p * (1 - p) / c.n_p + ratio * ratio * max(q * (1 - q), 1 / c.n_q) / c.n_q)
    start = p - ratio * q - 2.5 * error
    return least_parameter(e, lambda x: dp_curve(epsilon, x), start=start, low=0.0, high=1.0, tolerance=1e-3 * max(p, 1e-3))


def mu_lower(e: Evidence, *, start: float) -> float:
    """The least mu >= 0 that mu-GDP needs, at confidence 1 - alpha."""
    return least_parameter(e, gdp_curve, start=start, low=0.0, high=30.0, tolerance=2e-3)
