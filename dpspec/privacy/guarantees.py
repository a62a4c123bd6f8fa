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
from collections.abc import Callable, Iterable, Sequence
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
    grid = [-20 + 0.5 * i for i in range(180)]
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


def pure_to_approx(guarantee: Pure) -> Approx:
    return Approx(guarantee.epsilon, 0.0)


def zcdp_to_approx(guarantee: Zcdp, delta: Number) -> Approx:
    """See :func:`zcdp_epsilon`."""
    return Approx(zcdp_epsilon(guarantee.rho, delta), float_up(exact(delta)))


def zcdp_to_renyi(guarantee: Zcdp, order: float) -> Renyi:
    """By definition: rho*order."""
    if not order > 1:
        raise ValueError(f"the order of a Renyi guarantee is greater than 1, got {order}")
    return Renyi(order, float_up(exact(guarantee.rho) * exact(order)))


def pure_to_renyi(guarantee: Pure, order: float) -> Renyi:
    """The Renyi divergence of randomised response, which is the largest of all epsilon-DP mechanisms (Mironov 2017, Proposition 5):
    log((e^(a eps) + e^((1 - a) eps))/(1 + e^eps))/(a - 1) with the terms of p = e^eps/(1 + e^eps). Rounded up."""
    if not order > 1:
        raise ValueError(f"the order of a Renyi guarantee is greater than 1, got {order}")
    with gaussian._precision(192) as flint:
        e, a = flint.arb(guarantee.epsilon), flint.arb(order)
        value = (((a * e).exp() + ((1 - a) * e).exp()) / (1 + e.exp())).log() / (a - 1)
        return Renyi(order, gaussian._upper(flint, value))


# ----------------------------------------------------------------------------------------------------------- Gaussian DP


def gdp_to_approx(guarantee: Gdp, delta: Number) -> Approx:
    """Exact in both directions: mu-GDP is equivalent to (epsilon, delta(epsilon; mu))-DP for all epsilon >= 0 (Dong, Roth, Su 2022,
    Corollary 2.13)."""
    return Approx(gaussian.epsilon_of(guarantee.mu, delta), float_up(exact(delta)))


def gdp_to_zcdp(guarantee: Gdp) -> Zcdp:
    """mu^2/2, the divergence of the Gaussian itself (document 000, Lemma 2.1.9 with its square restored)."""
    return Zcdp(float_up(exact(guarantee.mu) ** 2 / 2))


def pure_to_gdp(guarantee: Pure) -> Gdp:
    """The least mu with epsilon-DP implying mu-GDP; see :func:`dpspec.privacy.accounting.pure_mu`."""
    from dpspec.privacy.accounting import pure_mu

    return Gdp(float_up(pure_mu(exact(guarantee.epsilon))))


# ------------------------------------------------------------------------------------------------------------------ f-DP


def trade_off(guarantee: Pure | Approx | Zcdp | Gdp) -> TradeOff:
    """The curve that the guarantee is equivalent to: false-positive rate to the least false-negative rate of any attack.

    Approx: max(0, 1 - delta - e^epsilon a, e^-epsilon (1 - delta - a)) (Wasserman, Zhou 2010; Kairouz et al. 2015); pure: the same at
    delta 0; GDP: Phi(Phi^-1(1 - a) - mu). zCDP is weaker than any one curve; here it is the best of its conversions, which is valid.
    """
    match guarantee:
        case Pure(epsilon=epsilon):
            return TradeOff("pure", lambda a: _lines(a, epsilon, 0.0))
        case Approx(epsilon=epsilon, delta=delta):
            return TradeOff("approx", lambda a: _lines(a, epsilon, delta))
        case Gdp(mu=mu):
            return TradeOff("gdp", lambda a: _normal_curve(a, mu))
        case Zcdp(rho=rho):
            pairs = [(zcdp_epsilon(rho, d), d) for d in (10 ** (-k / 5) for k in range(1, 61))]
            return TradeOff("zcdp", lambda a: _upper_envelope(a, pairs))
    raise TypeError(f"{guarantee!r} has no trade-off curve")


def _lines(a: Curve, epsilon: float, delta: float) -> Curve:
    import numpy as np

    steep = 1 - delta - np.exp(min(epsilon, 700.0)) * a
    flat = np.exp(-epsilon) * (1 - delta - a)
    return np.asarray(np.maximum(0.0, np.maximum(steep, flat)), dtype=np.float64)


def _normal_curve(a: Curve, mu: float) -> Curve:
    from statistics import NormalDist  # SciPy's would take longer to import than a plan to make

    import numpy as np

    quantile = NormalDist().inv_cdf
    rates = np.asarray(a, dtype=np.float64)
    missed = [1.0 if p <= 0 else 0.0 if p >= 1 else math.erfc((quantile(p) + mu) / math.sqrt(2)) / 2 for p in rates.ravel().tolist()]
    return np.asarray(missed, dtype=np.float64).reshape(rates.shape)


def _upper_envelope(a: Curve, pairs: list[tuple[float, float]]) -> Curve:
    import numpy as np

    return np.asarray(np.max([_lines(a, epsilon, delta) for epsilon, delta in pairs], axis=0), dtype=np.float64)


# ----------------------------------------------------------------------------------------------------------------- parts


def worst(guarantees: Sequence[Guarantee]) -> Guarantee:
    """What holds for everybody when each of ``guarantees`` holds for those in one of several disjoint parts: a statement that all of them
    imply, so a bound on the pointwise greatest privacy profile.

    Equal kinds: the largest number of each. Pure beside approx: approx, at the larger epsilon and delta (a Gaussian part has no finite
    epsilon at delta 0). Pure beside Gaussian DP or zCDP: as the mu or rho that epsilon-DP implies. Gaussian DP beside zCDP: rho, mu^2/2.
    Gaussian DP or zCDP beside approx: approx, at that delta. ``mu`` and ``rho`` are kept where every part has them.
    """
    found = list(guarantees)
    if not found:
        raise ValueError("no part, no guarantee")
    if len(found) == 1:
        return found[0]
    kinds = {g.kind for g in found}
    if "approx" in kinds:
        delta = max(g.delta or 0.0 for g in found if g.kind == "approx")
        at = [_epsilon_at(g, delta) for g in found]
        return Guarantee("approx", epsilon=max(at), delta=delta, rho=_largest(g.rho for g in found), mu=_largest(g.mu for g in found))
    if kinds == {"pure"}:
        return Guarantee("pure", epsilon=_largest(g.epsilon for g in found), delta=0.0)
    deltas = {g.delta for g in found if g.kind != "pure"}
    (delta_,) = deltas if len(deltas) == 1 else (None,)
    if "zcdp" in kinds:
        rho = max(_rho(g) for g in found)
        epsilon = zcdp_epsilon(rho, delta_) if delta_ else None
        return Guarantee("zcdp", epsilon=epsilon, delta=delta_ or None, rho=rho)
    mu = max(_mu(g) for g in found)
    return Guarantee("gdp", epsilon=gaussian.epsilon_of(mu, delta_) if delta_ else None, delta=delta_ or None, mu=mu)


def _largest(values: Iterable[float | None]) -> float | None:
    """The largest, None where one is missing."""
    found = list(values)
    return None if any(v is None for v in found) else max(v for v in found if v is not None)


def _needed(value: float | None, kind: str, word: str) -> float:
    if value is None:
        raise ValueError(f"a guarantee of kind {kind} states {word}")
    return value


def _epsilon_at(g: Guarantee, delta: float) -> float:
    if g.kind in ("pure", "approx"):
        return _needed(g.epsilon, g.kind, "epsilon")  # at its own delta, which is at most this one
    if g.kind == "gdp":
        return gaussian.epsilon_of(_needed(g.mu, "gdp", "mu"), delta)
    return zcdp_epsilon(_needed(g.rho, "zcdp", "rho"), delta)


def _rho(g: Guarantee) -> float:
    if g.kind == "zcdp":
        return _needed(g.rho, "zcdp", "rho")
    if g.kind == "gdp":
        return gdp_to_zcdp(Gdp(_needed(g.mu, "gdp", "mu"))).rho
    return pure_to_zcdp(Pure(_needed(g.epsilon, "pure", "epsilon"))).rho


def _mu(g: Guarantee) -> float:
    return _needed(g.mu, "gdp", "mu") if g.kind == "gdp" else pure_to_gdp(Pure(_needed(g.epsilon, "pure", "epsilon"))).mu


# ---------------------------------------------------------------------------------------------------------------- groups


def group(guarantee: Pure | Approx | Zcdp | Gdp, size: int) -> Pure | Approx | Zcdp | Gdp:
    """The guarantee for data sets that differ in ``size`` records (k), rounded up.

    Pure: k*epsilon. Approx: (k*epsilon, delta*(e^(k epsilon) - 1)/(e^epsilon - 1)) (Vadhan 2017, Lemma 2.2). zCDP: k^2*rho (Bun, Steinke
    2016, Proposition 1.9). GDP: k*mu (Dong, Roth, Su 2022, Theorem 2.14). With k the number of records of one user this is user-level
    privacy of a record-level guarantee; with k = 2 it is replace-one from add-remove (one record out, one in).
    """
    if size < 1:
        raise ValueError(f"a group has at least one record, got {size}")
    k = Fraction(size)
    match guarantee:
        case Pure(epsilon=epsilon):
            return Pure(float_up(k * exact(epsilon)))
        case Zcdp(rho=rho):
            return Zcdp(float_up(k**2 * exact(rho)))
        case Gdp(mu=mu):
            return Gdp(float_up(k * exact(mu)))
        case Approx(epsilon=epsilon, delta=delta):
            with gaussian._precision(128) as flint:
                e = flint.arb(epsilon)
                factor = (size * e).expm1() / e.expm1() if epsilon > 0 else flint.arb(size)
                return Approx(float_up(k * exact(epsilon)), min(1.0, gaussian._upper(flint, flint.arb(delta) * factor)))


def replace_one_from_add_remove(guarantee: Pure | Approx | Zcdp | Gdp) -> Pure | Approx | Zcdp | Gdp:
    """Replacing a record is removing one and adding one: a group of two. The other direction has no general rule, because a
    replace-one guarantee says nothing about data sets of different size."""
    return group(guarantee, 2)


def user_level(guarantee: Pure | Approx | Zcdp | Gdp, records: int) -> str:
    """The guarantee for one user with up to ``records`` records, in words."""
    whole = group(guarantee, records)
    match whole:
        case Pure(epsilon=e):
            stated = f"epsilon {e:.4g}"
        case Approx(epsilon=e, delta=d):
            stated = f"epsilon {e:.4g}, delta {d:.2g}"
        case Zcdp(rho=r):
            stated = f"rho {r:.4g} (zCDP)"
        case Gdp(mu=m):
            stated = f"mu {m:.4g} (Gaussian DP)"
    plural = "record" if records == 1 else "records"
    return f"for a user with up to {records} {plural}: {stated}"
