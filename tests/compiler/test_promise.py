"""Which promise implies which: against mechanisms whose losses are known, a partial order written by hand, and the laws of an order."""

from __future__ import annotations

import copy
import itertools
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from dpspec.compiler.diff import compare, matches, verdict
from dpspec.compiler.plan import make_plan, write
from dpspec.compiler.promise import Promise, implied, implies, promise_of
from dpspec.lang.source import parse_text
from dpspec.privacy.guarantees import Approx, Gdp, Pure, Zcdp
from tests.cli.call import call
from tests.compiler.specs import CLASSIFY, LOCAL, TWO

ONE = "epsilon = 1, delta = 1e-6"
RELATIONS = ("replace-one", "add-remove", "zero-out")


def body(text: str) -> dict[str, Any]:
    return make_plan(parse_text(text, path="t.dps", surface="dps"), check=False).to_json()


@pytest.fixture(scope="module")
def classify() -> dict[str, Any]:
    return body(CLASSIFY)


# -------------------------------------------------------------------------------------------------- statements, by their profiles


def points(s: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """The worst pair of (epsilon, delta)-DP as two laws on four points (Kairouz, Oh, Viswanath 2015)."""
    match s:
        case Pure(epsilon=e):
            e, d = e, 0.0
        case Approx(epsilon=e, delta=d):
            pass
        case _:
            return None
    p = np.array([d, (1 - d) * math.exp(e) / (1 + math.exp(e)), (1 - d) / (1 + math.exp(e)), 0.0])
    return p, p[::-1]


def delta_at(s: Any, epsilon: float) -> float | None:
    """delta(epsilon) of the statement, from the hockey-stick divergence of its worst pair; None for zCDP, which has none."""
    pair = points(s)
    if pair is not None:
        return float(np.maximum(pair[0] - math.exp(epsilon) * pair[1], 0).sum())
    if isinstance(s, Gdp):
        return float(norm.cdf(s.mu / 2 - epsilon / s.mu) - math.exp(epsilon) * norm.cdf(-s.mu / 2 - epsilon / s.mu))
    return None


def rate(s: Any) -> float:
    """The least rho of the statement's worst pair: sup over orders of the Renyi divergence over the order."""
    if isinstance(s, Zcdp):
        return s.rho
    if isinstance(s, Gdp):
        return s.mu**2 / 2
    p, q = points(s)
    if p[0] > 0:
        return math.inf
    orders = 1 + np.logspace(-6, 4, 400)
    kept = (p > 0) & (q > 0)
    logs = np.log(p[kept])[:, None] * orders + np.log(q[kept])[:, None] * (1 - orders)
    top = logs.max(axis=0)
    return float(((top + np.log(np.exp(logs - top).sum(axis=0))) / (orders - 1) / orders).max())


STATEMENTS = [
    *(Pure(e) for e in (0.0, 0.05, 0.5, 1.0, 2.0, 9.0)),
    *(Approx(e, d) for e in (0.0, 0.3, 1.0, 2.0, 4.0) for d in (1e-9, 1e-6, 1e-3, 0.2)),
    *(Zcdp(r) for r in (1e-4, 1e-3, 0.03, 0.5, 2.0, 40.0)),
    *(Gdp(m) for m in (0.05, 0.2367, 1.0, 3.0, 9.0)),
]
GRID = np.concatenate([[0.0], np.logspace(-3, math.log10(30), 60)])


@pytest.mark.parametrize("s", STATEMENTS, ids=str)
def test_statements_are_implied_exactly_when_their_worst_pairs_say_so(s: Any) -> None:
    for t in STATEMENTS:
        found = implied(s, t)
        if isinstance(s, Zcdp):  # a Gaussian and a randomised response that are rho-zCDP must keep whatever is said to follow
            if found:
                witnesses = [Gdp(math.sqrt(2 * s.rho)), Pure(min(s.rho, math.sqrt(2 * s.rho)))]
                assert all(_keeps(w, t) for w in witnesses if rate(w) <= s.rho * (1 + 1e-9)), (s, t)
            if isinstance(t, Pure):
                assert not found
        elif isinstance(t, Zcdp):
            assert not found or rate(s) <= t.rho * (1 + 1e-6), (s, t)  # sound; e^2/2 for pure epsilon is not the least rho
            assert found or rate(s) > t.rho * 0.3
        else:
            assert found is _keeps(s, t), (s, t)


def _keeps(s: Any, t: Any) -> bool:
    if isinstance(t, Zcdp):
        return rate(s) <= t.rho * (1 + 1e-9)
    if isinstance(t, Pure):
        return isinstance(s, Pure) and s.epsilon <= t.epsilon
    if isinstance(t, Approx):
        return bool(delta_at(s, t.epsilon) <= t.delta * (1 + 1e-9) + 1e-15)
    if isinstance(s, Approx):  # a delta that stays when epsilon grows is never a Gaussian's
        return False
    return all(delta_at(s, e) <= delta_at(t, e) * (1 + 1e-9) + 1e-17 for e in GRID)


def test_a_small_rho_is_within_a_gaussian_and_half_of_mu_squared_is_not() -> None:
    assert implied(Zcdp(0.001), Gdp(0.2367))
    assert not implied(Zcdp(0.2367**2 / 2), Gdp(0.2367))
    e = np.linspace(0, 3, 200)  # Bun and Steinke 2016, Lemma 3.5: delta(epsilon) <= exp(-(epsilon - rho)^2/(4 rho)) beyond rho
    assert (np.exp(-((e[60:] - 0.001) ** 2) / 0.004) <= [delta_at(Gdp(0.2367), v) for v in e[60:]]).all()


# ---------------------------------------------------------------------------------------------- relations, by mechanisms

#: What a count with N(0, 1) noise moves by, with all records in [-1, 1] or with values of its own, under each relation.
SENSITIVITIES = {
    "sum of records in [-1, 1]": {"add-remove": 1, "replace-one": 2, "zero-out": 1},
    "sum of records in [0, 1]": {"add-remove": 1, "replace-one": 1, "zero-out": 1},
    "how many records there are, n being public when it is": {"add-remove": 1, "replace-one": 0, "zero-out": 0},
    "how many are not zeroed": {"add-remove": 1, "replace-one": 0, "zero-out": 1},
}
SCALES = [Fraction(k, 4) for k in (1, 2, 4, 8, 16)]


def promise(relation: str, *statements: Any, **fields: str) -> Promise:
    known = {"status": "private", "model": "central", "protects": "records", "unit": "person", **fields}
    return Promise(neighbours=relation, statements=statements, **known)


def test_no_mechanism_keeps_a_promise_and_breaks_what_it_implies() -> None:
    promises = [promise(r, Gdp(m)) for r in RELATIONS for m in (0.25, 0.5, 1.0, 2.0, 4.0)]
    promises += [promise(r, Approx(e, d)) for r in RELATIONS for e in (0.5, 1.0, 2.0) for d in (1e-6, 1e-3)]
    shown = 0
    for p, q in itertools.product(promises, repeat=2):
        if not implies(p, q):
            continue
        for moved, scale in itertools.product(SENSITIVITIES.values(), SCALES):
            if _kept(moved[p.neighbours] * float(scale), p.statements[0]):
                assert _kept(moved[q.neighbours] * float(scale), q.statements[0]), (p, q, moved, scale)
                shown += 1
    assert shown > 500


def _kept(mu: float, s: Any) -> bool:
    return mu == 0 or (mu <= s.mu if isinstance(s, Gdp) else delta_at(Gdp(mu), s.epsilon) <= s.delta)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (("add-remove", 1.0), ("zero-out", 1.0), "weaker"),  # zero-out leaves n public
        (("zero-out", 1.0), ("add-remove", 1.0), "stronger"),
        (("zero-out", 1.0), ("add-remove", 2.0), "incomparable"),
        (("replace-one", 2.0), ("add-remove", 1.0), "stronger"),  # out and in: two steps
        (("replace-one", 2.0), ("add-remove", 1.01), "incomparable"),
        (("replace-one", 1.0), ("add-remove", 1.0), "incomparable"),
        (("add-remove", 1.0), ("replace-one", 1.0), "incomparable"),  # says nothing of another number of records
        (("add-remove", 1.0), ("replace-one", 2.0), "weaker"),
        (("add-remove", 1.0), ("replace-one", 1e-9), "incomparable"),
        (("replace-one", 2.0), ("zero-out", 1.0), "stronger"),
        (("zero-out", 1.0), ("replace-one", 1.0), "incomparable"),
    ],
)
@pytest.mark.parametrize("kind", ["pure", "approx", "zcdp", "gdp"])
def test_relations_by_hand(old: tuple[str, float], new: tuple[str, float], expected: str, kind: str) -> None:
    """The numbers are those of a guarantee that a group of two doubles: epsilon, the root of rho, mu."""
    p, q = (_numbered(kind, r, e) for r, e in (old, new))
    assert _direction(p, q) == expected


def _numbered(kind: str, relation: str, level: float) -> Promise:
    match kind:
        case "pure":
            return promise(relation, Pure(level))
        case "zcdp":
            return promise(relation, Zcdp(level**2))
        case "gdp":
            return promise(relation, Gdp(level))
        case _:  # a group of two of (1, d) is (2, d (1 + e))
            return promise(relation, Approx(level, 1e-6 * (1 + math.e) if level == 2.0 else 1e-6))


def _direction(p: Promise, q: Promise) -> str:
    forward, back = implies(q, p), implies(p, q)
    return "same" if forward and back else "stronger" if forward else "weaker" if back else "incomparable"


FIELDS = {
    "model": (["central", "sldp", "nldp"], lambda a, b: a >= b),
    "protects": (["records", "labels", "attributes"], lambda a, b: a == b or a == 0),
    "unit": (["person", "event", "household"], lambda a, b: a == b),
    "status": (["private", "public"], lambda a, b: a <= b),
}


@pytest.mark.parametrize("field", FIELDS)
def test_fields_by_hand(field: str) -> None:
    words, holds = FIELDS[field]
    for (a, x), (b, y) in itertools.product(enumerate(words), repeat=2):
        got = implies(promise("replace-one", Pure(1.0), **{field: x}), promise("replace-one", Pure(1.0), **{field: y}))
        assert got is holds(a, b), (x, y)


def test_it_is_a_partial_order() -> None:
    rng = np.random.default_rng(3)
    grid = [
        promise(r, *s, model=m, protects=p, unit=u)
        for r in RELATIONS
        for s in [
            (Pure(0.5),),
            (Pure(1.0),),
            (Approx(1.0, 1e-6),),
            (Approx(2.0, 3.8e-6),),
            (Zcdp(0.5),),
            (Gdp(0.2),),
            (Approx(1, 1e-6), Gdp(0.2)),
        ]
        for m in ("central", "nldp")
        for p in ("records", "labels")
        for u in ("person", "event")
    ]
    table = np.array([[implies(p, q) for q in grid] for p in grid])
    assert table.diagonal().all()
    chained = (table.astype(int) @ table.astype(int)) > 0
    worse = np.argwhere(chained & ~table)
    assert worse.size == 0, [(grid[i], grid[j]) for i, j in worse[:3]]
    for i, j in rng.integers(0, len(grid), (200, 2)):
        flip = {"weaker": "stronger", "stronger": "weaker"}
        one, other = _direction(grid[i], grid[j]), _direction(grid[j], grid[i])
        assert other == flip.get(one, one)


# ------------------------------------------------------------------------------------------------------------------- plans


PLANS = {
    "base": CLASSIFY,
    "zero-out": CLASSIFY.replace("replace-one", "zero-out"),
    "add-remove": CLASSIFY.replace("replace-one", "add-remove"),
    "event": CLASSIFY.replace("unit person", "unit event"),
    "double": CLASSIFY.replace(ONE, "epsilon = 2, delta = 1e-6"),
    "trade": CLASSIFY.replace(ONE, "epsilon = 2, delta = 1e-9"),
    "rho": CLASSIFY.replace(ONE, "rho = 1/1000"),
    "labels": CLASSIFY.replace("privacy central", "privacy central labels only"),
    "public": CLASSIFY.replace("  private,", "  public,"),
    "file": CLASSIFY.replace("  private,", '  from "a.csv" target "y"\n  private,'),
    "other file": CLASSIFY.replace("  private,", '  from "b.csv" target "y"\n  private,'),
    "two": TWO,
}


@pytest.fixture(scope="module")
def plans() -> dict[str, dict[str, Any]]:
    return {name: body(text) for name, text in PLANS.items()}


EXPECTED = {
    ("base", "event"): "incomparable",
    ("base", "zero-out"): "incomparable",
    ("add-remove", "zero-out"): "weaker",
    ("base", "double"): "weaker",
    ("base", "trade"): "weaker",  # both are one Gaussian: the mu of (1, 1e-6) is less than that of (2, 1e-9)
    ("base", "rho"): "stronger",
    ("base", "labels"): "weaker",
    ("base", "public"): "weaker",
    ("file", "other file"): "incomparable",
    ("base", "file"): "incomparable",
    ("base", "two"): "same",
}


@pytest.mark.parametrize(("old", "new"), EXPECTED)
def test_plans(old: str, new: str, plans: dict[str, dict[str, Any]]) -> None:
    expected = EXPECTED[old, new]
    assert verdict(compare(plans[old], plans[new])) == expected
    back = {"weaker": "stronger", "stronger": "weaker"}.get(expected, expected)
    assert verdict(compare(plans[new], plans[old])) == back


def test_the_verdict_of_every_pair_of_plans_is_that_of_its_promises(plans: dict[str, dict[str, Any]]) -> None:
    for (a, p), (b, q) in itertools.product(plans.items(), repeat=2):
        changes = compare(p, q)
        assert (changes == ()) is (a == b)
        got, whole = verdict(changes), _direction(promise_of(p), promise_of(q))
        if not {"file", "other file"} & {a, b}:
            assert got == whole, (a, b)
        elif a != b:
            assert got == "incomparable"


def _paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [p for k, v in value.items() for p in _paths(v, (*at, k))]
    if isinstance(value, list) and value:
        return [p for i, v in enumerate(value) for p in _paths(v, (*at, i))]
    return [at]


def test_nothing_in_a_plan_can_be_changed_unseen() -> None:
    """Every leaf of the JSON, replaced by something else or left out."""
    classify = make_plan(parse_text(CLASSIFY, path="t.dps", surface="dps")).to_json()
    ignored = {"dpspec", "diagnostics"}
    for path in _paths(classify):
        if path[0] in ignored or path == ("spec", "path"):
            continue
        for edit in ("other", None, -7, "gone"):
            changed = copy.deepcopy(classify)
            at = changed
            for key in path[:-1]:
                at = at[key]
            if edit == "gone" and isinstance(at, dict):
                del at[path[-1]]
            elif at[path[-1]] == edit:
                continue
            else:
                at[path[-1]] = edit
            assert not matches(classify, changed), path
            assert compare(classify, changed), path
            if path[0] in ("guarantee", "status", "risk", "spec") and path[1:2] not in (
                ("accountant",),
                ("checked_by",),
                ("checked_epsilon",),
            ):
                assert verdict(compare(classify, changed)) != "same", (path, edit)


@pytest.mark.parametrize("where", ["", "guarantee", "spec", "releases", "noise"])
def test_what_is_not_understood_is_incomparable(where: str, classify: dict[str, Any]) -> None:
    new = copy.deepcopy(classify)
    at = {"": new, "releases": new["releases"][0], "noise": new["releases"][0]["noise"][0]}.get(where) or new[where]
    at["novelty"] = 1
    assert verdict(compare(classify, new)) == "incomparable"
    assert verdict(compare(new, classify)) == "incomparable"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kind", "fdp"),
        ("neighbours", "swap"),
        ("model", "shuffled"),
        ("protects", "rows"),
        ("epsilon", "1"),
        ("epsilon", True),
        ("delta", 2),
        ("mu", -1),
    ],
)
def test_unknown_words_and_numbers_are_incomparable(key: str, value: Any, classify: dict[str, Any]) -> None:
    new = copy.deepcopy(classify)
    new["guarantee"][key] = value
    assert verdict(compare(classify, new)) == "incomparable"


def _with_files(plan: dict[str, Any], *files: dict[str, Any]) -> dict[str, Any]:
    return {**plan, "files": list(files)}


def test_files(classify: dict[str, Any]) -> None:
    private, shared = {"role": "data", "path": "a.csv"}, {"role": "public x", "path": "p.csv", "sha256": "0" * 64, "bytes": 10}
    old = _with_files(classify, private, shared)
    assert compare(old, _with_files(classify, private, shared)) == ()
    for new, expected in [
        (_with_files(classify, {**private, "path": "b.csv"}, shared), "incomparable"),
        (_with_files(classify, private, {**shared, "sha256": "1" * 64}), "incomparable"),
        (_with_files(classify, private, {**shared, "path": "q.csv"}), "same"),  # the same contents
        (_with_files(classify, private), "incomparable"),
        (_with_files(classify, private, shared, {"role": "vertices", "path": "v.csv", "sha256": "2" * 64}), "incomparable"),
        ({**classify, "files": "a.csv"}, "incomparable"),
    ]:
        assert verdict(compare(old, new)) == expected
        assert verdict(compare(new, old)) == expected
        assert not matches(old, new)


def test_a_plan_without_its_text_is_incomparable_when_the_analysis_is_another(classify: dict[str, Any]) -> None:
    other = body(CLASSIFY.replace("uniform-ball", "sphere"))
    assert verdict(compare(classify, other)) == "same"
    for plan in (classify, other):
        del (plan := copy.deepcopy(plan))["spec"]["text"]
        assert verdict(compare(plan, other if plan["sha256"] == classify["sha256"] else classify)) == "incomparable"
    forged = copy.deepcopy(other)
    forged["spec"]["text"] = classify["spec"]["text"]
    assert verdict(compare(classify, forged)) == "incomparable"


def test_parts_and_sampling_are_seen() -> None:
    halves = TWO.replace("  share 3", "  part 1/2").replace("  share 1", "  part 1/2")
    thirds = TWO.replace("  share 3", "  part 1/3").replace("  share 1", "  part 2/3")
    assert verdict(compare(body(halves), body(thirds))) == "incomparable"
    whole = body(CLASSIFY)
    sampled = copy.deepcopy(whole)
    sampled["releases"][0]["noise"][0]["sampling"] = {"method": "poisson", "rate": 0.01}
    assert verdict(compare(whole, sampled)) == "weaker"
    other = copy.deepcopy(sampled)
    other["releases"][0]["noise"][0]["sampling"]["method"] = "fixed"
    assert verdict(compare(sampled, other)) == "incomparable"


def test_local_privacy_is_stronger_than_central() -> None:
    local = body(LOCAL)
    central = copy.deepcopy(local)
    central["guarantee"]["model"] = "central"
    assert any(c.what == "model" and c.direction == "weaker" for c in compare(local, central))
    assert any(c.what == "model" and c.direction == "stronger" for c in compare(central, local))


@pytest.mark.parametrize(
    "broken", [{"releases": None}, {"releases": [1]}, {"guarantee": None}, {"guarantee": []}, {"risk": 3}, {"spec": None}, {"files": 7}]
)
def test_a_damaged_plan_is_incomparable_and_no_traceback(broken: dict[str, Any], classify: dict[str, Any]) -> None:
    assert verdict(compare(classify, {**classify, **broken})) == "incomparable"
    assert verdict(compare({**classify, **broken}, classify)) == "incomparable"


def test_the_command_ends_with_1_for_weaker_and_incomparable(tmp_path: Path) -> None:
    files = {}
    for name in ("base", "zero-out", "add-remove", "event", "double"):
        files[name] = tmp_path / f"{name}.dps"
        files[name].write_text(PLANS[name])
    for old, new, code in [
        ("base", "event", 1),
        ("event", "base", 1),
        ("add-remove", "zero-out", 1),
        ("zero-out", "add-remove", 0),
        ("base", "add-remove", 1),
        ("add-remove", "base", 1),
        ("double", "base", 0),
        ("base", "base", 0),
    ]:
        got = call("diff", str(files[old]), str(files[new]), "--format", "json")
        assert got.code == code, (old, new)
        assert json.loads(got.stdout)["privacy_weaker"] is (code == 1)


@pytest.mark.parametrize("key", ["risk", "files", "status", "analysis", "novelty"])
def test_against_compares_all_of_a_plan(key: str, tmp_path: Path) -> None:
    spec, lock = tmp_path / "a.dps", tmp_path / "a.json"
    spec.write_text(CLASSIFY)
    write(make_plan(parse_text(CLASSIFY, path=str(spec), surface="dps")), lock)
    assert call("plan", str(spec), "--against", str(lock), "-q").code == 0
    stored = json.loads(lock.read_text())
    stored[key] = {"risk": ["no attacker finds anybody"], "files": [{"role": "data", "path": "z.csv"}], "status": "public"}.get(
        key, "other"
    )
    lock.write_text(json.dumps(stored))
    got = call("plan", str(spec), "--against", str(lock), "-q")
    assert got.code == 1
    assert "DP420" in got.stderr


def test_a_stored_plan_is_the_plan_of_its_spec_though_diff_asks_no_second_accountant(classify: dict[str, Any]) -> None:
    stored = make_plan(parse_text(CLASSIFY, path="t.dps", surface="dps")).to_json()
    assert stored["sha256"] != classify["sha256"]
    assert compare(stored, classify) == compare(classify, stored) == ()
    assert verdict(compare(stored, {**classify, "novelty": 1})) == "incomparable"


def test_the_content_of_a_public_file_is_compared(tmp_path: Path) -> None:
    spec, file, lock = tmp_path / "a.dps", tmp_path / "v.csv", tmp_path / "a.json"
    spec.write_text(CLASSIFY.replace("over ball(l2, 1)", 'over polytope("v.csv")').replace("by dp-gd with T = 50", "by dp-frank-wolfe"))
    rows = np.vstack([np.eye(5), -np.eye(5)])
    file.write_text("\n".join(",".join(f"{v:g}" for v in row) for row in rows) + "\n")
    write(make_plan(parse_text(spec.read_text(), path=str(spec), surface="dps")), lock)
    assert call("plan", str(spec), "--against", str(lock), "-q").code == 0
    assert call("diff", str(lock), str(spec), "-q").code == 0
    file.write_text("\n".join(",".join(f"{v:g}" for v in row) for row in rows[::-1]) + "\n")  # the same set, other contents
    assert call("plan", str(spec), "--against", str(lock), "-q").code == 1
    got = call("diff", str(lock), str(spec), "--format", "json")
    assert got.code == 1
    assert json.loads(got.stdout)["privacy"] == "incomparable"


@pytest.mark.parametrize(
    ("key", "value"),
    [("relation", "zero-out"), ("unit", "event"), ("model", "nldp"), ("parts", {"weights": [0, 9]}), ("version", 9), ("more", 1)],
)
def test_a_schedule_that_says_something_else_than_the_guarantee_is_incomparable(key: str, value: Any, classify: dict[str, Any]) -> None:
    new = copy.deepcopy(classify)
    new["schedule"][key] = value
    assert verdict(compare(classify, new)) == "incomparable"
    assert verdict(compare(new, classify)) == "incomparable"
