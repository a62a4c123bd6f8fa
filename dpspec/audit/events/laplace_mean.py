"""A sum divided by the number of records, plus Laplace noise scaled by that number."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dpspec.audit.component import Breach, Component, Context, Missing, assuming, laplace_release
from dpspec.audit.conversions import laplace_cdf
from dpspec.audit.event import Event
from dpspec.audit.events._additive import ratio
from dpspec.audit.kinds import Kind
from dpspec.audit.pairs import Array, cells
from dpspec.audit.words import REPLACING

KIND = Kind(
    "sum divided by the number of records, plus Laplace noise scaled by that number",
    ("range", "n", "n_public", "epsilon", "scale"),
    (("range",), ("n",), ("epsilon", "scale")),
    aliases=(),
    attained="n zeros, and one of them at the bound (or, where n is private, one record more at the bound)",
)
EXAMPLE = {"type": "laplace_mean", "range": 2, "n": 100, "scale": 0.02}
RELATION = "replace_one"


def model(event: Event, context: Context) -> list[Component]:
    n, width = event.number("n") or 0.0, event.number("range") or 0.0
    losses = mean_losses(event)
    private = event.fields.get("n_public") is False and not context.replacing and context.neighbouring != "zero_out"
    if not private:
        found = [laplace_release(event.what, max(losses.values()))]
        open_ = event.fields.get("n_public") is None and context.neighbouring != "zero_out" and context.neighbouring not in REPLACING
        return assuming(found, "the number of records is public, and the same for neighbours (n_public)") if open_ else found
    loss = max(losses.values())
    if loss == 0 or math.isinf(loss) or width == 0:
        return [laplace_release(event.what, loss if width > 0 else 0.0)]
    scale = width / n / loss
    # n zeros against n zeros and one record at the bound: centre and scale both move
    other_scale, other = scale * n / (n + 1), width / (n + 1)
    span = 60 * scale

    def p_cdf(x: Array) -> Array:
        return laplace_cdf(x, scale)

    def q_cdf(x: Array) -> Array:
        return laplace_cdf(x - other, other_scale)

    pair = cells(p_cdf, q_cdf, -span, span, 40001)
    why = f"{event.what}: the scale itself depends on the private number of records; the log-ratio grows linearly in the output"
    # delta 0: no finite epsilon. At delta > 0 the pair itself decides (delta_at)
    return [Component(event.what, pure_at_least=math.inf, under=pair, breach=Breach("DP623", 0.0, why))]


def mean_losses(event: Event) -> dict[str, float]:
    """epsilon of a mean over a public number of records by each word that states its noise."""
    n, width = event.number("n"), event.number("range") or 0.0
    if n is None or n < 1:
        raise Missing("n")
    scale, epsilon = event.number("scale"), event.number("epsilon")
    found = {} if epsilon is None else {"epsilon": epsilon}
    if scale is not None:
        found["scale"] = ratio(width / n, scale)
    if not found:
        raise Missing("scale")
    return found


def stated(event: Event, context: Context) -> Mapping[str, Mapping[str, float]]:
    return {"noise (as epsilon)": mean_losses(event)}


def on_relation(event: Event) -> bool:
    return event.fields.get("n_public") is False
