"""What the printed noise of the online pairwise methods would really spend: with the released point fed back, and as a hidden chain.

    eta_t = (t-1)/(t-2) 2/(alpha t),   sigma_t^2 = 32 G^2 (n - T_1)/(alpha^2 t^2 rho),   rho = (sqrt(log(1/delta) + epsilon) -
    sqrt(log(1/delta)))^2

a release a record, t = T_1 + 1..n (000, Algorithms 3.3.9, 3.3.10, 3.3.12, 3.3.13). Fed back, sigma_t on w_t is sigma_t/eta_t on the
gradient. As a hidden chain, for one record i that the buffer holds in m_t of its s places,

    delta_t = (1 - alpha eta_t) delta_{t-1} + S eta_t [1 at t = i, m_t/s later]

is how far a loss that is linear but for its ridge really moves w_t (every pair pulls one way), so given the buffer the transcript is
exactly a Gaussian mechanism with mu^2 = sum_t (delta_t/sigma_t)^2: a lower bound of what is spent, attained.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpspec.algorithms.card import Problem, Tunables
from dpspec.algorithms.estimate import Published
from dpspec.algorithms.pairwise._stream import Blocks, _against_all, _against_buffer, shares
from dpspec.algorithms.sets import Vector, constraint_set


def zcdp(epsilon: float, delta: float) -> float:
    """rho of rho + 2 sqrt(rho log(1/delta)) = epsilon."""
    log = math.log(1 / delta)
    return (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2


def step(t: Vector, alpha: float) -> Vector:
    """eta_t."""
    return np.asarray((t - 1) / (t - 2) * 2 / (alpha * t))


def noise(t: Vector, G: float, alpha: float, steps: int, rho: float) -> Vector:
    """sigma_t, for ``steps`` = n - T_1."""
    return np.asarray(math.sqrt(32 * steps / rho) * G / (alpha * t))


def hidden(own: int, copies: Sequence[float] | Vector, begin: int, alpha: float, spread: float) -> Vector:
    """delta_t, t = begin + 1, ..., begin + len(copies): ``copies`` the share of the buffer that record ``own`` (counted from 1) has at
    t."""
    times = np.arange(begin + 1, begin + len(copies) + 1, dtype=np.float64)
    apart, moved = 0.0, np.empty(len(times))
    for k, (t, eta) in enumerate(zip(times, step(times, alpha), strict=True)):
        apart = abs(1 - alpha * eta) * apart + spread * eta * (1.0 if t == own else float(copies[k]))
        moved[k] = apart
    return moved


def start_phase(B: float, alpha: float) -> int:
    """T_1 as printed."""
    return max(math.ceil(16 * (B / alpha) ** 2), 7)


def _constants(p: Problem, budget: Any, alpha: float, added: float) -> tuple[float, float, float, int] | None:
    """G with the ridge in it, rho, delta and T_1, or None where nothing is printed or no step is taken."""
    assert p.loss is not None
    across = constraint_set(p.task.over, p.facts).diameter(p.d)
    if budget.kind != "approx" or not math.isfinite(across) or not math.isfinite(p.loss.smooth) or not 0 < alpha < math.inf:
        return None
    delta = float(budget.delta_exact)
    ridge = added if added > 0 else alpha
    begin = start_phase(p.loss.smooth + ridge, alpha) if p.loss.smooth / alpha < 1e6 else p.n
    if begin >= p.n:
        begin = min(7, p.n - 1)  # its T_1 leaves no step: the shortest start phase that is printed
    return p.loss.lipschitz + ridge * across, zcdp(float(budget.epsilon_exact), delta), delta, begin


def feedback(p: Problem, t: Tunables, budget: Any, source: str, alpha: float, added: float) -> tuple[Published, ...]:
    """The printed noise a gradient, with w_{t-1} the released point."""
    from dpspec.privacy.gaussian import epsilon_of

    found = _constants(p, budget, alpha, added)
    if found is None:
        return ()
    G, rho, delta, begin = found
    assert p.loss is not None
    steps = p.n - begin
    scale = math.sqrt(8 * steps / rho) * G  # sigma_t/eta_t, without (t - 2)/(t - 1)
    plan = Blocks(begin, 1, steps)
    moved = _against_all(p.n, plan) if "size" not in t else _against_buffer(t.buffer, p.n, plan, int(t.size), int(t.coins))[0]
    return (
        Published(
            source,
            "gradients",
            "sqrt(32*(n - T_1)/rho)*G/(alpha*t) on the point, sqrt(8*(n - T_1)/rho)*G on its gradient",
            scale,
            epsilon_of(p.loss.spread * moved * (begin / (begin - 1)) / scale, delta),
            "a release a record, with the released point fed back: safe, and almost all of the budget is wasted",
        ),
    )


def chain(p: Problem, t: Tunables, budget: Any, source: str, alpha: float, added: float) -> tuple[Published, ...]:
    """:func:`feedback`, and the printed noise on the chain without noise that the document's proofs speak of, on the plan's buffer."""
    from dpspec.privacy.gaussian import epsilon_of

    found = _constants(p, budget, alpha, added)
    if found is None:
        return ()
    G, rho, delta, begin = found
    assert p.loss is not None
    if begin < 2:  # the printed step (t - 1)/(t - 2) needs t > 2
        return ()
    if p.loss.classes > 1:  # of a Mahalanobis matrix the spread is a bound that no pairs are known to attain
        return feedback(p, t, budget, source, alpha, added)
    steps, size, coins = p.n - begin, int(t.size), int(t.coins)
    plan = Blocks(begin, 1, steps)
    record = _against_buffer(t.buffer, p.n, plan, size, coins)[1]
    copies = shares(t.buffer, p.n, plan, size, coins, record)
    times = np.arange(begin + 1, p.n + 1, dtype=np.float64)
    sigma = noise(times, G, alpha, steps, rho)
    mu = math.sqrt(float(((hidden(record + 1, copies, begin, alpha, p.loss.spread) / sigma) ** 2).sum()))
    return (
        *feedback(p, t, budget, source, alpha, added),
        Published(
            source,
            "gradients",
            "sqrt(32*(n - T_1)/rho)*G/(alpha*t) on each point of a chain without noise",
            float(sigma[-1]),
            epsilon_of(mu, delta),
            "what a loss that is linear but for its ridge really spends, for the record that this buffer holds most",
        ),
    )
