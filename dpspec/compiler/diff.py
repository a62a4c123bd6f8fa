"""What became weaker or stronger between two plans: privacy, accuracy, cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Direction: TypeAlias = Literal["weaker", "stronger", "changed"]


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. ``area``: privacy, accuracy, cost or meaning; ``direction`` is seen from the data subject for privacy, from the
    analyst for accuracy and cost (``weaker``: larger error or cost)."""

    area: Literal["privacy", "accuracy", "cost", "meaning"]
    what: str
    old: Any
    new: Any
    direction: Direction

    def to_json(self) -> dict[str, Any]:
        return {"area": self.area, "what": self.what, "old": self.old, "new": self.new, "direction": self.direction}


#: Where two kinds of guarantee are compared when neither states a delta.
DELTA = 1e-6


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Change, ...]:
    """Differences of two plans in their JSON form, privacy first. Equal plans give an empty tuple, and no others do."""
    found = tuple(_changes(old, new))
    if not found and old.get("sha256") != new.get("sha256"):
        return (Change("meaning", "the analysis", old.get("sha256"), new.get("sha256"), "changed"),)
    return found


def _kinds(g: Mapping[str, Any], h: Mapping[str, Any]) -> Iterator[Change]:
    """Two kinds of guarantee, through the epsilon that each implies at one delta: the larger one stated."""
    delta = max(float(g.get("delta") or 0.0), float(h.get("delta") or 0.0)) or DELTA
    yield from _number("privacy", f"epsilon at delta {delta:.3g}", _epsilon(g, delta), _epsilon(h, delta))
    a, b = g.get("kind"), h.get("kind")
    yield Change("privacy", "kind", a, b, "weaker" if a == "pure" else "stronger" if b == "pure" else "changed")


def _epsilon(g: Mapping[str, Any], delta: float) -> float | None:
    from dpspec.privacy.gaussian import epsilon_of
    from dpspec.privacy.guarantees import zcdp_epsilon

    if g.get("mu") is not None:
        return float(epsilon_of(g["mu"], delta))
    if g.get("rho") is not None:
        return float(zcdp_epsilon(g["rho"], delta))
    return None if g.get("epsilon") is None else float(g["epsilon"])


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    g, h = old["guarantee"], new["guarantee"]
    if g.get("kind") == h.get("kind"):
        for name in ("epsilon", "delta", "rho", "mu"):
            yield from _number("privacy", name, g.get(name), h.get(name))
    else:
        yield from _kinds(g, h)
    for name in ("model", "neighbours", "unit", "protects"):
        if g.get(name) != h.get(name):
            yield Change("privacy", name, g.get(name), h.get(name), _word(name, g.get(name), h.get(name)))
    if old.get("status") != new.get("status"):
        yield Change("privacy", "data", old.get("status"), new.get("status"), _word("status", old.get("status"), new.get("status")))
    before = {r["name"]: r for r in old["releases"]}
    after = {r["name"]: r for r in new["releases"]}
    for name in before.keys() - after.keys():
        yield Change("meaning", f"release {name}", "present", "absent", "changed")
    for name in after.keys() - before.keys():
        yield Change("meaning", f"release {name}", "absent", "present", "changed")
    for name in sorted(before.keys() & after.keys()):
        yield from _release(name, before[name], after[name])


def _release(name: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Change]:
    if a["task"] != b["task"]:
        yield Change("meaning", f"{name}: task", a["task"], b["task"], "changed")
    if a["algorithm"] != b["algorithm"]:
        yield Change("meaning", f"{name}: algorithm", a["algorithm"], b["algorithm"], "changed")
    for key in sorted({*a["tunables"], *b["tunables"]}):
        x, y = a["tunables"].get(key, {}).get("value"), b["tunables"].get(key, {}).get("value")
        if _differs(x, y):
            yield Change("meaning", f"{name}: {key}", x, y, "changed")
    old_noise = {row["name"]: row for row in a["noise"]}
    for row in b["noise"]:
        before = old_noise.get(row["name"])
        if before is not None and before["mechanism"] == row["mechanism"]:
            yield from _number("accuracy", f"{name}: noise scale of {row['name']}", before["scale"], row["scale"])
    old_assumptions = {(s["name"], s["role"]): s["status"] for s in a["assumptions"]}
    for s in b["assumptions"]:
        was = old_assumptions.get((s["name"], s["role"]))
        if was is not None and was != s["status"]:
            area: Literal["privacy", "accuracy"] = "privacy" if s["role"] == "privacy" else "accuracy"
            yield Change(area, f"{name}: assumption {s['name']}", was, s["status"], "weaker" if s["status"] == "declared" else "stronger")
    for x, y in zip(a["bounds"], b["bounds"], strict=False):
        if x["measure"] == y["measure"] and x["kind"] == y["kind"] == "explicit" and x["type"] == y["type"] == "upper":
            yield from _number("accuracy", f"{name}: bound on {x['measure']}", x["value"], y["value"])
    for item in sorted({*a["cost"], *b["cost"]}):
        yield from _number("cost", f"{name}: {item}", a["cost"].get(item), b["cost"].get(item))


def _number(area: Literal["privacy", "accuracy", "cost"], what: str, old: float | None, new: float | None) -> Iterator[Change]:
    if not _differs(old, new):
        return
    if old is None or new is None:
        yield Change(area, what, old, new, "changed")
        return
    yield Change(area, what, old, new, "weaker" if new > old else "stronger")


def _differs(a: Any, b: Any) -> bool:
    if isinstance(a, (int, float)) and isinstance(b, (int, float)) and not isinstance(a, bool):
        return abs(a - b) > 1e-9 * max(abs(a), abs(b))
    return bool(a != b)


_ORDER = {
    "model": ("central", "sldp", "nldp"),
    "status": ("public", "private"),
}


def _word(name: str, old: Any, new: Any) -> Direction:
    if name == "neighbours" and "replace-one" in (old, new):  # replacing a record is removing one and adding another
        return "stronger" if new == "replace-one" else "weaker"
    if name == "protects" and "records" in (old, new):
        return "stronger" if new == "records" else "weaker"
    order = _ORDER.get(name, ())
    if old in order and new in order:
        return "stronger" if order.index(new) > order.index(old) else "weaker"
    return "changed"
