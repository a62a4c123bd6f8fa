"""What became weaker or stronger between two plans: privacy, accuracy, cost.

Privacy is compared by implication (:mod:`dpspec.compiler.promise`): ``stronger`` where the new promise implies the old one, ``weaker``
where the old one implies the new one, ``incomparable`` where neither is shown. What this module does not understand is incomparable,
never equal: unknown keys and words, a part of the analysis that it does not know, another file, a plan that does not carry its text.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from dpspec.compiler.promise import COMPUTED, NotUnderstood, Promise, implies, promise_of

Direction: TypeAlias = Literal["weaker", "stronger", "incomparable", "changed"]
#: The privacy of a new plan seen from the old one.
Verdict: TypeAlias = Literal["same", "weaker", "stronger", "incomparable"]
Area: TypeAlias = Literal["privacy", "accuracy", "cost", "meaning"]


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. ``area``: privacy, accuracy, cost or meaning; ``direction`` is seen from the data subject for privacy, from the
    analyst for accuracy and cost (``weaker``: larger error or cost). ``changed``: neither, and nothing that privacy rests on."""

    area: Area
    what: str
    old: Any
    new: Any
    direction: Direction

    def to_json(self) -> dict[str, Any]:
        return {"area": self.area, "what": self.what, "old": self.old, "new": self.new, "direction": self.direction}


#: Where two kinds of guarantee are compared when neither states a delta.
DELTA: Final = 1e-6

#: What the plan says in other words elsewhere, or says of itself: no difference here is one of meaning.
_APART: Final = ("format_version", "dpspec", "sha256", "diagnostics", "influence")
_TOP: Final = (*_APART, "spec", "analysis", "status", "guarantee", "risk", "releases", "files", "schedule")
#: Of the lossless schedule: what it repeats of the guarantee and the spec, and what it adds.
_SCHEDULE: Final = ("version", "model", "unit", "protects", "relation", "n", "budget", "parts", "tree")
_RELEASE: Final = (
    *("name", "task", "algorithm", "candidates", "tunables", "noise", "published", "assumptions", "bounds", "target", "cost"),
    *("schedule", "tree", "reads", "origin"),
)
_NOISE: Final = (
    *("name", "mechanism", "sensitivity", "norm", "scale", "level", "count", "per_record", "size", "sampling", "per", "reference"),
    "each",
)


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Change, ...]:
    """Differences of two plans in their JSON form, privacy first. Equal plans give an empty tuple, and no others do."""
    found = tuple(_changes(old, new))
    if not found and not matches(old, new):
        found = (Change("privacy", "something that is not understood", old.get("sha256"), new.get("sha256"), "incomparable"),)
    return tuple(sorted(found, key=lambda c: ("privacy", "meaning", "accuracy", "cost").index(c.area)))


def verdict(changes: Iterable[Change]) -> Verdict:
    """Of all privacy changes together: each alone may be weaker, and together with a stronger one they cannot be compared."""
    directions = {c.direction for c in changes if c.area == "privacy" and c.direction != "changed"}
    if not directions:
        return "same"
    if directions == {"weaker"}:
        return "weaker"
    return "stronger" if directions == {"stronger"} else "incomparable"


def matches(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether two plans say the same: everything but the version, the path of the spec and the diagnostics, floats at nine digits. Where
    only one of them was given to the second accountant, what that one adds is left out, and the hash that covers it."""
    from dpspec.compiler.plan import digest

    once = _checked(old) != _checked(new)

    def said(plan: Mapping[str, Any]) -> str:
        kept = {k: v for k, v in plan.items() if k not in ("dpspec", "diagnostics")}
        if isinstance(kept.get("spec"), Mapping):
            kept["spec"] = {k: v for k, v in kept["spec"].items() if k != "path"}
        if once and isinstance(kept.get("guarantee"), Mapping):
            kept.pop("sha256", None)
            kept["guarantee"] = {k: v for k, v in kept["guarantee"].items() if k not in COMPUTED[1:]}
        return digest(kept)

    try:
        return said(old) == said(new)
    except ValueError:  # not a number, an infinity
        return False


def _checked(plan: Mapping[str, Any]) -> bool:
    """Whether the second accountant has seen a plan; also of one whose guarantee is none."""
    g = plan.get("guarantee")
    return not isinstance(g, Mapping) or g.get("checked_by") != "" or g.get("checked_epsilon") is not None


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    promised = yield from _promise(old, new)
    if _differs(old.get("risk"), new.get("risk")):
        yield Change("privacy", "risk", old.get("risk"), new.get("risk"), "incomparable" if promised == "same" else promised)
    yield from _files(old.get("files"), new.get("files"))
    yield from _spec(old, new)
    yield from _schedule(old, new)
    yield from _unknown("", old, new, _TOP)
    if old.get("analysis") != new.get("analysis"):
        yield Change("meaning", "name", old.get("analysis"), new.get("analysis"), "changed")
    before, after = _named(old.get("releases")), _named(new.get("releases"))
    if before is not None and after is not None:
        yield from _trust(before, after)
    if before is None or after is None:
        if _differs(old.get("releases"), new.get("releases")) or before is None:
            yield Change("privacy", "releases", None, None, "incomparable")
        return
    for name in sorted(before.keys() - after.keys()):
        yield Change("meaning", f"release {name}", "present", "absent", "changed")
    for name in sorted(after.keys() - before.keys()):
        yield Change("meaning", f"release {name}", "absent", "present", "changed")
        yield from _assumptions(name, {}, after[name])
        yield from _unknown(f"{name}: ", {}, after[name], _RELEASE)
    for name in sorted(before.keys() & after.keys()):
        yield from _release(name, before[name], after[name])
    if list(before) != list(after) and before.keys() == after.keys():
        yield Change("meaning", "order of the releases", list(before), list(after), "changed")


# ----------------------------------------------------------------------------------------------------------------- promise


def _promise(old: Mapping[str, Any], new: Mapping[str, Any]) -> Generator[Change, None, Any]:
    """The differences of what is promised; returns the direction of all of it ("same" where both imply each other)."""
    try:
        p, q = promise_of(old), promise_of(new)
    except NotUnderstood as error:
        yield Change("privacy", error.where, _field(old, error.where), _field(new, error.where), "incomparable")
        return "incomparable"
    whole = _direction(p, q)
    g, h = old["guarantee"], new["guarantee"]
    told = []
    for name in ("status", "model", "protects", "unit"):
        x, y = getattr(p, name), getattr(q, name)
        if x != y:
            told.append(Change("privacy", "data" if name == "status" else name, x, y, _said(_one(p, q, name))))
    if p.neighbours != q.neighbours:  # the numbers of two relations are compared together with them
        told.append(Change("privacy", "neighbours", _with_numbers(p, g), _with_numbers(q, h), _pair(p, q)))
    elif g["kind"] == h["kind"]:
        for name in ("epsilon", "delta", "rho", "mu"):
            told += _number("privacy", name, g.get(name), h.get(name), missing=_pair(p, q))
    else:
        told += _kinds(g, h, _pair(p, q))
    if whole != "incomparable":  # one number up and another down may be one statement that follows from the other
        told = [c if c.direction == whole else replace(c, direction="changed") for c in told]
    yield from told
    if verdict(told) != whole:
        yield Change("privacy", "guarantee", _summary(p, g), _summary(q, h), "changed" if whole == "same" else whole)
    for name in COMPUTED[:1]:
        if g.get(name) != h.get(name):
            yield Change("meaning", name, g.get(name), h.get(name), "changed")
    return whole


def _field(plan: Mapping[str, Any], where: str) -> Any:
    g = plan.get("guarantee")
    name = where.rpartition(": ")[2]
    return plan.get(name) if name in ("status", "guarantee") or not isinstance(g, Mapping) else g.get(name)


def _direction(p: Promise, q: Promise) -> Any:
    forward, back = implies(q, p), implies(p, q)
    if forward and back:
        return "same"
    return "stronger" if forward else "weaker" if back else "incomparable"


def _one(p: Promise, q: Promise, name: str) -> Any:
    """The direction of one field, all others as in the old promise."""
    return _direction(p, replace(p, **{name: getattr(q, name)}))


def _pair(p: Promise, q: Promise) -> Any:
    """The direction of relation and numbers, all else as in the old promise."""
    return _said(_direction(p, replace(p, neighbours=q.neighbours, statements=q.statements)))


def _said(direction: Any) -> Any:
    """Two words for one thing are a change that privacy does not rest on."""
    return "changed" if direction == "same" else direction


def _with_numbers(p: Promise, g: Mapping[str, Any]) -> str:
    numbers = ", ".join(f"{k} {g[k]:.6g}" for k in ("epsilon", "delta", "rho", "mu") if g.get(k) is not None)
    return f"{p.neighbours} ({numbers})"


def _summary(p: Promise, g: Mapping[str, Any]) -> str:
    return f"{p.model}, {p.protects} of one {p.unit}, {_with_numbers(p, g)}"


def _kinds(g: Mapping[str, Any], h: Mapping[str, Any], direction: Any) -> Iterator[Change]:
    """Two kinds of guarantee, also through the epsilon that each implies at one delta: the larger one stated."""
    delta = max(float(g.get("delta") or 0.0), float(h.get("delta") or 0.0)) or DELTA
    at = tuple(_number("privacy", f"epsilon at delta {delta:.3g}", _epsilon(g, delta), _epsilon(h, delta), missing="incomparable"))
    yield from at
    yield Change("privacy", "kind", g.get("kind"), h.get("kind"), "changed" if at and at[0].direction == direction else direction)


def _epsilon(g: Mapping[str, Any], delta: float) -> float | None:
    from dpspec.privacy.gaussian import epsilon_of
    from dpspec.privacy.guarantees import zcdp_epsilon

    try:
        if g.get("mu") is not None:
            return float(epsilon_of(g["mu"], delta)) if g["mu"] else 0.0
        if g.get("rho") is not None:
            return float(zcdp_epsilon(g["rho"], delta))
    except (ValueError, ArithmeticError):
        return None
    return None if g.get("epsilon") is None else float(g["epsilon"])


# ---------------------------------------------------------------------------------------------------------- files and spec


def _files(old: Any, new: Any) -> Iterator[Change]:
    """Other data are other people, other public records another promise. A file that only has another name is the same."""
    if not _differs(old, new):
        return
    before, after = _by_role(old), _by_role(new)
    if before is None or after is None:
        yield Change("privacy", "files", old, new, "incomparable")
        return
    for role in sorted({*before, *after}):
        a, b = before.get(role), after.get(role)
        if not _differs(a, b):
            continue
        renamed = a is not None and b is not None and a.get("sha256") is not None and {**a, "path": ""} == {**b, "path": ""}
        yield Change("meaning" if renamed else "privacy", f"file of {role}", a, b, "changed" if renamed else "incomparable")


def _by_role(files: Any) -> dict[str, Mapping[str, Any]] | None:
    if files is None:
        return {}
    if not isinstance(files, Sequence) or isinstance(files, str) or not all(isinstance(f, Mapping) for f in files):
        return None
    found: dict[str, Mapping[str, Any]] = {}
    for f in files:
        role = f.get("role")
        if not isinstance(role, str):
            return None
        key, i = role, 2
        while key in found:  # several files of one role, in their order
            key, i = f"{role} {i}", i + 1
        found[key] = f
    return found


#: Fields of the analysis that other parts of the plan speak for.
_ELSEWHERE: Final = {
    "name",
    *("data.status", "data.unit", "data.identified", "data.neighbours"),
    *("privacy.model", "privacy.labels_only", "privacy.attribute", "privacy.epsilon", "privacy.delta", "privacy.rho", "privacy.mu"),
    *("releases.name", "releases.task", "releases.by"),
}
#: Fields that decide what is computed or how well, and not what is promised about a unit.
_MEANING: Final = {
    *("data.n", "data.d", "data.constants", "data.domains", "assume", "simulate", "study", "releases.expect", "releases.share"),
}


def _spec(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    """Differences of the two analyses. Fields that are not listed above (the data source, columns and encodings, public records, parts,
    whatever a later version adds) are incomparable: they say whose records are protected, and when."""
    a, b = old.get("spec"), new.get("spec")
    if not isinstance(a, Mapping) or not isinstance(b, Mapping):
        if a != b:
            yield Change("privacy", "spec", a, b, "incomparable")
        return
    yield from _unknown("spec: ", a, b, ("path", "sha256", "text"))
    if a.get("sha256") == b.get("sha256") and a.get("text") == b.get("text"):
        return
    first, second = _model(a), _model(b)
    if first is None or second is None:
        yield Change("privacy", "the analysis, whose text the plan does not carry", a.get("sha256"), b.get("sha256"), "incomparable")
        return
    known = False
    for path, x, y in _fields(first, second):
        known = True
        if path in _ELSEWHERE:
            continue
        if path in _MEANING:
            yield Change("meaning", path, x, y, "changed")
        elif path == "privacy.public" and (x is None or y is None):
            yield Change("privacy", path, x, y, "weaker" if x is None else "stronger")
        else:
            yield Change("privacy", path, x, y, "incomparable")
    if not known:
        yield Change("privacy", "the analysis", a.get("sha256"), b.get("sha256"), "incomparable")


def _schedule(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    """The calibrated tree is the mechanism: what it costs is the guarantee. What it says again of relation, unit and model must be what the
    guarantee says."""
    a, b = old.get("schedule"), new.get("schedule")
    if not _differs(a, b):
        return
    if not isinstance(a, Mapping) or not isinstance(b, Mapping):
        yield Change("privacy", "schedule", None if a is None else "present", None if b is None else "present", "incomparable")
        return
    yield from _unknown("schedule: ", a, b, _SCHEDULE)
    g, h = old.get("guarantee"), new.get("guarantee")
    for key in ("model", "unit", "protects", "relation"):
        said = "neighbours" if key == "relation" else key
        if _differs(a.get(key), b.get(key)) and (not isinstance(g, Mapping) or not isinstance(h, Mapping) or g.get(said) == h.get(said)):
            yield Change("privacy", f"schedule: {key}", a.get(key), b.get(key), "incomparable")
    for key in ("version", "parts"):
        if _differs(a.get(key), b.get(key)):
            yield Change("privacy", f"schedule: {key}", a.get(key), b.get(key), "incomparable")
    for key in ("n", "budget", "tree"):
        if _differs(a.get(key), b.get(key)):
            yield Change("meaning", f"schedule: {key}", a.get(key), b.get(key), "changed")


def _model(spec: Mapping[str, Any]) -> dict[str, Any] | None:
    """The analysis that a plan carries, as plain data, when it is the one that the plan's hash names."""
    from dpspec.lang.source import parse_text
    from dpspec.spec.diagnostics import SpecError

    text = spec.get("text")
    if not isinstance(text, str) or hashlib.sha256(text.encode()).hexdigest() != spec.get("sha256"):
        return None
    try:
        body: dict[str, Any] = parse_text(text, path="<plan>", surface="dps").analysis.model_dump(mode="json")
    except SpecError:
        return None
    return body


def _fields(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for section in sorted({*a, *b}):
        x, y = a.get(section), b.get(section)
        if x == y:
            continue
        if section in ("data", "privacy") and isinstance(x, Mapping) and isinstance(y, Mapping):
            yield from ((f"{section}.{k}", x.get(k), y.get(k)) for k in sorted({*x, *y}) if x.get(k) != y.get(k))
        elif section == "releases" and isinstance(x, list) and isinstance(y, list):
            yield from _release_fields(x, y)
        else:
            yield section, x, y


def _release_fields(x: Sequence[Mapping[str, Any]], y: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Any, Any]]:
    before, after = {r["name"]: r for r in x}, {r["name"]: r for r in y}
    if list(before) != list(after):
        yield "releases.name", list(before), list(after)
    for name in sorted({*before, *after}):
        a, b = before.get(name, {}), after.get(name, {})
        for key in sorted({*a, *b}):
            if a.get(key) != b.get(key):
                yield f"releases.{key}", a.get(key), b.get(key)


def _unknown(where: str, a: Mapping[str, Any], b: Mapping[str, Any], known: Iterable[str]) -> Iterator[Change]:
    """Keys without a meaning here, where they differ."""
    for key in sorted({*a, *b}.difference(known)):
        if key not in a or key not in b or _differs(a[key], b[key]):
            yield Change("privacy", f"{where}{key}", a.get(key), b.get(key), "incomparable")


# ---------------------------------------------------------------------------------------------------------------- releases


def _named(rows: Any) -> dict[str, Mapping[str, Any]] | None:
    """Rows by their name; None for anything that is not a list of rows with names of their own."""
    if not isinstance(rows, list) or not all(isinstance(r, Mapping) and isinstance(r.get("name"), str) for r in rows):
        return None
    found = {r["name"]: r for r in rows}
    return found if len(found) == len(rows) else None


def _release(name: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Change]:
    yield from _unknown(f"{name}: ", a, b, _RELEASE)
    for key in ("task", "algorithm", "schedule", "tree"):
        if _differs(a.get(key), b.get(key)):
            yield Change("meaning", f"{name}: {key}", a.get(key), b.get(key), "changed")
    old, new = _mapping(a, "tunables"), _mapping(b, "tunables")
    for key in sorted({*old, *new}):
        x, y = _value(old.get(key)), _value(new.get(key))
        if _differs(x, y):
            yield Change("meaning", f"{name}: {key}", x, y, "changed")
    yield from _noise(name, a.get("noise"), b.get("noise"))
    yield from _assumptions(name, a, b)
    for x, y in zip(_rows(a, "bounds"), _rows(b, "bounds"), strict=False):
        if (
            x.get("measure") == y.get("measure")
            and x.get("kind") == y.get("kind") == "explicit"
            and x.get("type") == y.get("type") == "upper"
        ):
            yield from _number("accuracy", f"{name}: bound on {x['measure']}", x.get("value"), y.get("value"))
    old, new = _mapping(a, "cost"), _mapping(b, "cost")
    for item in sorted({*old, *new}):
        yield from _number("cost", f"{name}: {item}", old.get(item), new.get(item))


def _trust(before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]]) -> Iterator[Change]:
    """From whom the releases are hidden beside their readers, in the central model: the settings that the cards list under ``trust``. The
    numbers of a guarantee do not tell."""
    x, y = ({_trusted(r) for r in releases.values()} for releases in (before, after))
    if x != y:
        yield Change("privacy", "whom it is hidden from", _parties(x - y or x), _parties(y - x or y), "incomparable")


def _trusted(release: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """What of a release's trust is not a trusted curator."""
    from dpspec.algorithms.registry import UnknownAlgorithm, get

    settings = _mapping(release, "tunables")
    try:
        card = get(str(release.get("algorithm"))).CARD
    except UnknownAlgorithm:
        return (("algorithm", repr(release.get("algorithm"))),)
    values = {name: (_value(settings.get(name)), curator) for name, curator in card.trust.items()}
    return tuple(sorted((name, repr(value)) for name, (value, curator) in values.items() if value != curator))


def _parties(found: Iterable[tuple[tuple[str, str], ...]]) -> str:
    texts = (" ".join(f"{name} = {value}" for name, value in one) or "readers alone (a trusted curator)" for one in found)
    return "; ".join(sorted(texts))


def _mapping(release: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = release.get(key)
    return found if isinstance(found, Mapping) else {}


def _rows(release: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = release.get(key)
    return [row for row in found if isinstance(row, Mapping)] if isinstance(found, list) else []


def _value(setting: Any) -> Any:
    return setting.get("value") if isinstance(setting, Mapping) else setting


def _noise(name: str, old: Any, new: Any) -> Iterator[Change]:
    before, after = _named(old), _named(new)
    if before is None or after is None:
        if _differs(old, new):
            yield Change("privacy", f"{name}: noise", old, new, "incomparable")
        return
    for draw in sorted({*before, *after}):
        a, b = before.get(draw), after.get(draw)
        if a is None or b is None:
            yield Change("meaning", f"{name}: draw {draw}", a and a.get("mechanism"), b and b.get("mechanism"), "changed")
            yield from _sampling(f"{name}: sampling of {draw}", None, b and b.get("sampling"))
            continue
        yield from _unknown(f"{name}: {draw}: ", a, b, _NOISE)
        if a.get("mechanism") == b.get("mechanism"):
            yield from _number("accuracy", f"{name}: noise scale of {draw}", a.get("scale"), b.get("scale"))
        for key in ("mechanism", "sensitivity", "norm", "count", "per_record", "size", "per"):
            if _differs(a.get(key), b.get(key)):
                yield Change("meaning", f"{name}: {key} of {draw}", a.get(key), b.get(key), "changed")
        yield from _sampling(f"{name}: sampling of {draw}", a.get("sampling"), b.get("sampling"))


def _sampling(what: str, a: Any, b: Any) -> Iterator[Change]:
    """The stated guarantee counts a sample as long as nobody learns who was drawn: a condition more (or less)."""
    if not _differs(a, b):
        return
    if a is None or b is None:
        yield Change("privacy", what, a, b, "weaker" if a is None else "stronger")
    elif isinstance(a, Mapping) and isinstance(b, Mapping) and {**a, "rate": 0} == {**b, "rate": 0}:
        yield Change("meaning", what, a, b, "changed")
    else:
        yield Change("privacy", what, a, b, "incomparable")


_HELD: Final = ("proved", "enforced", "tested", "declared")


def _assumptions(name: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Change]:
    """What privacy rests on: ``declared`` is a word and nothing more. An assumption that the new plan does without is no loss."""
    before = {(s.get("name"), s.get("role")): s.get("status") for s in _rows(a, "assumptions")}
    for s in _rows(b, "assumptions"):
        key, status = (s.get("name"), s.get("role")), s.get("status")
        private = s.get("role") != "utility"
        area: Area = "privacy" if private else "accuracy"
        if status not in _HELD or s.get("role") not in ("privacy", "utility"):
            if before.get(key) != status or key not in before:
                yield Change("privacy", f"{name}: assumption {s.get('name')}", before.get(key), status, "incomparable")
        elif key not in before:
            if private and status in ("declared", "tested"):
                yield Change(area, f"{name}: assumption {s.get('name')}", None, status, "weaker")
        elif before[key] != status:
            direction: Direction = "changed"
            if "declared" in (before[key], status):
                direction = "weaker" if status == "declared" else "stronger"
            elif private and "tested" in (before[key], status):
                direction = "weaker" if status == "tested" else "stronger"
            yield Change(area, f"{name}: assumption {s.get('name')}", before[key], status, direction)


def _number(area: Area, what: str, old: Any, new: Any, *, missing: Direction = "changed") -> Iterator[Change]:
    """Larger is weaker. ``missing``: the direction where one of the two has no such number."""
    if not _differs(old, new):
        return
    if not _is_number(old) or not _is_number(new):
        yield Change(area, what, old, new, missing)
        return
    yield Change(area, what, old, new, "weaker" if new > old else "stronger")


def _is_number(a: Any) -> bool:
    return isinstance(a, (int, float)) and not isinstance(a, bool) and math.isfinite(a)


def _differs(a: Any, b: Any) -> bool:
    """Numbers up to a relative 1e-9, through lists and mappings."""
    if _is_number(a) and _is_number(b):
        return bool(abs(a - b) > 1e-9 * max(abs(a), abs(b)))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() != b.keys() or any(_differs(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) != len(b) or any(_differs(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is not type(b) or bool(a != b)
