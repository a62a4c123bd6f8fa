"""A fresh subset of fixed size without replacement."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dpspec.audit.component import NOTHING, Component, Context
from dpspec.audit.event import Event
from dpspec.audit.events import inner
from dpspec.audit.events._sampling import Body, amplified, body_of, on_sample, rate_of, rates
from dpspec.audit.kinds import BODY, Kind
from dpspec.audit.pairs import GaussianPair, Joined, Pair, Reversed, Subsampled, SubsampledReplace, cells

KIND = Kind(
    "a fresh subset of fixed size without replacement",
    (*BODY, "rate", "size", "n"),
    (BODY, ("rate", "size")),
    aliases=("sampled_without_replacement", "fixed_size_sampled", "sampled_fixed"),
    attained="a record that adds the bound against its opposite, or against nothing among records at the opposite bound",
)
EXAMPLE = {"type": "fixed_sampled", "size": 10, "n": 100, "count": 3, "event": {"type": "gaussian", "l2_sensitivity": 1, "sigma": 2}}
RELATION = "replace_one"


def model(event: Event, context: Context) -> list[Component]:
    rate = rate_of(event)
    if rate == 1:
        return inner(event, context)
    body = body_of(event, context)
    if isinstance(body, list):
        return body
    return on_sample(_fixed(event, context, body, rate), body, rate)


def _fixed(event: Event, context: Context, body: Body, rate: float) -> Component:
    what, replacing = event.what, context.replacing
    if context.neighbouring == "add_remove":
        return Component(what, unknown=f"{what}: a subset of fixed size reveals the number of records; state replace_one or zero_out")
    if rate == 0 or body.mu == 0 or body.pure == body.slack == 0:
        return NOTHING
    if body.mu is not None:
        if replacing:
            # Zhu, Dong, Wang 2022: (1-q) Q + q P against Q dominates, P and Q being replace-one neighbours
            over: Pair = _without_replacement(body.mu, rate)
            under: Pair = SubsampledReplace(body.mu / 2, rate)
        else:
            # a subset without the record holds another one in its place: replacing distance 2C above; below, all others at -C
            over = _without_replacement(2 * body.mu, rate)
            mu, q = body.mu, rate

            def mixed(shift: float) -> Any:
                from scipy.special import ndtr

                return lambda x: (1 - q) * ndtr(x) + q * ndtr(x - shift)

            under = cells(mixed(2 * mu), mixed(mu), -12.0, 12.0 + 2 * mu)
        return Component(
            what, pure_at_least=math.inf if body.gaussian_below else 0.0, over=over, under=under if body.gaussian_below else None
        )
    if replacing or body.slack > 0:
        if not replacing:
            return Component(what, unknown=f"{what}: a subset that leaves a record out holds another; state replace_one, or a pure step")
        return amplified(what, body, rate)
    # zero-out: the step that takes another record in its place lies within exp(eps) of that of the zeroed one, hence at least exp(-eps)
    top = body.pure + math.log1p((1 - rate) / rate * math.exp(-2 * body.pure)) - math.log1p((1 - rate) / rate * math.exp(-body.pure))
    return amplified(what, body, rate, min(top, body.pure))


def _without_replacement(mu: float, rate: float) -> Joined:
    one = Subsampled(GaussianPair(mu), rate)
    return Joined(one, Reversed(one))


def stated(event: Event, context: Context) -> Mapping[str, Mapping[str, float]]:
    return {"rate": rates(event)}


def on_relation(event: Event) -> bool:
    return True
