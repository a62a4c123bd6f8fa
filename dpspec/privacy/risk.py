"""What a guarantee means for one person: the best attacker against it, from the trade-off curve.

The attacker knows everything but whether the person's record is x or x', and decides from the output. Among all attacks with
false-positive rate a, none has a true-positive rate above 1 - f(a), where f is the trade-off curve (Wasserman, Zhou 2010; Dong, Roth, Su
2022). The advantage is the largest difference of the two rates over all attacks, max over a of 1 - f(a) - a. Rates are rounded up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpspec.privacy import gaussian
from dpspec.privacy.guarantees import Approx, Gdp, Guarantee, Pure, Zcdp, trade_off

_RATES = (0.001, 0.01)


@dataclass(frozen=True, slots=True)
class Risk:
    """``detection[a]``: the largest true-positive rate at false-positive rate a; ``advantage``: the largest TPR - FPR."""

    detection: dict[float, float]
    advantage: float


def risk(guarantee: Pure | Approx | Zcdp | Gdp) -> Risk:
    """The best attacker's rates at 0.1 % and 1 % false positives and the advantage."""
    curve = trade_off(guarantee)
    detection = {a: min(1.0, _up(1.0 - float(curve(a)))) for a in _RATES}
    return Risk(detection, min(1.0, _up(advantage(guarantee))))


def _up(value: float) -> float:
    """Covers the rounding of a handful of double operations."""
    return value * (1 + 1e-12) + 1e-15


def advantage(guarantee: Pure | Approx | Zcdp | Gdp) -> float:
    """The total-variation distance that the guarantee permits.

    Pure and approx: (e^eps - 1 + 2 delta)/(e^eps + 1) (Kairouz et al. 2015); GDP: 2 Phi(mu/2) - 1 = delta(0; mu); zCDP: the least over
    its conversions, and Pinsker's sqrt(rho/2).
    """
    match guarantee:
        case Pure(epsilon=epsilon):
            return math.tanh(epsilon / 2)
        case Approx(epsilon=epsilon, delta=delta):
            return math.tanh(epsilon / 2) + 2 * delta / (1 + math.exp(min(epsilon, 700.0)))
        case Gdp(mu=mu):
            return gaussian.delta_upper(0, mu) if mu > 0 else 0.0
        case Zcdp(rho=rho):
            from dpspec.privacy.guarantees import zcdp_epsilon

            conversions = (Approx(zcdp_epsilon(rho, d), d) for d in (10 ** (-k / 5) for k in range(1, 41)))
            return min(math.sqrt(rho / 2), min(advantage(one) for one in conversions), 1.0)


def strongest(guarantee: Guarantee) -> Pure | Approx | Zcdp | Gdp:
    """The statement with the lowest curve that a printed guarantee carries: GDP when mu is known, else by kind."""
    if guarantee.mu is not None:
        return Gdp(guarantee.mu)
    if guarantee.kind == "zcdp" and guarantee.rho is not None:
        return Zcdp(guarantee.rho)
    if guarantee.epsilon is None:
        raise ValueError("a guarantee without epsilon, rho or mu says nothing")
    return Approx(guarantee.epsilon, guarantee.delta) if guarantee.delta else Pure(guarantee.epsilon)


def sentences(guarantee: Guarantee, *, model: str = "central", protects: str = "records", unit: str = "person") -> tuple[str, ...]:
    """Two sentences for a plan, about what the guarantee hides and no more.

    Who is in the data is hidden in the central model where whole records are protected. In a local model every user sends a report, and
    where labels or attributes alone are protected the rest of a record may be published: there an attacker guesses the record, the label
    or the attribute, and finding a member takes no attack.
    """
    found = risk(strongest(guarantee))
    low, high = (found.detection[a] for a in _RATES)
    if model != "central" or protects != "records":
        whom = f"recognises a suspected {protects.removesuffix('s')}"
    else:
        whom = "finds a member" if unit.strip().casefold() == "person" else f"finds the record of one {unit.strip()}"
    return (
        f"an attacker who accepts 1% false alarms {whom} with at most {_percent(high)}; with 0.1% false alarms, {_percent(low)}",
        f"over a blind guess, no attacker gains more than {_percent(found.advantage)} (detections minus false alarms)",
    )


def _percent(share: float) -> str:
    """Rounded up to two significant digits (three above 10 %)."""
    value = 100 * share
    if value >= 99.95:
        return "100%"
    digits = 1 if value >= 1 else 2
    scale = 10.0**digits
    return f"{math.ceil(value * scale - 1e-9) / scale:.{digits}f}%"
