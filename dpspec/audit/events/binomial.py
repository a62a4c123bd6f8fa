"""Binomial noise on an integer: fair or biased coins, as it adds up under secure aggregation (cpSGD)."""

from __future__ import annotations

import numpy as np

from dpspec.audit.component import Breach, Component, Context
from dpspec.audit.event import Event
from dpspec.audit.events._integers import alone, moved, whole
from dpspec.audit.kinds import L1, Kind

KIND = Kind(
    "binomial noise on one integer",
    (*L1, "trials", "p", "dimension"),
    (("trials",),),
    aliases=("binomial_mechanism", "cpsgd"),
    attained="two integers the sensitivity apart",
)
EXAMPLE = {"type": "binomial", "l1_sensitivity": 1, "trials": 1000, "dimension": 1}
RELATION = "add_remove"
_MOST = 100_000_000


def model(event: Event, context: Context) -> list[Component]:
    """Binomial(trials, p), with p = 1/2 when it is not stated (Dwork et al. 2006, "Our data, ourselves"; Agarwal et al. 2018)."""
    top, trials, p = whole(event, context), int(event.number("trials") or 0), event.number("p")
    if isinstance(top, Component):
        return alone(event, top)
    if trials > _MOST:
        return [Component(event.what, unknown=f"{event.what}: more than {_MOST} coins have no model", how="DP673")]
    bias = 0.5 if p is None else p
    if bias in (0.0, 1.0):
        return [Component(event.what, breach=Breach("DP620", 1.0, f"{event.what}: no noise for a positive sensitivity"))]
    mass, beyond, ends = law(trials, bias)
    return alone(event, moved(event.what, mass, top, beyond, ends=ends))


def law(trials: int, p: float) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], float, bool]:
    """Masses on successive integers, what lies beyond them on a side at most, and whether nothing does."""
    from scipy.stats import binom

    if trials <= 5000:
        return np.asarray(binom.pmf(np.arange(trials + 1), trials, p), dtype=float), 0.0, True
    low, high = int(binom.ppf(1e-18, trials, p)), int(binom.isf(1e-18, trials, p))
    low, high = max(0, low - 2), min(trials, high + 2)
    mass = np.asarray(binom.pmf(np.arange(low, high + 1), trials, p), dtype=float)
    return mass, 4e-18, False
