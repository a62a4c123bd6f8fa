"""A deployment as the auditor sees it: what ran, under which relation, and what is claimed.

The description is data (see docs/audit.md): ``setting``, ``events`` or ``channel``, ``claim``, ``facts``, and for an accountant or ledger
``tool``. Nothing in it is believed beyond what it says: the guarantee is recomputed from the events.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpspec.audit.vocabulary import (
    CHANNEL_ALIASES,
    CHANNEL_FIELDS,
    CHANNELS,
    COMMON,
    EVENT_ALIASES,
    EVENTS,
    FACTS,
    FIELD_ALIASES,
    MODELS,
    NEIGHBOUR_ALIASES,
    NEIGHBOURS,
    Kind,
)
from dpspec.audit.yamlread import Path, Read, read_yaml
from dpspec.spec.diagnostics import Diagnostic, Span, SpecError, has_errors
from dpspec.spec.ratio import ratio


@dataclass(frozen=True, slots=True)
class Setting:
    """``neighbouring``: one of :data:`dpspec.audit.vocabulary.NEIGHBOURS`, or other text that is kept and not interpreted.

    ``unit``: what the claim protects. ``events_unit``: what one pass of the events protects, when that is another unit;
    ``repeats``: how many passes one claimed unit can meet (None: not stated). ``n``: number of units, public or an order of magnitude.
    """

    model: str = "central"
    unit: str = ""
    neighbouring: str = "add_remove"
    sampling: str = ""
    n: float | None = None
    events_unit: str = ""
    repeats: float | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One node of what ran. ``kind`` is a key of :data:`EVENTS`, or ``unknown`` with the original word in ``fields["type"]``."""

    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    count: int = 1
    inner: tuple[Event, ...] = ()

    @property
    def what(self) -> str:
        return str(self.fields.get("what") or self.kind.replace("_", " "))

    def number(self, *names: str) -> float | None:
        """The first of these fields that is a number."""
        for name in names:
            value = self.fields.get(name)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return float(value)
        return None


@dataclass(frozen=True, slots=True)
class ChannelSpec:
    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    def number(self, *names: str) -> float | None:
        return Event(self.kind, self.fields).number(*names)


@dataclass(frozen=True, slots=True)
class Claim:
    """What is stated. Absent numbers are None. ``variant``: pure, approx, zcdp or gdp when the statement names one.

    ``rule``: the composition rule that the number is said to come from (``sum``, ``advanced``, ``kov``, ``zcdp``, ``gdp-clt``);
    ``slack``: its delta'. ``one_report``: a stated epsilon of a single report of a channel that is used again and again.
    """

    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    mu: float | None = None
    variant: str = ""
    rule: str = ""
    slack: float | None = None
    one_report: float | None = None
    text: str = ""

    @property
    def empty(self) -> bool:
        return all(v is None for v in (self.epsilon, self.rho, self.mu, self.one_report))


@dataclass(frozen=True, slots=True)
class Deployment:
    subject: str
    setting: Setting
    claim: Claim
    events: tuple[Event, ...] = ()
    channel: ChannelSpec | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    tool: Mapping[str, Any] = field(default_factory=dict)
    samples: tuple[str, ...] = ()  # two files of outputs on neighbouring inputs
    notes: tuple[Diagnostic, ...] = ()  # what the loader had to say


# ---------------------------------------------------------------------------------------------------------------- loading


class _Loader:
    """Collects every diagnostic of one description; unknown words are errors in strict mode and remarks otherwise."""

    def __init__(self, spans: Mapping[Path, Span], strict: bool) -> None:
        self.spans, self.strict = spans, strict
        self.found: list[Diagnostic] = []

    def say(self, code: str, message: str, at: Path, help: str = "", error: bool = True) -> None:
        self.found.append(Diagnostic(code, "error" if error else "warning", message, help, self.spans.get(at)))

    def unknown(self, word: str, known: Sequence[str], at: Path, what: str) -> None:
        if not self.strict:
            return
        near = difflib.get_close_matches(word, known, 1)
        self.say("DP671", f"unknown {what} {word!r}", at, f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}")

    def mapping(self, data: Any, at: Path, what: str) -> Mapping[str, Any]:
        if data is None:
            return {}
        if not isinstance(data, Mapping):
            self.say("DP672", f"{what} must be a mapping of words to values, not {_shown(data)}", at)
            return {}
        return data

    def number(self, data: Mapping[str, Any], key: str, at: Path, low: float = -math.inf, high: float = math.inf) -> float | None:
        value = data.get(key)
        if value is None:
            return None
        value = numeric(value)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or math.isnan(value):
            self.say("DP672", f"{key} must be a number, not {_shown(data[key])}", (*at, key))
            return None
        if not low <= value <= high:
            self.say("DP672", f"{key} = {value:g} is outside [{low:g}, {high:g}]", (*at, key))
            return None
        return float(value)

    def setting(self, data: Any, at: Path) -> Setting:
        m = self.mapping(data, at, "setting")
        known = ("model", "unit", "neighbouring", "neighbours", "sampling", "n", "events_unit", "repeats")
        for key in m:
            if key not in known:
                self.unknown(str(key), known, (*at, key), "word in setting")
        relation = str(m.get("neighbouring") or m.get("neighbours") or "").strip()
        relation = NEIGHBOUR_ALIASES.get(relation.lower(), relation)
        model = str(m.get("model") or "central").strip().lower()
        if model not in MODELS:
            self.unknown(model, MODELS, (*at, "model"), "privacy model")
        if not relation:
            relation = "local_replace" if model in ("local", "nldp", "sldp") else ""
        # other relations are kept as text (sensitivities are then taken as given); a near miss is a misspelling
        if relation and relation not in NEIGHBOURS and difflib.get_close_matches(relation, (*NEIGHBOURS, *NEIGHBOUR_ALIASES), 1, 0.75):
            self.unknown(relation, NEIGHBOURS, (*at, "neighbouring"), "neighbouring relation")
        repeats = m.get("repeats")
        return Setting(
            model="local" if model in ("nldp", "sldp") else model,
            unit=_text(m.get("unit")),
            neighbouring=relation,
            sampling=_text(m.get("sampling")),
            n=self.number(m, "n", at, 1),
            events_unit=_text(m.get("events_unit")),
            repeats=math.inf if repeats == "unbounded" else self.number(m, "repeats", at, 1) if repeats != "unknown" else None,
        )

    def claim(self, data: Any, at: Path) -> Claim:
        m = self.mapping(data, at, "claim")
        known = ("epsilon", "delta", "rho", "mu", "variant", "rule", "accountant", "slack", "epsilon_one_report", "text", "unit")
        for key in m:
            if key not in known:
                self.unknown(str(key), known, (*at, key), "word in claim")
        stated = _pairs(_text(m.get("text")))
        variant = _variant(_text(m.get("variant")) or stated.get("variant", ""))
        return Claim(
            epsilon=self.number(m, "epsilon", at),
            delta=self.number(m, "delta", at, 0, 1),
            rho=self.number(m, "rho", at, 0),
            mu=self.number(m, "mu", at, 0),
            variant=variant,
            rule=_text(m.get("rule") or m.get("accountant")),
            slack=self.number(m, "slack", at, 0, 1),
            one_report=self.number(m, "epsilon_one_report", at, 0),
            text=_text(m.get("text")),
        )

    def events(self, data: Any, at: Path) -> tuple[Event, ...]:
        if data is None:
            return ()
        if isinstance(data, Mapping):
            return (self.event(data, at),)
        if not isinstance(data, Sequence) or isinstance(data, str):
            self.say("DP672", f"events must be a list, not {_shown(data)}", at)
            return ()
        return tuple(self.event(item, (*at, i)) for i, item in enumerate(data))

    def event(self, data: Any, at: Path) -> Event:
        m = self.mapping(data, at, "an event")
        word = str(m.get("type", "")).strip()
        kind = _word(word, EVENTS, EVENT_ALIASES)
        if kind is None:
            near = difflib.get_close_matches(word, [*EVENTS, *EVENT_ALIASES], 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(EVENTS))}"
            self.say("DP673", f"no mechanism model for the event type {word!r}", (*at, "type") if word else at, hint, error=self.strict)
            return Event("unknown", dict(m))
        known = EVENTS[kind].fields
        m = {
            FIELD_ALIASES.get(str(k), str(k)) if str(k) not in known and FIELD_ALIASES.get(str(k)) in (*COMMON, *known) else str(k): v
            for k, v in m.items()
        }
        self.fields(m, EVENTS[kind], at, f"field of {kind}", kind)
        fields = {str(k): numeric(v) for k, v in m.items() if k not in ("event", "events")}
        body = m.get("events", m.get("event"))
        key = "events" if "events" in m else "event"
        inner = self.events(body, (*at, key)) if body is not None else ()
        count = self.number(m, "count", at, 0)
        if count is not None and count != int(count):
            self.say("DP672", "count must be a whole number", (*at, "count"))
        return Event(kind, fields, 1 if count is None else int(count), inner)

    def fields(self, m: Mapping[str, Any], kind: Kind, at: Path, what: str, name: str) -> None:
        known = (*COMMON, *kind.fields)
        for key, value in m.items():
            if key not in known:
                self.unknown(str(key), known, (*at, key), what)
            number = numeric(value)
            if isinstance(number, float) and math.isnan(number):
                self.say("DP672", f"{key} is not a number", (*at, key))
            if key in _NOT_NEGATIVE and isinstance(number, (int, float)) and number < 0:
                self.say("DP672", f"{key} must not be negative", (*at, key))
            if key in _NUMERIC and not isinstance(number, (int, float)):
                self.say("DP672", f"{key} must be a number, not {_shown(value)}", (*at, key))
        for group in kind.needs:
            if all(m.get(g) is None for g in group):
                self.say("DP674", f"{name} needs {' or '.join(group)}", at, error=self.strict)

    def channel(self, data: Any, at: Path) -> ChannelSpec | None:
        if data is None:
            return None
        m = self.mapping(data, at, "channel")
        word = str(m.get("type", "matrix" if "rows" in m else "")).strip()
        kind = _word(word, CHANNELS, CHANNEL_ALIASES)
        if kind is None:
            near = difflib.get_close_matches(word, [*CHANNELS, *CHANNEL_ALIASES], 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(CHANNELS))}"
            self.say("DP673", f"no model for the channel type {word!r}", (*at, "type"), hint, error=self.strict)
            return ChannelSpec("unknown", dict(m))
        renamed = dict(m)
        for field_name, others in CHANNEL_FIELDS.items():
            if field_name in CHANNELS[kind].fields and field_name not in renamed:
                other = next((o for o in others if o in renamed and o not in CHANNELS[kind].fields), None)
                if other is not None:
                    renamed[field_name] = renamed.pop(other)
        m = renamed
        self.fields(m, CHANNELS[kind], at, f"field of channel {kind}", kind)
        return ChannelSpec(kind, {str(k): numeric(v) for k, v in m.items()})

    def facts(self, data: Any, at: Path) -> Mapping[str, Any]:
        m = self.mapping(data, at, "facts")
        for key, value in m.items():
            if key not in FACTS:
                self.unknown(str(key), tuple(FACTS), (*at, key), "fact")
            elif FACTS[key] and value not in FACTS[key]:
                self.say("DP672", f"{key} must be one of {', '.join(FACTS[key])}, not {_shown(value)}", (*at, key))
        return dict(m)


_NOT_NEGATIVE = frozenset(
    [
        "sigma",
        "scale",
        "noise_multiplier",
        "variance",
        "rho",
        "mu",
        "l1_sensitivity",
        "l2_sensitivity",
        "linf_sensitivity",
        "score_sensitivity",
        "sensitivity",
        "clip_norm",
        "norm_bound",
        "threshold_scale",
        "query_scale",
        "rate",
        "delta",
        "size",
        "n",
        "candidates",
        "queries",
        "batches",
        "epochs",
    ]
)
_NUMERIC = _NOT_NEGATIVE - {"n", "sensitivity"} | {"epsilon"}
_TOP = ("audit", "subject", "setting", "claim", "events", "channel", "facts", "tool", "samples", "note", "source")


def deployment_of(data: Mapping[str, Any], *, spans: Mapping[Path, Span] | None = None, strict: bool = True, path: str = "") -> Deployment:
    """The description as a typed object. Raises :class:`SpecError` with every DP67x diagnostic when it cannot be used.

    ``strict`` False accepts fields it does not know (public registries carry many) and keeps unknown mechanisms as ``unknown``, for
    which no guarantee is ever derived.
    """
    loader = _Loader(spans or {}, strict)
    for key in data:
        if key not in _TOP:
            loader.unknown(str(key), _TOP, (key,), "word at the top")
    samples = data.get("samples") or ()
    if samples and not (isinstance(samples, list) and len(samples) == 2 and all(isinstance(s, str) for s in samples)):
        loader.say("DP672", "samples must list two files: outputs on one input and on its neighbour", ("samples",))
        samples = ()
    deployment = Deployment(
        subject=_text(data.get("subject")) or path or "deployment",
        setting=loader.setting(data.get("setting"), ("setting",)),
        claim=loader.claim(data.get("claim"), ("claim",)),
        events=loader.events(data.get("events"), ("events",)),
        channel=loader.channel(data.get("channel"), ("channel",)),
        facts=loader.facts(data.get("facts"), ("facts",)),
        tool=dict(loader.mapping(data.get("tool"), ("tool",), "tool")),
        samples=tuple(samples),
        notes=tuple(loader.found),
    )
    if has_errors(loader.found):
        raise SpecError(loader.found, path=path)
    return deployment


def load_deployment(text: str, path: str = "") -> Deployment:
    """A deployment description from YAML (or JSON) text."""
    read = read_yaml(text, path)
    if not isinstance(read.data, Mapping):
        raise SpecError([Diagnostic("DP677", "error", "the document is empty: nothing to audit")], path=path, text=text)
    return _placed(read, path, text)


def _placed(read: Read, path: str, text: str) -> Deployment:
    try:
        return deployment_of(read.data, spans=read.spans, path=path)
    except SpecError as error:
        raise SpecError(error.diagnostics, path=path, text=text) from None


def numeric(value: Any) -> Any:
    """``"1/3"`` and ``"2.5e-3"`` as numbers; anything else unchanged."""
    if isinstance(value, str):
        text = value.strip()
        if text and text[0] in "0123456789.+-":
            try:
                return float(ratio(text))
            except (ValueError, OverflowError):
                return value
    return value


def _word(word: str, table: Mapping[str, Kind], aliases: Mapping[str, str]) -> str | None:
    key = word.strip().lower().replace("-", "_").replace(" ", "_")
    if key in table:
        return key
    return aliases.get(key)


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _pairs(text: str) -> dict[str, str]:
    """``variant: pure DP; model: local`` as a dictionary; empty when the text is prose."""
    found: dict[str, str] = {}
    for part in text.split(";"):
        key, colon, value = part.partition(":")
        if not colon or len(key.split()) > 2:
            return {}
        found[key.strip().lower()] = value.strip()
    return found


def _variant(text: str) -> str:
    low = text.lower()
    for word, name in (
        ("zero-conc", "zcdp"),
        ("zcdp", "zcdp"),
        ("concentrated", "zcdp"),
        ("approx", "approx"),
        ("pure", "pure"),
        ("gdp", "gdp"),
    ):
        if word in low:
            return name
    return "gdp" if "gaussian dp" in low else ""


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
