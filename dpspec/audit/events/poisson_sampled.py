"""A fresh Poisson subset at every use, or one for all uses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from dpspec.audit.component import NOTHING, Component, Context
from dpspec.audit.event import Event
from dpspec.audit.events import inner
from dpspec.audit.events._additive import norm_bounded
from dpspec.audit.events._common import grouped
from dpspec.audit.events._sampling import Body, amplified, body_of, log_mean_exp, on_sample, rate_of, rates
from dpspec.audit.events._users import of_users, records_of
from dpspec.audit.kinds import BODY, Kind
from dpspec.audit.pairs import GaussianPair, LaplacePair, Pair, Seen, Subsampled, SubsampledReplace, randomized_response

KIND = Kind(
    "a fresh Poisson subset at every use, or one for all uses",
    (*BODY, "rate", "once"),
    (BODY, ("rate",)),
    aliases=("poisson",),
    contributions=True,
    attained="a record that adds the sensitivity to a sum of nothing (replace: its opposite, or nothing, in its place)",
)
EXAMPLE = {"type": "poisson_sampled", "rate": 0.1, "count": 3, "event": {"type": "gaussian", "l2_sensitivity": 1, "sigma": 2}}
RELATION = "add_remove"


def model(event: Event, context: Context) -> list[Component]:
    rate, times = rate_of(event), event.count if event.fields.get("once") is True else 1
    if rate == 1:
        group = event.number("contributions") or 1.0
        return [replace(grouped(c, group) if group > 1 else c, count=c.count * times) for c in inner(event, context)]
    found = records_of(event)
    if isinstance(found, str):
        return [Component(event.what, unknown=found, how="DP629")]
    records, single = found
    body = body_of(single, context, times)
    if isinstance(body, list):
        return body
    one = _poisson(single, context, body, rate)
    if records > 1 and rate > 0:
        opposite = context.replacing and all(norm_bounded(e) for e in single.inner)
        one = of_users(one, body.mu, records, rate, context, opposite, body.gaussian_below)
    return on_sample(one, body, rate)


def _poisson(event: Event, context: Context, body: Body, rate: float) -> Component:
    if rate == 0 or body.mu == 0 or body.pure == body.slack == 0:
        return NOTHING
    what, replacing = event.what, context.replacing
    opposite = replacing and all(norm_bounded(e) for e in event.inner)
    if body.mu is not None:
        over: Pair
        if replacing and not opposite:
            # a record adds x or x', any two values the sensitivity apart: far from 0 its presence shows, and amplification is lost. Below:
            # one that adds nothing against one that adds the sensitivity
            over, below = Seen(GaussianPair(body.mu), rate), Subsampled(GaussianPair(body.mu), rate)
            return Component(what, pure_at_least=math.inf, rho=body.mu**2 / 2, over=over, under=below if body.gaussian_below else None)
        over = SubsampledReplace(body.mu / 2, rate) if replacing else Subsampled(GaussianPair(body.mu), rate)
        return Component(what, pure_at_least=math.inf, rho_at_least=0.0, over=over, under=over if body.gaussian_below else None)
    if not replacing:
        if body.laplace is not None and body.laplace < 500:
            pair = Subsampled(LaplacePair(body.laplace), rate)
            top = log_mean_exp(body.laplace, rate)
            return Component(what, pure=top, pure_at_least=top, rho=top**2 / 2, over=pair, under=pair)
        return amplified(what, body, rate)
    if opposite and body.slack == 0 and body.pure < 1400:
        # without the record the step is half as far away as the other record's is
        half = body.pure / 2
        return amplified(what, body, rate, math.log1p(rate * math.expm1(half)) - math.log1p(rate * math.expm1(-half)))
    found = amplified(what, body, rate, body.pure)
    if body.laplace is not None and body.laplace < 500:
        over, below = Seen(LaplacePair(body.laplace), rate), Subsampled(LaplacePair(body.laplace), rate)
        return replace(found, over=over, under=below, pure_at_least=log_mean_exp(body.laplace, rate))
    if body.slack == 0 and body.pure < 500 and math.isfinite(body.pure):
        return replace(found, over=Seen(randomized_response(body.pure), rate))
    return found


def stated(event: Event, context: Context) -> Mapping[str, Mapping[str, float]]:
    return {"rate": rates(event)}


def on_relation(event: Event) -> bool:
    return True


def uses(event: Event) -> int:
    return 1 if event.fields.get("once") is True else event.count
