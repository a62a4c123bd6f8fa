"""Guarantees, and the conversions between them.

Each guarantee is a frozen dataclass; each conversion names its source and is the tight one where a tight one is known. A number that
comes out of a conversion is rounded so that the statement stays true.

====================  =========================================================================================
from                  to
====================  =========================================================================================
pure epsilon          approx (same epsilon, delta 0); zCDP epsilon^2/2; GDP 2*Phi^-1(e^epsilon/(1+e^epsilon)); f
exponential epsilon   zCDP epsilon^2/8 (bounded range; the exponential mechanism alone)
approx                f (max of two lines)
zCDP rho              Renyi (order, rho*order); approx (optimal order); it is no f-DP statement of one curve
Renyi                 approx
GDP mu                approx (exact both ways); zCDP mu^2/2; f (exact)
====================  =========================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from dpspec.privacy import gaussian
from dpspec.privacy.gaussian import Number, exact, float_up

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Curve: TypeAlias = NDArray[np.float64]

Kind: TypeAlias = Literal["pure", "approx", "zcdp", "gdp"]


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What a calibrated schedule spends, as plans and records print it. Fields that a kind does not have are None.

    ``epsilon`` and ``delta`` are given for every kind that implies one at the delta asked for; they are rounded up.
    """

    kind: Kind
    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    mu: float | None = None

    def to_json(self) -> dict[str, object]:
        return {"kind": self.kind, "epsilon": self.epsilon, "delta": self.delta, "rho": self.rho, "mu": self.mu}


@dataclass(frozen=True, slots=True)
class Pure:
    """P(S) <= e^epsilon P'(S) for every event S."""

    epsilon: float


@dataclass(frozen=True, slots=True)
class Approx:
    """P(S) <= e^epsilon P'(S) + delta for every event S."""

    epsilon: float
    delta: float


@dataclass(frozen=True, slots=True)
class Zcdp:
    """Renyi divergence of every order a > 1 at most rho*a (Bun, Steinke 2016)."""

    rho: float


@dataclass(frozen=True, slots=True)
class Renyi:
    """Renyi divergence of one ``order`` > 1 at most ``epsilon`` (Mironov 2017)."""

    order: float
    epsilon: float


@dataclass(frozen=True, slots=True)
class Gdp:
    """At least as hard to tell apart as N(0, 1) from N(mu, 1) (Dong, Roth, Su 2022)."""

    mu: float


@dataclass(frozen=True, slots=True)
class TradeOff:
    """f-DP: an attacker with false-positive rate a has false-negative rate at least ``curve(a)``. ``curve`` maps arrays in [0, 1]."""

    kind: str
    curve: Callable[[Curve], Curve]

    def __call__(self, false_positive_rate: Any) -> Curve:
        import numpy as np

        rate = np.asarray(false_positive_rate, dtype=np.float64)
        if np.any((rate < 0) | (rate > 1)):
            raise ValueError("a false-positive rate lies in [0, 1]")
        return self.curve(rate)


# ------------------------------------------------------------------------------------------------------ pure and zCDP


def pure_to_zcdp(guarantee: Pure) -> Zcdp:
    """epsilon-DP is epsilon^2/2-zCDP (Bun, Steinke 2016, Proposition 1.4; document 000, Lemma 2.1.8). Rounded up."""
    return Zcdp(float_up(exact(guarantee.epsilon) ** 2 / 2))


def exponential_to_zcdp(epsilon: float) -> Zcdp:
    """An epsilon-bounded-range mechanism, which the exponential mechanism is, is epsilon^2/8-zCDP (Cesar, Rogers 2021, Lemma 3.2;
    Rogers, Steinke 2021). It does not hold for every epsilon-DP mechanism: not for permute-and-flip, nor for Laplace noisy max."""
    return Zcdp(float_up(exact(epsilon) ** 2 / 8))


def _order_epsilon(flint: Any, order: Any, divergence: Any, log_inverse_delta: Any) -> Any:
    return divergence + (-1 / order).log1p() + (log_inverse_delta - order.log()) / (order - 1)


def renyi_to_approx(guarantee: Renyi, delta: Number) -> Approx:
    """(order a, tau)-Renyi DP is (epsilon, ``delta``)-DP at epsilon = tau + log(1 - 1/a) + (log(1/delta) - log a)/(a - 1).

    Canonne, Kamath, Steinke 2020, Proposition 12 (also Asoodeh et al. 2020; Balle et al. 2020, Theorem 21). Rounded up.
    """
    if not guarantee.order > 1:
        raise ValueError(f"the order of a Renyi guarantee is greater than 1, got {guarantee.order}")
    with gaussian._precision(128) as flint:
        log_inverse = -gaussian._ball(flint, exact(delta)).log()
        value = _order_epsilon(flint, flint.arb(guarantee.order), flint.arb(guarantee.epsilon), log_inverse)
        return Approx(max(0.0, gaussian._upper(flint, value)), float_up(exact(delta)))


def _best_order(score: Callable[[float], float]) -> float:
    """The minimiser of a unimodal score over orders 1 + e^t: a coarse grid, then golden section. Any order is valid."""
    grid = [-20 + 0.5 * i for i in range(100)]
    t = min(grid, key=lambda t: score(1 + math.exp(t)))
    low, high, golden = t - 0.5, t + 0.5, (math.sqrt(5) - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = score(1 + math.exp(left)), score(1 + math.exp(right))
    for _ in range(45):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = score(1 + math.exp(left))
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = score(1 + math.exp(right))
    return 1 + math.exp((low + high) / 2)


def zcdp_epsilon(rho: Number, delta: Number) -> float:
    """The least epsilon that the optimal order gives for rho-zCDP at ``delta``, rounded up.

    Canonne, Kamath, Steinke 2020, Proposition 12 minimised over the order: smaller than rho + 2 sqrt(rho log(1/delta)) (Bun, Steinke
    2016, Proposition 1.3; document 000, Lemma 2.1.10).
    """
    r, d = exact(rho), exact(delta)
    if r < 0 or not 0 < d < 1:
        raise ValueError(f"rho must be >= 0 and delta in (0, 1), got {rho} and {delta}")
    if r == 0:
        return 0.0
    r_float, log_inverse = float(r), -_log(d)
    order = _best_order(lambda a: r_float * a + math.log1p(-1 / a) + (log_inverse - math.log(a)) / (a - 1))
    with gaussian._precision(128) as flint:
        a = flint.arb(order)
        value = _order_epsilon(flint, a, gaussian._ball(flint, r) * a, -gaussian._ball(flint, d).log())
        return max(0.0, gaussian._upper(flint, value))


def zcdp_rho(epsilon: Number, delta: Number) -> float:
    """The largest rho, rounded down, for which some order certifies (``epsilon``, ``delta``)-DP; the inverse of :func:`zcdp_epsilon`."""
    e, d = exact(epsilon), exact(delta)
    if e < 0 or not 0 < d < 1:
        raise ValueError(f"epsilon must be >= 0 and delta in (0, 1), got {epsilon} and {delta}")
    e_float, log_inverse = float(e), -_log(d)
    order = _best_order(lambda a: -(e_float - math.log1p(-1 / a) - (log_inverse - math.log(a)) / (a - 1)) / a)
    with gaussian._precision(128) as flint:
        a = flint.arb(order)
        value = (gaussian._ball(flint, e) - _order_epsilon(flint, a, flint.arb(0), -gaussian._ball(flint, d).log())) / a
        return max(0.0, gaussian._lower(flint, value))


def _log(value: Fraction) -> float:
    """log of a positive rational, also where it underflows a double."""
    return math.log(value.numerator) - math.log(value.denominator)
