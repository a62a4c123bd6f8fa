"""Catalogued cases as deployments: one for the case and one for each of its variants.

A case (``id, setting, mechanism, events | channel, claim, variants``) is read through its structured fields only. A variant inherits
what it does not restate; it may restate numbers under ``params`` or as assignments in its name (``z=0.5, q=0.001, T=1000``). Prose is not
interpreted: a case or variant whose mechanism is told in words alone becomes a deployment without events, for which nothing is
certified. A *reading* is a person's translation of that prose into the description language; it supplies the mechanism and never a number
of the claim.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from dpspec.audit.deployment import Claim, Deployment, Setting, deployment_of
from dpspec.audit.verdict import AuditResult
from dpspec.audit.words import NEIGHBOUR_ALIASES, REPLACING
from dpspec.spec.diagnostics import Diagnostic, SpecError


@dataclass(frozen=True, slots=True)
class CaseRow:
    """``variant`` is None for the case itself. ``basis``: where the mechanism comes from. ``answer`` and ``truth`` are the catalogue's."""

    id: str
    variant: str | None
    deployment: Deployment
    basis: Literal["case", "reading", "claim only"]
    answer: str
    truth: Mapping[str, Any]
    faults: tuple[Diagnostic, ...] = ()  # why it cannot be read; it stops no other row


@dataclass(frozen=True, slots=True)
class CaseVerdict:
    """One row of a catalogue under audit; ``result`` is None for one that cannot be read."""

    id: str
    variant: str | None
    result: AuditResult | None
    faults: tuple[Diagnostic, ...] = ()

    @property
    def verdict(self) -> str:
        return "cannot-verify" if self.result is None else self.result.verdict

    def to_json(self) -> dict[str, object]:
        head = {"id": self.id, "variant": self.variant}
        if self.result is None:
            told = [{"code": f.code, "severity": f.severity, "message": f.message} for f in self.faults]
            return {**head, "verdict": self.verdict, "findings": told}
        return {**head, **self.result.to_json()}


def verdicts(cases: Sequence[Any]) -> list[CaseVerdict]:
    """The verdict on every case and variant of a catalogue, by the structured fields alone."""
    from dpspec.audit.static import audit_static

    found = []
    for i, case in enumerate(cases):
        if not isinstance(case, Mapping):
            fault = Diagnostic("DP672", "error", f"case {i + 1} must be a mapping")
            found.append(CaseVerdict(f"case {i + 1}", None, None, (fault,)))
            continue
        for row in rows(case):
            try:
                result = None if row.faults else audit_static(row.deployment)
                found.append(CaseVerdict(row.id, row.variant, result, row.faults))
            except SpecError as error:
                found.append(CaseVerdict(row.id, row.variant, None, tuple(error.diagnostics)))
    return found


_MECHANISM = ("events", "channel", "facts", "tool")
_ASSIGNMENT = re.compile(r"(?<![\w.])([A-Za-z]+)\s*=\s*([0-9.]+(?:e[-+]?[0-9]+)?(?:/[0-9]+)?)(?![0-9])", re.IGNORECASE)

#: Assignments of a variant's name, and the event or channel fields that they set.
_SYMBOLS: Mapping[str, tuple[str, ...]] = {
    "z": ("noise_multiplier", "sigma"),
    "sigma": ("sigma",),
    "q": ("rate",),
    "rate": ("rate",),
    "T": ("count",),
    "steps": ("count",),
    "k": ("count", "categories"),
    "b": ("scale",),
    "scale": ("scale",),
    "s": ("sampled_bits",),
    "d": ("dimension",),
    "n": ("n", "candidates"),
    "threshold": ("threshold",),
}
_SENSITIVITIES = ("l1_sensitivity", "l2_sensitivity", "linf_sensitivity", "score_sensitivity", "sensitivity")


def rows(case: Mapping[str, Any], reading: Mapping[str, Any] | None = None) -> Iterator[CaseRow]:
    """The deployments of one case, with the catalogue's answers beside them."""
    reading = reading or {}
    base_truth = dict(case.get("truth") or {})
    yield _row(case, None, {}, reading, {}, base_truth, str((case.get("verdict") or {}).get("answer", "")))
    told = {str(v.get("name")): v for v in reading.get("variants", ())}
    for variant in case.get("variants") or ():
        name = str(variant.get("name", ""))
        truth = dict(variant.get("truth") or {})
        truth.setdefault("tolerance", base_truth.get("tolerance", 0.01))
        answer = str(variant.get("answer", ""))
        yield _row(case, name, variant, reading, told.get(name, {}), truth, answer)


def _row(
    case: Mapping[str, Any],
    name: str | None,
    variant: Mapping[str, Any],
    reading: Mapping[str, Any],
    told: Mapping[str, Any],
    truth: Mapping[str, Any],
    answer: str,
) -> CaseRow:
    setting = {**(case.get("setting") or {}), **(variant.get("setting") or {})}
    claim = dict(case.get("claim") or {})
    if "claim" in variant:
        claim = {**({"delta": claim["delta"]} if "delta" in claim else {}), **(variant["claim"] or {})}
    for place in (variant.get("params"), case.get("params"), claim):
        if isinstance(place, Mapping) and isinstance(place.get("n"), (int, float)):
            setting.setdefault("n", place["n"])
    data: dict[str, Any] = {"subject": str(case.get("id", "case")) + (f": {name}" if name else ""), "setting": setting, "claim": claim}
    notes: list[Diagnostic] = []
    basis: Literal["case", "reading", "claim only"] = "claim only"
    own = {k: copy.deepcopy(variant.get(k, case.get(k))) for k in _MECHANISM if variant.get(k, case.get(k)) is not None}
    if own and name is not None:
        own, restated = _restate(own, case, variant, name, notes)
        if not restated:
            own = {}  # the name tells in words what changed; the base mechanism is not assumed to be the variant's
    if own:
        data.update(own)
        basis = "case"
    source = told if name is not None else reading
    if not own and any(k in source for k in _MECHANISM):
        data.update({k: copy.deepcopy(source[k]) for k in _MECHANISM if k in source})
        basis = "reading"
    for key in ("setting", "claim"):
        extra = {**(reading.get(key) or {}), **(told.get(key) or {})} if basis == "reading" else {}
        for word, value in extra.items():
            data[key].setdefault(word, value)
    try:
        deployment = deployment_of(data, strict=basis == "reading")
    except SpecError as error:
        unread = Deployment(data["subject"], Setting(), Claim(), notes=tuple(error.diagnostics))
        return CaseRow(str(case.get("id", "")), name, unread, "claim only", answer, truth, tuple(error.diagnostics))
    return CaseRow(str(case.get("id", "")), name, replace(deployment, notes=(*deployment.notes, *notes)), basis, answer, truth)


def _restate(
    own: dict[str, Any], case: Mapping[str, Any], variant: Mapping[str, Any], name: str, notes: list[Diagnostic]
) -> tuple[dict[str, Any], bool]:
    """The base mechanism with the variant's numbers, and whether the variant restated anything of it."""
    restated = any(k in variant for k in _MECHANISM)
    given = dict(variant.get("params") or {})
    for key, value in given.items():
        restated |= _assign(own, (str(key), *_SYMBOLS.get(str(key), ())), value, multiplier=key == "z")
    for symbol, text in _ASSIGNMENT.findall(name):
        fields = _SYMBOLS.get(symbol) or _SYMBOLS.get(symbol.lower()) or (symbol,)
        if any(f in given for f in fields):
            continue  # the parameters are the statement; the name tells a story about them
        restated |= _assign(own, fields, float(Fraction(text)), multiplier=symbol == "z")
    before = str((case.get("setting") or {}).get("neighbouring", ""))
    after = str((variant.get("setting") or {}).get("neighbouring", before))
    if after != before:
        restated = True
        if not any(k in variant for k in _MECHANISM):
            factor = _relation_factor(before, after)
            if factor != 1:
                _rescale(own.get("events"), factor)
                notes.append(
                    Diagnostic(
                        "DP610",
                        "info",
                        f"the sensitivities were stated for {before}; under {after} they are taken {factor:g} times as large",
                        "a sum of contributions from a ball around zero; state them anew where that does not fit",
                    )
                )
    elif "setting" in variant and "sampling" not in variant["setting"]:
        restated = True
    return own, restated


def _relation_factor(before: str, after: str) -> float:
    a = NEIGHBOUR_ALIASES.get(before, before) in REPLACING
    b = NEIGHBOUR_ALIASES.get(after, after) in REPLACING
    return 1.0 if a == b else 0.5 if a else 2.0


def _rescale(events: Any, factor: float) -> None:
    for event in _nodes(events):
        clip = event.get("clip_norm")
        for key in _SENSITIVITIES:
            if isinstance(event.get(key), (int, float)):
                event[key] = clip * max(factor, 1.0) if isinstance(clip, (int, float)) else event[key] * factor


def _nodes(events: Any) -> Iterator[dict[str, Any]]:
    if isinstance(events, Mapping):
        events = [events]
    for event in events or ():
        if isinstance(event, dict):
            yield event
            yield from _nodes(event.get("events"))
            yield from _nodes(event.get("event"))


def _assign(own: dict[str, Any], fields: Sequence[str], value: Any, multiplier: bool = False) -> bool:
    """Set the first of ``fields`` that the mechanism has, at every outermost node that has it."""
    done = False
    channel = own.get("channel")
    if isinstance(channel, dict):
        for field in fields:
            if field in channel:
                channel[field] = value
                return True
    for field in fields:
        for event in _outermost(own.get("events"), field):
            top = event.get("clip_norm", event.get("l2_sensitivity", 1.0))
            event[field] = (
                value * top if multiplier and field == "sigma" else int(value) if field == "count" and value == int(value) else value
            )
            done = True
        if done:
            return True
    return False


def _outermost(events: Any, field: str) -> Iterator[dict[str, Any]]:
    if isinstance(events, Mapping):
        events = [events]
    for event in events or ():
        if isinstance(event, dict):
            if field in event:
                yield event
            else:
                yield from _outermost(event.get("events", event.get("event")), field)
