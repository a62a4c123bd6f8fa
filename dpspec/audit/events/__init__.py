"""The event types of a deployment description, one file each, found by file name.

A file holds ``KIND`` (what it says, the fields that it reads, other names) and ``model(event, context)``: the components of one use, that
is the upper bound, the dominating pair, the lower bound and the pair of neighbours that attains it. Optional functions:

* ``uses(event)``: how many uses the components stand for; otherwise ``event.count``;
* ``stated(event, context)``: by title, the numbers that words of the event give for one and the same thing, by word;
* ``on_relation(event)``: whether the neighbouring relation decides about its numbers; otherwise it does where a norm bound stands for a
  sensitivity.

Files whose names begin with an underscore are shared by several types.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import ModuleType

from dpspec.audit.component import Component, Context, Missing, assuming
from dpspec.audit.event import Event
from dpspec.audit.events._common import flaw, shared
from dpspec.audit.kinds import Kind
from dpspec.audit.words import REPLACING


@cache
def _modules() -> Mapping[str, ModuleType]:
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
    return {name: importlib.import_module(f"{__name__}.{name}") for name in names}


@cache
def kinds() -> Mapping[str, Kind]:
    """The event types by name."""
    return {name: module.KIND for name, module in _modules().items()}


def components(event: Event, context: Context) -> list[Component]:
    """The components of one event, its ``count`` and contributions included."""
    draws = event.number("draws")
    if event.unread:
        why = f"{event.what}: {', '.join(event.unread)} is not understood"
        return [Component(event.what, unknown=why, how="DP673")]
    if draws is not None and draws < event.count:
        why = f"{event.count} uses are charged and {draws:g} noise drawn: composition needs fresh noise at every use"
        return [Component(event.what, unknown=why, how="DP633")]
    module = _modules().get(event.kind)
    if module is None:
        word = event.fields.get("type", event.kind)
        return [Component(str(word), unknown=f"no model for {word!r}", how="DP673")]
    if event.inner and event.fields.get("arithmetic") is not None:
        event = replace(event, inner=in_arithmetic(event.inner, str(event.fields["arithmetic"])))
    broken = flaw(event, module.KIND, context)
    if broken is not None:
        return [broken]
    try:
        found = module.model(event, context)
    except Missing as missing:
        return [Component(event.what, unknown=f"{event.what}: {missing} is not stated", how="DP605")]
    found = shared(found, event, module.KIND)
    if event.fields.get("monotone") is True and context.neighbouring in REPLACING:
        told = (
            f"a replaced record moves all scores of {event.what} in one direction, which counts, of which one falls and one rises, do not"
        )
        found = assuming(found, told)
    times = module.uses(event) if hasattr(module, "uses") else event.count
    return [replace(c, count=c.count * times) for c in found]


def in_arithmetic(events: Sequence[Event], arithmetic: str) -> tuple[Event, ...]:
    """The events with the program's arithmetic at every node that states none of its own."""
    return tuple(replace(e, fields={"arithmetic": arithmetic, **e.fields}, inner=in_arithmetic(e.inner, arithmetic)) for e in events)


def inner(event: Event, context: Context) -> list[Component]:
    """The components of the events inside."""
    if not event.inner:
        raise Missing("the event inside")
    return [c for e in event.inner for c in components(e, context)]


def stated(event: Event, context: Context) -> Mapping[str, Mapping[str, float]]:
    """What the words of an event give for one and the same thing; empty where something is missing, which its model says."""
    module = _modules().get(event.kind)
    try:
        return module.stated(event, context) if module is not None and hasattr(module, "stated") else {}
    except Missing:
        return {}


def depends_on_relation(events: Sequence[Event]) -> bool:
    """Whether the neighbouring relation decides about a sensitivity or an amplification of these events."""

    def alone(e: Event) -> bool:
        module = _modules().get(e.kind)
        if module is not None and hasattr(module, "on_relation"):
            return bool(module.on_relation(e))
        stated = e.number("l1_sensitivity", "l2_sensitivity", "sensitivity") is not None
        by_norm = e.number("clip_norm", "norm_bound") is not None or (e.kind == "gaussian" and e.number("noise_multiplier") is not None)
        return by_norm and not stated

    return any(alone(e) or depends_on_relation(e.inner) for e in events)
