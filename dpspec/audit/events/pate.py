"""PATE: the class with the most noisy votes of teachers, each trained on a part of the data."""

from __future__ import annotations

import math
from dataclasses import replace

from dpspec.audit.component import Breach, Component, Context, gaussian_release, laplace_release, unattained
from dpspec.audit.event import Event
from dpspec.audit.events.noisy_max import half_win
from dpspec.audit.kinds import Kind
from dpspec.audit.pairs import Atoms, GaussianPair, randomized_response

KIND = Kind(
    "labels by noisy votes of teachers, each of whom read a part of the data (PATE)",
    ("sigma", "scale", "queries", "threshold_sigma", "asked"),
    (("sigma", "scale"), ("queries",)),
    aliases=("gnmax", "lnmax", "confident_gnmax"),
    attained="a record whose teacher changes its vote between two classes that lead together",
)
EXAMPLE = {"type": "pate", "sigma": 40, "queries": 100, "threshold_sigma": 150, "asked": 400}
RELATION = "replace_one"


def model(event: Event, context: Context) -> list[Component]:
    """What holds for any votes: a record is in one teacher's part, so one vote moves, by sqrt(2) in l2 (Papernot et al. 2018, "Scalable
    private learning with PATE", Proposition 8). ``queries``: answered ones; ``threshold_sigma`` and ``asked``: of the test that lets one
    through, a count of its own. A bound that is computed from the votes is itself a function of the data: no description shows it, so none
    is certified."""
    queries, sigma, scale = int(event.number("queries") or 1), event.number("sigma"), event.number("scale")
    found = []
    if sigma is not None:
        found.append(_gaussian(event, sigma, queries))
    if scale is not None:
        found.append(_laplace(event, scale, queries))
    test = event.number("threshold_sigma")
    if test is not None:
        asked = int(event.number("asked") or queries)
        # only whether the noisy count passes is seen: the Gaussian bound from above, a comparison at the level from below
        passes = unattained(gaussian_release(f"{event.what}: test", 1 / test, max(asked, queries)))
        found.append(replace(passes, mu=None, over=GaussianPair(1 / test)))
    return found


def _gaussian(event: Event, sigma: float, queries: int) -> Component:
    if sigma == 0:
        return Component(event.what, breach=Breach("DP620", 1.0, f"{event.what}: no noise on the votes"))
    mu = math.sqrt(2) / sigma
    # two classes: the vote moves their difference, of deviation sqrt(2) sigma, from -1 to 1
    win = math.erfc(-1 / (2 * sigma)) / 2
    pair = Atoms((win, 1 - win), (1 - win, win))
    whole = gaussian_release(event.what, mu, queries)
    return replace(whole, mu=None, over=GaussianPair(mu), under=pair, pure_at_least=math.log(win / (1 - win)), rho_at_least=0.0)


def _laplace(event: Event, scale: float, queries: int) -> Component:
    if scale == 0:
        return Component(event.what, breach=Breach("DP620", 1.0, f"{event.what}: no noise on the votes"))
    epsilon = 2 / scale
    win = half_win(2, min(1 / scale, 12.0), "laplace")
    pair = Atoms((win, 1 - win), (1 - win, win))
    whole = laplace_release(event.what, epsilon, queries)
    over = randomized_response(epsilon) if epsilon < 500 else None
    return replace(whole, over=over, under=pair, pure_at_least=math.log(win / (1 - win)), rho=epsilon**2 / 2, rho_at_least=0.0)
