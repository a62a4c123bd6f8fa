"""Our own plans and records: the guarantee rebuilt from the schedule that they carry, and every field against every other.

The document is read strictly. Each draw's cost is computed from the numbers of its noise (a level is the plan's own word and is only
compared), and composed by :mod:`dpspec.audit.schedules`. A field that is missing, that nothing uses, or that contradicts another one is
named, and there is no certificate then: ``cannot-verify``, unless the numbers refute the claim all the same. A value outside the range of
its meaning (half a use, a rate of 2) is unusable input: DP672.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ParamSpec, TypeVar

from dpspec.audit.bounds import Range, epsilon_range
from dpspec.audit.component import Breach, Component
from dpspec.audit.deployment import Claim, Deployment, Setting
from dpspec.audit.findings import withheld
from dpspec.audit.readings import Reading
from dpspec.audit.schedules import Cost, TooManyWays, components, cut, mu_squared, rho_of, ways
from dpspec.audit.verdict import LOOSE, TOLERANCE, AuditResult, StaticResult, Verdict
from dpspec.privacy.forms import FormError, from_json, is_channel, mapping, noise_of, number, only, positive, spent_of, text, whole
from dpspec.privacy.schedule import Draw, Leaf, Parallel, Sampled, Tree, draws, has_attributes
from dpspec.privacy.schedule import Sequence as Steps
from dpspec.spec.diagnostics import Diagnostic, Severity, SpecError

SCHEDULE_VERSION = 1
_CLOSE = 1e-9  # numbers of one document that say the same: the same doubles, up to a printer's last digit
_SPENT = 1e-6  # what a noise spends against its level: bisections stop there

# every field that a document may hold; another one is named and nothing is certified
_PLAN = ("format_version", "dpspec", "spec", "sha256", "analysis", "status", "guarantee", "risk", "releases", "schedule", "diagnostics")
_PLAN_MAY = ("files", "inputs", "public", "influence")  # of plans that read files; what hostile users can move says nothing about privacy
#: What `dpspec plan --format json` prints beside the plan. ``budget`` is compared; of the others, which state numbers of their own, nothing
#: is certified.
_PRINTED = ("budget",)
_STATED = ("at", "fit", "trade_off", "predictions", "against", "policy")
_FRACTION = re.compile(r"\d{1,600}(/0*[1-9]\d{0,600})?")
_RECORD = ("plan_sha256", "mode", "events", "guarantee", "schedule", "outputs")
_RECORD_MAY = ("format_version", "started", "finished", "environment", "ledger", "files", "inputs", "spec")
# fmt: off
_GUARANTEE = (
    "model", "kind", "epsilon", "delta", "rho", "mu", "neighbours", "unit", "protects", "accountant", "checked_by",
    "checked_epsilon",
)
# fmt: on
_RELEASE = ("name", "task", "algorithm", "candidates", "tunables", "noise", "published", "assumptions", "bounds", "target", "cost")
_RELEASE_MAY = ("reads",)  # how the records are read, which says nothing about privacy
_ROW = ("name", "mechanism", "sensitivity", "norm", "scale", "level", "count", "per_record", "size", "sampling", "per", "reference")
_ROW_MAY = ("each",)  # how often a user draws, where it draws for every attribute
# fmt: off
_EVENT = (
    "release", "name", "mechanism", "per", "level", "scale", "sensitivity", "size", "count", "planned", "per_record",
    "sampling", "users",
)
# fmt: on
_SCHEDULE = ("version", "model", "unit", "protects", "relation", "n", "budget", "parts", "tree")
_RELATIONS = ("replace-one", "add-remove", "zero-out")
_LOCAL = ("nldp", "sldp")
_MODELS = ("central", *_LOCAL)


P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Planned(Deployment):
    """A plan or record. ``ways``: what one record meets, once for each way through the parts. ``rho`` and ``mu``: upper bounds of each
    way. ``faults``: why nothing is certified."""

    ways: tuple[tuple[Component, ...], ...] = ()
    rho: tuple[float, ...] = ()
    mu: tuple[float, ...] = ()
    faults: tuple[Diagnostic, ...] = ()


# ----------------------------------------------------------------------------------------------------------------- reading


@dataclass(slots=True)
class _Reading:
    """Collects why a document cannot be certified."""

    subject: str
    faults: list[Diagnostic] = field(default_factory=list)

    def fault(self, code: str, message: str, help: str = "") -> None:
        severity: Severity = "error" if code != "DP605" else "warning"
        self.faults.append(Diagnostic(code, severity, message, help))

    def attempt(self, read: Callable[P, T], *args: P.args, **more: P.kwargs) -> T | None:
        """What ``read`` gives, or None with the fault noted. A value outside its range ends the audit: DP672."""
        try:
            return read(*args, **more)
        except FormError as problem:
            if problem.what == "range":
                raise self.refuse(str(problem)) from None
            if problem.what == "missing":
                self.fault("DP605", f"missing: {problem.where}")
            else:
                self.fault("DP673" if problem.where.endswith(("kind", "type", "method")) else "DP671", str(problem))
            return None

    def refuse(self, message: str) -> SpecError:
        """Unusable input."""
        return SpecError([Diagnostic("DP672", "error", message, "docs/audit.md says what a plan holds")], path=self.subject)

    def list(self, value: Any, where: str) -> Sequence[Any]:
        if not isinstance(value, list):
            raise self.refuse(f"{where}: a list, not {_shown(value)}")
        return value

    def known(self, form: Mapping[str, Any], needed: Sequence[str], may: Sequence[str], where: str) -> bool:
        """Names missing fields and those that nothing uses; whether all that is needed is there."""
        missing = [name for name in needed if name not in form]
        for name in missing:
            self.fault("DP605", f"missing: {where}.{name}")
        for name in form:
            if name not in needed and name not in may:
                self.fault("DP671", f"{where}.{name}: a field that nothing here uses")
        return not missing

    def same(self, what: str, one: Any, other: Any, where: str) -> bool:
        """Whether two statements of one thing agree; a fault if not."""
        if isinstance(one, (int, float)) and isinstance(other, (int, float)) and not isinstance(one, bool) and not isinstance(other, bool):
            if _near(float(one), float(other)):
                return True
        elif one == other and type(one) is type(other):
            return True
        self.fault("DP603", f"{what} is {_shown(one)}, and {_shown(other)} {where}")
        return False


def _near(one: float, other: float, share: float = _CLOSE) -> bool:
    return abs(one - other) <= share * max(abs(one), abs(other))


def _shown(value: Any) -> str:
    found = f"{value:.9g}" if isinstance(value, float) else repr(value)
    return found if len(found) <= 60 else found[:57] + "..."


def _optional(form: Mapping[str, Any], name: str, where: str, low: float = 0.0, high: float = math.inf) -> float | None:
    if form[name] is None:
        return None
    found = number(form[name], f"{where}.{name}")
    if not low <= found <= high:
        raise FormError("range", f"{where}.{name}", f"{found:g} is outside [{low:g}, {high:g}]")
    return found


def read_plan(data: Mapping[str, Any]) -> Planned:
    """A plan. Raises :class:`SpecError` DP672 for a value outside the range of its meaning."""
    subject = data.get("analysis") if isinstance(data.get("analysis"), str) else "plan"
    reading = _Reading(str(subject) or "plan")
    if not _has_schedule(reading, data):
        return _nothing(reading)
    for name in _STATED:
        if name in data:
            help = "audit the file of `dpspec plan SPEC --out FILE`, or print the plan without that option"
            reading.fault("DP671", f"plan.{name}: an option of `dpspec plan` adds it, and no audit looks at it", help)
    data = {name: value for name, value in data.items() if name not in _STATED}
    if not reading.known(data, _PLAN, (*_PLAN_MAY, *_PRINTED), "plan"):
        return _nothing(reading)
    if "budget" in data:
        reading.attempt(_written, reading, data["budget"], data["schedule"])
    reading.same("format_version", data["format_version"], 1, "is the version that this reader knows")
    _source(reading, data)
    return _document(reading, data, _releases(reading, data["releases"]), _ROW)


def _written(reading: _Reading, said: Any, schedule: Any) -> None:
    """The budget as the spec states it, against that of the schedule."""
    planned = mapping(mapping(schedule, "schedule")["budget"], "schedule.budget") if "budget" in mapping(schedule, "schedule") else {}
    stated = mapping(said, "plan.budget")
    asked = {name for name, value in planned.items() if value is not None}
    if set(stated) != asked:
        reading.fault("DP603", f"plan.budget names {sorted(stated)}, and the schedule {sorted(asked)}")
        return
    for name in stated:
        at = f"plan.budget.{name}"
        form = mapping(stated[name], at)
        only(form, ("number", "exact"), at)
        reading.same(at, number(form["number"], f"{at}.number"), planned[name], "in the schedule")
        written = str(form["exact"])
        if not _FRACTION.fullmatch(written) or not 0 <= (exact := Fraction(written)) < 2**1000:
            raise FormError("unknown", f"{at}.exact", "no fraction of that size")
        reading.same(f"{at}.number", number(form["number"], f"{at}.number"), float(exact), "as a fraction")


def read_record(data: Mapping[str, Any]) -> Planned:
    """A record of a run."""
    sha = data.get("plan_sha256")
    reading = _Reading(f"record of plan {sha[:12] if isinstance(sha, str) else ''}".strip())
    if not _has_schedule(reading, data):
        return _nothing(reading)
    if not reading.known(data, _RECORD, _RECORD_MAY, "record"):
        return _nothing(reading)
    _entry(reading, data.get("ledger"))
    if data["mode"] not in ("release", "study"):
        reading.fault("DP673", f"record.mode: release or study, not {_shown(data['mode'])}")
    releases: dict[str, list[Any]] = {}
    for i, event in enumerate(reading.list(data["events"], "record.events")):
        name = reading.attempt(_word, event, "release", f"events[{i}]")
        releases.setdefault(str(name), []).append(event)
    return _document(reading, data, releases, _EVENT, seeded=data["mode"] == "study")


def _entry(reading: _Reading, entry: Any) -> None:
    """The entry of a ledger that a record names: `dpspec ledger verify` compares it; no verdict rests on it."""
    if entry is None:
        return
    if not isinstance(entry, Mapping):
        reading.fault("DP671", "record.ledger: not the name of an entry")
        return
    reading.known(entry, ("ledger", "account", "entry", "hash", "committed"), (), "record.ledger")


def _source(reading: _Reading, data: Mapping[str, Any]) -> None:
    """What a plan says of the data, of the text that it was made from and of the files that it rests on."""
    if data["status"] not in ("private", "public"):
        reading.fault("DP673", f"plan.status: private or public, not {_shown(data['status'])}")
    spec = reading.attempt(mapping, data["spec"], "plan.spec") or {}
    said, sha = spec.get("text"), spec.get("sha256")
    if (said is not None or sha is not None) and (not isinstance(said, str) or hashlib.sha256(said.encode()).hexdigest() != sha):
        reading.fault("DP603", "plan.spec.text is not the analysis that plan.spec.sha256 names")
    for i, file in enumerate(reading.list(data.get("files", []), "plan.files")):
        form, where = reading.attempt(mapping, file, f"plan.files[{i}]"), f"plan.files[{i}]"
        if form is not None and reading.known(form, ("role", "path"), ("sha256", "bytes", "query_sha256"), where):
            reading.attempt(text, form, "role", where)
            reading.attempt(text, form, "path", where)


def _word(form: Any, name: str, where: str) -> str:
    return text(mapping(form, where), name, where)


def _has_schedule(reading: _Reading, data: Mapping[str, Any]) -> bool:
    if data.get("schedule") is not None:
        return True
    by = data.get("dpspec")
    environment = data.get("environment")
    if by is None and isinstance(environment, Mapping):
        by = environment.get("dpspec")
    whose = f" (this one is of dpspec {by})" if isinstance(by, str) else ""
    reading.fault(
        "DP605",
        f"missing: schedule. A plan or record without it{whose} says neither how its draws compose nor on which parts of the "
        "records, so its table of noise certifies nothing",
        "plan again with this version: dpspec plan SPEC --out FILE",
    )
    return False


def _releases(reading: _Reading, releases: Any) -> dict[str, Sequence[Any]]:
    """The table of noise of each release."""
    found: dict[str, Sequence[Any]] = {}
    for i, release in enumerate(reading.list(releases, "plan.releases")):
        where = f"releases[{i}]"
        name = reading.attempt(_word, release, "name", where)
        if name is None or not reading.known(release, _RELEASE, _RELEASE_MAY, where):
            continue
        if name in found:
            reading.fault("DP603", f"two releases are named {name!r}")
        found[name] = reading.list(release["noise"], f"{where}.noise")
        for a in reading.list(release["assumptions"], f"{where}.assumptions"):
            if not isinstance(a, Mapping):
                raise reading.refuse(f"{where}.assumptions: a list of mappings")
            if a.get("role") not in ("privacy", "utility"):
                reading.fault("DP673", f"{where}.assumptions: the role of {_shown(a.get('name'))} is {_shown(a.get('role'))}")
            elif a["role"] == "privacy" and a.get("status") not in ("proved", "enforced"):
                reading.fault("DP622", f"{where}: privacy rests on {_shown(a.get('name'))}, which is {_shown(a.get('status'))}")
    return found


def _nothing(reading: _Reading) -> Planned:
    return Planned(reading.subject, Setting(neighbouring=""), Claim(), faults=tuple(reading.faults))


def _document(
    reading: _Reading, data: Mapping[str, Any], releases: Mapping[str, Sequence[Any]], fields: Sequence[str], seeded: bool = False
) -> Planned:
    guarantee = reading.attempt(mapping, data["guarantee"], "guarantee")
    schedule = reading.attempt(mapping, data["schedule"], "schedule")
    if guarantee is None or schedule is None:
        return _nothing(reading)
    if not reading.known(guarantee, _GUARANTEE, (), "guarantee") & reading.known(schedule, _SCHEDULE, (), "schedule"):
        return _nothing(reading)
    numbers = reading.attempt(_numbers, reading, guarantee, schedule)
    read = reading.attempt(from_json, schedule["tree"])
    if numbers is None or read is None:
        return _nothing(reading)
    claim, n, relation = numbers
    tree, levels, noise = read
    if "risk" in data:
        _risk(reading, claim, guarantee, data["risk"])
    if not levels:
        reading.fault("DP605", "missing: the levels and the noise of the draws")
        return _nothing(reading)
    local = guarantee["model"] in _LOCAL
    read_by = _parts(reading, schedule["parts"], tree, releases, n)
    found = draws(tree)
    rows = _rows(reading, releases, fields, found, levels, noise)
    for name in sorted(set(found) - set(rows)):
        reading.fault("DP603", f"draw {name!r} is in the schedule and not in the list of draws")
    if has_attributes(tree) and guarantee["protects"] != "attributes":
        reading.fault("DP603", f"parts are attributes of a record, and {_shown(guarantee['protects'])} are what is protected")
    if relation == "add-remove" and cut(tree):
        reading.fault("DP603", "parts are consecutive rows, and under add-remove one record less moves every later row into another part")
    costs = {}
    for name, leaf in found.items():
        _goes_with(reading, name, leaf, relation, local, read_by.get(name.partition(".")[0], n))
        costs[name] = _cost(reading, name, leaf.draw.mechanism, levels[name], noise[name], rows.get(name))
    try:
        met = ways(tree)
    except TooManyWays as problem:
        reading.fault("DP605", str(problem))
        met = []
    seed = Component("seed", breach=Breach("DP624", 1.0, "the noise of a study is drawn from a known seed and can be subtracted"))
    return Planned(
        reading.subject,
        Setting(
            model="local" if local else "central",
            unit=guarantee["unit"],
            neighbouring="local_replace" if local else relation.replace("-", "_"),
            n=float(n),
        ),
        claim,
        ways=tuple((*components(way, costs, relation), *((seed,) if seeded else ())) for way in met),
        rho=tuple(math.fsum(rho_of(costs, step) for step in way) for way in met),
        mu=tuple(math.sqrt(math.fsum(mu_squared(costs, step) for step in way)) for way in met),
        faults=tuple(dict.fromkeys(reading.faults)),
    )


def _numbers(reading: _Reading, g: Mapping[str, Any], s: Mapping[str, Any]) -> tuple[Claim, int, str]:
    """The claim, n and the relation of the sensitivities; what is stated twice is compared."""
    for name in ("model", "kind", "neighbours", "unit", "protects", "accountant", "checked_by"):
        text(g, name, "guarantee")
    for name in ("model", "unit", "protects", "relation"):
        text(s, name, "schedule")
    if s["version"] != SCHEDULE_VERSION:
        raise FormError("unknown", "schedule.version", f"{_shown(s['version'])}, and this reader knows {SCHEDULE_VERSION}")
    for name in ("model", "unit", "protects"):
        reading.same(f"guarantee.{name}", g[name], s[name], "stands in the schedule")
    if g["model"] not in _MODELS:
        raise FormError("unknown", "guarantee.model.kind", f"one of {', '.join(_MODELS)}, not {_shown(g['model'])}")
    relation = s["relation"]
    for where, word in (("schedule.relation", relation), ("guarantee.neighbours", g["neighbours"])):
        if word not in _RELATIONS:
            raise FormError("unknown", f"{where}.kind", f"one of {', '.join(_RELATIONS)}, not {_shown(word)}")
    if g["model"] == "central":
        reading.same("guarantee.neighbours", g["neighbours"], relation, "is the relation of the schedule's sensitivities")
    elif relation != "replace-one" or g["neighbours"] == "add-remove":
        reading.fault("DP603", "in a local model a report hides the replacement of a record: relation replace-one")
    numbers = {
        "epsilon": _optional(g, "epsilon", "guarantee"),
        "delta": _optional(g, "delta", "guarantee", 0, 1),
        "rho": _optional(g, "rho", "guarantee"),
        "mu": _optional(g, "mu", "guarantee"),
    }
    checked = _optional(g, "checked_epsilon", "guarantee")
    _kind(reading, g["kind"], numbers)
    budget = mapping(s["budget"], "schedule.budget")
    only(budget, tuple(numbers), "schedule.budget")
    allowed = {name: _optional(budget, name, "schedule.budget", 0, 1 if name == "delta" else math.inf) for name in numbers}
    kind = "zcdp" if allowed["rho"] is not None else "gdp" if allowed["mu"] is not None else "approx" if allowed["delta"] else "pure"
    if g["kind"] != kind and not (kind == "approx" and g["kind"] == "pure"):
        reading.fault("DP603", f"guarantee.kind is {g['kind']}, and the budget of the schedule is of kind {kind}")
    for name, value in numbers.items():
        most = allowed[name]
        if value is not None and most is not None and value > most * (1 + _CLOSE):
            reading.fault("DP603", f"guarantee.{name} is {value:.9g}, and the budget of the schedule allows {most:.9g}")
    epsilon = numbers["epsilon"]
    if epsilon is not None and checked is not None and checked > epsilon * (1 + 5e-3) + 1e-9:
        reading.fault("DP603", f"guarantee.checked_epsilon is {checked:.9g}, above the epsilon {epsilon:.9g}")
    n = positive(s["n"], "schedule.n")
    claim = Claim(numbers["epsilon"], numbers["delta"], numbers["rho"], numbers["mu"], variant=g["kind"])
    return claim, n, str(relation)


def _kind(reading: _Reading, kind: str, numbers: Mapping[str, float | None]) -> None:
    needed = {"pure": ("epsilon",), "approx": ("epsilon", "delta"), "zcdp": ("rho",), "gdp": ("mu",)}.get(kind)
    if needed is None:
        raise FormError("unknown", "guarantee.kind", f"pure, approx, zcdp or gdp, not {kind!r}")
    for name in needed:
        if numbers[name] is None:
            raise FormError("missing", f"guarantee.{name}", "")
    if kind == "pure" and numbers["delta"]:
        reading.fault("DP603", f"guarantee.kind is pure, and delta is {numbers['delta']:g}")
    if kind == "approx" and not numbers["delta"]:
        reading.fault("DP603", "guarantee.kind is approx, and delta is 0")
    if kind in ("zcdp", "gdp") and (numbers["epsilon"] is None) != (not numbers["delta"]):
        reading.fault("DP603", "guarantee: epsilon and delta of a rho or mu are stated together")
    odd = {"pure": ("rho", "mu"), "approx": (), "zcdp": ("mu",), "gdp": ("rho",)}[kind]
    for name in odd:
        if numbers[name] is not None:
            reading.fault("DP603", f"guarantee.{name} is stated, and the kind is {kind}")


def _risk(reading: _Reading, claim: Claim, g: Mapping[str, Any], risk: Any) -> None:
    """The sentences about attackers against the guarantee that they speak of."""
    from dpspec.privacy.guarantees import Guarantee
    from dpspec.privacy.risk import sentences

    try:
        stated = Guarantee(claim.variant, claim.epsilon, claim.delta, claim.rho, claim.mu)  # type: ignore[arg-type]
        known = sentences(stated, model=g["model"], protects=g["protects"], unit=g["unit"])
    except (ValueError, ArithmeticError):
        reading.fault("DP605", "missing: a guarantee that says what an attacker can do")
        return
    if not isinstance(risk, list) or tuple(risk) != tuple(known):
        reading.fault("DP603", "plan.risk does not follow from the guarantee", "; ".join(known))


def _parts(reading: _Reading, parts: Any, tree: Tree, releases: Mapping[str, Any], n: int) -> dict[str, int]:
    """How many records each release reads, and whether the parts are disjoint and those of the tree."""
    if parts is None:
        if _cut_by_release(tree):
            reading.fault("DP605", "missing: schedule.parts, the rows of each part of the tree")
        return {}
    rows: dict[str, tuple[int, int]] = {}
    for name, pair in (reading.attempt(mapping, parts, "schedule.parts") or {}).items():
        where = f"schedule.parts.{name}"
        if len(reading.list(pair, where)) != 2:
            raise reading.refuse(f"{where}: the first row and the end")
        first, end = (reading.attempt(whole, value, where) or 0 for value in pair)
        if not 0 <= first < end <= n:
            raise reading.refuse(f"{where}: rows {_shown(first)} to {_shown(end)} of {n}")
        rows[name] = (first, end)
    if set(rows) != set(releases):
        reading.fault("DP603", f"schedule.parts names {', '.join(sorted(rows))}, and the releases are {', '.join(sorted(releases))}")
    for (one, first_name), (other, second_name) in itertools.pairwise(sorted((pair, name) for name, pair in rows.items())):
        if other[0] < one[1]:
            reading.fault("DP603", f"the parts of {first_name!r} and {second_name!r} share rows {other[0]} to {min(one[1], other[1])}")
    if not isinstance(tree, Parallel) or len(tree.parts) != len(rows):
        reading.fault("DP603", f"schedule.parts names {len(rows)} parts, and the tree is not one body for each of them")
        return {}
    owners = [{name.partition(".")[0] for name in draws(part)} for part in tree.parts]
    if sorted(map(sorted, owners)) != sorted([name] for name in rows):
        reading.fault("DP603", "a part of the tree holds draws of another release than its own")
    if any(_cut_by_release(part) for part in tree.parts):
        reading.fault("DP605", "missing: the rows of a part inside a part")
    return {name: end - first for name, (first, end) in rows.items()}


def _cut_by_release(tree: Tree) -> bool:
    match tree:
        case Draw():
            return False
        case Steps(parts=parts):
            return any(_cut_by_release(part) for part in parts)
        case Parallel():
            return True
        case _:
            return _cut_by_release(tree.body)


# ------------------------------------------------------------------------------------------------------- rows against draws


def _rows(
    reading: _Reading,
    releases: Mapping[str, Sequence[Any]],
    fields: Sequence[str],
    found: Mapping[str, Leaf],
    levels: Mapping[str, float],
    noise: Mapping[str, Mapping[str, float]],
) -> dict[str, Mapping[str, Any]]:
    """The rows of the table (or the events of a record) by draw, each compared with the tree."""
    seen: dict[str, Mapping[str, Any]] = {}
    for release, table in releases.items():
        for i, row in enumerate(table):
            where = f"{release}.noise[{i}]"
            own = reading.attempt(_word, row, "name", where)
            if own is None or not reading.known(row, fields, _ROW_MAY, where):
                continue
            name = f"{release}.{own}"
            if name in seen:
                reading.fault("DP603", f"draw {name!r} stands twice")
            elif name not in found:
                reading.fault("DP603", f"draw {name!r} is not in the schedule")
            else:
                seen[name] = row
                reading.attempt(_row, reading, row, found[name], levels[name], noise[name], where)
    return seen


def _row(reading: _Reading, row: Mapping[str, Any], leaf: Leaf, level: float, noise: Mapping[str, float], where: str) -> None:
    mechanism = leaf.draw.mechanism
    sensitivity = mechanism.sensitivity if math.isfinite(mechanism.sensitivity) else None
    reading.same(f"{where}.mechanism", row["mechanism"], mechanism.kind, "stands in the schedule")
    reading.same(f"{where}.per", row["per"], leaf.draw.per, "stands in the schedule")
    stated = None if row["sensitivity"] is None else number(row["sensitivity"], f"{where}.sensitivity")
    if (stated is None) != (sensitivity is None):
        reading.fault("DP603", f"{where}.sensitivity is {_shown(stated)}, and {_shown(sensitivity)} stands in the schedule")
    elif stated is not None:
        reading.same(f"{where}.sensitivity", stated, sensitivity, "stands in the schedule")
    for name, known in (("scale", noise.get("scale")), ("level", level)):
        value = number(row[name], f"{where}.{name}")
        if value <= 0:
            raise FormError("range", f"{where}.{name}", f"{value:g} is not positive")
        reading.same(f"{where}.{name}", value, known, "stands in the schedule")
    for name, count in (("count", leaf.total), ("per_record", leaf.count), ("size", mechanism.size)):
        reading.same(f"{where}.{name}", positive(row[name], f"{where}.{name}"), count, "follows from the schedule")
    if "norm" in row:
        reading.same(f"{where}.norm", row["norm"], mechanism.norm, "is the mechanism's")
    if "planned" in row:
        reading.same(f"{where}.planned", positive(row["planned"], f"{where}.planned"), leaf.total, "follows from the schedule")
    if "each" in row:
        reading.same(f"{where}.each", positive(row["each"], f"{where}.each"), leaf.each, "follows from the schedule")
    if row.get("users") is not None:
        positive(row["users"], f"{where}.users")
    _sampling(reading, row["sampling"], leaf.sampling, where)


def _sampling(reading: _Reading, stated: Any, known: Sampled | None, where: str) -> None:
    if stated is None or known is None:
        if stated is not None or known is not None:
            reading.fault("DP603", f"{where}.sampling is {_shown(stated)}, and the schedule says {_shown(known and known.method)}")
        return
    form = mapping(stated, f"{where}.sampling")
    only(form, ("method", "rate"), f"{where}.sampling")
    rate = number(form["rate"], f"{where}.sampling.rate")
    if not 0 < rate <= 1:
        raise FormError("range", f"{where}.sampling.rate", f"a sampling rate lies in (0, 1], not {rate:g}")
    reading.same(f"{where}.sampling.method", form["method"], known.method, "stands in the schedule")
    reading.same(f"{where}.sampling.rate", rate, float(known.rate), "stands in the schedule")


def _goes_with(reading: _Reading, name: str, leaf: Leaf, relation: str, local: bool, n: int) -> None:
    """The draw against the model, the relation and the number of records that it reads."""
    mechanism: Any = leaf.draw.mechanism
    if (leaf.draw.per == "user") != local or is_channel(mechanism.kind) != local:
        reading.fault("DP603", f"draw {name!r} ({mechanism.kind}, per {leaf.draw.per}) does not go with the stated model")
    made_for = getattr(mechanism, "neighbours", relation)
    if made_for != relation:
        reading.fault("DP603", f"draw {name!r}: the mechanism is made for {made_for}, and the relation is {relation}")
    if getattr(mechanism, "moved", 2.0) < 2 and relation == "replace-one":
        reading.fault("DP603", f"draw {name!r}: one gradient, or one key, is said to move, and replacing a record moves two")
    for where, own in (("mechanism", getattr(mechanism, "n", n)), ("sampler", n if leaf.sampling is None else leaf.sampling.n)):
        if own != n:
            reading.fault("DP603", f"draw {name!r}: n is {own} in the {where}, and {n} records are read")


def _cost(reading: _Reading, name: str, mechanism: Any, level: float, noise: Mapping[str, float], row: Mapping[str, Any] | None) -> Cost:
    """The cost of a draw from its noise, with which the level and the row are compared."""
    family = mechanism.family
    try:
        made = noise_of(mechanism, level)
        value = spent_of(mechanism, noise)
        sure = float(mechanism.sure(noise)) if hasattr(mechanism, "sure") else None
    except (ValueError, ArithmeticError, MemoryError) as problem:
        reading.fault("DP673", f"draw {name!r}: {problem}")
        return Cost(family, math.inf, unknown=f"{name}: no cost follows from its noise")
    if set(made) != set(noise):
        reading.fault(
            "DP603", f"draw {name!r}: its noise has {', '.join(sorted(noise))}, that of {mechanism.kind} {', '.join(sorted(made))}"
        )
    for word in sorted(set(made) & set(noise)):
        if not _near(made[word], noise[word]):
            expected = f"level {level:.9g} with the stated sensitivity gives {made[word]:.9g}"
            reading.fault("DP603", f"draw {name!r}: {word} is {noise[word]:.9g}, and {expected}")
    stated = 1 / level if family in ("gaussian", "laplace") else level
    if value > stated * (1 + _SPENT):
        word = "mu" if family == "gaussian" else "epsilon"
        reading.fault("DP603", f"draw {name!r}: the level says {word} {stated:.9g}, and its noise spends {value:.9g}")
    value = max(value, _of_row(mechanism, noise, row))
    # squares of costs are taken below; one of this size is as good as none at all
    return Cost(family, value if value < 1e100 else math.inf, float(getattr(mechanism, "delta", 0.0)), sure)


def _of_row(mechanism: Any, noise: Mapping[str, float], row: Mapping[str, Any] | None) -> float:
    """What the row's scale and sensitivity would spend: a document that contradicts itself is refuted where one of its readings is."""
    if row is None or row["mechanism"] != mechanism.kind or isinstance(row["scale"], bool) or not isinstance(row["scale"], (int, float)):
        return 0.0
    try:
        sensitivity = row.get("sensitivity")
        fields = {f.name for f in dataclasses.fields(mechanism)}
        if isinstance(sensitivity, (int, float)) and "sensitivity" in fields and not isinstance(sensitivity, bool):
            mechanism = dataclasses.replace(mechanism, sensitivity=float(sensitivity))
        return spent_of(mechanism, {**noise, "scale": float(row["scale"])})
    except (ValueError, ArithmeticError):
        return 0.0


# --------------------------------------------------------------------------------------------------------------- judgement


def judge(planned: Planned) -> AuditResult:
    """The verdict on a plan or record: the worst way of one record against every number that is stated."""
    claim, setting = planned.claim, planned.setting
    delta = claim.delta or 0.0
    findings = list(planned.faults)
    stated = {
        "epsilon": claim.epsilon,
        "delta": claim.delta,
        "rho": claim.rho,
        "mu": claim.mu,
        "variant": claim.variant or None,
        "unit": setting.unit or None,
        "neighbours": setting.neighbouring or None,
    }
    breached = any(c.breach is not None and c.breach.delta > delta for way in planned.ways for c in way)
    exact = all(c.mu is not None and c.under is not None for way in planned.ways for c in way)  # Gaussian draws only, attained
    if not planned.ways or (planned.faults and not (breached or exact or delta == 0)):  # no certificate, and no cheap refutation
        return AuditResult(planned.subject, "cannot-verify", stated, tuple(dict.fromkeys(findings)))
    try:
        ranges = [epsilon_range(way, delta) for way in planned.ways]
        epsilon = _worst(ranges)
    except (ArithmeticError, ValueError, MemoryError) as problem:
        message = f"the numbers of the schedule are beyond what can be computed ({problem or type(problem).__name__})"
        return AuditResult(planned.subject, "cannot-verify", stated, (*findings, Diagnostic("DP605", "warning", message)))
    rho, mu = max(planned.rho), max(planned.mu)
    readings = [("epsilon", claim.epsilon, epsilon)]
    readings.append(("rho", claim.rho, Range(math.inf if breached else rho if exact else 0.0, rho, "sum of the draws")))
    readings.append(("mu", claim.mu, Range(math.inf if breached else mu if exact else 0.0, mu, "Gaussian DP of the draws")))
    asked = [(name, value, found) for name, value, found in readings if value is not None]
    verdict: Verdict = "holds"
    for name, value, found in asked:
        room = value * (1 + TOLERANCE) + 1e-12
        if found.low > room:
            verdict = "violated"
            shown = "no finite value" if math.isinf(found.low) else f"at least {found.low:.6g}"
            findings.append(Diagnostic("DP601", "error", f"{name}: {value:g} is stated, {shown} is true ({found.how})"))
        elif not found.high <= room:
            verdict = "not-certified" if verdict == "holds" else verdict
            shown = "no bound is proved" if math.isinf(found.high) else f"{found.high:.6g} is certified"
            findings.append(Diagnostic("DP602", "error", f"{name}: {value:g} is stated, {shown}"))
    findings += [
        Diagnostic(c.breach.code, "error", c.breach.why) for way in planned.ways for c in way if c.breach and c.breach.delta > delta
    ]
    unknown = [c for way in planned.ways for c in way if c.unknown]
    findings += [Diagnostic(c.how or "DP605", "warning", c.unknown) for c in unknown]
    crossed = withheld([Reading("epsilon", 0.0, r) for r in ranges])
    findings += crossed
    if crossed or (verdict != "violated" and (planned.faults or unknown or not asked)):
        verdict = "cannot-verify"
    if verdict == "holds" and (delta >= 1 or (setting.n is not None and delta * setting.n >= 1)):
        verdict = "vacuous"
        findings.append(Diagnostic("DP604", "error", f"delta {delta:g} is not below 1/n = {1 / (setting.n or 1):.3g}"))
    elif verdict == "holds" and setting.n is not None and delta * setting.n >= 0.1:
        findings.append(Diagnostic("DP604", "warning", f"delta {delta:g} is more than a tenth of 1/n"))
    loose = None
    if verdict == "holds":
        ratios = [value / found.high for _, value, found in asked if found.high > 0 and value > 0]
        loose = min(ratios) if ratios and min(ratios) >= LOOSE * (1 - TOLERANCE) else None
    if loose is not None:
        findings.append(Diagnostic("DP607", "info", f"the stated value is {loose:.3g} times the certified one"))
    static = StaticResult(epsilon.high, epsilon.low, delta, setting.neighbouring, epsilon.how, rho if math.isfinite(rho) else None, 0.0)
    ways = planned.ways
    return AuditResult(
        planned.subject,
        verdict,
        stated,
        tuple(dict.fromkeys(findings)),
        static,
        loose=loose,
        profile=lambda d: _worst([epsilon_range(way, d) for way in ways]),
    )


def _worst(found: Sequence[Range]) -> Range:
    """The pointwise greatest: what holds for whoever is worst off."""
    worst = max(found, key=lambda r: r.high)
    how = worst.how if len(found) == 1 else f"the worst of {len(found)} ways of one record through the parts: {worst.how}"
    return Range(max(r.low for r in found), worst.high, how)
