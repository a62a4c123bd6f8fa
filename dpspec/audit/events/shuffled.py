"""Fixed batches of one random permutation."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dpspec.audit.component import NOTHING, Component, Context, Family, assuming, event_pairs
from dpspec.audit.event import Event
from dpspec.audit.events import inner
from dpspec.audit.events._sampling import Body, body_of
from dpspec.audit.kinds import BODY, Kind
from dpspec.audit.pairs import GaussianPair

KIND = Kind(
    "fixed batches of one random permutation",
    (*BODY, "batches", "epochs"),
    (BODY, ("batches",)),
    aliases=("shuffle", "shuffled_batches"),
    attained="the batch of the record among batches at the opposite bound, by the largest of the noisy sums",
)
EXAMPLE = {"type": "shuffled", "batches": 10, "epochs": 2, "event": {"type": "gaussian", "l2_sensitivity": 1, "sigma": 2}}
RELATION = "zero_out"


def model(event: Event, context: Context) -> list[Component]:
    body = body_of(event, context)
    if isinstance(body, list):
        return body
    batches, epochs = int(event.number("batches") or 1), int(event.number("epochs") or 1)
    if context.neighbouring == "add_remove":
        return [_shuffled_without(event, body, batches, epochs)]
    if body.mu is None:
        found = inner(event, replace(context, sampled=True))
        return [
            replace(c, count=c.count * epochs, under=None, pure_at_least=0.0, how="every record meets one batch an epoch") for c in found
        ]
    if body.mu == 0:
        return [NOTHING]
    # above: every record lies in one batch an epoch, so an epoch is one Gaussian release for it. Below: all other gradients at -C;
    # the special batch is shifted by mu_plus under one data set and by mu_rest under its neighbour; the event is max > cut
    if context.replacing:
        plus, rest = body.mu, 0.0
    else:
        plus, rest = 2 * body.mu, body.mu
    cuts = np.linspace(0.0, plus + 9.0, 181)
    pairs = event_pairs(shuffle_event(plus, rest, batches, float(c)) for c in cuts)
    over = GaussianPair(body.mu)
    under = Family(pairs) if body.gaussian_below else None
    low = 0.0 if under is None else math.inf
    found = [Component(event.what, epochs, pure_at_least=low, rho=body.mu**2 / 2, over=over, under=under, how="DP615")]
    return assuming(found, *body.assumes)


def _shuffled_without(event: Event, body: Body, batches: int, epochs: int) -> Component:
    """A record removed: the batches behind it fill up from one another, and the last one is shorter. No bound is known from above.

    Below, all other gradients at -C and the record at C: unless it lies in the last batch, that of the record is 2C above all others.
    The event is that one of the other batches exceeds a cut. With one batch the record is simply missing from it.
    """
    why = f"{event.what}: without a record all later batches of a permutation shift; state replace_one or zero_out"
    found = Component(event.what, epochs, unknown=why, how="DP615")
    if body.mu is None or body.mu == 0 or not body.gaussian_below:
        return found
    if batches == 1:
        return replace(found, under=GaussianPair(body.mu))
    share, plus = 1 - 1 / batches, 2 * body.mu

    def chance(cut: float) -> tuple[float, float]:
        with_it, without = shuffle_event(plus, 0.0, batches - 1, cut)
        return share * with_it + (1 - share) * without, without

    return replace(found, under=Family(event_pairs(chance(float(c)) for c in np.linspace(0.0, plus + 9.0, 181))))


def shuffle_event(shift: float, rest: float, batches: int, cut: float) -> tuple[float, float]:
    """P(largest batch sum > cut) when one of ``batches`` unit Gaussians is shifted by ``shift``, and by ``rest``."""
    from scipy.special import log_ndtr

    def chance(s: float) -> float:
        return -math.expm1((batches - 1) * float(log_ndtr(cut)) + float(log_ndtr(cut - s)))

    return chance(shift), chance(rest)


def on_relation(event: Event) -> bool:
    return True
