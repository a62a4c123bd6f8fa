"""Documents of every known format as deployments: descriptions, training configurations (:mod:`dpspec.audit.configs`), entries of the
public registry (:mod:`dpspec.audit.registry`), channels, and this product's own plans and records.

An importer translates and adds nothing: what a format leaves open (the sampler, the unit, the neighbouring relation) is filled in with
what its tool documents, and said as a note. A field that cannot be read is reported, never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dpspec.audit.configs import read_config, recognise, tools
from dpspec.audit.deployment import Deployment, deployment_of
from dpspec.audit.registry import entries, from_registry, is_entry
from dpspec.spec.diagnostics import Diagnostic, SpecError


def kind_of(data: Mapping[str, Any]) -> str:
    """The format of a document: a key of the importers, ``cases`` for a catalogue, ``entries`` for a registry of several deployments, the
    name of a tool whose training configuration it is, or the empty word."""
    if isinstance(data.get("cases"), list):
        return "cases"
    if "guarantee" in data and "releases" in data:
        return "plan"
    if "guarantee" in data and "plan_sha256" in data:
        return "record"
    if entries(data):
        return "entries"
    if is_entry(data):
        return "registry"
    if any(k in data for k in ("claim", "events", "audit", "facts")) or isinstance(data.get("tool"), Mapping):
        return "deployment"
    if "rows" in data or "channel" in data:
        return "channel"
    return recognise(data)


def import_document(data: Mapping[str, Any], subject: str = "", tool: str = "") -> Deployment:
    """A deployment from any known format; ``tool``: the tool whose configuration it is. Raises :class:`SpecError`: DP676 for an unknown
    format, DP67x for unusable values."""
    kind = "" if tool else kind_of(data)
    importer = _IMPORTERS.get(kind)
    if importer is not None:
        found = importer(data)
        return replace(found, subject=subject) if subject and found.subject == "deployment" else found
    if tool or kind in tools():
        found = read_config(data, tool)
        return replace(found, subject=subject) if subject else found
    if kind in ("cases", "entries"):
        help = "audit_all, or dpspec audit FILE, gives one verdict each"
        raise SpecError([Diagnostic("DP676", "error", "this document holds several deployments", help)], path=subject)
    help = "see docs/audit.md for the formats; a training configuration of an unknown tool: state tool: generic"
    raise SpecError([Diagnostic("DP676", "error", "the format of this document is not known", help)], path=subject)


# ------------------------------------------------------------------------------------------------- plans, records, channels


def _plan(data: Mapping[str, Any]) -> Deployment:
    from dpspec.audit.plans import read_plan

    return read_plan(data)


def _record(data: Mapping[str, Any]) -> Deployment:
    from dpspec.audit.plans import read_record

    return read_record(data)


def _channel(data: Mapping[str, Any]) -> Deployment:
    body = data.get("channel", {k: v for k, v in data.items() if k in ("type", "rows", "inputs", "outputs", "neighbours")})
    rest = {k: data[k] for k in ("subject", "setting", "claim") if k in data}
    setting = {"model": "local", "unit": "report", "neighbouring": "local_replace", **(rest.pop("setting", None) or {})}
    return deployment_of({**rest, "setting": setting, "channel": body}, strict=False)


_IMPORTERS: Mapping[str, Callable[[Mapping[str, Any]], Deployment]] = {
    "deployment": deployment_of,
    "plan": _plan,
    "record": _record,
    "registry": from_registry,
    "channel": _channel,
}
