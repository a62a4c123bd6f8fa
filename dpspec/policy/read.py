"""``policy.yaml``: the words of a policy as tables, the strict reader, and the JSON Schema from the same tables."""

from __future__ import annotations

import datetime
import difflib
import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpspec.spec.diagnostics import Diagnostic, Span, SpecError

NAMES = ("policy.yaml", "policy.yml")
Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """What a value may be: its JSON Schema, and a function that reads it or raises ValueError with what it should be."""

    schema: Mapping[str, Any]
    read: Callable[[Any], Any]


def _number(value: Any, low: Fraction | None, high: Fraction | None) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("a number")
    try:
        found = Fraction(repr(value))  # 1e-6 is a millionth, not the nearest double
    except (ValueError, ZeroDivisionError):
        raise ValueError("a finite number") from None
    if (low is not None and found < low) or (high is not None and found >= high):
        raise ValueError(f"a number of at least {low}" + ("" if high is None else f" and below {high}"))
    return found


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text that is not empty")
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("a whole number of at least 1")
    return value


def _date(value: Any) -> datetime.date:
    try:
        return datetime.date.fromisoformat(value)
    except (TypeError, ValueError):
        raise ValueError("a date, as 2027-01-31") from None


def _words(known: Callable[[], tuple[str, ...]] | None) -> Callable[[Any], tuple[str, ...]]:
    def read(value: Any) -> tuple[str, ...]:
        items = value if isinstance(value, list) else [value]
        if not items:
            raise ValueError("a word or a list of words, not an empty one")
        for item in items:
            _text(item)
            if known is not None and item not in known():
                raise ValueError(f"known words, and {item!r} is none{_near(item, known())}")
        return tuple(items)

    return read


def _near(word: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(word, known, 1, 0.5)
    return f" (the nearest is {close[0]!r})" if close else f" (known: {', '.join(known)})" if len(known) < 12 else ""


def _forbid(value: Any) -> bool:
    if value != "forbid":
        raise ValueError("the word `forbid`; leave it out to allow")
    return True


def _algorithms() -> tuple[str, ...]:
    from dpspec.algorithms.registry import ids

    return ids()


def _mechanisms() -> tuple[str, ...]:
    from dpspec.privacy.forms import classes

    return tuple(sorted(classes()))


def _relations() -> tuple[str, ...]:
    from dpspec.spec.words import RELATIONS

    return tuple(RELATIONS)


def _models() -> tuple[str, ...]:
    from dpspec.spec.words import MODELS

    return tuple(MODELS)


_STRING = {"type": "string", "minLength": 1}
_LIST = {"anyOf": [_STRING, {"type": "array", "items": _STRING, "minItems": 1}]}
TEXT = Kind(_STRING, _text)
WORDS = Kind(_LIST, _words(None))
AMOUNT = Kind({"type": "number", "minimum": 0}, lambda v: _number(v, Fraction(0), None))
DELTA = Kind({"type": "number", "minimum": 0, "exclusiveMaximum": 1}, lambda v: _number(v, Fraction(0), Fraction(1)))
DATE = Kind({"type": "string", "format": "date"}, _date)
FIELDS = ("owner", "purpose", "ticket", "review")

WHERE: dict[str, Kind] = {
    "specs": WORDS,
    "data": WORDS,
    "audience": WORDS,
    "unit": WORDS,
    "relation": Kind(_LIST, _words(_relations)),
    "model": Kind(_LIST, _words(_models)),
}
RULE: dict[str, Kind] = {
    "name": TEXT,
    "epsilon": AMOUNT,
    "delta": DELTA,
    "rho": AMOUNT,
    "mu": AMOUNT,
    "relation": Kind(_LIST, _words(_relations)),
    "unit": WORDS,
    "least-n": Kind({"type": "integer", "minimum": 1}, _whole),
    "allow": Kind(_LIST, _words(_algorithms)),
    "forbid": Kind(_LIST, _words(_algorithms)),
    "noise": Kind(_LIST, _words(_mechanisms)),
    "declared": Kind({"const": "forbid"}, _forbid),
    "delta-exponent": AMOUNT,
    "require": Kind(_LIST, _words(lambda: FIELDS)),
}
TOTAL: dict[str, Kind] = {"name": TEXT, "epsilon": AMOUNT, "delta": DELTA, "rho": AMOUNT, "mu": AMOUNT}
ENTRY: dict[str, Kind] = {"data": TEXT, "audience": TEXT, "owner": TEXT, "purpose": TEXT, "ticket": TEXT, "review": DATE}
WAIVER: dict[str, Kind] = {"spec": TEXT, "rule": TEXT, "reason": TEXT, "owner": TEXT, "expires": DATE}
TOP = ("policy", "rules", "totals", "specs", "waivers")


@dataclass(frozen=True, slots=True)
class Item:
    """A rule, a total, an entry or a waiver: its values by word, ``where`` it applies, and the place of it and of each word."""

    values: Mapping[str, Any]
    where: Mapping[str, tuple[str, ...]]
    place: Place


@dataclass(frozen=True, slots=True)
class Policy:
    """``path``, ``text`` and ``spans`` are for findings. ``specs``: entries by the path of the spec, relative to the policy's folder."""

    path: Path
    text: str
    spans: Mapping[Place, Span]
    rules: tuple[Item, ...]
    totals: tuple[Item, ...]
    specs: Mapping[str, Item]
    waivers: tuple[Item, ...]

    def at(self, *place: str | int) -> str:
        """``file:line:column`` of the longest known part of a place."""
        span = self.span(*place)
        return f"{self.path}:{span.line}:{span.column}" if span else str(self.path)

    def span(self, *place: str | int) -> Span | None:
        """Of the longest known part of a place."""
        while place and place not in self.spans:
            place = place[:-1]
        return self.spans.get(place)

    def name_of(self, spec: Path) -> str:
        """The path of a spec as the policy says it."""
        import os

        return os.path.relpath(spec.resolve(), self.path.resolve().parent).replace(os.sep, "/")


def find(spec: Path) -> Path | None:
    """The policy of a spec: the nearest one in its folder or above, inside its git repository where it is in one."""
    for folder in spec.resolve().parents:
        for name in NAMES:
            if (folder / name).is_file():
                return folder / name
        if (folder / ".git").exists():
            break
    return None


def read(path: Path) -> Policy:
    """A policy. Raises :class:`SpecError` with DP750 and the place of everything that is wrong."""
    from dpspec.audit.yamlread import read_yaml

    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise SpecError([Diagnostic("DP750", "error", f"{path} is not UTF-8", "store it as UTF-8")], path=str(path)) from None
    try:
        found = read_yaml(text, str(path))
    except SpecError as error:
        raise SpecError(
            [Diagnostic("DP750", "error", d.message, "mend the YAML", d.span) for d in error.diagnostics], path=str(path), text=text
        ) from None
    reader = _Reader(found.spans)
    policy = reader.policy(path, text, found.data)
    if reader.wrong:
        raise SpecError(reader.wrong, path=str(path), text=text)
    return policy


class _Reader:
    def __init__(self, spans: Mapping[Place, Span]) -> None:
        self.spans, self.wrong = spans, list[Diagnostic]()

    def bad(self, place: Place, message: str, help: str) -> None:
        self.wrong.append(Diagnostic("DP750", "error", message, help, self.spans.get(place, Span(1, 1, 1, 2))))

    def mapping(self, value: Any, place: Place, known: tuple[str, ...]) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.bad(place, f"{_said(place)} is no mapping", f"write WORD: VALUE, of {', '.join(known)}" if known else "write NAME: ...")
            return {}
        for key in value:
            if known and key not in known:
                self.bad((*place, key), f"unknown word {key!r} in {_said(place)}{_near(key, known)}", f"known: {', '.join(known)}")
        return value

    def item(self, value: Any, place: Place, table: Mapping[str, Kind], needs: tuple[str, ...], where: bool) -> Item:
        body = self.mapping(value, place, (*table, *(("where",) if where else ())))
        values = self.values(body, place, table)
        chosen = (
            self.values(self.mapping(body["where"], (*place, "where"), tuple(WHERE)), (*place, "where"), WHERE) if "where" in body else {}
        )
        for word in needs:
            if isinstance(value, dict) and word not in body:
                self.bad(place, f"{_said(place)} lacks `{word}`", f"add {word}: ...")
        return Item(values, chosen, place)

    def values(self, body: Mapping[str, Any], place: Place, table: Mapping[str, Kind]) -> dict[str, Any]:
        values = {}
        for word in [w for w in table if w in body]:
            try:
                values[word] = table[word].read(body[word])
            except ValueError as error:
                self.bad(
                    (*place, word), f"`{word}` of {_said(place)} is {body[word]!r}; it must be {error}", f"write {word}: with such a value"
                )
        return values

    def listed(
        self, body: Mapping[str, Any], word: str, table: Mapping[str, Kind], needs: tuple[str, ...], where: bool
    ) -> tuple[Item, ...]:
        value = body.get(word, [])
        if not isinstance(value, list):
            self.bad((word,), f"`{word}` is no list", "write an item after a dash")
            return ()
        return tuple(self.item(v, (word, i), table, needs, where) for i, v in enumerate(value))

    def policy(self, path: Path, text: str, data: Any) -> Policy:
        body = self.mapping(data, (), TOP)
        if isinstance(data, dict) and (body.get("policy") != 1 or isinstance(body.get("policy"), bool)):
            self.bad(("policy",), "a policy states its version", "write policy: 1")
        rules = self.listed(body, "rules", RULE, ("name",), True)
        totals = self.listed(body, "totals", TOTAL, ("name",), True)
        waivers = self.listed(body, "waivers", WAIVER, tuple(WAIVER), False)
        listed = self.mapping(body.get("specs", {}), ("specs",), ())
        specs = {str(k): self.item(v, ("specs", k), ENTRY, (), False) for k, v in listed.items()}
        self.names(path, rules, totals, specs, waivers)
        return Policy(path, text, self.spans, rules, totals, specs, waivers)

    def names(
        self, path: Path, rules: tuple[Item, ...], totals: tuple[Item, ...], specs: Mapping[str, Item], waivers: tuple[Item, ...]
    ) -> None:
        """Names are used once, do something, and waivers and entries name what is there."""
        seen: set[str] = set()
        for item in (*rules, *totals):
            name = item.values.get("name")
            if name in seen:
                self.bad((*item.place, "name"), f"the name {name!r} is used twice", "give each rule and total a name of its own")
            seen.add(str(name))
            if len(item.values) < 2:
                self.bad(item.place, f"{name!r} states nothing", "add a limit or a requirement")
            if item.place[0] == "totals" and ("delta" in item.values) and "epsilon" not in item.values:
                self.bad((*item.place, "delta"), f"the total {name!r} states delta without epsilon", "add epsilon: ...")
        known = tuple(f"{r.values.get('name')}.{w}" for r in rules for w in r.values if w != "name")
        known += tuple(f"{r.values.get('name')}.review" for r in rules if "require" in r.values)
        for waiver in waivers:
            rule = waiver.values.get("rule", "")
            if rule and rule not in known:
                self.bad(
                    (*waiver.place, "rule"), f"no rule {rule!r} to waive{_near(rule, known)}", "write NAME.WORD, of a rule and its word"
                )
            self.there(path, waiver.values.get("spec", ""), (*waiver.place, "spec"))
        for name in specs:
            self.there(path, name, ("specs", name))
        for item in (*rules, *totals):
            for pattern in item.where.get("specs", ()):
                place = (*item.place, "where", "specs")
                if not any(c in pattern for c in "*?["):
                    self.there(path, pattern, place)
                elif posixpath.normpath(pattern) != pattern:
                    self.bad(place, f"{pattern!r} matches no spec", f"write {posixpath.normpath(pattern)!r}")

    def there(self, path: Path, name: str, place: Place) -> None:
        if name and posixpath.normpath(name) != name:
            self.bad(place, f"{name!r} is not how a spec is named", f"write {posixpath.normpath(name)!r}")
        elif name and not (path.parent / name).is_file():
            self.bad(place, f"there is no spec {name!r} beside the policy", "write its path from the policy's folder, with /")


def _said(place: Place) -> str:
    return "the policy" if not place else "`" + ".".join(str(p) for p in place) + "`"


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft-07) of ``policy.yaml``. Names of algorithms and relations are left to the reader."""

    def of(table: Mapping[str, Kind], needs: tuple[str, ...], where: bool) -> dict[str, Any]:
        properties: dict[str, Any] = {word: dict(kind.schema) for word, kind in table.items()}
        if where:
            properties["where"] = of(WHERE, (), False)
        return {"type": "object", "properties": properties, "required": list(needs), "additionalProperties": False}

    def many(table: Mapping[str, Kind], needs: tuple[str, ...], where: bool) -> dict[str, Any]:
        return {"type": "array", "items": of(table, needs, where)}

    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "dpspec policy",
        "type": "object",
        "properties": {
            "policy": {"const": 1},
            "rules": many(RULE, ("name",), True),
            "totals": many(TOTAL, ("name",), True),
            "specs": {"type": "object", "additionalProperties": of(ENTRY, (), False)},
            "waivers": many(WAIVER, tuple(WAIVER), False),
        },
        "required": ["policy"],
        "additionalProperties": False,
    }
