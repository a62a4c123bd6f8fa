"""The inside of a sampler as one mechanism, rates, and amplification by a guarantee alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dpspec.audit.component import Breach, Component, Context, Missing, assuming
from dpspec.audit.event import Event, nodes
from dpspec.audit.events import inner
from dpspec.audit.pairs import LaplacePair, approximate, randomized_response


@dataclass(frozen=True, slots=True)
class Body:
    """The inside of a sampler as one mechanism: a Gaussian shift, one Laplace release, or (epsilon, delta)."""

    mu: float | None
    laplace: float | None
    pure: float
    slack: float
    gaussian_below: bool
    assumes: tuple[str, ...] = ()
    breach: Breach | None = None


def body_of(event: Event, context: Context, times: int = 1) -> Body | list[Component]:
    """``times``: uses of one subset."""
    found = [replace(c, count=c.count * times) for c in inner(event, replace(context, sampled=True))]
    if any(c.unknown for c in found):
        return [replace(c, under=None, pure_at_least=0.0, rho_at_least=0.0, breach=None, mu=None) for c in found]
    if any(c.breach is not None and c.breach.delta == 0 for c in found):
        return [Component(event.what, unknown=f"{event.what}: amplification of a step that is not private at any epsilon is not modelled")]
    for e in nodes(event.inner):
        if (e.number("contributions") or 1.0) > 1:
            why = f"{event.what}: the records of one unit are drawn one by one, so a unit is sampled more often than a record"
            return [Component(event.what, unknown=why, how="DP629")]
    assumes = tuple(dict.fromkeys(c.assumes for c in found if c.assumes))
    breach = max((c.breach for c in found if c.breach is not None), key=lambda b: b.delta, default=None)
    if breach is None and all(c.mu is not None for c in found):
        mu = math.sqrt(sum((c.mu or 0.0) ** 2 * c.count for c in found))
        return Body(mu, None, math.inf, 0.0, all(c.under is not None for c in found), assumes)
    one = found[0] if len(found) == 1 and found[0].count == 1 else None
    laplace = one.over.epsilon if one is not None and isinstance(one.over, LaplacePair) and one.slack == 0 else None
    laplace = laplace if breach is None else None
    return Body(None, laplace, sum(c.pure * c.count for c in found), sum(c.slack * c.count for c in found), False, assumes, breach)


def on_sample(found: Component, body: Body, rate: float) -> list[Component]:
    """What is impossible without the record happens as often as the record is drawn."""
    breach = None if body.breach is None or rate == 0 else replace(body.breach, delta=rate * body.breach.delta)
    return assuming([replace(found, breach=breach)], *body.assumes)


def log_mean_exp(epsilon: float, rate: float) -> float:
    """ln(1 + rate (exp(epsilon) - 1))."""
    return math.log1p(rate * math.expm1(epsilon)) if epsilon < 700 else epsilon + math.log(rate)


def amplified(what: str, body: Body, rate: float, epsilon: float | None = None) -> Component:
    """A sampled step by its guarantee alone; ``epsilon``: what amplification leaves of it, ln(1 + q (exp(eps) - 1)) unless given."""
    if not math.isfinite(body.pure):
        return Component(what, unknown=f"{what}: amplification of a mixed step without an (epsilon, delta) form is not modelled")
    epsilon = log_mean_exp(body.pure, rate) if epsilon is None else epsilon
    slack = rate * body.slack
    over = approximate(epsilon, slack) if slack else randomized_response(epsilon)
    return Component(what, pure=epsilon, slack=slack, rho=epsilon**2 / 2 if slack == 0 else math.inf, over=over if epsilon < 500 else None)


def rates(event: Event) -> dict[str, float]:
    """The sampling rate by each way that it is stated."""
    rate, size, n = event.number("rate"), event.number("size"), event.number("n")
    found = {} if rate is None else {"rate": rate}
    if size is not None and n is not None:
        found["size/n"] = size / n
    elif size is not None or (n is not None and rate is None):
        raise Missing("n" if n is None else "rate (or size)")
    if not found:
        raise Missing("rate (or size and n)")
    return found


def rate_of(event: Event) -> float:
    rate = max(rates(event).values())
    if not 0 <= rate <= 1:
        raise Missing("a rate between 0 and 1")
    return rate
