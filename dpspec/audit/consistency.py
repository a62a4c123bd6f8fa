"""What a description says twice, and differently: of two such numbers the worse is used, and no verdict rests on either.

Two statements agree when they differ by no more than rounding (:data:`dpspec.audit.verdict.TOLERANCE`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from dpspec.audit.component import Context
from dpspec.audit.deployment import ChannelSpec, Deployment
from dpspec.audit.event import Event, nodes
from dpspec.audit.events import stated as stated_by
from dpspec.audit.verdict import TOLERANCE
from dpspec.audit.words import NEIGHBOURS, REPLACING
from dpspec.spec.diagnostics import Diagnostic

_SENSITIVITIES = ("l1_sensitivity", "l2_sensitivity", "linf_sensitivity", "score_sensitivity", "sensitivity")


def disagreements(deployment: Deployment) -> list[Diagnostic]:
    """One DP603 for each pair of statements that contradict each other: about an event, the channel, n or the unit."""
    found = [text for event in nodes(deployment.events) for text in _event(event, deployment)]
    if deployment.channel is not None:
        found += _channel(deployment.channel)
        found += [text for part in deployment.channel.fields.get("channels", ()) for text in _channel(part)]
    claim, setting = deployment.claim, deployment.setting
    if claim.unit and setting.unit and claim.unit.lower() != setting.unit.lower():
        found.append(f"the claim is about one {claim.unit}, the setting about one {setting.unit}")
    help = "state one of them, or mend the one that is wrong; the worse is used here"
    return [Diagnostic("DP603", "error", text, help) for text in dict.fromkeys(found)]


def _event(event: Event, deployment: Deployment) -> Iterator[str]:
    relation = deployment.setting.neighbouring
    stated = {word: x for word in _SENSITIVITIES if (x := event.number(word)) is not None}
    yield from _differ(event, "sensitivity", stated)
    bounds = {word: x for word in ("clip_norm", "norm_bound") if (x := event.number(word)) is not None}
    yield from _differ(event, "norm bound", bounds)
    if stated and bounds and relation in NEIGHBOURS:
        # a bounded sum moves by the bound at least; more can be true of what is bounded in pieces
        least, where = max(bounds.values()) * (2 if relation in REPLACING else 1), f"under {relation}"
        if min(stated.values()) < least * (1 - TOLERANCE):
            word, bound = min(stated, key=lambda w: stated[w]), max(bounds, key=lambda w: bounds[w])
            yield (
                f"{event.what}: {word} {stated[word]:g} is stated, and {bound} {bounds[bound]:g} makes it {least:g} {where}: "
                "a bound on the vectors of a sum, beside the sensitivity of something else"
            )
    for title, numbers in stated_by(event, Context(relation)).items():
        yield from _differ(event, title, numbers)
    size, n = event.number("size"), event.number("n")
    if size is not None and n is not None and size > n:
        yield f"{event.what}: size {size:g} is more than n {n:g}"
    whole = deployment.setting.n
    if event.kind in ("fixed_sampled", "laplace_mean") and n is not None and whole is not None and not deployment.setting.events_unit:
        yield from _differ(event, "number of records", {"n of the event": n, "n of the setting": whole})
    yield from _keys(event, relation)
    parts, mine = event.number("parts"), event.number("parts_per_unit")
    if parts is not None and mine is not None and mine > parts:
        yield f"{event.what}: a unit lies in {mine:g} parts of {parts:g}"


def _keys(event: Event, relation: str) -> Iterator[str]:
    """The keys of one unit with their counts against the sensitivity; a replaced unit leaves its keys and enters as many others."""
    keys, first, private = event.number("keys"), event.number("first_count"), event.kind.endswith("_threshold")
    replaced = 2.0 if private and relation in REPLACING else 1.0
    if first is None and replaced == 1:
        return
    for word, power in (("l1_sensitivity", 1.0), ("l2_sensitivity", 2.0)):
        top = event.number(word) if private or power == 1 else None
        moved = (first or 1.0) * ((keys or 1.0) * replaced) ** (1 / power)
        if top is not None and top > 0 and moved > top * (1 + TOLERANCE):
            others = ", and a replaced unit enters as many others" if replaced > 1 else ""
            counts = f"{keys or 1:g} keys with a count of {first or 1:g}{others}"
            yield f"{event.what}: {counts} move counts by {moved:.6g}, {word} is {top:g}"


def _differ(event: Event, what: str, values: Mapping[str, float]) -> Iterator[str]:
    low, high = min(values.values(), default=0.0), max(values.values(), default=0.0)
    if low != high and not high - low <= 2 * TOLERANCE * high:
        told = " and ".join(f"{value:.6g} by {word}" for word, value in values.items())
        yield f"{event.what}: two statements of its {what} differ, {told}"


def _channel(channel: ChannelSpec) -> Iterator[str]:
    epsilon = channel.number("epsilon")
    if epsilon is None:
        return
    other: dict[str, float] = {}
    keep, include, scale = channel.number("keep"), channel.number("include"), channel.number("scale")
    values = channel.number("categories", "buckets") or 2.0
    if keep is not None:
        other["keep"] = abs(math.log(keep / (1 - keep) * (values - 1))) if 0 < keep < 1 else math.inf
    if include is not None:
        size = channel.number("size") or 1.0
        other["include"] = (
            abs(math.log(include / (1 - include) * (values - size) / size)) if 0 < include < 1 and size < values else math.inf
        )
    if scale is not None:
        width = channel.number("range") or 0.0
        other["scale"] = 0.0 if width == 0 else math.inf if scale == 0 else width / scale
    yield from _differ(Event(channel.kind), "epsilon", {"epsilon": epsilon, **other})
