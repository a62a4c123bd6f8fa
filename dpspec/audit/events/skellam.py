"""Skellam noise on an integer: the difference of two Poisson variables, as it adds up under secure aggregation."""

from __future__ import annotations

import math

import numpy as np

from dpspec.audit.component import Breach, Component, Context
from dpspec.audit.event import Event
from dpspec.audit.events._integers import alone, moved, whole
from dpspec.audit.kinds import L1, Kind

KIND = Kind(
    "Skellam noise on one integer",
    (*L1, "variance", "sigma", "dimension"),
    (("variance", "sigma"),),
    aliases=("distributed_skellam",),
    attained="two integers the sensitivity apart",
)
EXAMPLE = {"type": "skellam", "l1_sensitivity": 1, "variance": 16, "dimension": 1}
RELATION = "add_remove"
_WIDEST = 20_000.0


def model(event: Event, context: Context) -> list[Component]:
    """P(x) = exp(-v) I_|x|(v) with variance v (Agarwal, Kairouz, Liu 2021). The logarithm of the law is
    concave, as those of the Poisson laws are."""
    top, variance = whole(event, context), _variance(event)
    if isinstance(top, Component):
        return alone(event, top)
    if variance == 0:
        why = f"{event.what}: no noise for a positive sensitivity"
        return [Component(event.what, breach=Breach("DP620", 1.0, why))]
    if math.sqrt(variance) > _WIDEST:
        return [Component(event.what, unknown=f"{event.what}: a deviation above {_WIDEST:g} has no model", how="DP673")]
    return alone(event, moved(event.what, law(variance), top, 1e-18, ends=False))


def law(variance: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Masses on the integers from -h to h; less than 1e-18 lies beyond on each side (Bernstein: exp(-h^2/(2 (v + h/3))))."""
    from scipy.special import ive

    half = math.ceil(42 / 3 + math.sqrt((42 / 3) ** 2 + 2 * 42 * variance)) + 1
    mass = np.asarray(ive(np.arange(half + 1, dtype=float), variance), dtype=float)
    return np.concatenate([mass[:0:-1], mass])


def _variance(event: Event) -> float:
    variance, sigma = event.number("variance"), event.number("sigma")
    found = [v for v in (variance, None if sigma is None else sigma**2) if v is not None]
    return min(found)
