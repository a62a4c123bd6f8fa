"""Propose a bound of the local sensitivity, test privately how far the data are from breaking it, release with that noise if far."""

from __future__ import annotations

import math
from dataclasses import replace

from dpspec.audit.component import Component, Context, Missing, unattained
from dpspec.audit.event import Event
from dpspec.audit.events import inner
from dpspec.audit.kinds import BODY, Kind
from dpspec.audit.pairs import approximate

KIND = Kind(
    "a noisy distance to data of larger local sensitivity, and a release where it is above a threshold (propose-test-release)",
    (*BODY, "epsilon", "threshold"),
    (BODY, ("epsilon",), ("threshold",)),
    aliases=("ptr",),
)
EXAMPLE = {
    "type": "propose_test_release",
    "epsilon": 1,
    "threshold": 14,
    "event": {"type": "laplace", "l1_sensitivity": 1, "scale": 2},
}
RELATION = "replace_one"


def model(event: Event, context: Context) -> list[Component]:
    """``epsilon``: of Laplace noise 1/epsilon on the distance, which moves by one with a record. ``event``: the release, with the proposed
    bound as its sensitivity. The noisy distance is an epsilon step. Where the distance is at least 1 the local sensitivity is at most the
    bound, so that the release is what it says; where it is 0 the release happens with probability exp(-epsilon threshold)/2 at most (Dwork,
    Lei 2009; Dwork, Roth 2014, section 7.2)."""
    epsilon, threshold = event.number("epsilon") or 0.0, event.number("threshold")
    if threshold is None:
        raise Missing("threshold")
    if epsilon == 0 or threshold < 0:
        fails = 1.0
    else:
        fails = math.exp(-epsilon * threshold) / 2
    if fails >= 0.5:
        why = f"{event.what}: with this threshold data of any local sensitivity pass as often as not"
        return [Component(event.what, unknown=why, how="DP673")]
    test = Component(event.what, pure=epsilon, slack=fails, over=approximate(epsilon, fails) if epsilon < 500 else None)
    return [test, *(replace(unattained(c), what=f"{event.what}: {c.what}") for c in inner(event, context))]
