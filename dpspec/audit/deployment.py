"""A deployment as the auditor sees it: what ran, under which relation, and what is claimed.

The description is data (see docs/audit.md): ``setting``, ``events`` or ``channel``, ``claim``, ``facts``, and for an accountant or ledger
``tool``. Nothing in it is believed beyond what it says: the guarantee is recomputed from the events.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dpspec.audit.event import Event
from dpspec.audit.formulas import numeric as numeric
from dpspec.audit.formulas import resolved
from dpspec.audit.kinds import AMOUNT, COMMON, COUNT_FROM_0, FLAG, POSITIVE, REAL, WHOLE, Kind, Sort, shown
from dpspec.audit.vocabulary import CHANNEL_ALIASES, CHANNEL_FIELDS, CHANNELS, EVENT_ALIASES, EVENTS, FACTS, FIELD_ALIASES, sort_of
from dpspec.audit.words import MODELS, NEIGHBOUR_ALIASES, NEIGHBOURS, relation_of
from dpspec.audit.yamlread import Path, Read, read_yaml
from dpspec.spec.diagnostics import Diagnostic, Span, SpecError, has_errors


@dataclass(frozen=True, slots=True)
class Setting:
    """``neighbouring``: one of :data:`dpspec.audit.vocabulary.NEIGHBOURS`, or prose (or nothing), which is no relation: what depends on
    one is then judged under each of them. ``n``: number of units. ``sampling``: for the reader.

    ``unit``: what the claim protects. ``events_unit``: what one pass of the events protects, when that is another unit; ``repeats``: how
    many passes one claimed unit meets (None: not stated, infinite: nothing bounds it).
    """

    model: str = "central"
    unit: str = ""
    neighbouring: str = "add_remove"
    sampling: str = ""
    n: float | None = None
    events_unit: str = ""
    repeats: float | None = None

    @property
    def relation(self) -> str:
        """The stated relation, or nothing when it is not stated in words that are known."""
        return self.neighbouring if self.neighbouring in NEIGHBOURS else ""


@dataclass(frozen=True, slots=True)
class ChannelSpec:
    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    def number(self, *names: str) -> float | None:
        return Event(self.kind, self.fields).number(*names)


@dataclass(frozen=True, slots=True)
class Claim:
    """What is stated. Absent numbers are None; a claim without the word delta is one at delta 0.
    ``variant``: pure, approx, zcdp or gdp when the statement names one.

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
    unit: str = ""
    delta_open: bool = False  # the word delta stands there without a value
    subtotals: tuple[float, ...] = ()  # the parts that are said to make up the rho (or epsilon)

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
            self.say("DP672", f"{what} must be a mapping of words to values, not {shown(data)}", at)
            return {}
        return data

    def number(self, data: Mapping[str, Any], key: str, at: Path, low: float = -math.inf, high: float = math.inf) -> float | None:
        """A finite number within bounds; None when absent or, which is said, when it is none."""
        title = "a finite number" + ("" if math.isinf(low) else f" from {low:g}" if math.isinf(high) else f" in [{low:g}, {high:g}]")
        return self.value(data, key, at, Sort(title, low, high))

    def value(self, data: Mapping[str, Any], key: str, at: Path, sort: Sort) -> float | None:
        if data.get(key) is None:
            return None
        value = numeric(data[key])
        fault = sort.fault(value)
        if fault:
            self.say("DP672", f"{key} {fault}", (*at, key))
            return None
        return float(value)

    def twice(self, data: Mapping[str, Any], at: Path, *words: str) -> None:
        """Two spellings of one word, both present."""
        present = [w for w in words if data.get(w) is not None]
        if len(present) > 1:
            self.say("DP672", f"{' and '.join(present)} are two spellings of one word: state one of them", (*at, present[1]))

    def known(self, data: Mapping[str, Any], known: Sequence[str], at: Path, what: str) -> None:
        for key in data:
            if key not in known:
                self.unknown(str(key), known, (*at, key), what)

    def setting(self, data: Any, at: Path) -> Setting:
        m = self.mapping(data, at, "setting")
        self.known(m, ("model", "unit", "neighbouring", "neighbours", "sampling", "n", "events_unit", "repeats"), at, "word in setting")
        self.twice(m, at, "neighbouring", "neighbours")
        relation = relation_of(_text(m.get("neighbouring") or m.get("neighbours")))
        model = str(m.get("model") or "central").strip().lower()
        if model not in MODELS:
            self.unknown(model, MODELS, (*at, "model"), "privacy model")
        if not relation:
            relation = "local_replace" if model in ("local", "nldp", "sldp") else ""
        # prose (three words and more) is kept as no relation; a word that is not known is refused
        if relation and relation not in NEIGHBOURS:
            near = difflib.get_close_matches(relation, (*NEIGHBOURS, *NEIGHBOUR_ALIASES), 1, 0.75)
            if near or len(relation.split()) < 3:
                self.unknown(relation, NEIGHBOURS, (*at, "neighbouring"), "neighbouring relation")
        for key in ("n", "repeats"):
            if key in m and m[key] is None and self.strict:
                self.say("DP672", f"{key} has no value: leave it out or state it", (*at, key))
        open_ended = m.get("repeats") in ("unbounded", "unknown")
        return Setting(
            model="local" if model in ("nldp", "sldp") else model,
            unit=_text(m.get("unit")),
            neighbouring=relation,
            sampling=_text(m.get("sampling")),
            n=self.value(m, "n", at, WHOLE if self.strict else Sort("a number from 1", 1)),
            events_unit=_text(m.get("events_unit")),
            repeats=math.inf if open_ended else self.value(m, "repeats", at, WHOLE),
        )

    def claim(self, data: Any, at: Path) -> Claim:
        m = self.mapping(data, at, "claim")
        known = (
            "epsilon",
            "delta",
            "rho",
            "mu",
            "variant",
            "rule",
            "accountant",
            "slack",
            "epsilon_one_report",
            "text",
            "unit",
            "subtotals",
        )
        self.known(m, known, at, "word in claim")
        self.twice(m, at, "rule", "accountant")
        stated = _pairs(_text(m.get("text")))
        variant = _variant(_text(m.get("variant")) or stated.get("variant", ""))
        if m.get("variant") and not variant:
            self.unknown(_text(m["variant"]), ("pure", "approx", "zcdp", "gdp"), (*at, "variant"), "privacy variant")
        rule = _text(m.get("rule") or m.get("accountant")).lower().replace("-", "").replace("_", "")
        if self.strict and (rule in RULES_WITH_SLACK) != (m.get("slack") is not None):
            if rule in RULES_WITH_SLACK:
                self.say("DP674", f"the rule {rule} needs slack, its delta'", (*at, "rule"))
            else:
                self.say("DP672", "slack is that of the rules advanced and kov, and none of them is named", (*at, "slack"))
        return Claim(
            epsilon=self.value(m, "epsilon", at, REAL),
            delta=self.number(m, "delta", at, 0, 1),
            rho=self.number(m, "rho", at, 0),
            mu=self.number(m, "mu", at, 0),
            variant=variant,
            rule=_text(m.get("rule") or m.get("accountant")),
            slack=self.number(m, "slack", at, 0, 1),
            one_report=self.number(m, "epsilon_one_report", at, 0),
            text=_text(m.get("text")),
            unit=_text(m.get("unit")),
            delta_open="delta" in m and m["delta"] is None,
            subtotals=self.subtotals(m, at),
        )

    def subtotals(self, m: Mapping[str, Any], at: Path) -> tuple[float, ...]:
        told = m.get("subtotals")
        if told is None:
            return ()
        numbers = [numeric(x) for x in told] if isinstance(told, (list, tuple)) else []
        if not numbers or any(AMOUNT.fault(x) for x in numbers):
            self.say("DP672", f"subtotals must be a list of amounts, not {shown(told)}", (*at, "subtotals"))
            return ()
        if m.get("rho") is None and m.get("epsilon") is None:
            self.say("DP672", "subtotals are parts of an epsilon or rho, and neither is stated", (*at, "subtotals"))
        return tuple(float(x) for x in numbers)

    def events(self, data: Any, at: Path) -> tuple[Event, ...]:
        if data is None:
            return ()
        if isinstance(data, Mapping):
            return (self.event(data, at),)
        if not isinstance(data, Sequence) or isinstance(data, str):
            self.say("DP672", f"events must be a list, not {shown(data)}", at)
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
        known = (*COMMON, *EVENTS[kind].fields)
        m = self.spelt(m, known, at)
        self.fields(m, EVENTS[kind], at, f"field of {kind}", kind)
        fields = {k: numeric(v) for k, v in m.items() if k not in ("event", "events")}
        key = "events" if m.get("events") is not None else "event"
        body = m.get(key) if key in known else None
        inner = self.events(body, (*at, key)) if body is not None else ()
        count = fields.get("count")
        whole = isinstance(count, (int, float)) and not WHOLE.fault(count)
        if fields.get("vote") is not None:
            fields["vote"] = self.vote(fields["vote"], (*at, "vote"))
        return Event(kind, fields, int(count) if whole and count is not None else 1, inner, tuple(k for k in m if k not in known))

    def spelt(self, m: Mapping[str, Any], known: Sequence[str], at: Path) -> dict[str, Any]:
        """The fields under the names that the models know; a field under two names is refused."""
        found: dict[str, Any] = {}
        for k, v in m.items():
            name = str(k)
            alias = FIELD_ALIASES.get(name, "")
            name = alias if name not in known and alias in known else name
            if name in found:
                self.say("DP672", f"{k} is another spelling of {name}, which is stated too: state one of them", (*at, k))
            found[name] = v
        return found

    def vote(self, data: Any, at: Path) -> dict[str, float]:
        m, words = self.mapping(data, at, "vote"), ("low", "high", "threshold")
        self.known(m, words, at, "field of vote")
        found = {w: self.value(m, w, at, REAL) for w in words}
        for word, number in found.items():
            if number is None and word not in m:
                self.say("DP674", f"vote needs {word}", at)
        numbers = {w: x for w, x in found.items() if x is not None}
        if len(numbers) == 3 and not numbers["low"] < numbers["high"]:
            self.say("DP672", "vote: low must lie below high", at)
        return numbers

    def fields(self, m: Mapping[str, Any], kind: Kind, at: Path, what: str, name: str) -> None:
        known = (*COMMON, *kind.fields) if kind is EVENTS.get(name) else ("type", "what", "text", "note", *kind.fields)
        for key, value in m.items():
            if key not in known:
                self.unknown(str(key), known, (*at, key), what)
                continue
            if value is None:
                if self.strict:
                    self.say("DP672", f"{key} has no value: leave it out or state it", (*at, key))
                continue
            fault = sort_of(name, key).fault(numeric(value))
            if fault:
                self.say("DP672", f"{key} {fault}", (*at, key))
        if "event" in kind.fields:
            self.twice(m, at, "event", "events")
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
        for pair in (("p_true_bit", "p"), ("q_other_bit", "q")):
            if all(word in CHANNELS[kind].fields for word in pair):
                self.twice(m, at, *pair)
        self.fields(m, CHANNELS[kind], at, f"field of channel {kind}", kind)
        fields = {str(k): numeric(v) for k, v in m.items()}
        if "channels" in CHANNELS[kind].fields:
            fields["channels"] = self.channels(m.get("channels"), (*at, "channels"))
        return ChannelSpec(kind, fields)

    def channels(self, data: Any, at: Path) -> tuple[ChannelSpec, ...]:
        """The channels that another one is made of: a list of one at least."""
        if not isinstance(data, (list, tuple)) or not data:
            self.say("DP672", f"channels must be a list of channels, not {shown(data)}", at)
            return ()
        found = [self.channel(item, (*at, i)) for i, item in enumerate(data)]
        return tuple(c for c in found if c is not None)

    def facts(self, data: Any, at: Path) -> Mapping[str, Any]:
        m = self.mapping(data, at, "facts")
        self.known(m, tuple(FACTS), at, "fact")
        for key, value in m.items():
            if FACTS.get(key) and value not in FACTS[key]:
                self.say("DP672", f"{key} must be one of {', '.join(FACTS[key])}, not {shown(value)}", (*at, key))
        outside = m.get("outputs_outside")
        if outside is not None and not isinstance(outside, (str, list, tuple, bool)):
            self.say("DP672", f"outputs_outside must be a list of names, not {shown(outside)}", (*at, "outputs_outside"))
        for i, item in enumerate(outside if isinstance(outside, (list, tuple)) else ()):
            if isinstance(item, Mapping):
                place = (*at, "outputs_outside", i)
                self.known(item, ("what", "exact"), place, "word of an output")
                if not isinstance(item.get("what"), str) or not isinstance(item.get("exact", False), bool):
                    self.say(
                        "DP672", "an output of outputs_outside is a name, or what it is and exact: true when it carries no noise", place
                    )
        runs = m.get("discarded_runs")
        if isinstance(runs, (list, tuple)):
            for i, cost in enumerate(runs):
                fault = AMOUNT.fault(numeric(cost))
                if fault:
                    self.say("DP672", f"an epsilon of discarded_runs {fault}", (*at, "discarded_runs", i))
        elif runs is not None and not isinstance(runs, bool):
            self.say("DP672", f"discarded_runs must be a list of epsilons, or true, not {shown(runs)}", (*at, "discarded_runs"))
        if m.get("summation") is not None:
            self.summation(m["summation"], (*at, "summation"))
        return dict(m)

    def summation(self, data: Any, at: Path) -> None:
        m = self.mapping(data, at, "summation")
        self.known(m, ("dtype", "bound", "n", "overflow", "exact"), at, "field of summation")
        if m.get("dtype") not in DTYPES:
            self.say("DP672", f"dtype must be one of {', '.join(DTYPES)}, not {shown(m.get('dtype'))}", (*at, "dtype"))
        self.value(m, "bound", at, POSITIVE)
        self.value(m, "n", at, WHOLE)
        for key, words in (("overflow", ("wrap", "saturate", "error")), ("exact", (True, False))):
            if key in m and m[key] not in words:
                self.say("DP672", f"{key} must be one of {', '.join(str(w).lower() for w in words)}, not {shown(m[key])}", (*at, key))

    def tool(self, data: Any, at: Path) -> Mapping[str, Any]:
        """The parts of a tool's account; each is read by :mod:`dpspec.audit.tools`."""
        m = self.mapping(data, at, "tool")
        self.known(m, ("calibrate", "sigma", "conversion", "spends", "ledger", "returned"), at, "word under tool")
        if m.get("calibrate") is not None:
            self.event({"sigma": 1.0, **self.mapping(m["calibrate"], (*at, "calibrate"), "calibrate")}, (*at, "calibrate"))
        self.value(m, "sigma", at, AMOUNT)
        if "sigma" in m and "calibrate" not in m:
            self.say("DP672", "sigma is the answer to calibrate, which is not stated", (*at, "sigma"))
        if m.get("conversion") is not None:
            rho = self.mapping(m["conversion"], (*at, "conversion"), "conversion")
            self.known(rho, ("rho",), (*at, "conversion"), "field of conversion")
            self.value(rho, "rho", (*at, "conversion"), AMOUNT)
        spends = m.get("spends")
        if spends is not None and not isinstance(spends, list):
            self.say("DP672", f"spends must be a list of {{event, charged}}, not {shown(spends)}", (*at, "spends"))
        for i, item in enumerate(spends if isinstance(spends, list) else ()):
            row, place = self.mapping(item, (*at, "spends", i), "a spend"), (*at, "spends", i)
            self.known(row, ("name", "event", "charged", "charged_in"), place, "field of a spend")
            if row.get("charged_in", "rho") not in ("epsilon", "rho"):
                self.say("DP672", f"charged_in must be epsilon or rho, not {shown(row['charged_in'])}", (*place, "charged_in"))
            self.event(row.get("event"), (*place, "event"))
            if self.value(row, "charged", place, AMOUNT) is None and "charged" not in row:
                self.say("DP674", "a spend needs charged", place)
        if m.get("ledger") is not None:
            ledger, place = self.mapping(m["ledger"], (*at, "ledger"), "ledger"), (*at, "ledger")
            self.known(ledger, ("charged", "concurrent", "retries", "per_use", "atomic"), place, "field of ledger")
            for key, sort in (("concurrent", WHOLE), ("retries", COUNT_FROM_0), ("per_use", AMOUNT), ("atomic", FLAG)):
                if ledger.get(key) is not None and sort.fault(numeric(ledger[key])):
                    self.say("DP672", f"{key} {sort.fault(numeric(ledger[key]))}", (*place, key))
        if m.get("returned") not in (None, "nothing"):
            self.say("DP672", f"returned can be the word nothing, not {shown(m['returned'])}", (*at, "returned"))
        return dict(m)


#: Machine numbers that sums are known for; the others saturate or are exact.
DTYPES = ("float16", "bfloat16", "float32", "float64", *(f"{u}int{b}" for u in ("", "u") for b in (8, 16, 32, 64)))
#: Composition rules that spend a delta of their own.
RULES_WITH_SLACK = ("kov", "optimalcomposition", "advanced", "advancedcomposition", "strong")
_TOP = ("audit", "subject", "setting", "claim", "events", "channel", "facts", "tool", "samples", "note", "source")


def deployment_of(data: Mapping[str, Any], *, spans: Mapping[Path, Span] | None = None, strict: bool = True, path: str = "") -> Deployment:
    """The description as a typed object. Raises :class:`SpecError` with every DP67x diagnostic when it cannot be used.

    ``strict`` False accepts fields it does not know (public registries carry many) and keeps unknown mechanisms as ``unknown``, for
    which no guarantee is ever derived.
    """
    loader = _Loader(spans or {}, strict)
    data = resolved(data)
    loader.known(data, _TOP, (), "word at the top")
    if data.get("audit", 1) != 1 or isinstance(data.get("audit"), bool):
        loader.say("DP672", f"audit: {shown(data['audit'])} is no version of the description; this is version 1", ("audit",))
    _beside(loader, data)
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
        tool=loader.tool(data.get("tool"), ("tool",)),
        samples=tuple(samples),
        notes=tuple(loader.found),
    )
    if has_errors(loader.found):
        raise SpecError(loader.found, path=path)
    return _remembered(_reports_of_units(deployment))


def _remembered(deployment: Deployment) -> Deployment:
    """A chain whose number of reports is told by the setting: its first stage is remembered, so its losses do not add up; said as DP648."""
    setting, channel = deployment.setting, deployment.channel
    if channel is None or channel.kind != "chain" or channel.fields.get("reports") is not None:
        return deployment
    open_ended = setting.repeats is None and bool(setting.events_unit) and setting.events_unit.lower() != setting.unit.lower()
    if setting.repeats is None and not open_ended:
        return deployment
    reports: Any = "unbounded" if open_ended or math.isinf(setting.repeats or math.inf) else math.ceil(setting.repeats or 1.0)
    told = (
        f"read as {reports} reports of one value, whose first stage is remembered (state reports of the chain and repeats for new values)"
    )
    return replace(
        deployment,
        channel=replace(channel, fields={**channel.fields, "reports": reports}),
        setting=replace(setting, repeats=None, events_unit=""),
        notes=(*deployment.notes, Diagnostic("DP648", "info", told)),
    )


def _reports_of_units(deployment: Deployment) -> Deployment:
    """In the shuffle model one shuffled batch of randomized responses is the reports of the n units; said as DP648."""
    setting = deployment.setting

    def one(event: Event) -> Event:
        alone = event.kind == "shuffled" and event.number("batches") == 1 and (event.number("epochs") or 1) == 1 and not event.unread
        if not alone or not event.inner or any(e.kind != "randomized_response" for e in event.inner):
            return event
        fields = {k: v for k, v in event.fields.items() if k not in ("batches", "epochs")}
        return replace(event, kind="shuffled_reports", fields={**fields, "n": setting.n, "what": event.what})

    if setting.model != "shuffle" or setting.n is None:
        return deployment
    events = tuple(one(e) for e in deployment.events)
    if events == deployment.events:
        return deployment
    told = f"read as the shuffle model: {setting.n:g} reports of a local randomizer, without sender or order (shuffled_reports)"
    return replace(deployment, events=events, notes=(*deployment.notes, Diagnostic("DP648", "info", told)))


def _beside(loader: _Loader, data: Mapping[str, Any]) -> None:
    """Parts of a description that no audit reads together."""
    for first, second, why in (
        ("channel", "events", "a channel is the whole of what is released; describe the rest, or the channel, as another audit"),
        ("channel", "tool", "a tool is audited for what it was asked; describe that as events or under tool"),
    ):
        if data.get(first) is not None and data.get(second) is not None:
            loader.say("DP672", f"{first} and {second} stand beside each other", (first,), why)
    claim = data.get("claim")
    one_report = isinstance(claim, Mapping) and claim.get("epsilon_one_report") is not None
    if loader.strict and one_report and data.get("channel") is None:
        loader.say("DP672", "epsilon_one_report is about a channel, and none is described", ("claim", "epsilon_one_report"))


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
