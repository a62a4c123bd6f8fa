"""What of a policy a plan breaks: plans are read as data (``Plan.to_json``), and costs come from their schedules.

A limit holds where the plan states it, or where the schedule shows it: ``rho`` and ``mu`` by the ledger's costs, ``epsilon`` at the rule's
``delta`` by the ledger's total, which is valid for plans that were fixed in advance, as those of a repository are. A rule that selects by
``data`` or ``audience`` also holds for a spec whose entry does not say it: nobody leaves a rule by saying nothing.
"""

from __future__ import annotations

import datetime
import fnmatch
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpspec.lang.spans import SourceMap
from dpspec.policy.read import Item, Policy
from dpspec.spec.diagnostics import Diagnostic, Related

CODE = {
    "epsilon": "DP751",
    "delta": "DP751",
    "rho": "DP751",
    "mu": "DP751",
    "relation": "DP752",
    "unit": "DP752",
    "least-n": "DP753",
    "allow": "DP754",
    "forbid": "DP754",
    "noise": "DP763",
    "declared": "DP755",
    "delta-exponent": "DP756",
    "review": "DP757",
    "require": "DP758",
}


@dataclass(frozen=True, slots=True)
class Planned:
    """A spec with its plan as data, and where its parts stand."""

    path: Path
    body: Mapping[str, Any]
    spans: SourceMap


@dataclass(frozen=True, slots=True)
class Breach:
    """``word`` of a rule is broken: what is the case, the remedy, and the model path of its place in the spec."""

    word: str
    message: str
    help: str
    place: tuple[str | int, ...]


def today() -> datetime.date:
    return datetime.datetime.now(datetime.UTC).date()


def findings(policy: Policy, plan: Planned, day: datetime.date) -> list[Diagnostic]:
    """What one plan breaks of the rules, with waivers taken into account, in the order of the policy."""
    name = policy.name_of(plan.path)
    found: list[Diagnostic] = []
    for rule in policy.rules:
        if not applies(policy, rule, plan):
            continue
        for breach in _breaches(policy, rule, plan, day):
            found += _judged(policy, rule, breach, plan, name, day)
    return found


def expired(policy: Policy, day: datetime.date, spec: str | None = None) -> list[Diagnostic]:
    """Waivers (of one ``spec``, as the policy names it) whose day has passed, at their place in the policy; of use or not, they are errors
    until somebody looks."""
    return [
        Diagnostic(
            "DP760",
            "error",
            f"the waiver of {w.values['rule']} for {w.values['spec']} expired on {w.values['expires']}",
            f"remove it, or have {w.values['owner']} renew it",
            policy.spans.get((*w.place, "expires")),
        )
        for w in policy.waivers
        if w.values["expires"] < day and spec in (None, w.values["spec"])
    ]


def applies(policy: Policy, item: Item, plan: Planned) -> bool:
    name = policy.name_of(plan.path)
    g = plan.body["guarantee"]
    entry = policy.specs.get(name)
    says: dict[str, Any] = {"relation": g["neighbours"], "model": g["model"]}
    says |= {word: None if entry is None else entry.values.get(word) for word in ("data", "audience")}
    for word, wanted in item.where.items():
        if word == "specs":
            if not any(_matches(name, pattern) for pattern in wanted):
                return False
        elif word == "unit":
            if not {*_units(g["unit"])} & {*wanted}:
                return False
        elif says[word] is not None and says[word] not in wanted:
            return False
    return True


def _units(said: str) -> tuple[str, ...]:
    """A plan's unit, and its word where a column tells units apart: who asks for persons is content with identified ones, and who asks
    for persons identified by a column is not content with a word."""
    word, by, _ = said.partition(" identified by ")
    return (said, word) if by else (said,)


def _matches(name: str, pattern: str) -> bool:
    """Whether a path is one of a pattern's; ``**/`` stands for any number of folders, none of them too, and ``*`` for what it may be."""
    return fnmatch.fnmatchcase(name, pattern) or ("**/" in pattern and _matches(name, pattern.replace("**/", "", 1)))


def _judged(policy: Policy, rule: Item, breach: Breach, plan: Planned, name: str, day: datetime.date) -> list[Diagnostic]:
    code, title = CODE[breach.word], f"{rule.values['name']}.{breach.word}"
    where = policy.at(*rule.place, breach.word)
    span = plan.spans.lookup(breach.place)
    related = (Related(str(policy.path), f"the policy's {title}", policy.span(*rule.place, breach.word)),)
    for waiver in policy.waivers:
        w = waiver.values
        if w["spec"] == name and w["rule"] == title and w["expires"] >= day:
            message = f"{breach.message}; {title} ({where}) is waived until {w['expires']} by {w['owner']}: {w['reason']}"
            return [Diagnostic("DP761", "info", message, f"mend it before {w['expires']}", span, related)]
    return [Diagnostic(code, "error", f"{breach.message}; the policy's {title} ({where})", breach.help, span, related)]


def _breaches(policy: Policy, rule: Item, plan: Planned, day: datetime.date) -> Iterator[Breach]:
    v, g, n = rule.values, plan.body["guarantee"], int(plan.body["schedule"]["n"])
    yield from _limits(v, g, [plan.body["schedule"]])
    kept = plan.body["schedule"]["protects"]
    unit = _units(g["unit"]) if kept == "records" else (f"{kept} of {g['unit']}",)  # less than what a rule that names the unit asks for
    for word, said, *others, place in (("relation", g["neighbours"], "neighbours"), ("unit", *unit, "unit")):
        if word in v and not {said, *others} & {*v[word]}:
            yield Breach(word, f"the {word} is {said}, not {_or(v[word])}", f"state {_or(v[word])}, or another spec", ("data", place))
    if n < v.get("least-n", 0):
        yield Breach("least-n", f"n = {n}, fewer than {v['least-n']} records", "collect more records", ("data", "n"))
    delta = _stated(g, "delta")
    if "delta-exponent" in v and delta is not None and delta > 0:
        most = float(n) ** -float(v["delta-exponent"])
        if delta > most * (1 + 1e-9):
            say = f"delta = {delta:g} is above 1/n^{float(v['delta-exponent']):g} = {most:g}"
            yield Breach("delta-exponent", say, f"write delta = 1/n^{float(v['delta-exponent']):g}", ("privacy", "delta"))
    yield from _of_releases(v, plan.body["releases"])
    yield from _entry(v, policy, plan, day)


def _of_releases(v: Mapping[str, Any], releases: Sequence[Mapping[str, Any]]) -> Iterator[Breach]:
    for i, release in enumerate(releases):
        name, algorithm = release["name"], release["algorithm"]
        if "allow" in v and algorithm not in v["allow"]:
            yield Breach("allow", f"{name} is by {algorithm}", f"write by {_or(v['allow'])}", ("releases", i, "by"))
        if algorithm in v.get("forbid", ()):
            yield Breach("forbid", f"{name} is by {algorithm}", "write by another algorithm", ("releases", i, "by"))
        other = sorted({row["mechanism"] for row in release["noise"]} - set(v["noise"])) if "noise" in v else []
        if other:
            message = f"{name} draws {_and(other)} noise, not only {_or(v['noise'])}"
            yield Breach("noise", message, "write by another algorithm, or another kind of budget", ("releases", i, "by"))
        rests = sorted({h for b in release["bounds"] for h in b["holds_if"]})
        if "declared" in v and rests:
            help = "prove, enforce or test it, or choose an algorithm that does not need it"
            yield Breach("declared", f"a bound of {name} holds only if {'; '.join(rests)}", help, ("releases", i))


def _entry(v: Mapping[str, Any], policy: Policy, plan: Planned, day: datetime.date) -> Iterator[Breach]:
    name = policy.name_of(plan.path)
    entry = policy.specs.get(name)
    values = {} if entry is None else entry.values
    missing = [word for word in v.get("require", ()) if word not in values]
    if missing:
        help = f"write specs: {name}: {missing[0]}: ... in {policy.path.name}"
        yield Breach("require", f"no {', no '.join(missing)} is stated for {name}", help, ("name",))
    review = values.get("review")
    if "review" in v.get("require", ()) and review is not None and review < day:
        at = policy.at("specs", name, "review")
        yield Breach("review", f"the review of {name} was due on {review} ({at})", "review it, and write the next date", ("name",))


def _stated(g: Mapping[str, Any], word: str) -> float | None:
    value = g[word]
    return 0.0 if value is None and word == "delta" and g["epsilon"] is not None else value


def _limits(v: Mapping[str, Any], g: Mapping[str, Any] | None, schedules: list[Mapping[str, Any]]) -> Iterator[Breach]:
    """The limits that schedules together pass. ``g``: what one plan states itself; None of several."""
    most = v.get("delta")
    delta = None if g is None else _stated(g, "delta")
    if g is not None and most is not None and delta is not None and _over(delta, most):
        yield Breach(
            "delta", f"delta = {delta:g} is above {float(most):g}", f"state a delta of at most {float(most):g}", ("privacy", "delta")
        )
    if "epsilon" in v:
        at = most if most is not None else Fraction(0) if delta is None else Fraction(delta)
        holds = g is not None and g["epsilon"] is not None and not _over(g["epsilon"], v["epsilon"]) and not _over(delta or 0.0, at)
        if not holds:
            spent = _epsilon(schedules, at)
            if _over(spent, v["epsilon"]):
                hint = "" if math.isfinite(spent) or at else " (none is finite: a limit for such plans states a delta too)"
                say = f"epsilon = {spent:.6g} at delta {float(at):g} is above {float(v['epsilon']):g}{hint}"
                yield Breach("epsilon", say, f"state a budget of at most epsilon = {float(v['epsilon']):g}", ("privacy", "epsilon"))
    for word in [w for w in ("rho", "mu") if w in v]:
        limit = v[word]
        if g is not None and g[word] is not None and not _over(g[word], limit):
            continue
        spent = _cost(schedules, word)
        if _over(spent, limit):
            place = ("privacy", word) if g is not None and g[word] is not None else ("privacy",)
            yield Breach(
                word, f"{word} = {spent:.6g} is above {float(limit):g}", f"state a budget of at most {word} = {float(limit):g}", place
            )


def _over(value: float, limit: Fraction) -> bool:
    """Above by more than the rounding of a budget that was stated as that number."""
    return not math.isfinite(value) or Fraction(value) > limit * (1 + Fraction(1, 10**9))


def _epsilon(schedules: list[Mapping[str, Any]], delta: Fraction) -> float:
    from dpspec.ledger.totals import counted, total

    return total(counted(schedules), delta, check=False).epsilon


def _cost(schedules: list[Mapping[str, Any]], word: str) -> float:
    from dpspec.ledger.costs import UNIT, cost_of, finite
    from dpspec.privacy.gaussian import float_up, sqrt_up

    measure = "mu2" if word == "mu" else word
    costs = [cost_of(s, (measure, "delta")) for s in schedules]
    if any(c["delta"] or not finite(c[measure]) for c in costs):  # a draw that may fail has neither
        return math.inf
    sum_ = Fraction(sum(c[measure] for c in costs), UNIT)
    return sqrt_up(sum_) if word == "mu" else float_up(sum_)


def _and(words: Sequence[str]) -> str:
    return " and ".join(words)


def _or(words: Sequence[str]) -> str:
    return " or ".join(words)


# ------------------------------------------------------------------------------------------------------------------ totals


def totals(policy: Policy, plans: Sequence[Planned]) -> list[tuple[Diagnostic, tuple[Path, ...]]]:
    """The totals that plans together pass, each with the specs that it counts; places are in the policy. Equal plans of one name
    (an analysis in two surfaces) are one release; a copy under another name is a release of its own."""
    out = []
    for item in policy.totals:
        counts = {(p.body["sha256"], _stem(p.path)): p for p in plans if applies(policy, item, p)}
        chosen = list(counts.values())
        paths = tuple(p.path for p in plans if applies(policy, item, p))
        if not chosen:
            continue
        name = item.values["name"]
        kinds = {_kind(p) for p in chosen}
        if len(kinds) > 1:
            message = f"the total {name} counts plans of unlike kinds: {' and '.join(sorted(', '.join(k) for k in kinds))}"
            found = Diagnostic("DP762", "error", message, "narrow it by `where`, one total for each kind", policy.spans.get(item.place))
            out.append((found, paths))
            continue
        for breach in _limits(item.values, None, [p.body["schedule"] for p in chosen]):
            listed = ", ".join(sorted(policy.name_of(p.path) for p in chosen))
            message = f"together {breach.message} in the policy's {name}.{breach.word} ({policy.at(*item.place, breach.word)}): {listed}"
            span = policy.spans.get((*item.place, breach.word))
            out.append((Diagnostic("DP759", "error", message, "lower budgets of these specs, or drop one", span), paths))
    return out


def _stem(path: Path) -> Path:
    """The path without the ending of its surface."""
    name = path.name
    for ending in (".dpspec.yaml", ".dpspec.yml", ".dps"):
        name = name.removesuffix(ending)
    return path.resolve().with_name(name)


def _kind(plan: Planned) -> tuple[str, str, str, str]:
    s = plan.body["schedule"]
    return str(s["unit"]), str(s["relation"]), str(s["model"]), str(s["protects"])
